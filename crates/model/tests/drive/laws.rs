//! What holds on every run, over random drives, workloads, controls and faults.
//!
//! Each run has a seed, which stands in the message of every failure; `MYNAH_SEED=n` runs that one
//! alone, and `MYNAH_RUNS=n` runs `n` times as many. In every run some features are left out
//! altogether, so that the others are met undiluted.

use crate::support::*;
use mynah_model::Drive;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;

/// A drive that does nothing visible for this long while commands wait is stuck.
const STUCK: Span = Span::from_secs(60);

/// A random order of the four dimensions.
pub(crate) fn plane_order(random: &mut Random) -> PlaneOrder {
    let mut order = [Dimension::Channel, Dimension::Chip, Dimension::Die, Dimension::Plane];
    for at in (1..4).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    PlaneOrder(order)
}

/// A small valid drive.
fn random_config(random: &mut Random) -> Config {
    let mut config = small();
    config.seed = random.next();
    config.geometry = Geometry {
        channels: random.range(1, 2) as u32,
        chips_per_channel: random.range(1, 2) as u32,
        dies_per_chip: random.range(1, 2) as u32,
        planes_per_die: random.pick(&[1, 1, 2, 4]),
        blocks_per_plane: random.range(12, 40) as u32,
        pages_per_block: random.range(4, 16) as u32,
        page_bytes: random.pick(&[4096, 8192, 16384]),
        page_spare_bytes: random.pick(&[0, 448]),
    };
    config.mapping.unit_bytes = config.geometry.page_bytes / random.pick(&[1, 1, 2, 4]);
    config.flash.cell =
        random.pick(&[CellType::Slc, CellType::Mlc, CellType::Tlc, CellType::Qlc, CellType::Plc]);
    config.flash.read_ready_delay = Span::from_ns(random.pick(&[0, 5000]));
    config.bus.rate_mts = random.pick(&[200, 800, 2400]);
    config.bus.transfer_spare = random.chance(0.3);
    config.bus.arbitration =
        random.pick(&[BusArbitration::CommandFirst, BusArbitration::DataFirst]);
    config.bus.rounding = random.pick(&[BusRounding::Exact, BusRounding::TruncatedNs]);
    config.link.bytes_per_s = random.pick(&[200_000_000, 4_000_000_000]);
    config.link.interrupt = Span::from_ns(random.pick(&[0, 1500]));
    config.link.stream_data = random.chance(0.5);
    config.link.truncate_ns = random.chance(0.2);
    config.queues.fetch_size = random.pick(&[1, 4, 1024]);
    if random.chance(0.2) {
        config.link.protocol = LinkProtocol::Sata;
        config.link.max_payload_bytes = 8192;
    }
    config.link.adapter = Span::from_ns(random.pick(&[0, 0, 0, 900]));
    if random.chance(0.4) {
        let mut weight = || random.range(1, 6) as u16;
        let weights = Weights { high: weight(), medium: weight(), low: weight() };
        config.queues.arbitration = Arbitration::Weighted(weights);
    }
    config.queues.arbitration_burst = random.pick(&[1, 3]);
    config.queues.command_slots = random.pick(&[1, 5, 65_536]);
    let cost = |random: &mut Random| Span::from_ns(random.pick(&[0, 0, 700]));
    config.firmware = Firmware {
        cores: random.range(1, 3) as u32,
        read: cost(random),
        write: cost(random),
        trim: cost(random),
        flush: cost(random),
    };
    let planes = u64::from(config.geometry.planes());
    if random.chance(0.6) {
        let pages = planes * random.range(1, 4);
        config.cache = Some(DataCache {
            bytes: pages * u64::from(config.geometry.page_bytes),
            mode: random.pick(&[CacheMode::Write, CacheMode::Both, CacheMode::Read]),
            sharing: random.pick(&[
                CacheSharing::Shared,
                CacheSharing::PerNamespace,
                CacheSharing::PerFlow,
            ]),
            power_loss_protection: false,
            write_back: random.pick(&[
                WriteBack::Eager,
                WriteBack::Lru { high: 0.5 },
                WriteBack::Lru { high: 0.95 },
            ]),
            write_back_max: None,
            dram: Dram {
                row_bytes: random.pick(&[1024, 8192]),
                burst_length: random.pick(&[1, 16]),
                rate_mts: random.pick(&[50, 1600]),
                rows: random.pick(&[
                    RowPolicy::Closed,
                    RowPolicy::Open { banks: 1 },
                    RowPolicy::Open { banks: 4 },
                ]),
                traffic: random.pick(&[DramTraffic::Host, DramTraffic::All]),
                ..cache().dram
            },
        });
    }
    if random.chance(0.5) {
        // A translation page is rewritten for each collected page: in blocks of a few pages
        // collection would lose more than it wins.
        config.geometry.pages_per_block += 8;
        config.geometry.blocks_per_plane += 8;
        config.mapping.table = MappingTable::Cached(CachedTable {
            bytes: u64::from(config.geometry.page_bytes) * random.range(1, 3),
            granularity: random.pick(&[CmtGranularity::Entry, CmtGranularity::Page]),
            sharing: random.pick(&[
                CmtSharing::Shared,
                CmtSharing::Partitioned,
                CmtSharing::Private,
            ]),
            entry_bytes: random.pick(&[None, Some(8), Some(1024)]),
            translation_entry_bytes: random.pick(&[None, Some(128)]),
            load_bytes: random.pick(&[64, 2048]),
            write_back: random.chance(0.8),
        });
    }
    if random.chance(0.15) {
        config.mapping.unmapped_reads = UnmappedReads::Allocate;
    }
    config.plane_order = plane_order(random);
    config.placement = random.pick(&[
        Placement::Static,
        Placement::Static,
        Placement::Striped,
        Placement::LeastLoaded,
    ]);
    config.over_provisioning = 0.15 + random.below(40) as f64 / 100.0;
    let start = random.pick(&[0.0, 0.1, 0.3]);
    config.gc = Gc {
        least_invalid: 0.0,
        victim: random.pick(&[
            VictimPolicy::Greedy,
            VictimPolicy::DChoices { d: 1 },
            VictimPolicy::DChoices { d: 3 },
            VictimPolicy::Random,
            VictimPolicy::RandomP { pages: 1 },
            VictimPolicy::RandomP { pages: 3 },
            VictimPolicy::RandomPlusPlus,
            VictimPolicy::Fifo,
            VictimPolicy::CostBenefit,
        ]),
        unit: random.pick(&[
            CollectionUnit::Block,
            CollectionUnit::Block,
            CollectionUnit::Superblock,
        ]),
        start,
        urgent: start / 2.0,
        preemptible: random.chance(0.7),
        copyback: random.chance(0.3),
        paced: random.chance(0.3),
        reserve_blocks: random.range(1, 2) as u32,
        frontiers: random.pick(&[
            WriteFrontiers::One,
            WriteFrontiers::Separate,
            WriteFrontiers::HotCold(HotData::DEFAULT),
            // Few counters that forget soon, so that much is hot.
            WriteFrontiers::HotCold(HotData { counters: Some(16), decay: Some(200), threshold: 2 }),
        ]),
        idle_after: random.pick(&[None, Some(Span::from_us(100))]),
        idle_target: 0.3,
    };
    if random.chance(0.3) {
        config.wear = Wear {
            dynamic: random.chance(0.5),
            static_threshold: random.pick(&[None, Some(2), Some(5)]),
            initial: random.pick(&[0, 500]),
            reads: random.chance(0.5).then(|| WornReads {
                retries: vec![(0, 0.2), (1000, 3.0)],
                retry: Span::from_us(40),
                decode: random.pick(&[vec![], vec![(0, Span::from_us(2))]]),
            }),
            ..Wear::default()
        };
    }
    if matches!(config.mapping.table, MappingTable::Cached(_)) {
        // Blocks of old translation pages are the cheap ones: who draws blindly, mixes them
        // with data or aims for much free space can lose more pages to updates of the table
        // than he wins, and collects for ever. That is a property of such drives.
        config.gc.victim = VictimPolicy::Greedy;
        config.gc.frontiers = WriteFrontiers::Separate;
        config.gc.start = config.gc.start.min(0.1);
        config.gc.urgent = config.gc.start / 2.0;
        config.gc.idle_target = 0.1;
    }
    config.scheduler = Scheduler {
        die_interleaving: random.chance(0.7),
        multi_plane: random.chance(0.7),
        multi_plane_window: random.pick(&[1, 8]),
        priority_classes: random.chance(0.5),
        precedence: random.pick(&[Precedence::ReadFirst, Precedence::Oldest]),
        write_deadline: random.pick(&[None, None, Some(Span::from_us(600))]),
        suspend_program: random.chance(0.4).then(|| random_suspension(random)),
        suspend_erase: random.chance(0.4).then(|| random_suspension(random)),
        suspend_erase_for_writes: None,
        cache_program: random.chance(0.3),
        flin: random.chance(0.3).then(|| Flin {
            epoch: Span::from_us(random.range(200, 5000)),
            read_bytes_per_s: random.pick(&[0, 10_000_000]),
            write_bytes_per_s: random.pick(&[0, 10_000_000]),
            fairness: random.pick(&[0.3, 0.6, 1.0]),
            divides_collection: random.chance(0.7),
        }),
    };
    if let WriteFrontiers::HotCold(_) = config.gc.frontiers {
        config.scheduler.flin = None;
    }
    if config.scheduler.suspend_erase.is_some() && random.chance(0.5) {
        config.scheduler.suspend_erase_for_writes = Some(Span::from_us(random.range(0, 1000)));
    }
    if random.chance(0.3) {
        config.flash.one_shot = true;
        let pages = config.flash.cell.bits();
        config.geometry.pages_per_block += 6 * pages;
        config.geometry.pages_per_block = config.geometry.pages_per_block.next_multiple_of(pages);
    }
    if random.chance(0.1) {
        config.flash.rewritable = true;
        config.flash.one_shot = false;
        config.mapping.unit_bytes = config.geometry.page_bytes;
        config.mapping.table = MappingTable::Ideal;
        config.mapping.unmapped_reads = UnmappedReads::Zeroes;
        config.gc.idle_after = None;
    }
    if random.chance(0.4) {
        // Two namespaces; sometimes on channels of their own.
        let mut first = Namespace::whole_drive();
        let mut second = Namespace::whole_drive();
        if config.geometry.channels == 2 && random.chance(0.5) {
            first.channels = vec![0];
            second.channels = vec![1];
        } else if random.chance(0.3) {
            first.planes = vec![0];
        }
        if !first.channels.is_empty() || !first.planes.is_empty() {
            config.gc.unit = CollectionUnit::Block;
        }
        config.namespaces = vec![first, second];
    }
    if let Some(cache) = &mut config.cache {
        cache.power_loss_protection = cache.mode.writes() && random.chance(0.4);
        if cache.mode == CacheMode::Both && random.chance(0.3) {
            let caching = [None, Some(CacheMode::Write), Some(CacheMode::Read)];
            config.namespaces[0].caching = Caching::Only(random.pick(&caching));
        }
    }
    if config.flash.one_shot || config.flash.rewritable {
        config.gc.copyback = false;
    }
    if config.flash.rewritable {
        config.placement = Placement::Static;
        config.gc.paced = false;
        config.gc.frontiers = WriteFrontiers::Separate;
        config.gc.unit = CollectionUnit::Block;
        config.wear.static_threshold = None;
    }
    if random.chance(0.1) {
        make_hybrid(&mut config, random);
    } else if config.geometry.planes_per_die > 1 && !config.flash.rewritable && random.chance(0.4) {
        // Units larger than a page lie across planes.
        let planes = if config.geometry.planes_per_die == 4 { random.pick(&[2, 4]) } else { 2 };
        config.mapping.unit_bytes = config.geometry.page_bytes * planes;
        config.scheduler.multi_plane = true;
        config.namespaces.iter_mut().for_each(|namespace| namespace.planes.clear());
        if let MappingTable::Cached(cached) = &mut config.mapping.table {
            cached.bytes = cached.bytes.max(u64::from(config.mapping.unit_bytes));
        }
    }
    // Drawn apart, as what is below: what the other draws are does not depend on it.
    let mut apart = Random(config.seed ^ 0xfd9);
    let sorts = matches!(config.gc.frontiers, WriteFrontiers::HotCold(_));
    if config.gc.unit == CollectionUnit::Superblock && !sorts && apart.chance(0.8) {
        config.scheduler.flin = None;
        config.mapping.unmapped_reads = UnmappedReads::Zeroes;
        config.data_placement = Some(DataPlacement {
            handles: apart.pick(&[1, 2, 3, 5]),
            isolation: apart.pick(&[Isolation::Initial, Isolation::Persistent]),
            victims: apart.pick(&[Victims::All, Victims::Handle]),
            superblocks: apart.pick(&[1, 1, 2]),
        });
        config.geometry.blocks_per_plane = config.geometry.blocks_per_plane.max(12);
        if config.namespaces.len() == 2 && config.reclaim_unit_handles() == 5 {
            config.namespaces[1].handles = vec![4, 0, 2];
        }
    }
    make_valid(&mut config);
    let mut apart = Random(config.seed ^ 0x5e7);
    if apart.chance(0.25) {
        config.ethernet = Some(random_ethernet(&mut apart));
    }
    config
}

