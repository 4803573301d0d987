//! The profile of a load: the host's side, and the target's if it answers queries.

use crate::args::ProfileChoice;
use crate::failure::{Failure, say};
use crate::print;
use crate::profile::choice_or;
use mynah_analysis::{
    Analysis, GroupBy, ProfileReports, analyse, analyse_joined, choice_text, join,
};
use mynah_profile::{Choice, HEADER_BYTES};
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{Chosen, HostError, Options, TargetRecords, Watch, collect, persist};
use mynah_runtime::profile::{HostProfiles, ProfileError, Ring};
use mynah_stamp::Span;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// What is recorded if nothing else is said: enough I/Os for percentiles of a load of seconds, and few
/// enough that the target's records, which come over the network, do not disturb it.
const SAMPLE: &str = "1/10";
/// Bytes of the target's records that are kept: the latest.
const TARGET_BYTES: u64 = 64 << 20;

/// A load's profile, and where it is kept.
pub(crate) struct Profile {
    pub(crate) run: Arc<HostProfiles>,
    path: PathBuf,
    /// Whether the file at `path` stays.
    is_kept: bool,
    name: String,
    choice: Choice,
    target: Result<Collector, String>,
    /// Where the profile lies if it is not kept.
    folder: TempDir,
}

/// The target's records, as they are collected.
struct Collector {
    ring: PathBuf,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), HostError>>,
}

fn failed(error: ProfileError) -> Failure {
    match error {
        ProfileError::Output(error) => error.into(),
        other => Failure::usage(other.to_string(), None),
    }
}

impl Profile {
    /// Begins the profile of loads on a target of this name as options say it, in `file` if it is to be
    /// kept: what is wrong with either is said before anybody is asked.
    pub(super) fn begin(
        file: Option<&Path>,
        choice: &ProfileChoice,
        name: &str,
    ) -> Result<Profile, Failure> {
        Profile::of(choice_or(choice, Some(SAMPLE))?, file, name)
    }

    /// Like [`Profile::begin`], of the I/Os of `choice`.
    pub(crate) fn of(choice: Choice, file: Option<&Path>, name: &str) -> Result<Profile, Failure> {
        let folder = crate::profile::folder()?;
        let path = file.map_or_else(|| folder.path().join("host"), Path::to_owned);
        let run = HostProfiles::create(&path, name, choice.clone()).map_err(failed)?;
        let (run, name) = (Arc::new(run), name.to_owned());
        let target = Err("the target was not asked".to_owned());
        Ok(Profile { run, path, is_kept: file.is_some(), name, choice, target, folder })
    }

    /// Begins to collect the target's side of the profile; connecting is tried for `wait`.
    pub(crate) fn ask(self, target: &Where, wait: Duration) -> Profile {
        let target = match target {
            Where::Tcp(options) => {
                Collector::start(options, &self.choice, wait, self.folder.path().join("target"))
            }
            Where::VfioUser(_) | Where::Disk(_) | Where::Nbd(_) => {
                Err("a PCIe function answers no queries of its profile".into())
            }
        };
        Profile { target, ..self }
    }

    /// Gives the profile up: there is no load.
    pub(crate) fn abandon(self) {
        self.run.abandon();
        if let Ok(target) = self.target {
            let _ = target.end();
        }
    }

    /// The load has ended: keeps its profile, and shows it if that is wanted.
    pub(crate) fn finish(self, shows: bool) -> Result<(), Failure> {
        let name = (!self.is_kept).then(|| self.name.clone());
        let (analysis, alone, _folder) = self.analyse(&GroupBy::default())?;
        if !shows {
            return Ok(());
        }
        let mut reports = ProfileReports::new(&[analysis], None);
        if let ([report], Some(name)) = (&mut reports.profiles[..], name) {
            report.file = name;
        }
        print::out("\n")?;
        print::out(&reports.text())?;
        match alone {
            None => Ok(()),
            Some(why) => print::out(&format!("one side only: {why}\n")),
        }
    }

    /// The load has ended: keeps its profile, and reads it. If it is of one side, why; and what is
    /// not kept, as long as the folder is.
    pub(crate) fn analyse(
        self,
        by: &GroupBy,
    ) -> Result<(Analysis, Option<String>, TempDir), Failure> {
        self.run.finish().map_err(failed)?;
        let paths = self.target.and_then(|target| {
            let ring = target.ring.clone();
            // What came before it was lost is joined as well.
            let lost = target.end().err();
            join(&[&self.path], &[&ring]).map_err(|error| match lost {
                Some(lost) => format!("the target's side was lost: {lost}"),
                None => error.to_string(),
            })
        });
        let analysed: Result<Analysis, _> = match &paths {
            Ok(joined) => {
                crate::profile::keep(&self.path, &joined.profile)?;
                analyse_joined(&self.path, joined, by)
            }
            Err(_) => analyse(&self.path, by),
        };
        let analysis = analysed.map_err(|problem| Failure::failed(problem.to_string(), None))?;
        Ok((analysis, paths.err(), self.folder))
    }
}

impl Collector {
    /// Begins to collect into a ring at `ring`; why that cannot be.
    fn start(
        options: &Options,
        choice: &Choice,
        wait: Duration,
        ring: PathBuf,
    ) -> Result<Collector, String> {
        let records = persist(wait, || TargetRecords::start(options, choice))
            .map_err(|error| error.to_string())?;
        if let Chosen::ByOthers(why) = records.chosen() {
            let what = records.header().choice.as_ref().map_or("every I/O".to_owned(), choice_text);
            say(format_args!("note: the target records {what}, not what was asked for: {why}"));
        }
        let bytes = HEADER_BYTES as u64 + TARGET_BYTES;
        let mut records_of_target =
            Ring::create(&ring, records.header(), bytes).map_err(|error| error.to_string())?;
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let watch = Watch { runtime: None, interval: Span::from_secs(1) };
        let thread = std::thread::spawn(move || {
            let goes_on = || !asked.load(Ordering::Relaxed);
            collect(records, &mut records_of_target, watch, &goes_on, &mut |_, _| {})
        });
        Ok(Collector { ring, ends, thread })
    }

    /// Takes what is left, and ends.
    fn end(self) -> Result<(), HostError> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("collecting ends")
    }
}
