//! NVMe structures that every transport shares.

pub mod command;
pub mod entry;
pub mod feature;
pub mod identify;
pub mod key;
mod layout;
pub mod log;
pub mod opcode;
pub mod placement;
pub mod property;
pub mod protection;
pub mod query;
pub mod reservation;
pub mod samsung;
pub mod status;

pub use entry::{CompletionEntry, SubmissionEntry};
pub(crate) use layout::structures;
pub use status::Status;
