//! The index of a namespace: one of the kinds, behind the interface that they share. Its pages are
//! translation pages to everybody else. Whether a page is in DRAM is for `pages.rs` to say.

use super::dynamic_hash::DynamicHash;
use super::hash::Hash;
use super::lsm::{Form, Lsm};
use super::own::Own;
use crate::config::{KeyIndex, KeyIndexKind};
use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::kernel::hash::StateHash;
use crate::pair_index::{PageJob, PairIndex, Place, Probes, Room};

/// An index of keys. What differs between kinds is asked through [`PairIndex`].
pub(crate) enum Index {
    Dynamic(DynamicHash),
    Hash(Hash),
    Lsm(Box<Lsm>),
    Own(Own),
}

/// Asks whichever kind it is.
macro_rules! kind {
    ($of:expr, $index:ident => $answer:expr) => {
        match $of {
            Index::Dynamic($index) => $answer,
            Index::Hash($index) => $answer,
            Index::Lsm($index) => $answer,
            Index::Own($index) => $answer,
        }
    };
}

/// The form of a tree of runs.
fn form(config: &KeyIndex, memtable_bytes: u64, fanout: u32, pinned: u32) -> Form {
    let memtable = (memtable_bytes / u64::from(config.entry_bytes)).max(1) as usize;
    Form { memtable, fanout, pinned, filter_bits: config.filter_bits }
}

fn room(config: &KeyIndex, keys: u64, entries: u32) -> Room {
    Room { keys, entries, filter_bits: config.filter_bits }
}

impl Index {
    /// An empty index for up to `keys` keys, `entries` to a page.
    pub(crate) fn new(config: &KeyIndex, keys: u64, entries: u32) -> Index {
        match config.kind {
            KeyIndexKind::DynamicHash => Index::Dynamic(DynamicHash::new(keys, entries)),
            KeyIndexKind::Hash { pages } => Index::Hash(Hash::new(pages, keys, entries)),
            KeyIndexKind::Lsm { memtable_bytes, fanout, pinned_levels } => {
                let form = form(config, memtable_bytes, fanout, pinned_levels);
                Index::Lsm(Box::new(Lsm::new(form, keys, entries)))
            }
            KeyIndexKind::Own(kind) => {
                let room = room(config, keys, entries);
                let pages_max = kind.0.pages(room).most;
                Index::Own(Own { kind, index: kind.0.build(room), keys_max: keys, pages_max })
            }
        }
    }

    /// Most pages that it can have, and how many are to be expected on flash.
    pub(crate) fn pages_max(config: &KeyIndex, keys: u64, entries: u32) -> (u64, u64) {
        let both = |pages| (pages, pages);
        match config.kind {
            KeyIndexKind::DynamicHash => both(DynamicHash::pages_max(keys, entries)),
            KeyIndexKind::Hash { pages } => both(Hash::pages_max(pages, keys, entries)),
            KeyIndexKind::Lsm { memtable_bytes, fanout, pinned_levels } => {
                let form = form(config, memtable_bytes, fanout, pinned_levels);
                (Lsm::pages_max(form, keys, entries), Lsm::pages_expected(form, keys, entries))
            }
            KeyIndexKind::Own(kind) => {
                let pages = kind.0.pages(room(config, keys, entries));
                (pages.most, pages.expected.min(pages.most))
            }
        }
    }

    /// Whatever kind it is, as if it were not one of Mynah's.
    pub(crate) fn boxed(self) -> Box<dyn PairIndex> {
        match self {
            Index::Dynamic(index) => Box::new(index),
            Index::Hash(index) => Box::new(index),
            Index::Lsm(index) => index,
            Index::Own(index) => Box::new(index),
        }
    }

    /// Whether it reads and writes pages beside commands.
    pub(crate) fn has_jobs(&self) -> bool {
        match self {
            Index::Dynamic(_) | Index::Hash(_) => false,
            Index::Lsm(_) => true,
            Index::Own(own) => own.has_jobs(),
        }
    }

    /// Whether its pages hold entries by hash, each page with a filter and signatures of its own.
    pub(crate) fn is_hashed(&self) -> bool {
        match self {
            Index::Dynamic(_) | Index::Hash(_) => true,
            Index::Lsm(_) => false,
            Index::Own(own) => own.is_hashed(),
        }
    }

    pub(crate) fn pages(&self) -> u32 {
        kind!(self, index => index.pages())
    }

    pub(crate) fn keys(&self) -> u64 {
        kind!(self, index => index.keys())
    }

    pub(crate) fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        kind!(self, index => index.find(token, place, probes));
    }

    pub(crate) fn find_to_store(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        kind!(self, index => index.find_to_store(token, place, probes));
    }

    pub(crate) fn page_of(&self, token: u64, place: Place) -> Option<u32> {
        kind!(self, index => index.page_of(token, place))
    }

    pub(crate) fn keys_of(&self, page: u32) -> u32 {
        kind!(self, index => index.keys_of(page))
    }

    pub(crate) fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        kind!(self, index => index.insert(token, probes))
    }

    pub(crate) fn update(&mut self, token: u64, place: Place, changed: &mut Vec<u32>) {
        kind!(self, index => index.update(token, place, changed));
    }

    pub(crate) fn settle_entry(&self, token: u64, place: Place) -> Option<u32> {
        kind!(self, index => index.settle_entry(token, place))
    }

    pub(crate) fn remove(&mut self, token: u64, place: Place, probes: &mut Probes) {
        kind!(self, index => index.remove(token, place, probes));
    }

    pub(crate) fn clear(&mut self) {
        kind!(self, index => index.clear());
    }

    pub(crate) fn settle(&mut self) -> Vec<u32> {
        kind!(self, index => index.settle())
    }

    pub(crate) fn next_job(&mut self, lane: usize) -> Option<PageJob> {
        kind!(self, index => index.next_job(lane))
    }

    pub(crate) fn job_done(&mut self, lane: usize, dropped: &mut Vec<u32>) {
        kind!(self, index => index.job_done(lane, dropped));
    }

    pub(crate) fn has_work(&self) -> bool {
        kind!(self, index => index.has_work())
    }

    pub(crate) fn is_full(&self) -> bool {
        kind!(self, index => index.is_full())
    }

    pub(crate) fn epoch(&self) -> u32 {
        kind!(self, index => index.epoch())
    }

    pub(crate) fn restart(&mut self) {
        kind!(self, index => index.restart());
    }

    /// Whether it counts as many keys, where they are, as there are.
    pub(crate) fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String> {
        kind!(self, index => index.check(keys))
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        kind!(self, index => index.hash(hash));
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        kind!(self, index => index.write(out));
    }

    /// Takes what [`Index::save`] wrote, of these keys.
    pub(crate) fn restore(
        &mut self,
        input: &mut Reader<'_>,
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), StateError> {
        kind!(self, index => index.read(input, keys))
    }
}
