//! The stream of PDUs between host and controller, as both ends see it: [`Inbound`] cuts
//! received bytes into checked PDUs, [`Outbound`] puts PDUs together.
//!
//! Nothing here knows what the PDUs are for. What a connection may receive at which moment,
//! beyond the order of initialization and the direction of each PDU, is for the machines.
//! The source is the TCP Transport Specification 1.0, sections 3.1 and 3.6.

mod inbound;
mod outbound;
#[cfg(test)]
mod tests;

pub use inbound::{CapsuleData, Inbound, Initialization, Limits, Pdu};
pub use outbound::{Outbound, Piece};

use super::pdu::FatalError;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Host,
    Controller,
}

/// The peer broke the protocol: the connection must end, with a terminate PDU that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    pub error: FatalError,
    /// Offset of the bad field, or the bad value ([`FatalError`]).
    pub information: u32,
    /// The header that was wrong, as far as it was looked at.
    pub header: Vec<u8>,
}

/// The alignment field of an initialize PDU as bytes; `None` if it is above its limit of 31.
pub fn alignment_bytes(field: u8) -> Option<u8> {
    (field <= 31).then(|| (field + 1) * 4)
}
