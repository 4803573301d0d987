//! Planes: pages of one die that are read at once if they wait together.
//!
//! A third read keeps the die busy while two others queue behind it. Those of two planes, at the same
//! offset, are joined (multi-plane read) and come together; those of one plane come one array time
//! apart (ONFI, multi-plane operations; after Chen, Lee and Zhang, HPCA 2011, section 4.2).

use super::Known;
use super::dies::die_of;
use super::meeting::{Meeting, Spot};
use crate::finding::{Findings, Value};
use crate::probe::{Ask, Ended, Probe};
use std::collections::BTreeMap;

/// Pages whose partners are sought.
const PLACES: usize = 8;
/// More planes than dies have.
const PLANES_MOST: u64 = 8;

const PLANES: (&str, &str) = ("geometry.planes_per_die", "planes of a die that are read together");

/// Whether reads of two pages of a die come together when both have to wait for it.
pub(super) fn are_joined(
    probe: &mut Probe<'_>,
    meeting: &Meeting,
    (busy, a, b): (Spot, Spot, Spot),
) -> Result<bool, Ended> {
    let asks = [busy, a, b].map(|spot| Ask::read(spot.offset, spot.bytes));
    let apart = probe.middle(|probe| {
        let taken = probe.together(&asks)?;
        Ok((taken[2].until - taken[1].until).abs())
    })?;
    Ok(apart < meeting.together / 2.0)
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let (Some(meeting), Some(page)) = (known.meeting, known.page) else {
        findings.cannot(PLANES, "it is not known which addresses are of one page".to_owned());
        return Ok(());
    };
    let block = probe.block_bytes();
    // All planes of all dies have had a page within so many, if data were written in order.
    let reach = known.dies.len() as u64 * PLANES_MOST;
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    for _ in 0..PLACES {
        let middle = probe.anywhere(page, page * (2 * reach + 1)) + reach * page;
        let spot = Spot::at(probe, middle, block)?;
        let Some(own) = die_of(probe, &meeting, &known.dies, spot)? else { continue };
        let busy = known.dies[own].members.iter().copied();
        let Some(busy) = busy.into_iter().find(|it| it.offset / page != middle / page) else {
            continue;
        };
        let mut partners = 0;
        for step in (1..=reach).flat_map(|step| [step as i64, -(step as i64)]) {
            let offset = middle.wrapping_add_signed(step * page as i64);
            let other = Spot::at(probe, offset, block)?;
            // Only pages of the die can be; most are not.
            if meeting.meet(probe, busy, other)?
                && are_joined(probe, &meeting, (busy, spot, other))?
            {
                partners += 1;
            }
        }
        *seen.entry(partners + 1).or_default() += 1;
    }
    let Some((&planes, &most)) = seen.iter().max_by_key(|(_, count)| **count) else {
        findings.cannot(PLANES, "no page was found again in a die".to_owned());
        return Ok(());
    };
    if planes == 1 {
        let because = format!(
            "no read of {most} pages was joined with one of {} around it: there is one plane, or \
             reads of several are not joined, which is the same to a host",
            2 * reach
        );
        findings.cannot(PLANES, because);
        return Ok(());
    }
    let all: usize = seen.values().sum();
    let evidence = format!(
        "{most} of {all} pages have {} partner(s) among the {} around them with which they are read at once",
        planes - 1,
        2 * reach
    );
    findings.found(
        PLANES,
        Value::Count(planes as u64),
        None,
        evidence,
        ("ONFI 5.1, multi-plane operations", None),
    );
    Ok(())
}
