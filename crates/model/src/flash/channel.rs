//! A channel: taken by one command or one page of data at a time, and given, when it is
//! free, to whoever is next. Nothing is booked before it starts.

use crate::config::BusArbitration;
use crate::drive::Drive;
use crate::flash::choice::Pick;
use crate::flash::die::OperationKind;
use crate::flash::queues::CLASS_COLLECTION;
use crate::host::command::Purpose;
use crate::kernel::event::{Event, Key};
use crate::kernel::pool::{List, NONE};
use crate::observe::blame::Waiting;
use mynah_stamp::{Span, Time};
use std::hint::cold_path;

/// What a channel carries.
#[derive(Clone, Copy)]
pub(super) enum Carrying {
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
    pub(super) carrying: Carrying,
    /// Idle dies with work, by bit.
    pub(crate) ready: u64,
    /// Busy dies that may want the channel all the same, by bit.
    pub(super) wanted: u64,
    /// Those among the ready ones that have been noted as waiting for the channel.
    pub(super) blocked: u64,
    pub(super) first_die: u32,
    /// Read data waiting in dies: mapping table, host, collection.
    pub(super) data: [List; 3],
    pub(super) data_waiting: u32,
    /// Chip whose turn it is (data first).
    pub(super) turn: u32,
    /// Listed for a look at what could start.
    pub(super) stale: bool,
    pub(super) busy: Span,
}

impl Channel {
    pub(crate) fn new(first_die: u32) -> Channel {
        Channel {
            carrying: Carrying::Nothing,
            ready: 0,
            wanted: 0,
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
        self.wanted = 0;
        self.blocked = 0;
        self.data = [List::EMPTY; 3];
        self.data_waiting = 0;
    }

    /// The chip whose turn it is.
    pub(crate) fn turn(&self) -> u32 {
        self.turn
    }

    /// Gives a chip its turn.
    pub(crate) fn set_turn(&mut self, turn: u32) {
        self.turn = turn;
    }

    pub(crate) fn busy(&self) -> Span {
        self.busy
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        (self.ready | self.wanted) != 0 || self.data_waiting > 0
    }
}

impl Drive {
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

    /// Frees `channel` if the command that it carries has ended by now without an event; whether
    /// it has.
    #[inline(always)]
    pub(crate) fn notice_end(&mut self, channel: u32) -> bool {
        let Some(end) = self.silent_end(channel) else { return false };
        self.counters.events += 1;
        self.free_channel(channel, end);
        true
    }

    #[inline(always)]
    pub(super) fn free_channel(&mut self, channel: u32, at: Time) {
        if self.activity.is_some() {
            cold_path();
            self.note_channel(channel, at);
        }
        let state = &mut self.channels[channel as usize];
        state.carrying = Carrying::Nothing;
        state.busy += self.ledger.release_channel(channel as usize, at);
    }

