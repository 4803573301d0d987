//! The controller's end of a connection.
//!
//! Bytes go in ([`Connection::receive_buffer`], [`Connection::received`]), commands come out
//! with all their data ([`Connection::poll`]), completions go in ([`Connection::respond`],
//! [`Connection::respond_with_data`]), bytes come out ([`Connection::output`],
//! [`Connection::sent`]). Data that do not come in a capsule are asked for with R2Ts as
//! memory allows. What a host does wrong is answered as the specification has it: with a
//! status where one command is at fault, else with a terminate PDU, after which the
//! connection has ended.
//!
//! The machine bounds everything a host can make it hold: commands by the queue's size, data
//! by the pool, output by [`Connection::has_room`].

#[cfg(test)]
mod tests;
mod transfer;

use super::digest::Digests;
use super::pdu::{Data, FLAG_DATA_LAST, FLAG_DATA_SUCCESS, FatalError};
use super::pool::{Owner, TransferPool};
use super::stream::{
    CapsuleData, End, Fatal, Inbound, Initialization, Limits, Outbound, Pdu, Piece, alignment_bytes,
};
use crate::nvme::entry::{SGL_IN_CAPSULE, SGL_TRANSPORT, Transfer as Direction};
use crate::nvme::{CompletionEntry, Status, SubmissionEntry, opcode};
use std::collections::VecDeque;
use transfer::Transfers;

/// Less than this is copied rather than received straight to its place.
const DIRECT_BYTES_MIN: u32 = 8 << 10;

/// However many R2Ts a host takes, a command has no more than this.
const READY_MAX: u32 = 16;

/// Offsets of fields in an initialize request and in a data PDU.
const FIELD_FLAGS: u32 = 1;
const FIELD_VERSION: u32 = 8;
const FIELD_ALIGNMENT: u32 = 10;

/// What the controller offers to a host, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Data a command capsule may carry.
    pub capsule_data_bytes: u32,
    /// Data one PDU from the host may carry (MAXH2CDATA), at least 4,096.
    pub data_pdu_bytes: u32,
    /// Data one command may move.
    pub transfer_bytes: u32,
    /// Most data that one R2T asks for.
    pub ready_bytes: u32,
    /// Data one PDU to the host carries.
    pub data_to_host_bytes: u32,
    /// Digests used if the host wants them.
    pub digests: Digests,
    /// Alignment of data from the host, in dwords less one, at most 31.
    pub alignment: u8,
    /// With more output than this, no reply is taken.
    pub output_bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capsule_data_bytes: 8 << 10,
            data_pdu_bytes: 1 << 20,
            transfer_bytes: 1 << 20,
            ready_bytes: 1 << 20,
            data_to_host_bytes: 1 << 20,
            digests: Digests { header: true, data: true },
            alignment: 0,
            output_bytes: 256 << 10,
        }
    }
}

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The host broke the protocol.
    Fatal(Fatal),
    /// The host said so: status and information of its terminate PDU.
    Terminated(u16, u32),
}

/// What [`Connection::poll`] reports.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A command has come with all its data.
    Command {
        entry: SubmissionEntry,
        /// Its data, if it moves data from the host.
        data: &'a [u8],
        /// If the data had to be asked for: the stamp ([`Connection::set_stamp`]) of when the
        /// command itself came.
        asked: Option<u64>,
        /// How many commands the host had sent before it, modulo 2^32.
        nth: u32,
    },
    /// The connection has ended: send what is left of the output, and close it.
    Ended(Ended),
}

/// Where the data of the PDU at hand go.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    tag: u16,
    at: u32,
    bytes: u32,
}

/// The half of a fused pair that came first and waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fused {
    /// This transfer waits for its partner to come.
    Alone(u16),
    /// Both are here, but not all of their data.
    Pair(u16, u16),
}

