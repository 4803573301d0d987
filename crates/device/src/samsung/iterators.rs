//! Iterators: up to sixteen that are open, each on its way through the keys of a space that begin as
//! it says.
//!
//! An iterator goes through keys in order, up to the last that there was when it was opened: so it
//! ends, whatever is stored meanwhile, and where nothing changes it returns every key once.

use super::name::SpaceName;
use crate::key_value::Keys;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::samsung::{ITERATORS, IteratorEntry, KeyBatch, status};
use std::ops::Bound;

/// Groups of keys that one read leaves out, at most: those behind them wait for the next.
const SKIPS_MAX: u32 = 16_384;

/// Which keys an iterator returns: those whose first four bytes, as a number whose first byte is the
/// highest, are `prefix` where `mask` has bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) space: u32,
    pub(super) prefix: u32,
    pub(super) mask: u32,
}

impl Filter {
    fn takes(&self, group: u32) -> bool {
        group & self.mask == self.prefix
    }

    /// The first group behind one, itself included, that it takes.
    fn next_from(&self, group: u32) -> Option<u32> {
        if self.prefix & !self.mask != 0 {
            return None;
        }
        let wrong = (group & self.mask) ^ self.prefix;
        let Some(highest) = wrong.checked_ilog2() else { return Some(group) };
        // Bits above a place.
        let above = |bit: u32| u32::MAX.checked_shl(bit + 1).unwrap_or(0);
        let kept = |from: u32| group & !self.mask & above(from) | self.prefix;
        if self.prefix >> highest & 1 == 1 {
            return Some(kept(highest));
        }
        // The lowest bit above it that is free and not set yet.
        let settable = !self.mask & !group & above(highest);
        let bit = (settable != 0).then(|| settable.trailing_zeros())?;
        Some(kept(bit) | 1 << bit)
    }
}

#[derive(Clone, Debug)]
struct OpenIterator {
    filter: Filter,
    /// The key at which it continues; behind it with `is_behind`.
    from: SpaceName,
    is_behind: bool,
    /// The last key that it returns.
    until: SpaceName,
    is_at_end: bool,
}

/// All iterators, by handle less one.
#[derive(Debug, Default)]
pub(super) struct Iterators([Option<Box<OpenIterator>>; ITERATORS]);

impl Iterators {
    /// Opens an iterator; returns its handle.
    pub(super) fn open(
        &mut self,
        filter: Filter,
        keys: &mut Keys<SpaceName>,
    ) -> Result<u8, Status> {
        if self.0.iter().flatten().any(|it| it.filter == filter) {
            return Err(status::ITERATOR_IS_OPEN);
        }
        let free = self.0.iter().position(Option::is_none).ok_or(status::NO_ITERATOR_LEFT)?;
        let from = SpaceName::first_of(filter.space, filter.prefix);
        let end = SpaceName::last_of(filter.space, filter.prefix | !filter.mask);
        let last = keys.between(Bound::Included(&from), Bound::Included(&end)).next_back();
        let is_at_end = last.is_none() || filter.prefix & !filter.mask != 0;
        let until = last.unwrap_or(&from).clone();
        self.0[free] =
            Some(Box::new(OpenIterator { filter, from, is_behind: false, until, is_at_end }));
        Ok(free as u8 + 1)
    }

    pub(super) fn close(&mut self, handle: u8) -> Result<(), Status> {
        let place = self.0.get_mut(usize::from(handle).wrapping_sub(1));
        place.and_then(Option::take).map(|_| ()).ok_or(status::NO_SUCH_ITERATOR)
    }

    pub(super) fn close_all(&mut self) {
        self.0 = Default::default();
    }

    /// The next keys of one, as many as a buffer of so many bytes holds; whether it is at its end.
    pub(super) fn read(
        &mut self,
        handle: u8,
        bytes: u32,
        keys: &mut Keys<SpaceName>,
    ) -> Result<(Vec<u8>, bool), Status> {
        let place = self.0.get_mut(usize::from(handle).wrapping_sub(1));
        let iterator = place.and_then(Option::as_mut).ok_or(status::NO_SUCH_ITERATOR)?;
        let mut batch = KeyBatch::new(bytes).ok_or(status::INVALID_VALUE_SIZE)?;
        if !iterator.go_on(&mut batch, keys) && batch.keys() == 0 {
            // It would never get on.
            return Err(status::INVALID_VALUE_SIZE);
        }
        Ok((batch.into_bytes(), iterator.is_at_end))
    }

    /// The entries of the log page of iterators.
    pub(super) fn entries(&self) -> [IteratorEntry; ITERATORS] {
        let mut entries = [IteratorEntry::default(); ITERATORS];
        for ((handle, iterator), entry) in (1..).zip(&self.0).zip(&mut entries) {
            let Some(iterator) = iterator else { continue };
            let Filter { space, prefix, mask } = iterator.filter;
            let is_at_end = u8::from(iterator.is_at_end);
            let (is_open, kind) = (1, 1);
            *entry = IteratorEntry { handle, is_open, kind, is_at_end, ..Default::default() };
            entry.space = space as u8;
            // In memory as the command had them.
            entry.prefix.set(prefix.swap_bytes());
            entry.mask.set(mask.swap_bytes());
        }
        entries
    }
}

