//! `mynah profile --task FILE`: serves what a task asks for, puts its loads on it run after run, and says
//! where the time of their I/Os went, and whether that is what the task expects.

use super::show::foreign;
use crate::args::Attach;
use crate::bench::{self, profile::Profile};
use crate::failure::{Failure, say};
use crate::progress::Bar;
use crate::target::{self, ResolvedTarget};
use crate::{print, profile};
use mynah_analysis::task::{
    Task, TaskBase, TaskDrive, TaskError, TaskLink, TaskLoad, TaskRun, TaskTarget,
};
use mynah_analysis::{Analysis, Beyond, ProfileReport, ProfileReports, analyse, views};
use mynah_lab::SimulationError;
use mynah_lab::emulation::Emulation;
use mynah_result::figures::{count, duration, percent};
use mynah_result::output;
use mynah_runtime::cpus::Cpus;
use mynah_runtime::host::load::{self, Load};
use mynah_runtime::pacing::Poll;
use mynah_runtime::private_link::{self, BulkFlows, LinkError, PrivateLink};
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

/// Reads the task at `path`; if it has a link of its own, this process has namespaces for it from now on.
/// It is to be called before there is a second thread.
pub(crate) fn begin(path: &Path) -> Result<Task, Failure> {
    let task = Task::load(path)?;
    if task.link.is_some() {
        private_link::isolate().map_err(|error| no_link(&error))?;
    }
    Ok(task)
}

fn no_link(error: &LinkError) -> Failure {
    let help = "a link of its own takes user namespaces, which the system may forbid (sysctl \
                user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), and `ip` and \
                `tc` of iproute2 with the kernel's veth and sch_tbf";
    Failure::failed(format!("link: {error}"), Some(help))
}

/// Runs a task; whether it was interrupted.
pub(crate) fn run(task: &Task, args: &Attach) -> Result<bool, Failure> {
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
    let cpus = |load: &TaskLoad| cpus("load", load.cpus_allowed.as_deref());
    let cpus = |run: &TaskRun| run.loads.iter().map(cpus).collect();
    let cpus = task.runs.iter().map(cpus).collect::<Result<Vec<Vec<_>>, _>>()?;
    let base = match &task.base {
        Some(TaskBase::File(base)) => {
            Some(analyse(base, &task.group_by).map_err(|problem| foreign(&problem))?)
        }
        _ => None,
    };
    let runs = Runs { task, cpus, folder: kept, args };
    let (done, interrupted) = match &task.target {
        TaskTarget::At(address) => runs.on(address, None)?,
        TaskTarget::Served(drive) => runs.on_drive(drive)?,
    };
    report(task, &done, base.as_ref())?;
    Ok(interrupted)
}

/// Parses the value of a `cpus_allowed`.
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
    /// Where loads may run, by run.
    cpus: Vec<Vec<Option<Cpus>>>,
    /// Folder of the runs' profiles.
    folder: PathBuf,
    args: &'a Attach,
}

