//! Evidence as a table, for people and for `docs/evidence.md`, and as JSON for programs.

use super::{Compared, Evidence, Figure, Fitted, Measurement};
use mynah_result::figures::{count, duration};
use serde_json::{Value, json};
use std::fmt::Write;

/// Text around rows that miss their tolerance, such as colour escapes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paint {
    /// Printed before the row, such as a colour escape.
    pub before: &'static str,
    /// Printed after the row.
    pub after: &'static str,
}

/// A drive's measurements as far as they were run, each with its figures.
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    /// The drive, as it was asked for.
    pub drive: &'a str,
    pub evidence: &'a Evidence,
    /// The measurements that were run, with their figures.
    pub rows: Vec<(&'a Measurement, Vec<Compared>)>,
}

impl Checks<'_> {
    /// Figures that miss their tolerance without a reason in the file.
    pub fn unexplained(&self) -> impl Iterator<Item = (&Measurement, &Compared)> {
        let rows = self.rows.iter().filter(|(measurement, _)| measurement.miss.is_empty());
        let figures = rows.flat_map(|(m, compared)| compared.iter().map(move |c| (*m, c)));
        figures.filter(|(_, compared)| !compared.holds())
    }
}

const HEAD: [&str; 8] = ["load", "start", "figure", "published", "here", "off", "within", "source"];

/// The table, in Markdown: rows that miss say so, and are painted.
pub fn text(checks: &Checks<'_>, paint: Paint) -> String {
    let mut out = format!("### {}\n\n", checks.drive);
    let note = checks.evidence.note.trim();
    if !note.is_empty() {
        let _ = writeln!(out, "{note}\n");
    }
    let mut lines: Vec<([String; 8], bool)> = vec![];
    for (measurement, compared) in &checks.rows {
        lines.extend(compared.iter().map(|one| (cells(measurement, one), one.holds())));
    }
    if lines.is_empty() {
        return out;
    }
    let width = |column: usize| {
        let cells = lines.iter().map(|(cells, _)| cells[column].chars().count());
        cells.max().unwrap_or(0).max(HEAD[column].len())
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let row = |out: &mut String, cells: &[&str; 8]| {
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(out, "| {cell:width$} ");
        }
        out.push('|');
    };
    row(&mut out, &HEAD);
    out.push('\n');
    for width in widths {
        let _ = write!(out, "|{:-<1$}", "", width + 2);
    }
    out.push_str("|\n");
    for (cells, holds) in &lines {
        let Paint { before, after } = if *holds { Paint::default() } else { paint };
        out.push_str(before);
        row(&mut out, &cells.each_ref().map(String::as_str));
        out.push_str(after);
        out.push('\n');
    }
    out.push('\n');
    for (name, source) in &checks.evidence.sources {
        if checks.rows.iter().any(|(measurement, _)| measurement.source == *name) {
            let _ = writeln!(out, "- *{name}*: {source}");
        }
    }
    let missed = checks.rows.iter().filter(|(measurement, compared)| {
        !measurement.miss.is_empty() && compared.iter().any(|one| !one.holds())
    });
    let mut reasons: Vec<(String, &str)> = vec![];
    for (measurement, _) in missed {
        let load = format!("{} ({})", measurement.load, measurement.source);
        match reasons.last_mut() {
            Some((loads, reason)) if *reason == measurement.miss.trim() => {
                loads.push_str("; ");
                loads.push_str(&load);
            }
            _ => reasons.push((load, measurement.miss.trim())),
        }
    }
    for (loads, reason) in reasons {
        let _ = writeln!(out, "- {loads}: {reason}");
    }
    out.push('\n');
    out
}

fn cells(measurement: &Measurement, compared: &Compared) -> [String; 8] {
    let Compared { figure, published: [from, to], here, tolerance, fitted } = *compared;
    let shown = |value| number(figure, value);
    let published =
        if from == to { shown(from) } else { format!("{} to {}", shown(from), shown(to)) };
    let load = match measurement.set.is_empty() {
        true => measurement.load.clone(),
        false => format!("{}, {}", measurement.load, measurement.set.join(", ")),
    };
    let place = match measurement.at.is_empty() {
        true => measurement.source.clone(),
        false => format!("{}, {}", measurement.source, measurement.at),
    };
    let fitted = if fitted { ", fitted" } else { "" };
    let missed = if compared.holds() { "" } else { " MISSED" };
    [
        load,
        measurement.start.name().to_owned(),
        figure.name().to_owned(),
        published,
        shown(here),
        match here.is_nan() {
            true => "none".to_owned(),
            false => format!("{:+.1} %", compared.deviation() * 100.0),
        },
        format!("{:.0} %{missed}", tolerance * 100.0),
        format!("{place}{fitted}"),
    ]
}

/// A figure's number with its unit, as the table has it.
fn number(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Iops => count(value),
        _ if value.is_nan() => "none".to_owned(),
        Figure::Cliff | Figure::SecondCliff => format!("{:.0}GB", value / 1e9),
        _ if figure.unit() == "B/s" => format!("{:.0}MB/s", value / 1e6),
        _ => duration(value),
    }
}

/// The same as JSON: all that the files say, and the deviations.
pub fn json(checks: &[Checks<'_>], hash: impl Fn(&str) -> Option<String>) -> Value {
    let figure = |compared: &Compared| {
        json!({
            "figure": compared.figure.name(),
            "unit": compared.figure.unit(),
            "published": compared.published,
            "here": compared.here,
            "deviation": compared.deviation(),
            "tolerance": compared.tolerance,
            "within": compared.holds(),
            "fitted": compared.fitted,
        })
    };
    let measurement = |(m, compared): &(&Measurement, Vec<Compared>)| {
        json!({
            "load": m.load,
            "length": m.length,
            "start": m.start.name(),
            "set": m.set,
            "source": m.source,
            "at": m.at,
            "fitted": m.fitted == Fitted::All(true),
            "miss": m.miss,
            "figures": compared.iter().map(figure).collect::<Vec<_>>(),
        })
    };
    let drive = |checks: &Checks<'_>| {
        json!({
            "drive": checks.drive,
            "drive_hash": hash(checks.drive),
            "note": checks.evidence.note,
            "sources": checks.evidence.sources,
            "measurements": checks.rows.iter().map(measurement).collect::<Vec<_>>(),
        })
    };
    json!({
        "schema": "mynah.evidence-check/1",
        "drives": checks.iter().map(drive).collect::<Vec<_>>(),
    })
}
