//! How fast the promised workloads run: requests per second of process CPU time.
//!
//! `cargo bench -p mynah-lab --bench speed [-- NAME…]` runs each in a process of its own, so
//! that the largest resident size is its own. `--mqsim CONFIG WORKLOAD [--as-mqsim]` runs
//! MQSim's files instead and prints one line of JSON, for `benches/against-mqsim`.

mod workloads;

use rustix::time::{ClockId, clock_gettime};
use std::process::Command;
use workloads::{Cost, WORKLOADS, run, run_mqsim};

/// Runs of each workload, of which the median counts.
const RUNS: usize = 5;

/// As in the command.
#[global_allocator]
static ALLOCATOR: mynah_memory::HugePages = mynah_memory::HugePages;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--one", name] => one(name),
        ["--mqsim", config, workload] => json(&run_mqsim(config, workload, false, cpu)),
        ["--mqsim", config, workload, "--as-mqsim"] => {
            json(&run_mqsim(config, workload, true, cpu))
        }
        ref names => all(names),
    }
}

/// CPU seconds this process has taken.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn all(names: &[&str]) {
    println!(
        "{:<17} {:>9} {:>12} {:>6} {:>9} {:>9}  ",
        "workload", "requests", "page ops", "WAF", "setup", "max RSS"
    );
    println!(
        "{:<17} {:>9} {:>12} {:>6} {:>9} {:>9}  (medians of {RUNS})",
        "", "/ CPU s", "/ CPU s", "", "CPU s", "MiB"
    );
    for workload in WORKLOADS.iter().filter(|w| names.is_empty() || names.contains(&w.name)) {
        let mut runs: Vec<Vec<f64>> = (0..RUNS)
            .map(|_| {
                let this = std::env::current_exe().unwrap();
                let output = Command::new(this).args(["--one", workload.name]).output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let text = String::from_utf8(output.stdout).unwrap();
                text.split_whitespace().map(|number| number.parse().unwrap()).collect()
            })
            .collect();
        let mut median = |column: usize| {
            runs.sort_by(|a, b| a[column].total_cmp(&b[column]));
            runs[RUNS / 2][column]
        };
        println!(
            "{:<17} {:>8.3}M {:>11.3}M {:>6.3} {:>9.3} {:>9.0}  {}",
            workload.name,
            median(0) / 1e6,
            median(1) / 1e6,
            median(2),
            median(3),
            median(4),
            workload.about
        );
    }
}

/// Prints requests and page operations per CPU second, WAF, setup seconds, MiB.
fn one(name: &str) {
    let workload = WORKLOADS.iter().find(|w| w.name == name).expect("a workload's name");
    let Cost { setup_s, run_s, outcome } = run(workload, 2048, workload.requests, cpu);
    let [requests, operations, waf] = outcome.map_or([0.0; 3], |outcome| {
        let counters = &outcome.counters;
        [
            outcome.recorder.completions() as f64 / run_s,
            (counters.flash_reads + counters.flash_programs + counters.erases) as f64 / run_s,
            counters.write_amplification().unwrap_or(0.0),
        ]
    });
    println!("{requests} {operations} {waf} {setup_s} {}", max_rss_mib());
}

fn json(cost: &Cost) {
    let outcome = cost.outcome.as_ref().expect("a run");
    println!(
        "{{\"requests\": {}, \"cpu_s\": {}, \"setup_cpu_s\": {}, \"max_rss_mib\": {}, \"waf\": {}}}",
        outcome.recorder.completions(),
        cost.run_s,
        cost.setup_s,
        max_rss_mib(),
        outcome.counters.write_amplification().unwrap_or(0.0)
    );
}

/// The largest resident size this process has had; 0 where the system does not tell.
fn max_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
