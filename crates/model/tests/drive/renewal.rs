//! A drive that begins anew in the middle of its work goes on as it would have.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::testing::{cache, cached_table};
use mynah_stamp::{Span, Time};

/// Two dies of two planes; pages that are mapping units; few spare blocks.
fn config(change: impl FnOnce(&mut Config)) -> Config {
    small_with(|c| {
        c.geometry = Geometry {
            channels: 2,
            chips_per_channel: 1,
            planes_per_die: 2,
            blocks_per_plane: 64,
            pages_per_block: 16,
            page_bytes: 4096,
            ..c.geometry
        };
        (c.gc.start, c.gc.urgent) = (0.06, 0.04);
        c.over_provisioning = 0.25;
        change(c);
    })
}

/// Write amplification of random writes over a drive that has been written over and over, which
/// begins anew after every so many of them.
fn amplification(config: Config, every: Option<usize>) -> f64 {
    let mut host = Host::new(config);
    fill(&mut host);
    let unit_sectors = u64::from(host.drive.config().mapping.unit_bytes / 512);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / unit_sectors;
    let mut random = Random(5);
    let mut write = move || (Operation::Write, random.below(units) * unit_sectors, unit_sectors);
    let request = |(operation, sector, sectors): (_, u64, u64)| (operation, sector, sectors as u32);
    host.closed_loop(8, units as usize * 4, |_| request(write()));
    let (mut programmed, mut written, mut left) = (0, 0, units as usize * 6);
    while left > 0 {
        let part = every.unwrap_or(left).min(left);
        host.drive.restart_counters();
        host.closed_loop(8, part, |_| request(write()));
        left -= part;
        let counters = host.drive.counters();
        programmed += counters.flash_units_programmed;
        written += counters.host_units_written;
        if every.is_some() {
            // Commands, programs and collections are under way.
            for _ in 0..8 {
                let (operation, sector, sectors) = write();
                host.send(operation, sector, sectors as u32);
            }
            let later = host.now() + Span::from_us(700);
            host.advance_to(later);
            host.drive.begin_anew(vec![]);
            host.drive.check().expect("the invariants hold");
            assert_eq!(host.now(), Time::ZERO);
            assert_eq!(host.drive.counters().commands, 0);
            assert!(host.drive.take_lost_units().is_empty());
            host.forget();
            host.create(memory_queue(1));
        }
    }
    host.finish();
    host.drive.check().expect("the invariants hold");
    programmed as f64 / written as f64
}

#[test]
fn a_drive_that_begins_anew_amplifies_as_before() {
    type Change = fn(&mut Config);
    let drives: [(&str, Change); 8] = [
        ("plain", |_| ()),
        ("paced", |c| c.gc.paced = true),
        ("exclusive", |c| c.gc.preemptible = false),
        ("one frontier", |c| c.gc.frontiers = WriteFrontiers::One),
        ("cached, least loaded, paced", |c| {
            c.cache = Some(DataCache { bytes: 256 << 10, ..cache() });
            c.placement = Placement::LeastLoaded;
            c.gc.paced = true;
        }),
        ("four units a page, cached, least loaded", |c| {
            c.geometry.page_bytes = 16384;
            c.cache = Some(DataCache { bytes: 256 << 10, ..cache() });
            c.placement = Placement::LeastLoaded;
        }),
        ("cached table", |c| {
            c.mapping.table = MappingTable::Cached(cached_table(4 << 10));
        }),
        ("superblocks", |c| c.gc.unit = CollectionUnit::Superblock),
    ];
    for (name, change) in drives {
        let whole = amplification(config(change), None);
        let parts = amplification(config(change), Some(600));
        println!("{name}: {whole:.3} in one go, {parts:.3} in parts");
        assert!((parts / whole - 1.0).abs() < 0.08, "{name}: {whole:.3} and {parts:.3}");
    }
}
