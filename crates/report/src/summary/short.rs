//! The summary on one screen: what was asked and what every flow got, the verdict, the stages that
//! matter, and the one sentence of blame. What says that a result is not to be trusted is never left
//! out.

use super::{
    breakdowns, placement, slc, slow, trim_line, write_foot, write_head, write_losses,
    write_real_time, write_settled,
};
use mynah_result::figures::{bar, duration, percent};
use mynah_result::{Device, Result, StageTime, Verdict};
use std::fmt::Write;

/// Rows of a breakdown that is alone, and of each of two.
const ROWS: [usize; 2] = [6, 3];
/// The longest title of a breakdown.
const TITLE: usize = 22;

pub(super) fn write(
    out: &mut String,
    result: &Result,
    asked: &[(String, String)],
) -> std::fmt::Result {
    write_head(out, result, asked)?;
    if let Some(device) = &result.device {
        write_device(out, result, device)?;
    }
    write_real_time(out, result)?;
    write_stages(out, result)?;
    write_foot(out, result)
}

fn write_device(out: &mut String, result: &Result, device: &Device) -> std::fmt::Result {
    let time = duration(result.simulated_ns);
    writeln!(out, "drive {}, seed {}, {time} simulated:", result.drive, result.seed)?;
    super::write_own_policies(out, device)?;
    if let Some(waf) = device.waf {
        let collected = device.gc_runs;
        match result.steadiness.as_ref() {
            Some(judged) if judged.verdict == Verdict::TooShort => {
                let reason = judged.reason.as_deref().unwrap_or_default();
                writeln!(out, "  WAF {waf:.2}, too short to say whether steady ({reason})")?;
            }
            // Why it is not steady stands above all.
            Some(judged) => {
                let verdict = judged.verdict.name().replace('_', " ");
                writeln!(out, "  WAF {waf:.2}, {verdict}, {collected} blocks collected")?;
            }
            None => writeln!(out, "  WAF {waf:.2}, {collected} blocks collected")?,
        }
        let settled = result.settled.as_ref();
        if let Some(settled) = settled.filter(|settled| settled.verdict == Verdict::NotSteady) {
            write_settled(out, settled)?;
        }
        if let Some(placement) = &device.placement {
            placement::write_short(out, placement)?;
        }
    }
    if let Some(slc) = &device.slc {
        slc::write_short(out, slc)?;
    }
    let hits = [("mapping table", device.cmt_hit_ratio), ("data cache", device.cache_hit_ratio)];
    // A cache that writes pass through has no hits to tell of.
    let hits =
        hits.into_iter().filter_map(|(what, ratio)| Some((what, ratio.filter(|it| *it > 0.0)?)));
    let hits: Vec<_> = hits.map(|(what, ratio)| format!("{what} {}", percent(ratio))).collect();
    if !hits.is_empty() {
        writeln!(out, "  hits: {}", hits.join(", "))?;
    }
    if !device.channel_utilisation.is_empty() && !device.die_utilisation.is_empty() {
        let mean = |of: &[f64]| percent(of.iter().sum::<f64>() / of.len() as f64);
        let [down, up] = device.link_utilisation.map(percent);
        write!(out, "  busy: dies {}", mean(&device.die_utilisation))?;
        write!(out, ", channels {}", mean(&device.channel_utilisation))?;
        writeln!(out, ", link {down} to the drive, {up} to the host")?;
    }
    write_losses(out, device)
}

/// Where the time went: of one kind of command or two, else of all together.
fn write_stages(out: &mut String, result: &Result) -> std::fmt::Result {
    let shown = match breakdowns(result) {
        shown if shown.len() <= ROWS.len() => shown,
        _ => vec![("all I/O".to_owned(), &result.stages[..])],
    };
    for (at, (title, stages)) in shown.iter().enumerate() {
        let title = slow::shortened(title, TITLE);
        let head = if at == 0 { "\n" } else { "" };
        let title = format!("{title}:");
        writeln!(
            out,
            "{head}{title:<23}{:>5} {:>7} {:>21} {:>7}",
            "mean", "share", "slowest 1 %", "share"
        )?;
        write_rows(out, stages, ROWS[shown.len() - 1])?;
    }
    Ok(())
}

/// The stages with the largest shares in their order, and the sum of the others.
fn write_rows(out: &mut String, stages: &[StageTime], most: usize) -> std::fmt::Result {
    let weight = |stage: &StageTime| stage.share.max(stage.tail_share);
    let mut largest: Vec<f64> = stages.iter().map(weight).filter(|it| *it >= 0.01).collect();
    largest.sort_by(|a, b| b.total_cmp(a));
    largest.truncate(most);
    let least = largest.last().copied().unwrap_or(f64::INFINITY);
    let (mut shown, others): (Vec<_>, Vec<_>) =
        stages.iter().partition(|stage| weight(stage) >= least);
    // Of those that weigh the same, the first.
    let rest = shown.split_off(shown.len().min(most));
    for stage in shown {
        let values = [stage.mean_ns, stage.share, stage.tail_mean_ns, stage.tail_share];
        write_row(out, &stage.stage, values)?;
    }
    let others: Vec<_> = others.into_iter().chain(rest).collect();
    if others.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&StageTime) -> f64| others.iter().map(|stage| of(stage)).sum();
    let values = [
        sum(|it| it.mean_ns),
        sum(|it| it.share),
        sum(|it| it.tail_mean_ns),
        sum(|it| it.tail_share),
    ];
    let noun = if others.len() == 1 { "other" } else { "others" };
    write_row(out, &format!("{} {noun}", others.len()), values)
}

fn write_row(out: &mut String, name: &str, values: [f64; 4]) -> std::fmt::Result {
    let [mean, share, tail_mean, tail_share] = values;
    writeln!(
        out,
        "  {name:<16} {:>9} {:>7} {:<10}  {:>9} {:>7} {:<10}",
        duration(mean),
        percent(share),
        bar(share, 10),
        duration(tail_mean),
        percent(tail_share),
        bar(tail_share, 10)
    )?;
    trim_line(out);
    Ok(())
}
