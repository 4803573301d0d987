//! The summary of a run for people, in the manner of fio: what was asked, what every flow got, what
//! the drive did, where the time went, and who delayed whom. At most 100 columns wide, a unit on
//! every number. The short one is what most runs need to know, on one screen.

use mynah_result::{
    BlameEntry, Device, Flow, Guest, Host, KeyValueCounts, Latency, PathCredit, Precision, Result,
    Settling, Side, StageTime, Steadiness, Verdict,
};
use mynah_stamp::Stage;
use std::fmt::Write;

mod distribution;
pub(crate) mod placement;
mod short;
mod slc;
pub(crate) mod slow;

use mynah_result::figures::{bandwidth, bar, bytes, count, duration, if_known, named, percent};

/// The longest name of a flow in a sentence.
const NAME: usize = 28;
/// What others hold is named from this part of a flow's waiting.
const NEIGHBOURS_PART: f64 = 0.1;
/// Holders with a smaller part of a resource's waiting are left out.
const SHOWN_PART: f64 = 0.005;
/// A flow this many times slower than alone has a noisy neighbour.
const MUCH_SLOWER: f64 = 1.5;
/// Stages with a smaller part of both the mean and the slowest are left out of an explanation.
const EXPLAINED_PART: f64 = 0.01;
/// Every kind of command gets its own breakdown, unless there are more kinds than this.
const BREAKDOWNS: usize = 6;

/// How much of a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One screen: the verdict, the latencies, the stages that matter, the one sentence of blame.
    Short,
    /// All stages, waits and devices, the slowest I/Os, and the distribution of latencies.
    Full,
}

/// The short summary of one run.
pub fn text(result: &Result) -> String {
    detailed(result, &[], Detail::Short)
}

/// The summary of one run. `asked` says of flows by their names what they were to do.
pub fn detailed(result: &Result, asked: &[(String, String)], detail: Detail) -> String {
    let mut out = String::new();
    let written = match detail {
        Detail::Short => short::write(&mut out, result, asked),
        Detail::Full => write(&mut out, result, asked),
    };
    written.expect("a string takes everything");
    out
}

fn write(out: &mut String, result: &Result, asked: &[(String, String)]) -> std::fmt::Result {
    write_head(out, result, asked)?;
    if let Some(device) = &result.device {
        write_device(out, result, device)?;
    }
    write_real_time(out, result)?;
    distribution::write(out, result)?;
    write_breakdowns(out, result)?;
    write_blame(out, result)?;
    slow::write(out, result)?;
    write_foot(out, result)
}

/// The verdicts that come first, and what every flow got.
fn write_head(out: &mut String, result: &Result, asked: &[(String, String)]) -> std::fmt::Result {
    for failure in &result.failures {
        writeln!(out, "FAILED: {failure}\n")?;
    }
    if let Some(reason) = &result.untrusted {
        writeln!(out, "NOT TRUSTWORTHY: {reason}\n")?;
    }
    if let Some(judged) = &result.steadiness
        && judged.verdict == Verdict::NotSteady
    {
        writeln!(out, "NOT STEADY YET: {}\n", judged.reason.as_deref().unwrap_or_default())?;
    }
    let precision = result.precision.as_ref();
    if let Some(missed) = precision.filter(|precision| !precision.known) {
        let (to, how) = (percent(missed.allowed), not_known(missed));
        writeln!(out, "NOT KNOWN TO {to}: {how}\n")?;
    }
    for flow in &result.flows {
        let asked = asked.iter().find(|(name, _)| *name == flow.name);
        write_flow(out, flow, asked.map_or("", |(_, asked)| asked))?;
    }
    if let Some(known) = precision.filter(|precision| precision.known) {
        let Precision { allowed, half_width, batches, batch_ns, .. } = known;
        let width = percent(half_width.unwrap_or(0.0));
        let least = known.limiting.as_deref().map(named).unwrap_or_default();
        write!(out, "known to {width} (asked for: {}): {batches} ", percent(*allowed))?;
        writeln!(out, "batches of {}, least known is {least}", duration(*batch_ns))?;
    }
    if let (Some(fairness), Some(speedup)) = (result.fairness, result.weighted_speedup) {
        let flows = result.flows.len();
        writeln!(out, "fairness {fairness:.2} of 1, weighted speedup {speedup:.2} of {flows}")?;
    }
    Ok(())
}

