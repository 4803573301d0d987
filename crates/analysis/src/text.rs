//! What is said of a profile, for people.

use super::interference::lines;
use super::report::{GroupReport, ProfileReport, ProfileReports};
use mynah_result::figures::{bandwidth, bar, count, duration, if_known, percent};
use std::fmt::Write;

const BAR: usize = 16;

/// What is shown of groups beside their throughput and occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Latencies: extremes, mean, percentiles.
    pub distribution: bool,
    /// Where time went, stage by stage.
    pub breakdown: bool,
    /// What makes it slower than the base.
    pub verdict: bool,
    pub queue_models: bool,
    /// Who was in the same stage as whom.
    pub interference: bool,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            distribution: true,
            breakdown: true,
            verdict: true,
            queue_models: false,
            interference: false,
        }
    }
}

/// Most lines of interference for each group.
const LINES: usize = 12;

impl ProfileReports {
    pub fn text(&self) -> String {
        self.text_with(Shown::default())
    }

    /// Text with the parts that are asked for.
    pub fn text_with(&self, shown: Shown) -> String {
        let mut out = String::new();
        for (number, profile) in self.profiles.iter().enumerate() {
            if number > 0 {
                out.push('\n');
            }
            write_profile(&mut out, profile, self.base.as_deref(), shown)
                .expect("a string takes everything");
        }
        out
    }
}

fn write_profile(
    out: &mut String,
    profile: &ProfileReport,
    base: Option<&str>,
    shown: Shown,
) -> std::fmt::Result {
    let counts = profile.counts;
    writeln!(
        out,
        "{}: {} of {}, {} I/Os in {}",
        profile.file,
        profile.side,
        profile.name,
        counts.completed,
        duration(profile.window_ns)
    )?;
    let left_out = [
        (counts.filtered, "filtered"),
        (counts.sampled_out, "not sampled"),
        (counts.lost, "lost"),
        (counts.torn, "damaged"),
    ];
    let left_out: Vec<String> = left_out
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if !left_out.is_empty() {
        writeln!(out, "  of these {} recorded, {}", counts.recorded, left_out.join(", "))?;
    }
    if let Some(path) = &profile.path {
        write!(out, "  {} on both sides", path.paths)?;
        if path.by_time > 0 {
            write!(out, " ({} by their time)", path.by_time)?;
        }
        for (number, side) in [(path.host_alone, "host"), (path.target_alone, "target")] {
            if number > 0 {
                write!(out, ", {number} on the {side}'s alone")?;
            }
        }
        if path.one_clock {
            out.push_str("; one clock\n");
        } else {
            let (bound, ppm) = (duration(path.clock_bound_ns), path.clock_drift_ppm);
            let (ahead, offset) = match path.clock_offset_ns {
                offset if offset < 0.0 => ("behind", -offset),
                offset => ("ahead", offset),
            };
            let offset = duration(offset);
            writeln!(
                out,
                "; the target's clock is {offset} {ahead}, \u{b1}{bound}, and drifts by {ppm:.1} ppm"
            )?;
        }
    }
    if let Some(choice) = &profile.choice {
        writeln!(out, "  recorded: {choice}")?;
        if profile.by_time {
            let sides = if profile.path.is_some() { ", and on both sides alike" } else { "" };
            writeln!(
                out,
                "  note: by time who ends first after a pause is taken{sides}: shares of kinds, latencies \
                 and what is outstanding are not those of all; one in N (--profile-sample 1/N) is as all are"
            )?;
        }
    }
    if profile.uneven > 0 {
        let (uneven, most) = (profile.uneven, duration(profile.residual_max_ns));
        writeln!(out, "  the stages of {uneven} do not add up to their latency, by up to {most}")?;
    }
    if profile.groups.is_empty() {
        writeln!(out, "  nothing was recorded")?;
    }
    for group in &profile.groups {
        write_group(out, group, shown)?;
        if let (Some(base), None) = (base, &group.growth) {
            writeln!(out, "  {base} has no such I/Os to compare with")?;
        }
        if shown.queue_models {
            write_queue_models(out, group)?;
        }
    }
    if shown.queue_models {
        match (&profile.no_queue_models, base) {
            (Some(why), _) => writeln!(out, "\nThere are no queue models: {why}.")?,
            (None, None) => writeln!(out, "\nQueue models take a base, for its service times.")?,
            (None, Some(_)) => {}
        }
    }
    if shown.interference {
        let lines = lines(&profile.interference, LINES);
        let none = "\nNothing that sessions cost one another is known: there is one, or not every I/O has \
                    a record, or it is less than 1 %.";
        writeln!(out, "{}", if lines.is_empty() { none } else { "\nInterference, by cost:" })?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    if shown.verdict { write_verdicts(out, profile) } else { Ok(()) }
}

fn write_queue_models(out: &mut String, group: &GroupReport) -> std::fmt::Result {
    if group.queue_models.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  {:<18} {:>10} {:>10} {:>10} {:>10} {:>10}  model",
        "queue", "base", "predicted", "measured", "more load", "slower"
    )?;
    for it in &group.queue_models {
        let signed = |ns: f64| format!("{}{}", if ns < 0.0 { "-" } else { "" }, duration(ns.abs()));
        let servers = it.servers.map_or(String::new(), |servers| format!(" x{servers}"));
        writeln!(
            out,
            "  {:<18} {:>10} {:>10} {:>10} {:>10} {:>10}  {}{servers}, service of {}",
            it.stage,
            duration(it.base_ns),
            duration(it.predicted_ns.max(0.0)),
            duration(it.measured_ns),
            signed(it.more_load_ns),
            signed(it.slower_server_ns),
            it.model,
            it.service
        )?;
    }
    Ok(())
}

