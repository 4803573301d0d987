//! The API in C, from Rust and from C programs.
#![allow(unsafe_code, reason = "they are programs of the API")]

mod programs;
mod properties;
