//! Programs and erases that are interrupted: suspended for what waits for their die, and
//! resumed when that is done; or followed without a pause by the next program, whose page was
//! moved while they ran (ONFI's cache program).
//!
//! A suspend and a resume command each take the channel. A read of the page that is being
//! programmed does not suspend the program, and ends its suspension. A die with a page in
//! its cache register is not suspended.

use super::Flash;
use super::above::Above;
use super::channel::{Carrying, ProgramTurn};
use super::choice::Pick;
use super::die::{DieOperation, DieState, OperationKind};
use super::queues::{AWAITED_READS, CLASS_COLLECTION, CLASS_FOLD, CLASS_HOST, EXCLUSIVE};
use crate::config::{Config, Suspension};
use crate::kernel::Kernel;
use crate::kernel::event::Event;
use crate::number::{Channel, Die, Ppn};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

/// What a die holds beside what it does.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Hold {
    present: Timed,
    suspended: Option<Suspended>,
    next: Option<Next>,
    /// Goes up with each suspension: an end that was scheduled before is void.
    number: u16,
}

/// When a program's or an erase's array time begins and ends.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Timed {
    holder: HolderIndex,
    begins: Time,
    ends: Time,
    suspensions: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Suspended {
    operation: DieOperation,
    holder: HolderIndex,
    suspensions: u32,
    /// What is left of its array time.
    left: Span,
    since: Time,
}

/// The program after the present one.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Next {
    operation: DieOperation,
    holder: HolderIndex,
    array: Span,
    /// When its page is in the die.
    ready: Time,
}

/// Whether a busy die can be given a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chance {
    Now,
    /// Not before its present command is through.
    Later,
    Never,
}

impl Hold {
    /// One for each die, if the drive interrupts anything.
    pub(super) fn all(config: &Config) -> Vec<Hold> {
        let s = &config.scheduler;
        let any = s.suspend_program.is_some() || s.suspend_erase.is_some() || s.cache_program;
        vec![Hold::default(); if any { config.geometry.dies() as usize } else { 0 }]
    }

    /// What is suspended and what comes next, the latest first.
    pub(super) fn operations(&self) -> [Option<DieOperation>; 2] {
        [self.next.map(|next| next.operation), self.suspended.map(|held| held.operation)]
    }

    pub(super) fn clear(&mut self) {
        *self = Hold { number: self.number, ..Hold::default() };
    }
}

impl Flash {
    /// Begins a program or an erase that may be interrupted.
    pub(super) fn begin_long(
        &mut self,
        kernel: &mut Kernel,
        die: Die,
        holder: HolderIndex,
        operation: DieOperation,
        command: Span,
        array: Span,
    ) {
        let array = self.dies[die].array_time(array);
        kernel.observe.count().multi_plane_operations += u64::from(operation.planes > 1);
        let begins = kernel.now + command;
        if self.dies[die].is_idle() {
            self.occupy_for(kernel, die, holder, operation, command);
            let present = Timed { holder, begins, ends: begins + array, suspensions: 0 };
            self.run_array(kernel, die, present);
            return;
        }
        // Its page goes to the die beside the program under way.
        let DieState { channel, bit, .. } = self.dies[die];
        let end = kernel.events.reserve(begins);
        let state = &mut self.channels[channel];
        state.carrying = Carrying::Command { end, announced: false };
        state.wanted &= !bit;
        kernel.observe.ledger().take_channel(channel, holder, kernel.now);
        self.holds[die].next = Some(Next { operation, holder, array, ready: begins });
    }

    #[inline(always)]
    fn run_array(&mut self, kernel: &mut Kernel, die: Die, present: Timed) {
        let hold = &mut self.holds[die];
        hold.present = present;
        let (number, free) = (hold.number, hold.suspended.is_none());
        kernel.events.push(present.ends, Event::LongArrayDone { number, die });
        let scheduler = &self.scheduler;
        let state = &mut self.dies[die];
        let kind = state.operation.as_ref().map(|operation| operation.kind);
        state.interruptible = free
            && match kind {
                Some(OperationKind::Program) => {
                    scheduler.suspend_program.is_some() || scheduler.cache_program
                }
                Some(OperationKind::Erase) => scheduler.suspend_erase.is_some(),
                _ => false,
            };
        if state.interruptible && !state.load.is_empty() {
            self.want_channel(die);
        }
    }

    /// The array of a program or an erase is done, unless it was suspended since; what has ended.
    #[inline(never)]
    pub(crate) fn long_array_done(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
        number: u16,
    ) -> Option<DieOperation> {
        let hold = &mut self.holds[die];
        if hold.number != number {
            return None;
        }
        let state = &mut self.dies[die];
        state.interruptible = false;
        self.channels[state.channel].wanted &= !state.bit;
        // It is large, and moved only if there is one.
        if hold.next.is_none() {
            self.block_changed(kernel, above, die)
        } else if let Some(next) = hold.next.take() {
            self.go_on(kernel, above, die, next)
        } else {
            None
        }
    }

