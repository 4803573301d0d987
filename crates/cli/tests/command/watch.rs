//! `mynah sim --watch`: what a run does while it goes on, and that it does the same unwatched.

use crate::serving::support::mynah;
use serde_json::Value;
use std::process::Command;

const LOAD: &str = "sim --set geometry.pages_per_block=96 --set geometry.blocks_per_plane=48 --set \
                    over_provisioning=20% --rw randrw --iodepth 8 --number_ios 100000 --json -";

/// The result, and what was said beside it.
fn run(more: &str) -> (Value, String) {
    let words = format!("{LOAD} {more}");
    let output = mynah(&words.split_whitespace().collect::<Vec<_>>()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let mut result: Value = serde_json::from_slice(&output.stdout).unwrap();
    result.as_object_mut().unwrap().remove("run").unwrap();
    (result, said)
}

#[test]
fn a_watched_run_gives_the_same_result() {
    let (without, said) = run("");
    assert!(!said.contains(" IOPS"), "{said}");
    let (result, said) = run("--watch");
    assert_eq!(result, without);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(" %, at ")).collect();
    assert!((2..=20).contains(&lines.len()), "{said}");
    // A small drive's cache fills, and all wait for it: for some intervals there is nothing.
    let some: Vec<_> = lines.iter().filter(|line| !line.contains(": no I/O")).collect();
    assert!(some.len() >= 2, "{said}");
    for wanted in [" IOPS, ", "/s, p50 ", ", p99 ", ", WAF ", " blocks free"] {
        assert!(some.iter().all(|line| line.contains(wanted)), "{wanted}: {said}");
    }
}

/// On a terminal, which `script` makes, the lines are below the bar.
#[test]
fn a_terminal_has_small_bars() {
    let program = env!("CARGO_BIN_EXE_mynah");
    let command = format!("{program} {} --watch --runtime 20s", LOAD.replace("--json -", ""));
    let command = command.replace("--number_ios 100000", "");
    let output = Command::new("script").args(["-qec", &command, "/dev/null"]).output();
    let shown =
        String::from_utf8_lossy(&output.expect("bsdutils has `script`").stdout).into_owned();
    for wanted in ["free blocks", "WAF", "p99 ", "█"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}

#[test]
fn only_one_run_is_watched() {
    for more in ["--repeat 2", "-q", "--no-run"] {
        let words = format!("sim --number_ios 100 --watch {more}");
        let output = mynah(&words.split_whitespace().collect::<Vec<_>>()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--watch"), "{more}");
    }
}
