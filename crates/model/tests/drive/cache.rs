//! The cache and its DRAM in numbers: who waits for the DRAM, what is read from the cache, who
//! is kept from whom, and what a power cut takes.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::stats::{Holder, Resource};
use mynah_stamp::{Span, Stage};

fn cached(change: impl FnOnce(&mut DataCache)) -> Config {
    let mut write_cache = cache();
    change(&mut write_cache);
    small_with(|c| c.cache = Some(write_cache))
}

#[test]
fn a_wait_for_the_dram_is_the_stage_and_the_blame_of_whoever_has_it() {
    let config = cached(|cache| {
        cache.write_back = WriteBack::Lru { high: 0.9 };
        // 80 MB/s: 64 KiB take 819.2 us, 4 KiB 51.2 us.
        (cache.dram.width_bytes, cache.dram.rate_mts) = (8, 10);
        (cache.dram.t_rcd, cache.dram.t_cl, cache.dram.t_rp) = Default::default();
    });
    let mut host = Host::new(config);
    host.create(memory_queue(2));
    host.run_one(Operation::Write, 0, 8);
    let write = host.request(Operation::Write, 1024, 128);
    host.submit(QueueId(2), write);
    // The write has its data in 20 us, and the DRAM until 840 us.
    host.advance_to(host.now() + Span::from_us(100));
    host.send(Operation::Read, 0, 8);
    let done = host.finish();
    let read = done.iter().find(|done| done.queue == QUEUE).expect("a read");
    let waited = read.stages.get(Stage::Cache) - Span::from_ns(51_200);
    assert!(waited > Span::from_us(700), "{waited}");
    let rows = host.drive.blame();
    let row = rows.iter().find(|row| row.victim == FlowId(0) && row.resource == Resource::Dram);
    let row = row.expect("somebody is blamed");
    assert_eq!((row.holder, row.wait), (Holder::Flow(FlowId(1)), waited));
    // 4 KiB twice and 64 KiB.
    assert_eq!(host.drive.counters().dram_busy, Span::from_ns(51_200 * 18));
}

/// The share of rows found open, and the mean latency of cached reads in us: of 64 units, in
/// order or strewn.
fn reads_of_open_rows(rows: RowPolicy, strewn: bool) -> (f64, f64) {
    let config = cached(|cache| {
        cache.write_back = WriteBack::Lru { high: 0.9 };
        cache.dram.rows = rows;
        cache.dram.t_rcd = Span::from_us(2);
    });
    let mut host = Host::new(config);
    for n in 0..64 {
        host.run_one(Operation::Write, n * 8, 8);
    }
    host.drive.restart_counters();
    let mut sum = Span::ZERO;
    for n in 0..64 {
        let unit = if strewn { n * 37 % 64 } else { n };
        let done = host.run_one(Operation::Read, unit * 8, 8);
        sum += done.at.since(done.rung);
    }
    let counters = host.drive.counters();
    let hits = counters.dram_row_hits as f64 / counters.dram_rows.max(1) as f64;
    (hits, sum.as_ps() as f64 / 64e6)
}

#[test]
fn neighbours_find_their_row_open_and_strewn_units_do_not() {
    let open = RowPolicy::Open { banks: 1 };
    let (hits, in_order) = reads_of_open_rows(open, false);
    // Two units lie in a row of 8 KiB.
    assert_close("rows hit in order", hits, 0.5, 0.01);
    let (hits, strewn) = reads_of_open_rows(open, true);
    assert!(hits < 0.05, "{hits}");
    let (none, closed) = reads_of_open_rows(RowPolicy::Closed, false);
    assert_eq!(none, 0.0);
    // Every other access saves the activation of 2 us.
    assert_close("what open rows save, us", closed - in_order, 1.0, 0.02);
    assert!(strewn > closed, "a conflict costs a precharge more: {strewn} and {closed}");
}

fn reading(mode: CacheMode, units: u64) -> Config {
    cached(|cache| {
        cache.mode = mode;
        cache.bytes = units * 4096;
    })
}

/// The share of hits among the last 4,000 of 8,000 random reads of `set` units, and their mean
/// latency in us.
fn read_hits(config: Config, set: u64) -> (f64, f64) {
    let mut host = Host::new(config);
    fill(&mut host);
    let mut random = Random(11);
    let mut read = |_| (Operation::Read, random.below(set) * 8, 8);
    host.closed_loop(4, 4000, &mut read);
    host.drive.restart_counters();
    let done = host.closed_loop(4, 4000, &mut read);
    let sum: Span = done.iter().map(|done| done.at.since(done.rung)).sum();
    let counters = host.drive.counters();
    host.drive.check().expect("the invariants hold");
    assert_eq!(counters.cache_lookups > 0, host.drive.config().cache.unwrap().mode.reads());
    let hits = counters.cache_hits as f64 / counters.cache_lookups.max(1) as f64;
    (hits, sum.as_ps() as f64 / 4e9)
}

