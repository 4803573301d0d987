//! A cache in front of the drive: commands on keys become the reads and writes that a cache of objects
//! on flash does for them.
//!
//! Objects are in DRAM first, and the least recently used leave it for the drive. What is found in
//! neither is fetched from elsewhere, and stored.
//!
//! - `cachelib` is built as CacheLib is (Berg et al., "The CacheLib Caching Engine", OSDI 2020; its
//!   flash part, Navy). Small objects go to buckets of 4 KiB by the hash of their key, at the start of
//!   the namespace, each of which is read, changed and written (`small.rs`). Large ones go to regions
//!   behind those, which are written as a log and reused in turn (`large.rs`).
//! - `objects` gives each object as many chunks as it needs (`objects.rs`).
//!
//! What happens in the cache takes no time, and a write of a bucket does not wait for its read.

mod large;
mod objects;
mod small;
pub(crate) mod trace;

use crate::key_value::DrawnKeys;
use crate::trace::TraceError;
use crate::{KeyAction, KeyValueFlow, Mode, Planned, SECTOR_BYTES, seed};
use large::Regions;
use lru::LruCache;
use mynah_model::io::{Operation, PlacementId};
use mynah_stamp::Time;
use objects::{Objects, Piece};
use rustc_hash::FxBuildHasher;
use small::Buckets;
use std::collections::VecDeque;
use trace::{Event, KeyTraceReader, Touch};
pub use trace::{KeyTrace, KeyTraceFormat};

/// A bucket of small objects (CacheLib's `navyBlockSize` and `navyBigHashBucketSize`).
pub(crate) const BUCKET_BYTES: u64 = 4096;
/// Bytes of the reads and writes of what is larger. An estimate: what Linux makes of one write of
/// 16 MiB to a drive that takes as much at a time.
const PIECE_BYTES: u64 = 256 << 10;
/// What DRAM holds beside an object's bytes: CacheLib's item header and its place in the hash table
/// (allocator/CacheItem.h: 31 bytes, rounded to its allocations).
const DRAM_OVERHEAD: u64 = 40;
/// Commands that are performed at once, at most, before the first I/O: a cache that has run for long.
const PAST_MAX: u64 = 40_000_000;
/// Commands of that past between two looks at how full the cache is.
const LOOK: u64 = 1 << 20;
/// Drawn commands in a row without I/O, after which none is expected: a matter of seconds.
const IDLE_MAX: u64 = 1 << 23;

/// How objects lie on the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Engine {
    CacheLib {
        /// The share of the namespace that has buckets of small objects, 0 to 1.
        small_share: f64,
        /// Largest small object, its key included, in bytes.
        small_max: u32,
        /// Bytes of a region of large objects: a multiple of 4 KiB.
        region_bytes: u64,
    },
    Objects {
        /// Bytes of a chunk: a multiple of 4 KiB.
        chunk_bytes: u64,
        /// Whether what is given up is trimmed.
        trims: bool,
    },
}

/// A cache of objects in DRAM and on the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontCache {
    pub engine: Engine,
    /// Bytes of objects in DRAM.
    pub ram_bytes: u64,
    /// The share of what leaves DRAM that is written to the drive, 0 to 1; the rest is dropped, at
    /// random.
    pub admitted: f64,
}

/// What a cache is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Feed {
    Drawn(KeyValueFlow),
    Trace(KeyTrace),
}

/// A cache, and what is asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontFlow {
    pub cache: FrontCache,
    pub feed: Feed,
    /// Whether the cache is full when the flow begins. Not where a trace feeds it.
    pub full: bool,
}

impl FrontFlow {
    /// How its requests arrive, if that is not a trace's times.
    pub fn mode(&self) -> Option<Mode> {
        match &self.feed {
            Feed::Drawn(flow) => Some(flow.mode),
            Feed::Trace(trace) => trace.depth.map(|depth| Mode::Closed { depth }),
        }
    }

    /// Whether it ends by itself.
    pub fn has_an_end(&self) -> bool {
        match &self.feed {
            Feed::Drawn(flow) => flow.mix.only_stores(),
            Feed::Trace(_) => true,
        }
    }

    /// Lets it have `most` requests outstanding at the most.
    pub(crate) fn limit_depth(&mut self, most: u32) {
        match &mut self.feed {
            Feed::Drawn(flow) => match &mut flow.mode {
                Mode::Closed { depth } | Mode::Open { depth: Some(depth), .. } => {
                    *depth = most.min(*depth);
                }
                Mode::Open { depth: None, .. } => {}
            },
            Feed::Trace(trace) => trace.depth = trace.depth.map(|depth| depth.min(most)),
        }
    }

