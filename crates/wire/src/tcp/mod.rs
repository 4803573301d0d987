//! NVMe/TCP (TCP Transport Specification 1.0).

pub mod digest;
pub mod host;
pub mod pdu;
pub mod pool;
pub mod stream;
pub mod target;
