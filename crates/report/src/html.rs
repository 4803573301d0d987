//! The report of a run: one HTML file that needs nothing else, for the light and the dark.
//!
//! It draws what the result says and computes nothing of its own. The distributions need
//! more than a result holds, so they come along as [`ReportCurves`]. No script, no font and
//! no picture is loaded; the same result gives the same bytes.

use crate::page;
use crate::summary::{breakdowns, hint, not_known};
use charts::Vertical;
pub use charts::round_label;
use lines::{Chart, Line};
use mynah_model::SlcFill;
use mynah_result::figures::{bandwidth, bytes, count, duration, if_known, named, percent};
use mynah_result::series::{FlowPoint, Point, Series};
use mynah_result::{BlameEntry, Device, Result, StageTime, Steadiness, Verdict};
use mynah_result::{kind::Kind, recorder::Recorder};
use mynah_stamp::Stage;
use quick_xml::escape::escape;
use std::fmt::Write;

pub mod charts;
pub mod lines;
mod pairs;
mod placement;
mod slowest;

/// How many line colours the style sheet has.
pub const COLOURS: usize = 8;
/// More dies than this are drawn small, without numbers.
const NUMBERED_CELLS: usize = 64;

/// The latency distributions of a run, from insertion into the submission queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportCurves {
    /// One curve for every kind of command of every flow that had any.
    pub curves: Vec<Curve>,
    /// What the run looked like over time, if it was watched.
    pub series: Option<Series>,
}

/// A cumulative distribution of latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The flow's name and the kind of command, as in `reader read`.
    pub name: String,
    /// Number of commands.
    pub count: u64,
    /// Nanoseconds, and the fraction of commands that took at most so long; rising.
    pub points: Vec<(f64, f64)>,
}

impl ReportCurves {
    /// The curves of everything that was recorded.
    pub fn new(recorder: &Recorder) -> ReportCurves {
        let flows = recorder.flow_names().iter().enumerate();
        let curves = flows
            .flat_map(|(flow, name)| Kind::ALL.map(|kind| (flow, name, kind)))
            .filter_map(|(flow, name, kind)| {
                let histogram = recorder.latencies(flow, kind)?;
                Some(Curve {
                    name: format!("{name} {}", kind.name()),
                    count: histogram.count(),
                    points: histogram.cdf().map(|(span, part)| (span.as_ns_f64(), part)).collect(),
                })
            })
            .collect();
        ReportCurves { curves, series: None }
    }

    /// The same, with what the run looked like over time.
    #[must_use]
    pub fn over_time(self, series: Option<Series>) -> ReportCurves {
        ReportCurves { series, ..self }
    }
}

/// The report of one run, as an HTML document.
pub fn html(result: &Result, curves: &ReportCurves) -> String {
    let mut out = String::with_capacity(1 << 17);
    document(&mut out, result, curves).expect("a string takes everything");
    out
}

fn document(out: &mut String, result: &Result, curves: &ReportCurves) -> std::fmt::Result {
    page::begin(out, &result.drive, "report", "")?;
    header(out, result)?;
    cards(out, result)?;
    if !curves.curves.is_empty() {
        distributions(out, &curves.curves)?;
    }
    if let Some(series) = &curves.series {
        over_time(out, series)?;
    }
    stage_bars(out, result)?;
    blame_matrix(out, &result.blame)?;
    slowest::table(out, &result.slowest)?;
    if let Some(device) = &result.device {
        if let Some(counts) = &device.key_value {
            pairs::panel(out, counts)?;
        }
        if let Some(costs) = &device.placement {
            placement::panel(out, costs)?;
        }
        utilisation(out, device)?;
    }
    percentile_table(out, result)?;
    if let Some(device) = &result.device {
        counters(out, device)?;
    }
    notes(out, &result.notes)?;
    let version = escape(&result.run.version);
    writeln!(
        out,
        "<footer>Mynah {version}. Drive hash <code>{}</code>.</footer>",
        escape(&result.drive_hash)
    )?;
    page::end(out)
}

