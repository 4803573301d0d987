//! fio job files (fio(1), "Job file format"), for the options that say something about a
//! simulated drive.
//!
//! A section is a flow, `[global]` holds defaults for those after it. Options that only
//! concern the machine that fio runs on, or its output, are accepted with a warning that they
//! have no effect; every other option that is not known is an error with its line, since the
//! load would not be what the file says.
//!
//! Where fio's meaning differs from a flow's: `thinktime` counts microseconds; `size` without
//! `io_size` and `time_based` is also what a job issues; `rate_iops` is kept to within `iodepth`,
//! which is 1 if it is not given; a synchronous `ioengine` has one request outstanding whatever
//! `iodepth` says; `norandommap` is always the case, so random jobs may hit a block twice before
//! they have hit all.

use crate::quantity::{parse_bytes, parse_time};
use crate::workload::{FlowOptions, FlowSpec, Source};
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode, SourceSpan};
use mynah_stamp::Span;
use std::ops::Range;
use std::path::Path;

/// A job file, read.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJob {
    /// Its jobs. At least one.
    pub flows: Vec<FlowSpec>,
    /// `ramp_time`.
    pub ramp_time: Option<Span>,
    /// What has no effect.
    pub warnings: Vec<String>,
}

/// Why a job file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FioError(Box<Details>);

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
struct Details {
    file: String,
    line: Option<usize>,
    message: String,
    #[source_code]
    source_code: Option<NamedSource<String>>,
    #[label]
    at: Option<SourceSpan>,
    #[help]
    help: Option<String>,
}

impl Diagnostic for FioError {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.labels()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.0.help()
    }
}

/// Options that do nothing for a simulated drive, and why that is so for all of them.
const WITHOUT_EFFECT: &[&str] = &[
    "allow_file_create",
    "allow_mounted_write",
    "allrandrepeat",
    "buffered",
    "bwavgtime",
    "clat_percentiles",
    "clocksource",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "description",
    "direct",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "eta",
    "exitall",
    "fallocate",
    "filename",
    "fixedbufs",
    "group_reporting",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "iopsavgtime",
    "lat_percentiles",
    "log_avg_msec",
    "mem",
    "nice",
    "norandommap",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "percentile_list",
    "per_job_logs",
    "prio",
    "randrepeat",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "slat_percentiles",
    "sqthread_poll",
    "thread",
    "unified_rw_reporting",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];

/// fio's options that are options of a flow, under that name.
const OPTIONS: &[(&str, &str)] = &[
    ("blockalign", "blockalign"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("bs", "bs"),
    ("bsrange", "bsrange"),
    ("bssplit", "bssplit"),
    ("io_limit", "io_size"),
    ("io_size", "io_size"),
    ("iodepth", "iodepth"),
    ("name", "name"),
    ("number_ios", "number_ios"),
    ("numjobs", "numjobs"),
    ("offset", "offset"),
    ("percentage_random", "percentage_random"),
    ("random_distribution", "random_distribution"),
    ("randseed", "randseed"),
    ("rate_iops", "rate_iops"),
    ("rate_process", "rate_process"),
    ("read_iolog", "trace"),
    ("readwrite", "rw"),
    ("replay_no_stall", "trace_no_stall"),
    ("replay_time_scale", "trace_speed"),
    ("runtime", "runtime"),
    ("rw", "rw"),
    ("rwmixread", "rwmixread"),
    ("size", "size"),
    ("startdelay", "startdelay"),
    ("thinktime", "thinktime"),
    ("thinktime_blocks", "thinktime_blocks"),
    ("time_based", "time_based"),
];

/// The engines that have one request outstanding (fio(1), "I/O engine").
const SYNCHRONOUS: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// An option as it stands in the file.
#[derive(Clone)]
struct Setting {
    name: String,
    value: String,
    span: Range<usize>,
}

struct Section {
    name: String,
    span: Range<usize>,
    settings: Vec<Setting>,
}

struct Text<'t> {
    name: &'t str,
    text: &'t str,
}

