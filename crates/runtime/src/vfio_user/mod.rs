//! A drive as a PCIe function for other processes: what the machines of
//! [`mynah_wire::vfio_user`] need of the operating system, and [`Port`], which joins them with a
//! [`mynah_device::pci::Function`].

mod channel;
mod listener;
mod memory;
mod port;
mod watch;

pub use channel::{Channel, Received};
pub use listener::{ListenError, Listener, socket_path};
pub use memory::{HostMemory, Missing};
pub use port::{ClientEvent, DoorbellMode, MARK_AT, Port, PortError, Say};
pub use watch::{Looks, Profiling, Watcher};
