//! The drive file as written: sections, keys, and where each value stands.
//!
//! The doc comments are the reference for users: they become the descriptions in the JSON
//! Schema. Nothing here is checked beyond its type; [`lower`](super::lower) turns a [`File`]
//! into the model's configuration.

mod ethernet;
mod key_value;
mod value;
mod words;

pub(super) use ethernet::*;
pub(super) use key_value::*;
pub(super) use value::*;
pub(super) use words::*;

use crate::units::{Bandwidth, BitRate, Bytes, Duration, Energy, Fraction, Power, TransferRate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One drive: its flash, its controller, its link to the host.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Mynah drive file")]
pub(super) struct File {
    /// The format's version.
    #[allow(dead_code, reason = "reading it is the check")]
    pub(super) schema: At<SchemaVersion>,
    /// Short name of the drive, as results show it.
    pub(super) name: At<String>,
    /// What drive this is, in a sentence or two.
    #[serde(default)]
    pub(super) description: String,
    /// Share of the physical pages that the host does not see. Default: 7%, or 0 with
    /// `flash.rewritable`.
    pub(super) over_provisioning: Maybe<Fraction>,
    /// Seed of every random choice the drive makes. Default: 1.
    pub(super) seed: Maybe<u64>,
    /// The flash array's shape.
    pub(super) geometry: At<Geometry>,
    /// How long the flash array takes.
    pub(super) flash: At<Flash>,
    /// The bus between controller and chips.
    pub(super) bus: At<Bus>,
    /// The link between host and controller.
    pub(super) link: At<Link>,
    /// Submission and completion queues.
    #[serde(default)]
    pub(super) queues: Queues,
    /// The controller's processors.
    #[serde(default)]
    pub(super) firmware: Firmware,
    /// The data cache. Default: none.
    pub(super) cache: Maybe<Cache>,
    /// Logical to physical mapping.
    #[serde(default)]
    pub(super) mapping: Mapping,
    /// How writes are spread over the flash.
    #[serde(default)]
    pub(super) allocation: Allocation,
    /// Garbage collection.
    #[serde(default)]
    pub(super) gc: Gc,
    /// What wear does, and how it is levelled. Default: nothing wears out.
    #[serde(default)]
    pub(super) wear: Wear,
    /// What operations cost in energy. Default: not known, and not reported.
    pub(super) energy: Maybe<EnergyCosts>,
    /// Flash transaction scheduling.
    #[serde(default)]
    pub(super) scheduler: Scheduler,
    /// Key-value namespaces. Default: there are none.
    pub(super) kv: Maybe<KeyValue>,
    /// The namespaces, in order, numbered from 1. Default: one over the whole drive.
    #[serde(default)]
    pub(super) namespace: Vec<At<Namespace>>,
    /// Faults to inject. Default: none.
    #[serde(default)]
    pub(super) fault: Vec<At<FaultEntry>>,
    /// Where each number comes from: a key (`"flash.read"`) or a section (`geometry`) and the
    /// publication, file or measurement. A text that begins with `estimate` says that nobody
    /// published it. The longest matching key counts.
    #[serde(default)]
    #[allow(dead_code, reason = "read from the document, where the keys have spans")]
    pub(super) sources: BTreeMap<String, String>,
}

/// The flash array's shape. Every count is at least 1.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Geometry {
    /// Buses between the controller and the chips, at most 1024.
    pub(super) channels: At<u32>,
    /// Chips (packages, targets) on each channel.
    pub(super) chips_per_channel: At<u32>,
    /// Dies (LUNs) in each chip; at most 64 on a channel.
    pub(super) dies_per_chip: At<u32>,
    /// Planes in each die, 1 to 8.
    pub(super) planes_per_die: At<u32>,
    /// Blocks in each plane.
    pub(super) blocks_per_plane: At<u32>,
    /// Pages in each block.
    pub(super) pages_per_block: At<u32>,
    /// User bytes in a page; a multiple of 512.
    pub(super) page_size: At<Bytes>,
    /// Spare bytes in a page (ECC, metadata). Default: 0.
    pub(super) page_spare: Maybe<Bytes>,
}

