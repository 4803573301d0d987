//! The functions of `include/kvs_api.h`.
//!
//! What holds for all of them: a pointer that is not null leads to what its type says, which nobody else
//! uses, until the call returns or, in asynchronous calls, until the function has been called that they
//! name. Handles may be anything. No call unwinds: a panic ends the process.

#![allow(unsafe_code, reason = "C hands over pointers, and calls by name")]
#![allow(clippy::missing_safety_doc, reason = "the same holds for all functions, and stands above")]

mod call;
mod devices;
mod iterators;
mod memory;
mod pairs;
mod pointers;
mod spaces;

pub use devices::*;
pub use iterators::*;
pub use memory::*;
pub use pairs::*;
pub use spaces::*;
