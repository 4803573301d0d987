//! Where writes go in order: that a drive that was put into its steady state is in the one that
//! really writing it many times over leads to.

use crate::support::*;
use mynah_model::Drive;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::precondition::{Occupancy, Order, UpdateClass};

/// Four planes of 128 blocks of 32 pages, `units` mapping units in a page.
fn config(units: u32, change: impl FnOnce(&mut Config)) -> Config {
    small_with(|c| {
        c.geometry = Geometry {
            channels: 2,
            chips_per_channel: 1,
            planes_per_die: 2,
            blocks_per_plane: 128,
            pages_per_block: 32,
            page_bytes: 4096 * units,
            ..c.geometry
        };
        c.mapping.unit_bytes = 4096;
        (c.gc.start, c.gc.urgent) = (0.05, 0.05);
        c.over_provisioning = 0.2;
        change(c);
    })
}

fn units_of(drive: &Drive) -> u64 {
    drive.namespace_sectors(NAMESPACE).expect("one") / 8
}

/// A part of a drive's units, and how they are written.
#[derive(Clone, Copy)]
struct Part {
    /// In percent of all.
    from: u64,
    to: u64,
    weight: f64,
    order: Order,
}

const fn part(from: u64, to: u64, weight: f64, order: Order) -> Part {
    Part { from, to, weight, order }
}

const SEQUENTIAL: Order = Order::SEQUENTIAL;
const UNIFORM: Order = Order::UNIFORM;

/// Writes of whole pages, drawn as `parts` say; every part begins at its start.
struct Writer {
    parts: Vec<(Part, u64, u64, u64)>,
    page: u64,
    random: Random,
}

impl Writer {
    fn new(parts: &[Part], units: u64, page: u64, seed: u64) -> Writer {
        let place = |part: &Part| {
            let (first, end) = (units * part.from / 100 / page, units * part.to / 100 / page);
            (*part, first * page, end - first, 0)
        };
        Writer { parts: parts.iter().map(place).collect(), page, random: Random(seed) }
    }

    fn next(&mut self) -> u64 {
        let total: f64 = self.parts.iter().map(|of| of.0.weight).sum();
        let mut draw = self.random.below(1 << 30) as f64 / (1u64 << 30) as f64 * total;
        let at = self.parts.iter().position(|of| {
            draw -= of.0.weight;
            draw < 0.0
        });
        let last = self.parts.len() - 1;
        let (part, first, pages, next) = &mut self.parts[at.unwrap_or(last)];
        if !self.random.chance(part.order.in_order) {
            return *first + self.random.below(*pages) * self.page;
        }
        while part.order.passed_over > 0.0 && self.random.chance(part.order.passed_over) {
            *next = (*next + 1) % *pages;
        }
        let unit = *first + *next * self.page;
        *next = (*next + 1) % *pages;
        unit
    }

    /// Writes so many times as many units as the drive has; returns the write amplification.
    fn write(&mut self, host: &mut Host, times: f64) -> f64 {
        host.drive.restart_counters();
        let requests = (units_of(&host.drive) as f64 * times) as usize / self.page as usize;
        let sectors = self.page as u32 * 8;
        host.closed_loop(8, requests, |_| (Operation::Write, self.next() * 8, sectors));
        host.drive.check().expect("the invariants hold");
        host.drive.counters().write_amplification().expect("written")
    }
}

fn occupancy(parts: &[Part], units: u64, page: u64) -> [Occupancy; 1] {
    let class = |part: &Part| {
        let (first, end) = (units * part.from / 100 / page, units * part.to / 100 / page);
        let class = written_class(first * page, (end - first) * page, part.weight);
        UpdateClass { order: part.order, ..class }
    };
    [Occupancy { namespace: NAMESPACE, classes: parts.iter().map(class).collect() }]
}

/// Holds what preconditioning expects, and the first writes after it, to what many writes come to.
fn compare(name: &str, config: &Config, parts: &[Part], tolerance: f64) -> f64 {
    let page = u64::from(config.geometry.page_bytes / 4096);
    let mut host = Host::new(config.clone());
    let units = units_of(&host.drive);
    fill(&mut host);
    let mut writer = Writer::new(parts, units, page, 4);
    writer.write(&mut host, 12.0);
    let written = writer.write(&mut host, 6.0);

    let mut host = Host::new(config.clone());
    let found = host.drive.precondition(&occupancy(parts, units, page)).expect("steady");
    host.drive.check().expect("the invariants hold");
    let expected = found.expected_waf.expect("it is written");
    assert_close(&format!("{name}: expected"), expected, written, tolerance);
    let mut writer = Writer::new(parts, units, page, 5);
    let soon = writer.write(&mut host, 1.0);
    assert_close(&format!("{name}: preconditioned"), soon, written, tolerance);
    let later = writer.write(&mut host, 2.0);
    assert_close(&format!("{name}: later"), later, written, tolerance);
    written
}

