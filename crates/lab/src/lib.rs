//! Experiments on a simulated NVMe SSD.

pub mod fault;
pub mod units;
