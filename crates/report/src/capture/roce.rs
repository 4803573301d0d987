//! RoCEv2: InfiniBand's transport over UDP (InfiniBand Architecture Specification 1.4, chapter 9
//! and annex A17).
//!
//! Each end of a queue pair counts the packets of its requests: SENDs and RDMA WRITEs take a
//! number for each packet, an RDMA READ one for each packet of its answer. Answers and
//! acknowledgements have the numbers of what they answer (section 9.7).

use super::network::{Ip, Network, host_port};
use super::nvme::{self, Data};
use etherparse::{IpNumber, UdpHeader};
use mynah_model::config::Ethernet;
use mynah_model::io::{Direction, Operation, Request};
use mynah_model::packets::{Leg, Packet, Part};
use mynah_wire::nvme::SubmissionEntry;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// The UDP port of RoCEv2 (annex A17).
const PORT: u16 = 4791;
const CRC_BYTES: usize = 4;
/// Numbers of packets and messages have 24 bits.
const NUMBERS: u32 = 0x00ff_ffff;
/// The default partition, as a full member.
const PARTITION: u16 = 0xffff;
/// The path is the one that was set up (the bit MigReq, 9.2.3).
const MIGRATED: u8 = 0x40;
/// An acknowledgement that says nothing of credits (9.7.5).
const ACKNOWLEDGED: u8 = 0x1f;

/// Opcodes of the reliable connection (9.2.1), for a packet that is the first, one between, the
/// last or the only one of its message.
const SEND: [u8; 4] = [0x00, 0x01, 0x02, 0x04];
const RDMA_WRITE: [u8; 4] = [0x06, 0x07, 0x08, 0x0a];
const RDMA_READ_RESPONSE: [u8; 4] = [0x0d, 0x0e, 0x0f, 0x10];
const RDMA_READ_REQUEST: u8 = 0x0c;
const ACKNOWLEDGE: u8 = 0x11;
const SEND_ONLY_WITH_INVALIDATE: u8 = 0x17;

/// A message that has been sent: the number of its last packet, and of itself.
#[derive(Clone, Copy, Default)]
struct Mark {
    packet: u32,
    message: u32,
}

/// The messages of a command.
#[derive(Clone, Copy, Default)]
struct Marks {
    capsule: Mark,
    /// The first packet of the answer to the RDMA READ.
    read: u32,
    written: Mark,
    replied: Mark,
}

/// A queue pair: what the host has sent, and what the drive has.
#[derive(Default)]
struct Pair {
    /// The next packet sequence number (PSN) in each direction.
    next: [u32; 2],
    /// Complete messages in each direction (MSN).
    messages: [u32; 2],
    marks: BTreeMap<u32, Marks>,
}

impl Pair {
    fn number(&mut self, direction: usize, packets: u32) -> u32 {
        let number = self.next[direction];
        self.next[direction] = number.wrapping_add(packets) & NUMBERS;
        number
    }

    /// Counts a message that has been sent; `packet` was its last.
    fn end(&mut self, direction: usize, packet: u32) -> Mark {
        self.messages[direction] = self.messages[direction].wrapping_add(1) & NUMBERS;
        Mark { packet, message: self.messages[direction] }
    }
}

/// Contents of a packet's base transport header, and what follows it.
struct Transport {
    opcode: u8,
    number: u32,
    asks_for_ack: bool,
    extended: Vec<u8>,
    payload: Vec<u8>,
}

/// Encapsulates packets in RoCEv2: InfiniBand transport headers over UDP.
pub(super) struct Roce {
    network: Network,
    sender: Sender,
    pairs: BTreeMap<u16, Pair>,
}

impl Roce {
    pub(super) fn new(network: Network, ethernet: &Ethernet, acks: bool, invalidate: bool) -> Roce {
        let Ethernet { mtu_bytes, in_capsule_bytes, .. } = *ethernet;
        let sender = Sender { acks, invalidate, mtu_bytes, in_capsule_bytes };
        Roce { network, sender, pairs: BTreeMap::new() }
    }

