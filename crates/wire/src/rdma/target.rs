//! The controller's end of a queue pair.
//!
//! Capsules go in ([`Connection::capsule`]); each is a command with its data, or one whose data have
//! to be read from the host's memory first ([`Connection::next_read`], [`Connection::read_begins`],
//! [`Connection::read_ended`]), or one that is answered at once. Completions go in
//! ([`Connection::answer`]) and say what is to be posted. The order of work is that of Linux's
//! target (drivers/nvme/target/rdma.c).
//!
//! The machine bounds everything a host can make it hold: commands by the queue's size, RDMA READs
//! by what the host lets, work requests by [`Connection::has_room`].

use super::capsule::{Capsule, Place, Remote};
use crate::nvme::{CompletionEntry, Status, SubmissionEntry};
use core::ops::Range;
use std::collections::VecDeque;

/// Bits of [`SubmissionEntry::flags`] of either half of a fused pair.
const FUSED: u8 = 3;

/// Limits of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Commands that can be received at once.
    pub entries: u16,
    /// RDMA READs under way at once, at least 1.
    pub read_depth: u8,
    /// Data one command may move.
    pub transfer_bytes: u32,
}

impl Settings {
    /// Work requests of the send queue: READs, and a WRITE and a SEND for every command.
    pub fn work_requests(&self) -> u32 {
        2 * u32::from(self.entries) + u32::from(self.read_depth)
    }
}

/// What a host did that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A capsule is too short to be one.
    #[error("a capsule of less than 64 bytes")]
    Short,
    /// More commands are under way than the queue has entries.
    #[error("more commands than the queue has entries")]
    TooMany,
}

/// What has to be done with a capsule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command, with this part of the capsule as its data.
    Command(SubmissionEntry, Range<usize>),
    /// Its data have to be read with RDMA READ first.
    Waits,
    /// It is completed at once with this.
    Answered(CompletionEntry),
}

/// What is to be posted for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The completion to SEND.
    pub entry: CompletionEntry,
    /// Where the data are written with RDMA WRITE before that.
    pub to: Option<Remote>,
    /// The key that the SEND invalidates.
    pub invalidates: Option<u32>,
}

impl Answer {
    /// How many work requests it takes.
    pub fn work_requests(&self) -> u32 {
        1 + u32::from(self.to.is_some())
    }
}

/// A command that is not answered.
#[derive(Clone, Copy, Debug)]
struct Command {
    id: u16,
    to: Option<Remote>,
    invalidates: Option<u32>,
}

/// A command whose data are to be read.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    entry: SubmissionEntry,
    from: Remote,
    stamp: u64,
}

/// A queue pair, seen from the controller.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    commands: Vec<Command>,
    waiting: VecDeque<Transfer>,
    /// Indexed by the number of the READ.
    reading: Vec<Option<Transfer>>,
    /// Half of a fused pair waits for its data, and what comes after it for that.
    fused: bool,
    used: u32,
    queue_id: u16,
    entries: u32,
    head: u16,
    flow_control: bool,
    /// It has become a queue, and nothing has been answered since.
    is_fresh: bool,
}

impl Connection {
    /// A queue pair that a host has just connected.
    pub fn new(settings: Settings) -> Connection {
        Connection {
            settings,
            commands: Vec::new(),
            waiting: VecDeque::new(),
            reading: vec![None; settings.read_depth.max(1).into()],
            fused: false,
            used: 0,
            queue_id: 0,
            entries: 1,
            head: 0,
            flow_control: true,
            is_fresh: false,
        }
    }

    /// Whether this capsule, the next, has to wait. The halves of a fused pair are handed on
    /// together, whichever has its data first: nothing overtakes them, and they overtake nothing.
    pub fn holds_up(&self, capsule: &[u8]) -> bool {
        let is_half = capsule.get(1).is_some_and(|flags| flags & FUSED != 0);
        self.fused || is_half && self.reads() > 0
    }

    /// A capsule has come, at `stamp` in any unit.
    ///
    /// # Errors
    /// If the connection has to end for it.
    pub fn capsule(&mut self, bytes: &[u8], stamp: u64) -> Result<Step, Broken> {
        let settings = &self.settings;
        let capsule = Capsule::parse(bytes, settings.transfer_bytes).ok_or(Broken::Short)?;
        if self.commands.len() >= usize::from(settings.entries) {
            return Err(Broken::TooMany);
        }
        let entry = capsule.entry;
        let id = entry.command_id.get();
        self.head = if u32::from(self.head) + 1 >= self.entries { 0 } else { self.head + 1 };
        let mut command = Command { id, to: None, invalidates: None };
        if let Ok(Place::Read(remote) | Place::Write(remote)) = &capsule.place
            && remote.invalidates
        {
            command.invalidates = Some(remote.key);
        }
        let step = match capsule.place {
            Err(status) => Step::Answered(CompletionEntry::new(id, status, 0)),
            Ok(Place::None) => Step::Command(entry, 0..0),
            Ok(Place::Capsule(range)) => Step::Command(entry, range),
            Ok(Place::Write(remote)) => {
                command.to = Some(remote);
                Step::Command(entry, 0..0)
            }
            Ok(Place::Read(from)) => {
                self.fused = entry.flags & FUSED != 0;
                self.waiting.push_back(Transfer { entry, from, stamp });
                Step::Waits
            }
        };
        self.commands.push(command);
        Ok(step)
    }

