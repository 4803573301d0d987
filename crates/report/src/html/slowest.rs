//! The slowest I/Os, a row each.

use crate::summary::slow::{cause, window};
use mynah_result::SlowCommand;
use mynah_result::figures::{bytes, duration};
use quick_xml::escape::escape;
use std::fmt::Write;

pub(super) fn table(out: &mut String, slowest: &[SlowCommand]) -> std::fmt::Result {
    if slowest.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Slowest I/Os</h2>\n<p class=\"soft\">Where most of each one's time went. With \
         --timeline FILE and the window in the last column, the run shows it among all else that \
         the drive did then.</p>\n<div class=\"panel\"><table><thead><tr><th>at</th>\
         <th class=\"left\">I/O</th><th>size</th><th>latency</th><th class=\"left\">most of it</th>\
         <th class=\"left\">--timeline-window</th></tr></thead><tbody>"
    )?;
    for slow in slowest {
        let name = format!("{} {}", slow.flow, slow.kind);
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"left\">{}</td><td>{}</td><td>{}</td><td class=\"left\">{}\
             </td><td class=\"left\">{}</td></tr>",
            duration(slow.created_ns),
            escape(&name),
            bytes(slow.bytes as f64),
            duration(slow.lat_ns),
            escape(cause(slow)),
            window(slow)
        )?;
    }
    writeln!(out, "</tbody></table></div>")
}
