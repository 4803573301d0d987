//! What the demonstration says, in at most 60 lines of 80 columns, the verdict first. What cannot be
//! compared is not shown side by side.

use super::profile::{self, Profiled};
use super::served::{HOST, Served};
use super::{READER, Sides, WRITER};
use mynah_analysis::{GroupReport, ProfileReport, StageReport};
use mynah_drive_file::DEFAULT_DRIVE;
use mynah_report::summary;
use mynah_result::figures::{bar, duration, percent};
use mynah_result::{Latency, Result as RunResult};
use mynah_runtime::lateness::usual_bound;
use mynah_stamp::Span;
use mynah_study::agreement::{Agreement, Comparable, Pair};
use std::fmt::Write;
use std::path::Path;

/// Columns of the page.
const WIDTH: usize = 80;
/// Stages that are shown of a profile, those that take longest.
const STAGES: usize = 5;

/// The verdict, and what it is about.
pub(super) fn served(it: &Served, sides: &Sides) -> String {
    let mut out = wrapped("VERDICT  ", &verdict(it, sides));
    out.push_str("\n1. A drive served over NVMe/TCP on loopback, beside its simulation\n");
    let _ = writeln!(out, "  {DEFAULT_DRIVE} cut down to one chip: {HOST}");
    if !it.agreement.pairs.is_empty() {
        let _ = writeln!(out, "{:>34} {:>11} {:>12}", "predicted", "served", "difference");
    }
    for pair in &it.agreement.pairs {
        let name = pair.kind.name();
        line(&mut out, name, "median", pair, |latency| latency.percentiles.p50);
        if it.agreement.comparable == Comparable::All {
            line(&mut out, "", "99th percentile", pair, |latency| latency.percentiles.p99);
        }
    }
    let host: Vec<_> = it.host.flows.iter().flat_map(|flow| flow.sides()).collect();
    let host = host.iter().filter_map(|(kind, side)| {
        Some(format!("{} {}", kind.name(), duration(side.lat_ns?.percentiles.p50)))
    });
    let host: Vec<_> = host.collect();
    let _ = writeln!(out, "  median at the host, with network and software: {}", host.join(", "));
    let again = format!(
        "All that went into the served drive was recorded. Simulated again, each of its {} \
         completions came at the same picosecond.",
        it.replayed
    );
    out + &wrapped("  ", &again)
}

/// What was shown, whether both agree, and whether to trust it.
fn verdict(it: &Served, sides: &Sides) -> String {
    let Agreement { comparable, missed, .. } = &it.agreement;
    let most = duration(missed.most_ns());
    let mut text = match &it.served.untrusted {
        Some(reason) => format!("NOT TRUSTWORTHY: {reason}. "),
        None => String::new(),
    };
    let agrees = it.agreement.agrees() == Some(true);
    let difference = it.agreement.difference().map_or_else(String::new, percent);
    text += &match comparable {
        Comparable::All if agrees => format!(
            "A drive was predicted, and served in real time: its median latency is the predicted one \
             to {difference}."
        ),
        Comparable::Medians if agrees => format!(
            "Nine of ten commands were late by at most {most}, so that medians can be compared: the \
             drive's is the predicted one to {difference}. The tails are this machine's."
        ),
        Comparable::All | Comparable::Medians => format!(
            "Nine of ten commands were late by at most {most}, but the median latency of the drive as \
             served differs from the predicted one by {difference}."
        ),
        Comparable::Nothing => {
            let who = if missed.host_ns > missed.drive_ns { "sent" } else { "answered" };
            format!(
                "One of ten commands was {who} late by more than {most}, so that served and predicted \
                 latencies are not compared."
            )
        }
    };
    if it.served.untrusted.is_none() {
        let p99 = |latency: Option<Latency>| latency.map_or(0.0, |it| it.percentiles.p99);
        let late = p99(it.served.lateness_ns) + p99(it.served.arrival_uncertainty_ns);
        let reads = it.served.flows.first().and_then(|flow| flow.read.lat_ns);
        let median = reads.map(|reads| Span::from_ps((reads.percentiles.p50 * 1e3) as u64));
        let bound = |median| duration(usual_bound(median).as_ps() as f64 / 1e3);
        // What is above one of two percentiles or the other is up to twice one per cent.
        let _ = write!(
            text,
            " It can be trusted: 98 of 100 commands missed real time by at most {}, and {} are \
             allowed (a tenth of the median, at least {}).",
            duration(late),
            bound(median),
            bound(None)
        );
    }
    if it.earlier > 0 {
        let _ = write!(text, " Try {}: those before were late.", it.earlier + 1);
    }
    if it.served.untrusted.is_some() || *comparable == Comparable::Nothing {
        let _ = write!(text, " {}", sides.help());
    }
    text
}

