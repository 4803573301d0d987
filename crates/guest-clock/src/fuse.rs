//! The counter of a guest with one processor: added to by code that QEMU generates.

use crate::meter::LOOP_MAX;
use crate::qemu::{Block, Counter};
use mynah_guest_protocol::{Counts, Processor};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A fuse that has come to this calls. So high that no guest executes as many instructions, and so
/// low that adding to it never overflows.
const BLOWN: u64 = 1 << 62;

/// A counter that stops the processor when it has come to [`BLOWN`]. It is set by the processor's
/// thread, or while that waits; the numbers beside it are atomic only because Rust wants it.
pub(crate) struct Fuse {
    fuse: Counter,
    /// Before, there is no fuse.
    has_begun: AtomicBool,
    /// What was executed when the fuse was last set,
    executed: AtomicU64,
    /// what it was set to,
    start: AtomicU64,
    /// and what it was before.
    before: AtomicU64,
    /// What was executed at the last PAUSE.
    paused_at: AtomicU64,
    /// All that was executed between one PAUSE and the next in a loop that waits.
    idle: AtomicU64,
}

impl Fuse {
    pub(crate) fn new() -> Fuse {
        Fuse {
            fuse: Counter::new(),
            has_begun: AtomicBool::new(false),
            executed: AtomicU64::new(0),
            start: AtomicU64::new(BLOWN),
            before: AtomicU64::new(BLOWN),
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
        block.call_when(self.fuse, BLOWN, at_limit);
        block.add(self.fuse, block.instructions() as u64);
    }

    pub(crate) fn stop_at(&self, limit: u64) {
        if !self.has_begun.load(Ordering::Acquire) {
            return;
        }
        let executed = self.executed();
        let to = BLOWN - limit.saturating_sub(executed).min(BLOWN);
        self.executed.store(executed, Ordering::Relaxed);
        self.before.store(self.fuse.get(0), Ordering::Relaxed);
        self.start.store(to, Ordering::Relaxed);
        self.fuse.set(0, to);
    }

    fn executed(&self) -> u64 {
        if !self.has_begun.load(Ordering::Acquire) {
            return 0;
        }
        let fuse = self.fuse.get(0);
        let start = self.start.load(Ordering::Relaxed);
        let since = match fuse >= start {
            true => fuse - start,
            // The processor was adding to the fuse at the moment in which it was set, so that it was
            // not set after all: QEMU's main thread has accessed the drive while the guest was running.
            false => fuse.saturating_sub(self.before.load(Ordering::Relaxed)),
        };
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
