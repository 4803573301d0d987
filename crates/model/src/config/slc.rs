//! A write cache of blocks whose cells are used with one bit: pSLC.

use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

/// How a drive uses blocks with one bit a cell as a cache of what hosts write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlcCache {
    /// The share of each plane's blocks that never holds more than one bit a cell, and none of the
    /// drive's capacity.
    pub static_share: f64,
    /// The share of the blocks without native data that may be used with one bit: so the cache
    /// shrinks as the drive fills. 0 to 1.
    pub dynamic: f64,
    /// The share of each plane's blocks that is used so at most, however many are free. 0 to 1.
    pub dynamic_max: f64,
    /// Page read, page program and block erase with one bit.
    pub read: Span,
    pub program: Span,
    pub erase: Span,
    /// Erases with one bit that a block endures, if that is limited.
    pub endurance: Option<u32>,
    pub when_full: WhenFull,
    pub fold: FoldWay,
    /// Pages that are folded for each page that hosts write past the full cache: 0 to 1.
    pub fold_beside: f64,
    /// Blocks that are folded at a time, in the whole drive, if that is bounded.
    pub fold_blocks: Option<u32>,
    /// From which share of a plane's cache on it is folded beside the host's work, in the time that
    /// dies have left: 1 only when it is full.
    pub fold_from: f64,
    /// The drive folds when no command has come for so long,
    pub idle_after: Span,
    /// and takes this share of a plane's time for it: 0 never, to 1.
    pub idle_share: f64,
    pub evict: Evict,
    /// A stream of writes in order goes past the cache once it has written so many bytes, if there is
    /// a bound.
    pub sequential_cutoff: Option<u64>,
    /// The share of each plane's blocks that is kept free for folding: above 0.
    pub keep_free: f64,
}

/// What becomes of writes that find the cache full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenFull {
    /// They and those after them go to native blocks, until the drive has been idle, as long as
    /// there are free ones.
    Direct,
    /// They wait until folding has made room, as long as there is something to fold.
    Fold,
}

/// How what is in the cache comes to native blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoldWay {
    /// Over the bus: read into the controller, corrected, and programmed.
    Copy,
    /// From page to page within a plane: only commands cross the channel.
    Copyback,
}

/// Which block of the cache is folded first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evict {
    /// The one that was filled first.
    Fifo,
    /// The one with the fewest valid units; of equals the one that was filled first.
    Greedy,
}

impl SlcCache {
    /// Blocks of a plane with so many that are only ever used with one bit.
    pub fn static_blocks(&self, blocks_per_plane: u32) -> u32 {
        (self.static_share * f64::from(blocks_per_plane)).round() as u32
    }

    /// Whether others are used so, too.
    pub fn has_dynamic_blocks(&self, blocks_per_plane: u32) -> bool {
        self.dynamic > 0.0 && self.dynamic_blocks(blocks_per_plane) > 0
    }

    /// Most other blocks of the plane that are used so at a time.
    pub(crate) fn dynamic_blocks(&self, blocks_per_plane: u32) -> u32 {
        (self.dynamic_max * f64::from(blocks_per_plane)).round() as u32
    }

    /// Free blocks of the plane that are kept for folding.
    pub fn kept_blocks(&self, blocks_per_plane: u32) -> u32 {
        (self.keep_free * f64::from(blocks_per_plane)).ceil() as u32
    }
}
