//! What became of writes in a pSLC cache, in two lines.

use mynah_result::SlcCacheUse;
use mynah_result::figures::{bytes, duration};
use std::fmt::Write;

/// What went where, and the burst that fits now.
pub(super) fn write_short(out: &mut String, slc: &SlcCacheUse) -> std::fmt::Result {
    let size = |number: u64| bytes(number as f64);
    writeln!(
        out,
        "  SLC cache: {} written to it, {} past it, {} folded; a burst of {} fits",
        size(slc.cached_bytes),
        size(slc.direct_bytes),
        size(slc.folded_bytes),
        size(slc.room_bytes),
    )
}

/// What went where, and the burst that fits now and after idle time.
pub(super) fn write(out: &mut String, slc: &SlcCacheUse) -> std::fmt::Result {
    let size = |number: u64| bytes(number as f64);
    writeln!(
        out,
        "  SLC cache: {} written to it, {} past it, {} folded; it holds {}, of which {} are valid",
        size(slc.cached_bytes),
        size(slc.direct_bytes),
        size(slc.folded_bytes),
        size(slc.filled_bytes),
        size(slc.valid_bytes),
    )?;
    write!(out, "    a burst of {} fits", size(slc.room_bytes))?;
    match slc.idle_to_empty_ns {
        _ if slc.room_bytes >= slc.empty_room_bytes => writeln!(out),
        Some(idle) => {
            let after = duration(idle);
            writeln!(out, "; one of {} after {after} of idle time", size(slc.empty_room_bytes))
        }
        None => writeln!(out, "; nothing is folded in idle time (slc.idle_share)"),
    }
}
