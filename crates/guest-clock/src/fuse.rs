//! The counter of a guest with one processor: added to by code that QEMU generates.

use crate::meter::LOOP_MAX;
use crate::qemu::{Block, Counter};
use mynah_guest_protocol::{Counts, Processor};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A fuse whose count has come to this calls back. So high that no guest executes as many
/// instructions, and so low that adding to it never overflows.
const BLOWN: u64 = 1 << 62;

/// A counter that stops the processor when it has come to [`BLOWN`]. It is written by the processor's
/// own thread alone, since the code that adds to it would lose what another writes; the numbers beside
/// it are atomic only because Rust wants it.
pub(crate) struct Fuse {
    fuse: Counter,
    /// Another thread has the processor stop at its next block: 1 or 0. Nothing is added to it.
    stop: Counter,
    /// The processor has begun; before, there are no counters.
    has_begun: AtomicBool,
    /// Instructions that were executed when the fuse was last set.
    executed: AtomicU64,
    /// Count that the fuse was last set to.
    start: AtomicU64,
    /// Instructions that were executed at the last PAUSE.
    paused_at: AtomicU64,
    /// All that was executed between one PAUSE and the next in a loop that waits.
    idle: AtomicU64,
}

impl Fuse {
    pub(crate) fn new() -> Fuse {
        Fuse {
            fuse: Counter::new(),
            stop: Counter::new(),
            has_begun: AtomicBool::new(false),
            executed: AtomicU64::new(0),
            start: AtomicU64::new(BLOWN),
            paused_at: AtomicU64::new(0),
            idle: AtomicU64::new(0),
        }
    }

    /// The processor begins: it calls at its first block.
    pub(crate) fn begins(&self) {
        self.fuse.set(0, BLOWN);
        self.has_begun.store(true, Ordering::Release);
    }

    pub(crate) fn watch(&self, block: &Block, at_limit: fn(u32)) {
        // In this order: what the fuse says is what was executed before the block.
        block.call_when(self.stop, 1, at_limit);
        block.call_when(self.fuse, BLOWN, at_limit);
        block.add(self.fuse, block.instructions() as u64);
    }

    /// The processor stops at its next block. May be called in any thread.
    pub(crate) fn stop(&self) {
        if self.has_begun.load(Ordering::Acquire) {
            self.stop.set(0, 1);
        }
    }

    /// The processor, whose thread this is, goes on until it has executed so many instructions.
    pub(crate) fn run_to(&self, limit: u64) {
        let executed = self.executed();
        let to = BLOWN - limit.saturating_sub(executed).min(BLOWN);
        self.executed.store(executed, Ordering::Relaxed);
        self.start.store(to, Ordering::Relaxed);
        self.fuse.set(0, to);
        self.stop.set(0, 0);
    }

    fn executed(&self) -> u64 {
        if !self.has_begun.load(Ordering::Acquire) {
            return 0;
        }
        let since = self.fuse.get(0).saturating_sub(self.start.load(Ordering::Relaxed));
        self.executed.load(Ordering::Relaxed).saturating_add(since)
    }

    pub(crate) fn paused(&self) {
        let now = self.executed();
        let passed = now.saturating_sub(self.paused_at.swap(now, Ordering::Relaxed));
        if passed <= LOOP_MAX {
            self.idle.fetch_add(passed, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let idle = self.idle.load(Ordering::Relaxed);
        let processor = Processor { executed: self.executed(), idle };
        Counts { current: 0, processors: vec![processor] }
    }
}
