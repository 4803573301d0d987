//! Pages of tables and charts, one HTML file each, in the style of reports; and tables as text.

use crate::html::lines::{Chart, Line};
use crate::page;
pub use crate::page::{alarm, end};
use quick_xml::escape::escape;
use std::fmt::{Result, Write};

/// Begins a page about one thing; `kind` says in the window's title what it is.
///
/// # Errors
/// Those of `out`.
pub fn begin(out: &mut String, title: &str, kind: &str, lead: &str) -> Result {
    page::begin(out, title, kind, "")?;
    let (title, lead) = (escape(title), escape(lead));
    writeln!(out, "<header>\n<h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n</header>")
}

/// A table with a head; the first column holds names.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut String, head: &[String], rows: &[Vec<String>]) -> Result {
    writeln!(out, "<div class=\"panel\"><table><thead><tr>")?;
    for (index, cell) in head.iter().enumerate() {
        let class = if index == 0 { " class=\"left\"" } else { "" };
        write!(out, "<th{class}>{}</th>", escape(cell.as_str()))?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for row in rows {
        write!(out, "<tr>")?;
        for (index, cell) in row.iter().enumerate() {
            let class = if index == 0 { " class=\"left\"" } else { "" };
            write!(out, "<td{class}>{}</td>", escape(cell.as_str()))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// What the lines of the charts that follow are.
///
/// # Errors
/// Those of `out`.
pub fn legend(out: &mut String, names: &[&str]) -> Result {
    writeln!(out, "<ul class=\"legend\">")?;
    for (index, name) in names.iter().enumerate() {
        let name = escape(*name);
        writeln!(out, "<li><i style=\"background:var(--s{index})\"></i>{name}</li>")?;
    }
    writeln!(out, "</ul>")
}

/// Writes a chart with its caption.
///
/// # Errors
/// Those of `out`.
pub fn chart(out: &mut String, chart: &Chart<'_>) -> Result {
    let (svg, caption) = (chart.svg(), escape(chart.title));
    writeln!(out, "<figure class=\"panel\">{svg}<figcaption>{caption}</figcaption></figure>")
}

/// Points that no line joins.
pub fn scattered(colour: usize, points: impl Iterator<Item = (f64, f64)>) -> Line {
    Line::new(colour, points.collect()).apart()
}

/// A table as text: columns side by side, the first to the left, others to the right.
pub fn columns(head: &[String], rows: &[Vec<String>]) -> String {
    let all = || std::iter::once(head).chain(rows.iter().map(Vec::as_slice));
    let width = |column: usize| {
        let cells = all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for row in all() {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match index {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A share with a sign: `+1.2 %`.
pub fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
