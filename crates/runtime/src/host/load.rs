//! The load generator: keeps I/O queues of a target busy, and measures.
//!
//! Every job is a thread with a queue of its own; the calling thread owns the controller,
//! keeps it alive, and connects anew when it is lost. Latencies are those that the job sees:
//! from giving a command to its queue to having its answer, and from the I/O's creation,
//! which at a given rate is the moment at which it was meant to be issued.

mod access;
mod blocks;
mod draw;
mod gate;
mod job;
mod keys;
mod link;
mod outcome;
mod plans;
mod stages;
mod stamp;
mod tally;
mod values;
mod verify;
mod work;

pub use outcome::Outcome;
pub use stages::run_all;
pub use verify::{Mismatch, Place};

use super::controller::{Controller, Options};
use super::disk::{self, DiskOptions};
use super::namespace::{KeyValueNamespace, Namespace};
use super::nbd::{Export, NbdOptions};
use super::single::Single;
use super::transport::{Remote, Source as QueueSource};
use super::vfio_user::{self, VfioUserOptions};
use super::{HostError, persist};
use crate::clock::{Clock, Rate};
use crate::cpus::Cpus;
use crate::profile::{HostProfiles, RingError};
use gate::Gate;
use job::{Job, Plan, Shared};
use link::Link;
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_workload::{FlowSpec, WorkloadError};
use outcome::End;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tally::Tally;
use work::Work;

/// How often the calling thread looks around.
const LOOK: Duration = Duration::from_millis(50);
/// The pause between attempts to connect anew, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Where a load goes, and how to get there.
#[derive(Clone, Debug)]
pub enum Where {
    /// A subsystem over TCP.
    Tcp(Box<Options>),
    /// A PCIe function over vfio-user.
    VfioUser(VfioUserOptions),
    /// A disk of this machine's kernel: a block device or a file.
    Disk(DiskOptions),
    /// An export of an NBD server.
    Nbd(NbdOptions),
}

impl Where {
    /// The error of what only a controller of NVMe can be asked.
    pub(super) fn without_controller(&self) -> HostError {
        HostError::Unusable(format!("{self} has no NVMe controller that could be asked"))
    }
}

impl std::fmt::Display for Where {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Where::Tcp(options) => {
                write!(f, "tcp://{}/{}", options.address, options.subsystem_nqn)
            }
            Where::VfioUser(options) => write!(f, "vfio-user:{}", options.folder.display()),
            Where::Disk(options) => write!(f, "{}", options.disk.path().display()),
            Where::Nbd(options) => write!(f, "{}", options.place),
        }
    }
}

/// A load, and the target that it is put on.
#[derive(Clone, Debug)]
pub struct Load {
    pub target: Where,
    /// The workload; of blocks, its namespace is the one to use.
    pub flow: FlowSpec,
    /// Flows that go through its queues beside it, and end with it: of blocks, at most 255, without a rate.
    pub beside: Vec<FlowSpec>,
    /// The namespace of a workload of keys; `None`: the only one of them.
    pub namespace: Option<u32>,
    /// Keys that the workload finds are stored before it begins.
    pub loads_keys: bool,
    /// Its place among the flows of the run, from 0.
    pub index: u32,
    pub seed: u64,
    /// Entries of each I/O queue; `None`: as many as the load needs.
    pub queue_entries: Option<u16>,
    /// Time before results are taken, which makes the flow's runtime longer.
    pub ramp: Span,
    /// Whether blocks and values carry what they are, and are checked.
    pub verify: bool,
    /// For how long a target that is not there yet is tried; zero: once.
    pub wait: Duration,
    /// For how long a lost connection is tried again.
    pub reconnect: Duration,
    /// Where the jobs may run; `None`: anywhere.
    pub cpus: Option<Cpus>,
    /// Where records of its I/Os go; `None`: they have none.
    pub profile: Option<Arc<HostProfiles>>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The controller is being connected.
    Connecting,
    /// The keys are stored that the workload finds.
    Loading {
        /// How many of them are, 0 to 1.
        done: f64,
        /// Keys that are stored in all.
        stored: u64,
    },
    Started,
    Running {
        /// How much of the load is done, 0 to 1.
        done: f64,
        completed: u64,
    },
    /// The connection is lost; another is being made.
    Reconnecting,
    Finished,
}

