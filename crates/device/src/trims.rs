//! Deallocations given to the model piece by piece, so that none of them, however long, and not
//! many together, keep everybody else waiting.
//!
//! What the model does for each unit takes this computer some nanoseconds but no time of the
//! drive's. So the model is given only so many units at once, those of all commands together.
//! Steps that would be more wait in order, and get as much again in each later turn.

use crate::command::Step;
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

/// Deallocations in turns.
#[derive(Debug)]
pub(crate) struct Trims {
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
    pub(crate) fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.next)
    }

    /// The commands that wait are no more.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }
}

impl Subsystem {
    /// The next step of a command is to deallocate: now, or in a later turn.
    pub(crate) fn trim(&mut self, index: u32, step: Step) {
        let units = u64::from(step.sectors).div_ceil(self.space.unit_sectors);
        if self.trims.waiting.is_empty() && units <= self.trims.left {
            self.trims.left -= units;
            return self.step(index, step);
        }
        if let Some(command) = self.commands.get_mut(index) {
            command.steps.push_front(step);
            self.trims.waiting.push_back(index);
        }
    }

    /// A turn begins: as much is deallocated as may be in one.
    #[inline]
    pub(crate) fn begin_trims(&mut self) {
        if self.now.wall < self.trims.next || self.is_held_up() {
            return;
        }
        self.trims.left = UNITS_PER_TURN;
        self.trims.next = self.now.wall + APART;
        match self.trims.waiting.is_empty() {
            true => self.trims.before = None,
            false => self.trim_some(),
        }
    }

    #[cold]
    fn trim_some(&mut self) {
        let now = self.now.wall;
        if let Some(before) = self.trims.before.replace(now) {
            let times = now.since(before).as_ps() / FREQUENT.as_ps();
            self.trims.left *= times.clamp(1, TIMES_MAX);
        }
        let unit_sectors = self.space.unit_sectors;
        while self.trims.left > 0
            && let Some(index) = self.trims.waiting.pop_front()
        {
            let Some(command) = self.commands.get_mut(index) else { continue };
            let Some(mut step) = command.steps.pop_front() else {
                // Nobody listens any more, or it has failed.
                self.part_done(index);
                continue;
            };
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
            self.step(index, step);
        }
    }
}
