//! A hash table of pairs that grows in small steps: extendible hashing (Fagin et al., TODS 1979) with
//! segments of open addressing. A full segment is split, and nothing else moves, so that no command
//! waits until millions of entries have been moved.
//!
//! It knows hashes and the numbers of pairs; whoever uses it compares keys.

const SLOTS: usize = 1024;
/// A segment with so many entries is split before it takes another.
const ENTRIES_MAX: u16 = 768;
/// Bits of a hash that choose the segment, at most. The others choose the slot.
const DEPTH_MAX: u32 = 32 - SLOTS.ilog2();
/// What a slot without an entry holds.
const EMPTY: Slot = Slot { hash: 0, pair: u32::MAX };

/// The part of a key's hash that the table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hash(u32);

impl Hash {
    pub(super) fn of(hash: u64) -> Hash {
        Hash((hash >> 32) as u32)
    }

    #[inline]
    fn segment(self, depth: u32) -> usize {
        // A shift by 32 bits is none.
        (u64::from(self.0) >> (32 - depth)) as usize
    }

    #[inline]
    fn slot(self) -> usize {
        self.0 as usize % SLOTS
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    hash: u32,
    pair: u32,
}

impl Slot {
    #[inline]
    fn is_empty(self) -> bool {
        self.pair == EMPTY.pair
    }
}

/// A part of the table: the entries whose hashes begin with the same bits.
#[derive(Debug)]
struct Segment {
    /// The number of common leading bits of their hashes.
    depth: u32,
    entries: u16,
    slots: Box<[Slot; SLOTS]>,
}

impl Segment {
    fn new(depth: u32) -> Segment {
        Segment { depth, entries: 0, slots: Box::new([EMPTY; SLOTS]) }
    }

