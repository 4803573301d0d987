//! A served drive that completes nothing for a while: what the command says of it.

use crate::serving::support::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const WATCHDOG: Duration = Duration::from_secs(120);

/// One die that takes 50 ms for a page: collecting a block takes many seconds, in which writes
/// wait.
const SLOW: [&str; 10] = [
    "geometry.channels=1",
    "geometry.chips_per_channel=1",
    "geometry.dies_per_chip=1",
    "geometry.planes_per_die=1",
    "geometry.blocks_per_plane=64",
    "geometry.pages_per_block=96",
    "over_provisioning=20%",
    "gc.paced=false",
    "flash.program=50ms",
    "cache.size=64KiB",
];

/// A figure of the drive as it is now.
fn figure(served: &Served, name: &str) -> f64 {
    let mut metrics = TcpStream::connect(str_of(&served.ready["metrics"])).unwrap();
    metrics.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut page = String::new();
    metrics.read_to_string(&mut page).unwrap();
    let prefix = format!("{name}{{drive=\"enterprise-tlc\"}} ");
    let value = page.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
}

#[test]
fn a_drive_that_has_stopped_says_so_everywhere() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join("r.json");
    let file = file.to_str().unwrap();
    let mut args = vec!["serve", "--functional", "--tcp", "127.0.0.1:0", "--speed", "20"];
    args.extend(["--metrics", "127.0.0.1:0", "--status-interval", "100ms", "--json", file]);
    args.extend(SLOW.iter().flat_map(|set| ["--set", set]));
    let served = Served::start(&mut mynah(&args));
    assert_eq!(
        (figure(&served, "mynah_stalls_total"), figure(&served, "mynah_stall_seconds")),
        (0.0, 0.0)
    );
    let target = format!("tcp://{}", served.address());
    let load = ["--rw", "randwrite", "--bs", "4k", "--iodepth", "32", "--runtime", "600"];
    let mut load = start_bench(&target, &load);
    let begin = Instant::now();
    let mut seen = false;
    // The second comes after the first has ended.
    while !seen || figure(&served, "mynah_stalls_total") < 2.0 {
        seen |= figure(&served, "mynah_stall_seconds") > 1.0;
        assert!(begin.elapsed() < WATCHDOG, "the drive goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = load.kill();
    let _ = load.wait();
    let (code, said, errors) = served.stop();
    assert_eq!(code, 0, "{said}{errors}");
    let errors = text(errors.as_bytes());
    let stopped = "warning: enterprise-tlc: the drive has stopped: 32 commands wait, and none has";
    assert!(errors.contains(stopped), "{errors}");
    assert!(errors.contains("more over-provisioning"), "{errors}");
    let again = "enterprise-tlc: the drive completes commands again: it had stopped for ";
    assert!(errors.contains(again), "{errors}");
    let line = said.lines().find(|line| line.contains("  STOPPED for ")).expect("a line");
    assert!(line.contains("s: 32 commands wait") && !line.contains("write"), "{line}");
    let result: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut notes = result["notes"].as_array().unwrap().iter().map(str_of);
    assert!(notes.any(|note| note.starts_with("the drive stopped ")), "{}", result["notes"]);
}
