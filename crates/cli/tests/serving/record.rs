//! A served drive's recording, simulated again: every modelled time is the same.

use crate::support::*;
use serde_json::Value;

/// Small enough that a few seconds of writes make it collect garbage.
const DRIVE: [&str; 8] = [
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "over_provisioning=20%",
    "--set",
    "geometry.channels=2",
    "--set",
    "geometry.pages_per_block=64",
];

#[test]
fn what_was_served_is_simulated_to_the_picosecond() {
    let top = tempfile::tempdir().unwrap();
    let place = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
    let (recording, file) = (place("run.rec"), place("served.json"));
    let more = ["--tcp", "127.0.0.1:0", "--record", &recording, "--json", &file];
    let served = Served::start(mynah(&["serve"]).args(DRIVE).args(more));
    let target = format!("tcp://{}/{}", served.address(), str_of(&served.ready["nqn"]));
    let bench = |args: &[&str]| result(&run_bench(&target, args), 0);
    // Writes of 64 KiB do not fit a capsule: their data are asked for.
    let large = ["--rw", "randrw", "--bs", "64k", "--iodepth", "16", "--number_ios", "3000"];
    let small = ["--rw", "randrw", "--bs", "4k", "--iodepth", "32", "--number_ios", "20000"];
    let ios = |result: &Value| result["host"]["completed"].as_u64().unwrap();
    let completed = ios(&bench(&large)) + ios(&bench(&[&small[..], &["--numjobs", "2"]].concat()));
    let (code, said, errors) = served.stop();
    // 1: on a busy machine the run may rightly be called not trustworthy.
    assert!(matches!(code, 0 | 1), "{said}{errors}");

    let served: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let replay = ["sim", "--replay", &recording, "--quiet"];
    let replayed = result(&mynah(&replay).args(["--json", "-"]).output().unwrap(), 0);
    assert!(replayed["device"]["gc_runs"].as_u64().unwrap() > 0, "no garbage was collected");
    assert!(replayed["requests"].as_u64().unwrap() >= completed);
    for figure in ["gc_runs", "flash_programs", "flash_reads", "host_units_written", "waf"] {
        assert_eq!(replayed["device"][figure], served["device"][figure], "{figure}");
    }
    // What the hosts' shutdowns left to be written is no I/O of theirs, and takes none of their
    // time. What was served was late as well, so its rates are lower, if anything.
    let [there, here] = [&served, &replayed].map(|result| &result["flows"][0]);
    for kind in ["read", "write", "flush"] {
        assert_eq!(there[kind]["ios"], here[kind]["ios"], "{kind}");
        let [there, here] = [there, here].map(|flow| flow[kind]["iops"].as_f64().unwrap());
        assert!(here >= there * (1.0 - 1e-9), "{kind}: {there} and {here} a second");
    }

    // A recording only fits its own drive.
    let other = mynah(&replay).args(["--set", "flash.erase=9ms"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
}
