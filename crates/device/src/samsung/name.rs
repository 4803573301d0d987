//! What pairs in key spaces are told apart by.

use crate::key_value::Name;
use mynah_wire::nvme::samsung::KEY_BYTES_MAX;

/// Bytes of the key space, in front of the key.
const SPACE_BYTES: usize = 4;
/// Bytes of a key that iterators look at.
const GROUP_BYTES: usize = 4;

/// A key space and a key: in order of these, so that the keys of a space lie together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpaceName(Box<[u8]>);

impl SpaceName {
    pub(crate) fn new(space: u32, key: &[u8]) -> SpaceName {
        SpaceName([&space.to_be_bytes(), key].concat().into())
    }

    /// Before all keys of a space that begin with these four bytes, as a number whose first byte is
    /// the highest.
    pub(crate) fn first_of(space: u32, group: u32) -> SpaceName {
        SpaceName::new(space, &group.to_be_bytes())
    }

    /// The last key that can be of such a group.
    pub(crate) fn last_of(space: u32, group: u32) -> SpaceName {
        let mut key = [0xff; KEY_BYTES_MAX];
        key[..GROUP_BYTES].copy_from_slice(&group.to_be_bytes());
        SpaceName::new(space, &key)
    }

    /// Space and key, one behind the other.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.0.get(SPACE_BYTES..).unwrap_or_default()
    }

    /// The first four bytes of the key.
    pub(crate) fn group(&self) -> u32 {
        self.key().first_chunk().map_or(0, |group| u32::from_be_bytes(*group))
    }
}

impl Name for SpaceName {
    fn none() -> SpaceName {
        SpaceName(Box::default())
    }

    #[inline]
    fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    fn key_bytes(&self) -> usize {
        self.key().len()
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }
}
