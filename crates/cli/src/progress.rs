//! Progress on a terminal, and interruptions.

use crate::failure;
use crate::watch::Watched;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use mynah_calibrate::inverse::Phase;
use mynah_lab::runner::Writing;
use mynah_lab::simulation::Step;
use mynah_result::figures::{bytes, count};
use mynah_runtime::host::load::Progress;
use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time after which a bar appears.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes whose programming takes so long that it is said before.
const ANNOUNCED_FROM: u64 = 100 << 30;
/// Lines of what is watched, off a terminal.
const LINES: f64 = 20.0;
/// Ticks of a full bar.
const FULL: u64 = 10_000;

static RUNNING: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// What an interruption does to whatever runs without watching for it.
static ON_INTERRUPT: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
/// What is printed where an interruption ends the program.
static MEANING: OnceLock<&str> = OnceLock::new();

/// Has Ctrl-C and SIGTERM do this instead of ending the program; pressed again, they end it.
/// For one thing a process.
pub(crate) fn on_interrupt(then: impl Fn() + Send + Sync + 'static) {
    let _ = ON_INTERRUPT.set(Box::new(then));
}

/// Has an interruption that ends the program before anything watches for it say what it means.
pub(crate) fn interrupted_means(what: &'static str) {
    let _ = MEANING.set(what);
}

/// Lets Ctrl-C end a run with what was measured; without a run, and when pressed again, it
/// ends the program.
pub(crate) fn catch_interrupts() {
    let handler = || {
        let again = INTERRUPTED.swap(true, Ordering::Relaxed);
        if let Some(then) = ON_INTERRUPT.get()
            && !again
        {
            return then();
        }
        if again || !RUNNING.load(Ordering::Relaxed) {
            match MEANING.get() {
                _ if again => failure::say("interrupted again: ended without an orderly end"),
                Some(meaning) => failure::say(format_args!("interrupted: {meaning}")),
                None => failure::say("interrupted"),
            }
            mynah_result::output::remove_unfinished();
            std::process::exit(crate::INTERRUPTED.into());
        }
    };
    // Where signals cannot be caught, Ctrl-C just ends the program.
    let _ = ctrlc::set_handler(handler);
}

/// Shows how far a run is, if there is a terminal to show it on.
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    flow: String,
    /// Shown in place of the run's steps.
    title: Option<&'static str>,
    /// Long steps are announced beforehand, on a terminal or not.
    announces: bool,
    /// The step that the bar shows.
    stage: &'static str,
    /// What is shown below it; off a terminal, how many of [`LINES`] have been printed.
    watched: Option<Watched>,
    printed: u64,
}

