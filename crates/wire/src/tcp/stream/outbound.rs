//! PDUs become bytes to send.

use super::super::digest::{Digests, digest, padded};
use super::super::pdu::{
    CapsuleCommand, CapsuleResponse, CommonHeader, DIGEST_BYTES, Data, FLAG_DATA_DIGEST,
    FLAG_HEADER_DIGEST, Initialize, Kind, ReadyToTransfer, Terminate,
};
use super::{End, Fatal, Initialization};
use crate::nvme::{CompletionEntry, SubmissionEntry};
use std::collections::VecDeque;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromZeros, Immutable, IntoBytes, KnownLayout};

const BUFFER_BYTES_FIRST: usize = 2 << 10;

/// Data that are sent from where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loan {
    /// Where in the buffer they belong.
    at: usize,
    address: u64,
    bytes: usize,
}

/// A run of what is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Bytes(&'a [u8]),
    /// Bytes that the owner has at this address.
    Lent {
        address: u64,
        bytes: usize,
    },
}

/// Puts PDUs together: in one contiguous buffer, but for data that their owner lends.
///
/// Send [`Outbound::pieces`] and say how much with [`Outbound::sent`]. Lent data must not
/// change until they are sent, or [`Outbound::settle`] copies what is left of them. How much
/// may gather here is for the owner to bound: look at [`Outbound::len`] before adding data.
#[derive(Debug)]
pub struct Outbound {
    sender: End,
    /// All of it is initialised; what is to be sent lies between `start` and `end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    loans: VecDeque<Loan>,
    lent_bytes: usize,
    digests: Digests,
    alignment: u8,
    /// Data digests are of data padded to a multiple of four bytes.
    pads: bool,
}

impl Outbound {
    /// The stream that `sender` sends, at its start.
    pub fn new(sender: End) -> Outbound {
        Outbound {
            sender,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            loans: VecDeque::new(),
            lent_bytes: 0,
            digests: Digests::default(),
            alignment: 4,
            pads: false,
        }
    }

    /// Computes data digests as the peer does from now on; see [`super::Inbound::pads_digests`].
    pub fn pad_digests(&mut self, pads: bool) {
        self.pads = pads;
    }

    /// Initialization is over: from here on PDUs have these digests, and data begin at
    /// multiples of `alignment` bytes.
    pub fn establish(&mut self, digests: Digests, alignment: u8) {
        self.digests = digests;
        self.alignment = alignment;
    }

    pub fn digests(&self) -> Digests {
        self.digests
    }

    /// What is to be sent, as far as it lies here: everything, unless something is lent.
    pub fn bytes(&self) -> &[u8] {
        let end = self.loans.front().map_or(self.end, |loan| loan.at);
        &self.buffer[self.start..end]
    }

