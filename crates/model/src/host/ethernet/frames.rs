//! NVMe-oF messages as packets: how many bytes they are on the wire, and how long those take.
//!
//! RoCEv2, for each packet: preamble and start of frame 8, Ethernet header 14, IPv4 20 (IPv6 40),
//! UDP 8, base transport header 12, invariant CRC 4, frame check 4, gap between packets 12; a VLAN
//! tag is 4 more (IEEE 802.3; InfiniBand Architecture Specification 1.4, annex A17). The first
//! packet of an RDMA WRITE and the request of an RDMA READ carry a RETH of 16, the first and the
//! last packet of the answer to an RDMA READ and an acknowledgement an AETH of 4, a SEND with
//! Invalidate an IETH of 4 (section 9.3).
//!
//! NVMe/TCP: 38 around each IP packet, IPv4 20 (IPv6 40), TCP 20 and 12 of timestamps (RFC 7323);
//! PDUs follow one another in the stream: a command 72 and the data within it, an R2T 24, data 24
//! and the data, a response 24 (NVMe/TCP Transport Specification 1.0, section 3.6).

use crate::config::{Ethernet, Framing};
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

/// A submission queue entry, and a completion queue entry.
const COMMAND_BYTES: u32 = 64;
const RESPONSE_BYTES: u32 = 16;
const RETH_BYTES: u32 = 16;
const AETH_BYTES: u32 = 4;
const IETH_BYTES: u32 = 4;
const VLAN_BYTES: u32 = 4;
/// What IPv6's header has more than IPv4's.
const IPV6_BYTES: u32 = 20;
/// Around the payload of a RoCEv2 packet over IPv4.
const ROCE_BYTES: u32 = 82;
/// Around an IP packet; IPv4's and TCP's headers.
const ETHERNET_BYTES: u32 = 38;
const TCP_BYTES: u32 = 52;
const TCP_COMMAND_BYTES: u32 = 72;
const TCP_HEADER_BYTES: u32 = 24;

/// What goes over the wire for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The command, with so many bytes of its data.
    Capsule(u32),
    /// The drive asks for the data of a write: an RDMA READ, or an R2T.
    DataRequest,
    /// The data of a write, in reply to a [`Message::DataRequest`].
    WriteData(u32),
    /// The data of a read and the response behind them.
    ReadReply(u32),
    /// The response alone; whether the host's memory key was used.
    Reply { keyed: bool },
}

/// A message, as what its packets carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) payload: u32,
    /// More in the first packet, and in the last if there are several.
    head: u32,
    tail: u32,
    /// A packet of its own behind it: its bytes on the wire, or 0.
    close: u32,
    /// Packets by which the other end acknowledges it.
    pub(crate) acks: u32,
}

/// Some packets of a message, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) payload: u32,
    pub(crate) packets: u32,
    /// Bytes on the wire, headers and gaps included.
    pub(crate) bytes: u32,
    /// Of them those of the first packet, of the last, and of the packet that closes the message.
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) close: u32,
}

/// Packet sizes and overheads of the link's framing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Frames {
    framing: Framing,
    /// Bytes around the payload of a packet, and the most payload of one.
    around: u32,
    most: u32,
    /// Payload that goes in one turn: whole packets.
    turn: u32,
    rate: u64,
    /// Picoseconds of a byte, if they are whole.
    byte: Option<u64>,
}

impl Frames {
    pub(crate) fn new(config: &Ethernet) -> Frames {
        let more = VLAN_BYTES * u32::from(config.vlan) + IPV6_BYTES * u32::from(config.ipv6);
        let (around, most) = match config.framing {
            Framing::RoceV2 { .. } => (ROCE_BYTES + more, config.mtu_bytes),
            Framing::Tcp { .. } => (
                ETHERNET_BYTES + TCP_BYTES + more,
                config.mtu_bytes - TCP_BYTES - IPV6_BYTES * u32::from(config.ipv6),
            ),
        };
        let rate = config.rate_bits_per_s;
        let byte = BITS_PS.is_multiple_of(rate).then_some(BITS_PS / rate);
        let turn = (config.burst_bytes / most).max(1) * most;
        Frames { framing: config.framing, around, most, turn, rate, byte }
    }