/// How long the flash array takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Flash {
    /// Bits in a cell.
    pub(super) cell: At<CellName>,
    /// Page read (tR): one time, or one for each page type of the cell.
    pub(super) read: At<PageTimes>,
    /// Page program (tPROG): one time, or one for each page type of the cell.
    pub(super) program: At<PageTimes>,
    /// Block erase (tBERS); not with `rewritable`.
    pub(super) erase: Maybe<Duration>,
    /// Added to every read between the array and the ready signal. Default: 0.
    pub(super) read_ready_delay: Maybe<Duration>,
    /// Whether data are overwritten where they are, and any part of a page can be: 3D XPoint
    /// and other memory that is never erased. Default: false.
    pub(super) rewritable: Maybe<bool>,
    /// Whether one program takes a whole word line, a page for each bit of a cell.
    /// Default: false.
    pub(super) one_shot: Maybe<bool>,
}

/// The bus between controller and chips.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bus {
    /// The data interface; it bounds the rate. Default: toggle.
    pub(super) protocol: Maybe<Protocol>,
    /// Width of the data bus in bits, 8 or 16. Default: 8.
    pub(super) width_bits: Maybe<u32>,
    /// Millions of transfers a second: from 200 to 533 (NV-DDR2), 1600 (NV-DDR3) or 4800
    /// (Toggle, NV-LPDDR4).
    pub(super) rate: At<TransferRate>,
    /// How transfer times are computed. `truncated-ns` is MQSim's bus: of a page that a host has
    /// written in part, it carries that part. Default: exact.
    pub(super) rounding: Maybe<RoundingName>,
    /// Whether a transfer carries the page's spare bytes in proportion to its data.
    /// Default: false.
    pub(super) transfer_spare: Maybe<bool>,
    /// Who gets the channel when several want it. Default: command-first.
    pub(super) arbitration: Maybe<BusArbitrationName>,
    /// Command and address cycles. Default: NV-DDR2 as MQSim computes it.
    #[serde(default)]
    pub(super) cycles: Cycles,
}

/// Command and address cycle times, named as in ONFI.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cycles {
    /// CE# setup. Default: 20ns.
    pub(super) t_cs: Maybe<Duration>,
    /// WE# cycle: one command or address byte. Default: 25ns.
    pub(super) t_wc: Maybe<Duration>,
    /// WE# high to busy. Default: 100ns.
    pub(super) t_wb: Maybe<Duration>,
    /// Ready to first data. Default: 20ns.
    pub(super) t_rr: Maybe<Duration>,
    /// Address cycle to data loading. Default: 70ns.
    pub(super) t_adl: Maybe<Duration>,
    /// Dummy busy time between the planes of a multi-plane command. Default: 500ns.
    pub(super) t_dbsy: Maybe<Duration>,
    /// ALE and CLE setup. Default: 15ns.
    pub(super) t_cals: Maybe<Duration>,
    /// DQS write postamble. Default: 6ns.
    pub(super) t_wpst: Maybe<Duration>,
    /// DQS write postamble hold. Default: 15ns.
    pub(super) t_wpsth: Maybe<Duration>,
}

