//! What came of stages that were fitted: for a terminal, and as a page of pictures.

use super::{SizeFit, StageFit, StageFits};
use mynah_report::html::lines::{Chart, Line};
use mynah_report::sheet as page;
use mynah_result::figures::{bytes, duration};
use std::fmt::{Result, Write};

const SUMMARY: [&str; 7] =
    ["stage", "sizes", "samples", "from", "to", "off the means (rms)", "without a size (rms)"];
const SIZES: [&str; 7] =
    ["size", "repeats", "mean", "median", "spread", "curve", "curve over mean"];

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

impl StageFit {
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.stage, self.direction)
    }

    fn ends(&self) -> [&SizeFit; 2] {
        [&self.sizes[0], &self.sizes[self.sizes.len() - 1]]
    }

    fn row(&self) -> Vec<String> {
        let samples: usize = self.sizes.iter().map(|size| size.repeats).sum();
        let [first, last] = self.ends();
        let end =
            |size: &SizeFit| format!("{} {}", bytes(size.bytes as f64), duration(size.fitted_ns));
        vec![
            self.name(),
            self.sizes.len().to_string(),
            samples.to_string(),
            end(first),
            end(last),
            percent(self.residual),
            percent(self.left_out_error),
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |size: &SizeFit| {
            vec![
                bytes(size.bytes as f64),
                size.repeats.to_string(),
                duration(size.mean_ns),
                duration(size.median_ns),
                percent(size.spread),
                duration(size.fitted_ns),
                page::signed(size.error()),
            ]
        };
        self.sizes.iter().map(row).collect()
    }

    /// The means with the curve, and what the curve is off them.
    fn pictures(&self, out: &mut String) -> Result {
        writeln!(out, "<div class=\"pair\">")?;
        let at = |size: &SizeFit| size.bytes as f64;
        let means = self.sizes.iter().map(|size| (at(size), size.mean_ns));
        let [first, last] = self.ends();
        let (low, high) = (libm::log(at(first)), libm::log(at(last)));
        let curve = (0..=120).map(|step| {
            let place = libm::exp(low + (high - low) * f64::from(step) / 120.0);
            let place = place.clamp(at(first), at(last));
            (place, self.at_place(place))
        });
        let size = |place: f64| bytes(place);
        let time = |ns: f64| duration(ns);
        // Powers of two that are sizes, every other one where there are many.
        let powers = (0..31).map(|power| f64::from(1u32 << power));
        let powers: Vec<f64> = powers.filter(|it| (at(first)..=at(last)).contains(it)).collect();
        let every = powers.len().div_ceil(8).max(1);
        let marks: Vec<f64> = powers.into_iter().step_by(every).collect();
        let chart = |title: &str, height: &dyn Fn(f64) -> String, lines, logarithmic| {
            Chart {
                title,
                across: ("size, logarithmic", &size),
                height,
                lines,
                marks: Some(marks.clone()),
                measured_from: None,
                dots: false,
                logarithmic,
            }
            .svg()
        };
        let lines = vec![page::scattered(0, means), Line::new(1, curve.collect())];
        let svg = chart(&self.name(), &time, lines, (true, true));
        let title = format!("{}: means of what was measured, and the curve", self.name());
        figure(out, &svg, &title)?;
        let off = self.sizes.iter().map(|size| (at(size), size.error() * 100.0));
        let none = [(at(first), 0.0), (at(last), 0.0)].to_vec();
        let lines = vec![page::scattered(0, off), Line::new(1, none)];
        let share = |share: f64| format!("{share:+.1} %");
        let svg = chart("residuals", &share, lines, (false, true));
        figure(out, &svg, &format!("{}: the curve over the means, less one", self.name()))?;
        writeln!(out, "</div>")
    }
}

fn figure(out: &mut String, svg: &str, caption: &str) -> Result {
    let caption = quick_xml::escape::escape(caption);
    writeln!(out, "<figure class=\"panel\">{svg}<figcaption>{caption}</figcaption></figure>")
}

impl StageFits {
    /// The fit as text, for a terminal.
    pub fn told(&self) -> String {
        let rows: Vec<_> = self.stages.iter().map(StageFit::row).collect();
        let mut out = page::columns(&head(&SUMMARY), &rows);
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        for fit in &self.stages {
            let [first, last] = fit.ends();
            let how = match fit.interpolated {
                true => "as they were measured, with straight lines between".to_owned(),
                false => format!("interpolation within {} of the curve", percent(fit.table_error)),
            };
            let _ = writeln!(
                out,
                "{}: {} points from {} to {} B, {how}; longer and shorter commands are refused",
                fit.name(),
                fit.table.len(),
                first.bytes,
                last.bytes,
            );
        }
        let _ = writeln!(out, "drive {} [{}]", self.drive, self.drive_hash);
        out
    }

    pub fn html(&self) -> String {
        let mut out = String::new();
        self.document(&mut out).expect("a string takes everything");
        out
    }

    fn document(&self, out: &mut String) -> Result {
        let inputs: Vec<&str> = self.inputs.iter().map(|input| input.file.as_str()).collect();
        let lead = format!("measured: {} · drive [{}]", inputs.join(", "), self.drive_hash);
        page::begin(out, &format!("Stages of {}", self.drive), "calibration", &lead)?;
        for warning in &self.warnings {
            page::alarm(out, "Warning", warning)?;
        }
        for note in &self.notes {
            page::alarm(out, "Note", note)?;
        }
        let rows: Vec<_> = self.stages.iter().map(StageFit::row).collect();
        page::table(out, &head(&SUMMARY), &rows)?;
        page::legend(out, &["measured", "curve"])?;
        for fit in &self.stages {
            writeln!(out, "<h2>{}</h2>", quick_xml::escape::escape(fit.name()))?;
            fit.pictures(out)?;
            page::table(out, &head(&SIZES), &fit.rows())?;
        }
        writeln!(out, "<h2>Measurements</h2>")?;
        let hashed = self.inputs.iter().map(|input| vec![input.file.clone(), input.sha256.clone()]);
        page::table(out, &head(&["file", "SHA-256"]), &hashed.collect::<Vec<_>>())?;
        page::end(out)
    }
}
