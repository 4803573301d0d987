//! The stream of one job.
//!
//! [`Generator::next`] is in the path of every simulated request: it draws from one inline
//! Xoshiro256++, takes no division for fixed block sizes, and everything that can be worked
//! out beforehand is worked out when the generator is built.
//!
//! The order of draws within a request is fixed: operation, length, address, interval; each
//! only if the flow leaves it open.

use super::Planned;
use super::clock::Clock;
use super::front::{Asking, DrawnFront, Handles};
use super::key_value::DrawnKeys;
use super::once::Once;
use super::random::{Bounded, Scatter, Zipf, bound, chance, normal};
use super::seed;
use super::{
    Addresses, Amount, Arrivals, BlockSize, Feed, FlowSpec, FrontFlow, Limits, Mode, Positions,
    SECTOR_BYTES, Schedule, Source, Start, Synthetic, WorkloadError, Zones,
};
use crate::placement::Placing;
use crate::trace::{Mended, TraceError, TraceStream};
use mynah_model::io::{Operation, PlacementId};
use mynah_stamp::{Span, Time};
use rand_xoshiro::Xoshiro256PlusPlus;

/// When a job draws. What went before has streams of its own, behind those of all jobs of a run.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// During the run.
    Run,
    /// Before the run, for the state that it begins in.
    Before,
}

impl When {
    /// Number of the first job's random stream.
    fn first_stream(self) -> u64 {
        match self {
            When::Run => 0,
            When::Before => 1 << 32,
        }
    }
}

/// The stream of one job of a flow. Ends when the job's limits are reached.
#[derive(Debug)]
pub struct Generator {
    remaining: u64,
    remaining_sectors: u64,
    /// Limit of sectors at the beginning; [`u64::MAX`] without one.
    sectors: u64,
    runtime: Option<Span>,
    ends_at: Time,
    /// It has ended because its next request would arrive after `ends_at`.
    is_over: bool,
    /// How times of the stream become times of the run, if they differ.
    schedule: Option<Schedule>,
    /// What is said of writes beside where they go, if anything is. Boxed, and looked at only if
    /// there: most flows say nothing, and the check is on the path of each request.
    writes: Option<Box<Writes>>,
    stream: Stream,
}

/// How a flow makes its writes durable, and which data they belong with.
#[derive(Debug)]
struct Writes {
    /// Writes are sent with Force Unit Access.
    write_through: bool,
    /// A flush follows so many writes; 0: none.
    flush_every: u64,
    /// Writes since the last flush.
    unflushed: u64,
    /// When the last of them arrived.
    arrived: Option<Time>,
    placing: Option<Placing>,
}

impl Writes {
    /// `seed` is that of the job's stream.
    fn of(flow: &FlowSpec, seed: u64) -> Option<Box<Writes>> {
        let (write_through, flush_every) = (flow.write_through, flow.flush_every);
        // A front places what it writes itself.
        let is_front = matches!(flow.source, Source::Front(_));
        let choice = flow.data_placement.as_ref().filter(|_| !is_front);
        // Drawn apart from where requests go.
        let placing = choice.map(|choice| Placing::new(choice, seed::stream(!seed)));
        let writes = Writes { write_through, flush_every, unflushed: 0, arrived: None, placing };
        (write_through || flush_every > 0 || writes.placing.is_some()).then(|| Box::new(writes))
    }

    /// The flush after a write, if it is due. Limits do not count flushes, as in fio.
    fn flush(&mut self) -> Option<Planned> {
        if self.flush_every == 0 || self.unflushed < self.flush_every {
            return None;
        }
        self.unflushed = 0;
        let (operation, arrival) = (Operation::Flush, self.arrived);
        let placement = PlacementId::default();
        Some(Planned { operation, key: None, sector: 0, sectors: 0, placement, arrival })
    }

    fn write(&mut self, planned: &mut Planned) {
        if self.write_through {
            planned.operation = Operation::WriteThrough;
        }
        if let Some(placing) = &mut self.placing {
            planned.placement = placing.next(planned.sector, planned.sectors);
        }
        self.unflushed += 1;
        self.arrived = planned.arrival;
    }
}

