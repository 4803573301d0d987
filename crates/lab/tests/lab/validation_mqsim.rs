//! MQSim's results, reproduced: its own files run `as_mqsim`, within 2 % of what it prints.
//!
//! The files and results are in `tests/data/mqsim`. The same runs as the drives that the files
//! describe are in `docs/validation.md`; this file prints both, with `--nocapture`.

use mynah_lab::experiment::Precondition;
use mynah_lab::mqsim::{self, Import};
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_result::kind::Kind;
use mynah_result::{fairness, weighted_speedup};
use mynah_workload::{Addresses, Extent, Positions, Source, Start};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TOLERANCE: f64 = 0.02;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/mqsim")
}

/// What one flow measured, in microseconds and requests a second.
struct Flow {
    mean: f64,
    min: f64,
    max: f64,
    iops: f64,
    ios: u64,
}

/// Runs scenario `number` of a case; Little's law has to hold.
fn run(case: &str, number: usize, as_mqsim: bool) -> Vec<Flow> {
    run_scenario(case, load(case, case, as_mqsim), number)
}

/// The workload of one case on the drive of another. Without `as_mqsim`, addresses never
/// written are not read from flash; so that there is something to compare, the drive is
/// filled then.
fn load(drive: &str, case: &str, as_mqsim: bool) -> Import {
    let configs = data().join("configs");
    let drive = configs.join(drive).join("ssdconfig.xml");
    let workload = configs.join(case).join("workload.xml");
    let mut import = mqsim::load(&drive, &workload, as_mqsim).unwrap();
    for scenario in &mut import.scenarios {
        assert_eq!(scenario.precondition, Precondition::None);
        if !as_mqsim {
            scenario.precondition = Precondition::Fill;
        }
    }
    import
}

fn run_on(drive: &str, case: &str, number: usize, as_mqsim: bool) -> Vec<Flow> {
    run_scenario(case, load(drive, case, as_mqsim), number)
}

fn run_scenario(case: &str, import: Import, number: usize) -> Vec<Flow> {
    let scenario = &import.scenarios[number];
    let options = RunOptions {
        seed: import.seed,
        precondition: scenario.precondition,
        ..RunOptions::default()
    };
    let runner = Runner::new(scenario.config.clone(), &scenario.flows, &options).unwrap();
    let Outcome { recorder, .. } = runner.run(|_| true).unwrap();
    let (watched, by_law) = (recorder.mean_outstanding(), recorder.littles_law_outstanding());
    assert!((watched / by_law - 1.0).abs() < 1e-9, "{case}: {watched} {by_law}");
    // MQSim divides by the whole simulated time, its end included.
    let seconds = recorder.interval().as_secs_f64();
    (0..scenario.flows.len())
        .map(|flow| {
            let latencies = recorder.latencies(flow, Kind::Read).unwrap();
            Flow {
                mean: latencies.mean_ns().unwrap() / 1e3,
                min: latencies.min().unwrap().as_ns_f64() / 1e3,
                max: latencies.max().unwrap().as_ns_f64() / 1e3,
                iops: latencies.count() as f64 / seconds,
                ios: latencies.count(),
            }
        })
        .collect()
}

/// Rows of a CSV file, by column.
fn table(name: &str) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(data().join(name)).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines.map(|line| names.iter().cloned().zip(line).collect()).collect()
}

/// Collects comparisons, so that a failure shows all of them.
#[derive(Default)]
struct Comparison {
    wrong: Vec<String>,
}

impl Comparison {
    fn close(&mut self, what: &str, ours: f64, theirs: f64, tolerance: f64) {
        let off = ours / theirs - 1.0;
        println!("{what:<52} {ours:>12.3} {theirs:>12.3} {:>+7.2} %", off * 100.0);
        if off.is_nan() || off.abs() > tolerance {
            self.wrong.push(format!("{what}: {ours:.3}, MQSim {theirs:.3}"));
        }
    }

    fn finish(self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
    }
}

fn single(case: &str) {
    compare(case, &run(case, 0, true), &run(case, 0, false));
}

