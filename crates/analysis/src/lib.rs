//! Profiles: one record for each I/O ([`mynah_profile`]), and what is made of them.
//!
//! `analysis.rs` reads one and sorts its I/Os into groups; `choice.rs` reads which I/Os are to have
//! records; `report.rs` is what is said of them, for people and for machines. `path/` joins a host's
//! side of I/Os with a target's. `task.rs` reads files that say what is to be profiled.

mod analysis;
mod choice;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod interference;
pub mod live;
mod path;
mod presence;
mod queue_models;
mod report;
pub mod task;
mod text;
mod trace;
mod verdict;
pub mod views;
mod windows;

pub(crate) use analysis::analyse_from;
pub use analysis::{Analysis, Part, analyse, analyse_joined, analyse_part};
pub use choice::{
    ChoiceTextError, choice_text, filter_text, parse_every, parse_filter, parse_keep_above,
    parse_kinds, parse_numbers, parse_sampling, parse_sizes, parse_statuses,
};
pub use group::{Dimension, GroupBy, UnknownDimension};
pub use interference::{Culprit, Interference, StageInterference};
pub use mynah_profile::Side;
pub use path::{ClockRelation, Contradiction, Joined, PathError, PathReport, join};
pub use queue_models::StageModel;
pub use report::{Counted, GroupReport, Growth, ProfileReport, ProfileReports, StageReport};
pub use text::Shown;
pub use verdict::{Beyond, Cause, CauseShare, Limits, Outcome, StageVerdict, Verdict, bytes_per_s};
