//! `mynah sim --watch`: what a run does while it goes on, below its bar; off a terminal a line now and then.

use mynah_result::figures::{bytes, count, duration};
use mynah_result::series::{Point, PointSink};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Intervals that a line of small bars shows.
const SHOWN: usize = 48;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What a row is of, its value and how that is written.
type Row = (&'static str, fn(&Interval) -> Option<f64>, fn(f64) -> String);

const ROWS: [Row; 7] = [
    ("IOPS", |it| Some(it.iops), count),
    ("bandwidth", |it| Some(it.bytes_per_s), |value| format!("{}/s", bytes(value))),
    ("p50", |it| it.p50_ns, duration),
    ("p99", |it| it.p99_ns, duration),
    ("WAF", |it| it.waf, |value| format!("{value:.2}")),
    ("free blocks", |it| Some(it.free_blocks), |value| value.to_string()),
    ("SLC cache", |it| it.slc_filled, bytes),
];

/// What is watched of a run; the same in every clone.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<Intervals>>);

#[derive(Default)]
struct Intervals {
    latest: VecDeque<Interval>,
    /// All since the last line.
    unsaid: Option<Point>,
}

/// One interval, of all flows.
struct Interval {
    end_ns: f64,
    iops: f64,
    bytes_per_s: f64,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    /// Not known where the host has written nothing.
    waf: Option<f64>,
    free_blocks: f64,
    /// Bytes in the SLC cache, of a drive that has one.
    slc_filled: Option<f64>,
}

impl Interval {
    fn of(point: &Point) -> Interval {
        let total = point.total();
        let seconds = point.seconds();
        let written = point.host_bytes > 0;
        Interval {
            end_ns: point.end.as_ps() as f64 / 1e3,
            iops: total.ios as f64 / seconds,
            bytes_per_s: total.bytes as f64 / seconds,
            p50_ns: total.percentile_ns(50.0),
            p99_ns: total.percentile_ns(99.0),
            waf: written.then(|| point.flash_bytes as f64 / point.host_bytes as f64),
            free_blocks: point.free_blocks as f64,
            slc_filled: point.slc.map(|slc| slc.filled_bytes as f64),
        }
    }

    /// What there is to say of it, on one line.
    fn line(&self) -> String {
        let mut line = format!("at {}: ", duration(self.end_ns));
        let _ = match self.iops > 0.0 {
            true => write!(line, "{} IOPS, {}/s", count(self.iops), bytes(self.bytes_per_s)),
            false => write!(line, "no I/O"),
        };
        for (name, percentile) in [("p50", self.p50_ns), ("p99", self.p99_ns)] {
            if let Some(ns) = percentile {
                let _ = write!(line, ", {name} {}", duration(ns));
            }
        }
        if let Some(waf) = self.waf {
            let _ = write!(line, ", WAF {waf:.2}");
        }
        let _ = write!(line, ", {} blocks free", self.free_blocks);
        if let Some(filled) = self.slc_filled {
            let _ = write!(line, ", {} in the SLC cache", bytes(filled));
        }
        line
    }
}

impl Watched {
    /// Who is to be given the run's intervals.
    pub(crate) fn sink(&self) -> PointSink {
        let watched = self.clone();
        PointSink(Arc::new(move |point| {
            let mut intervals = watched.lock();
            if intervals.latest.len() == SHOWN {
                intervals.latest.pop_front();
            }
            intervals.latest.push_back(Interval::of(point));
            match &mut intervals.unsaid {
                Some(unsaid) => unsaid.merge(point.clone()),
                None => intervals.unsaid = Some(point.clone()),
            }
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Intervals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there was since this was last asked, on one line.
    pub(crate) fn next_line(&self) -> Option<String> {
        self.lock().unsaid.take().map(|all| Interval::of(&all).line())
    }

    /// The latest interval, and how it has come to that: lines below a bar, each after a line break.
    pub(crate) fn screen(&self) -> String {
        let intervals = &self.lock().latest;
        let Some(latest) = intervals.back() else { return String::new() };
        let mut out = format!("\n  simulated: {}", duration(latest.end_ns));
        for (name, value, text) in ROWS {
            let values: Vec<Option<f64>> = intervals.iter().map(value).collect();
            if values.iter().any(Option::is_some) {
                let now = value(latest).map(text).unwrap_or_default();
                let _ = write!(out, "\n  {name:<11} {now:>9} {}", small_bars(&values));
            }
        }
        out
    }
}

/// A bar of a character for each value, of the largest; a blank where there is none.
fn small_bars(values: &[Option<f64>]) -> String {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let level = |value: f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        LEVELS[((share * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
    };
    values.iter().map(|value| value.map_or(' ', level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_shares_of_the_largest() {
        assert_eq!(small_bars(&[Some(0.0), Some(1.0), None, Some(2.0), Some(4.0)]), "▁▃ ▅█");
        assert_eq!(small_bars(&[Some(0.0), None]), "▁ ");
    }

    #[test]
    fn an_interval_says_what_is_known() {
        let mut interval = Interval {
            end_ns: 1.5e9,
            iops: 152_000.0,
            bytes_per_s: 623e6,
            p50_ns: Some(88_900.0),
            p99_ns: Some(412_000.0),
            waf: Some(3.2),
            free_blocks: 1234.0,
            slc_filled: None,
        };
        assert_eq!(
            interval.line(),
            "at 1.50s: 152k IOPS, 594MiB/s, p50 88.9us, p99 412us, WAF 3.20, 1234 blocks free"
        );
        interval.slc_filled = Some(3e9);
        let line = interval.line();
        assert!(line.ends_with(", 1234 blocks free, 2.79GiB in the SLC cache"), "{line}");
        (interval.p50_ns, interval.p99_ns, interval.waf) = (None, None, None);
        interval.slc_filled = None;
        let watched = Watched::default();
        assert_eq!((watched.next_line(), watched.screen()), (None, String::new()));
        watched.lock().latest.push_back(interval);
        let screen = watched.screen();
        let lines: Vec<&str> = screen.lines().collect();
        assert_eq!(lines[..2], ["", "  simulated: 1.50s"]);
        let rows =
            ["  IOPS             152k █", "  bandwidth    594MiB/s █", "  free blocks      1234 █"];
        assert_eq!(lines[2..], rows);
    }
}
