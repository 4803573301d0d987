//! Requests of the transmission phase ("Request message"), and whether an export takes them.

use super::export::{Export, flag};
use super::{Error, u16_at, u32_at, u64_at};

/// Bytes of a request, without its payload.
pub const REQUEST_BYTES: usize = 28;
const MAGIC: u32 = 0x2560_9513;

/// What a request may ask for besides ("Command flags").
pub mod command_flag {
    /// The answer comes when it is on stable storage.
    pub const FUA: u16 = 1;
    /// Zeros are to be written, and not to become a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The answer is to be one chunk.
    pub const DONT_FRAGMENT: u16 = 1 << 2;
    /// NBD_CMD_FLAG_REQ_ONE: one extent is enough.
    pub const ONE_EXTENT: u16 = 1 << 3;
    /// Fail where writing zeros is no faster than writing bytes.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// NBD_CMD_READ.
    Read,
    /// NBD_CMD_WRITE: the payload follows.
    Write,
    /// NBD_CMD_DISC: the client goes, and wants no answer.
    Disconnect,
    /// NBD_CMD_FLUSH.
    Flush,
    /// NBD_CMD_TRIM.
    Trim,
    /// NBD_CMD_WRITE_ZEROES.
    WriteZeroes,
    /// NBD_CMD_BLOCK_STATUS.
    BlockStatus,
    /// A type that is not known.
    Unknown(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the client; the reply has the same.
    pub cookie: u64,
    pub command: Command,
    /// Bits of [`command_flag`].
    pub flags: u16,
    /// In bytes.
    pub offset: u64,
    /// Length of the range.
    pub bytes: u32,
}

impl Request {
    /// Parses a request; `None` if the magic is wrong: then the next request cannot be found.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        if u32_at(bytes, 0) != MAGIC {
            return None;
        }
        let command = match u16_at(bytes, 6) {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Unknown(other),
        };
        Some(Request {
            cookie: u64_at(bytes, 8),
            command,
            flags: u16_at(bytes, 4),
            offset: u64_at(bytes, 16),
            bytes: u32_at(bytes, 24),
        })
    }

    /// The bytes of the request, for clients.
    pub fn build(&self) -> [u8; REQUEST_BYTES] {
        let command = match self.command {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Unknown(other) => other,
        };
        let mut out = [0; REQUEST_BYTES];
        out[..4].copy_from_slice(&MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.to_be_bytes());
        out[6..8].copy_from_slice(&u16::to_be_bytes(command));
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..].copy_from_slice(&self.bytes.to_be_bytes());
        out
    }

    /// Bytes of payload that follow the request.
    pub fn payload_bytes(&self) -> u32 {
        match self.command {
            Command::Write => self.bytes,
            _ => 0,
        }
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Checks a request against an export. `has_extents`: the client may ask for block status;
    /// `structured`: replies are structured.
    ///
    /// # Errors
    /// What it fails with.
    pub fn check(&self, export: &Export, structured: bool, has_extents: bool) -> Result<(), Error> {
        use Command as C;
        let allowed = match self.command {
            C::Read if structured => command_flag::DONT_FRAGMENT,
            C::Write | C::Trim => command_flag::FUA,
            C::WriteZeroes => command_flag::FUA | command_flag::NO_HOLE | command_flag::FAST_ZERO,
            C::BlockStatus if has_extents => command_flag::ONE_EXTENT,
            C::BlockStatus | C::Unknown(_) => return Err(Error::Invalid),
            C::Read | C::Flush | C::Disconnect => 0,
        };
        // FUA means nothing to commands that write nothing, and may be there all the same.
        if self.flags & !(allowed | command_flag::FUA) != 0 {
            return Err(Error::Invalid);
        }
        let writes = matches!(self.command, C::Write | C::Trim | C::WriteZeroes);
        if writes && export.flags & flag::READ_ONLY != 0 {
            return Err(Error::NotPermitted);
        }
        if matches!(self.command, C::Flush | C::Disconnect) {
            return Ok(());
        }
        let least = u64::from(export.sizes.least.max(1));
        let is_payload = matches!(self.command, C::Read | C::Write);
        if self.bytes == 0
            || !self.offset.is_multiple_of(least)
            || !u64::from(self.bytes).is_multiple_of(least)
            || is_payload && self.bytes > export.sizes.most
        {
            return Err(Error::Invalid);
        }
        match self.offset.checked_add(self.bytes.into()) {
            Some(end) if end <= export.bytes => Ok(()),
            _ if writes => Err(Error::NoSpace),
            _ => Err(Error::Invalid),
        }
    }
}
