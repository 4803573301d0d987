//! How many bytes a command moves between host and controller, as its entry says, and whether the
//! host has given that many, or has room for them.
//!
//! Less is never made do with: the command ends with Data SGL Length Invalid (Base 2.0, section
//! 4.1.2). More is left alone, as Linux's target does with Dataset Management
//! (nvmet_check_data_len_lte in drivers/nvme/target/core.c), for which Linux always sends 256 ranges.

use crate::queue::State;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::entry::Transfer;
use mynah_wire::nvme::feature::{id, select};
use mynah_wire::nvme::identify::IDENTIFY_BYTES;
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::{Status, SubmissionEntry};

/// How many bytes the host has room for, where the entry says so: with PRPs it does not.
pub(crate) fn host_room(entry: &SubmissionEntry) -> Option<u32> {
    (entry.flags & 0xc0 != 0).then(|| entry.data.length.get())
}

/// Checks that the host has room for so many bytes.
#[inline]
pub(crate) fn check_room(entry: &SubmissionEntry, bytes: u64) -> Result<(), Status> {
    match host_room(entry) {
        Some(room) if u64::from(room) < bytes => {
            Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())
        }
        _ => Ok(()),
    }
}

/// Bytes that an admin command moves.
fn admin_bytes(entry: &SubmissionEntry) -> u64 {
    let [dword10, dword11] = [entry.dword10, entry.dword11].map(|dword| u64::from(dword.get()));
    match entry.opcode {
        admin::IDENTIFY | admin::NAMESPACE_ATTACHMENT => IDENTIFY_BYTES as u64,
        // SEL 0 creates.
        admin::NAMESPACE_MANAGEMENT if dword10 & 0xf == 0 => IDENTIFY_BYTES as u64,
        admin::GET_LOG_PAGE => ((dword10 >> 16 | (dword11 & 0xffff) << 16) + 1) * 4,
        // What a feature allows is in the result.
        admin::GET_FEATURES if dword10 >> 8 & 7 == u64::from(select::SUPPORTED) => 0,
        admin::GET_FEATURES | admin::SET_FEATURES => match dword10 as u8 {
            id::TIMESTAMP => 8,
            id::HOST_BEHAVIOR => 512,
            // EXHID: 128 bits, or 64.
            id::HOST_ID if dword11 & 1 != 0 => 16,
            id::HOST_ID => 8,
            _ => 0,
        },
        admin::FIRMWARE_IMAGE_DOWNLOAD => (dword10 + 1) * 4,
        _ => 0,
    }
}

/// Checks that all is there that an admin command moves: `data` is what has come from the host.
pub(crate) fn check_admin(entry: &SubmissionEntry, data: &[u8]) -> Result<(), Status> {
    let bytes = admin_bytes(entry);
    match entry.transfer() {
        Transfer::ToHost => check_room(entry, bytes),
        // A list of controllers says itself how long it is.
        _ if entry.opcode == admin::NAMESPACE_ATTACHMENT => Ok(()),
        _ if (data.len() as u64) < bytes => Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()),
        _ => Ok(()),
    }
}

impl Subsystem {
    /// How many bytes a guest's command moves, and whether to the host.
    pub(crate) fn guest_bytes(
        &self,
        slot: u32,
        entry: &SubmissionEntry,
    ) -> Result<(u32, bool), Status> {
        let Some(queue) = self.queues.get(slot) else { return Ok((0, true)) };
        let [dword10, dword12] = [entry.dword10, entry.dword12].map(|dword| u64::from(dword.get()));
        let bytes = match (queue.state, entry.opcode) {
            (State::Admin, _) => admin_bytes(entry),
            (_, nvm::READ | nvm::WRITE | nvm::COMPARE) => {
                let Ok(namespace) = self.active(queue.controller, entry.namespace_id.get()) else {
                    return Ok((0, true));
                };
                // PRACT: the controller makes or strips the protection information.
                let strips = namespace.format.protection != 0 && dword12 >> 29 & 1 != 0;
                let metadata = if strips { 0 } else { u64::from(namespace.format.metadata) };
                u64::from(entry.block_count()) * ((1 << namespace.format.shift) + metadata)
            }
            (_, nvm::DATASET_MANAGEMENT) => ((dword10 & 0xff) + 1) * 16,
            (_, nvm::COPY) => ((dword12 & 0xff) + 1) * 32,
            (_, nvm::RESERVATION_REGISTER | nvm::RESERVATION_ACQUIRE) => 16,
            (_, nvm::RESERVATION_RELEASE) => 8,
            (_, nvm::RESERVATION_REPORT) => (dword10 + 1) * 4,
            _ => 0,
        };
        if bytes > u64::from(queue.transport.max_transfer_bytes) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok((bytes as u32, entry.transfer() == Transfer::ToHost))
    }
}
