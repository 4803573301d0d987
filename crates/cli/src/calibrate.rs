//! `mynah calibrate`: drives fitted to measurements.

use crate::args::Calibrate;
use crate::failure::{self, Failure};
use crate::print;
use crate::progress::SearchBar;
use crate::sim::enough_memory;
use mynah_calibrate::forward::{BytesRule, Forward, StageMap};
use mynah_calibrate::inverse::{EVALUATIONS, Fitted, Inverse, REQUESTS, STATES_MAX, Vary};
use mynah_calibrate::{CalibrateError, Input};
use mynah_lab::Simulation;
use mynah_result::output::PendingFile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How far the worst figure may be off if nothing is said.
const WITHIN: f64 = 0.05;

/// Fits stages, or searches keys that meet targets.
pub(crate) fn run(args: &Calibrate) -> Result<ExitCode, Failure> {
    if args.files.is_empty() && args.search.target.is_empty() {
        let help = "give --target and --vary to fit keys to what fio measured, or FILE… to fit stages \
                    to times by size (see mynah calibrate --help)";
        return Err(Failure::usage("there is nothing to fit to", Some(help)));
    }
    refuse_overwriting(args)?;
    match args.files.is_empty() {
        true => search(args),
        false => stages(args),
    }
}

impl From<CalibrateError> for Failure {
    fn from(error: CalibrateError) -> Failure {
        match error {
            CalibrateError::Simulation(error) => error.into(),
            error if error.is_usage() => Failure::Usage(error.into()),
            error => Failure::Run(error.into()),
        }
    }
}

/// Refuses to write over what is read, or two things into one file.
fn refuse_overwriting(args: &Calibrate) -> Result<(), Failure> {
    let place = |path: &Path| std::fs::canonicalize(path).ok();
    let drive = PathBuf::from(&args.drive);
    let read = args.files.iter().chain(&args.search.target).chain([&drive]);
    let read: Vec<PathBuf> = read.filter_map(|path| place(path)).collect();
    let json = args.json.as_ref().filter(|path| path.as_path() != Path::new("-"));
    let written =
        [("--into", Some(&args.into)), ("--report", args.report.as_ref()), ("--json", json)];
    let mut taken: Vec<PathBuf> = Vec::new();
    for (option, path) in written {
        let Some(path) = path else { continue };
        let shown = path.display();
        if place(path).is_some_and(|place| read.contains(&place)) {
            let message = format!("{option} {shown}: this is a file that is read");
            return Err(Failure::usage(message, Some("write into another")));
        }
        let own = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if taken.contains(&own) && path != Path::new("/dev/null") {
            let message = format!("{option} {shown}: something else is written there");
            return Err(Failure::usage(message, Some("write into another")));
        }
        taken.push(own);
    }
    Ok(())
}

fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let read = |path: &PathBuf| Input::read(path).map_err(Failure::from);
    paths.iter().map(read).collect()
}

/// Files that are written. They are begun before anything is done, so that one that cannot be written
/// costs no search.
struct Outputs {
    into: PendingFile,
    report: Option<PendingFile>,
    json: Option<PendingFile>,
}

impl Outputs {
    fn create(args: &Calibrate) -> Result<Outputs, Failure> {
        let create =
            |path: Option<&PathBuf>| path.map(|path| PendingFile::create(path)).transpose();
        let json = args.json.as_ref().filter(|path| path.as_path() != Path::new("-"));
        Ok(Outputs {
            into: PendingFile::create(&args.into)?,
            report: create(args.report.as_ref())?,
            json: create(json)?,
        })
    }

    fn finish(
        self,
        args: &Calibrate,
        text: &str,
        html: &dyn Fn() -> String,
        json: &dyn Fn() -> String,
        told: &dyn Fn() -> String,
    ) -> Result<(), Failure> {
        self.into.finish(text)?;
        if let Some(file) = self.report {
            file.finish(&html())?;
        }
        if let Some(file) = self.json {
            file.finish(&json())?;
        }
        if args.json.as_deref() == Some(Path::new("-")) {
            print::out(&json())
        } else if !args.quiet {
            print::out(&format!("{}written: {}\n", told(), args.into.display()))
        } else {
            Ok(())
        }
    }
}

/// Fits stages to times by size.
fn stages(args: &Calibrate) -> Result<ExitCode, Failure> {
    let maps = args.stages.stage.iter().map(|map| StageMap::parse(map));
    let maps: Vec<StageMap> = maps.collect::<Result<_, _>>()?;
    StageMap::check(&maps)?;
    let bytes = args.stages.bytes.as_deref().map(BytesRule::parse_all).transpose()?;
    let forward = Forward {
        drive: args.drive.clone(),
        set: args.set.clone(),
        inputs: inputs(&args.files)?,
        maps,
        bytes: bytes.unwrap_or_default(),
        interpolate: args.stages.interpolate,
    };
    let outputs = Outputs::create(args)?;
    let fits = forward.fit()?;
    fits.warnings.iter().for_each(|warning| failure::say(format_args!("warning: {warning}")));
    outputs.finish(args, &fits.text, &|| fits.html(), &|| fits.to_json(), &|| fits.told())?;
    Ok(ExitCode::SUCCESS)
}

/// Searches keys that meet targets.
fn search(args: &Calibrate) -> Result<ExitCode, Failure> {
    let given = &args.search;
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = given.threads.map_or_else(available, |threads| threads as usize);
    let vary = given.vary.iter().map(|vary| Vary::parse(vary));
    let base = Simulation::on_changed(&args.drive, &args.set)?;
    // States that the runs share need room as well; without it each run prepares its own.
    let share = enough_memory(&base, (threads + STATES_MAX) as u64).is_ok();
    if !share {
        enough_memory(&base, threads as u64)?;
    }
    let inverse = Inverse {
        drive: args.drive.clone(),
        set: args.set.clone(),
        vary: vary.collect::<Result<_, _>>()?,
        inputs: inputs(&given.target)?,
        within: given.within.map_or(WITHIN, |within| within.0),
        evaluations: given.evaluations.map_or(EVALUATIONS, |points| points as usize),
        requests: given.requests.unwrap_or(REQUESTS),
        seed: given.seed,
        precondition: given.precondition.unwrap_or_default(),
        threads,
        share,
    };
    let say = |warning: &String| failure::say(format_args!("warning: {warning}"));
    inverse.warnings()?.iter().for_each(say);
    let outputs = Outputs::create(args)?;
    let bar = SearchBar::new(args.quiet, inverse.expected());
    let fitted = inverse.fit(&|phase, points| bar.step(phase, points));
    drop(bar);
    let Some(fitted) = fitted? else { return Err(Failure::Interrupted) };
    let Fitted { text, interrupted, .. } = &fitted;
    outputs.finish(args, text, &|| fitted.html(), &|| fitted.to_json(), &|| fitted.told())?;
    if *interrupted {
        return Ok(ExitCode::from(crate::INTERRUPTED));
    }
    match fitted.holds() {
        true => Ok(ExitCode::SUCCESS),
        false => {
            // The tables begin with it; where they are not printed it is said all the same.
            if args.quiet || args.json.is_some() {
                failure::say(fitted.verdict());
            }
            Ok(ExitCode::FAILURE)
        }
    }
}
