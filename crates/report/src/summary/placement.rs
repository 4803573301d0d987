//! What each reclaim unit handle has cost.

use mynah_result::figures::bytes;
use mynah_result::{DataPlacement, HandleCost};
use std::fmt::Write;

/// A handle that wrote, or whose data were moved, and its number.
pub(crate) fn used(placement: &DataPlacement) -> impl Iterator<Item = (usize, &HandleCost)> {
    let all = placement.handles.iter().enumerate();
    all.filter(|(_, of)| of.host_bytes > 0 || of.moved_bytes > 0)
}

/// WAF of each handle, in a line.
pub(super) fn write_short(out: &mut String, placement: &DataPlacement) -> std::fmt::Result {
    let each: Vec<String> = used(placement)
        .map(|(handle, of)| match of.waf {
            Some(waf) => format!("{handle}: {waf:.2}"),
            None => format!("{handle}: only moved"),
        })
        .collect();
    if each.is_empty() {
        return Ok(());
    }
    writeln!(out, "  WAF by reclaim unit handle: {}", each.join(", "))
}

/// The table of handles.
pub(super) fn write(out: &mut String, placement: &DataPlacement) -> std::fmt::Result {
    write!(
        out,
        "  data placement: reclaim units of {}",
        bytes(placement.reclaim_unit_bytes as f64)
    )?;
    writeln!(out, ", {} erased", bytes(placement.erased_bytes as f64))?;
    let head = ["handle", "written", "programmed", "moved", "WAF", "units"];
    let [handle, written, programmed, moved, waf, units] = head;
    writeln!(
        out,
        "    {handle:>6} {written:>12} {programmed:>12} {moved:>12} {waf:>6} {units:>7} moved for"
    )?;
    for (handle, of) in used(placement) {
        let waf = of.waf.map_or("-".to_owned(), |waf| format!("{waf:.2}"));
        let [written, programmed, moved] =
            [of.host_bytes, of.programmed_bytes, of.moved_bytes].map(|it| bytes(it as f64));
        write!(
            out,
            "    {handle:>6} {written:>12} {programmed:>12} {moved:>12} {waf:>6} {:>7}",
            of.units_closed
        )?;
        writeln!(out, " {}", moved_for(of))?;
    }
    if placement.unknown_writes > 0 {
        let count = placement.unknown_writes;
        writeln!(out, "    {count} writes named no placement handle, and went to the first")?;
    }
    Ok(())
}

/// For whose writes a handle's data were moved, those who made most of it first.
fn moved_for(of: &HandleCost) -> String {
    let total = of.moved_bytes.max(1) as f64;
    let mut all: Vec<(usize, f64)> =
        of.moved_for_bytes.iter().map(|&bytes| bytes as f64 / total).enumerate().collect();
    all.retain(|(_, share)| *share >= 0.005);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told: Vec<String> =
        all.iter().take(3).map(|(by, share)| format!("{by} ({:.0} %)", share * 100.0)).collect();
    if told.is_empty() { "-".to_owned() } else { told.join(", ") }
}
