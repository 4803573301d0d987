//! Counters of instructions, and the fuse that stops a processor.

use crate::qemu::Counter;
use mynah_guest_protocol::{Counts, PROCESSORS_MAX, Processor};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A fuse that has come to this calls. So high that no guest executes as many instructions, and so
/// low that adding to it never overflows.
pub(crate) const BLOWN: u64 = 1 << 62;
/// A loop around PAUSE that waits is no longer than this; the kernel's idle loop has some ten
/// instructions.
const LOOP_MAX: u64 = 64;

/// What the processors have executed.
pub(crate) struct Meter {
    executed: Counter,
    fuse: Counter,
    /// So many processors have begun: the others have no counters.
    begun: AtomicU32,
    /// By processor: what it had executed at its last PAUSE, and all that it did between one and
    /// the next in a loop that waits. Only the processors' thread writes here.
    paused_at: [AtomicU64; PROCESSORS_MAX],
    idle: [AtomicU64; PROCESSORS_MAX],
}

impl Meter {
    pub(crate) fn new() -> Meter {
        let [executed, fuse] = Counter::pair();
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        let begun = AtomicU32::new(0);
        Meter { executed, fuse, begun, paused_at: zeros(), idle: zeros() }
    }

    pub(crate) fn executed(&self) -> Counter {
        self.executed
    }

    pub(crate) fn fuse(&self) -> Counter {
        self.fuse
    }

    /// A processor begins: it calls at its first block.
    pub(crate) fn begins(&self, processor: u32) {
        self.begun.fetch_max(processor + 1, Ordering::Release);
        self.blow(processor);
    }

    /// Has a processor call at its next block.
    pub(crate) fn blow(&self, processor: u32) {
        if processor < self.begun.load(Ordering::Acquire) {
            self.fuse.set(processor, BLOWN);
        }
    }

    /// Has a processor call when it has executed so many instructions more.
    pub(crate) fn set(&self, processor: u32, instructions: u64) {
        self.fuse.set(processor, BLOWN - instructions.min(BLOWN));
    }

    /// A processor is at a PAUSE in the kernel.
    pub(crate) fn paused(&self, processor: u32) {
        let at = processor as usize;
        let (Some(paused_at), Some(idle)) = (self.paused_at.get(at), self.idle.get(at)) else {
            return;
        };
        let now = self.executed.get(processor);
        let passed = now.saturating_sub(paused_at.swap(now, Ordering::Relaxed));
        if passed <= LOOP_MAX {
            idle.fetch_add(passed, Ordering::Relaxed);
        }
    }

    /// What the first `processors` of them have executed.
    pub(crate) fn counts(&self, processors: u32, current: u32) -> Counts {
        let begun = self.begun.load(Ordering::Acquire);
        let of = |processor: u32| match self.idle.get(processor as usize) {
            Some(idle) if processor < begun => Processor {
                executed: self.executed.get(processor),
                idle: idle.load(Ordering::Relaxed),
            },
            _ => Processor::default(),
        };
        Counts { current, processors: (0..processors).map(of).collect() }
    }
}
