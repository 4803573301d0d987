//! Records completed commands at a cost of 25 ns each: counts, latency histograms, and
//! where the time went, on the whole and for the slowest.
//!
//! Of single commands only the slowest are kept. The breakdown of the slowest 1 % comes from sums by
//! latency: every command adds its stages to the bucket of its latency (16 an octave), and
//! at the end the topmost buckets that hold 1 % of the commands are added up, the lowest of
//! them in part. Only the stages a command has spent time in are touched.
//!
//! Two latencies are told apart: `lat` runs from insertion into the submission queue, `e2e`
//! from the request's creation. The difference is the stage [`Stage::HostQueue`], which the
//! recorder adds to the stages that the drive reports; the breakdown adds up to `e2e`.
//!
//! Commands that fail are counted by status and otherwise left out.

use crate::document::{Side, SlowCommand, StageTime};
use crate::histogram::{Buckets, Histogram, rank};
use crate::kind::{Kind, status_name};
use crate::slowest::Slowest;
use mynah_model::LongWait;
use mynah_model::io::{Completion, Status};
use mynah_stamp::{LinkSpans, Span, Stage, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A completed command, and where its time went on an Ethernet link.
pub type Completed<'a> = (&'a Completion, Option<&'a LinkSpans>);

type StageBuckets = Buckets<6>;
type LatencyBuckets = Buckets<4>;

/// The stages of all commands whose latency falls into one bucket.
#[derive(Clone, Copy, Default)]
struct Slice {
    count: u64,
    /// Sums of the stages in picoseconds, modulo 2^64.
    sums_ps: [u64; Stage::COUNT],
    /// How often each sum has overflowed.
    carries: [u32; Stage::COUNT],
}

impl Slice {
    #[inline]
    fn add(&mut self, stage: usize, ps: u64) {
        let (sum, passed) = self.sums_ps[stage].overflowing_add(ps);
        self.sums_ps[stage] = sum;
        if passed {
            self.carries[stage] += 1;
        }
    }

    fn sum_ps(&self, stage: usize) -> u128 {
        u128::from(self.carries[stage]) << 64 | u128::from(self.sums_ps[stage])
    }
}

/// Where the time of many commands went.
#[derive(Clone)]
struct Breakdown {
    /// By stage, then by the time spent in it.
    stage_counts: Box<[[u64; StageBuckets::LEN]; Stage::COUNT]>,
    /// By bucket of the latency.
    slices: Box<[Slice; LatencyBuckets::LEN]>,
}

impl Default for Breakdown {
    fn default() -> Self {
        Breakdown { stage_counts: boxed([0; StageBuckets::LEN]), slices: boxed(Slice::default()) }
    }
}

/// An array full of `value` that has not passed through the stack, for which it is too large.
fn boxed<T: Clone, const LEN: usize>(value: T) -> Box<[T; LEN]> {
    let all = vec![value; LEN].into_boxed_slice();
    all.try_into().ok().expect("as many as were made")
}

impl Breakdown {
    fn count(&self) -> u64 {
        self.slices.iter().map(|slice| slice.count).sum()
    }

    #[inline(always)]
    fn record(&mut self, latency: Span, host_queue: Span, completion: &Completion) {
        let slice = &mut self.slices[LatencyBuckets::index(latency.as_ps())];
        slice.count += 1;
        let mut add = |stage: usize, span: Span| {
            slice.add(stage, span.as_ps());
            self.stage_counts[stage][StageBuckets::index(span.as_ps())] += 1;
        };
        if !host_queue.is_zero() {
            add(Stage::HostQueue as usize, host_queue);
        }
        completion.stages.for_each_spent(add);
    }

    /// Adds the stages on an Ethernet link of a command that was counted before.
    fn record_link(&mut self, latency: Span, link: &LinkSpans) {
        let slice = &mut self.slices[LatencyBuckets::index(latency.as_ps())];
        for (stage, span) in link.iter().filter(|(_, span)| !span.is_zero()) {
            slice.add(stage as usize, span.as_ps());
            self.stage_counts[stage as usize][StageBuckets::index(span.as_ps())] += 1;
        }
    }

    fn merge(&mut self, other: &Breakdown) {
        let more = other.stage_counts.as_flattened();
        for (count, more) in self.stage_counts.as_flattened_mut().iter_mut().zip(more) {
            *count += more;
        }
        for (slice, more) in self.slices.iter_mut().zip(other.slices.iter()) {
            slice.count += more.count;
            for stage in 0..Stage::COUNT {
                slice.add(stage, more.sums_ps[stage]);
                slice.carries[stage] += more.carries[stage];
            }
        }
    }

    /// How many of `all` commands spent time in `stage`, and the given percentile of that time.
    fn stage_percentile(&self, stage: Stage, percentile: f64, all: u64) -> (u64, f64) {
        let counts = &self.stage_counts[stage as usize];
        let passed: u64 = counts.iter().sum();
        let mut left = rank(percentile, all).saturating_sub(all - passed);
        if left == 0 {
            return (passed, 0.0);
        }
        let index = counts.iter().position(|&count| {
            let here = left <= count;
            left = left.saturating_sub(count);
            here
        });
        (passed, index.map_or(0.0, |index| StageBuckets::middle(index) as f64 / 1_000.0))
    }

    /// Sums of the stages, in picoseconds, over the `wanted` slowest commands.
    fn slowest(&self, wanted: u64) -> [f64; Stage::COUNT] {
        let mut sums = [0.0; Stage::COUNT];
        let mut left = wanted;
        for slice in self.slices.iter().rev().filter(|slice| slice.count > 0) {
            let taken = left.min(slice.count);
            let part = taken as f64 / slice.count as f64;
            for (stage, sum) in sums.iter_mut().enumerate() {
                *sum += slice.sum_ps(stage) as f64 * part;
            }
            left -= taken;
            if left == 0 {
                break;
            }
        }
        sums
    }

    fn table(&self) -> Vec<StageTime> {
        let count_all = self.count();
        if count_all == 0 {
            return Vec::new();
        }
        let tail_count = count_all.div_ceil(100);
        let (all, tail) = (self.slowest(count_all), self.slowest(tail_count));
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (all_sum, tail_sum) = (all.iter().sum(), tail.iter().sum());
        Stage::ALL
            .into_iter()
            .filter_map(|stage| {
                let (count, p99_ns) = self.stage_percentile(stage, 99.0, count_all);
                (count > 0).then(|| StageTime {
                    stage: stage.name().to_owned(),
                    count,
                    mean_ns: all[stage as usize] / count_all as f64 / 1_000.0,
                    p99_ns,
                    share: share(all[stage as usize], all_sum),
                    tail_mean_ns: tail[stage as usize] / tail_count as f64 / 1_000.0,
                    tail_share: share(tail[stage as usize], tail_sum),
                })
            })
            .collect()
    }
}

/// The commands of one kind of one flow that succeeded.
#[derive(Clone, Default)]
struct Record {
    bytes: u64,
    lat: Histogram,
    /// Latency from the request's creation; `None` while no command has waited in the host, when it
    /// equals `lat`.
    e2e: Option<Histogram>,
    breakdown: Breakdown,
}

impl Record {
    #[cold]
    #[inline(never)]
    fn boxed() -> Box<Record> {
        Box::default()
    }

    #[inline]
    fn record(&mut self, lat: Span, host_queue: Span, completion: &Completion) {
        let mut all = lat;
        if !host_queue.is_zero() || self.e2e.is_some() {
            all = lat + host_queue;
            self.record_e2e(all);
        }
        self.lat.record(lat);
        self.breakdown.record(all, host_queue, completion);
    }

    #[inline(never)]
    fn record_e2e(&mut self, e2e: Span) {
        self.e2e.get_or_insert_with(|| self.lat.clone()).record(e2e);
    }

    fn e2e(&self) -> &Histogram {
        self.e2e.as_ref().unwrap_or(&self.lat)
    }
}

#[derive(Clone, Default)]
struct FlowRecord {
    /// Made when first needed: a record takes some hundred kilobytes.
    kinds: [Option<Box<Record>>; Kind::ALL.len()],
    errors: BTreeMap<(Kind, Cow<'static, str>), u64>,
    /// When the first of the requests was created that have completed; the end of time before.
    first: Time,
    /// When the last of them completed, or until when there were more to come.
    last: Time,
    /// When its measurement started.
    start: Time,
}

impl FlowRecord {
    /// Of a flow that begins at `now`, or later.
    fn new(now: Time) -> FlowRecord {
        FlowRecord { first: Time::MAX, last: now, start: now, ..FlowRecord::default() }
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, kind: Kind, status: Cow<'static, str>) {
        *self.errors.entry((kind, status)).or_default() += 1;
    }
}

/// Records the completions of a run. Flows are numbered from 0 in the order of their names.
#[derive(Clone)]
pub struct Recorder {
    names: Vec<String>,
    flows: Vec<FlowRecord>,
    slowest: Slowest,
    start: Time,
    /// When the measurement ended, if not with the load of the flows.
    end: Time,
    outstanding: u64,
    /// When `outstanding` last changed.
    changed: Time,
    /// The times at which commands went less those at which they came, added up and wrapping;
    /// those outstanding at `start` came then.
    gone_less_come_ps: u128,
    /// The sum of latencies of commands that failed, and of those that were forgotten.
    failed_ps: u128,
    /// The sum of latencies as far as they lie before `start`.
    early_ps: u128,
}

impl Recorder {
    /// A recorder whose measurement starts at the beginning of time.
    pub fn new(flows: Vec<String>) -> Recorder {
        Recorder {
            flows: vec![FlowRecord::new(Time::ZERO); flows.len()],
            names: flows,
            slowest: Slowest::default(),
            start: Time::ZERO,
            end: Time::ZERO,
            outstanding: 0,
            changed: Time::ZERO,
            gone_less_come_ps: 0,
            failed_ps: 0,
            early_ps: 0,
        }
    }

    /// Adds a flow; it has the next number.
    pub fn add_flow(&mut self, name: String) {
        self.names.push(name);
        self.flows.push(FlowRecord::new(self.start));
    }

    /// Makes sure that there is a flow of this number; it is named later ([`Recorder::name_flows`]).
    #[inline]
    pub fn expect_flow(&mut self, flow: usize) {
        if flow >= self.flows.len() {
            self.more_flows(flow + 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn more_flows(&mut self, count: usize) {
        for number in self.flows.len()..count {
            self.add_flow(format!("flow {number}"));
        }
    }

    /// Names the flows, by number: at least as many as there are.
    ///
    /// # Panics
    /// If there are fewer names.
    pub fn name_flows(&mut self, names: Vec<String>) {
        assert!(names.len() >= self.flows.len(), "{} names", names.len());
        self.more_flows(names.len());
        self.names = names;
    }

    /// Forgets what was recorded and starts the measurement at `now`. Commands that are
    /// outstanding stay so, and are recorded when they complete.
    pub fn reset_at(&mut self, now: Time) {
        let outstanding = self.outstanding;
        let flows = self.flows.iter().map(|flow| match flow.first {
            Time::MAX => FlowRecord::new(now),
            _ => FlowRecord { first: now, ..FlowRecord::new(now) },
        });
        let flows = flows.collect();
        *self = Recorder::new(std::mem::take(&mut self.names));
        self.flows = flows;
        (self.start, self.changed) = (now, now);
        self.come(outstanding, now);
    }

    /// Forgets what was recorded of a flow: its measurement starts at `now`, that of the others
    /// goes on.
    pub fn forget(&mut self, flow: usize, now: Time) {
        let first = if self.flows[flow].first == Time::MAX { Time::MAX } else { now };
        let new = FlowRecord { first, ..FlowRecord::new(now) };
        let before = std::mem::replace(&mut self.flows[flow], new);
        self.slowest.forget(flow);
        let records = before.kinds.iter().flatten();
        self.failed_ps += records.map(|record| record.lat.sum_ps()).sum::<u128>();
    }

    #[inline]
    fn come(&mut self, commands: u64, now: Time) {
        self.changed = self.changed.max(now);
        self.outstanding += commands;
        let come_ps = u128::from(self.changed.as_ps()) * u128::from(commands);
        self.gone_less_come_ps = self.gone_less_come_ps.wrapping_sub(come_ps);
    }

    /// Counts commands as no longer outstanding, except those whose issue was not recorded.
    #[inline]
    fn go(&mut self, commands: u64, now: Time) {
        self.changed = self.changed.max(now);
        let known = commands.min(self.outstanding);
        self.outstanding -= known;
        let gone_ps = u128::from(self.changed.as_ps()) * u128::from(known);
        self.gone_less_come_ps = self.gone_less_come_ps.wrapping_add(gone_ps);
    }

    /// The integral of `outstanding` over time since `start`.
    fn outstanding_ps(&self) -> u128 {
        let until_now = u128::from(self.changed.as_ps()) * u128::from(self.outstanding);
        self.gone_less_come_ps.wrapping_add(until_now)
    }

    /// The sum of latencies, as far as they lie after `start`.
    fn latency_ps(&self) -> u128 {
        let records = self.flows.iter().flat_map(|flow| flow.kinds.iter().flatten());
        records.map(|record| record.lat.sum_ps()).sum::<u128>() + self.failed_ps - self.early_ps
    }

    /// A command was inserted into a submission queue at `now`. Needed only for
    /// [`Recorder::mean_outstanding`].
    #[inline]
    pub fn issued(&mut self, now: Time) {
        self.come(1, now);
    }

    /// A command of `flow`, `created` then and moving `bytes`, has completed.
    ///
    /// # Panics
    /// If there is no such flow.
    #[inline]
    pub fn record(
        &mut self,
        flow: usize,
        kind: impl Into<Kind>,
        bytes: u32,
        created: Time,
        completion: &Completion,
    ) {
        let Completion { at, rung, .. } = *completion;
        let kind = kind.into();
        if completion.status != Status::Success {
            let status = Cow::Borrowed(status_name(completion.status));
            return self.fail(flow, kind, (created, rung, at), status);
        }
        let flow = self.ended(flow, (created, rung, at));
        let record = flow.kinds[kind as usize].get_or_insert_with(Record::boxed);
        record.bytes += u64::from(bytes);
        record.record(at.since(rung), rung.saturating_since(created), completion);
    }

    /// Whether a command, `created` then, may be one of the slowest: then [`Recorder::record_slow`].
    #[inline(always)]
    pub fn is_slow(&self, created: Time, completion: &Completion) -> bool {
        self.slowest.takes(completion.at.saturating_since(created))
    }

    /// The same command as was recorded just before, which may be one of the slowest; with the drive's
    /// long waits, the latest first, if they are known. Returns how long waits have to be to be of use
    /// here from now on.
    #[cold]
    #[inline(never)]
    pub fn record_slow<'a>(
        &mut self,
        what: (usize, Kind, u32),
        created: Time,
        (completion, link): (&Completion, Option<&LinkSpans>),
        waits: impl Iterator<Item = &'a LongWait>,
    ) -> Span {
        if completion.status == Status::Success {
            self.slowest.take(what, created, (completion, link));
        }
        self.slowest.add_wait(what.0, completion, waits)
    }

    /// What a command, which was recorded just before, spent in the stages of an Ethernet link.
    ///
    /// # Panics
    /// If there is no such flow.
    #[cold]
    pub fn record_link(
        &mut self,
        flow: usize,
        kind: impl Into<Kind>,
        created: Time,
        completion: &Completion,
        link: &LinkSpans,
    ) {
        let record = self.flows[flow].kinds[kind.into() as usize].as_mut();
        if let Some(record) = record.filter(|_| completion.status == Status::Success) {
            let latency = completion.at.since(created.min(completion.rung));
            record.breakdown.record_link(latency, link);
        }
    }

    /// A command of `flow` that came at `rung` has failed at `at`. Results count it under the name
    /// of its `status`.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn record_failed(
        &mut self,
        flow: usize,
        kind: impl Into<Kind>,
        rung: Time,
        at: Time,
        status: impl Into<Cow<'static, str>>,
    ) {
        self.fail(flow, kind.into(), (rung, rung, at), status.into());
    }

    #[cold]
    #[inline(never)]
    fn fail(
        &mut self,
        flow: usize,
        kind: Kind,
        (created, rung, at): (Time, Time, Time),
        status: Cow<'static, str>,
    ) {
        self.ended(flow, (created, rung, at)).failed(kind, status);
        self.failed_ps += u128::from(at.since(rung).as_ps());
    }

    /// Counts the end of a command of `flow`, whether it succeeded or failed.
    #[inline(always)]
    fn ended(&mut self, flow: usize, (created, rung, at): (Time, Time, Time)) -> &mut FlowRecord {
        self.go(1, at);
        if rung < self.start {
            self.early_ps += u128::from(self.start.min(at).since(rung).as_ps());
        }
        let flow = &mut self.flows[flow];
        flow.first = flow.first.min(created);
        flow.last = flow.last.max(at);
        flow
    }

    /// The load of `flow` went on until `at`, whether its commands completed or not: rates are over
    /// the time until then, or until its last completion if that is later.
    pub fn offered_until(&mut self, flow: usize, at: Time) {
        let flow = &mut self.flows[flow];
        flow.last = flow.last.max(at);
    }

    /// The measurement lasted until `at`, whatever the flows did.
    pub fn lasted_until(&mut self, at: Time) {
        self.end = self.end.max(at);
    }

    /// So many commands have ended at `at` that were not modelled: what their latency was is
    /// known, and not where it was spent.
    pub fn record_many(
        &mut self,
        flow: usize,
        kind: impl Into<Kind>,
        commands: u64,
        bytes: u64,
        latency: Span,
        at: Time,
    ) {
        self.go(commands, at);
        let flow = &mut self.flows[flow];
        flow.first = flow.first.min(Time::from_ps(at.as_ps().saturating_sub(latency.as_ps())));
        flow.last = flow.last.max(at);
        let record = flow.kinds[kind.into() as usize].get_or_insert_default();
        record.bytes += bytes;
        if let Some(e2e) = &mut record.e2e {
            e2e.record_many(latency, commands);
        }
        record.lat.record_many(latency, commands);
        record.breakdown.slices[LatencyBuckets::index(latency.as_ps())].count += commands;
    }

    /// Names of the flows, by number.
    pub fn flow_names(&self) -> &[String] {
        &self.names
    }

    /// Commands that completed during the measurement, failed ones included.
    pub fn completions(&self) -> u64 {
        let succeeded = |flow: &FlowRecord| -> u64 {
            flow.kinds.iter().flatten().map(|record| record.lat.count()).sum()
        };
        let failed = |flow: &FlowRecord| -> u64 { flow.errors.values().sum() };
        self.flows.iter().map(|flow| succeeded(flow) + failed(flow)).sum()
    }

    /// When the measurement started.
    pub fn start(&self) -> Time {
        self.start
    }

    /// From the start of the measurement to its end: the last completion, or what
    /// [`Recorder::offered_until`] and [`Recorder::lasted_until`] have said if that is later.
    pub fn interval(&self) -> Span {
        let end = self.flows.iter().map(|flow| flow.last).fold(self.end, Time::max);
        end.saturating_since(self.start)
    }

    /// From the creation of a flow's first request, or the start of the measurement if that was
    /// later, to the end of its load.
    pub fn flow_interval(&self, flow: usize) -> Span {
        let FlowRecord { first, last, start, .. } = self.flows[flow];
        last.saturating_since(first.max(start))
    }

    /// The mean latency of all commands of a flow that succeeded, from insertion into the
    /// submission queue; `None` without any.
    pub fn mean_latency_ns(&self, flow: usize) -> Option<f64> {
        let records = || self.flows[flow].kinds.iter().flatten();
        let count: u64 = records().map(|record| record.lat.count()).sum();
        let sum: u128 = records().map(|record| record.lat.sum_ps()).sum();
        (count > 0).then(|| sum as f64 / count as f64 / 1_000.0)
    }

    /// The commands outstanding on average, by watching them come and go until the last
    /// completion or issue.
    pub fn mean_outstanding(&self) -> f64 {
        per(self.outstanding_ps(), self.changed.saturating_since(self.start))
    }

    /// The commands outstanding on average, by Little's law: the sum of all latencies, as
    /// far as they lie in the measurement, over its time. When nothing is outstanding at the
    /// end, this is [`Recorder::mean_outstanding`] exactly.
    pub fn littles_law_outstanding(&self) -> f64 {
        per(self.latency_ps(), self.changed.saturating_since(self.start))
    }

    /// Adds what was recorded in the time right after this.
    ///
    /// # Panics
    /// If the other has fewer flows.
    pub fn append(&mut self, other: Recorder) {
        for (flow, more) in self.flows.iter_mut().zip(other.flows) {
            flow.first = flow.first.min(more.first);
            flow.last = flow.last.max(more.last);
            for (error, count) in more.errors {
                *flow.errors.entry(error).or_default() += count;
            }
            for (kind, more) in flow.kinds.iter_mut().zip(more.kinds) {
                let Some(more) = more else { continue };
                let Some(record) = kind else {
                    *kind = Some(more);
                    continue;
                };
                if record.e2e.is_some() || more.e2e.is_some() {
                    let e2e = record.e2e.get_or_insert_with(|| record.lat.clone());
                    e2e.merge(more.e2e());
                }
                record.bytes += more.bytes;
                record.lat.merge(&more.lat);
                record.breakdown.merge(&more.breakdown);
            }
        }
        self.slowest.append(other.slowest);
        self.end = self.end.max(other.end);
        self.failed_ps += other.failed_ps;
        self.early_ps += other.early_ps;
        // What was outstanding here went when the other's time began, and came there again.
        self.gone_less_come_ps = self.outstanding_ps().wrapping_add(other.gone_less_come_ps);
        self.outstanding = other.outstanding;
        self.changed = other.changed;
    }

    /// Commands issued and not completed.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// The results of one kind of command of a flow.
    pub fn side(&self, flow: usize, kind: Kind) -> Side {
        let seconds = self.flow_interval(flow).as_secs_f64();
        let flow = &self.flows[flow];
        let errors = flow.errors.iter().filter(|((of, _), _)| *of == kind);
        let errors = errors.map(|((_, status), &count)| (status.to_string(), count)).collect();
        let Some(record) = &flow.kinds[kind as usize] else {
            return Side { errors, ..Side::default() };
        };
        let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let ios = record.lat.count();
        Side {
            ios,
            bytes: record.bytes,
            iops: rate(ios),
            bw_bytes_per_s: rate(record.bytes),
            lat_ns: record.lat.latency(),
            e2e_ns: record.e2e().latency(),
            stages: record.breakdown.table(),
            lat_hdr: (ios > 0).then(|| record.lat.to_hdr()),
            errors,
        }
    }

    /// Where the time of all commands of all flows went.
    pub fn stages(&self) -> Vec<StageTime> {
        let mut all = Breakdown::default();
        self.flows
            .iter()
            .flat_map(|flow| flow.kinds.iter().flatten())
            .for_each(|record| all.merge(&record.breakdown));
        all.table()
    }

    /// The slowest commands, the slowest first.
    pub fn slowest(&self) -> Vec<SlowCommand> {
        self.slowest.told(&self.names)
    }

    /// The latency histogram (from insertion into the submission queue) of one kind of
    /// command of a flow; `None` if there was none.
    pub fn latencies(&self, flow: usize, kind: Kind) -> Option<&Histogram> {
        self.flows[flow].kinds[kind as usize].as_ref().map(|record| &record.lat)
    }
}

/// A sum over time as a mean over `interval`.
fn per(sum_ps: u128, interval: Span) -> f64 {
    if interval.is_zero() { 0.0 } else { sum_ps as f64 / interval.as_ps() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::io::{Operation, QueueId, Tag};
    use mynah_stamp::StageSpans;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn completion(rung: Time, spans: &[(Stage, Span)]) -> Completion {
        let mut stages = StageSpans::default();
        spans.iter().for_each(|&(stage, span)| stages.add(stage, span));
        Completion {
            at: rung + stages.total(),
            tag: Tag(0),
            queue: QueueId(1),
            status: Status::Success,
            rung,
            stages,
        }
    }

    fn us(us: u64) -> Time {
        Time::from_ns(us * 1_000)
    }

    #[test]
    fn sides_are_kept_apart_and_rates_use_the_measured_interval() {
        let mut recorder = Recorder::new(vec!["a".into(), "b".into()]);
        recorder.reset_at(us(1_000));
        let read = completion(us(1_900), &[(Stage::FlashArray, Span::from_us(100))]);
        recorder.record(0, Operation::Read, 4096, us(1_890), &read);
        let write = completion(us(1_000), &[(Stage::DataIn, Span::from_us(500))]);
        recorder.record(0, Operation::WriteThrough, 8192, us(1_000), &write);
        let side = recorder.side(0, Kind::Read);
        assert_eq!((side.ios, side.bytes), (1, 4096));
        assert_eq!(side.iops, 1_000.0);
        assert_eq!(side.bw_bytes_per_s, 4_096_000.0);
        assert_eq!(side.lat_ns.unwrap().mean, 100_000.0);
        assert_eq!(side.e2e_ns.unwrap().mean, 110_000.0);
        let stages: Vec<_> = side.stages.iter().map(|s| (s.stage.as_str(), s.mean_ns)).collect();
        assert_eq!(stages, [("host_queue", 10_000.0), ("flash_array", 100_000.0)]);
        assert_eq!(recorder.side(0, Kind::Write).ios, 1);
        assert_eq!(recorder.side(0, Kind::Trim), Side::default());
        assert_eq!(recorder.side(1, Kind::Read), Side::default());
        assert_eq!(recorder.mean_latency_ns(0), Some(300_000.0));
        assert_eq!(recorder.mean_latency_ns(1), None);
        assert_eq!(recorder.interval(), Span::from_us(1_000));
    }

    #[test]
    fn failures_are_counted_by_status_only() {
        let mut recorder = Recorder::new(vec!["a".into()]);
        let mut failed = completion(us(0), &[(Stage::Firmware, Span::from_us(2))]);
        failed.status = Status::LbaOutOfRange;
        recorder.record(0, Operation::Read, 4096, us(0), &failed);
        let side = recorder.side(0, Kind::Read);
        assert_eq!((side.ios, side.bytes, side.lat_ns), (0, 0, None));
        assert_eq!(side.errors, BTreeMap::from([("lba_out_of_range".to_owned(), 1)]));
        assert_eq!(recorder.completions(), 1);
        assert_eq!(recorder.stages(), []);
    }

    #[test]
    fn the_tail_shows_what_makes_commands_slow() {
        let mut recorder = Recorder::new(vec!["a".into()]);
        for n in 0..1_000 {
            let wait = if n % 100 == 0 { Span::from_us(900) } else { Span::ZERO };
            let read = [(Stage::DieWait, wait), (Stage::FlashArray, Span::from_us(100))];
            recorder.record(0, Operation::Read, 4096, us(n), &completion(us(n), &read));
        }
        let [wait, array] = &recorder.stages()[..] else { panic!("two stages") };
        assert_eq!((wait.stage.as_str(), wait.count), ("die_wait", 10));
        assert!((wait.mean_ns - 9_000.0).abs() < 1e-6);
        assert!((wait.tail_mean_ns - 900_000.0).abs() < 1e-6);
        assert!((wait.tail_share - 0.9).abs() < 1e-12);
        assert_eq!(wait.p99_ns, 0.0, "99 % of the commands do not wait");
        assert_eq!(array.count, 1_000);
        assert!((array.p99_ns / 100_000.0 - 1.0).abs() < 1.0 / 128.0);
        assert!((array.share - 100.0 / 109.0).abs() < 1e-12);
    }

    #[test]
    fn littles_law_holds_across_a_reset() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut recorder = Recorder::new(vec!["a".into()]);
        // (time, completion or none for an issue), in order of time.
        let mut happenings = Vec::new();
        for _ in 0..2_000 {
            let rung = Time::from_ps(rng.random_range(0..10_000_000_000));
            let span = Span::from_ps(rng.random_range(1..500_000_000));
            let done = completion(rung, &[(Stage::FlashArray, span)]);
            happenings.push((rung, None));
            happenings.push((done.at, Some(done)));
        }
        happenings.sort_by_key(|&(at, _)| at);
        let half = happenings.len() / 2;
        for (n, (at, done)) in happenings.into_iter().enumerate() {
            if n == half {
                recorder.reset_at(at);
                assert!(recorder.outstanding() > 0);
            }
            match done {
                None => recorder.issued(at),
                Some(done) => recorder.record(0, Operation::Read, 512, done.rung, &done),
            }
        }
        assert_eq!(recorder.outstanding(), 0);
        assert_eq!(recorder.outstanding_ps(), recorder.latency_ps());
        assert_eq!(recorder.mean_outstanding(), recorder.littles_law_outstanding());
    }

    /// Run with `cargo test --release -p mynah-lab -- --ignored --nocapture what_recording`.
    #[test]
    #[ignore = "a measurement"]
    fn what_recording_costs() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut span = |from, to| Span::from_ps(rng.random_range(from..to));
        let completions: Vec<_> = (0..4096)
            .map(|n| {
                let wait = if n % 3 == 0 { Span::ZERO } else { span(1_000, 400_000_000) };
                let channel = if n % 5 < 2 { Span::ZERO } else { span(1_000, 20_000_000) };
                completion(
                    us(n),
                    &[
                        (Stage::SubmissionQueue, span(100_000, 2_000_000)),
                        (Stage::CommandFetch, span(600_000, 700_000)),
                        (Stage::Firmware, Span::from_ns(500)),
                        (Stage::DieWait, wait),
                        (Stage::FlashCommand, Span::from_ns(300)),
                        (Stage::FlashArray, Span::from_us(60)),
                        (Stage::ChannelWait, channel),
                        (Stage::FlashTransfer, Span::from_ns(3_400)),
                        (Stage::DataOut, span(1_200_000, 3_000_000)),
                        (Stage::Completion, span(100_000, 900_000)),
                    ],
                )
            })
            .collect();
        let mut recorder = Recorder::new(vec!["reader".into(), "writer".into()]);
        let mut round = || {
            let clock = std::time::Instant::now();
            for _ in 0..500 {
                for (n, done) in completions.iter().enumerate() {
                    recorder.issued(done.rung);
                    recorder.record(n & 1, Operation::Read, 4096, done.rung, done);
                }
                std::hint::black_box(&mut recorder);
            }
            clock.elapsed().as_nanos() as f64 / (500.0 * completions.len() as f64)
        };
        let best = (0..25).map(|_| round()).fold(f64::INFINITY, f64::min);
        println!("{best:.1} ns to issue and record one command of 8 to 10 stages");
    }
}
