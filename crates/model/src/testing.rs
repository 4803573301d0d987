//! Small drives for tests, here and in the crates around this one.

use crate::config::*;
use crate::ftl::pairs::index::Index;
use crate::pair_index::{OwnIndex, PageCounts, PairIndex, PairIndexKind, Room};
use mynah_stamp::Span;

/// How long the page types of a wordline take, in microseconds.
pub fn page_times(lsb_us: u64, csb_us: u64, msb_us: u64) -> PageTimes {
    PageTimes {
        lsb: Span::from_us(lsb_us),
        csb: Span::from_us(csb_us),
        msb: Span::from_us(msb_us),
        fourth: Span::from_us(msb_us),
        fifth: Span::from_us(msb_us),
    }
}

/// Two channels of two single-die chips with two planes; 4 KiB units in 8 KiB pages; SLC;
/// no cache; everything that is not asked for costs nothing.
pub fn small() -> Config {
    Config {
        geometry: Geometry {
            channels: 2,
            chips_per_channel: 2,
            dies_per_chip: 1,
            planes_per_die: 2,
            blocks_per_plane: 32,
            pages_per_block: 16,
            page_bytes: 8192,
            page_spare_bytes: 448,
        },
        flash: FlashTiming {
            cell: CellType::Slc,
            read: page_times(50, 60, 70),
            program: page_times(500, 600, 700),
            erase: Span::from_ms(3),
            read_ready_delay: Span::ZERO,
            rewritable: false,
            one_shot: false,
        },
        bus: Bus {
            width_bytes: 1,
            rate_mts: 800,
            cycles: BusCycles {
                t_cs: Span::from_ns(20),
                t_wc: Span::from_ns(25),
                t_wb: Span::from_ns(100),
                t_rr: Span::from_ns(20),
                t_adl: Span::from_ns(70),
                t_dbsy: Span::from_ns(500),
                t_cals: Span::from_ns(15),
                t_wpst: Span::from_ns(6),
                t_wpsth: Span::from_ns(15),
            },
            rounding: BusRounding::Exact,
            transfer_spare: false,
            arbitration: BusArbitration::CommandFirst,
        },
        link: plain_link(),
        ethernet: None,
        queues: Queues {
            fetch_size: 1024,
            entries: 1024,
            arbitration: Arbitration::RoundRobin,
            arbitration_burst: 1,
            command_slots: 65_536,
        },
        firmware: Firmware {
            cores: 1,
            read: Span::ZERO,
            write: Span::ZERO,
            trim: Span::ZERO,
            flush: Span::ZERO,
        },
        cache: None,
        mapping: Mapping {
            unit_bytes: 4096,
            scheme: MappingScheme::Page,
            table: MappingTable::Ideal,
            unmapped_reads: UnmappedReads::Zeroes,
        },
        plane_order: PlaneOrder([
            Dimension::Channel,
            Dimension::Chip,
            Dimension::Die,
            Dimension::Plane,
        ]),
        slc: None,
        data_placement: None,
        placement: Placement::Static,
        over_provisioning: 0.25,
        gc: Gc {
            least_invalid: 0.0,
            victim: VictimPolicy::Greedy,
            unit: CollectionUnit::Block,
            start: 0.1,
            urgent: 0.07,
            preemptible: true,
            copyback: false,
            paced: false,
            reserve_blocks: 1,
            frontiers: WriteFrontiers::Separate,
            idle_after: None,
            idle_target: 0.2,
        },
        wear: Wear::default(),
        energy: None,
        scheduler: plain_scheduler(),
        namespaces: vec![Namespace::whole_drive()],
        key_value: None,
        faults: vec![],
        seed: 1,
    }
}

/// MQSim's shipped link: four lanes of 1 GB/s, 128-byte payloads, 28 bytes of overhead.
pub fn plain_link() -> Link {
    Link {
        protocol: LinkProtocol::Pcie,
        adapter: Span::ZERO,
        bytes_per_s: 4_000_000_000,
        lanes: 4,
        max_payload_bytes: 128,
        packet_overhead_bytes: 28,
        submission_entry_bytes: 64,
        fetch_prp_lists: true,
        interrupt: Span::ZERO,
        stream_data: true,
        truncate_ns: false,
    }
}

