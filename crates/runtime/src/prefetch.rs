//! Bytes that will soon be used come near the processor.

use mynah_device::store::PREFETCHED_BYTES;

/// Bytes that come near together.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Asks for the cache lines of `bytes` bytes from offset `at` of the `length` at `base`, as far as
/// they are there; of more than [`PREFETCHED_BYTES`], the first. Waits for nothing.
#[inline]
pub(crate) fn prefetch(base: *const u8, length: usize, at: usize, bytes: usize) {
    let end = at.saturating_add(bytes.min(PREFETCHED_BYTES)).min(length);
    let mut line = at / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    while line < end {
        mynah_memory::prefetch(base.wrapping_add(line));
        line += CACHE_LINE_BYTES;
    }
}
