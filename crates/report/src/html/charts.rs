//! The charts of a report that have axes, drawn as SVG.
//!
//! Colours are placeholders that the report's style sheet replaces, so that one drawing suits
//! light and dark pages: `#010101` is text and axes, `#020202` the grid, `#0300NN` line NN.

use super::Curve;
use mynah_result::figures::duration;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const TEXT: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
const SIZE: (u32, u32) = (560, 340);
/// Points closer than this part of the axis are not told apart.
const RESOLUTION: f64 = 1.0 / 800.0;

/// What the vertical axis of a distribution shows.
#[derive(Clone, Copy)]
pub enum Vertical {
    /// The fraction of commands, evenly.
    Fraction,
    /// The fraction of commands by nines: 90 %, 99 %, 99.9 % are evenly spaced.
    Nines,
}

impl Vertical {
    fn place(self, fraction: f64, count: u64) -> f64 {
        match self {
            Vertical::Fraction => fraction,
            // The slowest of n commands is shown where all but one of n lie below.
            Vertical::Nines => -libm::log10((1.0 - fraction).max(1.0 / count.max(1) as f64)),
        }
    }

    fn label(self, place: f64) -> String {
        match self {
            Vertical::Fraction => format!("{:.0} %", place * 100.0),
            Vertical::Nines => {
                let nines = place.round();
                let decimals = (nines as usize).saturating_sub(2);
                format!("{:.decimals$} %", 100.0 * (1.0 - libm::exp10(-nines)))
            }
        }
    }
}

/// The latency distributions, as an SVG element with an accessible title.
pub fn distribution(curves: &[Curve], vertical: Vertical, title: &str) -> String {
    let mut svg = String::new();
    draw(&mut svg, curves, vertical).expect("a string takes every drawing");
    let title = quick_xml::escape::escape(title);
    let (tag, content) = svg.split_once('>').expect("an SVG element");
    format!("{tag} role=\"img\" aria-label=\"{title}\"><title>{title}</title>{content}")
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(svg: &'a mut String, curves: &[Curve], vertical: Vertical) -> Result<(), Failure<'a>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let latencies = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
    // A little air on both sides, and an axis even for a constant.
    let low = latencies().reduce(f64::min).unwrap_or(1_000.0).max(1e-3) / 1.15;
    let high = latencies().fold(0.0, f64::max).max(low * 1.3) * 1.15;
    let count = curves.iter().map(|curve| curve.count).max().unwrap_or(1).max(10);
    let top = match vertical {
        Vertical::Fraction => 1.0,
        Vertical::Nines => vertical.place(1.0, count),
    };
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d((low..high).log_scale(), 0.0..top)?;
    let label = ("sans-serif", 15).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(GRID)
        .set_all_tick_mark_size(0)
        .x_label_formatter(&|_| String::new())
        .y_label_formatter(&|_| String::new())
        .label_style(label.clone())
        .axis_desc_style(label.clone())
        .x_desc("latency, logarithmic")
        .draw()?;
    let heights: Vec<f64> = match vertical {
        Vertical::Fraction => vec![0.0, 0.25, 0.5, 0.75, 1.0],
        Vertical::Nines => (0..=top as u32).map(f64::from).collect(),
    };
    for height in heights {
        chart.draw_series(LineSeries::new([(low, height), (high, height)], GRID))?;
        let place = text_place(chart.backend_coord(&(low, height)), (-8, 0));
        let style = label.clone().pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(vertical.label(height), place, style))?;
    }
    for ns in round_latencies(low, high) {
        chart.draw_series(LineSeries::new([(ns, 0.0), (ns, top)], GRID))?;
        let place = text_place(chart.backend_coord(&(ns, 0.0)), (0, 7));
        let style = label.clone().pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(round_label(ns), place, style))?;
    }
    for (n, curve) in curves.iter().enumerate() {
        let colour = RGBColor(3, 0, (n % super::COLOURS) as u8);
        let points = thinned(curve, vertical, libm::log(high / low), top);
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    root.present()?;
    drop(chart);
    Ok(())
}

fn text_place((x, y): (i32, i32), (right, down): (i32, i32)) -> (i32, i32) {
    (x + right, y + down)
}

/// The 1, 2 and 5 of every decade between two latencies, or fewer where they would crowd.
pub fn round_latencies(low: f64, high: f64) -> Vec<f64> {
    let decades = libm::log10(high / low);
    let steps: &[f64] = match decades {
        d if d > 4.0 => &[1.0],
        d if d > 2.2 => &[1.0, 3.0],
        d if d > 0.8 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    };
    (-3..=16)
        .flat_map(|exponent| steps.iter().map(move |step| step * libm::exp10(f64::from(exponent))))
        .filter(|ns| (low..=high).contains(ns))
        .collect()
}

/// A round latency without needless zeros: `200us`, `1.5ms`.
pub fn round_label(ns: f64) -> String {
    let text = duration(ns);
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number}{unit}")
}

/// The points of a curve as far as they can be told apart.
fn thinned(curve: &Curve, vertical: Vertical, width: f64, height: f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let last = curve.points.len().saturating_sub(1);
    for (n, &(ns, fraction)) in curve.points.iter().enumerate() {
        let point = (ns.max(1e-3), vertical.place(fraction, curve.count));
        let near = points.last().is_some_and(|&(x, y)| {
            libm::log(point.0 / x) < width * RESOLUTION && (point.1 - y) < height * RESOLUTION
        });
        if n == 0 {
            points.push((point.0, 0.0));
        }
        if !near || n == last {
            points.push(point);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_are_evenly_spaced() {
        let place = |fraction| Vertical::Nines.place(fraction, 10_000);
        assert!((place(0.9) - 1.0).abs() < 1e-9);
        assert!((place(0.999) - 3.0).abs() < 1e-9);
        assert!((place(1.0) - 4.0).abs() < 1e-9);
        let labels: Vec<_> = (0..5).map(|n| Vertical::Nines.label(f64::from(n))).collect();
        assert_eq!(labels, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn axes_have_round_labels() {
        let labels: Vec<_> = round_latencies(60e3, 4e6).into_iter().map(round_label).collect();
        assert_eq!(labels, ["100us", "200us", "500us", "1ms", "2ms"]);
        assert!(round_latencies(88e3 / 1.15, 88e3 * 1.5).len() >= 2);
    }

    #[test]
    fn no_curves_and_constant_latencies_can_be_drawn() {
        for curves in [
            vec![],
            vec![Curve { name: "a".into(), count: 5, points: vec![(88_000.0, 1.0)] }],
            vec![Curve { name: "a".into(), count: 5, points: vec![(0.0, 1.0)] }],
        ] {
            for vertical in [Vertical::Fraction, Vertical::Nines] {
                let svg = distribution(&curves, vertical, "a & b");
                assert!(svg.contains("<title>a &amp; b</title>"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"));
            }
        }
    }
}
