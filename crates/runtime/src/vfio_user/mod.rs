//! What the vfio-user machines of [`mynah_wire::vfio_user`] need of the operating system: a socket
//! through which descriptors go, and the memory behind them.

mod channel;
mod listener;
mod memory;

pub use channel::{Channel, Received};
pub use listener::{ListenError, Listener, socket_path};
pub use memory::{HostMemory, Missing};
