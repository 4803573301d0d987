//! What a run costs the machine. The only place that reads a clock.

use mynah_lab::simulation::Step;
use mynah_result::Run;
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Watches the steps of a run that has this thread for itself.
pub(crate) struct Meter {
    setup_from: f64,
    started: Option<(Instant, f64)>,
    run: Run,
}

impl Meter {
    /// Starts with the preparation of a run, which `command` asked for.
    pub(crate) fn new(command: String) -> Meter {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let run = Run { version, command, ..Run::default() };
        Meter { setup_from: cpu_s(), started: None, run }
    }

    /// To be called when the run begins `step`.
    pub(crate) fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Started => {
                let cpu = cpu_s();
                self.run.setup_cpu_s = cpu - self.setup_from;
                self.started = Some((Instant::now(), cpu));
            }
            Step::Finished => {
                if let Some((started, cpu)) = self.started {
                    self.run.wall_s = started.elapsed().as_secs_f64();
                    self.run.cpu_s = cpu_s() - cpu;
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

/// Processor time of this thread, in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
