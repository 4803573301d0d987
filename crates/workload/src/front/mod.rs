//! A cache in front of the drive: commands on keys become the reads and writes that a cache of objects
//! on flash does for them.
//!
//! It is built as CacheLib is (Berg et al., "The CacheLib Caching Engine", OSDI 2020; its flash part,
//! Navy): objects are in DRAM first, the least recently used leave it for flash. Small ones go to
//! buckets of 4 KiB by the hash of their key, at the start of the namespace, each of which is read,
//! changed and written ([`small`]). Large ones go to regions behind those, which are written as a
//! log and reused in turn ([`large`]). What is found in neither is fetched from elsewhere, and stored.
//!
//! What happens in the cache takes no time, and a write of a bucket does not wait for its read.

mod large;
mod small;

use crate::key_value::DrawnKeys;
use crate::{KeyAction, KeyValueFlow, Planned, SECTOR_BYTES};
use large::Regions;
use lru::LruCache;
use mynah_model::io::{Operation, PlacementId};
use mynah_stamp::Time;
use rustc_hash::FxBuildHasher;
use small::Buckets;
use std::collections::VecDeque;

/// A bucket of small objects (CacheLib's `navyBlockSize` and `navyBigHashBucketSize`).
pub(crate) const BUCKET_BYTES: u64 = 4096;
/// What DRAM holds beside an object's bytes: CacheLib's item header and its place in the hash table
/// (allocator/CacheItem.h: 31 bytes, rounded to its allocations).
const DRAM_OVERHEAD: u64 = 40;
/// Commands that are performed at once, at most, before the first I/O: a cache that has run for long.
const PAST_MAX: u64 = 40_000_000;

/// A cache of objects in DRAM and on the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontCache {
    /// The share of the namespace that has buckets of small objects, 0 to 1.
    pub small_share: f64,
    /// Largest small object, its key included, in bytes.
    pub small_max: u32,
    /// Bytes of a region of large objects: a multiple of 4 KiB.
    pub region_bytes: u64,
    /// Bytes of objects in DRAM.
    pub ram_bytes: u64,
    /// The share of what leaves DRAM that is written to flash, 0 to 1; the rest is dropped, at
    /// random.
    pub admitted: f64,
}

/// A cache, and what is asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontFlow {
    pub cache: FrontCache,
    pub feed: KeyValueFlow,
    /// Whether the cache is full when the flow begins.
    pub full: bool,
}

/// What is written with which of the flow's placement handles: small objects with its first, large
/// ones with its second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handles {
    pub(crate) small: PlacementId,
    pub(crate) large: PlacementId,
}

impl FrontCache {
    /// Sectors of the buckets, and the number of regions behind them, on a namespace.
    fn parts(&self, sectors: u64) -> (u64, u64) {
        let bucket = BUCKET_BYTES / SECTOR_BYTES;
        let small = (sectors as f64 * self.small_share) as u64 / bucket * bucket;
        (small, (sectors - small) / (self.region_bytes / SECTOR_BYTES))
    }

    /// What is wrong with it on a namespace of so many sectors, if anything is.
    pub(crate) fn problem(&self, sectors: u64) -> Option<String> {
        let (small, regions) = self.parts(sectors);
        if self.small_share < 1.0 && regions < 4 {
            return Some(format!(
                "behind the buckets of small objects are {regions} regions of {} KiB; it takes 4: \
                 make front_region or front_small smaller",
                self.region_bytes >> 10
            ));
        }
        (self.small_share > 0.0 && small == 0).then(|| "front_small is less than a bucket".into())
    }
}

/// An object in DRAM.
#[derive(Clone, Copy, Debug)]
struct Object {
    bytes: u32,
    /// What is on flash of it is the same.
    clean: bool,
}

/// The I/O of one job's cache.
#[derive(Debug)]
pub(crate) struct DrawnFront {
    feed: DrawnKeys,
    flow: FrontFlow,
    handles: Handles,
    dram: LruCache<u64, Object, FxBuildHasher>,
    dram_bytes: u64,
    small: Buckets,
    large: Regions,
    waiting: VecDeque<Planned>,
    /// Of 2^64: what is admitted to flash.
    admitted: u64,
    random: u64,
}

impl DrawnFront {
    pub(crate) fn new(
        flow: &FrontFlow,
        feed: DrawnKeys,
        sectors: u64,
        handles: Handles,
    ) -> Result<DrawnFront, String> {
        let cache = &flow.cache;
        if let Some(problem) = cache.problem(sectors) {
            return Err(problem);
        }
        let (small, regions) = cache.parts(sectors);
        let mut front = DrawnFront {
            feed,
            flow: flow.clone(),
            handles,
            dram: LruCache::unbounded_with_hasher(FxBuildHasher),
            dram_bytes: 0,
            small: Buckets::new(small * SECTOR_BYTES / BUCKET_BYTES),
            large: Regions::new(small, cache.region_bytes, regions),
            waiting: VecDeque::new(),
            admitted: (cache.admitted * u64::MAX as f64) as u64,
            random: 0,
        };
        if flow.full {
            front.run_before();
        }
        Ok(front)
    }

