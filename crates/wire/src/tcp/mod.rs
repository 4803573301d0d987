//! NVMe/TCP (TCP Transport Specification 1.0).

pub mod pdu;
