//! The cached mapping table: which entries the controller knows without reading flash, and
//! which of them differ from the translation pages in flash. Least recently used entries
//! leave first; when a dirty one leaves, all dirty entries of its translation page are
//! written with it (DFTL, ASPLOS'09).

use crate::config::CmtGranularity;
use crate::kernel::index::Index;
use crate::kernel::pool::NONE;
use crate::kernel::recency::{Neighbours, Recency, Recent};
use crate::number::{Lpn, Mvpn};
use hashbrown::HashMap;
use mynah_memory::prefetch;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Entry {
    /// A unit, or a translation page, by granularity.
    key: u32,
    translation_page: Mvpn,
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

/// Where the entry of each key is. Translation pages are so few that each has its place.
#[derive(Clone, Serialize, Deserialize)]
enum Places {
    Units(Index),
    Pages(Vec<u32>),
}

impl Places {
    fn new(granularity: CmtGranularity) -> Places {
        match granularity {
            CmtGranularity::Entry => Places::Units(Index::default()),
            CmtGranularity::Page => Places::Pages(vec![]),
        }
    }

    #[inline]
    fn get(&self, key: u32) -> Option<u32> {
        match self {
            Places::Units(units) => units.get(key),
            Places::Pages(pages) => pages.get(key as usize).copied().filter(|&at| at != NONE),
        }
    }

    fn insert(&mut self, key: u32, at: u32) {
        match self {
            Places::Units(units) => units.insert(key, at),
            Places::Pages(pages) => {
                if pages.len() <= key as usize {
                    pages.resize(key as usize + 1, NONE);
                }
                pages[key as usize] = at;
            }
        }
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        match self {
            Places::Units(units) => units.remove(key),
            Places::Pages(pages) => {
                let place = pages.get_mut(key as usize)?;
                Some(std::mem::replace(place, NONE)).filter(|&at| at != NONE)
            }
        }
    }

    /// Asks for what [`Places::get`] looks at first.
    #[inline]
    fn prefetch(&self, key: u32) {
        match self {
            Places::Units(units) => units.prefetch(key),
            Places::Pages(pages) => pages.get(key as usize).into_iter().for_each(|at| prefetch(at)),
        }
    }

    /// Asks for what [`Places::get`] looks at next, when that is near.
    #[inline]
    fn prefetch_first(&self, key: u32) {
        if let Places::Units(units) = self {
            units.prefetch_first(key);
        }
    }
}

/// A cached mapping table (CMT) with LRU replacement.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Cmt {
    granularity: CmtGranularity,
    capacity: usize,
    index: Places,
    entries: Vec<Entry>,
    free: Vec<u32>,
    used: Recency,
    /// First dirty entry of each translation page that has one.
    dirty: HashMap<Mvpn, u32, FxBuildHasher>,
    /// What is written with an entry that leaves is cleaned by [`Cmt::write_back`], not at once.
    written_apart: bool,
}

impl Cmt {
    pub(crate) fn new(granularity: CmtGranularity, capacity: usize) -> Cmt {
        Cmt {
            granularity,
            capacity: capacity.max(1),
            index: Places::new(granularity),
            entries: Vec::new(),
            free: Vec::new(),
            used: Recency::EMPTY,
            dirty: HashMap::default(),
            written_apart: false,
        }
    }

