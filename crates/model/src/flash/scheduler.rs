//! Flash transaction scheduling: each plane's queues, what a die does next, and who gets
//! the channel.
//!
//! A die takes transactions out of order: loads of the mapping table first, then host
//! reads, writes, and garbage collection; where free blocks run out, collection goes before
//! host I/O. Operations at the same page offset of several planes of a die are joined. A
//! channel is taken by one command or one page of data at a time; nothing is booked before
//! it starts.

use crate::blame::{HolderIndex, Waiting};
use crate::blocks::Stream;
use crate::command::{Purpose, UNSET, UnitState};
use crate::config::BusArbitration;
use crate::drive::Drive;
use crate::event::{Event, Key};
use crate::flash::timing::PLANES_MAX;
use crate::mapping::table::Content;
use crate::pool::{List, NONE};
use crate::stats::Resource;
use mynah_stamp::{Span, Time};

/// Classes of reads and of writes: the mapping table, the four priorities of host I/O, and
/// garbage collection.
pub(crate) const CLASSES: usize = 6;
pub(crate) const CLASS_MAPPING: u8 = 0;
pub(crate) const CLASS_HOST: u8 = 1;
pub(crate) const CLASS_COLLECTION: u8 = 5;
/// Turns of high, medium and low priority before the next round (as MQSim).
const TURNS: [u8; 3] = [4, 2, 1];

/// What waits for a plane.
#[derive(Clone)]
pub(crate) struct PlaneQueues {
    /// Transactions.
    pub(crate) reads: [List; CLASSES],
    pub(crate) erases: List,
    /// Write units.
    pub(crate) writes: [List; CLASSES],
    /// Host units in `writes`.
    pub(crate) host_units: u32,
    /// Host units in `writes` that must not wait for others to fill the page.
    pub(crate) forced: u32,
    /// Collected units in `writes`.
    pub(crate) collected_units: u32,
}

impl PlaneQueues {
    pub(crate) const EMPTY: PlaneQueues = PlaneQueues {
        reads: [List::EMPTY; CLASSES],
        erases: List::EMPTY,
        writes: [List::EMPTY; CLASSES],
        host_units: 0,
        forced: 0,
        collected_units: 0,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Read,
    Program,
    Erase,
}

/// What a die is doing.
#[derive(Clone, Copy)]
pub(crate) struct DieOperation {
    pub(crate) kind: OperationKind,
    pub(crate) planes: u8,
    /// Transactions, or the first write unit of each plane's page (linked by `next`).
    pub(crate) items: [u32; PLANES_MAX],
    pub(crate) slots: [u32; PLANES_MAX],
    pub(crate) stream: Stream,
}

/// What waits in the queues of a die's planes, by class.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    reads: [u32; CLASSES],
    writes: [u32; CLASSES],
    erases: u32,
    /// A bit for each of these that is not zero.
    some: u32,
}

/// Where the bits of writes and the bit of erases begin.
const WRITES: u32 = 8;
const ERASES: u32 = 16;
const COLLECTION_WORK: u32 =
    1 << CLASS_COLLECTION | 1 << (WRITES + CLASS_COLLECTION as u32) | 1 << ERASES;
const MAPPING_READS: u32 = 1 << CLASS_MAPPING;
const HOST_CLASSES: u32 = 0b1111;

impl Work {
    #[inline]
    pub(crate) fn reads(&self, class: u8) -> u32 {
        self.reads[usize::from(class)]
    }

    #[inline]
    pub(crate) fn writes(&self, class: u8) -> u32 {
        self.writes[usize::from(class)]
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.some == 0
    }

    #[inline]
    fn add_read(&mut self, class: u8) {
        self.reads[usize::from(class)] += 1;
        self.some |= 1 << class;
    }

    #[inline]
    fn add_write(&mut self, class: u8) {
        self.writes[usize::from(class)] += 1;
        self.some |= 1 << (WRITES + u32::from(class));
    }

    #[inline]
    fn add_erase(&mut self) {
        self.erases += 1;
        self.some |= 1 << ERASES;
    }

    #[inline]
    pub(crate) fn take_reads(&mut self, class: u8, count: u32) {
        let left = &mut self.reads[usize::from(class)];
        *left -= count;
        self.some &= !(u32::from(*left == 0) << class);
    }

    #[inline]
    pub(crate) fn take_write(&mut self, class: u8) {
        let left = &mut self.writes[usize::from(class)];
        *left -= 1;
        self.some &= !(u32::from(*left == 0) << (WRITES + u32::from(class)));
    }

    #[inline]
    pub(crate) fn take_erase(&mut self) {
        self.erases -= 1;
        self.some &= !(u32::from(self.erases == 0) << ERASES);
    }

    /// Whether nothing but reads of one class waits that has no turns to take: which class.
    #[inline]
    fn only_reads(&self) -> Option<u8> {
        match self.some {
            MAPPING_READS => Some(CLASS_MAPPING),
            reads if reads == 1 << CLASS_HOST => Some(CLASS_HOST),
            reads if reads == 2 << CLASS_HOST => Some(CLASS_HOST + 1),
            _ => None,
        }
    }
}

