//! The runs of a task: loads, alone or side by side, and the option that differs between runs.

use super::raw::{LOAD_OPTIONS, OWN_OPTIONS, RawLoad, RawRun};
use super::{RUNS_MAX, TaskError, TaskLoad, TaskRun};
use mynah_drive_file as drive;
use mynah_drive_file::input::Text;
use mynah_lab::experiment::scalar;
use mynah_stamp::Span;
use mynah_workload::{self as workload, FlowOptions};
use serde_spanned::Spanned;
use toml::Value;

/// How long a run without a limit lasts.
pub(super) const RUNTIME: Span = Span::from_secs(10);
const LOADS_MAX: usize = 64;
/// Most bulk flows beside a load.
const BULK_MAX: u32 = 256;

/// The option that is a list: of which load of the run, its name, its values.
type Varied<'r> = (usize, &'r str, &'r Vec<Value>);

/// All runs. `has_link` says whether flows of others can fill one.
pub(super) fn runs(
    file: &Text<'_>,
    given: &Spanned<Vec<RawRun>>,
    has_link: bool,
) -> Result<Vec<TaskRun>, TaskError> {
    let mut runs = vec![];
    for raw in given.get_ref() {
        if raw.0.is_empty() || raw.0.len() > LOADS_MAX {
            let message = format!("load: from 1 to {LOADS_MAX} loads can begin together");
            return Err(file.error(given.span(), message));
        }
        let varied = varied(file, raw)?;
        let values: Vec<Option<&Value>> = match varied {
            None => vec![None],
            Some((.., list)) => list.iter().map(Some).collect(),
        };
        if runs.len() + values.len() > RUNS_MAX {
            let message = format!("load: that makes more than {RUNS_MAX} runs");
            return Err(file.error(given.span(), message));
        }
        for value in values {
            let of = |number: usize| match (varied, value) {
                (Some((load, key, _)), Some(value)) if load == number => Some((key, value)),
                _ => None,
            };
            let loads = raw.0.iter().enumerate();
            let loads =
                loads.map(|(number, raw)| load(file, raw, of(number), (has_link, number == 0)));
            runs.push(run_of(loads.collect::<Result<Vec<_>, _>>()?));
        }
    }
    match runs.is_empty() {
        true => {
            let error = file.error(given.span(), "load: there is nothing to run");
            Err(error.with_help("write `load = [{ rw = \"randread\", iodepth = [1, 8] }]`"))
        }
        false => Ok(runs),
    }
}

/// A run of loads as they were read.
fn run_of(read: Vec<Read>) -> TaskRun {
    let names: Vec<&str> = read.iter().map(|read| read.load.flow.name.as_str()).collect();
    let name = names.join(" + ");
    let bulk_flows = read.iter().map(|read| read.bulk_flows).sum();
    let mut loads: Vec<TaskLoad> = vec![];
    for Read { load, shares_queue, .. } in read {
        match loads.last_mut() {
            Some(before) if shares_queue => before.beside.push(load.flow),
            _ => loads.push(load),
        }
    }
    TaskRun { name, loads, bulk_flows }
}

/// The option of a run that is a list.
fn varied<'r>(file: &Text<'_>, run: &'r RawRun) -> Result<Option<Varied<'r>>, TaskError> {
    let mut varied: Option<Varied<'r>> = None;
    for (number, load) in run.0.iter().enumerate() {
        for (key, value) in &load.0 {
            let Value::Array(list) = value.get_ref() else { continue };
            let name = key.get_ref().as_str();
            let message = match varied.replace((number, name, list)) {
                _ if name == "name" || name == "cpus_allowed" => {
                    format!("{name}: one value belongs here, not a list")
                }
                _ if list.is_empty() => format!("{name}: the list is empty, so nothing is run"),
                Some((_, other, _)) => format!(
                    "{other} and {name} are lists, and one option of a run may be one; write a run \
                     for each value of the other"
                ),
                None => continue,
            };
            return Err(file.error(value.span(), message));
        }
    }
    Ok(varied)
}