#[derive(Debug)]
enum Stream {
    Synthetic(Drawn),
    Keys(Box<DrawnKeys>),
    Front(Box<DrawnFront>),
    Trace { stream: Box<TraceStream>, error: Option<TraceError> },
}

#[derive(Debug)]
struct Drawn {
    rng: Xoshiro256PlusPlus,
    operation: OperationDraw,
    length: LengthDraw,
    place: Place,
    /// First sector of the working set, and its length in sectors.
    base: u64,
    span: u64,
    align: u64,
    clock: Clock,
    /// State for requests that depend on others. Boxed, as hardly any stream has it, and the check
    /// is on the path of each request.
    depends: Option<Box<Depends>>,
}

/// State by which places and lengths of requests depend on earlier requests or on the kind.
#[derive(Debug)]
struct Depends {
    /// Reads, writes and trims are aligned by their own sizes.
    aligns: Option<[u64; 3]>,
    /// Blocks that have been used, if none is to be used twice.
    once: Option<Once>,
}

impl Depends {
    /// `None` if they depend on nothing; there are so many blocks.
    fn of(synthetic: &Synthetic, blocks: u64) -> Option<Box<Depends>> {
        let once = (synthetic.addresses == Addresses::Once).then(|| Once::new(blocks));
        let aligns = own_aligns(synthetic);
        let by_kind = matches!(synthetic.block, BlockSize::Each(_));
        (by_kind || once.is_some()).then(|| Box::new(Depends { aligns, once }))
    }
}

#[derive(Debug)]
enum OperationDraw {
    Only(Operation),
    Mixed { read: u64, read_or_trim: u64 },
}

#[derive(Debug)]
enum LengthDraw {
    Fixed(u32),
    Normal { mean: f64, deviation: f64, max: u32 },
    Range { min: u32, steps: Bounded },
    Split(Vec<(u64, u32)>),
    Each(Box<[LengthDraw; 3]>),
}

#[derive(Debug)]
enum Place {
    Shared {
        next: u64,
    },
    EachOperation {
        next: [u64; 3],
    },
    Uniform(Bounded),
    Mixed {
        next: u64,
        anywhere: Bounded,
        turn: Turn,
    },
    HotCold {
        hot_bound: u64,
        hot: Bounded,
        cold: Bounded,
    },
    /// Per zone: upper bound of the draw that chooses it, its first place, and the draw within it.
    Zoned(Vec<(u64, u64, Bounded)>),
    Zipf(Zipf, Scatter),
}

/// Which requests of a mixed stream are random.
#[derive(Debug)]
enum Turn {
    Chance(u64),
    Counted { at: u64, anywhere: u64, all: u64 },
}

const PS_PER_S: u64 = 1_000_000_000_000;

impl FlowSpec {
    /// The flow with a ramp before what is measured, which makes its runtime longer, as in fio.
    pub fn with_ramp(&self, ramp: Span) -> FlowSpec {
        let mut flow = self.clone();
        flow.limits.runtime = flow.limits.runtime.map(|runtime| runtime + ramp);
        flow
    }

    /// The stream of job `job_index` on a namespace of `capacity_sectors`, for the flow that
    /// is `flow_index`-th of its run (both from 0).
    pub fn generator(
        &self,
        capacity_sectors: u64,
        run_seed: u64,
        flow_index: u32,
        job_index: u32,
    ) -> Result<Generator, WorkloadError> {
        self.generator_when(When::Run, capacity_sectors, run_seed, flow_index, job_index)
    }

