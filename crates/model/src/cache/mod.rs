//! The data cache: which units are in DRAM and not yet safe on flash, who filled it, how it is
//! divided, and the epochs that tell a flush when everything before it is done. What it holds
//! of data that is on flash, too, is in `clean`.

mod check;
pub(crate) mod clean;
pub(crate) mod dram;
pub(crate) mod read;
mod state;
mod stop;
pub mod warm;
pub(crate) mod write;

use crate::cache::clean::Clean;
use crate::cache::dram::{Dram, Places};
use crate::config::{self, CacheSharing, RowPolicy, WriteBack};
use crate::kernel::index::Index;
use crate::kernel::pool::NONE;
use crate::kernel::recency::Recency;
use crate::number::{CommandIndex, Lpn, WriteIndex};
use crate::observe::blame::{Flows, HolderIndex};
use crate::space::Shape;
use hashbrown::HashMap;
use mynah_stamp::{Span, Time};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use write::ThroughWaiter;

#[derive(Serialize, Deserialize)]
pub(crate) struct Cache {
    /// In mapping units.
    capacity: usize,
    sharing: CacheSharing,
    /// Which holders have parts of it.
    flows: Flows,
    write_back: WriteBack,
    /// Sectors of each part that may be on their way, if that is bounded.
    under_way_max: Option<u32>,
    protected: bool,
    index: Index,
    parts: Vec<Part>,
    /// Commands that wait for room, of all parts.
    waiting: usize,
    /// What of flash is in it, if reads use it.
    clean: Option<Box<Clean>>,
    dram: Dram,
    /// Where units lie in the DRAM, if that matters.
    places: Option<Box<Places>>,
    /// Bytes of the DRAM that the access at hand touches, if that matters: address, length.
    touched: Vec<(u64, u32)>,
    unit_bytes: u32,
    /// Units that became dirty in each epoch and are not on flash; the first is `epoch_base`.
    dirty: VecDeque<u32>,
    epoch_base: u32,
    /// Commands that wait until what they wrote to a cached unit is on flash.
    through_waiters: HashMap<WriteIndex, Vec<ThroughWaiter>, FxBuildHasher>,
    /// Flush commands, oldest first.
    flushes: VecDeque<CommandIndex>,
    /// Everything is to be written to flash.
    draining: bool,
    /// Every write goes through it, and fills the same part.
    takes_all_writes: bool,
}

/// What one flow or namespace, or all of them, may fill.
#[derive(Serialize, Deserialize)]
pub(crate) struct Part {
    capacity: usize,
    /// Dirty units above which the least recently written leave; `None`: they leave at once.
    high: Option<usize>,
    dirty: usize,
    /// Sectors that writes have brought and that are on their way, if that is bounded.
    under_way: u32,
    /// Of the dirty units, how many each holder has; not kept where a part is one flow's.
    occupancy: Vec<u32>,
    /// Dirty units that are not on their way to the flash, by recency.
    resting: Recency,
    /// Commands that wait for room, oldest first.
    waiting: VecDeque<CommandIndex>,
}

impl Part {
    #[inline]
    fn count(&mut self, holder: HolderIndex, change: i32) {
        if let Some(units) = self.occupancy.get_mut(usize::from(holder)) {
            *units = units.wrapping_add_signed(change);
        }
    }
}

impl Cache {
    pub(crate) fn new(
        config: &config::DataCache,
        namespaces: usize,
        flows: Flows,
        shape: &Shape,
    ) -> Cache {
        let mut cache = Cache {
            capacity: (config.bytes / u64::from(shape.unit_bytes)) as usize,
            sharing: config.sharing,
            flows,
            write_back: config.write_back,
            under_way_max: config.write_back_max.map(|bytes| (bytes / 512) as u32),
            protected: config.power_loss_protection,
            index: Index::default(),
            parts: vec![],
            waiting: 0,
            clean: config.mode.reads().then(|| Box::new(Clean::default())),
            places: match config.dram.rows {
                RowPolicy::Closed => None,
                RowPolicy::Open { .. } => Some(Box::default()),
            },
            dram: Dram::new(config.dram),
            touched: Vec::new(),
            unit_bytes: shape.unit_bytes,
            dirty: VecDeque::from([0]),
            epoch_base: 0,
            through_waiters: HashMap::default(),
            flushes: VecDeque::new(),
            draining: false,
            takes_all_writes: config.sharing == CacheSharing::Shared,
        };
        cache.divide(match config.sharing {
            CacheSharing::PerNamespace => namespaces,
            CacheSharing::Shared | CacheSharing::PerFlow => 1,
        });
        cache
    }

