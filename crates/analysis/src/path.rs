//! Two sides of the same I/Os, joined into whole paths.
//!
//! Both ends count the commands of a connection, so an I/O is known by its controller, its queue and
//! which command of that it was. `clock.rs` relates the two clocks by the I/Os' own stamps;
//! `join.rs` puts the target's stages into the place of what the host only waited for; `sides.rs`
//! holds the records of either side. A foreign host that has not counted is paired by time (`foreign.rs`).

mod clock;
mod foreign;
mod join;
mod report;
mod sides;

pub use clock::{ClockRelation, Contradiction};
#[cfg(test)]
pub(super) use join::{BEFORE, BEHIND};
pub use join::{Joined, PathError, join};
pub use report::PathReport;