    /// Like [`FlowSpec::generator`], for the run or for the time before it, which has streams of
    /// its own.
    pub fn generator_when(
        &self,
        when: When,
        capacity_sectors: u64,
        run_seed: u64,
        flow_index: u32,
        job_index: u32,
    ) -> Result<Generator, WorkloadError> {
        if self.jobs == 0 {
            return Err(self.error("numjobs is 0; at least 1 is needed"));
        }
        if job_index >= self.jobs {
            return Err(self.error(format!("it has {} jobs, no job {job_index}", self.jobs)));
        }
        let Limits { requests, bytes, runtime, auto } = self.limits;
        let seed_of = |job| seed::derive(run_seed, u64::from(flow_index), self.seed, job);
        let stream = match &self.source {
            Source::Trace(source) => {
                if self.jobs > 1 {
                    return Err(self.error("a trace is replayed by one job; numjobs must be 1"));
                }
                let stream = Box::new(TraceStream::open(source, capacity_sectors)?);
                Stream::Trace { stream, error: None }
            }
            Source::KeyValue(_) if self.flush_every > 0 => {
                let problem = "flushes (fsync) between key-value commands are not simulated; \
                               `mynah bench` has them";
                return Err(self.error(problem));
            }
            Source::KeyValue(flow) => {
                let limited = requests.is_some() || runtime.is_some() || auto;
                if !limited && !flow.mix.only_stores() {
                    let problem = "it would never end; give it a limit: runtime or number_ios";
                    return Err(self.error(problem));
                }
                let (own, of_flow) =
                    (seed_of(when.first_stream() + u64::from(job_index)), seed_of(seed::ALL_JOBS));
                let clock = self.clock(flow.mode)?;
                let drawn = DrawnKeys::new(flow, (job_index, self.jobs), own, of_flow, clock);
                Stream::Keys(Box::new(drawn.map_err(|problem| self.error(problem))?))
            }
            Source::Front(flow) => {
                let limited = requests.is_some() || bytes.is_some() || runtime.is_some() || auto;
                if !limited && !flow.has_an_end() {
                    return Err(self.error(
                        "it would never end; give it a limit: runtime, number_ios or io_size",
                    ));
                }
                let own = seed_of(when.first_stream() + u64::from(job_index));
                let seeds = (own, seed_of(seed::ALL_JOBS));
                Stream::Front(Box::new(self.front(flow, capacity_sectors, seeds)?))
            }
            Source::Synthetic(synthetic) => {
                if requests.is_none() && bytes.is_none() && runtime.is_none() && !auto {
                    return Err(self.error(
                        "it would never end; give it a limit: runtime, number_ios, io_size or size",
                    ));
                }
                Stream::Synthetic(self.drawn(
                    synthetic,
                    capacity_sectors,
                    seed_of(when.first_stream() + u64::from(job_index)),
                    seed_of(seed::ALL_JOBS),
                )?)
            }
        };
        let sectors = match bytes {
            None => u64::MAX,
            Some(Amount::Bytes(bytes)) => bytes.div_ceil(SECTOR_BYTES),
            Some(Amount::WorkingSet(share)) => {
                let (_, length) = self.range(capacity_sectors)?;
                let smallest = match &self.source {
                    Source::Synthetic(synthetic) => u64::from(synthetic.block.smallest().max(1)),
                    Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => 1,
                };
                // A share of less than a block is a block.
                ((length as f64 * share) as u64 / smallest * smallest).max(1)
            }
        };
        Ok(Generator {
            remaining: requests.unwrap_or(u64::MAX),
            remaining_sectors: sectors,
            sectors,
            runtime,
            ends_at: runtime
                .map_or(Time::MAX, |runtime| Time::ZERO + self.schedule.start + runtime),
            is_over: false,
            schedule: (self.schedule != Schedule::default()).then_some(self.schedule),
            writes: Writes::of(self, seed_of(when.first_stream() + u64::from(job_index))),
            stream,
        })
    }

