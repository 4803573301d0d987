//! NVMe/TCP: PDUs in a stream each way, in segments as the model cuts them. Acknowledgements ride
//! on what goes the other way: each segment acknowledges all that has come by then.

use super::network::{Network, host_port};
use super::nvme;
use etherparse::{IpNumber, TcpHeader, TcpOptionElement};
use mynah_model::io::Direction;
use mynah_model::packets::{Leg, Packet, Part};
use mynah_wire::tcp::pdu::Kind;
use std::collections::BTreeMap;

/// The IANA port of NVMe/TCP.
const DRIVE_PORT: u16 = 4420;
/// Picoseconds per tick of the timestamp option: a millisecond, as in Linux.
const TIMESTAMP_PS: u64 = 1_000_000_000;

/// A connection: what the next byte of each direction is, and the last timestamp that came.
#[derive(Clone, Copy)]
struct Connection {
    next: [u32; 2],
    stamps: [u32; 2],
}

/// Encapsulates packets in NVMe/TCP PDUs over TCP.
pub(super) struct Tcp {
    network: Network,
    success_flag: bool,
    connections: BTreeMap<u16, Connection>,
}

impl Tcp {
    pub(super) fn new(network: Network, success_flag: bool) -> Tcp {
        Tcp { network, success_flag, connections: BTreeMap::new() }
    }

    /// The frame from the Ethernet header on.
    pub(super) fn frame(&mut self, packet: &Packet) -> Vec<u8> {
        let payload = self.payload(packet);
        let new = Connection { next: [1; 2], stamps: [0; 2] };
        let connection = self.connections.entry(packet.queue.0).or_insert(new);
        let host = host_port(packet.queue.0);
        let (direction, from, to) = match packet.direction {
            Direction::FromHost => (0, host, DRIVE_PORT),
            Direction::ToHost => (1, DRIVE_PORT, host),
        };
        let mut tcp = TcpHeader::new(from, to, connection.next[direction], u16::MAX);
        (tcp.ack, tcp.acknowledgment_number) = (true, connection.next[1 - direction]);
        tcp.psh = packet.ends();
        let stamp = (packet.at.as_ps() / TIMESTAMP_PS) as u32 + 1;
        connection.stamps[direction] = stamp;
        connection.next[direction] = connection.next[direction].wrapping_add(payload.len() as u32);
        // As RFC 7323, appendix A, has them aligned.
        let stamps = TcpOptionElement::Timestamp(stamp, connection.stamps[1 - direction]);
        let options = [TcpOptionElement::Noop, TcpOptionElement::Noop, stamps];
        let fits = tcp.set_options(&options);
        debug_assert!(fits.is_ok());
        let ip = self.network.ip(packet, IpNumber::TCP, tcp.header_len() + payload.len());
        ip.check_tcp(&mut tcp, &payload);
        self.network.frame(packet, &ip, [&tcp.to_bytes(), &payload])
    }

    fn payload(&self, packet: &Packet) -> Vec<u8> {
        let Part::Payload { offset, length, of } = packet.part else { return vec![] };
        let request = &packet.request;
        let (head, tail) = match packet.leg {
            Leg::Capsule => {
                let inline = of.saturating_sub(Kind::CapsuleCommand.header_bytes() as u32);
                (nvme::command_pdu(packet, inline), vec![])
            }
            Leg::DataRequest => (nvme::request_pdu(request), vec![]),
            Leg::WriteData => (nvme::data_pdu(Kind::DataFromHost, request, false), vec![]),
            Leg::ReadReply if self.success_flag => {
                (nvme::data_pdu(Kind::DataToHost, request, true), vec![])
            }
            Leg::ReadReply => {
                (nvme::data_pdu(Kind::DataToHost, request, false), nvme::response_pdu(packet))
            }
            Leg::Reply => (nvme::response_pdu(packet), vec![]),
        };
        nvme::stretch(&head, &tail, offset, length, of)
    }
}
