//! Blocks that say what they are ([`Stamp`]), so that a wrong one is found out.
//!
//! For every block that was written it is known which generations it may have: the one that
//! was last acknowledged, and those issued since. A block that was never written, or was
//! deallocated, may hold anything, but what it holds must not pretend to be another block.

use super::stamp::Stamp;
use mynah_wire::nvme::key::Key;
use std::fmt;

/// States of so many blocks are held together.
const CHUNK_BLOCKS: u64 = 4_096;
/// So many mismatches are kept in full.
const KEPT_MAX: usize = 10;

/// What may be read from a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// The oldest generation that may be there; 0: anything.
    low: u32,
    /// The newest that was issued; 0: it was never written.
    high: u32,
    /// The newest that was flushed.
    flushed: u32,
}

/// What holds something else than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub place: Place,
    /// What should be there.
    pub expected: String,
    /// What was read instead.
    pub found: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Block {
        /// Logical block address.
        block: u64,
        /// Byte offset in the namespace.
        byte: u64,
    },
    Key(Key),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { place, expected, found } = self;
        match place {
            Place::Block { block, byte } => write!(f, "block {block} (byte {byte})")?,
            Place::Key(key) => write!(f, "key {key}")?,
        }
        write!(f, ": expected {expected}, found {found}")
    }
}

/// What one job has written, and what came of checking it.
#[derive(Debug)]
pub(super) struct Verify {
    block_bytes: usize,
    /// Tells this run's blocks from others'.
    run: u64,
    /// Whether writes that were not flushed may be lost with the connection.
    only_flushed: bool,
    /// The first block of the job's range.
    base: u64,
    chunks: Vec<Option<Box<[State]>>>,
    /// Acknowledged since the last flush began, if flushes matter.
    dirty: Vec<u64>,
    /// What the flush that is under way will make safe.
    flushing: Vec<(u64, u32)>,
    checked: u64,
    mismatched: u64,
    mismatches: Vec<Mismatch>,
}

impl Verify {
    /// For blocks `base..base + blocks`.
    pub(super) fn new(
        block_shift: u8,
        base: u64,
        blocks: u64,
        run: u64,
        only_flushed: bool,
    ) -> Verify {
        let chunks = blocks.div_ceil(CHUNK_BLOCKS) as usize;
        Verify {
            block_bytes: 1 << block_shift,
            run,
            only_flushed,
            base,
            chunks: (0..chunks).map(|_| None).collect(),
            dirty: Vec::new(),
            flushing: Vec::new(),
            checked: 0,
            mismatched: 0,
            mismatches: Vec::new(),
        }
    }

