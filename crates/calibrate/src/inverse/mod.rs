//! Parameters of a drive, searched so that the simulated drive does what a real one was measured to
//! do.
//!
//! Targets (`target`, `fio_result`) are loads with what was measured of them; parameters (`vary`)
//! are keys of the drive with a range each. The drive is simulated under each load (`simulate`), with
//! one seed, so that the same values always give the same error; `search` looks for the values of the
//! least error, and `determined` steps around them to say which the data determine. The figures that
//! are reported come from runs that are [`LONGER`] times as long as those of the search.

mod determined;
mod fio_result;
mod report;
mod search;
mod simulate;
mod target;
mod vary;

pub use mynah_lab::runner::STATES_MAX;
pub use target::{Figure, Of, PERCENTILES, Quantity, Target};
pub use vary::{MOST, Vary};

use super::text::DriveText;
use super::{CalibrateError, Hashed, Input};
use mynah_drive_file as drive;
use mynah_lab::experiment::Precondition;
use mynah_lab::runner::SharedStates;
use serde::Serialize;
use simulate::{Bench, Memory, Point};

/// The schema of what `--json` writes.
pub const SCHEMA: &str = "mynah.calibration/1";
/// Factor by which the final runs, for figures and sensitivities, are longer.
pub const LONGER: u64 = 5;
/// Points that are simulated by default.
pub const EVALUATIONS: usize = 200;
/// Commands of each run of the search by default.
pub const REQUESTS: u64 = 20_000;

/// Phase of the search, for progress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Points all over the ranges.
    Spread,
    /// The descent from the best of them.
    Descent,
    /// Steps around what was found, and the figures there.
    Around,
    /// A run is in progress, and no further point has ended.
    Inside,
}

/// Told how many points have ended; returns false if the search is to end. Called by all threads.
pub type Watch<'a> = dyn Fn(Phase, usize) -> bool + Sync + 'a;

/// Settings of a search for drive parameters.
#[derive(Clone, Debug)]
pub struct Inverse {
    /// A shipped drive's name, or the path of a drive file.
    pub drive: String,
    /// Changes to it that hold everywhere.
    pub set: Vec<String>,
    pub inputs: Vec<Input>,
    /// Parameters that are searched, with their ranges.
    pub vary: Vec<Vary>,
    /// How far IOPS and mean latencies may be off.
    pub within: f64,
    /// How many points are simulated at most, before those around what was found.
    pub evaluations: usize,
    /// Commands of each run of the search.
    pub requests: u64,
    /// Seeds the drive and the loads, if not as they are by default.
    pub seed: Option<u64>,
    /// The state that the drive starts from.
    pub precondition: Precondition,
    /// Number of runs at a time.
    pub threads: usize,
    /// Whether runs share what their drives are prepared into: nothing but time and memory depend on it.
    pub share: bool,
}

/// Result of a search for drive parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Fitted {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Name or path of the base drive.
    pub drive: String,
    /// [`drive::drive_hash`] of the drive that was found.
    pub drive_hash: String,
    /// Files of measurements, and SHA-256 of each.
    pub inputs: Vec<Hashed>,
    /// The error of the worst of all IOPS and mean latencies.
    pub worst: Worst,
    /// How far IOPS and mean latencies may be off, relative to what was measured.
    pub within: f64,
    /// Each target, measured and modelled.
    pub targets: Vec<TargetFit>,
    /// Each parameter's value and confidence interval.
    pub parameters: Vec<ParameterFit>,
    /// Combinations of parameters that the data do not determine.
    pub undetermined: Vec<Combination>,
    /// Points that were simulated.
    pub evaluations: usize,
    /// Warnings about the measurements.
    pub warnings: Vec<String>,
    /// Why the drive of some point was refused, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the search was interrupted: the result is the best point until then.
    pub interrupted: bool,
    /// Text of the fitted drive file.
    #[serde(skip)]
    pub text: String,
}

/// The figure that is furthest off, of IOPS and mean latencies.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    /// File, and row or job, of the target.
    pub target: String,
    /// The target's load, in fio's words.
    pub load: String,
    /// Name of the figure.
    pub figure: String,
    /// Modelled over measured, less one.
    pub error: f64,
}

/// A target, measured and modelled.
#[derive(Clone, Debug, Serialize)]
pub struct TargetFit {
    /// File, and row or job, of the target.
    pub target: String,
    /// The load in fio's words.
    pub load: String,
    pub figures: Vec<FigureFit>,
}

