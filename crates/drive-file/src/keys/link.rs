//! The section `[link]`: between host and controller, PCIe, SATA or Ethernet.

use super::declare::section;
use super::needs::{ETHERNET, NOT_ETHERNET, NOT_SATA, NVME_TCP, ROCE};
use super::value::{Value, quoted};
use super::{Axi, File, FramingName, LinkProtocolName, Nic, RoundingName, Target};
use crate::at::{At, Maybe};
use crate::check::Check;
use crate::units::{Bandwidth, BitRate, Bytes, Duration};
use mynah_model::config::{self, Config, Ethernet, Framing, LinkProtocol};
use mynah_stamp::Span;

/// Path MTU of RoCE, and the usual MTU of Ethernet.
const ROCE_MTU: u32 = 1024;
const TCP_MTU: u32 = 1500;
/// Data within a command that Linux's targets take by default: a page over RDMA, and 8 KiB over TCP
/// (drivers/nvme/target/rdma.c, tcp.c).
const ROCE_IN_CAPSULE: u32 = 4096;
const TCP_IN_CAPSULE: u32 = 8192;
/// 1.5 Gb/s with 8b/10b coding: a SATA link of the first generation.
const SATA_BYTES_PER_S: u64 = 150_000_000;

/// The key that says the same in another way, so that a file has one of the two.
pub fn said_instead_of(key: &str) -> Option<&'static str> {
    match key {
        "link.bandwidth" => Some("link.generation"),
        "link.generation" => Some("link.bandwidth"),
        _ => None,
    }
}

fn ethernet(config: &Config) -> Option<&Ethernet> {
    config.ethernet.as_ref()
}

fn roce(config: &Config) -> Option<(bool, bool, u32)> {
    match ethernet(config)?.framing {
        Framing::RoceV2 { acks, invalidate, rdma_reads } => Some((acks, invalidate, rdma_reads)),
        Framing::Tcp { .. } => None,
    }
}

/// What the file says of the protocol, which goes without saying for PCIe.
fn protocol(config: &Config) -> Option<LinkProtocolName> {
    match config.link.protocol {
        _ if config.ethernet.is_some() => Some(LinkProtocolName::Ethernet),
        LinkProtocol::Sata => Some(LinkProtocolName::Sata),
        LinkProtocol::Pcie => None,
    }
}

fn sata_generation(config: &Config) -> Option<u32> {
    let is_sata = config.link.protocol == LinkProtocol::Sata;
    is_sata.then(|| (config.link.bytes_per_s / SATA_BYTES_PER_S).max(1).ilog2() + 1)
}

fn rounding(config: &Config) -> RoundingName {
    if config.link.truncate_ns { RoundingName::TruncatedNs } else { RoundingName::Exact }
}