/// The link between host and controller. PCIe: `generation` and `lanes`, or `bandwidth`. SATA:
/// `generation` 1 to 3, for 1.5, 3 and 6 Gb/s. Ethernet: ports in place of either, of 25 Gb/s if
/// `rate` does not say otherwise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// What crosses the link. Default: pcie.
    pub(super) protocol: Maybe<LinkProtocolName>,
    /// PCIe generation, 1 to 5, or SATA generation, 1 to 3; with `lanes` it gives the
    /// bandwidth.
    pub(super) generation: Maybe<u32>,
    /// What the host bus adapter takes for each command, one at a time, and again for each
    /// completion, one at a time. Default: 0.
    pub(super) adapter: Maybe<Duration>,
    /// Bandwidth in each direction, all lanes together, after line coding.
    pub(super) bandwidth: Maybe<Bandwidth>,
    /// Lanes: 1, 2, 4, 8, 12, 16 or 32. Transfer sizes are rounded up to a multiple.
    /// Default: 4.
    pub(super) lanes: Maybe<u32>,
    /// Largest payload of one transaction layer packet. Default: 256B.
    pub(super) max_payload: Maybe<Bytes>,
    /// Header, framing and link layer bytes that accompany each packet. Default: 24B; with
    /// SATA 28B around each frame: SOF, CRC and EOF, and four primitives of handshake.
    pub(super) packet_overhead: Maybe<Bytes>,
    /// Size of a submission queue entry on the link. Default: 64B.
    pub(super) submission_entry: Maybe<Bytes>,
    /// Whether PRP lists are fetched for requests of more than two memory pages.
    /// Default: true.
    pub(super) fetch_prp_lists: Maybe<bool>,
    /// Whether read data goes to the host page by page as it comes from the flash (the
    /// default), or all at once when the last page is there.
    pub(super) stream_data: Maybe<bool>,
    /// From the arrival of a completion queue entry until the host sees it. Default: 0.
    pub(super) interrupt: Maybe<Duration>,
    /// How transfer times are computed. Default: exact.
    pub(super) rounding: Maybe<RoundingName>,
    /// Ethernet: bits a second of a port, in each direction, 1 to 400 Gbit/s. Default: 25Gbit/s.
    pub(super) rate: Maybe<BitRate>,
    /// Ethernet: ports, 1 or 2, which queues take in turn. Default: 1.
    pub(super) ports: Maybe<u32>,
    /// Ethernet: what carries NVMe. Default: rocev2.
    pub(super) framing: Maybe<FramingName>,
    /// Ethernet: with RoCE the path MTU, 256, 512, 1024, 2048 or 4096 bytes of payload; with TCP
    /// that of the network, 576 to 9216. Default: 1KiB, with TCP 1500.
    pub(super) mtu: Maybe<Bytes>,
    /// Ethernet: whether frames carry a VLAN tag. Default: false.
    pub(super) vlan: Maybe<bool>,
    /// Ethernet: whether packets are IPv6's. Default: false.
    pub(super) ipv6: Maybe<bool>,
    /// RoCE: whether each message is acknowledged. Default: true.
    pub(super) acks: Maybe<bool>,
    /// RoCE: whether responses invalidate the host's memory key. Default: false.
    pub(super) invalidate: Maybe<bool>,
    /// RoCE: RDMA READs that a queue pair has outstanding, at most. Default: 16.
    pub(super) rdma_reads: Maybe<u32>,
    /// NVMe/TCP: whether the last data of a read stand for its completion. Default: false.
    pub(super) success_flag: Maybe<bool>,
    /// Ethernet: write data that come within the command, at most. Default: 4KiB, with TCP 8KiB.
    pub(super) in_capsule: Maybe<Bytes>,
    /// Ethernet: queue pairs take turns on the wire after so many bytes. Default: 4KiB.
    pub(super) burst: Maybe<Bytes>,
    /// Ethernet: the largest transfer of a command. Default: 1020KiB, that of nvme-rdma in Linux
    /// 4.19.
    pub(super) max_transfer: Maybe<Bytes>,
    /// Ethernet: what passes on the wire after each packet, beside the standard's gap. Default: 0.
    pub(super) gap: Maybe<Duration>,
    /// Ethernet: the network interface. Default: it costs nothing.
    pub(super) nic: Maybe<Nic>,
    /// Ethernet: the bus behind it. Default: it costs nothing.
    pub(super) axi: Maybe<Axi>,
    /// Ethernet: the NVMe-oF target. Default: it costs nothing.
    pub(super) target: Maybe<Target>,
}

/// Submission and completion queues.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Queues {
    /// How many commands of one submission queue may be in the controller at once
    /// (QueueFetchSize). Default: 512.
    pub(super) fetch_size: Maybe<u32>,
    /// Entries in each submission and completion queue, 2 to 65536. Default: 1024.
    pub(super) entries: Maybe<u32>,
    /// Which queue has its turn. Default: round-robin.
    pub(super) arbitration: Maybe<ArbitrationName>,
    /// With `arbitration = "weighted"`: commands of high priority in a round, 1 to 256.
    /// Default: 4.
    pub(super) high_weight: Maybe<u32>,
    /// The same of medium priority. Default: 2.
    pub(super) medium_weight: Maybe<u32>,
    /// The same of low priority. Default: 1.
    pub(super) low_weight: Maybe<u32>,
    /// Entries fetched from one queue before the next queue's turn. Default: 1.
    pub(super) arbitration_burst: Maybe<u32>,
    /// Commands of all queues that the controller can hold at once. Default: 65536, or the 32
    /// tags of native command queuing with SATA, which cannot have more.
    pub(super) command_slots: Maybe<u32>,
}

