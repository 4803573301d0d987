//! Submission and completion queue entries (Base 2.0, sections 3.3.3.1 and 3.3.3.2).

use super::Status;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A submission queue entry: 64 bytes.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct SubmissionEntry {
    /// The command; [`super::opcode`].
    pub opcode: u8,
    /// Fused operation (bits 1:0) and whether PRPs or SGLs describe the data (bits 7:6).
    pub flags: u8,
    /// CID: command identifier, chosen by the host.
    pub command_id: U16,
    /// NSID. A Fabrics command has its type in the lowest byte.
    pub namespace_id: U32,
    pub dword2: U32,
    pub dword3: U32,
    /// MPTR: metadata pointer.
    pub metadata: U64,
    /// The data pointer: two PRP entries or one SGL descriptor.
    pub data: DataPointer,
    pub dword10: U32,
    pub dword11: U32,
    pub dword12: U32,
    pub dword13: U32,
    pub dword14: U32,
    pub dword15: U32,
}

/// The data pointer of a submission queue entry, read as an SGL descriptor (Base 2.0,
/// section 4.1.2). As PRPs, `address` is PRP 1 and the rest PRP 2.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct DataPointer {
    /// An address, or an offset into the capsule's data.
    pub address: U64,
    /// In bytes.
    pub length: U32,
    pub reserved: [u8; 3],
    /// Descriptor type (bits 7:4) and sub type (bits 3:0).
    pub kind: u8,
}

/// Types of SGL descriptors (bits 7:4 of [`DataPointer::kind`]).
pub mod sgl {
    pub const DATA_BLOCK: u8 = 0;
    pub const BIT_BUCKET: u8 = 1;
    pub const SEGMENT: u8 = 2;
    pub const LAST_SEGMENT: u8 = 3;
}

/// SGL descriptor of data that lies in the capsule: a data block with an offset.
pub const SGL_IN_CAPSULE: u8 = 0x01;
/// SGL descriptor of data that the transport moves (TCP Transport 1.0, section 3.2.1).
pub const SGL_TRANSPORT: u8 = 0x5a;

impl SubmissionEntry {
    pub const BYTES: usize = 64;

    /// The direction in which this command's data move, as the opcode says (Base 2.0, figure 137).
    /// A Fabrics command has that in its type.
    /// Fabrics command has that in its type.
    pub fn transfer(&self) -> Transfer {
        let code =
            if self.opcode == super::opcode::FABRICS { self.fabrics_type() } else { self.opcode };
        match code & 3 {
            0 => Transfer::None,
            1 => Transfer::FromHost,
            2 => Transfer::ToHost,
            _ => Transfer::Both,
        }
    }

    /// The first PRP entry (Base 2.0, section 4.1.1).
    pub fn prp1(&self) -> u64 {
        self.data.address.get()
    }

    /// The second PRP entry, or where the PRP list is.
    pub fn prp2(&self) -> u64 {
        let [a, b, c] = self.data.reserved;
        let high = u32::from_le_bytes([a, b, c, self.data.kind]);
        u64::from(self.data.length.get()) | u64::from(high) << 32
    }

    /// Describes the data with two PRP entries.
    pub fn set_prps(&mut self, first: u64, second: u64) {
        self.flags &= 0x3f;
        self.data.address.set(first);
        self.data.length.set(second as u32);
        let [a, b, c, d] = ((second >> 32) as u32).to_le_bytes();
        (self.data.reserved, self.data.kind) = ([a, b, c], d);
    }

    /// The type of a Fabrics command.
    pub fn fabrics_type(&self) -> u8 {
        self.namespace_id.get() as u8
    }

    /// First logical block of an I/O command.
    pub fn start_lba(&self) -> u64 {
        u64::from(self.dword11.get()) << 32 | u64::from(self.dword10.get())
    }

    /// Number of logical blocks of an I/O command, 1 to 65,536.
    pub fn block_count(&self) -> u32 {
        (self.dword12.get() & 0xffff) + 1
    }
}

/// Direction of a command's data transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    None,
    FromHost,
    ToHost,
    /// Both directions; no command of the command sets here does that.
    Both,
}

/// A completion queue entry: 16 bytes.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct CompletionEntry {
    /// Dwords 0 and 1: the command's result.
    pub result: U64,
    /// SQHD: the controller's head of the submission queue.
    pub queue_head: U16,
    /// SQID.
    pub queue_id: U16,
    /// CID.
    pub command_id: U16,
    /// Phase (bit 0) and status (bits 15:1).
    pub status_and_phase: U16,
}

impl CompletionEntry {
    pub const BYTES: usize = 16;

    /// A completion of `command_id`; the transport fills in the queue's fields.
    pub fn new(command_id: u16, status: Status, result: u64) -> CompletionEntry {
        CompletionEntry {
            result: U64::new(result),
            command_id: U16::new(command_id),
            status_and_phase: U16::new(status.to_bits() << 1),
            ..CompletionEntry::default()
        }
    }

    pub fn status(&self) -> Status {
        Status::from_bits(self.status_and_phase.get() >> 1)
    }
}
