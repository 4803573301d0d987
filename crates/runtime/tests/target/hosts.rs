//! What the result of a served drive says of the hosts that used it.

use crate::client::{Client, Target, blocks_of};
use mynah_lab::emulation::{Emulation, Prepared};
use mynah_lab::experiment::Precondition;
use mynah_result::{Flow, Result};
use mynah_runtime::fault::parse;
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_wire::nvme::{Status, SubmissionEntry, opcode};
use mynah_wire::tcp::stream::Pdu;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn nqn(name: &str) -> String {
    format!("nqn.2026-11.io.github.mynah-ssd:{name}")
}

/// A controller of a host and an I/O queue of it.
fn host(target: &Target, name: &str) -> (Client, Client) {
    let (id, admin) = Client::admin_as(target.address, 0, name).unwrap();
    (admin, Client::io_as(target.address, 0, name, id).unwrap())
}

fn flow<'a>(result: &'a Result, name: &str) -> &'a Flow {
    let found = result.flows.iter().find(|flow| flow.name == name);
    found.unwrap_or_else(|| panic!("no flow {name}: {:?}", names(result)))
}

fn names(result: &Result) -> Vec<&str> {
    result.flows.iter().map(|flow| flow.name.as_str()).collect()
}

/// Without what would keep reads from waiting behind programs.
fn uncached() -> Prepared {
    let settings = ["geometry.blocks_per_plane=32", "geometry.channels=1", "over_provisioning=50%"];
    let settings = settings.into_iter().chain(["cache.mode=read", "cache.size=1MiB"]);
    let settings: Vec<String> = settings.map(String::from).collect();
    let mut emulation = Emulation::on("enterprise-tlc", &settings).expect("a drive");
    emulation.start.precondition = Precondition::None;
    emulation.prepare().expect("a drive")
}

#[test]
fn the_writer_is_said_to_have_delayed_the_reader_whoever_else_came() {
    let target = Target::start_on(uncached, ServeOptions::default());
    let [idle, reader, writer] = ["idle", "reader", "writer"].map(nqn);
    let _idle = host(&target, &idle);
    let (_reader_admin, mut reads) = host(&target, &reader);
    let (_writer_admin, mut writes) = host(&target, &writer);
    for number in 0..32 {
        assert_eq!(writes.write(number * 1024, &vec![1; 256 << 10]).unwrap(), Status::SUCCESS);
    }
    for round in 0..4 {
        // As many as the queue takes, of which nobody waits for the first.
        for number in 0..64 {
            let entry = blocks_of(opcode::nvm::WRITE, 32_768 + number * 16, 16);
            writes.submit(entry, &[2; 8192]).unwrap();
        }
        for number in 0..32 {
            let block = (round * 32 + number) * 256;
            assert_eq!(reads.read(block, 8).unwrap().0, Status::SUCCESS);
        }
        for _ in 0..64 {
            assert!(matches!(writes.pdu().unwrap(), Pdu::CapsuleResponse(_)));
        }
    }
    let result = target.stop();
    assert_eq!(names(&result), [&idle, &reader, &writer]);
    let ios = |name: &str| (flow(&result, name).read.ios, flow(&result, name).write.ios);
    assert_eq!((ios(&idle), ios(&reader), ios(&writer)), ((0, 0), (128, 0), (0, 32 + 4 * 64)));
    let waited = |victim: &str, holder: &str| -> f64 {
        let blame = result.blame.iter();
        blame.filter(|it| it.victim == victim && it.holder == holder).map(|it| it.wait_ns).sum()
    };
    // A program takes hundreds of microseconds, and there are many.
    assert!(waited(&reader, &writer) > 1e6, "{:?}", result.blame);
    let known = [&*reader, &*writer, "gc", "mapping"];
    for entry in &result.blame {
        assert!(known.contains(&&*entry.victim) && known.contains(&&*entry.holder), "{entry:?}");
    }
}

#[test]
fn hosts_beyond_the_limit_are_told_together() {
    let target = Target::start(ServeOptions { speed: Speed::Max, ..ServeOptions::default() });
    let mut connections = vec![];
    for number in 0..67u64 {
        let (admin, mut io) = host(&target, &nqn(&number.to_string()));
        for block in 0..=number {
            assert_eq!(io.write(block, &[1; 512]).unwrap(), Status::SUCCESS);
        }
        connections.push((admin, io));
    }
    let result = target.stop();
    assert_eq!(result.flows.len(), 65);
    for number in 0..64 {
        assert_eq!(flow(&result, &nqn(&number.to_string())).write.ios, number + 1);
    }
    assert_eq!(flow(&result, "other hosts").write.ios, 65 + 66 + 67);
}

