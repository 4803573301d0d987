//! Flows that begin when those before them have ended (fio's `wait_for_previous`).

use crate::small;
use mynah_lab::experiment::{Experiment, Precondition};
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_model::config::Config;
use mynah_result::kind::Kind;
use mynah_stamp::Span;
use mynah_workload::fio::FioJob;
use mynah_workload::{FlowOptions, FlowSpec};

fn config() -> Config {
    mynah_drive_file::load(small::DRIVE, &small::changes()).unwrap().config
}

fn flow(name: &str, options: &str) -> FlowSpec {
    let mut flow = FlowOptions::default();
    for word in options.split_whitespace() {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        assert!(flow.set(option, value), "{option}");
    }
    flow.flow(name).unwrap()
}

fn options() -> RunOptions {
    RunOptions { precondition: Precondition::Fill, ..RunOptions::default() }
}

fn run_with(flows: &[FlowSpec], options: &RunOptions) -> Outcome {
    Runner::new(config(), flows, options).unwrap().run(|_| true).unwrap()
}

fn run(flows: &[FlowSpec]) -> Outcome {
    run_with(flows, &options())
}

/// What is outstanding on average by watching is what Little's law says.
fn check(outcome: &Outcome) {
    let recorder = &outcome.recorder;
    assert_eq!(recorder.outstanding(), 0);
    assert_eq!(recorder.mean_outstanding(), recorder.littles_law_outstanding());
}

#[test]
fn a_stage_begins_when_the_last_of_the_one_before_has_ended() {
    for (reads, writes) in [
        ("rw=randread iodepth=8 runtime=5ms", "rw=randwrite iodepth=4 runtime=3ms"),
        ("rw=randread iodepth=8 number_ios=2000", "rw=randwrite rate_iops=50000 runtime=3ms"),
        ("rw=randread rate_iops=20000 runtime=5ms", "rw=randwrite iodepth=4 size=1m"),
        ("rw=randread iodepth=2 numjobs=3 runtime=5ms", "rw=write thinktime=50us runtime=3ms"),
    ] {
        let alone = run(&[flow("reads", reads)]);
        let first_ends = alone.recorder.interval();
        let flows = [flow("reads", reads), flow("writes", &format!("{writes} wait_for_previous"))];
        let both = run(&flows);
        check(&both);
        // What the first does is what it does alone: the second is not there yet.
        assert_eq!(
            both.recorder.side(0, Kind::Read),
            alone.recorder.side(0, Kind::Read),
            "{reads}"
        );
        let second = both.recorder.flow_interval(1);
        assert_eq!(both.recorder.interval(), first_ends + second, "{reads}, {writes}");
        // Its rate is over its own time.
        let side = both.recorder.side(1, Kind::Write);
        assert!((side.iops * second.as_secs_f64() - side.ios as f64).abs() < 1e-6);
        if writes.contains("runtime") {
            assert!(second >= Span::from_ms(3) - Span::from_us(60), "{second}");
            assert!(second < Span::from_ms(4), "{second}");
        }
    }
}

#[test]
fn flows_of_a_stage_run_together() {
    let flows = [
        flow("a", "rw=randread runtime=2ms"),
        flow("b", "rw=randread runtime=4ms"),
        flow("c", "rw=randread runtime=3ms wait_for_previous"),
        flow("d", "rw=randread runtime=1ms"),
        flow("e", "rw=randread runtime=2ms wait_for_previous"),
    ];
    let outcome = run(&flows);
    check(&outcome);
    let ms = outcome.recorder.interval().as_secs_f64() * 1000.0;
    assert!((9.0..9.5).contains(&ms), "4 + 3 + 2, and the last of each: {ms}");
    for (index, runtime) in [2.0, 4.0, 3.0, 1.0, 2.0].into_iter().enumerate() {
        let lasted = outcome.recorder.flow_interval(index).as_secs_f64() * 1000.0;
        assert!((runtime - 0.1..runtime + 0.2).contains(&lasted), "{index}: {lasted}");
    }
}

#[test]
fn a_later_startdelay_counts_from_the_start_of_the_run() {
    for (delay, begins) in [("1ms", 2.0), ("7ms", 7.0)] {
        for how in ["iodepth=2", "rate_iops=20000"] {
            let options = format!("rw=randread {how} runtime=2ms startdelay={delay}");
            let flows = [
                flow("first", "rw=randread runtime=2ms"),
                flow("second", &format!("{options} wait_for_previous")),
            ];
            let outcome = run(&flows);
            check(&outcome);
            let ms = outcome.recorder.interval().as_secs_f64() * 1000.0;
            assert!((begins + 1.9..begins + 2.3).contains(&ms), "{delay}, {how}: {ms}");
        }
    }
}