/// A figure, measured and modelled.
#[derive(Clone, Debug, Serialize)]
pub struct FigureFit {
    pub figure: String,
    /// In which unit: `1/s` or `ns`.
    pub unit: &'static str,
    pub measured: f64,
    /// The value that the fitted drive has in the simulation.
    pub modelled: f64,
    /// Modelled over measured, less one.
    pub error: f64,
    /// Whether it is judged by `within`: IOPS and means are.
    pub judged: bool,
    /// `d ln figure / d ln parameter`, in the order of the parameters; empty if it is not known.
    pub sensitivity: Vec<f64>,
}

/// A parameter that was searched.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterFit {
    /// Key of the drive file.
    pub key: String,
    /// The range that was searched.
    pub range: [String; 2],
    /// The value that was found.
    pub value: String,
    /// Where it may lie at 95 %; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The sensitivity of the figure that it changes most; 0 if it is not known.
    pub sensitivity: f64,
    /// Name of that figure.
    pub changes_most: String,
}

/// Where a parameter may lie.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: String,
    /// Upper end. Both lie in the range that was searched.
    pub high: String,
    /// By what share of the value it may be off, whatever the range is; `None`: by any.
    pub share: Option<f64>,
    /// Whether the data determine it.
    pub determined: bool,
    /// Whether the value is the upper (true) or lower (false) end of the range; `None`: neither.
    pub at_end: Option<bool>,
}

/// Parameters that the data do not tell apart, or one that they do not determine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Combination {
    /// Their keys, the one that has most part in it first.
    pub keys: Vec<String>,
}

impl Inverse {
    /// Searches; `None` if it was ended before any point was done.
    ///
    /// # Errors
    /// If what was given cannot be used, or a simulation fails.
    pub fn fit(&self, watch: &Watch<'_>) -> Result<Option<Fitted>, CalibrateError> {
        Vary::check(&self.vary)?;
        let base = drive::load(&self.drive, &self.set)?;
        for vary in &self.vary {
            for end in &vary.ends {
                let mut changes = self.set.clone();
                changes.push(format!("{}={end}", vary.key));
                drive::parse(&base.origin, &base.text, &changes)?;
            }
        }
        let low: Vec<String> = self.vary.iter().map(|vary| vary.ends[0].clone()).collect();
        if drive::parse(&base.origin, &base.text, &simulate::changes(&self.set, &self.vary, &low))
            .is_ok()
        {
            // Rather than after the search.
            self.written(&base, &low)?;
        }
        let (targets, warnings) = self.targets()?;
        let shared = self.share.then(SharedStates::new);
        let bench = |requests| Bench {
            origin: &base.origin,
            text: &base.text,
            set: &self.set,
            vary: &self.vary,
            targets: &targets,
            requests,
            seed: self.seed,
            precondition: self.precondition,
            shared: shared.clone(),
            threads: self.threads,
            watch,
        };
        let mut memory = Memory::default();
        let short = bench(self.requests);
        let found = search::search(&short, self.evaluations, &mut memory)?;
        let Some(best) = found.best else { return Ok(None) };
        let long = bench(self.requests.saturating_mul(LONGER));
        let mut longer = Memory::default();
        let mut interrupted = found.interrupted;
        let mut shown = best.clone();
        let mut known = None;
        if !interrupted {
            match long.points(std::slice::from_ref(&best.unit), Phase::Around, &mut longer)? {
                simulate::Evaluation::Whole(points) => {
                    shown = points.into_iter().next().unwrap_or(best);
                    known = determined::determined(&long, &shown, &mut longer)?;
                    interrupted = known.is_none();
                }
                simulate::Evaluation::Interrupted => interrupted = true,
            }
        }
        let (text, hash) = self.written(&base, &shown.values)?;
        let mut fitted = self.fitted(&base.name, &targets, &shown, known);
        fitted.evaluations = memory.simulated + longer.simulated;
        fitted.warnings = warnings;
        fitted.refused = memory.refused.or(longer.refused);
        fitted.interrupted = interrupted;
        (fitted.drive_hash, fitted.text) = (hash, text);
        Ok(Some(fitted))
    }

    /// Approximate number of points that will be simulated, for a progress bar.
    pub fn expected(&self) -> usize {
        self.evaluations + 2 * self.vary.len() + 1
    }

