//! What goes past a pSLC cache although it has room.

use super::BuiltIn;

/// A write that comes to a drive with a pSLC cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheWrite {
    /// Counted from 0.
    pub namespace: usize,
    /// In sectors of 512 bytes.
    pub sector: u64,
    pub sectors: u32,
    /// Whether the drive would have it go past the cache: it goes on with a stream in order that has
    /// written `slc.sequential_cutoff` already.
    pub configured: bool,
}

/// Who may write to a pSLC cache, on a drive that asks (`slc.sequential_cutoff`).
pub trait CacheAdmission {
    /// Whether this is not the drive's own.
    #[doc(hidden)]
    const OWN: bool = true;

    /// Whether a write goes past the cache.
    fn goes_past(&mut self, write: CacheWrite) -> bool;
}

impl CacheAdmission for BuiltIn {
    const OWN: bool = false;

    #[inline(always)]
    fn goes_past(&mut self, write: CacheWrite) -> bool {
        write.configured
    }
}
