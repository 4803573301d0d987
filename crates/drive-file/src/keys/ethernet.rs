//! The sections within `[link]` of an Ethernet drive: network interface, bus, target.

use super::declare::{Need, no_keys, section};
use super::value::{Width, quoted};
use super::{AxiCountingName, File, PipeliningName};
use crate::at::{At, Maybe};
use crate::check::Check;
use crate::units::{Bytes, Duration, Frequency};
use mynah_model::config::{self, AxiCounting, Config, Cost, TargetLayer};
use mynah_stamp::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

fn nic(file: &File) -> Option<&Nic> {
    file.link.get().nic.as_ref().map(At::get)
}

static NIC_COSTS: Need = Need {
    holds: |config| {
        let nic = config.ethernet.as_ref().map(|ethernet| &ethernet.nic);
        nic.is_some_and(|nic| nic.receive + nic.transmit + nic.message > Span::ZERO)
    },
    cause: |file| nic(file)?.receive.as_ref().or(nic(file)?.transmit.as_ref()).map(At::span),
    why: "the interface costs nothing",
    help: "give `receive`, `transmit` or `message`",
};

fn bursts(axi: &config::Axi) -> Option<(u32, Option<u32>, Span)> {
    match axi.counting {
        AxiCounting::Bursts { beats, boundary_bytes, setup } => {
            Some((beats, boundary_bytes, setup))
        }
        AxiCounting::SimpleSsd => None,
    }
}

static BURSTS: Need = Need {
    holds: |config| {
        let axi = config.ethernet.as_ref().and_then(|ethernet| ethernet.axi.as_ref());
        axi.is_none_or(|axi| bursts(axi).is_some())
    },
    cause: |file| file.link.get().axi.as_ref()?.get().counting.as_ref().map(At::span),
    why: "SimpleSSD has bursts of its own",
    help: "remove it",
};

fn layers(config: &Config) -> impl Iterator<Item = &config::Layer> {
    config.ethernet.iter().flat_map(|ethernet| ethernet.target.layers.iter().flatten())
}

static SHARED_CORES: Need = Need {
    holds: |config| layers(config).any(|layer| layer.engines.is_none() && !layer.merged),
    cause: |file| {
        let target = file.link.get().target.as_ref()?.get();
        let layers = target.layers().into_iter().filter_map(|(_, layer)| layer.as_ref());
        let bypass = layers.filter_map(|at| at.get().bypass.as_ref()).filter(|at| *at.get());
        bypass.map(At::span).max_by_key(|it| it.start)
    },
    why: "no layer runs on them",
    help: "remove it, or give a layer without `engines`",
};

section! {
    /// The network interface of an Ethernet drive: a pipeline with the wire.
    #[derive(Default)]
    Nic => config::Nic, shapes Never {
        /// For each packet that comes.
        receive: Maybe<Duration> = "0", in "0" to "1s", is receive;
        /// For each packet that goes.
        transmit: Maybe<Duration> = "0", in "0" to "1s", is transmit;
        /// The control plane's cost of each message, either way.
        message: Maybe<Duration> = "0", in "0" to "1s", is message;
        /// Whether a packet's cost and its time on the wire overlap with those of the packets around
        /// it, or follow one another.
        pipelining: Maybe<PipeliningName> = "overlapped", when NIC_COSTS,
            writes |nic, _| Some(quoted(match nic.serial {
                true => PipeliningName::Serial,
                false => PipeliningName::Overlapped,
            }));
    }
    with |nic, check, _file| { serial: nic.pipelining(check) == PipeliningName::Serial }
}

section! {
    /// The AXI4 bus of an Ethernet drive, between network interface, DRAM and flash controllers.
    Axi => config::Axi, shapes Never {
        /// Bits of a beat: 8, 16, 32, 64, 128, 256, 512 or 1024.
        width_bits: At<Width>, is width_bytes;
        /// Beats a second.
        clock: At<Frequency>, in "1MHz" to "10GHz", is clock_hz;
        /// How the time of a transfer is counted.
        counting: Maybe<AxiCountingName> = "bursts",
            writes |axi, _| Some(quoted(match axi.counting {
                AxiCounting::SimpleSsd => AxiCountingName::SimpleSsd,
                AxiCounting::Bursts { .. } => AxiCountingName::Bursts,
            }));
        /// With `counting = "bursts"`: beats of a burst, at most.
        beats: Maybe<u32> = "256", in "1" to "256", when BURSTS,
            shows |axi, _| bursts(axi).map(|it| it.0);
        /// The same: what bursts do not cross, at least 64B, or 0 if they may. The default is AXI4's
        /// rule.
        boundary: Maybe<Bytes> = "4KiB", in "0B" to "1MiB", when BURSTS,
            shows |axi, _| bursts(axi).map(|it| it.1.unwrap_or(0));
        /// The same: for each burst.
        setup: Maybe<Duration> = "0", in "0" to "1s", when BURSTS, shows |axi, _| bursts(axi).map(|it| it.2);
        /// For each transfer.
        arbitration: Maybe<Duration> = "0", in "0" to "1s", is arbitration;
    }
    with |axi, check, _file| { counting: axi.counted(check) }
}

