//! What the data cache holds of what is on flash: units that were read or written lately, the
//! least recently used of a part leaving first.

use crate::kernel::recency::{Neighbours, Recency, Recent};
use crate::number::Lpn;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

/// Units whose data on flash are in the cache as well.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Clean {
    index: HashMap<Lpn, u32, FxBuildHasher>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    lists: Vec<List>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    lpn: Lpn,
    /// Its place in the DRAM, if that matters.
    place: u32,
    /// Sectors that are here, as in a write unit.
    mask: u64,
    neighbours: Neighbours,
    part: u16,
}

impl Recent for Entry {
    fn neighbours(&self) -> Neighbours {
        self.neighbours
    }
    fn neighbours_mut(&mut self) -> &mut Neighbours {
        &mut self.neighbours
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct List {
    used: Recency,
    len: usize,
}

/// A unit that was taken out: its place in the DRAM and the sectors it held.
pub(crate) struct Removed {
    pub(crate) place: u32,
    pub(crate) mask: u64,
}

impl Clean {
    pub(crate) fn grow(&mut self, parts: usize) {
        let empty = List { used: Recency::EMPTY, len: 0 };
        self.lists.resize(parts.max(self.lists.len()), empty);
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn len_of(&self, part: usize) -> usize {
        self.lists[part].len
    }

    /// The place of a unit of which all of `wanted` is here; it becomes the newest.
    pub(crate) fn read(&mut self, lpn: Lpn, wanted: u64) -> Option<u32> {
        let &at = self.index.get(&lpn)?;
        if self.entries[at as usize].mask & wanted != wanted {
            return None;
        }
        self.renew(at);
        Some(self.entries[at as usize].place)
    }

    /// The place of a unit that is here.
    pub(crate) fn place(&self, lpn: Lpn) -> Option<u32> {
        let &at = self.index.get(&lpn)?;
        Some(self.entries[at as usize].place)
    }

    /// Adds sectors to a unit that is here; false if it is not.
    pub(crate) fn add(&mut self, lpn: Lpn, mask: u64) -> bool {
        let Some(&at) = self.index.get(&lpn) else { return false };
        self.entries[at as usize].mask |= mask;
        self.renew(at);
        true
    }

    /// Puts in a unit that is not here.
    pub(crate) fn insert(&mut self, lpn: Lpn, mask: u64, part: usize, place: u32) {
        let neighbours = Neighbours::NONE;
        let entry = Entry { lpn, place, mask, neighbours, part: part as u16 };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.index.insert(lpn, at);
        let list = &mut self.lists[part];
        list.len += 1;
        list.used.add(&mut self.entries, at);
    }

    /// Takes a unit out, if it is here.
    pub(crate) fn remove(&mut self, lpn: Lpn) -> Option<Removed> {
        let at = self.index.remove(&lpn)?;
        self.free.push(at);
        let Entry { place, mask, part, .. } = self.entries[at as usize];
        let list = &mut self.lists[usize::from(part)];
        list.len -= 1;
        list.used.remove(&mut self.entries, at);
        Some(Removed { place, mask })
    }

    /// Takes out the least recently used unit of a part.
    pub(crate) fn evict(&mut self, part: usize) -> Option<Removed> {
        let oldest = self.lists[part].used.oldest()?;
        self.remove(self.entries[oldest as usize].lpn)
    }

    pub(crate) fn clear(&mut self) {
        let parts = self.lists.len();
        *self = Clean::default();
        self.grow(parts);
    }

    /// The units of a part, least recently used first, and what of each is here.
    pub(crate) fn contents(&self, part: usize) -> impl Iterator<Item = (Lpn, u64)> {
        let entries = self.lists[part].used.oldest_first(&self.entries);
        entries.map(|(_, entry)| (entry.lpn, entry.mask))
    }

    fn renew(&mut self, at: u32) {
        let part = usize::from(self.entries[at as usize].part);
        self.lists[part].used.renew(&mut self.entries, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_leaves_first() {
        let mut clean = Clean::default();
        clean.grow(2);
        for lpn in 0..3 {
            clean.insert(Lpn(lpn), 0b11, 0, lpn + 10);
        }
        clean.insert(Lpn(9), 0b1, 1, 19);
        assert_eq!(clean.read(Lpn(0), 0b10), Some(10));
        assert_eq!(clean.read(Lpn(9), 0b10), None);
        assert!(clean.add(Lpn(9), 0b10) && !clean.add(Lpn(8), 1));
        assert_eq!(clean.read(Lpn(9), 0b11), Some(19));
        assert_eq!(clean.evict(0).map(|left| left.place), Some(11));
        assert_eq!(clean.remove(Lpn(2)).map(|left| left.place), Some(12));
        assert_eq!(clean.contents(0).collect::<Vec<_>>(), [(Lpn(0), 0b11)]);
        clean.insert(Lpn(5), 1, 0, 15);
        assert_eq!(clean.contents(0).map(|(lpn, _)| lpn).collect::<Vec<_>>(), [Lpn(0), Lpn(5)]);
        assert_eq!((clean.len(), clean.len_of(0), clean.len_of(1)), (3, 2, 1));
        assert!(clean.evict(0).is_some() && clean.evict(0).is_some() && clean.evict(0).is_none());
    }
}
