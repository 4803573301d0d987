//! When flows issue requests: arrivals, bursts, pauses, beginnings; and mixed streams.

use crate::small;
use mynah_lab::replay::replay;
use mynah_lab::simulation::Simulation;
use mynah_result::Result as RunResult;
use mynah_stamp::{Span, Time};
use mynah_workload::{FlowOptions, Planned, Schedule};

/// When the requests of a flow were created, in nanoseconds.
fn created(options: &str) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let mut simulation = small::simulation()
        .precondition(mynah_lab::experiment::Precondition::Fill)
        .flow("flow", options)
        .unwrap();
    simulation.request_log = Some(path.clone());
    simulation.run().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let mut times: Vec<f64> =
        text.lines().skip(1).map(|line| line.split(',').nth(7).unwrap().parse().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn stream(options: &str, count: usize) -> Vec<Planned> {
    let mut flow = FlowOptions::default();
    for word in options.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap();
        assert!(flow.set(name, value));
    }
    let mut generator = flow.flow("flow").unwrap().generator(1 << 20, 1, 0, 0).unwrap();
    std::iter::from_fn(|| generator.next()).take(count).collect()
}

#[test]
fn bursts_leave_silences_in_both_loops() {
    for options in [
        "rw=randread iodepth=4 burst=1ms/3ms startdelay=500us runtime=9ms",
        "rw=randread rate_iops=50000 burst=1ms/3ms startdelay=500us runtime=9ms",
    ] {
        let times = created(options);
        let into = |ns: f64| (ns - 500_000.0).rem_euclid(4_000_000.0);
        assert!(times.iter().all(|ns| (500_000.0..9_500_000.0).contains(ns)), "{options}");
        assert!(times.iter().all(|&ns| into(ns) <= 1_000_000.0), "{options}");
        // Three turns begin in 9 ms, each at its first moment.
        for turn in 0..3 {
            let begins = 500_000.0 + 4_000_000.0 * f64::from(turn);
            assert!(times.iter().any(|&ns| (ns - begins).abs() < 1.0), "{options}: {turn}");
        }
    }
    // An open loop's clock stands still in silence: 50 a millisecond that is on.
    let open = created("rw=randread rate_iops=50000 burst=1ms/3ms runtime=8ms");
    assert_eq!(open.len(), 100);
}

#[test]
fn pauses_come_after_so_many_requests() {
    let times = created("rw=randread iodepth=2 thinktime=2ms thinktime_blocks=5 number_ios=20");
    assert_eq!(times.len(), 20);
    for pause in 1..4 {
        let (last, next) = (times[pause * 5 - 1], times[pause * 5]);
        assert!((next - last - 2_000_000.0).abs() < 1.0, "{pause}: {last} {next}");
    }
}

#[test]
fn poisson_arrivals_have_exponential_intervals() {
    let planned =
        stream("rw=randread rate_iops=10000 rate_process=poisson number_ios=50000", 50_000);
    let times: Vec<f64> = planned.iter().map(|p| p.arrival.unwrap().as_ns_f64()).collect();
    let intervals: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
    assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
    // Of exponential intervals, exp(-1) are longer than the mean.
    let longer = intervals.iter().filter(|&&ns| ns > mean).count() as f64 / intervals.len() as f64;
    assert!((longer - libm::exp(-1.0)).abs() < 0.01, "{longer}");
}

#[test]
fn mixed_streams_are_random_in_the_wanted_share() {
    // Requests that go on where the last sequential one ended.
    let sequential = |planned: &[Planned]| {
        let mut next = 0;
        let follows = |p: &&Planned| {
            let follows = p.sector == next;
            next = if follows { p.sector + u64::from(p.sectors) } else { next };
            follows
        };
        planned.iter().filter(follows).count()
    };
    let chance = stream("rw=randread bs=8k percentage_random=30 number_ios=20000", 20_000);
    let share = sequential(&chance) as f64 / 20_000.0;
    assert!((share - 0.7).abs() < 0.01, "{share}");
    let turns =
        stream("rw=randread bs=8k percentage_random=25 random_turn=100 number_ios=1000", 1000);
    for turn in turns.chunks(100) {
        let follows = turn[25..].windows(2).all(|pair| pair[0].sector + 16 == pair[1].sector);
        assert!(follows, "the last 75 of a turn are in sequence");
        assert!(turn[..25].windows(2).filter(|p| p[0].sector + 16 == p[1].sector).count() < 2);
    }
    let all = stream("rw=randread percentage_random=0 number_ios=100", 100);
    assert_eq!(sequential(&all), 100);
}