impl Axi {
    pub(super) fn lower_checked(&self, check: &mut Check<'_>, file: &File) -> config::Axi {
        let Width(bits) = *self.width_bits.get();
        let is_width = bits.is_power_of_two() && (8..=1024).contains(&bits);
        if !is_width {
            let valid = "valid: 8, 16, 32, 64, 128, 256, 512, 1024".to_owned();
            let message = format!("`link.axi.width_bits` cannot be {bits}");
            check.wrong(message, &self.width_bits, "no such bus", Some(valid));
        }
        let axi = self.lower(check, file);
        config::Axi { width_bytes: axi.width_bytes.min(128), ..axi }
    }

    fn counted(&self, check: &mut Check<'_>) -> AxiCounting {
        match self.counting(check) {
            AxiCountingName::SimpleSsd => AxiCounting::SimpleSsd,
            AxiCountingName::Bursts => {
                let boundary: u32 = self.boundary(check);
                if let Some(at) = self.boundary.as_ref().filter(|_| (1..64).contains(&boundary)) {
                    check.wrong("`link.axi.boundary` is less than 64B", at, "too small", None);
                }
                AxiCounting::Bursts {
                    beats: self.beats(check),
                    boundary_bytes: (boundary > 0).then_some(boundary.max(64)),
                    setup: self.setup(check),
                }
            }
        }
    }
}

section! {
    /// The NVMe-oF target of an Ethernet drive. A layer that is not there costs nothing.
    #[derive(Default)]
    Target => config::Target, shapes Never {
        /// Cores that the layers without engines of their own share. Default: one engine for each of
        /// those layers.
        cores: Maybe<u32>, in "1" to "1024", when SHARED_CORES, is cores;
        /// Commands that can be received before they are answered, of all queue pairs. Default: as
        /// many as there are.
        receive_buffers: Maybe<u32>, in "1" to "1048576", is receive_buffers;
        /// Commands that can have data in memory. Default: as many as there are.
        data_buffers: Maybe<u32>, in "1" to "1048576", is data_buffers;
        /// RDMA or TCP transport.
        transport: Maybe<Layer>, inner |target, _| layer(target, TargetLayer::Transport);
        /// Parsing of capsules.
        capsule: Maybe<Layer>, inner |target, _| layer(target, TargetLayer::Capsule);
        /// Scheduling and dispatch of the block layer.
        block_layer: Maybe<Layer>, inner |target, _| layer(target, TargetLayer::BlockLayer);
        /// Submission and completion queues of NVMe.
        nvme_layer: Maybe<Layer>, inner |target, _| layer(target, TargetLayer::NvmeLayer);
    }
}

fn layer(target: &config::Target, layer: TargetLayer) -> Option<&config::Layer> {
    let at = TargetLayer::ALL.into_iter().position(|it| it == layer)?;
    target.layers[at].as_ref()
}

section! {
    /// A layer of the target.
    #[derive(Default)]
    Layer => config::Layer, shapes Never {
        /// What a command costs on its way in. Default: nothing.
        input as "in": Maybe<StageCost>, writes |layer, _| Some(cost(&layer.input));
        /// What its answer costs. Default: nothing.
        output as "out": Maybe<StageCost>, writes |layer, _| Some(cost(&layer.output));
        /// Engines that do nothing else. Default: the target's cores, or one.
        engines: Maybe<u32>, in "1" to "1024", is engines;
        /// Whether commands pass it by.
        bypass: Maybe<bool> = "false";
        /// Whether it is done in one go with the layer before it, on that layer's engines.
        merge: Maybe<bool> = "false", shows |layer, _| layer.merged.then_some(true);
    }
}