#[test]
fn uniform_reads_hit_as_often_as_the_cache_is_large() {
    // LRU under uniform reads: the share of the set that fits.
    for mode in [CacheMode::Read, CacheMode::Both] {
        let (hits, _) = read_hits(reading(mode, 256), 512);
        assert_close("hits", hits, 0.5, 0.05);
        let (hits, cached) = read_hits(reading(mode, 256), 200);
        assert_eq!(hits, 1.0, "all of it fits");
        let (_, uncached) = read_hits(reading(CacheMode::Write, 256), 200);
        // 4 KiB cross the DRAM in 347 ns and the link in 1.2 us; a lone flash read is 57 us.
        assert!(cached < 6.0 && uncached > 60.0, "{cached} and {uncached} us");
    }
}

#[test]
fn the_least_recently_used_leaves_first() {
    let mut host = Host::new(reading(CacheMode::Read, 16));
    fill(&mut host);
    let hit = |host: &mut Host, unit: u64| {
        let before = host.drive.counters().cache_hits;
        host.run_one(Operation::Read, unit * 8, 8);
        host.drive.counters().cache_hits > before
    };
    for unit in 0..16 {
        assert!(!hit(&mut host, unit * 2));
    }
    // Used again, it stays; the next to leave is unit 2.
    assert!(hit(&mut host, 0));
    assert!(!hit(&mut host, 100));
    assert!(hit(&mut host, 0));
    assert!(!hit(&mut host, 2));
    // Part of a unit is not the whole.
    host.run_one(Operation::Read, 200 * 8, 2);
    assert!(!hit(&mut host, 200));
    assert!(hit(&mut host, 200));
}

#[test]
fn what_is_clean_goes_with_trims_overwrites_and_errors() {
    for mode in [CacheMode::Read, CacheMode::Both] {
        let mut host = Host::new(reading(mode, 256));
        fill(&mut host);
        let hit = |host: &mut Host, unit: u64| {
            let before = host.drive.counters().cache_hits;
            let done = host.run_one(Operation::Read, unit * 8, 8);
            assert_eq!(done.status, Status::Success);
            host.drive.check().expect("the invariants hold");
            host.drive.counters().cache_hits > before
        };
        assert!(!hit(&mut host, 8) && hit(&mut host, 8));
        host.run_one(Operation::Trim, 64, 8);
        assert!(!hit(&mut host, 8), "trimmed data are not read from the cache");
        // A write replaces it: in the cache where that takes writes, on flash where not.
        assert!(!hit(&mut host, 16) && hit(&mut host, 16));
        host.run_one(Operation::Write, 16 * 8, 8);
        assert_eq!(hit(&mut host, 16), mode == CacheMode::Both);
        host.control(Control::WriteBack);
        host.finish();
        assert!(hit(&mut host, 16), "what was written stays, or was read again");
    }
    // A read that ends in an error leaves nothing.
    let extent = FaultExtent::Units { namespace: 1, first: 3, last: 3 };
    let mut config = reading(CacheMode::Both, 256);
    config.faults = vec![Fault::Media { operation: MediaOperation::Read, extent }];
    let mut host = Host::new(config);
    fill(&mut host);
    for _ in 0..3 {
        let done = host.run_one(Operation::Read, 24, 8);
        assert_eq!(done.status, Status::UnrecoveredReadError);
    }
    assert_eq!(host.drive.counters().cache_hits, 0);
}

#[test]
fn a_read_that_began_before_an_overwrite_does_not_fill_the_cache() {
    let mut host = Host::new(reading(CacheMode::Read, 256));
    fill(&mut host);
    // The write's program waits behind the read on the same die; both are under way.
    host.send(Operation::Read, 0, 8);
    host.send(Operation::Write, 0, 16);
    host.finish();
    let before = host.drive.counters().cache_hits;
    host.run_one(Operation::Read, 0, 8);
    assert_eq!(host.drive.counters().cache_hits, before, "an old copy was read");
    host.drive.check().expect("the invariants hold");
}