/// An Ethernet link with some of what it can have.
pub(crate) fn random_ethernet(random: &mut Random) -> Ethernet {
    let span = |random: &mut Random, most: u64| Span::from_ps(random.pick(&[0, 0, most / 3, most]));
    let framing = match random.chance(0.7) {
        true => Framing::RoceV2 {
            acks: random.chance(0.8),
            invalidate: random.chance(0.5),
            rdma_reads: random.pick(&[1, 2, 16]),
        },
        false => Framing::Tcp { success_flag: random.chance(0.5) },
    };
    let roce = matches!(framing, Framing::RoceV2 { .. });
    let cost = |random: &mut Random| match random.below(3) {
        0 => Cost::NOTHING,
        1 => Cost::Affine { fixed: span(random, 9_000_000), per_byte: span(random, 900) },
        _ => Cost::Table(vec![(512, Span::from_us(1)), (1 << 30, Span::from_ms(2))]),
    };
    let mut layers: [Option<Layer>; 4] = Default::default();
    for layer in &mut layers {
        if random.chance(0.6) {
            let engines = random.pick(&[None, None, Some(1), Some(3)]);
            let (input, output) = (cost(random), cost(random));
            *layer = Some(Layer { input, output, engines, merged: random.chance(0.2) });
        }
    }
    Ethernet {
        rate_bits_per_s: random.pick(&[1_000_000_000, 25_000_000_000, 33_000_000_000]),
        ports: random.range(1, 2) as u32,
        framing,
        mtu_bytes: if roce { random.pick(&[256, 1024, 4096]) } else { random.pick(&[1500, 9000]) },
        vlan: random.chance(0.3),
        ipv6: random.chance(0.3),
        in_capsule_bytes: random.pick(&[0, 4096, 16_384]),
        burst_bytes: random.pick(&[256, 4096, 1 << 20]),
        max_transfer_bytes: 1 << 30,
        gap: span(random, 30_000),
        nic: Nic {
            receive: span(random, 900_000),
            transmit: span(random, 900_000),
            message: span(random, 300_000),
            serial: random.chance(0.3),
        },
        axi: random.chance(0.6).then(|| Axi {
            width_bytes: random.pick(&[8, 128]),
            clock_hz: 500_000_000,
            counting: match random.chance(0.3) {
                true => AxiCounting::SimpleSsd,
                false => AxiCounting::Bursts {
                    beats: random.pick(&[1, 16, 256]),
                    boundary_bytes: random.pick(&[None, Some(4096)]),
                    setup: span(random, 60_000),
                },
            },
            arbitration: span(random, 90_000),
        }),
        target: Target {
            cores: random.pick(&[None, Some(1), Some(4)]),
            receive_buffers: random.pick(&[None, Some(1), Some(8)]),
            data_buffers: random.pick(&[None, Some(1), Some(8)]),
            layers,
        },
    }
}

