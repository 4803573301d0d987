//! Recorded runs with key-value namespaces: replays give the very same result. And saved states of
//! them: what comes after finds the keys that were there.

use mynah_lab::SimulationError;
use mynah_lab::experiment::Precondition;
use mynah_lab::replay::{replay, resimulate};
use mynah_lab::simulation::Simulation;
use mynah_result::{KeyValueCounts, Result};
use mynah_stamp::Span;
use mynah_workload::trace::Remap;
use std::path::Path;

/// A small drive of pairs, with these changes.
fn drive(changes: &[&str]) -> Simulation {
    let small = [
        "geometry.channels=2",
        "geometry.chips_per_channel=2",
        "geometry.dies_per_chip=1",
        "geometry.blocks_per_plane=64",
        "geometry.pages_per_block=48",
        "cache.size=1MiB",
        "over_provisioning=25%",
        "kv.value_max=64KiB",
        "kv.index.dram=256KiB",
    ];
    let changes: Vec<String> = small.iter().chain(changes).map(|set| set.to_string()).collect();
    Simulation::on_changed("kv-tlc", &changes).unwrap().precondition(Precondition::Fill)
}

fn replayed(path: &Path, state: Option<&Path>) -> Result {
    replay(path, None, &[], &[], state, None, &mut |_| true).unwrap().result
}

/// Runs it, and again while it is recorded, and replays that: all three are the same. The result.
fn thrice(mut simulation: Simulation) -> Result {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let plain = simulation.run().unwrap().result;
    simulation.record = Some(path.clone());
    let recorded = simulation.run().unwrap().result;
    assert_eq!(plain.to_json(), recorded.to_json());
    let again = replayed(&path, simulation.options.load_state.as_deref());
    assert_eq!(plain.to_json(), again.to_json());
    plain
}

const MIX: &str = "kv=retrieve=40,store=20,update=20,delete=10,exist=5,list=5 keys=3k \
                   key_size=4-40 value_size=100-6k iodepth=16 number_ios=6000 misses=10% numjobs=2";

#[test]
fn every_kind_of_index_is_replayed_to_the_picosecond() {
    for kind in ["dynamic-hash", "hash", "lsm"] {
        let index = format!("kv.index.kind={kind}");
        let result = thrice(drive(&[&index]).flow("it", MIX).unwrap());
        let held = result.device.unwrap().key_value.unwrap();
        assert!(held.misses > 0 && held.live_bytes.unwrap() > 0 && held.index_lookups > 0);
        let kinds = result.flows[0].key_value.as_ref().unwrap();
        for (kind, side) in kinds.each() {
            assert!(side.ios > 0, "{kind:?}");
        }
    }
}

#[test]
fn what_comes_before_a_run_is_replayed_as_well() {
    // A ramp, at whose end everything is counted anew.
    let mut ramp = drive(&[]).flow("it", MIX).unwrap();
    ramp.options.ramp_time = Span::from_ms(2);
    thrice(ramp);
    // The drive settles under updates, which change how large pairs are.
    let steady = drive(&[]).precondition(Precondition::Steady);
    let flow = "kv=update=70,retrieve=30 keys=8k value_size=100-8k iodepth=8 number_ios=3000";
    let settled = thrice(steady.flow("it", flow).unwrap());
    assert!(settled.settled.is_some());
    // Nothing at all.
    let empty = drive(&[]).precondition(Precondition::None);
    let load = "kv=store keys=2k value_size=1k iodepth=8";
    let held = thrice(empty.flow("load", load).unwrap()).device.unwrap().key_value.unwrap();
    assert_eq!(held.keys, 2000);
    // A read, and what is stored after it under the same tag.
    thrice(drive(&[]).flow("f", "kv=ycsb-f keys=2k iodepth=4 number_ios=3000").unwrap());
}

