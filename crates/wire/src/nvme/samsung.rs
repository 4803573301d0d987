//! What Samsung's key-value command set (that of the PM983 with key-value firmware) has beside its
//! commands: status codes, limits, lists of keys and log pages.
//!
//! There is no public specification. The sources are OpenMPDK's KVSSD repository: numbers from
//! `PDK/driver/PCIe/kernel_driver/kernel_v4.14.81/linux_nvme.h`, status codes, log pages and lists
//! as `PDK/core/src/device_abstract_layer/kernel_driver_adapter` takes them.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub const KEY_BYTES_MIN: usize = 4;
pub const KEY_BYTES_MAX: usize = 255;
/// Most bytes of a key that comes within its command.
pub const KEY_INLINE_MAX: usize = 16;
/// What offsets of a Retrieve are multiples of.
pub const OFFSET_GRAIN: u32 = 512;
/// Iterators that can be open at once; their handles count from 1.
pub const ITERATORS: usize = 16;
/// Most bytes that a read of an iterator returns: its result has 16 bits for them.
pub const BATCH_BYTES_MAX: u32 = 0xfffc;

/// How commands of the set end. All are of type 3, which NVMe has given to errors of paths since:
/// the first three have the codes of states of asymmetric access.
pub mod status {
    use crate::nvme::Status;

    /// The value is too long or the buffer too small.
    pub const INVALID_VALUE_SIZE: Status = Status::new(3, 0x01);
    /// The offset lies behind the value.
    pub const INVALID_OFFSET: Status = Status::new(3, 0x02);
    /// A key cannot have this length.
    pub const INVALID_KEY_SIZE: Status = Status::new(3, 0x03);
    /// There is no such option here, or not with the others.
    pub const INVALID_OPTION: Status = Status::new(3, 0x04);
    /// There can be no such key space.
    pub const INVALID_KEY_SPACE: Status = Status::new(3, 0x05);
    /// The offset is no multiple of 512.
    pub const MISALIGNED_OFFSET: Status = Status::new(3, 0x09);
    /// The key does not lie where one can.
    pub const MISALIGNED_KEY: Status = Status::new(3, 0x0a);
    pub const KEY_DOES_NOT_EXIST: Status = Status::new(3, 0x10);
    /// The value could not be read.
    pub const UNRECOVERED: Status = Status::new(3, 0x11);
    pub const CAPACITY_EXCEEDED: Status = Status::new(3, 0x12);
    /// There is such a key, and it was to be new.
    pub const KEY_EXISTS: Status = Status::new(3, 0x80);
    /// The value would become too long.
    pub const APPENDED_TOO_LONG: Status = Status::new(3, 0x81);
    /// No iterator has this handle.
    pub const NO_SUCH_ITERATOR: Status = Status::new(3, 0x90);
    /// All iterators are open.
    pub const NO_ITERATOR_LEFT: Status = Status::new(3, 0x91);
    /// There is one with the same prefix and mask.
    pub const ITERATOR_IS_OPEN: Status = Status::new(3, 0x92);
    /// The iterator is at its end; what it had left comes along.
    pub const END_OF_ITERATION: Status = Status::new(3, 0x93);
}

/// Vendor specific log pages.
pub mod page {
    /// Write amplification, in tenths: 32 bits at byte 256.
    pub const WRITE_AMPLIFICATION: u8 = 0xca;
    /// An [`super::IteratorEntry`] for each handle.
    pub const ITERATORS: u8 = 0xd0;
}

/// Size of either log page.
pub const PAGE_BYTES: usize = 512;
/// Where the log page about write amplification has it.
pub const WRITE_AMPLIFICATION_AT: usize = 256;

/// What the log page about iterators says of one; all zero: there is none with this handle.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct IteratorEntry {
    pub handle: u8,
    /// 1: the iterator is open.
    pub is_open: u8,
    /// 1: it returns keys.
    pub kind: u8,
    /// The lowest byte of its key space.
    pub space: u8,
    /// The bits that keys begin with, as the command had them.
    pub prefix: U32,
    /// Bits of the prefix that are compared, as the command had them.
    pub mask: U32,
    /// 1: the iterator is at its end.
    pub is_at_end: u8,
    pub reserved: [u8; 3],
}

