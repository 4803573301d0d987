//! Which keys a namespace has in a run: the host's side of decisions. Keys are numbers here, and
//! pairs the names that the drive knows them by.

use mynah_model::io::NamespaceId;
use mynah_model::keys::PairId;
use mynah_model::{Drive, Policies};
use mynah_workload::key_value::KeySize;

/// Numbers of keys in saved states are less than this: more than a drive has room for pairs.
const NUMBERS_MAX: u64 = 1 << 34;

/// The keys of a namespace, and how long they are.
pub(crate) struct KeySpace {
    pub(crate) namespace: NamespaceId,
    pub(crate) sizes: KeySize,
    pub(crate) table: KeyTable,
}

impl KeySpace {
    pub(crate) fn new(namespace: NamespaceId, sizes: KeySize) -> KeySpace {
        KeySpace { namespace, sizes, table: KeyTable::default() }
    }

    /// Serialises the keys into `sink`: their count; number, pair and value size of each, in order;
    /// the count of free names, and these.
    pub(crate) fn save(&self, sink: &mut dyn FnMut(&[u8])) {
        let KeyTable { keys, free, .. } = &self.table;
        sink(&keys.to_le_bytes());
        for (number, StoredPair { pair, value }) in self.table.all() {
            sink(&number.to_le_bytes());
            sink(&pair.0.to_le_bytes());
            sink(&value.to_le_bytes());
        }
        sink(&(free.len() as u64).to_le_bytes());
        free.iter().for_each(|name| sink(&name.to_le_bytes()));
    }

    /// Reads what [`KeySpace::save`] wrote; `drive` has been restored with its pairs already.
    ///
    /// # Errors
    /// What is wrong, if that are not the keys of these pairs.
    pub(crate) fn restore(
        namespace: NamespaceId,
        sizes: KeySize,
        drive: &Drive<impl Policies>,
        source: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<KeySpace, &'static str> {
        fn number<const N: usize>(
            source: &mut dyn FnMut(&mut [u8]) -> bool,
        ) -> Result<[u8; N], &'static str> {
            let mut bytes = [0; N];
            if source(&mut bytes) { Ok(bytes) } else { Err("it ends among its keys") }
        }
        let mut space = KeySpace::new(namespace, sizes);
        let keys = u64::from_le_bytes(number(source)?);
        if drive.pair_counts(namespace).is_none_or(|counts| counts.pairs != keys) {
            return Err("it has other keys than pairs");
        }
        let mut names = vec![];
        let mut next = 0;
        for _ in 0..keys {
            let key = u64::from_le_bytes(number(source)?);
            let pair = PairId(u32::from_le_bytes(number(source)?));
            let value = u32::from_le_bytes(number(source)?);
            if !(next..NUMBERS_MAX).contains(&key) || !drive.has_pair(namespace, pair) {
                return Err("a key of it is impossible");
            }
            next = key + 1;
            space.table.put(key, StoredPair { pair, value });
            names.push(pair.0);
        }
        for _ in 0..u64::from_le_bytes(number(source)?) {
            let name = u32::from_le_bytes(number(source)?);
            space.table.free.push(name);
            names.push(name);
        }
        // Each name that was ever given is somebody's, or free.
        names.sort_unstable();
        if !names.iter().copied().eq(0..names.len() as u32) {
            return Err("a name of a pair is impossible");
        }
        space.table.next = names.len() as u32;
        Ok(space)
    }
}

/// A key that exists, with the pair that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredPair {
    pub(crate) pair: PairId,
    /// Value size in bytes.
    pub(crate) value: u32,
}

/// Keys per chunk of the table. Chunks without keys are freed.
const CHUNK: u64 = 4096;

#[derive(Clone, Copy)]
struct Entry {
    /// Name of the pair plus one; 0 if there is no such key.
    name: u32,
    value: u32,
}

struct Chunk {
    entries: Box<[Entry]>,
    used: u32,
}

