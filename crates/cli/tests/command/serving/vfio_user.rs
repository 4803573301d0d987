//! `mynah bench vfio-user:DIR` against `mynah serve --vfio-user DIR`: everything that is written
//! comes back, through every kind of doorbell and completion, and after the drive was killed.

use crate::serving::support::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// A drive that is quickly built.
const SMALL: [&str; 6] = [
    "serve",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "over_provisioning=20%",
    "--precondition=none",
];

fn start(folder: &Path, args: &[&str]) -> Served {
    Served::start(mynah(&SMALL).arg("--vfio-user").arg(folder).args(args))
}

fn bench(folder: &Path, args: &[&str]) -> Output {
    run_bench(&format!("vfio-user:{}", folder.display()), args)
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    (folder, path)
}

const MIXED: [&str; 7] = ["--verify", "--rw", "randrw", "--rwmixtrim", "5", "--size", "8m"];

#[test]
fn everything_written_comes_back_through_all_kinds_of_doorbells_and_completions() {
    for (serve, loads) in [
        (
            &["--speed", "max"][..],
            &[
                &["--bssplit", "512/30:4k/50:64k/20", "--iodepth", "16", "--number_ios", "2000"][..],
                &["--bs", "4k", "--numjobs", "3", "--iodepth", "8", "--number_ios", "1000"],
                &["--interrupts", "--bsrange", "4k-256k", "--iodepth", "4", "--number_ios", "300"],
                &["--rate_iops", "3000", "--number_ios", "500"],
                &["--bs", "1m", "--iodepth", "2", "--number_ios", "20", "--fsync", "5"],
            ][..],
        ),
        (
            &["--speed", "1", "--doorbells", "trapped", "--functional"],
            &[&["--bs", "8k", "--iodepth", "8", "--number_ios", "500", "--numjobs", "2"]],
        ),
        (
            &["--speed", "1", "--functional"],
            &[
                &["--bs", "4k", "--iodepth", "8", "--number_ios", "1000", "--fsync", "100"],
                &["--interrupts", "--bs", "4k", "--numjobs", "2", "--number_ios", "500"],
            ],
        ),
    ] {
        let (_folder, path) = folder();
        let drive = start(&path, serve);
        for load in loads {
            let output = bench(&path, &[&MIXED, *load].concat());
            let result = result(&output, 0);
            let host = &result["host"];
            assert!(host["checked_blocks"].as_u64().unwrap() > 0, "{load:?}: {host}");
            assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{load:?}");
            assert_eq!(host["target"], format!("vfio-user:{}", path.display()));
        }
        let (code, said, errors) = drive.stop();
        assert_eq!(code, 0, "{serve:?}: {said}{errors}");
        assert!(said.contains("write: IOPS="), "{said}");
        assert!(!errors.contains("warning"), "{errors}");
    }
}

#[test]
fn the_ready_line_and_what_qemu_is_given() {
    let (_folder, path) = folder();
    let drive = start(&path, &["--speed", "max"]);
    let socket = path.join("cntrl");
    assert_eq!(drive.ready["vfio_user"][0], socket.display().to_string());
    assert_eq!(drive.ready["addresses"], Value::Array(Vec::new()));
    // The folder is taken.
    let second = mynah(&SMALL).arg("--vfio-user").arg(&path).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("another program serves there"));
    let (code, _, errors) = drive.stop();
    assert_eq!(code, 0);
    assert!(
        errors.contains("memory-backend-memfd") && errors.contains("vfio-user-pci"),
        "{errors}"
    );
    assert!(!socket.exists(), "the socket goes with the drive");
}

#[test]
fn a_drive_that_is_killed_and_comes_back_has_what_was_flushed() {
    let (top, path) = folder();
    let store = format!("file:{}", top.path().join("bytes").display());
    let serve = ["--speed", "max", "--store", &store];
    let drive = start(&path, &serve);
    let target = format!("vfio-user:{}", path.display());
    let load = ["--rw", "randrw", "--size", "8m", "--bs", "8k", "--iodepth", "8", "--verify"];
    let more = ["--runtime", "4s", "--time_based", "--fsync", "16", "--numjobs", "2"];
    let child = start_bench(&target, &[&load[..], &more].concat());
    std::thread::sleep(Duration::from_millis(1_500));
    drop(drive);
    let drive = start(&path, &serve);
    let result = result(&child.wait_with_output().unwrap(), 0);
    let host = &result["host"];
    assert_eq!((&host["reconnects"], &host["unknown"]), (&1.into(), &0.into()), "{host}");
    assert!(host["retried"].as_u64().unwrap() > 0, "{host}");
    assert_eq!(drive.stop().0, 0);
}

/// One drive, two controllers over vfio-user and one over TCP: each sees what the others write,
/// and none disturbs them.
#[test]
fn several_functions_and_tcp_serve_the_same_drive() {
    let (_folder, path) = folder();
    let other = path.with_file_name("other");
    let more = ["--vfio-user", other.to_str().unwrap(), "--tcp", "127.0.0.1:0", "--speed", "1"];
    let drive = start(&path, &[&more[..], &["--functional"]].concat());
    let tcp = format!("tcp://{}", drive.address());
    let (one, two) =
        (format!("vfio-user:{}", path.display()), format!("vfio-user:{}", other.display()));
    let children: Vec<_> = [(&one, "0"), (&two, "32m"), (&tcp, "64m")]
        .into_iter()
        .map(|(target, offset)| {
            let load = ["--verify", "--rw", "randrw", "--size", "4m", "--offset", offset];
            start_bench(target, &[&load[..], &["--iodepth", "8", "--number_ios", "1500"]].concat())
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(result(&output, 0)["host"]["mismatched_blocks"], 0);
    }
    let (code, said, _) = drive.stop();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&one) && said.contains(&two) && said.contains("nqn."), "{said}");
}

