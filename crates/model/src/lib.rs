//! A deterministic model of an NVMe SSD in time.

pub mod config;
pub mod io;
pub mod stats;
pub mod steady;
