//! Connect, properties, keep-alive, disconnect; the discovery controller.

use crate::support::*;
use mynah_device::{Carrier, Neighbour, Port, Queue, Shard, SubsystemConfig, Timing, Transport};
use mynah_stamp::Span;
use mynah_wire::fabrics::{Connect, DISCOVERY_NQN};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::identify::{IdentifyController, cns};
use mynah_wire::nvme::log::page;
use mynah_wire::nvme::opcode::{admin, fabrics, nvm};
use mynah_wire::nvme::property::{Capabilities, offset};
use zerocopy::FromBytes;

#[test]
fn a_host_connects_enables_and_identifies() {
    let mut world = World::new(Timing::Modelled);
    let queue = world.attach();
    let early = world.status(queue, identify(cns::CONTROLLER, 0), &[]);
    assert_eq!(early, Status::COMMAND_SEQUENCE_ERROR);
    let reply = world.connect_as(queue, HOST, SUBSYSTEM, connect(0, 32), 0xffff);
    assert!(reply.status().is_success());
    assert_eq!(reply.queue_head.get(), 0xffff, "no flow control was asked for");
    let capabilities = world.call(queue, property_get(offset::CAP, 8), &[]).0.result.get();
    assert_eq!(Capabilities::queue_entries(capabilities), 1024);
    assert_eq!(capabilities >> 37 & 0xff, 0x41);
    assert_eq!(world.call(queue, property_get(offset::VS, 4), &[]).0.result.get(), 0x20000);
    let early = world.status(queue, identify(cns::CONTROLLER, 0), &[]);
    assert_eq!(early, Status::COMMAND_SEQUENCE_ERROR, "not enabled");
    world.call(queue, property_set(offset::CC, 0x0046_0001), &[]);
    assert_eq!(world.call(queue, property_get(offset::CSTS, 4), &[]).0.result.get(), 1);
    let data = world.identify(queue, cns::CONTROLLER, 0);
    let page = IdentifyController::read_from_bytes(&data).unwrap();
    assert_eq!(u64::from(page.controller_id.get()), reply.result.get());
    assert_eq!(&page.subsystem_nqn[..SUBSYSTEM.len()], SUBSYSTEM.as_bytes());
    assert_eq!(page.command_capsule.get(), (64 + 8192) / 16);
    assert_eq!(page.max_transfer, 5, "128 KiB");
    assert!(page.keep_alive_granularity.get() > 0 && page.sgl.get() & 3 != 0);
    // Shutdown, and a reset.
    world.call(queue, property_set(offset::CC, 0x0046_4001), &[]);
    world.wait(Span::from_us(100));
    assert_eq!(world.call(queue, property_get(offset::CSTS, 4), &[]).0.result.get(), 9);
    world.call(queue, property_set(offset::CC, 0x0046_0000), &[]);
    assert_eq!(world.call(queue, property_get(offset::CSTS, 4), &[]).0.result.get(), 0);
}

