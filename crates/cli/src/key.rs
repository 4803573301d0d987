//! Secrets and keys as options have them.

use crate::args::AuthArgs;
use crate::failure::Failure;
use mynah_wire::authentication::Choices;
use std::fmt::Display;
use std::str::FromStr;

/// Reads `KEY`, or `@FILE` with a key in it: others can see a command line. A key is not
/// repeated in messages.
pub(crate) fn read<K: FromStr<Err: Display>>(option: &str, text: &str) -> Result<K, Failure> {
    let fail = |problem: String| Failure::usage(format!("{option}: {problem}"), None);
    let from_file = match text.strip_prefix('@') {
        Some(path) => {
            Some(std::fs::read_to_string(path).map_err(|error| fail(format!("{path}: {error}")))?)
        }
        None => None,
    };
    from_file.as_deref().unwrap_or(text).trim().parse().map_err(|error| fail(format!("{error}")))
}

/// Reads `NQN=KEY` for one host, or a key for any.
pub(crate) fn of_host<K: FromStr<Err: Display>>(
    option: &str,
    text: &str,
) -> Result<(Option<String>, K), Failure> {
    // An NQN has no equals sign, but a key may end with some.
    match text.split_once('=') {
        Some((nqn, key)) if nqn.starts_with("nqn.") => {
            Ok((Some(nqn.to_owned()), read(&format!("{option} of {nqn}"), key)?))
        }
        _ => Ok((None, read(option, text)?)),
    }
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
    let help = "build it with `cargo build --release --features tls`, which needs OpenSSL 3";
    Failure::usage("--tls-psk: this mynah was built without TLS".to_owned(), Some(help))
}
