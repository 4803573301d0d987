//! Charts of lines over a number: a run over time, a sweep over one of its axes. Drawn as SVG
//! with the report's placeholder colours (see [`super::charts`]).

use quick_xml::escape::escape;
use std::fmt::Write;

pub struct Line {
    /// Index of the colour in the style sheet.
    pub colour: usize,
    /// Points from left to right. A gap is where the height is not a number.
    pub points: Vec<(f64, f64)>,
    /// Confidence intervals: place, height and half-width of each.
    pub errors: Vec<(f64, f64, f64)>,
}

impl Line {
    /// A line without confidence intervals.
    pub fn new(colour: usize, points: Vec<(f64, f64)>) -> Line {
        Line { colour, points, errors: vec![] }
    }

    /// Draws the points without lines between them.
    pub fn apart(self) -> Line {
        let points = self.points.into_iter().flat_map(|(x, y)| [(x, y), (x, f64::NAN)]).collect();
        Line { points, ..self }
    }
}

/// A line chart, drawn as SVG.
pub struct Chart<'a> {
    pub title: &'a str,
    /// What the horizontal axis says, and how its numbers are written.
    pub across: (&'a str, &'a dyn Fn(f64) -> String),
    /// Formats the numbers of the vertical axis.
    pub height: &'a dyn Fn(f64) -> String,
    pub lines: Vec<Line>,
    /// Places on the horizontal axis that have a mark, if not evenly spaced ones.
    pub marks: Option<Vec<f64>>,
    /// Where the measurement began, if not at the left end.
    pub measured_from: Option<f64>,
    /// Whether points are drawn as dots, too. Those that stand alone always are.
    pub dots: bool,
    /// Whether heights are drawn by their logarithm, and the horizontal axis, too.
    pub logarithmic: (bool, bool),
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;

/// An axis, which maps values to coordinates.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, from: f64, to: f64) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let logarithmic = logarithmic && low > 0.0;
        if low == high {
            (low, high) = if logarithmic { (low / 2.0, high * 2.0) } else { (low, low + 1.0) };
        }
        Axis { low, high, logarithmic, from, to }
    }

    /// The vertical axis: from zero to a little above the largest value.
    fn of_heights(values: impl Iterator<Item = f64>, logarithmic: bool) -> Axis {
        let axis = Axis::new(values, logarithmic, HEIGHT - BOTTOM, TOP);
        match axis.logarithmic {
            true => Axis { low: axis.low / 1.15, high: axis.high * 1.15, ..axis },
            false => {
                let high = if axis.high > 0.0 { axis.high * 1.06 } else { 1.0 };
                Axis { low: axis.low.min(0.0), high, ..axis }
            }
        }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => libm::log(value / self.low) / libm::log(self.high / self.low),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + (self.to - self.from) * share
    }

    /// Some four to eight round numbers.
    fn round(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = libm::log10(self.high / self.low);
            let steps: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all =
                (-12..=18).flat_map(|e| steps.iter().map(move |s| s * libm::exp10(f64::from(e))));
            let all: Vec<f64> = all.filter(|it| (self.low..=self.high).contains(it)).collect();
            // Within a part of a decade there may be one, or none.
            if all.len() > 1 {
                return all;
            }
        }
        let rough = (self.high - self.low) / 5.0;
        let power = libm::exp10(libm::log10(rough).floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil();
        let count = ((self.high - first * step) / step).floor().max(0.0) as usize;
        (0..=count.min(20)).map(|n| (first + n as f64) * step).collect()
    }
}

