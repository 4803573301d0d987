//! What key-value namespaces hold, as a panel of a report: how their room is used, and how much of
//! their index is in DRAM.

use mynah_result::KeyValueCounts;
use mynah_result::figures::{bytes, percent};
use quick_xml::escape::escape;
use std::fmt::Write;

/// A segment of a stacked bar.
struct Part {
    name: &'static str,
    colour: &'static str,
    share: f64,
    amount: String,
}

pub(super) fn panel(out: &mut String, counts: &KeyValueCounts) -> std::fmt::Result {
    writeln!(
        out,
        "<h2>Pairs and their index</h2>\n<p class=\"soft\">What the room of the key-value \
         namespaces is used for at the end, and where the pages of their index are.</p>\n\
         <div class=\"panel\">"
    )?;
    bar(out, "room", &room(counts), &bytes(counts.capacity_bytes as f64))?;
    bar(out, "index", &index(counts), &format!("{} pages", counts.index_pages))?;
    writeln!(out, "<div class=\"columns\">")?;
    let known = |number: Option<f64>| number.map_or("–".to_owned(), |it| format!("{it:.3}"));
    for (name, number) in [
        ("Keys", counts.keys.to_string()),
        ("Space amplification", known(counts.space_amplification)),
        ("Commands that found no key", counts.misses.to_string()),
        ("Flash reads for each Retrieve", known(counts.flash_reads_per_retrieve)),
        ("Looks at index pages", counts.index_lookups.to_string()),
        ("– that found them in DRAM", counts.index_hit_ratio.map_or("–".to_owned(), percent)),
        ("Request managers busy", percent(counts.manager_utilisation)),
    ] {
        writeln!(out, "<div><span>{name}</span>{number}</div>")?;
    }
    writeln!(out, "</div></div>")
}

/// What the mapping units that pairs may take are used for.
fn room(counts: &KeyValueCounts) -> Vec<Part> {
    let capacity = counts.capacity_bytes.max(1) as f64;
    let part = |name, colour, size: u64| Part {
        name,
        colour,
        share: size as f64 / capacity,
        amount: bytes(size as f64),
    };
    let (allocated, free) =
        (counts.allocated_bytes, counts.capacity_bytes.saturating_sub(counts.allocated_bytes));
    let mut parts = match counts.live_bytes {
        Some(live) => vec![
            part("keys and values", "#3b6ea5", live),
            part("rest of their units", "#c98a3a", allocated.saturating_sub(live)),
        ],
        None => vec![part("pairs", "#3b6ea5", allocated)],
    };
    parts.push(part("free", "#9aa5b1", free));
    parts
}

/// Where the pages of the index can be.
fn index(counts: &KeyValueCounts) -> Vec<Part> {
    let pages = counts.index_pages;
    let in_dram = counts.index_dram_pages.map_or(pages, |most| most.min(pages));
    let part = |name, colour, count: u64| Part {
        name,
        colour,
        share: count as f64 / pages.max(1) as f64,
        amount: format!("{count} pages"),
    };
    vec![part("in DRAM", "#3f8f6b", in_dram), part("on flash alone", "#9aa5b1", pages - in_dram)]
}

fn bar(out: &mut String, name: &str, parts: &[Part], total: &str) -> std::fmt::Result {
    let told = |part: &Part| format!("{}: {}, {}", part.name, part.amount, percent(part.share));
    let spoken: Vec<String> = parts.iter().map(told).collect();
    write!(out, "<div class=\"stack\"><span>{name}</span>")?;
    write!(out, "<div class=\"bar\" role=\"img\" aria-label=\"{}\">", escape(spoken.join("; ")))?;
    for (part, spoken) in parts.iter().zip(&spoken) {
        // About as many characters as fit into the part.
        let fits = part.share * 120.0 > part.name.len() as f64 + 2.0;
        write!(
            out,
            "<i style=\"width:{:.3}%;background:{}\" title=\"{}\">{}</i>",
            part.share * 100.0,
            part.colour,
            escape(spoken),
            if fits { part.name } else { "" }
        )?;
    }
    writeln!(out, "</div><span>{total}</span></div>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_whole() {
        let counts = KeyValueCounts {
            keys: 3,
            live_bytes: Some(3000),
            allocated_bytes: 12_288,
            capacity_bytes: 40_960,
            index_pages: 4,
            index_dram_pages: Some(1),
            ..KeyValueCounts::default()
        };
        for parts in [room(&counts), index(&counts)] {
            let sum: f64 = parts.iter().map(|part| part.share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
        assert_eq!(index(&counts)[0].share, 0.25);
        let unknown = KeyValueCounts { live_bytes: None, ..counts };
        assert_eq!(room(&unknown).len(), 2);
        let empty = KeyValueCounts::default();
        assert!(room(&empty).iter().chain(&index(&empty)).all(|part| part.share == 0.0));
    }
}