#[test]
fn blocks_beside_pairs_are_replayed() {
    for precondition in [Precondition::None, Precondition::Fill, Precondition::Steady] {
        let mut both = drive(&[]).precondition(precondition);
        both.config.namespaces[0].units = Some(60_000);
        let blocks = mynah_model::config::Namespace {
            kind: mynah_model::config::NamespaceKind::Blocks,
            units: Some(40_000),
            ..both.config.namespaces[0].clone()
        };
        both.config.namespaces.push(blocks);
        let both = both.flow("pairs", &format!("{MIX} namespace=1")).unwrap();
        let blocks = "rw=randrw bs=4k iodepth=8 number_ios=3000 namespace=2";
        thrice(both.clone().flow("blocks", blocks).unwrap());
        // Nobody uses the pairs.
        let mut alone = both.flow("blocks", blocks).unwrap();
        alone.flows.remove(0);
        assert!(thrice(alone).device.unwrap().key_value.is_none());
    }
}

#[test]
fn a_power_cut_is_replayed() {
    let cut = drive(&["cache.power_loss_protection=false", "cache.write_back=lru"]);
    let cut = cut.fault("power-cut:at=5ms").unwrap().flow("it", MIX).unwrap();
    assert!(thrice(cut).notes.iter().any(|note| note.contains("the power failed")));
}

/// What another drive makes of a recorded run.
fn given(path: &Path, drive: Option<&str>, set: &[&str]) -> std::result::Result<Result, String> {
    let set: Vec<String> = set.iter().map(|set| set.to_string()).collect();
    let given = resimulate(path, drive, &set, &[], Remap::Refuse, &mut |_| true);
    given.map(|measured| measured.result).map_err(|error: SimulationError| error.to_string())
}

#[test]
fn another_drive_finds_the_same_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let held =
        |result: &Result| -> KeyValueCounts { result.device.clone().unwrap().key_value.unwrap() };
    let kinds = |result: &Result| {
        let kinds = result.flows[0].key_value.clone().unwrap();
        kinds.each().map(|(kind, side)| (kind, side.ios, side.bytes))
    };
    for (flow, strict) in [
        (MIX.replace("numjobs=2", "").replace("iodepth=16", "iodepth=1"), true),
        (MIX.to_owned(), false),
    ] {
        let mut simulation = drive(&[]).flow("it", &flow).unwrap();
        simulation.record = Some(path.clone());
        let recorded = simulation.run().unwrap().result;
        for set in [
            &["kv.managers=1", "kv.time.retrieve=100us"][..],
            &["flash.read=5us", "kv.index.kind=lsm"],
            &["kv.index.kind=hash", "kv.index.signature=8"],
        ] {
            let there = given(&path, None, set).unwrap();
            assert_eq!(there.requests, recorded.requests);
            let latency = |result: &Result| {
                result.flows[0].key_value.as_ref().unwrap().retrieve.lat_ns.unwrap().mean
            };
            assert!((latency(&there) - latency(&recorded)).abs() > 1000.0);
            // One after the other: each finds what it found.
            if strict {
                assert_eq!(kinds(&there), kinds(&recorded));
                let (here, there) = (held(&recorded), held(&there));
                assert_eq!(
                    (there.keys, there.live_bytes, there.misses),
                    (here.keys, here.live_bytes, here.misses)
                );
            }
        }
    }
    let error = given(&path, Some("enterprise-tlc"), &[]).unwrap_err();
    assert!(error.contains("this drive has no key-value namespace 1"), "{error}");
    let error = given(&path, None, &["kv.index.keys=1000"]).unwrap_err();
    assert!(error.contains("namespace 1 of this drive has room for 1000 of the pairs"), "{error}");
}

fn held(result: &Result) -> KeyValueCounts {
    result.device.clone().unwrap().key_value.unwrap()
}

