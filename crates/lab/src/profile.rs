//! Profiles: one record for each I/O ([`mynah_profile`]), and what is made of them.
//!
//! A simulation writes its profile as it goes (`observer.rs`). `analysis.rs` reads one and sorts its
//! I/Os into groups; `report.rs` is what is said of them, for people and for machines.

mod analysis;
mod group;
mod interference;
mod observer;
mod presence;
mod queue_models;
mod report;
mod text;
mod trace;
mod verdict;
mod windows;

pub(crate) use analysis::analyse_from;
pub use analysis::{Analysis, Part, analyse, analyse_part};
pub use group::{Dimension, GroupBy, UnknownDimension};
pub use interference::{Culprit, Interference, StageInterference};
pub use mynah_profile::Side;
pub(crate) use observer::ProfileLog;
pub use queue_models::StageModel;
pub use report::{Counted, GroupReport, Growth, ProfileReport, ProfileReports, StageReport};
pub use text::Shown;
pub use verdict::{
    Beyond, Cause, Limits, NetworkSample, Outcome, StageVerdict, Verdict, bytes_per_s,
};