pub(crate) struct Die {
    pub(crate) channel: u32,
    /// Its bit in the channel's masks.
    pub(crate) bit: u64,
    pub(crate) first_plane: u32,
    pub(crate) operation: Option<DieOperation>,
    /// Data not yet transferred of the read it holds.
    pub(crate) transfers: u8,
    /// What waits in its planes' queues.
    pub(crate) work: Work,
    turns: [[u8; 3]; 2],
    pub(crate) idle_since: Time,
    pub(crate) dead: bool,
    /// How much longer its array takes, if it is slow.
    pub(crate) factor: Option<f64>,
}

impl Die {
    pub(crate) fn new(channel: u32, bit: u64, first_plane: u32) -> Die {
        Die {
            channel,
            bit,
            first_plane,
            operation: None,
            transfers: 0,
            work: Work::default(),
            turns: [TURNS; 2],
            idle_since: Time::ZERO,
            dead: false,
            factor: None,
        }
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.operation.is_none()
    }

    #[inline]
    fn array_time(&self, time: Span) -> Span {
        match self.factor {
            None => time,
            Some(factor) => Span::from_ps((time.as_ps() as f64 * factor) as u64),
        }
    }

    /// The class of host reads (`which` 0) or writes (1) whose turn it is.
    #[inline]
    fn host_class(&mut self, which: usize) -> Option<u8> {
        let waiting = self.work.some >> (which as u32 * WRITES + u32::from(CLASS_HOST));
        match waiting & HOST_CLASSES {
            0 => None,
            urgent if urgent & 1 != 0 => Some(CLASS_HOST),
            0b10 => Some(CLASS_HOST + 1),
            others => self.host_class_in_turn(which, others >> 1),
        }
    }

    /// The class whose turn it is among those below the most urgent one.
    fn host_class_in_turn(&mut self, which: usize, others: u32) -> Option<u8> {
        let turns = &mut self.turns[which];
        let next = |turns: &[u8; 3]| (0..3).find(|&n| others & 1 << n != 0 && turns[n] > 0);
        let chosen = next(turns).or_else(|| {
            *turns = TURNS;
            next(turns)
        })?;
        Some(CLASS_HOST + 1 + chosen as u8)
    }

    #[inline]
    fn take_turn(&mut self, which: usize, class: u8) {
        let turn = usize::from(class).wrapping_sub(usize::from(CLASS_HOST) + 1);
        if let Some(turns) = self.turns[which].get_mut(turn) {
            *turns = turns.saturating_sub(1);
        }
    }
}

/// What a channel carries.
#[derive(Clone, Copy)]
enum Carrying {
    Nothing,
    /// A command. Its end is an event only if something waits for the channel by then
    /// (`announced`); otherwise it is noticed when something asks for the channel.
    Command {
        end: Key,
        announced: bool,
    },
    Data {
        transaction: u32,
    },
}

pub(crate) struct Channel {
    carrying: Carrying,
    /// Idle dies with work, by bit.
    pub(crate) ready: u64,
    /// Those among them that have been noted as waiting for the channel.
    blocked: u64,
    first_die: u32,
    /// Read data waiting in dies: mapping table, host, collection.
    data: [List; 3],
    data_waiting: u32,
    /// Chip whose turn it is (data first).
    turn: u32,
    /// Listed for a look at what could start.
    stale: bool,
    busy: Span,
}

impl Channel {
    pub(crate) fn new(first_die: u32) -> Channel {
        Channel {
            carrying: Carrying::Nothing,
            ready: 0,
            blocked: 0,
            first_die,
            data: [List::EMPTY; 3],
            data_waiting: 0,
            turn: 0,
            stale: false,
            busy: Span::ZERO,
        }
    }

    /// Drops what it carries and what waits for it.
    pub(crate) fn power_cut(&mut self) {
        self.carrying = Carrying::Nothing;
        self.ready = 0;
        self.blocked = 0;
        self.data = [List::EMPTY; 3];
        self.data_waiting = 0;
    }

    pub(crate) fn busy(&self) -> Span {
        self.busy
    }

    #[inline]
    fn has_waiting(&self) -> bool {
        self.ready != 0 || self.data_waiting > 0
    }
}

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

/// What a die would do next.
#[derive(Clone, Copy)]
struct Pick {
    kind: OperationKind,
    class: u8,
    plane: u32,
    order: u64,
}

impl Drive {
    #[inline]
    fn lane(&self, die: u32) -> usize {
        (if self.config.scheduler.die_interleaving { die } else { die / self.shape.dies_per_chip })
            as usize
    }

    /// Lists `channel` for a look at what could start, at the end of this event.
    #[inline]
    pub(crate) fn mark_channel(&mut self, channel: u32) {
        let state = &mut self.channels[channel as usize];
        if !state.stale {
            state.stale = true;
            self.unsettled = true;
            self.stale_channels.push(channel);
        }
    }

    fn mark_ready(&mut self, die: u32) {
        let Die { channel, bit, .. } = self.dies[die as usize];
        if self.dies[die as usize].is_idle() {
            self.channels[channel as usize].ready |= bit;
            self.mark_channel(channel);
        }
    }

    /// When the command that `channel` carries ends, if it has ended by now without an event.
    #[inline]
    pub(crate) fn silent_end(&self, channel: u32) -> Option<Time> {
        match self.channels[channel as usize].carrying {
            Carrying::Command { end, announced: false } if self.events.is_past(end, self.now) => {
                Some(end.at())
            }
            _ => None,
        }
    }