/// As much over-provisioning as it takes.
fn make_valid(config: &mut Config) {
    while config.check().is_err() && config.over_provisioning < 0.95 {
        config.over_provisioning += 0.05;
        if config.over_provisioning > 0.8 {
            config.gc.reserve_blocks = 1;
            config.gc.start = 0.0;
            config.geometry.blocks_per_plane += 8;
        }
    }
}

/// Hybrid mapping, and nothing that it excludes.
pub(crate) fn make_hybrid(config: &mut Config, random: &mut Random) {
    config.mapping = Mapping {
        unit_bytes: config.geometry.page_bytes,
        scheme: MappingScheme::Hybrid { log_blocks: random.range(2, 5) as u32 },
        table: MappingTable::Ideal,
        unmapped_reads: UnmappedReads::Zeroes,
    };
    config.flash.one_shot = false;
    config.flash.rewritable = false;
    config.placement = Placement::Static;
    config.gc.paced = false;
    config.gc.frontiers = WriteFrontiers::Separate;
    config.gc.unit = CollectionUnit::Block;
    config.data_placement = None;
    config.namespaces.iter_mut().for_each(|namespace| namespace.handles.clear());
    config.gc.idle_after = None;
    config.wear.static_threshold = None;
}

/// A pSLC cache, and nothing that it excludes.
pub(crate) fn make_slc(config: &mut Config, random: &mut Random) {
    if config.flash.cell == CellType::Slc {
        config.flash.cell = random.pick(&[CellType::Mlc, CellType::Tlc, CellType::Qlc]);
    }
    config.geometry.pages_per_block += 8;
    config.geometry.blocks_per_plane += 8;
    if config.flash.one_shot {
        let bits = config.flash.cell.bits();
        config.geometry.pages_per_block = config.geometry.pages_per_block.next_multiple_of(bits);
    }
    config.mapping.scheme = MappingScheme::Page;
    config.mapping.unmapped_reads = UnmappedReads::Zeroes;
    config.flash.rewritable = false;
    if let WriteFrontiers::HotCold(_) = config.gc.frontiers {
        config.gc.frontiers = WriteFrontiers::Separate;
    }
    config.gc.unit = CollectionUnit::Block;
    config.scheduler.flin = None;
    config.data_placement = None;
    config.namespaces.iter_mut().for_each(|namespace| namespace.handles.clear());
    let fixed = random.pick(&[0.0, 0.0, 0.1, 0.2]);
    config.slc = Some(SlcCache {
        static_share: fixed,
        dynamic: if fixed > 0.0 { random.pick(&[0.0, 0.5, 1.0]) } else { 1.0 },
        dynamic_max: random.pick(&[0.3, 1.0]),
        read: Span::from_us(random.pick(&[5, 25])),
        program: Span::from_us(random.pick(&[50, 200])),
        erase: Span::from_ms(random.range(1, 3)),
        endurance: None,
        when_full: random.pick(&[WhenFull::Direct, WhenFull::Fold]),
        fold: match config.flash.one_shot {
            true => FoldWay::Copy,
            false => random.pick(&[FoldWay::Copy, FoldWay::Copyback]),
        },
        fold_beside: random.pick(&[0.0, 0.5, 1.0]),
        fold_blocks: random.pick(&[None, Some(1), Some(2)]),
        fold_from: random.pick(&[0.0, 0.5, 1.0]),
        idle_after: Span::from_us(random.pick(&[0, 1_000, 50_000])),
        idle_share: random.pick(&[0.0, 0.5, 1.0]),
        evict: random.pick(&[Evict::Fifo, Evict::Greedy]),
        sequential_cutoff: random.pick(&[None, Some(4096), Some(1 << 16)]),
        keep_free: random.pick(&[0.02, 0.1]),
    });
}