#[test]
fn what_a_guest_does_can_be_recorded_and_simulated_again() {
    let (top, path) = folder();
    let recording = top.path().join("run.rec");
    let file = recording.to_str().unwrap();
    let more = ["--tcp", "127.0.0.1:0", "--record", file, "--functional"];
    let drive = start(&path, &more);
    let load = ["--bsrange", "4k-64k", "--numjobs", "2", "--fsync", "20", "--number_ios", "300"];
    result(&bench(&path, &[&MIXED, &load[..]].concat()), 0);
    let tcp = format!("tcp://{}", drive.address());
    let over_tcp = start_bench(&tcp, &[&MIXED, &load[..]].concat());
    result(&over_tcp.wait_with_output().unwrap(), 0);
    assert_eq!(drive.stop().0, 0);
    let replay = mynah(&["sim", "--replay", file, "--json", "-"]).output().unwrap();
    let replayed = result(&replay, 0);
    assert_eq!(replayed["flows"].as_array().unwrap().len(), 2, "{}", replayed["flows"]);
    assert!(replayed["requests"].as_u64().unwrap() >= 1_200);
}

#[test]
fn a_client_at_a_time_and_the_next_after_it() {
    let (_folder, path) = folder();
    let drive = start(&path, &["--speed", "max"]);
    let target = format!("vfio-user:{}", path.display());
    let load = ["--rw", "randread", "--runtime", "3s", "--iodepth", "4"];
    let first = start_bench(&target, &load);
    std::thread::sleep(Duration::from_millis(1_000));
    let second = bench(&path, &["--rw", "randread", "--number_ios", "10"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("one client at a time"), "{}", text(&second.stderr));
    // The one that is there goes on, and after it the next may come, even if it was killed.
    let mut first = first;
    first.kill().unwrap();
    first.wait().unwrap();
    let third = bench(&path, &["--rw", "randread", "--number_ios", "1000"]);
    assert_eq!(result(&third, 0)["requests"], 1_000);
    assert_eq!(drive.stop().0, 0);
}

/// Faults of connections strike the client of a function: the host of one that is cut off comes
/// again, completions that are held back come late, and a controller that fails is reset.
#[test]
fn faults_strike_functions() {
    for (faults, more, wanted) in [
        (&["connection-cut:at=2s"][..], &["--speed", "max"][..], "reconnects"),
        (&["controller-fatal:at=2s"], &["--speed", "max"], "reconnects"),
        (&["connection-cut:rate=5e-4"], &["--speed", "1"], "reconnects"),
        (&["connection-delay:rate=0.02,by=20ms"], &["--speed", "max"], "late"),
        (&["connection-delay:rate=0.02,by=20ms"], &["--doorbells", "trapped"], "late"),
        (&["connection-drop:rate=5e-4"], &["--speed", "max"], "reconnects"),
    ] {
        let (_folder, path) = folder();
        let mut serve = vec!["--functional"];
        faults.iter().for_each(|fault| serve.extend(["--fault", fault]));
        let drive = start(&path, &[&serve[..], more].concat());
        let target = format!("vfio-user:{}", path.display());
        let load =
            ["--verify", "--rw", "randrw", "--size", "4m", "--iodepth", "8", "--fsync", "20"];
        let run = match wanted {
            "late" => ["--number_ios", "2000"],
            _ => ["--runtime", "4s"],
        };
        let bench = mynah(&["bench", &target, "--json", "-", "--timeout", "1s"])
            .args(load)
            .args(run)
            .output();
        let result = result(&bench.unwrap(), 0);
        let host = &result["host"];
        assert_eq!((&host["mismatched_blocks"], &host["failed"]), (&0.into(), &0.into()), "{host}");
        if wanted == "late" {
            let max = result["flows"][0]["read"]["lat_ns"]["max"].as_f64().unwrap();
            let median = &result["flows"][0]["read"]["lat_ns"]["percentiles"]["50"];
            assert!(max >= 20e6 && median.as_f64().unwrap() < 20e6, "{faults:?} {more:?}");
            assert_eq!(host["reconnects"], 0, "{faults:?}: {host}");
        } else {
            assert!(host["reconnects"].as_u64().unwrap() > 0, "{faults:?}: {host}");
        }
        let (code, said, errors) = drive.stop();
        assert_eq!(code, 0, "{faults:?}: {said}{errors}");
    }
}

#[test]
fn options_of_the_other_transport_are_refused() {
    let (_folder, path) = folder();
    let fail = |args: &[&str], message: &str| {
        let output = mynah(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    };
    let place = path.to_str().unwrap();
    let target = format!("vfio-user:{place}");
    fail(&["bench", &target, "--header-digest"], "--header-digest has no effect");
    fail(&["bench", &target, "--host-nqn", "nqn.2026-11.x:y"], "--host-nqn has no effect");
    fail(&["bench", "vfio-user:"], "no folder");
    fail(&["bench", "tcp://127.0.0.1:1", "--interrupts"], "--interrupts has no effect");
    fail(&["serve", "--vfio-user", place, "--allow-host", "nqn.2026-11.x:y"], "--allow-host has");
    fail(&["serve", "--doorbells", "trapped"], "--vfio-user");
    let nobody = bench(&path, &[]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("mynah serve --vfio-user"), "{}", text(&nobody.stderr));
}