fn line(out: &mut String, kind: &str, what: &str, pair: &Pair, pick: fn(&Latency) -> f64) {
    let [predicted, served] = [&pair.predicted, &pair.served].map(pick);
    let difference = format!("{:+.1} %", 100.0 * (served / predicted - 1.0));
    let [predicted, served] = [predicted, served].map(duration);
    let _ = writeln!(out, "  {kind:<6} {what:<15} {predicted:>9} {served:>11} {difference:>12}");
}

/// Why a reader takes the time that it takes beside a writer.
pub(super) fn explained(result: &RunResult, report: &Path) -> String {
    let mut out = String::from("\n2. The same drive predicted and explained: who delays whom\n");
    let _ = writeln!(out, "  reader: {READER}\n  writer: {WRITER}");
    for line in summary::explanation(result, "reader").lines() {
        out += &narrowed(line);
    }
    let _ = writeln!(out, "The writer, and pictures: {} (open it in a browser)", report.display());
    out
}

/// Where the time of I/Os of a served drive goes.
pub(super) fn profiled(it: &Profiled) -> String {
    let mut out =
        String::from("\n3. Where the time of an I/O goes, from the host to the flash and back\n");
    let _ = writeln!(out, "  quiet: {}\n  busy:  {}", profile::QUIET, profile::BUSY);
    if let Some(reason) = &it.untrusted {
        let text = format!(
            "NOT TRUSTWORTHY: {reason}. A third thread collects records: a processor more would help."
        );
        out += &wrapped("  ", &text);
    }
    for report in &it.reports.profiles {
        write_profile(&mut out, report, it.untrusted.is_none());
    }
    out
}

/// The stages of what is in both profiles; and what makes it slower, if their times are to be trusted.
fn write_profile(out: &mut String, report: &ProfileReport, is_trusted: bool) {
    let Some(group) = report.groups.iter().find(|group| group.growth.is_some()) else {
        out.push_str("  The profiles have no I/Os in common.\n");
        return;
    };
    let GroupReport { name, lat_ns, growth, .. } = group;
    let base = growth.as_ref().map_or(0.0, |growth| growth.base_mean_ns);
    let _ = writeln!(out, "  {name:<22} {:>9} {:>9} {:>8}", "quiet", "busy", "share");
    let mut shown: Vec<&StageReport> = group.stages.iter().collect();
    let longest = |stage: &StageReport| stage.mean_ns.max(stage.base_mean_ns.unwrap_or(0.0));
    shown.sort_by(|a, b| longest(b).total_cmp(&longest(a)));
    shown.truncate(STAGES);
    let is_shown = |stage: &&StageReport| shown.iter().any(|it| it.stage == stage.stage);
    for stage in group.stages.iter().filter(is_shown) {
        let line = format!(
            "  {:<22} {:>9} {:>9} {:>8} {}",
            stage.stage,
            duration(stage.base_mean_ns.unwrap_or(0.0)),
            duration(stage.mean_ns),
            percent(stage.share),
            bar(stage.share, 16)
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let mean = lat_ns.map_or(0.0, |latency| latency.mean);
    let others = group.stages.len() - shown.len();
    let sum = if others == 0 { "all".to_owned() } else { format!("with {others} shorter ones") };
    let _ = writeln!(out, "  {sum:<22} {:>9} {:>9}", duration(base), duration(mean));
    if is_trusted && let Some(verdict) = report.verdict() {
        *out += &wrapped("  ", &verdict.sentence);
    }
}

/// Commands to try next.
pub(super) fn next() -> String {
    "\n\
     Try next:\n  \
     mynah serve                    and in another terminal\n  \
     mynah bench tcp://127.0.0.1 --rw randread --bs 4k --iodepth 16 --profile\n  \
     mynah serve --record run.rec   then mynah compare run.rec --drive mqsim\n"
        .to_owned()
}

/// A line of a table for the page; if there is no room, its holders are on a second one.
fn narrowed(line: &str) -> String {
    match line.split_once("held by ") {
        Some((start, holders)) if line.chars().count() > WIDTH => {
            // A holder and its part stay together.
            let whole: Vec<_> = holders.split(", ").map(|it| it.replace(' ', "\u{a0}")).collect();
            wrapped(&format!("{start}held by "), &whole.join(", ")).replace('\u{a0}', " ")
        }
        _ => format!("{line}\n"),
    }
}

/// `text` on lines of the page, the first after `start`, the others as far in.
fn wrapped(start: &str, text: &str) -> String {
    let indent = start.chars().count();
    let (mut out, mut column) = (start.to_owned(), indent);
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let width = word.chars().count();
        if column > indent && column + 1 + width > WIDTH {
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests;
