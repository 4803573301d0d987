//! A drive on a file that takes no writes for a while, goes away, or never was any good: it says
//! so, and its exit code does.

use crate::serving::support::*;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A watchdog: nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

const DRIVE: [&str; 8] = [
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "geometry.channels=2",
    "--set",
    "over_provisioning=20%",
    "--precondition",
    "none",
];

/// A quiet drive on the file `bytes` of a folder, of which only functions are asked.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn arguments(&self) -> Vec<String> {
        let store = format!("file:{}", self.path("bytes").display());
        let json = self.path("result.json").display().to_string();
        let rest = ["--functional", "--tcp", "127.0.0.1:0", "--store", &store, "--json", &json];
        [&["serve", "--quiet"], &DRIVE[..], &rest].concat().into_iter().map(str::to_owned).collect()
    }

    fn serve(&self) -> Served {
        let arguments = self.arguments();
        Served::start(&mut mynah(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// Ends it: its exit code, what it said, and the failures that its result tells of.
    fn stop(&self, served: Served) -> (i32, String, Vec<String>) {
        let (code, _, errors) = served.stop();
        let result = std::fs::read(self.path("result.json")).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        let failures = result["failures"].as_array().cloned().unwrap_or_default();
        (code, errors, failures.iter().map(|it| str_of(it).to_owned()).collect())
    }
}

/// Has no file of the process become longer than this, or any.
fn limit(served: &Served, bytes: Option<u64>) {
    let new = Rlimit { current: bytes, maximum: None };
    prlimit(Some(Pid::from_child(&served.child)), Resource::Fsize, new).unwrap();
}

/// Writes 4 MiB at this offset, and flushes; how many commands failed.
fn write(served: &Served, offset: &str) -> u64 {
    let target = format!("tcp://{}/{}", served.address(), str_of(&served.ready["nqn"]));
    let load = ["--rw", "write", "--bs", "64k", "--number_ios", "64", "--fsync", "32"];
    let output = run_bench(&target, &[&load[..], &["--size", "4m", "--offset", offset]].concat());
    let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
    result["host"]["failed"].as_u64().expect("a count")
}

#[track_caller]
fn says(text: &str, what: &str, times: usize) {
    assert_eq!(text.matches(what).count(), times, "{what}: {text}");
}

#[test]
fn a_full_disk_is_told_and_got_over() {
    let place = Place::new();
    let served = place.serve();
    assert_eq!(write(&served, "0"), 0);
    // As a full disk, but that it needs no disk.
    limit(&served, Some(1 << 20));
    assert!(write(&served, "16m") > 0);
    assert!(write(&served, "16m") > 0);
    limit(&served, None);
    let began = Instant::now();
    while write(&served, "16m") > 0 {
        assert!(began.elapsed() < PATIENCE, "it takes no writes any more");
    }
    let (code, errors, failures) = place.stop(served);
    assert_eq!(code, 1, "{errors}");
    says(&errors, "there is no room for what was written", 1);
    says(&errors, "ulimit -f", 1);
    says(&errors, "there is room again", 1);
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("there is no room"), "{failures:?}");
    // Nothing is lost, the drive's own state included.
    let served = place.serve();
    let (code, errors, failures) = place.stop(served);
    assert_eq!((code, errors.as_str(), failures.len()), (0, "", 0));
    assert!(place.path("bytes.state").is_file());
}

#[test]
fn what_finds_no_room_by_the_end_is_said_to_be_lost() {
    let place = Place::new();
    let served = place.serve();
    limit(&served, Some(1 << 20));
    assert!(write(&served, "16m") > 0);
    let (code, errors, failures) = place.stop(served);
    assert_eq!(code, 1, "{errors}");
    says(&errors, "there is no room for what was written", 1);
    says(&errors, "that hosts had written are lost", 1);
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(!place.path("bytes.state").exists());
}

#[test]
fn a_state_that_cannot_be_saved_is_said() {
    let place = Place::new();
    // Its name is taken.
    std::fs::create_dir_all(place.path("bytes.state/full")).unwrap();
    let served = place.serve();
    assert_eq!(write(&served, "0"), 0);
    let (code, errors, failures) = place.stop(served);
    assert_eq!(code, 1, "{errors}");
    says(&errors, "error: ", 1);
    says(&errors, "the drive's own state was not saved", 1);
    assert_eq!(failures.len(), 1, "{failures:?}");
}

#[test]
fn a_deleted_file_is_told_though_no_host_asks() {
    let place = Place::new();
    let mut served = place.serve();
    assert_eq!(write(&served, "0"), 0);
    std::fs::remove_file(place.path("bytes")).unwrap();
    let said = first_error(&mut served);
    assert!(said.contains("the file was deleted"), "{said}");
    assert!(write(&served, "0") > 0);
    let (code, errors, failures) = place.stop(served);
    assert_eq!(code, 1, "{errors}");
    assert!(failures[0].contains("the file was deleted"), "{failures:?}");
}

/// Waits for a line of standard error.
fn first_error(served: &mut Served) -> String {
    use std::io::Read;
    let (mut said, mut byte) = (Vec::new(), [0]);
    let errors = served.child.stderr.as_mut().expect("its output");
    while errors.read(&mut byte).expect("a byte") == 1 && byte != *b"\n" {
        said.push(byte[0]);
    }
    String::from_utf8(said).expect("text")
}

/// Starts it under a limit of the shell's; its exit code and what it said, without a `ready`.
fn refused(place: &Place, ulimit: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "sh"]);
    let output =
        shell.arg(env!("CARGO_BIN_EXE_mynah")).args(place.arguments()).args(more).output().unwrap();
    assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
    (output.status.code(), text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn limits_of_the_process_end_it_with_a_message() {
    let place = Place::new();
    let (code, errors) = refused(&place, "-f 100", &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("no room for what is to be noted in it: File too large"), "{errors}");
    assert!(!place.path("bytes").exists(), "nobody asked for a file that is refused");
    assert!(errors.contains("ulimit -f"), "{errors}");
    // Tables of a large drive.
    let whole = ["--set", "geometry.blocks_per_plane=4000", "--set", "geometry.channels=16"];
    let (code, errors) = refused(&place, "-v 400000", &whole);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("out of memory"), "{errors}");
    assert!(errors.contains("400000 KiB in all (ulimit -v)"), "{errors}");
}

