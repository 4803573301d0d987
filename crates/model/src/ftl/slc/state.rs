//! The cache as bytes and as numbers: saved, restored, hashed, and how full it is.

use super::Slc;
use crate::config::FoldWay;
use crate::flash::timing::FlashTimes;
use crate::ftl::Ftl;
use crate::ftl::blocks::Frontier;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::number::{Block, Plane};
use crate::observe::slc::{SlcFill, SlcState};
use crate::observe::stats::ModeWear;
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;

impl Slc {
    /// Adds which blocks are what.
    pub(in crate::ftl) fn hash(&self, hash: &mut StateHash) {
        for cache in &self.planes {
            for &block in cache.free.iter().chain(&cache.closed) {
                hash.add(block.0);
            }
            hash.add(cache.open.block.0);
            hash.add(cache.open.next_page);
            hash.add(cache.dynamic);
        }
        if let Some(admission) = &self.admission {
            admission.hash(hash);
        }
    }

    /// Nothing is being folded.
    pub(in crate::ftl) fn save(&self, out: &mut Writer<'_>) {
        for cache in &self.planes {
            out.numbers(cache.free.iter().map(|block| block.0));
            out.numbers(cache.closed.iter().map(|block| block.0));
            out.numbers([cache.open.block.0.wrapping_add(1), cache.open.next_page].into_iter());
            out.number(cache.bypassed.into());
        }
        out.numbers(self.erases.iter().copied());
        if let Some(admission) = &self.admission {
            admission.save(out);
        }
    }

    /// Takes what [`Slc::save`] wrote.
    pub(in crate::ftl) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let (shape, blocks) = (self.shape, self.is_slc.len() as u32);
        let damaged = || StateError::Damaged("a block of the SLC cache".into());
        self.is_slc.fill(false);
        for plane in shape.all_planes() {
            let mut list = |what| -> Result<VecDeque<Block>, StateError> {
                let list = input.numbers(what, shape.blocks_per_plane as usize, blocks)?;
                let list: VecDeque<Block> = list.into_iter().map(Block).collect();
                let fits = |&block: &Block| shape.plane_of_block(block) == plane;
                list.iter().all(fits).then_some(list).ok_or_else(damaged)
            };
            let (free, closed) =
                (list("free blocks of the SLC cache")?, list("blocks of the SLC cache")?);
            let open = input.all("the open block of the SLC cache", 2, blocks + 1)?;
            let open = Frontier { block: Block(open[0].wrapping_sub(1)), next_page: open[1] };
            let is_open = open.block != Block::NONE;
            let bypassed = input.number()? == 1;
            if open.next_page >= self.pages
                || is_open && shape.plane_of_block(open.block) != plane
                || !free.iter().all(|&block| self.is_static(block))
            {
                return Err(damaged());
            }
            let open_block = is_open.then_some(open.block);
            let mut dynamic = 0;
            for block in free.iter().chain(&closed).copied().chain(open_block) {
                dynamic += u32::from(!self.is_static(block));
                self.is_slc[block] = true;
            }
            let cache = &mut self.planes[plane.index()];
            (cache.free, cache.closed, cache.open) = (free, closed, open);
            (cache.dynamic, cache.bypassed) = (dynamic, bypassed);
        }
        self.erases = input.words("erases of the SLC cache", self.erases.len())?;
        match &mut self.admission {
            Some(admission) => admission.restore(input),
            None => Ok(()),
        }
    }

    /// Every block that is used with one bit now.
    pub(in crate::ftl) fn all(&self) -> impl Iterator<Item = Block> + '_ {
        (0..).map(Block).zip(&self.is_slc).filter(|(_, is)| **is).map(|(block, _)| block)
    }

    /// Bytes of a block with one bit a cell.
    fn block_bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.shape.page_bytes)
    }

    /// Pages of the open block of `plane` that are programmed, and that are not.
    fn open_pages(&self, plane: Plane) -> (u64, u64) {
        match self.open(plane) {
            open if open.block == Block::NONE => (0, 0),
            open => (open.next_page.into(), (self.pages - open.next_page).into()),
        }
    }

    /// Pages of the cache of `plane` that can be written before it is full, if nothing is folded.
    pub(in crate::ftl) fn pages_to_write(&self, plane: Plane, free: usize) -> u64 {
        let blocks = u64::from(self.blocks_to_open(plane, free));
        blocks * u64::from(self.pages) + self.open_pages(plane).1
    }
}

impl Ftl {
    /// How full the cache is, by a look at every plane; `None` without one.
    pub(crate) fn slc_fill(&self, now: Time) -> Option<SlcFill> {
        let slc = self.slc.as_ref()?;
        let rests = now.saturating_since(slc.last_command) >= slc.config.idle_after;
        let page = u64::from(self.shape.page_bytes);
        let mut fill = SlcFill::default();
        for plane in self.shape.all_planes() {
            let cache = &slc.planes[plane.index()];
            let full = cache.closed.len() as u64 + u64::from(slc.is_folding(plane));
            fill.filled_bytes += full * slc.block_bytes() + slc.open_pages(plane).0 * page;
            if rests || !cache.bypassed {
                let free = self.blocks.free_blocks(plane) + self.blocks.void_blocks(plane);
                fill.room_bytes += slc.pages_to_write(plane, free) * page;
            }
        }
        Some(fill)
    }

