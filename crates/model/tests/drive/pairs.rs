//! Key-value namespaces.

use crate::support::*;
use mynah_model::Drive;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::keys::*;
use mynah_model::pair_index::{OwnIndex, PageCounts, PairIndex, PairIndexKind, Room};
use mynah_model::stats::{Holder, Resource};
use mynah_model::testing;
use mynah_stamp::{Span, Stage, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Pairs over the whole of a small drive: 4 KiB units, all of the index in DRAM, 3 us for every
/// command.
fn config(change: impl FnOnce(&mut Config)) -> Config {
    small_with(|c| {
        c.namespaces[0].kind = NamespaceKind::Pairs;
        c.placement = Placement::Striped;
        c.key_value = Some(mynah_model::testing::key_value());
        change(c);
    })
}

fn key_value(config: &mut Config) -> &mut KeyValue {
    config.key_value.as_mut().expect("settings of pairs")
}

/// A host with a table of keys, in which keys are numbers.
struct Host {
    drive: Drive,
    key_bytes: u8,
    /// By key: its pair and the bytes of its value.
    keys: BTreeMap<u64, (PairId, u32)>,
    free: Vec<PairId>,
    next_pair: u32,
    next_tag: u32,
    waiting: BTreeMap<Tag, (u64, KeyRequest)>,
    /// What was decided, by tag: bytes of the value that a Retrieve is to return.
    decided: BTreeMap<Tag, Option<u32>>,
    /// Which Store has brought which value, by key.
    stored: BTreeMap<u64, Vec<(u64, u32)>>,
    stores: u64,
    done: Vec<Completion>,
    if_absent: bool,
    /// Stores put their bytes behind those that are there.
    appends: bool,
}

impl Host {
    fn new(config: Config, kind: QueueKind) -> Host {
        let mut drive = Drive::new(config).expect("a valid drive");
        let queue = Queue { kind, ..memory_queue(1) };
        drive.control(Time::ZERO, Control::CreateQueue(queue)).expect("a new queue");
        Host {
            drive,
            key_bytes: 16,
            keys: BTreeMap::new(),
            free: vec![],
            next_pair: 0,
            next_tag: 0,
            waiting: BTreeMap::new(),
            decided: BTreeMap::new(),
            stored: BTreeMap::new(),
            stores: 0,
            done: vec![],
            if_absent: false,
            appends: false,
        }
    }

    fn token(key: u64) -> u64 {
        token(&key.to_be_bytes())
    }

    /// Lays keys down with values of so many bytes.
    fn fill(&mut self, keys: std::ops::Range<u64>, value_bytes: u32) {
        let (first, key_bytes) = (self.next_pair, self.key_bytes);
        let pairs = keys.clone().enumerate().map(|(at, key)| PairToFill {
            pair: PairId(first + at as u32),
            token: Host::token(key),
            key_bytes,
            value_bytes,
        });
        self.drive.fill_pairs(NAMESPACE, pairs).expect("room");
        for key in keys {
            self.keys.insert(key, (PairId(self.next_pair), value_bytes));
            self.next_pair += 1;
        }
    }

    fn send(&mut self, operation: KeyOperation, key: u64, bytes: u32) -> Tag {
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        let token = Host::token(key);
        let key_bytes = self.key_bytes;
        let request = KeyRequest { tag, operation, namespace: NAMESPACE, token, key_bytes, bytes };
        self.waiting.insert(tag, (key, request));
        let now = self.drive.now();
        self.drive.submit_key(now, QUEUE, request).expect("a queue");
        tag
    }

    fn decide(&mut self, at: Time, tag: Tag) {
        let (key, request) = self.waiting[&tag];
        let found = self.keys.get(&key).copied();
        let kept = found.map_or(0, |(_, bytes)| if self.appends { bytes } else { 0 });
        let decision = match (request.operation, found) {
            (KeyOperation::Store, Some((pair, _))) if self.if_absent => Decision::Refused { pair },
            (KeyOperation::Store, Some((pair, _))) => Decision::Pair { pair, bytes: kept },
            (KeyOperation::Store, None) => {
                let pair = self.free.pop().unwrap_or_else(|| {
                    self.next_pair += 1;
                    PairId(self.next_pair - 1)
                });
                Decision::Pair { pair, bytes: 0 }
            }
            (KeyOperation::List, _) => Decision::Keys { bytes: request.bytes },
            (_, None) => Decision::Absent,
            (_, Some((pair, bytes))) => Decision::Pair { pair, bytes: bytes.min(request.bytes) },
        };
        let accepted = self.drive.decided(at, tag, decision).expect("a decision");
        match (request.operation, decision) {
            (KeyOperation::Store, Decision::Pair { pair, .. }) if accepted => {
                let bytes = kept + request.bytes;
                self.keys.insert(key, (pair, bytes));
                self.stored.entry(key).or_default().push((self.stores, bytes));
                self.stores += 1;
            }
            (KeyOperation::Store, Decision::Pair { pair, .. }) if found.is_none() => {
                self.free.push(pair);
            }
            (KeyOperation::Delete, Decision::Pair { pair, .. }) => {
                self.keys.remove(&key);
                self.free.push(pair);
            }
            _ => {}
        }
        self.decided.insert(tag, found.map(|found| found.1));
    }

    fn step(&mut self) -> bool {
        if self.drive.next_at().is_none() {
            return false;
        }
        self.drive.advance(Time::MAX);
        while let Some(output) = self.drive.poll() {
            match output {
                Output::Decide { at, tag, .. } => self.decide(at, tag),
                Output::Complete(completion) => {
                    assert_eq!(
                        completion.stages.total(),
                        completion.at.since(completion.rung),
                        "the stages of {completion:?} do not fill its time"
                    );
                    let _ = self.drive.cq_freed(completion.at, QUEUE, 1);
                    self.done.push(completion);
                }
                other => panic!("{other:?}"),
            }
        }
        true
    }

    fn run(&mut self) -> Vec<Completion> {
        while self.step() {}
        self.drive.check().expect("invariants");
        std::mem::take(&mut self.done)
    }

    fn one(&mut self, operation: KeyOperation, key: u64, bytes: u32) -> Completion {
        // The doorbell of the completion before is across.
        self.drive.advance(self.drive.now() + Span::from_us(1));
        self.send(operation, key, bytes);
        let done = self.run();
        assert_eq!(done.len(), 1);
        done[0]
    }
}

#[test]
fn a_store_and_a_retrieve_are_sums_of_their_parts() {
    let mut host = Host::new(config(|_| {}), QueueKind::Memory);
    let stored = host.one(KeyOperation::Store, 7, 4000);
    assert_eq!(stored.status, Status::Success);
    // The link is that of the blocks' closed forms: 8 ns for a doorbell, 8 for a request, 23 for an
    // entry, 11 for a completion. 4000 bytes are 32 packets of 28 bytes more, at 4 B/ns.
    let value = Span::from_ns((4000 + 32 * 28) / 4);
    let fetch = Span::from_ns(8 + 8 + 23);
    // One page of 4 KiB in one with room for two: 4096 bytes at 800 MB/s, and the program.
    let expected = [
        (Stage::SubmissionQueue, Span::from_ns(8)),
        (Stage::CommandFetch, Span::from_ns(8 + 23)),
        (Stage::DataIn, Span::from_ns(8) + value),
        (Stage::Firmware, Span::from_us(3)),
        (Stage::FlashArray, Span::from_us(500)),
        (Stage::Completion, Span::from_ns(11)),
    ];
    for (stage, span) in expected {
        assert_eq!(stored.stages.get(stage), span, "{stage:?} of a Store");
    }
    let read = host.one(KeyOperation::Retrieve, 7, 1 << 20);
    assert_eq!(read.status, Status::Success);
    assert_eq!(read.stages.get(Stage::Firmware), Span::from_us(3));
    assert_eq!(read.stages.get(Stage::FlashArray), Span::from_us(50));
    assert_eq!(read.stages.get(Stage::DataOut), value);
    let sum = fetch
        + Span::from_us(53)
        + read.stages.get(Stage::FlashCommand)
        + read.stages.get(Stage::FlashTransfer)
        + value
        + Span::from_ns(11);
    assert_eq!(read.at.since(read.rung), sum);
    // A buffer that is smaller gets less.
    let part = host.one(KeyOperation::Retrieve, 7, 100);
    assert_eq!(part.stages.get(Stage::DataOut), Span::from_ns((100 + 28) / 4));
    for (operation, key) in
        [(KeyOperation::Exist, 7), (KeyOperation::Exist, 8), (KeyOperation::Retrieve, 8)]
    {
        let looked = host.one(operation, key, 4096);
        assert_eq!(looked.at.since(looked.rung), fetch + Span::from_us(3) + Span::from_ns(11));
    }
    let deleted = host.one(KeyOperation::Delete, 7, 0);
    assert_eq!(deleted.at.since(deleted.rung), fetch + Span::from_us(3) + Span::from_ns(11));
    assert_eq!(
        host.drive.pair_counts(NAMESPACE).map(|counts| (counts.pairs, counts.units)),
        Some((0, 0))
    );
}

#[test]
fn a_value_that_is_extended_is_read_and_written_anew() {
    for kind in [QueueKind::Memory, QueueKind::Fetched] {
        let mut host = Host::new(config(|_| {}), kind);
        let new = host.one(KeyOperation::Store, 7, 5000);
        let read = host.one(KeyOperation::Retrieve, 7, 0);
        host.appends = true;
        let before = host.drive.counters();
        let (read_before, written_before) = (before.flash_reads, before.host_units_written);
        let extended = host.one(KeyOperation::Store, 7, 1000);
        assert_eq!(extended.status, Status::Success);
        let after = host.drive.counters();
        // 5032 and 6032 bytes with header and key: two units each.
        assert_eq!(after.flash_reads - read_before, 1, "they lie in one page");
        assert_eq!(after.host_units_written - written_before, 2);
        assert_eq!(host.drive.pair_counts(NAMESPACE).map(|it| (it.pairs, it.units)), Some((1, 2)));
        for stage in [Stage::FlashCommand, Stage::FlashArray, Stage::FlashTransfer] {
            let parts = read.stages.get(stage) + new.stages.get(stage);
            assert_eq!(extended.stages.get(stage), parts, "{stage:?}");
        }
        assert_eq!(extended.stages.get(Stage::DataOut), Span::ZERO);
        // It stays so if there is no room for it.
        let room = host.drive.pair_counts(NAMESPACE).expect("pairs").capacity as u32 * 4096;
        assert_eq!(host.one(KeyOperation::Store, 7, room).status, Status::CapacityExceeded);
        assert_eq!(host.keys[&7].1, 6000);
    }
}

#[test]
fn values_grow_while_others_are_stored_read_and_removed() {
    for (seed, kind) in [(1, QueueKind::Memory), (2, QueueKind::Fetched), (3, QueueKind::Memory)] {
        let config = config(|c| {
            key_value(c).managers = 3;
            key_value(c).index.dram_bytes = Some(8 * 8192);
            c.namespaces[0].units = Some(900);
        });
        let mut host = Host::new(config, kind);
        let mut random = Random(seed);
        for _ in 0..3000 {
            host.appends = random.below(2) == 0;
            let operation = match random.below(6) {
                0..=2 => KeyOperation::Store,
                3 => KeyOperation::Retrieve,
                4 => KeyOperation::Exist,
                _ => KeyOperation::Delete,
            };
            host.send(operation, random.below(40), random.below(12_000) as u32);
            for _ in 0..random.below(6) {
                host.step();
            }
        }
        let done = host.run();
        assert_eq!(done.len(), 3000);
        let ends =
            |it: &Completion| matches!(it.status, Status::Success | Status::CapacityExceeded);
        assert!(done.iter().all(ends));
        let counts = host.drive.pair_counts(NAMESPACE).expect("pairs");
        let units = |bytes: u32| u64::from(bytes + 32).div_ceil(4096);
        assert_eq!(counts.pairs as usize, host.keys.len());
        assert_eq!(counts.units, host.keys.values().map(|it| units(it.1)).sum::<u64>());
    }
}

#[test]
fn long_keys_are_fetched_by_themselves() {
    for (holds, key_bytes, managers) in
        [(true, 16, 1), (true, 100, 1), (false, 100, 1), (true, 100, 4)]
    {
        let config = config(|c| {
            key_value(c).key_max = 255;
            key_value(c).key_fetch_holds = holds;
            key_value(c).managers = managers;
        });
        let mut host = Host::new(config, QueueKind::Memory);
        host.key_bytes = key_bytes;
        host.fill(0..100, 1000);
        let one = host.one(KeyOperation::Exist, 7, 0);
        let long = u64::from(key_bytes > 16);
        // A request, its way and a packet of 128 bytes.
        let key = Span::from_ns((8 + 800 + (100 + 28) / 4) * long);
        assert_eq!(one.at.since(one.rung), Span::from_ns(8 + 8 + 23 + 11) + Span::from_us(3) + key);
        let begin = host.drive.now();
        for key in 0..100 {
            host.send(KeyOperation::Exist, key, 0);
        }
        let end = host.run().iter().map(|done| done.at).max().expect("completions");
        let rate = end.since(begin).as_ps() as f64 / 100.0;
        let each = Span::from_us(3) + if holds { key } else { Span::ZERO };
        let expected = each.as_ps() as f64 / f64::from(managers);
        assert!((rate / expected - 1.0).abs() < 0.03, "{rate} ps for {expected}");
    }
}

#[test]
fn an_index_that_does_not_fit_costs_a_read_for_each_miss() {
    for (kind, share) in [
        (KeyIndexKind::DynamicHash, 4),
        (KeyIndexKind::DynamicHash, 2),
        (KeyIndexKind::Hash { pages: 24 }, 3),
    ] {
        let config = config(|c| {
            c.mapping.unit_bytes = 8192;
            key_value(c).index.kind = kind;
            key_value(c).index.entry_bytes = match kind {
                KeyIndexKind::DynamicHash => 128,
                _ => 32,
            };
            key_value(c).index.dram_bytes = Some(8 * 8192);
            key_value(c).times = KeyTimes::all(Span::ZERO);
        });
        let mut host = Host::new(config, QueueKind::Memory);
        let keys = match kind {
            KeyIndexKind::DynamicHash => 8 * 32 * share,
            _ => 2500,
        };
        host.fill(0..keys, 4000);
        let counts = host.drive.pair_counts(NAMESPACE).expect("pairs");
        let in_dram = 8.0 / counts.index_pages as f64;
        if kind != KeyIndexKind::DynamicHash {
            assert_eq!(counts.index_pages, 24, "no overflow");
        }
        let mut random = Random(3);
        let reads = 20_000;
        for _ in 0..reads {
            host.send(KeyOperation::Retrieve, random.below(keys), 4096);
            while host.step() {}
        }
        assert_eq!(host.done.len(), reads);
        let counters = host.drive.counters();
        let per_read = counters.flash_reads as f64 / reads as f64;
        let hits = counters.index_hits as f64 / counters.index_lookups as f64;
        assert!((per_read - (2.0 - hits)).abs() < 1e-9);
        // Pages that were split long ago have more keys than others, are looked at more often, and
        // stay longer.
        let expected = 2.0 - in_dram;
        let within = if kind == KeyIndexKind::DynamicHash { 0.03 } else { 0.01 };
        assert!((per_read / expected - 1.0).abs() < within, "{per_read} reads, not {expected}");
    }
}

#[test]
fn a_drive_that_is_full_says_so_and_goes_on() {
    let mut host = Host::new(config(|c| c.namespaces[0].units = Some(1000)), QueueKind::Fetched);
    for key in 0..1001 {
        host.send(KeyOperation::Store, key, 2000);
    }
    let done = host.run();
    let full = done.iter().filter(|done| done.status == Status::CapacityExceeded).count();
    assert_eq!((full, host.keys.len()), (1, 1000));
    // What is there can be stored again, even so.
    for key in 0..1000 {
        host.send(KeyOperation::Store, key, 3000);
    }
    assert!(host.run().iter().all(|done| done.status == Status::Success));
    assert_eq!(host.one(KeyOperation::Store, 5, 9000).status, Status::CapacityExceeded);
    assert_eq!(host.one(KeyOperation::Delete, 5, 0).status, Status::Success);
    assert_eq!(host.one(KeyOperation::Store, 2000, 4000).status, Status::Success);
    let counts = host.drive.pair_counts(NAMESPACE).expect("pairs");
    assert_eq!((counts.pairs, counts.units, counts.capacity), (1000, 1000, 1000));
}

#[test]
fn pairs_of_one_unit_amplify_writes_as_blocks_do() {
    // The same drive, of blocks and of pairs; the same draws.
    let waf = |pairs: bool| {
        let mut c = config(|c| {
            c.geometry.page_bytes = 4096;
            c.over_provisioning = 0.25;
            key_value(c).times = KeyTimes::all(Span::ZERO);
            key_value(c).value_max = 4000;
        });
        if !pairs {
            c.namespaces[0].kind = NamespaceKind::Blocks;
        }
        let units = 2500;
        c.namespaces[0].units = Some(units);
        let mut random = Random(11);
        let mut host = Host::new(c, QueueKind::Fetched);
        let mut blocks = 0u32;
        let mut write = |host: &mut Host, unit: u64| {
            if pairs {
                host.send(KeyOperation::Store, unit, 4000);
            } else {
                let (operation, sectors) = (Operation::Write, 8);
                let tag = Tag(blocks);
                blocks += 1;
                let sector = unit * 8;
                let request = Request {
                    placement: Default::default(),
                    tag,
                    operation,
                    namespace: NAMESPACE,
                    sector,
                    sectors,
                };
                host.drive.command(host.drive.now(), QUEUE, request).expect("a queue");
            }
            // A few at a time.
            while host.next_tag.max(blocks) as usize > host.done.len() + 16 && host.step() {}
        };
        (0..units).for_each(|unit| write(&mut host, unit));
        for _ in 0..6 * units {
            write(&mut host, random.below(units));
        }
        host.drive.restart_counters();
        for _ in 0..12 * units {
            write(&mut host, random.below(units));
        }
        let counters = host.drive.counters();
        counters.flash_programs as f64 / counters.host_units_written as f64
    };
    let (blocks, pairs) = (waf(false), waf(true));
    assert!(blocks > 1.3, "{blocks}");
    assert!((pairs / blocks - 1.0).abs() < 0.02, "pairs {pairs}, blocks {blocks}");
}

fn any_config() -> impl Strategy<Value = Config> {
    let kinds = prop_oneof![
        Just(KeyIndexKind::DynamicHash),
        (1u32..20).prop_map(|pages| KeyIndexKind::Hash { pages }),
        (4u64..400, 2u32..5, 0u32..3).prop_map(|(entries, fanout, pinned_levels)| {
            KeyIndexKind::Lsm { memtable_bytes: entries * 256, fanout, pinned_levels }
        })
    ];
    (
        kinds,
        prop::option::of(1u64..6),
        prop::sample::select(vec![16u32, 64, 256]),
        prop::option::of(prop::sample::select(vec![64u64, 256])),
        prop::sample::select(vec![1024u32, 4096, 8192]),
        1u32..5,
        any::<bool>(),
        (prop::sample::select(vec![0u32, 4]), prop::sample::select(vec![0u32, 6])),
    )
        .prop_map(
            |(kind, dram, entry, cache, unit, managers, least_loaded, (filter, signature))| {
                config(|c| {
                    c.geometry.channels = 1;
                    c.geometry.blocks_per_plane = 24;
                    c.mapping.unit_bytes = unit;
                    // An index of large entries beside pairs of small units takes much room.
                    c.over_provisioning = 0.75;
                    if least_loaded {
                        c.placement = Placement::LeastLoaded;
                    }
                    c.cache = cache
                        .map(|pages| DataCache { bytes: pages * 8192, ..crate::support::cache() });
                    let kv = key_value(c);
                    kv.index.kind = kind;
                    kv.index.dram_bytes = dram.map(|pages| pages * 8192);
                    kv.index.entry_bytes = entry;
                    kv.index.filter_bits = filter;
                    if !matches!(kind, KeyIndexKind::Lsm { .. }) {
                        kv.index.signature_bits = signature;
                    }
                    kv.managers = managers;
                    kv.value_max = 20_000;
                })
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any sequence of commands, many at once: every command completes, the set of pairs is what was
    /// decided, and everything fits together whenever nothing is under way.
    #[test]
    fn any_commands_leave_what_was_decided(
        config in any_config(),
        seed: u64,
        depth in 1usize..64,
        steps in 100usize..3000,
        linked: bool,
        share in 0.2f64..1.2,
    ) {
        let unit = config.mapping.unit_bytes;
        let kind = if linked { QueueKind::Memory } else { QueueKind::Fetched };
        let mut host = Host::new(config, kind);
        let capacity = host.drive.pair_counts(NAMESPACE).expect("pairs").capacity;
        let keys = ((capacity as f64 * share) as u64).max(2) / 3;
        let mut random = Random(seed);
        let mut sent = 0usize;
        for step in 0..steps {
            let key = random.below(keys);
            let (operation, bytes) = match random.below(10) {
                0..=4 => (KeyOperation::Store, random.below(u64::from(unit) * 3) as u32 % 20_001),
                5 => (KeyOperation::Delete, 0),
                6 => (KeyOperation::Exist, 0),
                7 => (KeyOperation::List, 4096),
                _ => (KeyOperation::Retrieve, 20_000),
            };
            host.if_absent = random.chance(0.1);
            host.send(operation, key, bytes);
            sent += 1;
            while sent > host.done.len() + depth && host.step() {}
            if step % 200 == 0 {
                host.drive.check().expect("invariants");
            }
        }
        let done = host.run();
        prop_assert_eq!(done.len(), sent);
        for done in &done {
            prop_assert!(matches!(done.status, Status::Success | Status::CapacityExceeded), "{done:?}");
        }
        let counts = host.drive.pair_counts(NAMESPACE).expect("pairs");
        let units: u64 = host.keys.values().map(|(_, bytes)| {
            u64::from((bytes + 32).div_ceil(unit))
        }).sum();
        prop_assert_eq!((counts.pairs, counts.units), (host.keys.len() as u64, units));
        host.drive.check_quiet().expect("nothing left");
    }
}

/// Sends random commands, so many at a time.
fn churn(host: &mut Host, random: &mut Random, steps: usize, keys: u64, depth: usize) {
    let mut sent = host.done.len();
    for _ in 0..steps {
        let key = random.below(keys);
        match random.below(8) {
            0..=4 => host.send(KeyOperation::Store, key, random.below(9000) as u32),
            5 => host.send(KeyOperation::Delete, key, 0),
            _ => host.send(KeyOperation::Retrieve, key, 20_000),
        };
        sent += 1;
        while sent > host.done.len() + depth && host.step() {}
    }
}

const KINDS: [KeyIndexKind; 3] = [
    KeyIndexKind::DynamicHash,
    KeyIndexKind::Hash { pages: 40 },
    KeyIndexKind::Lsm { memtable_bytes: 50 * 256, fanout: 4, pinned_levels: 1 },
];

fn churned(kind: KeyIndexKind) -> Config {
    config(|c| {
        key_value(c).index.kind = kind;
        c.geometry.channels = 1;
        c.geometry.blocks_per_plane = 40;
        c.over_provisioning = 0.3;
        key_value(c).index.entry_bytes = 256;
        key_value(c).index.dram_bytes = Some(2 * 8192);
        key_value(c).managers = 3;
    })
}

#[test]
fn collections_look_up_what_they_move() {
    for kind in KINDS {
        let mut host = Host::new(churned(kind), QueueKind::Memory);
        let mut random = Random(5);
        churn(&mut host, &mut random, 15_000, 1700, 16);
        let done = host.run();
        assert!(done.iter().all(|done| done.status == Status::Success));
        let counters = host.drive.counters();
        assert!(counters.gc_units_moved > 500, "{counters:?}");
        assert!(counters.mapping_reads > 100 && counters.mapping_programs > 100, "{counters:?}");
        host.drive.check_quiet().expect("nothing left");
    }
    // With all of the index in DRAM nothing of it is read or written.
    let mut all = churned(KeyIndexKind::DynamicHash);
    key_value(&mut all).index.dram_bytes = None;
    let mut host = Host::new(all, QueueKind::Memory);
    churn(&mut host, &mut Random(5), 15_000, 1700, 16);
    host.run();
    let counters = host.drive.counters();
    assert!(counters.gc_units_moved > 100);
    assert_eq!((counters.mapping_reads, counters.mapping_programs), (0, 0));
}

#[test]
fn waits_for_an_index_are_the_indexs_and_its_compactions() {
    for kind in KINDS {
        let mut host = Host::new(churned(kind), QueueKind::Memory);
        churn(&mut host, &mut Random(7), 15_000, 1700, 16);
        let waited: Span = host.run().iter().map(|done| done.stages.get(Stage::Mapping)).sum();
        let blame = host.drive.blame();
        let held = |holder, resource: Option<Resource>| -> Span {
            let rows = blame.iter().filter(|row| row.holder == holder);
            rows.filter(|row| resource.is_none_or(|it| it == row.resource))
                .map(|row| row.wait)
                .sum()
        };
        let mapping = Some(Resource::Mapping);
        let (index, compaction) = (held(Holder::Index, mapping), held(Holder::Compaction, mapping));
        assert_eq!(index + compaction, waited, "{kind:?}");
        assert!(!held(Holder::Index, Some(Resource::Die)).is_zero());
        assert!(held(Holder::MappingTable, None).is_zero());
        let is_tree = matches!(kind, KeyIndexKind::Lsm { .. });
        assert_eq!(!held(Holder::Compaction, None).is_zero(), is_tree, "{kind:?}");
        assert!(blame.iter().all(|row| row.victim == FlowId(0)));
        // What is counted from now on begins with nothing.
        assert!(!host.drive.counters().manager_busy.is_zero());
        host.drive.restart_counters();
        let counters = host.drive.counters();
        assert!(counters.manager_busy.is_zero());
        assert_eq!((counters.index_lookups, counters.index_hits), (0, 0));
    }
}

#[test]
fn a_tree_of_runs_reads_a_page_a_run_unless_a_filter_or_a_pin_says_better() {
    let reads = |pinned_levels, filter_bits, found: bool| {
        let config = config(|c| {
            let kv = key_value(c);
            kv.index.kind = KeyIndexKind::Lsm { memtable_bytes: 64 * 64, fanout: 4, pinned_levels };
            (kv.index.entry_bytes, kv.index.dram_bytes) = (64, Some(8192));
            kv.index.filter_bits = filter_bits;
        });
        let mut host = Host::new(config, QueueKind::Memory);
        host.fill(0..1000, 1000);
        // Three more runs of level 0, of other keys.
        for key in 1000..1000 + 3 * 64 {
            host.one(KeyOperation::Store, key, 1000);
        }
        assert_eq!(host.drive.counters().mapping_programs, 3);
        let before = host.drive.counters().flash_reads;
        let keys = if found { 0..1000 } else { 2000..3000 };
        for key in keys {
            host.one(KeyOperation::Exist, key, 0);
        }
        (host.drive.counters().flash_reads - before) as f64 / 1000.0
    };
    // A page of 128 entries in each of four runs; one page is in DRAM.
    for found in [true, false] {
        let all = reads(0, 0, found);
        assert!((3.6..=4.0).contains(&all), "{all}");
        let pinned = reads(1, 0, found);
        assert!((0.8..=1.0).contains(&pinned), "{pinned}");
    }
    let (found, missed) = (reads(0, 10, true), reads(0, 10, false));
    assert!((0.85..=1.05).contains(&found) && missed < 0.06, "{found} {missed}");
}

#[test]
fn signatures_that_are_alike_cost_reads() {
    let reads = |signature_bits, operation, found: bool| {
        let config = config(|c| {
            key_value(c).index.signature_bits = signature_bits;
            key_value(c).index.entry_bytes = 16;
        });
        let mut host = Host::new(config, QueueKind::Memory);
        host.fill(0..3000, 1000);
        let per_page =
            3000.0 / host.drive.pair_counts(NAMESPACE).expect("pairs").index_pages as f64;
        for key in if found { 0..3000 } else { 3000..6000 } {
            host.one(operation, key, 100);
        }
        (host.drive.counters().flash_reads as f64 / 3000.0, per_page)
    };
    assert_eq!(reads(0, KeyOperation::Exist, true).0, 0.0);
    // The pair is read to compare its key; with 64 bits hardly another.
    assert_eq!(reads(64, KeyOperation::Exist, true).0, 1.0);
    assert_eq!(reads(64, KeyOperation::Retrieve, true).0, 1.0);
    assert_eq!(reads(64, KeyOperation::Exist, false).0, 0.0);
    for (operation, found) in [(KeyOperation::Exist, false), (KeyOperation::Retrieve, true)] {
        let (reads, per_page) = reads(8, operation, found);
        let alike = per_page / 256.0;
        let expected = if found { 1.0 + alike / 2.0 } else { alike };
        assert!((reads / expected - 1.0).abs() < 0.06, "{reads}, not {expected}");
    }
}

#[test]
fn a_power_cut_loses_whole_pairs() {
    let mut taken_back = 0;
    for (protected, kind) in
        [None, Some(false), Some(true)].into_iter().zip(KINDS.into_iter().rev())
    {
        let mut config = churned(kind);
        config.cache = protected.map(|protected| DataCache {
            bytes: 64 << 10,
            power_loss_protection: protected,
            ..cache()
        });
        let mut host = Host::new(config, QueueKind::Memory);
        let mut random = Random(9);
        for round in 0..20 {
            churn(&mut host, &mut random, 200, 250, 16);
            let now = host.drive.now();
            host.drive.control(now, Control::PowerCut).expect("a control");
            host.drive.advance(now + Span::from_ms(1));
            while host.drive.poll().is_some() {}
            let lost = host.drive.take_lost_pairs();
            if protected == Some(true) {
                // Only what was still on its way into the cache.
                assert!(lost.len() <= 16, "{}", lost.len());
            }
            for LostPair { pair, since, .. } in lost {
                let key = host.keys.iter().find(|(_, it)| it.0 == pair).map(|(&key, _)| key);
                let key = key.expect("a pair that there was");
                let Some(since) = since else {
                    host.keys.remove(&key);
                    host.free.push(pair);
                    continue;
                };
                // The value that there was before.
                let stored = host.stored.get_mut(&key).expect("values");
                stored.retain(|(stamp, _)| *stamp < since);
                host.keys.insert(key, (pair, stored.last().expect("a value before").1));
                taken_back += 1;
            }
            host.drive.check().unwrap_or_else(|broken| panic!("round {round}: {broken}"));
            let counts = host.drive.pair_counts(NAMESPACE).expect("pairs");
            assert_eq!(counts.pairs, host.keys.len() as u64);
            let units = |bytes: u32| u64::from((bytes + 32).div_ceil(4096));
            let held: u64 = host.keys.values().map(|(_, bytes)| units(*bytes)).sum();
            assert_eq!(counts.units, held, "round {round}");
            host.done.clear();
            host.drive
                .control(host.drive.now(), Control::CreateQueue(memory_queue(1)))
                .expect("a queue");
        }
        host.run();
        host.drive.check_quiet().expect("indices have gone on");
    }
    assert!(taken_back > 20, "{taken_back}");
}

#[test]
fn a_saved_drive_goes_on_as_the_first() {
    KINDS.into_iter().for_each(saves_and_goes_on);
}

fn saves_and_goes_on(kind: KeyIndexKind) {
    saves_and_goes_on_with(churned(kind));
}

fn saves_and_goes_on_with(config: Config) {
    let mut first = Host::new(config.clone(), QueueKind::Memory);
    churn(&mut first, &mut Random(1), 3000, 250, 16);
    first.run();
    first.drive.advance(first.drive.now() + Span::from_us(1));
    let (mut state, mut at) = (vec![], 0);
    first.drive.save_state(&mut |bytes| state.extend_from_slice(bytes)).expect("a drive at rest");
    let mut second = Host::new(config, QueueKind::Memory);
    let mut drive = Drive::new(first.drive.config().clone()).expect("a valid drive");
    let mut source = |bytes: &mut [u8]| {
        let Some(from) = state.get(at..at + bytes.len()) else { return false };
        bytes.copy_from_slice(from);
        at += bytes.len();
        true
    };
    drive.restore_state(&mut source).expect("a good state");
    drive.check().expect("invariants");
    drive.control(Time::ZERO, Control::CreateQueue(memory_queue(1))).expect("a queue");
    second.drive = drive;
    second.keys = first.keys.clone();
    second.free = first.free.clone();
    (second.next_pair, second.next_tag) = (first.next_pair, first.next_tag);
    let from = first.drive.now();
    let mut ends = vec![];
    for host in [&mut first, &mut second] {
        churn(host, &mut Random(2), 1000, 250, 16);
        ends.push(host.run());
    }
    for (first, second) in ends[0].iter().zip(&ends[1]) {
        assert_eq!((first.tag, first.at.since(from)), (second.tag, second.at.since(Time::ZERO)));
    }
    assert_eq!(first.drive.state_hash(), second.drive.state_hash());
    // Bytes that were changed are refused or make a drive that fits together.
    for at in (0..state.len()).step_by(977) {
        let mut damaged = state.clone();
        damaged[at] ^= 0x41;
        let mut drive = Drive::new(first.drive.config().clone()).expect("a valid drive");
        let mut left = &damaged[..];
        let restored = drive.restore_state(&mut |bytes| {
            let Some((from, rest)) = left.split_at_checked(bytes.len()) else { return false };
            bytes.copy_from_slice(from);
            left = rest;
            true
        });
        if restored.is_ok() {
            drive.check().expect("invariants");
        }
    }
}

#[test]
fn formatting_removes_all_pairs() {
    KINDS.into_iter().for_each(formats);
}

fn formats(kind: KeyIndexKind) {
    formats_with(churned(kind));
}

fn formats_with(config: Config) {
    let mut host = Host::new(config, QueueKind::Memory);
    churn(&mut host, &mut Random(1), 2000, 250, 16);
    host.run();
    host.drive.control(host.drive.now(), Control::Format(NAMESPACE)).expect("a control");
    host.drive.check().expect("invariants");
    let counts = host.drive.pair_counts(NAMESPACE).expect("pairs");
    assert_eq!((counts.pairs, counts.units), (0, 0));
    host.keys.clear();
    churn(&mut host, &mut Random(2), 2000, 250, 16);
    host.run();
}

#[test]
fn a_drive_of_pairs_starts_in_its_steady_state() {
    for units in [1u32, 2] {
        let c = config(|c| {
            c.geometry.blocks_per_plane = 64;
            c.geometry.pages_per_block = 32;
            c.over_provisioning = 0.35;
            key_value(c).value_max = 8000;
            key_value(c).times = KeyTimes::all(Span::ZERO);
        });
        let mut host = Host::new(c, QueueKind::Fetched);
        let capacity = host.drive.pair_counts(NAMESPACE).expect("pairs").capacity;
        let (keys, value_bytes) = (capacity / u64::from(units), units * 4096 - 100);
        let pairs = (0..keys).map(|key| PairToFill {
            pair: PairId(key as u32),
            token: Host::token(key),
            key_bytes: 16,
            value_bytes,
        });
        let placed = host.drive.place_pairs(NAMESPACE, pairs, true).expect("room");
        assert_eq!(placed, keys * u64::from(units));
        let classes = vec![written_class(0, placed, 1.0)];
        let occupancy = mynah_model::precondition::Occupancy { namespace: NAMESPACE, classes };
        let found = host.drive.precondition(&[occupancy]).expect("a steady state");
        host.drive.check().expect("invariants");
        host.keys = (0..keys).map(|key| (key, (PairId(key as u32), value_bytes))).collect();
        host.next_pair = keys as u32;
        let mut random = Random(4);
        let mut waf = vec![];
        for _ in 0..6 {
            let before = host.drive.counters();
            for _ in 0..keys {
                host.send(KeyOperation::Store, random.below(keys), value_bytes);
                while host.next_tag as usize > host.done.len() + 32 && host.step() {}
            }
            let now = host.drive.counters();
            let programmed = now.flash_units_programmed - before.flash_units_programmed;
            let written = now.host_units_written - before.host_units_written;
            waf.push(programmed as f64 / written as f64);
        }
        let settled = waf[3..].iter().sum::<f64>() / 3.0;
        assert!((waf[0] / settled - 1.0).abs() < 0.05, "{units}: {waf:?}");
        // What is computed is for large drives, of blocks as well as of pairs.
        let expected = found.expected_waf.expect("a steady state");
        assert!((expected / settled - 1.0).abs() < 0.15, "{units}: {waf:?}, expected {expected}");
        host.run();
    }
}

/// A built-in index, given to the drive as one of others, does the same to the picosecond: all that
/// the built-in ones can do is behind the interface.
#[test]
fn an_index_of_ones_own_is_as_good_as_a_built_in_one() {
    for (kind, filter_bits, signature_bits) in [
        (KINDS[0], 0, 0),
        (KINDS[0], 4, 6),
        (KINDS[1], 0, 0),
        (KINDS[1], 6, 5),
        (KINDS[2], 0, 0),
        (KINDS[2], 8, 0),
    ] {
        let mut built_in = churned(kind);
        key_value(&mut built_in).index.filter_bits = filter_bits;
        key_value(&mut built_in).index.signature_bits = signature_bits;
        let mut own = built_in.clone();
        let index = mynah_model::testing::as_own(&key_value(&mut own).index);
        key_value(&mut own).index.kind = index;
        let run = |config: Config| {
            let mut host = Host::new(config, QueueKind::Memory);
            churn(&mut host, &mut Random(3), 8000, 1200, 16);
            for key in 0..50 {
                host.send(KeyOperation::Exist, 5000 + key, 0);
            }
            let done = host.run();
            host.drive.check_quiet().expect("nothing left");
            let times: Vec<_> = done.iter().map(|it| (it.tag, it.at, it.status)).collect();
            (times, host.drive.counters().clone(), host.drive.pair_counts(NAMESPACE))
        };
        let (first, second) = (run(built_in.clone()), run(own.clone()));
        assert!(first.0.len() > 8000 && first.1.index_lookups > 1000, "{:?}", first.1);
        assert!(first == second, "{kind:?}, filter {filter_bits}, signature {signature_bits}");
        saves_and_goes_on_with(own.clone());
        formats_with(own);
    }
}

struct Named(&'static str, u64);

impl PairIndexKind for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn pages(&self, _: Room) -> PageCounts {
        PageCounts { most: self.1, expected: self.1 }
    }

    fn build(&self, room: Room) -> Box<dyn PairIndex> {
        let index = KeyIndex { kind: KeyIndexKind::DynamicHash, ..testing::key_value().index };
        let KeyIndexKind::Own(own) = testing::as_own(&index) else { unreachable!() };
        own.0.build(room)
    }
}

static NO_NAME: Named = Named("", 100);
static NOT_A_WORD: Named = Named("Two Choice", 100);
static TAKEN: Named = Named("lsm", 100);
static HUGE: Named = Named("huge", u64::MAX);
static SMALL: Named = Named("small", 1);

#[test]
fn names_and_settings_of_indices_are_checked() {
    let with = |own: &'static Named, signature_bits| {
        let config = config(|c| {
            key_value(c).index.kind = KeyIndexKind::Own(OwnIndex(own));
            key_value(c).index.signature_bits = signature_bits;
        });
        config.check().map_err(|error| error.key)
    };
    for own in [&NO_NAME, &NOT_A_WORD, &TAKEN] {
        assert_eq!(with(own, 0), Err("kv.index.kind"), "{}", own.0);
    }
    assert_eq!(with(&HUGE, 0), Err("namespace"));
    assert_eq!(with(&SMALL, 8), Err("kv.index.signature"));
    assert_eq!(with(&SMALL, 0), Ok(()));
}

#[test]
#[should_panic(expected = "index small: page 1, but it has 1 at most")]
fn pages_that_an_index_has_not_are_not_read() {
    let config = config(|c| key_value(c).index.kind = KeyIndexKind::Own(OwnIndex(&SMALL)));
    let mut host = Host::new(config, QueueKind::Memory);
    for key in 0..1000 {
        host.one(KeyOperation::Store, key, 100);
    }
}