section! {
    /// The link between host and controller. PCIe: `generation` and `lanes`, or `bandwidth`. SATA:
    /// `generation` 1 to 3, for 1.5, 3 and 6 Gb/s. Ethernet: ports in place of either, of 25 Gb/s if
    /// `rate` does not say otherwise.
    Link => Config, shapes Never {
        /// What crosses the link.
        protocol: Maybe<LinkProtocolName> = "pcie",
            writes |config, _| protocol(config).map(quoted);
        /// PCIe generation, 1 to 5, or SATA generation, 1 to 3; with `lanes` it gives the
        /// bandwidth.
        generation: Maybe<u32>, when NOT_ETHERNET, shows |config, _| sata_generation(config);
        /// Bandwidth in each direction, all lanes together, after line coding.
        bandwidth: Maybe<Bandwidth>, in "1MB/s" to "1TB/s", when NOT_ETHERNET | NOT_SATA,
            shows |config, _| Some(config.link.bytes_per_s);
        /// Lanes: 1, 2, 4, 8, 12, 16 or 32. Transfer sizes are rounded up to a multiple.
        lanes: Maybe<u32> = "4", when NOT_ETHERNET | NOT_SATA,
            shows |config, _| Some(config.link.lanes);
        /// Largest payload of one transaction layer packet: a power of two from 128B to 4KiB.
        max_payload: Maybe<Bytes> = "256B", when NOT_ETHERNET | NOT_SATA,
            shows |config, _| Some(config.link.max_payload_bytes);
        /// Header, framing and link layer bytes that accompany each packet. Default: 24B; with
        /// SATA 28B around each frame: SOF, CRC and EOF, and four primitives of handshake.
        packet_overhead: Maybe<Bytes>, in "0B" to "256B", when NOT_ETHERNET,
            shows |config, _| Some(config.link.packet_overhead_bytes);
        /// Size of a submission queue entry on the link; NVMe's is 64B.
        submission_entry: Maybe<Bytes> = "64B", in "64B" to "256B", when NOT_ETHERNET | NOT_SATA,
            shows |config, _| Some(config.link.submission_entry_bytes);
        /// Whether PRP lists are fetched for requests of more than two memory pages.
        fetch_prp_lists: Maybe<bool> = "true", when NOT_ETHERNET | NOT_SATA,
            shows |config, _| Some(config.link.fetch_prp_lists);
        /// Whether read data goes to the host page by page as it comes from the flash (the
        /// default), or all at once when the last page is there.
        stream_data: Maybe<bool> = "true", when NOT_ETHERNET,
            shows |config, _| Some(config.link.stream_data);
        /// From the arrival of a completion queue entry until the host sees it.
        interrupt: Maybe<Duration> = "0", when NOT_ETHERNET,
            shows |config, _| Some(config.link.interrupt);
        /// What the host bus adapter takes for each command, one at a time, and again for each
        /// completion, one at a time.
        adapter: Maybe<Duration> = "0", when NOT_ETHERNET,
            shows |config, _| Some(config.link.adapter);
        /// How transfer times are computed.
        rounding: Maybe<RoundingName> = "exact", when NOT_ETHERNET | NOT_SATA,
            writes |config, _| Some(rounding(config).toml());
        /// Ethernet: bits a second of a port, in each direction.
        rate: Maybe<BitRate> = "25Gbit/s", in "1Gbit/s" to "400Gbit/s", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.rate_bits_per_s);
        /// Ethernet: ports, which queues take in turn.
        ports: Maybe<u32> = "1", in "1" to "2", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.ports);
        /// Ethernet: with RoCE the path MTU, 256, 512, 1024, 2048 or 4096 bytes of payload; with TCP
        /// that of the network, 576 to 9216. Default: 1KiB, with TCP 1500.
        mtu: Maybe<Bytes>, when ETHERNET, shows |config, _| ethernet(config).map(|it| it.mtu_bytes);
        /// Ethernet: whether frames carry a VLAN tag.
        vlan: Maybe<bool> = "false", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.vlan);
        /// Ethernet: whether packets are IPv6's.
        ipv6: Maybe<bool> = "false", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.ipv6);
        /// Ethernet: what carries NVMe.
        framing: Maybe<FramingName> = "rocev2", when ETHERNET,
            writes |config, _| Some(quoted(match ethernet(config)?.framing {
                Framing::RoceV2 { .. } => FramingName::RoceV2,
                Framing::Tcp { .. } => FramingName::Tcp,
            }));
        /// RoCE: whether each message is acknowledged.
        acks: Maybe<bool> = "true", when ETHERNET | ROCE,
            shows |config, _| roce(config).map(|it| it.0);
        /// RoCE: whether responses invalidate the host's memory key.
        invalidate: Maybe<bool> = "false", when ETHERNET | ROCE,
            shows |config, _| roce(config).map(|it| it.1);
        /// RoCE: RDMA READs that a queue pair has outstanding, at most.
        rdma_reads: Maybe<u32> = "16", in "1" to "65536", when ETHERNET | ROCE,
            shows |config, _| roce(config).map(|it| it.2);
        /// NVMe/TCP: whether the last data of a read stand for its completion.
        success_flag: Maybe<bool> = "false", when ETHERNET | NVME_TCP,
            shows |config, _| match ethernet(config)?.framing {
                Framing::Tcp { success_flag } => Some(success_flag),
                Framing::RoceV2 { .. } => None,
            };
        /// Ethernet: write data that come within the command, at most. Default: 4KiB, with TCP 8KiB.
        in_capsule: Maybe<Bytes>, in "0B" to "1MiB", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.in_capsule_bytes);
        /// Ethernet: queue pairs take turns on the wire after so many bytes.
        burst: Maybe<Bytes> = "4KiB", in "256B" to "1MiB", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.burst_bytes);
        /// Ethernet: the largest transfer of a command, a multiple of 512. The default is that of
        /// nvme-rdma in Linux 4.19.
        max_transfer: Maybe<Bytes> = "1020KiB", in "512B" to "1GiB", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.max_transfer_bytes);
        /// Ethernet: what passes on the wire after each packet, beside the standard's gap.
        gap: Maybe<Duration> = "0", in "0" to "1s", when ETHERNET,
            shows |config, _| ethernet(config).map(|it| it.gap);
        /// Ethernet: the network interface. Default: it costs nothing.
        nic: Maybe<Nic>, when ETHERNET, inner |config, _| ethernet(config).map(|it| &it.nic);
        /// Ethernet: the bus behind it. Default: it costs nothing.
        axi: Maybe<Axi>, when ETHERNET, inner |config, _| ethernet(config)?.axi.as_ref();
        /// Ethernet: the NVMe-oF target. Default: it costs nothing.
        target: Maybe<Target>, when ETHERNET,
            inner |config, _| ethernet(config).map(|it| &it.target);
    }
}

