//! Flash operations: how reads, programs and erases begin, which planes join them, and how they
//! end. Operations at the same page offset of several planes of a die are joined.

use super::Flash;
use super::above::Above;
use super::channel::{Carrying, ProgramTurn, data_list};
use super::choice::Pick;
use super::die::{DieOperation, DieState, OperationKind};
use super::queues::{CLASS_COLLECTION, CLASS_FOLD, CLASS_TABLES};
use super::work::WorkKind;
use crate::kernel::Kernel;
use crate::kernel::event::Event;
use crate::kernel::pool::Linked;
use crate::number::{Channel, Die, Lane, Plane, Planes, Ppn, WorkIndex, WriteIndex};
use crate::observe::activity::{Activity, ActivityKind};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

/// A program whose pages have been filled: what its die is to be given.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) class: u8,
    pub(crate) holder: HolderIndex,
    /// Pages of each plane, from page `page` of its block on.
    pub(crate) pages: u32,
    pub(crate) page: u32,
    /// Whether the cells get one bit, in flash with more.
    pub(crate) slc: bool,
    /// Commands and data of all its pages on the channel.
    pub(crate) command: Span,
}

/// What the end of a die's array operation was of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrayEnd {
    /// Of reads, whose data wait for the channel now.
    Reads,
    /// Of reads of which this one has failed. Go on with [`Flash::reads_ready`] from place `next`
    /// on.
    Failed { work: WorkIndex, next: u32 },
    /// Of a program or an erase. Go on with [`Flash::block_changed`].
    Change,
}

