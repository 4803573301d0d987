//! Runs workloads on a drive in virtual time: the host side of a simulation.
//!
//! Each job of a flow has a queue pair of its own. In a closed loop a job keeps its queue
//! depth outstanding; in an open loop, and with a trace, requests come at their arrival
//! times and wait in the host when the queue is full or enough are outstanding. Time jumps from
//! one thing that happens to the next. Flows that wait for others are stages of the run
//! (`stage.rs`).

mod ageing;
mod closed_loop;
pub(crate) mod enclosure;
mod job;
mod kept;
mod keys;
mod occupancy;
mod past;
mod patience;
mod precise;
mod settling;
mod shared;
pub(crate) mod slc_start;
mod stage;
mod taped;
mod writing;

pub use crate::run_error::{MORE_ROOM, NO_GAIN, RunError};
pub(crate) use ageing::random_writes;
pub use occupancy::{Beyond, occupancy};
pub(crate) use precise::check_ends;
pub use shared::{STATES_MAX, SharedStates};

use crate::experiment::{Precondition, Settle, SlcStart, Start};
use crate::key_space::KeySpace;
use crate::observers::Observers;
use crate::recording::Tape;
use crate::saved_state::{self, StateHeader};
use crate::state_cache::StateCache;
use job::{Arrivals, Job};
use keys::Keys;
use mynah_drive_file::units::Bytes;
use mynah_model::config::{Config, Fault};
use mynah_model::io::{Brief, Completed, Control, FlowId, Queue, QueueId, Request};
use mynah_model::keys::PairCounts;
use mynah_model::policy::{BuiltIn, Identity};
use mynah_model::precondition::{Occupancy, Preconditioned};
use mynah_model::stats::{Blame, Counters};
use mynah_model::{Drive, Policies};
use mynah_result::output::PendingFile;
use mynah_result::precision::{Goal, Search};
use mynah_result::series::Series;
use mynah_result::steady::{Rounds, SteadyWindow};
use mynah_result::{Precision, Settled, Steadiness, Steady, TraceWrites, sum_of};
use mynah_result::{kind::Kind, recorder::Recorder};
use mynah_stamp::{Span, Time};
use mynah_workload::trace::Mended;
use mynah_workload::{FlowSpec, Planned, Source, When};
use patience::Patience;
use shared::{Computed, How, Preparation};
use stage::Stages;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use taped::RecordedDrive;
use writing::lies_apart;

/// Time between two looks at whether the drive will come to rest.
const REST_LOOK: Span = Span::from_secs(10);
const UNSETTLED_NOTE: &str = "the drive does not start in a steady state: some of its data are \
    written so seldom that write amplification had not settled when the search for it ended";
/// Completions between two looks at the progress callback.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Options of a run: seed, preparation of the drive, and what ends it.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Seed of the workloads (the drive has its own).
    pub seed: u64,
    /// The drive's state at the start.
    pub precondition: Precondition,
    /// What is in its pSLC cache then; `None`: what the drive has left there.
    pub slc_start: Option<SlcStart>,
    /// A saved state to start from, in place of [`RunOptions::precondition`].
    pub load_state: Option<PathBuf>,
    /// States that this run shares with others that prepare such drives, if any.
    pub shared: Option<SharedStates>,
    /// Where drives that were made ready are kept, if anywhere; by default where
    /// [`StateCache::use_everywhere`] has said.
    pub states: Option<StateCache>,
    /// How long the drive settles before the run, when it starts from a steady state
    /// ([`Runner::settled`]).
    pub settle: Settle,
    /// Simulated time before measurements begin.
    pub ramp_time: Span,
    /// Ends the run when it is steady by SNIA's rule, in rounds of this length. The results
    /// are those of the last five rounds.
    pub until_steady: Option<Span>,
    /// How precisely figures are to be known when the flows end that say `runtime = "auto"`.
    pub precision: Goal,
    /// Ends the run at this simulated time whatever the flows want.
    pub stop_at: Option<Time>,
    /// Runs only the flow with this index, on a drive that was prepared for all of them.
    pub only: Option<usize>,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: 1,
            precondition: Precondition::Steady,
            slc_start: None,
            load_state: None,
            shared: None,
            states: StateCache::of_process(),
            settle: Settle::Auto,
            ramp_time: Span::ZERO,
            until_steady: None,
            precision: Goal::default(),
            stop_at: None,
            only: None,
        }
    }
}

impl RunOptions {
    /// How the drive is prepared.
    pub fn start(&self) -> Start {
        Start { precondition: self.precondition, slc: self.slc_start }
    }

    /// Sets that.
    pub fn set_start(&mut self, start: Start) {
        (self.precondition, self.slc_start) = (start.precondition, start.slc);
    }

    /// What preconditioning assumes beyond the ranges that flows occupy. Without settling, and with
    /// `fill`, there is nothing beyond them.
    pub fn beyond(&self) -> Beyond {
        match self.precondition == Precondition::Fill || self.starts_as_said() {
            true => Beyond::Nothing,
            false => Beyond::Written,
        }
    }

    /// For one of many runs that are all different: what is large is not kept for the next.
    pub fn keep_little(&mut self) {
        self.states = self.states.take().map(StateCache::of_many);
    }

    /// Where there may be a state that another drive was prepared into; none have pairs.
    fn prepared_by_others(&self, has_pairs: bool) -> (Option<&SharedStates>, Option<&StateCache>) {
        match has_pairs {
            true => (None, None),
            false => (self.shared.as_ref(), self.states.as_ref()),
        }
    }

    /// Whether nothing is to happen before the run.
    fn starts_as_said(&self) -> bool {
        self.settle == Settle::Off && self.only.is_none()
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// 0 to 1, by requests, bytes or time, whichever flow is furthest behind.
    pub done: f64,
    /// The drive's clock.
    pub now: Time,
    /// Requests completed so far.
    pub completed: u64,
}

/// What happens to a drive before a run.
#[derive(Clone, Copy, Debug)]
pub enum Before {
    /// It is written, without time.
    Writing(Writing),
    /// It settles under the load.
    Settling(Progress),
}

/// What a run of several drives is at.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    /// One of them is made ready.
    Before(Before),
    /// All drives run.
    Running(Progress),
}

/// How far a drive has been written, and how much that takes at most.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// Fraction that has been written, 0 to 1.
    pub done: f64,
    /// How often what is occupied is to be written over.
    pub turns: f64,
    /// Bytes of the flash that are programmed for it at most.
    pub programmed_max: u64,
}

