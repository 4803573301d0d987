//! Memory from the kernel, in huge pages where it has them.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// Bytes of a huge page on x86-64, and of one with 4 KiB pages on AArch64. Where huge pages are
/// larger, memory is just not aligned to them.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes that are mapped for `size`; `None` if they cannot be.
pub(crate) fn mapped_bytes(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(HUGE_PAGE_BYTES)
}

/// Maps `size` bytes (not 0), all of them zero, at a multiple of a huge page, and asks for huge
/// pages (`MADV_HUGEPAGE`, madvise(2)); null if the kernel has no memory.
pub(crate) fn map(size: usize) -> *mut u8 {
    let lengths =
        mapped_bytes(size).and_then(|bytes| Some((bytes, bytes.checked_add(HUGE_PAGE_BYTES)?)));
    let Some((bytes, reserved)) = lengths else { return ptr::null_mut() };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at a place of the kernel's choice touches nobody's memory.
    let mapping = unsafe { mmap_anonymous(ptr::null_mut(), reserved, access, MapFlags::PRIVATE) };
    let Ok(mapping) = mapping else { return ptr::null_mut() };
    let skipped = (mapping as usize).next_multiple_of(HUGE_PAGE_BYTES) - mapping as usize;
    let base = mapping.cast::<u8>().wrapping_add(skipped);
    // SAFETY: both pieces are of the mapping just made, outside of what is handed out, and
    // consist of whole pages. A piece that cannot be given back just stays mapped. A system
    // without huge pages refuses the advice: then the pages are small.
    unsafe {
        if skipped > 0 {
            let _ = munmap(mapping, skipped);
        }
        if skipped < HUGE_PAGE_BYTES {
            let _ = munmap(base.wrapping_add(bytes).cast(), HUGE_PAGE_BYTES - skipped);
        }
        let _ = madvise(base.cast(), bytes, Advice::LinuxHugepage);
    }
    base
}

/// Gives back what was mapped. Where that fails the memory stays mapped, which harms nobody.
///
/// # Safety
/// `base` is what [`map`] returned for `size`, and nothing refers to it any more.
pub(crate) unsafe fn unmap(base: *mut u8, size: usize) {
    if let Some(bytes) = mapped_bytes(size) {
        // SAFETY: as the caller says.
        let _ = unsafe { munmap(base.cast(), bytes) };
    }
}

/// Bytes in huge pages, where the system has them, or in small ones that can be made huge later.
#[derive(Debug)]
pub struct Pages {
    /// The first of `bytes` bytes, at a multiple of a huge page.
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this one has a single owner.
unsafe impl Send for Pages {}

// SAFETY: shared references only read.
unsafe impl Sync for Pages {}

impl Pages {
    /// So many bytes, all zero, that the system provides when they are used first. Ends the
    /// process if it has none, as for any other memory ([`crate::end_without_memory`]).
    ///
    /// # Panics
    /// If that is half of all addresses or more.
    pub fn zeroed(bytes: usize) -> Pages {
        let layout = Layout::from_size_align(bytes.max(1), HUGE_PAGE_BYTES);
        let layout = layout.expect("there is less than half of all addresses");
        match NonNull::new(map(layout.size())) {
            Some(base) => Pages { base, bytes },
            None => {
                crate::refused(layout.size());
                handle_alloc_error(layout)
            }
        }
    }
}

impl Pages {
    /// The same in small pages, of which each is provided by itself.
    ///
    /// # Panics
    /// As [`Pages::zeroed`].
    pub fn zeroed_small(bytes: usize) -> Pages {
        let pages = Pages::zeroed(bytes);
        // SAFETY: the range is that of the mapping, and the advice changes no contents. A system
        // without huge pages refuses it: then the pages are small anyway.
        unsafe {
            let _ = madvise(pages.base.as_ptr().cast(), bytes, Advice::LinuxNoHugepage);
        }
        pages
    }

    /// Moves the small pages of the huge page at `at`, a multiple of [`HUGE_PAGE_BYTES`], into one
    /// huge page (`MADV_COLLAPSE`, madvise(2), Linux 6.1), which copies them: some 100 us, or
    /// several ms where a virtual machine has to get the memory first. Where that is not to be
    /// had everything stays as it is.
    ///
    /// # Panics
    /// If there is no whole huge page at `at`.
    pub fn collapse(&mut self, at: usize) {
        let range = &mut self[at..at + HUGE_PAGE_BYTES];
        assert!(at.is_multiple_of(HUGE_PAGE_BYTES), "a huge page begins at {at}");
        let (base, bytes) = (range.as_mut_ptr().cast::<c_void>(), range.len());
        // SAFETY: the range is within the mapping, borrowed alone, and no advice changes contents.
        unsafe {
            if madvise(base, bytes, Advice::LinuxHugepage).is_ok() {
                let _ = libc::madvise(base, bytes, libc::MADV_COLLAPSE);
            }
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is that long, zeroed by the system, and lives as long as this; that
        // nobody writes meanwhile is what the borrow says.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; that nobody else has it is what the borrow says.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, of this length, and nothing refers to it any more.
        unsafe { unmap(self.base.as_ptr(), self.bytes.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_keep_their_bytes_when_they_become_huge() {
        let mut pages = Pages::zeroed_small(2 * HUGE_PAGE_BYTES + 5);
        assert!(pages.iter().all(|&byte| byte == 0));
        for (number, byte) in pages.iter_mut().enumerate() {
            *byte = (number >> 7) as u8;
        }
        for at in [HUGE_PAGE_BYTES, 0, 0] {
            pages.collapse(at);
            assert!(pages.iter().enumerate().all(|(number, &byte)| byte == (number >> 7) as u8));
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn there_is_no_huge_page_at_the_end() {
        Pages::zeroed_small(HUGE_PAGE_BYTES + 5).collapse(HUGE_PAGE_BYTES);
    }
}