    /// The place from which data are to be read next, into as many bytes of memory.
    pub fn next_read(&self) -> Option<Remote> {
        let has_room = self.used < self.settings.work_requests();
        let is_free = self.reading.iter().any(Option::is_none);
        self.waiting.front().filter(|_| has_room && is_free).map(|it| it.from)
    }

    /// The READ that [`Connection::next_read`] has named is posted: its number, below the depth.
    pub fn read_begins(&mut self) -> Option<u8> {
        self.next_read()?;
        let at = self.reading.iter().position(Option::is_none)?;
        self.reading[at] = Some(self.waiting.pop_front()?);
        self.used += 1;
        Some(at as u8)
    }

    /// The READ of this number has ended, and with it the data of this command are there, which came
    /// at this stamp.
    pub fn read_ended(&mut self, number: u8) -> Option<(SubmissionEntry, u64)> {
        let transfer = self.reading.get_mut(usize::from(number))?.take()?;
        self.used -= 1;
        if transfer.entry.flags & FUSED != 0 {
            self.fused = false;
        }
        Some((transfer.entry, transfer.stamp))
    }

    /// READs that are wanted or under way.
    pub fn reads(&self) -> usize {
        self.waiting.len() + self.reading.iter().flatten().count()
    }

    /// Whether a completion can be answered now. Otherwise it waits with the caller until work
    /// requests have ended.
    pub fn has_room(&self) -> bool {
        self.used + 2 <= self.settings.work_requests()
    }

    /// Where so many bytes of a command's data go: nowhere if the host has no such room.
    pub fn place_for(&self, command_id: u16, bytes: u32) -> Option<Remote> {
        let command = self.commands.iter().find(|command| command.id == command_id)?;
        command.to.filter(|to| bytes > 0 && to.bytes >= bytes)
    }

    /// Answers a command, with so many bytes of data for the host. To be called when
    /// [`Connection::has_room`], and posted.
    pub fn answer(&mut self, entry: &CompletionEntry, bytes: u32) -> Answer {
        let mut entry = *entry;
        let id = entry.command_id.get();
        let to = self.place_for(id, bytes).map(|to| Remote { bytes, ..to });
        if bytes > 0 && to.is_none() {
            entry = CompletionEntry::new(id, Status::SGL_DATA_LENGTH_INVALID.do_not_retry(), 0);
        }
        let command = self.commands.iter().position(|command| command.id == id);
        let command = command.map(|at| self.commands.remove(at));
        if std::mem::take(&mut self.is_fresh) && !self.flow_control {
            // FFFFh in the response to Connect: flow control is off (Base 2.0, section 6.3).
            entry.queue_head.set(0xffff);
        } else {
            entry.queue_id.set(self.queue_id);
            entry.queue_head.set(if self.flow_control { self.head } else { 0 });
        }
        let invalidates = command.and_then(|command| command.invalidates);
        let answer = Answer { entry, to, invalidates };
        self.used += answer.work_requests();
        answer
    }

    /// This many work requests of an answer have completed.
    pub fn sent(&mut self, work_requests: u32) {
        self.used = self.used.saturating_sub(work_requests);
    }