/// The measurements of a run.
pub struct Outcome {
    /// Latencies and their stages, by flow and kind of command.
    pub recorder: Recorder,
    /// The drive's counters when the measured interval began.
    pub counters_before: Counters,
    /// The drive's counters when it ended.
    pub counters: Counters,
    /// Who had delayed whom when it began.
    pub blame_before: Vec<Blame>,
    /// How the steady state was searched for, if it was.
    pub steady: Option<Steady>,
    /// Whether what was measured is of a drive at rest; `None` if nothing was turned over.
    pub steadiness: Option<Steadiness>,
    /// How the drive settled before, if it did.
    pub settled: Option<Settled>,
    /// What preconditioning took each trace to write.
    pub trace_writes: Vec<TraceWrites>,
    /// How precisely it is known, if the run was to last until it is.
    pub precision: Option<Precision>,
    /// Policies that were not the drive's own.
    pub own_policies: Option<Identity>,
    /// Why the drive has stopped: it is busy for ever, and completes nothing.
    pub stopped: Option<RunError>,
    /// Who had delayed whom when it ended.
    pub blame: Vec<Blame>,
    /// What there is in key-value namespaces at the end, if flows used any.
    pub key_value: Option<KeysLeft>,
    /// What preconditioning found.
    pub preconditioned: Option<Preconditioned>,
    /// Simulated time at the end.
    pub end: Time,
    /// Trace addresses that were folded into the namespace.
    pub remapped: u64,
    /// Remarks about the run that a user should see.
    pub notes: Vec<String>,
    /// What it looked like over time, if that was asked for.
    pub series: Option<Series>,
    /// Ended by the progress callback.
    pub interrupted: bool,
    /// A power cut ended the run: commands that were never answered.
    pub unanswered: Option<u64>,
    /// It ended before the ramp did: what was measured is the ramp.
    pub in_ramp: bool,
    /// Why the drive's state could not be saved at the end, if it was to be.
    pub unsaved: Option<RunError>,
}

impl Outcome {
    /// The outcome of several drives: without counters, which belong to single drives.
    fn of_many(
        recorder: Recorder,
        blame_before: Vec<Blame>,
        blame: Vec<Blame>,
        end: Time,
        interrupted: bool,
    ) -> Outcome {
        Outcome {
            recorder,
            counters_before: Counters::default(),
            counters: Counters::default(),
            blame_before,
            steady: None,
            steadiness: None,
            settled: None,
            trace_writes: vec![],
            precision: None,
            own_policies: None,
            stopped: None,
            blame,
            key_value: None,
            preconditioned: None,
            end,
            remapped: 0,
            notes: vec![],
            series: None,
            interrupted,
            unanswered: None,
            in_ramp: false,
            unsaved: None,
        }
    }
}

/// What the flows of a run leave in key-value namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysLeft {
    /// Pairs, and what they take, of all namespaces together.
    pub counts: PairCounts,
    /// Bytes of all keys and values.
    pub live_bytes: u64,
    /// Commands that found no key, in the measurement.
    pub misses: u64,
}

struct Pending {
    request: Request,
    created: Time,
}

/// Why a run has ended.
struct Ending {
    interrupted: bool,
    unanswered: Option<u64>,
    /// A search for the steady state has found it, or given up.
    steady: bool,
    stopped: Option<RunError>,
}

/// A run of flows on one drive, in virtual time.
pub struct Runner<P: Policies = BuiltIn> {
    drive: RecordedDrive<P>,
    seed: u64,
    specs: Vec<FlowSpec>,
    stages: Stages,
    jobs: Vec<Job>,
    pending: Vec<Pending>,
    free: Vec<u32>,
    /// What flows of key-value commands know, if there are any.
    keys: Option<Box<Keys>>,
    /// Keys that a saved state has and no flow uses.
    other_keys: Vec<KeySpace>,
    /// Next arrivals of open loops and traces.
    arrivals: Arrivals,
    recorder: Recorder,
    observers: Option<Box<Observers>>,
    /// [`Time::MAX`] when there is no ramp, or no more.
    ramp_until: Time,
    /// A stage was over before its ramp was.
    ended_in_ramp: bool,
    /// When the power fails, so that a step does not pass over the time without it.
    power_cut: Time,
    /// Detects that nothing is completed any more.
    patience: Patience,
    /// End of the longest runtime: the load lasts until then, though nothing more is issued.
    lasts_until: Time,
    /// A step does not pass over this time: the power cut, the end of the ramp or of the load, or
    /// when somebody wants to look.
    horizon: Time,
    stop_at: Option<Time>,
    preconditioned: Option<Preconditioned>,
    /// The random writes that preconditioning was computed for, if not the flows' own.
    aged_by: Option<Vec<FlowSpec>>,
    trace_writes: Vec<TraceWrites>,
    settle: Settle,
    /// What is in the pSLC cache when the run begins, if that is said.
    slc_start: Option<SlcStart>,
    settled: Option<Settled>,
    /// Before the run requests were performed on the drive without time, or collections ended.
    readied: bool,
    /// The drive is to be written before anything else.
    to_be_written: bool,
    occupancy: Vec<Occupancy>,
    /// Preconditioning took more than ranges to describe.
    scattered: bool,
    rounds: Option<Box<Rounds>>,
    /// Decides when flows with `runtime = "auto"` end.
    search: Option<Box<Search>>,
    save: Option<(PendingFile, String)>,
    notes: Vec<String>,
    completed: u64,
    /// The drive fetches commands without an output for each. Not while a recording is made, which
    /// takes every input of the drive, nor when the run may end at any output.
    drive_fetches: bool,
    /// The data cache has to be warmed first with accesses of the flows before the run.
    warms_cache: bool,
    /// Accesses that have warmed the data cache.
    warmed: u64,
    /// Where the drive is to be kept once it is ready.
    keep: Option<kept::Place>,
    computed: Computed,
    /// The drive was kept when it was ready: nothing is left to do before the run.
    is_ready: bool,
}

/// What is said of a drive that starts aged.
const AGED_NOTE: &str = "the drive starts as random writes all over it leave it in the long run, \
                         whatever this run writes (precondition: steady:random)";

/// Checks what is asked of a run as a whole.
fn check_whole(flows: &[FlowSpec], options: &RunOptions) -> Result<(), RunError> {
    if options.until_steady.is_some()
        && let Some(flow) = flows.iter().skip(1).find(|flow| flow.after_previous)
    {
        return Err(RunError::SteadyInStages(flow.name.clone()));
    }
    check_ends(flows, options)
}

