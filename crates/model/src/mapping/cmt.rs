//! The cached mapping table: which entries the controller knows without reading flash, and
//! which of them differ from the translation pages in flash. Least recently used entries
//! leave first; when a dirty one leaves, all dirty entries of its translation page are
//! written with it (DFTL, ASPLOS'09).

use crate::config::CmtGranularity;
use crate::pool::NONE;
use crate::recency::{Neighbours, Recency, Recent};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

#[derive(Clone, Copy)]
struct Entry {
    /// A unit, or a translation page, by granularity.
    key: u32,
    translation_page: u32,
    neighbours: Neighbours,
    dirty: bool,
    /// Neighbours among the dirty entries of the same translation page.
    dirty_next: u32,
    dirty_previous: u32,
}

impl Recent for Entry {
    #[inline]
    fn neighbours(&self) -> Neighbours {
        self.neighbours
    }
    #[inline]
    fn neighbours_mut(&mut self) -> &mut Neighbours {
        &mut self.neighbours
    }
}

/// One cached mapping table.
pub(crate) struct Cmt {
    granularity: CmtGranularity,
    capacity: usize,
    index: HashMap<u32, u32, FxBuildHasher>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    used: Recency,
    /// First dirty entry of each translation page that has one.
    dirty: HashMap<u32, u32, FxBuildHasher>,
}

impl Cmt {
    pub(crate) fn new(granularity: CmtGranularity, capacity: usize) -> Cmt {
        Cmt {
            granularity,
            capacity: capacity.max(1),
            index: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            used: Recency::EMPTY,
            dirty: HashMap::default(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    fn key(&self, unit: u32, translation_page: u32) -> u32 {
        match self.granularity {
            CmtGranularity::Entry => unit,
            CmtGranularity::Page => translation_page,
        }
    }

    /// Whether the entry of `unit`, which lies in `translation_page`, is cached. If so it
    /// becomes the most recently used.
    #[inline]
    pub(crate) fn lookup(&mut self, unit: u32, translation_page: u32) -> bool {
        match self.index.get(&self.key(unit, translation_page)) {
            Some(&at) => {
                self.used.renew(&mut self.entries, at);
                true
            }
            None => false,
        }
    }

    /// Reads what [`Cmt::lookup`] of the same will read and change, to bring it near.
    pub(crate) fn touch(&self, unit: u32, translation_page: u32) -> u32 {
        let Some(&at) = self.index.get(&self.key(unit, translation_page)) else { return 0 };
        let near = |at: u32| self.entries.get(at as usize).map_or(0, |entry| entry.key);
        let [newer, older] = self.entries[at as usize].neighbours.both();
        near(newer) ^ near(older)
    }

    /// Whether the entry of `unit` is cached; does not count as a use.
    pub(crate) fn contains(&self, unit: u32, translation_page: u32) -> bool {
        self.index.contains_key(&self.key(unit, translation_page))
    }

    /// Caches the entry of `unit`; `dirty` if it differs from flash. Returns the translation
    /// page of a dirty entry that had to leave: it has to be written.
    pub(crate) fn insert(&mut self, unit: u32, translation_page: u32, dirty: bool) -> Option<u32> {
        let key = self.key(unit, translation_page);
        let mut evicted = None;
        let at = match self.index.get(&key) {
            Some(&at) => {
                self.used.renew(&mut self.entries, at);
                at
            }
            None => {
                if self.index.len() >= self.capacity {
                    evicted = self.evict();
                }
                let entry = Entry {
                    key,
                    translation_page,
                    neighbours: Neighbours::NONE,
                    dirty: false,
                    dirty_next: NONE,
                    dirty_previous: NONE,
                };
                let at = match self.free.pop() {
                    Some(at) => {
                        self.entries[at as usize] = entry;
                        at
                    }
                    None => {
                        self.entries.push(entry);
                        (self.entries.len() - 1) as u32
                    }
                };
                self.index.insert(key, at);
                self.used.add(&mut self.entries, at);
                at
            }
        };
        if dirty {
            self.set_dirty(at, translation_page);
        }
        evicted
    }

    /// Forgets the entry of `unit` (of a whole translation page with granularity page: it
    /// is kept, since other units share it).
    pub(crate) fn forget(&mut self, unit: u32, translation_page: u32) {
        if self.granularity == CmtGranularity::Entry
            && let Some(at) = self.index.remove(&unit)
        {
            if self.entries[at as usize].dirty {
                self.set_clean(at, translation_page);
            }
            self.used.remove(&mut self.entries, at);
            self.free.push(at);
        }
    }

    /// Marks every entry of `translation_page` as equal to flash.
    pub(crate) fn clean(&mut self, translation_page: u32) {
        let mut at = self.dirty.remove(&translation_page).unwrap_or(NONE);
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            entry.dirty = false;
            at = std::mem::replace(&mut entry.dirty_next, NONE);
            entry.dirty_previous = NONE;
        }
    }

    /// The entries from the least recently used on: key, translation page, and whether it
    /// differs from flash.
    pub(crate) fn entries(&self) -> Vec<(u32, u32, bool)> {
        let entries = self.used.oldest_first(&self.entries);
        entries.map(|(_, entry)| (entry.key, entry.translation_page, entry.dirty)).collect()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Cmt::new(self.granularity, self.capacity);
    }

    /// Removes the least recently used entry; returns its translation page if it was dirty.
    fn evict(&mut self) -> Option<u32> {
        let at = self.used.oldest()?;
        let Entry { key, dirty, translation_page, .. } = self.entries[at as usize];
        if dirty {
            self.clean(translation_page);
        }
        self.index.remove(&key);
        self.used.remove(&mut self.entries, at);
        self.free.push(at);
        dirty.then_some(translation_page)
    }

    fn set_dirty(&mut self, at: u32, translation_page: u32) {
        if self.entries[at as usize].dirty {
            return;
        }
        let next = self.dirty.insert(translation_page, at).unwrap_or(NONE);
        let entry = &mut self.entries[at as usize];
        entry.dirty = true;
        entry.dirty_next = next;
        entry.dirty_previous = NONE;
        if next != NONE {
            self.entries[next as usize].dirty_previous = at;
        }
    }

    fn set_clean(&mut self, at: u32, translation_page: u32) {
        let Entry { dirty_next, dirty_previous, .. } = self.entries[at as usize];
        if dirty_previous != NONE {
            self.entries[dirty_previous as usize].dirty_next = dirty_next;
        } else if dirty_next != NONE {
            self.dirty.insert(translation_page, dirty_next);
        } else {
            self.dirty.remove(&translation_page);
        }
        if dirty_next != NONE {
            self.entries[dirty_next as usize].dirty_previous = dirty_previous;
        }
        self.entries[at as usize].dirty = false;
    }
}
