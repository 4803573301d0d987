//! Received bytes become PDUs.

use super::super::digest::{Digests, digest, padded};
use super::super::pdu::{
    CapsuleCommand, CapsuleResponse, CommonHeader, DIGEST_BYTES, Data, FLAG_DATA_DIGEST,
    FLAG_HEADER_DIGEST, FatalError, Initialize, Kind, ReadyToTransfer, Terminate,
};
use super::{End, Fatal};
use crate::nvme::{CompletionEntry, SubmissionEntry};
use std::ops::Range;
use zerocopy::FromBytes;

const COMMON_BYTES: usize = 8;
/// What a terminate PDU may carry of the header at fault.
const TERMINATE_DATA_MAX: u32 = 128;
/// Bytes of a buffer that has just been made.
const BUFFER_BYTES_FIRST: usize = 4 << 10;
/// A buffer grows to this while whole bufferfuls come in.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// With less room than this behind the last byte, what is left is moved to the front.
const ROOM_BYTES_MIN: usize = 1 << 10;

/// Offsets of fields, for the information of a [`Fatal`].
const FIELD_KIND: u32 = 0;
const FIELD_FLAGS: u32 = 1;
const FIELD_HEADER_BYTES: u32 = 2;
const FIELD_DATA_OFFSET: u32 = 3;
const FIELD_PDU_BYTES: u32 = 4;
const FIELD_DATA_BYTES: u32 = 16;

/// The most data that a peer may send in one PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Data in a command capsule.
    pub capsule_data_bytes: u32,
    /// Data in an H2CData or C2HData PDU.
    pub data_bytes: u32,
}

/// The fields of an initialize PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialization {
    pub version: u16,
    /// Data alignment that the sender wants, in dwords less one.
    pub alignment: u8,
    /// Digests wanted (request) or used (response).
    pub digests: u8,
    /// R2Ts less one (request), or data bytes of a PDU (response).
    pub limit: u32,
}

/// Where the data of a capsule lie; valid until the next call of [`Inbound::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapsuleData {
    range: Range<usize>,
    /// Whether the data digest fits, if there is one.
    pub intact: bool,
}

impl CapsuleData {
    pub fn bytes(&self) -> u32 {
        self.range.len() as u32
    }

    /// `bytes` of them from offset `at`.
    #[must_use]
    pub fn part(&self, at: usize, bytes: u32) -> CapsuleData {
        let first = self.range.start + at;
        let range = first..first + bytes as usize;
        assert!(range.end <= self.range.end, "a part lies within the whole");
        CapsuleData { range, intact: self.intact }
    }
}

/// A PDU that has come, checked as far as its header goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// The first PDU of a connection, in either direction.
    Initialize(Initialization),
    /// The peer ends the connection: its reason (a [`FatalError`]) and the information.
    Terminate(u16, u32),
    /// A command with the data of its capsule.
    CapsuleCommand(SubmissionEntry, CapsuleData),
    CapsuleResponse(CompletionEntry),
    /// Data begin; take them with [`Inbound::data`], [`Inbound::took`] and
    /// [`Inbound::end_data`].
    Data(Data),
    /// The controller asks for data.
    ReadyToTransfer(ReadyToTransfer),
}

/// Data of the PDU at hand that have not been taken.
#[derive(Clone, Copy, Debug)]
struct Body {
    bytes: u32,
    left: u32,
    checksum: u32,
}

/// Whether `found` is the digest of data with this checksum and length, padded or not. Sets `pads`
/// to whether they were padded, where that makes a difference.
fn fits(found: &[u8], (checksum, bytes): (u32, usize), pads: &mut bool) -> bool {
    let is = |checksum: u32| found == checksum.to_le_bytes();
    let exact = is(checksum);
    let intact = exact || is(padded(checksum, bytes));
    if intact && !bytes.is_multiple_of(4) {
        *pads = !exact;
    }
    intact
}

