//! Drives that cannot be built are refused by name of the field at fault, quickly and
//! without the memory they would need.

use crate::support::*;
use mynah_model::Drive;
use mynah_model::config::*;
use mynah_stamp::{Span, Time};

/// A change, and the field that the error must name.
type Case = (fn(&mut Config), &'static str);

fn hot_cold(change: impl FnOnce(&mut HotData)) -> WriteFrontiers {
    let mut hot = HotData::DEFAULT;
    change(&mut hot);
    WriteFrontiers::HotCold(hot)
}

const CASES: &[Case] = &[
    (|c| c.geometry.channels = 0, "geometry.channels"),
    (|c| c.geometry.channels = u32::MAX, "geometry.channels"),
    (|c| c.geometry.chips_per_channel = 0, "geometry.chips_per_channel"),
    (|c| c.geometry.dies_per_chip = 0, "geometry.dies_per_chip"),
    (
        |c| (c.geometry.dies_per_chip, c.geometry.chips_per_channel) = (64, 2),
        "geometry.dies_per_chip",
    ),
    (|c| c.geometry.planes_per_die = 0, "geometry.planes_per_die"),
    (|c| c.geometry.planes_per_die = 9, "geometry.planes_per_die"),
    (|c| c.geometry.blocks_per_plane = 0, "geometry.blocks_per_plane"),
    (|c| c.geometry.blocks_per_plane = u32::MAX, "geometry.blocks_per_plane"),
    (|c| c.geometry.pages_per_block = 0, "geometry.pages_per_block"),
    (|c| c.geometry.pages_per_block = u32::MAX, "geometry.pages_per_block"),
    (|c| c.geometry.page_bytes = 0, "geometry.page_size"),
    (|c| c.geometry.page_bytes = 5000, "geometry.page_size"),
    // 40 PB.
    (
        |c| {
            c.geometry.channels = 1024;
            c.geometry.chips_per_channel = 64;
            c.geometry.blocks_per_plane = 1 << 17;
            c.geometry.pages_per_block = 2048;
            c.geometry.page_bytes = 16384;
            c.mapping.unit_bytes = 16384;
        },
        "geometry",
    ),
    (|c| c.mapping.unit_bytes = 0, "mapping.unit"),
    (|c| c.mapping.unit_bytes = 32768, "mapping.unit"),
    (|c| c.mapping.unit_bytes = 768, "mapping.unit"),
    (|c| (c.geometry.pages_per_block, c.mapping.unit_bytes) = (1 << 15, 4096), "mapping.unit"),
    (
        |c| {
            c.gc.unit = CollectionUnit::Superblock;
            c.namespaces[0].channels = vec![0];
        },
        "gc.unit",
    ),
    (
        |c| {
            c.gc.unit = CollectionUnit::Superblock;
            c.mapping.scheme = MappingScheme::Hybrid { log_blocks: 4 };
        },
        "gc.unit",
    ),
    (|c| c.gc.frontiers = hot_cold(|hot| hot.threshold = 0), "gc.hot.threshold"),
    (|c| c.gc.frontiers = hot_cold(|hot| hot.threshold = 16), "gc.hot.threshold"),
    (|c| c.gc.frontiers = hot_cold(|hot| hot.counters = Some(15)), "gc.hot.counters"),
    (|c| c.gc.frontiers = hot_cold(|hot| hot.counters = Some(u32::MAX)), "gc.hot.counters"),
    (|c| c.gc.frontiers = hot_cold(|hot| hot.decay = Some(10)), "gc.hot.decay"),
    (
        |c| {
            c.gc.frontiers = hot_cold(|_| ());
            c.mapping.scheme = MappingScheme::Hybrid { log_blocks: 4 };
        },
        "gc.write_frontiers",
    ),
    (
        |c| {
            c.gc.frontiers = hot_cold(|_| ());
            let (epoch, rate) = (Span::from_ms(10), 1_000_000);
            c.scheduler.flin = Some(Flin {
                epoch,
                read_bytes_per_s: rate,
                write_bytes_per_s: rate,
                fairness: 0.6,
                divides_collection: true,
            });
        },
        "gc.write_frontiers",
    ),
    (|c| c.bus.width_bytes = 0, "bus.width_bits"),
    (|c| c.bus.rate_mts = 0, "bus.rate"),
    (|c| c.bus.rate_mts = 20_000, "bus.rate"),
    (|c| c.link.bytes_per_s = 0, "link.bandwidth"),
    (|c| c.link.lanes = 0, "link.lanes"),
    (|c| c.link.max_payload_bytes = 0, "link.max_payload"),
    (|c| c.link.packet_overhead_bytes = 1000, "link.packet_overhead"),
    (|c| c.link.submission_entry_bytes = 0, "link.submission_entry"),
    (|c| c.queues.fetch_size = 0, "queues.fetch_size"),
    (|c| c.queues.entries = 1, "queues.entries"),
    (|c| c.queues.arbitration_burst = 0, "queues.arbitration_burst"),
    (|c| c.queues.command_slots = 0, "queues.command_slots"),
    (|c| c.firmware.cores = 0, "firmware.cores"),
    (|c| c.over_provisioning = 0.0, "over_provisioning"),
    (|c| c.over_provisioning = 1.0, "over_provisioning"),
    (|c| c.over_provisioning = -0.1, "over_provisioning"),
    (|c| c.over_provisioning = f64::NAN, "over_provisioning"),
    // Too small for its thresholds.
    (|c| c.over_provisioning = 0.01, "over_provisioning"),
    (|c| c.geometry.blocks_per_plane = 5, "over_provisioning"),
    (|c| c.cache = Some(DataCache { bytes: 0, ..cache() }), "cache.size"),
    (|c| c.cache = Some(DataCache { bytes: 4096, ..cache() }), "cache.size"),
    (|c| c.cache = Some(DataCache { bytes: u64::MAX, ..cache() }), "cache.size"),
    (
        |c| {
            let mode = CacheMode::Read;
            c.cache = Some(DataCache { mode, power_loss_protection: true, ..cache() });
        },
        "cache.power_loss_protection",
    ),
    (|c| c.namespaces[0].caching = Caching::Only(None), "namespace.cache"),
    (
        |c| {
            c.cache = Some(cache());
            c.namespaces[0].caching = Caching::Only(Some(CacheMode::Both));
        },
        "namespace.cache",
    ),
    (
        |c| {
            let dram = Dram { rate_mts: 0, ..cache().dram };
            c.cache = Some(DataCache { dram, ..cache() });
        },
        "cache.dram.rate",
    ),
    (
        |c| {
            let dram = Dram { row_bytes: 0, ..cache().dram };
            c.cache = Some(DataCache { dram, ..cache() });
        },
        "cache.dram.row",
    ),
    (
        |c| {
            let dram = Dram { width_bytes: 0, ..cache().dram };
            c.cache = Some(DataCache { dram, ..cache() });
        },
        "cache.dram.width_bits",
    ),
    (
        |c| {
            let dram = Dram { burst_length: 65, ..cache().dram };
            c.cache = Some(DataCache { dram, ..cache() });
        },
        "cache.dram.burst_length",
    ),
    (
        |c| {
            let dram = Dram { rows: RowPolicy::Open { banks: 0 }, ..cache().dram };
            c.cache = Some(DataCache { dram, ..cache() });
        },
        "cache.dram.banks",
    ),
    (
        |c| c.cache = Some(DataCache { write_back_max: Some(511), ..cache() }),
        "cache.write_back_max",
    ),
    (
        |c| {
            let write_back = WriteBack::Lru { high: 0.5 };
            c.cache = Some(DataCache { write_back, write_back_max: Some(4096), ..cache() });
        },
        "cache.write_back_max",
    ),
    (
        |c| c.cache = Some(DataCache { write_back: WriteBack::Lru { high: 1.5 }, ..cache() }),
        "cache.high",
    ),
    (
        |c| c.cache = Some(DataCache { write_back: WriteBack::Lru { high: f64::NAN }, ..cache() }),
        "cache.high",
    ),
    (|c| c.mapping.table = MappingTable::Cached(cached_table(0)), "mapping.cmt.size"),
    (|c| c.mapping.table = MappingTable::Cached(cached_table(u64::MAX)), "mapping.cmt.size"),
    (
        |c| {
            let table = CachedTable { load_bytes: 0, ..cached_table(1 << 20) };
            c.mapping.table = MappingTable::Cached(table);
        },
        "mapping.cmt.load",
    ),
    (
        |c| {
            let table = CachedTable { entry_bytes: Some(0), ..cached_table(1 << 20) };
            c.mapping.table = MappingTable::Cached(table);
        },
        "mapping.cmt.entry",
    ),
    (|c| c.gc.victim = VictimPolicy::DChoices { d: 0 }, "gc.d"),
    (|c| c.gc.victim = VictimPolicy::DChoices { d: u32::MAX }, "gc.d"),
    (|c| c.gc.victim = VictimPolicy::RandomP { pages: 0 }, "gc.invalid_pages"),
    (|c| c.gc.victim = VictimPolicy::RandomP { pages: 17 }, "gc.invalid_pages"),
    (|c| c.gc.reserve_blocks = 0, "gc.reserve_blocks"),
    (|c| c.gc.reserve_blocks = u32::MAX, "gc.reserve_blocks"),
    (|c| c.gc.start = 0.99, "gc.start"),
    (|c| c.gc.start = -1.0, "gc.start"),
    (|c| c.gc.urgent = f64::INFINITY, "gc.urgent"),
    (|c| c.gc.idle_target = f64::NAN, "gc.idle_target"),
    (|c| c.wear.static_threshold = Some(1), "wear.static_threshold"),
    (|c| c.wear.initial = u32::MAX, "wear.initial_cycles"),
    (|c| c.wear.endurance = Some(0), "wear.endurance"),
    (|c| c.wear.endurance_deviation = f64::NAN, "wear.endurance_deviation"),
    (|c| c.wear.reads = Some(worn_reads(vec![(5, 0.0), (5, 1.0)])), "wear.retries"),
    (|c| c.wear.reads = Some(worn_reads(vec![(5, 1e9)])), "wear.retries"),
    (
        |c| {
            let decode = vec![(9, Span::ZERO), (5, Span::ZERO)];
            c.wear.reads = Some(WornReads { decode, ..worn_reads(vec![]) });
        },
        "wear.decode",
    ),
    (
        |c| {
            let (read_nj, program_nj, erase_nj) = (u64::MAX, 0, 0);
            c.energy = Some(Energy { read_nj, program_nj, erase_nj, channel_mw: 0, idle_mw: 0 });
        },
        "energy.read",
    ),
    (|c| c.namespaces.clear(), "namespace"),
    (|c| c.namespaces[0].units = Some(0), "namespace"),
    (|c| c.namespaces[0].units = Some(u64::MAX), "namespace"),
    (|c| c.namespaces[0].units = Some(1 << 40), "namespace"),
    (|c| c.namespaces[0].channels = vec![2], "namespace.channels"),
    (|c| c.namespaces[0].chips = vec![0, 0], "namespace.chips"),
    (|c| c.namespaces[0].dies = vec![u32::MAX], "namespace.dies"),
    (|c| c.namespaces[0].planes = vec![7], "namespace.planes"),
    (|c| c.plane_order = PlaneOrder([Dimension::Channel; 4]), "allocation.order"),
    (|c| c.faults = vec![Fault::SlowDie { die: 4, factor: 2.0 }], "fault.die"),
    (|c| c.faults = vec![Fault::SlowDie { die: 0, factor: 0.5 }], "fault.factor"),
    (|c| c.faults = vec![Fault::SlowDie { die: 0, factor: f64::NAN }], "fault.factor"),
    (|c| c.faults = vec![Fault::DeadDie { die: 99, at: Time::ZERO }], "fault.die"),
    (|c| c.faults = vec![media(MediaOperation::Read, FaultExtent::Rate(1.1))], "fault.rate"),
    (|c| c.faults = vec![media(MediaOperation::Read, FaultExtent::Rate(f64::NAN))], "fault.rate"),
    (|c| c.faults = vec![media(MediaOperation::Erase, units(1, 0, 1))], "fault.units"),
    (|c| c.faults = vec![media(MediaOperation::Read, units(0, 0, 1))], "fault.namespace"),
    (|c| c.faults = vec![media(MediaOperation::Read, units(2, 0, 1))], "fault.namespace"),
    (|c| c.faults = vec![media(MediaOperation::Read, units(1, 5, 4))], "fault.units"),
    (|c| c.faults = vec![media(MediaOperation::Read, units(1, 0, 1 << 30))], "fault.units"),
];

fn worn_reads(retries: Vec<(u32, f64)>) -> WornReads {
    WornReads { retries, retry: Span::ZERO, decode: vec![] }
}

fn media(operation: MediaOperation, extent: FaultExtent) -> Fault {
    Fault::Media { operation, extent }
}

fn units(namespace: u32, first: u64, last: u64) -> FaultExtent {
    FaultExtent::Units { namespace, first, last }
}

#[test]
fn the_field_at_fault_is_named() {
    small().check().expect("the drive itself is valid");
    let mut wrong = vec![];
    for (number, (change, key)) in CASES.iter().enumerate() {
        let config = small_with(change);
        match std::panic::catch_unwind(|| config.check()) {
            Ok(Err(error)) if error.key == *key => {
                assert_eq!(Drive::new(config).err(), Some(error));
            }
            other => wrong.push(format!("case {number}: expected {key}, got {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
