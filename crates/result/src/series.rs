//! What a run looks like over time: one point an interval, written as CSV and drawn in
//! reports.
//!
//! Intervals follow one another from the run's start, the ramp included; one that the end of
//! the ramp cuts in two is two. A command belongs to the interval in which it completes.
//! Queue depths are means over the interval: of I/Os outstanding, exactly; of flash
//! operations that wait for their die or channel, by Little's law from the waits that ended
//! in it. Free blocks and what is cached are looked at when the interval ends. Of a drive with an SLC
//! cache the CSV has more columns.
//!
//! In memory are kept at most [`POINTS_MAX`] points; then neighbours are joined, so a long
//! run is drawn with longer intervals. The CSV has all of them.

use crate::document::{Device, SlcCacheUse};
use crate::histogram::{Buckets, Histogram, rank};
use crate::kind::Kind;
use crate::output::{OutputError, PendingFile};
use mynah_model::Policies;
use mynah_model::stats::{Counters, Resource};
use mynah_model::{Drive, Gauges, SlcFill};
use mynah_stamp::{Span, Time};
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Most points that are kept in memory.
pub const POINTS_MAX: usize = 400;
/// First interval of a [`Series`] whose interval adapts to the run.
const FIRST_INTERVAL: Span = Span::from_us(100);
/// The interval of a CSV if it is not given.
pub const DEFAULT_INTERVAL: Span = Span::from_ms(10);

type Spread = Buckets<4>;

/// One interval of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub start: Time,
    pub end: Time,
    /// Whether it lies after the ramp.
    pub measured: bool,
    /// By number of the flow.
    pub flows: Vec<FlowPoint>,
    /// Bytes that hosts wrote in the interval.
    pub host_bytes: u64,
    /// Bytes of the mapping units programmed.
    pub flash_bytes: u64,
    /// Free blocks at the end of the interval.
    pub free_blocks: u64,
    /// How full the SLC cache is then, of a drive that has one.
    pub slc: Option<SlcFill>,
}

/// Who is given each interval when it is over, while the run goes on.
#[derive(Clone)]
pub struct PointSink(pub Arc<dyn Fn(&Point) + Send + Sync>);

impl fmt::Debug for PointSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PointSink")
    }
}

/// What one flow did in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowPoint {
    /// Commands that completed successfully.
    pub ios: u64,
    /// Bytes that they moved or trimmed.
    pub bytes: u64,
    /// The integral of the I/Os outstanding over time, in picoseconds.
    pub outstanding_ps: u128,
    /// Latency histogram: buckets of [`Spread`] with their counts, empty ones left out.
    spread: Vec<(u16, u64)>,
}

impl FlowPoint {
    /// What `percentile` per cent of the latencies do not exceed, in nanoseconds, within
    /// 1/32; `None` without commands.
    pub fn percentile_ns(&self, percentile: f64) -> Option<f64> {
        let count: u64 = self.spread.iter().map(|&(_, count)| count).sum();
        let mut left = rank(percentile, count);
        let found = self.spread.iter().find(|&&(_, count)| {
            let here = left <= count;
            left = left.saturating_sub(count);
            here
        });
        found.map(|&(index, _)| Spread::middle(usize::from(index)) as f64 / 1_000.0)
    }

    fn merge(&mut self, other: FlowPoint) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.outstanding_ps += other.outstanding_ps;
        for (index, count) in other.spread {
            match self.spread.binary_search_by_key(&index, |&(index, _)| index) {
                Ok(at) => self.spread[at].1 += count,
                Err(at) => self.spread.insert(at, (index, count)),
            }
        }
    }
}

impl Point {
    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.since(self.start).as_secs_f64()
    }

    /// What all flows did together.
    pub fn total(&self) -> FlowPoint {
        let mut total = FlowPoint::default();
        self.flows.iter().for_each(|flow| total.merge(flow.clone()));
        total
    }

    /// Adds the interval that follows.
    pub fn merge(&mut self, other: Point) {
        self.end = other.end;
        self.host_bytes += other.host_bytes;
        self.flash_bytes += other.flash_bytes;
        self.free_blocks = other.free_blocks;
        self.slc = other.slc;
        for (flow, more) in self.flows.iter_mut().zip(other.flows) {
            flow.merge(more);
        }
    }
}

/// A run over time: its intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub flows: Vec<String>,
    /// The points in order of time.
    pub points: Vec<Point>,
}

