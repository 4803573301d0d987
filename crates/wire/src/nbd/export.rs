//! What a server offers.

/// Transmission flags ("Transmission flags").
pub mod flag {
    /// The other bits mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// Nothing can be written.
    pub const READ_ONLY: u16 = 1 << 1;
    /// There is FLUSH.
    pub const FLUSH: u16 = 1 << 2;
    /// Commands may say FUA.
    pub const FUA: u16 = 1 << 3;
    /// There is TRIM.
    pub const TRIM: u16 = 1 << 5;
    /// There is WRITE_ZEROES.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Reads may ask for one chunk.
    pub const DONT_FRAGMENT: u16 = 1 << 7;
    /// Several connections see the same bytes, and a flush on one is for all.
    pub const MULTIPLE_CONNECTIONS: u16 = 1 << 8;
    /// WRITE_ZEROES may ask to fail unless it is fast.
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Bytes of requests ("Block size constraints").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it.
    pub least: u32,
    /// And better of this.
    pub preferred: u32,
    /// Payloads have no more.
    pub most: u32,
}

/// Something that clients can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What it is called; the first one is also found under the empty name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its size.
    pub bytes: u64,
    /// What requests it takes.
    pub sizes: BlockSizes,
    /// Of [`flag`].
    pub flags: u16,
}
