//! `mynah identify`: what drive is this?

mod real;

use crate::args::Identify;
use crate::failure::{self, Failure};
use crate::print;
use crate::progress::{self, ShareBar};
use crate::target::local;
use mynah_identify::{Findings, Limits, Plan, SimulatedDrive, Subject, Watch, identify};
use mynah_result::output::PendingFile;
use mynah_stamp::Span;
use real::RealDrive;
use std::path::Path;
use std::process::ExitCode;

/// Longest time on the drive's clock.
const TIME: Span = Span::from_secs(3600);
/// A drive that is smaller has too few pages.
const BYTES_LEAST: u64 = 16 << 20;
/// How often the whole drive may be written.
const TIMES: u64 = 4;

/// Finds out what a drive is.
pub(crate) fn run(args: &Identify) -> Result<ExitCode, Failure> {
    if let Some(named) = &args.destroy
        && *named != args.target
    {
        let message = format!("--destroy {named}: the target is {}", args.target);
        let help = "with --destroy everything on the drive is lost, so it is named again as it is";
        return Err(Failure::usage(message, Some(help)));
    }
    if args.written.as_ref().is_some_and(|limit| limit.0 == 0) {
        let message = "--written 0: with --destroy something is written";
        return Err(Failure::usage(message, Some("to read only, leave out --destroy")));
    }
    distinct(args)?;
    match args.target.strip_prefix("sim:") {
        Some(drive) => {
            local::refuse_connection(&args.connect, "a drive in virtual time", &[])?;
            let file = mynah_drive_file::load(drive, &args.set)
                .map_err(|error| Failure::Usage(error.into()))?;
            let mut subject = SimulatedDrive::filled(file.config)
                .map_err(|error| Failure::usage(format!("{}: {error}", args.target), None))?;
            ask(args, &mut subject, &file.name)
        }
        None => {
            is_no_drive_file(args)?;
            let mut subject = RealDrive::connect(args)?;
            let name = name(&subject.model());
            let code = ask(args, &mut subject, &name);
            subject.end();
            code
        }
    }
}

/// Refuses outputs that would replace one another, or the drive file that is asked.
fn distinct(args: &Identify) -> Result<(), Failure> {
    let asked = args.target.strip_prefix("sim:").map(Path::new);
    let outputs = [&args.into, &args.report, &args.json].into_iter().flatten();
    let mut all: Vec<&Path> = asked.into_iter().collect();
    for path in outputs {
        if all.contains(&path.as_path()) {
            let message = format!("{} would be written over", path.display());
            return Err(Failure::usage(message, Some("give each output a file of its own")));
        }
        all.push(path);
    }
    Ok(())
}

/// Refuses what is meant to be asked in virtual time.
fn is_no_drive_file(args: &Identify) -> Result<(), Failure> {
    let is_drive =
        args.target.ends_with(".toml") || !args.target.contains(['/', ':']) && !is_file(args);
    if is_drive && mynah_drive_file::load(&args.target, &[]).is_ok() {
        let message = format!("{}: this is the description of a drive", args.target);
        let help = format!("for that drive in virtual time: sim:{}", args.target);
        return Err(Failure::usage(message, Some(&help)));
    }
    if let Some(change) = args.set.first() {
        let message =
            format!("--set {change} has no effect here: it is for drives in virtual time");
        return Err(Failure::usage(message, Some("they are called sim:NAME or sim:FILE")));
    }
    Ok(())
}

fn is_file(args: &Identify) -> bool {
    Path::new(&args.target).is_file()
}

/// A name for a drive file, from what a target says it is.
fn name(model: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = model.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).take(6).collect();
    if words.is_empty() { "drive".to_owned() } else { words.join("-") }
}