#[test]
fn a_partition_protects_a_light_flow_from_a_heavy_one() {
    let run = |sharing, apart: bool| {
        crate::knobs::light_writes(
            small_with(|c| {
                c.cache = Some(DataCache { bytes: 128 << 10, sharing, ..cache() });
                if apart {
                    c.namespaces = vec![Namespace::whole_drive(), Namespace::whole_drive()];
                }
            }),
            apart,
        ) / 1e6
    };
    let shared = run(CacheSharing::Shared, false);
    let by_flow = run(CacheSharing::PerFlow, false);
    let by_namespace = run(CacheSharing::PerNamespace, true);
    // 8 KiB over the link and into the DRAM take 4 us; the heavy flow fills the cache faster
    // than the flash empties it.
    println!(
        "writes of the light flow: shared {shared} us, per flow {by_flow} us, per namespace {by_namespace} us"
    );
    assert!(shared > 1000.0, "{shared}");
    assert!(by_flow < 20.0 && by_namespace < 20.0, "{by_flow} {by_namespace}");
}

#[test]
fn partitions_shrink_when_flows_come() {
    let mut host = Host::new(cached(|cache| {
        cache.bytes = 128 << 10;
        cache.sharing = CacheSharing::PerFlow;
        cache.write_back = WriteBack::Lru { high: 0.99 };
        cache.mode = CacheMode::Both;
    }));
    // Flow 0 has all 32 units, until flow 3 comes.
    host.closed_loop(8, 100, |n| (Operation::Write, n as u64 % 31 * 8, 8));
    assert_eq!(host.drive.counters().flash_programs, 0);
    host.create(memory_queue(4));
    for n in 0..20 {
        let request = host.request(Operation::Write, 4096 + n * 8, 8);
        host.submit(QueueId(4), request);
    }
    assert_eq!(host.finish().len(), 20, "they find room");
    host.drive.check().expect("the invariants hold");
    // Each has a quarter: 8 units.
    host.closed_loop(8, 100, |n| (Operation::Write, n as u64 % 31 * 8, 8));
    assert!(host.drive.counters().flash_programs > 20);
}

/// Writes 24 units, all acknowledged, waits for a moment and cuts the power; which units are
/// lost, and the latencies of a flush and of a write with Force Unit Access before, in us.
fn cut(protected: bool, write_back: WriteBack) -> (usize, f64, f64) {
    let mut host = Host::new(cached(|cache| {
        cache.power_loss_protection = protected;
        cache.write_back = write_back;
    }));
    let us = |done: Completion| done.at.since(done.rung).as_ps() as f64 / 1e6;
    host.run_one(Operation::Write, 8000, 8);
    let flush = us(host.run_one(Operation::Flush, 0, 0));
    let through = us(host.run_one(Operation::WriteThrough, 8000, 8));
    host.closed_loop(8, 24, |n| (Operation::Write, n as u64 * 8, 8));
    host.advance_to(host.now() + Span::from_us(100));
    host.control(Control::PowerCut);
    host.forget();
    let lost = host.drive.take_lost_units().len();
    host.drive.check().expect("the invariants hold");
    for unit in 0..24 {
        assert!(!protected || host.drive.holds_data(NAMESPACE, unit), "unit {unit}");
    }
    // What was kept goes to flash when the drive is asked for it, and is the same again.
    host.create(memory_queue(1));
    host.control(Control::WriteBack);
    host.finish();
    host.drive.check().expect("the invariants hold");
    host.drive.check_quiet().expect("nothing is left");
    (lost, flush, through)
}

#[test]
fn protection_keeps_what_was_acknowledged_and_flushes_wait_for_nothing() {
    for write_back in [WriteBack::Eager, WriteBack::Lru { high: 0.9 }] {
        let (lost, flush, through) = cut(false, write_back);
        assert_eq!(lost, 24);
        assert!(flush > 500.0 && through > 500.0, "a program takes 500 us: {flush}, {through}");
        let (lost, flush, through) = cut(true, write_back);
        assert_eq!(lost, 0);
        // The commands cross the link, and 4 KiB the DRAM.
        assert!(flush < 1.0 && through < 5.0, "{flush} {through}");
    }
}

