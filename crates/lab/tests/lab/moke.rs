//! What the MoKE paper says (Saha, Jia, Bhimani, Mi: "MoKE: Modular Key-value Emulator for Realistic
//! Studies on Emerging Storage Devices") beside the shipped `moke`, by the shipped experiments.
//!
//! | paper | there | here |
//! |---|---|---|
//! | Store, no delays (section III) | 28.7 us on average | the same, as a fixed time, and 1.7 us of the bus |
//! | Retrieve, no delays | 29.5 us on average | the same, and 0.9 us of the bus |
//! | T_read, T_write without the slowest 1 % (section II-B) | 4.2, 4.4 us | the same |
//! | with them | 4.8, 16.2 us | the same in the mean, drawn from two times |
//! | figures 1b, 1c: latency with delays | a picture | 79.6 and 694.9 us, 80.2 and 705.9 us with the slowest 1 % |
//! | figure 1d: latency over queue depth | level "up to 16 queue depth" | bends at 16.5 |
//! | figure 1a: rate over the length of keys | a picture | 1 / (T_read + what the link takes for the key) |

use mynah_lab::simulation::Simulation;
use mynah_result::{Result, Side};
use mynah_workload::Source;
use std::path::{Path, PathBuf};

/// Fewer keys than the paper's 2.6 million, which say the same where the index is in DRAM.
const KEYS: u64 = 200_000;
/// What the bus takes for half a page and for a page: 16 bits at 4,800 MT/s, the fastest there is.
const HALF_PAGE_US: f64 = 8192.0 / 9600.0;
const PAGE_US: f64 = 16384.0 / 9600.0;

fn experiment(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/moke").join(name)
}

/// The points of an experiment, with so many keys and requests.
fn points(name: &str, keys: u64, requests: u64) -> Vec<Simulation> {
    let mut points = Simulation::from_sweep(&experiment(name), &[]).unwrap();
    for simulation in &mut points {
        for flow in &mut simulation.flows {
            let Source::KeyValue(of) = &mut flow.source else { panic!("they are of keys") };
            of.keys = keys;
            flow.limits.requests = Some(requests);
        }
    }
    points
}

/// The values of the axes at a point, and what came out.
fn run(simulation: &Simulation) -> (Vec<String>, Result) {
    let values = simulation.point.iter().map(|(_, value)| value.clone()).collect();
    (values, simulation.run().unwrap().result)
}

/// What the flow's commands did.
fn side(result: &Result) -> &Side {
    let sides = result.flows[0].key_value.as_ref().expect("its commands are of keys");
    if sides.retrieve.ios > 0 { &sides.retrieve } else { &sides.store }
}

fn mean_us(result: &Result) -> f64 {
    side(result).lat_ns.unwrap().mean / 1000.0
}

fn near(what: &str, found: f64, expected: f64, within: f64) {
    assert!(
        (found / expected - 1.0).abs() <= within,
        "{what}: {found}, and {expected} is expected"
    );
}

#[test]
fn latency_without_and_with_delays_is_the_sum_of_its_parts() {
    // Floor, T without and with the slowest 1 %, flash, bus.
    for (file, floor, times, flash, bus) in [
        ("retrieve.toml", 29.5, [4.2, 4.8], 45.0, HALF_PAGE_US),
        ("store.toml", 28.7, [4.4, 16.2], 660.0, PAGE_US),
    ] {
        let results: Vec<f64> =
            points(file, KEYS, 50_000).iter().map(|it| mean_us(&run(it).1)).collect();
        let expected =
            [floor + bus, floor + times[0] + flash + bus, floor + times[1] + flash + bus];
        println!("{file}: {results:.1?} us, computed {expected:.1?}");
        for (at, (found, expected)) in results.iter().zip(expected).enumerate() {
            // The slowest 1 % are drawn; of the rest the link takes 0.2 us at most.
            let within = if at == 2 { 0.004 } else { 0.0 };
            near(file, *found, expected, within + 0.2 / expected);
        }
    }
}