fn compare(case: &str, flows: &[Flow], described: &[Flow]) {
    let rows: Vec<_> = table("single_runs.csv").into_iter().filter(|r| r["run"] == case).collect();
    assert_eq!(flows.len(), rows.len());
    let mut comparison = Comparison::default();
    for (index, (flow, row)) in flows.iter().zip(&rows).enumerate() {
        let theirs = |column: &str| row[column].parse::<f64>().unwrap();
        let name = |what: &str| format!("{case} flow {}: {what}", index + 1);
        assert_eq!(flow.ios as f64, theirs("serviced"));
        comparison.close(&name("mean"), flow.mean, theirs("mean_device_rt_us"), TOLERANCE);
        comparison.close(&name("IOPS"), flow.iops, theirs("iops"), TOLERANCE);
        // Which flow comes first decides its least latency: in MQSim a hash of their names.
        let least = if flows.len() == 1 { TOLERANCE } else { 0.25 };
        comparison.close(&name("min"), flow.min, theirs("min_rt_us"), least);
        // One request's; MQSim's own goes up and down by 30 % with its seed.
        comparison.close(&name("max"), flow.max, theirs("max_rt_us"), 0.4);
        println!("{:<52} {:>12.3}", name("mean as described"), described[index].mean);
    }
    comparison.finish();
}

#[test]
fn random_reads_at_queue_depth_1() {
    let case = "v_rate333_randread_qd1";
    single(case);
    let flow = &run(case, 0, true)[0];
    // 75,000 ns array, 290 command, 12,288 transfer, 20 ready, and PCIe.
    assert_eq!(format!("{:.3} {:.3} {:.3}", flow.min, flow.mean, flow.max), "88.898 88.906 88.906");
    // As the files describe the drive, bus time is exact.
    let flow = &run(case, 0, false)[0];
    assert_eq!(format!("{:.3} {:.3}", flow.mean, flow.max), "88.916 88.916");
}

#[test]
fn random_reads_of_drive_with_one_die_a_chip() {
    single("v_die1_randread_qd256");
}

#[test]
fn random_reads_that_miss_the_cached_mapping_table() {
    single("a_randread4k_qd32_cmt2MB");
}

/// How two sequential flows lock in step depends on where they start: MQSim's mean of flow 1
/// goes from 137 to 152 us with its seed. So both start where MQSim's generator makes them
/// start.
#[test]
fn two_flows_of_sequential_reads() {
    let case = "c_seqread8k_q8_q256_ideal";
    // MQSim's draws, as shares of the working set.
    let draws = [0.086_119_792_171_036, 0.777_751_898_572_872];
    let [flows, described] = [true, false].map(|as_mqsim| {
        let mut import = load(case, case, as_mqsim);
        let scenario = &mut import.scenarios[0];
        for ((flow, namespace), draw) in
            scenario.flows.iter_mut().zip(&scenario.config.namespaces).zip(draws)
        {
            let Source::Synthetic(synthetic) = &mut flow.source else { panic!("a synthetic flow") };
            let half = namespace.units.unwrap() as f64 / 2.0;
            let first = (half * draw) as u64;
            synthetic.offset = Extent::Bytes(first * 8192);
            synthetic.size = Extent::Bytes((half as u64 - first) * 8192);
            let start = Start::Beginning;
            synthetic.addresses = Addresses::Sequential { start, positions: Positions::Shared };
        }
        run_scenario(case, import, 0)
    });
    compare(case, &flows, &described);
}

fn figure_12(name: &str, fetch_size: u32) {
    let rows = table(name);
    let one = format!("fig12_qfs{fetch_size}_flow-1-flow-2");
    let mut comparison = Comparison::default();
    for (number, row) in rows.iter().enumerate() {
        let theirs = |column: &str| row[column].parse::<f64>().unwrap();
        let alone = [
            run_on(&one, "fig12_qfs1024_flow-1_alone", 0, true).remove(0),
            run_on(&one, "fig12_qfs1024_flow-2_alone", number, true).remove(0),
        ];
        let shared = run(&one, number, true);
        let described = run(&one, number, false);
        let depth = &row["flow2_qd"];
        let what = |column: &str| format!("fetch {fetch_size} depth {depth}: {column}");
        let mut close = |column: &str, ours: f64| {
            comparison.close(&what(column), ours, theirs(column), TOLERANCE);
        };
        let slowdowns = [0, 1].map(|flow| shared[flow].mean / alone[flow].mean);
        for flow in [0, 1] {
            let f = flow + 1;
            close(&format!("f{f}_alone_rt_us"), alone[flow].mean);
            close(&format!("f{f}_alone_iops"), alone[flow].iops);
            close(&format!("f{f}_shared_rt_us"), shared[flow].mean);
            close(&format!("f{f}_shared_iops"), shared[flow].iops);
            close(&format!("f{f}_slowdown"), slowdowns[flow]);
            close(&format!("f{f}_shared_n"), shared[flow].ios as f64);
        }
        close("fairness_min_over_max", fairness(&slowdowns).unwrap());
        close("weighted_speedup", weighted_speedup(&slowdowns).unwrap());
        for flow in [0, 1] {
            let column = format!("f{}_shared_max_us", flow + 1);
            comparison.close(&what(&column), shared[flow].max, theirs(&column), 0.4);
            println!("{:<52} {:>12.3}", what("shared as described"), described[flow].mean);
        }
    }
    comparison.finish();
}

