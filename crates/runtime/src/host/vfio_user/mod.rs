//! A driver for PCIe NVMe functions in user space, over vfio-user.
//!
//! [`Device`] is the function as the protocol shows it: registers, memory that it may use,
//! interrupts. [`Controller`] brings the controller up and makes queues; [`Queue`] is one, polled
//! or woken by interrupts. Memory of queues and data is this process's own, shared with the
//! function.

mod controller;
mod device;
mod queue;

pub(super) use controller::Controller;
use device::Device;
pub(super) use queue::Queue;

use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct VfioUserOptions {
    /// The folder with the socket.
    pub folder: PathBuf,
    /// Whether I/O queues wait for interrupts in place of looking all the time.
    pub interrupts: bool,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Bytes of a memory page, as the controller is told (CC.MPS).
const PAGE_BYTES: u64 = 4096;
