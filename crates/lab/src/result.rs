//! What a run reports: the machine-readable result, `mynah.result/1`.
//!
//! Scripts depend on these keys: they may be added, never renamed, and the checked-in
//! `docs/result.schema.json` describes them. Durations are in nanoseconds, ratios and
//! utilisations from 0 to 1. [`Run`] holds everything that depends on the machine; all else
//! is a function of drive, workload and seed, byte for byte.
//!
//! Slowdown, fairness and weighted speedup follow equations 1 and 2 of Tavakkol et al.,
//! "MQSim" (FAST 2018), on mean latencies from insertion into the submission queue.

use crate::recorder::{Kind, Recorder};
use mynah_model::stats::{Blame, Counters, Holder, Resource};
use mynah_stamp::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of one result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResultSchema {
    /// The first.
    #[default]
    #[serde(rename = "mynah.result/1")]
    V1,
}

/// The version of a list of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResultsSchema {
    /// The first.
    #[default]
    #[serde(rename = "mynah.results/1")]
    V1,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Result {
    /// Which version of this document.
    pub schema: ResultSchema,
    /// The drive's name.
    pub drive: String,
    /// A hash over everything that describes the drive.
    pub drive_hash: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// Of a sweep: what was varied, and its value in this run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub point: BTreeMap<String, String>,
    /// From the start of the measurement to its last completion.
    pub simulated_ns: f64,
    /// Commands completed in that time, failed ones included.
    pub requests: u64,
    /// Events that the model processed in that time.
    pub events: u64,
    /// Why the result must not be trusted, if it must not.
    pub untrusted: Option<String>,
    /// Remarks about the run: what was assumed, and what ended it early.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of a run until the steady state: how that was found. All else is about its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Every flow of the workload.
    pub flows: Vec<Flow>,
    /// The smallest slowdown of a flow over the largest (equation 1).
    pub fairness: Option<f64>,
    /// Sum over the flows of the mean latency alone over the mean latency shared (equation 2).
    pub weighted_speedup: Option<f64>,
    /// What the drive counted; null where only a host's side is known.
    pub device: Option<Device>,
    /// What a host counted that used the drive over a network.
    #[serde(default)]
    pub host: Option<Host>,
    /// Where the time of all successful commands of all flows went.
    pub stages: Vec<StageTime>,
    /// Who waited for whom.
    pub blame: Vec<BlameEntry>,
    /// Real time only: how late completions became visible.
    pub lateness_ns: Option<Latency>,
    /// Real time only: the gap between two looks at a queue.
    pub arrival_uncertainty_ns: Option<Latency>,
    /// What depends on the machine.
    pub run: Run,
}

/// Several results: scenarios, or the points of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Which version of this document.
    pub schema: ResultsSchema,
    /// The results, in the order of the runs.
    pub results: Vec<Result>,
    /// Of repeated runs: means with confidence intervals, one entry for each point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confidence: Vec<Confidence>,
}

/// What repeated runs of one experiment, with different seeds, say together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Of a sweep: what was varied, and its value in these runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub point: BTreeMap<String, String>,
    /// How many runs.
    pub runs: u64,
    /// The probability with which a true mean lies in its interval.
    pub level: f64,
    /// The quantities that all of them measured.
    pub metrics: Vec<Metric>,
}

/// A quantity over several runs. The true mean lies within `half_width` of `mean`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Which, by flow, kind of command and key of the result.
    pub name: String,
    /// The mean over the runs.
    pub mean: f64,
    /// The standard deviation of a run; null for one run.
    pub stddev: Option<f64>,
    /// Half the width of the confidence interval of the mean; null for one run.
    pub half_width: Option<f64>,
}

/// What a result file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Document {
    /// One run.
    One(Box<Result>),
    /// Several runs.
    Several(Results),
}

/// A search for the steady state by SNIA's rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// Whether it was found.
    pub reached: bool,
    /// Rounds that were run; the last five are the window.
    pub rounds: u64,
    /// How long a round is.
    pub round_ns: f64,
    /// How far the rounds of the window lie apart, relative to their mean; at most 0.2.
    pub excursion: f64,
    /// By how much the linear fit over the window changes, relative to their mean; at most 0.1.
    pub slope: f64,
    /// I/Os a second of every round.
    pub iops: Vec<f64>,
}

/// What one flow saw. Commands that failed are in `errors` only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// The flow's name.
    pub name: String,
    /// Its reads.
    pub read: Side,
    /// Its writes.
    pub write: Side,
    /// Its trims.
    pub trim: Side,
    /// Its flushes.
    pub flush: Side,
    /// Mean latency shared over mean latency alone.
    pub slowdown: Option<f64>,
}