/// Bytes of a list before its keys: how many they are.
const HEADER_BYTES: usize = 4;

/// Bytes of a list that a key takes: its length, itself, and zeros up to a multiple of four bytes.
pub const fn listed_bytes(key_bytes: usize) -> usize {
    4 + key_bytes.next_multiple_of(4)
}

/// The data of a read of an iterator while they are made.
#[derive(Debug)]
pub struct KeyBatch {
    bytes: Vec<u8>,
    most: usize,
    keys: u32,
}

impl KeyBatch {
    /// An empty list in a buffer of `most` bytes; `None` if not even the number of keys fits.
    pub fn new(most: u32) -> Option<KeyBatch> {
        let most = most.min(BATCH_BYTES_MAX) as usize;
        (most >= HEADER_BYTES).then(|| KeyBatch { bytes: vec![0; HEADER_BYTES], most, keys: 0 })
    }

    /// Appends a key; `false` if it does not fit, and the list is unchanged.
    pub fn push(&mut self, key: &[u8]) -> bool {
        let end = self.bytes.len() + listed_bytes(key.len());
        if end > self.most {
            return false;
        }
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.resize(end, 0);
        self.keys += 1;
        true
    }

    pub fn keys(&self) -> u32 {
        self.keys
    }

    pub fn into_bytes(mut self) -> Vec<u8> {
        if let Some(count) = self.bytes.first_chunk_mut() {
            *count = self.keys.to_le_bytes();
        }
        self.bytes
    }
}

/// The keys of what a read of an iterator has returned; `None`: they end before their number, or a
/// key cannot have its length. Memory is taken for what the data hold, whatever number they state.
pub fn batched_keys(data: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = data.split_first_chunk::<HEADER_BYTES>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let mut keys = Vec::with_capacity(count.min(rest.len() / listed_bytes(KEY_BYTES_MIN)));
    for _ in 0..count {
        let (length, text) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&length) {
            return None;
        }
        keys.push(text.get(..length)?);
        // The padding of the last key may be missing.
        rest = rest.get(listed_bytes(length)..).unwrap_or_default();
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batches_hold_what_fits_in_order(
            keys in vec(vec(any::<u8>(), KEY_BYTES_MIN..=KEY_BYTES_MAX), 0..20),
            most in 0u32..3000,
        ) {
            let Some(mut batch) = KeyBatch::new(most) else {
                prop_assert!(most < 4);
                return Ok(());
            };
            let fitted = keys.iter().take_while(|key| batch.push(key)).count();
            prop_assert_eq!(batch.keys() as usize, fitted);
            let data = batch.into_bytes();
            prop_assert!(data.len() <= most as usize && data.len().is_multiple_of(4));
            if let Some(next) = keys.get(fitted) {
                prop_assert!(data.len() + listed_bytes(next.len()) > most as usize);
            }
            prop_assert_eq!(batched_keys(&data), Some(keys[..fitted].iter().map(|key| &key[..]).collect()));
        }

        #[test]
        fn any_batch_is_read(data in vec(any::<u8>(), 0..200)) {
            crate::fuzzing::key_batch(&data);
        }
    }

    #[test]
    fn a_batch_lies_where_openmpdk_looks_for_it() {
        let mut batch = KeyBatch::new(31).expect("there is room");
        assert!(batch.push(b"abcd") && batch.push(b"efghi"));
        assert!(!batch.push(b"jklm"), "24 of 31 bytes are used");
        assert_eq!(batch.into_bytes(), b"\x02\0\0\0\x04\0\0\0abcd\x05\0\0\0efghi\0\0\0");
        assert_eq!(size_of::<IteratorEntry>(), 16);
    }
}
