//! A read command: what of it the cache has, and what has to be read.

use crate::cache::read::sector_mask;
use crate::drive::{Drive, Policies};
use crate::ftl::mapping::cached::Waiter;
use crate::number::{CommandIndex, Lpn, WorkIndex};

/// The sectors of a command that lie in one unit.
pub(crate) struct Overlap {
    /// First sector, counted from the command's first.
    pub(crate) first_sector: u32,
    pub(crate) sectors: u32,
    /// First sector, counted from the unit's first.
    pub(crate) within: u32,
}

impl<P: Policies> Drive<P> {
    #[inline(always)]
    pub(crate) fn overlap(&self, command: CommandIndex, lpn: Lpn) -> Overlap {
        let c = &self.host.commands[command];
        let unit_sectors = u64::from(self.shape.unit_sectors);
        let unit_start = u64::from(lpn - c.first_unit) * unit_sectors;
        let from = u64::from(c.into_first);
        let start = from.max(unit_start);
        let end = (from + u64::from(c.request.sectors)).min(unit_start + unit_sectors);
        Overlap {
            first_sector: (start - from) as u32,
            sectors: (end - start) as u32,
            within: (start - unit_start) as u32,
        }
    }

    /// Sectors of a unit as the bits of its mask.
    pub(crate) fn unit_mask(&self, command: CommandIndex, lpn: Lpn) -> u64 {
        let overlap = self.overlap(command, lpn);
        sector_mask(self.shape.unit_sectors, overlap.within, overlap.sectors)
    }

    #[inline(always)]
    pub(crate) fn begin_read(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        let (first, end) = (c.first_unit, c.end_unit);
        let cached = self.cache.as_ref().is_some_and(|cache| !cache.is_useless());
        let mut from_cache = 0;
        // One part stands for the whole until everything has been looked at.
        self.host.commands[command].parts = 1;
        let mut last = WorkIndex::NONE;
        for lpn in first.upto(end) {
            if cached && self.read_from_cache(command, lpn, &mut from_cache) {
                continue;
            }
            if self.mapping_known(lpn, Waiter::Read { command, lpn }) {
                last = self.read_unit(command, lpn, last);
            } else {
                self.host.commands[command].parts += 1;
            }
        }
        if from_cache > 0 {
            self.host.commands[command].parts += 1;
            self.host.commands[command].admitted_bytes = from_cache * 512;
            self.access_cache(command);
        }
        self.part_done(command, |_| {});
    }
}
