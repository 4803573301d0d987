//! A flow as options: what [`FlowOptions::flow`] reads, written. For flows that came from
//! elsewhere and are to become part of an experiment file.
//!
//! Every value is written so that it is read as the very same; only what differs from the
//! default is written.

use super::key_value::{KeyDefaults, KeySize, KeyValueFlow, ValueSize, list_keys_text};
use super::options::{ACTIONS, KEYS, PORTS, PRIORITIES, RATE_MAX, TICKS};
use super::{
    Addresses, Amount, Arrivals, BlockSize, Burst, Extent, FlowOptions, FlowSpec, FrontCache,
    FrontFlow, Mix, Mode, Positions, SECTOR_BYTES, Source, Start, Synthetic, Think, TraceSource,
};
use crate::placement::{By, PlacementChoice, Select, ids_text};
use crate::quantity::percent;
use crate::trace::{Remap, TraceAction, TraceFormat};
use crate::{Engine, Feed, KeyTraceFormat};
use mynah_model::config::Priority;
use mynah_stamp::Span;

impl FlowOptions {
    /// The options that stand for `flow`; `None` if options cannot say it exactly. A trace's
    /// path is written as it is.
    pub fn of(flow: &FlowSpec) -> Option<FlowOptions> {
        let mut options = match &flow.source {
            Source::Synthetic(synthetic) => drawn(synthetic),
            Source::KeyValue(flow) => key_value(flow),
            Source::Front(flow) => front(flow),
            Source::Trace(trace) => replayed(trace),
        };
        options.name = Some(flow.name.clone());
        options.namespace = unless(flow.namespace.0, 1);
        options.numjobs = unless(flow.jobs, 1);
        if flow.priority != Priority::default() {
            options.priority = named(&PRIORITIES, flow.priority);
        }
        if flow.port > 0 {
            options.port = named(&PORTS, flow.port);
        }
        options.number_ios = flow.limits.requests.map(|requests| requests.to_string());
        options.io_size = flow.limits.bytes.map(|amount| match amount {
            Amount::Bytes(amount) => bytes(amount),
            Amount::WorkingSet(share) => percent(share),
        });
        options.runtime = flow.limits.runtime.map(time);
        if flow.limits.auto {
            options.runtime = Some("auto".to_owned());
        }
        if !flow.schedule.start.is_zero() {
            options.startdelay = Some(time(flow.schedule.start));
        }
        options.wait_for_previous = flow.after_previous.then(|| "true".to_owned());
        options.fsync = (flow.flush_every > 0).then(|| flow.flush_every.to_string());
        options.sync = flow.write_through.then(|| "true".to_owned());
        let turns = |Burst { on, off }| format!("{}/{}", time(on), time(off));
        options.burst = flow.schedule.burst.map(turns);
        if let Some(Think { time: pause, requests }) = flow.schedule.think {
            options.thinktime = Some(time(pause));
            options.thinktime_blocks = unless(requests, 1);
        }
        if let Some(PlacementChoice { ids, select }) = &flow.data_placement {
            options.fdp = Some("true".to_owned());
            options.plids = (!ids.is_empty()).then(|| ids_text(ids));
            options.plid_select = match select {
                Select::RoundRobin => None,
                Select::Random => Some("random".to_owned()),
                Select::Scheme { by: By::Address, .. } => Some("scheme".to_owned()),
                Select::Scheme { by: By::Size, .. } => Some("size".to_owned()),
            };
            if let Select::Scheme { path, .. } = select {
                options.dp_scheme = path.to_str().map(str::to_owned);
            }
        }
        options.randseed = flow.seed.map(|seed| seed.to_string());
        options.occupancy = flow.occupancy.map(percent);
        // Read again, so that nothing is lost in silence.
        let same = options.flow("").is_ok_and(|read| read == *flow);
        same.then_some(options)
    }
}

fn key_value(flow: &KeyValueFlow) -> FlowOptions {
    let mut options = FlowOptions::default();
    let KeyValueFlow { mode, mix, keys, key_size, value_size, choice, misses, list_keys } = flow;
    options.kv = Some(mix.text());
    arriving(&mut options, *mode);
    options.keys = (*keys != KEYS).then(|| keys.to_string());
    options.key_size = (*key_size != KeySize::Fixed(16)).then(|| key_size.text());
    options.value_size = (*value_size != ValueSize::Fixed(4096)).then(|| value_size.text(bytes));
    let defaults = KeyDefaults::default();
    options.key_distribution = (*choice != defaults.choice).then(|| choice.text());
    options.misses = (*misses != defaults.misses).then(|| percent(*misses));
    options.list_keys = (*list_keys != defaults.list_keys).then(|| list_keys_text(*list_keys));
    options
}

