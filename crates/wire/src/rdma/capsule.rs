//! Command capsules and the SGL descriptors in them (RDMA Transport 1.0, section 3.2): an entry,
//! perhaps with data behind it, or with the place in the host's memory where its data are.

use crate::nvme::entry::{DataPointer, SGL_IN_CAPSULE, SGL_TRANSPORT, Transfer};
use crate::nvme::{Status, SubmissionEntry, opcode};
use core::ops::Range;
use zerocopy::FromBytes;

/// Keyed SGL data block: an address with a key (Base 2.0, section 4.1.2).
pub const SGL_KEYED: u8 = 0x40;
/// A keyed SGL data block whose key the host wants invalidated with the response.
pub const SGL_KEYED_INVALIDATE: u8 = 0x4f;

/// A place in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    pub address: u64,
    pub bytes: u32,
    /// The key with which it can be accessed.
    pub key: u32,
    /// The host wants the key invalidated with the response.
    pub invalidates: bool,
}

impl Remote {
    /// Most bytes that one descriptor describes: its length has 24 bits.
    pub const BYTES_MAX: u32 = (1 << 24) - 1;

    /// The keyed data block that says it: 8 bytes of address, 3 of length, 4 of key.
    pub fn descriptor(&self) -> DataPointer {
        let ([a, b, c, _], [d, e, f, g]) = (self.bytes.to_le_bytes(), self.key.to_le_bytes());
        DataPointer {
            address: self.address.into(),
            length: u32::from_le_bytes([a, b, c, d]).into(),
            reserved: [e, f, g],
            kind: if self.invalidates { SGL_KEYED_INVALIDATE } else { SGL_KEYED },
        }
    }
}

/// Where a command's data are, or go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    None,
    /// In the capsule: this part of its bytes.
    Capsule(Range<usize>),
    /// They are to be read from the host's memory.
    Read(Remote),
    /// They are to be written to the host's memory, as many as there will be.
    Write(Remote),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capsule {
    /// The command, with a data pointer as those of other transports: nobody else knows keys.
    pub entry: SubmissionEntry,
    /// Where its data are; else the status that it has to be completed with.
    pub place: Result<Place, Status>,
}

impl Capsule {
    /// Reads a capsule; `None` if it is too short to have an entry. Its command moves up to
    /// `transfer_bytes`.
    pub fn parse(bytes: &[u8], transfer_bytes: u32) -> Option<Capsule> {
        let (entry, behind) = SubmissionEntry::read_from_prefix(bytes).ok()?;
        let place = place(&entry, behind.len(), transfer_bytes);
        let mut entry = entry;
        if let Ok(place) = &place {
            let bytes = match place {
                Place::None => 0,
                Place::Capsule(range) => range.len() as u32,
                Place::Read(remote) | Place::Write(remote) => remote.bytes,
            };
            entry.data = Default::default();
            entry.data.length.set(bytes);
            entry.data.kind = SGL_TRANSPORT;
        }
        Some(Capsule { entry, place })
    }
}

fn place(entry: &SubmissionEntry, behind: usize, transfer_bytes: u32) -> Result<Place, Status> {
    // Only SGLs are used over fabrics; the field is reserved in Fabrics commands.
    if entry.opcode != opcode::FABRICS && entry.flags >> 6 != 1 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    let direction = entry.transfer();
    if direction == Transfer::None {
        return Ok(Place::None);
    }
    match entry.data.kind {
        SGL_IN_CAPSULE if direction == Transfer::FromHost => {
            let (at, bytes) = (entry.data.address.get(), entry.data.length.get());
            if at > behind as u64 {
                return Err(Status::SGL_OFFSET_INVALID.do_not_retry());
            }
            if u64::from(bytes) > behind as u64 - at {
                return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
            }
            let from = SubmissionEntry::BYTES + at as usize;
            Ok(Place::Capsule(from..from + bytes as usize))
        }
        kind @ (SGL_KEYED | SGL_KEYED_INVALIDATE) => {
            let remote = remote(entry, kind);
            if remote.bytes == 0 {
                return Ok(Place::None);
            }
            let is_too_long = remote.bytes > transfer_bytes;
            // What the command itself says of its length decides what is wrong.
            if is_too_long && direction == Transfer::FromHost {
                return Ok(Place::None);
            }
            if is_too_long || remote.address.checked_add(remote.bytes.into()).is_none() {
                return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
            }
            Ok(match direction {
                Transfer::FromHost => Place::Read(remote),
                _ => Place::Write(remote),
            })
        }
        _ => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
    }
}

