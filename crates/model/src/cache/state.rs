//! The data cache as bytes: what is dirty in it, what is clean, and where both lie in the DRAM.
//!
//! Dirty units stay as they are: those that rest keep the order in which they were written
//! last; those that wait for others to fill a page with keep their place in the queue of their
//! plane, but wait from the moment of saving on: a restored drive is at time zero. Nobody waits
//! for a unit of a drive at rest, so in which epoch each became dirty does not matter.

use super::Cache;
use crate::cache::read::complete_mask;
use crate::config::CacheSharing;
use crate::drive::{Drive, Policies};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_HOST};
use crate::flash::work::UNSET;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::{UnitState, WriteUnit};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::kernel::pool::Pool;
use crate::number::{Lpn, Plane, WriteIndex};
use crate::observe::stats::Counters;
use mynah_stamp::Time;

/// The highest place that any unit has had in the queues: no drive comes near it.
const ORDER_MAX: u64 = 1 << 62;

fn damaged<T>(what: impl Into<String>) -> Result<T, StateError> {
    Err(StateError::Damaged(what.into()))
}

fn save_masks(out: &mut Writer<'_>, masks: &[u64]) {
    for quarter in 0..4 {
        out.numbers(masks.iter().map(|mask| (mask >> (16 * quarter)) as u32 & 0xffff));
    }
}

fn read_masks(input: &mut Reader<'_>, count: usize) -> Result<Vec<u64>, StateError> {
    let mut masks = vec![0u64; count];
    for quarter in 0..4 {
        let bits = input.all("masks", count, 1 << 16)?;
        for (mask, bits) in masks.iter_mut().zip(bits) {
            *mask |= u64::from(bits) << (16 * quarter);
        }
    }
    Ok(masks)
}

/// What is the same of all dirty units.
struct Dirty {
    lpn: Lpn,
    mask: u64,
    class: u8,
    holder: u16,
    handle: u8,
}

impl Dirty {
    /// `handles`: whether there are several, to one of which each unit belongs.
    fn save(out: &mut Writer<'_>, units: &[&WriteUnit], handles: bool) {
        out.numbers(units.iter().map(|unit| match unit.content {
            Content::Unit(lpn) => lpn.0,
            Content::TranslationPage(_) => unreachable!("the cache holds units"),
        }));
        save_masks(out, &units.iter().map(|unit| unit.mask).collect::<Vec<_>>());
        out.numbers(units.iter().map(|unit| u32::from(unit.class)));
        out.numbers(units.iter().map(|unit| u32::from(unit.holder)));
        if handles {
            out.numbers(units.iter().map(|unit| u32::from(unit.group)));
        }
    }

    fn write_unit(&self, part: usize) -> WriteUnit {
        WriteUnit {
            cached: true,
            state: UnitState::Cached,
            mask: self.mask,
            written: self.mask,
            part: part as u16,
            group: self.handle,
            ..WriteUnit::new(Content::Unit(self.lpn), self.class, self.holder, UNSET)
        }
    }
}

impl Cache {
    /// Whether nothing that is in it is on its way, and nobody waits for it.
    pub(crate) fn is_at_rest(&self, units: &Pool<WriteUnit>) -> bool {
        let rests = |(_, at): (u32, u32)| {
            let unit = &units[WriteIndex(at)];
            matches!(unit.state, UnitState::Cached | UnitState::Queued) && !unit.through
        };
        self.flushes.is_empty()
            && self.waiting == 0
            && !self.draining
            && self.index.iter().all(rests)
    }

    /// Adds what the data cache holds, in the order of its age; nothing if that is nothing.
    pub(crate) fn hash(&self, units: &Pool<WriteUnit>, hash: &mut StateHash) {
        for (number, part) in self.parts.iter().enumerate() {
            for (_, unit) in part.resting.oldest_first(units.as_slice()) {
                if let Content::Unit(content) = unit.content {
                    hash.add_cached(content, unit.mask);
                }
            }
            if let Some(clean) = &self.clean {
                clean.contents(number).for_each(|(unit, mask)| hash.add_cached(unit, mask));
            }
        }
        if !self.is_clean() {
            hash.add(self.len() as u32);
        }
    }

