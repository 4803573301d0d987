//! Key-value namespaces: what their commands do, with both timings.

use crate::pairs::*;
use crate::support::*;
use mynah_device::{NamespaceConfig, NamespaceContent, Queue, Timing};
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::listed_keys;
use mynah_wire::nvme::opcode::{admin, key_value, nvm};
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};

pub(crate) fn world(timing: Timing) -> World {
    World::with(timing, |_| {}, mixed)
}

/// Both timings, with a host.
fn each(test: impl Fn(&mut World, Queue, Queue)) {
    for timing in [Timing::Immediate, Timing::Modelled] {
        let mut world = world(timing);
        let (admin, io, _) = world.host();
        test(&mut world, admin, io);
    }
}

fn plain_of(entry: CompletionEntry) -> Status {
    plain(entry.status())
}

#[test]
fn a_value_is_stored_replaced_retrieved_and_deleted() {
    each(|world, _, io| {
        assert_eq!(world.status(io, exist("a"), &[]), Status::KEY_DOES_NOT_EXIST);
        for (seed, bytes) in [(1, 700), (2, 0), (3, 1), (4, 64 << 10), (5, 4096)] {
            let value = pattern(seed, bytes as usize);
            let (done, _) = world.call(io, store("a", bytes), &value);
            assert_eq!((plain_of(done), done.result.get()), (Status::SUCCESS, 0));
            assert_eq!(world.status(io, exist("a"), &[]), Status::SUCCESS);
            // Into buffers of all sizes: what fits is moved, and the size is said.
            for room in [0, 1, bytes / 2, bytes, bytes + 1, 128 << 10] {
                let (done, data) = world.call(io, retrieve("a", room), &[]);
                assert_eq!((plain_of(done), done.result.get()), (Status::SUCCESS, bytes.into()));
                assert_eq!(data, value[..bytes.min(room) as usize]);
            }
        }
        assert_eq!(world.status(io, delete("a"), &[]), Status::SUCCESS);
        assert_eq!(world.status(io, delete("a"), &[]), Status::SUCCESS);
        assert_eq!(world.status(io, retrieve("a", 100), &[]), Status::KEY_DOES_NOT_EXIST);
    });
}

#[test]
fn a_store_can_ask_for_a_key_or_for_none() {
    each(|world, _, io| {
        let (if_absent, if_exists) = (StoreCondition::IfAbsent, StoreCondition::IfExists);
        let mut status = |entry, data: &[u8]| world.status(io, entry, data);
        assert_eq!(status(store_if(if_exists, "k", 1), b"x"), Status::KEY_DOES_NOT_EXIST);
        assert_eq!(status(exist("k"), &[]), Status::KEY_DOES_NOT_EXIST);
        assert_eq!(status(store_if(if_absent, "k", 1), b"y"), Status::SUCCESS);
        assert_eq!(status(store_if(if_absent, "k", 1), b"z"), Status::KEY_EXISTS);
        let (_, data) = world.call(io, retrieve("k", 10), &[]);
        assert_eq!(data, b"y");
        assert_eq!(world.status(io, store_if(if_exists, "k", 2), b"zz"), Status::SUCCESS);
        let (_, data) = world.call(io, retrieve("k", 10), &[]);
        assert_eq!(data, b"zz");
        // Not to be compressed: nothing is anyway.
        let mut entry = store("k", 3);
        entry.dword11.set(entry.dword11.get() | 1 << 10);
        assert_eq!(world.status(io, entry, b"abc"), Status::SUCCESS);
        let mut entry = retrieve("k", 3);
        entry.dword11.set(entry.dword11.get() | 1 << 8);
        assert_eq!(world.call(io, entry, &[]).1, b"abc");
    });
}

