//! Stages of an Ethernet drive, from times by size: what was measured becomes the stage's table in a
//! drive file.
//!
//! Samples (`samples`) come from a table (`table`), from a profile (`profile`), from the kernel's
//! ftrace (`ftrace`) or from `nvme read --latency` (`nvme_latency`); another source is another arm of
//! `samples::Source`. Of every size the arithmetic mean is fitted: it is what the model's times add up
//! to, and has no bias where the mean of logarithms lies below it. The curve is a cubic smoothing spline
//! of the logarithm of the mean over that of the size (`spline`), and the table as many points of it as
//! linear interpolation needs (`points`). Where it passes by what was measured (`misses`), it is said;
//! then the means themselves may be the table.

mod ftrace;
mod misses;
mod nvme_latency;
mod points;
mod profile;
mod report;
mod samples;
mod spline;
mod table;

pub use ftrace::{BytesRule, StageMap};
pub use misses::{Miss, Misses};
pub use samples::{Direction, STAGES};

use super::text::DriveText;
use super::{CalibrateError, Input};
use mynah_drive_file::input::FileError;
use mynah_drive_file::units::Duration;
use mynah_drive_file::{self as drive, DriveError};
use mynah_stamp::Span;
use samples::{Samples, StageKey};
use serde::Serialize;
use toml_edit::{Array, InlineTable, Value};

/// The schema of what `--json` writes.
pub const SCHEMA: &str = "mynah.stages/1";
/// Least number of sizes for a curve.
const SIZES_MIN: usize = 5;
/// Largest number of sizes for a curve.
const SIZES_MAX: usize = 256;
/// Least number of sizes for straight lines.
const POINTS_MIN: usize = 2;
/// Means that lie so far above the median are named: a few samples may have made them.
const SKEWED: f64 = 0.1;

/// Settings of a fit of stage times by size (`mynah calibrate`).
#[derive(Clone, Debug)]
pub struct Forward {
    /// The base drive: a shipped drive's name, or the path of a drive file.
    pub drive: String,
    /// Changes to the base drive, `KEY=VALUE` each.
    pub set: Vec<String>,
    pub inputs: Vec<Input>,
    /// What stands for which stage where measurements do not name stages.
    pub maps: Vec<StageMap>,
    /// How long the commands were where measurements do not say: one for all files, or one each.
    pub bytes: Vec<BytesRule>,
    /// Whether the means themselves are to be the tables, in place of points of a curve.
    pub interpolate: bool,
}

/// Result of a fit of stages.
#[derive(Clone, Debug, Serialize)]
pub struct StageFits {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Name or path of the base drive.
    pub drive: String,
    /// [`drive::drive_hash`] of the drive with the tables.
    pub drive_hash: String,
    /// Files of measurements, and SHA-256 of each.
    pub inputs: Vec<super::Hashed>,
    pub stages: Vec<StageFit>,
    /// What was left out, and what should be known.
    pub notes: Vec<String>,
    /// What the stages' tables do not follow.
    pub warnings: Vec<String>,
    /// Text of the fitted drive file.
    #[serde(skip)]
    pub text: String,
}

/// Fit of one stage in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct StageFit {
    /// Name of the stage, of [`STAGES`].
    pub stage: String,
    /// Its direction, `in` or `out`.
    pub direction: String,
    /// What was measured at each size, and the curve there.
    pub sizes: Vec<SizeFit>,
    /// Whether the curve is straight lines between the means.
    pub interpolated: bool,
    /// Smoothing parameter of the spline: the weight of curvature against residuals.
    pub smoothing: f64,
    /// What the curve does not follow.
    pub misses: Misses,
    /// Cross-validation error: root mean square, over all sizes, of how far the curve fitted
    /// without a size is off there.
    pub left_out_error: f64,
    /// How far the curve is off the means, as a root mean square.
    pub residual: f64,
    /// The drive file's table: bytes and nanoseconds.
    pub table: Vec<(u64, f64)>,
    /// How far interpolation in it is off the curve at most, at multiples of 512 bytes.
    pub table_error: f64,
    #[serde(skip)]
    curve: Curve,
}

