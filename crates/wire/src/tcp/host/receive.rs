//! What comes from the target: PDUs are taken apart as their bytes arrive.

use super::{
    DATA_BYTES_MAX, Event, Grant, Host, HostError, Movement, Payload, Result, SLOT_MASK, State,
    violation,
};
use crate::nvme::CompletionEntry;
use crate::tcp::digest;
use crate::tcp::pdu::{self, CommonHeader, DIGEST_BYTES, FatalError, Kind};
use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::{U16, U64};

const COMMON_BYTES: usize = size_of::<CommonHeader>();
/// A termination request with 128 bytes of the offending header.
const TERMINATE_BYTES_MAX: usize = 152;
/// The least that a controller may take in a data PDU (TCP Transport 1.0, section 3.6.2.3).
const DATA_BYTES_MIN: u32 = 4_096;

/// Received bytes that are not yet understood.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    phase: Phase,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// A header.
    Header,
    /// Data of a command, after so many bytes of padding.
    Data { padding: usize, incoming: Incoming },
    /// The digest of data.
    DataDigest { incoming: Incoming },
}

/// A data PDU.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    command_id: u16,
    offset: u32,
    left: u32,
    success: bool,
    /// Of the data so far.
    crc: u32,
}

impl Inbox {
    pub(super) fn new(bytes: usize) -> Inbox {
        Inbox { bytes: vec![0; bytes].into_boxed_slice(), start: 0, end: 0, phase: Phase::Header }
    }

    /// Where further bytes go. All that can be understood has been by now, so what is left
    /// is shorter than the longest header, and moves to the front.
    pub(super) fn free(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    pub(super) fn received(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len() - self.end, "more was received than fits");
        self.end += bytes;
    }