/// The keys of a namespace, by number.
#[derive(Default)]
pub(crate) struct KeyTable {
    chunks: Vec<Option<Chunk>>,
    keys: u64,
    /// Names of deleted pairs, for reuse; and the first name that was never used.
    free: Vec<u32>,
    next: u32,
}

impl KeyTable {
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// The key with this number, if there is one.
    #[inline]
    pub(crate) fn find(&self, number: u64) -> Option<StoredPair> {
        let chunk = self.chunks.get((number / CHUNK) as usize)?.as_ref()?;
        let Entry { name, value } = chunk.entries[(number % CHUNK) as usize];
        name.checked_sub(1).map(|pair| StoredPair { pair: PairId(pair), value })
    }

    /// Allocates a name for a new pair.
    pub(crate) fn take_name(&mut self) -> PairId {
        PairId(self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        }))
    }

    /// Returns a name that was allocated and not used.
    pub(crate) fn give_back(&mut self, pair: PairId) {
        self.free.push(pair.0);
    }

    /// Inserts the key with this number, or updates its pair.
    pub(crate) fn put(&mut self, number: u64, known: StoredPair) {
        let place = (number / CHUNK) as usize;
        if place >= self.chunks.len() {
            self.chunks.resize_with(place + 1, || None);
        }
        let chunk = self.chunks[place].get_or_insert_with(|| Chunk {
            entries: vec![Entry { name: 0, value: 0 }; CHUNK as usize].into_boxed_slice(),
            used: 0,
        });
        let entry = &mut chunk.entries[(number % CHUNK) as usize];
        if entry.name == 0 {
            chunk.used += 1;
            self.keys += 1;
        }
        *entry = Entry { name: known.pair.0 + 1, value: known.value };
    }

    /// Removes the key with this number, and frees the name of its pair.
    pub(crate) fn remove(&mut self, number: u64) {
        let Some(Some(chunk)) = self.chunks.get_mut((number / CHUNK) as usize) else { return };
        let entry = &mut chunk.entries[(number % CHUNK) as usize];
        if entry.name == 0 {
            return;
        }
        self.free.push(entry.name - 1);
        *entry = Entry { name: 0, value: 0 };
        chunk.used -= 1;
        self.keys -= 1;
        if chunk.used == 0 {
            self.chunks[(number / CHUNK) as usize] = None;
        }
    }

    /// All keys, in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, StoredPair)> + '_ {
        let chunks = self.chunks.iter().enumerate();
        let chunks = chunks.filter_map(|(place, chunk)| Some((place, chunk.as_ref()?)));
        chunks.flat_map(|(place, chunk)| {
            let entries = chunk.entries.iter().enumerate();
            entries.filter_map(move |(at, entry)| {
                let pair = PairId(entry.name.checked_sub(1)?);
                Some((place as u64 * CHUNK + at as u64, StoredPair { pair, value: entry.value }))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((0u64..10, 0u64..9000, 0u32..100), 0..400)) {
            let (mut table, mut map) = (KeyTable::default(), BTreeMap::new());
            for (what, number, value) in steps {
                match (what, map.get(&number).copied()) {
                    (0..5, found) => {
                        let pair = found.map_or_else(|| table.take_name(), |it: StoredPair| it.pair);
                        table.put(number, StoredPair { pair, value });
                        map.insert(number, StoredPair { pair, value });
                    }
                    (5, None) => {
                        let name = table.take_name();
                        table.give_back(name);
                    }
                    _ => {
                        table.remove(number);
                        map.remove(&number);
                    }
                }
                prop_assert_eq!(table.find(number), map.get(&number).copied());
                prop_assert_eq!(table.keys(), map.len() as u64);
            }
            let all: Vec<_> = table.all().collect();
            prop_assert_eq!(&all, &map.clone().into_iter().collect::<Vec<_>>());
            let names: BTreeSet<u32> = all.iter().map(|(_, known)| known.pair.0).collect();
            prop_assert_eq!(names.len(), all.len(), "no two keys have one name");
            // Names stay small.
            prop_assert!(names.last().is_none_or(|last| *last < 400));
        }
    }
}
