//! What a drive is: the numbers the model runs on.
//!
//! Every field is in plain units (bytes, [`Span`]s, counts). Parsing, unit suffixes and
//! messages that point into a file belong to the code that reads drive files; this module
//! only refuses what the model could not simulate ([`Config::check`]).

mod data_placement;
mod ethernet;
mod key_value;
mod slc;

pub use crate::victim::VictimPolicy;
pub use data_placement::{DataPlacement, HANDLES_MAX, Isolation, Victims};
pub use ethernet::{Axi, AxiCounting, Cost, Ethernet, Framing, Layer, Nic, Target, TargetLayer};
pub use key_value::{KeyIndex, KeyIndexKind, KeyTime, KeyTimes, KeyValue, NamespaceKind};
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
pub use slc::{Evict, FoldWay, SlcCache, WhenFull};

/// A drive, complete. [`Config::check`] says whether it can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How many channels, chips, dies, planes, blocks and pages.
    pub geometry: Geometry,
    /// How long the flash array takes.
    pub flash: FlashTiming,
    /// The bus between controller and chips.
    pub bus: Bus,
    /// The link between host and controller.
    pub link: Link,
    /// What there is in its place, of an Ethernet drive; `link` does not count then.
    pub ethernet: Option<Ethernet>,
    /// Submission and completion queues.
    pub queues: Queues,
    /// The controller's processors.
    pub firmware: Firmware,
    /// The data cache, if the drive has one.
    pub cache: Option<DataCache>,
    /// Logical to physical mapping.
    pub mapping: Mapping,
    /// The order in which consecutive pages are spread over the flash.
    pub plane_order: PlaneOrder,
    /// Which plane a host write goes to.
    pub placement: Placement,
    /// How data are placed as hosts ask for, if they are.
    pub data_placement: Option<DataPlacement>,
    /// The cache of blocks with one bit a cell, if the drive has one.
    pub slc: Option<SlcCache>,
    /// The share of the physical pages that is not visible to the host, 0 to 1 exclusive.
    pub over_provisioning: f64,
    pub gc: Gc,
    /// What wear does, and how it is levelled.
    pub wear: Wear,
    /// What operations cost in energy, if that is known.
    pub energy: Option<Energy>,
    /// Flash transaction scheduling.
    pub scheduler: Scheduler,
    /// The namespaces, in order; namespace identifiers start at 1. At least one.
    pub namespaces: Vec<Namespace>,
    /// How namespaces of pairs work; needed where there are any.
    pub key_value: Option<KeyValue>,
    pub faults: Vec<Fault>,
    /// Seed of every random choice the drive makes.
    pub seed: u64,
}

/// Why a drive cannot be built. `key` is that of a drive file which is at fault, as in `geometry.channels`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// As drive files call the setting at fault.
    pub key: &'static str,
    /// What is wrong and what would be valid.
    pub problem: String,
}

impl Config {
    /// Reclaim unit handles; 1 of a drive without placement.
    pub fn reclaim_unit_handles(&self) -> u8 {
        self.data_placement.map_or(1, |placement| placement.handles)
    }

    /// Planes that a mapping unit lies across: 1 unless it is larger than a page.
    pub fn planes_per_unit(&self) -> u32 {
        (self.mapping.unit_bytes / self.geometry.page_bytes).max(1)
    }

    /// The drive as its translation layer sees it: the planes that a mapping unit lies across
    /// are one, of larger pages.
    pub fn with_joined_planes(&self) -> Config {
        let planes = self.planes_per_unit();
        let mut joined = self.clone();
        joined.geometry.planes_per_die /= planes;
        joined.geometry.page_bytes *= planes;
        joined.geometry.page_spare_bytes *= planes;
        joined
    }
}