/// Cuts a received stream into PDUs.
///
/// Put bytes into [`Inbound::space`] and say so with [`Inbound::received`]; then call
/// [`Inbound::poll`] until it returns `None`. Commands and completions are returned when all
/// of them is here; the data of data PDUs are handed on as they come, so that no buffer need
/// hold a whole PDU. Memory is bounded: by 256 KiB, or one capsule if that is larger.
#[derive(Debug)]
pub struct Inbound {
    receiver: End,
    limits: Limits,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes from `start` without which nothing can go on.
    needed: usize,
    /// The last bytes filled all the space they had.
    was_filled: bool,
    digests: Digests,
    alignment: u8,
    established: bool,
    body: Option<Body>,
    /// The peer's data digests are of data padded to a multiple of four bytes.
    pads: bool,
}

impl Inbound {
    /// The stream that `receiver` receives, at its start.
    pub fn new(receiver: End, limits: Limits) -> Inbound {
        Inbound {
            receiver,
            limits,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            needed: COMMON_BYTES,
            was_filled: false,
            digests: Digests::default(),
            alignment: 4,
            established: false,
            body: None,
            pads: false,
        }
    }

    /// Initialization is over: from here on PDUs have these digests, and data begin at
    /// multiples of `alignment` bytes.
    pub fn establish(&mut self, digests: Digests, alignment: u8) {
        self.digests = digests;
        self.alignment = alignment;
        self.established = true;
    }