/// A connection, seen from the controller.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    inbound: Inbound,
    outbound: Outbound,
    transfers: Transfers,
    incoming: Option<Incoming>,
    /// The buffer last given out goes straight to its place.
    direct: bool,
    fused: Option<Fused>,
    ended: Option<Ended>,
    over: bool,
    /// R2Ts the host takes for one command.
    ready_max: u32,
    /// It has become a queue, and nothing has been answered since: the next answer is Connect's.
    is_fresh: bool,
    /// Commands that have come and are not answered.
    outstanding: u32,
    entries: u32,
    queue_id: u16,
    head: u16,
    flow_control: bool,
    damaged: u64,
    stamp: u64,
    /// Commands received so far, modulo 2^32.
    commands: u32,
    /// Requests for data that were put into the output, if anybody wants to know.
    requests: Option<VecDeque<(u16, usize)>>,
}

impl Connection {
    /// A connection that a host has just opened.
    pub fn new(settings: Settings) -> Connection {
        Connection::of(Owner::default(), settings)
    }

    /// Like [`Connection::new`], with buffers lent to one of the pool's owners.
    pub fn of(owner: Owner, settings: Settings) -> Connection {
        let limits = Limits {
            capsule_data_bytes: settings.capsule_data_bytes,
            data_bytes: settings.data_pdu_bytes,
        };
        Connection {
            settings,
            inbound: Inbound::new(End::Controller, limits),
            outbound: Outbound::new(End::Controller),
            transfers: Transfers::of(owner),
            incoming: None,
            direct: false,
            fused: None,
            ended: None,
            over: false,
            ready_max: 1,
            is_fresh: false,
            outstanding: 0,
            entries: 1,
            queue_id: 0,
            head: 0,
            flow_control: true,
            damaged: 0,
            stamp: 0,
            commands: 0,
            requests: None,
        }
    }

    /// Whether [`Connection::next_request`] reports requests for data. They then have to be taken
    /// after every [`Connection::poll`] and [`Connection::grant`].
    #[inline]
    pub fn tell_requests(&mut self, tells: bool) {
        if tells != self.requests.is_some() {
            self.requests = tells.then(VecDeque::new);
        }
    }

    /// The next request for data (R2T): of which command, and where it ends in the output.
    #[inline]
    pub fn next_request(&mut self) -> Option<(u16, usize)> {
        self.requests.as_mut()?.pop_front()
    }

    /// The time, in any unit, of the bytes that are received from here on.
    pub fn set_stamp(&mut self, stamp: u64) {
        self.stamp = stamp;
    }

    /// Room for received bytes; never empty. Receive only when [`Connection::poll`] has
    /// nothing to say and [`Connection::may_receive`].
    pub fn receive_buffer(&mut self) -> &mut [u8] {
        let left = self.inbound.direct();
        if left >= DIRECT_BYTES_MIN
            && let Some(incoming) = self.incoming
        {
            self.direct = true;
            return self.transfers.place(incoming.tag, incoming.at, left);
        }
        self.inbound.space()
    }

    /// So many bytes were put into [`Connection::receive_buffer`].
    pub fn received(&mut self, bytes: usize) {
        if std::mem::take(&mut self.direct)
            && let Some(incoming) = &mut self.incoming
        {
            let place = self.transfers.place(incoming.tag, incoming.at, bytes as u32);
            self.inbound.received_directly(place);
            incoming.at += bytes as u32;
        } else {
            self.inbound.received(bytes);
        }
    }

