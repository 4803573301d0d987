//! Experiment files: a drive, and what is done to it.
//!
//! ```toml
//! schema = "mynah.experiment/1"
//! drive = "mqsim-fast18"          # a shipped drive's name, or a file (relative to this one)
//! seed = 1
//! precondition = "steady"         # none, fill, steady or steady:random
//! settle = "auto"                 # then run the load unmeasured: until at rest, off, or a time
//! ramp_time = "1s"                # left out of the results
//! precision = "2%"                # of flows whose runtime is "auto"
//!
//! [set]                           # or an array: set = ["gc.start=0.1"]
//! "gc.start" = 0.1
//!
//! [[flow]]
//! name = "victim"
//! rw = "randread"
//! iodepth = 8
//! runtime = "10s"
//! channels = [0, 1, 2, 3]         # a namespace of its own, on these channels
//! ```
//!
//! A table `[sweep]` runs the experiment at every combination of some values:
//!
//! ```toml
//! [sweep]
//! "flow.writer.iodepth" = [1, 4, 16, 64]
//! "set.over_provisioning" = ["7%", "28%"]
//! "flow.a.bs, flow.b.bs" = [["4k", "64k"], ["8k", "128k"]]    # change together
//! ```
//!
//! Keys are `flow.NAME.OPTION` (the name `*` is every flow), `set.KEY`, and `drive`, `seed`,
//! `precondition`, `settle`, `ramp_time`, `precision`; the last key varies fastest.
//!
//! Several drives with an Ethernet link, behind a switch (an EBOF):
//!
//! ```toml
//! drives = 24                     # every flow runs on each of them, with all of its jobs
//!
//! [switch]
//! uplink = "400Gbit/s"            # of hosts, each way; without it there is none that limits
//! latency = "600ns"               # of the switch, each way
//! ```
//!
//! A flow that does not say how much it does has the runtime `auto`: it ends when its figures are
//! known with this precision ([`mynah_result::precision`]).
//!
//! A flow's keys are the options of [`FlowOptions`]; `channels`, `chips`, `dies` and `planes`
//! give it a namespace of its own. Nothing is ignored: an unknown key or a value that cannot
//! be used is an error that shows the place.

mod sweep;
mod written;

use crate::enclosure::Enclosure;
pub use mynah_drive_file::input::FileError as ExperimentError;
use mynah_drive_file::input::{self, Text};
use mynah_drive_file::units::{BitRate, Duration};
use mynah_model::config::{Config, Namespace};
use mynah_model::io::NamespaceId;
use mynah_result::precision::Goal;
use mynah_stamp::Span;
use mynah_workload::quantity::{parse_count, parse_time};
use mynah_workload::{FlowOptions, FlowSpec, Limits, OptionError, Source};
use serde::Deserialize;
use serde_spanned::Spanned;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use toml::Value;

/// The schema this module reads.
pub const SCHEMA: &str = "mynah.experiment/1";

/// How a drive is prepared before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precondition {
    /// Not at all: nothing has been written.
    None,
    /// Every namespace is written once, in order.
    Fill,
    /// As it is after a long time of the run's own writes.
    #[default]
    Steady,
    /// As it is after a long time of uniform random writes of a mapping unit each, all over the
    /// namespaces of the flows, whatever the run writes.
    SteadyRandom,
}

impl Precondition {
    /// The name by which it is read.
    pub const fn name(self) -> &'static str {
        match self {
            Precondition::None => "none",
            Precondition::Fill => "fill",
            Precondition::Steady => "steady",
            Precondition::SteadyRandom => "steady:random",
        }
    }

    /// Whether it is a state that a drive comes to by itself, which is computed.
    pub const fn is_steady(self) -> bool {
        matches!(self, Precondition::Steady | Precondition::SteadyRandom)
    }
}