    /// How long so many bytes take on the wire.
    #[inline]
    pub(crate) fn time(&self, bytes: u32) -> Span {
        match self.byte {
            Some(ps) => Span::from_ps(u64::from(bytes) * ps),
            None => Span::from_ps((u64::from(bytes) * BITS_PS).div_ceil(self.rate)),
        }
    }

    /// The time on the wire of what one turn carries, with a response behind it and so long a gap
    /// after each packet.
    pub(crate) fn turn_time(&self, gap: Span) -> Span {
        let packets = self.turn / self.most + 1;
        let more = RETH_BYTES + RESPONSE_BYTES + IETH_BYTES;
        self.time(self.turn + packets * self.around + more) + gap.times(packets.into())
    }

    /// An acknowledgement, on the wire.
    pub(crate) fn ack_bytes(&self) -> u32 {
        self.around + AETH_BYTES
    }

    pub(crate) fn shape(&self, message: Message) -> Shape {
        let (acked, invalidate) = match self.framing {
            Framing::RoceV2 { acks, invalidate, .. } => (u32::from(acks), invalidate),
            Framing::Tcp { success_flag } => return stream(message, success_flag),
        };
        let key = |used: bool| if used && invalidate { IETH_BYTES } else { 0 };
        let plain = Shape { acks: acked, ..Shape::default() };
        match message {
            Message::Capsule(inline) => Shape { payload: COMMAND_BYTES + inline, ..plain },
            Message::DataRequest => Shape { head: RETH_BYTES, acks: 0, ..plain },
            Message::WriteData(bytes) => {
                Shape { payload: bytes, head: AETH_BYTES, tail: AETH_BYTES, acks: 0, ..plain }
            }
            Message::ReadReply(bytes) => Shape {
                payload: bytes,
                head: RETH_BYTES,
                close: self.around + RESPONSE_BYTES + key(true),
                acks: 2 * acked,
                ..plain
            },
            Message::Reply { keyed } => {
                Shape { payload: RESPONSE_BYTES, head: key(keyed), ..plain }
            }
        }
    }

    /// The next packets of a message of which `rest` bytes of payload are left.
    #[inline]
    pub(crate) fn burst(&self, shape: &Shape, rest: u32) -> Burst {
        self.packets_of(shape, rest, rest.min(self.turn))
    }

    /// All packets of a message.
    pub(crate) fn whole(&self, shape: &Shape) -> Burst {
        self.packets_of(shape, shape.payload, shape.payload)
    }

    /// The packet of a message whose payload begins at `offset`: how much that is, and its bytes on
    /// the wire.
    pub(crate) fn packet(&self, shape: &Shape, offset: u32) -> (u32, u32) {
        let left = shape.payload - offset;
        let more = match offset {
            0 => shape.head,
            _ if left <= self.most => shape.tail,
            _ => 0,
        };
        let length = left.min(self.most);
        (length, self.around + more + length)
    }

    fn packets_of(&self, shape: &Shape, rest: u32, payload: u32) -> Burst {
        let (is_first, is_last) = (rest == shape.payload, payload == rest);
        let packets = payload.div_ceil(self.most).max(1);
        let head = if is_first { shape.head } else { 0 };
        let tail = if is_last && !(is_first && packets == 1) { shape.tail } else { 0 };
        let close = if is_last { shape.close } else { 0 };
        Burst {
            payload,
            packets: packets + u32::from(close > 0),
            bytes: payload + packets * self.around + head + tail + close,
            first: self.around + head + payload.min(self.most),
            last: match close {
                0 if packets == 1 => self.around + head + tail + payload,
                0 => self.around + tail + payload - (packets - 1) * self.most,
                close => close,
            },
            close,
        }
    }
}

/// Bits a picosecond times 10^12, for a byte.
const BITS_PS: u64 = 8_000_000_000_000;

