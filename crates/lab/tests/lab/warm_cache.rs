//! The data cache is warm when a preconditioned drive is given its first request: its first
//! moments are like those of a drive that has run for long.

use mynah_drive_file as drive;
use mynah_lab::Measured;
use mynah_lab::experiment::{Precondition, Settle};
use mynah_lab::recording::{RecordingError, SCHEMA, SCHEMA_COLD};
use mynah_lab::replay::{replay, resimulate};
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_lab::simulation::{Simulation, SimulationError};
use mynah_result::Result as RunResult;
use mynah_result::kind::Kind;
use mynah_stamp::Span;
use mynah_workload::FlowOptions;
use mynah_workload::trace::Remap;
use std::path::Path;

/// 2 GiB of MQSim's flash.
const DRIVE: [&str; 8] = [
    "geometry.channels=2",
    "geometry.chips_per_channel=2",
    "geometry.dies_per_chip=1",
    "geometry.planes_per_die=2",
    "geometry.blocks_per_plane=128",
    // Little to collect, and nothing that waits for it.
    "over_provisioning=45%",
    "gc.preemptible=true",
    "cache.size=16MiB",
];

struct First {
    /// Share of look-ups in the cache that hit.
    hits: f64,
    reads_us: f64,
    writes_us: f64,
}

/// The first `interval` after `ramp`, the mean of some seeds.
fn first(
    overrides: &[&str],
    flow: &[(&str, &str)],
    precondition: Precondition,
    (ramp, interval): (Span, Span),
) -> First {
    const SEEDS: u64 = 6;
    let overrides: Vec<String> = DRIVE.iter().chain(overrides).map(|&t| t.to_owned()).collect();
    let config = drive::load("mqsim", &overrides).unwrap_or_else(|e| panic!("{e}")).config;
    let mut options = FlowOptions::default();
    let runtime = format!("{}ns", interval.as_ps() / 1000);
    let common = [("bs", "8k"), ("size", "75%"), ("occupancy", "75"), ("runtime", &*runtime)];
    for (name, value) in common.iter().chain(flow) {
        assert!(options.set(name, *value), "{name}");
    }
    let flow = options.flow("flow").unwrap();
    let mut sum = First { hits: 0.0, reads_us: 0.0, writes_us: 0.0 };
    for seed in 1..=SEEDS {
        // Collections are found under way when the drive has settled.
        let settle = Settle::For(Span::from_ms(3000));
        let options =
            RunOptions { seed, precondition, settle, ramp_time: ramp, ..RunOptions::default() };
        let runner = Runner::new(config.clone(), std::slice::from_ref(&flow), &options).unwrap();
        let runner = runner.settled(|_| true).unwrap();
        let Outcome { recorder, counters, .. } = runner.run(|_| true).unwrap();
        let mean = |kind| {
            let latencies = recorder.latencies(0, kind);
            latencies.and_then(|latencies| latencies.mean_ns()).unwrap_or(0.0) / 1e3
        };
        let share = 1.0 / SEEDS as f64;
        sum.hits += share * counters.cache_hits as f64 / counters.cache_lookups.max(1) as f64;
        sum.reads_us += share * mean(Kind::Read);
        sum.writes_us += share * mean(Kind::Write);
    }
    sum
}

#[track_caller]
fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() <= tolerance, "{what}: {found} beside {expected}, {:+.1} %", off * 100.0);
}

#[test]
fn the_first_moments_are_those_of_a_drive_that_has_run() {
    let overrides = ["cache.mode=both", "cache.write_back=lru", "cache.high=50%"];
    // Slow enough for the flash to keep up with the writes.
    let flow = [
        ("rw", "randrw"),
        ("rwmixread", "95"),
        ("iodepth", "1"),
        ("random_distribution", "zipf:1.1"),
    ];
    let interval = Span::from_ms(50);
    let run = |precondition, ramp| first(&overrides, &flow, precondition, (ramp, interval));
    let warmed = run(Precondition::Steady, Span::ZERO);
    let ran = run(Precondition::Steady, Span::from_ms(3000));
    let cold = run(Precondition::Fill, Span::ZERO);
    println!(
        "hits: warmed {:.4}, after a run {:.4}, cold {:.4}; reads, us: {:.1}, {:.1}, {:.1}",
        warmed.hits, ran.hits, cold.hits, warmed.reads_us, ran.reads_us, cold.reads_us
    );
    close("hits", warmed.hits, ran.hits, 0.03);
    close("reads", warmed.reads_us, ran.reads_us, 0.1);
    assert!(cold.hits < 0.9 * ran.hits, "an empty cache hits as often");
}

