//! Bytes to be written that nobody looks at: they do not compress, and no sector of them is written twice.

use crate::random;
use crate::shared::Shared;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes of which each piece differs from all others.
const SECTOR_BYTES: usize = 512;

/// A stock of noise.
pub(super) struct Noise {
    stock: Vec<u8>,
    changes: Xoshiro256PlusPlus,
}

impl Noise {
    /// For writes of so many bytes.
    pub(super) fn new(bytes: usize) -> Noise {
        let mut seed = [0; 32];
        random::fill(&mut seed);
        let mut changes = Xoshiro256PlusPlus::from_seed(seed);
        let mut stock = vec![0; bytes];
        changes.fill_bytes(&mut stock);
        Noise { stock, changes }
    }

    /// Puts `bytes` bytes of noise into memory from `at` on, where so many are noise already; how many are
    /// now.
    pub(super) fn put(&mut self, memory: &Shared, at: usize, there: usize, bytes: usize) -> usize {
        if there < bytes {
            memory.write(at + there, &self.stock[there..bytes]);
        }
        for sector in (0..bytes).step_by(SECTOR_BYTES) {
            memory.write(at + sector, &self.changes.next_u64().to_ne_bytes());
        }
        there.max(bytes)
    }

    /// The same into a buffer, at this offset of a write.
    pub(super) fn fill(&mut self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.stock[offset..offset + into.len()]);
        for sector in into.chunks_mut(SECTOR_BYTES) {
            if let Some(first) = sector.first_chunk_mut::<8>() {
                *first = self.changes.next_u64().to_ne_bytes();
            }
        }
    }
}
