//! The bytes of a drive in a file.
//!
//! The engine's thread only keeps the books; a few worker threads wait for the disk. A write is
//! accepted into memory and reaches the file in the background; reads see it at once. A flush
//! has finished when everything accepted before it is on stable storage. When a write or a
//! flush has failed, no later one succeeds: what the kernel dropped once cannot be flushed
//! again, and a drive that cannot keep its promise must say so.
//!
//! While the store is in use its header says so. Closed in order, it names the saved state of the
//! drive that belongs to the bytes, if there is one.

mod backlog;
mod disk;
mod header;
#[cfg(test)]
mod tests;

use crate::workers::Workers;
use backlog::{Backlog, Content, Operation, Patch};
use disk::Disk;
use header::{DRIVE_BYTES_MAX, Header, NoHeader, SLOTS_BYTES};
use mynah_device::store::{DESCRIPTION_BYTES_MAX, StateId};
use mynah_device::{Ready, Store, StoreError, StoreJob};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Threads that wait for the disk.
const THREADS: usize = 4;
/// Accepted bytes that may wait for the disk before commands wait, too.
const BACKLOG_BYTES_MAX: u64 = 64 << 20;

/// Why a file cannot be a drive's store.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct OpenError {
    path: PathBuf,
    problem: Problem,
}

impl OpenError {
    /// What would be valid.
    pub fn help(&self) -> &'static str {
        match &self.problem {
            Problem::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
                "give the path of a file; one that is not there is made"
            }
            Problem::Io(_) => {
                "a file that is not there is made, but its folder must exist and be writable"
            }
            Problem::InUse => "end that process first, or give another path",
            Problem::Foreign => "give a path where no file is yet, or a file that --store has made",
            Problem::Format(_) => "use the version of mynah that has made it, or give another path",
            Problem::Size { .. } => "serve the drive that it was made for, or give another path",
            Problem::TooLarge(_) => "serve a smaller drive, or with --store ram",
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("another process is using it")]
    InUse,
    #[error("it is not a store of Mynah's")]
    Foreign,
    #[error("its format is {0}, and this program knows only format 1")]
    Format(u32),
    #[error("it holds a drive of {file} bytes, but this drive has {drive}")]
    Size { file: u64, drive: u64 },
    #[error("no file can hold a drive of {0} bytes")]
    TooLarge(u64),
}

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

/// A file, held by this process, that is a drive's store or can become one.
#[derive(Debug)]
pub struct StoreFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// `None`: it holds nothing yet.
    header: Option<Header>,
}

impl StoreFile {
    /// Opens the file at `path`, or makes one. What an earlier run left in it stays as it is.
    pub fn open(path: &Path) -> Result<StoreFile, OpenError> {
        let fail = |problem| OpenError { path: path.to_owned(), problem };
        StoreFile::locked(path).map_err(fail)
    }

    fn locked(path: &Path) -> Result<StoreFile, Problem> {
        let mut options = File::options();
        // A new one is its owner's alone: it holds what hosts write.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Problem::InUse),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let bytes = file.metadata()?.len();
        let mut header = None;
        if bytes > 0 {
            let slots_at = bytes.checked_sub(SLOTS_BYTES).ok_or(Problem::Foreign)?;
            let mut slots = vec![0; SLOTS_BYTES as usize];
            file.read(slots_at, &mut slots)?;
            match Header::newest(&slots) {
                // A run that was killed while it made the file leaves one that holds nothing.
                Err(NoHeader::Foreign) if is_hole(&file, bytes)? => {}
                Err(NoHeader::Foreign) => return Err(Problem::Foreign),
                Err(NoHeader::Format(format)) => return Err(Problem::Format(format)),
                Ok(found) => header = Some(found),
            }
        }
        Ok(StoreFile { path: path.to_owned(), file, bytes, header })
    }

    /// Where it is.
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

/// As much of a drive's hash as a header holds.
fn name_of(drive: &str) -> String {
    let mut name = drive.to_owned();
    while name.len() > DRIVE_BYTES_MAX {
        name.pop();
    }
    name
}

/// A drive's bytes in a file.
pub type FileStore = DiskStore<Workers<Task, Done>>;

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
        let path = file.path.clone();
        let fail = |problem| OpenError { path: path.clone(), problem };
        let (disk, header, found) = fit(file, data_bytes, drive).map_err(fail)?;
        let disk = Arc::new(disk);
        let workers = Workers::new("mynah-disk", THREADS, {
            let disk = disk.clone();
            move |task| perform(&*disk, task)
        });
        let workers = workers.map_err(|error| fail(error.into()))?;
        Ok((DiskStore::new(disk, workers, header), found))
    }

    /// Becomes readable when [`Store::finished`] has something to say.
    pub fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.executor.wake_descriptor()
    }
}

