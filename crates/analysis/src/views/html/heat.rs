//! Heat maps: when I/Os ended, across, and how long they took, up; the fuller, the more of them. Lines
//! of averages hide modes and outliers, which this shows (Gregg, "Visualizing System Latency", ACM
//! Queue 8(5), 2010).

use super::super::pictures::{COLUMNS, Heat, Pictures, Rows};
use mynah_report::html::charts::{round_label, round_latencies};
use mynah_result::figures::{duration, percent};
use std::fmt::Write;
use std::ops::RangeInclusive;

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 36.0;
/// Height of all rows together, in pixels.
const TALL: f64 = 230.0;
const SHADES: usize = 12;

pub(super) fn panels(
    out: &mut String,
    now: &Pictures,
    base: Option<&Pictures>,
) -> std::fmt::Result {
    let all = [Some(now), base].into_iter().flatten().map(|pictures| &pictures.heat);
    let rows = all.flat_map(|heat| heat.rows.keys().copied());
    let rows: Vec<usize> = rows.collect();
    let (Some(&low), Some(&high)) = (rows.iter().min(), rows.iter().max()) else { return Ok(()) };
    // Some air, and an axis even for a constant.
    let rows = low.saturating_sub(1)..=(high + 1).min(Rows::LEN - 1);
    writeln!(
        out,
        "<h2>Latency over time</h2>\n<p class=\"soft\">I/Os by the time at which they ended and by \
         their latency; the shade is their share of all, by its root, so that single ones are \
         seen.</p>"
    )?;
    for (name, pictures) in [("base", base), ("now", Some(now))] {
        let Some(pictures) = pictures else { continue };
        let title = if base.is_some() { name } else { "latency over time" };
        let (svg, most) = map(&pictures.heat, &rows, title);
        writeln!(
            out,
            "<figure class=\"panel\">{svg}<figcaption>{}a column is {}; the fullest cell has {} of \
             the I/Os</figcaption></figure>",
            if base.is_some() { format!("{name}: ") } else { String::new() },
            duration(pictures.heat.column.as_ns_f64()),
            percent(most)
        )?;
    }
    Ok(())
}

/// The map, and the share of the fullest cell.
fn map(heat: &Heat, rows: &RangeInclusive<usize>, title: &str) -> (String, f64) {
    let mut out = String::new();
    let most = heat.rows.values().flatten().copied().max().unwrap_or(0).max(1) as f64;
    let all: f64 = heat.rows.values().flatten().map(|&count| count as f64).sum();
    draw(&mut out, heat, rows, most, title).expect("a string takes everything");
    (out, most / all.max(1.0))
}

fn draw(
    out: &mut String,
    heat: &Heat,
    rows: &RangeInclusive<usize>,
    most: f64,
    title: &str,
) -> std::fmt::Result {
    let count = (rows.end() - rows.start() + 1) as f64;
    let (wide, tall) = ((WIDTH - LEFT - 8.0) / COLUMNS as f64, TALL / count);
    let (height, bottom) = (TOP + TALL + BOTTOM, TOP + TALL);
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
         <title>{title}</title>"
    )?;
    // The end of a row is the beginning of the next, so places between them are by the value.
    let place = |ps: f64| {
        let row = Rows::index(ps as u64);
        let (low, width) = Rows::range(row);
        let into = ((ps - low as f64) / width as f64).clamp(0.0, 1.0);
        bottom - (row as f64 - *rows.start() as f64 + into) * tall
    };
    let (low, high) = (Rows::range(*rows.start()).0 as f64, Rows::range(*rows.end()).0 as f64);
    for ns in round_latencies(low.max(1.0) / 1e3, high / 1e3) {
        let y = place(ns * 1e3);
        writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#020202\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"12\" \
             fill=\"#010101\">{}</text>",
            WIDTH - 8.0,
            LEFT - 8.0,
            y + 4.0,
            round_label(ns)
        )?;
    }
    for mark in 0..=5 {
        let column = COLUMNS as f64 * f64::from(mark) / 5.0;
        let ns = heat.column.as_ns_f64() * column;
        let anchor = ["start", "middle", "middle", "middle", "middle", "end"][mark as usize];
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"12\" \
             fill=\"#010101\">{}</text>",
            LEFT + column * wide,
            bottom + 18.0,
            duration(ns)
        )?;
    }
    // One path a shade takes a tenth of the bytes that a rectangle a cell would.
    let mut shades = vec![String::new(); SHADES];
    for (&row, columns) in &heat.rows {
        let y = bottom - (row as f64 - *rows.start() as f64 + 1.0) * tall;
        for (column, &count) in columns.iter().enumerate().filter(|(_, count)| **count > 0) {
            let shade = ((count as f64 / most).sqrt() * SHADES as f64).ceil() as usize;
            let path = &mut shades[shade.clamp(1, SHADES) - 1];
            let x = LEFT + column as f64 * wide;
            write!(path, "M{x:.1} {y:.1}h{wide:.2}v{tall:.2}h-{wide:.2}z")?;
        }
    }
    for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let opacity = 0.1 + 0.9 * (shade + 1) as f64 / SHADES as f64;
        writeln!(out, "<path style=\"fill:var(--heat);fill-opacity:{opacity:.2}\" d=\"{path}\"/>")?;
    }
    writeln!(out, "</svg>")
}
