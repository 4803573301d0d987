//! What the drive itself counted, as results say it.

use super::key_value::KeyValueCounts;
use super::own_policies::OwnPolicies;
use super::placement::DataPlacement;
use super::slc::SlcCacheUse;
use super::waf::WafParts;
use mynah_model::stats::{Counters, ModeWear};
use mynah_stamp::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the drive counted during the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Write amplification: bytes programmed, translation pages and padding included, for each byte
    /// written by hosts; null without writes.
    pub waf: Option<f64>,
    /// What it is made of; null without writes.
    #[serde(default)]
    pub waf_parts: Option<WafParts>,
    /// Blocks that garbage collection has finished.
    pub gc_runs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Flash pages read, all causes.
    pub flash_reads: u64,
    /// Flash pages programmed, all causes.
    pub flash_programs: u64,
    /// Hits in the cached mapping table; null without look-ups.
    pub cmt_hit_ratio: Option<f64>,
    /// Hits in the data cache; null without look-ups.
    pub cache_hit_ratio: Option<f64>,
    /// Busy time of each channel over the measured time.
    pub channel_utilisation: Vec<f64>,
    /// Busy time of each die over the measured time.
    pub die_utilisation: Vec<f64>,
    /// Busy time of the link, towards the drive and towards the host.
    pub link_utilisation: [f64; 2],
    /// Busy time of the cache's DRAM over the measured time.
    #[serde(default)]
    pub dram_utilisation: f64,
    /// Accesses to the DRAM's rows that found them open; null where rows do not stay open.
    #[serde(default)]
    pub dram_row_hit_ratio: Option<f64>,
    /// Mapping units that hosts wrote.
    pub host_units_written: u64,
    /// Bytes that hosts wrote: a write of a part of a unit counts as that part.
    #[serde(default)]
    pub host_bytes_written: u64,
    /// Mapping units programmed with user data, relocations included.
    pub flash_units_programmed: u64,
    /// Mapping units that garbage collection moved.
    pub gc_units_moved: u64,
    /// Flash pages read for garbage collection.
    pub gc_reads: u64,
    /// Flash pages programmed for garbage collection.
    pub gc_programs: u64,
    /// Flash pages that garbage collection moved without crossing a channel.
    #[serde(default)]
    pub copybacks: u64,
    /// Merges of hybrid mapping that copied nothing: a log block became a data block.
    #[serde(default)]
    pub switch_merges: u64,
    /// Those that copied what a log block lacked to become a data block.
    #[serde(default)]
    pub partial_merges: u64,
    /// Those that copied a logical block to another block.
    #[serde(default)]
    pub full_merges: u64,
    /// Translation pages read.
    pub mapping_reads: u64,
    /// Translation pages programmed.
    pub mapping_programs: u64,
    /// Flash pages read to complete partly overwritten units.
    pub merge_reads: u64,
    /// Multi-plane operations.
    pub multi_plane_operations: u64,
    /// Programs suspended for reads, each time.
    #[serde(default)]
    pub program_suspensions: u64,
    /// Erases suspended for reads or programs, each time.
    #[serde(default)]
    pub erase_suspensions: u64,
    /// Units a programmed page had room for but did not get.
    pub padded_units: u64,
    /// Look-ups in the cached mapping table.
    pub cmt_lookups: u64,
    /// Look-ups in the data cache.
    pub cache_lookups: u64,
    /// Media operations that failed by injected faults.
    pub media_errors: u64,
    /// Units whose latest data were lost: in a power cut, or because no flash took them.
    pub units_lost: u64,
    /// Of these, units whose latest data were written in this run, its ramp included. Others were
    /// dirty in the data cache before it began.
    #[serde(default)]
    pub units_lost_written: u64,
    /// Blocks retired after failures.
    pub retired_blocks: u64,
    /// Erases of the most often erased block since the drive was built.
    pub block_erases_max: u32,
    /// How worn the blocks are, and what follows; null where that is not known.
    #[serde(default)]
    pub wear: Option<Wear>,
    /// Retries of page reads.
    #[serde(default)]
    pub read_retries: u64,
    /// Energy spent in the measurement on flash operations, channels and idling, in joules;
    /// null unless the drive says what they cost.
    #[serde(default)]
    pub energy_j: Option<f64>,
    /// What key-value namespaces hold and did, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_value: Option<KeyValueCounts>,
    /// What data placement did; null on drives without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<DataPlacement>>,
    /// What became of writes in a pSLC cache; null on drives without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc: Option<Box<SlcCacheUse>>,
    /// Policies that were not the drive's own; null where it decided by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_policies: Option<Box<OwnPolicies>>,
}

