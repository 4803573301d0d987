//! The interface of an index of keys: which of its pages say where a key's pair is, and which change
//! when keys come and go. The built-in kinds ([`KeyIndexKind`](crate::config::KeyIndexKind)) are behind
//! it, and one of your own can be, without a change to Mynah: implement [`PairIndex`] and
//! [`PairIndexKind`], and give the latter to
//! [`KeyIndexKind::Own`](crate::config::KeyIndexKind::Own).
//!
//! An index says which pages; the drive says what they cost. A page that is looked at is in DRAM
//! (`kv.index.dram`), or is a flash read of one page. A page that has changed is dirty, and programmed
//! when it leaves DRAM. Pages take part in allocation, garbage collection and power cuts as all
//! others do. What an index holds itself (a directory, a model, filters) is DRAM beside that, and takes
//! no time: the time of the controller's processors is `kv.time`, for whatever kind of index.
//!
//! - **Pages** are numbered from 0 within the namespace and are as large as a flash page (or a mapping
//!   unit, if that is larger). Each has room for [`Room::entries`] entries.
//! - **Tokens** stand for keys: 64 bits of a hash, so their order is not that of the keys. An index
//!   that needs the tokens of its keys keeps them; the drive gives the token with each call.
//! - **Deterministic**: what an index answers follows from the calls before and nothing else. No
//!   clocks, no random numbers but from tokens, no iteration over hash maps.
//!
//! What is not behind it: a List takes a manager's time and reads no index pages, whatever the index.
//! Nothing here names a flash address: where pages are is the flash translation layer's business.

use crate::number::Lpn;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::panic::RefUnwindSafe;

/// Where the entry of a key is, in an index that has a choice: a number that [`PairIndex::insert`]
/// returns, and that comes with later calls about the key until it is removed. The drive keeps it. An
/// index that moves entries of other keys has to find them itself.
pub type Place = u8;

/// Pages that a command has to know, in the order in which it looks at them, and those of them that it
/// changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// Looked at one after the other: each waits for the one before.
    pub pages: Vec<u32>,
    /// Dirty afterwards. One that is not among `pages` is read first if it has to be.
    pub changed: Vec<u32>,
    /// First cells of pairs that are read then, to compare their keys.
    pub(crate) compared: Vec<Lpn>,
}

impl Probes {
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.changed.clear();
        self.compared.clear();
    }
}

/// What an index has to have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Most keys of the namespace. The drive inserts no more.
    pub keys: u64,
    /// Entries to a page (`kv.index.entry`), at least 16.
    pub entries: u32,
    /// Bits for each key of filters in DRAM (`kv.index.filter`); 0: none. Where pages are
    /// [hashed](PairIndexKind::is_hashed) the drive has these filters, else the index may.
    pub filter_bits: u32,
}

/// How many pages an index takes. Flash is set aside for `expected`, and numbers for `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCounts {
    /// More than there can ever be at a time: page numbers are less than this.
    pub most: u64,
    /// How many are to be expected on flash when there are as many keys as can be.
    pub expected: u64,
}

/// A kind of index, with its parameters: what makes an index for a namespace.
pub trait PairIndexKind: Sync + RefUnwindSafe {
    /// What it is called in results, in lower case with `-`. Drives whose indices have other names
    /// are other drives, so parameters belong in it: `two-choice-64`.
    fn name(&self) -> &str;

    /// How many pages an index for so many keys takes.
    fn pages(&self, room: Room) -> PageCounts;

    /// An empty index.
    fn build(&self, room: Room) -> Box<dyn PairIndex>;

    /// Whether pages hold entries by hash, so that `kv.index.filter` and `kv.index.signature` apply
    /// to each: the drive then asks [`PairIndex::keys_of`], leaves pages out that their filter
    /// spares, and reads pairs whose signatures are alike.
    fn is_hashed(&self) -> bool {
        false
    }

    /// Whether it writes and merges pages beside commands: [`PairIndex::next_job`].
    fn has_jobs(&self) -> bool {
        false
    }
}

/// A page to be read or written beside commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageJob {
    /// Looked at: a flash read, if it is not in DRAM.
    Read(u32),
    /// Programmed, all of it new.
    Write(u32),
}

