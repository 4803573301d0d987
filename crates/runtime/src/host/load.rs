//! The load generator: keeps I/O queues of a target busy, and measures.
//!
//! Every job is a thread with a queue of its own; the calling thread owns the controller,
//! keeps it alive, and connects anew when it is lost. Latencies are those that the job sees:
//! from giving a command to its queue to having its answer, and from the I/O's creation,
//! which at a given rate is the moment at which it was meant to be issued.

mod access;
mod job;
mod link;
mod outcome;
mod stages;
mod tally;
mod verify;

pub use outcome::Outcome;
pub use stages::run_all;
pub use verify::Mismatch;

use super::controller::{Controller, Namespace, Options};
use super::transport::{Facts, Remote, Source as QueueSource};
use super::vfio_user::{self, VfioUserOptions};
use super::{HostError, persist};
use crate::clock::{Clock, Rate};
use crate::cpus::{self, Cpus};
use job::{Job, Plan};
use link::Link;
use mynah_lab::workload::{BlockSize, Extent, FlowSpec, SECTOR_BYTES, Source, WorkloadError, heat};
use mynah_stamp::Span;
use outcome::End;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tally::Tally;
use verify::Verify;

/// The longest I/O of drawn lengths without an upper end.
const NORMAL_BYTES_MAX: u64 = 1 << 20;
/// How often the calling thread looks around.
const LOOK: Duration = Duration::from_millis(50);
/// The pause between attempts to connect anew, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Entries of a queue whose I/Os come at their times, if the target has so many.
const OPEN_ENTRIES: u32 = 1_024;
/// Queues do not have fewer entries than this unless it is asked for.
const ENTRIES_MIN: u32 = 32;
/// Looks without result before a job waits in the system: with a core to itself, and without.
const SPINS_ALONE: u32 = 20_000;
const SPINS_SHARED: u32 = 20;

/// Where a load goes, and how to get there.
#[derive(Clone, Debug)]
pub enum Where {
    /// A subsystem over TCP.
    Tcp(Box<Options>),
    /// A PCIe function over vfio-user.
    VfioUser(VfioUserOptions),
}

impl std::fmt::Display for Where {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Where::Tcp(options) => {
                write!(f, "tcp://{}/{}", options.address, options.subsystem_nqn)
            }
            Where::VfioUser(options) => write!(f, "vfio-user:{}", options.folder.display()),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where.
    pub target: Where,
    /// The workload; its namespace is the one to use.
    pub flow: FlowSpec,
    /// Its place among the flows of the run, from 0.
    pub index: u32,
    /// The seed of its streams.
    pub seed: u64,
    /// Entries of each I/O queue; `None`: as many as the load needs.
    pub queue_entries: Option<u16>,
    /// Time before results are taken, which makes the flow's runtime longer.
    pub ramp: Span,
    /// Whether blocks carry what they are, and are checked.
    pub verify: bool,
    /// A flush follows so many writes of a job; 0: none.
    pub flush_every: u64,
    /// For how long a target that is not there yet is tried; zero: once.
    pub wait: Duration,
    /// For how long a lost connection is tried again.
    pub reconnect: Duration,
    /// Where the jobs may run; `None`: anywhere.
    pub cpus: Option<Cpus>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The controller is being connected.
    Connecting,
    /// The jobs begin.
    Started,
    /// They are at work.
    Running {
        /// How much of the load is done, 0 to 1.
        done: f64,
        /// I/Os that have ended.
        completed: u64,
    },
    /// The connection is lost; another is being made.
    Reconnecting,
    /// Everything has ended.
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
        /// Where.
        target: String,
        /// How it ended.
        error: HostError,
    },
    /// The flow does not fit the namespace.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
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
    }
}

