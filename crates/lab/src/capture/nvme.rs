//! NVMe's entries and NVMe/TCP's PDUs, as far as captures show them.
//!
//! Sections are those of the NVM Express Base Specification 2.0, the NVM Command Set Specification
//! 1.0 and the NVMe/TCP Transport Specification 1.0.

use mynah_model::io::{Operation, Request, Status};
use mynah_model::packets::Packet;

pub(super) const COMMAND_BYTES: usize = 64;
pub(super) const RESPONSE_BYTES: usize = 16;
/// The header of a command's PDU (TCP 3.6.2.4), and of all others that are used here.
pub(super) const TCP_COMMAND_BYTES: usize = 72;
pub(super) const TCP_HEADER_BYTES: usize = 24;
const SECTOR_BYTES: u32 = 512;

/// Where a command's data are, as its SGL says (Base 4.3.2).
#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    /// In the host's memory, under a key (4h, of an address, or one to be invalidated).
    Keyed { address: u64, key: u32, invalidate: bool },
    /// In the capsule (0h, from an offset).
    InCapsule,
    /// In PDUs (5h, of the transport).
    Transport,
}

/// The bytes that a read or a write moves.
pub(super) fn data_bytes(request: &Request) -> u32 {
    match request.operation {
        Operation::Read | Operation::Write | Operation::WriteThrough => {
            request.sectors.saturating_mul(SECTOR_BYTES)
        }
        _ => 0,
    }
}

/// The command identifier.
pub(super) fn identifier(request: &Request) -> u16 {
    request.tag.0 as u16
}

/// A submission queue entry (Base 3.3.3.1; NVM 3.2).
pub(super) fn command(request: &Request, data: Data, data_bytes: u32) -> [u8; COMMAND_BYTES] {
    let mut entry = [0; COMMAND_BYTES];
    let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
    let opcode = match request.operation {
        Operation::Flush => 0x00,
        Operation::Write | Operation::WriteThrough => 0x01,
        Operation::Read => 0x02,
        Operation::Trim => 0x09,
        // What no command of the NVM set is: vendor specific, without data.
        Operation::Other => 0x80,
    };
    // SGLs are used.
    put(0, &[opcode, 0x40]);
    put(2, &identifier(request).to_le_bytes());
    put(4, &request.namespace.0.to_le_bytes());
    match data {
        Data::Keyed { address, key, invalidate } => {
            put(24, &address.to_le_bytes());
            // The length has 24 bits; larger transfers would take several descriptors.
            put(32, &data_bytes.min((1 << 24) - 1).to_le_bytes()[..3]);
            put(35, &key.to_le_bytes());
            put(39, &[if invalidate { 0x4f } else { 0x40 }]);
        }
        Data::InCapsule => {
            put(32, &data_bytes.to_le_bytes());
            put(39, &[0x01]);
        }
        Data::Transport => {
            put(32, &data_bytes.to_le_bytes());
            put(39, &[0x5a]);
        }
    }
    match request.operation {
        Operation::Read | Operation::Write | Operation::WriteThrough => {
            put(40, &request.sector.to_le_bytes());
            let blocks = request.sectors.saturating_sub(1).min(0xffff);
            let fua = u32::from(request.operation == Operation::WriteThrough) << 30;
            put(48, &(blocks | fua).to_le_bytes());
        }
        // One range, to be deallocated.
        Operation::Trim => put(44, &4_u32.to_le_bytes()),
        Operation::Flush | Operation::Other => {}
    }
    entry
}

/// A range to be deallocated (NVM 3.2.3).
pub(super) fn range(request: &Request) -> [u8; 16] {
    let mut range = [0; 16];
    range[4..8].copy_from_slice(&request.sectors.to_le_bytes());
    range[8..].copy_from_slice(&request.sector.to_le_bytes());
    range
}