/// The curve between the measured sizes.
#[derive(Clone, Debug)]
enum Curve {
    /// A spline of the logarithm of the time over the logarithm of the size.
    Smooth(spline::Curve),
    /// Straight lines between the table's points.
    Straight,
}

/// Measurements and fit at one size.
#[derive(Clone, Debug, Serialize)]
pub struct SizeFit {
    /// Size in bytes.
    pub bytes: u64,
    /// How often it was measured.
    pub repeats: usize,
    /// The arithmetic mean of that, in nanoseconds.
    pub mean_ns: f64,
    /// The median, in nanoseconds.
    pub median_ns: f64,
    /// The standard deviation as a share of the mean; 0 of one sample.
    pub spread: f64,
    /// The curve at this size, in nanoseconds.
    pub fitted_ns: f64,
}

impl SizeFit {
    /// The curve over the mean, less one.
    pub fn error(&self) -> f64 {
        self.fitted_ns / self.mean_ns - 1.0
    }
}

impl Forward {
    /// Fits all stages that were measured.
    ///
    /// # Errors
    /// If what was given cannot be used.
    pub fn fit(&self) -> Result<StageFits, CalibrateError> {
        let mut samples = Samples::default();
        samples::read_all(self, &mut samples)?;
        if samples.is_empty() {
            let help = "FILE…: a table (stage,direction,bytes,latency_ns), a profile, ftrace's text, \
                        or what `nvme read --latency` prints";
            return Err(CalibrateError::asked("there are no measurements", help));
        }
        let mut notes = std::mem::take(&mut samples.notes);
        let mut stages = Vec::new();
        for (of, sizes) in samples.by_size() {
            stages.push(stage(of, &sizes, &samples, self.interpolate, &mut notes)?);
        }
        let warning = |fit: &StageFit| fit.misses.warning(&fit.name(), fit.sizes.len());
        let mut warnings = std::mem::take(&mut samples.warnings);
        warnings.extend(stages.iter().filter_map(warning));
        let base = drive::load(&self.drive, &self.set)?;
        let text = self.text(&base.text, &stages)?;
        let written = drive::parse("the drive with these stages", &text, &[]);
        let written = written.map_err(|error| too_short(&stages, error))?;
        Ok(StageFits {
            schema: SCHEMA,
            drive: base.name,
            drive_hash: written.hash,
            inputs: self.inputs.iter().map(super::Hashed::of).collect(),
            stages,
            notes,
            warnings,
            text,
        })
    }

    /// The base drive's text with the stages' tables, and where they come from.
    fn text(&self, base: &str, stages: &[StageFit]) -> Result<String, CalibrateError> {
        let mut text = DriveText::new(base)?;
        for setting in &self.set {
            text.set_by_hand(setting)?;
        }
        let inputs: Vec<String> = self.inputs.iter().map(Input::source).collect();
        for fit in stages {
            let path = ["link", "target", fit.stage.as_str(), fit.direction.as_str()];
            text.put(&path.map(String::from), Value::InlineTable(fit.toml()));
            let what = match fit.interpolated {
                true => "the means of",
                false => "a curve through",
            };
            let source = format!("measured; {what} {}", inputs.join("; "));
            text.source(&path.join("."), &source);
        }
        Ok(text.finish())
    }
}

/// Reads any file of samples, and fits what is in it; for fuzzing.
pub(crate) fn read_any(input: Input) {
    let map = |text| StageMap::parse(text).ok();
    let maps = ["transport.in=a..b", "capsule.out=recv..init"].into_iter().filter_map(map);
    let rule = |text| BytesRule::parse_all(text).unwrap_or_default();
    let fit = |maps, bytes, inputs| {
        let interpolate = false;
        Forward { drive: String::new(), set: vec![], inputs, maps, bytes, interpolate }
    };
    for fit in [
        fit(vec![], vec![], vec![input.clone()]),
        fit(maps.collect(), rule("(len+1)*512"), vec![input.clone()]),
        fit(map("transport.in").into_iter().collect(), rule("4k"), vec![input]),
    ] {
        let mut samples = Samples::default();
        if samples::read_all(&fit, &mut samples).is_ok() {
            for (of, sizes) in samples.by_size().iter().filter(|(_, sizes)| sizes.len() < 40) {
                for interpolate in [false, true] {
                    let fit = stage(*of, sizes, &samples, interpolate, &mut Vec::new());
                    let _ = fit.map(|fit| fit.misses.warning("a stage", fit.sizes.len()));
                }
            }
        }
    }
}

