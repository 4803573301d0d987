//! Superblocks: that they are collected as a whole, what that does to write amplification, and
//! that retired blocks leave them usable.

use crate::support::*;
use mynah_model::ActivityKind;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::precondition::Occupancy;
use mynah_model::steady::analytic::mean_field;

const PLANES: u32 = 8;
const PAGES: u32 = 16;
const BLOCKS: u32 = 256;
const FREE: u32 = 8;
const RHO: f64 = 0.8;

/// Eight dies of a plane each, striped, with blocks of few pages.
fn drive(unit: CollectionUnit, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = one_plane(BLOCKS, PAGES, FREE, RHO);
    (config.geometry.channels, config.geometry.chips_per_channel) = (4, 2);
    keep_free(&mut config, FREE, RHO);
    (config.gc.unit, config.placement) = (unit, Placement::Striped);
    config.gc.frontiers = WriteFrontiers::One;
    change(&mut config);
    config
}

/// Writes units at random, `rounds` times as many as there are; write amplification.
fn write(host: &mut Host, rounds: f64, random: &mut Random) -> f64 {
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    host.drive.restart_counters();
    host.closed_loop(8, (units as f64 * rounds) as usize, |_| {
        (Operation::Write, random.below(units) * 8, 8)
    });
    host.drive.check().expect("the invariants hold");
    host.drive.counters().write_amplification().expect("written")
}

fn settled(config: Config) -> f64 {
    let mut host = Host::new(config);
    fill(&mut host);
    let mut random = Random(21);
    write(&mut host, 6.0, &mut random);
    write(&mut host, 4.0, &mut random)
}

#[test]
fn superblocks_amplify_as_blocks_of_their_size_do() {
    let theory = |units| mean_field(units, RHO, VictimPolicy::Greedy).expect("in the domain").waf;
    let block = settled(drive(CollectionUnit::Block, |_| ()));
    let superblock = settled(drive(CollectionUnit::Superblock, |_| ()));
    assert_close("blocks", block, theory(PAGES), 0.03);
    assert_close("superblocks", superblock, theory(PAGES * PLANES), 0.03);
    assert!(superblock > 1.08 * block, "{superblock}, {block}");
}

#[test]
fn every_die_erases_as_much_as_any_other() {
    let erases = |unit| {
        // Blocks so large that planes do not fall far behind one another.
        let mut host = Host::new(drive(unit, |c| {
            (c.geometry.blocks_per_plane, c.geometry.pages_per_block) = (BLOCKS / 4, PAGES * 4);
            c.namespaces[0].units = Some(u64::from(BLOCKS * PAGES * PLANES) * 7 / 10);
        }));
        fill(&mut host);
        host.drive.keep_activity(true);
        write(&mut host, 3.0, &mut Random(22));
        host.finish();
        let mut erases = [0; PLANES as usize];
        for done in host.drive.take_activity() {
            if done.kind == ActivityKind::Erase {
                erases[done.index as usize] += 1;
            }
        }
        erases
    };
    let together = erases(CollectionUnit::Superblock);
    assert!(together[0] > 100 && together.iter().all(|&it| it == together[0]), "{together:?}");
    let alone = erases(CollectionUnit::Block);
    assert!(alone.iter().any(|&it| it != alone[0]), "{alone:?}");
}

#[test]
fn policies_choose_among_superblocks() {
    let waf = |victim| settled(drive(CollectionUnit::Superblock, |c| c.gc.victim = victim));
    let greedy = waf(VictimPolicy::Greedy);
    let draws = waf(VictimPolicy::DChoices { d: 3 });
    let below = waf(VictimPolicy::RandomPlusPlus);
    let fifo = waf(VictimPolicy::Fifo);
    let worth = waf(VictimPolicy::CostBenefit);
    let random = waf(VictimPolicy::Random);
    let invalid = waf(VictimPolicy::RandomP { pages: PAGES / 2 });
    let size = PAGES * PLANES;
    for (name, here, policy) in [
        ("three draws", draws, VictimPolicy::DChoices { d: 3 }),
        ("random++", below, VictimPolicy::RandomPlusPlus),
        ("fifo", fifo, VictimPolicy::Fifo),
        ("random", random, VictimPolicy::Random),
    ] {
        if let Ok(theory) = mean_field(size, RHO, policy) {
            assert_close(name, here, theory.waf, 0.05);
        }
    }
    assert!(greedy < draws && draws < random && below < random && invalid < random);
    assert!((greedy * 0.98..greedy * 1.2).contains(&worth), "{worth}, {greedy}");
}

#[test]
fn retired_blocks_leave_superblocks_usable() {
    let mut host = Host::new(drive(CollectionUnit::Superblock, |c| {
        c.faults = vec![Fault::Media {
            operation: MediaOperation::Erase,
            extent: FaultExtent::Rate(0.002),
        }];
    }));
    fill(&mut host);
    let waf = write(&mut host, 4.0, &mut Random(23));
    let counters = host.drive.counters();
    assert!(counters.retired_blocks > 10, "{}", counters.retired_blocks);
    assert!(waf < 4.0, "{waf}");
    host.finish();
    host.drive.check().expect("the invariants hold");
}

#[test]
fn preconditioning_expects_it() {
    for victim in [VictimPolicy::Greedy, VictimPolicy::DChoices { d: 3 }] {
        let config = drive(CollectionUnit::Superblock, |c| c.gc.victim = victim);
        let written = settled(config.clone());
        let mut host = Host::new(config);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let classes = vec![written_class(0, units, 1.0)];
        let occupancy = [Occupancy { namespace: NAMESPACE, classes }];
        let expected = host.drive.precondition(&occupancy).expect("a steady state");
        host.drive.check().expect("the invariants hold");
        let expected = expected.expected_waf.expect("it is written");
        let mut random = Random(24);
        let (at_once, after) =
            (write(&mut host, 0.5, &mut random), write(&mut host, 3.0, &mut random));
        assert_close("expected", expected, written, 0.03);
        assert_close("at once", at_once, written, 0.1);
        assert_close("after a while", after, written, 0.03);
    }
}

#[test]
fn one_plane_that_is_written_alone_goes_on() {
    // With static placement an address says the plane: the others never get as far.
    for frontiers in [WriteFrontiers::Separate, WriteFrontiers::HotCold(HotData::DEFAULT)] {
        let mut host = Host::new(drive(CollectionUnit::Superblock, |c| {
            (c.placement, c.gc.frontiers) = (Placement::Static, frontiers);
        }));
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(25);
        let planes = u64::from(PLANES);
        host.closed_loop(8, units as usize, |_| {
            (Operation::Write, random.below(units / planes) * planes * 8, 8)
        });
        host.drive.check().expect("the invariants hold");
        assert!(host.drive.counters().erases > 500);
    }
}
