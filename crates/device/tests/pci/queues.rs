//! Creating and deleting queues, doorbells, full completion queues, interrupts.

use crate::shared::{self, entry, get_feature, pattern, read, set_feature, write};
use crate::support::*;
use mynah_device::pci::{Function, FunctionConfig, Guest, GuestMemory, Posting, Region};
use mynah_device::{Now, RamStore, Timing};
use mynah_stamp::Span;
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

const BOTH: [Timing; 2] = [Timing::Immediate, Timing::Modelled];

fn create(opcode: u8, id: u16, entries: u32, dword11: u32, at: u64) -> SubmissionEntry {
    let mut create = entry(opcode, 0);
    create.set_prps(at, 0);
    create.dword10.set(u32::from(id) | (entries - 1) << 16);
    create.dword11.set(dword11);
    create
}

/// A fault drops completions or holds them back. That disturbs no others, and the model gets the
/// place of one that is dropped back.
#[test]
fn completions_are_dropped_and_held_back() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        host.function.expect_faults();
        let at = host.pages(4096);
        let mut one = read(0, 1);
        host.set_prps(&mut one, at, 512);
        // Three times as many as a queue has entries.
        for _ in 0..40 {
            host.ears.fates.extend([Posting::Dropped; 5]);
            for _ in 0..5 {
                host.submit(1, one);
            }
            host.wait(Span::from_ms(1));
        }
        assert!(host.done.is_empty() && host.ears.fates.is_empty(), "{timing:?}");
        assert_eq!(host.function.outstanding(&host.subsystem), 0, "{timing:?}");
        // One is late, and does not keep the other.
        let until = host.now + Span::from_ms(5);
        host.ears.fates.extend([Posting::Held(until), Posting::Posted]);
        let (late, prompt) = (host.submit(1, one), host.submit(1, one));
        host.completion(1, prompt);
        assert!(host.now < until && host.done.is_empty(), "{timing:?}");
        assert!(host.function.next_at().is_some_and(|at| at <= until), "{timing:?}");
        host.completion(1, late);
        assert!(host.now >= until, "{timing:?}");
        // A queue that goes takes along what is held back.
        host.ears.fates.push_back(Posting::Held(host.now + Span::from_ms(5)));
        host.submit(1, one);
        host.wait(Span::from_ms(1));
        assert_eq!(host.delete(admin::DELETE_SUBMISSION_QUEUE, 1), Status::SUCCESS);
        host.wait(Span::from_ms(10));
        assert!(host.done.is_empty(), "{timing:?}");
        // Admin commands are left alone.
        host.ears.fates.push_back(Posting::Dropped);
        let mut admin_command = get_feature(7, 0, 0);
        admin_command.set_prps(0, 0);
        assert_eq!(host.status(0, admin_command), Status::SUCCESS);
        assert_eq!(host.ears.fates.len(), 1, "{timing:?}");
    }
}

