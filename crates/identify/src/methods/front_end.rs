//! The front end: how long it takes for a command, and how many at a time.
//!
//! Many commands that need no flash are asked at once. Cores that each take a command for the same time
//! end so many of them together; the smallest step from one to a later one that is the same all along is
//! a core's time, and over how many commands it goes is how many cores there are.

use super::Known;
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe, Taken};
use crate::stats;

/// Commands that are asked at once.
const BURST: u64 = 256;
/// How often.
const TIMES: usize = 5;
/// A larger read.
const LARGE: u64 = 4096;
/// More cores than are looked for.
const CORES_MOST: usize = 64;
/// Steps are the same if they differ by less than this share.
const SAME: f64 = 0.05;

const TIME: (&str, &str) = ("firmware.read", "time in which a core of the front end takes a read");
const CORES: (&str, &str) = ("firmware.cores", "cores of the front end");

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let Some((start, bytes)) = known.empty else {
        let because = "every read goes to the flash, which is slower (--destroy trims a piece)";
        findings.cannot_any(&[TIME, CORES], because);
        return Ok(());
    };
    let block = probe.block_bytes();
    let count = BURST.min(bytes / 4096).min(probe.depth() as u64);
    let asks: Vec<Ask> = (0..count).map(|n| Ask::read(start + n * 4096, block)).collect();
    let alone = stats::median(&[
        probe.alone(asks[0])?,
        probe.alone(asks[1 % asks.len()])?,
        probe.alone(asks[2 % asks.len()])?,
    ]);
    let mut steps = Vec::new();
    let mut shown = Vec::new();
    for _ in 0..TIMES {
        let mut ends: Vec<f64> = probe.together(&asks)?.iter().map(|it: &Taken| it.until).collect();
        ends.sort_by(f64::total_cmp);
        steps.push(step(&ends));
        shown = ends;
    }
    let points = shown.iter().enumerate().map(|(n, end)| (n as f64, *end)).collect();
    let picture = Picture {
        title: format!("{count} reads of nothing, asked at once"),
        x: "command".to_owned(),
        y: "answered after (us)".to_owned(),
        series: vec![("answers".to_owned(), points)],
    };
    let first = steps[0];
    let agree = |a: &Option<(usize, f64)>| match (a, first) {
        (Some(a), Some(b)) => a.0 == b.0 && (a.1 / b.1 - 1.0).abs() < SAME,
        _ => false,
    };
    let Some((cores, time)) = first.filter(|_| steps.iter().all(agree)) else {
        let because = "answers to many commands at once do not come in equal steps";
        findings.cannot_any(&[TIME, CORES], because);
        return Ok(());
    };
    // What as much data take on the link, at most: with larger reads the link is busier.
    let large: Vec<Ask> = asks.iter().map(|ask| Ask::read(ask.offset, LARGE)).collect();
    let ends: Vec<f64> = probe.together(&large)?.iter().map(|it| it.until).collect();
    let whole = stats::quantile(&ends, 1.0) - stats::quantile(&ends, 0.25);
    let data = whole / (0.75 * count as f64) * block as f64 / LARGE as f64;
    if time / (cores as f64) < 1.5 * data {
        let because = format!(
            "commands are answered one every {}, which is what their data may take on the link",
            Value::Time(time / cores as f64)
        );
        findings.cannot_any(&[TIME, CORES], &because);
        return Ok(());
    }
    // One core that takes a command each `time` takes at least that for one alone.
    if cores == 1 && time < alone / 4.0 {
        let because = format!(
            "commands are answered one every {}, while one alone takes {}: fetching them, and not \
             cores, sets the pace",
            Value::Time(time),
            Value::Time(alone)
        );
        findings.cannot_any(&[TIME, CORES], &because);
        return Ok(());
    }
    let evidence = format!(
        "of {count} reads of nothing, asked at once, {cores} are answered every {}; one alone takes {}",
        Value::Time(time),
        Value::Time(alone)
    );
    let times: Vec<f64> = steps.iter().flatten().map(|(_, time)| *time).collect();
    let (low, high) = stats::median_interval(&times);
    let between = Some((Value::Time(low), Value::Time(high)));
    let method =
        "queues with c equal servers; Chen, Hou and Lee, CGO 2016 (parallelism of controllers)";
    findings.found(TIME, Value::Time(time), between, evidence.clone(), (method, Some(picture)));
    findings.found(CORES, Value::Count(cores as u64), None, evidence, (method, None));
    Ok(())
}

/// Over how many ends the time between them is the same all along, and that time, us; the first quarter
/// is left out, in which commands are still being fetched.
fn step(ends: &[f64]) -> Option<(usize, f64)> {
    let settled = &ends[ends.len() / 4..];
    (1..=CORES_MOST.min(settled.len() / 3)).find_map(|lag| {
        let steps: Vec<f64> = settled.iter().zip(&settled[lag..]).map(|(a, b)| b - a).collect();
        let (low, high) = (stats::quantile(&steps, 0.005), stats::quantile(&steps, 0.995));
        let middle = stats::median(&steps);
        (middle > 0.0 && high - low <= SAME * middle).then_some((lag, middle))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cores_and_their_time_are_seen_in_the_ends(
            cores in 1usize..24,
            time in 1.0f64..30.0,
            fetch in 0.001f64..0.02,
        ) {
            let mut free = vec![0.0f64; cores];
            let mut ends: Vec<f64> = (0..256).map(|n| {
                let at = f64::from(n) * fetch;
                let core = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
                *core = core.max(at) + time;
                *core
            }).collect();
            ends.sort_by(f64::total_cmp);
            let (found, took) = step(&ends).unwrap();
            prop_assert_eq!(found, cores);
            prop_assert!((took / time - 1.0).abs() < 0.01);
        }

        #[test]
        fn chance_is_no_step(ends in prop::collection::vec(0.0f64..1000.0, 256)) {
            let mut ends = ends;
            ends.sort_by(f64::total_cmp);
            prop_assert_eq!(step(&ends), None);
        }
    }
}
