//! How many bytes an admin command moves between host and controller, as its entry says. That has
//! to be known of commands as well that end with an error once their data are there.

use super::{bit, bits};
use crate::nvme::SubmissionEntry;
use crate::nvme::feature::{PlacementEvents, id, select};
use crate::nvme::identify::IDENTIFY_BYTES;
use crate::nvme::opcode::admin;

/// Bytes that an admin command moves.
pub fn admin_bytes(entry: &SubmissionEntry) -> u64 {
    let (dword10, dword11) = (entry.dword10.get(), entry.dword11.get());
    match entry.opcode {
        admin::IDENTIFY | admin::NAMESPACE_ATTACHMENT => IDENTIFY_BYTES as u64,
        // SEL 0 creates.
        admin::NAMESPACE_MANAGEMENT if bits(dword10, 0, 4) == 0 => IDENTIFY_BYTES as u64,
        admin::GET_LOG_PAGE => (u64::from(dword10 >> 16 | bits(dword11, 0, 16) << 16) + 1) * 4,
        // What a feature allows is in the result.
        admin::GET_FEATURES if bits(dword10, 8, 3) == u32::from(select::SUPPORTED) => 0,
        admin::GET_FEATURES | admin::SET_FEATURES => match dword10 as u8 {
            id::TIMESTAMP => 8,
            id::HOST_BEHAVIOR => 512,
            // EXHID: 128 bits, or 64.
            id::HOST_ID if bit(dword11, 0) => 16,
            id::HOST_ID => 8,
            // A type of events is a byte in Set Features, and has its attributes in Get Features.
            id::PLACEMENT_EVENTS => {
                let types = u64::from(PlacementEvents::from_bits(dword11).types);
                types * if entry.opcode == admin::SET_FEATURES { 1 } else { 2 }
            }
            _ => 0,
        },
        admin::FIRMWARE_IMAGE_DOWNLOAD | admin::DIRECTIVE_RECEIVE => (u64::from(dword10) + 1) * 4,
        _ => 0,
    }
}
