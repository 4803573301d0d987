//! Ethernet links: latencies that are exact sums, throughputs that are the slowest resource's, and
//! the effect of every field. The sums are written out here from what the standards say of packets.

use crate::support::*;
use mynah_model::ceilings::{Asked, ceilings};
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::{Span, Stage};

fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

/// Bytes on a wire of 25 Gb/s.
fn wire(bytes: u64) -> Span {
    Span::from_ps(bytes * 320)
}

/// What is around the payload of a RoCEv2 packet, and an acknowledgement.
const AROUND: u64 = 82;
const ACK: u64 = 86;

/// `small` behind an Ethernet link, with a bus to the flash that costs next to nothing.
fn drive(change: impl FnOnce(&mut Ethernet)) -> Config {
    let mut ethernet = Ethernet::default();
    change(&mut ethernet);
    small_with(|c| c.ethernet = Some(ethernet))
}

/// The same with flash in plenty, so that the link is what it waits for.
fn plenty(change: impl FnOnce(&mut Ethernet)) -> Config {
    let mut config = drive(change);
    config.geometry.channels = 16;
    config.geometry.chips_per_channel = 4;
    config.geometry.blocks_per_plane = 12;
    config.over_provisioning = 0.5;
    config.bus.rate_mts = 10_000;
    config.flash.read = page_times(5, 5, 5);
    config.bus.cycles = BusCycles {
        t_cs: Span::ZERO,
        t_wc: Span::ZERO,
        t_wb: Span::ZERO,
        t_rr: Span::ZERO,
        t_adl: Span::ZERO,
        t_dbsy: Span::ZERO,
        t_cals: Span::ZERO,
        t_wpst: Span::ZERO,
        t_wpsth: Span::ZERO,
    };
    config
}

fn filled(config: Config) -> Host {
    let mut host = Host::new(config);
    fill(&mut host);
    host
}

/// What the flash of `small` takes for 4 KiB: command, array, bus.
fn flash() -> Span {
    ns(20 + 6 * 25 + 100 + 20) + Span::from_us(50) + Span::from_ps(4096 * 1250)
}

fn axi() -> Axi {
    Axi {
        width_bytes: 128,
        clock_hz: 500_000_000,
        counting: AxiCounting::Bursts { beats: 256, boundary_bytes: None, setup: ns(10) },
        arbitration: ns(3),
    }
}

fn layer(input: u64, output: u64) -> Option<Layer> {
    let cost = |us| Cost::Affine { fixed: Span::from_us(us), per_byte: Span::ZERO };
    Some(Layer { input: cost(input), output: cost(output), engines: None, merged: false })
}

#[track_caller]
fn assert_latency(done: &Completion, parts: &[Span]) {
    assert_eq!(done.status, Status::Success);
    let sum: Span = parts.iter().copied().sum();
    assert_eq!(done.at.since(done.rung), sum, "{:?}", done.stages);
}

#[test]
fn a_read_over_a_bare_wire() {
    let mut host = filled(drive(|_| ()));
    let done = host.run_one(Operation::Read, 0, 8);
    let data = 4 * (1024 + AROUND) + 16;
    assert_latency(&done, &[wire(64 + AROUND), flash(), wire(data), wire(16 + AROUND)]);
    assert_eq!(done.stages.get(Stage::CommandFetch), wire(64 + AROUND));
    assert_eq!(done.stages.get(Stage::DataOut), wire(data));
    assert_eq!(done.stages.get(Stage::Completion), wire(16 + AROUND));
    assert_eq!(host.link.total(), Span::ZERO);
}

/// A link of which every part costs something.
fn everything(e: &mut Ethernet) {
    e.gap = ns(4);
    e.nic = Nic { receive: ns(100), transmit: ns(50), message: ns(7), serial: false };
    e.axi = Some(axi());
    e.target.layers = [layer(1, 2), layer(3, 4), layer(5, 6), layer(7, 8)];
    e.target.receive_buffers = Some(4);
    e.target.data_buffers = Some(4);
}