impl Flash {
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
        pick: Pick,
    ) -> Option<ProgramTurn> {
        match pick.kind {
            OperationKind::Read => self.start_read(kernel, above, die, pick),
            OperationKind::Program => {
                return Some(ProgramTurn { die, plane: pick.plane, class: pick.class });
            }
            OperationKind::Erase => self.start_erase(kernel, die, pick),
            OperationKind::Suspension => self.resume(kernel, die),
        }
        None
    }

    /// Takes channel and die for an operation: the channel for `command`, the die's array
    /// for `array` after that.
    #[inline(always)]
    pub(super) fn occupy(
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
        self.occupy_for(kernel, die, holder, operation, command);
        kernel.events.push(kernel.now + command + array, Event::ArrayDone { die });
    }

    /// Takes channel and die for an operation whose end the caller schedules.
    #[inline(always)]
    pub(super) fn occupy_for(
        &mut self,
        kernel: &mut Kernel,
        die: Die,
        holder: HolderIndex,
        operation: DieOperation,
        command: Span,
    ) {
        let now = kernel.now;
        let state = &mut self.dies[die];
        let (channel, lane, bit) = (state.channel, state.lane, state.bit);
        state.operation = Some(operation);
        let end = kernel.events.reserve(now + command);
        let state = &mut self.channels[channel];
        state.ready &= !bit;
        state.blocked &= !bit;
        state.carrying = Carrying::Command { end, announced: false };
        kernel.observe.ledger().take_lane(lane, channel, holder, now);
        if !self.scheduler.die_interleaving {
            self.chip_busy[lane] = true;
        }
    }

    #[inline(never)]
    fn start_read(&mut self, kernel: &mut Kernel, above: &mut impl Above, die: Die, pick: Pick) {
        let DieState { channel, lane, .. } = self.dies[die];
        let class = usize::from(pick.class);
        let list = &mut self.queues[pick.plane].reads[class];
        let first = self.works.pop_front(list).expect("a picked read");
        let mut operation = DieOperation::new(OperationKind::Read);
        operation.add_work(first);
        let page = self.shape.page_of_ppn(self.works[first].ppn);
        if self.scheduler.multi_plane && self.dies[die].load.reads(pick.class) > 1 {
            self.join_reads(above, &mut operation, pick, page);
        }
        let planes = usize::from(operation.planes);
        let state = &mut self.dies[die];
        state.load.take_reads(pick.class, planes as u32);
        state.take_turn(0, pick.class);
        let pages = match self.shape.flash_planes {
            1 => planes,
            _ => self.pages_read(kernel, above, &operation),
        };
        let command = self.times.read_command(pages);
        if self.flin.is_some() {
            self.note_slowdowns_of_reads(kernel, die, &operation);
        }
        let holder = self.read_starts(kernel, above, first, lane, channel, command);
        for &other in &operation.items[1..planes] {
            self.read_starts(kernel, above, WorkIndex(other), lane, channel, command);
        }
        kernel.observe.count().flash_reads += planes as u64;
        let mut array = match above.is_slc(self.works[first].ppn) {
            true => self.times.slc().read,
            false => self.times.read(page),
        };
        if above.varies_reads() {
            let ppns = operation.works().map(|work| self.works[work].ppn);
            array += above.longer_read(kernel, ppns);
        }
        self.occupy(kernel, die, holder, operation, command, array);
    }

    /// Pages of the flash that are wanted of reads that lie across planes. Counts those that
    /// are more than one of each.
    #[cold]
    #[inline(never)]
    fn pages_read(
        &mut self,
        kernel: &mut Kernel,
        above: &impl Above,
        operation: &DieOperation,
    ) -> usize {
        let counters = kernel.observe.count();
        let mut pages = 0;
        for work in operation.works() {
            let work = &self.works[work];
            // A page is read whole, even if nothing of it is sent.
            let count = above.pages_wanted(work).max(1);
            let others = u64::from(count - 1);
            counters.flash_reads += others;
            match work.class {
                CLASS_FOLD => counters.slc.fold_reads += others,
                _ => counters.count_reads(work.kind, others),
            }
            pages += count;
        }
        counters.multi_plane_operations += u64::from(operation.planes == 1 && pages > 1);
        pages as usize
    }

    /// A read's command, which takes `command`, goes out; returns whose it is.
    #[inline(always)]
    fn read_starts(
        &mut self,
        kernel: &mut Kernel,
        above: &impl Above,
        work: WorkIndex,
        lane: Lane,
        channel: Channel,
        command: Span,
    ) -> HolderIndex {
        self.charge_die_wait(kernel, work, lane, channel);
        let w = &mut self.works[work];
        w.started = kernel.now;
        w.array = kernel.now + command;
        match w.class {
            CLASS_FOLD => kernel.observe.count().slc.fold_reads += 1,
            _ => kernel.observe.count().count_reads(w.kind, 1),
        }
        if matches!(w.kind, WorkKind::CollectionRead | WorkKind::Copyback) {
            above.prefetch_read(w.ppn);
        }
        w.holder
    }

    /// Adds reads at the same page offset of other planes of the die.
    #[inline(never)]
    fn join_reads(
        &mut self,
        above: &impl Above,
        operation: &mut DieOperation,
        pick: Pick,
        page: u32,
    ) {
        let slc = above.is_slc(self.works[operation.work_at(0)].ppn);
        if self.works[operation.work_at(0)].kind == WorkKind::Copyback {
            // It goes on with a program of its own.
            return;
        }
        let die = self.shape.die_of_plane(pick.plane);
        let class = usize::from(pick.class);
        for plane in self.planes_of(die) {
            if plane == pick.plane {
                continue;
            }
            let list = self.queues[plane].reads[class];
            let (mut before, mut at) = (WorkIndex::NONE, list.head);
            for _ in 0..self.scheduler.multi_plane_window {
                if at == WorkIndex::NONE {
                    break;
                }
                let w = &self.works[at];
                if self.shape.page_of_ppn(w.ppn) == page
                    && above.is_slc(w.ppn) == slc
                    && w.kind != WorkKind::Copyback
                    && !self.is_being_programmed(die, w.ppn)
                {
                    let list = &mut self.queues[plane].reads[class];
                    self.works.unlink(list, before, at);
                    operation.add_work(at);
                    break;
                }
                (before, at) = (at, self.works[at].next());
            }
        }
    }

    #[inline]
    pub(super) fn planes_of(&self, die: Die) -> Planes {
        self.dies[die].first_plane.run(self.shape.planes_per_die)
    }

    /// The planes of a die whose programs may be joined: none where programs are not, or no other
    /// of the class waits.
    #[inline(always)]
    pub(crate) fn planes_to_join(&self, die: Die, class: u8) -> Planes {
        match self.scheduler.multi_plane && self.dies[die].load.writes(class) > 0 {
            true => self.planes_of(die),
            false => Planes::EMPTY,
        }
    }

    /// How long commands and data of a program are on the channel; its data take `transfer`, or are
    /// whole pages.
    #[inline(always)]
    pub(crate) fn program_command(
        &self,
        planes: usize,
        pages: u32,
        transfer: Option<Span>,
    ) -> Span {
        let transfer = transfer.unwrap_or_else(|| self.times.page_transfer.times(planes as u64));
        (self.times.program_command(planes) + transfer).times(pages.into())
    }

    /// A die takes a program. The parts of its pages have the same class.
    #[inline(always)]
    pub(crate) fn program(
        &mut self,
        kernel: &mut Kernel,
        above: &impl Above,
        die: Die,
        operation: &DieOperation,
        program: Program,
    ) {
        let Program { class, holder, pages, page, slc, command } = program;
        self.dies[die].take_turn(1, class);
        let planes = usize::from(operation.planes);
        let array = if slc { self.times.slc().program } else { self.times.program(page) };
        if self.flin.is_some() {
            self.note_slowdowns_of_programs(kernel, above, die, operation);
        }
        let moved = planes as u64 * u64::from(pages);
        let programs = moved * u64::from(self.shape.flash_planes);
        let counters = kernel.observe.count();
        counters.flash_programs += programs;
        let joined = self.shape.flash_planes > 1 && planes == 1;
        counters.multi_plane_operations += u64::from(joined);
        match class {
            CLASS_TABLES => counters.count_table_programs(moved),
            CLASS_COLLECTION => {
                counters.gc_programs += programs;
                if let Some(flin) = &mut self.flin {
                    flin.collected(die, moved as u32);
                }
            }
            CLASS_FOLD => {
                counters.slc.fold_programs += programs;
            }
            _ => counters.slc.slc_programs += if slc { programs } else { 0 },
        }
        if self.holds.is_empty() {
            self.occupy(kernel, die, holder, *operation, command, array);
        } else {
            self.begin_long(kernel, die, holder, *operation, command, array);
        }
    }

    /// The page that begins with the part `first` is programmed to `ppn` from its die's register.
    pub(crate) fn program_copyback(
        &mut self,
        kernel: &mut Kernel,
        die: Die,
        first: WriteIndex,
        ppn: Ppn,
    ) {
        let pages = u64::from(self.shape.flash_planes);
        let counters = kernel.observe.count();
        counters.flash_programs += pages;
        counters.gc_programs += pages;
        counters.copybacks += pages;
        if let Some(flin) = &mut self.flin {
            flin.collected(die, 1);
        }
        let time = self.times.program(self.shape.page_of_ppn(ppn));
        let state = &mut self.dies[die];
        state.transfers = 0;
        let mut operation = DieOperation::new(OperationKind::Program);
        operation.collects = true;
        operation.add_page(first, ppn);
        state.operation = Some(operation);
        kernel.events.push(kernel.now + state.array_time(time), Event::ArrayDone { die });
    }

    /// There will be no program of a page that was read to be programmed elsewhere.
    pub(crate) fn copyback_ends(&mut self, kernel: &mut Kernel, above: &mut impl Above, die: Die) {
        self.transferred(kernel, above, die);
    }

    #[inline(never)]
    fn start_erase(&mut self, kernel: &mut Kernel, die: Die, pick: Pick) {
        let now = kernel.now;
        let list = &mut self.queues[pick.plane].erases;
        let work = self.works.pop_front(list).expect("a picked erase");
        self.dies[die].load.take_erase();
        let mut operation = DieOperation::new(OperationKind::Erase);
        operation.collects = true;
        operation.add_work(work);
        if self.scheduler.multi_plane && self.dies[die].load.erases > 0 {
            for plane in self.planes_of(die) {
                if self.can_erase(plane) {
                    let list = &mut self.queues[plane].erases;
                    let other = self.works.pop_front(list).expect("an erase");
                    self.dies[die].load.take_erase();
                    operation.add_work(other);
                }
            }
        }
        let planes = usize::from(operation.planes);
        for item in operation.works() {
            self.works[item].started = now;
        }
        if let Some(flin) = &mut self.flin {
            flin.collected(die, planes as u32);
        }
        let holder = self.works[work].holder;
        let joined = self.shape.flash_planes > 1 && planes == 1;
        kernel.observe.count().multi_plane_operations += u64::from(joined);
        let command = self.times.erase_command(planes);
        let all_slc = operation.works().all(|work| self.works[work].class == CLASS_FOLD);
        let array = if all_slc { self.times.slc().erase } else { self.times.erase };
        if self.holds.is_empty() {
            self.occupy(kernel, die, holder, operation, command, array);
        } else {
            self.begin_long(kernel, die, holder, operation, command, array);
        }
    }

    fn can_erase(&self, plane: Plane) -> bool {
        let head = self.queues[plane].erases.head;
        head != WorkIndex::NONE && !self.is_read_before(plane, head)
    }

    /// One of the pages a die has read has left it.
    #[inline(always)]
    pub(super) fn transferred(&mut self, kernel: &mut Kernel, above: &mut impl Above, die: Die) {
        let state = &mut self.dies[die];
        state.transfers -= 1;
        if state.transfers == 0 {
            self.become_idle(kernel, above, die);
        }
    }

    /// A die has nothing to do any more. The caller lists its channel.
    #[inline(always)]
    fn become_idle(&mut self, kernel: &mut Kernel, above: &mut impl Above, die: Die) {
        let now = kernel.now;
        if kernel.observe.keeps_activity() {
            cold_path();
            self.note_die(kernel, die);
        }
        let state = &mut self.dies[die];
        let lane = state.lane;
        state.operation = None;
        state.idle_since = now;
        state.busy += kernel.observe.ledger().release_lane(lane, now);
        if !state.load.is_empty() {
            self.channels[state.channel].ready |= state.bit;
        } else if above.minds_rest() {
            cold_path();
            above.die_rests(kernel, self.planes_of(die));
        }
        if !self.scheduler.die_interleaving {
            self.chip_busy[lane] = false;
        }
    }

    /// A die's array operation is done.
    #[inline]
    pub(crate) fn array_done(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
    ) -> ArrayEnd {
        let state = &mut self.dies[die];
        let operation = match &state.operation {
            Some(operation) if operation.kind == OperationKind::Read => operation,
            _ => return ArrayEnd::Change,
        };
        state.transfers = operation.planes;
        if let DieOperation { planes: 1, items: [work, ..], .. } = *operation {
            let (channel, work) = (state.channel, WorkIndex(work));
            if !self.read_ready(kernel, above, die, channel, work) {
                cold_path();
                return ArrayEnd::Failed { work, next: 1 };
            }
            self.look_after_reads(channel);
            return ArrayEnd::Reads;
        }
        let operation = *operation;
        self.several_ready(kernel, above, die, &operation, 0)
    }

    /// Goes on with the reads of a die of which one has failed.
    #[cold]
    pub(crate) fn reads_ready(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
        next: u32,
    ) -> ArrayEnd {
        match self.interrupted.take() {
            Some(operation) => self.several_ready(kernel, above, die, &operation, next),
            None => {
                self.look_after_reads(self.dies[die].channel);
                ArrayEnd::Reads
            }
        }
    }

    /// Pages of an operation of several planes are in their die's registers: those of the reads
    /// from place `from` on. Stops at the first that is spoilt.
    #[inline(never)]
    fn several_ready(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
        operation: &DieOperation,
        from: u32,
    ) -> ArrayEnd {
        let channel = self.dies[die].channel;
        for at in from..u32::from(operation.planes) {
            let work = operation.work_at(at as usize);
            if !self.read_ready(kernel, above, die, channel, work) {
                self.interrupted = Some(Box::new(*operation));
                return ArrayEnd::Failed { work, next: at + 1 };
            }
        }
        self.look_after_reads(channel);
        ArrayEnd::Reads
    }

    /// Data wait for a channel: one whose next end is an event looks again then.
    #[inline(always)]
    fn look_after_reads(&mut self, channel: Channel) {
        if matches!(
            self.channels[channel].carrying,
            Carrying::Nothing | Carrying::Command { announced: false, .. }
        ) {
            self.mark_channel(channel);
        }
    }

    /// A program or an erase is done; which.
    #[inline(always)]
    pub(crate) fn block_changed(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
    ) -> Option<DieOperation> {
        let operation = self.dies[die].operation?;
        self.become_idle(kernel, above, die);
        self.mark_channel(self.dies[die].channel);
        Some(operation)
    }

    /// A page is in its die's register; false if it is spoilt, and has left it.
    #[inline(always)]
    fn read_ready(
        &mut self,
        kernel: &mut Kernel,
        above: &mut impl Above,
        die: Die,
        channel: Channel,
        work: WorkIndex,
    ) -> bool {
        let now = kernel.now;
        let order = kernel.next_order();
        let fails = above.spoils_reads() && above.spoils(kernel, &self.works[work]);
        let w = &mut self.works[work];
        w.ready = now;
        if fails {
            cold_path();
            w.transfer = now;
            if self.flin.is_some() {
                self.read_has_left(work);
            }
            self.transferred(kernel, above, die);
            self.mark_channel(channel);
            return false;
        }
        w.order = order;
        let (kind, watched) = (data_list(w.kind), w.watched);
        let state = &mut self.channels[channel];
        state.data_waiting += 1;
        self.works.push_back(&mut state.data[kind], work);
        if watched {
            self.unsettled = true;
            self.fresh_works.push(work);
        }
        true
    }

    /// A die is about to be free: keeps what it did, for timelines.
    #[cold]
    #[inline(never)]
    pub(super) fn note_die(&self, kernel: &mut Kernel, die: Die) {
        let kind = match &self.dies[die].operation {
            Some(operation) => match operation.kind {
                OperationKind::Read => ActivityKind::Read,
                OperationKind::Program => ActivityKind::Program,
                OperationKind::Erase => ActivityKind::Erase,
                OperationKind::Suspension => return,
            },
            None => return,
        };
        if let Some((by, start)) = kernel.observe.tenancies().lane_tenant(self.lane(die)) {
            let (holder, end) = (kernel.observe.flows().holder(by), kernel.now);
            kernel.observe.note(Activity { kind, index: die.0, holder, start, end });
        }
    }

    /// Since when nothing has been done in, and nothing has waited for, the die of a plane, if
    /// that is so.
    pub(crate) fn idle_since(&self, plane: Plane) -> Option<Time> {
        let die = &self.dies[self.shape.die_of_plane(plane)];
        (die.is_idle() && die.load.is_empty()).then_some(die.idle_since)
    }

    /// Whether the die of a plane does nothing at present.
    pub(crate) fn is_idle(&self, plane: Plane) -> bool {
        self.dies[self.shape.die_of_plane(plane)].is_idle()
    }
}