fn random_suspension(random: &mut Random) -> Suspension {
    Suspension {
        latency: Span::from_us(random.pick(&[0, 5, 100])),
        resume: Span::from_us(random.pick(&[0, 20])),
        least_left: Span::from_us(random.pick(&[0, 50])),
        limit: random.pick(&[1, 3, 100]),
        longest: Span::from_us(random.pick(&[0, 200, 100_000])),
    }
}

fn add_faults(config: &mut Config, random: &mut Random) {
    let dies = u64::from(config.geometry.dies());
    // Where moving data wears blocks out, collecting at leisure never ends.
    config.gc.idle_after = None;
    config.gc.start = config.gc.start.min(0.1);
    config.gc.urgent = config.gc.start / 2.0;
    if random.chance(0.2) {
        config.wear.endurance = Some(config.wear.initial + random.range(3, 40) as u32);
        config.wear.endurance_deviation = random.pick(&[0.0, 0.1]);
    }
    for _ in 0..random.range(1, 3) {
        let die = random.below(dies) as u32;
        let at = Time::from_ns(random.below(400_000_000));
        let fault = match random.below(8) {
            0 => Fault::SlowDie { die, factor: 3.0 },
            1 => Fault::DeadDie { die, at },
            2 => Fault::PowerCut { at, recovery: Span::from_us(random.range(1, 5000)) },
            3 => Fault::Media {
                operation: random.pick(&[MediaOperation::Read, MediaOperation::Program]),
                extent: FaultExtent::Units { namespace: 1, first: 3, last: 9 },
            },
            4 => Fault::Media {
                operation: MediaOperation::Erase,
                extent: FaultExtent::Rate(random.pick(&[0.01, 0.2])),
            },
            5 => Fault::Media {
                operation: MediaOperation::Program,
                extent: FaultExtent::Rate(random.pick(&[0.01, 0.05])),
            },
            _ => Fault::Media {
                operation: MediaOperation::Read,
                extent: FaultExtent::Rate(random.pick(&[0.01, 0.3, 1.0])),
            },
        };
        config.faults.push(fault);
    }
}

/// What the host knows of one unit.
#[derive(Clone, Copy, Default)]
struct Unit {
    /// Whether it must hold data; `None` if the host cannot know.
    holds: Option<bool>,
    /// Writes and TRIMs of it that have completed.
    version: u32,
    /// The version that must survive a power cut.
    durable: u32,
    /// A write or TRIM of it is outstanding, or was lost while it was.
    busy: bool,
    tainted: bool,
}

struct Outstanding {
    request: Request,
    queue: QueueId,
    submitted: Time,
    /// For a flush: the versions when it was submitted.
    versions: Vec<u32>,
}

struct Run {
    host: Host,
    random: Random,
    units: Vec<Vec<Unit>>,
    outstanding: BTreeMap<Tag, Outstanding>,
    queues: Vec<Queue>,
    completed: u64,
    /// Commands that a reset, a power cut or a deleted queue swallowed.
    latency_sum: u128,
    outstanding_integral: u128,
    counted_to: Time,
    gc_runs: u64,
    durable: bool,
    /// What was acknowledged outlives a power cut.
    protected: bool,
    allocates: bool,
    controls: bool,
    last: Time,
    /// What has completed, and when.
    completions: Vec<(Time, Tag, Status)>,
    /// When the drive is put in place of itself, as its snapshot has it.
    exchanges: Option<Random>,
}