    /// The I/O of a cache in front of a namespace. Seeds are those of the job and of the flow.
    fn front(
        &self,
        flow: &FrontFlow,
        capacity_sectors: u64,
        (own, of_flow): (u64, u64),
    ) -> Result<DrawnFront, WorkloadError> {
        let asking = match &flow.feed {
            Feed::Drawn(keys) => {
                let clock = self.clock(keys.mode)?;
                let drawn = DrawnKeys::new(keys, (0, 1), own, of_flow, clock);
                let drawn = drawn.map_err(|problem| self.error(problem))?;
                Asking::Drawn(Box::new(drawn))
            }
            Feed::Trace(trace) => Asking::of_trace(trace)?,
        };
        let ids = self.data_placement.as_ref().map_or(&[][..], |choice| &choice.ids);
        let handles = Handles(ids.iter().copied().map(PlacementId).collect());
        DrawnFront::new(flow, asking, capacity_sectors, handles)
            .map_err(|problem| self.error(problem))
    }

    fn drawn(
        &self,
        synthetic: &Synthetic,
        capacity_sectors: u64,
        job_seed: u64,
        flow_seed: u64,
    ) -> Result<Drawn, WorkloadError> {
        let (base, span) = self.working_set(synthetic, capacity_sectors)?;
        let align = synthetic.align_sectors;
        if align == 0 {
            return Err(self.error("an alignment of 0 has no meaning; the least is 512 bytes"));
        }
        let mut rng = seed::stream(job_seed);
        let (length, min, max) = self.length(&synthetic.block, span)?;
        if u64::from(max) > span {
            return Err(self.error(format!(
                "a request of {} bytes does not fit the working set of {} bytes",
                u64::from(max) * SECTOR_BYTES,
                span * SECTOR_BYTES
            )));
        }
        let positions = (span - u64::from(min)) / align + 1;
        if synthetic.addresses == Addresses::Once && span < align {
            return Err(
                self.error("the working set is smaller than what addresses are multiples of")
            );
        }
        let place = match synthetic.addresses {
            Addresses::Sequential { start, positions: which } => {
                let first = match start {
                    Start::Beginning => 0,
                    Start::Random => Bounded::new(positions).draw(&mut rng) * align,
                };
                match which {
                    Positions::Shared => Place::Shared { next: first },
                    Positions::EachOperation => Place::EachOperation { next: [first; 3] },
                }
            }
            Addresses::Uniform => Place::Uniform(Bounded::new(positions)),
            Addresses::Once => Place::Uniform(Bounded::new(span / align)),
            Addresses::Mixed { random, turn } => {
                if !(0.0..=1.0).contains(&random) || turn == Some(0) {
                    return Err(self.error("the random share is 0 to 100 % of turns of 1 or more"));
                }
                let turn = match turn {
                    None => Turn::Chance(bound(random)),
                    Some(all) => {
                        Turn::Counted { at: 0, anywhere: (all as f64 * random).round() as u64, all }
                    }
                };
                Place::Mixed { next: 0, anywhere: Bounded::new(positions), turn }
            }
            Addresses::HotCold { hot_access, hot_space } => {
                let space_fits = hot_space > 0.0 && hot_space < 1.0;
                if !(0.0..=1.0).contains(&hot_access) || !space_fits {
                    return Err(self.error(
                        "the hot part takes 0 to 100 % of the requests and more than 0, less \
                         than 100 % of the space",
                    ));
                }
                if positions < 2 {
                    return Err(self.error("the working set is too small for a hot part"));
                }
                let hot = ((positions as f64 * hot_space) as u64).clamp(1, positions - 1);
                Place::HotCold {
                    hot_bound: bound(hot_access),
                    hot: Bounded::new(hot),
                    cold: Bounded::new(positions - hot),
                }
            }
            Addresses::Zoned(zones) => Place::Zoned(parts(&zones, positions)),
            Addresses::Zipf { theta } => {
                if !(0.01..=10.0).contains(&theta) {
                    return Err(self.error(format!("zipf:{theta} is not between 0.01 and 10")));
                }
                let scatter = Scatter::new(positions, &mut seed::stream(flow_seed));
                Place::Zipf(Zipf::new(positions, theta), scatter)
            }
        };
        let (read, trim) = (synthetic.mix.read, synthetic.mix.trim);
        if !(0.0..=1.0).contains(&read) || !(0.0..=1.0).contains(&trim) || read + trim > 1.0 + 1e-9
        {
            return Err(self.error("the shares of reads and trims pass 100 %"));
        }
        let operation = match (bound(read), bound(read + trim)) {
            (0, 0) => OperationDraw::Only(Operation::Write),
            (0x1_0000_0000, _) => OperationDraw::Only(Operation::Read),
            (0, 0x1_0000_0000) => OperationDraw::Only(Operation::Trim),
            (read, read_or_trim) => OperationDraw::Mixed { read, read_or_trim },
        };
        let clock = self.clock(synthetic.mode)?;
        let depends = Depends::of(synthetic, span / align);
        Ok(Drawn { rng, operation, length, place, base, span, align, clock, depends })
    }