fn front(flow: &FrontFlow) -> FlowOptions {
    let FrontCache { engine, ram_bytes, admitted } = flow.cache;
    let mut options = match &flow.feed {
        Feed::Drawn(keys) => key_value(keys),
        Feed::Trace(trace) => {
            let mut options = FlowOptions {
                trace: trace.path.to_str().map(str::to_owned),
                trace_format: named(&KeyTraceFormat::ALL, trace.format),
                trace_token_bytes: Some(bytes(trace.token_bytes)),
                trace_repeat: unless(trace.repeat, 1),
                ..FlowOptions::default()
            };
            match trace.depth {
                Some(depth) => {
                    options.trace_no_stall = Some("true".to_owned());
                    options.iodepth = unless(depth, 1);
                }
                None => options.trace_speed = Some((trace.speed * 100.0).to_string()),
            }
            options
        }
    };
    match engine {
        Engine::CacheLib { small_share, small_max, region_bytes } => {
            options.front = Some("cachelib".to_owned());
            options.front_small = Some(percent(small_share));
            options.front_small_max = Some(bytes(small_max.into()));
            options.front_region = Some(bytes(region_bytes));
        }
        Engine::Objects { chunk_bytes, trims } => {
            options.front = Some("objects".to_owned());
            options.front_region = Some(bytes(chunk_bytes));
            options.front_trim = trims.then(|| "true".to_owned());
        }
    }
    options.front_ram = Some(bytes(ram_bytes));
    options.front_admit = (admitted < 1.0).then(|| percent(admitted));
    let is_drawn = matches!(flow.feed, Feed::Drawn(_));
    options.front_full = (is_drawn && !flow.full).then(|| "false".to_owned());
    options
}

fn drawn(synthetic: &Synthetic) -> FlowOptions {
    let mut options = FlowOptions::default();
    let Synthetic { mode, mix, addresses, block, align_sectors, offset, size } = synthetic;
    let random = !matches!(addresses, Addresses::Sequential { .. });
    let kind = match *mix {
        Mix::READ => "read",
        Mix::WRITE => "write",
        Mix::TRIM => "trim",
        _ => "rw",
    };
    options.rw = Some(if random { format!("rand{kind}") } else { kind.to_owned() });
    if kind == "rw" {
        options.rwmixread = Some(percent(mix.read));
        options.rwmixtrim = (mix.trim > 0.0).then(|| percent(mix.trim));
    }
    arriving(&mut options, *mode);
    match *addresses {
        Addresses::Sequential { start, positions } => {
            options.sequential_start = (start == Start::Random).then(|| "random".to_owned());
            options.sequential_positions =
                (positions == Positions::Shared).then(|| "shared".to_owned());
        }
        Addresses::Mixed { random, turn } => {
            options.percentage_random = Some(percent(random));
            options.random_turn = turn.map(|turn| turn.to_string());
        }
        Addresses::Uniform => {}
        _ => options.random_distribution = Some(distribution(addresses)),
    }
    sized(&mut options, block);
    if *align_sectors != u64::from(block.smallest()) {
        options.blockalign = align_sectors.checked_mul(SECTOR_BYTES).map(bytes);
    }
    options.offset = (*offset != Extent::ZERO).then(|| extent(*offset));
    options.size = (*size != Extent::ALL).then(|| extent(*size));
    options
}

/// How long requests are. What reads, writes and trims have each has to be of one kind.
fn sized(options: &mut FlowOptions, block: &BlockSize) {
    match block {
        BlockSize::Each(each) => {
            let each = each.each_ref().map(|one| {
                let mut options = FlowOptions::default();
                sized(&mut options, one);
                options
            });
            for option in ["bs", "bsrange", "bssplit"] {
                let of: Vec<&str> = each.iter().filter_map(|one| one.get(option)).collect();
                if of.len() == each.len() {
                    options.set(option, of.join(","));
                }
            }
        }
        BlockSize::Fixed(length) => {
            options.bs = Some(sectors(*length));
        }
        BlockSize::Range { min, max } => {
            options.bsrange = Some(format!("{}-{}", sectors(*min), sectors(*max)));
        }
        BlockSize::Split(parts) => {
            let part = |(length, share): &(u32, u32)| format!("{}/{share}", sectors(*length));
            options.bssplit = Some(parts.iter().map(part).collect::<Vec<_>>().join(":"));
        }
        BlockSize::Normal { mean, deviation } => {
            let in_bytes = |sectors: f64| bytes((sectors * SECTOR_BYTES as f64).round() as u64);
            options.bsnormal = Some(format!("{}/{}", in_bytes(*mean), in_bytes(*deviation)));
        }
    }
}

