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
//! What it does not model: mapping by key, zones, temperature.

mod account;
mod activity;
mod blame;
mod blocks;
mod cache;
mod check;
mod clean;
mod collection;
mod command;
pub mod config;
mod dram;
mod drive;
mod event;
mod fault;
mod fifo;
mod flash;
mod front;
mod gauge;
mod host;
mod hotness;
mod index;
pub mod io;
mod link;
mod mapping;
mod merge;
mod placement;
mod pool;
pub mod precondition;
mod read;
mod recency;
mod renewal;
mod ring;
mod space;
mod state;
pub mod stats;
pub mod steady;
#[doc(hidden)]
pub mod testing;
mod translation;
pub mod turnover;
mod validate;
pub mod warm;
mod wear;
mod write;

pub use activity::{Activity, ActivityKind};
pub use check::BrokenInvariant;
pub use drive::{Drive, InputError};
pub use gauge::{Gauges, Progress};
pub use state::StateError;
pub use validate::ConfigError;