impl Flow {
    /// The flow's sides with their names, in the order of the document.
    pub fn sides(&self) -> [(Kind, &Side); 4] {
        Kind::ALL.map(|kind| {
            let side = match kind {
                Kind::Read => &self.read,
                Kind::Write => &self.write,
                Kind::Trim => &self.trim,
                Kind::Flush => &self.flush,
            };
            (kind, side)
        })
    }
}

/// One kind of command of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Commands that succeeded.
    pub ios: u64,
    /// Bytes that they moved or trimmed.
    pub bytes: u64,
    /// Commands a second, from the start of the measurement to the flow's last completion.
    pub iops: f64,
    /// Bytes a second over the same time.
    pub bw_bytes_per_s: f64,
    /// From insertion into the submission queue to the completion seen by the host.
    pub lat_ns: Option<Latency>,
    /// From the request's creation to the completion seen by the host.
    pub e2e_ns: Option<Latency>,
    /// Where that time went.
    #[serde(default)]
    pub stages: Vec<StageTime>,
    /// Commands that failed, by status.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
}

/// A distribution of durations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stddev: f64,
    /// The longest.
    pub max: f64,
    /// What so many per cent do not exceed; within 1/256.
    pub percentiles: Percentiles,
}

/// Selected percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// The median.
    #[serde(rename = "50")]
    pub p50: f64,
    /// The 90th.
    #[serde(rename = "90")]
    pub p90: f64,
    /// The 95th.
    #[serde(rename = "95")]
    pub p95: f64,
    /// The 99th.
    #[serde(rename = "99")]
    pub p99: f64,
    /// The 99.9th.
    #[serde(rename = "99.9")]
    pub p99_9: f64,
    /// The 99.99th.
    #[serde(rename = "99.99")]
    pub p99_99: f64,
}

impl Percentiles {
    /// Every percentile with its name.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("50", self.p50),
            ("90", self.p90),
            ("95", self.p95),
            ("99", self.p99),
            ("99.9", self.p99_9),
            ("99.99", self.p99_99),
        ]
    }
}

/// How much time commands spent in one stage. Means and percentile are over all commands,
/// also those that did not pass the stage, so that the means add up to the mean latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageTime {
    /// The stage's name.
    pub stage: String,
    /// Commands that spent any time in it.
    pub count: u64,
    /// Mean time of a command in it.
    pub mean_ns: f64,
    /// What 99 % of the commands do not exceed; within 1/128.
    pub p99_ns: f64,
    /// Its share of the mean latency from creation to completion.
    pub share: f64,
    /// Mean time in it of the slowest 1 % of the commands.
    pub tail_mean_ns: f64,
    /// Its share of their mean latency.
    pub tail_share: f64,
}

/// The time that one flow's requests waited for a resource while someone had it. Parts that
/// wait side by side add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlameEntry {
    /// The flow that waited.
    pub victim: String,
    /// What it waited for.
    pub resource: String,
    /// Who had it: a flow's name, `gc` or `mapping`.
    pub holder: String,
    /// For how long.
    pub wait_ns: f64,
}

/// What the drive counted during the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Write amplification: units programmed for each unit written by hosts; null without
    /// writes.
    pub waf: Option<f64>,
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
    /// Units whose latest data a power cut lost.
    pub units_lost: u64,
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
    fn new(after: &Counters, levelling_runs: u64, waf: Option<f64>, bytes_per_s: f64) -> Wear {
        let state = &after.wear;
        let blocks = state.blocks as f64;
        let erases_mean = if state.blocks == 0 { 0.0 } else { state.erases as f64 / blocks };
        let rated = state.endurance.map(f64::from);
        let writes_left_bytes = rated.zip(waf).map(|(rated, waf)| {
            (rated - erases_mean).max(0.0) * blocks * state.block_bytes as f64 / waf
        });
        Wear {
            erases_mean,
            erases_min: state.erases_min,
            spread: state.spread,
            levelling_runs,
            spare_blocks: state.spare_blocks,
            write_protected: state.write_protected,
            life_used: rated.map(|rated| erases_mean / rated),
            writes_left_bytes,
            lifetime_left_s: writes_left_bytes
                .filter(|_| bytes_per_s > 0.0)
                .map(|bytes| bytes / bytes_per_s),
        }
    }
}

