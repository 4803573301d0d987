//! A flow as people write it: fio's option names, values with units. The command line and
//! experiment files share this, so that names, defaults and messages are the same in both.
//!
//! An option that would change nothing is refused rather than ignored.

mod declared;
mod front;
mod placement;

use super::key_value::{
    KeyAction, KeyChoice, KeyMix, KeySize, KeyValueFlow, ValueSize, count, list_keys,
};
use super::{
    Addresses, Amount, Arrivals, BlockSize, Burst, Extent, FlowSpec, Limits, Mix, Mode, Positions,
    SECTOR_BYTES, Schedule, Source, Start, Synthetic, Think, Zones,
};
use crate::TraceSource;
use crate::quantity::{KB_BASE, parse_bytes, parse_count, parse_multiple, parse_share, parse_time};
use crate::trace::{Columns, Remap, TraceAction, TraceFormat};
use mynah_drive_file::nearest;
use mynah_model::config::Priority;
use mynah_model::io::NamespaceId;
use mynah_stamp::Span;
use std::path::PathBuf;

pub use declared::{FlowOption, FlowOptions, Kind};

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} = {value}: {problem}")]
pub struct OptionError {
    /// Name of the option.
    pub option: &'static str,
    /// The value, as it was written.
    pub value: String,
    /// What is wrong, and what is valid.
    pub problem: String,
}

/// The highest rate of requests: one in each picosecond.
pub(super) const RATE_MAX: u64 = 1_000_000_000_000;

/// Ports, by what people call them.
pub(super) const PORTS: [(&str, u8); 2] = [("1", 1), ("2", 2)];

pub(super) const PRIORITIES: [(&str, Priority); 4] = [
    ("urgent", Priority::Urgent),
    ("high", Priority::High),
    ("medium", Priority::Medium),
    ("low", Priority::Low),
];
pub(super) const ACTIONS: [(&str, TraceAction); 3] =
    [("D", TraceAction::Issued), ("Q", TraceAction::Queued), ("C", TraceAction::Completed)];
pub(super) const TICKS: [(&str, Span); 5] = [
    ("ps", Span::from_ps(1)),
    ("ns", Span::from_ns(1)),
    ("us", Span::from_us(1)),
    ("ms", Span::from_ms(1)),
    ("s", Span::from_secs(1)),
];
const STARTS: [(&str, Start); 2] = [("beginning", Start::Beginning), ("random", Start::Random)];
const POSITIONS: [(&str, Positions); 2] =
    [("each", Positions::EachOperation), ("shared", Positions::Shared)];

/// Keys of a flow that does not say how many it has.
pub(super) const KEYS: u64 = 100_000;
/// The options that only flows of a kind have.
fn of_kind(kind: Kind) -> impl Iterator<Item = &'static str> {
    FlowOptions::DECLARED.iter().filter(move |it| it.kind == kind).map(|it| it.name)
}

/// What the value of `rw` says of a flow's accesses.
struct Access {
    random: bool,
    mix: Option<Mix>,
}

