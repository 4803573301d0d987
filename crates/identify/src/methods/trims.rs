//! Whether trims are honoured: what was given up is read without the flash.
//!
//! Of a piece that holds data half is read, then all is given up, and the other half is read (what reads
//! of it return: NVM Express Base Specification, Dataset Management; that it is seen in the time: Chen,
//! Koufaty and Zhang, SIGMETRICS 2009).

use super::Known;
use super::reads::SMALL;
use crate::finding::{Findings, Value};
use crate::probe::{Ask, Ended, Probe};
use crate::stats;
use crate::subject::Op;

/// The piece that is given up.
const PIECE: u64 = 32 << 20;
/// What the piece is aligned to.
const ALIGN: u64 = 1 << 20;
/// Addresses that are read, before and after.
const READS: u64 = 200;
/// Time that a drive has to do it, us.
const REST: f64 = 2e6;

/// Reads that are faster than this share of what they were may be of nothing.
const FASTER: f64 = 0.95;

const TRIMS: (&str, &str) = ("trims", "whether trims are honoured");

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    if !probe.can_trim() {
        findings.cannot(TRIMS, "there is no way to trim here".to_owned());
        return Ok(());
    }
    let piece = PIECE.min(probe.bytes() / 8 / ALIGN * ALIGN).max(ALIGN);
    let start = probe.anywhere(ALIGN, piece);
    // Neighbouring places are so far apart that nothing reads the one with the other.
    let step = (piece / (2 * READS) / SMALL).max(1) * SMALL;
    let place = |n: u64| start + n * step;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for n in 0..READS {
        before.push(probe.alone(Ask::read(place(2 * n), SMALL))?);
    }
    if stats::median(&before) < stats::median(&known.reads.blocks) / 2.0 {
        let because =
            "what was to be given up is read without the flash: nothing was written there";
        findings.cannot(TRIMS, because.to_owned());
        return Ok(());
    }
    probe.alone(Ask { op: Op::Trim, offset: start, bytes: piece })?;
    probe.rest(REST)?;
    for n in 0..READS {
        after.push(probe.alone(Ask::read(place(2 * n + 1), SMALL))?);
    }
    let (was, is) = (Value::Time(stats::median(&before)), Value::Time(stats::median(&after)));
    let fell = stats::quantile(&after, 0.95) < stats::quantile(&before, 0.05);
    let evidence = format!(
        "of {} half was read in {was}, and the other half in {is} after all was given up",
        Value::Bytes(piece)
    );
    let (middle, was_middle) = (stats::median(&after), stats::median(&before));
    if !fell && middle < FASTER * was_middle {
        let because = format!("{evidence}, which differ too much to be sure of it");
        findings.cannot(TRIMS, because);
        return Ok(());
    }
    if fell {
        known.empty = Some((start, piece));
    }
    let method = "NVM Express Base Specification 2.0, Dataset Management";
    findings.found(TRIMS, Value::Yes(fell), None, evidence, (method, None));
    Ok(())
}