/// Counts of a flow in the current interval.
#[derive(Clone, Default)]
struct Current {
    /// Latencies of reads, and of writes.
    latencies: [Histogram; 2],
    bytes: [u64; 2],
    /// Commands of other kinds that succeeded, and their bytes.
    others: u64,
    other_bytes: u64,
    other_spread: Vec<(u16, u64)>,
    errors: u64,
    outstanding: u64,
    changed: Time,
    outstanding_ps: u128,
}

impl Current {
    fn outstanding_until(&mut self, now: Time) {
        let span = now.saturating_since(self.changed);
        self.outstanding_ps += u128::from(span.as_ps()) * u128::from(self.outstanding);
        self.changed = self.changed.max(now);
    }
}

/// Watches a run and makes the points.
pub struct Sampler {
    every: Span,
    /// The interval grows when points are joined.
    grows: bool,
    next: Time,
    start: Time,
    measured: bool,
    series: Series,
    flows: Vec<Current>,
    counters: Counters,
    /// Blocks collected until the interval began.
    collected: u64,
    /// The write amplification of collection that was computed, if it was.
    waf_expected: Option<f64>,
    /// The time each flow has waited for dies and channels.
    waits_ps: Vec<u64>,
    csv: Option<Csv>,
    sink: Option<PointSink>,
}

struct Csv {
    file: PendingFile,
    out: BufWriter<File>,
}

impl Sampler {
    /// Watches flows of these names, for pictures only: the interval fits itself to the run.
    pub fn for_pictures(flows: Vec<String>, ramp: bool) -> Sampler {
        Sampler { grows: true, ..Sampler::new(flows, FIRST_INTERVAL, ramp) }
    }

    /// Watches flows of these names. `ramp` says whether the run begins with one.
    pub fn new(flows: Vec<String>, every: Span, ramp: bool) -> Sampler {
        let count = flows.len();
        let every = every.max(Span::from_ns(1));
        Sampler {
            every,
            grows: false,
            next: Time::ZERO + every,
            start: Time::ZERO,
            measured: !ramp,
            series: Series { flows, points: Vec::new() },
            flows: vec![Current::default(); count],
            counters: Counters::default(),
            collected: 0,
            waf_expected: None,
            waits_ps: vec![0; count],
            csv: None,
            sink: None,
        }
    }

    /// Gives each interval to `sink` as well.
    pub fn show(&mut self, sink: PointSink) {
        self.sink = Some(sink);
    }

    /// Write amplification that was computed, or that the drive settled at, before the run.
    pub fn expect(&mut self, waf: Option<f64>) {
        self.waf_expected = waf;
    }

    /// Also writes the intervals of a run on `drive` to the file at `path`, which appears with
    /// [`Sampler::finish`].
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn write_to(
        &mut self,
        path: &Path,
        drive: &Drive<impl Policies>,
    ) -> Result<(), OutputError> {
        let file = PendingFile::create(path)?;
        let mut out = BufWriter::new(file.file().map_err(|error| file.error(error))?);
        writeln!(out, "{}", header(drive.config().slc.is_some()))
            .map_err(|error| file.error(error))?;
        self.csv = Some(Csv { file, out });
        Ok(())
    }

    /// When the present interval ends.
    pub fn next(&self) -> Time {
        self.next
    }

    /// A command of `flow` was issued at `now`.
    pub fn issued(&mut self, flow: usize, now: Time) {
        let flow = &mut self.flows[flow];
        flow.outstanding_until(now);
        flow.outstanding += 1;
    }

    /// A command of `flow` has completed at `at`.
    pub fn completed(
        &mut self,
        flow: usize,
        kind: Kind,
        bytes: u64,
        latency: Span,
        succeeded: bool,
        at: Time,
    ) {
        let flow = &mut self.flows[flow];
        flow.outstanding_until(at);
        flow.outstanding = flow.outstanding.saturating_sub(1);
        match kind {
            _ if !succeeded => flow.errors += 1,
            Kind::Read | Kind::Write | Kind::Store | Kind::Update | Kind::Retrieve => {
                let side = usize::from(!matches!(kind, Kind::Read | Kind::Retrieve));
                flow.latencies[side].record(latency);
                flow.bytes[side] += bytes;
            }
            Kind::Trim | Kind::Flush | Kind::Delete | Kind::Exist | Kind::List => {
                flow.others += 1;
                flow.other_bytes += bytes;
                let index = Spread::index(latency.as_ps()) as u16;
                match flow.other_spread.binary_search_by_key(&index, |&(index, _)| index) {
                    Ok(at) => flow.other_spread[at].1 += 1,
                    Err(at) => flow.other_spread.insert(at, (index, 1)),
                }
            }
        }
    }