    /// Divides it into so many parts, if there are fewer.
    fn divide(&mut self, parts: usize) {
        if parts <= self.parts.len() {
            return;
        }
        let empty = || Part {
            capacity: 0,
            high: None,
            dirty: 0,
            under_way: 0,
            occupancy: vec![],
            resting: Recency::EMPTY,
            waiting: VecDeque::new(),
        };
        self.parts.resize_with(parts, empty);
        let capacity = (self.capacity / parts).max(1);
        for part in &mut self.parts {
            part.capacity = capacity;
            part.high = match self.write_back {
                WriteBack::Eager => None,
                WriteBack::Lru { high } => Some((capacity as f64 * high) as usize),
            };
        }
        if let Some(clean) = &mut self.clean {
            clean.grow(parts);
        }
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        self.dram.grow(holders);
        if self.sharing == CacheSharing::PerFlow {
            return self.divide(holders.saturating_sub(usize::from(self.flows.first())));
        }
        for part in &mut self.parts {
            part.occupancy.resize(holders.max(part.occupancy.len()), 0);
        }
    }

    /// Which part the I/O of a flow on a namespace, counted from 0, fills.
    #[inline]
    pub(crate) fn part_of(&self, holder: HolderIndex, namespace: usize) -> usize {
        match self.sharing {
            CacheSharing::Shared => 0,
            CacheSharing::PerNamespace => namespace,
            CacheSharing::PerFlow => usize::from(holder - self.flows.first()),
        }
    }

    /// Whether what is in it outlives a power cut.
    pub(crate) fn is_protected(&self) -> bool {
        self.protected
    }

    /// Called when a namespace's writes bypass the cache.
    pub(crate) fn leave_writes_out(&mut self) {
        self.takes_all_writes = false;
    }

    /// Nothing is under way in its DRAM at `now`.
    pub(crate) fn clear_dram(&mut self, now: Time) {
        self.dram.power_cut(now);
    }

    /// Whether nothing is in it that a read could find.
    #[inline]
    pub(crate) fn is_useless(&self) -> bool {
        self.index.is_empty() && self.clean.is_none()
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.index.is_empty()
    }

    /// Dirty units; clean ones are not counted.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Units in it, dirty or not.
    fn held(&self) -> usize {
        self.index.len() + self.clean.as_ref().map_or(0, |clean| clean.len())
    }

    /// Whether a part has room for one more dirty unit, when what is clean has made way.
    #[inline]
    pub(crate) fn has_room(&self, part: usize) -> bool {
        let p = &self.parts[part];
        p.dirty < p.capacity && self.index.len() < self.capacity
    }

    /// Makes room for one more unit of a part, dirty or not; false if it is full of dirty
    /// units.
    #[inline]
    pub(crate) fn make_room(&mut self, part: usize) -> bool {
        self.has_room(part) && (self.clean.is_none() || self.make_room_of_clean(part))
    }