/// What a pSLC write cache holds when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlcStart {
    /// Nothing: all of it has been folded.
    Empty,
    /// What was written last, half of what fits.
    Half,
    /// What was written last, and nothing more fits.
    Full,
    /// What the drive's own idle time leaves in it.
    Rested,
}

impl SlcStart {
    /// All of them.
    pub const ALL: [SlcStart; 4] =
        [SlcStart::Empty, SlcStart::Half, SlcStart::Full, SlcStart::Rested];

    /// The name by which it is read, after `slc=`.
    pub const fn name(self) -> &'static str {
        match self {
            SlcStart::Empty => "empty",
            SlcStart::Half => "half",
            SlcStart::Full => "full",
            SlcStart::Rested => "rested",
        }
    }

    /// The share of what fits that is filled, without time.
    pub(crate) const fn share(self) -> f64 {
        match self {
            SlcStart::Empty | SlcStart::Rested => 0.0,
            SlcStart::Half => 0.5,
            SlcStart::Full => 1.0,
        }
    }
}

/// How a drive is prepared, and its pSLC cache with it, where that is said: `steady,slc=full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Start {
    pub precondition: Precondition,
    /// What is in the cache; `None`: what the drive has left there.
    pub slc: Option<SlcStart>,
}

impl From<Precondition> for Start {
    fn from(precondition: Precondition) -> Start {
        Start { precondition, slc: None }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.precondition.name())?;
        self.slc.map_or(Ok(()), |slc| write!(f, ",slc={}", slc.name()))
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Start, String> {
        let Some((state, slc)) = text.split_once(',') else {
            return Ok(Start { precondition: text.parse()?, slc: None });
        };
        let precondition: Precondition = state.parse()?;
        let name = slc.strip_prefix("slc=");
        let found = SlcStart::ALL.into_iter().find(|it| Some(it.name()) == name);
        let Some(slc) = found else {
            return Err(format!(
                "`{slc}` is no state of the SLC cache; valid are slc=empty, slc=half, slc=full and \
                 slc=rested"
            ));
        };
        if precondition == Precondition::None && slc.share() > 0.0 {
            let slc = slc.name();
            return Err(format!("nothing has been written, so the SLC cache is not {slc}"));
        }
        Ok(Start { precondition, slc: Some(slc) })
    }
}

impl FromStr for Precondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Precondition, String> {
        match text {
            "none" => Ok(Precondition::None),
            "fill" => Ok(Precondition::Fill),
            "steady" => Ok(Precondition::Steady),
            "steady:random" => Ok(Precondition::SteadyRandom),
            _ => Err(format!(
                "`{text}` is not a state; valid are none, fill, steady and steady:random"
            )),
        }
    }
}

/// How long a drive that starts from its computed steady state settles under the load, before
/// anything is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settle {
    /// Until it is at rest, or very much was simulated.
    #[default]
    Auto,
    /// No settling: the run begins from the preconditioned state.
    Off,
    /// For so long on the drive's clock.
    For(Span),
}

impl FromStr for Settle {
    type Err = String;

    fn from_str(text: &str) -> Result<Settle, String> {
        match text {
            "auto" => Ok(Settle::Auto),
            "off" => Ok(Settle::Off),
            _ => match parse_time(text) {
                Ok(time) if time.is_zero() => Ok(Settle::Off),
                Ok(time) => Ok(Settle::For(time)),
                Err(_) => Err(format!("`{text}` is neither auto, off nor a time such as 5s")),
            },
        }
    }
}

impl fmt::Display for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Settle::Auto => f.write_str("auto"),
            Settle::Off => f.write_str("off"),
            Settle::For(time) => Duration(*time).fmt(f),
        }
    }
}

