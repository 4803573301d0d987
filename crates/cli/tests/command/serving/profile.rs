//! A served drive's profile: read while it is served, after its end, and after a kill.

use crate::serving::support::*;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

fn serve(profile: &Path, speed: &str) -> Served {
    let small = ["serve", "--quiet", "--tcp", "127.0.0.1:0", "--functional", "--precondition=none"];
    let set = ["--set", "geometry.blocks_per_plane=48", "--set", "over_provisioning=20%"];
    let profile = profile.to_str().unwrap();
    let own = ["--speed", speed, "--profile", profile];
    Served::start(&mut mynah(&[&small[..], &set, &own].concat()))
}

/// What `mynah profile show` says of it, for machines.
fn shown(profile: &Path) -> Value {
    let output = mynah(&["profile", "show", "--json", "-"]).arg(profile).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The group of this name, and the mean of one of its stages.
fn group<'a>(shown: &'a Value, name: &str) -> &'a Value {
    let groups = shown["profiles"][0]["groups"].as_array().expect("groups");
    groups.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {groups:?}"))
}

fn stage(group: &Value, name: &str) -> f64 {
    let stages = group["stages"].as_array().expect("stages");
    let found = stages.iter().find(|it| it["stage"] == name);
    found.map_or(0.0, |it| it["mean_ns"].as_f64().expect("a number"))
}

#[test]
fn every_io_of_a_host_has_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.profile");
    let mut target = serve(&path, "1");
    let load = ["--rw", "randrw", "--bssplit", "4k/50:64k/50", "--iodepth", "4", "--size", "8m"];
    let address = format!("tcp://{}", target.address());
    let bench = run_bench(&address, &[&load[..], &["--number_ios", "600"]].concat());
    let flow = &result(&bench, 0)["flows"][0];
    let count = |side: &str| flow[side]["ios"].as_u64().expect("a number");

    // While it is served.
    let live = shown(&path);
    let profile = &live["profiles"][0];
    assert_eq!((&profile["side"], &profile["uneven"]), (&"target".into(), &0.into()));
    assert_eq!(profile["counts"]["recorded"], 600);
    let ios = |name: &str| group(&live, name)["ios"].as_u64().expect("a number");
    assert_eq!(ios("read 4KiB") + ios("read 64KiB"), count("read"));
    assert_eq!(ios("write 4KiB") + ios("write 64KiB"), count("write"));
    // 4 KiB come in the capsule, 64 KiB are asked for.
    assert_eq!(stage(group(&live, "write 4KiB"), "data_request"), 0.0);
    assert!(stage(group(&live, "write 64KiB"), "data_request") > 0.0);
    assert!(stage(group(&live, "read 64KiB"), "firmware") > 0.0);
    for group in profile["groups"].as_array().unwrap() {
        let stages = group["stages"].as_array().unwrap();
        let sum: f64 = stages.iter().map(|stage| stage["mean_ns"].as_f64().unwrap()).sum();
        let mean = group["lat_ns"]["mean"].as_f64().unwrap();
        assert!((sum - mean).abs() < mean * 1e-9, "{sum} {mean}");
    }
    // And after it was killed.
    target.child.kill().unwrap();
    target.child.wait().unwrap();
    assert_eq!(shown(&path), live);

    // Another run writes it anew; without a model the subsystem is one stage.
    let target = serve(&path, "max");
    let address = format!("tcp://{}", target.address());
    let bench = run_bench(&address, &["--rw", "randread", "--number_ios", "100"]);
    assert_eq!(result(&bench, 0)["flows"][0]["read"]["ios"], 100);
    assert_eq!(target.stop().0, 0);
    let again = shown(&path);
    let reads = group(&again, "read 4KiB");
    assert_eq!(reads["ios"], 100);
    assert!(stage(reads, "processing") > 0.0 && stage(reads, "firmware") == 0.0);
}

/// Of a PCIe function, with a model and without: both sides have the same I/Os.
#[test]
fn every_io_of_a_function_has_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (drive, host, path) = (place("drive"), place("host.profile"), place("drive.profile"));
    for (speed, present, absent) in [
        ("1", ["firmware", "completion", "completion_post"], "data_transfer"),
        ("max", ["entry_fetch", "data_transfer", "completion_post"], "firmware"),
    ] {
        let own = ["--quiet", "--functional", "--precondition=none", "--vfio-user", &drive];
        let set = ["--set", "geometry.blocks_per_plane=48", "--set", "over_provisioning=20%"];
        let profile = ["--speed", speed, "--profile", &path];
        let target = Served::start(&mut mynah(&[&["serve"], &own[..], &set, &profile].concat()));
        let mine = format!("--profile={host}");
        let load = ["--rw", "randrw", "--bs", "4k", "--iodepth", "8", "--size", "8m"];
        let load = [&load[..], &["--number_ios", "500", &mine, "--profile-sample", "1"]].concat();
        let bench = run_bench(&format!("vfio-user:{drive}"), &load);
        assert!(bench.status.success(), "{}", text(&bench.stderr));
        let shown = shown(Path::new(&path));
        assert_eq!(shown["profiles"][0]["counts"]["recorded"], 500);
        let reads = group(&shown, "read 4KiB");
        for name in present {
            assert!(stage(reads, name) > 0.0, "{name} at {speed}");
        }
        assert_eq!(stage(reads, absent), 0.0);
        let both = ["profile", "show", &host, "--target", &path, "--json", "-"];
        let output = mynah(&both).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let both: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let joined = &both["profiles"][0]["path"];
        assert_eq!((&joined["paths"], &joined["one_clock"]), (&500.into(), &true.into()));
        assert_eq!(joined["clock_offset_ns"], 0.0);
        assert_eq!(target.stop().0, 0);
    }
}

#[test]
fn other_files_are_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a text");
    std::fs::write(&path, "precious").unwrap();
    let path = path.to_str().unwrap();
    let said = "the file is there and is no profile; name another";
    let mut serve = mynah(&["serve", "--quiet", "--tcp", "127.0.0.1:0", "--profile", path]);
    let output = serve.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "precious");
}

#[test]
fn a_drive_is_watched_while_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.profile");
    let target = serve(&path, "1");
    let address = format!("tcp://{}", target.address());
    let load =
        ["--rw", "randrw", "--bs", "4k", "--iodepth", "4", "--size", "8m", "--runtime", "20s"];
    let mut bench = start_bench(&address, &load);
    let watch = |words: &[&str]| {
        let mut command = mynah(&["profile", "watch", "--interval", "200ms"]);
        command.args(words).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it runs")
    };
    // Until there is something to see: the load has to begin first.
    let of_groups = ["--group-by", "type", "--base", path.to_str().unwrap(), "--count", "3"];
    let seen = (0..20).find_map(|_| {
        let output = watch(&of_groups).wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let is_seen = |kind: &str| said.contains(&format!("s: {kind}: IOPS="));
        (is_seen("read") && is_seen("write")).then_some(said)
    });
    let seen = seen.expect("reads and writes");
    assert!(seen.contains("outstanding=") && seen.contains("firmware="), "{seen}");
    // It ends when its writer does.
    let mut until_the_end = watch(&[]);
    let mut first = [0];
    until_the_end.stdout.as_mut().unwrap().read_exact(&mut first).expect("a line");
    bench.kill().unwrap();
    bench.wait().unwrap();
    target.stop();
    let output = until_the_end.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.starts_with("nobody writes ") && said.ends_with(" any more\n"), "{said}");
}
