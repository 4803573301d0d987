//! An Ethernet link: ports, network interface, AXI bus and NVMe-oF target (EEMU, section II).
//!
//! A command's way is a list of hops ([`Hop`]), made when the drive is built: what costs nothing is
//! not in it. Each hop that takes time ends with one event. What is counted here of a command's
//! time ([`LinkSpans`]) is kept beside the command, so that commands on other links carry none of
//! it.
//!
//! | way | what happens |
//! |---|---|
//! | request | the capsule on the wire, a receive buffer, the bus, transport and capsule layers |
//! | data | of a write beyond the capsule: a data buffer, the RDMA READ, its answer, the bus |
//! | execute | of a read: a data buffer; then block and NVMe layers, and the drive itself |
//! | reply with data | the layers outwards, the bus, RDMA WRITE and response on the wire |
//! | reply | the layers outwards, the bus, the response on the wire |

mod buffers;
mod bus;
pub mod ceilings;
pub(crate) mod frames;
mod layers;
mod line;
pub mod packets;
mod path;

use crate::config::{self, Framing, TargetLayer};
use crate::io::Completed;
use crate::kernel::pool::PoolIndex;
use crate::number::CommandIndex;
use crate::observe::blame::HolderIndex;
use buffers::Buffers;
use bus::Bus;
use frames::Frames;
use layers::Layers;
use line::Line;
use mynah_stamp::{LinkSpans, Span, Time};
use packets::{Leg, Packet};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Load {
    Capsule,
    Data,
    Response,
    /// Data between flash and DRAM, which have been booked already.
    Flash,
}

/// Limited resources that a command takes and gives back; a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
enum Counted {
    Receive = 1,
    Data = 2,
    RdmaRead = 4,
}

/// A step of a command's path through the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Hop {
    Line(Leg),
    Bus(Load),
    Layers {
        group: u8,
        outward: bool,
    },
    Take(Counted),
    Give(Counted),
    /// Until the host's data are at the port, where somebody between them says when.
    Hold,
    /// The path goes on at another hop.
    Goto(u16),
    End(End),
}

/// What happens at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    /// The command is known: it needs its data first, or not.
    Parsed,
    /// The controller executes the command.
    Controller,
    /// The host has the response.
    Complete,
}

/// Where each path begins in the list of hops.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Starts {
    data: u16,
    /// Where the path goes on once write data are at the port.
    arrived: u16,
    read: u16,
    execute: u16,
    reply_with_data: u16,
    reply: u16,
}

/// What is kept of a command beside the command.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Passage {
    spans: LinkSpans,
    /// What of the present hop's time is the interface's.
    nic: Span,
    /// The end of the present hop that is the response's.
    close: Span,
    /// When its data are in DRAM.
    ready: Time,
    /// Whether its data are awaited at the port.
    held: bool,
    /// Whether it has left the controller, and its answer is on the way.
    answered: bool,
    /// What it holds, a bit of [`Counted`] each.
    holds: u8,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Ethernet {
    config: config::Ethernet,
    frames: Frames,
    hops: Vec<Hop>,
    starts: Starts,
    /// Towards the drive and towards the host, of each port.
    lines: Vec<[Line; 2]>,
    bus: Option<Bus>,
    layers: Layers,
    receive: Option<Buffers>,
    data: Option<Buffers>,
    /// RDMA READs each queue pair may have outstanding.
    rdma_reads: Vec<Buffers>,
    /// The port of each queue pair, by its place; and how many have been given one.
    ports: Vec<u8>,
    given: u32,
    passages: Vec<Passage>,
    /// Whether somebody says when data that were asked for are at the port.
    pub(super) holds_data: bool,
    /// The completion that was polled last, as an output of its own.
    pub(super) polled: Option<Completed>,
    /// The packets that nobody has taken yet, if anybody wants to.
    #[serde(skip)]
    recorded: Option<Vec<Packet>>,
}

const DOWN: usize = 0;
const UP: usize = 1;

impl Ethernet {
    pub(crate) fn new(config: &config::Ethernet) -> Ethernet {
        let frames = Frames::new(config);
        let layers = Layers::new(&config.target);
        let (hops, starts) = paths(config, &layers);
        Ethernet {
            lines: (0..config.ports)
                .map(|_| [false, true].map(|sends| Line::new(config, &frames, sends)))
                .collect(),
            bus: config.axi.map(Bus::new),
            receive: config.target.receive_buffers.map(Buffers::new),
            data: config.target.data_buffers.map(Buffers::new),
            rdma_reads: vec![],
            ports: vec![],
            given: 0,
            passages: vec![],
            holds_data: false,
            polled: None,
            recorded: None,
            config: config.clone(),
            frames,
            layers,
            hops,
            starts,
        }
    }

    /// A queue pair at this place of the host interface gets a port: this one, from 1, or the next.
    pub(crate) fn connect(&mut self, queue: u16, port: u8) {
        let at = usize::from(queue);
        if at >= self.ports.len() {
            self.ports.resize(at + 1, 0);
        }
        let ports = self.config.ports;
        self.ports[at] = match port {
            0 => (self.given % ports) as u8,
            port => (port - 1).min(ports as u8 - 1),
        };
        self.given += u32::from(port == 0);
        if let Framing::RoceV2 { rdma_reads, .. } = self.config.framing {
            self.rdma_reads
                .resize_with((at + 1).max(self.rdma_reads.len()), || Buffers::new(rdma_reads));
        }
    }