    /// Blocks that were checked, and how many were wrong.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.checked, self.mismatched)
    }

    pub(super) fn take_mismatches(&mut self) -> Vec<Mismatch> {
        std::mem::take(&mut self.mismatches)
    }

    fn state(&mut self, block: u64) -> &mut State {
        let index = block - self.base;
        let chunk = &mut self.chunks[(index / CHUNK_BLOCKS) as usize];
        let states = chunk.get_or_insert_with(|| {
            vec![State::default(); CHUNK_BLOCKS as usize].into_boxed_slice()
        });
        &mut states[(index % CHUNK_BLOCKS) as usize]
    }

    /// A write of these blocks begins: their next generation.
    pub(super) fn write_begins(&mut self, first: u64, blocks: u32) {
        for block in first..first + u64::from(blocks) {
            let state = self.state(block);
            state.high += 1;
        }
    }

    /// The contents of blocks whose write has begun.
    pub(super) fn fill(&mut self, first: u64, into: &mut [u8]) {
        let (run, bytes) = (self.run, self.block_bytes);
        for (block, into) in (first..).zip(into.chunks_exact_mut(bytes)) {
            let generation = self.state(block).high;
            Stamp { run, address: block, generation }.write(into);
        }
    }

    /// A write of these blocks has succeeded.
    pub(super) fn written(&mut self, first: u64, blocks: u32) {
        for block in first..first + u64::from(blocks) {
            let state = self.state(block);
            state.low = state.high;
            if self.only_flushed {
                self.dirty.push(block);
            }
        }
    }

    /// These blocks are being deallocated: anything may be there until they are written.
    pub(super) fn trimmed(&mut self, first: u64, blocks: u32) {
        for block in first..first + u64::from(blocks) {
            let state = self.state(block);
            (state.low, state.flushed) = (0, 0);
        }
    }

    /// A flush begins: what is acknowledged now will be safe.
    pub(super) fn flush_begins(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let with_generation = |block| (block, self.state(block).low);
        self.flushing = dirty.into_iter().map(with_generation).collect();
    }

    /// The flush has succeeded, or not.
    pub(super) fn flushed(&mut self, success: bool) {
        let flushing = std::mem::take(&mut self.flushing);
        for (block, generation) in flushing {
            if success {
                let state = self.state(block);
                // A block that was deallocated meanwhile promises nothing.
                state.flushed = state.flushed.max(generation.min(state.low));
            } else {
                self.dirty.push(block);
            }
        }
    }

    /// The connection was lost: where flushes matter, what was not flushed may be gone.
    pub(super) fn lost(&mut self) {
        self.flushed(false);
        if !self.only_flushed {
            return;
        }
        for state in self.chunks.iter_mut().flatten().flat_map(|chunk| chunk.iter_mut()) {
            state.low = state.low.min(state.flushed);
        }
    }

    /// Checks the blocks of a read, the first of which has address `first`.
    pub(super) fn check(&mut self, first: u64, data: &[u8]) {
        let bytes = self.block_bytes;
        for (block, data) in (first..).zip(data.chunks_exact(bytes)) {
            let state = *self.state(block);
            self.checked += u64::from(state.low > 0);
            let Err(found) = self.acceptable(state, block, data) else { continue };
            self.mismatched += 1;
            if self.mismatches.len() < KEPT_MAX {
                let expected = match (state.low, state.high) {
                    (0, _) => "a block of this address, or none of ours".to_owned(),
                    (low, high) if low == high => format!("generation {low}"),
                    (low, high) => format!("generation {low} to {high}"),
                };
                let byte = block * bytes as u64;
                self.mismatches.push(Mismatch {
                    place: Place::Block { block, byte },
                    expected,
                    found,
                });
            }
        }
    }

    /// Checks whether `data` may be in `block`; otherwise says what it is.
    fn acceptable(&self, state: State, block: u64, data: &[u8]) -> Result<(), String> {
        let Some(stamp) = Stamp::read(data) else {
            return match state.low {
                0 => Ok(()),
                _ if data.iter().all(|&byte| byte == 0) => Err("zeros".into()),
                _ => Err(format!("no block of ours, it begins with {}", beginning(data))),
            };
        };
        let Stamp { run, address, generation } = stamp;
        if address != block {
            return Err(format!("block {address}, generation {generation}"));
        }
        if let Some(byte) = stamp.wrong_from(data) {
            return Err(format!(
                "generation {generation} with a wrong checksum, wrong from byte {byte} on"
            ));
        }
        let fits = match state.low {
            0 => true,
            low => run == self.run && (low..=state.high).contains(&generation),
        };
        match (fits, run == self.run) {
            (true, _) => Ok(()),
            (false, true) => Err(format!("generation {generation}")),
            (false, false) => Err(format!("generation {generation} of another run")),
        }
    }

    /// The next blocks from `from` on that were written, at most `most` of them.
    pub(super) fn written_from(&self, from: u64, most: u32) -> Option<(u64, u32)> {
        let mut block = from.max(self.base);
        loop {
            let index = block - self.base;
            let chunk = self.chunks.get((index / CHUNK_BLOCKS) as usize)?;
            let Some(states) = chunk else {
                block = self.base + (index / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS;
                continue;
            };
            let rest = &states[(index % CHUNK_BLOCKS) as usize..];
            let Some(skipped) = rest.iter().position(|state| state.high > 0) else {
                block += rest.len() as u64;
                continue;
            };
            let run = rest[skipped..].iter().take_while(|state| state.high > 0).count();
            return Some((block + skipped as u64, (run as u64).min(u64::from(most)) as u32));
        }
    }
}

