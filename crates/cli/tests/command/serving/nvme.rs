//! What a controller says of itself to `mynah nvme`.

use crate::serving::support::*;
use serde_json::Value;

const DRIVE: [&str; 13] = [
    "serve",
    "--functional",
    "--tcp=127.0.0.1:0",
    "--precondition=none",
    "--set",
    "geometry.blocks_per_plane=64",
    "--set",
    "over_provisioning=30%",
    "--namespace=64MiB",
    "--namespace=32MiB,4096",
    "--fault",
    "read-error:units=0-3",
    "--quiet",
];

/// What it prints; it ends with this exit code.
fn ask(served: &Served, words: &[&str], code: i32) -> (Vec<u8>, String) {
    let target = format!("tcp://{}", served.address());
    let output = mynah(&[&["nvme", &target], words].concat()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
    (output.stdout, errors)
}

fn json(served: &Served, words: &[&str]) -> Value {
    let (said, _) = ask(served, &[words, &["--json"]].concat(), 0);
    serde_json::from_slice(&said).expect("JSON")
}

#[test]
fn a_controller_says_what_it_is_and_what_faults_have_left() {
    let served = Served::start(&mut mynah(&DRIVE));
    let (text, _) = ask(&served, &["error-log"], 0);
    assert_eq!(String::from_utf8(text).expect("text"), "Error Log Entries:\nerrors : none\n");
    let controller = json(&served, &["id-ctrl"]);
    assert_eq!(controller["subnqn"], served.ready["nqn"]);
    assert_eq!((&controller["sqes"], &controller["cntrltype"]), (&0x66.into(), &1.into()));
    assert_eq!(json(&served, &["list-ns"])["nsid_list"][1]["nsid"], 2);
    let second = json(&served, &["id-ns", "--nsid", "2"]);
    assert_eq!(second["nsze"], (32 << 20) / 4096);
    let formats = second["lbafs"].as_array().expect("formats");
    let used: Vec<_> = formats.iter().filter(|format| format["in_use"] == 1).collect();
    assert_eq!((used.len(), &used[0]["ds"]), (1, &12.into()));
    let (_, errors) = ask(&served, &["id-ns", "--nsid", "9"], 1);
    assert!(errors.contains("there is no namespace 9"), "{errors}");
    assert_eq!(json(&served, &["ana-log"])["ANA DESC LIST "][0]["state"], "optimized");

    // A write and a read that fails leave their mark.
    let target = format!("tcp://{}", served.address());
    result(&run_bench(&target, &["--rw=write", "--bs=64k", "--number_ios=1"]), 0);
    run_bench(&target, &["--rw=read", "--bs=4k", "--number_ios=1"]);
    let smart = json(&served, &["smart-log"]);
    assert_eq!((&smart["media_errors"], &smart["host_write_commands"]), (&1.into(), &1.into()));
    // The log of errors is the drive's, as SMART is.
    let log = json(&served, &["error-log"]);
    assert_eq!(smart["num_err_log_entries"], log["errors"].as_array().expect("entries").len());
    assert_eq!(log["errors"][0]["status_field"], 0x281 | 1 << 13, "{log}");
}

#[test]
fn logs_and_features_as_they_are_and_those_that_are_not_there() {
    let served = Served::start(&mut mynah(&DRIVE));
    let (raw, _) = ask(&served, &["smart-log", "--raw"], 0);
    let log = ["get-log", "0x02", "--raw", "--log-len"];
    let (page, _) = ask(&served, &[&log[..], &["512"]].concat(), 0);
    assert_eq!((raw.len(), &raw[..32]), (512, &page[..32]));
    let (part, _) = ask(&served, &[&log[..], &["8", "--lpo", "0"]].concat(), 0);
    assert_eq!(part, &page[..8]);
    let (dump, _) = ask(&served, &["get-log", "2"], 0);
    let dump = String::from_utf8(dump).expect("text");
    assert!(dump.starts_with("00000000 00 39 01"), "{dump}");
    let queues = json(&served, &["get-feature", "7"]);
    assert_eq!(queues["name"], "Number of Queues");
    assert!(queues["Current"].as_u64() > Some(0));
    let host = json(&served, &["get-feature", "0x81"]);
    assert_eq!(host["data"].as_str().map(str::len), Some(32));
    for (words, why) in [
        (&["get-log", "0x33"][..], "log page invalid (status 1/0x09)"),
        (&["get-feature", "0x55"], "invalid field (status 0/0x02)"),
    ] {
        let (_, errors) = ask(&served, words, 1);
        assert!(errors.contains(why), "{errors}");
    }
    ask(&served, &["get-feature", "300"], 2);
    ask(&served, &["get-log", "2", "--log-len", "2"], 2);
}

/// nvme-cli's own words for --nsid and --json.
#[test]
fn options_of_nvme_cli_are_taken() {
    let served = Served::start(&mut mynah(&DRIVE));
    for words in [&["-n", "2", "-o", "json"][..], &["--namespace-id=2", "--output-format=json"]] {
        let (said, _) = ask(&served, &[&["id-ns"], words].concat(), 0);
        let namespace: Value = serde_json::from_slice(&said).expect("JSON");
        assert_eq!(namespace["nsze"], (32 << 20) / 4096, "{words:?}");
    }
    let (raw, _) = ask(&served, &["smart-log", "-o", "binary"], 0);
    assert_eq!(raw.len(), 512);
    let (text, _) = ask(&served, &["smart-log", "-o", "normal"], 0);
    assert_eq!(text, ask(&served, &["smart-log"], 0).0);
    ask(&served, &["smart-log", "-o", "json", "--raw"], 2);
}

/// A path is an address, whoever comes in there: each of these is a host of its own.
#[test]
fn a_fault_of_a_listener_is_of_whoever_comes_in_there() {
    let fault = "--fault=ana-change:state=inaccessible,at=0s,listener=2";
    let served = Served::start(&mut mynah(&[&DRIVE[..], &["--tcp=127.0.0.1:0", fault]].concat()));
    for _ in 0..3 {
        for (at, state) in [(0, "optimized"), (1, "inaccessible")] {
            let address = str_of(&served.ready["addresses"][at]);
            let target = format!("tcp://{address}");
            let output = mynah(&["nvme", &target, "ana-log", "--json"]).output().expect("it runs");
            let log: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(log["ANA DESC LIST "][0]["state"], state, "{at}");
        }
    }
}

/// As `mynah sim` does, it says at its end which faults did nothing.
#[test]
fn faults_that_never_struck_are_named_when_serving_ends() {
    let more = ["--fault=controller-fatal:at=1h", "--fault=connection-drop:rate=1e-9", "--json=-"];
    let served = Served::start(&mut mynah(&[&DRIVE[..], &more].concat()));
    let target = format!("tcp://{}", served.address());
    // What was never written is not on flash.
    result(&run_bench(&target, &["--rw=read", "--bs=4k", "--number_ios=1"]), 0);
    let (_, said, errors) = served.stop();
    let ended: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{errors}"));
    let notes: Vec<&str> = ended["notes"].as_array().expect("notes").iter().map(str_of).collect();
    for fault in ["read-error:units=0-3", "controller-fatal:at=3600s", "connection-drop:rate="] {
        let named = notes.iter().find(|note| note.contains(fault));
        assert!(named.is_some_and(|note| note.contains("did nothing: ")), "{fault}: {notes:#?}");
    }
}