    /// The next program follows the one that ends, which is returned.
    fn go_on(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
        next: Next,
    ) -> Option<DieOperation> {
        let Next { operation, holder, array, ready } = next;
        let lane = self.lane(die);
        if kernel.observe.keeps_activity() {
            self.note_die(kernel, die);
        }
        let done = self.dies[die].operation.replace(operation)?;
        let held = kernel.observe.ledger().pass_lane(lane, holder, kernel.now);
        self.dies[die].busy += held;
        let begins = ready.max(kernel.now);
        for first in operation.parts() {
            above.array_begins(first, begins);
        }
        let present = Timed { holder, begins, ends: begins + array, suspensions: 0 };
        self.run_array(kernel, die, present);
        Some(done)
    }

    fn suspension(&self, kind: OperationKind) -> Option<Suspension> {
        match kind {
            OperationKind::Program => self.scheduler.suspend_program,
            OperationKind::Erase => self.scheduler.suspend_erase,
            _ => None,
        }
    }

    /// Suspends what one of the channel's dies does, if something waits that may do so.
    #[inline(never)]
    pub(super) fn grant_suspension(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        channel: Channel,
    ) -> bool {
        let (mut wanted, first_die) =
            (self.channels[channel].wanted, self.channels[channel].first_die);
        while wanted != 0 {
            let die = first_die + wanted.trailing_zeros();
            wanted &= wanted - 1;
            if self.chance_to_suspend(kernel, above, die) == Chance::Now {
                self.suspend(kernel, die);
                return true;
            }
        }
        false
    }

    /// Moves the next page to one of the channel's dies, if the channel is still free; dies
    /// that want nothing any more are forgotten. If a page is to be filled for that, those that
    /// have not been asked are asked when this is called again.
    #[inline(never)]
    pub(super) fn grant_next_page(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        channel: Channel,
    ) -> Option<ProgramTurn> {
        let state = &self.channels[channel];
        let first_die = state.first_die;
        let mut wanted = self.offered.take().unwrap_or(state.wanted);
        while wanted != 0 {
            if !matches!(self.channels[channel].carrying, Carrying::Nothing) {
                break;
            }
            let die = first_die + wanted.trailing_zeros();
            wanted &= wanted - 1;
            let next = self.next_program(kernel, above, die);
            if let Ok(Pick { plane, class, .. }) = next {
                self.offered = Some(wanted);
                return Some(ProgramTurn { die, plane, class });
            } else if self.chance_to_suspend(kernel, above, die) == Chance::Never
                && matches!(next, Err(Chance::Never))
            {
                let bit = self.dies[die].bit;
                self.channels[channel].wanted &= !bit;
            }
        }
        None
    }

    /// Whether what a busy die does can be suspended for what waits for it.
    fn chance_to_suspend(&mut self, kernel: &Kernel, above: &impl Above, die: Die) -> Chance {
        let state = &self.dies[die];
        let Some(operation) = state.operation.as_ref().filter(|_| state.interruptible) else {
            return Chance::Never;
        };
        let (kind, collects) = (operation.kind, operation.collects);
        let Some(suspension) = self.suspension(kind) else { return Chance::Never };
        let hold = &self.holds[die];
        let present = hold.present;
        if hold.next.is_some()
            || state.load.some & EXCLUSIVE != 0
            || present.suspensions >= suspension.limit
            || (collects && self.is_collection_urgent(above, die))
        {
            return Chance::Never;
        }
        let left = present.ends.saturating_since(kernel.now + self.times.suspend_command);
        let least = match self.first_awaited_read(die) {
            Some(read) => {
                let operation = self.dies[die].operation.as_ref();
                let waits = operation.is_some_and(|now| self.reads_page_of(read, now));
                (!waits).then_some(suspension.least_left)
            }
            None if kind == OperationKind::Erase => {
                let least = self.scheduler.suspend_erase_for_writes;
                least.filter(|_| self.pick_host_write(kernel, above, die).is_some())
            }
            None => None,
        };
        match least {
            Some(least) if left >= least && !left.is_zero() => {
                if kernel.now < present.begins {
                    Chance::Later
                } else {
                    Chance::Now
                }
            }
            _ => Chance::Never,
        }
    }

    /// The program whose page can be moved to a die beside the one under way.
    fn next_program(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
    ) -> Result<Pick, Chance> {
        let state = &self.dies[die];
        let programs = state.interruptible
            && state.operation.as_ref().is_some_and(|now| now.kind == OperationKind::Program);
        let Hold { present, next, .. } = &self.holds[die];
        if !self.scheduler.cache_program
            || !programs
            || next.is_some()
            || state.load.some & AWAITED_READS != 0
        {
            return Err(Chance::Never);
        }
        if kernel.now < present.begins {
            return Err(Chance::Later);
        }
        let first = state.first_plane;
        let exclusive = state.load.some & EXCLUSIVE != 0;
        let host = match exclusive || self.is_collection_urgent(above, die) {
            true => None,
            false => self.pick_host_write(kernel, above, die),
        };
        host.or_else(|| self.pick_write(kernel, above, first, CLASS_COLLECTION))
            .or_else(|| self.pick_write(kernel, above, first, CLASS_FOLD))
            .ok_or(Chance::Never)
    }