/// What stands for the link that an Ethernet drive does not have.
const NO_LINK: config::Link = config::Link {
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
};

impl Link {
    pub(crate) fn lower_pci(&self, check: &mut Check<'_>, file: &File) -> config::Link {
        match self.protocol(check) {
            LinkProtocolName::Ethernet => NO_LINK,
            LinkProtocolName::Sata => self.sata(check, file),
            LinkProtocolName::Pcie => self.pcie(check, file),
        }
    }

    fn pcie(&self, check: &mut Check<'_>, file: &File) -> config::Link {
        let lanes = self.lanes(check);
        if let Some(at) = self.lanes.as_ref()
            && ![1, 2, 4, 8, 12, 16, 32].contains(&lanes)
        {
            check.wrong(
                format!("a PCIe link cannot have {lanes} lanes"),
                at,
                "no such link",
                Some("valid: 1, 2, 4, 8, 12, 16, 32".to_owned()),
            );
        }
        let max_payload_bytes: u32 = self.max_payload(check);
        if let Some(at) = &self.max_payload
            && (!max_payload_bytes.is_power_of_two() || !(128..=4096).contains(&max_payload_bytes))
        {
            check.wrong(
                format!("`link.max_payload` cannot be {}", at.get()),
                at,
                "no such payload",
                Some("valid: 128B, 256B, 512B, 1KiB, 2KiB, 4KiB".to_owned()),
            );
        }
        let rounding: RoundingName = self.rounding(check);
        config::Link {
            protocol: LinkProtocol::Pcie,
            adapter: self.adapter(check),
            bytes_per_s: self.bytes_per_s(check, file, lanes),
            lanes,
            max_payload_bytes,
            packet_overhead_bytes: self.packet_overhead(check).unwrap_or(24),
            submission_entry_bytes: self.submission_entry(check),
            fetch_prp_lists: self.fetch_prp_lists(check),
            stream_data: self.stream_data(check),
            interrupt: self.interrupt(check),
            truncate_ns: rounding == RoundingName::TruncatedNs,
        }
    }

    fn sata(&self, check: &mut Check<'_>, file: &File) -> config::Link {
        let bytes_per_s = match self.generation.as_ref().map(At::get) {
            Some(generation @ 1..=3) => SATA_BYTES_PER_S << (generation - 1),
            _ => {
                check.at(
                    self.generation.as_ref().map_or(file.link.span(), At::span),
                    "a SATA link has generation 1, 2 or 3".to_owned(),
                    "1.5, 3 or 6 Gb/s",
                    Some("for example `generation = 3`".to_owned()),
                );
                SATA_BYTES_PER_S << 2
            }
        };
        config::Link {
            protocol: LinkProtocol::Sata,
            adapter: self.adapter(check),
            bytes_per_s,
            lanes: 1,
            max_payload_bytes: 8192,
            packet_overhead_bytes: self.packet_overhead(check).unwrap_or(28),
            submission_entry_bytes: 64,
            fetch_prp_lists: false,
            stream_data: self.stream_data(check),
            interrupt: self.interrupt(check),
            truncate_ns: false,
        }
    }

