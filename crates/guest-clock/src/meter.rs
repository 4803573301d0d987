//! What the guest's processors have executed, and where they stop.

use crate::fuse::Fuse;
use crate::qemu::Block;
use crate::turns::Turns;
use mynah_guest_protocol::Counts;

/// A loop around PAUSE that waits is no longer than this; the kernel's idle loop has some ten
/// instructions.
pub(crate) const LOOP_MAX: u64 = 64;

/// Counts the instructions of one processor, or of several.
pub(crate) enum Meter {
    /// In code that QEMU generates.
    One(Fuse),
    /// In a function that each block calls.
    Several(Box<Turns>),
}

impl Meter {
    pub(crate) fn new(processors: u32) -> Result<Meter, String> {
        Ok(match processors {
            1 => Meter::One(Fuse::new()),
            _ => Meter::Several(Box::new(Turns::new(processors)?)),
        })
    }

    /// A processor begins. Called in the thread that executes it.
    pub(crate) fn begins(&self, processor: u32) -> Result<(), String> {
        match self {
            Meter::One(fuse) => fuse.begins(),
            Meter::Several(turns) => return turns.begins(processor),
        }
        Ok(())
    }

    /// Has a new block count its instructions when it begins, and stop first where the guest is to.
    pub(crate) fn watch(&self, block: &Block) {
        match self {
            Meter::One(fuse) => fuse.watch(block, |_| crate::stops()),
            Meter::Several(_) => block.call_first(block.instructions() as u64),
        }
    }

    /// The processor that executes is at a PAUSE in the kernel.
    pub(crate) fn paused(&self) {
        match self {
            Meter::One(fuse) => fuse.paused(),
            Meter::Several(turns) => turns.paused(),
        }
    }

    /// Instructions that were executed so far.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Meter::One(fuse) => fuse.counts(),
            Meter::Several(turns) => turns.counts(),
        }
    }

    /// The guest is to stop at its next block; any thread may say so.
    pub(crate) fn stop(&self) {
        match self {
            Meter::One(fuse) => fuse.stop(),
            Meter::Several(turns) => turns.run_to(0),
        }
    }

    /// The guest, whose thread this is, goes on until all its processors together have executed so many
    /// instructions.
    pub(crate) fn run_to(&self, limit: u64) {
        match self {
            Meter::One(fuse) => fuse.run_to(limit),
            Meter::Several(turns) => turns.run_to(limit),
        }
    }
}