fn header(out: &mut String, result: &Result) -> std::fmt::Result {
    writeln!(out, "<header>\n<h1>{}</h1>", escape(&result.drive))?;
    let names: Vec<_> = result.flows.iter().map(|flow| flow.name.as_str()).collect();
    let (noun, simulated) = (if names.len() == 1 { "Flow" } else { "Flows" }, result.simulated_ns);
    writeln!(
        out,
        "<p class=\"lead\">{noun} {} · seed {} · {} measured · {} commands · {} events</p>",
        escape(names.join(", ")),
        result.seed,
        duration(simulated),
        result.requests,
        result.events
    )?;
    if !result.run.command.is_empty() {
        writeln!(out, "<code class=\"command\">{}</code>", escape(&result.run.command))?;
    }
    writeln!(out, "</header>")?;
    for failure in &result.failures {
        writeln!(out, "<p class=\"alarm\"><strong>Failed:</strong> {}</p>", escape(failure))?;
    }
    if let Some(reason) = &result.untrusted {
        writeln!(
            out,
            "<p class=\"alarm\"><strong>Not trustworthy:</strong> {}</p>",
            escape(reason)
        )?;
    }
    if result.was_interrupted() {
        let said = "<strong>Interrupted:</strong> this is what was measured until then";
        writeln!(out, "<p class=\"alarm\">{said}</p>")?;
    }
    if let Some(judged) = &result.steadiness
        && judged.verdict == Verdict::NotSteady
    {
        let reason = escape(judged.reason.as_deref().unwrap_or_default());
        writeln!(out, "<p class=\"alarm\"><strong>Not steady yet:</strong> {reason}</p>")?;
    }
    if let Some(missed) = &result.precision
        && !missed.known
    {
        let (to, how) = (percent(missed.allowed), escape(not_known(missed)));
        writeln!(out, "<p class=\"alarm\"><strong>Not known to {to}:</strong> {how}</p>")?;
    }
    if let Some(hint) = hint(result) {
        writeln!(out, "<p class=\"hint\">{}</p>", escape(hint))?;
    }
    Ok(())
}

fn card(out: &mut String, title: &str, number: &str, below: &str) -> std::fmt::Result {
    let (title, below) = (escape(title), escape(below));
    writeln!(
        out,
        "<div class=\"card\"><span>{title}</span><b>{number}</b><span>{below}</span></div>"
    )
}

fn cards(out: &mut String, result: &Result) -> std::fmt::Result {
    for flow in &result.flows {
        for (kind, side) in flow.sides() {
            if side.ios == 0 && side.errors.is_empty() {
                continue;
            }
            let name = format!("{} {}", flow.name, kind.name());
            writeln!(out, "<h3>{}</h3>\n<div class=\"cards\">", escape(&name))?;
            card(out, "I/Os a second", &count(side.iops), &format!("{} I/Os", side.ios))?;
            if side.bytes > 0 {
                let both = bandwidth(side.bw_bytes_per_s);
                let (binary, _) = both.split_once(' ').unwrap_or((&both, ""));
                card(out, "bandwidth", binary, &format!("{} in all", bytes(side.bytes as f64)))?;
            }
            if let Some(lat) = &side.lat_ns {
                let deviation = format!("standard deviation {}", duration(lat.stddev));
                card(out, "mean latency", &duration(lat.mean), &deviation)?;
                let median = format!("median {}", duration(lat.percentiles.p50));
                let [.., (_, p99), nines, more_nines] = lat.percentiles.of(side.ios);
                card(out, "99 % within", &if_known(p99), &median)?;
                let worst = format!("longest {}", duration(lat.max));
                let (name, ns) = if more_nines.1.is_some() { more_nines } else { nines };
                card(out, &format!("{name} % within"), &if_known(ns), &worst)?;
            }
            if let Some(slowdown) = flow.slowdown {
                card(out, "slowdown", &format!("{slowdown:.2}×"), "of the mean latency run alone")?;
            }
            if !side.errors.is_empty() {
                let number: u64 = side.errors.values().sum();
                let kinds: Vec<_> = side.errors.keys().map(|name| name.replace('_', " ")).collect();
                card(out, "errors", &number.to_string(), &kinds.join(", "))?;
            }
            writeln!(out, "</div>")?;
        }
    }
    writeln!(out, "<h3>drive</h3>\n<div class=\"cards\">")?;
    if let Some(device) = &result.device {
        device_cards(out, device)?;
    }
    if let Some(judged) = &result.steadiness {
        steadiness_card(out, judged)?;
    }
    if let Some(found) = &result.precision {
        let known = found.half_width.map_or("not at all".to_owned(), percent);
        let (asked, batch) = (percent(found.allowed), duration(found.batch_ns));
        let least = found.limiting.as_deref().map_or("nothing".to_owned(), named);
        let batches = found.batches;
        let below = format!("{least}; asked for {asked}; {batches} batches of {batch}");
        card(out, "least known to", &known, &below)?;
    }
    if let Some(fairness) = result.fairness {
        card(out, "fairness", &format!("{fairness:.2}"), "smallest over largest slowdown")?;
    }
    if let Some(speedup) = result.weighted_speedup {
        let of = format!("of {}", result.flows.len());
        card(out, "weighted speedup", &format!("{speedup:.2}"), &of)?;
    }
    writeln!(out, "</div>")
}

