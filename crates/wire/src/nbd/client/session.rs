//! Requests of a client, and the answers to them: simple and structured ones.
//!
//! As the machine of an NVMe/TCP host ([`crate::tcp::host::Host`]) it has slots, takes data of writes from a
//! [`Payload`] when they are sent, and hands it those of reads as they come. A request's cookie is its slot
//! and how often that was used, so that an answer to another request is found out.

use super::super::reply::{CHUNK_MAGIC, DONE, SIMPLE_MAGIC, kind};
use super::super::request::{Command, Request};
use super::super::{u16_at, u32_at, u64_at};
use crate::tcp::host::Payload;
use std::collections::VecDeque;

/// Room for what is received, and for what is sent in one go.
const INPUT_BYTES: usize = 256 << 10;
const OUTPUT_BYTES: usize = 256 << 10;
/// Bytes of the headers of answers, and of a chunk's offset.
const SIMPLE_BYTES: usize = 16;
const CHUNK_BYTES: usize = 20;
const OFFSET_BYTES: u32 = 8;
/// Most bytes of a chunk that tells of an error: number, length of the text, the text, an offset.
const ERROR_BYTES_MAX: u32 = 6 + 4096 + 8;
/// The bit of chunk types that tell of errors.
const IS_ERROR: u16 = 1 << 15;
/// EIO, for errors without a number.
const IO_ERROR: u32 = 5;
/// What a hole is read as, a piece at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// How a server broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Something that is no answer.
    #[error("no reply where one should be")]
    Magic,
    /// An answer to nothing that was asked.
    #[error("a reply to what was not asked")]
    Cookie,
    /// A form of answer that was not agreed on, or that the request cannot have.
    #[error("a reply of a form that was not agreed on")]
    Form,
    /// A chunk with a length that it cannot have.
    #[error("a chunk of {0} bytes, which it cannot have")]
    Length(u32),
    /// Data that were not asked for.
    #[error("data from outside of what was to be read")]
    Range,
    /// Success without all data.
    #[error("a read of {asked} bytes that succeeded with {received}")]
    Missing {
        /// Bytes that were to be read.
        asked: u32,
        /// Bytes that came.
        received: u32,
    },
}

/// A request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its slot, which is free again.
    pub slot: u16,
    /// The error's number as in Linux; 0: success.
    pub error: u32,
    /// Bytes that were read.
    pub received: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    request: Request,
    /// How often it was used.
    uses: u32,
    busy: bool,
    /// The request has begun to be sent.
    begun: bool,
    received: u32,
    error: u32,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug)]
enum Input {
    Header,
    /// Data of a read, from this offset of it on; the request ends with them.
    Data {
        slot: u16,
        offset: u32,
        left: u32,
        ends: bool,
    },
    /// The rest of a chunk about an error.
    Text {
        slot: u16,
        left: u32,
        ends: bool,
    },
}

/// What became of looking for the header of an answer.
enum Header {
    /// Not all of it is there.
    Missing,
    /// It was taken; the slot that ends with it, if one does.
    Taken(Option<u16>),
}

/// The payload that is being sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    slot: u16,
    offset: u32,
    left: u32,
}

/// A connection on which an export is used.
#[derive(Debug)]
pub struct Session {
    structured: bool,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Slots whose requests are to be sent.
    waiting: VecDeque<u16>,
    sending: Option<Sending>,
    output: Vec<u8>,
    gone: usize,
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    state: Input,
    /// A request that was answered before all of it was sent: its slot is not free before that.
    early: Option<Event>,
}

impl Session {
    /// A connection for so many requests at once; `structured` is what the handshake agreed on.
    pub fn new(structured: bool, requests: u16) -> Session {
        let request = Request { cookie: 0, command: Command::Flush, flags: 0, offset: 0, bytes: 0 };
        let slot = Slot { request, uses: 0, busy: false, begun: false, received: 0, error: 0 };
        Session {
            structured,
            slots: vec![slot; usize::from(requests)],
            free: (0..requests).rev().collect(),
            waiting: VecDeque::new(),
            sending: None,
            output: Vec::new(),
            gone: 0,
            input: vec![0; INPUT_BYTES],
            taken: 0,
            filled: 0,
            state: Input::Header,
            early: None,
        }
    }

