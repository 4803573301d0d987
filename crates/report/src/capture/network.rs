//! What is around UDP and TCP: Ethernet II, a VLAN tag, IPv4 or IPv6.
//!
//! Addresses say who is who and stand for nothing else: of port 1, hosts are 10.0.1.1 and the drive
//! 10.0.1.254 (fd00:0:0:1::1 and ::fe), with the MAC addresses 02:00:00:00:01:01 and :fe.

use etherparse::{
    EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader, TcpHeader,
    UdpHeader,
};
use mynah_model::io::Direction;
use mynah_model::packets::Packet;

const DRIVE: u8 = 254;
const HOPS: u8 = 64;
/// UDP and TCP ports of hosts begin here: those that nobody registers (RFC 6335).
const HOST_PORTS: u16 = 0xc000;
const HOST_PORT_BITS: u16 = 14;

/// Layers below the transport: whether frames have a VLAN tag, and which IP they carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub(super) vlan: bool,
    pub(super) ipv6: bool,
}

pub(super) enum Ip {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

impl Ip {
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Ip::V4(ip) => ip.to_bytes().to_vec(),
            Ip::V6(ip) => ip.to_bytes().to_vec(),
        }
    }

    /// Fills in a UDP checksum. The computation cannot fail, as packets are at most an MTU of 9216
    /// bytes.
    pub(super) fn check_udp(&self, udp: &mut UdpHeader, payload: &[u8]) {
        let sum = match self {
            Ip::V4(ip) => udp.calc_checksum_ipv4(ip, payload),
            Ip::V6(ip) => udp.calc_checksum_ipv6(ip, payload),
        };
        udp.checksum = sum.unwrap_or_default();
    }

    /// Fills in a TCP checksum, as [`Ip::check_udp`] does.
    pub(super) fn check_tcp(&self, tcp: &mut TcpHeader, payload: &[u8]) {
        let sum = match self {
            Ip::V4(ip) => tcp.calc_checksum_ipv4(ip, payload),
            Ip::V6(ip) => tcp.calc_checksum_ipv6(ip, payload),
        };
        tcp.checksum = sum.unwrap_or_default();
    }
}

/// The host's port of a queue pair. Beyond 16,384 queue pairs hosts have another address.
pub(super) fn host_port(queue: u16) -> u16 {
    HOST_PORTS | queue
}

impl Network {
    /// The last byte of the sender's address, and of the receiver's.
    fn ends(packet: &Packet) -> [u8; 2] {
        let host = 1 + (packet.queue.0 >> HOST_PORT_BITS) as u8;
        match packet.direction {
            Direction::FromHost => [host, DRIVE],
            Direction::ToHost => [DRIVE, host],
        }
    }

    /// The IP header in front of so many bytes.
    pub(super) fn ip(&self, packet: &Packet, protocol: IpNumber, bytes: usize) -> Ip {
        let (length, net) = (bytes as u16, packet.port);
        if self.ipv6 {
            let [source, destination] = Network::ends(packet)
                .map(|end| [0xfd, 0, 0, 0, 0, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, end]);
            return Ip::V6(Ipv6Header {
                payload_length: length,
                next_header: protocol,
                hop_limit: HOPS,
                source,
                destination,
                ..Ipv6Header::default()
            });
        }
        let [source, destination] = Network::ends(packet).map(|end| [10, 0, net, end]);
        let mut ip = Ipv4Header {
            total_len: length + Ipv4Header::MIN_LEN_U16,
            time_to_live: HOPS,
            protocol,
            source,
            destination,
            ..Ipv4Header::default()
        };
        ip.header_checksum = ip.calc_header_checksum();
        Ip::V4(ip)
    }

    /// A frame: `ip`, then `parts`.
    pub(super) fn frame(&self, packet: &Packet, ip: &Ip, parts: [&[u8]; 2]) -> Vec<u8> {
        let kind = if self.ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let [source, destination] =
            Network::ends(packet).map(|end| [0x02, 0, 0, 0, packet.port, end]);
        let ether_type = if self.vlan { EtherType::VLAN_TAGGED_FRAME } else { kind };
        let mut frame = Ethernet2Header { source, destination, ether_type }.to_bytes().to_vec();
        if self.vlan {
            let tag = SingleVlanHeader { ether_type: kind, ..SingleVlanHeader::default() };
            frame.extend(tag.to_bytes());
        }
        frame.extend(ip.bytes());
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        frame
    }
}