/// The flash array's shape. All counts are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Buses between the controller and the chips.
    pub channels: u32,
    /// Chips (packages, targets) on each channel.
    pub chips_per_channel: u32,
    /// Dies (LUNs) in each chip.
    pub dies_per_chip: u32,
    /// Planes in each die.
    pub planes_per_die: u32,
    /// Blocks in each plane.
    pub blocks_per_plane: u32,
    /// Pages in each block.
    pub pages_per_block: u32,
    /// User bytes in a page; a multiple of 512.
    pub page_bytes: u32,
    /// Spare bytes in a page (ECC, metadata).
    pub page_spare_bytes: u32,
}

impl Geometry {
    pub fn dies(&self) -> u32 {
        self.channels * self.chips_per_channel * self.dies_per_chip
    }

    pub fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    pub fn blocks(&self) -> u64 {
        u64::from(self.planes()) * u64::from(self.blocks_per_plane)
    }

    pub fn pages(&self) -> u64 {
        self.blocks() * u64::from(self.pages_per_block)
    }

    /// Physical capacity in user bytes.
    pub fn raw_bytes(&self) -> u64 {
        self.pages() * u64::from(self.page_bytes)
    }
}

/// Bits stored in a cell, and so the page types in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// One bit: every page is an LSB page.
    Slc,
    /// Two bits: LSB and MSB pages alternate.
    Mlc,
    /// Three bits: LSB, CSB and MSB pages.
    Tlc,
    /// Four bits: the pages of a word line follow one another.
    Qlc,
    /// Five bits: the pages of a word line follow one another.
    Plc,
}

impl CellType {
    /// Bits in a cell, which are also the pages of a word line.
    pub fn bits(self) -> u32 {
        match self {
            CellType::Slc => 1,
            CellType::Mlc => 2,
            CellType::Tlc => 3,
            CellType::Qlc => 4,
            CellType::Plc => 5,
        }
    }
}

/// Array times for each page type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTimes {
    /// Least significant bit.
    pub lsb: Span,
    /// Central significant bit (TLC and above).
    pub csb: Span,
    /// Most significant bit (MLC and TLC); the third page of QLC and PLC.
    pub msb: Span,
    /// The fourth page of a word line (QLC and PLC).
    pub fourth: Span,
    /// The fifth page of a word line (PLC).
    pub fifth: Span,
}

impl PageTimes {
    /// The same for every page type.
    pub const fn all(time: Span) -> PageTimes {
        PageTimes { lsb: time, csb: time, msb: time, fourth: time, fifth: time }
    }

    /// In the order of a word line, those of five bits.
    pub fn in_order(&self) -> [Span; 5] {
        [self.lsb, self.csb, self.msb, self.fourth, self.fifth]
    }
}

/// How long the flash array takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashTiming {
    pub cell: CellType,
    /// Page read (tR).
    pub read: PageTimes,
    /// Page program (tPROG).
    pub program: PageTimes,
    /// Block erase (tBERS).
    pub erase: Span,
    /// Added to every read between the array and the ready signal.
    pub read_ready_delay: Span,
    /// Whether data are overwritten where they are, and any part of a page can be (3D XPoint
    /// and other memory without erase). Nothing is then collected, and no page of the flash
    /// has to stay free.
    pub rewritable: bool,
    /// Whether one program takes a page for each bit of a cell (a whole word line): it takes
    /// the longest of the `program` times.
    pub one_shot: bool,
}

/// The bus between controller and chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Bytes that one transfer carries.
    pub width_bytes: u32,
    /// Millions of transfers a second, 1 to 10,000.
    pub rate_mts: u32,
    /// Command and address cycles.
    pub cycles: BusCycles,
    /// How transfer times are computed.
    pub rounding: BusRounding,
    /// Whether a transfer carries the page's spare bytes in proportion to its data.
    pub transfer_spare: bool,
    /// Who gets the channel when several want it.
    pub arbitration: BusArbitration,
}

