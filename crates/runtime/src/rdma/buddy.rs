//! Memory in blocks of powers of two, which are parted and joined again (Knuth, The Art of Computer
//! Programming, section 2.5). It knows offsets alone.

use std::collections::BTreeSet;

/// Bytes of the smallest block.
const LEAST_BYTES: u32 = 4096;

/// A block, which nobody else has until it is given back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    at: usize,
    order: usize,
}

impl Block {
    /// Offset in the region.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        (LEAST_BYTES as usize) << self.order
    }
}

/// The blocks that nobody has.
#[derive(Debug)]
pub(super) struct Buddy {
    /// Where free blocks begin, by order.
    free: Vec<BTreeSet<usize>>,
    free_bytes: usize,
}

impl Buddy {
    /// Blocks of up to `largest` bytes, as many as fit into `total` of them.
    pub(super) fn new(total: usize, largest: u32) -> Buddy {
        let top = largest.div_ceil(LEAST_BYTES).next_power_of_two().ilog2() as usize;
        let mut free = vec![BTreeSet::new(); top + 1];
        let bytes = (LEAST_BYTES as usize) << top;
        free[top] = (0..total / bytes).map(|number| number * bytes).collect();
        Buddy { free, free_bytes: total / bytes * bytes }
    }

    /// Bytes of the block that so many bytes take.
    pub(super) fn taken_for(bytes: u32) -> usize {
        (LEAST_BYTES as usize) << order(bytes)
    }

    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// A block for so many bytes; `None` if there is none.
    pub(super) fn take(&mut self, bytes: u32) -> Option<Block> {
        let order = order(bytes);
        let from = (order..self.free.len()).find(|&order| !self.free[order].is_empty())?;
        let at = self.free[from].pop_first()?;
        for half in order..from {
            self.free[half].insert(at + ((LEAST_BYTES as usize) << half));
        }
        let block = Block { at, order };
        self.free_bytes -= block.bytes();
        Some(block)
    }

    /// The block is not needed any more.
    pub(super) fn give(&mut self, block: Block) {
        self.free_bytes += block.bytes();
        let Block { mut at, mut order } = block;
        while order + 1 < self.free.len() {
            let other = at ^ ((LEAST_BYTES as usize) << order);
            if !self.free[order].remove(&other) {
                break;
            }
            at = at.min(other);
            order += 1;
        }
        self.free[order].insert(at);
    }
}

fn order(bytes: u32) -> usize {
    bytes.div_ceil(LEAST_BYTES).max(1).next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Blocks never overlap, and all of the memory is one again when they are back.
        #[test]
        fn blocks_are_apart_and_come_together_again(
            moves in proptest::collection::vec((any::<bool>(), 0u32..1 << 20), 1..200),
        ) {
            let total = 8 << 20;
            let mut buddy = Buddy::new(total + 5000, 1 << 20);
            let mut taken: Vec<Block> = Vec::new();
            for (takes, n) in moves {
                if takes {
                    let Some(block) = buddy.take(n) else { continue };
                    prop_assert!(block.bytes() >= n as usize && block.at() + block.bytes() <= total);
                    prop_assert_eq!(block.bytes(), Buddy::taken_for(n));
                    let apart = |it: &Block| {
                        it.at() + it.bytes() <= block.at() || block.at() + block.bytes() <= it.at()
                    };
                    prop_assert!(taken.iter().all(apart));
                    taken.push(block);
                } else if !taken.is_empty() {
                    buddy.give(taken.swap_remove(n as usize % taken.len()));
                }
                let used: usize = taken.iter().map(Block::bytes).sum();
                prop_assert_eq!(buddy.free_bytes() + used, total);
            }
            taken.into_iter().for_each(|block| buddy.give(block));
            for _ in 0..8 {
                prop_assert!(buddy.take(1 << 20).is_some());
            }
            prop_assert!(buddy.take(1).is_none());
        }
    }
}
