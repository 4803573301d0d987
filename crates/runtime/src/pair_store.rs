//! The pairs of a drive in a folder.
//!
//! Which keys there are and what is under them is in memory, as without a folder: so commands are
//! answered as fast. What becomes of each pair goes to an embedded key-value engine (fjall, an LSM
//! tree with a journal) on a worker thread, which may stall for tens of milliseconds. Changes get
//! there in the order in which they were made, but that of several changes of a key that have not set
//! out only the last does, in the place of the first. A flush has finished when all changes made
//! before it are on stable storage.
//!
//! Where there is no room for changes they stay in memory, and Stores and flushes fail until they have
//! been tried again and there was room: then nothing is lost. When something else fails, no later
//! flush succeeds. What goes wrong is told at once ([`Trouble`]).
//!
//! The folder also keeps what a saved state of the drive calls the pairs, if the drive ended in order.

mod backlog;
mod engine;
mod folder;
mod manifest;
mod open_error;
#[cfg(test)]
mod tests;

pub use folder::{KeptPair, PairFolder};
pub use open_error::OpenError;

use crate::file_store::{Failure, Tell, Trouble};
use crate::workers::{Executor, Workers};
use backlog::{Backlog, Batch};
use engine::{Engine, Names, Outcome, Work, perform};
pub use engine::{Task, TaskResult};
use folder::Recalled;
use mynah_device::store::StateId;
use mynah_device::{
    Arena, Condition, KeptPairs, Place, RamValues, Ready, Recall, StoreError, StoreJob, Values,
};
use mynah_model::keys::PairId;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;

/// Bytes of changes that may wait before commands wait, too.
const BACKLOG_BYTES_MAX: u64 = 64 << 20;

/// What the executor does now.
#[derive(Debug)]
enum UnderWay {
    Nothing,
    /// A batch of changes, up to the one of this number.
    Changes(u64),
    /// A sync that covers the changes up to this one.
    Sync(u64),
    /// The names of the pairs are stored, after which the thread ends.
    End,
}

/// Pairs in memory, whose changes are written to a folder; see the module's description.
pub struct PairStore<A, E = Workers<Task, TaskResult>> {
    values: RamValues<A>,
    recalled: BTreeMap<u32, Recalled>,
    identity: [u8; 16],
    books: Books<E>,
}

/// What is known of changes on their way.
struct Books<E> {
    executor: E,
    backlog: Backlog,
    /// Changes that the engine has refused for want of room.
    refused: Option<Batch>,
    under_way: UnderWay,
    /// All changes up to this one are with the engine; up to that one, on stable storage.
    changed: u64,
    stable: u64,
    /// Batches that the engine has written, by its own count.
    changes: u64,
    /// Commands that wait for a change, by its number, and flushes.
    waiting: BTreeMap<u64, Vec<StoreJob>>,
    flushes: VecDeque<(u64, StoreJob)>,
    finished: VecDeque<(StoreJob, Result<(), StoreError>)>,
    job_next: u64,
    condition: Condition,
    names: Names,
    trouble: Trouble,
    backlog_bytes_max: u64,
}

impl<A: Arena> PairStore<A> {
    /// Starts to write changes to a folder. Fails if no thread can be started.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn new(folder: PairFolder<A>) -> Result<PairStore<A>, OpenError> {
        let PairFolder { path, engine, values, recalled, identity, .. } = folder;
        let changes = engine.changes();
        let engine = SharedEngine::new(engine);
        let workers = Workers::new("mynah-pairs", 1, move |task| engine.perform(task));
        let workers = workers.map_err(|error| OpenError::threads(&path, error))?;
        let mut books = Books::new(workers, changes);
        books.trouble = Trouble::of(&path);
        Ok(PairStore { values, recalled, identity, books })
    }

    /// Becomes readable when something has finished.
    pub fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.books.executor.wake_descriptor()
    }

    /// Tells `tell` from now on what goes wrong, once for each kind.
    pub fn tell(&self, tell: Tell) {
        self.books.trouble.tell(tell);
    }

    /// Tells, now and later, what went wrong, as `others` does: each kind once.
    pub fn tell_with(&mut self, others: &Trouble) {
        self.books.trouble = others.of_another(self.books.trouble.path());
    }
}

/// The engine, as the one thread has it that works with it.
#[derive(Clone)]
struct SharedEngine(std::sync::Arc<std::sync::Mutex<Engine>>);

impl SharedEngine {
    fn new(engine: Engine) -> SharedEngine {
        SharedEngine(std::sync::Arc::new(std::sync::Mutex::new(engine)))
    }

    fn perform(&self, task: Task) -> TaskResult {
        let mut engine = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        perform(&mut *engine, task)
    }
}

