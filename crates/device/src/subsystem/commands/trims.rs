//! Deallocations given to the model piece by piece, so that none of them, however long, and not
//! many together, keep everybody else waiting.
//!
//! What the model does for each unit takes this computer some nanoseconds but no time of the
//! drive's. So the model is given only so many units at once, those of all commands together.
//! Steps that would be more wait in order, and get as much again in each later turn.

use super::{Commands, Step};
use crate::subsystem::Subsystem;
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

/// Units deallocated in a turn: some tens of microseconds of work.
const UNITS_PER_TURN: u64 = 8192;

/// Where turns are rarer than this, as while no host waits for anything, each may have as many
/// times more units, up to so many.
const FREQUENT: Span = Span::from_us(100);
const TIMES_MAX: u64 = 8;

/// Turns that deallocate are at least this long apart.
const APART: Span = Span::from_us(10);

/// Units that are left in this turn, and commands that wait for the next.
#[derive(Debug)]
pub(super) struct Trims {
    /// Units that may still be deallocated in this turn.
    left: u64,
    /// When the next turn begins.
    next: Time,
    /// When the one before began, if commands waited then.
    before: Option<Time>,
    /// Commands whose next step waits for it.
    waiting: VecDeque<u32>,
}

impl Default for Trims {
    fn default() -> Trims {
        let (next, before) = (Time::ZERO, None);
        Trims { left: UNITS_PER_TURN, next, before, waiting: VecDeque::new() }
    }
}

impl Trims {
    /// When some that wait may go on.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.next)
    }

    /// A turn begins; whether commands wait for it.
    #[inline]
    fn begin_turn(&mut self, now: Time) -> bool {
        self.left = UNITS_PER_TURN;
        self.next = now + APART;
        if self.waiting.is_empty() {
            self.before = None;
            return false;
        }
        if let Some(before) = self.before.replace(now) {
            let times = now.since(before).as_ps() / FREQUENT.as_ps();
            self.left *= times.clamp(1, TIMES_MAX);
        }
        true
    }

    /// Drops the commands that wait.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }
}

impl Commands {
    /// Whether so many units may be deallocated in this turn; if so, they count against it.
    fn takes_turn(&mut self, units: u64) -> bool {
        let may = self.trims.waiting.is_empty() && units <= self.trims.left;
        if may {
            self.trims.left -= units;
        }
        may
    }

    /// Has a command wait for a turn with its next step.
    fn await_turn(&mut self, index: u32, step: Step) {
        if let Some(command) = self.slots.get_mut(index) {
            command.steps.push_front(step);
            self.trims.waiting.push_back(index);
        }
    }

    /// The next command that may go on in this turn, with as much of its step as that has units
    /// for; without a step where nobody listens any more, or it has failed.
    fn next_in_turn(&mut self, unit_sectors: u64) -> Option<(u32, Option<Step>)> {
        while self.trims.left > 0 {
            let index = self.trims.waiting.pop_front()?;
            let Some(command) = self.slots.get_mut(index) else { continue };
            let Some(mut step) = command.steps.pop_front() else { return Some((index, None)) };
            let most = self.trims.left * unit_sectors;
            if u64::from(step.sectors) > most {
                let rest = Step {
                    sector: step.sector + most,
                    sectors: step.sectors - most as u32,
                    ..step
                };
                command.steps.push_front(rest);
                step.sectors = most as u32;
            }
            self.trims.left -= u64::from(step.sectors).div_ceil(unit_sectors);
            return Some((index, Some(step)));
        }
        None
    }
}

impl Subsystem {
    /// The next step of a command is to deallocate: now, or in a later turn.
    pub(crate) fn trim(&mut self, index: u32, step: Step) {
        let units = u64::from(step.sectors).div_ceil(self.namespaces.space().unit_sectors());
        match self.commands.takes_turn(units) {
            true => self.step(index, step),
            false => self.commands.await_turn(index, step),
        }
    }

    /// A turn begins: as much is deallocated as may be in one.
    #[inline]
    pub(crate) fn begin_trims(&mut self) {
        if self.now.wall < self.commands.trims.next || self.model.is_held_up() {
            return;
        }
        if self.commands.trims.begin_turn(self.now.wall) {
            self.trim_some();
        }
    }

    #[cold]
    fn trim_some(&mut self) {
        let unit_sectors = self.namespaces.space().unit_sectors();
        while let Some((index, step)) = self.commands.next_in_turn(unit_sectors) {
            match step {
                Some(step) => self.step(index, step),
                None => self.part_done(index),
            }
        }
    }
}