#[test]
fn writers_find_the_cache_full() {
    let flow = [("rw", "randwrite"), ("iodepth", "64")];
    let interval = Span::from_ms(300);
    let run = |precondition, ramp| first(&[], &flow, precondition, (ramp, interval));
    let warmed = run(Precondition::Steady, Span::ZERO);
    let ran = run(Precondition::Steady, Span::from_ms(3000));
    let cold = run(Precondition::Fill, Span::ZERO);
    println!(
        "writes, us: warmed {:.1}, after a run {:.1}, cold {:.1}",
        warmed.writes_us, ran.writes_us, cold.writes_us
    );
    close("writes", warmed.writes_us, ran.writes_us, 0.2);
    assert!(cold.writes_us < 0.5 * ran.writes_us, "an empty cache takes writes at once");
}

#[test]
fn a_sequential_flow_has_just_come_round() {
    // What it read last is the end of its range, and it begins at the start: no hits if the
    // range is larger than the cache, all hits if it is not.
    let run = |size| {
        let flow = [("rw", "read"), ("iodepth", "4"), ("size", size)];
        let overrides = ["cache.mode=read"];
        first(&overrides, &flow, Precondition::Steady, (Span::ZERO, Span::from_ms(10))).hits
    };
    let (large, small) = (run("64MiB"), run("8MiB"));
    assert!(large == 0.0 && small > 0.999, "{large} {small}");
}

/// Two flows that find much in the cache, and some of it dirty.
fn hot() -> Simulation {
    hot_with(&[])
}

fn hot_with(more: &[&str]) -> Simulation {
    let cache = ["cache.mode=both", "cache.write_back=lru", "cache.high=50%", "cache.size=4MiB"];
    let changes = DRIVE[..7].iter().chain(&cache).chain(more);
    let changes: Vec<_> = changes.map(|&text| text.to_owned()).collect();
    let simulation = Simulation::on_changed("mqsim", &changes).unwrap();
    let flow = "bs=4k size=6MiB number_ios=500";
    simulation
        .flow("mixed", &format!("rw=randrw rwmixread=80 iodepth=4 {flow}"))
        .unwrap()
        .flow("reader", &format!("rw=randread iodepth=2 offset=512MiB {flow}"))
        .unwrap()
}

fn json(measured: &Measured) -> String {
    RunResult { run: Default::default(), ..measured.result.clone() }.to_json()
}

fn hits(measured: &Measured) -> f64 {
    measured.result.device.as_ref().unwrap().cache_hit_ratio.unwrap()
}

/// A run on file: what came of it, the file's bytes, and where its records begin in them.
fn recorded(mut simulation: Simulation, path: &Path) -> (Measured, Vec<u8>, usize) {
    simulation.record = Some(path.to_owned());
    let measured = simulation.run().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let header = 12 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    (measured, bytes, header)
}

fn again(path: &Path) -> Result<Measured, SimulationError> {
    replay(path, None, &[], &[], None, None, &mut |_| true)
}

#[test]
fn recording_a_run_changes_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let plain = hot();
    let expected = plain.run().unwrap();
    let (measured, ..) = recorded(plain.clone(), &path);
    assert_eq!(json(&measured), json(&expected));
    // It hits from the first request on because the cache is warm: the same run from a drive
    // whose cache is empty does not.
    let cold = plain.precondition(Precondition::Fill).run().unwrap();
    println!("hits: warm {:.3}, cold {:.3}", hits(&expected), hits(&cold));
    assert!(hits(&expected) > 1.4 * hits(&cold));

    let replayed = again(&path).unwrap();
    assert_eq!(json(&replayed), json(&expected));
    let other = ["flash.read=100us".to_owned()];
    let other = resimulate(&path, None, &other, &[], Remap::Refuse, &mut |_| true).unwrap();
    // As warm as if the load had been on the other drive from the start.
    let there = hot_with(&["flash.read=100us"]).run().unwrap();
    assert!((hits(&other) - hits(&there)).abs() < 0.01, "{} {}", hits(&other), hits(&there));
}

