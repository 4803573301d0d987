//! One profile of all jobs of a run.
//!
//! Each job has a ring in a file of its own, so that none waits for another: FILE.1, FILE.2, … They
//! become FILE when the run has ended; those of a process that was killed stay.

use super::job::{HostProfile, Period, host_header};
use super::sockets::{Sampled, Sockets};
use crate::clock::{self, Clock, Rate};
use crate::profile::ring::{RING_BYTES, Ring, RingError, RingProblem};
use mynah_profile::{
    Choice, ChoiceError, Chooser, Counts, Head, Header, Problem, Profile, ReadError, Writer,
};
use mynah_result::output::{OutputError, PendingFile};
use mynah_stamp::Span;
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A profile could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is no such choice of I/Os.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// A job's ring cannot be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A job's ring cannot be read again.
    #[error(transparent)]
    Read(#[from] Problem),
    /// The profile cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// A record of one of the jobs.
struct JobRecord {
    head: Head,
    stages: Box<[Span]>,
    beside: Box<[u64]>,
}

/// The profile of a run on a host.
#[derive(Debug)]
pub struct HostProfiles {
    path: PathBuf,
    header: Header,
    chooser: Chooser,
    clock: Clock,
    parts: Mutex<Vec<PathBuf>>,
    sockets: Arc<Sockets>,
    period: Arc<Period>,
    closed_loop: Mutex<Option<bool>>,
}

impl HostProfiles {
    /// Begins the profile of loads on this target in the file at `path`: of these I/Os.
    ///
    /// # Errors
    /// If the file is there and is no profile, or there is no such choice.
    pub fn create(path: &Path, target: &str, choice: Choice) -> Result<HostProfiles, ProfileError> {
        match Profile::open(path) {
            Ok(_) => {}
            Err(Problem { error: ReadError::Io(error), .. })
                if error.kind() == std::io::ErrorKind::NotFound => {}
            // An empty file loses nothing.
            Err(_) if path.metadata().is_ok_and(|file| file.len() == 0) => {}
            Err(Problem { error: ReadError::Io(error), .. }) => {
                return Err(RingError { path: path.to_owned(), problem: error.into() }.into());
            }
            Err(_) => {
                let problem = RingProblem::Foreign;
                return Err(RingError { path: path.to_owned(), problem }.into());
            }
        }
        // Whether it can be written is known now, and not when the run has ended.
        drop(PendingFile::create(path)?);
        let clock = Clock::start(Rate::REAL);
        let mut header = host_header(target);
        (header.origin_ns, header.machine) = (clock.origin_ns(), clock::machine());
        let chooser = Chooser::new(choice.clone(), &header.kinds)?;
        header.choice = (!choice.is_all()).then_some(choice);
        Ok(HostProfiles {
            path: path.to_owned(),
            header,
            chooser,
            clock,
            parts: Mutex::default(),
            sockets: Arc::default(),
            period: Arc::default(),
            closed_loop: Mutex::default(),
        })
    }

    /// The clock whose time 0 is the profile's.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Part of the load waits for answers before it asks for more, or does not.
    pub fn asks(&self, closed_loop: bool) {
        let mut all = self.closed_loop.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(closed_loop && all.unwrap_or(true));
    }

    /// The profile of another job, whose clock is this.
    ///
    /// # Errors
    /// If its ring cannot be made.
    pub fn job(&self, clock: &Clock) -> Result<HostProfile, RingError> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{}", parts.len() + 1));
        let path = PathBuf::from(path);
        let ring = Ring::create(&path, &self.header, RING_BYTES)?;
        parts.push(path);
        let offset = clock.origin_ns().saturating_sub(self.clock.origin_ns());
        let (chooser, period) = (self.chooser.clone(), Arc::clone(&self.period));
        Ok(HostProfile::new(ring, chooser, Span::from_ns(offset), period))
    }

    /// Asks a connection what limits it, whenever [`HostProfiles::look`] is called, until the result is
    /// dropped.
    pub(crate) fn ask(&self, socket: OwnedFd) -> Sampled {
        self.sockets.add(socket, self.clock)
    }

    /// Asks the connections, if it is time for that.
    pub(crate) fn look(&self) {
        self.sockets.look(self.clock.wall());
    }

    /// Makes one profile of those of all jobs, which have ended: what they have counted.
    ///
    /// # Errors
    /// If it cannot be written. The jobs' files stay then.
    pub fn finish(&self) -> Result<Counts, ProfileError> {
        let parts = self.take_parts();
        let mut counts = Counts::default();
        let mut all: Vec<JobRecord> = vec![];
        for path in &parts {
            let profile = Profile::open(path)?;
            counts.add(&profile.counts());
            let mut records = profile.records();
            let fail = |error| Problem { path: path.clone(), error };
            while let Some(record) = records.next_record().map_err(fail)? {
                let (stages, beside) = (record.stages.into(), record.beside.into());
                all.push(JobRecord { head: record.head, stages, beside });
            }
        }
        all.sort_unstable_by_key(|JobRecord { head, .. }| {
            (head.begin, head.connection, head.queue, head.nth)
        });
        let file = PendingFile::create(&self.path)?;
        let counted_ns = self.period.span().map(|span| span.as_ps() / 1_000);
        let network = self.sockets.said();
        let closed_loop = *self.closed_loop.lock().unwrap_or_else(PoisonError::into_inner);
        let header = Header { network, counted_ns, closed_loop, ..self.header.clone() };
        write(&file, &header, all, counts).map_err(|error| file.error(error))?;
        file.keep()?;
        remove(parts);
        Ok(counts)
    }

    /// There was no run: removes the files of its jobs.
    pub fn abandon(&self) {
        remove(self.take_parts());
    }

    fn take_parts(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Removes the jobs' files; failures are ignored.
fn remove(parts: Vec<PathBuf>) {
    for path in parts {
        let _ = std::fs::remove_file(path);
    }
}

fn write(
    file: &PendingFile,
    header: &Header,
    records: Vec<JobRecord>,
    counts: Counts,
) -> std::io::Result<()> {
    let out: File = file.file()?;
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 18, out), header.clone())?;
    for JobRecord { head, stages, beside } in records {
        writer.record(head, stages.iter().copied(), &beside)?;
    }
    writer.finish_as(counts).map(drop)
}
