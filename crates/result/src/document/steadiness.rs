//! Whether what a run measured is of a drive at rest: the turnover of its blocks, the write
//! amplification that was computed beside the one that was measured, and a verdict.

use mynah_model::stats::Counters;
use mynah_model::turnover::{Mark, Turnover};
use mynah_model::{Drive, Policies};
use mynah_stamp::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shares by which blocks filled and blocks collected may lie apart.
const DRIFT_MAX: f64 = 0.05;
/// How far write amplification of one half of a run may lie from that of the other, beside what is
/// chance.
const WAF_OFF_MAX: f64 = 0.03;
/// How far it may lie from what was computed before something has to be said. Either may be off: what
/// is computed is within 5 % of drives that were really written, mostly.
const COMPUTED_OFF_MAX: f64 = 0.08;
/// The share of what is written by which the valid data may grow or shrink, beside what is chance: on
/// a drive with 8 % of spare flash, that is 4 % of the spare when everything has been written once.
const GROWTH_MAX: f64 = 0.003;
/// Standard error of write amplification with which something can be said about it in results.
const ERROR_MAX: f64 = 0.025;
/// Share of padding in programs from which on what was computed for full pages does not hold.
const PADDED_MAX: f64 = 0.01;
/// Parts of a run that its standard error is taken from, at least.
const PARTS_MIN: usize = 8;

/// Whether a run was of a drive at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// Collection kept up with writes, and amplified them as it will go on to do.
    #[serde(rename = "steady")]
    Steady,
    /// The drive is on its way to another state.
    #[serde(rename = "not steady")]
    NotSteady,
    /// Too few blocks were collected.
    #[serde(rename = "too short")]
    TooShort,
}

impl Verdict {
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Steady => "steady",
            Verdict::NotSteady => "not steady",
            Verdict::TooShort => "too short",
        }
    }
}

/// The turnover of a drive's blocks during a measurement, and what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steadiness {
    /// Whether the drive was at rest.
    pub verdict: Verdict,
    /// Why it was not, or why that cannot be said; null if it was.
    pub reason: Option<String>,
    /// Write amplification of garbage collection alone that was computed for these writes: units
    /// programmed for each that was not moved; null if none was computed.
    pub waf_expected: Option<f64>,
    /// The same as it was measured; null without programs.
    pub waf_collection: Option<f64>,
    /// Blocks that were emptied and erased.
    pub blocks_collected: u64,
    /// Blocks that were opened to be filled.
    pub blocks_filled: u64,
    /// Free blocks when the measurement began, and when it ended.
    pub free_blocks: [u64; 2],
}

/// How a drive settled before a measurement: the same load, or random writes, timed and not
/// measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settling {
    /// For how long on the drive's clock.
    pub ns: f64,
    /// Commands completed in that time.
    pub requests: u64,
    /// Events that the model processed in that time.
    pub events: u64,
    /// Whether the drive was at rest when the measurement began.
    pub verdict: Verdict,
    /// Why it was not, or why that could not be said; null if it was.
    pub reason: Option<String>,
    /// Whether it was random writes that it settled under (`steady:random`), and not the run's own
    /// flows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub random_writes: bool,
}

/// How a drive settled before a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// For how long on the drive's clock.
    pub time: Span,
    /// Commands completed in that time.
    pub requests: u64,
    /// Events that the model processed.
    pub events: u64,
    /// How the drive was in the last half of it.
    pub end: Steadiness,
    /// Under random writes, and not under the run's own flows.
    pub random_writes: bool,
}

impl From<Settled> for Settling {
    fn from(settled: Settled) -> Settling {
        Settling {
            ns: settled.time.as_ns_f64(),
            requests: settled.requests,
            events: settled.events,
            verdict: settled.end.verdict,
            reason: settled.end.reason,
            random_writes: settled.random_writes,
        }
    }
}

/// What of a drive the judgement depends on.
#[derive(Clone, Copy, Debug)]
pub struct Grounds {
    /// Number of blocks of the drive.
    pub(crate) blocks: u64,
    /// The write amplification that was computed, if it holds for what was written.
    pub(crate) expected: Option<f64>,
    /// The standard error of write amplification, relative to it, from which on nothing is said.
    pub(crate) error_max: f64,
}

