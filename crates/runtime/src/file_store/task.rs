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
    Read { job: StoreJob, at: u64, buffer: Vec<u8> },
    Change(Operation),
    Sync { header: Option<Header>, wanted: Wanted },
    Look(Wanted),
}

/// What a disk has to look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// It had a name at first. There are file systems that do not say.
    pub(super) is_named: bool,
    pub(super) bytes: u64,
}

/// What came of a [`Task`].
#[derive(Debug)]
pub struct Done(pub(super) Outcome);

#[derive(Debug)]
pub(super) enum Outcome {
    Read { job: StoreJob, buffer: Vec<u8>, result: io::Result<()> },
    Change { sequence: u64, result: Result<(), Problem> },
    Sync { result: Result<(), Problem> },
    Look { result: Result<(), Problem> },
}

pub(super) fn perform(disk: &(impl Disk + ?Sized), task: Task) -> Done {
    Done(match task.0 {
        Work::Read { job, at, mut buffer } => {
            let result = disk.read(at, &mut buffer);
            Outcome::Read { job, buffer, result }
        }
        Work::Change(Operation { sequence, at, bytes, content }) => {
            let result = match content {
                Content::Bytes(bytes) => disk.write(at, &bytes),
                Content::Zeros => disk.zero(at, bytes),
            };
            Outcome::Change { sequence, result: result.map_err(of_write) }
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

/// What a file that was truncated has lost is seen before the header makes it longer again: the
/// bytes of the drive never reach its end.
fn sync(
    disk: &(impl Disk + ?Sized),
    header: Option<Header>,
    wanted: Wanted,
) -> Result<(), Problem> {
    look(disk, wanted)?;
    if let Some(header) = header {
        disk.write(header.at(), &header.encode()).map_err(of_write)?;
    }
    // Whatever it says: the kernel reports what it could not write once, and drops it (fsync(2)).
    disk.sync().map_err(Problem::Sync)
}

pub(super) fn look(disk: &(impl Disk + ?Sized), wanted: Wanted) -> Result<(), Problem> {
    let found = disk.look().map_err(Problem::Look)?;
    if wanted.is_named && !found.is_named {
        return Err(Problem::Deleted);
    }
    if found.bytes < wanted.bytes {
        return Err(Problem::Truncated { bytes: found.bytes, wanted: wanted.bytes });
    }
    Ok(())
}
