//! How precisely a run that lasts until something is known has found it out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How precisely what is asked for was known when a run ended by itself (`runtime = "auto"`).
/// Shares are half confidence intervals of 95 %, relative to the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// What was asked for; of a repetition, of the mean over its runs.
    pub asked: f64,
    /// What this run may lie off: more than that by the root of the number of runs.
    pub allowed: f64,
    /// Whether every quantity was known so well.
    pub known: bool,
    /// Whether the run ended because very much was simulated, and not because it was known.
    pub bound_reached: bool,
    /// The widest interval of all quantities; null where one is not known at all.
    pub half_width: Option<f64>,
    /// Which quantity has it, by flow, kind of command and key of the result; null if nothing was
    /// looked at.
    pub limiting: Option<String>,
    /// Batches of equal time that the intervals are taken from.
    pub batches: u64,
    /// How long a batch is.
    pub batch_ns: f64,
    /// Commands completed when it was looked at last.
    pub requests: u64,
    /// Every quantity.
    pub estimates: Vec<Estimate>,
}

/// The same of several runs that differ in their seed only: of their means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JointPrecision {
    /// What was asked for.
    pub asked: f64,
    /// Whether the mean of every quantity is known so well.
    pub known: bool,
    /// The widest interval of all means, from the intervals of the runs; null where one is not
    /// known at all.
    pub half_width: Option<f64>,
    /// Which quantity has it; null if nothing was looked at.
    pub limiting: Option<String>,
}

impl JointPrecision {
    /// That of these runs; `None` unless all of them last until something is known.
    pub fn of(runs: &[&Precision]) -> Option<JointPrecision> {
        let first = runs.first()?;
        let count = runs.len() as f64;
        let width = |name: &str| -> Option<f64> {
            let of = |run: &&Precision| {
                let found = run.estimates.iter().find(|estimate| estimate.name == name)?;
                found.half_width
            };
            let widths = runs.iter().map(of).collect::<Option<Vec<f64>>>()?;
            // Independent runs: the squares add up.
            Some(widths.iter().map(|width| width * width).sum::<f64>().sqrt() / count)
        };
        let mut widest: Option<(&str, Option<f64>)> = None;
        for estimate in runs.iter().flat_map(|run| &run.estimates) {
            let here = width(&estimate.name);
            let wide = |width: Option<f64>| width.unwrap_or(f64::INFINITY);
            if widest.is_none_or(|(_, most)| wide(here) > wide(most)) {
                widest = Some((&estimate.name, here));
            }
        }
        let half_width = widest.and_then(|(_, width)| width);
        Some(JointPrecision {
            asked: first.asked,
            // Rounding is no miss.
            known: half_width.is_some_and(|width| width <= first.asked * (1.0 + 1e-9)),
            half_width,
            limiting: widest.map(|(name, _)| name.to_owned()),
        })
    }
}

/// How well a quantity is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Which, by flow, kind of command and key of the result.
    pub name: String,
    /// Half its interval; null where the batches are not independent, or collected too few blocks
    /// to say.
    pub half_width: Option<f64>,
}
