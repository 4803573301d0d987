//! Measured beside predicted over the queue depth, as SVG: I/Os a second, and latencies.
//!
//! Points are what was measured, lines what the shipped drive does at every power of two between
//! them and beyond. Hollow points were not used for fitting. No number is worked out here.

use super::{Evidence, Figure, Measurement, Published};
use mynah_lab::runner::SharedStates;
use mynah_lab::simulation::SimulationError;
use mynah_report::html::round_label;
use mynah_result::figures::count;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (860, 380);
/// The deepest queue that is drawn.
const DEEPEST: u32 = 256;
const TEXT: RGBColor = RGBColor(0x22, 0x30, 0x3c);
const GRID: RGBColor = RGBColor(0xdd, 0xe3, 0xe8);
/// The latencies that are drawn, from below, and their colours.
const LATENCIES: [(Figure, RGBColor); 4] = [
    (Figure::P50, RGBColor(0x2f, 0x6f, 0x4f)),
    (Figure::Mean, RGBColor(0x1f, 0x5f, 0xa8)),
    (Figure::P99, RGBColor(0xb3, 0x6b, 0x00)),
    (Figure::P999, RGBColor(0xa8, 0x2f, 0x4f)),
];
const THROUGHPUT: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);

/// What is drawn of one figure.
#[derive(Clone, Debug, PartialEq)]
struct Trace {
    figure: Figure,
    /// Depth, value, and whether the drive was fitted to it.
    measured: Vec<(u32, f64, bool)>,
    predicted: Vec<(u32, f64)>,
}

/// Measurements that differ in nothing but their queue depth, and what the drive does.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    drive: String,
    load: String,
    traces: Vec<Trace>,
}

/// The measurements of a drive that make a picture: at least three, which differ only in
/// their queue depth; the most that there are.
fn family(evidence: &Evidence) -> Option<Vec<(u32, &Measurement)>> {
    let depth = |m: &Measurement| m.option("iodepth").and_then(|depth| depth.parse().ok());
    let like = |m: &Measurement| {
        let alike = |other: &&Measurement| {
            let same = |a: &Measurement| (a.without("iodepth"), a.start.name(), a.source.clone());
            same(other) == same(m) && other.set == m.set
        };
        let all = evidence.measurements.iter().filter(alike);
        all.filter_map(|one| Some((depth(one)?, one))).collect::<Vec<_>>()
    };
    let families = evidence.measurements.iter().map(like);
    families.max_by_key(Vec::len).filter(|family| family.len() >= 3)
}

/// The picture of a drive, if there is something to draw: its load is run at every depth.
///
/// # Errors
/// If the drive is not possible, or a run fails.
pub fn picture(
    evidence: &Evidence,
    name_or_path: &str,
    changes: &[String],
) -> Result<Option<Picture>, SimulationError> {
    let Some(family) = family(evidence) else { return Ok(None) };
    let figures = || LATENCIES.iter().map(|(figure, _)| *figure).chain([Figure::Iops]);
    let mut traces: Vec<Trace> =
        figures().map(|figure| Trace { figure, measured: vec![], predicted: vec![] }).collect();
    let mut depths: Vec<u32> = (0..=DEEPEST.ilog2()).map(|power| 1 << power).collect();
    depths.extend(family.iter().map(|(depth, _)| *depth));
    depths.sort_unstable();
    depths.dedup();
    let states = SharedStates::at_once();
    for depth in depths {
        // What is measured there, or else the next that is as long.
        let nearest =
            family.iter().min_by_key(|(other, _)| (other < &depth, other.abs_diff(depth)));
        let (at, model) = *nearest.expect("a family has members");
        let load = format!("{} iodepth={depth}", model.without("iodepth"));
        let model_at = Measurement { load, ..model.clone() };
        let (flow, _) = model_at.run(name_or_path, changes, &states)?;
        for trace in &mut traces {
            trace.predicted.push((depth, trace.figure.of(&flow)));
            let published = model.figures.get(&trace.figure).filter(|_| at == depth);
            if let Some(Published::One(_)) = published {
                let [value, _] = published.expect("it is one").ends(trace.figure).expect("read");
                trace.measured.push((depth, value, model.fitted.has(trace.figure)));
            }
        }
    }
    Ok(Some(Picture {
        drive: name_or_path.to_owned(),
        load: family[0].1.without("iodepth"),
        traces,
    }))
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Picture {
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        self.draw(&mut svg).expect("a string takes every drawing");
        let title = format!("{} measured and predicted: {}", self.drive, self.load);
        let title = quick_xml::escape::escape(&title);
        let (tag, content) = svg.split_once('>').expect("an SVG element");
        format!("{tag} role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>{content}")
    }

    fn draw<'a>(&self, svg: &'a mut String) -> Result<(), Failure<'a>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let text = |size| ("sans-serif", size).into_font().color(&TEXT);
        let heading = format!("{}, {}: points measured, lines predicted", self.drive, self.load);
        root.draw(&Text::new(heading, (16, 12), text(17)))?;
        let (_, below) = root.split_vertically(34);
        let (left, right) = below.split_horizontally(SIZE.0 / 2);
        let of = |figure| self.traces.iter().filter(move |trace| trace.figure == figure);
        let throughput: Vec<_> =
            of(Figure::Iops).map(|trace| (trace, THROUGHPUT, "thousand I/Os a second")).collect();
        panel(&left, &throughput, false)?;
        let latencies = LATENCIES.iter().rev();
        let latencies: Vec<_> = latencies
            .flat_map(|(figure, colour)| {
                of(*figure).map(|trace| (trace, *colour, trace.figure.name()))
            })
            .collect();
        panel(&right, &latencies, true)?;
        // What the points are, where no line goes.
        let at = |y| (SIZE.0 as i32 / 2 - 190, y);
        for (y, fitted, words) in [(286, true, "fitted to"), (304, false, "not used for fitting")] {
            dot(&root, at(y), THROUGHPUT, fitted)?;
            let style = text(13).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(words, (at(y).0 + 10, y), style))?;
        }
        root.present()
    }
}

