//! A drive that was served beside its simulation: which latencies of both can be compared, and
//! whether they agree.
//!
//! Real time can be missed on either side. A drive that is late adds to the latencies that it
//! shows; a host that is late sends in bursts what was to come evenly, so that its commands wait
//! for one another as they do not in the simulation. A median bears that only if most commands were
//! spared: if four of ten are late, it lies where the other six have their 83rd percentile. So nine
//! of ten have to be in time.

use mynah_result::kind::Kind;
use mynah_result::{Latency, Result};

/// Share of the median by which nine of ten commands may be late, and by which medians may differ.
const PART: f64 = 0.1;

/// Which latencies of a served drive can be compared with its simulation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Comparable {
    /// None: too many commands were late.
    Nothing,
    /// Medians that are long beside what nine of ten commands were late by.
    Medians,
    /// Their tails as well: the run is to be trusted.
    All,
}

/// By how much nine of ten commands missed real time at most, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Missed {
    /// Of the drive: its answers were late, and the commands' arrivals uncertain.
    pub drive_ns: f64,
    /// Of the host: its commands were sent after they were due.
    pub host_ns: f64,
}

impl Missed {
    /// The larger of the two.
    pub fn most_ns(&self) -> f64 {
        self.drive_ns.max(self.host_ns)
    }
}

/// One kind of command, as simulated and as served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub kind: Kind,
    /// Latencies in the simulation.
    pub predicted: Latency,
    /// Latencies that the served drive measured.
    pub served: Latency,
}

impl Pair {
    /// By how much of the predicted median the served one is longer.
    pub fn difference(&self) -> f64 {
        self.served.percentiles.p50 / self.predicted.percentiles.p50 - 1.0
    }

    /// Whether its median is so long that the lateness does not matter.
    fn bears(&self, missed: Missed) -> bool {
        missed.most_ns() <= PART * self.predicted.percentiles.p50
    }
}

/// The comparison of a served drive with its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Which latencies can be compared.
    pub comparable: Comparable,
    /// By how much drive and host missed real time.
    pub missed: Missed,
    /// The kinds of command that can be compared: those whose medians are long enough for that.
    pub pairs: Vec<Pair>,
}

impl Agreement {
    /// Compares results of one flow: as simulated, as the drive served it, and as the host measured
    /// it.
    pub fn new(predicted: &Result, served: &Result, host: &Result) -> Agreement {
        let missed = Missed { drive_ns: drive_missed(served), host_ns: host_missed(host) };
        let mut pairs = pairs(predicted, served);
        pairs.retain(|pair| pair.bears(missed));
        let comparable = match &served.untrusted {
            _ if pairs.is_empty() => Comparable::Nothing,
            None => Comparable::All,
            Some(_) => Comparable::Medians,
        };
        Agreement { comparable, missed, pairs }
    }

    /// The largest difference of medians that can be compared, either way, as a part of what was
    /// predicted; `None` if there is none.
    pub fn difference(&self) -> Option<f64> {
        self.pairs.iter().map(|pair| pair.difference().abs()).reduce(f64::max)
    }

    /// Whether the medians differ by no more than a tenth; `None` if none can be compared.
    pub fn agrees(&self) -> Option<bool> {
        self.difference().map(|difference| difference <= PART)
    }
}

fn p90(latency: Option<Latency>) -> f64 {
    latency.map_or(0.0, |latency| latency.percentiles.p90)
}

fn drive_missed(served: &Result) -> f64 {
    p90(served.lateness_ns) + p90(served.arrival_uncertainty_ns)
}

/// How late the host sent its commands: the difference of latencies from when they were due and
/// from when they were sent.
fn host_missed(host: &Result) -> f64 {
    let sides = host.flows.iter().flat_map(|flow| flow.sides());
    let missed = sides.map(|(_, side)| (p90(side.e2e_ns) - p90(side.lat_ns)).max(0.0));
    missed.fold(0.0, f64::max)
}