/// The controller's processors.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Firmware {
    /// Cores; each runs one command at a time. Default: 1.
    pub(super) cores: Maybe<u32>,
    /// Time on a core for a read command. Default: 0.
    pub(super) read: Maybe<Duration>,
    /// Time on a core for a write command. Default: 0.
    pub(super) write: Maybe<Duration>,
    /// Time on a core for a TRIM command. Default: 0.
    pub(super) trim: Maybe<Duration>,
    /// Time on a core for a flush command. Default: 0.
    pub(super) flush: Maybe<Duration>,
}

/// A data cache in DRAM.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cache {
    /// Capacity for data: at least one flash page for each plane; 0 switches the cache off.
    pub(super) size: At<Bytes>,
    /// What it holds. Default: write.
    pub(super) mode: Maybe<CacheModeName>,
    /// How flows share the capacity. Default: shared.
    pub(super) sharing: Maybe<CacheSharingName>,
    /// Whether what is in it and not yet on flash outlives a power cut. Flush and Force Unit
    /// Access then wait for the DRAM only, and hosts see no volatile write cache. Default:
    /// false.
    pub(super) power_loss_protection: Maybe<bool>,
    /// When dirty data leaves for the flash. Default: eager.
    pub(super) write_back: Maybe<WriteBackName>,
    /// With `write_back = "lru"`: the dirty share above which data is written back.
    /// Default: 80%.
    pub(super) high: Maybe<Fraction>,
    /// With `write_back = "eager"`: how much of what was written may be on its way to the flash,
    /// of each part of the cache; then writes wait. Default: as much as fits.
    pub(super) write_back_max: Maybe<Bytes>,
    /// The DRAM behind the cache.
    pub(super) dram: Maybe<Dram>,
}

/// The DRAM's access model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Dram {
    /// Bytes in a row. Default: 8KiB.
    pub(super) row: Maybe<Bytes>,
    /// Width of the data bus in bits, a multiple of 8. Default: 32.
    pub(super) width_bits: Maybe<u32>,
    /// Millions of transfers a second. Default: 1600MT/s.
    pub(super) rate: Maybe<TransferRate>,
    /// Transfers in a burst, 1 to 64; what is moved is rounded up to whole bursts. Default: 8.
    pub(super) burst_length: Maybe<u32>,
    /// What becomes of a row after an access. Default: closed.
    pub(super) rows: Maybe<RowsName>,
    /// With `rows = "open"`: banks, 1 to 1024, each with an open row. Default: 8.
    pub(super) banks: Maybe<u32>,
    /// Which data cross the DRAM. Default: host.
    pub(super) traffic: Maybe<TrafficName>,
    /// Row to column delay. Default: 13ns.
    pub(super) t_rcd: Maybe<Duration>,
    /// Column access latency. Default: 13ns.
    pub(super) t_cl: Maybe<Duration>,
    /// Row precharge. Default: 13ns.
    pub(super) t_rp: Maybe<Duration>,
}

/// Logical to physical mapping.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mapping {
    /// Bytes that one mapping entry covers: the page, the page divided by a power of two, or a
    /// page in each of a power of two of planes of a die. Default: 4KiB, or the page if it is
    /// smaller, or no 4KiB times a power of two; with `kind = "hybrid"` and `flash.rewritable` the
    /// page.
    pub(super) unit: Maybe<Bytes>,
    /// What may be where on flash. Default: page.
    pub(super) kind: Maybe<MappingName>,
    /// With `kind = "hybrid"`: log blocks of each plane, at least 2, of which one is for
    /// sequential writes. Default: 8.
    pub(super) log_blocks: Maybe<u32>,
    /// Where the table lives. Default: cached if there is a `[mapping.cmt]`, else ideal.
    pub(super) table: Maybe<TableName>,
    /// What a read of an address that was never written does. Default: zeroes.
    pub(super) unmapped_reads: Maybe<UnmappedReadsName>,
    /// The cached mapping table.
    pub(super) cmt: Maybe<Cmt>,
}