fn dot<'a>(
    area: &Area<'a>,
    at: (i32, i32),
    colour: RGBColor,
    full: bool,
) -> Result<(), Failure<'a>> {
    let inside = if full { colour } else { WHITE };
    area.draw(&Circle::new(at, 4, inside.filled()))?;
    area.draw(&Circle::new(at, 4, colour.stroke_width(2)))
}

/// One pair of axes: depths across, by powers of two; values up, by their logarithm or not.
fn panel<'a>(
    area: &Area<'a>,
    traces: &[(&Trace, RGBColor, &str)],
    latencies: bool,
) -> Result<(), Failure<'a>> {
    let place = |depth: u32| libm::log2(f64::from(depth));
    let height = |value: f64| if latencies { libm::log10(value) } else { value };
    let values = || {
        let predicted = traces.iter().flat_map(|(trace, ..)| trace.predicted.iter().map(|p| p.1));
        predicted.chain(traces.iter().flat_map(|(trace, ..)| trace.measured.iter().map(|m| m.1)))
    };
    let most = values().fold(0.0, f64::max);
    let least = values().fold(most, f64::min);
    let (low, high) =
        if latencies { (height(least / 1.25), height(most * 1.25)) } else { (0.0, most * 1.08) };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..place(DEEPEST) + 0.2, low..high)?;
    let text = |size| ("sans-serif", size).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(GRID)
        .set_all_tick_mark_size(0)
        .x_label_formatter(&|_| String::new())
        .y_label_formatter(&|_| String::new())
        .axis_desc_style(text(14))
        .x_desc("queue depth")
        .draw()?;
    let right = place(DEEPEST) + 0.2;
    for (value, label) in marks(least, most, latencies) {
        let y = height(value);
        chart.draw_series(LineSeries::new([(0.0, y), (right, y)], GRID))?;
        let (x, y) = chart.backend_coord(&(0.0, y));
        let style = text(13).pos(Pos::new(HPos::Right, VPos::Center));
        root_text(area, &label, (x - 6, y), style)?;
    }
    for power in 0..=DEEPEST.ilog2() {
        let (x, y) = chart.backend_coord(&(f64::from(power), low));
        let style = text(13).pos(Pos::new(HPos::Center, VPos::Top));
        root_text(area, &(1u32 << power).to_string(), (x, y + 6), style)?;
    }
    for (trace, colour, _) in traces {
        let line = trace.predicted.iter().map(|&(depth, value)| (place(depth), height(value)));
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    }
    for (trace, colour, _) in traces {
        for &(depth, value, fitted) in &trace.measured {
            let inside = if fitted { *colour } else { WHITE };
            let at = (place(depth), height(value));
            chart.draw_series([Circle::new(at, 4, inside.filled())])?;
            chart.draw_series([Circle::new(at, 4, colour.stroke_width(2))])?;
        }
    }
    for (row, (_, colour, name)) in traces.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(0.0, high));
        let y = y + 12 + 18 * row as i32;
        let style = ("sans-serif", 14).into_font().color(colour);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        root_text(area, name, (x + 10, y), style)?;
    }
    Ok(())
}