    /// The next thing that has happened; call it until there is nothing, after bytes have
    /// been received and after buffers were granted.
    pub fn poll(&mut self, pool: &mut TransferPool) -> Option<Event<'_>> {
        self.transfers.release(pool);
        if self.over {
            return self.ended.take().map(Event::Ended);
        }
        match self.step(pool) {
            Ok(None) => None,
            Ok(Some(CompleteCommand::Capsule(entry, data))) => {
                let data = self.inbound.capsule_data(&data);
                let nth = self.commands.wrapping_sub(1);
                Some(Event::Command { entry, data, asked: None, nth })
            }
            Ok(Some(CompleteCommand::Transfer(slot))) => {
                let (entry, data, requested, nth) = self.transfers.deliver(slot);
                Some(Event::Command { entry, data, asked: requested, nth })
            }
            Err(ended) => {
                if let Ended::Fatal(fatal) = &ended {
                    self.outbound.terminate(fatal);
                }
                self.over = true;
                self.transfers.abandon(pool);
                Some(Event::Ended(ended))
            }
        }
    }

    /// Answers a command without data.
    pub fn respond(&mut self, entry: &CompletionEntry) {
        if self.over {
            return;
        }
        let entry = self.completed(entry);
        self.outbound.response(&entry);
    }

    /// Answers a command with data for the host, which `fill` writes into their place.
    pub fn respond_with_data(
        &mut self,
        entry: &CompletionEntry,
        bytes: u32,
        fill: impl FnOnce(&mut [u8]),
    ) {
        if self.over || bytes == 0 {
            return self.respond(entry);
        }
        self.outbound.pad_digests(self.inbound.pads_digests());
        let entry = self.completed(entry);
        let (omitted, last) = self.last_data(&entry, bytes);
        let command_id = entry.command_id.get();
        let most = self.settings.data_to_host_bytes.max(1);
        if bytes <= most {
            self.outbound.data(command_id, 0, 0, bytes, last, fill);
        } else {
            let mut data = vec![0; bytes as usize];
            fill(&mut data);
            let mut at = 0;
            for part in data.chunks(most as usize) {
                let flags = if at + part.len() as u32 == bytes { last } else { 0 };
                let into = |into: &mut [u8]| into.copy_from_slice(part);
                self.outbound.data(command_id, 0, at, part.len() as u32, flags, into);
                at += part.len() as u32;
            }
        }
        if !omitted {
            self.outbound.response(&entry);
        }
    }

    /// Whether [`Connection::respond_with_lent_data`] may be used.
    pub fn takes_loans(&self) -> bool {
        !self.outbound.digests().data
    }

    /// Answers a command with data for the host that lie at `address`: they are part of
    /// [`Connection::pieces`].
    pub fn respond_with_lent_data(&mut self, entry: &CompletionEntry, bytes: u32, address: u64) {
        if self.over || bytes == 0 {
            return self.respond(entry);
        }
        let entry = self.completed(entry);
        let (omitted, last) = self.last_data(&entry, bytes);
        let command_id = entry.command_id.get();
        let most = self.settings.data_to_host_bytes.max(1);
        let mut at = 0;
        while at < bytes {
            let part = most.min(bytes - at);
            let flags = if at + part == bytes { last } else { 0 };
            let from = address + u64::from(at);
            self.outbound.data_lent(command_id, 0, at, part, flags, from);
            at += part;
        }
        if !omitted {
            self.outbound.response(&entry);
        }
    }

    /// Whether a completion goes without a response, and the flags of its last data PDU.
    fn last_data(&self, entry: &CompletionEntry, bytes: u32) -> (bool, u8) {
        // Without submission queue flow control the completion of a read says nothing that
        // the data do not (TCP Transport 1.0, section 3.6.2.6). Hosts do not agree on the digest of
        // data that are no multiple of four bytes: who expects another than comes needs the response
        // to go on (SPDK's nvme_tcp.c takes its status over that of the digest).
        let agreed = !self.outbound.digests().data || bytes.is_multiple_of(4);
        let nothing_to_say = entry.status().is_success() && entry.result.get() == 0;
        let omitted = !self.flow_control && nothing_to_say && agreed;
        (omitted, FLAG_DATA_LAST | if omitted { FLAG_DATA_SUCCESS } else { 0 })
    }

    /// A command will never be answered: its place in the queue is free again.
    pub fn forget(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Whether a reply may be given now. Otherwise the host does not read, and replies wait
    /// with the caller until output has been sent.
    pub fn has_room(&self) -> bool {
        self.outbound.len() < self.settings.output_bytes
    }

    /// Whether bytes may be received. Otherwise the host does not read the answers to its faulty
    /// commands, and nothing is received from it until output has been sent.
    pub fn may_receive(&self) -> bool {
        self.outbound.len() < 2 * self.settings.output_bytes
    }

    /// What is to be sent, up to the first data that were lent.
    pub fn output(&self) -> &[u8] {
        self.outbound.bytes()
    }

    /// The output with the data that were lent.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.outbound.pieces()
    }

    /// Bytes of output, lent ones with them.
    pub fn output_bytes(&self) -> usize {
        self.outbound.len()
    }

    /// Copies what is still lent, because it is to change; see [`Outbound::settle`].
    pub fn settle(&mut self, copy: impl FnMut(u64, &mut [u8])) {
        self.outbound.settle(copy);
    }

    /// The first so many bytes of the output were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.outbound.sent(bytes);
    }

    /// Whether a command waits for a buffer from the pool.
    pub fn wants_buffer(&self) -> bool {
        self.transfers.is_waiting()
    }

    /// Gives the command that has waited longest a buffer and asks the host for its data;
    /// false if there is no buffer for it, or it may not have one before others end.
    pub fn grant(&mut self, pool: &mut TransferPool) -> bool {
        let Some(slot) = self.transfers.grant(pool) else { return false };
        self.ask(slot);
        true
    }

    /// Whether a host has been asked for data that it has not sent.
    pub fn awaits_data(&self) -> bool {
        self.transfers.has_grants()
    }

    /// Commands that have come and were not answered.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub fn digests(&self) -> Digests {
        self.outbound.digests()
    }

    /// How often data from the host did not fit their digest.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The connection has become a queue of a controller, with so many entries. To be called right
    /// before Connect is answered.
    pub fn connected(&mut self, queue_id: u16, entries: u32, flow_control: bool) {
        self.entries = entries;
        self.queue_id = queue_id;
        self.flow_control = flow_control;
        self.head = 1 % (entries as u16).max(1);
        self.is_fresh = true;
    }

    /// The connection ends for a reason of the controller's: buffers go back to the pool.
    pub fn close(&mut self, pool: &mut TransferPool) {
        self.over = true;
        self.transfers.abandon(pool);
    }

    /// The pool's owner that buffers are lent to.
    pub fn owner(&self) -> Owner {
        self.transfers.owner()
    }

    /// Gives memory back that an idle connection does not need.
    pub fn shrink(&mut self) {
        self.inbound.shrink();
        self.outbound.shrink();
        self.transfers.shrink();
    }

    /// Bytes of memory that the connection holds, buffers from the pool apart.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Connection>()
            + self.inbound.memory_bytes()
            + self.outbound.memory_bytes()
            + self.transfers.memory_bytes()
    }

    fn step(&mut self, pool: &mut TransferPool) -> Result<Option<CompleteCommand>, Ended> {
        loop {
            if let Some(slot) = self.transfers.next_complete() {
                if let Some(command) = self.completed_transfer(slot) {
                    return Ok(Some(command));
                }
                continue;
            }
            if self.incoming.is_some() && !self.take_data()? {
                return Ok(None);
            }
            if self.transfers.has_complete() {
                continue;
            }
            if !self.may_receive() {
                return Ok(None);
            }
            let Some(pdu) = self.inbound.poll().map_err(Ended::Fatal)? else { return Ok(None) };
            match pdu {
                Pdu::Initialize(fields) => self.initialize(fields).map_err(Ended::Fatal)?,
                Pdu::Terminate(status, information) => {
                    return Err(Ended::Terminated(status, information));
                }
                Pdu::CapsuleCommand(entry, data) => {
                    if let Some(command) = self.capsule(entry, data, pool)? {
                        return Ok(Some(command));
                    }
                }
                Pdu::Data(header) => self.data_begins(&header).map_err(Ended::Fatal)?,
                Pdu::CapsuleResponse(_) | Pdu::ReadyToTransfer(_) => {
                    unreachable!("the stream lets only a host's PDUs pass")
                }
            }
        }
    }

    fn initialize(&mut self, fields: Initialization) -> Result<(), Fatal> {
        let fatal = |error, information| Fatal { error, information, header: Vec::new() };
        if fields.version != 0 {
            return Err(fatal(FatalError::UnsupportedParameter, FIELD_VERSION));
        }
        let Some(to_host) = alignment_bytes(fields.alignment) else {
            return Err(fatal(FatalError::InvalidHeaderField, FIELD_ALIGNMENT));
        };
        let digests = self.settings.digests.and(Digests::from_byte(fields.digests));
        let alignment = self.settings.alignment.min(31);
        self.ready_max = fields.limit.saturating_add(1).min(READY_MAX);
        self.outbound.initialize(Initialization {
            version: 0,
            alignment,
            digests: digests.to_byte(),
            limit: self.settings.data_pdu_bytes,
        });
        self.inbound.establish(digests, (alignment + 1) * 4);
        self.outbound.establish(digests, to_host);
        Ok(())
    }

    /// A command capsule: the command if all its data are here.
    fn capsule(
        &mut self,
        entry: SubmissionEntry,
        data: CapsuleData,
        pool: &mut TransferPool,
    ) -> Result<Option<CompleteCommand>, Ended> {
        if self.outstanding >= self.entries {
            // More commands than the queue has entries: the host cannot count.
            return Err(Ended::Fatal(Fatal {
                error: FatalError::PduSequenceError,
                information: 0,
                header: Vec::new(),
            }));
        }
        self.outstanding += 1;
        let nth = self.commands;
        self.commands = nth.wrapping_add(1);
        self.head = if u32::from(self.head) + 1 >= self.entries { 0 } else { self.head + 1 };
        let place = match self.data_place(&entry, &data) {
            Ok(place) => place,
            Err(status) => {
                self.respond(&CompletionEntry::new(entry.command_id.get(), status, 0));
                return Ok(None);
            }
        };
        // The halves of a fused pair are handed on together, whichever has its data first.
        let half = entry.flags & 3;
        let follows = match (half, self.fused) {
            (2, Some(Fused::Alone(first))) => Some(first),
            _ => {
                self.part_fused();
                None
            }
        };
        match place {
            Place::Transport(bytes) => {
                let slot = self.transfers.begin(entry, bytes, self.stamp, nth);
                self.fuse(half, follows, slot);
                if !pool.is_contended() {
                    while self.grant(pool) {}
                }
                Ok(None)
            }
            Place::Capsule(_) | Place::None if half == 1 || follows.is_some() => {
                let bytes = match place {
                    Place::Capsule(at) => &self.inbound.capsule_data(&data)[at..],
                    _ => &[],
                };
                let length = entry.data.length.get() as usize;
                let slot = self.transfers.hold(entry, &bytes[..length.min(bytes.len())], nth);
                self.fuse(half, follows, slot);
                Ok(None)
            }
            Place::Capsule(at) => {
                Ok(Some(CompleteCommand::Capsule(entry, data.part(at, entry.data.length.get()))))
            }
            Place::None => Ok(Some(CompleteCommand::Capsule(entry, data.part(0, 0)))),
        }
    }

    /// Where a command's data from the host are (TCP Transport 1.0, section 3.2).
    fn data_place(&mut self, entry: &SubmissionEntry, data: &CapsuleData) -> Result<Place, Status> {
        let fabrics = entry.opcode == opcode::FABRICS;
        // Only SGLs are used over fabrics; the field is reserved in Fabrics commands.
        if !fabrics && entry.flags >> 6 != 1 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let length = entry.data.length.get();
        if entry.transfer() != Direction::FromHost {
            return Ok(Place::None);
        }
        match entry.data.kind {
            SGL_IN_CAPSULE => {
                let (at, all) = (entry.data.address.get(), u64::from(data.bytes()));
                if at > all {
                    return Err(Status::SGL_OFFSET_INVALID.do_not_retry());
                }
                if u64::from(length) > all - at {
                    return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
                }
                if !data.intact {
                    self.damaged += 1;
                    return Err(Status::TRANSIENT_TRANSPORT_ERROR);
                }
                Ok(Place::Capsule(at as usize))
            }
            SGL_TRANSPORT if data.bytes() > 0 => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
            SGL_TRANSPORT if length == 0 => Ok(Place::None),
            // More than is ever taken. What the command itself says of its length decides what is wrong.
            SGL_TRANSPORT if length > self.settings.transfer_bytes => Ok(Place::None),
            SGL_TRANSPORT => Ok(Place::Transport(length)),
            _ => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
        }
    }

    fn fuse(&mut self, half: u8, follows: Option<u16>, slot: u16) {
        if let Some(first) = follows {
            self.fused = Some(Fused::Pair(first, slot));
            self.pair_when_complete();
        } else if half == 1 {
            self.fused = Some(Fused::Alone(slot));
        }
    }

    /// The first half of a pair goes on alone: what follows it is not its other half.
    fn part_fused(&mut self) {
        if let Some(Fused::Alone(first)) = self.fused {
            self.fused = None;
            self.transfers.release_held(first);
        }
    }

    fn pair_when_complete(&mut self) {
        if let Some(Fused::Pair(first, second)) = self.fused
            && self.transfers.is_complete(first)
            && self.transfers.is_complete(second)
        {
            self.fused = None;
            self.transfers.release_held(first);
            self.transfers.release_held(second);
        }
    }

    /// A transfer has all its data: the command, or its error.
    fn completed_transfer(&mut self, slot: u16) -> Option<CompleteCommand> {
        if self.transfers.is_damaged(slot) {
            self.damaged += 1;
            let command_id = self.transfers.discard(slot);
            let status = Status::TRANSIENT_TRANSPORT_ERROR;
            self.respond(&CompletionEntry::new(command_id, status, 0));
            return None;
        }
        Some(CompleteCommand::Transfer(slot))
    }

    /// Asks for as much of a transfer's data as the host may be asked for.
    fn ask(&mut self, slot: u16) {
        let most = self.settings.ready_bytes.max(1);
        while let Some(ready) = self.transfers.next_ready(slot, most, self.ready_max) {
            self.outbound.ready_to_transfer(ready.command_id, ready.tag, ready.offset, ready.bytes);
            if let Some(requests) = &mut self.requests {
                requests.push_back((ready.command_id, self.outbound.len()));
            }
        }
    }

    /// The header of data from the host.
    fn data_begins(&mut self, header: &Data) -> Result<(), Fatal> {
        let fatal = |error, information| Fatal {
            error,
            information,
            header: zerocopy::IntoBytes::as_bytes(header).to_vec(),
        };
        let tag = header.transfer_tag.get();
        let Some(grant) = self.transfers.granted(tag) else {
            return Err(fatal(FatalError::InvalidHeaderField, 10));
        };
        if grant.command_id != header.command_id.get() {
            return Err(fatal(FatalError::InvalidHeaderField, 8));
        }
        let (offset, bytes) = (header.offset.get(), header.bytes.get());
        if offset != grant.next {
            return Err(fatal(FatalError::DataOutOfRange, 12));
        }
        if bytes > grant.left {
            return Err(fatal(FatalError::DataOutOfRange, 16));
        }
        let last = header.common.flags & FLAG_DATA_LAST != 0;
        if last != (bytes == grant.left) {
            return Err(fatal(FatalError::InvalidHeaderField, FIELD_FLAGS));
        }
        self.incoming = Some(Incoming { tag, at: offset, bytes });
        Ok(())
    }

    /// Takes the data that have come; `true` when the PDU has ended.
    fn take_data(&mut self) -> Result<bool, Ended> {
        let Some(incoming) = &mut self.incoming else { return Ok(true) };
        let come = self.inbound.data();
        if !come.is_empty() {
            let bytes = come.len() as u32;
            self.transfers.place(incoming.tag, incoming.at, bytes).copy_from_slice(come);
            incoming.at += bytes;
            self.inbound.took(bytes as usize);
        }
        let Some(intact) = self.inbound.end_data() else { return Ok(false) };
        let Incoming { tag, bytes, .. } = *incoming;
        self.incoming = None;
        if let Some(slot) = self.transfers.arrived(tag, bytes, intact) {
            self.ask(slot);
            if self.fused.is_some() {
                self.pair_when_complete();
            }
        }
        Ok(true)
    }

    /// A completion as it goes out: with the queue's fields.
    fn completed(&mut self, entry: &CompletionEntry) -> CompletionEntry {
        let mut entry = *entry;
        self.outstanding = self.outstanding.saturating_sub(1);
        if std::mem::take(&mut self.is_fresh) && !self.flow_control {
            // FFFFh in the response to Connect: flow control is off (Base 2.0, section 6.3).
            entry.queue_head.set(0xffff);
            return entry;
        }
        entry.queue_id.set(self.queue_id);
        entry.queue_head.set(if self.flow_control { self.head } else { 0 });
        entry
    }
}

/// Where data from the host are.
enum Place {
    None,
    /// In the capsule, from this offset.
    Capsule(usize),
    /// So many bytes have to be requested with R2Ts.
    Transport(u32),
}

/// A command with all its data.
enum CompleteCommand {
    /// Its data came in the capsule.
    Capsule(SubmissionEntry, CapsuleData),
    /// Its data came after R2Ts; the slot of the transfer.
    Transfer(u16),
}