/// Command and address cycle times, named as in ONFI 3.1 (NV-DDR2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusCycles {
    /// CE# setup.
    pub t_cs: Span,
    /// WE# cycle: one command or address byte.
    pub t_wc: Span,
    /// WE# high to busy.
    pub t_wb: Span,
    /// Ready to first data.
    pub t_rr: Span,
    /// Address cycle to data loading.
    pub t_adl: Span,
    /// Dummy busy time between the planes of a multi-plane command.
    pub t_dbsy: Span,
    /// ALE and CLE setup.
    pub t_cals: Span,
    /// DQS write postamble.
    pub t_wpst: Span,
    /// DQS write postamble hold.
    pub t_wpsth: Span,
}

/// How bus transfer times are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusRounding {
    /// Exact, rounded up to a picosecond.
    Exact,
    /// As MQSim: the time of two transfers truncated to whole nanoseconds, and of host writes only
    /// what was written is transferred, not the rest of a page.
    TruncatedNs,
}

/// Who gets the channel when several want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BusArbitration {
    /// Read commands first (they are short and keep dies busy), then data, oldest first.
    CommandFirst,
    /// Data from dies first, then new commands, chips taking turns: as MQSim.
    DataFirst,
}

/// The link between host and controller: PCIe or SATA.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// What crosses it. With SATA, `bytes_per_s` is that of both directions together, and
    /// `packet_overhead_bytes` accompany each frame (FIS).
    pub protocol: LinkProtocol,
    /// What the host bus adapter takes for each command before it is sent, one at a time, and
    /// for each completion, one at a time.
    pub adapter: Span,
    /// Bytes a second in each direction, all lanes together, after line coding.
    pub bytes_per_s: u64,
    /// Lanes; transfer sizes are rounded up to a multiple.
    pub lanes: u32,
    /// Largest payload of one transaction layer packet.
    pub max_payload_bytes: u32,
    /// Header, framing and link layer bytes that accompany each packet.
    pub packet_overhead_bytes: u32,
    /// Size of a submission queue entry on the link (64 by the NVMe specification).
    pub submission_entry_bytes: u32,
    /// Whether PRP lists are fetched for requests of more than two memory pages.
    pub fetch_prp_lists: bool,
    /// From the arrival of a completion queue entry until the host sees it.
    pub interrupt: Span,
    /// Whether read data goes to the host page by page as it comes from the flash, or (as
    /// MQSim) all at once when the last page is there.
    pub stream_data: bool,
    /// Whether times are truncated to whole nanoseconds (as MQSim) or exact.
    pub truncate_ns: bool,
}

/// What crosses the host link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkProtocol {
    /// NVMe over PCIe: full duplex; doorbells, fetches and completion entries.
    Pcie,
    /// SATA with native command queuing: one direction at a time; frame information
    /// structures.
    Sata,
}

/// Submission and completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// The paper's QueueFetchSize: how many commands of one submission queue may be in the
    /// controller at once.
    pub fetch_size: u32,
    /// Entries in each submission and completion queue, 2 to 65,536.
    pub entries: u32,
    /// How the next queue to fetch from is chosen.
    pub arbitration: Arbitration,
    /// How many entries of one queue are fetched at a time, before the next queue's turn.
    pub arbitration_burst: u32,
    /// Commands of all queues that the controller can hold at once.
    pub command_slots: u32,
}

/// Arbitration between submission queues (NVMe Base Specification, Command Arbitration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arbitration {
    RoundRobin,
    /// Weighted round robin with urgent priority class: urgent queues first, then those of
    /// high, medium and low priority by these weights; round robin within a class. A weight
    /// is how many commands of its class are taken in a round, 1 to 256.
    Weighted(Weights),
}

/// Weights of the priority classes of queues below urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weights {
    pub high: u16,
    pub medium: u16,
    pub low: u16,
}

/// The controller's processors. A zero cost takes no processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firmware {
    /// Cores; each runs one command at a time.
    pub cores: u32,
    /// Time on a core for a read command.
    pub read: Span,
    /// Time on a core for a write command.
    pub write: Span,
    /// Time on a core for a TRIM command.
    pub trim: Span,
    /// Time on a core for a flush command.
    pub flush: Span,
}