    /// Time has reached [`Sampler::next`].
    ///
    /// # Errors
    /// If the CSV cannot be written.
    pub fn reached(&mut self, drive: &Drive<impl Policies>) -> Result<(), OutputError> {
        let end = self.next;
        self.close(drive, end)?;
        self.next = end + self.every;
        Ok(())
    }

    /// The ramp is over, and the drive is about to count anew.
    ///
    /// # Errors
    /// If the CSV cannot be written.
    pub fn ramp_ends(
        &mut self,
        drive: &Drive<impl Policies>,
        now: Time,
    ) -> Result<(), OutputError> {
        self.close(drive, now)?;
        self.measured = true;
        self.counters = Counters::default();
        self.collected = 0;
        self.waits_ps.fill(0);
        Ok(())
    }

    /// The run has ended. Whoever asks for the points gets them.
    ///
    /// # Errors
    /// If the CSV cannot be written.
    pub fn finish(
        mut self,
        drive: &Drive<impl Policies>,
        now: Time,
    ) -> Result<Series, OutputError> {
        self.close(drive, now)?;
        if let Some(Csv { file, mut out }) = self.csv.take() {
            out.flush().map_err(|error| file.error(error))?;
            file.keep()?;
        }
        Ok(self.series)
    }

    fn close(&mut self, drive: &Drive<impl Policies>, end: Time) -> Result<(), OutputError> {
        if end <= self.start {
            return Ok(());
        }
        let counters = drive.counters();
        let interval = end.since(self.start);
        let device = Device::new(&self.counters, &counters, interval);
        let gauges = drive.gauges();
        let mut waits_ps = vec![0; self.flows.len()];
        for blame in drive.blame() {
            if matches!(blame.resource, Resource::Die | Resource::Channel)
                && let Some(wait) = waits_ps.get_mut(usize::from(blame.victim.0))
            {
                *wait += blame.wait.as_ps();
            }
        }
        for flow in &mut self.flows {
            flow.outstanding_until(end);
        }
        if let Some(csv) = &mut self.csv {
            let rows = Rows {
                start: self.start,
                end,
                measured: self.measured,
                names: &self.series.flows,
                flows: &self.flows,
                waits_ps: waits_ps
                    .iter()
                    .zip(&self.waits_ps)
                    .map(|(now, before)| now.saturating_sub(*before))
                    .collect(),
                device: &device,
                gauges,
                collected: drive.blocks_turned_over() - self.collected,
                waf_expected: self.waf_expected,
            };
            rows.write(&mut csv.out).map_err(|error| csv.file.error(error))?;
        }
        let point = Point {
            start: self.start,
            end,
            measured: self.measured,
            flows: self.flows.iter_mut().map(point_of).collect(),
            host_bytes: device.host_bytes_written,
            flash_bytes: device.flash_programs * u64::from(drive.config().geometry.page_bytes),
            free_blocks: gauges.free_blocks,
            slc: gauges.slc,
        };
        if let Some(PointSink(show)) = &self.sink {
            show(&point);
        }
        self.series.points.push(point);
        if self.series.points.len() > POINTS_MAX {
            self.join();
        }
        self.start = end;
        self.counters = counters;
        self.collected = drive.blocks_turned_over();
        self.waits_ps = waits_ps;
        Ok(())
    }

    /// Joins each two neighbours, but not across the end of the ramp.
    fn join(&mut self) {
        let mut joined: Vec<Point> = Vec::with_capacity(POINTS_MAX / 2 + 2);
        let mut single = false;
        for point in std::mem::take(&mut self.series.points) {
            match joined.last_mut() {
                Some(last) if single && last.measured == point.measured => {
                    last.merge(point);
                    single = false;
                }
                _ => {
                    joined.push(point);
                    single = true;
                }
            }
        }
        self.series.points = joined;
        if self.grows {
            self.every = self.every.times(2);
        }
    }
}

