//! Profiles as one HTML page that needs nothing else, for the light and the dark: no script, no font
//! and no picture is loaded. The same profiles give the same bytes.

mod bars;
mod flame;
mod heat;
mod slowest;

use super::super::analysis::Analysis;
use super::super::report::{ProfileReport, ProfileReports};
use super::pictures::Pictures;
use mynah_report::html::charts::{self, Vertical};
use mynah_report::html::{COLOURS, Curve, known_stage, stage_colour};
use mynah_report::page;
use mynah_result::figures::duration;
use quick_xml::escape::escape;
use std::fmt::Write;

/// What the pages have beside the style of reports.
const MORE_STYLE: &str = include_str!("html/style.css");
/// Groups of which distributions are drawn, those with most I/Os.
const CURVES_MAX: usize = COLOURS;

/// A profile, and what is drawn of it.
pub(super) struct Side<'a> {
    pub(super) analysis: &'a Analysis,
    pub(super) pictures: &'a Pictures,
}

/// The whole HTML page.
pub(super) fn document(
    reports: &ProfileReports,
    sides: &[Side<'_>],
    base: Option<&Side<'_>>,
    verdict: Option<&str>,
) -> String {
    let mut out = String::with_capacity(1 << 17);
    write_document(&mut out, reports, sides, base, verdict).expect("a string takes everything");
    out
}

fn write_document(
    out: &mut String,
    reports: &ProfileReports,
    sides: &[Side<'_>],
    base: Option<&Side<'_>>,
    verdict: Option<&str>,
) -> std::fmt::Result {
    let names: Vec<&str> = reports.profiles.iter().map(|it| it.file.as_str()).collect();
    let title = names.join(", ");
    page::begin(out, &title, "profile", MORE_STYLE)?;
    writeln!(out, "<header>\n<h1>{}</h1>", escape(&title))?;
    if let Some(base) = &reports.base {
        writeln!(out, "<p class=\"lead\">beside {}</p>", escape(base))?;
    }
    writeln!(out, "</header>")?;
    if let Some(verdict) = verdict {
        write_verdict(out, verdict)?;
    }
    for (report, side) in reports.profiles.iter().zip(sides) {
        if reports.profiles.len() > 1 {
            writeln!(out, "<h2 class=\"file\">{}</h2>", escape(&report.file))?;
        }
        profile(out, report, side, base)?;
    }
    notes(out, base.is_some())?;
    let program = reports.profiles.first().map_or("", |it| it.program.as_str());
    writeln!(out, "<footer>Recorded by {}.</footer>", escape(program))?;
    page::end(out)
}

/// What was made of it: the sentence first, and what it rests on.
fn write_verdict(out: &mut String, verdict: &str) -> std::fmt::Result {
    let (first, rest) = verdict.trim_end().split_once('\n').unwrap_or((verdict.trim_end(), ""));
    writeln!(out, "<section class=\"verdict\"><p class=\"hint\">{}</p>", escape(first))?;
    if !rest.is_empty() {
        writeln!(out, "<pre>{}</pre>", escape(rest))?;
    }
    writeln!(out, "</section>")
}

fn profile(
    out: &mut String,
    report: &ProfileReport,
    side: &Side<'_>,
    base: Option<&Side<'_>>,
) -> std::fmt::Result {
    writeln!(
        out,
        "<p class=\"lead\">{} of {} · {} I/Os in {}</p>",
        escape(&report.side),
        escape(&report.name),
        report.counts.completed,
        duration(report.window_ns)
    )?;
    if report.uneven > 0 {
        writeln!(
            out,
            "<p class=\"alarm\">The stages of {} I/Os do not add up to their latency, by up to \
             {}.</p>",
            report.uneven,
            duration(report.residual_max_ns)
        )?;
    }
    if report.groups.is_empty() {
        writeln!(out, "<p class=\"alarm\">Nothing was recorded.</p>")?;
        return losses(out, report, side);
    }
    bars::panels(out, report, base.is_some())?;
    heat::panels(out, side.pictures, base.map(|base| base.pictures))?;
    distributions(out, side.analysis, base.map(|base| base.analysis))?;
    flame::panel(out, report, base.is_some())?;
    slowest::panel(out, side)?;
    losses(out, report, side)
}

/// The colour of a stage: those that results have, those of hosts and targets that only profiles
/// have, and of others one that their name says.
fn colour(stage: &str) -> &'static str {
    if let Some(known) = known_stage(stage) {
        return stage_colour(known);
    }
    match stage {
        "data_request" | "r2t_wait" => "#4f46b5",
        "data_buffer" => "#7e57c2",
        "host_turn" => "#566b8f",
        "host_receive" => "#7487a3",
        "intake" => "#6b4f9e",
        "entry_fetch" => "#8c6fae",
        "data_transfer" => "#a0722a",
        "completion_post" => "#5b7f4a",
        "processing" | "remote" => "#b7791f",
        "backlog" => "#334155",
        "output" => "#3f6f73",
        _ => {
            const OTHERS: [&str; 4] = ["#6d6a3f", "#3f6d4c", "#6d3f5f", "#5b4a3c"];
            let sum = stage.bytes().fold(0usize, |sum, byte| sum.wrapping_add(byte.into()));
            OTHERS[sum % OTHERS.len()]
        }
    }
}

/// A stage's name as people read it.
fn spoken(stage: &str) -> String {
    escape(stage.replace('_', " ")).into_owned()
}

/// The latencies of groups: all of them, or each beside its base.
fn distributions(
    out: &mut String,
    analysis: &Analysis,
    base: Option<&Analysis>,
) -> std::fmt::Result {
    let curves = |analysis: &Analysis| {
        let groups = analysis.groups().filter(|(_, group)| group.total.count() > 0);
        let curve = |(name, group): (String, &super::super::analysis::Group)| Curve {
            name,
            count: group.total.count(),
            points: group.total.cdf().map(|(span, part)| (span.as_ns_f64(), part)).collect(),
        };
        let mut all: Vec<Curve> = groups.map(curve).collect();
        all.sort_by_key(|curve| std::cmp::Reverse(curve.count));
        all
    };
    let now = curves(analysis);
    let left_out = now.len().saturating_sub(CURVES_MAX);
    writeln!(out, "<h2>Latency</h2>")?;
    match base.map(curves) {
        None => {
            let shown: Vec<Curve> = now.into_iter().take(CURVES_MAX).collect();
            let names: Vec<String> = shown.iter().map(|curve| curve.name.clone()).collect();
            pair(out, &names, &shown)?;
        }
        Some(base) => {
            for curve in now.into_iter().take(CURVES_MAX) {
                writeln!(out, "<h3>{}</h3>", escape(&curve.name))?;
                let beside = base.iter().find(|it| it.name == curve.name).cloned();
                let names = ["now".to_owned(), "base".to_owned()];
                let both: Vec<Curve> = [Some(curve), beside].into_iter().flatten().collect();
                pair(out, &names[..both.len()], &both)?;
            }
        }
    }
    if left_out > 0 {
        writeln!(out, "<p class=\"soft\">{left_out} groups with fewer I/Os are not drawn.</p>")?;
    }
    Ok(())
}

fn pair(out: &mut String, names: &[String], curves: &[Curve]) -> std::fmt::Result {
    if curves.is_empty() {
        return writeln!(out, "<p class=\"soft\">No I/O succeeded.</p>");
    }
    writeln!(out, "<ul class=\"legend\">")?;
    for (n, name) in names.iter().enumerate() {
        let name = escape(name);
        writeln!(out, "<li><i style=\"background:var(--s{n})\"></i>{name}</li>")?;
    }
    writeln!(out, "</ul>\n<div class=\"pair\">")?;
    for (vertical, title) in [
        (Vertical::Fraction, "How many I/Os took at most so long"),
        (Vertical::Nines, "The same by nines: each step up is ten times rarer"),
    ] {
        let chart = charts::distribution(curves, vertical, title);
        let caption = format!("<figcaption>{title}</figcaption>");
        writeln!(out, "<figure class=\"panel\">{chart}{caption}</figure>")?;
    }
    writeln!(out, "</div>")
}

/// What there is no record of, and what the records are of.
fn losses(out: &mut String, report: &ProfileReport, side: &Side<'_>) -> std::fmt::Result {
    let counts = report.counts;
    let gone = counts.recorded.saturating_sub(side.analysis.records);
    let clock = match side.analysis.header.clock {
        mynah_profile::TimeBase::Virtual => "simulated",
        mynah_profile::TimeBase::Monotonic => "monotonic, of the machine",
    };
    writeln!(out, "<h2>What was recorded</h2>\n<div class=\"panel\"><div class=\"columns\">")?;
    for (name, number) in [
        ("I/Os that ended", counts.completed.to_string()),
        ("– with a record", counts.recorded.to_string()),
        ("– filtered", counts.filtered.to_string()),
        ("– not sampled", counts.sampled_out.to_string()),
        ("– lost: no room for their record", counts.lost.to_string()),
        ("Records read", side.analysis.records.to_string()),
        ("– written over by later ones, or damaged", gone.to_string()),
        ("I/Os whose stages do not add up", report.uneven.to_string()),
        ("Clock", clock.to_owned()),
    ] {
        writeln!(out, "<div><span>{name}</span>{number}</div>")?;
    }
    writeln!(out, "</div></div>")
}

fn notes(out: &mut String, has_base: bool) -> std::fmt::Result {
    writeln!(
        out,
        "<h2>Notes</h2>\n<ul class=\"notes\">\n\
         <li>A mean latency is the sum of the means of its stages. Percentiles of a stage count the \
         I/Os that did not pass it as well; they do not add up.</li>\n\
         <li>Occupancy is how many I/Os were in a stage on average, by Little's law: the sum of \
         their times in it over the time of the profile.</li>"
    )?;
    if has_base {
        writeln!(
            out,
            "<li>Times is how many times longer a stage takes than in the base. Trifles grow most \
             times; the part of the growth says what matters.</li>"
        )?;
    }
    writeln!(
        out,
        "<li>I/Os that failed are counted by their status and are in nothing else, but for the \
         slowest.</li>\n</ul>"
    )
}
