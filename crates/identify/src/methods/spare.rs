//! Over-provisioning: how much can be overwritten before valid data have to be moved.
//!
//! The whole drive is written in order, so that nothing is invalid, and then overwritten in pieces all
//! over it. Writing stays quick until spare blocks are used up but for those that are kept for collection
//! (the cliff: Hu et al., SYSTOR 2009; Desnoyers, SYSTOR 2012). What was overwritten until then is on spare
//! blocks, so there is at least as much. How much more there is does not show: collection begins while
//! some blocks are free, and where it does not choose the emptiest ones, before it has to.

use super::Known;
use super::fill::Cells;
use super::stored::{self, FLUSH};
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe, Taken};
use crate::stats;

/// A write.
const WRITE: u64 = 64 << 10;
/// Writes outstanding.
const DEPTH: usize = 32;
/// Steps of which each has its pace, of a drive.
const STEPS: u64 = 1000;
/// The share of the drive that is overwritten in search of a cliff.
const SHARE: f64 = 0.6;
/// The most that this writes.
const MOST: u64 = 24 << 30;
/// Steps at the beginning that show how quick writing is.
const FIRST: usize = 12;
/// Steps on each side of one that its pace is the median of.
const SMOOTH: usize = 3;
/// Steps behind the cliff that have to be slow.
const BEHIND: usize = 40;
/// How much slower writes are behind the cliff, at least.
const FALL: f64 = 2.3;
/// Valid data may be moved as soon as the pace is below this share of what it was.
const BEGINS: f64 = 0.85;
/// A flush that waits for the write cache takes longer, us.
const WAITS: f64 = 1e3;
/// What may be in the write cache is taken so many times.
const MARGIN: f64 = 1.25;
/// What a write cache holds at most whose size is not known.
const CACHE: u64 = 256 << 20;
/// Steps before the cliff, at least.
const BEFORE: usize = 10;

const SPARE: (&str, &str) = ("spare.least", "flash beside the capacity, at least");
const METHOD: &str = "Hu et al., SYSTOR 2009; Desnoyers, SYSTOR 2012";

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let whole = probe.bytes() / WRITE * WRITE;
    let most = whole + (whole as f64 * SHARE) as u64;
    let because = if known.empty.is_none() {
        "trims do nothing, so it is not known what is valid when it begins".to_owned()
    } else if matches!(known.cells, Cells::Slc { .. }) {
        "what is written goes to the SLC cache first, which fills before the spare blocks do"
            .to_owned()
    } else if most > MOST {
        format!("it was not asked: it would write {}", Value::Bytes(most))
    } else if most > probe.room() {
        format!("it was not asked: it would write {}, and may not", Value::Bytes(most))
    } else {
        return cliff(probe, known, findings, whole);
    };
    findings.cannot(SPARE, because);
    Ok(())
}

