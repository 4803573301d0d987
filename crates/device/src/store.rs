//! The bytes a drive holds.

mod pattern;
mod ram;
mod values;

pub use pattern::PatternStore;
pub use ram::{Arena, ArenaSource, RamStore};
pub use values::{KeptPairs, PatternValues, Place, RamValues, Recall, Values};

/// Names work that a store does in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreJob(pub u64);

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Now,
    /// [`Store::finished`] will return this job.
    Later(StoreJob),
}

impl Ready {
    /// The job that has to finish, if it is not done.
    #[inline]
    pub(crate) fn job(self) -> Option<StoreJob> {
        match self {
            Ready::Now => None,
            Ready::Later(job) => Some(job),
        }
    }
}

/// The store could not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Bytes could not be read.
    #[error("the store cannot read")]
    Read,
    /// Bytes could not be written, or it is not known whether they are on stable storage.
    #[error("the store cannot write")]
    Write,
    /// There is no room for what was to be written, but there may be later. Whatever was accepted
    /// is kept until then.
    #[error("the store has no room")]
    Full,
}

/// What a store can do at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    Good,
    /// It takes no writes until there is room for them; nothing that it has accepted is lost.
    Full,
    /// It takes no writes any more, and what it has accepted since the last flush may be lost.
    Failed,
}

/// Names one saved state of a drive: bytes that (but for chance) no other state has, not all zero.
pub type StateId = [u8; 16];

/// The longest description that a store keeps, in bytes: enough for 1,024 namespaces that are
/// attached to a controller each. Stores need not keep more than 64 KiB with what they add.
pub const DESCRIPTION_BYTES_MAX: usize = 62 << 10;

/// How much is asked for at once: the processor sees by itself how a longer run goes on.
pub const PREFETCHED_BYTES: usize = 512;

/// Holds the bytes of a drive, addressed from 0 to its size. Never blocks.
///
/// Reads see all writes accepted before them. What was never written, or was discarded,
/// reads as zeros.
pub trait Store {
    /// Brings bytes so near that [`Store::read`] has them at hand.
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready;

    /// Copies bytes that were fetched; `job` is the finished job if the fetch gave one, which
    /// this call releases. Writes accepted between the fetch and now may or may not be seen.
    fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]);

    /// Bytes from `at` on, at least one and at most `most`, where the store has them in memory
    /// as they are: they need not be fetched. `None`: use [`Store::fetch`] and [`Store::read`].
    fn bytes(&self, _at: u64, _most: u32) -> Option<&[u8]> {
        None
    }

    /// Bytes from `at` on, at least one and at most `most`, to be written in place, where the store
    /// needs to do nothing more. `None`: use [`Store::write`].
    fn bytes_mut(&mut self, _at: u64, _most: u32) -> Option<&mut [u8]> {
        None
    }

    /// Says that bytes will soon be used: the first [`PREFETCHED_BYTES`] of them count. Whether
    /// [`Store::bytes`] has them.
    fn prefetch(&self, _at: u64, _bytes: u32) -> bool {
        false
    }

    /// Whether the bytes from `at` on take room, or read as zeros because nobody has written them; and
    /// for how many bytes that holds, at least one and at most `most`. Not more than some microseconds
    /// of work, so the same may hold for what follows.
    fn takes_room(&self, _at: u64, most: u64) -> (bool, u64) {
        (true, most)
    }

    /// Releases a job whose bytes nobody wants any more.
    fn forget(&mut self, job: StoreJob);

    /// Accepts bytes. `Later`: they are accepted, but the command must not complete until
    /// the job has finished, because the store has too much under way.
    fn write(&mut self, at: u64, from: &[u8]) -> Ready;

    /// Makes bytes read as zeros. `Later`: as for [`Store::write`].
    fn discard(&mut self, at: u64, bytes: u64) -> Ready;

    /// Puts everything accepted so far on stable storage.
    fn flush(&mut self) -> Ready;

    /// Whether what it has accepted may be lost, with the process or the machine, before the next
    /// flush though the rest outlives them: hosts have to be told, or they never flush.
    fn is_volatile(&self) -> bool {
        false
    }

    /// Keeps a description of what the bytes are (namespaces and their formats, say) beside
    /// them, at most [`DESCRIPTION_BYTES_MAX`] bytes. A flush that begins after this makes it
    /// stable, too. A store that does not outlive the process need not keep it.
    fn describe(&mut self, _description: &[u8]) {}

    /// The description kept last, by an earlier process perhaps.
    fn description(&self) -> Option<&[u8]> {
        None
    }

    /// Does some microseconds of work that will be needed later; whether it did any. Called
    /// when there is nothing else to do.
    fn prepare(&mut self) -> bool {
        false
    }

    /// Whether there is something for [`Store::consolidate`] to do.
    fn is_scattered(&self) -> bool {
        false
    }

    /// Does a piece, of up to some milliseconds, of what makes later accesses faster. To be called
    /// while no host wants anything.
    fn consolidate(&mut self) {}

    /// What it can do now. It changes in [`Store::finished`] alone, and in calls that block.
    fn condition(&self) -> Condition {
        Condition::Good
    }

    /// Looks whether everything is as it should be, and tries again what did not work; never
    /// blocks. Whether it wants to be called again, a second later or so.
    fn tend(&mut self) -> bool {
        false
    }

    /// Notes on stable storage that the bytes are in use, so that what was saved with them does not
    /// belong to them any more. The first call; it may block.
    fn begin(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Takes [`Store::begin`] back, where nothing was done since: the bytes are as if they had not
    /// been in use. The last call; it may block.
    fn cancel(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Puts everything on stable storage, what there was no room for included if there is now. No
    /// write comes after it; it may block.
    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Puts everything on stable storage and notes that it was closed in order, and which saved
    /// state of the drive belongs to the bytes. The last call; it may block.
    fn close(&mut self, _state: Option<StateId>) -> Result<(), StoreError> {
        Ok(())
    }

    /// What holds the values of pairs beside the bytes; `None`: it can hold none. Called once.
    fn values(&mut self) -> Option<Box<dyn Values>> {
        None
    }

    /// The next job that has finished, and how.
    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)>;
}