    /// Performs commands until everything is full, without I/O.
    fn run_before(&mut self) {
        for _ in 0..PAST_MAX {
            let is_full = self.small.is_full() && self.large.is_full();
            if is_full || !self.perform() {
                break;
            }
            self.waiting.clear();
        }
        self.waiting.clear();
    }

    /// The next read or write; `None` if there are no more commands.
    pub(crate) fn next(&mut self) -> Option<Planned> {
        while self.waiting.is_empty() {
            if !self.perform() {
                return None;
            }
        }
        self.waiting.pop_front()
    }

    /// Performs one command; false: there are no more.
    fn perform(&mut self) -> bool {
        let Some(Planned { key: Some(action), sector: key, sectors: value, arrival, .. }) =
            self.feed.next()
        else {
            return false;
        };
        let key_bytes = u32::from(self.flow.feed.key_size.of(key));
        match action {
            KeyAction::Store | KeyAction::Update => self.set(key, key_bytes + value, arrival),
            KeyAction::Retrieve | KeyAction::Exist | KeyAction::List => self.get(key, arrival),
            KeyAction::ReadModifyWrite => {
                self.get(key, arrival);
                self.set(key, key_bytes + value, arrival);
            }
            KeyAction::Delete => self.delete(key, arrival),
        }
        true
    }

    /// Looks for an object; one that is nowhere is fetched and stored.
    fn get(&mut self, key: u64, arrival: Option<Time>) {
        if self.dram.get(&key).is_some() {
            return;
        }
        if let Some((sector, sectors, bytes)) = self.large.find(key) {
            self.io(Operation::Read, (sector, sectors), PlacementId::default(), arrival);
            return self.keep(key, Object { bytes, clean: true }, arrival);
        }
        if let Some((sector, sectors, bytes)) = self.small.find(key) {
            self.io(Operation::Read, (sector, sectors), PlacementId::default(), arrival);
            return self.keep(key, Object { bytes, clean: true }, arrival);
        }
        let key_bytes = u32::from(self.flow.feed.key_size.of(key));
        let bytes = key_bytes + self.flow.feed.initial_value(key);
        self.keep(key, Object { bytes, clean: false }, arrival);
    }

    fn set(&mut self, key: u64, bytes: u32, arrival: Option<Time>) {
        // What flash has of it is void; buckets find that out when they are written next.
        self.large.forget(key);
        self.keep(key, Object { bytes, clean: false }, arrival);
    }

    fn delete(&mut self, key: u64, arrival: Option<Time>) {
        if let Some(object) = self.dram.pop(&key) {
            self.dram_bytes -= u64::from(object.bytes) + DRAM_OVERHEAD;
        }
        self.large.forget(key);
        if let Some((sector, sectors, _)) = self.small.forget(key) {
            self.change_bucket((sector, sectors), arrival);
        }
    }

    /// Puts an object into DRAM; what has to leave goes to flash.
    fn keep(&mut self, key: u64, object: Object, arrival: Option<Time>) {
        self.dram_bytes += u64::from(object.bytes) + DRAM_OVERHEAD;
        if let Some(before) = self.dram.put(key, object) {
            self.dram_bytes -= u64::from(before.bytes) + DRAM_OVERHEAD;
        }
        while self.dram_bytes > self.flow.cache.ram_bytes {
            let Some((key, object)) = self.dram.pop_lru() else { break };
            self.dram_bytes -= u64::from(object.bytes) + DRAM_OVERHEAD;
            self.leave(key, object, arrival);
        }
    }

    /// An object leaves DRAM.
    fn leave(&mut self, key: u64, object: Object, arrival: Option<Time>) {
        let is_small = object.bytes <= self.flow.cache.small_max && !self.small.is_empty();
        let there = match is_small {
            true => self.small.find(key).is_some(),
            false => self.large.find(key).is_some(),
        };
        if object.clean && there || !self.is_admitted() {
            return;
        }
        if is_small {
            let place = self.small.put(key, object.bytes);
            self.change_bucket(place, arrival);
        } else {
            let handle = self.handles.large;
            for piece in self.large.put(key, object.bytes) {
                self.io(Operation::Write, piece, handle, arrival);
            }
        }
    }

    /// A bucket is read, changed and written.
    fn change_bucket(&mut self, place: (u64, u32), arrival: Option<Time>) {
        self.io(Operation::Read, place, PlacementId::default(), arrival);
        self.io(Operation::Write, place, self.handles.small, arrival);
    }

    fn io(
        &mut self,
        operation: Operation,
        (sector, sectors): (u64, u32),
        placement: PlacementId,
        arrival: Option<Time>,
    ) {
        self.waiting.push_back(Planned {
            operation,
            key: None,
            sector,
            sectors,
            placement,
            arrival,
        });
    }

    /// Draws whether the next object is admitted to flash.
    fn is_admitted(&mut self) -> bool {
        if self.admitted == u64::MAX {
            return true;
        }
        self.random = small::mixed(self.random.wrapping_add(1));
        self.random <= self.admitted
    }
}
