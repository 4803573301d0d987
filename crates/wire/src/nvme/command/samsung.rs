//! I/O commands of Samsung's key-value command set. Sources: see [`crate::nvme::samsung`]; the
//! layout of entries is that of `nvme_kv_store_command` and its neighbours in OpenMPDK's
//! `linux_nvme.h`.
//!
//! The namespace identifier of an entry names a key space, and is not looked at here. Hints about
//! compression are taken and have no meaning.

use super::bits;
use super::key_value::StoreCondition;
use crate::nvme::opcode::samsung as opcode;
use crate::nvme::samsung::{KEY_BYTES_MAX, KEY_BYTES_MIN, KEY_INLINE_MAX, OFFSET_GRAIN, status};
use crate::nvme::{Status, SubmissionEntry};

/// Options of a Store (`nvme_kv_store_option`): two hints about compression, and when it stores.
mod store {
    pub(super) const COMPRESS: u32 = 1;
    pub(super) const IF_ABSENT: u32 = 2;
    pub(super) const COMPRESS_LATER: u32 = 4;
    pub(super) const IF_EXISTS: u32 = 8;
}

/// Options of a Retrieve (`nvme_kv_retrieve_option`).
mod retrieve {
    pub(super) const DECOMPRESS: u32 = 1;
    pub(super) const ONLY_SIZE: u32 = 2;
}

/// Option of a Delete (`nvme_kv_delete_option`).
const MUST_EXIST: u32 = 1;

/// Options of a request about iterators (`nvme_kv_iter_req_option`).
mod iterate {
    pub(super) const OPEN: u32 = 1;
    pub(super) const CLOSE: u32 = 2;
    pub(super) const KEYS: u32 = 4;
}

/// An I/O command of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamsungCommand {
    Store {
        key: SamsungKey,
        /// Bytes of the value.
        bytes: u32,
        condition: StoreCondition,
    },
    /// Appends bytes to a value, or stores them if there is none.
    Append {
        key: SamsungKey,
        /// Bytes to append.
        bytes: u32,
    },
    /// Returns a value from a byte on. Its result is the size of the whole value, of which only what
    /// fits is moved.
    Retrieve {
        key: SamsungKey,
        /// Bytes of the host's buffer.
        bytes: u32,
        /// Offset of the first byte in the value.
        offset: u32,
        /// Only the size of the value is asked for.
        only_size: bool,
    },
    /// Removes a key and its value.
    Delete {
        key: SamsungKey,
        /// It is an error if there is no such key.
        must_exist: bool,
    },
    /// Says whether there is a key.
    Exist {
        key: SamsungKey,
    },
    /// Opens an iterator over keys; its result is the handle.
    OpenIterator {
        /// The bits that keys begin with, in order of their bytes.
        prefix: [u8; 4],
        /// Bits of the prefix that are compared.
        mask: [u8; 4],
    },
    CloseIterator {
        handle: u8,
    },
    /// Returns the next keys, as a [`crate::nvme::samsung::KeyBatch`]; its result is their bytes.
    ReadIterator {
        handle: u8,
        /// Bytes of the host's buffer.
        bytes: u32,
    },
}

/// Where the key of a command is: in dwords 12 to 15, or where these say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamsungKey {
    field: [u8; KEY_INLINE_MAX],
    length: u8,
}

impl SamsungKey {
    /// A key of up to 16 bytes, which goes within its command; `None`: it is shorter or longer.
    pub fn inline(key: &[u8]) -> Option<SamsungKey> {
        let mut field = [0; KEY_INLINE_MAX];
        field.get_mut(..key.len())?.copy_from_slice(key);
        (key.len() >= KEY_BYTES_MIN).then_some(SamsungKey { field, length: key.len() as u8 })
    }

