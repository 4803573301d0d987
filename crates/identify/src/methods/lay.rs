//! Data laid down in order, where reads of what is there tell nothing: it was never written, or in no order.

use super::stored;
use crate::probe::{Ended, Probe};

/// What is written at most: so much that random addresses find all dies of the largest drives.
const MOST: u64 = 4 << 30;
/// The share of the drive, and of what may be written.
const SHARE: u64 = 4;
/// What the piece is aligned to.
const ALIGN: u64 = 1 << 20;
/// Time in which a drive writes what it has cached, us.
const REST: f64 = 2e6;

/// Writes a piece in order, from whose first half all addresses are drawn from then on, for the drive may
/// have kept the rest in its cache; whether it was large enough.
pub(super) fn down(probe: &mut Probe<'_>) -> Result<bool, Ended> {
    let bytes = MOST.min(probe.bytes() / SHARE).min(probe.room() / SHARE) / (2 * ALIGN) * 2 * ALIGN;
    if bytes == 0 {
        return Ok(false);
    }
    let start = probe.anywhere(ALIGN, bytes);
    stored::lay_down(probe, start, bytes)?;
    probe.rest(REST)?;
    probe.stay_within(start, bytes / 2);
    Ok(true)
}
