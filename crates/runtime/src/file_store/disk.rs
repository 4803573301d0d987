//! What the file store needs of a disk, and the file that is one.

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

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
        while next < at + bytes {
            let piece = ZEROS_BYTES.min(at + bytes - next);
            self.write_all_at(&zeros[..piece as usize], next)?;
            next += piece;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(self)?)
    }
}