/// What only a host, or only real time, has.
fn write_real_time(out: &mut String, result: &Result) -> std::fmt::Result {
    if let Some(host) = &result.host {
        write_host(out, result, host)?;
    }
    for (title, latency) in
        [("lateness", &result.lateness_ns), ("arrival uncertainty", &result.arrival_uncertainty_ns)]
    {
        if let Some(latency) = latency {
            write_latency(out, "", title, latency, result.requests)?;
        }
    }
    if let Some(credit) = &result.path_credit {
        write_credit(out, credit)?;
    }
    result.guest.as_ref().map_or(Ok(()), |guest| write_guest(out, guest))
}

/// What dominates, and the remarks.
fn write_foot(out: &mut String, result: &Result) -> std::fmt::Result {
    if let Some(hint) = hint(result) {
        writeln!(out, "\n{hint}")?;
    }
    for note in &result.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn write_guest(out: &mut String, guest: &Guest) -> std::fmt::Result {
    let Guest { instructions, busy_instructions, wait, .. } = guest;
    let per = |part: u64| 100.0 * part as f64 / (*instructions).max(1) as f64;
    let busy = per(*busy_instructions);
    writeln!(out, "  guest    {instructions} instructions, {busy:.1} % of them outside idle")?;
    if let (Some(all), Some(idle)) = (wait.instructions_per_command, wait.idle_per_command) {
        let part = per(wait.instructions);
        writeln!(
            out,
            "           {part:.1} % with I/O under way: {all:.0} for each command, {idle:.0} of them idle"
        )?;
    }
    Ok(())
}

fn write_credit(out: &mut String, credit: &PathCredit) -> std::fmt::Result {
    let of = |part: u64| 100.0 * part as f64 / credit.commands.max(1) as f64;
    writeln!(
        out,
        "path credit {}: answers left so long before their modelled end; {:.1} % of commands take \
         less than that, {:.1} % were held (mean of all {})",
        duration(credit.credit_ns),
        of(credit.short),
        of(credit.held),
        duration(credit.held_mean_ns)
    )
}

/// Why figures are not known as well as was asked.
pub(crate) fn not_known(missed: &Precision) -> String {
    let requests = count(missed.requests as f64);
    let least = missed.limiting.as_deref().map(named);
    let known = match (least, missed.half_width) {
        (None, _) if missed.bound_reached => format!("no I/O succeeded of {requests}"),
        (None, _) => "the run ended before it was looked at".to_owned(),
        (Some(least), Some(half)) => format!("{least} to {} after {requests} I/Os", percent(half)),
        (Some(least), None) => format!("{least} not at all after {requests} I/Os"),
    };
    match missed.bound_reached {
        true => format!("{known}; a runtime makes the run longer, --precision asks for less"),
        false => known,
    }
}

fn write_flow(out: &mut String, flow: &Flow, asked: &str) -> std::fmt::Result {
    match asked {
        "" => writeln!(out, "{}:", flow.name)?,
        _ => {
            let parts: Vec<String> = asked.split(", ").map(str::to_owned).collect();
            write_wrapped(out, &format!("{}: ", flow.name), &parts)?;
        }
    }
    for (kind, side) in flow.sides() {
        write_side(out, kind.name(), side)?;
    }
    if flow.sides().iter().all(|(_, side)| side.ios == 0 && side.errors.is_empty()) {
        writeln!(out, "  no I/O completed")?;
    }
    if let Some(slowdown) = flow.slowdown {
        writeln!(out, "  slowdown: {slowdown:.2} times the mean latency when run alone")?;
    }
    Ok(())
}

fn write_side(out: &mut String, name: &str, side: &Side) -> std::fmt::Result {
    if let Some(lat) = &side.lat_ns {
        write!(out, "  {name}: IOPS={}", count(side.iops))?;
        if side.bytes > 0 {
            write!(out, ", BW={}", bandwidth(side.bw_bytes_per_s))?;
            writeln!(out, ", {} I/Os, {}", side.ios, bytes(side.bytes as f64))?;
        } else {
            writeln!(out, ", {} I/Os", side.ios)?;
        }
        write_latency(out, "    ", "lat", lat, side.ios)?;
        // Worth a line only where requests waited for a place in the queue.
        if let Some(e2e) = side.e2e_ns.filter(|e2e| e2e.mean > lat.mean * 1.001) {
            write_latency(out, "    ", "from creation", &e2e, side.ios)?;
        }
    }
    if !side.errors.is_empty() {
        let errors: Vec<_> = side.errors.iter().map(|(s, n)| format!("{n} {s}")).collect();
        writeln!(out, "    {name} errors: {}", errors.join(", "))?;
    }
    Ok(())
}

fn write_latency(
    out: &mut String,
    indent: &str,
    name: &str,
    lat: &Latency,
    commands: u64,
) -> std::fmt::Result {
    let [min, max] = [lat.min, lat.max].map(duration);
    let [avg, stdev] = [lat.mean, lat.stddev].map(duration);
    writeln!(out, "{indent}{name}: min={min}, max={max}, avg={avg}, stdev={stdev}")?;
    let percentiles = lat.percentiles.of(commands);
    let percentiles = percentiles.map(|(p, ns)| format!("{p}%={}", if_known(ns)));
    writeln!(out, "{indent}  {}", percentiles.join(", "))
}

/// Writes the summary of a host's measurement, which does not know the drive's inside.
fn write_host(out: &mut String, result: &Result, host: &Host) -> std::fmt::Result {
    let time = duration(result.simulated_ns);
    writeln!(out, "drive {} at {}, seed {}, {time}:", result.drive, host.target, result.seed)?;
    let Host { queues, completed, failed, retried, unknown, .. } = host;
    let queues = if *queues == 1 { "1 queue".to_owned() } else { format!("{queues} queues") };
    write!(out, "  {queues}, {completed} I/Os completed, {failed} failed")?;
    if host.lost_connections > 0 {
        write!(out, ", {retried} issued again, the end of {unknown} unknown;")?;
        write!(out, "\n  connections lost: {}", host.lost_connections)?;
        write!(out, ", controllers connected anew: {}", host.reconnects)?;
    }
    writeln!(out)?;
    if let Some(checked) = host.checked_blocks {
        writeln!(out, "  verified: {checked} blocks, {} wrong", host.mismatched_blocks)?;
    }
    if let Some(checked) = host.checked_values {
        writeln!(out, "  verified: {checked} values, {} wrong", host.mismatched_values)?;
    }
    if let Some(misses) = host.misses {
        writeln!(out, "  misses: {misses} commands found no such key")?;
    }
    Ok(())
}

/// Blocks collected, write amplification beside what was computed, and the verdict.
fn write_steadiness(out: &mut String, judged: &Steadiness) -> std::fmt::Result {
    let waf = |waf: Option<f64>| waf.map_or("unknown".to_owned(), |waf| format!("{waf:.2}"));
    let [measured, expected] = [judged.waf_collection, judged.waf_expected].map(waf);
    write!(out, "  steadiness: ")?;
    match (judged.verdict, &judged.reason) {
        (Verdict::Steady, _) => write!(out, "steady")?,
        (Verdict::NotSteady, reason) => {
            write!(out, "not steady yet: {}", reason.as_deref().unwrap_or_default())?;
        }
        (Verdict::TooShort, reason) => {
            write!(out, "too short to say ({})", reason.as_deref().unwrap_or_default())?;
        }
    }
    let Steadiness { blocks_filled, blocks_collected, .. } = judged;
    write!(out, "\n    {blocks_filled} blocks filled, {blocks_collected} collected; ")?;
    writeln!(out, "WAF of collection {measured}, computed {expected}")
}

/// How the drive settled, and what came of that.
fn write_settled(out: &mut String, settled: &Settling) -> std::fmt::Result {
    let Settling { ns, requests, verdict, .. } = settled;
    let what = if settled.random_writes { "random writes" } else { "I/Os" };
    write!(out, "  settled for {} ({requests} {what}) before the run: ", duration(*ns))?;
    let reason = settled.reason.as_deref().unwrap_or_default();
    match verdict {
        Verdict::Steady => writeln!(out, "at rest by then"),
        Verdict::NotSteady => writeln!(out, "not at rest by then\n    {reason}"),
        Verdict::TooShort => {
            writeln!(out, "too short to say\n    whether it was at rest by then ({reason})")
        }
    }
}

/// What key-value namespaces hold, and how keys were found.
fn write_key_value(out: &mut String, kv: &KeyValueCounts) -> std::fmt::Result {
    write!(out, "  pairs: {} keys", kv.keys)?;
    if let Some(live) = kv.live_bytes {
        write!(out, ", {} of keys and values", bytes(live as f64))?;
    }
    let share = kv.allocated_bytes as f64 / (kv.capacity_bytes as f64).max(1.0);
    write!(out, " in {}", bytes(kv.allocated_bytes as f64))?;
    write!(out, " ({} of the room)", percent(share))?;
    match kv.space_amplification {
        Some(times) => writeln!(out, ",\n         space amplification {times:.3}")?,
        None => writeln!(out)?,
    }
    let pages = match kv.index_dram_pages {
        Some(dram) if dram < kv.index_pages => format!("{dram} of {} pages", kv.index_pages),
        _ => format!("all of {} pages", kv.index_pages),
    };
    write!(out, "  index: {pages} in DRAM")?;
    if let Some(ratio) = kv.index_hit_ratio {
        write!(out, ", {} of {} look-ups hit", percent(ratio), kv.index_lookups)?;
    }
    match kv.flash_reads_per_retrieve {
        Some(reads) => writeln!(out, ",\n         {reads:.3} flash reads for each Retrieve")?,
        None => writeln!(out)?,
    }
    write!(out, "  request managers: busy {}", percent(kv.manager_utilisation))?;
    match kv.misses {
        0 => writeln!(out),
        misses => writeln!(out, "; {misses} commands found no key"),
    }
}

/// Says that the drive was not left to itself.
fn write_own_policies(out: &mut String, device: &Device) -> std::fmt::Result {
    let Some(own) = &device.own_policies else { return Ok(()) };
    let replaced = own.replaced.join(", ");
    writeln!(out, "  policies `{}` ({}): {replaced} not the drive's own", own.name, own.hash)
}

fn write_device(out: &mut String, result: &Result, device: &Device) -> std::fmt::Result {
    let &Device { waf, gc_runs, erases, flash_reads, flash_programs, .. } = device;
    writeln!(
        out,
        "drive {}, seed {}, {} simulated:",
        result.drive,
        result.seed,
        duration(result.simulated_ns)
    )?;
    write_own_policies(out, device)?;
    write!(out, "  flash: {flash_reads} pages read, {flash_programs} programmed")?;
    writeln!(out, ", {erases} blocks erased")?;
    if let Some(waf) = waf {
        write!(out, "  writes: WAF {waf:.2}; GC reclaimed {gc_runs} blocks")?;
        writeln!(out, " and moved {} units", device.gc_units_moved)?;
        if let Some(parts) = &device.waf_parts {
            writeln!(out, "    of {}", parts.told())?;
        }
        if let Some(judged) = &result.steadiness {
            write_steadiness(out, judged)?;
        }
        if let Some(settled) = &result.settled {
            write_settled(out, settled)?;
        }
        if let Some(placement) = &device.placement {
            placement::write(out, placement)?;
        }
    }
    if let Some(slc) = &device.slc {
        slc::write(out, slc)?;
    }
    let &Device { switch_merges, partial_merges, full_merges, .. } = device;
    if switch_merges + partial_merges + full_merges > 0 {
        write!(out, "  merges: {switch_merges} switch, {partial_merges} partial")?;
        writeln!(out, ", {full_merges} full")?;
    }
    if let Some(kv) = &device.key_value {
        write_key_value(out, kv)?;
    }
    if let Some(ratio) = device.cmt_hit_ratio {
        let (hits, lookups) = (percent(ratio), device.cmt_lookups);
        writeln!(out, "  mapping table: {hits} hits of {lookups} CMT look-ups")?;
    }
    if let Some(ratio) = device.cache_hit_ratio {
        let (hits, lookups) = (percent(ratio), device.cache_lookups);
        writeln!(out, "  data cache: {hits} hits of {lookups} look-ups")?;
    }
    let range = |of: &[f64]| {
        let mean = of.iter().sum::<f64>() / of.len() as f64;
        let min = of.iter().copied().fold(f64::INFINITY, f64::min);
        let max = of.iter().copied().fold(0.0, f64::max);
        format!("{} ({} to {})", percent(mean), percent(min), percent(max))
    };
    if !device.channel_utilisation.is_empty() && !device.die_utilisation.is_empty() {
        let (channels, dies) = (&device.channel_utilisation, &device.die_utilisation);
        write!(out, "  busy: channels {}, dies {}", range(channels), range(dies))?;
        let [down, up] = device.link_utilisation.map(percent);
        writeln!(out, ",\n        link {down} to the drive, {up} to the host")?;
    }
    write_losses(out, device)?;
    if let Some((wear, used)) = device.wear.as_ref().and_then(|wear| Some((wear, wear.life_used?)))
    {
        write!(out, "  life used: {}", percent(used))?;
        if let Some(left) = wear.writes_left_bytes {
            write!(out, ", about {:.3} TB can still be written", left * 1e-12)?;
        }
        if let Some(left) = wear.lifetime_left_s {
            write!(out, " ({:.2} years at this rate)", left / (365.25 * 86_400.0))?;
        }
        writeln!(out)?;
    }
    if let Some(joules) = device.energy_j {
        writeln!(out, "  energy: {joules:.6} J")?;
    }
    Ok(())
}

/// What went wrong inside the drive, and that it takes no more.
fn write_losses(out: &mut String, device: &Device) -> std::fmt::Result {
    if device.units_lost > 0 {
        let Device { units_lost, units_lost_written, .. } = device;
        write!(out, "  units whose latest data were lost: {units_lost}, ")?;
        writeln!(out, "of which {units_lost_written} were written in this run")?;
    }
    for (what, number) in [
        ("media errors", device.media_errors),
        ("blocks retired", device.retired_blocks),
        ("read retries", device.read_retries),
    ] {
        if number > 0 {
            writeln!(out, "  {what}: {number}")?;
        }
    }
    if let Some(wear) = device.wear.as_ref().filter(|wear| wear.write_protected) {
        let why = match wear.spare_blocks {
            0 => "no spare blocks are left",
            _ => "so many blocks are gone that data would soon find no place",
        };
        writeln!(out, "  {why}: the drive takes no more writes")?;
    }
    Ok(())
}

/// The breakdowns worth showing, with their titles.
pub(crate) fn breakdowns(result: &Result) -> Vec<(String, &[StageTime])> {
    let sides: Vec<_> = result
        .flows
        .iter()
        .flat_map(|flow| flow.sides().into_iter().map(move |(kind, side)| (flow, kind, side)))
        .filter(|(_, _, side)| !side.stages.is_empty())
        .map(|(flow, kind, side)| (format!("{} {}", flow.name, kind.name()), &side.stages[..]))
        .collect();
    match sides.len() {
        0 => Vec::new(),
        1..=BREAKDOWNS => sides,
        _ => vec![("all I/O".to_owned(), &result.stages[..])],
    }
}

fn write_breakdowns(out: &mut String, result: &Result) -> std::fmt::Result {
    for (title, stages) in breakdowns(result) {
        out.push('\n');
        write_stages(out, &title, stages, 0.0)?;
        let sum = |of: fn(&StageTime) -> f64| duration(stages.iter().map(of).sum());
        let (mean, tail) = (sum(|stage| stage.mean_ns), sum(|stage| stage.tail_mean_ns));
        writeln!(out, "  {:<16} {mean:>9} {:>18}  {tail:>9}", "sum", "")?;
    }
    Ok(())
}

/// The stages that take so much of the mean, or of the slowest.
fn write_stages(
    out: &mut String,
    title: &str,
    stages: &[StageTime],
    least: f64,
) -> std::fmt::Result {
    writeln!(out, "latency breakdown, {title}:")?;
    writeln!(out, "{:>28} {:>7} {:>21} {:>7}", "mean", "share", "slowest 1 %", "share")?;
    for stage in stages.iter().filter(|stage| stage.share.max(stage.tail_share) >= least) {
        writeln!(
            out,
            "  {:<16} {:>9} {:>7} {:<10}  {:>9} {:>7} {:<10}",
            stage.stage,
            duration(stage.mean_ns),
            percent(stage.share),
            bar(stage.share, 10),
            duration(stage.tail_mean_ns),
            percent(stage.tail_share),
            bar(stage.tail_share, 10)
        )?;
        trim_line(out);
    }
    Ok(())
}

fn trim_line(out: &mut String) {
    out.truncate(out.trim_end().len());
    out.push('\n');
}

/// The waiting of one flow for one resource.
struct Waiting<'a> {
    resource: &'a str,
    wait_ns: f64,
    /// Blame of this resource, the longest wait first.
    holders: Vec<&'a BlameEntry>,
}

