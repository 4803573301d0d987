//! Memory for the bytes of drives.
//!
//! With pages of 4 KiB almost every random access to a drive of some size misses the processor's
//! table of addresses, inside a virtual machine twice over. Huge pages avoid that, but the first
//! byte written to one waits until the system has zeroed 2 MiB, some 100 us. So a thread sees to
//! that beforehand: it always has one arena ready.

use crate::prefetch::prefetch;
use mynah_device::{Arena, ArenaSource};
use mynah_memory::Pages;
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Bytes of a page that is not huge.
const PAGE_BYTES: usize = 4096;

/// Memory in huge pages, where the system has them.
#[derive(Debug)]
pub struct HugeArena {
    pages: Pages,
    is_provided: bool,
}

impl HugeArena {
    /// So many bytes, all zero, that the system provides when they are used first.
    pub fn zeroed(bytes: usize) -> HugeArena {
        HugeArena { pages: Pages::zeroed(bytes), is_provided: false }
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
        prefetch(self.as_ptr(), self.len(), at, bytes);
    }
}

impl Deref for HugeArena {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.pages
    }
}

impl DerefMut for HugeArena {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_device::{RamStore, Store};
    use mynah_memory::HUGE_PAGE_BYTES;

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
