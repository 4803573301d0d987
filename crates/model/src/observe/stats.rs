//! What the drive counted: operations, utilisation, and who delayed whom.

use super::placement::PlacementCounters;
use super::slc::{SlcCounters, SlcState};
use crate::io::FlowId;
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

/// Whose work holds a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Holder {
    /// A host flow, its cache write-backs included.
    Flow(FlowId),
    GarbageCollection,
    /// The same for the writes of a reclaim unit handle, on a drive with several.
    CollectionFor(u8),
    /// Moves of what a pSLC write cache holds to native blocks.
    Folding,
    /// Loads and updates of translation pages.
    MappingTable,
    /// Loads and updates of the pages of an index of keys.
    Index,
    /// What a tree of runs writes and merges ([`crate::config::KeyIndexKind::Lsm`]).
    Compaction,
}

/// Something an I/O can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Resource {
    /// The host link towards the drive.
    LinkDown,
    /// The host link towards the host.
    LinkUp,
    Firmware,
    /// The cache's DRAM.
    Dram,
    /// Room in the write cache; held by whoever's dirty data fills it.
    CacheSpace,
    /// Mapping entries; held by the table's flash operations.
    Mapping,
    /// A free block; held by garbage collection.
    FreeBlock,
    /// The host bus adapter.
    HostAdapter,
    /// The network interface of an Ethernet drive.
    Nic,
    /// The AXI bus of an Ethernet drive.
    Axi,
    /// What its NVMe-oF target runs on.
    TargetCores,
    /// RDMA READs that a queue pair may have outstanding.
    RdmaReads,
    /// Receive and data buffers of the NVMe-oF target.
    Buffers,
    Channel,
    Die,
}

impl Resource {
    pub const ALL: [Resource; 15] = [
        Resource::LinkDown,
        Resource::LinkUp,
        Resource::Firmware,
        Resource::Dram,
        Resource::CacheSpace,
        Resource::Mapping,
        Resource::FreeBlock,
        Resource::HostAdapter,
        Resource::Nic,
        Resource::Axi,
        Resource::TargetCores,
        Resource::RdmaReads,
        Resource::Buffers,
        Resource::Channel,
        Resource::Die,
    ];

    /// The resource's name in results and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::LinkDown => "link_down",
            Resource::LinkUp => "link_up",
            Resource::Firmware => "firmware",
            Resource::Dram => "dram",
            Resource::CacheSpace => "cache_space",
            Resource::Mapping => "mapping",
            Resource::FreeBlock => "free_block",
            Resource::HostAdapter => "host_adapter",
            Resource::Nic => "nic",
            Resource::Axi => "axi",
            Resource::TargetCores => "target_cores",
            Resource::RdmaReads => "rdma_reads",
            Resource::Buffers => "buffers",
            Resource::Channel => "channel",
            Resource::Die => "die",
        }
    }
}

/// The time that the requests of one flow waited for a resource while one holder had it.
/// Summed over all parts of all requests, so parts that wait side by side add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blame {
    pub victim: FlowId,
    pub resource: Resource,
    pub holder: Holder,
    pub wait: Span,
}

/// Everything the drive counts. Times are on the drive's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Commands completed.
    pub commands: u64,
    /// Events the model processed.
    pub events: u64,
    /// Mapping units that hosts wrote (each rewrite counts, cached or not).
    pub host_units_written: u64,
    /// Bytes that hosts wrote: a write of a part of a unit counts as that part.
    pub host_bytes_written: u64,
    /// Mapping units that user data programs carried, relocations included.
    pub flash_units_programmed: u64,
    /// Mapping units that garbage collection moved.
    pub gc_units_moved: u64,
    /// Flash pages read, all causes.
    pub flash_reads: u64,
    /// Flash pages programmed, all causes.
    pub flash_programs: u64,
    /// Flash pages read for garbage collection.
    pub gc_reads: u64,
    /// Flash pages programmed for garbage collection.
    pub gc_programs: u64,
    /// Flash pages moved within their plane without crossing the channel; they count as read
    /// and programmed, too.
    pub copybacks: u64,
    /// Merges of hybrid mapping, one for each logical block: log blocks that became data
    /// blocks as they were,
    pub switch_merges: u64,
    /// log blocks that became data blocks after the rest had been copied to them,
    pub partial_merges: u64,
    /// and logical blocks that were copied to another block as a whole.
    pub full_merges: u64,
    /// Looks at pages of the index of keys,
    pub index_lookups: u64,
    /// and those that found the page in DRAM.
    pub index_hits: u64,
    /// Time that request managers were busy with key-value commands, all together.
    pub manager_busy: Span,
    /// Translation pages read, pages of the index of keys included.
    pub mapping_reads: u64,
    /// Translation pages programmed.
    pub mapping_programs: u64,
    /// Flash pages read to complete partly overwritten units.
    pub merge_reads: u64,
    /// Multi-plane operations, each counted once.
    pub multi_plane_operations: u64,
    /// Programs suspended, each time.
    pub program_suspensions: u64,
    /// Erases suspended, each time.
    pub erase_suspensions: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks that garbage collection has finished.
    pub gc_runs: u64,
    /// Of these, blocks whose data was moved to level wear.
    pub wear_levelling_runs: u64,
    /// Blocks retired after failures and at the end of their endurance.
    pub retired_blocks: u64,
    /// Retries of page reads.
    pub read_retries: u64,
    /// Look-ups in the cached mapping table.
    pub cmt_lookups: u64,
    /// Look-ups that found their entry.
    pub cmt_hits: u64,
    /// Units read or written through the write cache.
    pub cache_lookups: u64,
    /// Units that were found in it.
    pub cache_hits: u64,
    /// Time the cache's DRAM was busy.
    pub dram_busy: Span,
    /// Rows of the DRAM that accesses touched, where rows stay open.
    pub dram_rows: u64,
    /// Of these, rows that were open.
    pub dram_row_hits: u64,
    /// Sum over host programs of the units a page had room for but did not get.
    pub padded_units: u64,
    /// Bytes of units that hosts had written in part: what was programmed beside that part.
    pub rest_bytes_programmed: u64,
    /// Of the units that garbage collection moved, those that lay in blocks chosen to level wear.
    pub levelling_units_moved: u64,
    /// Units whose latest data were lost: in a power cut, or because no flash took them.
    pub units_lost: u64,
    /// Of these, units whose latest data a command had brought since time zero. The others were
    /// dirty in the cache of a drive that began in the middle of its work.
    pub units_lost_written: u64,
    /// Media operations that failed by injected faults.
    pub media_errors: u64,
    /// Time each channel was busy.
    pub channel_busy: Vec<Span>,
    /// Time each die was busy.
    pub die_busy: Vec<Span>,
    /// Time the link was busy, towards the drive and towards the host.
    pub link_busy: [Span; 2],
    /// Erases of the most often erased block.
    pub block_erases_max: u32,
    pub wear: WearState,
    /// Energy spent on flash operations, channels and idling, in nanojoules; `None` if the
    /// drive does not say what they cost.
    pub energy_nj: Option<u64>,
    /// What a pSLC write cache has counted; zeros without one.
    pub slc: SlcCounters,
    /// How full it is, of a drive that has one.
    pub slc_state: Option<SlcState>,
    /// What data placement has counted since the drive was built, of a drive that has it.
    pub placement: Option<Box<PlacementCounters>>,
}

