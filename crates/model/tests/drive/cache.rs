//! The cache and its DRAM in numbers: who waits for the DRAM.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::stats::{Holder, Resource};
use mynah_stamp::{Span, Stage};

fn cached(change: impl FnOnce(&mut WriteCache)) -> Config {
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
