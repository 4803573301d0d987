//! What became of writes in a pSLC write cache.

use mynah_model::stats::Counters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pSLC write cache during the measurement, and how full it is at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlcCacheUse {
    /// Bytes of hosts that were programmed into the cache, and past it to native blocks.
    pub cached_bytes: u64,
    pub direct_bytes: u64,
    /// Bytes that were folded, that is moved from it to native blocks.
    pub folded_bytes: u64,
    /// Blocks of it that were erased.
    pub erases: u64,
    /// What its blocks hold at the end, valid or not, and what of it is valid.
    pub filled_bytes: u64,
    pub valid_bytes: u64,
    /// The burst that fits at the end, if nothing is folded meanwhile, and the one that fits when it is
    /// empty.
    pub room_bytes: u64,
    pub empty_room_bytes: u64,
    /// After how much idle time it is empty, what its open blocks hold apart; null if nothing is folded
    /// in idle time.
    pub idle_to_empty_ns: Option<f64>,
}

impl SlcCacheUse {
    pub(super) fn new(before: &Counters, after: &Counters) -> Option<Box<SlcCacheUse>> {
        let state = after.slc_state?;
        let slc = after.slc.since(&before.slc);
        let unit = after.wear.unit_bytes;
        Some(Box::new(SlcCacheUse {
            cached_bytes: slc.units_cached * unit,
            direct_bytes: slc.units_direct * unit,
            folded_bytes: slc.units_folded * unit,
            erases: slc.erases,
            filled_bytes: state.filled_bytes,
            valid_bytes: state.valid_bytes,
            room_bytes: state.room_bytes,
            empty_room_bytes: state.empty_room_bytes,
            idle_to_empty_ns: state.idle_to_empty.map(|idle| idle.as_ns_f64()),
        }))
    }
}
