//! What a drive file says of an Ethernet link beside its wire: network interface, bus, target.

use super::{At, AxiCountingName, Maybe, PipeliningName};
use crate::units::{Bytes, Duration, Frequency};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The network interface of an Ethernet drive: a pipeline with the wire.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nic {
    /// For each packet that comes. Default: 0.
    pub(crate) receive: Maybe<Duration>,
    /// For each packet that goes. Default: 0.
    pub(crate) transmit: Maybe<Duration>,
    /// The control plane's cost of each message, either way. Default: 0.
    pub(crate) message: Maybe<Duration>,
    /// Whether a packet's cost and its time on the wire overlap with those of the packets around
    /// it, or follow one another. Default: overlapped.
    pub(crate) pipelining: Maybe<PipeliningName>,
}

/// The AXI4 bus of an Ethernet drive, between network interface, DRAM and flash controllers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Axi {
    /// Bits of a beat: 8, 16, 32, 64, 128, 256, 512 or 1024.
    pub(crate) width_bits: At<u32>,
    /// Beats a second.
    pub(crate) clock: At<Frequency>,
    /// How the time of a transfer is counted. Default: bursts.
    pub(crate) counting: Maybe<AxiCountingName>,
    /// With `counting = "bursts"`: beats of a burst, at most, 1 to 256. Default: 256.
    pub(crate) beats: Maybe<u32>,
    /// The same: what bursts do not cross, or 0 if they may. Default: 4KiB, AXI4's rule.
    pub(crate) boundary: Maybe<Bytes>,
    /// The same: for each burst. Default: 0.
    pub(crate) setup: Maybe<Duration>,
    /// For each transfer. Default: 0.
    pub(crate) arbitration: Maybe<Duration>,
}

/// The NVMe-oF target of an Ethernet drive. A layer that is not there costs nothing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Cores that the layers without engines of their own share, 1 to 1024. Default: one engine for
    /// each of those layers.
    pub(crate) cores: Maybe<u32>,
    /// Commands that can be received before they are answered, of all queue pairs. Default: as many
    /// as there are.
    pub(crate) receive_buffers: Maybe<u32>,
    /// Commands that can have data in memory. Default: as many as there are.
    pub(crate) data_buffers: Maybe<u32>,
    /// RDMA or TCP transport.
    pub(crate) transport: Maybe<Layer>,
    /// Parsing of capsules.
    pub(crate) capsule: Maybe<Layer>,
    /// Scheduling and dispatch of the block layer.
    pub(crate) block_layer: Maybe<Layer>,
    /// Submission and completion queues of NVMe.
    pub(crate) nvme_layer: Maybe<Layer>,
}

/// A layer of the target.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    /// What a command costs on its way in. Default: nothing.
    #[serde(rename = "in")]
    pub(crate) input: Maybe<StageCost>,
    /// What its answer costs. Default: nothing.
    #[serde(rename = "out")]
    pub(crate) output: Maybe<StageCost>,
    /// Engines that do nothing else, 1 to 1024. Default: the target's cores, or one.
    pub(crate) engines: Maybe<u32>,
    /// Whether commands pass it by. Default: false.
    pub(crate) bypass: Maybe<bool>,
    /// Whether it is done in one go with the layer before it, on that layer's engines.
    /// Default: false.
    pub(crate) merge: Maybe<bool>,
}

/// A time that may depend on the bytes a command moves.
#[derive(Clone, Debug)]
pub(crate) enum StageCost {
    /// Always the same.
    Fixed(Duration),
    /// More for larger commands.
    Affine(Affine),
    /// By size.
    Table(Table),
}

/// A time for each command, and one for each byte.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Affine {
    /// For each command.
    pub(crate) fixed: Duration,
    /// For each byte.
    pub(crate) per_byte: Duration,
}

/// Times by size, which ascends; between two sizes on a straight line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// Sizes, ascending.
    pub(crate) bytes: Vec<Bytes>,
    /// As many times.
    pub(crate) times: Vec<Duration>,
}

/// A cost as a table of the file, of either kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    fixed: Option<Duration>,
    per_byte: Option<Duration>,
    bytes: Option<Vec<Bytes>>,
    times: Option<Vec<Duration>>,
}

impl<'de> Deserialize<'de> for StageCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StageCost, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = StageCost;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a time such as `3us`, `{ fixed = \"2us\", per_byte = \"1ns\" }`, or \
                     `{ bytes = [\"512B\", \"4KiB\"], times = [\"2us\", \"5us\"] }`",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<StageCost, E> {
                text.parse().map(StageCost::Fixed).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<StageCost, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<StageCost, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StageCost, A::Error> {
                match Parts::deserialize(MapAccessDeserializer::new(map))? {
                    Parts { fixed, per_byte, bytes: None, times: None }
                        if fixed.is_some() || per_byte.is_some() =>
                    {
                        let (fixed, per_byte) =
                            (fixed.unwrap_or_default(), per_byte.unwrap_or_default());
                        Ok(StageCost::Affine(Affine { fixed, per_byte }))
                    }
                    Parts {
                        fixed: None,
                        per_byte: None,
                        bytes: Some(bytes),
                        times: Some(times),
                    } => Ok(StageCost::Table(Table { bytes, times })),
                    _ => Err(de::Error::custom(
                        "give `fixed` and `per_byte`, or `bytes` and `times`",
                    )),
                }
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl JsonSchema for StageCost {
    fn schema_name() -> Cow<'static, str> {
        "StageCost".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fixed = generator.subschema_for::<Duration>();
        let affine = generator.subschema_for::<Affine>();
        let table = generator.subschema_for::<Table>();
        json_schema!({ "anyOf": [fixed, affine, table] })
    }
}
