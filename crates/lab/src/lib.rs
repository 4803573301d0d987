//! Experiments on a simulated NVMe SSD.

pub mod histogram;
pub mod recorder;
pub mod result;