/// Asks a drive, and says what was found.
fn ask(args: &Identify, subject: &mut dyn Subject, name: &str) -> Result<ExitCode, Failure> {
    let bytes = subject.bytes();
    if bytes < BYTES_LEAST {
        let message = format!("{}: it has {bytes} B, too few to be asked", args.target);
        return Err(Failure::usage(message, Some("a drive of 16 MiB or more can be")));
    }
    let plan = Plan { limits: limits(args, bytes), seed: args.seed.unwrap_or(1) };
    let outputs = Outputs::create(args)?;
    let mut bar = Progress(ShareBar::new(args.quiet));
    let findings = identify(subject, &mut bar, &plan);
    drop(bar);
    let is_whole = outputs.finish(args, &findings, name, bytes)?;
    match &findings.ended {
        Some(_) if progress::is_interrupted() => Ok(ExitCode::from(crate::INTERRUPTED)),
        Some(ended) => {
            failure::say(format_args!("{}: {ended}", args.target));
            Ok(ExitCode::FAILURE)
        }
        None if is_whole => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::FAILURE),
    }
}

fn limits(args: &Identify, bytes: u64) -> Limits {
    let written_bytes = match args.destroy {
        Some(_) => args.written.map_or(TIMES * bytes, |limit| limit.0),
        None => 0,
    };
    Limits { time: args.time.map_or(TIME, |limit| limit.0), written_bytes }
}

struct Progress(ShareBar);

impl Watch for Progress {
    fn is_interrupted(&self) -> bool {
        progress::is_interrupted()
    }

    fn step(&mut self, what: &str, share: f64) {
        self.0.step(what, share);
    }
}

/// Files that are written, begun before anything is asked.
struct Outputs {
    into: Option<PendingFile>,
    report: Option<PendingFile>,
    json: Option<PendingFile>,
}

impl Outputs {
    fn create(args: &Identify) -> Result<Outputs, Failure> {
        let create = |path: Option<&std::path::PathBuf>| {
            path.filter(|path| path.as_path() != Path::new("-"))
                .map(|path| PendingFile::create(path))
                .transpose()
        };
        Ok(Outputs {
            into: create(args.into.as_ref())?,
            report: create(args.report.as_ref())?,
            json: create(args.json.as_ref())?,
        })
    }

    /// Prints and writes what was found; what cannot be written takes nothing else with it. Whether all was
    /// written that was asked for.
    fn finish(
        self,
        args: &Identify,
        findings: &Findings,
        name: &str,
        bytes: u64,
    ) -> Result<bool, Failure> {
        let json = mynah_identify::json(findings, &args.target);
        if args.json.as_deref() == Some(Path::new("-")) {
            print::out(&json)?;
        } else if !args.quiet {
            print::out(&mynah_identify::text(findings))?;
        }
        let report =
            self.report.map(|file| file.finish(&mynah_identify::html(findings, &args.target)));
        let json = self.json.map(|file| file.finish(&json));
        let into = match self.into {
            Some(file) => match file_of(findings, name, bytes) {
                Ok(text) => Some(file.finish(&text)),
                Err(because) => {
                    failure::say(format_args!("no drive file is written: {because}"));
                    None
                }
            },
            None => None,
        };
        let is_whole = args.into.is_none() || into.is_some();
        for written in [report, json, into].into_iter().flatten() {
            written?;
        }
        if let Some(path) = args.into.as_ref().filter(|_| is_whole && !args.quiet) {
            failure::say(format_args!(
                "written: {}, of which [sources] says what was found and what is an estimate; to run \
                 it: mynah sim --drive {0} --rw randread",
                path.display()
            ));
        }
        Ok(is_whole)
    }
}

/// The drive file of what was found, which can be simulated; or why there is none.
fn file_of(findings: &Findings, name: &str, bytes: u64) -> Result<String, String> {
    if findings.get("dies").is_none_or(|it| it.value().is_none()) {
        return Err("no dies were found, without which it would be guesswork".to_owned());
    }
    let text = mynah_identify::drive_file(findings, &format!("{name}-found"), bytes);
    match mynah_drive_file::parse("the drive that was found", &text, &[]) {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}