/// A data cache in DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataCache {
    pub bytes: u64,
    pub mode: CacheMode,
    /// How flows share the capacity.
    pub sharing: CacheSharing,
    /// Whether what is in it and not yet on flash outlives a power cut: it is in the cache
    /// again when the drive has recovered. Flush and write-through then wait for the DRAM
    /// only.
    pub power_loss_protection: bool,
    pub dram: Dram,
    /// When data leaves for the flash.
    pub write_back: WriteBack,
    /// Bytes that writes have brought to a part and that may be on their way to the flash, with
    /// [`WriteBack::Eager`]: while as many are, writes wait, even those to what is in the cache
    /// already. `None`: as many as there is room for. MQSim's cache lets a page for each plane of
    /// the drive be on its way (`back_pressure_buffer_max_depth` in
    /// Data_Cache_Manager_Flash_Advanced.cpp).
    pub write_back_max: Option<u64>,
}

/// Whether a data cache holds reads, writes or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// What was written lately and is not on flash yet: a write completes when its data are in
    /// the cache.
    Write,
    /// What was read lately. A write completes when its data are on flash.
    Read,
    /// Both, and what was written lately and is on flash already.
    Both,
}

impl CacheMode {
    /// Whether writes complete in the cache.
    pub fn writes(self) -> bool {
        self != CacheMode::Read
    }

    /// Whether what was read stays in the cache.
    pub fn reads(self) -> bool {
        self != CacheMode::Write
    }

    /// Whether all of `other` is part of this.
    pub fn includes(self, other: CacheMode) -> bool {
        self == CacheMode::Both || self == other
    }
}

/// How flows share the data cache. What is clean and was used least recently makes way for
/// what is new; where all is dirty, writes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheSharing {
    /// One cache for all namespaces and flows.
    Shared,
    /// Each namespace has an equal part.
    PerNamespace,
    /// Each flow has an equal part, counted from flow 0 to the highest for which a queue has
    /// been created. A unit stays in the part of the flow that brought it in.
    PerFlow,
}

/// The DRAM's access model: row activation, column access, burst transfer; one access at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dram {
    /// Bytes in a row.
    pub row_bytes: u32,
    /// Bytes that one transfer carries.
    pub width_bytes: u32,
    /// Millions of transfers a second.
    pub rate_mts: u32,
    /// Transfers in a burst, 1 to 64: what is moved is rounded up to whole bursts.
    pub burst_length: u32,
    /// Row to column delay.
    pub t_rcd: Span,
    /// Column access latency.
    pub t_cl: Span,
    /// Row precharge.
    pub t_rp: Span,
    /// What becomes of a row after an access.
    pub rows: RowPolicy,
    /// Which data cross the DRAM.
    pub traffic: DramTraffic,
}

/// What becomes of a row after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowPolicy {
    /// It is precharged: every access activates the rows that it touches.
    Closed,
    /// It stays open until another row of its bank is touched. Units lie in the DRAM one
    /// behind the other, in the order in which they came into the cache; successive rows
    /// belong to successive banks.
    Open {
        /// Banks, 1 to 1024.
        banks: u32,
    },
}

/// Which data cross the DRAM, beside those that the host writes to the cache or reads from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DramTraffic {
    /// None: what goes on between cache and flash costs the DRAM nothing.
    Host,
    /// Cached data on their way to the flash, and data from the flash that stay in the cache.
    All,
}

/// When dirty data leaves the cache for the flash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum WriteBack {
    /// As soon as there is enough for a flash page.
    Eager,
    /// Least recently written data, when the share of dirty data passes `high` (0 to 1).
    Lru {
        /// Dirty share of the capacity above which data is written back.
        high: f64,
    },
}

