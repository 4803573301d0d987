//! The host of a recorded run, in front of another drive: commands come when they did,
//! however long this drive takes.
//!
//! What answers to how long a drive takes comes when this drive is as far. Hosts delete a queue
//! when they have the answers that they want: here the queue goes when the commands that the
//! recorded drive had answered by then have been answered, too. The others are cut off, as they
//! were. Likewise an abort is for a command that the recorded drive had not answered.
//!
//! Records are read ahead of their time where a queue of this drive fetches earlier than that of
//! the recorded one. So numbers of queues and tags, which come again once they are free, are
//! replaced by this drive's when they are read, which is in the order of the recording.

mod keys;

use super::key::{KeyDone, Pairs};
use super::{FeedError, Kind, Record, Recording, RecordingError, Replayed, feed};
use keys::KeysRehosted;
use mynah_model::io::{
    Completion, Control, FlowId, NamespaceId, Operation, Output, QueueId, Request, Status, Tag,
};
use mynah_model::{Drive, InputError};
use mynah_stamp::Time;
use mynah_workload::trace::Remap;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// The recorded host in front of another drive.
#[derive(Default)]
pub(super) struct Rehost {
    remap: Remap,
    /// Requests beyond the drive's end that were folded into it.
    pub(super) remapped: u64,
    /// Records read, and those of them whose time has not come.
    read: u64,
    ahead: VecDeque<Record>,
    ended: bool,
    /// Where the reading is: this drive's number of each recorded queue, and its tag of each
    /// command that the recorded drive has not answered.
    numbers: FxHashMap<u16, u16>,
    unanswered: FxHashMap<u32, u32>,
    next_tag: u32,
    /// The queues that end with each reset or power cut that has been read.
    endings: VecDeque<Vec<u16>>,
    /// Queues by this drive's numbers, until they are deleted here.
    queues: BTreeMap<u16, Requeue>,
    /// Commands by this drive's tags, until they are answered here.
    commands: FxHashMap<u32, Reissued>,
    keys: KeysRehosted,
}

/// A queue of the recorded run.
struct Requeue {
    flow: FlowId,
    fetched: bool,
    /// Commands that were read and have not been fetched.
    waiting: VecDeque<Record>,
    /// All recorded completions of the queue's commands have been read.
    complete: bool,
    /// Commands that the recorded drive has answered, as far as it is read, and this drive has not.
    owed: u32,
    /// Set when the queue is to be deleted, which happens once it owes nothing.
    leaving: Option<Leaving>,
}

/// How a queue ends, and so what becomes of its commands that it does not owe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Queue deletion: they are aborted.
    Deleted,
    /// Controller reset or power cut: they are never answered.
    Reset,
}

/// A command on its way to the other drive, or in it.
struct Reissued {
    queue: u16,
    flow: FlowId,
    origin: Origin,
    owed: bool,
}

/// On whose behalf a command is issued.
#[derive(Clone, Copy)]
enum Origin {
    /// I/O of a host.
    Io(Request),
    /// The drive's own or an admin command's work, which counts for no flow.
    Own,
    /// A key-value command, with its decision.
    Key(KeyDone),
}

/// Where a request beyond the end of `capacity` sectors goes: to its address modulo them, which
/// keeps it as aligned as it was. `None` if it is longer than that.
fn fold(sector: u64, sectors: u64, capacity: u64) -> Option<u64> {
    let last = capacity.checked_sub(sectors)?;
    Some((sector % capacity.max(1)).min(last))
}