/// What a host counted that used a drive over a network: over the whole run, whatever part
/// of it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Where the drive was.
    pub target: String,
    /// I/O queues, each with a connection of its own.
    pub queues: u64,
    /// Commands that succeeded.
    pub completed: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Commands that were issued again because their connection was lost.
    pub retried: u64,
    /// Commands whose end is not known.
    pub unknown: u64,
    /// Connections of I/O queues that were lost.
    pub lost_connections: u64,
    /// How often a controller was connected anew.
    pub reconnects: u64,
    /// Blocks whose contents were checked; null if that was not asked for.
    pub checked_blocks: Option<u64>,
    /// Blocks that had other contents than they should.
    pub mismatched_blocks: u64,
}

/// What depends on the machine that ran the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Mynah's version.
    pub version: String,
    /// The command line.
    pub command: String,
    /// Wall time of the run.
    pub wall_s: f64,
    /// Processor time of the run itself.
    pub cpu_s: f64,
    /// Processor time of building and preconditioning the drive.
    pub setup_cpu_s: f64,
    /// The process's largest resident set.
    pub max_rss_bytes: u64,
}

/// Everything a result is made of.
#[derive(Clone)]
pub struct Parts<'a> {
    /// The drive's name.
    pub drive: &'a str,
    /// A hash over everything that describes the drive.
    pub drive_hash: &'a str,
    /// The seed.
    pub seed: u64,
    /// What was recorded.
    pub recorder: &'a Recorder,
    /// The drive's counters when the measurement began.
    pub counters_before: &'a Counters,
    /// The drive's counters now.
    pub counters: &'a Counters,
    /// The drive's blame when the measurement began.
    pub blame_before: &'a [Blame],
    /// The drive's blame now.
    pub blame: &'a [Blame],
    /// Each flow's mean latency when it ran alone ([`Recorder::mean_latency_ns`] of that run).
    pub alone: Option<&'a [Option<f64>]>,
    /// What depends on the machine.
    pub run: Run,
}

impl Result {
    /// Puts a result together. In virtual time it is trusted and has no lateness; a
    /// real-time run fills these in afterwards.
    pub fn new(parts: Parts<'_>) -> Result {
        let recorder = parts.recorder;
        let names = recorder.flow_names();
        let slowdowns: Vec<Option<f64>> = (0..names.len())
            .map(|flow| slowdown(recorder.mean_latency_ns(flow)?, (*parts.alone?.get(flow)?)?))
            .collect();
        let all: Option<Vec<f64>> = slowdowns.iter().copied().collect();
        let flows = names
            .iter()
            .zip(slowdowns)
            .enumerate()
            .map(|(flow, (name, slowdown))| Flow {
                name: name.clone(),
                read: recorder.side(flow, Kind::Read),
                write: recorder.side(flow, Kind::Write),
                trim: recorder.side(flow, Kind::Trim),
                flush: recorder.side(flow, Kind::Flush),
                slowdown,
            })
            .collect();
        Result {
            schema: ResultSchema::V1,
            drive: parts.drive.to_owned(),
            drive_hash: parts.drive_hash.to_owned(),
            seed: parts.seed,
            point: BTreeMap::new(),
            simulated_ns: recorder.interval().as_ns_f64(),
            requests: recorder.completions(),
            events: parts.counters.events.saturating_sub(parts.counters_before.events),
            untrusted: None,
            notes: Vec::new(),
            steady: None,
            flows,
            fairness: all.as_deref().and_then(fairness),
            weighted_speedup: all.as_deref().and_then(weighted_speedup),
            device: Some(Device::new(parts.counters_before, parts.counters, recorder.interval())),
            host: None,
            stages: recorder.stages(),
            blame: blame_entries(&blame_since(parts.blame_before, parts.blame), names),
            lateness_ns: None,
            arrival_uncertainty_ns: None,
            run: parts.run,
        }
    }

    /// The result as JSON, indented, with a line end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl Results {
    /// A list of results.
    pub fn new(results: Vec<Result>) -> Results {
        Results { schema: ResultsSchema::V1, results, confidence: Vec::new() }
    }

    /// The results as JSON, indented, with a line end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl Document {
    /// Reads a result file. Keys that this version does not know are ignored.
    pub fn from_json(text: &str) -> std::result::Result<Document, serde_json::Error> {
        // Tells the two by their version first, so that errors name the key at fault.
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        let Version { schema } = serde_json::from_str(text)?;
        if schema.starts_with("mynah.results/") {
            Ok(Document::Several(serde_json::from_str(text)?))
        } else {
            Ok(Document::One(Box::new(serde_json::from_str(text)?)))
        }
    }