    /// Where the time of a command went that is none of the drive's other stages.
    pub(crate) fn spans(&self, command: CommandIndex) -> Option<&LinkSpans> {
        self.passages.get(command.index()).map(|passage| &passage.spans)
    }

    /// `answer` tells the host of a command that goes on.
    pub(crate) fn copy_spans(&mut self, command: CommandIndex, answer: CommandIndex) {
        let most = command.index().max(answer.index());
        if most >= self.passages.len() {
            self.passages.resize(most + 1, Passage::default());
        }
        self.passages[answer.index()].spans = self.passages[command.index()].spans;
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        self.layers.grow(holders);
        if let Some(bus) = &mut self.bus {
            bus.fifo.grow(holders);
        }
    }

    /// Drops what is under way.
    pub(crate) fn clear(&mut self, now: Time) {
        self.polled = None;
        self.forget_packets(now);
        self.lines.iter_mut().flatten().for_each(|line| line.clear(now));
        self.layers.clear(now);
        if let Some(bus) = &mut self.bus {
            bus.fifo.clear(now);
        }
        let counted = [&mut self.receive, &mut self.data].into_iter().flatten();
        counted.chain(&mut self.rdma_reads).for_each(Buffers::clear);
    }

    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        let counted = [&self.receive, &self.data].into_iter().flatten();
        self.lines.iter().flatten().all(|line| line.is_at_rest(now))
            && self.layers.is_at_rest(now)
            && self.bus.as_ref().is_none_or(|bus| bus.fifo.free_at() <= now)
            && counted.chain(&self.rdma_reads).all(Buffers::is_full)
    }

    /// How long the wires were busy up to `now`, towards the drive and towards the host: the mean
    /// of the ports.
    pub(crate) fn busy(&self, now: Time) -> [Span; 2] {
        [DOWN, UP].map(|direction| {
            let busy: Span = self.lines.iter().map(|port| port[direction].busy(now)[0]).sum();
            Span::from_ps(busy.as_ps() / self.lines.len() as u64)
        })
    }

    /// Books the bus for data between DRAM and flash; returns until when.
    pub(crate) fn cross_bus(
        &mut self,
        now: Time,
        bytes: u32,
        holder: HolderIndex,
        waits: impl FnMut(HolderIndex, Span),
    ) -> Time {
        let Some(bus) = &mut self.bus else { return now };
        let length = bus.time(bytes);
        bus.fifo.book(now, length, holder, waits).end
    }
}

/// The hops of all paths, one behind the other; that of requests comes first.
fn paths(config: &config::Ethernet, layers: &Layers) -> (Vec<Hop>, Starts) {
    let mut hops = vec![];
    let mut starts = Starts::default();
    let has = |there: bool, hop: Hop| there.then_some(hop);
    let axi = |load| has(config.axi.is_some(), Hop::Bus(load));
    let is_early = |layer: &TargetLayer| *layer <= TargetLayer::Capsule;
    let groups: Vec<(u8, (TargetLayer, [bool; 2]))> = (0..).zip(layers.groups()).collect();
    let inward = |early: bool| {
        let these = groups
            .iter()
            .filter(move |(_, (first, [costs, _]))| *costs && is_early(first) == early);
        these.map(|&(group, _)| Hop::Layers { group, outward: false })
    };
    let receives = config.target.receive_buffers.is_some();
    let buffers = config.target.data_buffers.is_some();
    let reads = matches!(config.framing, Framing::RoceV2 { .. });

    hops.push(Hop::Line(Leg::Capsule));
    hops.extend(has(receives, Hop::Take(Counted::Receive)));
    hops.extend(axi(Load::Capsule));
    hops.extend(inward(true));
    hops.push(Hop::End(End::Parsed));

    starts.read = hops.len() as u16;
    hops.extend(has(buffers, Hop::Take(Counted::Data)));
    starts.execute = hops.len() as u16;
    hops.extend(inward(false));
    hops.push(Hop::End(End::Controller));

    starts.data = hops.len() as u16;
    hops.extend(has(buffers, Hop::Take(Counted::Data)));
    hops.extend(has(reads, Hop::Take(Counted::RdmaRead)));
    hops.push(Hop::Line(Leg::DataRequest));
    hops.push(Hop::Hold);
    starts.arrived = hops.len() as u16;
    hops.push(Hop::Line(Leg::WriteData));
    hops.extend(has(reads, Hop::Give(Counted::RdmaRead)));
    hops.extend(axi(Load::Data));
    hops.push(Hop::Goto(starts.execute));

    let outward = || {
        let all = groups.iter().rev().filter(|(_, (_, [_, costs]))| *costs);
        all.map(|&(group, _)| Hop::Layers { group, outward: true })
    };
    hops.push(Hop::Bus(Load::Flash));
    starts.reply_with_data = hops.len() as u16;
    hops.extend(outward());
    hops.extend(has(receives, Hop::Give(Counted::Receive)));
    hops.extend(axi(Load::Data));
    hops.push(Hop::Line(Leg::ReadReply));
    hops.extend(has(buffers, Hop::Give(Counted::Data)));
    hops.push(Hop::End(End::Complete));

    starts.reply = hops.len() as u16;
    hops.extend(outward());
    hops.extend(has(receives, Hop::Give(Counted::Receive)));
    hops.extend(has(buffers, Hop::Give(Counted::Data)));
    hops.extend(axi(Load::Response));
    hops.push(Hop::Line(Leg::Reply));
    hops.push(Hop::End(End::Complete));
    (hops, starts)
}