#[test]
fn a_list_is_paged_to_its_end() {
    each(|world, _, io| {
        let (_, data) = world.call(io, list("", 4096), &[]);
        assert_eq!(data, [0; 4]);
        let mut names: Vec<String> =
            (0..100).map(|at| format!("{}{at}", "k".repeat(at % 12 + 1))).collect();
        for name in &names {
            assert_eq!(world.status(io, store(name, 1), b"."), Status::SUCCESS);
        }
        names.sort();
        let (mut found, mut start) = (vec![], String::new());
        loop {
            let (done, data) = world.call(io, list(&start, 100), &[]);
            assert_eq!(plain_of(done), Status::SUCCESS);
            assert!(data.len() <= 100);
            let page = listed_keys(&data).expect("a list");
            let page = page.iter().map(|key| String::from_utf8(key.as_slice().into()).unwrap());
            // The last key of a page is the first of the next.
            let page: Vec<String> = page.skip(usize::from(!start.is_empty())).collect();
            let Some(last) = page.last() else { break };
            start.clone_from(last);
            found.extend(page);
        }
        assert_eq!(found, names);
        // A start that is not there: what follows it.
        let (_, data) = world.call(io, list("kkk!", 4096), &[]);
        let first = names.iter().find(|name| name.as_str() > "kkk!").unwrap();
        assert_eq!(listed_keys(&data).unwrap()[0].as_slice(), first.as_bytes());
        assert_eq!(world.status(io, list("", 3), &[]), Status::INVALID_FIELD);
        assert_eq!(world.call(io, list("", 4), &[]).1, [0; 4]);
    });
}

#[test]
fn bad_commands_are_refused_and_change_nothing() {
    each(|world, _, io| {
        assert_eq!(world.status(io, store("k", 2), b"ok"), Status::SUCCESS);
        let with = |entry: SubmissionEntry, change: &dyn Fn(&mut SubmissionEntry)| {
            let mut entry = entry;
            change(&mut entry);
            entry
        };
        let key_of = |bytes: u32| {
            move |entry: &mut SubmissionEntry| {
                entry.dword11.set(entry.dword11.get() & !0xff | bytes);
            }
        };
        let big = vec![0; 65 << 10];
        for (entry, data, expected) in [
            (with(store("k", 2), &key_of(0)), &b"no"[..], Status::INVALID_KEY_SIZE),
            (with(retrieve("k", 2), &key_of(0)), &[], Status::INVALID_KEY_SIZE),
            (with(delete("k"), &key_of(0)), &[], Status::INVALID_KEY_SIZE),
            (with(exist("k"), &key_of(0)), &[], Status::INVALID_KEY_SIZE),
            (with(store("k", 2), &key_of(17)), &b"no"[..], Status::INVALID_FIELD),
            (with(exist("k"), &key_of(255)), &[], Status::INVALID_FIELD),
            (with(list("", 100), &key_of(17)), &[], Status::INVALID_FIELD),
            (store("k", (64 << 10) + 1), &big, Status::INVALID_VALUE_SIZE),
            (store("k", u32::MAX), &big, Status::INVALID_VALUE_SIZE),
            (store("k", 3), &b"no"[..], Status::SGL_DATA_LENGTH_INVALID),
            (retrieve("k", (128 << 10) + 1), &[], Status::INVALID_FIELD),
            (list("k", u32::MAX), &[], Status::INVALID_FIELD),
            (
                with(store("k", 2), &|entry| entry.dword11.set(entry.dword11.get() | 3 << 8)),
                &b"no"[..],
                Status::INVALID_FIELD,
            ),
            (
                with(retrieve("k", 100), &|entry| entry.data.length.set(99)),
                &[],
                Status::SGL_DATA_LENGTH_INVALID,
            ),
            // Commands of blocks, and others that there are not.
            (entry(nvm::COMPARE, 1), &[], Status::INVALID_OPCODE),
            (entry(nvm::WRITE_ZEROES, 1), &[], Status::INVALID_OPCODE),
            (entry(nvm::DATASET_MANAGEMENT, 1), &[0; 16], Status::INVALID_OPCODE),
            (entry(nvm::VERIFY, 1), &[], Status::INVALID_OPCODE),
            (entry(nvm::WRITE_UNCORRECTABLE, 1), &[], Status::INVALID_OPCODE),
            (entry(nvm::COPY, 1), &[0; 32], Status::INVALID_OPCODE),
            (entry(0x83, 1), &[], Status::INVALID_OPCODE),
            // Commands of pairs on blocks.
            (entry(key_value::LIST, 2), &[], Status::INVALID_OPCODE),
            (entry(key_value::DELETE, 2), &[], Status::INVALID_OPCODE),
            (entry(key_value::EXIST, 2), &[], Status::INVALID_OPCODE),
            (
                with(store("k", 2), &|entry| entry.namespace_id.set(3)),
                &[],
                Status::INVALID_NAMESPACE,
            ),
            (with(exist("k"), &|entry| entry.namespace_id.set(3)), &[], Status::INVALID_OPCODE),
        ] {
            assert_eq!(world.status(io, entry, data), expected, "{entry:?}");
        }
        assert_eq!(world.call(io, retrieve("k", 9), &[]).1, b"ok");
        // Blocks are blocks.
        let block = pattern(9, 512);
        assert_eq!(world.status(io, blocks(nvm::WRITE, 2, 3, 1), &block), Status::SUCCESS);
        assert_eq!(world.call(io, blocks(nvm::READ, 2, 3, 1), &[]).1, block);
    });
}