impl Rehost {
    pub(super) fn new(remap: Remap, past: u64, pairs: Pairs) -> Rehost {
        Rehost { remap, read: past, keys: KeysRehosted::new(pairs), ..Rehost::default() }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// The next record whose time comes.
    pub(super) fn next(&mut self, recording: &mut Recording) -> Result<Record, RecordingError> {
        loop {
            if let Some(record) = self.ahead.pop_front() {
                return Ok(record);
            }
            self.read_on(recording)?;
        }
    }

    /// Reads the next record, and translates its queue and tag to this drive's.
    fn read_on(&mut self, recording: &mut Recording) -> Result<(), RecordingError> {
        let mut record = recording.next_record(self.read)?;
        self.read += 1;
        let at = record.at;
        let taken = self.take(&mut record).map_err(|error| recording.unfit(at, error));
        if taken? {
            self.ahead.push_back(record);
        }
        Ok(())
    }

    /// Replaces the queue and tag of a record by this drive's numbers; true if it is an input for
    /// its time.
    fn take(&mut self, record: &mut Record) -> Result<bool, FeedError> {
        match record.kind {
            Kind::CreateQueue => self.take_creation(record)?,
            Kind::DeleteQueue => {
                let number = self.number(record.queue)?;
                self.numbers.remove(&record.queue);
                record.queue = number;
                self.requeue(number)?.complete = true;
            }
            Kind::Ring => record.queue = self.number(record.queue)?,
            Kind::Command | Kind::KeyCommand => {
                record.queue = self.number(record.queue)?;
                let tag = self.next_tag;
                self.next_tag = self.next_tag.wrapping_add(1);
                self.unanswered.insert(record.tag, tag);
                record.tag = tag;
                let queue = record.queue;
                let flow = self.requeue(queue)?.flow;
                let origin = match record.kind {
                    Kind::KeyCommand => {
                        let request = record.key_request()?;
                        self.keys.read(&request);
                        Origin::Key(KeyDone::new(request))
                    }
                    _ if record.is_nobodys() => Origin::Own,
                    _ => Origin::Io(record.request()?),
                };
                self.commands.insert(tag, Reissued { queue, flow, origin, owed: false });
                let requeue = self.requeue(queue)?;
                if !requeue.fetched {
                    requeue.waiting.push_back(*record);
                    return Ok(false);
                }
            }
            Kind::Decided => {
                if let Some(&tag) = self.unanswered.get(&record.tag) {
                    self.keys.read_decision(tag, record.decision()?);
                }
                return Ok(false);
            }
            Kind::Completed => {
                let tag = self.unanswered.remove(&record.tag);
                tag.into_iter().for_each(|tag| self.keys.read_completion(tag));
                if record.code != Status::Aborted as u8
                    && let Some(command) = tag.and_then(|tag| self.commands.get_mut(&tag))
                {
                    command.owed = true;
                    let queue = command.queue;
                    self.requeue(queue)?.owed += 1;
                }
                return Ok(false);
            }
            Kind::Abort => {
                let Some(&tag) = self.unanswered.get(&record.tag) else { return Ok(false) };
                (record.queue, record.tag) = (self.number(record.queue)?, tag);
            }
            Kind::Reset | Kind::PowerCut => {
                let ending = self.queues.iter_mut().filter(|(_, queue)| !queue.complete);
                let ending = ending.map(|(&number, queue)| {
                    queue.complete = true;
                    number
                });
                self.endings.push_back(ending.collect());
                self.numbers.clear();
                self.unanswered.clear();
                self.keys.read_reset();
            }
            Kind::End => self.ended = true,
            Kind::Format | Kind::Arbitration | Kind::WriteBack | Kind::UpdateHandle => {}
            Kind::RampEnds | Kind::RampOf | Kind::BatchEnds | Kind::Offered => {}
            Kind::Past => return Err(FeedError::LatePast),
            Kind::Pair => return Err(FeedError::LatePair),
            // What this drive does itself, or has no need of.
            Kind::DataArrived | Kind::CqFreed => return Ok(false),
        }
        Ok(true)
    }

    fn take_creation(&mut self, record: &mut Record) -> Result<(), FeedError> {
        // A queue that went with the power has not been deleted.
        if let Some(before) = self.numbers.remove(&record.queue) {
            self.requeue(before)?.complete = true;
        }
        // Its own number, unless the queue that had it before is still here.
        let number = std::iter::once(record.queue)
            .chain(0..=u16::MAX)
            .find(|number| !self.queues.contains_key(number))
            .ok_or(InputError::QueueExists(QueueId(record.queue)))?;
        let queue = Requeue {
            flow: record.flow(),
            fetched: record.is_fetched(),
            waiting: VecDeque::new(),
            complete: false,
            owed: 0,
            leaving: None,
        };
        self.numbers.insert(record.queue, number);
        self.queues.insert(number, queue);
        record.queue = number;
        Ok(())
    }

    /// This drive's number of a queue of the recording.
    fn number(&self, recorded: u16) -> Result<u16, FeedError> {
        let unknown = InputError::NoSuchQueue(QueueId(recorded));
        self.numbers.get(&recorded).copied().ok_or(unknown.into())
    }

    fn requeue(&mut self, number: u16) -> Result<&mut Requeue, FeedError> {
        self.queues.get_mut(&number).ok_or(InputError::NoSuchQueue(QueueId(number)).into())
    }

    /// Runs the drive to `to`, or at the latest instant that anything happens. Returns
    /// whether to go on.
    pub(super) fn run_to(
        &mut self,
        recording: &mut Recording,
        drive: &mut Drive,
        to: Time,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<bool, RecordingError> {
        loop {
            while let Some(output) = drive.poll() {
                match output {
                    Output::Fetch { at, queue } => self.answer(recording, drive, at, queue)?,
                    Output::Decide { at, tag, .. } => self.decide(recording, drive, at, tag)?,
                    Output::Move { .. } => {}
                    Output::Complete(completion) => {
                        let go_on = self
                            .completed(drive, &completion, watch)
                            .map_err(|error| recording.unfit(completion.at, error))?;
                        if !go_on {
                            return Ok(false);
                        }
                    }
                }
            }
            if drive.now() >= to || to == Time::MAX && self.outstanding() == 0 {
                return Ok(true);
            }
            let before = drive.now();
            drive.advance(to);
            if drive.now() == before && drive.next_at().is_none() {
                return Ok(true);
            }
        }
    }

    /// Hands over the command that `queue` fetches, reading ahead for it.
    fn answer(
        &mut self,
        recording: &mut Recording,
        drive: &mut Drive,
        at: Time,
        queue: QueueId,
    ) -> Result<(), RecordingError> {
        loop {
            let Some(requeue) = self.queues.get_mut(&queue.0) else { return Ok(()) };
            if let Some(record) = requeue.waiting.pop_front() {
                return self
                    .issue(drive, at, &record)
                    .map_err(|error| recording.unfit(record.at, error));
            }
            // An entry that was never fetched when the queue went, or the recording ended.
            if requeue.complete || self.ended {
                return Ok(());
            }
            self.read_on(recording)?;
        }
    }

    /// Gives a command to the drive, at an address that it has.
    fn issue(&mut self, drive: &mut Drive, at: Time, record: &Record) -> Result<(), FeedError> {
        if record.kind == Kind::KeyCommand {
            let request = record.key_request()?;
            if drive.pair_counts(request.namespace).is_none() {
                return Err(FeedError::NoPairs(request.namespace.0));
            }
            return Ok(drive.key_command(at, QueueId(record.queue), request)?);
        }
        let mut request = record.request()?;
        if !matches!(request.operation, Operation::Other | Operation::Flush) {
            self.fit(drive, &mut request)?;
        }
        if let Some(Reissued { origin: Origin::Io(shown), .. }) = self.commands.get_mut(&record.tag)
        {
            *shown = request;
        }
        drive.command(at, QueueId(record.queue), request)?;
        if request.operation == Operation::Other {
            // What it stands for comes by itself, and takes as long as it takes here.
            drive.data_arrived(at, Tag(record.tag))?;
        }
        Ok(())
    }

    /// Folds a request that reaches beyond its namespace into it, or refuses it, as `remap` says.
    fn fit(&mut self, drive: &Drive, request: &mut Request) -> Result<(), FeedError> {
        let Some(capacity) = drive.namespace_sectors(request.namespace) else {
            return Err(FeedError::NoNamespace(request.namespace.0));
        };
        let end = request.sector.checked_add(request.sectors.into());
        if end.is_some_and(|end| end <= capacity) {
            return Ok(());
        }
        // Of what is deallocated, what the drive does not have is nothing.
        let sectors = match request.operation {
            Operation::Trim => u64::from(request.sectors).min(capacity) as u32,
            _ => request.sectors,
        };
        let folded = fold(request.sector, sectors.into(), capacity);
        match (self.remap, folded) {
            (Remap::Modulo, Some(sector)) => {
                self.remapped += 1;
                (request.sector, request.sectors) = (sector, sectors);
                Ok(())
            }
            _ => Err(FeedError::Outside {
                sector: request.sector,
                sectors: request.sectors,
                capacity,
                too_long: folded.is_none(),
            }),
        }
    }

    fn completed(
        &mut self,
        drive: &mut Drive,
        completion: &Completion,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<bool, FeedError> {
        let link = drive.polled_link_spans().copied();
        // Fails only where the queue has gone, and its completion queue with it.
        let _ = drive.cq_freed(completion.at, completion.queue, 1);
        let Some(command) = self.commands.remove(&completion.tag.0) else {
            return Ok(true);
        };
        self.keys.completed(completion.tag.0);
        let (created, flow) = (completion.rung, Some(command.flow));
        let request = match command.origin {
            Origin::Io(request) => Some(request),
            Origin::Own | Origin::Key(_) => None,
        };
        let replayed = match command.origin {
            Origin::Key(done) => Replayed::CompletedKey { completion, done, created, flow },
            _ => {
                let link = link.as_ref();
                Replayed::Completed { completion, link, request, created, flow }
            }
        };
        let go_on = watch(drive, replayed);
        if command.owed
            && let Some(queue) = self.queues.get_mut(&command.queue)
        {
            queue.owed -= 1;
            self.let_go(drive, completion.at, command.queue)?;
        }
        Ok(go_on)
    }

    /// Marks a queue for deletion, and deletes it now if it owes nothing.
    fn leave(
        &mut self,
        drive: &mut Drive,
        at: Time,
        number: u16,
        how: Leaving,
    ) -> Result<(), FeedError> {
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.leaving = Some(how);
        }
        self.let_go(drive, at, number)
    }

    /// Deletes a queue that is marked for deletion, once it owes nothing.
    fn let_go(&mut self, drive: &mut Drive, at: Time, number: u16) -> Result<(), FeedError> {
        let Some(queue) = self.queues.get(&number) else { return Ok(()) };
        let Some(how) = queue.leaving.filter(|_| queue.owed == 0) else { return Ok(()) };
        if how == Leaving::Reset {
            self.forget_commands(number);
        } else if let Some(queue) = self.queues.remove(&number) {
            // What the drive has not fetched it does not answer.
            for record in queue.waiting {
                self.commands.remove(&record.tag);
            }
        }
        self.queues.remove(&number);
        Ok(drive.control(at, Control::DeleteQueue(QueueId(number)))?)
    }

    /// Drops the commands of a queue: they will never be answered.
    fn forget_commands(&mut self, number: u16) {
        self.commands.retain(|_, command| command.queue != number);
    }

    /// Gives one recorded input to the drive.
    pub(super) fn give(
        &mut self,
        drive: &mut Drive,
        record: &Record,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<(), FeedError> {
        match self.give_at_once(drive, record, watch) {
            // It went with this drive's power: nothing of it arrives any more.
            Err(FeedError::Input(InputError::NoSuchQueue(_))) => {
                self.forget_commands(record.queue);
                Ok(())
            }
            given => given,
        }
    }

    fn give_at_once(
        &mut self,
        drive: &mut Drive,
        record: &Record,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<(), FeedError> {
        match record.kind {
            Kind::CreateQueue => {
                watch(drive, Replayed::Flow(record.flow()));
                feed(drive, record)?;
            }
            Kind::Ring => {
                feed(drive, record)?;
                for _ in 0..record.tag {
                    watch(drive, Replayed::Issued(record.at));
                }
            }
            Kind::Command | Kind::KeyCommand => {
                self.issue(drive, record.at, record)?;
                watch(drive, Replayed::Issued(record.at));
            }
            Kind::DeleteQueue => self.leave(drive, record.at, record.queue, Leaving::Deleted)?,
            Kind::Reset => {
                for number in self.endings.pop_front().unwrap_or_default() {
                    self.leave(drive, record.at, number, Leaving::Reset)?;
                }
            }
            Kind::Format => {
                feed(drive, record)?;
                self.keys.pairs.clear(NamespaceId(record.namespace));
            }
            Kind::PowerCut => {
                feed(drive, record)?;
                self.keys.pairs.lose(&drive.take_lost_pairs());
                for number in self.endings.pop_front().unwrap_or_default() {
                    self.queues.remove(&number);
                    self.forget_commands(number);
                }
            }
            _ => {
                feed(drive, record)?;
            }
        }
        Ok(())
    }
}