fn device_cards(out: &mut String, device: &Device) -> std::fmt::Result {
    if let Some(waf) = device.waf {
        let parts = device.waf_parts.map_or(String::new(), |parts| parts.told());
        card(out, "write amplification", &format!("{waf:.2}×"), &parts)?;
    }
    card(out, "blocks erased", &device.erases.to_string(), &format!("GC runs {}", device.gc_runs))?;
    if let Some(ratio) = device.cmt_hit_ratio {
        card(out, "CMT hits", &percent(ratio), &format!("of {} look-ups", device.cmt_lookups))?;
    }
    if let Some(ratio) = device.cache_hit_ratio {
        card(out, "cache hits", &percent(ratio), &format!("of {} look-ups", device.cache_lookups))?;
    }
    Ok(())
}

fn steadiness_card(out: &mut String, judged: &Steadiness) -> std::fmt::Result {
    let waf = |waf: Option<f64>| waf.map_or("unknown".to_owned(), |waf| format!("{waf:.2}"));
    let below = format!(
        "{} blocks filled, {} collected; WAF of collection {}, computed {}",
        judged.blocks_filled,
        judged.blocks_collected,
        waf(judged.waf_collection),
        waf(judged.waf_expected)
    );
    card(out, "steadiness", judged.verdict.name(), &below)
}

fn distributions(out: &mut String, curves: &[Curve]) -> std::fmt::Result {
    writeln!(out, "<h2>Latency</h2>\n<ul class=\"legend\">")?;
    for (n, curve) in curves.iter().enumerate() {
        let (colour, name) = (n % COLOURS, escape(&curve.name));
        writeln!(out, "<li><i style=\"background:var(--s{colour})\"></i>{name}</li>")?;
    }
    writeln!(out, "</ul>\n<div class=\"pair\">")?;
    for (vertical, title, caption) in [
        (
            Vertical::Fraction,
            "Cumulative distribution of latency",
            "How many commands completed within the latency on the horizontal axis.",
        ),
        (
            Vertical::Nines,
            "Tail of the latency distribution",
            "The same by nines: each step up is ten times rarer.",
        ),
    ] {
        let chart = charts::distribution(curves, vertical, title);
        let caption = format!("<figcaption>{caption}</figcaption>");
        writeln!(out, "<figure class=\"panel\">{chart}{caption}</figure>")?;
    }
    writeln!(out, "</div>")
}

