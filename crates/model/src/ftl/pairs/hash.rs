//! A hash table of a fixed number of pages. A page that is full has overflow pages behind it, which
//! are looked at one after the other.

use super::numbers;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::pair_index::{PairIndex, Place, Probes};
use std::collections::BTreeMap;

pub(crate) struct Hash {
    entries: u32,
    keys_max: u64,
    pages_max: u32,
    /// Entries in each page, overflow pages after the others.
    counts: Vec<u32>,
    /// Primary pages, without overflow pages.
    buckets: u32,
    /// Overflow pages of the buckets that have any.
    chains: BTreeMap<u32, Vec<u32>>,
    keys: u64,
}

impl Hash {
    pub(crate) fn new(buckets: u32, keys_max: u64, entries: u32) -> Hash {
        Hash {
            entries,
            keys_max,
            pages_max: u32::try_from(Hash::pages_max(buckets, keys_max, entries))
                .unwrap_or(u32::MAX),
            counts: vec![0; buckets as usize],
            buckets,
            chains: BTreeMap::new(),
            keys: 0,
        }
    }

    /// In the worst case all keys are in one bucket.
    pub(crate) fn pages_max(buckets: u32, keys_max: u64, entries: u32) -> u64 {
        u64::from(buckets) + keys_max.div_ceil(u64::from(entries))
    }

    #[inline]
    fn bucket_of(&self, token: u64) -> u32 {
        ((u128::from(token) * u128::from(self.buckets)) >> 64) as u32
    }

    fn chain(&self, bucket: u32) -> &[u32] {
        self.chains.get(&bucket).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn page_at(&self, token: u64, place: Place) -> u32 {
        let bucket = self.bucket_of(token);
        match place {
            0 => bucket,
            _ => self.chain(bucket).get(usize::from(place) - 1).copied().unwrap_or(bucket),
        }
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        self.counts.iter().for_each(|&count| hash.add(count));
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        let of = self.chains.iter().flat_map(|(&bucket, chain)| chain.iter().map(move |_| bucket));
        let of: Vec<u32> = of.collect();
        let pages: Vec<u32> = self.chains.values().flatten().copied().collect();
        out.numbers(of.into_iter());
        out.numbers(pages.into_iter());
    }

    pub(crate) fn read(
        &mut self,
        input: &mut Reader<'_>,
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), StateError> {
        let damaged = || StateError::Damaged("overflow pages of the index".into());
        self.clear();
        let most = (self.pages_max - self.buckets) as usize;
        let of = input.numbers("overflow pages", most, self.buckets)?;
        let pages = input.all("overflow pages", of.len(), self.buckets + of.len() as u32)?;
        let mut seen = vec![false; of.len()];
        for (bucket, page) in of.into_iter().zip(pages) {
            let at = page.checked_sub(self.buckets).ok_or_else(damaged)? as usize;
            if std::mem::replace(&mut seen[at], true) {
                return Err(damaged());
            }
            self.chains.entry(bucket).or_default().push(page);
            self.counts.push(0);
        }
        for (token, place) in keys {
            if usize::from(place) > self.chain(self.bucket_of(token)).len() {
                return Err(damaged());
            }
            let page = self.page_at(token, place) as usize;
            self.counts[page] += 1;
            self.keys += 1;
            if self.counts[page] > self.entries {
                return Err(damaged());
            }
        }
        Ok(())
    }
}

impl PairIndex for Hash {
    fn pages(&self) -> u32 {
        self.counts.len() as u32
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        let bucket = self.bucket_of(token);
        probes.pages.push(bucket);
        let chain = self.chain(bucket);
        let looked_at = place.map_or(chain.len(), usize::from);
        probes.pages.extend(chain.iter().take(looked_at));
    }

    #[inline]
    fn page_of(&self, token: u64, place: Place) -> Option<u32> {
        Some(self.page_at(token, place))
    }

    fn keys_of(&self, page: u32) -> u32 {
        self.counts[page as usize]
    }

    fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        let bucket = self.bucket_of(token);
        if self.keys >= self.keys_max {
            return None;
        }
        let chain = self.chains.get(&bucket).map_or(&[][..], Vec::as_slice);
        let mut pages = std::iter::once(bucket).chain(chain.iter().copied());
        let room = pages.position(|page| self.counts[page as usize] < self.entries);
        let place = match room {
            Some(place) => Place::try_from(place).ok()?,
            None => {
                let place = Place::try_from(chain.len() + 1).ok()?;
                let new = self.counts.len() as u32;
                if new >= self.pages_max {
                    return None;
                }
                self.counts.push(0);
                self.chains.entry(bucket).or_default().push(new);
                probes.pages.push(new);
                // The page before says where it is.
                let before = self.page_at(token, place - 1);
                probes.changed.push(before);
                place
            }
        };
        let page = self.page_at(token, place);
        self.counts[page as usize] += 1;
        self.keys += 1;
        probes.changed.push(page);
        Some(place)
    }

    fn remove(&mut self, token: u64, place: Place, probes: &mut Probes) {
        let page = self.page_at(token, place);
        self.counts[page as usize] -= 1;
        self.keys -= 1;
        probes.changed.push(page);
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.counts.resize(self.buckets as usize, 0);
        self.chains.clear();
        self.keys = 0;
    }

    fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String> {
        let mut counts = vec![0u32; self.counts.len()];
        keys.for_each(|(token, place)| counts[self.page_at(token, place) as usize] += 1);
        match counts.iter().zip(&self.counts).position(|(counted, recorded)| counted != recorded) {
            Some(page) => Err(format!(
                "index page {page} has {} keys, but counts {}",
                counts[page], self.counts[page]
            )),
            None => Ok(()),
        }
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
