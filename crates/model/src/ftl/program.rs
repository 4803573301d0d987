//! Programs: a page is filled when its die can take it. What waits for the plane is taken out of its
//! queues, given the plane's next page, and mapped to it.

use super::Ftl;
use super::blocks::Stream;
use super::mapping::table::Content;
use super::unit::UnitState;
use crate::drive::{Drive, Policies};
use crate::flash::channel::ProgramTurn;
use crate::flash::die::{DieOperation, OperationKind};
use crate::flash::operation::Program;
use crate::flash::queues::{CLASS_COLLECTION, CLASS_FOLD, CLASS_HOST, CLASS_TABLES, moves};
use crate::flash::scheduler::{Dropped, LaneAndChannel};
use crate::kernel::Kernel;
use crate::kernel::pool::{Linked, List, PoolIndex};
use crate::number::{Channel, Plane, Ppn, WriteIndex};
use crate::observe::blame::HolderIndex;
use mynah_stamp::Span;
use std::hint::cold_path;

/// A program that is being filled.
struct Filling {
    operation: DieOperation,
    stream: Stream,
    class: u8,
    holder: Option<HolderIndex>,
}

/// The classes that a program of `class` takes units of, in order: a host page takes those of
/// every priority once it is going to be programmed.
#[inline(always)]
pub(super) fn classes_of_program(class: u8) -> impl Iterator<Item = u8> + Clone {
    let classes = match class {
        CLASS_TABLES | CLASS_COLLECTION | CLASS_FOLD => class..class + 1,
        _ => CLASS_HOST..CLASS_COLLECTION,
    };
    std::iter::once(class).chain(classes.filter(move |&other| other != class))
}

impl Ftl {
    /// What a program of `class` in `plane` is for, where there are no groups.
    #[inline(always)]
    pub(super) fn stream_of(&self, plane: Plane, class: u8) -> Stream {
        match class {
            CLASS_TABLES => Stream::TRANSLATION,
            CLASS_COLLECTION | CLASS_FOLD => Stream::COLLECTED,
            _ if self.plain_programs => Stream::HOST,
            _ => self.host_stream(plane),
        }
    }

    /// The page offset that the next program of `class` in `plane` has.
    #[inline(always)]
    fn next_page(&self, plane: Plane, class: u8, stream: Stream) -> u32 {
        if self.plain_programs {
            return self.blocks.next_page(plane, stream);
        }
        self.next_page_otherwise(plane, class, stream)
    }

    /// Where something goes in a program whose first `used` places are taken, and the places
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

    /// Asks for what the program of the unit that is now first in its queue will change, and for
    /// the unit behind it.
    #[inline(always)]
    fn prefetch_next_to_program(&self, unit: WriteIndex) {
        if let Some(unit) = self.units.as_slice().get(unit.index()) {
            if let Content::Unit(lpn) = unit.content {
                self.mapping.table.prefetch(lpn);
            }
            self.units.prefetch(unit.next());
        }
    }

    /// Bytes that change in a unit that is overwritten in place.
    fn bytes_changed(&self, unit: WriteIndex) -> u32 {
        let bits = self.shape.unit_sectors.min(64);
        let changed = self.units[unit].mask.count_ones().min(bits);
        self.shape.unit_bytes / bits * changed
    }

    /// Whether a page of `class` that fills blocks of `stream` can be programmed in `plane` now.
    fn can_join(&self, kernel: &Kernel, plane: Plane, class: u8, stream: Stream) -> bool {
        if self.is_grouped() {
            let next = self.next_by_group(kernel, plane, class);
            return next.is_some_and(|(next, _)| next == stream);
        }
        !self.planes[plane].queues.writes[usize::from(class)].is_empty()
            && self.can_program_waiting(plane, class)
            && (self.plain_programs || self.stream_of(plane, class) == stream)
    }
}

impl<P: Policies> Drive<P> {
    /// A die of a channel can take a program: its page is filled, and those of other planes that
    /// may join it. Then the channel goes on, perhaps with another program.
    #[inline(never)]
    pub(crate) fn start_program(&mut self, channel: Channel, turn: ProgramTurn) {
        self.fill_program(turn);
        if let Some(turn) = self.flash.grant_on(&mut self.kernel, &mut self.ftl, channel) {
            cold_path();
            self.start_program(channel, turn);
        }
    }

