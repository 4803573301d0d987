//! Experiments on a simulated NVMe SSD.
//!
//! A drive, two flows, an answer:
//!
//! ```
//! # fn main() -> Result<(), mynah_lab::SimulationError> {
//! use mynah_lab::Simulation;
//!
//! let measured = Simulation::on("enterprise-tlc")?
//!     .set("over_provisioning=28%")?
//!     .flow("reader", "rw=randread bs=4k iodepth=8 number_ios=2000")?
//!     .flow("writer", "rw=randwrite bs=16k iodepth=8 number_ios=2000")?
//!     .run()?;
//! let reads = measured.result.flows[0].read.lat_ns.expect("reads completed");
//! println!("{}\np99 of the reads: {} ns", measured.summary(), reads.percentiles.p99);
//! # assert_eq!(measured.result.requests, 4000);
//! # Ok(())
//! # }
//! ```
//!
//! [`Simulation`] is what `mynah sim` runs; [`Stepper`] drives a drive request by request;
//! [`Runner`] is what lies below both results. Any number of drives live in one process: nothing
//! is shared.
//!
//! What the root names is for programs of others, and stays from version to version as
//! `docs/versions.md` says. The modules are for the other crates of Mynah.

pub mod experiment;
#[doc(hidden)]
pub mod fuzzing;
pub mod mqsim;

pub mod batch;
pub mod description;
pub mod emulation;
pub mod enclosure;
pub mod flow_text;
mod key_space;
mod observers;
mod profile_log;
pub mod recording;
pub mod replay;
mod run_error;
pub mod runner;
pub mod saved_state;
pub mod shard;
pub mod simulation;
pub mod state_cache;
pub mod stepper;

pub use emulation::{Emulation, Prepared};
pub use experiment::{
    Experiment, ExperimentError, ExperimentFlow, Point, Precondition, Settle, SlcStart, Start,
};
pub use mynah_drive_file::fault::FaultError;
pub use mynah_drive_file::{DriveError, DriveFile};
pub use mynah_model::config::Config;
pub use mynah_model::io::{Completion, Operation};
pub use mynah_model::pair_index::{
    LANES, OwnIndex, PageCounts, PageJob, PairIndex, PairIndexKind, Place, Probes, Room,
};
pub use mynah_model::{ConfigError, Drive, policy};
pub use mynah_report::comparison::Comparison;
pub use mynah_report::html::ReportCurves;
pub use mynah_result::kind::Kind;
pub use mynah_result::precision::Goal;
pub use mynah_result::{
    BlameEntry, Confidence, Device, Document, Estimate, FailedRun, Flow, KeySides, KeyValueCounts,
    Latency, Metric, Percentiles, Precision, Result as RunResult, Results, Run, Settling, Side,
    SlowCommand, StageTime, Steadiness, TraceWrites, Verdict, WafParts,
};
pub use mynah_workload::fio::{FioError, FioJob};
pub use mynah_workload::trace::{TraceAction, TraceError, TraceFormat};
pub use mynah_workload::{
    Addresses, FlowOptions, FlowSpec, Limits, Mode, OptionError, Source, Synthetic, WorkloadError,
};
pub use recording::{Header, Recording, RecordingError};
pub use replay::{replay, resimulate};
pub use runner::{Outcome, Progress, RunError, RunOptions, Runner};
pub use saved_state::SavedStateError;
pub use shard::ShardError;
pub use simulation::{Measured, Simulation, SimulationError, SimulationFiles, Step};
pub use state_cache::StateCache;
pub use stepper::{Done, HostQueue, Stepper, StepperError};

/// What results come from: the version, and a hash of the sources that they follow from and of the
/// versions of what these use.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("MYNAH_SOURCES"));