    /// A key of more bytes, which lie at `first` and, from the next page on, at `second`; `None`: a
    /// key of so many lies elsewhere.
    pub fn at(first: u64, second: u64, length: usize) -> Option<SamsungKey> {
        if !(KEY_INLINE_MAX + 1..=KEY_BYTES_MAX).contains(&length) {
            return None;
        }
        let mut field = [0; KEY_INLINE_MAX];
        field[..8].copy_from_slice(&first.to_le_bytes());
        field[8..].copy_from_slice(&second.to_le_bytes());
        Some(SamsungKey { field, length: length as u8 })
    }

    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length.into()
    }

    /// Its bytes; `None` if the key lies in host memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.field.get(..self.len())
    }

    /// The PRP entries of a key that lies in host memory.
    pub fn pointers(&self) -> (u64, u64) {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.field;
        (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes(rest))
    }

    fn parse(entry: &SubmissionEntry) -> Result<SamsungKey, Status> {
        let length = bits(entry.dword11.get(), 0, 8) as usize + 1;
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&length) {
            return Err(status::INVALID_KEY_SIZE);
        }
        let dwords = [entry.dword12, entry.dword13, entry.dword14, entry.dword15];
        let mut field = [0; KEY_INLINE_MAX];
        for (four, dword) in field.chunks_exact_mut(4).zip(dwords) {
            four.copy_from_slice(&dword.get().to_le_bytes());
        }
        // What lies behind a key is not looked at.
        if let Some(behind) = field.get_mut(length..) {
            behind.fill(0);
        }
        Ok(SamsungKey { field, length: length as u8 })
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        let (first, second) = self.pointers();
        entry.dword12.set(first as u32);
        entry.dword13.set((first >> 32) as u32);
        entry.dword14.set(second as u32);
        entry.dword15.set((second >> 32) as u32);
        entry.dword11.set(u32::from(self.length) - 1);
    }
}

impl SamsungCommand {
    /// Parses an entry of an I/O queue on which this command set is in use.
    ///
    /// # Errors
    /// The status with which the command has to be completed.
    pub fn parse(entry: &SubmissionEntry) -> Result<SamsungCommand, Status> {
        use SamsungCommand as C;
        let options = bits(entry.dword11.get(), 8, 8);
        let only = |known: u32| match options & !known {
            0 => Ok(()),
            _ => Err(status::INVALID_OPTION),
        };
        Ok(match entry.opcode {
            opcode::STORE => {
                let key = SamsungKey::parse(entry)?;
                only(
                    store::COMPRESS | store::IF_ABSENT | store::COMPRESS_LATER | store::IF_EXISTS,
                )?;
                let condition = match (options & store::IF_ABSENT, options & store::IF_EXISTS) {
                    (0, 0) => StoreCondition::Always,
                    (_, 0) => StoreCondition::IfAbsent,
                    (0, _) => StoreCondition::IfExists,
                    _ => return Err(status::INVALID_OPTION),
                };
                C::Store { key, bytes: value_bytes(entry)?, condition }
            }
            opcode::APPEND => {
                let key = SamsungKey::parse(entry)?;
                only(store::COMPRESS | store::COMPRESS_LATER)?;
                C::Append { key, bytes: value_bytes(entry)? }
            }
            opcode::RETRIEVE => {
                let key = SamsungKey::parse(entry)?;
                only(retrieve::DECOMPRESS | retrieve::ONLY_SIZE)?;
                let offset = offset(entry);
                if !offset.is_multiple_of(OFFSET_GRAIN) {
                    return Err(status::MISALIGNED_OFFSET);
                }
                let only_size = options & retrieve::ONLY_SIZE != 0;
                let bytes = if only_size { 0 } else { buffer_bytes(entry)? };
                C::Retrieve { key, bytes, offset, only_size }
            }
            opcode::DELETE => {
                let key = SamsungKey::parse(entry)?;
                only(MUST_EXIST)?;
                C::Delete { key, must_exist: options & MUST_EXIST != 0 }
            }
            opcode::EXIST => {
                let key = SamsungKey::parse(entry)?;
                only(0)?;
                C::Exist { key }
            }
            opcode::ITERATE => match options {
                // Those that return values, or delete what they return, the drive never had.
                _ if options & !iterate::KEYS == iterate::OPEN => C::OpenIterator {
                    prefix: entry.dword12.get().to_le_bytes(),
                    mask: entry.dword13.get().to_le_bytes(),
                },
                iterate::CLOSE => C::CloseIterator { handle: handle(entry) },
                _ => return Err(status::INVALID_OPTION),
            },
            opcode::READ_ITERATOR => {
                C::ReadIterator { handle: handle(entry), bytes: buffer_bytes(entry)? }
            }
            _ => return Err(super::INVALID_OPCODE),
        })
    }

