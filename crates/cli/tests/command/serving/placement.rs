//! Data placement: what a load writes with placement handles is what the controller says of them.

use crate::serving::support::*;
use serde_json::{Value, json};

fn serve(more: &[&str]) -> Served {
    let common = [
        "serve",
        "--functional",
        "--precondition=none",
        "--quiet",
        "--set",
        "over_provisioning=30%",
    ];
    let smaller = ["--set", "geometry.blocks_per_plane=64"];
    Served::start(&mut mynah(&[&common[..], &smaller, more].concat()))
}

fn ask(target: &str, words: &[&str]) -> Value {
    let output =
        mynah(&[&["nvme", target], words, &["--json"]].concat()).output().expect("it runs");
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Blocks that can still be written to the unit of each placement handle of namespace 1.
fn left(target: &str) -> Vec<u64> {
    let status = ask(target, &["fdp-status"]);
    let states = status["ruhss"].as_array().expect("states");
    states.iter().map(|it| it["ruamw"].as_u64().expect("blocks")).collect()
}

/// A load of 64 writes of 64 KiB that takes turns among three of four handles, one of them twice.
fn handles_are_what_was_written(target: &str) {
    let before = left(target);
    let load = ["--rw=write", "--bs=64k", "--number_ios=64", "--size=4m", "--fdp", "--verify"];
    let written = run_bench(target, &[&load[..], &["--plids=0,1,1,2"]].concat());
    result(&written, 0);
    let left = left(target);
    let taken: Vec<u64> = before.iter().zip(&left).map(|(before, left)| before - left).collect();
    let part = (4 << 20) / 4 / 512;
    assert_eq!(taken, [part, 2 * part, part]);
    let stats = ask(target, &["fdp-stats"]);
    assert_eq!(stats["hbmw"], 4 << 20);
    assert!(stats["mbmw"].as_u64() <= stats["hbmw"].as_u64(), "{stats}");

    let handles = |list: &Value| {
        let list = list.as_array().expect("handles").iter();
        list.map(|it| (it["pid"].clone(), it["ruhid"].clone())).collect::<Vec<_>>()
    };
    let expected: Vec<_> = [(0, 3), (1, 0), (2, 1)].map(|(a, b)| (json!(a), json!(b))).into();
    assert_eq!(handles(&ask(target, &["fdp-status"])["ruhss"]), expected);
    let usage = ask(target, &["fdp-usage"]);
    assert_eq!(usage["ruhus"], json!([{"ruha": 1}, {"ruha": 1}, {"ruha": 0}, {"ruha": 1}]));
    let configs = ask(target, &["fdp-configs"]);
    let one = &configs["configs"][0];
    assert_eq!((&configs["n"], &one["nrg"], &one["nruh"]), (&json!(0), &json!(1), &json!(4)));
    assert_eq!(one["ruhs"], json!([{"ruht": 2}, {"ruht": 2}, {"ruht": 2}, {"ruht": 2}]));
    assert_eq!(one["runs"].as_u64().map(|bytes| bytes / 512), before.first().copied());
    let feature = ask(target, &["get-feature", "0x1d"]);
    assert_eq!(
        (&feature["name"], &feature["Current"]),
        (&json!("Flexible Data Placement"), &json!(1))
    );
    for which in [&["fdp-events"][..], &["fdp-events", "--host-events"]] {
        assert_eq!(ask(target, which)["events"], json!([]), "{which:?}");
    }
    let refused = run_bench(target, &["--rw=write", "--number_ios=1", "--fdp", "--plids=3"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("placement handle 3") && said.contains("0 to 2"), "{said}");
}

const PLACED: [&str; 3] =
    ["--set", "placement={handles=4,isolation=\"persistent\"}", "--namespace=64MiB,handles=3:0:1"];

#[test]
fn what_was_written_with_handles_is_what_the_controller_says_over_tcp() {
    let served = serve(&[&PLACED[..], &["--tcp=127.0.0.1:0"]].concat());
    handles_are_what_was_written(&format!("tcp://{}", served.address()));
}

#[test]
fn what_was_written_with_handles_is_what_the_controller_says_over_vfio_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = format!("--vfio-user={}", folder.path().display());
    let _served = serve(&[&PLACED[..], &[&place]].concat());
    handles_are_what_was_written(&format!("vfio-user:{}", folder.path().display()));
}

#[test]
fn a_drive_without_handles_says_so() {
    let served = serve(&["--namespace=64MiB", "--tcp=127.0.0.1:0"]);
    let target = format!("tcp://{}", served.address());
    let refused = run_bench(&target, &["--rw=write", "--number_ios=1", "--fdp"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("[placement]"), "{}", text(&refused.stderr));
    for verb in ["fdp-stats", "fdp-status", "fdp-configs"] {
        let output = mynah(&["nvme", &target, verb]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains("has no data placement") && said.contains("[placement]"), "{said}");
    }
}

/// Of flows that begin together none writes if one cannot be.
#[test]
fn a_load_with_a_handle_that_is_none_writes_nothing() {
    let served = serve(&[&PLACED[..], &["--tcp=127.0.0.1:0"]].concat());
    let target = format!("tcp://{}", served.address());
    let folder = tempfile::tempdir().expect("a folder");
    let job = folder.path().join("two.fio");
    let jobs = "[global]\nbs=4k\nruntime=1\ntime_based=1\nrw=randwrite\nfdp=1\n\
                [good]\nfdp_pli=0\n[bad]\nfdp_pli=6\n";
    std::fs::write(&job, jobs).expect("a job file");
    for _ in 0..3 {
        let refused = run_bench(&target, &["--fio", &job.display().to_string()]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("`bad`"), "{}", text(&refused.stderr));
    }
    assert_eq!(ask(&target, &["fdp-stats"])["hbmw"], 0);
}

/// An orderly end keeps reclaim units as full as they are.
#[test]
fn a_drive_that_starts_again_has_the_same_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("--store=file:{}", folder.path().join("bytes").display());
    let again = ["--set", "placement.handles=3", "--namespace=64MiB", &store, "--tcp=127.0.0.1:0"];
    let mut before = vec![];
    for round in 0..2 {
        let first = ["serve", "--functional", "--quiet", "--set=geometry.blocks_per_plane=64"];
        let first = [&first[..], &["--set=over_provisioning=30%"], &again].concat();
        let none = if round == 0 { &["--precondition=none"][..] } else { &[] };
        let served = Served::start(&mut mynah(&[&first[..], none].concat()));
        let target = format!("tcp://{}", served.address());
        let room = left(&target);
        if round == 0 {
            let load = ["--rw=write", "--bs=64k", "--size=4m", "--fdp", "--plids=0,1,1,2"];
            result(&run_bench(&target, &load), 0);
            before = left(&target);
            assert!(before.iter().zip(&room).all(|(now, before)| now < before), "{before:?}");
        } else {
            assert_eq!(room, before);
        }
        let (code, _, errors) = served.stop();
        assert_eq!(code, 0, "{errors}");
    }
}
