//! Experiments on a simulated NVMe SSD.

pub mod experiment;
pub mod mqsim;
pub mod trace;
pub mod workload;

mod quantity;
