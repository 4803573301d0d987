//! Throughput over what was written, as SVG: what a drive does, and what was published of the real one.

use super::fill::Curve;
use super::{Evidence, Figure, Measurement, Published};
use mynah_lab::runner::SharedStates;
use mynah_lab::simulation::SimulationError;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (860, 380);
const TEXT: RGBColor = RGBColor(0x22, 0x30, 0x3c);
const GRID: RGBColor = RGBColor(0xdd, 0xe3, 0xe8);
const PREDICTED: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
const PUBLISHED: RGBColor = RGBColor(0xb3, 0x6b, 0x00);

/// The curve of a drive that is written from one end to the other, and what was published of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FillPicture {
    drive: String,
    load: String,
    /// Gigabytes written, gigabytes a second.
    curve: Vec<(f64, f64)>,
    published: Vec<(f64, f64)>,
}

/// The picture of a drive, if its evidence has such a curve.
///
/// # Errors
/// If the drive is not possible, or the run fails.
pub fn fill_picture(
    evidence: &Evidence,
    name_or_path: &str,
    changes: &[String],
) -> Result<Option<FillPicture>, SimulationError> {
    let of_curve = |m: &&Measurement| m.figures.contains_key(&Figure::Cliff);
    let Some(measurement) = evidence.measurements.iter().find(of_curve) else { return Ok(None) };
    let (_, curve) = measurement.run(name_or_path, changes, &SharedStates::at_once())?;
    Ok(curve.map(|curve| FillPicture {
        drive: name_or_path.to_owned(),
        load: measurement.load.clone(),
        published: published(measurement, &curve),
        curve: curve.points.iter().map(|&(at, rate)| (at / 1e9, rate / 1e9)).collect(),
    }))
}

/// The plateaus that were published, as steps: each up to its cliff, the last to the end.
fn published(measurement: &Measurement, curve: &Curve) -> Vec<(f64, f64)> {
    let value = |figure: Figure| {
        let published: &Published = measurement.figures.get(&figure)?;
        let [from, to] = published.ends(figure).ok()?;
        Some((from + to) / 2e9)
    };
    let end = curve.points.last().map_or(0.0, |point| point.0 / 1e9);
    let (mut from, mut steps) = (0.0, vec![]);
    let phases = [
        (Figure::First, Some(Figure::Cliff)),
        (Figure::Second, Some(Figure::SecondCliff)),
        (Figure::Third, None),
    ];
    for (rate, cliff) in phases {
        let Some(rate) = value(rate) else { break };
        let to = cliff.and_then(value).unwrap_or(end);
        steps.extend([(from, rate), (to, rate)]);
        from = to;
    }
    steps
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

impl FillPicture {
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        self.draw(&mut svg).expect("a string takes every drawing");
        let title = format!("{} written from end to end, published and predicted", self.drive);
        let title = quick_xml::escape::escape(&title);
        let (tag, content) = svg.split_once('>').expect("an SVG element");
        format!("{tag} role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>{content}")
    }

    fn draw<'a>(&self, svg: &'a mut String) -> Result<(), Failure<'a>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let text = |size, colour: RGBColor| ("sans-serif", size).into_font().color(&colour);
        let heading = format!("{}, {}, erased before", self.drive, self.load);
        root.draw(&Text::new(heading, (16, 12), text(17, TEXT)))?;
        let most = self.curve.iter().chain(&self.published).map(|it| it.1).fold(0.0, f64::max);
        let end = self.curve.last().map_or(1.0, |it| it.0);
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .margin_top(44)
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..end, 0.0..most * 1.12)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_desc("GB written")
            .y_desc("GB/s")
            .label_style(text(13, TEXT))
            .axis_desc_style(text(14, TEXT))
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.1}"))
            .draw()?;
        let published = self.published.iter().copied();
        chart.draw_series(LineSeries::new(published, PUBLISHED.stroke_width(3)))?;
        let curve = self.curve.iter().copied();
        chart.draw_series(LineSeries::new(curve, PREDICTED.stroke_width(2)))?;
        for (row, (words, colour)) in
            [("predicted", PREDICTED), ("published", PUBLISHED)].into_iter().enumerate()
        {
            let style = text(14, colour).pos(Pos::new(HPos::Right, VPos::Center));
            let at = (SIZE.0 as i32 - 24, 56 + 18 * row as i32);
            root.draw(&Text::new(words, at, style))?;
        }
        root.present()
    }
}