/// The run over time: what hosts got, what they waited, and how the drive stood.
fn over_time(out: &mut String, series: &Series) -> std::fmt::Result {
    let Some(first) = series.points.first() else { return Ok(()) };
    let every = first.end.since(first.start).as_ns_f64();
    writeln!(
        out,
        "<h2>Over time</h2>\n<p class=\"soft\">One point for every {} of simulated time{}.</p>",
        duration(every),
        if first.measured { "" } else { "; the shade is the ramp, which is not measured" }
    )?;
    writeln!(out, "<ul class=\"legend\">")?;
    for (n, name) in series.flows.iter().enumerate() {
        let (colour, name) = (n % COLOURS, escape(name));
        writeln!(out, "<li><i style=\"background:var(--s{colour})\"></i>{name}</li>")?;
    }
    writeln!(out, "</ul>\n<div class=\"pair\">")?;
    let measured_from = series.points.iter().find(|point| point.measured);
    let measured_from = measured_from.filter(|_| !first.measured).map(|p| p.start.as_ns_f64());
    let mut chart = |title: &str, lines: Vec<Line>, height: &dyn Fn(f64) -> String| {
        let svg = Chart {
            title,
            across: ("simulated time", &duration),
            height,
            lines,
            marks: None,
            measured_from,
            dots: false,
            logarithmic: (false, false),
        }
        .svg();
        let caption = format!("<figcaption>{title}</figcaption>");
        writeln!(out, "<figure class=\"panel\">{svg}{caption}</figure>")
    };
    let each_flow = |height: &dyn Fn(&Point, &FlowPoint) -> f64| -> Vec<Line> {
        (0..series.flows.len())
            .map(|flow| Line::new(flow, points(series, |point| height(point, &point.flows[flow]))))
            .collect()
    };
    let iops = each_flow(&|point, flow| flow.ios as f64 / point.seconds());
    chart("I/Os a second", iops, &count)?;
    if series.points.iter().flat_map(|point| &point.flows).any(|flow| flow.bytes > 0) {
        let rate = each_flow(&|point, flow| flow.bytes as f64 / point.seconds());
        chart("Bandwidth", rate, &|height| format!("{}/s", bytes(height)))?;
    }
    let p99 = each_flow(&|_, flow| flow.percentile_ns(99.0).unwrap_or(f64::NAN));
    chart("Latency that 99 % do not exceed", p99, &duration)?;
    let depth = each_flow(&|point, flow| flow.outstanding_ps as f64 / 1e12 / point.seconds());
    chart("I/Os outstanding, mean", depth, &count)?;
    if series.points.iter().any(|point| point.host_bytes > 0) {
        let waf = |point: &Point| match point.host_bytes {
            0 => f64::NAN,
            written => point.flash_bytes as f64 / written as f64,
        };
        let line = |height: &dyn Fn(&Point) -> f64| vec![Line::new(0, points(series, height))];
        chart("Write amplification", line(&waf), &|height| format!("{height:.2}"))?;
        chart("Free blocks", line(&|point| point.free_blocks as f64), &count)?;
    }
    if series.points.iter().any(|point| point.slc.is_some()) {
        let line = |bytes: fn(SlcFill) -> u64| {
            let height = |point: &Point| point.slc.map_or(f64::NAN, |slc| bytes(slc) as f64);
            vec![Line::new(0, points(series, height))]
        };
        chart("Held by the SLC cache", line(|slc| slc.filled_bytes), &bytes)?;
        chart("Room in the SLC cache", line(|slc| slc.room_bytes), &bytes)?;
    }
    writeln!(out, "</div>")
}

/// A line's points, each in the middle of its interval.
fn points(series: &Series, height: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let middle = |point: &Point| (point.start.as_ns_f64() + point.end.as_ns_f64()) / 2.0;
    series.points.iter().map(|point| (middle(point), height(point))).collect()
}

/// The colour of a stage: related stages have related hues.
pub fn stage_colour(stage: Stage) -> &'static str {
    match stage {
        Stage::HostQueue => "#64748b",
        Stage::HostSubmit => "#8391a7",
        Stage::NetworkRequest => "#6d5bd0",
        Stage::SubmissionQueue => "#8a4fc7",
        Stage::CommandFetch => "#a855b8",
        Stage::DataIn => "#2563eb",
        Stage::Firmware => "#b7791f",
        Stage::CacheWait => "#0f766e",
        Stage::Cache => "#2a9d75",
        Stage::Mapping => "#7a8b1c",
        Stage::BlockWait => "#8c2f39",
        Stage::DieWait => "#cf3f3f",
        Stage::FlashCommand => "#db8a1b",
        Stage::FlashArray => "#e0701c",
        Stage::ChannelWait => "#b83280",
        Stage::FlashTransfer => "#c99700",
        Stage::DataOut => "#2d7dd2",
        Stage::Completion => "#2596ad",
        Stage::Late => "#111827",
        Stage::NetworkResponse => "#8577e0",
        Stage::HostComplete => "#9aa5b5",
        Stage::Nic => "#3b3fae",
        Stage::Axi => "#4c7a34",
        Stage::Transport => "#7c4a21",
        Stage::Capsule => "#996633",
        Stage::BlockLayer => "#a67c52",
        Stage::NvmeLayer => "#bf9b7a",
        Stage::BufferWait => "#5b2333",
    }
}

pub fn known_stage(name: &str) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name)
}

fn stage_bars(out: &mut String, result: &Result) -> std::fmt::Result {
    let breakdowns = breakdowns(result);
    if breakdowns.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Where the time went</h2>\n<p class=\"soft\">Each bar is the mean latency, from the \
         request's creation to its completion, by stage: of all commands, and of the slowest 1 %.</p>"
    )?;
    writeln!(out, "<ul class=\"legend\">")?;
    for stage in Stage::ALL {
        let used = |stages: &[StageTime]| stages.iter().any(|time| time.stage == stage.name());
        if breakdowns.iter().any(|(_, stages)| used(stages)) {
            let (colour, name) = (stage_colour(stage), stage.name().replace('_', " "));
            let what = escape(stage.description().trim());
            writeln!(out, "<li title=\"{what}\"><i style=\"background:{colour}\"></i>{name}</li>")?;
        }
    }
    writeln!(out, "</ul>")?;
    for (title, stages) in breakdowns {
        writeln!(out, "<div class=\"panel\"><h3 style=\"margin-top:0\">{}</h3>", escape(&title))?;
        stack(out, "all", stages, |time| (time.mean_ns, time.share))?;
        stack(out, "slowest 1 %", stages, |time| (time.tail_mean_ns, time.tail_share))?;
        stage_table(out, stages)?;
        writeln!(out, "</div>")?;
    }
    Ok(())
}

