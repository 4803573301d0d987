//! NVMe/RDMA (RDMA Transport Specification 1.0): what the connection manager carries for both
//! ends, capsules, and the controller's end of a queue pair. No verbs: whoever has them posts what
//! the machine wants.

pub mod capsule;
pub mod private_data;
pub mod target;

/// TRTYPE of RDMA (Base 2.0, section 5.16.1.23).
pub const TRANSPORT_TYPE: u8 = 1;
/// Entries of a queue, at most: as Linux's host and target (NVME_RDMA_MAX_QUEUE_SIZE in
/// include/linux/nvme-rdma.h).
pub const ENTRIES_MAX: u16 = 128;
