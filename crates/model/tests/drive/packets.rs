//! The packets of an Ethernet link one by one: those that the standards ask for, and as long on the
//! wire as the link says it was busy.

use crate::laws::random_ethernet;
use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::packets::{Leg, Packet, Part};
use mynah_stamp::{Span, Time};

fn wire(bytes: u64) -> Span {
    Span::from_ps(bytes * 320)
}

fn kept(ethernet: Ethernet) -> Host {
    let mut host = Host::new(small_with(|c| c.ethernet = Some(ethernet)));
    fill(&mut host);
    host.drive.keep_packets(true);
    host
}

fn bytes(packets: &[Packet], direction: Direction) -> u64 {
    let there = packets.iter().filter(|packet| packet.direction == direction);
    there.map(|packet| u64::from(packet.bytes)).sum()
}

#[test]
fn a_read_is_nine_packets() {
    let mut host = kept(Ethernet::default());
    let done = host.run_one(Operation::Read, 0, 8);
    host.finish();
    let packets = host.drive.take_packets(Time::MAX);
    let data = |n: u32| Part::Payload { offset: n * 1024, length: 1024, of: 4096 };
    let ack = |of_closing| Part::Acknowledgement { of_closing };
    let expected = [
        (Leg::Capsule, Part::Payload { offset: 0, length: 64, of: 64 }, 146),
        (Leg::Capsule, ack(false), 86),
        (Leg::ReadReply, data(0), 1122),
        (Leg::ReadReply, data(1), 1106),
        (Leg::ReadReply, data(2), 1106),
        (Leg::ReadReply, data(3), 1106),
        (Leg::ReadReply, Part::Closing, 98),
        (Leg::ReadReply, ack(false), 86),
        (Leg::ReadReply, ack(true), 86),
    ];
    let seen: Vec<_> = packets.iter().map(|p| (p.leg, p.part, p.bytes)).collect();
    assert_eq!(seen, expected);
    assert_eq!(bytes(&packets, Direction::ToHost), 4624);
    assert_eq!(bytes(&packets, Direction::FromHost), 146 + 2 * 86);
    // The first is sent at once, and the last of the answer ends it.
    assert_eq!(packets[0].at, done.rung + wire(146));
    assert_eq!(packets[1].at, done.rung + wire(146 + 86));
    assert_eq!(packets[6].at, done.at);
    assert_eq!(packets[2].at + wire(3 * 1106 + 98), done.at);
    assert_eq!([packets[7].at, packets[8].at], [1, 2].map(|n| done.at + wire(n * 86)));
}

#[test]
fn a_write_by_rdma_read_and_one_in_its_capsule() {
    let mut host = kept(Ethernet { in_capsule_bytes: 0, ..Ethernet::default() });
    host.run_one(Operation::Write, 0, 8);
    host.finish();
    let packets = host.drive.take_packets(Time::MAX);
    assert_eq!(bytes(&packets, Direction::FromHost), 4664);
    assert_eq!(bytes(&packets, Direction::ToHost), 98 + 98 + 86);
    assert_eq!(packets.len(), 9);
    let mut host = kept(Ethernet::default());
    host.run_one(Operation::Write, 0, 8);
    host.finish();
    let packets = host.drive.take_packets(Time::MAX);
    assert_eq!(bytes(&packets, Direction::FromHost), 4656);
    assert_eq!(bytes(&packets, Direction::ToHost), 98 + 86);
    assert!(host.drive.take_packets(Time::MAX).is_empty());
}

#[test]
fn what_is_on_its_way_when_the_power_fails_never_comes() {
    let mut host = kept(Ethernet::default());
    host.send(Operation::Read, 0, 8);
    let cut = host.now() + wire(100);
    host.advance_to(cut);
    assert!(host.drive.take_packets(cut).is_empty());
    host.control(Control::PowerCut);
    assert!(host.drive.take_packets(Time::MAX).is_empty());
}

