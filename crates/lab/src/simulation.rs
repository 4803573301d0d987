//! Simulations: a drive and its flows, put together and run to a result.
//!
//! A [`Simulation`] is built from a drive by name, an experiment file or a scenario of
//! MQSim's; its fields may be changed until it runs. [`crate::replay`](mod@crate::replay) repeats a recorded run and
//! gives the same result. This module reads no clock: what a run cost the machine is for
//! the caller to fill in ([`mynah_result::Run`]), by the [`Step`]s it is told.

mod own_index;
mod own_policies;
mod unused;

use crate::enclosure::Enclosure;
use crate::experiment::{
    Experiment, ExperimentError, ExperimentFlow, Point, Precondition, Settle, Start,
};
use crate::flow_text::flow_text;
use crate::mqsim;
use crate::observers::Observers;
use crate::profile_log::ProfileLog;
use crate::recording::{Header, Preparation, RecordingError, Tape};
use crate::runner::{
    Before, Outcome, Phase, Progress, RunError, RunOptions, Runner, Writing, occupancy,
    random_writes,
};
use crate::runner::{enclosure, slc_start};
use crate::saved_state::{self, SavedStateError};
use mynah_drive_file::fault::{self, FaultError};
use mynah_drive_file::units::{Bytes, Duration};
use mynah_drive_file::{self as drive, DriveError, DriveFile, drive_hash};
use mynah_model::Policies;
use mynah_model::config::{Config, Ethernet};
use mynah_model::io::NamespaceId;
use mynah_model::precondition::{Occupancy, Preconditioned, UpdateClass};
use mynah_model::stats::Counters;
use mynah_report::capture::Capture;
use mynah_report::summary::{self, Detail};
use mynah_report::{html as report, html::ReportCurves};
use mynah_result::output::{OutputError, PendingFile};
use mynah_result::request_log::{RequestLog, RequestLogError};
use mynah_result::rows::{RequestRows, RowSink};
use mynah_result::series::{PointSink, Sampler};
use mynah_result::steady;
use mynah_result::timeline::{Timeline, Window};
use mynah_result::{
    KeyValueCounts, Result as RunResult, Run, Settling, Verdict,
    assembly::{KeyValueParts, Parts},
};
use mynah_stamp::{Span, Time};
use mynah_workload::fio::{FioError, FioJob};
use mynah_workload::{FlowOptions, FlowSpec, Limits, OptionError, Source};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Why a simulation could not be built or run.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum SimulationError {
    /// The drive file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Drive(#[from] DriveError),
    /// The experiment file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Experiment(#[from] ExperimentError),
    /// A flow's option cannot be used.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A fault description cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fault(#[from] FaultError),
    /// A drive that is to be divided.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Shard(#[from] crate::shard::ShardError),
    /// fio's job file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fio(#[from] FioError),
    /// MQSim's files cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Mqsim(#[from] mqsim::MqsimError),
    /// The run could not be begun, or failed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Run(#[from] RunError),
    /// The run came to its end, but the drive's state could not be saved after it.
    #[error("{reason}")]
    #[diagnostic(forward(reason))]
    Unsaved {
        /// What was measured: all of it.
        measured: Box<Measured>,
        /// Why the state could not be saved.
        reason: RunError,
    },
    /// A recording could not be read, written or replayed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Recording(#[from] RecordingError),
    /// An output file could not be written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    /// A word of a flow's description.
    #[error("`{word}` is not an option of a flow")]
    #[diagnostic(help("write OPTION=VALUE with spaces between; valid are {}", FlowOptions::NAMES.join(", ")))]
    Word {
        /// The word, as it was written.
        word: String,
    },
    /// A change to a drive that did not come from a file.
    #[error("`{0}` cannot be set: this simulation was not built from a drive file")]
    NotAFile(String),
    /// Another drive for a sweep over drives.
    #[error("--drive {0}: the experiment's sweep is over drives")]
    #[diagnostic(help("leave --drive out, or take `drive` out of the file's [sweep]"))]
    DriveIsVaried(String),
    /// A capture of a drive without an Ethernet link.
    #[error("--pcap: the drive `{0}` has no Ethernet link, so there are no frames to capture")]
    #[diagnostic(help(
        "drives with link.protocol = \"ethernet\" have, such as eemu-samsung (see: mynah drives)"
    ))]
    NoFrames(String),
    /// A state that takes too much to describe.
    #[error(
        "the drive's state cannot be recorded: how often each address was written follows no ranges"
    )]
    #[diagnostic(help(
        "a recording repeats the preconditioning; of Zipf distributions and traces it can do so \
         with --precondition fill or none"
    ))]
    Scattered,
    /// An index of keys for a drive of blocks.
    #[error("the index `{0}`: the drive has no key-value namespace")]
    #[diagnostic(help("valid are drives with a section [kv], such as kv-tlc"))]
    NoPairs(String),
    /// Something that files cannot say.
    #[error("{0}")]
    NoFile(String),
    /// A drive that drive files cannot describe, so that no replay could rebuild it.
    #[error("the drive cannot be recorded: {0}")]
    #[diagnostic(help(
        "a recording carries the drive as a drive file; what --as-mqsim changes cannot be \
         written as one"
    ))]
    Unwritable(String),
}

