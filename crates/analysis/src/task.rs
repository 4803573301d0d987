//! Task files: what is profiled, how, and what is said of it.
//!
//! ```toml
//! schema = "mynah.profile-task/1"
//!
//! [workload]                      # whose records are kept
//! io = "read"
//!
//! [execution]
//! serve = { drive = "enterprise-tlc" }
//! load = [{ rw = "randread", bs = "4k", iodepth = [1, 4, 16], runtime = "1s" }]
//!
//! [profiler]
//! sample = "1/10"
//!
//! [report]
//! base = 1                        # the first run
//! html = "depth.html"
//! ```
//!
//! A load's keys are options of `FlowOptions`; one of them may be a list, for a run with each of its
//! values (`loads.rs`). What is expected of runs can be said as well (`expect.rs`). Nothing is ignored: an
//! unknown key or a value that cannot be used is an error that shows the place. `raw.rs` is the file as it
//! is written, and its schema.

mod expect;
mod loads;
mod raw;

pub use expect::{Checked, Expectation};

pub use mynah_drive_file::input::FileError as TaskError;

use super::choice::{
    ChoiceTextError, parse_every, parse_keep_above, parse_kinds, parse_numbers, parse_sampling,
    parse_sizes, parse_statuses,
};
use super::group::GroupBy;
use super::text::Shown;
use super::verdict::{Limits, bytes_per_s};
use mynah_drive_file as drive;
use mynah_drive_file::input::{Text, read_text};
use mynah_drive_file::units::{Duration, UnitError};
use mynah_lab::experiment::{Precondition, overrides, scalar};
use mynah_profile::{Choice, Chooser, Filter, KeepAbove, Ranges, Sampling, io_kinds};
use mynah_stamp::Span;
use mynah_workload::FlowSpec;
use raw::{Raw, RawExecution, RawLink, RawProfiler, RawReport, RawServe, RawWorkload};
use serde_spanned::Spanned;
use std::path::{Path, PathBuf};
use toml::Value;

/// The schema this module reads.
pub const SCHEMA: &str = "mynah.profile-task/1";
/// Most runs of a task.
pub const RUNS_MAX: usize = 256;
/// The default sample, as of `mynah bench --profile`.
const SAMPLE: Sampling = Sampling::OneIn(10);
/// What links can be made to carry, in bytes a second.
const LINK_MIN: f64 = 1e6 / 8.0;
const LINK_MAX: f64 = 100e9 / 8.0;
/// How long the longest queue in front of a link takes to leave, if nothing is said, at least, at most.
const LINK_QUEUE: Span = Span::from_ms(10);
const LINK_QUEUE_MIN: Span = Span::from_us(100);
const LINK_QUEUE_MAX: Span = Span::from_secs(1);

/// A task file, parsed and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub choice: Choice,
    /// What the loads are put on.
    pub target: TaskTarget,
    /// The runs, in order; at least one.
    pub runs: Vec<TaskRun>,
    /// The link between them, if it is one of their own.
    pub link: Option<TaskLink>,
    /// What link and drive can do.
    pub limits: Limits,
    /// By what I/Os are told apart.
    pub group_by: GroupBy,
    /// What runs are compared with.
    pub base: Option<TaskBase>,
    pub shown: Shown,
    /// Where a page with pictures of all runs is written.
    pub html: Option<PathBuf>,
    /// Where the report of all runs is written for machines.
    pub json: Option<PathBuf>,
    /// The folder in which the profile of each run is kept.
    pub output: Option<PathBuf>,
    /// What is expected of the runs.
    pub expected: Vec<Expectation>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TaskTarget {
    /// A drive that is served for it.
    Served(TaskDrive),
    /// A running target, by its address.
    At(String),
}

/// A drive that the task serves itself.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDrive {
    /// A shipped drive's name, or a file.
    pub drive: String,
    /// What is changed about it, as `KEY=VALUE`.
    pub set: Vec<String>,
    pub precondition: Precondition,
    /// The processors on which it is served.
    pub cpus_allowed: Option<String>,
}

