//! Folding: when a block of the cache is moved to native blocks, and what differs from a collection
//! of native ones then.

use super::Slc;
use crate::config::{FoldWay, Gc, SlcCache};
use crate::flash::queues::{CLASS_COLLECTION, CLASS_FOLD};
use crate::ftl::Ftl;
use crate::ftl::blocks::{Blocks, Stream};
use crate::ftl::collection::MOVE;
use crate::number::{Block, Plane};
use crate::observe::blame::{FOLDING, GARBAGE_COLLECTION, HolderIndex};
use crate::policy::PolicySet;
use mynah_stamp::{Span, Time};

impl Ftl {
    /// Class and holder of what is moved in `plane`.
    #[inline]
    pub(in crate::ftl) fn mover(&self, plane: Plane) -> (u8, HolderIndex) {
        match self.is_folding(plane) {
            true => (CLASS_FOLD, FOLDING),
            false => (CLASS_COLLECTION, self.collector),
        }
    }

    /// Who makes room for what waits to be programmed in `plane`.
    #[inline]
    pub(in crate::ftl) fn room_maker(&self, plane: Plane) -> HolderIndex {
        if self.is_folding(plane) { FOLDING } else { GARBAGE_COLLECTION }
    }

    /// Pages of a block that may hold something.
    pub(in crate::ftl) fn pages_of(&self, block: Block) -> u32 {
        match &self.slc {
            Some(slc) if slc.has(block) => slc.pages_per_block(),
            _ => self.shape.pages_per_block,
        }
    }

    /// Moves of a block with so many valid units that each page of the host in its plane makes due, if
    /// that is not what it is on a drive without a cache. A fold that nobody waits for has the time
    /// that dies have left.
    pub(in crate::ftl) fn pace_beside_slc(&self, plane: Plane, valid: u32) -> Option<u32> {
        let slc = self.slc.as_ref()?;
        if !slc.is_folding(plane) {
            return (!slc.gc_paced).then_some(0);
        }
        let free = self.blocks.free_blocks(plane);
        match slc.planes[plane.index()].bypassed {
            // It wins native blocks that the host waits for: as a collection does, but first in its
            // plane where other planes wait for its turn.
            true if free < self.least_free(slc, plane) => slc.takes_turns().then_some(u32::MAX),
            true => Some(slc.pace_beside(valid)),
            false if slc.may_open(plane, free) => Some(0),
            false => Some(slc.pace(valid)),
        }
    }

    /// Whether pages that are moved in `plane` stay in their die.
    pub(in crate::ftl) fn copies_back(&self, plane: Plane, gc: &Gc) -> bool {
        match &self.slc {
            Some(slc) if slc.is_folding(plane) => slc.config.fold == FoldWay::Copyback,
            _ => gc.copyback,
        }
    }

    /// Whether one more erase of `block` is more than it endures in the mode that it was used in.
    pub(in crate::ftl) fn is_worn_out(&self, block: Block) -> bool {
        match &self.slc {
            None => self.blocks.is_worn_out(block, 0),
            Some(slc) if slc.has(block) => slc.is_worn_out(block),
            Some(slc) => self.blocks.is_worn_out(block, slc.erases[block]),
        }
    }

    /// A block of `plane` has been erased, and is given back.
    pub(in crate::ftl) fn put_free(&mut self, plane: Plane, block: Block) {
        match &mut self.slc {
            Some(slc) if slc.has(block) => match slc.erased(plane, block, true) {
                true => self.blocks.put_free(block),
                false => self.blocks.erases[block] += 1,
            },
            _ => self.blocks.put_free(block),
        }
    }

    /// A block of `plane` is used no more.
    pub(in crate::ftl) fn retire(&mut self, plane: Plane, block: Block) {
        if let Some(slc) = &mut self.slc
            && slc.has(block)
        {
            slc.erased(plane, block, false);
        }
        self.blocks.retire(block);
    }

    /// Whether native blocks have room for what is folded of `victim`: in the block that takes what
    /// is moved, or in another, which may be opened.
    fn can_fold(&self, plane: Plane, victim: Block) -> bool {
        let next = self.blocks.next_page(plane, Stream::COLLECTED);
        let left = match next {
            0 => 0,
            next => (self.shape.pages_per_block - next) * self.shape.units_per_page,
        };
        left >= self.blocks.valid(victim) || self.blocks.may_open(plane, Stream::HOST)
    }

    /// Free blocks of `plane` below which native ones are won: more than hosts leave, as long as there
    /// is something to fold.
    pub(super) fn least_free(&self, slc: &Slc, plane: Plane) -> usize {
        match slc.is_empty_of_closed(plane) {
            true => self.blocks.start,
            false => self.blocks.start.max(slc.left_by_host + 1),
        }
    }

    /// The block of `plane` that would be folded now; `dynamic`: to win a native block.
    fn block_to_fold(&self, plane: Plane, dynamic: bool) -> Option<Block> {
        let slc = self.slc.as_ref()?;
        slc.victim(plane, &self.blocks, dynamic).filter(|&victim| self.can_fold(plane, victim))
    }