struct Read {
    load: TaskLoad,
    /// Flows of others beside it.
    bulk_flows: u32,
    /// It goes through the queue of the load before it.
    shares_queue: bool,
}

/// A load, with the value of its option that is a list.
fn load(
    file: &Text<'_>,
    load: &RawLoad,
    value: Option<(&str, &Value)>,
    (has_link, is_first): (bool, bool),
) -> Result<Read, TaskError> {
    let mut options = FlowOptions::default();
    let (mut cpus_allowed, mut bulk_flows, mut shares_queue) = (None, 0, false);
    let mut said = vec![];
    let mut varied = None;
    for (key, given) in &load.0 {
        let name = key.get_ref().as_str();
        let one = match (given.get_ref(), value) {
            (Value::Array(_), Some((_, value))) => scalar(value),
            (given, _) => scalar(given),
        };
        let wrong = |m: String| file.error(given.span(), format!("{name}: {m}"));
        let text = one.map_err(wrong)?;
        if matches!(given.get_ref(), Value::Array(_)) {
            varied = Some(format!("{name}={text}"));
        }
        match name {
            "cpus_allowed" => {
                cpus_allowed = Some(text);
                continue;
            }
            "bulk_flows" if !has_link => {
                let error = wrong("flows of others need a link that they can fill".into());
                return Err(error.with_help("add `link = { rate = \"1Gbit/s\" }` to [execution]"));
            }
            "bulk_flows" => {
                let number = text.parse().ok().filter(|flows| *flows <= BULK_MAX);
                bulk_flows =
                    number.ok_or_else(|| wrong(format!("a number from 0 to {BULK_MAX}")))?;
            }
            "shares_queue" => match text.as_str() {
                "true" if is_first => {
                    return Err(wrong("there is no load before it in this run".into()));
                }
                "true" => shares_queue = true,
                "false" => {}
                _ => return Err(wrong("true or false".into())),
            },
            _ if !LOAD_OPTIONS.contains(&name) || !options.set(name, text.as_str()) => {
                let valid: Vec<&str> = LOAD_OPTIONS.iter().chain(&OWN_OPTIONS).copied().collect();
                let error = file.error(key.span(), format!("unknown option `{name}` of a load"));
                return Err(error.with_help(drive::choices(name, &valid, "options")));
            }
            _ => {}
        }
        if !matches!(name, "name" | "runtime") {
            said.push(format!("{name}={text}"));
        }
    }
    if shares_queue {
        check_shared(file, load)?;
    }
    let name = match (&options.name, varied) {
        (None, _) => said.join(" "),
        (Some(name), None) => name.clone(),
        (Some(name), Some(varied)) => format!("{name} {varied}"),
    };
    let place = |option: &str| {
        let found = load.0.iter().find(|(key, _)| key.get_ref() == option);
        found.map_or(0..0, |(_, value)| value.span())
    };
    let mut flow =
        options.flow(&name).map_err(|error| file.error(place(error.option), error.to_string()))?;
    if flow.limits.auto {
        let message = "runtime = auto: a load on a target lasts for a given time; write 10s, say";
        return Err(file.error(place("runtime"), message));
    }
    if flow.limits == workload::Limits::default() && !flow.has_an_end() {
        flow.limits.runtime = Some(RUNTIME);
    }
    flow.name = name;
    let load = TaskLoad { flow, beside: vec![], cpus_allowed };
    Ok(Read { load, bulk_flows, shares_queue })
}

/// What a load cannot have that goes through another's queue.
fn check_shared(file: &Text<'_>, load: &RawLoad) -> Result<(), TaskError> {
    let of_the_queue = ["numjobs", "rate_iops", "runtime", "number_ios", "io_size", "cpus_allowed"];
    match load.0.iter().find(|(key, _)| of_the_queue.contains(&key.get_ref().as_str())) {
        None => Ok(()),
        Some((key, value)) => {
            let message = format!(
                "{}: a load with shares_queue has the queue, processors and end of the load before \
                 it, and as many I/Os outstanding as its iodepth says",
                key.get_ref()
            );
            Err(file.error(value.span(), message))
        }
    }
}
