//! The memory that a client lets the device use, by its addresses on the bus.
//!
//! Mappings do not overlap and are kept in order; the one used last is tried first. An access may
//! go over several that touch.

use crate::shared::{self, Shared};
use mynah_device::pci::{GuestMemory, Unmapped};
use mynah_wire::vfio_user::Errno;
use mynah_wire::vfio_user::server::Memory;
use rustix::fd::OwnedFd;
use std::cell::Cell;

/// Most DMA mappings of a client.
pub(crate) const MAPPINGS_MAX: usize = 8192;

/// Why an access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The client has said that there is memory, but has not shared it.
    NotShared(u64),
    /// No mapping of the client has this address.
    Unknown(u64),
    /// The mapping does not allow such an access.
    Forbidden(u64),
}

#[derive(Debug)]
struct Mapping {
    first: u64,
    last: u64,
    /// `None`: the client did not share it.
    memory: Option<Shared>,
    readable: bool,
    writable: bool,
}

/// Guest memory that a client has mapped for DMA.
#[derive(Debug, Default)]
pub struct HostMemory {
    /// Sorted by address.
    mappings: Vec<Mapping>,
    /// Where the last access was.
    latest: Cell<usize>,
    missing: Cell<Option<Missing>>,
    /// Losses of the whole process when all of this memory was there last.
    losses: Cell<u64>,
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

impl HostMemory {
    /// Lets the device use memory; without a descriptor it is known and cannot be used.
    ///
    /// # Errors
    /// If it overlaps with other memory, cannot be mapped, or is one mapping too many.
    pub fn map(&mut self, memory: &Memory, descriptor: Option<OwnedFd>) -> Result<(), Errno> {
        let (first, last) = (memory.address, memory.address + (memory.bytes - 1));
        let at = self.mappings.partition_point(|mapping| mapping.last < first);
        if self.mappings.get(at).is_some_and(|mapping| mapping.first <= last) {
            return Err(Errno::EXISTS);
        }
        if self.mappings.len() >= MAPPINGS_MAX {
            return Err(Errno::NO_MEMORY);
        }
        let Memory { offset, bytes, readable, writable, .. } = *memory;
        let shared = match descriptor {
            Some(file) => {
                let shared = Shared::map(file, offset, bytes, readable, writable);
                Some(shared.map_err(|error| {
                    Errno(error.raw_os_error().map_or(Errno::INVALID.0, |errno| errno as u32))
                })?)
            }
            None => None,
        };
        self.mappings.insert(at, Mapping { first, last, memory: shared, readable, writable });
        self.latest.set(0);
        Ok(())
    }

    /// Takes memory from the device: all mappings that lie within the range; `None`: all.
    ///
    /// # Errors
    /// If there are none, or one reaches out of the range; then nothing is taken.
    pub fn unmap(&mut self, range: Option<(u64, u64)>) -> Result<(), Errno> {
        self.latest.set(0);
        let Some((first, bytes)) = range else {
            self.mappings.clear();
            return Ok(());
        };
        let last = first + (bytes - 1);
        let from = self.mappings.partition_point(|mapping| mapping.last < first);
        let to = self.mappings.partition_point(|mapping| mapping.first <= last);
        let within = |mapping: &Mapping| mapping.first >= first && mapping.last <= last;
        if from == to {
            return Err(Errno::NO_ENTRY);
        }
        if !self.mappings[from..to].iter().all(within) {
            return Err(Errno::INVALID);
        }
        self.mappings.drain(from..to);
        Ok(())
    }

    /// Bytes that are shared, and that are known but not shared.
    pub fn bytes(&self) -> (u64, u64) {
        self.mappings.iter().fold((0u64, 0u64), |(shared, not), mapping| {
            let bytes = (mapping.last - mapping.first).saturating_add(1);
            match mapping.memory {
                Some(_) => (shared.saturating_add(bytes), not),
                None => (shared, not.saturating_add(bytes)),
            }
        })
    }

    /// Why the last access that failed did so, once.
    pub fn take_missing(&self) -> Option<Missing> {
        self.missing.take()
    }

