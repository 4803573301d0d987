//! `mynah sim` with a sweep or a repetition: many runs on all processors, and a table. With a ledger,
//! only those that it does not have.

use crate::args::Sim;
use crate::failure::{self, Failure};
use crate::machine::Meter;
use crate::print;
use crate::progress::{self, BatchBar};
use crate::sim::{enough_memory, measured_anyway};
use mynah_lab::runner::RunError;
use mynah_lab::simulation::Simulation;
use mynah_lab::{SimulationError, batch};
use mynah_result::Results;
use mynah_result::output::PendingFile;
use mynah_study::ledger::{Contents, Entry, Files, Key, Ledger, LedgerError};
use mynah_study::sweep::runs::{self, Ended, Ends};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs a sweep or a repetition; true if it was interrupted.
pub(crate) fn run(
    args: &Sim,
    simulations: Vec<Simulation>,
    remarks: &[String],
) -> Result<bool, Failure> {
    let repeats = args.run.repeat.unwrap_or(1);
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.run.threads.map_or_else(available, |threads| threads as usize);
    let all = runs::repetitions(&simulations, repeats);
    let create = |path: Option<&Path>| path.map(PendingFile::create).transpose();
    let json = args.output.json.as_deref();
    let json_file = create(json.filter(|path| *path != Path::new("-")))?;
    let report = create(args.output.report.as_deref())?;
    let table = create(args.output.table.as_deref())?;
    let ledger = args
        .run
        .resume
        .as_deref()
        .map(|folder| SweepLedger::open(args, folder, &all))
        .transpose()?;
    let is_kept = ledger.is_some();
    let (axes, runs) = (runs::axes(&all), all.len());

    let BatchResult { ended, first_error, unsaved } = run_rest(args, all, threads, ledger)?;
    let ends = Ends::of(ended, repeats as usize);
    let interrupted = ends.is_part;
    if ends.results.is_empty()
        && let Some(failed) = ends.failed.first()
    {
        return Err(match first_error {
            Some(error) => error.into(),
            None => Failure::failed(failed.error.clone(), Some(FAILED_BEFORE)),
        });
    }
    let (sweep, document) = ends.into_sweep(axes, repeats as usize);
    // Files without a point are none: what there was before stays.
    let writes = !(interrupted && sweep.is_empty());
    if let Some(file) = report.filter(|_| writes) {
        let title = args.experiment.as_deref().and_then(Path::file_stem).unwrap_or_default();
        let mut title = title.to_string_lossy().into_owned();
        if interrupted {
            title.push_str(" (interrupted: the points that were done)");
        }
        file.finish(&sweep.html(&title))?;
    }
    if let Some(file) = table.filter(|_| writes) {
        file.finish(&sweep.csv())?;
    }
    if let Some(file) = json_file.filter(|_| writes) {
        file.finish(&document.to_json())?;
    }
    if !args.output.quiet {
        remarks.iter().for_each(failure::say);
        if interrupted {
            failure::say(match sweep.is_empty() {
                true => "interrupted: no point was done",
                false => "interrupted: these are the points that were done",
            });
            if is_kept {
                failure::say("the same command goes on from there");
            }
        }
    }
    if json == Some(Path::new("-")) {
        print::out(&document.to_json())?;
    } else if !args.output.quiet && !sweep.is_empty() {
        print::out(&sweep.text())?;
    }
    if let Some(reason) = unsaved {
        return Err(SimulationError::from(reason).into());
    }
    match trouble(&document, runs) {
        Some(trouble) if interrupted => {
            failure::say(&trouble);
            Ok(true)
        }
        Some(trouble) => Err(Failure::failed(trouble, None)),
        None => Ok(interrupted),
    }
}

/// Help where nothing succeeded and all failures are of earlier batches.
const FAILED_BEFORE: &str = "it failed when it was run before; --retry-failed runs it again";

/// Results of the runs of a batch.
struct BatchResult {
    /// Of each run, in order.
    ended: Vec<Option<Ended>>,
    /// Why the first failed that was run now.
    first_error: Option<SimulationError>,
    /// Why a state was not saved.
    unsaved: Option<RunError>,
}

/// An interrupted batch waits so many looks for runs that are still busy to end: half a second.
const PATIENCE: u32 = 10;

/// What the threads of a batch share.
struct Batch {
    all: Vec<Simulation>,
    /// Indices of the runs that are left to do.
    open: Vec<usize>,
    ledger: Option<SweepLedger>,
    bar: BatchBar,
    outcome: Mutex<Outcome>,
}

/// Shared by all runs of a batch.
#[derive(Default)]
struct Outcome {
    unsaved: Option<RunError>,
    unkept: Option<LedgerError>,
    /// The batch was given up: results of runs that end later are dropped.
    is_over: bool,
}