    /// Adds how busy its DRAM has been up to `now`.
    pub(crate) fn count_dram(&self, now: Time, totals: &mut Counters) {
        totals.dram_busy = self.dram.bus().booked(now);
        (totals.dram_rows, totals.dram_row_hits) = (self.dram.rows, self.dram.row_hits);
    }

    /// Dirty units that wait for their plane, in the order in which they came.
    fn queued(&self, units: &Pool<WriteUnit>) -> Vec<WriteIndex> {
        let all = self.contents().into_iter().map(|(_, at)| at);
        let mut queued: Vec<WriteIndex> =
            all.filter(|&at| units[at].state == UnitState::Queued).collect();
        queued.sort_unstable_by_key(|&at| units[at].order);
        queued
    }

    fn save(&self, units: &Pool<WriteUnit>, handles: bool, out: &mut Writer<'_>) {
        let place_of = |at: &WriteIndex| self.places.as_ref().map(|places| places.of_write(*at));
        out.number(self.parts.len() as u64);
        self.dram.save(out);
        for part in &self.parts {
            let resting: Vec<WriteIndex> =
                part.resting.oldest_first(units.as_slice()).map(|(at, _)| WriteIndex(at)).collect();
            Dirty::save(out, &resting.iter().map(|&at| &units[at]).collect::<Vec<_>>(), handles);
            let places: Vec<u32> = resting.iter().filter_map(place_of).collect();
            out.numbers(places.into_iter());
        }
        let indices = self.queued(units);
        let queued: Vec<&WriteUnit> = indices.iter().map(|&at| &units[at]).collect();
        Dirty::save(out, &queued, handles);
        let places: Vec<u32> = indices.iter().filter_map(place_of).collect();
        out.numbers(places.into_iter());
        out.numbers(queued.iter().map(|unit| u32::from(unit.part)));
        out.numbers(queued.iter().map(|unit| unit.plane.0));
        let flags = |unit: &&WriteUnit| {
            [unit.group == 1 && !handles, unit.trimmed, unit.rewritten, unit.retried]
                .iter()
                .rfold(0, |flags, &flag| flags << 1 | u32::from(flag))
        };
        out.numbers(queued.iter().map(flags));
        if self.is_bounded() {
            out.numbers(queued.iter().map(|unit| u32::from(unit.under_way)));
        }
        queued.iter().for_each(|unit| out.number(unit.order));
        if let Some(clean) = &self.clean {
            for part in 0..self.parts.len() {
                let all: Vec<(Lpn, u64)> = clean.contents(part).collect();
                out.numbers(all.iter().map(|&(unit, _)| unit.0));
                save_masks(out, &all.iter().map(|&(_, mask)| mask).collect::<Vec<_>>());
                let places = all.iter().filter_map(|&(unit, _)| self.clean_place(unit));
                out.numbers(places.collect::<Vec<_>>().into_iter());
            }
        }
        if let Some(places) = &self.places {
            places.save(out);
        }
    }

    /// The DRAM's places of `count` units, if that matters; each is noted in `taken`.
    fn read_places(
        &self,
        count: usize,
        taken: &mut Vec<u32>,
        input: &mut Reader<'_>,
    ) -> Result<Vec<u32>, StateError> {
        let expected = if self.places.is_some() { count } else { 0 };
        let places = input.all("places in DRAM", expected, self.capacity as u32)?;
        taken.extend(&places);
        Ok(places)
    }

    /// Puts in a unit that is not in it.
    fn restore_dirty(
        &mut self,
        of: &Dirty,
        at: WriteIndex,
        part: usize,
        place: Option<&u32>,
    ) -> Result<(), StateError> {
        if self.held() >= self.capacity || self.index.contains(of.lpn.0) {
            return damaged("more is cached than fits, or twice");
        }
        self.index.insert(of.lpn.0, at.0);
        self.parts[part].count(of.holder, 1);
        self.parts[part].dirty += 1;
        self.dirtied();
        if let (Some(places), Some(&place)) = (&mut self.places, place) {
            places.put(at, place);
        }
        Ok(())
    }

