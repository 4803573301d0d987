//! Key-value commands over queues in guest memory.

use crate::pairs::{delete, exist, list, mixed, retrieve, store};
use crate::shared::{self, blocks, pattern};
use crate::support::*;
use mynah_device::pci::GuestMemory;
use mynah_device::{CommandKind, Timing};
use mynah_model::config::{Config, Fault};
use mynah_stamp::{Span, Stage, Time};
use mynah_wire::nvme::key::listed_keys;
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::BTreeMap;

const BOTH: [Timing; 2] = [Timing::Immediate, Timing::Modelled];

fn host(timing: Timing) -> Host {
    host_with(timing, |_| {})
}

fn host_with(timing: Timing, change: impl FnOnce(&mut Config)) -> Host {
    let both = |config: &mut Config| {
        mixed(config);
        change(config);
    };
    let mut host = Host::with(timing, |_, _| {}, both);
    host.create_pair(1, 64);
    host
}

#[test]
fn pairs_are_kept() {
    for timing in BOTH {
        let mut host = host(timing);
        for bytes in [1, 4, 700, 4096, 4097, 20_000, 64 << 10] {
            let value = pattern(u64::from(bytes), bytes as usize);
            assert_eq!(host.send(1, store("k", bytes), &value), Status::SUCCESS);
            assert_eq!(host.plain(1, exist("k")), Status::SUCCESS);
            for room in [0, 1, bytes, bytes + 5000] {
                let mut entry = retrieve("k", room);
                let at = host.pages(u64::from(room).max(1));
                host.set_prps(&mut entry, at, room.into());
                let done = host.call(1, entry);
                assert_eq!(shared::plain(done.status()), Status::SUCCESS, "{timing:?}");
                assert_eq!(done.result.get(), u64::from(bytes));
                let moved = bytes.min(room) as usize;
                assert_eq!(host.get(at, moved), value[..moved], "{timing:?} {bytes} {room}");
                let behind = host.get(at + moved as u64, room as usize - moved);
                assert!(behind.iter().all(|&byte| byte == 0), "what lies behind is left alone");
            }
        }
        assert_eq!(host.send(1, store("l", 2), b"xy"), Status::SUCCESS);
        let (status, data) = host.fetch(1, list("", 100), 100);
        assert_eq!(status, Status::SUCCESS);
        let keys = listed_keys(&data).expect("a list");
        assert_eq!(keys.iter().map(|key| key.as_slice()).collect::<Vec<_>>(), [b"k", b"l"]);
        assert_eq!(host.plain(1, delete("k")), Status::SUCCESS);
        assert_eq!(host.fetch(1, retrieve("k", 100), 100).0, Status::KEY_DOES_NOT_EXIST);
        assert_eq!(host.plain(1, shared::entry(nvm::FLUSH, 1)), Status::SUCCESS);
        assert_eq!(host.plain(1, shared::entry(nvm::VERIFY, 1)), Status::INVALID_OPCODE);
        assert_eq!(host.send(1, store("k", (64 << 10) + 1), &[]), Status::INVALID_VALUE_SIZE);
        assert_eq!(host.send(1, store("k", u32::MAX), &[]), Status::INVALID_VALUE_SIZE);
        assert_eq!(host.fetch(1, retrieve("k", u32::MAX), 0).0, Status::INVALID_FIELD);
        assert_eq!(host.fetch(1, list("", 3), 3).0, Status::INVALID_FIELD);
    }
}

#[test]
fn their_completions_say_where_the_time_went() {
    let mut host = host(Timing::Modelled);
    host.ears.heard.clear();
    host.is_punctual = true;
    assert_eq!(host.send(1, store("k", 5000), &pattern(1, 5000)), Status::SUCCESS);
    assert_eq!(host.fetch(1, retrieve("k", 9000), 9000).0, Status::SUCCESS);
    assert_eq!(host.plain(1, exist("k")), Status::SUCCESS);
    assert_eq!(host.plain(1, delete("k")), Status::SUCCESS);
    let heard: Vec<_> = host.ears.heard.iter().map(|it| (it.kind, it.bytes)).collect();
    let expected = [
        (CommandKind::Store, 5000),
        (CommandKind::Retrieve, 5000),
        (CommandKind::Exist, 0),
        (CommandKind::Delete, 0),
    ];
    assert_eq!(heard, expected);
    for heard in &host.ears.heard {
        assert!(heard.stages.get(Stage::CommandFetch) > Span::ZERO);
        assert!(heard.stages.get(Stage::Firmware) >= Span::from_us(3));
    }
    assert!(host.ears.heard[0].stages.get(Stage::DataIn) > Span::ZERO);
    assert!(host.ears.heard[1].stages.get(Stage::DataOut) > Span::ZERO);
}

#[test]
fn data_that_cannot_be_moved_change_nothing() {
    for timing in BOTH {
        let mut host = host(timing);
        assert_eq!(host.send(1, store("k", 5), b"first"), Status::SUCCESS);
        let nowhere = |mut entry: SubmissionEntry| {
            entry.set_prps(0xdead_0000_0000, 0);
            entry
        };
        let status = host.status(1, nowhere(store("k", 6)));
        assert_eq!(status, Status::DATA_TRANSFER_ERROR, "{timing:?}");
        assert_eq!(host.status(1, nowhere(store("l", 6))), Status::DATA_TRANSFER_ERROR);
        assert_eq!(host.status(1, nowhere(retrieve("k", 6))), Status::DATA_TRANSFER_ERROR);
        assert_eq!(host.status(1, nowhere(list("", 60))), Status::DATA_TRANSFER_ERROR);
        let mut odd = store("k", 6);
        odd.set_prps(3, 0);
        assert_eq!(host.status(1, odd), Status::PRP_OFFSET_INVALID);
        assert_eq!(host.fetch(1, retrieve("k", 5), 5), (Status::SUCCESS, b"first".to_vec()));
        assert_eq!(host.plain(1, exist("l")), Status::KEY_DOES_NOT_EXIST);
    }
}

