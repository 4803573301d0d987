//! End-to-end protection of blocks (NVM Command Set 1.0, section 5.2).
//!
//! Metadata have 8 bytes, all of them protection information where a namespace has any. The
//! store holds their complement: what was never written then reads as all ones, which is
//! what the specification wants of deallocated blocks. Each sector has room of its own for them; those
//! of a larger block lie in that of its first sector.

use super::Format;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{BlockCommand, Protection};
use mynah_wire::nvme::protection::{ProtectionInformation, guard};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a block's metadata.
pub(crate) const METADATA_BYTES: usize = 8;

/// What a command wants done with protection information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Check {
    /// PRACT: the controller makes and strips it.
    pub(crate) action: bool,
    pub(crate) guard: bool,
    pub(crate) application: bool,
    pub(crate) reference: bool,
    pub(crate) application_tag: u16,
    pub(crate) application_mask: u16,
    /// Reference tag of the first block.
    pub(crate) reference_tag: u32,
}

impl Check {
    /// What a command about blocks wants of blocks that look so.
    pub(crate) fn of(io: &BlockCommand, format: Format) -> Result<Check, Status> {
        Check::new(io.protection, format).checked(io.start, format)
    }

    /// What is wanted, as far as blocks that look so can have it.
    pub(crate) fn new(wanted: Protection, format: Format) -> Check {
        if format.protection == 0 {
            return Check::default();
        }
        Check {
            action: wanted.action.strips,
            guard: wanted.action.guard,
            application: wanted.action.application,
            reference: wanted.action.reference && format.protection != 3,
            application_tag: wanted.application_tag,
            application_mask: wanted.application_mask,
            reference_tag: wanted.reference_tag,
        }
    }

    /// Type 1 binds the first reference tag to the address.
    pub(crate) fn checked(self, start: u64, format: Format) -> Result<Check, Status> {
        if format.protection == 1 && self.reference && self.reference_tag != start as u32 {
            return Err(Status::INVALID_PROTECTION_INFORMATION.do_not_retry());
        }
        Ok(self)
    }

    /// Checks block number `at` of the command.
    pub(crate) fn verify(
        &self,
        format: Format,
        at: u32,
        data: &[u8],
        metadata: &[u8],
    ) -> Result<(), Status> {
        let Ok((information, _)) = ProtectionInformation::read_from_prefix(metadata) else {
            return Err(Status::INTERNAL_ERROR);
        };
        let (application, reference) =
            (information.application_tag.get(), information.reference_tag.get());
        let escaped = application == 0xffff && (format.protection != 3 || reference == u32::MAX);
        if format.protection == 0 || escaped {
            return Ok(());
        }
        if self.guard && guard(data) != information.guard.get() {
            return Err(Status::GUARD_CHECK_ERROR);
        }
        let mask = self.application_mask;
        if self.application && application & mask != self.application_tag & mask {
            return Err(Status::APPLICATION_TAG_CHECK_ERROR);
        }
        if self.reference && reference != self.reference_tag.wrapping_add(at) {
            return Err(Status::REFERENCE_TAG_CHECK_ERROR);
        }
        Ok(())
    }

    /// Makes the protection information of block number `at` of the command.
    pub(crate) fn generate(&self, format: Format, at: u32, data: &[u8]) -> [u8; METADATA_BYTES] {
        self.generate_guarded(format, at, guard(data))
    }

    /// [`Check::generate`] where the guard (CRC) of the block's data is known.
    pub(crate) fn generate_guarded(
        &self,
        format: Format,
        at: u32,
        guard: u16,
    ) -> [u8; METADATA_BYTES] {
        let step = if format.protection == 3 { 0 } else { at };
        let mut information = ProtectionInformation::default();
        information.guard.set(guard);
        information.application_tag.set(self.application_tag);
        information.reference_tag.set(self.reference_tag.wrapping_add(step));
        let mut bytes = [0; METADATA_BYTES];
        bytes.copy_from_slice(information.as_bytes());
        bytes
    }
}

