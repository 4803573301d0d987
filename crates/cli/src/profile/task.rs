//! `mynah profile --task FILE`: serves what a task asks for, puts its loads on it one after the other,
//! and says where the time of their I/Os went.

use super::show::foreign;
use crate::args::Attach;
use crate::bench::{self, profile::Profile};
use crate::failure::{Failure, say};
use crate::progress::Bar;
use crate::target::{self, Found};
use crate::{print, profile};
use mynah_lab::SimulationError;
use mynah_lab::emulation::Emulation;
use mynah_lab::output;
use mynah_lab::profile::task::{Task, TaskBase, TaskDrive, TaskError, TaskRun, TaskTarget};
use mynah_lab::profile::{Analysis, Beyond, ProfileReport, ProfileReports, analyse, views};
use mynah_lab::summary::units::{count, duration, percent};
use mynah_runtime::cpus::Cpus;
use mynah_runtime::host::load::{self, Load};
use mynah_runtime::pacing::Poll;
use mynah_runtime::server::{ServeOptions, Server};
use mynah_stamp::Span;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Stages that a run's line names.
const STAGES: usize = 3;
/// For how long a lost target is tried again.
const RECONNECT: Duration = Duration::from_secs(60);

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        SimulationError::Experiment(error).into()
    }
}

/// Runs the task at `path`; whether it was interrupted.
pub(crate) fn run(path: &Path, args: &Attach) -> Result<bool, Failure> {
    let task = Task::load(path)?;
    let folder = profile::folder()?;
    let kept = match &task.output {
        Some(output) => {
            let failed =
                |error| Failure::usage(format!("output: {}: {error}", output.display()), None);
            std::fs::create_dir_all(output).map_err(failed)?;
            output.clone()
        }
        None => folder.path().to_owned(),
    };
    // What cannot be is said before anything runs.
    let cpus = |run: &TaskRun| cpus("load", run.cpus_allowed.as_deref());
    let cpus = task.runs.iter().map(cpus).collect::<Result<Vec<_>, _>>()?;
    let base = match &task.base {
        Some(TaskBase::File(base)) => {
            Some(analyse(base, &task.group_by).map_err(|problem| foreign(&problem))?)
        }
        _ => None,
    };
    let runs = Runs { task: &task, cpus, folder: kept, args };
    let (done, interrupted) = match &task.target {
        TaskTarget::At(address) => runs.on(address)?,
        TaskTarget::Served(drive) => runs.on_drive(drive)?,
    };
    report(&task, &done, base.as_ref())?;
    Ok(interrupted)
}

/// Where threads may run.
fn cpus(key: &str, text: Option<&str>) -> Result<Option<Cpus>, Failure> {
    let read = |text: &str| {
        let wrong = |error| Failure::usage(format!("{key}: cpus_allowed: {error}"), None);
        text.parse::<Cpus>().map_err(wrong)
    };
    text.map(read).transpose()
}

/// The runs of a task.
struct Runs<'a> {
    task: &'a Task,
    cpus: Vec<Option<Cpus>>,
    /// Where their profiles are.
    folder: PathBuf,
    args: &'a Attach,
}

