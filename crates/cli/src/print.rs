//! Standard output, and who reads it: a reader that goes away is no failure.

use crate::failure::Failure;
use mynah_report::summary::Detail;
use std::io::{self, Write};
use std::path::Path;

/// Prints `text` unchanged to standard output.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// Prints bytes unchanged to standard output.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::Stdout)
}

/// How much of a run is to be told.
pub(crate) fn detail(verbose: bool) -> Detail {
    if verbose { Detail::Full } else { Detail::Short }
}

/// Refuses to tell more in a summary that is not printed.
pub(crate) fn refuse_verbose(verbose: bool, json: Option<&Path>) -> Result<(), Failure> {
    match verbose && json == Some(Path::new("-")) {
        true => {
            let help = "the JSON has all of it; with --json FILE there is a summary, too";
            let message = "-v has no effect here: --json - is printed in place of the summary";
            Err(Failure::usage(message, Some(help)))
        }
        false => Ok(()),
    }
}