impl Target {
    /// The layers, in the order in which a command passes them.
    fn layers(&self) -> [(&'static str, &Maybe<Layer>); 4] {
        [
            ("transport", &self.transport),
            ("capsule", &self.capsule),
            ("block_layer", &self.block_layer),
            ("nvme_layer", &self.nvme_layer),
        ]
    }

    pub(super) fn lower_layers(&self, check: &mut Check<'_>, max_transfer: u32) -> config::Target {
        let mut layers: [Option<config::Layer>; 4] = Default::default();
        let written = self.layers();
        for (at, (name, layer)) in written.into_iter().enumerate() {
            let Some(layer) = layer else { continue };
            let is_first = layers[..at].iter().all(Option::is_none);
            let mut before = written[..at].iter().filter_map(|it| it.1.as_ref()).map(At::span);
            let before = before.next_back();
            layers[at] = layer.get().lower_after(check, name, is_first, before, max_transfer);
        }
        config::Target {
            cores: self.cores(check),
            receive_buffers: self.receive_buffers(check),
            data_buffers: self.data_buffers(check),
            layers,
        }
    }
}

impl Layer {
    /// The layer, unless it is bypassed. `before` is where the layer before it stands.
    fn lower_after(
        &self,
        check: &mut Check<'_>,
        name: &str,
        is_first: bool,
        before: Option<Range<usize>>,
        max_transfer: u32,
    ) -> Option<config::Layer> {
        let bypass = self.bypass.as_ref().filter(|at| *at.get());
        let merge = self.merge.as_ref().filter(|at| *at.get());
        if let Some(bypass) = bypass {
            let parts = [
                self.input.as_ref().map(At::span),
                self.output.as_ref().map(At::span),
                self.engines.as_ref().map(At::span),
                merge.map(At::span),
            ];
            for span in parts.into_iter().flatten() {
                let message = format!("this has no effect: `link.target.{name}` is bypassed");
                check.without_effect(span, Some(bypass.span()), &message, "remove one of them");
            }
            return None;
        }
        let engines = self.engines(check);
        if let (Some(merge), Some(at)) = (merge, &self.engines) {
            let message = format!(
                "`link.target.{name}.engines` has no effect: it runs on those of the layer before"
            );
            check.without_effect(at.span(), Some(merge.span()), &message, "remove one of them");
        }
        if let Some(merge) = merge.filter(|_| is_first) {
            let message =
                format!("there is no layer that `link.target.{name}` could be merged with");
            check.without_effect(merge.span(), before, &message, "remove it");
        }
        let mut cost = |value: &Maybe<StageCost>| match value {
            Some(at) => lower_cost(check, at, max_transfer),
            None => Cost::NOTHING,
        };
        let (input, output) = (cost(&self.input), cost(&self.output));
        let merged = merge.is_some() && !is_first;
        Some(config::Layer { input, output, engines: engines.filter(|_| !merged), merged })
    }
}

fn lower_cost(check: &mut Check<'_>, at: &At<StageCost>, max_transfer: u32) -> Cost {
    let table = match at.get() {
        StageCost::Fixed(time) => {
            return Cost::Affine { fixed: check.time(*time, at.span()), per_byte: Span::ZERO };
        }
        StageCost::Affine(Affine { fixed, per_byte }) => {
            let [fixed, per_byte] = [fixed, per_byte].map(|time| check.time(*time, at.span()));
            return Cost::Affine { fixed, per_byte };
        }
        StageCost::Table(table) => table,
    };
    let name = check.key(at);
    let problem = if table.bytes.len() != table.times.len() {
        let (sizes, times) = (table.bytes.len(), table.times.len());
        Some(format!("`{name}` has {sizes} sizes and {times} times"))
    } else if !table.bytes.windows(2).all(|pair| pair[0] < pair[1]) {
        Some(format!("the sizes of `{name}` do not ascend"))
    } else if table.bytes.last().is_none_or(|bytes| bytes.0 < max_transfer.into()) {
        let largest = Bytes(max_transfer.into());
        Some(format!("`{name}` does not reach the largest transfer, {largest}"))
    } else {
        None
    };
    if let Some(problem) = problem {
        let help = "give sizes that ascend up to `link.max_transfer`, and a time for each";
        check.wrong(problem, at, "no such table", Some(help.to_owned()));
        return Cost::NOTHING;
    }
    let pairs = table.bytes.iter().zip(&table.times);
    let pairs = pairs.map(|(bytes, time)| {
        (u32::try_from(bytes.0).unwrap_or(u32::MAX), check.time(*time, at.span()))
    });
    Cost::Table(pairs.collect())
}

/// What a layer costs, as it is written.
fn cost(cost: &Cost) -> String {
    let span = |span: Span| quoted(Duration(span));
    match cost {
        Cost::Affine { fixed, per_byte } if per_byte.is_zero() => span(*fixed),
        Cost::Affine { fixed, per_byte } => {
            format!("{{ fixed = {}, per_byte = {} }}", span(*fixed), span(*per_byte))
        }
        Cost::Table(table) => {
            let sizes: Vec<_> = table.iter().map(|&(size, _)| size.to_string()).collect();
            let times: Vec<_> = table.iter().map(|&(_, time)| span(time)).collect();
            format!("{{ bytes = [{}], times = [{}] }}", sizes.join(", "), times.join(", "))
        }
    }
}

no_keys!(StageCost);

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