impl FlowOptions {
    /// The flow these options stand for, called `default_name` unless they say otherwise.
    pub fn flow(&self, default_name: &str) -> Result<FlowSpec, OptionError> {
        let source = match (&self.kv, &self.trace) {
            _ if self.front.is_some() => Source::Front(self.front()?),
            (Some(mix), _) => Source::KeyValue(self.key_value(mix)?),
            (None, Some(path)) => Source::Trace(self.trace_source(path)?),
            (None, None) => Source::Synthetic(self.synthetic()?),
        };
        if self.front.is_none() {
            self.refuse_front()?;
        }
        if self.kv.is_none() {
            for option in of_kind(Kind::Keys) {
                self.refuse(option, "without kv there are no keys, so this has no effect")?;
            }
        }
        if self.flag("time_based")? && self.runtime.is_none() {
            return Err(self.error("time_based", "it needs runtime, the time to run"));
        }
        const SIZES: [&str; 9] = [
            "bs",
            "bsrange",
            "bssplit",
            "bsnormal",
            "blockalign",
            "offset",
            "size",
            "io_size",
            "value_size",
        ];
        if SIZES.iter().all(|name| self.get(name).is_none()) {
            self.refuse("kb_base", "no size is given, so this has no effect")?;
        }
        Ok(FlowSpec {
            name: self.name.clone().unwrap_or_else(|| default_name.to_owned()),
            namespace: NamespaceId(self.positive("namespace", 1, u32::MAX)?),
            priority: self.choice("priority", &PRIORITIES)?.unwrap_or_default(),
            port: self.choice("port", &PORTS)?.unwrap_or_default(),
            jobs: match self.positive("numjobs", 1, 65_535)? {
                jobs if jobs > 1 && self.front.is_some() => {
                    let problem = "a cache in front is one job; iodepth says how many of its \
                                   requests are outstanding";
                    return Err(self.error("numjobs", problem));
                }
                jobs => jobs,
            },
            limits: self.limits()?,
            schedule: self.schedule()?,
            after_previous: self.flag("wait_for_previous")?,
            flush_every: self.flush_every(&source)?,
            write_through: self.write_through(&source)?,
            data_placement: self.data_placement(&source)?,
            seed: self.read("randseed", parse_count)?,
            occupancy: self.read("occupancy", parse_share)?,
            source,
        })
    }

    /// After how many writes there is a flush; 0 for none.
    fn flush_every(&self, source: &Source) -> Result<u64, OptionError> {
        let every = self.read("fsync", parse_count)?.unwrap_or(0);
        match (every > 0).then_some(source) {
            Some(Source::Trace(_)) => {
                Err(self.error("fsync", "a trace has its own flushes, so this has no effect"))
            }
            Some(source) if !source.writes() => {
                Err(self.error("fsync", "nothing is written, so this has no effect"))
            }
            _ => Ok(every),
        }
    }

    /// Whether writes are done only when they are on flash.
    fn write_through(&self, source: &Source) -> Result<bool, OptionError> {
        let through = self.flag("sync")?;
        match through.then_some(source) {
            Some(Source::Trace(_)) => Err(self.error(
                "sync",
                "a trace says itself which writes are synchronous, so this has no effect",
            )),
            Some(Source::KeyValue(_)) => {
                Err(self.error("sync", "key-value commands have no Force Unit Access"))
            }
            Some(source) if !source.writes() => {
                Err(self.error("sync", "nothing is written, so this has no effect"))
            }
            _ => Ok(through),
        }
    }

    fn limits(&self) -> Result<Limits, OptionError> {
        let bytes = self.read("io_size", |text| match text.ends_with('%') {
            true => match parse_multiple(text)? {
                0.0 => Err("it is more than 0".into()),
                share => Ok(Amount::WorkingSet(share)),
            },
            false => positive(|text| self.bytes(text))(text).map(Amount::Bytes),
        })?;
        let auto = self.runtime.as_deref() == Some("auto");
        if auto {
            const HELP: &str =
                "the flow ends when its figures are known; leave out runtime=auto, or";
            if self.trace.is_some() {
                return Err(
                    self.error("runtime", format!("{HELP} replay no trace, which has an end"))
                );
            }
            for other in ["number_ios", "io_size"] {
                if self.get(other).is_some() {
                    return Err(self.error("runtime", format!("{HELP} {other}")));
                }
            }
        }
        // What fio's size is, too, where nothing else ends a job.
        let once = self.size.is_some() && !self.is_limited();
        Ok(Limits {
            requests: self.read("number_ios", positive(parse_count))?,
            bytes: bytes.or(once.then_some(Amount::WorkingSet(1.0))),
            runtime: self
                .read("runtime", |text| match text {
                    "auto" => Ok(None),
                    _ => match parse_time(text) {
                        Ok(Span::ZERO) => {
                            Err("a flow that runs for no time has no requests".into())
                        }
                        Ok(runtime) => Ok(Some(runtime)),
                        Err(problem) => Err(problem),
                    },
                })?
                .flatten(),
            auto,
        })
    }

