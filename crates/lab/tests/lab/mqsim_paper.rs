//! The shapes of the figures of the MQSim paper (Tavakkol et al., FAST 2018), by the shipped
//! experiments: what grows, what does not, and how far. Cut in time and in blocks; the figures of whole
//! runs are in `docs/validation.md`. Of figure 9 the flows alone: its applications need a guest
//! (`experiments/mqsim/figure9`).

use mynah_lab::simulation::Simulation;
use mynah_result::{Flow, Result};
use mynah_stamp::Span;
use mynah_workload::{Addresses, Arrivals, Mode, Source};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn points(name: &str, changes: &[&str]) -> Vec<Simulation> {
    let path = root().join("experiments/mqsim").join(name);
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Simulation::from_sweep(&path, &changes).unwrap()
}

/// Fewer blocks, which are sooner filled.
const SMALL: &[&str] = &["geometry.blocks_per_plane=256"];

/// The results of the points with these values, in their order, with each flow measured for so
/// long after a ramp, and alone too.
fn run(points: &[Simulation], ramp_ms: u64, ms: u64, wanted: &[&str]) -> Vec<Result> {
    let of_values = |wanted: &&str| {
        let values = |it: &&Simulation| {
            let values: Vec<&str> = it.point.iter().map(|(_, value)| value.as_str()).collect();
            values.join(" ") == *wanted
        };
        let known: Vec<_> = points.iter().map(|it| &it.point).collect();
        let point = points.iter().find(values).unwrap_or_else(|| panic!("{wanted}: {known:?}"));
        let mut simulation = point.clone();
        simulation.alone = true;
        simulation.options.ramp_time = Span::from_ms(ramp_ms);
        for flow in &mut simulation.flows {
            flow.limits.runtime = Some(Span::from_ms(ms));
        }
        let result = simulation.run().unwrap().result;
        println!(
            "{wanted}: s {:.3?}, fairness {:.3}, speedup {:.3}, {} requests",
            slowdowns(&result),
            result.fairness.unwrap(),
            result.weighted_speedup.unwrap(),
            result.requests
        );
        result
    };
    wanted.iter().map(of_values).collect()
}

fn slowdowns(result: &Result) -> Vec<f64> {
    result.flows.iter().map(|flow| flow.slowdown.unwrap()).collect()
}

/// The slowdowns of one flow at each point.
fn slowdown(results: &[Result], flow: usize) -> Vec<f64> {
    results.iter().map(|result| slowdowns(result)[flow]).collect()
}

fn fairness(results: &[Result]) -> Vec<f64> {
    results.iter().map(|result| result.fairness.unwrap()).collect()
}

fn speedup(results: &[Result]) -> Vec<f64> {
    results.iter().map(|result| result.weighted_speedup.unwrap()).collect()
}

#[track_caller]
fn grows(values: &[f64]) {
    assert!(values.is_sorted_by(|one, next| one < next), "does not grow: {values:?}");
}

#[track_caller]
fn falls(values: &[f64]) {
    assert!(values.is_sorted_by(|one, next| one > next), "does not fall: {values:?}");
}

#[track_caller]
fn within(value: f64, least: f64, most: f64) {
    assert!((least..=most).contains(&value), "{value} is not within {least} to {most}");
}

fn read_us(flow: &Flow) -> f64 {
    flow.read.lat_ns.unwrap().mean / 1000.0
}

fn write_us(flow: &Flow) -> f64 {
    flow.write.lat_ns.unwrap().mean / 1000.0
}

/// What share of the reads' time a stage takes; 0 if there was none.
fn share(flow: &Flow, stage: &str) -> f64 {
    flow.read.stages.iter().find(|it| it.stage == stage).map_or(0.0, |it| it.share)
}

/// Reading a NAND chip takes more than all else. 3D XPoint is below 10 us, and its array less than
/// what the command takes outside.
#[test]
fn figure_4_where_a_read_spends_its_time() {
    let nand = points("figure4.toml", SMALL)[0].run().unwrap().result;
    within(read_us(&nand.flows[0]), 88.8, 89.0);
    within(share(&nand.flows[0], "flash_array"), 0.80, 0.90);
    within(share(&nand.flows[0], "flash_transfer"), 0.10, 0.20);
    let xpoint = points("figure4-3d-xpoint.toml", &[])[0].run().unwrap().result;
    within(read_us(&xpoint.flows[0]), 5.0, 10.0);
    within(share(&xpoint.flows[0], "flash_array"), 0.05, 0.50);
}

