//! Which keys a namespace has, and of which pair each is.
//!
//! A name is a key and whatever else tells pairs apart: each command set has its own. Points are found
//! in a hash table. The order of keys is kept from the first List on: before, it
//! would cost every Store something that perhaps nobody wants.

use super::table::{Hash, Table};
use crate::store::{Place, Values};
use mynah_model::keys::PairId;
use mynah_wire::nvme::key::Key;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash as Hashed, RandomState};
use std::ops::Bound;

/// Pairs of one piece of the table of pairs: it grows without moving any.
const PIECE: usize = 4096;

/// Keys that are brought near together.
pub(crate) const TOGETHER: usize = 64;

/// What pairs are told apart by.
pub(crate) trait Name: Clone + Ord + Hashed + std::fmt::Debug {
    /// The name that marks a free number in the table of pairs.
    fn none() -> Self;

    fn is_none(&self) -> bool;

    fn key_bytes(&self) -> usize;

    /// What a store that outlives the process knows it by.
    fn bytes(&self) -> &[u8];
}

impl Name for Key {
    fn none() -> Key {
        Key::EMPTY
    }

    #[inline]
    fn is_none(&self) -> bool {
        self.is_empty()
    }

    #[inline]
    fn key_bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }
}

/// An entry of the table of pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<N = Key> {
    /// Where its value is; if the number is free, the next free number.
    pub(crate) place: Place,
    /// Size of the value.
    pub(crate) bytes: u32,
    /// [`Name::none`] if the number is free.
    pub(crate) key: N,
}

/// Where the value of a pair is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredValue {
    pub(crate) place: Place,
    /// Size of the value.
    pub(crate) bytes: u32,
}

/// The keys of a namespace, and where their values are.
#[derive(Debug)]
pub(crate) struct Keys<N = Key> {
    table: Table,
    /// Not to be foreseen, so that nobody can choose keys that all lie in one place.
    hasher: RandomState,
    /// By pair number, in pieces of [`PIECE`] pairs.
    pairs: Vec<Box<[Pair<N>]>>,
    /// How many numbers were ever used, and the last one that has come free.
    numbers: u32,
    free: Option<u32>,
    count: u32,
    /// Bytes of all keys and values.
    bytes: u64,
    order: Option<BTreeSet<N>>,
}

impl Keys {
    /// The keys of these pairs. `None` if a number or a key occurs twice, or a number is not below
    /// `most`.
    pub(crate) fn of(pairs: Vec<(PairId, Pair)>, most: u64) -> Option<Keys> {
        let mut keys = Keys::new();
        let last = pairs.iter().map(|(PairId(number), _)| *number).max();
        let numbers = last.map_or(Some(0), |last| last.checked_add(1))?;
        if u64::from(numbers) > most {
            return None;
        }
        let empty = Pair { place: Place(0), bytes: 0, key: Key::EMPTY };
        let pieces = (numbers as usize).div_ceil(PIECE);
        keys.pairs.resize_with(pieces, || vec![empty; PIECE].into());
        keys.numbers = numbers;
        for (PairId(number), pair) in pairs {
            let is_there = keys.find(&pair.key).is_some() || !keys.pair(number).key.is_empty();
            if is_there || !keys.table.insert(keys.hash(&pair.key), number) {
                return None;
            }
            *keys.pair_mut(number) = pair;
            keys.count += 1;
            keys.bytes += pair.key.len() as u64 + u64::from(pair.bytes);
        }
        for number in (0..numbers).rev() {
            if keys.pair(number).key.is_empty() {
                keys.pair_mut(number).place = Place(keys.free.map_or(u64::MAX, u64::from));
                keys.free = Some(number);
            }
        }
        Some(keys)
    }

    /// All keys, and the numbers of their pairs.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Key, PairId)> {
        let all = self.pairs.iter().flatten().take(self.numbers as usize);
        let named = all.zip(0..).map(|(pair, number)| (pair.key, PairId(number)));
        named.filter(|(key, _)| !key.is_empty())
    }
}