    /// The same for a drive that is written before the run: without times and without end.
    pub(crate) fn endless(&mut self) {
        match &mut self.feed {
            Feed::Drawn(flow) => {
                flow.mode = Mode::Closed { depth: 1 };
                self.full = true;
            }
            Feed::Trace(trace) => (trace.depth, trace.repeat) = (Some(1), u32::MAX),
        }
    }

    /// What it is, for people.
    pub fn told(&self) -> String {
        let engine = match self.cache.engine {
            Engine::CacheLib { small_share, .. } => {
                format!("CacheLib, {}% for small objects", (small_share * 1000.0).round() / 10.0)
            }
            Engine::Objects { chunk_bytes, .. } => {
                format!("objects in chunks of {} KiB", chunk_bytes >> 10)
            }
        };
        match &self.feed {
            Feed::Drawn(flow) => format!("{engine}, of {}", flow.told()),
            Feed::Trace(trace) => format!("{engine}, of {}", trace.path.display()),
        }
    }
}

/// What is written with which of the flow's placement handles: small objects with its first, large
/// ones with its second; of `objects` each with one by its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handles(pub(crate) Vec<PlacementId>);

impl Handles {
    fn at(&self, at: usize) -> PlacementId {
        let last = self.0.len().saturating_sub(1);
        self.0.get(at.min(last)).copied().unwrap_or_default()
    }

    /// By size: each power of two from 1 MiB on has the next.
    fn of_size(&self, bytes: u64) -> PlacementId {
        self.at((bytes >> 20).checked_ilog2().unwrap_or(0) as usize)
    }
}

/// Where objects are on the drive.
#[derive(Debug)]
enum Store {
    CacheLib { small: Buckets, large: Regions, small_max: u64 },
    Objects { objects: Objects, trims: bool },
}

impl Store {
    fn new(engine: &Engine, sectors: u64) -> Result<Store, String> {
        match *engine {
            Engine::CacheLib { small_share, small_max, region_bytes } => {
                let bucket = BUCKET_BYTES / SECTOR_BYTES;
                let small = (sectors as f64 * small_share) as u64 / bucket * bucket;
                let regions = (sectors - small) / (region_bytes / SECTOR_BYTES);
                if small_share < 1.0 && regions < 4 {
                    return Err(format!(
                        "behind the buckets of small objects are {regions} regions of {} KiB; it \
                         takes 4: make front_region or front_small smaller",
                        region_bytes >> 10
                    ));
                }
                if small_share > 0.0 && small == 0 {
                    return Err("front_small is less than a bucket".into());
                }
                Ok(Store::CacheLib {
                    small: Buckets::new(small / bucket),
                    large: Regions::new(small, region_bytes, regions),
                    small_max: small_max.into(),
                })
            }
            Engine::Objects { chunk_bytes, trims } => {
                if sectors * SECTOR_BYTES < 4 * chunk_bytes {
                    return Err(format!(
                        "the namespace has fewer than 4 chunks of {} KiB: make front_region smaller",
                        chunk_bytes >> 10
                    ));
                }
                Ok(Store::Objects { objects: Objects::new(sectors, chunk_bytes), trims })
            }
        }
    }

    fn is_full(&self) -> bool {
        match self {
            // Where all objects are of one kind the other part stays empty.
            Store::CacheLib { small, large, .. } => {
                (small.is_full() || !small.is_used())
                    && (large.is_full() || !large.is_used())
                    && (small.is_used() || large.is_used())
            }
            Store::Objects { objects, .. } => objects.is_full(),
        }
    }

    /// How much of it has something in it; of any unit.
    fn filled(&self) -> u64 {
        match self {
            Store::CacheLib { small, large, .. } => small.filled() + large.filled(),
            Store::Objects { objects, .. } => objects.filled(),
        }
    }

    fn holds(&self, key: u64) -> bool {
        match self {
            Store::CacheLib { small, large, .. } => {
                large.find(key).is_some() || small.find(key).is_some()
            }
            Store::Objects { objects, .. } => objects.holds(key),
        }
    }

    /// What is read of an object, and its bytes.
    fn find(&mut self, key: u64) -> Option<(Vec<Piece>, u64)> {
        match self {
            Store::CacheLib { small, large, .. } => {
                let found = large.find(key).or_else(|| small.find(key));
                found.map(|(sector, sectors, bytes)| (vec![(sector, sectors)], bytes.into()))
            }
            Store::Objects { objects, .. } => objects.find(key),
        }
    }
}

/// An object in DRAM.
#[derive(Clone, Copy, Debug)]
struct Object {
    bytes: u64,
    /// What is on the drive of it is the same.
    clean: bool,
}

/// Where commands come from.
#[derive(Debug)]
pub(crate) enum Asking {
    Drawn(Box<DrawnKeys>),
    Trace(Box<KeyTraceReader>, u64),
}

