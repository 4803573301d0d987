//! What an idle die does next: loads of the mapping table first, then host reads, writes,
//! and garbage collection; where free blocks run out, collection goes before host I/O, and
//! where it may not be interrupted it has the die to itself.

use crate::config::Precedence;
use crate::drive::Drive;
use crate::flash::die::OperationKind;
use crate::flash::queues::{
    CLASS_COLLECTION, CLASS_HOST, CLASS_MAPPING, COLLECTION_READS, COLLECTION_WORK,
    COLLECTION_WRITES, EXCLUSIVE, MAPPING_READS, SUSPENDED,
};
use crate::ftl::blocks::Stream;
use crate::kernel::pool::NONE;

/// What a die would do next.
#[derive(Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) kind: OperationKind,
    pub(crate) class: u8,
    pub(crate) plane: u32,
    pub(crate) order: u64,
}
impl Drive {
    /// What `die`, which is idle and has work, would do next, if anything can start.
    #[inline(always)]
    pub(super) fn pick(&mut self, die: u32) -> Option<Pick> {
        if !self.config.scheduler.die_interleaving && self.chip_busy[self.lane(die)] {
            return None;
        }
        let state = &self.dies[die as usize];
        match state.work.only_reads() {
            Some(class) => self.pick_read(state.first_plane, class),
            None => self.pick_among_all(die),
        }
    }

    pub(super) fn pick_among_all(&mut self, die: u32) -> Option<Pick> {
        let state = &mut self.dies[die as usize];
        let first = state.first_plane;
        let last = first + self.shape.planes_per_die;
        if state.work.some & (SUSPENDED | EXCLUSIVE) != 0 {
            return match state.work.some & SUSPENDED != 0 {
                true => self.pick_beside_suspended(die),
                false => self.pick_collection_alone(die),
            };
        }
        if state.work.some & MAPPING_READS != 0 {
            return self.pick_read(first, CLASS_MAPPING);
        }
        if self.weighs_reads && state.work.some & COLLECTION_WORK == 0 {
            return self.pick_by_waits(die);
        }
        if state.work.some & COLLECTION_WORK == 0 {
            if let Some(class) = state.host_class(0) {
                return self.pick_read(first, class);
            }
            return self.pick_host_write(die);
        }
        let urgent = (first..last).any(|plane| self.blocks.is_urgent(plane));
        if urgent {
            if self.flin.as_ref().is_some_and(|flin| flin.divides_collection())
                && self.hybrid.is_none()
            {
                return self.pick_dividing_collection(die);
            }
            return self
                .pick_collection(die)
                .or_else(|| {
                    let class = self.dies[die as usize].host_class(0)?;
                    self.pick_read(first, class)
                })
                .or_else(|| self.pick_host_write(die));
        }
        if self.weighs_reads
            && let Some(pick) = self.pick_by_waits(die)
        {
            let goes = pick.kind == OperationKind::Read || !self.is_move_due(first..last);
            return if goes { Some(pick) } else { self.pick_collection(die).or(Some(pick)) };
        }
        if let Some(class) = self.dies[die as usize].host_class(0) {
            return self.pick_read(first, class);
        }
        // Host writes wait for what is merged.
        if (self.hybrid.is_some() || self.is_move_due(first..last))
            && let Some(pick) = self.pick_collection(die)
        {
            return Some(pick);
        }
        self.pick_host_write(die).or_else(|| self.pick_collection(die))
    }

    /// Whether a page move of one of these planes goes before host writes.
    #[inline(always)]
    fn is_move_due(&self, mut planes: std::ops::Range<u32>) -> bool {
        self.config.gc.paced && planes.any(|plane| self.planes[plane as usize].collection.is_due())
    }

    /// The read, program or erase of a collection that a die would do next.
    pub(super) fn pick_collection(&self, die: u32) -> Option<Pick> {
        let state = &self.dies[die as usize];
        let (first, some) = (state.first_plane, state.work.some);
        if some & COLLECTION_READS != 0 {
            return self.pick_read(first, CLASS_COLLECTION);
        }
        if some & COLLECTION_WRITES != 0
            && let Some(pick) = self.pick_write(first, CLASS_COLLECTION)
        {
            return Some(pick);
        }
        if state.work.erases > 0 { self.pick_erase(first) } else { None }
    }

    /// What a die does next that collects without being interrupted. Reads that an erase has
    /// to wait for go before it.
    fn pick_collection_alone(&mut self, die: u32) -> Option<Pick> {
        let first = self.dies[die as usize].first_plane;
        if let Some(pick) = self.pick_collection(die) {
            return Some(pick);
        }
        if self.dies[die as usize].work.erases == 0 {
            return None;
        }
        if self.dies[die as usize].work.some & MAPPING_READS != 0 {
            return self.pick_read(first, CLASS_MAPPING);
        }
        let class = self.dies[die as usize].host_class(0)?;
        self.pick_read(first, class)
    }

    /// The host read or program of a die that goes first where reads do not always.
    #[inline(never)]
    fn pick_by_waits(&mut self, die: u32) -> Option<Pick> {
        let first = self.dies[die as usize].first_plane;
        let class = self.dies[die as usize].host_class(0);
        let read = class.and_then(|class| self.pick_read(first, class));
        let write = self.pick_host_write(die);
        let (Some(read), Some(write)) = (read, write) else { return read.or(write) };
        let scheduler = &self.config.scheduler;
        let unit = self.first_to_program(write.plane, write.class);
        let waited = self.now.since(self.units[unit].queued);
        let write_goes = match scheduler.write_deadline {
            Some(deadline) if waited >= deadline => true,
            _ if self.flin.is_some() => self.program_has_waited_more(read, waited, 0),
            _ => scheduler.precedence == Precedence::Oldest && write.order < read.order,
        };
        Some(if write_goes { write } else { read })
    }

