//! What this machine's own NVMe/TCP initiator, that of its kernel, does with each I/O.
//!
//! `tracefs.rs` has an instance of the kernel's trace of its own, with events that are made for it
//! and removed with it; `collector.rs` reads it, and writes a host's profile of what
//! [`mynah_profile::kernel`] makes of it; `controllers.rs` knows what sysfs says of controllers.

mod collector;
mod controllers;
mod tracefs;

pub use collector::{KernelCounts, KernelTrace};
pub use tracefs::TraceError;