#[test]
fn a_full_namespace_keeps_what_it_has() {
    each(|world, _, io| {
        let value = pattern(3, 60 << 10);
        let mut stored = 0;
        loop {
            let status = world.status(io, store(&format!("{stored}"), 60 << 10), &value);
            if status != Status::SUCCESS {
                assert_eq!(status, Status::CAPACITY_EXCEEDED);
                break;
            }
            stored += 1;
        }
        // 60 KiB and a header take 16 units of 4 KiB.
        assert_eq!(stored, BYTES >> 16);
        assert_eq!(world.status(io, exist(&format!("{stored}")), &[]), Status::KEY_DOES_NOT_EXIST);
        for at in 0..stored {
            assert_eq!(world.call(io, retrieve(&format!("{at}"), 64 << 10), &[]).1, value);
        }
        assert_eq!(world.status(io, delete("0"), &[]), Status::SUCCESS);
        assert_eq!(world.status(io, store("new", 60 << 10), &value), Status::SUCCESS);
    });
}

#[test]
fn a_delete_of_nothing_is_an_error_where_that_was_asked_for() {
    each(|world, admin, io| {
        let feature = |opcode, namespace, value| {
            let mut entry = entry(opcode, namespace);
            entry.dword10.set(0x20);
            entry.dword11.set(value);
            entry
        };
        let (done, _) = world.call(admin, feature(admin::GET_FEATURES, 1, 0), &[]);
        assert_eq!((plain_of(done), done.result.get()), (Status::SUCCESS, 0));
        let set = feature(admin::SET_FEATURES, 1, 1);
        assert_eq!(world.status(admin, set, &[]), Status::SUCCESS);
        assert_eq!(world.status(io, delete("k"), &[]), Status::KEY_DOES_NOT_EXIST);
        let (done, _) = world.call(admin, feature(admin::GET_FEATURES, 1, 0), &[]);
        assert_eq!(done.result.get(), 1);
        for (opcode, namespace) in [(admin::SET_FEATURES, 2), (admin::GET_FEATURES, 2)] {
            let status = world.status(admin, feature(opcode, namespace, 1), &[]);
            assert_eq!(status, Status::INVALID_FIELD);
        }
        let all = feature(admin::SET_FEATURES, u32::MAX, 0);
        assert_eq!(world.status(admin, all, &[]), Status::SUCCESS);
        assert_eq!(world.status(io, delete("k"), &[]), Status::SUCCESS);
    });
}

#[test]
fn a_retrieve_returns_the_value_of_its_moment() {
    // The completion is taken when the key has got another value, or none.
    let mut world = world(Timing::Immediate);
    let (_, io, _) = world.host();
    let values: Vec<Vec<u8>> = (0..20).map(|seed| pattern(seed, 500 + seed as usize)).collect();
    let mut asked = vec![];
    for value in &values {
        world.submit(io, store("k", value.len() as u32), value);
        asked.push(world.submit(io, retrieve("k", 1000), &[]));
    }
    world.submit(io, delete("k"), &[]);
    for (id, value) in asked.into_iter().zip(&values) {
        assert_eq!(&world.reply(io, id).1, value);
    }
}

#[test]
fn the_default_is_one_namespace_for_each_of_pairs_and_one_for_blocks() {
    let world = world(Timing::Immediate);
    assert_eq!(world.subsystem.namespace_blocks(2), Some((1 << 20) / 512));
    assert_eq!(world.subsystem.namespace_blocks(1), Some(0));
    let pairs =
        NamespaceConfig { bytes: Some(BYTES), content: NamespaceContent::Pairs, handles: vec![] };
    let blocks =
        NamespaceConfig { bytes: None, content: NamespaceContent::Blocks(4096), handles: vec![] };
    let world =
        World::with(Timing::Immediate, |config| config.namespaces = vec![blocks, pairs], mixed);
    assert_eq!(world.subsystem.namespace_blocks(1), Some((1 << 20) / 4096));
}
