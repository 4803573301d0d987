//! Laws: a namespace is an array of blocks, and what the function does in modelled time is what
//! the bare drive does.

use crate::lazy::LazyStore;
use crate::shared::{
    self, Array, blocks, copy, deallocate, entry, pattern, placing, plain, read, write,
    write_zeroes,
};
use crate::support::*;
use mynah_device::pci::FunctionConfig;
use mynah_device::{NamespaceConfig, NamespaceContent, RamStore, Store, SubsystemConfig, Timing};
use mynah_model::Drive;
use mynah_model::config::Config;
use mynah_model::io::{
    Control, FlowId, NamespaceId, Operation, Output, Queue, QueueId, QueueKind, Request, Tag,
};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use proptest::prelude::*;
use std::collections::VecDeque;
use zerocopy::IntoBytes;

const BLOCKS: u64 = 64;

/// What the guest does.
#[derive(Clone, Debug)]
enum Act {
    Write { start: u64, count: u32, seed: u64, force: bool, offset: u64 },
    Read { start: u64, count: u32, offset: u64 },
    Zero { start: u64, count: u32, deallocate: bool },
    Deallocate { start: u64, count: u32 },
    Copy { from: u64, to: u64, count: u32 },
    CompareAndWrite { start: u64, guess: bool, seed: u64 },
    Flush,
    Wait { us: u64 },
    Recreate,
    Reset,
}

fn act() -> impl Strategy<Value = Act> {
    let range = || (0..BLOCKS).prop_flat_map(|at| (Just(at), 1..=(BLOCKS - at).min(20) as u32));
    let offset = || (0..PAGE / 4).prop_map(|dword| dword * 4);
    prop_oneof![
        4 => (range(), any::<u64>(), any::<bool>(), offset()).prop_map(
            |((start, count), seed, force, offset)| Act::Write { start, count, seed, force, offset }
        ),
        4 => (range(), offset())
            .prop_map(|((start, count), offset)| Act::Read { start, count, offset }),
        1 => (range(), any::<bool>())
            .prop_map(|((start, count), deallocate)| Act::Zero { start, count, deallocate }),
        1 => range().prop_map(|(start, count)| Act::Deallocate { start, count }),
        1 => (0..BLOCKS / 2, 0..BLOCKS / 2, 1..10u32)
            .prop_map(|(from, to, count)| Act::Copy { from, to: to + 10, count }),
        1 => (0..BLOCKS, any::<bool>(), any::<u64>())
            .prop_map(|(start, guess, seed)| Act::CompareAndWrite { start, guess, seed }),
        1 => Just(Act::Flush),
        1 => (0..2000u64).prop_map(|us| Act::Wait { us }),
        1 => Just(Act::Recreate),
        1 => Just(Act::Reset),
    ]
}

