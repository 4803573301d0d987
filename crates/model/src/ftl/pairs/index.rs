//! The index of keys: which of its pages says where a key's pair is, and what a change of the set of
//! keys changes in it. Pages are numbered from 0 within the namespace; they are translation pages to
//! everybody else. Whether a page is in DRAM is for `pages.rs` to say.

use super::dynamic_hash::DynamicHash;
use super::hash::Hash;
use super::lsm::{Form, Lsm};
use crate::config::{KeyIndex, KeyIndexKind};
use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::kernel::hash::StateHash;
use crate::number::Lpn;

/// Pages that a command has to know, in order, and those of them that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) pages: Vec<u32>,
    pub(crate) changed: Vec<u32>,
    /// First cells of pairs that are read then, to compare their keys.
    pub(crate) compared: Vec<Lpn>,
}

impl Probes {
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.changed.clear();
        self.compared.clear();
    }
}

/// Where the entry of a key is within its bucket: in which of the pages that follow one another.
pub(crate) type Place = u8;

/// An index of keys. A kind is a type of its own; what differs between kinds is asked here.
pub(crate) enum Index {
    Dynamic(DynamicHash),
    Hash(Hash),
    Lsm(Box<Lsm>),
}

/// The form of a tree of runs.
fn form(config: &KeyIndex, memtable_bytes: u64, fanout: u32, pinned: u32) -> Form {
    let memtable = (memtable_bytes / u64::from(config.entry_bytes)).max(1) as usize;
    Form { memtable, fanout, pinned, filter_bits: config.filter_bits }
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
        }
    }

    /// Pages that the index has now.
    pub(crate) fn pages(&self) -> u32 {
        match self {
            Index::Dynamic(index) => index.pages(),
            Index::Hash(index) => index.pages(),
            Index::Lsm(index) => index.pages(),
        }
    }

    pub(crate) fn keys(&self) -> u64 {
        match self {
            Index::Dynamic(index) => index.keys(),
            Index::Hash(index) => index.keys(),
            Index::Lsm(index) => index.keys(),
        }
    }

    /// The pages to be looked at to find a key that is there, at `place`, or to find that it is
    /// not.
    pub(crate) fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        match self {
            Index::Dynamic(index) => probes.pages.push(index.page_of(token)),
            Index::Hash(index) => index.find(token, place, probes),
            Index::Lsm(index) => index.find(token, probes),
        }
    }

    /// The pages a Store has to look at when it need not know whether the key exists.
    pub(crate) fn find_to_store(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        match self {
            Index::Dynamic(_) | Index::Hash(_) => self.find(token, place, probes),
            // A new entry stands for all older ones.
            Index::Lsm(_) => {}
        }
    }

    /// The page that has the entry of a key that is there, unless that is in DRAM for other
    /// reasons.
    pub(crate) fn page_of(&self, token: u64, place: Place) -> Option<u32> {
        match self {
            Index::Dynamic(index) => Some(index.page_of(token)),
            Index::Hash(index) => Some(index.page_of(token, place)),
            Index::Lsm(index) => index.page_of(token),
        }
    }

    /// Keys that a page of a hash table has.
    pub(crate) fn keys_of(&self, page: u32) -> u32 {
        match self {
            Index::Dynamic(index) => index.keys_of(page),
            Index::Hash(index) => index.keys_of(page),
            Index::Lsm(_) => 0,
        }
    }

    /// A key is added; where, or `None` if it cannot be. Its bucket's pages are already among the
    /// probes.
    pub(crate) fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        match self {
            Index::Dynamic(index) => index.insert(token, probes),
            Index::Hash(index) => index.insert(token, probes),
            Index::Lsm(index) => index.insert(token).then_some(0),
        }
    }

    /// The pair of a key that is there, at `place`, is elsewhere.
    pub(crate) fn update(&mut self, token: u64, place: Place, changed: &mut Vec<u32>) {
        match self {
            Index::Dynamic(index) => changed.push(index.page_of(token)),
            Index::Hash(index) => changed.push(index.page_of(token, place)),
            Index::Lsm(index) => index.update(token),
        }
    }

    /// A pair whose entry was made when it was stored is on flash now: the entry says where.
    pub(crate) fn settle_entry(&self, token: u64, place: Place) -> Option<u32> {
        match self {
            Index::Dynamic(_) | Index::Hash(_) => self.page_of(token, place),
            // It was still in DRAM.
            Index::Lsm(_) => None,
        }
    }

    /// A key that was there, at `place`, is removed.
    pub(crate) fn remove(&mut self, token: u64, place: Place, probes: &mut Probes) {
        match self {
            Index::Dynamic(index) => index.remove(token, probes),
            Index::Hash(index) => index.remove(token, place, probes),
            Index::Lsm(index) => index.remove(token),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Index::Dynamic(index) => index.clear(),
            Index::Hash(index) => index.clear(),
            Index::Lsm(index) => index.clear(),
        }
    }

    /// The tree of runs, if it is one: it has work of its own.
    pub(crate) fn lsm(&self) -> Option<&Lsm> {
        match self {
            Index::Lsm(index) => Some(index),
            Index::Dynamic(_) | Index::Hash(_) => None,
        }
    }

    pub(crate) fn lsm_mut(&mut self) -> Option<&mut Lsm> {
        match self {
            Index::Lsm(index) => Some(index),
            Index::Dynamic(_) | Index::Hash(_) => None,
        }
    }

    /// Brings it to rest, without taking any time; the pages that it has then.
    pub(crate) fn settle(&mut self) -> Vec<u32> {
        match self {
            Index::Dynamic(_) | Index::Hash(_) => (0..self.pages()).collect(),
            Index::Lsm(index) => index.settle(),
        }
    }

    /// Whether it counts as many keys, where they are, as there are.
    pub(crate) fn check(&self, mut keys: impl Iterator<Item = (u64, Place)>) -> Result<(), String> {
        match self {
            Index::Dynamic(index) => index.check(keys),
            Index::Hash(index) => index.check(keys),
            Index::Lsm(index) => index.check(std::iter::from_fn(|| keys.next().map(|key| key.0))),
        }
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        match self {
            Index::Dynamic(index) => index.hash(hash),
            Index::Hash(index) => index.hash(hash),
            Index::Lsm(index) => index.hash(hash),
        }
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        match self {
            Index::Dynamic(index) => index.save(out),
            Index::Hash(index) => index.save(out),
            Index::Lsm(index) => index.save(out),
        }
    }

    /// Takes what [`Index::save`] wrote, of these keys.
    pub(crate) fn restore(
        &mut self,
        input: &mut Reader<'_>,
        keys: impl Iterator<Item = (u64, Place)>,
    ) -> Result<(), StateError> {
        match self {
            Index::Dynamic(index) => index.restore(input, keys),
            Index::Hash(index) => index.restore(input, keys),
            Index::Lsm(index) => index.restore(input),
        }
    }
}