    /// The results in the document.
    pub fn into_results(self) -> Vec<Result> {
        match self {
            Document::One(result) => vec![*result],
            Document::Several(several) => several.results,
        }
    }
}

fn to_json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("results are plain data");
    text.push('\n');
    text
}

/// The JSON Schema of result files, as checked in at `docs/result.schema.json`.
pub fn json_schema() -> String {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Document>();
    to_json(&schema)
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
        let waf = ratio(flash_units_programmed * after.wear.unit_bytes, host_bytes_written);
        let seconds = interval.as_ps() as f64 * 1e-12;
        let bytes_per_s = if seconds > 0.0 { host_bytes_written as f64 / seconds } else { 0.0 };
        let wear = Wear::new(after, since(|c| c.wear_levelling_runs), waf, bytes_per_s);
        Device {
            waf,
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
            retired_blocks: since(|c| c.retired_blocks),
            block_erases_max: after.block_erases_max,
            wear: (after.wear.blocks > 0).then_some(wear),
            read_retries: since(|c| c.read_retries),
            energy_j: after
                .energy_nj
                .map(|after| after.saturating_sub(before.energy_nj.unwrap_or(0)) as f64 * 1e-9),
        }
    }
}

/// A flow's slowdown: its mean latency shared over its mean latency alone. `None` unless
/// both are positive.
pub fn slowdown(shared_ns: f64, alone_ns: f64) -> Option<f64> {
    (shared_ns > 0.0 && alone_ns > 0.0).then(|| shared_ns / alone_ns)
}

/// Equation 1: the smallest slowdown over the largest; 1 is fair. `None` without flows.
pub fn fairness(slowdowns: &[f64]) -> Option<f64> {
    let min = slowdowns.iter().copied().reduce(f64::min)?;
    let max = slowdowns.iter().copied().reduce(f64::max)?;
    Some(min / max)
}

/// Equation 2: the sum of the slowdowns' inverses; as many as there are flows if none
/// slows another. `None` without flows.
pub fn weighted_speedup(slowdowns: &[f64]) -> Option<f64> {
    (!slowdowns.is_empty()).then(|| slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum())
}

type BlameKey = (u16, Resource, Holder);

fn blame_key(blame: &Blame) -> BlameKey {
    (blame.victim.0, blame.resource, blame.holder)
}

/// The waiting between two moments: what `after` says beyond `before`, in the order of
/// victim, resource and holder, without zeros.
pub fn blame_since(before: &[Blame], after: &[Blame]) -> Vec<Blame> {
    let mut waits: BTreeMap<BlameKey, (Blame, Span)> = BTreeMap::new();
    for blame in after {
        waits.entry(blame_key(blame)).or_insert((*blame, Span::ZERO)).1 += blame.wait;
    }
    for blame in before {
        if let Some((_, wait)) = waits.get_mut(&blame_key(blame)) {
            *wait = wait.saturating_sub(blame.wait);
        }
    }
    waits
        .into_values()
        .filter(|(_, wait)| !wait.is_zero())
        .map(|(blame, wait)| Blame { wait, ..blame })
        .collect()
}