    /// Whether the cache of `plane` is so full that it is folded whatever the host does, or beside it
    /// where dies have time.
    fn wants_fold(&self, plane: Plane, has_time: bool) -> bool {
        let Some(slc) = &self.slc else { return false };
        let free = self.blocks.free_blocks(plane);
        if has_time && slc.is_filled_to_share(plane, free) {
            return true;
        }
        match slc.is_direct() {
            true => slc.planes[plane.index()].bypassed && slc.config.fold_beside > 0.0,
            false => !slc.may_open(plane, free),
        }
    }

    /// Idle checks that were scheduled are no more.
    pub(in crate::ftl) fn forget_idle_checks(&mut self) {
        if let Some(slc) = &mut self.slc {
            slc.planes.iter_mut().for_each(|cache| cache.check = false);
        }
    }
}

impl Slc {
    /// The pace at which a block with so many valid units is folded while the host fills another.
    fn pace(&self, units: u32) -> u32 {
        let moves = units.div_ceil(self.shape.units_per_program) + 1;
        (moves * MOVE).div_ceil(self.pages.max(1))
    }

    /// The pace at which a block with so many valid units is folded beside writes past the cache. The
    /// erase counts as a move, as everywhere.
    fn pace_beside(&self, units: u32) -> u32 {
        let moves = f64::from(units.div_ceil(self.shape.units_per_program).max(1));
        (self.config.fold_beside * f64::from(MOVE) * (moves + 1.0) / moves) as u32
    }

    /// Whether the cache of `plane` could open another native block if one more were free.
    fn lacks_free_blocks(&self, plane: Plane, free: usize) -> bool {
        let bypassed = self.planes[plane.index()].bypassed;
        !bypassed && !self.may_open(plane, free) && self.may_take_native(plane, self.left + 1)
    }

    /// Whether so much of what the cache of `plane` could hold now is filled that it is folded
    /// beside the host's work.
    fn is_filled_to_share(&self, plane: Plane, free: usize) -> bool {
        if self.config.fold_from >= 1.0 {
            return false;
        }
        let cache = &self.planes[plane.index()];
        let filled = cache.closed.len() as f64;
        let room = f64::from(self.blocks_to_open(plane, free));
        filled >= self.config.fold_from * (filled + room).max(1.0)
    }

    /// Whether fewer blocks may be folded at a time than there are planes.
    fn takes_turns(&self) -> bool {
        self.config.fold_blocks.is_some_and(|blocks| blocks < self.shape.planes)
    }

    /// Blocks of `plane` that could be opened if all that is full were folded.
    pub(super) fn blocks_when_empty(&self, plane: Plane, free: usize, blocks: &Blocks) -> u64 {
        let cache = &self.planes[plane.index()];
        let units: u32 = cache.closed.iter().map(|&block| blocks.valid(block)).sum();
        let closed = cache.closed.iter().filter(|&&block| !self.is_static(block)).count();
        let native = units.div_ceil(self.shape.units_per_block) as usize;
        let free = (free + closed).saturating_sub(native);
        let dynamic = cache.dynamic - closed as u32;
        let limit = (self.config.dynamic * (free as f64 + f64::from(dynamic))) as u32;
        let limit = limit.min(self.dynamic_max).saturating_sub(dynamic);
        let fixed = cache.free.len() + cache.closed.len() - closed;
        fixed as u64 + u64::from(limit.min(free.saturating_sub(self.left) as u32))
    }

    /// Blocks of `plane` that could still be opened.
    pub(super) fn blocks_to_open(&self, plane: Plane, free: usize) -> u32 {
        let cache = &self.planes[plane.index()];
        let limit = self.config.dynamic * (free as f64 + f64::from(cache.dynamic));
        let limit = (limit as u32).min(self.dynamic_max);
        let native = limit.saturating_sub(cache.dynamic).min(free.saturating_sub(self.left) as u32);
        cache.free.len() as u32 + native
    }
}

/// What is to be moved in a plane.
pub(in crate::ftl) enum Move {
    /// This block of the cache, to native blocks.
    Fold(Block),
    /// This native block, which has been taken.
    Native(Block),
    /// A native block, if one is worth it.
    Collect,
}

impl Ftl {
    /// What is due to be moved in `plane`, where nothing is, if anything.
    pub(in crate::ftl) fn next_move(
        &mut self,
        plane: Plane,
        policies: &mut impl PolicySet,
    ) -> Option<Move> {
        self.next_move_of(plane, true, policies)
    }

