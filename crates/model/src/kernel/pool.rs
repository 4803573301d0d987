//! A table of things with stable indices and reuse of freed places.

use mynah_memory::prefetch;

/// Index that stands for nothing.
pub(crate) const NONE: u32 = u32::MAX;

pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { items: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Pool<T> {
    /// Stores `item`; returns its index.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        let index = self.insert_any();
        self[index] = item;
        index
    }

    /// Stores something, whatever was there before, for the caller to fill in place; returns
    /// its index.
    #[inline]
    pub(crate) fn insert_any(&mut self) -> u32 {
        match self.free.pop() {
            Some(index) => index,
            None => self.add_place(),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_place(&mut self) -> u32 {
        self.items.push(T::default());
        (self.items.len() - 1) as u32
    }
}

impl<T> Pool<T> {
    /// Gives the place at `index` back. What it held stays readable until it is reused.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Asks for what is at `index`, which will soon be looked at; nothing if that is `NONE`.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(item) = self.items.get(index as usize) {
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
    pub(crate) fn indices(&self) -> Vec<u32> {
        let mut stored = vec![true; self.items.len()];
        for &free in &self.free {
            stored[free as usize] = false;
        }
        (0..self.items.len() as u32).filter(|&index| stored[index as usize]).collect()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.free.clear();
    }
}

impl<T> std::ops::Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}

/// A first-in first-out list threaded through the `next` fields of pooled items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// Items that can stand in a [`List`].
pub(crate) trait Linked {
    fn next(&self) -> u32;
    fn set_next(&mut self, next: u32);
}

impl<T: Linked> Pool<T> {
    /// Puts `item` at the end of `list`.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, item: u32) {
        self[item].set_next(NONE);
        match list.tail {
            NONE => list.head = item,
            tail => self[tail].set_next(item),
        }
        list.tail = item;
    }

    /// Takes the first item of `list`.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let item = list.head;
        if item == NONE {
            return None;
        }
        list.head = self[item].next();
        if list.head == NONE {
            list.tail = NONE;
        }
        Some(item)
    }

    /// Takes `item`, whose predecessor is `before` (or `NONE`), out of `list`.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, before: u32, item: u32) {
        let next = self[item].next();
        match before {
            NONE => list.head = next,
            before => self[before].set_next(next),
        }
        if list.tail == item {
            list.tail = before;
        }
    }
}