    /// How lengths are drawn, and the shortest and longest that must fit.
    fn length(
        &self,
        block: &BlockSize,
        span: u64,
    ) -> Result<(LengthDraw, u32, u32), WorkloadError> {
        let zero = || self.error("a request of 0 bytes has no meaning; the least is 512 bytes");
        Ok(match block {
            BlockSize::Fixed(0) => return Err(zero()),
            BlockSize::Fixed(sectors) => (LengthDraw::Fixed(*sectors), *sectors, *sectors),
            BlockSize::Normal { mean, deviation } => {
                if !(mean.is_finite() && *mean > 0.0 && deviation.is_finite() && *deviation >= 0.0)
                {
                    return Err(self.error(
                        "normally distributed sizes need a mean above 0 and a deviation of 0 \
                         or more",
                    ));
                }
                let max = u32::try_from(span).unwrap_or(u32::MAX);
                (LengthDraw::Normal { mean: *mean, deviation: *deviation, max }, 1, 1)
            }
            BlockSize::Range { min: 0, .. } => return Err(zero()),
            BlockSize::Range { min, max } => {
                if max < min || max % min != 0 {
                    return Err(
                        self.error("the longest size of a range is a multiple of the shortest one")
                    );
                }
                let steps = Bounded::new(u64::from(max / min));
                (LengthDraw::Range { min: *min, steps }, *min, *max)
            }
            BlockSize::Split(parts) => {
                let total: u64 = parts.iter().map(|&(_, weight)| u64::from(weight)).sum();
                if parts.iter().any(|&(sectors, _)| sectors == 0) {
                    return Err(zero());
                }
                if total == 0 {
                    return Err(self.error("bssplit has no size with a share above 0"));
                }
                let mut sum = 0;
                let table = parts
                    .iter()
                    .map(|&(sectors, weight)| {
                        sum += u64::from(weight);
                        (bound(sum as f64 / total as f64), sectors)
                    })
                    .collect();
                let lengths = parts.iter().map(|&(sectors, _)| sectors);
                let min = lengths.clone().min().unwrap_or(1);
                (LengthDraw::Split(table), min, lengths.max().unwrap_or(1))
            }
            BlockSize::Each(each) => {
                let [reads, writes, trims] = &**each;
                let (reads, read_min, read_max) = self.length(reads, span)?;
                let (writes, write_min, write_max) = self.length(writes, span)?;
                let (trims, trim_min, trim_max) = self.length(trims, span)?;
                let min = read_min.min(write_min).min(trim_min);
                let max = read_max.max(write_max).max(trim_max);
                (LengthDraw::Each(Box::new([reads, writes, trims])), min, max)
            }
        })
    }

