//! What a pSLC write cache holds when a run begins: as it was asked for, the same in a replay, and where
//! nothing was asked as in a drive that was really written.

use mynah_lab::experiment::{Settle, Start};
use mynah_lab::{Simulation, replay};
use mynah_result::{Result as RunResult, SlcCacheUse};
use mynah_stamp::Span;

/// Planes, blocks of each, and bytes of one: a third of its pages hold one bit a cell.
const PLANES: u64 = 4;
const BLOCKS: u64 = 40;
const SLC_BLOCK: u64 = 48 / 3 * (32 << 10);

fn drive(changes: &[&str]) -> Simulation {
    let small = [
        "geometry.channels=2",
        "geometry.chips_per_channel=1",
        "geometry.blocks_per_plane=40",
        "geometry.pages_per_block=48",
        "over_provisioning=30%",
        "mapping.unit=16KiB",
        "cache.size=1MiB",
        "slc.keep_free=2%",
    ];
    let all: Vec<String> = small.iter().chain(changes).map(|it| (*it).to_owned()).collect();
    Simulation::on_changed("wd-sn580", &all).unwrap()
}

fn starts(text: &str) -> Start {
    text.parse().unwrap()
}

fn run(simulation: Simulation, start: &str, load: &str) -> RunResult {
    let simulation = simulation.precondition(starts(start)).flow("f", load).unwrap();
    simulation.run().unwrap().result
}

fn slc(result: &RunResult) -> &SlcCacheUse {
    result.device.as_ref().and_then(|device| device.slc.as_deref()).expect("a cache")
}

#[test]
fn a_start_reads_as_it_is_written() {
    for text in ["none", "fill,slc=half", "steady", "steady:random,slc=rested", "steady,slc=full"] {
        assert_eq!(starts(text).to_string(), text);
    }
    for (text, why) in [
        ("steady,slc=fll", "`slc=fll` is no state of the SLC cache"),
        ("steady,full", "valid are slc=empty"),
        ("none,slc=full", "nothing has been written"),
        ("slc=full", "is not a state"),
    ] {
        let error = text.parse::<Start>().unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    let none = Simulation::on("mqsim").unwrap().precondition(starts("fill,slc=half"));
    let error = none.flow("f", "rw=write number_ios=1").unwrap().run().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no SLC cache"), "{error}");
}

/// What a drive would fold in idle time is still there when its state was saved.
#[test]
fn a_saved_state_has_the_cache_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.state");
    let changes = ["slc.static=10%", "slc.dynamic=0%", "slc.idle_after=1s"];
    let mut simulation = drive(&changes).precondition(starts("fill"));
    (simulation.options.settle, simulation.save_state) = (Settle::Off, Some(file.clone()));
    let simulation = simulation.flow("f", "rw=write bs=128k iodepth=8 io_size=4m").unwrap();
    let saved = simulation.run().unwrap().result;
    assert!(slc(&saved).filled_bytes > 2 << 20, "{:?}", slc(&saved));
    let mut simulation = drive(&changes);
    simulation.options.load_state = Some(file);
    let simulation = simulation.flow("f", "rw=read bs=128k number_ios=1").unwrap();
    let restored = simulation.run().unwrap().result;
    let filled = [&saved, &restored].map(|result| slc(result).filled_bytes);
    assert!(filled[1] >= filled[0], "what was dirty in DRAM is there, too: {filled:?}");
}

/// What holds nothing before a run holds nothing after its cache has been filled.
#[test]
fn a_full_cache_holds_what_the_drive_holds() {
    let changes = ["slc.static=10%", "slc.dynamic=0%"];
    let load = "rw=randwrite bs=16k number_ios=1 occupancy=2";
    let result = run(drive(&changes), "fill,slc=full", load);
    let valid = slc(&result).valid_bytes;
    let held = (PLANES * BLOCKS * 48 * (32 << 10)) / 50;
    assert!(valid > 0 && valid < held, "{valid} of {held}");
}