impl<E: Executor<Task, TaskResult>> Books<E> {
    fn new(executor: E, changes: u64) -> Books<E> {
        Books {
            executor,
            backlog: Backlog::default(),
            refused: None,
            under_way: UnderWay::Nothing,
            changed: 0,
            stable: 0,
            changes,
            waiting: BTreeMap::new(),
            flushes: VecDeque::new(),
            finished: VecDeque::new(),
            job_next: 0,
            condition: Condition::Good,
            names: Names::default(),
            trouble: Trouble::default(),
            backlog_bytes_max: BACKLOG_BYTES_MAX,
        }
    }

    fn new_job(&mut self) -> StoreJob {
        self.job_next += 1;
        StoreJob(self.job_next)
    }

    /// Why changes and flushes fail now.
    fn refusal(&self) -> Option<StoreError> {
        match self.condition {
            Condition::Good => None,
            Condition::Full => Some(StoreError::Full),
            Condition::Failed => Some(StoreError::Write),
        }
    }

    /// When a command that made the change with this number may complete.
    fn changed_by_command(&mut self, number: u64) -> Ready {
        if self.backlog.cost() <= self.backlog_bytes_max || self.condition != Condition::Good {
            return Ready::Now;
        }
        let job = self.new_job();
        self.waiting.entry(number).or_default().push(job);
        Ready::Later(job)
    }

    /// Gives the executor what is next, if it does nothing.
    fn go_on<A: Arena>(&mut self, values: &mut RamValues<A>) {
        if !matches!(self.under_way, UnderWay::Nothing) || self.condition != Condition::Good {
            return;
        }
        if self.flushes.front().is_some_and(|&(upto, _)| upto <= self.changed) {
            self.under_way = UnderWay::Sync(self.changed);
            return self.executor.submit(Task(Work::Sync));
        }
        if let Some(batch) = self.backlog.take(values) {
            self.submit(batch);
        }
    }

    fn submit(&mut self, batch: Batch) {
        self.under_way = UnderWay::Changes(batch.upto);
        self.executor.submit(Task(Work::Change { batch, count: self.changes + 1 }));
    }

    fn done(&mut self, done: TaskResult) {
        let was = std::mem::replace(&mut self.under_way, UnderWay::Nothing);
        match (done.0, was) {
            (Outcome::Changed(Ok(())), UnderWay::Changes(upto)) => {
                self.changed = upto;
                self.changes += 1;
                let later = self.waiting.split_off(&(upto + 1));
                let ended = std::mem::replace(&mut self.waiting, later);
                let jobs = ended.into_values().flatten();
                self.finished.extend(jobs.map(|job| (job, Ok(()))));
                if self.condition == Condition::Full {
                    self.condition = Condition::Good;
                    self.trouble.has_room_again();
                }
            }
            (Outcome::Changed(Err((problem, batch))), _) => {
                self.refused = Some(batch);
                self.fail(&problem);
            }
            (Outcome::Synced(Ok(())), UnderWay::Sync(covers)) => {
                self.stable = covers;
                while let Some((_, job)) = self.flushes.pop_front_if(|it| it.0 <= covers) {
                    self.finished.push_back((job, Ok(())));
                }
            }
            (Outcome::Synced(Err(problem)), _) => self.fail(&problem),
            // Whoever ends everything waits for it.
            (Outcome::Ended(_), _) | (_, _) => {}
        }
    }

    /// The engine does not do what it should: those who wait for it are told.
    fn fail(&mut self, problem: &Failure) {
        self.trouble.add(problem);
        self.condition = match problem {
            Failure::NoRoom(_) if self.condition != Condition::Failed => Condition::Full,
            _ => Condition::Failed,
        };
        let error = self.refusal().unwrap_or(StoreError::Write);
        let flushes = std::mem::take(&mut self.flushes).into_iter().map(|(_, job)| job);
        let changes = std::mem::take(&mut self.waiting).into_values().flatten();
        self.finished.extend(flushes.chain(changes).map(|job| (job, Err(error))));
    }

    /// Tries again what there was no room for.
    fn retry(&mut self) {
        if self.condition != Condition::Full || !matches!(self.under_way, UnderWay::Nothing) {
            return;
        }
        if let Some(batch) = self.refused.take() {
            self.submit(batch);
        }
    }

    /// Waits until nothing is under way.
    fn wait(&mut self) -> Result<(), StoreError> {
        while !matches!(self.under_way, UnderWay::Nothing) {
            let done = self.executor.wait().ok_or(StoreError::Write)?;
            self.done(done);
        }
        Ok(())
    }