impl SimulationError {
    /// Whether what the user gave is at fault, and not the run or the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            SimulationError::Run(error) | SimulationError::Unsaved { reason: error, .. } => {
                !matches!(
                    error,
                    RunError::RequestLog(_)
                        | RunError::Output(_)
                        | RunError::State(SavedStateError::Output(_))
                        | RunError::Recording(_)
                        | RunError::TooLong(_)
                        | RunError::Policy(_)
                        | RunError::Interrupted
                        | RunError::Stuck(..)
                        | RunError::Input(..)
                )
            }
            SimulationError::Recording(error) => !matches!(error, RecordingError::Diverged { .. }),
            SimulationError::Output(error) => error.at_start,
            _ => true,
        }
    }
}

/// What a simulation is doing. The watcher may end the run with what has been measured by
/// returning false; during preparation that has no effect.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The drive is being built and preconditioned.
    Preparing,
    /// The drive is written as its flows do, without time.
    Writing(Writing),
    /// The drive settles under the load, before anything is measured.
    Settling(Progress),
    /// The drive is ready; the run begins.
    Started,
    /// The run goes on; called from time to time.
    Running(Progress),
    /// The run has ended; its results are put together.
    Finished,
    /// A flow is about to run by itself.
    Alone(&'a str),
    /// The flow runs by itself.
    RunningAlone(Progress),
}

impl From<Before> for Step<'_> {
    fn from(before: Before) -> Self {
        match before {
            Before::Writing(writing) => Step::Writing(writing),
            Before::Settling(progress) => Step::Settling(progress),
        }
    }
}

/// A drive, flows in front of it, and how they are to be run.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Name of the drive in results.
    pub name: String,
    /// Description of the drive.
    pub config: Config,
    /// The flows, at least one.
    pub flows: Vec<FlowSpec>,
    /// Preconditioning and ramp. The run's seed is [`Simulation::seed`].
    pub options: RunOptions,
    /// Several such drives behind a switch, in place of one.
    pub enclosure: Option<Enclosure>,
    /// Whether each flow also runs by itself, for slowdown, fairness and weighted speedup.
    pub alone: bool,
    /// Whether a result is marked as untrusted unless the drive was found in steady state.
    pub require_steady: bool,
    /// Where every completed request is to be written.
    pub request_log: Option<PathBuf>,
    /// Receives every completed request as a row.
    pub rows: Option<RowSink>,
    /// Receives each interval while the run goes on.
    pub points: Option<PointSink>,
    /// Where the profile is to be written: a record for every completed request.
    pub profile: Option<PathBuf>,
    /// Where everything that goes into the drive is to be recorded.
    pub record: Option<PathBuf>,
    /// Where one row an interval is to be written, and how long an interval is.
    pub intervals: Option<(PathBuf, Span)>,
    /// Where a Perfetto trace is to be written, and of which part of the run.
    pub timeline: Option<(PathBuf, Window)>,
    /// Where the packets of an Ethernet link are to be written as a capture.
    pub pcap: Option<PathBuf>,
    /// Where the drive's state is to be saved when the run is over.
    pub save_state: Option<PathBuf>,
    /// Of a sweep: what was varied, and its value here.
    pub point: Vec<(String, String)>,
    /// Whether the result is to hold what the run looked like over time, for a report.
    pub over_time: bool,
    /// Name or file of the drive, and what is changed about it.
    source: Option<(String, Vec<String>)>,
}

/// A simulation as the texts of a drive file and an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationFiles {
    /// The drive file.
    pub drive: String,
    /// The experiment file.
    pub experiment: String,
}

impl Simulation {
    /// A simulation of the shipped drive or the drive file `name_or_path`, without flows.
    ///
    /// # Errors
    /// If there is no such drive, or it is not possible.
    pub fn on(name_or_path: &str) -> Result<Simulation, SimulationError> {
        Simulation::on_changed(name_or_path, &[])
    }

    /// The same of a drive with changes, `KEY=VALUE` each, that only need to be possible
    /// together.
    ///
    /// # Errors
    /// If there is no such drive, or it is not possible.
    pub fn on_changed(
        name_or_path: &str,
        changes: &[String],
    ) -> Result<Simulation, SimulationError> {
        let file = drive::load(name_or_path, changes)?;
        Ok(Simulation {
            source: Some((name_or_path.to_owned(), changes.to_vec())),
            ..Simulation::with(&file.name, file.config)
        })
    }

    /// A simulation of the drive `config`, without flows.
    pub fn with(name: &str, config: Config) -> Simulation {
        Simulation {
            name: name.to_owned(),
            config,
            flows: Vec::new(),
            options: RunOptions::default(),
            enclosure: None,
            alone: false,
            require_steady: false,
            request_log: None,
            rows: None,
            points: None,
            profile: None,
            record: None,
            intervals: None,
            timeline: None,
            pcap: None,
            save_state: None,
            point: Vec::new(),
            over_time: false,
            source: None,
        }
    }

