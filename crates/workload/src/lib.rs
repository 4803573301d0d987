//! What a host does to a drive: flows, and the streams of requests they stand for.
//!
//! A [`FlowSpec`] is all that a flow is. [`FlowSpec::generator`] makes the stream of one of
//! its jobs. A stream never depends on what the drive does, so a runner may draw requests
//! ahead of time; what does depend on it (how many are outstanding, when a closed loop
//! issues the next one, when `runtime` is over) is the runner's.
//!
//! Streams are reproducible: see [`seed`](mod@seed) for how a run's one seed becomes the
//! seed of each stream.

mod clock;
pub mod fio;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod generator;
pub mod heat;
pub mod history;
pub mod key_value;
mod once;
mod options;
mod placement;
mod planned;
mod profile;
pub mod quantity;
mod random;
pub mod seed;
pub mod trace;
pub mod written;
mod zones;

pub use front::{Engine, Feed, FrontCache, FrontFlow, KeyTrace, KeyTraceFormat};
pub use generator::Generator;
pub use generator::When;
pub use key_value::{KeyAction, KeyChoice, KeyMix, KeySize, KeyValueFlow, ValueSize};
pub use options::{FlowOption, FlowOptions, Kind, OptionError};
pub use placement::{By, PlacementChoice, SchemeRange, Select};
pub use planned::Planned;
pub use profile::WriteProfile;
pub use zones::Zones;

use crate::trace::{Remap, TraceAction, TraceError, TraceFormat};
use mynah_model::config::Priority;
use mynah_model::io::{NamespaceId, Operation};
use mynah_stamp::{Span, Time};
use std::path::{Path, PathBuf};

/// Bytes in a sector, the unit of the model's addresses.
pub const SECTOR_BYTES: u64 = 512;

/// A flow: one stream of requests per job, to one namespace, at one priority.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Name of the flow in results.
    pub name: String,
    /// The namespace that all its requests go to.
    pub namespace: NamespaceId,
    /// Priority class of its queues.
    pub priority: Priority,
    /// The port of an Ethernet drive that its queues use, from 1; 0: they take them in turn.
    pub port: u8,
    /// Queue pairs, each with its own stream and its own limits; at least 1.
    pub jobs: u32,
    /// Where the requests come from.
    pub source: Source,
    /// Limits of each job.
    pub limits: Limits,
    /// When it begins, and when it pauses.
    pub schedule: Schedule,
    /// It, and those after it, begin when all flows before it have ended (fio's
    /// `wait_for_previous`). `schedule` says at which time of the run at the earliest.
    pub after_previous: bool,
    /// Number of writes of each job after which a flush follows (fio's `fsync`); 0 for none.
    pub flush_every: u64,
    /// Whether writes complete only when they are on flash (Force Unit Access, fio's `sync`).
    pub write_through: bool,
    /// Which data its writes belong with, if they say that.
    pub data_placement: Option<PlacementChoice>,
    /// Takes the place of the flow's index in the derivation of its streams' seeds, so that
    /// a flow keeps its stream when flows are added before it.
    pub seed: Option<u64>,
    /// The share of the namespace (0 to 1) that preconditioning makes valid; `None`: all.
    pub occupancy: Option<f64>,
}

/// When a flow may issue requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Delay from the start of the run (fio's `startdelay`).
    pub start: Span,
    /// On and off phases, the on phase first; `None`: always on.
    pub burst: Option<Burst>,
    /// Pauses of each job; closed loops only.
    pub think: Option<Think>,
}

/// On and off phases of a flow. An open loop's arrival clock stands still in off phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How long requests are issued; not zero.
    pub on: Span,
    /// How long no requests are issued; not zero.
    pub off: Span,
}

/// Pauses of a job, as fio's `thinktime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// How long nothing is issued.
    pub time: Span,
    /// Requests between two pauses; at least 1.
    pub requests: u32,
}

impl Schedule {
    /// When the flow has been active for `active` in all.
    pub fn moment(&self, active: Time) -> Time {
        let active = active.as_ps();
        let silent = self.burst.map_or(0, |burst| {
            let turns = active / burst.on.as_ps().max(1);
            turns.saturating_mul(burst.off.as_ps())
        });
        Time::from_ps(active.saturating_add(silent).saturating_add(self.start.as_ps()))
    }

