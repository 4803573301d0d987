//! What a search found, for people: the verdict first, then targets and parameters; and a page of
//! pictures.

use super::{Combination, FigureFit, Fitted, ParameterFit, TargetFit};
use mynah_report::html::lines::{Chart, Line};
use mynah_report::sheet as page;
use mynah_result::figures::{count, duration};
use std::fmt::{Result, Write};

/// A number of a figure with its unit.
fn number(figure: &FigureFit, value: f64) -> String {
    written(figure.unit, value)
}

fn written(unit: &str, value: f64) -> String {
    if unit == "ns" { duration(value) } else { count(value) }
}

/// Parameters in a sentence: `a, b and c`.
fn listed(keys: &[String]) -> String {
    match keys {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

impl Combination {
    fn told(&self) -> String {
        match &self.keys[..] {
            [only] => {
                format!("{only}: these figures, as well as they are met, do not say what it is")
            }
            keys => format!(
                "{}: these figures do not tell them apart; only what they come to together is known",
                listed(keys)
            ),
        }
    }
}

impl ParameterFit {
    fn interval_told(&self) -> String {
        match &self.interval {
            None => "not known".to_owned(),
            Some(interval) => format!("{} to {}", interval.low, interval.high),
        }
    }

    fn verdict(&self) -> &'static str {
        match &self.interval {
            None => "not known",
            Some(interval) if !interval.determined => "NOT DETERMINED",
            Some(interval) if interval.at_end.is_some() => "at the end of its range",
            Some(_) => "determined",
        }
    }

    fn row(&self) -> Vec<String> {
        let felt = match self.changes_most.is_empty() {
            true => "-".to_owned(),
            false => format!("{:+.2}", self.sensitivity),
        };
        let range = format!("{}..{}", self.range[0], self.range[1]);
        let verdict = self.verdict().to_owned();
        vec![self.key.clone(), self.value.clone(), self.interval_told(), range, felt, verdict]
    }
}

const PARAMETERS: [&str; 6] =
    ["parameter", "value", "interval (95 %)", "searched", "sensitivity", "verdict"];
const TARGETS: [&str; 5] = ["load", "figure", "measured", "modelled", "error"];

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl TargetFit {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |(index, figure): (usize, &FigureFit)| {
            vec![
                if index == 0 { self.load.clone() } else { String::new() },
                figure.figure.clone(),
                number(figure, figure.measured),
                number(figure, figure.modelled),
                page::signed(figure.error),
            ]
        };
        self.figures.iter().enumerate().map(row).collect()
    }
}

impl Fitted {
    /// The fit in a sentence, the worst first.
    pub fn verdict(&self) -> String {
        let worst = &self.worst;
        let error = page::signed(worst.error);
        let place = format!("{} of {} ({})", worst.figure, worst.load, worst.target);
        let within = (self.within * 1e6).round() / 1e4;
        match self.holds() {
            true => format!("fitted within {within} %: the worst is {error}, {place}"),
            false => format!("NOT within {within} %: {place} is {error} off"),
        }
    }

    /// Why there are no intervals, or parameters that the data do not determine.
    fn remarks(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        if self.interrupted {
            let text = "this is the best until then; intervals and sensitivities are not known";
            all.push(("interrupted", text.to_owned()));
        }
        all.extend(self.undetermined.iter().map(|it| ("not determined", it.told())));
        for parameter in &self.parameters {
            if let Some(interval) = &parameter.interval
                && let Some(upper) = interval.at_end
            {
                let (end, more) = if upper { ("upper", "higher") } else { ("lower", "lower") };
                let text = format!(
                    "{} is at the {end} end of what was searched: a {more} value may fit better",
                    parameter.key
                );
                all.push(("at the end of its range", text));
            }
        }
        if let Some(refused) = &self.refused {
            all.push((
                "left out",
                format!("some drives in these ranges are not possible: {refused}"),
            ));
        }
        all
    }

    /// The fit as text, for a terminal.
    pub fn told(&self) -> String {
        let mut out = format!("{}\n", self.verdict());
        for (what, text) in self.remarks() {
            let _ = writeln!(out, "{what}: {text}");
        }
        let rows: Vec<_> = self.parameters.iter().map(ParameterFit::row).collect();
        let _ = writeln!(out, "\n{}", page::columns(&head(&PARAMETERS), &rows));
        let rows: Vec<_> = self.targets.iter().flat_map(TargetFit::rows).collect();
        let _ = write!(out, "{}", page::columns(&head(&TARGETS), &rows));
        let _ = writeln!(
            out,
            "\n{} points simulated; drive {} [{}]",
            self.evaluations, self.drive, self.drive_hash
        );
        out
    }

    pub fn html(&self) -> String {
        let mut out = String::new();
        self.document(&mut out).expect("a string takes everything");
        out
    }

