//! What an idle die does next: loads of the mapping table first, then host reads, writes,
//! and garbage collection; where free blocks run out, collection goes before host I/O, and
//! where it may not be interrupted it has the die to itself.

use super::Flash;
use super::above::Above;
use super::die::OperationKind;
use super::queues::{
    CLASS_COLLECTION, CLASS_FOLD, CLASS_HOST, CLASS_TABLES, COLLECTION_READS, COLLECTION_WORK,
    COLLECTION_WRITES, EXCLUSIVE, FOLD_READS, FOLD_WRITES, SUSPENDED, TABLE_READS,
};
use crate::config::Precedence;
use crate::kernel::Kernel;
use crate::number::{Die, Plane, WorkIndex};
use crate::policy::{PlaneScheduling, Waits};

/// The operation that a die would start next.
#[derive(Clone, Copy)]
pub(super) struct Pick {
    pub(super) kind: OperationKind,
    pub(super) class: u8,
    pub(super) plane: Plane,
    pub(super) order: u64,
}

impl Flash {
    /// What `die`, which is idle and has work, would do next, if anything can start.
    #[inline(always)]
    pub(super) fn pick(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        scheduling: &mut impl PlaneScheduling,
        die: Die,
    ) -> Option<Pick> {
        if !self.scheduler.die_interleaving && self.chip_busy[self.lane(die)] {
            return None;
        }
        let state = &self.dies[die];
        match state.load.only_reads() {
            Some(class) => self.pick_read(state.first_plane, class),
            None => self.pick_among_all(kernel, above, scheduling, die),
        }
    }

    fn pick_among_all(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        scheduling: &mut impl PlaneScheduling,
        die: Die,
    ) -> Option<Pick> {
        let state = &mut self.dies[die];
        let first = state.first_plane;
        let planes = first.run(self.shape.planes_per_die);
        if state.load.some & (SUSPENDED | EXCLUSIVE) != 0 {
            return match state.load.some & SUSPENDED != 0 {
                true => self.pick_beside_suspended(kernel, above, die),
                false => self.pick_collection_alone(kernel, above, die),
            };
        }
        if state.load.some & TABLE_READS != 0 {
            return self.pick_read(first, CLASS_TABLES);
        }
        if self.weighs_reads && state.load.some & COLLECTION_WORK == 0 {
            return self.pick_by_waits(kernel, above, scheduling, die);
        }
        if state.load.some & COLLECTION_WORK == 0 {
            if let Some(class) = state.host_class(0) {
                return self.pick_read(first, class);
            }
            return self.pick_host_write(kernel, above, die);
        }
        let urgent = planes.clone().any(|plane| above.is_urgent(plane));
        if urgent {
            if self.flin.as_ref().is_some_and(|flin| flin.divides_collection())
                && !above.collects_first()
            {
                return self.pick_dividing_collection(kernel, above, die);
            }
            return self
                .pick_collection(kernel, above, die)
                .or_else(|| {
                    let class = self.dies[die].host_class(0)?;
                    self.pick_read(first, class)
                })
                .or_else(|| self.pick_host_write(kernel, above, die));
        }
        let is_move_due = || planes.clone().any(|plane| above.is_move_due(plane));
        if self.weighs_reads
            && let Some(pick) = self.pick_by_waits(kernel, above, scheduling, die)
        {
            let goes = pick.kind == OperationKind::Read || !is_move_due();
            return if goes {
                Some(pick)
            } else {
                self.pick_collection(kernel, above, die).or(Some(pick))
            };
        }
        if let Some(class) = self.dies[die].host_class(0) {
            return self.pick_read(first, class);
        }
        if (above.collects_first() || is_move_due())
            && let Some(pick) = self.pick_collection(kernel, above, die)
        {
            return Some(pick);
        }
        self.pick_host_write(kernel, above, die)
            .or_else(|| self.pick_collection(kernel, above, die))
    }

    /// The read, program or erase of a collection that a die would do next.
    pub(super) fn pick_collection(
        &self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
    ) -> Option<Pick> {
        let state = &self.dies[die];
        let (first, some) = (state.first_plane, state.load.some);
        if some & COLLECTION_READS != 0 {
            return self.pick_read(first, CLASS_COLLECTION);
        }
        if some & COLLECTION_WRITES != 0
            && let Some(pick) = self.pick_write(kernel, above, first, CLASS_COLLECTION)
        {
            return Some(pick);
        }
        if some & (FOLD_READS | FOLD_WRITES) != 0
            && let Some(pick) = self.pick_fold(kernel, above, first, some)
        {
            return Some(pick);
        }
        if state.load.erases > 0 { self.pick_erase(first) } else { None }
    }

    /// The read or program of a fold that a die would do next.
    #[cold]
    #[inline(never)]
    fn pick_fold(
        &self,
        kernel: &Kernel,
        above: &impl Above,
        first_plane: Plane,
        some: u32,
    ) -> Option<Pick> {
        if some & FOLD_READS != 0 {
            return self.pick_read(first_plane, CLASS_FOLD);
        }
        self.pick_write(kernel, above, first_plane, CLASS_FOLD)
    }

