//! `mynah sim` with a sweep or a repetition: many runs on all processors, and a table.

use crate::args::Sim;
use crate::failure::{self, Failure};
use crate::machine::Meter;
use crate::print;
use crate::progress::BatchBar;
use crate::sim::{enough_memory, measured_anyway, named};
use mynah_lab::output::PendingFile;
use mynah_lab::result::{FailedRun, Result as RunResult, Results};
use mynah_lab::simulation::Simulation;
use mynah_lab::sweep::{self, Sweep};
use mynah_lab::{Measured, SimulationError, batch};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

/// Runs all of it; whether it was interrupted.
pub(crate) fn run(
    args: &Sim,
    simulations: Vec<Simulation>,
    remarks: &[String],
) -> Result<bool, Failure> {
    let repeats = args.run.repeat.unwrap_or(1);
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.run.threads.map_or_else(available, |threads| threads as usize);
    let axes: Vec<String> = match simulations.first() {
        Some(first) => first.point.iter().map(|(key, _)| key.clone()).collect(),
        None => Vec::new(),
    };
    let mut runs = Vec::new();
    for simulation in simulations {
        enough_memory(&simulation, threads as u64)?;
        for number in 0..repeats {
            runs.push(repetition(&simulation, number, repeats));
        }
    }
    let create = |path: Option<&Path>| path.map(PendingFile::create).transpose();
    let json = args.output.json.as_deref();
    let json_file = create(json.filter(|path| *path != Path::new("-")))?;
    let report = create(args.output.report.as_deref())?;
    let table = create(args.output.table.as_deref())?;

    let bar = BatchBar::new(args.output.quiet, runs.len());
    let unsaved = Mutex::new(None);
    let one = |index: usize, simulation: &Simulation| -> Option<Run> {
        // Short runs end before they ask whether to go on.
        if BatchBar::is_interrupted() {
            return None;
        }
        let mut meter = Meter::of_thread();
        let run = simulation.run_watched(&mut |step| {
            meter.step(step);
            bar.step(index, step)
        });
        let measured = match unsaved.lock() {
            Ok(mut unsaved) => measured_anyway(run, &mut unsaved),
            Err(_) => run,
        };
        let measured = measured.map(|mut measured| {
            measured.result.run = meter.finish();
            Box::new(measured)
        });
        match measured {
            Ok(measured) if measured.interrupted => None,
            measured => Some(measured),
        }
    };
    let done = batch::run(&runs, threads, one);
    drop(bar);

    let mut done = Done::of(&runs, done, repeats as usize);
    if done.results.is_empty() && !done.failed.is_empty() {
        return Err(done.failed.swap_remove(0).1.into());
    }
    let points = sweep::groups(&done.results, repeats as usize);
    let sweep = Sweep::new(axes, points).with_runs(&done.results);
    let mut document = Results::new(done.results);
    if repeats > 1 {
        document.confidence = sweep.confidence();
    }
    document.failed = done.failed.iter().map(|(run, _)| run.clone()).collect();
    if let Some(file) = report {
        let title = args.experiment.as_deref().and_then(Path::file_stem).unwrap_or_default();
        file.finish(&sweep.html(&title.to_string_lossy()))?;
    }
    if let Some(file) = table {
        file.finish(&sweep.csv())?;
    }
    if let Some(file) = json_file {
        file.finish(&document.to_json())?;
    }
    if !args.output.quiet {
        remarks.iter().for_each(failure::say);
        if done.interrupted {
            failure::say("interrupted: these are the points that were done");
        }
    }
    if json == Some(Path::new("-")) {
        print::out(&document.to_json())?;
    } else if !args.output.quiet {
        print::out(&sweep.text())?;
    }
    if let Ok(Some(reason)) = unsaved.into_inner() {
        return Err(SimulationError::from(reason).into());
    }
    match trouble(&document, runs.len()) {
        Some(trouble) if done.interrupted => {
            failure::say(&trouble);
            Ok(true)
        }
        Some(trouble) => Err(Failure::failed(trouble, None)),
        None => Ok(done.interrupted),
    }
}

/// What came of all runs.
struct Done {
    /// Those of points of which every run is done.
    results: Vec<RunResult>,
    failed: Vec<(FailedRun, SimulationError)>,
    interrupted: bool,
}

impl Done {
    fn of(runs: &[Simulation], done: Vec<Option<Run>>, repeats: usize) -> Done {
        let mut all = Done { results: Vec::new(), failed: Vec::new(), interrupted: false };
        let mut done = done.into_iter();
        for point in runs.chunks(repeats) {
            let mut whole = Vec::new();
            for (simulation, run) in point.iter().zip(&mut done) {
                match run {
                    None => all.interrupted = true,
                    Some(Ok(measured)) => whole.push(measured.result),
                    Some(Err(error)) => {
                        let failed = FailedRun {
                            point: simulation.point.iter().cloned().collect(),
                            seed: simulation.options.seed,
                            error: error.to_string(),
                        };
                        all.failed.push((failed, error));
                    }
                }
            }
            if whole.len() == point.len() {
                all.results.append(&mut whole);
            }
        }
        all
    }
}

/// What is to be said of runs that failed, and of those that are not to be trusted.
fn trouble(document: &Results, runs: usize) -> Option<String> {
    let named = |point: &BTreeMap<String, String>, seed: u64| {
        let varied = point.iter().filter(|(key, _)| *key != "seed");
        let values = varied.map(|(key, value)| format!("{key} {value}, "));
        format!("{}seed {seed}", values.collect::<String>())
    };
    let failed = document.failed.iter().map(|run| (named(&run.point, run.seed), run.error.clone()));
    let untrusted = document.results.iter().filter_map(|result| {
        let reason = result.untrusted.as_ref()?;
        Some((named(&result.point, result.seed), format!("not trustworthy: {reason}")))
    });
    let all: Vec<String> =
        failed.chain(untrusted).map(|(name, what)| format!("{name}: {what}")).collect();
    match &all[..] {
        [] => None,
        [only] => Some(format!("1 run of {runs} has no result to rely on: {only}")),
        several => {
            let shown = several.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
            let rest = match several.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!("\nand {more} more (`--json` names them all)"),
            };
            let count = several.len();
            Some(format!("{count} runs of {runs} have no result to rely on:\n{shown}{rest}"))
        }
    }
}

/// How many runs in trouble are named.
const SHOWN: usize = 8;

type Run = Result<Box<Measured>, SimulationError>;

/// Repetition `number` of a simulation, with a seed and files of its own.
fn repetition(simulation: &Simulation, number: u32, repeats: u32) -> Simulation {
    let mut run = simulation.clone();
    // A sweep has one report, and it shows no single run over time.
    run.over_time = false;
    if repeats > 1 {
        run = run.seed(simulation.options.seed.wrapping_add(u64::from(number)));
        run.options.precision.runs = repeats;
        let name = format!("run-{}", number + 1);
        let files = [&mut run.request_log, &mut run.profile, &mut run.record, &mut run.save_state];
        for path in files.into_iter().flatten() {
            *path = named(path, &name);
        }
        for path in run.intervals.iter_mut().map(|(path, _)| path) {
            *path = named(path, &name);
        }
        for path in run.timeline.iter_mut().map(|(path, _)| path) {
            *path = named(path, &name);
        }
    }
    run
}