    /// The first moment from `now` on at which the flow is active.
    pub fn next_active(&self, now: Time) -> Time {
        let start = Time::ZERO + self.start;
        let Some(burst) = self.burst else { return now.max(start) };
        let now = now.max(start);
        let turn = burst.on.as_ps().saturating_add(burst.off.as_ps()).max(1);
        let into = now.since(start).as_ps() % turn;
        match into < burst.on.as_ps() {
            true => now,
            false => Time::from_ps(now.as_ps().saturating_add(turn - into)),
        }
    }
}

/// Where a flow's requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Drawn at random or in sequence.
    Synthetic(Synthetic),
    /// Replayed from a trace file.
    Trace(TraceSource),
    /// A stream of key-value commands.
    KeyValue(KeyValueFlow),
    /// What a cache of objects reads and writes.
    Front(FrontFlow),
}

/// When a job stops. The first limit that is reached counts; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Requests (fio's `number_ios`).
    pub requests: Option<u64>,
    /// Bytes transferred (fio's `io_size`).
    pub bytes: Option<Amount>,
    /// Time on the drive's clock from the flow's start. Streams with arrival times end by
    /// themselves; a closed loop's runner must stop issuing at this time.
    pub runtime: Option<Span>,
    /// Ends when the run's figures are as precise as asked for (`runtime = "auto"`), which the
    /// runner decides. Excludes the other limits.
    pub auto: bool,
}

/// Amount of data that a job issues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A number of bytes; the request that reaches it is issued whole.
    Bytes(u64),
    /// This share of the flow's working set (0 to 1), in whole blocks of the smallest size.
    WorkingSet(f64),
}

/// A flow whose requests are drawn from distributions.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Closed or open loop.
    pub mode: Mode,
    /// Shares of reads, writes and trims.
    pub mix: Mix,
    /// Where they go, within the working set.
    pub addresses: Addresses,
    /// Distribution of request sizes.
    pub block: BlockSize,
    /// Addresses are multiples of this many sectors, counted from the start of the working
    /// set, and sequential requests are this far apart at least. At least 1.
    pub align_sectors: u64,
    /// Where the working set starts in the namespace; rounded down to the alignment.
    pub offset: Extent,
    /// How long the working set is.
    pub size: Extent,
}

/// Whether requests follow completions (closed loop) or the clock (open loop).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// A new request whenever fewer than `depth` are outstanding, in each job.
    Closed {
        /// Requests outstanding; at least 1.
        depth: u32,
    },
    /// At times that do not depend on the drive.
    Open {
        /// Distribution of interarrival times.
        arrivals: Arrivals,
        /// Requests that each job has outstanding at the most, at least 1; those that arrive
        /// meanwhile wait in the host, as fio's do where its rate meets its iodepth. `None`: as
        /// many as the queue holds.
        depth: Option<u32>,
    },
}

/// When the requests of an open loop arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Evenly: request `k` of each job at exactly `k / per_second` seconds, rounded down to
    /// a picosecond.
    Fixed {
        /// Requests a second, of each job; at least 1.
        per_second: u64,
    },
    /// Evenly: request `k` of each job at exactly `k` times the interval.
    Every {
        /// Time between two requests of a job; not zero.
        interval: Span,
    },
    /// With exponentially distributed intervals, the first before the first request.
    Exponential {
        /// Mean interarrival time.
        mean: Span,
    },
}

/// What requests do: shares of requests, 0 to 1. The rest are writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Share of reads, 0 to 1.
    pub read: f64,
    /// Share of trims, 0 to 1.
    pub trim: f64,
}

impl Mix {
    pub const READ: Mix = Mix { read: 1.0, trim: 0.0 };
    pub const WRITE: Mix = Mix { read: 0.0, trim: 0.0 };
    pub const TRIM: Mix = Mix { read: 0.0, trim: 1.0 };

    /// Share of writes: what reads and trims leave.
    pub fn write(&self) -> f64 {
        (1.0 - self.read - self.trim).max(0.0)
    }
}