    fn clock(&self, mode: Mode) -> Result<Clock, WorkloadError> {
        let too_long = || {
            self.error(
                "its last request would arrive after the end of time (213 days); fewer \
                 requests or a higher rate are needed",
            )
        };
        let arrivals = match mode {
            Mode::Closed { depth: 0 } | Mode::Open { depth: Some(0), .. } => {
                return Err(self.error("an iodepth of 0 issues nothing; at least 1 is needed"));
            }
            Mode::Closed { .. } => return Ok(Clock::Closed),
            Mode::Open { arrivals, .. } => arrivals,
        };
        let (clock, interval) = match arrivals {
            Arrivals::Fixed { per_second: 0 } => {
                return Err(self.error("a rate_iops of 0 issues nothing; at least 1 is needed"));
            }
            Arrivals::Fixed { per_second: rate } => {
                let (step, step_remainder) = (PS_PER_S / rate, PS_PER_S % rate);
                let clock = Clock::Fixed { next: 0, step, remainder: 0, step_remainder, rate };
                (clock, step + 1)
            }
            Arrivals::Every { interval: Span::ZERO } => {
                return Err(self.error("an interval of 0 between requests has no meaning"));
            }
            Arrivals::Every { interval } => {
                let step = interval.as_ps();
                let clock =
                    Clock::Fixed { next: 0, step, remainder: 0, step_remainder: 0, rate: 1 };
                (clock, step)
            }
            Arrivals::Exponential { mean: Span::ZERO } => {
                return Err(self.error("a mean interval of 0 has no meaning"));
            }
            Arrivals::Exponential { mean } => {
                (Clock::Exponential { now: 0, mean_ps: mean.as_ps() as f64 }, mean.as_ps())
            }
        };
        let longest = self.limits.runtime.map_or(u64::MAX, |runtime| runtime.as_ps() / interval);
        let requests = self.limits.requests.unwrap_or(u64::MAX).min(longest);
        // Half of time is left over for intervals that turn out longer than their mean.
        if requests < u64::MAX && requests.checked_mul(interval).is_none_or(|end| end > 1 << 63) {
            return Err(too_long());
        }
        Ok(clock)
    }
}

/// Per zone: upper bound of the draw that chooses it, its first place, and the draw within it.
fn parts(zones: &Zones, positions: u64) -> Vec<(u64, u64, Bounded)> {
    let mut access = 0.0;
    let parts = zones.of(positions).into_iter().map(|(first, count, share)| {
        access += share;
        (bound(access), first, Bounded::new(count))
    });
    let mut parts: Vec<_> = parts.collect();
    // What parts without a place would have had goes to the last one.
    if let Some(last) = parts.last_mut() {
        last.0 = bound(1.0);
    }
    parts
}

/// What reads, writes and trims are aligned to, if that is their own smallest size.
fn own_aligns(synthetic: &Synthetic) -> Option<[u64; 3]> {
    let Synthetic { block, align_sectors, .. } = synthetic;
    match block {
        BlockSize::Each(each) if *align_sectors == u64::from(block.smallest()) => {
            Some(each.each_ref().map(|block| u64::from(block.smallest())))
        }
        _ => None,
    }
}

impl Generator {
    /// Draws requests until `batch` holds `most`, or there are no more.
    pub fn draw(&mut self, batch: &mut Vec<Planned>, most: usize) {
        while batch.len() < most
            && let Some(planned) = self.next()
        {
            batch.push(planned);
        }
    }

    /// The next request, or `None` when the job has reached its limits, its trace has ended,
    /// or its trace cannot be read further: ask [`Generator::take_error`].
    #[allow(clippy::should_implement_trait, reason = "an iterator could not report its error")]
    #[inline(always)]
    pub fn next(&mut self) -> Option<Planned> {
        match self.writes {
            None => self.next_request(),
            Some(_) => self.next_said(),
        }
    }

    #[cold]
    #[inline(never)]
    fn next_said(&mut self) -> Option<Planned> {
        let flush = self.writes.as_mut().and_then(|writes| writes.flush());
        if flush.is_some() {
            return flush;
        }
        let mut planned = self.next_request()?;
        let is_write = [Operation::Write, Operation::WriteThrough].contains(&planned.operation);
        if let Some(writes) = self.writes.as_mut().filter(|_| is_write) {
            writes.write(&mut planned);
        }
        Some(planned)
    }

