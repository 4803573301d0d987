//! Iterators over the keys of a key space that begin alike, and filters of them.

use crate::abi::{GroupFilter, ITERATORS_MAX};
use crate::code::Code;
use crate::device::Device;
use std::sync::{Arc, Mutex};

/// Which keys are meant, by their first four bytes. Bytes that a key has not got are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    mask: u32,
    pattern: u32,
}

impl Filter {
    /// Matches all keys.
    pub(crate) const ALL: Filter = Filter { mask: 0, pattern: 0 };

    pub(crate) fn of(filter: &GroupFilter) -> Filter {
        let mask = u32::from_be_bytes(filter.mask);
        // Bits of the pattern that the mask does not name say nothing, as with OpenMPDK.
        Filter { mask, pattern: u32::from_be_bytes(filter.pattern) & mask }
    }

    /// Whether the ones of the mask come first, so that the keys lie next to one another.
    pub(crate) fn is_prefix(&self) -> bool {
        self.mask.leading_ones() + self.mask.trailing_zeros() >= 32
    }

    fn matches(&self, key: &[u8]) -> bool {
        let mut first = [0; 4];
        let bytes = key.len().min(4);
        first[..bytes].copy_from_slice(&key[..bytes]);
        u32::from_be_bytes(first) & self.mask == self.pattern
    }

    /// The bytes that all of them begin with.
    fn prefix(&self) -> Vec<u8> {
        let bytes = self.mask.leading_ones() / 8;
        self.pattern.to_be_bytes()[..bytes as usize].to_vec()
    }

    /// Calls `what` with each key that matches.
    ///
    /// # Errors
    /// Those of `what`, and of the device.
    pub(crate) fn each(
        &self,
        device: &Device,
        space: u8,
        mut what: impl FnMut(&[u8]) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let mut walk = Walk::new(device, *self, false);
        walk.go(device, space, |key| what(key).map(|()| true))
    }
}

/// A scan over the keys that match a filter, page by page.
#[derive(Debug)]
struct Walk {
    filter: Filter,
    descending: bool,
    /// Where the next page starts; `None`: where keys begin.
    start: Option<Box<[u8]>>,
    /// The first key and the last that were seen.
    first: Option<Box<[u8]>>,
    last: Option<Box<[u8]>>,
    ended: bool,
}

impl Walk {
    fn new(device: &Device, filter: Filter, descending: bool) -> Walk {
        let prefix = filter.prefix();
        let skips = device.facts().in_order && !descending && !prefix.is_empty();
        let start = skips.then(|| prefix.into());
        Walk { filter, descending, start, first: None, last: None, ended: false }
    }

