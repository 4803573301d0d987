//! Which blocks a random stream has come to, so that it comes to each once before it comes to any
//! again (fio's random map, `lib/axmap.c`).
//!
//! Words of bits, and above them words that say which words below are full, up to one word: what is
//! free next is found in a few steps however full the map is.

/// The blocks of a working set, and which of them are used.
#[derive(Debug)]
pub(super) struct Once {
    blocks: u64,
    used: u64,
    /// Bitmaps: the lowest level has a bit per block; a bit of a higher level is set when the word
    /// below it is full.
    levels: Vec<Vec<u64>>,
}

impl Once {
    /// A map of so many blocks, at least 1, none of them used.
    pub(super) fn new(blocks: u64) -> Once {
        let mut levels = Vec::new();
        let mut bits = blocks;
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words as usize]);
            if words <= 1 {
                break;
            }
            bits = words;
        }
        let mut once = Once { blocks, used: 0, levels };
        once.close();
        once
    }

    /// Marks bits beyond the last block as used.
    fn close(&mut self) {
        let mut bits = self.blocks;
        for level in &mut self.levels {
            if !bits.is_multiple_of(64)
                && let Some(last) = level.last_mut()
            {
                *last = !0 << (bits % 64);
            }
            bits = bits.div_ceil(64);
        }
    }

    /// The first free block from `from` on, or else from the start, and how many are free there, up
    /// to `most`; they are used then. When all are used, all become free first.
    pub(super) fn take(&mut self, from: u64, most: u64) -> (u64, u64) {
        if self.used == self.blocks {
            self.levels.iter_mut().for_each(|level| level.fill(0));
            self.used = 0;
            self.close();
        }
        let first = self.next_free(from).or_else(|| self.next_free(0)).unwrap_or(0);
        let mut count = 0;
        while count < most.max(1) && self.is_free(first + count) {
            self.mark(first + count);
            count += 1;
        }
        self.used += count;
        (first, count)
    }

    fn is_free(&self, block: u64) -> bool {
        block < self.blocks && self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 0
    }

    fn mark(&mut self, block: u64) {
        let mut bit = block;
        for level in &mut self.levels {
            let word = &mut level[(bit / 64) as usize];
            *word |= 1 << (bit % 64);
            if *word != !0 {
                break;
            }
            bit /= 64;
        }
    }

    fn next_free(&self, from: u64) -> Option<u64> {
        let (mut level, mut bit) = (0, from);
        loop {
            let word = *self.levels[level].get((bit / 64) as usize)?;
            let free = !word & (!0 << (bit % 64));
            if free == 0 {
                level += 1;
                bit = bit / 64 + 1;
                if level == self.levels.len() {
                    return None;
                }
                continue;
            }
            bit = bit / 64 * 64 + u64::from(free.trailing_zeros());
            if level == 0 {
                return Some(bit);
            }
            level -= 1;
            bit *= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_block_comes_once_in_every_round(
            blocks in 1u64..5_000,
            draws in prop::collection::vec((any::<u64>(), 1u64..20), 1..400),
        ) {
            let mut once = Once::new(blocks);
            let mut used = vec![false; blocks as usize];
            for (from, most) in draws {
                if used.iter().all(|used| *used) {
                    used.fill(false);
                }
                let from = from % blocks;
                let (first, count) = once.take(from, most);
                let free = |block: &usize| !used[*block];
                let wanted = (from as usize..used.len()).find(free);
                let wanted = wanted.or_else(|| (0..used.len()).find(free)).unwrap();
                prop_assert_eq!(first as usize, wanted);
                let run = (wanted..used.len()).take_while(free).count() as u64;
                prop_assert_eq!(count, run.min(most));
                used[wanted..wanted + count as usize].fill(true);
            }
        }
    }
}
