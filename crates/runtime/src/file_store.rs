//! The bytes of a drive in a file.
//!
//! The engine's thread only keeps the books; a few worker threads wait for the disk. A write is
//! accepted into memory and reaches the file in the background; reads see it at once. A flush
//! has finished when everything accepted before it is on stable storage.
//!
//! Where there is no room for a write, its bytes stay in memory, and writes and flushes fail until
//! it has been tried again and there was room: then nothing is lost. Deallocations, which make
//! room, are taken meanwhile. When a write has failed for another reason, a flush has, or the file
//! has been deleted or truncated, no later one succeeds: what the kernel dropped once cannot be
//! flushed again, and a drive that cannot keep its promise must say so. What goes wrong is told at
//! once ([`Trouble`]).
//!
//! The file is as long as it has been written to. Where nothing was ever written reads need no disk.
//!
//! While the store is in use its header says so. Closed in order, it names the saved state of the
//! drive that belongs to the bytes, if there is one.

mod backlog;
mod disk;
mod header;
mod open_error;
mod task;
#[cfg(test)]
mod tests;
mod trouble;

pub use open_error::OpenError;
use open_error::{Problem, odd_kind};
pub use task::{Task, TaskResult};
pub(crate) use trouble::Problem as Failure;
pub use trouble::{Tell, Trouble};

use crate::workers::{Executor, Workers};
use backlog::{Backlog, Content, Operation, Patch};
use disk::Disk;
pub(crate) use disk::is_no_room;
use header::{DRIVE_BYTES_MAX, Header, NoHeader, SLOTS_BYTES};
use mynah_device::store::{DESCRIPTION_BYTES_MAX, StateId};
use mynah_device::{Condition, Ready, Store, StoreError, StoreJob, Values};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use task::{ExpectedState, Outcome, Work, perform};

/// Threads that wait for the disk.
const THREADS: usize = 4;
/// Accepted bytes that may wait for the disk before commands wait, too.
const BACKLOG_BYTES_MAX: u64 = 64 << 20;

/// What was found at a store's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the store is new, and all of it reads as zeros.
    Nothing,
    /// The bytes of an earlier run, as they were.
    Bytes {
        /// Whether they were written for the same drive.
        same_drive: bool,
        /// Whether the store was closed in order. If not, they are as of the last flush, or
        /// newer.
        closed: bool,
    },
}

/// A file, locked by this process, that is a drive's store or can become one.
#[derive(Debug)]
pub struct StoreFile {
    path: PathBuf,
    file: File,
    /// `None`: it holds nothing yet.
    header: Option<Header>,
    /// The file did not exist before this run.
    is_made: bool,
}

impl StoreFile {
    /// Opens the file at `path`, or makes one. What an earlier run left in it stays as it is.
    pub fn open(path: &Path) -> Result<StoreFile, OpenError> {
        let fail = |problem| OpenError { path: path.to_owned(), problem };
        StoreFile::locked(path).map_err(fail)
    }

    fn locked(path: &Path) -> Result<StoreFile, Problem> {
        // Opening some of them would have effects.
        if let Some(kind) = odd_kind(path) {
            return Err(Problem::Kind(kind));
        }
        let mut options = File::options();
        // A new one is its owner's alone: it holds what hosts write.
        options.read(true).write(true).mode(0o600);
        let (file, is_made) = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (options.create(true).truncate(false).open(path).map_err(Problem::Open)?, true)
            }
            there => (there.map_err(Problem::Open)?, false),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Problem::InUse),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let bytes = file.metadata()?.len();
        let header = if bytes == 0 { None } else { read_header(&file, bytes)? };
        Ok(StoreFile { path: path.to_owned(), file, header, is_made })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether an earlier run has left bytes in it.
    pub fn is_used(&self) -> bool {
        self.header.is_some()
    }

    /// Whether the run before has closed it in order.
    pub fn is_closed(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.clean)
    }

    /// Whether the bytes were written for this drive (its hash).
    pub fn is_of(&self, drive: &str) -> bool {
        self.header.as_ref().is_some_and(|header| header.drive == name_of(drive))
    }

    /// The saved state of the drive that belongs to the bytes, if there is one.
    pub fn state(&self) -> Option<StateId> {
        self.header.as_ref().filter(|header| header.clean)?.state
    }
}

