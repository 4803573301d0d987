//! `mynah profile tcp://…`: profiles of targets that are running.

use crate::serving::support::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

const SMALL: [&str; 9] = [
    "serve",
    "--quiet",
    "--tcp",
    "127.0.0.1:0",
    "--functional",
    "--precondition=none",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set=over_provisioning=20%",
];

fn serve(args: &[&str]) -> Served {
    Served::start(&mut mynah(&[&SMALL[..], args].concat()))
}

/// Attached, and heard of.
struct Attached {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

fn attach(target: &Served, args: &[&str]) -> Attached {
    let address = format!("tcp://{}", target.address());
    let attach = ["profile", address.as_str(), "--interval", "100ms"];
    let mut command = mynah(&[&attach[..], args].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("IOPS=0.00, no records"), "{line}");
    Attached { child, stdout }
}

impl Attached {
    /// Ctrl-C: what it said at the end, and what it wrote.
    fn end(mut self, json: &Path) -> (String, Value) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let (mut said, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(self.child.wait().unwrap().success(), "{errors}");
        let report = std::fs::read(json).unwrap();
        (said + &errors, serde_json::from_slice(&report).unwrap())
    }
}

fn load(target: &Served, ios: &str) {
    let args = ["--rw", "randrw", "--iodepth", "4", "--size", "8m", "--number_ios", ios];
    let bench = run_bench(&format!("tcp://{}", target.address()), &args);
    assert!(bench.status.success(), "{}", text(&bench.stderr));
}

#[test]
fn every_io_of_a_running_target_is_collected() {
    let folder = tempfile::tempdir().unwrap();
    let (json, kept) = (folder.path().join("a.json"), folder.path().join("a.profile"));
    let target = serve(&[]);
    load(&target, "50");
    let files = ["--json", json.to_str().unwrap(), "--output", kept.to_str().unwrap()];
    let attached = attach(&target, &[&["--sample", "1"][..], &files].concat());
    load(&target, "400");
    let (said, report) = attached.end(&json);
    // Those that came before are not of it, and neither are its own queries.
    let counts = &report["profiles"][0]["counts"];
    assert_eq!((&counts["completed"], &counts["recorded"]), (&400.into(), &400.into()), "{said}");
    assert_eq!(report["profiles"][0]["uneven"], 0);
    let groups = report["profiles"][0]["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["ios"].as_u64().unwrap()).sum::<u64>(), 400);
    assert!(said.contains("read 4KiB: IOPS=") && said.contains("flash_array"), "{said}");
    // The file is a profile like any other.
    let shown = mynah(&["profile", "show", "--json", "-"]).arg(&kept).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown, report);
    // It goes on without them, and can be asked again: a sample, with others' choice undone.
    load(&target, "50");
    let attached = attach(&target, &["--filter", "write", "--json", json.to_str().unwrap()]);
    load(&target, "400");
    let (_, report) = attached.end(&json);
    let counts = &report["profiles"][0]["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!(count("completed"), 400);
    assert_eq!(count("recorded") + count("filtered") + count("sampled_out"), 400);
    assert!(count("filtered") > 100 && count("sampled_out") > 100, "{counts}");
    let choice = &report["profiles"][0]["choice"];
    assert_eq!(choice, "1 in 100 and all above the running p99.9 of io=write");
}

#[test]
fn hosts_are_told_of_their_own_ios_unless_all_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("a.json");
    let stranger = ["--host-nqn", "nqn.2026-11.io.github.mynah-ssd:stranger", "--sample", "1"];
    let stranger = [&stranger[..], &["--json", json.to_str().unwrap()]].concat();
    for (scope, expected) in [(&["--profile-scope", "own"][..], 0), (&[], 100)] {
        let target = serve(scope);
        let attached = attach(&target, &stranger);
        load(&target, "100");
        let (said, report) = attached.end(&json);
        assert_eq!(report["profiles"][0]["counts"]["completed"], expected, "{said}");
    }
}

#[test]
fn the_operator_decides_which_ios_are_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, json) = (folder.path().join("drive.profile"), folder.path().join("a.json"));
    let (file, report) = (path.to_str().unwrap(), json.to_str().unwrap());
    let chosen = ["--profile-filter", "read", "--profile-sample", "1/4"];
    let target = serve(&[&["--profile", file][..], &chosen].concat());
    let attached = attach(&target, &["--sample", "1", "--json", report]);
    load(&target, "400");
    let (said, _) = attached.end(&json);
    assert!(said.contains("note: the target records 1 in 4 of io=read, not what was"), "{said}");
    assert_eq!(target.stop().0, 0);
    let shown = mynah(&["profile", "show", "--json", "-", file]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let profile = &shown["profiles"][0];
    let count = |name: &str| profile["counts"][name].as_u64().unwrap();
    assert_eq!((count("completed"), profile["weight"].as_f64()), (400, Some(4.0)));
    assert!(count("filtered") > 100 && count("sampled_out") > 50 && count("recorded") > 10);
    assert_eq!(count("recorded") + count("filtered") + count("sampled_out"), 400);

    for (args, said) in [
        (&["--profile-sample", "1/4"][..], "--profile <FILE>"),
        (&["--profile", file, "--profile-sample", "4"], "--profile-sample: `4` is no sample"),
        (&["--profile", file, "--profile-filter", "size=4x"], "is no size or range of sizes"),
        (&["--profile", file, "--profile-keep-above", "p99.9"], "there are no others to be kept"),
    ] {
        let output = mynah(&[&SMALL[..], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
}

/// Lets bytes through, but for queries: those have an opcode that no target knows.
fn pass_on(mut from: TcpStream, mut to: TcpStream, spoils: bool) {
    const CAPSULE: u8 = 4;
    let mut head = [0; 8];
    while from.read_exact(&mut head).is_ok() {
        let bytes = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let mut rest = vec![0; bytes as usize - 8];
        if from.read_exact(&mut rest).is_err() {
            break;
        }
        if spoils && head[0] == CAPSULE && matches!(rest[0], 0xc1 | 0xc2) {
            rest[0] |= 0x1c;
        }
        if to.write_all(&[&head[..], &rest].concat()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn another_target_has_no_profile() {
    let target = serve(&[]);
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", proxy.local_addr().unwrap());
    let behind = target.address().to_owned();
    std::thread::spawn(move || {
        for host in proxy.incoming().flatten() {
            let there = TcpStream::connect(&behind).unwrap();
            let (host_too, there_too) = (host.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || pass_on(host, there, true));
            std::thread::spawn(move || pass_on(there_too, host_too, false));
        }
    });
    let output = mynah(&["profile", &address, "--runtime", "1s"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("does not answer queries of its profile (invalid opcode"), "{said}");
    assert!(said.contains("only `mynah serve` does; of another target"), "{said}");
}