impl<N: Name> Keys<N> {
    pub(crate) fn new() -> Keys<N> {
        Keys {
            table: Table::new(),
            hasher: RandomState::new(),
            pairs: Vec::new(),
            numbers: 0,
            free: None,
            count: 0,
            bytes: 0,
            order: None,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    fn hash(&self, key: &N) -> Hash {
        Hash::of(self.hasher.hash_one(key))
    }

    #[inline]
    fn pair(&self, number: u32) -> &Pair<N> {
        &self.pairs[number as usize / PIECE][number as usize % PIECE]
    }

    #[inline]
    fn pair_mut(&mut self, number: u32) -> &mut Pair<N> {
        &mut self.pairs[number as usize / PIECE][number as usize % PIECE]
    }

    #[inline]
    pub(crate) fn find(&self, key: &N) -> Option<(PairId, StoredValue)> {
        let number = self.table.find(self.hash(key), |pair| self.pair(pair).key == *key)?;
        let &Pair { place, bytes, .. } = self.pair(number);
        Some((PairId(number), StoredValue { place, bytes }))
    }

    /// Brings near what the look-ups of these keys will need, and their values: so all of them wait
    /// for memory together, and not one after the other.
    pub(crate) fn bring_near(&self, keys: &[N], values: &dyn Values) {
        let mut hashes = [Hash::of(0); TOGETHER];
        let mut touched = 0;
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hash(key);
            touched ^= self.table.touch(*hash);
        }
        let mut pairs = [None; TOGETHER];
        for (pair, hash) in pairs.iter_mut().zip(&hashes[..keys.len().min(TOGETHER)]) {
            *pair = self.table.likely(*hash).filter(|&number| number < self.numbers);
            touched ^= pair.map_or(0, |number| self.pair(number).bytes);
        }
        std::hint::black_box(touched);
        for (number, key) in pairs.iter().zip(keys) {
            if let Some(pair) = number.map(|number| self.pair(number))
                && pair.key == *key
                && pair.bytes > 0
            {
                values.prefetch(pair.place);
            }
        }
    }

    /// Whether there is a pair with a number.
    pub(crate) fn has(&self, PairId(number): PairId) -> bool {
        number < self.numbers && !self.pair(number).key.is_none()
    }

    /// The pair with a number that is in use.
    #[inline]
    pub(crate) fn get(&self, PairId(number): PairId) -> &Pair<N> {
        self.pair(number)
    }

    /// Adds a pair whose key there is not. `None`: there is no room for more pairs.
    pub(crate) fn insert(&mut self, key: N, place: Place, bytes: u32) -> Option<PairId> {
        let number = self.free.unwrap_or(self.numbers);
        if number == u32::MAX || !self.table.insert(self.hash(&key), number) {
            return None;
        }
        if self.free.is_some() {
            let next = self.pair(number).place.0;
            self.free = u32::try_from(next).ok();
        } else {
            if number as usize / PIECE == self.pairs.len() {
                let empty = Pair { place: Place(0), bytes: 0, key: N::none() };
                self.pairs.push(vec![empty; PIECE].into());
            }
            self.numbers += 1;
        }
        self.count += 1;
        self.bytes += key.key_bytes() as u64 + u64::from(bytes);
        if let Some(order) = &mut self.order {
            order.insert(key.clone());
        }
        *self.pair_mut(number) = Pair { place, bytes, key };
        Some(PairId(number))
    }

    /// Gives a pair another value; what it had before.
    pub(crate) fn replace(
        &mut self,
        PairId(number): PairId,
        place: Place,
        bytes: u32,
    ) -> StoredValue {
        let pair = self.pair_mut(number);
        let before = StoredValue { place: pair.place, bytes: pair.bytes };
        (pair.place, pair.bytes) = (place, bytes);
        self.bytes = self.bytes - u64::from(before.bytes) + u64::from(bytes);
        before
    }

    /// Takes a pair away; what it was. Its number will be used again.
    pub(crate) fn remove(&mut self, PairId(number): PairId) -> Pair<N> {
        let hash = self.hash(&self.pair(number).key);
        self.table.remove(hash, number);
        let next = Place(self.free.map_or(u64::MAX, u64::from));
        let none = Pair { place: next, bytes: 0, key: N::none() };
        let pair = std::mem::replace(self.pair_mut(number), none);
        self.free = Some(number);
        self.count -= 1;
        self.bytes -= pair.key.key_bytes() as u64 + u64::from(pair.bytes);
        if let Some(order) = &mut self.order {
            order.remove(&pair.key);
        }
        pair
    }

    /// Pairs whose numbers are in use, in order of their numbers.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &Pair<N>> {
        let all = self.pairs.iter().flatten().take(self.numbers as usize);
        all.filter(|pair| !pair.key.is_none())
    }

    /// Keys in order, from `start` on: that itself is the first if it is there.
    pub(crate) fn from(&mut self, start: &N) -> impl DoubleEndedIterator<Item = &N> {
        self.between(Bound::Included(start), Bound::Unbounded)
    }

    /// Keys in order, between these, of which the first is not behind the second.
    pub(crate) fn between<'a>(
        &'a mut self,
        from: Bound<&N>,
        to: Bound<&N>,
    ) -> impl DoubleEndedIterator<Item = &'a N> + use<'a, N> {
        if self.order.is_none() {
            let order = self.pairs().map(|pair| pair.key.clone()).collect();
            self.order = Some(order);
        }
        let range = (from.cloned(), to.cloned());
        self.order.iter().flat_map(move |order| order.range::<N, _>(range.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn they_are_an_ordered_map(
            ops in proptest::collection::vec((0..5u8, 0..60u16, 1..17usize, any::<u32>()), 0..600),
        ) {
            let (mut keys, mut map) = (Keys::<Key>::new(), BTreeMap::new());
            for (what, name, length, value) in ops {
                let mut bytes = [0; 16];
                bytes[..2].copy_from_slice(&name.to_le_bytes());
                let key = Key::new(&bytes[..length]).expect("it is short");
                let found = keys.find(&key);
                prop_assert_eq!(found.map(|(_, it)| (it.place.0, it.bytes)), map.get(&key).copied());
                match (what, found) {
                    (0..=2, None) => {
                        keys.insert(key, Place(value.into()), value >> 8).expect("there is room");
                        map.insert(key, (value.into(), value >> 8));
                    }
                    (0..=2, Some((pair, _))) => {
                        keys.replace(pair, Place(value.into()), value >> 8);
                        map.insert(key, (value.into(), value >> 8));
                    }
                    (3, Some((pair, _))) => {
                        keys.remove(pair);
                        map.remove(&key);
                    }
                    (4, _) => {
                        let after = keys.from(&key).copied().collect::<Vec<_>>();
                        let expected = map.range(key..).map(|(key, _)| *key).collect::<Vec<_>>();
                        prop_assert_eq!(after, expected);
                    }
                    _ => {}
                }
                prop_assert_eq!(keys.count() as usize, map.len());
                let bytes = map.iter().map(|(key, value)| key.len() as u64 + u64::from(value.1));
                prop_assert_eq!(keys.bytes(), bytes.sum::<u64>());
            }
        }
    }

    #[test]
    fn a_pair_takes_half_a_cache_line() {
        assert_eq!(size_of::<Pair>(), 32);
    }
}
