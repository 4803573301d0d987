//! Queue models beside what was measured: how long I/Os would be in a stage if what serves it were as
//! in a base, given when they came to it.
//!
//! Arrivals are those of the profile, service times those of the base: of the same I/Os they would
//! predict themselves. What the model predicts beyond the base is more load; what was measured beyond
//! that is a slower server. Service is taken from I/Os of the base that found the stage empty, where
//! what they took is the service; if hardly any did, the tenth percentile of all stands for it.

mod servers;
mod stations;

use super::analysis::Analysis;
use super::presence::{Stay, ahead, stays};
use super::trace::{Io, Trace};
use mynah_lab::batch;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servers::{Job, central, shared, sharing, split};
use stations::{Discipline, Held, Station};
use std::collections::BTreeMap;

/// Fewest I/Os that found a stage empty from which its service times are taken.
const EMPTY: usize = 32;
/// A model is wrong where the same servers would have taken so many times what was measured.
const REFUTED: f64 = 1.25;
/// Number of draws of service times that must agree: few I/Os at a high load vary by chance.
const DRAWS: u64 = 8;
/// Most servers that are looked for.
const SERVERS_MAX: u64 = 1024;

/// A stage's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageModel {
    /// The stage.
    pub stage: String,
    /// central-fcfs, split-fcfs, central-ps; or delay, where I/Os are served side by side.
    pub model: String,
    /// How many servers each queue has, or how many queues there are; null where they do not matter.
    pub servers: Option<u64>,
    /// Where service times are from.
    pub service: String,
    /// Mean time in the base, of I/Os that passed it.
    pub base_ns: f64,
    /// What the model says of the base itself: how well it fits.
    pub base_predicted_ns: f64,
    /// What it says of this profile's arrivals.
    pub predicted_ns: f64,
    /// What was measured.
    pub measured_ns: f64,
    /// What more load adds, by the model.
    pub more_load_ns: f64,
    /// What the model does not explain: a slower server, or work that no record names.
    pub slower_server_ns: f64,
}

/// A model's prediction for each I/O that passed a stage.
pub(super) struct Predicted {
    stage: &'static str,
    model: &'static str,
    servers: Option<u64>,
    service: String,
    /// By I/O of the trace: predicted, and measured.
    base: Vec<(usize, f64, f64)>,
    now: Vec<(usize, f64, f64)>,
}

/// Why there can be no models of these profiles; `None` if there can.
pub(super) fn obstacle(base: &Analysis, now: &Analysis) -> Option<&'static str> {
    if now.is_partial() {
        return Some("arrivals of I/Os without a record are not known: record every I/O");
    }
    base.is_partial()
        .then_some("I/Os of the base without a record may have been in a stage with others")
}

/// Predicts all stages that both profiles have and that are queues.
pub(super) fn predict(base: &Analysis, now: &Analysis) -> Vec<Predicted> {
    if obstacle(base, now).is_some() {
        return vec![];
    }
    let predicted = batch::on_all(&stations::ALL, |station| of_station(station, base, now));
    predicted.into_iter().flatten().collect()
}

/// The models of every group that both profiles have.
pub(super) fn by_group(base: &Analysis, now: &Analysis) -> BTreeMap<String, Vec<StageModel>> {
    let predicted = predict(base, now);
    let of_group = |(name, _): (String, _)| {
        let ios =
            |it: &Analysis| -> Vec<bool> { it.trace.ios().iter().map(it.is_of(&name)).collect() };
        let (in_base, in_now) = (ios(base), ios(now));
        let models = predicted.iter().filter_map(|it| it.model(|io| in_base[io], |io| in_now[io]));
        let models: Vec<StageModel> = models.collect();
        (!models.is_empty()).then_some((name, models))
    };
    now.groups().filter_map(of_group).collect()
}

impl Predicted {
    /// Makes the model of one station, over some I/Os of either profile.
    pub(super) fn model(
        &self,
        of_base: impl Fn(usize) -> bool,
        of_now: impl Fn(usize) -> bool,
    ) -> Option<StageModel> {
        let mean = |all: &[(usize, f64, f64)], of: &dyn Fn(usize) -> bool| {
            let (mut ios, mut predicted, mut measured) = (0u64, 0.0, 0.0);
            for (_, one, other) in all.iter().filter(|(io, ..)| of(*io)) {
                (ios, predicted, measured) = (ios + 1, predicted + one, measured + other);
            }
            let ns = ios as f64 * 1e3;
            (ios > 0).then(|| (predicted / ns, measured / ns))
        };
        let (base_predicted_ns, base_ns) = mean(&self.base, &of_base)?;
        let (predicted_ns, measured_ns) = mean(&self.now, &of_now)?;
        Some(StageModel {
            stage: self.stage.to_owned(),
            model: self.model.to_owned(),
            servers: self.servers,
            service: self.service.clone(),
            base_ns,
            base_predicted_ns,
            predicted_ns,
            measured_ns,
            // What the model gets wrong of the base it gets wrong here as well.
            more_load_ns: predicted_ns - base_predicted_ns,
            slower_server_ns: (measured_ns - base_ns) - (predicted_ns - base_predicted_ns),
        })
    }
}

