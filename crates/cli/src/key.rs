//! Secrets and keys as options have them, and how they are kept out of what is written down.
//!
//! An option is secret because its value has the type [`Secret`]: that is what [`masked`] goes by.
//! What other users see of a running process (`ps`) is not hidden here; a file or the environment
//! keeps a key from them.

use crate::args::{AuthArgs, Cli};
use crate::failure::{Failure, say};
use clap::{Arg, Command, CommandFactory};
use mynah_wire::authentication::Choices;
use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

/// Printed in place of a secret.
const MASK: &str = "***";
/// The longest file with a key; keys have some hundred bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// Mode bits that let everybody read or change a file.
const OTHERS: u32 = 0o006;

/// The value of a secret option as it was given: `KEY`, `@FILE`, or `NQN=` with either behind it.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl Secret {
    /// Reads `KEY`, or `@FILE` with a key in it. A key is not repeated in messages.
    pub(crate) fn read<K: FromStr<Err: Display>>(&self, option: &str) -> Result<K, Failure> {
        read(option, &self.0)
    }

    /// Reads `NQN=KEY` for one host, or a key for any.
    pub(crate) fn of_host<K: FromStr<Err: Display>>(
        &self,
        option: &str,
    ) -> Result<(Option<String>, K), Failure> {
        let (nqn, key) = divided(&self.0);
        let key = match nqn {
            Some(nqn) => read(&format!("{option} of {nqn}"), key)?,
            None => read(option, key)?,
        };
        Ok((nqn.map(str::to_owned), key))
    }
}

/// The host that a key is for, if it says so, and the key.
fn divided(text: &str) -> (Option<&str>, &str) {
    // An NQN has no equals sign, but a key may end with some.
    match text.split_once('=') {
        Some((nqn, key)) if nqn.starts_with("nqn.") => (Some(nqn), key),
        _ => (None, text),
    }
}

fn read<K: FromStr<Err: Display>>(option: &str, text: &str) -> Result<K, Failure> {
    let fail = |problem: String| Failure::usage(format!("{option}: {problem}"), None);
    let from_file = match text.strip_prefix('@') {
        Some(path) => {
            let (text, is_open) =
                contents(path).map_err(|error| fail(format!("{path}: {error}")))?;
            if is_open {
                say(format_args!(
                    "warning: {option}: everybody on this machine can read or change {path}; \
                     `chmod 600 {path}` keeps it to you"
                ));
            }
            Some(text)
        }
        None => None,
    };
    from_file.as_deref().unwrap_or(text).trim().parse().map_err(|error| fail(format!("{error}")))
}

/// What is in a file, and whether everybody can get at it.
fn contents(path: &str) -> io::Result<(String, bool)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes: it is no key")));
    }
    Ok((text, metadata.is_file() && metadata.mode() & OTHERS != 0))
}

/// What to say where a secret option has no effect: it may not stand on the command line.
pub(crate) const FROM_ENVIRONMENT: &str = "keys are taken from the environment, too (MYNAH_HOST_KEY, MYNAH_TLS_PSK): unset those that \
     are not for this run";

/// The words of a command line with [`MASK`] in the place of every secret.
pub(crate) fn masked(words: impl Iterator<Item = String>) -> Vec<String> {
    let options = secret_options(&Cli::command());
    let mut is_secret = false;
    let mask = |word: String| {
        if std::mem::take(&mut is_secret) {
            return masked_value(&word);
        }
        is_secret = options.contains(&word);
        match word.split_once('=') {
            Some((option, value)) if options.contains(option) => {
                format!("{option}={}", masked_value(value))
            }
            _ => word,
        }
    };
    words.map(mask).collect()
}

/// The value of a secret option without the secret: a host's name and a file's are none.
fn masked_value(text: &str) -> String {
    let (nqn, key) = divided(text);
    let key = if key.starts_with('@') { key } else { MASK };
    nqn.map_or_else(|| key.to_owned(), |nqn| format!("{nqn}={key}"))
}

fn is_secret(option: &Arg) -> bool {
    option.get_value_parser().type_id() == TypeId::of::<Secret>()
}

/// The options of all verbs whose values are secrets, by every name they have, with dashes.
fn secret_options(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter(|option| is_secret(option)).flat_map(|option| {
        let aliases = option.get_all_aliases().unwrap_or_default();
        option.get_long().into_iter().chain(aliases).map(|name| format!("--{name}"))
    });
    let of_verbs = command.get_subcommands().flat_map(secret_options);
    own.chain(of_verbs).collect()
}