impl Grounds {
    /// Those of `drive`, which counted from `before` to `after`. What was computed is for full
    /// pages: it does not hold for a run that programmed many others.
    pub fn new(
        drive: &Drive<impl Policies>,
        [before, after]: [&Counters; 2],
        expected: Option<f64>,
        error_max: f64,
    ) -> Grounds {
        let programmed = after.flash_units_programmed - before.flash_units_programmed;
        let padded = (after.padded_units - before.padded_units) as f64;
        Grounds {
            blocks: drive.config().geometry.blocks(),
            expected: expected.filter(|_| padded < PADDED_MAX * programmed.max(1) as f64),
            error_max,
        }
    }
}

impl Steadiness {
    /// What the `turnover` of a measurement on `drive` says, in which it counted from `before` to
    /// `after`, if `expected` was computed. `None` where nothing was written, or what is written
    /// turns nothing over.
    pub fn of(
        drive: &Drive<impl Policies>,
        turnover: &Turnover,
        [before, after]: [&Counters; 2],
        expected: Option<f64>,
    ) -> Option<Steadiness> {
        let written = after.host_units_written > before.host_units_written;
        if !written || drive.config().flash.rewritable {
            return None;
        }
        let grounds = Grounds::new(drive, [before, after], expected, ERROR_MAX);
        Some(Steadiness { waf_expected: expected, ..Steadiness::judge(turnover, grounds) })
    }

    /// The verdict on a turnover.
    pub fn judge(turnover: &Turnover, grounds: Grounds) -> Steadiness {
        let filled = turnover.planes.iter().map(|plane| plane.filled).sum();
        let waf = turnover.now.amplification_since(&Mark::default());
        let (verdict, reason) = match verdict(turnover, grounds, filled, waf) {
            Ok(()) => (Verdict::Steady, None),
            Err((verdict, reason)) => (verdict, Some(reason)),
        };
        Steadiness {
            verdict,
            reason,
            waf_expected: grounds.expected,
            waf_collection: waf,
            blocks_collected: turnover.now.collected,
            blocks_filled: filled,
            free_blocks: turnover.free_blocks,
        }
    }
}

/// Judges; what stands in the way of steadiness, or of saying so.
fn verdict(
    turnover: &Turnover,
    grounds: Grounds,
    filled: u64,
    waf: Option<f64>,
) -> Result<(), (Verdict, String)> {
    let not_steady = |reason: String| Err((Verdict::NotSteady, reason));
    let collected = turnover.now.collected;
    let blocks = |count: u64| format!("{count} block{}", if count == 1 { "" } else { "s" });
    // A block is opened at one moment and collected at another: as their moments go, planes that
    // are in balance have up to a block more or less, and they may go in step.
    let drift = filled as f64 - collected as f64;
    let planes = turnover.planes.len() as f64;
    let drifts = drift.abs() > DRIFT_MAX * filled as f64;
    if drifts && drift.abs() > planes {
        let [from, to] = turnover.free_blocks;
        let how = if drift > 0.0 { "fall" } else { "rise" };
        return not_steady(format!(
            "free blocks {how} ({from} to {to}): {} filled, {collected} collected",
            blocks(filled)
        ));
    }
    // Each write to an address without data, and each trim of one with data, changes what the others
    // have to share. In balance their number is that of a random walk.
    let new = turnover.now.units_programmed.saturating_sub(turnover.now.units_moved) as f64;
    let [from, to] = turnover.valid_units;
    let grown = to as f64 - from as f64;
    if grown.abs() > GROWTH_MAX * new + 5.0 * new.sqrt() {
        let how = if grown > 0.0 { "grows" } else { "shrinks" };
        return not_steady(format!("what it holds {how}: {from} mapped units, then {to}"));
    }
    let idle =
        |plane: &&mynah_model::turnover::PlaneTurnover| plane.collected == 0 && plane.filled >= 3;
    let idle = turnover.planes.iter().filter(idle).count();
    if idle > 0 && collected > 0 {
        return not_steady(format!("{idle} of {planes} planes fill blocks and collect none"));
    }
    let error = waf.map_or(f64::INFINITY, |waf| standard_error(turnover) / waf);
    let too_few = || {
        let what = match collected {
            0 => "no block collected".to_owned(),
            _ if error.is_finite() && error > grounds.error_max => {
                let known = error * 100.0;
                format!("{} collected, WAF known to {known:.0} %", blocks(collected))
            }
            _ => format!("{} collected", blocks(collected)),
        };
        Err((Verdict::TooShort, what))
    };
    let Some(waf) = waf.filter(|_| collected > 0) else { return too_few() };
    let halves = halves(turnover);
    if let Some(expected) = grounds.expected {
        let off = (waf / expected - 1.0).abs();
        let sure = error <= grounds.error_max || off > 4.0 * error;
        // What a drive does when all its blocks have been turned over says more.
        let outdone = collected >= grounds.blocks;
        if off > COMPUTED_OFF_MAX + 2.0 * error && sure && !outdone {
            // Either may be wrong: the one that was computed, or the one that so few blocks show.
            let what = format!("WAF of collection {waf:.2}, where {expected:.2} was computed");
            return Err((Verdict::TooShort, what));
        }
    }
    if drifts || error > grounds.error_max {
        return too_few();
    }
    if let Some([first, second]) = halves
        && (second / first - 1.0).abs() > WAF_OFF_MAX + 4.0 * error
    {
        return not_steady(format!(
            "WAF of collection {first:.2} in the first half, {second:.2} in the second"
        ));
    }
    Ok(())
}