    /// The slot of the next request; `None`: none can be submitted now.
    #[inline]
    pub fn next_slot(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Submits a request; its slot. The cookie is the machine's own.
    pub fn submit(&mut self, request: Request) -> Option<u16> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[usize::from(index)];
        slot.uses = slot.uses.wrapping_add(1);
        let cookie = u64::from(slot.uses) << 16 | u64::from(index);
        let request = Request { cookie, ..request };
        *slot = Slot { request, busy: true, begun: false, received: 0, error: 0, uses: slot.uses };
        self.waiting.push_back(index);
        Some(index)
    }

    /// Bytes to be sent, as long as there are any.
    pub fn output(&mut self, payload: &mut impl Payload) -> &[u8] {
        if self.gone == self.output.len() {
            self.output.clear();
            self.gone = 0;
            while self.output.len() < OUTPUT_BYTES && self.put_more(payload) {}
        }
        &self.output[self.gone..]
    }

    /// Puts a header or a piece of a payload into the output; whether there was anything.
    fn put_more(&mut self, payload: &mut impl Payload) -> bool {
        if let Some(Sending { slot, offset, left }) = self.sending {
            let from = self.output.len();
            let room = OUTPUT_BYTES.saturating_sub(from).max(1) as u32;
            let bytes = left.min(room);
            self.output.resize(from + bytes as usize, 0);
            payload.fill(slot, offset, &mut self.output[from..]);
            let left = left - bytes;
            let rest = Sending { slot, offset: offset + bytes, left };
            self.sending = (left > 0).then_some(rest);
            return true;
        }
        let Some(index) = self.waiting.pop_front() else { return false };
        let slot = &mut self.slots[usize::from(index)];
        slot.begun = true;
        self.output.extend(slot.request.build());
        let left = slot.request.payload_bytes();
        self.sending = (left > 0).then_some(Sending { slot: index, offset: 0, left });
        true
    }

