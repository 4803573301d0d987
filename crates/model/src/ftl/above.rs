//! What the flash is told by this layer when it chooses what a die does next.

use super::Ftl;
use super::blocks::Stream;
use super::mapping::table::Content;
use super::unit::UnitState;
use crate::cache::read::needed_mask;
use crate::config::MediaOperation;
use crate::flash::above::{Above, Programmed};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_FOLD, CLASS_TABLES};
use crate::flash::work::{Work, WorkKind};
use crate::kernel::Kernel;
use crate::kernel::event::Event;
use crate::kernel::pool::{Linked, List};
use crate::number::{Plane, Planes, Ppn, WriteIndex};
use crate::token::Token;
use mynah_stamp::{Span, Time};

impl Above for Ftl {
    #[inline(always)]
    fn page_order(&self, kernel: &Kernel, plane: Plane, class: u8) -> Option<u64> {
        if self.is_grouped() {
            let (_, head) = self.next_by_group(kernel, plane, class)?;
            return Some(self.units[head].order);
        }
        let head = self.planes[plane].queues.writes[usize::from(class)].head;
        (head != WriteIndex::NONE && self.can_program_waiting(plane, class))
            .then(|| self.units[head].order)
    }

    #[inline]
    fn page_first(&self, kernel: &Kernel, plane: Plane, class: u8) -> WriteIndex {
        if self.is_grouped() {
            let next = self.next_by_group(kernel, plane, class);
            return next.map_or(self.first_of_groups(plane, class), |(_, head)| head);
        }
        self.planes[plane].queues.writes[usize::from(class)].head
    }

    fn waiting(&self, plane: Plane, class: u8) -> (WriteIndex, WriteIndex) {
        let list = self.planes[plane].queues.writes[usize::from(class)];
        (list.head, list.tail)
    }

    fn next(&self, part: WriteIndex) -> WriteIndex {
        self.units[part].next()
    }

    #[inline]
    fn part(&self, part: WriteIndex) -> Programmed {
        let unit = &self.units[part];
        Programmed {
            class: unit.class,
            holder: unit.holder,
            order: unit.order,
            queued: unit.queued,
            array: unit.array,
        }
    }

    #[inline]
    fn plane_waited_for(&self, part: WriteIndex) -> Option<Plane> {
        let unit = &self.units[part];
        (unit.state == UnitState::Queued).then_some(unit.plane)
    }

    fn reorder(
        &mut self,
        planes: Planes,
        class: u8,
        parts: impl Iterator<Item = (WriteIndex, u64)>,
    ) {
        let class = usize::from(class);
        for plane in planes {
            self.planes[plane].queues.writes[class] = List::EMPTY;
        }
        for (part, order) in parts {
            let unit = &mut self.units[part];
            unit.order = order;
            let list = &mut self.planes[unit.plane].queues.writes[class];
            self.units.push_back(list, part);
        }
    }

    fn is_without_place(&self, plane: Plane, class: u8) -> bool {
        match class {
            CLASS_TABLES => !self.blocks.can_program(plane, Stream::TRANSLATION),
            _ => !self.can_program_host(plane),
        }
    }

    fn array_begins(&mut self, part: WriteIndex, at: Time) {
        let mut unit = part;
        while unit != WriteIndex::NONE {
            self.units[unit].array = at;
            unit = self.units[unit].next();
        }
    }

    #[inline(always)]
    fn is_urgent(&self, plane: Plane) -> bool {
        self.blocks.is_urgent(plane)
    }

    #[inline(always)]
    fn is_move_due(&self, plane: Plane) -> bool {
        self.paced && self.planes[plane].collection.is_due()
    }

    fn moves_left(&self, plane: Plane) -> u32 {
        self.planes[plane].collection.moves_left(self.shape.units_per_page)
    }

    #[inline(always)]
    fn collects_first(&self) -> bool {
        self.scheme.moves_first()
    }

