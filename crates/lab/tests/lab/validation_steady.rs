//! A preconditioned drive behaves as one that was really written to rest.
//!
//! 16 GiB of flash, filled, then written over several times until write amplification no
//! longer moves, against the same drive preconditioned. Runs of some million writes: with
//! `--release` half a minute, else about one.

use mynah_drive_file as drive;
use mynah_lab::experiment::Precondition;
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_result::histogram::Histogram;
use mynah_result::kind::Kind;
use mynah_stamp::Span;
use mynah_workload::FlowOptions;

/// Planes of the drive below times what each holds, in mapping units.
const UNITS: u64 = 16 * 512 * 256;
const OCCUPIED: f64 = 0.75 * 0.93;

/// 16 GiB as MQSim's drive is built, smaller in every direction.
const GEOMETRY: [&str; 5] = [
    "geometry.channels=4",
    "geometry.chips_per_channel=2",
    "geometry.dies_per_chip=1",
    "geometry.planes_per_die=2",
    "geometry.blocks_per_plane=512",
];

struct Case {
    name: &'static str,
    overrides: &'static [&'static str],
    /// Whether writes go through the write cache.
    cached: bool,
    flow: &'static [(&'static str, &'static str)],
    /// Times the occupied units are written before anything is measured.
    rounds: f64,
    /// Share of the occupied units that is written after preconditioning, before anything is
    /// measured.
    ramp: f64,
}

struct Measured {
    waf: f64,
    mean: f64,
    p99: f64,
    latencies: Histogram,
    seconds: f64,
    hits: f64,
    /// Flash operations for the mapping table for each write.
    mapping: f64,
}

impl Case {
    fn run(&self, precondition: Precondition, seed: u64, ramp: Span, measured: Span) -> Measured {
        let overrides: Vec<String> =
            GEOMETRY.iter().chain(self.overrides).map(|&text| text.to_owned()).collect();
        let mut config = drive::load("mqsim", &overrides).unwrap_or_else(|e| panic!("{e}")).config;
        if !self.cached {
            config.cache = None;
        }
        let mut options = FlowOptions::default();
        let common = [("rw", "randwrite"), ("bs", "8k"), ("size", "75%"), ("occupancy", "75")];
        let runtime = format!("{}ns", measured.as_ps() / 1000);
        for (name, value) in common.iter().chain(self.flow).chain(&[("runtime", &*runtime)]) {
            assert!(options.set(name, *value), "{name}");
        }
        let flow = options.flow("writes").unwrap();
        let options = RunOptions { seed, precondition, ramp_time: ramp, ..RunOptions::default() };
        let runner = Runner::new(config, &[flow], &options).unwrap();
        let Outcome { recorder, counters, .. } = runner.run(|_| true).unwrap();
        let (watched, by_law) = (recorder.mean_outstanding(), recorder.littles_law_outstanding());
        // Commands outstanding when the measurement begins count by their whole stay.
        assert!((watched / by_law - 1.0).abs() < 1e-3, "{}: {watched} {by_law}", self.name);
        let latencies = recorder.latencies(0, Kind::Write).unwrap().clone();
        Measured {
            waf: counters.write_amplification().unwrap(),
            mean: latencies.mean_ns().unwrap(),
            p99: latencies.percentile(99.0).unwrap().as_ns_f64(),
            seconds: recorder.interval().as_secs_f64(),
            hits: counters.cmt_hits as f64 / counters.cmt_lookups.max(1) as f64,
            mapping: (counters.mapping_reads + counters.mapping_programs) as f64
                / latencies.count() as f64,
            latencies,
        }
    }

