//! The index of keys: which of its pages says where a key's pair is, and what a change of the set of
//! keys changes in it. Pages are numbered from 0 within the namespace; they are translation pages to
//! everybody else. Whether a page is in DRAM is for `pages.rs` to say.

use super::dynamic_hash::DynamicHash;
use super::hash::Hash;
use crate::config::{KeyIndex, KeyIndexKind};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::observe::account::StateHash;

/// Pages that a command has to know, in order, and those of them that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) pages: Vec<u32>,
    pub(crate) changed: Vec<u32>,
}

impl Probes {
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.changed.clear();
    }
}

/// Where the entry of a key is within its bucket: in which of the pages that follow one another.
pub(crate) type Place = u8;

/// An index of keys. A kind is a type of its own; what differs between kinds is asked here.
pub(crate) enum Index {
    Dynamic(DynamicHash),
    Hash(Hash),
}

impl Index {
    /// An empty index for up to `keys` keys, `entries` to a page.
    pub(crate) fn new(config: &KeyIndex, keys: u64, entries: u32) -> Index {
        match config.kind {
            KeyIndexKind::DynamicHash => Index::Dynamic(DynamicHash::new(keys, entries)),
            KeyIndexKind::Hash { pages } => Index::Hash(Hash::new(pages, keys, entries)),
        }
    }

    /// Most pages that it can have.
    pub(crate) fn pages_max(config: &KeyIndex, keys: u64, entries: u32) -> u64 {
        match config.kind {
            KeyIndexKind::DynamicHash => DynamicHash::pages_max(keys, entries),
            KeyIndexKind::Hash { pages } => Hash::pages_max(pages, keys, entries),
        }
    }

    /// Pages that there are.
    pub(crate) fn pages(&self) -> u32 {
        match self {
            Index::Dynamic(index) => index.pages(),
            Index::Hash(index) => index.pages(),
        }
    }

    /// Keys in it.
    pub(crate) fn keys(&self) -> u64 {
        match self {
            Index::Dynamic(index) => index.keys(),
            Index::Hash(index) => index.keys(),
        }
    }

    /// The pages to be looked at to find a key that is there, at `place`, or to find that it is
    /// not.
    pub(crate) fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        match self {
            Index::Dynamic(index) => probes.pages.push(index.page_of(token)),
            Index::Hash(index) => index.find(token, place, probes),
        }
    }

    /// The page that has the entry of a key that is there.
    pub(crate) fn page_of(&self, token: u64, place: Place) -> u32 {
        match self {
            Index::Dynamic(index) => index.page_of(token),
            Index::Hash(index) => index.page_of(token, place),
        }
    }

    /// A key is added; where, or `None` if it cannot be. Its bucket's pages are already among the
    /// probes.
    pub(crate) fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        match self {
            Index::Dynamic(index) => index.insert(token, probes),
            Index::Hash(index) => index.insert(token, probes),
        }
    }

    /// A key that was there, at `place`, is removed.
    pub(crate) fn remove(&mut self, token: u64, place: Place, probes: &mut Probes) {
        match self {
            Index::Dynamic(index) => index.remove(token, probes),
            Index::Hash(index) => index.remove(token, place, probes),
        }
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        match self {
            Index::Dynamic(index) => index.clear(),
            Index::Hash(index) => index.clear(),
        }
    }

    /// Whether it counts as many keys, where they are, as there are.
    pub(crate) fn check(&self, keys: impl Iterator<Item = (u64, Place)>) -> Result<(), String> {
        match self {
            Index::Dynamic(index) => index.check(keys),
            Index::Hash(index) => index.check(keys),
        }
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        match self {
            Index::Dynamic(index) => index.hash(hash),
            Index::Hash(index) => index.hash(hash),
        }
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        match self {
            Index::Dynamic(index) => index.save(out),
            Index::Hash(index) => index.save(out),
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
        }
    }
}
