//! Instructions for each request, counted by valgrind: a guard for the hot path that does not
//! depend on the machine's mood.
//!
//! `cargo bench -p mynah-lab --bench instructions` runs each workload twice, with few and
//! with many requests, and divides the difference, so that start and preconditioning cancel.
//! It fails if a workload needs more than its limit. Without valgrind it says so and passes.
//! With `--mqsim CONFIG WORKLOAD` this program runs MQSim's files, to be looked at under callgrind.

mod workloads;

use std::process::Command;
use workloads::{WORKLOADS, run};

/// Blocks a plane: 80 GiB, since setting up counts too.
const BLOCKS: u32 = 320;

/// Requests of the two runs of a workload, and what each may cost: some 3 % above what was last
/// measured under `dist`. Lower it after an improvement. Writes are counted when the data cache,
/// which starts full, and its way to the flash have come to rest.
const LIMITS: [(&str, u64, u64, f64); 8] = [
    ("random-reads", 20_000, 60_000, 3_900.0),
    ("cmt-misses", 20_000, 60_000, 6_250.0),
    ("steady-writes", 150_000, 200_000, 9_200.0),
    ("one-handle", 400_000, 800_000, 11_950.0),
    ("four-handles", 400_000, 800_000, 13_220.0),
    ("two-sequential", 20_000, 60_000, 4_000.0),
    ("ethernet-bypass", 20_000, 60_000, 7_140.0),
    ("ethernet-layers", 20_000, 60_000, 10_210.0),
];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, name, requests] = &arguments[..]
        && flag == "--one"
    {
        let workload = WORKLOADS.iter().find(|w| w.name == name).expect("a workload's name");
        run(workload, BLOCKS, requests.parse().unwrap(), || 0.0);
        return;
    }
    if arguments.len() == 3 && arguments[0] == "--mqsim" {
        workloads::run_mqsim(&arguments[1], &arguments[2], false, || 0.0);
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("no valgrind here: instructions are not counted");
        return;
    }
    let mut exceeded = false;
    println!("{:<17} {:>12} {:>8}  instructions for each request", "workload", "measured", "limit");
    for (name, few, many, limit) in LIMITS {
        let flows = WORKLOADS.iter().find(|w| w.name == name).unwrap().flows.len() as u64;
        let difference = instructions(name, many) - instructions(name, few);
        let each = difference as f64 / ((many - few) * flows) as f64;
        println!("{name:<17} {each:>12.1} {limit:>8}");
        exceeded |= each > limit;
    }
    if exceeded {
        eprintln!("the hot path has become longer");
        std::process::exit(1);
    }
}

fn instructions(name: &str, requests: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--one", name, &requests.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.contains("I refs:") || line.contains("I   refs:"));
    let number = line.and_then(|line| line.split(':').nth(1)).unwrap_or_else(|| panic!("{text}"));
    number.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}
