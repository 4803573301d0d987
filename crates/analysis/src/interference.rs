//! Who was in the same stage at the same time, and what that cost.
//!
//! Each moment that a victim's I/O spends in a stage is somebody's. Where one I/O is served at a time,
//! it is that of the one that came first. Elsewhere it is divided evenly among the other I/Os that are
//! there, or is its own if there are none. These parts add up to the time in the stage. What a stage
//! took beyond what it takes undisturbed is the cost, and is divided likewise. Where the stage is
//! nothing but waiting, a moment without others is somebody's whom no record shows: the drive's own
//! work, or writes that ended in the cache.

use super::analysis::Analysis;
use super::group::{Dimension, GroupBy};
use super::presence::{Scope, Stay, ahead_of_each, stays};
use mynah_lab::batch;
use mynah_result::figures::{duration, percent};
use mynah_stamp::Stage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most parties that are told apart; all others count as one.
const PARTIES_MAX: usize = 8;
/// Name of the parties beyond [`PARTIES_MAX`], together.
const OTHERS: &str = "others";
/// Name of whoever held a resource and has no record.
const UNSEEN: &str = "unseen work";
/// Fewest I/Os that met nobody from which the undisturbed time of a stage is taken.
const ALONE: u64 = 32;
/// A stage below this part of a victim's latency is left out.
const SMALL: f64 = 0.005;

/// What others cost one party.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// Whose I/Os: the session, their type and size.
    pub victim: String,
    /// How many they are.
    pub ios: u64,
    /// Their mean latency.
    pub mean_ns: f64,
    /// Where they met others.
    pub stages: Vec<StageInterference>,
}

/// The same in one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageInterference {
    /// The stage; `drive` is all of the drive's together.
    pub stage: String,
    /// Mean time in it, of all of the victim's I/Os.
    pub mean_ns: f64,
    /// What it would be undisturbed.
    pub quiet_ns: f64,
    /// How that is known.
    pub quiet_from: String,
    /// The part of the time that is its own: nobody else was there, or it was served itself.
    pub alone: f64,
    /// Who else, by cost.
    pub who: Vec<Culprit>,
}

/// One who was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// The session, type and size; `itself` for other I/Os of the victim's own.
    pub who: String,
    /// Its part of the victim's time in the stage.
    pub present: f64,
    /// Its part of what the stage took beyond the undisturbed, of each of the victim's I/Os.
    pub cost_ns: f64,
}

/// Who an I/O belongs to, by number.
struct Parties {
    names: Vec<String>,
    of: Vec<usize>,
}

impl Parties {
    fn of(analysis: &Analysis) -> Parties {
        let by = GroupBy(vec![Dimension::Session, Dimension::Type, Dimension::Size]);
        let mut counts: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        let keys: Vec<Vec<u64>> =
            analysis.trace.ios().iter().map(|io| by.key(&io.head())).collect();
        for key in &keys {
            *counts.entry(key.clone()).or_default() += 1;
        }
        let mut most: Vec<(u64, Vec<u64>)> = counts.into_iter().map(|(key, n)| (n, key)).collect();
        most.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let too_many = most.len() > PARTIES_MAX;
        most.truncate(PARTIES_MAX);
        let mut named: Vec<Vec<u64>> = most.into_iter().map(|(_, key)| key).collect();
        named.sort_unstable();
        let mut names: Vec<String> =
            named.iter().map(|key| by.name(&analysis.header, key)).collect();
        if too_many {
            names.push(OTHERS.to_owned());
        }
        let number = |key| named.binary_search(key).unwrap_or(named.len());
        Parties { of: keys.iter().map(number).collect(), names }
    }
}

/// Stages that are one place where I/Os of several parties may meet.
struct Place {
    stage: String,
    first: usize,
    last: usize,
    /// Whether the first stage is only the wait for what I/Os in the other stages hold.
    waits: bool,
    /// Whether I/Os are served one at a time, first come first served.
    in_order: bool,
    scope: Scope,
}

/// Stages in which one processor, or one connection, serves one after the other.
const IN_ORDER: [&str; 13] = [
    "host_submit",
    "host_turn",
    "intake",
    "entry_fetch",
    "processing",
    "data_transfer",
    "completion_post",
    "late",
    "output",
    "host_receive",
    "host_complete",
    "data_in",
    "data_out",
];