#[test]
fn one_manager_bends_at_a_queue_depth_of_16_and_eight_do_not() {
    let results: Vec<_> = points("queue-depth.toml", KEYS, 30_000).iter().map(run).collect();
    let latency = |managers: &str, depth: &str| {
        let found = results.iter().find(|(values, _)| values[..] == [managers, depth]);
        mean_us(&found.expect("it is a point").1)
    };
    let alone = 29.5 + 4.8 + 45.0;
    for managers in ["1", "8"] {
        near("alone", latency(managers, "1"), alone + HALF_PAGE_US, 0.003);
    }
    // Beyond the bend each command outstanding adds what a manager takes.
    for depth in ["24", "32", "48", "64"] {
        near(depth, latency("1", depth), 4.8 * depth.parse::<f64>().unwrap(), 0.01);
    }
    let bend = latency("1", "1") / (latency("1", "64") / 64.0);
    near("where the two lines meet", bend, alone / 4.8, 0.015);
    assert!((16.0..17.0).contains(&bend), "the paper says 16, and here it is {bend:.2}");
    // Up to there latency is sustained; with eight managers it is beyond, too: what it gains are
    // commands that meet at a die.
    assert!(latency("1", "16") < 1.1 * alone);
    assert!(latency("1", "20") > 1.2 * alone);
    assert!(latency("8", "20") < 1.1 * alone && latency("8", "64") < 1.3 * alone);
    assert!(latency("1", "64") > 3.0 * latency("8", "64"));
    // No rate is above what the managers can do.
    for (values, result) in &results {
        let most = values[0].parse::<f64>().unwrap() / 4.8e-6;
        assert!(side(result).iops <= most * 1.0001, "{values:?}");
    }
}

#[test]
fn rates_drop_where_keys_come_by_a_transfer_of_their_own() {
    let mut results = vec![];
    for mut simulation in points("key-size.toml", KEYS, 30_000) {
        let (values, loaded) = run(&simulation);
        let Source::KeyValue(of) = &mut simulation.flows[0].source else { panic!() };
        of.mode = mynah_workload::Mode::Closed { depth: 1 };
        let alone = mean_us(&run(&simulation).1);
        results.push((values, side(&loaded).iops, alone));
    }
    for (values, rate, alone) in &results {
        let [generation, lanes, bytes] = &values[..] else { panic!("{values:?}") };
        let same = |other: &&(Vec<String>, f64, f64)| {
            other.0[..] == [generation.as_str(), lanes.as_str(), "16"]
        };
        let (_, inline_rate, inline_alone) = results.iter().find(same).unwrap();
        near("what one manager can do", *inline_rate, 1.0 / 4.2e-6, 0.001);
        // What the key takes alone is what the manager waits for.
        let fetch_us = alone - inline_alone;
        let fetched = bytes.parse::<u32>().unwrap() > 16;
        assert_eq!(fetch_us > 0.001, fetched, "{values:?}: {fetch_us}");
        // The paper's drop: a read of the host's memory takes 0.6 to 1 us, of 4.2.
        let drop = 1.0 - rate / inline_rate;
        assert_eq!((0.12..0.25).contains(&drop), fetched, "{values:?}: {drop}");
        let computed = 1.0 / ((4.2 + fetch_us) * 1e-6);
        if generation == "5" || !fetched {
            near(&format!("{values:?}"), *rate, computed, 0.001);
        } else {
            // Under load the request for a key waits for the values on the link, which is busy with
            // them a quarter of the time.
            let wait_us = 1e6 / rate - (4.2 + fetch_us);
            assert!((0.0..0.1).contains(&wait_us), "{values:?}: {wait_us}");
            assert!(*rate < 0.99 * inline_rate, "{values:?}: {rate}, {inline_rate} inline");
        }
    }
}

#[test]
fn all_pairs_of_the_paper_fit() {
    let mut simulation = Simulation::on("moke").unwrap();
    simulation.options.precondition = "fill".parse().unwrap();
    let simulation =
        simulation.flow("it", "kv=retrieve keys=2.6m value_size=4k iodepth=16").unwrap();
    let (_, result) = run(&simulation);
    near("latency", mean_us(&result), 16.0 * 4.2, 0.01);
    let held = result.device.unwrap().key_value.unwrap();
    assert_eq!(held.keys, 2_600_000);
    assert_eq!(held.live_bytes, Some(2_600_000 * (16 + 4096)));
    assert_eq!(held.allocated_bytes, 2_600_000 * 8192);
    near("one page for each", held.flash_reads_per_retrieve.unwrap(), 1.0, 1e-9);
}
