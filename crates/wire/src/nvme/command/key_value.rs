//! I/O commands of the Key Value command set (Key Value Command Set 1.0, section 3.2, unchanged in
//! 1.3), and Flush (Base 2.0, section 7.1).

use super::{INVALID_FIELD, bit};
use crate::nvme::key::{KEY_BYTES_MAX, Key};
use crate::nvme::opcode::key_value as opcode;
use crate::nvme::{Status, SubmissionEntry};

/// Status of a command with a key that is not allowed (figure 4).
const INVALID_KEY_SIZE: Status = Status::INVALID_KEY_SIZE.do_not_retry();

/// An I/O command of a key-value namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValueCommand {
    /// Flush (Base 2.0, section 7.1).
    Flush,
    /// Store (section 3.2.5).
    Store(Store),
    /// Retrieve (section 3.2.3).
    Retrieve(Retrieve),
    /// List (section 3.2.2).
    List(List),
    /// Delete (section 3.2.1): its key.
    Delete(Key),
    /// Exist (section 3.2.4): its key.
    Exist(Key),
}

impl KeyValueCommand {
    /// The command that an entry of an I/O queue is, where its namespace is a key-value one.
    ///
    /// # Errors
    /// What it ends with if it is none: a key of more than 16 bytes is an invalid field (section
    /// 2.1.5), one of none an invalid key size, except that a List may start without one.
    pub fn parse(entry: &SubmissionEntry) -> Result<KeyValueCommand, Status> {
        use KeyValueCommand as C;
        Ok(match entry.opcode {
            opcode::FLUSH => C::Flush,
            opcode::STORE => C::Store(Store::parse(entry)?),
            opcode::RETRIEVE => C::Retrieve(Retrieve::parse(entry)?),
            opcode::LIST => C::List(List { start: key(entry)?, bytes: entry.dword10.get() }),
            opcode::DELETE => C::Delete(some_key(entry)?),
            opcode::EXIST => C::Exist(some_key(entry)?),
            _ => return Err(super::INVALID_OPCODE),
        })
    }

    /// Writes opcode and fields of an entry.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        use KeyValueCommand as C;
        match self {
            C::Flush => entry.opcode = opcode::FLUSH,
            C::Store(command) => command.put(entry),
            C::Retrieve(command) => command.put(entry),
            C::List(command) => {
                entry.opcode = opcode::LIST;
                entry.dword10.set(command.bytes);
                put_key(entry, &command.start);
            }
            C::Delete(key) => {
                entry.opcode = opcode::DELETE;
                put_key(entry, key);
            }
            C::Exist(key) => {
                entry.opcode = opcode::EXIST;
                put_key(entry, key);
            }
        }
    }
}

/// Bytes that a command of the set moves between host and controller, as its entry says, whether
/// the command is right or wrong.
pub fn key_value_bytes(entry: &SubmissionEntry) -> u32 {
    match entry.opcode {
        opcode::STORE | opcode::RETRIEVE | opcode::LIST => entry.dword10.get(),
        _ => 0,
    }
}

/// Store (section 3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    pub key: Key,
    /// VS: bytes of the value. A key may have a value of none.
    pub bytes: u32,
    /// SO, bits 8 and 9.
    pub condition: StoreCondition,
    /// SO, bit 10: the value is not to be compressed.
    pub uncompressed: bool,
}

/// When a Store stores (figure 29).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreCondition {
    /// Whether the key exists or not.
    #[default]
    Always,
    IfExists,
    IfAbsent,
}

impl Store {
    /// The two conditions together could never be met, and are an invalid field.
    fn parse(entry: &SubmissionEntry) -> Result<Store, Status> {
        let dword11 = entry.dword11.get();
        let key = some_key(entry)?;
        let condition = match (bit(dword11, 8), bit(dword11, 9)) {
            (false, false) => StoreCondition::Always,
            (true, false) => StoreCondition::IfExists,
            (false, true) => StoreCondition::IfAbsent,
            (true, true) => return Err(INVALID_FIELD),
        };
        let bytes = entry.dword10.get();
        Ok(Store { key, bytes, condition, uncompressed: bit(dword11, 10) })
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::STORE;
        entry.dword10.set(self.bytes);
        put_key(entry, &self.key);
        let condition = match self.condition {
            StoreCondition::Always => 0,
            StoreCondition::IfExists => 1,
            StoreCondition::IfAbsent => 2,
        };
        let options = condition | u32::from(self.uncompressed) << 2;
        entry.dword11.set(entry.dword11.get() | options << 8);
    }
}

/// Retrieve (section 3.2.3). Its result is the size of the whole value, of which only what fits is
/// moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieve {
    pub key: Key,
    /// HBS: bytes of the host's buffer.
    pub bytes: u32,
    /// RO, bit 8: the value is not to be decompressed.
    pub raw: bool,
}

impl Retrieve {
    fn parse(entry: &SubmissionEntry) -> Result<Retrieve, Status> {
        let (key, bytes) = (some_key(entry)?, entry.dword10.get());
        Ok(Retrieve { key, bytes, raw: bit(entry.dword11.get(), 8) })
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::RETRIEVE;
        entry.dword10.set(self.bytes);
        put_key(entry, &self.key);
        entry.dword11.set(entry.dword11.get() | u32::from(self.raw) << 8);
    }
}

/// List (section 3.2.2); what it returns is a [`crate::nvme::key::KeyList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The key at which the list starts; the empty one: at the first of all.
    pub start: Key,
    /// HBS: bytes of the host's buffer.
    pub bytes: u32,
}

/// The key of an entry: dwords 2, 3, 14 and 15, so many bytes of them as bits 7:0 of dword 11 (KL)
/// say. What lies behind it is not looked at.
fn key(entry: &SubmissionEntry) -> Result<Key, Status> {
    let length = (entry.dword11.get() & 0xff) as usize;
    let dwords = [entry.dword2, entry.dword3, entry.dword14, entry.dword15];
    let mut bytes = [0; KEY_BYTES_MAX];
    for (four, dword) in bytes.chunks_exact_mut(4).zip(dwords) {
        four.copy_from_slice(&dword.get().to_le_bytes());
    }
    bytes.get(..length).and_then(Key::new).ok_or(INVALID_FIELD)
}

/// Like [`key`], but the empty key is refused.
fn some_key(entry: &SubmissionEntry) -> Result<Key, Status> {
    let key = key(entry)?;
    if key.is_empty() { Err(INVALID_KEY_SIZE) } else { Ok(key) }
}

fn put_key(entry: &mut SubmissionEntry, key: &Key) {
    let [a, b, c, d] = key.dwords();
    entry.dword2.set(a);
    entry.dword3.set(b);
    entry.dword14.set(c);
    entry.dword15.set(d);
    entry.dword11.set(key.len() as u32);
}
