//! What is asked: anything with addresses that reads, and writes if it may.

use mynah_stamp::{Span, Time};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads bytes.
    Read,
    /// Writes bytes, which do not matter and should not compress.
    Write,
    /// Gives bytes up (Dataset Management with Deallocate).
    Trim,
    /// Waits until what was written is safe.
    Flush,
}

/// A request that has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As [`Subject::submit`] has called it.
    pub tag: u64,
    /// When it was submitted.
    pub submitted: Time,
    /// When its answer was seen.
    pub completed: Time,
    /// Whether it was done.
    pub is_ok: bool,
}

/// The subject does not answer any more, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Lost(pub String);

/// A drive, as a program sees it that takes the time.
pub trait Subject {
    /// Bytes that can be addressed.
    fn bytes(&self) -> u64;

    /// Bytes of a logical block, to which offsets and lengths are aligned.
    fn block_bytes(&self) -> u32;

    /// Most bytes of a read or a write.
    fn max_transfer_bytes(&self) -> u32;

    /// Most requests that may be outstanding.
    fn max_outstanding(&self) -> usize;

    /// Whether there is a way to give blocks up.
    fn can_trim(&self) -> bool;

    /// Asks, and returns at once with the request's number.
    ///
    /// # Errors
    /// If the subject is gone.
    fn submit(&mut self, op: Op, offset: u64, bytes: u64) -> Result<u64, Lost>;

    /// Waits for the next answer; `None` if nothing is outstanding.
    ///
    /// # Errors
    /// If the subject is gone.
    fn next(&mut self) -> Result<Option<Answer>, Lost>;

    /// Lets time pass. Answers that come meanwhile are kept.
    ///
    /// # Errors
    /// If the subject is gone.
    fn pass(&mut self, span: Span) -> Result<(), Lost>;

    /// The subject's clock.
    fn now(&self) -> Time;
}