/// The cached mapping table (CMT).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cmt {
    /// Capacity.
    pub(super) size: At<Bytes>,
    /// What is loaded and evicted. Default: entry.
    pub(super) granularity: Maybe<GranularityName>,
    /// How flows share the capacity. Default: shared.
    pub(super) sharing: Maybe<SharingName>,
    /// Size of a cached entry. Default: from the number of pages, as MQSim computes it.
    pub(super) entry: Maybe<Bytes>,
    /// Size of an entry in a translation page. Default: from the number of pages, as MQSim
    /// computes it.
    pub(super) translation_entry: Maybe<Bytes>,
    /// Bytes read from flash to load an entry, with `granularity = "entry"`. Default: 512B.
    pub(super) load: Maybe<Bytes>,
    /// Whether evicted dirty entries are written to flash. Default: true.
    pub(super) write_back: Maybe<bool>,
}

/// How writes are spread over the flash.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Allocation {
    /// The order in which consecutive pages are spread, fastest first: a permutation of C
    /// (channel), W (way, the chip), D (die) and P (plane). Default: CWDP.
    #[schemars(regex(pattern = r"^[CWDPcwdp]{4}$"))]
    pub(super) order: Maybe<String>,
    /// Which plane a host write goes to. Default: static.
    pub(super) placement: Maybe<PlacementName>,
}

/// Garbage collection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Gc {
    /// Which block is collected. Default: greedy.
    pub(super) victim: Maybe<VictimName>,
    /// What is collected at a time. Default: block.
    pub(super) unit: Maybe<CollectionUnitName>,
    /// With `victim = "d-choices"`: blocks drawn. Default: 10.
    pub(super) d: Maybe<u32>,
    /// With `victim = "random-p"`: pages' worth of invalid data that a victim has at least.
    /// Default: 1.
    pub(super) invalid_pages: Maybe<u32>,
    /// Collection starts when fewer than this share of a plane's blocks are free. Default: with
    /// `paced` 1%, or twice `urgent`, or three blocks more than `reserve_blocks`, whichever is
    /// most, but at most half of `over_provisioning`; without it 5%.
    pub(super) start: Maybe<Fraction>,
    /// Collection takes precedence over host I/O below this share (the hard threshold of
    /// preemptible collection). Default: 0.5%.
    pub(super) urgent: Maybe<Fraction>,
    /// Whether host I/O may go between the page moves of a collection that is not urgent; if
    /// not, a die that has begun to collect a block does nothing else until it is erased.
    /// Default: true.
    pub(super) preemptible: Maybe<bool>,
    /// Whether pages that are valid as a whole are moved within their plane without crossing
    /// the channel. Default: false.
    pub(super) copyback: Maybe<bool>,
    /// Whether page moves go before host writes in proportion to them, so that a block is won
    /// back when the host has filled as many pages as it yields. Default: true, if collection is
    /// preemptible and starts at least two blocks before it is urgent.
    pub(super) paced: Maybe<bool>,
    /// Free blocks of each plane that only collection may use, at least 1. Default: 2.
    pub(super) reserve_blocks: Maybe<u32>,
    /// What fills the same blocks. Default: separate.
    pub(super) write_frontiers: Maybe<FrontiersName>,
    /// With `write_frontiers = "hot-cold"`: what is hot.
    pub(super) hot: Maybe<HotData>,
    /// Collect when a plane's die has been idle this long. Default: never.
    pub(super) idle_after: Maybe<Duration>,
    /// With `idle_after`: the share of free blocks that idle collection aims for.
    /// Default: `start`.
    pub(super) idle_target: Maybe<Fraction>,
}

/// Which data are hot: those that were written often lately. Each write of a mapping unit to
/// flash counts in counters of 4 bits, which are halved one after the other.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HotData {
    /// Counters, at least 16; two take a byte. With fewer than mapping units, each unit has two
    /// of them, which it shares with others. Default: one for each mapping unit.
    pub(super) counters: Maybe<u32>,
    /// Writes of mapping units to flash in which every counter is halved once; at least one for
    /// each 16 counters. Default: as many as counters.
    pub(super) decay: Maybe<u32>,
    /// The count from which on a unit is hot, 1 to 15. Default: 4.
    pub(super) threshold: Maybe<u32>,
}

