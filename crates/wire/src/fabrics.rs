//! NVMe over Fabrics: what the transports share (Base 2.0, sections 3.1.3 and 6).

use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// NQN of the well-known discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Longest NQN, in bytes, without the terminating zero.
pub const NQN_BYTES_MAX: usize = 223;

/// Data of the Connect command (Base 2.0, figure 547): 1,024 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    /// Identifies the host.
    pub host_id: [u8; 16],
    /// Which controller; 0xffff asks for a new one.
    pub controller_id: U16,
    /// Zero.
    pub reserved: [u8; 238],
    /// NQN of the subsystem, ended by a zero.
    pub subsystem_nqn: [u8; 256],
    /// NQN of the host, ended by a zero.
    pub host_nqn: [u8; 256],
    /// Zero.
    pub reserved_end: [u8; 256],
}

/// The NQN in a 256-byte field: up to its first zero, at most 223 bytes of UTF-8.
pub fn nqn(field: &[u8; 256]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&field[..end]).ok()?;
    (end <= NQN_BYTES_MAX && text.starts_with("nqn.")).then_some(text)
}