#[test]
fn connects_that_are_refused() {
    let mut world =
        World::with(Timing::Immediate, |config| config.allowed_hosts.push(HOST.into()), |_| {});
    let stranger = "nqn.2026-11.test:stranger";
    let (_, id) = world.admin();
    let cases = [
        (
            HOST,
            "nqn.2026-11.test:other",
            connect(0, 32),
            0xffff,
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (stranger, SUBSYSTEM, connect(0, 32), 0xffff, Status::CONNECT_INVALID_HOST),
        (HOST, SUBSYSTEM, connect(0, 32), 1, Status::CONNECT_INVALID_PARAMETERS),
        (HOST, SUBSYSTEM, connect(0, 1), 0xffff, Status::CONNECT_INVALID_PARAMETERS),
        (HOST, SUBSYSTEM, connect(0, 2000), 0xffff, Status::CONNECT_INVALID_PARAMETERS),
        (HOST, SUBSYSTEM, connect(129, 32), id, Status::CONNECT_INVALID_PARAMETERS),
        (HOST, SUBSYSTEM, connect(1, 32), id + 1, Status::CONNECT_INVALID_PARAMETERS),
        (stranger, SUBSYSTEM, connect(1, 32), id, Status::CONNECT_INVALID_HOST),
        (HOST, DISCOVERY_NQN, connect(1, 32), id, Status::CONNECT_INVALID_PARAMETERS),
    ];
    for (host, subsystem, connect, controller, expected) in cases {
        let queue = world.attach();
        let reply = world.connect_as(queue, host, subsystem, connect, controller);
        assert_eq!(plain(reply.status()), expected, "{host} {subsystem} {connect:?}");
    }
    // The format, and too little data.
    let queue = world.attach();
    let mut bad = connect(0, 32);
    bad.record_format = 1;
    let reply = world.connect_as(queue, HOST, SUBSYSTEM, bad, 0xffff);
    assert_eq!(plain(reply.status()), Status::CONNECT_INCOMPATIBLE_FORMAT);
    let mut entry = fabrics_entry(fabrics::CONNECT);
    connect(0, 32).put(&mut entry);
    assert_eq!(world.status(queue, entry, &[0; 100]), Status::SGL_DATA_LENGTH_INVALID);
    // A queue twice.
    world.io_queue_as(HOST, id, 1);
    let queue = world.attach();
    let reply = world.connect_as(queue, HOST, SUBSYSTEM, connect(1, 32), id);
    assert_eq!(plain(reply.status()), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn a_host_gets_its_controller_identifier_back() {
    let mut world = World::new(Timing::Immediate);
    let (first, id) = world.admin();
    let (_, other) = world.admin_as("nqn.2026-11.test:other", SUBSYSTEM);
    assert_ne!(id, other);
    world.subsystem.detach(world.clock(), first);
    let (_, third) = world.admin_as("nqn.2026-11.test:third", SUBSYSTEM);
    assert!(third != id && third != other);
    assert_eq!(world.admin().1, id);
}

#[test]
fn discovery_takes_nothing_that_hosts_need() {
    let shard = Shard { index: 1, of: 3 };
    for (shard, own) in [(Shard::WHOLE, 5), (shard, 2)] {
        let limits = |config: &mut SubsystemConfig| {
            config.shard = shard;
            (config.limits.controllers_max, config.limits.discovery_max) = (6, 5);
        };
        let mut world = World::with(Timing::Immediate, limits, |_| {});
        let mut discovering = Vec::new();
        let busy = loop {
            let queue = world.attach();
            let wish = connect(0, 32);
            let reply = world.connect_as(queue, "nqn.2026-11.test:a", DISCOVERY_NQN, wish, 0xffff);
            if !reply.status().is_success() {
                break plain(reply.status());
            }
            discovering.push((queue, reply.result.get() as u16));
        };
        assert_eq!((busy, discovering.len()), (Status::CONNECT_CONTROLLER_BUSY, own));
        // Hosts have as many controllers as without them, with the numbers they would have had.
        let ids = [1, 2, 3, 4, 5, 6].into_iter().filter(|id| (id - 1) % shard.of == shard.index);
        for id in ids {
            assert_eq!(world.admin_as(&format!("nqn.2026-11.test:{id}"), SUBSYSTEM).1, id);
        }
        assert!(discovering.iter().all(|(_, id)| *id > 6), "{discovering:?}");
    }
}

#[test]
fn a_discovery_controller_that_is_not_used_goes() {
    let mut world = World::new(Timing::Immediate);
    let (idle, _) = world.admin_as(HOST, DISCOVERY_NQN);
    let (used, _) = world.admin_as(HOST, DISCOVERY_NQN);
    // Connected and never enabled.
    let unready = world.attach();
    let reply = world.connect_as(unready, HOST, DISCOVERY_NQN, connect(0, 32), 0xffff);
    assert!(reply.status().is_success());
    // With a timeout of its own, and one of the drive's, which has none.
    let watching = world.attach();
    let wish = Connect { keep_alive_ms: 200_000, ..connect(0, 32) };
    assert!(world.connect_as(watching, HOST, DISCOVERY_NQN, wish, 0xffff).status().is_success());
    world.call(watching, property_set(offset::CC, 0x0046_0001), &[]);
    world.admin();
    world.wait(Span::from_secs(119));
    assert!(world.closed.is_empty());
    world.log(used, page::DISCOVERY, 1024);
    world.wait(Span::from_secs(2));
    let closed = |world: &World| -> Vec<Queue> { world.closed.iter().map(|it| it.0).collect() };
    assert_eq!(closed(&world), [idle, unready]);
    world.wait(Span::from_secs(80));
    assert_eq!(closed(&world), [idle, unready, watching]);
    world.wait(Span::from_secs(39));
    assert_eq!(closed(&world), [idle, unready, watching, used]);
}

#[test]
fn a_silent_host_is_given_up() {
    let mut world = World::new(Timing::Modelled);
    let queue = world.attach();
    let mut wish = connect(0, 32);
    wish.keep_alive_ms = 950;
    let id = world.connect_as(queue, HOST, SUBSYSTEM, wish, 0xffff).result.get() as u16;
    world.call(queue, property_set(offset::CC, 0x0046_0001), &[]);
    let io = world.io_queue_as(HOST, id, 1);
    // The timeout is rounded up to one second; any command counts.
    world.wait(Span::from_ms(900));
    world.call(queue, entry(admin::KEEP_ALIVE, 0), &[]);
    world.wait(Span::from_ms(900));
    world.call(io, entry(nvm::FLUSH, 1), &[]);
    world.wait(Span::from_ms(900));
    assert!(world.closed.is_empty());
    world.wait(Span::from_ms(200));
    let mut closed: Vec<_> = world.closed.iter().map(|(queue, _)| *queue).collect();
    closed.sort();
    assert_eq!(closed, [queue, io]);
    let id = world.submit(io, entry(nvm::FLUSH, 1), &[]);
    world.wait(Span::from_ms(1));
    assert!(world.reply_now(io, id).is_none(), "nothing comes on a closed queue");
}

/// It may work out who it is; but one that is gone does not leave its controller behind.
#[test]
fn a_host_that_is_not_done_connecting_is_given_more_time() {
    let mut world = World::new(Timing::Modelled);
    let mut hosts = vec![];
    for _ in 0..2 {
        let queue = world.attach();
        let mut wish = connect(0, 32);
        wish.keep_alive_ms = 1000;
        assert!(world.connect_as(queue, HOST, SUBSYSTEM, wish, 0xffff).status().is_success());
        hosts.push(queue);
    }
    world.wait(Span::from_secs(100));
    assert!(world.closed.is_empty());
    // Once the controller is ready, its timeout counts.
    world.call(hosts[0], property_set(offset::CC, 0x0046_0001), &[]);
    world.wait(Span::from_ms(1100));
    let closed = |world: &World| world.closed.iter().map(|(queue, _)| *queue).collect::<Vec<_>>();
    assert_eq!(closed(&world), [hosts[0]]);
    world.wait(Span::from_secs(20));
    assert_eq!(closed(&world), hosts);
}

#[test]
fn more_commands_than_entries_end_the_queue() {
    let mut world = World::new(Timing::Modelled);
    let (_, id) = world.admin();
    let io = world.attach();
    world.connect_as(io, HOST, SUBSYSTEM, connect(1, 4), id);
    for _ in 0..4 {
        world.submit(io, write(0, 1), &[1; 512]);
    }
    world.take();
    assert!(world.closed.is_empty());
    world.submit(io, write(0, 1), &[1; 512]);
    world.take();
    assert_eq!(world.closed.len(), 1);
    // The connection goes; the queue can be connected again.
    world.subsystem.detach(world.clock(), io);
    let io = world.attach();
    let reply = world.connect_as(io, HOST, SUBSYSTEM, connect(1, 4), id);
    assert!(reply.status().is_success());
}

#[test]
fn disconnecting_and_resetting() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, id) = world.host();
    let second = world.io_queue_as(HOST, id, 2);
    let refused = world.status(admin, fabrics_entry(fabrics::DISCONNECT), &[]);
    assert_eq!(refused, Status::INVALID_QUEUE_TYPE);
    let done = world.status(io, fabrics_entry(fabrics::DISCONNECT), &[]);
    assert_eq!(done, Status::SUCCESS);
    assert_eq!(world.closed.len(), 1);
    world.call(admin, property_set(offset::CC, 0x0046_0000), &[]);
    assert_eq!(world.closed.len(), 2);
    assert_eq!(world.closed[1].0, second);
    // The admin connection's end takes the rest along.
    world.call(admin, property_set(offset::CC, 0x0046_0001), &[]);
    let third = world.io_queue_as(HOST, id, 3);
    world.subsystem.detach(world.clock(), admin);
    world.take();
    assert_eq!(world.closed.last().map(|(queue, _)| *queue), Some(third));
}

#[test]
fn flow_control_counts_entries() {
    let mut world = World::new(Timing::Immediate);
    let (_, id) = world.admin();
    let io = world.attach();
    let mut wish = connect(1, 3);
    wish.attributes = 0;
    let heads: Vec<u16> = std::iter::once(world.connect_as(io, HOST, SUBSYSTEM, wish, id))
        .chain((0..4).map(|_| world.call(io, read(0, 1), &[]).0))
        .map(|entry| entry.queue_head.get())
        .collect();
    assert_eq!(heads, [1, 2, 0, 1, 2]);
}

/// What the log says of a port for RDMA, and what a controller behind it says of its descriptors.
#[test]
fn hosts_over_rdma_are_told_what_they_need() {
    let mut world = World::with(
        Timing::Immediate,
        |config| {
            config.ports = vec![Port {
                address: "10.0.0.1".into(),
                service: "4420".into(),
                carrier: Carrier::Rdma,
            }];
        },
        |_| {},
    );
    let (admin, _) = world.admin_as(HOST, DISCOVERY_NQN);
    let log = world.log(admin, page::DISCOVERY, 3 * 1024);
    assert_eq!((log[1024], log[2 * 1024 + 768..2 * 1024 + 771].to_vec()), (1, vec![1, 4, 1]));
    let queue = world.attach_as(Transport { kind: 1, ..tcp() });
    let reply = world.connect_as(queue, HOST, SUBSYSTEM, connect(0, 32), 0xffff);
    assert_eq!(reply.status(), Status::SUCCESS);
    let enabled = world.call(queue, property_set(offset::CC, 0x0046_0001), &[]).0;
    assert_eq!(enabled.status(), Status::SUCCESS);
    let data = world.identify(queue, cns::CONTROLLER, 0);
    let page = IdentifyController::read_from_bytes(&data).unwrap();
    // Keyed data blocks (2) and offsets (20), and no data blocks of the transport's (21).
    assert_eq!(page.sgl.get(), 1 | 1 << 2 | 1 << 20);
}

#[test]
fn discovery() {
    let ports = vec![
        Port { address: "127.0.0.1".into(), service: "4420".into(), carrier: Carrier::Tcp },
        Port { address: "::1".into(), service: "4421".into(), carrier: Carrier::Tls },
    ];
    let mut world = World::with(
        Timing::Immediate,
        |config| {
            config.ports = ports.clone();
            config.allowed_hosts.push(HOST.into());
        },
        |_| {},
    );
    let (admin, _) = world.admin_as(HOST, DISCOVERY_NQN);
    let data = world.identify(admin, cns::CONTROLLER, 0);
    let controller = IdentifyController::read_from_bytes(&data).unwrap();
    assert_eq!((controller.controller_type, controller.namespaces.get()), (2, 0));
    let log = world.log(admin, page::DISCOVERY, 5 * 1024);
    let number = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    assert_eq!((number(0), number(8)), (1, 4));
    let kinds: Vec<(u8, u8, u8)> =
        (1..5).map(|at| (log[at * 1024 + 2], log[at * 1024 + 1], log[at * 1024 + 3])).collect();
    assert_eq!(kinds, [(3, 1, 6), (2, 1, 6), (3, 2, 5), (2, 2, 5)]);
    assert_eq!(&log[1024 + 32..1024 + 38], b"4420  ");
    assert_eq!(log[3 * 1024 + 768], 2);
    // A host that may not use the subsystem does not see it.
    let (stranger, _) = world.admin_as("nqn.2026-11.test:stranger", DISCOVERY_NQN);
    assert_eq!(world.log(stranger, page::DISCOVERY, 1024)[8], 2);
    // In two reads, and past the end.
    let part = world.call(admin, log_page(page::DISCOVERY, 1024, 1024), &[]).1;
    assert_eq!(part, &log[1024..2048]);
    let past = world.status(admin, log_page(page::DISCOVERY, 4, 6 * 1024), &[]);
    assert_eq!(past, Status::INVALID_FIELD);
    // News.
    let mut wish = set_feature(0x0b, 1 << 31);
    assert_eq!(world.status(admin, wish, &[]), Status::SUCCESS);
    let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    assert!(world.reply_now(admin, request).is_none());
    world.subsystem.set_ports(ports[..1].to_vec());
    let (reply, _) = world.reply_now(admin, request).expect("an event");
    assert_eq!(reply.entry.result.get(), 0x70_f002);
    assert_eq!(world.log(admin, page::DISCOVERY, 1024)[..9], [2, 0, 0, 0, 0, 0, 0, 0, 2]);
    // Other drives, as far as this host may use them.
    let request = world.submit(admin, entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0), &[]);
    let neighbour = |nqn: &str, index, hosts: &[&str]| Neighbour {
        nqn: nqn.into(),
        ports: ports.clone(),
        shard: Shard { index, of: 3 },
        allowed_hosts: hosts.iter().map(|&host| host.into()).collect(),
    };
    world.subsystem.set_neighbours(vec![
        neighbour("nqn.2026-11.test:second", 2, &[]),
        neighbour("nqn.2026-11.test:third", 0, &[HOST]),
        neighbour("nqn.2026-11.test:fourth", 0, &["nqn.2026-11.test:friend"]),
    ]);
    let (reply, _) = world.reply_now(admin, request).expect("an event");
    assert_eq!(reply.entry.result.get(), 0x70_f002);
    let log = world.log(admin, page::DISCOVERY, 7 * 1024);
    let listed: Vec<(u8, u8, &[u8])> = (1..7)
        .map(|at| &log[at * 1024..][..1024])
        .map(|entry| (entry[2], entry[4], entry[256..512].split(|&byte| byte == 0).next().unwrap()))
        .collect();
    assert_eq!(
        listed,
        [
            (3, 1, DISCOVERY_NQN.as_bytes()),
            (2, 1, SUBSYSTEM.as_bytes()),
            (2, 3, b"nqn.2026-11.test:second"),
            (2, 6, b"nqn.2026-11.test:second"),
            (2, 1, b"nqn.2026-11.test:third"),
            (2, 4, b"nqn.2026-11.test:third"),
        ]
    );
    assert_eq!(world.log(stranger, page::DISCOVERY, 1024)[8], 3, "what a stranger may not use");
    // Discovery controllers have nothing else.
    wish = set_feature(0x07, 0);
    assert_eq!(world.status(admin, wish, &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(admin, identify(cns::NAMESPACE, 1), &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(admin, entry(admin::FORMAT_NVM, 1), &[]), Status::INVALID_OPCODE);
}

#[test]
fn authentication_is_handed_on() {
    let mut world = World::with(Timing::Immediate, |config| config.authenticate = true, |_| {});
    let queue = world.attach();
    let reply = world.connect_as(queue, HOST, SUBSYSTEM, connect(0, 32), 0xffff);
    assert!(reply.status().is_success());
    assert_eq!(reply.result.get() >> 16, 2, "authentication is required");
    let early = world.status(queue, property_get(offset::CAP, 8), &[]);
    assert_eq!(early, Status::AUTHENTICATION_REQUIRED);
    let mut send = fabrics_entry(fabrics::AUTHENTICATION_SEND);
    send.dword11.set(16);
    let short = world.status(queue, send, &[7; 15]);
    assert_eq!(short, Status::SGL_DATA_LENGTH_INVALID);
    let id = world.submit(queue, send, &[7; 16]);
    world.take();
    let asked = world.asked.pop().expect("a question");
    assert_eq!((asked.data.as_deref(), asked.host_nqn.as_str()), (Some(&[7; 16][..]), HOST));
    let clock = world.clock();
    world.subsystem.answer_authentication(clock, &asked, Status::SUCCESS, None);
    assert!(world.reply_now(queue, id).is_some());
    let mut receive = fabrics_entry(fabrics::AUTHENTICATION_RECEIVE);
    receive.dword11.set(64);
    let mut cramped = receive;
    cramped.data.length.set(63);
    assert_eq!(world.status(queue, cramped, &[]), Status::SGL_DATA_LENGTH_INVALID);
    let id = world.submit(queue, receive, &[]);
    world.take();
    let asked = world.asked.pop().expect("a question");
    world.subsystem.answer_authentication(clock, &asked, Status::SUCCESS, Some(vec![9; 48]));
    assert_eq!(world.reply_now(queue, id).expect("an answer").1, [9; 48]);
    world.subsystem.set_authenticated(queue);
    assert_eq!(world.status(queue, property_get(offset::CAP, 8), &[]), Status::SUCCESS);
    // Discovery needs none.
    world.admin_as(HOST, DISCOVERY_NQN);
}

#[test]
fn who_has_proved_to_be_one_host_connects_as_no_other() {
    let mut world = World::new(Timing::Modelled);
    for (proved, subsystem, expected) in [
        (HOST, SUBSYSTEM, Status::SUCCESS),
        (HOST, DISCOVERY_NQN, Status::SUCCESS),
        ("nqn.2026-11.test:another", SUBSYSTEM, Status::CONNECT_INVALID_HOST),
        ("nqn.2026-11.test:another", DISCOVERY_NQN, Status::CONNECT_INVALID_HOST),
    ] {
        let queue = world.attach_proved(Some(proved));
        let reply = world.connect_as(queue, HOST, subsystem, connect(0, 32), 0xffff);
        assert_eq!(plain(reply.status()), expected, "{proved} {subsystem}");
        assert_eq!(world.subsystem.is_in_use(queue), expected.is_success());
    }
}

/// As spdk_nvme_perf does unless it is told a name.
#[test]
fn a_host_without_a_name_connects_where_nobody_asks_for_one() {
    let mut world = World::new(Timing::Modelled);
    let (_, io, _) = world.host_as("");
    assert_eq!(world.status(io, read(0, 1), &[]), Status::SUCCESS);
    let (monitor, _) = world.admin_as("", DISCOVERY_NQN);
    assert_eq!(world.log(monitor, page::DISCOVERY, 1024)[8], 0);
    assert_eq!(
        world.subsystem.flow_names(),
        ["host 00000000-0000-0000-0000-000000000000"],
        "the identifier that these tests make of no name"
    );
    // Nobody else's queue is its own.
    let (_, id) = world.admin_as(HOST, SUBSYSTEM);
    let queue = world.attach();
    let reply = world.connect_as(queue, "", SUBSYSTEM, connect(1, 32), id);
    assert_eq!(plain(reply.status()), Status::CONNECT_INVALID_HOST);
    // A list of hosts, secrets and certificates ask for names.
    let named = World::with(Timing::Modelled, |it| it.allowed_hosts.push(HOST.into()), |_| {});
    let secret = World::with(Timing::Modelled, |it| it.authenticate = true, |_| {});
    let cases = [
        (named, None, Status::CONNECT_INVALID_HOST),
        (secret, None, Status::CONNECT_INVALID_PARAMETERS),
        (World::new(Timing::Modelled), Some(HOST), Status::CONNECT_INVALID_HOST),
    ];
    for (mut world, proved, expected) in cases {
        let queue = world.attach_proved(proved);
        let reply = world.connect_as(queue, "", SUBSYSTEM, connect(0, 32), 0xffff);
        assert_eq!(plain(reply.status()), expected);
    }
    // What is there and no name is refused as before.
    let queue = world.attach();
    let reply = world.connect_as(queue, "somebody", SUBSYSTEM, connect(0, 32), 0xffff);
    assert_eq!(plain(reply.status()), Status::CONNECT_INVALID_PARAMETERS);
}

/// Nobody can connect to "every address": hosts are told the one at which they came in.
#[test]
fn discovery_lists_the_address_at_which_the_host_came_in() {
    let any = |address: &str, service: &str| Port {
        address: address.into(),
        service: service.into(),
        carrier: Carrier::Tcp,
    };
    let ports = vec![any("0.0.0.0", "4420"), any("::", "4421"), any("10.0.0.9", "4422")];
    let neighbour = Neighbour {
        nqn: "nqn.2026-11.test:beside".into(),
        ports: vec![any("0.0.0.0", "4430")],
        shard: Shard::WHOLE,
        allowed_hosts: Vec::new(),
    };
    let set = ports.clone();
    let mut world = World::with(Timing::Immediate, |config| config.ports = set, |_| {});
    world.subsystem.set_neighbours(vec![neighbour]);
    // Address families: 1 is IPv4, 2 IPv6.
    let v4 = |address: &'static str| {
        vec![
            (1, address, "4420"),
            (1, address, "4421"),
            (1, "10.0.0.9", "4422"),
            (1, address, "4430"),
        ]
    };
    for (local, expected) in [
        ("127.0.0.1", v4("127.0.0.1")),
        ("192.168.1.7", v4("192.168.1.7")),
        ("::ffff:192.168.1.7", v4("192.168.1.7")),
        // Ports of IPv4 are not to be had at an address of IPv6.
        ("fd00::7", vec![(2, "fd00::7", "4421"), (1, "10.0.0.9", "4422")]),
    ] {
        let local = Some(local.parse().unwrap());
        let queue = world.attach_as(Transport { local, ..tcp() });
        world.connect_as(queue, HOST, DISCOVERY_NQN, connect(0, 32), 0xffff);
        world.call(queue, property_set(offset::CC, 0x0046_0001), &[]);
        let records = world.log(queue, page::DISCOVERY, 1024)[8];
        let log = world.log(queue, page::DISCOVERY, (u32::from(records) + 1) * 1024);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().trim().to_owned();
        let listed: Vec<_> = log[1024..]
            .chunks(1024)
            .filter(|record| record[2] == 2)
            .map(|record| (record[1], text(&record[512..768]), text(&record[32..64])))
            .collect();
        let expected = expected
            .iter()
            .map(|&(family, address, service)| (family, address.to_owned(), service.to_owned()));
        assert_eq!(listed, expected.collect::<Vec<_>>(), "{local:?}");
        let now = world.clock();
        world.subsystem.detach(now, queue);
    }
}