    /// Whether an option beside `size` says when the flow ends.
    pub fn is_limited(&self) -> bool {
        self.io_size.is_some() || self.number_ios.is_some() || self.runtime.is_some()
    }

    fn schedule(&self) -> Result<Schedule, OptionError> {
        let rate = self.rate_iops.is_some() || self.rate_interval.is_some();
        let open = rate || self.trace.is_some() && !self.flag("trace_no_stall")?;
        if open {
            for option in ["thinktime", "thinktime_blocks"] {
                self.refuse(option, "requests arrive at their times, so this has no effect")?;
            }
        }
        if self.trace.is_some() && open {
            self.refuse("burst", "the trace says when requests arrive, so this has no effect")?;
        }
        if self.thinktime.is_none() {
            self.refuse("thinktime_blocks", "without thinktime this has no effect")?;
        }
        let think = self.read("thinktime", |text| match parse_time(text)? {
            Span::ZERO => Err("a pause takes some time".into()),
            time => Ok(time),
        })?;
        let requests = self.positive("thinktime_blocks", 1, u32::MAX)?;
        Ok(Schedule {
            start: self.read("startdelay", parse_time)?.unwrap_or_default(),
            burst: self.read("burst", |text| {
                let (on, off) =
                    text.split_once('/').ok_or("write ON/OFF, two times, as in 10ms/90ms")?;
                match (parse_time(on)?, parse_time(off)?) {
                    (Span::ZERO, _) => Err("a flow that is never on has no requests".into()),
                    (on, off) => Ok(Burst { on, off }),
                }
            })?,
            think: think.map(|time| Think { time, requests }),
        })
    }

    fn trace_source(&self, path: &str) -> Result<TraceSource, OptionError> {
        // Traces are cut short by `io_size`, and `occupancy` is of the drive.
        let acts = |option: &&str| !["io_size", "occupancy"].contains(option);
        let drawn = of_kind(Kind::Blocks).filter(acts);
        for option in drawn.chain(["rate_iops", "rate_interval", "rate_process"]) {
            self.refuse(option, "the trace says what is done, so this has no effect")?;
        }
        let format = self.choice("trace_format", &TraceFormat::ALL)?.unwrap_or_default();
        let format = match self.read("trace_columns", Columns::parse)? {
            Some(columns) => {
                self.refuse("trace_format", "trace_columns says what the columns are")?;
                TraceFormat::Columns(columns)
            }
            None => format,
        };
        if format != TraceFormat::Blkparse {
            self.refuse("trace_action", "only blkparse traces have actions")?;
        }
        if !matches!(format, TraceFormat::Mqsim | TraceFormat::Msr) {
            self.refuse("trace_time_unit", "the format says what its times are")?;
        }
        let depth = match self.flag("trace_no_stall")? {
            true => {
                for option in ["trace_speed", "trace_time_unit"] {
                    self.refuse(option, "the trace's times do not count, so this has no effect")?;
                }
                Some(self.positive("iodepth", 1, 65_535)?)
            }
            false => {
                self.refuse(
                    "iodepth",
                    "the trace says when requests arrive, so this has no effect; trace_no_stall \
                     replays it as fast as possible",
                )?;
                None
            }
        };
        Ok(TraceSource {
            path: PathBuf::from(path),
            format,
            action: self.choice("trace_action", &ACTIONS)?.unwrap_or_default(),
            speed: self.read("trace_speed", speed)?.unwrap_or(1.0),
            depth,
            writes: self.distribution("trace_distribution")?,
            tick: self.choice("trace_time_unit", &TICKS)?.unwrap_or(format.tick()),
            remap: self
                .choice("trace_remap", &[("none", Remap::Refuse), ("modulo", Remap::Modulo)])?
                .unwrap_or_default(),
            share: self.read("trace_percent", parse_share)?.unwrap_or(1.0),
            repeat: self.positive("trace_repeat", 1, u32::MAX)?,
        })
    }

