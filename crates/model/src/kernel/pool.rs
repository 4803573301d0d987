//! A table of things with stable indices and reuse of freed places. Each kind of thing has indices
//! of a type of its own.

pub(crate) use crate::number::{NONE, PoolIndex};
use mynah_memory::prefetch;
use serde::{Deserialize, Serialize};

/// Things that lie in a [`Pool`].
pub(crate) trait Pooled {
    type Index: PoolIndex;
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Pool<T: Pooled> {
    items: Vec<T>,
    free: Vec<T::Index>,
}

impl<T: Pooled> Default for Pool<T> {
    fn default() -> Self {
        Pool { items: Vec::new(), free: Vec::new() }
    }
}

impl<T: Pooled + Default> Pool<T> {
    /// Stores `item`; returns its index.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> T::Index {
        let index = self.insert_any();
        self[index] = item;
        index
    }

    /// Stores something, whatever was there before, for the caller to fill in place; returns
    /// its index.
    #[inline]
    pub(crate) fn insert_any(&mut self) -> T::Index {
        match self.free.pop() {
            Some(index) => index,
            None => self.add_place(),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_place(&mut self) -> T::Index {
        self.items.push(T::default());
        T::Index::of_place(self.items.len() - 1)
    }
}

impl<T: Pooled> Pool<T> {
    /// Gives the place at `index` back. What it held stays readable until it is reused.
    #[inline]
    pub(crate) fn remove(&mut self, index: T::Index) {
        self.free.push(index);
    }

    /// All that has been stored and not given back.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &T> {
        let mut stored = vec![true; self.items.len()];
        self.free.iter().for_each(|index| stored[index.index()] = false);
        self.items.iter().zip(stored).filter(|(_, stored)| *stored).map(|(item, _)| item)
    }

    /// Asks for what is at `index`, which will soon be looked at; nothing if that is `NONE`.
    #[inline]
    pub(crate) fn prefetch(&self, index: T::Index) {
        if let Some(item) = self.items.get(index.index()) {
            let first = std::ptr::from_ref(item).cast::<u8>();
            prefetch(first);
            prefetch(first.wrapping_add(size_of::<T>() - 1));
        }
    }

    /// Every place, also those given back.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.items
    }

    /// Every place, also those given back.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// How many things are stored.
    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Indices of everything stored, in order.
    pub(crate) fn indices(&self) -> Vec<T::Index> {
        let mut stored = vec![true; self.items.len()];
        for free in &self.free {
            stored[free.index()] = false;
        }
        let all = 0..self.items.len();
        all.filter(|&place| stored[place]).map(T::Index::of_place).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.free.clear();
    }
}

impl<T: Pooled> std::ops::Index<T::Index> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: T::Index) -> &T {
        &self.items[index.index()]
    }
}

impl<T: Pooled> std::ops::IndexMut<T::Index> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: T::Index) -> &mut T {
        &mut self.items[index.index()]
    }
}

/// A first-in first-out list threaded through the `next` fields of pooled items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List<I> {
    pub(crate) head: I,
    pub(crate) tail: I,
}

impl<I: PoolIndex> List<I> {
    pub(crate) const EMPTY: List<I> = List { head: I::NONE, tail: I::NONE };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == I::NONE
    }
}

/// Items that can stand in a [`List`].
pub(crate) trait Linked: Pooled {
    fn next(&self) -> Self::Index;
    fn set_next(&mut self, next: Self::Index);
}

impl<T: Linked> Pool<T> {
    /// Puts `item` at the end of `list`.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List<T::Index>, item: T::Index) {
        self[item].set_next(T::Index::NONE);
        if list.tail == T::Index::NONE {
            list.head = item;
        } else {
            self[list.tail].set_next(item);
        }
        list.tail = item;
    }

    /// Takes the first item of `list`.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List<T::Index>) -> Option<T::Index> {
        let item = list.head;
        if item == T::Index::NONE {
            return None;
        }
        list.head = self[item].next();
        if list.head == T::Index::NONE {
            list.tail = T::Index::NONE;
        }
        Some(item)
    }

    /// Takes `item`, whose predecessor is `before` (or `NONE`), out of `list`.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List<T::Index>, before: T::Index, item: T::Index) {
        let next = self[item].next();
        if before == T::Index::NONE {
            list.head = next;
        } else {
            self[before].set_next(next);
        }
        if list.tail == item {
            list.tail = before;
        }
    }
}
