//! Regions of large objects: one is filled in DRAM and written as a whole, the one that was written
//! first is reused.

use super::{BUCKET_BYTES, PIECE_BYTES};
use crate::SECTOR_BYTES;
use rustc_hash::FxHashMap;

/// Objects begin at multiples of this, in bytes.
const ALIGN: u64 = 4096;
/// Where an object is: region, first 4 KiB in it, bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    region: u32,
    at: u32,
    bytes: u32,
}

#[derive(Debug)]
pub(super) struct Regions {
    /// First sector of the first.
    base: u64,
    region_bytes: u64,
    index: FxHashMap<u64, Entry>,
    /// The keys that each region was given.
    keys: Vec<Vec<u64>>,
    /// The region that is filled, and its bytes that are.
    open: usize,
    filled: u64,
    /// All have been filled once.
    full: bool,
}

impl Regions {
    pub(super) fn new(base: u64, region_bytes: u64, count: u64) -> Regions {
        Regions {
            base,
            region_bytes,
            index: FxHashMap::default(),
            keys: vec![vec![]; count as usize],
            open: 0,
            filled: 0,
            full: count == 0,
        }
    }

    /// Whether anything was put into one.
    pub(super) fn is_used(&self) -> bool {
        self.filled > 0 || self.open > 0 || self.full && !self.keys.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Buckets' worth of bytes that have been filled for the first time.
    pub(super) fn filled(&self) -> u64 {
        let regions = if self.full { self.keys.len() } else { self.open };
        (regions as u64 * self.region_bytes + self.filled) / BUCKET_BYTES
    }

    fn sector(&self, region: usize, at: u64) -> u64 {
        self.base + (region as u64 * self.region_bytes + at) / SECTOR_BYTES
    }

    /// First sector, sectors and bytes of an object. What is in the open region is still in DRAM, and
    /// reads as if it were not.
    pub(super) fn find(&self, key: u64) -> Option<(u64, u32, u32)> {
        let Entry { region, at, bytes } = *self.index.get(&key)?;
        let sectors = u64::from(bytes).next_multiple_of(ALIGN) / SECTOR_BYTES;
        let sector = self.sector(region as usize, u64::from(at) * ALIGN);
        Some((sector, sectors as u32, bytes))
    }

    pub(super) fn forget(&mut self, key: u64) {
        self.index.remove(&key);
    }

    /// Appends an object; returns what is to be written, as first sectors and sectors: nothing, or a
    /// region.
    pub(super) fn put(&mut self, key: u64, bytes: u64) -> Vec<(u64, u32)> {
        if self.keys.is_empty() {
            return vec![];
        }
        let bytes = bytes.min(self.region_bytes);
        let room = bytes.next_multiple_of(ALIGN);
        let mut writes = vec![];
        if self.filled + room > self.region_bytes {
            writes = self.flush();
        }
        let entry = Entry {
            region: self.open as u32,
            at: (self.filled / ALIGN) as u32,
            bytes: bytes as u32,
        };
        self.index.insert(key, entry);
        self.keys[self.open].push(key);
        self.filled += room;
        writes
    }

    /// Writes the open region, and opens the next, whose objects are gone.
    fn flush(&mut self) -> Vec<(u64, u32)> {
        let first = self.sector(self.open, 0);
        let pieces = self.region_bytes.div_ceil(PIECE_BYTES);
        let piece = |at: u64| {
            let from = at * PIECE_BYTES;
            let bytes = PIECE_BYTES.min(self.region_bytes - from);
            (first + from / SECTOR_BYTES, (bytes / SECTOR_BYTES) as u32)
        };
        let writes = (0..pieces).map(piece).collect();
        self.open = (self.open + 1) % self.keys.len();
        self.full |= self.open == 0;
        self.filled = 0;
        for key in std::mem::take(&mut self.keys[self.open]) {
            if self.index.get(&key).is_some_and(|entry| entry.region as usize == self.open) {
                self.index.remove(&key);
            }
        }
        writes
    }
}