/// Where requests go within the working set. Random addresses are drawn among all aligned
/// places at which the smallest request fits; a longer one that would pass the end moves
/// back to the last place at which it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Addresses {
    /// Sequential, and from the start again at the end.
    Sequential {
        /// Where in the working set the first request goes.
        start: Start,
        /// Whether reads, writes and trims advance together or, as in fio, each by itself.
        positions: Positions,
    },
    /// Uniform over the working set.
    Uniform,
    /// Random without repetition until all blocks have been used; a request that meets a used block
    /// ends before it (fio's random map).
    Once,
    /// Partly sequential, partly random. Sequential requests continue where the last sequential one
    /// ended, and wrap at the end.
    Mixed {
        /// Share of random requests, 0 to 1.
        random: f64,
        /// Length of a turn in requests: the first ones of each turn are random, the others
        /// sequential. `None`: each request is random or sequential by chance.
        turn: Option<u64>,
    },
    /// Two parts, one accessed more often than the other.
    HotCold {
        /// Share of the requests that go to the hot part, 0 to 1.
        hot_access: f64,
        /// Share of the working set that is hot, from its start on, 0 to 1.
        hot_space: f64,
    },
    /// Several parts, each with its share of the requests, and uniform within each.
    Zoned(Zones),
    /// The `k`-th most popular place in proportion to `k` to the power of `-theta`. Places
    /// of neighbouring rank are scattered over the working set by a bijective hash, the
    /// same for all jobs of the flow.
    Zipf {
        /// Exponent, 0.01 to 10.
        theta: f64,
    },
}

/// Where a sequential stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the start of the working set.
    Beginning,
    /// At a random place of the working set, another for each job.
    Random,
}

/// Whether kinds of requests share one position in a mixed sequential stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// All kinds of requests advance one position.
    Shared,
    /// Reads, writes and trims each have a position.
    EachOperation,
}

/// How long requests are, in sectors.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockSize {
    /// All requests of the same size.
    Fixed(u32),
    /// Normally distributed, rounded up to a sector, at least 1, at most the working set.
    Normal {
        /// Mean in sectors.
        mean: f64,
        /// Standard deviation in sectors.
        deviation: f64,
    },
    /// Multiples of `min` from `min` to `max`, all equally often.
    Range {
        /// Shortest size.
        min: u32,
        /// Longest; a multiple of `min`.
        max: u32,
    },
    /// Lengths with their weights.
    Split(Vec<(u32, u32)>),
    /// Separate distributions for reads, writes and trims; not nested.
    Each(Box<[BlockSize; 3]>),
}

impl BlockSize {
    /// The longest that is drawn, in sectors, if there is one.
    pub fn largest(&self) -> Option<u32> {
        match self {
            BlockSize::Fixed(sectors) | BlockSize::Range { max: sectors, .. } => Some(*sectors),
            BlockSize::Normal { .. } => None,
            BlockSize::Split(parts) => parts.iter().map(|&(sectors, _)| sectors).max(),
            BlockSize::Each(each) => {
                let all = each.iter().map(BlockSize::largest);
                all.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max())
            }
        }
    }

    /// The shortest that is drawn, in sectors.
    pub fn smallest(&self) -> u32 {
        match self {
            BlockSize::Fixed(sectors) | BlockSize::Range { min: sectors, .. } => *sectors,
            BlockSize::Normal { .. } => 1,
            BlockSize::Split(parts) => parts.iter().map(|&(sectors, _)| sectors).min().unwrap_or(1),
            BlockSize::Each(each) => each.iter().map(BlockSize::smallest).min().unwrap_or(1),
        }
    }

    /// How long the requests of one kind are.
    pub fn of(&self, operation: Operation) -> &BlockSize {
        match (self, operation) {
            (BlockSize::Each(each), Operation::Read) => &each[0],
            (BlockSize::Each(each), Operation::Trim) => &each[2],
            (BlockSize::Each(each), _) => &each[1],
            (all, _) => all,
        }
    }

    /// Their mean length; of [`BlockSize::Each`] that of its writes.
    fn mean_sectors(&self) -> f64 {
        match self {
            BlockSize::Fixed(sectors) => f64::from(*sectors),
            BlockSize::Normal { mean, .. } => *mean,
            BlockSize::Range { min, max } => f64::from(*min + *max) / 2.0,
            BlockSize::Split(parts) => {
                let weights = parts.iter().map(|&(_, weight)| f64::from(weight));
                let sum: f64 = parts.iter().map(|&(s, w)| f64::from(s) * f64::from(w)).sum();
                sum / weights.sum::<f64>().max(1.0)
            }
            BlockSize::Each(each) => each[1].mean_sectors(),
        }
    }
}

/// An offset or a length within a namespace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// In bytes; a multiple of 512.
    Bytes(u64),
    /// As a share of the namespace, 0 to 1.
    Share(f64),
}

impl Extent {
    /// The whole namespace (as a length).
    pub const ALL: Extent = Extent::Share(1.0);
    /// The namespace's start (as an offset).
    pub const ZERO: Extent = Extent::Bytes(0);

    fn sectors(self, capacity_sectors: u64) -> u64 {
        match self {
            Extent::Bytes(bytes) => bytes / SECTOR_BYTES,
            Extent::Share(share) => (capacity_sectors as f64 * share) as u64,
        }
    }
}