#[test]
fn a_host_without_a_name_is_told_by_its_identifier() {
    let target = Target::start(ServeOptions { speed: Speed::Max, ..ServeOptions::default() });
    let (_admin, mut io) = host(&target, "");
    assert_eq!(io.write(0, &[1; 512]).unwrap(), Status::SUCCESS);
    assert_eq!(io.read(0, 1).unwrap(), (Status::SUCCESS, vec![1; 512]));
    let result = target.stop();
    assert_eq!(names(&result), ["host 07070707-0707-0707-0707-070707070707"]);
    assert_eq!((result.flows[0].read.ios, result.flows[0].write.ios), (1, 1));
}

#[test]
fn errors_are_counted_by_what_the_host_was_told() {
    let fault = "ana-change:state=inaccessible,at=1ms,controller=3";
    let faults = vec![parse(fault).expect("it is known").expect("it is read")];
    let target = Target::start(ServeOptions { speed: Speed::Max, faults, ..Default::default() });
    let [holder, stranger, lost] = ["holder", "stranger", "lost"].map(nqn);
    let (_holder_admin, mut holds) = host(&target, &holder);
    let (_stranger_admin, mut writes) = host(&target, &stranger);
    let (_lost_admin, mut reads) = host(&target, &lost);
    let told = |status: Status| status.result_name();

    // Runs of marked blocks, until no more can be kept: a write that parts one has no room.
    let mark = |block| blocks_of(opcode::nvm::WRITE_UNCORRECTABLE, block, 3);
    let marked = (0..).map(|run| run * 4).find(|&block| {
        let status = holds.command(mark(block), &[]).unwrap().0.status();
        assert!(status.is_success() || told(status) == "capacity_exceeded", "{status:?}");
        !status.is_success()
    });
    assert!(marked > Some(4));
    assert_eq!(told(holds.write(1, &[1; 512]).unwrap()), "capacity_exceeded");
    assert_eq!(told(holds.read(0, 1).unwrap().0), "unrecovered_read_error");
    assert_eq!(told(holds.read(1 << 60, 1).unwrap().0), "lba_out_of_range");
    let mut elsewhere = blocks_of(opcode::nvm::READ, 0, 1);
    elsewhere.namespace_id.set(9);
    assert_eq!(told(holds.command(elsewhere, &[]).unwrap().0.status()), "invalid_namespace");
    let short = SubmissionEntry { data: Default::default(), ..blocks_of(opcode::nvm::READ, 0, 1) };
    assert_eq!(told(holds.command(short, &[]).unwrap().0.status()), "sgl_data_length_invalid");

    // One run less makes room for the registration, which is not kept.
    let reserve = |opcode, dword10: u32| {
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        entry.namespace_id.set(1);
        entry.dword10.set(dword10);
        entry
    };
    let keys = |first: u64, second: u64| [first.to_le_bytes(), second.to_le_bytes()].concat();
    for (opcode, dword10, keys) in [
        (opcode::nvm::RESERVATION_REGISTER, 0, keys(0, 7)),
        (opcode::nvm::RESERVATION_ACQUIRE, 1 << 8, keys(7, 0)),
    ] {
        let done = holds.command(reserve(opcode, dword10), &keys).unwrap().0;
        assert_eq!(done.status(), Status::SUCCESS);
    }
    let free = marked.unwrap_or(0) + 64;
    for _ in 0..2 {
        assert_eq!(told(writes.write(free, &[1; 512]).unwrap()), "reservation_conflict");
    }
    let flush = reserve(opcode::nvm::FLUSH, 0);
    assert_eq!(told(writes.command(flush, &[]).unwrap().0.status()), "reservation_conflict");

    let patience = Instant::now() + Duration::from_secs(30);
    let mut reads_refused = 0;
    while reads_refused < 2 {
        let status = reads.read(free, 1).unwrap().0;
        reads_refused += u64::from(told(status) == "ana_inaccessible");
        assert!(Instant::now() < patience);
    }

    let result = target.stop();
    let errors = |of: &[(&str, u64)]| -> BTreeMap<String, u64> {
        of.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    };
    assert_eq!(flow(&result, &holder).write.errors, errors(&[("capacity_exceeded", 1)]));
    assert_eq!(
        flow(&result, &holder).read.errors,
        errors(&[
            ("unrecovered_read_error", 1),
            ("lba_out_of_range", 1),
            ("invalid_namespace", 1),
            ("sgl_data_length_invalid", 1)
        ])
    );
    assert_eq!(flow(&result, &stranger).write.errors, errors(&[("reservation_conflict", 2)]));
    assert_eq!(flow(&result, &stranger).flush.errors, errors(&[("reservation_conflict", 1)]));
    assert_eq!(flow(&result, &lost).read.errors, errors(&[("ana_inaccessible", 2)]));
}
