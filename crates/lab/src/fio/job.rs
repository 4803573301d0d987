//! Which option of a job means what.
//!
//! Where fio's meaning differs from a flow's, fio's counts: `thinktime` counts microseconds;
//! `size` is also what a job issues, unless `io_size` says that or it is `time_based`, and a job
//! without it goes through the namespace once; `rate_iops` is kept to within `iodepth`, which is 1
//! if it is not given; a synchronous `ioengine`, which is also what fio takes if none is given,
//! has one request outstanding whatever `iodepth` says; values for reads, writes and trims, one
//! after the other, are each for theirs. `norandommap` is always the case, so random jobs may hit
//! a block twice before they have hit all.

use super::file::{Place, Section, Setting};
use super::rate::{self, Rate};
use super::values::{self, Base, Number};
use super::words::{self, NOT_STORAGE, SYNCHRONOUS, WITHOUT_EFFECT};
use super::{FioError, FioJob};
use crate::workload::{FlowOptions, FlowSpec};
use mynah_stamp::Span;

/// How fio reads a value.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A whole number with a unit.
    Number,
    /// The same, or a percentage.
    Extent,
    /// A time; a bare number counts so long.
    Time(Span),
    /// On if it stands there.
    Set,
    /// A number that is 0 or not.
    Bool,
    /// One for reads, writes and trims each.
    Each(Each),
}

/// What there is one of for reads, writes and trims each.
#[derive(Clone, Copy)]
enum Each {
    Number,
    /// `MIN-MAX` or `MIN:MAX`.
    Range,
    /// `SIZE/PERCENT:…`.
    Split,
}

const SECONDS: Kind = Kind::Time(Span::from_secs(1));

/// fio's options that are options of a flow, under that name.
const OPTIONS: &[(&str, &str, Kind)] = &[
    ("ba", "blockalign", Kind::Each(Each::Number)),
    ("blockalign", "blockalign", Kind::Each(Each::Number)),
    ("blocksize", "bs", Kind::Each(Each::Number)),
    ("blocksize_range", "bsrange", Kind::Each(Each::Range)),
    ("bs", "bs", Kind::Each(Each::Number)),
    ("bsrange", "bsrange", Kind::Each(Each::Range)),
    ("bssplit", "bssplit", Kind::Each(Each::Split)),
    ("io_limit", "io_size", Kind::Extent),
    ("io_size", "io_size", Kind::Extent),
    ("iodepth", "iodepth", Kind::Number),
    ("name", "name", Kind::Text),
    ("number_ios", "number_ios", Kind::Number),
    ("numjobs", "numjobs", Kind::Number),
    ("offset", "offset", Kind::Extent),
    ("percentage_random", "percentage_random", Kind::Each(Each::Number)),
    ("random_distribution", "random_distribution", Kind::Text),
    ("randseed", "randseed", Kind::Number),
    ("rate", "rate", Kind::Each(Each::Number)),
    ("rate_iops", "rate_iops", Kind::Each(Each::Number)),
    ("rate_process", "rate_process", Kind::Text),
    ("read_iolog", "trace", Kind::Text),
    ("readwrite", "rw", Kind::Text),
    ("replay_no_stall", "trace_no_stall", Kind::Bool),
    ("replay_time_scale", "trace_speed", Kind::Number),
    ("runtime", "runtime", SECONDS),
    ("rw", "rw", Kind::Text),
    ("rwmixread", "rwmixread", Kind::Number),
    ("size", "size", Kind::Extent),
    ("startdelay", "startdelay", SECONDS),
    ("stonewall", "wait_for_previous", Kind::Set),
    ("thinktime", "thinktime", Kind::Time(Span::from_us(1))),
    ("thinktime_blocks", "thinktime_blocks", Kind::Number),
    ("time_based", "time_based", Kind::Set),
    ("timeout", "runtime", SECONDS),
    ("wait_for_previous", "wait_for_previous", Kind::Set),
];

/// What is nothing if it is 0.
const NONE_IF_ZERO: &[&str] =
    &["io_size", "number_ios", "rate_iops", "runtime", "size", "startdelay", "thinktime"];

/// What fio takes on Linux if none is given (`os/os.h`, `FIO_PREFERRED_ENGINE`).
const DEFAULT_ENGINE: &str = "psync";
/// The exponent of `zipf` if none is given (`FIO_DEF_ZIPF`).
const DEFAULT_ZIPF: &str = "zipf:1.1";

/// A job while it is read.
#[derive(Default)]
struct Reading<'s> {
    options: FlowOptions,
    engine: Option<&'s str>,
    /// Where each option of the flow was set.
    places: Vec<(&'static str, &'s Place)>,
    /// What there is one of for reads, writes and trims each.
    each: Vec<(&'static str, Each, &'s Setting)>,
    /// `loops`.
    loops: u64,
    /// `nrfiles` and `filesize`.
    files: (Option<u64>, Option<u64>),
}