    /// Has what is clean make way, where that is needed.
    #[inline(never)]
    fn make_room_of_clean(&mut self, part: usize) -> bool {
        let Some(clean) = &mut self.clean else { return true };
        let p = &self.parts[part];
        let left = if p.dirty + clean.len_of(part) >= p.capacity {
            clean.evict(part)
        } else if self.index.len() + clean.len() >= self.capacity {
            // Another part has more than it has a right to since the cache was divided anew.
            let most = (0..self.parts.len())
                .max_by_key(|&at| (clean.len_of(at) > 0, self.parts[at].dirty + clean.len_of(at)));
            most.and_then(|most| clean.evict(most))
        } else {
            return true;
        };
        if let (Some(places), Some(left)) = (&mut self.places, &left) {
            places.give_back(left.place);
        }
        left.is_some()
    }

    /// Dirty units that a part has when writes have gone on for long: those that may stay, or
    /// (`saturated`) as many as fit, of which the others are on their way.
    pub(crate) fn dirty_at_rest(&self, part: usize, saturated: bool) -> usize {
        let part = &self.parts[part];
        match (saturated, self.under_way_max) {
            (false, _) => part.high.unwrap_or(0),
            (true, None) => part.capacity,
            (true, Some(sectors)) => {
                part.capacity.min(sectors.div_ceil(self.unit_bytes / 512) as usize)
            }
        }
    }

    /// Whether writes wait because as much of a part is on its way as may be.
    #[inline]
    pub(crate) fn is_backed_up(&self, part: usize) -> bool {
        self.under_way_max.is_some_and(|most| self.parts[part].under_way >= most)
    }

    /// Whether it matters how much is on its way.
    #[inline]
    pub(crate) fn is_bounded(&self) -> bool {
        self.under_way_max.is_some()
    }

    /// Counts `sectors` of a part as on their way to the flash.
    pub(crate) fn set_out(&mut self, part: usize, sectors: u16) {
        self.parts[part].under_way += u32::from(sectors);
    }

    /// `sectors` of a part are on flash, or need not be any more.
    pub(crate) fn arrived(&mut self, part: usize, sectors: u16) {
        self.parts[part].under_way -= u32::from(sectors);
    }

    /// Sectors of a part that are on their way, for the invariants' check.
    pub(crate) fn under_way(&self, part: usize) -> u32 {
        self.parts[part].under_way
    }

    /// Whether a part holds all that it can.
    pub(crate) fn is_filled(&self, part: usize, saturated: bool) -> bool {
        let p = &self.parts[part];
        let full = self.held() >= self.capacity;
        full || match &self.clean {
            Some(clean) => p.dirty + clean.len_of(part) >= p.capacity,
            None => p.dirty >= self.dirty_at_rest(part, saturated),
        }
    }

    /// The part whose oldest dirty unit has to leave for a command of `part` to get room.
    pub(crate) fn part_in_the_way(&self, part: usize) -> usize {
        if self.parts[part].dirty >= self.parts[part].capacity {
            return part;
        }
        let fullest = |at: &usize| (!self.parts[*at].resting.is_empty(), self.parts[*at].dirty);
        (0..self.parts.len()).max_by_key(fullest).unwrap_or(part)
    }

    /// Asks for what [`Cache::find`] of each of these will look at.
    #[inline]
    pub(crate) fn prefetch(&self, units: impl Iterator<Item = Lpn> + Clone) {
        if !self.index.is_empty() {
            units.clone().for_each(|unit| self.index.prefetch(unit.0));
            units.for_each(|unit| self.index.prefetch_first(unit.0));
        }
    }

    /// Asks for what will be changed when unit `lpn`, which is at `at`, leaves.
    #[inline]
    pub(crate) fn prefetch_leaving(&self, lpn: Lpn, at: WriteIndex) {
        self.index.prefetch(lpn.0);
        self.index.prefetch_place(at.0);
    }

    #[inline]
    pub(crate) fn find(&self, lpn: Lpn) -> Option<WriteIndex> {
        self.index.get(lpn.0).map(WriteIndex)
    }

    #[inline]
    pub(crate) fn add(&mut self, lpn: Lpn, at: WriteIndex, holder: HolderIndex, part: usize) {
        self.index.insert(lpn.0, at.0);
        let p = &mut self.parts[part];
        p.count(holder, 1);
        p.dirty += 1;
        if let Some(places) = &mut self.places {
            let place = places.take(self.capacity);
            places.put(at, place);
        }
    }