/// A flow's waiting by resource, the longest first.
fn waiting<'a>(blame: &'a [BlameEntry], victim: &str) -> Vec<Waiting<'a>> {
    let mut all: Vec<Waiting<'a>> = Vec::new();
    for entry in blame.iter().filter(|entry| entry.victim == victim) {
        match all.iter_mut().find(|waiting| waiting.resource == entry.resource) {
            Some(waiting) => {
                waiting.wait_ns += entry.wait_ns;
                waiting.holders.push(entry);
            }
            None => all.push(Waiting {
                resource: &entry.resource,
                wait_ns: entry.wait_ns,
                holders: vec![entry],
            }),
        }
    }
    all.sort_by(|a, b| b.wait_ns.total_cmp(&a.wait_ns));
    for waiting in &mut all {
        waiting.holders.sort_by(|a, b| b.wait_ns.total_cmp(&a.wait_ns));
    }
    all
}

fn write_blame(out: &mut String, result: &Result) -> std::fmt::Result {
    if result.blame.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nwho delayed whom (waits of all parts of all I/Os added up):")?;
    for flow in &result.flows {
        write_waiting(out, result, flow)?;
    }
    Ok(())
}

/// What a flow waited for, and who held that.
fn write_waiting(out: &mut String, result: &Result, flow: &Flow) -> std::fmt::Result {
    let waiting = waiting(&result.blame, &flow.name);
    let total: f64 = waiting.iter().map(|waiting| waiting.wait_ns).sum();
    if total == 0.0 {
        return Ok(());
    }
    writeln!(out, "  {} waited {} for", flow.name, duration(total))?;
    for waiting in waiting.iter().filter(|waiting| waiting.wait_ns >= total * SHOWN_PART) {
        let held: Vec<_> = waiting
            .holders
            .iter()
            .filter(|entry| entry.wait_ns >= waiting.wait_ns * SHOWN_PART)
            .map(|entry| (entry.holder.as_str(), percent(entry.wait_ns / waiting.wait_ns)))
            .map(|(holder, part)| format!("{holder} {part}"))
            .collect();
        let part = percent(waiting.wait_ns / total);
        let start = format!(
            "    {:<12} {:>10} {part:>7}  held by ",
            waiting.resource,
            duration(waiting.wait_ns)
        );
        write_wrapped(out, &start, &held)?;
    }
    Ok(())
}