impl Bar {
    /// A bar that appears when the run takes longer than expected.
    pub(crate) fn new(quiet: bool) -> Bar {
        // One that only prints lines has no bars.
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if quiet || dumb || !std::io::stderr().is_terminal() {
            return Bar::of(None, None, !quiet);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.enable_steady_tick(Duration::from_millis(100));
        let late = bar.clone();
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            if !late.is_finished() {
                late.set_draw_target(ProgressDrawTarget::stderr());
            }
        });
        Bar::of(Some(bar), None, true)
    }

    fn of(bar: Option<ProgressBar>, title: Option<&'static str>, announces: bool) -> Bar {
        let (flow, stage) = (String::new(), "");
        Bar { bar, flow, title, announces, stage, watched: None, printed: 0 }
    }

    /// A bar that is there at once, with what is watched below it.
    pub(crate) fn watching(watched: Watched) -> Bar {
        let mut bar = Bar::new(false);
        if let Some(bar) = &bar.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.watched = Some(watched);
        bar
    }

    /// Off a terminal, a line now and then of what is watched.
    fn print(&mut self, done: f64) {
        let due = (done * LINES) as u64;
        if self.bar.is_some() || due <= self.printed {
            return;
        }
        if let Some(line) = self.watched.as_ref().and_then(Watched::next_line) {
            self.printed = due;
            failure::say(format_args!("{:.0} %, {line}", done * 100.0));
        }
    }

    /// A bar that is there at once, and says what all of it is for.
    pub(crate) fn titled(title: &'static str) -> Bar {
        let shown = std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::new(FULL);
            bar.set_style(style("{spinner} {msg} {elapsed}"));
            bar.set_message(title);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Bar::of(bar, Some(title), false)
    }

    /// Shows `step`; false if the run is to end.
    pub(crate) fn step(&mut self, step: Step<'_>) -> bool {
        match step {
            Step::Preparing | Step::Alone(_) => RUNNING.store(false, Ordering::Relaxed),
            _ => RUNNING.store(true, Ordering::Relaxed),
        }
        match step {
            Step::Writing(writing) => self.announce(writing),
            Step::Settling(_) => {}
            Step::Running(progress) => {
                self.stage = "";
                self.print(progress.done);
            }
            _ => self.stage = "",
        }
        if let Some(bar) = &self.bar {
            match step {
                Step::Writing(writing) => {
                    let position = (writing.done * FULL as f64) as u64;
                    self.enter("writing the drive", position);
                }
                Step::Preparing => self.wait("building and preconditioning the drive"),
                Step::Settling(progress) => {
                    let position = (progress.done * FULL as f64) as u64;
                    self.enter("settling the drive (--settle)", position);
                }
                Step::Started => self.start("simulating"),
                Step::Alone(flow) => {
                    self.flow = format!("simulating {flow} alone");
                    self.start(&self.flow);
                }
                Step::Running(progress) | Step::RunningAlone(progress) => {
                    bar.set_position((progress.done * FULL as f64) as u64);
                    let what = if self.flow.is_empty() { "simulating" } else { &self.flow };
                    self.say(so_far(what, progress.completed, bar.elapsed()));
                }
                Step::Finished => bar.set_position(FULL),
            }
        }
        !INTERRUPTED.load(Ordering::Relaxed)
    }

    /// Shows where a load is; false if it is to end.
    pub(crate) fn load(&mut self, progress: Progress) -> bool {
        let running = !matches!(progress, Progress::Connecting | Progress::Finished);
        RUNNING.store(running, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            match progress {
                Progress::Connecting => self.wait("connecting"),
                Progress::Started => self.start("running"),
                Progress::Loading { done, stored } => {
                    if bar.length() != Some(FULL) {
                        self.start("storing keys");
                    }
                    bar.set_position((done.clamp(0.0, 1.0) * FULL as f64) as u64);
                    self.say(format!("{stored} keys stored"));
                }
                Progress::Running { done, completed } => {
                    bar.set_position((done * FULL as f64) as u64);
                    self.say(match done < 1.0 {
                        true => so_far("running", completed, bar.elapsed()),
                        false => "reading everything again".to_owned(),
                    });
                }
                Progress::Reconnecting => self.say("the target is lost, trying again"),
                Progress::Finished => bar.set_position(FULL),
            }
        }
        !INTERRUPTED.load(Ordering::Relaxed)
    }

    /// Shows how far something is whose parts are counted, as in "pairs imported"; false if it is to
    /// end.
    pub(crate) fn part(&mut self, what: &str, done: Option<f64>, count: u64) -> bool {
        RUNNING.store(true, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            match done {
                Some(done) => {
                    if bar.length() != Some(FULL) {
                        self.start("");
                    }
                    bar.set_position((done.clamp(0.0, 1.0) * FULL as f64) as u64);
                }
                None => bar.set_style(style("{spinner} {msg} {elapsed}")),
            }
            // Text for each of many parts would cost more than they do.
            if count.is_multiple_of(64) {
                bar.set_message(format!("{count} {what}"));
            }
        }
        !INTERRUPTED.load(Ordering::Relaxed)
    }

    /// Announces a step that takes long, once, before it begins.
    fn announce(&mut self, writing: Writing) {
        if !self.announces || writing.programmed_max < ANNOUNCED_FROM {
            return;
        }
        self.announces = false;
        let text = format!(
            "writing the drive {} times over, as its flows do: at most {} are programmed for it \
             (--precondition steady:random does without)",
            writing.turns,
            bytes(writing.programmed_max as f64)
        );
        match &self.bar {
            Some(bar) => bar.println(text),
            None => failure::say(text),
        }
    }

    /// Shows the step `what` at this position.
    fn enter(&mut self, what: &'static str, position: u64) {
        if self.stage != what {
            self.stage = what;
            self.start(what);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        }
    }

    fn start(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_length(FULL);
            let all = style("{spinner} {msg} {wide_bar} {percent} %{left}{watched}");
            let watched = self.watched.clone().unwrap_or_default();
            bar.set_style(all.with_key(
                "watched",
                move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = out.write_str(&watched.screen());
                },
            ));
            self.say(what.to_owned());
        }
    }

    /// Shows a step of unknown length.
    fn wait(&self, what: &'static str) {
        if let Some(bar) = &self.bar {
            bar.set_style(style("{spinner} {msg} {elapsed}"));
            self.say(what);
        }
    }

    fn say(&self, what: impl Into<Cow<'static, str>>) {
        if let Some(bar) = &self.bar {
            let what: Cow<'static, str> = self.title.map_or_else(|| what.into(), Cow::Borrowed);
            bar.set_message(what);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows how far several runs are that go on side by side.
pub(crate) struct BatchBar {
    bar: Option<ProgressBar>,
    /// How far each run is, of [`FULL`].
    shares: Vec<AtomicU64>,
}

impl BatchBar {
    pub(crate) fn new(quiet: bool, runs: usize) -> BatchBar {
        RUNNING.store(true, Ordering::Relaxed);
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::new(FULL * runs as u64);
            bar.set_style(style("{spinner} {msg} {wide_bar} {percent} %{left}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        BatchBar { bar, shares: (0..runs).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Run `run` does `step`; false if it is to end.
    pub(crate) fn step(&self, run: usize, step: Step<'_>) -> bool {
        if let Some(bar) = &self.bar {
            let share = match step {
                Step::Running(progress) => (progress.done * FULL as f64) as u64,
                Step::Finished => FULL,
                _ => return !INTERRUPTED.load(Ordering::Relaxed),
            };
            self.shares[run].store(share, Ordering::Relaxed);
            let all = self.shares.iter().map(|share| share.load(Ordering::Relaxed));
            let done = self.shares.iter().filter(|it| it.load(Ordering::Relaxed) == FULL).count();
            bar.set_position(all.sum());
            bar.set_message(format!("run {} of {}", done + 1, self.shares.len()));
        }
        !INTERRUPTED.load(Ordering::Relaxed)
    }
}

impl BatchBar {
    /// To be called when all runs have ended, or are no longer waited for.
    pub(crate) fn end(&self) {
        RUNNING.store(false, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for BatchBar {
    fn drop(&mut self) {
        self.end();
    }
}

/// Shows how far a search is.
pub(crate) struct SearchBar {
    bar: Option<ProgressBar>,
}

impl SearchBar {
    /// A bar for about so many points.
    pub(crate) fn new(quiet: bool, points: usize) -> SearchBar {
        RUNNING.store(true, Ordering::Relaxed);
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::new(points as u64);
            bar.set_style(style("{spinner} {msg} {wide_bar} {pos} of {len} points{left}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        SearchBar { bar }
    }

    /// So many points have ended; false if the search is to end.
    pub(crate) fn step(&self, phase: Phase, points: usize) -> bool {
        if let Some(bar) = &self.bar
            && points > 0
        {
            bar.set_message(match phase {
                Phase::Spread => "looking all over the ranges",
                Phase::Descent => "improving the best",
                Phase::Around | Phase::Inside => "looking around what was found",
            });
            bar.inc(points as u64);
        }
        !INTERRUPTED.load(Ordering::Relaxed)
    }
}

impl Drop for SearchBar {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows which share of something is done, if there is a terminal to show it on.
pub(crate) struct ShareBar {
    bar: Option<ProgressBar>,
}

impl ShareBar {
    pub(crate) fn new(quiet: bool) -> ShareBar {
        RUNNING.store(true, Ordering::Relaxed);
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::new(FULL);
            bar.set_style(style("{spinner} {msg} {wide_bar} {percent} %{left}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        ShareBar { bar }
    }

    /// What is being done, and which share of the whole is.
    pub(crate) fn step(&self, what: &str, share: f64) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.set_position((share * FULL as f64) as u64);
        }
    }
}

impl Drop for ShareBar {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Whether somebody wants an end.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A style, whose `{left}` is the time that is left, once there is an estimate.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("left", left)
}

fn left(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let eta = state.eta();
    if state.pos() > 0 && eta >= Duration::from_secs(1) {
        let _ = write!(out, ", {:#} left", HumanDuration(eta));
    }
}

/// So many I/Os, and how many a second.
fn so_far(what: &str, completed: u64, elapsed: Duration) -> String {
    let rate = completed as f64 / elapsed.as_secs_f64().max(1e-3);
    format!("{what}: {} I/Os, {}/s", count(completed as f64), count(rate))
}
