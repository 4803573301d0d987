//! How many channels there are, and how fast: reads of two dies of one channel share its bus.
//!
//! A page is read of one die and a block of another, so that the block would come while the page is on
//! the bus: it waits if the bus is the same (Chen, Lee and Zhang, HPCA 2011, section 4.3, with a
//! delay between the two). That the block is small keeps the link, which all share, out of it.

use super::Known;
use super::meeting::Spot;
use super::reads::{SMALL, settled};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe};
use crate::stats::{self, Split};

/// When the block comes: after this share of what the page takes longer than a block.
const WITHIN: f64 = 0.1;

const CHANNELS: (&str, &str) = ("geometry.channels", "channels");
const BUS: (&str, &str) = ("bus.rate", "rate of a channel's bus, of user data");

/// Reads of a die.
struct Reader {
    /// A whole page.
    page: Spot,
    /// A block of it.
    block: Spot,
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let Some(page) = known.page.filter(|_| !known.dies.is_empty()) else {
        let because = "it is not known which addresses are of one die, and of one page";
        findings.cannot(CHANNELS, because.to_owned());
        findings.cannot(BUS, because.to_owned());
        return Ok(());
    };
    let mut readers = Vec::new();
    let block = probe.block_bytes();
    for die in &known.dies {
        let offset = die.spot().offset / page * page;
        let page = Spot::at(probe, offset, page)?;
        readers.push(Reader { page, block: Spot { bytes: block, alone: settled(probe, offset, block)?, offset } });
    }
    let size = stats::median(&readers.iter().map(|it| it.page.alone - it.block.alone).collect::<Vec<_>>());
    let count = readers.len();
    let mut waits = vec![vec![0.0; count]; count];
    let mut all = Vec::new();
    for a in 0..count {
        for b in a + 1..count {
            let wait = waited(probe, &readers[a], &readers[b], size)?;
            (waits[a][b], waits[b][a]) = (wait, wait);
            all.push(wait);
        }
    }
    let shared = groups(&waits, &all, size);
    let (groups, wait) = match shared {
        Ok(found) => found,
        Err(because) => {
            findings.cannot(CHANNELS, because.clone());
            findings.cannot(BUS, because);
            return Ok(());
        }
    };
    let channels = groups.iter().max().map_or(0, |last| last + 1);
    let met = all.iter().filter(|it| **it > wait.threshold).count();
    let evidence = format!(
        "in {met} of {} pairs of dies a block waits {} for a page of the other, in the others {}",
        all.len(),
        Value::Time(wait.high),
        Value::Time(wait.low.max(0.0)),
    );
    let point = |n: u32| (f64::from(n), stats::quantile(&all, f64::from(n) / 100.0));
    let picture = Picture {
        title: "A block that comes while a page of another die is read".to_owned(),
        x: "share of pairs of dies (%)".to_owned(),
        y: "wait (us)".to_owned(),
        series: vec![("pairs of dies".to_owned(), (0..=100).map(point).collect())],
    };
    let method = "Chen, Lee and Zhang, HPCA 2011, section 4.3";
    findings.found(CHANNELS, Value::Count(channels as u64), None, evidence, (method, Some(picture)));
    known.channels = groups;
    if met == 0 {
        let because = "no two dies share a channel; what a page takes longer than a block is time on \
                       the bus and on the link";
        findings.cannot(BUS, because.to_owned());
        return Ok(());
    }
    let met: Vec<f64> = all.iter().copied().filter(|it| *it > wait.threshold).collect();
    let time = |wait: f64| wait + WITHIN * size;
    let rate = |us: f64| (page - block) as f64 / us * 1e6;
    let (low, high) = stats::median_interval(&met);
    known.transfer = Some(time(stats::median(&met)));
    findings.found(
        BUS,
        Value::Rate(rate(time(stats::median(&met)))),
        Some((Value::Rate(rate(time(high))), Value::Rate(rate(time(low))))),
        format!("the rest of a page of {} keeps a bus for {}", Value::Bytes(page), Value::Time(time(stats::median(&met)))),
        (method, None),
    );
    Ok(())
}

/// How much longer than alone a block of one die takes that comes while a page of the other is read;
/// the longer of the two ways, since a front end can keep one of them from being so.
fn waited(probe: &mut Probe<'_>, a: &Reader, b: &Reader, size: f64) -> Result<f64, Ended> {
    let one = one_way(probe, a, b, size)?;
    let other = one_way(probe, b, a, size)?;
    Ok(one.max(other))
}

fn one_way(probe: &mut Probe<'_>, page: &Reader, block: &Reader, size: f64) -> Result<f64, Ended> {
    let after = page.page.alone - size - block.block.alone + WITHIN * size;
    let page = Ask::read(page.page.offset, page.page.bytes);
    let other = Ask::read(block.block.offset, block.block.bytes);
    let taken = match after >= 0.0 {
        true => probe.one_after_another(&[page, other], &[after])?[1],
        false => probe.one_after_another(&[other, page], &[-after])?[0],
    };
    Ok(taken.latency() - block.block.alone)
}

/// Index of each die's group, and how waits split; or why there are no groups.
fn groups(waits: &[Vec<f64>], all: &[f64], size: f64) -> Result<(Vec<usize>, Split), String> {
    let middle = stats::median(all);
    let split = match stats::split(all).filter(Split::is_real) {
        Some(split) if split.high > size / 4.0 => split,
        // All alike: of one channel, or each of its own.
        _ => {
            let threshold = size / 4.0;
            let (lower, higher) = if middle > threshold { (0, all.len()) } else { (all.len(), 0) };
            Split { threshold, low: middle, high: middle, lower, higher, between: 1.0 }
        }
    };
    let mut firsts: Vec<usize> = Vec::new();
    let mut group_of = Vec::new();
    for (index, row) in waits.iter().enumerate() {
        let own = firsts.iter().position(|first| row[*first] > split.threshold);
        group_of.push(own.unwrap_or_else(|| {
            firsts.push(index);
            firsts.len() - 1
        }));
    }
    let mut odd = 0;
    for a in 0..waits.len() {
        for b in a + 1..waits.len() {
            odd += usize::from((group_of[a] == group_of[b]) != (waits[a][b] > split.threshold));
        }
    }
    // Misjudged pairs of which each could have moved a die to another group.
    if odd * 20 > all.len() {
        return Err(format!(
            "whether a block waits for a page of another die is no equivalence: {odd} of {} pairs of \
             dies do not fit {} groups",
            all.len(),
            firsts.len()
        ));
    }
    let _ = SMALL;
    Ok((group_of, split))
}
