//! The stream of one job of key-value commands.
//!
//! The order of draws within a command is fixed: what it does, whether it misses, the key, the
//! size, the interval; each only if the flow leaves it open.

use super::{KeyAction, KeyChoice, KeyValueFlow, SizeLaw};
use crate::Planned;
use crate::clock::Clock;
use crate::random::{Bounded, Scatter, Zipf, bound, chance};
use crate::{Mode, seed};
use mynah_model::io::{Operation, PlacementId};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

/// Assumed outstanding commands of an open loop without a bound.
const OUTSTANDING: u64 = 256;

/// Draws the commands of one job.
#[derive(Debug)]
pub(crate) struct DrawnKeys {
    rng: Xoshiro256PlusPlus,
    flow: KeyValueFlow,
    /// Actions, with the bounds of the draw that chooses each.
    actions: Vec<(u64, KeyAction)>,
    misses: u64,
    /// Numbers of keys that are never stored, from the first on.
    missing: Bounded,
    sizes: SizeLaw,
    list_keys: Bounded,
    place: Place,
    keys: Keys,
    clock: Clock,
    /// Commands drawn so far.
    drawn: u64,
}

/// The keys of a job, by index; those that may be chosen come first.
#[derive(Debug)]
struct Keys {
    /// Numbers of this job's keys: `offset`, `offset + step` and so on.
    step: u64,
    offset: u64,
    held: Held,
    /// The index of the next new key, and how many there may be.
    next: u64,
    limit: u64,
    /// For keys stored recently, the number of commands drawn before.
    stored: VecDeque<u64>,
    /// Number of commands that have to follow a Store before its key may be chosen.
    lag: u64,
}

#[derive(Debug)]
enum Held {
    /// All from one index to before the next new key.
    From(u64),
    /// Key indices in no order, for jobs that delete keys.
    List(Vec<u64>),
}

/// How the index of a key is chosen.
#[derive(Debug)]
enum Place {
    Uniform(Bounded),
    Zipf {
        zipf: Zipf,
        among: u64,
        theta: f64,
        scatter: Scatter,
        seed: u64,
    },
    Latest {
        zipf: Zipf,
        among: u64,
        theta: f64,
    },
    Sequential(u64),
    /// Each once, in random order; for flows that only store.
    Permuted(Scatter),
}

impl DrawnKeys {
    /// Job `job` of `jobs`. Errors are what is wrong.
    pub(crate) fn new(
        flow: &KeyValueFlow,
        (job, jobs): (u32, u32),
        job_seed: u64,
        flow_seed: u64,
        clock: Clock,
    ) -> Result<DrawnKeys, String> {
        if let Some(problem) = flow.problem() {
            return Err(problem);
        }
        let (only_stores, changes) = (flow.mix.only_stores(), flow.mix.changes_keys());
        let (step, offset) = if changes { (u64::from(jobs), u64::from(job)) } else { (1, 0) };
        let own = (flow.keys.saturating_sub(offset)).div_ceil(step);
        if own == 0 {
            return Err(format!(
                "{} keys are not enough for {jobs} jobs with keys of their own",
                flow.keys
            ));
        }
        let deletes = flow.mix.share(KeyAction::Delete) > 0.0;
        let held = match flow.choice {
            _ if only_stores => Held::From(0),
            KeyChoice::Sequential => Held::From(0),
            _ if deletes => Held::List((0..own).collect()),
            _ => Held::From(0),
        };
        let limit = match only_stores {
            true => own,
            false => (flow.missing().saturating_sub(offset)).div_ceil(step),
        };
        let lag = match flow.mode {
            Mode::Closed { depth } => u64::from(depth),
            Mode::Open { depth, .. } => depth.map_or(OUTSTANDING, u64::from),
        };
        let mut sum = 0.0;
        let actions = KeyAction::ALL.into_iter().filter_map(|action| {
            let share = flow.mix.share(action);
            sum += share;
            (share > 0.0).then(|| (bound(sum), action))
        });
        let mut actions: Vec<_> = actions.collect();
        if let Some(last) = actions.last_mut() {
            last.0 = bound(1.0);
        }
        let place = match flow.choice {
            KeyChoice::Uniform if only_stores => {
                Place::Permuted(Scatter::new(flow.keys, &mut seed::stream(flow_seed)))
            }
            KeyChoice::Uniform => Place::Uniform(Bounded::new(own)),
            KeyChoice::Zipf { theta } => Place::Zipf {
                zipf: Zipf::new(own, theta),
                among: own,
                theta,
                scatter: Scatter::new(own, &mut seed::stream(flow_seed)),
                seed: flow_seed,
            },
            KeyChoice::Latest { theta } => {
                Place::Latest { zipf: Zipf::new(own, theta), among: own, theta }
            }
            KeyChoice::Sequential => Place::Sequential(0),
        };
        Ok(DrawnKeys {
            rng: seed::stream(job_seed),
            actions,
            misses: bound(flow.misses),
            missing: Bounded::new(flow.missing()),
            sizes: SizeLaw::new(&flow.value_size),
            list_keys: Bounded::new(u64::from(flow.list_keys.1 - flow.list_keys.0) + 1),
            place,
            keys: Keys {
                step,
                offset,
                held,
                next: if only_stores { 0 } else { own },
                limit,
                stored: VecDeque::new(),
                lag,
            },
            clock,
            drawn: 0,
            flow: flow.clone(),
        })
    }

