//! `mynah compare`: two results side by side, or a recorded run beside its simulation on
//! another drive.

use crate::args::{Compare, Folding};
use crate::failure::{self, Failure};
use crate::{print, sim};
use mynah_drive_file::foreign;
use mynah_lab::replay;
use mynah_report::comparison::Comparison;
use mynah_result::output;
use mynah_result::{Document, Result as RunResult};
use mynah_workload::trace::Remap;
use std::path::Path;

/// Compares; whether it was interrupted.
pub(crate) fn run(args: &Compare) -> Result<bool, Failure> {
    let changed = args.drive.is_some() || !args.set.is_empty() || !args.fault.is_empty();
    let (comparison, interrupted) = match &args.second {
        Some(second) if changed || args.remap.is_some() => {
            let message = format!("{} and {} are results", args.first.display(), second.display());
            let help = "--drive, --set, --fault and --remap go with a single recording";
            return Err(Failure::usage(message, Some(help)));
        }
        Some(second) => (results(&args.first, second)?, false),
        None if !changed => {
            let help = "give a second result, or a recording and --drive NAME or --set KEY=VALUE";
            return Err(Failure::usage("there is nothing to compare with", Some(help)));
        }
        None => what_if(args)?,
    };
    match args.json.as_deref() {
        Some(path) if path == Path::new("-") => print::out(&comparison.to_json())?,
        Some(path) => {
            output::write(path, &comparison.to_json())?;
            print::out(&comparison.text())?;
        }
        None => print::out(&comparison.text())?,
    }
    Ok(interrupted)
}

fn results(first: &Path, second: &Path) -> Result<Comparison, Failure> {
    let (a, b) = (load(first)?, load(second)?);
    let names = [first, second].map(|path| path.display().to_string());
    Ok(Comparison::new([&names[0], &names[1]], [&a, &b]))
}

/// The one result in a file.
fn load(path: &Path) -> Result<RunResult, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {shown}: {error}"), None))?;
    if bytes.starts_with(b"MYNAHREC") {
        let help = "compare a recording with what another drive makes of it: \
                    mynah compare RECORDING --drive NAME";
        return Err(Failure::usage(format!("{shown} is a recording"), Some(help)));
    }
    let help = "a result is what --json writes";
    let not_one =
        |error: String| Failure::usage(format!("{shown} is not a result: {error}"), Some(help));
    let text = std::str::from_utf8(&bytes).map_err(|error| not_one(error.to_string()))?;
    let found = foreign::json(&shown.to_string(), text);
    let found = found.map_err(|error| Failure::Usage(error.into()))?;
    let document = Document::from_json(found.text).map_err(|error| not_one(error.to_string()))?;
    let say = |warning: &String| failure::say(format_args!("warning: {warning}"));
    found.warnings.iter().for_each(say);
    let mut results = document.into_results();
    match results.len() {
        1 => Ok(results.remove(0)),
        many => Err(Failure::usage(
            format!("{shown} holds {many} results"),
            Some("compare files with one result each"),
        )),
    }
}

/// The recorded run, and what the other drive makes of the same commands.
fn what_if(args: &Compare) -> Result<(Comparison, bool), Failure> {
    let path = &args.first;
    let recorded =
        sim::watched(args.quiet, |watch| replay::replay(path, None, &[], &[], None, None, watch))?;
    let drive = args.drive.as_deref();
    let remap = match args.remap {
        Some(Folding::Modulo) => Remap::Modulo,
        Some(Folding::None) | None => Remap::Refuse,
    };
    let other = sim::watched(args.quiet, |watch| {
        replay::resimulate(path, drive, &args.set, &args.fault, remap, watch)
    })?;
    let changes: String =
        args.set.iter().chain(&args.fault).map(|change| format!(" {change}")).collect();
    let names = [
        format!("{}, recorded in {}", recorded.result.drive, path.display()),
        format!("{}{changes}, the same commands", other.result.drive),
    ];
    let comparison = Comparison::new([&names[0], &names[1]], [&recorded.result, &other.result]);
    Ok((comparison, recorded.interrupted || other.interrupted))
}