    /// Takes what is clean in it.
    fn restore_clean(
        &mut self,
        units: u32,
        taken: &mut Vec<u32>,
        input: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        for part in 0..self.parts.len() {
            if self.clean.is_none() {
                break;
            }
            let of = input.numbers("cached units", self.capacity, units)?;
            let masks = read_masks(input, of.len())?;
            let mut places = self.read_places(of.len(), taken, input)?.into_iter();
            for (unit, mask) in of.into_iter().map(Lpn).zip(masks) {
                let full = self.held() >= self.capacity || self.index.contains(unit.0);
                let place = places.next().unwrap_or(crate::kernel::pool::NONE);
                match &mut self.clean {
                    Some(clean) if !full && clean.place(unit).is_none() => {
                        clean.insert(unit, mask, part, place);
                    }
                    _ => return damaged("more is cached than fits, or twice"),
                }
            }
        }
        Ok(())
    }
}

impl<P: Policies> Drive<P> {
    /// Whether nothing in the cache is on its way, nobody waits for it or its DRAM, and nothing but
    /// what it holds is to be programmed.
    pub(crate) fn is_cache_at_rest(&self) -> bool {
        let units = self.ftl.units();
        match &self.cache {
            None => units.len() == 0,
            Some(cache) => {
                units.len() == cache.len()
                    && cache.is_at_rest(units)
                    && cache.dram.bus().free_at() <= self.kernel.now
            }
        }
    }

    pub(crate) fn save_cache(&mut self, out: &mut Writer<'_>) {
        let queued = match &self.cache {
            Some(cache) => {
                cache.save(self.ftl.units(), self.ftl.groups_by_command(), out);
                cache.queued(self.ftl.units())
            }
            None => vec![],
        };
        for &at in &queued {
            self.ftl.unit_mut(at).queued = self.kernel.now;
        }
        self.flash.save_flows(self.kernel.now, &queued, out);
    }

    /// Takes what [`Drive::save_cache`] wrote, when all else has been restored.
    pub(crate) fn restore_cache(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let queued = match &self.cache {
            Some(_) => self.restore_dirty_and_clean(input)?,
            None => vec![],
        };
        self.flash.restore_flows(self.kernel.now, &queued, input)
    }

    /// Dirty units, each checked for itself.
    fn read_dirty(&self, most: usize, input: &mut Reader<'_>) -> Result<Vec<Dirty>, StateError> {
        let units = input.numbers("dirty units", most, self.ftl.unit_count())?;
        let masks = read_masks(input, units.len())?;
        let classes = input.all("classes", units.len(), CLASS_COLLECTION.into())?;
        let holders = input.all("holders", units.len(), self.kernel.observe.holders() as u32)?;
        let handles = match self.ftl.groups_by_command() {
            true => input.all("handles", units.len(), self.ftl.groups_told_apart().into())?,
            false => vec![0; units.len()],
        };
        let whose = classes.into_iter().zip(holders).zip(handles);
        let all = units.into_iter().map(Lpn).zip(masks).zip(whose);
        let dirty = all.map(|((unit, mask), ((class, holder), handle))| {
            let sectors = self.shape.unit_sectors;
            let whole = sectors.div_ceil(sectors.div_ceil(64));
            let rest = u64::MAX.checked_shl(whole).unwrap_or(0);
            let is_mask = complete_mask(sectors, mask) == mask;
            let fits = is_mask
                && (mask == u64::MAX || mask & rest == 0)
                && class >= u32::from(CLASS_HOST)
                && holder >= u32::from(self.kernel.observe.flows().first())
                && self.ftl.namespaces()[self.ftl.namespace_index(unit)].caches_writes;
            match fits {
                true => Ok(Dirty {
                    lpn: unit,
                    mask,
                    class: class as u8,
                    holder: holder as u16,
                    handle: handle as u8,
                }),
                false => damaged("a dirty unit that the cache does not hold so"),
            }
        });
        dirty.collect()
    }

    /// Whether a unit may be in a part of the cache: where flows have their parts it stays in
    /// that of the flow which wrote it first.
    fn may_fill(&self, lpn: Lpn, part: usize) -> bool {
        self.cache.as_ref().is_some_and(|cache| match cache.sharing {
            CacheSharing::Shared => part == 0,
            CacheSharing::PerNamespace => part == self.ftl.namespace_index(lpn),
            CacheSharing::PerFlow => part < cache.parts.len(),
        })
    }