fn cliff(
    probe: &mut Probe<'_>,
    known: &Known,
    findings: &mut Findings,
    whole: u64,
) -> Result<(), Ended> {
    stored::empty_all(probe, known)?;
    let count = whole / WRITE;
    let apart = stride(count);
    let per_step = (count / STEPS).max(1);
    let mut paces: Vec<f64> = Vec::new();
    let (mut asked, mut answered, mut last) = (0, 0, 0.0);
    let next = |_: &mut _| {
        // All in order, then each piece once more, far from the one before.
        let index = if asked < count { asked } else { (asked - count) * apart % count };
        asked += 1;
        (asked <= count + (count as f64 * SHARE) as u64).then_some(Ask::write(index * WRITE, WRITE))
    };
    let see = |_: &Ask, taken: Taken| {
        answered += 1;
        if answered >= count && (answered - count).is_multiple_of(per_step) {
            if answered > count {
                paces.push((per_step * WRITE) as f64 / (taken.until - last));
            }
            last = taken.until;
            let end = fall(&paces).map_or(usize::MAX, |at| at + at / 4 + BEHIND);
            return paces.len() < end;
        }
        true
    };
    probe.stream(DEPTH, next, see)?;
    let flush = probe.alone(FLUSH)?;
    let step = per_step * WRITE;
    let Some(at) = fall(&paces) else {
        let because = format!(
            "{} were overwritten without a fall to less than half of the pace: collection is not told from \
             what else hosts wait for",
            Value::Bytes(paces.len() as u64 * step),
        );
        findings.cannot(SPARE, because);
        return Ok(());
    };
    if at < BEFORE {
        let because = "valid data are moved as soon as the full drive is overwritten".to_owned();
        findings.cannot(SPARE, because);
        return Ok(());
    }
    let (before, after) =
        (stats::median(&paces[..at]), stats::median(&paces[paces.len() - BEHIND..]));
    // Some of that is in the write cache still: as much as a flush takes the time for, if it waits.
    let cached = match findings.value("cache.size") {
        _ if known.is_uncached => 0.0,
        _ if flush > WAITS => MARGIN * flush * after,
        Some(Value::Bytes(cache)) => MARGIN * *cache as f64,
        _ => CACHE as f64,
    };
    let bytes = (at as u64 * step).saturating_sub(cached as u64 + 2 * step);
    if bytes < BEFORE as u64 * step {
        let because = format!(
            "the pace falls after {}, and as much may be in the write cache",
            Value::Bytes(at as u64 * step)
        );
        findings.cannot(SPARE, because);
        return Ok(());
    }
    let evidence = format!(
        "after {} in order {} are overwritten at {}, then {}: so much lies on spare blocks, but for up to \
         {} in the write cache; others are free when collection begins",
        Value::Bytes(whole),
        Value::Bytes(at as u64 * step),
        Value::Rate(before * 1e6),
        Value::Rate(after * 1e6),
        Value::Bytes(cached as u64),
    );
    let points = paces.iter().enumerate().map(|(n, pace)| ((n as u64 * step) as f64 / 1e9, *pace));
    let picture = Picture {
        title: "A full drive overwritten all over".to_owned(),
        x: "overwritten (GB)".to_owned(),
        y: "pace (MB/s)".to_owned(),
        series: vec![("writes".to_owned(), points.collect())],
    };
    findings.found(SPARE, Value::Bytes(bytes), None, evidence, (METHOD, Some(picture)));
    Ok(())
}

/// A number near the golden section of `count` that has no divisor in common with it: multiples of it
/// are spread evenly.
fn stride(count: u64) -> u64 {
    let divides = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let near = (count as f64 * 0.618_034) as u64;
    (near.max(1)..).find(|it| divides(*it, count) == 1).unwrap_or(1)
}

/// Index of the step from which on writing is slow, if enough of them follow.
fn fall(paces: &[f64]) -> Option<usize> {
    if paces.len() < FIRST + BEHIND {
        return None;
    }
    let before = stats::median(&paces[..FIRST]);
    let behind = stats::median(&paces[paces.len() - BEHIND..]);
    let smooth = |at: usize| {
        stats::median(&paces[at.saturating_sub(SMOOTH)..(at + SMOOTH + 1).min(paces.len())])
    };
    let at = (0..paces.len()).find(|at| smooth(*at) < BEGINS * before)?;
    (before > FALL * behind && at + BEHIND <= paces.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_piece_is_overwritten_once(count in 1u64..5000) {
            let apart = stride(count);
            let mut seen: Vec<u64> = (0..count).map(|n| n * apart % count).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn the_cliff_is_found_where_it_is(
            at in 20usize..300,
            slower in 3.0f64..10.0,
            noise in prop::collection::vec(0.95f64..1.05, 400),
        ) {
            let paces: Vec<f64> = noise.iter().enumerate().map(|(n, noise)| {
                noise * if n < at { slower } else { 1.0 }
            }).collect();
            let found = fall(&paces).unwrap();
            prop_assert!(found.abs_diff(at) <= 2, "{found} at {at}");
            prop_assert_eq!(fall(&noise), None);
        }
    }
}
