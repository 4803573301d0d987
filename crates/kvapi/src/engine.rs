//! A thread that has what is not to be had from many threads at once: the model of a drive, or a
//! connection. Operations come over a channel and are answered by a call, any number at a time.
//!
//! An operation that takes two steps (a store that appends, a retrieval that deletes) has its key to
//! itself until it is over, so that it is one to all others of this process.

use crate::code::Code;
use crate::table::StoreKind;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, unbounded};
use std::collections::{HashMap, VecDeque};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A key space and a key.
pub(crate) type Name = (u8, Box<[u8]>);

/// An operation on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Store {
        name: Name,
        value: Vec<u8>,
        kind: StoreKind,
    },
    Retrieve {
        name: Name,
        offset: u32,
        bytes: u32,
        delete: bool,
    },
    Delete(Name),
    /// Deletes a key, and says whether it existed.
    DeleteExisting(Name),
    Exist(Name),
    List(Listing),
    Used,
}

/// Which keys are to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) space: u8,
    /// From this key on; `None`: from the end that comes first.
    pub(crate) start: Option<Box<[u8]>>,
    pub(crate) descending: bool,
    /// The listed keys have about this many bytes together.
    pub(crate) bytes: u32,
}

impl Operation {
    fn name(&self) -> Option<&Name> {
        match self {
            Operation::Store { name, .. } | Operation::Retrieve { name, .. } => Some(name),
            Operation::Delete(name) | Operation::Exist(name) => Some(name),
            Operation::DeleteExisting(name) => Some(name),
            Operation::List(_) | Operation::Used => None,
        }
    }

    /// The first step, if there are two.
    fn first_step(&self, value_max: u32, asks: bool) -> Option<Operation> {
        let retrieve = |name: &Name, offset, bytes| Operation::Retrieve {
            name: name.clone(),
            offset,
            bytes,
            delete: false,
        };
        match self {
            Operation::Store { name, kind: StoreKind::Append, .. } => {
                Some(retrieve(name, 0, value_max))
            }
            Operation::Retrieve { name, offset, bytes, delete: true } => {
                Some(retrieve(name, *offset, *bytes))
            }
            Operation::DeleteExisting(name) if asks => Some(Operation::Exist(name.clone())),
            _ => None,
        }
    }
}

/// Result of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Bytes of the whole value, and those that were asked for.
    Value {
        size: u32,
        data: Vec<u8>,
    },
    /// Whether there was such a key.
    Existed(bool),
    /// Keys, in order.
    Keys(Page),
    /// Bytes of the device that are in use.
    Used(u64),
}

/// A page of a key space's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) keys: Vec<Box<[u8]>>,
    /// Where the next page starts, which may be the last key of this one; `None`: there is none.
    pub(crate) next: Option<Box<[u8]>>,
}

/// Called with the outcome of an operation, on the engine's thread: it must not block.
pub(crate) type Callback = Box<dyn FnOnce(Result<Outcome, Code>) + Send>;

struct Job {
    operation: Operation,
    done: Callback,
}

/// The device does nothing any more.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lost(pub(crate) String);

/// Id and outcome of a completed step.
pub(crate) type Completion = (u32, Result<Outcome, Code>);

/// Takes single steps, and says when they have ended.
pub(crate) trait Port {
    /// Whether steps of one key have to come one after the other, and a deletion does not say whether
    /// there was a key.
    const IS_REMOTE: bool;

    /// In bytes.
    fn value_max(&self) -> u32;
    fn can_submit(&self) -> bool;
    /// Begins an operation of one step.
    fn submit(&mut self, id: u32, step: Operation) -> Result<(), Lost>;
    /// Polls once, and appends the completed steps.
    fn turn(&mut self, ended: &mut Vec<Completion>) -> Result<(), Lost>;
    /// How long the thread may sleep; `None`: it has to poll.
    fn rest(&self) -> Option<Duration>;
    fn close(self);
}

