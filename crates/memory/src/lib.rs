//! The memory of a process whose large tables are read and written at random: they lie in huge
//! pages, so that the processor need not walk the page tables for nearly every access, and what
//! will soon be looked at can be brought near.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: mynah_memory::HugePages = mynah_memory::HugePages;
//!
//! let table = vec![0u8; 64 << 20];
//! assert_eq!(table.as_ptr() as usize % (2 << 20), 0);
//! ```

// An allocator deals in raw memory, and a prefetch in addresses.
#![allow(unsafe_code)]

mod file;
mod pages;
mod system;

pub use file::MappedFile;
pub use pages::{HUGE_PAGE_BYTES, Pages};
pub use system::{available_bytes, max_rss_bytes};

use pages::{map, mapped_bytes, unmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::OnceLock;

/// Bytes from which on an allocation gets pages of its own. glibc, too, takes all of these from
/// the kernel and gives them back when they are freed (`M_MMAP_THRESHOLD`, mallopt(3)).
const LARGE: usize = 32 << 20;
/// The system's allocator for all that is small. What has 32 MiB or more is mapped, aligned to
/// 2 MiB, and the kernel is asked for huge pages (`MADV_HUGEPAGE`, madvise(2)): where they are
/// switched off it gives ordinary ones.
pub struct HugePages;

/// Says that so many bytes of memory were wanted and are not to be had.
static SAY: OnceLock<fn(usize)> = OnceLock::new();

/// Has the process say why it ends, and end with exit code 1, where it has no memory: Rust's own
/// way is to abort, which is a signal. `say` gets the bytes that were wanted, on whichever thread,
/// and must neither allocate nor take locks. For allocations by [`HugePages`], and [`Pages`].
pub fn end_without_memory(say: fn(usize)) {
    // What was given first stays.
    let _ = SAY.set(say);
}

/// There are no `bytes` of memory. Returns only if nobody has asked for more than null.
#[cold]
fn refused(bytes: usize) {
    if let Some(say) = SAY.get() {
        say(bytes);
        // SAFETY: `_exit` ends the process at once, whatever its threads are at: what runs at an
        // ordinary exit might want memory.
        unsafe { libc::_exit(1) }
    }
}

/// The same, of an allocation that may have failed.
fn checked(allocation: *mut u8, bytes: usize) -> *mut u8 {
    if allocation.is_null() {
        refused(bytes);
    }
    allocation
}

/// Asks for the cache line of `address`, whatever that is, and waits for nothing. Does nothing
/// where the processor's way to do so is not known.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address, and changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= HUGE_PAGE_BYTES
}

// SAFETY: what `map` returns is aligned, its own and as long as was asked for; every allocation
// goes back to where it came from, which its layout tells.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return checked(map(layout.size()), layout.size());
        }
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // What has just been mapped is zero.
            return checked(map(layout.size()), layout.size());
        }
        // SAFETY: as above.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, allocation: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: it was mapped with this length, and the caller uses it no more.
            return unsafe { unmap(allocation, layout.size()) };
        }
        // SAFETY: it came from the system's allocator with this layout.
        unsafe { System.dealloc(allocation, layout) }
    }

    unsafe fn realloc(&self, allocation: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        if !is_large(layout) && !is_large(wanted) {
            // SAFETY: it came from the system's allocator with this layout.
            return checked(unsafe { System.realloc(allocation, layout, size) }, size);
        }
        if is_large(layout) && is_large(wanted) && mapped_bytes(layout.size()) == mapped_bytes(size)
        {
            return allocation;
        }
        // SAFETY: the new allocation is not the old one, and both are as long as what is copied.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(allocation, moved, layout.size().min(size));
                self.dealloc(allocation, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_of_memory() {
        assert!(max_rss_bytes() > 1 << 20);
        assert!(available_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }

    #[global_allocator]
    static ALLOCATOR: HugePages = HugePages;

    #[test]
    fn large_tables_are_aligned_and_zero() {
        for size in [LARGE, LARGE + 1, LARGE + HUGE_PAGE_BYTES, LARGE * 3 - 1] {
            let mut table = vec![0u8; size];
            assert_eq!(table.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            assert!(table.iter().all(|&byte| byte == 0));
            (table[0], table[size - 1]) = (1, 2);
        }
    }

    #[test]
    fn what_grows_and_shrinks_keeps_its_contents() {
        let mut table: Vec<u32> = Vec::new();
        for number in 0..(3 * LARGE / 4) as u32 {
            table.push(number);
        }
        table.truncate(LARGE / 4 + 5);
        table.shrink_to_fit();
        assert!(table.iter().copied().eq(0..(LARGE / 4 + 5) as u32));
        table.truncate(100);
        table.shrink_to_fit();
        assert!(table.iter().copied().eq(0..100));
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let mut table: Vec<u8> = Vec::new();
        assert!(table.try_reserve(isize::MAX as usize).is_err());
    }

    #[test]
    fn small_things_and_odd_alignments_come_from_the_system() {
        let aligned = Layout::from_size_align(LARGE, 2 * HUGE_PAGE_BYTES).unwrap();
        assert!(!is_large(aligned));
        // SAFETY: the layout is not empty, and the memory is given back as it was taken.
        unsafe {
            let allocation = HugePages.alloc(aligned);
            assert_eq!(allocation as usize % (2 * HUGE_PAGE_BYTES), 0);
            HugePages.dealloc(allocation, aligned);
        }
    }
}
