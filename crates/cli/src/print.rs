//! Standard output, and who reads it: a reader that goes away is no failure.

use crate::failure::Failure;
use std::io::{self, Write};

/// Prints `text` unchanged to standard output.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// Prints bytes unchanged to standard output.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::Stdout)
}
