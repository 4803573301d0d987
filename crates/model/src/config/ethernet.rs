//! An Ethernet link: the drive has network ports in place of PCIe, and runs the NVMe-oF target
//! itself (EEMU, section II).

use super::ConfigError;
use mynah_stamp::{Span, Stage};
use serde::{Deserialize, Serialize};

/// Ports, network interface, bus and target of a drive. What is not there costs nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ethernet {
    /// Bits a second of a port, in each direction: 1 to 400 Gb/s.
    pub rate_bits_per_s: u64,
    /// Ports, 1 or 2. Queue pairs take them in turn, unless they say which.
    pub ports: u32,
    /// NVMe over RDMA (RoCEv2) or over TCP.
    pub framing: Framing,
    /// With RoCE the path MTU, which counts payload alone; with TCP the MTU of the network.
    pub mtu_bytes: u32,
    /// Whether frames carry a VLAN tag.
    pub vlan: bool,
    /// Whether packets are IPv6's.
    pub ipv6: bool,
    /// Write data that come within the command capsule, at most.
    pub in_capsule_bytes: u32,
    /// Queue pairs take turns on the wire after so many bytes.
    pub burst_bytes: u32,
    /// The largest transfer of a command.
    pub max_transfer_bytes: u32,
    /// What passes on the wire after each packet, beside the gap of the standard.
    pub gap: Span,
    pub nic: Nic,
    /// The bus between the interface, the DRAM and the flash controllers.
    pub axi: Option<Axi>,
    pub target: Target,
}

/// What carries NVMe over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Framing {
    /// RDMA over UDP (RoCEv2).
    RoceV2 {
        /// Whether each message is acknowledged by a packet.
        acks: bool,
        /// Whether responses invalidate the host's memory key (SEND with Invalidate).
        invalidate: bool,
        /// RDMA READs that a queue pair has outstanding, at most.
        rdma_reads: u32,
    },
    /// NVMe/TCP. Acknowledgements are not counted: they ride on what goes the other way.
    Tcp {
        /// Whether the last data PDU of a read stands for its completion (the SUCCESS flag).
        success_flag: bool,
    },
}

/// The network interface: a pipeline with the wire, one packet after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// For each packet that comes.
    pub receive: Span,
    /// For each packet that goes.
    pub transmit: Span,
    /// The control plane's cost of each message, either way.
    pub message: Span,
    /// Whether a packet's cost and its time on the wire follow one another; they overlap
    /// otherwise, as the next packet's cost overlaps with this one's time.
    pub serial: bool,
}

/// A memory-mapped AXI4 bus. What crosses it: capsules, data and responses between interface and
/// DRAM, and data between DRAM and flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axi {
    /// Bytes of a beat: 1 to 128.
    pub width_bytes: u32,
    /// Beats a second.
    pub clock_hz: u64,
    /// How a transfer's time is counted.
    pub counting: AxiCounting,
    /// Time that arbitration takes before each transfer.
    pub arbitration: Span,
}

/// How the time of a transfer is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AxiCounting {
    /// A cycle for each beat, and a setup for each burst.
    Bursts {
        /// Beats of a burst, at most: 1 to 256 (ARM IHI 0022, incrementing bursts).
        beats: u32,
        /// What bursts do not cross: 4 KiB in AXI4. `None`: they cross it.
        boundary_bytes: Option<u32>,
        /// Time added to each burst.
        setup: Span,
    },
    /// As SimpleSSD (util/interface.cc): two cycles for each beat and three for each burst, bursts
    /// being powers of two that end at 4 KiB.
    SimpleSsd,
}

