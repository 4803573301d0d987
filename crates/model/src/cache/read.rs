//! Reads: from the cache, from flash, or of addresses that were never written.

use crate::config::{MediaOperation, UnmappedReads};
use crate::drive::Drive;
use crate::flash::queues::CLASS_HOST;
use crate::ftl::mapping::cached::Waiter;
use crate::ftl::mapping::table::Content;
use crate::host::command::{Extent, Purpose, Transaction, UnitState};
use crate::io::Status;
use crate::kernel::event::Event;
use crate::kernel::pool::NONE;
use crate::observe::blame::{GARBAGE_COLLECTION, MAPPING_TABLE};
use crate::observe::stats::Resource;
use mynah_stamp::Stage;

/// The sectors of a command that lie in one unit.
pub(crate) struct Overlap {
    /// First sector, counted from the command's first.
    first_sector: u32,
    pub(crate) sectors: u32,
    /// First sector, counted from the unit's first.
    pub(crate) within: u32,
}

impl Drive {
    #[inline(always)]
    pub(crate) fn overlap(&self, command: u32, unit: u32) -> Overlap {
        let c = &self.commands[command];
        let unit_sectors = u64::from(self.shape.unit_sectors);
        let unit_start = u64::from(unit - c.first_unit) * unit_sectors;
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
    pub(crate) fn unit_mask(&self, command: u32, unit: u32) -> u64 {
        let overlap = self.overlap(command, unit);
        sector_mask(self.shape.unit_sectors, overlap.within, overlap.sectors)
    }

    #[inline(always)]
    pub(crate) fn begin_read(&mut self, command: u32) {
        let c = &self.commands[command];
        let (first, end) = (c.first_unit, c.end_unit);
        let cached = self.cache.as_ref().is_some_and(|cache| !cache.is_useless());
        let mut from_cache = 0;
        // One part stands for the whole until everything has been looked at.
        self.commands[command].parts = 1;
        let mut last = NONE;
        for unit in first..end {
            if cached && self.read_from_cache(command, unit, &mut from_cache) {
                continue;
            }
            if self.mapping_known(unit, Waiter::Read { command, unit }) {
                last = self.read_unit(command, unit, last);
            } else {
                self.commands[command].parts += 1;
            }
        }
        if from_cache > 0 {
            self.commands[command].parts += 1;
            self.commands[command].admitted_bytes = from_cache * 512;
            self.access_cache(command);
        }
        self.part_done(command, |_| {});
    }

    /// Whether the cache has all that the command wants of `unit`.
    fn read_from_cache(&mut self, command: u32, unit: u32, sectors: &mut u32) -> bool {
        self.counters.cache_lookups += 1;
        let overlap = self.overlap(command, unit);
        let wanted = needed_mask(self.shape.unit_sectors, overlap.within, overlap.sectors);
        let Some(cache) = &mut self.cache else { return false };
        let place = match cache.find(unit) {
            Some(cached) => {
                let u = &self.units[cached];
                if u.mask & wanted != wanted || u.trimmed {
                    // What is not here is on flash; the whole is read from there.
                    return false;
                }
                cache.place(cached)
            }
            None => match cache.clean.as_mut().and_then(|clean| clean.read(unit, wanted)) {
                None => return false,
                place => place,
            },
        };
        if let Some(place) = place {
            cache.touch(place, overlap.within * 512, overlap.sectors * 512);
        }
        self.counters.cache_hits += 1;
        *sectors += overlap.sectors;
        let pieces = &mut self.commands[command].pieces;
        match pieces.last_mut() {
            Some((first, count)) if *first + *count == overlap.first_sector => {
                *count += overlap.sectors;
            }
            _ => pieces.push((overlap.first_sector, overlap.sectors)),
        }
        true
    }

    /// Queues the flash read of a unit whose mapping is known. Units of one page that
    /// follow one another are one read: `last` is the transaction that may take the unit.
    /// Returns the transaction that has it.
    #[inline(always)]
    pub(crate) fn read_unit(&mut self, command: u32, unit: u32, last: u32) -> u32 {
        let overlap = self.overlap(command, unit);
        let slot = match self.mapping.table.slot(unit) {
            Some(slot) => slot,
            None => match self.config.mapping.unmapped_reads {
                UnmappedReads::Zeroes => {
                    self.send_piece(command, overlap.first_sector, overlap.sectors);
                    return last;
                }
                UnmappedReads::Allocate => {
                    let Some(slot) = self.allocate_for_read(unit) else { return last };
                    slot
                }
            },
        };
        let page = self.shape.page_start(slot);
        let bytes = overlap.sectors * 512;
        if last != NONE {
            let t = &mut self.transactions[last];
            if t.slot == page && t.first_sector + t.sectors == overlap.first_sector {
                t.bytes += bytes;
                t.sectors += overlap.sectors;
                return last;
            }
        }
        let plane = self.shape.plane_of_slot(slot);
        let c = &mut self.commands[command];
        c.parts += 1;
        let (holder, created) = (c.flow, c.mark);
        let extent = Extent { plane, slot: page, bytes };
        let class = c.class;
        let transaction = self.transactions.insert_any();
        let t = &mut self.transactions[transaction];
        *t = Transaction::new(Purpose::Read, class, holder, command, extent, created);
        t.watched = true;
        (t.first_sector, t.sectors) = (overlap.first_sector, overlap.sectors);
        let waited = self.now.since(created);
        if !waited.is_zero() {
            self.blame.add(holder, Resource::Mapping, MAPPING_TABLE, waited);
        }
        self.enqueue_transaction(transaction);
        transaction
    }

    /// As MQSim: a read of an address that was never written gets a page of its own in the
    /// plane it belongs to, which is then read without ever having been programmed.
    fn allocate_for_read(&mut self, unit: u32) -> Option<u32> {
        let plane = self.plane_of(Content::Unit(unit));
        let base = self.space_of(unit).base;
        let namespace = self.namespaces.iter().position(|space| space.base == base)?;
        let slot = self.blocks.take_page_for_read(plane, namespace)?;
        self.mapping.table.map(Content::Unit(unit), slot);
        for other in 1..self.shape.units_per_page {
            self.mapping.table.clear_slot(slot + other);
        }
        self.blocks.add_valid(self.shape.block_of_slot(slot), 1);
        self.mapping_changed(unit);
        self.collect_if_needed(plane);
        Some(slot)
    }

    /// The data of a read has left its die.
    #[inline(always)]
    pub(crate) fn read_done(&mut self, transaction: u32) {
        let t = &self.transactions[transaction];
        let (purpose, owner, slot) = (t.purpose, t.owner, t.slot);
        match purpose {
            Purpose::Read => {
                let (first_sector, sectors) = (t.first_sector, t.sectors);
                if self.reads_cached {
                    self.fill_cache(transaction);
                }
                self.send_piece(owner, first_sector, sectors);
                let now = self.now;
                let &Transaction { created, queued, started, array, ready, transfer, .. } =
                    &self.transactions[transaction];
                self.transactions.remove(transaction);
                self.part_done(owner, |stages| {
                    stages.add(Stage::Mapping, queued.since(created));
                    stages.add(Stage::DieWait, started.since(queued));
                    stages.add(Stage::FlashCommand, array.since(started));
                    stages.add(Stage::FlashArray, ready.since(array));
                    stages.add(Stage::ChannelWait, transfer.since(ready));
                    stages.add(Stage::FlashTransfer, now.since(transfer));
                });
            }
            Purpose::Merge => {
                self.transactions.remove(transaction);
                self.merged(owner);
            }
            Purpose::Collect => {
                self.transactions.remove(transaction);
                self.page_collected(owner, slot);
            }
            Purpose::Load => {
                self.transactions.remove(transaction);
                self.translation_loaded(owner);
            }
            Purpose::Update => {
                self.transactions.remove(transaction);
                self.translation_read_for_update(owner);
            }
            Purpose::Copyback | Purpose::Erase => unreachable!("these transfer no data"),
        }
    }

    /// Data that a host read has brought from the flash stay in the cache.
    #[cold]
    #[inline(never)]
    fn fill_cache(&mut self, transaction: u32) {
        let t = &self.transactions[transaction];
        let (command, page) = (t.owner, t.slot);
        let (first_sector, sectors) = (t.first_sector, t.sectors);
        let c = &self.commands[command];
        let (flow, namespace) = (c.flow, c.request.namespace.0 as usize - 1);
        if !self.namespaces[namespace].caches_reads {
            return;
        }
        let from = c.into_first + first_sector;
        let first = c.first_unit + from / self.shape.unit_sectors;
        let last = c.first_unit + (from + sectors - 1) / self.shape.unit_sectors;
        for unit in first..=last {
            // What was overwritten or deallocated since the read began is not filled in.
            let slot = self.mapping.table.slot(unit);
            if slot.map(|slot| self.shape.page_start(slot)) != Some(page) {
                continue;
            }
            let overlap = self.overlap(command, unit);
            let mask = sector_mask(self.shape.unit_sectors, overlap.within, overlap.sectors);
            let mask = complete_mask(self.shape.unit_sectors, mask);
            let Some(cache) = &mut self.cache else { return };
            let part = cache.part_of(flow, namespace);
            if mask == 0 || cache.find(unit).is_some() || !cache.fill(unit, mask, part) {
                continue;
            }
            if cache.dram.takes_all() {
                let bytes = overlap.sectors * 512;
                if let Some(place) = cache.clean_place(unit) {
                    cache.touch(place, overlap.within * 512, bytes);
                }
                // Nobody waits for this, but others wait behind it.
                let length = cache.access_time(bytes);
                cache.dram.book(self.now, length, flow, |_, _| {});
            }
        }
    }

    /// Whether an injected fault spoils this read.
    pub(crate) fn read_fails(&mut self, transaction: u32) -> bool {
        let t = &self.transactions[transaction];
        if t.failed {
            return false;
        }
        let (slot, purpose) = (t.slot, t.purpose);
        let units = self.shape.units_per_page;
        let fails = self.faults.strikes(MediaOperation::Read, |first, last| {
            (slot..slot + units).any(|slot| match self.mapping.table.written(slot) {
                Some(Content::Unit(unit)) => (first..=last).contains(&unit),
                _ => false,
            })
        });
        self.counters.media_errors += u64::from(fails);
        fails || (purpose == Purpose::Read && self.transactions[transaction].failed)
    }

    /// A read came back spoilt. A host read ends in an error; the drive's own reads are
    /// repeated, and then succeed.
    pub(crate) fn read_failed(&mut self, transaction: u32) {
        let t = &mut self.transactions[transaction];
        let (purpose, owner) = (t.purpose, t.owner);
        if purpose != Purpose::Read {
            t.failed = true;
            (t.started, t.ready, t.transfer) = (
                crate::host::command::UNSET,
                crate::host::command::UNSET,
                crate::host::command::UNSET,
            );
            self.enqueue_transaction(transaction);
            return;
        }
        let now = self.now;
        let &mut Transaction { created, queued, started, array, .. } = t;
        self.transactions.remove(transaction);
        self.commands[owner].completion.status = Status::UnrecoveredReadError;
        self.part_done(owner, |stages| {
            stages.add(Stage::Mapping, queued.since(created));
            stages.add(Stage::DieWait, started.since(queued));
            stages.add(Stage::FlashCommand, array.since(started));
            stages.add(Stage::FlashArray, now.since(array));
        });
    }

    /// Books the DRAM for the bytes that a command has put into or takes out of the cache.
    pub(crate) fn access_cache(&mut self, command: u32) {
        let flow = self.commands[command].flow;
        let bytes = std::mem::take(&mut self.commands[command].admitted_bytes);
        let cache = self.cache.as_mut().expect("a cache");
        let length = cache.access_time(bytes);
        let blame = &mut self.blame;
        let booking = cache.dram.book(self.now, length, flow, |holder, wait| {
            blame.add(flow, Resource::Dram, holder, wait);
        });
        self.events.push(booking.end, Event::CacheAccessDone { command });
    }

    pub(crate) fn cache_access_done(&mut self, command: u32) {
        let span = self.now.since(self.commands[command].mark);
        for (first_sector, sectors) in std::mem::take(&mut self.commands[command].pieces) {
            self.send_piece(command, first_sector, sectors);
        }
        self.part_done(command, |stages| stages.add(Stage::Cache, span));
    }

    /// Reads what a partly written unit lacks.
    pub(crate) fn merge(&mut self, unit: u32, slot: u32) {
        let now = self.now;
        let u = &mut self.units[unit];
        u.state = UnitState::Merging;
        let granules = 64 - u.mask.count_zeros();
        let bits = self.shape.unit_sectors.min(64);
        let missing = self.shape.unit_bytes / bits * (bits - granules.min(bits));
        let page = slot - slot % self.shape.units_per_page;
        let plane = self.shape.plane_of_slot(slot);
        let holder = if u.holder == GARBAGE_COLLECTION { GARBAGE_COLLECTION } else { u.holder };
        let extent = Extent { plane, slot: page, bytes: missing.max(512) };
        let t =
            Transaction::new(Purpose::Merge, u.class.max(CLASS_HOST), holder, unit, extent, now);
        let transaction = self.transactions.insert(t);
        self.enqueue_transaction(transaction);
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
