//! `mynah bench`: a load on a target, measured and told.

mod local;
pub(crate) mod profile;

use crate::args::{Bench, YesNo, flag};
use crate::failure::Failure;
use crate::machine::Meter;
use crate::print;
use crate::progress::Bar;
use crate::target::{self, ResolvedTarget};
use crate::values;
use mynah_lab::SimulationError;
use mynah_lab::flow_text::flow_text;
use mynah_lab::simulation::Step;
use mynah_report::summary;
use mynah_result::Run;
use mynah_result::output::PendingFile;
use mynah_runtime::host::NbdPlace;
use mynah_runtime::host::load::{self, Load, LoadError, Outcome, Progress};
use mynah_stamp::Span;
use mynah_workload::fio::FioJob;
use mynah_workload::{FlowOptions, FlowSpec, Limits, Schedule};
use profile::Profile;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a load without a limit lasts.
const DEFAULT_RUNTIME: Span = Span::from_secs(10);
const DEFAULT_RECONNECT: Duration = Duration::from_secs(60);

/// Puts a load on a target; whether it was interrupted.
pub(crate) fn run(args: &Bench) -> Result<bool, Failure> {
    print::refuse_verbose(args.verbose, args.json.as_deref())?;
    let mut remarks = Vec::new();
    let Planned { flows, ramp, verify } = flows(args, &mut remarks)?;
    let found = local::find(args, &flows)?;
    let begin =
        |file: &Option<PathBuf>| Profile::begin(file.as_deref(), &args.choice, &args.target);
    let profile = args.profile.as_ref().map(begin).transpose()?;
    let ResolvedTarget { place, listed, wait } = match found {
        Some(found) => found,
        None => target::find(&args.target, &args.host.connect)?,
    };
    let namespace = target::namespace(&args.host.connect)?;
    let loads_keys = loads_keys(args, &flows)?;
    let cpus = values::cpus(args.run.cpus_allowed.as_deref())?;
    let reconnect = target::time("--reconnect", &args.host.reconnect, DEFAULT_RECONNECT)?;
    let json = args.json.as_deref().filter(|path| *path != Path::new("-"));
    let json = json.map(PendingFile::create).transpose()?;
    crate::hgrm::check(args.hgrm.as_deref())?;
    let profile = profile.map(|profile| profile.ask(&place, wait));
    let asked: Vec<_> = flows.iter().map(|flow| (flow.name.clone(), flow_text(flow))).collect();
    let load = |(index, flow)| Load {
        target: place.clone(),
        flow,
        beside: vec![],
        namespace,
        loads_keys,
        index: index as u32,
        seed: args.run.seed.unwrap_or(1),
        queue_entries: args.host.queue_size,
        ramp,
        verify,
        cpus: cpus.clone(),
        profile: profile.as_ref().map(|profile| Arc::clone(&profile.run)),
        wait,
        reconnect,
    };
    let loads: Vec<_> = flows.into_iter().enumerate().map(load).collect();
    let (outcome, run) = watched(args, &loads);
    let mut outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            profile.into_iter().for_each(Profile::abandon);
            return Err(refused(error, listed.as_deref()));
        }
    };
    outcome.result.run = run;
    show(args, &outcome, &asked, json, &remarks)?;
    if let Some(profile) = profile {
        profile.finish(!args.quiet && !to_standard_output(args))?;
    }
    match outcome.failure() {
        Some(failure) => Err(Failure::failed(failure, None)),
        None => Ok(outcome.interrupted),
    }
}

fn watched(args: &Bench, loads: &[Load]) -> (Result<Outcome, LoadError>, Run) {
    let mut bar = Bar::new(args.quiet);
    let mut meter = Meter::new();
    let outcome = load::run_all(loads, &mut |progress| {
        match progress {
            Progress::Started => meter.step(Step::Started),
            Progress::Finished => meter.step(Step::Finished),
            _ => {}
        }
        bar.load(progress)
    });
    (outcome, meter.finish())
}

/// Prints and writes what was measured.
fn show(
    args: &Bench,
    outcome: &Outcome,
    asked: &[(String, String)],
    json: Option<PendingFile>,
    remarks: &[String],
) -> Result<(), Failure> {
    if let Some(file) = json {
        file.finish(&outcome.result.to_json())?;
    }
    if let Some(path) = &args.hgrm {
        crate::hgrm::write(path, &outcome.result)?;
    }
    if !args.quiet {
        remarks.iter().for_each(crate::failure::say);
    }
    for mismatch in &outcome.mismatches {
        crate::failure::say(format_args!("verify: {mismatch}"));
    }
    if to_standard_output(args) {
        print::out(&outcome.result.to_json())
    } else if !args.quiet {
        print::out(&summary::detailed(&outcome.result, asked, print::detail(args.verbose)))
    } else {
        Ok(())
    }
}

/// Whether the result is what is printed.
fn to_standard_output(args: &Bench) -> bool {
    args.json.as_deref() == Some(Path::new("-"))
}

