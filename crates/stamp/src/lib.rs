//! The vocabulary that every part of Mynah shares: [`Time`] and [`Span`] in integer
//! picoseconds, the [`Stage`]s an I/O passes through, and the [`StageSpans`] record that
//! says how long one I/O spent in each.
//!
//! The drive model, the simulator, the served drive and the load generator all use these types,
//! so that what was predicted and what was measured can be laid side by side.
//!
//! This crate knows nothing else: no drive, no protocol, no clock.

mod stage;
mod time;

pub use stage::{LinkSpans, Stage, StageSpans};
pub use time::{Span, Time};