    /// Changes the drive: `KEY=VALUE`, as `--set` has it. Before [`Simulation::fault`].
    ///
    /// # Errors
    /// If there is no such key, or the value is not possible.
    pub fn set(mut self, assignment: &str) -> Result<Simulation, SimulationError> {
        let Some((name, overrides)) = &mut self.source else {
            return Err(SimulationError::NotAFile(assignment.to_owned()));
        };
        overrides.push(assignment.to_owned());
        let file = drive::load(name, overrides)?;
        self.config = file.config;
        self.name = file.name;
        Ok(self)
    }

    /// Adds a flow, described in the words of fio: `"rw=randread bs=4k iodepth=8"`. One
    /// without a limit gets [`DEFAULT_REQUESTS`].
    ///
    /// # Errors
    /// If an option does not exist or its value cannot be used.
    pub fn flow(mut self, name: &str, options: &str) -> Result<Simulation, SimulationError> {
        let mut read = FlowOptions::default();
        for word in options.split_whitespace() {
            let (option, value) = word.split_once('=').unwrap_or((word, ""));
            if !read.set(option, value) {
                return Err(SimulationError::Word { word: word.to_owned() });
            }
        }
        let mut flow = read.flow(name)?;
        limit(&mut flow);
        self.flows.push(flow);
        Ok(self)
    }

    /// Adds a fault, as `--fault` has it.
    ///
    /// # Errors
    /// If it cannot be read, or names what the drive does not have.
    pub fn fault(mut self, spec: &str) -> Result<Simulation, SimulationError> {
        let fault = fault::parse(spec)?;
        fault::check(&fault, &self.config)?;
        self.config.faults.push(fault);
        Ok(self)
    }

