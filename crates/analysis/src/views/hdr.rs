//! Latencies as a log of HdrHistograms (the format of HistogramLogWriter, version 1.3, with compressed
//! histograms): one line for each group and interval, tagged with the group's name. Values are
//! nanoseconds, to three digits; times are seconds since the beginning of the first I/O. I/Os are
//! counted when they end; those that failed are not.

use super::super::analysis::Analysis;
use super::{ViewError, each_record};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use mynah_result::histogram::Buckets;
use mynah_stamp::Span;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most intervals of a profile.
const INTERVALS_MAX: u64 = 100;
const PS_PER_MS: u64 = 1_000_000_000;

/// Counts by latency, as fine as three digits.
type Fine = Buckets<11>;

/// How many latencies there are of each magnitude.
type Cell = BTreeMap<usize, u64>;

/// When an interval begins, in milliseconds, and whose it is; how long it is, and what it holds.
type Lines = BTreeMap<(u64, String), (u64, Cell)>;

/// HdrHistogram log of these profiles' latencies.
pub(super) fn log(profiles: &[Analysis]) -> Result<String, ViewError> {
    let mut lines = Lines::new();
    for analysis in profiles {
        let root = match profiles.len() {
            1 => String::new(),
            _ => format!("{}:", analysis.path.display()),
        };
        let every = interval_ms(analysis.window());
        // Of groups by what tells them apart, and only then by name, which costs more.
        let mut cells: BTreeMap<(Option<Vec<u64>>, u64), Cell> = BTreeMap::new();
        each_record(analysis, &mut |record| {
            let head = &record.head;
            if head.status == 0 && !head.kept {
                let end = head.begin.saturating_since(analysis.first);
                let end = end.as_ps().saturating_add(head.total.as_ps());
                let interval = end / PS_PER_MS / every;
                let cell = cells.entry((analysis.key_of(head), interval)).or_default();
                let ns = head.total.as_ps().saturating_add(500) / 1000;
                *cell.entry(Fine::index(ns)).or_default() += 1;
            }
        })?;
        for ((key, interval), cell) in cells {
            let name = tag(&format!("{root}{}", analysis.name_of(key.as_deref())));
            let line = lines.entry((interval * every, name)).or_insert((every, Cell::new()));
            // Groups that are called the same are one.
            for (bucket, count) in cell {
                *line.1.entry(bucket).or_default() += count;
            }
        }
    }
    Ok(text(&lines))
}

/// How long an interval is: a round number of milliseconds.
fn interval_ms(window: Span) -> u64 {
    let least = (window.as_ps() / PS_PER_MS / INTERVALS_MAX).max(1);
    let decades = std::iter::successors(Some(1u64), |decade| decade.checked_mul(10));
    let steps = decades.flat_map(|decade| [1, 2, 5].map(|step| decade.saturating_mul(step)));
    let mut steps = steps.skip_while(|step| *step < least);
    steps.next().unwrap_or(least)
}

/// A name as tags are written: without commas and white space.
fn tag(name: &str) -> String {
    let parts = name.split(|c: char| c == ',' || c.is_whitespace() || c.is_control());
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

fn text(lines: &Lines) -> String {
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("[Histogram log format version 1.3]");
    builder.add_comment("[Latencies in nanoseconds; times since the first I/O]");
    // Largest values are for the eye, in milliseconds.
    builder.with_max_value_divisor(1e6);
    let mut log = builder.begin_log_with(&mut out, &mut serializer).expect("memory takes it");
    for ((begin, name), (every, cell)) in lines {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        for (&bucket, &count) in cell {
            histogram.record_n(Fine::middle(bucket), count).expect("it grows as far as needed");
        }
        let (begin, every) = (Duration::from_millis(*begin), Duration::from_millis(*every));
        log.write_histogram(&histogram, begin, every, Tag::new(name)).expect("memory takes it");
    }
    drop(log);
    String::from_utf8(out).expect("it is ASCII, but for names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_round_and_few() {
        let ms = |ms: u64| Span::from_ps(ms * PS_PER_MS);
        assert_eq!(interval_ms(Span::ZERO), 1);
        assert_eq!(interval_ms(ms(99)), 1);
        assert_eq!(interval_ms(ms(1_650)), 20);
        assert_eq!(interval_ms(ms(60_000)), 1000);
        let most = interval_ms(Span::MAX);
        assert!(Span::MAX.as_ps() / PS_PER_MS / most < INTERVALS_MAX);
    }

    #[test]
    fn tags_have_neither_commas_nor_blanks() {
        assert_eq!(tag("a, reader  4KiB\n"), "a-reader-4KiB");
    }
}