/// The first bytes of a block, as digits.
fn beginning(data: &[u8]) -> String {
    data.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;

    fn write(verify: &mut Verify, first: u64, blocks: u32) -> Vec<u8> {
        let mut data = vec![0; BLOCK * blocks as usize];
        verify.write_begins(first, blocks);
        verify.fill(first, &mut data);
        data
    }

    fn found(verify: &mut Verify, first: u64, data: &[u8]) -> Option<String> {
        verify.check(first, data);
        verify.take_mismatches().pop().map(|mismatch| mismatch.to_string())
    }

    #[test]
    fn what_was_written_is_accepted_and_nothing_else() {
        let mut verify = Verify::new(9, 100, 10_000, 7, false);
        let old = write(&mut verify, 5_000, 2);
        verify.written(5_000, 2);
        let new = write(&mut verify, 5_000, 2);
        // While the second write is under way, both are right.
        assert_eq!(found(&mut verify, 5_000, &old), None);
        assert_eq!(found(&mut verify, 5_000, &new), None);
        verify.written(5_000, 2);
        let says = |verify: &mut Verify, data: &[u8], what: &str| {
            let said = found(verify, 5_000, data).expect(what);
            assert!(said.contains(what), "{said}");
        };
        assert_eq!(found(&mut verify, 5_000, &new), None);
        says(
            &mut verify,
            &old[..BLOCK],
            "block 5000 (byte 2560000): expected generation 2, found generation 1",
        );
        says(&mut verify, &[0; BLOCK], "zeros");
        says(&mut verify, &[9; BLOCK], "begins with 0909090909090909");
        says(&mut verify, &new[BLOCK..], "block 5001, generation 2");
        let mut spoilt = new.clone();
        spoilt[300] ^= 1;
        says(&mut verify, &spoilt[..BLOCK], "wrong from byte 300 on");
        let mut other = Verify::new(9, 100, 10_000, 8, false);
        write(&mut other, 5_000, 1);
        let other = write(&mut other, 5_000, 1);
        says(&mut verify, &other, "generation 2 of another run");
        assert_eq!(verify.counts(), (12, 6));
    }

    #[test]
    fn what_was_never_written_may_be_anything_but_another_block() {
        let mut verify = Verify::new(9, 0, 100, 7, false);
        assert_eq!(found(&mut verify, 3, &[1; BLOCK]), None);
        let data = write(&mut verify, 4, 1);
        assert!(found(&mut verify, 3, &data).unwrap().contains("found block 4"));
        assert_eq!(verify.counts(), (0, 1), "nothing could be checked");
        verify.written(4, 1);
        verify.trimmed(4, 1);
        assert_eq!(found(&mut verify, 4, &[0; BLOCK]), None);
        assert_eq!(found(&mut verify, 4, &data), None);
    }

    #[test]
    fn only_what_was_flushed_survives_a_loss() {
        for only_flushed in [true, false] {
            let mut verify = Verify::new(9, 0, 100, 7, only_flushed);
            let first = write(&mut verify, 1, 1);
            verify.written(1, 1);
            verify.flush_begins();
            let second = write(&mut verify, 1, 1);
            verify.written(1, 1);
            verify.flushed(true);
            assert!(found(&mut verify, 1, &first).is_some());
            verify.lost();
            assert_eq!(found(&mut verify, 1, &first).is_none(), only_flushed);
            assert!(found(&mut verify, 1, &second).is_none());
            assert!(found(&mut verify, 1, &[0; BLOCK]).is_some());
        }
    }

    #[test]
    fn written_blocks_are_found_again() {
        let mut verify = Verify::new(9, 50, 20_000, 7, false);
        for (first, blocks) in [(60, 3), (63, 2), (4_096 + 50 - 1, 2), (19_000, 1)] {
            write(&mut verify, first, blocks);
        }
        let mut all = Vec::new();
        let mut from = 0;
        while let Some((first, blocks)) = verify.written_from(from, 4) {
            all.push((first, blocks));
            from = first + u64::from(blocks);
        }
        assert_eq!(all, [(60, 4), (64, 1), (4_145, 1), (4_146, 1), (19_000, 1)]);
    }
}
