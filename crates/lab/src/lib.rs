//! Experiments on a simulated NVMe SSD.

pub mod trace;
pub mod workload;

mod quantity;