impl Run {
    fn new(config: Config, mut random: Random) -> Run {
        let manner = Manner {
            slices: random.chance(0.2).then(|| random.next()),
            late: random.chance(0.2),
            moves: random.chance(0.5),
            ..Manner::default()
        };
        let fragile = |fault: &Fault| {
            matches!(
                fault,
                Fault::DeadDie { .. } | Fault::Media { operation: MediaOperation::Erase, .. }
            )
        };
        let durable = !config.faults.iter().any(fragile) && config.wear.endurance.is_none();
        let protected = config.cache.is_none_or(|cache| cache.power_loss_protection);
        let allocates = config.mapping.unmapped_reads == UnmappedReads::Allocate;
        let unit_sectors = u64::from(config.mapping.unit_bytes / 512);
        let namespaces = config.namespaces.len();
        let linked = config.host_queues(0);
        let mut host = Host::without_queues(config, manner);
        let units = (1..=namespaces)
            .map(|id| {
                let sectors = host.drive.namespace_sectors(NamespaceId(id as u32)).expect("one");
                let fresh = Unit { holds: Some(false), ..Unit::default() };
                vec![fresh; (sectors / unit_sectors) as usize]
            })
            .collect();
        let queues: Vec<_> = (1..=random.range(1, 4) as u16)
            .map(|id| Queue {
                kind: match random.chance(0.7) {
                    true => linked,
                    false => QueueKind::Fetched,
                },
                priority: random.pick(&[
                    Priority::Urgent,
                    Priority::High,
                    Priority::Medium,
                    Priority::Low,
                ]),
                completion_entries: random.pick(&[2, 5, 1024]),
                ..memory_queue(id)
            })
            .collect();
        for queue in &queues {
            host.create(*queue);
        }
        let controls = random.chance(0.4);
        Run {
            host,
            random,
            units,
            outstanding: BTreeMap::new(),
            queues,
            completed: 0,
            latency_sum: 0,
            outstanding_integral: 0,
            counted_to: Time::ZERO,
            gc_runs: 0,
            durable,
            protected,
            allocates,
            controls,
            last: Time::ZERO,
            completions: vec![],
            exchanges: None,
        }
    }

    /// Goes on with the drive's snapshot in its place.
    fn exchange(&mut self) {
        let drive = &mut self.host.drive;
        let bytes = postcard::to_stdvec(&drive.snapshot().expect("no pairs")).expect("plain data");
        let mut from = postcard::Deserializer::from_bytes(&bytes);
        *drive = Drive::from_snapshot(drive.config().clone(), &mut from).expect("a snapshot");
        assert!(from.finalize().expect("bytes").is_empty());
    }

    fn unit_sectors(&self) -> u64 {
        u64::from(self.host.drive.config().mapping.unit_bytes / 512)
    }

    /// Units that a request touches; for a TRIM, those it deallocates.
    fn touched(&self, request: &Request) -> std::ops::Range<usize> {
        let unit = self.unit_sectors();
        let end = request.sector + u64::from(request.sectors);
        match request.operation {
            Operation::Flush => 0..0,
            Operation::Trim => {
                let first = request.sector.div_ceil(unit);
                first as usize..(end / unit).max(first) as usize
            }
            _ => (request.sector / unit) as usize..end.div_ceil(unit) as usize,
        }
    }

    fn submit(&mut self, writes: f64, trims: f64, hot: u64) {
        let namespace = self.random.below(self.units.len() as u64) as usize;
        let unit = self.unit_sectors();
        let capacity = self.units[namespace].len() as u64 * unit;
        let operation = if self.random.chance(0.02) {
            Operation::Flush
        } else if self.random.chance(trims) {
            Operation::Trim
        } else if self.random.chance(writes) {
            if self.random.chance(0.1) { Operation::WriteThrough } else { Operation::Write }
        } else {
            Operation::Read
        };
        let longest = (4 * unit * u64::from(1 + self.host.drive.config().geometry.planes()))
            .min(capacity)
            .min(if operation == Operation::Trim { u64::MAX } else { 20 * unit });
        let sectors = match self.random.below(4) {
            0 => self.random.range(1, longest),
            1 => self.random.range(1, unit),
            _ => unit * self.random.range(1, (longest / unit).min(2)),
        };
        let span = (capacity / hot).max(sectors);
        let sector = match self.random.chance(0.6) {
            true => self.random.below((span - sectors) / unit + 1) * unit,
            false => self.random.range(0, span - sectors),
        };
        let tag = self.host.tag();
        let mut request = Request {
            placement: PlacementId(tag.0 as u16 % 7),
            tag,
            operation,
            namespace: NamespaceId(namespace as u32 + 1),
            sector,
            sectors: if operation == Operation::Flush { 0 } else { sectors as u32 },
        };
        let touched = self.touched(&request);
        let changes = !matches!(operation, Operation::Read | Operation::Flush);
        if changes && self.units[namespace][touched.clone()].iter().any(|unit| unit.busy) {
            // Which of two overlapping writes wins is not defined.
            request.operation = Operation::Read;
        } else if changes {
            for unit in &mut self.units[namespace][touched] {
                unit.busy = true;
            }
        }
        let versions = match operation {
            Operation::Flush => self.units.iter().flatten().map(|unit| unit.version).collect(),
            _ => vec![],
        };
        let queue = self.random.pick(&self.queues).id;
        self.count_outstanding();
        let submitted = self.host.now();
        self.outstanding.insert(request.tag, Outstanding { request, queue, submitted, versions });
        self.host.submit(queue, request);
    }

