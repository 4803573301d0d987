//! How long a run lasts whose flows say `runtime = "auto"`: until what is asked for is known as
//! precisely as was asked, or until very much was simulated.
//!
//! What is asked for are I/Os a second and the mean latency of every such flow and kind of command,
//! and the drive's write amplification. How well they are known is found by the method of batch
//! means (`batch_means.rs`), at the ends of batches. Of a drive that starts from its steady
//! state and is written to, so many blocks are collected besides that its verdict can be said, and
//! that each plane has gone round its cycle of filling and collecting a block once a batch: what
//! collection does to a load comes seldom and in bursts, and parts of a cycle are not independent.
//!
//! All is decided by the drive's clock and by counts, so one seed gives the same bytes everywhere.
//! A run that was ended at some time is the run of that `runtime`.

use crate::batch_means::{BATCHES_MIN, BatchMeans, Ratio};
use crate::document::{Estimate, Precision, Steadiness, Verdict};
use crate::{kind::Kind, recorder::Recorder};
use mynah_model::stats::Counters;
use mynah_model::{Drive, Policies};
use mynah_stamp::{Span, Time};
use mynah_workload::quantity::{parse_share, percent};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How long the first batches are.
const BATCH: Span = Span::from_ms(1);
/// Batches between two looks. Each look is a chance to end by luck, so they are few.
const LOOK_EVERY: usize = 4;
/// Commands that a run completes at least: of fewer, what is slow seldom may be missing altogether.
const REQUESTS_MIN: u64 = 1 << 14;
/// Commands and events after which a run ends by itself, at the end of a batch: two to five CPU
/// seconds on most drives.
pub const REQUESTS_MAX: u64 = 4_000_000;
/// See [`REQUESTS_MAX`]: the limit on events of the drive.
pub const EVENTS_MAX: u64 = 20_000_000;
/// Time on the drive's clock after which a run ends by itself: of a load of one request in a minute
/// little would be known by then, and it will not be soon.
pub const TIME_MAX: Span = Span::from_secs(24 * 3600);
/// Widest relative interval that one of several repeated runs is allowed. Intervals of very short
/// runs hold less often than their confidence level says.
const ALLOWED_MAX: f64 = 0.1;

/// A requested precision: half the confidence interval, and over how many runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// Half the confidence interval, relative to the mean.
    pub share: f64,
    /// Number of runs that are to reach it together.
    pub runs: u32,
}

impl Default for Goal {
    fn default() -> Goal {
        Goal { share: 0.02, runs: 1 }
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Goal, String> {
        match parse_share(text)? {
            share if share > 0.0 && share <= 0.5 => Ok(Goal { share, ..Goal::default() }),
            _ => Err(format!("`{text}` is not between 0 and 50 %; 2% is the default")),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&percent(self.share))
    }
}

impl Goal {
    /// The half-width that one run is allowed: the mean of `n` independent runs is more precise by
    /// the root of `n`.
    fn allowed(&self) -> f64 {
        (self.share * f64::from(self.runs).sqrt()).min(self.share.max(ALLOWED_MAX))
    }
}

/// When a run with `runtime = "auto"` ends: precision, and the flows that go on until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How precisely the figures are to be known.
    pub goal: Goal,
    /// The flows that go on until then, by number.
    pub flows: Vec<usize>,
    /// When the last of them begins, in picoseconds of the run: nothing is said before.
    pub begin_ps: u64,
    /// The drive starts from its steady state: what is written has to turn over enough for a verdict.
    pub steady: bool,
}

/// Estimates the figures of a run while it goes on, and ends it when they are precise enough.
pub struct Search {
    plan: Plan,
    /// The write amplification that was computed.
    expected: Option<f64>,
    names: Vec<String>,
    /// None before the first batch begins.
    means: Option<BatchMeans>,
    /// When the first batch begins, or the current one ends; [`Time::MAX`] before the measurement
    /// and after the end.
    until: Time,
    batch: Span,
    /// When the first batch began, and the drive's events by then.
    began: Time,
    events_before: u64,
    assessment: Assessment,
}