    fn compare(&self) {
        let units = (UNITS as f64 * OCCUPIED) as u64;
        // Its pace tells how long the other has to be written.
        let first = self.run(Precondition::Steady, 1, Span::from_ms(200), Span::from_ms(2000));
        let per_second = first.latencies.count() as f64 / first.seconds;
        let time = |writes: f64| Span::from_ps((writes / per_second * 1e12) as u64);
        let (ramp, half) = (time(units as f64 * self.ramp), time(units as f64 / 2.0));
        let found: Vec<Measured> =
            (1..=5).map(|seed| self.run(Precondition::Steady, seed, ramp, half)).collect();
        let written =
            self.run(Precondition::Fill, 11, time(units as f64 * self.rounds), half + half);
        let mean =
            |value: fn(&Measured) -> f64| found.iter().map(value).sum::<f64>() / found.len() as f64;
        let (waf, latency, p99) = (mean(|m| m.waf), mean(|m| m.mean), mean(|m| m.p99));
        let mut all = Histogram::default();
        found.iter().for_each(|m| all.merge(&m.latencies));
        let distance = distance(&all, &written.latencies);
        // Student's t for 4 degrees of freedom, and the written run's own share of chance.
        let deviation =
            (found.iter().map(|m| (m.p99 - p99) * (m.p99 - p99)).sum::<f64>() / 4.0).sqrt();
        let interval = 2.776 * deviation * (1.0 + 1.0 / 5.0f64).sqrt();
        let off = |ours: f64, theirs: f64| (ours / theirs - 1.0) * 100.0;
        println!(
            "{}: {} written writes measured\n  WAF {waf:.4} / {:.4} ({:+.2} %)\n  mean us {:.2} / {:.2} \
             ({:+.2} %)\n  p99 us {:.1} / {:.1} ({:+.2} %, interval {:.1})\n  KS {distance:.4}\n  \
             CMT hits {:.4} / {:.4}, table operations a write {:.4} / {:.4}",
            self.name,
            written.latencies.count(),
            written.waf,
            off(waf, written.waf),
            latency / 1e3,
            written.mean / 1e3,
            off(latency, written.mean),
            p99 / 1e3,
            written.p99 / 1e3,
            off(p99, written.p99),
            interval / 1e3,
            mean(|m| m.hits),
            written.hits,
            mean(|m| m.mapping),
            written.mapping,
        );
        assert!(written.latencies.count() > units / 2, "too little was measured");
        assert!(off(waf, written.waf).abs() < 3.0, "{}: WAF", self.name);
        assert!(off(latency, written.mean).abs() < 3.0, "{}: mean", self.name);
        assert!(distance <= 0.02, "{}: KS distance {distance}", self.name);
        assert!(
            off(p99, written.p99).abs() < 3.0 || (p99 - written.p99).abs() < interval,
            "{}: p99",
            self.name
        );
    }
}

/// The Kolmogorov-Smirnov distance: the largest difference of the distribution functions.
fn distance(a: &Histogram, b: &Histogram) -> f64 {
    let (a, b): (Vec<_>, Vec<_>) = (a.cdf().collect(), b.cdf().collect());
    let (mut i, mut j, mut largest) = (0, 0, 0.0f64);
    let (mut below_a, mut below_b) = (0.0, 0.0);
    while i < a.len() || j < b.len() {
        let at = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.0.min(y.0),
            (Some(x), None) | (None, Some(x)) => x.0,
            (None, None) => break,
        };
        while i < a.len() && a[i].0 <= at {
            below_a = a[i].1;
            i += 1;
        }
        while j < b.len() && b[j].0 <= at {
            below_b = b[j].1;
            j += 1;
        }
        largest = largest.max(f64::abs(below_a - below_b));
    }
    largest
}

#[test]
fn uniform_writes() {
    Case {
        name: "uniform, no cache, ideal table",
        overrides: &["mapping.table=ideal", "gc.victim=greedy"],
        cached: false,
        flow: &[("iodepth", "64")],
        rounds: 3.0,
        ramp: 0.05,
    }
    .compare();
}

#[test]
fn hot_and_cold_writes() {
    Case {
        name: "hot/cold 80/20, d-choices",
        overrides: &["mapping.table=ideal"],
        cached: false,
        flow: &[("iodepth", "64"), ("random_distribution", "hotcold:80/20")],
        rounds: 5.0,
        ramp: 0.05,
    }
    .compare();
}

#[test]
fn writes_with_a_cached_mapping_table() {
    Case {
        name: "uniform, write cache, 256 KiB CMT",
        overrides: &["cache.size=16MiB", "mapping.cmt.size=256KiB"],
        cached: true,
        flow: &[("iodepth", "64")],
        rounds: 3.0,
        // Planes that start independently of one another take a while to fall into step.
        ramp: 0.2,
    }
    .compare();
}