    /// So many bytes of the output were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.gone = (self.gone + bytes).min(self.output.len());
    }

    /// Room for what is received. All that came before was dealt with by [`Session::poll`].
    pub fn receive_buffer(&mut self) -> &mut [u8] {
        if self.taken > 0 {
            self.input.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
        }
        &mut self.input[self.filled..]
    }

    /// So many bytes were received into [`Session::receive_buffer`].
    pub fn received(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.input.len());
    }

    /// Whether a request ended whose answer had come before all of it was sent, and [`Session::poll`] will
    /// say so.
    #[inline]
    pub fn has_early(&self) -> bool {
        self.early.is_some_and(|it| !is_sending(self.sending, it.slot))
    }

    /// Whether all that was put out was sent, and it ended with a request.
    pub fn is_between_requests(&self) -> bool {
        self.gone == self.output.len() && self.sending.is_none()
    }

    /// Whether data of a read have begun to come, and so many at least are on their way.
    #[inline]
    pub fn is_amid_data(&self, bytes: u32) -> bool {
        matches!(self.state, Input::Data { left, .. } if left >= bytes)
    }

    /// The next request that was answered, of what was received. When there is none, all bytes but the
    /// beginning of a header have been dealt with.
    ///
    /// # Errors
    /// If the server broke the protocol: nothing more can come of the connection.
    pub fn poll(&mut self, payload: &mut impl Payload) -> Result<Option<Event>, Broken> {
        if let Some(event) = self.early.take_if(|it| !is_sending(self.sending, it.slot)) {
            self.free.push(event.slot);
            return Ok(Some(event));
        }
        loop {
            let there = self.filled - self.taken;
            let ended = match self.state {
                Input::Header => match self.header(payload)? {
                    Header::Missing => return Ok(None),
                    Header::Taken(ended) => ended,
                },
                Input::Data { .. } | Input::Text { .. } if there == 0 => return Ok(None),
                Input::Data { slot, offset, left, ends } => {
                    let bytes = left.min(u32::try_from(there).unwrap_or(u32::MAX));
                    let end = self.taken + bytes as usize;
                    payload.place(slot, offset, &self.input[self.taken..end]);
                    self.taken = end;
                    let (offset, left) = (offset + bytes, left - bytes);
                    self.state = Input::Data { slot, offset, left, ends };
                    self.after(slot, left, ends)
                }
                Input::Text { slot, left, ends } => {
                    let bytes = left.min(u32::try_from(there).unwrap_or(u32::MAX));
                    self.taken += bytes as usize;
                    self.state = Input::Text { slot, left: left - bytes, ends };
                    self.after(slot, left - bytes, ends)
                }
            };
            if let Some(slot) = ended
                && let Some(event) = self.end(slot)?
            {
                return Ok(Some(event));
            }
        }
    }

    /// A chunk has so much left; the slot that ends with it.
    fn after(&mut self, slot: u16, left: u32, ends: bool) -> Option<u16> {
        if left > 0 {
            return None;
        }
        self.state = Input::Header;
        ends.then_some(slot)
    }

    /// The header of an answer, if all of it is there.
    fn header(&mut self, payload: &mut impl Payload) -> Result<Header, Broken> {
        let there = &self.input[self.taken..self.filled];
        if there.len() < 4 {
            return Ok(Header::Missing);
        }
        match (u32_at(there, 0), self.structured) {
            (SIMPLE_MAGIC, _) if there.len() < SIMPLE_BYTES => Ok(Header::Missing),
            (SIMPLE_MAGIC, _) => {
                let (error, cookie) = (u32_at(there, 4), u64_at(there, 8));
                self.taken += SIMPLE_BYTES;
                self.simple(error, cookie).map(Header::Taken)
            }
            (CHUNK_MAGIC, true) if there.len() < CHUNK_BYTES => Ok(Header::Missing),
            (CHUNK_MAGIC, true) => self.chunk(payload),
            _ => Err(Broken::Magic),
        }
    }

    /// The slot of a cookie.
    fn slot(&self, cookie: u64) -> Result<u16, Broken> {
        let index = cookie as u16;
        let slot = self.slots.get(usize::from(index)).ok_or(Broken::Cookie)?;
        let is_early = self.early.is_some_and(|it| it.slot == index);
        match slot.busy && slot.begun && slot.request.cookie == cookie && !is_early {
            true => Ok(index),
            false => Err(Broken::Cookie),
        }
    }

    fn simple(&mut self, error: u32, cookie: u64) -> Result<Option<u16>, Broken> {
        let index = self.slot(cookie)?;
        let slot = &mut self.slots[usize::from(index)];
        let is_read = slot.request.command == Command::Read;
        if slot.received > 0 || slot.error > 0 || is_read && error == 0 && self.structured {
            return Err(Broken::Form);
        }
        slot.error = error;
        if is_read && error == 0 {
            let left = slot.request.bytes;
            slot.received = left;
            self.state = Input::Data { slot: index, offset: 0, left, ends: true };
            return Ok(self.after(index, left, true));
        }
        Ok(Some(index))
    }

    /// A chunk, if what tells its meaning is there.
    fn chunk(&mut self, payload: &mut impl Payload) -> Result<Header, Broken> {
        let there = &self.input[self.taken..self.filled];
        let (flags, what, length) = (u16_at(there, 4), u16_at(there, 6), u32_at(there, 16));
        let index = self.slot(u64_at(there, 8))?;
        let ends = flags & DONE != 0;
        let request = self.slots[usize::from(index)].request;
        let (is_read, body) = (request.command == Command::Read, &there[CHUNK_BYTES..]);
        match what {
            kind::NONE if length == 0 && ends => {
                self.taken += CHUNK_BYTES;
                Ok(Header::Taken(Some(index)))
            }
            kind::OFFSET_DATA if is_read && length > OFFSET_BYTES => {
                if body.len() < OFFSET_BYTES as usize {
                    return Ok(Header::Missing);
                }
                let (from, left) = (u64_at(body, 0), length - OFFSET_BYTES);
                self.taken += CHUNK_BYTES + OFFSET_BYTES as usize;
                let offset = self.comes(index, from, left)?;
                self.state = Input::Data { slot: index, offset, left, ends };
                Ok(Header::Taken(None))
            }
            kind::OFFSET_HOLE if is_read && length == OFFSET_BYTES + 4 => {
                if body.len() < length as usize {
                    return Ok(Header::Missing);
                }
                let (from, bytes) = (u64_at(body, 0), u32_at(body, 8));
                self.taken += CHUNK_BYTES + length as usize;
                let offset = self.comes(index, from, bytes)?;
                for at in (0..bytes).step_by(ZEROS.len()) {
                    let piece = (bytes - at).min(ZEROS.len() as u32) as usize;
                    payload.place(index, offset + at, &ZEROS[..piece]);
                }
                Ok(Header::Taken(ends.then_some(index)))
            }
            what if what & IS_ERROR != 0 && (4..=ERROR_BYTES_MAX).contains(&length) => {
                if body.len() < 4 {
                    return Ok(Header::Missing);
                }
                let error = u32_at(body, 0);
                self.taken += CHUNK_BYTES + 4;
                let slot = &mut self.slots[usize::from(index)];
                if slot.error == 0 {
                    slot.error = if error == 0 { IO_ERROR } else { error };
                }
                let left = length - 4;
                self.state = Input::Text { slot: index, left, ends };
                Ok(Header::Taken(self.after(index, left, ends)))
            }
            kind::NONE | kind::OFFSET_DATA | kind::OFFSET_HOLE => Err(Broken::Length(length)),
            what if what & IS_ERROR != 0 => Err(Broken::Length(length)),
            _ => Err(Broken::Form),
        }
    }

    /// Data of a read come, from an offset of the export: their offset in the read.
    fn comes(&mut self, index: u16, from: u64, bytes: u32) -> Result<u32, Broken> {
        let slot = &mut self.slots[usize::from(index)];
        let asked = u64::from(slot.request.bytes);
        let offset = from.checked_sub(slot.request.offset).ok_or(Broken::Range)?;
        let received = u64::from(slot.received) + u64::from(bytes);
        if bytes == 0 || offset.saturating_add(bytes.into()) > asked || received > asked {
            return Err(Broken::Range);
        }
        slot.received = received as u32;
        Ok(offset as u32)
    }

    /// A request has ended; the event, unless it is to wait until all of the request was sent.
    fn end(&mut self, index: u16) -> Result<Option<Event>, Broken> {
        let is_sending = is_sending(self.sending, index);
        let slot = &mut self.slots[usize::from(index)];
        let (asked, received) = (slot.request.bytes, slot.received);
        if slot.request.command == Command::Read && slot.error == 0 && received != asked {
            return Err(Broken::Missing { asked, received });
        }
        slot.busy = false;
        let received = if slot.error == 0 { received } else { 0 };
        let event = Event { slot: index, error: slot.error, received };
        if is_sending {
            self.early = Some(event);
            return Ok(None);
        }
        self.free.push(index);
        Ok(Some(event))
    }
}

