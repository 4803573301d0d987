//! Warming the data cache: what a history of accesses leaves in it, without their taking any
//! time. The cached mapping table is warmed by preconditioning ([`crate::ftl::precondition`]).

use crate::cache::Cache;
use crate::cache::read::{complete_mask, sector_mask};
use crate::config::Priority;
use crate::drive::{Drive, FLOW_MAX, Policies};
use crate::flash::queues::CLASS_HOST;
use crate::flash::work::UNSET;
use crate::ftl::Ftl;
use crate::ftl::mapping::table::Content;
use crate::ftl::precondition::PreconditionError;
use crate::ftl::unit::{UnitState, WriteUnit};
use crate::host::front::SECTORS_MAX;
use crate::io::{FlowId, NamespaceId, Operation, PlacementId};
use crate::number::Lpn;
use crate::observe::blame::HolderIndex;
use mynah_stamp::Time;

/// After how many accesses it is seen whether the cache is full: enough for every flow to have
/// been there.
const LOOK_EVERY: u64 = 1024;

/// A command of a past workload, replayed to fill the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub flow: FlowId,
    pub namespace: NamespaceId,
    pub operation: Operation,
    /// Of a write: which data it belongs with.
    pub placement: PlacementId,
    /// In sectors of 512 bytes from the namespace's start.
    pub sector: u64,
    pub sectors: u32,
    /// Whether its flow writes as fast as the drive takes it: then the cache is found full, and
    /// what is more than may stay in it on its way to the flash.
    pub saturated: bool,
}

impl Access {
    /// Whether a drive could have had it: no flow has a higher number, and no read or write is
    /// longer. Others change nothing.
    pub fn is_possible(&self) -> bool {
        let has_length = match self.operation {
            Operation::Read | Operation::Write | Operation::WriteThrough => {
                self.sectors <= SECTORS_MAX
            }
            Operation::Trim | Operation::Flush | Operation::Other => true,
        };
        has_length && self.flow.0 <= FLOW_MAX
    }
}

impl<P: Policies> Drive<P> {
    /// Leaves the data cache as the accesses of `history`, oldest first, leave it: with what was
    /// used last, as much of it dirty as may be. Takes as many as fill the cache; returns how
    /// many. Only what is on flash is warmed, so lay that down first.
    ///
    /// # Errors
    /// [`PreconditionError::Used`] if the drive has been used.
    pub fn warm_cache(
        &mut self,
        history: impl IntoIterator<Item = Access>,
    ) -> Result<u64, PreconditionError> {
        if self.kernel.now != Time::ZERO
            || self.kernel.observe.counted().commands > 0
            || self.host.commands_inside() > 0
        {
            return Err(PreconditionError::Used);
        }
        let mut taken = 0u64;
        let mut saturated = vec![];
        if self.cache.is_some() {
            for access in history {
                taken += 1;
                self.warm_with(access, &mut saturated);
                if taken.is_multiple_of(LOOK_EVERY) && self.is_warm(&saturated) {
                    break;
                }
            }
        }
        for part in 0..self.cache.as_ref().map_or(0, |cache| cache.parts.len()) {
            self.set_out_surplus(part);
        }
        self.settle();
        self.restart_counters();
        Ok(taken)
    }

    /// What is more than may stay in a part is on its way to the flash, and at rest nearly all of
    /// it waits for its plane: its mapping entry is known, what a partly written unit lacked has
    /// been read, and its data have left the DRAM. Only what was admitted last is still being read.
    fn set_out_surplus(&mut self, part: usize) {
        let surplus = self.cache.as_ref().map_or(0, |cache| {
            cache.parts[part].dirty.saturating_sub(cache.dirty_at_rest(part, false))
        });
        let reading = surplus.min(self.units_being_read());
        for left in (0..surplus).rev() {
            if left < reading {
                self.evict_oldest(part);
                continue;
            }
            let Some(at) = self.oldest_dirty(part) else { return };
            self.unlink_cached(at);
            if self.cache.as_ref().is_some_and(Cache::is_bounded) {
                self.set_out(at, self.shape.unit_sectors);
            }
            self.ftl.unit_mut(at).mask = u64::MAX;
            self.queue_for_plane(at);
        }
    }

    /// Units that are being completed at any moment in a drive whose dies have no time left: as
    /// many as are programmed while one is read (Little's law). A read finds a die programming,
    /// and waits for half of that in the mean.
    fn units_being_read(&self) -> usize {
        let pages = self.shape.pages_per_block / 2;
        let program = self.flash.times().program_mean.as_secs_f64();
        let read = self.flash.times().read(pages).as_secs_f64() + program / 2.0;
        (f64::from(self.config.geometry.dies()) * (read / program.max(read))) as usize
    }

    /// Whether more accesses would only replace what is in the cache.
    fn is_warm(&self, saturated: &[bool]) -> bool {
        let Some(cache) = &self.cache else { return true };
        (0..cache.parts.len()).all(|part| {
            let all = saturated.get(part).copied().unwrap_or(false);
            cache.is_filled(part, all)
        })
    }