/// How worn a drive's blocks are, since it was built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wear {
    /// Mean erases of a block.
    pub erases_mean: f64,
    /// Erases of the least worn block in use.
    pub erases_min: u32,
    /// The largest difference between two blocks in use of one plane.
    pub spread: u32,
    /// Blocks whose data was moved to level wear, in the measurement.
    pub levelling_runs: u64,
    /// Blocks that may still be retired before the drive takes no more writes, in the plane
    /// that has the fewest left.
    pub spare_blocks: u32,
    /// Whether the drive takes no more writes.
    pub write_protected: bool,
    /// Mean erases over the rated ones; null unless the drive says what blocks endure.
    pub life_used: Option<f64>,
    /// An estimate of what hosts can still write until blocks have had their rated erases on
    /// average, at the write amplification of the measurement; null without rating or writes.
    pub writes_left_bytes: Option<f64>,
    /// The same as a time, at the measurement's rate of writes.
    pub lifetime_left_s: Option<f64>,
}

impl Wear {
    /// `wafs`: bytes programmed with all bits, and with one, for each that hosts wrote.
    fn new(
        after: &Counters,
        levelling_runs: u64,
        wafs: [Option<f64>; 2],
        bytes_per_s: f64,
    ) -> Wear {
        let state = &after.wear;
        let all = ModeWear { erases: state.erases, blocks: state.blocks, ..ModeWear::default() };
        let used =
            state.modes().filter_map(|mode| Some(mode.erases_mean() / f64::from(mode.endurance?)));
        let left = |mode: &ModeWear| {
            let left = (f64::from(mode.endurance?) - mode.erases_mean()).max(0.0);
            Some(left * mode.blocks as f64 * mode.block_bytes as f64)
        };
        let slc = state.slc.as_ref().and_then(|modes| modes.iter().map(left).sum());
        let each = [left(&state.native()), slc].into_iter().zip(wafs);
        let each = each.filter_map(|(left, waf)| Some(left? / waf.filter(|waf| *waf > 0.0)?));
        let writes_left_bytes = each.reduce(f64::min);
        Wear {
            erases_mean: all.erases_mean(),
            erases_min: state.erases_min,
            spread: state.spread,
            levelling_runs,
            spare_blocks: state.spare_blocks,
            write_protected: state.write_protected,
            life_used: used.reduce(f64::max),
            writes_left_bytes,
            lifetime_left_s: writes_left_bytes
                .filter(|_| bytes_per_s > 0.0)
                .map(|bytes| bytes / bytes_per_s),
        }
    }
}

impl Device {
    /// What was counted between two moments, `interval` apart. An operation that is counted
    /// when it starts may end after the interval, so utilisations are held at 1.
    pub fn new(before: &Counters, after: &Counters, interval: Span) -> Device {
        let since = |of: fn(&Counters) -> u64| of(after).saturating_sub(of(before));
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let busy = |before: Span, after: Span| match interval.as_ps() {
            0 => 0.0,
            whole => (after.saturating_sub(before).as_ps() as f64 / whole as f64).min(1.0),
        };
        let each = |before: &[Span], after: &[Span]| -> Vec<f64> {
            let before = before.iter().copied().chain(std::iter::repeat(Span::ZERO));
            before.zip(after).map(|(before, &after)| busy(before, after)).collect()
        };
        let (cmt_lookups, cache_lookups) = (since(|c| c.cmt_lookups), since(|c| c.cache_lookups));
        let host_units_written = since(|c| c.host_units_written);
        let flash_units_programmed = since(|c| c.flash_units_programmed);
        let host_bytes_written = since(|c| c.host_bytes_written);
        let waf = ratio(since(Counters::flash_bytes_programmed), host_bytes_written);
        let seconds = interval.as_ps() as f64 * 1e-12;
        let bytes_per_s = if seconds > 0.0 { host_bytes_written as f64 / seconds } else { 0.0 };
        let programmed = [
            since(|c| (c.flash_programs - c.slc.slc_programs) * c.wear.page_bytes),
            since(|c| c.slc.slc_programs * c.wear.page_bytes),
        ];
        let wafs = programmed.map(|bytes| ratio(bytes, host_bytes_written));
        let wear = Wear::new(after, since(|c| c.wear_levelling_runs), wafs, bytes_per_s);
        Device {
            waf,
            waf_parts: WafParts::new(since, after),
            gc_runs: since(|c| c.gc_runs),
            erases: since(|c| c.erases),
            flash_reads: since(|c| c.flash_reads),
            flash_programs: since(|c| c.flash_programs),
            cmt_hit_ratio: ratio(since(|c| c.cmt_hits), cmt_lookups),
            cache_hit_ratio: ratio(since(|c| c.cache_hits), cache_lookups),
            channel_utilisation: each(&before.channel_busy, &after.channel_busy),
            die_utilisation: each(&before.die_busy, &after.die_busy),
            link_utilisation: [0, 1].map(|way| busy(before.link_busy[way], after.link_busy[way])),
            dram_utilisation: busy(before.dram_busy, after.dram_busy),
            dram_row_hit_ratio: ratio(since(|c| c.dram_row_hits), since(|c| c.dram_rows)),
            host_units_written,
            host_bytes_written,
            flash_units_programmed,
            gc_units_moved: since(|c| c.gc_units_moved),
            gc_reads: since(|c| c.gc_reads),
            gc_programs: since(|c| c.gc_programs),
            copybacks: since(|c| c.copybacks),
            switch_merges: since(|c| c.switch_merges),
            partial_merges: since(|c| c.partial_merges),
            full_merges: since(|c| c.full_merges),
            mapping_reads: since(|c| c.mapping_reads),
            mapping_programs: since(|c| c.mapping_programs),
            merge_reads: since(|c| c.merge_reads),
            multi_plane_operations: since(|c| c.multi_plane_operations),
            program_suspensions: since(|c| c.program_suspensions),
            erase_suspensions: since(|c| c.erase_suspensions),
            padded_units: since(|c| c.padded_units),
            cmt_lookups,
            cache_lookups,
            media_errors: since(|c| c.media_errors),
            units_lost: since(|c| c.units_lost),
            units_lost_written: since(|c| c.units_lost_written),
            retired_blocks: since(|c| c.retired_blocks),
            block_erases_max: after.block_erases_max,
            wear: (after.wear.blocks > 0).then_some(wear),
            read_retries: since(|c| c.read_retries),
            energy_j: after
                .energy_nj
                .map(|after| after.saturating_sub(before.energy_nj.unwrap_or(0)) as f64 * 1e-9),
            key_value: None,
            placement: DataPlacement::new(before, after),
            slc: SlcCacheUse::new(before, after),
            own_policies: None,
        }
    }
}

