//! What a server offers.

/// Transmission flags ("Transmission flags").
pub mod flag {
    /// Always set: the other bits are valid.
    pub const HAS_FLAGS: u16 = 1;
    /// NBD_FLAG_READ_ONLY.
    pub const READ_ONLY: u16 = 1 << 1;
    /// NBD_CMD_FLUSH is supported.
    pub const FLUSH: u16 = 1 << 2;
    /// Requests may have NBD_CMD_FLAG_FUA.
    pub const FUA: u16 = 1 << 3;
    /// NBD_CMD_TRIM is supported.
    pub const TRIM: u16 = 1 << 5;
    /// NBD_CMD_WRITE_ZEROES is supported.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Reads may have NBD_CMD_FLAG_DF.
    pub const DONT_FRAGMENT: u16 = 1 << 7;
    /// Several connections see the same bytes, and a flush on one is for all.
    pub const MULTIPLE_CONNECTIONS: u16 = 1 << 8;
    /// NBD_CMD_WRITE_ZEROES may have NBD_CMD_FLAG_FAST_ZERO.
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Block sizes of requests, in bytes ("Block size constraints").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Minimum: offsets and lengths are multiples of it.
    pub least: u32,
    /// Preferred: requests that are multiples of it are efficient.
    pub preferred: u32,
    /// Maximum payload of a request.
    pub most: u32,
}

/// An export that clients can choose by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Clients choose the first export also by the empty name.
    pub name: String,
    /// Free text for people.
    pub description: String,
    /// Size of the export in bytes.
    pub bytes: u64,
    /// Limits of requests.
    pub sizes: BlockSizes,
    /// Bits of [`flag`].
    pub flags: u16,
}
