//! The PCI function, driven as a guest drives it.

mod boot;
mod io;
mod laws;
mod queues;
mod support;

#[allow(dead_code)]
#[path = "../device/support.rs"]
mod shared;