    fn key_value(&self, mix: &str) -> Result<KeyValueFlow, OptionError> {
        // What a cache in front writes is blocks.
        let not_of_front =
            |option: &&str| self.front.is_none() || !["io_size", "occupancy"].contains(option);
        let blocks = of_kind(Kind::Blocks).filter(not_of_front);
        for option in blocks.chain(of_kind(Kind::Traces)) {
            self.refuse(
                option,
                "it is about blocks, so a key-value flow (kv) does not have it; keys, key_size, \
                 value_size and key_distribution say what that does",
            )?;
        }
        let (mix, defaults) = KeyMix::parse(mix).map_err(|problem| self.error("kv", problem))?;
        let share = |action: KeyAction| mix.share(action);
        if mix.only_stores() {
            let choice = self.read("key_distribution", KeyChoice::parse)?;
            if matches!(choice, Some(KeyChoice::Zipf { .. } | KeyChoice::Latest { .. })) {
                let problem = "each key is stored once: valid are uniform and sequential";
                return Err(self.error("key_distribution", problem));
            }
        }
        if share(KeyAction::List) == 0.0 {
            self.refuse("list_keys", "nothing is listed, so this has no effect")?;
        }
        let can_miss = [KeyAction::Retrieve, KeyAction::Exist, KeyAction::Delete];
        if !can_miss.into_iter().any(|action| share(action) > 0.0) {
            self.refuse("misses", "no command of this mix can miss, so this has no effect")?;
        }
        let flow = KeyValueFlow {
            mode: self.mode()?,
            mix,
            keys: self.read("keys", count)?.unwrap_or(KEYS),
            key_size: self.read("key_size", KeySize::parse)?.unwrap_or(KeySize::Fixed(16)),
            value_size: self
                .read("value_size", |text| ValueSize::parse(text, |text| self.bytes(text)))?
                .unwrap_or(ValueSize::Fixed(4096)),
            choice: self.read("key_distribution", KeyChoice::parse)?.unwrap_or(defaults.choice),
            misses: self.read("misses", parse_share)?.unwrap_or(defaults.misses),
            list_keys: self.read("list_keys", list_keys)?.unwrap_or(defaults.list_keys),
        };
        match flow.problem() {
            None => Ok(flow),
            Some(problem) => Err(self.error(if flow.keys > 1 { "keys" } else { "kv" }, problem)),
        }
    }

    fn synthetic(&self) -> Result<Synthetic, OptionError> {
        for option in of_kind(Kind::Traces) {
            self.refuse(option, "there is no trace, so this has no effect")?;
        }
        let access = self
            .choice(
                "rw",
                &[
                    ("read", (false, Some(Mix::READ))),
                    ("write", (false, Some(Mix::WRITE))),
                    ("randread", (true, Some(Mix::READ))),
                    ("randwrite", (true, Some(Mix::WRITE))),
                    ("rw", (false, None)),
                    ("readwrite", (false, None)),
                    ("randrw", (true, None)),
                    ("trim", (false, Some(Mix::TRIM))),
                    ("randtrim", (true, Some(Mix::TRIM))),
                ],
            )?
            .unwrap_or((false, Some(Mix::READ)));
        let access = Access { random: access.0, mix: access.1 };
        let block = self.block(&access)?;
        let align = self.read("blockalign", |text| self.sectors(text))?;
        let align = align.unwrap_or(block.smallest());
        Ok(Synthetic {
            mode: self.mode()?,
            mix: self.mix(&access)?,
            addresses: self.addresses(&access)?,
            block,
            align_sectors: u64::from(align),
            offset: self.read("offset", |text| self.extent(text))?.unwrap_or(Extent::ZERO),
            size: self
                .read("size", |text| match self.whole_extent(text)? {
                    Extent::Bytes(0) => Err("the working set would be empty".into()),
                    Extent::Share(0.0) => Err("the working set would be empty".into()),
                    size => Ok(size),
                })?
                .unwrap_or(Extent::ALL),
        })
    }