/// How worn blocks are by use with so many bits a cell: each use wears apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeWear {
    /// Erases after such use, of all blocks together.
    pub erases: u64,
    /// Blocks that may be used so.
    pub blocks: u64,
    /// User bytes in a block that is.
    pub block_bytes: u64,
    /// Erases after it that a block endures, if that is limited.
    pub endurance: Option<u32>,
}

impl ModeWear {
    /// Mean erases of a block; 0 without blocks.
    pub fn erases_mean(&self) -> f64 {
        if self.blocks == 0 { 0.0 } else { self.erases as f64 / self.blocks as f64 }
    }
}

impl WearState {
    /// What is of use with all bits.
    pub fn native(&self) -> ModeWear {
        let slc = self.slc.unwrap_or_default();
        ModeWear {
            erases: self.erases.saturating_sub(slc[0].erases + slc[1].erases),
            blocks: self.blocks - slc[0].blocks,
            block_bytes: self.block_bytes,
            endurance: self.endurance,
        }
    }

    /// What is of each use.
    pub fn modes(&self) -> impl Iterator<Item = ModeWear> {
        [self.native()].into_iter().chain(self.slc.into_iter().flatten())
    }
}

/// How worn the blocks of a drive are, since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WearState {
    /// Blocks in the drive, retired ones included.
    pub blocks: u64,
    /// User bytes in a block.
    pub block_bytes: u64,
    /// User bytes in a flash page.
    pub page_bytes: u64,
    /// User bytes in a mapping unit.
    pub unit_bytes: u64,
    /// Erases of all blocks together.
    pub erases: u64,
    /// Erases of the least worn block in use.
    pub erases_min: u32,
    /// The largest difference between two blocks in use of one plane.
    pub spread: u32,
    /// Erases that a block endures, if that is limited.
    pub endurance: Option<u32>,
    /// What of that is of use with one bit a cell, on a drive with a pSLC write cache: of blocks that
    /// only serve it, and of others.
    pub slc: Option<[ModeWear; 2]>,
    /// Blocks that may still be retired before the drive takes no more writes, in the plane
    /// that has the fewest left.
    pub spare_blocks: u32,
    /// Blocks that could be retired in that plane when it was new.
    pub spare_blocks_new: u32,
    /// Whether the drive takes no more writes.
    pub write_protected: bool,
}

impl Counters {
    /// Adds pages of tables that are read.
    #[inline(always)]
    pub(crate) fn count_table_reads(&mut self, pages: u64) {
        self.mapping_reads += pages;
    }

    /// Adds pages of tables that are programmed.
    pub(crate) fn count_table_programs(&mut self, pages: u64) {
        self.mapping_programs += pages;
    }

    /// Bytes of all pages programmed: host data, what was moved, translation pages, and what pages
    /// had room for but did not get.
    pub fn flash_bytes_programmed(&self) -> u64 {
        self.flash_programs * self.wear.page_bytes
    }

    /// Write amplification: bytes programmed, whatever they are, for each byte that a host wrote.
    /// `None` before anything was written. Rewrites absorbed by the cache lower it; translation
    /// pages, padding and writes of parts of units raise it.
    pub fn write_amplification(&self) -> Option<f64> {
        let programmed = self.flash_bytes_programmed() as f64;
        (self.host_bytes_written > 0).then(|| programmed / self.host_bytes_written as f64)
    }
}