impl Text<'_> {
    fn error(&self, at: Range<usize>, message: impl Into<String>) -> FioError {
        let start = at.start.min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        FioError(Box::new(Details {
            file: self.name.to_owned(),
            line: Some(before.iter().filter(|&&byte| byte == b'\n').count() + 1),
            message: message.into(),
            source_code: Some(NamedSource::new(self.name, self.text.to_owned())),
            at: Some(at.into()),
            help: None,
        }))
    }

    /// The file's sections, `[global]` laid under those after it.
    fn sections(&self) -> Result<Vec<Section>, FioError> {
        let mut global: Vec<Setting> = Vec::new();
        let mut sections: Vec<Section> = Vec::new();
        let mut in_global = false;
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            let start = at + (line.len() - line.trim_start().len());
            at += line.len();
            let content = line.trim();
            let span = start..start + content.len();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = content.strip_prefix('[') {
                let Some(name) = name.strip_suffix(']').filter(|name| !name.is_empty()) else {
                    return Err(self.error(span, "a section is written [name]"));
                };
                in_global = name == "global";
                if !in_global {
                    let (name, settings) = (name.to_owned(), global.clone());
                    sections.push(Section { name, span, settings });
                }
                continue;
            }
            let (name, value) = content.split_once('=').unwrap_or((content, ""));
            let setting = Setting { name: name.trim().into(), value: value.trim().into(), span };
            match sections.last_mut() {
                _ if in_global => global.push(setting),
                Some(section) => section.settings.push(setting),
                None => {
                    return Err(self.error(
                        setting.span,
                        "an option before the first section; a job begins with [name]",
                    ));
                }
            }
        }
        Ok(sections)
    }
}

