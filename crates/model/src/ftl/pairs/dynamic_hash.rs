//! Extendible hashing (Fagin, Nievergelt, Pippenger and Strong, TODS 1979): the first bits of a key's
//! token say in which page it is; a page that is full is split in two by one bit more. The directory
//! is in DRAM, so a look-up takes one page. (RHIK, HPDC'23, has such an index grow in a KV SSD.)
//! Pages are not joined when keys go.
//!
//! The model does not hold the entries of a page. So that a split knows how many go where, keys are
//! counted by more bits of their token than any page is told apart by.

use super::numbers;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::pair_index::{PairIndex, Place, Probes};

/// Keys for which there is one counter, on average, when there are as many as can be: an eighth of
/// a page, so that pages can be told apart, but no more than this.
const KEYS_PER_COUNTER_MAX: u32 = 16;
/// Most bits of a token that pages are told apart by.
const BITS_MAX: u32 = 28;

pub(crate) struct DynamicHash {
    /// Entries that a page has room for.
    entries: u32,
    keys_max: u64,
    pages_max: u32,
    /// Bits of the token that counters are for.
    bits: u32,
    /// Keys by the first `bits` bits of their token.
    counts: Vec<u16>,
    /// Bits that choose a place in the directory.
    depth: u32,
    /// Page of each directory entry (extendible hashing).
    directory: Vec<u32>,
    /// By page: bits that its keys share, and how many keys it has.
    pages: Vec<(u32, u32)>,
    keys: u64,
}

impl DynamicHash {
    pub(crate) fn new(keys_max: u64, entries: u32) -> DynamicHash {
        let keys_per_counter = (entries / 8).clamp(1, KEYS_PER_COUNTER_MAX);
        let counters = keys_max.div_ceil(keys_per_counter.into()).max(1);
        let bits = counters.next_power_of_two().trailing_zeros().clamp(1, BITS_MAX);
        let mut index = DynamicHash {
            entries,
            keys_max,
            pages_max: u32::try_from(DynamicHash::pages_max(keys_max, entries)).unwrap_or(u32::MAX),
            bits,
            counts: vec![0; 1 << bits],
            depth: 0,
            directory: vec![],
            pages: vec![],
            keys: 0,
        };
        index.clear();
        index
    }

    /// A page that was split is half full. With few keys to a page some are split for a few that
    /// happen to be alike: there may be more pages than if all were half full.
    pub(crate) fn pages_max(keys_max: u64, entries: u32) -> u64 {
        2 * keys_max.div_ceil(u64::from(entries)) + 64
    }

    /// The first `bits` bits of a token.
    #[inline]
    fn first_bits(token: u64, bits: u32) -> usize {
        // A shift by 64 is none.
        (token.checked_shr(64 - bits).unwrap_or(0)) as usize
    }

    #[inline]
    pub(crate) fn home(&self, token: u64) -> u32 {
        self.directory[DynamicHash::first_bits(token, self.depth)]
    }

    /// Splits a page, in which the token belongs; false if it cannot be.
    fn split(&mut self, page: u32, token: u64, probes: &mut Probes) -> bool {
        let (bits, keys) = self.pages[page as usize];
        if bits == self.bits || self.pages.len() as u32 >= self.pages_max {
            return false;
        }
        if bits == self.depth {
            self.depth += 1;
            self.directory = self.directory.iter().flat_map(|&page| [page, page]).collect();
        }
        // The keys with a one for the next bit move to the new page.
        let prefix = (DynamicHash::first_bits(token, bits) << 1) | 1;
        let counters = self.bits - (bits + 1);
        let moved: u32 = self.counts[prefix << counters..(prefix + 1) << counters]
            .iter()
            .map(|&count| u32::from(count))
            .sum();
        let new = self.pages.len() as u32;
        self.pages[page as usize] = (bits + 1, keys - moved);
        self.pages.push((bits + 1, moved));
        let places = self.depth - (bits + 1);
        self.directory[prefix << places..(prefix + 1) << places].fill(new);
        probes.pages.push(new);
        probes.changed.extend([page, new]);
        true
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        self.directory.iter().for_each(|&page| hash.add(page));
        self.pages.iter().for_each(|page| hash.add(page.1));
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.number(self.depth.into());
        out.numbers(self.directory.iter().copied());
        out.numbers(self.pages.iter().map(|page| page.0));
    }

    pub(crate) fn read(
        &mut self,
        input: &mut Reader<'_>,
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), StateError> {
        let damaged = || StateError::Damaged("the directory of keys".into());
        self.clear();
        let depth = input.number()?;
        self.depth =
            u32::try_from(depth).ok().filter(|&depth| depth <= self.bits).ok_or_else(damaged)?;
        self.directory = input.all("places of the directory", 1 << self.depth, self.pages_max)?;
        let bits = input.numbers("index pages", self.pages_max as usize, self.depth + 1)?;
        // Each page has the places that its bits say, next to one another.
        let mut places = vec![0u64; bits.len()];
        for run in self.directory.chunk_by(|a, b| a == b) {
            let place = places.get_mut(run[0] as usize).ok_or_else(damaged)?;
            *place += run.len() as u64;
        }
        let right = |(&bits, &places): (&u32, &u64)| places == 1 << (self.depth - bits);
        if !bits.iter().zip(&places).all(right) {
            return Err(damaged());
        }
        let mut at = 0;
        while at < self.directory.len() {
            let span = 1 << (self.depth - bits[self.directory[at] as usize]);
            let run = self.directory.get(at..at + span).ok_or_else(damaged)?;
            if at % span != 0 || run.iter().any(|&page| page != run[0]) {
                return Err(damaged());
            }
            at += span;
        }
        self.pages = bits.into_iter().map(|bits| (bits, 0)).collect();
        for (token, _) in keys {
            let page = self.home(token) as usize;
            let count = &mut self.counts[DynamicHash::first_bits(token, self.bits)];
            *count = count.checked_add(1).ok_or_else(damaged)?;
            self.pages[page].1 += 1;
            self.keys += 1;
            if self.pages[page].1 > self.entries {
                return Err(damaged());
            }
        }
        Ok(())
    }
}