    /// Fills the cache; returns the dirty units that wait for their planes.
    fn restore_dirty_and_clean(
        &mut self,
        input: &mut Reader<'_>,
    ) -> Result<Vec<WriteIndex>, StateError> {
        let parts = input.number()?;
        let Some(cache) = &mut self.cache else { return Ok(vec![]) };
        if parts != cache.parts.len() as u64 {
            return damaged(format!("{parts} parts of the cache"));
        }
        cache.dram.restore(input)?;
        let (parts, capacity) = (cache.parts.len(), cache.capacity);
        let mut taken = vec![];
        for part in 0..parts {
            let resting = self.read_dirty(capacity, input)?;
            let places = match &self.cache {
                Some(cache) => cache.read_places(resting.len(), &mut taken, input)?,
                None => vec![],
            };
            for (index, dirty) in resting.iter().enumerate() {
                let at = self.restore_unit(dirty, part, places.get(index))?;
                self.link_newest_cached(at);
            }
        }
        let queued = self.read_dirty(capacity, input)?;
        let places = match &self.cache {
            Some(cache) => cache.read_places(queued.len(), &mut taken, input)?,
            None => vec![],
        };
        let of_part = input.all("parts of the cache", queued.len(), parts as u32)?;
        let planes = input.all("planes", queued.len(), self.shape.planes)?;
        let flags = input.all("flags", queued.len(), 1 << 4)?;
        let under_way = match &self.cache {
            Some(cache) if cache.is_bounded() => {
                input.all("sectors on their way", queued.len(), self.shape.unit_sectors + 1)?
            }
            _ => vec![0; queued.len()],
        };
        let mut indices = Vec::with_capacity(queued.len());
        let mut order = 0;
        for (index, dirty) in queued.iter().enumerate() {
            let before = std::mem::replace(&mut order, input.number()?);
            if order <= before || order > self.kernel.order() {
                return damaged("the order of what waits");
            }
            let part = of_part[index] as usize;
            let at = self.restore_unit(dirty, part, places.get(index))?;
            self.ftl.unit_mut(at).under_way = under_way[index] as u16;
            if let Some(cache) = &mut self.cache {
                cache.set_out(part, under_way[index] as u16);
            }
            self.queue_restored(at, Plane(planes[index]), flags[index], order)?;
            indices.push(at);
        }
        let units = self.ftl.unit_count();
        if let Some(cache) = &mut self.cache {
            cache.restore_clean(units, &mut taken, input)?;
            let capacity = cache.capacity;
            if let Some(places) = &mut cache.places {
                places.restore(capacity, taken, input)?;
            }
        }
        Ok(indices)
    }

    fn restore_unit(
        &mut self,
        dirty: &Dirty,
        part: usize,
        place: Option<&u32>,
    ) -> Result<WriteIndex, StateError> {
        if !self.may_fill(dirty.lpn, part) {
            return damaged("a unit in another part of the cache");
        }
        let at = self.ftl.units_mut().insert(dirty.write_unit(part));
        match &mut self.cache {
            Some(cache) => cache.restore_dirty(dirty, at, part, place)?,
            None => return damaged("a cache"),
        }
        Ok(at)
    }

    /// Puts a dirty unit where it waited.
    fn queue_restored(
        &mut self,
        at: WriteIndex,
        plane: Plane,
        flags: u32,
        order: u64,
    ) -> Result<(), StateError> {
        let Content::Unit(lpn) = self.ftl.unit(at).content else { return damaged("a unit") };
        let [hot, trimmed, rewritten, retried] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
        let group = match self.ftl.groups_by_command() {
            true => self.ftl.unit(at).group,
            false => u8::from(hot),
        };
        let fits = self.ftl.may_wait(lpn, plane, group, self.config.placement);
        if !fits || rewritten && !retried {
            return damaged("a unit that waits");
        }
        let class = self.ftl.unit(at).class;
        let u = self.ftl.unit_mut(at);
        (u.state, u.plane, u.order) = (UnitState::Queued, plane, order);
        u.queued = self.kernel.now;
        (u.group, u.trimmed, u.rewritten, u.retried) = (group, trimmed, rewritten, retried);
        if rewritten && let Some(cache) = &mut self.cache {
            u.rewrite_epoch = cache.dirtied();
        }
        self.ftl.queue_restored(at);
        self.flash.program_restored(plane, class);
        Ok(())
    }

    /// Takes how many things have been put into queues.
    pub(crate) fn restore_order(&mut self, order: u64) -> Result<(), StateError> {
        if order > ORDER_MAX {
            return damaged("the order of what waits");
        }
        self.kernel.restore_order(order);
        Ok(())
    }
}