    /// Frees `channel` if the command that it carries has ended by now without an event.
    #[inline]
    pub(crate) fn notice_end(&mut self, channel: u32) {
        if let Some(end) = self.silent_end(channel) {
            self.counters.events += 1;
            self.free_channel(channel, end);
        }
    }

    #[inline]
    fn free_channel(&mut self, channel: u32, at: Time) {
        let state = &mut self.channels[channel as usize];
        state.carrying = Carrying::Nothing;
        state.busy += self.ledger.release_channel(channel as usize, at);
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
            self.defer(Deferred::FailedTransaction(transaction));
            return;
        }
        let queues = &mut self.planes[plane as usize].queues;
        if purpose == Purpose::Erase {
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
        if state.is_idle() {
            let (channel, bit) = (state.channel, state.bit);
            self.channels[channel as usize].ready |= bit;
            self.mark_channel(channel);
        }
    }

    /// Puts a unit into its plane's queue of programs.
    pub(crate) fn enqueue_unit(&mut self, unit: u32, plane: u32) {
        let order = self.next_order();
        let now = self.now;
        let u = &mut self.units[unit];
        u.order = order;
        u.queued = now;
        let (class, watched) = (u.class, u.watched);
        let die = self.shape.die_of_plane(plane);
        let full = self.planes[plane as usize].read_only && class != CLASS_COLLECTION;
        if self.dies[die as usize].dead || full {
            self.defer(Deferred::FailedUnit(unit));
            return;
        }
        u.state = UnitState::Queued;
        let forced = !u.cached || u.through;
        let queues = &mut self.planes[plane as usize].queues;
        match class {
            CLASS_MAPPING => {}
            CLASS_COLLECTION => queues.collected_units += 1,
            _ => {
                queues.host_units += 1;
                queues.forced += u32::from(forced);
            }
        }
        self.units.push_back(&mut queues.writes[usize::from(class)], unit);
        self.dies[die as usize].work.add_write(class);
        if watched {
            self.unsettled = true;
            self.fresh_units.push(unit);
        }
        self.mark_ready(die);
    }

    pub(crate) fn defer(&mut self, what: Deferred) {
        self.unsettled = true;
        self.deferred.push(what);
    }

    /// Starts whatever can start on the listed channels, and notes the beginning of the
    /// waits of everything that could not.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        if self.unsettled {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        loop {
            while let Some(channel) = self.stale_channels.pop() {
                self.grant(channel);
            }
            if self.deferred.is_empty() {
                break;
            }
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
    fn deal_with_deferred(&mut self) {
        match self.deferred.pop() {
            Some(Deferred::VoidUnit(unit)) => self.drop_void_unit(unit),
            Some(Deferred::FailedUnit(unit)) => self.unit_failed(unit),
            Some(Deferred::FailedTransaction(transaction)) => self.fail_transaction(transaction),
            None => {}
        }
    }

    /// Notes the beginning of a transaction's wait, if it waits.
    #[inline]
    fn note_wait(&mut self, transaction: u32) {
        let t = &self.transactions[transaction];
        let waits_for_die = t.started == UNSET;
        let waits_for_channel = t.ready != UNSET && t.transfer == UNSET;
        if waits_for_die || waits_for_channel {
            let die = t.die;
            let channel = self.dies[die as usize].channel as usize;
            let waiting = Waiting::Transaction(transaction);
            if waits_for_die {
                let lane = self.lane(die);
                self.ledger.note_lane(waiting, lane, channel, self.now);
            } else {
                self.ledger.note_channel(waiting, channel, self.now);
            }
        }
    }

    #[inline(never)]
    fn note_waits_of_units(&mut self) {
        while let Some(unit) = self.fresh_units.pop() {
            if self.units[unit].state == UnitState::Queued {
                let die = self.shape.die_of_plane(self.plane_of(self.units[unit].content));
                let channel = self.dies[die as usize].channel as usize;
                let lane = self.lane(die);
                self.ledger.note_lane(Waiting::Unit(unit), lane, channel, self.now);
            }
        }
    }

    /// Charges the wait of a transaction that starts now to whoever had die and channel.
    #[inline]
    fn charge_die_wait(&mut self, transaction: u32, lane: usize, channel: usize) {
        let now = self.now;
        let t = &self.transactions[transaction];
        if t.watched && t.queued != now {
            let waiting = Waiting::Transaction(transaction);
            self.ledger.end_blocked(lane, channel, now);
            self.ledger.charge_lane(waiting, lane, channel, now, t.holder, &mut self.blame);
        }
    }

    /// The same for a unit; returns the part of its wait that neither die nor channel
    /// explains: it waited for a free block.
    fn charge_unit_wait(&mut self, unit: u32, lane: usize, channel: usize) -> Span {
        let now = self.now;
        let u = &self.units[unit];
        if !u.watched || u.queued == now {
            return Span::ZERO;
        }
        let waiting = Waiting::Unit(unit);
        let charged =
            self.ledger.charge_lane(waiting, lane, channel, now, u.holder, &mut self.blame);
        let rest = now.since(u.queued).saturating_sub(Span::from_ps(charged));
        self.blame.add(u.holder, Resource::FreeBlock, crate::blame::GARBAGE_COLLECTION, rest);
        rest
    }

