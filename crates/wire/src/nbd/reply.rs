//! Answers ("Simple reply message", "Structured reply chunk message").

use super::Error;

pub(super) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// NBD_REPLY_FLAG_DONE: the chunk is the last of the reply.
pub(super) const DONE: u16 = 1;
/// Bytes of an answer around its data, at most.
pub const REPLY_BYTES_MAX: usize = 128;

/// Chunk types (NBD_REPLY_TYPE_).
pub(super) mod kind {
    pub(in crate::nbd) const NONE: u16 = 0;
    pub(in crate::nbd) const OFFSET_DATA: u16 = 1;
    pub(in crate::nbd) const OFFSET_HOLE: u16 = 2;
    pub(in crate::nbd) const BLOCK_STATUS: u16 = 5;
    pub(in crate::nbd) const ERROR: u16 = 1 << 15 | 1;
    pub(in crate::nbd) const ERROR_OFFSET: u16 = 1 << 15 | 2;
}

/// States of an extent, as `base:allocation` has them.
pub mod extent {
    /// NBD_STATE_HOLE: no space is allocated.
    pub const HOLE: u32 = 1;
    /// NBD_STATE_ZERO: it reads as zeros.
    pub const ZERO: u32 = 2;
}

/// Content of a chunk of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// NBD_REPLY_TYPE_NONE: success without data.
    Done,
    /// NBD_REPLY_TYPE_OFFSET_DATA: offset and length of data, which follow.
    Data(u64, u32),
    /// NBD_REPLY_TYPE_BLOCK_STATUS: a metadata context, and length and state of each extent.
    Extents(u32, &'a [(u32, u32)]),
    /// NBD_REPLY_TYPE_ERROR.
    Failed(Error),
    /// NBD_REPLY_TYPE_ERROR_OFFSET.
    FailedAt(Error, u64),
}

/// The form of replies to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// Structured replies, not simple ones.
    pub structured: bool,
}

impl Replies {
    /// A simple reply; without an error, the data of a read follow.
    pub fn simple(out: &mut Vec<u8>, cookie: u64, error: Option<Error>) {
        out.extend(SIMPLE_MAGIC.to_be_bytes());
        out.extend(error.map_or(0, |error| error as u32).to_be_bytes());
        out.extend(cookie.to_be_bytes());
    }

    /// A chunk of a structured reply; the data of a read follow.
    pub fn chunk(out: &mut Vec<u8>, cookie: u64, chunk: Chunk<'_>, is_last: bool) {
        let (kind, bytes) = match chunk {
            Chunk::Done => (kind::NONE, 0),
            Chunk::Data(_, bytes) => (kind::OFFSET_DATA, 8 + bytes),
            Chunk::Extents(_, extents) => (kind::BLOCK_STATUS, 4 + 8 * extents.len() as u32),
            Chunk::Failed(_) => (kind::ERROR, 6),
            Chunk::FailedAt(..) => (kind::ERROR_OFFSET, 14),
        };
        out.extend(CHUNK_MAGIC.to_be_bytes());
        out.extend((if is_last { DONE } else { 0 }).to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(cookie.to_be_bytes());
        out.extend(bytes.to_be_bytes());
        match chunk {
            Chunk::Done => {}
            Chunk::Data(offset, _) => out.extend(offset.to_be_bytes()),
            Chunk::Extents(context, extents) => {
                out.extend(context.to_be_bytes());
                for (bytes, state) in extents {
                    out.extend(bytes.to_be_bytes());
                    out.extend(state.to_be_bytes());
                }
            }
            Chunk::Failed(error) | Chunk::FailedAt(error, _) => {
                out.extend((error as u32).to_be_bytes());
                // No message.
                out.extend(0u16.to_be_bytes());
                if let Chunk::FailedAt(_, offset) = chunk {
                    out.extend(offset.to_be_bytes());
                }
            }
        }
    }

    /// A reply, in the client's form, to a request that returns no data.
    pub fn end(self, out: &mut Vec<u8>, cookie: u64, error: Option<Error>) {
        match (self.structured, error) {
            (false, error) => Replies::simple(out, cookie, error),
            (true, None) => Replies::chunk(out, cookie, Chunk::Done, true),
            (true, Some(error)) => Replies::chunk(out, cookie, Chunk::Failed(error), true),
        }
    }
}