/// Mixed commands over two queues; completions, packets, and how long each way was busy.
fn run(ethernet: &Ethernet, seed: u64, keep: bool) -> (Vec<Completion>, Vec<Packet>, [Span; 2]) {
    let mut host = Host::new(small_with(|c| c.ethernet = Some(ethernet.clone())));
    fill(&mut host);
    host.finish();
    let random = &mut Random(seed);
    host.create(Queue { id: QueueId(2), kind: QueueKind::Network { port: 0 }, ..memory_queue(1) });
    host.advance_to(host.now() + Span::from_ms(10));
    host.drive.keep_packets(keep);
    let before = host.drive.counters().link_busy;
    let (mut done, mut packets) = (vec![], vec![]);
    for _ in 0..60 {
        let operation = random.pick(&[
            Operation::Read,
            Operation::Read,
            Operation::Write,
            Operation::Write,
            Operation::Trim,
            Operation::Flush,
        ]);
        let sectors = random.pick(&[1, 8, 8, 9, 64]);
        let request = match operation {
            Operation::Flush => host.request(operation, 0, 0),
            _ => host.request(operation, random.below(400), sectors),
        };
        host.submit(QueueId(random.range(1, 2) as u16), request);
        if host.outstanding > 8 {
            done.extend(host.next());
            packets.extend(host.drive.take_packets(host.now()));
        }
    }
    done.extend(host.finish());
    host.advance_to(host.now() + Span::from_ms(10));
    packets.extend(host.drive.take_packets(host.now()));
    assert!(host.drive.take_packets(Time::MAX).is_empty());
    let busy = host.drive.counters().link_busy;
    let busy = [0, 1].map(|way| Span::from_ps(busy[way].as_ps() - before[way].as_ps()));
    (done, packets, busy)
}

#[test]
fn packets_are_what_the_wires_were_busy_with() {
    let mut directions = [0, 0];
    for seed in 0..60 {
        let random = &mut Random(seed);
        let ethernet = random_ethernet(random);
        let (done, packets, busy) = run(&ethernet, seed, true);
        assert!(packets.is_sorted_by_key(|packet| packet.at), "seed {seed}");
        let (unseen, none, _) = run(&ethernet, seed, false);
        assert_eq!(done, unseen, "seed {seed}: watched or not");
        assert!(none.is_empty());
        // Rates that divide no picosecond are rounded up, by burst there and by packet here.
        let time = |bytes: u64| bytes * 8_000_000_000_000 / ethernet.rate_bits_per_s;
        for (way, direction) in [Direction::FromHost, Direction::ToHost].into_iter().enumerate() {
            let of = |port: u8| {
                let here = packets.iter();
                here.filter(move |p| p.port == port && p.direction == direction)
            };
            let mut sum = 0;
            for port in 1..=ethernet.ports as u8 {
                let mut free = Time::ZERO;
                for packet in of(port) {
                    let length = Span::from_ps(time(packet.bytes.into()));
                    assert!(packet.at >= free + length, "seed {seed}: {packet:?} from {free}");
                    free = packet.at + ethernet.gap;
                    sum += (length + ethernet.gap).as_ps();
                    directions[way] += 1;
                }
            }
            let mean = sum / u64::from(ethernet.ports);
            let rounding = 2 * packets.len() as u64;
            let apart = mean.abs_diff(busy[way].as_ps());
            assert!(apart <= rounding, "seed {seed}, {direction:?}: {mean} of {:?}", busy[way]);
        }
        // Every message whole and in order.
        for completion in &done {
            for leg in [Leg::Capsule, Leg::DataRequest, Leg::WriteData, Leg::ReadReply, Leg::Reply]
            {
                let mut at = 0;
                let mut whole = 0;
                for packet in packets
                    .iter()
                    .filter(|packet| packet.request.tag == completion.tag && packet.leg == leg)
                {
                    if let Part::Payload { offset, length, of } = packet.part {
                        assert_eq!(offset, at, "seed {seed}: {packet:?}");
                        (at, whole) = (at + length, of);
                    }
                }
                assert_eq!(at, whole, "seed {seed}: {leg:?} of {:?}", completion.tag);
            }
        }
    }
    assert!(directions.iter().all(|&packets| packets > 10_000), "{directions:?}");
}