    fn warm_with(&mut self, access: Access, saturated: &mut Vec<bool>) {
        let Some(index) = (access.namespace.0 as usize).checked_sub(1) else { return };
        let Some(space) = self.ftl.namespace(index) else { return };
        let (reads, writes) = (space.caches_reads, space.caches_writes);
        let (base, units) = (space.base, u64::from(space.units));
        let moves = matches!(
            access.operation,
            Operation::Read | Operation::Write | Operation::WriteThrough
        );
        if !moves || !access.is_possible() {
            return;
        }
        let holder = self.kernel.observe.flows().holder_of(access.flow);
        self.grow_holders(usize::from(holder) + 1);
        let Some(part) = self.cache.as_ref().map(|cache| cache.part_of(holder, index)) else {
            return;
        };
        if part >= saturated.len() {
            saturated.resize(part + 1, false);
        }
        let past_slc = writes
            && access.operation != Operation::Read
            && self.ftl.parts_writes()
            && self.ftl.goes_past_slc(
                self.policies.admission(),
                index,
                access.sector,
                access.sectors,
            );
        let unit_sectors = u64::from(self.shape.unit_sectors);
        let end = access.sector.saturating_add(access.sectors.into());
        let last = end.div_ceil(unit_sectors).min(units);
        for unit in access.sector / unit_sectors..last {
            let start = unit * unit_sectors;
            let from = access.sector.max(start) - start;
            let to = end.min(start + unit_sectors) - start;
            let mask =
                sector_mask(self.shape.unit_sectors, from as u32, to.saturating_sub(from) as u32);
            let mask = complete_mask(self.shape.unit_sectors, mask);
            let unit = base + unit as u32;
            let dirty = self.cache.as_ref().and_then(|cache| cache.find(unit));
            match access.operation {
                _ if self.ftl.ppn(unit).is_none() || mask == 0 => {}
                Operation::Read if reads && dirty.is_none() => {
                    if let Some(cache) = &mut self.cache {
                        cache.fill(unit, mask, part);
                    }
                }
                Operation::Write | Operation::WriteThrough if writes => {
                    saturated[part] |= access.saturated;
                    let group = match self.ftl.handle_of(index, access.placement) {
                        Some(handle) => handle,
                        None => Ftl::group_beside_slc(past_slc),
                    };
                    match dirty {
                        Some(at) => {
                            let sectors = self.shape.unit_sectors;
                            let u = self.ftl.unit_mut(at);
                            u.group = group;
                            u.mask = complete_mask(sectors, u.mask | mask);
                            u.written = complete_mask(sectors, u.written | mask);
                            self.unlink_cached(at);
                            self.link_newest_cached(at);
                        }
                        None => self.warm_dirty((unit, group), mask, holder, part),
                    }
                    self.trim_dirty(part, saturated[part]);
                }
                Operation::Write | Operation::WriteThrough => {
                    if let Some(cache) = &mut self.cache {
                        cache.forget(unit);
                    }
                }
                _ => {}
            }
        }
    }

    fn warm_dirty(&mut self, (lpn, group): (Lpn, u8), mask: u64, holder: HolderIndex, part: usize) {
        let Some(cache) = &mut self.cache else { return };
        if !cache.make_room(part) {
            self.age(part);
        }
        let Some(cache) = &mut self.cache else { return };
        if !cache.make_room(part) {
            return;
        }
        let known = cache.forget(lpn).unwrap_or(0);
        let epoch = cache.dirtied();
        let at = self.ftl.units_mut().insert(WriteUnit {
            cached: true,
            state: UnitState::Cached,
            mask: complete_mask(self.shape.unit_sectors, mask | known),
            written: mask,
            epoch,
            part: part as u16,
            group,
            ..WriteUnit::new(
                Content::Unit(lpn),
                CLASS_HOST + Priority::default() as u8,
                holder,
                UNSET,
            )
        });
        if let Some(cache) = &mut self.cache {
            cache.add(lpn, at, holder, part);
        }
        self.link_newest_cached(at);
    }

    /// Takes what is more than a part holds of dirty units as written to flash.
    fn trim_dirty(&mut self, part: usize, saturated: bool) {
        while let Some(cache) = &self.cache
            && cache.parts[part].dirty > cache.dirty_at_rest(part, saturated)
        {
            if cache.parts[part].resting.is_empty() {
                return;
            }
            self.age(part);
        }
    }

    /// The oldest dirty unit of a part is on flash: it leaves, or is clean.
    fn age(&mut self, part: usize) {
        let Some(oldest) = self.oldest_dirty(part) else { return };
        self.unlink_cached(oldest);
        let u = self.ftl.unit(oldest);
        let (content, holder, epoch, mask) = (u.content, u.holder, u.epoch, u.mask);
        self.ftl.units_mut().remove(oldest);
        let Content::Unit(lpn) = content else { return };
        let reads = self.stays_when_clean(lpn);
        if let Some(cache) = &mut self.cache {
            cache.cleaned(epoch);
            cache.remove(lpn, holder, part, reads.then_some(mask));
        }
    }
}
