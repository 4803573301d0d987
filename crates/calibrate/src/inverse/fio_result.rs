//! Results of fio, as it writes them with `--output-format=json` (fio 3): each group of jobs is a
//! target. The load is what the file says of the job's options, read as a job file of fio is.

use super::target::{Figure, MOST, Of, PERCENTILES, Quantity, Target};
use crate::Input;
use mynah_drive_file::foreign::Found;
use mynah_drive_file::input::{FileError, Text};
use mynah_workload::Mode;
use mynah_workload::fio::FioJob;
use serde_json::{Map, Value};
use std::fmt::Write;

/// Percentiles that are compared, of those in [`PERCENTILES`].
const COMPARED: [usize; 3] = [0, 3, 4];

/// A group of jobs of one load, which ran at the same time.
struct Group<'v> {
    name: &'v str,
    id: u64,
    jobs: Vec<&'v Map<String, Value>>,
}

/// The targets in a result of fio.
pub(super) fn read(
    input: &Input,
    found: Found<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Target>, FileError> {
    let whole = |message: String| FileError::whole(&input.name, message);
    let document: Value = serde_json::from_str(found.text).map_err(|error| {
        let line = error.line();
        let text = Text { name: &input.name, text: &input.text };
        let before = found.text.split_inclusive('\n').take(line.saturating_sub(1));
        let at = found.at + before.map(str::len).sum::<usize>();
        text.error(at..at, format!("this is no JSON: {error}"))
            .with_help("give what `fio --output-format=json --output=FILE` has written, whole")
    })?;
    warnings.extend(found.warnings);
    let version = document.get("fio version").and_then(Value::as_str);
    let Some(jobs) = document.get("jobs").and_then(Value::as_array) else {
        return Err(whole("this is no result of fio: it has no `jobs`".to_owned())
            .with_help("give what `fio --output-format=json` writes, or a table (CSV)"));
    };
    if let Some(version) = version
        && !version.starts_with("fio-3")
    {
        return Err(whole(format!("it is of {version}, and results of fio 3 are read"))
            .with_help("fio 3 counts latencies in ns (lat_ns); run it again with that"));
    }
    let empty = Map::new();
    let global = document.get("global options").and_then(Value::as_object).unwrap_or(&empty);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(job) = job.as_object() else {
            return Err(whole(format!("jobs[{index}] is no object")));
        };
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or("");
        let id = job.get("groupid").and_then(Value::as_u64).unwrap_or(0);
        if job.get("error").and_then(Value::as_i64).unwrap_or(0) != 0 {
            return Err(whole(format!("the job `{name}` ended with an error"))
                .with_help("only results of jobs that ran through are targets"));
        }
        let count = groups.len();
        match groups.iter_mut().find(|group| group.id == id) {
            Some(group) if group.name == name => group.jobs.push(job),
            Some(group) => {
                let other = group.name;
                return Err(whole(format!(
                    "the jobs `{other}` and `{name}` ran at the same time, and a target is one load"
                ))
                .with_help(
                    "run them one after the other (`stonewall`), or in files of their own",
                ));
            }
            None if count == MOST => {
                return Err(whole(format!("more than {MOST} groups of jobs")));
            }
            None => groups.push(Group { name, id, jobs: vec![job] }),
        }
    }
    if groups.is_empty() {
        return Err(whole("it has no jobs".to_owned()));
    }
    groups.iter().map(|group| target(input, global, group, warnings)).collect()
}

fn target(
    input: &Input,
    global: &Map<String, Value>,
    group: &Group<'_>,
    warnings: &mut Vec<String>,
) -> Result<Target, FileError> {
    let place = format!("{} {}", input.name, group.name);
    let first = group.jobs.first().copied();
    let options = first.and_then(|job| job.get("job options")).and_then(Value::as_object);
    let Some(options) = options else {
        return Err(FileError::whole(
            &place,
            "it does not say what the load was: no `job options`",
        )
        .with_help("write the load and its figures into a table (CSV)"));
    };
    let mut job = FioJob::parse(&place, &job_file(&place, global, options)?).map_err(|error| {
        FileError::whole(&place, error.to_string()).with_help(
            "a target is a load that can be simulated; leave that option out, or give a table",
        )
    })?;
    let flow = job.flows.remove(0);
    // What makes another load of it. Options without an effect here are in nearly all results.
    let changing = job.warnings.iter().filter(|warning| !warning.ends_with("has no effect here"));
    warnings.extend(changing.map(|warning| format!("{place}: {warning}")));
    let mut figures = Vec::new();
    let sides = [("read", Of::Reads), ("write", Of::Writes)];
    let has =
        |side: &str| group.jobs.iter().any(|job| number(job, &[side, "total_ios"]) > Some(0.0));
    let active: Vec<(&str, Of)> = sides.into_iter().filter(|(side, _)| has(side)).collect();
    for (side, of) in &active {
        side_figures(&place, group, side, *of, &mut figures)?;
    }
    if figures.is_empty() {
        return Err(FileError::whole(&place, "no read or write was done"));
    }
    Ok(Target { load: load_words(&flow, options, global), place, flow, figures })
}