#[test]
fn a_power_cut_tells_what_was_written_from_what_was_dirty_before() {
    use mynah_model::warm::Access;
    let mut host = Host::new(cached(|cache| {
        cache.bytes = 1 << 20;
        cache.write_back = WriteBack::Lru { high: 0.9 };
    }));
    fill(&mut host);
    let access = |unit: u64| Access {
        placement: Default::default(),
        flow: FlowId(0),
        namespace: NAMESPACE,
        operation: Operation::Write,
        sector: unit * 8,
        sectors: 8,
        saturated: false,
    };
    host.drive.warm_cache((0..300).map(access)).expect("a fresh drive");
    // A dozen that are in the cache, twice each, and a dozen that are not.
    host.closed_loop(4, 36, |n| {
        (Operation::Write, if n < 24 { 280 + n % 12 } else { 976 + n } as u64 * 8, 8)
    });
    host.control(Control::PowerCut);
    let counters = host.drive.counters();
    assert_eq!(counters.units_lost_written, 24);
    assert!((200..=254).contains(&counters.units_lost), "{}", counters.units_lost);
}

#[test]
fn a_unit_that_is_rewritten_while_it_is_programmed_is_lost_once() {
    let mut host = Host::new(cached(|_| ()));
    let units = u64::from(host.drive.config().geometry.page_bytes / 4096);
    let planes = u64::from(host.drive.config().geometry.planes());
    // A page of every plane, all of which are being programmed.
    let count = units * planes;
    host.closed_loop(8, count as usize, |n| (Operation::Write, n as u64 * 8, 8));
    host.advance_to(host.now() + Span::from_us(200));
    host.closed_loop(8, count as usize, |n| (Operation::Write, n as u64 * 8, 8));
    assert_eq!(host.drive.counters().cache_hits, count, "they were still on their way");
    host.control(Control::PowerCut);
    let counters = host.drive.counters();
    assert_eq!((counters.units_lost, counters.units_lost_written), (count, count));
}

/// 70 % reads, nine of ten accesses to a tenth of 2,000 units.
fn skewed(seed: u64) -> impl FnMut(usize) -> (Operation, u64, u32) {
    let mut random = Random(seed);
    move |_| {
        let read = random.chance(0.7);
        let within = if random.chance(0.9) { 200 } else { 2000 };
        let unit = random.below(within);
        (if read { Operation::Read } else { Operation::Write }, unit * 8, 8)
    }
}

#[test]
fn a_warmed_cache_is_as_if_it_had_been_used() {
    use mynah_model::warm::Access;
    let config = |sharing| {
        cached(|cache| {
            cache.mode = CacheMode::Both;
            cache.sharing = sharing;
            cache.bytes = 1200 << 10;
            cache.write_back = WriteBack::Lru { high: 0.5 };
        })
    };
    // Hits, flash programs and mean latency of what comes first.
    let first = |host: &mut Host| {
        host.drive.restart_counters();
        let done = host.closed_loop(4, 1500, skewed(5));
        host.drive.check().expect("the invariants hold");
        let counters = host.drive.counters();
        let sum: f64 = done.iter().map(|done| done.at.since(done.rung).as_ps() as f64).sum();
        let hits = counters.cache_hits as f64 / counters.cache_lookups as f64;
        [hits, counters.flash_programs as f64, sum / 1500.0]
    };
    for sharing in [CacheSharing::Shared, CacheSharing::PerFlow] {
        let of_all = |start: &dyn Fn(u64, &mut Host)| {
            (0..6).fold([0.0; 3], |sum, seed| {
                let mut host = Host::new(config(sharing));
                fill(&mut host);
                start(seed, &mut host);
                let found = first(&mut host);
                [0, 1, 2].map(|at| sum[at] + found[at] / 6.0)
            })
        };
        let [cold, ..] = of_all(&|_, _| ());
        let [hits, programs, latency] = of_all(&|seed, host| {
            host.closed_loop(4, 6000, skewed(10 + seed));
        });
        let [warm, warm_programs, warm_latency] = of_all(&|seed, host| {
            let mut past = skewed(20 + seed);
            let history = (0..20_000).map(|n| {
                let (operation, sector, sectors) = past(n);
                let (flow, namespace) = (FlowId(0), NAMESPACE);
                Access {
                    placement: Default::default(),
                    flow,
                    namespace,
                    operation,
                    sector,
                    sectors,
                    saturated: false,
                }
            });
            let taken = host.drive.warm_cache(history).expect("a fresh drive");
            assert!(taken < 20_000, "the cache is full before");
            host.drive.check().expect("the invariants hold");
        });
        println!(
            "hits: cold {cold:.3}, used {hits:.3}, warmed {warm:.3}; programs {programs:.0}, \
             {warm_programs:.0}; us {:.1}, {:.1}",
            latency / 1e6,
            warm_latency / 1e6
        );
        assert_close("hits", warm, hits, 0.02);
        assert_close("programs", warm_programs, programs, 0.2);
        assert_close("latency", warm_latency, latency, 0.1);
        assert!(cold < 0.93 * hits, "{cold}");
    }
    let mut used = Host::new(config(CacheSharing::Shared));
    used.run_one(Operation::Write, 0, 8);
    assert!(used.drive.warm_cache([]).is_err(), "it has been used");
}