    /// A dirty unit leaves; its data stay as those of `keep`, if any.
    #[inline]
    pub(crate) fn remove(&mut self, lpn: Lpn, holder: HolderIndex, part: usize, keep: Option<u64>) {
        let at = self.index.remove(lpn.0).map(WriteIndex);
        let p = &mut self.parts[part];
        p.count(holder, -1);
        p.dirty -= 1;
        if self.places.is_some() || keep.is_some() {
            self.keep_or_free(lpn, at, part, keep);
        }
    }

    /// The place of a unit that has left: its data stay there, or it is free.
    #[inline(never)]
    fn keep_or_free(&mut self, lpn: Lpn, at: Option<WriteIndex>, part: usize, keep: Option<u64>) {
        let place = match (&self.places, at) {
            (Some(places), Some(at)) => places.of_write(at),
            _ => NONE,
        };
        if let (Some(clean), Some(mask)) = (&mut self.clean, keep) {
            return clean.insert(lpn, mask, part, place);
        }
        if let Some(places) = &mut self.places {
            places.give_back(place);
        }
    }

    /// Data that came from the flash, if there is room for them; whether there is.
    pub(crate) fn fill(&mut self, lpn: Lpn, mask: u64, part: usize) -> bool {
        let Some(clean) = &mut self.clean else { return false };
        if clean.add(lpn, mask) {
            return true;
        }
        if !self.make_room(part) {
            return false;
        }
        let place = match &mut self.places {
            Some(places) => places.take(self.capacity),
            None => NONE,
        };
        if let Some(clean) = &mut self.clean {
            clean.insert(lpn, mask, part, place);
        }
        true
    }

    /// What is on flash of a unit will not be what the cache has of it; what that was.
    #[inline]
    pub(crate) fn forget(&mut self, lpn: Lpn) -> Option<u64> {
        let left = self.clean.as_mut()?.remove(lpn)?;
        if let Some(places) = &mut self.places {
            places.give_back(left.place);
        }
        Some(left.mask)
    }

    /// A unit changes hands: another holder's data replaces it.
    pub(crate) fn rehold(&mut self, part: usize, from: HolderIndex, to: HolderIndex) {
        self.parts[part].count(from, -1);
        self.parts[part].count(to, 1);
    }

    /// A command waits for room in a part; whether it is the first.
    pub(crate) fn wait(&mut self, part: usize, command: CommandIndex) -> bool {
        self.waiting += 1;
        self.parts[part].waiting.push_back(command);
        self.parts[part].waiting.len() == 1
    }

    /// The command that has waited longest for room in a part.
    #[inline]
    pub(crate) fn first_waiting(&self, part: usize) -> Option<CommandIndex> {
        self.parts[part].waiting.front().copied()
    }

    /// Takes the command that waits first for room in `part` off the queue.
    pub(crate) fn end_wait(&mut self, part: usize) {
        self.waiting -= usize::from(self.parts[part].waiting.pop_front().is_some());
    }