/// Logical to physical mapping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mapping {
    /// Bytes that one mapping entry covers: the page, the page divided by a power of two, or a
    /// power of two of pages, at most one of each plane of a die. Such a unit lies across
    /// planes, at the same page of the same block of each: it is programmed by one multi-plane
    /// operation, and of it those pages are read that are wanted. These planes' blocks are
    /// filled, collected, erased and retired together.
    pub unit_bytes: u32,
    /// Which physical pages a logical page may be mapped to.
    pub scheme: MappingScheme,
    /// Whether the mapping table is all in DRAM or cached.
    pub table: MappingTable,
    /// What a read of an address that was never written does.
    pub unmapped_reads: UnmappedReads,
}

/// What may be where on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MappingScheme {
    /// Any unit in any page (page-level mapping).
    Page,
    /// Pages have their places in data blocks, and what is overwritten goes to a few log
    /// blocks, which are merged into data blocks: FAST (Lee et al., ACM TECS 6(3), 2007). A
    /// unit is a page, its plane follows from its address, and all tables are in DRAM. Merges
    /// take the place of garbage collection: of [`Gc`] only `preemptible` acts.
    Hybrid {
        /// Log blocks of each plane, at least 2. One is for sequential writes.
        log_blocks: u32,
    },
}

/// Where the mapping table lives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MappingTable {
    /// All of it in DRAM.
    Ideal,
    /// In flash, with a cached part in DRAM (the paper's CMT).
    Cached(CachedTable),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachedTable {
    pub bytes: u64,
    /// What is loaded and evicted.
    pub granularity: CmtGranularity,
    /// How flows share the capacity.
    pub sharing: CmtSharing,
    /// Size of a cached entry (granularity entry); `None`: as MQSim computes it.
    pub entry_bytes: Option<u32>,
    /// Size of an entry in a translation page; `None`: as MQSim computes it.
    pub translation_entry_bytes: Option<u32>,
    /// Bytes read from flash to load an entry (granularity entry).
    pub load_bytes: u32,
    /// Whether evicted dirty entries are written to flash. False only for comparisons with
    /// MQSim, which never programs them.
    pub write_back: bool,
}

/// What the cached mapping table loads and evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CmtGranularity {
    /// Single entries.
    Entry,
    /// Whole translation pages.
    Page,
}

/// How flows share the cached mapping table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CmtSharing {
    /// One table for all namespaces.
    Shared,
    /// Each namespace has an equal part.
    Partitioned,
    /// Each namespace has a table of the full size: as MQSim's "shared" mode behaves.
    Private,
}

/// What a read of an address that was never written does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnmappedReads {
    /// Returns zeros without touching flash.
    Zeroes,
    /// Assigns a page in the statically chosen plane, and reads that: as MQSim.
    Allocate,
}

/// A dimension of the flash array over which pages are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    Channel,
    /// Called W (way) in names of allocation orders such as CWDP.
    Chip,
    Die,
    Plane,
}

/// The order in which consecutive pages are spread over the flash, fastest first: one of
/// the 24 permutations. CWDP puts consecutive pages on consecutive channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneOrder(pub [Dimension; 4]);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gc {
    /// Which block is collected, or superblock.
    pub victim: VictimPolicy,
    /// What is collected at a time.
    pub unit: CollectionUnit,
    /// Collection starts when fewer than this share of a plane's blocks are free.
    pub start: f64,
    /// Collection takes precedence over host I/O below this share: the hard threshold of
    /// preemptible collection.
    pub urgent: f64,
    /// Whether host I/O may go between the page moves of a collection that is not urgent, or
    /// of a merge. If not, a die that has begun to collect a block does nothing else until the
    /// block is erased (but reads that were queued before the erase).
    pub preemptible: bool,
    /// Whether pages all of whose units are valid are moved within their plane, without
    /// crossing the channel.
    pub copyback: bool,
    /// Whether page moves that are due go before host writes: while a block is collected,
    /// each page that the host programs in its plane makes so many of them due that the block
    /// is won back when the host has filled as many pages as it yields.
    pub paced: bool,
    /// The share of a victim that is invalid at least, unless collection is urgent: 0 to below 1.
    pub least_invalid: f64,
    /// Free blocks of each plane that only collection may use, at least 1. Host writes wait
    /// when no more are left.
    pub reserve_blocks: u32,
    /// What fills the same blocks.
    pub frontiers: WriteFrontiers,
    /// Collect when a plane's die has been idle this long, up to `idle_target`.
    pub idle_after: Option<Span>,
    /// Share of free blocks that idle collection aims for.
    pub idle_target: f64,
}