/// A flow of recorded requests. They are issued at their arrival times.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    /// The trace's file format.
    pub format: TraceFormat,
    /// The event that counts, in formats with several events per I/O.
    pub action: TraceAction,
    /// Duration of one tick of the trace's clock.
    pub tick: Span,
    /// Replay speed relative to the recorded one; above 0.
    pub speed: f64,
    /// Replays it as fast as the drive takes it, with so many requests outstanding, in place
    /// of its times.
    pub depth: Option<u32>,
    /// Assumed distribution of its writes, for preconditioning; `None`: the trace is read for that.
    pub writes: Option<Addresses>,
    /// What happens to addresses outside the namespace.
    pub remap: Remap,
    /// The share of the file's requests that is replayed, from the start, 0 to 1.
    pub share: f64,
    /// How many times it is replayed; each replay's times count from the last request of
    /// the one before.
    pub repeat: u32,
}

impl TraceSource {
    /// All of the trace at `path`, once, as it was recorded.
    pub fn new(path: PathBuf, format: TraceFormat) -> TraceSource {
        TraceSource {
            path,
            format,
            action: TraceAction::default(),
            tick: format.tick(),
            speed: 1.0,
            depth: None,
            writes: None,
            remap: Remap::default(),
            share: 1.0,
            repeat: 1,
        }
    }

    /// Whether it can be read only once.
    pub fn is_pipe(&self) -> bool {
        self.path == Path::new("-")
    }
}

/// Why a flow has no stream, or its stream ended early.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum WorkloadError {
    /// The flow cannot run on this namespace, or contradicts itself.
    #[error("flow `{flow}`: {problem}")]
    Flow {
        /// The flow's name.
        flow: String,
        /// What is wrong, and how to mend it.
        problem: String,
    },
    /// The trace of a flow cannot be read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Trace(#[from] TraceError),
}

/// The stage of each flow, from 0: that of the flow before it, or the next one if the flow waits
/// for those before it. The flows of a stage begin when all of the stages before have ended.
pub fn stages(flows: &[FlowSpec]) -> impl Iterator<Item = usize> {
    flows.iter().enumerate().scan(0, |stage, (index, flow)| {
        *stage += usize::from(flow.after_previous && index > 0);
        Some(*stage)
    })
}

impl Source {
    /// Whether any of its requests may be a write.
    fn writes(&self) -> bool {
        match self {
            Source::Synthetic(synthetic) => synthetic.mix.write() > 0.0,
            Source::Trace(_) => true,
            Source::KeyValue(flow) => flow.mix.modifies(),
            Source::Front(_) => true,
        }
    }
}

impl FlowSpec {
    /// Whether the flow may ever write or trim.
    pub fn modifies(&self) -> bool {
        match &self.source {
            Source::Synthetic(synthetic) => synthetic.mix.read < 1.0,
            Source::Trace(_) | Source::Front(_) => true,
            Source::KeyValue(flow) => flow.mix.modifies(),
        }
    }

    /// Whether it trims, and never writes.
    pub fn trims_only(&self) -> bool {
        match &self.source {
            Source::Synthetic(synthetic) => {
                synthetic.mix.trim > 0.0 && synthetic.mix.write() <= 0.0
            }
            Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => false,
        }
    }

    /// The key-value flow, if it is one.
    pub fn key_value(&self) -> Option<&KeyValueFlow> {
        match &self.source {
            Source::KeyValue(flow) => Some(flow),
            Source::Synthetic(_) | Source::Trace(_) | Source::Front(_) => None,
        }
    }

    /// Whether it ends by itself.
    pub fn has_an_end(&self) -> bool {
        match &self.source {
            Source::Synthetic(_) => false,
            Source::Trace(_) => true,
            Source::KeyValue(flow) => flow.mix.only_stores(),
            Source::Front(flow) => flow.has_an_end(),
        }
    }

    /// Sectors that the flow writes in a second, all its jobs together; `None` if that is not said:
    /// of a closed loop it depends on the drive, and a trace and bursts are not looked into.
    pub fn sectors_written_per_s(&self) -> Option<f64> {
        let Source::Synthetic(synthetic) = &self.source else { return None };
        let Mode::Open { arrivals, .. } = synthetic.mode else { return None };
        let per_second = match arrivals {
            _ if self.schedule.burst.is_some() => return None,
            Arrivals::Fixed { per_second } => per_second as f64,
            Arrivals::Every { interval } => 1.0 / interval.as_secs_f64(),
            Arrivals::Exponential { mean } => 1.0 / mean.as_secs_f64(),
        };
        let writes = per_second * f64::from(self.jobs) * synthetic.mix.write();
        Some(writes * synthetic.block.of(Operation::Write).mean_sectors().round().max(1.0))
    }

