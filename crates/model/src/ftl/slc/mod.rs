//! A write cache of blocks that are used with one bit a cell (pSLC): which blocks are, how full they
//! are, and which of them is folded, that is moved to native blocks, next.
//!
//! A block is used with one bit from when it is opened for the cache until it is erased. It then has
//! a page for each word line: the first of its PPNs, the rest hold nothing. Folding is a collection
//! ([`super::collection`]) whose victim is such a block, of a scheduling class and a holder of its own.

mod admission;
pub(crate) mod fold;
mod state;

use crate::config::{Config, Evict, SlcCache, WhenFull};
use crate::ftl::Ftl;
use crate::ftl::blocks::{Blocks, Frontier, Stream};
use crate::number::{Block, Plane, Ppn};
use crate::policy::{CacheAdmission, CacheWrite};
use crate::space::Shape;
pub(crate) use admission::Admission;
use mynah_stamp::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A block is open from when its first page is taken until the last is.
const NOTHING_OPEN: Frontier = Frontier { block: Block::NONE, next_page: 0 };

/// The cache of one plane.
#[derive(Clone, Serialize, Deserialize)]
struct PlaneCache {
    /// Erased blocks that are only ever used with one bit.
    free: VecDeque<Block>,
    /// The block that is filled, or `NONE`; its next page.
    open: Frontier,
    /// Full blocks, in the order in which they were filled.
    closed: VecDeque<Block>,
    /// The block that is being folded, or `NONE`.
    folding: Block,
    /// When that began.
    began: Time,
    /// Blocks of the cache that become native ones when they are erased, the open one and the one
    /// that is folded included.
    dynamic: u32,
    /// A check whether the drive is idle is scheduled; and whether what is folded, or was last, is
    /// because it was.
    check: bool,
    folds_idly: bool,
    /// It was full, and the drive has not been idle since: hosts' writes go past it.
    bypassed: bool,
}

/// The cache.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Slc {
    config: SlcCache,
    shape: Shape,
    /// Pages of a block with one bit.
    pages: u32,
    /// Blocks of each plane, the first, that are only ever used with one bit.
    fixed: u32,
    /// Most others of a plane that are used so.
    dynamic_max: u32,
    /// Free blocks of a plane that the cache leaves, and that hosts leave as long as there is
    /// something to fold.
    left: usize,
    left_by_host: usize,
    /// Whether collection of native blocks keeps pace with hosts.
    gc_paced: bool,
    planes: Vec<PlaneCache>,
    /// Whether each block is used with one bit now.
    is_slc: Vec<bool>,
    /// Erases of each block after it was used with one bit.
    erases: Vec<u32>,
    /// When a command came last.
    last_command: Time,
    /// Which writes go past it although it has room, if some do.
    pub(in crate::ftl) admission: Option<Admission>,
}

impl Slc {
    /// The cache of a new drive: its static blocks are no longer among the free ones.
    pub(super) fn new(config: &Config, shape: &Shape, blocks: &mut Blocks) -> Option<Slc> {
        let cache: SlcCache = config.slc?;
        let per_plane = shape.blocks_per_plane;
        let fixed = cache.static_blocks(per_plane);
        let left_by_host = (config.gc.reserve_blocks + cache.kept_blocks(per_plane)) as usize;
        let mut is_slc = vec![false; (shape.planes * per_plane) as usize];
        let planes = shape.all_planes().map(|plane| {
            let free = blocks.set_apart(plane, fixed);
            free.iter().for_each(|&block| is_slc[block] = true);
            PlaneCache {
                free,
                open: NOTHING_OPEN,
                closed: VecDeque::new(),
                folding: Block::NONE,
                began: Time::ZERO,
                dynamic: 0,
                check: false,
                folds_idly: false,
                bypassed: false,
            }
        });
        Some(Slc {
            planes: planes.collect(),
            config: cache,
            shape: *shape,
            pages: shape.pages_per_block / config.flash.cell.bits(),
            fixed,
            dynamic_max: cache.dynamic_blocks(per_plane),
            left: blocks.start.max(left_by_host),
            left_by_host,
            gc_paced: config.gc.paced,
            erases: vec![0; is_slc.len()],
            is_slc,
            last_command: Time::ZERO,
            admission: cache.sequential_cutoff.map(Admission::new),
        })
    }

