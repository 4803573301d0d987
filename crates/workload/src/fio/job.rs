//! Which option of a job means what.
//!
//! Where fio's meaning differs from a flow's, fio's counts: `thinktime` counts microseconds;
//! `size` is also what a job issues, unless `io_size` says that or it is `time_based`, and a job
//! without it goes through the namespace once; `rate_iops` is kept to within `iodepth`, which is 1
//! if it is not given; a synchronous `ioengine`, which is also what fio takes if none is given,
//! has one request outstanding whatever `iodepth` says; values for reads, writes and trims, one
//! after the other, are each for theirs. Random jobs of one size may hit a block twice before they
//! have hit all, whatever `norandommap` says: as many requests, and the steady state that is known.

use super::file::{Place, Section, Setting};
use super::rate::{self, Rate};
use super::values::{self, Base, Number};
use super::words::{self, Each, Kind, Meaning, NOT_STORAGE, SYNCHRONOUS};
use super::{FioError, FioJob};
use crate::quantity::percent;
use crate::{Extent, FlowOptions, FlowSpec};
use mynah_stamp::Span;

/// Options whose value 0 stands for not set.
const NONE_IF_ZERO: &[&str] =
    &["io_size", "number_ios", "rate_iops", "runtime", "size", "startdelay", "thinktime"];

/// What fio takes on Linux if none is given (`os/os.h`, `FIO_PREFERRED_ENGINE`).
const DEFAULT_ENGINE: &str = "psync";
/// The size of a request if none is given.
const DEFAULT_BYTES: &str = "4096";
/// Values of `rw` that mix reads and writes.
const MIXED: [&str; 3] = ["rw", "readwrite", "randrw"];
/// The exponent of `zipf` if none is given (`FIO_DEF_ZIPF`).
const DEFAULT_ZIPF: &str = "zipf:1.1";