/// The kinds of command that both have. The drive knows its host's flow by another name.
fn pairs(predicted: &Result, served: &Result) -> Vec<Pair> {
    let ([predicted], [served]) = (&predicted.flows[..], &served.flows[..]) else { return vec![] };
    let both = predicted.sides().into_iter().zip(served.sides());
    let pair = both.filter_map(|((kind, predicted), (_, served))| {
        Some(Pair { kind, predicted: predicted.lat_ns?, served: served.lat_ns? })
    });
    pair.filter(|pair| pair.predicted.percentiles.p50 > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_lab::Simulation;
    use mynah_result::Percentiles;
    use std::sync::LazyLock;

    const US: f64 = 1_000.0;

    fn predicted() -> Result {
        static PREDICTED: LazyLock<Result> = LazyLock::new(|| {
            let simulation = Simulation::on("enterprise-tlc").unwrap();
            let flow = "rw=randrw bs=16k rate_iops=2000 number_ios=200";
            // Reads that take longer than what a machine is late by.
            let simulation = simulation
                .set("geometry.blocks_per_plane=64")
                .and_then(|simulation| simulation.set("firmware.read=120us"))
                .and_then(|simulation| simulation.flow("host", flow))
                .unwrap();
            simulation.run().unwrap().result
        });
        PREDICTED.clone()
    }

    /// Half of the commands were so late, nine of ten so late, and one of a hundred.
    fn late(p50: f64, p90: f64, p99: f64) -> Latency {
        let percentiles = Percentiles { p50, p90, p95: p99, p99, p99_9: p99, p99_99: p99 };
        Latency { min: 0.0, mean: p50, stddev: 0.0, max: p99, percentiles }
    }

    /// The same as served, with answers so late.
    fn served(lateness: Latency, untrusted: bool) -> Result {
        let untrusted = untrusted.then(|| "real time was missed".to_owned());
        Result { lateness_ns: Some(lateness), untrusted, ..predicted() }
    }

    /// The host, which sent commands so late.
    fn host(late: f64) -> Result {
        let mut host = predicted();
        let flow = &mut host.flows[0];
        for side in [&mut flow.read, &mut flow.write] {
            side.e2e_ns = side.lat_ns;
            if let Some(e2e) = &mut side.e2e_ns {
                e2e.percentiles.p90 += late;
            }
        }
        host
    }

    #[test]
    fn what_can_be_compared_follows_how_late_most_commands_were() {
        let predicted = predicted();
        let read = predicted.flows[0].read.lat_ns.unwrap().percentiles.p50;
        assert!(read > 150.0 * US, "{read}");
        let of = |lateness, untrusted, behind| {
            Agreement::new(&predicted, &served(lateness, untrusted), &host(behind))
        };
        let on_time = of(late(0.2 * US, 0.5 * US, 10.0 * US), false, 0.0);
        assert_eq!(on_time.comparable, Comparable::All);
        assert_eq!(on_time.pairs.len(), 2);
        assert_eq!((on_time.agrees(), on_time.difference()), (Some(true), Some(0.0)));
        // Writes end in the cache, too soon to be compared beside 5 us.
        let kinds = |pairs: &[Pair]| pairs.iter().map(|pair| pair.kind).collect::<Vec<_>>();
        let cached = of(late(US, 5.0 * US, 10.0 * US), false, 0.0);
        assert_eq!(cached.comparable, Comparable::All);
        assert_eq!(kinds(&cached.pairs), [Kind::Read]);
        // The slowest are the machine's; most are in time.
        let tails = of(late(US, 5.0 * US, 2_000.0 * US), true, 0.0);
        assert_eq!(tails.comparable, Comparable::Medians);
        // Half of them in time do not make a median.
        let half = of(late(US, 400.0 * US, 2_000.0 * US), true, 0.0);
        assert_eq!((half.comparable, half.agrees()), (Comparable::Nothing, None));
        // The drive is in time, but gets its commands in bursts.
        let bursts = of(late(US, 5.0 * US, 10.0 * US), false, 400.0 * US);
        assert_eq!(bursts.comparable, Comparable::Nothing);
        assert!((bursts.missed.most_ns() - 400.0 * US).abs() < 1.0, "{:?}", bursts.missed);
    }

    #[test]
    fn medians_that_differ_by_more_than_lateness_do_not_agree() {
        let predicted = predicted();
        let mut served = served(late(US, 2.0 * US, 10.0 * US), false);
        let slower = served.flows[0].read.lat_ns.as_mut().unwrap();
        slower.percentiles.p50 *= 1.3;
        let agreement = Agreement::new(&predicted, &served, &host(0.0));
        assert_eq!(agreement.agrees(), Some(false));
        assert!((agreement.difference().unwrap() - 0.3).abs() < 1e-9);
    }
}