/// Lanes in which jobs go on side by side, so that one kind does not hold up another.
pub const LANES: usize = 2;

/// An index of the keys of one namespace. The set of keys changes at the instant of a command's
/// decision; its pages are then looked at and changed as time allows.
pub trait PairIndex: Send + Sync {
    /// Pages that it has now.
    fn pages(&self) -> u32;

    /// Keys that it has now.
    fn keys(&self) -> u64;

    /// A look-up: adds the pages to be looked at to find a key that is there, at `place`, or to find
    /// that it is not (`None`).
    fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes);

    /// The same for a Store that need not know whether the key exists.
    fn find_to_store(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        self.find(token, place, probes);
    }

    /// The page that has the entry of a key that is there. Garbage collection asks this for each pair
    /// that it moves, and looks at it. `None`: the entry is in DRAM for other reasons.
    fn page_of(&self, token: u64, place: Place) -> Option<u32>;

    /// Keys that a page has, in an index whose pages are [hashed](PairIndexKind::is_hashed).
    fn keys_of(&self, _page: u32) -> u32 {
        0
    }

    /// A key is added; at which place, or `None` if there is no room: the Store ends with Capacity
    /// Exceeded, and nothing may have changed. What [`PairIndex::find_to_store`] or
    /// [`PairIndex::find`] added is among the probes already.
    fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place>;

    /// The pair of a key that is there is elsewhere: it was stored again, or moved by garbage
    /// collection. The pages that say so are added to `changed`.
    fn update(&mut self, token: u64, place: Place, changed: &mut Vec<u32>) {
        changed.extend(self.page_of(token, place));
    }

    /// A pair that was stored has got from the cache to flash: the page whose entry says where. An
    /// index that holds what is new in DRAM returns `None`.
    fn settle_entry(&self, token: u64, place: Place) -> Option<u32> {
        self.page_of(token, place)
    }

    /// A key that was there is removed. What [`PairIndex::find`] added is among the probes already.
    fn remove(&mut self, token: u64, place: Place, probes: &mut Probes);

    /// All keys are removed.
    fn clear(&mut self);

    /// Brings it to rest in no time, when a drive is laid down full; the pages that it then has.
    fn settle(&mut self) -> Vec<u32> {
        (0..self.pages()).collect()
    }

    /// The next page of a lane, if one is to be read or written now. Asked after each change and
    /// after each job; may return several before the first is done.
    fn next_job(&mut self, _lane: usize) -> Option<PageJob> {
        None
    }

    /// One job of a lane is done. Pages that say nothing any more are added to `dropped`.
    fn job_done(&mut self, _lane: usize, _dropped: &mut Vec<u32>) {}

    /// Whether a job is to be done or under way.
    fn has_work(&self) -> bool {
        false
    }

    /// Whether commands that write have to wait until jobs have caught up.
    fn is_full(&self) -> bool {
        false
    }

    /// How often [`PairIndex::clear`] or [`PairIndex::restart`] has dropped jobs: the end of a job
    /// of an earlier epoch is not told.
    fn epoch(&self) -> u32 {
        0
    }

    /// The power was cut, or everything stopped: jobs under way are dropped and have to be given
    /// once more. Keys that the cut takes are removed by calls of their own.
    fn restart(&mut self) {}

    /// Whether it has these keys and no others; for tests.
    ///
    /// # Errors
    /// Says what does not fit.
    fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String>;

    /// What it has to know beside its keys and their places to go on as before; for saved states.
    fn save(&self) -> Vec<u32>;

    /// Takes what [`PairIndex::save`] gave, and these keys. What it held before is gone.
    ///
    /// # Errors
    /// Says what cannot be: a file may have been damaged. It does not panic.
    fn restore(
        &mut self,
        saved: &[u32],
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), String>;
}

/// A kind of index that is not Mynah's own, in a configuration. Two are the same if their names are.
#[derive(Clone, Copy)]
pub struct OwnIndex(pub &'static dyn PairIndexKind);

impl PartialEq for OwnIndex {
    fn eq(&self, other: &OwnIndex) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for OwnIndex {}

impl fmt::Debug for OwnIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnIndex({})", self.0.name())
    }
}
