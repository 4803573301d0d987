//! Firmware Image Download and Firmware Commit (Base 2.0, sections 5.13 and 5.12).
//!
//! The firmware is Mynah itself: its one slot is read only. Images are taken, as the host's
//! tools expect, and refused when they are committed; activating what is there already is
//! allowed and changes nothing.

use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{CommitAction, FirmwareCommit, FirmwareImageDownload};

/// FRMW: slot 1 is read only (0), one slot (3:1), activation without a reset (4).
pub(super) const UPDATES: u8 = 1 | 1 << 1 | 1 << 4;
/// Largest firmware image.
const IMAGE_BYTES_MAX: u64 = 64 << 20;
/// Most pieces in which an image may be downloaded.
const PIECES_MAX: usize = 65_536;

impl Subsystem {
    pub(super) fn firmware_download(
        &mut self,
        piece: FirmwareImageDownload,
    ) -> Result<Outcome, Status> {
        let FirmwareImageDownload { bytes, offset: start } = piece;
        if start + bytes > IMAGE_BYTES_MAX || self.admin.firmware.len() >= PIECES_MAX {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        // A piece that begins at 0 begins a new image.
        if start == 0 {
            self.admin.firmware.clear();
        }
        let end = start + bytes;
        if let Some((_, &before)) = self.admin.firmware.range(..end).next_back()
            && before > start
        {
            return Err(Status::FIRMWARE_RANGE_OVERLAP.do_not_retry());
        }
        self.admin.firmware.insert(start, end);
        Ok(Outcome::Done(0))
    }

    pub(super) fn firmware_commit(&mut self, commit: FirmwareCommit) -> Result<Outcome, Status> {
        let FirmwareCommit { slot, action } = commit;
        if slot > 1 {
            return Err(Status::FIRMWARE_SLOT_INVALID.do_not_retry());
        }
        let has_image = !std::mem::take(&mut self.admin.firmware).is_empty();
        match action {
            CommitAction::Activate if slot == 1 => Ok(Outcome::Done(0)),
            CommitAction::ActivateNow if slot == 1 && !has_image => Ok(Outcome::Done(0)),
            CommitAction::Activate => Err(Status::FIRMWARE_SLOT_INVALID.do_not_retry()),
            CommitAction::Replace
            | CommitAction::ReplaceAndActivate
            | CommitAction::ActivateNow => Err(Status::FIRMWARE_IMAGE_INVALID.do_not_retry()),
            CommitAction::Other(_) => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }
}