/// However units, planes, blocks and frontiers are, writes in order leave nothing to copy.
#[test]
fn writes_in_order_copy_nothing() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 9] = [
        ("greedy", |_| ()),
        ("fifo", |c| c.gc.victim = VictimPolicy::Fifo),
        ("cost-benefit", |c| c.gc.victim = VictimPolicy::CostBenefit),
        ("d-choices", |c| c.gc.victim = VictimPolicy::DChoices { d: 12 }),
        ("separate", |c| c.gc.frontiers = WriteFrontiers::Separate),
        ("hot-cold", |c| c.gc.frontiers = WriteFrontiers::HotCold(HotData::DEFAULT)),
        ("least loaded", |c| c.placement = Placement::LeastLoaded),
        ("superblocks", |c| c.gc.unit = CollectionUnit::Superblock),
        ("paced", |c| (c.gc.paced, c.gc.urgent) = (true, 0.02)),
    ];
    for units in [1, 4] {
        for (name, change) in changes {
            let config = config(units, change);
            let parts = [part(0, 100, 1.0, SEQUENTIAL)];
            let name = format!("{name}, {units} units in a page");
            let waf = compare(&name, &config, &parts, 0.01);
            // Of a dozen blocks that are drawn some are valid as a whole, and what is empty is
            // now and then not among them.
            assert!((1.0..1.02).contains(&waf), "{name}: {waf}");
        }
    }
}

/// A range beside data that were written once.
#[test]
fn a_part_written_in_order_leaves_the_rest_alone() {
    for frontiers in [WriteFrontiers::One, WriteFrontiers::Separate] {
        let config = config(4, |c| c.gc.frontiers = frontiers);
        let parts =
            [part(0, 30, 0.0, UNIFORM), part(30, 55, 1.0, SEQUENTIAL), part(55, 100, 0.0, UNIFORM)];
        let waf = compare("a part", &config, &parts, 0.01);
        assert!(waf < 1.01, "{waf}");
    }
}

#[test]
fn mixtures_come_to_rest_where_writing_leads() {
    let shared = Order { in_order: 1.0, passed_over: 0.5 };
    let partly = Order { in_order: 0.3, passed_over: 0.0 };
    let mixtures: [(&str, &[Part]); 5] = [
        ("beside uniform", &[part(0, 50, 1.0, SEQUENTIAL), part(50, 100, 1.0, UNIFORM)]),
        ("two alike", &[part(0, 50, 1.0, SEQUENTIAL), part(50, 100, 1.0, SEQUENTIAL)]),
        ("two unlike", &[part(0, 30, 3.0, SEQUENTIAL), part(30, 100, 1.0, SEQUENTIAL)]),
        ("70 % random", &[part(0, 100, 1.0, partly)]),
        ("half of it", &[part(0, 100, 1.0, shared)]),
    ];
    for (name, parts) in mixtures {
        for frontiers in [WriteFrontiers::One, WriteFrontiers::Separate] {
            let config = config(1, |c| c.gc.frontiers = frontiers);
            compare(&format!("{name}, {frontiers:?}"), &config, parts, 0.06);
        }
    }
}

/// The oldest data are where the writes begin, and neighbours are in the same blocks: a quarter of
/// a round frees as many blocks as it fills.
#[test]
fn collection_keeps_up_from_the_first_write() {
    for placement in [Placement::Static, Placement::LeastLoaded] {
        let config = config(4, |c| c.placement = placement);
        let planes = u64::from(config.geometry.planes());
        let mut host = Host::new(config);
        let units = units_of(&host.drive);
        let parts = [part(0, 100, 1.0, SEQUENTIAL)];
        host.drive.precondition(&occupancy(&parts, units, 4)).expect("steady");
        let free = |host: &Host| host.drive.gauges().free_blocks;
        let start = free(&host);
        let mut writer = Writer::new(&parts, units, 4, 1);
        for quarter in 0..8 {
            let waf = writer.write(&mut host, 0.25);
            assert_eq!(waf, 1.0, "{placement:?}, quarter {quarter}");
            // Every plane is somewhere between two collections.
            let now = free(&host);
            assert!(now.abs_diff(start) <= planes, "{placement:?}, {quarter}: {start}, {now}");
        }
    }
}

/// Every plane holds the addresses of its range in order, from its oldest block to its newest.
#[test]
fn the_first_writes_empty_the_same_blocks() {
    let config = config(4, |_| ());
    let block = u64::from(config.geometry.pages_per_block) * 4;
    let planes = u64::from(config.geometry.planes());
    let mut host = Host::new(config);
    let units = units_of(&host.drive);
    let parts = [part(0, 100, 1.0, SEQUENTIAL)];
    host.drive.precondition(&occupancy(&parts, units, 4)).expect("steady");
    // Two blocks of every plane: were they anywhere, no block would be empty.
    let mut writer = Writer::new(&parts, units, 4, 1);
    let waf = writer.write(&mut host, 2.0 * (block * planes) as f64 / units as f64);
    assert_eq!(waf, 1.0);
    assert!(host.drive.counters().erases >= planes, "{}", host.drive.counters().erases);
}

/// Blocks of a hybrid mapping that are written in order are switched, and nothing is copied; a
/// flow beside a random one spoils and is spoiled as writing leads to.
#[test]
fn logs_are_as_writes_in_order_leave_them() {
    let config = || {
        small_with(|c| {
            (c.geometry.planes_per_die, c.geometry.blocks_per_plane) = (1, 80);
            (c.geometry.pages_per_block, c.geometry.page_bytes) = (32, 4096);
            c.mapping.unit_bytes = 4096;
            c.mapping.scheme = MappingScheme::Hybrid { log_blocks: 9 };
            c.namespaces[0].units = Some(60 * 32 * u64::from(c.geometry.planes()));
        })
    };
    let alone = [part(0, 100, 1.0, SEQUENTIAL)];
    let waf = compare("logs, alone", &config(), &alone, 0.01);
    assert_eq!(waf, 1.0);
    let beside = [part(0, 50, 1.0, SEQUENTIAL), part(50, 100, 1.0, UNIFORM)];
    compare("logs, beside uniform", &config(), &beside, 0.06);
}
