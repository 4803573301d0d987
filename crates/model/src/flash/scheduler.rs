//! Flash transaction scheduling: what enters the planes' queues, and the end of each event,
//! at which whatever can start starts and whatever cannot begins to wait.

use crate::drive::Drive;
use crate::flash::die::Die;
use crate::flash::queues::{CLASS_COLLECTION, CLASS_MAPPING};
use crate::host::command::{Purpose, UNSET, UnitState};
use crate::kernel::pool::NONE;
use crate::observe::blame::Waiting;
use crate::observe::stats::Resource;
use mynah_stamp::Span;
use std::hint::cold_path;

/// Something in a plane's queue that will not be done. Its end may set other things in
/// motion, so it waits until the present event is over.
#[derive(Clone, Copy)]
pub(crate) enum Deferred {
    /// A unit that need not be programmed any more.
    VoidUnit(u32),
    /// A unit that cannot be programmed.
    FailedUnit(u32),
    /// A read of a die that is dead.
    FailedTransaction(u32),
}

impl Drive {
    #[inline]
    pub(crate) fn lane(&self, die: u32) -> usize {
        self.dies[die as usize].lane as usize
    }

    /// Lists `channel` for a look at what could start, at the end of this event.
    #[inline(always)]
    pub(crate) fn mark_channel(&mut self, channel: u32) {
        let state = &mut self.channels[channel as usize];
        if !state.stale {
            state.stale = true;
            self.unsettled = true;
            self.stale_channels.push(channel);
        }
    }

    pub(crate) fn mark_ready(&mut self, die: u32) {
        let Die { channel, bit, .. } = self.dies[die as usize];
        if self.dies[die as usize].is_idle() {
            self.channels[channel as usize].ready |= bit;
            self.mark_channel(channel);
        }
    }

    /// Something waits for a die that does what may be interrupted.
    #[cold]
    #[inline(never)]
    pub(super) fn want_channel(&mut self, die: u32) {
        let Die { channel, bit, .. } = self.dies[die as usize];
        self.channels[channel as usize].wanted |= bit;
        self.mark_channel(channel);
    }

    /// Puts a read or erase into its plane's queue.
    #[inline(always)]
    pub(crate) fn enqueue_transaction(&mut self, transaction: u32) {
        let order = self.next_order();
        let t = &mut self.transactions[transaction];
        t.order = order;
        t.queued = self.now;
        let (plane, class) = (t.plane, t.class);
        let (purpose, watched) = (t.purpose, t.watched);
        let die = self.shape.die_of_plane(plane);
        t.die = die;
        let state = &mut self.dies[die as usize];
        if state.dead {
            cold_path();
            self.defer(Deferred::FailedTransaction(transaction));
            return;
        }
        let last = match self.flin {
            Some(_) => self.last_read(die, usize::from(class)),
            None => NONE,
        };
        let state = &mut self.dies[die as usize];
        let queues = &mut self.planes[plane as usize].queues;
        if purpose == Purpose::Erase {
            cold_path();
            self.transactions.push_back(&mut queues.erases, transaction);
            state.work.add_erase();
        } else {
            self.transactions.push_back(&mut queues.reads[usize::from(class)], transaction);
            state.work.add_read(class);
        }
        if watched {
            self.unsettled = true;
            self.fresh_transactions.push(transaction);
        }
        let interruptible = state.interruptible;
        if state.is_idle() {
            let (channel, bit) = (state.channel, state.bit);
            self.channels[channel as usize].ready |= bit;
            self.mark_channel(channel);
        }
        if interruptible || self.flin.is_some() {
            self.read_may_interrupt(transaction, last);
        }
    }

    /// A read or erase was queued behind `last` where operations are interrupted or flows treated
    /// fairly.
    #[cold]
    #[inline(never)]
    fn read_may_interrupt(&mut self, transaction: u32, last: u32) {
        let die = self.transactions[transaction].die;
        if self.dies[die as usize].interruptible {
            self.want_channel(die);
        }
        if self.flin.is_some() {
            self.place_read_fairly(transaction, last);
        }
    }

    /// Puts a unit into its plane's queue of programs.
    pub(crate) fn enqueue_unit(&mut self, unit: u32, plane: u32) {
        let order = self.next_order();
        let now = self.now;
        let u = &mut self.units[unit];
        u.order = order;
        u.queued = now;
        u.plane = plane;
        let (class, watched) = (u.class, u.watched);
        let die = self.shape.die_of_plane(plane);
        let full = self.planes[plane as usize].read_only && class != CLASS_COLLECTION;
        if self.dies[die as usize].dead || full {
            self.defer(Deferred::FailedUnit(unit));
            return;
        }
        let last = match self.flin {
            Some(_) => self.last_unit(die, usize::from(class)),
            None => NONE,
        };
        let u = &mut self.units[unit];
        u.state = UnitState::Queued;
        let forced = !u.cached || u.through;
        let queues = &mut self.planes[plane as usize].queues;
        match class {
            CLASS_MAPPING => {}
            CLASS_COLLECTION => queues.collected_units += 1,
            _ => {
                queues.host_units += 1;
                self.full_pages.added(queues.host_units);
                queues.forced += u32::from(forced);
            }
        }
        if self.units[unit].hot {
            self.enqueue_hot(unit, plane);
        } else {
            self.units.push_back(&mut queues.writes[usize::from(class)], unit);
        }
        self.dies[die as usize].work.add_write(class);
        if watched {
            self.unsettled = true;
            self.fresh_units.push(unit);
        }
        self.mark_ready(die);
        if self.dies[die as usize].interruptible || self.flin.is_some() {
            self.unit_may_interrupt(unit, die, last);
        }
        if !self.plain_programs && self.hybrid.is_some() && class != CLASS_COLLECTION {
            self.merge_if_needed(plane);
        }
    }