    /// How many requests each job keeps outstanding, or `None` for an open loop.
    pub fn depth(&self) -> Option<u32> {
        match &self.source {
            Source::Synthetic(Synthetic { mode: Mode::Closed { depth }, .. })
            | Source::KeyValue(KeyValueFlow { mode: Mode::Closed { depth }, .. }) => Some(*depth),
            Source::Front(front) => match front.mode() {
                Some(Mode::Closed { depth }) => Some(depth),
                _ => None,
            },
            Source::Synthetic(_) | Source::KeyValue(_) => None,
            Source::Trace(trace) => trace.depth,
        }
    }

    /// How many requests each job has outstanding at the most, if the flow bounds that: a
    /// closed loop's depth, or an open loop's.
    pub fn depth_max(&self) -> Option<u32> {
        match &self.source {
            Source::Synthetic(Synthetic { mode: Mode::Open { depth, .. }, .. })
            | Source::KeyValue(KeyValueFlow { mode: Mode::Open { depth, .. }, .. }) => *depth,
            Source::Front(front) => match front.mode() {
                Some(Mode::Closed { depth }) => Some(depth),
                Some(Mode::Open { depth, .. }) => depth,
                None => None,
            },
            _ => self.depth(),
        }
    }

    /// Lets each job have `most` requests outstanding at the most, if it would have more.
    pub fn limit_depth(&mut self, most: u32) {
        match &mut self.source {
            Source::Synthetic(Synthetic { mode, .. })
            | Source::KeyValue(KeyValueFlow { mode, .. }) => match mode {
                Mode::Closed { depth } | Mode::Open { depth: Some(depth), .. } => {
                    *depth = most.min(*depth);
                }
                Mode::Open { depth: None, .. } => {}
            },
            Source::Trace(trace) => trace.depth = trace.depth.map(|depth| depth.min(most)),
            Source::Front(front) => front.limit_depth(most),
        }
    }

    /// The sectors that the flow works on in a namespace of `capacity_sectors`: the first
    /// and how many. All of them if a trace says where it goes.
    ///
    /// # Errors
    /// If they are none, or not all in the namespace.
    pub fn range(&self, capacity_sectors: u64) -> Result<(u64, u64), WorkloadError> {
        match &self.source {
            Source::Synthetic(synthetic) => self.working_set(synthetic, capacity_sectors),
            Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => Ok((0, capacity_sectors)),
        }
    }

    fn error(&self, problem: impl Into<String>) -> WorkloadError {
        WorkloadError::Flow { flow: self.name.clone(), problem: problem.into() }
    }

    /// The working set on a namespace of `capacity_sectors`: first sector and length.
    fn working_set(
        &self,
        synthetic: &Synthetic,
        capacity_sectors: u64,
    ) -> Result<(u64, u64), WorkloadError> {
        for (what, extent) in [("offset", synthetic.offset), ("size", synthetic.size)] {
            match extent {
                Extent::Bytes(bytes) if !bytes.is_multiple_of(SECTOR_BYTES) => {
                    return Err(self.error(format!(
                        "{what} of {bytes} bytes is not a multiple of {SECTOR_BYTES}"
                    )));
                }
                Extent::Share(share) if !(0.0..=1.0).contains(&share) => {
                    return Err(self.error(format!("{what} is not between 0 and 100 %")));
                }
                _ => {}
            }
        }
        let align = synthetic.align_sectors.max(1);
        let offset = synthetic.offset.sectors(capacity_sectors) / align * align;
        let size = match synthetic.size {
            Extent::ALL => capacity_sectors.saturating_sub(offset),
            size => size.sectors(capacity_sectors),
        };
        if offset.checked_add(size).is_none_or(|end| end > capacity_sectors) {
            return Err(self.error(format!(
                "offset and size reach beyond the end of namespace {} ({} bytes)",
                self.namespace.0,
                u128::from(capacity_sectors) * u128::from(SECTOR_BYTES)
            )));
        }
        if size == 0 {
            return Err(self.error(format!(
                "the working set is empty: offset {} bytes in a namespace of {} bytes",
                u128::from(offset) * u128::from(SECTOR_BYTES),
                u128::from(capacity_sectors) * u128::from(SECTOR_BYTES)
            )));
        }
        Ok((offset, size))
    }
}
