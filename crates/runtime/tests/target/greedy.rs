//! Peers that take all they can get, of everything there is, beside one that behaves.

use crate::client::{Client, Target, blocks_of};
use mynah_runtime::authenticator::Secrets;
use mynah_runtime::engine::EngineLimits;
use mynah_runtime::quota::{Bound, Bounds};
use mynah_runtime::random;
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_stamp::Span;
use mynah_wire::authentication::{Hash, Secret};
use mynah_wire::fabrics::DISCOVERY_NQN;
use mynah_wire::nvme::{Status, opcode};
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

const GREEDY: &str = "192.0.2.1";
const SECOND: &str = "192.0.2.2";
const GOOD: &str = "2001:db8::1";

fn target(bounds: Bounds) -> Target {
    // Nothing goes because it takes too long.
    let long = Span::from_secs(3600);
    let limits =
        EngineLimits { bounds, half_open_time: long, authentication_time: long, data_time: long };
    Target::start(ServeOptions { speed: Speed::Max, limits, ..ServeOptions::default() })
}

/// How often peers could have no more of something.
fn refused(target: &Target, what: &str) -> u64 {
    let refusals = target.control.snapshot().expect("the engine answers").refusals;
    refusals.iter().find(|(name, _)| *name == what).expect("it is counted").1
}

/// Whether the drive has ended a connection.
fn is_over(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    matches!((&*stream).read(&mut [0]), Ok(0))
}

/// An admin queue and an I/O queue from `address`, and a write and a read.
fn visit(target: &Target, address: &str) {
    let (id, _admin) = Client::admin_over(target.open_from(address), 0).expect("a controller");
    let mut queue = Client::io_over(target.open_from(address), 0, id).expect("a queue");
    let data = vec![id as u8; 16_384];
    assert_eq!(queue.write(64, &data).expect("served"), Status::SUCCESS);
    assert_eq!(queue.read(64, 32).expect("served"), (Status::SUCCESS, data));
}

/// As many discovery controllers as there are for `address`.
fn discover(target: &Target, address: &str) -> Vec<Client> {
    let mut all = Vec::new();
    loop {
        let mut client = Client::over(target.open_from(address), 0).expect("a connection");
        let status = client.connect_to(DISCOVERY_NQN, 0, 0xffff, 31).expect("an answer").status();
        if !status.is_success() {
            assert_eq!(status.code(), Status::CONNECT_CONTROLLER_BUSY.code());
            assert_ne!(status, status.do_not_retry(), "it may try again");
            return all;
        }
        all.push(client);
    }
}

/// Anybody may ask what there is. However many do, hosts have what they need.
#[test]
fn discovery_uses_up_nothing_of_hosts() {
    let bounds = Bounds {
        connections: Bound::shared(2),
        controllers: Bound::shared(1),
        discovery: Bound { total: 5, per_peer: 3 },
        ..Bounds::default()
    };
    for authenticate in [false, true] {
        let secret = || Secret::generate(Hash::Sha256, &mut random::fill);
        let hosts = if authenticate { vec![(None, secret())] } else { vec![] };
        let limits = EngineLimits { bounds, ..EngineLimits::default() };
        let secrets = Secrets { hosts, ..Secrets::default() };
        let target = Target::start(ServeOptions {
            speed: Speed::Max,
            limits,
            secrets,
            ..ServeOptions::default()
        });
        let greedy = discover(&target, GREEDY);
        assert_eq!(greedy.len(), 3, "what one peer may have");
        let second = discover(&target, SECOND);
        assert_eq!(second.len(), 2, "what is left");
        assert_eq!(refused(&target, "discovery"), 2);
        match authenticate {
            // Its own controller, the first one.
            true => {
                let mut client = Client::over(target.open_from(GOOD), 0).expect("a connection");
                let done = client.connect(0, 0xffff, 31).expect("an answer");
                assert_eq!((done.status(), done.result.get() as u16), (Status::SUCCESS, 1));
            }
            false => visit(&target, GOOD),
        }
        // What was given back can be had again.
        drop(greedy);
        while discover(&target, GOOD).is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(second);
        target.stop();
    }
}

#[test]
fn half_open_connections_push_out_those_of_their_own_peer() {
    let half_open = Bound { total: 20, per_peer: 12 };
    let target = target(Bounds { half_open, ..Bounds::default() });
    // The oldest of all, and it takes its time.
    let slow = target.open_from(GOOD);
    let mut crowd = Vec::new();
    for address in [GREEDY, SECOND] {
        crowd.extend((0..30).map(|_| target.open_from(address)));
    }
    // Those that had to go are the crowd's own.
    assert!(is_over(&crowd[0]));
    let snapshot = target.control.snapshot().expect("the engine answers");
    assert_eq!(snapshot.half_open, 20);
    let mut client = Client::over(slow, 0).expect("it is still there");
    assert!(client.connect(0, 0xffff, 31).expect("an answer").status().is_success());
    visit(&target, GOOD);
    drop(crowd);
    target.stop();
}

#[test]
fn a_peer_has_its_part_of_controllers_and_queues() {
    let target = target(Bounds {
        connections: Bound { total: 8, per_peer: 5 },
        controllers: Bound { total: 6, per_peer: 3 },
        ..Bounds::default()
    });
    let mut greedy = Vec::new();
    while let Ok(admin) = Client::admin_over(target.open_from(GREEDY), 0) {
        greedy.push(admin);
    }
    assert_eq!(greedy.len(), 3);
    let mut queues = Vec::new();
    for (id, _) in &greedy {
        let mut queue = Client::over(target.open_from(GREEDY), 0).expect("a connection");
        let status = queue.connect(1, *id, 31).expect("an answer").status();
        if !status.is_success() {
            assert_eq!(status.code(), Status::CONNECT_CONTROLLER_BUSY.code());
        }
        queues.push((status.is_success(), queue));
    }
    assert_eq!(queues.iter().filter(|(connected, _)| *connected).count(), 2);
    assert_eq!((refused(&target, "controllers"), refused(&target, "connections")), (1, 1));
    visit(&target, GOOD);
    // A Connect that fails for another reason takes nothing.
    for _ in 0..10 {
        let mut wrong = Client::over(target.open_from(GOOD), 0).expect("a connection");
        let status = wrong.connect(1, 0x7fff, 31).expect("an answer").status();
        assert_eq!(status.code(), Status::CONNECT_INVALID_PARAMETERS.code());
    }
    visit(&target, GOOD);
    target.stop();
}

#[test]
fn a_peer_that_owes_data_leaves_room_for_those_of_others() {
    let transfer_bytes = Bound { total: 2 << 20, per_peer: 1 << 20 };
    let target = target(Bounds { transfer_bytes, ..Bounds::default() });
    // It begins writes on several queues, and never sends their data.
    let mut debtors = Vec::new();
    for _ in 0..6 {
        let (id, admin) = Client::admin_over(target.open_from(GREEDY), 0).expect("a controller");
        let mut debtor = Client::io_over(target.open_from(GREEDY), 0, id).expect("a queue");
        for _ in 0..20 {
            let mut write = blocks_of(opcode::nvm::WRITE, 0, 1024);
            write.data.length.set(512 << 10);
            debtor.submit(write, &[]).expect("sent");
        }
        debtors.push((admin, debtor));
    }
    visit(&target, GOOD);
    target.stop();
}
