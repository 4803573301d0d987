//! What a run reports: the machine-readable result, `mynah.result/1`.
//!
//! Scripts depend on these keys: they may be added, never renamed, and the checked-in
//! `docs/result.schema.json` describes them. Durations are in nanoseconds, ratios and
//! utilisations from 0 to 1. [`Run`] holds everything that depends on the machine; all else
//! is a function of drive, workload and seed, byte for byte.
//!
//! Slowdowns are of mean latencies from insertion into the submission queue.

mod contention;
mod device;
mod guest;
mod key_value;
mod own_policies;
mod placement;
mod precision;
mod slc;
mod slow;
mod steadiness;
mod trace_writes;
mod waf;

pub use contention::{
    BlameEntry, blame_entries, blame_since, fairness, holder_name, slowdown, weighted_speedup,
};
pub use device::{Device, Wear};
pub use guest::{Guest, GuestMark, GuestProcessor, GuestWait};
pub use key_value::{KeySides, KeyValueCounts, sum_of};
pub use own_policies::OwnPolicies;
pub use placement::{DataPlacement, HandleCost};
pub use precision::{Estimate, JointPrecision, Precision};
pub use slc::SlcCacheUse;
pub use slow::{LongestStage, LongestWait, SlowCommand, SlowStage};
pub use steadiness::{Grounds, Settled, Settling, Steadiness, Verdict};
pub use trace_writes::TraceWrites;
pub use waf::WafParts;

use crate::kind::Kind;
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

/// The note of a run that was interrupted.
pub const INTERRUPTED: &str = "interrupted: this is what was measured until then";

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
    /// From the start of the measurement to its end: the last completion, the end of the runtime, or
    /// what ended the run before its time, whichever is later. Of a served drive, how long it was
    /// served.
    pub simulated_ns: f64,
    /// Commands completed in that time, failed ones included.
    pub requests: u64,
    /// Events that the model processed in that time.
    pub events: u64,
    /// Why the result must not be trusted, if it must not.
    pub untrusted: Option<String>,
    /// Whether only what the drive does was asked for (`serve --functional`), and not when: then a
    /// result that must not be trusted is no failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub functional: bool,
    /// What went wrong with what the drive keeps: writes that were refused or lost, a state that
    /// was not saved. Each kind once, as it happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Remarks about the run: what was assumed, and what ended it early.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of a run until the steady state: how that was found. All else is about its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Whether what was measured is of a drive at rest; null where nothing was turned over, or that
    /// is not known.
    #[serde(default)]
    pub steadiness: Option<Steadiness>,
    /// How the drive settled before the measurement; null if it did not.
    #[serde(default)]
    pub settled: Option<Settling>,
    /// What the drive was taken to have been written by each trace before the run, where it starts
    /// from the steady state of the flows' own writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace_writes: Vec<TraceWrites>,
    /// Of a run that lasts until something is known: how well it is; null of others.
    #[serde(default)]
    pub precision: Option<Precision>,
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
    /// The slowest commands that succeeded, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowCommand>,
    /// Real time only: how late completions became visible.
    pub lateness_ns: Option<Latency>,
    /// Real time only: the gap between two looks at a queue.
    pub arrival_uncertainty_ns: Option<Latency>,
    /// Real time only, of a drive whose link is the network: what of the modelled time the real path
    /// was credited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_credit: Option<PathCredit>,
    /// Of a drive in lock-step with a guest (`serve --clock guest`): what that has executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// What depends on the machine.
    pub run: Run,
}

/// What of the modelled time the real path between host and drive was credited with: answers left so
/// long before their modelled end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathCredit {
    /// The credit, as it was last.
    pub credit_ns: f64,
    /// Commands that were modelled.
    pub commands: u64,
    /// Those that take less on the modelled drive than the credit: they were answered late.
    pub short: u64,
    /// Those that came sooner after another's answer than the model could still take them: their
    /// latency is longer by what follows.
    pub held: u64,
    /// By how much, on average over all.
    pub held_mean_ns: f64,
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
    /// The runs that ended in an error, and so have no result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRun>,
    /// Somebody has ended it: these are the runs that were done by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A run that ended in an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRun {
    /// Of a sweep: what was varied, and its value in this run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub point: BTreeMap<String, String>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Why there is no result.
    pub error: String,
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
    /// How many of the runs found the drive steady, not steady, or were too short to say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steadiness: BTreeMap<String, u64>,
    /// Of runs that last until something is known: how well it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<JointPrecision>,
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
    /// Whether it was found: the rounds of the window are even, and the drive was at rest in them.
    pub reached: bool,
    /// Whether the rounds of the window are even: excursion and slope.
    #[serde(default)]
    pub even: bool,
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
    /// The flow's name. Of a served drive: the NQN of a host that had an I/O queue, with its
    /// identifier where that is needed to tell it from another.
    pub name: String,
    /// Its reads.
    pub read: Side,
    /// Its writes.
    pub write: Side,
    /// Its trims.
    pub trim: Side,
    /// Its flushes.
    pub flush: Side,
    /// Of a flow of key-value commands: these.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub key_value: Option<Box<KeySides>>,
    /// Mean latency shared over mean latency alone.
    pub slowdown: Option<f64>,
}

