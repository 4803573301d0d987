//! Runs that last until what is asked for is known (`runtime = "auto"`), as laws: they are runs of a
//! given length, their intervals hold, and one seed gives the same bytes.

use mynah_lab::experiment::{Experiment, Precondition, Settle};
use mynah_lab::{Simulation, SimulationError, batch, replay};
use mynah_result::precision::{Goal, TIME_MAX};
use mynah_result::{Precision, Result as RunResult};
use mynah_stamp::Span;
use std::path::Path;

/// A small drive in steady state that does not settle, with two dies and no data cache.
fn small() -> Simulation {
    let settings = [
        "geometry.channels=2",
        "geometry.chips_per_channel=1",
        "geometry.dies_per_chip=1",
        "geometry.blocks_per_plane=128",
        "geometry.pages_per_block=64",
        "over_provisioning=20%",
        "cache.size=0",
        "mapping.table=ideal",
    ];
    let mut simulation = Simulation::on_changed("mqsim", &settings.map(String::from)).unwrap();
    simulation.options.settle = Settle::Off;
    simulation.precondition(Precondition::Steady)
}

fn flows(simulation: Simulation, flows: &[(&str, String)]) -> Simulation {
    let add = |simulation: Simulation, (name, options): &(&str, String)| {
        simulation.flow(name, options).unwrap()
    };
    flows.iter().fold(simulation, add)
}

fn asking(mut simulation: Simulation, share: f64) -> Simulation {
    simulation.options.precision = Goal { share, runs: 1 };
    simulation
}

fn run(simulation: &Simulation) -> RunResult {
    simulation.run().unwrap().result
}

fn precision(result: &RunResult) -> &Precision {
    result.precision.as_ref().expect("a flow lasts until it is known")
}

/// Reads that come by chance and keep the dies some two thirds busy.
const POISSON: &str = "rw=randread rate_iops=12000 rate_process=poisson";

/// The same result, but for what only a run that ended by itself says.
fn same_but_for_precision(mut auto: RunResult, given: &RunResult) {
    auto.precision = None;
    assert_eq!(auto.to_json(), given.to_json());
}

#[test]
fn a_run_that_ends_by_itself_is_the_run_of_that_runtime() {
    let us = Span::from_us;
    for (ramp, all) in [
        (us(0), &[("rw=randread iodepth=8", us(0))][..]),
        (us(0), &[(POISSON, us(0))]),
        (us(3000), &[("rw=randread iodepth=3 thinktime=70us thinktime_blocks=5", us(0))]),
        (us(500), &[("rw=randread rate_iops=30000 iodepth=4 burst=2ms/1ms", us(700))]),
        (
            us(0),
            &[
                ("rw=randread iodepth=2 numjobs=2 burst=900us/800us", us(0)),
                ("rw=randread rate_interval=70us", us(20_000)),
            ],
        ),
    ] {
        let with = |runtimes: &[String]| {
            let all = all.iter().zip(runtimes).enumerate();
            let all = all.map(|(n, ((options, start), runtime))| {
                let start = start.as_ps() / 1_000_000;
                let options = format!("{options} startdelay={start}us runtime={runtime}");
                (["a", "b"][n], options)
            });
            let mut simulation = flows(small(), &all.collect::<Vec<_>>());
            simulation.options.ramp_time = ramp;
            asking(simulation, 0.05)
        };
        let auto = run(&with(&["auto".to_owned(), "auto".to_owned()]));
        let found = precision(&auto);
        assert!(found.known && !found.bound_reached, "{all:?}: {found:?}");
        let began = all.iter().map(|(_, start)| *start).max().unwrap().max(ramp);
        let end = began.as_ps() as f64 / 1e6 + found.batches as f64 * found.batch_ns / 1e3;
        let runtimes = all.iter().map(|(_, start)| {
            format!("{}us", end as u64 - (start.as_ps() + ramp.as_ps()) / 1_000_000)
        });
        let given = run(&with(&runtimes.collect::<Vec<_>>()));
        assert_eq!(given.precision, None);
        same_but_for_precision(auto, &given);
    }
}

#[test]
fn intervals_hold_the_mean_of_a_very_long_run() {
    const RATE: f64 = 12_000.0;
    let long = flows(small(), &[("a", format!("{POISSON} number_ios=4000000"))]);
    let mean = run(&long.seed(1_000)).flows[0].read.lat_ns.unwrap().mean;
    let (mut latencies, mut rates) = (0, 0);
    const SEEDS: u64 = 60;
    for seed in 1..=SEEDS {
        let run =
            run(&asking(flows(small(), &[("a", format!("{POISSON} runtime=auto"))]), 0.01)
                .seed(seed));
        let found = precision(&run);
        assert!(found.known && found.half_width.unwrap() <= 0.01, "{found:?}");
        let holds = |name: &str, measured: f64, real: f64| {
            let estimate = found.estimates.iter().find(|estimate| estimate.name == name).unwrap();
            u64::from((measured - real).abs() <= estimate.half_width.unwrap() * measured)
        };
        let read = &run.flows[0].read;
        latencies += holds("a read lat_ns mean", read.lat_ns.unwrap().mean, mean);
        rates += holds("a read iops", read.iops, RATE);
    }
    // 95 % are meant. A run that ends when its interval happens to be narrow holds less often.
    println!("{latencies} and {rates} of {SEEDS}");
    assert!(latencies * 100 >= SEEDS * 85, "latency: {latencies} of {SEEDS}");
    assert!(rates * 100 >= SEEDS * 85, "IOPS: {rates} of {SEEDS}");
}