    /// Adds the commands outstanding since the last change to the integral.
    fn count_outstanding(&mut self) {
        let now = self.host.now();
        let span = now.since(self.counted_to);
        self.outstanding_integral += u128::from(span.as_ps()) * self.outstanding.len() as u128;
        self.counted_to = now;
    }

    fn take_lost(&mut self, cut: bool) {
        let lost = self.host.drive.take_lost_units();
        for (namespace, at) in lost {
            let unit = &mut self.units[namespace.0 as usize - 1][at as usize];
            if cut && self.durable && !unit.busy {
                assert!(
                    unit.durable != unit.version || unit.version == 0,
                    "unit {at} was flushed and is lost"
                );
            }
            unit.holds = None;
            unit.tainted |= unit.busy;
        }
    }

    fn complete(&mut self, done: Completion) {
        assert!(done.at >= self.last, "time runs backwards");
        self.last = done.at;
        self.completions.push((done.at, done.tag, done.status));
        self.take_lost(false);
        self.count_outstanding();
        let Some(command) = self.outstanding.remove(&done.tag) else {
            panic!("{:?} completed twice, or was never submitted", done.tag);
        };
        assert_eq!(done.queue, command.queue);
        assert_eq!(done.rung, command.submitted);
        self.completed += 1;
        self.latency_sum += u128::from(done.at.since(done.rung).as_ps());
        self.settle(&command, done.status);
    }

    /// Notes what a command did, if it succeeded.
    fn settle(&mut self, command: &Outstanding, status: Status) {
        let request = command.request;
        let namespace = request.namespace.0 as usize - 1;
        let success = status == Status::Success;
        match request.operation {
            Operation::Read => {}
            Operation::Flush if success => {
                let units = self.units.iter_mut().flatten();
                for (unit, &version) in units.zip(&command.versions) {
                    unit.durable = unit.durable.max(version);
                }
            }
            Operation::Flush => {}
            operation => {
                for at in self.touched(&request) {
                    let unit = &mut self.units[namespace][at];
                    unit.busy = false;
                    unit.version += 1;
                    unit.holds = match (success, std::mem::take(&mut unit.tainted)) {
                        (true, false) => Some(operation != Operation::Trim),
                        _ => None,
                    };
                    if success && (operation == Operation::WriteThrough || self.protected) {
                        unit.durable = unit.version;
                    }
                }
            }
        }
    }

    /// What was outstanding is gone: its effect is unknown.
    fn abandon(&mut self, cut: bool) {
        while let Some(done) = self.host.ready() {
            self.complete(done);
        }
        self.count_outstanding();
        self.take_lost(cut);
        for (_, command) in std::mem::take(&mut self.outstanding) {
            self.latency_sum += u128::from(self.host.now().since(command.submitted).as_ps());
            self.settle(&command, Status::Aborted);
        }
        self.host.forget();
    }

    /// After the power came back: queues anew.
    fn recover(&mut self) {
        self.abandon(true);
        while self.host.drive.has_lost_power() {
            let at = self.host.drive.next_at().expect("the power comes back");
            self.host.advance_to(at);
        }
        for queue in self.queues.clone() {
            self.host.create(queue);
        }
    }

    fn control(&mut self) {
        while let Some(done) = self.host.ready() {
            self.complete(done);
        }
        if self.random.chance(0.2) {
            let mut weight = || self.random.range(1, 6) as u16;
            let weights = Weights { high: weight(), medium: weight(), low: weight() };
            self.host.control(Control::Arbitration { burst: 2, weights });
        }
        match self.random.below(6) {
            0 | 1 => {
                let commands: Vec<_> = self.outstanding.iter().collect();
                if let Some(&(&tag, command)) = commands.get(commands.len() / 2) {
                    let abort = Control::Abort(command.queue, tag);
                    self.host.control(abort);
                }
            }
            2 | 3 => {
                // What was not fetched is never answered; which that is only the drive
                // knows, so everything unanswered after a while is forgotten.
                let queue = self.random.pick(&self.queues);
                self.count_outstanding();
                self.host.delete(queue.id);
                while let Some(done) = self.host.next_until(self.host.now()) {
                    self.complete(done);
                }
                let gone: Vec<_> = self
                    .outstanding
                    .iter()
                    .filter(|(_, command)| command.queue == queue.id)
                    .map(|(&tag, _)| tag)
                    .collect();
                self.count_outstanding();
                for tag in gone {
                    let command = self.outstanding.remove(&tag).expect("it is there");
                    self.latency_sum +=
                        u128::from(self.host.now().since(command.submitted).as_ps());
                    self.settle(&command, Status::Aborted);
                }
                self.forget_effects();
                if !self.host.drive.has_lost_power() {
                    self.host.create(queue);
                }
            }
            4 => {
                self.host.control(Control::Reset);
                self.abandon(false);
                self.forget_effects();
                if !self.host.drive.has_lost_power() {
                    for queue in self.queues.clone() {
                        self.host.create(queue);
                    }
                }
            }
            5 if self.random.chance(0.5) => self.host.control(Control::WriteBack),
            _ => {
                self.host.control(Control::PowerCut);
                self.recover();
            }
        }
    }

    /// Commands that were cut off go on inside the drive; until they have ended the host
    /// cannot know what their units hold.
    fn forget_effects(&mut self) {
        let until = self.host.now() + Span::from_secs(1);
        while self.host.now() < until && !self.host.drive.has_lost_power() {
            match self.host.next_until_power_cut(until) {
                Some(done) => self.complete(done),
                None => break,
            }
        }
    }

    fn check(&mut self) {
        self.host.drive.check().expect("the invariants hold");
    }

