//! Sequential writes on a shipped drive, from the start that a run gets without being asked for
//! one: as fast as the dies program, from the first moment on.

use mynah_drive_file as drive;
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_stamp::Span;
use mynah_workload::FlowOptions;

struct Interval {
    megabytes_per_s: f64,
    waf: f64,
    notes: Vec<String>,
}

/// 200 ms of 128 KiB writes at QD 32 after `ramp`.
fn interval(drive: &str, ramp: Span) -> Interval {
    let config = drive::load(drive, &[]).unwrap_or_else(|error| panic!("{error:?}")).config;
    let mut options = FlowOptions::default();
    for (name, value) in [("rw", "write"), ("bs", "128k"), ("iodepth", "32"), ("runtime", "200ms")]
    {
        assert!(options.set(name, value), "{name}");
    }
    let flow = options.flow("flow").unwrap();
    let options = RunOptions { ramp_time: ramp, ..RunOptions::default() };
    let outcome = Runner::new(config, &[flow], &options).unwrap().run(|_| true).unwrap();
    let Outcome { recorder, counters, counters_before, preconditioned, notes, .. } = outcome;
    assert_eq!(preconditioned.unwrap().expected_waf, Some(1.0));
    let seconds = recorder.interval().as_secs_f64();
    let moved = counters.gc_units_moved - counters_before.gc_units_moved;
    let written = counters.host_units_written - counters_before.host_units_written;
    Interval {
        megabytes_per_s: recorder.completions() as f64 * 131_072.0 / seconds / 1e6,
        waf: 1.0 + moved as f64 / written as f64,
        notes,
    }
}

#[test]
fn a_sequential_flow_writes_as_fast_as_dies_program() {
    let first = interval("samsung-pm9a3", Span::ZERO);
    let later = interval("samsung-pm9a3", Span::from_ms(1000));
    for (name, found) in [("first", &first), ("later", &later)] {
        let Interval { megabytes_per_s, waf, .. } = *found;
        assert!(megabytes_per_s > 3000.0, "{name}: {megabytes_per_s} MB/s");
        assert!((waf - 1.0).abs() < 0.01, "{name}: WAF {waf}");
        assert!(found.notes.is_empty(), "{name}: {:?}", found.notes);
    }
    // The first moments fill what is free of the cache.
    let ratio = first.megabytes_per_s / later.megabytes_per_s;
    assert!((0.9..1.15).contains(&ratio), "{ratio}");
}
