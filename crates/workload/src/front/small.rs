//! Buckets of small objects: a bucket by the hash of the key, in which the oldest objects make room.

use super::BUCKET_BYTES;
use crate::{SECTOR_BYTES, seed};
use std::collections::VecDeque;

/// What a bucket needs beside its objects' bytes, and each object beside its own: CacheLib's
/// navy/bighash/Bucket.h, its header, and an entry with the key's hash, two sizes and its slot.
const BUCKET_OVERHEAD: u32 = 32;
const ENTRY_OVERHEAD: u32 = 20;

#[derive(Debug, Default)]
struct Bucket {
    /// The oldest first: part of the key's hash, and its bytes.
    objects: VecDeque<(u32, u32)>,
    bytes: u32,
    /// It has had to make room.
    is_full: bool,
}

/// Where a bucket is, in sectors, and the bytes of an object in it.
type Found = (u64, u32, u32);

#[derive(Debug)]
pub(super) struct Buckets {
    buckets: Vec<Bucket>,
    /// Buckets that have had to make room.
    full: usize,
    /// Bytes of all of them that have something in them.
    bytes: u64,
    used: bool,
}

impl Buckets {
    pub(super) fn new(count: u64) -> Buckets {
        let mut buckets = vec![];
        buckets.resize_with(count as usize, Bucket::default);
        Buckets { buckets, full: 0, bytes: 0, used: false }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Whether anything was put into one.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Buckets' worth of bytes that have something in them.
    pub(super) fn filled(&self) -> u64 {
        self.bytes / BUCKET_BYTES
    }

    /// Whether most of them have had to make room.
    pub(super) fn is_full(&self) -> bool {
        self.full >= self.buckets.len() / 2
    }

    fn of(&self, key: u64) -> (usize, u32) {
        let hash = seed::mix(key);
        let bucket = ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize;
        (bucket, hash as u32)
    }

    fn place(&self, bucket: usize) -> (u64, u32) {
        let sectors = BUCKET_BYTES / SECTOR_BYTES;
        (bucket as u64 * sectors, sectors as u32)
    }

    pub(super) fn find(&self, key: u64) -> Option<Found> {
        let (bucket, hash) = self.of(key);
        let objects = &self.buckets.get(bucket)?.objects;
        let (_, bytes) = objects.iter().find(|(of, _)| *of == hash)?;
        let (sector, sectors) = self.place(bucket);
        Some((sector, sectors, *bytes))
    }

    /// Takes an object out; where its bucket is, if it was there.
    pub(super) fn forget(&mut self, key: u64) -> Option<Found> {
        let found = self.find(key)?;
        let (bucket, hash) = self.of(key);
        let bucket = &mut self.buckets[bucket];
        bucket.objects.retain(|(of, _)| *of != hash);
        bucket.bytes -= found.2 + ENTRY_OVERHEAD;
        self.bytes -= u64::from(found.2 + ENTRY_OVERHEAD);
        Some(found)
    }

    /// Puts an object into its bucket, and says where that is.
    pub(super) fn put(&mut self, key: u64, bytes: u32) -> (u64, u32) {
        self.forget(key);
        self.used = true;
        let (at, hash) = self.of(key);
        let bucket = &mut self.buckets[at];
        let room = BUCKET_BYTES as u32 - BUCKET_OVERHEAD;
        let bytes = bytes.min(room - ENTRY_OVERHEAD);
        let before = bucket.is_full;
        while bucket.bytes + bytes + ENTRY_OVERHEAD > room {
            let Some((_, oldest)) = bucket.objects.pop_front() else { break };
            bucket.bytes -= oldest + ENTRY_OVERHEAD;
            self.bytes -= u64::from(oldest + ENTRY_OVERHEAD);
            bucket.is_full = true;
        }
        bucket.objects.push_back((hash, bytes));
        bucket.bytes += bytes + ENTRY_OVERHEAD;
        self.bytes += u64::from(bytes + ENTRY_OVERHEAD);
        self.full += usize::from(bucket.is_full && !before);
        self.place(at)
    }
}
