//! A store of objects in pieces: each takes as many chunks of the namespace as it needs, and the least
//! recently used make room. As stores of KV caches on raw block devices do.

use crate::SECTOR_BYTES;
use lru::LruCache;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;

/// Objects are written in whole units of so many bytes.
const ALIGN: u64 = 4096;

#[derive(Debug)]
struct Object {
    chunks: Box<[u32]>,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct Objects {
    chunk_bytes: u64,
    /// Those that are free, in the order in which they became so.
    free: VecDeque<u32>,
    objects: LruCache<u64, Object, FxBuildHasher>,
    chunks: u64,
    evicted: bool,
}

/// First sector and sectors.
pub(super) type Piece = (u64, u32);

impl Objects {
    pub(super) fn new(sectors: u64, chunk_bytes: u64) -> Objects {
        let chunks = (sectors * SECTOR_BYTES / chunk_bytes).min(u64::from(u32::MAX));
        Objects {
            chunk_bytes,
            free: (0..chunks as u32).collect(),
            objects: LruCache::unbounded_with_hasher(FxBuildHasher),
            chunks,
            evicted: false,
        }
    }

    /// Chunks that have something in them.
    pub(super) fn filled(&self) -> u64 {
        self.chunks - self.free.len() as u64
    }

    /// Whether an object has had to make room.
    pub(super) fn is_full(&self) -> bool {
        self.evicted
    }

    pub(super) fn holds(&self, key: u64) -> bool {
        self.objects.contains(&key)
    }

    /// Where an object is, which is used now, and its bytes.
    pub(super) fn find(&mut self, key: u64) -> Option<(Vec<Piece>, u64)> {
        let chunk_bytes = self.chunk_bytes;
        let object = self.objects.get(&key)?;
        Some((pieces(object, chunk_bytes), object.bytes))
    }

    /// Where an object was that is given up.
    pub(super) fn forget(&mut self, key: u64) -> Vec<Piece> {
        let Some(object) = self.objects.pop(&key) else { return vec![] };
        self.free.extend(&object.chunks);
        pieces(&object, self.chunk_bytes)
    }

    /// Lays an object down: what is given up for it, and where it goes. Nothing of one that is larger
    /// than the namespace.
    pub(super) fn put(&mut self, key: u64, bytes: u64) -> (Vec<Piece>, Vec<Piece>) {
        let needed = bytes.div_ceil(self.chunk_bytes).max(1);
        let mut given_up = self.forget(key);
        if needed > self.chunks {
            return (given_up, vec![]);
        }
        while (self.free.len() as u64) < needed {
            let Some((oldest, _)) = self.objects.peek_lru() else { break };
            let oldest = *oldest;
            given_up.extend(self.forget(oldest));
            self.evicted = true;
        }
        let chunks: Box<[u32]> = self.free.drain(..needed as usize).collect();
        let object = Object { chunks, bytes };
        let places = pieces(&object, self.chunk_bytes);
        self.objects.put(key, object);
        (given_up, places)
    }
}

/// The places of an object, those that follow one another together.
fn pieces(object: &Object, chunk_bytes: u64) -> Vec<Piece> {
    let mut left = object.bytes.next_multiple_of(ALIGN).max(ALIGN);
    let mut all: Vec<(u64, u64)> = vec![];
    for &chunk in &object.chunks {
        let bytes = left.min(chunk_bytes);
        left -= bytes;
        let (sector, sectors) =
            (u64::from(chunk) * chunk_bytes / SECTOR_BYTES, bytes / SECTOR_BYTES);
        match all.last_mut() {
            Some((first, count)) if *first + *count == sector => *count += sectors,
            _ => all.push((sector, sectors)),
        }
    }
    let most = super::PIECE_BYTES / SECTOR_BYTES;
    let cut = |(first, count): (u64, u64)| {
        (0..count.div_ceil(most))
            .map(move |at| (first + at * most, most.min(count - at * most) as u32))
    };
    all.into_iter().flat_map(cut).collect()
}
