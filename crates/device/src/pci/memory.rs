//! What a function needs of its host.

use crate::output::{CommandKind, Completion};
use mynah_model::io::FlowId;
use mynah_stamp::Time;
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
    /// Its memory.
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

/// Sets a doorbell.
pub(super) fn set_doorbell(doorbells: &[AtomicU32], index: usize, value: u32) {
    if let Some(word) = doorbells.get(index) {
        word.store(value.to_le(), Ordering::Release);
    }
}

/// What becomes of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// It is posted.
    Posted,
    /// It is posted at that time of the host's, or later.
    Held(Time),
    /// The host never sees it.
    Dropped,
}

/// Somebody who hears of every command that has ended, once its completion is in the host's
/// memory.
pub trait Watch {
    /// A command. Its data have been moved; [`Completion::data`] means nothing any more.
    fn completed(&mut self, completion: &Completion);

    /// So many reads or writes that did nothing out of the ordinary, or commands about pairs, of a subsystem without
    /// timing ([`crate::Timing::Immediate`]): all came and ended in this very turn. They belong to
    /// `flow` ([`Completion::flow`]).
    fn plain(&mut self, flow: FlowId, kind: CommandKind, commands: u32, bytes: u64);

    /// What becomes of the completion of an I/O command, whose data have been moved. Only asked
    /// after [`Function::expect_faults`](super::Function::expect_faults).
    fn posting(&mut self) -> Posting {
        Posting::Posted
    }
}

/// Nobody listens.
impl Watch for () {
    fn completed(&mut self, _reply: &Completion) {}
    fn plain(&mut self, _flow: FlowId, _kind: CommandKind, _commands: u32, _bytes: u64) {}
}
