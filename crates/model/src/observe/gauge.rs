//! What the drive looks like at this moment: for watchers that sample it.

use super::slc::SlcFill;

/// A snapshot of queue depths, free blocks and cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Free blocks of all planes.
    pub free_blocks: u64,
    /// Free blocks of the plane that has the fewest.
    pub free_blocks_min: u32,
    /// Commands inside the controller.
    pub commands: u32,
    /// Reads of flash pages that wait for their die, those of garbage collection included.
    pub flash_reads_waiting: u32,
    /// Mapping units that wait to be programmed, those of garbage collection included.
    pub flash_writes_waiting: u32,
    /// What of both belongs to garbage collection.
    pub collection_waiting: u32,
    /// Mapping units in the write cache.
    pub cached_units: u32,
    /// How full the pSLC write cache is, of a drive that has one.
    pub slc: Option<SlcFill>,
}

/// How far the drive has come with its commands since it was built, and what it did on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Commands that have ended. One whose queue has gone has ended when the drive is done with it.
    pub ended: u64,
    /// Commands that it works at now. Those that wait for their host, to hand over data or to make
    /// room for their completion, are not among them; without power there are none.
    pub under_way: u64,
    /// Flash pages programmed.
    pub programmed: u64,
    /// Of these, pages of garbage collection and of the mapping table.
    pub programmed_for_itself: u64,
    /// Blocks that garbage collection has finished.
    pub blocks_collected: u64,
}