/// Says so where what flows write of a namespace is known of some, and not of others.
fn note_of_shares(flows: &[FlowSpec]) -> Option<String> {
    let writers = || flows.iter().filter(|flow| flow.modifies());
    let rated = |flow: &&FlowSpec| flow.sectors_written_per_s().is_some();
    let one = writers().filter(rated).find_map(|rated_one| {
        let beside = |other: &&FlowSpec| other.namespace == rated_one.namespace;
        writers().filter(|other| !rated(other)).find(beside)
    })?;
    Some(format!(
        "how much {} writes is not known before the run: the drive starts as if it wrote as much as \
         the flows beside it (rate_iops says it)",
        one.name
    ))
}

/// How many placement handles the namespace of a flow has, on a drive with data placement.
fn placement_handles(config: &Config, flow: &FlowSpec) -> Option<usize> {
    let placement = config.data_placement?;
    let namespace = config.namespaces.get((flow.namespace.0 as usize).wrapping_sub(1))?;
    Some(match namespace.handles.len() {
        0 => usize::from(placement.handles),
        count => count,
    })
}

/// The flows with the ramp and the placement handles of a run.
fn as_run(
    config: &Config,
    flows: &[FlowSpec],
    options: &RunOptions,
) -> Result<Vec<FlowSpec>, RunError> {
    let each = |flow: &FlowSpec| {
        flow.with_ramp(options.ramp_time).with_handles(placement_handles(config, flow))
    };
    Ok(flows.iter().map(each).collect::<Result<_, _>>()?)
}

impl Runner {
    /// Builds and preconditions the drive, and puts the flows in front of it.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn new(
        config: Config,
        flows: &[FlowSpec],
        options: &RunOptions,
    ) -> Result<Runner, RunError> {
        let flows = &as_run(&config, flows, options)?[..];
        slc_start::check(&config, options.slc_start)?;
        let keep = kept::Place::of(&config, flows, options);
        if let Some(kept) = keep.as_ref().and_then(|place| place.find(&config)) {
            check_whole(flows, options)?;
            return kept.into_runner(flows, options);
        }
        let mut runner = Runner::prepared(Drive::new(config)?, flows, options)?;
        runner.keep = keep;
        Ok(runner)
    }
}

