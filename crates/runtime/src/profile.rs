//! Profiles of what is served: a record for each I/O, written once, when it ends, into a ring in a
//! mapped file. No I/O costs an allocation, a lock or a system call.
//!
//! The file can be read while it is written, and after the process was killed. A target's side is in
//! `target.rs`, a host's in `host/`, that of the kernel's initiator in `kernel/`. `query.rs` answers
//! hosts that ask a target for it.

mod host;
pub mod kernel;
mod notes;
mod query;
mod requests;
mod ring;
mod target;

pub use host::{
    Ended, Flight, Flights, HostProfile, HostProfiles, Period, ProfileError, host_header,
};
pub use query::{Queries, Scope};
pub use ring::{RING_BYTES, Ring, RingError, RingProblem};
pub use target::{FunctionNotes, Owner, Profiled, TargetProfile};

pub(crate) use host::Sampled;
pub(crate) use notes::{Note, Noted};
pub(crate) use query::Situation;
pub(crate) use target::{Posted, Sent, Turn};
