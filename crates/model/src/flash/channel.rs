//! A channel: taken by one command or one page of data at a time, and given, when it is
//! free, to whoever is next. Nothing is booked before it starts.

use super::Flash;
use super::above::Above;
use super::choice::Pick;
use super::die::OperationKind;
use super::queues::{CLASS_TABLES, moves};
use super::work::WorkKind;
use crate::config::BusArbitration;
use crate::kernel::Kernel;
use crate::kernel::event::{Event, Key};
use crate::kernel::pool::List;
use crate::number::{Channel, Die, Plane, WorkIndex};
use crate::observe::blame::Waiting;
use crate::policy::PlaneScheduling;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Carrying {
    Nothing,
    /// A command. Its end is an event only if something waits for the channel by then
    /// (`announced`); otherwise it is noticed when something asks for the channel.
    Command {
        end: Key,
        announced: bool,
    },
    Data {
        work: WorkIndex,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) struct ChannelState {
    pub(super) carrying: Carrying,
    /// Idle dies with work, by bit.
    pub(super) ready: u64,
    /// Busy dies that may want the channel all the same, by bit.
    pub(super) wanted: u64,
    /// Those among the ready ones that have been noted as waiting for the channel.
    pub(super) blocked: u64,
    pub(super) first_die: Die,
    /// Read data waiting in dies: mapping table, host, collection.
    pub(super) data: [List<WorkIndex>; 3],
    pub(super) data_waiting: u32,
    /// Chip whose turn it is (data first).
    pub(super) turn: u32,
    /// Listed for a look at what could start.
    pub(super) stale: bool,
    pub(super) busy: Span,
}

/// A program that is to start: its page is still to be filled.
#[derive(Clone, Copy)]
pub(crate) struct ProgramTurn {
    pub(crate) die: Die,
    pub(crate) plane: Plane,
    pub(crate) class: u8,
}

/// What has happened when a channel has carried something.
#[derive(Clone, Copy)]
pub(crate) enum Arrived {
    /// A command has been transferred to its die.
    Command,
    /// The data of a read have left their die. Go on with [`Flash::look_again`].
    Data { work: WorkIndex },
    /// A page that stays in its die is to be programmed now, or the die to be freed with
    /// [`Flash::copyback_ends`].
    Copyback { work: WorkIndex, die: Die },
}

impl ChannelState {
    pub(super) fn new(first_die: Die) -> ChannelState {
        ChannelState {
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
    pub(super) fn power_cut(&mut self) {
        self.carrying = Carrying::Nothing;
        self.ready = 0;
        self.wanted = 0;
        self.blocked = 0;
        self.data = [List::EMPTY; 3];
        self.data_waiting = 0;
    }

    /// The chip whose turn it is.
    pub(super) fn turn(&self) -> u32 {
        self.turn
    }

    /// Makes `turn` the chip that is served next.
    pub(super) fn set_turn(&mut self, turn: u32) {
        self.turn = turn;
    }

    pub(super) fn busy(&self) -> Span {
        self.busy
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        (self.ready | self.wanted) != 0 || self.data_waiting > 0
    }
}

impl Flash {
    /// When the command that `channel` carries ends, if it has ended by now without an event.
    #[inline]
    pub(super) fn silent_end(&self, kernel: &Kernel, channel: Channel) -> Option<Time> {
        match self.channels[channel].carrying {
            Carrying::Command { end, announced: false }
                if kernel.events.is_past(end, kernel.now) =>
            {
                Some(end.at())
            }
            _ => None,
        }
    }

    /// Frees `channel` if the command that it carries has ended by now without an event; whether
    /// it has.
    #[inline(always)]
    pub(super) fn notice_end(&mut self, kernel: &mut Kernel, channel: Channel) -> bool {
        let Some(end) = self.silent_end(kernel, channel) else { return false };
        kernel.observe.count().events += 1;
        self.free_channel(kernel, channel, end);
        true
    }

    #[inline(always)]
    pub(super) fn free_channel(&mut self, kernel: &mut Kernel, channel: Channel, at: Time) {
        if kernel.observe.keeps_activity() {
            cold_path();
            kernel.observe.note_channel(channel, at);
        }
        let state = &mut self.channels[channel];
        state.carrying = Carrying::Nothing;
        state.busy += kernel.observe.ledger().release_channel(channel, at);
    }

    /// Gives the channel, if it is free, to whoever is next. If that is a program, its page has to
    /// be filled; then [`Flash::grant_on`] goes on.
    #[inline(always)]
    pub(crate) fn grant(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        scheduling: &mut impl PlaneScheduling,
        channel: Channel,
    ) -> Option<ProgramTurn> {
        let state = &mut self.channels[channel];
        state.stale = false;
        if !state.has_waiting() {
            return None;
        }
        let wanted = state.wanted != 0;
        let free = match state.carrying {
            Carrying::Nothing => true,
            Carrying::Command { announced: false, .. } => self.notice_end(kernel, channel),
            _ => false,
        };
        if free {
            let program = self.grant_free(kernel, above, scheduling, channel, wanted);
            if program.is_some() {
                return program;
            }
            if self.channels[channel].wanted != 0 {
                cold_path();
                let program = self.grant_next_page(kernel, above, channel);
                if program.is_some() {
                    return program;
                }
            }
        }
        self.end_grant(kernel, channel);
        None
    }

    /// Goes on with a channel that was given to a program.
    #[inline(always)]
    pub(crate) fn grant_on(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        channel: Channel,
    ) -> Option<ProgramTurn> {
        if self.channels[channel].wanted != 0 || self.offered.is_some() {
            cold_path();
            let program = self.grant_next_page(kernel, above, channel);
            if program.is_some() {
                return program;
            }
        }
        self.end_grant(kernel, channel);
        None
    }

    #[inline(always)]
    fn end_grant(&mut self, kernel: &mut Kernel, channel: Channel) {
        let state = &mut self.channels[channel];
        if let Carrying::Command { end, announced: false } = state.carrying
            && state.has_waiting()
        {
            state.carrying = Carrying::Command { end, announced: true };
            kernel.events.push_reserved(end, Event::ChannelDone { channel });
        }
        // What is ready and was not chosen waits for the channel from now on.
        let waiting = state.ready & !state.blocked;
        if waiting != 0 {
            self.begin_blocked(kernel, channel, waiting);
        }
    }

    #[inline(always)]
    fn grant_free(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        scheduling: &mut impl PlaneScheduling,
        channel: Channel,
        wanted: bool,
    ) -> Option<ProgramTurn> {
        if (wanted || self.flin.is_some()) && self.grant_before(kernel, above, channel) {
            return None;
        }
        match self.arbitration {
            BusArbitration::CommandFirst => {
                self.grant_command_first(kernel, above, scheduling, channel)
            }
            BusArbitration::DataFirst => self.grant_data_first(kernel, above, scheduling, channel),
        }
    }

    /// What goes before all else on a free channel: a suspend command; returns whether there
    /// was one.
    #[inline(never)]
    fn grant_before(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        channel: Channel,
    ) -> bool {
        if self.channels[channel].wanted != 0 && self.grant_suspension(kernel, above, channel) {
            return true;
        }
        let data = self.channels[channel].data[data_list(WorkKind::HostRead)];
        if self.flin.is_some() && data.head != data.tail {
            self.put_least_fair_data_first(kernel, channel);
        }
        false
    }

    /// Notes that dies of `channel` could start something if it were free.
    fn begin_blocked(&mut self, kernel: &mut Kernel, channel: Channel, mut waiting: u64) {
        while waiting != 0 {
            let state = &mut self.channels[channel];
            let die = state.first_die + waiting.trailing_zeros();
            let lane = self.dies[die].lane;
            let interleaving = self.scheduler.die_interleaving;
            if interleaving {
                state.blocked |= waiting & waiting.wrapping_neg();
            }
            // A die that waits for its chip is looked at again.
            if interleaving || !self.chip_busy[lane] {
                kernel.observe.ledger().begin_blocked(lane, channel, kernel.now);
            }
            waiting &= waiting - 1;
        }
    }

    #[inline(always)]
    fn grant_command_first(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        scheduling: &mut impl PlaneScheduling,
        channel: Channel,
    ) -> Option<ProgramTurn> {
        let state = &self.channels[channel];
        let first_die = state.first_die;
        let data = if state.data_waiting == 0 { WorkIndex::NONE } else { self.oldest_data(state) };
        let mut ready = state.ready;
        let mut best: Option<(u8, Die, Pick)> = None;
        while ready != 0 {
            let die = first_die + ready.trailing_zeros();
            ready &= ready - 1;
            let Some(pick) = self.pick(kernel, above, scheduling, die) else { continue };
            // Commands are short and keep dies busy; data goes before programs, which
            // carry a page and come last where they can wait.
            let rank = match pick.kind {
                OperationKind::Read | OperationKind::Erase | OperationKind::Suspension => 0,
                OperationKind::Program if !moves(pick.class) => 2,
                OperationKind::Program => 3,
            };
            if rank == 0 && ready == 0 && best.is_none() {
                return self.start(kernel, above, die, pick);
            }
            if best.is_none_or(|(r, _, best)| (rank, pick.order) < (r, best.order)) {
                best = Some((rank, die, pick));
            }
        }
        match best {
            Some((rank, die, pick)) if rank == 0 || data == WorkIndex::NONE => {
                return self.start(kernel, above, die, pick);
            }
            _ if data != WorkIndex::NONE => self.start_transfer(kernel, above, channel, data),
            _ => {}
        }
        None
    }

    /// The read data that has waited longest for a channel; some waits.
    #[inline]
    fn oldest_data(&self, state: &ChannelState) -> WorkIndex {
        let (mut oldest, mut least) = (WorkIndex::NONE, u64::MAX);
        for list in state.data {
            if !list.is_empty() {
                let order = self.works[list.head].order;
                if order < least {
                    (oldest, least) = (list.head, order);
                }
            }
        }
        oldest
    }

    fn grant_data_first(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        scheduling: &mut impl PlaneScheduling,
        channel: Channel,
    ) -> Option<ProgramTurn> {
        let state = &self.channels[channel];
        if let Some(list) = state.data.iter().find(|list| !list.is_empty()) {
            self.start_transfer(kernel, above, channel, list.head);
            return None;
        }
        let (first_die, ready, turn) = (state.first_die, state.ready, state.turn);
        let dies_per_chip = self.shape.dies_per_chip;
        let chips = self.shape.dies_per_channel / dies_per_chip;
        for step in 0..chips {
            let chip = (turn + step) % chips;
            // As on a die: what many may wait for goes first.
            let rank = |pick: &Pick| (pick.kind as u8, pick.class != CLASS_TABLES, pick.order);
            let mut best: Option<(Die, Pick)> = None;
            for die in chip * dies_per_chip..(chip + 1) * dies_per_chip {
                if ready & 1 << die == 0 {
                    continue;
                }
                let Some(pick) = self.pick(kernel, above, scheduling, first_die + die) else {
                    continue;
                };
                if best.as_ref().is_none_or(|(_, best)| rank(&pick) < rank(best)) {
                    best = Some((first_die + die, pick));
                }
            }
            if let Some((die, pick)) = best {
                self.channels[channel].turn = (chip + 1) % chips;
                return self.start(kernel, above, die, pick);
            }
        }
        None
    }

    /// Begins to move a page's data from its die.
    #[inline(always)]
    fn start_transfer(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        channel: Channel,
        work: WorkIndex,
    ) {
        let now = kernel.now;
        let kind = data_list(self.works[work].kind);
        let state = &mut self.channels[channel];
        state.data_waiting -= 1;
        let list = &mut state.data[kind];
        let first = self.works.pop_front(list);
        debug_assert_eq!(first, Some(work));
        let w = &mut self.works[work];
        w.transfer = now;
        let (holder, bytes) = (w.holder, w.bytes);
        let (watched, ready) = (w.watched, w.ready);
        if w.kind == WorkKind::CollectionRead {
            above.prefetch_moved(w.ppn);
        }
        let observe = &mut kernel.observe;
        if watched && ready < now {
            let waiting = Waiting::Work(work);
            observe.charge_channel(waiting, channel, (now.since(ready), now), holder);
        }
        self.channels[channel].carrying = Carrying::Data { work };
        observe.ledger().take_channel(channel, holder, now);
        kernel.events.push(now + self.times.transfer(bytes), Event::ChannelDone { channel });
    }

    /// What the channel carried is across.
    #[inline(always)]
    pub(crate) fn channel_done(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        channel: Channel,
    ) -> Arrived {
        let carried = self.channels[channel].carrying;
        self.free_channel(kernel, channel, kernel.now);
        let Carrying::Data { work } = carried else { return Arrived::Command };
        let w = &self.works[work];
        let (die, kind) = (w.die, w.kind);
        if kind != WorkKind::HostRead {
            // What follows may list other channels, which come after this one.
            self.mark_channel(channel);
            if kind == WorkKind::Copyback {
                cold_path();
                return Arrived::Copyback { work, die };
            }
        }
        if self.flin.is_some() {
            self.read_has_left(work);
        }
        self.transferred(kernel, above, die);
        Arrived::Data { work }
    }

    /// Lists the channel for another look if something waits for it.
    #[inline(always)]
    pub(crate) fn look_again(&mut self, channel: Channel) {
        if self.channels[channel].has_waiting() {
            self.mark_channel(channel);
        }
    }
}

pub(super) fn data_list(kind: WorkKind) -> usize {
    match kind {
        WorkKind::TableRead => 0,
        WorkKind::HostRead | WorkKind::RestRead => 1,
        WorkKind::CollectionRead | WorkKind::Copyback | WorkKind::Erase => 2,
    }
}