/// An experiment file, read. What it leaves out is `None`, for the command line or its
/// defaults to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The drive: a name, or a file's path.
    pub drive: String,
    /// What is changed about it, in order.
    pub overrides: Vec<Override>,
    /// Seed of the run's random streams; `None`: the default seed.
    pub seed: Option<u64>,
    /// How the drive is prepared.
    pub precondition: Option<Start>,
    /// How long the drive settles then.
    pub settle: Option<Settle>,
    /// How long the run goes on before results are taken.
    pub ramp_time: Option<Span>,
    /// How precisely the figures of flows are to be known whose end is not given.
    pub precision: Option<Goal>,
    /// How many drives there are, and the switch before them, if not one alone.
    pub enclosure: Option<Enclosure>,
    /// The flows, at least one.
    pub flows: Vec<ExperimentFlow>,
}

/// A change to the drive, as `--set KEY=VALUE` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Dotted key of the drive file, as in `mapping.unit`.
    pub key: String,
    /// The value's text; strings are without quotes.
    pub value: String,
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// A flow of an experiment, and the namespace of its own if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentFlow {
    /// The flow. Its namespace counts only if it has none of its own.
    pub spec: FlowSpec,
    /// The namespace that is made for it.
    pub own_namespace: Option<Namespace>,
}

/// The most points of a sweep.
pub const POINTS_MAX: usize = 10_000;

/// An experiment at one point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What was varied, and the value here, in the order of the file. Empty without a sweep.
    pub values: Vec<(String, String)>,
    /// The experiment with this point's values applied.
    pub experiment: Experiment,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    /// Checked by [`check_schema`] before the rest of the file is read.
    #[serde(rename = "schema")]
    _schema: Spanned<String>,
    drive: Spanned<String>,
    seed: Option<Spanned<Value>>,
    precondition: Option<Spanned<String>>,
    settle: Option<Spanned<Value>>,
    ramp_time: Option<Spanned<Value>>,
    precision: Option<Spanned<Value>>,
    drives: Option<Spanned<Value>>,
    switch: Option<Spanned<RawSwitch>>,
    set: Option<Spanned<Value>>,
    #[serde(default)]
    flow: Vec<Spanned<RawFlow>>,
    #[serde(default)]
    sweep: BTreeMap<Spanned<String>, Spanned<Value>>,
    /// Overrides of the sweep's point, applied after `set`.
    #[serde(skip)]
    more: Vec<Override>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSwitch {
    uplink: Option<Spanned<BitRate>>,
    latency: Option<Spanned<Duration>>,
}

type RawFlow = BTreeMap<Spanned<String>, Spanned<Value>>;

impl Experiment {
    /// Reads the file at `path`. Drive files and traces that it names are looked for beside
    /// it.
    ///
    /// # Errors
    /// If it cannot be used, or holds a sweep.
    pub fn load(path: &Path) -> Result<Experiment, ExperimentError> {
        only(Experiment::load_points(path)?, &path.display().to_string())
    }

    /// Reads the file at `path`, which may hold a sweep.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn load_points(path: &Path) -> Result<Vec<Point>, ExperimentError> {
        let name = path.display().to_string();
        let text = input::read_text(path)
            .map_err(|error| ExperimentError::whole(&name, error.to_string()))?;
        let mut points = Experiment::parse_points(&name, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for Point { experiment, .. } in &mut points {
            if experiment.drive.contains('/') || experiment.drive.ends_with(".toml") {
                experiment.drive = folder.join(&experiment.drive).display().to_string();
            }
            for flow in &mut experiment.flows {
                if let Source::Trace(trace) = &mut flow.spec.source
                    && trace.path != Path::new("-")
                {
                    trace.path = folder.join(&trace.path);
                }
            }
        }
        Ok(points)
    }