/// The I/O of one job's cache.
#[derive(Debug)]
pub(crate) struct DrawnFront {
    asking: Asking,
    handles: Handles,
    dram: LruCache<u64, Object, FxBuildHasher>,
    dram_bytes: u64,
    ram_bytes: u64,
    store: Store,
    waiting: VecDeque<Planned>,
    /// Of 2^64: what is admitted to the drive.
    admitted: u64,
    random: u64,
    error: Option<TraceError>,
}

impl DrawnFront {
    pub(crate) fn new(
        flow: &FrontFlow,
        asking: Asking,
        sectors: u64,
        handles: Handles,
    ) -> Result<DrawnFront, String> {
        let is_drawn = matches!(asking, Asking::Drawn(_));
        let mut front = DrawnFront {
            asking,
            handles,
            dram: LruCache::unbounded_with_hasher(FxBuildHasher),
            dram_bytes: 0,
            ram_bytes: flow.cache.ram_bytes,
            store: Store::new(&flow.cache.engine, sectors)?,
            waiting: VecDeque::new(),
            admitted: (flow.cache.admitted * u64::MAX as f64) as u64,
            random: 0,
            error: None,
        };
        if flow.full && is_drawn {
            front.run_before();
        }
        Ok(front)
    }

    /// Performs commands until everything is full, or hardly fuller than before, without I/O.
    fn run_before(&mut self) {
        let mut before = 0;
        for count in 1..=PAST_MAX {
            if self.store.is_full() || !self.perform() {
                break;
            }
            self.waiting.clear();
            if count % LOOK == 0 {
                let filled = self.store.filled();
                if filled <= before + before / 100 {
                    break;
                }
                before = filled;
            }
        }
        self.waiting.clear();
    }

    /// The next read, write or trim; `None` if there are no more commands.
    pub(crate) fn next(&mut self) -> Option<Planned> {
        let mut performed = 0;
        while self.waiting.is_empty() {
            let endless = matches!(self.asking, Asking::Drawn(_));
            if endless && performed == IDLE_MAX {
                self.error = Some(TraceError::Nothing {
                    file: "front".to_owned(),
                    problem: format!("{IDLE_MAX} commands in a row, and none needs the drive"),
                    help: "DRAM holds what they ask for: less front_ram, or more keys".to_owned(),
                });
                return None;
            }
            performed += 1;
            if !self.perform() {
                return None;
            }
        }
        self.waiting.pop_front()
    }

    /// The error that has ended it, if one has.
    pub(crate) fn take_error(&mut self) -> Option<TraceError> {
        self.error.take()
    }

    /// Performs one command; false: there are no more.
    fn perform(&mut self) -> bool {
        match &mut self.asking {
            Asking::Drawn(keys) => match keys.next() {
                Some(planned) => self.perform_drawn(planned),
                None => return false,
            },
            Asking::Trace(reader, _) => match reader.next() {
                Ok(Some((event, at))) => self.perform_event(event, at),
                Ok(None) => return false,
                Err(error) => {
                    self.error = Some(error);
                    return false;
                }
            },
        }
        true
    }

    fn perform_drawn(&mut self, planned: Planned) {
        let Planned { key: Some(action), sector: key, sectors: value, arrival, .. } = planned
        else {
            return;
        };
        let gets = !matches!(action, KeyAction::Store | KeyAction::Update | KeyAction::Delete);
        let in_dram = gets && self.dram.get(&key).is_some();
        let Asking::Drawn(keys) = &self.asking else { return };
        let (key_bytes, first) = if in_dram { (0, 0) } else { keys.first_sizes(key) };
        if gets && !in_dram {
            self.fetch(key, key_bytes + first, arrival);
        }
        match action {
            KeyAction::Store | KeyAction::Update | KeyAction::ReadModifyWrite => {
                self.set(key, key_bytes + u64::from(value), arrival);
            }
            KeyAction::Delete => self.delete(key, arrival),
            KeyAction::Retrieve | KeyAction::Exist | KeyAction::List => {}
        }
    }

    fn perform_event(&mut self, event: Event, at: Option<Time>) {
        match event {
            Event::Touch { key, key_bytes, bytes, touch, times, .. } => {
                let bytes = u64::from(key_bytes).saturating_add(bytes).max(1);
                // Once it is in DRAM, getting it again changes nothing.
                let times = if touch == Touch::Get { 1 } else { times };
                for _ in 0..times {
                    match touch {
                        Touch::Get => self.get(key, bytes, at),
                        Touch::Set => self.set(key, bytes, at),
                        Touch::Delete => self.delete(key, at),
                    }
                }
            }
            Event::Prefix { blocks, .. } => {
                let &mut Asking::Trace(_, bytes) = &mut self.asking else { return };
                let mut found = true;
                for key in blocks {
                    found &= self.dram.contains(&key) || self.store.holds(key);
                    match found {
                        true => self.get(key, bytes, at),
                        false => self.set(key, bytes, at),
                    }
                }
            }
        }
    }

