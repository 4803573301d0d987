//! When a run is in steady state, by SNIA's rule (SSS Performance Test Specification,
//! Enterprise, "Steady State Verification"): over the last five rounds the I/Os a second
//! differ by at most 20 % of their mean, and their best linear fit rises or falls by at most
//! 10 % of it. SNIA has twice the capacity written before that. Here the turnover of the blocks
//! over these rounds has to be that of a drive at rest ([`Steadiness`]): a cache that is being
//! filled, or spare blocks that are being used up, are even, too.

use crate::document::{Steadiness, Steady, Verdict};
use crate::recorder::Recorder;
use mynah_drive_file::units::Duration;
use mynah_model::stats::{Blame, Counters};
use mynah_model::turnover::Turnover;
use mynah_model::{Drive, Policies};
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

/// Rounds in the measurement window.
pub const WINDOW: usize = 5;
/// Rounds after which a search ends.
pub const ROUNDS_MAX: u64 = 25;
/// How far the rounds of the window may lie apart, and how much their linear fit may change,
/// relative to their mean.
const EXCURSION_MAX: f64 = 0.20;
const SLOPE_MAX: f64 = 0.10;

/// The excursion of the values and the change of their linear fit, both relative to their
/// mean.
fn spread(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    if mean <= 0.0 {
        return (0.0, 0.0);
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let middle = (n - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let x = at as f64 - middle;
        products += x * (value - mean);
        squares += x * x;
    }
    let slope = if squares > 0.0 { products / squares } else { 0.0 };
    ((high - low) / mean, (slope * (n - 1.0)).abs() / mean)
}

/// A completed measurement round.
struct Round {
    recorder: Recorder,
    /// The drive's counters when the round began.
    counters: Counters,
    blame: Vec<Blame>,
    turnover: Turnover,
}

/// A search for the steady state, round by round.
pub struct Rounds {
    every: Span,
    next: Time,
    counters: Counters,
    blame: Vec<Blame>,
    /// Turnover of the drive's blocks when the round began.
    turnover: Turnover,
    /// The last rounds, at most [`WINDOW`].
    last: VecDeque<Round>,
    iops: Vec<f64>,
    /// The rounds of the window are even, and so is what was turned over in them.
    reached: bool,
}

/// The measurement window that a search ended with, and its verdict.
pub struct SteadyWindow {
    /// What was recorded in the window.
    pub recorder: Recorder,
    /// The drive's counters when the window began.
    pub counters: Counters,
    /// The drive's blame when the window began.
    pub blame: Vec<Blame>,
    /// Turnover when the window began; `None` if no round was completed.
    pub from: Option<Turnover>,
    /// How the search went, for the result.
    pub steady: Steady,
}

impl Rounds {
    /// Rounds of this length; the first begins at `start`.
    pub fn new(every: Span, start: Time) -> Rounds {
        Rounds {
            every,
            next: start + every,
            counters: Counters::default(),
            blame: Vec::new(),
            turnover: Turnover::default(),
            last: VecDeque::new(),
            iops: Vec::new(),
            reached: false,
        }
    }

    /// When the current round ends.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The first round begins now, when the ramp is over and the drive counts anew.
    pub fn begin(&mut self, drive: &Drive<impl Policies>) {
        self.next = drive.now() + self.every;
        self.turnover = drive.turnover();
    }

    /// A round is over. Takes what was recorded, and leaves the recorder at the beginning of
    /// the next; whether the search is over: the drive is in steady state, or there were
    /// rounds enough. `expected` is the write amplification that was computed.
    pub fn close(
        &mut self,
        recorder: &mut Recorder,
        drive: &Drive<impl Policies>,
        expected: Option<f64>,
    ) -> bool {
        let now = drive.now();
        let finished = recorder.clone();
        recorder.reset_at(now);
        self.iops.push(finished.completions() as f64 / self.every.as_secs_f64());
        let counters = std::mem::replace(&mut self.counters, drive.counters());
        let blame = std::mem::replace(&mut self.blame, drive.blame());
        let turnover = std::mem::replace(&mut self.turnover, drive.turnover());
        self.last.push_back(Round { recorder: finished, counters, blame, turnover });
        if self.last.len() > WINDOW {
            self.last.pop_front();
        }
        self.next = now + self.every;
        self.reached = self.is_even() && self.is_turned_over(drive, expected);
        self.reached || self.iops.len() as u64 >= ROUNDS_MAX
    }

    /// Whether the drive was at rest in the window, where it turns anything over.
    fn is_turned_over(&self, drive: &Drive<impl Policies>, expected: Option<f64>) -> bool {
        let Some(first) = self.last.front() else { return false };
        let turnover = drive.turnover().since(&first.turnover);
        let counted = [&first.counters, &self.counters];
        Steadiness::of(drive, &turnover, counted, expected)
            .is_none_or(|judged| judged.verdict == Verdict::Steady)
    }

    fn is_even(&self) -> bool {
        let Some(from) = self.iops.len().checked_sub(WINDOW) else { return false };
        let (excursion, slope) = spread(&self.iops[from..]);
        self.iops[from..].iter().all(|iops| *iops > 0.0)
            && excursion <= EXCURSION_MAX
            && slope <= SLOPE_MAX
    }

    /// The measurement window; without a completed round, what `recorder` has.
    pub fn finish(self, recorder: Recorder) -> SteadyWindow {
        let window = &self.iops[self.iops.len().saturating_sub(WINDOW)..];
        let (excursion, slope) = spread(window);
        let steady = Steady {
            reached: self.reached,
            even: self.is_even(),
            rounds: self.iops.len() as u64,
            round_ns: self.every.as_ns_f64(),
            excursion,
            slope,
            iops: self.iops.clone(),
        };
        let mut rounds = self.last.into_iter();
        let Some(Round { recorder: first, counters, blame, turnover }) = rounds.next() else {
            let (counters, blame) = (Counters::default(), Vec::new());
            return SteadyWindow { recorder, counters, blame, from: None, steady };
        };
        let mut all = first;
        rounds.for_each(|round| all.append(round.recorder));
        SteadyWindow { recorder: all, counters, blame, from: Some(turnover), steady }
    }
}

impl Steady {
    /// Why no steady state was found; `unrest` says why the drive was not at rest, if so.
    pub fn why_not(&self, unrest: Option<&str>) -> String {
        match (self.even, unrest) {
            _ if self.rounds < WINDOW as u64 => format!(
                "not in steady state: the run ended after {} rounds of {}, and {WINDOW} of them say \
                 whether it is; a longer run (runtime, number_ios) helps",
                self.rounds,
                Duration(Span::from_ns(self.round_ns as u64)),
            ),
            (true, Some(reason)) => format!(
                "not in steady state after {} rounds: I/Os a second are even over the last ones, \
                 but the drive is not at rest: {reason}",
                self.rounds
            ),
            _ => format!(
                "not in steady state after {} rounds: over the last ones, I/Os a second lie \
                 {:.0} % apart (at most 20 %) and change by {:.0} % (at most 10 %)",
                self.rounds,
                self.excursion * 100.0,
                self.slope * 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_by_hand() {
        // Rising by one a round around 100: excursion 4 %, slope 4 %.
        let (excursion, slope) = spread(&[98.0, 99.0, 100.0, 101.0, 102.0]);
        assert!((excursion - 0.04).abs() < 1e-9 && (slope - 0.04).abs() < 1e-9);
        // A spike: excursion only.
        let (excursion, slope) = spread(&[100.0, 100.0, 130.0, 100.0, 100.0]);
        assert!(excursion > EXCURSION_MAX && slope < 1e-9);
        let mut rounds = Rounds::new(Span::from_ms(1), Time::ZERO);
        for (iops, steady) in [
            (vec![100.0; 4], false),
            (vec![100.0; 5], true),
            (vec![500.0, 300.0, 100.0, 100.0, 101.0, 99.0, 100.0], true),
            (vec![100.0, 104.0, 108.0, 112.0, 116.0], false),
            (vec![0.0; 9], false),
        ] {
            rounds.iops = iops.clone();
            assert_eq!(rounds.is_even(), steady, "{iops:?}");
        }
    }
}