/// Each key changes the latency of a 4 KiB read by what its closed form says, in picoseconds.
#[test]
fn each_key_has_its_effect() {
    type Change = fn(&mut Ethernet);
    fn bus(e: &mut Ethernet, change: fn(&mut Axi)) {
        change(e.axi.as_mut().expect("a bus"));
    }
    fn bursts(e: &mut Ethernet, beats: u32, boundary_bytes: Option<u32>, setup: u64) {
        let counting = AxiCounting::Bursts { beats, boundary_bytes, setup: ns(setup) };
        e.axi = Some(Axi { counting, ..axi() });
    }
    fn bypass(e: &mut Ethernet, layer: usize) {
        e.target.layers[layer] = None;
    }
    // Of the command, of four packets of data, of the response.
    const WIRE: i64 = 146 + 4440 + 98;
    let keys: [(&str, Change, i64); 23] = [
        ("rate", |e| e.rate_bits_per_s *= 2, -WIRE * 160),
        ("mtu", |e| e.mtu_bytes = 4096, -3 * (82 * 320 + 4_000)),
        ("vlan", |e| e.vlan = true, 6 * 4 * 320),
        ("ipv6", |e| e.ipv6 = true, 6 * 20 * 320),
        (
            "invalidate",
            |e| e.framing = Framing::RoceV2 { acks: true, invalidate: true, rdma_reads: 16 },
            4 * 320,
        ),
        ("gap", |e| e.gap = ns(8), 4 * 4_000),
        ("nic.receive", |e| e.nic.receive = ns(200), 100_000),
        ("nic.transmit", |e| e.nic.transmit = ns(100), 50_000),
        ("nic.message", |e| e.nic.message = ns(14), 2 * 7_000),
        ("nic.pipelining", |e| e.nic.serial = true, 4 * 50_000),
        ("axi.width", |e| bus(e, |axi| axi.width_bytes = 64), 2 * 32 * 2_000),
        ("axi.clock", |e| bus(e, |axi| axi.clock_hz = 250_000_000), (1 + 2 * 32) * 2_000),
        ("axi.arbitration", |e| bus(e, |axi| axi.arbitration = ns(6)), 3 * 3_000),
        ("axi.beats", |e| bursts(e, 16, None, 10), 2 * 10_000),
        ("axi.boundary", |e| bursts(e, 256, Some(1024), 10), 2 * 3 * 10_000),
        ("axi.setup", |e| bursts(e, 256, None, 20), 3 * 10_000),
        // SimpleSSD: 2 and 3 cycles for the command, 64 and 3 for the data, and no setup.
        (
            "axi.counting",
            |e| bus(e, |axi| axi.counting = AxiCounting::SimpleSsd),
            (5 + 2 * 67) * 2_000 - (1 + 2 * 32) * 2_000 - 3 * 10_000,
        ),
        ("transport", |e| bypass(e, 0), -3_000_000),
        ("capsule", |e| bypass(e, 1), -7_000_000),
        ("block_layer", |e| bypass(e, 2), -11_000_000),
        ("nvme_layer", |e| bypass(e, 3), -15_000_000),
        (
            "per_byte",
            |e| {
                let cost = Cost::Affine { fixed: Span::from_us(1), per_byte: Span::from_ps(3) };
                e.target.layers[0].as_mut().expect("a layer").input = cost;
            },
            3 * 4096,
        ),
        // Alone it has no one to wait for.
        ("merge", |e| e.target.layers[1].as_mut().expect("a layer").merged = true, 0),
    ];
    let latency = |change: Change| {
        let mut host = filled(drive(|e| {
            everything(e);
            change(e);
        }));
        let done = host.run_one(Operation::Read, 0, 8);
        done.at.since(done.rung).as_ps() as i64
    };
    let before = latency(|_| ());
    for (name, change, by) in keys {
        assert_eq!(latency(change) - before, by, "{name}");
    }
}

#[test]
fn a_read_through_everything() {
    let mut host = filled(drive(everything));
    let done = host.run_one(Operation::Read, 0, 8);
    // Three transfers over the bus: the command, from the flash to DRAM, from there to the port.
    let crossings = ns(2 + 13) + ns(64 + 13).times(2);
    // Four packets of data and the response follow one another with gaps; the interface adds what
    // it takes for the first of each message.
    let data = wire(4 * (1024 + AROUND) + 16) + ns(4 * 4);
    let nic = ns(100 + 7) + ns(50 + 7);
    let parts = [
        wire(64 + AROUND),
        nic,
        crossings,
        Span::from_us(1 + 3 + 5 + 7 + 8 + 6 + 4 + 2),
        flash(),
        data,
        wire(16 + AROUND),
    ];
    assert_latency(&done, &parts);
    let link = host.link;
    assert_eq!(link.get(Stage::Axi), crossings);
    assert_eq!(link.get(Stage::Nic), nic);
    let layers = [Stage::Transport, Stage::Capsule, Stage::BlockLayer, Stage::NvmeLayer];
    assert_eq!(layers.map(|stage| link.get(stage)), [3, 7, 11, 15].map(Span::from_us));
    assert_eq!(link.get(Stage::BufferWait), Span::ZERO);
}

