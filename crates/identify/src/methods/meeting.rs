//! Two reads at a time: whether they meet in a die.
//!
//! Two reads of one die take longer together than alone, by the time of the array; two reads of
//! different dies do not (Chen, Lee and Zhang, HPCA 2011, section 4). The slower one goes first, and
//! the other so much later that both would end together: then what is beyond that is the meeting.
//! What a meeting looks like is seen with two reads of one page, which can be nowhere else.

use super::Known;
use super::reads::{SMALL, settled};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe};
use crate::stats::{self, Split};

/// Pairs of random addresses.
const PAIRS: usize = 600;
/// Pairs of one page.
const CONTROLS: usize = 60;

/// What reads that do not meet may take longer, as a share of what those that do take: the front end takes one
/// after the other as well.
const APART_MOST: f64 = 1.0 / 3.0;

pub(super) const WHAT: (&str, &str) = ("die_conflict", "what a read waits for another of its die");

/// An address, and how long a read takes there, in us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) alone: f64,
}

impl Spot {
    /// A read of `bytes` at `offset`, timed.
    pub(super) fn at(probe: &mut Probe<'_>, offset: u64, bytes: u64) -> Result<Spot, Ended> {
        Ok(Spot { offset, bytes, alone: settled(probe, offset, bytes)? })
    }

    /// The same, timed once more: the less disturbed of both times.
    pub(super) fn better(self, probe: &mut Probe<'_>) -> Result<Spot, Ended> {
        let again = self.again(probe)?;
        Ok(Spot { alone: self.alone.min(again.alone), ..self })
    }

    /// The same, timed anew: drives and hosts drift.
    pub(super) fn again(self, probe: &mut Probe<'_>) -> Result<Spot, Ended> {
        Spot::at(probe, self.offset, self.bytes)
    }
}

/// How two reads that meet in a die are told from two that do not, in us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// What is beyond it is a meeting.
    pub(super) threshold: f64,
    /// What reads that do not meet take longer.
    pub(super) apart: f64,
    /// What reads that meet take longer.
    pub(super) together: f64,
    /// How much later than alone the second of two reads ends that are asked at once and do not meet:
    /// one command behind the other in the front end.
    pub(super) behind: f64,
    /// How many pairs of random addresses met, of how many.
    pub(super) met: (usize, usize),
}

impl Meeting {
    /// Whether reads of these two meet in a die. Noise makes answers late and never early, so where
    /// there is any, what looks like a meeting is looked at again.
    pub(super) fn meet(&self, probe: &mut Probe<'_>, a: Spot, b: Spot) -> Result<bool, Ended> {
        for _ in 0..probe.repeats().min(2) {
            if beyond(probe, a, b)? <= self.threshold {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Samples of which none is longer than what `controls` can explain: beyond the upper fence (Tukey,
/// Exploratory Data Analysis, 1977) is an outlier, which is set back to it. So is one of the twentieth that is
/// shortest: no two reads take less than one, but the one may have been disturbed.
fn fenced(samples: &[f64], controls: &[f64]) -> Vec<f64> {
    let (low, high) = (stats::quantile(controls, 0.25), stats::quantile(controls, 0.75));
    let fence = high + 1.5 * (high - low);
    let least = stats::quantile(samples, 0.05).min(fence);
    samples.iter().map(|it| it.clamp(least, fence)).collect()
}

/// How much longer than the slower of two reads both take, when they would end together.
pub(super) fn beyond(probe: &mut Probe<'_>, a: Spot, b: Spot) -> Result<f64, Ended> {
    let (slow, fast) = if a.alone >= b.alone { (a, b) } else { (b, a) };
    let asks = [Ask::read(slow.offset, slow.bytes), Ask::read(fast.offset, fast.bytes)];
    probe.least(|probe| {
        let taken = probe.one_after_another(&asks, &[slow.alone - fast.alone])?;
        Ok(taken[0].until.max(taken[1].until) - slow.alone)
    })
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let block = probe.block_bytes();
    let (mut controls, mut pairs, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CONTROLS {
        let offset = probe.anywhere(SMALL, SMALL);
        let a = Spot::at(probe, offset, block)?;
        let b = Spot::at(probe, offset + (SMALL - block), block)?;
        controls.push(beyond(probe, a, b)?);
    }
    for _ in 0..PAIRS {
        let (a, b) = (probe.anywhere(SMALL, SMALL), probe.anywhere(SMALL, SMALL));
        let a = Spot::at(probe, a, block)?;
        let b = Spot::at(probe, b, block)?;
        pairs.push(beyond(probe, a, b)?);
        let asks = [Ask::read(a.offset, a.bytes), Ask::read(b.offset, b.bytes)];
        let second = probe.middle(|probe| Ok(probe.together(&asks)?[1].latency()))?;
        behind.push(second - b.alone);
    }
    let all: Vec<f64> = controls.iter().chain(&pairs).copied().collect();
    let split = stats::split(&fenced(&all, &controls)).filter(Split::is_real);
    let picture = Picture {
        title: "Two reads at a time".to_owned(),
        x: "share of pairs (%)".to_owned(),
        y: "longer than alone (us)".to_owned(),
        series: [("random addresses", &pairs), ("one page", &controls)]
            .map(|(name, of)| (name.to_owned(), stats::distribution(of)))
            .into(),
    };
    let method = "Chen, Lee and Zhang, HPCA 2011, section 4";
    let Some(split) = split else {
        let because = format!(
            "two reads of one page take {} longer than one, and two of random addresses {}: one of \
             these alone would tell nothing",
            Value::Time(stats::median(&controls)),
            Value::Time(stats::median(&pairs)),
        );
        findings.cannot(WHAT, because);
        return Ok(());
    };
    let seen = controls.iter().filter(|it| **it > split.threshold).count();
    if seen * 20 < controls.len() * 19 {
        let because = format!(
            "only {seen} of {CONTROLS} pairs of reads of one page take longer than the rest: something \
             answers in place of the flash, the front end is slower than the flash, or all meet, as \
             where there is one die"
        );
        findings.cannot(WHAT, because);
        return Ok(());
    }
    let low: Vec<f64> = pairs.iter().copied().filter(|it| *it <= split.threshold).collect();
    let (apart, together) = (stats::median(&low), stats::median(&controls));
    if apart > APART_MOST * together {
        let because = format!(
            "two reads of one page take {} longer than one, and others {}: what the front end takes \
             for a command hides the dies",
            Value::Time(together),
            Value::Time(apart),
        );
        findings.cannot(WHAT, because);
        return Ok(());
    }
    let apart_only = pairs.iter().zip(&behind).filter(|(it, _)| **it <= split.threshold);
    let behind: Vec<f64> = apart_only.map(|(_, behind)| *behind).collect();
    let behind = stats::median(&behind).max(0.0);
    let met = PAIRS - low.len();
    let threshold = split.threshold;
    known.meeting = Some(Meeting { threshold, apart, together, behind, met: (met, PAIRS) });
    let evidence = format!(
        "{met} of {PAIRS} pairs of random addresses and {seen} of {CONTROLS} of one page take {} \
         longer than one read, the others {}",
        Value::Time(together),
        Value::Time(apart.max(0.0)),
    );
    let (low, high) = stats::median_interval(&controls);
    let between = Some((Value::Time(low), Value::Time(high)));
    findings.found(WHAT, Value::Time(together), between, evidence, (method, Some(picture)));
    Ok(())
}
