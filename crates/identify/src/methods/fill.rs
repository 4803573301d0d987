//! An SLC cache: flash that is used with one bit a cell takes what is written first.
//!
//! Pages with one bit are read faster: what has just been written is read, beside what was there before.
//! If it is faster, the drive is emptied, rests, and is written in order until the pace falls for good
//! (drives' own description: TurboWrite, Samsung 2013; the fill of reviewers, docs/slc.md; that SLC and
//! native pages differ in time: Cai et al., DATE 2012).

use super::Known;
use super::reads::settled;
use super::stored::{self, FLUSH};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ended, Probe, Taken};
use crate::stats;

/// The piece that is written and read: so little that it fits the smallest cache.
const PIECE: (u64, u64) = (256, 32 << 20);
/// Reads of it.
const READS: usize = 200;
/// How much faster than the fastest page what was written is, at least, as a share of the array's time.
const FASTER: f64 = 0.08;
/// Reads that are quicker than this share of the array's time longer than nothing come out of a cache.
const CACHED: f64 = 0.1;
/// The share of the reads that the flash has to answer.
const ANSWERED: f64 = 0.3;
/// A write of the fill.
const WRITE: u64 = 128 << 10;
/// Writes outstanding.
const DEPTH: usize = 16;
/// Writes whose pace is looked at together, as a share of the drive, and at least.
const STEP: (u64, u64) = (2000, 1 << 20);
/// How much slower the pace is behind the cache, at least.
const FALL: f64 = 0.7;
/// Steps behind the fall that have to be slower.
const BEHIND: usize = 12;
/// Steps on each side of one that its pace is the median of.
const SMOOTH: usize = 4;
/// What a write cache takes at most, of a large drive.
const CACHE: u64 = 512 << 20;
/// A drive is large beyond this.
const LARGE: u64 = 32 << 30;
/// What is written behind it, beside half as much as before it.
const MORE: u64 = 192 << 20;
/// A rest in which a write cache is empty again, and an SLC cache is not, us.
const SHORT: f64 = 2e5;
/// Smaller ones are filled twice,
const AGAIN: u64 = 2 << 30;
/// and the two may differ by this share.
const AGREED: f64 = 0.12;
/// Blocks that were partly filled before the burst count as full: this much more may fit.
const OPEN: f64 = 1.25;
/// The most that is written.
const MOST: u64 = 192 << 30;

const SLC: (&str, &str) = ("slc", "an SLC cache: what is written first has one bit a cell");
const READ: (&str, &str) = ("slc.read", "time in which the array reads a page with one bit a cell");
const SIZE: (&str, &str) =
    ("slc.burst", "what the SLC cache takes after a rest, when all was given up");
const METHOD: &str = "Cai et al., DATE 2012; Samsung, TurboWrite, 2013";

/// Where what is written goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Cells {
    /// It cannot be told.
    #[default]
    Unknown,
    /// Where it stays.
    Native,
    /// First to cells of one bit, of which a block is read in less than so many us.
    Slc { below: f64 },
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let (fixed, times) = match (findings.value("fixed_latency"), findings.value("flash.read")) {
        (Some(Value::Time(fixed)), Some(Value::Times(times))) if !times.is_empty() => {
            (*fixed, times.clone())
        }
        _ => {
            let because = "it is not known how fast the flash is read";
            findings.cannot_any(&[SLC, READ, SIZE], because);
            return Ok(());
        }
    };
    let fastest = stats::quantile(&known.reads.blocks, 0.02);
    stored::empty_all(probe, known)?;
    probe.rest(stored::IDLE)?;
    let written = just_written(probe)?;
    let answered: Vec<f64> =
        written.iter().copied().filter(|it| *it > fixed + CACHED * times[0]).collect();
    if (answered.len() as f64) < ANSWERED * written.len() as f64 {
        let because = "reads of what was just written do not reach the flash";
        findings.cannot_any(&[SLC, READ, SIZE], because);
        return Ok(());
    }
    let middle = stats::median(&answered);
    let evidence = format!(
        "a block that was just written is read in {}, one that was there before in {} and more",
        Value::Time(middle),
        Value::Time(fastest),
    );
    let picture = Picture {
        title: "Single reads of a block".to_owned(),
        x: "share of reads (%)".to_owned(),
        y: "latency (us)".to_owned(),
        series: [("just written", &answered), ("there before", &known.reads.blocks)]
            .map(|(name, of)| (name.to_owned(), stats::distribution(of)))
            .into(),
    };
    let is_slc = fastest - middle > FASTER * times[0];
    known.cells =
        if is_slc { Cells::Slc { below: (fastest + middle) / 2.0 } } else { Cells::Native };
    let method = (METHOD, Some(picture));
    findings.found(SLC, Value::Yes(is_slc), None, evidence.clone(), method);
    if !is_slc {
        findings.cannot_any(&[READ, SIZE], "there is none that shows");
        return Ok(());
    }
    let (low, high) = stats::median_interval(&answered);
    let shift = times[0] - fastest;
    let between = Some((Value::Time(low + shift), Value::Time(high + shift)));
    findings.found(READ, Value::Time(middle + shift), between, evidence, (METHOD, None));
    size(probe, known, findings)
}