impl Gc {
    /// Whether a plane that collects does nothing for the host until it has enough free blocks:
    /// all collection is urgent.
    pub fn collects_first(&self) -> bool {
        !self.paced && self.urgent >= self.start
    }

    /// Free blocks of a plane below which collection starts, and below which it is urgent.
    pub(crate) fn thresholds(&self, blocks_per_plane: u32) -> (u32, u32) {
        thresholds(self.start, self.urgent, self.reserve_blocks, blocks_per_plane)
    }
}

/// Free blocks of a plane below which collection starts, and below which it is urgent, by the
/// shares `start` and `urgent` of its blocks and the `reserve` that only collection may use.
pub fn thresholds(start: f64, urgent: f64, reserve: u32, blocks_per_plane: u32) -> (u32, u32) {
    let share = |share: f64| (share * f64::from(blocks_per_plane)) as u32;
    let least = reserve.saturating_add(1);
    let start = share(start).max(least);
    (start, share(urgent).clamp(least, start))
}

/// Which plane a host write goes to, of those that its namespace may use. Garbage collection
/// moves data within its plane whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Its address says it, in the plane order: a unit belongs to one plane for ever.
    Static,
    /// Successive pages' worth of writes go to successive planes in the plane order, whatever
    /// their addresses: a stripe over all planes.
    Striped,
    /// Each page's worth of writes goes to the plane for which the least is waiting; of equals
    /// to one whose die is idle, and else to the next in the plane order.
    LeastLoaded,
}

/// What wear does, and how it is levelled. The default wears nothing out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wear {
    /// Whether the block that is opened is the free one with the fewest erases (dynamic
    /// levelling), or the one that has been free longest.
    pub dynamic: bool,
    /// Static levelling: before the erase counts of a plane's blocks differ by more than this
    /// (at least 2), the data of its least worn block moves to its most worn free one.
    pub static_threshold: Option<u32>,
    /// Erases of every block when the drive is built.
    pub initial: u32,
    /// Erases that a block endures; the next one fails, and the block is retired. `None`: no
    /// end.
    pub endurance: Option<u32>,
    /// Relative standard deviation of that from block to block, 0 to 0.2.
    pub endurance_deviation: f64,
    /// How reads become harder, if that is known.
    pub reads: Option<WornReads>,
}

/// What reading a worn block takes. Between the points of a curve its values are interpolated,
/// beyond them they stay as they are at the first or last.
#[derive(Clone, Debug, PartialEq)]
pub struct WornReads {
    /// Mean number of retries of a page read, by the block's erases (ascending), 0 to 100.
    pub retries: Vec<(u32, f64)>,
    /// How long the die is occupied by one retry: another array read, and the transfer and
    /// decoding that find it in vain or not.
    pub retry: Span,
    /// Time to decode a page after its transfer, by the block's erases (ascending). Decoders
    /// are pipelined: a page does not wait for another's decoding.
    pub decode: Vec<(u32, Span)>,
}

/// What operations cost in energy, in nanojoules and milliwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Energy {
    /// Array read of a page, nJ.
    pub read_nj: u64,
    /// Program of a page, nJ.
    pub program_nj: u64,
    /// Erase of a block, nJ.
    pub erase_nj: u64,
    /// A channel that carries commands or data, mW.
    pub channel_mw: u64,
    /// The drive at all times, mW.
    pub idle_mw: u64,
}

