//! A drive in this process whose operations take the time that its model says.

use crate::code::Code;
use crate::engine::{Completion, Listing, Lost, Name, Operation, Outcome, Page, Port};
use crate::memory::Plan;
use crate::table::Table;
use mynah_model::Drive;
use mynah_model::config::Priority;
use mynah_model::io::{
    Control, FlowId, NamespaceId, Output, Queue, QueueId, QueueKind, Status, Tag,
};
use mynah_model::keys::{Decision, KeyOperation, KeyRequest, PairToFill, token};
use mynah_runtime::clock::{Clock, Rate};
use mynah_stamp::{Span, Time};
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const QUEUE: QueueId = QueueId(1);
/// Entries of the queue.
const ENTRIES: u32 = 1024;
/// How much longer the system sleeps than it should, more or less.
const OVERSLEPT: Span = Span::from_ns(60_000);

/// A step in flight, and its outcome.
struct Running {
    step: Operation,
    outcome: Result<Outcome, Code>,
}

/// See the file's description.
pub(crate) struct Modelled {
    drive: Drive,
    namespace: NamespaceId,
    value_max: u32,
    table: Arc<Mutex<Table>>,
    clock: Clock,
    running: HashMap<u32, Running>,
    /// Completed steps that were not reported yet.
    finished: Vec<Completion>,
}

impl Modelled {
    /// # Errors
    /// If the model cannot be built.
    pub(crate) fn new(
        plan: Plan,
        table: Arc<Mutex<Table>>,
        rate: Rate,
    ) -> Result<Modelled, String> {
        let Plan { config, namespace, layout } = plan;
        let mut drive = Drive::new(config).map_err(|error| error.to_string())?;
        let pairs: Vec<PairToFill> = {
            let table = locked(&table);
            let pairs = table.pairs().map(|(space, key, pair, value_bytes)| PairToFill {
                pair,
                token: token_of(&(space, key.into())),
                key_bytes: key.len() as u8,
                value_bytes,
            });
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort_unstable_by_key(|it| it.pair);
            pairs
        };
        drive.fill_pairs(namespace, pairs).map_err(|error| error.to_string())?;
        let queue = Queue {
            id: QUEUE,
            kind: QueueKind::Memory,
            flow: FlowId(0),
            priority: Priority::Medium,
            completion_entries: ENTRIES,
        };
        let created = drive.control(Time::ZERO, Control::CreateQueue(queue));
        created.map_err(|error| error.to_string())?;
        let clock = Clock::start(rate);
        let value_max = layout.value_max;
        let (running, finished) = (HashMap::new(), Vec::new());
        Ok(Modelled { drive, namespace, value_max, table, clock, running, finished })
    }

    /// Brings the model to the present, which is returned.
    fn catch_up(&mut self) -> Result<Time, Lost> {
        let now = self.clock.now().model.max(self.drive.now());
        loop {
            self.drive.advance(now);
            let mut any = false;
            while let Some(output) = self.drive.poll() {
                any = true;
                match output {
                    Output::Decide { at, tag, .. } => self.decide(at, tag)?,
                    Output::Complete(completion) => {
                        self.drive.cq_freed(completion.at, QUEUE, 1).map_err(lost)?;
                        self.completed(completion.tag.0, completion.status);
                    }
                    Output::Fetch { .. } | Output::Move { .. } => {}
                }
            }
            if !any && self.drive.next_at().is_none_or(|next| next > now) {
                return Ok(now);
            }
        }
    }

    fn completed(&mut self, id: u32, status: Status) {
        let Some(running) = self.running.remove(&id) else { return };
        let outcome = match status {
            Status::Success => running.outcome,
            Status::CapacityExceeded => Err(Code::KeySpaceCapacity),
            _ => Err(Code::SysIo),
        };
        self.finished.push((id, outcome));
    }

