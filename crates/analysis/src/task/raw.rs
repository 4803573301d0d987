//! A task file as it is written.

use mynah_workload::FlowOptions;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_spanned::Spanned;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use toml::Value;

/// Options of loads: those of [`FlowOptions`] that a load of blocks on a target has.
pub(super) const LOAD_OPTIONS: [&str; 19] = [
    "name",
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "blockalign",
    "iodepth",
    "numjobs",
    "rate_iops",
    "rwmixread",
    "rwmixtrim",
    "random_distribution",
    "offset",
    "size",
    "io_size",
    "kb_base",
    "randseed",
    "number_ios",
    "runtime",
];

/// Read before the rest, so that another version is refused as such.
#[derive(Deserialize)]
pub(super) struct Version {
    pub(super) schema: Option<Spanned<String>>,
}

/// A task of `mynah profile --task`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Task")]
pub(super) struct Raw {
    /// `mynah.profile-task/1`.
    #[serde(rename = "schema")]
    _schema: String,
    /// Which I/Os have records: those that are like this in every part. All of them if it is left out.
    #[serde(default)]
    pub(super) workload: RawWorkload,
    /// What runs.
    #[schemars(with = "RawExecution")]
    pub(super) execution: Spanned<RawExecution>,
    /// How many of these I/Os have records.
    #[serde(default)]
    pub(super) profiler: RawProfiler,
    /// What is said of them.
    #[serde(default)]
    pub(super) report: RawReport,
    /// What is expected of the runs: each is said to hold or not, and the command fails if one does not.
    #[serde(default)]
    #[schemars(with = "Vec<RawExpect>")]
    pub(super) expect: Vec<Spanned<RawExpect>>,
}

/// What I/Os are to be like.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Workload")]
pub(super) struct RawWorkload {
    /// `read`, `write`, `trim`, `flush` and so on; `other`: neither read nor write; `all`.
    #[schemars(with = "Option<Several>")]
    pub(super) io: Option<Spanned<Value>>,
    /// Bytes of data: `4KiB`, `4KiB..64KiB`, `>=32KiB`.
    #[schemars(with = "Option<Several>")]
    pub(super) size: Option<Spanned<Value>>,
    /// Namespaces: `1`, `1..4`, `>=8`.
    #[schemars(with = "Option<Several>")]
    pub(super) namespace: Option<Spanned<Value>>,
    /// Queues, as namespaces.
    #[schemars(with = "Option<Several>")]
    pub(super) queue: Option<Spanned<Value>>,
    /// First blocks, as namespaces.
    #[schemars(with = "Option<Several>")]
    pub(super) block: Option<Spanned<Value>>,
    /// `success`, `failed`, or code type and code in hexadecimal, `0x281`.
    #[schemars(with = "Option<Several>")]
    pub(super) status: Option<Spanned<Value>>,
}

impl RawWorkload {
    /// Where the first of its parts is.
    pub(super) fn first_span(&self) -> Option<Range<usize>> {
        let parts = [&self.io, &self.size, &self.namespace, &self.queue, &self.block, &self.status];
        parts.into_iter().flatten().map(Spanned::span).min_by_key(|span| span.start)
    }
}

/// What runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Execution")]
pub(super) struct RawExecution {
    /// A drive that is served in this process, on a free port of the loopback interface.
    #[schemars(with = "Option<RawServe>")]
    pub(super) serve: Option<Spanned<RawServe>>,
    /// In place of `serve`, a target that there is: `tcp://HOST:PORT/NQN`, where without `:PORT` 4420
    /// is meant, and without `/NQN` the target's only subsystem.
    #[schemars(with = "Option<String>")]
    pub(super) target: Option<Spanned<String>>,
    /// Runs, one after the other: each a load, or a list of loads that begin together.
    #[schemars(with = "Vec<RawRun>")]
    pub(super) load: Spanned<Vec<RawRun>>,
    /// A link of its own between the drive that is served and the loads: a pair of interfaces (veth) in
    /// network namespaces that the run makes.
    #[schemars(with = "Option<RawLink>")]
    pub(super) link: Option<Spanned<RawLink>>,
    /// What the network can carry each way, as in `25Gbit/s`: a verdict says whether that is reached.
    #[schemars(with = "Option<String>")]
    pub(super) link_limit: Option<Spanned<String>>,
    /// What the drive can do, as in `1440MB/s`.
    #[schemars(with = "Option<String>")]
    pub(super) drive_limit: Option<Spanned<String>>,
}