/// Loads that begin together, and the link that they go through.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRun {
    pub name: String,
    /// Loads that begin together; at least one.
    pub loads: Vec<TaskLoad>,
    /// TCP bulk flows that come to the host over the same link.
    pub bulk_flows: u32,
}

/// A load of a run, and what goes on beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskLoad {
    pub flow: FlowSpec,
    /// What is done through the same queues beside it.
    pub beside: Vec<FlowSpec>,
    /// The processors on which it runs.
    pub cpus_allowed: Option<String>,
}

/// A link between the drive and the loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLink {
    /// Bandwidth each way.
    pub bytes_per_s: f64,
    /// How long the longest queue in front of it takes to leave.
    pub queue: Span,
}

/// What runs are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskBase {
    /// One of them, by its place from 0.
    Run(usize),
    /// A profile that was recorded before.
    File(PathBuf),
}

impl Task {
    /// Reads the file at `path`. Drive files and the base that it names are looked for beside it.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn load(path: &Path) -> Result<Task, TaskError> {
        let name = path.display().to_string();
        let text = read_text(path).map_err(|error| TaskError::whole(&name, error.to_string()))?;
        let mut task = Task::parse(&name, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if let TaskTarget::Served(served) = &mut task.target
            && (served.drive.contains('/') || served.drive.ends_with(".toml"))
        {
            served.drive = folder.join(&served.drive).display().to_string();
        }
        if let Some(TaskBase::File(base)) = &mut task.base {
            *base = folder.join(&base);
        }
        Ok(task)
    }

    /// Reads `text`, which messages call `name`.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn parse(name: &str, text: &str) -> Result<Task, TaskError> {
        let file = Text { name, text };
        check_schema(&file)?;
        let raw: Raw = toml::from_str(text).map_err(|error| refused(&file, &error))?;
        let RawExecution { serve, target, load, link, link_limit, drive_limit } =
            raw.execution.into_inner();
        let link = link.map(|raw| self::link(&file, &raw, serve.is_some())).transpose()?;
        let target = match (serve, target) {
            (Some(serve), None) => TaskTarget::Served(served(&file, serve.into_inner())?),
            (None, Some(target)) => TaskTarget::At(address(&file, &target)?),
            (Some(_), Some(target)) => {
                let message =
                    "target: the task serves a drive of its own; leave out one of the two";
                return Err(file.error(target.span(), message));
            }
            (None, None) => {
                let help = "add `serve = { drive = \"enterprise-tlc\" }` or `target = \
                            \"tcp://127.0.0.1:4420\"` to [execution]";
                return Err(file.error(0..0, "there is nothing to put a load on").with_help(help));
            }
        };
        let runs = loads::runs(&file, &load, link.is_some())?;
        let rate = |key: &str, value: Option<Spanned<String>>| {
            let read = |value: Spanned<String>| {
                bytes_per_s(value.get_ref())
                    .map_err(|m| file.error(value.span(), format!("{key}: {m}")))
            };
            value.map(read).transpose()
        };
        let limit = link_limit.as_ref().or(drive_limit.as_ref()).map(Spanned::span);
        let limits = Limits {
            link_bytes_per_s: rate("link_limit", link_limit)?.or(link.map(|link| link.bytes_per_s)),
            drive_bytes_per_s: rate("drive_limit", drive_limit)?,
        };
        let choice = choice(&file, raw.workload, raw.profiler)?;
        let RawReport { group_by, base, show, html, json, output } = raw.report;
        let base = base.map(|base| self::base(&file, &base, runs.len())).transpose()?;
        let shown = show.map(|show| shown(&file, &show, base.is_some())).transpose()?;
        let shown = shown.unwrap_or_default();
        let compares = base.is_some();
        let expect = |raw| expect::expectation(&file, raw, runs.len(), compares);
        let expected = raw.expect.iter().map(expect).collect::<Result<Vec<_>, _>>()?;
        if let (None, Some(span)) = (&base, limit) {
            let message = "a limit is for the verdict, and there is no base to compare with";
            return Err(file.error(span, message).with_help("add `base = 1` to [report]"));
        }
        let group_by = group_by.map(|by| group_by_of(&file, &by)).transpose()?;
        let group_by = group_by.unwrap_or_default();
        let path = |key: &str, value: Option<Spanned<PathBuf>>| match value {
            Some(path) if path.get_ref().as_os_str().is_empty() => {
                Err(file.error(path.span(), format!("{key}: the name is empty")))
            }
            path => Ok(path.map(Spanned::into_inner)),
        };
        let (html, json, output) =
            (path("html", html)?, path("json", json)?, path("output", output)?);
        Ok(Task {
            choice,
            target,
            runs,
            link,
            limits,
            group_by,
            base,
            shown,
            html,
            json,
            output,
            expected,
        })
    }

    /// The JSON Schema of task files, as checked in at `docs/profile-task.schema.json`.
    pub fn json_schema() -> String {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .into_generator()
            .into_root_schema_for::<Raw>();
        let mut text = serde_json::to_string_pretty(&schema).expect("names and types");
        text.push('\n');
        text
    }
}