#[test]
fn queues_that_cannot_be_are_refused_by_name() {
    let mut host = Host::with_io(Timing::Modelled);
    let at = host.pages(64 << 10);
    let cq = admin::CREATE_COMPLETION_QUEUE;
    let sq = admin::CREATE_SUBMISSION_QUEUE;
    for (what, expected) in [
        (create(cq, 0, 16, 3, at), Status::QUEUE_ID_INVALID),
        (create(cq, 1, 16, 3, at), Status::QUEUE_ID_INVALID),
        (create(cq, 129, 16, 3, at), Status::QUEUE_ID_INVALID),
        (create(cq, 2, 1, 3, at), Status::QUEUE_SIZE_INVALID),
        (create(cq, 2, 1025, 3, at), Status::QUEUE_SIZE_INVALID),
        (create(cq, 2, 16, 2, at), Status::INVALID_FIELD),
        (create(cq, 2, 16, 3 | 129 << 16, at), Status::INTERRUPT_VECTOR_INVALID),
        (create(cq, 2, 16, 3, at + 64), Status::PRP_OFFSET_INVALID),
        (create(sq, 0, 16, 1 | 1 << 16, at), Status::QUEUE_ID_INVALID),
        (create(sq, 1, 16, 1 | 1 << 16, at), Status::QUEUE_ID_INVALID),
        (create(sq, 65_535, 16, 1 | 1 << 16, at), Status::QUEUE_ID_INVALID),
        (create(sq, 2, 1, 1 | 1 << 16, at), Status::QUEUE_SIZE_INVALID),
        (create(sq, 2, 2000, 1 | 1 << 16, at), Status::QUEUE_SIZE_INVALID),
        (create(sq, 2, 16, 1 << 16, at), Status::INVALID_FIELD),
        (create(sq, 2, 16, 1, at), Status::QUEUE_ID_INVALID),
        (create(sq, 2, 16, 1 | 500 << 16, at), Status::QUEUE_ID_INVALID),
        (create(sq, 2, 16, 1 | 2 << 16, at), Status::COMPLETION_QUEUE_INVALID),
        (create(sq, 2, 16, 1 | 1 << 16, at + 4), Status::PRP_OFFSET_INVALID),
        (create(admin::DELETE_SUBMISSION_QUEUE, 0, 1, 0, 0), Status::QUEUE_ID_INVALID),
        (create(admin::DELETE_SUBMISSION_QUEUE, 2, 1, 0, 0), Status::QUEUE_ID_INVALID),
        (create(admin::DELETE_SUBMISSION_QUEUE, 60_000, 1, 0, 0), Status::QUEUE_ID_INVALID),
        (create(admin::DELETE_COMPLETION_QUEUE, 0, 1, 0, 0), Status::QUEUE_ID_INVALID),
        (create(admin::DELETE_COMPLETION_QUEUE, 2, 1, 0, 0), Status::QUEUE_ID_INVALID),
        (create(admin::DELETE_COMPLETION_QUEUE, 1, 1, 0, 0), Status::QUEUE_DELETION_INVALID),
        // Not offered here.
        (create(admin::DOORBELL_BUFFER_CONFIG, 0, 1, 0, at), Status::INVALID_OPCODE),
    ] {
        assert_eq!(host.status(0, what), expected, "{what:?}");
    }
    // SGLs are not for admin commands.
    let mut identify = shared::identify(1, 0);
    identify.flags = 0x40;
    assert_eq!(host.status(0, identify), Status::INVALID_FIELD);
    // What is refused changes nothing.
    assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
    // As few queues as were asked for.
    let mut host = Host::new(Timing::Immediate);
    assert_eq!(host.plain(0, set_feature(7, 1 | 1 << 16)), Status::SUCCESS);
    assert_eq!(host.create_cq(3, 16, 0), Status::QUEUE_ID_INVALID);
    assert_eq!(host.create_cq(2, 16, 0), Status::SUCCESS);
    assert_eq!(host.create_sq(1, 16, 2), Status::SUCCESS);
    assert_eq!(host.plain(0, set_feature(7, 3 | 3 << 16)), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn submission_and_completion_queues_are_granted_apart() {
    let granted = |host: &mut Host, mut entry: SubmissionEntry| {
        entry.set_prps(0, 0);
        host.call(0, entry).result.get()
    };
    for timing in BOTH {
        let mut host = Host::new(timing);
        assert_eq!(granted(&mut host, set_feature(7, 3 | 1 << 16)), 3 | 1 << 16);
        assert_eq!(granted(&mut host, get_feature(7, 0, 0)), 3 | 1 << 16);
        assert_eq!(host.create_cq(1, 16, 1), Status::SUCCESS);
        assert_eq!(host.create_cq(2, 16, 2), Status::SUCCESS);
        assert_eq!(host.create_cq(3, 16, 0), Status::QUEUE_ID_INVALID);
        assert_eq!(host.create_sq(1, 16, 3), Status::QUEUE_ID_INVALID);
        for (id, completion) in [(1, 2), (2, 2), (3, 2), (4, 1)] {
            assert_eq!(host.create_sq(id, 16, completion), Status::SUCCESS);
        }
        assert_eq!(host.create_sq(5, 16, 1), Status::QUEUE_ID_INVALID);
        for id in 1..=4 {
            assert_eq!(host.fetch(id, read(0, 1), 512).0, Status::SUCCESS);
        }
        // More than there are is what there is.
        let mut host = Host::new(timing);
        assert_eq!(granted(&mut host, set_feature(7, 2 | 0xfffe << 16)), 2 | 127 << 16);
    }
}

#[test]
fn the_largest_and_the_smallest_queues_wrap_around() {
    for timing in BOTH {
        for entries in [2, 3, 1024] {
            let mut host = Host::new(timing);
            host.create_pair(1, entries);
            let at = host.pages(PAGE);
            let mut sent = 0;
            while sent < 2 * entries + 1 {
                let batch = (entries - 1).min(2 * entries + 1 - sent);
                let ids: Vec<u16> = (0..batch)
                    .map(|_| {
                        let mut read = read(0, 1);
                        read.set_prps(at, 0);
                        host.insert(1, read)
                    })
                    .collect();
                host.ring(1);
                for id in ids {
                    let completion = host.completion(1, id);
                    assert!(completion.status().is_success());
                    assert!(u32::from(completion.queue_head.get()) < entries);
                }
                sent += batch;
            }
            assert!(host.done.is_empty());
        }
    }
}

#[test]
fn a_full_completion_queue_holds_everything_back_and_loses_nothing() {
    for timing in BOTH {
        for shared_queue in [false, true] {
            let mut host = Host::new(timing);
            assert_eq!(host.create_cq(1, 4, 1), Status::SUCCESS);
            assert_eq!(host.create_sq(1, 32, 1), Status::SUCCESS);
            assert_eq!(host.create_sq(2, 32, 1), Status::SUCCESS);
            host.takes = false;
            let at = host.pages(PAGE);
            let mut ids = vec![];
            for n in 0..20 {
                let mut read = read(n, 1);
                read.set_prps(at, 0);
                let queue = if shared_queue { 1 + n as u16 % 2 } else { 1 };
                ids.push((queue, host.insert(queue, read)));
            }
            host.ring(1);
            host.ring(2);
            let seen = |host: &Host| {
                let base = host.completions[&1].base;
                (0..4).filter(|n| host.get(base + n * 16 + 14, 1)[0] & 1 == 1).count()
            };
            host.wait(Span::from_ms(5));
            assert_eq!(seen(&host), 3, "one place stays empty");
            host.takes = true;
            for _ in 0..20 {
                host.take();
                host.wait(Span::from_ms(1));
            }
            let mut done: Vec<_> =
                host.done.iter().map(|it| (it.queue_id.get(), it.command_id.get())).collect();
            done.sort_unstable();
            ids.sort_unstable();
            assert_eq!(done, ids, "{timing:?} {shared_queue}");
        }
    }
}

#[test]
fn doorbells_that_cannot_be_are_events() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        let requests: Vec<u16> = (0..2)
            .map(|_| {
                let mut request = entry(admin::ASYNCHRONOUS_EVENT_REQUEST, 0);
                request.set_prps(0, 0);
                host.submit(0, request)
            })
            .collect();
        host.turn();
        // A tail behind the queue's end; it is told once.
        host.doorbells[2].store(64, Ordering::Relaxed);
        let completion = host.completion(0, requests[0]);
        assert_eq!(completion.result.get() as u32, 1 << 8 | 1 << 16);
        host.turn();
        // The page that goes with it has to be read first; then the next event comes.
        assert_eq!(host.fetch(0, shared::log_page(1, 64, 0), 64).0, Status::SUCCESS);
        host.turn();
        assert!(host.done.is_empty());
        // A doorbell of a queue that there is not.
        host.write(Region::Registers, 0x1000 + 9 * 8, &[1, 0, 0, 0]);
        let completion = host.completion(0, requests[1]);
        assert_eq!(completion.result.get() as u32, 1 << 16);
        // A head that passes the tail changes nothing, and the queue works on.
        host.doorbells[3].store(5, Ordering::Relaxed);
        host.turn();
        host.doorbells[3].store(0, Ordering::Relaxed);
        assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
    }
}

