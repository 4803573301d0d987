//! NVMe's entries and NVMe/TCP's PDUs of modelled requests. Their layouts are those of
//! `mynah_wire`.

use mynah_model::io::{Operation, Request, Status};
use mynah_model::packets::Packet;
use mynah_wire::nvme::command::{BlockCommand, DatasetManagement, NvmCommand};
use mynah_wire::nvme::entry::{DataPointer, SGL_IN_CAPSULE, SGL_TRANSPORT};
use mynah_wire::nvme::protection::DatasetRange;
use mynah_wire::nvme::{CompletionEntry, Status as NvmeStatus, SubmissionEntry};
use mynah_wire::rdma::capsule::Remote;
use mynah_wire::tcp::pdu::{self, CapsuleCommand, CapsuleResponse, CommonHeader, Kind};
use zerocopy::IntoBytes;

const SECTOR_BYTES: u32 = 512;
/// Most blocks of one command.
const BLOCKS_MAX: u32 = 1 << 16;
/// Opcode of requests that are no command of the NVM Command Set: vendor specific, without data.
const VENDOR_SPECIFIC: u8 = 0x80;
/// SGLs describe the data (Base 2.0, section 3.3.3.1, PSDT).
const FLAGS_SGL: u8 = 1 << 6;

/// Where a command's data are, as its SGL says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    /// In the host's memory, under a key.
    Keyed { address: u64, key: u32, invalidate: bool },
    /// In the capsule, behind the command.
    InCapsule,
    /// In data PDUs of NVMe/TCP.
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

fn identifier(request: &Request) -> u16 {
    request.tag.0 as u16
}

/// The submission queue entry of a request.
pub(super) fn command(request: &Request, data: Data, data_bytes: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::default();
    let blocks = BlockCommand {
        start: request.sector,
        blocks: request.sectors.clamp(1, BLOCKS_MAX),
        force_unit_access: request.operation == Operation::WriteThrough,
        ..BlockCommand::default()
    };
    match request.operation {
        Operation::Flush => NvmCommand::Flush.put(&mut entry),
        Operation::Write | Operation::WriteThrough => NvmCommand::Write(blocks).put(&mut entry),
        Operation::Read => NvmCommand::Read(blocks).put(&mut entry),
        Operation::Trim => {
            let trim = DatasetManagement { ranges: 1, deallocates: true };
            NvmCommand::DatasetManagement(trim).put(&mut entry);
        }
        Operation::Other => entry.opcode = VENDOR_SPECIFIC,
    }
    entry.flags = FLAGS_SGL;
    entry.command_id.set(identifier(request));
    entry.namespace_id.set(request.namespace.0);
    let of_kind = |kind| DataPointer { length: data_bytes.into(), kind, ..DataPointer::default() };
    entry.data = match data {
        Data::Keyed { address, key, invalidate } => {
            // Larger transfers would take several descriptors.
            let bytes = data_bytes.min(Remote::BYTES_MAX);
            Remote { address, bytes, key, invalidates: invalidate }.descriptor()
        }
        Data::InCapsule => of_kind(SGL_IN_CAPSULE),
        Data::Transport => of_kind(SGL_TRANSPORT),
    };
    entry
}

/// The Dataset Management range of a deallocation.
pub(super) fn range(request: &Request) -> DatasetRange {
    DatasetRange {
        attributes: 0.into(),
        blocks: request.sectors.into(),
        start: request.sector.into(),
    }
}

/// A completion queue entry, without the head of the submission queue: that is not modelled.
pub(super) fn response(request: &Request, status: Status) -> CompletionEntry {
    let status = match status {
        Status::Success => NvmeStatus::SUCCESS,
        Status::InvalidField => NvmeStatus::INVALID_FIELD,
        Status::Aborted => NvmeStatus::ABORT_REQUESTED,
        Status::InvalidNamespace => NvmeStatus::INVALID_NAMESPACE,
        Status::WriteProtected => NvmeStatus::NAMESPACE_WRITE_PROTECTED,
        Status::LbaOutOfRange => NvmeStatus::LBA_OUT_OF_RANGE,
        Status::CapacityExceeded => NvmeStatus::CAPACITY_EXCEEDED,
        Status::WriteFault => NvmeStatus::WRITE_FAULT,
        Status::UnrecoveredReadError => NvmeStatus::UNRECOVERED_READ_ERROR,
    };
    CompletionEntry::new(identifier(request), status, 0)
}

fn header(kind: Kind, flags: u8, data_bytes: u32) -> CommonHeader {
    let header_bytes = kind.header_bytes() as u8;
    CommonHeader {
        kind: kind as u8,
        flags,
        header_bytes,
        data_offset: if data_bytes > 0 { header_bytes } else { 0 },
        pdu_bytes: (u32::from(header_bytes) + data_bytes).into(),
    }
}

/// A command's PDU, without data but for a range to be deallocated.
pub(super) fn command_pdu(packet: &Packet, inline: u32) -> Vec<u8> {
    let request = &packet.request;
    let bytes = if inline > 0 { inline } else { data_bytes(request) };
    let data = if inline > 0 { Data::InCapsule } else { Data::Transport };
    let common = header(Kind::CapsuleCommand, 0, inline);
    let entry = command(request, data, bytes);
    let mut pdu = CapsuleCommand { common, entry }.as_bytes().to_vec();
    if request.operation == Operation::Trim {
        pdu.extend(range(request).as_bytes());
    }
    pdu
}

pub(super) fn response_pdu(packet: &Packet) -> Vec<u8> {
    let common = header(Kind::CapsuleResponse, 0, 0);
    let entry = response(&packet.request, packet.status);
    CapsuleResponse { common, entry }.as_bytes().to_vec()
}

/// The header of data, all of the command's, which are the last ones and tell of success if they
/// are to. Transfer tags are the command's identifier.
pub(super) fn data_pdu(kind: Kind, request: &Request, tells_of_success: bool) -> Vec<u8> {
    let bytes = data_bytes(request);
    let success = if tells_of_success { pdu::FLAG_DATA_SUCCESS } else { 0 };
    let transfer_tag = if kind == Kind::DataToHost { 0 } else { identifier(request) };
    let data = pdu::Data {
        common: header(kind, pdu::FLAG_DATA_LAST | success, bytes),
        command_id: identifier(request).into(),
        transfer_tag: transfer_tag.into(),
        offset: 0.into(),
        bytes: bytes.into(),
        reserved: [0; 4],
    };
    data.as_bytes().to_vec()
}

/// The R2T PDU that asks for all of a command's data.
pub(super) fn request_pdu(request: &Request) -> Vec<u8> {
    let wish = pdu::ReadyToTransfer {
        common: header(Kind::ReadyToTransfer, 0, 0),
        command_id: identifier(request).into(),
        transfer_tag: identifier(request).into(),
        offset: 0.into(),
        bytes: data_bytes(request).into(),
        reserved: [0; 4],
    };
    wish.as_bytes().to_vec()
}

/// Part of a message that begins with `head` and ends with `tail`, with zeros between.
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
