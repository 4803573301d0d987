//! What each reclaim unit handle has cost, and for whose writes its data were moved.

use super::percent;
use crate::summary::placement::used;
use mynah_result::DataPlacement;
use mynah_result::figures::bytes;
use std::fmt::Write;

pub(super) fn panel(out: &mut String, placement: &DataPlacement) -> std::fmt::Result {
    if used(placement).next().is_none() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Data placement</h2>\n<p class=\"soft\">By reclaim unit handle. On the right: for the \
         writes of which handle collection made room when it moved data of the one on the left; \
         the shade is the part of what was moved. Reclaim units of {}, {} erased.</p>\n<div \
         class=\"panel\"><table>",
        bytes(placement.reclaim_unit_bytes as f64),
        bytes(placement.erased_bytes as f64)
    )?;
    write!(out, "<thead><tr><th class=\"left\">handle</th>")?;
    for head in ["written", "programmed", "moved", "WAF", "units filled"] {
        write!(out, "<th>{head}</th>")?;
    }
    for (by, _) in used(placement) {
        write!(out, "<th>moved for {by}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for (handle, of) in used(placement) {
        write!(out, "<tr><th scope=\"row\">{handle}</th>")?;
        for amount in [of.host_bytes, of.programmed_bytes, of.moved_bytes] {
            write!(out, "<td>{}</td>", bytes(amount as f64))?;
        }
        let waf = of.waf.map_or("–".to_owned(), |waf| format!("{waf:.2}"));
        write!(out, "<td><strong>{waf}</strong></td><td>{}</td>", of.units_closed)?;
        for (by, _) in used(placement) {
            let amount = of.moved_for_bytes.get(by).copied().unwrap_or(0);
            if amount == 0 {
                write!(out, "<td class=\"soft\">–</td>")?;
                continue;
            }
            let part = amount as f64 / of.moved_bytes.max(1) as f64;
            let title = format!("{} of what was moved of handle {handle}", percent(part));
            write!(
                out,
                "<td class=\"heat\" style=\"--part:{:.1}%\" title=\"{title}\">{}</td>",
                part * 80.0,
                bytes(amount as f64)
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}
