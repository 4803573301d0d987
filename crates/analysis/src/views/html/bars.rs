//! Groups of I/Os: the stages of their mean latency as a bar, below that of the base, and as a table.

use super::super::super::report::{GroupReport, ProfileReport, StageReport};
use super::{colour, spoken};
use mynah_report::html::known_stage;
use mynah_result::figures::{bandwidth, count, duration, percent};
use quick_xml::escape::escape;
use std::fmt::Write;

pub(super) fn panels(out: &mut String, report: &ProfileReport, has_base: bool) -> std::fmt::Result {
    writeln!(
        out,
        "<h2>Where the time went</h2>\n<p class=\"soft\">Each bar is the mean latency by \
         stage{}.</p>",
        if has_base { "; base and now have the same scale" } else { "" }
    )?;
    legend(out, report)?;
    for group in &report.groups {
        panel(out, group, has_base)?;
    }
    Ok(())
}

/// The stages that any group spent time in, in the order in which I/Os pass them.
fn legend(out: &mut String, report: &ProfileReport) -> std::fmt::Result {
    let mut names: Vec<&str> = vec![];
    for group in &report.groups {
        let mut at = 0;
        for stage in &group.stages {
            match names.iter().position(|name| *name == stage.stage) {
                Some(known) => at = known + 1,
                None => {
                    names.insert(at.min(names.len()), &stage.stage);
                    at += 1;
                }
            }
        }
    }
    writeln!(out, "<ul class=\"legend\">")?;
    for name in names {
        let what = known_stage(name).map_or("", |stage| stage.description().trim());
        let (what, colour, name) = (escape(what), colour(name), spoken(name));
        writeln!(out, "<li title=\"{what}\"><i style=\"background:{colour}\"></i>{name}</li>")?;
    }
    writeln!(out, "</ul>")
}

fn panel(out: &mut String, group: &GroupReport, has_base: bool) -> std::fmt::Result {
    let name = escape(&group.name);
    writeln!(out, "<div class=\"panel\"><h3 class=\"first\">{name}</h3>")?;
    write!(
        out,
        "<p class=\"soft\">{} IOPS · {} · {} I/Os · {:.1} outstanding",
        count(group.iops),
        bandwidth(group.bw_bytes_per_s),
        group.ios,
        group.outstanding
    )?;
    for (status, number) in &group.failed {
        write!(out, " · {number} failed with status {}", escape(status))?;
    }
    writeln!(out, "</p>")?;
    let Some(latency) = &group.lat_ns else { return writeln!(out, "</div>") };
    let base_mean = group.growth.as_ref().map_or(0.0, |growth| growth.base_mean_ns);
    let scale = latency.mean.max(base_mean).max(f64::MIN_POSITIVE);
    let base = |stage: &StageReport| stage.base_mean_ns.unwrap_or(0.0);
    if group.growth.is_some() {
        bar(out, "base", &group.stages, base, scale)?;
    }
    bar(out, "now", &group.stages, |stage| stage.mean_ns, scale)?;
    writeln!(
        out,
        "<p class=\"soft\">50 % within {}, 99 % within {}, 99.9 % within {}, longest {}</p>",
        duration(latency.percentiles.p50),
        duration(latency.percentiles.p99),
        duration(latency.percentiles.p99_9),
        duration(latency.max)
    )?;
    if let Some(growth) = &group.growth {
        let share = growth.stage.as_ref().and_then(|most| {
            let stage = group.stages.iter().find(|it| it.stage == *most)?;
            Some(format!(
                "; most of what was added, {}, is {}",
                percent(stage.growth_share?),
                spoken(most)
            ))
        });
        writeln!(
            out,
            "<p><strong>×{:.2}</strong> of the base's {}{}.</p>",
            growth.amplification,
            duration(growth.base_mean_ns),
            share.unwrap_or_default()
        )?;
    } else if has_base {
        writeln!(out, "<p>The base has no such I/Os.</p>")?;
    }
    table(out, group)?;
    writeln!(out, "</div>")
}

fn bar(
    out: &mut String,
    name: &str,
    stages: &[StageReport],
    of: impl Fn(&StageReport) -> f64,
    scale: f64,
) -> std::fmt::Result {
    let total: f64 = stages.iter().map(&of).sum();
    let part = |stage: &StageReport| format!("{} {}", spoken(&stage.stage), duration(of(stage)));
    let said: Vec<String> = stages.iter().map(part).collect();
    write!(out, "<div class=\"stack\"><span>{name}</span>")?;
    write!(out, "<div class=\"bar\" role=\"img\" aria-label=\"{name}: {}\">", said.join(", "))?;
    for stage in stages.iter().filter(|stage| of(stage) > 0.0) {
        let (ns, label) = (of(stage), spoken(&stage.stage));
        let share = ns / scale;
        // About as many characters as fit into the segment.
        let fits = share * 120.0 > label.len() as f64 + 2.0;
        write!(
            out,
            "<i style=\"width:{:.3}%;background:{}\" title=\"{label}: {}, {}\">{}</i>",
            share * 100.0,
            colour(&stage.stage),
            duration(ns),
            percent(ns / total),
            if fits { &label } else { "" }
        )?;
    }
    writeln!(out, "</div><span>{}</span></div>", duration(total))
}

fn table(out: &mut String, group: &GroupReport) -> std::fmt::Result {
    let has_base = group.growth.is_some();
    write!(
        out,
        "<table><thead><tr><th class=\"left\">stage</th><th>mean</th><th>share</th>\
         <th>50 % within</th><th>99 % within</th><th>occupancy</th>"
    )?;
    if has_base {
        write!(out, "<th>base</th><th>times</th><th>of growth</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for stage in &group.stages {
        write!(
            out,
            "<tr><th scope=\"row\"><i class=\"key\" style=\"background:{}\"></i>{}</th><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            colour(&stage.stage),
            spoken(&stage.stage),
            duration(stage.mean_ns),
            percent(stage.share),
            duration(stage.p50_ns),
            duration(stage.p99_ns),
            count(group.iops * stage.mean_ns / 1e9)
        )?;
        if has_base {
            let base = stage.base_mean_ns.map_or("–".to_owned(), duration);
            let times = stage.amplification.map_or("–".to_owned(), |it| format!("×{it:.2}"));
            let share = stage.growth_share.map_or("–".to_owned(), percent);
            let heat = stage.growth_share.unwrap_or(0.0).clamp(0.0, 1.0) * 80.0;
            write!(
                out,
                "<td>{base}</td><td>{times}</td><td class=\"heat\" style=\"--part:{heat:.1}%\">\
                 {share}</td>"
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table>")
}