    /// Seeds the drive and the workloads.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Simulation {
        self.options.seed = seed;
        self.config.seed = seed;
        self
    }

    /// Sets the state that the drive starts in; the default is [`Precondition::Steady`].
    #[must_use]
    pub fn precondition(mut self, start: impl Into<Start>) -> Simulation {
        self.options.set_start(start.into());
        self
    }

    /// The simulation that an experiment file describes, with more changes to its drive.
    ///
    /// # Errors
    /// If the file or its drive cannot be used.
    pub fn from_experiment(
        path: &Path,
        overrides: &[String],
    ) -> Result<Simulation, SimulationError> {
        Simulation::of_experiment(&Experiment::load(path)?, overrides)
    }

    /// The simulations that an experiment file describes, one for each point of its sweep, or
    /// only one.
    ///
    /// # Errors
    /// If the file or a drive cannot be used.
    pub fn from_sweep(
        path: &Path,
        overrides: &[String],
    ) -> Result<Vec<Simulation>, SimulationError> {
        Simulation::from_sweep_on(path, None, overrides)
    }

    /// The same, on another drive than the file's if one is named.
    ///
    /// # Errors
    /// If the file or a drive cannot be used, or the sweep is over drives.
    pub fn from_sweep_on(
        path: &Path,
        drive: Option<&str>,
        overrides: &[String],
    ) -> Result<Vec<Simulation>, SimulationError> {
        let each = |Point { values, mut experiment }| {
            if let Some(drive) = drive {
                if values.iter().any(|(key, _)| key == "drive") {
                    return Err(SimulationError::DriveIsVaried(drive.to_owned()));
                }
                experiment.drive = drive.to_owned();
            }
            let simulation = Simulation::of_experiment(&experiment, overrides)?;
            Ok(Simulation { point: values, ..simulation })
        };
        Experiment::load_points(path)?.into_iter().map(each).collect()
    }

    fn of_experiment(
        experiment: &Experiment,
        overrides: &[String],
    ) -> Result<Simulation, SimulationError> {
        let changes = experiment.overrides.iter().map(ToString::to_string);
        let changes: Vec<String> = changes.chain(overrides.iter().cloned()).collect();
        let file = drive::load(&experiment.drive, &changes)?;
        let simulation = Simulation::of_experiment_on(experiment, &file);
        Ok(Simulation { source: Some((experiment.drive.clone(), changes)), ..simulation })
    }

    /// What `experiment` says is done, to the drive of `file`.
    pub(crate) fn of_experiment_on(experiment: &Experiment, file: &DriveFile) -> Simulation {
        let mut simulation = Simulation::with(&file.name, file.config.clone());
        simulation.enclosure = experiment.enclosure;
        simulation.flows = experiment.place(&mut simulation.config);
        simulation.options.set_start(experiment.precondition.unwrap_or_default());
        simulation.options.settle = experiment.settle.unwrap_or_default();
        simulation.options.ramp_time = experiment.ramp_time.unwrap_or_default();
        simulation.options.precision = experiment.precision.unwrap_or_default();
        match experiment.seed {
            Some(seed) => simulation.seed(seed),
            None => simulation,
        }
    }

    /// The same, with the flows of a fio job file; what it said that has no effect here.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn fio(mut self, path: &Path) -> Result<(Simulation, Vec<String>), SimulationError> {
        let FioJob { mut flows, ramp_time, verify, mut warnings } = FioJob::load(path)?;
        if verify {
            let text =
                "verify is left out: a simulation has no bytes to compare; `mynah bench` does";
            warnings.push(text.to_owned());
        }
        let entries = self.config.queues.entries;
        for flow in &mut flows {
            limit(flow);
            if let Some(depth) = flow.depth_max().filter(|depth| *depth >= entries) {
                let most = entries.saturating_sub(1).max(1);
                warnings.push(format!(
                    "iodepth={depth} is {most} outstanding in `{}`: a queue of {entries} entries holds \
                     no more (queues.entries). Under fio the rest waits in the block layer, and its \
                     latencies count that",
                    flow.name
                ));
                flow.limit_depth(most);
            }
        }
        self.flows.extend(flows);
        if let Some(ramp_time) = ramp_time {
            self.options.ramp_time = ramp_time;
        }
        Ok((self, warnings))
    }

    /// The simulations that a pair of MQSim's files describes, one for each scenario.
    pub fn from_mqsim(import: mqsim::Import) -> Vec<Simulation> {
        let seed = import.seed;
        let each = |scenario: mqsim::Scenario| {
            let mut simulation = Simulation::with(&scenario.name, scenario.config);
            simulation.flows = scenario.flows;
            simulation.options.precondition = scenario.precondition;
            // As MQSim, which computes a steady state and begins.
            simulation.options.settle = Settle::Off;
            simulation.options.seed = seed;
            simulation
        };
        import.scenarios.into_iter().map(each).collect()
    }

    /// A drive file to be at `drive` and an experiment file to be at `experiment`, in the same
    /// folder, that together give the very same simulation. `remark` says where it came from.
    /// What is measured of a run is no part of an experiment.
    ///
    /// # Errors
    /// If files cannot say it.
    pub fn to_files(
        &self,
        remark: &str,
        drive: &Path,
        experiment: &Path,
    ) -> Result<SimulationFiles, SimulationError> {
        let no_file = |problem: &str| SimulationError::NoFile(problem.to_owned());
        if let Some(name) = own_index::name(&self.config) {
            return Err(no_file(&format!("the index `{name}` is none that a drive file can name")));
        }
        let drive_text = drive::to_toml(&self.name, remark, &self.config, &[]);
        let read = drive::parse(&drive.display().to_string(), &drive_text, &[])?;
        if read.config != self.config {
            return Err(no_file("a drive file would lose some of the drive"));
        }
        let folder = experiment.parent().unwrap_or(Path::new(""));
        let name = drive.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| no_file("the drive file's name is no text"))?;
        let mut flows = self.flows.clone();
        for flow in &mut flows {
            // Traces are looked for beside the experiment file.
            if let Source::Trace(trace) = &mut flow.source
                && !trace.is_pipe()
                && folder != Path::new("")
            {
                trace.path = std::path::absolute(&trace.path)
                    .map_err(|error| no_file(&format!("{}: {error}", trace.path.display())))?;
            }
        }
        let flows = flows.into_iter().map(|spec| ExperimentFlow { spec, own_namespace: None });
        let ramp = self.options.ramp_time;
        let it = Experiment {
            drive: if name.ends_with(".toml") { name.to_owned() } else { format!("./{name}") },
            overrides: Vec::new(),
            seed: Some(self.options.seed),
            precondition: Some(self.options.start()),
            settle: (self.options.settle != Settle::default()).then_some(self.options.settle),
            ramp_time: (!ramp.is_zero()).then_some(ramp),
            precision: self.is_auto().then_some(self.options.precision),
            enclosure: self.enclosure,
            flows: flows.collect(),
        };
        let text = it.to_toml(remark).map_err(|flow| {
            no_file(&format!("flow `{flow}` is one that the options of an experiment cannot say"))
        })?;
        if Experiment::parse(&experiment.display().to_string(), &text)? != it {
            return Err(no_file("an experiment file would lose some of the workload"));
        }
        Ok(SimulationFiles { drive: drive_text, experiment: text })
    }

    /// Whether any flow ends when its figures are known.
    pub fn is_auto(&self) -> bool {
        self.flows.iter().any(|flow| flow.limits.auto)
    }

    /// Checks that what ends the flows does not contradict itself, before anything is built.
    ///
    /// # Errors
    /// If flows that end when their figures are known cannot.
    pub fn check_ends(&self) -> Result<(), SimulationError> {
        Ok(crate::runner::check_ends(&self.flows, &self.options)?)
    }

    /// Runs it.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn run(&self) -> Result<Measured, SimulationError> {
        self.run_watched(&mut |_| true)
    }

    /// Runs it and says what it is doing.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn run_watched(
        &self,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<Measured, SimulationError> {
        watch(Step::Preparing);
        if let Some(enclosure) = self.enclosure {
            return self.run_enclosure(enclosure, watch);
        }
        let runner = Runner::new(self.config.clone(), &self.flows, &self.options)?;
        self.run_on(runner, watch)
    }

    /// Runs it on a drive that has been prepared.
    fn run_on<P: Policies>(
        &self,
        mut runner: Runner<P>,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<Measured, SimulationError> {
        let mut pending = Vec::new();
        // A file that cannot be written is found before anything runs.
        self.observe(&mut runner, &mut pending)?;
        if let Some(path) = &self.save_state {
            runner.save_state(PendingFile::create_private(path)?, self.name.clone());
        }
        let mut runner = runner.settled(|before| watch(before.into()))?;
        if let Some(path) = &self.record {
            let file = PendingFile::create_private(path)?;
            runner.warm_cache()?;
            let header = self.header(&runner)?;
            let out = file.file().map_err(|error| file.error(error))?;
            let mut tape = Tape::new(Box::new(out), &header).map_err(|e| file.error(e))?;
            runner.record_pairs(&mut tape)?;
            runner.record_past(&mut tape)?;
            runner.record(tape);
            pending.push(file);
        }
        watch(Step::Started);
        let mut outcome = runner.run(|progress| watch(Step::Running(progress)))?;
        let unsaved = outcome.unsaved.take();
        watch(Step::Finished);
        for file in pending {
            file.keep()?;
        }
        let alone = match self.alone && !outcome.interrupted {
            true => self.run_alone(watch)?,
            false => None,
        };
        let interrupted = outcome.interrupted || self.alone && alone.is_none();
        let mut measured = Measured { interrupted, ..self.measured(outcome, alone.as_deref()) };
        if interrupted {
            measured.result.note_interruption();
        }
        match unsaved {
            Some(reason) => {
                measured.result.notes.push("the drive's state was not saved".into());
                Err(SimulationError::Unsaved { measured: Box::new(measured), reason })
            }
            None => Ok(measured),
        }
    }

    /// The drive's Ethernet link.
    ///
    /// # Errors
    /// If its link is another.
    pub fn ethernet(&self) -> Result<&Ethernet, SimulationError> {
        let no_frames = || SimulationError::NoFrames(self.name.clone());
        self.config.ethernet.as_ref().ok_or_else(no_frames)
    }

    /// The same of several drives behind a switch.
    fn run_enclosure(
        &self,
        enclosure: Enclosure,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<Measured, SimulationError> {
        let looked_at = [
            (self.alone, "each flow alone"),
            (self.rows.is_some(), "a table of requests"),
            (self.record.is_some(), "a recording"),
            (
                self.intervals.is_some() || self.over_time,
                "what it did over time (--intervals, --report)",
            ),
            (self.points.is_some(), "what it does as it goes on (--watch)"),
            (self.timeline.is_some(), "a timeline"),
            (self.pcap.is_some(), "a capture"),
            (self.save_state.is_some(), "a saved state"),
            (self.require_steady, "the verdict on the steady state"),
        ];
        if let Some((_, what)) = looked_at.iter().find(|it| it.0) {
            return Err(RunError::Enclosure(format!("{what} is of one drive")).into());
        }
        let mut pending = Vec::new();
        let observers = self.observe_drives(enclosure.drives, &mut pending)?;
        watch(Step::Started);
        let ran = enclosure::run(
            &self.config,
            &self.flows,
            &self.options,
            (enclosure, observers),
            |phase| {
                watch(match phase {
                    Phase::Before(before) => before.into(),
                    Phase::Running(progress) => Step::Running(progress),
                })
            },
        );
        let (outcome, notes) = ran?;
        watch(Step::Finished);
        for file in pending {
            file.keep()?;
        }
        let mut measured = self.measured(outcome, None);
        measured.result.device = None;
        measured.result.notes.extend(notes);
        if measured.interrupted {
            measured.result.note_interruption();
        }
        Ok(measured)
    }

    /// Opens the outputs that were asked for of several drives.
    fn observe_drives(
        &self,
        drives: u32,
        pending: &mut Vec<PendingFile>,
    ) -> Result<Observers, SimulationError> {
        let mut observers = Observers::default();
        if let Some(path) = &self.request_log {
            let file = PendingFile::create(path)?;
            let names: Vec<String> = self.flows.iter().map(|flow| flow.name.clone()).collect();
            observers.log = Some(RequestLog::create_of_drives(&file, &names).map_err(log_error)?);
            pending.push(file);
        }
        if let Some(path) = &self.profile {
            let file = PendingFile::create_private(path)?;
            let profile = ProfileLog::create(&file, &self.name, &self.flows, true, Some(drives))?;
            observers.profile = Some(profile);
            pending.push(file);
        }
        Ok(observers)
    }

    /// Opens the outputs that were asked for, and attaches them to the run.
    fn observe(
        &self,
        runner: &mut Runner<impl Policies>,
        pending: &mut Vec<PendingFile>,
    ) -> Result<(), SimulationError> {
        let has_link = self.config.ethernet.is_some();
        let names = || self.flows.iter().map(|flow| flow.name.clone()).collect::<Vec<_>>();
        let ramp = !self.options.ramp_time.is_zero();
        let mut observers = Observers::default();
        let mut any = false;
        if let Some(path) = &self.request_log {
            let file = PendingFile::create(path)?;
            let log = RequestLog::create(&file, &names(), has_link).map_err(log_error)?;
            observers.log = Some(log);
            pending.push(file);
            any = true;
        }
        if let Some(sink) = &self.rows {
            observers.rows = Some(RequestRows::new(sink.clone(), has_link));
            any = true;
        }
        if let Some(path) = &self.profile {
            let file = PendingFile::create_private(path)?;
            let profile = ProfileLog::create(&file, &self.name, &self.flows, has_link, None)?;
            observers.profile = Some(profile);
            pending.push(file);
            any = true;
        }
        if let Some((path, every)) = &self.intervals {
            let mut sampler = Sampler::new(names(), *every, ramp);
            sampler.write_to(path, runner.drive())?;
            observers.sampler = Some(sampler);
            any = true;
        } else if self.over_time || self.points.is_some() {
            observers.sampler = Some(Sampler::for_pictures(names(), ramp));
            any = true;
        }
        if let (Some(sampler), Some(sink)) = (&mut observers.sampler, &self.points) {
            sampler.show(sink.clone());
        }
        if let Some((path, window)) = &self.timeline {
            let drive = runner.drive_mut();
            observers.timeline = Some(Timeline::create(path, *window, names(), drive)?);
            any = true;
        }
        if let Some(path) = &self.pcap {
            let ethernet = self.ethernet()?;
            observers.capture = Some(Capture::create(path, ethernet, runner.drive_mut())?);
            any = true;
        }
        if any {
            runner.observe(observers);
        }
        Ok(())
    }

    /// The mean latency of each flow by itself; `None` if the watcher ended it.
    fn run_alone(
        &self,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<Option<Vec<Option<f64>>>, SimulationError> {
        let mut alone = Vec::new();
        for (index, flow) in self.flows.iter().enumerate() {
            watch(Step::Alone(&flow.name));
            // Who is alone finds no collections under way that others have caused: the drive does not
            // settle under them. Random writes before the run are nobody's.
            let settle = match self.options.precondition {
                Precondition::SteadyRandom => self.options.settle,
                _ => Settle::Off,
            };
            let options = RunOptions { only: Some(index), settle, ..self.options.clone() };
            let runner = Runner::new(self.config.clone(), &self.flows, &options)?;
            let runner = match runner.settled(|before| watch(before.into())) {
                Err(RunError::Interrupted) => return Ok(None),
                runner => runner?,
            };
            let outcome = runner.run(|progress| watch(Step::RunningAlone(progress)))?;
            if outcome.interrupted {
                return Ok(None);
            }
            alone.push(outcome.recorder.mean_latency_ns(index));
        }
        Ok(Some(alone))
    }

    /// A note for runs from a saved state, whose write cache is empty, if the cache took much of
    /// the run's writes.
    fn note_of_empty_cache(&self, outcome: &Outcome) -> Option<String> {
        self.options.load_state.as_ref()?;
        let room = self.config.cache.as_ref().map_or(0, |cache| cache.bytes);
        let [before, after] = [&outcome.counters_before, &outcome.counters];
        let written = after.host_bytes_written - before.host_bytes_written;
        let ramped = self.options.ramp_time > mynah_stamp::Span::ZERO;
        (written > 0 && !ramped && room as f64 > EMPTY_CACHE_NOTED * written as f64).then(|| {
            format!(
                "the write cache was empty at the start, as in every saved state, and took up to {} of \
                 the {} that were written: --ramp_time leaves the time it takes to fill out",
                mynah_result::figures::bytes(room as f64),
                mynah_result::figures::bytes(written as f64)
            )
        })
    }

    fn measured(&self, outcome: Outcome, alone: Option<&[Option<f64>]>) -> Measured {
        let mut result = RunResult::new(Parts {
            drive: &self.name,
            drive_hash: &drive_hash(&self.config),
            seed: self.options.seed,
            recorder: &outcome.recorder,
            counters_before: &outcome.counters_before,
            counters: &outcome.counters,
            blame_before: &outcome.blame_before,
            blame: &outcome.blame,
            alone,
            run: Run::default(),
        });
        if let (Some(left), Some(device)) = (outcome.key_value, &mut result.device) {
            device.key_value = Some(KeyValueCounts::new(KeyValueParts {
                counts: left.counts,
                live_bytes: Some(left.live_bytes),
                misses: left.misses,
                unit_bytes: self.config.mapping.unit_bytes,
                managers: self.config.key_value.as_ref().map_or(1, |kv| kv.managers),
                counters: [&outcome.counters_before, &outcome.counters],
                recorder: &outcome.recorder,
            }));
        }
        if let (Some(own), Some(device)) = (outcome.own_policies.clone(), &mut result.device) {
            device.own_policies = Some(Box::new(own.into()));
        }
        let happened = unused::Happened::of(&result, &outcome);
        let empty_cache = self.note_of_empty_cache(&outcome);
        result.notes.extend(outcome.notes);
        let window = self.timeline.as_ref().map(|(_, window)| *window);
        let errors = |counters: &Counters| counters.media_errors;
        let failed = errors(&outcome.counters).saturating_sub(errors(&outcome.counters_before));
        result.notes.extend(unused::notes(window, &self.config.faults, outcome.end, failed));
        result.notes.extend(empty_cache);
        if let Some((_, changes)) = &self.source {
            result.notes.extend(unused::settings(changes, &happened));
        }
        result.point = self.point.iter().cloned().collect();
        if let Some(steady) = &outcome.steady
            && !steady.reached
        {
            let reason = outcome.steadiness.as_ref().and_then(|judged| judged.reason.as_deref());
            result.untrusted = Some(steady.why_not(reason));
        }
        if outcome.in_ramp {
            result.untrusted = Some(format!(
                "the run ended within its ramp of {}: this is the ramp, with all that it should \
                 have kept out; a longer run (runtime, number_ios) or a shorter ramp_time helps",
                Duration(self.options.ramp_time)
            ));
        }
        if self.require_steady
            && let Some(judged) = &outcome.steadiness
            && judged.verdict != Verdict::Steady
        {
            let reason = judged.reason.as_deref().unwrap_or_default();
            let cure = match judged.verdict {
                Verdict::TooShort => "a longer run (runtime, number_ios) tells",
                Verdict::NotSteady | Verdict::Steady => "a longer settle time lets it come to rest",
            };
            result.untrusted = Some(format!("{}: {reason}; {cure}", judged.verdict.name()));
        }
        if let Some(error) = &outcome.stopped {
            result.untrusted = Some(format!("the drive has stopped: {error}"));
        }
        result.steady = outcome.steady;
        result.set_steadiness(outcome.steadiness);
        result.settled = outcome.settled.map(Settling::from);
        result.trace_writes = outcome.trace_writes;
        result.precision = outcome.precision;
        let asked = self.flows.iter().map(|flow| (flow.name.clone(), flow_text(flow)));
        Measured {
            result,
            asked: asked.collect(),
            curves: ReportCurves::new(&outcome.recorder).over_time(outcome.series),
            preconditioned: outcome.preconditioned,
            interrupted: outcome.interrupted,
            end: outcome.end,
        }
    }

    /// An experiment file that says what a drive settles under.
    fn settling_text(&self) -> Result<String, SimulationError> {
        // Of flows in whose place random writes settle the drive, the stand-ins say all there is.
        let flows = match self.options.precondition {
            Precondition::SteadyRandom => random_writes(&self.config, &self.flows),
            _ => self.flows.clone(),
        };
        let flows = flows.into_iter().map(|spec| ExperimentFlow { spec, own_namespace: None });
        let it = Experiment {
            drive: self.name.clone(),
            overrides: Vec::new(),
            seed: Some(self.options.seed),
            precondition: Some(self.options.start()),
            settle: Some(self.options.settle),
            ramp_time: None,
            precision: None,
            enclosure: None,
            flows: flows.collect(),
        };
        it.to_toml("").map_err(|flow| {
            let problem =
                format!("options cannot say flow `{flow}`, under which the drive settles");
            SimulationError::NoFile(problem)
        })
    }

    fn header(&self, runner: &Runner<impl Policies>) -> Result<Header, SimulationError> {
        if runner.is_scattered() {
            return Err(SimulationError::Scattered);
        }
        let state = self.options.load_state.as_deref();
        let checksum = state.map(|path| {
            let io = |error| SavedStateError::Io { path: path.into(), error };
            saved_state::checksum(path).map_err(io)
        });
        let checksum = checksum.transpose().map_err(RunError::from)?;
        Preparation {
            name: &self.name,
            start: match checksum {
                Some(_) => Precondition::None.into(),
                // The pairs are laid down one by one, and nothing else is.
                None if runner.begins_without_blocks() => Precondition::None.into(),
                None => self.options.start(),
            },
            saved_state: checksum.as_ref().map(saved_state::name),
            occupancy: runner.occupancy(),
            settling: runner.has_settled().then(|| self.settling_text()).transpose()?,
            precision: runner.plan(),
            seed: self.options.seed,
            ramp: self.options.ramp_time,
            notes: runner.notes(),
        }
        .header(runner.drive(), self.flows.iter().map(|flow| flow.name.clone()).collect())
        .map_err(SimulationError::Unwritable)
    }

    /// The memory that the drive's tables take, about, in bytes: for each mapping unit where
    /// it is, and for each place on flash what is there.
    pub fn memory_bytes(&self) -> u64 {
        let units = self.config.geometry.raw_bytes() / u64::from(self.config.mapping.unit_bytes);
        units.saturating_mul(8)
    }

    /// What would be run, as text for people: the drive, the flows, and what preconditioning
    /// assumes. Builds the drive, so that what cannot run is refused here too.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn describe(&self) -> Result<String, SimulationError> {
        let options = RunOptions {
            precondition: Precondition::None,
            slc_start: None,
            load_state: None,
            ..self.options.clone()
        };
        slc_start::check(&self.config, self.options.slc_start)?;
        let runner = Runner::new(self.config.clone(), &self.flows, &options)?;
        let drive = runner.drive();
        let mut text = String::new();
        let mut line = |what: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{what}");
        };
        line(format_args!("drive: {} [{}]", self.name, drive_hash(&self.config)));
        for index in 0..self.config.namespaces.len() as u32 {
            let id = NamespaceId(index + 1);
            if let Some(pairs) = drive.pair_counts(id) {
                let capacity = pairs.capacity * u64::from(self.config.mapping.unit_bytes);
                line(format_args!("  namespace {}: {} for pairs", id.0, size(capacity)));
                continue;
            }
            let sectors = drive.namespace_sectors(id).unwrap_or(0);
            line(format_args!("  namespace {}: {}", index + 1, size(sectors * 512)));
        }
        for fault in &self.config.faults {
            line(format_args!("  fault: {}", fault::print(fault)));
        }
        line(format_args!("seed: {}", self.options.seed));
        if !self.options.ramp_time.is_zero() {
            let ramp = Duration(self.options.ramp_time);
            line(format_args!(
                "ramp: {ramp} of simulated time before results are taken, and so much more of each \
                 runtime"
            ));
        }
        if self.is_auto() {
            line(format_args!("precision: {}", self.options.precision));
        }
        for flow in &self.flows {
            line(format_args!("flow {}: {}", flow.name, flow_text(flow)));
        }
        let unit = u64::from(self.config.mapping.unit_bytes);
        if let Some(path) = &self.options.load_state {
            line(format_args!("state: as saved in {}", path.display()));
            return Ok(text);
        }
        let assumed = match self.options.precondition {
            Precondition::None => Vec::new(),
            Precondition::SteadyRandom => {
                let writes = random_writes(&self.config, &self.flows);
                occupancy(drive, &writes, (unit / 512) as u32, self.options.beyond())?
            }
            _ => occupancy(drive, &self.flows, (unit / 512) as u32, self.options.beyond())?,
        };
        line(format_args!(
            "precondition: {}, {}",
            self.options.start(),
            match self.options.precondition {
                Precondition::None => "nothing has been written",
                Precondition::Fill => "all of this was written once, in order",
                Precondition::Steady => "as after a long time of the flows' writes",
                Precondition::SteadyRandom => "as after a long time of random writes",
            }
        ));
        let scattered = |namespace: NamespaceId| {
            self.flows.iter().any(|flow| flow.namespace == namespace && flow.is_scattered())
        };
        for Occupancy { namespace, classes } in &assumed {
            for UpdateClass { first, units, weight, order, .. } in classes {
                let how = match self.options.precondition {
                    Precondition::Steady if order.in_order == 1.0 => "overwritten in order",
                    Precondition::Steady if scattered(*namespace) => {
                        "overwritten as often as its flows write each address"
                    }
                    Precondition::Steady if order.is_ordered() => {
                        "overwritten partly in order, partly uniformly"
                    }
                    Precondition::Steady | Precondition::SteadyRandom if *weight > 0.0 => {
                        "overwritten uniformly"
                    }
                    _ => "written once",
                };
                line(format_args!(
                    "  namespace {}: {} from {}: {how}",
                    namespace.0,
                    size(units * unit),
                    size(first * unit)
                ));
            }
        }
        Ok(text)
    }
}

