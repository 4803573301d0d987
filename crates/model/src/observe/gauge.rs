//! What the drive looks like at this moment: for watchers that sample it.

use crate::drive::Drive;

/// The drive at one moment.
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

impl Drive {
    /// How far the drive has come. Looks at counters only.
    pub fn progress(&self) -> Progress {
        let counters = self.kernel.observe.counted();
        let (orphans, under_way) = self.host.progress();
        Progress {
            ended: counters.commands.wrapping_add_signed(orphans),
            under_way,
            programmed: counters.flash_programs,
            programmed_for_itself: counters.gc_programs + counters.mapping_programs,
            blocks_collected: counters.gc_runs,
        }
    }

    /// What the drive looks like now. Takes a look at every plane and die.
    pub fn gauges(&self) -> Gauges {
        let free = |plane| self.ftl.free_blocks(plane);
        let mut gauges = Gauges {
            free_blocks: self.shape.all_planes().map(|plane| free(plane) as u64).sum(),
            free_blocks_min: self.shape.all_planes().map(free).min().unwrap_or(0) as u32,
            commands: self.host.commands_inside() as u32,
            cached_units: self.cache.as_ref().map_or(0, |cache| cache.len() as u32),
            ..Gauges::default()
        };
        self.flash.gauge(&mut gauges);
        gauges
    }
}
