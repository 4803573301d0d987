//! The write cache: how much it takes before writes wait for the flash, and whether reads see it.
//!
//! After a rest, writes in order are taken at the pace of the link or the cache until it is full, then at
//! the flash's. Meanwhile the flash has taken some as well: the cache held the rest (uFLIP, Bouganim,
//! Jonsson and Bonnet, CIDR 2009, and the write buffer of SSDcheck, Kim et al., MICRO 2018).

use super::Known;
use super::reads::SMALL;
use crate::finding::{Findings, Picture, Value};
use crate::probe::{Ask, Ended, Probe, Taken};
use crate::stats::{self, Knee};
use crate::subject::Op;

/// A write.
const WRITE: u64 = 64 << 10;
/// Writes outstanding.
const DEPTH: usize = 8;
/// The share of the drive that a burst writes at most.
const SHARE: u64 = 8;
/// The most that is written in search of a cliff.
const MOST: u64 = 2 << 30;
/// Bursts after the first one, which must end in the same cliff: a cache is empty again after a rest,
/// while blocks that were free, or served as SLC, are not.
const AGAIN: usize = 2;
/// How far their cliffs may be apart.
const AGREED: f64 = 0.15;
/// A rest, us: shorter than the idle time after which drives fold their SLC cache (5 s, by default).
const REST: f64 = 2e6;
/// How much faster writes are before the cache is full, at least: else the flash has taken so much
/// meanwhile that little can be said of the rest.
const FALL: f64 = 3.0;

/// What is written to see whether it stays in the cache.
const KEPT: u64 = 2 << 20;
/// A flush that empties it takes so much longer than one of nothing, us.
const WAITS: f64 = 30.0;
/// A read of the cache takes no longer than one of nothing, but for this, us.
const QUICK: f64 = 2.0;

pub(super) const SIZE: (&str, &str) = ("cache.size", "what the write cache holds");
const SEEN: (&str, &str) =
    ("cache.reads_hit", "whether reads see what was just written in the cache");
const LATENCY: (&str, &str) = ("write_latency", "latency of a 4 KiB write at queue depth 1");

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    single(probe, known, findings)?;
    if known.empty.is_some() {
        // Nothing has to be collected then.
        let all = probe.bytes();
        probe.alone(Ask { op: Op::Trim, offset: 0, bytes: all })?;
    }
    let most = MOST.min(probe.bytes() / SHARE / WRITE * WRITE);
    let first = burst(probe, most)?;
    let Some(cliff) = stats::first_fall(&first, FALL) else {
        let because = format!(
            "{} were written without a fall in pace: there is none, or the flash is as fast",
            Value::Bytes(most)
        );
        findings.cannot(SIZE, because);
        return Ok(());
    };
    let enough = ((3.0 * cliff.at.1) as u64 / WRITE * WRITE).clamp(32 * WRITE, most);
    let mut all = Vec::new();
    let mut shown = first;
    for _ in 0..AGAIN {
        shown = burst(probe, enough)?;
        all.extend(stats::first_fall(&shown, FALL));
    }
    if known.empty.is_some() && stays(probe)? {
        let because = format!(
            "{} are taken quickly after a rest, but what was written stays in the cache, and a flush \
             does not empty it: there may be more of it than had room",
            Value::Bytes(cliff.at.1 as u64)
        );
        findings.cannot(SIZE, because);
        return Ok(());
    }
    let flight = (DEPTH as u64 * WRITE) as f64;
    let cliffs: Vec<f64> = all.iter().map(|it| it.at.1).collect();
    let (low, high) = (stats::quantile(&cliffs, 0.0), stats::quantile(&cliffs, 1.0));
    if all.len() < AGAIN || high - low > AGREED * high {
        let because = format!(
            "the pace falls after {}, but not so again after a rest: it is something else that fills",
            Value::Bytes(cliff.at.1 as u64)
        );
        findings.cannot(SIZE, because);
        return Ok(());
    }
    if low < 4.0 * flight {
        let because = format!(
            "the pace falls after {}, of which {} were outstanding: it is too small to be told",
            Value::Bytes(low as u64),
            Value::Bytes(flight as u64)
        );
        findings.cannot(SIZE, because);
        return Ok(());
    }
    held(known, findings, &all[0], shown);
    Ok(())
}