/// The verdict of the group that speaks for all, and in a line each those of others.
fn write_verdicts(out: &mut String, profile: &ProfileReport) -> std::fmt::Result {
    let Some(first) = profile.verdict() else { return Ok(()) };
    let judged: Vec<_> = profile.groups.iter().filter(|group| group.verdict.is_some()).collect();
    out.push('\n');
    if judged.len() > 1
        && let Some(name) = &profile.speaker
    {
        writeln!(out, "Of {name}:")?;
    }
    out.push_str(&first.text());
    for group in judged.iter().filter(|group| profile.speaker.as_ref() != Some(&group.name)) {
        if let Some(verdict) = &group.verdict {
            writeln!(out, "Of {}: {}", group.name, verdict.sentence)?;
        }
    }
    Ok(())
}

fn write_group(out: &mut String, group: &GroupReport, shown: Shown) -> std::fmt::Result {
    write!(
        out,
        "\n{}: IOPS={}, BW={}, {} I/Os, {:.1} outstanding",
        group.name,
        count(group.iops),
        bandwidth(group.bw_bytes_per_s),
        group.ios,
        group.outstanding
    )?;
    for (status, number) in &group.failed {
        write!(out, ", {number} failed with status {status}")?;
    }
    if group.kept > 0 {
        let (kept, most) = (group.kept, duration(group.kept_max_ns));
        write!(out, "; beside the sample {kept} slow ones, up to {most}")?;
    }
    out.push('\n');
    let Some(latency) = &group.lat_ns else { return Ok(()) };
    if shown.distribution {
        writeln!(
            out,
            "  lat: min={}, max={}, avg={}, stdev={}",
            duration(latency.min),
            duration(latency.max),
            duration(latency.mean),
            duration(latency.stddev)
        )?;
        let percentiles = latency.percentiles.of(group.ios);
        let percentiles = percentiles.map(|(name, ns)| format!("{name}%={}", if_known(ns)));
        writeln!(out, "    {}", percentiles.join(", "))?;
    }
    if shown.breakdown { write_stages(out, group, latency.mean) } else { Ok(()) }
}

fn write_stages(out: &mut String, group: &GroupReport, mean_ns: f64) -> std::fmt::Result {
    write!(out, "{:>29} {:>7} {:16} {:>10} {:>10}", "mean", "share", "", "50 %", "99 %")?;
    let has_base = group.growth.is_some();
    writeln!(out, "{}", if has_base { "      base  times  of growth" } else { "    in it" })?;
    for stage in &group.stages {
        write!(
            out,
            "  {:<16} {:>10} {:>7} {:<16} {:>10} {:>10}",
            stage.stage,
            duration(stage.mean_ns),
            percent(stage.share),
            bar(stage.share, BAR),
            duration(stage.p50_ns),
            duration(stage.p99_ns)
        )?;
        if has_base {
            let base = stage.base_mean_ns.map_or("-".to_owned(), duration);
            let times = stage.amplification.map_or("-".to_owned(), |it| format!("x{it:.2}"));
            let share = stage.growth_share.map_or("-".to_owned(), percent);
            write!(out, " {base:>9} {times:>6} {share:>10}")?;
        } else {
            write!(out, " {:>8.2}", stage.in_stage)?;
        }
        out.push('\n');
    }
    writeln!(out, "  {:<16} {:>10}", "sum", duration(mean_ns))?;
    if let Some(growth) = &group.growth {
        write!(
            out,
            "  x{:.2} of the base's {}",
            growth.amplification,
            duration(growth.base_mean_ns)
        )?;
        if let Some(stage) = &growth.stage {
            let named = group.stages.iter().find(|it| it.stage == *stage);
            let share = named.and_then(|it| it.growth_share).map_or(String::new(), percent);
            write!(out, ": most of what it grew by, {share}, is {stage}")?;
        }
        out.push('\n');
    }
    Ok(())
}
