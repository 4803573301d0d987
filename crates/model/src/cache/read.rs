//! Reads: from the cache, from flash, or of addresses that were never written.

use crate::drive::{Drive, Policies};
use crate::kernel::event::Event;
use crate::number::{CommandIndex, Lpn, WorkIndex};
use crate::observe::stats::Resource;
use crate::token::Token;
use mynah_stamp::Stage;

impl<P: Policies> Drive<P> {
    /// Whether the cache has all that the command wants of `lpn`.
    pub(crate) fn read_from_cache(
        &mut self,
        command: CommandIndex,
        lpn: Lpn,
        sectors: &mut u32,
    ) -> bool {
        self.kernel.observe.count().cache_lookups += 1;
        let overlap = self.overlap(command, lpn);
        let wanted = needed_mask(self.shape.unit_sectors, overlap.within, overlap.sectors);
        let Some(cache) = &mut self.cache else { return false };
        let place = match cache.find(lpn) {
            Some(cached) => {
                let u = self.ftl.unit(cached);
                if u.mask & wanted != wanted || u.trimmed {
                    // What is not here is on flash; the whole is read from there.
                    return false;
                }
                cache.place(cached)
            }
            None => match cache.clean.as_mut().and_then(|clean| clean.read(lpn, wanted)) {
                None => return false,
                place => place,
            },
        };
        if let Some(place) = place {
            cache.touch(place, overlap.within * 512, overlap.sectors * 512);
        }
        self.kernel.observe.count().cache_hits += 1;
        *sectors += overlap.sectors;
        let pieces = &mut self.host.command_mut(command).pieces;
        match pieces.last_mut() {
            Some((first, count)) if *first + *count == overlap.first_sector => {
                *count += overlap.sectors;
            }
            _ => pieces.push((overlap.first_sector, overlap.sectors)),
        }
        true
    }

    /// Data that a host read has brought from the flash stay in the cache.
    #[cold]
    #[inline(never)]
    pub(crate) fn fill_cache(&mut self, work: WorkIndex) {
        let w = self.flash.work(work);
        let Token::Read { command } = w.token else { return };
        let (page, from, sectors) = (w.ppn, w.first_sector, w.sectors);
        let c = self.host.command(command);
        let (flow, namespace) = (c.flow, c.request.namespace.0 as usize - 1);
        if !self.ftl.namespaces()[namespace].caches_reads {
            return;
        }
        let first = c.first_unit + from / self.shape.unit_sectors;
        let last = c.first_unit + (from + sectors - 1) / self.shape.unit_sectors;
        for lpn in first.upto(last + 1) {
            // What was overwritten or deallocated since the read began is not filled in.
            let ppn = self.ftl.ppn(lpn);
            if ppn.map(|ppn| self.shape.page_start(ppn)) != Some(page) {
                continue;
            }
            let overlap = self.overlap(command, lpn);
            let mask = sector_mask(self.shape.unit_sectors, overlap.within, overlap.sectors);
            let mask = complete_mask(self.shape.unit_sectors, mask);
            let Some(cache) = &mut self.cache else { return };
            let part = cache.part_of(flow, namespace);
            if mask == 0 || cache.find(lpn).is_some() || !cache.fill(lpn, mask, part) {
                continue;
            }
            if cache.dram.takes_all() {
                let bytes = overlap.sectors * 512;
                if let Some(place) = cache.clean_place(lpn) {
                    cache.touch(place, overlap.within * 512, bytes);
                }
                // Nobody waits for this, but others wait behind it.
                let length = cache.access_time(bytes);
                cache.dram.book(self.kernel.now, length, flow, |_, _| {});
            }
        }
    }

    /// Books the DRAM for the bytes that a command has put into or takes out of the cache.
    pub(crate) fn access_cache(&mut self, command: CommandIndex) {
        let flow = self.host.command(command).flow;
        let bytes = std::mem::take(&mut self.host.command_mut(command).admitted_bytes);
        let cache = self.cache.as_mut().expect("a cache");
        let length = cache.access_time(bytes);
        let blame = self.kernel.observe.blame();
        let booking = cache.dram.book(self.kernel.now, length, flow, |holder, wait| {
            blame.add(flow, Resource::Dram, holder, wait);
        });
        self.kernel.events.push(booking.end, Event::CacheAccessDone { command });
    }

    pub(crate) fn cache_access_done(&mut self, command: CommandIndex) {
        let span = self.kernel.now.since(self.host.command(command).mark);
        for (first_sector, sectors) in std::mem::take(&mut self.host.command_mut(command).pieces) {
            self.send_cached_piece(command, first_sector, sectors);
        }
        self.part_done(command, |stages| stages.add(Stage::Cache, span));
    }
}

/// The bits that `sectors` sectors from `first` on cover in a unit's mask. Units of more
/// than 64 sectors have one bit for several; partly covered bits do not count.
pub(crate) fn sector_mask(unit_sectors: u32, first: u32, sectors: u32) -> u64 {
    if sectors >= unit_sectors {
        return u64::MAX;
    }
    let per_bit = unit_sectors.div_ceil(64);
    let from = first.div_ceil(per_bit);
    let to = (first + sectors) / per_bit;
    if to <= from {
        return 0;
    }
    (u64::MAX >> (64 - (to - from))) << from
}

/// The bits that must be set for `sectors` sectors from `first` on to be there.
pub(crate) fn needed_mask(unit_sectors: u32, first: u32, sectors: u32) -> u64 {
    let per_bit = unit_sectors.div_ceil(64);
    let (from, to) = (first / per_bit, (first + sectors).div_ceil(per_bit));
    (u64::MAX >> (64 - (to - from))) << from
}

/// The mask of a whole unit, as bits that [`sector_mask`] can set; a complete mask is
/// always stored as all ones.
#[inline]
pub(crate) fn complete_mask(unit_sectors: u32, mask: u64) -> u64 {
    if mask == u64::MAX {
        return mask;
    }
    let bits = unit_sectors.div_ceil(unit_sectors.div_ceil(64));
    let whole = u64::MAX >> (64 - bits.min(64));
    if mask & whole == whole { u64::MAX } else { mask }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_whole_granules_only() {
        assert_eq!(sector_mask(8, 0, 8), u64::MAX);
        assert_eq!(sector_mask(8, 2, 3), 0b11100);
        assert_eq!(complete_mask(8, sector_mask(8, 0, 4) | sector_mask(8, 4, 4)), u64::MAX);
        // 128 sectors: two to a bit.
        assert_eq!(needed_mask(128, 1, 2), 0b11);
        assert_eq!(needed_mask(8, 2, 3), 0b11100);
        assert_eq!(sector_mask(128, 1, 3), 0b10);
        assert_eq!(complete_mask(128, sector_mask(128, 0, 64)), sector_mask(128, 0, 64));
    }
}
