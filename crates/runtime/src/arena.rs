//! Memory for the bytes of drives.
//!
//! With pages of 4 KiB almost every random access to a drive of some size misses the processor's
//! table of addresses, inside a virtual machine twice over. Huge pages avoid that, but the first
//! byte written to one waits until the system has zeroed 2 MiB: some 100 us, or 5 ms where a
//! virtual machine has to get the memory first. So a thread sees to that beforehand, which always
//! has one arena ready. It runs only when a processor has nothing else to do: where the drive and
//! its hosts keep all of them busy it would take their time. What it has not got ready has small
//! pages at first, each provided by itself when it is used, and gets huge ones when the drive
//! rests.

use crate::prefetch::prefetch;
use mynah_device::{Arena, ArenaSource};
use mynah_memory::{HUGE_PAGE_BYTES, Pages};
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

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

    /// The same in small pages, which [`Arena::consolidate`] makes huge.
    fn zeroed_small(bytes: usize) -> HugeArena {
        HugeArena { pages: Pages::zeroed_small(bytes), is_provided: false }
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

/// Has the system run this thread only when a processor has nothing else to do (`SCHED_IDLE`,
/// sched(7)). Where it will not, the thread is one like others.
fn run_when_idle() {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
}

/// Arenas that a thread has made ready beforehand, as far as it could: it begins when the first is
/// asked for, which does not wait for it, as no other does either, and ends when the source is
/// gone.
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
            let work = move || {
                run_when_idle();
                while sender.send(HugeArena::zeroed(bytes).provide()).is_ok() {}
            };
            // Without the thread all are provided when they are used.
            if thread::Builder::new().name("mynah-memory".into()).spawn(work).is_ok() {
                ready = Some(receiver);
            }
        }
        HugeArena::zeroed_small(bytes)
    })
}

impl Arena for HugeArena {
    fn is_provided(&self) -> bool {
        self.is_provided
    }

    fn consolidate(&mut self, at: usize, bytes: usize) {
        if !self.is_provided {
            for at in (at..at + bytes).step_by(HUGE_PAGE_BYTES) {
                self.pages.collapse(at);
            }
        }
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
        assert!(store.is_scattered());
        while store.is_scattered() {
            store.consolidate();
        }
        let mut back = vec![1; data.len() + 2];
        store.read(None, 12_344, &mut back);
        assert_eq!((back[0], back[data.len() + 1]), (0, 0));
        assert_eq!(back[1..=data.len()], data);
    }
}