/// What a keyed data block says.
fn remote(entry: &SubmissionEntry, kind: u8) -> Remote {
    let [low, middle, high, key] = entry.data.length.get().to_le_bytes();
    let [b, c, d] = entry.data.reserved;
    Remote {
        address: entry.data.address.get(),
        bytes: u32::from_le_bytes([low, middle, high, 0]),
        key: u32::from_le_bytes([key, b, c, d]),
        invalidates: kind == SGL_KEYED_INVALIDATE,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    /// An entry with a keyed data block.
    pub(in crate::rdma) fn keyed(opcode: u8, command_id: u16, remote: Remote) -> SubmissionEntry {
        let mut entry = SubmissionEntry { opcode, flags: 1 << 6, ..Default::default() };
        entry.command_id.set(command_id);
        entry.data = remote.descriptor();
        entry
    }

    const REMOTE: Remote = Remote {
        address: 0x1234_5678_9abc_def0,
        bytes: 0x10_0000,
        key: 0xdead_beef,
        invalidates: true,
    };

    #[test]
    fn keyed_data_blocks_are_read() {
        let (write, read) = (opcode::nvm::WRITE, opcode::nvm::READ);
        for (opcode, place) in [(write, Place::Read(REMOTE)), (read, Place::Write(REMOTE))] {
            let capsule = Capsule::parse(keyed(opcode, 7, REMOTE).as_bytes(), 1 << 20).unwrap();
            assert_eq!(capsule.place, Ok(place));
            let pointer = capsule.entry.data;
            assert_eq!((pointer.length.get(), pointer.kind), (1 << 20, SGL_TRANSPORT));
            assert_eq!((pointer.address.get(), pointer.reserved), (0, [0; 3]));
        }
        let over = Capsule::parse(keyed(write, 7, REMOTE).as_bytes(), (1 << 20) - 1).unwrap();
        assert_eq!(over.place, Ok(Place::None));
        let over = Capsule::parse(keyed(read, 7, REMOTE).as_bytes(), (1 << 20) - 1).unwrap();
        assert_eq!(over.place, Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()));
        let wraps = Remote { address: u64::MAX, ..REMOTE };
        let wraps = Capsule::parse(keyed(write, 7, wraps).as_bytes(), 1 << 20).unwrap();
        assert_eq!(wraps.place, Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()));
        assert_eq!(Capsule::parse(&[0; 63], 1 << 20), None);
    }

    proptest! {
        #[test]
        fn places_lie_within_what_there_is(
            mut bytes in proptest::collection::vec(any::<u8>(), 64..256),
            kind in prop_oneof![Just(SGL_IN_CAPSULE), Just(SGL_KEYED), Just(0x4f), any::<u8>()],
            small: bool,
        ) {
            bytes[39] = kind;
            if small {
                bytes[1] = 1 << 6;
                bytes[25..32].fill(0);
                bytes[33..36].fill(0);
            }
            let capsule = Capsule::parse(&bytes, 4096).expect("it has an entry");
            match capsule.place {
                Ok(Place::Capsule(range)) => {
                    prop_assert!(range.start >= 64 && range.end <= bytes.len());
                }
                Ok(Place::Read(remote) | Place::Write(remote)) => {
                    prop_assert!((1..=4096).contains(&remote.bytes));
                    prop_assert!(remote.address.checked_add(remote.bytes.into()).is_some());
                }
                Ok(Place::None) => {}
                Err(status) => prop_assert!(!status.is_success()),
            }
        }
    }
}
