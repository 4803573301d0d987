//! The host interface: queue pairs, doorbells, the fetch of submission queue entries, and
//! room in completion queues.
//!
//! The fetch unit serves queues round robin, or by priority class and weight, a burst at a
//! time, and never lets more than `fetch_size` commands of one queue into the controller (the
//! paper's QueueFetchSize).

use crate::config::{Arbitration, Priority, Queues, Weights};
use crate::host::command::Command;
use crate::io::{Queue, QueueId, QueueKind};
use crate::kernel::pool::{List, Pool};
use crate::kernel::ring::Ring;
use crate::number::CommandIndex;
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Stage, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::hint::cold_path;

/// Fetches that the fetch unit has under way at once. With one alone, it would stand behind
/// read data whenever the link towards the host is full, and leave the drive idle. An
/// estimate: enough that a full link never waits for a fetch.
const FETCHES_MAX: u32 = 8;

#[derive(Serialize, Deserialize)]
pub(crate) struct QueuePair {
    pub(crate) queue: Queue,
    pub(crate) flow: HolderIndex,
    pub(crate) deleted: bool,
    /// Rung by the host, oldest first: when, and how many.
    rung: VecDeque<(Time, u32)>,
    /// Doorbells on their way over the link.
    doorbells: u32,
    /// Entries whose doorbell has arrived and that are not being fetched.
    waiting: u32,
    /// Entries being fetched: when they were rung, and when the fetch began.
    fetching: VecDeque<(Time, Time)>,
    /// Fetched and not taken into the controller: reported to the host and not answered.
    pub(crate) unanswered: u32,
    /// Commands whose entries the drive reads by itself, from the one to be taken into the
    /// controller next, and the first of them that is not being fetched.
    submitted: List<CommandIndex>,
    to_fetch: CommandIndex,
    /// Commands in the controller, those being fetched included.
    pub(crate) in_flight: u32,
    /// Completion queue entries that the host has not freed, as far as the drive knows.
    completion_used: u32,
    /// Frees on their way over the link: when they arrive, and how many.
    frees: Ring<(Time, u32)>,
    /// Completed commands that wait for room in the completion queue.
    pub(crate) blocked: VecDeque<CommandIndex>,
    /// Whether an event for the next free is scheduled.
    pub(crate) watching_frees: bool,
}

impl QueuePair {
    /// Whether a completion can be posted at `now`; takes the place if so.
    #[inline(always)]
    pub(crate) fn take_completion_place(&mut self, now: Time) -> bool {
        if self.completion_used + 1 >= self.queue.completion_entries {
            cold_path();
            while self.take_free(now) {}
        }
        // One place always stays empty, or full and empty would look alike.
        let room = self.completion_used + 1 < self.queue.completion_entries;
        self.completion_used += u32::from(room);
        room
    }

    /// Takes the next free if it has reached the drive; whether it has.
    #[inline(always)]
    fn take_free(&mut self, now: Time) -> bool {
        match self.frees.front() {
            Some((at, count)) if at <= now => {
                self.completion_used = self.completion_used.saturating_sub(count);
                self.frees.pop();
                true
            }
            _ => false,
        }
    }

    /// When the next free reaches the drive.
    pub(crate) fn next_free(&self) -> Option<Time> {
        self.frees.front().map(|(at, _)| at)
    }

    /// The host has freed entries at `now`, which the drive hears at `at`. Nobody else looks at
    /// what it has heard before room is short: with each that comes one goes, lest they pile up.
    #[inline]
    pub(crate) fn add_free(&mut self, now: Time, at: Time, count: u32) {
        self.take_free(now);
        self.frees.push((at, count));
    }
}

/// All queue pairs and the fetch unit.
#[derive(Serialize, Deserialize)]
pub(crate) struct HostInterface {
    config: Queues,
    pub(crate) queues: Vec<QueuePair>,
    /// Place of each identifier's queue pair plus one, 0 for none.
    index: Vec<u32>,
    /// Queue whose turn it is.
    turn: usize,
    weighted: Option<Weighted>,
    fetching: u32,
    /// Commands in the controller.
    commands: u32,
    /// Entries that wait in all queues.
    waiting: u64,
}

