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
//! [`Simulation`] is what `mynah sim` runs; [`stepper::Stepper`] drives a drive request by
//! request; [`runner::Runner`] is what lies below both results. Any number of drives live in
//! one process: nothing is shared.

pub mod experiment;
#[doc(hidden)]
pub mod fuzzing;
pub mod mqsim;

pub mod agreement;
pub mod batch;
mod batch_means;
pub mod capture;
pub mod comparison;
pub mod confidence;
pub mod description;
pub mod emulation;
pub mod enclosure;
pub mod evidence;
pub mod histogram;
pub mod ledger;
mod observers;
pub mod output;
pub mod precision;
mod profile_log;
pub mod recorder;
pub mod recording;
pub mod replay;
pub mod report;
pub mod request_log;
pub mod result;
pub mod rows;
pub mod runner;
pub mod saved_state;
pub mod series;
pub mod shard;
pub mod simulation;
pub mod slowest;
pub mod steady;
pub mod stepper;
pub mod summary;
pub mod sweep;
pub mod timeline;

pub use mynah_drive_file::{self as drive, fault, units};
pub use mynah_workload::{self as workload, fio, trace};
pub use simulation::{Measured, Simulation, SimulationError};
