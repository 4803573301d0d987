//! Merges of log blocks into data blocks, for hybrid mapping ([`super`]).
//!
//! A merge makes one logical block's newest pages into its data block. *Switch*: the log block
//! for sequential writes has all of them, and takes the data block's place. *Partial*: it has
//! the first of them, and the others are copied behind them. *Full*: all are copied to a free
//! block. When the other log blocks are full the oldest is emptied, by a merge of each logical
//! block that has a page in it. The data blocks that were replaced and the log block are
//! erased.
//!
//! Host writes of the plane wait from the beginning of a merge to the last of its erases; they
//! begin it, as soon as no other write of the plane is being programmed. Pages are programmed
//! in order. Copies count as garbage collection; a logical block and its logs are of one plane, so
//! copyback can make all of them.

use super::{Copy, Hybrid, Merge, Place, Pool, Read};
use crate::drive::{Drive, Policies};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_HOST};
use crate::flash::timing::NO_DATA;
use crate::flash::work::{Extent, WorkKind};
use crate::ftl::Ftl;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::WriteUnit;
use crate::kernel::pool::NONE;
use crate::number::{Block, Die, Lpn, Plane, Ppn, WriteIndex};
use crate::observe::blame::GARBAGE_COLLECTION;
use crate::token::Token;
use mynah_stamp::Span;
use std::collections::VecDeque;

impl Ftl {
    /// Where the first of what waits in `plane` to be programmed goes, and which page of its
    /// block that is. What has become void is dropped: it has no page.
    fn place_of_first(&self, hybrid: &Hybrid, plane: Plane, class: u8) -> (Place, u32) {
        let unit = self.planes[plane].queues.writes[usize::from(class)].head;
        if unit == WriteIndex::NONE {
            return (Place::Nowhere, NONE);
        }
        if self.is_void(unit) {
            return (Place::Data, NONE);
        }
        let home = self.home_of(self.units[unit].content);
        if class == CLASS_COLLECTION {
            return (Place::Data, hybrid.split(home).1);
        }
        if hybrid.pools[plane].merge.is_some() {
            return (Place::AfterRandom, NONE);
        }
        hybrid.place(home, self.blocks.free_blocks(plane))
    }

    /// Whether the first of what waits in `plane` can be programmed now.
    #[cold]
    #[inline(never)]
    pub(in crate::ftl::mapping) fn can_program_in_pool(
        &self,
        hybrid: &Hybrid,
        plane: Plane,
        class: u8,
    ) -> bool {
        self.place_of_first(hybrid, plane, class).0.is_now()
    }

    /// The page offset that its program has; `NONE` if there will be no program.
    pub(in crate::ftl::mapping) fn next_page_in_pool(
        &self,
        hybrid: &Hybrid,
        plane: Plane,
        class: u8,
    ) -> u32 {
        self.place_of_first(hybrid, plane, class).1
    }

    /// Gives a page that is about to be programmed in `plane` its PPN.
    pub(in crate::ftl::mapping) fn take_page_in_pool(
        &mut self,
        plane: Plane,
        class: u8,
        unit: WriteIndex,
    ) -> Ppn {
        let home = self.home_of(self.units[unit].content);
        let blocks = &mut self.blocks;
        let Some(hybrid) = self.scheme.hybrid_mut() else { return Ppn::NONE };
        if class == CLASS_COLLECTION {
            let page = hybrid.split(home).1;
            let merge = hybrid.pools[plane].merge.as_ref();
            let block =
                merge.and_then(|merge| merge.copy.as_ref()).map_or(Block::NONE, |copy| copy.block);
            return self.shape.first_ppn_of_block(block) + page;
        }
        hybrid.pools[plane].programs += 1;
        let free = blocks.free_blocks(plane);
        hybrid.take(home, free, || blocks.take_free(plane).expect("a free block"))
    }
}

impl Ftl {
    /// Gives a unit its PPN without taking any time.
    pub(in crate::ftl::mapping) fn lay_down_in_pool(&mut self, lpn: Lpn, plane: Plane) -> Ppn {
        let home = self.home_of(Content::Unit(lpn));
        let blocks = &mut self.blocks;
        let Some(hybrid) = self.scheme.hybrid_mut() else { return Ppn::NONE };
        let free = blocks.free_blocks(plane);
        hybrid.take(home, free, || blocks.take_free(plane).expect("a free block"))
    }
}

impl<P: Policies> Drive<P> {
    fn pool(&mut self, plane: Plane) -> Option<&mut Pool> {
        self.ftl.scheme.hybrid_mut().and_then(|hybrid| hybrid.pools.get_mut(plane.index()))
    }