/// What is collected at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionUnit {
    /// A block: each plane collects by itself.
    Block,
    /// A superblock: blocks that the planes have filled in the same turn, one of each. When any
    /// plane is short of free blocks, a superblock is chosen among those with a block in it, by
    /// the valid units of all its blocks; each plane empties and erases its own. One is
    /// collected at a time.
    Superblock,
}

/// What fills the same blocks of a plane. The table of a cached mapping has blocks of its own,
/// unless there is one frontier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFrontiers {
    /// One open block in each plane.
    One,
    /// One open block for host writes, one for collected pages (the double write frontier of
    /// Van Houdt, Performance Evaluation 82, 2014).
    Separate,
    /// One open block for hot units, one for cold ones, be they written by hosts or collected
    /// (the hot/cold write frontiers of the same paper).
    HotCold(HotData),
}

/// Which units are hot: those that were written often lately, as counters of four bits
/// remember it (Hsieh, Kuo and Chang, ACM Transactions on Storage 2(1), 2006).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotData {
    /// Counters, in whole sixteens, at least 16. With fewer than mapping units, each unit has
    /// two, which it shares with others. `None`: one for each mapping unit.
    pub counters: Option<u32>,
    /// Writes of units to flash in which every counter is halved once, at least one for each 16
    /// counters. `None`: as many as counters.
    pub decay: Option<u32>,
    /// The count from which on a unit is hot, 1 to 15.
    pub threshold: u8,
}

impl HotData {
    /// A counter for each unit; hot from a count of 4 on, as in the paper.
    pub const DEFAULT: HotData = HotData { counters: None, decay: None, threshold: 4 };
}

/// Flash transaction scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scheduler {
    /// Whether the dies of a chip may work at the same time.
    pub die_interleaving: bool,
    /// Whether operations at the same page offset of several planes are joined.
    pub multi_plane: bool,
    /// How far into a plane's queue a partner for a multi-plane read is sought.
    pub multi_plane_window: u32,
    /// Whether queue priority classes act on flash transactions.
    pub priority_classes: bool,
    /// Which of a die's host reads and programs goes first.
    pub precedence: Precedence,
    /// A host program that has waited this long goes before reads.
    pub write_deadline: Option<Span>,
    /// Suspends a program when a read waits for its die.
    pub suspend_program: Option<Suspension>,
    /// Suspends an erase when a read waits for its die.
    pub suspend_erase: Option<Suspension>,
    /// With `suspend_erase`: a host program suspends an erase of which at least this is left.
    pub suspend_erase_for_writes: Option<Span>,
    /// Whether the next page is moved to a die while the page before it is programmed
    /// (ONFI's cache program).
    pub cache_program: bool,
    /// Fairness between flows. `None`: first come, first served within a class.
    pub flin: Option<Flin>,
}

/// Which of a die's host reads and programs goes first. Loads of the mapping table come
/// before both; garbage collection and its erases come last unless it is urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Precedence {
    /// Reads, then programs.
    ReadFirst,
    /// Whichever was queued first.
    Oldest,
}

/// Suspension of programs or erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// From the end of the suspend command until the die can read.
    pub latency: Span,
    /// What a resumed operation takes beyond what was left of it.
    pub resume: Span,
    /// An operation of which less than this is left runs to its end.
    pub least_left: Span,
    /// How often one operation may be suspended, at least 1.
    pub limit: u32,
    /// An operation that has been suspended for this long goes on, and is not suspended
    /// again.
    pub longest: Span,
}

