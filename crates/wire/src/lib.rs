//! The bytes of NVMe: structures, messages, and the machines that speak them.
//!
//! No I/O, no clock, no device behaviour: what goes in is bytes, what comes out is bytes and
//! events. Field names and section numbers follow the NVM Express Base Specification 2.0,
//! the NVM Command Set Specification 1.0 and the TCP Transport Specification 1.0.

pub mod authentication;
pub mod fabrics;
pub mod fuzzing;
pub mod nbd;
pub mod nvme;
pub mod pci;
pub mod rdma;
pub mod tcp;
pub mod tls_key;
pub mod vfio_user;