/// State while a job's options are read.
#[derive(Default)]
struct Reading<'s> {
    options: FlowOptions,
    engine: Option<&'s str>,
    /// Where each option of the flow was set.
    places: Vec<(&'static str, &'s Place)>,
    /// Settings with separate values for reads, writes and trims, resolved when `rw` is known.
    each: Vec<(&'static str, Each, &'s Setting)>,
    /// fio's `loops`.
    loops: u64,
    /// fio's `nrfiles` and `filesize`.
    files: (Option<u64>, Option<u64>),
    /// Whether fio's random map is kept: not `norandommap`.
    keeps_map: bool,
    /// fio's `create_only`: files are laid out, and nothing is run.
    lays_out: bool,
    /// `fsync` and `fdatasync`, and where the last of them stands.
    flushes: [Option<u64>; 2],
    flushes_at: Option<&'s Place>,
    /// fio's `sync`, and `writefua`.
    synchronous: Option<&'s Place>,
    through: Option<&'s Place>,
    increment: Option<(Number, &'s Place)>,
    wait_for: Option<(String, &'s Place)>,
}

/// A job's flow, and what depends on the other jobs of the file.
pub(super) struct Job {
    pub(super) flow: FlowSpec,
    /// fio's `offset_increment`: added to the offset for each job of `numjobs`.
    pub(super) increment: Option<(Extent, Place)>,
    /// fio's `wait_for`: the name of the jobs whose end it waits for.
    pub(super) wait_for: Option<(String, Place)>,
}

/// Whether a job waits for those before it, though it may do nothing itself.
pub(super) fn waits_for_previous(section: &Section) -> bool {
    let names = ["stonewall", "wait_for_previous"];
    let last = section.settings.iter().rev().find(|it| names.contains(&it.name.as_str()));
    last.is_some_and(|it| values::flag(it.value.as_deref()).unwrap_or(false))
}

/// The flow that `section` stands for; `None` if no drive has anything to do with it.
pub(super) fn flow(section: &Section, job: &mut FioJob) -> Result<Option<Job>, FioError> {
    let engine = section.settings.iter().rev().find(|setting| setting.name == "ioengine");
    let engine = engine.and_then(|setting| setting.value.as_deref()).unwrap_or_default();
    if let Some((engine, what)) = NOT_STORAGE.iter().find(|(name, _)| *name == engine.trim()) {
        job.warn(format!("job `{}` is left out: ioengine={engine} {what}", section.name));
        return Ok(None);
    }
    let mut reading = Reading { loops: 1, keeps_map: true, ..Reading::default() };
    for setting in &section.settings {
        reading.take(setting, job).map_err(|problem| match problem {
            Problem::Option(error) => error,
            Problem::Value(message) => setting.place.error(format!("{}: {message}", setting.name)),
        })?;
    }
    if reading.lays_out {
        let name = &section.name;
        job.warn(format!(
            "job `{name}` is left out: create_only lays out files, without I/O to them"
        ));
        return Ok(None);
    }
    reading.resolve_sizes(job);
    reading.resolve_each()?;
    reading.resolve_amount(job)?;
    reading.resolve_flushes(&section.name, job)?;
    reading.resolve_map();
    reading.leave_out_idle(&section.name, job);
    let increment = reading.increment.take().map(|(by, place)| {
        let by = match by {
            Number::Plain(bytes) => Extent::Bytes(bytes),
            Number::Percent(percent) => Extent::Share(percent as f64 / 100.0),
        };
        (by, place.clone())
    });
    let wait_for = reading.wait_for.take().map(|(name, place)| (name, place.clone()));
    let Reading { mut options, engine, places, .. } = reading;
    if options.trace.is_some() {
        options.set("trace_format", "fio");
    }
    let deep = options.iodepth.as_deref().is_some_and(|depth| depth != "1");
    let synchronous = SYNCHRONOUS.contains(&engine.unwrap_or(DEFAULT_ENGINE));
    if deep && synchronous {
        job.warn(match engine {
            Some(engine) => format!(
                "ioengine={engine} has one request outstanding whatever iodepth says, as in fio"
            ),
            None => format!(
                "without an ioengine it is {DEFAULT_ENGINE}, as in fio, which has one request \
                 outstanding whatever iodepth says"
            ),
        });
        options.iodepth = Some("1".to_owned());
    }
    if options.rate_iops.is_some() && options.iodepth.is_none() {
        options.iodepth = Some("1".to_owned());
    }
    let flow = options.flow(&section.name).map_err(|error| {
        let place = places.iter().rev().find(|(option, _)| *option == error.option);
        place.map_or(&section.place, |(_, place)| place).error(error.to_string())
    })?;
    Ok(Some(Job { flow, increment, wait_for }))
}

/// Why an option cannot be used.
enum Problem {
    /// The option's value is not valid.
    Value(String),
    /// The option is not valid, whatever its value is.
    Option(FioError),
}

impl From<FioError> for Problem {
    fn from(error: FioError) -> Problem {
        Problem::Option(error)
    }
}

impl From<String> for Problem {
    fn from(message: String) -> Problem {
        Problem::Value(message)
    }
}

/// Keywords that fio replaces by properties of its machine (HOWTO, "Reserved keywords").
const OF_THE_MACHINE: [&str; 3] = ["$ncpus", "$pagesize", "$mb_memory"];

impl<'s> Reading<'s> {
    /// Reads an option.
    fn take(&mut self, setting: &'s Setting, job: &mut FioJob) -> Result<(), Problem> {
        let Setting { name, value, missing, place, global, base } = setting;
        let name = name.as_str();
        let Some(meaning) = words::meaning(name) else {
            return Err(Problem::Option(unknown(name, place)));
        };
        if let Meaning::NoEffect(_) = meaning {
            job.warn(format!("{name} has no effect here"));
            return Ok(());
        }
        if let Some(variable) = missing {
            return Err(format!("the environment has no variable {variable}").into());
        }
        if let Some(keyword) =
            OF_THE_MACHINE.iter().find(|it| value.iter().any(|v| v.contains(**it)))
        {
            let message = format!(
                "`{keyword}` is a number of the machine that runs fio, and results here are the same on \
                 every machine: write the number"
            );
            return Err(message.into());
        }
        let needed = || value.as_deref().ok_or_else(|| "a value is missing".to_owned());
        let (option, kind) = match meaning {
            Meaning::Flow(option, kind) => (option, kind),
            Meaning::NoEffect(_) => return Ok(()),
            Meaning::LeftOut(why) => {
                job.warn(format!("{name} is left out: {why}"));
                return Ok(());
            }
            Meaning::Refused(what) => {
                let off = value.as_deref().is_some_and(|it| words::is_off(name, it.trim()));
                let message = format!("`{name}` is not simulated: {what}");
                return if off { Ok(()) } else { Err(place.error(message).into()) };
            }
            Meaning::Taken(_) => return self.take_particular(setting, job),
        };
        if name == "name" && *global {
            job.warn("name in [global] names no job, as in fio: each has its section's name");
            return Ok(());
        }
        let value = match kind {
            Kind::Each(each) => {
                needed()?;
                self.each.retain(|(other, ..)| *other != option);
                self.each.push((option, each, setting));
                return Ok(());
            }
            Kind::Set => values::flag(value.as_deref())?.then(|| "true".to_owned()),
            Kind::Bool => values::flag(Some(needed()?))?.then(|| "true".to_owned()),
            Kind::Text => Some(text(name, needed()?.trim())?),
            Kind::Number => Some(values::plain(needed()?, *base)?.to_string()),
            Kind::Extent => Some(match values::number(needed()?, *base)? {
                Number::Plain(bytes) => bytes.to_string(),
                Number::Percent(percent) => format!("{percent}%"),
            }),
            Kind::Time(bare) => {
                let us = values::time(needed()?, bare)?.as_ps() / 1_000_000;
                Some(if us == 0 { "0".to_owned() } else { format!("{us}us") })
            }
        };
        match value.filter(|value| value != "0" || !NONE_IF_ZERO.contains(&option)) {
            Some(value) => self.set(option, value, place),
            None => self.options.unset(option),
        }
        Ok(())
    }

    /// Reads an option that has no counterpart of its own among a flow's options.
    fn take_particular(&mut self, setting: &'s Setting, job: &mut FioJob) -> Result<(), Problem> {
        let Setting { name, value, place, base, .. } = setting;
        let needed = || value.as_deref().ok_or_else(|| "a value is missing".to_owned());
        match name.as_str() {
            "verify" => {
                let method = needed()?.trim();
                if !matches!(method, "0" | "null") {
                    job.verify = true;
                }
            }
            "loops" => self.loops = values::plain(needed()?, *base)?.max(1),
            "nrfiles" | "nr_files" => {
                self.files.0 = Some(values::plain(needed()?, *base)?.max(1));
            }
            "filesize" => {
                // Of a range each file has a random size: on average its middle.
                let (from, to) = match needed()?.split_once('-') {
                    Some((from, to)) => (values::plain(from, *base)?, values::plain(to, *base)?),
                    None => [values::plain(needed()?, *base)?; 2].into(),
                };
                self.files.1 = Some(from / 2 + to / 2 + (from & to & 1));
            }
            "ioengine" => {
                let engine = needed()?.trim();
                let engine = engine.split(':').next().unwrap_or_default();
                self.engine = Some(engine);
                if !SYNCHRONOUS.contains(&engine) {
                    job.warn("ioengine has no effect here but that iodepth counts");
                }
            }
            "ramp_time" => {
                let ramp = values::time(needed()?, Span::from_secs(1))?;
                if job.ramp_time.is_some_and(|other| other != ramp) {
                    return Err("it is one for all jobs of a simulation".to_owned().into());
                }
                job.ramp_time = Some(ramp);
            }
            "rwmixwrite" => {
                let Some(reads) = 100u64.checked_sub(values::plain(needed()?, *base)?) else {
                    return Err("not a percentage".to_owned().into());
                };
                self.set("rwmixread", reads.to_string(), place);
            }
            "norandommap" => self.keeps_map = !values::flag(value.as_deref())?,
            "create_only" => self.lays_out = values::flag(value.as_deref())?,
            "fsync" | "fdatasync" => {
                let every = values::plain(needed()?, *base)?;
                self.flushes[usize::from(name == "fdatasync")] = (every > 0).then_some(every);
                self.flushes_at = Some(place);
            }
            "sync" => {
                self.synchronous = match needed()?.trim() {
                    "0" | "none" => None,
                    "1" | "sync" | "dsync" => Some(place),
                    _ => return Err("valid are none, sync and dsync".to_owned().into()),
                }
            }
            "writefua" => self.through = values::flag(value.as_deref())?.then_some(place),
            "offset_increment" => {
                let by = values::number(needed()?, *base)?;
                let nothing = matches!(by, Number::Plain(0) | Number::Percent(0));
                self.increment = (!nothing).then_some((by, place));
            }
            "wait_for" => {
                let name = needed()?.trim();
                self.wait_for = (name != "none").then(|| (name.to_owned(), place));
            }
            // `file.rs` has read kb_base, and `exitall` is a matter of all jobs.
            _ => {}
        }
        Ok(())
    }

    fn set(&mut self, option: &'static str, value: String, place: &'s Place) {
        self.places.push((option, place));
        self.options.set(option, value);
    }

    /// Chooses among several options for the block size, as fio does.
    fn resolve_sizes(&mut self, job: &mut FioJob) {
        let all = ["bssplit", "bsrange", "bs"];
        let given: Vec<&str> =
            all.into_iter().filter(|size| self.each.iter().any(|(it, ..)| it == size)).collect();
        if let [first, rest @ ..] = &given[..] {
            for size in rest {
                job.warn(format!("{size} has no effect beside {first}, as in fio"));
                self.each.retain(|(option, ..)| option != size);
            }
        }
    }

    fn writes(&self) -> bool {
        let kind = self.options.rw.as_deref().unwrap_or("read");
        matches!(kind, "write" | "randwrite") || MIXED.contains(&kind)
    }

    /// Drops options that have no effect in this job, often because `[global]` gives them to all
    /// jobs.
    fn leave_out_idle(&mut self, section: &str, job: &mut FioJob) {
        let kind = self.options.rw.as_deref().unwrap_or("read");
        let (is_mixed, is_random) = (MIXED.contains(&kind), kind.starts_with("rand"));
        let has_rate = self.options.rate_iops.is_some();
        for (option, works, why) in [
            ("rwmixread", is_mixed, "is not mixed"),
            ("percentage_random", is_random, "is sequential"),
            ("random_distribution", is_random, "is sequential"),
            ("rate_process", has_rate, "has no rate"),
        ] {
            if !works && self.options.get(option).is_some() {
                job.warn(format!(
                    "{option} has no effect in job `{section}`, which {why}, as in fio"
                ));
                self.options.unset(option);
            }
        }
    }

    /// fio comes to each block of a random job once before it comes to any again. Where requests are
    /// of several sizes that ends some of them early, so that there are more.
    fn resolve_map(&mut self) {
        let options = &mut self.options;
        let one_list = |sizes: &Option<String>| sizes.as_ref().is_some_and(|it| !it.contains(','));
        let several = one_list(&options.bsrange) || one_list(&options.bssplit);
        let random = options.rw.as_deref().is_some_and(|kind| kind.starts_with("rand"));
        let anywhere = options.percentage_random.is_none() && options.trace.is_none();
        let uniform = matches!(options.random_distribution.as_deref(), None | Some("random"));
        if several && random && anywhere && uniform && self.keeps_map {
            options.set("random_distribution", "once");
        }
    }

    /// Sets flushes and write-through. Jobs that only read have neither.
    fn resolve_flushes(&mut self, section: &str, job: &mut FioJob) -> Result<(), FioError> {
        let every = match self.flushes {
            [Some(one), Some(other)] if one != other => {
                let place = self.flushes_at.expect("they stand somewhere");
                let message = "fsync and fdatasync are both one flush to a drive, and a job has \
                               either of them here: leave one out, or give both one value";
                return Err(place.error(message));
            }
            [one, other] => one.or(other),
        };
        let given = [
            (every.and(self.flushes_at), "fsync"),
            (self.synchronous, "sync"),
            (self.through, "writefua"),
        ];
        if self.options.trace.is_some() || !self.writes() {
            let why = match self.options.trace {
                Some(_) => "replays what the log says".to_owned(),
                None => "writes nothing".to_owned(),
            };
            for (_, option) in given.iter().filter(|(place, _)| place.is_some()) {
                job.warn(format!("{option} has no effect in job `{section}`, which {why}"));
            }
            return Ok(());
        }
        if let Some(place) = self.synchronous.or(self.through) {
            self.set("sync", "true".to_owned(), place);
        }
        // Who waits for his write has Linux send a flush behind it; io_uring and libaio have not.
        let waits = SYNCHRONOUS.contains(&self.engine.unwrap_or(DEFAULT_ENGINE));
        let every = match self.synchronous {
            Some(place) if waits => Some((1, place)),
            _ => every.zip(self.flushes_at),
        };
        if let Some((every, place)) = every {
            self.set("fsync", every.to_string(), place);
        }
        Ok(())
    }

    /// Reads the settings with separate values for reads, writes and trims, now that the job's mix
    /// is known. A missing value is that of the kind before.
    fn resolve_each(&mut self) -> Result<(), FioError> {
        let kinds: &[usize] = match self.options.rw.as_deref().unwrap_or("read") {
            "read" | "randread" => &[0],
            "write" | "randwrite" => &[1],
            "trim" | "randtrim" => &[2],
            _ => &[0, 1],
        };
        // Rates are of requests, whose sizes come first.
        let each = std::mem::take(&mut self.each);
        let (rates, others): (Vec<_>, Vec<_>) =
            each.into_iter().partition(|(option, ..)| matches!(*option, "rate" | "rate_iops"));
        for (option, each, setting) in others {
            let name = &setting.name;
            let fail = |message| Err(setting.place.error(format!("{name}: {message}")));
            let value = setting.value.as_deref().unwrap_or_default();
            let value = value.strip_suffix(',').unwrap_or(value);
            let parts: Vec<&str> = value.split(',').collect();
            if parts.len() > 3 {
                return fail("one value each for reads, writes and trims, at most".to_owned());
            }
            let of = |kind: &usize| parts.get(*kind).or(parts.last()).copied();
            let mut ours = kinds.iter().filter_map(of);
            let Some(first) = ours.next() else { continue };
            if ours.any(|other| other != first) {
                if matches!(option, "bs" | "bsrange" | "bssplit") {
                    let one = |part: &&str| match (option, part.trim()) {
                        // Nothing before a comma leaves it as it is.
                        ("bs", "") => Ok(DEFAULT_BYTES.to_owned()),
                        (_, part) => one(each, part, setting.base),
                    };
                    match parts.iter().map(one).collect::<Result<Vec<_>, _>>() {
                        Ok(values) => self.set(option, values.join(","), &setting.place),
                        Err(message) => return fail(message),
                    }
                    continue;
                }
                return fail(format!(
                    "`{value}`: reads and writes of one job have the same here; jobs of their own \
                     may have different ones"
                ));
            }
            // Nothing before a comma leaves it as it is.
            if first.is_empty() && parts.len() > 1 {
                continue;
            }
            match one(each, first, setting.base) {
                Ok(value) if value == "0" && NONE_IF_ZERO.contains(&option) => {
                    self.options.unset(option)
                }
                Ok(value) => self.set(option, value, &setting.place),
                Err(message) => return fail(message),
            }
        }
        for (option, _, setting) in rates {
            let fail = |message| setting.place.error(format!("{}: {message}", setting.name));
            let kind = if option == "rate" { Rate::Bytes } else { Rate::Requests };
            let value = setting.value.as_deref().unwrap_or_default();
            let limit = rate::limit(kind, value, setting.base, kinds, &self.options);
            let Some(limit) = limit.map_err(fail)? else { continue };
            let other = self.options.rate_iops.as_deref();
            // The lower one counts where both are given.
            if other.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it <= limit.requests) {
                continue;
            }
            self.set("rate_iops", limit.requests.to_string(), &setting.place);
            if let Some(reads) = limit.reads {
                self.set(
                    "rwmixread",
                    percent(reads).trim_end_matches('%').to_owned(),
                    &setting.place,
                );
            }
        }
        Ok(())
    }

    /// Sets how much the job issues: once through its files unless options say otherwise, `loops`
    /// times.
    fn resolve_amount(&mut self, job: &mut FioJob) -> Result<(), FioError> {
        let flag = |value: &Option<String>| value.as_deref() == Some("true");
        if flag(&self.options.time_based) && self.options.runtime.is_none() {
            job.warn("time_based has no effect without runtime, as in fio");
            self.options.unset("time_based");
        }
        if let (files, Some(bytes)) = self.files {
            let all = files.unwrap_or(1).saturating_mul(bytes);
            let share = |size: &str| size.strip_suffix('%').and_then(|it| it.parse::<u128>().ok());
            // A percentage is one of the files.
            let bytes = match self.options.size.as_deref() {
                None => Some(all),
                Some(size) => share(size).map(|of| (u128::from(all) * of / 100) as u64),
            };
            if let Some(bytes) = bytes {
                self.options.set("size", bytes.to_string());
            }
        }
        if self.options.trace.is_some() {
            if self.loops > 1 {
                self.options.set("trace_repeat", self.loops.to_string());
            }
            return Ok(());
        }
        if flag(&self.options.time_based) {
            for option in ["number_ios", "io_size"] {
                if self.options.get(option).is_some() {
                    job.warn(format!("{option} has no effect beside time_based, as in fio"));
                    self.options.unset(option);
                }
            }
            return Ok(());
        }
        let amount = self.options.io_size.clone().unwrap_or_else(|| "100%".to_owned());
        let (number, unit) = match amount.strip_suffix('%') {
            Some(number) => (number, "%"),
            None => (&amount[..], ""),
        };
        let number = number.parse::<u64>().map(|number| number.saturating_mul(self.loops));
        self.options.set("io_size", number.map_or(amount.clone(), |all| format!("{all}{unit}")));
        let requests = self.options.number_ios.as_deref().and_then(|it| it.parse::<u64>().ok());
        if let Some(requests) = requests.filter(|_| self.loops > 1) {
            let all = requests.saturating_mul(self.loops);
            self.options.set("number_ios", all.to_string());
        }
        Ok(())
    }
}