#[test]
fn doorbells_by_register_work_like_shared_ones() {
    let mut host = Host::with_io(Timing::Modelled);
    let mut command = read(0, 1);
    let at = host.pages(512);
    command.set_prps(at, 0);
    let id = host.insert(1, command);
    host.write(Region::Registers, 0x1008, &host.submissions[&1].tail.to_le_bytes());
    assert!(host.completion(1, id).status().is_success());
}

#[test]
fn doorbells_in_guest_memory() {
    for timing in BOTH {
        let mut host = Host::with(timing, |_, function| function.shadow_doorbells = true, |_| {});
        let identify = host.fetch(0, shared::identify(1, 0), 4096).1;
        assert_eq!(identify[257] & 1, 1, "OACS bit 8");
        host.create_pair(1, 16);
        assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
        let (shadow, events) = (host.pages(PAGE), host.pages(PAGE));
        for (first, second) in [(shadow + 4, events), (shadow, events + 4), (0, events)] {
            let mut config = entry(admin::DOORBELL_BUFFER_CONFIG, 0);
            config.set_prps(first, second);
            assert_eq!(host.status(0, config), Status::INVALID_FIELD);
        }
        let mut config = entry(admin::DOORBELL_BUFFER_CONFIG, 0);
        config.set_prps(shadow, events);
        assert_eq!(host.status(0, config), Status::SUCCESS);
        assert_eq!(host.get(shadow + 8, 8), [1, 0, 0, 0, 1, 0, 0, 0], "as things stand");
        for n in 0..40 {
            let mut command = write(n, 1);
            let at = host.put(&pattern(n, 512));
            command.set_prps(at, 0);
            let id = host.insert(1, command);
            let tail = host.submissions[&1].tail;
            host.memory.write(shadow + 8, &tail.to_le_bytes()).unwrap();
            let head = host.completions[&1].head;
            host.memory.write(shadow + 12, &head.to_le_bytes()).unwrap();
            assert!(host.completion(1, id).status().is_success());
            // While it looks by itself, nobody has to ring.
            let event = u32::from_le_bytes(host.get(events + 8, 4).try_into().unwrap());
            assert_eq!(event, tail.wrapping_sub(1));
        }
        let guest = Guest { memory: &host.memory, doorbells: &host.doorbells };
        assert!(!host.function.ask_for_doorbells(guest));
        let tail = host.submissions[&1].tail;
        assert_eq!(host.get(events + 8, 4), tail.to_le_bytes(), "the next one is to ring");
        host.memory.write(shadow + 8, &(tail + 1).to_le_bytes()).unwrap();
        assert!(host.function.ask_for_doorbells(guest), "it came meanwhile");
        // Gone with the reset.
        host.set_register(offset::CC, 0);
        host.boot(8);
        host.create_pair(1, 16);
        assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
    }
}