/// Why the flow called `name` takes the time that it takes, in few lines: what it got, the stages that
/// matter, who made it wait, and what dominates. At most 80 columns, if names are as short as `reader`.
pub fn explanation(result: &Result, name: &str) -> String {
    let mut out = String::new();
    write_explanation(&mut out, result, name).expect("a string takes everything");
    out
}

fn write_explanation(out: &mut String, result: &Result, name: &str) -> std::fmt::Result {
    let Some(flow) = result.flows.iter().find(|flow| flow.name == name) else { return Ok(()) };
    write_flow(out, flow, "")?;
    for (kind, side) in flow.sides().into_iter().filter(|(_, side)| !side.stages.is_empty()) {
        let title = format!("{} {}", flow.name, kind.name());
        write_stages(out, &title, &side.stages, EXPLAINED_PART)?;
    }
    writeln!(out, "who delayed whom (waits of all parts of all I/Os added up):")?;
    write_waiting(out, result, flow)?;
    hint(result).map_or(Ok(()), |hint| writeln!(out, "{hint}"))
}

/// Writes `start` and the items, separated by commas, on as many lines as they need.
fn write_wrapped(out: &mut String, start: &str, items: &[String]) -> std::fmt::Result {
    let indent = start.chars().count();
    let mut column = indent;
    out.push_str(start);
    for (n, item) in items.iter().enumerate() {
        let comma = if n + 1 < items.len() { "," } else { "" };
        let width = item.chars().count() + 2;
        if n > 0 && column + width > 100 {
            write!(out, "\n{:indent$}", "")?;
            column = indent;
        } else if n > 0 {
            out.push(' ');
        }
        write!(out, "{item}{comma}")?;
        column += width;
    }
    writeln!(out)
}

