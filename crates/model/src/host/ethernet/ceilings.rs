//! What each resource of an Ethernet link allows at most: the next bottleneck at a glance.

use super::bus;
use super::frames::{Burst, Frames, Message};
use crate::config::{Config, Ethernet, Framing, TargetLayer};
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

/// What is asked of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whether commands are writes; reads otherwise.
    pub writes: bool,
    /// Bytes that each command transfers.
    pub bytes: u32,
}

/// How many commands a second a resource allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    pub resource: String,
    /// What a command takes of it.
    pub cost: Span,
    /// Instances of the resource that work in parallel.
    pub count: u32,
}

impl Ceiling {
    pub fn per_s(&self) -> f64 {
        f64::from(self.count) * 1e12 / self.cost.as_ps() as f64
    }
}

/// What the link's resources allow, whatever the flash does; those that a command needs nothing of
/// are left out. Nothing of a drive without an Ethernet link.
pub fn ceilings(config: &Config, asked: Asked) -> Vec<Ceiling> {
    let Some(ethernet) = &config.ethernet else { return vec![] };
    let mut found = vec![];
    let mut add = |resource: &str, cost: Span, count: u32| {
        if !cost.is_zero() {
            found.push(Ceiling { resource: resource.into(), cost, count });
        }
    };
    let [down, up] = lines(ethernet, asked);
    for (line, wire, nic) in
        [(down, "wire, to the drive", "nic, receive"), (up, "wire, to the host", "nic, transmit")]
    {
        add(wire, line.wire, ethernet.ports);
        add(nic, line.nic, ethernet.ports);
    }
    if let Some(axi) = &ethernet.axi {
        let inline = asked.bytes <= ethernet.in_capsule_bytes;
        let crossings = match asked.writes {
            true if inline => [64 + asked.bytes, 0, 16, asked.bytes],
            true => [64, asked.bytes, 16, asked.bytes],
            false => [64, asked.bytes, 0, asked.bytes],
        };
        let times = crossings.into_iter().filter(|&bytes| bytes > 0);
        add("axi", times.map(|bytes| bus::time(axi, bytes)).sum(), 1);
    }
    let mut shared = Span::ZERO;
    let mut own: Vec<(TargetLayer, Span, Option<u32>)> = vec![];
    for (layer, config) in TargetLayer::ALL.into_iter().zip(&ethernet.target.layers) {
        let Some(config) = config else { continue };
        let time = config.input.of(asked.bytes) + config.output.of(asked.bytes);
        match own.last_mut() {
            Some((_, before, _)) if config.merged => *before += time,
            _ => own.push((layer, time, config.engines)),
        }
    }
    for (layer, time, engines) in own {
        match (engines, ethernet.target.cores) {
            (None, Some(_)) => shared += time,
            (engines, _) => add(layer.name(), time, engines.unwrap_or(1)),
        }
    }
    add("target cores", shared, ethernet.target.cores.unwrap_or(1));
    found
}

/// Bytes on a wire for a command, acknowledgements of what went the other way included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireBytes {
    /// The command, and data within it.
    pub command: u32,
    /// What asks for data, and the data; 0 where nothing is asked for.
    pub request: u32,
    /// Data sent upon `request`; 0 where nothing is asked for.
    pub data: u32,
    /// Data of a read, and the response.
    pub answer: u32,
}

/// What a command is on the wire of such a link.
pub fn wire_bytes(ethernet: &Ethernet, asked: Asked) -> WireBytes {
    let frames = Frames::new(ethernet);
    let of = |message: Message| {
        let shape = frames.shape(message);
        (frames.whole(&shape).bytes, shape.acks * frames.ack_bytes())
    };
    let inline = asked.writes && asked.bytes <= ethernet.in_capsule_bytes;
    let (command, command_acks) = of(Message::Capsule(if inline { asked.bytes } else { 0 }));
    let (answer, answer_acks) = match asked.writes {
        false => of(Message::ReadReply(asked.bytes)),
        true => of(Message::Reply { keyed: !inline }),
    };
    let (request, data) = match asked.writes && !inline {
        true => (of(Message::DataRequest).0, of(Message::WriteData(asked.bytes)).0),
        false => (0, 0),
    };
    WireBytes { command: command + answer_acks, request, data, answer: answer + command_acks }
}

/// What a command takes of a direction.
#[derive(Serialize, Deserialize)]
struct Line {
    wire: Span,
    nic: Span,
}

fn lines(ethernet: &Ethernet, asked: Asked) -> [Line; 2] {
    let frames = Frames::new(ethernet);
    let bytes = asked.bytes;
    let (down, up) = match asked.writes {
        false => (vec![Message::Capsule(0)], vec![Message::ReadReply(bytes)]),
        true if bytes <= ethernet.in_capsule_bytes => {
            (vec![Message::Capsule(bytes)], vec![Message::Reply { keyed: false }])
        }
        true => (
            vec![Message::Capsule(0), Message::WriteData(bytes)],
            vec![Message::DataRequest, Message::Reply { keyed: true }],
        ),
    };
    let acks = |messages: &[Message]| -> u32 {
        let all = messages.iter().map(|&message| frames.shape(message).acks);
        if matches!(ethernet.framing, Framing::RoceV2 { .. }) { all.sum() } else { 0 }
    };
    let line = |messages: &[Message], acks: u32, packet: Span| {
        let bursts: Vec<Burst> =
            messages.iter().map(|&message| frames.whole(&frames.shape(message))).collect();
        let packets = bursts.iter().map(|burst| burst.packets).sum::<u32>() + acks;
        let bytes = bursts.iter().map(|burst| burst.bytes).sum::<u32>();
        let work = packet.times(packets.into()) + ethernet.nic.message.times(bursts.len() as u64);
        let ack = frames.time(frames.ack_bytes()).times(acks.into());
        let wire = frames.time(bytes) + ack + ethernet.gap.times(packets.into());
        match ethernet.nic.serial {
            true => Line { wire: wire + work, nic: Span::ZERO },
            false => Line { wire, nic: work },
        }
    };
    let (acked_down, acked_up) = (acks(&up), acks(&down));
    [line(&down, acked_down, ethernet.nic.receive), line(&up, acked_up, ethernet.nic.transmit)]
}