    /// Gives the channel, if it is free, to whoever is next.
    #[inline]
    fn grant(&mut self, channel: u32) {
        let state = &mut self.channels[channel as usize];
        state.stale = false;
        if !state.has_waiting() {
            return;
        }
        self.notice_end(channel);
        if matches!(self.channels[channel as usize].carrying, Carrying::Nothing) {
            match self.config.bus.arbitration {
                BusArbitration::CommandFirst => self.grant_command_first(channel),
                BusArbitration::DataFirst => self.grant_data_first(channel),
            }
        }
        let state = &mut self.channels[channel as usize];
        if let Carrying::Command { end, announced: false } = state.carrying
            && state.has_waiting()
        {
            state.carrying = Carrying::Command { end, announced: true };
            self.events.push_reserved(end, Event::ChannelDone { channel });
        }
        // What is ready and was not chosen waits for the channel from now on.
        let waiting = state.ready & !state.blocked;
        if waiting != 0 {
            self.begin_blocked(channel, waiting);
        }
    }

    /// Notes that dies of `channel` could start something if it were free.
    fn begin_blocked(&mut self, channel: u32, mut waiting: u64) {
        while waiting != 0 {
            let state = &mut self.channels[channel as usize];
            let die = state.first_die + waiting.trailing_zeros();
            if self.config.scheduler.die_interleaving {
                state.blocked |= waiting & waiting.wrapping_neg();
                self.ledger.begin_blocked(die as usize, channel as usize, self.now);
            } else {
                // A die that waits for its chip is looked at again.
                let chip = (die / self.shape.dies_per_chip) as usize;
                if !self.chip_busy[chip] {
                    self.ledger.begin_blocked(chip, channel as usize, self.now);
                }
            }
            waiting &= waiting - 1;
        }
    }

    fn grant_command_first(&mut self, channel: u32) {
        let state = &self.channels[channel as usize];
        let first_die = state.first_die;
        let data = if state.data_waiting == 0 {
            None
        } else {
            state
                .data
                .iter()
                .filter(|list| !list.is_empty())
                .min_by_key(|list| self.transactions[list.head].order)
                .map(|list| list.head)
        };
        let mut best: Option<(u8, u64, u32, Pick)> = None;
        let mut ready = state.ready;
        while ready != 0 {
            let die = first_die + ready.trailing_zeros();
            ready &= ready - 1;
            let Some(pick) = self.pick(die) else { continue };
            // Commands are short and keep dies busy; data goes before programs, which
            // carry a page and come last where they can wait.
            let rank = match pick.kind {
                OperationKind::Read | OperationKind::Erase => 0,
                OperationKind::Program if pick.class != CLASS_COLLECTION => 2,
                OperationKind::Program => 3,
            };
            if best.is_none_or(|(r, order, ..)| (rank, pick.order) < (r, order)) {
                best = Some((rank, pick.order, die, pick));
            }
        }
        match (best, data) {
            (Some((.., die, pick)), None) | (Some((0, _, die, pick)), _) => self.start(die, pick),
            (_, Some(transaction)) => self.start_transfer(channel, transaction),
            (None, None) => {}
        }
    }

    fn grant_data_first(&mut self, channel: u32) {
        let state = &self.channels[channel as usize];
        if let Some(list) = state.data.iter().find(|list| !list.is_empty()) {
            self.start_transfer(channel, list.head);
            return;
        }
        let (first_die, ready, turn) = (state.first_die, state.ready, state.turn);
        let dies_per_chip = self.shape.dies_per_chip;
        let chips = self.shape.dies_per_channel / dies_per_chip;
        for step in 0..chips {
            let chip = (turn + step) % chips;
            let mut best: Option<(OperationKind, u64, u32, Pick)> = None;
            for die in chip * dies_per_chip..(chip + 1) * dies_per_chip {
                if ready & 1 << die == 0 {
                    continue;
                }
                let Some(pick) = self.pick(first_die + die) else { continue };
                let before = |(kind, order, ..): &(OperationKind, u64, u32, Pick)| {
                    (pick.kind as u8, pick.order) < (*kind as u8, *order)
                };
                if best.as_ref().is_none_or(before) {
                    best = Some((pick.kind, pick.order, first_die + die, pick));
                }
            }
            if let Some((.., die, pick)) = best {
                self.channels[channel as usize].turn = (chip + 1) % chips;
                self.start(die, pick);
                return;
            }
        }
    }

    /// What `die`, which is idle and has work, would do next, if anything can start.
    #[inline(always)]
    fn pick(&mut self, die: u32) -> Option<Pick> {
        if !self.config.scheduler.die_interleaving && self.chip_busy[self.lane(die)] {
            return None;
        }
        let state = &self.dies[die as usize];
        match state.work.only_reads() {
            Some(class) => self.pick_read(state.first_plane, class),
            None => self.pick_among_all(die),
        }
    }

