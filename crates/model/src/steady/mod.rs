//! The state a drive settles into under a write workload, found without running the drive.
//!
//! [`analytic`] gives what theory says of an infinite pool under uniform random writes;
//! [`pool`] runs the collection policy on the block counts of one finite pool, for several
//! classes of data. Plain numbers in, plain numbers out: nothing here knows of time,
//! addresses or the other planes of the drive. `docs/steady-state.md` has the reasoning and
//! a table of one against the other.

pub mod analytic;
mod engine;
pub(crate) mod log;
pub(crate) mod ordered;
pub mod pool;
mod resample;
mod sequence;
