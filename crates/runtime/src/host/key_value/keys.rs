//! All keys of a namespace, or those that begin alike, a page at a time.

use super::{Client, LIST_BYTES, Request};
use crate::host::HostError;
use mynah_wire::nvme::key::{Key, listed_keys};

/// Keys that are still to be listed.
#[derive(Debug)]
pub struct Keys {
    prefix: Key,
    /// Where the next page starts: its first key has been seen if this is the last one of a page.
    start: Key,
    /// The first key of all. A drive that comes back to it has no others.
    first: Option<Key>,
    ended: bool,
}

impl Keys {
    /// All keys that begin with `prefix`.
    pub fn new(client: &Client, prefix: Key) -> Keys {
        let start = if client.lists_in_order() { prefix } else { Key::EMPTY };
        Keys { prefix, start, first: None, ended: false }
    }

    /// What is to be asked next; `None`: there are no more.
    pub fn request(&self, client: &Client) -> Option<Request> {
        let bytes = LIST_BYTES.min(client.bytes_max);
        (!self.ended).then_some(Request::List { start: self.start, bytes })
    }

    /// The keys of an answer to it.
    ///
    /// # Errors
    /// If the answer makes no sense.
    pub fn answered(&mut self, client: &Client, data: &[u8]) -> Result<Vec<Key>, HostError> {
        let keys = listed_keys(data).map_err(|error| HostError::Nonsense(error.to_string()))?;
        self.take(keys, client.lists_in_order())
    }

    fn take(&mut self, mut keys: Vec<Key>, in_order: bool) -> Result<Vec<Key>, HostError> {
        // A page starts with the last key of the one before, if nobody has deleted it.
        if self.first.is_some() && keys.first() == Some(&self.start) {
            keys.remove(0);
        }
        if let Some(first) = self.first
            && let Some(again) = keys.iter().position(|&key| key == first)
        {
            keys.truncate(again);
            self.ended = true;
        }
        let Some(&last) = keys.last() else {
            self.ended = true;
            return Ok(keys);
        };
        if in_order && (last <= self.start && self.first.is_some() || !keys.is_sorted()) {
            return Err(HostError::Nonsense(format!(
                "keys after `{}` are out of order",
                self.start
            )));
        }
        self.first = self.first.or(keys.first().copied());
        self.start = last;
        let prefix = self.prefix.as_slice();
        self.ended |= in_order && !last.as_slice().starts_with(prefix);
        keys.retain(|key| key.as_slice().starts_with(prefix));
        Ok(keys)
    }

    /// The next page, which may have no keys of those that are wanted; `None`: there are no more.
    ///
    /// # Errors
    /// If the target does not say.
    pub fn next_page(&mut self, client: &mut Client) -> Result<Option<Vec<Key>>, HostError> {
        let Some(request) = self.request(client) else { return Ok(None) };
        let done = client.perform(request)?.succeeded()?;
        self.answered(client, &done.data).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    fn key(text: &[u8]) -> Key {
        Key::new(text).expect("it is short")
    }

    /// Lists `all`, in the order that a drive has them in, with pages of so many keys.
    fn listed(all: &[Key], prefix: Key, in_order: bool, wraps: bool, page: usize) -> Vec<Key> {
        let start = if in_order { prefix } else { Key::EMPTY };
        let mut keys = Keys { prefix, start, first: None, ended: false };
        let mut found = Vec::new();
        for _ in 0..=all.len() + 2 {
            if keys.ended {
                return found;
            }
            let from = match (keys.start.is_empty(), in_order) {
                (true, _) => 0,
                (_, true) => all.partition_point(|&key| key < keys.start),
                _ => all.iter().position(|&key| key == keys.start).expect("it was listed"),
            };
            let rest = all[from..].iter().chain(if wraps { &all[..from] } else { &[] });
            let answer = rest.take(page).copied().collect();
            found.extend(keys.take(answer, in_order).expect("it makes sense"));
        }
        panic!("it does not end")
    }

    proptest! {
        /// Whatever the drive's order, and whether or not it begins anew at its end (as FEMU does).
        #[test]
        fn every_key_is_listed_once(
            all in btree_set(proptest::collection::vec(0u8..3, 1..5), 0..40),
            prefix in proptest::collection::vec(0u8..3, 0..3),
            in_order in any::<bool>(),
            wraps in any::<bool>(),
            page in 2usize..9,
        ) {
            let mut all: Vec<Key> = all.iter().map(|text| key(text)).collect();
            let expected: Vec<Key> =
                all.iter().copied().filter(|key| key.as_slice().starts_with(&prefix)).collect();
            if !in_order {
                all.reverse();
            }
            let mut found = listed(&all, key(&prefix), in_order, wraps && !in_order, page);
            if !in_order {
                found.reverse();
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_last_key_that_was_deleted_meanwhile_does_no_harm() {
        let mut keys = Keys { prefix: Key::EMPTY, start: Key::EMPTY, first: None, ended: false };
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| key(text));
        assert_eq!(keys.take(vec![a, b], true).unwrap(), [a, b]);
        assert_eq!(keys.take(vec![c], true).unwrap(), [c]);
        assert!(keys.take(vec![a, b], true).unwrap().is_empty() && keys.ended);
    }
}
