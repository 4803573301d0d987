//! Hosts that do not. A host that behaves must not notice them.

use crate::client::{Client, Target, blocks_of};
use mynah_runtime::engine::EngineLimits;
use mynah_runtime::quota::{Bound, Bounds};
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_stamp::Span;
use mynah_wire::nvme::{Status, opcode};
use mynah_wire::tcp::pdu::FatalError;
use mynah_wire::tcp::stream::Pdu;
use std::io::{Read, Write};
use std::net::TcpStream;

fn target(mut limits: EngineLimits) -> Target {
    limits.bounds.transfer_bytes = Bound::shared(4 << 20);
    Target::start(ServeOptions { speed: Speed::Max, limits, ..ServeOptions::default() })
}

/// Reads and writes a little on a queue of its own.
struct Good {
    _admin: Client,
    queue: Client,
    id: u16,
    turn: u8,
}

impl Good {
    fn new(target: &Target) -> Good {
        let (id, admin) = Client::admin(target.address, 0).expect("an admin queue");
        let queue = Client::io(target.address, 0, id).expect("a queue");
        Good { _admin: admin, queue, id, turn: 0 }
    }

    fn works(&mut self) {
        self.turn += 1;
        let data = vec![self.turn; 16_384];
        assert_eq!(self.queue.write(64, &data).expect("served"), Status::SUCCESS);
        assert_eq!(self.queue.read(64, 32).expect("served"), (Status::SUCCESS, data));
    }
}

#[test]
fn rubbish_ends_its_own_connection_only() {
    let target = target(EngineLimits::default());
    let mut good = Good::new(&target);
    let long = [0x04, 0, 72, 72, 0xff, 0xff, 0xff, 0xff];
    for rubbish in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[0; 5000], &long] {
        let mut stream = TcpStream::connect(target.address).unwrap();
        stream.write_all(rubbish).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer[0], 3, "a terminate PDU says why");
        good.works();
    }
    let mut second = Client::open(target.address, 0).unwrap();
    let done = second.connect(1, good.id, 31).unwrap();
    assert!(!done.status().is_success(), "queue 1 is taken");
    let mut client = Client::open(target.address, 0).unwrap();
    client.stream.write_all(&long).unwrap();
    let error = FatalError::InvalidHeaderField as u16;
    assert_eq!(client.pdu().unwrap(), Pdu::Terminate(error, 4));
    good.works();
    target.stop();
}

#[test]
fn queues_of_impossible_sizes_are_refused() {
    let target = target(EngineLimits::default());
    let mut good = Good::new(&target);
    for size in [0, u16::MAX] {
        let mut client = Client::open(target.address, 0).unwrap();
        let done = client.connect(0, 0xffff, size).unwrap();
        let invalid = Status::CONNECT_INVALID_PARAMETERS;
        assert_eq!(done.status().code(), invalid.code(), "size {size}");
    }
    good.works();
    target.stop();
}

#[test]
fn half_open_connections_are_limited_and_time_out() {
    let limits = EngineLimits {
        bounds: Bounds { half_open: Bound::shared(50), ..Bounds::default() },
        half_open_time: Span::from_ms(1500),
        ..EngineLimits::default()
    };
    let target = target(limits);
    let mut good = Good::new(&target);
    let crowd: Vec<_> = (0..600).map(|_| TcpStream::connect(target.address).unwrap()).collect();
    good.works();
    let more = Good::new(&target);
    let connections = target.control.snapshot().unwrap().connections;
    assert!(connections <= 50 + 4, "{connections} connections");
    // In time they go, all of them, and the others stay.
    while target.control.snapshot().unwrap().connections > 4 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        good.works();
    }
    drop((crowd, more));
    target.stop();
}

#[test]
fn a_host_that_never_reads_is_left_waiting() {
    let target = target(EngineLimits::default());
    let mut good = Good::new(&target);
    let (id, _admin) = Client::admin(target.address, 0).unwrap();
    let mut deaf = Client::io(target.address, 0, id).unwrap();
    // 100 MiB to read, and nobody who does.
    for _ in 0..100 {
        deaf.submit(blocks_of(opcode::nvm::READ, 0, 2048), &[]).unwrap();
    }
    for _ in 0..20 {
        good.works();
    }
    let snapshot = target.control.snapshot().unwrap();
    assert!(snapshot.totals.reads < 80, "{:?}", snapshot.totals);
    target.stop();
}

#[test]
fn hosts_that_owe_data_leave_room_for_others_and_go() {
    let limits = EngineLimits { data_time: Span::from_ms(1500), ..EngineLimits::default() };
    let target = target(limits);
    let mut good = Good::new(&target);
    let mut debtors = Vec::new();
    // Each asks for all the memory it may have; together they want more than there is.
    for _ in 0..6 {
        let (id, admin) = Client::admin(target.address, 0).unwrap();
        let mut debtor = Client::io(target.address, 0, id).unwrap();
        for _ in 0..20 {
            let mut write = blocks_of(opcode::nvm::WRITE, 0, 1024);
            write.data.length.set(512 << 10);
            debtor.submit(write, &[]).unwrap();
        }
        debtors.push((admin, debtor));
    }
    // The good one has to wait until they are given up, but then it is served.
    good.works();
    for (_, debtor) in &mut debtors {
        let mut rest = Vec::new();
        let _ = debtor.stream.read_to_end(&mut rest);
    }
    good.works();
    target.stop();
}