impl<P: Policies> Runner<P> {
    /// [`Runner::new`], of a drive that decides by `policies`. What is kept for other runs it neither
    /// takes nor adds to.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn deciding(
        config: Config,
        flows: &[FlowSpec],
        options: &RunOptions,
        policies: P,
    ) -> Result<Runner<P>, RunError> {
        let flows = &as_run(&config, flows, options)?[..];
        slc_start::check(&config, options.slc_start)?;
        let options = RunOptions { states: None, shared: None, ..options.clone() };
        Runner::prepared(Drive::with_policies(config, policies)?, flows, &options)
    }

    fn prepared(
        mut drive: Drive<P>,
        flows: &[FlowSpec],
        options: &RunOptions,
    ) -> Result<Runner<P>, RunError> {
        let unit_sectors = drive.config().mapping.unit_bytes / 512;
        check_queues(drive.config(), flows)?;
        check_whole(flows, options)?;
        let mut keys = Keys::new(&drive, flows, options.precondition)?;
        let mut other_keys = vec![];
        let mut notes = vec![];
        let precondition = match &options.load_state {
            None => options.precondition,
            Some(path) => {
                let (StateHeader { after, .. }, saved) =
                    saved_state::load_with_keys(&mut drive, path)?;
                other_keys = saved;
                if let Some(keys) = &mut keys {
                    keys.take(&drive, flows, &mut other_keys)?;
                }
                notes.push(format!("started from the state in {}, saved {after}", path.display()));
                Precondition::None
            }
        };
        let aged_by = (precondition == Precondition::SteadyRandom)
            .then(|| random_writes(drive.config(), flows));
        let occupancy = match precondition {
            Precondition::None => vec![],
            _ => {
                let flows = aged_by.as_deref().unwrap_or(flows);
                occupancy(&drive, flows, unit_sectors, options.beyond())?
            }
        };
        let (heats, trace_writes) = match precondition {
            Precondition::Steady => occupancy::heats(&drive, flows, unit_sectors, options.seed)?,
            _ => (vec![], vec![]),
        };
        notes.extend(trace_writes.iter().map(TraceWrites::note));
        match precondition {
            Precondition::Steady => notes.extend(note_of_shares(flows)),
            Precondition::SteadyRandom => notes.push(AGED_NOTE.to_owned()),
            Precondition::None | Precondition::Fill => {}
        }
        if let Some(keys) = keys.as_mut().filter(|_| precondition != Precondition::None) {
            keys.fill(&mut drive, flows)?;
        }
        let mut to_be_written = precondition == Precondition::Steady
            && !options.starts_as_said()
            && writing::is_needed(&drive, flows);
        let how = match precondition {
            Precondition::None => None,
            _ if occupancy.is_empty() && keys.is_some() => None,
            Precondition::Fill => Some(How::Fill),
            Precondition::Steady if to_be_written && lies_apart(&drive, &occupancy, &heats) => {
                Some(How::FillToBeWritten)
            }
            Precondition::Steady | Precondition::SteadyRandom => Some(How::Steady),
        };
        let preparation = how.map(|how| Preparation { how, occupancy: &occupancy, heats: &heats });
        let from = options.prepared_by_others(keys.is_some());
        let prepare = |how: &_| shared::prepare(from, &mut drive, how);
        let (preconditioned, computed) = preparation.as_ref().map(prepare).transpose()?.unzip();
        to_be_written |= precondition.is_steady() && !options.starts_as_said() && {
            let flows = aged_by.as_deref().unwrap_or(flows);
            writing::fills_dynamic_slc(&drive, flows, preconditioned.as_ref())
        };
        if preconditioned.as_ref().is_some_and(|found| !found.settled) {
            notes.push(UNSETTLED_NOTE.to_owned());
        }
        let queues: u64 = flows.iter().map(|flow| u64::from(flow.jobs)).sum();
        if queues > 65_535 {
            return Err(RunError::TooManyQueues(queues));
        }
        let mut runner = Runner::on(drive, flows, options, When::Run)?;
        runner.keys = keys;
        runner.other_keys = other_keys;
        runner.preconditioned = preconditioned;
        runner.occupancy = occupancy;
        runner.scattered = !heats.is_empty();
        runner.notes = notes;
        runner.warms_cache = precondition.is_steady();
        runner.aged_by = aged_by;
        runner.trace_writes = trace_writes;
        runner.to_be_written = to_be_written;
        if precondition.is_steady() {
            runner.expects(None);
        }
        runner.slc_start = options.slc_start.filter(|_| options.load_state.is_none());
        runner.settle = options.settle;
        runner.computed = computed.unwrap_or_default();
        Ok(runner)
    }

    /// Sets the write amplification that was computed for the steady state that the drive starts
    /// from.
    fn expects(&mut self, waf: Option<f64>) {
        if let Some(found) = &mut self.preconditioned {
            found.expected_waf = waf.or(found.expected_waf);
        }
        let expected = self.expected_waf();
        if let Some(search) = &mut self.search {
            search.starts_steady(expected);
        }
    }

    /// Puts flows in front of a prepared drive, and creates their jobs.
    fn on(
        drive: Drive<P>,
        flows: &[FlowSpec],
        options: &RunOptions,
        when: When,
    ) -> Result<Runner<P>, RunError> {
        let config = drive.config();
        let entries = config.queues.entries;
        let power_cut = config.faults.iter().filter_map(|fault| match fault {
            Fault::PowerCut { at, .. } => Some(*at),
            _ => None,
        });
        let power_cut = power_cut.min().unwrap_or(Time::MAX);
        let patience = Patience::new(config);
        let mut runner = Runner {
            drive: RecordedDrive::new(drive, options.seed),
            seed: options.seed,
            stages: Stages::new(flows, options),
            specs: flows.to_vec(),
            jobs: Vec::new(),
            pending: Vec::new(),
            free: Vec::new(),
            keys: None,
            other_keys: vec![],
            arrivals: BinaryHeap::new(),
            recorder: Recorder::new(flows.iter().map(|flow| flow.name.clone()).collect()),
            observers: None,
            ramp_until: match options.ramp_time {
                Span::ZERO => Time::MAX,
                ramp => Time::ZERO + ramp,
            },
            ended_in_ramp: false,
            power_cut,
            patience,
            lasts_until: Time::ZERO,
            horizon: power_cut,
            stop_at: options.stop_at,
            preconditioned: None,
            aged_by: None,
            trace_writes: vec![],
            settle: Settle::Off,
            slc_start: None,
            settled: None,
            readied: false,
            to_be_written: false,
            occupancy: vec![],
            scattered: false,
            rounds: options
                .until_steady
                .map(|every| Box::new(Rounds::new(every, Time::ZERO + options.ramp_time))),
            search: precise::search(flows, options).map(Box::new),
            save: None,
            notes: vec![],
            completed: 0,
            drive_fetches: options.stop_at.is_none(),
            warms_cache: false,
            warmed: 0,
            keep: None,
            computed: Computed::ForItself,
            is_ready: false,
        };
        runner.set_horizon();
        for (index, flow) in flows.iter().enumerate() {
            if options.only.is_some_and(|only| only != index) {
                continue;
            }
            let capacity = runner.drive.namespace_sectors(flow.namespace).unwrap_or(0);
            for number in 0..flow.jobs {
                let seed = options.seed;
                let generator = flow.generator_when(when, capacity, seed, index as u32, number)?;
                let place = runner.jobs.len() as u16;
                runner.jobs.push(Job::new(place, index as u32, flow, generator, entries));
            }
        }
        Ok(runner)
    }

    /// The prepared drive, and the jobs in front of it.
    fn into_drive_and_jobs(mut self) -> Result<(Drive<P>, Vec<Job>), RunError> {
        self.warm_cache()?;
        Ok((self.drive.into_drive(), self.jobs))
    }

    /// Adds the outputs that are written during the run.
    pub(crate) fn observe(&mut self, observers: Observers) {
        self.observers = Some(Box::new(observers));
        self.set_horizon();
    }

    /// The drive, for those who prepare to watch it.
    pub(crate) fn drive_mut(&mut self) -> &mut Drive<P> {
        &mut self.drive
    }

    /// Saves the drive's state, called `name`, to `file` when the run is over.
    pub fn save_state(&mut self, file: PendingFile, name: String) {
        self.save = Some((file, name));
    }

    /// Waits for all commands and collections to end. Dirty data stays in the cache.
    fn bring_to_rest(&mut self) -> Result<(), RunError> {
        self.drain()?;
        self.drive.control(self.drive.now(), Control::Reset)?;
        Ok(())
    }

    /// Advances until nothing more happens, and asks for nothing new. What is to come much later,
    /// a fault, is not waited for.
    fn drain(&mut self) -> Result<(), RunError> {
        self.advance_until(Drive::is_at_rest)
    }

    /// The same until the drive has `rested`.
    fn advance_until(&mut self, rested: impl Fn(&Drive<P>) -> bool) -> Result<(), RunError> {
        let before = self.drive.pages_programmed();
        let mut until = self.drive.now() + REST_LOOK;
        // A power cut that is still to come would be next.
        while self.power_cut == Time::MAX || !rested(&self.drive) {
            while let Some(output) = self.drive.poll_brief() {
                if let Brief::Complete(completed) = output {
                    let queue = self.drive.completion(completed).queue;
                    self.drive.free(queue)?;
                } else if let Brief::Fetch { queue } = output {
                    self.fetch(queue)?;
                } else if let Brief::Decide { tag, .. } = output {
                    self.decide(tag)?;
                }
            }
            // What an SLC cache does when nobody comes is not waited for, unless somebody asks for it.
            if self.drive.folds_in_idle_time() && rested(&self.drive) {
                break;
            }
            match self.drive.next_at() {
                Some(at) if at <= until => self.drive.advance(at),
                Some(_) if !rested(&self.drive) => {
                    let programmed = self.drive.pages_programmed() - before;
                    if programmed > self.drive.tidying_pages_max() {
                        let pages = self.drive.config().geometry.pages();
                        return Err(RunError::NeverAtRest { programmed, pages });
                    }
                    until += REST_LOOK;
                }
                _ => break,
            }
        }
        // The last doorbell crosses the link.
        let crossed = self.drive.now() + Span::from_us(1);
        self.drive.advance(crossed);
        Ok(())
    }

    fn set_horizon(&mut self) {
        let next = self.observers.as_ref().map_or(Time::MAX, |observers| observers.next());
        // Rounds begin when the ramp is over.
        let rounds = self.rounds.as_ref().filter(|_| self.ramp_until == Time::MAX);
        let round = rounds.map_or(Time::MAX, |rounds| rounds.next());
        let batch = self.search.as_ref().map_or(Time::MAX, |search| search.next());
        let lasts_until = match self.lasts_until {
            until if until > self.drive.now() => until,
            _ => Time::MAX,
        };
        self.horizon = [next, round, batch, lasts_until, self.ramp_until, self.patience.until]
            .into_iter()
            .fold(self.power_cut, Time::min);
    }

    /// Until when each flow's load went on, as far as that is not its last completion.
    fn offered(&self) -> Vec<(usize, Time)> {
        let now = self.drive.now();
        let until = |job: &Job| match job.is_done() {
            true => job.ended_by_runtime().map(|at| at.min(now)),
            false => Some(now),
        };
        let begun = |job: &&Job| self.stages.of(job.flow) <= self.stages.current();
        let jobs = self.jobs.iter().filter(begun);
        jobs.filter_map(|job| Some((job.flow as usize, until(job)?))).collect()
    }

    /// Called when the drive's clock has reached the horizon, or passed it after a power cut; true
    /// if a search for the steady state has ended.
    #[cold]
    #[inline(never)]
    fn reach_horizon(&mut self) -> Result<bool, RunError> {
        if self.drive.now() >= self.patience.until {
            let outstanding = self.jobs.iter().map(|job| u64::from(job.outstanding)).sum();
            let programmed = self.drive.pages_programmed();
            self.patience.look(self.drive.now(), self.completed, outstanding, programmed)?;
        }
        if self.drive.now() >= self.ramp_until {
            self.end_ramp(self.drive.now())?;
        }
        if let Some(observers) = &mut self.observers {
            observers.reached(&mut self.drive)?;
        }
        if self.search.as_ref().is_some_and(|search| search.next() <= self.drive.now()) {
            self.end_batch()?;
        }
        let mut steady = false;
        let expected = self.expected_waf();
        let offered = match self.rounds {
            Some(_) => self.offered(),
            None => Vec::new(),
        };
        if let Some(rounds) = &mut self.rounds
            && self.ramp_until == Time::MAX
            && rounds.next() <= self.drive.now()
        {
            offered.iter().for_each(|&(flow, at)| self.recorder.offered_until(flow, at));
            self.recorder.lasted_until(self.drive.now());
            steady = rounds.close(&mut self.recorder, &self.drive, expected);
        }
        self.set_horizon();
        Ok(steady)
    }

    /// Writes every input and completion of the drive to `tape`.
    pub fn record(&mut self, tape: Tape) {
        self.drive.tape = Some(Box::new(tape));
        self.drive_fetches = false;
    }

    /// What preconditioning found.
    pub fn preconditioned(&self) -> Option<&Preconditioned> {
        self.preconditioned.as_ref()
    }

    /// The write amplification that was computed for what the run writes. What random writes
    /// before it amount to says nothing of it.
    pub(crate) fn expected_waf(&self) -> Option<f64> {
        // Of flows that write one after the other none is alone what the run is of.
        let writes = |later: bool| {
            self.specs.iter().any(|flow| flow.after_previous == later && flow.modifies())
        };
        let in_turn = writes(false) && writes(true);
        let found = self.preconditioned.as_ref();
        let found = found.filter(|_| self.aged_by.is_none() && !in_turn);
        found.and_then(|found| found.expected_waf)
    }

    /// What preconditioning assumed to be on the drive; empty without preconditioning.
    pub fn occupancy(&self) -> &[Occupancy] {
        &self.occupancy
    }

    /// Whether the drive has settled.
    pub(crate) fn has_settled(&self) -> bool {
        self.settled.is_some() || self.readied
    }

    /// Whether what preconditioning assumed takes more than [`Runner::occupancy`] to describe.
    pub(crate) fn is_scattered(&self) -> bool {
        self.scattered
    }

    /// Remarks for the user, so far.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Read access to the drive.
    pub fn drive(&self) -> &Drive<P> {
        &self.drive
    }

    /// Runs to the end. `progress` is called now and then; if it returns false the run ends
    /// with what has been measured.
    ///
    /// # Errors
    /// See [`RunError`].
    #[inline(never)]
    pub fn run(mut self, mut progress: impl FnMut(Progress) -> bool) -> Result<Outcome, RunError> {
        self.start()?;
        let mut interrupted = false;
        let mut next_progress = PROGRESS_EVERY;
        let mut unanswered = None;
        let mut steady = false;
        let mut stopped = None;
        loop {
            if !self.advance() {
                match self.next_stage()? {
                    true => continue,
                    false => break,
                }
            }
            self.check_policies()?;
            let now = self.drive.now();
            if self.stop_at.is_some_and(|at| now >= at) {
                break;
            }
            self.react()?;
            self.take_arrivals(now)?;
            if now >= self.horizon {
                if now >= self.patience.until {
                    // Who wants to end the run may do so though nothing is completed.
                    next_progress = self.completed;
                }
                match self.reach_horizon() {
                    Ok(true) => {
                        steady = true;
                        break;
                    }
                    Ok(false) => {}
                    Err(error @ RunError::NeverDone { .. }) => {
                        stopped = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.completed >= next_progress {
                next_progress = self.completed + PROGRESS_EVERY;
                if now > Time::from_ps(u64::MAX / 2) {
                    return Err(RunError::TooLong(now));
                }
                if !progress(self.progress(now)) {
                    interrupted = true;
                    break;
                }
            }
            // What the drive tidies up after the end of the load is no part of the run.
            if self.recorder.outstanding() == 0
                && self.arrivals.is_empty()
                && self.is_over()
                && !self.next_stage()?
            {
                break;
            }
            if self.drive.has_lost_power() {
                unanswered = Some(self.jobs.iter().map(|job| u64::from(job.outstanding)).sum());
                break;
            }
        }
        self.finish(Ending { interrupted, unanswered, steady, stopped })
    }

    /// # Errors
    /// If a policy that is not the drive's own has chosen what cannot be chosen.
    #[inline(always)]
    fn check_policies(&self) -> Result<(), RunError> {
        match self.drive.policy_error() {
            None => Ok(()),
            Some(error) => Err(error.clone().into()),
        }
    }

    /// Goes on to the next thing that happens; false if there is none, and the load is over.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        match (self.drive.next_at(), arrival) {
            (None, None) if self.is_over() => return false,
            (_, Some(at)) => self.drive.advance(at.min(self.horizon)),
            (_, None) => self.drive.advance(self.horizon),
        }
        true
    }

    /// Submits what arrives `now`. Nothing reaches a drive without power, not even at the instant
    /// at which it fails.
    #[inline(always)]
    fn take_arrivals(&mut self, now: Time) -> Result<(), Box<RunError>> {
        while let Some(Reverse((at, job))) = self.arrivals.peek().copied()
            && at == now
            && !self.drive.has_lost_power()
        {
            self.arrivals.pop();
            self.arrive(job, at)?;
        }
        Ok(())
    }

    /// Called when nothing is outstanding or to come: whether the load is over, too.
    #[cold]
    fn is_over(&mut self) -> bool {
        let ends = self.jobs.iter().filter_map(Job::ended_by_runtime);
        self.lasts_until = ends.max().unwrap_or(Time::ZERO);
        self.set_horizon();
        self.drive.now() >= self.lasts_until
    }

    fn progress(&self, now: Time) -> Progress {
        let done = self
            .jobs
            .iter()
            .filter(|job| self.stages.of(job.flow) == self.stages.current())
            .map(|job| {
                let limits = &self.specs[job.flow as usize].limits;
                let (requests, sectors) = job.left();
                let share = |left: u64, limit: u64| 1.0 - left as f64 / limit as f64;
                let by_requests = limits.requests.map(|limit| share(requests, limit));
                let by_bytes = job.generator.sectors_limit().map(|limit| share(sectors, limit));
                let start = self.specs[job.flow as usize].schedule.start;
                let passed = now.since(self.stages.began()).as_secs_f64();
                let lasts = limits.runtime.map(|runtime| {
                    let end = Time::ZERO + start + runtime;
                    end.saturating_since(self.stages.began()).as_secs_f64()
                });
                let by_time = lasts.map(|lasts| passed / lasts.max(1e-12));
                if job.exhausted && job.outstanding == 0 {
                    return 1.0;
                }
                let known = self.search.as_ref().filter(|_| limits.auto);
                let known = known.map(|search| search.done(now, self.completed, &self.drive));
                [by_requests, by_bytes, by_time, known].into_iter().flatten().fold(0.0, f64::max)
            })
            .fold(1.0, f64::min);
        let done = self.stages.done(done.min(1.0));
        Progress { done, now, completed: self.completed }
    }

    fn finish(mut self, ending: Ending) -> Result<Outcome, RunError> {
        self.check_policies()?;
        let Ending { interrupted, unanswered, steady, stopped } = ending;
        let outstanding: u64 = self.jobs.iter().map(|job| u64::from(job.outstanding)).sum();
        let ended_early = steady
            || interrupted
            || unanswered.is_some()
            || stopped.is_some()
            || self.stop_at.is_some();
        if outstanding > 0 && !ended_early {
            return Err(RunError::Stuck(outstanding, self.drive.config().seed));
        }
        let mut mended = Mended::default();
        for job in &mut self.jobs {
            mended.add(job.generator.mended());
            if let Some(error) = job.generator.take_error() {
                return Err(error.into());
            }
        }
        let series = match self.observers.take() {
            Some(observers) => observers.finish(&mut self.drive)?,
            None => None,
        };
        let offered = self.offered();
        offered.iter().for_each(|&(flow, at)| self.recorder.offered_until(flow, at));
        self.recorder.lasted_until(self.drive.now());
        if let Some(mut tape) = self.drive.tape.take() {
            let now = self.drive.now();
            for (flow, at) in offered {
                tape.offered(now, FlowId(flow as u16), at).map_err(RunError::Recording)?;
            }
            tape.finish(now).map_err(RunError::Recording)?;
        }
        if let Some(lost) = unanswered {
            self.notes.push(power_note(&self.drive, lost));
        }
        self.notes.extend(mended.notes());
        let (counters, blame, end) = (self.drive.counters(), self.drive.blame(), self.drive.now());
        let mut turnover = self.drive.turnover();
        let expected = self.expected_waf();
        let key_value = self.keys.as_ref().and_then(|keys| {
            let counts = keys.namespaces().filter_map(|id| self.drive.pair_counts(id));
            let (live_bytes, misses) = (keys.live_bytes(), keys.misses());
            Some(KeysLeft { counts: sum_of(counts)?, live_bytes, misses })
        });
        let unsaved = match self.save.take() {
            Some((file, name)) => self.write_state(&name, end, file).err(),
            None => None,
        };
        let in_ramp = self.ended_in_ramp || self.ramp_until != Time::MAX;
        let mut recorder = self.recorder;
        let (mut counters_before, mut blame_before) = Default::default();
        let mut found = None;
        if let Some(rounds) = self.rounds.take() {
            let SteadyWindow { recorder: window, counters, blame, steady, from } =
                rounds.finish(recorder);
            (recorder, counters_before, blame_before) = (window, counters, blame);
            turnover = from.map_or(turnover.clone(), |from| turnover.since(&from));
            found = Some(steady);
        }
        let counted = [&counters_before, &counters];
        let steadiness = Steadiness::of(&self.drive, &turnover, counted, expected);
        Ok(Outcome {
            steadiness,
            settled: self.settled,
            trace_writes: self.trace_writes,
            precision: self.search.map(|search| search.finish()),
            own_policies: self.drive.policies().identity(),
            stopped,
            counters_before,
            counters,
            blame_before,
            blame,
            key_value,
            steady: found,
            end,
            recorder,
            preconditioned: self.preconditioned,
            remapped: mended.remapped,
            notes: self.notes,
            series,
            interrupted,
            unanswered,
            in_ramp,
            unsaved,
        })
    }

    /// Brings the drive to rest and saves its state; the run ended at `end`.
    fn write_state(&mut self, name: &str, end: Time, file: PendingFile) -> Result<(), RunError> {
        let after = format!("after {} requests, at {end}", self.completed);
        self.bring_to_rest()?;
        let lost = self.drive.take_lost_pairs();
        match lost.iter().filter(|pair| pair.since.is_some()).count() {
            0 => {}
            pairs => return Err(RunError::ValuesBack { pairs }),
        }
        if let Some(keys) = &mut self.keys {
            keys.stopped(&lost);
        }
        let used = self.keys.iter().flat_map(|keys| keys.spaces());
        let keys: Vec<&KeySpace> = used.chain(&self.other_keys).collect();
        saved_state::save_with_keys(&mut self.drive, name, &after, &keys, file)?;
        Ok(())
    }

    /// Creates the queues and submits what comes first.
    fn start(&mut self) -> Result<(), RunError> {
        self.warm_cache()?;
        if self.ramp_until == Time::MAX
            && let Some(rounds) = &mut self.rounds
        {
            rounds.begin(&self.drive);
        }
        if self.ramp_until == Time::MAX {
            self.begin_search();
        }
        let now = self.drive.now();
        let entries = self.drive.config().queues.entries;
        for at in 0..self.jobs.len() {
            let spec = &self.specs[self.jobs[at].flow as usize];
            let queue = Queue {
                id: self.jobs[at].queue,
                kind: self.drive.config().host_queues(spec.port),
                flow: FlowId(self.jobs[at].flow as u16),
                priority: spec.priority,
                completion_entries: entries,
            };
            self.drive.control(now, Control::CreateQueue(queue))?;
        }
        self.start_stage()
    }

    /// Submits what the jobs of the current stage begin with.
    fn start_stage(&mut self) -> Result<(), RunError> {
        for at in 0..self.jobs.len() as u32 {
            let job = &self.jobs[at as usize];
            if self.stages.of(job.flow) != self.stages.current() {
                continue;
            }
            match job.depth {
                Some(depth) => {
                    for _ in 0..depth {
                        self.submit_next(at)?;
                    }
                }
                None => self.schedule_arrival(at),
            }
        }
        Ok(())
    }

    /// Begins the next stage once all flows of this one have ended; false if there is none.
    #[cold]
    fn next_stage(&mut self) -> Result<bool, RunError> {
        let now = self.drive.now();
        if self.drive.has_lost_power() {
            return Ok(false);
        }
        let Some(ramp_until) = self.stages.next(now) else { return Ok(false) };
        self.ended_in_ramp |= self.ramp_until != Time::MAX;
        let names = self.stages.flows().map(|flow| format!("`{}`", self.specs[flow].name));
        let names = names.collect::<Vec<_>>().join(", ");
        self.notes.push(format!("at {now} all flows before had ended, and {names} began"));
        for job in &mut self.jobs {
            if self.stages.of(job.flow) != self.stages.current() {
                continue;
            }
            let spec = &mut self.specs[job.flow as usize];
            // Its time in the run may be still to come.
            spec.schedule.start = spec.schedule.start.max(now.since(Time::ZERO));
            job.begin_at(spec.schedule.start, spec);
        }
        self.ramp_until = ramp_until;
        self.start_stage()?;
        Ok(true)
    }

    /// Answers the drive's outputs of this instant.
    #[inline]
    fn react(&mut self) -> Result<(), Box<RunError>> {
        while let Some(output) = self.drive.poll_brief() {
            match output {
                Brief::Fetch { queue } => self.fetch(queue)?,
                Brief::Complete(completed) => self.complete(completed)?,
                Brief::Decide { tag, .. } => self.decide(tag)?,
                Brief::Move { .. } => {}
            }
        }
        Ok(())
    }

    /// Hands over the next command of a queue, when the drive does not read it by itself.
    #[inline(never)]
    fn fetch(&mut self, queue: QueueId) -> Result<(), Box<RunError>> {
        match self.jobs[usize::from(queue.0) - 1].submitted.pop_front() {
            Some(tag) if self.jobs[usize::from(queue.0) - 1].keys => self.fetch_key(queue, tag),
            Some(tag) => {
                let request = self.pending[tag as usize].request;
                self.drive.command(self.drive.now(), queue, request)
            }
            None => Ok(()),
        }
    }

    #[inline]
    fn complete(&mut self, completed: Completed) -> Result<(), Box<RunError>> {
        let now = self.drive.now();
        if now >= self.ramp_until {
            self.end_ramp(now)?;
        }
        let completion = self.drive.completion(completed);
        let tag = completion.tag.0;
        // Its job is found without a look at what is pending, which may have to be fetched.
        let at = u32::from(completion.queue.0) - 1;
        let job = &mut self.jobs[at as usize];
        if job.keys {
            return self.complete_key(completed);
        }
        let Pending { request, created } = &self.pending[tag as usize];
        let created = *created;
        let bytes = request.sectors * 512;
        job.outstanding -= 1;
        self.completed += 1;
        let flow = job.flow as usize;
        self.recorder.record(flow, request.operation, bytes, created, completion);
        let link = self.drive.link_spans(completed);
        if let Some(link) = link {
            self.recorder.record_link(flow, request.operation, created, completion, link);
        }
        if let Some(observers) = &mut self.observers {
            observers.completed(flow, request, created, (completion, link))?;
        }
        if self.recorder.is_slow(created, completion) {
            let what = (flow, request.operation.into(), bytes);
            explain_slow(&mut self.recorder, &mut self.drive, what, completed, created);
        }
        self.drive.seen(completed, created)?;
        self.drive.free(job.queue)?;
        // A closed loop goes on under the same tag.
        if job.depth.is_some()
            && let Some(planned) = job.draw_now(&self.drive, &mut self.arrivals)
        {
            return self.submit(at, tag, planned, now);
        }
        self.free.push(tag);
        if job.waits { self.submit_waiting(at, now) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn end_ramp(&mut self, now: Time) -> Result<(), RunError> {
        self.ramp_until = Time::MAX;
        if self.stages.current() > 0 {
            // What the stages before measured stays.
            for flow in self.stages.flows() {
                self.recorder.forget(flow, now);
                if let Some(tape) = &mut self.drive.tape {
                    tape.ramp_of(now, FlowId(flow as u16)).map_err(RunError::Recording)?;
                }
            }
            return Ok(());
        }
        if let Some(tape) = &mut self.drive.tape {
            tape.ramp_ends(now).map_err(RunError::Recording)?;
        }
        self.recorder.reset_at(now);
        if let Some(observers) = &mut self.observers {
            observers.ramp_ends(&self.drive, now)?;
        }
        self.drive.restart_counters();
        if let Some(keys) = &mut self.keys {
            keys.forget_misses();
        }
        if let Some(rounds) = &mut self.rounds {
            rounds.begin(&self.drive);
        }
        self.begin_search();
        self.set_horizon();
        Ok(())
    }

    /// Issues a closed loop's next request.
    fn submit_next(&mut self, at: u32) -> Result<(), Box<RunError>> {
        match self.jobs[at as usize].draw_now(&self.drive, &mut self.arrivals) {
            Some(planned) => self.admit(at, planned, self.drive.now()),
            None => Ok(()),
        }
    }

    /// Called at the end of a closed loop's pause.
    fn resume(&mut self, at: u32) -> Result<(), Box<RunError>> {
        for _ in 0..self.jobs[at as usize].wake() {
            self.submit_next(at)?;
        }
        Ok(())
    }

    fn schedule_arrival(&mut self, at: u32) {
        if let Some(arrival) = self.jobs[at as usize].next_arrival(&self.drive) {
            self.arrivals.push(Reverse((arrival, at)));
        }
    }

    /// Called when an open loop's request arrives.
    fn arrive(&mut self, at: u32, now: Time) -> Result<(), Box<RunError>> {
        let job = &mut self.jobs[at as usize];
        if job.depth.is_some() {
            return self.resume(at);
        }
        job.arrived = now;
        if job.outstanding == job.most {
            job.waits = true;
            return Ok(());
        }
        self.submit_arrived(at)?;
        self.schedule_arrival(at);
        Ok(())
    }

    /// Submits the request of an open loop that arrived last.
    fn submit_arrived(&mut self, at: u32) -> Result<(), Box<RunError>> {
        let job = &mut self.jobs[at as usize];
        let arrived = job.arrived;
        match job.draw(&self.drive) {
            Some(planned) => self.admit(at, planned, arrived),
            None => Ok(()),
        }
    }

    /// Submits the open-loop request that waits in the host, as the queue has room. If the next one
    /// has arrived meanwhile, it waits then: however far arrivals are ahead, only one is held.
    #[inline(never)]
    fn submit_waiting(&mut self, at: u32, now: Time) -> Result<(), Box<RunError>> {
        self.submit_arrived(at)?;
        let job = &mut self.jobs[at as usize];
        match job.next_arrival(&self.drive) {
            Some(arrival) if arrival <= now => job.arrived = arrival,
            next => {
                job.waits = false;
                self.arrivals.extend(next.map(|arrival| Reverse((arrival, at))));
            }
        }
        Ok(())
    }

    /// Gives a request a tag, and submits it.
    fn admit(&mut self, at: u32, planned: Planned, created: Time) -> Result<(), Box<RunError>> {
        let tag = self.free.pop().unwrap_or(self.pending.len() as u32);
        if tag as usize == self.pending.len() {
            debug_assert!(
                self.pending.len() < self.jobs.iter().map(|job| job.most as usize).sum(),
                "a request is held that is not issued"
            );
            let request = self.jobs[at as usize].request(tag, planned);
            self.pending.push(Pending { request, created });
        }
        self.submit(at, tag, planned, created)
    }

    /// Puts a request into its submission queue, under a tag that no other has, and rings.
    #[inline(always)]
    fn submit(
        &mut self,
        at: u32,
        tag: u32,
        planned: Planned,
        created: Time,
    ) -> Result<(), Box<RunError>> {
        if planned.key.is_some() {
            return self.submit_key(at, tag, planned, created);
        }
        let now = self.issued(at);
        let job = &mut self.jobs[at as usize];
        let request = job.request(tag, planned);
        self.pending[tag as usize] = Pending { request, created };
        if self.drive_fetches {
            return self.drive.submit(now, job.queue, request);
        }
        if self.drive.config().ethernet.is_some() {
            return self.drive.command(now, job.queue, request);
        }
        job.submitted.push_back(tag);
        self.drive.ring(now, job.queue)
    }

    /// Counts a request that a job issues now, and returns the time.
    #[inline(always)]
    fn issued(&mut self, at: u32) -> Time {
        let now = self.drive.now();
        self.recorder.issued(now);
        let job = &mut self.jobs[at as usize];
        if let Some(observers) = &mut self.observers {
            observers.issued(job.flow as usize, now);
        }
        job.outstanding += 1;
        now
    }
}

/// Checks that the flows' namespaces exist, and that queues are deep enough for them.
fn check_queues(config: &Config, flows: &[FlowSpec]) -> Result<(), RunError> {
    let (count, entries) = (config.namespaces.len(), config.queues.entries);
    for flow in flows {
        let (name, namespace) = (flow.name.clone(), flow.namespace.0);
        if namespace == 0 || namespace as usize > count {
            return Err(RunError::NoSuchNamespace { flow: name, namespace, count });
        }
        if let Some(depth) = flow.depth_max().filter(|depth| *depth >= entries) {
            return Err(RunError::TooDeep { flow: name, depth, entries });
        }
        check_link(config, flow)?;
    }
    Ok(())
}

/// Whether the drive's link has the port that a flow wants, and carries its requests.
fn check_link(config: &Config, flow: &FlowSpec) -> Result<(), RunError> {
    let name = || flow.name.clone();
    let ports = config.ethernet.as_ref().map_or(0, |ethernet| ethernet.ports);
    if u32::from(flow.port) > ports {
        return Err(RunError::NoSuchPort { flow: name(), port: flow.port, ports });
    }
    let Some(ethernet) = &config.ethernet else { return Ok(()) };
    let Source::Synthetic(synthetic) = &flow.source else { return Ok(()) };
    let largest = u64::from(synthetic.block.largest().unwrap_or(0)) * 512;
    if synthetic.mix.trim < 1.0 && largest > u64::from(ethernet.max_transfer_bytes) {
        let most = Bytes(ethernet.max_transfer_bytes.into());
        return Err(RunError::TooLarge { flow: name(), bytes: Bytes(largest), most });
    }
    Ok(())
}

/// What a power cut left behind.
pub(crate) fn power_note(drive: &Drive<impl Policies>, unanswered: u64) -> String {
    let Counters { units_lost, units_lost_written, .. } = drive.counters();
    let mut note = format!(
        "the power failed at {}: {unanswered} commands were never answered, the latest data of \
         {units_lost} mapping units is lost",
        drive.now()
    );
    if units_lost > 0 {
        note += &format!(
            ": {units_lost_written} were written in this run, {} had been dirty in the cache \
             before it",
            units_lost - units_lost_written
        );
    }
    note
}

impl<P: Policies> std::fmt::Debug for Runner<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("now", &self.drive.now()).finish_non_exhaustive()
    }
}

/// Records what one of the slowest commands has waited for.
#[cold]
#[inline(never)]
fn explain_slow(
    recorder: &mut Recorder,
    drive: &mut RecordedDrive<impl Policies>,
    (flow, kind, bytes): (usize, Kind, u32),
    completed: Completed,
    created: Time,
) {
    let completion = drive.completion(completed);
    let (link, waits) = (drive.link_spans(completed), drive.long_waits());
    let least = recorder.record_slow((flow, kind, bytes), created, (completion, link), waits);
    drive.keep_long_waits(least);
}
