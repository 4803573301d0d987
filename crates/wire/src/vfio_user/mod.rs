//! vfio-user: a PCI device in another process, over a Unix socket.
//!
//! The layouts are those of the protocol's specification (version 0.9 and what libvfio-user,
//! QEMU's hw/vfio-user and SPDK's lib/vfio_user have made of it; where the text and these differ,
//! as in the number of DEVICE_RESET or the layout of DMA_MAP, it is the programs that count).
//! [`server`] is the device's end, [`client`] the end of whoever uses the device. Both are
//! machines without I/O: bytes and descriptors go in, events, bytes and which descriptors to send
//! come out. What a descriptor is, the machines do not know.
//!
//! Not here: migration, dirty pages, region I/O descriptors, access to a client's memory by
//! messages. The server says that it does not have them; the client answers requests for them
//! with an error.

pub mod capabilities;
pub mod client;
pub mod message;
pub mod server;
mod stream;

pub use message::{Errno, REGIONS};
pub use stream::{Ended, Output};

/// The longest message, header included. Longer ones end the connection.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Most descriptors that come with one message; QEMU does not send more either.
pub const DESCRIPTORS_MAX: usize = 16;

/// The longest region access.
pub const ACCESS_BYTES_MAX: u32 = 32 << 10;