    /// The next command; `None` when the job's keys are all gone, or all stored.
    pub(crate) fn next(&mut self) -> Option<Planned> {
        let action = self.action();
        let can_miss = matches!(action, KeyAction::Retrieve | KeyAction::Exist | KeyAction::Delete);
        let misses = can_miss && self.misses > 0 && chance(&mut self.rng) < self.misses;
        let (action, key) = match action {
            _ if misses => (action, self.flow.missing() + self.missing.draw(&mut self.rng)),
            KeyAction::Store => (action, self.new_key()?),
            _ => match self.existing(action == KeyAction::Delete) {
                Some(key) => (action, key),
                None if self.flow.mix.share(KeyAction::Store) > 0.0 => {
                    (KeyAction::Store, self.new_key()?)
                }
                None => return None,
            },
        };
        let bytes = match action {
            KeyAction::Store | KeyAction::Update | KeyAction::ReadModifyWrite => {
                self.sizes.draw(&mut self.rng)
            }
            KeyAction::Retrieve => self.flow.buffer_bytes(),
            KeyAction::List => {
                let more = self.list_keys.draw(&mut self.rng) as u32;
                self.flow.list_bytes(self.flow.list_keys.0 + more)
            }
            KeyAction::Delete | KeyAction::Exist => 0,
        };
        let arrival = match self.clock {
            Clock::Closed => None,
            _ => Some(self.clock.next(&mut self.rng)),
        };
        self.drawn += 1;
        let operation = Operation::Other;
        let placement = PlacementId::default();
        Some(Planned {
            operation,
            key: Some(action),
            sector: key,
            sectors: bytes,
            placement,
            arrival,
        })
    }

    /// Bytes of a key, and of the first value under it.
    pub(crate) fn first_sizes(&self, key: u64) -> (u64, u64) {
        (u64::from(self.flow.key_size.of(key)), u64::from(self.sizes.of(key)))
    }

    fn action(&mut self) -> KeyAction {
        match self.actions[..] {
            [(_, only)] => only,
            _ => {
                let draw = chance(&mut self.rng);
                let drawn = self.actions.iter().find(|(bound, _)| draw < *bound);
                drawn.map_or(KeyAction::Retrieve, |&(_, action)| action)
            }
        }
    }

    /// A key that has not been stored before.
    fn new_key(&mut self) -> Option<u64> {
        let keys = &mut self.keys;
        if keys.next == keys.limit {
            return None;
        }
        let index = keys.next;
        keys.next += 1;
        if let Place::Permuted(scatter) = &self.place {
            return Some(scatter.place(keys.number(index)));
        }
        if !self.flow.mix.only_stores() {
            keys.stored.push_back(self.drawn);
            if let Held::List(list) = &mut keys.held {
                list.push(index);
            }
        }
        Some(keys.number(index))
    }

    /// Draws a key that exists, and removes it from the job's keys if `delete` is set.
    fn existing(&mut self, delete: bool) -> Option<u64> {
        let among = self.keys.settled(self.drawn);
        if among == 0 {
            return None;
        }
        if delete {
            return Some(self.keys.delete(among, &mut self.rng));
        }
        let place = self.place.draw(among, &mut self.rng);
        Some(self.keys.number(self.keys.at(place)))
    }
}

impl Keys {
    fn number(&self, index: u64) -> u64 {
        index * self.step + self.offset
    }

    /// The index of the key at a place among the existing ones.
    fn at(&self, place: u64) -> u64 {
        match &self.held {
            Held::From(first) => first + place,
            Held::List(list) => list[place as usize],
        }
    }

    /// How many keys may be chosen before command `now`.
    fn settled(&mut self, now: u64) -> u64 {
        while self.stored.front().is_some_and(|at| at + self.lag <= now) {
            self.stored.pop_front();
        }
        let all = match &self.held {
            Held::From(first) => self.next - first,
            Held::List(list) => list.len() as u64,
        };
        all - self.stored.len() as u64
    }

    /// Removes one of the first `among` keys.
    fn delete(&mut self, among: u64, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let index = match &mut self.held {
            Held::From(first) => {
                *first += 1;
                *first - 1
            }
            Held::List(list) => {
                let (place, last) = (Bounded::new(among).draw(rng), among as usize - 1);
                list.swap(place as usize, last);
                // Behind it are only those that were stored last.
                list.remove(last)
            }
        };
        self.number(index)
    }
}

impl Place {
    /// Draws a place, of `0..n`.
    fn draw(&mut self, n: u64, rng: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            Place::Uniform(places) => {
                if places.len() != n {
                    *places = Bounded::new(n);
                }
                places.draw(rng)
            }
            Place::Zipf { zipf, among, theta, scatter, seed } => {
                let rank = rank(zipf, among, *theta, n, rng);
                if n > scatter.len() {
                    // Popularity moves; seldom, since there is room for twice as many then.
                    *scatter = Scatter::new(2 * n, &mut seed::stream(*seed));
                }
                scatter.place_below(rank, n)
            }
            Place::Latest { zipf, among, theta } => n - 1 - rank(zipf, among, *theta, n, rng),
            Place::Sequential(next) => {
                let place = *next % n;
                *next = place + 1;
                place
            }
            Place::Permuted(_) => 0,
        }
    }
}

/// A rank below `n`. The law is that of about so many ranks.
fn rank(zipf: &mut Zipf, among: &mut u64, theta: f64, n: u64, rng: &mut Xoshiro256PlusPlus) -> u64 {
    let near = *among >= 128 && n >= *among / 64 * 63 && n <= *among / 63 * 64;
    if n != *among && !near {
        (*zipf, *among) = (Zipf::new(n, theta), n);
    }
    loop {
        let rank = zipf.draw(rng);
        if rank < n {
            return rank;
        }
    }
}