/// One profile's I/Os in a station, by queue.
struct Side<'a> {
    trace: &'a Trace,
    queues: Vec<Vec<Stay>>,
}

impl<'a> Side<'a> {
    fn of(analysis: &'a Analysis, station: &Station) -> Option<Side<'a>> {
        let stages = &analysis.header.stages;
        let at = |name: &str| stages.iter().position(|it| it == name);
        let first = at(station.stage)?;
        let last = match station.held {
            Held::Itself => first,
            Held::Until(last) => at(last).filter(|last| *last > first)?,
            Held::ToTheEnd => stages.len().checked_sub(1).filter(|last| *last > first)?,
        };
        let mut queues = stays(&analysis.trace, first, last, station.scope);
        if station.held != Held::Itself {
            // Those who do not hold what others wait for are not in the queue.
            queues.iter_mut().for_each(|stays| stays.retain(|stay| stay.leave > stay.served));
        }
        queues.retain(|stays| !stays.is_empty());
        (!queues.is_empty()).then_some(Side { trace: &analysis.trace, queues })
    }

    fn io(&self, stay: &Stay) -> &Io {
        &self.trace.ios()[stay.io]
    }

    /// Most that were served at once in a queue.
    fn most_at_once(&self) -> u64 {
        let served = |stays: &Vec<Stay>| {
            let mut held: Vec<Stay> =
                stays.iter().map(|it| Stay { enter: it.served, ..*it }).collect();
            held.sort_unstable_by_key(|stay| (stay.enter, stay.io));
            ahead(self.trace, &held).iter().map(|it| it.ios + 1).max().unwrap_or(1)
        };
        self.queues.iter().map(served).max().unwrap_or(1)
    }
}

/// Service times by what an I/O is.
struct Services {
    by_class: BTreeMap<(u8, u32), Vec<f64>>,
    all: Vec<f64>,
    source: String,
}

fn class(io: &Io) -> (u8, u32) {
    (io.kind, io.bytes)
}

impl Services {
    fn of(base: &Side<'_>, station: &Station) -> Services {
        let mut seen: Vec<((u8, u32), f64, bool)> = vec![];
        for stays in &base.queues {
            let spans: Vec<(u64, u64)> = stays.iter().map(|it| (it.enter, it.leave)).collect();
            let got = (station.discipline == Discipline::Sharing).then(|| shared(&spans));
            for (n, (stay, before)) in stays.iter().zip(ahead(base.trace, stays)).enumerate() {
                let served = match (station.held, &got) {
                    // What was held is known of all.
                    (Held::Until(_) | Held::ToTheEnd, _) => (stay.leave - stay.served) as f64,
                    (Held::Itself, Some(got)) => got[n],
                    (Held::Itself, None) => (stay.leave - stay.enter) as f64,
                };
                let sure = station.held != Held::Itself || before.ios == 0;
                seen.push((class(base.io(stay)), served, sure));
            }
        }
        let sure = seen.iter().filter(|it| it.2).count();
        if sure < EMPTY {
            let mut all: Vec<f64> = seen.iter().map(|it| it.1).collect();
            all.sort_unstable_by(f64::total_cmp);
            let low = all.get(all.len() / 10).copied().unwrap_or(0.0);
            let source =
                format!("the tenth percentile of {} base I/Os: {sure} found it empty", all.len());
            return Services { by_class: BTreeMap::new(), all: vec![low], source };
        }
        let source = match station.held {
            Held::Itself => format!("{sure} base I/Os that found it empty"),
            _ => format!("{sure} base I/Os, from the end of their wait"),
        };
        let mut services = Services { by_class: BTreeMap::new(), all: vec![], source };
        for (class, served, _) in seen.into_iter().filter(|it| it.2) {
            services.by_class.entry(class).or_default().push(served);
            services.all.push(served);
        }
        services.by_class.retain(|_, of| of.len() >= EMPTY);
        services
    }