/// Stages that are nothing but waiting, and until the end of which what is waited for is held.
const WAITS: [(&str, &str); 5] = [
    ("submission_queue", "completion"),
    ("cache_wait", "completion"),
    ("block_wait", "flash_array"),
    ("die_wait", "flash_transfer"),
    ("channel_wait", "flash_transfer"),
];

fn places(stages: &[String]) -> Vec<Place> {
    let at = |name: &str| stages.iter().position(|it| it == name);
    let place = |(first, stage): (usize, &String)| {
        let held = WAITS.iter().find(|(waits, _)| waits == stage).and_then(|(_, held)| at(held));
        let scope = match stage.as_str() {
            "host_queue" | "host_submit" | "backlog" | "output" => Scope::Queue,
            "host_turn" | "host_receive" | "host_complete" => Scope::Session,
            _ => Scope::All,
        };
        let last = match stage.as_str() {
            // An entry is held to the end.
            "host_queue" => stages.len() - 1,
            _ => held.unwrap_or(first).max(first),
        };
        let in_order = IN_ORDER.contains(&stage.as_str());
        Place { stage: stage.clone(), first, last, waits: last > first, in_order, scope }
    };
    let mut all: Vec<Place> = stages.iter().enumerate().map(place).collect();
    let of_drive = Stage::OF_DRIVE.map(Stage::name);
    if let (Some(first), Some(last)) = (at(of_drive[0]), at(of_drive[of_drive.len() - 1]))
        && first < last
    {
        let (stage, scope) = ("drive".to_owned(), Scope::All);
        all.push(Place { stage, first, last, waits: false, in_order: false, scope });
    }
    all
}

/// The time that each party spent in a place, by who else was there.
#[derive(Clone, Debug, Default, PartialEq)]
struct Met {
    /// By victim and then by culprit.
    with: Vec<Vec<f64>>,
    alone: Vec<f64>,
}

impl Met {
    fn new(parties: usize) -> Met {
        Met { with: vec![vec![0.0; parties]; parties], alone: vec![0.0; parties] }
    }

    /// Goes through the times of one queue, in which they are divided evenly.
    fn sweep(&mut self, stays: &[Stay], of: &[usize], waits: bool) {
        // When, whose, and by how much those change who are there and those who wait.
        let mut events: Vec<(u64, usize, i8, i8)> = vec![];
        for stay in stays {
            let party = of[stay.io];
            let until = if waits { stay.served } else { stay.leave };
            events.push((stay.enter, party, 1, 1));
            events.push((until, party, 0, -1));
            events.push((stay.leave, party, -1, 0));
        }
        events.sort_unstable();
        let parties = self.alone.len();
        let (mut there, mut waiting) = (vec![0i64; parties], vec![0i64; parties]);
        let mut before = 0;
        for (at, party, comes, waits) in events {
            let all: i64 = there.iter().sum();
            if at > before && all > 0 {
                let span = (at - before) as f64;
                for victim in (0..parties).filter(|it| waiting[*it] > 0) {
                    let waited = span * waiting[victim] as f64;
                    if all == 1 {
                        self.alone[victim] += waited;
                        continue;
                    }
                    for who in (0..parties).filter(|it| there[*it] > 0) {
                        let others = there[who] - i64::from(who == victim);
                        self.with[victim][who] += waited * others as f64 / (all - 1) as f64;
                    }
                }
            }
            before = at;
            there[party] += i64::from(comes);
            waiting[party] += i64::from(waits);
        }
    }

    /// The same where each moment is that of the one who came first. What that one spends then is its
    /// own.
    fn sweep_in_order(&mut self, stays: &[Stay], of: &[usize]) {
        let mut events: Vec<(u64, bool, usize)> = vec![];
        for (number, stay) in stays.iter().enumerate() {
            events.push((stay.enter, true, number));
            events.push((stay.leave, false, number));
        }
        events.sort_unstable();
        let parties = self.alone.len();
        let mut there = vec![0u64; parties];
        let mut order: BTreeSet<usize> = BTreeSet::new();
        let mut before = 0;
        for (at, comes, number) in events {
            if let Some(&first) = order.first() {
                let (span, first) = ((at - before) as f64, of[stays[first].io]);
                for (victim, (with, there)) in self.with.iter_mut().zip(&there).enumerate() {
                    let others = there - u64::from(victim == first);
                    with[first] += span * others as f64;
                }
                self.alone[first] += span;
            }
            before = at;
            let party = of[stays[number].io];
            if comes {
                order.insert(number);
                there[party] += 1;
            } else {
                order.remove(&number);
                there[party] -= 1;
            }
        }
    }
}