    fn pick_among_all(&mut self, die: u32) -> Option<Pick> {
        let state = &mut self.dies[die as usize];
        let first = state.first_plane;
        let last = first + self.shape.planes_per_die;
        if state.work.some & MAPPING_READS != 0 {
            return self.pick_read(first, CLASS_MAPPING);
        }
        if state.work.some & COLLECTION_WORK == 0 {
            if let Some(class) = state.host_class(0) {
                return self.pick_read(first, class);
            }
            return self.pick_host_write(die);
        }
        let urgent = (first..last).any(|plane| self.blocks.is_urgent(plane));
        if urgent {
            return self
                .pick_read(first, CLASS_COLLECTION)
                .or_else(|| self.pick_write(first, CLASS_COLLECTION))
                .or_else(|| self.pick_erase(first))
                .or_else(|| {
                    let class = self.dies[die as usize].host_class(0)?;
                    self.pick_read(first, class)
                })
                .or_else(|| self.pick_host_write(die));
        }
        if let Some(class) = self.dies[die as usize].host_class(0) {
            return self.pick_read(first, class);
        }
        self.pick_host_write(die)
            .or_else(|| self.pick_read(first, CLASS_COLLECTION))
            .or_else(|| self.pick_write(first, CLASS_COLLECTION))
            .or_else(|| self.pick_erase(first))
    }

    #[inline]
    fn pick_read(&self, first_plane: u32, class: u8) -> Option<Pick> {
        let mut best = None;
        let mut least = u64::MAX;
        let planes = &self.planes[first_plane as usize..][..self.shape.planes_per_die as usize];
        for (plane, state) in (first_plane..).zip(planes) {
            let head = state.queues.reads[usize::from(class)].head;
            if head != NONE {
                let order = self.transactions[head].order;
                if order < least {
                    least = order;
                    best = Some(Pick { kind: OperationKind::Read, class, plane, order });
                }
            }
        }
        best
    }

    fn pick_host_write(&mut self, die: u32) -> Option<Pick> {
        let first = self.dies[die as usize].first_plane;
        if self.dies[die as usize].work.writes(CLASS_MAPPING) > 0
            && let Some(pick) = self.pick_write(first, CLASS_MAPPING)
        {
            return Some(pick);
        }
        let class = self.dies[die as usize].host_class(1)?;
        self.pick_write(first, class).or_else(|| {
            // The class whose turn it is cannot start: any other may.
            (CLASS_HOST..CLASS_COLLECTION)
                .filter(|&other| other != class)
                .find_map(|other| self.pick_write(first, other))
        })
    }

    fn pick_write(&self, first_plane: u32, class: u8) -> Option<Pick> {
        (first_plane..first_plane + self.shape.planes_per_die)
            .filter(|&plane| self.can_program(plane, class))
            .map(|plane| {
                let head = self.planes[plane as usize].queues.writes[usize::from(class)].head;
                Pick { kind: OperationKind::Program, class, plane, order: self.units[head].order }
            })
            .min_by_key(|pick| pick.order)
    }

    /// Whether a page of `class` can be programmed in `plane` now: there is something to
    /// program, enough to fill the page or a reason not to wait, and a place for it.
    fn can_program(&self, plane: u32, class: u8) -> bool {
        let state = &self.planes[plane as usize];
        if state.queues.writes[usize::from(class)].is_empty() {
            return false;
        }
        let units_per_page = self.shape.units_per_page;
        let (full, stream) = match class {
            CLASS_MAPPING => (true, Stream::Translation),
            CLASS_COLLECTION => (
                state.queues.collected_units >= units_per_page || state.collection.is_read(),
                Stream::Collected,
            ),
            _ => (
                state.queues.host_units >= units_per_page
                    || state.queues.forced > 0
                    || self.write_pressure,
                Stream::Host,
            ),
        };
        full && self.blocks.can_program(plane, stream)
    }

    fn pick_erase(&self, first_plane: u32) -> Option<Pick> {
        (first_plane..first_plane + self.shape.planes_per_die)
            .filter_map(|plane| {
                let queues = &self.planes[plane as usize].queues;
                let head = queues.erases.head;
                if head == NONE {
                    return None;
                }
                // Reads that were queued before the erase may still be of this block.
                let order = self.transactions[head].order;
                let older = queues
                    .reads
                    .iter()
                    .any(|list| !list.is_empty() && self.transactions[list.head].order < order);
                (!older).then_some(Pick {
                    kind: OperationKind::Erase,
                    class: CLASS_COLLECTION,
                    plane,
                    order,
                })
            })
            .min_by_key(|pick| pick.order)
    }

    #[inline(always)]
    fn start(&mut self, die: u32, pick: Pick) {
        match pick.kind {
            OperationKind::Read => self.start_read(die, pick),
            OperationKind::Program => self.start_program(die, pick),
            OperationKind::Erase => self.start_erase(die, pick),
        }
    }

    /// Takes channel and die for an operation: the channel for `command`, the die's array
    /// for `array` after that.
    #[inline(always)]
    fn occupy(
        &mut self,
        die: u32,
        holder: HolderIndex,
        operation: DieOperation,
        command: Span,
        array: Span,
    ) {
        let lane = self.lane(die);
        let now = self.now;
        let state = &mut self.dies[die as usize];
        let (channel, bit) = (state.channel, state.bit);
        let array = state.array_time(array);
        self.counters.multi_plane_operations += u64::from(operation.planes > 1);
        state.operation = Some(operation);
        let end = self.events.reserve(now + command);
        let state = &mut self.channels[channel as usize];
        state.ready &= !bit;
        state.blocked &= !bit;
        state.carrying = Carrying::Command { end, announced: false };
        self.ledger.take_lane(lane, channel as usize, holder, now);
        if !self.config.scheduler.die_interleaving {
            self.chip_busy[lane] = true;
        }
        self.events.push(now + command + array, Event::ArrayDone { die });
    }