impl Runs<'_> {
    /// Serves a drive, and does them; whether they were interrupted.
    fn on_drive(&self, drive: &TaskDrive) -> Result<(Vec<Analysis>, bool), Failure> {
        let mut emulation = Emulation::on(&drive.drive, &drive.set)?;
        emulation.precondition = drive.precondition;
        let cpus = cpus("serve", drive.cpus_allowed.as_deref())?;
        let server = Server::new(
            emulation.prepare()?,
            ServeOptions { poll: Poll::Always, cpus, ..ServeOptions::default() },
        )?;
        let address = format!("tcp://{}/{}", server.addresses()[0], server.nqn());
        let control = server.control();
        std::thread::scope(|scope| {
            let runs = scope.spawn(move || {
                // However they end, the target does as well.
                let _stop = Stop(move || control.stop());
                self.on(&address)
            });
            server.run()?;
            runs.join().map_err(|_| Failure::failed("the host failed".into(), None))?
        })
    }

    /// Does them on the target there.
    fn on(&self, address: &str) -> Result<(Vec<Analysis>, bool), Failure> {
        let found = target::find(address, &self.args.host)?;
        let mut done = vec![];
        for number in 0..self.task.runs.len() {
            let (analysis, interrupted) = self.one(number, &found)?;
            done.push(analysis);
            if interrupted {
                return Ok((done, true));
            }
        }
        Ok((done, false))
    }

    fn one(&self, number: usize, found: &Found) -> Result<(Analysis, bool), Failure> {
        let TaskRun { name, flow, .. } = &self.task.runs[number];
        let path = self.folder.join(format!("{}.profile", number + 1));
        let choice = self.task.choice.clone();
        let profile = Profile::of(choice, Some(&path), &found.place.to_string())?;
        let profile = profile.ask(&found.place, found.wait);
        let load = Load {
            target: found.place.clone(),
            flow: flow.clone(),
            namespace: None,
            loads_keys: false,
            index: 0,
            seed: 1,
            queue_entries: None,
            ramp: Span::ZERO,
            verify: false,
            flush_every: 0,
            wait: found.wait,
            reconnect: RECONNECT,
            cpus: self.cpus[number].clone(),
            profile: Some(Arc::clone(&profile.run)),
        };
        let mut bar = Bar::new(self.args.quiet);
        let outcome = load::run_all(&[load], &mut |progress| bar.load(progress));
        drop(bar);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                profile.abandon();
                return Err(bench::refused(error, found.listed.as_deref()));
            }
        };
        let (analysis, alone, _) = profile.analyse(&self.task.group_by)?;
        if let Some(why) = alone {
            say(format_args!("note: run {}: one side only: {why}", number + 1));
        }
        if let Some(failure) = outcome.failure() {
            return Err(Failure::failed(format!("run {}: {failure}", number + 1), None));
        }
        if !self.args.quiet {
            let reports = ProfileReports::new(std::slice::from_ref(&analysis), None);
            for report in &reports.profiles {
                print::out(&line(number, name, report))?;
            }
        }
        Ok((analysis, outcome.interrupted))
    }
}

/// Does something at its end.
struct Stop<F: Fn()>(F);

impl<F: Fn()> Drop for Stop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What a run came to, a line for each group.
fn line(number: usize, name: &str, report: &ProfileReport) -> String {
    let mut text = String::new();
    for group in &report.groups {
        let Some(latency) = &group.lat_ns else { continue };
        let mut stages: Vec<_> = group.stages.iter().collect();
        stages.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
        let said = |stage: &&mynah_lab::profile::StageReport| {
            format!("{}={} ({})", stage.stage, duration(stage.mean_ns), percent(stage.share))
        };
        let stages: Vec<String> = stages.iter().take(STAGES).map(said).collect();
        text += &format!(
            "run {}, {name}: {}: IOPS={}, avg={}, p99={}; {}\n",
            number + 1,
            group.name,
            count(group.iops),
            duration(latency.mean),
            duration(latency.percentiles.p99),
            stages.join(", ")
        );
    }
    match text.is_empty() {
        true => format!("run {}, {name}: nothing was recorded\n", number + 1),
        false => text,
    }
}

/// Says what all came to: the last run for people, all of them in files.
fn report(task: &Task, done: &[Analysis], base: Option<&Analysis>) -> Result<(), Failure> {
    let Some(last) = done.last() else { return Ok(()) };
    // Interrupted before the end, the last run may be the base, and is compared with nothing.
    let (base, base_name) = match &task.base {
        Some(TaskBase::Run(number)) if number + 1 < done.len() => {
            (done.get(*number), Some(run_name(task, *number)))
        }
        Some(TaskBase::File(path)) => (base, Some(path.display().to_string())),
        _ => (None, None),
    };
    let beyond = Beyond { limits: task.limits, ..Beyond::default() };
    let reports = |these: &[Analysis], first: usize| {
        let mut reports = ProfileReports::knowing(these, base, &beyond);
        reports.base.clone_from(&base_name);
        for (number, report) in reports.profiles.iter_mut().enumerate() {
            report.file = run_name(task, first + number);
        }
        reports
    };
    let shown = reports(std::slice::from_ref(last), done.len() - 1);
    if task.html.is_some() || task.json.is_some() {
        let all = reports(done, 0);
        if let Some(path) = &task.html {
            let verdict = shown.profiles.iter().find_map(|it| Some(it.verdict()?.text()));
            views::write_report(path, &all, (done, base), verdict.as_deref())?;
        }
        if let Some(path) = &task.json {
            output::write(path, &all.to_json())?;
        }
    }
    print::out("\n")?;
    print::out(&shown.text_with(task.shown))
}

fn run_name(task: &Task, number: usize) -> String {
    let name = task.runs.get(number).map_or("", |run| run.name.as_str());
    format!("run {}, {name}", number + 1)
}