    fn mode(&self) -> Result<Mode, OptionError> {
        if self.rate_iops.is_none() && self.rate_interval.is_none() {
            self.refuse("rate_process", "without rate_iops or rate_interval this has no effect")?;
            return Ok(Mode::Closed { depth: self.positive("iodepth", 1, 65_535)? });
        }
        if self.rate_iops.is_some() {
            self.refuse("rate_interval", "rate_iops already says how often requests arrive")?;
        }
        let per_second = self.read("rate_iops", |text| match positive(parse_count)(text)? {
            rate if rate <= RATE_MAX => Ok(rate),
            _ => Err(format!("at most {RATE_MAX}: time is counted in picoseconds")),
        })?;
        let interval = self.read("rate_interval", |text| match parse_time(text)? {
            Span::ZERO => Err("requests are some time apart".into()),
            interval => Ok(interval),
        })?;
        let poisson = self.choice("rate_process", &[("linear", false), ("poisson", true)])?;
        let arrivals = match (poisson.unwrap_or(false), per_second, interval) {
            (false, Some(per_second), _) => Arrivals::Fixed { per_second },
            (true, Some(rate), _) => Arrivals::Exponential { mean: Span::from_ps(RATE_MAX / rate) },
            (false, None, interval) => Arrivals::Every { interval: interval.unwrap_or_default() },
            (true, None, mean) => Arrivals::Exponential { mean: mean.unwrap_or_default() },
        };
        let depth = match self.iodepth {
            Some(_) => Some(self.positive("iodepth", 1, 65_535)?),
            None => None,
        };
        Ok(Mode::Open { arrivals, depth })
    }

    fn mix(&self, access: &Access) -> Result<Mix, OptionError> {
        if let Some(mix) = access.mix {
            for option in ["rwmixread", "rwmixtrim"] {
                self.refuse(option, "only rw and randrw are mixed, so this has no effect")?;
            }
            return Ok(mix);
        }
        let trim = self.read("rwmixtrim", parse_share)?.unwrap_or(0.0);
        let read = self.read("rwmixread", parse_share)?.unwrap_or(0.5 * (1.0 - trim));
        if read + trim > 1.0 + 1e-9 {
            return Err(self.error("rwmixtrim", "rwmixread and rwmixtrim together pass 100 %"));
        }
        Ok(Mix { read, trim })
    }

    fn addresses(&self, access: &Access) -> Result<Addresses, OptionError> {
        const OPTION: &str = "random_distribution";
        if !access.random {
            for option in ["percentage_random", "random_turn"] {
                self.refuse(option, "addresses are sequential, so this has no effect")?;
            }
            self.refuse(
                OPTION,
                "addresses are sequential, so this has no effect; randread, randwrite, randrw \
                 and randtrim have random ones",
            )?;
            if access.mix.is_some() {
                self.refuse(
                    "sequential_positions",
                    "all requests are of one kind, so this has no effect",
                )?;
            }
            let start = self.choice("sequential_start", &STARTS)?;
            let positions = self.choice("sequential_positions", &POSITIONS)?;
            return Ok(Addresses::Sequential {
                start: start.unwrap_or(Start::Beginning),
                positions: positions.unwrap_or(Positions::EachOperation),
            });
        }
        for option in ["sequential_start", "sequential_positions"] {
            self.refuse(option, "addresses are random, so this has no effect")?;
        }
        let Some(random) = self.read("percentage_random", parse_share)? else {
            self.refuse("random_turn", "without percentage_random this has no effect")?;
            return Ok(self.distribution(OPTION)?.unwrap_or(Addresses::Uniform));
        };
        self.refuse(OPTION, "with percentage_random the random requests go anywhere")?;
        let turn = self.read("random_turn", positive(parse_count))?;
        Ok(Addresses::Mixed { random, turn })
    }