    /// The bytes that come next.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

fn bad_field<T>(offset: usize, what: &'static str) -> Result<T> {
    Err(violation(FatalError::InvalidHeaderField, offset as u32, what))
}

fn out_of_range<T>(what: &'static str) -> Result<T> {
    Err(violation(FatalError::DataOutOfRange, 0, what))
}

fn out_of_order<T>(what: &'static str) -> Result<T> {
    Err(violation(FatalError::PduSequenceError, 0, what))
}

impl Host {
    /// Goes on until something happens or the bytes end.
    #[inline]
    pub(super) fn receive(&mut self, payload: &mut impl Payload) -> Result<Option<Event>> {
        loop {
            match self.inbox.phase {
                Phase::Header => {
                    let Some(bytes) = self.whole_header()? else { return Ok(None) };
                    let event = self.header_arrived()?;
                    self.inbox.start += bytes;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                Phase::Data { padding, incoming } => {
                    let skipped = padding.min(self.inbox.waiting().len());
                    self.inbox.start += skipped;
                    let waiting = self.inbox.waiting();
                    let count = waiting.len().min(incoming.left as usize);
                    if skipped == padding && count > 0 {
                        payload.place(
                            incoming.command_id & SLOT_MASK,
                            incoming.offset,
                            &waiting[..count],
                        );
                    }
                    let mut incoming = incoming;
                    if self.config.digests.data {
                        incoming.crc = crc32c::crc32c_append(incoming.crc, &waiting[..count]);
                    }
                    incoming.offset += count as u32;
                    incoming.left -= count as u32;
                    self.inbox.start += count;
                    if incoming.left > 0 {
                        self.inbox.phase = Phase::Data { padding: padding - skipped, incoming };
                        return Ok(None);
                    }
                    if self.config.digests.data {
                        self.inbox.phase = Phase::DataDigest { incoming };
                        continue;
                    }
                    self.inbox.phase = Phase::Header;
                    if incoming.success {
                        return Ok(Some(self.succeeded(incoming.command_id)));
                    }
                }
                Phase::DataDigest { incoming } => {
                    let Some(digest) = self.inbox.waiting().first_chunk::<DIGEST_BYTES>() else {
                        return Ok(None);
                    };
                    let fits = u32::from_le_bytes(*digest) == incoming.crc;
                    self.inbox.start += DIGEST_BYTES;
                    self.inbox.phase = Phase::Header;
                    self.slot(incoming.command_id)?.digest_failed |= !fits;
                    if incoming.success {
                        return Ok(Some(self.succeeded(incoming.command_id)));
                    }
                }
            }
        }
    }

    /// The length of the next header with its digest (of the whole PDU if it is a termination
    /// request), if it is all here and right as far as all headers are the same.
    #[inline]
    fn whole_header(&self) -> Result<Option<usize>> {
        let waiting = self.inbox.waiting();
        let Some(common) = waiting.first_chunk::<COMMON_BYTES>() else { return Ok(None) };
        let [kind, flags, header_bytes, ..] = *common;
        let pdu_bytes = super::pdu_bytes(common);
        let Some(kind) = Kind::from_byte(kind) else {
            return bad_field(0, "a PDU of a type that does not exist");
        };
        if usize::from(header_bytes) != kind.header_bytes() {
            return bad_field(2, "a header of the wrong length");
        }
        let begun = self.state != State::Initializing;
        let digest = match kind {
            Kind::InitializeResponse if !begun => 0,
            Kind::InitializeResponse => return out_of_order("a second initialization"),
            Kind::TerminateToHost => {
                if !(kind.header_bytes()..=TERMINATE_BYTES_MAX).contains(&pdu_bytes) {
                    return bad_field(4, "a termination request of the wrong length");
                }
                return Ok((waiting.len() >= pdu_bytes).then_some(pdu_bytes));
            }
            _ if !begun => return out_of_order("a PDU before the connection is initialised"),
            Kind::CapsuleResponse | Kind::DataToHost | Kind::ReadyToTransfer => {
                if (flags & pdu::FLAG_HEADER_DIGEST != 0) != self.config.digests.header {
                    return bad_field(1, "a header digest flag that was not agreed upon");
                }
                self.config.digests.header_bytes()
            }
            _ => return out_of_order("a PDU that only hosts send"),
        };
        let bytes = kind.header_bytes() + digest;
        if kind != Kind::DataToHost && pdu_bytes != bytes {
            return bad_field(4, "a PDU of the wrong length");
        }
        if waiting.len() < bytes {
            return Ok(None);
        }
        if digest > 0 {
            let (header, rest) = waiting.split_at(kind.header_bytes());
            let received = [rest[0], rest[1], rest[2], rest[3]];
            if digest::digest(header) != received {
                let received = u32::from_le_bytes(received);
                let error = FatalError::HeaderDigestError;
                return Err(violation(error, received, "a header that does not fit its digest"));
            }
        }
        Ok(Some(bytes))
    }

    /// Acts on the header that comes next, which is whole.
    #[inline]
    fn header_arrived(&mut self) -> Result<Option<Event>> {
        let waiting = self.inbox.waiting();
        match Kind::from_byte(waiting[0]) {
            Some(Kind::DataToHost) => {
                let header = read::<pdu::Data>(waiting);
                self.data_arrived(&header)?;
                Ok(None)
            }
            Some(Kind::CapsuleResponse) => {
                let header = read::<pdu::CapsuleResponse>(waiting);
                self.response_arrived(&header.entry).map(Some)
            }
            Some(Kind::ReadyToTransfer) => {
                let header = read::<pdu::ReadyToTransfer>(waiting);
                self.asked_for_data(&header)?;
                Ok(None)
            }
            Some(Kind::TerminateToHost) => {
                let header = read::<pdu::Terminate>(waiting);
                let (status, information) = (header.status.get(), header.information.get());
                Err(HostError::Terminated { status, information })
            }
            _ => {
                let header = read::<pdu::Initialize>(waiting);
                self.initialized(&header)?;
                Ok(Some(Event::Ready))
            }
        }
    }

    fn initialized(&mut self, header: &pdu::Initialize) -> Result<()> {
        if header.version.get() != 0 {
            return Err(HostError::Unsupported("NVMe/TCP PDU format version 0"));
        }
        let used = digest::Digests::from_byte(header.digests);
        let wanted = self.config.digests;
        if wanted.header && !used.header {
            return Err(HostError::Unsupported("header digests"));
        }
        if wanted.data && !used.data {
            return Err(HostError::Unsupported("data digests"));
        }
        if used != wanted {
            return bad_field(11, "it uses digests that were not asked for");
        }
        if header.alignment > 31 {
            return bad_field(10, "an alignment of data above 128 bytes");
        }
        let limit = header.limit.get();
        if limit < DATA_BYTES_MIN || !limit.is_multiple_of(4) {
            let what = "it takes less data than 4,096 bytes in a PDU, or parts of dwords";
            return bad_field(12, what);
        }
        self.data_bytes_max = limit.min(DATA_BYTES_MAX);
        self.alignment = (usize::from(header.alignment) + 1) * 4;
        self.state = State::Ready;
        Ok(())
    }

    #[inline]
    fn data_arrived(&mut self, header: &pdu::Data) -> Result<()> {
        let common = header.common;
        let flags = common.flags;
        let (offset, bytes) = (header.offset.get(), header.bytes.get());
        let digests = self.config.digests;
        let before = Kind::DataToHost.header_bytes() + digests.header_bytes();
        let data_offset = usize::from(common.data_offset);
        let alignment = (usize::from(self.config.alignment) + 1) * 4;
        if data_offset < before || !data_offset.is_multiple_of(alignment) {
            return bad_field(3, "data that begin at a wrong place in their PDU");
        }
        if (flags & pdu::FLAG_DATA_DIGEST != 0) != digests.data {
            return bad_field(1, "a data digest flag that was not agreed upon");
        }
        let length = data_offset as u64 + u64::from(bytes) + digests.data_bytes() as u64;
        if bytes == 0 || u64::from(common.pdu_bytes.get()) != length {
            return bad_field(4, "a data PDU of the wrong length");
        }
        let last = flags & pdu::FLAG_DATA_LAST != 0;
        let success = flags & pdu::FLAG_DATA_SUCCESS != 0;
        if success && !last {
            return bad_field(1, "a command that succeeded before its last data");
        }
        let command_id = header.command_id.get();
        let slot = self.slot(command_id)?;
        let Movement::ToHost(expected) = slot.movement else {
            return out_of_order("data for a command that reads none");
        };
        if slot.last {
            return out_of_order("data after the last data");
        }
        if offset != slot.moved {
            return out_of_range("data with a gap before them, or that came before");
        }
        if bytes > expected - slot.moved {
            return out_of_range("more data than the command reads");
        }
        slot.moved += bytes;
        slot.last = last;
        let incoming = Incoming { command_id, offset, left: bytes, success, crc: 0 };
        self.inbox.phase = Phase::Data { padding: data_offset - before, incoming };
        Ok(())
    }

    #[inline]
    fn response_arrived(&mut self, entry: &CompletionEntry) -> Result<Event> {
        let slot = self.slot(entry.command_id.get())?;
        if let Movement::FromHost(bytes) = slot.movement
            && (slot.moved < bytes || slot.requests > 0)
            && entry.status().is_success()
        {
            return out_of_order("a write that succeeded without its data");
        }
        Ok(self.complete(*entry))
    }

    /// The command's last data said that it succeeded; there is no completion.
    #[inline]
    fn succeeded(&mut self, command_id: u16) -> Event {
        self.complete(CompletionEntry {
            result: U64::new(0),
            command_id: U16::new(command_id),
            ..CompletionEntry::default()
        })
    }

    fn asked_for_data(&mut self, header: &pdu::ReadyToTransfer) -> Result<()> {
        let (offset, bytes) = (header.offset.get(), header.bytes.get());
        let most = self.config.ready_to_transfer_max;
        let command_id = header.command_id.get();
        let slot = self.slot(command_id)?;
        let Movement::FromHost(expected) = slot.movement else {
            return out_of_order("it asks for data of a command that writes none");
        };
        if slot.requests >= most {
            let what = "it asks for more transfers of a command at once than agreed upon";
            return Err(violation(FatalError::LimitExceeded, 0, what));
        }
        if offset != slot.moved {
            return out_of_range("it asks for data out of order");
        }
        if bytes == 0 || bytes > expected - slot.moved {
            return out_of_range("it asks for more data than the command writes, or for none");
        }
        slot.moved += bytes;
        slot.requests += 1;
        let transfer_tag = header.transfer_tag;
        self.grants.push_back(Grant { command_id, transfer_tag, offset, bytes });
        Ok(())
    }
}

/// The header at the start of bytes that hold all of it.
#[inline]
fn read<H: FromBytes>(bytes: &[u8]) -> H {
    H::read_from_prefix(bytes).expect("the header is whole").0
}
