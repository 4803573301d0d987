//! A client's connection: bytes in and out, without a socket.

use super::session::{Next, Session, Volume};
use mynah_device::Completion;
use mynah_wire::nbd::{Broken, Command, Export, Handshake, REQUEST_BYTES, Request, Step};
use mynah_wire::nvme::SubmissionEntry;
use std::collections::VecDeque;
use std::ops::Range;

/// Room for what is received, unless a payload wants more.
const INPUT_BYTES: usize = 128 << 10;
/// With so much waiting to be sent, nothing new is begun.
const OUTPUT_MAX: usize = 1 << 20;

/// What a client needs the hub to do.
#[derive(Debug)]
pub(crate) enum Ask {
    /// It takes the export of this place in the list: [`Client::accept`] or [`Client::refuse`] follows.
    Export(usize),
    /// A command for its I/O queue, with [`Client::payload`]; [`Client::submitted`] follows.
    Command(Box<SubmissionEntry>),
    /// Which bytes of a range are in use: [`Client::tell_extents`] follows.
    Extents(Range<u64>),
    /// The connection is over; `Some` if the client broke the protocol.
    Over(Option<Broken>),
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    /// The export is being opened.
    Choosing(Handshake),
    Session(Session),
    /// No more requests come.
    Leaving(Session),
    Over,
}

/// What is to be taken as a command's data.
#[derive(Debug, Default)]
struct Payload {
    /// Bytes of the input, which are the data.
    bytes: usize,
    /// Ranges of a Dataset Management command, which are the data instead.
    ranges: Vec<u8>,
}

/// A completion whose answer has not been sent whole.
#[derive(Debug)]
struct Unsent {
    /// The output's byte count, from the connection's start, when it has.
    end: u64,
    completion: Completion,
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Client {
    phase: Phase,
    /// What was received: that in `taken..filled` has not been dealt with.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    /// What is to be sent, from `gone` on.
    output: Vec<u8>,
    gone: usize,
    /// Bytes sent since the connection began.
    sent: u64,
    unsent: VecDeque<Unsent>,
    payload: Payload,
    /// It stopped for want of room in the queue or the output, and goes on when there is some.
    is_held_up: bool,
}

impl Client {
    pub(crate) fn new() -> Client {
        let mut output = Vec::new();
        let handshake = Handshake::begin(&mut output);
        Client {
            phase: Phase::Handshake(handshake),
            input: Vec::new(),
            taken: 0,
            filled: 0,
            output,
            gone: 0,
            sent: 0,
            unsent: VecDeque::new(),
            payload: Payload::default(),
            is_held_up: false,
        }
    }

    /// Room for bytes; `None` if nothing may be received now.
    pub(crate) fn receive_buffer(&mut self) -> Option<&mut [u8]> {
        if self.is_held_up || matches!(self.phase, Phase::Over | Phase::Leaving(_)) {
            return None;
        }
        if self.input.len() < INPUT_BYTES {
            self.input.resize(INPUT_BYTES, 0);
        }
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        }
        if self.filled == self.input.len() {
            self.make_room(0);
        }
        let room = self.input.get_mut(self.filled..)?;
        (!room.is_empty()).then_some(room)
    }

