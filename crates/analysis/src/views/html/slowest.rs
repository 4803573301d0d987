//! The slowest I/Os, one by one: each as its stages one after the other, on one scale.

use super::super::io_name;
use super::{Side, colour, spoken};
use mynah_result::figures::{duration, percent};
use mynah_stamp::Span;
use quick_xml::escape::escape;
use std::fmt::Write;

pub(super) fn panel(out: &mut String, side: &Side<'_>) -> std::fmt::Result {
    let slowest = &side.pictures.slowest;
    let Some(most) = slowest.iter().map(|(total, _)| *total).find(|it| !it.is_zero()) else {
        return Ok(());
    };
    let scale = most.as_ns_f64();
    let header = &side.analysis.header;
    writeln!(
        out,
        "<h2>The slowest I/Os</h2>\n<p class=\"soft\">Stages one after the other, all on the scale \
         of the slowest.</p>\n<div class=\"panel slowest\">"
    )?;
    for (_, single) in slowest.iter() {
        let head = &single.head;
        let total = head.total.as_ns_f64();
        write!(out, "<div class=\"stack\"><span>{}", escape(io_name(header, head)))?;
        if head.status != 0 {
            write!(out, " failed")?;
        }
        write!(out, "</span><div class=\"bar\">")?;
        for (name, span) in header.stages.iter().zip(&single.stages) {
            if *span == Span::ZERO {
                continue;
            }
            let (ns, label) = (span.as_ns_f64(), spoken(name));
            let fits = ns / scale * 120.0 > label.len() as f64 + 2.0;
            write!(
                out,
                "<i style=\"width:{:.3}%;background:{}\" title=\"{label}: {}, {}\">{}</i>",
                (ns / scale).min(1.0) * 100.0,
                colour(name),
                duration(ns),
                percent(ns / total.max(f64::MIN_POSITIVE)),
                if fits { &label } else { "" }
            )?;
        }
        writeln!(out, "</div><span>{}</span></div>", duration(total))?;
        let session = header.sessions.get(usize::from(head.connection)).cloned();
        let session = session.unwrap_or_else(|| format!("connection {}", head.connection));
        write!(
            out,
            "<p class=\"soft\">began at {} · {} · queue {} · namespace {} · block {}",
            duration(head.begin.saturating_since(side.analysis.first).as_ns_f64()),
            escape(session),
            head.queue,
            head.namespace,
            head.block
        )?;
        if head.outstanding > 0 {
            write!(out, " · {} outstanding", head.outstanding)?;
        }
        if head.status != 0 {
            write!(out, " · status {:x}h/{:02x}h", head.status >> 8, head.status & 0xff)?;
        }
        // Spans are in picoseconds if their names say so.
        for (name, &value) in header.beside.iter().zip(&single.beside).filter(|(_, it)| **it > 0) {
            let (name, said) = match name.strip_suffix("_ps") {
                Some(name) => (name, duration(value as f64 / 1e3)),
                None => (name.as_str(), value.to_string()),
            };
            write!(out, " · {} {said}", spoken(name))?;
        }
        writeln!(out, "</p>")?;
    }
    writeln!(out, "</div>")
}
