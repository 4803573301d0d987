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

/// How well a quantity is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Which, by flow, kind of command and key of the result.
    pub name: String,
    /// Half its interval; null where the batches are not independent, or collected too few blocks
    /// to say.
    pub half_width: Option<f64>,
}
