//! The packets that go over the ports, one by one: for captures. Nothing is kept unless it is asked
//! for, and nothing depends on it. What is said is which part of which message a packet carries;
//! what that looks like in bytes is for others to say.

use super::line::OnWire;
use super::{DOWN, Ethernet, Hop, UP};
use crate::drive::{Drive, Policies};
use crate::host::command::Command;
use crate::io::{Direction, QueueId, Request, Status};
use crate::number::CommandIndex;
use mynah_stamp::Time;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Leg {
    /// The command, with data of its own if they fit.
    Capsule,
    /// The drive asks for the data of a write: an RDMA READ, or an R2T.
    DataRequest,
    /// The data of a write, in reply to a [`Leg::DataRequest`].
    WriteData,
    /// The data of a read, and the response behind them.
    ReadReply,
    /// The response alone.
    Reply,
}

/// What of its message a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    Payload {
        /// Offset in the message's payload, in bytes.
        offset: u32,
        /// So much; nothing where the headers say it all.
        length: u32,
        /// Of so much in the whole message.
        of: u32,
    },
    /// The response behind the data of a read, where it is a packet of its own.
    Closing,
    /// Whoever has got the message acknowledges it. It goes the other way.
    Acknowledgement {
        /// Not of the payload, but of [`Part::Closing`].
        of_closing: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// When its last byte is on the wire.
    pub at: Time,
    /// The port, from 1.
    pub port: u8,
    pub direction: Direction,
    pub queue: QueueId,
    /// The command that the packet belongs to.
    pub request: Request,
    /// How the command has ended, in what tells of that.
    pub status: Status,
    pub leg: Leg,
    /// Which part of the message it carries.
    pub part: Part,
    /// On the wire, with all that is around it: preamble, checks, and the gap of the standard.
    pub bytes: u32,
}

impl Packet {
    /// Whether it is the last of its message, or of the payload of one that is closed.
    pub fn ends(&self) -> bool {
        match self.part {
            Part::Payload { offset, length, of } => offset + length == of,
            Part::Closing | Part::Acknowledgement { .. } => true,
        }
    }
}

impl<P: Policies> Drive<P> {
    /// Keeps the packets of an Ethernet link, or stops to; without such a link it does nothing.
    /// What is kept must be taken with [`Drive::take_packets`], or memory runs out.
    pub fn keep_packets(&mut self, keep: bool) {
        if let Some(ethernet) = &mut self.host.ethernet {
            ethernet.recorded = keep.then(Vec::new);
            ethernet.lines.iter_mut().flatten().for_each(|line| line.keep(keep));
        }
    }

    /// The packets that were on the wire by `until`, in order of time. What comes later than now is
    /// certain only if the power does not fail before.
    pub fn take_packets(&mut self, until: Time) -> Vec<Packet> {
        let recorded = self.host.ethernet.as_mut().and_then(|ethernet| ethernet.recorded.as_mut());
        let Some(recorded) = recorded else { return vec![] };
        recorded.sort_by_key(|packet| packet.at);
        let later = recorded.split_off(recorded.partition_point(|packet| packet.at <= until));
        std::mem::replace(recorded, later)
    }
}

impl Ethernet {
    /// A burst was put on a line.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_burst<'a>(
        &mut self,
        port: u8,
        direction: usize,
        command: impl Fn(CommandIndex) -> &'a Command,
    ) {
        let (Some(recorded), Some(line)) =
            (&mut self.recorded, self.lines.get_mut(usize::from(port)))
        else {
            return;
        };
        for OnWire { command: index, hop, at, part, bytes } in line[direction].take() {
            let Hop::Line(leg) = self.hops[usize::from(hop) - 1] else { continue };
            recorded.push(packet(command(index), leg, (port, direction), part, at, bytes));
        }
    }

    /// A message of `c` was acknowledged, by so many packets at these times.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_acks(
        &mut self,
        c: &Command,
        leg: Leg,
        (port, direction): (u8, usize),
        acks: u32,
    ) {
        let Some(recorded) = &mut self.recorded else { return };
        let times = self.lines[usize::from(port)][direction].times_of_acks(acks, &self.frames);
        for (number, at) in times.enumerate() {
            let part = Part::Acknowledgement { of_closing: number > 0 };
            let bytes = self.frames.ack_bytes();
            recorded.push(packet(c, leg, (port, direction), part, at, bytes));
        }
    }

    /// What was on its way at `now` never comes.
    pub(super) fn forget_packets(&mut self, now: Time) {
        if let Some(recorded) = &mut self.recorded {
            recorded.retain(|packet| packet.at <= now);
        }
    }
}

fn packet(
    c: &Command,
    leg: Leg,
    (port, direction): (u8, usize),
    part: Part,
    at: Time,
    bytes: u32,
) -> Packet {
    let direction = [(DOWN, Direction::FromHost), (UP, Direction::ToHost)][direction].1;
    Packet {
        at,
        port: port + 1,
        direction,
        queue: c.completion.queue,
        request: c.request,
        status: c.completion.status,
        leg,
        part,
        bytes,
    }
}