/// Of a cache of static blocks alone what is written beyond what fits has as much folded.
#[test]
fn what_fits_is_what_was_left() {
    let fits = PLANES * (BLOCKS / 10) * SLC_BLOCK;
    let changes = ["slc.static=10%", "slc.dynamic=0%", "slc.idle_share=50%"];
    // Twice what fits, in units each of which is written once, so that none dies in the cache.
    let load = format!("rw=write bs=128k iodepth=8 io_size={}", 2 * fits);
    for settle in [Settle::Off, Settle::For(Span::from_ms(300))] {
        for start in ["steady", "fill"] {
            let folded = |what: &str| {
                let mut simulation = drive(&changes);
                simulation.options.settle = settle;
                slc(&run(simulation, &format!("{start},slc={what}"), &load)).folded_bytes as f64
            };
            let [empty, half, full, rested] = ["empty", "half", "full", "rested"].map(folded);
            let fits = fits as f64;
            println!("{start}, {settle}: {:?}", [empty, half, full, rested].map(|it| it / fits));
            // Of each plane a block that is being folded at the end, or was open at the start.
            let block = (PLANES * SLC_BLOCK) as f64;
            assert!((half - empty - fits / 2.0).abs() <= block / 2.0, "half: {half}, {empty}");
            assert!((full - empty - fits).abs() <= block / 2.0, "full: {full}, {empty}");
            assert!((rested - empty).abs() <= block, "rested: {rested}, {empty}");
        }
    }
}

#[test]
fn a_replay_begins_with_the_same_cache() {
    let folder = tempfile::tempdir().unwrap();
    for start in
        ["fill,slc=half", "steady,slc=full", "steady,slc=rested", "steady:random,slc=empty"]
    {
        let file = folder.path().join("a.rec");
        let mut simulation = drive(&["slc.static=10%", "slc.dynamic=20%"])
            .precondition(starts(start))
            .flow("f", "rw=randwrite bs=32k iodepth=8 number_ios=800")
            .unwrap();
        simulation.options.settle = Settle::For(Span::from_ms(100));
        simulation.record = Some(file.clone());
        let recorded = simulation.run().unwrap().result;
        let watch = &mut |_: mynah_lab::simulation::Step<'_>| true;
        let again = replay::replay(&file, None, &[], &[], None, None, watch).unwrap();
        assert_eq!(slc(&again.result), slc(&recorded), "{start}");
    }
}

/// The drive as it settles, and as it is when it has been written many times over from a fill.
#[test]
fn a_settled_drive_is_a_written_one() {
    let in_turns = ["slc.dynamic=0%", "slc.static=10%"];
    let dynamic = ["slc.dynamic=100%", "slc.static=0%"];
    let direct = ["slc.static=5%", "slc.when_full=direct"];
    let whole = ["rw=randwrite bs=16k iodepth=32", "rw=write bs=128k iodepth=8"];
    // Of a drive that is not full native data leave a dynamic cache blocks, or get some of them.
    let parts = [
        "rw=randwrite bs=16k iodepth=32 size=45% occupancy=45",
        "rw=randwrite bs=16k iodepth=32 size=70% occupancy=70",
        "rw=write bs=128k iodepth=8 size=70% occupancy=70",
    ];
    for (changes, loads) in
        [(in_turns, &whole[..]), (dynamic, &whole), (direct, &whole), (dynamic, &parts)]
    {
        for load in loads {
            let of = |result: &RunResult| {
                let write = &result.flows[0].write;
                let slc = slc(result);
                let all = (slc.cached_bytes + slc.direct_bytes) as f64;
                [write.bw_bytes_per_s, slc.cached_bytes as f64 / all, slc.folded_bytes as f64 / all]
            };
            let runs = format!("{load} runtime=1s");
            let settled = of(&run(drive(&changes), "steady", &runs));
            let mut written = drive(&changes);
            (written.options.settle, written.options.ramp_time) =
                (Settle::Off, Span::from_secs(20));
            let written = of(&run(written, "fill", &runs));
            println!("{changes:?}, {load}: {settled:?}, {written:?}");
            let [rate, shares @ ..] = [0, 1, 2].map(|at| (settled[at], written[at]));
            assert!((rate.0 / rate.1 - 1.0).abs() < 0.05, "{changes:?}, {load}: {rate:?}");
            let off = shares.map(|(settled, written)| (settled - written).abs());
            assert!(off.iter().all(|off| *off < 0.05), "{changes:?}, {load}: {shares:?}");
        }
    }
}