/// Results of a simulation.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The result document of the run.
    pub result: RunResult,
    /// Of each flow by its name: what it was to do. Empty where that is not known.
    pub asked: Vec<(String, String)>,
    /// The latency distributions, for the report.
    pub curves: ReportCurves,
    /// What preconditioning found.
    pub preconditioned: Option<Preconditioned>,
    /// The watcher ended it early.
    pub interrupted: bool,
    /// Simulated time at the end.
    pub end: Time,
}

impl Measured {
    /// The text summary, as `mynah sim` prints it.
    pub fn summary(&self) -> String {
        summary::detailed(&self.result, &self.asked, Detail::Short)
    }

    /// The same with all stages, waits and devices, as `mynah sim -v` prints it.
    pub fn full_summary(&self) -> String {
        summary::detailed(&self.result, &self.asked, Detail::Full)
    }

    /// The report, an HTML document.
    pub fn html(&self) -> String {
        report::html(&self.result, &self.curves)
    }
}

/// Limits flows without a limit to the runtime that a search for the steady state takes at most,
/// with rounds of length `every`.
pub fn limit_rounds(flows: &mut [FlowSpec], every: Span) {
    for flow in flows.iter_mut().filter(|flow| flow.limits == Limits::default()) {
        flow.limits.runtime = Some(every.times(steady::ROUNDS_MAX));
    }
}

/// An initially empty write cache is noted if it holds more than this share of the run's writes.
const EMPTY_CACHE_NOTED: f64 = 0.02;

/// Requests of each job of a flow that says no limit.
pub const DEFAULT_REQUESTS: u64 = 100_000;

/// Whether a flow has no limit and does not end by itself, as a trace does.
pub fn is_endless(flow: &FlowSpec) -> bool {
    flow.limits == Limits::default() && !flow.has_an_end()
}

/// Limits a flow that would never end to [`DEFAULT_REQUESTS`]; true if it was such a flow.
pub fn limit(flow: &mut FlowSpec) -> bool {
    let endless = is_endless(flow);
    if endless {
        flow.limits.requests = Some(DEFAULT_REQUESTS);
    }
    endless
}

pub(crate) fn log_error(error: RequestLogError) -> SimulationError {
    SimulationError::Run(RunError::RequestLog(error))
}

fn size(bytes: u64) -> String {
    match bytes >= 1 << 30 {
        true => format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64),
        false => Bytes(bytes).to_string(),
    }
}