    /// Reads `text`, which messages call `name`.
    ///
    /// # Errors
    /// If it cannot be used, or holds a sweep.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, ExperimentError> {
        only(Experiment::parse_points(name, text)?, name)
    }

    /// Reads `text`, which messages call `name` and which may hold a sweep.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn parse_points(name: &str, text: &str) -> Result<Vec<Point>, ExperimentError> {
        let file = Text { name, text };
        check_schema(&file)?;
        let raw: Raw = toml::from_str(text)
            .map_err(|error| file.error(error.span().unwrap_or(0..0), error.message()))?;
        let axes = sweep::axes(&file, &raw)?;
        let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()));
        let Some(count) = count.filter(|count| *count <= POINTS_MAX) else {
            let span = axes.first().map_or(0..0, |axis| axis.span.clone());
            let message = format!("the sweep has more than {POINTS_MAX} points");
            return Err(file.error(span, message));
        };
        let point = |number| {
            let (raw, values) = sweep::at(&file, &raw, &axes, number)?;
            Ok(Point { values, experiment: Experiment::build(&file, raw)? })
        };
        let points = (0..count).map(point).collect::<Result<Vec<Point>, _>>()?;
        let auto = |point: &Point| point.experiment.flows.iter().any(|flow| flow.spec.limits.auto);
        if let Some(precision) = &raw.precision
            && !points.iter().any(auto)
        {
            let message = "precision: every flow says when it ends, so this has no effect; flows \
                           with runtime = \"auto\" end when their figures are known";
            return Err(file.error(precision.span(), message));
        }
        Ok(points)
    }

    fn build(file: &Text<'_>, raw: Raw) -> Result<Experiment, ExperimentError> {
        if raw.drive.get_ref().is_empty() {
            return Err(file.error(raw.drive.span(), "the drive's name is empty"));
        }
        let precondition = match raw.precondition {
            None => None,
            Some(state) => {
                Some(state.get_ref().parse().map_err(|m: String| file.error(state.span(), m))?)
            }
        };
        let settle = match raw.settle {
            None => None,
            Some(settle) => {
                let parsed = scalar(settle.get_ref()).and_then(|text| text.parse());
                Some(parsed.map_err(|m| file.error(settle.span(), format!("settle: {m}")))?)
            }
        };
        let ramp_time = match raw.ramp_time {
            None => None,
            Some(time) => {
                let parsed = scalar(time.get_ref()).and_then(|text| parse_time(&text));
                Some(parsed.map_err(|m| file.error(time.span(), format!("ramp_time: {m}")))?)
            }
        };
        let precision = match raw.precision {
            None => None,
            Some(share) => {
                let parsed = scalar(share.get_ref()).and_then(|text| text.parse());
                Some(parsed.map_err(|m| file.error(share.span(), format!("precision: {m}")))?)
            }
        };
        let seed = match raw.seed {
            None => None,
            Some(seed) => {
                let parsed = scalar(seed.get_ref()).and_then(|text| parse_count(&text));
                Some(parsed.map_err(|m| file.error(seed.span(), format!("seed: {m}")))?)
            }
        };
        let enclosure = enclosure(file, raw.drives.as_ref(), raw.switch.as_ref())?;
        let mut overrides = match &raw.set {
            None => Vec::new(),
            Some(set) => overrides(set.get_ref()).map_err(|m| file.error(set.span(), m))?,
        };
        overrides.extend(raw.more);
        if raw.flow.is_empty() {
            return Err(file.error(0..0, "no flows; add [[flow]] with at least rw"));
        }
        let mut flows: Vec<ExperimentFlow> = Vec::new();
        for (index, raw) in raw.flow.iter().enumerate() {
            flows.push(flow(file, raw, index)?);
        }
        check_flows(&flows).map_err(|(at, message)| file.error(raw.flow[at].span(), message))?;
        Ok(Experiment {
            drive: raw.drive.into_inner(),
            overrides,
            seed,
            precondition,
            settle,
            ramp_time,
            precision,
            enclosure,
            flows,
        })
    }

    /// The flows as they run on `config`, which gets the namespaces they ask for: in place
    /// of its own if every flow has one, else after its own.
    pub fn place(&self, config: &mut Config) -> Vec<FlowSpec> {
        ExperimentFlow::place(&self.flows, config)
    }
}

