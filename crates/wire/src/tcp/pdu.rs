//! Protocol data units (TCP Transport 1.0, section 3.6).
//!
//! A PDU is a common header of 8 bytes, a header that depends on its type, a header digest
//! if the connection has them, padding, data, and a data digest if the connection has them.

use crate::nvme::{CompletionEntry, SubmissionEntry};
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header or data digest.
pub const DIGEST_BYTES: usize = 4;

/// PDU-Type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// ICReq: initialize connection request, from the host.
    InitializeRequest = 0x00,
    /// ICResp: initialize connection response.
    InitializeResponse = 0x01,
    /// H2CTermReq: the host ends the connection because of an error.
    TerminateFromHost = 0x02,
    /// C2HTermReq: the controller ends the connection because of an error.
    TerminateToHost = 0x03,
    /// CapsuleCmd.
    CapsuleCommand = 0x04,
    /// CapsuleResp.
    CapsuleResponse = 0x05,
    /// H2CData.
    DataFromHost = 0x06,
    /// C2HData.
    DataToHost = 0x07,
    /// R2T.
    ReadyToTransfer = 0x09,
}

impl Kind {
    /// The kind of a PDU-type byte.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            0x00 => Kind::InitializeRequest,
            0x01 => Kind::InitializeResponse,
            0x02 => Kind::TerminateFromHost,
            0x03 => Kind::TerminateToHost,
            0x04 => Kind::CapsuleCommand,
            0x05 => Kind::CapsuleResponse,
            0x06 => Kind::DataFromHost,
            0x07 => Kind::DataToHost,
            0x09 => Kind::ReadyToTransfer,
            _ => return None,
        })
    }

    /// Bytes of the whole header of such a PDU, the common header included, without digest.
    pub fn header_bytes(self) -> usize {
        match self {
            Kind::InitializeRequest | Kind::InitializeResponse => 128,
            Kind::CapsuleCommand => 72,
            _ => 24,
        }
    }
}

/// Header digest follows the header.
pub const FLAG_HEADER_DIGEST: u8 = 1 << 0;
/// Data digest follows the data.
pub const FLAG_DATA_DIGEST: u8 = 1 << 1;
/// The last data PDU of a transfer.
pub const FLAG_DATA_LAST: u8 = 1 << 2;
/// The command succeeded: no completion follows.
pub const FLAG_DATA_SUCCESS: u8 = 1 << 3;

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
pub struct CommonHeader {
    /// [`Kind`].
    pub kind: u8,
    /// FLAGS; their meaning depends on the type.
    pub flags: u8,
    /// HLEN: bytes of the header, without digest.
    pub header_bytes: u8,
    /// PDO: where the data begin, from the PDU's first byte; 0 without data.
    pub data_offset: u8,
    /// PLEN: bytes of the whole PDU.
    pub pdu_bytes: U32,
}

/// Initialize connection request and response.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Initialize {
    pub common: CommonHeader,
    /// PDU format version: 0.
    pub version: U16,
    /// Data alignment that the sender wants, in dwords less one: 0 to 31.
    pub alignment: u8,
    /// Digests wanted (request) or used (response): header (bit 0), data (bit 1).
    pub digests: u8,
    /// Request: outstanding R2Ts a command may have, less one. Response: most data bytes
    /// the controller takes in one PDU, at least 4,096.
    pub limit: U32,
    pub reserved: [u8; 112],
}

/// A command, with data behind it if they are in the capsule.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CapsuleCommand {
    pub common: CommonHeader,
    pub entry: SubmissionEntry,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CapsuleResponse {
    pub common: CommonHeader,
    pub entry: CompletionEntry,
}

/// Header of data in either direction.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Data {
    pub common: CommonHeader,
    /// CCCID: the command's identifier.
    pub command_id: U16,
    /// The R2T's tag; zero for data to the host.
    pub transfer_tag: U16,
    /// DATAO: offset in the command's data.
    pub offset: U32,
    /// DATAL: bytes of data.
    pub bytes: U32,
    pub reserved: [u8; 4],
}

/// The controller asks for data.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ReadyToTransfer {
    pub common: CommonHeader,
    /// CCCID: the command's identifier.
    pub command_id: U16,
    /// R2TT: returned with the data.
    pub transfer_tag: U16,
    /// R2TO: offset in the command's data.
    pub offset: U32,
    /// R2TL: bytes of data.
    pub bytes: U32,
    pub reserved: [u8; 4],
}

/// Either side ends the connection; up to 128 bytes of the offending header follow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Terminate {
    pub common: CommonHeader,
    /// [`FatalError`].
    pub status: U16,
    /// Where the bad field is, or what the bad value was.
    pub information: U32,
    pub reserved: [u8; 10],
}

/// Why a connection is ended (TCP Transport 1.0, figures 14 and 17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FatalError {
    /// A header field is not valid; the information is its offset.
    InvalidHeaderField = 1,
    /// The PDU came at the wrong moment.
    PduSequenceError = 2,
    /// The header digest is wrong; the information is the digest received.
    HeaderDigestError = 3,
    /// Data outside what was asked for.
    DataOutOfRange = 4,
    /// More than a limit allows (data from the host: the limit of the response PDU).
    LimitExceeded = 5,
    /// A parameter is not supported.
    UnsupportedParameter = 6,
}