#[test]
fn more_precision_takes_longer() {
    let lasted = |share: f64| {
        let auto = flows(small(), &[("a", format!("{POISSON} runtime=auto"))]);
        let run = run(&asking(auto, share));
        assert!(precision(&run).half_width.unwrap() <= share);
        assert!((precision(&run).asked, precision(&run).known) == (share, true));
        run.simulated_ns
    };
    let [coarse, fine, finer] = [0.05, 0.01, 0.004].map(lasted);
    assert!(coarse < fine && fine < finer, "{coarse} {fine} {finer}");
    // By the square of it, about.
    assert!(finer > 2.0 * fine, "{fine} {finer}");
}

#[test]
fn a_mean_over_runs_allows_each_of_them_more() {
    let with = |share: f64, runs: u32| {
        let mut auto = flows(small(), &[("a", "rw=randread iodepth=4 runtime=auto".to_owned())]);
        auto.options.precision = Goal { share, runs };
        let found = run(&auto).precision.unwrap();
        assert_eq!(found.asked, share);
        found.allowed
    };
    assert_eq!(with(0.02, 4), 0.04);
    // Not without an end, unless that was asked for.
    assert_eq!((with(0.02, 400), with(0.2, 400)), (0.1, 0.2));
}

#[test]
fn a_run_that_reaches_its_bound_says_so() {
    // Of some 4,300 requests in a day the rate is not known to 2 %, but to 5 %.
    let seldom = "rw=randread rate_interval=20s rate_process=poisson runtime=auto";
    let found = |share: f64| run(&asking(flows(small(), &[("a", seldom.to_owned())]), share));
    let missed = found(0.02);
    let said = precision(&missed);
    assert!(said.bound_reached && !said.known, "{said:?}");
    assert_eq!(said.limiting.as_deref(), Some("a read iops"));
    assert!((0.02..0.05).contains(&said.half_width.unwrap()), "{said:?}");
    assert!(missed.simulated_ns >= TIME_MAX.as_ns_f64() && missed.untrusted.is_none());
    let said = found(0.05).precision.unwrap();
    assert!(said.known && !said.bound_reached, "{said:?}");
}

#[test]
fn what_never_completes_is_not_known() {
    let options = "rw=randread rate_interval=600s runtime=auto";
    let mut simulation = flows(small(), &[("a", options.to_owned())]);
    simulation.config.faults.push(mynah_drive_file::fault::parse("read-error:rate=1").unwrap());
    let found = run(&simulation).precision.unwrap();
    assert_eq!((found.known, found.bound_reached, found.limiting), (false, true, None));
}

#[test]
fn flows_with_an_end_of_their_own_keep_it() {
    let all = [
        ("auto", "rw=randread iodepth=4 runtime=auto".to_owned()),
        ("few", "rw=randread iodepth=1 number_ios=500".to_owned()),
        ("long", "rw=randread iodepth=1 runtime=5s".to_owned()),
    ];
    let result = run(&flows(small(), &all));
    assert!(precision(&result).known);
    assert_eq!(result.flows[1].read.ios, 500);
    assert!(result.simulated_ns >= 5e9);
    let lasted = precision(&result).batch_ns * precision(&result).batches as f64;
    assert!(lasted < 4e9, "{lasted}");
    let auto = &result.flows[0].read;
    assert!((auto.ios as f64 / auto.iops - lasted * 1e-9).abs() < 0.01, "{auto:?}");
    assert!(precision(&result).estimates.iter().all(|it| it.name.starts_with("auto read")));
}

#[test]
fn what_collection_does_is_waited_for() {
    // A settled drive that is written to; few blocks are collected in the first batches.
    let mut simulation = small();
    simulation.options.settle = Settle::Auto;
    let planes = u64::from(simulation.config.geometry.planes());
    let write = "rw=randwrite bs=8k iodepth=4 runtime=auto".to_owned();
    let result = run(&flows(simulation, &[("a", write)]));
    let found = precision(&result);
    assert!(found.known && found.estimates.iter().any(|it| it.name == "waf"), "{found:?}");
    let judged = result.steadiness.unwrap();
    assert!(judged.blocks_collected >= 16 * planes, "{judged:?} on {planes} planes");
    assert_ne!(judged.verdict.name(), "too short", "{judged:?}");
}

#[test]
fn how_many_run_at_a_time_changes_nothing() {
    let runs: Vec<Simulation> = [0.05, 0.02, 0.03, 0.04]
        .map(|share| asking(flows(small(), &[("a", format!("{POISSON} runtime=auto"))]), share))
        .into();
    let all =
        |threads| batch::run(&runs, threads, |_, run| Some(run.run().unwrap().result.to_json()));
    assert_eq!(all(1), all(3));
}