#[test]
fn a_store_in_which_nothing_can_be_noted_is_never_ready() {
    let place = Place::new();
    let full = Path::new("/dev/full");
    if full.exists() {
        std::os::unix::fs::symlink(full, place.path("bytes")).unwrap();
        let (code, errors) = refused(&place, "-c 0", &[]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("it is a device, and a store is a file"), "{errors}");
        std::fs::remove_file(place.path("bytes")).unwrap();
    }
    // It was long enough before: now not even its header can be written.
    place.stop(place.serve());
    let (code, errors) = refused(&place, "-f 100", &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("no room for what is to be noted in it: File too large"), "{errors}");
    // That changed nothing.
    let (code, errors, _) = place.stop(place.serve());
    assert_eq!((code, errors.as_str()), (0, ""));
    let result = std::fs::read_to_string(place.path("result.json")).unwrap();
    assert!(result.contains("the bytes are as they were left"), "{result}");
}

#[test]
fn where_functions_are_tested_being_late_is_no_failure() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let json = file.path().display().to_string();
    let run = |more: &[&str]| {
        let rest = ["--tcp", "127.0.0.1:0", "--late-bound", "1ns", "--json", &json];
        let served = Served::start(&mut mynah(&[&["serve"], &DRIVE[..], &rest, more].concat()));
        assert_eq!(write(&served, "0"), 0);
        let (code, said, errors) = served.stop();
        let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert!(str_of(&result["untrusted"]).contains("the bound is 1ns"));
        (code, said, errors, result["functional"].as_bool())
    };
    let (code, _, errors, asked) = run(&["--quiet"]);
    assert_eq!((code, asked), (1, None));
    says(&errors, "not trustworthy: real time was missed", 1);
    says(&errors, "--functional says that times do not matter", 1);
    let (code, said, errors, asked) = run(&["--functional"]);
    assert_eq!((code, asked), (0, Some(true)));
    says(&said, "NOT TRUSTWORTHY: real time was missed", 1);
    says(&errors, "with --functional that is no failure", 1);
    let (code, _, errors, _) = run(&["--functional", "--quiet"]);
    assert_eq!((code, errors.as_str()), (0, ""));
}