/// Whether this is a task at all: of another file every key would be wrong.
fn check_schema(file: &Text<'_>) -> Result<(), TaskError> {
    let Ok(raw::Version { schema }) = toml::from_str(file.text) else { return Ok(()) };
    let Some(schema) = schema else {
        let message = format!("this is no task: a task begins with `schema = \"{SCHEMA}\"`");
        return Err(file.error(0..0, message));
    };
    let message = match schema.get_ref().as_str() {
        SCHEMA => return Ok(()),
        other if other.starts_with("mynah.drive/") => {
            "this is a drive, not a task: `serve = { drive = \"FILE\" }` in a task serves it".into()
        }
        other if other.starts_with("mynah.experiment/") => {
            format!("this is an experiment, not a task: `mynah sim {}` runs it", file.name)
        }
        other => format!("schema `{other}` is not known; this is {SCHEMA}"),
    };
    Err(file.error(schema.span(), message))
}

/// An error of the TOML parser, with its place in the file.
fn refused(file: &Text<'_>, error: &toml::de::Error) -> TaskError {
    let message = error.message();
    let span = error.span().unwrap_or(0..0);
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown field"), quoted.next()) {
        (true, Some(key)) => {
            let valid: Vec<&str> = quoted.collect();
            let error = file.error(span, format!("unknown key `{key}`"));
            error.with_help(drive::choices(key, &valid, "keys"))
        }
        _ => file.error(span, message),
    }
}

fn served(file: &Text<'_>, raw: RawServe) -> Result<TaskDrive, TaskError> {
    let RawServe { drive, set, precondition, cpus_allowed } = raw;
    if drive.get_ref().is_empty() {
        return Err(file.error(drive.span(), "drive: the name is empty"));
    }
    let set = match &set {
        None => vec![],
        Some(set) => overrides(set.get_ref()).map_err(|m| file.error(set.span(), m))?,
    };
    let precondition = match &precondition {
        None => Precondition::default(),
        Some(state) => match state.get_ref().parse() {
            Ok(Precondition::SteadyRandom) => {
                let message = "precondition: the steady state of a drive that is served is that of \
                               random writes anyway; write steady";
                return Err(file.error(state.span(), message));
            }
            Ok(precondition) => precondition,
            Err(message) => {
                return Err(file.error(state.span(), format!("precondition: {message}")));
            }
        },
    };
    Ok(TaskDrive {
        drive: drive.into_inner(),
        set: set.iter().map(ToString::to_string).collect(),
        precondition,
        cpus_allowed: cpus_allowed.map(|cpus| text(file, "cpus_allowed", &cpus)).transpose()?,
    })
}