/// The point of an interval that is over; the next one begins.
fn point_of(flow: &mut Current) -> FlowPoint {
    let mut point = FlowPoint {
        ios: flow.others,
        bytes: flow.other_bytes + flow.bytes.iter().sum::<u64>(),
        outstanding_ps: flow.outstanding_ps,
        spread: std::mem::take(&mut flow.other_spread),
    };
    for latencies in &mut flow.latencies {
        if latencies.count() == 0 {
            continue;
        }
        let mut spread: Vec<(u16, u64)> = Vec::new();
        for (low, count) in latencies.counts() {
            let index = Spread::index(low) as u16;
            match spread.last_mut() {
                Some((last, sum)) if *last == index => *sum += count,
                _ => spread.push((index, count)),
            }
        }
        point.merge(FlowPoint { ios: latencies.count(), spread, ..FlowPoint::default() });
        *latencies = Histogram::default();
    }
    let (outstanding, changed) = (flow.outstanding, flow.changed);
    *flow = Current {
        latencies: std::mem::take(&mut flow.latencies),
        outstanding,
        changed,
        ..Current::default()
    };
    point
}

/// What a column of the CSV holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Text,
    /// A boolean: 0 or 1.
    Flag,
    /// Nanoseconds with three decimals: whole picoseconds.
    Nanoseconds,
    Count,
    /// A decimal number.
    Number,
}

/// The columns of the CSV, and what they hold. A row is about one flow, or with the flow `*` about
/// all of them and the drive; what it cannot say is empty.
pub const COLUMNS: [(&str, Holds); 41] = [
    ("start_ns", Holds::Nanoseconds),
    ("end_ns", Holds::Nanoseconds),
    ("measured", Holds::Flag),
    ("flow", Holds::Text),
    ("read_iops", Holds::Number),
    ("write_iops", Holds::Number),
    ("other_iops", Holds::Number),
    ("errors", Holds::Count),
    ("read_bytes_per_s", Holds::Number),
    ("write_bytes_per_s", Holds::Number),
    ("read_mean_ns", Holds::Nanoseconds),
    ("read_p50_ns", Holds::Nanoseconds),
    ("read_p90_ns", Holds::Nanoseconds),
    ("read_p99_ns", Holds::Nanoseconds),
    ("read_p99.9_ns", Holds::Nanoseconds),
    ("read_max_ns", Holds::Nanoseconds),
    ("write_mean_ns", Holds::Nanoseconds),
    ("write_p50_ns", Holds::Nanoseconds),
    ("write_p90_ns", Holds::Nanoseconds),
    ("write_p99_ns", Holds::Nanoseconds),
    ("write_p99.9_ns", Holds::Nanoseconds),
    ("write_max_ns", Holds::Nanoseconds),
    ("queue_depth", Holds::Number),
    ("flash_queue_depth", Holds::Number),
    ("waf", Holds::Number),
    ("units_written", Holds::Count),
    ("units_programmed", Holds::Count),
    ("gc_units_moved", Holds::Count),
    ("erases", Holds::Count),
    ("free_blocks", Holds::Count),
    ("free_blocks_min", Holds::Count),
    ("cached_units", Holds::Count),
    ("flash_reads_waiting", Holds::Count),
    ("flash_writes_waiting", Holds::Count),
    ("cmt_hit_ratio", Holds::Number),
    ("cache_hit_ratio", Holds::Number),
    ("channel_utilisation", Holds::Number),
    ("die_utilisation", Holds::Number),
    ("blocks_collected", Holds::Count),
    ("waf_collection", Holds::Number),
    ("waf_expected", Holds::Number),
];

/// The columns behind them of a drive with an SLC cache: how full it is when the interval ends, and
/// what was written to it and past it and folded in the interval.
pub const SLC_COLUMNS: [(&str, Holds); 5] = [
    ("slc_filled_bytes", Holds::Count),
    ("slc_room_bytes", Holds::Count),
    ("slc_cached_bytes", Holds::Count),
    ("slc_direct_bytes", Holds::Count),
    ("slc_folded_bytes", Holds::Count),
];

/// The columns of the CSV of a drive with an SLC cache, or without one.
pub fn columns(has_slc: bool) -> impl Iterator<Item = (&'static str, Holds)> {
    COLUMNS.into_iter().chain(SLC_COLUMNS.into_iter().filter(move |_| has_slc))
}

/// The first line of such a CSV.
pub fn header(has_slc: bool) -> String {
    columns(has_slc).map(|(name, _)| name).collect::<Vec<_>>().join(",")
}

/// Number of columns that rows of single flows fill, too.
const SHARED: usize = 24;

