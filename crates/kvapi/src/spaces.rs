//! Key spaces, and the records in which a device keeps them.
//!
//! The records are OpenMPDK's (its library 1.6.0), so that what was learned about one device holds for
//! the other: in key space 0, under `key_space_list` and a zero byte, the number of key spaces, and of
//! each its number and its name in 256 bytes; and for each a record of 27 bytes under its name, whose
//! last byte is replaced by zero. Names that would share such a key have theirs under the whole name.
//!
//! A served namespace has one set of keys of at most 16 bytes. There the list is a pair among the
//! others, which no call returns, and the record of a key space stands behind it.

use crate::code::Code;

/// The key of the list.
pub(crate) const LIST_KEY: &[u8] = b"key_space_list\0";
/// The key space that holds the records.
pub(crate) const RECORDS: u8 = 0;

const NAME_BYTES: usize = 256;
const ENTRY_BYTES: usize = 1 + NAME_BYTES;
const METADATA_BYTES: usize = 27;
/// Most bytes of a list with what stands behind it.
pub(crate) const LIST_BYTES_MAX: usize = 1 + 255 * (ENTRY_BYTES + METADATA_BYTES);

/// In which order iterators return keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    None,
    Ascending,
    Descending,
}

impl Order {
    pub(crate) fn of(number: u32) -> Option<Order> {
        [Order::None, Order::Ascending, Order::Descending].get(number as usize).copied()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) id: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) metadata: Metadata,
}

/// The record of a key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) opened: bool,
    pub(crate) order: Order,
    /// In bytes; 0: no limit.
    pub(crate) capacity: u64,
    pub(crate) free: u64,
    pub(crate) count: u64,
}

impl Metadata {
    pub(crate) fn new(order: Order, capacity: u64) -> Metadata {
        Metadata { opened: false, order, capacity, free: 0, count: 0 }
    }
}

/// The record of a key space, as bytes.
pub(crate) fn metadata_bytes(space: &Space) -> [u8; METADATA_BYTES] {
    let mut bytes = [0; METADATA_BYTES];
    let it = &space.metadata;
    bytes[..3].copy_from_slice(&[space.id, it.opened.into(), it.order as u8]);
    for (number, into) in [it.capacity, it.free, it.count].iter().zip(bytes[3..].chunks_mut(8)) {
        into.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The key space's number and what its record says, of bytes that somebody may have written.
///
/// # Errors
/// If they are no record.
pub(crate) fn read_metadata(bytes: &[u8]) -> Result<(u8, Metadata), Code> {
    let bytes = bytes.get(..METADATA_BYTES).ok_or(Code::SysIo)?;
    let (numbers, _) = bytes[3..].as_chunks::<8>();
    let number = |at: usize| u64::from_le_bytes(numbers[at]);
    let metadata = Metadata {
        opened: bytes[1] != 0,
        order: Order::of(bytes[2].into()).ok_or(Code::SysIo)?,
        capacity: number(0),
        free: number(1),
        count: number(2),
    };
    Ok((bytes[0], metadata))
}

/// The list as bytes, with the records behind it if they have no keys of their own.
pub(crate) fn list_bytes(spaces: &[Space], with_metadata: bool) -> Vec<u8> {
    let mut bytes = vec![spaces.len() as u8];
    for space in spaces {
        bytes.push(space.id);
        let begin = bytes.len();
        bytes.extend_from_slice(&space.name);
        bytes.resize(begin + NAME_BYTES, 0);
    }
    if with_metadata {
        bytes.extend(spaces.iter().flat_map(metadata_bytes));
    }
    bytes
}

/// The key spaces of a list.
///
/// # Errors
/// If it is none.
pub(crate) fn read_list(bytes: &[u8], with_metadata: bool) -> Result<Vec<Space>, Code> {
    let Some((&count, rest)) = bytes.split_first() else { return Ok(Vec::new()) };
    let count = usize::from(count);
    let (entries, mut records) = rest.split_at_checked(count * ENTRY_BYTES).ok_or(Code::SysIo)?;
    let mut spaces: Vec<Space> = Vec::with_capacity(count);
    for entry in entries.chunks(ENTRY_BYTES) {
        let name: Vec<u8> = entry[1..].iter().copied().take_while(|&byte| byte != 0).collect();
        let id = entry[0];
        let repeats = spaces.iter().any(|it| it.id == id || it.name == name);
        if id == RECORDS || name.is_empty() || repeats {
            return Err(Code::SysIo);
        }
        let mut metadata = Metadata::new(Order::None, 0);
        if with_metadata {
            let (record, others) = records.split_at_checked(METADATA_BYTES).ok_or(Code::SysIo)?;
            metadata = read_metadata(record)?.1;
            records = others;
        }
        spaces.push(Space { id, name, metadata });
    }
    Ok(spaces)
}

/// The keys under which the record of a key space may be, the one to be preferred first.
pub(crate) fn metadata_keys(name: &[u8]) -> [Vec<u8>; 2] {
    let mut cut = name.to_vec();
    if let Some(last) = cut.last_mut() {
        *last = 0;
    }
    [cut, name.to_vec()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space(id: u8, name: &str, capacity: u64) -> Space {
        let metadata = Metadata { opened: id != 1, ..Metadata::new(Order::None, capacity) };
        Space { id, name: name.into(), metadata }
    }

    #[test]
    fn records_are_laid_out_as_those_of_openmpdk() {
        let bytes = list_bytes(&[space(1, "test", 7)], false);
        assert_eq!((bytes.len(), &bytes[..7]), (258, &b"\x01\x01test\0"[..]));
        let metadata = metadata_bytes(&space(2, "test", 0x0102));
        assert_eq!(&metadata[..5], &[2, 1, 0, 2, 1]);
        assert_eq!(metadata[5..], [0; 22]);
        assert_eq!(metadata_keys(b"abc"), [b"ab\0".to_vec(), b"abc".to_vec()]);
        assert_eq!(LIST_KEY.len(), 15);
    }

    #[test]
    fn lists_come_back() {
        let spaces = [space(1, "a", 0), space(4, &"b".repeat(255), 9), space(2, "c", u64::MAX)];
        assert_eq!(read_list(&list_bytes(&spaces, true), true).unwrap(), spaces);
        assert!(read_list(&list_bytes(&spaces, false), true).is_err());
        assert!(read_list(&[], true).unwrap().is_empty());
        assert!(
            read_list(&list_bytes(&[space(1, "a", 0), space(1, "b", 0)], false), false).is_err()
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_none(
            bytes in proptest::collection::vec(any::<u8>(), 0..900), with in any::<bool>(),
        ) {
            let _ = read_list(&bytes, with);
            let _ = read_metadata(&bytes);
        }
    }
}
