//! `mynah sim`: an experiment put together from options and files, run, and told.

use crate::args::{Sim, flag};
use crate::batch;
use crate::failure::Failure;
use crate::fio_words;
use crate::machine::Meter;
use crate::print;
use crate::progress::Bar;
use crate::watch::Watched;
use mynah_drive_file::fault::FORMS;
use mynah_drive_file::{self as drive, units};
use mynah_lab::experiment::Settle;
use mynah_lab::runner::RunError;
use mynah_lab::simulation::{self, DEFAULT_REQUESTS, Step};
use mynah_lab::{Measured, Simulation, SimulationError, mqsim};
use mynah_result::Results;
use mynah_result::output::{PendingFile, named};
use mynah_result::series::DEFAULT_INTERVAL;
use mynah_result::timeline::Window;
use mynah_runtime::fault;
use mynah_stamp::Span;
use mynah_workload::{FlowOptions, Limits};
use std::path::{Path, PathBuf};

/// Simulates; whether it was interrupted.
pub(crate) fn run(args: &Sim) -> Result<bool, Failure> {
    refuse_flow_options(args)?;
    crate::print::refuse_verbose(args.output.verbose, args.output.json.as_deref())?;
    refuse_overwriting(args)?;
    if let Some(recording) = &args.source.replay {
        let outputs = Outputs::create(args, &[String::new()])?;
        let measured = replay(args, recording)?;
        let remark = "replayed: every completion came as recorded".to_owned();
        return outputs.show(args, &[(String::new(), measured)], &[remark]);
    }
    let mut remarks = Vec::new();
    let simulations = simulations(args, &mut remarks)?;
    if let Some(path) = &args.source.convert {
        let converted = convert(args, path, &simulations)?;
        if !args.output.quiet {
            remarks.iter().for_each(crate::failure::say);
        }
        return Ok(converted);
    }
    if args.run.no_run {
        for (_, simulation) in &simulations {
            print::out(&simulation.describe()?)?;
        }
        remarks.iter().for_each(crate::failure::say);
        return Ok(false);
    }
    let sweeps = simulations.iter().any(|(_, simulation)| !simulation.point.is_empty());
    if sweeps || args.run.repeat.is_some() {
        if args.output.hgrm.is_some() {
            let help =
                "the JSON has each run's (lat_hdr), and one point of the sweep writes its own";
            return Err(Failure::usage("--hgrm is of one run, not of many", Some(help)));
        }
        if args.output.pcap.is_some() {
            let help = "capture a run of its own: one point of the sweep, one seed";
            return Err(Failure::usage("--pcap captures one run, not many", Some(help)));
        }
        if args.output.verbose {
            let help = "one point of the sweep, or one seed, has a summary of its own";
            return Err(Failure::usage(
                "-v shows one run, and of many a table is shown",
                Some(help),
            ));
        }
        if args.output.watch {
            let help = "one point of the sweep, or one seed, can be watched";
            return Err(Failure::usage("--watch shows one run, not many", Some(help)));
        }
        let simulations = simulations.into_iter().map(|(_, simulation)| simulation).collect();
        return batch::run(args, simulations, &remarks);
    }
    for (option, given) in [
        ("--threads", args.run.threads.is_some()),
        ("--table", args.output.table.is_some()),
        ("--resume", args.run.resume.is_some()),
    ] {
        if given {
            let message = format!("{option} has no effect here: there is one run");
            let help = "it belongs to --repeat, or to an experiment file with a [sweep]";
            return Err(Failure::usage(message, Some(help)));
        }
    }
    let names: Vec<String> = simulations.iter().map(|(name, _)| name.clone()).collect();
    let outputs = Outputs::create(args, &names)?;
    let mut done = Vec::new();
    let mut unsaved = None;
    for (name, mut simulation) in simulations {
        let mut bar = Bar::new(args.output.quiet);
        if args.output.watch {
            let watched = Watched::default();
            simulation.points = Some(watched.sink());
            bar = Bar::watching(watched);
        }
        let run = |watch: &mut dyn FnMut(Step<'_>) -> bool| {
            measured_anyway(simulation.run_watched(watch), &mut unsaved)
        };
        let measured = watched_on(bar, run)?;
        let interrupted = measured.interrupted;
        done.push((name, measured));
        if interrupted {
            break;
        }
    }
    let interrupted = outputs.show(args, &done, &remarks)?;
    unsaved.map_or(Ok(interrupted), |reason| Err(SimulationError::from(reason).into()))
}