impl Runs<'_> {
    /// Serves a drive, and does the runs on it; whether they were interrupted.
    fn on_drive(&self, drive: &TaskDrive) -> Result<(Vec<Analysis>, bool), Failure> {
        let mut emulation = Emulation::on(&drive.drive, &drive.set)?;
        emulation.start = drive.precondition.into();
        let cpus = cpus("serve", drive.cpus_allowed.as_deref())?;
        let link = self.task.link.map(|TaskLink { bytes_per_s, queue }| {
            let queue = Duration::from_nanos(queue.as_ps() / 1_000);
            PrivateLink::new(bytes_per_s, queue).map_err(|error| no_link(&error))
        });
        let link = link.transpose()?;
        let mut options = ServeOptions { poll: Poll::Always, cpus, ..ServeOptions::default() };
        if let Some(link) = &link {
            options.tcp = vec![(link.near(), 0).into()];
        }
        let server = Server::new(emulation.prepare()?, options)?;
        let address = format!("tcp://{}/{}", server.addresses()[0], server.nqn());
        let control = server.control();
        let link = link.as_ref();
        std::thread::scope(|scope| {
            let runs = scope.spawn(move || {
                // However they end, the target does as well.
                let _stop = Stop(move || control.stop());
                if let Some(link) = link {
                    link.enter().map_err(|error| no_link(&error))?;
                }
                self.on(&address, link)
            });
            server.run()?;
            runs.join().map_err(|_| Failure::failed("the host failed".into(), None))?
        })
    }

    /// Does the runs on the target at `address`, over this link.
    fn on(
        &self,
        address: &str,
        link: Option<&PrivateLink>,
    ) -> Result<(Vec<Analysis>, bool), Failure> {
        let found = target::find(address, &self.args.host)?;
        let mut done = vec![];
        for number in 0..self.task.runs.len() {
            let flows = self.task.runs[number].bulk_flows;
            let flows = link.map(|link| BulkFlows::start(link, flows)).transpose();
            let failed = |error| Failure::failed(format!("bulk_flows: {error}"), None);
            let flows = flows.map_err(failed)?;
            let (analysis, interrupted) = self.one(number, &found)?;
            drop(flows);
            done.push(analysis);
            if interrupted {
                return Ok((done, true));
            }
        }
        Ok((done, false))
    }

    fn one(&self, number: usize, target: &ResolvedTarget) -> Result<(Analysis, bool), Failure> {
        let TaskRun { name, loads, .. } = &self.task.runs[number];
        let path = self.folder.join(format!("{}.profile", number + 1));
        let choice = self.task.choice.clone();
        let profile = Profile::of(choice, Some(&path), &target.place.to_string())?;
        let profile = profile.ask(&target.place, target.wait);
        let load = |(index, (load, cpus)): (usize, (&TaskLoad, &Option<Cpus>))| Load {
            target: target.place.clone(),
            flow: load.flow.clone(),
            beside: load.beside.clone(),
            namespace: None,
            loads_keys: false,
            index: index as u32,
            seed: 1,
            queue_entries: None,
            ramp: Span::ZERO,
            verify: false,
            wait: target.wait,
            reconnect: RECONNECT,
            cpus: cpus.clone(),
            profile: Some(Arc::clone(&profile.run)),
        };
        let loads: Vec<Load> = loads.iter().zip(&self.cpus[number]).enumerate().map(load).collect();
        let mut bar = Bar::new(self.args.quiet);
        let outcome = load::run_all(&loads, &mut |progress| bar.load(progress));
        drop(bar);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                profile.abandon();
                return Err(bench::refused(error, target.listed.as_deref()));
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
        let said = |stage: &&mynah_analysis::StageReport| {
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
    let beyond = Beyond { limits: task.limits };
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
    print::out(&shown.text_with(task.shown))?;
    check(task, done, base, &reports)
}

/// Says of what was expected whether it was so.
fn check(
    task: &Task,
    done: &[Analysis],
    base: Option<&Analysis>,
    reports: &dyn Fn(&[Analysis], usize) -> ProfileReports,
) -> Result<(), Failure> {
    if task.expected.is_empty() {
        return Ok(());
    }
    let base = base.map(|base| ProfileReports::new(std::slice::from_ref(base), None));
    let base = base.as_ref().and_then(|base| base.profiles.first());
    let all = reports(done, 0);
    let mut text = String::from("\nExpected:\n");
    let mut failed = 0;
    for expected in &task.expected {
        // Interrupted, there are fewer runs.
        let Some(report) = all.profiles.get(expected.run) else { continue };
        let checked = expected.check(report, base);
        failed += usize::from(!checked.holds);
        text += &checked.text;
    }
    print::out(&text)?;
    let expected = task.expected.len();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{failed} of {expected} expectations do not hold"), None)),
    }
}

fn run_name(task: &Task, number: usize) -> String {
    let name = task.runs.get(number).map_or("", |run| run.name.as_str());
    format!("run {}, {name}", number + 1)
}