/// What a resource's pieces are called in a sentence.
fn pieces(resource: &str) -> &str {
    match resource {
        "die" => "dies",
        "channel" => "channels",
        "link_down" => "the link to the drive",
        "link_up" => "the link to the host",
        "firmware" => "firmware cores",
        "dram" => "the DRAM",
        "cache_space" => "room in the write cache",
        "mapping" => "mapping entries",
        "free_block" => "free blocks",
        other => other,
    }
}

/// One sentence about what dominates, if something does: a flow that is much slower than alone; or
/// else one holder of one resource who has half of a flow's waiting, if that waiting is at least a
/// tenth of the flow's latencies; or else one stage that has half of all latency.
pub(crate) fn hint(result: &Result) -> Option<String> {
    match stage_hint(result) {
        Some((Stage::Late, hint)) => Some(hint),
        stage => neighbour_hint(result)
            .or_else(|| waiting_hint(result))
            .or_else(|| stage.map(|(_, hint)| hint)),
    }
}

/// Who is slowed most by the others, and by what.
fn neighbour_hint(result: &Result) -> Option<String> {
    let slowed = result.flows.iter().filter_map(|flow| Some((flow.slowdown?, flow)));
    let (slowdown, victim) = slowed.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    if slowdown < MUCH_SLOWER {
        return None;
    }
    let of_victim = || result.blame.iter().filter(|entry| entry.victim == victim.name);
    let total: f64 = of_victim().map(|entry| entry.wait_ns).sum();
    let others = of_victim().filter(|entry| entry.holder != victim.name);
    let longest = |a: &&BlameEntry, b: &&BlameEntry| a.wait_ns.total_cmp(&b.wait_ns);
    let most = others.max_by(longest)?;
    // What the others hold may be little, and yet the cause: a full cache, say, is the flow's own.
    let most = match most.wait_ns >= total * NEIGHBOURS_PART {
        true => most,
        false => of_victim().max_by(longest)?,
    };
    let (name, part) = (slow::shortened(&victim.name, NAME), 100.0 * most.wait_ns / total);
    let (what, holder) = (pieces(&most.resource), spoken(most));
    let times = if slowdown < 10.0 { format!("{slowdown:.1}") } else { format!("{slowdown:.0}") };
    Some(format!(
        "{name} is {times} times slower than alone: {part:.0} % of its waiting was for {what} held \
         by {holder}{}.",
        cause(result, most)
    ))
}