/// What was measured, even if the drive's state could not be saved then: the first reason for that
/// is kept in `unsaved`.
pub(crate) fn measured_anyway(
    run: Result<Measured, SimulationError>,
    unsaved: &mut Option<RunError>,
) -> Result<Measured, SimulationError> {
    match run {
        Err(SimulationError::Unsaved { measured, reason }) => {
            unsaved.get_or_insert(reason);
            Ok(*measured)
        }
        run => run,
    }
}

/// Refuses a drive that this machine cannot hold, before the system ends the run half-way.
pub(crate) fn enough_memory(simulation: &Simulation, at_once: u64) -> Result<(), Failure> {
    const MIB: u64 = 1 << 20;
    let needed = simulation.memory_bytes().saturating_mul(at_once);
    match mynah_memory::available_bytes() {
        Some(available) if needed > available => Err(Failure::usage(
            format!(
                "the drive `{}` needs {} MiB of memory{}, and {} MiB are available",
                simulation.name,
                needed / MIB,
                if at_once > 1 { format!(" for {at_once} runs at a time") } else { String::new() },
                available / MIB
            ),
            Some("a larger mapping.unit or fewer blocks (geometry.blocks_per_plane) need less"),
        )),
        _ => Ok(()),
    }
}

/// Where the workload comes from a file, options of a flow would have no effect.
fn refuse_flow_options(args: &Sim) -> Result<(), Failure> {
    if let Some(path) = args.experiment.as_deref()
        && let Some(how) = fio_words::how_to_join(path)
    {
        let message =
            format!("`{}` is taken for an experiment file, and there is none", path.display());
        return Err(Failure::usage(message, Some(how)));
    }
    let what = match args {
        Sim { experiment: Some(_), .. } => "an experiment file",
        _ if args.source.replay.is_some() => "a recording",
        _ if args.source.mqsim_config.is_some() => "MQSim's workload file",
        _ if args.source.fio.is_some() => "fio's job file",
        _ => return Ok(()),
    };
    let options = args.flow.options();
    let mut given = FlowOptions::NAMES.iter().filter(|name| options.get(name).is_some());
    match given.next() {
        None => Ok(()),
        Some(option) => Err(Failure::usage(
            format!("{} has no effect here: {what} says what is done", flag(option)),
            Some("leave it out, or change the file"),
        )),
    }
}

/// Refuses to write two things into one file, or over what is read.
fn refuse_overwriting(args: &Sim) -> Result<(), Failure> {
    let Sim { experiment, source, run, output, .. } = args;
    let not_a_stream = |path: &&PathBuf| path.as_path() != Path::new("-");
    let trace = args.flow.options().trace.map(PathBuf::from);
    let drive = args.drive.drive.as_ref().map(PathBuf::from);
    let read = [
        ("the experiment", experiment.as_ref()),
        ("--drive", drive.as_ref()),
        ("--trace", trace.as_ref().filter(not_a_stream)),
        ("--fio", source.fio.as_ref()),
        ("--replay", source.replay.as_ref()),
        ("--mqsim-config", source.mqsim_config.as_ref()),
        ("--mqsim-workload", source.mqsim_workload.as_ref()),
    ];
    let written = [
        ("--convert", source.convert.as_ref()),
        ("--save-state", run.save_state.as_ref()),
        ("--json", output.json.as_ref().filter(not_a_stream)),
        ("--report", output.report.as_ref()),
        ("--hgrm", output.hgrm.as_ref()),
        ("--table", output.table.as_ref()),
        ("--request-log", output.request_log.as_ref()),
        ("--intervals", output.intervals.as_ref()),
        ("--timeline", output.timeline.as_ref()),
        ("--record", output.record.as_ref()),
        ("--profile", output.profile.as_ref()),
        ("--pcap", output.pcap.as_ref()),
    ];
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in read {
        let path = path.filter(|path| path.is_file());
        taken.extend(path.and_then(|path| place(path)).map(|place| (option, place)));
    }
    for (option, path) in written {
        let Some((path, place)) = path.and_then(|path| Some((path, place(path)?))) else {
            continue;
        };
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == place) {
            let message = format!("{option} would write over {other}: both are {}", path.display());
            return Err(Failure::usage(message, Some("name another file")));
        }
        taken.push((option, place));
    }
    Ok(())
}

