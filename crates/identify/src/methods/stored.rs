//! When a write is on the flash, as a host sees it: a flush of it ends then, or the write itself where
//! nothing caches it, or reads of it no longer come out of the cache.
//!
//! Shared by the methods that time programs. That a flush waits for what was written: NVM Express
//! Base Specification, Flush; that what waits in a buffer is read faster: Kim et al., MICRO 2018.

use super::Known;
use super::reads::SMALL;
use crate::finding::{Findings, Value};
use crate::probe::{Ask, Ended, Probe};
use crate::stats;
use crate::subject::Op;
use rand::RngExt;

/// Flushes and writes that are tried.
const TRIES: usize = 16;
/// A time on the flash is so much longer than what is around it, us.
const LEAST: f64 = 30.0;
/// A rest in which the flash ends what it does, us.
pub(super) const REST: f64 = 3e4;
/// A rest after which an SLC cache is empty again, us.
pub(super) const IDLE: f64 = 2e7;
/// The longest program that is waited for, us.
const LONGEST: f64 = 4e4;

pub(super) const FLUSH: Ask = Ask { op: Op::Flush, offset: 0, bytes: 0 };

/// What shows that a write is on the flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// A flush behind it ends then; one of nothing takes so many us.
    Flush { idle: f64 },
    /// The write itself does, which takes so many us beside the flash.
    Write { beside: f64 },
}

/// Trims everything where that is honoured, so that nothing has to be collected.
pub(super) fn empty_all(probe: &mut Probe<'_>, known: &Known) -> Result<(), Ended> {
    if known.empty.is_some() {
        let all = probe.bytes();
        probe.alone(Ask { op: Op::Trim, offset: 0, bytes: all })?;
    }
    probe.alone(FLUSH)?;
    Ok(())
}

/// Writes a piece in order, and waits until it is on the flash, as far as a flush says so.
pub(super) fn lay_down(probe: &mut Probe<'_>, start: u64, bytes: u64) -> Result<(), Ended> {
    const WRITE: u64 = 128 << 10;
    const DEPTH: usize = 8;
    probe.write_in_order((start, bytes), (WRITE, DEPTH), |_| true)?;
    probe.alone(FLUSH)?;
    probe.rest(REST)
}

/// Which way there is to see that a write of `bytes` is on the flash, if there is one.
pub(super) fn way(
    probe: &mut Probe<'_>,
    findings: &Findings,
    (start, room, bytes): (u64, u64, u64),
) -> Result<Option<Way>, Ended> {
    let (mut nothing, mut writes, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let offset = start + inside(probe, room, bytes);
        writes.push(probe.alone(Ask::write(offset, bytes))?);
        flushes.push(probe.alone(FLUSH)?);
        probe.rest(REST)?;
        nothing.push(probe.alone(FLUSH)?);
    }
    let idle = stats::median(&nothing);
    if stats::median(&flushes) > idle + LEAST {
        return Ok(Some(Way::Flush { idle }));
    }
    let beside = idle + on_link(findings, bytes);
    Ok((stats::median(&writes) > beside + LEAST).then_some(Way::Write { beside }))
}

/// How long the link takes for so many bytes, us.
pub(super) fn on_link(findings: &Findings, bytes: u64) -> f64 {
    match findings.value("link.bandwidth") {
        Some(Value::Rate(rate)) => bytes as f64 / rate * 1e6,
        // Of PCIe 3.0 with four lanes.
        _ => bytes as f64 / 3.2e9 * 1e6,
    }
}

/// How much sooner than a write of `bytes` is answered it sets out for the flash, us: while it is copied
/// to the cache, which is what it takes longer than a block, but for the link.
pub(super) fn sooner(
    probe: &mut Probe<'_>,
    findings: &Findings,
    (start, room, bytes): (u64, u64, u64),
) -> Result<f64, Ended> {
    let block = probe.block_bytes();
    let (mut whole, mut blocks) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let offset = start + inside(probe, room, bytes);
        for (of, all) in [(bytes, &mut whole), (block, &mut blocks)] {
            all.push(probe.alone(Ask::write(offset, of))?);
            probe.alone(FLUSH)?;
            probe.rest(REST)?;
        }
    }
    if findings.value("link.bandwidth").is_none() {
        return Ok(0.0);
    }
    let longer = stats::median(&whole) - stats::median(&blocks);
    Ok((longer - on_link(findings, bytes - block)).max(0.0))
}

/// A random multiple of `bytes` in a piece of `room`.
pub(super) fn inside(probe: &mut Probe<'_>, room: u64, bytes: u64) -> u64 {
    let places = (room / bytes).max(1);
    probe.random.random_range(0..places) * bytes
}

/// How long a write takes, and from its answer until it is on the flash, us.
pub(super) fn time(
    probe: &mut Probe<'_>,
    way: Way,
    (offset, bytes): (u64, u64),
) -> Result<(f64, f64), Ended> {
    let write = probe.alone(Ask::write(offset, bytes))?;
    Ok(match way {
        Way::Flush { .. } => (write, probe.alone(FLUSH)?),
        Way::Write { beside } => (beside, write - beside),
    })
}

/// From when a write is answered until reads of its first block are no longer answered by the cache,
/// us; `None` if they never are, or always.
pub(super) fn visible(
    probe: &mut Probe<'_>,
    (offset, bytes): (u64, u64),
    slower: f64,
) -> Result<Option<f64>, Ended> {
    let block = probe.block_bytes();
    probe.alone(Ask::write(offset, bytes))?;
    let read = Ask::read(offset, block);
    let first = probe.alone(read)?;
    let (mut passed, mut quick) = (first, 0.0);
    // So that reads do not fall on the same moments each time.
    let pause = probe.random.random_range(0.0..1.0) * first;
    probe.rest(pause)?;
    passed += pause;
    while passed < LONGEST {
        let took = probe.alone(read)?;
        if took > first + slower {
            // A read looks where its data are at its end, nearly, if it is answered by the cache.
            let seen = quick > 0.0;
            return Ok(seen.then_some((quick + passed) / 2.0 + first));
        }
        quick = passed;
        passed += took;
    }
    Ok(None)
}

/// A piece in which writes are timed: so many bytes from an aligned offset.
pub(super) fn piece(probe: &mut Probe<'_>, most: u64) -> (u64, u64) {
    let bytes = most.min(probe.bytes() / 16).max(SMALL) >> 20 << 20;
    let bytes = bytes.max(1 << 20);
    (probe.anywhere(1 << 20, bytes), bytes)
}