/// What a holder is called in a sentence.
fn spoken(entry: &BlameEntry) -> String {
    match entry.holder.as_str() {
        "gc" => "garbage collection".to_owned(),
        "mapping" => "the mapping table".to_owned(),
        "index" => "the index of keys".to_owned(),
        "compaction" => "the index's compaction".to_owned(),
        holder if holder == entry.victim => "its own requests".to_owned(),
        holder if holder.starts_with("gc for ") => holder.replacen("gc", "garbage collection", 1),
        holder => slow::shortened(holder, NAME),
    }
}

/// Behind folding: whose writes it makes room for, if most are one flow's.
fn cause(result: &Result, entry: &BlameEntry) -> String {
    let total: u64 = result.flows.iter().map(|flow| flow.write.bytes).sum();
    let most = result.flows.iter().find(|flow| flow.write.bytes > total / 2);
    match most.filter(|_| entry.holder == "folding") {
        Some(flow) => {
            format!(", mostly for what {} wrote", slow::shortened(&flow.name, NAME))
        }
        None => String::new(),
    }
}

fn waiting_hint(result: &Result) -> Option<String> {
    let culprit = result
        .flows
        .iter()
        .filter_map(|flow| {
            let latencies: f64 = flow
                .sides()
                .iter()
                .filter_map(|(_, side)| Some(side.ios as f64 * side.e2e_ns?.mean))
                .sum();
            let entries = || result.blame.iter().filter(|entry| entry.victim == flow.name);
            let total: f64 = entries().map(|entry| entry.wait_ns).sum();
            let most = entries().max_by(|a, b| a.wait_ns.total_cmp(&b.wait_ns))?;
            (total >= latencies * 0.1 && most.wait_ns >= total * 0.5).then_some((most, total))
        })
        .max_by(|(a, _), (b, _)| a.wait_ns.total_cmp(&b.wait_ns));
    let (most, total) = culprit?;
    let part = 100.0 * most.wait_ns / total;
    let (what, holder) = (pieces(&most.resource), spoken(most));
    let victim = slow::shortened(&most.victim, NAME);
    let cause = cause(result, most);
    Some(format!("{part:.0} % of {victim}'s waiting was for {what} held by {holder}{cause}."))
}

/// The stage that takes most of the time, and what it is.
fn stage_hint(result: &Result) -> Option<(Stage, String)> {
    let stage = result.stages.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let known = Stage::ALL.into_iter().find(|known| known.name() == stage.stage)?;
    let (part, what) = (100.0 * stage.share, known.description().trim());
    let what = what.split(['.', ':']).next().unwrap_or(what);
    let hint = || format!("{part:.0} % of the latency was {}: {what}.", stage.stage);
    (part >= 50.0).then(|| (known, hint()))
}

#[cfg(test)]
mod tests;