#[test]
fn packets_through_two_stages() {
    // a + w + (n - 1) max(a, w), with either the larger; n (a + w) where they do not overlap.
    let w = wire(1024 + AROUND);
    for (a, serial) in [(100, false), (1000, false), (100, true)] {
        let nic = Nic { transmit: ns(a), serial, ..Nic::default() };
        let mut host = filled(drive(|e| {
            e.nic = nic;
            e.in_capsule_bytes = 0;
            e.burst_bytes = 1 << 20;
        }));
        let done = host.run_one(Operation::Read, 0, 8);
        // Five packets: the response behind the data is short, and has 16 bytes of a RETH less.
        let (a, short, head) = (ns(a), wire(16 + AROUND), wire(16));
        let expected = match serial {
            true => (a + w).times(4) + head + a + short,
            false if a > w => a.times(5) + short,
            false => a + w.times(4) + head + short,
        };
        let way = done.stages.get(Stage::DataOut)
            + done.stages.get(Stage::Completion)
            + host.link.get(Stage::Nic);
        assert_eq!(way, expected, "{nic:?}");
    }
    // What comes passes the wire first.
    for a in [100, 1000] {
        let mut host = Host::new(drive(|e| {
            e.nic.receive = ns(a);
            e.in_capsule_bytes = 4096 - 64;
            e.burst_bytes = 1 << 20;
        }));
        // A capsule of 4032 bytes of data is 4 full packets: 3584 is 3 and one of 576 more.
        let done = host.run_one(Operation::Write, 0, 7);
        let way = done.stages.get(Stage::CommandFetch) + host.link.get(Stage::Nic);
        let last = wire(64 + 3584 - 3 * 1024 + AROUND);
        let a = ns(a);
        let expected = match a > w {
            true => w + a.times(4),
            false => w.times(3) + last + a,
        };
        assert_eq!(way, expected);
    }
}

#[test]
fn writes_within_the_capsule_and_by_rdma_read() {
    let program = |host: &mut Host| {
        let done = host.run_one(Operation::Write, 0, 8);
        let spent = [Stage::CommandFetch, Stage::DataIn, Stage::Completion];
        spent.map(|stage| done.stages.get(stage))
    };
    let reply = wire(16 + AROUND);
    let mut inline = Host::new(drive(|_| ()));
    let capsule = wire(4096 + 64 + 5 * AROUND);
    assert_eq!(program(&mut inline), [capsule, Span::ZERO, reply]);
    let mut asked = Host::new(drive(|e| e.in_capsule_bytes = 0));
    // The acknowledgement of the capsule goes before the request.
    let data = wire(ACK) + wire(16 + AROUND) + wire(4 * (1024 + AROUND) + 8);
    assert_eq!(program(&mut asked), [wire(64 + AROUND), data, reply]);
    let mut tcp = Host::new(drive(|e| {
        e.framing = Framing::Tcp { success_flag: false };
        (e.mtu_bytes, e.in_capsule_bytes) = (9000, 0);
    }));
    let data = wire(24 + 90) + wire(24 + 4096 + 90);
    assert_eq!(program(&mut tcp), [wire(72 + 90), data, wire(24 + 90)]);
}

/// Reads or writes a second, at this depth on each of two queues.
fn rate(config: Config, operation: Operation, sectors: u32) -> f64 {
    let kind = config.host_queues(0);
    let mut host = Host::new(config);
    host.create(Queue { kind, ..memory_queue(2) });
    if operation == Operation::Read {
        fill(&mut host);
    }
    let mut random = Random(1);
    let slots = host.drive.namespace_sectors(NAMESPACE).expect("one") / u64::from(sectors);
    let (mut sent, mut done) = (0u64, 0u64);
    let (warm, all) = (400, 8400);
    let mut began = host.now();
    while done < all {
        while host.outstanding < 96 {
            let sector = random.below(slots) * u64::from(sectors);
            let request = host.request(operation, sector, sectors);
            sent += 1;
            host.submit(QueueId(1 + (sent % 2) as u16), request);
        }
        host.next().expect("it completes");
        done += 1;
        if done == warm {
            began = host.now();
        }
    }
    (all - warm) as f64 / host.now().since(began).as_secs_f64()
}