/// How long parties are in a place undisturbed.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    ios: u64,
    sum: u128,
}

fn undisturbed(queues: &[Vec<Stay>], of: &[usize], victim: usize, waits: bool) -> Alone {
    let mut alone = Alone::default();
    for stays in queues {
        let others = |io: usize| u64::from(of[io] != victim);
        for (stay, before) in stays.iter().zip(ahead_of_each(stays, others)) {
            if of[stay.io] == victim && before.bytes == 0 {
                alone.ios += 1;
                let until = if waits { stay.served } else { stay.leave };
                alone.sum += u128::from(until - stay.enter);
            }
        }
    }
    alone
}

/// What each party's I/Os met, and what that cost, compared with the same party in a base.
pub(super) fn interference(now: &Analysis, base: Option<&Analysis>) -> Vec<Interference> {
    let (parties, trace) = (Parties::of(now), &now.trace);
    let count = parties.names.len();
    // Of a sample one does not know whom it met.
    if count < 2 || now.is_partial() {
        return vec![];
    }
    let mut ios = vec![0u64; count];
    let mut totals = vec![0u128; count];
    for (io, party) in trace.ios().iter().zip(&parties.of) {
        ios[*party] += 1;
        totals[*party] += trace.stages_of(io).iter().map(|ps| u128::from(*ps)).sum::<u128>();
    }
    let places = places(&now.header.stages);
    let rows = batch::on_all(&places, |place| {
        let queues = stays(trace, place.first, place.last, place.scope);
        let mut met = Met::new(count);
        for stays in &queues {
            match place.in_order {
                true => met.sweep_in_order(stays, &parties.of),
                false => met.sweep(stays, &parties.of, place.waits),
            }
        }
        let row = |victim: usize| {
            let spent = met.alone[victim] + met.with[victim].iter().sum::<f64>();
            let small = spent < SMALL * totals[victim] as f64 || spent <= 0.0;
            let others = (0..count).any(|who| who != victim && met.with[victim][who] > 0.0);
            // Without others, and without a base, there is nothing to say.
            if small || !(others || place.waits || base.is_some()) {
                return None;
            }
            let quiet = base.and_then(|base| of_base(base, place, &parties.names[victim]));
            let quiet = quiet.unwrap_or_else(|| {
                let alone = undisturbed(&queues, &parties.of, victim, place.waits);
                of_alone(alone, &queues, &parties, (victim, ios[victim]), place.waits)
            });
            Some(row(place, &met, victim, (ios[victim], spent), quiet, &parties))
        };
        (0..count).map(row).collect::<Vec<_>>()
    });
    let victim = |victim: usize| Interference {
        victim: parties.names[victim].clone(),
        ios: ios[victim],
        mean_ns: totals[victim] as f64 / 1e3 / ios[victim].max(1) as f64,
        stages: rows.iter().filter_map(|row| row[victim].clone()).collect(),
    };
    (0..count).map(victim).filter(|it| !it.stages.is_empty()).collect()
}

/// Undisturbed time of an I/O, in picoseconds, and how it is known.
type Quiet = (f64, String);

/// Undisturbed times of the same party in a base.
fn of_base(base: &Analysis, place: &Place, name: &str) -> Option<Quiet> {
    let parties = Parties::of(base);
    let party = parties.names.iter().position(|it| it == name)?;
    let at = |stage: &str| base.header.stages.iter().position(|it| it == stage);
    let (first, last) = match place.stage.as_str() {
        "drive" => (at(Stage::OF_DRIVE[0].name())?, at(Stage::OF_DRIVE[14].name())?),
        stage => (at(stage)?, at(stage)?),
    };
    let mut ios = 0u64;
    let mut sum = 0u128;
    for (io, _) in base.trace.ios().iter().zip(&parties.of).filter(|(_, of)| **of == party) {
        ios += 1;
        let spans = base.trace.stages_of(io).get(first..=last)?;
        sum += spans.iter().map(|ps| u128::from(*ps)).sum::<u128>();
    }
    (u64::from(ios > 0) * ios >= ALONE).then(|| (sum as f64 / ios as f64, "the base".to_owned()))
}