fn run_on<R: Remote>(
    load: &Load,
    options: &R::Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, LoadError> {
    let load = &Load { flow: load.flow.with_ramp(load.ramp), ..load.clone() };
    let clock = Clock::start(Rate::REAL);
    watch(Progress::Connecting);
    let failed = |error| match error {
        HostError::Closed | HostError::Lost(_) => {
            LoadError::Connecting { target: load.target.to_string(), error }
        }
        other => LoadError::Host(other),
    };
    let attached = persist(load.wait, || attach::<R>(load, options));
    let (controller, namespace, source) = attached.map_err(failed)?;
    let model = controller.model();
    let mut controller = Some(controller);
    let timeout = Span::from_ns(R::timeout(options).as_nanos() as u64);
    let transition = source.facts().transition;
    let plans = plans(load, namespace, source.facts(), timeout)?;
    let jobs = plans.len();
    let limits = load.flow.limits;
    let requests = limits.requests.or(requests_of_bytes(&load.flow, &plans));
    let link = Link::new(source, jobs);
    let counters: Vec<_> = (0..jobs).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut connected = Vec::new();
    for ((plan, verify), counter) in plans.into_iter().zip(&counters) {
        connected.push(Job::connect(plan, verify, &link, &clock, counter).map_err(failed)?);
    }
    watch(Progress::Started);
    let start = clock.wall();
    let mut interrupted = false;
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
                    let tally = job.run(start);
                    link.done();
                    tally
                })
            })
            .collect();
        let count = jobs.len() as u64;
        let mut done = |lost: bool| {
            let completed = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
            let passed = clock.wall().saturating_since(start).as_secs_f64();
            let by_time = limits.runtime.map_or(0.0, |runtime| passed / runtime.as_secs_f64());
            let by_count = requests
                .map_or(0.0, |requests| completed as f64 / (requests as f64 * count as f64));
            let done = by_time.max(by_count).clamp(0.0, 1.0);
            let progress = match lost {
                true => Progress::Reconnecting,
                false => Progress::Running { done, completed },
            };
            if !watch(progress) && !interrupted {
                interrupted = true;
                link.stop();
            }
            interrupted
        };
        let reconnects =
            supervise(load, options, &namespace, &mut controller, &link, &clock, &mut done);
        let mut tally = Tally::default();
        tally.start(start + load.ramp);
        for job in jobs {
            tally.merge(job.join().expect("a job ends"));
        }
        (tally, reconnects)
    });
    if let Some(controller) = controller {
        // The run is over; a controller that cannot be told notices by itself.
        let _ = controller.shutdown();
    }
    watch(Progress::Finished);
    let end = End { reconnects, jobs, interrupted, transition };
    Ok(end.outcome(load, &model, tally))
}

/// How many I/Os the bytes of each job come to, on average.
fn requests_of_bytes(flow: &FlowSpec, plans: &[(Plan, Option<Verify>)]) -> Option<u64> {
    let sectors = plans.first()?.0.generator.sectors_limit()?;
    let Source::Synthetic(synthetic) = &flow.source else { return None };
    Some(sectors.div_ceil(heat::mean_sectors(synthetic).max(1)))
}

/// Connects to the controller and asks for what the load needs.
fn attach<R: Remote>(
    load: &Load,
    options: &R::Options,
) -> Result<(R, Namespace, R::Source), HostError> {
    let mut controller = R::connect(options)?;
    let namespace = controller.namespace(load.flow.namespace.0)?;
    controller.request_queues(load.flow.jobs as u16)?;
    let source = controller.source();
    Ok((controller, namespace, source))
}