/// Turns metadata into what the store holds, and back.
pub(crate) fn complement(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Items of metadata as they lie in the store, where a block has so many sectors: each in the room
/// of its block's first sector.
pub(crate) fn spread(items: &[u8], block_sectors: u64) -> Vec<u8> {
    if block_sectors == 1 {
        return items.to_vec();
    }
    let room = METADATA_BYTES * block_sectors as usize;
    let mut all = vec![0; items.len() * block_sectors as usize];
    for (place, item) in all.chunks_exact_mut(room).zip(items.chunks_exact(METADATA_BYTES)) {
        place[..METADATA_BYTES].copy_from_slice(item);
    }
    all
}

/// Items of metadata out of the store, one behind the other.
pub(crate) fn brought_together(mut all: Vec<u8>, block_sectors: u64) -> Vec<u8> {
    if block_sectors > 1 {
        let room = METADATA_BYTES * block_sectors as usize;
        for block in 0..all.len() / room {
            all.copy_within(block * room..block * room + METADATA_BYTES, block * METADATA_BYTES);
        }
        all.truncate(all.len() / block_sectors as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_wire::nvme::command::ProtectionAction;

    fn format(protection: u8) -> Format {
        Format { shift: 9, metadata: 8, protection }
    }

    /// What is checked where PRINFO has these bits, with all of the application tag.
    fn check(bits: u32, reference_tag: u32, application_tag: u16, format: Format) -> Check {
        let action = ProtectionAction::from_bits(bits);
        let tags = Protection { reference_tag, application_tag, ..Default::default() };
        Check::new(Protection { action, application_mask: 0xffff, ..tags }, format)
    }

    #[test]
    fn what_is_made_passes_and_what_is_changed_does_not() {
        let data = [0x5a; 512];
        for kind in 1..=3 {
            let check = check(0b0111, 100, 0x1234, format(kind));
            let made = check.generate(format(kind), 3, &data);
            assert_eq!(check.verify(format(kind), 3, &data, &made), Ok(()));
            let other = [0x5b; 512];
            let result = check.verify(format(kind), 3, &other, &made);
            assert_eq!(result, Err(Status::GUARD_CHECK_ERROR));
            let stranger = Check { application_tag: 0x1235, ..check };
            let result = stranger.verify(format(kind), 3, &data, &made);
            assert_eq!(result, Err(Status::APPLICATION_TAG_CHECK_ERROR));
            let masked = Check { application_mask: 0xff00, ..stranger };
            assert_eq!(masked.verify(format(kind), 3, &data, &made), Ok(()));
            let moved = check.verify(format(kind), 4, &data, &made);
            let expected = if kind == 3 { Ok(()) } else { Err(Status::REFERENCE_TAG_CHECK_ERROR) };
            assert_eq!(moved, expected);
            assert_eq!(check.verify(format(kind), 9, &other, &[0xff; 8]), Ok(()), "escape");
        }
    }

    #[test]
    fn items_of_blocks_lie_in_the_room_of_their_first_sectors() {
        let items: Vec<u8> = (1..=24).collect();
        assert_eq!(spread(&items, 1), items);
        let all = spread(&items, 8);
        assert_eq!(all.len(), 3 * 64);
        for (at, byte) in all.iter().enumerate() {
            let expected = if at % 64 < 8 { items[at / 64 * 8 + at % 64] } else { 0 };
            assert_eq!(*byte, expected, "byte {at}");
        }
        assert_eq!(brought_together(all, 8), items);
        assert_eq!(brought_together(items.clone(), 1), items);
    }

    #[test]
    fn type_1_binds_the_reference_tag_to_the_address() {
        let check = check(1, 7, 0, format(1));
        assert!(check.checked(7, format(1)).is_ok());
        assert!(check.checked(0x1_0000_0007, format(1)).is_ok());
        assert!(check.checked(8, format(1)).is_err());
        assert!(check.checked(8, format(2)).is_ok());
    }
}