    /// Changes what the peer may send.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Room for received bytes; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let held = self.end - self.start;
        let mut bytes = self.buffer.len().max(BUFFER_BYTES_FIRST);
        if self.was_filled && bytes < BUFFER_BYTES_MAX {
            bytes *= 2;
        }
        bytes = bytes.max((self.needed.max(held) + ROOM_BYTES_MIN).next_power_of_two());
        let moved = bytes != self.buffer.len()
            || self.buffer.len() - self.end < ROOM_BYTES_MIN
            || self.start + self.needed > self.buffer.len();
        if moved {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, held);
            }
            self.buffer.resize(bytes, 0);
        }
        self.was_filled = false;
        &mut self.buffer[self.end..]
    }

    /// So many bytes were put into [`Inbound::space`].
    pub fn received(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.buffer.len(), "more received than there was space");
        self.was_filled = self.end == self.buffer.len();
    }

    /// Gives memory back that an idle connection does not need.
    pub fn shrink(&mut self) {
        if self.start == self.end && self.buffer.len() > BUFFER_BYTES_FIRST {
            self.buffer = Vec::new();
            (self.start, self.end) = (0, 0);
        }
    }

    /// Bytes of memory that the stream holds.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The next PDU; `None` until more bytes come or the data at hand have been taken.
    ///
    /// # Errors
    /// If what has come is not a PDU that may come here. The stream is of no use afterwards.
    pub fn poll(&mut self) -> Result<Option<Pdu>, Fatal> {
        if self.body.is_some() {
            return Ok(None);
        }
        let held = &self.buffer[self.start..self.end];
        let Ok((common, _)) = CommonHeader::ref_from_prefix(held) else {
            self.needed = COMMON_BYTES;
            return Ok(None);
        };
        let common = *common;
        let layout = self.layout(&common).map_err(|(error, field)| Fatal {
            error,
            information: field,
            header: held[..held.len().min(usize::from(common.header_bytes)).min(128)].to_vec(),
        })?;
        if held.len() < layout.needed {
            self.needed = layout.needed;
            return Ok(None);
        }
        let header_bytes = usize::from(common.header_bytes);
        let header = &held[..header_bytes];
        let fatal = |error, information| Fatal { error, information, header: header.to_vec() };
        if layout.header_digest {
            let found = &held[header_bytes..header_bytes + DIGEST_BYTES];
            if found != digest(header) {
                let found = u32::from_le_bytes(found.try_into().expect("four bytes"));
                return Err(fatal(FatalError::HeaderDigestError, found));
            }
        }
        let (pdu, consumed) = match layout.kind {
            Kind::InitializeRequest | Kind::InitializeResponse => {
                let fields: &Initialize = read(header);
                let fields = Initialization {
                    version: fields.version.get(),
                    alignment: fields.alignment,
                    digests: fields.digests,
                    limit: fields.limit.get(),
                };
                (Pdu::Initialize(fields), layout.pdu_bytes)
            }
            Kind::TerminateFromHost | Kind::TerminateToHost => {
                let fields: &Terminate = read(header);
                let pdu = Pdu::Terminate(fields.status.get(), fields.information.get());
                (pdu, layout.pdu_bytes)
            }
            Kind::CapsuleCommand => {
                let fields: &CapsuleCommand = read(header);
                let data = layout.data.clone();
                let mut intact = true;
                if !data.is_empty() && self.digests.data {
                    let found = &held[data.end..data.end + DIGEST_BYTES];
                    let of = (crc32c::crc32c(&held[data.clone()]), data.len());
                    intact = fits(found, of, &mut self.pads);
                }
                let range = self.start + data.start..self.start + data.end;
                let pdu = Pdu::CapsuleCommand(fields.entry, CapsuleData { range, intact });
                (pdu, layout.pdu_bytes)
            }
            Kind::CapsuleResponse => {
                let fields: &CapsuleResponse = read(header);
                (Pdu::CapsuleResponse(fields.entry), layout.pdu_bytes)
            }
            Kind::ReadyToTransfer => {
                (Pdu::ReadyToTransfer(*read::<ReadyToTransfer>(header)), layout.pdu_bytes)
            }
            Kind::DataFromHost | Kind::DataToHost => {
                let fields: Data = *read(header);
                if fields.bytes.get() as usize != layout.data.len() {
                    return Err(fatal(FatalError::InvalidHeaderField, FIELD_DATA_BYTES));
                }
                if fields.bytes.get() > self.limits.data_bytes {
                    return Err(fatal(FatalError::LimitExceeded, FIELD_DATA_BYTES));
                }
                let bytes = fields.bytes.get();
                self.body = Some(Body { bytes, left: bytes, checksum: 0 });
                (Pdu::Data(fields), layout.data.start)
            }
        };
        self.start += consumed;
        self.needed = COMMON_BYTES;
        Ok(Some(pdu))
    }

    /// Whether a PDU has begun to come and has not ended, or its data have not been taken.
    #[inline]
    pub fn is_amid_pdu(&self) -> bool {
        self.start < self.end || self.body.is_some()
    }

    /// The bytes of a capsule's data.
    pub fn capsule_data(&self, data: &CapsuleData) -> &[u8] {
        &self.buffer[data.range.clone()]
    }

    /// Data of the data PDU at hand, as far as they have come and were not taken.
    pub fn data(&self) -> &[u8] {
        let left = self.data_left() as usize;
        &self.buffer[self.start..self.end.min(self.start + left)]
    }

    /// The first so many bytes of [`Inbound::data`] were taken.
    pub fn took(&mut self, bytes: usize) {
        let taken = self.start..self.start + bytes;
        assert!(bytes <= self.data().len(), "more taken than has come");
        let body = self.body.as_mut().expect("data are at hand");
        if self.digests.data {
            body.checksum = crc32c::crc32c_append(body.checksum, &self.buffer[taken]);
        }
        body.left -= bytes as u32;
        self.start += bytes;
    }

    /// Data of the PDU at hand that have not been taken, come or not.
    pub fn data_left(&self) -> u32 {
        self.body.map_or(0, |body| body.left)
    }

    /// How many of the coming bytes may be received straight to where they belong instead of
    /// into [`Inbound::space`]: all that is left of the PDU's data, if none wait here.
    pub fn direct(&self) -> u32 {
        if self.start == self.end { self.data_left() } else { 0 }
    }

    /// These bytes of data were received straight to where they belong.
    pub fn received_directly(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.direct() as usize, "more received than the PDU has");
        let body = self.body.as_mut().expect("data are at hand");
        if self.digests.data {
            body.checksum = crc32c::crc32c_append(body.checksum, bytes);
        }
        body.left -= bytes.len() as u32;
    }

    /// Ends the data PDU at hand when all of it was taken: whether its digest fits.
    pub fn end_data(&mut self) -> Option<bool> {
        let body = self.body.filter(|body| body.left == 0)?;
        let mut intact = true;
        if self.digests.data {
            let held = &self.buffer[self.start..self.end];
            let Some(found) = held.first_chunk::<DIGEST_BYTES>() else {
                self.needed = DIGEST_BYTES;
                return None;
            };
            intact = fits(found, (body.checksum, body.bytes as usize), &mut self.pads);
            self.start += DIGEST_BYTES;
        }
        self.body = None;
        self.needed = COMMON_BYTES;
        Some(intact)
    }

    /// Whether the peer was seen to compute data digests over data padded to a multiple of four bytes.
    pub fn pads_digests(&self) -> bool {
        self.pads
    }

    /// Where the parts of a PDU lie, by its common header.
    fn layout(&self, common: &CommonHeader) -> Result<Layout, (FatalError, u32)> {
        let field = |field| Err((FatalError::InvalidHeaderField, field));
        let Some(kind) = Kind::from_byte(common.kind) else { return field(FIELD_KIND) };
        let sender = match kind {
            Kind::InitializeRequest
            | Kind::TerminateFromHost
            | Kind::CapsuleCommand
            | Kind::DataFromHost => End::Host,
            _ => End::Controller,
        };
        if sender == self.receiver {
            return field(FIELD_KIND);
        }
        let initializes = matches!(kind, Kind::InitializeRequest | Kind::InitializeResponse);
        let terminates = matches!(kind, Kind::TerminateFromHost | Kind::TerminateToHost);
        if initializes == self.established && !terminates {
            return Err((FatalError::PduSequenceError, FIELD_KIND));
        }
        let header_bytes = kind.header_bytes();
        if usize::from(common.header_bytes) != header_bytes {
            return field(FIELD_HEADER_BYTES);
        }
        let pdu_bytes = common.pdu_bytes.get() as usize;
        if initializes || terminates {
            let most = header_bytes + if terminates { TERMINATE_DATA_MAX as usize } else { 0 };
            if pdu_bytes < header_bytes || pdu_bytes > most {
                return field(FIELD_PDU_BYTES);
            }
            let none = header_bytes..header_bytes;
            let needed = pdu_bytes;
            return Ok(Layout { kind, header_digest: false, data: none, pdu_bytes, needed });
        }
        if (common.flags & FLAG_HEADER_DIGEST != 0) != self.digests.header {
            return field(FIELD_FLAGS);
        }
        let bare = header_bytes + self.digests.header_bytes();
        let (may, must) = match kind {
            Kind::CapsuleCommand => (true, false),
            Kind::DataFromHost | Kind::DataToHost => (true, true),
            _ => (false, false),
        };
        let has_data = pdu_bytes != bare;
        let header_digest = self.digests.header;
        if !has_data {
            if must {
                return field(FIELD_PDU_BYTES);
            }
            let data = bare..bare;
            return Ok(Layout { kind, header_digest, data, pdu_bytes, needed: bare });
        }
        let first = usize::from(common.data_offset);
        let tail = self.digests.data_bytes();
        if !may || pdu_bytes < bare + 1 + tail {
            return field(FIELD_PDU_BYTES);
        }
        if first < bare || !first.is_multiple_of(usize::from(self.alignment)) {
            return field(FIELD_DATA_OFFSET);
        }
        if pdu_bytes <= first + tail {
            return field(FIELD_PDU_BYTES);
        }
        if (common.flags & FLAG_DATA_DIGEST != 0) != self.digests.data {
            return field(FIELD_FLAGS);
        }
        let data = first..pdu_bytes - tail;
        if kind == Kind::CapsuleCommand && data.len() > self.limits.capsule_data_bytes as usize {
            return field(FIELD_PDU_BYTES);
        }
        let needed = if kind == Kind::CapsuleCommand { pdu_bytes } else { first };
        Ok(Layout { kind, header_digest, data, pdu_bytes, needed })
    }
}

/// Where the parts of a PDU lie, from its first byte.
struct Layout {
    kind: Kind,
    header_digest: bool,
    data: Range<usize>,
    pdu_bytes: usize,
    /// Bytes without which it cannot be looked at.
    needed: usize,
}

/// The header as its type; its length has been checked.
fn read<T>(header: &[u8]) -> &T
where
    T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    T::ref_from_bytes(header).expect("the header has its kind's length")
}