impl Batch {
    /// Does the open run of this index; `None` if no more runs are to be begun.
    fn one(&self, index: usize) -> Option<(Ended, Option<SimulationError>)> {
        // Short runs end before they ask whether to go on.
        if progress::is_interrupted() {
            return None;
        }
        let run = self.open[index];
        let simulation = &self.all[run];
        let mut meter = Meter::of_thread();
        let measured = simulation.run_watched(&mut |step| {
            meter.step(step);
            self.bar.step(index, step)
        });
        let mut outcome = self.outcome.lock().ok()?;
        let ended = match measured_anyway(measured, &mut outcome.unsaved) {
            Ok(measured) if measured.interrupted => return None,
            Err(SimulationError::Run(RunError::Interrupted)) => return None,
            Ok(mut measured) => {
                measured.result.run = meter.finish();
                (Ended::Done(Box::new(measured.result)), None)
            }
            Err(error) => (Ended::Failed(runs::failed(simulation, error.to_string())), Some(error)),
        };
        if outcome.is_over {
            return None;
        }
        if let Some(ledger) = &self.ledger
            && let Err(error) = ledger.add(run, &ended.0)
        {
            // What cannot be kept would be run in vain, and so would all after it.
            outcome.unkept.get_or_insert(error);
            return None;
        }
        Some(ended)
    }
}

/// Runs those of `all` that are not in the ledger.
fn run_rest(
    args: &Sim,
    all: Vec<Simulation>,
    threads: usize,
    ledger: Option<SweepLedger>,
) -> Result<BatchResult, Failure> {
    let mut ended = match &ledger {
        Some(ledger) => ledger.ended(args.run.retry_failed)?,
        None => all.iter().map(|_| None).collect(),
    };
    let open: Vec<usize> = (0..all.len()).filter(|&run| ended[run].is_none()).collect();
    for &run in &open {
        enough_memory(&all[run], threads.min(open.len()) as u64)?;
    }
    if ledger.is_some() && !args.output.quiet {
        let done = all.len() - open.len();
        failure::say(format_args!("{} runs, {done} already done", all.len()));
    }
    let bar = BatchBar::new(args.output.quiet, open.len());
    let outcome = Mutex::default();
    let batch = Arc::new(Batch { all, open, ledger, bar, outcome });
    let mut looks = 0;
    let leaves = || {
        looks += u32::from(progress::is_interrupted());
        looks > PATIENCE
    };
    let worker = Arc::clone(&batch);
    let done = batch::run_until(batch.open.len(), threads, move |at| worker.one(at), leaves);
    batch.bar.end();
    let mut outcome = batch.outcome.lock().unwrap_or_else(PoisonError::into_inner);
    outcome.is_over = true;
    if let Some(error) = outcome.unkept.take() {
        return Err(error.into());
    }
    let mut first_error = None;
    for (&run, done) in batch.open.iter().zip(done) {
        if let Some((end, error)) = done {
            first_error = first_error.or(error);
            ended[run] = Some(end);
        }
    }
    Ok(BatchResult { ended, first_error, unsaved: outcome.unsaved.take() })
}

/// The ledger of a sweep, and the keys of the sweep's runs in it.
struct SweepLedger {
    ledger: Mutex<Ledger>,
    keys: Vec<Key>,
}

impl SweepLedger {
    fn open(args: &Sim, folder: &Path, runs: &[Simulation]) -> Result<SweepLedger, Failure> {
        let output = &args.output;
        let written = [
            ("--request-log", output.request_log.is_some()),
            ("--profile", output.profile.is_some()),
            ("--intervals", output.intervals.is_some()),
            ("--timeline", output.timeline.is_some()),
            ("--record", output.record.is_some()),
            ("--save-state", args.run.save_state.is_some()),
        ];
        if let Some((option, _)) = written.iter().find(|(_, given)| *given) {
            let message = format!("{option} has no effect with --resume on runs that are done");
            let help = "a run that is done is not run again; write these files without --resume";
            return Err(Failure::usage(message, Some(help)));
        }
        let mut files = Files::default();
        let keys =
            runs.iter().map(|run| Key::of(run, &mut files)).collect::<Result<Vec<_>, _>>()?;
        let beside = match &args.experiment {
            // It was read a moment ago.
            Some(path) => std::fs::read_to_string(path).ok(),
            None => None,
        };
        let beside = beside.map(|text| ("experiment.toml".to_owned(), text));
        let contents = Contents::of_sweep(&keys, runs::title(runs), beside.into_iter().collect());
        let ledger = Ledger::open(folder, &contents, "mynah sim")?;
        Ok(SweepLedger { ledger: Mutex::new(ledger), keys })
    }

    /// What became of each run before; those that failed count as not run, if they are to be tried
    /// again.
    fn ended(&self, retry_failed: bool) -> Result<Vec<Option<Ended>>, LedgerError> {
        let Ok(mut ledger) = self.ledger.lock() else { return Ok(Vec::new()) };
        let ended = |key| {
            Ok(match ledger.get(key)? {
                Some(Entry::Done(result)) => Some(Ended::Done(result)),
                Some(Entry::Failed(failed)) if !retry_failed => Some(Ended::Failed(failed)),
                _ => None,
            })
        };
        self.keys.iter().map(ended).collect()
    }

    fn add(&self, run: usize, ended: &Ended) -> Result<(), LedgerError> {
        let Ok(mut ledger) = self.ledger.lock() else { return Ok(()) };
        let entry = match ended {
            Ended::Done(result) => Entry::Done(result.clone()),
            Ended::Failed(failed) => Entry::Failed(failed.clone()),
        };
        ledger.add(self.keys[run], &entry)
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