    /// The frame from the Ethernet header on.
    pub(super) fn frame(&mut self, packet: &Packet) -> Vec<u8> {
        let pair = self.pairs.entry(packet.queue.0).or_default();
        let transport = self.sender.transport(pair, packet);
        let Transport { opcode, number, asks_for_ack, extended, payload } = transport;
        let queue = u32::from(packet.queue.0);
        let to = match packet.direction {
            Direction::FromHost => DRIVE_PAIRS | queue,
            Direction::ToHost => HOST_PAIRS | queue,
        };
        let mut bytes = vec![opcode, MIGRATED];
        bytes.extend(PARTITION.to_be_bytes());
        bytes.extend(to.to_be_bytes());
        bytes.extend((u32::from(asks_for_ack) << 31 | number).to_be_bytes());
        bytes.extend(extended);
        bytes.extend(payload);

        let length = UdpHeader::LEN + bytes.len() + CRC_BYTES;
        let ip = self.network.ip(packet, IpNumber::UDP, length);
        let mut udp = UdpHeader {
            source_port: host_port(packet.queue.0),
            destination_port: PORT,
            length: length as u16,
            checksum: 0,
        };
        bytes.extend(check(&ip, &udp, &bytes).to_le_bytes());
        ip.check_udp(&mut udp, &bytes);
        self.network.frame(packet, &ip, [&udp.to_bytes(), &bytes])
    }
}

/// Settings of the link by which messages are cut into packets.
struct Sender {
    acks: bool,
    invalidate: bool,
    mtu_bytes: u32,
    in_capsule_bytes: u32,
}

impl Sender {
    fn transport(&self, pair: &mut Pair, packet: &Packet) -> Transport {
        let tag = packet.request.tag.0;
        let mut marks = pair.marks.get(&tag).copied().unwrap_or_default();
        let transport = match (packet.leg, packet.part) {
            (leg, Part::Acknowledgement { of_closing }) => marks.acknowledge(leg, of_closing),
            (_, Part::Closing) | (Leg::Reply, _) => self.respond(pair, &mut marks, packet),
            (Leg::DataRequest, _) => self.ask(pair, &mut marks, packet),
            (Leg::Capsule, Part::Payload { offset, length, of }) => {
                let number = pair.number(HOST, 1);
                if packet.ends() {
                    marks.capsule = pair.end(HOST, number);
                }
                let capsule =
                    self.capsule(packet, of.saturating_sub(SubmissionEntry::BYTES as u32));
                Transport {
                    opcode: SEND[place(offset, packet.ends())],
                    number,
                    asks_for_ack: self.acks && packet.ends(),
                    extended: vec![],
                    payload: nvme::stretch(&capsule, &[], offset, length, of),
                }
            }
            (Leg::WriteData, Part::Payload { offset, length, .. }) => {
                let place = place(offset, packet.ends());
                let number = marks.read.wrapping_add(offset / self.mtu_bytes) & NUMBERS;
                if packet.ends() {
                    pair.end(DRIVE, number);
                }
                let extended = match place {
                    BETWEEN => vec![],
                    _ => acknowledgement(pair.messages[DRIVE]),
                };
                let (opcode, payload) = (RDMA_READ_RESPONSE[place], vec![0; length as usize]);
                Transport { opcode, number, asks_for_ack: false, extended, payload }
            }
            (Leg::ReadReply, Part::Payload { offset, length, .. }) => {
                let number = pair.number(DRIVE, 1);
                if packet.ends() {
                    marks.written = pair.end(DRIVE, number);
                }
                let extended = match offset {
                    0 => remote(packet.queue.0, &packet.request),
                    _ => vec![],
                };
                Transport {
                    opcode: RDMA_WRITE[place(offset, packet.ends())],
                    number,
                    asks_for_ack: self.acks && packet.ends(),
                    extended,
                    payload: vec![0; length as usize],
                }
            }
        };
        pair.marks.insert(tag, marks);
        transport
    }

    /// The request of an RDMA READ.
    fn ask(&self, pair: &mut Pair, marks: &mut Marks, packet: &Packet) -> Transport {
        let bytes = nvme::data_bytes(&packet.request);
        marks.read = pair.number(DRIVE, bytes.div_ceil(self.mtu_bytes).max(1));
        Transport {
            opcode: RDMA_READ_REQUEST,
            number: marks.read,
            asks_for_ack: false,
            extended: remote(packet.queue.0, &packet.request),
            payload: vec![],
        }
    }

    /// The response. It invalidates the key that was used.
    fn respond(&self, pair: &mut Pair, marks: &mut Marks, packet: &Packet) -> Transport {
        let request = &packet.request;
        let number = pair.number(DRIVE, 1);
        marks.replied = pair.end(DRIVE, number);
        let keyed = request.operation == Operation::Read
            || nvme::data_bytes(request) > self.in_capsule_bytes;
        let (opcode, extended) = if keyed && self.invalidate {
            let key = key(packet.queue.0, request);
            (SEND_ONLY_WITH_INVALIDATE, key.to_be_bytes().to_vec())
        } else {
            (SEND[ONLY], vec![])
        };
        let payload = nvme::response(request, packet.status).as_bytes().to_vec();
        Transport { opcode, number, asks_for_ack: self.acks, extended, payload }
    }

