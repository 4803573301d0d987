//! What write amplification is made of.

use mynah_drive_file::units::Bytes;
use mynah_model::stats::Counters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Write amplification by cause: bytes programmed for each byte that hosts wrote. The parts add up
/// to `waf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WafParts {
    /// What hosts wrote. Below 1 where the cache absorbed rewrites.
    pub host: f64,
    /// The rest of mapping units that hosts wrote in part.
    pub rest_of_units: f64,
    /// Room in hosts' pages that stayed empty.
    pub padding: f64,
    /// What garbage collection moved, and room in its pages.
    pub collection: f64,
    /// What was moved to level wear.
    pub wear_levelling: f64,
    /// Translation pages.
    pub tables: f64,
    /// What was folded out of a pSLC write cache, and room in its pages.
    #[serde(default, skip_serializing_if = "is_none")]
    pub folding: f64,
}

fn is_none(share: &f64) -> bool {
    *share == 0.0
}

impl WafParts {
    /// The parts, by what was counted `since` the measurement began; `None` if hosts wrote nothing.
    pub(crate) fn new(
        since: impl Fn(fn(&Counters) -> u64) -> u64,
        after: &Counters,
    ) -> Option<WafParts> {
        let host_bytes = since(|c| c.host_bytes_written);
        if host_bytes == 0 {
            return None;
        }
        let page = after.wear.page_bytes as f64;
        let programs = since(|c| c.flash_programs) as f64 * page;
        let tables = since(|c| c.mapping_programs) as f64 * page;
        let moved = since(|c| c.gc_programs) as f64 * page;
        let folded = since(|c| c.slc.fold_programs) as f64 * page;
        let padding = (since(|c| c.padded_units) * after.wear.unit_bytes) as f64;
        let rest = since(|c| c.rest_bytes_programmed) as f64;
        let units = since(|c| c.gc_units_moved);
        // Some of them were overwritten before they could be moved.
        let levelled = since(|c| c.levelling_units_moved).min(units);
        let levelling = if units == 0 { 0.0 } else { moved * levelled as f64 / units as f64 };
        let share = |bytes: f64| bytes / host_bytes as f64;
        Some(WafParts {
            host: share((programs - tables - moved - folded - padding - rest).max(0.0)),
            rest_of_units: share(rest),
            padding: share(padding),
            collection: share(moved - levelling),
            wear_levelling: share(levelling),
            tables: share(tables),
            folding: share(folded),
        })
    }

    fn sum(&self) -> f64 {
        self.named().iter().map(|(_, part)| part).sum()
    }

    /// What to do where units written in part make most of it.
    pub(crate) fn caution(&self, unit_bytes: u64) -> Option<String> {
        (self.rest_of_units > self.sum() / 2.0).then(|| {
            format!(
                "most of what was programmed is the rest of mapping units written in part: write \
                 multiples of {}, or take a drive with a smaller `mapping.unit`",
                Bytes(unit_bytes)
            )
        })
    }

    /// Every part with its name for people, in the order in which they are told.
    pub fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("host data", self.host),
            ("rest of units written in part", self.rest_of_units),
            ("padding", self.padding),
            ("collection", self.collection),
            ("wear levelling", self.wear_levelling),
            ("mapping tables", self.tables),
            ("folding", self.folding),
        ]
    }

    /// The parts that matter, as people read them: "host data 1.00, collection 4.90".
    pub fn told(&self) -> String {
        let parts = self.named().into_iter().filter(|(_, part)| *part >= 0.005);
        parts.map(|(name, part)| format!("{name} {part:.2}")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::stats::WearState;

    #[test]
    fn parts_add_up_to_the_whole() {
        let counters = Counters {
            host_bytes_written: 1 << 20,
            flash_programs: 900,
            gc_programs: 500,
            mapping_programs: 30,
            gc_units_moved: 1_800,
            levelling_units_moved: 180,
            padded_units: 100,
            rest_bytes_programmed: 409_600,
            wear: WearState { page_bytes: 16_384, unit_bytes: 4_096, ..WearState::default() },
            ..Counters::default()
        };
        let parts = WafParts::new(|of| of(&counters), &counters).unwrap();
        assert!((parts.sum() - counters.write_amplification().unwrap()).abs() < 1e-9, "{parts:?}");
        assert!(
            (parts.wear_levelling / (parts.collection + parts.wear_levelling) - 0.1).abs() < 1e-9
        );
        assert!(parts.told().starts_with("host data ") && parts.told().contains("padding 0.39"));
        assert_eq!(parts.caution(4_096), None);
        let parts = WafParts { host: 1.0, rest_of_units: 7.0, ..WafParts::default() };
        assert!(parts.caution(4_096).unwrap().contains("multiples of 4KiB"));
    }
}
