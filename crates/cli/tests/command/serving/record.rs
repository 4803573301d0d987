//! A served drive's recording, simulated again: every modelled time is the same.

use crate::serving::support::*;
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

/// Hosts of both kinds of namespaces, over both transports.
#[test]
fn key_value_commands_are_simulated_to_the_picosecond() {
    let top = tempfile::tempdir().unwrap();
    let place = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
    let (recording, file, socket) = (place("run.rec"), place("served.json"), place("drive"));
    let more = ["--tcp", "127.0.0.1:0", "--vfio-user", &socket, "--record", &recording];
    let with = ["--namespace", "256MiB,kv", "--namespace", "64MiB", "--precondition=none"];
    let small = ["--set", "kv.index.dram=128KiB", "--json", &file, "--functional"];
    let mut command = mynah(&["serve"]);
    let served = Served::start(command.args(DRIVE).args(more).args(with).args(small));
    let targets = [format!("tcp://{}", served.address()), format!("vfio-user:{socket}")];
    let count = |kinds: &Value| -> u64 {
        ["store", "update", "retrieve", "delete", "exist", "list"]
            .iter()
            .map(|kind| kinds[kind]["ios"].as_u64().unwrap_or(0))
            .sum()
    };
    let mut done = 0;
    for target in &targets {
        let mix = "retrieve=40,store=15,update=25,delete=10,exist=5,list=5";
        let keys = ["--kv", mix, "--keys", "2k", "--value_size", "100-20k", "--iodepth", "16"];
        let keys = [&keys[..], &["--number_ios", "4000", "--misses", "10%"]].concat();
        let result = result(&run_bench(target, &keys), 0);
        done += count(&result["flows"][0]);
    }
    let blocks = ["--nsid", "2", "--rw", "randrw", "--bs", "4k", "--iodepth", "8"];
    result(&run_bench(&targets[0], &[&blocks[..], &["--number_ios", "2000"]].concat()), 0);
    let put = ["kv", &targets[0], "put", "user:1", "--value", "hello"];
    assert!(mynah(&put).output().unwrap().status.success());
    // A Store that is refused.
    let refused = mynah(&put).arg("--if-absent").output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    let (code, said, errors) = served.stop();
    assert!(matches!(code, 0 | 1), "{said}{errors}");

    let served: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let replay = ["sim", "--replay", &recording, "--quiet"];
    let replayed = result(&mynah(&replay).args(["--json", "-"]).output().unwrap(), 0);
    for figure in ["flash_programs", "flash_reads", "host_units_written", "waf", "gc_runs"] {
        assert_eq!(replayed["device"][figure], served["device"][figure], "{figure}");
    }
    let flows = replayed["flows"].as_array().unwrap();
    assert!(done >= 8000 && flows.iter().map(count).sum::<u64>() >= done + 2, "{flows:?}");
    let held = &replayed["device"]["key_value"];
    assert!(held["index_lookups"].as_u64().unwrap() > 0, "{held}");
    assert!(held["live_bytes"].as_u64().unwrap() > 0, "{held}");
}

/// Pairs that an earlier run has left are in the recording: laid down anew after a kill, in the
/// drive's own state after an orderly end.
#[test]
fn pairs_of_an_earlier_run_are_there_when_it_is_simulated() {
    let top = tempfile::tempdir().unwrap();
    let place = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
    let (bytes, recording) = (format!("file:{}", place("bytes")), place("run.rec"));
    let start = |record: &[&str]| {
        let with = ["--namespace", "256MiB,kv", "--precondition=none", "--store", &bytes];
        let own = ["--tcp", "127.0.0.1:0", "--functional", "--quiet"];
        Served::start(mynah(&["serve"]).args(DRIVE).args(with).args(own).args(record))
    };
    let load = |served: &Served, mix: &str| {
        let keys = ["--kv", mix, "--keys", "500", "--value_size", "3k", "--iodepth", "4"];
        let target = format!("tcp://{}", served.address());
        result(&run_bench(&target, &[&keys[..], &["--number_ios", "1000"]].concat()), 0);
        let flush = mynah(&["kv", &target, "put", "last", "--value", "one"]).output().unwrap();
        assert!(flush.status.success(), "{}", text(&flush.stderr));
    };
    let mut first = start(&[]);
    load(&first, "retrieve=50,update=50");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    for ended in ["killed", "in order"] {
        let served = start(&["--record", &recording]);
        load(&served, "retrieve=60,update=20,delete=20");
        let (code, said, errors) = served.stop();
        assert!(matches!(code, 0 | 1), "{ended}: {said}{errors}");
        let replay = ["sim", "--replay", &recording, "--quiet", "--json", "-"];
        let replayed = result(&mynah(&replay).output().unwrap(), 0);
        let sides = &replayed["flows"][0]["retrieve"]["ios"];
        assert!(sides.as_u64().is_some_and(|ios| ios > 300), "{ended}: {sides}");
    }
}
