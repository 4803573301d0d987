//! Wear: levelling, the end of blocks, and what reads of worn blocks take.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Stage};

const THRESHOLD: u32 = 8;

/// One plane, on a third of which nothing but writes to a tenth of the drive goes.
fn one_plane(change: impl FnOnce(&mut Config)) -> Config {
    small_with(|c| {
        c.geometry.channels = 1;
        c.geometry.chips_per_channel = 1;
        c.geometry.planes_per_die = 1;
        c.geometry.page_bytes = 4096;
        c.geometry.blocks_per_plane = 64;
        change(c);
    })
}

/// Fills the drive and writes to a tenth of it; returns the largest spread of erases seen.
fn wear_down(host: &mut Host, writes: usize) -> u32 {
    fill(host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(9);
    let mut spread = 0;
    for _ in 0..writes / 100 {
        host.closed_loop(8, 100, |_| (Operation::Write, random.below(units / 10) * 8, 8));
        spread = spread.max(host.drive.counters().wear.spread);
    }
    host.drive.check().expect("the invariants hold");
    spread
}

/// Fills the drive and writes at random places until it takes no more writes; returns how many
/// units it has.
fn write_until_protected(host: &mut Host, random: &mut Random) -> u64 {
    fill(host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut written = 0;
    while !host.drive.counters().wear.write_protected {
        host.closed_loop(8, 64, |_| (Operation::Write, random.below(units) * 8, 8));
        written += 64;
        assert!(written < 1_000_000, "it never ends");
    }
    units
}

#[test]
fn static_levelling_holds_the_spread_under_its_threshold() {
    let spread = |wear: Wear| {
        let mut host = Host::new(one_plane(|c| c.wear = wear));
        let spread = wear_down(&mut host, 60_000);
        let counters = host.drive.counters();
        assert_eq!(
            counters.wear_levelling_runs > 0,
            host.drive.config().wear.static_threshold.is_some()
        );
        (spread, counters.block_erases_max)
    };
    let (none, most) = spread(Wear::default());
    let (dynamic, _) = spread(Wear { dynamic: true, ..Wear::default() });
    let levelled = Wear { dynamic: true, static_threshold: Some(THRESHOLD), ..Wear::default() };
    let (both, most_levelled) = spread(levelled);
    // Most blocks hold data that is never rewritten, and are never erased.
    assert!(none > 10 * THRESHOLD && dynamic > 10 * THRESHOLD, "{none} {dynamic}");
    assert!(both <= THRESHOLD, "{both}");
    assert!(most_levelled * 10 < most * 7, "{most_levelled} and {most}");
}

#[test]
fn dynamic_levelling_opens_the_least_worn_block() {
    // Under uniform writes every block takes part, more evenly if the least worn is next.
    let spread = |dynamic| {
        let mut host = Host::new(one_plane(|c| {
            c.wear.dynamic = dynamic;
            c.gc.start = 0.2;
            c.gc.victim = VictimPolicy::Random;
        }));
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(10);
        host.closed_loop(8, 40_000, |_| (Operation::Write, random.below(units) * 8, 8));
        host.drive.counters().wear.spread
    };
    let (without, with) = (spread(false), spread(true));
    assert!(f64::from(with) < 0.8 * f64::from(without), "{with} and {without}");
}

#[test]
fn worn_out_blocks_are_retired_until_the_drive_only_reads() {
    let config = one_plane(|c| {
        c.wear = Wear {
            dynamic: true,
            static_threshold: Some(THRESHOLD),
            endurance: Some(60),
            endurance_deviation: 0.1,
            ..Wear::default()
        };
    });
    let mut host = Host::new(config);
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let spares = host.drive.counters().wear.spare_blocks;
    assert!(spares > 3, "{spares}");
    let mut random = Random(11);
    let mut written = 0u64;
    let mut status = Status::Success;
    while status == Status::Success {
        status = host.run_one(Operation::Write, random.below(units) * 8, 8).status;
        written += 1;
        assert!(written < 1_000_000, "it never ends");
    }
    assert_eq!(status, Status::WriteProtected);
    let counters = host.drive.counters();
    assert!(counters.wear.write_protected);
    assert_eq!(counters.wear.spare_blocks, 0);
    assert_eq!(counters.retired_blocks, u64::from(spares));
    // Rated: 64 blocks of 16 pages, 60 times, over the amplification; it ended with the first
    // of them that did not reach that.
    let waf = counters.flash_units_programmed as f64 / counters.host_units_written as f64;
    let rated = 64.0 * 16.0 * 60.0 / waf;
    assert!((0.7..1.0).contains(&(written as f64 / rated)), "{written} of {rated}");
    // What it holds it still gives.
    for unit in (0..units).step_by(7) {
        assert_eq!(host.run_one(Operation::Read, unit * 8, 8).status, Status::Success);
        assert!(host.drive.holds_data(NAMESPACE, unit));
    }
    host.drive.check().expect("the invariants hold");
}

#[test]
fn a_drive_whose_erases_fail_takes_no_more_writes_before_it_loses_them() {
    // A run of failed erases can use up a plane's free blocks long before its spare blocks.
    for seed in 0..50 {
        for endurance in [None, Some(100_000)] {
            let extent = FaultExtent::Rate(0.5);
            let mut config = small();
            config.cache = Some(DataCache { bytes: 1 << 20, ..cache() });
            config.wear.endurance = endurance;
            config.faults = vec![Fault::Media { operation: MediaOperation::Erase, extent }];
            config.seed = seed;
            let mut host = Host::new(config);
            write_until_protected(&mut host, &mut Random(seed));
            let status = host.run_one(Operation::Write, 0, 8).status;
            assert_eq!(status, Status::WriteProtected);
            let lost = host.drive.counters().units_lost;
            assert!(lost <= 256, "{seed}, {endurance:?}: {lost} units, and the cache has 256");
        }
    }
}

#[test]
fn blocks_that_wear_out_together_end_the_writing_before_anything_is_lost() {
    // Nothing is won back by collecting them, so that a plane's free blocks are used up long before
    // its spare blocks.
    for seed in 0..10 {
        let mut config = small();
        config.cache = Some(DataCache { bytes: 64 << 10, ..cache() });
        config.over_provisioning = 0.5;
        config.gc.start = 0.25;
        config.wear.dynamic = true;
        config.wear.endurance = Some(20);
        config.wear.initial = 18;
        config.seed = seed;
        let mut host = Host::new(config);
        write_until_protected(&mut host, &mut Random(seed));
        let counters = host.drive.counters();
        assert!(counters.wear.spare_blocks > 0, "{seed}: {counters:?}");
        assert_eq!(host.run_one(Operation::Flush, 0, 0).status, Status::Success, "{seed}");
        assert_eq!(host.drive.counters().units_lost, 0, "{seed}");
        host.drive.check().expect("the invariants hold");
    }
}

#[test]
fn what_a_worn_out_drive_has_taken_finds_a_place() {
    let mut worn_out = 0;
    for seed in 0..60 {
        let mut random = Random(seed + 1000);
        let mut config = small();
        config.geometry.blocks_per_plane = random.range(24, 96) as u32;
        config.geometry.pages_per_block = random.pick(&[12, 16, 24, 48]);
        let bytes = random.pick(&[64 << 10, 256 << 10, 1 << 20]);
        config.cache = Some(DataCache { bytes, ..cache() });
        config.over_provisioning = random.pick(&[0.15, 0.3, 0.5]);
        config.gc.start = random.pick(&[0.1, 0.2, 0.25]);
        config.gc.urgent = config.gc.start / 2.0;
        config.wear = Wear {
            dynamic: random.chance(0.5),
            static_threshold: random.chance(0.3).then_some(8),
            initial: random.pick(&[0, 15, 18]),
            endurance: Some(20),
            endurance_deviation: random.pick(&[0.0, 0.05, 0.3]),
            ..Wear::default()
        };
        if random.chance(0.3) {
            config.mapping.table = MappingTable::Cached(cached_table(16 << 10));
        }
        config.placement = random.pick(&[
            Placement::Static,
            Placement::Static,
            Placement::Striped,
            Placement::LeastLoaded,
        ]);
        config.seed = seed;
        // Some of these have no room for collection.
        if config.check().is_err() {
            continue;
        }
        worn_out += 1;
        let mut host = Host::new(config);
        write_until_protected(&mut host, &mut Random(seed));
        assert_eq!(host.run_one(Operation::Flush, 0, 0).status, Status::Success, "{seed}");
        assert_eq!(host.drive.counters().units_lost, 0, "{seed}");
        host.drive.check().expect("the invariants hold");
    }
    assert!(worn_out > 30, "{worn_out} drives");
}

#[test]
fn a_worn_out_drive_still_finishes_what_its_mapping_has_to_write() {
    // Entries leave a table of 4 KiB all the time, so that translation pages wait for a place
    // when the spare blocks are used up.
    for seed in 0..20 {
        let config = one_plane(|c| {
            c.mapping.table = MappingTable::Cached(cached_table(4 << 10));
            c.wear = Wear { endurance: Some(20), endurance_deviation: 0.2, ..Wear::default() };
            c.seed = seed;
        });
        let mut host = Host::new(config);
        let mut random = Random(seed);
        let units = write_until_protected(&mut host, &mut random);
        // Reads evict what the last writes changed.
        host.closed_loop(8, 4096, |_| (Operation::Read, random.below(units) * 8, 8));
        host.run_one(Operation::Flush, 0, 0);
        while host.next().is_some() {}
        host.drive.check().expect("the invariants hold");
        host.drive.check_quiet().expect("nothing is left inside");
    }
}

#[test]
fn without_an_end_to_endurance_nothing_is_retired() {
    let mut host = Host::new(one_plane(|_| ()));
    wear_down(&mut host, 20_000);
    let counters = host.drive.counters();
    assert_eq!(counters.retired_blocks, 0);
    assert!(!counters.wear.write_protected && counters.wear.endurance.is_none());
}

#[test]
fn reads_of_worn_blocks_take_retries_and_decoding() {
    let worn = |initial| {
        one_plane(|c| {
            c.wear.initial = initial;
            c.wear.reads = Some(WornReads {
                retries: vec![(1000, 0.0), (3000, 4.0)],
                retry: Span::from_us(60),
                decode: vec![(0, Span::from_us(1)), (2000, Span::from_us(5))],
            });
        })
    };
    let times = |config: Config| {
        let mut host = Host::new(config);
        fill(&mut host);
        let done = host.run_one(Operation::Read, 0, 8);
        let retries = host.drive.counters().read_retries;
        (done.stages.get(Stage::FlashArray), done.stages.get(Stage::FlashTransfer), retries)
    };
    let us = Span::from_us;
    let transfer = Span::from_ns(5120);
    assert_eq!(times(one_plane(|_| ())), (us(50), transfer, 0));
    assert_eq!(times(worn(0)), (us(50), transfer + us(1), 0));
    assert_eq!(times(worn(1000)), (us(50), transfer + us(3), 0));
    assert_eq!(times(worn(2000)), (us(50 + 2 * 60), transfer + us(5), 2));
    assert_eq!(times(worn(9000)), (us(50 + 4 * 60), transfer + us(5), 4));
    // A mean in between: so many on average.
    let mut host = Host::new(worn(1750));
    fill(&mut host);
    let mut random = Random(12);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    host.closed_loop(4, 4000, |_| (Operation::Read, random.below(units) * 8, 8));
    assert_close("retries", host.drive.counters().read_retries as f64, 1.5 * 4000.0, 0.02);
}

#[test]
fn energy_is_what_the_operations_cost() {
    let energy = Energy {
        read_nj: 1_000,
        program_nj: 30_000,
        erase_nj: 200_000,
        channel_mw: 50,
        idle_mw: 1_000,
    };
    let mut host = Host::new(one_plane(|c| c.energy = Some(energy)));
    wear_down(&mut host, 5_000);
    let c = host.drive.counters();
    let operations = c.flash_reads * 1_000 + c.flash_programs * 30_000 + c.erases * 200_000;
    let channel = c.channel_busy[0].as_secs_f64() * 50e-3 * 1e9;
    let idle = host.now().as_secs_f64() * 1e9;
    let spent = c.energy_nj.expect("it is known") as f64;
    assert_close("energy", spent, operations as f64 + channel + idle, 1e-6);
    assert_eq!(Host::new(one_plane(|_| ())).drive.counters().energy_nj, None);
}