/// The amplification of the parts between marks, and how many units each programmed.
fn parts(turnover: &Turnover) -> Vec<(f64, f64)> {
    let mut from = Mark::default();
    let mut parts = vec![];
    for mark in &turnover.marks {
        if let Some(waf) = mark.amplification_since(&from) {
            parts.push((waf, (mark.units_programmed - from.units_programmed) as f64));
            from = *mark;
        }
    }
    parts
}

/// The standard error of write amplification over the whole turnover: of means of [`PARTS_MIN`] to
/// twice as many longer parts, whose chance is about independent.
fn standard_error(turnover: &Turnover) -> f64 {
    let parts = parts(turnover);
    let group = parts.len() / PARTS_MIN;
    if group == 0 {
        return f64::INFINITY;
    }
    let means: Vec<f64> = parts
        .chunks_exact(group)
        .map(|chunk| {
            let programmed: f64 = chunk.iter().map(|part| part.1).sum();
            let new: f64 = chunk.iter().map(|(waf, programmed)| programmed / waf).sum();
            programmed / new
        })
        .collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let squares: f64 = means.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

/// The amplification of both halves, by blocks collected.
fn halves(turnover: &Turnover) -> Option<[f64; 2]> {
    let middle = turnover.marks.iter().find(|mark| mark.collected * 2 >= turnover.now.collected)?;
    let first = middle.amplification_since(&Mark::default())?;
    Some([first, turnover.now.amplification_since(middle)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::turnover::PlaneTurnover;

    /// Sixteen planes that have filled and collected so many blocks each; write amplification of
    /// each of sixteen parts.
    fn turnover(filled: u64, collected: u64, waf: impl Fn(usize) -> f64) -> Turnover {
        let mut now = Mark::default();
        let mut marks = vec![];
        for part in 0..16 {
            let new = 1000.0;
            now.collected += collected;
            now.units_programmed += (new * waf(part)) as u64;
            now.units_moved += (new * (waf(part) - 1.0)) as u64;
            marks.push(now);
        }
        Turnover {
            planes: vec![PlaneTurnover { filled, collected }; 16],
            free_blocks: [1000, 1000 + 16 * collected - 16 * filled],
            valid_units: [50_000; 2],
            marks,
            now,
        }
    }

    fn judge(turnover: &Turnover, expected: Option<f64>) -> (Verdict, String) {
        let grounds = Grounds { blocks: 16 * 100, expected, error_max: ERROR_MAX };
        let judged = Steadiness::judge(turnover, grounds);
        (judged.verdict, judged.reason.unwrap_or_default())
    }

    /// Some chance: 2 % up and down by turns.
    fn about(waf: f64) -> impl Fn(usize) -> f64 {
        move |part| waf * if part.is_multiple_of(2) { 0.98 } else { 1.02 }
    }

    #[test]
    fn what_is_in_balance_and_as_computed_is_steady() {
        assert_eq!(judge(&turnover(20, 20, about(4.0)), Some(4.05)).0, Verdict::Steady);
        assert_eq!(judge(&turnover(20, 20, about(4.0)), None).0, Verdict::Steady);
    }

    #[test]
    fn free_blocks_that_fall_are_no_balance() {
        let (verdict, reason) = judge(&turnover(20, 10, about(4.0)), Some(4.0));
        assert_eq!(verdict, Verdict::NotSteady);
        assert_eq!(reason, "free blocks fall (1000 to 840): 320 blocks filled, 160 collected");
        // Nothing is collected yet, though much is filled.
        assert_eq!(judge(&turnover(9, 0, |_| 1.0), Some(4.0)).0, Verdict::NotSteady);
    }

    #[test]
    fn a_plane_that_collects_nothing_is_not_at_rest() {
        let mut turnover = turnover(20, 20, about(4.0));
        turnover.planes[3] = PlaneTurnover { filled: 5, collected: 0 };
        let (verdict, reason) = judge(&turnover, Some(4.0));
        assert_eq!((verdict, &reason[..10]), (Verdict::NotSteady, "1 of 16 pl"));
    }

    #[test]
    fn amplification_that_is_not_the_computed_one_is_not_believed_at_once() {
        let (verdict, reason) = judge(&turnover(20, 20, about(4.0)), Some(8.0));
        assert_eq!(verdict, Verdict::TooShort);
        assert_eq!(reason, "WAF of collection 4.00, where 8.00 was computed");
        // When everything has been turned over, what is measured is believed.
        assert_eq!(judge(&turnover(100, 100, about(4.0)), Some(8.0)).0, Verdict::Steady);
    }

    #[test]
    fn data_that_grow_or_shrink_are_no_balance() {
        let judged = |to| {
            let mut turnover = turnover(20, 20, about(4.0));
            turnover.valid_units[1] = to;
            judge(&turnover, Some(4.05))
        };
        // Of 16,000 units written some 600 more or fewer are chance.
        for to in [49_500, 50_500] {
            assert_eq!(judged(to).0, Verdict::Steady);
        }
        let (verdict, reason) = judged(53_000);
        assert_eq!(verdict, Verdict::NotSteady);
        assert_eq!(reason, "what it holds grows: 50000 mapped units, then 53000");
        assert_eq!(judged(48_000).0, Verdict::NotSteady);
    }

    #[test]
    fn halves_that_differ_are_not_at_rest() {
        let rising = |part| 4.0 + 0.2 * part as f64;
        let mut lots = turnover(20, 20, rising);
        // A long run: many parts, each alike.
        lots.marks = (0..256)
            .scan(Mark::default(), |now, part| {
                now.collected += 1;
                let waf = if part < 128 { 4.0 } else { 5.0 };
                now.units_programmed += (1000.0 * waf) as u64;
                now.units_moved += (1000.0 * (waf - 1.0)) as u64;
                Some(*now)
            })
            .collect();
        lots.now = lots.marks[255];
        let (verdict, _) = judge(&lots, None);
        assert_ne!(verdict, Verdict::Steady);
    }

    #[test]
    fn few_blocks_say_nothing() {
        let mut few = turnover(0, 0, |_| 4.0);
        few.marks.clear();
        few.now = Mark { collected: 2, units_programmed: 100, units_moved: 75 };
        few.planes[0] = PlaneTurnover { filled: 2, collected: 2 };
        let few = |few: &Turnover| judge(few, Some(4.0));
        let mut none = turnover(0, 0, |_| 1.0);
        none.marks.clear();
        assert_eq!(few(&none), (Verdict::TooShort, "no block collected".to_owned()));
    }

    #[test]
    fn wide_chance_is_too_short() {
        let wild = |part: usize| if part.is_multiple_of(2) { 2.0 } else { 6.0 };
        assert_eq!(judge(&turnover(20, 20, wild), None).0, Verdict::Steady);
        let wilder = |part: usize| if part < 2 { 2.0 } else { 4.0 + (part % 5) as f64 };
        assert_eq!(judge(&turnover(20, 20, wilder), None).0, Verdict::TooShort);
    }
}