/// Why a load could not be put on a target.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target is not to be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The connection ended before the load began.
    #[error("{error}, while connecting to {target}")]
    Connecting {
        /// The target's address.
        target: String,
        /// Why the connection ended.
        error: HostError,
    },
    /// The flow does not fit the namespace.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A profile cannot be written.
    #[error(transparent)]
    Profile(#[from] RingError),
    /// What was asked for does not fit the target.
    #[error("{0}")]
    Unfit(String),
}

/// Puts a load on a target. `watch` is told where the run is, and ends it by returning false.
///
/// # Errors
/// If there is no target, or the load does not fit it. Connections that are lost on the way
/// are no errors.
pub fn run(load: &Load, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Outcome, LoadError> {
    match &load.target {
        Where::Tcp(options) => run_on::<Controller>(load, options, watch),
        Where::VfioUser(options) => run_on::<vfio_user::Controller>(load, options, watch),
        Where::Disk(options) => run_on::<disk::Local>(load, options, watch),
        Where::Nbd(options) => run_on::<Export>(load, options, watch),
    }
}

fn run_on<R: Remote>(
    load: &Load,
    options: &R::Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, LoadError> {
    let load = &Load { flow: load.flow.with_ramp(load.ramp), ..load.clone() };
    load.fits_kind()?;
    watch(Progress::Connecting);
    let attached = persist(load.wait, || attach::<R>(load, options));
    let (controller, space, source) = attached.map_err(|error| failed(load, error))?;
    let timeout = Span::from_ns(R::timeout(options).as_nanos() as u64);
    let facts = source.facts();
    let mut target = Attached { options, controller, space, source, asked: None };
    match space {
        Space::Blocks(namespace) => {
            let identifiers = target.placement(load, namespace.id)?;
            let load = &load.with_handles(identifiers.as_ref().map(Vec::len))?;
            let identifiers = identifiers.unwrap_or_default();
            let jobs = plans::of_blocks(load, namespace, &identifiers, facts, timeout)?;
            run_jobs(load, target, jobs, watch)
        }
        Space::Keys(namespace) => {
            run_jobs(load, target, plans::of_keys(load, namespace, facts, timeout)?, watch)
        }
    }
}

impl Load {
    /// Whether a target of this kind can have such a load.
    fn fits_kind(&self) -> Result<(), LoadError> {
        let is_nvme = matches!(self.target, Where::Tcp(_) | Where::VfioUser(_));
        if !is_nvme && self.flow.key_value().is_some() {
            return Err(LoadError::Unfit(format!(
                "{} has blocks; a workload of keys (--kv) is for NVMe's key-value namespaces",
                self.target
            )));
        }
        if !is_nvme && self.places() {
            return Err(LoadError::Unfit(format!(
                "{} has no placement handles; data placement (fdp) is NVMe's",
                self.target
            )));
        }
        Ok(())
    }

    /// Whether writes say which data they belong with.
    fn places(&self) -> bool {
        std::iter::once(&self.flow).chain(&self.beside).any(|flow| flow.data_placement.is_some())
    }

    /// The load on a namespace with so many placement handles; `None`: it has none.
    fn with_handles(&self, handles: Option<usize>) -> Result<Load, LoadError> {
        let on = |flow: &FlowSpec| flow.clone().with_handles(handles);
        let beside = self.beside.iter().map(on).collect::<Result<_, _>>()?;
        Ok(Load { flow: on(&self.flow)?, beside, ..self.clone() })
    }
}

/// Why there is no load, if this came of connecting to its target.
fn failed(load: &Load, error: HostError) -> LoadError {
    match error {
        HostError::Closed | HostError::Lost(_) => {
            LoadError::Connecting { target: load.target.to_string(), error }
        }
        other => LoadError::Host(other),
    }
}

/// A target that is connected.
struct Attached<'a, R: Remote> {
    options: &'a R::Options,
    controller: R,
    space: Space,
    source: R::Source,
    /// What was asked for placement handles.
    asked: Option<Single<R>>,
}

impl<R: Remote> Attached<'_, R> {
    /// The placement identifiers of the namespace, if the load wants to know them and it has some.
    fn placement(&mut self, load: &Load, namespace: u32) -> Result<Option<Vec<u16>>, LoadError> {
        if !load.places() {
            return Ok(None);
        }
        let id = load.flow.jobs as u16 + 1;
        let queue = Single::open(&self.controller, id, R::timeout(self.options));
        let queue = self.asked.insert(queue.map_err(|error| failed(load, error))?);
        match queue.placement_identifiers(namespace) {
            Ok(identifiers) => Ok(Some(identifiers)),
            Err(HostError::Refused { status, .. })
                if [Status::INVALID_OPCODE, Status::INVALID_FIELD, Status::FDP_DISABLED]
                    .contains(&super::without_hints(status)) =>
            {
                Ok(None)
            }
            Err(error) => Err(failed(load, error)),
        }
    }
}

