//! A table of things with stable indices; freed places are used again.

/// Index that stands for nothing.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slots<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = Some(item);
                index
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.items.get(index as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let item = self.items.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(item)
    }

    /// Frees an index without moving what it held.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        if let Some(place) = self.items.get_mut(index as usize)
            && place.is_some()
        {
            *place = None;
            self.free.push(index);
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// What is stored, with its index, in order of the index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(at, item)| Some((at, item.as_ref()?)))
    }
}
