//! Times of the array, and of what is around it.
//!
//! Of two blocks of one die the second one comes when the array has read it, after the first. What it
//! takes longer than alone is the array's time and the command's; what is left of a single read is the
//! way from the host to the flash and back (Chen, Lee and Zhang, HPCA 2011, section 4.1). Types of
//! pages differ in the array alone, so the levels of single reads are theirs (Cai et al., DATE 2012).

use super::Known;
use super::meeting::{self, Spot};
use super::reads::SMALL;
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ended, Probe};
use crate::stats;

/// Pairs of each die that are asked.
const PAIRS: usize = 3;
/// Time between two rounds of them, us.
const PAUSE: f64 = 30_000.0;
/// Single reads.
const READS: usize = 400;
/// The least share of reads that a type of pages has: of one in 32 pages; and where noise may make a
/// few reads look alike: of less than one in five bits of a cell.
const SHARE_LEAST: f64 = 0.03;
const SHARE_LEAST_NOISY: f64 = 0.1;
/// The share of a read's latency by which reads of one level differ, beside what noise makes of them.
const APART: f64 = 0.002;

/// The share of a read's latency that noise may be, at most, and by which it is blurred if there is any: what
/// surrounds a drive has states of its own. Types of pages differ by ten times as much.
const BLURRED_MOST: f64 = 0.02;

/// A read's command and address cycles, us: seven of 25 ns, then 100 ns until the array is busy and
/// 20 ns from ready to data (ONFI 3.1, tWC, tWB, tRR).
const COMMAND: f64 = 0.295;

const READ: (&str, &str) =
    ("flash.read", "time in which the array reads a page (tR), by type of page");
const FIXED: (&str, &str) =
    ("fixed_latency", "what a read takes beside the flash at queue depth 1");

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    if known.dies.is_empty() {
        let because = "it is not known which addresses are of one die".to_owned();
        findings.cannot(READ, because.clone());
        findings.cannot(FIXED, because);
        return Ok(());
    }
    let block = probe.block_bytes();
    let transfer = known.page.zip(known.transfer);
    let transfer = transfer.map_or(0.0, |(page, us)| us * block as f64 / page as f64);
    let mut rest = Vec::new();
    // So far apart that no disturbance lasts for half of them.
    for _ in 0..probe.repeats() {
        for die in &known.dies {
            for pair in die.members.windows(2).take(PAIRS) {
                let (a, b) = (pair[0].again(probe)?, pair[1].again(probe)?);
                let beyond = meeting::beyond(probe, a, b)?;
                rest.push(a.alone.min(b.alone) - beyond);
            }
        }
        probe.rest(PAUSE)?;
    }
    let fixed = stats::median(&rest);
    // Of now, as the pairs are.
    let mut spots = Vec::with_capacity(READS);
    for _ in 0..READS {
        let offset = probe.anywhere(SMALL, SMALL);
        spots.push(Spot::at(probe, offset, block)?);
    }
    if probe.repeats() > 1 {
        for spot in &mut spots {
            *spot = spot.better(probe)?;
        }
    }
    let blocks: Vec<f64> = spots.iter().map(|spot| spot.alone).collect();
    let middle = stats::median(&blocks);
    if known.reads.noise > BLURRED_MOST * middle {
        let because = format!(
            "the same read differs by {}, too much to tell types of pages apart",
            Value::Time(known.reads.noise)
        );
        findings.cannot(READ, because.clone());
        findings.cannot(FIXED, because);
        return Ok(());
    }
    let apart = if probe.repeats() > 1 { BLURRED_MOST } else { APART };
    let blurred = (apart * middle).max(known.reads.noise);
    let least = if probe.repeats() > 1 { SHARE_LEAST_NOISY } else { SHARE_LEAST };
    let levels: Vec<(f64, usize)> = stats::levels(&blocks, blurred)
        .into_iter()
        .filter(|(_, count)| *count as f64 >= least * blocks.len() as f64)
        .collect();
    let times: Vec<f64> =
        levels.iter().map(|(level, _)| level - fixed - transfer - COMMAND).collect();
    if times.iter().any(|time| *time <= 0.0) {
        let because = "two reads of a die take no longer than one".to_owned();
        findings.cannot(READ, because.clone());
        findings.cannot(FIXED, because);
        return Ok(());
    }
    let counts = levels.iter().map(|(_, count)| format!("{count}"));
    let evidence = format!(
        "{} pairs of reads of one die: the second takes {} less than alone; {} single reads come in \
         {} level(s) of {}",
        rest.len(),
        Value::Time(fixed),
        blocks.len(),
        levels.len(),
        counts.collect::<Vec<_>>().join(", "),
    );
    let picture = Picture {
        title: "Single reads of a block".to_owned(),
        x: "share of reads (%)".to_owned(),
        y: "latency (us)".to_owned(),
        series: vec![("reads".to_owned(), stats::distribution(&blocks))],
    };
    let (low, high) = stats::median_interval(&rest);
    let shifted = |by: f64| Value::Times(times.iter().map(|time| time + by).collect());
    let method = "Chen, Lee and Zhang, HPCA 2011, section 4.1; Cai et al., DATE 2012";
    let between = Some((shifted(fixed - high - COMMAND), shifted(fixed - low + COMMAND)));
    findings.found(READ, shifted(0.0), between, evidence, (method, Some(picture)));
    findings.found(
        FIXED,
        Value::Time(fixed),
        Some((Value::Time(low), Value::Time(high))),
        format!(
            "what of a single read is left without {} of array and command",
            Value::Time(middle - fixed)
        ),
        (method, None),
    );
    Ok(())
}