/// Sets the options that stand for `mode`.
fn arriving(options: &mut FlowOptions, mode: Mode) {
    let depth;
    match mode {
        Mode::Closed { depth: outstanding } => depth = unless(outstanding, 1),
        Mode::Open { arrivals, depth: most } => {
            depth = most.map(|most| most.to_string());
            match arrivals {
                Arrivals::Fixed { per_second } => options.rate_iops = Some(per_second.to_string()),
                Arrivals::Every { interval } => options.rate_interval = Some(time(interval)),
                Arrivals::Exponential { mean } => {
                    options.rate_process = Some("poisson".to_owned());
                    let rate = RATE_MAX.checked_div(mean.as_ps()).filter(|rate| *rate > 0);
                    match rate.filter(|rate| RATE_MAX / rate == mean.as_ps()) {
                        Some(rate) => options.rate_iops = Some(rate.to_string()),
                        None => options.rate_interval = Some(time(mean)),
                    }
                }
            }
        }
    }
    options.iodepth = depth;
}

fn replayed(trace: &TraceSource) -> FlowOptions {
    let mut options = FlowOptions::default();
    let TraceSource { path, format, action, tick, speed, depth, writes, remap, share, repeat } =
        trace;
    options.trace = path.to_str().map(str::to_owned);
    options.trace_format = named(&TraceFormat::ALL, *format);
    if let (None, TraceFormat::Columns(columns)) = (&options.trace_format, format) {
        options.trace_columns = Some(columns.to_string());
    }
    if *action != TraceAction::default() {
        options.trace_action = named(&ACTIONS, *action);
    }
    if *tick != format.tick() {
        options.trace_time_unit = named(&TICKS, *tick);
    }
    if *speed != 1.0 {
        options.trace_speed = Some(percent(*speed));
    }
    if let Some(depth) = depth {
        options.trace_no_stall = Some("true".to_owned());
        options.iodepth = unless(*depth, 1);
    }
    options.trace_distribution = writes.as_ref().map(distribution);
    if *remap == Remap::Modulo {
        options.trace_remap = Some("modulo".to_owned());
    }
    if *share != 1.0 {
        options.trace_percent = Some(percent(*share));
    }
    options.trace_repeat = unless(*repeat, 1);
    options
}

/// How addresses are distributed, as `random_distribution` says it.
pub fn distribution(addresses: &Addresses) -> String {
    match addresses {
        Addresses::Zipf { theta } => format!("zipf:{theta}"),
        Addresses::Zoned(zones) => format!("zoned:{zones}"),
        Addresses::HotCold { hot_access, hot_space } => {
            format!("hotcold:{}/{}", percent(*hot_access), percent(*hot_space))
        }
        Addresses::Once => "once".to_owned(),
        _ => "random".to_owned(),
    }
}

/// `value`, unless it is the default.
fn unless(value: u32, default: u32) -> Option<String> {
    (value != default).then(|| value.to_string())
}

fn named<T: Copy + PartialEq>(choices: &[(&str, T)], value: T) -> Option<String> {
    choices.iter().find(|(_, choice)| *choice == value).map(|&(name, _)| name.to_owned())
}

/// `value` in the largest of `units` that holds a whole number of it.
fn whole(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, factor): &&(&str, u64)| value != 0 && value.is_multiple_of(*factor);
    let (name, factor) = units.iter().find(fits).copied().unwrap_or(("", 1));
    format!("{}{name}", value / factor)
}

fn bytes(value: u64) -> String {
    whole(value, &[("t", 1 << 40), ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)])
}

fn sectors(length: u32) -> String {
    bytes(u64::from(length) * SECTOR_BYTES)
}

fn time(value: Span) -> String {
    let units = [
        ("s", 1_000_000_000_000),
        ("ms", 1_000_000_000),
        ("us", 1_000_000),
        ("ns", 1000),
        ("ps", 1),
    ];
    match value {
        Span::ZERO => "0s".to_owned(),
        value => whole(value.as_ps(), &units),
    }
}

