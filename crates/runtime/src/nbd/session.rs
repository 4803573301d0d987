//! Requests of a client, as commands of the NVM command set and back.

use mynah_device::Completion;
use mynah_wire::nbd::{Agreed, Chunk, Command, Error, Export, Replies, Request, command_flag};
use mynah_wire::nvme::command::{BlockCommand, DatasetManagement, NvmCommand};
use mynah_wire::nvme::entry::SGL_TRANSPORT;
use mynah_wire::nvme::protection::DatasetRange;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::VecDeque;
use std::ops::Range;
use zerocopy::IntoBytes;

/// PSDT: an SGL describes the data.
const SGL: u8 = 1 << 6;
/// Blocks of one Write Zeroes (NLB has 16 bits) and, of our own accord, of one deallocation.
const BLOCKS_MAX: u64 = 1 << 16;
/// Extents of one answer to a question for block status.
pub(crate) const EXTENTS_MAX: usize = 256;
/// Bytes that one such question is answered for.
const STATUS_BYTES_MAX: u32 = 128 << 20;

/// A namespace as an export.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    /// The export that clients see.
    pub(crate) export: Export,
    pub(crate) namespace: u32,
    /// Binary logarithm of its blocks' bytes.
    pub(crate) shift: u8,
    /// Bytes that one command moves at most.
    pub(crate) transfer_bytes: u32,
}

/// An NBD request under way.
#[derive(Debug)]
struct Work {
    request: Request,
    /// What has not been asked of the namespace yet.
    rest: Range<u64>,
    /// NVMe commands outstanding for it.
    pieces: u32,
    error: Option<Error>,
    /// Only a flush is left to do, after which it is answered.
    flushes: bool,
    /// A part of the answer has been given.
    begun: bool,
}

/// An NVMe command under way, which is a part of a request.
#[derive(Clone, Copy, Debug)]
struct Piece {
    work: u32,
    offset: u64,
    bytes: u32,
}

/// A command for the I/O queue.
#[derive(Debug)]
pub(super) struct IoCommand {
    pub(super) entry: SubmissionEntry,
    /// Bytes of the input that are its data.
    pub(super) payload: u32,
    /// Ranges of a Dataset Management command, which are its data instead.
    pub(super) ranges: Vec<u8>,
}

/// What comes next of the requests.
#[derive(Debug)]
pub(super) enum Next {
    /// A command is to be submitted.
    Command(Box<IoCommand>),
    /// So many bytes of the input have to be there first.
    Needs(usize),
    /// So many bytes of the input are of no use.
    Skip(usize),
    /// An answer has to come first.
    Waits,
    /// Which blocks of a range are in use: [`Session::tell_extents`].
    Extents(Range<u64>),
    /// The next request can begin.
    Free,
}

/// A client in the transmission phase.
#[derive(Debug)]
pub(super) struct Session {
    volume: Volume,
    agreed: Agreed,
    works: Vec<Option<Work>>,
    free_works: Vec<u32>,
    /// By command identifier.
    pieces: Vec<Option<Piece>>,
    free: Vec<u16>,
    /// The request whose commands are being submitted.
    current: Option<u32>,
    /// Bytes of payload to skip, of a write that has failed.
    skips: u64,
    /// Requests that end with a flush, which has not been submitted.
    to_flush: VecDeque<u32>,
    /// A read whose answer is given bit by bit without chunks: nothing may come between.
    streamed: Option<u32>,
    /// Completions for which there was no room.
    replies: VecDeque<Completion>,
}