    /// Calls `what` with each key for as long as it returns true. A key for which it returned false
    /// comes again in the next call.
    fn go(
        &mut self,
        device: &Device,
        space: u8,
        mut what: impl FnMut(&[u8]) -> Result<bool, Code>,
    ) -> Result<(), Code> {
        let in_order = device.facts().in_order;
        let prefix = self.filter.prefix();
        while !self.ended {
            let page = device.page(space, self.start.as_deref(), self.descending)?;
            for key in page.keys {
                if self.last.as_ref() == Some(&key) {
                    continue;
                }
                // A drive that comes back to its first key has no others.
                let is_behind = in_order && !key.starts_with(&prefix);
                let is_behind = is_behind && (key[..] > prefix[..]) != self.descending;
                if self.first.as_ref() == Some(&key) || is_behind {
                    self.ended = true;
                    return Ok(());
                }
                if self.filter.matches(&key) {
                    let shown = what(&key);
                    if !matches!(shown, Ok(true)) {
                        self.start = Some(key);
                        return shown.map(drop);
                    }
                }
                if !in_order && self.first.is_none() {
                    self.first = Some(key.clone());
                }
                self.last = Some(key);
            }
            self.ended = page.next.is_none();
            self.start = page.next;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Iterator {
    space: u8,
    with_values: bool,
    walk: Walk,
}

/// What an iterator has put into a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) entries: u32,
    pub(crate) bytes: u32,
    pub(crate) end: bool,
}

impl Iterator {
    /// Puts the next entries into a buffer: lengths and keys, and lengths and values if these are wanted.
    ///
    /// # Errors
    /// If there is no room for a single one, or the device fails.
    pub(crate) fn fill(&mut self, device: &Device, into: &mut [u8]) -> Result<Filled, Code> {
        let Iterator { space, with_values, walk } = self;
        let mut filled = Filled::default();
        let mut at = 0;
        let mut too_small = false;
        walk.go(device, *space, |key| {
            let Some(rest) = into.get_mut(at..) else { return Ok(false) };
            match entry(device, *space, key, *with_values, rest)? {
                Entry::Bytes(bytes) => {
                    at += bytes;
                    filled.entries += 1;
                    Ok(true)
                }
                Entry::Gone => Ok(true),
                Entry::NoRoom => {
                    too_small = filled.entries == 0;
                    Ok(false)
                }
            }
        })?;
        if too_small {
            return Err(Code::BufferSmall);
        }
        filled.bytes = at as u32;
        filled.end = walk.ended;
        Ok(filled)
    }
}

enum Entry {
    Bytes(usize),
    NoRoom,
    /// Its pair has been deleted since it was listed.
    Gone,
}

fn entry(
    device: &Device,
    space: u8,
    key: &[u8],
    with_value: bool,
    into: &mut [u8],
) -> Result<Entry, Code> {
    let head = 4 + key.len();
    let Some(rest) = into.get_mut(..head) else { return Ok(Entry::NoRoom) };
    rest[..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
    rest[4..].copy_from_slice(key);
    if !with_value {
        return Ok(Entry::Bytes(head));
    }
    let Some(rest) = into.get_mut(head + 4..) else { return Ok(Entry::NoRoom) };
    let found = match device.retrieve(space, key, 0, rest, false) {
        Ok(found) => found,
        Err(Code::KeyNotExist) => return Ok(Entry::Gone),
        Err(code) => return Err(code),
    };
    if found.copied < found.size {
        return Ok(Entry::NoRoom);
    }
    into[head..head + 4].copy_from_slice(&found.size.to_ne_bytes());
    Ok(Entry::Bytes(head + 4 + found.size as usize))
}

/// The iterators of a device, by handle from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Iterators {
    open: [Option<Open>; ITERATORS_MAX],
}

#[derive(Debug)]
struct Open {
    space: u8,
    filter: Filter,
    iterator: Arc<Mutex<Iterator>>,
}

impl Iterators {
    /// Opens an iterator.
    ///
    /// # Errors
    /// If there is such a one already, or there are too many.
    pub(crate) fn open(
        &mut self,
        device: &Device,
        space: u8,
        filter: Filter,
        with_values: bool,
        descending: bool,
    ) -> Result<u8, Code> {
        let is_it = |it: &Open| it.space == space && it.filter == filter;
        if self.open.iter().flatten().any(is_it) {
            return Err(Code::IteratorOpen);
        }
        let free = self.open.iter().position(Option::is_none).ok_or(Code::IteratorMax)?;
        let walk = Walk::new(device, filter, descending);
        let iterator = Arc::new(Mutex::new(Iterator { space, with_values, walk }));
        self.open[free] = Some(Open { space, filter, iterator });
        Ok(free as u8 + 1)
    }

    fn at(&mut self, space: u8, handle: u8) -> Result<&mut Option<Open>, Code> {
        let at = usize::from(handle).checked_sub(1);
        let slot = at.and_then(|at| self.open.get_mut(at));
        slot.filter(|it| it.as_ref().is_some_and(|it| it.space == space))
            .ok_or(Code::IteratorNotExist)
    }

    /// The iterator with this handle.
    ///
    /// # Errors
    /// If the key space has none.
    pub(crate) fn get(&mut self, space: u8, handle: u8) -> Result<Arc<Mutex<Iterator>>, Code> {
        let slot = self.at(space, handle)?;
        slot.as_ref().map(|it| Arc::clone(&it.iterator)).ok_or(Code::IteratorNotExist)
    }

    /// Closes an iterator.
    ///
    /// # Errors
    /// If the key space has none.
    pub(crate) fn close(&mut self, space: u8, handle: u8) -> Result<(), Code> {
        *self.at(space, handle)? = None;
        Ok(())
    }

    /// Closes the iterators of a key space.
    pub(crate) fn forget(&mut self, space: u8) {
        for slot in &mut self.open {
            if slot.as_ref().is_some_and(|it| it.space == space) {
                *slot = None;
            }
        }
    }
}
