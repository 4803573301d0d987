//! How many bytes a command moves between host and controller, as its entry says, and whether the
//! host has given that many, or has room for them.
//!
//! Less is never made do with: the command ends with Data SGL Length Invalid (Base 2.0, section
//! 4.1.2). More is left alone, as Linux's target does with Dataset Management
//! (nvmet_check_data_len_lte in drivers/nvme/target/core.c), for which Linux always sends 256 ranges.

use crate::command_set::IoCommand;
use crate::queue::State;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::command::admin_bytes;
use mynah_wire::nvme::entry::Transfer;
use mynah_wire::nvme::opcode::admin;
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
        let bytes = match IoCommand::parse(entry) {
            _ if queue.state() == State::Admin => admin_bytes(entry),
            Ok(command) => {
                let namespace =
                    self.namespaces.active(queue.controller(), entry.namespace_id.get());
                match command.bytes(namespace.ok()) {
                    Some(bytes) => bytes,
                    None => return Ok((0, true)),
                }
            }
            Err(_) => 0,
        };
        if bytes > u64::from(queue.transport().max_transfer_bytes) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok((bytes as u32, entry.transfer() == Transfer::ToHost))
    }
}