/// Whether what was written is still in the cache after a flush and a rest: reads of it are as quick as
/// those of what was given up.
fn stays(probe: &mut Probe<'_>) -> Result<bool, Ended> {
    let (block, piece) = (probe.block_bytes(), KEPT);
    let start = probe.anywhere(piece, piece);
    for n in 0..piece / WRITE {
        probe.alone(Ask::write(start + n * WRITE, WRITE))?;
    }
    let flush = Ask { op: Op::Flush, offset: 0, bytes: 0 };
    let waited = probe.alone(flush)?;
    if waited > probe.alone(flush)? + WAITS {
        return Ok(false);
    }
    probe.rest(REST)?;
    let reads = |probe: &mut Probe<'_>| -> Result<f64, Ended> {
        let all: Result<Vec<f64>, Ended> =
            (0..piece / WRITE).map(|n| probe.alone(Ask::read(start + n * WRITE, block))).collect();
        Ok(stats::median(&all?))
    };
    let written = reads(probe)?;
    probe.alone(Ask { op: Op::Trim, offset: start, bytes: piece })?;
    probe.rest(REST)?;
    Ok(written < reads(probe)? + QUICK)
}

/// Writes in order after a rest, and how much was written when: us and bytes.
fn burst(probe: &mut Probe<'_>, bytes: u64) -> Result<Vec<(f64, f64)>, Ended> {
    probe.alone(Ask { op: Op::Flush, offset: 0, bytes: 0 })?;
    probe.rest(REST)?;
    let start = probe.anywhere(WRITE, bytes);
    let mut ends: Vec<f64> = Vec::new();
    probe.write_in_order((start, bytes), (WRITE, DEPTH), |taken: Taken| {
        ends.push(taken.until);
        true
    })?;
    let points = ends.iter().enumerate().skip(DEPTH);
    Ok(points.map(|(n, end)| (*end, ((n + 1) as u64 * WRITE) as f64)).collect())
}

/// What the cache holds: all that was written until the cliff, less what the flash had taken at its pace.
/// The dies' registers hold some, too, so it may have been less.
fn held(known: &Known, findings: &mut Findings, cliff: &Knee, points: Vec<(f64, f64)>) {
    let (time, bytes) = cliff.at;
    let least = (bytes - cliff.after * time).max(0.0);
    let flight = (DEPTH as u64 * WRITE) as f64;
    let evidence = format!(
        "after a rest {} are taken at {}, then {}: of them the flash had taken up to {}",
        Value::Bytes(bytes as u64),
        Value::Rate(cliff.before * 1e6),
        Value::Rate(cliff.after * 1e6),
        Value::Bytes((bytes - least) as u64),
    );
    let every = points.len() / 400 + 1;
    let shown = points.iter().step_by(every).map(|(x, y)| (*x, y / 1_048_576.0)).collect();
    let picture = Picture {
        title: "Writes in order after a rest".to_owned(),
        x: "time (us)".to_owned(),
        y: "written (MiB)".to_owned(),
        series: vec![("written".to_owned(), shown)],
    };
    // A word line of each plane may have left the cache for the dies' registers, or be about to.
    let page = known.page.unwrap_or(0) * known.dies.len() as u64;
    let planes = findings.count("geometry.planes_per_die").unwrap_or(1);
    let types = match findings.value("flash.read") {
        Some(Value::Times(times)) => times.len() as u64,
        _ => 1,
    };
    let away = flight + (page * planes * types) as f64;
    let low = (least - away).max(0.0);
    let between = Some((Value::Bytes(low as u64), Value::Bytes((bytes + away) as u64)));
    let whole = (least / WRITE as f64).round() as u64 * WRITE;
    let method = "Bouganim, Jonsson and Bonnet, CIDR 2009 (uFLIP); Kim et al., MICRO 2018";
    findings.found(SIZE, Value::Bytes(whole), between, evidence, (method, Some(picture)));
}

/// Single writes, and reads of what they wrote.
fn single(probe: &mut Probe<'_>, known: &mut Known, findings: &mut Findings) -> Result<(), Ended> {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..64 {
        let offset = probe.anywhere(SMALL, SMALL);
        writes.push(probe.alone(Ask::write(offset, SMALL))?);
        reads.push(probe.alone(Ask::read(offset, SMALL))?);
        probe.rest(1e4)?;
    }
    let (low, high) = stats::median_interval(&writes);
    let middle = stats::median(&writes);
    let evidence = format!("{} writes at random addresses, 10 ms apart", writes.len());
    let method = "Bouganim, Jonsson and Bonnet, CIDR 2009 (uFLIP)";
    let between = Some((Value::Time(low), Value::Time(high)));
    findings.found(LATENCY, Value::Time(middle), between, evidence, (method, None));
    let flash = stats::median(&known.reads.blocks);
    let seen = stats::median(&reads);
    let evidence = format!(
        "a read of what was just written takes {}, one of the flash {}",
        Value::Time(seen),
        Value::Time(flash)
    );
    // Halfway from the way there and back to a read of the flash.
    let Some(&Value::Time(fixed)) = findings.value("fixed_latency") else {
        let because = "it is not known what a read takes beside the flash";
        findings.cannot(SEEN, because.to_owned());
        return Ok(());
    };
    let is_seen = seen < (fixed + flash) / 2.0;
    findings.found(SEEN, Value::Yes(is_seen), None, evidence, (method, None));
    Ok(())
}
