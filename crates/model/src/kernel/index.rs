//! An index from keys to places in a table, for tables that are far larger than a processor's
//! caches: what an access will look at can be asked for ahead, which general hash tables do not
//! let one do. Hashing is by multiplication (Knuth, TAOCP 6.4), with chains through the places.

use crate::kernel::pool::NONE;
use crate::kernel::snapshot::words;
use mynah_memory::prefetch;
use serde::{Deserialize, Serialize};

/// 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Chains at first: a power of two.
const CHAINS: usize = 16;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Node {
    key: u32,
    /// The next place in its chain, or `NONE`.
    next: u32,
}

/// From keys to places. No two keys have the same place.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Index {
    /// First place of each chain, at least two chains for each key.
    #[serde(with = "words")]
    chains: Vec<u32>,
    /// How far a hash is shifted to give its chain.
    shift: u32,
    /// What is in each place; those without a key are in no chain.
    nodes: Vec<Node>,
    len: usize,
}

impl Default for Index {
    fn default() -> Self {
        Index {
            chains: vec![NONE; CHAINS],
            shift: 64 - CHAINS.trailing_zeros(),
            nodes: vec![],
            len: 0,
        }
    }
}

impl Index {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn chain_of(&self, key: u32) -> usize {
        (u64::from(key).wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
        let mut at = self.chains[self.chain_of(key)];
        while at != NONE {
            let node = self.nodes[at as usize];
            if node.key == key {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    #[inline]
    pub(crate) fn contains(&self, key: u32) -> bool {
        self.get(key).is_some()
    }

    /// Gives `key`, which must not have one, a place, which must not be taken.
    #[inline]
    pub(crate) fn insert(&mut self, key: u32, at: u32) {
        debug_assert!(!self.contains(key), "{key} has a place");
        if self.nodes.len() <= at as usize || self.len * 2 >= self.chains.len() {
            self.grow(at);
        }
        let chain = self.chain_of(key);
        let next = std::mem::replace(&mut self.chains[chain], at);
        self.nodes[at as usize] = Node { key, next };
        self.len += 1;
    }

    /// Takes the place of `key` from it; returns the place, if there was one.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> Option<u32> {
        let chain = self.chain_of(key);
        let (mut before, mut at) = (NONE, self.chains[chain]);
        while at != NONE {
            let node = self.nodes[at as usize];
            if node.key == key {
                match before {
                    NONE => self.chains[chain] = node.next,
                    before => self.nodes[before as usize].next = node.next,
                }
                self.len -= 1;
                return Some(at);
            }
            (before, at) = (at, node.next);
        }
        None
    }

    /// Asks for what says where the chain of `key` begins.
    #[inline]
    pub(crate) fn prefetch(&self, key: u32) {
        if let Some(first) = self.chains.get(self.chain_of(key)) {
            prefetch(first);
        }
    }

    /// Asks for the first place in the chain of `key`, when where it begins is near.
    #[inline]
    pub(crate) fn prefetch_first(&self, key: u32) {
        if let Some(&at) = self.chains.get(self.chain_of(key)) {
            self.prefetch_place(at);
        }
    }

    /// Asks for what is in a place.
    #[inline]
    pub(crate) fn prefetch_place(&self, at: u32) {
        if let Some(node) = self.nodes.get(at as usize) {
            prefetch(node);
        }
    }

    /// Every key and its place, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.chains.iter().flat_map(|&first| {
            std::iter::successors((first != NONE).then_some(first), |&at| {
                Some(self.nodes[at as usize].next).filter(|&next| next != NONE)
            })
            .map(|at| (self.nodes[at as usize].key, at))
        })
    }

    pub(crate) fn clear(&mut self) {
        *self = Index::default();
    }

    /// Makes room for place `at`, and for one more key.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: u32) {
        if self.nodes.len() <= at as usize {
            self.nodes.resize(at as usize + 1, Node { key: 0, next: NONE });
        }
        if self.len * 2 >= self.chains.len() {
            let all: Vec<(u32, u32)> = self.iter().collect();
            self.chains = vec![NONE; self.chains.len() * 2];
            self.shift -= 1;
            for (key, at) in all {
                let chain = self.chain_of(key);
                self.nodes[at as usize].next = std::mem::replace(&mut self.chains[chain], at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map: whatever comes and goes, each key has its place.
        #[test]
        fn keys_have_their_places(
            steps in prop::collection::vec((0u32..60, any::<bool>()), 0..400)
        ) {
            let mut index = Index::default();
            let mut expected = BTreeMap::new();
            let mut free: Vec<u32> = (0..60).rev().collect();
            for (key, comes) in steps {
                // Keys that differ in their upper bits only are as good as others.
                let key = key << 26 | key;
                match (comes, expected.get(&key).copied()) {
                    (true, None) => {
                        let at = free.pop().expect("a place for each key");
                        index.insert(key, at);
                        expected.insert(key, at);
                    }
                    (false, at) => {
                        prop_assert_eq!(index.remove(key), at);
                        expected.remove(&key);
                        free.extend(at);
                    }
                    (true, at) => prop_assert_eq!(index.get(key), at),
                }
                index.prefetch(key);
                index.prefetch_first(key);
                index.prefetch_place(key);
                prop_assert_eq!(index.len(), expected.len());
                prop_assert_eq!(index.contains(key), expected.contains_key(&key));
            }
            prop_assert_eq!(index.iter().collect::<BTreeMap<_, _>>(), expected);
            index.clear();
            prop_assert!(index.is_empty() && index.iter().next().is_none());
        }
    }
}
