//! What a pSLC write cache has done.

use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

/// What a pSLC write cache has counted since the drive was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlcCounters {
    /// Mapping units of hosts that were programmed into the cache, and past it to native blocks.
    pub units_cached: u64,
    pub units_direct: u64,
    /// Mapping units that folding moved to native blocks.
    pub units_folded: u64,
    /// Flash pages read and programmed for that.
    pub fold_reads: u64,
    pub fold_programs: u64,
    /// Flash pages programmed with one bit a cell.
    pub slc_programs: u64,
    /// Blocks that were erased after use with one bit a cell.
    pub erases: u64,
}

impl SlcCounters {
    /// What has been counted since `before`.
    pub fn since(&self, before: &SlcCounters) -> SlcCounters {
        SlcCounters {
            units_cached: self.units_cached - before.units_cached,
            units_direct: self.units_direct - before.units_direct,
            units_folded: self.units_folded - before.units_folded,
            fold_reads: self.fold_reads - before.fold_reads,
            fold_programs: self.fold_programs - before.fold_programs,
            slc_programs: self.slc_programs - before.slc_programs,
            erases: self.erases - before.erases,
        }
    }
}

/// How full a pSLC write cache is, for those who look at it often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlcFill {
    /// As in [`SlcState`].
    pub filled_bytes: u64,
    pub room_bytes: u64,
}

/// How full a pSLC write cache is, and what of that is worth folding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlcState {
    /// Bytes that are programmed in its blocks, valid or not.
    pub filled_bytes: u64,
    /// Of these, bytes that are valid.
    pub valid_bytes: u64,
    /// Bytes that can be written before it is full, if nothing is folded meanwhile; nothing of planes
    /// whose cache writes go past until the drive has been idle.
    pub room_bytes: u64,
    /// The same when it is empty.
    pub empty_room_bytes: u64,
    /// After how much idle time all of its full blocks are folded; `None` if none are in idle time.
    pub idle_to_empty: Option<Span>,
}
