//! Prepared drives that are kept: with them, without them, with damaged ones and beside others, a run gives
//! the same bytes.

use crate::small;
use mynah_lab::emulation::Emulation;
use mynah_lab::experiment::{Precondition, Settle};
use mynah_lab::{Simulation, StateCache};
use mynah_stamp::Span;
use rustix::fs::{CWD, FileType, Mode};
use std::fs;
use std::path::Path;

/// The result's JSON, the recording's bytes, and the table of intervals.
fn run(mut simulation: Simulation, states: Option<&StateCache>) -> (String, Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("a.rec");
    let intervals = folder.path().join("i.csv");
    // Of each flow alone there is one.
    if !simulation.alone {
        simulation.intervals = Some((intervals.clone(), Span::from_ms(1)));
    }
    simulation.options.states = states.cloned();
    simulation.record = Some(recording.clone());
    let mut result = match simulation.run() {
        Ok(measured) => measured.result,
        // Runs that no recording describes.
        Err(_) => {
            simulation.record = None;
            simulation.run().unwrap().result
        }
    };
    result.run = Default::default();
    let [recording, intervals] = [recording, intervals].map(|it| fs::read(it).unwrap_or_default());
    (serde_json::to_string(&result).unwrap(), recording, intervals)
}

/// It settles soon.
fn flow(text: &str) -> Simulation {
    let mut simulation = small::simulation().flow("flow", text).unwrap();
    simulation.options.settle = Settle::For(Span::from_ms(10));
    simulation
}

/// Loads of all kinds of preparation.
fn loads() -> Vec<(&'static str, Simulation)> {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/traces/tpcc-part.trace");
    let trace = format!("trace={trace} trace_format=mqsim trace_remap=modulo number_ios=500");
    let write = "rw=randwrite bs=4k iodepth=8 number_ios=3000";
    let two = || {
        let ramp = "rw=randrw bs=16k iodepth=4 number_ios=1000 rwmixtrim=10";
        flow(write).flow("other", ramp).unwrap()
    };
    let mut alone = two();
    alone.alone = true;
    let settled = |settle| {
        let mut simulation = flow(write);
        simulation.options.settle = settle;
        simulation
    };
    let on = |drive: &str, changes: &[&str]| {
        let small = small::changes();
        let changes: Vec<String> = changes.iter().map(|it| (*it).to_owned()).chain(small).collect();
        Simulation::on_changed(drive, &changes).unwrap().flow("flow", write).unwrap()
    };
    let mapped = on(small::DRIVE, &["mapping.table=cached", "mapping.cmt.size=256KiB"]);
    let ethernet = on("eemu-samsung", &[]);
    vec![
        ("settled", settled(Settle::Auto)),
        ("each alone", alone),
        ("mixed", {
            let mut mixed = flow("rw=randrw bs=4k iodepth=8 number_ios=4000");
            mixed.options.settle = Settle::Auto;
            mixed
        }),
        ("reads", flow("rw=randread bs=4k iodepth=8 number_ios=3000")),
        ("sizes", flow("rw=randwrite bssplit=4k/50:16k/50 number_ios=2000")),
        ("trace", flow(&trace)),
        ("filled", flow(write).precondition(Precondition::Fill)),
        ("aged", flow(write).precondition(Precondition::SteadyRandom)),
        ("not settled", settled(Settle::Off)),
        ("mapped", mapped),
        ("ethernet", ethernet),
        ("fault", flow(write).fault("dead-die:die=1,at=2ms").unwrap()),
    ]
}

fn entries(states: &StateCache) -> Vec<std::path::PathBuf> {
    states.entries().into_iter().map(|entry| entry.path).collect()
}