/// A drive that is served.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Serve")]
pub(super) struct RawServe {
    /// A shipped drive's name, or a drive file (relative to this one).
    #[schemars(with = "String")]
    pub(super) drive: Spanned<String>,
    /// What is changed about it: a table, or a list of `KEY=VALUE`.
    #[schemars(with = "Option<Overrides>")]
    pub(super) set: Option<Spanned<Value>>,
    /// How it is prepared: `none`, `fill` or `steady`, which is the default.
    #[schemars(with = "Option<String>")]
    pub(super) precondition: Option<Spanned<String>>,
    /// Processors on which it is served: `0,2-3`.
    #[schemars(with = "Option<One>")]
    pub(super) cpus_allowed: Option<Spanned<Value>>,
}

/// Loads that begin together. One option of one of them may be a list, for a run each.
pub(super) struct RawRun(pub(super) Vec<RawLoad>);

/// A load: options of flows, and [`OWN_OPTIONS`].
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct RawLoad(pub(super) BTreeMap<Spanned<String>, Spanned<Value>>);

/// Options of loads that flows do not have.
pub(super) const OWN_OPTIONS: [&str; 3] = ["cpus_allowed", "bulk_flows", "shares_queue"];

impl<'de> Deserialize<'de> for RawRun {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RawRun, D::Error> {
        struct Loads;
        impl<'de> Visitor<'de> for Loads {
            type Value = RawRun;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a load, as in `{ rw = \"randread\" }`, or a list of loads")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawRun, A::Error> {
                let load = RawLoad::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawRun(vec![load]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawRun, A::Error> {
                let mut loads = vec![];
                while let Some(load) = list.next_element()? {
                    loads.push(load);
                }
                Ok(RawRun(loads))
            }
        }
        from.deserialize_any(Loads)
    }
}

/// A link of its own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Link")]
pub(super) struct RawLink {
    /// What it carries each way, as in `1Gbit/s`.
    #[schemars(with = "String")]
    pub(super) rate: Spanned<String>,
    /// How long the longest queue in front of it takes to leave; what comes then is dropped. 10 ms if it
    /// is left out.
    #[schemars(with = "Option<One>")]
    pub(super) queue: Option<Spanned<Value>>,
}

/// What is expected of a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Expect")]
pub(super) struct RawExpect {
    /// The run's number, from 1; the last one if it is left out.
    #[schemars(with = "Option<u64>")]
    pub(super) run: Option<Spanned<i64>>,
    /// The group of I/Os, as in `read 4KiB`; the one with the most I/Os if it is left out.
    pub(super) group: Option<String>,
    /// A switch of ntprof (`S1`, `S2`, `S3-S5`, `S6`, `S7-S9`) or a stage.
    #[schemars(with = "Option<String>")]
    pub(super) part: Option<Spanned<String>>,
    /// Whether this part has more of the growth over the base than any other of its kind.
    #[schemars(with = "Option<bool>")]
    pub(super) grows_most: Option<Spanned<bool>>,
    /// At least so many times what it takes in the base (latency amplification degree).
    #[schemars(with = "Option<f64>")]
    pub(super) lad_min: Option<Spanned<f64>>,
    /// At most so many times that.
    #[schemars(with = "Option<f64>")]
    pub(super) lad_max: Option<Spanned<f64>>,
    /// At least this part of the latency's growth, 0 to 1.
    #[schemars(with = "Option<f64>")]
    pub(super) growth_min: Option<Spanned<f64>>,
    /// At least this part of the latency, 0 to 1.
    #[schemars(with = "Option<f64>")]
    pub(super) share_min: Option<Spanned<f64>>,
    /// The group's IOPS, at most so many times those of the base.
    #[schemars(with = "Option<f64>")]
    pub(super) iops_max: Option<Spanned<f64>>,
    /// The verdict's cause, or several of which it is one.
    #[schemars(with = "Option<Several>")]
    pub(super) cause: Option<Spanned<Value>>,
    /// What was published of the same, to stand beside it.
    pub(super) paper: Option<String>,
}

/// How many I/Os have records.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Profiler")]
pub(super) struct RawProfiler {
    /// One in so many: `1/1000`; `1`: all. `1/10` if neither this nor `every` is given.
    #[schemars(with = "Option<One>")]
    pub(super) sample: Option<Spanned<Value>>,
    /// The first that ends after so much time, as in `10ms`.
    #[schemars(with = "Option<One>")]
    pub(super) every: Option<Spanned<Value>>,
    /// Those beside the sample that are slower: than the running 99.9th percentile (`p99.9`), or a
    /// time; or `none`. `p99.9` if it is left out and there is a sample.
    #[schemars(with = "Option<One>")]
    pub(super) keep_above: Option<Spanned<Value>>,
}

/// What is said of them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Report")]
pub(super) struct RawReport {
    /// By what I/Os are told apart: `type`, `size`, `session`, `queue`, `namespace`, or `all` for one
    /// group. Type and size if it is left out.
    #[schemars(with = "Option<Several>")]
    pub(super) group_by: Option<Spanned<Value>>,
    /// What runs are compared with: the number of a run, from 1, or a profile (relative to this file).
    #[schemars(with = "Option<One>")]
    pub(super) base: Option<Spanned<Value>>,
    /// What is shown of each group beside its throughput and occupancy: `distribution`, `breakdown`,
    /// `queue_models`, `interference`, `verdict`. The first two and the verdict if it is left out.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) show: Option<Spanned<Vec<Spanned<String>>>>,
    /// Write a page with pictures of all runs.
    #[schemars(with = "Option<String>")]
    pub(super) html: Option<Spanned<PathBuf>>,
    /// Write the report of all runs, as `profile-report.schema.json` describes it.
    #[schemars(with = "Option<String>")]
    pub(super) json: Option<Spanned<PathBuf>>,
    /// Keep the profile of each run in this folder, as `1.profile`, `2.profile` and so on.
    #[schemars(with = "Option<String>")]
    pub(super) output: Option<Spanned<PathBuf>>,
}

/// A string or a number.
struct One;
/// One, or a list of them.
struct Several;
/// Changes to a drive.
struct Overrides;

macro_rules! schemas {
    ($($name:ident: $schema:expr;)+) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+};
}