#[test]
fn a_run_goes_on_with_the_keys_of_a_saved_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let rest = "key_distribution=sequential keys=3k key_size=8-30 value_size=100-4k iodepth=1";
    let deletes = format!("kv=delete number_ios=1000 {rest}");
    let reads = format!("kv=retrieve number_ios=3000 {rest}");
    let mut first = drive(&[]).flow("deletes", &deletes).unwrap();
    first.save_state = Some(path("first"));
    let deleted = held(&first.run().unwrap().result);
    assert_eq!(deleted.keys, 2000);
    // And on, and on.
    let from = |state: &str, flow: &str| {
        let mut next = drive(&[]).flow("next", flow).unwrap();
        next.options.load_state = Some(path(state));
        next
    };
    let again = thrice(from("first", &reads));
    let in_one = drive(&[]).flow("deletes", &deletes).unwrap();
    let mut in_one = in_one.flow("next", &reads).unwrap();
    in_one.flows[1].after_previous = true;
    let in_one = in_one.run().unwrap().result;
    let [here, there] = [&again, &in_one].map(held);
    assert_eq!((here.keys, here.live_bytes, here.misses), (2000, deleted.live_bytes, 1000));
    assert_eq!(
        (here.keys, here.live_bytes, here.misses),
        (there.keys, there.live_bytes, there.misses)
    );
    let [here, there] = [&again.flows[0], &in_one.flows[1]];
    let [here, there] = [here, there].map(|flow| flow.key_value.as_ref().unwrap());
    assert_eq!(
        (here.retrieve.ios, here.retrieve.bytes),
        (there.retrieve.ios, there.retrieve.bytes)
    );
    // Names that are free are given again, and what a run changes is in the state after it.
    let mut mixed = from("first", &MIX.replace("key_size=4-40", "key_size=8-30"));
    mixed.save_state = Some(path("second"));
    let mixed = held(&mixed.run().unwrap().result);
    assert_ne!(mixed.live_bytes, deleted.live_bytes);
    let exist = format!("kv=exist number_ios=10 {rest}");
    let last = held(&thrice(from("second", &exist)));
    assert_eq!((last.keys, last.live_bytes), (mixed.keys, mixed.live_bytes));
    assert_eq!(last.allocated_bytes, mixed.allocated_bytes);
    // Other keys, and another drive.
    let other = from("second", "kv=exist keys=3k number_ios=10").run().unwrap_err();
    assert_eq!(
        other.to_string(),
        "flow `next` has keys of 16 bytes, and those in the saved state have 8-30"
    );
    let recorded = path("recorded");
    let mut from_state = from("second", &exist);
    from_state.record = Some(recorded.clone());
    from_state.run().unwrap();
    assert!(given(&recorded, None, &["kv.managers=1"]).unwrap_err().contains("saved state"));
}

#[test]
fn keys_that_nobody_uses_stay_in_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let both = || {
        let mut both = drive(&[]);
        both.config.namespaces[0].units = Some(60_000);
        let blocks = mynah_model::config::Namespace {
            kind: mynah_model::config::NamespaceKind::Blocks,
            units: Some(40_000),
            ..both.config.namespaces[0].clone()
        };
        both.config.namespaces.push(blocks);
        both
    };
    let run = |flow: &str, from: Option<&str>, to: &str| {
        let mut run = both().flow("it", flow).unwrap();
        run.options.load_state = from.map(path);
        run.save_state = Some(path(to));
        run.run().unwrap().result
    };
    let pairs = held(&run(&format!("{MIX} namespace=1"), None, "a"));
    let blocks = "rw=randwrite bs=4k iodepth=8 number_ios=3000 namespace=2";
    assert!(run(blocks, Some("a"), "b").device.unwrap().key_value.is_none());
    let exist = "kv=exist keys=3k key_size=4-40 iodepth=1 number_ios=10 namespace=1";
    let then = held(&run(exist, Some("b"), "c"));
    assert_eq!((then.keys, then.live_bytes), (pairs.keys, pairs.live_bytes));
    // Damage is found, wherever it is: the last of the file are names and the checksum.
    let bytes = std::fs::read(path("c")).unwrap();
    for at in (bytes.len() - 2000..bytes.len()).step_by(13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(path("bad"), damaged).unwrap();
        let mut bad = both().flow("it", exist).unwrap();
        bad.options.load_state = Some(path("bad"));
        let error = bad.run().unwrap_err().to_string();
        assert!(error.contains("damaged, or was truncated"), "{at}: {error}");
    }
}

#[test]
fn what_a_power_cut_took_back_cannot_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    let cut = drive(&["cache.power_loss_protection=false", "cache.write_back=lru"]);
    let mut cut = cut.fault("power-cut:at=5ms").unwrap().flow("it", MIX).unwrap();
    cut.save_state = Some(folder.path().join("state"));
    let error = cut.run().unwrap_err().to_string();
    assert!(error.contains("the power cut has brought back values of"), "{error}");
}