    /// A distribution of addresses.
    fn distribution(&self, option: &'static str) -> Result<Option<Addresses>, OptionError> {
        self.read(option, |text| {
            let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
            match (kind, rest) {
                ("random", "") => Ok(Addresses::Uniform),
                ("once", "") => Ok(Addresses::Once),
                ("zipf", theta) => match theta.parse() {
                    Ok(theta) if (0.01..=10.0).contains(&theta) => Ok(Addresses::Zipf { theta }),
                    _ => {
                        Err("the exponent of zipf is a number from 0.01 to 10, as in zipf:1.1"
                            .into())
                    }
                },
                ("hotcold", shares) => {
                    let (access, space) = shares
                        .split_once('/')
                        .ok_or("hotcold takes two percentages, as in hotcold:90/10")?;
                    let (hot_access, hot_space) = (parse_share(access)?, parse_share(space)?);
                    if hot_space <= 0.0 || hot_space >= 1.0 {
                        return Err("the hot part takes more than 0 and less than 100 % of the \
                                    space"
                            .into());
                    }
                    Ok(Addresses::HotCold { hot_access, hot_space })
                }
                ("zoned", parts) => Zones::parse(parts).map(Addresses::Zoned),
                _ => Err("valid are random, once, zipf:THETA, hotcold:ACCESS/SPACE and \
                          zoned:ACCESS/SPACE:ACCESS/SPACE…"
                    .into()),
            }
        })
    }

    fn block(&self, access: &Access) -> Result<BlockSize, OptionError> {
        let given: Vec<&'static str> = ["bs", "bsrange", "bssplit", "bsnormal"]
            .into_iter()
            .filter(|option| self.get(option).is_some())
            .collect();
        if let [first, second, ..] = given[..] {
            return Err(self.error(second, format!("{first} already says the block size")));
        }
        if let Some(range) = self.each(access, "bsrange", |text| {
            let (min, max) =
                text.split_once('-').ok_or("a range is written MIN-MAX, as in 4k-64k")?;
            let (min, max) = (self.sectors(min)?, self.sectors(max)?);
            if max < min || max % min != 0 {
                return Err("the longest size is a multiple of the shortest one".into());
            }
            Ok(BlockSize::Range { min, max })
        })? {
            return Ok(range);
        }
        if let Some(split) = self.each(access, "bssplit", |text| {
            let mut parts = Vec::new();
            for part in text.split(':') {
                let (size, percent) = part.split_once('/').ok_or(
                    "sizes are written SIZE/PERCENT with colons between, as in 4k/60:64k/40",
                )?;
                let percent = parse_count(percent.trim_end_matches('%'))?;
                parts.push((self.sectors(size)?, u32::try_from(percent).unwrap_or(u32::MAX)));
            }
            match parts.iter().map(|&(_, percent)| u64::from(percent)).sum::<u64>() {
                100 => Ok(BlockSize::Split(parts)),
                total => Err(format!("the percentages add up to {total}, not 100")),
            }
        })? {
            return Ok(split);
        }
        if let Some(normal) = self.read("bsnormal", |text| {
            let (mean, deviation) = text
                .split_once('/')
                .ok_or("mean and standard deviation are written MEAN/DEVIATION, as in 16k/4k")?;
            let in_sectors = |text| Ok::<_, String>(self.bytes(text)? as f64 / SECTOR_BYTES as f64);
            let (mean, deviation) = (in_sectors(mean)?, in_sectors(deviation)?);
            if mean <= 0.0 {
                return Err("the mean is more than 0".into());
            }
            Ok(BlockSize::Normal { mean, deviation })
        })? {
            return Ok(normal);
        }
        let fixed = self.each(access, "bs", |text| self.sectors(text).map(BlockSize::Fixed))?;
        Ok(fixed.unwrap_or(BlockSize::Fixed(8)))
    }

    /// Sizes of all requests, or after commas those of reads, writes and trims, where a flow has
    /// several of them.
    fn each(
        &self,
        access: &Access,
        option: &'static str,
        parse: impl Fn(&str) -> Result<BlockSize, String>,
    ) -> Result<Option<BlockSize>, OptionError> {
        self.read(option, |text| {
            let parts: Vec<&str> = text.split(',').map(str::trim).collect();
            let of = |kind: usize| parse(parts.get(kind).unwrap_or(&parts[parts.len() - 1]));
            match (parts.len(), access.mix) {
                (1, _) => parse(text),
                (2 | 3, None) => {
                    let each = [of(0)?, of(1)?, of(2)?];
                    match each[0] == each[1] && each[1] == each[2] {
                        true => Ok(each[0].clone()),
                        false => Ok(BlockSize::Each(Box::new(each))),
                    }
                }
                (2 | 3, Some(_)) => {
                    Err("requests are of one kind here, and have one value: rw and \
                                         randrw have several"
                        .into())
                }
                _ => Err("one value each for reads, writes and trims, at most".into()),
            }
        })
    }