    fn copy(&mut self, plane: Plane) -> Option<&mut Copy> {
        self.pool(plane)?.merge.as_mut()?.copy.as_mut()
    }

    /// Begins a merge if `plane` needs one: because its log block for sequential writes is
    /// full, or because of the write that has waited longest.
    #[cold]
    #[inline(never)]
    pub(in crate::ftl::mapping) fn merge_if_needed(&mut self, plane: Plane) {
        let dead = self.flash.is_dead(plane);
        let Some(hybrid) = self.ftl.scheme.hybrid() else { return };
        let pool = &hybrid.pools[plane];
        let state = &self.ftl.planes[plane];
        if dead || state.read_only || pool.merge.is_some() || pool.programs > 0 {
            return;
        }
        let full = pool.sequential.is_some_and(|log| log.next == self.shape.pages_per_block);
        let first = (CLASS_HOST..CLASS_COLLECTION)
            .filter(|&class| !state.queues.writes[usize::from(class)].is_empty())
            .min_by_key(|&class| {
                self.ftl.units[state.queues.writes[usize::from(class)].head].order
            });
        let place = first.map(|class| self.ftl.place_of_first(hybrid, plane, class).0);
        let (victim, sequential) = match place {
            _ if full => (Block::NONE, true),
            _ if !pool.erases.is_empty() => (Block::NONE, false),
            Some(Place::AfterSequential) => (Block::NONE, true),
            Some(Place::AfterRandom) => {
                (pool.random.front().copied().unwrap_or(Block::NONE), false)
            }
            Some(Place::Nowhere) => return self.give_up(plane),
            _ => return,
        };
        let merge = Merge { victim, sequential, copy: None, again: false };
        if let Some(pool) = self.pool(plane) {
            pool.merge = Some(merge);
        }
        self.flash.begin_collection(plane);
        self.merge_on(plane);
    }

    fn end_merge(&mut self, plane: Plane) {
        if let Some(pool) = self.pool(plane) {
            pool.merge = None;
        }
        self.flash.end_collection(plane);
        self.flash.mark_plane(plane);
    }

    /// Goes on with the merge of `plane`.
    fn merge_on(&mut self, plane: Plane) {
        if self.flash.is_dead(plane) {
            return;
        }
        loop {
            if self.copy(plane).is_some() {
                self.read_sources(plane);
                let Some(copy) = self.copy(plane) else { return };
                if copy.units > 0 || !copy.reads.is_empty() {
                    return;
                }
                self.end_copy(plane);
                continue;
            }
            let Some(pool) = self.pool(plane) else { return };
            let Some(merge) = &mut pool.merge else { return };
            if pool.erasing.is_some() {
                return;
            }
            if let Some(block) = pool.erases.pop() {
                pool.erasing = Some(block);
                return self.erase_in_pool(plane, block);
            }
            let victim = merge.victim;
            let logical = if victim != Block::NONE {
                let logical = self.first_logical_of(victim);
                if logical.is_none() {
                    if let Some(pool) = self.pool(plane) {
                        pool.random.retain(|&block| block != victim);
                        pool.erases.push(victim);
                        pool.merge.iter_mut().for_each(|merge| merge.victim = Block::NONE);
                    }
                    continue;
                }
                logical
            } else if merge.sequential {
                pool.sequential.map(|log| log.owner)
            } else {
                None
            };
            match logical {
                Some(logical) if self.begin_copy(plane, logical) => {}
                Some(_) => {
                    self.end_merge(plane);
                    return self.give_up(plane);
                }
                None => {
                    self.end_merge(plane);
                    return self.merge_if_needed(plane);
                }
            }
        }
    }

    /// The logical block of the first valid page of a log block.
    fn first_logical_of(&self, block: Block) -> Option<u32> {
        if self.ftl.blocks.valid(block) == 0 {
            return None;
        }
        let first = self.shape.first_ppn_of_block(block);
        let mut ppns = first.run(self.shape.units_per_block);
        let content = ppns.find_map(|ppn| self.ftl.mapping.table.content(ppn))?;
        self.ftl.scheme.hybrid().map(|hybrid| hybrid.split(self.ftl.home_of(content)).0)
    }

