//! Experiments on a simulated NVMe SSD.

pub mod experiment;
#[doc(hidden)]
pub mod fuzzing;
pub mod mqsim;
pub mod trace;
pub mod workload;

pub mod drive;
pub mod fault;
pub mod histogram;
mod quantity;
pub mod recorder;
pub mod recording;
pub mod report;
pub mod request_log;
pub mod result;
pub mod runner;
pub mod summary;
pub mod units;
