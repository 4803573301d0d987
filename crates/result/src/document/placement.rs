//! What data placement did: the costs of each reclaim unit handle.

use mynah_model::PlacementCounters;
use mynah_model::stats::Counters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data placement during the measurement, of a drive that has it. The first three are what the FDP
/// statistics log counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataPlacement {
    /// Bytes that hosts wrote (HBMW).
    pub host_bytes: u64,
    /// Bytes programmed, whatever they were (MBMW): `host_bytes` times `waf`.
    pub media_bytes: u64,
    /// Bytes erased (MBE), in whole reclaim units.
    pub erased_bytes: u64,
    /// Bytes of a reclaim unit.
    pub reclaim_unit_bytes: u64,
    /// Writes that named no placement handle of their namespace, and went to its first.
    pub unknown_writes: u64,
    /// By reclaim unit handle, from 0.
    pub handles: Vec<HandleCost>,
}

/// What the data of one reclaim unit handle have cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandleCost {
    /// Bytes that hosts wrote.
    pub host_bytes: u64,
    /// Bytes programmed for what hosts wrote, pages that were not full as a whole: less than was
    /// written where the cache absorbed rewrites.
    pub programmed_bytes: u64,
    /// Bytes that collection moved.
    pub moved_bytes: u64,
    /// Bytes programmed and moved for each byte written; null without writes.
    pub waf: Option<f64>,
    /// Of the bytes moved: for the writes of which handle room was made.
    pub moved_for_bytes: Vec<u64>,
    /// Reclaim units that its writes have opened.
    pub units_opened: u64,
    /// And filled, or closed before they were full.
    pub units_closed: u64,
}

impl DataPlacement {
    /// What was counted from `before` to `after`; `None` without data placement.
    pub(crate) fn new(before: &Counters, after: &Counters) -> Option<Box<DataPlacement>> {
        let zero = PlacementCounters::default();
        let now = after.placement.as_deref()?;
        let all = match before.placement.as_deref() {
            Some(before) => now.since(before),
            None => now.since(&zero),
        };
        let unit = after.wear.unit_bytes;
        let cost = |of: &mynah_model::HandleCounters| {
            let programmed = (of.units_programmed + of.units_padded) * unit;
            let moved = of.units_moved * unit;
            HandleCost {
                host_bytes: of.host_bytes,
                programmed_bytes: programmed,
                moved_bytes: moved,
                waf: (of.host_bytes > 0)
                    .then(|| (programmed + moved) as f64 / of.host_bytes as f64),
                moved_for_bytes: of.moved_for.iter().map(|units| units * unit).collect(),
                units_opened: of.units_opened,
                units_closed: of.units_closed,
            }
        };
        let programs = after.flash_programs.saturating_sub(before.flash_programs);
        Some(Box::new(DataPlacement {
            host_bytes: after.host_bytes_written.saturating_sub(before.host_bytes_written),
            media_bytes: programs * after.wear.page_bytes,
            erased_bytes: all.units_erased * all.unit_bytes,
            reclaim_unit_bytes: all.unit_bytes,
            unknown_writes: all.unknown,
            handles: all.handles.iter().map(cost).collect(),
        }))
    }
}