    /// Begins to copy a logical block; false if there is no block for it.
    fn begin_copy(&mut self, plane: Plane, logical: u32) -> bool {
        let Some(hybrid) = self.ftl.scheme.hybrid() else { return false };
        let log = hybrid.pools[plane].sequential;
        let log = log.filter(|log| log.owner == logical && !log.spoiled);
        let first = log.map_or(0, |log| log.next);
        let source = |page| {
            let unit = hybrid.unit_at(logical, page);
            unit.and_then(|unit| self.ftl.mapping.table.ppn(unit)).unwrap_or(Ppn::NONE)
        };
        let mut sources: Vec<Ppn> = (first..self.shape.pages_per_block).map(source).collect();
        // Behind the last page that holds something the block can still be written.
        let held = sources.iter().rposition(|&ppn| ppn != Ppn::NONE).map_or(0, |last| last + 1);
        sources.truncate(held);
        let block = match log {
            Some(log) => log.block,
            None if sources.is_empty() => Block::NONE,
            None => match self.ftl.blocks.take_free(plane) {
                Some(block) => block,
                None => return false,
            },
        };
        let copy = Copy {
            logical,
            block,
            partial: log.is_some(),
            first,
            sources,
            looked: 0,
            reads: VecDeque::new(),
            units: 0,
            broken: false,
        };
        if let Some(merge) = self.pool(plane).and_then(|pool| pool.merge.as_mut()) {
            merge.copy = Some(copy);
        }
        true
    }

    /// Reads the next pages to copy.
    fn read_sources(&mut self, plane: Plane) {
        let most = self.ftl.pages_in_flight;
        loop {
            let Some(copy) = self.copy(plane) else { return };
            if copy.broken || copy.reads.len() as u32 + copy.units >= most {
                return;
            }
            let Some(&ppn) = copy.sources.get(copy.looked) else { return };
            copy.looked += 1;
            if ppn == Ppn::NONE || self.ftl.mapping.table.content(ppn).is_none() {
                continue;
            }
            if let Some(copy) = self.copy(plane) {
                copy.reads.push_back((ppn, Read::Waits));
            }
            let (kind, bytes) = match self.config.gc.copyback {
                true => (WorkKind::Copyback, NO_DATA),
                false => (WorkKind::CollectionRead, self.shape.page_bytes),
            };
            self.ask_collection(kind, Token::Collect { plane }, Extent { plane, ppn, bytes });
        }
    }

    /// A page has been read to be copied: it is programmed when those before it are on their
    /// way.
    pub(in crate::ftl::mapping) fn source_read(&mut self, plane: Plane, ppn: Ppn) {
        if self.flash.is_dead(plane) {
            return;
        }
        let content = self.ftl.mapping.table.content(ppn);
        let now = self.kernel.now;
        let Some(hybrid) = self.ftl.scheme.hybrid_mut() else { return };
        let Some(merge) = &mut hybrid.pools[plane].merge else { return };
        let retried = merge.again;
        let Some(copy) = &mut merge.copy else { return };
        let read = match content.filter(|_| !copy.broken) {
            None => Read::Void,
            Some(content) => Read::Unit(self.ftl.units.insert(WriteUnit {
                from: ppn,
                retried,
                ..WriteUnit::new(content, CLASS_COLLECTION, GARBAGE_COLLECTION, now)
            })),
        };
        for (of, state) in &mut copy.reads {
            if *of == ppn {
                *state = read;
            }
        }
        while let Some(copy) = self.copy(plane)
            && let Some(&(_, read)) = copy.reads.front()
            && read != Read::Waits
        {
            copy.reads.pop_front();
            if let Read::Unit(unit) = read {
                copy.units += 1;
                self.enqueue_unit(unit, plane);
            }
        }
        self.merge_on(plane);
    }

    /// A page to copy is in its die's register, and the command to program it has been sent: it
    /// goes to its place in the block that is copied to. A plane reads its sources in order, so
    /// those before it have been programmed.
    pub(in crate::ftl::mapping) fn program_copyback_in_pool(
        &mut self,
        die: Die,
        plane: Plane,
        from: Ppn,
    ) {
        let content = self.ftl.mapping.table.content(from);
        let dead = self.flash.is_dead(plane);
        let merge = self.pool(plane).and_then(|pool| pool.merge.as_mut());
        let retried = merge.as_ref().is_some_and(|merge| merge.again);
        let copy = merge.and_then(|merge| merge.copy.as_mut());
        let (Some(copy), false) = (copy, dead) else { return self.free_die(die) };
        copy.reads.retain(|&(of, _)| of != from);
        let (block, broken) = (copy.block, copy.broken);
        let Some(content) = content.filter(|_| !broken) else {
            self.free_die(die);
            return self.merge_on(plane);
        };
        copy.units += 1;
        let page = self.shape.pages_per_block;
        let to = self.shape.first_ppn_of_block(block) + self.ftl.home_of(content).0 % page;
        let unit = self.ftl.units.insert(WriteUnit {
            from,
            plane,
            retried,
            started: self.kernel.now,
            array: self.kernel.now,
            ..WriteUnit::new(content, CLASS_COLLECTION, GARBAGE_COLLECTION, self.kernel.now)
        });
        self.map_unit(unit, to, Span::ZERO);
        self.flash.program_copyback(&mut self.kernel, die, unit, to);
    }