/// The header of a file of so many bytes; `None` if nothing was ever written to it.
fn read_header(file: &File, bytes: u64) -> Result<Option<Header>, Problem> {
    let part = |at: u64, most: u64| -> io::Result<Vec<u8>> {
        let mut part = vec![0; most.min(bytes - at) as usize];
        file.read(at, &mut part)?;
        Ok(part)
    };
    // Where those of format 1 have it, and around there.
    let at = bytes.saturating_sub(2 * SLOTS_BYTES);
    let end = part(at, bytes)?;
    let slots = end.len().saturating_sub(SLOTS_BYTES as usize);
    let behind = Header::newest(&end[slots..]);
    if let Ok(header) = &behind
        && header.held_bytes.is_none()
        && header.file_bytes() == bytes
    {
        return Ok(Some(header.clone()));
    }
    let found = match Header::newest(&part(0, SLOTS_BYTES)?) {
        Ok(header) if header.held_bytes.is_some() => return fits(header, file, bytes).map(Some),
        Ok(_) | Err(NoHeader::Foreign) => behind.err(),
        Err(other) => Some(other),
    };
    match found {
        Some(NoHeader::Format(format)) => return Err(Problem::Format(format)),
        Some(NoHeader::Damaged) => return Err(Problem::Damaged),
        // A run that was killed while it made the file leaves one that holds nothing.
        Some(NoHeader::Foreign) if data_from(file, 0)? >= bytes => return Ok(None),
        Some(NoHeader::Foreign) | None => {}
    }
    match Header::find(&end, at) {
        Some(header) => Err(Problem::Length { file: bytes, wanted: header.file_bytes() }),
        None => Err(Problem::Foreign),
    }
}

/// The header, if the file has the bytes that it speaks of. It may have more: a run that was killed
/// may have written them, and of one that was closed in order they are zeros, where a write that had
/// no room for all of it has been overtaken by a deallocation.
fn fits(header: Header, file: &File, bytes: u64) -> Result<Header, Problem> {
    let wanted = header.file_bytes();
    if bytes < wanted || (header.clean && !is_zero_from(file, wanted, bytes)?) {
        return Err(Problem::Length { file: bytes, wanted });
    }
    Ok(header)
}

/// As much of a drive's hash as a header holds.
fn name_of(drive: &str) -> String {
    let mut name = drive.to_owned();
    while name.len() > DRIVE_BYTES_MAX {
        name.pop();
    }
    name
}

/// A drive's bytes in a file.
pub type FileStore = DiskStore<Workers<Task, TaskResult>>;

impl FileStore {
    /// A store in this file, for a drive of so many bytes; `drive` names the drive (its hash).
    /// What the file says of itself stays as it is until [`Store::begin`]. Blocks.
    ///
    /// # Errors
    /// If the file cannot hold that drive, or not be used.
    pub fn open(
        file: StoreFile,
        data_bytes: u64,
        drive: &str,
    ) -> Result<(FileStore, Found), OpenError> {
        let (path, is_made) = (file.path.clone(), file.is_made);
        let fail = |problem| {
            // It holds nothing, and nobody asked for a file that is refused; a link is somebody's.
            if is_made && std::fs::symlink_metadata(&path).is_ok_and(|it| it.is_file()) {
                let _ = std::fs::remove_file(&path);
            }
            OpenError { path: path.clone(), problem }
        };
        let (disk, header, found) = fit(file, data_bytes, drive).map_err(fail)?;
        let look = disk.look().map_err(|error| fail(error.into()))?;
        let disk = Arc::new(disk);
        let workers = Workers::new("mynah-disk", THREADS, {
            let disk = disk.clone();
            move |task| perform(&*disk, task)
        });
        let workers = workers.map_err(|error| fail(Problem::Threads(error)))?;
        let mut store = DiskStore::new(disk, workers, header);
        store.expected = ExpectedState { is_named: look.is_named, bytes: look.bytes };
        store.trouble = Trouble::of(&path);
        store.is_new = found == Found::Nothing;
        Ok((store, found))
    }