    fn is_collection_urgent(&self, above: &impl Above, die: Die) -> bool {
        self.planes_of(die).any(|plane| above.is_urgent(plane))
    }

    /// Whether a chosen read is of a page that `operation` programs.
    fn reads_page_of(&self, read: Pick, operation: &DieOperation) -> bool {
        let queues = &self.queues[read.plane];
        let head = queues.reads[usize::from(read.class)].head;
        self.programs_page(operation, self.works[head].ppn)
    }

    fn programs_page(&self, operation: &DieOperation, ppn: Ppn) -> bool {
        operation.kind == OperationKind::Program
            && operation.ppns[..usize::from(operation.planes)].iter().any(|&first| {
                let pages = self.shape.pages_in_program(self.shape.page_of_ppn(first));
                self.shape.ppns_of_pages(first, pages).contains(&ppn)
            })
    }

    /// Whether the page at `ppn` is being programmed by what its die has suspended.
    #[inline]
    pub(super) fn is_being_programmed(&self, die: Die, ppn: Ppn) -> bool {
        let Some(hold) = self.holds.get(die.index()) else { return false };
        hold.suspended.as_ref().is_some_and(|held| self.programs_page(&held.operation, ppn))
    }

    fn suspend(&mut self, kernel: &mut Kernel, die: Die) {
        let now = kernel.now;
        let command = self.times.suspend_command;
        if kernel.observe.keeps_activity() {
            self.note_die(kernel, die);
        }
        let state = &mut self.dies[die];
        let Some(operation) = state.operation.take() else { return };
        state.interruptible = false;
        state.load.set_suspended(true);
        self.channels[state.channel].wanted &= !state.bit;
        let hold = &mut self.holds[die];
        let Timed { holder, ends, suspensions, .. } = hold.present;
        hold.number = hold.number.wrapping_add(1);
        hold.suspended = Some(Suspended {
            operation,
            holder,
            suspensions: suspensions + 1,
            left: ends.since(now + command),
            since: now,
        });
        match operation.kind {
            OperationKind::Erase => kernel.observe.count().erase_suspensions += 1,
            _ => kernel.observe.count().program_suspensions += 1,
        }
        let latency =
            self.suspension(operation.kind).map_or(Span::ZERO, |suspension| suspension.latency);
        let lane = self.lane(die);
        let held = kernel.observe.ledger().release_lane(lane, now);
        self.dies[die].busy += held;
        let stopping = DieOperation::new(OperationKind::Suspension);
        self.occupy(kernel, die, holder, stopping, command, latency);
    }

    /// What an idle die does that has suspended something.
    pub(super) fn pick_beside_suspended(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
    ) -> Option<Pick> {
        let held = self.holds[die].suspended?;
        let kind = held.operation.kind;
        let longest = self.suspension(kind).map_or(Span::ZERO, |suspension| suspension.longest);
        let resume = Pick {
            kind: OperationKind::Suspension,
            class: CLASS_HOST,
            plane: self.dies[die].first_plane,
            order: 0,
        };
        let collects = held.operation.collects;
        let exclusive = self.dies[die].load.some & EXCLUSIVE != 0;
        if exclusive
            || kernel.now.since(held.since) >= longest
            || (collects && self.is_collection_urgent(above, die))
        {
            return Some(resume);
        }
        if let Some(read) = self.first_awaited_read(die) {
            let waits = self.reads_page_of(read, &held.operation);
            return Some(if waits { resume } else { read });
        }
        if kind == OperationKind::Erase && self.scheduler.suspend_erase_for_writes.is_some() {
            return self.pick_host_write(kernel, above, die).or(Some(resume));
        }
        Some(resume)
    }

    /// What the die has suspended goes on.
    pub(super) fn resume(&mut self, kernel: &mut Kernel, die: Die) {
        let now = kernel.now;
        let Some(held) = self.holds[die].suspended.take() else { return };
        self.dies[die].load.set_suspended(false);
        let Suspended { operation, holder, mut suspensions, left, since } = held;
        let mut array = left;
        if let Some(suspension) = self.suspension(operation.kind) {
            array += suspension.resume;
            if now.since(since) >= suspension.longest {
                suspensions = suspension.limit;
            }
        }
        let command = self.times.suspend_command;
        self.occupy_for(kernel, die, holder, operation, command);
        let begins = now + command;
        self.run_array(kernel, die, Timed { holder, begins, ends: begins + array, suspensions });
    }
}
