//! `mynah guest`: a QEMU guest in lock-step with a drive, from its start to its end.

mod archive;
mod machine;
mod suite;

pub(crate) use machine::line;

use crate::args::{Cli, Guest, Serve, Verb};
use crate::failure::{Failure, say};
use crate::{print, serve};
use clap::Parser;
use machine::{Files, Machine};
use mynah_report::summary;
use mynah_result::Result as RunResult;
use mynah_result::output::PendingFile;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, ExitCode, ExitStatus};

/// The console's last lines, where a guest has ended without a status.
const CONSOLE_LINES: usize = 15;

/// Boots a guest, has it do its command, and says what came of that.
pub(crate) fn run(args: &Guest) -> Result<ExitCode, Failure> {
    let files = Files::of(args)?;
    let folder = tempfile::Builder::new().prefix("mynah-guest-").tempdir().map_err(system)?;
    let json = args.json.as_deref().map(PendingFile::create).transpose()?;
    let console = args.console.as_deref().map(PendingFile::create).transpose()?;
    files.write_initrd(&folder.path().join("initrd"), args)?;
    let machine = Machine::new(&files, args, folder.path())?;
    let served = serve_args(args, folder.path())?;
    let (mut result, status) = serve::in_step(&served, move |control| {
        let child = machine.start()?;
        let ended = std::thread::Builder::new().name("qemu".to_owned());
        let wait = move || {
            let ended = end_of(child);
            // The drive of a guest that never came waits for ever.
            control.stop();
            ended
        };
        ended.spawn(wait).map_err(system)
    })?;
    let status = status.join().unwrap_or_else(|_| Err(io::Error::other("its thread has failed")));
    let (status, errors) = status.map_err(system)?;
    let said = fs::read(folder.path().join("console")).unwrap_or_default();
    if let Some(console) = console {
        console.finish(&String::from_utf8_lossy(&said))?;
    }
    let out = fs::read(folder.path().join("out")).unwrap_or_default();
    print::out(&String::from_utf8_lossy(&out))?;
    let code = fs::read_to_string(folder.path().join("status")).ok();
    let code = code.and_then(|text| text.trim().parse::<u8>().ok());
    if result.guest.is_none()
        && let Some(failure) = result.failures.first()
    {
        return Err(Failure::failed(failure.clone(), None));
    }
    if result.guest.is_none() {
        let (what, help) = machine::complaint(&errors);
        return Err(Failure::failed(format!("QEMU has not started the guest: {what}"), help));
    }
    if code.is_none() && result.failures.is_empty() {
        let (what, _) = machine::complaint(&errors);
        let text = format!("the guest ended before its command did (QEMU: {status}; {what})");
        result.failures.push(text);
    }
    show(args, json, &result)?;
    for warning in machine::warnings(&errors) {
        say(format_args!("warning: {warning}"));
    }
    for failure in &result.failures {
        say(format_args!("error: {failure}"));
    }
    match code {
        Some(code) if result.failures.is_empty() => Ok(ExitCode::from(code)),
        _ => {
            last_of(&String::from_utf8_lossy(&said));
            Ok(ExitCode::from(1))
        }
    }
}

/// The arguments of `mynah serve` that serve the guest's drive.
fn serve_args(args: &Guest, folder: &Path) -> Result<Box<Serve>, Failure> {
    let mut words: Vec<OsString> =
        ["mynah", "serve", "--clock", "guest", "--quiet", "--vfio-user"].map(Into::into).to_vec();
    words.push(folder.into());
    let mut add = |option: &str, value: OsString| {
        let mut word = OsString::from(option);
        word.push("=");
        word.push(value);
        words.push(word);
    };
    let drive = &args.drive;
    drive.drive.iter().for_each(|it| add("--drive", it.into()));
    drive.set.iter().for_each(|it| add("--set", it.into()));
    drive.fault.iter().for_each(|it| add("--fault", it.into()));
    args.namespace.iter().for_each(|it| add("--namespace", it.into()));
    args.quantum.iter().for_each(|it| add("--quantum", it.into()));
    args.seed.iter().for_each(|it| add("--seed", it.to_string().into()));
    args.record.iter().for_each(|it| add("--record", it.into()));
    let parsed = Cli::try_parse_from(&words);
    match parsed.map(|cli| cli.verb) {
        Ok(Verb::Serve(mut serve)) => {
            serve.drive.precondition = drive.precondition;
            Ok(serve)
        }
        Ok(_) => unreachable!("it is `mynah serve`"),
        Err(error) => Err(Failure::usage(error.to_string(), None)),
    }
}

/// Waits for QEMU; how it ended, and what it said of errors.
fn end_of(mut child: Child) -> io::Result<(ExitStatus, String)> {
    let mut errors = Vec::new();
    if let Some(mut from) = child.stderr.take() {
        io::copy(&mut from, &mut errors)?;
    }
    Ok((child.wait()?, String::from_utf8_lossy(&errors).into_owned()))
}

fn show(args: &Guest, json: Option<PendingFile>, result: &RunResult) -> Result<(), Failure> {
    if let Some(json) = json {
        json.finish(&result.to_json())?;
    }
    if !args.quiet {
        print::out(&summary::detailed(result, &[], print::detail(args.verbose)))?;
    }
    Ok(())
}

/// Shows what was last on the guest's console.
fn last_of(console: &str) {
    let lines: Vec<&str> = console.lines().collect();
    if !lines.is_empty() {
        say("last on the guest's console:");
    }
    for line in &lines[lines.len().saturating_sub(CONSOLE_LINES)..] {
        say(format_args!("  | {line}"));
    }
}

fn system(error: io::Error) -> Failure {
    Failure::failed(error.to_string(), None)
}
