//! `mynah kv` and `mynah bench --kv` against `mynah serve`: what is stored comes back, over either
//! transport, and what cannot be is told.

use crate::serving::support::*;
use serde_json::Value;
use std::io::Write;
use std::process::{Output, Stdio};

/// A drive that is quickly built, with keys and with blocks.
const SMALL: [&str; 13] = [
    "serve",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "over_provisioning=20%",
    "--precondition=none",
    "--functional",
    "--namespace",
    "256MiB,kv",
    "--namespace",
    "32MiB",
    "--tcp",
    "127.0.0.1:0",
];

/// A served drive, and its targets over both transports.
struct Drive {
    served: Served,
    targets: [String; 2],
    folder: tempfile::TempDir,
}

fn start(args: &[&str]) -> Drive {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let served = Served::start(mynah(&SMALL).args(args).arg("--vfio-user").arg(&path));
    let targets = [format!("tcp://{}", served.address()), format!("vfio-user:{}", path.display())];
    Drive { served, targets, folder }
}

fn kv(target: &str, args: &[&str]) -> Output {
    mynah(&["kv", target]).args(args).output().unwrap()
}

/// What a verb has printed that ended with `code`.
fn said(output: &Output, code: i32) -> Vec<u8> {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    output.stdout.clone()
}

