//! Throughput over what was written: the curve of a drive that is written from end to end, and the
//! cliffs and plateaus that reviewers read off it.
//!
//! A cliff is where throughput falls to less than seven tenths of the plateau before it, for as long as
//! it takes to write a fiftieth of the drive. A plateau is the median over what lies between two
//! cliffs; of a second one without an end, over the fifth of the drive that follows the first cliff, as
//! a reviewer reads what comes "then".

use super::Figure;
use std::sync::{Arc, Mutex, PoisonError};

use mynah_result::rows::{BATCH_ROWS, RequestColumns, RowSink, Wide};

/// Equal parts of what is written, of each of which the throughput is told.
const PARTS: usize = 400;
/// A cliff is a fall below this share of the plateau before it, for so many parts on average.
const FALL: f64 = 0.7;
const LASTS: usize = PARTS / 50;
/// Parts at a cliff that belong to neither plateau.
const EDGE: usize = PARTS / 100;

/// Throughput of a drive that was written from one end to the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// What had been written at the end of each part, in bytes of the whole drive, and the bytes a
    /// second meanwhile.
    pub(super) points: Vec<(f64, f64)>,
    /// Bytes a second over the whole.
    average: f64,
}

/// Takes the completions of a run's requests.
#[derive(Clone, Default)]
pub(super) struct Completions(Arc<Mutex<Vec<u64>>>);

impl Completions {
    pub(super) fn sink(&self) -> RowSink {
        let all = self.0.clone();
        let take = move |rows: RequestColumns| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(rows.wide(Wide::CompletedPs));
            true
        };
        RowSink { rows: BATCH_ROWS, take: Arc::new(take) }
    }

    /// The curve of requests of so many bytes each; `scale` of them stand for one.
    pub(super) fn curve(&self, bytes: f64, scale: f64) -> Option<Curve> {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times.sort_unstable();
        Curve::of(&times, bytes, scale)
    }
}

impl Curve {
    /// `times` in picoseconds, in order, at each of which so many bytes had been written.
    fn of(times: &[u64], bytes: f64, scale: f64) -> Option<Curve> {
        if times.len() < 4 * PARTS {
            return None;
        }
        let at = |part: usize| part * times.len() / PARTS;
        let seconds = |index: usize| match index {
            0 => 0.0,
            index => times[index - 1] as f64 / 1e12,
        };
        let part = |n: usize| {
            let (from, to) = (at(n), at(n + 1));
            let rate = (to - from) as f64 * bytes / (seconds(to) - seconds(from));
            (to as f64 * bytes * scale, rate)
        };
        let average = times.len() as f64 * bytes / seconds(times.len());
        Some(Curve { points: (0..PARTS).map(part).collect(), average })
    }

    fn median(&self, from: usize, to: usize) -> f64 {
        let to = to.min(PARTS);
        let mut rates: Vec<f64> =
            self.points.get(from..to).unwrap_or(&[]).iter().map(|point| point.1).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The first part from `from` on with which a fall below `level` begins that lasts.
    fn cliff(&self, from: usize, level: f64) -> Option<usize> {
        (from..PARTS.saturating_sub(LASTS)).find(|&at| {
            let next = &self.points[at..at + LASTS];
            let seconds: f64 = next.iter().map(|(_, rate)| 1.0 / rate).sum();
            next[0].1 < level && LASTS as f64 / seconds < level
        })
    }

    /// What had been written where a fall from one level to another lies within a part: as much of it
    /// as fits its own rate.
    fn place(&self, part: usize, before: f64, after: f64) -> f64 {
        let (end, rate) = self.points[part];
        let begin = part.checked_sub(1).map_or(0.0, |part| self.points[part].0);
        let share = (1.0 / rate - 1.0 / after) / (1.0 / before - 1.0 / after);
        begin + (end - begin) * share.clamp(0.0, 1.0)
    }

    /// A figure of the curve; NaN if it has none.
    pub(super) fn figure(&self, figure: Figure) -> f64 {
        // The first parts fill the DRAM as well.
        let first = self.median(1, 5);
        let cliff = self.cliff(1, FALL * first);
        let after = cliff.map(|cliff| cliff + EDGE);
        let level = after.map(|after| self.median(after, after + PARTS / 20));
        let second_cliff = after.zip(level).and_then(|(after, it)| self.cliff(after, FALL * it));
        let second = after.map(|after| {
            let end = second_cliff.map_or(after + PARTS / 5, |cliff| cliff.saturating_sub(EDGE));
            self.median(after, end)
        });
        let third = second_cliff.map(|cliff| self.median(cliff + EDGE, PARTS));
        let place = |part: Option<usize>, before: f64, after: Option<f64>| {
            part.zip(after).map(|(part, after)| self.place(part, before, after))
        };
        let found = match figure {
            Figure::First => {
                Some(self.median(1, cliff.map_or(PARTS, |cliff| cliff.saturating_sub(1).max(2))))
            }
            Figure::Second => second,
            Figure::Third => third,
            Figure::Cliff => place(cliff, first, second),
            Figure::SecondCliff => place(second_cliff, second.unwrap_or(first), third),
            Figure::Average => Some(self.average),
            _ => None,
        };
        found.unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The completions of requests of a byte, at these rates up to there.
    fn curve(phases: &[(f64, f64)]) -> Curve {
        let (mut at, mut time, mut times) = (0.0, 0.0, vec![]);
        for &(rate, upto) in phases {
            while at < upto {
                time += 1e12 / rate;
                at += 1.0;
                times.push(time as u64);
            }
        }
        Curve::of(&times, 1.0, 2.0).expect("long enough")
    }

    #[test]
    fn phases_are_found_where_they_are() {
        for (cliff, second) in [(1130.0, 4640.0), (2345.0, 3456.0), (600.0, 9000.0)] {
            let curve = curve(&[(4000.0, cliff), (2000.0, second), (500.0, 10_000.0)]);
            let near = |figure: Figure, expected: f64| {
                let found = curve.figure(figure);
                assert!((found / expected - 1.0).abs() < 0.01, "{figure:?}: {found}, {expected}");
            };
            near(Figure::Cliff, 2.0 * cliff);
            near(Figure::SecondCliff, 2.0 * second);
            near(Figure::First, 4000.0);
            near(Figure::Second, 2000.0);
            near(Figure::Third, 500.0);
            let time = cliff / 4000.0 + (second - cliff) / 2000.0 + (10_000.0 - second) / 500.0;
            near(Figure::Average, 10_000.0 / time);
        }
    }

    #[test]
    fn what_a_curve_has_not_is_no_number() {
        let flat = curve(&[(1000.0, 10_000.0)]);
        assert!(flat.figure(Figure::Cliff).is_nan() && flat.figure(Figure::Third).is_nan());
        let rising = curve(&[(4000.0, 1000.0), (1500.0, 5000.0), (2100.0, 10_000.0)]);
        assert!(rising.figure(Figure::SecondCliff).is_nan());
        assert!((rising.figure(Figure::Second) / 1500.0 - 1.0).abs() < 0.01);
    }
}
