//! Flash transaction scheduling: what begins to wait, and the end of each event, at which
//! whatever can start starts and whatever cannot begins to wait.

use super::Flash;
use super::above::Above;
use super::die::DieState;
use super::work::{UNSET, WorkKind};
use crate::kernel::Kernel;
use crate::number::{Channel, Die, Lane, Plane, WorkIndex, WriteIndex};
use crate::observe::blame::{GARBAGE_COLLECTION, HolderIndex, Waiting};
use crate::observe::stats::Resource;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

/// Something that waited for a die and will not be done. Its end may set other things in motion,
/// so it is told when the present event is over.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Dropped {
    /// A part of a page that need not be programmed any more.
    Void(WriteIndex),
    /// One that cannot be programmed.
    Unplaced(WriteIndex),
    /// A read or an erase of a die that is dead.
    Work(WorkIndex),
}

/// A lane of the ledger and its channel.
pub(crate) type LaneAndChannel = (Lane, Channel);

impl Flash {
    #[inline]
    pub(super) fn lane(&self, die: Die) -> Lane {
        self.dies[die].lane
    }

    /// Whether nothing is left to be dealt with at the end of this event.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        !self.unsettled
    }

    /// Lists `channel` for a look at what could start, at the end of this event.
    #[inline(always)]
    pub(crate) fn mark_channel(&mut self, channel: Channel) {
        let state = &mut self.channels[channel];
        if !state.stale {
            state.stale = true;
            self.unsettled = true;
            self.stale_channels.push(channel);
        }
    }

    /// The same for the channel of a plane: something in it may have become possible.
    pub(crate) fn mark_plane(&mut self, plane: Plane) {
        let die = self.shape.die_of_plane(plane);
        self.mark_channel(self.dies[die].channel);
    }

    pub(super) fn mark_ready(&mut self, die: Die) {
        let DieState { channel, bit, .. } = self.dies[die];
        if self.dies[die].is_idle() {
            self.channels[channel].ready |= bit;
            self.mark_channel(channel);
        }
    }

    /// Something waits for a die that does what may be interrupted.
    #[cold]
    #[inline(never)]
    pub(super) fn want_channel(&mut self, die: Die) {
        let DieState { channel, bit, .. } = self.dies[die];
        self.channels[channel].wanted |= bit;
        self.mark_channel(channel);
    }

    /// Puts a read or erase into its plane's queue.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, kernel: &mut Kernel, above: &mut impl Above, work: WorkIndex) {
        let order = kernel.next_order();
        let w = &mut self.works[work];
        w.order = order;
        w.queued = kernel.now;
        let (plane, class) = (w.plane, w.class);
        let (kind, watched) = (w.kind, w.watched);
        let die = self.shape.die_of_plane(plane);
        w.die = die;
        let state = &mut self.dies[die];
        if state.dead {
            cold_path();
            self.drop_later(Dropped::Work(work));
            return;
        }
        let last = match self.flin {
            Some(_) => self.last_read(die, usize::from(class)),
            None => WorkIndex::NONE,
        };
        let state = &mut self.dies[die];
        let queues = &mut self.queues[plane];
        if kind == WorkKind::Erase {
            cold_path();
            self.works.push_back(&mut queues.erases, work);
            state.load.add_erase();
        } else {
            self.works.push_back(&mut queues.reads[usize::from(class)], work);
            state.load.add_read(class);
        }
        if watched {
            self.unsettled = true;
            self.fresh_works.push(work);
        }
        let interruptible = state.interruptible;
        if state.is_idle() {
            let (channel, bit) = (state.channel, state.bit);
            self.channels[channel].ready |= bit;
            self.mark_channel(channel);
        }
        if interruptible || self.flin.is_some() {
            self.read_may_interrupt(kernel, above, work, last);
        }
    }

    /// A read or erase was queued behind `last` where operations are interrupted or flows treated
    /// fairly.
    #[cold]
    #[inline(never)]
    fn read_may_interrupt(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        work: WorkIndex,
        last: WorkIndex,
    ) {
        let die = self.works[work].die;
        if self.dies[die].interruptible {
            self.want_channel(die);
        }
        if self.flin.is_some() {
            self.place_read_fairly(kernel, above, work, last);
        }
    }

    /// The last part that waits to be programmed by `die` in `class`, where that matters to what is
    /// queued next.
    #[inline(always)]
    pub(crate) fn last_program(&self, above: &impl Above, die: Die, class: u8) -> WriteIndex {
        match self.flin {
            Some(_) => self.last_part(above, die, class),
            None => WriteIndex::NONE,
        }
    }

    /// A part of a page waits to be programmed by `die`: behind `last`, see
    /// [`Flash::last_program`].
    #[inline(always)]
    pub(crate) fn program_waits(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        (part, watched): (WriteIndex, bool),
        (die, class): (Die, u8),
        last: WriteIndex,
    ) {
        self.dies[die].load.add_write(class);
        if watched {
            self.watch_program(part);
        }
        self.mark_ready(die);
        if self.dies[die].interruptible || self.flin.is_some() {
            self.program_may_interrupt(kernel, above, part, die, last);
        }
    }

    /// What a part of a page that has begun to wait now waits for is to be known.
    #[inline(always)]
    pub(crate) fn watch_program(&mut self, part: WriteIndex) {
        self.unsettled = true;
        self.fresh_programs.push(part);
    }

    /// The same of a part of a page.
    #[cold]
    #[inline(never)]
    fn program_may_interrupt(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        part: WriteIndex,
        die: Die,
        last: WriteIndex,
    ) {
        if self.dies[die].interruptible {
            self.want_channel(die);
        }
        if self.flin.is_some() {
            self.place_program_fairly(kernel, above, part, die, last);
        }
    }

    /// A part of a page that waited for `plane` has been taken out of its queue.
    #[inline(always)]
    pub(crate) fn program_taken(&mut self, plane: Plane, class: u8) {
        self.dies[self.shape.die_of_plane(plane)].load.take_write(class);
    }

    /// What has been taken out of a die's queues was perhaps the last of it.
    #[cold]
    pub(crate) fn forget_if_empty(&mut self, die: Die) {
        if self.dies[die].load.is_empty() {
            let DieState { channel, bit, .. } = self.dies[die];
            self.channels[channel].ready &= !bit;
        }
    }

    /// The same, and its channel is looked at again.
    #[cold]
    pub(crate) fn queues_emptied(&mut self, die: Die) {
        self.forget_if_empty(die);
        self.mark_channel(self.dies[die].channel);
    }

    /// Nothing comes between the work of a collection of `plane` any more, if that is the drive's
    /// way; until [`Flash::end_collection`].
    pub(crate) fn begin_collection(&mut self, plane: Plane) {
        if !self.preemptible {
            self.dies[self.shape.die_of_plane(plane)].load.begin_exclusive();
        }
    }

    pub(crate) fn end_collection(&mut self, plane: Plane) {
        if !self.preemptible {
            self.dies[self.shape.die_of_plane(plane)].load.end_exclusive();
        }
    }

    /// Something will not be done.
    pub(crate) fn drop_later(&mut self, what: Dropped) {
        self.unsettled = true;
        self.dropped.push(what);
    }

    /// The next channel on which something may have become able to start.
    #[inline(always)]
    pub(crate) fn next_stale(&mut self) -> Option<Channel> {
        self.stale_channels.pop()
    }

    /// Something that will not be done.
    #[inline(always)]
    pub(crate) fn next_dropped(&mut self) -> Option<Dropped> {
        self.dropped.pop()
    }

    /// Notes the beginning of the waits of everything that is new and could not start.
    #[inline(always)]
    pub(crate) fn note_waits(&mut self, kernel: &mut Kernel, above: &impl Above) {
        while let Some(work) = self.fresh_works.pop() {
            self.note_wait(kernel, work);
        }
        if !self.fresh_programs.is_empty() {
            self.note_waits_of_programs(kernel, above);
        }
        self.unsettled = false;
    }

    /// Notes the beginning of a work's wait, if it waits.
    #[inline(always)]
    fn note_wait(&mut self, kernel: &mut Kernel, work: WorkIndex) {
        let w = &self.works[work];
        let waits_for_die = w.started == UNSET;
        let waits_for_channel = w.ready != UNSET && w.transfer == UNSET;
        if waits_for_die || waits_for_channel {
            let die = w.die;
            let DieState { channel, lane, .. } = self.dies[die];
            let waiting = Waiting::Work(work);
            let ledger = kernel.observe.ledger();
            if waits_for_die {
                ledger.note_lane(waiting, lane, channel, kernel.now);
            } else {
                ledger.note_channel(waiting, channel, kernel.now);
            }
        }
    }

    #[inline(never)]
    fn note_waits_of_programs(&mut self, kernel: &mut Kernel, above: &impl Above) {
        while let Some(part) = self.fresh_programs.pop() {
            if let Some(plane) = above.plane_waited_for(part) {
                let die = self.shape.die_of_plane(plane);
                let channel = self.dies[die].channel;
                let lane = self.lane(die);
                let ledger = kernel.observe.ledger();
                ledger.note_lane(Waiting::Program(part), lane, channel, kernel.now);
            }
        }
    }

    /// Charges the wait of a work that starts now to whoever had die and channel.
    #[inline(always)]
    pub(super) fn charge_die_wait(
        &mut self,
        kernel: &mut Kernel,
        work: WorkIndex,
        lane: Lane,
        channel: Channel,
    ) {
        let now = kernel.now;
        let w = &self.works[work];
        if w.watched && w.queued != now {
            let observe = &mut kernel.observe;
            observe.ledger().end_blocked(lane, channel, now);
            let (holder, queued) = (w.holder, w.queued);
            let waiting = Waiting::Work(work);
            let charged = observe.charge_lane(waiting, (lane, channel), now, holder);
            if !self.preemptible {
                // A die that collects may wait for its own data and let nobody else in.
                let whole = now.since(queued);
                let rest = whole.saturating_sub(Span::from_ps(charged));
                observe.charge(holder, Resource::Die, GARBAGE_COLLECTION, rest, (whole, now));
            }
        }
    }

    /// What programs in a plane wait for.
    #[inline(always)]
    pub(crate) fn lane_and_channel(&self, plane: Plane) -> LaneAndChannel {
        let DieState { channel, lane, .. } = self.dies[self.shape.die_of_plane(plane)];
        (lane, channel)
    }

    /// The same for a part of a page that is programmed now and has waited since `queued`; returns
    /// what neither die nor channel explains: it waited for a free block, which `room` makes.
    #[inline(always)]
    pub(crate) fn charge_program_wait(
        &self,
        kernel: &mut Kernel,
        part: WriteIndex,
        (lane, channel): LaneAndChannel,
        (holder, queued): (HolderIndex, Time),
        room: HolderIndex,
    ) -> Span {
        let now = kernel.now;
        let observe = &mut kernel.observe;
        let waiting = Waiting::Program(part);
        let charged = observe.charge_lane(waiting, (lane, channel), now, holder);
        let rest = now.since(queued).saturating_sub(Span::from_ps(charged));
        observe.charge(holder, Resource::FreeBlock, room, rest, (rest, now));
        rest
    }
}