#[test]
fn a_wire_full_of_reads() {
    let per_s = |bytes: u64| 1.0 / wire(bytes).as_secs_f64();
    let reads = |change: fn(&mut Ethernet), sectors| rate(plenty(change), Operation::Read, sectors);
    let data = 4 * (1024 + AROUND) + 16 + 16 + AROUND;
    assert_close("4 KiB", reads(|_| (), 8), per_s(data + ACK), 0.005);
    assert_close(
        "without ACK",
        reads(
            |e| e.framing = Framing::RoceV2 { acks: false, invalidate: false, rdma_reads: 16 },
            8,
        ),
        per_s(data),
        0.005,
    );
    // Six packets, and 4 ns behind each.
    let gap = 1.0 / (wire(data + ACK) + ns(24)).as_secs_f64();
    assert_close("gap", reads(|e| e.gap = ns(4), 8), gap, 0.005);
    assert_close("two ports", reads(|e| e.ports = 2, 8), 2.0 * per_s(data + ACK), 0.01);
}

#[test]
fn the_slowest_resource_is_the_throughput() {
    let cores = |e: &mut Ethernet| {
        e.target.cores = Some(4);
        e.target.layers = [layer(2, 2), layer(3, 1), layer(4, 3), layer(3, 2)];
    };
    let engines = |e: &mut Ethernet| {
        e.target.layers = [layer(1, 1), layer(2, 3), None, layer(3, 3)];
        if let Some(layer) = &mut e.target.layers[3] {
            layer.engines = Some(2);
        }
    };
    let slow_nic = |e: &mut Ethernet| e.nic.transmit = ns(600);
    let serial = |e: &mut Ethernet| e.nic = Nic { transmit: ns(200), serial: true, ..e.nic };
    let narrow = |e: &mut Ethernet| {
        e.axi = Some(Axi { width_bytes: 4, clock_hz: 500_000_000, ..axi() });
    };
    let control = |e: &mut Ethernet| e.nic.message = Span::from_us(2);
    type Change = fn(&mut Ethernet);
    let kinds: [(&str, Change); 6] = [
        ("cores", cores),
        ("engines", engines),
        ("nic", slow_nic),
        ("serial", serial),
        ("axi", narrow),
        ("control plane", control),
    ];
    for (name, change) in kinds {
        let config = plenty(change);
        let asked = Asked { writes: false, bytes: 4096 };
        let limits = ceilings(&config, asked);
        let least = limits.iter().map(|it| it.per_s()).fold(f64::INFINITY, f64::min);
        assert_close(name, rate(config, Operation::Read, 8), least, 0.01);
    }
}

#[test]
fn rdma_reads_of_a_queue_pair_are_limited() {
    // 60 us of engines without end between request and answer: each queue pair has 4 under way.
    let mut config = plenty(|e| {
        e.framing = Framing::RoceV2 { acks: true, invalidate: false, rdma_reads: 1 };
        e.in_capsule_bytes = 0;
        e.nic.message = ns(500);
    });
    config.cache = Some(cache());
    let mut host = Host::new(config);
    let tags: Vec<Tag> = (0..3).map(|n| host.send(Operation::Write, n * 8, 8)).collect();
    let mut waits = vec![];
    for tag in tags {
        let done = host.next().expect("a write");
        assert_eq!(done.tag, tag);
        waits.push(host.link.get(Stage::BufferWait));
    }
    assert_eq!(waits[0], Span::ZERO);
    assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
    let blamed = host.drive.blame();
    let reads = blamed.iter().filter(|it| it.resource == mynah_model::stats::Resource::RdmaReads);
    let total: Span = reads.map(|it| it.wait).sum();
    assert_eq!(total, waits.iter().copied().sum());
}