#[test]
fn figure_12_with_a_fetch_size_of_1024() {
    figure_12("fig12_qfs1024.csv", 1024);
}

#[test]
fn figure_12_with_a_fetch_size_of_16() {
    figure_12("fig12_qfs16.csv", 16);
}

/// A text with the contents of all tags of this name replaced; whether there was one.
fn replace(text: &mut String, tag: &str, value: &str) -> bool {
    let open = format!("<{tag}>");
    let old = std::mem::take(text);
    for (number, part) in old.split(&open).enumerate() {
        match number {
            0 => text.push_str(part),
            _ => *text += &format!("{open}{value}{}", &part[part.find('<').unwrap()..]),
        }
    }
    old.contains(&open)
}

/// A case's files, drive and workload, with tags replaced wherever they occur.
fn with_tags<'a>(case: &str, tags: impl Iterator<Item = (&'a str, &'a str)>) -> [String; 2] {
    let folder = data().join("configs").join(case);
    let mut files = ["ssdconfig.xml", "workload.xml"]
        .map(|file| std::fs::read_to_string(folder.join(file)).unwrap());
    for (tag, value) in tags {
        let there = files.each_mut().map(|text| replace(text, tag, value));
        assert!(there.contains(&true), "{tag}");
    }
    files
}

/// Requests of each flow of these files, and the sum of their latencies in us.
fn requests(files: &[String; 2], seed: u64) -> Vec<(u64, f64)> {
    requests_of(files, 0, seed)
}

/// The same of one of the scenarios.
fn requests_of([drive, workload]: &[String; 2], number: usize, seed: u64) -> Vec<(u64, f64)> {
    let files = (("ssdconfig.xml", drive.as_bytes()), ("workload.xml", workload.as_bytes()));
    let import = mqsim::parse(files.0, files.1, true).unwrap();
    let scenario = &import.scenarios[number];
    let options = RunOptions { seed, precondition: scenario.precondition, ..RunOptions::default() };
    let runner = Runner::new(scenario.config.clone(), &scenario.flows, &options).unwrap();
    let Outcome { recorder, .. } = runner.run(|_| true).unwrap();
    let of_flow = |flow| {
        let kinds = [Kind::Read, Kind::Write].into_iter();
        let all = kinds.filter_map(|kind| recorder.latencies(flow, kind));
        all.fold((0, 0.0), |(ios, sum_us), latencies| {
            let us = latencies.mean_ns().map_or(0.0, |ns| ns / 1e3 * latencies.count() as f64);
            (ios + latencies.count(), sum_us + us)
        })
    };
    (0..scenario.flows.len()).map(of_flow).collect()
}

/// Requests, and their mean latency in us, of writes to a few planes, over so many seeds.
fn writes(row: &BTreeMap<String, String>, seeds: u64) -> (f64, f64) {
    let value = |column: &str| row[column].as_str();
    let ids = value("ids").chars().map(String::from).collect::<Vec<_>>().join(",");
    let tags = [
        ("Flash_Channel_Count", value("channels")),
        ("Chip_No_Per_Channel", value("chips")),
        ("Die_No_Per_Chip", value("dies")),
        ("Plane_No_Per_Die", value("planes")),
        ("Device_Level_Data_Caching_Mode", value("mode")),
        ("Read_Percentage", value("read_percent")),
        ("Average_No_of_Reqs_in_Queue", value("depth")),
        ("Average_Request_Size", value("sectors")),
        ("Channel_IDs", &ids),
        ("Plane_IDs", &ids),
    ];
    let files = with_tags("w_write4k_qd4_one_plane", tags.into_iter());
    let all = (1..=seeds).flat_map(|seed| requests(&files, seed));
    let (ios, sum_us) = all.fold((0, 0.0), |(ios, sum), of| (ios + of.0, sum + of.1));
    (ios as f64 / seeds as f64, sum_us / ios as f64)
}