fn extent(value: Extent) -> String {
    match value {
        Extent::Bytes(value) => bytes(value),
        Extent::Share(share) => percent(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow(options: &str) -> FlowSpec {
        let mut read = FlowOptions::default();
        for word in options.split(' ') {
            let (option, value) = word.split_once('=').unwrap();
            assert!(read.set(option, value), "{option}");
        }
        read.flow("it").unwrap()
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for options in [
            "rw=read runtime=3ms",
            "rw=read size=64m runtime=auto",
            "rw=randrw rwmixread=70 rwmixtrim=7 bs=16k iodepth=32 number_ios=5 namespace=2",
            "rw=rw sequential_start=random sequential_positions=shared io_size=3g",
            "rw=write size=64m wait_for_previous=true",
            "rw=write size=64m io_size=12.5% offset=10%",
            "rw=trim bsrange=4k-64k blockalign=8k numjobs=3 io_size=513",
            "rw=randwrite bssplit=4k/60:512/40 random_distribution=zipf:1.17 runtime=1",
            "rw=randread bsnormal=4097/1000 random_distribution=hotcold:90/33.3 runtime=1",
            "rw=randread percentage_random=12.34 random_turn=100 runtime=1",
            "rw=randread rate_iops=3 iodepth=7 runtime=1 burst=10ms/0s startdelay=1ps",
            "rw=randread rate_iops=70000 rate_process=poisson runtime=1",
            "rw=randread rate_interval=333333333ns rate_process=poisson runtime=1",
            "rw=randread rate_interval=35us runtime=1",
            "rw=randread thinktime=5us thinktime_blocks=9 runtime=1 offset=10% size=512",
            "rw=randread runtime=1 priority=urgent occupancy=75 randseed=18446744073709551609",
            "kv=retrieve runtime=1",
            "kv=ycsb-a keys=2600000 key_size=20 value_size=1k iodepth=64 number_ios=100",
            "kv=ycsb-d keys=10k runtime=auto numjobs=4",
            "kv=ycsb-e list_keys=10-20 runtime=1 rate_iops=1000 iodepth=7",
            "kv=retrieve=90,exist=5,delete=2.5,store=2.5 key_size=8-32 misses=12.5% runtime=1",
            "kv=store keys=77 key_distribution=sequential value_size=512/60:4k/40",
            "kv=list=50,read-modify-write=50 value_size=normal:4k/1k list_keys=7 runtime=1",
            "kv=retrieve-miss value_size=zipf:0.99/16-64k key_distribution=zipf:1.2 runtime=1",
            "trace=b.csv trace_columns=time:ns,-,op:0=write,offset:4096,size:sectors,*",
            "trace=c.csv trace_format=systor17 trace_speed=250",
            "trace=a.csv trace_format=msr trace_speed=250 trace_percent=9 trace_repeat=2",
            "trace=a trace_format=blkparse trace_action=Q trace_no_stall=true iodepth=9",
            "trace=a trace_time_unit=us trace_remap=modulo trace_distribution=zipf:0.9",
        ] {
            let spec = flow(options);
            let written = FlowOptions::of(&spec).unwrap_or_else(|| panic!("{options}"));
            assert_eq!(written.flow("another").unwrap(), spec, "{options}");
        }
        let whole = flow("rw=randread runtime=1");
        let written = FlowOptions::of(&whole).unwrap();
        let given = FlowOptions::NAMES.iter().filter(|name| written.get(name).is_some());
        assert_eq!(given.collect::<Vec<_>>(), [&"name", &"rw", &"bs", &"runtime"]);
    }

    #[test]
    fn what_options_cannot_say_is_not_written() {
        let mut spec = flow("rw=randread runtime=1");
        let Source::Synthetic(synthetic) = &mut spec.source else { panic!("drawn") };
        synthetic.block = BlockSize::Normal { mean: 0.3, deviation: 0.0 };
        assert_eq!(FlowOptions::of(&spec), None);
    }

    proptest! {
        #[test]
        fn shares_are_exact(share in 0.0f64..=1.0) {
            let text = percent(share);
            prop_assert_eq!(crate::quantity::parse_share(&text), Ok(share), "{}", text);
        }

        #[test]
        fn times_and_sizes_are_exact(value: u64) {
            let read = crate::quantity::parse_time(&time(Span::from_ps(value)));
            prop_assert_eq!(read, Ok(Span::from_ps(value)));
            prop_assert_eq!(crate::quantity::parse_bytes(&bytes(value), 1024), Ok(value));
        }
    }
}