/// What the load is called in tables.
fn load_words(
    flow: &mynah_workload::FlowSpec,
    options: &Map<String, Value>,
    global: &Map<String, Value>,
) -> String {
    let given = |names: &[&str]| {
        let of = |name: &&str| options.get(*name).or(global.get(*name)).and_then(Value::as_str);
        names.iter().find_map(of).map(str::to_owned)
    };
    let mut words = vec![format!("rw={}", given(&["rw", "readwrite"]).unwrap_or("read".into()))];
    words.extend(given(&["bs", "blocksize"]).map(|bs| format!("bs={bs}")));
    if let mynah_workload::Source::Synthetic(synthetic) = &flow.source
        && let Mode::Closed { depth } = synthetic.mode
    {
        words.push(format!("iodepth={depth}"));
    }
    words.push(format!("numjobs={}", flow.jobs));
    words.join(" ")
}

/// A job file with the options that the result has.
fn job_file(
    place: &str,
    global: &Map<String, Value>,
    options: &Map<String, Value>,
) -> Result<String, FileError> {
    let mut text = String::from("[target]\n");
    // How long it ran and what is written down of it is no part of the load.
    let unneeded = |name: &str| {
        matches!(name, "runtime" | "timeout" | "time_based" | "ramp_time" | "name" | "stonewall")
            || matches!(name, "wait_for_previous" | "startdelay" | "number_ios" | "io_size")
            || name.starts_with("write_") && name.ends_with("_log")
    };
    let own = global.iter().filter(|(name, _)| !options.contains_key(*name)).chain(options);
    for (name, value) in own.filter(|(name, _)| !unneeded(name)) {
        let value = match value {
            Value::String(value) => value.clone(),
            Value::Number(value) => value.to_string(),
            Value::Bool(true) => String::new(),
            _ => return Err(FileError::whole(place, format!("its option `{name}` has no text"))),
        };
        if name.contains(['\n', '=', '[']) || value.contains('\n') {
            return Err(FileError::whole(place, format!("its option `{name}` is no option")));
        }
        let _ = match value.is_empty() {
            true => writeln!(text, "{name}"),
            false => writeln!(text, "{name}={value}"),
        };
    }
    Ok(text)
}

/// What was measured of reads, or of writes.
fn side_figures(
    place: &str,
    group: &Group<'_>,
    side: &str,
    of: Of,
    figures: &mut Vec<Figure>,
) -> Result<(), FileError> {
    let count = |job: &Map<String, Value>| number(job, &[side, "lat_ns", "N"]);
    let ios =
        |job: &Map<String, Value>| count(job).or(number(job, &[side, "total_ios"])).unwrap_or(0.0);
    let sum =
        |of: &dyn Fn(&Map<String, Value>) -> f64| group.jobs.iter().map(|job| of(job)).sum::<f64>();
    let iops: f64 = sum(&|job| number(job, &[side, "iops"]).unwrap_or(0.0));
    let mean = |job: &Map<String, Value>| number(job, &[side, "lat_ns", "mean"]).unwrap_or(0.0);
    let mean = sum(&|job| mean(job) * ios(job)) / sum(&ios);
    if !(mean.is_finite() && mean > 0.0) {
        let message = format!("it has no latencies of {side}s (`lat_ns`)");
        return Err(FileError::whole(place, message)
            .with_help("run fio 3 without disable_lat and gtod_reduce, and give its JSON"));
    }
    if !(iops.is_finite() && iops > 0.0) {
        return Err(FileError::whole(place, format!("it has no IOPS of {side}s")));
    }
    figures.push(Figure { of, quantity: Quantity::Iops, measured: iops });
    figures.push(Figure { of, quantity: Quantity::Mean, measured: mean });
    // Percentiles of several jobs cannot be put together.
    if let [job] = &group.jobs[..] {
        for index in COMPARED {
            let name = format!("{:.6}", PERCENTILES[index].parse::<f64>().unwrap_or(0.0));
            let of_latency = |which: &str| number(job, &[side, which, "percentile", &name]);
            let measured = of_latency("lat_ns").or_else(|| of_latency("clat_ns"));
            if let Some(measured) = measured.filter(|ns| ns.is_finite() && *ns > 0.0) {
                figures.push(Figure { of, quantity: Quantity::Percentile(index), measured });
            }
        }
    }
    Ok(())
}

fn number(object: &Map<String, Value>, path: &[&str]) -> Option<f64> {
    let (first, rest) = path.split_first()?;
    let mut value = object.get(*first)?;
    for key in rest {
        value = value.get(*key)?;
    }
    value.as_f64()
}