impl Session {
    pub(super) fn new(volume: Volume, agreed: Agreed, commands: u16) -> Session {
        Session {
            volume,
            agreed,
            works: Vec::new(),
            free_works: Vec::new(),
            pieces: vec![None; usize::from(commands)],
            free: (0..commands).rev().collect(),
            current: None,
            skips: 0,
            to_flush: VecDeque::new(),
            streamed: None,
            replies: VecDeque::new(),
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.free_works.len() == self.works.len() && self.replies.is_empty()
    }

    /// Whether there is something to submit that no more input is needed for.
    pub(super) fn has_flush(&self) -> bool {
        !self.to_flush.is_empty()
    }

    /// Whether the payload of a write is on its way.
    pub(super) fn awaits_data(&self) -> bool {
        let is_write = |at: u32| {
            let work = self.works[at as usize].as_ref();
            work.is_some_and(|it| it.request.command == Command::Write)
        };
        self.skips > 0 || self.current.is_some_and(is_write)
    }

    /// Begins a request.
    pub(super) fn begin(&mut self, request: Request, out: &mut Vec<u8>) {
        let Volume { export, .. } = &self.volume;
        let checked =
            request.check(export, self.agreed.structured, self.agreed.allocation.is_some());
        let replies = self.replies_as();
        if let Err(error) = checked.and_then(|()| self.fits(&request)) {
            self.skips = request.payload_bytes().into();
            return replies.end(out, request.cookie, Some(error));
        }
        let rest = match request.command {
            Command::Flush | Command::BlockStatus | Command::Disconnect | Command::Unknown(_) => {
                request.offset..request.offset
            }
            _ => request.offset..request.offset + u64::from(request.bytes),
        };
        let work = Work {
            request,
            rest,
            pieces: 0,
            error: None,
            flushes: request.command == Command::Flush,
            begun: false,
        };
        let at = match self.free_works.pop() {
            Some(at) => at,
            None => {
                self.works.push(None);
                self.works.len() as u32 - 1
            }
        };
        self.works[at as usize] = Some(work);
        if request.command == Command::Flush {
            self.to_flush.push_back(at);
        } else {
            self.current = Some(at);
        }
    }

    fn replies_as(&self) -> Replies {
        Replies { structured: self.agreed.structured }
    }

    /// Whether it can be done in the way that is asked for: reads in one chunk, and zeros fast, which
    /// they are where they become holes.
    fn fits(&self, request: &Request) -> Result<(), Error> {
        let has = |flag| request.has(flag);
        match request.command {
            Command::Read
                if has(command_flag::DONT_FRAGMENT)
                    && request.bytes > self.volume.transfer_bytes =>
            {
                Err(Error::Overflow)
            }
            Command::WriteZeroes if has(command_flag::FAST_ZERO) && has(command_flag::NO_HOLE) => {
                Err(Error::NotSupported)
            }
            _ => Ok(()),
        }
    }

    /// What comes next; `available` bytes of input follow the last request.
    pub(super) fn next(&mut self, available: usize) -> Next {
        if self.skips > 0 && available > 0 {
            let skipped = self.skips.min(available as u64);
            self.skips -= skipped;
            return Next::Skip(skipped as usize);
        }
        if let Some(&at) = self.to_flush.front() {
            let Some(command) = self.command(at, NvmCommand::Flush, 0..0, 0) else {
                return Next::Waits;
            };
            self.to_flush.pop_front();
            return Next::Command(Box::new(command));
        }
        if self.skips > 0 {
            return Next::Needs(1);
        }
        let Some(at) = self.current else { return Next::Free };
        let Some(work) = self.works[at as usize].as_mut() else { return Next::Free };
        let Request { command, offset, bytes, .. } = work.request;
        if command == Command::BlockStatus {
            let bytes = u64::from(bytes.min(STATUS_BYTES_MAX));
            return Next::Extents(offset..offset + bytes);
        }
        if work.error.is_some() {
            // What is left would be of no use.
            let left = work.rest.end - work.rest.start;
            work.rest.start = work.rest.end;
            self.skips = if command == Command::Write { left } else { 0 };
        }
        let rest = work.rest.clone();
        // Between the parts of an answer without chunks there is no room for another.
        let is_streamed = command == Command::Read
            && !self.agreed.structured
            && bytes > self.volume.transfer_bytes;
        if is_streamed && work.pieces > 0 {
            return Next::Waits;
        }
        if rest.is_empty() {
            self.current = None;
            return if self.skips > 0 { self.next(available) } else { Next::Free };
        }
        self.piece(at, rest, available)
    }

    /// The next command of a request.
    fn piece(&mut self, at: u32, rest: Range<u64>, available: usize) -> Next {
        let Some(work) = self.works[at as usize].as_ref() else { return Next::Free };
        let request = work.request;
        let shift = self.volume.shift;
        let left = rest.end - rest.start;
        let most = match request.command {
            Command::Read | Command::Write => u64::from(self.volume.transfer_bytes),
            _ => BLOCKS_MAX << shift,
        };
        let bytes = left.min(most);
        let payload = if request.command == Command::Write { bytes as usize } else { 0 };
        if available < payload {
            return Next::Needs(payload);
        }
        let blocks = BlockCommand {
            start: rest.start >> shift,
            blocks: (bytes >> shift) as u32,
            deallocates: request.command == Command::WriteZeroes
                && !request.has(command_flag::NO_HOLE),
            force_unit_access: request.has(command_flag::FUA),
            ..BlockCommand::default()
        };
        let command = match request.command {
            Command::Read => NvmCommand::Read(BlockCommand { force_unit_access: false, ..blocks }),
            Command::Write => NvmCommand::Write(blocks),
            Command::WriteZeroes => NvmCommand::WriteZeroes(blocks),
            _ => NvmCommand::DatasetManagement(DatasetManagement { ranges: 1, deallocates: true }),
        };
        let end = rest.start + bytes;
        let Some(mut command) = self.command(at, command, rest.start..end, bytes) else {
            return Next::Waits;
        };
        command.payload = payload as u32;
        let data = match request.command {
            Command::Read | Command::Write => bytes as u32,
            Command::Trim => {
                let range = DatasetRange {
                    attributes: 0.into(),
                    blocks: blocks.blocks.into(),
                    start: blocks.start.into(),
                };
                command.ranges = range.as_bytes().to_vec();
                command.ranges.len() as u32
            }
            _ => 0,
        };
        command.entry.data.length.set(data);
        if let Some(work) = self.works[at as usize].as_mut() {
            work.rest.start = end;
        }
        Next::Command(Box::new(command))
    }

    /// A command for a request, if there is room for one.
    fn command(
        &mut self,
        work: u32,
        command: NvmCommand,
        range: Range<u64>,
        bytes: u64,
    ) -> Option<IoCommand> {
        let id = self.free.pop()?;
        let mut entry = SubmissionEntry { flags: SGL, ..SubmissionEntry::default() };
        entry.data.kind = SGL_TRANSPORT;
        command.put(&mut entry);
        entry.command_id.set(id);
        entry.namespace_id.set(self.volume.namespace);
        self.pieces[usize::from(id)] =
            Some(Piece { work, offset: range.start, bytes: bytes as u32 });
        if let Some(work) = self.works[work as usize].as_mut() {
            work.pieces += 1;
        }
        Some(IoCommand { entry, payload: 0, ranges: Vec::new() })
    }

    /// Which blocks of the current request's range are in use: runs of bytes, and their state.
    pub(super) fn tell_extents(&mut self, extents: &[(u32, u32)], out: &mut Vec<u8>) {
        let Some(at) = self.current.take() else { return };
        let Some(work) = self.take_work(at) else { return };
        let context = self.agreed.allocation.unwrap_or(0);
        let extents = match work.request.has(command_flag::ONE_EXTENT) {
            true => extents.get(..1).unwrap_or_default(),
            false => extents,
        };
        if extents.is_empty() {
            return self.replies_as().end(out, work.request.cookie, Some(Error::Invalid));
        }
        Replies::chunk(out, work.request.cookie, Chunk::Extents(context, extents), true);
    }

    fn take_work(&mut self, at: u32) -> Option<Work> {
        let work = self.works[at as usize].take();
        self.free_works.push(at);
        work
    }

    /// An NVMe command has been completed.
    pub(super) fn completed(&mut self, completion: Completion) {
        self.replies.push_back(completion);
    }

    /// Takes the completions that were not answered.
    pub(super) fn take_replies(&mut self) -> VecDeque<Completion> {
        std::mem::take(&mut self.replies)
    }

    /// Answers one command of those that have ended. `fill` copies its data. `Err`: the answer
    /// cannot be given any more.
    pub(super) fn answer(
        &mut self,
        out: &mut Vec<u8>,
        fill: &mut dyn FnMut(&mut Completion, &mut [u8]),
    ) -> Result<Option<Completion>, ()> {
        let at = match self.streamed {
            None => 0,
            Some(only) => {
                let is_its = |reply: &Completion| {
                    let id = usize::from(reply.entry.command_id.get());
                    self.pieces.get(id).is_some_and(|it| it.is_some_and(|it| it.work == only))
                };
                match self.replies.iter().position(is_its) {
                    Some(at) => at,
                    None => return Ok(None),
                }
            }
        };
        let Some(mut completion) = self.replies.remove(at) else { return Ok(None) };
        let id = completion.entry.command_id.get();
        let Some(piece) = self.pieces.get_mut(usize::from(id)).and_then(Option::take) else {
            return Ok(Some(completion));
        };
        self.free.push(id);
        let Some(work) = self.works[piece.work as usize].as_mut() else {
            return Ok(Some(completion));
        };
        work.pieces -= 1;
        let failed = error_of(completion.entry.status(), work.request.command);
        work.error = work.error.or(failed);
        let is_over = work.pieces == 0 && (work.rest.is_empty() || work.error.is_some());
        let request = work.request;
        if request.command == Command::Read {
            let begun = std::mem::replace(&mut work.begun, true);
            match (failed, self.agreed.structured) {
                (None, true) => {
                    let is_last = is_over && work.error.is_none();
                    let data = Chunk::Data(piece.offset, piece.bytes);
                    Replies::chunk(out, request.cookie, data, is_last);
                    extend(out, piece.bytes, |into| fill(&mut completion, into));
                    if is_last {
                        self.end(piece.work);
                        return Ok(Some(completion));
                    }
                }
                (None, false) => {
                    if !begun {
                        Replies::simple(out, request.cookie, None);
                    }
                    extend(out, piece.bytes, |into| fill(&mut completion, into));
                    self.streamed = (!is_over).then_some(piece.work);
                    if is_over {
                        self.end(piece.work);
                    }
                    return Ok(Some(completion));
                }
                (Some(_), false) if begun => return Err(()),
                (Some(error), true) => {
                    let chunk = Chunk::FailedAt(error, piece.offset);
                    Replies::chunk(out, request.cookie, chunk, is_over);
                    if is_over {
                        self.end(piece.work);
                    }
                    return Ok(Some(completion));
                }
                (Some(_), false) => {}
            }
        }
        if is_over {
            self.finish(piece.work, out);
        }
        Ok(Some(completion))
    }

    /// All of a request's commands have ended: it is answered, unless a flush belongs to it.
    fn finish(&mut self, at: u32, out: &mut Vec<u8>) {
        let Some(work) = self.works[at as usize].as_mut() else { return };
        let request = work.request;
        let wants_flush = request.command == Command::Trim
            && request.has(command_flag::FUA)
            && work.error.is_none();
        if wants_flush && !work.flushes {
            work.flushes = true;
            return self.to_flush.push_back(at);
        }
        let error = work.error;
        self.end(at);
        self.replies_as().end(out, request.cookie, error);
    }

    fn end(&mut self, at: u32) {
        if self.current == Some(at) {
            // Of a write that has failed, a payload may still be on its way.
            if let Some(work) = &self.works[at as usize]
                && work.request.command == Command::Write
            {
                self.skips = work.rest.end - work.rest.start;
            }
            self.current = None;
        }
        self.take_work(at);
    }
}

/// Room for so many bytes at the end.
fn extend(out: &mut Vec<u8>, bytes: u32, fill: impl FnOnce(&mut [u8])) {
    let at = out.len();
    out.resize(at + bytes as usize, 0);
    fill(&mut out[at..]);
}

/// What clients are told of a status.
fn error_of(status: Status, command: Command) -> Option<Error> {
    if status.is_success() {
        return None;
    }
    let same =
        |other: Status| (status.code_type(), status.code()) == (other.code_type(), other.code());
    let is_write = matches!(command, Command::Write | Command::WriteZeroes | Command::Trim);
    Some(if same(Status::LBA_OUT_OF_RANGE) {
        if is_write { Error::NoSpace } else { Error::Invalid }
    } else if same(Status::CAPACITY_EXCEEDED) {
        Error::NoSpace
    } else if same(Status::NAMESPACE_WRITE_PROTECTED) || same(Status::RESERVATION_CONFLICT) {
        Error::NotPermitted
    } else if same(Status::INVALID_FIELD) || same(Status::INVALID_OPCODE) {
        Error::Invalid
    } else {
        Error::Io
    })
}
