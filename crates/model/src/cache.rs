//! The write cache: which units are in DRAM and not yet safe on flash, who filled it, and the
//! epochs that tell a flush when everything before it is done.

use crate::blame::HolderIndex;
use crate::config::{self, RowPolicy, WriteBack};
use crate::dram::{Dram, Places};
use crate::pool::NONE;
use crate::space::Shape;
use hashbrown::HashMap;
use mynah_stamp::{Span, Time};
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;

pub(crate) struct Cache {
    /// Units it has room for.
    capacity: usize,
    /// Units above which the least recently written leave; `None`: they leave at once.
    pub(crate) high: Option<usize>,
    index: HashMap<u32, u32, FxBuildHasher>,
    /// Units that each holder has in the cache.
    occupancy: Vec<u32>,
    pub(crate) newest: u32,
    pub(crate) oldest: u32,
    /// Commands that wait for room, oldest first.
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) dram: Dram,
    /// Where units lie in the DRAM, if that matters.
    places: Option<Box<Places>>,
    /// Bytes of the DRAM that the access at hand touches, if that matters: address, length.
    touched: Vec<(u64, u32)>,
    unit_bytes: u32,
    /// Units that became dirty in each epoch and are not on flash; the first is `epoch_base`.
    dirty: VecDeque<u32>,
    epoch_base: u32,
    /// Flush commands, oldest first.
    pub(crate) flushes: VecDeque<u32>,
}

impl Cache {
    pub(crate) fn new(config: &config::WriteCache, shape: &Shape) -> Cache {
        let capacity = (config.bytes / u64::from(shape.unit_bytes)) as usize;
        Cache {
            capacity,
            high: match config.write_back {
                WriteBack::Eager => None,
                WriteBack::Lru { high } => Some((capacity as f64 * high) as usize),
            },
            index: HashMap::default(),
            occupancy: vec![],
            newest: NONE,
            oldest: NONE,
            waiting: VecDeque::new(),
            places: match config.dram.rows {
                RowPolicy::Closed => None,
                RowPolicy::Open { .. } => Some(Box::default()),
            },
            dram: Dram::new(config.dram),
            touched: Vec::new(),
            unit_bytes: shape.unit_bytes,
            dirty: VecDeque::from([0]),
            epoch_base: 0,
            flushes: VecDeque::new(),
        }
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        self.dram.grow(holders);
        self.occupancy.resize(holders, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn has_room(&self) -> bool {
        self.index.len() < self.capacity
    }

    #[inline]
    pub(crate) fn find(&self, unit: u32) -> Option<u32> {
        self.index.get(&unit).copied()
    }

    pub(crate) fn add(&mut self, unit: u32, at: u32, holder: HolderIndex) {
        self.index.insert(unit, at);
        self.occupancy[usize::from(holder)] += 1;
        if let Some(places) = &mut self.places {
            let place = places.take(self.capacity);
            places.put(at, place);
        }
    }

    pub(crate) fn remove(&mut self, unit: u32, holder: HolderIndex) {
        let at = self.index.remove(&unit);
        self.occupancy[usize::from(holder)] -= 1;
        if let (Some(places), Some(at)) = (&mut self.places, at) {
            places.give_back(places.of_write(at));
        }
    }

    /// A unit changes hands: another holder's data replaces it.
    pub(crate) fn rehold(&mut self, from: HolderIndex, to: HolderIndex) {
        self.occupancy[usize::from(from)] -= 1;
        self.occupancy[usize::from(to)] += 1;
    }

    /// Splits a wait for room over those who fill the cache now, in proportion; the parts
    /// add up exactly.
    pub(crate) fn split_wait(&self, wait: Span, mut charge: impl FnMut(HolderIndex, Span)) {
        let total: u64 = self.occupancy.iter().map(|&units| u64::from(units)).sum();
        let (mut seen, mut charged) = (0, 0);
        for (holder, &units) in self.occupancy.iter().enumerate() {
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
    pub(crate) fn place(&self, at: u32) -> Option<u32> {
        self.places.as_ref().map(|places| places.of_write(at))
    }

    /// Notes that the access at hand touches `bytes` of a place, from its byte `from` on.
    pub(crate) fn touch(&mut self, place: u32, from: u32, bytes: u32) {
        let address = u64::from(place) * u64::from(self.unit_bytes);
        self.touched.push((address + u64::from(from), bytes));
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

    /// Forgets everything that was in it.
    pub(crate) fn power_cut(&mut self, now: Time) {
        self.index.clear();
        self.occupancy.fill(0);
        (self.newest, self.oldest) = (NONE, NONE);
        self.waiting.clear();
        self.dram.power_cut(now);
        self.touched.clear();
        if let Some(places) = &mut self.places {
            places.clear();
        }
        self.dirty = VecDeque::from([0]);
        self.flushes.clear();
    }

    /// Sum of the epochs' dirty units, for the invariants' check.
    pub(crate) fn dirty_units(&self) -> u64 {
        self.dirty.iter().map(|&units| u64::from(units)).sum()
    }

    /// What is in it, as (logical unit, write unit).
    pub(crate) fn contents(&self) -> Vec<(u32, u32)> {
        let mut contents: Vec<_> = self.index.iter().map(|(&unit, &at)| (unit, at)).collect();
        contents.sort_unstable();
        contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_end_when_their_units_are_clean() {
        let shape = crate::space::Shape::new(&crate::testing::small());
        let config = crate::testing::cache();
        let mut cache = Cache::new(&config, &shape);
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
}
