//! Counters of instructions, each a fuse that stops a processor.

use crate::qemu::Counter;
use mynah_guest_protocol::{Counts, PROCESSORS_MAX, Processor};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A fuse that has come to this calls. So high that no guest executes as many instructions, and so
/// low that adding to it never overflows.
pub(crate) const BLOWN: u64 = 1 << 62;
/// A loop around PAUSE that waits is no longer than this; the kernel's idle loop has some ten
/// instructions.
const LOOP_MAX: u64 = 64;

/// What is known of a processor beside its fuse.
#[derive(Debug, Default)]
struct Known {
    /// What it had executed when its fuse was last set,
    executed: AtomicU64,
    /// what the fuse was set to,
    start: AtomicU64,
    /// and what it was before.
    before: AtomicU64,
    /// What it had executed at its last PAUSE.
    paused_at: AtomicU64,
    /// All that it has executed between one PAUSE and the next in a loop that waits.
    idle: AtomicU64,
}

/// What the processors have executed. Fuses are set by their own thread, or while that waits; the
/// numbers beside them are atomic only because Rust wants it.
pub(crate) struct Meter {
    fuse: Counter,
    /// So many processors have begun: the others have no fuses.
    begun: AtomicU32,
    known: [Known; PROCESSORS_MAX],
}

impl Meter {
    pub(crate) fn new() -> Meter {
        let known = std::array::from_fn(|_| Known::default());
        Meter { fuse: Counter::new(), begun: AtomicU32::new(0), known }
    }

    pub(crate) fn fuse(&self) -> Counter {
        self.fuse
    }

    /// A processor begins: it calls at its first block.
    pub(crate) fn begins(&self, processor: u32) {
        if let Some(known) = self.known.get(processor as usize) {
            known.start.store(BLOWN, Ordering::Relaxed);
            known.before.store(BLOWN, Ordering::Relaxed);
            self.fuse.set(processor, BLOWN);
            self.begun.fetch_max(processor + 1, Ordering::Release);
        }
    }

    /// Has a processor call at its next block.
    pub(crate) fn blow(&self, processor: u32) {
        self.set(processor, 0);
    }

    /// Has a processor call when it has executed so many instructions more.
    pub(crate) fn set(&self, processor: u32, instructions: u64) {
        let Some(known) = self.known(processor) else { return };
        let to = BLOWN - instructions.min(BLOWN);
        known.executed.store(self.executed(processor), Ordering::Relaxed);
        known.before.store(self.fuse.get(processor), Ordering::Relaxed);
        known.start.store(to, Ordering::Relaxed);
        self.fuse.set(processor, to);
    }

    /// What is known of a processor that has begun.
    fn known(&self, processor: u32) -> Option<&Known> {
        let has_begun = processor < self.begun.load(Ordering::Acquire);
        self.known.get(processor as usize).filter(|_| has_begun)
    }

    /// What a processor has executed.
    fn executed(&self, processor: u32) -> u64 {
        let Some(known) = self.known(processor) else { return 0 };
        let fuse = self.fuse.get(processor);
        let start = known.start.load(Ordering::Relaxed);
        let since = match fuse >= start {
            true => fuse - start,
            // The processor was adding to the fuse at the moment in which it was set, so that it was
            // not set after all: QEMU's main thread has accessed the drive while the guest was running.
            false => fuse.saturating_sub(known.before.load(Ordering::Relaxed)),
        };
        known.executed.load(Ordering::Relaxed).saturating_add(since)
    }

    /// A processor is at a PAUSE in the kernel.
    pub(crate) fn paused(&self, processor: u32) {
        let Some(known) = self.known(processor) else { return };
        let now = self.executed(processor);
        let passed = now.saturating_sub(known.paused_at.swap(now, Ordering::Relaxed));
        if passed <= LOOP_MAX {
            known.idle.fetch_add(passed, Ordering::Relaxed);
        }
    }

    /// What the first `processors` of them have executed.
    pub(crate) fn counts(&self, processors: u32, current: u32) -> Counts {
        let of = |processor: u32| Processor {
            executed: self.executed(processor),
            idle: self.known(processor).map_or(0, |known| known.idle.load(Ordering::Relaxed)),
        };
        Counts { current, processors: (0..processors).map(of).collect() }
    }
}