#[test]
fn a_recording_is_replayed_to_the_same_result() {
    let folder = std::env::temp_dir().join(format!("mynah-run-length-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let recording = folder.join("auto.rec");
    for (ramp, precondition) in [
        (Span::ZERO, Precondition::Steady),
        (Span::from_ms(7), Precondition::Steady),
        (Span::ZERO, Precondition::SteadyRandom),
    ] {
        let mut simulation = small().precondition(precondition);
        simulation.options.settle = Settle::Auto;
        simulation.options.ramp_time = ramp;
        let all = [
            ("reader", "rw=randread rate_iops=3000 rate_process=poisson runtime=auto".to_owned()),
            ("writer", "rw=randwrite bs=8k iodepth=2 startdelay=9ms runtime=auto".to_owned()),
        ];
        let mut simulation = asking(flows(simulation, &all), 0.05);
        let plain = run(&simulation);
        simulation.record = Some(recording.clone());
        let recorded = run(&simulation);
        assert_eq!(plain.to_json(), recorded.to_json());
        let watch = &mut |_: mynah_lab::simulation::Step<'_>| true;
        let again = replay::replay(&recording, None, &[], &[], None, None, watch).unwrap();
        assert_eq!(again.result.to_json(), recorded.to_json());
        assert!(precision(&recorded).batches > 0);
        // What another drive makes of it is no search of its own.
        let other = replay::resimulate(&recording, None, &[], &[], Default::default(), watch);
        assert_eq!(other.unwrap().result.precision, None);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn each_flow_alone_lasts_until_it_is_known() {
    let all = [
        ("a", "rw=randread iodepth=4 runtime=auto".to_owned()),
        ("b", "rw=randread iodepth=8 runtime=auto".to_owned()),
    ];
    let mut simulation = flows(small(), &all);
    simulation.alone = true;
    let result = run(&simulation);
    assert!(result.flows.iter().all(|flow| flow.slowdown.unwrap() > 1.0), "{:?}", result.flows);
}

#[test]
fn two_ends_are_refused() {
    let mut simulation = flows(small(), &[("a", "rw=randread runtime=auto".to_owned())]);
    simulation.options.until_steady = Some(Span::from_ms(10));
    let refused = |simulation: &Simulation, what: &str| {
        let error = simulation.run().unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(what), "{error}");
    };
    refused(&simulation, "flow `a` runs until its figures are known");
    let all = [
        ("a", "rw=randread runtime=auto".to_owned()),
        ("b", "rw=randread number_ios=7 wait_for_previous=true".to_owned()),
    ];
    refused(&flows(small(), &all), "flow `b` waits for those before it");
    for (options, what) in [
        ("rw=read runtime=auto number_ios=5", "leave out runtime=auto, or number_ios"),
        ("rw=read runtime=auto io_size=1m", "leave out runtime=auto, or io_size"),
        ("trace=a.trace runtime=auto", "replay no trace"),
        ("rw=read runtime=automatic", "runtime = automatic"),
    ] {
        let error: SimulationError = small().flow("a", options).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(what), "{options}: {error}");
    }
}

#[test]
fn flows_of_files_that_say_no_end_have_none() {
    let text = |more: &str, flow: &str, sweep: &str| {
        format!(
            "schema = \"mynah.experiment/1\"\ndrive = \"mqsim\"\n{more}\n[[flow]]\nrw = \
             \"randread\"\n{flow}\n[sweep]\n{sweep}\n"
        )
    };
    let points = |text: &str| Experiment::parse_points("a.toml", text);
    let ends = |flow: &str| {
        let points = points(&text("", flow, "\"flow.*.iodepth\" = [1, 2]")).unwrap();
        points[1].experiment.flows[0].spec.limits
    };
    assert!(ends("").auto && ends("runtime = \"auto\"").auto);
    for flow in ["runtime = 2", "number_ios = 5", "io_size = \"1m\"", "size = \"1m\""] {
        assert!(!ends(flow).auto, "{flow}");
    }
    assert!(ends("size = \"1m\"\nruntime = \"auto\"").auto);
    let swept = points(&text("", "", "precision = [\"5%\", 1]")).unwrap();
    let asked = swept.iter().map(|point| point.experiment.precision.unwrap().share);
    assert_eq!(asked.collect::<Vec<_>>(), [0.05, 0.01]);
    for (more, flow, what) in [
        ("precision = \"2%\"", "runtime = 1", "precision: every flow says when it ends"),
        ("precision = 0", "", "not between 0 and 50 %"),
        ("precision = \"60%\"", "", "not between 0 and 50 %"),
        ("precision = \"x\"", "", "precision: "),
    ] {
        let error = points(&text(more, flow, "seed = [1]")).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("a.toml:3"), "{error}");
    }
    // As a file it says the same.
    let one = &points(&text("precision = \"0.7%\"", "", "seed = [1]")).unwrap()[0].experiment;
    let written = one.to_toml("").unwrap();
    assert_eq!(&Experiment::parse("b.toml", &written).unwrap(), one, "{written}");
    assert!(Experiment::load(Path::new("/nowhere")).is_err());
}
