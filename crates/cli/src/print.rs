//! Standard output, and who reads it: a reader that goes away is no failure.

use crate::failure::Failure;
use std::io::{self, Write};

/// Prints `text` as it is.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// The same of bytes, whatever they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::Stdout)
}
