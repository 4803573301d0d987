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

/// Neighbours for each die whose order is looked at: the planes of a die, at most; and for all of them.
const EACH_LEAST: usize = 8;
const NEIGHBOURS_LEAST: usize = 64;
/// Time that a measurement is repeated after, us.
const PAUSE: f64 = 5_000.0;

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
            let offset = start + (index - 1) * SMALL;
            let mut are_one = are_of_one_page(probe, known, offset)?;
            if !are_one && probe.repeats() > 1 {
                // What disturbs one measurement after another is over by then, most of the time.
                probe.rest(PAUSE)?;
                are_one = are_of_one_page(probe, known, offset)?;
            }
            if are_one {
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
    if length == 1 && !is_in_order(probe, known)? {
        let because = "neighbours of 4 KiB lie in random dies: they were not written in order";
        findings.cannot(PAGE, because.to_owned());
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

/// Whether neighbours of 4 KiB go round the dies: over as many as all planes of all dies have, each die has
/// as many. Of such as were written at random a die has now more, now fewer: their variance is their mean
/// (the index of dispersion; Fisher, Statistical Methods for Research Workers, 1925, section 16).
fn is_in_order(probe: &mut Probe<'_>, known: &Known) -> Result<bool, Ended> {
    let (Some(meeting), dies) = (known.meeting, known.dies.len()) else { return Ok(false) };
    let block = probe.block_bytes();
    let each = EACH_LEAST.max(NEIGHBOURS_LEAST.div_ceil(dies));
    let start = probe.anywhere(SMALL, SMALL * (dies * each) as u64);
    let mut counts = vec![0.0; dies];
    for index in 0..dies * each {
        let spot = Spot::at(probe, start + index as u64 * SMALL, block)?;
        if let Some(own) = die_of(probe, &meeting, &known.dies, spot)? {
            counts[own] += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / dies as f64;
    let variance =
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (dies - 1).max(1) as f64;
    Ok(variance < mean / 2.0)
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
