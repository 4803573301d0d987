//! Profiles: what each I/O went through, as one record of fixed size.
//!
//! A profile is a file that describes itself. Its header says which side of an I/O wrote it, on
//! which clock, and which stages its records have, in order. A record says what the I/O was, when it
//! began, how long it took, and how long each of its stages was; the stages add up to the whole.
//! Whoever reads a profile needs no other list of stages: a side may have stages that no other has.
//!
//! This crate is the format, and how the trace of a Linux initiator becomes records (`kernel/`): who
//! else fills records in is elsewhere, and so is what is made of them.

mod choice;
mod error;
mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod host;
pub mod kernel;
mod kinds;
mod read;
mod record;
mod write;

pub use choice::{
    CHOICE_BYTES_MAX, Choice, ChoiceError, Chooser, Decision, FILTERS_MAX, Filter, KeepAbove,
    RANGES_MAX, Ranges, Sampling, hash,
};
pub use error::{Problem, ReadError};
pub use follow::{Follow, Progress};
pub use header::{COUNTS_WORD, Counts, HEADER_BYTES, Header, MAGIC, Network, Side, TimeBase};
pub use host::{CAPSULES_COUNTED, HOST_STAGES};
pub use kinds::{OTHER_KIND, io_kinds};
pub use read::{Profile, Records};
pub use record::{HEAD_WORDS, Head, Record};
pub use write::{Writer, file_bytes};

/// Name and version of the format.
pub const SCHEMA: &str = "mynah.profile/1";
