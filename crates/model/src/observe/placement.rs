//! What data placement has cost, by reclaim unit handle.

use serde::{Deserialize, Serialize};

/// What the data of one reclaim unit handle have cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleCounters {
    /// Write commands and bytes of hosts.
    pub host_writes: u64,
    pub host_bytes: u64,
    /// Mapping units programmed that hosts wrote, and that collection moved.
    pub units_programmed: u64,
    pub units_moved: u64,
    /// Room for mapping units that stayed empty in pages of what hosts wrote.
    pub units_padded: u64,
    /// Of those moved: for whose writes room was made, by handle.
    pub moved_for: Vec<u64>,
    /// Reclaim units that its writes have opened and filled, or closed before they were full.
    pub units_opened: u64,
    pub units_closed: u64,
}

impl HandleCounters {
    /// What has been counted since `before`.
    pub fn since(&self, before: &HandleCounters) -> HandleCounters {
        let moved = self.moved_for.iter().enumerate();
        let moved_before = |at: usize| before.moved_for.get(at).copied().unwrap_or(0);
        HandleCounters {
            host_writes: self.host_writes - before.host_writes,
            host_bytes: self.host_bytes - before.host_bytes,
            units_programmed: self.units_programmed - before.units_programmed,
            units_moved: self.units_moved - before.units_moved,
            moved_for: moved.map(|(at, now)| now - moved_before(at)).collect(),
            units_padded: self.units_padded - before.units_padded,
            units_opened: self.units_opened - before.units_opened,
            units_closed: self.units_closed - before.units_closed,
        }
    }
}

/// What a drive with data placement has counted since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementCounters {
    /// By reclaim unit handle.
    pub handles: Vec<HandleCounters>,
    /// Writes that named no placement handle of their namespace, and went to its first.
    pub unknown: u64,
    /// Reclaim units erased, and the bytes of one.
    pub units_erased: u64,
    pub unit_bytes: u64,
}

impl PlacementCounters {
    /// What has been counted since `before`.
    pub fn since(&self, before: &PlacementCounters) -> PlacementCounters {
        let zero = HandleCounters::default();
        let before_of = |at: usize| before.handles.get(at).unwrap_or(&zero);
        let handles = self.handles.iter().enumerate();
        PlacementCounters {
            handles: handles.map(|(at, now)| now.since(before_of(at))).collect(),
            unknown: self.unknown - before.unknown,
            units_erased: self.units_erased - before.units_erased,
            unit_bytes: self.unit_bytes,
        }
    }
}
