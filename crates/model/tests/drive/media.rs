//! Kinds of memory: the page types of four and five bits in a cell, and memory that is
//! overwritten in place.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Stage};

/// How long the array takes for each page of one block.
fn array_times(cell: CellType) -> Vec<u64> {
    let config = small_with(|c| {
        c.geometry.channels = 1;
        c.geometry.chips_per_channel = 1;
        c.geometry.planes_per_die = 1;
        c.geometry.blocks_per_plane = 64;
        c.geometry.pages_per_block = 20;
        c.flash.cell = cell;
        c.flash.read = PageTimes {
            fourth: Span::from_us(80),
            fifth: Span::from_us(90),
            ..page_times(50, 60, 70)
        };
    });
    let mut host = Host::new(config);
    fill(&mut host);
    let read = |host: &mut Host, page: u64| {
        let done = host.run_one(Operation::Read, page * 16, 8);
        done.stages.get(Stage::FlashArray).as_ps() / 1_000_000
    };
    (0..20).map(|page| read(&mut host, page)).collect()
}

#[test]
fn word_lines_of_four_and_five_pages() {
    assert_eq!(array_times(CellType::Qlc), [50, 60, 70, 80].repeat(5));
    assert_eq!(array_times(CellType::Plc), [50, 60, 70, 80, 90].repeat(4));
}

fn in_place() -> Config {
    small_with(|c| {
        c.flash.rewritable = true;
        c.flash.read = page_times(1, 1, 1);
        c.flash.program = page_times(2, 2, 2);
        c.geometry.page_bytes = 4096;
        c.over_provisioning = 0.0;
    })
}

#[test]
fn what_is_overwritten_in_place_is_never_collected() {
    let mut host = Host::new(in_place());
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let raw = in_place().geometry.raw_bytes() / 4096;
    assert_eq!(units, raw, "all of it is the host's");
    let mut random = Random(11);
    let count = 4 * units as usize;
    host.closed_loop(16, count, |_| (Operation::Write, random.below(units) * 8, 8));
    host.drive.check().expect("the invariants hold");
    let counters = host.drive.counters();
    assert_eq!((counters.erases, counters.gc_runs, counters.gc_reads), (0, 0, 0));
    assert_eq!(counters.write_amplification(), Some(1.0));
}

#[test]
fn a_small_write_moves_what_it_changes() {
    let mut host = Host::new(in_place());
    fill(&mut host);
    let mut write = |sectors| {
        let done = host.run_one(Operation::Write, 8, sectors);
        (done.stages.get(Stage::FlashCommand), done.stages.get(Stage::FlashArray))
    };
    let (small, array) = write(1);
    let (whole, _) = write(8);
    assert_eq!(array, Span::from_us(2));
    // 512 B and 4 KiB at 800 MT/s; the command is the same.
    assert_eq!(whole - small, Span::from_ns((4096 - 512) * 10 / 8));
    assert_eq!(host.drive.counters().merge_reads, 0);
}

#[test]
fn what_cannot_be_in_place_is_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = in_place();
        change(&mut config);
        config.check().expect_err("refused").key
    };
    assert_eq!(refused(|c| c.mapping.unit_bytes = 2048), "mapping.unit");
    assert_eq!(
        refused(|c| c.mapping.table = MappingTable::Cached(cached_table(8192))),
        "mapping.table"
    );
    assert_eq!(refused(|c| c.gc.idle_after = Some(Span::from_us(1))), "gc.idle_after");
    assert_eq!(refused(|c| c.flash.one_shot = true), "flash.one_shot");
}
