//! What is done with a store's disk by threads that may wait for it.

use super::backlog::{Content, Operation};
use super::disk::{Disk, is_no_room};
use super::header::Header;
use super::trouble::Problem;
use mynah_device::StoreJob;
use std::io;

/// Work for a thread that may wait for the disk.
#[derive(Debug)]
pub struct Task(pub(super) Work);

#[derive(Debug)]
pub(super) enum Work {
    /// The disk holds so many bytes of it, and the rest was never written.
    Read {
        job: StoreJob,
        at: u64,
        buffer: Vec<u8>,
        held: usize,
    },
    /// `wanted`: what the disk has to look like before, if it may look so again afterwards.
    Change {
        operation: Operation,
        wanted: Option<ExpectedState>,
    },
    Sync {
        header: Option<Header>,
        wanted: ExpectedState,
    },
    Look(ExpectedState),
}

/// What a disk has to look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedState {
    /// It had a name at first. There are file systems that do not say.
    pub(super) is_named: bool,
    pub(super) bytes: u64,
}

/// Result of a [`Task`].
#[derive(Debug)]
pub struct TaskResult(pub(super) Outcome);

#[derive(Debug)]
pub(super) enum Outcome {
    Read {
        job: StoreJob,
        buffer: Vec<u8>,
        result: io::Result<()>,
    },
    /// So many bytes, and no fewer, the disk has since then.
    Change {
        sequence: u64,
        result: Result<(), Problem>,
        holds: u64,
    },
    Sync {
        result: Result<(), Problem>,
    },
    Look {
        result: Result<(), Problem>,
    },
}

pub(super) fn perform(disk: &(impl Disk + ?Sized), task: Task) -> TaskResult {
    TaskResult(match task.0 {
        Work::Read { job, at, mut buffer, held } => {
            let result = disk.read(at, &mut buffer[..held]);
            Outcome::Read { job, buffer, result }
        }
        Work::Change { operation, wanted } => {
            let (sequence, holds) = (operation.sequence, operation.holds());
            let result = wanted.map_or(Ok(()), |wanted| look(disk, wanted)).and_then(|()| {
                let Operation { at, bytes, content, .. } = operation;
                let result = match content {
                    Content::Bytes(content) => disk.write(at, &content),
                    Content::Zeros => disk.zero(at, bytes),
                };
                result.map_err(of_write)
            });
            Outcome::Change { sequence, result, holds }
        }
        Work::Sync { header, wanted } => Outcome::Sync { result: sync(disk, header, wanted) },
        Work::Look(wanted) => Outcome::Look { result: look(disk, wanted) },
    })
}

/// A write that has no room changes nothing; what else fails may be anything.
pub(super) fn of_write(error: io::Error) -> Problem {
    match is_no_room(&error) {
        true => Problem::NoRoom(error),
        false => Problem::Write(error),
    }
}

/// What a file that was truncated has lost is seen before the header is written, which may lie at its
/// end and make it as long as it was.
fn sync(
    disk: &(impl Disk + ?Sized),
    header: Option<Header>,
    wanted: ExpectedState,
) -> Result<(), Problem> {
    look(disk, wanted)?;
    if let Some(header) = header {
        disk.write(header.at(), &header.encode()).map_err(of_write)?;
    }
    // Whatever it says: the kernel reports what it could not write once, and drops it (fsync(2)).
    disk.sync().map_err(Problem::Sync)
}

pub(super) fn look(disk: &(impl Disk + ?Sized), wanted: ExpectedState) -> Result<(), Problem> {
    let found = disk.look().map_err(Problem::Look)?;
    if wanted.is_named && !found.is_named {
        return Err(Problem::Deleted);
    }
    if found.bytes < wanted.bytes {
        return Err(Problem::Truncated { bytes: found.bytes, wanted: wanted.bytes });
    }
    Ok(())
}