/// The flow that `section` stands for; `None` if no drive has anything to do with it.
pub(super) fn flow(section: &Section, job: &mut FioJob) -> Result<Option<FlowSpec>, FioError> {
    let engine = section.settings.iter().rev().find(|setting| setting.name == "ioengine");
    let engine = engine.and_then(|setting| setting.value.as_deref()).unwrap_or_default();
    if let Some((engine, what)) = NOT_STORAGE.iter().find(|(name, _)| *name == engine.trim()) {
        job.warn(format!("job `{}` is left out: ioengine={engine} {what}", section.name));
        return Ok(None);
    }
    let mut reading = Reading { loops: 1, ..Reading::default() };
    for setting in &section.settings {
        reading.take(setting, job).map_err(|problem| match problem {
            Problem::UnknownOption(error) => error,
            Problem::Value(message) => setting.place.error(format!("{}: {message}", setting.name)),
        })?;
    }
    reading.resolve_each()?;
    reading.resolve_amount(job)?;
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
    options.flow(&section.name).map(Some).map_err(|error| {
        let place = places.iter().rev().find(|(option, _)| *option == error.option);
        place.map_or(&section.place, |(_, place)| place).error(error.to_string())
    })
}

/// Why an option cannot be used.
enum Problem {
    /// Its value cannot be.
    Value(String),
    /// There is none of its name.
    UnknownOption(FioError),
}

impl From<String> for Problem {
    fn from(message: String) -> Problem {
        Problem::Value(message)
    }
}

impl<'s> Reading<'s> {
    /// Takes an option in.
    fn take(&mut self, setting: &'s Setting, job: &mut FioJob) -> Result<(), Problem> {
        let Setting { name, value, missing, place, global, base } = setting;
        let name = name.as_str();
        if WITHOUT_EFFECT.contains(&name) {
            job.warn(format!("{name} has no effect here"));
            return Ok(());
        }
        if let Some(variable) = missing {
            return Err(format!("the environment has no variable {variable}").into());
        }
        let needed = || value.as_deref().ok_or_else(|| "a value is missing".to_owned());
        if let Some(why) = words::left_out(name) {
            job.warn(format!("{name} is left out: {why}"));
            return Ok(());
        }
        match name {
            "kb_base" | "exitall" => return Ok(()),
            "verify" => {
                let method = needed()?.trim();
                if !matches!(method, "0" | "null") {
                    job.verify = true;
                }
                return Ok(());
            }
            "loops" => {
                self.loops = values::plain(needed()?, *base)?.max(1);
                return Ok(());
            }
            "nrfiles" => {
                self.files.0 = Some(values::plain(needed()?, *base)?.max(1));
                return Ok(());
            }
            "filesize" => {
                // Of a range each file has a random size: on average its middle.
                let (from, to) = match needed()?.split_once('-') {
                    Some((from, to)) => (values::plain(from, *base)?, values::plain(to, *base)?),
                    None => [values::plain(needed()?, *base)?; 2].into(),
                };
                self.files.1 = Some(from / 2 + to / 2 + (from & to & 1));
                return Ok(());
            }
            "name" if *global => {
                job.warn("name in [global] names no job, as in fio: each has its section's name");
                return Ok(());
            }
            "ioengine" => {
                let engine = needed()?.trim();
                let engine = engine.split(':').next().unwrap_or_default();
                self.engine = Some(engine);
                if !SYNCHRONOUS.contains(&engine) {
                    job.warn("ioengine has no effect here");
                }
                return Ok(());
            }
            "ramp_time" => {
                let ramp = values::time(needed()?, Span::from_secs(1))?;
                if job.ramp_time.is_some_and(|other| other != ramp) {
                    return Err("it is one for all jobs of a simulation".to_owned().into());
                }
                job.ramp_time = Some(ramp);
                return Ok(());
            }
            "rwmixwrite" => {
                let Some(reads) = 100u64.checked_sub(values::plain(needed()?, *base)?) else {
                    return Err("not a percentage".to_owned().into());
                };
                self.set("rwmixread", reads.to_string(), place);
                return Ok(());
            }
            _ => {}
        }
        let Some(&(_, option, kind)) = OPTIONS.iter().find(|(fio, ..)| *fio == name) else {
            return Err(Problem::UnknownOption(unknown(name, place)));
        };
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

    fn set(&mut self, option: &'static str, value: String, place: &'s Place) {
        self.places.push((option, place));
        self.options.set(option, value);
    }

    /// Takes in what there is one of for reads, writes and trims each, now that it is known which
    /// of them the job does. What is not given is as for the kind before.
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
            match (limit.map_err(fail)?, self.options.rate_iops.as_deref()) {
                // The lower one counts where both are given.
                (Some(limit), Some(other)) if other.parse().is_ok_and(|it: u64| it <= limit) => {}
                (Some(limit), _) => self.set("rate_iops", limit.to_string(), &setting.place),
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// How much a job issues: once through its files, unless it says more, and that `loops` times.
    fn resolve_amount(&mut self, job: &mut FioJob) -> Result<(), FioError> {
        let flag = |value: &Option<String>| value.as_deref() == Some("true");
        if flag(&self.options.time_based) && self.options.runtime.is_none() {
            job.warn("time_based has no effect without runtime, as in fio");
            self.options.unset("time_based");
        }
        if self.options.size.is_none()
            && let (files, Some(bytes)) = self.files
        {
            let all = files.unwrap_or(1).saturating_mul(bytes);
            self.options.set("size", all.to_string());
        }
        if self.options.trace.is_some() {
            if self.loops > 1 {
                self.options.set("trace_repeat", self.loops.to_string());
            }
            return Ok(());
        }
        if flag(&self.options.time_based) {
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

/// A word that is taken as it is, if the flow has what it says.
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
    let valid: Vec<&str> = OPTIONS.iter().map(|(fio, ..)| *fio).collect();
    let mut error = place.error(format!("`{name}` is not simulated, so the load would be another"));
    error.0.help =
        Some(format!("valid are {}, ioengine, kb_base, ramp_time, rwmixwrite", valid.join(", ")));
    error
}
