//! What a guest did that was in lock-step with its drive: its instructions are the time of both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A guest whose instructions were the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guest {
    /// An instruction takes so long.
    pub instruction_ns: u64,
    /// Instructions of all processors, which take turns, up to the guest's last access to the drive.
    pub instructions: u64,
    /// Those of them outside loops around PAUSE in the kernel, where a processor waits.
    pub busy_instructions: u64,
    /// By processor.
    pub processors: Vec<GuestProcessor>,
    /// What it executed while it had I/O under way.
    pub wait: GuestWait,
    /// What the guest has marked: the difference of two is what lies between them.
    pub marks: Vec<GuestMark>,
    /// Marks that were too many to be kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marks_lost: u64,
}

/// A guest's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestProcessor {
    /// Instructions.
    pub instructions: u64,
    /// Those of them in loops around PAUSE in the kernel.
    pub idle_instructions: u64,
}

/// What a guest executed while it had I/O under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestWait {
    /// I/O commands that were completed.
    pub commands: u64,
    /// Instructions while at least one was under way.
    pub instructions: u64,
    /// Those of them in which processors waited.
    pub idle_instructions: u64,
    /// Of all, for each command.
    pub instructions_per_command: Option<f64>,
    /// Of those in which processors waited, for each command.
    pub idle_per_command: Option<f64>,
}

/// A mark that a guest has set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestMark {
    /// What it wrote.
    pub number: u32,
    /// When.
    pub at_ns: u64,
    /// What its processors had executed by then.
    pub processors: Vec<GuestProcessor>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