    /// Becomes readable when [`Store::finished`] has something to say.
    pub fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.executor.wake_descriptor()
    }
}

/// Makes a new file ready for a drive, or checks that an old one is of its size; the header to go on
/// from.
fn fit(file: StoreFile, data_bytes: u64, drive: &str) -> Result<(File, Header, Found), Problem> {
    if data_bytes > i64::MAX as u64 - 2 * SLOTS_BYTES {
        return Err(Problem::TooLarge(data_bytes));
    }
    let same_drive = file.is_of(drive);
    let StoreFile { path, file, header, .. } = file;
    // What it has could be written no more.
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| header.as_ref().is_some_and(|it| it.file_bytes() > limit)) {
        return Err(Problem::NoRoom(Errno::FBIG.into()));
    }
    let (header, found) = match header {
        None => {
            file.set_len(SLOTS_BYTES).map_err(no_room)?;
            file.sync_all()?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            let header = Header {
                sequence: 0,
                data_bytes,
                held_bytes: Some(0),
                drive: String::new(),
                clean: false,
                state: None,
                description: Vec::new(),
            };
            (header, Found::Nothing)
        }
        Some(header) if header.data_bytes != data_bytes => {
            return Err(Problem::Size { file: header.data_bytes, drive: data_bytes });
        }
        Some(header) => {
            let closed = header.clean;
            (header, Found::Bytes { same_drive, closed })
        }
    };
    // Whatever else is full, headers can be written: that the drive has ended in order, too.
    let reserved = FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(&file, reserved, header.slots_at(), SLOTS_BYTES) {
        Err(error) if is_no_room(&error.into()) => return Err(no_room(error.into())),
        // There are file systems that cannot do that.
        _ => {}
    }
    Ok((file, Header { drive: name_of(drive), ..header }, found))
}

fn no_room(error: io::Error) -> Problem {
    match is_no_room(&error) {
        true => Problem::NoRoom(error),
        false => Problem::Io(error),
    }
}

/// Offset of the first byte from `at` on that was ever written to a file; beyond its end if there
/// is
/// none.
fn data_from(file: &File, at: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(first) => Ok(first),
        Err(Errno::NXIO) => Ok(u64::MAX),
        Err(error) => Err(error.into()),
    }
}