/// Each box of the diagram does something.
#[test]
fn figure_5_every_component_works() {
    let result = points("figure5.toml", &[])[0].run().unwrap().result;
    let device = result.device.unwrap();
    within(device.cmt_hit_ratio.unwrap(), 0.1, 0.99);
    assert!(device.mapping_reads > 0, "address translation");
    within(device.cache_hit_ratio.unwrap(), 0.01, 0.99);
    assert!(device.gc_runs > 0 && device.gc_units_moved > 0, "collection");
    let [reader, writer] = &result.flows[..] else { panic!("two queues") };
    let stages = [
        (reader, "command_fetch"),
        (reader, "mapping"),
        (reader, "die_wait"),
        (reader, "flash_command"),
        (reader, "flash_array"),
        (reader, "flash_transfer"),
        (reader, "data_out"),
        (writer, "data_in"),
        (writer, "cache"),
    ];
    for (flow, stage) in stages {
        let stages = if flow.read.ios > 0 { &flow.read.stages } else { &flow.write.stages };
        let mean = stages.iter().find(|it| it.stage == stage).map_or(0.0, |it| it.mean_ns);
        assert!(mean > 0.0, "{}: {stage}", flow.name);
    }
}

#[test]
fn figure_6_a_deep_writer_takes_the_write_cache() {
    // A smaller cache is sooner full; with this room fewer blocks are not collected either.
    let changes = ["geometry.blocks_per_plane=64", "over_provisioning=50%", "cache.size=16MiB"];
    let points = points("figure6.toml", &changes);
    let results = run(&points, 500, 100, &["8", "64", "256"]);
    grows(&slowdown(&results, 0));
    within(slowdowns(&results[0])[0], 0.8, 1.5);
    within(slowdowns(&results[2])[0], 20.0, 45.0);
    for result in &results {
        within(slowdowns(result)[1], 0.8, 1.1);
    }
    falls(&fairness(&results));
    within(fairness(&results)[2], 0.0, 0.1);
    // The paper: by over 50 %. From 2 it cannot fall below 1 while flow 2 is not slowed down.
    within(speedup(&results)[2] / speedup(&results)[0], 0.4, 0.6);
}

#[test]
fn figure_7_a_random_reader_takes_the_mapping_table() {
    // An eighth of the table, of the time between flow 1's requests, and of flow 2's turns.
    let changes = ["geometry.blocks_per_plane=256", "mapping.cmt.size=512KiB"];
    let mut points = points("figure7.toml", &changes);
    for flow in points.iter_mut().flat_map(|simulation| &mut simulation.flows) {
        let Source::Synthetic(synthetic) = &mut flow.source else { panic!("a synthetic flow") };
        if let Mode::Open { arrivals: Arrivals::Fixed { per_second }, .. } = &mut synthetic.mode {
            *per_second *= 8;
        }
        if let Addresses::Mixed { turn: Some(turn), .. } = &mut synthetic.addresses {
            *turn /= 8;
        }
    }
    let results = run(&points, 60, 150, &["0", "50", "100"]);
    grows(&slowdown(&results, 0));
    within(slowdowns(&results[0])[0], 0.99, 1.1);
    within(slowdowns(&results[2])[0], 1.85, 2.2);
    for result in &results {
        within(slowdowns(result)[1], 0.98, 1.02);
    }
    falls(&fairness(&results));
    falls(&speedup(&results));
}

#[test]
fn figure_8_a_deep_reader_takes_the_back_end() {
    let described = "true command-first zeroes fill";
    let mqsim = "false data-first allocate none";
    let points = points("figure8.toml", SMALL);
    for (drive, least, most) in [(described, 6.0, 9.2), (mqsim, 11.7, 15.5)] {
        let wanted = ["2", "16", "256"].map(|depth| format!("{drive} {depth}"));
        let results = run(&points, 10, 150, &wanted.each_ref().map(String::as_str));
        grows(&slowdown(&results, 0));
        within(slowdowns(&results[1])[0], 1.1, 2.0);
        within(slowdowns(&results[2])[0], least, most);
        within(slowdowns(&results[2])[1], 0.98, 1.05);
        falls(&fairness(&results));
        within(fairness(&results)[2], 0.0, 0.2);
        falls(&speedup(&results));
    }
}