/// Gives a file the size that a drive needs, or checks that it has it; the header to go on from.
fn fit(file: StoreFile, data_bytes: u64, drive: &str) -> Result<(File, Header, Found), Problem> {
    let wanted_bytes = data_bytes
        .checked_next_multiple_of(4096)
        .and_then(|bytes| bytes.checked_add(SLOTS_BYTES))
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or(Problem::TooLarge(data_bytes))?;
    let same_drive = file.is_of(drive);
    let StoreFile { path, file, bytes, header } = file;
    let (header, found) = match header {
        None => {
            file.set_len(wanted_bytes)?;
            file.sync_all()?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            let header = Header {
                sequence: 0,
                data_bytes,
                drive: String::new(),
                clean: false,
                state: None,
                description: Vec::new(),
            };
            (header, Found::Nothing)
        }
        Some(header) if header.data_bytes != data_bytes || bytes != wanted_bytes => {
            return Err(Problem::Size { file: header.data_bytes, drive: data_bytes });
        }
        Some(header) => {
            let closed = header.clean;
            (header, Found::Bytes { same_drive, closed })
        }
    };
    Ok((file, Header { drive: name_of(drive), ..header }, found))
}

/// Whether a file has no byte that was ever written.
fn is_hole(file: &File, bytes: u64) -> io::Result<bool> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)) {
        Ok(first) => Ok(first >= bytes),
        Err(Errno::NXIO) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Work for a thread that may wait for the disk.
#[derive(Debug)]
pub struct Task(Work);

#[derive(Debug)]
enum Work {
    Read { job: StoreJob, at: u64, buffer: Vec<u8> },
    Change(Operation),
    Sync { header: Option<Header> },
}

/// What came of a [`Task`].
#[derive(Debug)]
pub struct Done(Outcome);

#[derive(Debug)]
enum Outcome {
    Read { job: StoreJob, buffer: Vec<u8>, result: io::Result<()> },
    Change { sequence: u64, result: io::Result<()> },
    Sync { result: io::Result<()> },
}

fn perform(disk: &impl Disk, task: Task) -> Done {
    Done(match task.0 {
        Work::Read { job, at, mut buffer } => {
            let result = disk.read(at, &mut buffer);
            Outcome::Read { job, buffer, result }
        }
        Work::Change(Operation { sequence, at, bytes, content }) => {
            let result = match content {
                Content::Bytes(bytes) => disk.write(at, &bytes),
                Content::Zeros => disk.zero(at, bytes),
            };
            Outcome::Change { sequence, result }
        }
        Work::Sync { header } => {
            let written = header.map_or(Ok(()), |header| disk.write(header.at(), &header.encode()));
            Outcome::Sync { result: written.and_then(|()| disk.sync()) }
        }
    })
}

/// What went wrong with a store's disk first, for people.
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<OnceLock<String>>);

