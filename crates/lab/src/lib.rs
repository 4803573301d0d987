//! Experiments on a simulated NVMe SSD.

pub mod experiment;
pub mod mqsim;
pub mod trace;
pub mod workload;

mod quantity;
pub mod histogram;
pub mod recorder;
pub mod report;
pub mod request_log;
pub mod result;
pub mod summary;