    /// Puts everything on stable storage.
    fn settle<A: Arena>(&mut self, values: &mut RamValues<A>) -> Result<(), StoreError> {
        self.wait()?;
        self.retry();
        self.wait()?;
        while let Some(batch) =
            (self.condition == Condition::Good).then(|| self.backlog.take(values)).flatten()
        {
            self.submit(batch);
            self.wait()?;
        }
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        if self.stable < self.changed {
            self.under_way = UnderWay::Sync(self.changed);
            self.executor.submit(Task(Work::Sync));
            self.wait()?;
        }
        self.refusal().map_or(Ok(()), Err)
    }
}

impl<A: Arena, E: Executor<Task, TaskResult>> Values for PairStore<A, E> {
    fn reserve(&mut self, bytes: u32) -> Option<Place> {
        self.values.reserve(bytes)
    }

    fn bytes_mut(&mut self, place: Place, bytes: u32) -> Option<&mut [u8]> {
        self.values.bytes_mut(place, bytes)
    }

    fn finish(&mut self, place: Place, before: Option<Place>) -> Place {
        self.values.finish(place, before)
    }

    fn pin(&mut self, place: Place, token: u64) -> Place {
        self.values.pin(place, token)
    }

    fn release(&mut self, place: Place) {
        self.values.release(place);
    }

    fn read(&self, place: Place, bytes: u32, skip: u32, into: &mut [u8]) {
        self.values.read(place, bytes, skip, into);
    }

    fn bytes(&self, place: Place, bytes: u32) -> Option<&[u8]> {
        self.values.bytes(place, bytes)
    }

    fn prefetch(&self, place: Place) {
        self.values.prefetch(place);
    }

    fn kept(&self) -> Option<KeptPairs> {
        Some(KeptPairs { identity: self.identity, changes: self.books.changes })
    }

    fn left(&self) -> Vec<u32> {
        self.recalled.keys().copied().collect()
    }

    fn recall(&mut self, set: u32, each: &mut Recall<'_>) {
        let Some(recalled) = self.recalled.remove(&set) else { return };
        for (pair, key, value) in recalled.pairs() {
            each(key, pair, value.place, value.bytes);
        }
    }

    fn keep(&mut self, set: u32, key: &[u8], place: Place, bytes: u32) -> Ready {
        let place = self.values.pin(place, 0);
        let number = self.books.backlog.change(set, key, Some((place, bytes)), &mut self.values);
        self.books.go_on(&mut self.values);
        self.books.changed_by_command(number)
    }

    fn forget(&mut self, set: u32, key: &[u8]) -> Ready {
        let number = self.books.backlog.change(set, key, None, &mut self.values);
        self.books.go_on(&mut self.values);
        self.books.changed_by_command(number)
    }

    fn forget_all(&mut self, set: u32) {
        if let Some(recalled) = self.recalled.remove(&set) {
            recalled.pairs().for_each(|(_, _, value)| self.values.release(value.place));
        }
        self.books.backlog.clear(set, &mut self.values);
        self.books.go_on(&mut self.values);
    }

    fn name(&mut self, set: u32, names: Vec<PairId>) {
        self.books.names.of_sets.insert(set, names);
    }

    fn is_behind(&self) -> bool {
        self.books.backlog.cost() > self.books.backlog_bytes_max
    }

    fn flush(&mut self) -> Ready {
        let upto = self.books.backlog.accepted();
        if let Some(error) = self.books.refusal() {
            let job = self.books.new_job();
            self.books.finished.push_back((job, Err(error)));
            return Ready::Later(job);
        }
        if upto == self.books.stable {
            return Ready::Now;
        }
        let job = self.books.new_job();
        self.books.flushes.push_back((upto, job));
        self.books.go_on(&mut self.values);
        Ready::Later(job)
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        while let Some(done) = self.books.executor.finished() {
            self.books.done(done);
        }
        self.books.go_on(&mut self.values);
        self.books.finished.pop_front()
    }

    fn condition(&self) -> Condition {
        self.books.condition
    }

    fn tend(&mut self) -> bool {
        self.books.retry();
        true
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        let settled = self.books.settle(&mut self.values);
        if settled.is_err() {
            let refused = self.books.refused.as_ref().map_or(0, |batch| batch.bytes);
            self.books.trouble.add(&Failure::Lost(refused + self.books.backlog.bytes()));
        }
        settled
    }

    fn close(&mut self, state: Option<StateId>) -> Result<(), StoreError> {
        self.settle()?;
        let mut names = std::mem::take(&mut self.books.names);
        names.state = state;
        self.books.under_way = UnderWay::End;
        self.books.executor.submit(Task(Work::End(names)));
        loop {
            match self.books.executor.wait().ok_or(StoreError::Write)?.0 {
                Outcome::Ended(Ok(())) => return Ok(()),
                Outcome::Ended(Err(problem)) => {
                    self.books.fail(&problem);
                    return Err(self.books.refusal().unwrap_or(StoreError::Write));
                }
                other => self.books.done(TaskResult(other)),
            }
        }
    }
}
