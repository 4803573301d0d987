//! An NVMe subsystem around one modelled drive, for any transport.
//!
//! No I/O, no clock, no threads: whoever owns a [`Now`] and the bytes of a transport drives
//! it. [`Subsystem::attach`] a connection, [`Subsystem::submit`] commands with their data,
//! [`Subsystem::advance`] it when [`Subsystem::next_at`] says so or the store has finished
//! something, and take what [`Subsystem::poll`] returns until it returns nothing.

mod any_pairs;
mod command_set;
mod config;
mod controllers;
pub mod fuzzing;
mod health;
mod held;
mod key_value;
mod lateness;
mod media;
mod model;
mod namespaces;
mod output;
pub mod pci;
mod placement;
mod queue;
mod samsung;
mod slots;
pub mod store;
mod subsystem;
mod tap;
mod transfer;

pub use config::{
    Carrier, Limits, NamespaceConfig, NamespaceContent, Neighbour, Port, Shard, SubsystemConfig,
    SubsystemError, Timing, Transport,
};
pub use controllers::{AnaState, Path};
pub use output::{
    Authentication, CommandKind, Completion, CompletionData, Connected, Media, Output, Query,
    Queue, Value,
};
pub use store::{
    Arena, ArenaSource, Condition, KeptPairs, PatternStore, PatternValues, Place, RamStore,
    RamValues, Ready, Recall, Store, StoreError, StoreJob, Values,
};
pub use subsystem::{BlockNamespace, Subsystem, Wakeup};
pub use tap::Tap;

use mynah_stamp::Time;

/// The two times that a subsystem lives in. Both start at zero with the subsystem and never
/// go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The host's time: keep-alive timers, power-on hours.
    pub wall: Time,
    /// The model's time. Differs from the host's by `--speed`, and stands still in the
    /// moments when the model catches up.
    pub model: Time,
}
