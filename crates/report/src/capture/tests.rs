//! Frames, read back: as long as the model's packets, numbered without a gap, with right checksums.

use super::*;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use mynah_model::config::Priority;
use mynah_model::io::*;
use mynah_model::packets::{Leg, Part};
use mynah_model::testing::small;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The packets of some commands over two queue pairs.
fn run(ethernet: &Ethernet, commands: &[(Operation, u64, u32)]) -> Vec<Packet> {
    let config = mynah_model::config::Config { ethernet: Some(ethernet.clone()), ..small() };
    let mut drive = Drive::new(config).unwrap();
    for id in [1, 2] {
        let queue = Queue {
            id: QueueId(id),
            kind: QueueKind::Network { port: 0 },
            flow: FlowId(0),
            priority: Priority::High,
            completion_entries: 1024,
        };
        drive.control(Time::ZERO, Control::CreateQueue(queue)).unwrap();
    }
    drive.keep_packets(true);
    for (tag, &(operation, sector, sectors)) in (0..).zip(commands) {
        let namespace = NamespaceId(1);
        let request = Request {
            placement: Default::default(),
            tag: Tag(tag),
            operation,
            namespace,
            sector,
            sectors,
        };
        drive.submit(Time::ZERO, QueueId(1 + (tag % 2) as u16), request).unwrap();
    }
    loop {
        while drive.poll().is_some() {}
        let Some(at) = drive.next_at() else { break };
        drive.advance(at);
    }
    drive.take_packets(Time::MAX)
}

/// What is behind UDP or TCP of a frame whose checksums are right.
fn opened(frame: &[u8], ethernet: &Ethernet) -> Vec<u8> {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    assert_eq!(sliced.vlan().is_some(), ethernet.vlan);
    let net = sliced.net.unwrap();
    assert_eq!(matches!(net, NetSlice::Ipv6(_)), ethernet.ipv6);
    if let NetSlice::Ipv4(ip) = &net {
        let header = ip.header().to_header();
        assert_eq!(header.calc_header_checksum(), header.header_checksum);
    }
    match sliced.transport.unwrap() {
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let right = match &net {
                NetSlice::Ipv4(ip) => {
                    header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload())
                }
                NetSlice::Ipv6(ip) => {
                    header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload())
                }
                NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!(right.unwrap(), header.checksum);
            udp.payload().to_vec()
        }
        TransportSlice::Tcp(tcp) => {
            let header = tcp.to_header();
            let right = match &net {
                NetSlice::Ipv4(ip) => {
                    header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload())
                }
                NetSlice::Ipv6(ip) => {
                    header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload())
                }
                NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!(right.unwrap(), header.checksum);
            tcp.payload().to_vec()
        }
        other => panic!("{other:?}"),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn reads() -> Vec<(Operation, u64, u32)> {
    vec![(Operation::Read, 0, 8)]
}

#[test]
fn a_read_as_bytes() {
    let ethernet = Ethernet::default();
    let packets = run(&ethernet, &reads());
    let mut framer = Framer::new(&ethernet);
    let frames: Vec<_> = packets.iter().map(|packet| framer.frame(packet)).collect();
    let bytes: usize = frames.iter().map(|frame| frame.len() + UNSEEN_BYTES as usize).sum();
    assert_eq!((frames.len(), bytes), (9, 4624 + 146 + 2 * 86));
    let opened: Vec<_> = frames.iter().map(|frame| opened(frame, &ethernet)).collect();
    // Opcode and number: the capsule, its acknowledgement, the data, the response, both acknowledged.
    let seen: Vec<_> = opened.iter().map(|it| (it[0], word(it, 8) & NUMBERS)).collect();
    let expected = [
        (0x04, 0),
        (0x11, 0),
        (0x06, 0),
        (0x07, 1),
        (0x07, 2),
        (0x08, 3),
        (0x04, 4),
        (0x11, 3),
        (0x11, 4),
    ];
    assert_eq!(seen, expected);
    // Messages that have come, at both ends.
    let come = [1, 7, 8].map(|at: usize| word(&opened[at], 12));
    assert_eq!(come, [0x1f00_0001, 0x1f00_0001, 0x1f00_0002]);
    let command = &opened[0][12..];
    assert_eq!((command[0], command[48]), (0x02, 7));
    // The key of the data is that of the RDMA WRITE.
    assert_eq!(command[35..39], word(&opened[2], 20).to_le_bytes());
    assert_eq!(word(&opened[2], 24), 4096);
}

const NUMBERS: u32 = 0x00ff_ffff;