fn stack(
    out: &mut String,
    name: &str,
    stages: &[StageTime],
    of: fn(&StageTime) -> (f64, f64),
) -> std::fmt::Result {
    let total = duration(stages.iter().map(|time| of(time).0).sum());
    let spoken: Vec<_> =
        stages.iter().map(|time| format!("{} {}", time.stage, percent(of(time).1))).collect();
    let spoken = format!("{name}: {}", spoken.join(", "));
    write!(out, "<div class=\"stack\"><span>{name}</span>")?;
    write!(out, "<div class=\"bar\" role=\"img\" aria-label=\"{}\">", escape(&spoken))?;
    for time in stages {
        let (ns, share) = of(time);
        let colour = known_stage(&time.stage).map_or("#888888", stage_colour);
        let label = time.stage.replace('_', " ");
        let title = format!("{label}: {}, {}", duration(ns), percent(share));
        // About as many characters as fit into the segment.
        let fits = share * 120.0 > label.len() as f64 + 2.0;
        write!(
            out,
            "<i style=\"width:{:.3}%;background:{colour}\" title=\"{}\">{}</i>",
            share * 100.0,
            escape(&title),
            if fits { escape(&label) } else { "".into() }
        )?;
    }
    writeln!(out, "</div><span>{total}</span></div>")
}

fn stage_table(out: &mut String, stages: &[StageTime]) -> std::fmt::Result {
    writeln!(
        out,
        "<details><summary>Numbers</summary><table><thead><tr><th class=\"left\">stage</th>\
         <th>commands</th><th>mean</th><th>share</th><th>99 % within</th>\
         <th>mean of slowest 1 %</th><th>share</th></tr></thead><tbody>"
    )?;
    for time in stages {
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            escape(time.stage.replace('_', " ")),
            time.count,
            duration(time.mean_ns),
            percent(time.share),
            duration(time.p99_ns),
            duration(time.tail_mean_ns),
            percent(time.tail_share)
        )?;
    }
    writeln!(out, "</tbody></table></details>")
}

fn first_seen<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn blame_matrix(out: &mut String, blame: &[BlameEntry]) -> std::fmt::Result {
    if blame.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Who delayed whom</h2>\n<p class=\"soft\">How long the requests of a flow waited for a \
         resource while the holder in the column had it; waits of all parts of all requests added \
         up. The shade is the part of the flow's waiting.</p>\n<div class=\"panel\"><table>"
    )?;
    // Those who are no flow come last.
    let mut holders = first_seen(blame.iter().map(|entry| entry.holder.as_str()));
    holders.sort_by_key(|holder| {
        let own = matches!(*holder, "gc" | "mapping" | "index" | "compaction");
        (own || holder.starts_with("gc for "), *holder)
    });
    write!(out, "<thead><tr><th class=\"left\">victim</th><th class=\"left\">waits for</th>")?;
    for holder in &holders {
        write!(out, "<th>{}</th>", escape(*holder))?;
    }
    writeln!(out, "<th>sum</th></tr></thead><tbody>")?;
    for victim in first_seen(blame.iter().map(|entry| entry.victim.as_str())) {
        let of_victim: Vec<_> = blame.iter().filter(|entry| entry.victim == victim).collect();
        let total: f64 = of_victim.iter().map(|entry| entry.wait_ns).sum();
        for resource in first_seen(of_victim.iter().map(|entry| entry.resource.as_str())) {
            let entries = || of_victim.iter().filter(|entry| entry.resource == resource);
            let what = escape(resource.replace('_', " ")).into_owned();
            write!(out, "<tr><th scope=\"row\">{}</th>", escape(victim))?;
            write!(out, "<td class=\"left\">{what}</td>")?;
            for holder in &holders {
                let wait: f64 = entries()
                    .filter(|entry| entry.holder == *holder)
                    .map(|entry| entry.wait_ns)
                    .sum();
                if wait == 0.0 {
                    write!(out, "<td class=\"soft\">–</td>")?;
                    continue;
                }
                let (part, said) = (wait / total, duration(wait));
                let shade = part * 80.0;
                let title = format!("{} of the waiting of {victim}", percent(part));
                write!(
                    out,
                    "<td class=\"heat\" style=\"--part:{shade:.1}%\" title=\"{}\">{said}</td>",
                    escape(&title)
                )?;
            }
            let sum: f64 = entries().map(|entry| entry.wait_ns).sum();
            writeln!(out, "<td><strong>{}</strong></td></tr>", duration(sum))?;
        }
    }
    writeln!(out, "</tbody></table></div>")
}