    /// What a die does next that collects without being interrupted. Reads that an erase has
    /// to wait for go before it.
    fn pick_collection_alone(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
    ) -> Option<Pick> {
        let first = self.dies[die].first_plane;
        if let Some(pick) = self.pick_collection(kernel, above, die) {
            return Some(pick);
        }
        if self.dies[die].load.erases == 0 {
            return None;
        }
        if self.dies[die].load.some & TABLE_READS != 0 {
            return self.pick_read(first, CLASS_TABLES);
        }
        let class = self.dies[die].host_class(0)?;
        self.pick_read(first, class)
    }

    /// The host read or program of a die that goes first where reads do not always.
    #[inline(never)]
    fn pick_by_waits(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        scheduling: &mut impl PlaneScheduling,
        die: Die,
    ) -> Option<Pick> {
        let first = self.dies[die].first_plane;
        let class = self.dies[die].host_class(0);
        let read = class.and_then(|class| self.pick_read(first, class));
        let write = self.pick_host_write(kernel, above, die);
        let (Some(read), Some(write)) = (read, write) else { return read.or(write) };
        let part = above.page_first(kernel, write.plane, write.class);
        let waited = kernel.now.since(above.part(part).queued);
        let configured = match self.scheduler.write_deadline {
            Some(deadline) if waited >= deadline => true,
            _ if self.flin.is_some() => self.program_has_waited_more(kernel, read, waited, 0),
            _ => self.scheduler.precedence == Precedence::Oldest && write.order < read.order,
        };
        let head = self.queues[read.plane].reads[usize::from(read.class)].head;
        let program_goes = scheduling.program_goes(Waits {
            read: kernel.now.saturating_since(self.works[head].queued),
            program: waited,
            program_is_older: write.order < read.order,
            configured,
        });
        Some(if program_goes { write } else { read })
    }

    /// The first of the reads that somebody waits for.
    pub(super) fn first_awaited_read(&mut self, die: Die) -> Option<Pick> {
        let state = &mut self.dies[die];
        let first = state.first_plane;
        if state.load.some & TABLE_READS != 0 {
            return self.pick_read(first, CLASS_TABLES);
        }
        let class = state.host_class(0)?;
        self.pick_read(first, class)
    }

    #[inline]
    pub(super) fn pick_read(&self, first_plane: Plane, class: u8) -> Option<Pick> {
        let mut best = None;
        let mut least = u64::MAX;
        let planes = &self.queues[first_plane.index()..][..self.shape.planes_per_die as usize];
        for (plane, queues) in (first_plane.0..).zip(planes) {
            let head = queues.reads[usize::from(class)].head;
            if head != WorkIndex::NONE {
                let order = self.works[head].order;
                if order < least {
                    least = order;
                    best =
                        Some(Pick { kind: OperationKind::Read, class, plane: Plane(plane), order });
                }
            }
        }
        best
    }

    pub(super) fn pick_host_write(
        &mut self,
        kernel: &Kernel,
        above: &impl Above,
        die: Die,
    ) -> Option<Pick> {
        let first = self.dies[die].first_plane;
        if self.dies[die].load.writes(CLASS_TABLES) > 0
            && let Some(pick) = self.pick_write(kernel, above, first, CLASS_TABLES)
        {
            return Some(pick);
        }
        let class = self.dies[die].host_class(1)?;
        let pick = self.pick_write(kernel, above, first, class);
        if pick.is_none() && self.dies[die].load.writes_other_than(class) {
            return self.pick_write_of_others(kernel, above, first, class);
        }
        pick
    }

    /// The class whose turn it is cannot start: any other may.
    #[inline(never)]
    fn pick_write_of_others(
        &self,
        kernel: &Kernel,
        above: &impl Above,
        first_plane: Plane,
        class: u8,
    ) -> Option<Pick> {
        (CLASS_HOST..CLASS_COLLECTION)
            .filter(|&other| other != class)
            .find_map(|other| self.pick_write(kernel, above, first_plane, other))
    }

    #[inline(always)]
    pub(super) fn pick_write(
        &self,
        kernel: &Kernel,
        above: &impl Above,
        first_plane: Plane,
        class: u8,
    ) -> Option<Pick> {
        let mut best = None;
        let mut least = u64::MAX;
        for plane in first_plane.run(self.shape.planes_per_die) {
            if let Some(order) = above.page_order(kernel, plane, class)
                && order < least
            {
                least = order;
                best = Some(Pick { kind: OperationKind::Program, class, plane, order });
            }
        }
        best
    }

    /// Whether a read of a plane that was queued before one of its erases still waits: it may
    /// be of this block.
    pub(super) fn is_read_before(&self, plane: Plane, erase: WorkIndex) -> bool {
        let reads = &self.queues[plane].reads;
        if self.flin.is_some() {
            // The order of reads is not that of their coming.
            return self.is_block_read(plane, self.works[erase].ppn);
        }
        let order = self.works[erase].order;
        reads.iter().any(|list| !list.is_empty() && self.works[list.head].order < order)
    }

    fn pick_erase(&self, first_plane: Plane) -> Option<Pick> {
        first_plane
            .run(self.shape.planes_per_die)
            .filter_map(|plane| {
                let head = self.queues[plane].erases.head;
                if head == WorkIndex::NONE {
                    return None;
                }
                let order = self.works[head].order;
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