/// A command with `data` at an offset in a page.
fn send_at(host: &mut Host, queue: u16, mut entry: SubmissionEntry, data: &[u8], at: u64) -> u16 {
    let mut bytes = vec![0; at as usize];
    bytes.extend_from_slice(data);
    let place = host.put(&bytes) + at;
    host.set_prps(&mut entry, place, data.len() as u64);
    host.submit(queue, entry)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A guest that waits for each command sees a plain array of blocks, over two queues, in
    /// any timing, wherever its buffers begin, and through resets.
    #[test]
    fn a_namespace_is_an_array_of_blocks(
        acts in proptest::collection::vec((act(), any::<bool>()), 1..80),
        modelled: bool,
        large: bool,
        shared_queue: bool,
        lazy: bool,
        places: bool,
    ) {
        let timing = if modelled { Timing::Modelled } else { Timing::Immediate };
        let size = if large { 4096 } else { 512 };
        let namespace = NamespaceConfig { bytes: Some(1 << 20), content: NamespaceContent::Blocks(size as u32), handles: vec![] };
        let store: Box<dyn Store> =
            if lazy { Box::<LazyStore>::default() } else { Box::new(RamStore::new()) };
        let config = |config: &mut SubsystemConfig, _: &mut FunctionConfig| {
            config.namespaces = vec![namespace];
        };
        let drive = |config: &mut Config| {
            if places {
                placing(config);
            }
        };
        let mut host = Host::cold(timing, config, drive, store);
        host.boot(32);
        let set_up = |host: &mut Host| {
            host.create_pair(1, 8);
            if shared_queue {
                assert_eq!(host.create_sq(2, 16, 1), Status::SUCCESS);
            } else {
                host.create_pair(2, 16);
            }
        };
        set_up(&mut host);
        let mut array = Array::new(size, BLOCKS);
        for (act, other) in acts {
            let io = u16::from(other) + 1;
            match act {
                Act::Write { start, count, seed, force, offset } => {
                    let data = pattern(seed, count as usize * size);
                    let mut entry = write(start, count);
                    // A placement identifier, be there such a handle or not: on other drives nobody looks.
                    entry.dword12.set(entry.dword12.get() | u32::from(force) << 30 | 2 << 20);
                    entry.dword13.set((seed as u32 % 6) << 16);
                    let id = send_at(&mut host, io, entry, &data, offset);
                    prop_assert!(host.completion(io, id).status().is_success());
                    array.write(start, &data);
                }
                Act::Read { start, count, offset } => {
                    let bytes = count as usize * size;
                    let at = host.pages(offset + bytes as u64) + offset;
                    let mut entry = read(start, count);
                    host.set_prps(&mut entry, at, bytes as u64);
                    prop_assert_eq!(host.status(io, entry), Status::SUCCESS);
                    prop_assert_eq!(host.get(at, bytes), array.read(start, count));
                }
                Act::Zero { start, count, deallocate } => {
                    let entry = write_zeroes(start, count, deallocate);
                    prop_assert_eq!(host.plain(io, entry), Status::SUCCESS);
                    array.zero(start..start + u64::from(count));
                }
                Act::Deallocate { start, count } => {
                    let (entry, range) = deallocate(start, count);
                    prop_assert_eq!(host.send(io, entry, &range), Status::SUCCESS);
                    array.deallocate(start, count);
                }
                Act::Copy { from, to, count } => {
                    let (entry, range) = copy(from, to, count);
                    prop_assert_eq!(host.send(io, entry, range.as_bytes()), Status::SUCCESS);
                    array.copy(from, to, count);
                }
                Act::CompareAndWrite { start, guess, seed } => {
                    let at = start as usize;
                    let expected = if guess { array.blocks[at].clone() } else { pattern(!seed, size) };
                    let data = pattern(seed, size);
                    let mut compare = blocks(nvm::COMPARE, 1, start, 1);
                    compare.flags |= 1;
                    let mut then = write(start, 1);
                    then.flags |= 2;
                    let first = send_at(&mut host, io, compare, &expected, 0);
                    let second = send_at(&mut host, io, then, &data, 0);
                    let first = plain(host.completion(io, first).status());
                    let second = plain(host.completion(io, second).status());
                    if array.blocks[at] == expected {
                        prop_assert_eq!((first, second), (Status::SUCCESS, Status::SUCCESS));
                        array.blocks[at] = data;
                    } else {
                        let failed = (Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED);
                        prop_assert_eq!((first, second), failed);
                    }
                }
                Act::Flush => {
                    prop_assert_eq!(host.plain(io, entry(nvm::FLUSH, 1)), Status::SUCCESS);
                }
                Act::Wait { us } => host.wait(Span::from_us(us)),
                Act::Recreate => {
                    let status = host.delete(admin::DELETE_SUBMISSION_QUEUE, io);
                    prop_assert_eq!(status, Status::SUCCESS);
                    let completion = if shared_queue { 1 } else { io };
                    prop_assert_eq!(host.create_sq(io, 5, completion), Status::SUCCESS);
                }
                Act::Reset => {
                    host.set_register(offset::CC, 0);
                    host.submissions.clear();
                    host.completions.clear();
                    host.boot(8);
                    set_up(&mut host);
                }
            }
        }
        prop_assert!(host.done.is_empty());
    }
}