    /// An address where memory was that the client has taken away without saying so, if there is
    /// one that somebody has accessed. Cheap as long as nobody has lost any.
    #[inline]
    pub fn lost(&self) -> Option<u64> {
        let losses = shared::losses();
        if losses == self.losses.get() {
            return None;
        }
        let is_lost = |mapping: &&Mapping| mapping.memory.as_ref().is_some_and(Shared::is_lost);
        let lost = self.mappings.iter().find(is_lost);
        if lost.is_none() {
            self.losses.set(losses);
        }
        lost.map(|mapping| mapping.first)
    }

    #[inline]
    fn find(&self, at: u64) -> Option<&Mapping> {
        let latest = self.mappings.get(self.latest.get());
        if let Some(mapping) = latest.filter(|it| it.first <= at && at <= it.last) {
            return Some(mapping);
        }
        let index = self.mappings.partition_point(|mapping| mapping.last < at);
        let mapping = self.mappings.get(index).filter(|mapping| mapping.first <= at)?;
        self.latest.set(index);
        Some(mapping)
    }

    /// Does something to the parts of a range: with the memory, where in it, and which bytes of
    /// the range they are.
    #[inline]
    fn each(
        &self,
        at: u64,
        bytes: usize,
        access: Access,
        mut then: impl FnMut(&Shared, usize, std::ops::Range<usize>),
    ) -> Result<(), Unmapped> {
        let mut done = 0;
        while done < bytes {
            let here = at.checked_add(done as u64).ok_or(Unmapped)?;
            let Some(mapping) = self.find(here) else {
                return self.fail(Missing::Unknown(here));
            };
            let Some(shared) = &mapping.memory else {
                return self.fail(Missing::NotShared(here));
            };
            let allowed = match access {
                Access::Read => mapping.readable,
                Access::Write => mapping.writable,
            };
            if !allowed {
                return self.fail(Missing::Forbidden(here));
            }
            let rest = (bytes - done) as u64 - 1;
            let length = rest.min(mapping.last - here) as usize + 1;
            then(shared, (here - mapping.first) as usize, done..done + length);
            done += length;
        }
        Ok(())
    }

    #[cold]
    fn fail(&self, missing: Missing) -> Result<(), Unmapped> {
        self.missing.set(Some(missing));
        Err(Unmapped)
    }
}

impl GuestMemory for HostMemory {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unmapped> {
        self.each(at, into.len(), Access::Read, |shared, at, part| {
            shared.read(at, &mut into[part]);
        })
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        self.each(at, from.len(), Access::Write, |shared, at, part| shared.write(at, &from[part]))
    }

    #[inline]
    fn write_completions(&self, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        let (entries, _) = from.as_chunks::<16>();
        for (number, entry) in entries.iter().enumerate() {
            let at = at.checked_add(number as u64 * 16).ok_or(Unmapped)?;
            self.each(at, 16, Access::Write, |shared, at, part| match part.len() {
                16 => shared.write_last_half_last(at, entry),
                _ => shared.write(at, &entry[part]),
            })?;
        }
        Ok(())
    }