impl FioJob {
    /// Adds a warning that has not been given yet.
    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Reads the file at `path`. An iolog that it names is looked for beside it.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be simulated.
    pub fn load(path: &Path) -> Result<FioJob, FioError> {
        let name = path.display().to_string();
        let fail = |message: String| {
            FioError(Box::new(Details {
                file: name.clone(),
                line: None,
                message,
                source_code: None,
                at: None,
                help: None,
            }))
        };
        let text = crate::input::read_text(path).map_err(|error| fail(error.to_string()))?;
        let mut job = FioJob::parse(&name, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for flow in &mut job.flows {
            if let Source::Trace(trace) = &mut flow.source
                && !trace.is_pipe()
            {
                trace.path = folder.join(&trace.path);
            }
        }
        Ok(job)
    }

    /// Reads `text`, which messages call `name`.
    ///
    /// # Errors
    /// If it says what cannot be simulated.
    pub fn parse(name: &str, text: &str) -> Result<FioJob, FioError> {
        let file = Text { name, text };
        let sections = file.sections()?;
        let mut job = FioJob { flows: Vec::new(), ramp_time: None, warnings: Vec::new() };
        for section in &sections {
            let flow = flow(&file, section, &mut job)?;
            if job.flows.iter().any(|other| other.name == flow.name) {
                let message = format!("two jobs are called `{}`", flow.name);
                return Err(file.error(section.span.clone(), message));
            }
            job.flows.push(flow);
        }
        if job.flows.is_empty() {
            return Err(file.error(0..0, "no jobs: a job is a section, [name]"));
        }
        Ok(job)
    }
}

fn flow(file: &Text<'_>, section: &Section, job: &mut FioJob) -> Result<FlowSpec, FioError> {
    let mut options = FlowOptions::default();
    let mut synchronous = None;
    // Where each option of the flow was set.
    let mut places: Vec<(&str, Range<usize>)> = Vec::new();
    for Setting { name, value, span } in &section.settings {
        let fail = |message: String| Err(file.error(span.clone(), message));
        let mut set = |option: &'static str, value: String| {
            places.push((option, span.clone()));
            options.set(option, value);
        };
        let known = OPTIONS.iter().find(|(fio, _)| fio == name);
        match (name.as_str(), known) {
            ("ramp_time", _) => {
                let ramp = match parse_time(value) {
                    Ok(ramp) => ramp,
                    Err(problem) => return fail(format!("ramp_time: {problem}")),
                };
                if job.ramp_time.is_some_and(|other| other != ramp) {
                    return fail("ramp_time is one for all jobs of a simulation".into());
                }
                job.ramp_time = Some(ramp);
            }
            ("ioengine", _) if SYNCHRONOUS.contains(&value.as_str()) => synchronous = Some(value),
            ("ioengine", _) => job.warn("ioengine has no effect on a simulated drive".into()),
            ("rwmixwrite", _) => match value.parse::<u32>() {
                Ok(percent) if percent <= 100 => set("rwmixread", (100 - percent).to_string()),
                _ => return fail(format!("rwmixwrite: `{value}` is not a percentage")),
            },
            // fio counts microseconds here.
            ("thinktime", _) if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                set("thinktime", format!("{value}us"));
            }
            ("readwrite" | "rw", _) => {
                // An offset after a colon makes sequential I/O skip.
                let kind = match value.as_str() {
                    "trimwrite" => return fail("rw=trimwrite is not simulated".into()),
                    kind if kind.contains(':') => {
                        return fail(format!("rw={kind}: skips are not simulated"));
                    }
                    kind => kind,
                };
                set("rw", kind.to_owned());
            }
            ("bs" | "blocksize" | "bsrange" | "bssplit" | "blocksize_range", Some((_, option))) => {
                if value.contains(',') {
                    return fail(format!(
                        "{name}={value}: reads, writes and trims have the same sizes; jobs of \
                         their own may have different ones"
                    ));
                }
                set(option, value.clone());
            }
            (_, Some((_, option))) => set(option, value.clone()),
            (_, None) if WITHOUT_EFFECT.contains(&name.as_str()) => {
                job.warn(format!("{name} has no effect on a simulated drive"));
            }
            (_, None) => {
                let valid: Vec<&str> = OPTIONS.iter().map(|(fio, _)| *fio).collect();
                let mut error = file.error(
                    span.clone(),
                    format!("`{name}` is not simulated, so the load would be another"),
                );
                error.0.help =
                    Some(format!("valid are {}, ramp_time, rwmixwrite", valid.join(", ")));
                return Err(error);
            }
        }
    }
    if options.trace.is_some() {
        options.set("trace_format", "fio");
    }
    if let (Some(engine), Some(depth)) = (synchronous, options.iodepth.as_deref())
        && depth != "1"
    {
        job.warn(format!(
            "ioengine={engine} has one request outstanding whatever iodepth says, as in fio"
        ));
        options.iodepth = None;
    }
    if options.rate_iops.is_some() && options.iodepth.is_none() {
        options.iodepth = Some("1".to_owned());
    }
    if options.get("time_based") == Some("") {
        options.set("time_based", "true");
    }
    // fio's size is what a job issues, unless something else says so.
    let timed = options.time_based.as_deref().is_some_and(|value| value != "0");
    let limited = options.io_size.is_some() || options.number_ios.is_some();
    if let Some(size) = &options.size
        && !limited
        && !timed
        && parse_bytes(size).is_ok()
    {
        options.io_size = Some(size.clone());
    }
    options.flow(&section.name).map_err(|error| {
        let place = places.iter().rev().find(|(option, _)| *option == error.option);
        let span = place.map_or(section.span.clone(), |(_, span)| span.clone());
        file.error(span, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Arrivals, BlockSize, Mode, Think};

    #[test]
    fn a_job_file_becomes_flows() {
        let text = include_str!("../../../tests/data/two-tenants.fio");
        let job = FioJob::parse("two-tenants.fio", text).unwrap();
        assert_eq!(job.ramp_time, Some(Span::from_ms(2)));
        let [reader, writer] = &job.flows[..] else { panic!("two flows") };
        assert_eq!((reader.name.as_str(), writer.name.as_str()), ("reader", "writer"));
        assert_eq!(reader.depth(), Some(8));
        assert_eq!(reader.schedule.start, Span::from_ms(1));
        assert_eq!(reader.limits.runtime, Some(Span::from_ms(20)));
        assert_eq!(reader.limits.bytes, None, "time_based");
        assert_eq!(writer.jobs, 2);
        let think = Think { time: Span::from_us(500), requests: 32 };
        assert_eq!(writer.schedule.think, Some(think));
        let Source::Synthetic(synthetic) = &writer.source else { panic!("drawn") };
        assert_eq!(synthetic.block, BlockSize::Fixed(32));
        assert_eq!(synthetic.mode, Mode::Closed { depth: 1 });
        let said: Vec<_> = job.warnings.iter().map(|w| w.split(' ').next().unwrap()).collect();
        assert_eq!(said, ["ioengine", "direct"]);
    }

    #[test]
    fn size_is_what_a_job_issues() {
        let text = "[a]\nrw=write\nsize=1m\n";
        let job = FioJob::parse("a.fio", text).unwrap();
        assert_eq!(job.flows[0].limits.bytes, Some(1 << 20));
        let text = "[a]\nrw=write\nsize=1m\nio_size=4m\n";
        let job = FioJob::parse("a.fio", text).unwrap();
        assert_eq!(job.flows[0].limits.bytes, Some(4 << 20));
    }

    #[test]
    fn a_rate_is_kept_to_within_the_depth() {
        let mode = |options: &str| {
            let job = FioJob::parse("a.fio", &format!("[a]\nrw=randread\nruntime=1\n{options}"));
            let job = job.unwrap();
            match &job.flows[0].source {
                Source::Synthetic(synthetic) => (synthetic.mode, job.warnings.len()),
                Source::Trace(_) => panic!("drawn"),
            }
        };
        let open = |depth| Mode::Open {
            arrivals: Arrivals::Fixed { per_second: 500 },
            depth: Some(depth),
        };
        assert_eq!(mode("rate_iops=500\niodepth=8\n"), (open(8), 0));
        assert_eq!(mode("rate_iops=500\n"), (open(1), 0), "fio's default");
        assert_eq!(mode("rate_iops=500\niodepth=8\nioengine=psync\n"), (open(1), 1));
        assert_eq!(mode("iodepth=8\nioengine=sync\n"), (Mode::Closed { depth: 1 }, 1));
        assert_eq!(mode("iodepth=1\nioengine=sync\n"), (Mode::Closed { depth: 1 }, 0));
        assert_eq!(mode("iodepth=8\nioengine=io_uring\n"), (Mode::Closed { depth: 8 }, 1));
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_its_line() {
        for (text, line, said) in [
            ("[a]\nrw=read\nfsync=32\n", 3, "`fsync` is not simulated"),
            ("[a]\nrw=sideways\n", 2, "valid are read"),
            ("rw=read\n", 1, "before the first section"),
            ("[global]\nbs=4k\n", 1, "no jobs"),
            ("[a\n", 1, "a section is written [name]"),
            ("[a]\nbs=4k,8k\n", 2, "the same sizes"),
            ("[a]\nruntime=1\n[a]\nruntime=1\n", 3, "two jobs are called `a`"),
            ("[a]\nramp_time=1\n[b]\nramp_time=2\n", 4, "one for all jobs"),
            ("[a]\nrwmixwrite=200\n", 2, "not a percentage"),
            ("[a]\ntime_based\n", 2, "needs runtime"),
        ] {
            let error = FioJob::parse("a.fio", text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("a.fio:{line}: ")), "{text:?}: {error}");
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
