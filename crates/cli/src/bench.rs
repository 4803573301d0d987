//! `mynah bench`.

use crate::args::{Bench, flag};
use crate::failure::Failure;
use crate::key;
use crate::machine::Meter;
use crate::print;
use crate::progress::Bar;
use crate::values;
use mynah_lab::SimulationError;
use mynah_lab::fio::FioJob;
use mynah_lab::output::PendingFile;
use mynah_lab::result::Run;
use mynah_lab::simulation::Step;
use mynah_lab::summary;
use mynah_lab::workload::{FlowOptions, FlowSpec, Limits, Schedule};
use mynah_runtime::host::load::{self, Load, LoadError, Outcome, Progress, Where};
use mynah_runtime::host::{self, Credentials, HostError, Options, Target, VfioUserOptions};
use mynah_stamp::Span;
use mynah_wire::fabrics::check_nqn;
use mynah_wire::tcp::digest::Digests;
use std::path::Path;
use std::time::Duration;

/// How long a load without a limit lasts.
const DEFAULT_RUNTIME: Span = Span::from_secs(10);
const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(10);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
const DEFAULT_RECONNECT: Duration = Duration::from_secs(60);

/// Puts a load on a target; whether it was interrupted.
pub(crate) fn run(args: &Bench) -> Result<bool, Failure> {
    let mut remarks = Vec::new();
    let (flows, ramp) = flows(args, &mut remarks)?;
    let wait = time("--wait", &args.host.wait, DEFAULT_WAIT)?;
    let (target, listed) = match args.target.strip_prefix("vfio-user:") {
        Some(folder) => (Where::VfioUser(vfio_user(args, folder)?), None),
        None => {
            let (options, listed) = tcp(args, wait)?;
            (Where::Tcp(Box::new(options)), listed)
        }
    };
    let cpus = values::cpus(args.run.cpus_allowed.as_deref())?;
    let reconnect = time("--reconnect", &args.host.reconnect, DEFAULT_RECONNECT)?;
    let load = |(index, flow)| Load {
        target: target.clone(),
        flow,
        index: index as u32,
        seed: args.run.seed.unwrap_or(1),
        queue_entries: args.host.queue_size,
        ramp,
        verify: args.run.verify,
        flush_every: args.run.fsync,
        cpus: cpus.clone(),
        wait,
        reconnect,
    };
    let loads: Vec<_> = flows.into_iter().enumerate().map(load).collect();
    let json = args.json.as_deref().filter(|path| *path != Path::new("-"));
    let json = json.map(PendingFile::create).transpose()?;
    let (outcome, run) = watched(args, &loads);
    let mut outcome = outcome.map_err(|error| refused(error, listed.as_deref()))?;
    outcome.result.run = run;
    show(args, &outcome, json, &remarks)?;
    match outcome.failure() {
        Some(failure) => Err(Failure::failed(failure, None)),
        None => Ok(outcome.interrupted),
    }
}

/// How to reach a function over vfio-user.
fn vfio_user(args: &Bench, folder: &str) -> Result<VfioUserOptions, Failure> {
    let host = &args.host;
    let secret = Some(key::FROM_ENVIRONMENT);
    for (option, given, help) in [
        ("--host-nqn", host.host_nqn.is_some(), None),
        ("--host-key", host.host_key.is_some(), secret),
        ("--tls-psk", host.tls_psk.is_some(), secret),
        ("--header-digest", host.header_digest, None),
        ("--data-digest", host.data_digest, None),
        ("--keep-alive", host.keep_alive.is_some(), None),
    ] {
        if given {
            let message = format!("{option} has no effect on a PCIe function: it is for TCP");
            return Err(Failure::usage(message, help));
        }
    }
    if folder.is_empty() {
        let help = "write vfio-user:DIR, the folder that `mynah serve --vfio-user DIR` has";
        return Err(Failure::usage("vfio-user: has no folder".to_owned(), Some(help)));
    }
    Ok(VfioUserOptions {
        folder: folder.into(),
        interrupts: host.interrupts,
        timeout: time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?,
    })
}

