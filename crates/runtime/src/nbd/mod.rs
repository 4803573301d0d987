//! NBD: namespaces as network block devices, for hosts without an NVMe initiator.
//!
//! A connection of a client is a host of the subsystem like any other, with a controller and an I/O
//! queue of its own; what the client asks for becomes commands of the NVM command set.

mod client;
mod listener;
mod session;

pub(crate) use client::{Ask, Client};
pub use listener::{Listener, NbdAddress, NbdListenError};
pub(crate) use session::{EXTENTS_MAX, Volume};

/// Who clients are to the subsystem: they cannot say so themselves.
pub const HOST_NQN: &str = "nqn.2026-11.io.github.mynah-ssd:nbd";