#[test]
fn a_run_is_the_same_with_and_without_what_is_kept() {
    for (what, simulation) in loads() {
        let folder = tempfile::tempdir().unwrap();
        let states = StateCache::at(folder.path().join("states"));
        let without = run(simulation.clone(), None);
        assert_eq!(run(simulation.clone(), Some(&states)), without, "{what}: kept");
        let kept = entries(&states);
        assert_eq!(kept.len(), if what == "each alone" { 3 } else { 1 }, "{what}");
        let age = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let before: Vec<_> = kept.iter().map(|path| (fs::read(path).unwrap(), age(path))).collect();
        assert_eq!(run(simulation, Some(&states)), without, "{what}: found");
        for (path, (bytes, used)) in kept.iter().zip(before) {
            assert!(fs::read(path).unwrap() == bytes, "{what}: it has not been written again");
            assert!(age(path) > used, "{what}: it has been used");
        }
        assert_eq!(entries(&states).len(), kept.len(), "{what}");
    }
}

/// Reads of drives that differ in times begin with the same state, which is kept once; what the drive is
/// made of, or how, is another.
#[test]
fn drives_that_differ_in_times_share_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    let on = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|it| (*it).to_owned()).collect();
        let changes = [&small::changes()[..], &changes].concat();
        let simulation = Simulation::on_changed(small::DRIVE, &changes).unwrap();
        simulation.flow("flow", "rw=randread bs=4k iodepth=8 number_ios=1000").unwrap()
    };
    for (changes, kept) in [
        (&["flash.read=55us"][..], 1),
        (&["flash.read=44us", "firmware.read=3us"], 1),
        (&["bus.rate=800MT/s", "link.lanes=2", "queues.fetch_size=4"], 1),
        (&["seed=2"], 2),
        (&["gc.victim=fifo"], 3),
        (&["seed=2", "flash.program=1ms"], 3),
    ] {
        let without = run(on(changes), None);
        assert_eq!(run(on(changes), Some(&states)), without, "{changes:?}");
        assert_eq!(entries(&states).len(), kept, "{changes:?}");
    }
    // How it is filled is another state, whatever reads it.
    for bs in ["4k", "16k"] {
        let filled = on(&[]).precondition(Precondition::Fill);
        let filled = filled.flow("more", &format!("rw=read bs={bs} number_ios=100")).unwrap();
        assert_eq!(run(filled.clone(), Some(&states)), run(filled, None), "{bs}");
        assert_eq!(entries(&states).len(), 4, "{bs}");
    }
}

type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn what_is_damaged_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    let simulation = flow("rw=randwrite bs=4k iodepth=8 number_ios=1000");
    let without = run(simulation.clone(), None);
    run(simulation.clone(), Some(&states));
    let [path] = &entries(&states)[..] else { panic!("one entry") };
    let whole = fs::read(path).unwrap();
    let damages: [Damage; 8] = [
        &|bytes| bytes.clear(),
        &|bytes| bytes.truncate(10),
        &|bytes| bytes.truncate(bytes.len() / 2),
        &|bytes| bytes.truncate(bytes.len() - 1),
        &|bytes| bytes[3] ^= 1,
        &|bytes| bytes[19] ^= 0x40,
        &|bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        },
        &|bytes| bytes.push(0),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(path, &bytes).unwrap();
        assert_eq!(run(simulation.clone(), Some(&states)), without, "damage {number}");
        assert!(fs::read(path).unwrap() == whole, "damage {number}: it was made anew");
    }
    // Of another drive.
    let mut other = simulation.clone().seed(2);
    other.options.states = Some(states.clone());
    other.run().unwrap();
    let another = entries(&states).into_iter().find(|it| it != path).unwrap();
    fs::rename(&another, path).unwrap();
    assert_eq!(run(simulation.clone(), Some(&states)), without);
    // No file, and somebody else's: what a link leads to is not looked at.
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, path).unwrap();
    assert_eq!(run(simulation.clone(), Some(&states)), without);
    fs::remove_file(path).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(run(simulation.clone(), Some(&states)), without);
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
    assert_eq!(run(simulation, Some(&states)), without);
}

#[test]
fn a_folder_that_cannot_be_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let simulation = flow("rw=randwrite bs=4k iodepth=8 number_ios=1000");
    let without = run(simulation.clone(), None);
    for states in ["/dev/null/states".into(), file.join("states"), file.clone()] {
        assert_eq!(run(simulation.clone(), Some(&StateCache::at(states))), without);
    }
    assert_eq!(fs::read(&file).unwrap(), b"");
    // Nor is one that has no room.
    let states = StateCache::at(folder.path().join("states")).bounded(10_000);
    assert_eq!(run(simulation, Some(&states)), without);
    assert_eq!(fs::read_dir(states.folder()).unwrap().count(), 0);
}

