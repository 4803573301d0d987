//! What a user sees first against the same drive at rest: the first second after the start, with
//! every default, beside a run that first fills the drive, then writes twice its capacity (SNIA's
//! turnover), and is measured until each plane has collected ten blocks and more.
//!
//! A sample runs with the tests. All shipped drives under all loads, some two CPU hours:
//!
//! ```text
//! cargo test --release -p mynah-lab --test lab validation_rest -- --ignored --nocapture
//! ```
//!
//! `MYNAH_DRIVES=a,b` and `MYNAH_LOADS=c,d` take some of them. Results: `docs/validation.md`.

use mynah_lab::Simulation;
use mynah_lab::experiment::{Precondition, Settle};
use mynah_result::{Result as RunResult, Verdict};
use mynah_stamp::Span;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How far means of four seeds may lie from the drive at rest: WAF and IOPS, mean latency, p99.
const OFF_MAX: [f64; 4] = [0.10, 0.10, 0.10, 0.20];
/// What is said to be too short may lie further apart, by chance, but not as far as what begins in
/// another state.
const OFF_MAX_BY_CHANCE: [f64; 4] = [0.25, 0.25, 0.25, 0.60];
const QUANTITIES: [&str; 4] = ["WAF", "IOPS", "mean", "p99"];
const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// A drive, small enough to be turned over.
struct Cut {
    name: String,
    drive: &'static str,
    changes: Vec<String>,
    /// Blocks that each plane collects while the drive at rest is measured, about.
    blocks: f64,
}

impl Cut {
    fn new(drive: &'static str, changes: &[&str]) -> Cut {
        let changes = changes.iter().map(|&change| change.to_owned()).collect();
        Cut { name: drive.to_owned(), drive, changes, blocks: 60.0 }
    }

    /// A small drive, measured for longer.
    fn small(name: &str, drive: &'static str, changes: &[&str]) -> Cut {
        Cut { name: name.to_owned(), blocks: 120.0, ..Cut::new(drive, changes) }
    }

    /// A valid drive with settings drawn from `seed`.
    fn random(seed: u64) -> Cut {
        const DRIVE: &str = "samsung-pm9a3";
        let choices: [(&str, &[&str]); 16] = [
            ("geometry.channels", &["2", "4"]),
            ("geometry.chips_per_channel", &["1", "2"]),
            ("geometry.dies_per_chip", &["1", "2"]),
            ("geometry.planes_per_die", &["1", "2"]),
            ("geometry.blocks_per_plane", &["96", "128", "200"]),
            ("geometry.pages_per_block", &["64", "128", "192"]),
            ("geometry.page_size", &["8KiB", "16KiB", "32KiB"]),
            ("mapping.unit", &["4KiB", "4KiB", "8KiB"]),
            ("over_provisioning", &["12%", "16%", "20%", "28%"]),
            ("gc.victim", &["greedy", "greedy", "fifo", "cost-benefit", "random++"]),
            ("gc.write_frontiers", &["one", "separate"]),
            ("gc.paced", &["true", "true", "false"]),
            ("gc.preemptible", &["true", "false"]),
            ("cache.size", &["2MiB", "8MiB", "32MiB"]),
            ("allocation.placement", &["static", "striped", "least-loaded"]),
            ("scheduler.multi_plane", &["true", "false"]),
        ];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        loop {
            let draw = |(key, values): &(&str, &[&str])| {
                format!("{key}={}", values[rng.next_u64() as usize % values.len()])
            };
            let changes: Vec<String> = choices.iter().map(draw).collect();
            if Simulation::on_changed(DRIVE, &changes).is_ok() {
                return Cut { name: format!("random {seed}"), drive: DRIVE, changes, blocks: 60.0 };
            }
        }
    }
}

/// A load: its name, its flows without an end.
struct Load {
    name: &'static str,
    flows: &'static [&'static str],
    /// Where the load is given: its share of what closed loops at QD 32 sustain.
    share: Option<f64>,
}

