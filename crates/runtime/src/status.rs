//! A line an interval about what goes on.

use crate::engine::{Snapshot, SnapshotSink};
use crate::hub::{Stall, waiting};
use mynah_result::figures::{bandwidth, bytes, count, duration};
use mynah_result::histogram::Histogram;
use mynah_stamp::{Span, Time};
use std::fmt::Write;
use std::io;

/// Turns snapshots at the ends of intervals into lines for `print`, on a thread of its own:
/// the engine hands them over and goes on. Lines are left out if `print` is that slow. They begin
/// with `prefix`.
pub fn lines(
    prefix: String,
    mut print: impl FnMut(&str) + Send + 'static,
) -> io::Result<SnapshotSink> {
    let (sender, receiver) = crossbeam_channel::bounded::<Snapshot>(4);
    std::thread::Builder::new().name("mynah-status".to_owned()).spawn(move || {
        let mut before = None;
        for snapshot in receiver {
            print(&format!("{prefix}{}", line(before.as_ref(), &snapshot)));
            before = Some(snapshot);
        }
    })?;
    Ok(Box::new(move |snapshot| drop(sender.try_send(snapshot))))
}

/// What happened between two snapshots.
fn line(before: Option<&Snapshot>, now: &Snapshot) -> String {
    let since = before.map_or(Time::ZERO, |before| before.now.wall);
    let seconds = now.now.wall.saturating_since(since).as_secs_f64().max(1e-9);
    let totals = before.map(|before| before.totals).unwrap_or_default();
    let per_second = |now: u64, before: u64| (now - before) as f64 / seconds;
    let mut line = format!("{:>7.1}s", now.now.wall.as_secs_f64());
    let mut add = |text: std::fmt::Arguments<'_>| {
        line.write_fmt(text).expect("a string takes everything");
    };
    let stop = now.stall.filter(Stall::is_stop);
    if let Some(Stall { lasts, commands, .. }) = stop {
        add(format_args!("  STOPPED for {:.1}s: {}", lasts.as_secs_f64(), waiting(commands)));
    }
    let rates = [
        (
            "read",
            per_second(now.totals.reads, totals.reads),
            per_second(now.totals.read_bytes, totals.read_bytes),
        ),
        (
            "write",
            per_second(now.totals.writes, totals.writes),
            per_second(now.totals.written_bytes, totals.written_bytes),
        ),
    ];
    for (name, ios, bytes) in rates.into_iter().filter(|_| stop.is_none()) {
        if ios > 0.0 {
            let bandwidth = bandwidth(bytes);
            let bandwidth = bandwidth.split(' ').next().unwrap_or_default();
            add(format_args!("  {name} {} IOPS {bandwidth}", count(ios)));
        } else {
            add(format_args!("  {name} 0"));
        }
    }
    let percentile = |of: &Histogram, p: f64| of.percentile(p).map(Span::as_ns_f64);
    if let Some((latency, late)) = &now.interval {
        if let (Some(p50), Some(p99)) = (percentile(latency, 50.0), percentile(latency, 99.0)) {
            add(format_args!("  lat p50 {} p99 {}", duration(p50), duration(p99)));
        }
        if let Some(p99) = percentile(late, 99.0) {
            add(format_args!("  late p99 {}", duration(p99)));
        }
    }
    let counters = |of: fn(&Snapshot) -> u64| of(now) - before.map_or(0, of);
    let programmed = counters(|it| it.counters.flash_bytes_programmed());
    let written = counters(|it| it.counters.host_bytes_written);
    if written > 0 {
        add(format_args!("  WAF {:.2}", programmed as f64 / written as f64));
    }
    let collected = counters(|it| it.counters.gc_runs);
    if collected > 0 {
        add(format_args!("  GC {collected} blocks"));
    }
    let failed = now.totals.failed - totals.failed;
    if failed > 0 {
        add(format_args!("  {failed} failed"));
    }
    let moved = now.totals.read_bytes + now.totals.written_bytes;
    add(format_args!("  {} connections, {} in all", now.connections, bytes(moved as f64)));
    line
}