fn strip(out: &mut String, name: &str, one: &str, parts: &[f64]) -> std::fmt::Result {
    let dense = parts.len() > NUMBERED_CELLS;
    let class = if dense { "cells dense" } else { "cells" };
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let spoken = format!("{name}, {} busy on average", percent(mean));
    write!(out, "<div class=\"strip\"><span>{name}<br/><b>{}</b></span>", percent(mean))?;
    write!(out, "<div class=\"{class}\" role=\"img\" aria-label=\"{spoken}\">")?;
    for (n, part) in parts.iter().enumerate() {
        let (shade, said) = (part * 90.0, percent(*part));
        let number = if dense { String::new() } else { format!("{:.0}", part * 100.0) };
        write!(out, "<i style=\"--part:{shade:.1}%\" title=\"{one} {n}: {said}\">{number}</i>")?;
    }
    writeln!(out, "</div></div>")
}

fn utilisation(out: &mut String, device: &Device) -> std::fmt::Result {
    if device.channel_utilisation.is_empty() && device.die_utilisation.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>How busy the hardware was</h2>\n<p class=\"soft\">Busy time over measured time, in \
         per cent.</p>\n<div class=\"panel\">"
    )?;
    let link = &device.link_utilisation;
    for (name, one, parts) in [
        ("link in", "to the drive", &link[..1]),
        ("link out", "to the host", &link[1..]),
        ("channels", "channel", &device.channel_utilisation[..]),
        ("dies", "die", &device.die_utilisation[..]),
    ] {
        if !parts.is_empty() {
            strip(out, name, one, parts)?;
        }
    }
    flash_map(out, device)?;
    writeln!(out, "</div>")
}

