//! A PCI function in a time of the tests' own: what is profiled and recorded of its commands.

#[allow(dead_code)]
#[path = "../../../device/tests/device/pairs.rs"]
mod pairs;
mod profiled;
mod recorded;
#[allow(dead_code)]
#[path = "../../../device/tests/device/support.rs"]
mod shared;
#[allow(dead_code)]
#[path = "../../../device/tests/pci/support.rs"]
mod support;
