//! Memory for the bytes of drives.
//!
//! With pages of 4 KiB almost every random access to a drive of some size misses the processor's
//! table of addresses, inside a virtual machine twice over. Huge pages avoid that, but the first
//! byte written to one waits until the system has zeroed 2 MiB, some 100 us. So a thread sees to
//! that beforehand: it always has one arena ready.

#![allow(unsafe_code)]

use crate::prefetch::prefetch;
use mynah_device::{Arena, ArenaSource};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Bytes of a huge page, and of others.
const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// Memory in huge pages, where the system has them.
#[derive(Debug)]
pub struct HugeArena {
    /// The first of `bytes` bytes, at a multiple of a huge page.
    base: NonNull<u8>,
    bytes: usize,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    is_provided: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this one has a single owner.
unsafe impl Send for HugeArena {}

// SAFETY: shared references only read.
unsafe impl Sync for HugeArena {}

impl HugeArena {
    /// So many bytes, all zero, that the system provides when they are used first.
    pub fn zeroed(bytes: usize) -> HugeArena {
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
        HugeArena { base, bytes, mapping, mapping_bytes, is_provided: false }
    }

    /// Has the system provide all of it, which takes a while.
    #[must_use]
    fn provide(mut self) -> HugeArena {
        for page in self.chunks_mut(PAGE_BYTES) {
            page[0] = std::hint::black_box(0);
        }
        self.is_provided = true;
        self
    }
}

/// Arenas that a thread has made ready beforehand: it begins when the first is asked for, which
/// does not wait for it, as no other does either, and ends when the source is gone.
pub fn source() -> ArenaSource<HugeArena> {
    let mut ready: Option<Receiver<HugeArena>> = None;
    Box::new(move |bytes| {
        if let Some(arena) = ready.as_ref().and_then(|ready| ready.try_recv().ok())
            && arena.len() == bytes
        {
            return arena;
        }
        if ready.is_none() {
            let (sender, receiver) = sync_channel(0);
            let work = move || while sender.send(HugeArena::zeroed(bytes).provide()).is_ok() {};
            // Without the thread all are provided when they are used.
            if thread::Builder::new().name("mynah-memory".into()).spawn(work).is_ok() {
                ready = Some(receiver);
            }
        }
        HugeArena::zeroed(bytes)
    })
}

impl Arena for HugeArena {
    fn is_provided(&self) -> bool {
        self.is_provided
    }

    #[inline]
    fn prefetch(&self, at: usize, bytes: usize) {
        prefetch(self.base.as_ptr(), self.bytes, at, bytes);
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
        let mut source = source();
        for bytes in [1, 4096, 5 << 20, 5 << 20] {
            let mut arena = source(bytes);
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
        let mut store = RamStore::from_source(source());
        let data: Vec<u8> = (0..40 << 20).map(|n: u32| (n >> 7) as u8).collect();
        store.write(12_345, &data);
        while store.prepare() {}
        let mut back = vec![1; data.len() + 2];
        store.read(None, 12_344, &mut back);
        assert_eq!((back[0], back[data.len() + 1]), (0, 0));
        assert_eq!(back[1..=data.len()], data);
    }
}
