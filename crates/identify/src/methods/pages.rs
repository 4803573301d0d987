//! The page: how far data that follow one another lie in one page.
//!
//! Neighbours lie in one page if two reads of them meet and one read of both takes no longer than
//! either, but for the bus (the chunk size of Chen, Lee and Zhang, HPCA 2011, section 4.2).

use super::Known;
use super::dies::die_of;
use super::meeting::Spot;
use super::planes::are_joined;
use super::reads::{SMALL, settled};
use crate::finding::{Findings, Value};
use crate::probe::{Ended, Probe};
use std::collections::BTreeMap;

/// Places at which neighbours are looked at.
const PLACES: usize = 24;
/// Neighbours at each of them: twice the largest page there is.
const NEIGHBOURS: u64 = 64;
/// The share of runs that have to be of one length.
const AGREED: f64 = 0.9;

const PAGE: (&str, &str) = ("geometry.page_size", "page");

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    if known.meeting.is_none() {
        findings.cannot(PAGE, "reads that meet cannot be told from those that do not".to_owned());
        return Ok(());
    }
    let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
    let reach = NEIGHBOURS * SMALL;
    for _ in 0..PLACES {
        let start = probe.anywhere(SMALL, reach);
        let mut boundary: Option<u64> = None;
        for index in 1..NEIGHBOURS {
            if are_of_one_page(probe, known, start + (index - 1) * SMALL)? {
                continue;
            }
            if let Some(last) = boundary {
                *runs.entry(index - last).or_default() += 1;
            }
            boundary = Some(index);
        }
    }
    let all: usize = runs.values().sum();
    let Some((&length, &most)) = runs.iter().max_by_key(|(_, count)| **count) else {
        let because = format!("data that follow one another lie in one page over {reach} B");
        findings.cannot(PAGE, because);
        return Ok(());
    };
    if (most as f64) < AGREED * all as f64 {
        let because = format!(
            "data that follow one another lie together for {} to {} x 4 KiB: they were not written \
             in order",
            runs.keys().next().unwrap_or(&0),
            runs.keys().last().unwrap_or(&0),
        );
        findings.cannot(PAGE, because);
        return Ok(());
    }
    let page = length * SMALL;
    known.page = Some(page);
    let evidence = format!(
        "{most} of {all} runs of neighbours that one read finds together are {} long",
        Value::Bytes(page)
    );
    let method = "Chen, Lee and Zhang, HPCA 2011, section 4.2";
    findings.found(PAGE, Value::Bytes(page), None, evidence, (method, None));
    Ok(())
}

/// Whether what begins at `offset` and what follows it lie in one page.
fn are_of_one_page(probe: &mut Probe<'_>, known: &Known, offset: u64) -> Result<bool, Ended> {
    let Some(meeting) = known.meeting else { return Ok(false) };
    let block = probe.block_bytes();
    let a = Spot::at(probe, offset + SMALL - block, block)?;
    let b = Spot::at(probe, offset + SMALL, block)?;
    if !meeting.meet(probe, a, b)? {
        return Ok(false);
    }
    let both = settled(probe, offset + SMALL - block, 2 * block)?;
    let longer = both - a.alone.max(b.alone);
    if longer > (meeting.together - meeting.apart) / 2.0 {
        return Ok(false);
    }
    // Pages of two planes at one offset are found by one read as well.
    let Some(own) = die_of(probe, &meeting, &known.dies, a)? else { return Ok(true) };
    let far = |spot: &&Spot| spot.offset.abs_diff(offset) > NEIGHBOURS * SMALL;
    let Some(busy) = known.dies[own].members.iter().find(far) else { return Ok(true) };
    Ok(!are_joined(probe, &meeting, (*busy, a, b))?)
}