/// Checks the link of a run: only a drive that the task serves can be behind one.
fn link(file: &Text<'_>, raw: &Spanned<RawLink>, serves: bool) -> Result<TaskLink, TaskError> {
    if !serves {
        let message =
            "link: the link to a target that there is, is what it is; serve a drive instead";
        return Err(file.error(raw.span(), message));
    }
    let RawLink { rate, queue } = raw.get_ref();
    let bytes_per_s =
        bytes_per_s(rate.get_ref()).map_err(|m| file.error(rate.span(), format!("rate: {m}")))?;
    if !(LINK_MIN..=LINK_MAX).contains(&bytes_per_s) {
        let message = "rate: from 1Mbit/s to 100Gbit/s";
        return Err(file.error(rate.span(), message));
    }
    let queue = match queue {
        None => LINK_QUEUE,
        Some(value) => {
            let wrong = |m: String| file.error(value.span(), format!("queue: {m}"));
            let Duration(span) =
                text(file, "queue", value)?.parse().map_err(|m: UnitError| wrong(m.to_string()))?;
            if !(LINK_QUEUE_MIN..=LINK_QUEUE_MAX).contains(&span) {
                return Err(wrong("from 100us to 1s".into()));
            }
            span
        }
    };
    Ok(TaskLink { bytes_per_s, queue })
}

fn address(file: &Text<'_>, target: &Spanned<String>) -> Result<String, TaskError> {
    match target.get_ref().strip_prefix("tcp://") {
        Some(rest) if !rest.is_empty() => Ok(target.get_ref().clone()),
        _ => {
            let message = format!(
                "target: `{}` is no address; write `tcp://HOST:PORT` or `tcp://HOST:PORT/NQN`",
                target.get_ref()
            );
            Err(file.error(target.span(), message))
        }
    }
}

/// The text of a value that is not a list.
fn text(file: &Text<'_>, key: &str, value: &Spanned<Value>) -> Result<String, TaskError> {
    scalar(value.get_ref()).map_err(|m| file.error(value.span(), format!("{key}: {m}")))
}

/// A value, or several with commas between them.
fn joined(file: &Text<'_>, key: &str, value: &Spanned<Value>) -> Result<String, TaskError> {
    let Value::Array(list) = value.get_ref() else { return text(file, key, value) };
    let parts: Result<Vec<String>, String> = list.iter().map(scalar).collect();
    let parts = parts.map_err(|m| file.error(value.span(), format!("{key}: {m}")))?;
    Ok(parts.join(","))
}

fn choice(
    file: &Text<'_>,
    workload: RawWorkload,
    profiler: RawProfiler,
) -> Result<Choice, TaskError> {
    let mut choice = Choice::default();
    let first = workload.first_span();
    let filter = filter(file, workload)?;
    if filter != Filter::default() {
        choice.filters.push(filter);
    }
    let RawProfiler { sample, every, keep_above } = profiler;
    let wrong = |key: &str, value: &Spanned<Value>, error: ChoiceTextError| {
        file.error(value.span(), format!("{key}: {error}"))
    };
    choice.sampling = match (&sample, &every) {
        (None, None) => SAMPLE,
        (Some(sample), None) => parse_sampling(&text(file, "sample", sample)?)
            .map_err(|error| wrong("sample", sample, error))?,
        (None, Some(every)) => parse_every(&text(file, "every", every)?)
            .map_err(|error| wrong("every", every, error))?,
        (Some(_), Some(every)) => {
            let message = "every: sample says already which are taken; leave out one of the two";
            return Err(file.error(every.span(), message));
        }
    };
    choice.keep_above = match &keep_above {
        None if choice.sampling == Sampling::All => KeepAbove::Nothing,
        None => KeepAbove::Running,
        Some(above) => match text(file, "keep_above", above)?.as_str() {
            "none" => KeepAbove::Nothing,
            text => parse_keep_above(text).map_err(|error| wrong("keep_above", above, error))?,
        },
    };
    match Chooser::new(choice.clone(), &io_kinds()) {
        Ok(_) => Ok(choice),
        Err(error) => {
            let given = [&keep_above, &sample, &every].into_iter().flatten().next();
            let span = first.or(given.map(Spanned::span)).unwrap_or(0..0);
            Err(file.error(span, error.to_string()))
        }
    }
}