    fn check_data(&mut self) {
        self.take_lost(false);
        for (namespace, units) in self.units.iter().enumerate() {
            let id = NamespaceId(namespace as u32 + 1);
            for (at, unit) in units.iter().enumerate() {
                if unit.busy {
                    continue;
                }
                let holds = self.host.drive.holds_data(id, at as u64);
                match unit.holds {
                    Some(true) => assert!(holds, "unit {at} of {id:?} has lost its data"),
                    Some(false) if !self.allocates => {
                        assert!(!holds, "unit {at} of {id:?} holds data nobody wrote");
                    }
                    _ => {}
                }
            }
        }
    }

    fn run(&mut self, commands: usize) {
        let depth = self.random.pick(&[1, 4, 16, 64]);
        let writes = self.random.pick(&[0.2, 0.6, 1.0]);
        let trims = self.random.pick(&[0.0, 0.05, 0.2]);
        let hot = self.random.pick(&[1, 1, 4]);
        let mut submitted = 0;
        while submitted < commands || !self.outstanding.is_empty() {
            if self.host.drive.has_lost_power() {
                self.recover();
            }
            while self.outstanding.len() < depth && submitted < commands {
                self.submit(writes, trims, hot);
                submitted += 1;
            }
            if self.controls && self.random.chance(0.01) {
                self.control();
                self.check();
                continue;
            }
            if self.exchanges.as_mut().is_some_and(|random| random.chance(0.02)) {
                self.exchange();
            }
            if self.outstanding.is_empty() {
                continue;
            }
            let until = self.host.now() + STUCK;
            match self.host.next_until_power_cut(until) {
                Some(done) => self.complete(done),
                None if self.host.drive.has_lost_power() => continue,
                None => panic!(
                    "stuck at {}: {} commands wait, nothing happens: {:?}",
                    self.host.now(),
                    self.outstanding.len(),
                    self.outstanding.values().map(|c| (c.request, c.queue)).collect::<Vec<_>>()
                ),
            }
            let runs = self.host.drive.counters().gc_runs;
            if runs != self.gc_runs || self.completed.is_multiple_of(64) {
                self.gc_runs = runs;
                self.check();
            }
        }
        self.finish();
    }

    fn finish(&mut self) {
        self.check();
        // Rest: everything that goes on inside ends.
        let until = self.host.now() + STUCK;
        assert_eq!(self.host.next_until(until).map(|done| done.tag), None);
        let next = self.host.drive.next_at();
        assert_eq!(next, None, "the drive never comes to rest");
        self.check();
        self.host.drive.check_quiet().expect("nothing is left inside");
        if self.host.drive.has_lost_power() {
            self.abandon(true);
        }
        self.check_data();
        assert_eq!(self.latency_sum, self.outstanding_integral, "Little's law");
        self.check_counters();
    }

    fn check_counters(&self) {
        let counters = self.host.drive.counters();
        let config = self.host.drive.config();
        let page = u64::from(config.geometry.page_bytes);
        let unit = u64::from(config.mapping.unit_bytes);
        let emptied = counters.gc_runs + counters.slc.erases;
        assert_eq!(emptied, counters.erases + counters.retired_blocks);
        assert!(counters.copybacks <= counters.gc_programs);
        let explained = counters.gc_reads + counters.mapping_reads + counters.merge_reads;
        assert!(counters.flash_reads >= explained);
        let programs = counters.flash_programs - counters.mapping_programs;
        assert!(
            programs * page >= (counters.flash_units_programmed + counters.padded_units) * unit
        );
        assert!(counters.cmt_hits <= counters.cmt_lookups);
        assert!(counters.cache_hits <= counters.cache_lookups);
        let uncached = |cache: DataCache| cache.mode == CacheMode::Read;
        let plain = config.cache.is_none_or(uncached) && config.faults.is_empty() && !self.controls;
        if plain {
            assert_eq!(
                counters.flash_units_programmed
                    - counters.gc_units_moved
                    - counters.slc.units_folded,
                counters.host_units_written,
                "every unit written is programmed once"
            );
            if unit <= 64 * 512 {
                assert_eq!(
                    counters.rest_bytes_programmed + counters.host_bytes_written,
                    counters.host_units_written * unit,
                    "what hosts did not write of them is the rest"
                );
            }
        }
        let elapsed = self.host.now().since(Time::ZERO);
        let busy = counters.channel_busy.iter().chain(&counters.die_busy);
        let busy = busy.chain([&counters.dram_busy]);
        assert!(counters.dram_row_hits <= counters.dram_rows);
        for &busy in busy.chain(&counters.link_busy) {
            assert!(busy <= elapsed, "busy for {busy} of {elapsed}");
        }
    }
}

/// Says which seed failed.
pub(crate) struct Seed(pub(crate) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {0}: MYNAH_SEED={0} runs it alone", self.0);
        }
    }
}

/// The seeds of a test: `count` from `first` on (`MYNAH_RUNS` times as many), or the one
/// that was asked for.
pub(crate) fn seeds(first: u64, count: u64) -> Vec<u64> {
    let runs = std::env::var("MYNAH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1);
    let count = count * runs;
    match std::env::var("MYNAH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (first..first + count).collect(),
    }
}

/// What a drive has beside the rest, and excludes some of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Hybrid,
    Slc,
}

fn run(seed: u64, faults: bool, kind: Kind) {
    run_with(seed, faults, kind, None);
}

fn run_with(seed: u64, faults: bool, kind: Kind, exchanges: Option<Random>) -> Run {
    let _seed = Seed(seed);
    let mut random = Random(seed);
    let mut config = random_config(&mut random);
    match kind {
        Kind::Any => {}
        Kind::Hybrid => make_hybrid(&mut config, &mut random),
        Kind::Slc => make_slc(&mut config, &mut random),
    }
    if kind != Kind::Any {
        make_valid(&mut config);
    }
    config.check().expect("a valid drive");
    if faults {
        add_faults(&mut config, &mut random);
    }
    if std::env::var_os("MYNAH_SEED").is_some() {
        eprintln!("{config:#?}");
    }
    let commands = random.pick(&[200, 600, 1500]);
    let mut run = Run { exchanges, ..Run::new(config, random) };
    run.run(commands);
    run
}