/// What is known at the last look at the batches.
#[derive(Default)]
struct Assessment {
    estimates: Vec<Estimate>,
    batches: usize,
    batch: Span,
    requests: u64,
    /// Measured time at that look, and the share of the needed measurement that it is.
    passed: Span,
    share: f64,
    reached: bool,
    bound_reached: bool,
}

impl Search {
    /// A search that begins; `expected` is the write amplification that was computed, if it was.
    pub fn new(plan: Plan, names: Vec<String>, expected: Option<f64>) -> Search {
        Search {
            plan,
            expected,
            names,
            means: None,
            until: Time::MAX,
            batch: BATCH,
            began: Time::ZERO,
            events_before: 0,
            assessment: Assessment::default(),
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The drive starts from its steady state, for which this write amplification was computed.
    pub fn starts_steady(&mut self, expected: Option<f64>) {
        (self.plan.steady, self.expected) = (true, expected);
    }

    /// The measurement begins: the ramp is over, or there is none.
    pub fn begin(&mut self, recorder: &Recorder, drive: &Drive<impl Policies>) {
        self.until = drive.now().max(Time::from_ps(self.plan.begin_ps));
        if self.until == drive.now() {
            self.first_batch(drive.now(), recorder, drive);
        }
    }

    /// When the run is to be looked at: the instant before the batch ends, so that what happens at
    /// its end does not belong to it, as with a `runtime`.
    pub fn next(&self) -> Time {
        match self.until {
            Time::MAX => Time::MAX,
            until => Time::from_ps(until.as_ps() - 1),
        }
    }

    /// Called at [`Search::next`]; returns when the flows end, if they end now.
    pub fn look(&mut self, recorder: &Recorder, drive: &Drive<impl Policies>) -> Option<Time> {
        let (end, totals) = (self.until, self.totals(recorder, drive));
        let Some(means) = &mut self.means else {
            self.first_batch(end, recorder, drive);
            return None;
        };
        if means.end_batch(totals) {
            self.batch = self.batch.times(2);
        }
        let batches = means.batches();
        self.until = end + self.batch;
        let requests = recorder.completions();
        let bound_reached = requests >= REQUESTS_MAX
            || drive.events_processed() - self.events_before >= EVENTS_MAX
            || end.since(self.began) >= TIME_MAX;
        if !bound_reached && (batches < BATCHES_MIN || !batches.is_multiple_of(LOOK_EVERY)) {
            return None;
        }
        let estimates = self.estimates(recorder, drive);
        let allowed = self.plan.goal.allowed();
        let known = |estimate: &Estimate| estimate.half_width.is_some_and(|half| half <= allowed);
        let all_known = !estimates.is_empty() && estimates.iter().all(known);
        let reached = all_known && (requests >= REQUESTS_MIN || bound_reached);
        // The interval becomes narrower with the root of time.
        let progress =
            |half: f64| if half > 0.0 { (allowed / half) * (allowed / half) } else { 1.0 };
        let share =
            estimates.iter().map(|it| it.half_width.map_or(0.0, progress)).fold(1.0, f64::min);
        self.assessment = Assessment {
            estimates,
            batches,
            batch: self.batch,
            requests,
            passed: end.since(self.began),
            share: share.min(requests as f64 / REQUESTS_MIN as f64),
            reached,
            bound_reached: bound_reached && !reached,
        };
        let over = reached || bound_reached;
        if over {
            self.until = Time::MAX;
        }
        over.then_some(end)
    }

    /// How much of the way has been gone by `now`, 0 to 1: by what the last look has found, or
    /// towards the bound if that is nearer.
    pub fn done(&self, now: Time, requests: u64, drive: &Drive<impl Policies>) -> f64 {
        let events = drive.events_processed().saturating_sub(self.events_before);
        let passed = now.saturating_since(self.began).as_secs_f64();
        let looked = self.assessment.passed.as_secs_f64();
        let known = if looked > 0.0 { self.assessment.share * passed / looked } else { 0.0 };
        let by_bounds = [
            requests as f64 / REQUESTS_MAX as f64,
            events as f64 / EVENTS_MAX as f64,
            passed / TIME_MAX.as_secs_f64(),
        ];
        by_bounds.into_iter().fold(known, f64::max).min(0.99)
    }

    /// The precision that was reached, for the result.
    pub fn finish(self) -> Precision {
        let Assessment { estimates, batches, batch, requests, reached, bound_reached, .. } =
            self.assessment;
        let width = |estimate: &Estimate| estimate.half_width.unwrap_or(f64::INFINITY);
        let least = estimates.iter().max_by(|a, b| width(a).total_cmp(&width(b)));
        Precision {
            asked: self.plan.goal.share,
            allowed: self.plan.goal.allowed(),
            known: reached,
            bound_reached,
            half_width: least.and_then(|estimate| estimate.half_width),
            limiting: least.map(|estimate| estimate.name.clone()),
            batches: batches as u64,
            batch_ns: batch.as_ns_f64(),
            requests,
            estimates,
        }
    }

    fn first_batch(&mut self, now: Time, recorder: &Recorder, drive: &Drive<impl Policies>) {
        self.means = Some(BatchMeans::new(self.totals(recorder, drive)));
        self.events_before = drive.events_processed();
        self.began = now;
        self.until = now + self.batch;
    }

    /// Totals of all quantities, the drive's first, including those without commands.
    fn totals(&self, recorder: &Recorder, drive: &Drive<impl Policies>) -> Vec<Ratio> {
        let counters = drive.counters();
        let mut totals = vec![Ratio {
            sum: counters.flash_bytes_programmed().into(),
            weight: counters.host_bytes_written.into(),
        }];
        for (flow, kind) in self.sides() {
            let latencies = recorder.latencies(flow, kind);
            let count = latencies.map_or(0, |all| all.count()).into();
            totals.push(Ratio { sum: count, weight: self.until.as_ps().into() });
            totals.push(Ratio { sum: latencies.map_or(0, |all| all.sum_ps()), weight: count });
        }
        totals
    }

    fn sides(&self) -> impl Iterator<Item = (usize, Kind)> + use<'_> {
        let flows = self.plan.flows.iter();
        flows.flat_map(|&flow| Kind::ALL.into_iter().map(move |kind| (flow, kind)))
    }

    /// Estimates of all quantities that have values.
    fn estimates(&self, recorder: &Recorder, drive: &Drive<impl Policies>) -> Vec<Estimate> {
        let Some(means) = &self.means else { return Vec::new() };
        let mut all = Vec::new();
        for (at, (flow, kind)) in self.sides().enumerate() {
            if recorder.latencies(flow, kind).is_none_or(|all| all.count() == 0) {
                continue;
            }
            for (place, what) in [(1, "iops"), (2, "lat_ns mean")] {
                let name = format!("{} {} {what}", self.names[flow], kind.name());
                let half_width = means.half_width(2 * at + place);
                all.push(Estimate { name, half_width });
            }
        }
        let counters = drive.counters();
        if counters.host_bytes_written > 0 && !all.is_empty() {
            let counted = [&Counters::default(), &counters];
            let turnover = drive.turnover();
            let judged = Steadiness::of(drive, &turnover, counted, self.expected);
            let enough = BATCHES_MIN as u64 * u64::from(drive.config().geometry.planes());
            let too_few = judged.is_some_and(|judged| {
                judged.verdict == Verdict::TooShort || judged.blocks_collected < enough
            });
            let half_width = means.half_width(0).filter(|_| !(self.plan.steady && too_few));
            all.push(Estimate { name: "waf".to_owned(), half_width });
        }
        all
    }
}