    /// As MQSim: entries evicted dirty are cleaned by [`Cmt::write_back`], not at once.
    pub(crate) fn written_apart(self) -> Cmt {
        Cmt { written_apart: true, ..self }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    fn key(&self, lpn: Lpn, translation_page: Mvpn) -> u32 {
        match self.granularity {
            CmtGranularity::Entry => lpn.0,
            CmtGranularity::Page => translation_page.0,
        }
    }

    /// Whether the entry of `lpn`, which lies in `translation_page`, is cached. If so it
    /// becomes the most recently used.
    #[inline]
    pub(crate) fn lookup(&mut self, lpn: Lpn, translation_page: Mvpn) -> bool {
        match self.index.get(self.key(lpn, translation_page)) {
            Some(at) => {
                self.used.renew(&mut self.entries, at);
                true
            }
            None => false,
        }
    }

    /// Asks for what [`Cmt::lookup`] of each of these, a unit and its translation page, will read
    /// and change, for the first 32 of them.
    #[inline]
    pub(crate) fn prefetch(&self, wanted: impl Iterator<Item = (Lpn, Mvpn)> + Clone) {
        let keys = wanted.map(|(unit, page)| self.key(unit, page));
        keys.clone().for_each(|key| self.index.prefetch(key));
        keys.clone().for_each(|key| self.index.prefetch_first(key));
        let mut found = [NONE; 32];
        for (at, key) in found.iter_mut().zip(keys) {
            *at = self.index.get(key).unwrap_or(NONE);
            if let Some(entry) = self.entries.get(*at as usize) {
                prefetch(entry);
            }
        }
        for entry in found.iter().filter_map(|&at| self.entries.get(at as usize)) {
            let near = entry.neighbours.both().map(|at| self.entries.get(at as usize));
            near.into_iter().flatten().for_each(|entry| prefetch(entry));
        }
    }

    /// Whether the entry of `lpn` is cached; does not count as a use.
    pub(crate) fn contains(&self, lpn: Lpn, translation_page: Mvpn) -> bool {
        self.index.get(self.key(lpn, translation_page)).is_some()
    }

    /// Caches the entry of `lpn`; `dirty` if it differs from flash. Returns the translation
    /// page of a dirty entry that had to leave: it has to be written.
    pub(crate) fn insert(&mut self, lpn: Lpn, translation_page: Mvpn, dirty: bool) -> Option<Mvpn> {
        let key = self.key(lpn, translation_page);
        let mut evicted = None;
        let at = match self.index.get(key) {
            Some(at) => {
                self.used.renew(&mut self.entries, at);
                at
            }
            None => {
                if self.entries.len() - self.free.len() >= self.capacity {
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

    /// The entry of `lpn` differs from flash, if it is cached; whether it is. Does not count as
    /// a use.
    pub(crate) fn make_dirty(&mut self, lpn: Lpn, translation_page: Mvpn) -> bool {
        let found = self.index.get(self.key(lpn, translation_page));
        if let Some(at) = found {
            self.set_dirty(at, translation_page);
        }
        found.is_some()
    }

    /// How many translation pages have to be written before so many further entries have room,
    /// as far as it matters: 2 stands for all that are more.
    pub(crate) fn writes_for_room(&self, further: usize) -> usize {
        let held = self.entries.len() - self.free.len();
        let leave = (held + further).saturating_sub(self.capacity);
        if leave > held {
            return 2;
        }
        let mut written = None;
        for (_, entry) in self.used.oldest_first(&self.entries).take(leave) {
            // Those of one page leave clean after the first.
            if entry.dirty && Some(entry.translation_page) != written {
                if written.is_some() {
                    return 2;
                }
                written = Some(entry.translation_page);
            }
        }
        usize::from(written.is_some())
    }

    /// Forgets the entry of `lpn` (of a whole translation page with granularity page: it
    /// is kept, since other units share it).
    pub(crate) fn forget(&mut self, lpn: Lpn, translation_page: Mvpn) {
        if self.granularity == CmtGranularity::Entry
            && let Some(at) = self.index.remove(lpn.0)
        {
            if self.entries[at as usize].dirty {
                self.set_clean(at, translation_page);
            }
            self.used.remove(&mut self.entries, at);
            self.free.push(at);
        }
    }

    /// Marks every entry of `translation_page` as equal to flash.
    pub(crate) fn clean(&mut self, translation_page: Mvpn) {
        let mut at = self.dirty.remove(&translation_page).unwrap_or(NONE);
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            entry.dirty = false;
            at = std::mem::replace(&mut entry.dirty_next, NONE);
            entry.dirty_previous = NONE;
        }
    }

    /// Writes `units`, those of `translation_page`, as MQSim does
    /// (`generate_flash_writeback_request_for_mapping_data` in
    /// Address_Mapping_Unit_Page_Level.cpp): dirty ones become clean and count as just used, one
    /// after the other. Returns how many sectors have entries that are cached and were clean; it
    /// reads these.
    pub(crate) fn write_back(
        &mut self,
        translation_page: Mvpn,
        units: impl Iterator<Item = Lpn>,
        entries_per_sector: u32,
    ) -> u32 {
        let (mut sectors, mut last) = (0, u32::MAX);
        for (position, unit) in (0..).zip(units) {
            let Some(at) = self.index.get(self.key(unit, translation_page)) else { continue };
            if self.entries[at as usize].dirty {
                self.set_clean(at, translation_page);
                self.used.renew(&mut self.entries, at);
            } else if position / entries_per_sector != last {
                last = position / entries_per_sector;
                sectors += 1;
            }
        }
        sectors
    }

    /// The entries from the least recently used on: key, translation page, and whether it
    /// differs from flash.
    pub(crate) fn entries(&self) -> Vec<(u32, Mvpn, bool)> {
        let entries = self.used.oldest_first(&self.entries);
        entries.map(|(_, entry)| (entry.key, entry.translation_page, entry.dirty)).collect()
    }

    /// Forgets a whole translation page, whatever is known of it (granularity page).
    pub(crate) fn forget_page(&mut self, translation_page: Mvpn) {
        if self.granularity == CmtGranularity::Page
            && let Some(at) = self.index.remove(translation_page.0)
        {
            if self.entries[at as usize].dirty {
                self.set_clean(at, translation_page);
            }
            self.used.remove(&mut self.entries, at);
            self.free.push(at);
        }
    }

    pub(crate) fn clear(&mut self) {
        let new = Cmt::new(self.granularity, self.capacity);
        *self = Cmt { written_apart: self.written_apart, ..new };
    }

    /// Removes the least recently used entry; returns its translation page if it was dirty.
    fn evict(&mut self) -> Option<Mvpn> {
        let at = self.used.oldest()?;
        let Entry { key, dirty, translation_page, .. } = self.entries[at as usize];
        match self.written_apart {
            true if dirty => self.set_clean(at, translation_page),
            false if dirty => self.clean(translation_page),
            _ => {}
        }
        self.index.remove(key);
        self.used.remove(&mut self.entries, at);
        self.free.push(at);
        self.prefetch_next_to_leave();
        dirty.then_some(translation_page)
    }

    /// Asks for what will be changed when the entries leave that are now the oldest: of the first
    /// where it is in its chain, of the second where its chain begins, of the third the entry.
    #[inline]
    fn prefetch_next_to_leave(&self) {
        let mut next = self.used.oldest_first(&self.entries);
        if let Some((_, entry)) = next.next() {
            self.index.prefetch_first(entry.key);
        }
        if let Some((_, entry)) = next.next() {
            self.index.prefetch(entry.key);
        }
        if let Some((_, entry)) = next.next() {
            prefetch(entry);
        }
    }

    fn set_dirty(&mut self, at: u32, translation_page: Mvpn) {
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

    fn set_clean(&mut self, at: u32, translation_page: Mvpn) {
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
