//! NVMe/TCP (TCP Transport Specification 1.0).

pub mod digest;
pub mod pdu;
pub mod stream;
