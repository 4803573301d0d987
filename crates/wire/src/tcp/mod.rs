//! NVMe/TCP (TCP Transport Specification 1.0).

pub mod digest;
pub mod host;
pub mod pdu;
pub mod stream;