/// Numbers of requests follow one another in each direction; answers have those of their request.
fn check_numbers(ethernet: &Ethernet, packets: &[Packet], frames: &[Vec<u8>]) {
    let mut next: BTreeMap<(u16, bool), u32> = BTreeMap::new();
    let mut asked: BTreeMap<(u16, u32), (u32, u32)> = BTreeMap::new();
    let mut sent: BTreeMap<(u16, bool), Vec<u32>> = BTreeMap::new();
    for (packet, frame) in packets.iter().zip(frames) {
        let opened = opened(frame, ethernet);
        let (opcode, number) = (opened[0], word(&opened, 8) & NUMBERS);
        let (queue, up) = (packet.queue.0, packet.direction == Direction::ToHost);
        match opcode {
            0x11 => {
                let of = sent.get_mut(&(queue, !up)).unwrap();
                let at = of.iter().position(|&it| it == number);
                of.remove(at.unwrap_or_else(|| panic!("nothing to acknowledge: {packet:?}")));
            }
            0x0d..=0x10 => {
                let (from, bytes) = asked.get_mut(&(queue, packet.request.tag.0)).unwrap();
                assert_eq!(number, *from);
                let Part::Payload { length, .. } = packet.part else { panic!("{packet:?}") };
                (*from, *bytes) = (*from + 1, *bytes - length);
                assert_eq!(*bytes == 0, matches!(opcode, 0x0f | 0x10));
            }
            _ => {
                let next = next.entry((queue, up)).or_default();
                assert_eq!(number, *next, "{packet:?}");
                *next += 1;
                if opcode == 0x0c {
                    let bytes = word(&opened, 24);
                    asked.insert((queue, packet.request.tag.0), (number, bytes));
                    *next += bytes.div_ceil(ethernet.mtu_bytes) - 1;
                } else if word(&opened, 8) >> 31 == 1 {
                    sent.entry((queue, up)).or_default().push(number);
                }
            }
        }
    }
    assert!(asked.values().all(|&(_, bytes)| bytes == 0));
    assert!(sent.values().all(Vec::is_empty), "acknowledged: {sent:?}");
}

/// PDUs, found in the stream by their own lengths.
fn check_stream(ethernet: &Ethernet, packets: &[Packet], frames: &[Vec<u8>]) {
    let mut streams: BTreeMap<(u16, bool), Vec<u8>> = BTreeMap::new();
    for (packet, frame) in packets.iter().zip(frames) {
        let key = (packet.queue.0, packet.direction == Direction::ToHost);
        let stream = streams.entry(key).or_default();
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
        assert_eq!(tcp.sequence_number() as usize, 1 + stream.len());
        stream.extend(opened(frame, ethernet));
    }
    let mut kinds = BTreeMap::new();
    for ((_, up), mut stream) in streams {
        while !stream.is_empty() {
            let length = u32::from_le_bytes(stream[4..8].try_into().unwrap()) as usize;
            assert_eq!(matches!(stream[0], 5 | 7 | 9), up);
            *kinds.entry(stream[0]).or_insert(0) += 1;
            stream.drain(..length);
        }
    }
    let of = |leg| packets.iter().filter(|packet| packet.leg == leg && packet.ends()).count();
    let count = |kind| kinds.get(&kind).copied().unwrap_or(0);
    let tells = matches!(ethernet.framing, Framing::Tcp { success_flag: true });
    let responses = of(Leg::Reply) + if tells { 0 } else { of(Leg::ReadReply) };
    assert_eq!([4, 5].map(count), [of(Leg::Capsule), responses]);
    assert_eq!([6, 7, 9].map(count), [Leg::WriteData, Leg::ReadReply, Leg::DataRequest].map(of));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn frames_are_the_models_packets(
        (roce, acks, flag) in any::<(bool, bool, bool)>(),
        (vlan, ipv6) in any::<(bool, bool)>(),
        ports in 1..=2_u32,
        inline in prop::sample::select(vec![0, 4096]),
        commands in prop::collection::vec((0..5_usize, 0..400_u64, 1..40_u32), 1..24),
    ) {
        let framing = match roce {
            true => Framing::RoceV2 { acks, invalidate: flag, rdma_reads: 2 },
            false => Framing::Tcp { success_flag: flag },
        };
        let ethernet = Ethernet {
            framing,
            vlan,
            ipv6,
            ports,
            mtu_bytes: if roce { 1024 } else { 1500 },
            in_capsule_bytes: inline,
            ..Ethernet::default()
        };
        let kinds = [
            Operation::Read,
            Operation::Write,
            Operation::WriteThrough,
            Operation::Trim,
            Operation::Flush,
        ];
        let commands: Vec<_> = commands
            .into_iter()
            .map(|(kind, sector, sectors)| match kinds[kind] {
                Operation::Flush => (Operation::Flush, 0, 0),
                kind => (kind, sector, sectors),
            })
            .collect();
        let packets = run(&ethernet, &commands);
        let mut framer = Framer::new(&ethernet);
        let frames: Vec<_> = packets.iter().map(|packet| framer.frame(packet)).collect();
        for (packet, frame) in packets.iter().zip(&frames) {
            assert_eq!(frame.len() as u32 + UNSEEN_BYTES, packet.bytes, "{packet:?}");
            // Only data are cut off, and the check behind them.
            let data = frame.get(ROCE_SNAP..frame.len() - 4).filter(|_| roce).unwrap_or_default();
            assert!(data.iter().all(|&byte| byte == 0), "{packet:?}");
        }
        match roce {
            true => check_numbers(&ethernet, &packets, &frames),
            false => check_stream(&ethernet, &packets, &frames),
        }
    }
}
