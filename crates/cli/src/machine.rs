//! What a run costs the machine. The only place that reads a clock.

use crate::key;
use mynah_lab::simulation::Step;
use mynah_result::Run;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime};

/// How long ago that was.
pub(crate) fn since(time: SystemTime) -> Duration {
    SystemTime::now().duration_since(time).unwrap_or_default()
}

/// Watches a run's steps and keeps what they cost.
pub(crate) struct Meter {
    clock: ClockId,
    setup_from: f64,
    started: Option<(Instant, f64)>,
    run: Run,
}

impl Meter {
    /// Starts with the preparation of a run.
    pub(crate) fn new() -> Meter {
        Meter::by(ClockId::ProcessCPUTime)
    }

    /// Like [`Meter::new`], for a run on this thread, beside runs on others.
    pub(crate) fn of_thread() -> Meter {
        Meter::by(ClockId::ThreadCPUTime)
    }

    fn by(clock: ClockId) -> Meter {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        // Results are shown around: no secrets in them.
        let words = key::masked(words).into_iter().map(|word| quoted(&word));
        let command = words.collect::<Vec<_>>().join(" ");
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let run = Run { version, command, ..Run::default() };
        Meter { clock, setup_from: cpu_s(clock), started: None, run }
    }

    /// To be called when the run begins `step`.
    pub(crate) fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Started => {
                let cpu = cpu_s(self.clock);
                self.run.setup_cpu_s = cpu - self.setup_from;
                self.started = Some((Instant::now(), cpu));
            }
            Step::Finished => {
                if let Some((started, cpu)) = self.started {
                    self.run.wall_s = started.elapsed().as_secs_f64();
                    self.run.cpu_s = cpu_s(self.clock) - cpu;
                }
            }
            _ => {}
        }
    }

    /// What the run cost.
    pub(crate) fn finish(self) -> Run {
        Run { max_rss_bytes: mynah_memory::max_rss_bytes(), ..self.run }
    }
}

/// Measures wall time between laps.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// How long it is since the start, or since this was asked last.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.0, now))
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Processor time of this process or thread, in seconds.
fn cpu_s(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--bs=4k"), "--bs=4k");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_machine_is_measured() {
        let mut meter = Meter::new();
        meter.step(Step::Started);
        let mut sum = 0u64;
        for n in 0..3_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(n * n));
        }
        meter.step(Step::Finished);
        let run = meter.finish();
        assert!(run.cpu_s > 0.0 && run.wall_s > 0.0, "{run:?}");
        assert!(run.max_rss_bytes > 1 << 20, "{run:?}");
    }
}