impl PairIndex for DynamicHash {
    fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    #[inline]
    fn find(&self, token: u64, _place: Option<Place>, probes: &mut Probes) {
        probes.pages.push(self.home(token));
    }

    #[inline]
    fn page_of(&self, token: u64, _place: Place) -> Option<u32> {
        Some(self.home(token))
    }

    fn keys_of(&self, page: u32) -> u32 {
        self.pages[page as usize].1
    }

    fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        let counter = DynamicHash::first_bits(token, self.bits);
        if self.keys >= self.keys_max || self.counts[counter] == u16::MAX {
            return None;
        }
        let first = self.home(token);
        let mut page = first;
        while self.pages[page as usize].1 >= self.entries {
            if !self.split(page, token, probes) {
                return None;
            }
            page = self.home(token);
        }
        self.counts[counter] += 1;
        self.pages[page as usize].1 += 1;
        self.keys += 1;
        probes.changed.push(page);
        Some(0)
    }

    fn remove(&mut self, token: u64, _place: Place, probes: &mut Probes) {
        let page = self.home(token);
        self.counts[DynamicHash::first_bits(token, self.bits)] -= 1;
        self.pages[page as usize].1 -= 1;
        self.keys -= 1;
        probes.changed.push(page);
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        self.depth = 0;
        self.directory = vec![0];
        self.pages = vec![(0, 0)];
        self.keys = 0;
    }

    fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String> {
        let mut counts = vec![0u16; self.counts.len()];
        let mut pages = vec![0u32; self.pages.len()];
        let mut all = 0;
        for (token, _) in keys {
            counts[DynamicHash::first_bits(token, self.bits)] += 1;
            pages[self.home(token) as usize] += 1;
            all += 1;
        }
        if counts != self.counts || all != self.keys {
            return Err(format!("the index counts {} keys, not {all}", self.keys));
        }
        for (page, (&counted, &(_, recorded))) in pages.iter().zip(&self.pages).enumerate() {
            if counted != recorded || recorded > self.entries {
                return Err(format!("index page {page} has {counted} keys, but counts {recorded}"));
            }
        }
        Ok(())
    }

    fn save(&self) -> Vec<u32> {
        numbers::written(|out| self.write(out))
    }

    fn restore(
        &mut self,
        saved: &[u32],
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), String> {
        numbers::read(saved, |input| self.read(input, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn token(key: u64) -> u64 {
        crate::keys::token(&key.to_le_bytes())
    }

    proptest! {
        /// Whatever comes and goes, each key is in one page, no page has more than fit, and a split
        /// moves the keys of one page only.
        #[test]
        fn pages_hold_their_keys(
            entries in 8u32..64,
            steps in prop::collection::vec((0u64..3000, any::<bool>()), 0..4000),
        ) {
            let mut index = DynamicHash::new(4096, entries);
            let mut keys: BTreeMap<u64, u32> = BTreeMap::new();
            for (key, gone) in steps {
                let mut probes = Probes::default();
                let before = index.home(token(key));
                if gone {
                    if keys.remove(&key).is_some() {
                        index.remove(token(key), 0, &mut probes);
                    }
                } else if !keys.contains_key(&key) {
                    prop_assert!(index.insert(token(key), &mut probes).is_some());
                    let at = index.home(token(key));
                    prop_assert!(probes.changed.contains(&at));
                    for (&other, page) in &mut keys {
                        let now = index.home(token(other));
                        prop_assert!(now == *page || (*page == before && probes.pages.contains(&now)));
                        *page = now;
                    }
                    keys.insert(key, at);
                }
            }
            index.check(&mut keys.keys().map(|&key| (token(key), 0))).map_err(TestCaseError::fail)?;
            prop_assert_eq!(index.keys(), keys.len() as u64);
        }
    }

    #[test]
    fn pages_are_two_thirds_full_on_average() {
        let mut index = DynamicHash::new(1 << 18, 64);
        let mut filled = 0.0;
        for key in 0..1 << 18 {
            assert!(index.insert(token(key), &mut Probes::default()).is_some());
            if key >= 1 << 17 {
                filled += (key + 1) as f64 / f64::from(index.pages() * 64);
            }
        }
        // Fagin et al., section 4: ln 2.
        let mean = filled / f64::from(1 << 17);
        assert!((mean - std::f64::consts::LN_2).abs() < 0.03, "{mean}");
        assert!(index.insert(token(1 << 20), &mut Probes::default()).is_none());
    }
}
