//! Flash operations: how reads, programs and erases begin, which planes join them, and what
//! their end sets in motion. Operations at the same page offset of several planes of a die
//! are joined.

use crate::cache::read::needed_mask;
use crate::drive::Drive;
use crate::flash::channel::{Carrying, data_list};
use crate::flash::choice::Pick;
use crate::flash::die::{Die, DieOperation, OperationKind};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_HOST, CLASS_MAPPING, Work};
use crate::flash::scheduler::Deferred;
use crate::flash::timing::PLANES_MAX;
use crate::ftl::blocks::Stream;
use crate::ftl::mapping::table::Content;
use crate::host::command::{Purpose, UnitState};
use crate::kernel::event::Event;
use crate::kernel::pool::{List, NONE};
use crate::observe::blame::HolderIndex;
use mynah_stamp::Span;
use std::hint::cold_path;

impl Drive {
    #[inline(always)]
    pub(super) fn start(&mut self, die: u32, pick: Pick) {
        match pick.kind {
            OperationKind::Read => self.start_read(die, pick),
            OperationKind::Program => self.start_program(die, pick),
            OperationKind::Erase => self.start_erase(die, pick),
            OperationKind::Suspension => self.resume(die),
        }
    }

    /// Takes channel and die for an operation: the channel for `command`, the die's array
    /// for `array` after that.
    #[inline(always)]
    pub(super) fn occupy(
        &mut self,
        die: u32,
        holder: HolderIndex,
        operation: DieOperation,
        command: Span,
        array: Span,
    ) {
        let array = self.dies[die as usize].array_time(array);
        self.counters.multi_plane_operations += u64::from(operation.planes > 1);
        self.occupy_for(die, holder, operation, command);
        self.events.push(self.now + command + array, Event::ArrayDone { die });
    }

    /// Takes channel and die for an operation whose end the caller schedules.
    #[inline(always)]
    pub(super) fn occupy_for(
        &mut self,
        die: u32,
        holder: HolderIndex,
        operation: DieOperation,
        command: Span,
    ) {
        let now = self.now;
        let state = &mut self.dies[die as usize];
        let (channel, lane, bit) = (state.channel, state.lane as usize, state.bit);
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
    }

    #[inline(never)]
    pub(super) fn start_read(&mut self, die: u32, pick: Pick) {
        let Die { channel, lane, .. } = self.dies[die as usize];
        let (channel, lane) = (channel as usize, lane as usize);
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
        let pages = match self.shape.flash_planes {
            1 => planes,
            _ => self.pages_read(&operation),
        };
        let command = self.flash.read_command(pages);
        if self.flin.is_some() {
            self.note_slowdowns_of_reads(die, &operation.items[..planes]);
        }
        let holder = self.read_starts(first, lane, channel, command);
        for &other in &operation.items[1..planes] {
            self.read_starts(other, lane, channel, command);
        }
        self.counters.flash_reads += planes as u64;
        let mut array = self.flash.read(page);
        if self.worn_reads.is_some() {
            array += self.retries_of(&operation);
        }
        self.occupy(die, holder, operation, command, array);
    }

    /// Pages of the flash that are wanted of units that lie across planes. Counts those that
    /// are more than one of each unit.
    #[cold]
    #[inline(never)]
    fn pages_read(&mut self, operation: &DieOperation) -> usize {
        let page = self.shape.page_bytes / self.shape.flash_planes;
        let mut pages = 0;
        for &transaction in &operation.items[..usize::from(operation.planes)] {
            let t = &self.transactions[transaction];
            let count = match t.purpose {
                Purpose::Read => {
                    let from = self.commands[t.owner].into_first + t.first_sector;
                    let from = from % self.shape.unit_sectors * 512;
                    (from + t.sectors * 512).div_ceil(page) - from / page
                }
                Purpose::Merge => self.pages_missing(t.owner),
                Purpose::Load => t.bytes.div_ceil(page),
                Purpose::Collect | Purpose::Copyback | Purpose::Update | Purpose::Erase => {
                    self.shape.flash_planes
                }
            };
            let others = u64::from(count - 1);
            self.counters.flash_reads += others;
            match self.transactions[transaction].purpose {
                Purpose::Collect | Purpose::Copyback => self.counters.gc_reads += others,
                Purpose::Load | Purpose::Update => self.counters.mapping_reads += others,
                Purpose::Merge => self.counters.merge_reads += others,
                Purpose::Read | Purpose::Erase => {}
            }
            pages += count;
        }
        self.counters.multi_plane_operations += u64::from(operation.planes == 1 && pages > 1);
        pages as usize
    }