impl Trouble {
    /// The message, if anything went wrong.
    pub fn message(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Whoever performs tasks for a store: threads, or a test.
pub trait Executor {
    /// Takes a task. Never blocks.
    fn submit(&mut self, task: Task);
    /// What has been done since.
    fn finished(&mut self) -> Option<Done>;
    /// Waits until something is done.
    fn wait(&mut self) -> Option<Done>;
}

impl Executor for Workers<Task, Done> {
    fn submit(&mut self, task: Task) {
        Workers::submit(self, task);
    }

    fn finished(&mut self) -> Option<Done> {
        Workers::finished(self)
    }

    fn wait(&mut self) -> Option<Done> {
        Workers::wait(self)
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
    /// A write or a sync has failed.
    failed: bool,
    trouble: Trouble,
    backlog_bytes_max: u64,
}

#[derive(Debug)]
struct Syncing {
    jobs: Vec<StoreJob>,
    covers: u64,
    with_header: bool,
}

impl<E: Executor> DiskStore<E> {
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
            header,
            header_changed: false,
            failed: false,
            trouble: Trouble::default(),
            backlog_bytes_max: BACKLOG_BYTES_MAX,
        }
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
        self.executor.submit(Task(Work::Change(operation)));
    }

    fn change(&mut self, at: u64, bytes: u64, content: Content) -> Ready {
        debug_assert!(at + bytes <= self.header.data_bytes, "outside the store");
        debug_assert!(!self.header.clean, "a change before the store is in use");
        if self.failed {
            let job = self.new_job(Job::Change);
            self.finished.push_back((job, Err(StoreError::Write)));
            return Ready::Later(job);
        }
        if bytes == 0 {
            return Ready::Now;
        }
        let ready = self.backlog.accept(at, bytes, content);
        let sequence = self.backlog.accepted();
        if let Some(operation) = ready {
            self.start(operation);
        }
        if self.backlog.cost() <= self.backlog_bytes_max {
            return Ready::Now;
        }
        let job = self.new_job(Job::Change);
        self.change_jobs.insert(sequence, job);
        Ready::Later(job)
    }

    fn done(&mut self, done: Done) {
        let mut ready = Vec::new();
        match done.0 {
            Outcome::Read { job, buffer: bytes, result } => {
                self.backlog.read_ended(job, &mut ready);
                if let Some(Job::Fetch { buffer, patches, at }) = self.jobs.get_mut(&job) {
                    *buffer = bytes;
                    patches.drain(..).for_each(|patch| patch.apply(*at, buffer));
                    let result = result.map_err(|error| {
                        self.trouble.0.get_or_init(|| format!("it cannot be read: {error}"));
                        StoreError::Read
                    });
                    self.finished.push_back((job, result));
                }
            }
            Outcome::Change { sequence, result: Ok(()) } => {
                self.backlog.ended(sequence, &mut ready);
                if let Some(job) = self.change_jobs.remove(&sequence) {
                    self.finished.push_back((job, Ok(())));
                }
            }
            Outcome::Change { sequence, result: Err(error) } => {
                self.backlog.failed(sequence, &mut ready);
                if let Some(job) = self.change_jobs.remove(&sequence) {
                    self.finished.push_back((job, Err(StoreError::Write)));
                }
                self.fail(error);
            }
            Outcome::Sync { result } => {
                let Some(syncing) = self.syncing.take() else { return };
                let answer = match result {
                    // One that failed before this sync ended may be one it should have covered.
                    Ok(()) if !self.failed => {
                        self.stable = syncing.covers;
                        if syncing.with_header {
                            self.header.sequence += 1;
                        }
                        Ok(())
                    }
                    Ok(()) => Err(StoreError::Write),
                    Err(error) => {
                        self.fail(error);
                        Err(StoreError::Write)
                    }
                };
                self.finished.extend(syncing.jobs.into_iter().map(|job| (job, answer)));
            }
        }
        for operation in ready {
            self.start(operation);
        }
        self.sync_if_due();
    }

    fn fail(&mut self, error: io::Error) {
        self.failed = true;
        self.trouble.0.get_or_init(|| format!("it takes no more writes: {error}"));
        let waiting = std::mem::take(&mut self.flushes);
        self.finished.extend(waiting.into_iter().map(|(_, job)| (job, Err(StoreError::Write))));
    }

    /// One sync at a time; all flushes that it can answer share it.
    fn sync_if_due(&mut self) {
        let ended = self.backlog.oldest().map_or(self.backlog.accepted(), |oldest| oldest - 1);
        let due = self.flushes.iter().take_while(|&&(upto, _)| upto <= ended).count();
        if due == 0 || self.syncing.is_some() || self.failed {
            return;
        }
        let jobs = self.flushes.drain(..due).map(|(_, job)| job).collect();
        let with_header = std::mem::take(&mut self.header_changed);
        let header = with_header
            .then(|| Header { sequence: self.header.sequence + 1, ..self.header.clone() });
        self.syncing = Some(Syncing { jobs, covers: ended, with_header });
        self.executor.submit(Task(Work::Sync { header }));
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

impl<E: Executor> Store for DiskStore<E> {
    /// Always `Later`: the job holds the bytes.
    fn fetch(&mut self, at: u64, bytes: u32) -> Ready {
        debug_assert!(at + u64::from(bytes) <= self.header.data_bytes, "outside the store");
        let (patches, all) = self.backlog.patches(at, bytes.into());
        let mut buffer = vec![0; bytes as usize];
        if all || self.disk.read_cached(at, &mut buffer) {
            patches.iter().for_each(|patch| patch.apply(at, &mut buffer));
            let job = self.new_job(Job::Fetch { buffer, patches: Vec::new(), at });
            self.finished.push_back((job, Ok(())));
            return Ready::Later(job);
        }
        let job = self.new_job(Job::Fetch { buffer: Vec::new(), patches, at });
        self.backlog.read_begins(job, at, bytes.into());
        self.executor.submit(Task(Work::Read { job, at, buffer }));
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

    fn flush(&mut self) -> Ready {
        let upto = self.backlog.accepted();
        if self.failed {
            let job = self.new_job(Job::Flush);
            self.finished.push_back((job, Err(StoreError::Write)));
            return Ready::Later(job);
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

    fn begin(&mut self) -> Result<(), StoreError> {
        self.header.clean = false;
        self.header.state = None;
        self.header_changed = true;
        self.flush_now()
    }

    fn close(&mut self, state: Option<StateId>) -> Result<(), StoreError> {
        self.flush_now()?;
        self.header.clean = true;
        self.header.state = state;
        self.header_changed = true;
        self.flush_now()
    }
}