/// Reads first, multi-plane operations, nothing suspended.
fn plain_scheduler() -> Scheduler {
    Scheduler {
        die_interleaving: true,
        multi_plane: true,
        multi_plane_window: 8,
        priority_classes: false,
        precedence: Precedence::ReadFirst,
        write_deadline: None,
        suspend_program: None,
        suspend_erase: None,
        suspend_erase_for_writes: None,
        cache_program: false,
        flin: None,
    }
}

/// A built-in kind of index behind the interface for kinds of others.
struct BuiltIn {
    name: String,
    index: KeyIndex,
}

impl PairIndexKind for BuiltIn {
    fn name(&self) -> &str {
        &self.name
    }

    fn pages(&self, room: Room) -> PageCounts {
        let (most, expected) = Index::pages_max(&self.index, room.keys, room.entries);
        PageCounts { most, expected }
    }

    fn build(&self, room: Room) -> Box<dyn PairIndex> {
        Index::new(&self.index, room.keys, room.entries).boxed()
    }

    fn is_hashed(&self) -> bool {
        Index::new(&self.index, 1, 16).is_hashed()
    }

    fn has_jobs(&self) -> bool {
        Index::new(&self.index, 1, 16).has_jobs()
    }
}

/// The same index, as if it were not one of Mynah's. Stays in memory.
pub fn as_own(index: &KeyIndex) -> KeyIndexKind {
    let name = match index.kind {
        KeyIndexKind::DynamicHash => "own-dynamic-hash".to_owned(),
        KeyIndexKind::Hash { pages } => format!("own-hash-{pages}"),
        KeyIndexKind::Lsm { .. } => "own-lsm".to_owned(),
        KeyIndexKind::Own(own) => format!("own-{}", own.0.name()),
    };
    let kind: &'static BuiltIn = Box::leak(Box::new(BuiltIn { name, index: index.clone() }));
    KeyIndexKind::Own(OwnIndex(kind))
}

/// Pairs of up to 64 KiB under keys of up to 16 bytes: one manager that takes 3 us for every command,
/// and all of a hash index in DRAM.
pub fn key_value() -> KeyValue {
    KeyValue {
        managers: 1,
        times: KeyTimes::all(Span::from_us(3)),
        index: KeyIndex {
            kind: KeyIndexKind::DynamicHash,
            dram_bytes: None,
            entry_bytes: 16,
            keys_max: None,
            filter_bits: 0,
            signature_bits: 0,
        },
        header_bytes: 16,
        key_max: 16,
        value_max: 64 << 10,
        key_inline: 16,
        key_fetch_holds: true,
        key_round_trip: Span::from_ns(800),
    }
}

/// One megabyte that writes back at once.
pub fn cache() -> DataCache {
    DataCache {
        bytes: 1 << 20,
        mode: CacheMode::Write,
        sharing: CacheSharing::Shared,
        power_loss_protection: false,
        dram: Dram {
            row_bytes: 8192,
            width_bytes: 8,
            rate_mts: 1600,
            burst_length: 8,
            t_rcd: Span::from_ns(13),
            t_cl: Span::from_ns(14),
            t_rp: Span::from_ns(15),
            rows: RowPolicy::Closed,
            traffic: DramTraffic::Host,
        },
        write_back: WriteBack::Eager,
        write_back_max: None,
    }
}

/// A mapping table in flash whose cache holds `bytes`.
pub fn cached_table(bytes: u64) -> CachedTable {
    CachedTable {
        bytes,
        granularity: CmtGranularity::Entry,
        sharing: CmtSharing::Shared,
        entry_bytes: None,
        translation_entry_bytes: None,
        load_bytes: 512,
        write_back: true,
    }
}