    /// The step with this number is to be decided.
    fn decide(&mut self, at: Time, tag: Tag) -> Result<(), Lost> {
        let Some(running) = self.running.get_mut(&tag.0) else {
            return self.drive.decided(at, tag, Decision::Absent).map(drop).map_err(lost);
        };
        let mut table = locked(&self.table);
        let drive = &mut self.drive;
        let mut decide = |decision| drive.decided(at, tag, decision).map_err(lost);
        running.outcome = match &running.step {
            Operation::Store { name: (space, key), value, kind } => {
                match table.plan(*space, key, value.len() as u32, *kind) {
                    Ok(planned) => {
                        let decision = Decision::Pair { pair: planned.id, bytes: 0 };
                        // Without room the model completes it with an error of its own.
                        match decide(decision)? {
                            true => {
                                let stored = table.carry_out(&planned, *space, key, value);
                                stored.map(|()| Outcome::Done)
                            }
                            false => Ok(Outcome::Done),
                        }
                    }
                    Err(code) => {
                        let found = table.size(*space, key);
                        let refused = |(pair, _)| Decision::Refused { pair };
                        decide(found.map_or(Decision::Absent, refused))?;
                        Err(code)
                    }
                }
            }
            Operation::Retrieve { name: (space, key), offset, bytes, .. } => {
                let found = table.size(*space, key);
                let size = found.map_or(0, |(_, size)| size);
                let mut data = vec![0; size.saturating_sub(*offset).min(*bytes) as usize];
                let outcome = table.retrieve(*space, key, *offset, &mut data);
                let bytes = outcome.map_or(0, |found| found.copied);
                decide(found.map_or(Decision::Absent, |(pair, _)| Decision::Pair { pair, bytes }))?;
                outcome.map(|found| Outcome::Value { size: found.size, data })
            }
            Operation::Delete((space, key)) | Operation::DeleteExisting((space, key)) => {
                let found = table.delete(*space, key);
                let decision = found.map(|pair| Decision::Pair { pair, bytes: 0 });
                decide(decision.unwrap_or(Decision::Absent))?;
                Ok(Outcome::Existed(found.is_some()))
            }
            Operation::Exist((space, key)) => {
                let found = table.size(*space, key);
                let decision = found.map(|(pair, _)| Decision::Pair { pair, bytes: 0 });
                decide(decision.unwrap_or(Decision::Absent))?;
                Ok(Outcome::Existed(found.is_some()))
            }
            Operation::List(listing) => {
                let (page, bytes) = list(&mut table, listing);
                decide(Decision::Keys { bytes })?;
                Ok(Outcome::Keys(page))
            }
            Operation::Used => Ok(Outcome::Used(table.used())),
        };
        Ok(())
    }
}

impl Port for Modelled {
    const IS_REMOTE: bool = false;

    fn value_max(&self) -> u32 {
        self.value_max
    }

    fn can_submit(&self) -> bool {
        self.running.len() < ENTRIES as usize - 1
    }

    fn submit(&mut self, id: u32, step: Operation) -> Result<(), Lost> {
        let (operation, name, bytes) = match &step {
            Operation::Store { name, value, kind } => {
                use crate::table::StoreKind::Post;
                let known = if *kind == Post { KeyOperation::Store } else { KeyOperation::StoreIf };
                (known, Some(name), value.len() as u32)
            }
            Operation::Retrieve { name, bytes, .. } => (KeyOperation::Retrieve, Some(name), *bytes),
            Operation::Delete(name) | Operation::DeleteExisting(name) => {
                (KeyOperation::Delete, Some(name), 0)
            }
            Operation::Exist(name) => (KeyOperation::Exist, Some(name), 0),
            Operation::List(listing) => (KeyOperation::List, None, listing.bytes),
            Operation::Used => {
                let used = locked(&self.table).used();
                self.finished.push((id, Ok(Outcome::Used(used))));
                return Ok(());
            }
        };
        let tag = Tag(id);
        let key_bytes = name.map_or(0, |(_, key)| key.len() as u8);
        let token = name.map_or(0, token_of);
        let namespace = self.namespace;
        let request = KeyRequest { tag, operation, namespace, token, key_bytes, bytes };
        // What was due before comes first.
        let at = self.catch_up()?;
        self.running.insert(id, Running { step, outcome: Err(Code::SysIo) });
        self.drive.submit_key(at, QUEUE, request).map_err(lost)
    }

    fn turn(&mut self, ended: &mut Vec<Completion>) -> Result<(), Lost> {
        self.catch_up()?;
        ended.append(&mut self.finished);
        if !self.running.is_empty() && ended.is_empty() && self.drive.next_at().is_none() {
            return Err(Lost("the drive has stopped".into()));
        }
        Ok(())
    }

    fn rest(&self) -> Option<Duration> {
        let Some(next) = self.drive.next_at() else { return Some(Duration::from_secs(1)) };
        let clock = self.clock;
        let left = clock.rate().wall(next).saturating_since(clock.wall());
        let nap = left.as_ps().checked_sub(OVERSLEPT.as_ps())?;
        Some(Duration::from_nanos(nap / 1000).min(Duration::from_secs(1)))
    }

    fn close(self) {}
}

/// Where in the index the key of a key space belongs.
fn token_of((space, key): &Name) -> u64 {
    token(&[&[*space], &key[..]].concat())
}

fn lost(error: impl std::fmt::Display) -> Lost {
    Lost(error.to_string())
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys of a table, and how many bytes they have.
pub(crate) fn list(table: &mut Table, listing: &Listing) -> (Page, u32) {
    let from = listing.start.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let (mut keys, mut next, mut bytes) = (Vec::new(), None, 0);
    table.walk(listing.space, from, listing.descending, |key| {
        if bytes >= listing.bytes {
            next = Some(key.into());
            return false;
        }
        bytes += key.len() as u32 + 4;
        keys.push(key.into());
        true
    });
    (Page { keys, next }, bytes.min(listing.bytes))
}
