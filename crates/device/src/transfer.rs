//! Whether the host has room for the bytes that a command returns; and of an admin command, how many
//! bytes its entry says that it moves, and whether the host has given that many. How many an I/O
//! command moves is known in the folder of its command set.
//!
//! Less is never made do with: the command ends with Data SGL Length Invalid (Base 2.0, section
//! 4.1.2). More is left alone, as Linux's target does with Dataset Management
//! (nvmet_check_data_len_lte in drivers/nvme/target/core.c), for which Linux always sends 256 ranges.

use mynah_wire::nvme::command::{AdminCommand, GetFeatures, SetFeatures, admin_bytes};
use mynah_wire::nvme::entry::Transfer;
use mynah_wire::nvme::feature::id;
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

/// Bytes that an admin command moves on a drive that may have data placement. Where it has none there are
/// no commands and features of it, and what there is not moves nothing.
pub(crate) fn bytes_of_admin(entry: &SubmissionEntry, has_placement: bool) -> u64 {
    let is_of_placement = match AdminCommand::parse(entry) {
        Ok(
            AdminCommand::SetFeatures(SetFeatures { feature, .. })
            | AdminCommand::GetFeatures(GetFeatures { feature, .. }),
        ) => feature == id::PLACEMENT_EVENTS,
        Ok(AdminCommand::DirectiveReceive(_)) => true,
        _ => false,
    };
    if is_of_placement && !has_placement { 0 } else { admin_bytes(entry) }
}

/// Checks that all is there that an admin command moves: `data` is what has come from the host.
pub(crate) fn check_admin(
    entry: &SubmissionEntry,
    data: &[u8],
    has_placement: bool,
) -> Result<(), Status> {
    let bytes = bytes_of_admin(entry, has_placement);
    match entry.transfer() {
        Transfer::ToHost => check_room(entry, bytes),
        // A list of controllers says itself how long it is.
        _ if entry.opcode == admin::NAMESPACE_ATTACHMENT => Ok(()),
        _ if (data.len() as u64) < bytes => Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()),
        _ => Ok(()),
    }
}
