//! Whether a read or a program of a die's planes goes first.

use super::BuiltIn;
use mynah_stamp::Span;

/// A die that is free, and could start a host's read as well as a host's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// How long the first read has waited.
    pub read: Span,
    /// How long the first unit of the page has waited.
    pub program: Span,
    /// Whether the program came first.
    pub program_is_older: bool,
    /// Whether the drive would have the program go first.
    pub configured: bool,
}

/// Whether a read or a program goes first, of those of hosts. What collection and the mapping table
/// take goes by the drive's own rules.
pub trait PlaneScheduling {
    /// Whether this is not the drive's own.
    #[doc(hidden)]
    const OWN: bool = true;

    /// Whether the program goes first.
    fn program_goes(&mut self, waits: Waits) -> bool;
}

impl PlaneScheduling for BuiltIn {
    const OWN: bool = false;

    #[inline(always)]
    fn program_goes(&mut self, waits: Waits) -> bool {
        waits.configured
    }
}
