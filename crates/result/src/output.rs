//! Files that appear whole or not at all: written under a temporary name beside their
//! place, and renamed when they are complete.
//!
//! Temporary names are random, and what is there already is never opened: in a folder that others
//! can write to, they cannot have it be another file. A file that takes the place of another has
//! its mode. A new one is for whom the umask says, or for its owner alone if it holds what hosts
//! have stored or done ([`PendingFile::create_private`]).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Ending of temporary names, and the number of random characters before it.
const ENDING: &str = ".partial";
const RANDOM: usize = 6;

/// Mode bits of files: who may read, write and execute them.
const MODE: u32 = 0o777;
/// Read and write for everybody, as far as the umask permits.
const BY_UMASK: u32 = 0o666;
/// Read and write for the owner alone.
const PRIVATE: u32 = 0o600;

/// A file could not be written.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("cannot write {}: {error}", path.display())]
pub struct OutputError {
    /// Where the file was to be.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
    /// Whether it could not even be begun.
    pub at_start: bool,
}

/// Temporary files of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes what is being written, for a process that ends in the middle of it.
pub fn remove_unfinished() {
    let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in std::mem::take(&mut *all) {
        // One that cannot be removed does no harm.
        let _ = std::fs::remove_file(path);
    }
}

/// A temporary file that is to be removed if the process ends meanwhile.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Unfinished {
    fn new(path: &Path) -> Unfinished {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        Unfinished(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// A file that is being written. Dropped without [`PendingFile::keep`], it is removed.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    /// `None`: the place is written directly.
    temporary: Option<NamedTempFile>,
    unfinished: Option<Unfinished>,
}

impl PendingFile {
    /// Creates the file under its temporary name. A place that exists and is not an ordinary
    /// file, such as a pipe or `/dev/null`, is written directly.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<PendingFile, OutputError> {
        PendingFile::with_mode(path, BY_UMASK)
    }

    /// Like [`PendingFile::create`], with permissions for the owner alone.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_private(path: &Path) -> Result<PendingFile, OutputError> {
        PendingFile::with_mode(path, PRIVATE)
    }

    fn with_mode(path: &Path, mode: u32) -> Result<PendingFile, OutputError> {
        let begun = || -> io::Result<Option<NamedTempFile>> {
            let there = std::fs::metadata(path).ok();
            if path.is_dir() || path.file_name().is_none() {
                return Err(File::options().write(true).open(path).err().unwrap_or_else(|| {
                    // Nothing else is like that.
                    io::ErrorKind::IsADirectory.into()
                }));
            }
            if there.as_ref().is_some_and(|there| !there.is_file()) {
                return Ok(None);
            }
            let temporary = temporary(path, mode)?;
            if let Some(there) = there {
                let mode = there.permissions().mode() & MODE;
                temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
            }
            Ok(Some(temporary))
        };
        match begun() {
            Ok(temporary) => {
                let unfinished = temporary.as_ref().map(|file| Unfinished::new(file.path()));
                Ok(PendingFile { path: path.to_owned(), temporary, unfinished })
            }
            Err(error) => Err(OutputError { path: path.to_owned(), error, at_start: true }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file. For a pipe this blocks until somebody reads it.
    ///
    /// # Errors
    /// If the system has no descriptor left, or the place cannot be opened.
    pub fn file(&self) -> io::Result<File> {
        match &self.temporary {
            Some(temporary) => temporary.as_file().try_clone(),
            None => File::options().write(true).open(&self.path),
        }
    }

    /// `error` with the file's name.
    pub fn error(&self, error: io::Error) -> OutputError {
        OutputError { path: self.path.clone(), error, at_start: false }
    }

    /// Writes all of the file, and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self, text: &str) -> Result<(), OutputError> {
        let written = self.file().and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| self.error(error))?;
        self.keep()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn keep(self) -> Result<(), OutputError> {
        let PendingFile { path, temporary, unfinished } = self;
        let Some(temporary) = temporary else { return Ok(()) };
        let persisted = temporary.persist(&path);
        drop(unfinished);
        match persisted {
            Ok(_) => Ok(()),
            Err(failed) => Err(OutputError { path, error: failed.error, at_start: false }),
        }
    }
}

/// What temporary names of `path` begin with, and the folder that they are in.
fn place_of(path: &Path) -> (OsString, &Path) {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    (prefix, folder.unwrap_or(Path::new(".")))
}

/// Removes what processes that were killed have left of `path`. Nobody may be writing it.
pub fn remove_left_over(path: &Path) {
    let (prefix, folder) = place_of(path);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let middle = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let random = middle.and_then(|middle| middle.strip_suffix(ENDING.as_bytes()));
        let is_ours =
            random.is_some_and(|it| it.len() == RANDOM && it.iter().all(u8::is_ascii_alphanumeric));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // One that cannot be removed does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Creates a temporary file beside `path`, with an unpredictable name.
fn temporary(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let (prefix, folder) = place_of(path);
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(mode);
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(ENDING)
        .rand_bytes(RANDOM)
        .make_in(folder, |path| options.open(path))
}

/// `path` for one of several: `run.csv` becomes `run-point-2.csv` for `point-2`. No name, no change.
pub fn named(path: &Path, name: &str) -> PathBuf {
    if name.is_empty() {
        return path.to_owned();
    }
    let mut file = path.file_stem().unwrap_or_default().to_owned();
    file.push(format!("-{name}"));
    if let Some(extension) = path.extension() {
        file.push(".");
        file.push(extension);
    }
    path.with_file_name(file)
}

/// Writes `text` to the file at `path`, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), OutputError> {
    PendingFile::create(path)?.finish(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_over_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.state");
        let (left, others) = (
            [".a.state.OstJCx.partial", ".a.state.000000.partial"],
            [
                "a.state",
                ".a.state.OstJC.partial",
                ".a.state.Ost-Cx.partial",
                ".b.state.OstJCx.partial",
            ],
        );
        for name in left.iter().chain(&others) {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join(".a.state.folder.partial")).unwrap();
        remove_left_over(&path);
        assert!(left.iter().all(|name| !folder.path().join(name).exists()));
        assert!(others.iter().all(|name| folder.path().join(name).exists()));
        assert!(folder.path().join(".a.state.folder.partial").is_dir());
        // Names are still made like that.
        let pending = PendingFile::create(&path).unwrap();
        remove_left_over(&path);
        let name = pending.temporary.as_ref().map(|it| it.path().to_owned()).unwrap();
        assert!(!name.exists());
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let pending = PendingFile::create(&path).unwrap();
        pending.file().unwrap().write_all(b"half").unwrap();
        drop(pending);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write(&path, "whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(folder.path(), "").is_err());
        assert!(write(&folder.path().join("no/such/folder"), "").is_err());
        assert!(write(Path::new("/"), "").is_err());
        write(Path::new("/dev/null"), "gone").unwrap();
    }

    #[test]
    fn what_is_unfinished_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let known =
            || UNFINISHED.lock().unwrap().iter().filter(|it| it.starts_with(folder.path())).count();
        let path = folder.path().join("out.json");
        let pending = PendingFile::create(&path).unwrap();
        assert_eq!(known(), 1);
        pending.finish("whole").unwrap();
        drop(PendingFile::create(&path).unwrap());
        assert_eq!(known(), 0);
    }

    #[test]
    fn a_file_is_for_whom_it_should_be() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & MODE;
        let [public, private, plain] = ["a", "b", "c"].map(|name| folder.path().join(name));
        File::create(&plain).unwrap();
        write(&public, "").unwrap();
        assert_eq!(mode(&public), mode(&plain), "as the umask says");
        PendingFile::create_private(&private).unwrap().finish("").unwrap();
        assert_eq!(mode(&private), PRIVATE);
        // Whoever has changed that has had a reason.
        for path in [&public, &private] {
            for wanted in [0o640, 0o604, 0o600] {
                std::fs::set_permissions(path, Permissions::from_mode(wanted)).unwrap();
                write(path, "again").unwrap();
                assert_eq!(mode(path), wanted);
                PendingFile::create_private(path).unwrap().finish("and again").unwrap();
                assert_eq!(mode(path), wanted);
            }
        }
    }

    #[test]
    fn a_link_under_a_temporary_name_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, victim] = ["out.json", "victim"].map(|name| folder.path().join(name));
        std::fs::write(&victim, "precious").unwrap();
        // A name that can be guessed.
        let guess = folder.path().join(format!(".out.json.{}.partial", std::process::id()));
        std::os::unix::fs::symlink(&victim, &guess).unwrap();
        write(&path, "whole").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(guess.is_symlink());
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
        // Not even one that is guessed right.
        let names: Vec<_> = (0..2)
            .map(|_| {
                let pending = PendingFile::create(&path).unwrap();
                pending.temporary.as_ref().unwrap().path().to_owned()
            })
            .collect();
        assert_ne!(names[0], names[1]);
    }
}