    /// The first bytes of a capsule: the command, and a deallocation's range.
    fn capsule(&self, packet: &Packet, inline: u32) -> Vec<u8> {
        let request = &packet.request;
        let bytes = if inline > 0 { inline } else { nvme::data_bytes(request) };
        let data = match (inline, bytes) {
            (0, 0) => Data::Keyed { address: 0, key: 0, invalidate: false },
            (0, _) => Data::Keyed {
                address: address(request),
                key: key(packet.queue.0, request),
                invalidate: self.invalidate,
            },
            _ => Data::InCapsule,
        };
        let mut capsule = nvme::command(request, data, bytes).as_bytes().to_vec();
        if request.operation == Operation::Trim {
            capsule.extend(nvme::range(request).as_bytes());
        }
        capsule
    }
}

impl Marks {
    fn acknowledge(&self, leg: Leg, of_closing: bool) -> Transport {
        let mark = match leg {
            Leg::Capsule => self.capsule,
            Leg::ReadReply if !of_closing => self.written,
            _ => self.replied,
        };
        Transport {
            opcode: ACKNOWLEDGE,
            number: mark.packet,
            asks_for_ack: false,
            extended: acknowledgement(mark.message),
            payload: vec![],
        }
    }
}

/// Index of the host's direction.
const HOST: usize = 0;
const DRIVE: usize = 1;
/// Numbers of queue pairs, of the queue's number each.
const HOST_PAIRS: u32 = 0x01_0000;
const DRIVE_PAIRS: u32 = 0x02_0000;

/// Where a packet is in its message, as opcodes are listed.
const FIRST: usize = 0;
const BETWEEN: usize = 1;
const LAST: usize = 2;
const ONLY: usize = 3;

fn place(offset: u32, ends: bool) -> usize {
    match (offset == 0, ends) {
        (true, true) => ONLY,
        (true, false) => FIRST,
        (false, true) => LAST,
        (false, false) => BETWEEN,
    }
}

/// Where the host's data are, and their key: they only have to be told apart.
fn address(request: &Request) -> u64 {
    (u64::from(request.tag.0) + 1) << 32
}

fn key(queue: u16, request: &Request) -> u32 {
    u32::from(queue) << 16 ^ request.tag.0
}

/// The RDMA extended transport header (9.3.3).
fn remote(queue: u16, request: &Request) -> Vec<u8> {
    let mut header = address(request).to_be_bytes().to_vec();
    header.extend(key(queue, request).to_be_bytes());
    header.extend(nvme::data_bytes(request).to_be_bytes());
    header
}

/// The ACK extended transport header (9.3.5).
fn acknowledgement(messages: u32) -> Vec<u8> {
    (u32::from(ACKNOWLEDGED) << 24 | messages).to_be_bytes().to_vec()
}

/// The invariant CRC (7.8.1, annex A17): over what routers do not change, which counts as ones; there
/// are ones as well in place of the local route header.
fn check(ip: &Ip, udp: &UdpHeader, transport: &[u8]) -> u32 {
    let mut header = ip.bytes();
    let changes: &[usize] = match ip {
        // Type of service, time to live, checksum.
        Ip::V4(_) => &[1, 8, 10, 11],
        // Traffic class, flow label, hop limit.
        Ip::V6(_) => &[1, 2, 3, 7],
    };
    changes.iter().for_each(|&at| header[at] = 0xff);
    if matches!(ip, Ip::V6(_)) {
        header[0] |= 0x0f;
    }
    let mut udp = udp.to_bytes();
    udp[6..].fill(0xff);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(&header);
    crc.update(&udp);
    // Congestion bits, and those beside them.
    crc.update(&transport[..4]);
    crc.update(&[0xff]);
    crc.update(&transport[5..]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::Ipv4Header;

    /// A packet that a ConnectX-4 Lx sent, as the tests of scapy have it (test/contrib/roce.uts).
    #[test]
    fn the_check_is_that_of_an_interface() {
        let ip = [
            0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 10, 0, 17, 1,
            10, 0, 18, 1,
        ];
        let udp = UdpHeader { destination_port: PORT, length: 40, ..UdpHeader::default() };
        let mut transport = vec![0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18];
        transport.resize(28, 0);
        let ip = Ip::V4(Ipv4Header::from_slice(&ip).unwrap().0);
        assert_eq!(check(&ip, &udp, &transport).to_le_bytes(), [0x82, 0xfd, 0x00, 0x2a]);
    }
}