fn filter(file: &Text<'_>, workload: RawWorkload) -> Result<Filter, TaskError> {
    let RawWorkload { io, size, namespace, queue, block, status } = workload;
    type Read = fn(&str) -> Result<Ranges, ChoiceTextError>;
    let ranges = |key: &str, value: &Option<Spanned<Value>>, read: Read| {
        let Some(value) = value else { return Ok(Ranges::default()) };
        read(&joined(file, key, value)?)
            .map_err(|error| file.error(value.span(), format!("{key}: {error}")))
    };
    let kinds = match &io {
        None => vec![],
        Some(io) => parse_kinds(&joined(file, "io", io)?)
            .map_err(|error| file.error(io.span(), format!("io: {error}")))?,
    };
    Ok(Filter {
        kinds,
        bytes: ranges("size", &size, parse_sizes)?,
        namespaces: ranges("namespace", &namespace, parse_numbers)?,
        queues: ranges("queue", &queue, parse_numbers)?,
        blocks: ranges("block", &block, parse_numbers)?,
        statuses: ranges("status", &status, parse_statuses)?,
    })
}

fn base(file: &Text<'_>, base: &Spanned<Value>, runs: usize) -> Result<TaskBase, TaskError> {
    let message = match base.get_ref() {
        Value::String(path) if !path.is_empty() => return Ok(TaskBase::File(path.into())),
        Value::Integer(number) => match usize::try_from(*number) {
            Ok(number) if number > 0 && number < runs => return Ok(TaskBase::Run(number - 1)),
            Ok(number) if number == runs => {
                format!("base: run {number} is the last, and is what is compared with the base")
            }
            _ => format!("base: there is no run {number} before the last; the task has {runs}"),
        },
        _ => "base: write the number of a run, from 1, or the name of a profile".to_owned(),
    };
    Err(file.error(base.span(), message))
}

fn group_by_of(file: &Text<'_>, by: &Spanned<Value>) -> Result<GroupBy, TaskError> {
    let text = joined(file, "group_by", by)?;
    text.parse().map_err(|error| file.error(by.span(), format!("group_by: {error}")))
}

/// Parts of a report that `show` may name.
const PARTS: [&str; 5] = ["distribution", "breakdown", "queue_models", "interference", "verdict"];

fn shown(
    file: &Text<'_>,
    show: &Spanned<Vec<Spanned<String>>>,
    has_base: bool,
) -> Result<Shown, TaskError> {
    let mut shown = Shown {
        distribution: false,
        breakdown: false,
        verdict: false,
        queue_models: false,
        interference: false,
    };
    for part in show.get_ref() {
        let name = part.get_ref().as_str();
        if matches!(name, "verdict" | "queue_models") && !has_base {
            let error = file.error(part.span(), format!("show: {name} compares with a base"));
            return Err(error.with_help("add `base = 1`, or the name of a profile, to [report]"));
        }
        *match name {
            "distribution" => &mut shown.distribution,
            "breakdown" => &mut shown.breakdown,
            "queue_models" => &mut shown.queue_models,
            "interference" => &mut shown.interference,
            "verdict" => &mut shown.verdict,
            _ => {
                let error = file.error(part.span(), format!("show: there is no `{name}`"));
                return Err(error.with_help(drive::choices(name, &PARTS, "parts")));
            }
        } = true;
    }
    Ok(shown)
}

#[cfg(test)]
mod tests;
