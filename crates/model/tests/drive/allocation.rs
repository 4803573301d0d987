//! Where writes go: planes chosen when they set out, and blocks that sort data by heat. And
//! that a drive that was put into its steady state is in the one that its policies lead to.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::precondition::{Occupancy, UpdateClass};
use mynah_stamp::Span;

/// One plane of 256 blocks of 32 pages, pages that are mapping units.
fn one_plane(change: impl FnOnce(&mut Config)) -> Config {
    small_with(|c| {
        c.geometry = Geometry {
            channels: 1,
            chips_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 256,
            pages_per_block: 32,
            page_bytes: 4096,
            ..c.geometry
        };
        (c.gc.start, c.gc.urgent) = (0.03, 0.03);
        c.over_provisioning = 0.2;
        change(c);
    })
}

/// Of nine writes in ten to the first tenth.
fn skewed(units: u64, random: &mut Random) -> u64 {
    if random.chance(0.9) { random.below(units / 10) } else { random.range(units / 10, units - 1) }
}

fn waf_of(host: &mut Host, writes: usize, unit: impl FnMut() -> u64) -> f64 {
    waf_at_depth(4, host, writes, unit)
}

fn waf_at_depth(
    depth: usize,
    host: &mut Host,
    writes: usize,
    mut unit: impl FnMut() -> u64,
) -> f64 {
    host.drive.restart_counters();
    host.closed_loop(depth, writes, |_| (Operation::Write, unit() * 8, 8));
    host.drive.check().expect("the invariants hold");
    host.drive.counters().write_amplification().expect("written")
}

#[test]
fn what_collection_moves_is_cold_and_sorts_itself() {
    // With cost-benefit victims the blocks of collected data are left alone long enough.
    let waf = |frontiers| {
        let mut host = Host::new(one_plane(|c| {
            c.gc.frontiers = frontiers;
            c.gc.victim = VictimPolicy::CostBenefit;
        }));
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(3);
        let mut unit = || skewed(units, &mut random);
        waf_of(&mut host, units as usize * 8, &mut unit);
        waf_of(&mut host, units as usize * 4, &mut unit)
    };
    let (mixed, sorted) = (waf(WriteFrontiers::One), waf(WriteFrontiers::Separate));
    assert!(sorted < 0.7 * mixed, "{sorted} and {mixed}");
}

#[test]
fn preconditioning_agrees_with_the_policies() {
    type Change = fn(&mut Config);
    let policies: [(&str, Change, bool); 6] = [
        ("greedy", |_| (), true),
        ("fifo", |c| c.gc.victim = VictimPolicy::Fifo, false),
        ("fifo, skewed", |c| c.gc.victim = VictimPolicy::Fifo, true),
        ("random++", |c| c.gc.victim = VictimPolicy::RandomPlusPlus, false),
        ("random-p", |c| c.gc.victim = VictimPolicy::RandomP { pages: 2 }, false),
        ("cost-benefit", |c| c.gc.victim = VictimPolicy::CostBenefit, true),
    ];
    for (name, change, is_skewed) in policies {
        let mut host = Host::new(one_plane(change));
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(4);
        let mut unit = || if is_skewed { skewed(units, &mut random) } else { random.below(units) };
        fill(&mut host);
        waf_of(&mut host, units as usize * 10, &mut unit);
        let written = waf_of(&mut host, units as usize * 6, &mut unit);

        let mut host = Host::new(one_plane(change));
        let tenth = units / 10;
        let classes = match is_skewed {
            true => vec![written_class(0, tenth, 0.9), written_class(tenth, units - tenth, 0.1)],
            false => vec![written_class(0, units, 1.0)],
        };
        let found = host
            .drive
            .precondition(&[Occupancy { namespace: NAMESPACE, classes }])
            .expect("it has a steady state");
        host.drive.check().expect("the invariants hold");
        // Soon enough that a wrong start would show.
        let soon = waf_of(&mut host, units as usize, &mut unit);
        assert_close(&format!("{name}: preconditioned"), soon, written, 0.06);
        let expected = found.expected_waf.expect("it is written");
        assert_close(&format!("{name}: expected"), expected, written, 0.06);
    }
}