#[test]
fn each_stage_has_its_ramp() {
    let flows = [
        flow("first", "rw=randread iodepth=4 runtime=4ms"),
        flow("second", "rw=randread iodepth=4 runtime=2ms wait_for_previous"),
    ];
    let ramp = RunOptions { ramp_time: Span::from_ms(1), ..options() };
    let outcome = run_with(&flows, &ramp);
    check(&outcome);
    assert!(!outcome.in_ramp);
    let ms = |flow| outcome.recorder.flow_interval(flow).as_secs_f64() * 1000.0;
    assert!((3.9..4.2).contains(&ms(0)), "{}", ms(0));
    assert!((1.9..2.2).contains(&ms(1)), "{}", ms(1));
    // One alone waits for nobody.
    let alone = run_with(&flows, &RunOptions { only: Some(1), ..ramp.clone() });
    let ms = alone.recorder.interval().as_secs_f64() * 1000.0;
    assert!((1.9..2.2).contains(&ms), "{ms}");
    // What ends within its ramp is not measured.
    let flows = [flows[0].clone(), flow("short", "rw=randread number_ios=3 wait_for_previous")];
    assert!(run_with(&flows, &ramp).in_ramp);
}

#[test]
fn stages_and_a_search_for_the_steady_state_do_not_go_together() {
    let flows = [
        flow("first", "rw=randwrite runtime=2ms"),
        flow("second", "rw=randwrite runtime=2ms wait_for_previous"),
    ];
    let options = RunOptions { until_steady: Some(Span::from_ms(1)), ..options() };
    let error = Runner::new(config(), &flows, &options).unwrap_err().to_string();
    assert!(error.contains("`second` waits"), "{error}");
}

#[test]
fn a_job_file_of_fio_in_stages() {
    let text = "[global]\nfilename=/dev/nvme0n1\nioengine=libaio\ndirect=1\nbs=4k\niodepth=8\n\
                runtime=5ms\ntime_based\nstonewall\n[reads]\nrw=randread\n[writes]\nrw=randwrite\n";
    let job = FioJob::parse("two.fio", text).unwrap();
    let outcome = run(&job.flows);
    check(&outcome);
    let ms = outcome.recorder.interval().as_secs_f64() * 1000.0;
    assert!((10.0..11.0).contains(&ms), "{ms}");
}

#[test]
fn an_experiment_file_says_it_too() {
    let text = |first: &str| {
        format!(
            "schema = \"mynah.experiment/1\"\ndrive = \"enterprise-tlc\"\n\
             [[flow]]\nname = \"a\"\nsize = \"1m\"\n{first}\n\
             [[flow]]\nname = \"b\"\nsize = \"1m\"\nwait_for_previous = true\n"
        )
    };
    let read = Experiment::parse("x.toml", &text("")).unwrap();
    let waits: Vec<_> = read.flows.iter().map(|flow| flow.spec.after_previous).collect();
    assert_eq!(waits, [false, true]);
    assert_eq!(Experiment::parse("x.toml", &read.to_toml("").unwrap()).unwrap(), read);
    let error = Experiment::parse("x.toml", &text("wait_for_previous = true")).unwrap_err();
    assert!(error.to_string().contains("this is the first flow"), "{error}");
}

/// Reads that come before writes find a drive whose collections have ended, though it starts as these
/// writes leave it: they are as fast as by themselves.
#[test]
fn flows_that_others_follow_begin_on_a_drive_at_rest() {
    let reads = "rw=randread bs=4k iodepth=8 runtime=20ms";
    let iops = |flows: &[(&str, &str)]| {
        let mut simulation = small::simulation();
        for (name, options) in flows {
            simulation = simulation.flow(name, options).unwrap();
        }
        let result = simulation.run().unwrap().result;
        (result.flows[0].read.iops, result.flows.last().unwrap().write.iops)
    };
    let writes = "rw=randwrite bs=4k iodepth=8 runtime=20ms";
    let alone = iops(&[("reads", reads)]).0;
    let (first, then) =
        iops(&[("reads", reads), ("writes", &format!("{writes} wait_for_previous"))]);
    assert!((first / alone - 1.0).abs() < 0.02, "{first} {alone}");
    // At once it is otherwise, and what follows is not kept out.
    let (beside, _) = iops(&[("reads", reads), ("writes", writes)]);
    assert!(beside < alone * 0.9 && then > 0.0, "{beside} {alone}");
}