/// Explains a drive's refusal of tables that end before its longest command, in terms of the
/// measurements.
fn too_short(stages: &[StageFit], error: DriveError) -> CalibrateError {
    let short = |fit: &&StageFit| {
        let key = format!("`link.target.{}.{}` does not reach", fit.stage, fit.direction);
        error.messages().any(|message| message.starts_with(&key))
    };
    let Some(fit) = stages.iter().find(short) else { return error.into() };
    let last = fit.sizes.last().map_or(0, |size| size.bytes);
    CalibrateError::asked(
        format!(
            "{} {} was measured up to {last} bytes, and the drive takes longer commands: {error}",
            fit.stage, fit.direction
        ),
        format!(
            "measure up to that size, or have it take no longer ones: --set link.max_transfer={last}B"
        ),
    )
}

/// Fits a curve to the samples of one stage.
fn stage(
    of: StageKey,
    sizes: &[(u64, Vec<f64>)],
    samples: &Samples,
    interpolate: bool,
    notes: &mut Vec<String>,
) -> Result<StageFit, FileError> {
    let name = format!("{} {}", of.stage(), of.direction.name());
    let whole = |message: String, help: &str| Err(samples.whole(of, message).with_help(help));
    let (least, what) = match interpolate {
        true => (POINTS_MIN, "straight lines need"),
        false => (SIZES_MIN, "a curve needs"),
    };
    if sizes.len() < least {
        let message = format!("{name} was measured at {} sizes, and {what} {least}", sizes.len());
        let help = "measure more sizes between the smallest and the largest that the drive is used \
                    with";
        return whole(message, help);
    }
    if sizes.len() > SIZES_MAX {
        let message =
            format!("{name} was measured at {} sizes, more than {SIZES_MAX}", sizes.len());
        return whole(
            message,
            "some 20 to 60 of them, evenly spread by their logarithm, are enough",
        );
    }
    let mut fits: Vec<SizeFit> = Vec::new();
    for (bytes, times) in sizes {
        let fit = size(*bytes, times);
        if !(fit.mean_ns > 0.0 && fit.mean_ns.is_finite()) {
            let message = format!("{name} at {bytes} bytes took no time that could be measured");
            return whole(message, "a clock with finer steps, or leave the size out");
        }
        fits.push(fit);
    }
    let above = |fit: &SizeFit| fit.mean_ns / fit.median_ns - 1.0;
    let skewed = || fits.iter().filter(|fit| fit.repeats > 2).map(above).filter(|it| *it > SKEWED);
    if let Some(most) = skewed().reduce(f64::max) {
        notes.push(format!(
            "{name} at {} of {} sizes: means lie up to {:.0} % above medians, so a few slow samples \
             count much",
            skewed().count(),
            fits.len(),
            most * 100.0
        ));
    }
    if interpolate {
        return Ok(straight(of, fits));
    }
    match smooth(of, fits) {
        Some(fit) => Ok(fit),
        None => whole(format!("{name}: no curve could be put through these sizes"), "check them"),
    }
}