    /// How worn the blocks that only serve the cache are, and the others by use with one bit.
    pub(in crate::ftl) fn slc_wear(&self) -> Option<[ModeWear; 2]> {
        let slc = self.slc.as_ref()?;
        let endurance = slc.config.endurance;
        let block_bytes = slc.block_bytes();
        let mut modes = [ModeWear { endurance, block_bytes, ..ModeWear::default() }; 2];
        for (block, &erases) in (0..).map(Block).zip(&slc.erases) {
            let mode = &mut modes[usize::from(!slc.is_static(block))];
            mode.erases += u64::from(erases);
            mode.blocks += u64::from(slc.is_static(block) || slc.dynamic_max > 0);
        }
        Some(modes)
    }

    /// How full the cache is, by a look at its blocks; `None` without one.
    pub(crate) fn slc_state(
        &self,
        now: Time,
        gc_copyback: bool,
        times: &FlashTimes,
    ) -> Option<SlcState> {
        let slc = self.slc.as_ref()?;
        let SlcFill { filled_bytes, room_bytes } = self.slc_fill(now)?;
        let page = u64::from(self.shape.page_bytes);
        let mut state = SlcState { filled_bytes, room_bytes, ..SlcState::default() };
        for plane in self.shape.all_planes() {
            let free = self.blocks.free_blocks(plane) + self.blocks.void_blocks(plane);
            let cache = &slc.planes[plane.index()];
            let others = [cache.folding, cache.open.block];
            let others = others.into_iter().filter(|&block| block != Block::NONE);
            let valid = cache.closed.iter().copied().chain(others);
            let units: u64 = valid.map(|block| u64::from(self.blocks.valid(block))).sum();
            state.valid_bytes += units * u64::from(self.shape.unit_bytes);
            let blocks = slc.blocks_when_empty(plane, free, &self.blocks);
            state.empty_room_bytes += blocks * slc.block_bytes() + slc.open_pages(plane).1 * page;
        }
        state.idle_to_empty = (slc.config.idle_share > 0.0)
            .then(|| slc.config.idle_after + self.time_to_fold(slc, gc_copyback, times));
        Some(state)
    }

    /// How long folding all full blocks takes, where it has its share of each plane's time, the dies do
    /// nothing else but collect native blocks for it, and channels are not waited for.
    fn time_to_fold(&self, slc: &Slc, gc_copyback: bool, times: &FlashTimes) -> Span {
        let program = times.program_mean.as_ps() / u64::from(self.shape.pages_per_program);
        let transfers = |copyback: bool| match copyback {
            true => 0,
            false => times.page_transfer.times(2).as_ps(),
        };
        let pages = u64::from(self.shape.pages_per_block);
        let reads: Span = (0..self.shape.pages_per_block).map(|page| times.read(page)).sum();
        let native = reads.as_ps() / pages + program + transfers(gc_copyback);
        let copyback = slc.config.fold == FoldWay::Copyback;
        let folded = times.slc().read.as_ps() + program + transfers(copyback);
        let (mut all, mut longest, mut die) = (0.0_f64, 0.0_f64, 0.0_f64);
        for plane in self.shape.all_planes() {
            let closed = &slc.planes[plane.index()].closed;
            let units: u32 = closed.iter().map(|&block| self.blocks.valid(block)).sum();
            let pages_of = |units: u64| units.div_ceil(self.shape.units_per_page.into()) as f64;
            let time = folded as f64 * pages_of(units.into())
                + times.slc().erase.as_ps() as f64 * closed.len() as f64;
            let dynamic = closed.iter().filter(|&&block| !slc.is_static(block)).count();
            let have = (self.blocks.free_blocks(plane) + dynamic)
                .saturating_sub(self.least_free(slc, plane));
            let needed = units.div_ceil(self.shape.units_per_block) as usize;
            let (moved, collected) =
                self.blocks.cost_of_winning(plane, needed.saturating_sub(have));
            let collects =
                native as f64 * pages_of(moved) + times.erase.as_ps() as f64 * collected as f64;
            if plane.0.is_multiple_of(self.shape.planes_per_die) {
                die = 0.0;
            }
            die += time + collects;
            all += time;
            // Collection goes on where folding pauses.
            longest = longest.max(time / slc.config.idle_share).max(time + collects).max(die);
        }
        let at_a_time = slc.config.fold_blocks.map_or(f64::INFINITY, f64::from);
        Span::from_ps(longest.max(all / at_a_time) as u64)
    }

    /// Blocks of `plane` that belong to the cache, each once.
    pub(in crate::ftl) fn slc_blocks(&self, plane: Plane) -> Vec<Block> {
        let Some(slc) = &self.slc else { return vec![] };
        let open = slc.open(plane).block;
        slc.at_rest(plane).chain(Some(open).filter(|&open| open != Block::NONE)).collect()
    }
}