    /// The first of the reads that somebody waits for.
    pub(super) fn first_awaited_read(&mut self, die: u32) -> Option<Pick> {
        let state = &mut self.dies[die as usize];
        let first = state.first_plane;
        if state.work.some & MAPPING_READS != 0 {
            return self.pick_read(first, CLASS_MAPPING);
        }
        let class = state.host_class(0)?;
        self.pick_read(first, class)
    }

    #[inline]
    pub(super) fn pick_read(&self, first_plane: u32, class: u8) -> Option<Pick> {
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

    pub(super) fn pick_host_write(&mut self, die: u32) -> Option<Pick> {
        let first = self.dies[die as usize].first_plane;
        if self.dies[die as usize].work.writes(CLASS_MAPPING) > 0
            && let Some(pick) = self.pick_write(first, CLASS_MAPPING)
        {
            return Some(pick);
        }
        let class = self.dies[die as usize].host_class(1)?;
        let pick = self.pick_write(first, class);
        if pick.is_none() && self.dies[die as usize].work.writes_other_than(class) {
            return self.pick_write_of_others(first, class);
        }
        pick
    }

    /// The class whose turn it is cannot start: any other may.
    #[inline(never)]
    fn pick_write_of_others(&self, first_plane: u32, class: u8) -> Option<Pick> {
        (CLASS_HOST..CLASS_COLLECTION)
            .filter(|&other| other != class)
            .find_map(|other| self.pick_write(first_plane, other))
    }

    #[inline(always)]
    pub(super) fn pick_write(&self, first_plane: u32, class: u8) -> Option<Pick> {
        if self.goes_by_heat() {
            return self.pick_write_by_heat(first_plane, class);
        }
        let mut best = None;
        let mut least = u64::MAX;
        let planes = &self.planes[first_plane as usize..][..self.shape.planes_per_die as usize];
        for (plane, state) in (first_plane..).zip(planes) {
            let head = state.queues.writes[usize::from(class)].head;
            if head != NONE && self.can_program_waiting(plane, class) {
                let order = self.units[head].order;
                if order < least {
                    least = order;
                    best = Some(Pick { kind: OperationKind::Program, class, plane, order });
                }
            }
        }
        best
    }

    #[cold]
    #[inline(never)]
    fn pick_write_by_heat(&self, first_plane: u32, class: u8) -> Option<Pick> {
        (first_plane..first_plane + self.shape.planes_per_die)
            .filter(|&plane| self.stream_by_heat(plane, class).is_some())
            .map(|plane| {
                let head = self.first_by_heat(plane, class);
                Pick { kind: OperationKind::Program, class, plane, order: self.units[head].order }
            })
            .min_by_key(|pick| pick.order)
    }

    /// Whether hot units wait apart from cold ones.
    #[inline(always)]
    pub(super) fn goes_by_heat(&self) -> bool {
        !self.hot_queues.is_empty()
    }

    /// The first unit of the page of `class` that would be programmed in `plane`, where one
    /// can be.
    #[inline]
    fn first_to_program(&self, plane: u32, class: u8) -> u32 {
        if self.goes_by_heat() {
            return self.first_by_heat(plane, class);
        }
        self.planes[plane as usize].queues.writes[usize::from(class)].head
    }

    /// Whether a page of `class` can be programmed in `plane` now: there is something to
    /// program, enough to fill the page or a reason not to wait, and a place for it.
    #[inline]
    pub(super) fn can_program(&self, plane: u32, class: u8) -> bool {
        match self.goes_by_heat() {
            true => self.stream_by_heat(plane, class).is_some(),
            false => {
                let queues = &self.planes[plane as usize].queues;
                !queues.writes[usize::from(class)].is_empty()
                    && self.can_program_waiting(plane, class)
            }
        }
    }

    /// The same where something waits, and units are programmed in the order of their queue.
    #[inline(always)]
    fn can_program_waiting(&self, plane: u32, class: u8) -> bool {
        let state = &self.planes[plane as usize];
        let units_per_page = self.shape.units_per_program;
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
        full && match self.plain_programs || self.hybrid.is_none() {
            true => self.blocks.can_program(plane, stream),
            false => self.can_program_in_pool(plane, class),
        }
    }

    /// Whether a read of a plane that was queued before one of its erases still waits: it may
    /// be of this block.
    pub(super) fn is_read_before(&self, plane: u32, erase: u32) -> bool {
        let reads = &self.planes[plane as usize].queues.reads;
        if self.flin.is_some() {
            // The order of reads is not that of their coming.
            return self.is_block_read(plane, self.transactions[erase].slot);
        }
        let order = self.transactions[erase].order;
        reads.iter().any(|list| !list.is_empty() && self.transactions[list.head].order < order)
    }

    pub(super) fn pick_erase(&self, first_plane: u32) -> Option<Pick> {
        (first_plane..first_plane + self.shape.planes_per_die)
            .filter_map(|plane| {
                let queues = &self.planes[plane as usize].queues;
                let head = queues.erases.head;
                if head == NONE {
                    return None;
                }
                let order = self.transactions[head].order;
                (!self.is_read_before(plane, head)).then_some(Pick {
                    kind: OperationKind::Erase,
                    class: CLASS_COLLECTION,
                    plane,
                    order,
                })
            })
            .min_by_key(|pick| pick.order)
    }
}
