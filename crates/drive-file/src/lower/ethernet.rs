//! An Ethernet link: ports, network interface, bus, target.

use super::*;
use crate::units::{BitRate, Frequency};
use mynah_model::config::{
    Axi, AxiCounting, Cost, Ethernet, Framing, Layer, LinkProtocol, Nic, Target,
};
use schema::{AxiCountingName, FramingName, LinkProtocolName, PipeliningName, StageCost};

/// Largest path MTU of RoCE, and the usual MTU of Ethernet.
const ROCE_MTU: u32 = 1024;
const TCP_MTU: u32 = 1500;
/// Data within a command that Linux's targets take by default: a page over RDMA, and 8 KiB over TCP
/// (drivers/nvme/target/rdma.c, tcp.c).
const ROCE_IN_CAPSULE: u32 = 4096;
const TCP_IN_CAPSULE: u32 = 8192;
const BITS: std::ops::RangeInclusive<u64> = 1_000_000_000..=400_000_000_000;
const CLOCKS: std::ops::RangeInclusive<u64> = 1_000_000..=10_000_000_000;

/// The keys of another kind of link.
type Others = Vec<(&'static str, Option<Range<usize>>)>;

/// The spans of keys, by their names.
macro_rules! spans {
    ($of:expr, $($key:ident),+) => {
        vec![$((stringify!($key), $of.$key.as_ref().map(At::span))),+]
    };
}

impl Check<'_> {
    pub(super) fn is_ethernet(file: &File) -> bool {
        let protocol = or(&file.link.get().protocol, LinkProtocolName::Pcie);
        protocol == LinkProtocolName::Ethernet
    }

    /// Refuses what only Ethernet links have.
    pub(super) fn without_ethernet(&mut self, link: &schema::Link) {
        let theirs: Others = spans!(
            link,
            rate,
            ports,
            framing,
            mtu,
            vlan,
            ipv6,
            acks,
            invalidate,
            rdma_reads,
            success_flag,
            in_capsule,
            burst,
            max_transfer,
            gap,
            nic,
            axi,
            target
        );
        let cause = link.protocol.as_ref().map(At::span);
        for (key, span) in theirs {
            if let Some(span) = span {
                self.without_effect(
                    span,
                    cause.clone(),
                    &format!("`link.{key}` has no effect: the link is not Ethernet"),
                    "remove it, or use `protocol = \"ethernet\"`",
                );
            }
        }
    }

    /// What stands for the link that an Ethernet drive does not have.
    pub(super) fn no_link(&mut self, file: &File) -> mynah_model::config::Link {
        let (link, queues) = (file.link.get(), &file.queues);
        let cause = link.protocol.as_ref().map(At::span);
        let others: Others = spans!(
            link,
            generation,
            adapter,
            bandwidth,
            lanes,
            max_payload,
            packet_overhead,
            submission_entry,
            fetch_prp_lists,
            stream_data,
            interrupt,
            rounding
        );
        let of_queues: Others = spans!(
            queues,
            fetch_size,
            arbitration,
            high_weight,
            medium_weight,
            low_weight,
            arbitration_burst,
            command_slots
        );
        let named = others.into_iter().map(|(key, span)| (format!("link.{key}"), span));
        let of_queues = of_queues.into_iter().map(|(key, span)| (format!("queues.{key}"), span));
        for (key, span) in named.chain(of_queues) {
            if let Some(span) = span {
                self.without_effect(
                    span,
                    cause.clone(),
                    &format!("`{key}` has no effect: the link is Ethernet"),
                    "remove it",
                );
            }
        }
        mynah_model::config::Link {
            protocol: LinkProtocol::Pcie,
            adapter: Span::ZERO,
            bytes_per_s: 4_000_000_000,
            lanes: 4,
            max_payload_bytes: 256,
            packet_overhead_bytes: 24,
            submission_entry_bytes: 64,
            fetch_prp_lists: false,
            stream_data: false,
            interrupt: Span::ZERO,
            truncate_ns: false,
        }
    }

    pub(super) fn ethernet(&mut self, file: &File) -> Option<Ethernet> {
        if !Self::is_ethernet(file) {
            return None;
        }
        let link = file.link.get();
        let framing = or(&link.framing, FramingName::RoceV2);
        let roce = framing == FramingName::RoceV2;
        let cause = link.framing.as_ref().map(At::span);
        let moot: Others = match roce {
            true => spans!(link, success_flag),
            false => spans!(link, acks, invalidate, rdma_reads),
        };
        for (key, span) in moot {
            if let Some(span) = span {
                let message = format!("`link.{key}` has no effect with this framing");
                self.without_effect(span, cause.clone(), &message, "remove it");
            }
        }
        let usual = if roce { ROCE_MTU } else { TCP_MTU };
        let mtu_bytes = self.small_or("link.mtu", &link.mtu, usual);
        self.mtu(link, roce, mtu_bytes);
        let max_transfer_bytes =
            self.whole_sectors("link.max_transfer", &link.max_transfer, 1020 << 10);
        let usual = if roce { ROCE_IN_CAPSULE } else { TCP_IN_CAPSULE };
        Some(Ethernet {
            rate_bits_per_s: self.rate(link),
            ports: link.ports.as_ref().map_or(1, |at| self.count("link.ports", at, 1..=2)),
            framing: match framing {
                FramingName::RoceV2 => Framing::RoceV2 {
                    acks: or(&link.acks, true),
                    invalidate: or(&link.invalidate, false),
                    rdma_reads: link
                        .rdma_reads
                        .as_ref()
                        .map_or(16, |at| self.count("link.rdma_reads", at, 1..=65_536)),
                },
                FramingName::Tcp => Framing::Tcp { success_flag: or(&link.success_flag, false) },
            },
            mtu_bytes,
            vlan: or(&link.vlan, false),
            ipv6: or(&link.ipv6, false),
            in_capsule_bytes: self.sized("link.in_capsule", &link.in_capsule, usual, 0..=1 << 20),
            burst_bytes: self.sized("link.burst", &link.burst, 4096, 256..=1 << 20),
            max_transfer_bytes,
            gap: self.span_or("link.gap", &link.gap, Span::ZERO),
            nic: link.nic.as_ref().map(|at| self.nic(at.get())).unwrap_or_default(),
            axi: link.axi.as_ref().map(|at| self.axi(at.get())),
            target: match &link.target {
                Some(at) => self.target(at.get(), max_transfer_bytes),
                None => Target::default(),
            },
        })
    }

    fn mtu(&mut self, link: &schema::Link, roce: bool, mtu: u32) {
        let Some(at) = &link.mtu else { return };
        if roce && !(mtu.is_power_of_two() && (256..=4096).contains(&mtu)) {
            let message = format!("`link.mtu` cannot be {} with RoCE", at.get());
            let valid = "valid: 256B, 512B, 1KiB, 2KiB, 4KiB".to_owned();
            self.wrong(message, at, "no path MTU", Some(valid));
        } else if !roce && !(576..=9216).contains(&mtu) {
            let message = format!("`link.mtu` cannot be {}", at.get());
            self.wrong(message, at, "out of range", Some("valid: 576 to 9216".to_owned()));
        }
    }

    fn rate(&mut self, link: &schema::Link) -> u64 {
        let rate = or(&link.rate, BitRate(25_000_000_000));
        if let Some(at) = link.rate.as_ref().filter(|_| !BITS.contains(&rate.0)) {
            let message = format!("`link.rate` cannot be {rate}");
            self.wrong(message, at, "out of range", Some("valid: 1 to 400 Gbit/s".to_owned()));
        }
        rate.0
    }

    /// A size of whole sectors.
    fn whole_sectors(&mut self, name: &str, value: &Maybe<Bytes>, default: u32) -> u32 {
        let bytes = self.sized(name, value, default, 512..=1 << 30);
        if let Some(at) = value.as_ref().filter(|_| !bytes.is_multiple_of(512)) {
            let message = format!("`{name}` is no multiple of 512, which transfers are");
            self.wrong(message, at, "not whole sectors", None);
        }
        bytes
    }

    fn sized(
        &mut self,
        name: &str,
        value: &Maybe<Bytes>,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> u32 {
        let bytes = self.small_or(name, value, default);
        if let Some(at) = value.as_ref().filter(|_| !range.contains(&bytes)) {
            let (least, most) = (Bytes((*range.start()).into()), Bytes((*range.end()).into()));
            let message = format!("`{name}` must be from {least} to {most}, not {}", at.get());
            self.wrong(message, at, "out of range", None);
        }
        bytes
    }

    fn nic(&mut self, nic: &schema::Nic) -> Nic {
        let lowered = Nic {
            receive: self.span_or("link.nic.receive", &nic.receive, Span::ZERO),
            transmit: self.span_or("link.nic.transmit", &nic.transmit, Span::ZERO),
            message: self.span_or("link.nic.message", &nic.message, Span::ZERO),
            serial: or(&nic.pipelining, PipeliningName::Overlapped) == PipeliningName::Serial,
        };
        let cost = lowered.receive + lowered.transmit + lowered.message;
        if let Some(at) = nic.pipelining.as_ref().filter(|_| cost.is_zero()) {
            let zeroed = nic.receive.as_ref().or(nic.transmit.as_ref()).map(At::span);
            self.without_effect(
                at.span(),
                zeroed,
                "`link.nic.pipelining` has no effect: the interface costs nothing",
                "give `receive`, `transmit` or `message`",
            );
        }
        lowered
    }

    fn axi(&mut self, axi: &schema::Axi) -> Axi {
        let width = *axi.width_bits.get();
        if !(width.is_power_of_two() && (8..=1024).contains(&width)) {
            let valid = "valid: 8, 16, 32, 64, 128, 256, 512, 1024".to_owned();
            let message = format!("`link.axi.width_bits` cannot be {width}");
            self.wrong(message, &axi.width_bits, "no such bus", Some(valid));
        }
        let Frequency(clock_hz) = *axi.clock.get();
        if !CLOCKS.contains(&clock_hz) {
            let message = format!("`link.axi.clock` cannot be {}", axi.clock.get());
            let valid = Some("valid: 1MHz to 10GHz".to_owned());
            self.wrong(message, &axi.clock, "out of range", valid);
        }
        let counting = match or(&axi.counting, AxiCountingName::Bursts) {
            AxiCountingName::SimpleSsd => {
                let moot: Others = spans!(axi, beats, boundary, setup);
                let cause = axi.counting.as_ref().map(At::span);
                for (key, span) in moot {
                    if let Some(span) = span {
                        let message = format!(
                            "`link.axi.{key}` has no effect: SimpleSSD has bursts of its own"
                        );
                        self.without_effect(span, cause.clone(), &message, "remove it");
                    }
                }
                AxiCounting::SimpleSsd
            }
            AxiCountingName::Bursts => {
                let boundary = self.sized("link.axi.boundary", &axi.boundary, 4096, 0..=1 << 20);
                if let Some(at) = axi.boundary.as_ref().filter(|_| (1..64).contains(&boundary)) {
                    self.wrong("`link.axi.boundary` is less than 64B", at, "too small", None);
                }
                let beats = axi.beats.as_ref();
                AxiCounting::Bursts {
                    beats: beats.map_or(256, |at| self.count("link.axi.beats", at, 1..=256)),
                    boundary_bytes: (boundary > 0).then_some(boundary.max(64)),
                    setup: self.span_or("link.axi.setup", &axi.setup, Span::ZERO),
                }
            }
        };
        Axi {
            width_bytes: (width / 8).clamp(1, 128),
            clock_hz,
            counting,
            arbitration: self.span_or("link.axi.arbitration", &axi.arbitration, Span::ZERO),
        }
    }

    fn target(&mut self, target: &schema::Target, max_transfer: u32) -> Target {
        let written = [
            ("transport", &target.transport),
            ("capsule", &target.capsule),
            ("block_layer", &target.block_layer),
            ("nvme_layer", &target.nvme_layer),
        ];
        let mut count = |name: &str, value: &Maybe<u32>, most| {
            value.as_ref().map(|at| self.count(&format!("link.target.{name}"), at, 1..=most))
        };
        let cores = count("cores", &target.cores, 1024);
        let receive_buffers = count("receive_buffers", &target.receive_buffers, 1 << 20);
        let data_buffers = count("data_buffers", &target.data_buffers, 1 << 20);
        let mut layers: [Option<Layer>; 4] = Default::default();
        let mut bypass = None;
        for (at, (name, layer)) in written.into_iter().enumerate() {
            let Some(layer) = layer else { continue };
            let is_first = layers[..at].iter().all(Option::is_none);
            let mut before = written[..at].iter().filter_map(|it| it.1.as_ref()).map(At::span);
            layers[at] = self.layer(name, layer.get(), is_first, before.next_back(), max_transfer);
            if layers[at].is_none() {
                bypass = layer.get().bypass.as_ref().map(At::span);
            }
        }
        let shares = |layer: &&Layer| layer.engines.is_none() && !layer.merged;
        if let Some(at) = &target.cores
            && !layers.iter().flatten().any(|layer| shares(&layer))
        {
            self.without_effect(
                at.span(),
                bypass,
                "`link.target.cores` has no effect: no layer runs on them",
                "remove it, or give a layer without `engines`",
            );
        }
        Target { cores, receive_buffers, data_buffers, layers }
    }

    fn layer(
        &mut self,
        name: &str,
        layer: &schema::Layer,
        is_first: bool,
        before: Option<Range<usize>>,
        max_transfer: u32,
    ) -> Option<Layer> {
        let bypass = layer.bypass.as_ref().filter(|at| *at.get());
        let merge = layer.merge.as_ref().filter(|at| *at.get());
        if let Some(bypass) = bypass {
            let parts = [
                layer.input.as_ref().map(At::span),
                layer.output.as_ref().map(At::span),
                layer.engines.as_ref().map(At::span),
                merge.map(At::span),
            ];
            for span in parts.into_iter().flatten() {
                let message = format!("this has no effect: `link.target.{name}` is bypassed");
                self.without_effect(span, Some(bypass.span()), &message, "remove one of them");
            }
            return None;
        }
        let engines = layer.engines.as_ref();
        let engines =
            engines.map(|at| self.count(&format!("link.target.{name}.engines"), at, 1..=1024));
        if let (Some(merge), Some(at)) = (merge, &layer.engines) {
            let message = format!(
                "`link.target.{name}.engines` has no effect: it runs on those of the layer before"
            );
            self.without_effect(at.span(), Some(merge.span()), &message, "remove one of them");
        }
        if let Some(merge) = merge.filter(|_| is_first) {
            let message =
                format!("there is no layer that `link.target.{name}` could be merged with");
            self.without_effect(merge.span(), before, &message, "remove it");
        }
        let mut cost = |way: &str, value: &Maybe<StageCost>| match value {
            Some(at) => self.cost(&format!("link.target.{name}.{way}"), at, max_transfer),
            None => Cost::NOTHING,
        };
        let (input, output) = (cost("in", &layer.input), cost("out", &layer.output));
        let merged = merge.is_some() && !is_first;
        Some(Layer { input, output, engines: engines.filter(|_| !merged), merged })
    }

    fn cost(&mut self, name: &str, at: &At<StageCost>, max_transfer: u32) -> Cost {
        let table = match at.get() {
            StageCost::Fixed(time) => {
                return Cost::Affine { fixed: self.time(name, at, time), per_byte: Span::ZERO };
            }
            StageCost::Affine(affine) => {
                let fixed = self.time(name, at, &affine.fixed);
                return Cost::Affine { fixed, per_byte: self.time(name, at, &affine.per_byte) };
            }
            StageCost::Table(table) => table,
        };
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
            self.wrong(problem, at, "no such table", Some(help.to_owned()));
            return Cost::NOTHING;
        }
        let pairs = table.bytes.iter().zip(&table.times);
        let pairs = pairs.map(|(bytes, time)| {
            (u32::try_from(bytes.0).unwrap_or(u32::MAX), self.time(name, at, time))
        });
        Cost::Table(pairs.collect())
    }

    /// A time that no cost can pass.
    fn time(&mut self, name: &str, at: &At<StageCost>, time: &Duration) -> Span {
        if time.0 > MAX_STEP {
            let message = format!("`{name}` is {time}, which no drive takes");
            let limit = Duration(MAX_STEP);
            self.wrong(message, at, "too long", Some(format!("the longest time is {limit}")));
        }
        time.0
    }
}