#[test]
fn schedules_say_when_a_flow_is_active() {
    let ms = |n: u64| Time::from_ns(n * 1_000_000);
    let burst = mynah_workload::Burst { on: Span::from_ms(2), off: Span::from_ms(3) };
    let schedule = Schedule { start: Span::from_ms(10), burst: Some(burst), think: None };
    for (active, moment) in [(0, 10), (1, 11), (2, 15), (3, 16), (4, 20)] {
        assert_eq!(schedule.moment(ms(active)), ms(moment));
    }
    for (now, next) in [(0, 10), (11, 11), (12, 15), (14, 15), (16, 16), (17, 20)] {
        assert_eq!(schedule.next_active(ms(now)), ms(next));
    }
}

#[test]
fn options_without_effect_are_refused() {
    for (options, said) in [
        ("rw=read thinktime_blocks=4", "without thinktime"),
        ("rw=read rate_iops=5 thinktime=1ms", "arrive at their times"),
        ("rw=read rate_process=poisson", "without rate_iops"),
        ("rw=read percentage_random=10", "addresses are sequential"),
        ("rw=randread random_turn=10", "without percentage_random"),
        ("rw=randread percentage_random=5 random_distribution=random", "go anywhere"),
        ("trace=x burst=1ms/1ms", "the trace says when"),
        ("trace=x iodepth=4", "trace_no_stall"),
        ("trace=x trace_no_stall=1 trace_speed=50", "times do not count"),
        ("trace=x trace_action=Q", "only blkparse"),
        ("trace=x trace_format=fio trace_time_unit=ms", "the format says"),
        ("rw=read burst=0/1ms", "never on"),
    ] {
        let mut flow = FlowOptions::default();
        for word in options.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            assert!(flow.set(name, value));
        }
        let error = flow.flow("flow").unwrap_err().to_string();
        assert!(error.contains(said), "{options}: {error}");
    }
}

#[test]
fn a_rate_is_kept_to_within_the_depth() {
    let run = |options: &str| {
        let simulation =
            small::simulation().precondition(mynah_lab::experiment::Precondition::Fill);
        let measured = simulation.flow("flow", options).unwrap().run().unwrap();
        measured.result.flows[0].read.clone()
    };
    // Slow enough for the depth not to matter, the two are one.
    let free = run("rw=randread rate_iops=5000 number_ios=2000");
    assert_eq!(run("rw=randread rate_iops=5000 iodepth=8 number_ios=2000"), free);
    // Too fast, requests are issued as in a closed loop, and wait in the host before that.
    let closed = run("rw=randread iodepth=4 number_ios=4000");
    let bound = run("rw=randread rate_iops=10000000 iodepth=4 number_ios=4000");
    assert!((bound.iops / closed.iops - 1.0).abs() < 0.02, "{} {}", bound.iops, closed.iops);
    let mean = |lat: &Option<mynah_result::Latency>| lat.as_ref().unwrap().mean;
    assert!((mean(&bound.lat_ns) / mean(&closed.lat_ns) - 1.0).abs() < 0.02);
    assert!(mean(&bound.e2e_ns) > 100.0 * mean(&closed.e2e_ns));
    // After a time in which the drive fell behind, it catches up with the rate.
    let late = run("rw=randread rate_interval=20us iodepth=4 number_ios=4000");
    assert!((late.iops / 50_000.0 - 1.0).abs() < 0.02, "{}", late.iops);
    // What waits was created when it arrived, not when it was issued.
    for options in ["rate_iops=10000000 iodepth=4", "rate_iops=10000000"] {
        let times = created(&format!("rw=randread {options} number_ios=4000"));
        let late = |(at, ns): (usize, &f64)| (ns - 100.0 * at as f64).abs() > 0.01;
        assert!(!times.iter().enumerate().any(late), "{options}: {:?}", &times[..9]);
    }
}

