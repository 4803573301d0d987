//! The Key Value Storage API (SNIA, version 1.1) in C, in front of Mynah's key-value drives: source and
//! binary compatible with OpenMPDK's library, with headers of its own in `include/`.
//!
//! `exports/` is the boundary to C, and the only place with `unsafe`: what pointers lead to is read and
//! written there, and handles are looked up in `registry.rs`. Behind it everything is about slices. A
//! `device` has its pairs in one of two ways: a table in this process, in which an operation takes no
//! modelled time (`memory`), or an `engine`, a thread that hands steps to the model of a drive
//! (`modelled`) or to a served namespace (`served`).
//!
//! What it does not do: NUMA, DPDK, OpenMPDK's configuration files, associations (streams).

mod abi;
mod code;
mod device;
mod engine;
mod exports;
mod iterator;
mod memory;
mod modelled;
mod registry;
mod served;
mod spaces;
mod table;
mod uri;
mod worker;

pub use abi::*;
pub use code::Code;
pub use exports::*;
