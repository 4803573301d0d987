//! What is said of a join, for machines.

use super::join::Joined;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How two sides were joined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    /// I/Os that both sides have records of.
    pub paths: u64,
    /// Those of them that were paired by queue, identifier and time, as the host had not counted its
    /// commands.
    #[serde(default)]
    pub by_time: u64,
    /// I/Os that only the host has a record of.
    pub host_alone: u64,
    /// I/Os that only the target has a record of.
    pub target_alone: u64,
    /// Whether both sides have the same clock.
    pub one_clock: bool,
    /// How far the target's clock is ahead of the host's.
    pub clock_offset_ns: f64,
    /// By how much faster the target's clock goes, in parts of a million.
    pub clock_drift_ppm: f64,
    /// By how much a time that crosses the network one way may be wrong; their sum is exact.
    pub clock_bound_ns: f64,
    /// Stages that would have been negative by less than that, and are nothing.
    pub clamped: u64,
}

impl PathReport {
    pub(crate) fn of(joined: &Joined) -> PathReport {
        let clock = &joined.clock;
        PathReport {
            paths: joined.paths,
            by_time: joined.by_time,
            host_alone: joined.host_alone,
            target_alone: joined.target_alone,
            one_clock: joined.one_clock,
            // Times of a profile count from its beginning.
            clock_offset_ns: clock.offset_ns() - joined.origin_ns,
            clock_drift_ppm: clock.drift_ppm(),
            clock_bound_ns: clock.bound_ns,
            clamped: joined.clamped,
        }
    }
}
