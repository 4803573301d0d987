//! What flows are to do, for people.

use mynah_drive_file::units::{Bytes, Duration};
use mynah_stamp::Span;
use mynah_workload::{
    Addresses, Amount, Arrivals, BlockSize, Burst, FlowSpec, Limits, Mode, Schedule, Source, Think,
};

/// What a flow is to do, on one line.
pub fn flow_text(flow: &FlowSpec) -> String {
    let mut parts = Vec::new();
    match &flow.source {
        Source::Trace(trace) => {
            parts.push(format!("trace {}", trace.path.display()));
            if trace.speed != 1.0 {
                parts.push(format!("{} times as fast as recorded", trace.speed));
            }
            if let Some(depth) = trace.depth {
                parts.push(format!("as fast as possible, iodepth {depth}"));
            }
        }
        Source::Synthetic(synthetic) => {
            let percent = |share: f64| format!("{}%", (share * 1000.0).round() / 10.0);
            let mix = synthetic.mix;
            let kinds = [("read", mix.read), ("write", mix.write()), ("trim", mix.trim)];
            let kinds = kinds.iter().filter(|(_, share)| *share > 0.0);
            let kinds: Vec<_> =
                kinds.map(|(kind, share)| format!("{} {kind}", percent(*share))).collect();
            parts.push(kinds.join(" "));
            parts.push(addresses_text(&synthetic.addresses));
            parts.push(block_text(&synthetic.block));
            parts.push(mode_text(synthetic.mode));
        }
        Source::Front(flow) => {
            parts.push(flow.told());
            parts.extend(flow.mode().map(mode_text));
        }
        Source::KeyValue(flow) => {
            parts.push(flow.told());
            parts.push(mode_text(flow.mode));
        }
    }
    parts.push(format!("namespace {}", flow.namespace.0));
    if flow.jobs > 1 {
        parts.push(format!("{} jobs", flow.jobs));
    }
    let each = if flow.jobs > 1 { " each" } else { "" };
    let Limits { requests, bytes, runtime, auto } = flow.limits;
    parts.extend(requests.map(|requests| format!("{requests} requests{each}")));
    parts.extend(bytes.map(|amount| match amount {
        Amount::Bytes(bytes) => format!("{}{each}", Bytes(bytes)),
        Amount::WorkingSet(1.0) => format!("its working set once{each}"),
        Amount::WorkingSet(share) => format!("{}% of its working set{each}", share * 100.0),
    }));
    parts.extend(runtime.map(|time: Span| format!("for {}", Duration(time))));
    parts.extend(auto.then(|| "until its figures are known".to_owned()));
    let Schedule { start, burst, think } = flow.schedule;
    if !start.is_zero() {
        parts.push(format!("from {} on", Duration(start)));
    }
    if flow.after_previous {
        parts.push("after the flows before it".to_owned());
    }
    if flow.flush_every > 0 {
        parts.push(match flow.flush_every {
            1 => "a flush after every write".to_owned(),
            every => format!("a flush after every {every} writes"),
        });
    }
    if flow.write_through {
        parts.push("writes through to flash".to_owned());
    }
    if let Some(Burst { on, off }) = burst {
        let [on, off] = [on, off].map(Duration);
        parts.push(format!("{on} on and {off} off by turns"));
    }
    if let Some(Think { time, requests }) = think {
        let time = Duration(time);
        parts.push(format!("a pause of {time} after every {requests} requests"));
    }
    parts.join(", ")
}

fn mode_text(mode: Mode) -> String {
    match mode {
        Mode::Closed { depth } => format!("iodepth {depth}"),
        Mode::Open { arrivals, depth } => {
            let arrive = match arrivals {
                Arrivals::Fixed { per_second } => format!("{per_second} requests/s"),
                Arrivals::Every { interval } => format!("every {}", Duration(interval)),
                Arrivals::Exponential { mean } => format!("every {} on average", Duration(mean)),
            };
            let most = depth.map(|depth| format!(", iodepth {depth} at most"));
            arrive + most.as_deref().unwrap_or_default()
        }
    }
}

fn addresses_text(addresses: &Addresses) -> String {
    match addresses {
        Addresses::Sequential { .. } => "sequential".to_owned(),
        Addresses::Uniform => "random".to_owned(),
        Addresses::Once => "random, each block once".to_owned(),
        Addresses::Mixed { random, .. } => {
            format!("{:.0}% random, the rest sequential", random * 100.0)
        }
        Addresses::HotCold { hot_access, hot_space } => {
            format!("{:.0}% to the first {:.0}%", hot_access * 100.0, hot_space * 100.0)
        }
        Addresses::Zoned(zones) => format!("zones {zones}"),
        Addresses::Zipf { theta } => format!("Zipf {theta}"),
    }
}

fn block_text(block: &BlockSize) -> String {
    let bytes = |sectors: u32| Bytes(u64::from(sectors) * 512);
    match block {
        BlockSize::Fixed(sectors) => bytes(*sectors).to_string(),
        BlockSize::Normal { mean, .. } => format!("{} on average", bytes(*mean as u32)),
        BlockSize::Range { min, max } => format!("{} to {}", bytes(*min), bytes(*max)),
        BlockSize::Split(parts) => {
            let part = |(sectors, share): &(u32, u32)| format!("{} {share}%", bytes(*sectors));
            parts.iter().map(part).collect::<Vec<_>>().join(" ")
        }
        BlockSize::Each(each) => {
            let [reads, writes, trims] = &**each;
            let trims = match trims == writes {
                true => String::new(),
                false => format!(", trims of {}", block_text(trims)),
            };
            format!("reads of {}, writes of {}{trims}", block_text(reads), block_text(writes))
        }
    }
}
