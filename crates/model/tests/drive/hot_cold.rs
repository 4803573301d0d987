//! Hot and cold units in blocks of their own: what that does to write amplification, and that
//! nothing else suffers.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::precondition::Occupancy;
use mynah_model::steady::analytic::mean_field;

const HOT_COLD: WriteFrontiers = WriteFrontiers::HotCold(HotData::DEFAULT);
const BLOCKS: u32 = 512;
const PAGES: u32 = 64;
const FREE: u32 = 6;
const RHO: f64 = 0.8;

fn drive(frontiers: WriteFrontiers, victim: VictimPolicy) -> Config {
    let mut config = one_plane(BLOCKS, PAGES, FREE, RHO);
    (config.gc.victim, config.gc.frontiers) = (victim, frontiers);
    config
}

fn units_of(host: &Host) -> u64 {
    host.drive.namespace_sectors(NAMESPACE).expect("one") / 8
}

/// Writes `rounds` times as many units as there are, a share `writes` of them to a share
/// `space` of all; write amplification.
fn write(host: &mut Host, rounds: u64, (space, writes): (f64, f64), random: &mut Random) -> f64 {
    let units = units_of(host);
    let hot = (units as f64 * space) as u64;
    host.drive.restart_counters();
    host.closed_loop(4, (units * rounds) as usize, |_| {
        let is_hot = random.chance(writes);
        let unit = if is_hot { random.below(hot) } else { random.range(hot, units - 1) };
        (Operation::Write, unit * 8, 8)
    });
    host.drive.check().expect("the invariants hold");
    host.drive.counters().write_amplification().expect("written")
}

fn settled(frontiers: WriteFrontiers, victim: VictimPolicy, skew: (f64, f64)) -> f64 {
    let mut host = Host::new(drive(frontiers, victim));
    fill(&mut host);
    let mut random = Random(11);
    write(&mut host, 12, skew, &mut random);
    write(&mut host, 6, skew, &mut random)
}

const SKEWED: (f64, f64) = (0.1, 0.9);
const UNIFORM: (f64, f64) = (0.5, 0.5);

#[test]
fn under_greedy_collection_skewed_writes_amplify_as_uniform_ones_do() {
    // Blocks of either kind are collected at the same number of valid units, so each kind
    // behaves as a pool of its own that is as full as the whole under uniform writes.
    let theory = mean_field(PAGES, RHO, VictimPolicy::Greedy).expect("in the domain").waf;
    let greedy = |frontiers| settled(frontiers, VictimPolicy::Greedy, SKEWED);
    let (one, separate) = (greedy(WriteFrontiers::One), greedy(WriteFrontiers::Separate));
    let apart = greedy(HOT_COLD);
    assert_close("told apart", apart, theory, 0.06);
    assert!(apart < 0.78 * one && apart < 0.88 * separate, "{apart}: {one}, {separate}");
}

#[test]
fn uniform_writes_amplify_as_ever() {
    let greedy = |frontiers| settled(frontiers, VictimPolicy::Greedy, UNIFORM);
    let (separate, apart) = (greedy(WriteFrontiers::Separate), greedy(HOT_COLD));
    assert_close("told apart", apart, separate, 0.015);
}

#[test]
fn cost_benefit_leaves_cold_blocks_alone() {
    let worth = |frontiers| settled(frontiers, VictimPolicy::CostBenefit, SKEWED);
    let (separate, apart) = (worth(WriteFrontiers::Separate), worth(HOT_COLD));
    assert!(apart < 0.85 * separate, "{apart}, {separate}");
}

#[test]
fn preconditioning_agrees() {
    for (victim, skew) in [
        (VictimPolicy::Greedy, SKEWED),
        (VictimPolicy::Greedy, UNIFORM),
        // Where what is hot is not clear.
        (VictimPolicy::Greedy, (0.3, 0.6)),
        (VictimPolicy::CostBenefit, SKEWED),
    ] {
        let written = settled(HOT_COLD, victim, skew);
        let mut host = Host::new(drive(HOT_COLD, victim));
        let units = units_of(&host);
        let hot = (units as f64 * skew.0) as u64;
        let classes =
            vec![written_class(0, hot, skew.1), written_class(hot, units - hot, 1.0 - skew.1)];
        let occupancy = [Occupancy { namespace: NAMESPACE, classes }];
        let expected = host.drive.precondition(&occupancy).expect("a steady state");
        host.drive.check().expect("the invariants hold");
        let expected = expected.expected_waf.expect("it is written");
        let after = write(&mut host, 2, skew, &mut Random(12));
        assert_close(&format!("{victim:?}, {skew:?}: expected"), expected, written, 0.03);
        assert_close(&format!("{victim:?}, {skew:?}: after it"), after, written, 0.03);
    }
}

#[test]
fn pages_of_several_units_are_of_one_kind() {
    // Four units a page, a cache that is always full, two planes that program together.
    let waf = |frontiers| {
        let mut host = Host::new(Config {
            geometry: Geometry {
                planes_per_die: 2,
                blocks_per_plane: 128,
                pages_per_block: 32,
                page_bytes: 16_384,
                ..drive(frontiers, VictimPolicy::CostBenefit).geometry
            },
            namespaces: vec![Namespace::whole_drive()],
            over_provisioning: 0.25,
            cache: Some(DataCache { bytes: 1 << 19, ..cache() }),
            ..drive(frontiers, VictimPolicy::CostBenefit)
        });
        fill(&mut host);
        let mut random = Random(13);
        write(&mut host, 8, SKEWED, &mut random);
        let waf = write(&mut host, 4, SKEWED, &mut random);
        let counters = host.drive.counters();
        let padded = counters.padded_units as f64 / counters.flash_units_programmed as f64;
        assert!(padded < 0.01, "{padded}");
        waf
    };
    let (separate, apart) = (waf(WriteFrontiers::Separate), waf(HOT_COLD));
    assert!(apart < 0.9 * separate, "{apart}, {separate}");
}

#[test]
fn what_is_rare_is_not_left_waiting() {
    // Without a cache a host waits for each write. Hot pages are always full; one cold unit in
    // fifty never fills one.
    let mut host = Host::new(small_with(|c| {
        c.gc.frontiers = HOT_COLD;
        c.cache = None;
        c.geometry.page_bytes = 16_384;
        (c.geometry.channels, c.geometry.planes_per_die) = (1, 1);
        (c.geometry.chips_per_channel, c.geometry.dies_per_chip) = (1, 1);
    }));
    fill(&mut host);
    let units = units_of(&host);
    let mut random = Random(14);
    let mut cold = vec![];
    let done = host.closed_loop(64, 6000, |n| {
        let is_cold = n > 2000 && n % 50 == 0;
        if is_cold {
            cold.push(n as u32);
        }
        let unit = if is_cold { random.range(64, units - 1) } else { random.below(64) };
        (Operation::Write, unit * 8, 8)
    });
    let latency = |done: &Completion| done.at.since(done.rung).as_ps() as f64;
    let mean = |of: &dyn Fn(u32) -> bool| {
        let waits: Vec<f64> = done.iter().filter(|it| of(it.tag.0)).map(latency).collect();
        assert!(waits.len() > 50);
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    let (hot, cold) = (mean(&|tag| !cold.contains(&tag)), mean(&|tag| cold.contains(&tag)));
    assert!(cold < 4.0 * hot, "{cold}, {hot}");
}