#[test]
fn saturated_writers_find_a_warmed_cache_full() {
    use mynah_model::warm::Access;
    let mut host = Host::new(cached(|cache| cache.bytes = 1 << 20));
    fill(&mut host);
    let mut random = Random(9);
    let mut access = |_| Access {
        placement: Default::default(),
        flow: FlowId(0),
        namespace: NAMESPACE,
        operation: Operation::Write,
        sector: random.below(2000) * 8,
        sectors: 8,
        saturated: true,
    };
    host.drive.warm_cache((0..10_000).map(&mut access)).expect("a fresh drive");
    assert_eq!(host.drive.gauges().cached_units, 256);
    host.drive.check().expect("the invariants hold");
    // All of it goes to flash by itself, but for pages that are not full.
    host.finish();
    assert!(host.drive.gauges().cached_units < 16);
    host.control(Control::WriteBack);
    host.finish();
    host.drive.check_quiet().expect("nothing is left");
}

#[test]
fn warming_keeps_no_reads_of_namespaces_that_have_none() {
    use mynah_model::precondition::{Occupancy, Order, UpdateClass};
    use mynah_model::warm::Access;
    let mut config = cached(|cache| {
        cache.mode = CacheMode::Both;
        cache.bytes = 1 << 20;
        cache.write_back = WriteBack::Lru { high: 0.1 };
    });
    let writes = Caching::Only(Some(CacheMode::Write));
    config.namespaces =
        vec![Namespace::whole_drive(), Namespace { caching: writes, ..Namespace::whole_drive() }];
    let mut host = Host::new(config);
    let class = UpdateClass {
        placement: Default::default(),
        first: 0,
        units: 2000,
        weight: 1.0,
        order: Order::UNIFORM,
        write_share: 0.5,
        saturated: false,
        units_per_s: 0.0,
        together: 1,
        trims_per_write: 0.0,
    };
    let both = [1, 2].map(|id| Occupancy { namespace: NamespaceId(id), classes: vec![class] });
    host.drive.fill(&both).expect("a fresh drive");
    let mut random = Random(9);
    let history: Vec<Access> = (0..10_000)
        .map(|n| Access {
            placement: Default::default(),
            flow: FlowId(0),
            namespace: NamespaceId(1 + n % 2),
            operation: Operation::Write,
            sector: random.below(2000) * 8,
            sectors: 8,
            saturated: false,
        })
        .collect();
    host.drive.warm_cache(history).expect("a fresh drive");
    // Including that nothing clean is of the second.
    host.drive.check().expect("the invariants hold");
}

/// A write that has to be on flash, beside others that need not: somebody is blamed for all of its wait
/// for dies and channels.
#[test]
fn a_write_through_blames_whom_it_waits_for() {
    for write_back in [WriteBack::Eager, WriteBack::Lru { high: 0.9 }] {
        writes_through_blame_whom_they_wait_for(write_back);
    }
}

fn writes_through_blame_whom_they_wait_for(write_back: WriteBack) {
    let mut host = Host::new(cached(|cache| {
        (cache.power_loss_protection, cache.write_back) = (false, write_back);
    }));
    host.create(memory_queue(2));
    let unit = u64::from(host.drive.config().mapping.unit_bytes) / 512;
    let mut waited = Span::ZERO;
    for n in 0..40 {
        for at in 0..16 {
            let request = host.request(Operation::Write, (1000 + n * 16 + at) * unit, unit as u32);
            host.submit(QueueId(2), request);
        }
        host.send(Operation::WriteThrough, n * unit, unit as u32);
        for done in host.finish().iter().filter(|done| done.queue == QUEUE) {
            waited += done.stages.get(Stage::DieWait) + done.stages.get(Stage::ChannelWait);
        }
    }
    let rows = host.drive.blame();
    let flash = [Resource::Die, Resource::Channel, Resource::FreeBlock];
    let mine = rows.iter().filter(|row| row.victim == FlowId(0) && flash.contains(&row.resource));
    let blamed: Span = mine.map(|row| row.wait).sum();
    assert!(waited > Span::from_ms(1), "{waited}");
    assert_eq!(blamed, waited);
}
