//! Whose a command is: what replies, the drive and the names of flows say of it.

use crate::support::{SUBSYSTEM, World, read, write};
use mynah_device::{Queue, Timing};
use mynah_model::io::FlowId;
use mynah_model::stats::{Holder, Resource};
use mynah_stamp::Span;
use mynah_wire::fabrics::DISCOVERY_NQN;
use mynah_wire::nvme::SubmissionEntry;

fn nqn(name: &str) -> String {
    format!("nqn.2026-11.test:{name}")
}

/// The same, complete when it is on flash.
fn through(mut write: SubmissionEntry) -> SubmissionEntry {
    write.dword12.set(write.dword12.get() | 1 << 30);
    write
}

/// Submits a command and waits; the name of the flow that its reply belongs to.
fn flow(world: &mut World, queue: Queue, block: u64) -> String {
    let id = world.submit(queue, read(block, 1), &[]);
    let (reply, _) = world.reply(queue, id);
    world.subsystem.flow_names()[usize::from(reply.flow.0)].clone()
}

#[test]
fn who_delayed_whom_does_not_depend_on_who_else_came() {
    let mut world = World::new(Timing::Modelled);
    // One looks around, one monitors, one connects for I/O and does none.
    world.admin_as(&nqn("seeker"), DISCOVERY_NQN);
    world.admin_as(&nqn("monitor"), SUBSYSTEM);
    world.host_as(&nqn("idle"));
    let (_, reader, id) = world.host_as(&nqn("reader"));
    let (_, writer, _) = world.host_as(&nqn("writer"));
    assert_eq!(world.subsystem.flow_names(), [nqn("idle"), nqn("reader"), nqn("writer")]);
    // A second queue, and a second controller, of the same host.
    let second = world.io_queue_as(&nqn("reader"), id, 2);
    let (_, third, _) = world.host_as(&nqn("reader"));
    for queue in [reader, second, third] {
        assert_eq!(flow(&mut world, queue, 0), nqn("reader"));
    }
    for block in 0..64 {
        world.submit(writer, through(write(block * 8, 8)), &[1; 4096]);
    }
    world.wait(Span::from_ms(100));
    world.all_replies();
    // Reads wait behind programs.
    let mut expected = vec![];
    for block in 0..32 {
        let id = world.submit(writer, through(write(block * 8, 8)), &[2; 4096]);
        expected.push((id, FlowId(2)));
        let id = world.submit(reader, read((block + 32) * 8, 8), &[]);
        expected.push((id, FlowId(1)));
    }
    world.wait(Span::from_ms(100));
    let mut replies: Vec<(u16, FlowId)> =
        world.all_replies().into_iter().map(|((_, id), reply)| (id, reply.flow)).collect();
    replies.sort();
    assert_eq!(replies, expected);
    let blame = world.subsystem.drive().blame();
    let waited = |victim: u16, holder: u16| -> Span {
        let holder = Holder::Flow(FlowId(holder));
        let rows = blame.iter().filter(|row| row.resource == Resource::Die);
        rows.filter(|row| row.victim.0 == victim && row.holder == holder).map(|row| row.wait).sum()
    };
    assert!(waited(1, 2) > Span::from_ms(1), "{blame:?}");
    assert!(blame.iter().all(|row| row.victim.0 != 0 && row.holder != Holder::Flow(FlowId(0))));
}

#[test]
fn a_host_that_comes_back_has_the_flow_that_it_had() {
    let mut world = World::new(Timing::Immediate);
    let (admin, io, _) = world.host_as(&nqn("first"));
    assert_eq!(flow(&mut world, io, 0), nqn("first"));
    world.subsystem.detach(world.clock(), io);
    world.subsystem.detach(world.clock(), admin);
    let (_, io, _) = world.host_as(&nqn("second"));
    assert_eq!(flow(&mut world, io, 0), nqn("second"));
    let (_, io, _) = world.host_as(&nqn("first"));
    assert_eq!(flow(&mut world, io, 0), nqn("first"));
    assert_eq!(world.subsystem.flow_names(), [nqn("first"), nqn("second")]);
}

#[test]
fn further_hosts_share_a_flow_everywhere() {
    let mut world = World::new(Timing::Modelled);
    let mut queues = vec![];
    for number in 0..68 {
        queues.push(world.host_as(&nqn(&number.to_string())).1);
    }
    let names = world.subsystem.flow_names();
    assert_eq!(names.len(), 65);
    for (number, &queue) in queues.iter().enumerate() {
        let expected = if number < 64 { nqn(&number.to_string()) } else { "other hosts".into() };
        assert_eq!(flow(&mut world, queue, 0), expected);
    }
    // What the model knows of them has the same numbers.
    for &queue in &queues[60..] {
        for block in 0..8 {
            world.submit(queue, through(write(block * 8, 8)), &[1; 4096]);
        }
    }
    world.wait(Span::from_ms(200));
    let blame = world.subsystem.drive().blame();
    let waits: Vec<u16> = blame.iter().map(|row| row.victim.0).collect();
    assert!(waits.iter().all(|flow| (60..=64).contains(flow)), "{waits:?}");
    assert!(waits.contains(&64));
}