    /// Bytes have been put into the input.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.input.len());
    }

    /// Moves what is there to the front, and makes room for so much from there on.
    fn make_room(&mut self, bytes: usize) {
        if self.taken > 0 {
            self.input.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.input.len() < bytes {
            self.input.resize(bytes, 0);
        }
    }

    fn available(&self) -> usize {
        self.filled - self.taken
    }

    /// Whether there is no room for more answers.
    fn is_full(&self) -> bool {
        self.output_bytes() > OUTPUT_MAX
    }

    /// What is wanted next, if anything. `exports` are those there are, asked for during the handshake.
    pub(crate) fn next(&mut self, exports: impl FnOnce() -> Vec<Export>) -> Option<Ask> {
        self.is_held_up = false;
        match &mut self.phase {
            Phase::Handshake(_) => self.shake_hands(&exports()),
            Phase::Session(_) => self.work(),
            Phase::Choosing(_) | Phase::Over => None,
            Phase::Leaving(session) => {
                if session.has_flush()
                    && let Next::Command(asked) = session.next(0)
                {
                    return Some(Ask::Command(Box::new(asked.entry)));
                }
                let is_over = session.is_idle() && self.output.len() == self.gone;
                is_over.then(|| self.ends(None))
            }
        }
    }

    fn ends(&mut self, why: Option<Broken>) -> Ask {
        self.phase = Phase::Over;
        Ask::Over(why)
    }

    fn shake_hands(&mut self, exports: &[Export]) -> Option<Ask> {
        let Phase::Handshake(handshake) = &mut self.phase else { return None };
        let input = &self.input[self.taken..self.filled];
        let (used, step) = match handshake.take(input, exports, &mut self.output) {
            Ok(taken) => taken,
            Err(broken) => return Some(self.ends(Some(broken))),
        };
        self.taken += used;
        match step {
            Step::Waits => {
                self.is_held_up = self.output.len() - self.gone > OUTPUT_MAX / 4;
                None
            }
            Step::Leaves => Some(self.ends(None)),
            Step::Takes(at) => {
                if let Phase::Handshake(handshake) = std::mem::replace(&mut self.phase, Phase::Over)
                {
                    self.phase = Phase::Choosing(handshake);
                }
                Some(Ask::Export(at))
            }
        }
    }

    /// The export can be used, with so many commands at once.
    pub(crate) fn accept(&mut self, volume: Volume, commands: u16) {
        if let Phase::Choosing(mut handshake) = std::mem::replace(&mut self.phase, Phase::Over) {
            let agreed = handshake.accept(&volume.export, &mut self.output);
            self.phase = Phase::Session(Session::new(volume, agreed, commands));
        }
    }

    /// Refuses the export. False if the connection has to end.
    pub(crate) fn refuse(&mut self, why: u32, text: &str) -> bool {
        let Phase::Choosing(mut handshake) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return false;
        };
        let goes_on = handshake.refuse(why, text, &mut self.output);
        if goes_on {
            self.phase = Phase::Handshake(handshake);
        }
        goes_on
    }

    fn work(&mut self) -> Option<Ask> {
        loop {
            let available = self.available();
            let is_full = self.is_full();
            let Phase::Session(session) = &mut self.phase else { return None };
            match session.next(available) {
                Next::Command(asked) => {
                    self.payload = Payload { bytes: asked.payload as usize, ranges: asked.ranges };
                    return Some(Ask::Command(Box::new(asked.entry)));
                }
                Next::Needs(bytes) => {
                    if self.input.len() - self.taken < bytes {
                        self.make_room(bytes);
                    }
                    return None;
                }
                Next::Skip(bytes) => self.taken += bytes,
                Next::Waits => {
                    self.is_held_up = true;
                    return None;
                }
                Next::Extents(range) => return Some(Ask::Extents(range)),
                Next::Free if is_full => {
                    self.is_held_up = true;
                    return None;
                }
                Next::Free => {
                    let input = &self.input[self.taken..self.filled];
                    let header = input.first_chunk::<REQUEST_BYTES>()?;
                    let Some(request) = Request::parse(header) else {
                        return Some(self.ends(Some(Broken::Request)));
                    };
                    self.taken += REQUEST_BYTES;
                    if request.command != Command::Disconnect {
                        session.begin(request, &mut self.output);
                        continue;
                    }
                    if let Phase::Session(session) = std::mem::replace(&mut self.phase, Phase::Over)
                    {
                        self.phase = Phase::Leaving(session);
                    }
                    return self.next(Vec::new);
                }
            }
        }
    }

    /// The data of the command that was asked for.
    pub(crate) fn payload(&self) -> &[u8] {
        match self.payload.bytes {
            0 => &self.payload.ranges,
            bytes => self.input.get(self.taken..self.taken + bytes).unwrap_or_default(),
        }
    }

    /// The command was submitted, and its data are not needed any more.
    pub(crate) fn submitted(&mut self) {
        self.taken += std::mem::take(&mut self.payload.bytes);
    }

    /// Which bytes of the range are in use: runs of bytes, and their state.
    pub(crate) fn tell_extents(&mut self, extents: &[(u32, u32)]) {
        if let Phase::Session(session) = &mut self.phase {
            session.tell_extents(extents, &mut self.output);
        }
    }

    /// A command has ended; gives it back if nobody waits for it.
    pub(crate) fn completed(&mut self, completion: Completion) -> Option<Completion> {
        match &mut self.phase {
            Phase::Session(session) | Phase::Leaving(session) => {
                session.completed(completion);
                None
            }
            _ => Some(completion),
        }
    }

    /// Answers as many of the commands that have ended as there is room for. `fill` copies the data of
    /// a completion. `Err`: an answer cannot be given any more.
    pub(crate) fn answer(
        &mut self,
        mut fill: impl FnMut(&mut Completion, &mut [u8]),
    ) -> Result<(), ()> {
        while !self.is_full() {
            let (Phase::Session(session) | Phase::Leaving(session)) = &mut self.phase else {
                return Ok(());
            };
            let Some(completion) = session.answer(&mut self.output, &mut fill)? else {
                return Ok(());
            };
            let end = self.sent + (self.output.len() - self.gone) as u64;
            self.unsent.push_back(Unsent { end, completion });
        }
        Ok(())
    }

    /// Completions that have not been answered, when all is over.
    pub(crate) fn take_replies(&mut self) -> VecDeque<Completion> {
        match &mut self.phase {
            Phase::Session(session) | Phase::Leaving(session) => session.take_replies(),
            _ => VecDeque::new(),
        }
    }

    /// Whether it goes on only when something has ended or been sent.
    pub(crate) fn is_held_up(&self) -> bool {
        match &self.phase {
            Phase::Session(session) => self.is_held_up || session.has_flush(),
            Phase::Leaving(_) => true,
            _ => self.is_held_up,
        }
    }

    /// Whether the payload of a write is on its way.
    pub(crate) fn awaits_data(&self) -> bool {
        matches!(&self.phase, Phase::Session(session) if session.awaits_data())
    }

    /// Bytes that are to be sent.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output.len() - self.gone
    }

    /// Output that has not been sent.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output[self.gone..]
    }

    /// Bytes of the output have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.gone = (self.gone + bytes).min(self.output.len());
        self.sent += bytes as u64;
        if self.gone == self.output.len() {
            self.output.clear();
            self.gone = 0;
        } else if self.gone > OUTPUT_MAX {
            self.output.drain(..self.gone);
            self.gone = 0;
        }
    }

    /// The next completion whose answer has been sent whole.
    pub(crate) fn next_sent(&mut self) -> Option<Completion> {
        let sent = self.sent;
        self.unsent.pop_front_if(|unsent| unsent.end <= sent).map(|unsent| unsent.completion)
    }

    /// Gives memory back that an idle connection does not need.
    pub(crate) fn shrink(&mut self) {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            self.input = Vec::new();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Client>() + self.input.capacity() + self.output.capacity()
    }
}