impl OpenIterator {
    /// Takes keys as far as they fit. `false`: the next does not.
    fn go_on(&mut self, batch: &mut KeyBatch, keys: &mut Keys<SpaceName>) -> bool {
        let mut skips = 0;
        while !self.is_at_end && skips < SKIPS_MAX {
            if self.from > self.until {
                self.is_at_end = true;
                break;
            }
            let from = match self.is_behind {
                true => Bound::Excluded(&self.from),
                false => Bound::Included(&self.from),
            };
            let mut rest = keys.between(from, Bound::Included(&self.until));
            let (mut last, mut other) = (None, None);
            let mut fits = true;
            for name in rest.by_ref() {
                if !self.filter.takes(name.group()) {
                    other = Some(name.group());
                    break;
                }
                fits = batch.push(name.key());
                if !fits {
                    break;
                }
                last = Some(name.clone());
            }
            self.is_behind |= last.is_some();
            self.from = last.unwrap_or_else(|| self.from.clone());
            if !fits {
                return false;
            }
            // Others come between: where the next group is, if there is one.
            match other.and_then(|group| self.filter.next_from(group)) {
                Some(group) => {
                    self.from = SpaceName::first_of(self.filter.space, group);
                    self.is_behind = false;
                }
                None => self.is_at_end = true,
            }
            skips += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Place;
    use mynah_wire::nvme::samsung::batched_keys;
    use proptest::array::uniform4;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_group_is_the_first_that_is_taken(
            group in any::<u16>(), prefix in any::<u16>(), mask in any::<u16>(), shift in 0u32..=16,
        ) {
            // All 16 bits that vary can be tried.
            let wide = |it: u16| u32::from(it) << shift;
            let outside = !wide(u16::MAX);
            let filter = Filter { space: 0, prefix: wide(prefix), mask: wide(mask) | outside };
            let first = (group..=u16::MAX).map(wide).find(|&it| filter.takes(it));
            prop_assert_eq!(filter.next_from(wide(group)), first);
        }

        #[test]
        fn an_iterator_returns_what_its_filter_takes_and_ends(
            all in proptest::collection::btree_set(
                (0u32..3, proptest::collection::vec(0u8..4, 4..9)), 0..200,
            ),
            space in 0u32..3,
            prefix in uniform4(0u8..4),
            mask in uniform4(prop_oneof![Just(0xff), Just(0), 0u8..4]),
            // A key of 8 bytes with its length, and how many there are.
            bytes in 16u32..80,
        ) {
            let mut keys = Keys::new();
            for (space, key) in &all {
                keys.insert(SpaceName::new(*space, key), Place(0), 0).expect("there is room");
            }
            let (prefix, mask) = (u32::from_be_bytes(prefix), u32::from_be_bytes(mask));
            let filter = Filter { space, prefix, mask };
            let expected: Vec<&Vec<u8>> = all
                .iter()
                .filter(|(its, key)| *its == space && filter.takes(SpaceName::new(0, key).group()))
                .map(|(_, key)| key)
                .collect();
            let mut iterators = Iterators::default();
            prop_assert_eq!(iterators.open(filter, &mut keys), Ok(1));
            let mut found = vec![];
            for _ in 0..=all.len() {
                let (data, is_at_end) = iterators.read(1, bytes, &mut keys).expect("a key fits");
                prop_assert!(data.len() <= bytes as usize);
                let keys = batched_keys(&data).expect("a batch");
                found.extend(keys.into_iter().map(<[u8]>::to_vec));
                if is_at_end {
                    break;
                }
            }
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            let (data, is_at_end) = iterators.read(1, bytes, &mut keys).expect("open");
            prop_assert_eq!((data, is_at_end), (vec![0; 4], true));
        }
    }

    #[test]
    fn it_ends_whatever_is_stored_meanwhile() {
        let mut keys = Keys::new();
        let insert = |keys: &mut Keys<_>, key: &[u8]| {
            keys.insert(SpaceName::new(0, key), Place(0), 0).expect("there is room");
        };
        insert(&mut keys, b"aaaa");
        let mut iterators = Iterators::default();
        let filter = Filter { space: 0, prefix: 0, mask: 0 };
        assert_eq!(iterators.open(filter, &mut keys), Ok(1));
        assert_eq!(iterators.open(filter, &mut keys), Err(status::ITERATOR_IS_OPEN));
        insert(&mut keys, b"zzzz");
        let (data, is_at_end) = iterators.read(1, 100, &mut keys).expect("open");
        assert_eq!((batched_keys(&data), is_at_end), (Some(vec![&b"aaaa"[..]]), true));
    }

    #[test]
    fn a_buffer_that_takes_no_key_is_refused() {
        let mut keys = Keys::new();
        keys.insert(SpaceName::new(7, b"abcde"), Place(0), 0).expect("there is room");
        let mut iterators = Iterators::default();
        let filter = Filter { space: 7, prefix: 0, mask: 0 };
        assert_eq!(iterators.open(filter, &mut keys), Ok(1));
        for bytes in [0, 3, 4, 12] {
            assert_eq!(iterators.read(1, bytes, &mut keys), Err(status::INVALID_VALUE_SIZE));
        }
        assert!(iterators.read(1, 16, &mut keys).is_ok_and(|(data, end)| data.len() == 16 && end));
        for handle in [0, 2, 16, 17, 255] {
            assert_eq!(iterators.read(handle, 16, &mut keys), Err(status::NO_SUCH_ITERATOR));
            assert_eq!(iterators.close(handle), Err(status::NO_SUCH_ITERATOR));
        }
        assert_eq!(iterators.close(1), Ok(()));
    }
}