    #[inline(always)]
    fn next_request(&mut self) -> Option<Planned> {
        if self.remaining == 0 || self.remaining_sectors == 0 {
            return None;
        }
        let mut planned = match &mut self.stream {
            Stream::Synthetic(drawn) => drawn.next(),
            Stream::Keys(drawn) => match drawn.next() {
                Some(planned) => planned,
                None => return self.ends(),
            },
            Stream::Front(drawn) => match drawn.next() {
                Some(planned) => planned,
                None => return self.ends(),
            },
            Stream::Trace { stream, error } => match stream.next() {
                Ok(planned) => planned?,
                Err(problem) => {
                    *error = Some(problem);
                    self.remaining = 0;
                    return None;
                }
            },
        };
        if let Some(at) = planned.arrival {
            let at = self.schedule.as_ref().map_or(at, |schedule| schedule.moment(at));
            if at >= self.ends_at {
                self.remaining = 0;
                self.is_over = true;
                return None;
            }
            planned.arrival = Some(at);
        }
        self.remaining -= 1;
        self.remaining_sectors = self.remaining_sectors.saturating_sub(u64::from(planned.sectors));
        Some(planned)
    }

    #[cold]
    fn ends(&mut self) -> Option<Planned> {
        self.remaining = 0;
        None
    }

    /// When the flow's runtime ended, if that has ended the stream.
    pub fn ended_by_runtime(&self) -> Option<Time> {
        self.is_over.then_some(self.ends_at)
    }

    /// Lets a stream of which nothing has been drawn begin at `start` in the run, and not when its
    /// flow says.
    pub fn begin_at(&mut self, start: Span) {
        self.schedule = Some(Schedule { start, ..self.schedule.unwrap_or_default() });
        self.ends_at = self.runtime.map_or(Time::MAX, |runtime| Time::ZERO + start + runtime);
    }

    /// Nothing that arrives at `end` or later is drawn any more, as if the runtime were over then.
    /// `drawn`: such a request already was.
    pub fn end_at(&mut self, end: Time, drawn: bool) {
        self.ends_at = end;
        if drawn {
            self.remaining = 0;
            self.is_over = true;
        }
    }

    /// How many sectors may be drawn in all; `None` without that limit.
    pub fn sectors_limit(&self) -> Option<u64> {
        (self.sectors < u64::MAX).then_some(self.sectors)
    }

    /// How many requests and sectors may still be drawn; [`u64::MAX`] without that limit.
    pub fn remaining(&self) -> (u64, u64) {
        (self.remaining, self.remaining_sectors)
    }

    /// The error that has ended the stream early, if one has.
    pub fn take_error(&mut self) -> Option<WorkloadError> {
        match &mut self.stream {
            Stream::Synthetic(_) | Stream::Keys(_) => None,
            Stream::Front(front) => front.take_error().map(WorkloadError::from),
            Stream::Trace { error, .. } => error.take().map(WorkloadError::from),
        }
    }

    /// What was changed about the trace's requests.
    pub fn mended(&self) -> Mended {
        match &self.stream {
            Stream::Synthetic(_) | Stream::Keys(_) | Stream::Front(_) => Mended::default(),
            Stream::Trace { stream, .. } => stream.mended(),
        }
    }
}

impl Drawn {
    #[inline(always)]
    fn next(&mut self) -> Planned {
        let operation = match self.operation {
            OperationDraw::Only(operation) => operation,
            OperationDraw::Mixed { read, read_or_trim } => {
                let draw = chance(&mut self.rng);
                if draw < read {
                    Operation::Read
                } else if draw < read_or_trim {
                    Operation::Trim
                } else {
                    Operation::Write
                }
            }
        };
        let (place, sectors) = match self.depends {
            None => {
                let sectors = self.length.draw(&mut self.rng);
                (self.place(operation, u64::from(sectors), None), sectors)
            }
            Some(_) => self.dependent(operation),
        };
        let sector = self.base + place;
        let arrival = match self.clock {
            Clock::Closed => None,
            _ => Some(self.clock.next(&mut self.rng)),
        };
        let placement = PlacementId::default();
        Planned { operation, key: None, sector, sectors, placement, arrival }
    }