#[test]
fn a_full_completion_queue_asks_for_its_doorbell_in_guest_memory() {
    for timing in BOTH {
        let mut host = Host::with(timing, |_, function| function.shadow_doorbells = true, |_| {});
        assert_eq!(host.create_cq(1, 3, 1), Status::SUCCESS);
        assert_eq!(host.create_sq(1, 16, 1), Status::SUCCESS);
        let (shadow, events) = (host.pages(PAGE), host.pages(PAGE));
        let mut config = entry(admin::DOORBELL_BUFFER_CONFIG, 0);
        config.set_prps(shadow, events);
        assert_eq!(host.status(0, config), Status::SUCCESS);
        host.memory.write(events + 12, &[7; 4]).unwrap();
        let at = host.pages(PAGE);
        for _ in 0..4 {
            let mut read = read(0, 1);
            read.set_prps(at, 0);
            host.insert(1, read);
        }
        let ask = |host: &mut Host| {
            let guest = Guest { memory: &host.memory, doorbells: &host.doorbells };
            host.function.ask_for_doorbells(guest)
        };
        assert!(!ask(&mut host));
        assert_eq!(host.get(events + 12, 4), [7; 4], "there is room: heads do not matter");
        host.memory.write(shadow + 8, &4u32.to_le_bytes()).unwrap();
        // The guest takes what there is, but does not tell.
        host.wait(Span::from_ms(1));
        assert_eq!(host.done.drain(..).count(), 2);
        assert!(!ask(&mut host));
        assert_eq!(host.get(events + 12, 4), [0; 4]);
        host.memory.write(shadow + 12, &2u32.to_le_bytes()).unwrap();
        assert!(ask(&mut host), "now it does");
        host.wait(Span::from_ms(1));
        assert_eq!(host.done.drain(..).count(), 2);
    }
}