/// A completion queue entry (Base 3.3.3.2), without the head of the submission queue: that is not
/// modelled.
pub(super) fn response(request: &Request, status: Status) -> [u8; RESPONSE_BYTES] {
    let (kind, code): (u16, u16) = match status {
        Status::Success => (0, 0x00),
        Status::InvalidField => (0, 0x02),
        Status::Aborted => (0, 0x07),
        Status::InvalidNamespace => (0, 0x0b),
        Status::WriteProtected => (0, 0x20),
        Status::LbaOutOfRange => (0, 0x80),
        Status::CapacityExceeded => (0, 0x81),
        Status::WriteFault => (2, 0x80),
        Status::UnrecoveredReadError => (2, 0x81),
    };
    let mut entry = [0; RESPONSE_BYTES];
    entry[12..14].copy_from_slice(&identifier(request).to_le_bytes());
    entry[14..].copy_from_slice(&((kind << 8 | code) << 1).to_le_bytes());
    entry
}

/// The kinds of PDUs (TCP 3.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Pdu {
    Command = 4,
    Response = 5,
    HostData = 6,
    DriveData = 7,
    ReadyToTransfer = 9,
}

/// What every PDU begins with (TCP 3.6.1), and the header's other fields as zeros.
fn header(pdu: Pdu, flags: u8, length: usize, data: u32) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let offset = if data > 0 { length as u8 } else { 0 };
    bytes[..4].copy_from_slice(&[pdu as u8, flags, length as u8, offset]);
    bytes[4..8].copy_from_slice(&(length as u32 + data).to_le_bytes());
    bytes
}

/// A command's PDU, without data but for a range to be deallocated.
pub(super) fn command_pdu(packet: &Packet, inline: u32) -> Vec<u8> {
    let request = &packet.request;
    let bytes = if inline > 0 { inline } else { data_bytes(request) };
    let data = if inline > 0 { Data::InCapsule } else { Data::Transport };
    let mut pdu = header(Pdu::Command, 0, TCP_COMMAND_BYTES, inline);
    pdu[8..].copy_from_slice(&command(request, data, bytes));
    if request.operation == Operation::Trim {
        pdu.extend(range(request));
    }
    pdu
}

pub(super) fn response_pdu(packet: &Packet) -> Vec<u8> {
    let mut pdu = header(Pdu::Response, 0, TCP_HEADER_BYTES, 0);
    pdu[8..].copy_from_slice(&response(&packet.request, packet.status));
    pdu
}

/// The header of data, or a wish for them, all of the command's. Data are the last ones (flag 2),
/// and tell of success if they are to (flag 3). Transfer tags are the command's identifier.
pub(super) fn data_pdu(pdu: Pdu, request: &Request, tells_of_success: bool) -> Vec<u8> {
    let bytes = data_bytes(request);
    let mut header = match pdu {
        Pdu::ReadyToTransfer => header(pdu, 0, TCP_HEADER_BYTES, 0),
        _ => {
            let flags = 0x04 | if tells_of_success { 0x08 } else { 0 };
            header(pdu, flags, TCP_HEADER_BYTES, bytes)
        }
    };
    let identifier = identifier(request).to_le_bytes();
    header[8..10].copy_from_slice(&identifier);
    if pdu != Pdu::DriveData {
        header[10..12].copy_from_slice(&identifier);
    }
    header[16..20].copy_from_slice(&bytes.to_le_bytes());
    header
}

/// A stretch of a message whose first bytes are `head` and whose last are `tail`, with zeros
/// between.
pub(super) fn stretch(head: &[u8], tail: &[u8], offset: u32, length: u32, of: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    let start = (of as usize).saturating_sub(tail.len());
    for (at, part) in [(0, head), (start, tail)] {
        for (byte, place) in part.iter().zip(at..) {
            if let Some(there) = place.checked_sub(offset as usize).and_then(|at| bytes.get_mut(at))
            {
                *there = *byte;
            }
        }
    }
    bytes
}