    /// Pages of the flash that have something a partly written unit lacks; at least one.
    fn pages_missing(&self, unit: u32) -> u32 {
        let mask = self.units[unit].mask;
        let sectors = self.shape.unit_sectors / self.shape.flash_planes;
        let lacks = |page: &u32| {
            let wanted = needed_mask(self.shape.unit_sectors, page * sectors, sectors);
            mask & wanted != wanted
        };
        ((0..self.shape.flash_planes).filter(lacks).count() as u32).max(1)
    }

    /// A read's command, which takes `command`, goes out; returns whose it is.
    #[inline(always)]
    pub(super) fn read_starts(
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
            Purpose::Collect | Purpose::Copyback => {
                self.counters.gc_reads += 1;
                self.mapping.table.prefetch_slot(t.slot);
            }
            Purpose::Load | Purpose::Update => self.counters.mapping_reads += 1,
            Purpose::Merge => self.counters.merge_reads += 1,
            Purpose::Read | Purpose::Erase => {}
        }
        t.holder
    }

    /// Adds reads at the same page offset of other planes of the die.
    #[inline(never)]
    pub(super) fn join_reads(&mut self, operation: &mut DieOperation, pick: Pick, page: u32) {
        if self.transactions[operation.items[0]].purpose == Purpose::Copyback {
            // It goes on with a program of its own.
            return;
        }
        let die = self.shape.die_of_plane(pick.plane);
        let first_plane = self.dies[die as usize].first_plane;
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
                let t = &self.transactions[at];
                if self.shape.page_of_slot(t.slot) == page
                    && t.purpose != Purpose::Copyback
                    && !self.is_being_programmed(die, t.slot)
                {
                    let list =
                        &mut self.planes[plane as usize].queues.reads[usize::from(pick.class)];
                    self.transactions.unlink(list, before, at);
                    operation.items[usize::from(operation.planes)] = at;
                    operation.planes += 1;
                    break;
                }
                (before, at) = (at, crate::kernel::pool::Linked::next(&self.transactions[at]));
            }
        }
    }

    #[inline(never)]
    pub(super) fn start_program(&mut self, die: u32, pick: Pick) {
        let lane = self.lane(die);
        let channel = self.dies[die as usize].channel as usize;
        let mut stream = match pick.class {
            CLASS_MAPPING => Stream::Translation,
            CLASS_COLLECTION => Stream::Collected,
            _ => Stream::Host,
        };
        if self.goes_by_heat() {
            stream = self.stream_by_heat(pick.plane, pick.class).unwrap_or(stream);
        }
        let mut operation = DieOperation {
            kind: OperationKind::Program,
            planes: 0,
            items: [NONE; PLANES_MAX],
            slots: [NONE; PLANES_MAX],
            stream,
        };
        let page = self.next_page(pick, stream);
        let pages = self.pages_in_program(page);
        let mut holder = None;
        self.program_page(&mut operation, pick, &mut holder, lane, channel);
        let state = &self.dies[die as usize];
        if self.config.scheduler.multi_plane && state.work.writes(pick.class) > 0 {
            let first_plane = state.first_plane;
            for plane in first_plane..first_plane + self.shape.planes_per_die {
                if plane != pick.plane
                    && self.can_program(plane, pick.class)
                    && (self.plain_programs || self.fills(plane, pick.class, stream))
                    && self.next_page(Pick { plane, ..pick }, stream) == page
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
        let pages = u64::from(pages);
        let programs = planes as u64 * pages * u64::from(self.shape.flash_planes);
        let transfer = match !self.plain_programs && self.config.flash.rewritable {
            true => operation.items[..planes].iter().map(|&unit| self.changes_of(unit)).sum(),
            false => self.flash.page_transfer.times(planes as u64),
        };
        let command = (self.flash.program_command(planes) + transfer).times(pages);
        let (now, array) = (self.now, self.flash.program(page));
        if self.flin.is_some() {
            self.note_slowdowns_of_units(die, &operation.items[..planes]);
        }
        for at in 0..planes {
            let mut unit = operation.items[at];
            while unit != NONE {
                let u = &mut self.units[unit];
                (u.started, u.array) = (now, now + command);
                if let (true, Content::Unit(key), Some(cache)) = (u.cached, u.content, &self.cache)
                {
                    cache.prefetch_leaving(key, unit);
                }
                unit = u.next;
            }
        }
        self.counters.flash_programs += programs;
        let joined = self.shape.flash_planes > 1 && planes == 1;
        self.counters.multi_plane_operations += u64::from(joined);
        match pick.class {
            CLASS_MAPPING => self.counters.mapping_programs += planes as u64 * pages,
            CLASS_COLLECTION => {
                self.counters.gc_programs += programs;
                if let Some(flin) = &mut self.flin {
                    flin.collected(die, (planes as u64 * pages) as u32);
                }
                if self.config.gc.paced {
                    self.pages_moved(&operation.slots[..planes]);
                }
            }
            _ => {}
        }
        if self.holds.is_empty() {
            self.occupy(die, holder, operation, command, array);
        } else {
            self.begin_long(die, holder, operation, command, array);
        }
    }

    /// The page offset that a program has.
    #[inline(always)]
    fn next_page(&self, pick: Pick, stream: Stream) -> u32 {
        if self.plain_programs {
            return self.blocks.next_page(pick.plane, stream);
        }
        self.next_page_otherwise(pick, stream)
    }

    #[inline(never)]
    fn next_page_otherwise(&self, pick: Pick, stream: Stream) -> u32 {
        if let Some(hybrid) = &self.hybrid {
            return self.next_page_in_pool(hybrid, pick.plane, pick.class);
        }
        if !self.config.flash.rewritable {
            return self.blocks.next_page(pick.plane, stream);
        }
        let list = self.planes[pick.plane as usize].queues.writes[usize::from(pick.class)];
        self.shape.page_of_slot(self.home_of(self.units[list.head].content))
    }

    /// Where something is for ever that is overwritten in place.
    pub(crate) fn home_of(&self, content: Content) -> u32 {
        let Content::Unit(unit) = content else { unreachable!("there are no tables in it") };
        let space = self.space_of(unit);
        space.home_of(unit - space.base, &self.shape)
    }

    /// Transfer time of what changes in a unit that is overwritten in place.
    fn changes_of(&self, unit: u32) -> Span {
        let bits = self.shape.unit_sectors.min(64);
        let changed = self.units[unit].mask.count_ones().min(bits);
        self.flash.transfer(self.shape.unit_bytes / bits * changed)
    }

    /// Pages that a program takes that begins with page `page` of a block: the rest of the
    /// word line in one-shot programs, else one.
    #[inline]
    pub(super) fn pages_in_program(&self, page: u32) -> u32 {
        match self.shape.pages_per_program {
            1 => 1,
            pages => (pages - page % pages).min(self.shape.pages_per_block - page),
        }
    }

    /// Where something goes in a program whose first `used` slots are taken, and the slots
    /// that are taken then: a translation page has a page of its own.
    #[inline]
    pub(crate) fn place_in_program(&self, content: Content, used: u32) -> (u32, u32) {
        match content {
            Content::Unit(_) => (used, used + 1),
            Content::TranslationPage(_) => {
                let units = self.shape.units_per_page;
                let at = (used + units - 1) & !(units - 1);
                (at, at + units)
            }
        }
    }

    /// Takes units out of a plane's queue, gives them the plane's next page and maps them
    /// to it. Units that have become void on the way are dropped; if none is left no page
    /// is taken.
    pub(super) fn program_page(
        &mut self,
        operation: &mut DieOperation,
        pick: Pick,
        holder: &mut Option<HolderIndex>,
        lane: usize,
        channel: usize,
    ) {
        let pages = match self.plain_programs {
            true => 1,
            false => self.pages_in_program(self.next_page(pick, operation.stream)),
        };
        let capacity = self.shape.units_per_page * pages;
        let (chosen, count) = match self.goes_by_heat() && pick.class != CLASS_MAPPING {
            true => self.take_units_by_heat(pick, operation.stream, capacity),
            false => self.take_units(pick, capacity),
        };
        if count > 0 {
            let slot = match self.plain_programs {
                true => self.blocks.take_page(pick.plane, operation.stream),
                false => self.take_pages(pick, operation.stream, chosen.head, pages),
            };
            let at = usize::from(operation.planes);
            (operation.items[at], operation.slots[at]) = (chosen.head, slot);
            operation.planes += 1;
            holder.get_or_insert(self.units[chosen.head].holder);
            let whole_page = matches!(self.units[chosen.head].content, Content::TranslationPage(_));
            if self.plain_programs {
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
            } else {
                self.map_word_line(chosen.head, slot, capacity, lane, channel);
            }
            if operation.stream.is_host() && !whole_page {
                self.counters.padded_units += u64::from(capacity - count);
                if self.config.gc.paced {
                    self.planes[pick.plane as usize].collection.host_page_programmed();
                }
            }
            if !self.config.flash.rewritable {
                self.collect_if_needed(pick.plane);
                self.break_off_if_stuck(pick.plane);
            }
        }
    }

    /// The classes that a program of `class` takes units of, in order: a host page takes those of
    /// every priority once it is going to be programmed.
    #[inline(always)]
    pub(crate) fn classes_of_program(class: u8) -> impl Iterator<Item = u8> + Clone {
        let classes = match class {
            CLASS_MAPPING | CLASS_COLLECTION => class..class + 1,
            _ => CLASS_HOST..CLASS_COLLECTION,
        };
        std::iter::once(class).chain(classes.filter(move |&other| other != class))
    }

    /// Takes what a program carries out of its plane's queue; how many units.
    #[inline(always)]
    fn take_units(&mut self, pick: Pick, capacity: u32) -> (List, u32) {
        let (mut chosen, mut count, mut used) = (List::EMPTY, 0, 0);
        'classes: for class in Self::classes_of_program(pick.class) {
            loop {
                if used >= capacity {
                    break 'classes;
                }
                let list = self.planes[pick.plane as usize].queues.writes[usize::from(class)];
                if list.is_empty() {
                    break;
                }
                let (_, after) = self.place_in_program(self.units[list.head].content, used);
                if after > capacity {
                    break 'classes;
                }
                match self.take_first(pick.plane, class, false) {
                    Some(unit) => {
                        self.units.push_back(&mut chosen, unit);
                        (count, used) = (count + 1, after);
                    }
                    // Where the next one goes is another question.
                    None if !self.plain_programs && self.hybrid.is_some() => break 'classes,
                    None => {}
                }
            }
        }
        (chosen, count)
    }

    /// Takes the first unit out of one of a plane's queues, which has one. `None`: it has become
    /// void on the way, and is dropped.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, plane: u32, class: u8, hot: bool) -> Option<u32> {
        let queues = &mut self.planes[plane as usize].queues;
        let unit = match hot {
            true => self.hot_queues[plane as usize].take(class, &mut self.units),
            false => self.units.pop_front(&mut queues.writes[usize::from(class)]),
        };
        let unit = unit.expect("a unit");
        let u = &self.units[unit];
        match class {
            CLASS_MAPPING => {}
            CLASS_COLLECTION => queues.collected_units -= 1,
            _ => {
                queues.host_units -= 1;
                self.full_pages.taken(queues.host_units);
                queues.forced -= u32::from(!u.cached || u.through);
                let next = queues.writes[usize::from(class)].head;
                self.prefetch_next_to_program(next);
            }
        }
        self.dies[self.shape.die_of_plane(plane) as usize].work.take_write(class);
        if !self.is_void(unit) {
            return Some(unit);
        }
        self.units[unit].state = UnitState::Mapping;
        self.defer(Deferred::VoidUnit(unit));
        None
    }

    /// Asks for what the program of the unit that is now first in its queue will change, and for
    /// the unit behind it.
    #[inline(always)]
    fn prefetch_next_to_program(&self, unit: u32) {
        if let Some(unit) = self.units.as_slice().get(unit as usize) {
            if let Content::Unit(unit) = unit.content {
                self.mapping.table.prefetch(unit);
            }
            self.units.prefetch(unit.next);
        }
    }

    /// The place of a program that is not just the next page; returns its first slot.
    #[inline(never)]
    fn take_pages(&mut self, pick: Pick, stream: Stream, first: u32, pages: u32) -> u32 {
        if self.config.flash.rewritable {
            return self.home_of(self.units[first].content);
        }
        if self.hybrid.is_some() {
            return self.take_page_in_pool(pick.plane, pick.class, first);
        }
        let slot = self.blocks.take_page(pick.plane, stream);
        for _ in 1..pages {
            self.blocks.take_page(pick.plane, stream);
        }
        slot
    }

    /// Maps units to their places in the pages from `slot` on.
    #[inline(never)]
    fn map_word_line(&mut self, first: u32, slot: u32, capacity: u32, lane: usize, channel: usize) {
        let (mut unit, mut used, mut filled) = (first, 0, 0);
        while unit != NONE {
            let rest = self.charge_unit_wait(unit, lane, channel);
            let (place, after) = self.place_in_program(self.units[unit].content, used);
            for place in filled..place {
                self.mapping.table.clear_slot(slot + place);
            }
            self.map_unit(unit, slot + place, rest);
            (filled, used) = (place + 1, after);
            unit = self.units[unit].next;
        }
        // The rest stays empty.
        for place in filled..capacity {
            self.mapping.table.clear_slot(slot + place);
        }
    }

    #[inline(never)]
    pub(super) fn start_erase(&mut self, die: u32, pick: Pick) {
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
        if let Some(flin) = &mut self.flin {
            flin.collected(die, planes as u32);
        }
        let holder = self.transactions[transaction].holder;
        let joined = self.shape.flash_planes > 1 && planes == 1;
        self.counters.multi_plane_operations += u64::from(joined);
        let command = self.flash.erase_command(planes);
        if self.holds.is_empty() {
            self.occupy(die, holder, operation, command, self.flash.erase);
        } else {
            self.begin_long(die, holder, operation, command, self.flash.erase);
        }
    }

    fn can_erase(&self, plane: u32) -> bool {
        let head = self.planes[plane as usize].queues.erases.head;
        head != NONE && !self.is_read_before(plane, head)
    }

    /// One of the pages a die has read has left it.
    #[inline(always)]
    pub(crate) fn transferred(&mut self, die: u32) {
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
        self.dies[die as usize].busy += busy;
        self.chip_busy.fill(false);
        let state = &mut self.dies[die as usize];
        state.operation = None;
        state.transfers = 0;
        state.work = Work::default();
        state.interruptible = false;
        state.idle_since = now;
        if let Some(hold) = self.holds.get_mut(die as usize) {
            hold.clear();
        }
    }

    /// A die has nothing to do any more. The caller lists its channel.
    #[inline(always)]
    pub(super) fn become_idle(&mut self, die: u32) {
        let now = self.now;
        if self.activity.is_some() {
            cold_path();
            self.note_die(die);
        }
        let state = &mut self.dies[die as usize];
        let lane = state.lane as usize;
        state.operation = None;
        state.idle_since = now;
        state.busy += self.ledger.release_lane(lane, now);
        if !state.work.is_empty() {
            self.channels[state.channel as usize].ready |= state.bit;
        } else if self.config.gc.idle_after.is_some() {
            cold_path();
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
    #[inline(always)]
    pub(super) fn block_changed(&mut self, die: u32) {
        let Some(operation) = self.dies[die as usize].operation else { return };
        self.become_idle(die);
        self.mark_channel(self.dies[die as usize].channel);
        self.finish_change(&operation);
    }

    /// What follows from the end of a program or an erase (nothing from a suspension's).
    #[inline(always)]
    pub(super) fn finish_change(&mut self, operation: &DieOperation) {
        for at in 0..usize::from(operation.planes) {
            match operation.kind {
                OperationKind::Erase => self.block_erased(operation.items[at]),
                _ => self.page_programmed(operation.items[at], operation.slots[at]),
            }
        }
    }

    /// A page is in its die's register.
    #[inline(always)]
    pub(super) fn read_ready(&mut self, die: u32, channel: u32, transaction: u32) {
        let now = self.now;
        let order = self.next_order();
        let fails = self.faults.any_reads && self.read_fails(transaction);
        let t = &mut self.transactions[transaction];
        t.ready = now;
        if fails {
            cold_path();
            t.transfer = now;
            if self.flin.is_some() {
                self.read_has_left(transaction);
            }
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
