//! Mapping units larger than a flash page: what reads and programs of them take, and what
//! small writes cost.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::Stage;

/// One die of four planes with pages of 16 KiB.
fn config(unit_bytes: u32) -> Config {
    small_with(|c| {
        c.geometry = Geometry {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 4,
            blocks_per_plane: 48,
            pages_per_block: 32,
            page_bytes: 16384,
            page_spare_bytes: 0,
        };
        c.mapping.unit_bytes = unit_bytes;
        c.gc.frontiers = WriteFrontiers::One;
    })
}

#[test]
fn a_small_read_of_a_large_unit_takes_no_longer() {
    let read = |unit_bytes, sector, sectors| {
        let mut host = Host::new(config(unit_bytes));
        fill(&mut host);
        let done = host.run_one(Operation::Read, sector, sectors);
        let of = |stage| done.stages.get(stage);
        let stages = [Stage::FlashCommand, Stage::FlashArray, Stage::FlashTransfer].map(of);
        (stages, host.drive.counters().flash_reads)
    };
    // The third page of the first unit, and 4 KiB on either side of a page's end.
    assert_eq!(read(65536, 64, 8), read(16384, 0, 8));
    let ([_, array, transfer], pages) = read(65536, 60, 8);
    assert_eq!(pages, 2);
    assert_eq!([array, transfer], read(16384, 0, 8).0[1..]);
    assert_eq!(read(65536, 0, 128).1, 4);
}

#[test]
fn a_large_unit_is_programmed_at_once() {
    let write = |unit_bytes, sectors| {
        let mut host = Host::new(config(unit_bytes));
        let done = host.run_one(Operation::Write, 0, sectors);
        let counters = host.drive.counters();
        (
            done.stages.get(Stage::FlashArray),
            counters.flash_programs,
            counters.multi_plane_operations,
        )
    };
    let (page, ..) = write(16384, 32);
    assert_eq!(write(65536, 128), (page, 4, 1));
    assert_eq!(write(32768, 64), (page, 2, 1));
}

/// Bytes programmed for each byte written by random writes of so many bytes.
fn amplification(unit_bytes: u32, write_bytes: u32) -> (f64, f64) {
    let mut host = Host::without_queues(config(unit_bytes), Manner::default());
    host.create(fetched_queue(1));
    fill(&mut host);
    let sectors = write_bytes / 512;
    let writes = host.drive.namespace_sectors(NAMESPACE).expect("one") / u64::from(sectors);
    let mut random = Random(29);
    let mut write = |_| (Operation::Write, random.below(writes) * u64::from(sectors), sectors);
    host.closed_loop(8, 8000, &mut write);
    host.drive.restart_counters();
    host.closed_loop(8, 8000, &mut write);
    host.drive.check().expect("the invariants hold");
    let counters = host.drive.counters();
    let programmed = counters.flash_programs as f64 * 16384.0;
    let read = counters.merge_reads as f64 / 8000.0;
    (programmed / (8000.0 * f64::from(write_bytes)), read)
}

/// 4 KiB of a unit of 64 KiB are sixteen times what they were, and four pages are read for
/// them; of whole units that was, as with page mapping, what collection costs.
#[test]
fn small_writes_cost_the_whole_unit() {
    let (whole, none) = amplification(65536, 65536);
    let (small, all) = amplification(65536, 4096);
    let (page, others) = amplification(65536, 16384);
    assert!(whole > 1.2 && whole < 3.0, "{whole}");
    assert_close("4 KiB", small, 16.0 * whole, 0.03);
    assert_close("16 KiB", page, 4.0 * whole, 0.03);
    assert_eq!((none, all, others), (0.0, 4.0, 3.0));
    // Without the unit's size coming in, that of page mapping.
    let (by_page, _) = amplification(16384, 16384);
    assert_close("units of a page", whole, by_page, 0.06);
}

#[test]
fn blocks_of_joined_planes_are_erased_together_and_counted_apart() {
    let mut host = Host::new(config(65536));
    let wear = host.drive.counters().wear;
    assert_eq!((wear.blocks, wear.block_bytes), (4 * 48, 32 * 16384));
    fill(&mut host);
    let mut random = Random(31);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 128;
    host.closed_loop(4, 4000, |_| (Operation::Write, random.below(units) * 128, 128));
    let counters = host.drive.counters();
    assert!(counters.erases > 100 && counters.erases.is_multiple_of(4));
    assert_eq!(counters.gc_runs, counters.erases);
    assert!(counters.flash_programs.is_multiple_of(4));
    assert_eq!(counters.wear.erases, counters.erases);
}

#[test]
fn units_that_do_not_fit_a_die_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = config(65536);
        config.check().expect("a valid drive");
        change(&mut config);
        config.check().expect_err("it is refused").key
    };
    assert_eq!(refused(|c| c.mapping.unit_bytes = 131_072), "mapping.unit");
    assert_eq!(refused(|c| c.mapping.unit_bytes = 49152), "mapping.unit");
    assert_eq!(refused(|c| c.mapping.unit_bytes = 16384 + 512), "mapping.unit");
    assert_eq!(refused(|c| c.geometry.planes_per_die = 2), "mapping.unit");
    assert_eq!(refused(|c| c.scheduler.multi_plane = false), "scheduler.multi_plane");
    assert_eq!(refused(|c| c.namespaces[0].planes = vec![0, 1]), "namespace.planes");
    let hybrid = |c: &mut Config| c.mapping.scheme = MappingScheme::Hybrid { log_blocks: 2 };
    assert_eq!(refused(hybrid), "mapping.unit");
}

/// What is programmed beside what hosts wrote, of writes of 4 KiB to units of 16 KiB, with a cache
/// and in order, anywhere, and anywhere without a cache.
#[test]
fn the_rest_of_units_is_what_hosts_did_not_write() {
    let rest = |size: Option<u64>, in_order: bool| {
        let mut config = config(16384);
        config.cache = size.map(|bytes| DataCache { bytes, ..cache() });
        let mut host = Host::without_queues(config, Manner::default());
        host.create(fetched_queue(1));
        fill(&mut host);
        host.drive.restart_counters();
        let writes = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(3);
        let place = |at: usize, any: u64| if in_order { at as u64 % writes } else { any };
        let mut at = 0;
        host.closed_loop(4, 4000, |_| {
            at += 1;
            (Operation::Write, place(at - 1, random.below(writes)) * 8, 8)
        });
        host.run_one(Operation::Flush, 0, 0);
        let counters = host.drive.counters();
        counters.rest_bytes_programmed as f64 / counters.host_bytes_written as f64
    };
    assert_eq!(rest(None, false), 3.0);
    assert_eq!(rest(Some(1 << 20), true), 0.0);
    // Some find their unit in the cache.
    let random = rest(Some(1 << 20), false);
    assert!(random > 2.0 && random < 3.0, "{random}");
}