    #[inline(never)]
    fn start_read(&mut self, die: u32, pick: Pick) {
        let lane = self.lane(die);
        let channel = self.dies[die as usize].channel as usize;
        let class = usize::from(pick.class);
        let list = &mut self.planes[pick.plane as usize].queues.reads[class];
        let first = self.transactions.pop_front(list).expect("a picked read");
        let mut operation = DieOperation {
            kind: OperationKind::Read,
            planes: 1,
            items: [NONE; PLANES_MAX],
            slots: [NONE; PLANES_MAX],
            stream: Stream::Host,
        };
        operation.items[0] = first;
        let page = self.shape.page_of_slot(self.transactions[first].slot);
        if self.config.scheduler.multi_plane && self.dies[die as usize].work.reads(pick.class) > 1 {
            self.join_reads(&mut operation, pick, page);
        }
        let planes = usize::from(operation.planes);
        let state = &mut self.dies[die as usize];
        state.work.take_reads(pick.class, planes as u32);
        state.take_turn(0, pick.class);
        let command = self.flash.read_command(planes);
        let holder = self.read_starts(first, lane, channel, command);
        for &other in &operation.items[1..planes] {
            self.read_starts(other, lane, channel, command);
        }
        self.counters.flash_reads += planes as u64;
        self.occupy(die, holder, operation, command, self.flash.read(page));
    }

    /// A read's command, which takes `command`, goes out; returns whose it is.
    #[inline]
    fn read_starts(
        &mut self,
        transaction: u32,
        lane: usize,
        channel: usize,
        command: Span,
    ) -> HolderIndex {
        self.charge_die_wait(transaction, lane, channel);
        let t = &mut self.transactions[transaction];
        t.started = self.now;
        t.array = self.now + command;
        match t.purpose {
            Purpose::Collect => self.counters.gc_reads += 1,
            Purpose::Load | Purpose::Update => self.counters.mapping_reads += 1,
            Purpose::Merge => self.counters.merge_reads += 1,
            Purpose::Read | Purpose::Erase => {}
        }
        t.holder
    }

    /// Adds reads at the same page offset of other planes of the die.
    #[inline(never)]
    fn join_reads(&mut self, operation: &mut DieOperation, pick: Pick, page: u32) {
        let first_plane = self.dies[self.shape.die_of_plane(pick.plane) as usize].first_plane;
        for plane in first_plane..first_plane + self.shape.planes_per_die {
            if plane == pick.plane {
                continue;
            }
            let list = self.planes[plane as usize].queues.reads[usize::from(pick.class)];
            let (mut before, mut at) = (NONE, list.head);
            for _ in 0..self.config.scheduler.multi_plane_window {
                if at == NONE {
                    break;
                }
                if self.shape.page_of_slot(self.transactions[at].slot) == page {
                    let list =
                        &mut self.planes[plane as usize].queues.reads[usize::from(pick.class)];
                    self.transactions.unlink(list, before, at);
                    operation.items[usize::from(operation.planes)] = at;
                    operation.planes += 1;
                    break;
                }
                (before, at) = (at, crate::pool::Linked::next(&self.transactions[at]));
            }
        }
    }

    #[inline(never)]
    fn start_program(&mut self, die: u32, pick: Pick) {
        let lane = self.lane(die);
        let channel = self.dies[die as usize].channel as usize;
        let stream = match pick.class {
            CLASS_MAPPING => Stream::Translation,
            CLASS_COLLECTION => Stream::Collected,
            _ => Stream::Host,
        };
        let mut operation = DieOperation {
            kind: OperationKind::Program,
            planes: 0,
            items: [NONE; PLANES_MAX],
            slots: [NONE; PLANES_MAX],
            stream,
        };
        let page = self.blocks.next_page(pick.plane, stream);
        let mut holder = None;
        self.program_page(&mut operation, pick, &mut holder, lane, channel);
        if self.config.scheduler.multi_plane {
            let first_plane = self.dies[die as usize].first_plane;
            for plane in first_plane..first_plane + self.shape.planes_per_die {
                if plane != pick.plane
                    && self.can_program(plane, pick.class)
                    && self.blocks.next_page(plane, stream) == page
                {
                    let other = Pick { plane, ..pick };
                    self.program_page(&mut operation, other, &mut holder, lane, channel);
                }
            }
        }
        let Some(holder) = holder else {
            // Everything that waited had become void.
            if self.dies[die as usize].work.is_empty() {
                let bit = self.dies[die as usize].bit;
                self.channels[channel].ready &= !bit;
            }
            self.mark_channel(channel as u32);
            return;
        };
        self.dies[die as usize].take_turn(1, pick.class);
        let planes = usize::from(operation.planes);
        let command =
            self.flash.program_command(planes) + self.flash.page_transfer.times(planes as u64);
        let (now, array) = (self.now, self.flash.program(page));
        for at in 0..planes {
            let mut unit = operation.items[at];
            while unit != NONE {
                let u = &mut self.units[unit];
                (u.started, u.array) = (now, now + command);
                unit = u.next;
            }
        }
        self.counters.flash_programs += planes as u64;
        match pick.class {
            CLASS_MAPPING => self.counters.mapping_programs += planes as u64,
            CLASS_COLLECTION => self.counters.gc_programs += planes as u64,
            _ => {}
        }
        self.occupy(die, holder, operation, command, array);
    }