#[test]
fn deleting_a_queue_ends_its_commands_and_no_others() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        assert_eq!(host.create_sq(2, 16, 1), Status::SUCCESS);
        let at = host.pages(PAGE);
        for n in 0..6 {
            let mut read = read(n, 8);
            read.set_prps(at, 0);
            host.insert(2, read);
        }
        let mut other = read(99, 8);
        other.set_prps(at, 0);
        let other = host.insert(1, other);
        host.ring(1);
        host.ring(2);
        if timing == Timing::Modelled {
            host.turn();
            while !host.function.uses(at + 100, 1) {
                host.now = host.next_at().expect("it will be fetched");
                host.turn();
            }
        }
        assert_eq!(host.delete(admin::DELETE_COMPLETION_QUEUE, 1), Status::QUEUE_DELETION_INVALID);
        assert_eq!(host.delete(admin::DELETE_SUBMISSION_QUEUE, 2), Status::SUCCESS);
        assert!(host.completion(1, other).status().is_success());
        host.submissions.remove(&2);
        host.done.clear();
        host.wait(Span::from_ms(10));
        assert!(host.done.is_empty());
        assert!(!host.function.uses(0, u64::MAX));
        assert_eq!(host.delete(admin::DELETE_SUBMISSION_QUEUE, 1), Status::SUCCESS);
        assert_eq!(host.delete(admin::DELETE_COMPLETION_QUEUE, 1), Status::SUCCESS);
        host.completions.remove(&1);
        host.submissions.remove(&1);
        host.create_pair(1, 8);
        assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
    }
}

#[test]
fn interrupts_are_aggregated_as_the_features_say() {
    let mut host = Host::with_io(Timing::Immediate);
    host.interrupts.clear();
    // Four entries (a value of 3), or 200 us.
    assert_eq!(host.plain(0, set_feature(8, 3 | 2 << 8)), Status::SUCCESS);
    assert_eq!(
        host.call(0, {
            let mut it = get_feature(8, 0, 0);
            it.set_prps(0, 0);
            it
        })
        .result
        .get(),
        0x203
    );
    host.wait(Span::from_ms(1));
    host.interrupts.clear();
    host.takes = false;
    let at = host.pages(PAGE);
    let send = |host: &mut Host, count: u32| {
        for _ in 0..count {
            let mut read = read(0, 1);
            read.set_prps(at, 0);
            host.insert(1, read);
        }
        host.ring(1);
        host.turn();
    };
    send(&mut host, 3);
    assert_eq!(host.interrupts, []);
    let due = host.function.next_at().expect("an interrupt is due");
    assert_eq!(due.since(host.now), Span::from_us(200));
    host.now = due;
    host.turn();
    assert_eq!(host.interrupts, [1]);
    host.take();
    host.turn();
    send(&mut host, 4);
    assert_eq!(host.interrupts, [1, 1], "enough of them");
    host.take();
    host.turn();
    // This vector comes one by one.
    host.takes = true;
    assert_eq!(host.plain(0, set_feature(9, 1 | 1 << 16)), Status::SUCCESS);
    host.wait(Span::from_ms(1));
    host.interrupts.clear();
    send(&mut host, 1);
    assert_eq!(host.interrupts, [1]);
}