    #[inline]
    fn prefetch(&self, at: u64, bytes: u32) {
        if let Some(mapping) = self.find(at)
            && let Some(shared) = &mapping.memory
        {
            shared.prefetch((at - mapping.first) as usize, bytes as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn memory(address: u64, bytes: u64) -> Memory {
        Memory { address, bytes, offset: 0, readable: true, writable: true }
    }

    fn file(bytes: u64) -> OwnedFd {
        Shared::create("test", bytes).unwrap().1
    }

    #[test]
    fn accesses_go_to_their_memory_and_over_borders() {
        let mut host = HostMemory::default();
        host.map(&memory(0x1000, 0x1000), Some(file(0x1000))).unwrap();
        host.map(&memory(0x2000, 0x1000), Some(file(0x1000))).unwrap();
        let high = u64::MAX - 0xfff;
        host.map(&memory(high, 0x1000), Some(file(0x1000))).unwrap();
        let data: Vec<u8> = (0..0x2000u32).map(|n| n as u8 | 1).collect();
        host.write(0x1000, &data).unwrap();
        let mut back = vec![0; 0x1800];
        host.read(0x1400, &mut back).unwrap();
        assert_eq!(back, data[0x400..0x1c00]);
        host.write(u64::MAX - 1, &[5, 6]).unwrap();
        let mut two = [0; 2];
        host.read(u64::MAX - 1, &mut two).unwrap();
        assert_eq!(two, [5, 6]);
        assert_eq!(host.write(u64::MAX - 1, &[5, 6, 7]), Err(Unmapped));
        for at in [0, 0xfff, 0x2fff, 0x3000, high - 1] {
            assert_eq!(host.read(at, &mut two), Err(Unmapped), "{at:#x}");
        }
        assert_eq!(host.take_missing(), Some(Missing::Unknown(high - 1)));
        let entries: Vec<u8> = (0..32).collect();
        host.write_completions(0x1ff8, &entries).unwrap();
        let mut back = [0; 32];
        host.read(0x1ff8, &mut back).unwrap();
        assert_eq!(back[..], entries);
        host.prefetch(0x1ff0, 4096);
        host.prefetch(5, 1);
    }

    #[test]
    fn memory_that_goes_away_is_noticed_where_it_was() {
        let files = [0x1000, 0x2000].map(|bytes| {
            let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, bytes).unwrap();
            file
        });
        let copy = |file: &OwnedFd| Some(file.try_clone().unwrap());
        let (mut host, mut other) = (HostMemory::default(), HostMemory::default());
        host.map(&memory(0x1000, 0x1000), copy(&files[0])).unwrap();
        host.map(&memory(0x4000, 0x2000), copy(&files[1])).unwrap();
        other.map(&memory(0x1000, 0x1000), copy(&files[0])).unwrap();
        ftruncate(&files[1], 0x1000).unwrap();
        host.write(0x4000, &[1; 0x1000]).unwrap();
        assert_eq!((host.lost(), other.lost()), (None, None));
        host.write(0x4fff, &[1; 2]).unwrap();
        assert_eq!((host.lost(), host.lost(), other.lost()), (Some(0x4000), Some(0x4000), None));
        host.unmap(Some((0x4000, 0x2000))).unwrap();
        assert_eq!(host.lost(), None);
    }

    #[test]
    fn mappings_do_not_overlap_and_go_as_they_came() {
        let mut host = HostMemory::default();
        host.map(&memory(0x1000, 0x1000), Some(file(0x1000))).unwrap();
        for (at, bytes) in [(0x1000, 0x1000), (0, 0x1001), (0x1fff, 1), (0, u64::MAX)] {
            assert_eq!(host.map(&memory(at, bytes), None), Err(Errno::EXISTS));
        }
        assert_eq!(host.map(&memory(0x8000, 0x2000), Some(file(0x1000))), Err(Errno::INVALID));
        host.map(&memory(0x2000, 0x1000), None).unwrap();
        assert_eq!(host.bytes(), (0x1000, 0x1000));
        assert_eq!(host.read(0x2000, &mut [0]), Err(Unmapped));
        assert_eq!(host.take_missing(), Some(Missing::NotShared(0x2000)));
        let read_only = Memory { writable: false, ..memory(0x4000, 0x1000) };
        host.map(&read_only, Some(file(0x1000))).unwrap();
        assert!(host.read(0x4000, &mut [0]).is_ok());
        assert_eq!(host.write(0x4000, &[0]), Err(Unmapped));
        assert_eq!(host.take_missing(), Some(Missing::Forbidden(0x4000)));
        assert_eq!(host.take_missing(), None);
        assert_eq!(host.unmap(Some((0x1000, 0x1800))), Err(Errno::INVALID));
        assert_eq!(host.unmap(Some((0x3000, 0x1000))), Err(Errno::NO_ENTRY));
        assert_eq!(host.unmap(Some((0, 0x3000))), Ok(()));
        assert_eq!(host.read(0x1000, &mut [0]), Err(Unmapped));
        assert!(host.read(0x4000, &mut [0]).is_ok());
        assert_eq!(host.unmap(None), Ok(()));
        assert_eq!(host.bytes(), (0, 0));
    }
}
