//! Memory for the bytes of drives that answer at once.
//!
//! With pages of 4 KiB almost every random access to a drive of some size misses the processor's
//! table of addresses, inside a virtual machine twice over. Huge pages avoid that, at a price:
//! the first byte written to one waits until the system has zeroed 2 MiB, some 100 us.

#![allow(unsafe_code)]

use mynah_device::Arena;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// Bytes of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// What is brought into the cache at once; the processor follows by itself where there is more.
const PREFETCH_BYTES_MAX: usize = 512;
const CACHE_LINE_BYTES: usize = 64;

/// Memory in huge pages, where the system has them.
#[derive(Debug)]
pub struct HugeArena {
    /// The first of `bytes` bytes, at a multiple of a huge page.
    base: NonNull<u8>,
    bytes: usize,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this one has a single owner.
unsafe impl Send for HugeArena {}

// SAFETY: shared references only read.
unsafe impl Sync for HugeArena {}

impl Arena for HugeArena {
    fn zeroed(bytes: usize) -> HugeArena {
        let layout = Layout::from_size_align(bytes.max(1), HUGE_PAGE_BYTES);
        let layout = layout.expect("arenas are smaller than half of all addresses");
        let mapping_bytes = layout.size() + HUGE_PAGE_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address to put it at, a mapping does not touch others.
        let mapping =
            unsafe { mmap_anonymous(ptr::null_mut(), mapping_bytes, access, MapFlags::PRIVATE) };
        let Some(mapping) = mapping.ok().and_then(|at| NonNull::new(at.cast::<u8>())) else {
            handle_alloc_error(layout)
        };
        let skipped = mapping.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: at most a huge page less one byte is skipped, and the mapping has one more than
        // the arena needs.
        let base = unsafe { mapping.add(skipped) };
        // SAFETY: advice on the arena's own memory. A system without huge pages refuses it: then
        // the pages are small.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        HugeArena { base, bytes, mapping, mapping_bytes }
    }

    #[inline]
    fn prefetch(&self, at: usize, bytes: usize) {
        let end = at.saturating_add(bytes.min(PREFETCH_BYTES_MAX)).min(self.bytes);
        let mut line = at / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
        while line < end {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                let address = self.base.as_ptr().wrapping_add(line);
                // SAFETY: a prefetch never faults, whatever the address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
            }
            line += CACHE_LINE_BYTES;
        }
    }
}

impl Deref for HugeArena {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is that long, zeroed by the system, and lives as long as this; that
        // nobody writes meanwhile is what the borrow says.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for HugeArena {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; that nobody else has it is what the borrow says.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for HugeArena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing refers to it any more. Where it fails
        // the memory stays mapped, which harms nobody.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_device::{RamStore, Store};

    #[test]
    fn it_is_zero_and_keeps_what_is_written() {
        for bytes in [1, 4096, 5 << 20] {
            let mut arena = HugeArena::zeroed(bytes);
            assert_eq!(arena.len(), bytes);
            assert!(arena.as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES));
            assert!(arena.iter().all(|&byte| byte == 0));
            let last = bytes - 1;
            arena[last] = 7;
            arena.prefetch(last, 4096);
            assert_eq!(arena[last], 7);
        }
    }

    #[test]
    fn a_store_can_be_made_of_it() {
        let mut store = RamStore::<HugeArena>::default();
        let data: Vec<u8> = (0..40 << 20).map(|n: u32| (n >> 7) as u8).collect();
        store.write(12_345, &data);
        let mut back = vec![1; data.len() + 2];
        store.read(None, 12_344, &mut back);
        assert_eq!((back[0], back[data.len() + 1]), (0, 0));
        assert_eq!(back[1..=data.len()], data);
    }
}
