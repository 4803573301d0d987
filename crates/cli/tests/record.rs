//! A served drive's recording, simulated again: every modelled time is the same.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

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

fn mynah(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
    command.args(args).current_dir(folder);
    command
}

fn done(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A serving process, ended when it is dropped.
struct Server {
    child: Child,
    target: String,
}

impl Server {
    fn start(folder: &Path, args: &[&str]) -> Server {
        let all = [&["serve", "--tcp", "127.0.0.1:0"], &DRIVE[..], args].concat();
        let mut child =
            mynah(folder, &all).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready = line.strip_prefix("ready ").unwrap_or_else(|| panic!("it said {line:?}"));
        let ready: Value = serde_json::from_str(ready).unwrap();
        let address = ready["addresses"][0].as_str().unwrap();
        let target = format!("tcp://{address}/{}", ready["nqn"].as_str().unwrap());
        Server { child, target }
    }

    /// Ends it in order; what it printed.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        // 1: on a busy machine the run may rightly be called not trustworthy.
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_served_is_simulated_to_the_picosecond() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::start(folder, &["--record", "run.rec", "--json", "served.json"]);
    let bench = |args: &[&str]| -> Value {
        let all = [&["bench", &server.target, "--json", "-"], args].concat();
        serde_json::from_str(&done(mynah(folder, &all).output().unwrap())).unwrap()
    };
    // Writes of 64 KiB do not fit a capsule: their data are asked for.
    let large = ["--rw", "randrw", "--bs", "64k", "--iodepth", "16", "--number_ios", "3000"];
    let small = ["--rw", "randrw", "--bs", "4k", "--iodepth", "32", "--number_ios", "20000"];
    let ios = |result: &Value| result["host"]["completed"].as_u64().unwrap();
    let completed = ios(&bench(&large)) + ios(&bench(&[&small[..], &["--numjobs", "2"]].concat()));
    server.end();

    let served = std::fs::read_to_string(folder.join("served.json")).unwrap();
    let served: Value = serde_json::from_str(&served).unwrap();
    let replayed = done(
        mynah(folder, &["sim", "--replay", "run.rec", "--json", "-", "--quiet"]).output().unwrap(),
    );
    let replayed: Value = serde_json::from_str(&replayed).unwrap();
    assert!(replayed["device"]["gc_runs"].as_u64().unwrap() > 0, "no garbage was collected");
    assert!(replayed["requests"].as_u64().unwrap() >= completed);
    for figure in ["gc_runs", "flash_programs", "flash_reads", "host_units_written", "waf"] {
        assert_eq!(replayed["device"][figure], served["device"][figure], "{figure}");
    }

    // A recording only fits its own drive.
    let args = ["sim", "--replay", "run.rec", "--set", "flash.erase=9ms"];
    assert_eq!(mynah(folder, &args).output().unwrap().status.code(), Some(2));
}