/// Latencies of blocks that were just written, in us.
fn just_written(probe: &mut Probe<'_>) -> Result<Vec<f64>, Ended> {
    let block = probe.block_bytes();
    let (start, room) = stored::piece(probe, PIECE.1.min(probe.bytes() / PIECE.0));
    stored::lay_down(probe, start, room)?;
    let mut all = Vec::new();
    for _ in 0..READS {
        let offset = start + stored::inside(probe, room, 4096);
        all.push(settled(probe, offset, block)?);
    }
    Ok(all)
}

/// The pace of each step of a fill.
struct Fill {
    step: u64,
    /// Steps that the write cache takes.
    skip: usize,
    paces: Vec<f64>,
}

impl Fill {
    /// Index of the first of the slow steps that go on to the end, if there are fast ones before them and
    /// enough of them.
    fn fall(&self) -> Option<usize> {
        let count = self.paces.len();
        let behind = stats::median(&self.paces[count.checked_sub(BEHIND + SMOOTH)?..]);
        let smooth = |at: usize| {
            stats::median(
                &self.paces[at.saturating_sub(SMOOTH).max(self.skip)..(at + SMOOTH + 1).min(count)],
            )
        };
        // Between what is usual before and what is behind: folding lets some steps be faster again.
        let fast = |at: usize| smooth(at) * FALL > behind;
        let last = (self.skip..count).rfind(|at| fast(*at))? + 1;
        let before =
            stats::median(&self.paces[self.skip..self.skip + (last - self.skip).div_ceil(2)]);
        let is_fast = |at: &usize| fast(*at) && smooth(*at) > (before + behind) / 2.0;
        let at = (self.skip..last).rfind(is_fast)? + 1;
        let fast = (self.skip..at).filter(is_fast).count();
        (2 * fast >= at - self.skip && at + BEHIND <= count).then_some(at)
    }

    /// Whether so much is slow that nothing else will come.
    fn is_over(&self) -> bool {
        let more = (MORE / self.step) as usize;
        // Looking takes time; it is enough to look now and then.
        self.paces.len().is_multiple_of(BEHIND)
            && self.fall().is_some_and(|at| self.paces.len() >= at * 3 / 2 + more.max(BEHIND))
    }
}

/// Empties the drive, lets it rest, and writes it in order until its pace has fallen for good.
fn written(
    probe: &mut Probe<'_>,
    known: &Known,
    (skip, step, most): (u64, u64, u64),
) -> Result<Fill, Ended> {
    stored::empty_all(probe, known)?;
    probe.rest(stored::IDLE)?;
    let mut fill = Fill { step, skip: skip.div_ceil(step) as usize, paces: Vec::new() };
    let (mut taken, mut last) = (0, 0.0);
    probe.write_in_order((0, most), (WRITE, DEPTH), |answer: Taken| {
        taken += WRITE;
        if taken % step == 0 {
            fill.paces.push(step as f64 / (answer.until - last));
            last = answer.until;
            return !fill.is_over();
        }
        true
    })?;
    probe.alone(FLUSH)?;
    Ok(fill)
}