/// Whether the keys that a flow finds are stored first.
fn loads_keys(args: &Bench, flows: &[FlowSpec]) -> Result<bool, Failure> {
    let finds = |flow: &FlowSpec| flow.key_value().is_some_and(|keys| keys.initial_keys() > 0);
    match args.run.load {
        Some(_) if !flows.iter().any(finds) => {
            let help = "with --kv, a mix that does more than store new keys finds keys there";
            let message = "--load has no effect here: there are no keys to be found";
            Err(Failure::usage(message, Some(help)))
        }
        given => Ok(given != Some(YesNo::No)),
    }
}

/// What the options or a job file describe.
struct Planned {
    flows: Vec<FlowSpec>,
    /// The time before what is measured.
    ramp: Span,
    /// Whether what is read is compared with what was written.
    verify: bool,
}

/// The flows that the options or a job file describe.
fn flows(args: &Bench, remarks: &mut Vec<String>) -> Result<Planned, Failure> {
    let (flows, ramp, verify) = match &args.fio {
        Some(path) => job_file(args, path, remarks)?,
        None => (vec![flow(args, remarks)?], None, false),
    };
    // A job that only reads has nothing to compare with, whatever its file says.
    let verify = args.run.verify || verify && flows.iter().any(FlowSpec::modifies);
    if args.run.verify && !flows.iter().any(FlowSpec::modifies) {
        let message = format!("{} has no effect here: nothing is written", flag("verify"));
        return Err(Failure::usage(message, None));
    }
    let ramp = match &args.run.ramp_time {
        Some(text) => values::span("--ramp_time", text)?,
        None => ramp.unwrap_or_default(),
    };
    Ok(Planned { flows, ramp, verify })
}

/// The jobs of a fio job file.
fn job_file(
    args: &Bench,
    path: &Path,
    remarks: &mut Vec<String>,
) -> Result<(Vec<FlowSpec>, Option<Span>, bool), Failure> {
    let mut options = args.flow.options();
    if let Some(option) = FlowOptions::NAMES.iter().find(|name| options.get(name).is_some()) {
        let message =
            format!("{} has no effect here: fio's job file says what is done", flag(option));
        return Err(Failure::usage(message, Some("leave it out, or change the file")));
    }
    options.namespace = args.host.connect.nsid.clone();
    let FlowSpec { namespace, .. } = read(&options, "")?;
    let FioJob { mut flows, ramp_time, verify, warnings } =
        FioJob::load(path).map_err(SimulationError::from)?;
    remarks.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    for flow in &mut flows {
        flow.namespace = namespace;
        if flow.schedule != Schedule::default() {
            let message = format!(
                "{}: job `{}` has a startdelay or a thinktime, which `mynah sim` has and a load on \
                 a target has not",
                path.display(),
                flow.name
            );
            return Err(Failure::usage(message, None));
        }
    }
    Ok((flows, ramp_time, verify))
}

/// The flow that the options describe.
fn flow(args: &Bench, remarks: &mut Vec<String>) -> Result<FlowSpec, Failure> {
    let mut options = args.flow.options();
    options.namespace = args.host.connect.nsid.clone();
    if options.rw.is_none() && options.kv.is_none() {
        options.rw = Some("randread".to_owned());
        if options.rate_iops.is_none() && options.iodepth.is_none() {
            options.iodepth = Some("32".to_owned());
        }
        remarks.push("no --rw: random reads".to_owned());
    }
    let name = options.kv.clone().or_else(|| options.rw.clone()).unwrap_or_default();
    let mut flow = read(&options, &name)?;
    if flow.limits.auto {
        let message = "--runtime auto: a load on a target lasts for a given time";
        let help = "write a time such as 30s; `mynah sim` finds out how long a run has to be";
        return Err(Failure::usage(message.to_owned(), Some(help)));
    }
    if flow.limits == Limits::default() && !flow.has_an_end() {
        flow.limits.runtime = Some(DEFAULT_RUNTIME);
        remarks.push("no limit: 10 s (--runtime, --number_ios, --size)".to_owned());
    }
    Ok(flow)
}

/// The flow that `options` stand for.
fn read(options: &FlowOptions, name: &str) -> Result<FlowSpec, Failure> {
    options.flow(name).map_err(|error| match error.option {
        "namespace" => Failure::usage(format!("--nsid {}: {}", error.value, error.problem), None),
        _ => SimulationError::from(error).into(),
    })
}

/// Why there is no result; `listed` is where discovery has listed the subsystem, if not where the
/// host has asked for it.
pub(crate) fn refused(error: LoadError, listed: Option<&str>) -> Failure {
    match error {
        LoadError::Host(error) => target::failed(&error, listed),
        LoadError::Connecting { ref target, .. } => {
            let help = match NbdPlace::is_meant(target) {
                true => {
                    "is it an NBD server? One that was about to begin is ready now: start it again"
                }
                false => {
                    "is it an NVMe/TCP target? One that was about to begin is ready now: start it again"
                }
            };
            Failure::failed(error.to_string(), Some(help))
        }
        LoadError::Profile(error) => Failure::usage(error.to_string(), None),
        LoadError::Workload(error) => Failure::usage(error.to_string(), None),
        LoadError::Unfit(problem) => Failure::usage(problem, None),
    }
}