impl Chart<'_> {
    /// The chart as an SVG element with an accessible title.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        self.draw(&mut out).expect("a string takes everything");
        out
    }

    fn draw(&self, out: &mut String) -> std::fmt::Result {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let errors = self.lines.iter().flat_map(|line| &line.errors);
        let ends = errors.map(|(_, y, half)| y + half);
        let (tall, wide) = self.logarithmic;
        let across = Axis::new(points().map(|point| point.0), wide, LEFT, WIDTH - RIGHT);
        let up = Axis::of_heights(points().map(|point| point.1).chain(ends), tall);
        let title = escape(self.title);
        writeln!(
            out,
            "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}\">\
             <title>{title}</title>"
        )?;
        let text = |out: &mut String, x: f64, y: f64, anchor: &str, text: &str| {
            let text = escape(text);
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"12\" \
                 fill=\"#010101\">{text}</text>"
            )
        };
        let line = |out: &mut String, from: (f64, f64), to: (f64, f64)| {
            writeln!(
                out,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#020202\"/>",
                from.0, from.1, to.0, to.1
            )
        };
        for height in up.round() {
            let y = up.place(height);
            line(out, (LEFT, y), (WIDTH - RIGHT, y))?;
            text(out, LEFT - 8.0, y + 4.0, "end", &(self.height)(height))?;
        }
        for mark in self.marks.clone().unwrap_or_else(|| across.round()) {
            let x = across.place(mark);
            line(out, (x, TOP), (x, HEIGHT - BOTTOM))?;
            text(out, x, HEIGHT - BOTTOM + 16.0, "middle", &(self.across.1)(mark))?;
        }
        text(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0, "middle", self.across.0)?;
        if let Some(from) = self.measured_from {
            let x = across.place(from);
            writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#010101\" \
                 fill-opacity=\"0.12\"><title>ramp, not measured</title></rect>",
                x - LEFT,
                HEIGHT - BOTTOM - TOP
            )?;
        }
        for Line { colour, points, errors } in &self.lines {
            let colour = colour % super::COLOURS;
            for (x, y, half) in errors.iter().filter(|(_, y, half)| (y + half).is_finite()) {
                // Nothing that is drawn here can be below zero.
                let least = up.low.min(*y);
                let (x, top, foot) =
                    (across.place(*x), up.place(y + half), up.place((y - half).max(least)));
                writeln!(
                    out,
                    "<path d=\"M{:.1} {top:.1}h8m-4 0V{foot:.1}m-4 0h8\" fill=\"none\" \
                     stroke=\"#0300{colour:02}\" stroke-width=\"1.2\"/>",
                    x - 4.0
                )?;
            }
            for stretch in points.split(|point| !point.1.is_finite()) {
                if stretch.is_empty() {
                    continue;
                }
                write!(
                    out,
                    "<polyline fill=\"none\" stroke=\"#0300{colour:02}\" stroke-width=\"1.6\" \
                     stroke-linejoin=\"round\" points=\""
                )?;
                // A single point would not be seen.
                let last = stretch.last().filter(|_| stretch.len() == 1);
                for (x, y) in stretch.iter().chain(last) {
                    write!(out, "{:.1},{:.1} ", across.place(*x), up.place(*y))?;
                }
                writeln!(out, "\"/>")?;
                for (x, y) in stretch.iter().filter(|_| self.dots || stretch.len() == 1) {
                    let (x, y) = (across.place(*x), up.place(*y));
                    writeln!(
                        out,
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"none\" \
                         stroke=\"#0300{colour:02}\" stroke-width=\"2\"/>"
                    )?;
                }
            }
        }
        writeln!(out, "</svg>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: Vec<Line>, logarithmic: (bool, bool)) -> String {
        let number = |value: f64| format!("{value}");
        Chart {
            title: "a & b",
            across: ("depth", &number),
            height: &number,
            lines,
            marks: None,
            measured_from: None,
            dots: true,
            logarithmic,
        }
        .svg()
    }

    #[test]
    fn axes_have_round_numbers() {
        let axis = Axis::of_heights([3.0, 87.0].into_iter(), false);
        assert_eq!(axis.round(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let axis = Axis::new([1.0, 64.0].into_iter(), true, 0.0, 1.0);
        assert_eq!(axis.round(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert!((axis.place(8.0) - 0.5).abs() < 1e-9);
        let axis = Axis::of_heights([60.0, 63.5].into_iter(), true);
        assert_eq!(axis.round(), [55.0, 60.0, 65.0, 70.0]);
    }

    #[test]
    fn gaps_constants_and_nothing_can_be_drawn() {
        for logarithmic in [(false, false), (true, true)] {
            for points in [vec![], vec![(1.0, 5.0)], vec![(1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0)]]
            {
                let lines = points.iter().filter(|point| point.1.is_nan()).count() + 1;
                let empty = points.is_empty();
                let svg = chart(vec![Line::new(9, points)], logarithmic);
                assert!(svg.contains("<title>a &amp; b</title>"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                let drawn = svg.matches("<polyline").count();
                assert_eq!(drawn, if empty { 0 } else { lines });
            }
        }
    }
}