/// Text at a place of the whole picture.
fn root_text<'a>(
    area: &Area<'a>,
    text: &str,
    (x, y): (i32, i32),
    style: TextStyle<'_>,
) -> Result<(), Failure<'a>> {
    let (left, top) = area.get_base_pixel();
    area.draw(&Text::new(text.to_owned(), (x - left, y - top), style))
}

/// Round values between two, with how they are written.
fn marks(least: f64, most: f64, latencies: bool) -> Vec<(f64, String)> {
    if latencies {
        let steps = [1.0, 2.0, 5.0].into_iter();
        let all =
            (0..10).flat_map(|power| steps.clone().map(move |s| s * libm::exp10(f64::from(power))));
        let shown = all.filter(|value| (least / 1.25..=most * 1.25).contains(value));
        return shown.map(|value| (value, round_label(value))).collect();
    }
    let steps = (0..9).flat_map(|power| [1.0, 2.0, 5.0].map(|s| s * libm::exp10(f64::from(power))));
    let step = { steps }.find(|step| most / step <= 6.0).unwrap_or(most);
    let all = (0..=6).map(|n| f64::from(n) * step).take_while(|value| *value <= most * 1.08);
    all.map(|value| (value, if value == 0.0 { "0".into() } else { count(value) })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = r#"
        schema = "mynah.evidence/1"
        within = { iops = "5%", "p99" = "10%" }
        sources = { lab = "A measurement" }
        [[measurement]]
        load = "rw=randread bs=4k iodepth=1"
        length = "number_ios=3000"
        start = "fill"
        source = "lab"
        fitted = true
        figures = { iops = "16k", p99 = "64us" }
        [[measurement]]
        load = "rw=randread bs=4k iodepth=2"
        length = "number_ios=3000"
        start = "fill"
        source = "lab"
        figures = { iops = "32k" }
        [[measurement]]
        load = "rw=randread bs=128k iodepth=3"
        length = "number_ios=3000"
        start = "fill"
        source = "lab"
        figures = { iops = "20k" }
    "#;

    #[test]
    fn measurements_that_differ_in_more_than_their_depth_make_no_picture() {
        let small = ["geometry.blocks_per_plane=64".to_owned(), "over_provisioning=35%".to_owned()];
        let of = |text: &str| {
            let evidence = Evidence::parse(text).unwrap();
            picture(&evidence, "enterprise-tlc", &small).unwrap()
        };
        assert_eq!(of(THREE), None);
        let drawn = of(&THREE.replace("bs=128k", "bs=4k")).unwrap();
        assert_eq!(drawn.load, "rw=randread bs=4k");
        let trace = drawn.traces.iter().find(|trace| trace.figure == Figure::Iops).unwrap();
        let measured = [(1, 16e3, true), (2, 32e3, false), (3, 20e3, false)];
        assert_eq!(trace.measured, measured);
        let depths: Vec<u32> = trace.predicted.iter().map(|(depth, _)| *depth).collect();
        assert_eq!(depths, [1, 2, 3, 4, 8, 16, 32, 64, 128, 256]);
        assert!(trace.predicted.is_sorted_by(|a, b| a.1 < b.1), "more at a time, more a second");
        let svg = drawn.svg();
        assert!(svg.starts_with("<svg") && svg.contains("measured and predicted"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        // Four measured values, each a filled circle and its rim, and the two that explain them.
        assert_eq!(svg.matches("<circle").count(), 2 * (4 + 2));
    }

    #[test]
    fn axes_are_marked_at_round_values() {
        let words = |marks: Vec<(f64, String)>| marks.into_iter().map(|m| m.1).collect::<Vec<_>>();
        assert_eq!(words(marks(0.0, 740e3, false)), ["0", "200k", "400k", "600k"]);
        assert_eq!(words(marks(56e3, 870e3, true)), ["50us", "100us", "200us", "500us", "1ms"]);
    }
}
