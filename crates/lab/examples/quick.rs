use mynah_lab::experiment::Precondition;
use mynah_lab::runner::*;
use mynah_lab::workload::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let overrides: Vec<String> = args[2..].iter().filter(|a| a.contains('.')).cloned().collect();
    let drive = mynah_lab::drive::load(&args[1], &overrides).unwrap_or_else(|e| {
        for m in e.messages() {
            eprintln!("{m}");
        }
        panic!()
    });
    let mut options = FlowOptions::default();
    let mut pre = Precondition::None;
    for a in args[2..].iter().filter(|a| !a.contains('.')) {
        let (k, v) = a.split_once('=').unwrap();
        if k == "pre" {
            pre = v.parse().unwrap();
        } else {
            assert!(options.set(k, v), "{k}");
        }
    }
    let flow = options.flow("f").unwrap();
    let t = std::time::Instant::now();
    let runner = Runner::new(
        drive.config.clone(),
        &[flow],
        &RunOptions { precondition: pre, ..Default::default() },
    )
    .unwrap();
    let t1 = t.elapsed();
    let out = runner.run(|_| true).unwrap();
    let wall = t.elapsed() - t1;
    let n = out.recorder.completions();
    println!(
        "setup {:?} run {:?} n {} {:.0}/s  events/req {:.2} ns/event {:.1} sim {} mean {:?} IOPS {:.0} waf {:?} pre {:?}",
        t1,
        wall,
        n,
        n as f64 / wall.as_secs_f64(),
        out.counters.events as f64 / n as f64,
        wall.as_nanos() as f64 / out.counters.events as f64,
        out.end,
        out.recorder.mean_latency_ns(0),
        n as f64 / out.end.as_secs_f64(),
        out.counters.write_amplification(),
        out.preconditioned
    );
    println!(
        "progs {} reads {} gc {} erases {} mp {} pad {} maprd {} mappr {} hits {}/{}",
        out.counters.flash_programs,
        out.counters.flash_reads,
        out.counters.gc_units_moved,
        out.counters.erases,
        out.counters.multi_plane_operations,
        out.counters.padded_units,
        out.counters.mapping_reads,
        out.counters.mapping_programs,
        out.counters.cmt_hits,
        out.counters.cmt_lookups
    );
}
