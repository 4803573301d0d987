//! What a store's file says about itself.
//!
//! Two slots come first, written in turn: a slot is overwritten only when the other one is on stable
//! storage, so one of them is whole whenever the power fails. Behind them lie the drive's bytes, as far
//! as any were written: the file ends there.
//!
//! In files of format 1, which are read and go on as they are, the drive's bytes come first, all of
//! them, and the slots behind.

use mynah_device::store::{DESCRIPTION_BYTES_MAX, StateId};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SLOT_BYTES: u64 = 64 << 10;
/// Bytes of both header slots.
pub(super) const SLOTS_BYTES: u64 = 2 * SLOT_BYTES;
/// Bytes that identify a drive.
pub(super) const DRIVE_BYTES_MAX: usize = 48;

const MAGIC: [u8; 8] = *b"MynahSto";
/// Slots lie before the drive's bytes.
const FORMAT: u32 = 2;
/// Slots lie behind the drive's bytes.
const FORMAT_BEHIND: u32 = 1;
/// Later formats will be no higher: whatever is says more of damage than of a version.
const FORMAT_MAX: u32 = 255;
const CLEAN: u32 = 1;
const ALIGNMENT: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    magic: [u8; 8],
    format: U32,
    flags: U32,
    sequence: U64,
    data_bytes: U64,
    drive: [u8; DRIVE_BYTES_MAX],
    /// All zeros if no state was saved with the bytes.
    state: StateId,
    description_bytes: U32,
    /// CRC32C of everything else, this field taken as zero.
    checksum: U32,
}

/// The header that a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Counts headers; the slot with the higher number is the newer one.
    pub(super) sequence: u64,
    pub(super) data_bytes: u64,
    /// The file has at least so many of them, from the first on. `None`: it is of format 1, and has
    /// them all.
    pub(super) held_bytes: Option<u64>,
    /// Which drive these bytes belong to.
    pub(super) drive: String,
    /// Whether the store was closed in order.
    pub(super) clean: bool,
    /// Which of the drive's own states belongs to the bytes.
    pub(super) state: Option<StateId>,
    pub(super) description: Vec<u8>,
}

/// Why a slot holds no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// Not a header of this program.
    Foreign,
    /// Of a format that this program does not know.
    Format(u32),
    /// A header whose checksum or fields are wrong.
    Damaged,
}

impl Header {
    /// Offset of the header slots in the file.
    pub(super) fn slots_at(&self) -> u64 {
        match self.held_bytes {
            Some(_) => 0,
            None => self.data_bytes.next_multiple_of(ALIGNMENT as u64),
        }
    }

    /// Where the drive's bytes begin.
    pub(super) fn data_at(&self) -> u64 {
        self.held_bytes.map_or(0, |_| SLOTS_BYTES)
    }

    /// Where in the file this header goes.
    pub(super) fn at(&self) -> u64 {
        self.slots_at() + self.sequence % 2 * SLOT_BYTES
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        debug_assert!(self.description.len() <= DESCRIPTION_BYTES_MAX);
        let mut drive = [0; DRIVE_BYTES_MAX];
        let named = self.drive.len().min(DRIVE_BYTES_MAX);
        drive[..named].copy_from_slice(&self.drive.as_bytes()[..named]);
        let mut layout = Layout {
            magic: MAGIC,
            format: U32::new(self.held_bytes.map_or(FORMAT_BEHIND, |_| FORMAT)),
            flags: U32::new(if self.clean { CLEAN } else { 0 }),
            sequence: U64::new(self.sequence),
            data_bytes: U64::new(self.data_bytes),
            drive,
            state: self.state.unwrap_or_default(),
            description_bytes: U32::new(self.description.len() as u32),
            checksum: U32::ZERO,
        };
        let mut rest = self.held_bytes.map_or(Vec::new(), |held| held.to_le_bytes().to_vec());
        rest.extend_from_slice(&self.description);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(layout.as_bytes()), &rest);
        layout.checksum = U32::new(checksum);
        let mut bytes = layout.as_bytes().to_vec();
        bytes.append(&mut rest);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    fn decode(slot: &[u8]) -> Result<Header, NoHeader> {
        let (mut layout, rest) = Layout::read_from_prefix(slot).map_err(|_| NoHeader::Foreign)?;
        if layout.magic != MAGIC {
            return Err(NoHeader::Foreign);
        }
        let format = layout.format.get();
        let held = match format {
            FORMAT => size_of::<u64>(),
            FORMAT_BEHIND => 0,
            _ if format <= FORMAT_MAX => return Err(NoHeader::Format(format)),
            _ => return Err(NoHeader::Damaged),
        };
        let all = layout.description_bytes.get() as usize + held;
        let rest = rest.get(..all).ok_or(NoHeader::Damaged)?;
        let checksum = layout.checksum.get();
        layout.checksum = U32::ZERO;
        let found = crc32c::crc32c_append(crc32c::crc32c(layout.as_bytes()), rest);
        let (held, description) = rest.split_at(held);
        let held_bytes = held.try_into().ok().map(u64::from_le_bytes);
        let data_bytes = layout.data_bytes.get();
        // No file is as long as a number can be.
        let is_possible = data_bytes <= i64::MAX as u64 - 2 * SLOTS_BYTES
            && held_bytes.is_none_or(|held| held <= data_bytes);
        if checksum != found || !is_possible {
            return Err(NoHeader::Damaged);
        }
        let drive = layout.drive.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(Header {
            sequence: layout.sequence.get(),
            data_bytes,
            held_bytes,
            drive: String::from_utf8_lossy(drive).into_owned(),
            clean: layout.flags.get() & CLEAN != 0,
            state: Some(layout.state).filter(|state| *state != StateId::default()),
            description: description.to_vec(),
        })
    }