/// Each channel with its dies behind it.
fn flash_map(out: &mut String, device: &Device) -> std::fmt::Result {
    let (channels, dies) = (&device.channel_utilisation, &device.die_utilisation);
    if channels.is_empty() || dies.is_empty() || !dies.len().is_multiple_of(channels.len()) {
        return Ok(());
    }
    writeln!(out, "<h3>Map</h3>\n<table class=\"map\"><tbody>")?;
    for (channel, (busy, dies)) in
        channels.iter().zip(dies.chunks(dies.len() / channels.len())).enumerate()
    {
        let said = percent(*busy);
        write!(
            out,
            "<tr><th scope=\"row\">channel {channel}</th><td class=\"heat\" \
             style=\"--part:{:.1}%\" title=\"channel {channel}: {said}\">{said}</td>",
            busy * 90.0
        )?;
        for (die, busy) in dies.iter().enumerate() {
            let (part, said) = (busy * 90.0, percent(*busy));
            write!(
                out,
                "<td class=\"heat\" style=\"--part:{part:.1}%\" title=\"channel {channel} die \
                 {die}: {said}\">{:.0}</td>",
                busy * 100.0
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table>")
}

fn percentile_table(out: &mut String, result: &Result) -> std::fmt::Result {
    let all = result.requests;
    let rows: Vec<_> = result
        .flows
        .iter()
        .flat_map(|flow| flow.sides().into_iter().map(move |(kind, side)| (flow, kind, side)))
        .flat_map(|(flow, kind, side)| {
            let name = format!("{} {}", flow.name, kind.name());
            [
                side.lat_ns.map(|lat| (name.clone(), "latency", lat, side.ios)),
                // Where nothing waited for a place in the queue, it is the same again.
                side.e2e_ns
                    .filter(|e2e| Some(*e2e) != side.lat_ns)
                    .map(|e2e| (name, "from creation", e2e, side.ios)),
            ]
        })
        .flatten()
        .chain(result.lateness_ns.map(|h| ("emulation".to_owned(), "lateness", h, all)))
        .chain(
            result.arrival_uncertainty_ns.map(|h| ("emulation".to_owned(), "arrival gap", h, all)),
        )
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>Percentiles</h2>\n<div class=\"panel\"><table><thead><tr>")?;
    write!(out, "<th class=\"left\">commands</th><th class=\"left\">time</th><th>min</th>")?;
    for (name, _) in rows[0].2.percentiles.named() {
        write!(out, "<th>{name} %</th>")?;
    }
    writeln!(out, "<th>max</th><th>mean</th><th>std. dev.</th></tr></thead><tbody>")?;
    for (name, time, latency, commands) in rows {
        let name = escape(&name);
        write!(out, "<tr><th scope=\"row\">{name}</th><td class=\"left\">{time}</td>")?;
        let percentiles = latency.percentiles.of(commands).map(|(_, ns)| ns);
        let moments = [latency.max, latency.mean, latency.stddev].map(Some);
        for ns in [Some(latency.min)].iter().chain(&percentiles).chain(&moments) {
            write!(out, "<td>{}</td>", if_known(*ns))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn counters(out: &mut String, device: &Device) -> std::fmt::Result {
    writeln!(out, "<h2>What the drive counted</h2>\n<div class=\"panel\"><div class=\"columns\">")?;
    for (name, number) in [
        ("Units written by hosts", device.host_units_written),
        ("Units programmed", device.flash_units_programmed),
        ("Units moved by GC", device.gc_units_moved),
        ("Units padded", device.padded_units),
        ("Pages read", device.flash_reads),
        ("– for GC", device.gc_reads),
        ("– for the mapping table", device.mapping_reads),
        ("– to complete partial writes", device.merge_reads),
        ("Pages programmed", device.flash_programs),
        ("– for GC", device.gc_programs),
        ("– by copyback", device.copybacks),
        ("– for the mapping table", device.mapping_programs),
        ("Switch merges", device.switch_merges),
        ("Partial merges", device.partial_merges),
        ("Full merges", device.full_merges),
        ("Multi-plane operations", device.multi_plane_operations),
        ("Programs suspended", device.program_suspensions),
        ("Erases suspended", device.erase_suspensions),
        ("Blocks erased", device.erases),
        ("Blocks reclaimed by GC", device.gc_runs),
        ("Erases of the most erased block", u64::from(device.block_erases_max)),
        ("Blocks retired", device.retired_blocks),
        ("CMT look-ups", device.cmt_lookups),
        ("Cache look-ups", device.cache_lookups),
        ("Media errors", device.media_errors),
        ("Units whose latest data were lost", device.units_lost),
        ("– written in this run", device.units_lost_written),
    ] {
        writeln!(out, "<div><span>{name}</span>{number}</div>")?;
    }
    writeln!(out, "</div></div>")
}

/// What the run says of itself, then what holds of every report.
fn notes(out: &mut String, own: &[String]) -> std::fmt::Result {
    writeln!(out, "<h2>Notes</h2>\n<ul class=\"notes\">")?;
    for note in own {
        writeln!(out, "<li>{}</li>", escape(note))?;
    }
    writeln!(
        out,
        "<li>Latency runs from the insertion into the submission queue to the completion queue \
         entry that the host sees; “from creation” adds the wait for a place in the queue.</li>\n\
         <li>Every time is a modelled time of the drive, not of the machine that ran it. \
         Percentiles are within 0.4 %, percentiles of stages within 0.8 %; means, shortest and \
         longest are exact.</li>\n\
         <li>A command served by several flash operations is described by the path of the last to \
         finish. Means of stages are over all commands, also those that skip the stage. The \
         commands on the edge of the slowest 1 % are taken as the mean of those with nearly the \
         same latency.</li>\n\
         <li>Commands that failed are counted as errors and left out of everything else.</li>\n\
         <li>KiB, MiB and GiB count by 1024; kB, MB and GB by 1000. A unit is the drive's mapping \
         unit.</li>\n</ul>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_result::testing as sample;

    fn contended() -> String {
        html(&sample::contended(), &ReportCurves::new(&sample::contended_recorder()))
    }

    /// But for its first line the document is XML too.
    fn assert_well_formed(html: &str) {
        let mut reader = quick_xml::Reader::from_str(html.trim_start_matches("<!doctype html>"));
        let mut depth = 0i64;
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error}")) {
                quick_xml::events::Event::Start(_) => depth += 1,
                quick_xml::events::Event::End(_) => depth -= 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0);
    }

    #[test]
    fn a_report_is_well_formed_and_needs_nothing_else() {
        for html in [contended(), html(&sample::idle(), &ReportCurves::default())] {
            assert_well_formed(&html);
            for outside in ["<script", "src=", "href=", "url(", "@import", "NaN"] {
                assert!(!html.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn a_report_says_what_the_run_notes_of_itself() {
        let mut result = sample::idle();
        result.notes.push("one <note>".to_owned());
        assert!(!html(&result, &ReportCurves::default()).contains("Interrupted"));
        result.note_interruption();
        let html = html(&result, &ReportCurves::default());
        assert_well_formed(&html);
        for shown in ["<strong>Interrupted:</strong>", "<li>one &lt;note&gt;</li>"] {
            assert!(html.contains(shown), "{shown}");
        }
    }

    #[test]
    fn a_report_shows_what_the_result_says() {
        let html = contended();
        for shown in [
            "sample-tlc-512g",
            "seed 42",
            "mynah sim --drive sample",
            "reader is 2.7 times slower than alone: 75 % of its waiting was for dies held by writer.",
            "write amplification",
            "2.75×",
            "unrecovered read error",
            "Cumulative distribution of latency",
            "cache wait",
        ] {
            assert!(html.contains(shown), "{shown}");
        }
        assert_eq!(html, contended(), "the same result gives the same bytes");
    }

    #[test]
    fn what_pairs_take_is_drawn() {
        let mut result = sample::contended();
        assert!(!contended().contains("Pairs and their index"));
        let counts = mynah_result::KeyValueCounts {
            keys: 12_345,
            capacity_bytes: 1 << 30,
            allocated_bytes: 1 << 29,
            live_bytes: Some(1 << 28),
            ..Default::default()
        };
        result.device.as_mut().expect("a drive").key_value = Some(counts);
        let html = html(&result, &ReportCurves::default());
        assert_well_formed(&html);
        for shown in ["Pairs and their index", "12345", "keys and values: 256MiB, 25.0 %"] {
            assert!(html.contains(shown), "{shown}");
        }
    }

    #[test]
    fn what_handles_cost_is_drawn() {
        let mut result = sample::contended();
        assert!(!contended().contains("Data placement"));
        let of = |host_bytes, moved_for_bytes: [u64; 3]| mynah_result::HandleCost {
            host_bytes,
            programmed_bytes: host_bytes,
            moved_bytes: moved_for_bytes.iter().sum(),
            waf: (host_bytes > 0).then_some(1.25),
            moved_for_bytes: moved_for_bytes.to_vec(),
            ..Default::default()
        };
        let handles =
            vec![of(1 << 30, [0, 0, 3 << 20]), of(0, [0; 3]), of(1 << 20, [1 << 20, 0, 0])];
        let placement = mynah_result::DataPlacement { handles, ..Default::default() };
        result.device.as_mut().expect("a drive").placement = Some(Box::new(placement));
        let html = html(&result, &ReportCurves::default());
        assert_well_formed(&html);
        for shown in
            ["Data placement", "<th>moved for 2</th>", "100.0 % of what was moved of handle 0"]
        {
            assert!(html.contains(shown), "{shown}");
        }
        assert!(!html.contains("moved for 1"), "a handle without data is left out");
    }

    #[test]
    fn a_flow_that_only_failed_is_not_hidden() {
        let mut result = sample::idle();
        result.flows[0].read.errors.insert("aborted".to_owned(), 3);
        assert!(html(&result, &ReportCurves::default()).contains("<b>3</b><span>aborted</span>"));
        assert!(crate::summary::text(&result).contains("read errors: 3 aborted"));
    }

    #[test]
    fn names_cannot_break_out_of_the_text() {
        let mut result = sample::contended();
        let name = "<script>\"&'".to_owned();
        result.drive = name.clone();
        result.flows[0].name = name.clone();
        result.blame[0].holder = name.clone();
        let curves = ReportCurves {
            curves: vec![Curve { name, count: 1, points: vec![(1_000.0, 1.0)] }],
            series: None,
        };
        assert!(!html(&result, &curves).contains("<script"));
    }

    #[test]
    fn stages_have_colours_of_their_own() {
        let mut colours: Vec<_> = Stage::ALL.into_iter().map(stage_colour).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), Stage::COUNT);
    }

    /// Run with `cargo test -p mynah-lab -- --ignored write_a_report` to look at one.
    #[test]
    #[ignore = "for the eye"]
    fn write_a_report() {
        let path = std::env::temp_dir().join("mynah-report.html");
        std::fs::write(&path, contended()).unwrap();
        println!("{}", path.display());
    }
}
