//! An NVMe subsystem around one modelled drive, for any transport.
//!
//! No I/O, no clock, no threads: whoever owns a [`Now`] and the bytes of a transport drives it.

pub mod store;

pub use store::{PatternStore, RamStore, Ready, Store, StoreError, StoreJob};

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
