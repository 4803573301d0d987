//! Answers ("Simple reply message", "Structured reply chunk message").

use super::Error;

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// The chunk is the answer's last.
const DONE: u16 = 1;
/// Bytes of an answer around its data, at most.
pub const REPLY_BYTES_MAX: usize = 128;

/// Types of chunks.
mod kind {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_DATA: u16 = 1;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const ERROR: u16 = 1 << 15 | 1;
    pub(super) const ERROR_OFFSET: u16 = 1 << 15 | 2;
}

/// States of an extent, as `base:allocation` has them.
pub mod extent {
    /// It holds no space.
    pub const HOLE: u32 = 1;
    /// It reads as zeros.
    pub const ZERO: u32 = 2;
}

/// What an answer's chunk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Nothing more than that all is well.
    Done,
    /// So many bytes follow, which are those from an offset on.
    Data(u64, u32),
    /// Extents, each with its length and its state, for a context.
    Extents(u32, &'a [(u32, u32)]),
    /// It has failed.
    Failed(Error),
    /// It has failed at an offset.
    FailedAt(Error, u64),
}

/// How a client is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// In chunks.
    pub structured: bool,
}

impl Replies {
    /// A simple answer: data of a read follow if there is no error.
    pub fn simple(out: &mut Vec<u8>, cookie: u64, error: Option<Error>) {
        out.extend(SIMPLE_MAGIC.to_be_bytes());
        out.extend(error.map_or(0, |error| error as u32).to_be_bytes());
        out.extend(cookie.to_be_bytes());
    }

    /// A chunk of an answer; data of a read follow.
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

    /// The end of an answer that has no data.
    pub fn end(self, out: &mut Vec<u8>, cookie: u64, error: Option<Error>) {
        match (self.structured, error) {
            (false, error) => Replies::simple(out, cookie, error),
            (true, None) => Replies::chunk(out, cookie, Chunk::Done, true),
            (true, Some(error)) => Replies::chunk(out, cookie, Chunk::Failed(error), true),
        }
    }
}