    /// Bytes a second, from the bandwidth or from the generation and the lanes; the one that
    /// was given later if both were.
    fn bytes_per_s(&self, check: &mut Check<'_>, file: &File, lanes: u32) -> u64 {
        let by_generation = match (&self.generation, &self.bandwidth) {
            (Some(generation), Some(bandwidth)) => {
                let layer = |span| check.document.layer(&span);
                let (generation, given) = (layer(generation.span()), layer(bandwidth.span()));
                if generation == given {
                    check.wrong(
                        "`link.bandwidth` contradicts `link.generation`",
                        bandwidth,
                        "given twice",
                        Some("give one of them".to_owned()),
                    );
                }
                generation > given
            }
            (generation, _) => generation.is_some(),
        };
        if let Some(generation) = self.generation.as_ref().filter(|_| by_generation) {
            let lane_bytes_per_s: u128 = match generation.get() {
                1 => 250_000_000,
                2 => 500_000_000,
                // 8 GT/s and its doubles with 128b/130b coding, in 130ths of a byte.
                g @ 3..=5 => {
                    let gts = 8_000_000_000u128 << (g - 3);
                    return (gts * 128 * u128::from(lanes) / (130 * 8)) as u64;
                }
                other => {
                    let valid = "valid: 1 to 5; later ones send fixed-size units: give `bandwidth`";
                    check.wrong(
                        format!("there is no PCIe generation {other} here"),
                        generation,
                        "not known",
                        Some(valid.to_owned()),
                    );
                    1
                }
            };
            return (lane_bytes_per_s * u128::from(lanes)) as u64;
        }
        self.bandwidth(check).unwrap_or_else(|| {
            check.at(
                file.link.span(),
                "the link has no bandwidth".to_owned(),
                "it belongs here",
                Some("add `generation = 4` and `lanes = 4`, or `bandwidth = \"…\"`".to_owned()),
            );
            0
        })
    }

    pub(crate) fn lower_ethernet(&self, check: &mut Check<'_>, file: &File) -> Option<Ethernet> {
        if self.protocol(check) != LinkProtocolName::Ethernet {
            return None;
        }
        let framing = match self.framing(check) {
            FramingName::RoceV2 => Framing::RoceV2 {
                acks: self.acks(check),
                invalidate: self.invalidate(check),
                rdma_reads: self.rdma_reads(check),
            },
            FramingName::Tcp => Framing::Tcp { success_flag: self.success_flag(check) },
        };
        let (mtu, in_capsule) = match framing {
            Framing::RoceV2 { .. } => (ROCE_MTU, ROCE_IN_CAPSULE),
            Framing::Tcp { .. } => (TCP_MTU, TCP_IN_CAPSULE),
        };
        let mtu_bytes = self.mtu(check).unwrap_or(mtu);
        self.check_mtu(check, matches!(framing, Framing::RoceV2 { .. }), mtu_bytes);
        let max_transfer_bytes: u32 = self.max_transfer(check);
        if let Some(at) =
            self.max_transfer.as_ref().filter(|_| !max_transfer_bytes.is_multiple_of(512))
        {
            let message = "`link.max_transfer` is no multiple of 512, which transfers are";
            check.wrong(message, at, "not whole sectors", None);
        }
        Some(Ethernet {
            rate_bits_per_s: self.rate(check),
            ports: self.ports(check),
            framing,
            mtu_bytes,
            vlan: self.vlan(check),
            ipv6: self.ipv6(check),
            in_capsule_bytes: self.in_capsule(check).unwrap_or(in_capsule),
            burst_bytes: self.burst(check),
            max_transfer_bytes,
            gap: self.gap(check),
            nic: self.nic.as_ref().map(|at| at.get().lower(check, file)).unwrap_or_default(),
            axi: self.axi.as_ref().map(|at| at.get().lower_checked(check, file)),
            target: match &self.target {
                Some(at) => at.get().lower_layers(check, max_transfer_bytes),
                None => config::Target::default(),
            },
        })
    }

    fn check_mtu(&self, check: &mut Check<'_>, is_roce: bool, mtu: u32) {
        let Some(at) = &self.mtu else { return };
        if is_roce && !(mtu.is_power_of_two() && (256..=4096).contains(&mtu)) {
            let message = format!("`link.mtu` cannot be {} with RoCE", at.get());
            let valid = "valid: 256B, 512B, 1KiB, 2KiB, 4KiB".to_owned();
            check.wrong(message, at, "no path MTU", Some(valid));
        } else if !is_roce && !(576..=9216).contains(&mtu) {
            let message = format!("`link.mtu` cannot be {}", at.get());
            check.wrong(message, at, "out of range", Some("valid: 576 to 9216".to_owned()));
        }
    }
}