    /// A copied page has been programmed, or holds nothing any more.
    pub(in crate::ftl::mapping) fn copied(&mut self, plane: Plane) {
        if let Some(copy) = self.copy(plane) {
            copy.units -= 1;
        }
        self.merge_on(plane);
    }

    /// A copied page could not be programmed: the block that it was for is of no use.
    pub(in crate::ftl::mapping) fn copy_failed(&mut self, plane: Plane, unit: WriteIndex) {
        self.ftl.units.remove(unit);
        if let Some(copy) = self.copy(plane) {
            copy.broken = true;
        }
        self.copied(plane);
    }

    /// All pages of a logical block have been copied, or one could not be.
    fn end_copy(&mut self, plane: Plane) {
        let Some(hybrid) = self.ftl.scheme.hybrid_mut() else { return };
        let Some(merge) = &mut hybrid.pools[plane].merge else { return };
        let Some(copy) = merge.copy.take() else { return };
        merge.again = copy.broken;
        if copy.broken {
            return self.undo_copy(plane, &copy);
        }
        let copied = copy.sources.len() as u32;
        let old = hybrid.replace(copy.logical, copy.block, copy.first + copied);
        hybrid.pools[plane].erases.extend(old);
        let counters = self.kernel.observe.count();
        *match (copy.partial, copied) {
            (true, 0) => &mut counters.switch_merges,
            (true, _) => &mut counters.partial_merges,
            (false, _) => &mut counters.full_merges,
        } += 1;
    }

    /// What has been copied is where it was before.
    fn undo_copy(&mut self, plane: Plane, copy: &Copy) {
        let Some(hybrid) = self.ftl.scheme.hybrid_mut() else { return };
        let table = &mut self.ftl.mapping.table;
        for (page, &source) in (copy.first..).zip(&copy.sources) {
            let ppn = self.shape.first_ppn_of_block(copy.block) + page;
            if source == Ppn::NONE {
                continue;
            }
            if let Some(content) = table.content(ppn) {
                table.restore(content, Some(source));
                self.ftl.blocks.remove_valid(copy.block, 1);
                self.ftl.blocks.add_valid(self.shape.block_of_ppn(source), 1);
            }
            table.clear_ppn(ppn);
        }
        if copy.partial {
            hybrid.spoil(copy.block);
        } else if copy.block != Block::NONE {
            hybrid.pools[plane].erases.push(copy.block);
        }
    }

    fn erase_in_pool(&mut self, plane: Plane, block: Block) {
        let ppn = self.shape.first_ppn_of_block(block);
        let extent = Extent { plane, ppn, bytes: 0 };
        self.ask_collection(WorkKind::Erase, Token::Erase { block }, extent);
    }

    /// A block of `plane` has been erased.
    pub(in crate::ftl::mapping) fn erased_in_pool(&mut self, plane: Plane) {
        if let Some(pool) = self.pool(plane) {
            pool.erasing = None;
        }
        self.merge_on(plane);
    }

    /// A page of the host has been programmed to `ppn`, or could not be.
    #[cold]
    #[inline(never)]
    pub(in crate::ftl::mapping) fn programmed_in_pool(&mut self, ppn: Ppn, fails: bool) {
        let plane = self.shape.plane_of_ppn(ppn);
        let block = self.shape.block_of_ppn(ppn);
        let Some(hybrid) = self.ftl.scheme.hybrid_mut() else { return };
        hybrid.pools[plane].programs -= 1;
        if fails {
            hybrid.spoil(block);
        }
        self.merge_if_needed(plane);
    }

    /// A die has failed: what it was to merge stays as it is.
    pub(in crate::ftl::mapping) fn abandon_merge(&mut self, plane: Plane) {
        let Some(copy) = self.copy(plane) else { return };
        let reads = std::mem::take(&mut copy.reads);
        for (_, read) in reads {
            if let Read::Unit(unit) = read {
                self.ftl.units.remove(unit);
            }
        }
    }

    /// The power fails: a copy that was not complete is void, an erase has to be repeated.
    pub(in crate::ftl::mapping) fn stop_merge(&mut self, plane: Plane) {
        let Some(pool) = self.pool(plane) else { return };
        pool.programs = 0;
        pool.erases.extend(pool.erasing.take());
        let copy = pool.merge.take().and_then(|merge| merge.copy);
        if let Some(copy) = copy {
            self.undo_copy(plane, &copy);
        }
    }
}