impl Device {
    /// Write amplification of garbage collection alone: units programmed for each that was not
    /// moved; `None` if none was.
    pub fn waf_of_collection(&self) -> Option<f64> {
        let new = self.flash_units_programmed.saturating_sub(self.gc_units_moved);
        (new > 0).then(|| self.flash_units_programmed as f64 / new as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::stats::WearState;

    /// 90 native blocks, 10 that only serve an SLC cache.
    #[test]
    fn each_use_of_blocks_has_its_own_end() {
        let apart =
            ModeWear { erases: 1_000, blocks: 10, block_bytes: 1_000, endurance: Some(1_000) };
        let none = ModeWear { erases: 0, blocks: 0, ..apart };
        let mut after = Counters {
            flash_programs: 30,
            host_bytes_written: 10_000,
            wear: WearState {
                blocks: 100,
                block_bytes: 3_000,
                page_bytes: 1_000,
                erases: 2_800,
                endurance: Some(100),
                slc: Some([apart, none]),
                ..WearState::default()
            },
            ..Counters::default()
        };
        after.slc.slc_programs = 10;
        let wear = |after: &Counters| {
            let device = Device::new(&Counters::default(), after, Span::from_secs(1));
            device.wear.expect("blocks")
        };
        let both = wear(&after);
        // 20 of 100, and 100 of 1,000.
        assert_eq!((both.erases_mean, both.life_used), (28.0, Some(0.2)));
        // 80 erases of 90 native blocks at 2 bytes for each; 900 of 10 others at 1.
        assert_eq!(both.writes_left_bytes, Some(9_000_000.0));
        after.wear.slc = Some([apart, none].map(|mode| ModeWear { endurance: None, ..mode }));
        assert_eq!(wear(&after).writes_left_bytes, Some(10_800_000.0));
    }

    #[test]
    fn only_what_happened_in_the_measurement_counts() {
        let before = Counters {
            host_bytes_written: 51_200,
            flash_programs: 900,
            wear: WearState { page_bytes: 1_024, ..WearState::default() },
            channel_busy: vec![Span::from_us(10)],
            ..Counters::default()
        };
        let after = Counters {
            host_bytes_written: 102_400,
            flash_programs: 1_000,
            wear: WearState { page_bytes: 1_024, ..WearState::default() },
            channel_busy: vec![Span::from_us(60)],
            ..Counters::default()
        };
        let device = Device::new(&before, &after, Span::from_us(200));
        assert_eq!((device.waf, device.cmt_hit_ratio), (Some(2.0), None));
        assert_eq!(device.waf_parts, Some(WafParts { host: 2.0, ..WafParts::default() }));
        assert_eq!(device.channel_utilisation, [0.25]);
    }
}