    /// The same of a unit.
    #[cold]
    #[inline(never)]
    fn unit_may_interrupt(&mut self, unit: u32, die: u32, last: u32) {
        if self.dies[die as usize].interruptible {
            self.want_channel(die);
        }
        if self.flin.is_some() {
            self.place_unit_fairly(unit, die, last);
        }
    }

    pub(crate) fn defer(&mut self, what: Deferred) {
        self.unsettled = true;
        self.deferred.push(what);
    }

    /// Starts whatever can start on the listed channels, and notes the beginning of the
    /// waits of everything that could not.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        self.settle_here();
    }

    /// The same in place, for where it pays.
    #[inline(always)]
    pub(crate) fn settle_here(&mut self) {
        if !self.unsettled {
            return;
        }
        loop {
            while let Some(channel) = self.stale_channels.pop() {
                self.grant(channel);
            }
            if self.deferred.is_empty() {
                break;
            }
            cold_path();
            self.deal_with_deferred();
        }
        while let Some(transaction) = self.fresh_transactions.pop() {
            self.note_wait(transaction);
        }
        if !self.fresh_units.is_empty() {
            self.note_waits_of_units();
        }
        self.unsettled = false;
    }

    #[inline(never)]
    pub(super) fn deal_with_deferred(&mut self) {
        match self.deferred.pop() {
            Some(Deferred::VoidUnit(unit)) => self.drop_void_unit(unit),
            Some(Deferred::FailedUnit(unit)) => self.unit_failed(unit),
            Some(Deferred::FailedTransaction(transaction)) => self.fail_transaction(transaction),
            None => {}
        }
    }

    /// Notes the beginning of a transaction's wait, if it waits.
    #[inline(always)]
    pub(super) fn note_wait(&mut self, transaction: u32) {
        let t = &self.transactions[transaction];
        let waits_for_die = t.started == UNSET;
        let waits_for_channel = t.ready != UNSET && t.transfer == UNSET;
        if waits_for_die || waits_for_channel {
            let die = t.die;
            let Die { channel, lane, .. } = self.dies[die as usize];
            let (channel, lane) = (channel as usize, lane as usize);
            let waiting = Waiting::Transaction(transaction);
            if waits_for_die {
                self.ledger.note_lane(waiting, lane, channel, self.now);
            } else {
                self.ledger.note_channel(waiting, channel, self.now);
            }
        }
    }

    #[inline(never)]
    pub(super) fn note_waits_of_units(&mut self) {
        while let Some(unit) = self.fresh_units.pop() {
            if self.units[unit].state == UnitState::Queued {
                let die = self.shape.die_of_plane(self.units[unit].plane);
                let channel = self.dies[die as usize].channel as usize;
                let lane = self.lane(die);
                self.ledger.note_lane(Waiting::Unit(unit), lane, channel, self.now);
            }
        }
    }

    /// Charges the wait of a transaction that starts now to whoever had die and channel.
    #[inline(always)]
    pub(super) fn charge_die_wait(&mut self, transaction: u32, lane: usize, channel: usize) {
        let now = self.now;
        let t = &self.transactions[transaction];
        if t.watched && t.queued != now {
            let waiting = Waiting::Transaction(transaction);
            self.ledger.end_blocked(lane, channel, now);
            let (holder, queued) = (t.holder, t.queued);
            let charged =
                self.ledger.charge_lane(waiting, lane, channel, now, holder, &mut self.blame);
            if !self.config.gc.preemptible {
                // A die that collects may wait for its own data and let nobody else in.
                let rest = now.since(queued).saturating_sub(Span::from_ps(charged));
                self.blame.add(
                    holder,
                    Resource::Die,
                    crate::observe::blame::GARBAGE_COLLECTION,
                    rest,
                );
            }
        }
    }

    /// The same for a unit; returns the part of its wait that neither die nor channel
    /// explains: it waited for a free block.
    #[inline(always)]
    pub(super) fn charge_unit_wait(&mut self, unit: u32, lane: usize, channel: usize) -> Span {
        let now = self.now;
        let u = &self.units[unit];
        if !u.watched || u.queued == now {
            return Span::ZERO;
        }
        let waiting = Waiting::Unit(unit);
        let charged =
            self.ledger.charge_lane(waiting, lane, channel, now, u.holder, &mut self.blame);
        let rest = now.since(u.queued).saturating_sub(Span::from_ps(charged));
        self.blame.add(
            u.holder,
            Resource::FreeBlock,
            crate::observe::blame::GARBAGE_COLLECTION,
            rest,
        );
        rest
    }
}
