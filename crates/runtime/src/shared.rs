//! Memory that is shared with another process.
//!
//! The other process may write it at any moment, so there are never references to its bytes, only
//! copies through raw pointers and atomic words. A file may even become shorter after it was mapped:
//! [`Shared::is_lost`] says so, and the memory reads as zeros then (`guard.rs`).

#![allow(unsafe_code)]

mod guard;

pub(crate) use guard::losses;

use crate::prefetch::prefetch;
use guard::Guard;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The unit of mappings, if the file has no larger one.
const PAGE_BYTES: u64 = 4096;
/// The largest unit that a file may have: huge pages of 1 GiB.
const UNIT_BYTES_MAX: u64 = 1 << 30;

/// A part of a file in memory.
#[derive(Debug)]
pub struct Shared {
    /// The first of `bytes` bytes, within the mapping.
    base: NonNull<u8>,
    bytes: usize,
    /// Goes before the mapping does: the address may then be another's.
    guard: Guard,
    _mapping: Mapping,
}

/// Addresses of this process that are given back when this is dropped.
#[derive(Debug)]
struct Mapping {
    first: NonNull<u8>,
    bytes: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing refers to it any more. Where it fails
        // the memory stays mapped, which harms nobody.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Shared {}

// SAFETY: other processes change the bytes while they are read anyway; everything here copes with
// that. Two threads that write the same bytes at once leave either in them.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps `bytes` bytes of a file, which has to have them.
    ///
    /// # Errors
    /// If it has not, or they cannot be mapped so.
    pub fn map(
        file: impl AsFd,
        offset: u64,
        bytes: u64,
        readable: bool,
        writable: bool,
    ) -> io::Result<Shared> {
        let status = fstat(&file)?;
        let end = offset.checked_add(bytes).ok_or(Errno::OVERFLOW)?;
        if bytes == 0 || end > status.st_size as u64 {
            return Err(Errno::INVAL.into());
        }
        // Files of huge pages can be mapped in these only.
        let unit = (status.st_blksize as u64).clamp(PAGE_BYTES, UNIT_BYTES_MAX);
        let unit = if unit.is_power_of_two() { unit } else { PAGE_BYTES };
        let first = offset / unit * unit;
        let all = end.checked_next_multiple_of(unit).ok_or(Errno::OVERFLOW)? - first;
        let length = usize::try_from(all).map_err(|_| Errno::OVERFLOW)?;
        let mut access = ProtFlags::empty();
        access.set(ProtFlags::READ, readable);
        access.set(ProtFlags::WRITE, writable);
        // SAFETY: without an address to put it at, a mapping does not touch others. Nothing refers
        // to its bytes but what is here.
        let mapping =
            unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, first)? };
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let mapping = Mapping { first: mapping, bytes: length };
        let guard = Guard::new(mapping.first, length)?;
        // SAFETY: the offset lies before `end`, and so within the mapping.
        let base = unsafe { mapping.first.add((offset - first) as usize) };
        Ok(Shared { base, bytes: bytes as usize, guard, _mapping: mapping })
    }

    /// New memory of zeros, and the file that it can be shared by. The file keeps its length.
    ///
    /// # Errors
    /// If there is not so much.
    pub fn create(name: &str, bytes: u64) -> io::Result<(Shared, OwnedFd)> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Shared::map(&file, 0, bytes, true, true)?, file))
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the memory is gone, because its file has become shorter or has no room, say. That
    /// is found when somebody accesses it; from then on it reads as zeros, and what is written to
    /// it is seen by nobody else.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// The address of `length` bytes from `at` on.
    ///
    /// # Panics
    /// If they are not there.
    #[inline]
    pub(crate) fn at(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at <= self.bytes && length <= self.bytes - at, "outside the shared memory");
        // SAFETY: it is within the mapping, as was just made sure.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Copies bytes out of the memory, which has to be readable.
    ///
    /// # Panics
    /// If it has not so many.
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.at(at, into.len());
        // SAFETY: both are that long, and `into` is not in the mapping, to whose bytes there are
        // no references. What another process changes meanwhile is copied as it was or as it is;
        // nothing is concluded from it before it is in `into`.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes into the memory, which has to be writable.
    ///
    /// # Panics
    /// If it has not so many.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8]) {
        let into = self.at(at, from.len());
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) }
    }

    /// Copies 16 bytes into the memory: whoever sees the last 8 of them sees the first 8 and
    /// everything that was written before.
    ///
    /// # Panics
    /// If it has not so many.
    #[inline]
    pub fn write_last_half_last(&self, at: usize, from: &[u8; 16]) {
        let into = self.at(at, 16);
        let half = |at: usize| u64::from_ne_bytes(from[at..at + 8].try_into().expect("8 bytes"));
        if into.addr().is_multiple_of(8) {
            // SAFETY: it is aligned and within the mapping. Other processes access it by their
            // own means, atomic as far as the processor makes 8 bytes so.
            let halves = unsafe { slice::from_raw_parts(into.cast::<AtomicU64>(), 2) };
            halves[0].store(half(0), Ordering::Relaxed);
            halves[1].store(half(8), Ordering::Release);
        } else {
            self.write(at, &from[..8]);
            fence(Ordering::Release);
            self.write(at + 8, &from[8..]);
        }
    }

    /// The memory as words that others may change at any time. It begins at a multiple of 4
    /// bytes; a rest of less than 4 bytes is left out.
    ///
    /// # Panics
    /// If it does not begin there.
    #[inline]
    pub fn words(&self) -> &[AtomicU32] {
        assert!(self.base.addr().get().is_multiple_of(4), "not aligned");
        // SAFETY: aligned, within the mapping, and valid as long as the mapping is, which the
        // lifetime says. Every value is one of an atomic word.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast(), self.bytes / 4) }
    }

    /// The same as words of 8 bytes.
    ///
    /// # Panics
    /// If it does not begin at a multiple of 8 bytes.
    #[inline]
    pub fn long_words(&self) -> &[AtomicU64] {
        assert!(self.base.addr().get().is_multiple_of(8), "not aligned");
        // SAFETY: as in `words`.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast(), self.bytes / 8) }
    }

    /// Says that bytes will soon be used; those that are not there are left out.
    #[inline]
    pub fn prefetch(&self, at: usize, bytes: usize) {
        prefetch(self.base.as_ptr(), self.bytes, at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory() {
        let (one, file) = Shared::create("test", 3 * 4096).unwrap();
        let other = Shared::map(&file, 4096 + 8, 4096, true, true).unwrap();
        one.write(4096 + 8, &[1, 2, 3, 4, 5]);
        let mut back = [0; 5];
        other.read(0, &mut back);
        assert_eq!(back, [1, 2, 3, 4, 5]);
        assert_eq!(u32::from_le(other.words()[0].load(Ordering::Relaxed)), 0x0403_0201);
        for at in [16, 17] {
            other.write_last_half_last(at, b"0123456789abcdef");
            let mut back = [0; 16];
            one.read(4096 + 8 + at, &mut back);
            assert_eq!(&back, b"0123456789abcdef");
        }
        other.prefetch(0, usize::MAX);
        other.prefetch(usize::MAX, 1);
    }

    #[test]
    fn what_a_file_has_not_cannot_be_mapped() {
        let (_memory, file) = Shared::create("test", 8192).unwrap();
        let map = |offset, bytes| Shared::map(&file, offset, bytes, true, true);
        assert!(map(0, 8192).is_ok() && map(8191, 1).is_ok());
        for (offset, bytes) in [(0, 0), (0, 8193), (8192, 1), (u64::MAX, 2), (1, u64::MAX)] {
            assert!(map(offset, bytes).is_err(), "{offset} {bytes}");
        }
        let read_only = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Shared::map(&read_only, 0, 10, true, true).is_err());
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn accesses_outside_are_refused() {
        let (memory, _file) = Shared::create("test", 4096).unwrap();
        memory.write(4090, &[0; 7]);
    }
}
