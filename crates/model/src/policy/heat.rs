//! Which data are hot, where that decides to which blocks they go.

use super::BuiltIn;

/// Which units are hot, on a drive that tells hot from cold
/// ([`WriteFrontiers::HotCold`](crate::config::WriteFrontiers::HotCold)). Units are counted through all
/// namespaces, a mapping unit each.
pub trait Heat {
    /// Whether this is not the drive's own.
    #[doc(hidden)]
    const OWN: bool = true;

    /// A unit goes to flash: whether it is hot now. `counted` is what the drive's counters of writes
    /// say.
    fn written(&mut self, unit: u32, counted: bool) -> bool;

    /// Whether a unit that collection moves is hot.
    fn is_hot(&self, unit: u32, counted: bool) -> bool;
}

impl Heat for BuiltIn {
    const OWN: bool = false;

    #[inline(always)]
    fn written(&mut self, _: u32, counted: bool) -> bool {
        counted
    }

    #[inline(always)]
    fn is_hot(&self, _: u32, counted: bool) -> bool {
        counted
    }
}