/// At any moment, whatever is under way: a snapshot goes on exactly as the drive would have.
#[test]
fn snapshots_go_on_as_their_drives() {
    for seed in seeds(4_000_000, 100) {
        let kind = match seed % 5 {
            0 => Kind::Hybrid,
            1 => Kind::Slc,
            _ => Kind::Any,
        };
        let faults = seed % 2 == 1;
        let alone = run_with(seed, faults, kind, None);
        let exchanged = run_with(seed, faults, kind, Some(Random(seed)));
        let what = |run: &Run| {
            let drive = &run.host.drive;
            (drive.state_hash(), drive.now(), drive.counters(), drive.blame())
        };
        assert_eq!(alone.completions, exchanged.completions, "seed {seed}");
        assert_eq!(what(&alone), what(&exchanged), "seed {seed}");
    }
}

#[test]
fn laws_hold_without_faults() {
    for seed in seeds(0, 1000) {
        run(seed, false, Kind::Any);
    }
}

#[test]
fn laws_hold_with_faults() {
    for seed in seeds(1_000_000, 1000) {
        run(seed, true, Kind::Any);
    }
}

#[test]
fn laws_hold_with_hybrid_mapping() {
    for seed in seeds(3_000_000, 600) {
        run(seed, seed % 2 == 1, Kind::Hybrid);
    }
}

#[test]
fn laws_hold_with_an_slc_cache() {
    for seed in seeds(5_000_000, 800) {
        run(seed, seed % 2 == 1, Kind::Slc);
    }
}

/// Who delayed whom adds up: what single reads waited for dies, channels and firmware is
/// exactly what the holders of those are blamed for.
#[test]
fn blame_is_conserved() {
    use mynah_model::stats::Resource;
    use mynah_stamp::Stage;
    for seed in seeds(2_000_000, 150) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let mut config = random_config(&mut random);
        config.cache = None;
        config.namespaces.iter_mut().for_each(|namespace| namespace.caching = Caching::Cache);
        config.mapping.table = MappingTable::Ideal;
        let firmware = config.firmware.read;
        let unit = u64::from(config.mapping.unit_bytes / 512);
        let kind = config.host_queues(0);
        let mut host = Host::new(config);
        host.create(Queue { kind, ..memory_queue(2) });
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / unit;
        let (mut waited, mut on_cores, mut reads) = (Span::ZERO, Span::ZERO, 0);
        for n in 0..500 {
            let read = n % 3 != 0;
            let operation = if read { Operation::Read } else { Operation::Write };
            let request = host.request(operation, random.below(units) * unit, unit as u32);
            host.submit(if read { QUEUE } else { QueueId(2) }, request);
            let limit = if n == 499 { 0 } else { 24 };
            while host.outstanding > limit {
                let done = host.next().expect("no deadlock");
                if done.queue == QUEUE {
                    reads += 1;
                    waited += done.stages.get(Stage::DieWait) + done.stages.get(Stage::ChannelWait);
                    on_cores += done.stages.get(Stage::Firmware);
                }
            }
        }
        while let Some(done) = host.next() {
            if done.queue == QUEUE {
                reads += 1;
                waited += done.stages.get(Stage::DieWait) + done.stages.get(Stage::ChannelWait);
                on_cores += done.stages.get(Stage::Firmware);
            }
        }
        let blamed = |of: &[Resource]| -> Span {
            let rows = host.drive.blame();
            let mine = rows.iter().filter(|row| row.victim == FlowId(0));
            mine.filter(|row| of.contains(&row.resource)).map(|row| row.wait).sum()
        };
        assert_eq!(blamed(&[Resource::Die, Resource::Channel]), waited);
        assert_eq!(blamed(&[Resource::Firmware]) + firmware.times(reads), on_cores);
    }
}

#[test]
fn a_completion_does_not_wait_for_its_own_data() {
    use mynah_model::stats::Resource;
    use mynah_stamp::Stage;
    let mut host = Host::new(small_with(|c| c.cache = None));
    fill(&mut host);
    host.drive.restart_counters();
    for unit in 0..10 {
        host.run_one(Operation::Read, unit * 16, 16);
    }
    let rows = host.drive.blame();
    assert!(rows.iter().all(|row| row.resource != Resource::LinkUp), "{rows:?}");
    // Side by side they wait for one another's, no longer than their data take.
    let done = host.closed_loop(16, 200, |n| (Operation::Read, n as u64 * 16, 16));
    let sent: Span = done.iter().map(|done| done.stages.get(Stage::DataOut)).sum();
    let rows = host.drive.blame();
    let waits = rows.iter().filter(|row| row.resource == Resource::LinkUp).map(|row| row.wait);
    let waits: Span = waits.sum();
    assert!(waits < sent, "{waits} {sent}");
}

/// What dies are doing counts at every moment, be their lanes their own or their chips'.
#[test]
fn dies_are_busy_while_they_are() {
    let busy_with = |die_interleaving| {
        let mut host = Host::new(small_with(|c| {
            c.geometry.chips_per_channel *= c.geometry.dies_per_chip;
            c.geometry.dies_per_chip = 1;
            (c.scheduler.die_interleaving, c.cache) = (die_interleaving, None);
        }));
        for page in 0..40 {
            let request = host.request(Operation::Write, page * 16, 16);
            host.submit(QUEUE, request);
        }
        let mut busy = vec![];
        while host.next().is_some() {
            busy.push(host.drive.counters().die_busy);
        }
        busy
    };
    let [apart, by_chip] = [true, false].map(busy_with);
    assert_eq!(apart, by_chip);
    let total = |busy: &Vec<Span>| busy.iter().copied().sum::<Span>();
    assert!(apart.windows(2).all(|two| total(&two[0]) <= total(&two[1])));
}