fn size(probe: &mut Probe<'_>, known: &mut Known, findings: &mut Findings) -> Result<(), Ended> {
    if known.empty.is_none() {
        findings.cannot(SIZE, "the drive cannot be emptied: trims do nothing".to_owned());
        return Ok(());
    }
    let most = MOST.min(probe.bytes()).min(probe.room() / 3) / WRITE * WRITE;
    let step = (probe.bytes() / STEP.0).max(STEP.1) / WRITE * WRITE;
    let cache = findings.count("cache.size").unwrap_or(0);
    let skip = if probe.bytes() > LARGE { CACHE } else { cache * 5 / 4 };
    let mut fill = written(probe, known, (skip, step, most))?;
    let Some(mut fall) = fill.fall() else {
        let because = format!(
            "the pace does not fall for good within {} of {}",
            Value::Bytes(fill.paces.len() as u64 * step),
            Value::Bytes(probe.bytes()),
        );
        findings.cannot(SIZE, because);
        return Ok(());
    };
    if fall as u64 * step < AGAIN {
        // A block that was partly filled counts as full, which matters where there are few of them.
        let enough = (4 * fall as u64 * step + 2 * MORE).min(most) / WRITE * WRITE;
        let other = written(probe, known, (skip, step, enough))?;
        let second = other.fall().unwrap_or(0);
        if (second.abs_diff(fall) as f64) > AGREED * fall.max(second) as f64 {
            let because = format!(
                "the pace falls after {}, and when that is done once more after {}: what it takes \
                 depends on how many blocks are erased",
                Value::Bytes(fall as u64 * step),
                Value::Bytes(second as u64 * step),
            );
            findings.cannot(SIZE, because);
            return Ok(());
        }
        if second > fall {
            (fill, fall) = (other, second);
        }
    }
    let (before, after) = (&fill.paces[fill.skip..fall], &fill.paces[fall..]);
    let (before, after) = (stats::median(before), stats::median(after));
    let bytes = fall as u64 * fill.step;
    // A write cache would be empty again.
    probe.rest(SHORT)?;
    let first = fill.skip as u64 * step;
    let again = pace(probe, first + (bytes - first) / 4 * 3, first)?;
    if again > (before + after) / 2.0 {
        let because = format!(
            "the pace falls after {}, but is as high as before after a rest of {}: it is the write \
             cache that fills",
            Value::Bytes(bytes),
            Value::Time(SHORT),
        );
        findings.cannot(SIZE, because);
        return Ok(());
    }
    let size = bytes.saturating_sub(cache);
    if size < (16 * step).max(2 * cache) {
        let because = format!(
            "the pace falls after {}, too little beside the {} of the write cache",
            Value::Bytes(bytes),
            Value::Bytes(cache),
        );
        findings.cannot(SIZE, because);
        return Ok(());
    }
    let evidence = format!(
        "of an empty drive {} are taken at {}, then {}; of them {} are in the write cache",
        Value::Bytes(bytes),
        Value::Rate(before * 1e6),
        Value::Rate(after * 1e6),
        Value::Bytes(cache),
    );
    let points = fill.paces.iter().enumerate();
    let points = points.map(|(n, pace)| ((n as u64 * step) as f64 / 1e9, *pace));
    let picture = Picture {
        title: "An empty drive written in order".to_owned(),
        x: "written (GB)".to_owned(),
        y: "pace (MB/s)".to_owned(),
        series: vec![("writes".to_owned(), points.collect())],
    };
    let most = (size as f64 * OPEN) as u64 + cache / 8 + 2 * step;
    let between = Some((Value::Bytes(size - cache / 8 - 2 * step), Value::Bytes(most)));
    findings.found(SIZE, Value::Bytes(size), between, evidence, (METHOD, Some(picture)));
    Ok(())
}

/// The pace of so many bytes in order without the first of them, in bytes a microsecond.
fn pace(probe: &mut Probe<'_>, bytes: u64, first: u64) -> Result<f64, Ended> {
    const MOST: u64 = 1 << 30;
    let bytes = bytes.min(first + MOST) / WRITE * WRITE;
    let start = probe.anywhere(WRITE, bytes);
    let (mut taken, mut begin, mut end) = (0, 0.0, 0.0);
    probe.write_in_order((start, bytes), (WRITE, DEPTH), |answer: Taken| {
        taken += WRITE;
        if taken <= first {
            begin = answer.until;
        }
        end = answer.until;
        true
    })?;
    Ok((bytes - first) as f64 / (end - begin))
}