/// The value of a text option; an error for what flows do not support.
fn text(name: &str, value: &str) -> Result<String, String> {
    match (name, value) {
        (_, "") => Err("a value is missing".to_owned()),
        ("rw" | "readwrite", "trimwrite" | "randtrimwrite") => {
            Err(format!("`{value}` is not simulated"))
        }
        // A number after a colon makes sequential I/O skip, and random I/O keep a place.
        ("rw" | "readwrite", kind) if kind.contains(':') => {
            Err(format!("`{kind}`: skips are not simulated"))
        }
        ("random_distribution", "zipf") => Ok(DEFAULT_ZIPF.to_owned()),
        _ => Ok(value.to_owned()),
    }
}

/// The value for one kind of request.
fn one(each: Each, text: &str, base: Base) -> Result<String, String> {
    match each {
        Each::Number => values::plain(text, base).map(|value| value.to_string()),
        Each::Range => {
            let (from, to) = text
                .split_once('-')
                .or(text.split_once(':'))
                .ok_or("a range is written MIN-MAX, as in 4k-64k")?;
            let (from, to) = (values::plain(from, base)?, values::plain(to, base)?);
            Ok(format!("{}-{}", from.min(to), from.max(to)))
        }
        Each::Split => split(text, base),
    }
}

/// Sizes with their percentages. Those without one share what the others leave (fio's
/// `options.c`, `bssplit_ddir`), the last of them with what does not divide.
fn split(text: &str, base: Base) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let size = values::plain(size, base)?;
        let percent = match percent.trim_end_matches('%') {
            "" => None,
            percent => Some(values::plain(percent, base)?),
        };
        parts.push((size, percent));
    }
    let given = parts.iter().filter_map(|(_, percent)| *percent).fold(0, u64::saturating_add);
    let open = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
    let left = 100u64.saturating_sub(given);
    let last = parts.iter().rposition(|(_, percent)| percent.is_none());
    let parts = parts.iter().enumerate().map(|(at, &(size, percent))| {
        let rest = if Some(at) == last { left % open } else { 0 };
        let percent = percent.unwrap_or_else(|| left / open + rest);
        format!("{size}/{percent}")
    });
    Ok(parts.collect::<Vec<_>>().join(":"))
}

fn unknown(name: &str, place: &Place) -> FioError {
    let mut error =
        place.error(format!("`{name}` is not simulated: fio has no option of that name"));
    error.0.help = Some(match words::nearest(name) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "docs/fio-options.md has a table of all of fio's options".to_owned(),
    });
    error
}