    /// A command will never be answered: its place in the queue is free again.
    pub fn forget(&mut self, command_id: u16) {
        if let Some(at) = self.commands.iter().position(|command| command.id == command_id) {
            self.commands.remove(at);
        }
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

    /// Commands that have come and were not answered.
    pub fn outstanding(&self) -> usize {
        self.commands.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::capsule::tests::keyed;
    use super::*;
    use crate::nvme::opcode::nvm;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    const SETTINGS: Settings = Settings { entries: 4, read_depth: 2, transfer_bytes: 1 << 20 };

    fn remote(bytes: u32) -> Remote {
        Remote { address: 0x1000, bytes, key: 7, invalidates: true }
    }

    fn capsule(opcode: u8, id: u16, bytes: u32) -> Vec<u8> {
        keyed(opcode, id, remote(bytes)).as_bytes().to_vec()
    }

    #[test]
    fn reads_are_written_to_the_host_and_writes_read_from_it() {
        let mut pair = Connection::new(SETTINGS);
        assert!(matches!(pair.capsule(&capsule(nvm::READ, 1, 4096), 10), Ok(Step::Command(..))));
        assert_eq!(pair.capsule(&capsule(nvm::WRITE, 2, 8192), 20), Ok(Step::Waits));
        assert_eq!(pair.next_read(), Some(remote(8192)));
        let number = pair.read_begins().expect("a READ");
        assert_eq!(pair.next_read(), None);
        let (entry, stamp) = pair.read_ended(number).expect("its command");
        assert_eq!((entry.command_id.get(), stamp), (2, 20));
        let done = pair.answer(&CompletionEntry::new(1, Status::SUCCESS, 0), 4096);
        assert_eq!((done.to, done.invalidates), (Some(remote(4096)), Some(7)));
        let done = pair.answer(&CompletionEntry::new(2, Status::SUCCESS, 0), 0);
        assert_eq!((done.to, done.invalidates, done.work_requests()), (None, Some(7), 1));
        assert_eq!(pair.outstanding(), 0);
    }

    #[test]
    fn data_without_room_for_them_are_an_error() {
        let mut pair = Connection::new(SETTINGS);
        pair.capsule(&capsule(nvm::READ, 1, 512), 0).expect("a command");
        let done = pair.answer(&CompletionEntry::new(1, Status::SUCCESS, 0), 4096);
        assert_eq!(done.entry.status(), Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
        assert_eq!(done.to, None);
    }

    #[test]
    fn a_host_that_cannot_count_is_sent_away() {
        let mut pair = Connection::new(SETTINGS);
        for id in 0..4 {
            pair.capsule(&capsule(nvm::FLUSH, id, 0), 0).expect("a command");
        }
        assert_eq!(pair.capsule(&capsule(nvm::FLUSH, 4, 0), 0), Err(Broken::TooMany));
        assert_eq!(pair.capsule(&[0; 63], 0), Err(Broken::Short));
    }

    #[test]
    fn nothing_overtakes_the_halves_of_a_fused_pair() {
        let mut pair = Connection::new(SETTINGS);
        let mut half = capsule(nvm::COMPARE, 2, 512);
        half[1] |= 1;
        pair.capsule(&capsule(nvm::WRITE, 1, 512), 0).expect("a command");
        assert!(pair.holds_up(&half) && !pair.holds_up(&capsule(nvm::READ, 3, 512)));
        let number = pair.read_begins().expect("a READ");
        pair.read_ended(number);
        assert!(!pair.holds_up(&half));
        pair.capsule(&half, 0).expect("a command");
        assert!(pair.holds_up(&capsule(nvm::READ, 3, 512)));
        let number = pair.read_begins().expect("a READ");
        pair.read_ended(number);
        assert!(!pair.holds_up(&capsule(nvm::READ, 3, 512)));
    }

    proptest! {
        /// Whatever hosts send and however slow the network is, each command is answered once, and
        /// no queue of the hardware runs over.
        #[test]
        fn every_command_is_answered_once(
            moves in proptest::collection::vec((0u8..5, any::<u8>(), 0u32..9000), 1..200),
        ) {
            let mut pair = Connection::new(SETTINGS);
            let (mut taken, mut answered, mut next) = (0, 0, 0u16);
            let (mut inside, mut reading, mut sending) = (Vec::new(), Vec::new(), Vec::new());
            for (kind, choice, bytes) in moves {
                match kind {
                    0 => {
                        let opcode = [nvm::READ, nvm::WRITE, nvm::FLUSH][usize::from(choice % 3)];
                        let full = pair.outstanding() == usize::from(SETTINGS.entries);
                        match pair.capsule(&capsule(opcode, next, bytes), 0) {
                            Err(broken) => prop_assert!(full && broken == Broken::TooMany),
                            Ok(step) => {
                                prop_assert!(!full);
                                taken += 1;
                                if !matches!(step, Step::Waits) {
                                    inside.push((next, opcode == nvm::READ));
                                }
                            }
                        }
                        next += 1;
                    }
                    1 => reading.extend(pair.read_begins()),
                    2 if !reading.is_empty() => {
                        let number = reading.remove(usize::from(choice) % reading.len());
                        let (entry, _) = pair.read_ended(number).expect("it was under way");
                        inside.push((entry.command_id.get(), false));
                    }
                    3 if !inside.is_empty() && pair.has_room() => {
                        let (id, has_data) = inside.remove(usize::from(choice) % inside.len());
                        let bytes = if has_data { bytes } else { 0 };
                        let answer = pair.answer(&CompletionEntry::new(id, Status::SUCCESS, 0), bytes);
                        prop_assert_eq!(answer.entry.command_id.get(), id);
                        answered += 1;
                        sending.push(answer.work_requests());
                    }
                    4 if !sending.is_empty() => pair.sent(sending.remove(0)),
                    _ => {}
                }
                prop_assert!(reading.len() <= usize::from(SETTINGS.read_depth));
                let used = reading.len() as u32 + sending.iter().sum::<u32>();
                prop_assert!(used <= SETTINGS.work_requests());
                prop_assert_eq!(pair.outstanding(), taken - answered);
                prop_assert_eq!(inside.len() + pair.reads(), taken - answered);
            }
        }
    }
}