#[test]
fn a_reset_amid_commands_leaves_a_drive_that_works() {
    for timing in BOTH {
        let mut host = host(timing);
        assert_eq!(host.send(1, store("k", 5), b"first"), Status::SUCCESS);
        for round in 0..20u64 {
            for name in ["a", "b", "k"] {
                let (mut put, mut get) = (store(name, 3000), retrieve(name, 3000));
                let (from, to) = (host.put(&pattern(round, 3000)), host.pages(3000));
                host.set_prps(&mut put, from, 3000);
                host.set_prps(&mut get, to, 3000);
                host.submit(1, put);
                host.submit(1, get);
                host.submit(1, delete("b"));
            }
            host.wait(Span::from_us(round * 2));
            host.set_register(offset::CC, 0);
            host.submissions.clear();
            host.completions.clear();
            host.done.clear();
            host.boot(32);
            host.create_pair(1, 64);
        }
        assert_eq!(host.send(1, store("k", 4), b"last"), Status::SUCCESS);
        assert_eq!(host.fetch(1, retrieve("k", 4), 4), (Status::SUCCESS, b"last".to_vec()));
    }
}

#[test]
fn a_power_cut_takes_pairs_back_to_a_whole_value_before() {
    for cut_us in [300, 900, 2500, 7000] {
        let cut = |config: &mut Config| {
            let (at, recovery) = (Time::from_ps(cut_us * 1_000_000), Span::from_ms(1));
            config.faults.push(Fault::PowerCut { at, recovery });
        };
        let mut host = host_with(Timing::Modelled, cut);
        let name = |at: u64| format!("{}", at % 12);
        // Every value of a key but the first follows another.
        for at in 0..60u64 {
            let mut entry = store(&name(at), 9000);
            let from = host.put(&pattern(at, 9000));
            host.set_prps(&mut entry, from, 9000);
            host.submit(1, entry);
            host.wait(Span::from_us(40));
        }
        host.wait(Span::from_ms(20));
        assert_eq!(host.register(offset::CSTS) & 2, 2, "the controller has failed");
        host.set_register(offset::CC, 0);
        host.submissions.clear();
        host.completions.clear();
        host.done.clear();
        host.boot(32);
        host.create_pair(1, 64);
        for key in 0..12 {
            match host.fetch(1, retrieve(&name(key), 9000), 9000) {
                (Status::SUCCESS, data) => {
                    let mut all = (0..60).filter(|at| at % 12 == key);
                    assert!(all.any(|at| data == pattern(at, 9000)), "{cut_us} {key}");
                }
                (status, _) => assert_eq!(status, Status::KEY_DOES_NOT_EXIST),
            }
        }
        for key in 0..12 {
            assert_eq!(host.send(1, store(&name(key), 9), &[7; 9]), Status::SUCCESS);
            assert_eq!(host.fetch(1, retrieve(&name(key), 9), 9).1, [7; 9]);
        }
    }
}

#[test]
fn batches_are_carried_out_in_order() {
    let mut host = host(Timing::Immediate);
    let mut map: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut random = pattern(77, 40_000).into_iter();
    let mut draw = |below: u8| random.next().expect("enough") % below;
    let (from, to) = (host.pages(64 * PAGE), host.pages(64 * PAGE));
    for round in 0..60u64 {
        let mut asked = vec![];
        for at in 0..u64::from(draw(60)) {
            let (name, what, bytes) = (format!("{}", draw(40)), draw(8), u32::from(draw(250)) * 16);
            let (from, to) = (from + at * PAGE, to + at * PAGE);
            let value = pattern(round * 64 + at, bytes as usize);
            let absent = (Status::KEY_DOES_NOT_EXIST, 0, vec![]);
            let (mut entry, expected) = match what {
                0..=2 => {
                    map.insert(name.clone(), value.clone());
                    (store(&name, bytes), (Status::SUCCESS, 0, vec![]))
                }
                3..=5 => {
                    let expected = map.get(&name).map_or(absent, |value| {
                        let moved = value.len().min(bytes as usize);
                        (Status::SUCCESS, value.len() as u64, value[..moved].to_vec())
                    });
                    (retrieve(&name, bytes), expected)
                }
                6 => {
                    map.remove(&name);
                    (delete(&name), (Status::SUCCESS, 0, vec![]))
                }
                _ if at % 5 == 0 => {
                    // A block between them.
                    (blocks(nvm::READ, 2, at, 1), (Status::SUCCESS, 0, vec![]))
                }
                _ => {
                    let there = map.contains_key(&name);
                    (exist(&name), if there { (Status::SUCCESS, 0, vec![]) } else { absent })
                }
            };
            host.memory.write(from, &value).expect("mapped");
            entry.set_prps(if (3..=5).contains(&what) { to } else { from }, 0);
            asked.push((host.insert(1, entry), to, expected));
        }
        host.ring(1);
        for (id, to, (status, result, data)) in asked {
            let done = host.completion(1, id);
            assert_eq!((shared::plain(done.status()), done.result.get()), (status, result));
            assert_eq!(host.get(to, data.len()), data);
        }
    }
    let heard = &host.ears.keys;
    assert!(heard.values().all(|count| *count > 50), "{heard:?}");
}
