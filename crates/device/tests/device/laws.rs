//! Laws that hold whatever hosts do: every command is answered exactly once or its queue is
//! closed, nothing panics, and what is read is what was written.

use crate::support::*;
use mynah_device::{NamespaceConfig, NamespaceContent, Queue, Timing};
use mynah_model::config::Config;
use mynah_stamp::Span;
use mynah_wire::fabrics::DISCOVERY_NQN;
use mynah_wire::nvme::opcode::{FABRICS, nvm, query};
use mynah_wire::nvme::{Status, SubmissionEntry};
use proptest::prelude::*;
use std::collections::HashMap;
use zerocopy::{FromBytes, IntoBytes};

const BLOCKS: u64 = 64;

/// What the two hosts of the model test do.
#[derive(Clone, Debug)]
enum Act {
    Write { start: u64, count: u32, seed: u64, force: bool },
    Read { start: u64, count: u32 },
    Zero { start: u64, count: u32, deallocate: bool },
    Deallocate { start: u64, count: u32 },
    Copy { from: u64, to: u64, count: u32 },
    CompareAndWrite { start: u64, guess: bool, seed: u64 },
    Flush,
    Wait { us: u64 },
    Reconnect,
}

fn act() -> impl Strategy<Value = Act> {
    let range = || (0..BLOCKS).prop_flat_map(|at| (Just(at), 1..=(BLOCKS - at).min(20) as u32));
    prop_oneof![
        4 => (range(), any::<u64>(), any::<bool>())
            .prop_map(|((start, count), seed, force)| Act::Write { start, count, seed, force }),
        4 => range().prop_map(|(start, count)| Act::Read { start, count }),
        1 => (range(), any::<bool>())
            .prop_map(|((start, count), deallocate)| Act::Zero { start, count, deallocate }),
        1 => range().prop_map(|(start, count)| Act::Deallocate { start, count }),
        1 => (0..BLOCKS / 2, 0..BLOCKS / 2, 1..10u32)
            .prop_map(|(from, to, count)| Act::Copy { from, to: to + 10, count }),
        1 => (0..BLOCKS, any::<bool>(), any::<u64>())
            .prop_map(|(start, guess, seed)| Act::CompareAndWrite { start, guess, seed }),
        1 => Just(Act::Flush),
        1 => (0..2000u64).prop_map(|us| Act::Wait { us }),
        1 => Just(Act::Reconnect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hosts that wait for each command see a plain array of blocks, over two queues, in any
    /// timing, and over a namespace that lies in two pieces.
    #[test]
    fn a_namespace_is_an_array_of_blocks(
        acts in proptest::collection::vec((act(), any::<bool>()), 1..80),
        modelled: bool,
        large: bool,
        places: bool,
    ) {
        let timing = if modelled { Timing::Modelled } else { Timing::Immediate };
        let size = if large { 4096 } else { 512 };
        let namespace = NamespaceConfig { bytes: Some(1 << 20), content: NamespaceContent::Blocks(size as u32), handles: vec![] };
        let drive = |config: &mut Config| {
            if places {
                placing(config);
            }
        };
        let mut world = World::with(timing, |config| config.namespaces = vec![namespace], drive);
        let (_, first, id) = world.host();
        let second = world.io_queue_as(HOST, id, 2);
        let mut queues = [first, second];
        let mut array = Array::new(size, BLOCKS);
        for (act, other) in acts {
            let io = queues[usize::from(other)];
            match act {
                Act::Write { start, count, seed, force } => {
                    let data = pattern(seed, count as usize * size);
                    let mut entry = write(start, count);
                    // A placement identifier, be there such a handle or not: on other drives nobody looks.
                    entry.dword12.set(entry.dword12.get() | u32::from(force) << 30 | 2 << 20);
                    entry.dword13.set((seed as u32 % 6) << 16);
                    prop_assert_eq!(world.status(io, entry, &data), Status::SUCCESS);
                    array.write(start, &data);
                }
                Act::Read { start, count } => {
                    let back = world.call(io, read(start, count), &[]).1;
                    prop_assert_eq!(back, array.read(start, count));
                }
                Act::Zero { start, count, deallocate } => {
                    let entry = write_zeroes(start, count, deallocate);
                    prop_assert_eq!(world.status(io, entry, &[]), Status::SUCCESS);
                    array.zero(start..start + u64::from(count));
                }
                Act::Deallocate { start, count } => {
                    let (entry, range) = deallocate(start, count);
                    prop_assert_eq!(world.status(io, entry, &range), Status::SUCCESS);
                    array.deallocate(start, count);
                }
                Act::Copy { from, to, count } => {
                    let (entry, range) = copy(from, to, count);
                    let status = world.status(io, entry, range.as_bytes());
                    prop_assert_eq!(status, Status::SUCCESS);
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
                    let first = world.submit(io, compare, &expected);
                    let second = world.submit(io, then, &data);
                    let first = plain(world.reply(io, first).0.entry.status());
                    let second = plain(world.reply(io, second).0.entry.status());
                    if array.blocks[at] == expected {
                        prop_assert_eq!((first, second), (Status::SUCCESS, Status::SUCCESS));
                        array.blocks[at] = data;
                    } else {
                        let failed = (Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED);
                        prop_assert_eq!((first, second), failed);
                    }
                }
                Act::Flush => {
                    prop_assert_eq!(world.status(io, entry(nvm::FLUSH, 1), &[]), Status::SUCCESS);
                }
                Act::Wait { us } => world.wait(Span::from_us(us)),
                Act::Reconnect => {
                    world.subsystem.detach(world.clock(), io);
                    let queue_id = u16::from(other) + 1;
                    queues[usize::from(other)] = world.io_queue_as(HOST, id, queue_id);
                }
            }
        }
        prop_assert!(world.closed.is_empty());
    }
}

/// Entries that are mostly nonsense, but often reach something.
fn wild() -> impl Strategy<Value = (SubmissionEntry, usize)> {
    let opcode = prop_oneof![
        6 => prop_oneof![
            8 => 0..0x1eu8,
            1 => Just(0x80),
            1 => Just(0x84),
            2 => Just(FABRICS),
            1 => Just(query::STORE_PROGRAM),
            1 => Just(query::RUN),
        ],
        1 => any::<u8>(),
    ];
    let small = prop_oneof![4 => 0..3u32, 2 => 0..300u32, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    let dwords = proptest::collection::vec(small.clone(), 6);
    (opcode, any::<u8>(), small, dwords, 0..9000usize).prop_map(
        |(opcode, flags, namespace, dwords, bytes)| {
            let mut entry = entry(opcode, namespace);
            entry.flags |= if flags < 240 { 0 } else { flags & 3 };
            let fields = [
                &mut entry.dword10,
                &mut entry.dword11,
                &mut entry.dword12,
                &mut entry.dword13,
                &mut entry.dword14,
                &mut entry.dword15,
            ];
            for (field, value) in fields.into_iter().zip(dwords) {
                field.set(value);
            }
            (entry, bytes)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any commands, on admin, I/O, discovery and unconnected queues: each is answered once,
    /// unless it may wait for ever or its queue is closed, and the subsystem still works.
    #[test]
    fn every_command_is_answered_once(
        commands in proptest::collection::vec((wild(), 0..4usize, 0..200u64), 1..150),
        modelled: bool,
        places: bool,
    ) {
        let timing = if modelled { Timing::Modelled } else { Timing::Immediate };
        let drive = |config: &mut Config| {
            if places {
                placing(config);
            }
        };
        let mut world = World::with(timing, |_| {}, drive);
        let (admin, io, _) = world.host();
        let (discovery, _) = world.admin_as(HOST, DISCOVERY_NQN);
        let queues = [admin, io, discovery, world.attach()];
        let bytes = pattern(7, 9000);
        let mut waiting: HashMap<(Queue, u16), SubmissionEntry> = HashMap::new();
        for ((entry, length), queue, us) in commands {
            let queue = queues[queue];
            let id = world.submit(queue, entry, &bytes[..length]);
            waiting.insert((queue, id), entry);
            if us % 3 == 0 {
                world.wait(Span::from_us(us));
            }
        }
        // Formats and sanitizes, sixteen overwrites even, are over by then.
        world.wait(Span::from_secs(30));
        // Queries of a profile are for whoever serves the subsystem to answer.
        for query in std::mem::take(&mut world.queries) {
            let clock = world.clock();
            world.subsystem.answer_query(clock, &query, Ok((0, vec![1, 2, 3])));
        }
        world.wait(Span::from_ms(1));
        for (key, reply) in world.all_replies() {
            let asked = waiting.remove(&key);
            prop_assert!(asked.is_some(), "a second reply, or to nothing: {:?}", reply);
        }
        let closed: Vec<Queue> = world.closed.iter().map(|(queue, _)| *queue).collect();
        for ((queue, _), entry) in waiting {
            // Event requests wait; the first half of a fused command waits for the second;
            // authentication is somebody else's to answer.
            let waits = entry.opcode == 0x0c
                || entry.flags & 3 == 1
                || (entry.opcode == FABRICS && matches!(entry.fabrics_type(), 5 | 6));
            prop_assert!(closed.contains(&queue) || waits, "no reply to {:?}", entry);
        }
        // Still alive.
        let (_, io, _) = world.host_as("nqn.2026-11.test:after");
        let status = world.status(io, read(0, 1), &[]);
        let fine = [
            Status::SUCCESS,
            Status::INVALID_NAMESPACE,
            Status::UNRECOVERED_READ_ERROR,
            Status::RESERVATION_CONFLICT,
        ];
        prop_assert!(fine.contains(&status), "{:?}", status);
    }

    /// Any bytes as an entry.
    #[test]
    fn any_entry_is_survived(bytes in proptest::collection::vec(any::<u8>(), 64), admin: bool) {
        let mut world = World::new(Timing::Immediate);
        let (admin_queue, io, _) = world.host();
        let entry = SubmissionEntry::read_from_bytes(&bytes).expect("64 bytes");
        world.submit(if admin { admin_queue } else { io }, entry, &bytes);
        world.wait(Span::from_ms(1));
    }
}
