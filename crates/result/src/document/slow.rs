//! The slowest commands in results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of the slowest commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCommand {
    /// Whose it was.
    pub flow: String,
    /// What kind of command: read, write, …
    pub kind: String,
    /// Bytes that it moved or trimmed.
    pub bytes: u64,
    /// When it was created, on the drive's clock: the time that `--timeline-window` takes.
    pub created_ns: f64,
    /// From its creation to the completion seen by the host.
    pub lat_ns: f64,
    /// Where most of that time went.
    pub longest: Option<LongestStage>,
    /// The stages that it spent time in, in the order in which an I/O passes them.
    pub stages: Vec<SlowStage>,
}

/// How long a command was in a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowStage {
    /// The stage's name.
    pub stage: String,
    /// Time in it.
    pub ns: f64,
}

/// The stage in which a command was for longest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongestStage {
    /// The stage's name.
    pub stage: String,
    /// Time in it.
    pub ns: f64,
    /// If it waited there: for what. Null where that is not known, as of a drive that is served, and
    /// where no single wait was long.
    pub waited_for: Option<LongestWait>,
}

/// The longest wait of a command's parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongestWait {
    /// What it waited for.
    pub resource: String,
    /// How long.
    pub ns: f64,
    /// Who had that for the longest part of the wait: a flow, or `gc`, `mapping`, `index`,
    /// `compaction`.
    pub holder: String,
    /// How long that was.
    pub held_ns: f64,
}
