//! Namespaces of blocks as whoever exports them by other means sees them.

use crate::namespaces::WriteProtection;
use crate::subsystem::Subsystem;

/// A namespace of blocks, for servers of other protocols such as NBD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNamespace {
    pub id: u32,
    pub blocks: u64,
    /// Binary logarithm of a block's bytes.
    pub shift: u8,
    /// Bytes of metadata of each block.
    pub metadata: u8,
    /// Whether it is protected against writes.
    pub is_protected: bool,
}

impl Subsystem {
    /// The namespaces of blocks, in the order of their identifiers.
    pub fn block_namespaces(&self) -> Vec<BlockNamespace> {
        let blocks = self.namespaces.iter().filter(|namespace| namespace.blocks() > 0);
        let mut all: Vec<BlockNamespace> = blocks
            .map(|namespace| BlockNamespace {
                id: namespace.id(),
                blocks: namespace.blocks(),
                shift: namespace.format().shift,
                metadata: namespace.format().metadata,
                is_protected: namespace.protection() != WriteProtection::None,
            })
            .collect();
        all.sort_unstable_by_key(|namespace| namespace.id);
        all
    }

    /// Which blocks of a range take room in the store: up to `most` runs of blocks from `start` on,
    /// with whether they do. Less than the whole range may be told; nothing only of a namespace or of
    /// blocks that do not exist.
    pub fn allocation(&self, id: u32, start: u64, blocks: u64, most: usize) -> Vec<(u64, bool)> {
        let Some(namespace) = self.namespaces.with_id(id) else { return vec![] };
        let block_bytes = 1 << namespace.format().shift;
        let per_block = namespace.format().block_sectors();
        let blocks = blocks.min(namespace.blocks().saturating_sub(start));
        let mut runs: Vec<(u64, bool)> = Vec::new();
        for part in namespace.parts(start * per_block, blocks * per_block) {
            let mut left = part.sectors / per_block;
            let mut at = part.store;
            while left > 0 {
                let (takes_room, bytes) = self.media.takes_room(at, left * block_bytes);
                // A block that takes some room takes room.
                let (takes_room, count) = match takes_room {
                    false if bytes < block_bytes => (true, 1),
                    false => (false, bytes / block_bytes),
                    true => (true, bytes.div_ceil(block_bytes)),
                };
                let is_full = runs.len() == most;
                match runs.last_mut() {
                    Some(last) if last.1 == takes_room => last.0 += count,
                    _ if is_full => return runs,
                    _ => runs.push((count, takes_room)),
                }
                left -= count;
                at += count * block_bytes;
            }
        }
        runs
    }
}