#[test]
fn a_masked_vector_is_pending() {
    let mut host = Host::with_io(Timing::Immediate);
    host.wait(Span::from_ms(1));
    host.interrupts.clear();
    // MSI-X is enabled, and all vectors start masked.
    host.write(Region::Configuration, 0x52, &0x8000u16.to_le_bytes());
    assert_eq!(host.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
    assert_eq!(host.interrupts, []);
    assert_eq!(host.read::<1>(Region::MsixPending, 0), [2]);
    host.write(Region::MsixTable, 16 + 12, &[0; 4]);
    host.turn();
    assert_eq!(host.interrupts, [1]);
    assert_eq!(host.read::<1>(Region::MsixPending, 0), [0]);
}

/// The answer to a command over a connection, and its data.
fn answer(
    host: &mut Host,
    queue: mynah_device::Queue,
    entry: SubmissionEntry,
    data: &[u8],
) -> (CompletionEntry, Vec<u8>) {
    host.subsystem.submit(host.clock(), queue, &entry, data);
    loop {
        host.turn();
        if let Some(output) = host.subsystem.poll() {
            let mynah_device::Output::Completion(mut reply) = output else { panic!() };
            assert_eq!(reply.queue, queue);
            let mut bytes = vec![0; reply.data.bytes()];
            host.subsystem.fill(&mut reply, &mut bytes);
            break (reply.entry, bytes);
        }
        host.now = host.next_at().expect("something will happen").max(host.now);
        host.subsystem.advance(Now { wall: host.now, model: host.now });
    }
}

/// The I/O queue of a host of fabrics on the same subsystem.
fn connection(host: &mut Host) -> mynah_device::Queue {
    let transport = mynah_device::Transport {
        in_capsule_bytes: 8192,
        max_transfer_bytes: 128 << 10,
        peer: "test".into(),
        source: 0,
        local: None,
        port: 0,
        kind: 3,
        host_nqn: None,
    };
    let now = host.clock();
    let queues = [0, 1].map(|_| host.subsystem.attach(now, transport.clone()));
    let mut id = 0xffff;
    for (queue_id, &queue) in (0..).zip(&queues) {
        let mut connect = SubmissionEntry::default();
        shared::connect(queue_id, 16).put(&mut connect);
        let data = shared::connect_data(shared::HOST, shared::SUBSYSTEM, id);
        let reply = answer(host, queue, connect, data.as_bytes()).0;
        assert!(reply.status().is_success(), "{:?}", reply.status());
        id = reply.result.get() as u16;
        if queue_id == 0 {
            let enable = shared::property_set(offset::CC, 0x0046_0001);
            assert!(answer(host, queue, enable, &[]).0.status().is_success());
        }
    }
    queues[1]
}

#[test]
fn preempt_and_abort_stops_a_write_whose_data_have_not_been_fetched() {
    let mut stopped = 0;
    for delay in 0..24 {
        let mut host = Host::with_io(Timing::Modelled);
        let connection = connection(&mut host);
        let register = shared::reserve(nvm::RESERVATION_REGISTER, 0);
        assert_eq!(host.send(0, shared::set_feature(0x81, 1), &[3; 16]), Status::SUCCESS);
        assert_eq!(host.send(1, register, &shared::keys(0, 7)), Status::SUCCESS);
        let registered = answer(&mut host, connection, register, &shared::keys(0, 8)).0;
        assert!(registered.status().is_success());
        let mut of_guest = write(0, 8);
        let at = host.put(&pattern(1, 4096));
        of_guest.set_prps(at, 0);
        let of_guest = host.submit(1, of_guest);
        host.wait(Span::from_ns(250 * delay));
        // No reservation is held: the guest loses its registration.
        let preempt = shared::reserve(nvm::RESERVATION_ACQUIRE, 1 << 8 | 2);
        let preempted = answer(&mut host, connection, preempt, &shared::keys(8, 7)).0;
        assert!(preempted.status().is_success());
        let then = answer(&mut host, connection, read(0, 8), &[]).1;
        let status = shared::plain(host.completion(1, of_guest).status());
        let late = answer(&mut host, connection, read(0, 8), &[]).1;
        match status {
            Status::ABORTED_PREEMPTED => stopped += u32::from(late == [0; 4096]),
            // Before it has been fetched, it has not begun.
            status => assert_eq!(status, Status::SUCCESS),
        }
        assert!(status == Status::SUCCESS || then == late, "{delay}");
    }
    assert!(stopped > 0);
}

#[test]
fn one_subsystem_serves_a_function_and_a_connection() {
    for timing in BOTH {
        let mut host = Host::with_io(timing);
        let data = pattern(1, 4096);
        assert_eq!(host.send(1, write(0, 8), &data), Status::SUCCESS);
        // A host of fabrics on the same subsystem sees the same namespace.
        let connection = connection(&mut host);
        // Both at once.
        let mut of_guest = read(0, 8);
        let at = host.pages(4096);
        of_guest.set_prps(at, 0);
        let of_guest = host.submit(1, of_guest);
        host.turn();
        let (answer, back) = answer(&mut host, connection, read(0, 8), &[]);
        assert!(answer.status().is_success());
        assert_eq!(back, data);
        assert!(host.completion(1, of_guest).status().is_success());
        assert_eq!(host.get(at, 4096), data);
        assert!(host.subsystem.poll().is_none(), "the guest's replies are the function's");
    }
}

#[test]
fn priorities_are_offered_where_the_drive_has_them() {
    for has in [false, true] {
        let mut host =
            Host::with(Timing::Modelled, |_, _| {}, |drive| drive.scheduler.priority_classes = has);
        let capabilities = u64::from_le_bytes(host.read(Region::Registers, 0));
        assert_eq!(capabilities >> 17 & 1 != 0, has);
        host.set_register(offset::CC, 0);
        host.set_register(offset::CC, 0x0046_0801);
        assert_eq!(host.register(offset::CSTS) & 1 != 0, has);
        if !has {
            continue;
        }
        host.submissions.clear();
        host.completions.clear();
        host.set_register(offset::CC, 0);
        host.boot_with(16, 0x0046_0801);
        for (id, priority) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            assert_eq!(host.create_cq(id, 8, id), Status::SUCCESS);
            let at = host.pages(PAGE);
            let what = admin::CREATE_SUBMISSION_QUEUE;
            let create = create(what, id, 8, 1 | priority << 1 | u32::from(id) << 16, at);
            assert_eq!(host.status(0, create), Status::SUCCESS);
        }
    }
}

