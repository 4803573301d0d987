//! Simulated drives in real time: the only crate that touches the operating system.

pub mod file_store;
#[cfg(feature = "tls")]
pub mod tls;
pub mod workers;