/// What wear does, and how it is levelled.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wear {
    /// Whether the block that is opened is the free one with the fewest erases (dynamic
    /// levelling), or the one that has been free longest. Default: false.
    pub(super) dynamic: Maybe<bool>,
    /// Static levelling: before the erase counts of a plane's blocks differ by more than this,
    /// the data of its least worn block moves to its most worn free one; at least 2.
    /// Default: never.
    pub(super) static_threshold: Maybe<u32>,
    /// Erases of every block when the drive is built. Default: 0.
    pub(super) initial_cycles: Maybe<u32>,
    /// Rated P/E cycles: erases that a block endures before it is retired. Without spare
    /// blocks the drive takes no more writes; nor when so many blocks of a plane have worn out one
    /// after the other that what the cache holds would find no free one. From then on worn-out
    /// blocks are used on, so that all that it has taken finds a place. Default: no end.
    pub(super) endurance: Maybe<u32>,
    /// With `endurance`: its relative standard deviation from block to block, up to 20%.
    /// Default: 0%.
    pub(super) endurance_deviation: Maybe<Fraction>,
    /// Mean number of retries of a page read, by the P/E cycles of its block; between points
    /// interpolated. Default: none.
    #[serde(default)]
    pub(super) retries: Vec<At<RetryPoint>>,
    /// With `retries`: how long the die is occupied by one retry (array read, transfer,
    /// decoding).
    pub(super) retry: Maybe<Duration>,
    /// Time to decode a page after its transfer (ECC), by the P/E cycles of its block; between
    /// points interpolated. Default: 0.
    #[serde(default)]
    pub(super) decode: Vec<At<DecodePoint>>,
}

/// Retries of page reads at some wear.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryPoint {
    /// P/E cycles of the block; ascending from point to point.
    pub(super) cycles: u32,
    /// Mean number of retries of a page read, up to 100.
    pub(super) mean: f64,
}

/// Decoding time at some wear.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecodePoint {
    /// P/E cycles of the block; ascending from point to point.
    pub(super) cycles: u32,
    /// From the end of the page's transfer until its data can be used.
    pub(super) time: Duration,
}

/// What operations cost in energy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EnergyCosts {
    /// Array read of a page.
    pub(super) read: At<Energy>,
    /// Program of a page.
    pub(super) program: At<Energy>,
    /// Erase of a block.
    pub(super) erase: At<Energy>,
    /// A channel while it carries commands or data. Default: 0.
    pub(super) channel: Maybe<Power>,
    /// The drive at all times. Default: 0.
    pub(super) idle: Maybe<Power>,
}

/// Flash transaction scheduling.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheduler {
    /// Whether the dies of a chip may work at the same time. Default: true.
    pub(super) die_interleaving: Maybe<bool>,
    /// Whether operations at the same page offset of several planes are joined.
    /// Default: true.
    pub(super) multi_plane: Maybe<bool>,
    /// How far into a plane's queue a partner for a multi-plane read is sought. Default: 32.
    pub(super) multi_plane_window: Maybe<u32>,
    /// Whether queue priority classes act on flash transactions. Default: false.
    pub(super) priority_classes: Maybe<bool>,
    /// Which of a die's host reads and programs goes first. Garbage collection comes after
    /// both unless it is urgent, and its erases last. Default: read-first.
    pub(super) precedence: Maybe<PrecedenceName>,
    /// A host program that has waited this long goes before reads. Default: never.
    pub(super) write_deadline: Maybe<Duration>,
    /// Suspends a program when a read waits for its die. Default: never.
    pub(super) suspend_program: Maybe<Suspension>,
    /// Suspends an erase when a read waits for its die. Default: never.
    pub(super) suspend_erase: Maybe<EraseSuspension>,
    /// Whether the next page is moved to a die while the one before it is programmed (cache
    /// program). Default: false.
    pub(super) cache_program: Maybe<bool>,
    /// Fairness between flows: FLIN (Tavakkol et al., ISCA 2018). Default: none.
    pub(super) flin: Maybe<Flin>,
}

