//! The subsystem, driven as hosts drive it.

mod connecting;
mod io;
mod support;