    /// The same of dies that have time beside what hosts write, or not.
    pub(in crate::ftl) fn next_move_of(
        &mut self,
        plane: Plane,
        has_time: bool,
        policies: &mut impl PolicySet,
    ) -> Option<Move> {
        let slc = self.slc.as_ref()?;
        let free = self.blocks.free_blocks(plane);
        let nothing_folds = slc.is_empty_of_closed(plane);
        let least = self.least_free(slc, plane);
        let lacks_free = slc.lacks_free_blocks(plane, free);
        if free < least
            && let Some(won) = self.win_native_block(plane, policies)
        {
            return Some(won);
        }
        if lacks_free && let Some(native) = self.cheaper_than_folding(plane, policies) {
            return Some(Move::Native(native));
        }
        if !self.wants_fold(plane, has_time) {
            return None;
        }
        match self.block_to_fold(plane, false) {
            Some(block) => Some(Move::Fold(block)),
            None if nothing_folds || free < least => None,
            None => self.win_native_block(plane, policies),
        }
    }

    /// The cache lacks free blocks: a native one that costs less to win than a block of the cache. So it
    /// gets back what it lost to native data that are void now. What is void as a whole costs an erase.
    fn cheaper_than_folding(
        &mut self,
        plane: Plane,
        policies: &mut impl PolicySet,
    ) -> Option<Block> {
        let fewest = self.blocks.fewest_valid(plane);
        if fewest == 0 {
            return self.blocks.take_void(plane);
        }
        let slc = self.slc.as_ref()?;
        let folded = match slc.victim(plane, &self.blocks, false) {
            Some(block) => self.blocks.valid(block),
            None => slc.pages * self.shape.units_per_page,
        };
        let is_cheaper = fewest < folded && self.blocks.can_program(plane, Stream::COLLECTED);
        is_cheaper.then(|| self.blocks.take_victim(plane, policies)).flatten()
    }

    /// Native blocks of `plane` are short: what wins one with the least to be moved, of the cache or of
    /// native blocks.
    fn win_native_block(&mut self, plane: Plane, policies: &mut impl PolicySet) -> Option<Move> {
        let fold = self.block_to_fold(plane, true);
        if let Some(block) = fold
            && self.blocks.valid(block) <= self.blocks.fewest_valid(plane)
        {
            return Some(Move::Fold(block));
        }
        if self.blocks.free_blocks(plane) >= self.blocks.start {
            // They are short of what folding needs alone.
            let native = self.blocks.take_victim(plane, policies).map(Move::Native);
            return native.or(fold.map(Move::Fold));
        }
        if self.blocks.is_anything_worth_collecting(plane) {
            return Some(Move::Collect);
        }
        let fold = fold.or_else(|| self.block_to_fold(plane, false));
        Some(fold.map_or(Move::Collect, Move::Fold))
    }

    /// When it should be looked whether the drive is idle, if `plane` has something to fold then and
    /// nobody looks already.
    pub(in crate::ftl) fn await_idleness(&mut self, plane: Plane, now: Time) -> Option<Time> {
        let slc = self.slc.as_mut()?;
        let cache = &mut slc.planes[plane.index()];
        let SlcCache { idle_share, idle_after, .. } = slc.config;
        if idle_share <= 0.0 || cache.check || cache.closed.is_empty() {
            return None;
        }
        cache.check = true;
        // Of a plane that has just folded in idle time the rest comes after it.
        let spent = now.since(cache.began).as_ps() as f64;
        let rest = match std::mem::take(&mut cache.folds_idly) {
            true => spent * (1.0 - idle_share) / idle_share,
            false => 0.0,
        };
        Some((slc.last_command + idle_after).max(now + Span::from_ps(rest as u64)))
    }

    /// The check that was scheduled for `plane` is now: when it should be looked again, if a command has
    /// come since.
    pub(in crate::ftl) fn is_idle(&mut self, plane: Plane, now: Time) -> Option<Time> {
        let slc = self.slc.as_mut()?;
        let due = slc.last_command + slc.config.idle_after;
        let again = (due > now).then_some(due);
        slc.planes[plane.index()].check = again.is_some();
        again
    }

    /// The block of `plane` that is folded in idle time.
    pub(in crate::ftl) fn idle_block(&self, plane: Plane) -> Option<Block> {
        self.block_to_fold(plane, false)
    }

    /// Begins to fold a block of `plane`, in `idle` time or not, unless as many as may be are being
    /// folded, planes that are `dead` apart; whether it has.
    pub(in crate::ftl) fn begin_fold(
        &mut self,
        plane: Plane,
        block: Block,
        (now, idle): (Time, bool),
        dead: impl Fn(Plane) -> bool,
    ) -> bool {
        let Some(slc) = &mut self.slc else { return false };
        let folds = |&at: &Plane| slc.is_folding(at) && !dead(at);
        let may = match slc.config.fold_blocks.filter(|_| slc.takes_turns()) {
            Some(blocks) => self.shape.all_planes().filter(folds).count() < blocks as usize,
            None => true,
        };
        if may {
            slc.begin_fold(plane, block, now);
            slc.planes[plane.index()].folds_idly = idle;
        }
        may
    }

    /// Whether planes wait for one another's folds.
    pub(in crate::ftl) fn folds_take_turns(&self) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.takes_turns())
    }
}