/// The file server and the large file share the drive with a fetch size of 16, and not with 1024, by which
/// fairness falls by 60 % in the paper.
#[test]
fn figure_9_the_fetch_size_decides_between_applications() {
    let results = run(&points("figure9-flows.toml", &[]), 1000, 3000, &["16", "1024"]);
    let fairness = fairness(&results);
    within(fairness[0], 0.6, 1.0);
    within(fairness[1] / fairness[0], 0.2, 0.5);
    grows(&slowdown(&results, 0));
    falls(&slowdown(&results, 1));
}

/// Larger requests take longer; a write that fits the cache is done long before a read.
#[test]
fn figure_10_response_times_grow_with_size() {
    let mut found = vec![vec![]; 2];
    for mut simulation in points("figure10.toml", &[]) {
        let values: Vec<&str> = simulation.point.iter().map(|(_, it)| it.as_str()).collect();
        if !["4k", "64k", "1m"].contains(&values[1]) {
            continue;
        }
        let writes = values[0] == "randwrite";
        simulation.flows[0].limits.requests = Some(100);
        let flow = simulation.run().unwrap().result.flows.remove(0);
        found[usize::from(writes)].push(if writes { write_us(&flow) } else { read_us(&flow) });
    }
    println!("{found:.1?}");
    let [reads, writes] = &found[..] else { panic!("reads and writes") };
    grows(reads);
    grows(writes);
    for size in 0..2 {
        within(writes[size] / reads[size], 0.0, 0.5);
    }
}

/// Most of either trace's requests are near the drive's read time, and a tail is far beyond it.
#[test]
fn figure_11_traces_have_a_long_tail() {
    for mut simulation in points("figure11.toml", &[]) {
        let Source::Trace(trace) = &mut simulation.flows[0].source else { panic!("a trace") };
        let name = trace.path.file_name().unwrap().to_str().unwrap();
        let part = name.replace("-small", "-part");
        trace.path = root().join("tests/data/traces").join(&part);
        let result = simulation.run().unwrap().result;
        let reads = result.flows[0].read.lat_ns.unwrap();
        println!("{part}: {reads:?}");
        within(reads.percentiles.p50 / 1000.0, 50.0, 80.0);
        within(reads.percentiles.p99 / reads.percentiles.p50, 1.2, 20.0);
    }
}

/// A deep flow takes the drive with a fetch size of 1024, and does not with one of 16.
#[test]
fn figures_2_and_12_the_fetch_size_protects() {
    for (name, most) in [("figure12.toml", 1.3), ("figure12-random.toml", 1.5)] {
        let points = points(name, SMALL);
        let results = run(&points, 5, 20, &["8 1024", "64 1024", "256 1024"]);
        grows(&slowdown(&results, 0));
        within(slowdowns(&results[2])[0], 4.0, 9.0);
        within(slowdowns(&results[2])[1], 0.95, 1.1);
        falls(&fairness(&results));
        within(fairness(&results)[2], 0.0, 0.3);
        let protected = run(&points, 5, 20, &["64 16", "256 16"]);
        for result in &protected {
            within(slowdowns(result)[0], 1.0, most);
            within(result.fairness.unwrap(), 0.7, 1.0);
        }
    }
}

/// An empty drive answers far sooner, until all of it has been written: then as a preconditioned one does.
#[test]
fn figure_13_an_empty_drive_comes_to_the_preconditioned_one() {
    let mut reads = vec![];
    // With a quarter of the pages it is full after a quarter of the time.
    for mut simulation in points("figure13.toml", &["geometry.pages_per_block=64"]) {
        let early = simulation.options.ramp_time == Span::ZERO;
        simulation.options.ramp_time = simulation.options.ramp_time.min(Span::from_ms(75_000));
        let ms = if early { 2000 } else { 20_000 };
        simulation.flows[0].limits.runtime = Some(Span::from_ms(ms));
        let result = simulation.run().unwrap().result;
        let flow = &result.flows[0];
        println!("{:?}: {:.0} {:.0}", simulation.point, read_us(flow), write_us(flow));
        reads.push(read_us(flow));
    }
    let [empty, steady, filled, late] = reads[..] else { panic!("four points") };
    within(empty / steady, 0.0, 0.1);
    within(filled / late, 0.5, 2.0);
}
