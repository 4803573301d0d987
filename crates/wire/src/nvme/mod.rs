//! NVMe structures that every transport shares.

pub mod entry;
pub mod opcode;
pub mod status;

pub use entry::{CompletionEntry, SubmissionEntry};
pub use status::Status;