    /// What is to be known of the measurements before anything is searched.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn warnings(&self) -> Result<Vec<String>, CalibrateError> {
        Ok(self.targets()?.1)
    }

    /// All targets, and what is to be known of them.
    fn targets(&self) -> Result<(Vec<Target>, Vec<String>), CalibrateError> {
        let (mut all, mut warnings) = (Vec::new(), Vec::new());
        for input in &self.inputs {
            all.extend(Target::read(input, &mut warnings)?);
        }
        warnings.extend(all.iter().filter_map(Target::contradiction));
        if all.is_empty() {
            let help = "--target FILE…: fio's JSON, or a table (CSV) with a row a load";
            return Err(CalibrateError::asked("there is nothing to fit to", help));
        }
        Ok((all, warnings))
    }

    /// The text of the drive with these values, and its hash: what is written is what was simulated.
    fn written(
        &self,
        base: &drive::DriveFile,
        values: &[String],
    ) -> Result<(String, String), CalibrateError> {
        let changes = simulate::changes(&self.set, &self.vary, values);
        let hash = drive::parse(&base.origin, &base.text, &changes)?.hash;
        let text = self.text(&base.text, values)?;
        let written = drive::parse("the drive that was fitted", &text, &[]);
        if written.is_ok_and(|written| written.hash == hash) {
            return Ok((text, hash));
        }
        let values: Vec<String> = changes.iter().map(|set| format!("--set {set}")).collect();
        Err(CalibrateError::asked(
            "the drive's text cannot be changed so that it says what was found",
            format!("use it with {}", values.join(" ")),
        ))
    }

    /// The base drive's text with what was found, and where it comes from.
    fn text(&self, base: &str, values: &[String]) -> Result<String, CalibrateError> {
        let mut text = DriveText::new(base)?;
        for setting in &self.set {
            text.set_by_hand(setting)?;
        }
        let inputs: Vec<String> = self.inputs.iter().map(Input::source).collect();
        for (vary, value) in self.vary.iter().zip(values) {
            text.set(&format!("{}={value}", vary.key))?;
            let source = format!("fitted to {}", inputs.join("; "));
            text.source(&vary.key, &source);
        }
        Ok(text.finish())
    }

    fn fitted(
        &self,
        drive: &str,
        targets: &[Target],
        found: &Point,
        known: Option<determined::Determined>,
    ) -> Fitted {
        let mut rows = known.iter().flat_map(|known| &known.sensitivity);
        let mut fits = Vec::new();
        for (target, modelled) in targets.iter().zip(&found.modelled) {
            let figures = target.figures.iter().zip(modelled).map(|(figure, modelled)| FigureFit {
                figure: figure.name(),
                unit: if figure.quantity == Quantity::Iops { "1/s" } else { "ns" },
                measured: figure.measured,
                modelled: *modelled,
                error: modelled / figure.measured - 1.0,
                judged: !matches!(figure.quantity, Quantity::Percentile(_)),
                sensitivity: rows.next().cloned().unwrap_or_default(),
            });
            let (place, load) = (target.place.clone(), target.load.clone());
            fits.push(TargetFit { target: place, load, figures: figures.collect() });
        }
        let parameter = |(index, vary): (usize, &Vary)| {
            let figures = fits.iter().flat_map(|fit| fit.figures.iter().map(move |it| (fit, it)));
            let felt = figures.filter_map(|(fit, figure)| {
                let change = figure.sensitivity.get(index).copied()?;
                Some((change, format!("{} of {}", figure.figure, fit.load)))
            });
            let most = felt.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
            let (sensitivity, changes_most) = most.unwrap_or_default();
            ParameterFit {
                key: vary.key.clone(),
                range: vary.ends.clone(),
                value: found.values[index].clone(),
                interval: known.as_ref().map(|known| known.intervals[index].clone()),
                sensitivity,
                changes_most,
            }
        };
        let parameters = self.vary.iter().enumerate().map(parameter).collect();
        Fitted {
            schema: SCHEMA,
            drive: drive.to_owned(),
            drive_hash: String::new(),
            inputs: self.inputs.iter().map(Hashed::of).collect(),
            worst: worst(&fits),
            within: self.within,
            targets: fits,
            parameters,
            undetermined: known.map_or_else(Vec::new, |known| known.combinations),
            evaluations: 0,
            warnings: vec![],
            refused: None,
            interrupted: false,
            text: String::new(),
        }
    }
}

impl Fitted {
    /// Whether all IOPS and mean latencies are as near as they have to be.
    pub fn holds(&self) -> bool {
        self.worst.error.abs() <= self.within
    }

    /// The result as indented JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a fit is plain data");
        text.push('\n');
        text
    }
}

fn worst(targets: &[TargetFit]) -> Worst {
    let figures = targets.iter().flat_map(|target| {
        target.figures.iter().filter(|figure| figure.judged).map(move |figure| (target, figure))
    });
    let worst = figures.max_by(|(_, a), (_, b)| a.error.abs().total_cmp(&b.error.abs()));
    match worst {
        Some((target, figure)) => Worst {
            target: target.target.clone(),
            load: target.load.clone(),
            figure: figure.figure.clone(),
            error: figure.error,
        },
        None => Worst {
            target: String::new(),
            load: String::new(),
            figure: String::new(),
            error: f64::NAN,
        },
    }
}

#[cfg(test)]
mod tests;
