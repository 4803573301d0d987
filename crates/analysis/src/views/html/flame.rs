//! A flame graph of stages: all I/Os, their groups, whose part of the path it is, and the stage. Widths
//! are time. Beside a base colours say what has grown and what has shrunk for each I/O; without one
//! they are those of the stages.

use super::super::super::report::{GroupReport, ProfileReport};
use super::super::part_of_path;
use super::{colour, spoken};
use mynah_result::figures::{duration, percent};
use quick_xml::escape::escape;
use std::fmt::Write;

struct Frame {
    name: String,
    /// Time of all I/Os in it, in nanoseconds.
    time: f64,
    /// Mean time for each I/O, and by how much that is longer than in the base.
    mean: f64,
    grown: Option<f64>,
    /// Its growth as a share of the base's mean latency.
    change: Option<f64>,
    colour: Option<&'static str>,
}

pub(super) fn panel(out: &mut String, report: &ProfileReport, has_base: bool) -> std::fmt::Result {
    let mut levels: [Vec<Frame>; 4] = Default::default();
    for group in report.groups.iter().filter(|group| group.lat_ns.is_some()) {
        stack(group, &mut levels);
    }
    let total: f64 = levels[1].iter().map(|frame| frame.time).sum();
    if total <= 0.0 {
        return Ok(());
    }
    let ios = report.groups.iter().map(|group| group.ios).sum::<u64>().max(1);
    levels[0].push(Frame {
        name: "all I/Os".to_owned(),
        time: total,
        mean: total / ios as f64,
        grown: None,
        change: None,
        colour: None,
    });
    let changes = levels[3].iter().filter_map(|frame| frame.change).map(f64::abs);
    let most = changes.fold(0.0, f64::max);
    writeln!(
        out,
        "<h2>Flame graph</h2>\n<p class=\"soft\">Widths are the time of all I/Os together: all, \
         groups, whose part of the path, stages.{}</p>\n<div class=\"panel\">",
        match has_base {
            true => " Red takes longer for each I/O than in the base, blue shorter.",
            false => "",
        }
    )?;
    for level in levels.iter().rev() {
        write!(out, "<div class=\"flame\">")?;
        for frame in level {
            write_frame(out, frame, total, most)?;
        }
        writeln!(out, "</div>")?;
    }
    writeln!(out, "</div>")
}

/// Puts a group's boxes on the levels.
fn stack(group: &GroupReport, levels: &mut [Vec<Frame>; 4]) {
    let Some(latency) = &group.lat_ns else { return };
    let base = group.growth.as_ref().map(|growth| growth.base_mean_ns);
    let frame = |name: String, mean: f64, grown: Option<f64>| Frame {
        name,
        time: mean * group.ios as f64,
        mean,
        grown,
        change: grown.zip(base).map(|(grown, base)| grown / base),
        colour: None,
    };
    let grown = base.map(|base| latency.mean - base);
    levels[1].push(frame(escape(&group.name).into_owned(), latency.mean, grown));
    // What an I/O comes to twice, as it does to the host, is two boxes.
    let mut part: Option<(&str, f64, f64)> = None;
    let close = |levels: &mut [Vec<Frame>; 4], part: Option<(&str, f64, f64)>| {
        if let Some((name, mean, grown)) = part {
            levels[2].push(frame(name.to_owned(), mean, base.map(|_| grown)));
        }
    };
    for stage in &group.stages {
        let grown = stage.mean_ns - stage.base_mean_ns.unwrap_or(0.0);
        let whose = part_of_path(&stage.stage);
        part = match part {
            Some((name, mean, all)) if name == whose => {
                Some((name, mean + stage.mean_ns, all + grown))
            }
            before => {
                close(levels, before);
                Some((whose, stage.mean_ns, grown))
            }
        };
        levels[3].push(Frame {
            colour: base.is_none().then(|| colour(&stage.stage)),
            ..frame(spoken(&stage.stage), stage.mean_ns, base.map(|_| grown))
        });
    }
    close(levels, part);
}

fn write_frame(out: &mut String, frame: &Frame, total: f64, most: f64) -> std::fmt::Result {
    let share = frame.time / total;
    let fits = share * 160.0 > frame.name.len() as f64 + 2.0;
    let label = if fits { frame.name.as_str() } else { "" };
    let mut title = format!("{}: {}, {}", frame.name, duration(frame.mean), percent(share));
    if let Some(grown) = frame.grown {
        let sign = if grown < 0.0 { "−" } else { "+" };
        write!(title, ", {sign}{}", duration(grown.abs()))?;
    }
    let width = share * 100.0;
    match (frame.change, frame.colour) {
        (Some(change), _) if change != 0.0 => {
            let class = if change > 0.0 { "grew" } else { "shrank" };
            // Totals change by more than any stage.
            let part = (change.abs() / most.max(f64::MIN_POSITIVE)).min(1.0) * 85.0;
            write!(
                out,
                "<i class=\"{class}\" style=\"width:{width:.3}%;--part:{part:.1}%\" \
                 title=\"{title}\">{label}</i>"
            )
        }
        (None, Some(colour)) => write!(
            out,
            "<i class=\"stage\" style=\"width:{width:.3}%;background:{colour}\" \
             title=\"{title}\">{label}</i>"
        ),
        _ => write!(out, "<i style=\"width:{width:.3}%\" title=\"{title}\">{label}</i>"),
    }
}