    fn draw(&self, io: &Io, rng: &mut impl Rng) -> f64 {
        let of = self.by_class.get(&class(io)).unwrap_or(&self.all);
        let at = (u128::from(rng.next_u64()) * of.len() as u128) >> 64;
        of.get(at as usize).copied().unwrap_or(0.0)
    }

    fn mean(&self) -> f64 {
        self.all.iter().sum::<f64>() / self.all.len().max(1) as f64
    }
}

/// Predicted and measured times in the stage, by I/O.
fn simulate(
    side: &Side<'_>,
    station: &Station,
    services: &Services,
    servers: u64,
    draw: u64,
) -> Vec<(usize, f64, f64)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9 + draw);
    let mut all = vec![];
    for stays in &side.queues {
        let job = |stay: &Stay| {
            let io = side.io(stay);
            Job {
                arrival: stay.enter,
                service: services.draw(io, &mut rng),
                queue: spread(io.block) % servers.max(1),
            }
        };
        let jobs: Vec<Job> = stays.iter().map(job).collect();
        let times = match station.discipline {
            Discipline::Central => central(&jobs, servers as usize),
            Discipline::Split => split(&jobs),
            Discipline::Sharing => sharing(&jobs),
        };
        for ((stay, job), time) in stays.iter().zip(&jobs).zip(times) {
            all.push(match station.held {
                Held::Itself => (stay.io, time, (stay.leave - stay.enter) as f64),
                _ => (stay.io, time - job.service, (stay.served - stay.enter) as f64),
            });
        }
    }
    all
}

/// The server of a block: blocks are spread over servers by a hash.
fn spread(block: u64) -> u64 {
    let mixed = (block ^ block >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn means(all: &[(usize, f64, f64)]) -> (f64, f64) {
    let of = all.len().max(1) as f64;
    let sum = |at: fn(&(usize, f64, f64)) -> f64| all.iter().map(at).sum::<f64>() / of;
    (sum(|it| it.1), sum(|it| it.2))
}

fn of_station(station: &Station, base: &Analysis, now: &Analysis) -> Option<Predicted> {
    let (base, now) = (Side::of(base, station)?, Side::of(now, station)?);
    let services = Services::of(&base, station);
    let servers = match (station.held, station.discipline) {
        (Held::Itself, _) => 1,
        // As many as were ever held at once: entries of a queue are all taken where anybody waits.
        (_, Discipline::Central) => base.most_at_once().max(now.most_at_once()),
        (_, Discipline::Split | Discipline::Sharing) => fitted(&base, station, &services)?,
    };
    let mut predicted = Predicted {
        stage: station.stage,
        model: match station.discipline {
            Discipline::Central => "central-fcfs",
            Discipline::Split => "split-fcfs",
            Discipline::Sharing => "central-ps",
        },
        servers: Some(servers),
        base: simulate(&base, station, &services, servers, 0),
        now: simulate(&now, station, &services, servers, 0),
        service: services.source.clone(),
    };
    let is_refuted = |(predicted, measured): (f64, f64)| {
        predicted > REFUTED * measured && predicted - measured > 0.05 * services.mean()
    };
    let is_refuted = |side: &Side<'_>, first: &[(usize, f64, f64)]| {
        let again = |draw| means(&simulate(side, station, &services, servers, draw));
        is_refuted(means(first)) && (1..DRAWS).all(|draw| is_refuted(again(draw)))
    };
    if station.held == Held::Itself
        && (is_refuted(&base, &predicted.base) || is_refuted(&now, &predicted.now))
    {
        // One server could not have done this: I/Os pass side by side.
        let (_, base_mean) = means(&predicted.base);
        (predicted.model, predicted.servers) = ("delay", None);
        let each = predicted.base.iter_mut().chain(&mut predicted.now);
        each.for_each(|it| it.1 = base_mean);
    }
    Some(predicted)
}

/// How many servers there are, from how long I/Os of the base waited for them; nothing if hardly any
/// did.
fn fitted(base: &Side<'_>, station: &Station, services: &Services) -> Option<u64> {
    let waits = |servers| means(&simulate(base, station, services, servers, 0));
    let (one, measured) = waits(1);
    if measured < 0.02 * services.mean() || one <= measured {
        return None;
    }
    let (mut low, mut high) = (1, SERVERS_MAX);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match waits(middle).0 > measured {
            true => low = middle,
            false => high = middle,
        }
    }
    let off = |servers: u64| (waits(servers).0 - measured).abs();
    Some(if off(low) < off(high) { low } else { high })
}

#[cfg(test)]
mod tests;