/// Blame with the names of the flows; flows beyond `names` are called by their number.
pub fn blame_entries(blame: &[Blame], names: &[String]) -> Vec<BlameEntry> {
    let flow = |id: u16| names.get(id as usize).cloned().unwrap_or_else(|| format!("flow {id}"));
    blame
        .iter()
        .map(|blame| BlameEntry {
            victim: flow(blame.victim.0),
            resource: blame.resource.name().to_owned(),
            holder: match blame.holder {
                Holder::Flow(id) => flow(id.0),
                Holder::GarbageCollection => "gc".to_owned(),
                Holder::MappingTable => "mapping".to_owned(),
            },
            wait_ns: blame.wait.as_ns_f64(),
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_model::stats::WearState;

    fn assert_valid(json: &str) {
        let schema = serde_json::from_str(&json_schema()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let value = serde_json::from_str(json).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    /// Rewrite the file with `MYNAH_BLESS=1 cargo test -p mynah-lab`.
    #[test]
    fn the_checked_in_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");
        if std::env::var_os("MYNAH_BLESS").is_some() {
            std::fs::write(path, json_schema()).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(checked_in == json_schema(), "{path} is out of date");
    }

    #[test]
    fn results_satisfy_the_schema_and_survive_a_round_trip() {
        let contended = sample::contended();
        for json in [
            contended.to_json(),
            sample::idle().to_json(),
            Results::new(vec![contended.clone(), sample::idle()]).to_json(),
        ] {
            assert_valid(&json);
            let document = Document::from_json(&json).unwrap();
            let again = match document {
                Document::One(result) => result.to_json(),
                Document::Several(results) => results.to_json(),
            };
            assert_eq!(again, json);
        }
    }

    #[test]
    fn the_schema_refuses_what_is_not_a_result() {
        let schema = serde_json::from_str(&json_schema()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut value = serde_json::to_value(sample::contended()).unwrap();
        assert!(validator.is_valid(&value));
        value["flows"][0]["read"].as_object_mut().unwrap().remove("iops");
        assert!(!validator.is_valid(&value));
        let mut value = serde_json::to_value(sample::contended()).unwrap();
        value["schema"] = "mynah.result/2".into();
        assert!(!validator.is_valid(&value));
    }

    #[test]
    fn a_reading_error_names_the_key() {
        let mut value = serde_json::to_value(sample::contended()).unwrap();
        value.as_object_mut().unwrap().remove("drive_hash");
        let error = Document::from_json(&value.to_string()).unwrap_err().to_string();
        assert!(error.contains("drive_hash"), "{error}");
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        assert_eq!(sample::contended().to_json(), sample::contended().to_json());
    }

    #[test]
    fn a_side_without_commands_says_null() {
        let value = serde_json::to_value(sample::contended()).unwrap();
        let trim = &value["flows"][0]["trim"];
        assert_eq!(trim["ios"], 0);
        assert!(trim["lat_ns"].is_null() && trim["e2e_ns"].is_null());
        assert!(value["lateness_ns"].is_null() && value["untrusted"].is_null());
        let idle = serde_json::to_value(sample::idle()).unwrap();
        assert!(idle["fairness"].is_null() && idle["device"]["waf"].is_null());
        assert!(idle["flows"][0]["slowdown"].is_null());
    }

    #[test]
    fn stage_means_add_up_to_the_latency() {
        for flow in sample::contended().flows {
            for (_, side) in flow.sides() {
                let Some(e2e) = side.e2e_ns else { continue };
                let sum: f64 = side.stages.iter().map(|stage| stage.mean_ns).sum();
                assert!((sum / e2e.mean - 1.0).abs() < 1e-9);
                let shares: f64 = side.stages.iter().map(|stage| stage.share).sum();
                assert!((shares - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn equations_1_and_2() {
        let slowdowns = [slowdown(300.0, 100.0).unwrap(), slowdown(150.0, 100.0).unwrap()];
        assert_eq!(fairness(&slowdowns), Some(0.5));
        assert_eq!(weighted_speedup(&slowdowns), Some(1.0 / 3.0 + 1.0 / 1.5));
        assert_eq!(fairness(&[2.0, 2.0]), Some(1.0));
        assert_eq!(slowdown(1.0, 0.0), None);
        assert_eq!((fairness(&[]), weighted_speedup(&[])), (None, None));
    }

    #[test]
    fn only_what_happened_in_the_measurement_counts() {
        let blame = |victim, holder, us| Blame {
            victim: mynah_model::io::FlowId(victim),
            resource: Resource::Die,
            holder,
            wait: Span::from_us(us),
        };
        let gc = Holder::GarbageCollection;
        let before = [blame(1, gc, 5), blame(0, gc, 2)];
        let after = [blame(1, gc, 7), blame(0, gc, 2), blame(0, Holder::MappingTable, 1)];
        let entries = blame_entries(&blame_since(&before, &after), &["a".into()]);
        let said: Vec<_> = entries
            .iter()
            .map(|e| (e.victim.as_str(), e.resource.as_str(), e.holder.as_str(), e.wait_ns))
            .collect();
        assert_eq!(said, [("a", "die", "mapping", 1_000.0), ("flow 1", "die", "gc", 2_000.0)]);

        let before = Counters {
            host_bytes_written: 51_200,
            flash_units_programmed: 900,
            channel_busy: vec![Span::from_us(10)],
            ..Counters::default()
        };
        let after = Counters {
            host_bytes_written: 102_400,
            flash_units_programmed: 1_000,
            wear: WearState { unit_bytes: 1_024, ..WearState::default() },
            channel_busy: vec![Span::from_us(60)],
            ..Counters::default()
        };
        let device = Device::new(&before, &after, Span::from_us(200));
        assert_eq!((device.waf, device.cmt_hit_ratio), (Some(2.0), None));
        assert_eq!(device.channel_utilisation, [0.25]);
    }
}