/// The state of weighted arbitration.
#[derive(Serialize, Deserialize)]
struct Weighted {
    weights: [u32; 3],
    /// Commands that high, medium and low priority may still have fetched in this round.
    left: [u32; 3],
    /// Queue whose turn it is in each class.
    turns: [usize; 4],
}

impl Weighted {
    fn new(weights: Weights) -> Weighted {
        let weights = [weights.high, weights.medium, weights.low].map(u32::from);
        Weighted { weights, left: weights, turns: [0; 4] }
    }
}

impl HostInterface {
    pub(crate) fn new(config: Queues) -> HostInterface {
        HostInterface {
            weighted: match config.arbitration {
                Arbitration::RoundRobin => None,
                Arbitration::Weighted(weights) => Some(Weighted::new(weights)),
            },
            config,
            queues: Vec::new(),
            index: Vec::new(),
            turn: 0,
            fetching: 0,
            commands: 0,
            waiting: 0,
        }
    }

    /// Commands in the controller, those being fetched included. A command that only waits for
    /// room in its completion queue has left it.
    pub(crate) fn commands_inside(&self) -> u32 {
        self.commands
    }

    #[inline]
    pub(crate) fn find(&self, id: QueueId) -> Option<u16> {
        self.index.get(usize::from(id.0))?.checked_sub(1).map(|at| at as u16)
    }

    /// Adds a queue pair, whose flow is this holder; false if its identifier is in use.
    pub(crate) fn create(&mut self, queue: Queue, flow: HolderIndex) -> bool {
        if self.find(queue.id).is_some() {
            return false;
        }
        let pair = QueuePair {
            queue,
            flow,
            deleted: false,
            rung: VecDeque::new(),
            doorbells: 0,
            waiting: 0,
            fetching: VecDeque::new(),
            unanswered: 0,
            submitted: List::EMPTY,
            to_fetch: CommandIndex::NONE,
            in_flight: 0,
            completion_used: 0,
            frees: Ring::default(),
            blocked: VecDeque::new(),
            watching_frees: false,
        };
        // A deleted pair's place is reused once nothing refers to it.
        let vacant = self.queues.iter().position(|pair| {
            pair.deleted && pair.in_flight == 0 && pair.doorbells == 0 && !pair.watching_frees
        });
        let at = vacant.unwrap_or(self.queues.len());
        match vacant {
            Some(at) => self.queues[at] = pair,
            None => self.queues.push(pair),
        }
        let id = usize::from(queue.id.0);
        if self.index.len() <= id {
            self.index.resize(id + 1, 0);
        }
        self.index[id] = at as u32 + 1;
        true
    }

    /// Takes a queue pair out of service; returns its index.
    pub(crate) fn delete(&mut self, id: QueueId, commands: &mut Pool<Command>) -> Option<u16> {
        let at = self.find(id)?;
        self.index[usize::from(id.0)] = 0;
        let pair = &mut self.queues[usize::from(at)];
        pair.deleted = true;
        self.waiting -= u64::from(pair.waiting);
        pair.waiting = 0;
        pair.rung.clear();
        pair.in_flight -= pair.unanswered;
        self.commands -= pair.unanswered;
        for _ in 0..std::mem::take(&mut pair.unanswered) {
            match commands.pop_front(&mut pair.submitted) {
                Some(command) => commands.remove(command),
                None => drop(pair.fetching.pop_front()),
            }
        }
        // Those that are being fetched stay until they arrive.
        let mut left = std::mem::replace(&mut pair.to_fetch, CommandIndex::NONE);
        let mut remaining = List::EMPTY;
        while let Some(command) = commands.pop_front(&mut pair.submitted) {
            if command == left {
                left = commands[command].next;
                commands.remove(command);
            } else {
                commands.push_back(&mut remaining, command);
            }
        }
        pair.submitted = remaining;
        Some(at)
    }

    /// The host has rung for `count` commands.
    #[inline]
    pub(crate) fn rung(&mut self, queue: u16, now: Time, count: u32) {
        let pair = &mut self.queues[usize::from(queue)];
        pair.rung.push_back((now, count));
        pair.doorbells += 1;
    }