/// The NVMe-oF target that runs in the drive's controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Cores that the layers without engines of their own share, one command at a time.
    pub cores: Option<u32>,
    /// Commands that can be received before they are answered, of all queue pairs.
    pub receive_buffers: Option<u32>,
    /// Commands that can have data in memory.
    pub data_buffers: Option<u32>,
    /// What commands pass inwards, in the order of [`TargetLayer::ALL`], and outwards in the other;
    /// those that are not there are bypassed.
    pub layers: [Option<Layer>; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TargetLayer {
    /// RDMA or TCP transport.
    Transport,
    /// Parsing of capsules.
    Capsule,
    /// Scheduling and dispatch of the block layer.
    BlockLayer,
    /// Submission and completion queues of NVMe.
    NvmeLayer,
}

impl TargetLayer {
    /// All of them, in the order in which a command comes to them.
    pub const ALL: [TargetLayer; 4] = [
        TargetLayer::Transport,
        TargetLayer::Capsule,
        TargetLayer::BlockLayer,
        TargetLayer::NvmeLayer,
    ];

    /// The stage that its time counts as.
    pub fn stage(self) -> Stage {
        match self {
            TargetLayer::Transport => Stage::Transport,
            TargetLayer::Capsule => Stage::Capsule,
            TargetLayer::BlockLayer => Stage::BlockLayer,
            TargetLayer::NvmeLayer => Stage::NvmeLayer,
        }
    }

    /// Its name in drive files.
    pub fn name(self) -> &'static str {
        self.stage().name()
    }
}

/// Processing times of a target layer, and who does the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// For a command on its way in.
    pub input: Cost,
    /// For its response on the way out.
    pub output: Cost,
    /// Engines that do nothing else; without them the target's cores do it, and without those one
    /// engine.
    pub engines: Option<u32>,
    /// Whether it is done in one go with the layer before.
    pub merged: bool,
}

/// A time that depends on the bytes a command moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Cost {
    /// A part for each command and one for each byte.
    Affine { fixed: Span, per_byte: Span },
    /// Times by bytes, which ascend; between two of them on a straight line, below the first the
    /// first.
    Table(Vec<(u32, Span)>),
}

impl Cost {
    pub const NOTHING: Cost = Cost::Affine { fixed: Span::ZERO, per_byte: Span::ZERO };

    /// For so many bytes. Beyond a table, its last time.
    pub fn of(&self, bytes: u32) -> Span {
        let table = match self {
            Cost::Affine { fixed, per_byte } => return *fixed + per_byte.times(bytes.into()),
            Cost::Table(table) => table,
        };
        let above = table.partition_point(|&(size, _)| size < bytes);
        let Some(&(to, end)) = table.get(above) else {
            return table.last().map_or(Span::ZERO, |&(_, time)| time);
        };
        let Some(&(from, start)) = above.checked_sub(1).and_then(|at| table.get(at)) else {
            return end;
        };
        let share = |time: Span, of: u32| u128::from(time.as_ps()) * u128::from(of);
        let sum = share(start, to - bytes) + share(end, bytes - from);
        Span::from_ps((sum / u128::from(to - from)) as u64)
    }
}

impl Default for Ethernet {
    /// A bare wire: one port of 25 Gb/s, RoCEv2, nothing behind it.
    fn default() -> Ethernet {
        Ethernet {
            rate_bits_per_s: 25_000_000_000,
            ports: 1,
            framing: Framing::RoceV2 { acks: true, invalidate: false, rdma_reads: 16 },
            mtu_bytes: 1024,
            vlan: false,
            ipv6: false,
            in_capsule_bytes: 4096,
            burst_bytes: 4096,
            max_transfer_bytes: 1020 * 1024,
            gap: Span::ZERO,
            nic: Nic::default(),
            axi: None,
            target: Target::default(),
        }
    }
}