    #[inline(always)]
    fn fill_program(&mut self, turn: ProgramTurn) {
        let ProgramTurn { die, plane, class } = turn;
        let ftl = &self.ftl;
        let next = match ftl.is_grouped() {
            true => ftl.next_by_group(&self.kernel, plane, class),
            false => None,
        };
        let stream = next.map_or_else(|| ftl.stream_of(plane, class), |(stream, _)| stream);
        let operation = DieOperation::new(OperationKind::Program);
        let mut filling = Filling { operation, stream, class, holder: None };
        filling.operation.collects = stream.is_collected();
        let page = self.ftl.next_page(plane, class, stream);
        let pages = self.ftl.pages_in_program(stream, page);
        self.fill_page(&mut filling, plane);
        for other in self.flash.planes_to_join(die, class) {
            if other != plane
                && self.ftl.can_join(&self.kernel, other, class, stream)
                && self.ftl.next_page(other, class, stream) == page
            {
                self.fill_page(&mut filling, other);
            }
        }
        let Filling { operation, holder, .. } = &filling;
        let Some(holder) = *holder else {
            // Everything that waited had become void.
            return self.flash.queues_emptied(die);
        };
        let planes = usize::from(operation.planes);
        let transfer = if !self.ftl.plain_programs && self.ftl.scheme.is_in_place() {
            Some(self.changes_of(operation))
        } else if self.flash.times().as_mqsim() && stream.is_host() {
            Some(self.written_of(operation))
        } else {
            None
        };
        let command = self.flash.program_command(planes, pages, transfer);
        let now = self.kernel.now;
        for first in operation.parts() {
            let mut unit = first;
            while unit != WriteIndex::NONE {
                let u = &mut self.ftl.units[unit];
                (u.started, u.array) = (now, now + command);
                if let (true, Content::Unit(key), Some(cache)) = (u.cached, u.content, &self.cache)
                {
                    cache.prefetch_leaving(key, unit);
                }
                unit = u.next();
            }
        }
        if moves(class) && self.ftl.paced {
            self.ftl.pages_moved(&operation.ppns[..planes]);
        }
        let slc = stream.is_slc();
        let program = Program { class, holder, pages, page, slc, command };
        self.flash.program(&mut self.kernel, &self.ftl, die, operation, program);
    }

    /// Transfer time of what changes in units that are overwritten in place.
    fn changes_of(&self, operation: &DieOperation) -> Span {
        let times = self.flash.times();
        operation.parts().map(|unit| times.transfer(self.ftl.bytes_changed(unit))).sum()
    }

    /// Transfer time of what hosts have written of units, and no more: as MQSim, whose write
    /// transactions are as large as what they were made for (NVM_PHY_ONFI_NVDDR2.cpp).
    #[cold]
    fn written_of(&self, operation: &DieOperation) -> Span {
        let times = self.flash.times();
        let bits = self.shape.unit_sectors.min(64);
        let bytes = |unit: WriteIndex| {
            let written = self.ftl.units[unit].written.count_ones().min(bits);
            self.shape.unit_bytes / bits * if written == 0 { bits } else { written }
        };
        operation.parts().map(|unit| times.transfer(bytes(unit))).sum()
    }

    /// Takes units out of a plane's queue, gives them the plane's next page and maps them
    /// to it. Units that have become void on the way are dropped; if none is left no page
    /// is taken.
    fn fill_page(&mut self, filling: &mut Filling, plane: Plane) {
        let (class, stream) = (filling.class, filling.stream);
        let pages = match self.ftl.plain_programs {
            true => 1,
            false => self.ftl.pages_in_program(stream, self.ftl.next_page(plane, class, stream)),
        };
        let capacity = self.shape.units_per_page * pages;
        let (chosen, count) = match self.ftl.is_grouped() && class != CLASS_TABLES {
            true => self.take_units_by_group(plane, class, stream, capacity),
            false => self.take_units(plane, class, capacity),
        };
        if count > 0 {
            let ppn = match self.ftl.plain_programs {
                true => self.ftl.blocks.take_page(plane, stream),
                false => self.ftl.take_pages(plane, class, stream, chosen.head, pages),
            };
            filling.operation.add_page(chosen.head, ppn);
            let first = &self.ftl.units[chosen.head];
            filling.holder.get_or_insert(first.holder);
            let whole_page = matches!(first.content, Content::TranslationPage(_));
            let place = self.flash.lane_and_channel(plane);
            if self.ftl.plain_programs {
                let mut unit = chosen.head;
                for at in 0..count {
                    let rest = self.charge_unit_wait(unit, place);
                    self.map_unit(unit, ppn + at, rest);
                    unit = self.ftl.units[unit].next();
                }
                // The rest of the page stays empty.
                for place in count..self.shape.units_per_page {
                    self.ftl.mapping.table.clear_ppn(ppn + place);
                }
            } else {
                self.map_word_line(chosen.head, place, ppn, capacity);
            }
            if self.ftl.handles.is_some() {
                cold_path();
                self.ftl.count_by_handle(chosen.head);
                if stream.is_host() {
                    let padded = if whole_page { 0 } else { capacity - count };
                    self.page_of_handle(stream.group, count, padded);
                }
            }
            if stream.is_host() && !whole_page {
                self.kernel.observe.count().padded_units += u64::from(capacity - count);
                if self.ftl.slc.is_some() {
                    let counters = &mut self.kernel.observe.count().slc;
                    counters.units_cached += if stream.is_slc() { count.into() } else { 0 };
                    counters.units_direct += if stream.is_slc() { 0 } else { count.into() };
                }
                if self.ftl.paced {
                    self.ftl.planes[plane].collection.host_page_programmed();
                }
            }
            if self.ftl.plain_programs || !self.ftl.scheme.is_in_place() {
                self.collect_if_needed(plane);
                self.break_off_if_stuck(plane);
            }
        }
    }