fn stream(message: Message, success_flag: bool) -> Shape {
    let payload = match message {
        Message::Capsule(inline) => TCP_COMMAND_BYTES + inline,
        Message::DataRequest | Message::Reply { .. } => TCP_HEADER_BYTES,
        Message::WriteData(bytes) => TCP_HEADER_BYTES + bytes,
        Message::ReadReply(bytes) if success_flag => TCP_HEADER_BYTES + bytes,
        Message::ReadReply(bytes) => 2 * TCP_HEADER_BYTES + bytes,
    };
    Shape { payload, ..Shape::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(config: &Ethernet, messages: &[Message]) -> u32 {
        let frames = Frames::new(config);
        messages.iter().map(|&message| frames.whole(&frames.shape(message)).bytes).sum()
    }

    fn tcp(mtu_bytes: u32, success_flag: bool) -> Ethernet {
        let framing = Framing::Tcp { success_flag };
        Ethernet { framing, mtu_bytes, in_capsule_bytes: 8192, ..Ethernet::default() }
    }

    #[test]
    fn bytes_by_hand() {
        let roce = Ethernet::default();
        let ack = Frames::new(&roce).ack_bytes();
        assert_eq!(ack, 86);
        // To the host, a read: data, response, and the acknowledgement of the command.
        assert_eq!(bytes(&roce, &[Message::ReadReply(4096)]) + ack, 4624);
        assert_eq!(bytes(&roce, &[Message::ReadReply(131_072)]) + ack, 141_768);
        // To the drive, a write: by RDMA READ, and in the capsule.
        let keyed = [Message::Capsule(0), Message::WriteData(4096)];
        assert_eq!(bytes(&roce, &keyed) + ack, 4664);
        assert_eq!(bytes(&roce, &[Message::Capsule(4096)]) + ack, 4656);
        assert_eq!(bytes(&roce, &[Message::DataRequest]), 98);
        // A tag on each packet, and a key that is invalidated.
        let framing = Framing::RoceV2 { acks: true, invalidate: true, rdma_reads: 16 };
        let tagged = Ethernet { vlan: true, framing, ..roce };
        assert_eq!(bytes(&tagged, &[Message::ReadReply(4096)]) + ack + 4, 4652);
        assert_eq!(bytes(&tcp(1500, false), &[Message::ReadReply(4096)]), 4414);
        assert_eq!(bytes(&tcp(9000, false), &[Message::ReadReply(4096)]), 4234);
        assert_eq!(bytes(&tcp(1500, true), &[Message::ReadReply(4096)]), 4390);
    }

    #[test]
    fn bursts_make_up_the_message() {
        for config in [Ethernet::default(), tcp(1500, false), tcp(9000, true)] {
            let frames = Frames::new(&config);
            let messages = [512, 4096, 4097, 20_000, 131_072].map(|bytes| {
                [Message::ReadReply(bytes), Message::WriteData(bytes), Message::Capsule(bytes)]
            });
            let short = [Message::DataRequest, Message::Reply { keyed: true }];
            for message in messages.into_iter().flatten().chain(short) {
                let shape = frames.shape(message);
                let whole = frames.whole(&shape);
                let (mut rest, mut packets, mut bytes) = (shape.payload, 0, 0);
                loop {
                    let burst = frames.burst(&shape, rest);
                    let (mut offset, mut apart) = (shape.payload - rest, burst.close);
                    let end = offset + burst.payload;
                    for _ in 0..burst.packets - u32::from(burst.close > 0) {
                        let (length, bytes) = frames.packet(&shape, offset);
                        (offset, apart) = (offset + length, apart + bytes);
                    }
                    assert_eq!((offset, apart), (end, burst.bytes), "{message:?}");
                    (packets, bytes) = (packets + burst.packets, bytes + burst.bytes);
                    rest -= burst.payload;
                    if rest == 0 {
                        assert_eq!(burst.last, whole.last);
                        break;
                    }
                    assert_eq!(burst.close, 0);
                }
                assert_eq!((packets, bytes), (whole.packets, whole.bytes), "{message:?}");
            }
        }
    }

    #[test]
    fn odd_rates_are_rounded_up() {
        let odd = Frames::new(&Ethernet { rate_bits_per_s: 3_000_000_000, ..Ethernet::default() });
        assert_eq!(odd.time(3), Span::from_ps(8000));
        assert_eq!(odd.time(1), Span::from_ps(2667));
        assert_eq!(Frames::new(&Ethernet::default()).time(1), Span::from_ps(320));
    }
}