    /// The host has rung for one command that the drive reads by itself.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        queue: u16,
        commands: &mut Pool<Command>,
        command: CommandIndex,
    ) {
        let pair = &mut self.queues[usize::from(queue)];
        pair.doorbells += 1;
        commands.push_back(&mut pair.submitted, command);
        if pair.to_fetch == CommandIndex::NONE {
            pair.to_fetch = command;
        }
    }

    /// Takes the first of the commands that are being fetched.
    #[inline]
    pub(crate) fn take_submitted(
        &mut self,
        queue: u16,
        commands: &mut Pool<Command>,
    ) -> Option<CommandIndex> {
        let pair = &mut self.queues[usize::from(queue)];
        pair.unanswered = pair.unanswered.checked_sub(1)?;
        commands.pop_front(&mut pair.submitted)
    }

    /// Whether the drive reads the commands of `queue` by itself.
    #[inline]
    pub(crate) fn is_submitted_to(&self, queue: u16) -> bool {
        !self.queues[usize::from(queue)].submitted.is_empty()
    }

    /// Whether the host hands over the commands of `queue` when it is asked for them.
    #[inline]
    pub(crate) fn is_rung(&self, queue: u16) -> bool {
        let pair = &self.queues[usize::from(queue)];
        !pair.rung.is_empty() || !pair.fetching.is_empty()
    }

    /// A submission queue's doorbell has arrived, for `count` new entries.
    #[inline]
    pub(crate) fn doorbell(&mut self, queue: u16, count: u32) {
        let pair = &mut self.queues[usize::from(queue)];
        pair.doorbells -= 1;
        if !pair.deleted {
            let waiting = pair.waiting.saturating_add(count);
            self.waiting += u64::from(waiting - pair.waiting);
            pair.waiting = waiting;
        }
    }

    /// Whether one more fetch may be under way and an entry waits.
    #[inline]
    pub(crate) fn may_fetch(&self) -> bool {
        self.fetching < FETCHES_MAX && self.waiting > 0
    }

    /// Starts the next fetch if one more may be under way and a queue may go: which queue, and
    /// how many entries.
    #[inline(always)]
    pub(crate) fn next_fetch(
        &mut self,
        now: Time,
        commands: &mut Pool<Command>,
    ) -> Option<(u16, u32)> {
        if !self.may_fetch() {
            return None;
        }
        if self.weighted.is_some() {
            cold_path();
            return self.next_weighted_fetch(now, commands);
        }
        for step in 0..self.queues.len() {
            let mut at = self.turn + step;
            if at >= self.queues.len() {
                at -= self.queues.len();
            }
            let count = self.fetchable(at, self.config.arbitration_burst);
            if count == 0 {
                continue;
            }
            self.turn = if at + 1 < self.queues.len() { at + 1 } else { 0 };
            return Some(self.start_fetch(at, count, now, commands));
        }
        None
    }

    /// Entries of the queue at `at` that can be fetched now, at most `most`.
    #[inline(always)]
    fn fetchable(&self, at: usize, most: u32) -> u32 {
        let slots = self.config.command_slots.saturating_sub(self.commands);
        let pair = &self.queues[at];
        let room = self.config.fetch_size.saturating_sub(pair.in_flight).min(slots);
        pair.waiting.min(most).min(room)
    }

    /// Takes `count` entries of the queue at `at` as being fetched.
    #[inline(always)]
    fn start_fetch(
        &mut self,
        at: usize,
        count: u32,
        now: Time,
        commands: &mut Pool<Command>,
    ) -> (u16, u32) {
        let pair = &mut self.queues[at];
        pair.waiting -= count;
        self.waiting -= u64::from(count);
        pair.in_flight += count;
        for _ in 0..count {
            if pair.to_fetch != CommandIndex::NONE {
                let command = &mut commands[pair.to_fetch];
                command.end_stage(Stage::SubmissionQueue, now);
                pair.to_fetch = command.next;
            } else if let Some((rung, left)) = pair.rung.front_mut() {
                pair.fetching.push_back((*rung, now));
                *left -= 1;
                if *left == 0 {
                    pair.rung.pop_front();
                }
            }
        }
        self.commands += count;
        self.fetching += 1;
        (at as u16, count)
    }

    /// The next fetch by priority class and weight.
    #[inline(never)]
    fn next_weighted_fetch(
        &mut self,
        now: Time,
        commands: &mut Pool<Command>,
    ) -> Option<(u16, u32)> {
        let mut weighted = self.weighted.take()?;
        // The first queue of each class that may go: its turn from now, its place, and how many.
        let mut first: [Option<(usize, usize, u32)>; 4] = [None; 4];
        for (at, pair) in self.queues.iter().enumerate().filter(|(_, pair)| pair.waiting > 0) {
            let class = pair.queue.priority as usize;
            let count = self.fetchable(at, self.config.arbitration_burst);
            let turn = weighted.turns[class];
            let step = if at >= turn { at - turn } else { at + self.queues.len() - turn };
            if count > 0 && first[class].is_none_or(|(before, ..)| step < before) {
                first[class] = Some((step, at, count));
            }
        }
        let urgent = first[Priority::Urgent as usize].map(|(_, at, count)| (0, (at, count)));
        let among = |left: &[u32; 3]| {
            (1..4).find_map(|class| match (first[class], left[class - 1]) {
                (None, _) | (_, 0) => None,
                (Some((_, at, count)), left) => Some((class, (at, count.min(left)))),
            })
        };
        // Those that have something left of this round; then all of them, in a new one.
        let mut found = urgent.or_else(|| among(&weighted.left));
        if found.is_none() && first.iter().any(Option::is_some) {
            weighted.left = weighted.weights;
            found = among(&weighted.left);
        }
        if let Some((class, (at, count))) = found {
            weighted.turns[class] = at + 1;
            if let Some(left) = class.checked_sub(1) {
                weighted.left[left] -= count;
            }
        }
        self.weighted = Some(weighted);
        let (_, (at, count)) = found?;
        Some(self.start_fetch(at, count, now, commands))
    }

    /// Changes the burst, and the weights where there are any.
    pub(crate) fn set_arbitration(&mut self, burst: u32, weights: Weights) {
        self.config.arbitration_burst = burst.max(1);
        if let Some(weighted) = &mut self.weighted {
            *weighted = Weighted::new(weights);
            self.config.arbitration = Arbitration::Weighted(weights);
        }
    }

    /// Fetched entries have arrived.
    #[inline]
    pub(crate) fn fetched(&mut self, queue: u16, count: u32, commands: &mut Pool<Command>) {
        self.fetching -= 1;
        let pair = &mut self.queues[usize::from(queue)];
        if pair.deleted {
            cold_path();
            for _ in 0..count {
                match commands.pop_front(&mut pair.submitted) {
                    Some(command) => commands.remove(command),
                    None => drop(pair.fetching.pop_front()),
                }
            }
            pair.in_flight -= count;
            self.commands -= count;
        } else {
            pair.unanswered += count;
        }
    }

    /// The host hands over a command. For a memory queue it must have been fetched; returns
    /// when it was rung and when its fetch began. `None` if it was not asked for.
    #[inline]
    pub(crate) fn accept(&mut self, queue: u16, now: Time) -> Option<(Time, Time)> {
        let pair = &mut self.queues[usize::from(queue)];
        match pair.queue.kind {
            QueueKind::Fetched | QueueKind::Network { .. } => {
                self.enter(queue);
                Some((now, now))
            }
            QueueKind::Memory => {
                pair.unanswered = pair.unanswered.checked_sub(1)?;
                pair.fetching.pop_front()
            }
        }
    }

    /// A command of `queue` is in the controller, or on its way there.
    #[inline]
    pub(crate) fn enter(&mut self, queue: u16) {
        self.queues[usize::from(queue)].in_flight += 1;
        self.commands += 1;
    }

    /// A command of `queue` leaves the controller.
    #[inline]
    pub(crate) fn release(&mut self, queue: u16) {
        self.queues[usize::from(queue)].in_flight -= 1;
        self.commands -= 1;
    }

    /// One that was to leave stays: it has more to do.
    pub(crate) fn retain(&mut self, queue: u16) {
        self.queues[usize::from(queue)].in_flight += 1;
        self.commands += 1;
    }

    /// Forgets every queue. Commands still inside leave silently.
    pub(crate) fn reset(&mut self, commands: &mut Pool<Command>) {
        for at in 0..self.queues.len() {
            if !self.queues[at].deleted {
                self.delete(self.queues[at].queue.id, commands);
            }
        }
    }

    /// Forgets every queue and everything inside them.
    pub(crate) fn power_cut(&mut self) {
        *self = HostInterface::new(self.config);
    }
}
