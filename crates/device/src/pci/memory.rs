//! What a function needs of its host.

use crate::output::{CommandKind, Completion};
use mynah_model::io::FlowId;
use mynah_stamp::Time;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::sync::atomic::{AtomicU32, Ordering};

/// An address that the host has not given to the function, or not for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory is not mapped")]
pub struct Unmapped;

/// The memory that the function may access, by the addresses that the host uses.
///
/// Every access is checked against what is mapped at that moment; the function keeps no
/// pointers. The host may write the same memory at any time.
pub trait GuestMemory {
    /// Copies bytes out of the host's memory.
    ///
    /// # Errors
    /// If not all of them are mapped; what is in `into` means nothing then.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unmapped>;

    /// Copies bytes into the host's memory.
    ///
    /// # Errors
    /// If not all of them are mapped; some may have been written.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Unmapped>;

    /// Writes completion queue entries of 16 bytes each. Everything that was written before
    /// has to be visible no later than they are, and the last 8 bytes of an entry, which have
    /// its phase, no earlier than the first 8.
    ///
    /// # Errors
    /// As for [`GuestMemory::write`].
    fn write_completions(&self, at: u64, from: &[u8]) -> Result<(), Unmapped>;

    /// Says that bytes will soon be read or written.
    #[inline]
    fn prefetch(&self, _at: u64, _bytes: u32) {}
}

/// The host's side of a function: its memory, and the doorbell registers.
///
/// Doorbells are the words of BAR 0 from 0x1000 on, in the processor's order of bytes only
/// where that is little endian. They may be shared with the host, which then writes them
/// without telling anybody; where they are not, [`super::Function::write`] puts what the host
/// writes to BAR 0 in here. The submission queue tail of queue `n` is word `2 n`, the
/// completion queue head word `2 n + 1`.
#[derive(Debug)]
pub struct Guest<'a, M: ?Sized> {
    pub memory: &'a M,
    /// Its doorbells: [`super::DOORBELL_BYTES`] / 4 words. Words that are missing count as
    /// never rung.
    pub doorbells: &'a [AtomicU32],
}

impl<M: ?Sized> Clone for Guest<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: ?Sized> Copy for Guest<'_, M> {}

/// What a doorbell says. What the host wrote to its queue before can be read after this.
#[inline]
pub(super) fn doorbell(doorbells: &[AtomicU32], index: usize) -> Option<u32> {
    doorbells.get(index).map(|word| u32::from_le(word.load(Ordering::Acquire)))
}

pub(super) fn set_doorbell(doorbells: &[AtomicU32], index: usize, value: u32) {
    if let Some(word) = doorbells.get(index) {
        word.store(value.to_le(), Ordering::Release);
    }
}

/// What becomes of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    Posted,
    /// It is posted at this time of the host's clock, or later.
    Held(Time),
    /// The completion is lost.
    Dropped,
}

/// A command that has been fetched from an I/O queue.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The identifier that the host knows the queue by.
    pub queue_id: u16,
    /// Which command of the queue it is, from 0, as far as 32 bits go.
    pub nth: u32,
    /// Commands of the queue that were under way then, itself included.
    pub outstanding: u32,
    /// How many of those that were fetched at once came before it, itself included; 0: not known.
    pub batch: u32,
    pub entry: &'a SubmissionEntry,
}

/// A command that was carried out in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    pub fetched: Fetched<'a>,
    pub kind: CommandKind,
    /// Bytes read or written.
    pub bytes: u32,
    /// How it ended.
    pub status: Status,
}

/// How far a batch of commands has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its entries have been fetched.
    Fetched,
    /// Its data have crossed between host and store.
    Moved,
    /// Its completions have been posted.
    Posted,
}

/// Somebody who hears of every command that has ended, once its completion is in the host's
/// memory.
pub trait Watch {
    /// A command. Its data have been moved; [`Completion::data`] means nothing any more.
    fn completed(&mut self, completion: &Completion);

    /// Counts commands that came and ended in this very turn, which there are only without timing
    /// ([`crate::Timing::Immediate`]): plain reads or writes, or commands about pairs. They belong to
    /// `flow` ([`Completion::flow`]), and [`Watch::completed`] does not tell of them.
    fn plain(&mut self, flow: FlowId, kind: CommandKind, commands: u32, bytes: u64);

    /// What becomes of the completion of an I/O command, whose data have been moved. Only asked
    /// after [`Function::expect_faults`](super::Function::expect_faults).
    fn posting(&mut self) -> Posting {
        Posting::Posted
    }

    /// Whether it is to hear of each command by itself: by what follows. Asked once for each batch, and
    /// once for each command where there are none.
    #[inline]
    fn hears_each(&self) -> bool {
        false
    }

    /// A command was fetched; [`Watch::completed`] will tell of its end.
    fn fetched(&mut self, _command: &Fetched<'_>) {}

    /// The completion of a command of this queue, with this identifier, waits until there is room for it,
    /// or longer.
    fn kept_back(&mut self, _queue_id: u16, _command_id: u16) {}

    /// The batch that is under way has come so far.
    fn step(&mut self, _step: Step) {}

    /// A command of the batch was carried out and has its completion. [`Watch::plain`] counts it as well.
    fn served(&mut self, _command: &Served<'_>) {}
}

/// Watches nothing.
impl Watch for () {
    fn completed(&mut self, _reply: &Completion) {}
    fn plain(&mut self, _flow: FlowId, _kind: CommandKind, _commands: u32, _bytes: u64) {}
}
