//! The distribution of latencies as bars, from the fastest command to the slowest.

use mynah_result::Result;
use mynah_result::figures::{bar, count, duration, percent};
use mynah_result::histogram::counts;
use std::fmt::Write;

/// Steps of a decade, from coarse to fine.
const STEPS: [&[f64]; 5] = [
    &[1.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.2, 3.3, 4.7, 6.8],
    &[1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2],
    &[
        1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7, 5.1,
        5.6, 6.2, 6.8, 7.5, 8.2, 9.1,
    ],
];
/// Rows of one distribution, and of each where there are more.
const ROWS: [usize; 2] = [16, 10];
/// Kinds of commands that have one; there are no more pictures than fit on a screen or two.
const SHOWN: usize = 6;
/// The full length of a bar.
const BAR: usize = 40;

/// Writes a distribution for each kind of command of each flow.
pub(super) fn write(out: &mut String, result: &Result) -> std::fmt::Result {
    let sides = result.flows.iter().flat_map(|flow| {
        let kinds = flow.sides().into_iter();
        kinds.filter_map(|(kind, side)| {
            let counts = counts(side.lat_hdr.as_deref()?)?;
            Some((format!("{} {}", flow.name, kind.name()), counts))
        })
    });
    let sides: Vec<_> = sides.filter(|(_, counts)| !counts.is_empty()).collect();
    if sides.len() > SHOWN {
        return Ok(());
    }
    let most = ROWS[usize::from(sides.len() > 1)];
    for (title, counts) in &sides {
        writeln!(out, "\nlatencies, {title}:")?;
        write_bars(out, counts, most)?;
    }
    Ok(())
}

/// Writes the counts by latency in nanoseconds, rising, on at most so many rows.
fn write_bars(out: &mut String, counts: &[(u64, u64)], most: usize) -> std::fmt::Result {
    let (Some(&(first, _)), Some(&(last, _))) = (counts.first(), counts.last()) else {
        return Ok(());
    };
    let edges = edges(first, last, most);
    let all: u64 = counts.iter().map(|&(_, n)| n).sum();
    let within = |from: f64, to: f64| -> u64 {
        let inside = |&&(ns, _): &&(u64, u64)| (from..to).contains(&(ns.max(1) as f64));
        counts.iter().filter(inside).map(|&(_, n)| n).sum()
    };
    let rows: Vec<(f64, u64)> =
        edges.windows(2).map(|pair| (pair[0], within(pair[0], pair[1]))).collect();
    let tallest = rows.iter().map(|&(_, n)| n).max().unwrap_or(0).max(1);
    for (from, n) in rows {
        // One command in a million is seen, too.
        let drawn = match bar(n as f64 / tallest as f64, BAR) {
            short if short.is_empty() && n > 0 => "▏".to_owned(),
            drawn => drawn,
        };
        let said = if n < 1_000 { n.to_string() } else { count(n as f64) };
        let share = n as f64 / all as f64;
        let from = format!("{} …", duration(from));
        let line = format!("  {from:>11} {said:>6} {:>7} {drawn}", percent(share));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Where rows begin, and where the last ends: the finest steps of which no more than `most` hold both.
fn edges(first: u64, last: u64, most: usize) -> Vec<f64> {
    let of = |steps: &[f64]| -> Vec<f64> {
        let decades = -1..=19;
        let all =
            decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        let mut all: Vec<f64> = all.collect();
        let begin = all.partition_point(|edge| *edge <= first as f64).saturating_sub(1);
        let end = all.partition_point(|edge| *edge <= last as f64);
        all.truncate(end + 1);
        all.split_off(begin)
    };
    let fit = STEPS.iter().rev().map(|steps| of(steps)).find(|edges| edges.len() <= most + 1);
    fit.unwrap_or_else(|| of(STEPS[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(counts: &[(u64, u64)]) -> String {
        let mut out = String::new();
        write_bars(&mut out, counts, ROWS[0]).unwrap();
        out
    }

    #[test]
    fn both_tails_are_seen() {
        let counts =
            [(8_820, 1), (50_200, 700_000), (64_100, 200_000), (90_000, 50), (2_100_000, 1)];
        let text = bars(&counts);
        assert!(text.lines().count() <= ROWS[0], "{text}");
        let (first, last) = (text.lines().next().unwrap(), text.lines().last().unwrap());
        for line in [first, last] {
            assert!(line.ends_with('▏') && line.contains(" 1 "), "{text}");
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn every_command_is_in_one_row() {
        for counts in [
            vec![(0, 3), (7, 2)],
            vec![(1, 1)],
            vec![(8_820, 20_000)],
            vec![(1_000, 4), (1_100, 5), (9_999, 6)],
            (0..12).map(|decade| (10u64.pow(decade), 1)).collect(),
        ] {
            let (first, last) = (counts[0].0, counts[counts.len() - 1].0);
            let edges = edges(first, last, ROWS[0]);
            assert!(edges.len() >= 2 && edges.len() <= ROWS[0] + 1, "{edges:?}");
            assert!(edges[0] <= first.max(1) as f64 && edges[edges.len() - 1] > last as f64);
            let all: u64 = counts.iter().map(|&(_, n)| n).sum();
            let text = bars(&counts);
            let said = text.lines().map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let n = words[2];
                n.strip_suffix('k')
                    .map_or_else(|| n.parse(), |n| n.parse::<f64>().map(|n| n * 1e3))
                    .unwrap()
            });
            assert_eq!(said.sum::<f64>(), all as f64, "{counts:?}");
        }
    }
}