    fn document(&self, out: &mut String) -> Result {
        let inputs: Vec<&str> = self.inputs.iter().map(|input| input.file.as_str()).collect();
        let lead = format!(
            "{} points simulated · fitted to {} · drive [{}]",
            self.evaluations,
            inputs.join(", "),
            self.drive_hash
        );
        page::begin(out, &format!("{}, fitted", self.drive), "calibration", &lead)?;
        page::alarm(out, if self.holds() { "Fit" } else { "Not fitted" }, &self.verdict())?;
        for (what, text) in self.remarks() {
            page::alarm(out, what, &text)?;
        }
        for warning in &self.warnings {
            page::alarm(out, "Warning", warning)?;
        }
        writeln!(out, "<h2>Parameters</h2>")?;
        let rows: Vec<_> = self.parameters.iter().map(ParameterFit::row).collect();
        page::table(out, &head(&PARAMETERS), &rows)?;
        self.pictures(out)?;
        writeln!(out, "<h2>Targets</h2>")?;
        let rows: Vec<_> = self.targets.iter().flat_map(TargetFit::rows).collect();
        page::table(out, &head(&TARGETS), &rows)?;
        self.sensitivities(out)?;
        writeln!(out, "<h2>Measurements</h2>")?;
        let hashed = self.inputs.iter().map(|input| vec![input.file.clone(), input.sha256.clone()]);
        page::table(out, &head(&["file", "SHA-256"]), &hashed.collect::<Vec<_>>())?;
        page::end(out)
    }

    /// Measured and modelled, and the error, of each kind of figure over the targets.
    fn pictures(&self, out: &mut String) -> Result {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for figure in self.targets.iter().flat_map(|target| &target.figures) {
            if !names.iter().any(|(name, _)| *name == figure.figure) {
                names.push((&figure.figure, figure.unit));
            }
        }
        writeln!(out, "<h2>Measured and modelled</h2>")?;
        page::legend(out, &["measured", "modelled"])?;
        writeln!(out, "<div class=\"pair\">")?;
        let depths = self.depths();
        let (across, wide) = match &depths {
            Some(_) => ("queue depth, logarithmic", true),
            None => ("target, in the order of the table", false),
        };
        let place = |index: usize| depths.as_ref().map_or(index as f64 + 1.0, |all| all[index]);
        let marks: Vec<f64> = (0..self.targets.len()).map(place).collect();
        let marks = (marks.len() <= 16).then_some(marks);
        let whole = |value: f64| format!("{value:.0}");
        for (name, unit) in &names {
            let figures = || {
                self.targets.iter().enumerate().flat_map(|(index, target)| {
                    let of = target.figures.iter().filter(|figure| figure.figure == *name);
                    of.map(move |figure| (index, figure))
                })
            };
            let mut modelled: Vec<(f64, f64)> =
                figures().map(|(index, figure)| (place(index), figure.modelled)).collect();
            modelled.sort_by(|a, b| a.0.total_cmp(&b.0));
            let measured = figures().map(|(index, figure)| (place(index), figure.measured));
            let lines = vec![page::scattered(0, measured), Line::new(1, modelled)];
            page::chart(
                out,
                &Chart {
                    title: &format!("{name}, logarithmic scale"),
                    across: (across, &whole),
                    height: &|value| written(unit, value),
                    lines,
                    marks: marks.clone(),
                    measured_from: None,
                    dots: false,
                    logarithmic: (true, wide),
                },
            )?;
        }
        writeln!(out, "</div>")
    }

    /// The targets' queue depths, if they differ in nothing else.
    fn depths(&self) -> Option<Vec<f64>> {
        let parts = |load: &str| {
            let words = load.split(' ');
            let depth = words.clone().find_map(|word| word.strip_prefix("iodepth="))?;
            let rest: Vec<&str> = words.filter(|word| !word.starts_with("iodepth=")).collect();
            Some((depth.parse::<f64>().ok().filter(|depth| *depth > 0.0)?, rest.join(" ")))
        };
        let all: Option<Vec<(f64, String)>> =
            self.targets.iter().map(|target| parts(&target.load)).collect();
        let all =
            all.filter(|all| all.len() > 1 && all.iter().all(|(_, rest)| *rest == all[0].1))?;
        Some(all.into_iter().map(|(depth, _)| depth).collect())
    }

    fn sensitivities(&self, out: &mut String) -> Result {
        let known = self.targets.iter().flat_map(|target| &target.figures);
        if known.clone().all(|figure| figure.sensitivity.is_empty()) {
            return Ok(());
        }
        writeln!(
            out,
            "<h2>Sensitivity</h2>\n<p>By how many per cent a figure grows when a parameter grows by \
             one per cent.</p>"
        )?;
        let mut names = vec!["figure".to_owned()];
        names.extend(self.parameters.iter().map(|parameter| parameter.key.clone()));
        let mut rows = Vec::new();
        for target in &self.targets {
            for figure in &target.figures {
                let mut row = vec![format!("{} of {}", figure.figure, target.load)];
                row.extend(figure.sensitivity.iter().map(|part| format!("{part:+.3}")));
                rows.push(row);
            }
        }
        page::table(out, &names, &rows)
    }
}
