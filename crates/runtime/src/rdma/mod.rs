//! NVMe/RDMA with verbs: hosts on the queue pairs of an RDMA device.
//!
//! What a queue pair does is `mynah_wire::rdma`'s; here are its verbs, the memory that data go
//! through, and the connections between both and the hub. Hosts have no access to this process's
//! memory: it alone reads and writes theirs.

mod buddy;
#[cfg(feature = "rdma")]
mod port;
#[cfg(feature = "rdma")]
mod verbs;

#[cfg(feature = "rdma")]
pub use port::Port;