/// What a flow on a small drive without history measures.
fn measured(options: &str, fault: &str, change: impl Fn(&mut Simulation)) -> RunResult {
    let mut simulation = small::simulation()
        .precondition(mynah_lab::experiment::Precondition::None)
        .flow("flow", options)
        .unwrap();
    if !fault.is_empty() {
        simulation = simulation.fault(fault).unwrap();
    }
    change(&mut simulation);
    simulation.run().unwrap().result
}

#[test]
fn rates_are_over_the_time_in_which_load_was_offered() {
    let cut = "power-cut:at=8ms";
    for (options, fault, ends_ns) in [
        // Ten requests in a second are ten a second, though the last comes at 0.9 s.
        ("rw=randread rate_iops=10 runtime=1s", "", 1e9),
        // Silences count, also the last.
        ("rw=randread iodepth=2 burst=1ms/4ms runtime=10ms", "", 10e6),
        ("rw=randread rate_iops=50000 burst=1ms/4ms runtime=10ms", "", 10e6),
        ("rw=randread iodepth=1 thinktime=6ms runtime=10ms", "", 10e6),
        // A drive that has gone answers nothing more.
        ("rw=randread rate_iops=500 runtime=1s", cut, 8e6),
        ("rw=randread iodepth=4 number_ios=1000000", cut, 8e6),
        ("rw=randread iodepth=2 burst=1ms/4ms runtime=1s", cut, 8e6),
    ] {
        let result = measured(options, fault, |_| ());
        let read = &result.flows[0].read;
        assert!(read.ios > 0, "{options}");
        assert_eq!(result.simulated_ns, ends_ns, "{options} {fault}");
        let expected = read.ios as f64 / ends_ns * 1e9;
        assert!((read.iops / expected - 1.0).abs() < 1e-12, "{options} {fault}: {}", read.iops);
        let bandwidth = read.bytes as f64 / ends_ns * 1e9;
        assert!((read.bw_bytes_per_s / bandwidth - 1.0).abs() < 1e-12, "{options} {fault}");
    }
    // A number of requests ends with the last, whatever the runtime.
    let result = measured("rw=randread number_ios=10 runtime=1s", "", |_| ());
    assert!(result.simulated_ns < 10e6, "{}", result.simulated_ns);
}

#[test]
fn measurements_begin_with_the_end_of_the_ramp_and_rounds_are_whole() {
    let slow = "rw=randread rate_iops=100 runtime=100ms";
    let ramp = |simulation: &mut Simulation| {
        simulation.options.ramp_time = Span::from_ms(45);
    };
    // From 45 ms to 145 ms: ten requests, the first at 50 ms.
    let result = measured(slow, "", ramp);
    assert_eq!((result.simulated_ns, result.flows[0].read.ios), (100e6, 10));
    assert_eq!(result.flows[0].read.iops, 100.0);
    let rounds = |simulation: &mut Simulation| {
        simulation.options.until_steady = Some(Span::from_ms(20));
    };
    let result = measured("rw=randread rate_iops=100 startdelay=5ms runtime=1s", "", rounds);
    assert!(result.steady.as_ref().is_some_and(|steady| steady.reached), "{:?}", result.steady);
    // Two in each of five rounds. The first round begins before the flow does.
    assert_eq!((result.simulated_ns, result.flows[0].read.ios), (100e6, 10));
    assert!((result.flows[0].read.iops - 10.0 / 0.095).abs() < 1e-9, "{:?}", result.flows[0].read);
}

#[test]
fn a_recording_says_how_long_load_was_offered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rec");
    for (options, fault) in [
        ("rw=randread rate_iops=100 runtime=100ms", ""),
        ("rw=randread iodepth=2 burst=1ms/4ms runtime=10ms", ""),
        ("rw=randread rate_iops=500 runtime=1s", "power-cut:at=8ms"),
    ] {
        let result = measured(options, fault, |simulation| {
            simulation.options.ramp_time = Span::from_ms(3);
            simulation.record = Some(path.clone());
        });
        let again = replay(&path, None, &[], &[], None, None, &mut |_| true).unwrap().result;
        assert_eq!(again.simulated_ns, result.simulated_ns, "{options} {fault}");
        assert_eq!(again.flows, result.flows, "{options} {fault}");
        assert_eq!(again.device, result.device, "{options} {fault}");
    }
}