schemas! {
    One: json_schema!({ "type": ["string", "number"] });
    Several: json_schema!({
        "type": ["string", "number", "array"],
        "items": { "type": ["string", "number"] }
    });
    Overrides: json_schema!({ "type": ["object", "array"], "items": { "type": "string" } });
}

impl JsonSchema for RawLoad {
    fn schema_name() -> Cow<'static, str> {
        "Load".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let value = serde_json::json!({ "type": ["string", "number", "boolean"] });
        let several = serde_json::json!({
            "type": ["string", "number", "boolean", "array"],
            "items": value
        });
        let mut properties = serde_json::Map::new();
        for name in LOAD_OPTIONS {
            debug_assert!(FlowOptions::NAMES.contains(&name));
            let schema = if name == "name" { &value } else { &several };
            properties.insert(name.to_owned(), schema.clone());
        }
        properties.insert("cpus_allowed".to_owned(), value.clone());
        properties.insert("bulk_flows".to_owned(), several.clone());
        let yes = serde_json::json!({ "type": "boolean" });
        properties.insert("shares_queue".to_owned(), yes);
        json_schema!({
            "description": "Options of fio; `cpus_allowed`, processors on which it runs; and \
                            `bulk_flows`, how many TCP flows of others come to the host over the link \
                            meanwhile; `shares_queue`, whether it goes through the queue of the load \
                            before it. One of the options may be a list, for a run with each of its \
                            values. Without a limit a run lasts for 10 s.",
            "type": "object",
            "additionalProperties": false,
            "properties": properties
        })
    }
}

impl JsonSchema for RawRun {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Run".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let load = generator.subschema_for::<RawLoad>();
        json_schema!({ "anyOf": [load, { "type": "array", "items": load }] })
    }
}
