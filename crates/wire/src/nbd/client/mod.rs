//! NBD's other end: a client, as two machines without I/O. [`Handshake`] finds out what an export is,
//! [`Session`] has requests outstanding on it.
//!
//! Nothing that a server says is believed: lengths are bounded, answers have to be to what was asked and not
//! longer than that, and whatever else it sends ends the connection with a [`Broken`].

mod handshake;
mod session;

pub use handshake::{EXPORT_NAME_BYTES_MAX, Handshake, Offer, Unusable};
pub use session::{Broken, Event, Session};