    /// Where and how long a request is, if that depends on its kind or on what was drawn before.
    #[cold]
    #[inline(never)]
    fn dependent(&mut self, operation: Operation) -> (u64, u32) {
        let length = match &self.length {
            LengthDraw::Each(each) => &each[kind(operation)],
            one => one,
        };
        let sectors = length.draw(&mut self.rng);
        let once = self.depends.as_mut().and_then(|it| it.once.as_mut());
        if let (Some(once), Place::Uniform(blocks)) = (once, &mut self.place) {
            let most = u64::from(sectors).div_ceil(self.align);
            let (first, count) = once.take(blocks.draw(&mut self.rng), most);
            let free = u32::try_from(count * self.align).unwrap_or(u32::MAX);
            return (first * self.align, sectors.min(free));
        }
        let aligns = self.depends.as_ref().and_then(|it| it.aligns);
        let own = aligns.map(|aligns| aligns[kind(operation)]);
        (self.place(operation, u64::from(sectors), own), sectors)
    }

    /// Where a request is; `own` is what it is aligned to, if not to what all are.
    #[inline(always)]
    fn place(&mut self, operation: Operation, sectors: u64, own: Option<u64>) -> u64 {
        let align = own.unwrap_or(self.align);
        let position = match &mut self.place {
            Place::Uniform(positions) => positions.draw(&mut self.rng),
            Place::Shared { next } => return advance(next, sectors, self.span, align),
            Place::EachOperation { next } => {
                return advance(&mut next[kind(operation)], sectors, self.span, align);
            }
            Place::Mixed { next, anywhere, turn } => {
                let random = match turn {
                    Turn::Chance(bound) => chance(&mut self.rng) < *bound,
                    Turn::Counted { at, anywhere, all } => {
                        let random = *at < *anywhere;
                        *at = (*at + 1) % *all;
                        random
                    }
                };
                if !random {
                    return advance(next, sectors, self.span, align);
                }
                anywhere.draw(&mut self.rng)
            }
            Place::HotCold { hot_bound, hot, cold } => {
                if chance(&mut self.rng) < *hot_bound {
                    hot.draw(&mut self.rng)
                } else {
                    hot.len() + cold.draw(&mut self.rng)
                }
            }
            Place::Zoned(parts) => {
                let draw = chance(&mut self.rng);
                let part = parts.iter().find(|(bound, ..)| draw < *bound);
                part.map_or(0, |(_, first, part)| *first + part.draw(&mut self.rng))
            }
            Place::Zipf(zipf, scatter) => scatter.place(zipf.draw(&mut self.rng)),
        };
        let mut start = position * self.align;
        if own.is_some() {
            start = start / align * align;
        }
        if start + sectors <= self.span { start } else { (self.span - sectors) / align * align }
    }
}

/// The place of a kind of request among reads, writes and trims.
#[inline(always)]
fn kind(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Trim => 2,
        _ => 1,
    }
}

/// The address of the next request of a sequential stream, which moves on.
#[inline]
fn advance(next: &mut u64, sectors: u64, span: u64, align: u64) -> u64 {
    let start = if *next + sectors > span { 0 } else { *next };
    let end = start + sectors;
    // Power-of-two alignments, nearly all, need no division.
    *next = if align.is_power_of_two() {
        (end + align - 1) & !(align - 1)
    } else {
        end.next_multiple_of(align)
    };
    start
}

impl LengthDraw {
    #[inline(always)]
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        match self {
            LengthDraw::Fixed(sectors) => *sectors,
            LengthDraw::Each(_) => unreachable!("each of three is drawn by itself"),
            LengthDraw::Range { min, steps } => min * (steps.draw(rng) as u32 + 1),
            LengthDraw::Split(table) => {
                let draw = chance(rng);
                table.iter().find(|(bound, _)| draw < *bound).map_or(1, |&(_, sectors)| sectors)
            }
            LengthDraw::Normal { mean, deviation, max } => {
                let sectors = (mean + deviation * normal(rng)).ceil();
                sectors.clamp(1.0, f64::from(*max)) as u32
            }
        }
    }
}