/// Where an ordinary file is or would be, whatever way its path takes.
fn place(path: &Path) -> Option<PathBuf> {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return None;
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    Some(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(path.file_name()?))
}

/// Runs with progress, and fills in what it cost.
pub(crate) fn watched(
    quiet: bool,
    run: impl FnOnce(&mut dyn FnMut(Step<'_>) -> bool) -> Result<Measured, SimulationError>,
) -> Result<Measured, Failure> {
    watched_on(Bar::new(quiet), run)
}

/// Like [`watched`], with this bar.
pub(crate) fn watched_on(
    mut bar: Bar,
    run: impl FnOnce(&mut dyn FnMut(Step<'_>) -> bool) -> Result<Measured, SimulationError>,
) -> Result<Measured, Failure> {
    let mut meter = Meter::new();
    let mut measured = run(&mut |step| {
        meter.step(step);
        bar.step(step)
    })?;
    measured.result.run = meter.finish();
    Ok(measured)
}

fn replay(args: &Sim, recording: &Path) -> Result<Measured, Failure> {
    let (drive, log) = (args.drive.drive.as_deref(), args.output.request_log.as_deref());
    let (set, fault, state) = (&args.drive.set, &args.drive.fault, args.run.load_state.as_deref());
    watched(args.output.quiet, |watch| {
        mynah_lab::replay::replay(recording, drive, set, fault, state, log, watch)
    })
}

/// What is to be run, each with the name of its scenario, or none.
fn simulations(
    args: &Sim,
    remarks: &mut Vec<String>,
) -> Result<Vec<(String, Simulation)>, Failure> {
    let mut simulations = if let Some(path) = &args.experiment {
        Simulation::from_sweep_on(path, args.drive.drive.as_deref(), &args.drive.set)?
    } else if let (Some(drive), Some(workload)) =
        (&args.source.mqsim_config, &args.source.mqsim_workload)
    {
        let import =
            mqsim::load(drive, workload, args.source.as_mqsim).map_err(SimulationError::from)?;
        remarks.extend(import.warnings.iter().map(|warning| format!("warning: {warning}")));
        Simulation::from_mqsim(import)
    } else {
        vec![from_options(args, remarks)?]
    };
    for simulation in &simulations {
        enough_memory(simulation, 1)?;
    }
    if args.run.precision.is_some() && !simulations.iter().any(Simulation::is_auto) {
        let message = "--precision has no effect here: every flow says when it ends";
        let help = "flows with the runtime auto end when their figures are known";
        return Err(Failure::usage(message.to_owned(), Some(help)));
    }
    let several = simulations.len() > 1;
    for (number, simulation) in simulations.iter_mut().enumerate() {
        *simulation = adjust(args, simulation.clone())?;
        let name = match simulation.point.is_empty() {
            true if several => simulation.name.clone(),
            true => String::new(),
            false => format!("point-{}", number + 1),
        };
        let name = name.as_str();
        simulation.request_log = args.output.request_log.as_deref().map(|path| named(path, name));
        simulation.profile = args.output.profile.as_deref().map(|path| named(path, name));
        simulation.record = args.output.record.as_deref().map(|path| named(path, name));
        simulation.pcap = args.output.pcap.as_deref().map(|path| named(path, name));
        if simulation.pcap.is_some() {
            simulation.ethernet()?;
        }
        simulation.over_time = args.output.report.is_some();
        simulation.options.load_state = args.run.load_state.clone();
        simulation.save_state = args.run.save_state.as_deref().map(|path| named(path, name));
        simulation.intervals = match &args.output.intervals {
            Some(path) => Some((named(path, name), interval(args)?)),
            None => None,
        };
        simulation.timeline = match &args.output.timeline {
            Some(path) => Some((named(path, name), window(args)?)),
            None => None,
        };
    }
    let name = |simulation: Simulation| match several {
        true => (simulation.name.clone(), simulation),
        false => (String::new(), simulation),
    };
    Ok(simulations.into_iter().map(name).collect())
}

/// The simulation that the drive's and the flow's options describe.
fn from_options(args: &Sim, remarks: &mut Vec<String>) -> Result<Simulation, Failure> {
    let drive = args.drive.drive.as_deref().unwrap_or(drive::DEFAULT_DRIVE);
    let mut simulation = Simulation::on_changed(drive, &args.drive.set)?;
    if let Some(path) = &args.source.fio {
        let (simulation, warnings) = simulation.fio(path)?;
        remarks.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
        return Ok(simulation);
    }
    let mut options = args.flow.options();
    let said = options.rw.is_some() || options.trace.is_some() || options.kv.is_some();
    if !said {
        options.rw = Some("randread".to_owned());
        let closed = options.rate_iops.is_none() && options.rate_interval.is_none();
        if closed && options.iodepth.is_none() {
            options.iodepth = Some("32".to_owned());
        }
        remarks.push("no --rw: random reads".to_owned());
    }
    let name = options.kv.clone().or_else(|| options.rw.clone());
    let name = name.unwrap_or_else(|| "trace".to_owned());
    let mut flow = options.flow(&name).map_err(SimulationError::from)?;
    if let Some(text) = &args.run.until_steady {
        let every = crate::values::interval("--until-steady", text)?;
        // --size is only the working set then: the steady state ends the run.
        if !options.is_limited() {
            flow.limits = Limits::default();
        }
        simulation::limit_rounds(std::slice::from_mut(&mut flow), every);
    } else if simulation::is_endless(&flow) && (asks_for_precision(args) || flow.modifies()) {
        // What a drive does to writes comes in bursts: some drives show nothing in so many requests.
        flow.limits.auto = true;
        remarks.push("no limit: until its figures are known (--precision, --runtime)".to_owned());
    } else if simulation::limit(&mut flow) {
        remarks.push(format!("no limit: {DEFAULT_REQUESTS} requests (--number_ios, --runtime)"));
    }
    simulation.flows.push(flow);
    Ok(simulation)
}

/// Whether a flow that says no end goes on until its figures are known.
fn asks_for_precision(args: &Sim) -> bool {
    args.run.precision.is_some() || args.run.repeat.is_some()
}

/// Lays what the command line says about the run over a simulation.
fn adjust(args: &Sim, mut simulation: Simulation) -> Result<Simulation, Failure> {
    for spec in &args.drive.fault {
        if fault::parse(spec).is_some() {
            let message = format!("--fault {spec}: a simulated drive has no connections");
            let help = "`mynah serve` has such faults; those of the drive are";
            let forms = format!("{help}\n{FORMS}");
            return Err(Failure::usage(message, Some(&forms)));
        }
        simulation = simulation.fault(spec)?;
    }
    if let Some(precondition) = args.drive.precondition {
        simulation = simulation.precondition(precondition);
    }
    if let Some(seed) = args.run.seed {
        simulation = simulation.seed(seed);
    }
    if let Some(text) = &args.run.settle {
        simulation.options.settle = match text.as_str() {
            "auto" => Settle::Auto,
            "off" => Settle::Off,
            _ => match crate::values::span("--settle", text) {
                Ok(time) if time.is_zero() => Settle::Off,
                Ok(time) => Settle::For(time),
                Err(_) => {
                    let problem =
                        format!("--settle {text}: neither auto, off nor a time such as 5s");
                    return Err(Failure::usage(problem, None));
                }
            },
        };
    }
    simulation.require_steady = args.run.require_steady;
    if let Some(goal) = args.run.precision {
        simulation.options.precision = goal;
    }
    if let Some(text) = &args.run.ramp_time {
        simulation.options.ramp_time = crate::values::span("--ramp_time", text)?;
    }
    if let Some(text) = &args.run.until_steady {
        simulation.options.until_steady = Some(crate::values::interval("--until-steady", text)?);
    }
    simulation.alone = args.run.alone;
    simulation.check_ends()?;
    Ok(simulation)
}

/// The shortest interval: no command is as fast, and every interval is a row for each flow.
const INTERVAL_MIN: Span = Span::from_us(1);

/// Length of an interval of the intervals file.
fn interval(args: &Sim) -> Result<Span, Failure> {
    match &args.output.interval {
        Some(text) => match crate::values::interval("--interval", text)? {
            interval if interval < INTERVAL_MIN => {
                let least = units::Duration(INTERVAL_MIN);
                Err(Failure::usage(format!("--interval {text}: at least {least}"), None))
            }
            interval => Ok(interval),
        },
        None => Ok(DEFAULT_INTERVAL),
    }
}

/// The part of the run that a timeline shows.
fn window(args: &Sim) -> Result<Window, Failure> {
    let Some(text) = &args.output.timeline_window else { return Ok(Window::ALL) };
    Window::parse(text)
        .map_err(|problem| Failure::usage(format!("--timeline-window {text}: {problem}"), None))
}

/// Writes each simulation as a drive file and an experiment file.
fn convert(args: &Sim, path: &Path, simulations: &[(String, Simulation)]) -> Result<bool, Failure> {
    let of =
        |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("")).display().to_string();
    let remark = format!(
        "Converted from MQSim's {} and {}",
        of(&args.source.mqsim_config),
        of(&args.source.mqsim_workload)
    );
    let mut files = Vec::new();
    for (name, simulation) in simulations {
        let drive = named(path, name);
        let experiment = named(&drive, "workload");
        let texts = simulation.to_files(&remark, &drive, &experiment)?;
        files.push((PendingFile::create(&drive)?, texts.drive));
        files.push((PendingFile::create(&experiment)?, texts.experiment));
    }
    for (file, text) in files {
        file.finish(&text)?;
    }
    if !args.output.quiet {
        for (name, _) in simulations {
            let drive = named(path, name);
            let experiment = named(&drive, "workload");
            let (drive, experiment) = (drive.display(), experiment.display());
            print::out(&format!("wrote {drive} and {experiment}; try `mynah sim {experiment}`\n"))?;
        }
    }
    Ok(false)
}

/// The files that are written when everything is done. They are begun before anything runs,
/// so that a long run does not end in a folder that does not exist.
struct Outputs {
    json: Option<PendingFile>,
    reports: Vec<PendingFile>,
}

impl Outputs {
    fn create(args: &Sim, names: &[String]) -> Result<Outputs, Failure> {
        let json = args.output.json.as_deref().filter(|path| *path != Path::new("-"));
        crate::hgrm::check(args.output.hgrm.as_deref())?;
        let report = args.output.report.as_deref();
        let reports = names.iter().flat_map(|name| report.map(|path| named(path, name)));
        Ok(Outputs {
            json: json.map(PendingFile::create).transpose()?,
            reports: reports.map(|path| PendingFile::create(&path)).collect::<Result<_, _>>()?,
        })
    }

    /// Prints and writes what was measured; whether it was interrupted.
    fn show(
        self,
        args: &Sim,
        done: &[(String, Measured)],
        remarks: &[String],
    ) -> Result<bool, Failure> {
        let interrupted = done.iter().any(|(_, measured)| measured.interrupted);
        for (file, (_, measured)) in self.reports.into_iter().zip(done) {
            file.finish(&measured.html())?;
        }
        if let Some(path) = &args.output.hgrm {
            for (name, measured) in done {
                crate::hgrm::write(&named(path, name), &measured.result)?;
            }
        }
        let json = || match done {
            [(_, measured)] => measured.result.to_json(),
            _ => {
                let results = done.iter().map(|(_, measured)| measured.result.clone());
                Results::new(results.collect()).to_json()
            }
        };
        if let Some(file) = self.json {
            file.finish(&json())?;
        }
        if !args.output.quiet {
            remarks.iter().for_each(crate::failure::say);
        }
        if args.output.json.as_deref() == Some(Path::new("-")) {
            print::out(&json())?;
        } else if !args.output.quiet {
            let summaries = done.iter().map(|(name, measured)| {
                let summary = match args.output.verbose {
                    true => measured.full_summary(),
                    false => measured.summary(),
                };
                match name.is_empty() {
                    true => summary,
                    false => format!("{name}\n\n{summary}"),
                }
            });
            print::out(&summaries.collect::<Vec<_>>().join("\n"))?;
        }
        let untrusted = done.iter().find_map(|(_, measured)| measured.result.untrusted.clone());
        match untrusted.filter(|_| !interrupted) {
            Some(reason) => Err(Failure::failed(format!("not trustworthy: {reason}"), None)),
            None => Ok(interrupted),
        }
    }
}