/// Where collection keeps pace it is as far when writes begin as after a long time.
#[test]
fn paced_collection_starts_at_its_pace() {
    // Sixteen planes, each of which would take a block's worth of writes to begin.
    let paced = |frontiers| {
        move |c: &mut Config| {
            (c.geometry.channels, c.geometry.chips_per_channel) = (4, 4);
            (c.gc.paced, c.gc.urgent, c.gc.frontiers) = (true, 0.01, frontiers);
        }
    };
    // Dies that never rest, and dies with time left.
    for (depth, saturated) in [(64, true), (4, false), (1, false)] {
        for frontiers in [WriteFrontiers::Separate, WriteFrontiers::One] {
            let mut host = Host::new(one_plane(paced(frontiers)));
            let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
            let mut random = Random(4);
            let mut unit = || random.below(units);
            fill(&mut host);
            waf_at_depth(depth, &mut host, units as usize * 10, &mut unit);
            let before = host.drive.now();
            let written = waf_at_depth(depth, &mut host, units as usize * 6, &mut unit);
            let took = host.drive.now().since(before).as_secs_f64();

            // Half a block's worth for each plane, some times.
            let soon: Vec<f64> = (0..8)
                .map(|seed| {
                    let mut config = one_plane(paced(frontiers));
                    config.seed = seed;
                    let mut host = Host::new(config);
                    let class = UpdateClass {
                        saturated,
                        units_per_s: if saturated { 0.0 } else { units as f64 * 6.0 / took },
                        together: 1,
                        trims_per_write: 0.0,
                        ..written_class(0, units, 1.0)
                    };
                    let occupancy = [Occupancy { namespace: NAMESPACE, classes: vec![class] }];
                    host.drive.precondition(&occupancy).expect("it has a steady state");
                    host.drive.check().expect("the invariants hold");
                    waf_at_depth(depth, &mut host, 256, &mut unit)
                })
                .collect();
            let soon = soon.iter().sum::<f64>() / soon.len() as f64;
            let what = format!("{frontiers:?}: the first writes at depth {depth}");
            assert_close(&what, soon, written, if saturated { 0.2 } else { 0.1 });
        }
    }
}

#[test]
fn placement_spreads_what_addresses_would_not() {
    let rate = |placement| {
        let mut host = Host::new(small_with(|c| c.placement = placement));
        let planes = u64::from(host.drive.config().geometry.planes());
        // Pages that all belong to the first plane.
        let page = |n: usize| (Operation::Write, n as u64 % 50 * planes * 16, 16);
        let done = host.closed_loop(32, 400, page);
        host.drive.check().expect("the invariants hold");
        400.0 / done[399].at.as_secs_f64()
    };
    let fixed = rate(Placement::Static);
    // Eight planes in four dies; multi-plane programs join the planes of a die.
    for placement in [Placement::Striped, Placement::LeastLoaded] {
        let gain = rate(placement) / fixed;
        assert!((3.5..8.5).contains(&gain), "{placement:?}: {gain}");
    }
}

#[test]
fn least_loaded_goes_round_a_slow_die() {
    let longest = |placement| {
        let mut host = Host::new(small_with(|c| {
            c.placement = placement;
            c.faults = vec![Fault::SlowDie { die: 0, factor: 5.0 }];
        }));
        let done = host.closed_loop(16, 2000, |n| (Operation::Write, n as u64 % 500 * 16, 16));
        host.drive.check().expect("the invariants hold");
        done[1999].at.since(mynah_stamp::Time::ZERO)
    };
    let [fixed, striped, least] =
        [Placement::Static, Placement::Striped, Placement::LeastLoaded].map(longest);
    assert!(least.times(2) < striped && least.times(2) < fixed, "{least} {striped} {fixed}");
    assert!(least > Span::from_ms(1));
}

/// When every plane holds as much as it can, writes go to the one that holds the least: were they
/// all to go to one, it could not be collected any more.
#[test]
fn a_full_drive_takes_writes_wherever_they_may_go() {
    for placement in [Placement::Striped, Placement::LeastLoaded] {
        let mut host = Host::new(small_with(|c| {
            (c.geometry.blocks_per_plane, c.geometry.pages_per_block) = (56, 12);
            c.over_provisioning = 0.15;
            (c.gc.start, c.gc.urgent) = (0.25, 0.125);
            c.cache = Some(DataCache { bytes: 1 << 20, ..cache() });
            c.mapping.table = MappingTable::Cached(cached_table(16 << 10));
            c.placement = placement;
        }));
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(3);
        host.closed_loop(8, 10_000, |_| (Operation::Write, random.below(units) * 8, 8));
        let counters = host.drive.counters();
        assert!(!counters.wear.write_protected, "{placement:?}");
        assert_eq!(counters.units_lost, 0, "{placement:?}");
        host.drive.check().expect("the invariants hold");
    }
}
