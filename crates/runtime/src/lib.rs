//! Simulated drives in real time: the only crate that touches the operating system.
//!
//! [`server`] puts a drive that is served together. Its [`engine`] is one thread with the
//! sockets, the clock and, inside [`hub`], the connections and the subsystem. [`group`] is several
//! of them in one process. [`host`] is the other side: an initiator and a load generator.

pub mod arena;
pub mod authenticator;
pub mod clock;
pub mod cpus;
pub mod engine;
pub mod fault;
pub mod file_store;
pub mod group;
pub mod host;
pub mod hub;
mod initiator;
pub mod lateness;
pub mod local_socket;
pub mod lockstep;
pub mod metrics;
pub mod nbd;
pub mod pacing;
pub mod pair_store;
mod prefetch;
pub mod private_link;
pub mod profile;
pub mod quota;
pub mod random;
#[cfg(any(test, feature = "rdma"))]
pub mod rdma;
pub mod record;
pub mod server;
pub mod shared;
pub mod signals;
mod stamped;
pub mod status;
mod tcp_info;
#[cfg(feature = "tls")]
pub mod tls;
pub mod vfio_user;
pub mod workers;