/// Taken from those of its I/Os that met nobody, or else from the quickest.
fn of_alone(
    alone: Alone,
    queues: &[Vec<Stay>],
    parties: &Parties,
    (victim, ios): (usize, u64),
    waits: bool,
) -> Quiet {
    if alone.ios >= ALONE {
        // Not all I/Os pass every stage.
        let met: usize = queues.iter().flatten().filter(|it| parties.of[it.io] == victim).count();
        let each = alone.sum as f64 / alone.ios as f64;
        let passed = met as f64 / ios.max(1) as f64;
        return (each * passed, format!("{} I/Os that met nobody", alone.ios));
    }
    let ours = queues.iter().flatten().filter(|it| parties.of[it.io] == victim);
    let mut times: Vec<u64> =
        ours.map(|it| if waits { it.served } else { it.leave } - it.enter).collect();
    times.sort_unstable();
    let low = times.get(times.len() / 10).copied().unwrap_or(0);
    let passed = times.len() as f64 / ios.max(1) as f64;
    (low as f64 * passed, "the quickest tenth".to_owned())
}

fn row(
    place: &Place,
    met: &Met,
    victim: usize,
    (ios, spent): (u64, f64),
    (quiet, quiet_from): Quiet,
    parties: &Parties,
) -> StageInterference {
    let mean = spent / ios.max(1) as f64;
    let cost = (mean - quiet).max(0.0);
    // Time alone in a stage that is service is one's own; in one that is waiting it is somebody's.
    let alone = met.alone[victim];
    let blamed = spent - if place.waits { 0.0 } else { alone };
    let culprit = |who: String, time: f64| Culprit {
        who,
        present: time / spent,
        cost_ns: if blamed > 0.0 { cost * time / blamed / 1e3 } else { 0.0 },
    };
    let others = met.with[victim].iter().enumerate().filter(|(_, time)| **time > 0.0);
    let mut who: Vec<Culprit> = others
        .map(|(who, time)| {
            let name = if who == victim { "itself" } else { &parties.names[who] };
            culprit(name.to_owned(), *time)
        })
        .collect();
    if place.waits && alone > 0.0 {
        who.push(culprit(UNSEEN.to_owned(), alone));
    }
    who.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns));
    StageInterference {
        stage: place.stage.clone(),
        mean_ns: mean / 1e3,
        quiet_ns: quiet / 1e3,
        quiet_from,
        alone: alone / spent,
        who,
    }
}

/// The largest costs, for people: a line for each victim, stage and culprit, by cost.
pub(super) fn lines(all: &[Interference], most: usize) -> Vec<String> {
    let mut lines: Vec<(f64, String)> = vec![];
    for it in all {
        for stage in &it.stages {
            // The whole of the drive is said only where its stages do not say who.
            let named = |who: &str| -> f64 {
                let stages = it.stages.iter().filter(|one| one.stage != "drive");
                stages
                    .flat_map(|one| &one.who)
                    .filter(|one| one.who == who)
                    .map(|one| one.cost_ns)
                    .sum()
            };
            for one in &stage.who {
                let said = stage.stage == "drive" && named(&one.who) >= one.cost_ns / 2.0;
                if said || one.cost_ns < 0.01 * it.mean_ns {
                    continue;
                }
                let line = format!(
                    "{} in {}: {} for {} ({} of its {}; there in {} of the time)",
                    it.victim,
                    stage.stage,
                    duration(one.cost_ns),
                    one.who,
                    percent(one.cost_ns / it.mean_ns),
                    duration(it.mean_ns),
                    percent(one.present)
                );
                lines.push((one.cost_ns * it.ios as f64, line));
            }
        }
    }
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    lines.into_iter().take(most).map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests;