    /// What is to be sent, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let ends = self.loans.iter().map(|loan| loan.at).chain([self.end]);
        let lent = self.loans.iter().map(Some).chain([None]);
        let mut start = self.start;
        ends.zip(lent).flat_map(move |(end, loan)| {
            let bytes = &self.buffer[start..end];
            start = end;
            let loan = loan.map(|loan| Piece::Lent { address: loan.address, bytes: loan.bytes });
            [(!bytes.is_empty()).then_some(Piece::Bytes(bytes)), loan].into_iter().flatten()
        })
    }

    /// How many bytes are to be sent.
    pub fn len(&self) -> usize {
        self.end - self.start + self.lent_bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first so many of [`Outbound::pieces`]' bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "more sent than there was");
        let mut left = bytes;
        while let Some(loan) = self.loans.front_mut() {
            let before = left.min(loan.at - self.start);
            self.start += before;
            left -= before;
            let part = left.min(loan.bytes);
            loan.address += part as u64;
            loan.bytes -= part;
            left -= part;
            self.lent_bytes -= part;
            if self.start < loan.at || loan.bytes > 0 {
                return;
            }
            self.loans.pop_front();
        }
        self.start += left;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Takes everything that is lent into the buffer; `copy` copies bytes from an address.
    pub fn settle(&mut self, mut copy: impl FnMut(u64, &mut [u8])) {
        if self.loans.is_empty() {
            return;
        }
        let mut buffer = vec![0; self.len().next_power_of_two()];
        let (mut from, mut end) = (self.start, 0);
        for loan in self.loans.drain(..) {
            let before = &self.buffer[from..loan.at];
            buffer[end..end + before.len()].copy_from_slice(before);
            (from, end) = (loan.at, end + before.len());
            copy(loan.address, &mut buffer[end..end + loan.bytes]);
            end += loan.bytes;
        }
        let rest = &self.buffer[from..self.end];
        buffer[end..end + rest.len()].copy_from_slice(rest);
        end += rest.len();
        (self.buffer, self.start, self.end, self.lent_bytes) = (buffer, 0, end, 0);
    }

    /// Gives memory back that an idle connection does not need.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.buffer.len() > BUFFER_BYTES_FIRST {
            self.buffer = Vec::new();
            self.loans = VecDeque::new();
        }
    }

    /// Bytes of memory that the stream holds.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len() + self.loans.capacity() * size_of::<Loan>()
    }

    /// The first PDU of the connection.
    pub fn initialize(&mut self, fields: Initialization) {
        let kind = match self.sender {
            End::Host => Kind::InitializeRequest,
            End::Controller => Kind::InitializeResponse,
        };
        let bytes = kind.header_bytes();
        let pdu = Initialize {
            common: common(kind, 0, bytes, 0, bytes),
            version: U16::new(fields.version),
            alignment: fields.alignment,
            digests: fields.digests,
            limit: U32::new(fields.limit),
            reserved: [0; 112],
        };
        self.reserve(bytes).copy_from_slice(pdu.as_bytes());
    }

    /// The last PDU of the connection: what the peer did wrong.
    pub fn terminate(&mut self, fatal: &Fatal) {
        let kind = match self.sender {
            End::Host => Kind::TerminateFromHost,
            End::Controller => Kind::TerminateToHost,
        };
        let header_bytes = kind.header_bytes();
        let data = &fatal.header[..fatal.header.len().min(128)];
        let bytes = header_bytes + data.len();
        let pdu = Terminate {
            common: common(kind, 0, header_bytes, 0, bytes),
            status: U16::new(fatal.error as u16),
            information: U32::new(fatal.information),
            reserved: [0; 10],
        };
        let room = self.reserve(bytes);
        room[..header_bytes].copy_from_slice(pdu.as_bytes());
        room[header_bytes..].copy_from_slice(data);
    }

    /// A command, with `data_bytes` of data in its capsule that `fill` writes.
    pub fn command(
        &mut self,
        entry: &SubmissionEntry,
        data_bytes: u32,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let pdu = CapsuleCommand { common: CommonHeader::default(), entry: *entry };
        self.pdu(Kind::CapsuleCommand, 0, pdu, data_bytes, fill);
    }

    pub fn response(&mut self, entry: &CompletionEntry) {
        let pdu = CapsuleResponse { common: CommonHeader::default(), entry: *entry };
        self.pdu(Kind::CapsuleResponse, 0, pdu, 0, |_| ());
    }

    /// The controller asks for data.
    pub fn ready_to_transfer(&mut self, command_id: u16, tag: u16, offset: u32, bytes: u32) {
        let pdu = ReadyToTransfer {
            common: CommonHeader::default(),
            command_id: U16::new(command_id),
            transfer_tag: U16::new(tag),
            offset: U32::new(offset),
            bytes: U32::new(bytes),
            reserved: [0; 4],
        };
        self.pdu(Kind::ReadyToTransfer, 0, pdu, 0, |_| ());
    }

    /// Data of a command, in the sender's direction: `bytes` at `offset` that `fill` writes.
    /// `flags` are those of data PDUs; digest flags are added.
    pub fn data(
        &mut self,
        command_id: u16,
        tag: u16,
        offset: u32,
        bytes: u32,
        flags: u8,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let (kind, pdu) = self.data_header(command_id, tag, offset, bytes);
        self.pdu(kind, flags, pdu, bytes, fill);
    }

    /// Like [`Outbound::data`], with lent data: they are at `address` until they have been sent.
    /// Without data digests only, since nobody looks at them here.
    pub fn data_lent(
        &mut self,
        command_id: u16,
        tag: u16,
        offset: u32,
        bytes: u32,
        flags: u8,
        address: u64,
    ) {
        assert!(!self.digests.data, "somebody has to compute digests");
        let (kind, pdu) = self.data_header(command_id, tag, offset, bytes);
        self.header(kind, flags, pdu, bytes);
        if bytes > 0 {
            self.loans.push_back(Loan { at: self.end, address, bytes: bytes as usize });
            self.lent_bytes += bytes as usize;
        }
    }

    fn data_header(&self, command_id: u16, tag: u16, offset: u32, bytes: u32) -> (Kind, Data) {
        let kind = match self.sender {
            End::Host => Kind::DataFromHost,
            End::Controller => Kind::DataToHost,
        };
        let pdu = Data {
            common: CommonHeader::default(),
            command_id: U16::new(command_id),
            transfer_tag: U16::new(tag),
            offset: U32::new(offset),
            bytes: U32::new(bytes),
            reserved: [0; 4],
        };
        (kind, pdu)
    }

    /// Appends a PDU; the common header of `header` is filled in here.
    fn pdu<H: IntoBytes + Immutable + KnownLayout>(
        &mut self,
        kind: Kind,
        flags: u8,
        header: H,
        data_bytes: u32,
        fill: impl FnOnce(&mut [u8]),
    ) {
        self.header(kind, flags, header, data_bytes);
        if data_bytes == 0 {
            return;
        }
        let (has_digest, pads) = (self.digests.data, self.pads);
        let data = self.reserve(data_bytes as usize);
        fill(data);
        if has_digest {
            let checksum = crc32c::crc32c(data);
            let checksum = if pads { padded(checksum, data.len()) } else { checksum };
            self.reserve(DIGEST_BYTES).copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Appends a PDU's header, up to where its data begin.
    fn header<H: IntoBytes + Immutable + KnownLayout>(
        &mut self,
        kind: Kind,
        flags: u8,
        header: H,
        data_bytes: u32,
    ) {
        let digests = self.digests;
        let header_bytes = kind.header_bytes();
        let bare = header_bytes + digests.header_bytes();
        let data_bytes = data_bytes as usize;
        let (first, end) = match data_bytes {
            0 => (bare, bare),
            _ => {
                let first = bare.next_multiple_of(usize::from(self.alignment));
                (first, first + data_bytes)
            }
        };
        let tail = if data_bytes > 0 { digests.data_bytes() } else { 0 };
        let mut flags = flags;
        if digests.header {
            flags |= FLAG_HEADER_DIGEST;
        }
        if tail > 0 {
            flags |= FLAG_DATA_DIGEST;
        }
        let offset = if data_bytes > 0 { first } else { 0 };
        let common = common(kind, flags, header_bytes, offset, end + tail);
        let room = self.reserve(first);
        room[..header_bytes].copy_from_slice(header.as_bytes());
        room[..common.as_bytes().len()].copy_from_slice(common.as_bytes());
        if digests.header {
            let digest = digest(&room[..header_bytes]);
            room[header_bytes..bare].copy_from_slice(&digest);
        }
        room[bare..first].zero();
    }

    /// Appends `bytes` with any contents.
    fn reserve(&mut self, bytes: usize) -> &mut [u8] {
        if self.buffer.len() - self.end < bytes {
            let held = self.end - self.start;
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.loans.iter_mut().for_each(|loan| loan.at -= self.start);
                (self.start, self.end) = (0, held);
            }
            // Twice what is held, so that moving it to the front is rare.
            let wanted = (2 * held + bytes).next_power_of_two().max(BUFFER_BYTES_FIRST);
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
        }
        let first = self.end;
        self.end += bytes;
        &mut self.buffer[first..self.end]
    }
}

fn common(
    kind: Kind,
    flags: u8,
    header_bytes: usize,
    data_offset: usize,
    pdu_bytes: usize,
) -> CommonHeader {
    CommonHeader {
        kind: kind as u8,
        flags,
        header_bytes: header_bytes as u8,
        data_offset: data_offset as u8,
        pdu_bytes: U32::new(pdu_bytes as u32),
    }
}
