//! Experiments on a simulated NVMe SSD.

pub mod drive;
pub mod fault;
pub mod units;