    /// Looks for an object; one of `bytes` that is nowhere is fetched and stored.
    fn get(&mut self, key: u64, bytes: u64, arrival: Option<Time>) {
        if self.dram.get(&key).is_none() {
            self.fetch(key, bytes, arrival);
        }
    }

    /// Brings an object to DRAM, from the drive if it is there.
    fn fetch(&mut self, key: u64, bytes: u64, arrival: Option<Time>) {
        let object = match self.store.find(key) {
            Some((pieces, bytes)) => {
                self.io(Operation::Read, &pieces, PlacementId::default(), arrival);
                Object { bytes, clean: true }
            }
            None => Object { bytes, clean: false },
        };
        self.keep(key, object, arrival);
    }

    fn set(&mut self, key: u64, bytes: u64, arrival: Option<Time>) {
        // What the drive has of it is void; a bucket finds that out when it is written next.
        self.give_up(key, arrival);
        self.keep(key, Object { bytes, clean: false }, arrival);
    }

    /// A new version is in DRAM.
    fn give_up(&mut self, key: u64, arrival: Option<Time>) {
        match &mut self.store {
            Store::CacheLib { large, .. } => large.forget(key),
            Store::Objects { objects, trims } => {
                let pieces = objects.forget(key);
                if *trims {
                    self.io(Operation::Trim, &pieces, PlacementId::default(), arrival);
                }
            }
        }
    }

    fn delete(&mut self, key: u64, arrival: Option<Time>) {
        if let Some(object) = self.dram.pop(&key) {
            self.dram_bytes -= object.bytes + DRAM_OVERHEAD;
        }
        self.give_up(key, arrival);
        if let Store::CacheLib { small, .. } = &mut self.store
            && let Some((sector, sectors, _)) = small.forget(key)
        {
            self.change_bucket((sector, sectors), arrival);
        }
    }

    /// Puts an object into DRAM; what has to leave goes to the drive.
    fn keep(&mut self, key: u64, object: Object, arrival: Option<Time>) {
        self.dram_bytes = self.dram_bytes.saturating_add(object.bytes + DRAM_OVERHEAD);
        if let Some(before) = self.dram.put(key, object) {
            self.dram_bytes -= before.bytes + DRAM_OVERHEAD;
        }
        while self.dram_bytes > self.ram_bytes {
            let Some((key, object)) = self.dram.pop_lru() else { break };
            self.dram_bytes -= object.bytes + DRAM_OVERHEAD;
            self.leave(key, object, arrival);
        }
    }

    /// An object leaves DRAM.
    fn leave(&mut self, key: u64, object: Object, arrival: Option<Time>) {
        if object.clean && self.store.holds(key) || !self.is_admitted() {
            return;
        }
        match &mut self.store {
            Store::CacheLib { small, small_max, .. }
                if object.bytes <= *small_max && !small.is_empty() =>
            {
                let place = small.put(key, object.bytes as u32);
                self.change_bucket(place, arrival);
            }
            Store::CacheLib { large, .. } => {
                let pieces = large.put(key, object.bytes);
                let handle = self.handles.at(1);
                self.io(Operation::Write, &pieces, handle, arrival);
            }
            Store::Objects { objects, trims } => {
                let (given_up, places) = objects.put(key, object.bytes);
                let trims = *trims;
                let handle = self.handles.of_size(object.bytes);
                if trims {
                    self.io(Operation::Trim, &given_up, PlacementId::default(), arrival);
                }
                self.io(Operation::Write, &places, handle, arrival);
            }
        }
    }

    /// A bucket is read, changed and written.
    fn change_bucket(&mut self, place: Piece, arrival: Option<Time>) {
        self.io(Operation::Read, &[place], PlacementId::default(), arrival);
        self.io(Operation::Write, &[place], self.handles.at(0), arrival);
    }

    fn io(
        &mut self,
        operation: Operation,
        pieces: &[Piece],
        placement: PlacementId,
        arrival: Option<Time>,
    ) {
        let planned = |&(sector, sectors): &Piece| Planned {
            operation,
            key: None,
            sector,
            sectors,
            placement,
            arrival,
        };
        self.waiting.extend(pieces.iter().map(planned));
    }

    /// Draws whether the next object is admitted to the drive.
    fn is_admitted(&mut self) -> bool {
        if self.admitted == u64::MAX {
            return true;
        }
        self.random = seed::mix(self.random.wrapping_add(1));
        self.random <= self.admitted
    }
}

impl Asking {
    pub(crate) fn of_trace(trace: &KeyTrace) -> Result<Asking, TraceError> {
        let reader = KeyTraceReader::open(trace)?;
        Ok(Asking::Trace(Box::new(reader), trace.block_bytes()))
    }
}

#[cfg(test)]
mod tests;
