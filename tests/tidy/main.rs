//! Holds ARCHITECTURE.md to the code: what its section "What is checked" lists, one file a rule.
//!
//! Sources are read and parsed, not compiled, and test code is left out of them. A rule that does
//! not hold everywhere yet is a ratchet: it says what is left, exactly, so that it fails when
//! something is added and also when something could be struck off.

mod architecture;
mod calls;
mod report;
mod source;

mod circles;
mod clocks;
mod code_map;
mod config_keys;
mod crate_graph;
mod dwords;
mod facade;
mod flash;
mod functions;
mod imports;
mod lints;
mod pages;
mod parts;
mod state;