/// How to reach a subsystem over TCP, and where discovery has listed it, if that was asked.
fn tcp(args: &Bench, wait: Duration) -> Result<(Options, Option<String>), Failure> {
    let target: Target = args
        .target
        .parse()
        .map_err(|error: host::TargetError| Failure::usage(error.to_string(), None))?;
    if args.host.interrupts {
        let message = "--interrupts has no effect over TCP: it is for vfio-user".to_owned();
        return Err(Failure::usage(message, None));
    }
    let options = options(args, &target)?;
    match target.nqn {
        Some(_) => Ok((options, None)),
        None => discovered(options, wait),
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
    json: Option<PendingFile>,
    remarks: &[String],
) -> Result<(), Failure> {
    if let Some(file) = json {
        file.finish(&outcome.result.to_json())?;
    }
    if !args.quiet {
        remarks.iter().for_each(crate::failure::say);
    }
    for mismatch in &outcome.mismatches {
        crate::failure::say(format_args!("verify: {mismatch}"));
    }
    if args.json.as_deref() == Some(Path::new("-")) {
        print::out(&outcome.result.to_json())
    } else if !args.quiet {
        print::out(&summary::text(&outcome.result))
    } else {
        Ok(())
    }
}

/// The flows that the options or a job file describe, and the ramp before what is measured.
fn flows(args: &Bench, remarks: &mut Vec<String>) -> Result<(Vec<FlowSpec>, Span), Failure> {
    let (flows, ramp) = match &args.fio {
        Some(path) => job_file(args, path, remarks)?,
        None => (vec![flow(args, remarks)?], None),
    };
    for (given, option) in [(args.run.fsync > 0, "fsync"), (args.run.verify, "verify")] {
        if given && !flows.iter().any(FlowSpec::modifies) {
            let message = format!("{} has no effect here: nothing is written", flag(option));
            return Err(Failure::usage(message, None));
        }
    }
    let ramp = match &args.run.ramp_time {
        Some(text) => values::span("--ramp_time", text)?,
        None => ramp.unwrap_or_default(),
    };
    Ok((flows, ramp))
}

/// The jobs of a fio job file.
fn job_file(
    args: &Bench,
    path: &Path,
    remarks: &mut Vec<String>,
) -> Result<(Vec<FlowSpec>, Option<Span>), Failure> {
    let mut options = args.flow.options();
    if let Some(option) = FlowOptions::NAMES.iter().find(|name| options.get(name).is_some()) {
        let message =
            format!("{} has no effect here: fio's job file says what is done", flag(option));
        return Err(Failure::usage(message, Some("leave it out, or change the file")));
    }
    options.namespace = args.host.nsid.clone();
    let FlowSpec { namespace, .. } = read(&options, "")?;
    let FioJob { mut flows, ramp_time, warnings } =
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
    Ok((flows, ramp_time))
}

/// The flow that the options describe.
fn flow(args: &Bench, remarks: &mut Vec<String>) -> Result<FlowSpec, Failure> {
    let mut options = args.flow.options();
    options.namespace = args.host.nsid.clone();
    if options.rw.is_none() {
        options.rw = Some("randread".to_owned());
        if options.rate_iops.is_none() && options.iodepth.is_none() {
            options.iodepth = Some("32".to_owned());
        }
        remarks.push("no --rw: random reads".to_owned());
    }
    let name = options.rw.clone().unwrap_or_default();
    let mut flow = read(&options, &name)?;
    if flow.limits.auto {
        let message = "--runtime auto: a load on a target lasts for a given time";
        let help = "write a time such as 30s; `mynah sim` finds out how long a run has to be";
        return Err(Failure::usage(message.to_owned(), Some(help)));
    }
    if flow.limits == Limits::default() {
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

fn options(args: &Bench, target: &Target) -> Result<Options, Failure> {
    let host = &args.host;
    #[cfg(not(feature = "tls"))]
    if host.tls_psk.is_some() {
        return Err(key::without_tls());
    }
    let host_nqn = match &host.host_nqn {
        Some(nqn) => check_nqn(nqn)
            .map(|()| nqn.clone())
            .map_err(|problem| Failure::usage(format!("--host-nqn {nqn}: {problem}"), None))?,
        None => host::default_host_nqn(),
    };
    Ok(Options {
        address: target.address.clone(),
        subsystem_nqn: target.nqn.clone().unwrap_or_default(),
        host_nqn,
        credentials: credentials(args)?,
        #[cfg(feature = "tls")]
        tls: encryption(args)?,
        digests: Digests { header: host.header_digest, data: host.data_digest },
        keep_alive: time("--keep-alive", &host.keep_alive, DEFAULT_KEEP_ALIVE)?,
        timeout: time("--timeout", &host.timeout, DEFAULT_TIMEOUT)?,
    })
}

fn credentials(args: &Bench) -> Result<Option<Credentials>, Failure> {
    let Some(host) = &args.host.host_key else { return Ok(None) };
    let controller = args.host.controller_key.as_ref();
    Ok(Some(Credentials {
        host: host.read("--host-key")?,
        controller: controller.map(|secret| secret.read("--controller-key")).transpose()?,
        choices: key::choices(&args.host.auth)?,
    }))
}

#[cfg(feature = "tls")]
fn encryption(args: &Bench) -> Result<Option<host::Encryption>, Failure> {
    let Some(secret) = &args.host.tls_psk else { return Ok(None) };
    let encryption = host::Encryption::new(secret.read("--tls-psk")?);
    Ok(Some(encryption.map_err(|error| Failure::failed(error.to_string(), None))?))
}

/// The options with the target's only subsystem, and where the target says that it is. A host stays
/// where it came in all the same: an address behind a forwarded port is none that it can reach.
fn discovered(options: Options, wait: Duration) -> Result<(Options, Option<String>), Failure> {
    let found = host::persist(wait, || host::discover(&options));
    let mut found = found.map_err(|error| refused(error.into(), None))?;
    // The entry for where the host is comes first.
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
    let here = port(&options.address);
    let is_elsewhere = |one: &host::Subsystem| one.address.as_deref().and_then(port) != here;
    found.sort_by_key(|one| (one.nqn.clone(), is_elsewhere(one)));
    found.dedup_by(|a, b| a.nqn == b.nqn);
    match &found[..] {
        [] => Err(Failure::failed("the target has no subsystem for this host".into(), None)),
        [only] => {
            let listed = only.address.as_ref().filter(|_| is_elsewhere(only));
            let listed = listed.map(|address| format!("tcp://{address}/{}", only.nqn));
            Ok((Options { subsystem_nqn: only.nqn.clone(), ..options }, listed))
        }
        several => {
            let place = |one: &host::Subsystem| match &one.address {
                Some(address) if is_elsewhere(one) => address.clone(),
                _ => options.address.clone(),
            };
            let names = several.iter().map(|one| format!("tcp://{}/{}", place(one), one.nqn));
            let names: Vec<_> = names.collect();
            let message = format!("the target has {} subsystems; name one of them", names.len());
            Err(Failure::usage(message, Some(&names.join("\n"))))
        }
    }
}

/// Why there is no result; `listed` is where discovery has listed the subsystem, if not where the
/// host has asked for it.
fn refused(error: LoadError, listed: Option<&str>) -> Failure {
    match error {
        LoadError::Host(error) => {
            let help = match (&error, listed) {
                (HostError::Refused { .. }, Some(listed)) => {
                    Some(format!("the target lists its subsystem elsewhere: {listed}"))
                }
                _ => HostError::help(&error).map(str::to_owned),
            };
            Failure::failed(error.to_string(), help.as_deref())
        }
        LoadError::Connecting { .. } => Failure::failed(
            error.to_string(),
            Some(
                "is it an NVMe/TCP target? One that was about to begin is ready now: start it again",
            ),
        ),
        LoadError::Workload(error) => Failure::usage(error.to_string(), None),
        LoadError::Unfit(problem) => Failure::usage(problem, None),
    }
}

fn time(option: &str, text: &Option<String>, default: Duration) -> Result<Duration, Failure> {
    text.as_deref().map_or(Ok(default), |text| {
        values::span(option, text).map(|span| Duration::from_nanos(span.as_ps() / 1_000))
    })
}