    fn is_direct(&self) -> bool {
        self.config.when_full == WhenFull::Direct
    }

    /// Whether the data of a block are one bit a cell.
    #[inline]
    pub(crate) fn has(&self, block: Block) -> bool {
        self.is_slc[block]
    }

    /// Pages that a block has with one bit a cell.
    pub(crate) fn pages_per_block(&self) -> u32 {
        self.pages
    }

    /// Whether a block of `plane` may be taken out of the native ones.
    fn may_take_native(&self, plane: Plane, free: usize) -> bool {
        let dynamic = self.planes[plane.index()].dynamic;
        let room = self.config.dynamic * (free as f64 + f64::from(dynamic));
        dynamic < self.dynamic_max && f64::from(dynamic + 1) <= room && free > self.left
    }

    /// Whether another block of `plane` may be opened, where so many native ones are free.
    fn may_open(&self, plane: Plane, free: usize) -> bool {
        !self.planes[plane.index()].free.is_empty() || self.may_take_native(plane, free)
    }

    /// Whether a page can be programmed in `plane`.
    fn has_room(&self, plane: Plane, free: usize) -> bool {
        let cache = &self.planes[plane.index()];
        !cache.bypassed && (cache.open.block != Block::NONE || self.may_open(plane, free))
    }

    /// Whether there is nothing to fold in `plane`, and nothing is folded.
    pub(in crate::ftl) fn is_empty_of_closed(&self, plane: Plane) -> bool {
        let cache = &self.planes[plane.index()];
        cache.closed.is_empty() && cache.folding == Block::NONE
    }

    /// Takes the next page of `plane`; returns its first PPN.
    fn take_page(&mut self, plane: Plane, blocks: &mut Blocks) -> Ppn {
        let cache = &mut self.planes[plane.index()];
        if cache.open.block == Block::NONE {
            cache.open.block = cache.free.pop_front().unwrap_or_else(|| {
                cache.dynamic += 1;
                blocks.take_free(plane).expect("a free block")
            });
            self.is_slc[cache.open.block] = true;
        }
        let Frontier { block, next_page } = cache.open;
        cache.open.next_page += 1;
        if cache.open.next_page == self.pages {
            cache.closed.push_back(block);
            cache.open = NOTHING_OPEN;
            if self.is_direct() && !self.may_open(plane, blocks.free_blocks(plane)) {
                self.planes[plane.index()].bypassed = true;
            }
        }
        self.shape.first_ppn_of_block(block) + next_page * self.shape.units_per_page
    }

    /// The full block of `plane` that is folded next, if there is one; `dynamic`: of those that become
    /// native ones.
    fn victim(&self, plane: Plane, blocks: &Blocks, dynamic: bool) -> Option<Block> {
        let closed = self.planes[plane.index()].closed.iter().copied();
        let mut closed = closed.filter(|&block| !dynamic || !self.is_static(block));
        match self.config.evict {
            Evict::Fifo => closed.next(),
            Evict::Greedy => closed.min_by_key(|&block| blocks.valid(block)),
        }
    }

    /// A block of `plane` is folded from `now` on.
    pub(in crate::ftl) fn begin_fold(&mut self, plane: Plane, block: Block, now: Time) {
        let cache = &mut self.planes[plane.index()];
        cache.closed.retain(|&it| it != block);
        (cache.folding, cache.began) = (block, now);
    }

    /// The fold of a block was broken off: it is the next to be folded.
    pub(super) fn put_back(&mut self, plane: Plane, block: Block) {
        let cache = &mut self.planes[plane.index()];
        cache.folding = Block::NONE;
        cache.closed.push_front(block);
    }

    /// Whether a block of `plane` is being folded.
    pub(crate) fn is_folding(&self, plane: Plane) -> bool {
        self.planes[plane.index()].folding != Block::NONE
    }

