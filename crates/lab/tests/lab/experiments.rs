//! The shipped experiments: every file can be run, and the small ones say what their first lines
//! and docs/experiments.md say.

use mynah_lab::simulation::Simulation;
use mynah_result::Result;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// The points of an experiment: the values of its axes, and what came out.
fn run(name: &str) -> Vec<(String, Result)> {
    let points = Simulation::from_sweep(&folder().join(name), &[]).unwrap();
    let run = |simulation: &Simulation| {
        let values: Vec<String> = simulation.point.iter().map(|it| it.1.to_string()).collect();
        (values.join(" "), simulation.run().unwrap().result)
    };
    points.iter().map(run).collect()
}

fn waf(results: &[(String, Result)], point: &str) -> f64 {
    let (_, result) = results.iter().find(|(values, _)| values == point).expect(point);
    result.device.as_ref().and_then(|device| device.waf).expect("it wrote")
}

fn iops(results: &[(String, Result)], point: &str) -> f64 {
    let (_, result) = results.iter().find(|(values, _)| values == point).expect(point);
    result.flows[0].write.iops
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() <= within, "{found} is not about {expected}");
}

#[test]
fn every_experiment_can_be_run() {
    let mut folders = vec![folder()];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("schema = \"mynah.profile-task/1\"") {
                // It runs on the machine's clock: that it can be read is shown where views are.
                continue;
            }
            if text.contains("schema = \"mynah.drive/1\"") {
                let drive = mynah_drive_file::load(&path.display().to_string(), &[]);
                drive.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                continue;
            }
            let points = Simulation::from_sweep(&path, &[]);
            let points = points.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!points.is_empty());
            found += 1;
        }
    }
    assert!(found >= 11, "{found}");
}

#[test]
fn hybrid_mapping_costs_whole_blocks_for_single_pages() {
    let results = run("hybrid-mapping.toml");
    for (point, expected) in [
        ("write page", 1.02),
        ("write hybrid", 0.98),
        ("randwrite page", 3.06),
        ("randwrite hybrid", 6.33),
    ] {
        near(waf(&results, point), expected, 0.03);
    }
    near(iops(&results, "write hybrid"), 4764.0, 0.03);
    near(iops(&results, "randwrite hybrid"), 361.0, 0.03);
}

#[test]
fn hot_data_apart_are_collected_cheaply() {
    let results = run("hot-cold.toml");
    for (point, expected) in [
        ("one greedy", 4.74),
        ("separate greedy", 4.31),
        ("hot-cold greedy", 3.59),
        ("one cost-benefit", 4.86),
        ("separate cost-benefit", 2.98),
        ("hot-cold cost-benefit", 2.20),
    ] {
        near(waf(&results, point), expected, 0.03);
    }
}

#[test]
fn superblocks_amplify_more() {
    let results = run("superblocks.toml");
    near(waf(&results, "block"), 4.06, 0.03);
    near(waf(&results, "superblock"), 4.52, 0.03);
}
