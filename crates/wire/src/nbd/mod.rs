//! NBD, the network block device protocol: the server's end, and in [`client`] the other. Sections are those of `doc/proto.md` in
//! the NBD project (<https://github.com/NetworkBlockDevice/nbd>). All numbers are big-endian.

pub mod client;
mod export;
mod handshake;
mod reply;
mod request;

pub use export::{BlockSizes, Export, flag};
pub use handshake::{Agreed, Broken, Handshake, Step, refusal};
pub use reply::{Chunk, REPLY_BYTES_MAX, Replies, extent};
pub use request::{Command, REQUEST_BYTES, Request, command_flag};

/// Why a request failed ("Error values"): numbers as in Linux, whatever the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Error {
    /// EPERM: the export cannot be written.
    NotPermitted = 1,
    /// EIO.
    Io = 5,
    /// ENOMEM.
    NoMemory = 12,
    /// EINVAL: the request makes no sense.
    Invalid = 22,
    /// ENOSPC: there is no room, or the range to be written lies beyond the export's end.
    NoSpace = 28,
    /// EOVERFLOW: the answer would not fit one chunk.
    Overflow = 75,
    /// ENOTSUP: it cannot be done as fast as was asked for.
    NotSupported = 95,
    /// ESHUTDOWN: the server goes away.
    Shutdown = 108,
}

/// Reads a big-endian number that is known to be there.
fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(number(bytes, at))
}
