//! A first-in first-out queue for the path of an I/O: a ring whose size is a power of two, so
//! that a place is found without a comparison.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct Ring<T> {
    items: Vec<T>,
    /// Places, not wrapped, of the first item and of the next one to come.
    first: usize,
    end: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { items: Vec::new(), first: 0, end: 0 }
    }
}

impl<T: Copy> Ring<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        if self.end - self.first == self.items.len() {
            self.grow(item);
        }
        let place = self.end & (self.items.len() - 1);
        self.items[place] = item;
        self.end += 1;
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.items.get(self.first & self.items.len().wrapping_sub(1)).copied()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.front()?;
        self.first += 1;
        Some(item)
    }

    pub(crate) fn clear(&mut self) {
        self.first = self.end;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, filler: T) {
        if !self.items.is_empty() {
            let first = self.first & (self.items.len() - 1);
            self.items.rotate_left(first);
        }
        (self.first, self.end) = (0, self.items.len());
        self.items.resize((self.items.len() * 2).max(8), filler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_while_it_grows() {
        let mut ring = Ring::default();
        let (mut pushed, mut popped) = (0, 0);
        for round in 0..50 {
            for _ in 0..round {
                ring.push(pushed);
                pushed += 1;
            }
            for _ in 0..round / 2 {
                assert_eq!(ring.front(), Some(popped));
                assert_eq!(ring.pop(), Some(popped));
                popped += 1;
            }
        }
        while let Some(item) = ring.pop() {
            assert_eq!(item, popped);
            popped += 1;
        }
        assert_eq!(popped, pushed);
        ring.push(7);
        ring.clear();
        assert!(ring.is_empty());
        assert_eq!(ring.front(), None);
    }
}