/// A stage as a smooth curve.
fn smooth(of: StageKey, mut fits: Vec<SizeFit>) -> Option<StageFit> {
    let x: Vec<f64> = fits.iter().map(|fit| libm::log(fit.bytes as f64)).collect();
    let y: Vec<f64> = fits.iter().map(|fit| libm::log(fit.mean_ns)).collect();
    let repeats = fits.iter().map(|fit| fit.repeats as f64);
    let average = repeats.clone().sum::<f64>() / fits.len() as f64;
    let weights: Vec<f64> = repeats.map(|repeats| repeats / average).collect();
    let smooth = spline::cross_validated(&x, &y, &weights)?;
    for (fit, x) in fits.iter_mut().zip(&x) {
        fit.fitted_ns = libm::exp(smooth.curve.at(*x));
    }
    let at = |bytes: u64| libm::exp(smooth.curve.at(libm::log(bytes as f64)));
    let (table, table_error) = points::chosen(fits[0].bytes, fits[fits.len() - 1].bytes, &at);
    let squares = fits.iter().map(|fit| fit.error() * fit.error()).sum::<f64>();
    Some(StageFit {
        stage: of.stage().to_owned(),
        direction: of.direction.name().to_owned(),
        interpolated: false,
        smoothing: smooth.smoothing,
        misses: misses::of(&fits, &smooth.curve),
        left_out_error: smooth.left_out_error,
        residual: (squares / fits.len() as f64).sqrt(),
        sizes: fits,
        table,
        table_error,
        curve: Curve::Smooth(smooth.curve),
    })
}

/// A stage as its means are, with straight lines between.
fn straight(of: StageKey, fits: Vec<SizeFit>) -> StageFit {
    let table: Vec<(u64, f64)> = fits.iter().map(|fit| (fit.bytes, fit.mean_ns)).collect();
    let missed = |three: &[(u64, f64)]| {
        let between = points::between(three[0], three[2], three[1].0 as f64);
        libm::log(between / three[1].1)
    };
    let squares: f64 = table.windows(3).map(|three| missed(three) * missed(three)).sum();
    StageFit {
        stage: of.stage().to_owned(),
        direction: of.direction.name().to_owned(),
        interpolated: true,
        smoothing: 0.0,
        misses: Misses::default(),
        left_out_error: (squares / (table.len() as f64 - 2.0).max(1.0)).sqrt(),
        residual: 0.0,
        sizes: fits,
        table,
        table_error: 0.0,
        curve: Curve::Straight,
    }
}

/// Mean, median and spread of a size's samples.
fn size(bytes: u64, times: &[f64]) -> SizeFit {
    let repeats = times.len();
    let mean = times.iter().sum::<f64>() / repeats as f64;
    let squares = times.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>();
    let deviation = match repeats {
        0 | 1 => 0.0,
        more => (squares / (more as f64 - 1.0)).sqrt(),
    };
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let median = (middle((repeats.max(1) - 1) / 2) + middle(repeats / 2)) / 2.0;
    let spread = deviation / mean;
    SizeFit { bytes, repeats, mean_ns: mean, median_ns: median, spread, fitted_ns: mean }
}

impl StageFit {
    /// The curve at a size in the measured range, in nanoseconds.
    pub fn at(&self, bytes: u64) -> f64 {
        self.at_place(bytes as f64)
    }

    /// Like [`StageFit::at`], between two sizes.
    fn at_place(&self, bytes: f64) -> f64 {
        match &self.curve {
            Curve::Smooth(curve) => libm::exp(curve.at(libm::log(bytes))),
            Curve::Straight => {
                let right = self.table.partition_point(|(size, _)| (*size as f64) < bytes);
                let right = right.clamp(1, self.table.len() - 1);
                points::between(self.table[right - 1], self.table[right], bytes)
            }
        }
    }

    /// The table as drive files have it: `{ bytes = […], times = […] }`.
    fn toml(&self) -> InlineTable {
        let mut bytes = Array::new();
        let mut times = Array::new();
        for (size, ns) in &self.table {
            bytes.push(*size as i64);
            times.push(Duration(Span::from_ps(libm::round(ns * 1000.0) as u64)).to_string());
        }
        let mut table = InlineTable::new();
        table.insert("bytes", Value::Array(bytes));
        table.insert("times", Value::Array(times));
        table
    }
}

impl StageFits {
    /// The result as indented JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a fit is plain data");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests;
