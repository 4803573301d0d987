//! Puts results together, of what a run recorded and what its drive counted.

use crate::document::{
    Device, Flow, KeySides, KeyValueCounts, Result, ResultSchema, Run, blame_entries, blame_since,
    fairness, slowdown, weighted_speedup,
};
use crate::kind::Kind;
use crate::recorder::Recorder;
use mynah_model::keys::PairCounts;
use mynah_model::stats::{Blame, Counters};
use std::collections::BTreeMap;

/// Everything a result is made of.
#[derive(Clone)]
pub struct Parts<'a> {
    pub drive: &'a str,
    /// A hash over everything that describes the drive.
    pub drive_hash: &'a str,
    /// Seed of the run.
    pub seed: u64,
    pub recorder: &'a Recorder,
    /// The drive's counters when the measurement began.
    pub counters_before: &'a Counters,
    /// The drive's counters at the end of the measurement.
    pub counters: &'a Counters,
    /// The drive's blame when the measurement began.
    pub blame_before: &'a [Blame],
    /// The drive's blame at the end of the measurement.
    pub blame: &'a [Blame],
    /// Each flow's mean latency when it ran alone ([`Recorder::mean_latency_ns`] of that run).
    pub alone: Option<&'a [Option<f64>]>,
    /// The part of the result that depends on the machine that ran it.
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
                key_value: KeySides::of(recorder, flow),
                slowdown,
            })
            .collect();
        let device = Device::new(parts.counters_before, parts.counters, recorder.interval());
        let unit_bytes = parts.counters.wear.unit_bytes;
        let caution = device.waf_parts.and_then(|waf| waf.caution(unit_bytes));
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
            functional: false,
            failures: Vec::new(),
            notes: caution.into_iter().collect(),
            steady: None,
            steadiness: None,
            settled: None,
            trace_writes: Vec::new(),
            precision: None,
            flows,
            fairness: all.as_deref().and_then(fairness),
            weighted_speedup: all.as_deref().and_then(weighted_speedup),
            device: Some(device),
            host: None,
            stages: recorder.stages(),
            blame: blame_entries(&blame_since(parts.blame_before, parts.blame), names),
            slowest: recorder.slowest(),
            lateness_ns: None,
            arrival_uncertainty_ns: None,
            path_credit: None,
            guest: None,
            run: parts.run,
        }
    }
}

impl KeySides {
    /// Key-value results of a flow; `None` if it has no key-value commands.
    fn of(recorder: &Recorder, flow: usize) -> Option<Box<KeySides>> {
        let all = KeySides::from_kinds(|kind| recorder.side(flow, kind));
        all.any().then(|| Box::new(all))
    }
}

/// What [`KeyValueCounts`] is made of.
pub struct KeyValueParts<'a> {
    /// Pair counts of all namespaces together.
    pub counts: PairCounts,
    /// Bytes of keys and values, where that is known.
    pub live_bytes: Option<u64>,
    /// Commands that found no key.
    pub misses: u64,
    /// Size of a mapping unit in bytes.
    pub unit_bytes: u32,
    /// Number of request managers.
    pub managers: u32,
    /// The drive's counters when the measurement began, and when it ended.
    pub counters: [&'a Counters; 2],
    pub recorder: &'a Recorder,
}

impl KeyValueCounts {
    /// Computes the counts and ratios of the measurement.
    pub fn new(parts: KeyValueParts<'_>) -> KeyValueCounts {
        let KeyValueParts { counts, live_bytes, unit_bytes, recorder, .. } = parts;
        let [before, now] = parts.counters;
        let since = |pick: fn(&Counters) -> u64| pick(now).saturating_sub(pick(before));
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let flows = 0..recorder.flow_names().len();
        let retrieves = flows.filter_map(|flow| recorder.latencies(flow, Kind::Retrieve));
        let retrieves: u64 = retrieves.map(|all| all.count()).sum();
        let others = |it: &Counters| it.gc_reads + it.merge_reads;
        let reads = since(|it| it.flash_reads).saturating_sub(others(now) - others(before));
        let lookups = since(|it| it.index_lookups);
        let unit = u64::from(unit_bytes);
        let busy = now.manager_busy.as_secs_f64() - before.manager_busy.as_secs_f64();
        let time = recorder.interval().as_secs_f64() * f64::from(parts.managers);
        KeyValueCounts {
            keys: counts.pairs,
            live_bytes,
            allocated_bytes: counts.units * unit,
            capacity_bytes: counts.capacity * unit,
            space_amplification: live_bytes
                .and_then(|live| ratio((counts.units * unit) as f64, live as f64)),
            misses: parts.misses,
            flash_reads_per_retrieve: ratio(reads as f64, retrieves as f64),
            index_lookups: lookups,
            index_hit_ratio: ratio(since(|it| it.index_hits) as f64, lookups as f64),
            index_pages: counts.index_pages,
            index_dram_pages: counts.index_dram_pages,
            manager_utilisation: ratio(busy, time).unwrap_or(0.0),
        }
    }
}