    /// Takes units out of a plane's queue, gives them the plane's next page and maps them
    /// to it. Units that have become void on the way are dropped; if none is left no page
    /// is taken.
    fn program_page(
        &mut self,
        operation: &mut DieOperation,
        pick: Pick,
        holder: &mut Option<HolderIndex>,
        lane: usize,
        channel: usize,
    ) {
        let class = usize::from(pick.class);
        let die = self.shape.die_of_plane(pick.plane) as usize;
        let mut chosen = List::EMPTY;
        let mut count = 0;
        // A host page takes units of every priority once it is going to be programmed.
        let classes = match pick.class {
            CLASS_MAPPING | CLASS_COLLECTION => class..class + 1,
            _ => usize::from(CLASS_HOST)..usize::from(CLASS_COLLECTION),
        };
        let order = std::iter::once(class).chain(classes.filter(|&other| other != class));
        'classes: for class in order {
            loop {
                let list = self.planes[pick.plane as usize].queues.writes[class];
                if list.is_empty() {
                    break;
                }
                let whole_page =
                    matches!(self.units[list.head].content, Content::TranslationPage(_));
                if count == self.shape.units_per_page || (whole_page && count > 0) {
                    break 'classes;
                }
                let queues = &mut self.planes[pick.plane as usize].queues;
                let unit = self.units.pop_front(&mut queues.writes[class]).expect("a unit");
                let u = &self.units[unit];
                match class as u8 {
                    CLASS_MAPPING => {}
                    CLASS_COLLECTION => queues.collected_units -= 1,
                    _ => {
                        queues.host_units -= 1;
                        queues.forced -= u32::from(!u.cached || u.through);
                    }
                }
                self.dies[die].work.take_write(class as u8);
                if self.is_void(unit) {
                    self.units[unit].state = UnitState::Mapping;
                    self.defer(Deferred::VoidUnit(unit));
                    continue;
                }
                self.units.push_back(&mut chosen, unit);
                count += 1;
                if whole_page {
                    break 'classes;
                }
            }
        }
        if count > 0 {
            let slot = self.blocks.take_page(pick.plane, operation.stream);
            let at = usize::from(operation.planes);
            (operation.items[at], operation.slots[at]) = (chosen.head, slot);
            operation.planes += 1;
            holder.get_or_insert(self.units[chosen.head].holder);
            let mut unit = chosen.head;
            for place in 0..count {
                let rest = self.charge_unit_wait(unit, lane, channel);
                self.map_unit(unit, slot + place, rest);
                unit = self.units[unit].next;
            }
            // The rest of the page stays empty.
            for place in count..self.shape.units_per_page {
                self.mapping.table.clear_slot(slot + place);
            }
            let whole_page = matches!(self.units[chosen.head].content, Content::TranslationPage(_));
            if operation.stream == Stream::Host && !whole_page {
                self.counters.padded_units += u64::from(self.shape.units_per_page - count);
            }
            self.collect_if_needed(pick.plane);
            self.break_off_if_stuck(pick.plane);
        }
    }

    #[inline(never)]
    fn start_erase(&mut self, die: u32, pick: Pick) {
        let now = self.now;
        let list = &mut self.planes[pick.plane as usize].queues.erases;
        let transaction = self.transactions.pop_front(list).expect("a picked erase");
        self.dies[die as usize].work.take_erase();
        let mut operation = DieOperation {
            kind: OperationKind::Erase,
            planes: 1,
            items: [NONE; PLANES_MAX],
            slots: [NONE; PLANES_MAX],
            stream: Stream::Collected,
        };
        operation.items[0] = transaction;
        if self.config.scheduler.multi_plane && self.dies[die as usize].work.erases > 0 {
            let first_plane = self.dies[die as usize].first_plane;
            for plane in first_plane..first_plane + self.shape.planes_per_die {
                if self.can_erase(plane) {
                    let list = &mut self.planes[plane as usize].queues.erases;
                    let other = self.transactions.pop_front(list).expect("an erase");
                    self.dies[die as usize].work.take_erase();
                    operation.items[usize::from(operation.planes)] = other;
                    operation.planes += 1;
                }
            }
        }
        let planes = usize::from(operation.planes);
        for &item in &operation.items[..planes] {
            self.transactions[item].started = now;
        }
        let holder = self.transactions[transaction].holder;
        let command = self.flash.erase_command(planes);
        self.occupy(die, holder, operation, command, self.flash.erase);
    }

    fn can_erase(&self, plane: u32) -> bool {
        let queues = &self.planes[plane as usize].queues;
        !queues.erases.is_empty() && {
            let order = self.transactions[queues.erases.head].order;
            !queues
                .reads
                .iter()
                .any(|list| !list.is_empty() && self.transactions[list.head].order < order)
        }
    }

    /// Begins to move a page's data from its die.
    #[inline(always)]
    fn start_transfer(&mut self, channel: u32, transaction: u32) {
        let now = self.now;
        let kind = data_list(self.transactions[transaction].purpose);
        let state = &mut self.channels[channel as usize];
        state.data_waiting -= 1;
        let list = &mut state.data[kind];
        let first = self.transactions.pop_front(list);
        debug_assert_eq!(first, Some(transaction));
        let t = &mut self.transactions[transaction];
        t.transfer = now;
        let (holder, bytes) = (t.holder, t.bytes);
        let (watched, ready) = (t.watched, t.ready);
        if watched && ready < now {
            let waiting = Waiting::Transaction(transaction);
            self.ledger.charge_channel(waiting, channel as usize, now, holder, &mut self.blame);
        }
        self.channels[channel as usize].carrying = Carrying::Data { transaction };
        self.ledger.take_channel(channel as usize, holder, now);
        self.events.push(now + self.flash.transfer(bytes), Event::ChannelDone { channel });
    }

    /// What the channel carried is across.
    #[inline]
    pub(crate) fn channel_done(&mut self, channel: u32) {
        let carried = self.channels[channel as usize].carrying;
        self.free_channel(channel, self.now);
        if let Carrying::Data { transaction } = carried {
            let t = &self.transactions[transaction];
            let (die, is_host_read) = (t.die, t.purpose == Purpose::Read);
            if !is_host_read {
                // What follows may list other channels, which come after this one.
                self.mark_channel(channel);
            }
            self.transferred(die);
            self.read_done(transaction);
        }
        if self.channels[channel as usize].has_waiting() {
            self.mark_channel(channel);
        }
    }

    /// One of the pages a die has read has left it.
    #[inline(always)]
    fn transferred(&mut self, die: u32) {
        let state = &mut self.dies[die as usize];
        state.transfers -= 1;
        if state.transfers == 0 {
            self.become_idle(die);
        }
    }

    /// Drops what a die does and what waits for it.
    pub(crate) fn reset_die(&mut self, die: u32) {
        let now = self.now;
        let lane = self.lane(die);
        self.ledger.forget_blocked(lane);
        let busy = self.ledger.release_lane(lane, now);
        self.counters.die_busy[die as usize] += busy;
        self.chip_busy.fill(false);
        let state = &mut self.dies[die as usize];
        state.operation = None;
        state.transfers = 0;
        state.work = Work::default();
        state.idle_since = now;
    }

    /// A die has nothing to do any more. The caller lists its channel.
    #[inline(always)]
    fn become_idle(&mut self, die: u32) {
        let now = self.now;
        let lane = self.lane(die);
        let state = &mut self.dies[die as usize];
        state.operation = None;
        state.idle_since = now;
        let busy = self.ledger.release_lane(lane, now);
        self.counters.die_busy[die as usize] += busy;
        if !state.work.is_empty() {
            self.channels[state.channel as usize].ready |= state.bit;
        } else if self.config.gc.idle_after.is_some() {
            self.schedule_idle_check(die);
        }
        if !self.config.scheduler.die_interleaving {
            self.chip_busy[lane] = false;
        }
    }

    /// A die's array operation is done.
    #[inline]
    pub(crate) fn array_done(&mut self, die: u32) {
        let state = &mut self.dies[die as usize];
        let channel = state.channel;
        let Some(operation) = &state.operation else { return };
        if operation.kind != OperationKind::Read {
            return self.block_changed(die);
        }
        state.transfers = operation.planes;
        if let DieOperation { planes: 1, items: [transaction, ..], .. } = *operation {
            self.read_ready(die, channel, transaction);
        } else {
            let operation = *operation;
            for &transaction in &operation.items[..usize::from(operation.planes)] {
                self.read_ready(die, channel, transaction);
            }
        }
        // A channel whose next end is an event looks again then.
        if matches!(
            self.channels[channel as usize].carrying,
            Carrying::Nothing | Carrying::Command { announced: false, .. }
        ) {
            self.mark_channel(channel);
        }
    }

    /// A program or an erase is done.
    fn block_changed(&mut self, die: u32) {
        let Some(operation) = self.dies[die as usize].operation else { return };
        let planes = usize::from(operation.planes);
        self.become_idle(die);
        self.mark_channel(self.dies[die as usize].channel);
        for at in 0..planes {
            match operation.kind {
                OperationKind::Erase => self.block_erased(operation.items[at]),
                _ => self.page_programmed(operation.items[at], operation.slots[at]),
            }
        }
    }

    /// A page is in its die's register.
    #[inline(always)]
    fn read_ready(&mut self, die: u32, channel: u32, transaction: u32) {
        let now = self.now;
        let order = self.next_order();
        let fails = self.faults.any_reads && self.read_fails(transaction);
        let t = &mut self.transactions[transaction];
        t.ready = now;
        if fails {
            t.transfer = now;
            self.transferred(die);
            self.mark_channel(channel);
            self.read_failed(transaction);
            return;
        }
        t.order = order;
        let (kind, watched) = (data_list(t.purpose), t.watched);
        let state = &mut self.channels[channel as usize];
        state.data_waiting += 1;
        self.transactions.push_back(&mut state.data[kind], transaction);
        if watched {
            self.unsettled = true;
            self.fresh_transactions.push(transaction);
        }
    }
}

fn data_list(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Load | Purpose::Update => 0,
        Purpose::Read | Purpose::Merge => 1,
        Purpose::Collect | Purpose::Erase => 2,
    }
}