const fn load(name: &'static str, flows: &'static [&'static str]) -> Load {
    Load { name, flows, share: None }
}

const LOADS: [Load; 13] = [
    load("write-1", &["rw=randwrite bs=4k iodepth=1"]),
    load("write-32", &["rw=randwrite bs=4k iodepth=32"]),
    load("mixed-1", &["rw=randrw rwmixread=70 bs=4k iodepth=1"]),
    load("mixed-16", &["rw=randrw rwmixread=70 bs=4k iodepth=16"]),
    load("mixed-64", &["rw=randrw rwmixread=70 bs=4k iodepth=64"]),
    Load { name: "rate-30", flows: &["rw=randwrite bs=4k"], share: Some(0.30) },
    Load { name: "rate-70", flows: &["rw=randwrite bs=4k"], share: Some(0.70) },
    Load { name: "rate-95", flows: &["rw=randwrite bs=4k"], share: Some(0.95) },
    load("hot-cold", &["rw=randwrite bs=4k iodepth=32 random_distribution=hotcold:90/10"]),
    load("sequential", &["rw=write bs=128k iodepth=8"]),
    load("flushed-8", &["rw=randwrite bs=4k iodepth=8 fsync=4"]),
    load("through-8", &["rw=randwrite bs=4k iodepth=8 sync=1"]),
    load(
        "two-flows",
        &[
            "rw=randwrite bs=4k iodepth=8 size=50%",
            "rw=randrw rwmixread=70 bs=16k iodepth=8 offset=50% size=50%",
        ],
    ),
];

/// What is compared.
struct Seen {
    values: [f64; 4],
    verdict: Option<Verdict>,
    collected: u64,
    halves: String,
    bytes_per_s: f64,
    seconds: f64,
}

impl Seen {
    fn of(result: &RunResult) -> Seen {
        let sides = || result.flows.iter().flat_map(|flow| [&flow.read, &flow.write]);
        let ios: f64 = sides().map(|side| side.ios as f64).sum();
        let of = |value: fn(&mynah_result::Latency) -> f64| {
            let each =
                sides().filter_map(|side| Some(side.ios as f64 * value(side.lat_ns.as_ref()?)));
            each.sum::<f64>() / ios
        };
        let judged = result.steadiness.as_ref();
        let device = result.device.as_ref().unwrap();
        let seconds = result.simulated_ns * 1e-9;
        Seen {
            values: [
                device.waf.unwrap_or(f64::NAN),
                sides().map(|side| side.iops).sum(),
                of(|latency| latency.mean),
                of(|latency| latency.percentiles.p99),
            ],
            verdict: judged.map(|judged| judged.verdict),
            collected: judged.map_or(0, |judged| judged.blocks_collected),
            halves: judged.and_then(|judged| judged.reason.clone()).unwrap_or_default(),
            bytes_per_s: device.host_bytes_written as f64 / seconds,
            seconds,
        }
    }
}

fn simulation(cut: &Cut, flows: &[String], time: Span, seed: u64) -> Simulation {
    let mut simulation = Simulation::on_changed(cut.drive, &cut.changes).unwrap().seed(seed);
    for (at, flow) in flows.iter().enumerate() {
        let runtime = format!("{flow} runtime={}ns", time.as_ps() / 1000);
        simulation = simulation.flow(&format!("flow-{}", at + 1), &runtime).unwrap();
    }
    simulation
}

/// What came of a drive under a load.
enum Came {
    /// As at rest; what the verdicts of the first seconds were.
    Right(usize),
    /// Not as at rest, and not said to be.
    Warned,
    /// The run that was to be at rest is not.
    NoReference,
    Wrong(String),
}

fn compare(cut: &Cut, load: &Load) -> Came {
    let mut flows: Vec<String> = load.flows.iter().map(|&flow| flow.to_owned()).collect();
    if let Some(share) = load.share {
        let closed = ["rw=randwrite bs=4k iodepth=32".to_owned()];
        let sustained = simulation(cut, &closed, Span::from_secs(2), 9).run().unwrap();
        let iops = Seen::of(&sustained.result).values[1];
        flows[0] += &format!(" rate_iops={}", (iops * share) as u64);
    }
    let first: Vec<Seen> = SEEDS
        .iter()
        .map(|&seed| {
            let run = simulation(cut, &flows, Span::from_secs(1), seed).run();
            Seen::of(&run.unwrap_or_else(|e| panic!("{} {}: {e}", cut.name, load.name)).result)
        })
        .collect();
    let mean = |of: &dyn Fn(&Seen) -> f64| first.iter().map(of).sum::<f64>() / first.len() as f64;
    // How fast it writes tells how long it takes to turn the drive over.
    let mut reference = simulation(cut, &flows, Span::from_secs(1), 11);
    let config = &reference.config;
    let geometry = config.geometry;
    let flash = geometry.raw_bytes() as f64;
    let bytes_per_s = mean(&|seen| seen.bytes_per_s).max(1.0);
    let ramp_s = 2.1 * flash / bytes_per_s;
    let planes = u64::from(geometry.planes());
    let block = f64::from(geometry.pages_per_block) * f64::from(geometry.page_bytes);
    let waf = mean(&|seen| seen.values[0]).max(1.0);
    // A block is collected for each that is filled.
    let run_s = cut.blocks * planes as f64 * block / (bytes_per_s * waf);
    let span = |seconds: f64| Span::from_ps((seconds * 1e12) as u64);
    reference = simulation(cut, &flows, span(run_s), 11).precondition(Precondition::Fill);
    reference.options.ramp_time = span(ramp_s);
    reference.options.settle = Settle::Off;
    let rest = Seen::of(&reference.run().unwrap().result);
    let off: Vec<f64> =
        (0..4).map(|at| mean(&|seen: &Seen| seen.values[at]) / rest.values[at] - 1.0).collect();
    let steady = first.iter().filter(|seen| seen.verdict == Some(Verdict::Steady)).count();
    let warned = first.iter().filter(|seen| seen.verdict == Some(Verdict::NotSteady)).count();
    print!("| {} | {} |", cut.name, load.name);
    for (at, off) in off.iter().enumerate() {
        let scale = if at > 1 { 1e-3 } else { 1.0 };
        print!(" {:.4} {:+.1} % |", rest.values[at] * scale, off * 100.0);
    }
    let verdict = rest.verdict.map_or("none", Verdict::name);
    println!(
        " {steady} steady, {warned} not | {verdict}, {} in {:.0} s {} |",
        rest.collected, rest.seconds, rest.halves
    );
    // A run that is not known to be at rest itself is no reference.
    if rest.verdict != Some(Verdict::Steady) || rest.collected < 10 * planes {
        return Came::NoReference;
    }
    let beyond = |most: [f64; 4]| {
        let which = (0..4).filter(|&at| off[at].abs() > most[at]);
        let words = which.map(|at| format!("{} {:+.1} %", QUANTITIES[at], off[at] * 100.0));
        words.collect::<Vec<_>>().join(", ")
    };
    let named = |what: String| format!("{} {}: {what}", cut.name, load.name);
    match (beyond(OFF_MAX), beyond(OFF_MAX_BY_CHANCE)) {
        (right, _) if right.is_empty() => Came::Right(warned),
        (off, _) if steady > 0 => Came::Wrong(named(off)),
        (_, far) if !far.is_empty() && warned == 0 => Came::Wrong(named(far)),
        _ => Came::Warned,
    }
}

fn matrix(drives: &[Cut], loads: &[Load]) {
    let chosen = |variable: &str, name: &str| {
        std::env::var(variable).map_or(true, |names| names.split(',').any(|it| it == name))
    };
    println!("| drive | load | WAF | IOPS | mean, us | p99, us | verdicts | at rest |");
    println!("|---|---|---|---|---|---|---|---|");
    let (mut right, mut not_steady, mut warned, mut none) = (0, 0, 0, 0);
    let mut wrong = vec![];
    for cut in drives.iter().filter(|cut| chosen("MYNAH_DRIVES", &cut.name)) {
        for load in loads.iter().filter(|load| chosen("MYNAH_LOADS", load.name)) {
            match compare(cut, load) {
                Came::Right(of) => {
                    right += 1;
                    not_steady += of;
                }
                Came::Warned => warned += 1,
                Came::NoReference => none += 1,
                Came::Wrong(what) => wrong.push(what),
            }
        }
    }
    println!(
        "{right} right ({not_steady} runs of them said not steady), {warned} off and not said \
              to be steady, {none} without reference, {} wrong: {wrong:#?}",
        wrong.len()
    );
    assert!(wrong.is_empty(), "off, and not said to be unsteady: {wrong:#?}");
    assert!(
        not_steady * 10 <= right * SEEDS.len(),
        "{not_steady} of {right} times four are steady"
    );
}

/// Small drives of three kinds: paced, collection left behind by the host, and without a cache.
fn sample() -> [Cut; 3] {
    let paced = [
        "geometry.channels=2",
        "geometry.blocks_per_plane=96",
        "geometry.pages_per_block=96",
        "cache.size=8MiB",
    ];
    let left_behind = [
        "geometry.channels=2",
        "geometry.chips_per_channel=2",
        "geometry.blocks_per_plane=256",
        "geometry.pages_per_block=64",
        "over_provisioning=15%",
        "gc.paced=false",
    ];
    let no_cache = [
        "geometry.channels=2",
        "geometry.chips_per_channel=4",
        "geometry.pages_per_block=96",
        "over_provisioning=20%",
    ];
    [
        Cut::small("paced", "enterprise-tlc", &paced),
        Cut::small("left-behind", "sata-850-pro", &left_behind),
        Cut::small("no-cache", "samsung-48l-tlc", &no_cache),
    ]
}

#[test]
fn the_first_second_is_that_of_a_drive_at_rest() {
    let few = ["write-32", "mixed-16", "rate-70", "hot-cold"];
    let loads: Vec<Load> = LOADS.into_iter().filter(|load| few.contains(&load.name)).collect();
    matrix(&sample(), &loads);
}

/// A cache that flushes empty is not full when the run begins.
#[test]
fn what_is_flushed_begins_as_it_goes_on() {
    let volatile = [
        "geometry.channels=2",
        "geometry.blocks_per_plane=96",
        "geometry.pages_per_block=48",
        "cache.size=8MiB",
        "cache.power_loss_protection=false",
    ];
    let of_flushes = |load: &Load| load.name == "flushed-8" || load.name == "through-8";
    let loads: Vec<Load> = LOADS.into_iter().filter(of_flushes).collect();
    matrix(&[Cut::small("volatile", "enterprise-tlc", &volatile)], &loads);
}

#[test]
#[ignore = "some two CPU hours"]
fn every_shipped_drive_under_every_load() {
    matrix(
        &[
            Cut::new("enterprise-tlc", &["geometry.channels=4", "geometry.blocks_per_plane=100"]),
            Cut::new("samsung-pm9a3", &["geometry.channels=2"]),
            Cut::new("samsung-980-pro", &["geometry.channels=2", "geometry.blocks_per_plane=240"]),
            Cut::new("samsung-970-pro", &["geometry.blocks_per_plane=120"]),
            Cut::new("samsung-48l-tlc", &["geometry.channels=4"]),
            Cut::new("qlc-p4320", &["geometry.channels=3"]),
            Cut::new("sata-850-pro", &["geometry.blocks_per_plane=400"]),
            Cut::new("z-nand-sz985", &["geometry.blocks_per_plane=200"]),
            Cut::new("mqsim", &["geometry.blocks_per_plane=200"]),
            Cut::new("mqsim-table3", &["geometry.blocks_per_plane=200"]),
        ],
        &LOADS,
    );
}

#[test]
#[ignore = "some two CPU hours"]
fn ten_random_drives_under_every_load() {
    matrix(&(1..=10).map(Cut::random).collect::<Vec<_>>(), &LOADS);
}