/// Two functions of one subsystem: each holds the model up until it has had its turn, and
/// neither sees the other's commands.
#[test]
fn two_functions_share_a_subsystem() {
    for timing in BOTH {
        let mut one = Host::with_io(timing);
        let mut other = Host::cold(timing, |_, _| {}, |_| {}, Box::new(RamStore::new()));
        let config = FunctionConfig { host: "other".into(), ..Default::default() };
        let now = one.clock();
        other.function = Function::new(now, &mut one.subsystem, config).expect("one more");
        other.write(Region::Configuration, 4, &[6, 0]);
        // The subsystem is lent to whoever has his turn.
        std::mem::swap(&mut one.subsystem, &mut other.subsystem);
        other.now = one.now;
        other.boot(16);
        other.create_pair(1, 64);
        std::mem::swap(&mut one.subsystem, &mut other.subsystem);
        one.now = one.now.max(other.now);
        let at = [one.put(&pattern(1, 4096)), other.put(&pattern(2, 4096))];
        let mut waiting = vec![];
        for n in 0..40u64 {
            let (host, at, first) =
                if n % 2 == 0 { (&mut one, at[0], 0) } else { (&mut other, at[1], 400) };
            let mut command = if n < 20 { write(first + n, 1) } else { read(first + n - 20, 1) };
            command.set_prps(at, 0);
            waiting.push(host.submit(1, command));
        }
        let mut done = 0;
        for _ in 0..10_000 {
            one.turn();
            other.now = one.now;
            std::mem::swap(&mut one.subsystem, &mut other.subsystem);
            other.turn();
            std::mem::swap(&mut one.subsystem, &mut other.subsystem);
            done += one.done.drain(..).count() + other.done.drain(..).count();
            if done == waiting.len() {
                break;
            }
            let next = one.next_at().filter(|&at| at > one.now);
            one.now = next.unwrap_or(one.now);
        }
        assert_eq!(done, waiting.len(), "{timing:?}");
        assert_eq!(one.get(at[0], 512), pattern(1, 512));
        assert_eq!(other.get(at[1], 512), pattern(2, 512));
        let flows = [&one, &other].map(|host| host.ears.flow.map(|flow| flow.0));
        assert_eq!(flows, [Some(0), Some(1)]);
        // Without the second, the first goes on.
        let mut command = read(0, 8);
        command.set_prps(at[1], 0);
        other.insert(1, command);
        other.ring(1);
        std::mem::swap(&mut one.subsystem, &mut other.subsystem);
        other.turn();
        std::mem::swap(&mut one.subsystem, &mut other.subsystem);
        let now = one.clock();
        let empty = Host::cold(timing, |_, _| {}, |_| {}, Box::new(RamStore::new()));
        let gone = std::mem::replace(&mut other.function, empty.function);
        gone.close(now, &mut one.subsystem);
        assert_eq!(one.fetch(1, read(0, 1), 512).0, Status::SUCCESS);
    }
}