/// The engine's thread, to its users.
pub(crate) struct Engine {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts a thread that runs `open`, and returns what that returned besides the port.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn start<P: Port, T: Send + 'static>(
        open: impl FnOnce() -> Result<(P, T), String> + Send + 'static,
    ) -> Result<(Engine, T), String> {
        let (jobs, incoming) = unbounded();
        let (tell, told) = crossbeam_channel::bounded(1);
        let work = move || match open() {
            Ok((port, what)) => {
                let _ = tell.send(Ok(what));
                Loop::new(port).run(&incoming);
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        };
        let builder = thread::Builder::new().name("mynah-kv".into());
        let thread = builder.spawn(work).map_err(|error| format!("no thread: {error}"))?;
        let what = told.recv().map_err(|_| "the thread has ended".to_owned())??;
        Ok((Engine { jobs: Some(jobs), thread: Some(thread) }, what))
    }

    /// Submits an operation; `done` gets its outcome.
    pub(crate) fn submit(&self, operation: Operation, done: Callback) {
        let Some(jobs) = &self.jobs else { return };
        if let Err(refused) = jobs.send(Job { operation, done }) {
            (refused.into_inner().done)(Err(Code::SysIo));
        }
    }

    /// Submits an operation, and waits for its outcome.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn perform(&self, operation: Operation) -> Result<Outcome, Code> {
        let (tell, told) = crossbeam_channel::bounded(1);
        let done = move |outcome| {
            let _ = tell.send(outcome);
        };
        self.submit(operation, Box::new(done));
        told.recv().unwrap_or(Err(Code::SysIo))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.jobs = None;
        // A thread cannot wait for its own end, and the last use may be its own.
        if let Some(thread) =
            self.thread.take().filter(|it| it.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

/// An operation in flight.
struct Active {
    name: Option<Name>,
    done: Callback,
    /// The whole operation, if it has a second step.
    whole: Option<Operation>,
    /// Outcome of the first of two steps.
    first: Option<Outcome>,
}

/// Operations in flight that use a key.
#[derive(Default)]
struct Claim {
    users: u32,
    alone: bool,
    /// Jobs that are parked for it, which nobody overtakes.
    waiting: u32,
}

struct Loop<P> {
    port: P,
    active: HashMap<u32, Active>,
    claims: HashMap<Name, Claim>,
    /// Jobs that wait for their keys.
    parked: VecDeque<Job>,
    /// Keys were released since `parked` was last looked at.
    freed: bool,
    next: u32,
    ended: Vec<Completion>,
}

impl<P: Port> Loop<P> {
    fn new(port: P) -> Loop<P> {
        Loop {
            port,
            active: HashMap::new(),
            claims: HashMap::new(),
            parked: VecDeque::new(),
            freed: false,
            next: 0,
            ended: Vec::new(),
        }
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        match self.work(jobs) {
            Ok(()) => self.port.close(),
            Err(lost) => {
                eprintln!("mynah: the device is lost: {lost}");
                let active = self.active.into_values().map(|it| it.done);
                active.chain(self.parked.into_iter().map(|it| it.done)).for_each(refuse);
                jobs.iter().for_each(|job| refuse(job.done));
            }
        }
    }

    fn work(&mut self, jobs: &Receiver<Job>) -> Result<(), Lost> {
        loop {
            let mut idle = true;
            let mut over = false;
            self.unpark()?;
            while self.port.can_submit() {
                match jobs.try_recv() {
                    Ok(job) => self.begin(job)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        over = true;
                        break;
                    }
                }
                idle = false;
            }
            let mut ended = std::mem::take(&mut self.ended);
            self.port.turn(&mut ended)?;
            for (id, outcome) in ended.drain(..) {
                idle = false;
                self.step_ended(id, outcome)?;
            }
            self.ended = ended;
            if over && self.active.is_empty() && self.parked.is_empty() {
                return Ok(());
            }
            if idle {
                self.rest(jobs, over)?;
            }
        }
    }

    /// Waits for a job, or until something happens.
    fn rest(&mut self, jobs: &Receiver<Job>, over: bool) -> Result<(), Lost> {
        let Some(span) = self.port.rest() else {
            std::hint::spin_loop();
            return Ok(());
        };
        if over || !self.port.can_submit() {
            thread::sleep(span.min(Duration::from_millis(1)));
            return Ok(());
        }
        match jobs.recv_timeout(span) {
            Ok(job) => self.begin(job),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    /// Begins jobs that have waited for their keys.
    fn unpark(&mut self) -> Result<(), Lost> {
        if !std::mem::take(&mut self.freed) {
            return Ok(());
        }
        for _ in 0..self.parked.len() {
            if !self.port.can_submit() {
                self.freed = true;
                return Ok(());
            }
            // A job whose key somebody still has goes to the end, behind all that wait for others.
            if let Some(job) = self.parked.pop_front() {
                let claim = job.operation.name().and_then(|name| self.claims.get_mut(name));
                if let Some(claim) = claim {
                    claim.waiting = claim.waiting.saturating_sub(1);
                }
                self.begin(job)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, job: Job) -> Result<(), Lost> {
        let first = job.operation.first_step(self.port.value_max(), P::IS_REMOTE);
        let alone = P::IS_REMOTE || first.is_some();
        let name = job.operation.name().cloned();
        if let Some(name) = &name {
            match self.claims.get_mut(name) {
                Some(claim) if claim.alone || alone || claim.waiting > 0 => {
                    claim.waiting += 1;
                    self.parked.push_back(job);
                    return Ok(());
                }
                Some(claim) => claim.users += 1,
                None => {
                    self.claims.insert(name.clone(), Claim { users: 1, alone, waiting: 0 });
                }
            }
        }
        let Job { operation, done } = job;
        let (step, whole) = match first {
            Some(step) => (step, Some(operation)),
            None => (operation, None),
        };
        let id = self.fresh_id();
        self.active.insert(id, Active { name, done, whole, first: None });
        self.port.submit(id, step)
    }

    fn fresh_id(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.active.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    fn step_ended(&mut self, id: u32, outcome: Result<Outcome, Code>) -> Result<(), Lost> {
        let Some(mut active) = self.active.remove(&id) else { return Ok(()) };
        let whole = active.whole.take();
        let step = whole.and_then(|it| second_step(it, &outcome, self.port.value_max()));
        match step {
            Some(Ok(step)) => {
                active.first = outcome.ok();
                self.active.insert(id, active);
                return self.port.submit(id, step);
            }
            Some(Err(code)) => self.end(active, Err(code)),
            None => self.end(active, outcome),
        }
        Ok(())
    }

    fn end(&mut self, active: Active, outcome: Result<Outcome, Code>) {
        let Active { name, done, first, .. } = active;
        if let Some(name) = name
            && let Some(claim) = self.claims.get_mut(&name)
        {
            claim.users -= 1;
            if claim.users == 0 {
                self.claims.remove(&name);
                self.freed = !self.parked.is_empty();
            }
        }
        done(match first {
            // What a retrieval has found is what its caller wants, and not that it was deleted.
            Some(found @ Outcome::Value { .. }) if matches!(outcome, Ok(Outcome::Existed(_))) => {
                Ok(found)
            }
            _ => outcome,
        });
    }
}

fn refuse(done: Callback) {
    done(Err(Code::SysIo));
}

/// The second step of an operation, after the first one.
fn second_step(
    whole: Operation,
    outcome: &Result<Outcome, Code>,
    value_max: u32,
) -> Option<Result<Operation, Code>> {
    match (whole, outcome) {
        (Operation::Store { name, value, kind: StoreKind::Append }, outcome) => {
            let mut all = match outcome {
                Ok(Outcome::Value { data, .. }) => data.clone(),
                Err(Code::KeyNotExist) => Vec::new(),
                Err(code) => return Some(Err(*code)),
                Ok(_) => return Some(Err(Code::SysIo)),
            };
            if all.len() + value.len() > value_max as usize {
                return Some(Err(Code::ValueLengthInvalid));
            }
            all.extend_from_slice(&value);
            Some(Ok(Operation::Store { name, value: all, kind: StoreKind::Post }))
        }
        // What did not fit is not lost.
        (Operation::Retrieve { name, offset, .. }, Ok(Outcome::Value { size, data })) => {
            let end = u64::from(offset) + data.len() as u64;
            (end == u64::from(*size)).then_some(Ok(Operation::Delete(name)))
        }
        (Operation::DeleteExisting(name), Ok(Outcome::Existed(true))) => {
            Some(Ok(Operation::Delete(name)))
        }
        _ => None,
    }
}