/// What authentications may use.
pub(crate) fn choices(args: &AuthArgs) -> Result<Choices, Failure> {
    let mut choices = Choices::default();
    if !args.auth_hash.is_empty() {
        choices.hashes = chosen("--auth-hash", &args.auth_hash)?;
    }
    if !args.auth_group.is_empty() {
        choices.groups = chosen("--auth-group", &args.auth_group)?;
    }
    Ok(choices)
}

fn chosen<C: FromStr<Err = String>>(option: &str, texts: &[String]) -> Result<Vec<C>, Failure> {
    let read = |text: &String| {
        text.parse().map_err(|error| Failure::usage(format!("{option}: {error}"), None))
    };
    texts.iter().map(read).collect()
}

/// What a program without TLS says to a TLS key.
#[cfg(not(feature = "tls"))]
pub(crate) fn without_tls() -> Failure {
    let help = "the Debian package has it; or build it with `cargo build --release --features tls`, which \
                needs OpenSSL 3";
    Failure::usage("--tls-psk: this mynah was built without TLS".to_owned(), Some(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Every option of every verb.
    fn options(command: &Command) -> Vec<Arg> {
        let own = command.get_arguments().cloned();
        own.chain(command.get_subcommands().flat_map(options)).collect()
    }

    #[test]
    fn what_sounds_like_a_secret_is_one() {
        let words = ["key", "keys", "psk", "secret", "password", "passphrase", "token", "pin"];
        for option in options(&Cli::command()) {
            let name = option.get_long().unwrap_or_default();
            // Keys of values are none, nor what language models read.
            let of_values = ["keys", "key-space", "trace-token-bytes"].contains(&name);
            let sounds_so = !of_values && name.split('-').any(|word| words.contains(&word));
            assert_eq!(sounds_so, is_secret(&option), "--{name}");
        }
    }

    #[test]
    fn secret_options_are_alike() {
        let options: Vec<Arg> = options(&Cli::command()).into_iter().filter(is_secret).collect();
        assert!(options.len() >= 6, "{options:?}");
        for option in options {
            let name = option.get_id().as_str();
            let variable = format!("MYNAH_{}", name.to_uppercase());
            assert_eq!(option.get_env().unwrap(), variable.as_str());
            assert!(option.is_hide_env_values_set(), "--help shows what {variable} is");
            assert_eq!(option.get_short(), None, "what is masked are long options");
            let value = option.get_value_names().unwrap()[0].as_str();
            assert!(value.ends_with("KEY|@FILE"), "--{name} {value}");
        }
    }

    #[test]
    fn no_secret_is_left_in_a_command_line() {
        let key = "DHHC-1:00:c2VjcmV0=:";
        let names = secret_options(&Cli::command());
        assert!(names.contains("--dhchap-secret"), "hidden names are masked, too: {names:?}");
        for name in names {
            for value in [key.to_owned(), format!("nqn.2026-01.org.example:a={key}")] {
                for words in [vec![name.clone(), value.clone()], vec![format!("{name}={value}")]] {
                    let line = ["mynah".to_owned(), "serve".to_owned()].into_iter().chain(words);
                    let line = masked(line.chain(["--quiet".to_owned()])).join(" ");
                    assert!(!line.contains("c2VjcmV0"), "{line}");
                    assert!(line.contains(&name) && line.ends_with("*** --quiet"), "{line}");
                    assert_eq!(line.contains("nqn.2026-01.org.example:a=***"), value != key);
                }
            }
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        let line = "mynah serve --host-key nqn.2026-01.org.example:a=@/etc/mynah/a --tls-psk=@b \
                    --controller-key @c --auth-hash sha256 --store file:--host-key";
        assert_eq!(masked(line.split_whitespace().map(str::to_owned)).join(" "), {
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        });
    }

    #[test]
    fn files_with_keys_are_short_and_best_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let text = path.to_str().unwrap();
        std::fs::write(&path, " 17\n").unwrap();
        for (mode, is_open) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(contents(text).unwrap(), (" 17\n".to_owned(), is_open), "{mode:o}");
        }
        assert!(Secret::from(format!("@{text}")).read::<u32>("--host-key").is_ok_and(|n| n == 17));
        let host = Secret::from(format!("nqn.2026-01.org.example:a=@{text}"));
        let (nqn, number) = host.of_host::<u32>("--host-key").ok().unwrap();
        assert_eq!((nqn.as_deref(), number), (Some("nqn.2026-01.org.example:a"), 17));
        assert!(contents("/dev/zero").unwrap_err().to_string().contains("no key"));
    }
}