impl ExperimentFlow {
    /// As [`Experiment::place`], for flows without an experiment.
    pub(crate) fn place(flows: &[ExperimentFlow], config: &mut Config) -> Vec<FlowSpec> {
        if flows.iter().all(|flow| flow.own_namespace.is_some()) {
            config.namespaces.clear();
        }
        let place = |flow: &ExperimentFlow| {
            let mut spec = flow.spec.clone();
            if let Some(namespace) = &flow.own_namespace {
                config.namespaces.push(namespace.clone());
                spec.namespace = NamespaceId(config.namespaces.len() as u32);
            }
            spec
        };
        flows.iter().map(place).collect()
    }
}

/// Checks how flows go together; the error has the index of the flow at fault, and what is wrong.
pub(crate) fn check_flows(flows: &[ExperimentFlow]) -> Result<(), (usize, String)> {
    for (index, flow) in flows.iter().enumerate() {
        if index == 0 && flow.spec.after_previous {
            let message = "wait_for_previous: this is the first flow, so it waits for nothing";
            return Err((index, message.to_owned()));
        }
        if flows[..index].iter().any(|other| other.spec.name == flow.spec.name) {
            return Err((index, format!("two flows are called `{}`", flow.spec.name)));
        }
    }
    Ok(())
}

/// Several drives behind a switch.
fn enclosure(
    file: &Text<'_>,
    drives: Option<&Spanned<Value>>,
    switch: Option<&Spanned<RawSwitch>>,
) -> Result<Option<Enclosure>, ExperimentError> {
    let Some(drives) = drives else {
        return match switch {
            None => Ok(None),
            Some(switch) => {
                let message = "[switch] has no effect without several drives: add `drives = 24`";
                Err(file.error(switch.span(), message))
            }
        };
    };
    let count = scalar(drives.get_ref()).and_then(|text| parse_count(&text));
    let count = count.map_err(|m| file.error(drives.span(), format!("drives: {m}")))?;
    let raw = switch.map(Spanned::get_ref);
    let uplink = raw.and_then(|raw| raw.uplink.as_ref());
    let latency = raw.and_then(|raw| raw.latency.as_ref());
    let made = Enclosure::new(
        count,
        uplink.map(|rate| rate.get_ref().0),
        latency.map(|latency| latency.get_ref().0),
    );
    made.map(Some).map_err(|(key, problem)| {
        let span = match key {
            "uplink" => uplink.map(Spanned::span),
            "latency" => latency.map(Spanned::span),
            _ => None,
        };
        file.error(span.unwrap_or(drives.span()), format!("{key}: {problem}"))
    })
}

/// Checks the schema first, because in a file of another kind every key would be reported as wrong.
fn check_schema(file: &Text<'_>) -> Result<(), ExperimentError> {
    #[derive(Deserialize)]
    struct Version {
        schema: Option<Spanned<String>>,
    }
    // What is wrong with the whole text is said of the whole text.
    let Ok(Version { schema: Some(schema) }) = toml::from_str(file.text) else { return Ok(()) };
    let message = match schema.get_ref().as_str() {
        SCHEMA => return Ok(()),
        other if other.starts_with("mynah.drive/") => {
            format!("this is a drive, not an experiment: `mynah sim --drive {}` runs it", file.name)
        }
        other => format!("schema `{other}` is not known; this is {SCHEMA}"),
    };
    Err(file.error(schema.span(), message))
}

/// The only point of a file without `[sweep]`.
fn only(mut points: Vec<Point>, name: &str) -> Result<Experiment, ExperimentError> {
    match (points.pop(), points.is_empty()) {
        (Some(point), true) if point.values.is_empty() => Ok(point.experiment),
        _ => Err(ExperimentError::whole(name, "this is a sweep, and one experiment is wanted")),
    }
}