#[test]
fn a_recording_begins_in_a_saved_state() {
    let folder = tempfile::tempdir().unwrap();
    let [path, state, other] = ["run.rec", "a.state", "b.state"].map(|it| folder.path().join(it));
    for (file, seed) in [(&state, 1), (&other, 2)] {
        let mut saved = hot();
        (saved.save_state, saved.options.seed) = (Some(file.clone()), seed);
        saved.run().unwrap();
    }
    let mut simulation = hot();
    simulation.options.load_state = Some(state.clone());
    let expected = simulation.run().unwrap();
    let (measured, bytes, header) = recorded(simulation, &path);
    assert_eq!(json(&measured), json(&expected));
    let from = |state| replay(&path, None, &[], &[], state, None, &mut |_| true);
    let replayed = from(Some(&*state)).unwrap();
    // What is said of the start is not what was measured.
    let measured_of = |measured: &Measured| {
        let result = RunResult { notes: vec![], ..measured.result.clone() };
        RunResult { run: Default::default(), ..result }.to_json()
    };
    assert_eq!(measured_of(&replayed), measured_of(&expected));
    let refused = |result: Result<Measured, SimulationError>, said: &str| {
        let error = result.unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(said), "{error}");
    };
    refused(from(None), "begins in a saved state");
    refused(from(Some(&*other)), "not the saved state");
    refused(from(Some(Path::new("/nowhere.state"))), "/nowhere.state");
    let slower = ["flash.read=100us".to_owned()];
    refused(
        resimulate(&path, None, &slower, &[], Remap::Refuse, &mut |_| true),
        "begins in a saved state",
    );
    // Another name in the header is another state.
    let name = bytes[..header].windows(15).position(|it| it == b"\"saved_state\":\"").unwrap();
    let mut changed = bytes.clone();
    let digit = &mut changed[name + 15];
    *digit = if *digit == b'0' { b'1' } else { b'0' };
    std::fs::write(&path, changed).unwrap();
    refused(from(Some(&*state)), "not the saved state");
    // A recording that begins elsewhere takes none.
    recorded(hot(), &path);
    refused(from(Some(&*state)), "not the saved state");
    from(None).unwrap();
}

/// A recording of a drive that settles needs no past: it has it behind it.
fn unsettled() -> Simulation {
    let mut hot = hot();
    hot.options.settle = Settle::Off;
    hot
}

#[test]
fn a_recording_without_its_past_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let (_, bytes, header) = recorded(unsettled(), &path);
    let past = bytes[header..].chunks(32).take_while(|record| record[8] == 13).count();
    assert!(past > 1000, "{past}");
    let without = [&bytes[..header], &bytes[header + 32 * past..]].concat();
    std::fs::write(&path, without).unwrap();
    let refused = again(&path).unwrap_err();
    let is_other =
        matches!(&refused, SimulationError::Recording(RecordingError::OtherState { .. }));
    assert!(is_other, "{refused}");
    // With another access it is another past.
    let mut changed = bytes.clone();
    let last = header + 32 * (past - 1);
    changed[last + 25] ^= 1;
    std::fs::write(&path, changed).unwrap();
    assert!(again(&path).is_err());
    // Nor may it come later.
    let mut late = bytes.clone();
    let first = header + 32 * past;
    late.copy_within(first..first + 32, last);
    late[first..first + 32].copy_from_slice(&bytes[last..last + 32]);
    std::fs::write(&path, late).unwrap();
    assert!(again(&path).is_err());
}

#[test]
fn an_impossible_past_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    let (_, bytes, header) = recorded(unsettled(), &path);
    // A flow that no drive has; a length that no command has.
    for (field, said) in [(10..12, "flow 65535"), (20..24, "4294967295 sectors")] {
        let mut changed = bytes.clone();
        changed[header..][field].fill(0xff);
        std::fs::write(&path, changed).unwrap();
        let refused = again(&path).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn recordings_of_the_version_before_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    // Its runs began with an empty cache, as those of a drive that was written once do.
    let (measured, mut bytes, _) = recorded(hot().precondition(Precondition::Fill), &path);
    let expected = json(&measured);
    let at = bytes.windows(SCHEMA.len()).position(|it| it == SCHEMA.as_bytes()).unwrap();
    bytes[at..at + SCHEMA.len()].copy_from_slice(SCHEMA_COLD.as_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(json(&again(&path).unwrap()), expected);
    bytes[at + SCHEMA.len() - 1] = b'9';
    std::fs::write(&path, &bytes).unwrap();
    assert!(again(&path).unwrap_err().to_string().contains("mynah.recording/9"));
}
