//! The PCI function, driven as a guest drives it.

mod boot;
mod corpus;
mod data_placement;
mod hostile;
mod io;
mod key_spaces;
mod key_value;
mod laws;
mod lazy;
mod queues;
mod support;

#[allow(dead_code)]
#[path = "../device/support.rs"]
mod shared;

#[allow(dead_code)]
#[path = "../device/pairs.rs"]
mod pairs;