fn is_sending(sending: Option<Sending>, slot: u16) -> bool {
    sending.is_some_and(|it| it.slot == slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::{Chunk, Error, REQUEST_BYTES, Replies};
    use proptest::prelude::*;

    /// What the requests move: a byte of a write says where it is, and reads are kept.
    #[derive(Default)]
    struct Bytes(std::collections::BTreeMap<u16, Vec<u8>>);

    impl Payload for Bytes {
        fn fill(&mut self, slot: u16, offset: u32, into: &mut [u8]) {
            for (at, byte) in (offset..).zip(into) {
                *byte = at as u8 ^ slot as u8;
            }
        }

        fn place(&mut self, slot: u16, offset: u32, from: &[u8]) {
            let kept = self.0.entry(slot).or_default();
            let end = offset as usize + from.len();
            kept.resize(kept.len().max(end), 0xee);
            kept[offset as usize..end].copy_from_slice(from);
        }
    }

    fn request(command: Command, offset: u64, bytes: u32) -> Request {
        Request { cookie: 0, command, flags: 0, offset, bytes }
    }

    fn give(session: &mut Session, bytes: &[u8]) {
        let room = session.receive_buffer();
        room[..bytes.len()].copy_from_slice(bytes);
        session.received(bytes.len());
    }

    fn sent(session: &mut Session, data: &mut Bytes) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let some = session.output(data).to_vec();
            if some.is_empty() {
                return all;
            }
            // As sockets take it.
            let taken = some.len().div_ceil(2);
            session.sent(taken);
            all.extend(&some[..taken]);
        }
    }

    fn cookie_of(bytes: &[u8]) -> u64 {
        Request::parse(bytes.first_chunk::<REQUEST_BYTES>().unwrap()).unwrap().cookie
    }

    /// Submits a request alone, and gives it an answer made of its cookie.
    fn answered(
        structured: bool,
        asked: Request,
        answer: impl Fn(u64) -> Vec<u8>,
    ) -> Result<Option<(Event, Vec<u8>)>, Broken> {
        let (mut session, mut data) = (Session::new(structured, 2), Bytes::default());
        session.submit(asked).unwrap();
        let cookie = cookie_of(&sent(&mut session, &mut data));
        give(&mut session, &answer(cookie));
        let event = session.poll(&mut data)?;
        Ok(event.map(|event| (event, data.0.remove(&event.slot).unwrap_or_default())))
    }

    fn simple(error: Option<Error>, data: &'static [u8]) -> impl Fn(u64) -> Vec<u8> {
        move |cookie| {
            let mut out = Vec::new();
            Replies::simple(&mut out, cookie, error);
            out.extend(data);
            out
        }
    }

    /// A chunk as it may not be written.
    fn raw(flags: u16, what: u16, body: Vec<u8>) -> impl Fn(u64) -> Vec<u8> {
        move |cookie| {
            let mut out = CHUNK_MAGIC.to_be_bytes().to_vec();
            out.extend(flags.to_be_bytes());
            out.extend(what.to_be_bytes());
            out.extend(cookie.to_be_bytes());
            out.extend((body.len() as u32).to_be_bytes());
            out.extend(&body);
            out
        }
    }

    fn piece(offset: u64, data: &[u8]) -> Vec<u8> {
        [&offset.to_be_bytes()[..], data].concat()
    }

    #[test]
    fn writes_are_sent_whole_and_answered() {
        let (mut session, mut data) = (Session::new(false, 3), Bytes::default());
        let bytes = 300_000;
        let slot = session.submit(request(Command::Write, 512, bytes)).unwrap();
        session.submit(request(Command::Flush, 0, 0)).unwrap();
        let all = sent(&mut session, &mut data);
        assert_eq!(all.len(), bytes as usize + 2 * REQUEST_BYTES);
        let first = &all[REQUEST_BYTES..][..bytes as usize];
        assert!((0u32..).zip(first).all(|(at, byte)| *byte == at as u8 ^ slot as u8));
        give(&mut session, &simple(None, b"")(cookie_of(&all)));
        let event = session.poll(&mut data).unwrap();
        assert_eq!(event, Some(Event { slot, error: 0, received: 0 }));
        assert_eq!(session.poll(&mut data), Ok(None));
    }

    #[test]
    fn a_write_that_is_refused_amid_its_data_keeps_its_slot_until_they_are_sent() {
        let (mut session, mut data) = (Session::new(false, 1), Bytes::default());
        session.submit(request(Command::Write, 0, 1 << 20)).unwrap();
        let first = session.output(&mut data).to_vec();
        session.sent(first.len());
        give(&mut session, &simple(Some(Error::NoSpace), b"")(cookie_of(&first)));
        assert_eq!(session.poll(&mut data), Ok(None));
        assert_eq!(session.next_slot(), None);
        assert_eq!(sent(&mut session, &mut data).len(), (1 << 20) + REQUEST_BYTES - first.len());
        let event = session.poll(&mut data).unwrap().expect("it has ended");
        assert_eq!((event.error, session.next_slot()), (28, Some(0)));
        // A second answer to it is none.
        give(&mut session, &simple(None, b"")(cookie_of(&first)));
        assert_eq!(session.poll(&mut data), Err(Broken::Cookie));
    }

    #[test]
    fn reads_come_in_either_form() {
        let read = request(Command::Read, 1000, 4);
        let whole = answered(false, read, simple(None, b"abcd")).unwrap().unwrap();
        assert_eq!(whole, (Event { slot: 0, error: 0, received: 4 }, b"abcd".to_vec()));
        let failed = answered(false, read, simple(Some(Error::Io), b"")).unwrap().unwrap();
        assert_eq!(failed.0, Event { slot: 0, error: 5, received: 0 });
        let chunks = |cookie: u64| {
            let hole = [&piece(1000, &2u32.to_be_bytes())[..]].concat();
            let parts = [
                raw(0, kind::OFFSET_DATA, piece(1002, b"xy"))(cookie),
                raw(0, kind::OFFSET_HOLE, hole)(cookie),
                raw(DONE, kind::NONE, vec![])(cookie),
            ];
            parts.concat()
        };
        let whole = answered(true, read, chunks).unwrap().unwrap();
        assert_eq!(whole, (Event { slot: 0, error: 0, received: 4 }, b"\0\0xy".to_vec()));
        let half = |cookie: u64| {
            let mut out = Vec::new();
            Replies::chunk(&mut out, cookie, Chunk::Data(1000, 2), false);
            out.extend(b"ab");
            Replies::chunk(&mut out, cookie, Chunk::FailedAt(Error::Io, 1002), true);
            out
        };
        assert_eq!(answered(true, read, half).unwrap().unwrap().0.error, 5);
        let text = [&12u32.to_be_bytes()[..], &[0, 3], b"why"].concat();
        let said = raw(DONE, kind::ERROR, text);
        assert_eq!(answered(true, read, said).unwrap().unwrap().0.error, 12);
    }

    #[test]
    fn what_was_not_asked_ends_the_connection() {
        let (read, flush) = (request(Command::Read, 8, 4), request(Command::Flush, 0, 0));
        let data = |offset, bytes: &[u8]| raw(DONE, kind::OFFSET_DATA, piece(offset, bytes));
        let hole =
            |offset, bytes: u32| raw(DONE, kind::OFFSET_HOLE, piece(offset, &bytes.to_be_bytes()));
        let of =
            |asked, answer: &dyn Fn(u64) -> Vec<u8>| answered(true, asked, answer).unwrap_err();
        assert_eq!(of(read, &|_| vec![1; 20]), Broken::Magic);
        assert_eq!(of(read, &|it| data(8, b"abcd")(it + 1)), Broken::Cookie);
        assert_eq!(of(read, &|it| data(8, b"abcd")(it ^ 1 << 40)), Broken::Cookie);
        assert_eq!(of(read, &simple(None, b"abcd")), Broken::Form);
        assert_eq!(of(read, &raw(DONE, 5, vec![0; 12])), Broken::Form);
        assert_eq!(of(flush, &data(8, b"abcd")), Broken::Length(12));
        assert_eq!(of(read, &data(8, b"")), Broken::Length(8));
        assert_eq!(of(read, &raw(DONE, kind::NONE, vec![0])), Broken::Length(1));
        assert_eq!(of(read, &raw(DONE, kind::ERROR, vec![0; 5000])), Broken::Length(5000));
        assert_eq!(of(read, &data(7, b"abcd")), Broken::Range);
        assert_eq!(of(read, &data(9, b"abcd")), Broken::Range);
        assert_eq!(of(read, &data(u64::MAX, b"abcd")), Broken::Range);
        assert_eq!(of(read, &hole(8, 0)), Broken::Range);
        assert_eq!(of(read, &hole(8, u32::MAX)), Broken::Range);
        assert_eq!(of(read, &data(8, b"ab")), Broken::Missing { asked: 4, received: 2 });
        let missing = Broken::Missing { asked: 4, received: 0 };
        assert_eq!(of(read, &raw(DONE, kind::NONE, vec![])), missing);
        let chunk = answered(false, read, data(8, b"abcd")).unwrap_err();
        assert_eq!(chunk, Broken::Magic, "not without having agreed on it");
    }

    proptest! {
        /// Whatever a server answers in which order and pieces, every request ends once with its own bytes.
        #[test]
        fn every_request_ends_once_with_its_bytes(
            asked in prop::collection::vec((0..3u8, 1..40_000u32), 1..40),
            order in any::<u64>(),
            (structured, piece) in (any::<bool>(), 1..5_000usize),
        ) {
            let (mut session, mut data) = (Session::new(structured, 8), Bytes::default());
            let (mut next, mut open, mut ended, mut turn) = (0, Vec::new(), 0, order);
            let mut expected = std::collections::BTreeMap::new();
            let replies = Replies { structured };
            while ended < asked.len() {
                while next < asked.len() && session.next_slot().is_some() {
                    let (what, bytes) = asked[next];
                    let command = [Command::Read, Command::Write, Command::Trim][usize::from(what)];
                    let slot = session.submit(request(command, next as u64 * 512, bytes)).unwrap();
                    expected.insert(slot, (command, bytes));
                    next += 1;
                }
                let mut all = &sent(&mut session, &mut data)[..];
                while let Some((head, rest)) = all.split_first_chunk::<REQUEST_BYTES>() {
                    let request = Request::parse(head).unwrap();
                    all = &rest[request.payload_bytes() as usize..];
                    open.push(request);
                }
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let one: Request = open.swap_remove((turn >> 33) as usize % open.len());
                let (mut out, slot) = (Vec::new(), one.cookie as u16);
                match (one.command, structured) {
                    (Command::Read, false) => {
                        Replies::simple(&mut out, one.cookie, None);
                        out.extend(vec![slot as u8; one.bytes as usize]);
                    }
                    (Command::Read, true) => {
                        let half = one.bytes / 2;
                        for (from, bytes) in [(half, one.bytes - half), (0, half)] {
                            if bytes > 0 {
                                let chunk = Chunk::Data(one.offset + u64::from(from), bytes);
                                Replies::chunk(&mut out, one.cookie, chunk, false);
                                out.extend(vec![slot as u8; bytes as usize]);
                            }
                        }
                        Replies::chunk(&mut out, one.cookie, Chunk::Done, true);
                    }
                    _ => replies.end(&mut out, one.cookie, None),
                }
                let mut events = Vec::new();
                for bytes in out.chunks(piece) {
                    give(&mut session, bytes);
                    while let Some(event) = session.poll(&mut data).unwrap() {
                        events.push(event);
                    }
                }
                let (command, bytes) = expected[&slot];
                let received = if command == Command::Read { bytes } else { 0 };
                prop_assert_eq!(events, vec![Event { slot, error: 0, received }]);
                let kept = data.0.remove(&slot).unwrap_or_default();
                prop_assert_eq!(kept, vec![slot as u8; received as usize]);
                ended += 1;
            }
        }
    }
}