    /// Charges the wait of a unit whose program starts now; returns the part of it in which it
    /// waited for a free block.
    #[inline(always)]
    fn charge_unit_wait(&mut self, unit: WriteIndex, waited_for: LaneAndChannel) -> Span {
        let u = &self.ftl.units[unit];
        if !u.watched || u.queued == self.kernel.now {
            return Span::ZERO;
        }
        let room = self.ftl.room_maker(u.plane);
        let wait = (u.holder, u.queued);
        self.flash.charge_program_wait(&mut self.kernel, unit, waited_for, wait, room)
    }

    /// Takes what a program carries out of its plane's queue; how many units.
    #[inline(always)]
    fn take_units(&mut self, plane: Plane, class: u8, capacity: u32) -> (List<WriteIndex>, u32) {
        let (mut chosen, mut count, mut used) = (List::EMPTY, 0, 0);
        'classes: for class in classes_of_program(class) {
            loop {
                if used >= capacity {
                    break 'classes;
                }
                let ftl = &self.ftl;
                let list = ftl.planes[plane].queues.writes[usize::from(class)];
                if list.is_empty() {
                    break;
                }
                let (_, after) = ftl.place_in_program(ftl.units[list.head].content, used);
                if after > capacity {
                    break 'classes;
                }
                match self.take_first(plane, class, None) {
                    Some(unit) => {
                        self.ftl.units.push_back(&mut chosen, unit);
                        (count, used) = (count + 1, after);
                    }
                    // Where the next one goes is another question.
                    None if !self.ftl.plain_programs && self.ftl.scheme.moves_first() => {
                        break 'classes;
                    }
                    None => {}
                }
            }
        }
        (chosen, count)
    }

    /// Takes the first unit out of one of a plane's queues, which has one, that of a group if there
    /// are groups. `None`: it has become void on the way, or one of another group, and is dropped.
    #[inline(always)]
    pub(super) fn take_first(
        &mut self,
        plane: Plane,
        class: u8,
        group: Option<u8>,
    ) -> Option<WriteIndex> {
        let ftl = &mut self.ftl;
        let (unit, queues) = match group {
            Some(group) => {
                let unit = ftl.take_of_group(plane, class, group);
                (unit, &mut ftl.planes[plane].queues)
            }
            None => {
                let queues = &mut ftl.planes[plane].queues;
                (ftl.units.pop_front(&mut queues.writes[usize::from(class)]), queues)
            }
        };
        let unit = unit.expect("a unit");
        let u = &ftl.units[unit];
        match class {
            CLASS_TABLES => {}
            CLASS_COLLECTION | CLASS_FOLD => queues.collected_units -= 1,
            _ => {
                queues.host_units -= 1;
                ftl.full_pages.taken(queues.host_units);
                queues.forced -= u32::from(!u.cached || u.through);
                let next = queues.writes[usize::from(class)].head;
                ftl.prefetch_next_to_program(next);
            }
        }
        self.flash.program_taken(plane, class);
        let strays = group.is_some_and(|group| self.ftl.units[unit].group != group);
        if !self.ftl.is_void(unit) && !strays {
            return Some(unit);
        }
        self.ftl.units[unit].state = UnitState::Mapping;
        self.flash.drop_later(Dropped::Void(unit));
        None
    }

    /// Maps units to their places in the pages from `ppn` on.
    #[inline(never)]
    fn map_word_line(
        &mut self,
        first: WriteIndex,
        waited_for: LaneAndChannel,
        ppn: Ppn,
        capacity: u32,
    ) {
        let (mut unit, mut used, mut filled) = (first, 0, 0);
        while unit != WriteIndex::NONE {
            let rest = self.charge_unit_wait(unit, waited_for);
            let (place, after) = self.ftl.place_in_program(self.ftl.units[unit].content, used);
            for place in filled..place {
                self.ftl.mapping.table.clear_ppn(ppn + place);
            }
            self.map_unit(unit, ppn + place, rest);
            (filled, used) = (place + 1, after);
            unit = self.ftl.units[unit].next();
        }
        // The rest stays empty.
        for place in filled..capacity {
            self.ftl.mapping.table.clear_ppn(ppn + place);
        }
    }
}
