//! Simulated drives in real time: the only crate that touches the operating system.

pub mod authenticator;
pub mod clock;
pub mod file_store;
pub mod host;
pub mod random;
pub mod record;
#[cfg(feature = "tls")]
pub mod tls;
pub mod workers;
