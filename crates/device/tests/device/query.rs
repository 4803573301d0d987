//! Queries of a profile: whose they are, and how answers go out.

use crate::shared::*;
use mynah_device::Timing;
use mynah_wire::nvme::command::NvmCommand;
use mynah_wire::nvme::log::page;
use mynah_wire::nvme::opcode::query::{RUN, STORE_PROGRAM};
use mynah_wire::nvme::{Status, SubmissionEntry};

fn run(room: u32) -> SubmissionEntry {
    let mut entry = entry(RUN, 1);
    entry.data.length.set(room);
    entry
}

#[test]
fn queries_are_passed_on_and_answered() {
    let mut world = World::new(Timing::Modelled);
    let (admin, io, controller) = world.host();
    assert!(NvmCommand::parse(&run(64)).is_err());
    let id = world.submit(io, run(64), &[]);
    assert!(world.reply_now(io, id).is_none());
    let query = world.queries.pop().expect("a query");
    assert_eq!((query.room, query.controller_id, query.queue_id), (64, controller, 1));
    assert_eq!(query.host_nqn, HOST);
    assert_eq!(world.subsystem.host_of(io), Some(HOST));
    let clock = world.clock();
    assert!(world.subsystem.answer_query(clock, &query, Ok((0, vec![5; 10]))));
    let (reply, data) = world.reply_now(io, id).expect("an answer");
    assert!(reply.entry.status().is_success());
    assert_eq!(data, [&[5; 10][..], &[0; 54]].concat());

    // A program, and a refusal.
    let id = world.submit(io, entry(STORE_PROGRAM, 0), &[1; 16]);
    world.take();
    let query = world.queries.pop().expect("a query");
    assert_eq!(query.program.as_deref(), Some(&[1; 16][..]));
    world.subsystem.answer_query(clock, &query, Ok((7, vec![])));
    let (reply, data) = world.reply_now(io, id).expect("an answer");
    assert_eq!((reply.entry.result.get(), data.len()), (7, 0));
    let id = world.submit(io, run(64), &[]);
    world.take();
    let query = world.queries.pop().expect("a query");
    let status = Status::INVALID_FIELD.do_not_retry();
    world.subsystem.answer_query(clock, &query, Err(status));
    let (reply, _) = world.reply_now(io, id).expect("an answer");
    assert_eq!(plain(reply.entry.status()), Status::INVALID_FIELD);
    assert_eq!(world.status(io, entry(STORE_PROGRAM, 0), &[]), Status::INVALID_FIELD);
    assert_eq!(world.status(io, run(u32::MAX), &[]), Status::INVALID_FIELD);

    // The log page is cut out of the answer.
    let id = world.submit(admin, log_page(page::MYNAH_PROFILE, 16, 4), &[]);
    world.take();
    let query = world.queries.pop().expect("a query");
    assert!(query.is_page());
    world.subsystem.answer_query(clock, &query, Ok((0, (0..10).collect())));
    let (_, data) = world.reply_now(admin, id).expect("an answer");
    assert_eq!(data, [&[4, 5, 6, 7, 8, 9][..], &[0; 10]].concat());

    // Both are in the lists of what there is, and nobody waits on a queue that is gone.
    let effects = world.log(admin, page::COMMANDS_SUPPORTED, 4096);
    assert_eq!((effects[1024 + 4 * 0xc1], effects[1024 + 4 * 0xc2]), (1, 1));
    assert_eq!(world.log(admin, page::SUPPORTED_LOG_PAGES, 1024)[4 * 0xc2], 1);
    world.submit(io, run(64), &[]);
    world.take();
    let query = world.queries.pop().expect("a query");
    let clock = world.clock();
    world.subsystem.detach(clock, io);
    assert!(!world.subsystem.answer_query(clock, &query, Ok((0, vec![]))));
}