    fn pages_wanted(&self, work: &Work) -> u32 {
        let page = self.shape.page_bytes / self.shape.flash_planes;
        match (work.kind, work.token) {
            (WorkKind::HostRead, _) => {
                let from = work.first_sector % self.shape.unit_sectors * 512;
                (from + work.sectors * 512).div_ceil(page) - from / page
            }
            (_, Token::Rest { unit }) => self.pages_missing(unit),
            (_, Token::Load { .. }) => work.bytes.div_ceil(page),
            _ => self.shape.flash_planes,
        }
    }

    #[inline(always)]
    fn is_slc(&self, ppn: Ppn) -> bool {
        Ftl::is_slc(self, ppn)
    }

    #[inline(always)]
    fn varies_reads(&self) -> bool {
        self.worn_reads.is_some()
    }

    #[cold]
    fn longer_read(&mut self, kernel: &mut Kernel, ppns: impl Iterator<Item = Ppn>) -> Span {
        self.retries_of(kernel, ppns)
    }

    #[inline(always)]
    fn spoils_reads(&self) -> bool {
        self.faults.any_reads
    }

    /// Whether an injected fault spoils this read.
    fn spoils(&mut self, kernel: &mut Kernel, work: &Work) -> bool {
        if work.failed {
            return false;
        }
        let (ppn, table) = (work.ppn, &self.mapping.table);
        let units = self.shape.units_per_page;
        let fails = self.faults.strikes(MediaOperation::Read, |first, last| {
            ppn.run(units).any(|ppn| match table.written(ppn) {
                Some(Content::Unit(lpn)) => (first..=last).contains(&lpn),
                _ => false,
            })
        });
        kernel.observe.count().media_errors += u64::from(fails);
        fails
    }

    /// Looks again at planes that can be collected while their die rests.
    #[cold]
    fn die_rests(&mut self, kernel: &mut Kernel, planes: Planes) {
        let Some(idle_after) = self.idle_after else { return };
        for plane in planes {
            let scheduled = self.planes[plane].idle_check;
            if !scheduled && self.blocks.free_blocks(plane) < self.idle_blocks {
                self.planes[plane].idle_check = true;
                kernel.events.push(kernel.now + idle_after, Event::IdleCheck { plane });
            }
        }
    }

    #[inline(always)]
    fn minds_rest(&self) -> bool {
        self.idle_after.is_some()
    }

    #[inline(always)]
    fn prefetch_read(&self, ppn: Ppn) {
        self.mapping.table.prefetch_ppn(ppn);
    }

    #[inline(always)]
    fn prefetch_moved(&self, ppn: Ppn) {
        self.mapping.table.prefetch_content(ppn);
    }
}

impl Ftl {
    /// Whether a page of `class` can be programmed in `plane` now, where something waits and units
    /// are programmed in the order of their queue: enough to fill the page or a reason not to wait,
    /// and a place for it.
    #[inline(always)]
    pub(super) fn can_program_waiting(&self, plane: Plane, class: u8) -> bool {
        let state = &self.planes[plane];
        let stream = self.stream_of(plane, class);
        let units = self.units_per_program(stream);
        let full = match class {
            CLASS_TABLES => true,
            CLASS_COLLECTION | CLASS_FOLD => {
                state.queues.collected_units >= units || state.collection.is_read()
            }
            _ => state.queues.host_units >= units || state.queues.forced > 0 || self.write_pressure,
        };
        full && match self.plain_programs {
            true => self.blocks.can_program(plane, stream),
            false => self.has_place(plane, class, stream),
        }
    }

    /// Pages of the flash that have something a partly written unit lacks; at least one.
    fn pages_missing(&self, unit: WriteIndex) -> u32 {
        let mask = self.units[unit].mask;
        let sectors = self.shape.unit_sectors / self.shape.flash_planes;
        let lacks = |page: &u32| {
            let wanted = needed_mask(self.shape.unit_sectors, page * sectors, sectors);
            mask & wanted != wanted
        };
        ((0..self.shape.flash_planes).filter(lacks).count() as u32).max(1)
    }
}
