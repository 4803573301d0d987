//! A warmed write cache of units that are larger than the writes: what partly written units lack
//! has long been read when the first command comes, so that the first moment is like all others.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::precondition::Occupancy;
use mynah_model::warm::Access;
use mynah_stamp::{Span, Time};

/// 32 planes with pages and units of `unit` bytes, whose cache holds `cached` units.
fn config(unit: u32, cached: u64, table: MappingTable) -> Config {
    small_with(|c| {
        c.geometry = Geometry {
            channels: 4,
            chips_per_channel: 4,
            dies_per_chip: 1,
            planes_per_die: 2,
            blocks_per_plane: 64,
            pages_per_block: 64,
            page_bytes: unit,
            page_spare_bytes: 0,
        };
        c.mapping.unit_bytes = unit;
        c.mapping.table = table;
        c.gc.paced = true;
        c.cache = Some(DataCache { bytes: cached * u64::from(unit), ..cache() });
    })
}

/// Writes of `write` sectors at random, `depth` at a time, to a drive at rest: how many complete in
/// the first 50 ms, over the mean of as long from 200 ms on.
fn first_over_later(config: Config, depth: usize, write: u32) -> f64 {
    let mut host = Host::new(config);
    let sectors = host.drive.namespace_sectors(NAMESPACE).expect("a namespace");
    let unit_sectors = u64::from(host.drive.config().mapping.unit_bytes / 512);
    let classes = vec![written_class(0, sectors / unit_sectors, 1.0)];
    host.drive.precondition(&[Occupancy { namespace: NAMESPACE, classes }]).expect("a fresh drive");
    let mut random = Random(5);
    let mut sector = move || random.below(sectors / u64::from(write)) * u64::from(write);
    let history = (0..200_000).map(|_| Access {
        placement: Default::default(),
        flow: FlowId(0),
        namespace: NAMESPACE,
        operation: Operation::Write,
        sector: sector(),
        sectors: write,
        saturated: true,
    });
    host.drive.warm_cache(history).expect("a fresh drive");
    host.drive.check().expect("the invariants hold");
    let (mut first, mut later) = (0, 0);
    let ms = |ms| Time::ZERO + Span::from_ms(ms);
    let mut random = Random(6);
    loop {
        while host.outstanding < depth {
            let at = random.below(sectors / u64::from(write)) * u64::from(write);
            host.send(Operation::Write, at, write);
        }
        let done = host.next().expect("writes go on");
        first += u32::from(done.at < ms(50));
        later += u32::from(done.at >= ms(200));
        if done.at >= ms(800) {
            host.drive.check().expect("the invariants hold");
            return f64::from(first) / (f64::from(later) / 12.0);
        }
    }
}

#[test]
fn the_first_writes_to_a_warm_cache_of_partial_units_take_no_longer() {
    let cached_entries = MappingTable::Cached(cached_table(8192));
    for (unit, cached, depth, table) in [
        (8192, 1024, 1, MappingTable::Ideal),
        (8192, 16_384, 32, MappingTable::Ideal),
        (16_384, 1024, 32, MappingTable::Ideal),
        (16_384, 16_384, 1, MappingTable::Ideal),
        (8192, 16_384, 32, cached_entries),
    ] {
        // What the first moment has of collections, it has of them with whole units, too.
        let [whole, part] = [unit / 512, 8]
            .map(|write| first_over_later(config(unit, cached, table), depth, write));
        assert!(
            (0.8..1.25).contains(&(part / whole)) && part > 0.6,
            "unit {unit}, cache of {cached}, QD {depth}: in the first 50 ms {part:.3} of what is \
             written in as long later; {whole:.3} where whole units are"
        );
    }
}