    /// Writes opcode and fields of an entry. Buffers are whole dwords.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        use SamsungCommand as C;
        entry.opcode = self.opcode();
        let mut option = 0;
        match *self {
            C::Store { key, bytes, condition } => {
                key.put(entry);
                put_value_bytes(entry, bytes);
                option = match condition {
                    StoreCondition::Always => 0,
                    StoreCondition::IfAbsent => store::IF_ABSENT,
                    StoreCondition::IfExists => store::IF_EXISTS,
                };
            }
            C::Append { key, bytes } => {
                key.put(entry);
                put_value_bytes(entry, bytes);
            }
            C::Retrieve { key, bytes, offset, only_size } => {
                key.put(entry);
                entry.dword10.set(bytes.div_ceil(4));
                entry.metadata.set(offset.into());
                option = if only_size { retrieve::ONLY_SIZE } else { 0 };
            }
            C::Delete { key, must_exist } => {
                key.put(entry);
                option = if must_exist { MUST_EXIST } else { 0 };
            }
            C::Exist { key } => key.put(entry),
            C::OpenIterator { prefix, mask } => {
                entry.dword12.set(u32::from_le_bytes(prefix));
                entry.dword13.set(u32::from_le_bytes(mask));
                option = iterate::OPEN | iterate::KEYS;
            }
            C::CloseIterator { handle } => {
                entry.dword11.set(handle.into());
                option = iterate::CLOSE;
            }
            C::ReadIterator { handle, bytes } => {
                entry.dword11.set(handle.into());
                entry.dword10.set(bytes.div_ceil(4));
            }
        }
        entry.dword11.set(entry.dword11.get() | option << 8);
    }

    fn opcode(&self) -> u8 {
        use SamsungCommand as C;
        match self {
            C::Store { .. } => opcode::STORE,
            C::Append { .. } => opcode::APPEND,
            C::Retrieve { .. } => opcode::RETRIEVE,
            C::Delete { .. } => opcode::DELETE,
            C::Exist { .. } => opcode::EXIST,
            C::OpenIterator { .. } | C::CloseIterator { .. } => opcode::ITERATE,
            C::ReadIterator { .. } => opcode::READ_ITERATOR,
        }
    }

    /// Bytes that it moves between host and controller, at most. Which way, the opcode does not
    /// say.
    pub fn bytes(&self) -> u32 {
        use SamsungCommand as C;
        match *self {
            C::Store { bytes, .. }
            | C::Append { bytes, .. }
            | C::Retrieve { bytes, .. }
            | C::ReadIterator { bytes, .. } => bytes,
            _ => 0,
        }
    }

    /// Its key, if it is about one.
    pub fn key(&self) -> Option<SamsungKey> {
        use SamsungCommand as C;
        match *self {
            C::Store { key, .. }
            | C::Append { key, .. }
            | C::Retrieve { key, .. }
            | C::Delete { key, .. }
            | C::Exist { key } => Some(key),
            _ => None,
        }
    }
}

/// Bytes of a value: whole dwords, less the bytes of the last that do not count.
fn value_bytes(entry: &SubmissionEntry) -> Result<u32, Status> {
    let unused = bits(entry.dword11.get(), 16, 2);
    buffer_bytes(entry)?.checked_sub(unused).ok_or(status::INVALID_VALUE_SIZE)
}

fn put_value_bytes(entry: &mut SubmissionEntry, bytes: u32) {
    entry.dword10.set(bytes.div_ceil(4));
    let unused = bytes.wrapping_neg() % 4;
    entry.dword11.set(entry.dword11.get() | unused << 16);
}

fn buffer_bytes(entry: &SubmissionEntry) -> Result<u32, Status> {
    entry.dword10.get().checked_mul(4).ok_or(status::INVALID_VALUE_SIZE)
}

/// Dword 4.
fn offset(entry: &SubmissionEntry) -> u32 {
    entry.metadata.get() as u32
}

fn handle(entry: &SubmissionEntry) -> u8 {
    entry.dword11.get() as u8
}