    /// Takes a block of `plane` that holds something, the one that was filled first, out of the cache.
    pub(in crate::ftl) fn take_oldest(&mut self, plane: Plane) -> Option<Block> {
        let cache = &mut self.planes[plane.index()];
        let open = || Some(std::mem::replace(&mut cache.open, NOTHING_OPEN).block);
        let block = cache.closed.pop_front().or_else(open).filter(|&block| block != Block::NONE)?;
        cache.folding = block;
        Some(block)
    }

    /// The drive begins with an empty cache, and these erases with one bit.
    pub(in crate::ftl) fn begin_empty(&mut self, erases: &[u32]) {
        self.erases.copy_from_slice(erases);
        self.planes.iter_mut().for_each(|cache| cache.bypassed = false);
    }

    /// Erases of each block with one bit.
    pub(in crate::ftl) fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Whether it is folded in idle time.
    pub(in crate::ftl) fn folds_idly(&self) -> bool {
        self.config.idle_share > 0.0
    }

    /// The clock stands at zero again.
    pub(super) fn begin_anew(&mut self) {
        self.last_command = Time::ZERO;
        for cache in &mut self.planes {
            (cache.began, cache.check, cache.folds_idly) = (Time::ZERO, false, false);
        }
    }

    /// A command has come.
    #[cold]
    #[inline(never)]
    fn note_command(&mut self, now: Time) {
        if now.since(self.last_command) >= self.config.idle_after {
            self.planes.iter_mut().for_each(|cache| cache.bypassed = false);
        }
        self.last_command = now;
    }

    /// Whether one more erase after use with one bit is more than `block` endures.
    fn is_worn_out(&self, block: Block) -> bool {
        self.config.endurance.is_some_and(|cycles| self.erases[block] >= cycles)
    }

    /// A block has been erased, or is retired: returns whether it is one of the native ones now.
    fn erased(&mut self, plane: Plane, block: Block, works: bool) -> bool {
        self.erases[block] += u32::from(works);
        let is_static = self.is_static(block);
        let cache = &mut self.planes[plane.index()];
        cache.folding = Block::NONE;
        match is_static {
            true if works => cache.free.push_back(block),
            true => {}
            false => cache.dynamic -= 1,
        }
        self.is_slc[block] = is_static && works;
        !is_static
    }

    /// No block has been erased.
    pub(super) fn forget_erases(&mut self) {
        self.erases.fill(0);
    }

    /// Blocks of `plane` that are used with one bit and are neither open nor being folded.
    pub(crate) fn at_rest(&self, plane: Plane) -> impl Iterator<Item = Block> + '_ {
        let cache = &self.planes[plane.index()];
        cache.free.iter().chain(&cache.closed).copied()
    }

    /// Whether a block only ever serves the cache.
    pub(crate) fn is_static(&self, block: Block) -> bool {
        block.0 % self.shape.blocks_per_plane < self.fixed
    }

    /// Blocks of the cache of `plane` that become native ones when they are erased.
    pub(crate) fn dynamic_blocks(&self, plane: Plane) -> u32 {
        self.planes[plane.index()].dynamic
    }

    /// The block of `plane` that is filled, and the pages of it that are.
    pub(crate) fn open(&self, plane: Plane) -> Frontier {
        self.planes[plane.index()].open
    }
}

impl Ftl {
    /// A command has come.
    #[inline(always)]
    pub(crate) fn note_command(&mut self, now: Time) {
        if let Some(slc) = &mut self.slc {
            slc.note_command(now);
        }
    }

    /// Whether what is at `ppn` is one bit a cell.
    #[inline(always)]
    pub(crate) fn is_slc(&self, ppn: Ppn) -> bool {
        self.slc.is_some() && self.is_in_slc_block(ppn)
    }

    #[cold]
    #[inline(never)]
    fn is_in_slc_block(&self, ppn: Ppn) -> bool {
        let block = self.shape.block_of_ppn(ppn);
        self.slc.as_ref().is_some_and(|slc| slc.has(block))
    }

    /// Which blocks the next page of what hosts write goes to in `plane`.
    #[inline(always)]
    pub(crate) fn host_stream(&self, plane: Plane) -> Stream {
        match &self.slc {
            None => Stream::HOST,
            Some(slc) => self.host_stream_beside(slc, plane),
        }
    }