/// The CSV rows of one interval: one for each flow, and one for all.
struct Rows<'a> {
    start: Time,
    end: Time,
    measured: bool,
    names: &'a [String],
    flows: &'a [Current],
    /// What each flow waited for dies and channels in the interval.
    waits_ps: Vec<u64>,
    device: &'a Device,
    gauges: Gauges,
    /// Blocks collected in the interval.
    collected: u64,
    waf_expected: Option<f64>,
}

impl Rows<'_> {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut all = Current::default();
        for flow in self.flows {
            for side in 0..2 {
                all.latencies[side].merge(&flow.latencies[side]);
                all.bytes[side] += flow.bytes[side];
            }
            all.others += flow.others;
            all.errors += flow.errors;
            all.outstanding_ps += flow.outstanding_ps;
        }
        if let [flow] = self.flows {
            // The only flow's distribution is that of all.
            all.latencies = flow.latencies.clone();
        }
        let slc = self.device.slc.as_deref();
        let empty = columns(slc.is_some()).count() - SHARED;
        for (at, flow) in self.flows.iter().enumerate() {
            let name = crate::request_log::quoted(&self.names[at]);
            self.begin(out, &name, flow, self.waits_ps[at])?;
            writeln!(out, "{}", ",".repeat(empty))?;
        }
        self.begin(out, "*", &all, self.waits_ps.iter().sum())?;
        let (device, gauges) = (self.device, &self.gauges);
        let mean = |parts: &[f64]| parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        let ratio = |ratio: Option<f64>| ratio.map(|ratio| format!("{ratio:.6}"));
        write!(
            out,
            ",{},{},{},{},{},{},{},{},{},{},{},{},{:.6},{:.6},{},{},{}",
            ratio(device.waf).unwrap_or_default(),
            device.host_units_written,
            device.flash_units_programmed,
            device.gc_units_moved,
            device.erases,
            gauges.free_blocks,
            gauges.free_blocks_min,
            gauges.cached_units,
            gauges.flash_reads_waiting,
            gauges.flash_writes_waiting,
            ratio(device.cmt_hit_ratio).unwrap_or_default(),
            ratio(device.cache_hit_ratio).unwrap_or_default(),
            mean(&device.channel_utilisation),
            mean(&device.die_utilisation),
            self.collected,
            ratio(device.waf_of_collection()).unwrap_or_default(),
            ratio(self.waf_expected).unwrap_or_default(),
        )?;
        if let Some(SlcCacheUse { cached_bytes, direct_bytes, folded_bytes, .. }) = slc {
            let SlcFill { filled_bytes, room_bytes } = gauges.slc.unwrap_or_default();
            write!(
                out,
                ",{filled_bytes},{room_bytes},{cached_bytes},{direct_bytes},{folded_bytes}"
            )?;
        }
        writeln!(out)
    }

    /// Writes the columns that rows of single flows have, too.
    fn begin(
        &self,
        out: &mut impl Write,
        name: &str,
        flow: &Current,
        wait_ps: u64,
    ) -> std::io::Result<()> {
        let span = self.end.since(self.start);
        let seconds = span.as_secs_f64();
        let [reads, writes] = &flow.latencies;
        let rate = |amount: u64| amount as f64 / seconds;
        write!(
            out,
            "{:.3},{:.3},{},{name},{:.3},{:.3},{:.3},{},{:.3},{:.3}",
            self.start.as_ns_f64(),
            self.end.as_ns_f64(),
            u8::from(self.measured),
            rate(reads.count()),
            rate(writes.count()),
            rate(flow.others),
            flow.errors,
            rate(flow.bytes[0]),
            rate(flow.bytes[1]),
        )?;
        for latencies in [reads, writes] {
            match latencies.mean_ns() {
                None => write!(out, ",,,,,,")?,
                Some(mean) => {
                    write!(out, ",{mean:.3}")?;
                    for percentile in [50.0, 90.0, 99.0, 99.9, 100.0] {
                        let span = latencies.percentile(percentile).unwrap_or_default();
                        let span = if percentile == 100.0 { latencies.max() } else { Some(span) };
                        write!(out, ",{:.3}", span.unwrap_or_default().as_ns_f64())?;
                    }
                }
            }
        }
        let depth = flow.outstanding_ps as f64 / span.as_ps() as f64;
        write!(out, ",{depth:.4},{:.4}", wait_ps as f64 / span.as_ps() as f64)
    }
}