impl Ethernet {
    /// Says why such a link cannot be built, if it cannot.
    ///
    /// # Errors
    /// The field at fault, and what would be valid.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |key, problem: String| Err(ConfigError { key, problem });
        let within = |key, value: u64, least: u64, most: u64| match (least..=most).contains(&value)
        {
            true => Ok(()),
            false => fail(key, format!("{value} is not within {least} to {most}")),
        };
        within("link.rate", self.rate_bits_per_s, 1_000_000_000, 400_000_000_000)?;
        within("link.ports", self.ports.into(), 1, 2)?;
        let mtu = u64::from(self.mtu_bytes);
        match self.framing {
            Framing::RoceV2 { rdma_reads, .. } => {
                if !(mtu.is_power_of_two() && (256..=4096).contains(&mtu)) {
                    let problem = format!("{mtu} is not 256, 512, 1024, 2048 or 4096");
                    return fail("link.mtu", problem);
                }
                within("link.rdma_reads", rdma_reads.into(), 1, 65_536)?;
            }
            Framing::Tcp { .. } => within("link.mtu", mtu, 576, 9216)?,
        }
        within("link.in_capsule", self.in_capsule_bytes.into(), 0, 1 << 20)?;
        within("link.burst", self.burst_bytes.into(), 256, 1 << 20)?;
        within("link.max_transfer", self.max_transfer_bytes.into(), 512, 1 << 30)?;
        let a_second = |key, span: Span| within(key, span.as_ps(), 0, 1_000_000_000_000);
        a_second("link.gap", self.gap)?;
        a_second("link.nic.receive", self.nic.receive)?;
        a_second("link.nic.transmit", self.nic.transmit)?;
        a_second("link.nic.message", self.nic.message)?;
        if let Some(axi) = &self.axi {
            within("link.axi.width_bits", u64::from(axi.width_bytes) * 8, 8, 1024)?;
            within("link.axi.clock", axi.clock_hz, 1_000_000, 10_000_000_000)?;
            a_second("link.axi.arbitration", axi.arbitration)?;
            if let AxiCounting::Bursts { beats, boundary_bytes, setup } = axi.counting {
                within("link.axi.beats", beats.into(), 1, 256)?;
                within("link.axi.boundary", boundary_bytes.unwrap_or(64).into(), 64, 1 << 20)?;
                a_second("link.axi.setup", setup)?;
            }
        }
        self.target.check(self.max_transfer_bytes)
    }
}

impl Target {
    fn check(&self, max_transfer: u32) -> Result<(), ConfigError> {
        let fail = |key, problem: String| Err(ConfigError { key, problem });
        let counts = [
            ("link.target.cores", self.cores, 1024),
            ("link.target.receive_buffers", self.receive_buffers, 1 << 20),
            ("link.target.data_buffers", self.data_buffers, 1 << 20),
        ];
        for (key, count, most) in counts {
            if count.is_some_and(|count| !(1..=most).contains(&count)) {
                return fail(key, format!("it is not within 1 to {most}"));
            }
        }
        for layer in self.layers.iter().flatten() {
            if layer.engines.is_some_and(|engines| !(1..=1024).contains(&engines)) {
                return fail("link.target", "a layer has 1 to 1024 engines".into());
            }
            for cost in [&layer.input, &layer.output] {
                let Cost::Table(table) = cost else { continue };
                let ascends = table.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if table.is_empty() || !ascends {
                    return fail("link.target", "the bytes of a cost do not ascend".into());
                }
                if table.last().is_some_and(|&(bytes, _)| bytes < max_transfer) {
                    let problem =
                        format!("a cost ends before the largest transfer, {max_transfer}");
                    return fail("link.target", problem);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_on_straight_lines() {
        let ns = Span::from_ns;
        let cost = Cost::Table(vec![(512, ns(100)), (1024, ns(200)), (4096, ns(500))]);
        let of = [0, 512, 768, 1024, 2560, 4096].map(|bytes| cost.of(bytes));
        assert_eq!(of, [ns(100), ns(100), ns(150), ns(200), ns(350), ns(500)]);
        let affine = Cost::Affine { fixed: ns(7), per_byte: Span::from_ps(250) };
        assert_eq!(affine.of(4096), ns(7 + 1024));
    }
}