    /// The newest whole header of two slots.
    pub(super) fn newest(slots: &[u8]) -> Result<Header, NoHeader> {
        let (first, second) = slots.split_at(slots.len().min(SLOT_BYTES as usize));
        match (Header::decode(first), Header::decode(second)) {
            (Ok(a), Ok(b)) => Ok(if a.sequence > b.sequence { a } else { b }),
            (Ok(header), Err(_)) | (Err(_), Ok(header)) => Ok(header),
            (Err(NoHeader::Foreign), Err(other)) | (Err(other), Err(_)) => Err(other),
        }
    }

    /// A header among `bytes`, which begin at `at` in the file, wherever the file's end is now: it
    /// says itself where it belongs.
    pub(super) fn find(bytes: &[u8], at: u64) -> Option<Header> {
        let first = at.next_multiple_of(ALIGNMENT as u64);
        let places = (first..at + bytes.len() as u64).step_by(ALIGNMENT);
        let mut found = places.filter_map(|place| {
            let header = Header::decode(&bytes[(place - at) as usize..]).ok()?;
            (header.at() == place).then_some(header)
        });
        found.next()
    }

    /// The least bytes of the file that it is the header of.
    pub(super) fn file_bytes(&self) -> u64 {
        SLOTS_BYTES + self.held_bytes.unwrap_or_else(|| self.slots_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_slot_counts() {
        for held_bytes in [None, Some(5000)] {
            newest_of(held_bytes);
        }
        // Whoever can make a checksum, too.
        let more = Header { held_bytes: Some(10_001), ..header(3, b"", None) };
        assert_eq!(Header::decode(&more.encode()), Err(NoHeader::Damaged));
    }

    fn header(sequence: u64, description: &[u8], held_bytes: Option<u64>) -> Header {
        Header {
            sequence,
            data_bytes: 10_000,
            held_bytes,
            drive: "a hash".to_owned(),
            clean: sequence == 3,
            state: (sequence == 3).then_some([7; 16]),
            description: description.to_vec(),
        }
    }

    fn newest_of(held_bytes: Option<u64>) {
        let fields = 104 + if held_bytes.is_some() { 8 } else { 0 };
        let header = |sequence, description: &[u8]| header(sequence, description, held_bytes);
        let mut slots = vec![0; SLOTS_BYTES as usize];
        assert_eq!(Header::newest(&slots), Err(NoHeader::Foreign));
        assert_eq!(Header::newest(&[]), Err(NoHeader::Foreign));
        let longest = vec![7; DESCRIPTION_BYTES_MAX];
        for (sequence, description) in [(1, &b"one"[..]), (2, &longest), (3, b"")] {
            let header = header(sequence, description);
            let at = (header.at() - header.slots_at()) as usize;
            assert!(header.encode().len() as u64 <= SLOT_BYTES);
            slots[at..at + header.encode().len()].copy_from_slice(&header.encode());
            assert_eq!(Header::newest(&slots), Ok(header));
        }
        for byte in 0..120 {
            let at = (SLOT_BYTES + byte) as usize;
            slots[at] ^= 1;
            let newest = Header::newest(&slots).expect("the other slot");
            assert_eq!(newest.sequence, if byte < fields { 2 } else { 3 }, "byte {byte}");
            slots[at] ^= 1;
        }
        // Whoever can make a checksum, too.
        let huge = Header { data_bytes: u64::MAX, ..header(3, b"") };
        assert_eq!(Header::decode(&huge.encode()), Err(NoHeader::Damaged));
        let both = [8, 8 + SLOT_BYTES as usize];
        both.iter().for_each(|&at| slots[at] = 9);
        assert_eq!(Header::newest(&slots), Err(NoHeader::Format(9)));
        // A version that there will never be.
        let format = if held_bytes.is_some() { 2 } else { 1 };
        both.iter().for_each(|&at| (slots[at], slots[at + 3]) = (format, 0x80));
        assert_eq!(Header::newest(&slots), Err(NoHeader::Damaged));
        both.iter().for_each(|&at| (slots[at + 3], slots[at + 9]) = (0, slots[at + 9] ^ 1));
        assert_eq!(Header::newest(&slots), Err(NoHeader::Damaged));
    }
}
