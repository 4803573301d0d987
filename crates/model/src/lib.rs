//! A deterministic model of an NVMe SSD in time.
//!
//! [`Drive`] takes commands and says when data moves and when they complete, to the
//! picosecond: host queues, link, firmware, data cache, mapping, garbage collection, flash
//! scheduling, buses and dies. It has no clock, no threads, no sockets and no payload
//! bytes; whoever drives it decides whether its time is simulated or the wall clock's.
//!
//! ```text
//! ring -> doorbell -> arbitration, fetch -> Output::Fetch -> command
//!      -> PRP list -> write data (Output::Move) -> firmware
//!      -> cache -> mapping (a table miss reads flash first) -> block allocation, collection
//!      -> plane queue -> channel and die -> read data (Output::Move) -> Output::Complete
//! ```
//!
//! Key-value commands are asked about on the way ([`keys`]): when a request manager has taken one,
//! the host says which pair it is about.
//!
//! What it does not model: zones, temperature.

mod cache;
mod check;
pub mod config;
mod drive;
mod fault;
mod flash;
mod ftl;
mod host;
mod invariant;
pub mod io;
mod kernel;
pub mod keys;
mod number;
mod observe;
pub mod pair_index;
pub mod policy;
mod renewal;
mod snapshot;
mod space;
mod state;
pub mod steady;
#[doc(hidden)]
pub mod testing;
mod token;
mod validate;
mod victim;

pub use cache::warm;
pub use config::ConfigError;
pub use drive::{Drive, InputError, Policies};
pub use ftl::{layout, precondition};
pub use host::ethernet::{ceilings, packets};
pub use invariant::BrokenInvariant;
pub use kernel::bytes::StateError;
pub use observe::activity::{Activity, ActivityKind};
pub use observe::gauge::{Gauges, Progress};
pub use observe::long::LongWait;
pub use observe::placement::{HandleCounters, PlacementCounters};
pub use observe::slc::{SlcCounters, SlcFill, SlcState};
pub use observe::{stats, turnover};
