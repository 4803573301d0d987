//! Experiments on a simulated NVMe SSD.

pub mod histogram;
pub mod recorder;
pub mod report;
pub mod request_log;
pub mod result;
pub mod summary;