/// Begins the load; false: it is not to be, since others that should begin with it cannot.
fn begin(gate: &Gate, clock: &Clock, watch: &mut dyn FnMut(Progress) -> bool) -> bool {
    let goes_on = watch(Progress::Started);
    gate.open(clock);
    goes_on
}

/// Runs one job for each plan, and waits for all of them.
fn run_jobs<R: Remote, W: Work>(
    load: &Load,
    target: Attached<'_, R>,
    plans: Vec<(Plan, W)>,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, LoadError> {
    let Attached { options, controller, space, source, asked } = target;
    let clock = Clock::start(Rate::REAL);
    let model = controller.description();
    let mut controller = Some(controller);
    let transition = source.facts().transition;
    let jobs = plans.len();
    let limits = load.flow.limits;
    let requests = plans.first().and_then(|(plan, _)| plan.requests);
    let link = Link::new(source, jobs);
    let prepares = plans.iter().any(|(_, work)| work.prepares());
    let gate = Gate::new(jobs);
    let counters: Vec<_> = (0..jobs).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut connected = Vec::new();
    for ((plan, work), counter) in plans.into_iter().zip(&counters) {
        let shared = Shared { link: &link, clock: &clock, gate: &gate };
        let of_job =
            |run: &Arc<HostProfiles>| Ok::<_, RingError>((run.job(&clock)?, Arc::clone(run)));
        let profile = load.profile.as_ref().map(of_job).transpose()?;
        let job = Job::connect(plan, work, shared, counter, profile);
        connected.push(job.map_err(|error| failed(load, error))?);
    }
    let mut interrupted = !prepares && !begin(&gate, &clock, watch);
    if interrupted {
        link.stop();
    }
    let (tally, reconnects) = std::thread::scope(|scope| {
        let jobs: Vec<_> = connected
            .into_iter()
            .map(|job| {
                let link = &link;
                scope.spawn(move || {
                    if let Some(cpus) = &load.cpus {
                        // They were there when the list was read.
                        let _ = cpus.keep_to();
                    }
                    let tally = job.run();
                    link.done();
                    tally
                })
            })
            .collect();
        let count = jobs.len() as u64;
        let mut started = !prepares;
        let mut done = |lost: bool| {
            if let Some(profiles) = &load.profile {
                profiles.look();
            }
            let completed = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
            let progress = match gate.opened() {
                _ if lost => Progress::Reconnecting,
                None => {
                    let keys = load.flow.key_value().map_or(0, |keys| keys.initial_keys());
                    let done = completed as f64 / keys.max(1) as f64;
                    Progress::Loading { done, stored: completed }
                }
                Some(_) if !started => {
                    started = true;
                    Progress::Started
                }
                Some(start) => {
                    let passed = clock.wall().saturating_since(start).as_secs_f64();
                    let runtime = limits.runtime;
                    let by_time = runtime.map_or(0.0, |runtime| passed / runtime.as_secs_f64());
                    let all = |requests: u64| completed as f64 / (requests as f64 * count as f64);
                    let by_count = requests.map_or(0.0, all);
                    Progress::Running { done: by_time.max(by_count).clamp(0.0, 1.0), completed }
                }
            };
            if !watch(progress) && !interrupted {
                interrupted = true;
                link.stop();
            }
            interrupted
        };
        let reconnects =
            supervise(load, options, &space, &mut controller, &link, &clock, &mut done);
        let mut tally = Tally::default();
        let start = gate.opened().unwrap_or_else(|| clock.wall());
        tally.start(start + load.ramp);
        for job in jobs {
            tally.merge(job.join().expect("a job ends"));
        }
        (tally, reconnects)
    });
    drop(asked);
    if let Some(controller) = controller {
        // The run is over; a controller that cannot be told notices by itself.
        let _ = controller.shutdown();
    }
    watch(Progress::Finished);
    let end = End { reconnects, jobs, interrupted, transition };
    Ok(end.outcome(load, &model, tally))
}

/// The namespace that a load is put on.
#[derive(Clone, Copy, Debug)]
enum Space {
    Blocks(Namespace),
    Keys(KeyValueNamespace),
}

impl Space {
    /// Whether it is the same namespace; how full it is does not matter.
    fn is(&self, other: &Space) -> bool {
        match (self, other) {
            (Space::Blocks(one), Space::Blocks(other)) => one == other,
            (Space::Keys(one), Space::Keys(other)) => one.is(other),
            _ => false,
        }
    }
}

/// Connects to the controller and asks for what the load needs.
fn attach<R: Remote>(
    load: &Load,
    options: &R::Options,
) -> Result<(R, Space, R::Source), HostError> {
    let mut controller = R::connect(options)?;
    let space = match load.flow.key_value() {
        Some(_) => Space::Keys(controller.keys(load.namespace)?),
        None => Space::Blocks(controller.blocks(load.flow.namespace.0)?),
    };
    controller.request_queues(load.flow.jobs as u16 + u16::from(load.places()))?;
    let source = controller.source();
    Ok((controller, space, source))
}

/// Looks after the controller until the jobs have ended; how often it was connected anew.
/// `done` is told whether the controller is lost, and says whether the run is to end.
fn supervise<R: Remote>(
    load: &Load,
    options: &R::Options,
    space: &Space,
    controller: &mut Option<R>,
    link: &Link<R::Source>,
    clock: &Clock,
    done: &mut dyn FnMut(bool) -> bool,
) -> u64 {
    // Two in a timeout, so that one may be late.
    let keep_alive = Span::from_ns(R::keep_alive_time(options).as_nanos() as u64 / 2);
    let mut last_keep_alive = clock.wall();
    let mut reconnects = 0;
    loop {
        let (working, mut lost) = link.watch(LOOK);
        if !working {
            return reconnects;
        }
        let stopped = done(false);
        if let Some(present) = controller
            && !lost
        {
            lost = present.check().is_err();
            if !lost
                && !keep_alive.is_zero()
                && clock.wall().saturating_since(last_keep_alive) >= keep_alive
            {
                lost = present.keep_alive().is_err();
                last_keep_alive = clock.wall();
            }
        }
        if !lost {
            continue;
        }
        *controller = None;
        let since = clock.wall();
        let patience = Span::from_ns(load.reconnect.as_nanos() as u64);
        let mut pause = PAUSE_MIN;
        loop {
            if stopped || done(true) || clock.wall().saturating_since(since) > patience {
                link.give_up();
                break;
            }
            match attach::<R>(load, options) {
                Ok((found, same, source)) if same.is(space) => {
                    *controller = Some(found);
                    reconnects += 1;
                    last_keep_alive = clock.wall();
                    link.connected(source);
                    break;
                }
                // Another drive under the same name: nothing can be done again there.
                Ok(_) => {
                    link.give_up();
                    break;
                }
                Err(_) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