/// Looks after the controller until the jobs have ended; how often it was connected anew.
/// `done` is told whether the controller is lost, and says whether the run is to end.
fn supervise<R: Remote>(
    load: &Load,
    options: &R::Options,
    namespace: &Namespace,
    controller: &mut Option<R>,
    link: &Link<R::Source>,
    clock: &Clock,
    done: &mut dyn FnMut(bool) -> bool,
) -> u64 {
    // Two in a timeout, so that one may be late.
    let keep_alive = Span::from_ns(R::keep_alive_time(options).as_nanos() as u64 / 2);
    let mut heard = clock.wall();
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
            if !lost && !keep_alive.is_zero() && clock.wall().saturating_since(heard) >= keep_alive
            {
                lost = present.keep_alive().is_err();
                heard = clock.wall();
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
                Ok((found, same, source)) if same == *namespace => {
                    *controller = Some(found);
                    reconnects += 1;
                    heard = clock.wall();
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

/// What each job is to do.
fn plans(
    load: &Load,
    namespace: Namespace,
    facts: Facts,
    timeout: Span,
) -> Result<Vec<(Plan, Option<Verify>)>, LoadError> {
    let unfit = |problem: String| Err(LoadError::Unfit(problem));
    let flow = &load.flow;
    let block_bytes = 1u64 << namespace.block_shift;
    let capacity = namespace.bytes() / SECTOR_BYTES;
    let Source::Synthetic(synthetic) = &flow.source else {
        return unfit("a trace cannot be replayed on a target yet; --rw draws a workload".into());
    };
    let (alignment, bytes_max) = lengths(&synthetic.block);
    if alignment % block_bytes != 0
        || !(synthetic.align_sectors * SECTOR_BYTES).is_multiple_of(block_bytes)
    {
        return unfit(format!(
            "the namespace has blocks of {block_bytes} bytes; block sizes (--bs) and alignment \
             (--blockalign) must be multiples of that"
        ));
    }
    let most = facts.transfer_bytes_max.min(65_536 * block_bytes).min(1 << 30);
    if bytes_max > most {
        return unfit(format!(
            "the target takes at most {most} bytes in a command, and block sizes (--bs) reach \
             {bytes_max}"
        ));
    }
    let entries = entries(load, facts)?;
    let cores = match &load.cpus {
        Some(cpus) => cpus.count(),
        None => cpus::cores_to_spare(),
    };
    let spins = if (flow.jobs as usize) <= cores { SPINS_ALONE } else { SPINS_SHARED };
    let run = RandomState::new().build_hasher().finish();
    let mut plans = Vec::new();
    for job in 0..flow.jobs {
        let mut own = flow.clone();
        let mut verify = None;
        if load.verify {
            // Jobs that write the same blocks could not tell what should be there.
            let range = share(flow, capacity, block_bytes, job)?;
            if let Source::Synthetic(synthetic) = &mut own.source {
                synthetic.offset = Extent::Bytes(range.0);
                synthetic.size = Extent::Bytes(range.1);
            }
            let (base, blocks) = (range.0 / block_bytes, range.1 / block_bytes);
            let flushed = load.flush_every > 0;
            verify = Some(Verify::new(namespace.block_shift, base, blocks, run, flushed));
        }
        let generator = own.generator(capacity, load.seed, load.index, job)?;
        let plan = Plan {
            queue_id: job as u16 + 1,
            queue_entries: entries,
            namespace,
            generator,
            depth: flow.depth().map(|depth| depth as usize),
            depth_max: flow.depth_max().map_or(usize::MAX, |depth| depth as usize),
            bytes_max: bytes_max as usize,
            ramp: load.ramp,
            runtime: flow.limits.runtime,
            flush_every: load.flush_every,
            timeout,
            transition: facts.transition,
            spins,
        };
        plans.push((plan, verify));
    }
    Ok(plans)
}

/// Entries of each queue.
fn entries(load: &Load, facts: Facts) -> Result<u16, LoadError> {
    let most = facts.queue_entries_max;
    if let Some(entries) = load.queue_entries {
        return match u32::from(entries) <= most {
            true => Ok(entries),
            false => Err(LoadError::Unfit(format!(
                "queues have at most {most} entries here, and --queue-size asks for {entries}"
            ))),
        };
    }
    let Some(depth) = load.flow.depth_max() else {
        return Ok(OPEN_ENTRIES.min(most) as u16);
    };
    // One entry of a queue is always free; the last I/O may wait for it here.
    if depth > most {
        return Err(LoadError::Unfit(format!(
            "the target's queues hold at most {} commands, and --iodepth asks for {depth}; more \
             queues (--numjobs) hold more",
            most - 1
        )));
    }
    Ok((depth + 1).max(ENTRIES_MIN).min(most) as u16)
}

/// What all block sizes are multiples of, and the longest, in bytes.
fn lengths(block: &BlockSize) -> (u64, u64) {
    let bytes = |sectors: u32| u64::from(sectors) * SECTOR_BYTES;
    match block {
        BlockSize::Fixed(sectors) => (bytes(*sectors), bytes(*sectors)),
        BlockSize::Normal { .. } => (SECTOR_BYTES, NORMAL_BYTES_MAX),
        BlockSize::Range { min, max } => (bytes(*min), bytes(*max)),
        BlockSize::Split(parts) => {
            let all = || parts.iter().map(|&(sectors, _)| sectors);
            let common = all().fold(0, greatest_common_divisor);
            (bytes(common), bytes(all().max().unwrap_or(1)))
        }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The part of the flow's working set that is one job's own: offset and length in bytes.
fn share(
    flow: &FlowSpec,
    capacity_sectors: u64,
    block_bytes: u64,
    job: u32,
) -> Result<(u64, u64), LoadError> {
    let Source::Synthetic(synthetic) = &flow.source else { unreachable!("traces are refused") };
    let align = (synthetic.align_sectors * SECTOR_BYTES).max(block_bytes);
    let (offset, size) = flow.range(capacity_sectors)?;
    let (offset, size) = (offset * SECTOR_BYTES, size * SECTOR_BYTES);
    let each = size / u64::from(flow.jobs) / align * align;
    if each == 0 {
        let jobs = flow.jobs;
        return Err(LoadError::Unfit(format!(
            "with --verify every job has its own part of the working set, and {size} bytes are \
             too few for {jobs} jobs"
        )));
    }
    Ok((offset + each * u64::from(job), each))
}