impl Flow {
    /// The flow's sides with their names, in the order of the document.
    pub fn sides(&self) -> Vec<(Kind, &Side)> {
        let blocks = [
            (Kind::Read, &self.read),
            (Kind::Write, &self.write),
            (Kind::Trim, &self.trim),
            (Kind::Flush, &self.flush),
        ];
        let keys = self.key_value.iter().flat_map(|sides| sides.each());
        blocks.into_iter().chain(keys).collect()
    }
}

/// One kind of command of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Commands that succeeded.
    pub ios: u64,
    /// Bytes that they moved or trimmed.
    pub bytes: u64,
    /// Commands a second, from the flow's first request in the measurement to the end of its load:
    /// its last completion, or the end of its runtime, or what ended the run before its time.
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
    /// The distribution of `lat_ns`: a compressed HdrHistogram of version 2 in Base64, as its libraries
    /// decode it. Values are nanoseconds, to three digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lat_hdr: Option<String>,
    /// Commands that failed, by the name of their status; `sct_1h_sc_83h` (type and code) where it
    /// has none.
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

    /// The same; `None` for those that so few commands cannot tell: fewer than one of them lies
    /// beyond.
    pub fn of(&self, commands: u64) -> [(&'static str, Option<f64>); 6] {
        let least = [1, 10, 20, 100, 1_000, 10_000];
        let mut at = 0;
        self.named().map(|(name, ns)| {
            let told = commands >= least[at];
            at += 1;
            (name, told.then_some(ns))
        })
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
    /// Commands that were issued again because their connection was lost, or because the access
    /// state of the namespace (ANA) did not allow them before.
    pub retried: u64,
    /// Commands whose end is not known.
    pub unknown: u64,
    /// Connections of I/O queues that were lost.
    pub lost_connections: u64,
    /// How often a controller was connected anew.
    pub reconnects: u64,
    /// The end of the runtime whose I/Os were not issued, because the target did not keep up with
    /// the rate at which they were to come.
    pub not_issued_ns: f64,
    /// Blocks whose contents were checked; null if that was not asked for.
    pub checked_blocks: Option<u64>,
    /// Blocks that had other contents than they should.
    pub mismatched_blocks: u64,
    /// Values that were checked; absent if that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_values: Option<u64>,
    /// Keys that had other values than they should, or none, or one in spite of a Delete.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mismatched_values: u64,
    /// Commands that found no such key; absent on a namespace of blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
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

impl Result {
    /// Says whether the drive was at rest. What one on its way to another state would bear is not
    /// known.
    pub fn set_steadiness(&mut self, judged: Option<Steadiness>) {
        let steady = judged.as_ref().is_none_or(|judged| judged.verdict == Verdict::Steady);
        if !steady && let Some(wear) = self.device.as_mut().and_then(|it| it.wear.as_mut()) {
            (wear.writes_left_bytes, wear.lifetime_left_s) = (None, None);
        }
        self.steadiness = judged;
    }

    /// Notes that the run was interrupted.
    pub fn note_interruption(&mut self) {
        self.notes.push(INTERRUPTED.into());
    }

    /// Whether the run was interrupted.
    pub fn was_interrupted(&self) -> bool {
        self.notes.iter().any(|note| note == INTERRUPTED)
    }

    /// The result as JSON, indented, with a line end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl Results {
    /// A document of several results.
    pub fn new(results: Vec<Result>) -> Results {
        Results {
            schema: ResultsSchema::V1,
            results,
            confidence: Vec::new(),
            failed: Vec::new(),
            interrupted: false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing as sample;

    fn assert_valid(json: &str) {
        let schema = serde_json::from_str(&json_schema()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let value = serde_json::from_str(json).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    /// Rewrite the file with `MYNAH_UPDATE_DOCS=1 cargo test -p mynah-result`.
    #[test]
    fn the_checked_in_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");
        if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
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
}
