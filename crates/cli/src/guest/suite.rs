//! A guest's files, made of a Debian suite's packages by the script that makes those of the guest
//! tests, and kept for the next time.

use super::system;
use crate::failure::Failure;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BUILD: &str = include_str!("../../../../tests/guest/build");
const INIT: &str = include_str!("../../../../tests/guest/init");

/// The files of a suite's guest. The first time they are made, which takes minutes, and Debian's
/// mirror.
pub(super) fn files(suite: &str) -> Result<PathBuf, Failure> {
    if !is_name(suite) {
        let help = "as in `--suite sid`; a suite whose QEMU is 10.1 or newer";
        return Err(Failure::usage(format!("--suite {suite}: no name of a suite"), Some(help)));
    }
    let folder = cache()?.join(suite);
    let scripts = folder.join("tests/guest");
    let kept = |error: io::Error| {
        Failure::failed(format!("{}: {error}", folder.display()), Some("XDG_CACHE_HOME is another"))
    };
    fs::create_dir_all(&scripts).map_err(kept)?;
    for (name, text) in [("init", INIT), ("build", BUILD)] {
        put(&scripts.join(name), text).map_err(kept)?;
    }
    // It makes nothing that is there already, and says what it lacks.
    let mut command = Command::new("bash");
    command.arg(scripts.join("build")).env("MYNAH_GUEST_SUITE", suite);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(system)?;
    match status.success() {
        true => Ok(folder.join("target/guest")),
        false => {
            let help = "what it lacks is said above; MYNAH_GUEST_MIRROR is another mirror";
            Err(Failure::failed(format!("no guest was made of {suite}"), Some(help)))
        }
    }
}

/// Whether a suite may be called that; it becomes a folder, and a word of apt's.
fn is_name(suite: &str) -> bool {
    suite.starts_with(|first: char| first.is_ascii_lowercase())
        && suite.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
}

/// The folder in which guests are cached.
fn cache() -> Result<PathBuf, Failure> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let folder = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    folder.map(|it| it.join("mynah/guest")).ok_or_else(|| {
        let help = "set HOME or XDG_CACHE_HOME";
        Failure::usage("--suite: there is no folder to keep a guest in".to_owned(), Some(help))
    })
}

/// Writes an executable script, atomically.
fn put(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let new = path.with_extension(std::process::id().to_string());
    fs::write(&new, text)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_named() {
        for good in ["sid", "trixie-backports", "forky"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "../sid", "a b", "Sid", "-x", "sid/main"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_script_is_put_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("build");
        for text in ["one", "two", "two"] {
            put(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