/// What a guest with one queue does to the drive, in the model's terms.
fn operation(kind: u8) -> (u8, bool, Operation) {
    match kind {
        0 => (nvm::WRITE, false, Operation::Write),
        1 => (nvm::WRITE, true, Operation::WriteThrough),
        2 => (nvm::FLUSH, false, Operation::Flush),
        _ => (nvm::READ, false, Operation::Read),
    }
}

/// The bare drive, given rings at these times (and told that every completion is taken at
/// once): when each command completes, by its number.
fn predicted(rings: &[(Time, Vec<Request>)]) -> Vec<(u32, Time)> {
    let mut drive = Drive::new(shared::small()).expect("a drive");
    let queue = QueueId(1);
    let create = Control::CreateQueue(Queue {
        id: queue,
        kind: QueueKind::Memory,
        flow: FlowId(0),
        priority: Default::default(),
        completion_entries: 16,
    });
    drive.control(Time::ZERO, create).expect("a queue");
    let mut waiting: VecDeque<Request> = VecDeque::new();
    let mut done = vec![];
    let mut run = |drive: &mut Drive, to: Time, waiting: &mut VecDeque<Request>| {
        loop {
            while let Some(output) = drive.poll() {
                match output {
                    Output::Fetch { at, queue } => {
                        let request = waiting.pop_front().expect("it was rung for");
                        drive.command(at, queue, request).expect("it was asked for");
                    }
                    Output::Move { .. } | Output::Decide { .. } => {}
                    Output::Complete(completion) => {
                        done.push((completion.tag.0, completion.at));
                        drive.cq_freed(completion.at, queue, 1).expect("a queue");
                    }
                }
            }
            match drive.next_at().filter(|&at| at <= to) {
                Some(at) => drive.advance(at),
                None => break,
            }
        }
    };
    for (at, requests) in rings {
        run(&mut drive, *at, &mut waiting);
        waiting.extend(requests);
        drive.ring(*at, queue, requests.len() as u32).expect("a queue");
    }
    run(&mut drive, Time::MAX, &mut waiting);
    done
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Modelled is predicted: with the same rings, commands end when they do on the bare drive,
    /// and are seen by the guest at that very moment.
    #[test]
    fn what_is_modelled_is_what_the_drive_predicts(
        rings in proptest::collection::vec(
            (0..400u64, proptest::collection::vec((0..6u8, 0..900u64, 1..40u32), 1..6)),
            1..24,
        ),
    ) {
        let mut host = Host::new(Timing::Modelled);
        host.create_pair(1, 16);
        host.ears.heard.clear();
        host.is_punctual = true;
        let mut expected = vec![];
        let (mut rung, mut commands) = (vec![], vec![]);
        for (us, batch) in rings {
            host.wait(Span::from_us(us));
            // Without room, the guest waits.
            while commands.len() + batch.len() > host.ears.heard.len() + 15 {
                host.now = host.next_at().expect("something will happen").max(host.now);
                host.turn();
            }
            let mut requests = vec![];
            for (kind, sector, sectors) in batch {
                let (opcode, force, operation) = operation(kind);
                let mut entry = blocks(opcode, 1, sector, sectors);
                entry.dword12.set(entry.dword12.get() | u32::from(force) << 30);
                let at = host.pages(u64::from(sectors) * 512);
                host.set_prps(&mut entry, at, u64::from(sectors) * 512);
                commands.push(host.insert(1, entry));
                let (sector, sectors) =
                    if operation == Operation::Flush { (0, 0) } else { (sector, sectors) };
                let namespace = NamespaceId(1);
                let tag = Tag(commands.len() as u32 - 1);
                requests.push(Request { placement: Default::default(), tag, operation, namespace, sector, sectors });
            }
            host.ring(1);
            rung.push((host.now, requests));
            host.turn();
        }
        while host.ears.heard.len() < commands.len() {
            host.now = host.next_at().expect("something will happen").max(host.now);
            host.turn();
        }
        for (number, due) in predicted(&rung) {
            expected.push((commands[number as usize], due));
        }
        let heard: Vec<_> =
            host.ears.heard.iter().map(|it| (it.command_id, it.due.expect("modelled"))).collect();
        prop_assert_eq!(heard, expected);
    }
}