/// The scheduler of Tavakkol et al., FLIN, ISCA 2018: flows are slowed down alike. Within a
/// class, work of flows that ask little of a die stands before that of others; in either part
/// it moves forward as far as that evens out the slowdowns. A read and a program that both
/// want the die are compared by how long they have waited for how much work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flin {
    /// Over which time a flow's intensity is measured.
    pub epoch: Span,
    /// Bytes a second that a flow reads, over the whole drive, above which its reads count as
    /// intensive.
    pub read_bytes_per_s: u64,
    /// Bytes a second that a flow writes, above which its writes count as intensive.
    pub write_bytes_per_s: u64,
    /// An intensive flow that is slowed down most moves ahead of others while the ratio of
    /// the least to the largest mean slowdown is below this, 0 to 1.
    pub fairness: f64,
    /// Whether urgent collection is divided among the flows whose writes have caused it: a
    /// program waits for its flow's share of it, and reads are weighed against both. If not,
    /// urgent collection goes before all host I/O. Of no consequence where collection is not
    /// preemptible.
    pub divides_collection: bool,
}

/// Priority of a submission queue (NVMe Base, Create I/O Submission Queue, QPRIO).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[repr(u8)]
pub enum Priority {
    /// Always first; with FLIN, eight turns of fifteen.
    Urgent,
    /// Four turns of seven, or of fifteen.
    #[default]
    High,
    /// Two turns of seven, or of fifteen.
    Medium,
    /// One turn of seven, or of fifteen.
    Low,
}

/// A range of logical space and the flash it may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    /// Capacity in mapping units; `None`: an equal share of what its planes offer.
    pub units: Option<u64>,
    /// Channels it may use; empty: all.
    pub channels: Vec<u32>,
    /// Chips of each channel it may use; empty: all.
    pub chips: Vec<u32>,
    /// Dies of each chip it may use; empty: all.
    pub dies: Vec<u32>,
    /// Planes of each die it may use; empty: all.
    pub planes: Vec<u32>,
    /// The reclaim unit handles of its placement handles, in order; empty: all.
    pub handles: Vec<u8>,
    /// What of it the data cache holds.
    pub caching: Caching,
    pub kind: NamespaceKind,
}

/// What of a namespace the data cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// What the cache's mode says.
    #[default]
    Cache,
    /// This, which the cache's mode includes; `None`: nothing.
    Only(Option<CacheMode>),
}

impl Namespace {
    /// A namespace over the whole drive.
    pub fn whole_drive() -> Namespace {
        Namespace {
            units: None,
            channels: vec![],
            chips: vec![],
            dies: vec![],
            planes: vec![],
            handles: vec![],
            caching: Caching::Cache,
            kind: NamespaceKind::Blocks,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Flash operations that fail.
    Media { operation: MediaOperation, extent: FaultExtent },
    /// A die whose array operations take `factor` times as long.
    SlowDie {
        /// Index of the die, channel first: `(channel * chips + chip) * dies + die`.
        die: u32,
        /// At least 1.
        factor: f64,
    },
    /// A die all of whose operations fail from `at` on.
    DeadDie {
        /// Numbered as in [`Fault::SlowDie`].
        die: u32,
        at: Time,
    },
    /// The power fails at `at`: what was not programmed is lost, outstanding commands are
    /// never answered, and the drive starts again after `recovery`.
    PowerCut {
        at: Time,
        /// From the cut until the drive accepts commands again.
        recovery: Span,
    },
}

/// A flash operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaOperation {
    /// Page read: the command ends with an unrecovered read error.
    Read,
    /// Page program: the data is programmed again elsewhere.
    Program,
    /// Block erase: the block is retired.
    Erase,
}

/// Which of the operations of a kind fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultExtent {
    /// Each with this probability, 0 to 1.
    Rate(f64),
    /// Those that touch the logical units `first..=last` of namespace `namespace`. Erases
    /// have no logical address, so only rates apply to them.
    Units {
        /// Namespace identifier, from 1.
        namespace: u32,
        /// In mapping units from the namespace's start.
        first: u64,
        /// Inclusive.
        last: u64,
    },
}