#[test]
fn buffers_are_given_first_come() {
    for limit in [
        (|e: &mut Ethernet| e.target.receive_buffers = Some(1)) as fn(&mut Ethernet),
        |e: &mut Ethernet| e.target.data_buffers = Some(1),
    ] {
        let mut host = filled(plenty(limit));
        let tags: Vec<Tag> = (0..4).map(|n| host.send(Operation::Read, n * 16, 8)).collect();
        let mut waited = Span::ZERO;
        for tag in tags {
            assert_eq!(host.next().expect("a read").tag, tag);
            let wait = host.link.get(Stage::BufferWait);
            assert!(wait >= waited, "{wait} after {waited}");
            waited = wait;
        }
        assert!(!waited.is_zero());
    }
}

#[test]
fn queue_pairs_take_turns_on_the_wire() {
    // A large answer does not hold up a small one for longer than a burst.
    let latency = |burst: u32| {
        let config = plenty(|e| e.burst_bytes = burst);
        let kind = config.host_queues(0);
        let mut host = Host::new(config);
        host.create(Queue { kind, ..memory_queue(2) });
        fill(&mut host);
        let large = host.request(Operation::Read, 0, 256);
        host.submit(QUEUE, large);
        host.advance_to(host.now() + Span::from_us(25));
        let small = host.request(Operation::Read, 512, 8);
        host.submit(QueueId(2), small);
        let done = std::iter::from_fn(|| host.next()).find(|done| done.tag == small.tag);
        done.expect("it completes").at.since(mynah_stamp::Time::ZERO)
    };
    assert!(latency(4096) + Span::from_us(10) < latency(1 << 20));
}

#[test]
fn ports_are_taken_in_turn_or_as_said() {
    let config = plenty(|e| e.ports = 2);
    let both = rate(config.clone(), Operation::Read, 8);
    let mut host = Host::without_queues(config, Manner::default());
    for id in [1, 2] {
        host.create(Queue { kind: QueueKind::Network { port: 2 }, ..memory_queue(id) });
    }
    fill(&mut host);
    let began = host.now();
    for n in 0..1000u64 {
        while host.outstanding >= 64 {
            host.next().expect("it completes");
        }
        let request = host.request(Operation::Read, n % 512 * 16, 8);
        host.submit(QueueId(1 + (n % 2) as u16), request);
    }
    host.finish();
    let one = 1000.0 / host.now().since(began).as_secs_f64();
    assert_close("one port of two", one, both / 2.0, 0.05);
}

#[test]
fn what_cannot_be() {
    let refused = |change: fn(&mut Ethernet)| drive(change).check().expect_err("refused").key;
    assert_eq!(refused(|e| e.mtu_bytes = 1500), "link.mtu");
    assert_eq!(refused(|e| e.rate_bits_per_s = 999_999_999), "link.rate");
    assert_eq!(refused(|e| e.ports = 3), "link.ports");
    assert_eq!(refused(|e| e.target.cores = Some(0)), "link.target.cores");
    let short = |e: &mut Ethernet| {
        let cost = Cost::Table(vec![(512, ns(1)), (4096, ns(2))]);
        let output = Cost::NOTHING;
        e.target.layers[0] = Some(Layer { input: cost, output, engines: None, merged: false });
    };
    assert_eq!(refused(short), "link.target");
    // A transfer beyond the largest is refused on the way, and nothing else happens.
    let mut host = filled(drive(|e| e.max_transfer_bytes = 4096));
    let done = host.run_one(Operation::Read, 0, 16);
    assert_eq!(done.status, Status::InvalidField);
    // Queues in host memory are for other links.
    let now = host.now();
    let other = Control::CreateQueue(memory_queue(7));
    assert!(host.drive.control(now, other).is_err());
}

#[test]
fn merged_layers_are_one_visit() {
    // Merged, the second layer does not queue again: two commands take as long as one engine does.
    let merged = |merged| {
        let mut host = filled(plenty(|e| {
            e.target.layers = [layer(4, 0), layer(6, 0), None, None];
            if let Some(layer) = &mut e.target.layers[1] {
                layer.merged = merged;
            }
        }));
        for n in 0..2 {
            host.send(Operation::Read, n * 16, 8);
        }
        let first = host.next().expect("a read").at;
        let spent = [Stage::Transport, Stage::Capsule].map(|stage| host.link.get(stage));
        assert_eq!(spent, [4, 6].map(Span::from_us));
        host.next().expect("a read").at.since(first)
    };
    let (apart, together) = (merged(false), merged(true));
    assert!(apart < Span::from_us(7) && together > Span::from_us(9), "{apart} {together}");
}