    /// Puts an entry into a segment that has room.
    fn insert(&mut self, slot: Slot) {
        let mut at = Hash(slot.hash).slot();
        while !self.slots[at].is_empty() {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = slot;
        self.entries += 1;
    }

    /// Takes an entry out, and closes the gap: entries lie without one from where they belong.
    fn remove(&mut self, mut gap: usize) {
        let mut at = gap;
        loop {
            at = (at + 1) % SLOTS;
            let slot = self.slots[at];
            if slot.is_empty() {
                break;
            }
            // It may lie in the gap unless it belongs behind that.
            let belongs = Hash(slot.hash).slot();
            if (at + SLOTS - belongs) % SLOTS >= (at + SLOTS - gap) % SLOTS {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = EMPTY;
        self.entries -= 1;
    }
}

/// Pair numbers by the hash of the key.
#[derive(Debug)]
pub(super) struct Table {
    /// Which segment has the hashes that begin with these bits.
    directory: Vec<u32>,
    /// The number of leading bits of a hash that index the directory.
    depth: u32,
    segments: Vec<Segment>,
}

impl Table {
    pub(super) fn new() -> Table {
        Table { directory: vec![0], depth: 0, segments: vec![Segment::new(0)] }
    }

    #[inline]
    fn segment(&self, hash: Hash) -> &Segment {
        &self.segments[self.directory[hash.segment(self.depth)] as usize]
    }

    /// The slot of the entry with this hash that is the right one.
    #[inline]
    fn slot(&self, hash: Hash, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let slots = &self.segment(hash).slots;
        let mut at = hash.slot();
        loop {
            let slot = slots[at];
            if slot.is_empty() {
                return None;
            }
            if slot.hash == hash.0 && is_it(slot.pair) {
                return Some(at);
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// The entry with this hash that is the right one.
    #[inline]
    pub(super) fn find(&self, hash: Hash, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let at = self.slot(hash, is_it)?;
        Some(self.segment(hash).slots[at].pair)
    }

    /// Looks at where an entry with this hash would be, so that it is near when it is wanted.
    #[inline]
    pub(super) fn touch(&self, hash: Hash) -> u32 {
        self.segment(hash).slots[hash.slot()].hash
    }

    /// An entry with this hash, if one lies where it belongs: most do.
    #[inline]
    pub(super) fn likely(&self, hash: Hash) -> Option<u32> {
        let slots = &self.segment(hash).slots;
        let near = (0..8).map(|step| slots[(hash.slot() + step) % SLOTS]);
        near.take_while(|slot| !slot.is_empty()).find(|slot| slot.hash == hash.0).map(|it| it.pair)
    }

    /// Adds an entry. `false`: there is no room, which takes billions of them.
    pub(super) fn insert(&mut self, hash: Hash, pair: u32) -> bool {
        loop {
            let at = self.directory[hash.segment(self.depth)] as usize;
            if self.segments[at].entries < ENTRIES_MAX {
                self.segments[at].insert(Slot { hash: hash.0, pair });
                return true;
            }
            if self.segments[at].depth == DEPTH_MAX {
                return false;
            }
            self.split(at);
        }
    }

    /// Removes the entry of a pair.
    pub(super) fn remove(&mut self, hash: Hash, pair: u32) {
        if let Some(at) = self.slot(hash, |other| other == pair) {
            let segment = self.directory[hash.segment(self.depth)] as usize;
            self.segments[segment].remove(at);
        }
    }

    /// Makes two segments of one: those whose next bit is 1 go to the new one.
    fn split(&mut self, at: usize) {
        let depth = self.segments[at].depth + 1;
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment; 2]).collect();
            self.depth += 1;
        }
        let new = self.segments.len() as u32;
        let old = std::mem::replace(&mut self.segments[at], Segment::new(depth));
        self.segments.push(Segment::new(depth));
        let goes = |slot: &Slot| slot.hash >> (32 - depth) & 1 == 1;
        let mut first = None;
        for slot in old.slots.iter().filter(|slot| !slot.is_empty()) {
            first.get_or_insert(slot.hash);
            let segment = if goes(slot) { new as usize } else { at };
            self.segments[segment].insert(*slot);
        }
        // The places of both in the directory are neighbours.
        let Some(first) = first else { return };
        let places = 1usize << (self.depth - depth);
        let begin = (Hash(first).segment(depth) | 1) * places;
        self.directory[begin..begin + places].fill(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Hashes that are alike in some bits make deep segments and long runs.
        #[test]
        fn it_is_a_map(
            mask in prop_oneof![Just(u32::MAX), Just(0xffff_0000), Just(0x0000_ffff), Just(0xff00_03ff)],
            ops in proptest::collection::vec((any::<bool>(), any::<u32>()), 0..6000),
        ) {
            let (mut table, mut map) = (Table::new(), BTreeMap::new());
            for (pair, (adds, bits)) in ops.into_iter().enumerate() {
                let (pair, bits) = (pair as u32, bits & mask);
                if adds || map.is_empty() {
                    if table.insert(Hash(bits), pair) {
                        map.insert(pair, bits);
                    }
                } else {
                    let (&pair, &bits) = map.range(bits % pair..).next().unwrap_or_else(|| {
                        map.first_key_value().expect("it is not empty")
                    });
                    table.remove(Hash(bits), pair);
                    map.remove(&pair);
                }
            }
            for (&pair, &bits) in &map {
                prop_assert_eq!(table.find(Hash(bits), |it| it == pair), Some(pair));
            }
            let entries: usize = table.segments.iter().map(|it| usize::from(it.entries)).sum();
            prop_assert_eq!(entries, map.len());
        }
    }

    #[test]
    fn a_segment_that_cannot_be_split_is_full() {
        let mut table = Table::new();
        let taken = (0..2000).take_while(|&pair| table.insert(Hash(7), pair)).count();
        assert_eq!(taken, usize::from(ENTRIES_MAX));
        assert!(table.find(Hash(7), |pair| pair == 700).is_some());
        assert!(table.insert(Hash(u32::MAX), 1));
    }
}