/// The text of a value that is not a list or a table.
pub fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(value.to_string()),
        _ => Err(format!("a number or a string belongs here, not this {}", value.type_str())),
    }
}

/// Changes to a drive: a table, or a list of `KEY=VALUE`.
pub fn overrides(set: &Value) -> Result<Vec<Override>, String> {
    let mut overrides = Vec::new();
    match set {
        Value::Table(table) => flatten("", table, &mut overrides),
        Value::Array(list) => {
            for item in list {
                let pair = item.as_str().and_then(|text| text.split_once('='));
                let Some((key, value)) = pair else {
                    return Err(format!("`{item}` is not a string of the form KEY=VALUE"));
                };
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                overrides.push(Override { key, value });
            }
        }
        other => {
            return Err(format!(
                "set is a table, or an array of KEY=VALUE strings, not this {}",
                other.type_str()
            ));
        }
    }
    Ok(overrides)
}

fn flatten(prefix: &str, table: &toml::Table, overrides: &mut Vec<Override>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(table) => flatten(&key, table, overrides),
            Value::String(text) => overrides.push(Override { key, value: text.clone() }),
            other => overrides.push(Override { key, value: other.to_string() }),
        }
    }
}

/// Options of a flow that give it a namespace of its own.
pub(crate) const RESOURCES: [&str; 4] = ["channels", "chips", "dies", "planes"];

fn flow(
    file: &Text<'_>,
    raw: &Spanned<RawFlow>,
    index: usize,
) -> Result<ExperimentFlow, ExperimentError> {
    let mut options = FlowOptions::default();
    let mut own: Option<Namespace> = None;
    for (key, value) in raw.get_ref() {
        let name = key.get_ref().as_str();
        if let Some(which) = RESOURCES.iter().position(|resource| *resource == name) {
            let ids = ids(value.get_ref())
                .map_err(|m| file.error(value.span(), format!("{name}: {m}")))?;
            let namespace = own.get_or_insert_with(Namespace::whole_drive);
            *[
                &mut namespace.channels,
                &mut namespace.chips,
                &mut namespace.dies,
                &mut namespace.planes,
            ][which] = ids;
            continue;
        }
        let text = scalar(value.get_ref())
            .map_err(|m| file.error(value.span(), format!("{name}: {m}")))?;
        if !options.set(name, text) {
            let valid = [FlowOptions::NAMES, &RESOURCES].concat().join(", ");
            let message = format!("`{name}` is not an option of a flow; valid are {valid}");
            return Err(file.error(key.span(), message));
        }
    }
    let value_of = |option: &str| {
        let found = raw.get_ref().iter().find(|(key, _)| key.get_ref() == option);
        found.map_or(raw.span(), |(_, value)| value.span())
    };
    if own.is_some() && options.namespace.is_some() {
        let message = "namespace: channels, chips, dies and planes give the flow a namespace of \
                       its own; leave out one of the two";
        return Err(file.error(value_of("namespace"), message));
    }
    let mut spec = options.flow(&format!("flow-{}", index + 1)).map_err(|error| {
        let OptionError { option, .. } = error;
        file.error(value_of(option), error.to_string())
    })?;
    if spec.limits == Limits::default() && !spec.has_an_end() {
        spec.limits.auto = true;
    }
    Ok(ExperimentFlow { spec, own_namespace: own })
}

/// A list of numbers from 0, in order and without repetition.
fn ids(value: &Value) -> Result<Vec<u32>, String> {
    let wrong = || "a list of numbers belongs here, such as [0, 1]".to_owned();
    let list = value.as_array().filter(|list| !list.is_empty()).ok_or_else(wrong)?;
    let number = |item: &Value| item.as_integer().and_then(|id| u32::try_from(id).ok());
    let mut ids: Vec<u32> = list.iter().map(number).collect::<Option<_>>().ok_or_else(wrong)?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