#[test]
fn what_was_not_used_for_longest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    let of = |seed: u64| flow("rw=randwrite bs=4k iodepth=8 number_ios=100").seed(seed);
    run(of(1), Some(&states));
    let size = states.entries()[0].bytes;
    let states = states.bounded(size * 5 / 2);
    run(of(2), Some(&states));
    let kept = |states: &StateCache| {
        let mut kept = entries(states);
        kept.sort();
        kept
    };
    let first_two = kept(&states);
    // The first is used again, so the second goes.
    run(of(1), Some(&states));
    let used = states.entries()[0].path.clone();
    run(of(3), Some(&states));
    let now = kept(&states);
    assert_eq!(now.len(), 2);
    assert!(now.contains(&used) && now != first_two);
    // What would be gone before it is asked for is not kept at all, and what is there is found.
    let of_many = states.clone().of_many();
    run(of(4), Some(&of_many));
    assert_eq!(kept(&states), now);
    assert_eq!(states.clear().unwrap().0, 2);
    assert!(entries(&states).is_empty());
}

/// A process that was killed while it wrote an entry leaves a part of it.
#[test]
fn what_was_left_unfinished_goes_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    let load = "rw=randwrite bs=4k iodepth=8 number_ios=100";
    run(flow(load), Some(&states));
    let name = states.entries()[0].path.file_name().unwrap().to_owned();
    let name = name.to_string_lossy();
    let left = [(".abc.partial", 3 * 3600), (".xyz.partial", 60)].map(|(ending, age)| {
        let path = folder.path().join(format!(".{name}{ending}"));
        fs::write(&path, "a part").unwrap();
        let used = states.entries()[0].last_used.unwrap();
        let written = used - std::time::Duration::from_secs(age);
        fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        path
    });
    assert_eq!(states.unfinished().0, 2);
    run(flow(load), Some(&states));
    assert_eq!(left.map(|path| path.exists()), [false, true]);
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    let simulation = flow("rw=randwrite bs=4k iodepth=8 number_ios=1000");
    let without = run(simulation.clone(), None);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(run(simulation.clone(), Some(&states)), without));
        }
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What a drive becomes does not depend on how long the run lasts then; it does on all else.
#[test]
fn runs_share_what_prepares_them_alike() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    let load = "rw=randwrite bs=4k iodepth=8";
    run(flow(&format!("{load} number_ios=500")), Some(&states));
    run(flow(&format!("{load} number_ios=700")), Some(&states));
    run(flow(&format!("{load} runtime=10ms")), Some(&states));
    assert_eq!(entries(&states).len(), 1);
    let others = [
        flow(&format!("{load} number_ios=500")).seed(2),
        flow(&format!("{load} number_ios=500")).set("flash.read=70us").unwrap(),
        flow(&format!("{load} number_ios=500")).set("seed=9").unwrap(),
        flow(&format!("{load} number_ios=500 size=50%")),
    ];
    for (number, other) in others.into_iter().enumerate() {
        run(other, Some(&states));
        assert_eq!(entries(&states).len(), number + 2);
    }
}

#[test]
fn a_served_drive_is_the_same_with_and_without_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let states = StateCache::at(folder.path().to_owned());
    for precondition in [Precondition::Fill, Precondition::Steady, Precondition::None] {
        let prepared = |states: Option<&StateCache>| {
            let mut emulation = Emulation::on(small::DRIVE, &small::changes()).unwrap();
            emulation.start.precondition = precondition;
            emulation.states = states.cloned();
            let prepared = emulation.prepare().unwrap();
            let found = (prepared.preconditioned.clone(), prepared.past().collect::<Vec<_>>());
            (prepared.drive.state_hash(), prepared.drive.counters(), found)
        };
        let without = prepared(None);
        assert!(prepared(Some(&states)) == without, "{precondition:?}: kept");
        assert!(prepared(Some(&states)) == without, "{precondition:?}: found");
    }
    assert_eq!(entries(&states).len(), 2);
}
