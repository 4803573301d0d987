//! The order in which things were used last: a list, linked both ways, through the table that
//! they are in.

use crate::kernel::pool::NONE;
use serde::{Deserialize, Serialize};

/// A thing's neighbours in its [`Recency`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Neighbours {
    newer: u32,
    older: u32,
}

impl Neighbours {
    pub(crate) const NONE: Neighbours = Neighbours { newer: NONE, older: NONE };

    /// Indices of both, `NONE` at an end.
    pub(crate) fn both(self) -> [u32; 2] {
        [self.newer, self.older]
    }
}

/// Things that can stand in a [`Recency`].
pub(crate) trait Recent {
    fn neighbours(&self) -> Neighbours;
    fn neighbours_mut(&mut self) -> &mut Neighbours;
}

/// The newest and the oldest, by their indices in the table; the others are linked to them.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Recency {
    newest: u32,
    oldest: u32,
}

impl Recency {
    pub(crate) const EMPTY: Recency = Recency { newest: NONE, oldest: NONE };

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.oldest == NONE
    }

    /// What was used least recently.
    #[inline]
    pub(crate) fn oldest(self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Puts in, as the newest, what is not in any list.
    #[inline]
    pub(crate) fn add<T: Recent>(&mut self, table: &mut [T], at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        *table[at as usize].neighbours_mut() = Neighbours { newer: NONE, older: before };
        match before {
            NONE => self.oldest = at,
            before => table[before as usize].neighbours_mut().newer = at,
        }
    }

    /// Takes out what is in the list.
    #[inline]
    pub(crate) fn remove<T: Recent>(&mut self, table: &mut [T], at: u32) {
        let Neighbours { newer, older } = table[at as usize].neighbours();
        match newer {
            NONE => self.newest = older,
            newer => table[newer as usize].neighbours_mut().older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => table[older as usize].neighbours_mut().newer = newer,
        }
    }

    /// Makes what is in the list the newest.
    #[inline]
    pub(crate) fn renew<T: Recent>(&mut self, table: &mut [T], at: u32) {
        if self.newest != at {
            self.remove(table, at);
            self.add(table, at);
        }
    }

    /// Everything from the oldest on, with its index.
    pub(crate) fn oldest_first<T: Recent>(self, table: &[T]) -> impl Iterator<Item = (u32, &T)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let (at, item) = (next, table.get(next as usize)?);
            next = item.neighbours().newer;
            Some((at, item))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy)]
    struct Item(Neighbours);

    impl Recent for Item {
        fn neighbours(&self) -> Neighbours {
            self.0
        }
        fn neighbours_mut(&mut self) -> &mut Neighbours {
            &mut self.0
        }
    }

    proptest! {
        /// Against a vector: whatever is put in, used again and taken out, the order is that
        /// of the last use.
        #[test]
        fn the_order_is_that_of_the_last_use(
            steps in prop::collection::vec((0u32..8, any::<bool>()), 0..100)
        ) {
            let mut table = [Item(Neighbours::NONE); 8];
            let mut list = Recency::EMPTY;
            let mut expected: Vec<u32> = vec![];
            for (at, takes) in steps {
                let here = expected.iter().position(|&other| other == at);
                match (here, takes) {
                    (Some(_), true) => list.remove(&mut table, at),
                    (Some(_), false) => list.renew(&mut table, at),
                    (None, true) => {}
                    (None, false) => list.add(&mut table, at),
                }
                expected.retain(|&other| other != at);
                expected.extend((!takes).then_some(at));
                let order: Vec<u32> = list.oldest_first(&table).map(|(at, _)| at).collect();
                prop_assert_eq!(&order, &expected);
                prop_assert_eq!(list.oldest(), expected.first().copied());
                prop_assert_eq!(list.is_empty(), expected.is_empty());
            }
        }
    }
}