/// Suspension of programs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Suspension {
    /// From the end of the suspend command until the die can read.
    pub(super) latency: At<Duration>,
    /// What a resumed operation takes beyond what was left of it. Default: 0.
    pub(super) resume: Maybe<Duration>,
    /// An operation of which less than this is left runs to its end. Default: `latency`.
    pub(super) least_left: Maybe<Duration>,
    /// How often one operation may be suspended, 1 to 10000. Default: 8.
    pub(super) limit: Maybe<u32>,
    /// An operation that has been suspended for this long goes on, and is not suspended
    /// again. Default: 10ms.
    pub(super) longest: Maybe<Duration>,
}

/// Suspension of erases.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EraseSuspension {
    /// From the end of the suspend command until the die can read.
    pub(super) latency: At<Duration>,
    /// What a resumed operation takes beyond what was left of it. Default: 0.
    pub(super) resume: Maybe<Duration>,
    /// An operation of which less than this is left runs to its end. Default: `latency`.
    pub(super) least_left: Maybe<Duration>,
    /// How often one operation may be suspended, 1 to 10000. Default: 8.
    pub(super) limit: Maybe<u32>,
    /// An operation that has been suspended for this long goes on, and is not suspended
    /// again. Default: 10ms.
    pub(super) longest: Maybe<Duration>,
    /// Host programs suspend an erase as well if at least this is left of it. Default: they
    /// do not.
    pub(super) for_writes: Maybe<Duration>,
}

/// FLIN's parameters. The defaults are those in MQSim's source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Flin {
    /// Over which time a flow's intensity is measured. Default: 10ms.
    pub(super) epoch: Maybe<Duration>,
    /// Reads of a flow that reads more than this, over the whole drive, count as intensive.
    /// Default: 33.554432MB/s.
    pub(super) read_threshold: Maybe<Bandwidth>,
    /// The same for writes. Default: 262.144kB/s.
    pub(super) write_threshold: Maybe<Bandwidth>,
    /// An intensive flow that is slowed down most moves ahead of others while the ratio of
    /// the least to the largest mean slowdown is below this. Default: 60%.
    pub(super) fairness: Maybe<Fraction>,
    /// Whether urgent collection is divided among the flows whose writes have caused it; if not,
    /// it goes before all host I/O. Default: true.
    pub(super) divides_collection: Maybe<bool>,
}

/// A range of logical space and the flash it may use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Namespace {
    /// Capacity, a multiple of the mapping unit. Default: an equal share of what its planes
    /// offer.
    pub(super) size: Maybe<Bytes>,
    /// Channels it may use, from 0. Default: all.
    #[serde(default)]
    pub(super) channels: Vec<At<u32>>,
    /// Chips of each channel it may use, from 0. Default: all.
    #[serde(default)]
    pub(super) chips: Vec<At<u32>>,
    /// Dies of each chip it may use, from 0. Default: all.
    #[serde(default)]
    pub(super) dies: Vec<At<u32>>,
    /// Planes of each die it may use, from 0. Default: all.
    #[serde(default)]
    pub(super) planes: Vec<At<u32>>,
    /// What of it the data cache holds. Default: what `cache.mode` says.
    pub(super) cache: Maybe<NamespaceCacheName>,
    /// What it holds. Default: block.
    pub(super) kind: Maybe<NamespaceKindName>,
}

/// A fault to inject: the kind and the settings of `--fault KIND:SETTING=VALUE,…`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultEntry {
    /// What fails: read-error, program-error, erase-error, slow-die, dead-die or power-cut.
    pub(super) kind: At<String>,
    /// Probability of each operation's failure (the errors).
    pub(super) rate: Maybe<Scalar>,
    /// The mapping units whose operations fail: `"0-99"` (read-error, program-error).
    pub(super) units: Maybe<Scalar>,
    /// The namespace of `units`. Default: 1.
    pub(super) namespace: Maybe<Scalar>,
    /// Index of the die, channel first (slow-die, dead-die).
    pub(super) die: Maybe<Scalar>,
    /// How many times as long its operations take, at least 1 (slow-die).
    pub(super) factor: Maybe<Scalar>,
    /// When, after the drive was built (dead-die, power-cut).
    pub(super) at: Maybe<Scalar>,
    /// From the cut until the drive accepts commands again (power-cut). Default: 1s.
    pub(super) recovery: Maybe<Scalar>,
}