    /// Whether any command waits for room.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting > 0
    }

    /// The first command that waits and is `wanted` stops waiting: the command, its part.
    pub(crate) fn abandon_wait(
        &mut self,
        wanted: impl Fn(CommandIndex) -> bool,
    ) -> Option<(CommandIndex, usize)> {
        for (index, part) in self.parts.iter_mut().enumerate() {
            if let Some(at) = part.waiting.iter().position(|&command| wanted(command)) {
                self.waiting -= 1;
                return part.waiting.remove(at).map(|command| (command, index));
            }
        }
        None
    }

    /// Splits a wait for room in a part over those who fill it now, in proportion; the parts
    /// add up exactly.
    pub(crate) fn split_wait(
        &self,
        part: usize,
        wait: Span,
        mut charge: impl FnMut(HolderIndex, Span),
    ) {
        if self.sharing == CacheSharing::PerFlow {
            return charge(part as HolderIndex + self.flows.first(), wait);
        }
        let occupancy = &self.parts[part].occupancy;
        let total: u64 = occupancy.iter().map(|&units| u64::from(units)).sum();
        let (mut seen, mut charged) = (0, 0);
        for (holder, &units) in occupancy.iter().enumerate() {
            seen += u64::from(units);
            let upto =
                (u128::from(wait.as_ps()) * u128::from(seen) / u128::from(total.max(1))) as u64;
            if upto > charged {
                charge(holder as HolderIndex, Span::from_ps(upto - charged));
            }
            charged = upto;
        }
    }

    /// Where in the DRAM a unit lies, if that matters.
    #[inline]
    pub(crate) fn place(&self, at: WriteIndex) -> Option<u32> {
        self.places.as_ref().map(|places| places.of_write(at))
    }

    /// Place in the DRAM of a clean unit, if places matter.
    pub(crate) fn clean_place(&self, lpn: Lpn) -> Option<u32> {
        self.places.as_ref()?;
        self.clean.as_ref()?.place(lpn)
    }

    /// Notes that the access at hand touches `bytes` of a place, from its byte `from` on.
    pub(crate) fn touch(&mut self, place: u32, from: u32, bytes: u32) {
        if self.places.is_some() {
            let address = u64::from(place) * u64::from(self.unit_bytes);
            self.touched.push((address + u64::from(from), bytes));
        }
    }

    /// How long the access at hand takes, to `bytes` in all.
    #[inline]
    pub(crate) fn access_time(&mut self, bytes: u32) -> Span {
        if self.places.is_none() {
            return self.dram.closed_time(bytes);
        }
        self.open_time()
    }

    #[inline(never)]
    fn open_time(&mut self) -> Span {
        let time = self.dram.open_time(&self.touched);
        self.touched.clear();
        time
    }

    /// The present epoch; a unit that becomes dirty counts towards it.
    pub(crate) fn dirtied(&mut self) -> u32 {
        *self.dirty.back_mut().expect("an epoch") += 1;
        self.epoch_base + self.dirty.len() as u32 - 1
    }

    /// A unit that became dirty in `epoch` is on flash, or void.
    pub(crate) fn cleaned(&mut self, epoch: u32) {
        self.dirty[(epoch - self.epoch_base) as usize] -= 1;
        while self.dirty.len() > 1 && self.dirty[0] == 0 {
            self.dirty.pop_front();
            self.epoch_base += 1;
        }
    }

    /// Begins a new epoch; returns the one that ends, if anything in it or before is dirty.
    pub(crate) fn end_epoch(&mut self) -> Option<u32> {
        if self.dirty.len() == 1 && self.dirty[0] == 0 {
            return None;
        }
        self.dirty.push_back(0);
        Some(self.epoch_base + self.dirty.len() as u32 - 2)
    }

    /// Whether everything that became dirty in `epoch` or before is on flash.
    pub(crate) fn is_clean_through(&self, epoch: u32) -> bool {
        self.epoch_base > epoch
    }

    /// Whether dirty units must not stay: somebody waits for them to be on flash.
    #[inline]
    pub(crate) fn must_leave(&self) -> bool {
        !self.flushes.is_empty() || self.draining
    }

    /// Forgets everything that was in it.
    pub(crate) fn power_cut(&mut self, now: Time) {
        self.index.clear();
        for part in &mut self.parts {
            (part.dirty, part.under_way) = (0, 0);
            part.occupancy.fill(0);
            part.resting = Recency::EMPTY;
            part.waiting.clear();
        }
        self.waiting = 0;
        if let Some(clean) = &mut self.clean {
            clean.clear();
        }
        self.dram.power_cut(now);
        self.touched.clear();
        if let Some(places) = &mut self.places {
            places.clear();
        }
        self.dirty = VecDeque::from([0]);
        self.through_waiters.clear();
        self.flushes.clear();
        self.draining = false;
    }

    /// What is clean in it, as (part, unit, sectors), least recently used first.
    pub(crate) fn clean_contents(&self) -> Vec<(usize, Lpn, u64)> {
        let Some(clean) = &self.clean else { return vec![] };
        let of = |part| clean.contents(part).map(move |(unit, mask)| (part, unit, mask));
        (0..self.parts.len()).flat_map(of).collect()
    }

    /// Sum of the epochs' dirty units, for the invariants' check.
    pub(crate) fn dirty_units(&self) -> u64 {
        self.dirty.iter().map(|&units| u64::from(units)).sum()
    }

    /// What in it is dirty, as (logical unit, write unit).
    pub(crate) fn contents(&self) -> Vec<(Lpn, WriteIndex)> {
        let all = self.index.iter().map(|(lpn, at)| (Lpn(lpn), WriteIndex(at)));
        let mut contents: Vec<_> = all.collect();
        contents.sort_unstable();
        contents
    }

    /// Whether it and its parts count what they hold, and hold no more than fits.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.held() > self.capacity {
            return Err(format!("{} units are cached, {} fit", self.held(), self.capacity));
        }
        let dirty: usize = self.parts.iter().map(|part| part.dirty).sum();
        let waiting: usize = self.parts.iter().map(|part| part.waiting.len()).sum();
        if (dirty, waiting) != (self.index.len(), self.waiting) {
            return Err(format!(
                "the cache's parts count {dirty} units and {waiting} waiting, not {} and {}",
                self.index.len(),
                self.waiting
            ));
        }
        if let Some(clean) = &self.clean {
            for part in 0..self.parts.len() {
                if clean.contents(part).count() != clean.len_of(part) {
                    return Err(format!("part {part} counts {} clean units", clean.len_of(part)));
                }
                for (unit, _) in clean.contents(part) {
                    if self.index.contains(unit.0) {
                        return Err(format!("unit {unit} is both clean and dirty"));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_end_when_their_units_are_clean() {
        let shape = crate::space::Shape::new(&crate::testing::small());
        let config = crate::testing::cache();
        let mut cache = Cache::new(&config, 1, Flows::new(false, false, 1), &shape);
        let first = cache.dirtied();
        let flush = cache.end_epoch().expect("dirty units");
        let second = cache.dirtied();
        assert!(!cache.is_clean_through(flush));
        cache.cleaned(second);
        assert!(!cache.is_clean_through(flush));
        cache.cleaned(first);
        assert!(cache.is_clean_through(flush));
        assert_eq!(cache.end_epoch(), None);
    }

    #[test]
    fn parts_are_equal_and_clean_units_make_way() {
        let shape = crate::space::Shape::new(&crate::testing::small());
        let config = config::DataCache {
            bytes: 8 * 4096,
            mode: config::CacheMode::Both,
            sharing: CacheSharing::PerFlow,
            ..crate::testing::cache()
        };
        let mut cache = Cache::new(&config, 1, Flows::new(false, false, 1), &shape);
        cache.grow(4);
        for lpn in 0..8 {
            assert!(cache.fill(Lpn(lpn), u64::MAX, (lpn % 2) as usize));
        }
        // The oldest of its own part makes way.
        assert!(cache.fill(Lpn(8), u64::MAX, 0));
        let left: Vec<u32> = cache.clean.as_ref().unwrap().contents(0).map(|(u, _)| u.0).collect();
        assert_eq!(left, [2, 4, 6, 8]);
        for lpn in 10..14 {
            assert!(cache.make_room(0));
            cache.add(Lpn(lpn), WriteIndex(lpn), 2, 0);
        }
        assert!(!cache.make_room(0) && !cache.fill(Lpn(20), u64::MAX, 0));
        assert!(cache.make_room(1));
        cache.check().unwrap();
        // A third flow: all parts shrink, and what is clean of the largest makes way first.
        cache.grow(5);
        assert!(cache.fill(Lpn(30), u64::MAX, 2));
        cache.check().unwrap();
    }
}