/// MQSim's cache lets as much be on its way to flash as a page for each plane of the drive holds;
/// then writes wait, however few planes they go to. Runs of 100 ms; those that also read have
/// between 180 and 220 requests by chance, so they are averaged over many seeds, as MQSim's are.
#[test]
fn writes_to_few_planes() {
    let mut comparison = Comparison::default();
    for row in table("writes.csv") {
        let mixed = row["read_percent"] == "50";
        let (requests, mean) = writes(&row, if mixed { 60 } else { 3 });
        let theirs = |column: &str| row[column].parse::<f64>().unwrap();
        let name = |what: &str| format!("{}: {what}", row["run"]);
        comparison.close(&name("requests"), requests, theirs("requests"), TOLERANCE);
        comparison.close(&name("mean"), mean, theirs("mean_us"), TOLERANCE);
    }
    comparison.finish();
}

/// Mean latencies of the flows of changed files, in us, over so many seeds.
fn changed(config: &str, changes: &str, seeds: u64) -> Vec<f64> {
    let changes = changes.replace('+', ",");
    let tags = changes.split(' ').map(|change| change.split_once('=').unwrap());
    of_scenario(&with_tags(config, tags), 0, seeds)
}

/// Reads in order and at random that miss the cached mapping table, with and without entries that
/// leave it, and mixes without a cache, on the 512 GiB of these files.
#[test]
fn misses_and_mixes() {
    let mut comparison = Comparison::default();
    let mut known: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in table("changed_runs.csv") {
        let means = known
            .entry(row["run"].clone())
            .or_insert_with(|| changed(&row["config"], &row["changes"], 3));
        let flow: usize = row["flow"].parse().unwrap();
        // It prints whole microseconds.
        let theirs = row["mean_us"].parse::<f64>().unwrap() + 0.5;
        let name = format!("{}, flow {flow}", row["run"]);
        comparison.close(&name, means[flow - 1], theirs, TOLERANCE);
    }
    comparison.finish();
}

/// Mean read and write latencies of the flows of one scenario, in us, over so many seeds.
fn of_scenario(files: &[String; 2], number: usize, seeds: u64) -> Vec<f64> {
    let mut means: Vec<f64> = vec![];
    for seed in 1..=seeds {
        let flows = requests_of(files, number, seed);
        means.resize(flows.len(), 0.0);
        for (mean, (ios, sum_us)) in means.iter_mut().zip(flows) {
            *mean += sum_us / ios as f64 / seeds as f64;
        }
    }
    means
}

/// Figures 6, 7 and 8 of the paper at the greatest depth of flow 2, as this MQSim computes them: the
/// files' scenarios are flow 1 alone, flow 2 alone, and both.
///
/// Writes take up to 3 % longer here: MQSim gives them their page when queued, and joins more of them.
#[test]
fn contention_figures_of_the_paper() {
    let mut comparison = Comparison::default();
    for row in table("contention.csv") {
        let case = row["config"].as_str();
        let writes = case.starts_with("fig6");
        let files = with_tags(case, [].into_iter());
        let shared = of_scenario(&files, 2, 3);
        let alone = [0, 1].map(|number| of_scenario(&files, number, if writes { 3 } else { 1 })[0]);
        let theirs = |column: &str| row[column].parse::<f64>().unwrap();
        let slowdowns = [0, 1].map(|flow| shared[flow] / alone[flow]);
        let columns = [0, 1].map(|flow| {
            ["alone", "shared"].map(|run| theirs(&format!("f{}_{run}_rt_us", flow + 1)))
        });
        let their_slowdowns = columns.map(|[alone, shared]| shared / alone);
        let mut close = |what: &str, ours: f64, theirs: f64, tolerance: f64| {
            comparison.close(&format!("{case}: {what}"), ours, theirs, tolerance);
        };
        for flow in [0, 1] {
            let means = if writes { 0.03 } else { TOLERANCE };
            let f = flow + 1;
            close(&format!("f{f} alone"), alone[flow], columns[flow][0], means);
            close(&format!("f{f} shared"), shared[flow], columns[flow][1], means);
            close(&format!("f{f} slowdown"), slowdowns[flow], their_slowdowns[flow], TOLERANCE);
        }
        for (what, of) in [("fairness", fairness as fn(&[f64]) -> _), ("speedup", weighted_speedup)]
        {
            close(what, of(&slowdowns).unwrap(), of(&their_slowdowns).unwrap(), TOLERANCE);
        }
    }
    comparison.finish();
}
