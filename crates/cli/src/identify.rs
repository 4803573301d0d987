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
    let plan = Plan { limits: limits(args, bytes), seed: args.seed.unwrap_or(1) };
    let outputs = Outputs::create(args)?;
    let mut bar = Progress(ShareBar::new(args.quiet));
    let findings = identify(subject, &mut bar, &plan);
    drop(bar);
    outputs.finish(args, &findings, name, bytes)?;
    match &findings.ended {
        Some(_) if progress::is_interrupted() => Ok(ExitCode::from(crate::INTERRUPTED)),
        Some(ended) => {
            failure::say(format_args!("{}: {ended}", args.target));
            Ok(ExitCode::FAILURE)
        }
        None => Ok(ExitCode::SUCCESS),
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

    fn finish(
        self,
        args: &Identify,
        findings: &Findings,
        name: &str,
        bytes: u64,
    ) -> Result<(), Failure> {
        let has_file = findings.get("dies").is_some_and(|it| it.value().is_some());
        if self.into.is_some() && !has_file {
            failure::say("warning: no drive file is written: there is nothing to write into it");
        } else if let Some(file) = self.into {
            let text = mynah_identify::drive_file(findings, &format!("{name}-found"), bytes);
            mynah_drive_file::parse("the drive that was found", &text, &[])
                .map_err(|error| Failure::Run(error.into()))?;
            file.finish(&text)?;
        }
        if let Some(file) = self.report {
            file.finish(&mynah_identify::html(findings, &args.target))?;
        }
        let json = mynah_identify::json(findings, &args.target);
        if let Some(file) = self.json {
            file.finish(&json)?;
        }
        if args.json.as_deref() == Some(Path::new("-")) {
            return print::out(&json);
        }
        if args.quiet {
            return Ok(());
        }
        let mut told = mynah_identify::text(findings);
        let into = args.into.as_ref().filter(|_| has_file);
        for path in [into, args.report.as_ref()].into_iter().flatten() {
            told += &format!("written: {}\n", path.display());
        }
        print::out(&told)
    }
}