    /// The value of `option` as `parse` reads it.
    fn read<T>(
        &self,
        option: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, OptionError> {
        let Some(value) = self.get(option) else { return Ok(None) };
        parse(value.trim()).map(Some).map_err(|problem| self.error(option, problem))
    }

    /// Bytes, in the units that `kb_base` says.
    fn bytes(&self, text: &str) -> Result<u64, String> {
        let base = match self.kb_base.as_deref().map(str::trim) {
            None => KB_BASE,
            Some("1024") => 1024,
            Some("1000") => 1000,
            Some(other) => return Err(format!("kb_base is 1024 or 1000, not `{other}`")),
        };
        parse_bytes(text, base)
    }

    /// A length in bytes as sectors.
    fn sectors(&self, text: &str) -> Result<u32, String> {
        let bytes = self.bytes(text)?;
        if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(format!("{bytes} bytes is not a multiple of {SECTOR_BYTES} above 0"));
        }
        u32::try_from(bytes / SECTOR_BYTES).map_err(|_| format!("{bytes} bytes is too large"))
    }

    /// Bytes, or a percentage of the namespace.
    fn extent(&self, text: &str) -> Result<Extent, String> {
        if text.ends_with('%') {
            return Ok(Extent::Share(parse_share(text)?));
        }
        let bytes = self.bytes(text)?;
        if !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(format!("{bytes} bytes is not a multiple of {SECTOR_BYTES}"));
        }
        Ok(Extent::Bytes(bytes))
    }

    /// The same, as far as it is whole sectors: what is left at the end holds no block.
    fn whole_extent(&self, text: &str) -> Result<Extent, String> {
        match text.ends_with('%') {
            true => self.extent(text),
            false => Ok(Extent::Bytes(self.bytes(text)? / SECTOR_BYTES * SECTOR_BYTES)),
        }
    }

    fn positive(&self, option: &'static str, default: u32, max: u32) -> Result<u32, OptionError> {
        let read = self.read(option, |text| match parse_count(text)? {
            count if (1..=u64::from(max)).contains(&count) => Ok(count as u32),
            _ => Err(format!("valid are 1 to {max}")),
        })?;
        Ok(read.unwrap_or(default))
    }

    fn choice<T: Copy>(
        &self,
        option: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, OptionError> {
        self.read(option, |text| {
            let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            found.map(|&(_, value)| value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
                match nearest(text, &names) {
                    Some(near) => format!("did you mean `{near}`? Valid are {}", names.join(", ")),
                    None => format!("valid are {}", names.join(", ")),
                }
            })
        })
    }

    fn flag(&self, option: &'static str) -> Result<bool, OptionError> {
        let read = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err("valid are true, false, 1 and 0".to_owned()),
        };
        Ok(self.read(option, read)?.unwrap_or(false))
    }

    /// An error if `option` was given.
    fn refuse(&self, option: &'static str, why: &str) -> Result<(), OptionError> {
        if self.get(option).is_some() { Err(self.error(option, why)) } else { Ok(()) }
    }

    fn error(&self, option: &'static str, problem: impl Into<String>) -> OptionError {
        let value = self.get(option).unwrap_or_default().to_owned();
        OptionError { option, value, problem: problem.into() }
    }
}

/// A percentage of the recorded speed.
fn speed(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 1e9 => Ok(percent / 100.0),
        _ => Err("a percentage above 0 belongs here, such as 200".into()),
    }
}

/// Wraps `parse`, and refuses 0.
fn positive(parse: impl Fn(&str) -> Result<u64, String>) -> impl Fn(&str) -> Result<u64, String> {
    move |text| match parse(text)? {
        0 => Err("it is at least 1".into()),
        count => Ok(count),
    }
}
