//! What the file store needs of a disk, and the file that is one.
//!
//! Tests give it one that refuses what they say: there is no other way for faults.

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};

/// A disk, used from several threads at once. Writes and zeroings that overlap are never under
/// way together.
pub(super) trait Disk: Send + Sync + 'static {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// Reads what can be had without waiting for a device; whether that was everything.
    fn read_cached(&self, at: u64, into: &mut [u8]) -> bool;
    fn write(&self, at: u64, from: &[u8]) -> io::Result<()>;
    /// Makes bytes read as zeros and gives back their room if it can.
    fn zero(&self, at: u64, bytes: u64) -> io::Result<()>;
    /// Puts everything on stable storage whose write or zeroing ended before this began.
    fn sync(&self) -> io::Result<()>;
    /// Whether the file still has a name, and its length.
    fn look(&self) -> io::Result<FileState>;
}

/// Whether the file still has a name, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    /// Whether it has a name in some folder, without which nobody finds it again.
    pub(super) is_named: bool,
    pub(super) bytes: u64,
}

/// Whether an error of a write says that there is no room, which there may be later: a file system
/// or quota that is full (ENOSPC, EDQUOT), or a limit for the size of files (EFBIG; setrlimit(2),
/// RLIMIT_FSIZE).
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

/// How much is written at once where a file system has no holes.
const ZEROS_BYTES: u64 = 1 << 20;

impl Disk for File {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }

    fn read_cached(&self, at: u64, into: &mut [u8]) -> bool {
        let bytes = into.len();
        let mut slices = [IoSliceMut::new(into)];
        rustix::io::preadv2(self, &mut slices, at, ReadWriteFlags::NOWAIT) == Ok(bytes)
    }

    fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
        self.write_all_at(from, at)
    }

    fn zero(&self, at: u64, bytes: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self, hole, at, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let zeros = vec![0; ZEROS_BYTES.min(bytes) as usize];
        let mut next = at;
        // Behind the end of the file is nothing.
        let end = self.metadata()?.len().min(at + bytes);
        while next < end {
            let piece = ZEROS_BYTES.min(end - next);
            self.write_all_at(&zeros[..piece as usize], next)?;
            next += piece;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(self)?)
    }

    fn look(&self) -> io::Result<FileState> {
        let metadata = self.metadata()?;
        Ok(FileState { is_named: metadata.nlink() > 0, bytes: metadata.len() })
    }
}