/// Whether all from `at` on reads as zeros, of a file of so many bytes. A file system without holes has
/// to be read.
fn is_zero_from(file: &File, mut at: u64, bytes: u64) -> io::Result<bool> {
    let mut block = vec![0; 1 << 16];
    loop {
        at = data_from(file, at)?;
        let Some(left) = bytes.checked_sub(at).filter(|left| *left > 0) else { return Ok(true) };
        let part = &mut block[..left.min(1 << 16) as usize];
        file.read(at, part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part.len() as u64;
    }
}

#[derive(Debug)]
enum Job {
    Fetch { buffer: Vec<u8>, patches: Vec<Patch>, at: u64 },
    Change,
    Flush,
}

/// A drive's bytes on a disk; see the module's description.
pub struct DiskStore<E> {
    disk: Arc<dyn Disk>,
    executor: E,
    backlog: Backlog,
    /// Jobs that were given out and not yet released.
    jobs: HashMap<StoreJob, Job>,
    job_next: u64,
    finished: VecDeque<(StoreJob, Result<(), StoreError>)>,
    /// Which operation's end finishes which job.
    change_jobs: HashMap<u64, StoreJob>,
    /// Flushes, in order, that wait until all operations up to a number have ended.
    flushes: VecDeque<(u64, StoreJob)>,
    /// Flushes that the running sync answers.
    syncing: Option<Syncing>,
    /// All operations up to this one are on stable storage.
    stable: u64,
    header: Header,
    /// The header on stable storage says something else.
    header_changed: bool,
    condition: Condition,
    /// Operations that the disk has been given.
    under_way: usize,
    /// Those of them that it has refused before.
    retried: HashSet<u64>,
    /// There was no room for the header.
    header_refused: bool,
    /// The disk is being looked at.
    looking: bool,
    /// What a look at the file has to find.
    expected: ExpectedState,
    /// Nothing was in it before this run, or this was.
    is_new: bool,
    before: Header,
    trouble: Trouble,
    /// Values of pairs, until the subsystem takes them.
    values: Option<Box<dyn Values>>,
    backlog_bytes_max: u64,
}

#[derive(Debug)]
struct Syncing {
    jobs: Vec<StoreJob>,
    covers: u64,
    /// Bytes that the disk had when it began.
    holds: u64,
    with_header: bool,
}

impl<E: Executor<Task, TaskResult>> DiskStore<E> {
    /// A store whose header on stable storage is `header`, but for the drive's name perhaps.
    fn new(disk: Arc<dyn Disk>, executor: E, header: Header) -> DiskStore<E> {
        DiskStore {
            disk,
            executor,
            backlog: Backlog::default(),
            jobs: HashMap::new(),
            job_next: 0,
            finished: VecDeque::new(),
            change_jobs: HashMap::new(),
            flushes: VecDeque::new(),
            syncing: None,
            stable: 0,
            condition: Condition::Good,
            under_way: 0,
            retried: HashSet::new(),
            header_refused: false,
            looking: false,
            expected: ExpectedState { is_named: true, bytes: header.file_bytes() },
            is_new: false,
            before: header.clone(),
            header,
            header_changed: false,
            trouble: Trouble::default(),
            values: None,
            backlog_bytes_max: BACKLOG_BYTES_MAX,
        }
    }

    /// A store that also has values of pairs.
    pub fn with_values(self, values: Box<dyn Values>) -> DiskStore<E> {
        DiskStore { values: Some(values), ..self }
    }

    /// Tells, now and later, what went wrong with the disk.
    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    fn new_job(&mut self, job: Job) -> StoreJob {
        let number = StoreJob(self.job_next);
        self.job_next += 1;
        self.jobs.insert(number, job);
        number
    }

    fn start(&mut self, operation: Operation) {
        self.under_way += 1;
        let at = self.header.data_at() + operation.at;
        let operation = Operation { at, ..operation };
        // A disk that was truncated is not to become as long again unseen.
        let wanted = (operation.holds() >= self.expected.bytes).then_some(self.expected);
        self.executor.submit(Task(Work::Change { operation, wanted }));
    }

    fn start_all(&mut self, operations: Vec<Operation>) {
        operations.into_iter().for_each(|operation| self.start(operation));
    }

    /// Why writes and flushes fail now.
    fn refusal(&self) -> Option<StoreError> {
        match self.condition {
            Condition::Good => None,
            Condition::Full => Some(StoreError::Full),
            Condition::Failed => Some(StoreError::Write),
        }
    }

    fn refuse(&mut self, job: Job, error: StoreError) -> Ready {
        let job = self.new_job(job);
        self.finished.push_back((job, Err(error)));
        Ready::Later(job)
    }

    fn change(&mut self, at: u64, bytes: u64, content: Content) -> Ready {
        debug_assert!(at + bytes <= self.header.data_bytes, "outside the store");
        debug_assert!(!self.header.clean, "a change before the store is in use");
        if bytes == 0 {
            return Ready::Now;
        }
        let makes_room = content == Content::Zeros && self.backlog.cost() <= self.backlog_bytes_max;
        match self.refusal() {
            Some(StoreError::Full) if makes_room => {}
            Some(error) => return self.refuse(Job::Change, error),
            None => {}
        }
        let ready = self.backlog.accept(at, bytes, content);
        let sequence = self.backlog.accepted();
        if let Some(operation) = ready {
            self.start(operation);
        }
        if self.condition == Condition::Full {
            let mut ready = Vec::new();
            self.backlog.drop_replaced(&mut ready);
            self.start_all(ready);
            return Ready::Now;
        }
        if self.backlog.cost() <= self.backlog_bytes_max {
            return Ready::Now;
        }
        let job = self.new_job(Job::Change);
        self.change_jobs.insert(sequence, job);
        Ready::Later(job)
    }

    fn done(&mut self, done: TaskResult) {
        let mut ready = Vec::new();
        match done.0 {
            Outcome::Read { job, buffer: bytes, result } => {
                self.backlog.read_ended(job, &mut ready);
                if let Some(Job::Fetch { buffer, patches, at }) = self.jobs.get_mut(&job) {
                    *buffer = bytes;
                    patches.drain(..).for_each(|patch| patch.apply(*at, buffer));
                    let answer = result.as_ref().map_err(|_| StoreError::Read);
                    self.finished.push_back((job, answer.copied()));
                }
                if let Err(error) = result {
                    self.trouble.add(&Failure::Read(error));
                    // Is it the file that is another?
                    self.look();
                }
            }
            Outcome::Change { sequence, result: Ok(()), holds } => {
                self.expected.bytes = self.expected.bytes.max(holds);
                self.backlog.ended(sequence, &mut ready);
                if let Some(job) = self.change_jobs.remove(&sequence) {
                    self.finished.push_back((job, Ok(())));
                }
                self.under_way -= 1;
                if self.condition == Condition::Full {
                    // There is room for one that had none, and so perhaps for all.
                    let had_none = self.retried.remove(&sequence);
                    self.retry(if had_none { usize::MAX } else { 1 });
                    self.recover();
                }
            }
            Outcome::Change { sequence, result: Err(problem), .. } => {
                self.under_way -= 1;
                self.backlog.refused(sequence);
                self.retried.remove(&sequence);
                self.fail(&problem);
            }
            Outcome::Sync { result } => {
                let Some(syncing) = self.syncing.take() else { return };
                let answer = match result {
                    // One that failed before this sync ended may be one it should have covered.
                    Ok(()) if self.condition != Condition::Failed => {
                        self.stable = syncing.covers;
                        // A header speaks of bytes only that were on stable storage before it was.
                        if let Some(held) = &mut self.header.held_bytes {
                            let holds = syncing.holds.saturating_sub(SLOTS_BYTES);
                            *held = holds.clamp(*held, self.header.data_bytes);
                        }
                        if syncing.with_header {
                            self.header.sequence += 1;
                            self.header_refused = false;
                            self.recover();
                        }
                        Ok(())
                    }
                    Ok(()) => Err(StoreError::Write),
                    Err(problem) => {
                        self.header_changed |= syncing.with_header;
                        self.header_refused |= matches!(problem, Failure::NoRoom(_));
                        self.fail(&problem);
                        Err(self.refusal().unwrap_or(StoreError::Write))
                    }
                };
                self.finished.extend(syncing.jobs.into_iter().map(|job| (job, answer)));
            }
            Outcome::Look { result } => {
                self.looking = false;
                if let Err(problem) = result {
                    self.fail(&problem);
                }
            }
        }
        self.start_all(ready);
        self.sync_if_due();
    }

    /// A disk operation failed: reports it, and fails whatever waits for it.
    fn fail(&mut self, problem: &Failure) {
        self.trouble.add(problem);
        self.condition = match problem {
            Failure::NoRoom(_) if self.condition != Condition::Failed => Condition::Full,
            _ => Condition::Failed,
        };
        let error = self.refusal().unwrap_or(StoreError::Write);
        let flushes = std::mem::take(&mut self.flushes).into_iter().map(|(_, job)| job);
        let changes = std::mem::take(&mut self.change_jobs).into_values();
        let mut jobs: Vec<StoreJob> = flushes.chain(changes).collect();
        jobs.sort_unstable_by_key(|job| job.0);
        self.finished.extend(jobs.into_iter().map(|job| (job, Err(error))));
    }

    /// Goes on as before when everything is written that there was no room for.
    fn recover(&mut self) {
        let waits = self.backlog.has_refused() || !self.retried.is_empty() || self.header_refused;
        if self.condition == Condition::Full && !waits {
            self.condition = Condition::Good;
            self.trouble.has_room_again();
        }
    }

    /// Tries operations again that the disk has refused for want of room, the oldest ones: so many
    /// with those that are being tried already. If there is room for one, the others follow.
    fn retry(&mut self, most: usize) {
        if self.condition == Condition::Full {
            let again = self.backlog.retry(most - self.retried.len().min(most));
            self.retried.extend(again.iter().map(|operation| operation.sequence));
            self.start_all(again);
        }
    }

    /// Has somebody look at the disk.
    fn look(&mut self) {
        if !self.looking && self.condition != Condition::Failed {
            self.looking = true;
            self.executor.submit(Task(Work::Look(self.expected)));
        }
    }

    /// One sync at a time; all flushes that it can answer share it.
    fn sync_if_due(&mut self) {
        let ended = self.backlog.oldest().map_or(self.backlog.accepted(), |oldest| oldest - 1);
        let due = self.flushes.iter().take_while(|&&(upto, _)| upto <= ended).count();
        if due == 0 || self.syncing.is_some() || self.condition != Condition::Good {
            return;
        }
        let jobs = self.flushes.drain(..due).map(|(_, job)| job).collect();
        self.sync(jobs);
    }

    /// Puts on stable storage what the disk has done, and the header; these jobs wait for that.
    fn sync(&mut self, jobs: Vec<StoreJob>) {
        let covers = self.backlog.oldest().map_or(self.backlog.accepted(), |oldest| oldest - 1);
        let with_header = std::mem::take(&mut self.header_changed);
        let header = with_header
            .then(|| Header { sequence: self.header.sequence + 1, ..self.header.clone() });
        self.syncing = Some(Syncing { jobs, covers, holds: self.expected.bytes, with_header });
        self.executor.submit(Task(Work::Sync { header, wanted: self.expected }));
    }

    /// Waits until the disk has done everything that it was given, or refused it.
    fn end_changes(&mut self) -> Result<(), StoreError> {
        while self.under_way > 0 {
            let done = self.executor.wait().ok_or(StoreError::Write)?;
            self.done(done);
        }
        Ok(())
    }

    /// Waits for one flush of everything.
    fn flush_now(&mut self) -> Result<(), StoreError> {
        let Ready::Later(flush) = self.flush() else { return Ok(()) };
        loop {
            if let Some(at) = self.finished.iter().position(|&(job, _)| job == flush) {
                self.jobs.remove(&flush);
                return self.finished.remove(at).map_or(Ok(()), |(_, result)| result);
            }
            let Some(done) = self.executor.wait() else { return Err(StoreError::Write) };
            self.done(done);
        }
    }
}

impl<E: Executor<Task, TaskResult>> Store for DiskStore<E> {
    /// Always `Later`: the job holds the bytes.
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        debug_assert!(at + u64::from(bytes) <= self.header.data_bytes, "outside the store");
        let (patches, all) = self.backlog.patches(at, bytes.into());
        let mut buffer = vec![0; bytes as usize];
        let on_disk = self.header.data_at() + at;
        let held = self.expected.bytes.saturating_sub(on_disk).min(bytes.into()) as usize;
        if all || held == 0 || self.disk.read_cached(on_disk, &mut buffer[..held]) {
            patches.iter().for_each(|patch| patch.apply(at, &mut buffer));
            let job = self.new_job(Job::Fetch { buffer, patches: Vec::new(), at });
            self.finished.push_back((job, Ok(())));
            return Ready::Later(job);
        }
        let job = self.new_job(Job::Fetch { buffer: Vec::new(), patches, at });
        self.backlog.read_begins(job, at, bytes.into());
        self.executor.submit(Task(Work::Read { job, at: on_disk, buffer, held }));
        Ready::Later(job)
    }

    fn read(&mut self, job: Option<StoreJob>, at: u64, into: &mut [u8]) {
        let job = job.and_then(|job| self.jobs.remove(&job));
        let Some(Job::Fetch { buffer, at: base, .. }) = job else {
            debug_assert!(false, "read without a fetch");
            return into.fill(0);
        };
        let first = (at - base) as usize;
        into.copy_from_slice(&buffer[first..first + into.len()]);
    }

    fn forget(&mut self, job: StoreJob) {
        self.jobs.remove(&job);
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Ready {
        self.change(at, from.len() as u64, Content::Bytes(from.into()))
    }

    fn discard(&mut self, at: u64, bytes: u64) -> Ready {
        self.change(at, bytes, Content::Zeros)
    }

    fn is_volatile(&self) -> bool {
        true
    }

    fn values(&mut self) -> Option<Box<dyn Values>> {
        self.values.take()
    }

    fn flush(&mut self) -> Ready {
        let upto = self.backlog.accepted();
        if let Some(error) = self.refusal() {
            return self.refuse(Job::Flush, error);
        }
        let header_stable = !self.header_changed
            && self.syncing.as_ref().is_none_or(|syncing| !syncing.with_header);
        if upto == self.stable && header_stable {
            return Ready::Now;
        }
        let job = self.new_job(Job::Flush);
        self.flushes.push_back((upto, job));
        self.sync_if_due();
        Ready::Later(job)
    }

    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        while let Some(done) = self.executor.finished() {
            self.done(done);
        }
        while let Some((job, result)) = self.finished.pop_front() {
            match self.jobs.get(&job) {
                Some(Job::Fetch { .. }) if result.is_ok() => {}
                Some(_) => drop(self.jobs.remove(&job)),
                // It was forgotten.
                None => continue,
            }
            return Some((job, result));
        }
        None
    }

    fn describe(&mut self, description: &[u8]) {
        debug_assert!(description.len() <= DESCRIPTION_BYTES_MAX);
        let description = &description[..description.len().min(DESCRIPTION_BYTES_MAX)];
        if self.header.description != description {
            self.header.description = description.to_vec();
            self.header_changed = true;
        }
    }

    fn description(&self) -> Option<&[u8]> {
        Some(self.header.description.as_slice()).filter(|description| !description.is_empty())
    }

    fn condition(&self) -> Condition {
        self.condition
    }

    fn tend(&mut self) -> bool {
        self.look();
        self.retry(1);
        if self.header_refused && self.syncing.is_none() {
            self.sync(Vec::new());
        }
        true
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        self.header.clean = false;
        self.header.state = None;
        self.header_changed = true;
        self.flush_now()
    }

    fn cancel(&mut self) -> Result<(), StoreError> {
        if self.is_new {
            // Nothing was in it.
            let zeroed = self.disk.zero(self.header.slots_at(), SLOTS_BYTES);
            return zeroed.and_then(|()| self.disk.sync()).map_err(|_| StoreError::Write);
        }
        let sequence = self.header.sequence;
        self.header = Header { sequence, ..self.before.clone() };
        self.header_changed = true;
        self.flush_now()
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        let settled = self.end_changes().and_then(|()| {
            self.retry(1);
            self.end_changes()?;
            self.flush_now()
        });
        if settled.is_err() {
            self.trouble.add(&Failure::Lost(self.backlog.bytes()));
        }
        settled
    }

    fn close(&mut self, state: Option<StateId>) -> Result<(), StoreError> {
        self.settle()?;
        self.header.clean = true;
        self.header.state = state;
        self.header_changed = true;
        let closed = self.flush_now();
        if closed.is_err() {
            self.trouble.add(&Failure::Unclosed);
        }
        closed
    }
}