/// What it has complained of.
fn complaint(output: &Output, code: i32) -> String {
    said(output, code);
    let text = text(&output.stderr).replace('│', "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn pairs_are_stored_retrieved_listed_and_deleted() {
    let drive = start(&["--speed", "max"]);
    for target in &drive.targets {
        let done = |args: &[&str]| said(&kv(target, args), 0);
        done(&["put", "user:1", "--value", "hello"]);
        done(&["put", "user:2", "--value", ""]);
        done(&["put", "0x00ff", "--value", "digits"]);
        assert_eq!(done(&["get", "user:1"]), b"hello");
        assert_eq!(done(&["get", "user:2"]), b"");
        assert_eq!(done(&["exists", "user:1"]), b"yes\n");
        assert_eq!(said(&kv(target, &["exists", "user:3"]), 1), b"no\n");
        assert_eq!(done(&["list"]), b"0x00ff\nuser:1\nuser:2\n");
        assert_eq!(done(&["list", "--prefix", "user:", "--limit", "1"]), b"user:1\n");
        let json: Value =
            serde_json::from_slice(&done(&["list", "--prefix", "0x00", "--json"])).unwrap();
        assert_eq!(json, serde_json::json!({ "key": "AP8=", "text": "0x00ff" }));
        // A missing key: nothing on standard output.
        let missing = kv(target, &["get", "user:3"]);
        assert_eq!(said(&missing, 1), b"");
        assert_eq!(complaint(&missing, 1), "× there is no key `user:3`");
        // Conditions.
        let refused = kv(target, &["put", "user:1", "--value", "x", "--if-absent"]);
        assert!(complaint(&refused, 1).contains("there is a key `user:1`"));
        let refused = kv(target, &["put", "user:3", "--value", "x", "--if-exists"]);
        assert!(complaint(&refused, 1).contains("there is no key `user:3`"));
        done(&["put", "user:1", "--value", "world", "--if-exists"]);
        assert_eq!(done(&["get", "user:1"]), b"world");
        // A delete of nothing is none, unless that is minded.
        done(&["delete", "user:3"]);
        let refused = kv(target, &["delete", "user:3", "--must-exist"]);
        assert!(complaint(&refused, 1).contains("there is no key `user:3`"));
        done(&["delete", "user:1", "--must-exist"]);
        done(&["delete", "user:2"]);
        done(&["delete", "0x00ff"]);
        assert_eq!(done(&["list"]), b"");
    }
    assert_eq!(drive.served.stop().0, 0);
}

#[test]
fn values_come_from_files_and_go_into_them() {
    let drive = start(&["--speed", "max"]);
    let path = |name: &str| drive.folder.path().join(name).to_str().unwrap().to_owned();
    // As long as the longest value: over PCIe, several pages of PRPs where a list is needed.
    let value: Vec<u8> = (0..2u32 << 20).map(|at| (at % 251) as u8).collect();
    std::fs::write(path("in"), &value).unwrap();
    for target in &drive.targets {
        said(&kv(target, &["put", "long", "--file", &path("in")]), 0);
        said(&kv(target, &["get", "long", "--file", &path("out")]), 0);
        assert!(std::fs::read(path("out")).unwrap() == value);
        assert!(said(&kv(target, &["get", "long"]), 0) == value);
    }
    let mut put = mynah(&["kv", &drive.targets[0], "put", "piped", "--file", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(said(&kv(&drive.targets[1], &["get", "piped"]), 0), b"from a pipe");
    // What there is not leaves no file.
    said(&kv(&drive.targets[0], &["get", "none", "--file", &path("none")]), 1);
    assert!(!std::path::Path::new(&path("none")).exists());
    std::fs::write(path("in"), vec![0; (2 << 20) + 1]).unwrap();
    let refused = kv(&drive.targets[0], &["put", "long", "--file", &path("in")]);
    let complaint = complaint(&refused, 2);
    assert!(complaint.contains("has 2097153 bytes, and the namespace takes values of 2097152"));
}

#[test]
fn pairs_move_from_drive_to_drive() {
    let drive = start(&["--speed", "max"]);
    let path = |name: &str| drive.folder.path().join(name).to_str().unwrap().to_owned();
    let target = &drive.targets[0];
    // More keys than fit into one List, and more than are under way at once.
    let load = ["--kv", "store", "--keys", "6000", "--value_size", "0-900", "--iodepth", "32"];
    let outcome = result(&run_bench(target, &load), 0);
    assert_eq!(outcome["flows"][0]["store"]["ios"], 6_000);
    let stat: Value =
        serde_json::from_slice(&said(&kv(target, &["stat", "--json", "--count"]), 0)).unwrap();
    assert_eq!((&stat["keys"], &stat["nsid"]), (&6_000.into(), &1.into()));
    assert!(stat["used_bytes"].as_u64().unwrap() > 6_000 * 16, "{stat}");
    assert_eq!(
        said(&kv(target, &["list"]), 0).iter().filter(|&&byte| byte == b'\n').count(),
        6_000
    );
    let all = kv(target, &["export", &path("pairs")]);
    assert!(complaint(&all, 0).starts_with("exported 6000 pairs"), "{}", text(&all.stderr));
    let pairs = std::fs::read_to_string(path("pairs")).unwrap();
    assert_eq!(pairs.lines().count(), 6_000);
    let other = start(&["--speed", "max"]);
    let target = &other.targets[1];
    said(&kv(target, &["import", &path("pairs"), "--quiet"]), 0);
    let again = said(&kv(target, &["export", "-", "--quiet"]), 0);
    assert!(again == pairs.as_bytes(), "the same pairs in the same order");
    // Of two pairs with one key the later one wins.
    let twice =
        "{\"key\": \"YQ==\", \"value\": \"MQ==\"}\n\n{\"key\": \"YQ==\", \"value\": \"Mg==\"}\n";
    std::fs::write(path("twice"), twice.repeat(50)).unwrap();
    said(&kv(target, &["import", &path("twice")]), 0);
    assert_eq!(said(&kv(target, &["get", "a"]), 0), b"2");
    // A wrong line is told; what stands before it is stored.
    std::fs::write(path("wrong"), format!("{twice}{{\"key\": \"YQ==\"}}\n")).unwrap();
    let refused = complaint(&kv(target, &["import", &path("wrong")]), 2);
    assert!(refused.contains("line 4: it has no `value`"), "{refused}");
    assert!(refused.starts_with("until then, imported 2 pairs"), "{refused}");
}

#[test]
fn what_is_stored_under_load_is_right() {
    for serve in [&["--speed", "max"][..], &["--speed", "1"]] {
        let drive = start(serve);
        for target in &drive.targets {
            for (load, kinds) in [
                (&["--kv", "ycsb-a", "--iodepth", "16"][..], &["retrieve", "update"][..]),
                // Several jobs store under the same keys.
                (
                    &[
                        "--kv",
                        "update=60,retrieve=40",
                        "--numjobs",
                        "2",
                        "--iodepth",
                        "8",
                        "--key_distribution",
                        "zipf:1.2",
                        "--value_size",
                        "0-5000",
                    ],
                    &["retrieve", "update"],
                ),
                (
                    &[
                        "--kv",
                        "store=20,delete=20,retrieve=40,exist=20",
                        "--misses",
                        "10",
                        "--iodepth",
                        "8",
                        "--fsync",
                        "50",
                    ],
                    &["store", "delete", "retrieve", "exist"],
                ),
                (
                    &["--kv", "ycsb-f", "--value_size", "16-64k", "--iodepth", "4"],
                    &["retrieve", "update"],
                ),
                (&["--kv", "ycsb-e", "--iodepth", "4"], &["list", "store"]),
            ] {
                let always = ["--keys", "500", "--number_ios", "2000", "--verify"];
                let result = result(&run_bench(target, &[load, &always].concat()), 0);
                let (host, flow) = (&result["host"], &result["flows"][0]);
                assert!(host["checked_values"].as_u64().unwrap() > 0, "{load:?}: {host}");
                assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{load:?}");
                for kind in kinds {
                    assert!(flow[kind]["ios"].as_u64().unwrap() > 0, "{load:?}: {kind}: {flow}");
                    assert!(flow[kind]["lat_ns"]["mean"].as_f64().unwrap() > 0.0);
                }
                let missed = host["misses"].as_u64().unwrap();
                assert_eq!(missed > 0, load.contains(&"--misses"), "{load:?}: {host}");
            }
        }
        let (code, said, errors) = drive.served.stop();
        assert_eq!(code, 0, "{said}{errors}");
    }
}

#[test]
fn a_value_that_is_not_what_was_stored_is_found() {
    let drive = start(&["--speed", "max"]);
    let target = &drive.targets[0];
    let load = ["--kv", "store", "--keys", "100", "--value_size", "100", "--verify"];
    result(&run_bench(target, &load), 0);
    // Nothing is stored first: what is there is of another run, and of no run.
    let reads = ["--kv", "retrieve", "--keys", "100", "--value_size", "100", "--number_ios", "300"];
    let not_loaded = [&reads[..], &["--load", "no"]].concat();
    let quiet = result(&run_bench(target, &not_loaded), 0);
    assert_eq!((&quiet["requests"], &quiet["host"]["misses"]), (&300.into(), &0.into()));
    let first = String::from_utf8(said(&kv(target, &["list", "--limit", "1"]), 0)).unwrap();
    let second = String::from_utf8(said(&kv(target, &["list", "--limit", "2"]), 0)).unwrap();
    let second = second.lines().nth(1).unwrap().to_owned();
    // Another key's value.
    let value = drive.folder.path().join("value");
    let value = value.to_str().unwrap();
    said(&kv(target, &["get", first.trim(), "--file", value]), 0);
    said(&kv(target, &["put", &second, "--file", value]), 0);
    let mixed = ["--kv", "update=1,retrieve=99", "--keys", "100", "--value_size", "100"];
    let rest = ["--number_ios", "2000", "--load", "no", "--verify"];
    let output = run_bench(target, &[&mixed[..], &rest].concat());
    let found = result(&output, 1);
    assert!(found["host"]["mismatched_values"].as_u64().unwrap() > 0, "{}", found["host"]);
    let said = text(&output.stderr);
    assert!(said.contains(&format!("verify: key {second}: expected")), "{said}");
}

#[test]
fn a_load_that_does_not_fit_is_refused() {
    let drive = start(&["--speed", "max"]);
    for target in &drive.targets {
        for (args, problem) in [
            (&["--rw", "randread"][..], "namespace 1 is a key-value namespace"),
            (&["--kv", "ycsb-a", "--nsid", "2"], "namespace 2 is a block namespace"),
            (&["--kv", "ycsb-a", "--key_size", "17"], "takes keys of 1 to 16 bytes"),
            (&["--kv", "ycsb-a", "--value_size", "3m"], "takes values of at most 2097152 bytes"),
            (&["--kv", "store", "--load", "yes"], "--load has no effect here"),
            (&["--rw", "randread", "--load", "no", "--nsid", "2"], "--load has no effect here"),
            (&["--kv", "retrieve", "--fsync", "3"], "nothing is written, so this has no effect"),
            (&["--kv", "ycsb-a", "--bs", "4k"], "it is about blocks"),
        ] {
            let output = run_bench(target, args);
            let said = complaint(&output, 2);
            assert!(said.contains(problem), "{args:?}: {said}");
        }
        for (args, problem) in [
            (&["get", "a", "--nsid", "2"][..], "namespace 2 is a block namespace"),
            (&["get", "a", "--nsid", "0"], "expected a namespace's number"),
            (&["import", "/does/not/exist"], "cannot read /does/not/exist"),
        ] {
            let said = complaint(&kv(target, args), 2);
            assert!(said.contains(problem), "{args:?}: {said}");
        }
        let said = complaint(&kv(target, &["get", "a", "--nsid", "9"]), 1);
        assert!(said.contains("the target has no active namespace 9"), "{said}");
    }
}

#[test]
fn a_full_namespace_ends_the_load_with_its_reason() {
    let drive = start(&["--speed", "max"]);
    let target = &drive.targets[0];
    let load = ["--kv", "retrieve", "--keys", "4000", "--value_size", "128k", "--number_ios", "9"];
    let output = run_bench(target, &load);
    let said = complaint(&output, 1);
    assert!(said.contains("the keys could not be stored first: key"), "{said}");
    assert!(said.contains("capacity exceeded"), "{said}");
}

#[test]
fn a_key_value_drive_is_divided_as_wanted() {
    let served =
        Served::start(mynah(&["serve", "--drive", "kv-tlc", "--precondition=none"]).args([
            "--functional",
            "--namespace",
            "32MiB",
            "--namespace",
            "1GiB,kv",
            "--tcp",
            "127.0.0.1:0",
        ]));
    let target = format!("tcp://{}", served.address());
    said(&kv(&target, &["put", "user:1", "--value", "hello", "--nsid", "2"]), 0);
    assert_eq!(said(&kv(&target, &["get", "user:1", "--nsid", "2"]), 0), b"hello");
    let blocks = complaint(&kv(&target, &["get", "user:1", "--nsid", "1"]), 2);
    assert!(blocks.contains("namespace 1 is a block namespace"), "{blocks}");
    assert_eq!(served.stop().0, 0);
}

/// Samsung's command set, in a key space of a drive on the PCIe bus, with and without the model.
#[test]
fn key_spaces_are_used_over_vfio_user() {
    for speed in ["max", "1"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        let namespaces = ["--namespace", "128MiB,kv-samsung", "--namespace", "32MiB"];
        let mut serve = mynah(&SMALL[..7]);
        serve.args(["--speed", speed]).args(namespaces).arg("--vfio-user").arg(&path);
        let served = Served::start(&mut serve);
        let target = format!("vfio-user:{}", path.display());
        let kv = |space: &str, args: &[&str]| {
            let mut command = mynah(&["kv", &target]);
            command.args(args).args(["--key-space", space]).output().unwrap()
        };
        let long = "a key of more than sixteen bytes";
        for (space, key) in [("0", "user:1"), ("7", "user:1"), ("7", "user:2"), ("7", long)] {
            let value = format!("{space} {key}");
            said(&kv(space, &["put", key, "--value", &value]), 0);
            assert_eq!(said(&kv(space, &["get", key]), 0), value.as_bytes());
        }
        assert_eq!(said(&kv("0", &["get", "user:1"]), 0), b"0 user:1");
        let file = folder.path().join("value");
        let value: Vec<u8> = (0..1_000_001u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&file, &value).unwrap();
        said(&kv("0", &["put", long, "--file", file.to_str().unwrap()]), 0);
        assert_eq!(said(&kv("0", &["get", long]), 0), value, "over many pages");
        said(&kv("0", &["put", "none", "--value", ""]), 0);
        assert_eq!(said(&kv("0", &["get", "none"]), 0), b"");
        assert_eq!(text(&said(&kv("7", &["list"]), 0)), format!("{long}\nuser:1\nuser:2\n"));
        assert_eq!(text(&said(&kv("7", &["list", "--prefix", "user:"]), 0)), "user:1\nuser:2\n");
        assert_eq!(text(&said(&kv("7", &["list", "--limit", "1"]), 0)), format!("{long}\n"));
        assert_eq!(said(&kv("3", &["list"]), 0), b"");
        assert_eq!(said(&kv("7", &["exists", long]), 0), b"yes\n");
        assert_eq!(said(&kv("1", &["exists", long]), 1), b"no\n");
        let there = complaint(&kv("7", &["put", long, "--value", "x", "--if-absent"]), 1);
        assert!(there.contains("--if-absent leaves it as it is"), "{there}");
        let none = complaint(&kv("7", &["put", "user:9", "--value", "x", "--if-exists"]), 1);
        assert!(none.contains("there is no key `user:9`"), "{none}");
        said(&kv("7", &["delete", long]), 0);
        said(&kv("7", &["delete", long]), 0);
        let none = complaint(&kv("7", &["delete", long, "--must-exist"]), 1);
        assert!(none.contains("there is no key"), "{none}");
        let short = complaint(&kv("7", &["put", "abc", "--value", "x"]), 1);
        assert!(short.contains("4 to 255 bytes"), "{short}");
        // NVMe's own set does not know the namespace.
        let own = mynah(&["kv", &target, "get", "user:1"]).output().unwrap();
        let own = complaint(&own, 2);
        assert!(own.contains("no key-value namespace"), "{own}");
        drop(served);
    }
}

#[test]
fn a_drive_of_nvmes_own_set_has_no_key_spaces() {
    let drive = start(&["--speed", "max"]);
    let args = ["get", "user:1", "--key-space", "0"];
    let other = complaint(&kv(&drive.targets[1], &args), 2);
    assert!(other.contains("does not speak Samsung's key-value command set"), "{other}");
    let tcp = complaint(&kv(&drive.targets[0], &args), 2);
    assert!(tcp.contains("not spoken over TCP"), "{tcp}");
    let stat = complaint(&kv(&drive.targets[1], &["stat", "--key-space", "0"]), 2);
    assert!(stat.contains("put, get, exists, delete and list"), "{stat}");
}