    /// Gives the channel, if it is free, to whoever is next.
    #[inline(always)]
    pub(super) fn grant(&mut self, channel: u32) {
        let state = &mut self.channels[channel as usize];
        state.stale = false;
        if !state.has_waiting() {
            return;
        }
        let wanted = state.wanted != 0;
        let free = match state.carrying {
            Carrying::Nothing => true,
            Carrying::Command { announced: false, .. } => self.notice_end(channel),
            _ => false,
        };
        if free {
            self.grant_free(channel, wanted);
            if self.channels[channel as usize].wanted != 0 {
                cold_path();
                self.grant_next_page(channel);
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

    #[inline(always)]
    fn grant_free(&mut self, channel: u32, wanted: bool) {
        if (wanted || self.flin.is_some()) && self.grant_before(channel) {
            return;
        }
        match self.config.bus.arbitration {
            BusArbitration::CommandFirst => self.grant_command_first(channel),
            BusArbitration::DataFirst => self.grant_data_first(channel),
        }
    }

    /// What goes before all else on a free channel: a suspend command; returns whether there
    /// was one.
    #[inline(never)]
    fn grant_before(&mut self, channel: u32) -> bool {
        if self.channels[channel as usize].wanted != 0 && self.grant_suspension(channel) {
            return true;
        }
        let data = self.channels[channel as usize].data[data_list(Purpose::Read)];
        if self.flin.is_some() && data.head != data.tail {
            self.put_least_fair_data_first(channel);
        }
        false
    }

    /// Notes that dies of `channel` could start something if it were free.
    pub(super) fn begin_blocked(&mut self, channel: u32, mut waiting: u64) {
        while waiting != 0 {
            let state = &mut self.channels[channel as usize];
            let die = state.first_die + waiting.trailing_zeros();
            let lane = self.dies[die as usize].lane as usize;
            let interleaving = self.config.scheduler.die_interleaving;
            if interleaving {
                state.blocked |= waiting & waiting.wrapping_neg();
            }
            // A die that waits for its chip is looked at again.
            if interleaving || !self.chip_busy[lane] {
                self.ledger.begin_blocked(lane, channel as usize, self.now);
            }
            waiting &= waiting - 1;
        }
    }

    #[inline(always)]
    fn grant_command_first(&mut self, channel: u32) {
        let state = &self.channels[channel as usize];
        let first_die = state.first_die;
        let data = if state.data_waiting == 0 { NONE } else { self.oldest_data(state) };
        let mut ready = state.ready;
        let mut best: Option<(u8, u32, Pick)> = None;
        while ready != 0 {
            let die = first_die + ready.trailing_zeros();
            ready &= ready - 1;
            let Some(pick) = self.pick(die) else { continue };
            // Commands are short and keep dies busy; data goes before programs, which
            // carry a page and come last where they can wait.
            let rank = match pick.kind {
                OperationKind::Read | OperationKind::Erase | OperationKind::Suspension => 0,
                OperationKind::Program if pick.class != CLASS_COLLECTION => 2,
                OperationKind::Program => 3,
            };
            if rank == 0 && ready == 0 && best.is_none() {
                return self.start(die, pick);
            }
            if best.is_none_or(|(r, _, best)| (rank, pick.order) < (r, best.order)) {
                best = Some((rank, die, pick));
            }
        }
        match best {
            Some((rank, die, pick)) if rank == 0 || data == NONE => self.start(die, pick),
            _ if data != NONE => self.start_transfer(channel, data),
            _ => {}
        }
    }

    /// The read data that has waited longest for a channel; some waits.
    #[inline]
    fn oldest_data(&self, state: &Channel) -> u32 {
        let (mut oldest, mut least) = (NONE, u64::MAX);
        for list in state.data {
            if !list.is_empty() {
                let order = self.transactions[list.head].order;
                if order < least {
                    (oldest, least) = (list.head, order);
                }
            }
        }
        oldest
    }

    pub(super) fn grant_data_first(&mut self, channel: u32) {
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

    /// Begins to move a page's data from its die.
    #[inline(always)]
    pub(super) fn start_transfer(&mut self, channel: u32, transaction: u32) {
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
        if t.purpose == Purpose::Collect {
            self.mapping.table.prefetch_content(t.slot);
        }
        if watched && ready < now {
            let waiting = Waiting::Transaction(transaction);
            self.ledger.charge_channel(waiting, channel as usize, now, holder, &mut self.blame);
        }
        self.channels[channel as usize].carrying = Carrying::Data { transaction };
        self.ledger.take_channel(channel as usize, holder, now);
        self.events.push(now + self.flash.transfer(bytes), Event::ChannelDone { channel });
    }

    /// What the channel carried is across.
    #[inline(always)]
    pub(crate) fn channel_done(&mut self, channel: u32) {
        let carried = self.channels[channel as usize].carrying;
        self.free_channel(channel, self.now);
        if let Carrying::Data { transaction } = carried {
            let t = &self.transactions[transaction];
            let (die, is_host_read) = (t.die, t.purpose == Purpose::Read);
            if !is_host_read {
                let stays_in_die = t.purpose == Purpose::Copyback;
                // What follows may list other channels, which come after this one.
                self.mark_channel(channel);
                if stays_in_die {
                    cold_path();
                    return self.program_copyback(die, transaction);
                }
            }
            if self.flin.is_some() {
                self.read_has_left(transaction);
            }
            self.transferred(die);
            if self.worn_reads.is_some() {
                self.decode(transaction);
            } else {
                self.read_done(transaction);
            }
        }
        if self.channels[channel as usize].has_waiting() {
            self.mark_channel(channel);
        }
    }
}

pub(super) fn data_list(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Load | Purpose::Update => 0,
        Purpose::Read | Purpose::Merge => 1,
        Purpose::Collect | Purpose::Copyback | Purpose::Erase => 2,
    }
}