    #[cold]
    #[inline(never)]
    fn host_stream_beside(&self, slc: &Slc, plane: Plane) -> Stream {
        let free = self.blocks.free_blocks(plane);
        if slc.has_room(plane, free) {
            return Stream::SLC;
        }
        let direct = slc.is_direct() || slc.is_empty_of_closed(plane);
        if direct && self.may_write_natively(slc, plane) { Stream::HOST } else { Stream::SLC }
    }

    /// Whether what hosts write may go to native blocks of `plane`: as long as there is something to
    /// fold, the blocks that this needs stay free.
    fn may_write_natively(&self, slc: &Slc, plane: Plane) -> bool {
        let free = self.blocks.free_blocks(plane);
        let can_open = slc.is_empty_of_closed(plane) || free > slc.left_by_host;
        let page = self.blocks.next_page(plane, Stream::HOST);
        self.blocks.can_program(plane, Stream::HOST) && (page > 0 || can_open)
    }

    /// The group of what goes past the cache, where it has queues of its own.
    const PAST_SLC: u8 = 1;

    /// Whether some writes go past the cache although it has room.
    #[inline(always)]
    pub(crate) fn parts_writes(&self) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.admission.is_some())
    }

    /// Whether a write to a namespace, counted from 0, goes past the cache.
    #[cold]
    #[inline(never)]
    pub(crate) fn goes_past_slc(
        &mut self,
        policy: &mut impl CacheAdmission,
        namespace: usize,
        sector: u64,
        sectors: u32,
    ) -> bool {
        let admission = self.slc.as_mut().and_then(|slc| slc.admission.as_mut());
        admission.is_some_and(|admission| {
            let configured = admission.write(namespace, sector, sectors);
            policy.goes_past(CacheWrite { namespace, sector, sectors, configured })
        })
    }

    /// The group that a write belongs to, where that is told apart.
    pub(crate) fn group_beside_slc(past: bool) -> u8 {
        if past { Ftl::PAST_SLC } else { 0 }
    }

    /// Which blocks a host's page of a group goes to in `plane`.
    #[inline]
    pub(in crate::ftl) fn host_stream_of(&self, plane: Plane, group: u8) -> Stream {
        match (&self.slc, group) {
            (Some(slc), 0) => self.host_stream_beside(slc, plane),
            _ => Stream::host(group),
        }
    }

    /// Whether a page for the cache, or for native blocks beside it, can be programmed.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_place_beside_slc(&self, plane: Plane, stream: Stream) -> bool {
        let slc = self.slc.as_ref().expect("a cache");
        if stream.is_slc() {
            return slc.has_room(plane, self.blocks.free_blocks(plane));
        }
        match stream.is_host() {
            true => self.may_write_natively(slc, plane),
            false => self.blocks.can_program(plane, stream),
        }
    }

    /// The page offset of the next program of the cache.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_page_of_slc(&self, plane: Plane) -> u32 {
        self.slc.as_ref().map_or(0, |slc| slc.open(plane).next_page)
    }

    /// Takes the next page of the cache; returns its first PPN.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_page_of_slc(&mut self, plane: Plane) -> Ppn {
        let slc = self.slc.as_mut().expect("a cache");
        slc.take_page(plane, &mut self.blocks)
    }

    /// A collection of `block` was broken off: it may be collected again.
    pub(crate) fn put_back(&mut self, block: Block) {
        match &mut self.slc {
            Some(slc) if slc.has(block) => slc.put_back(self.shape.plane_of_block(block), block),
            _ => self.blocks.put_back(block),
        }
    }

    /// Whether what is collected in `plane` is folded.
    #[inline]
    pub(crate) fn is_folding(&self, plane: Plane) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_folding(plane))
    }

    /// Units that one program of `stream` takes.
    #[inline]
    pub(crate) fn units_per_program(&self, stream: Stream) -> u32 {
        if stream.is_slc() { self.shape.units_per_page } else { self.shape.units_per_program }
    }

    /// Pages that one program of `stream` takes, from page `page` of its block on.
    #[inline]
    pub(crate) fn pages_in_program(&self, stream: Stream, page: u32) -> u32 {
        if stream.is_slc() { 1 } else { self.shape.pages_in_program(page) }
    }
}
