//! A host's view: from the creation of an I/O to its answer in the hands of who has asked for it.
//!
//! `flight.rs` notes when commands leave and answers come; a job writes what was noted of a command
//! into its ring when the command has ended (`job.rs`); `run.rs` makes one profile of those of all
//! jobs. Meanwhile their connections are asked what limits them (`sockets.rs`).

mod flight;
mod job;
mod run;
mod sockets;

pub use flight::{Flight, Flights};
pub use job::{Ended, HostProfile, Period, host_header};
pub use run::{HostProfiles, ProfileError};
pub(crate) use sockets::Sampled;
