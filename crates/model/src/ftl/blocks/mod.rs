//! Blocks: how many valid units each holds, which are free, which are being filled, and
//! which one to collect.

mod state;
mod streams;
mod superblock;

use crate::config::{CollectionUnit, DataPlacement, Gc, Wear};
use crate::number::{Block, Plane, Ppn};
use crate::policy::victims::INELIGIBLE;
use crate::policy::{Candidates, Dated, PolicySet, VictimChoice, Wrong};
use crate::space::Shape;
use crate::victim::{Declaration, Stamps};
use mynah_memory::prefetch;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
pub(crate) use streams::{Origin, Stream};
use streams::{Sharing, Streams};
use superblock::Superblocks;

/// Most units a block can have.
pub(crate) const UNITS_PER_BLOCK_MAX: u32 = 0x7fff;

/// An open block: the next page of it to program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frontier {
    /// Index among all blocks, or `NONE`.
    pub(crate) block: Block,
    pub(crate) next_page: u32,
}

/// Blocks of translation pages go first once no more than one part in so many of them is valid. An
/// estimate: what is moved of them costs little, and they do not wait for the last page.
const SPENT_TABLE_BLOCK: u32 = 8;

/// What the clock of block ages stands at in a drive that has not been written: preconditioned
/// blocks are older than that.
const CLOCK_START: u64 = 1 << 48;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Blocks {
    shape: Shape,
    /// Valid units of each block, with [`INELIGIBLE`] as a flag.
    valid: Vec<u16>,
    pub(crate) erases: Vec<u32>,
    pub(crate) free: Vec<VecDeque<Block>>,
    /// Of each plane, by the numbers that `streams` gives.
    frontiers: Vec<Frontier>,
    /// Blocks that reads of unmapped addresses fill, for the namespaces after the first: of
    /// namespace `n` in each plane from `(n - 1) * planes` on. Made when needed.
    pub(crate) read_frontiers: Vec<Frontier>,
    /// Where the next search for a victim starts in each plane, so that ties take turns.
    cursor: Vec<u32>,
    streams: Streams,
    policy: Declaration,
    /// Whether the policy takes a block of which nothing is won, once something can be won of another.
    takes_what_comes: bool,
    /// When each block was filled (FIFO) or last changed (cost-benefit), on `clock`; empty
    /// for policies that do not ask.
    stamps: Vec<u64>,
    /// Pages programmed, from [`CLOCK_START`] on.
    clock: u64,
    /// Invalid units of a victim, at least, unless collection is urgent.
    least_invalid: u32,
    reserve: usize,
    pub(crate) start: usize,
    pub(crate) urgent: usize,
    pub(crate) retired: Vec<Block>,
    /// Whether each block is retired; empty as long as none is.
    gone: Vec<bool>,
    /// Blocks of each plane, the first, that never hold native data: their wear is another matter.
    apart: u32,
    /// Valid units of each plane; empty where a unit's address says its plane.
    in_plane: Vec<u32>,
    /// Whether blocks are opened by their erases.
    dynamic: bool,
    /// Whether every change of a block's valid units has to be followed.
    follows: bool,
    /// Planes whose present collection levels wear: what it opens is the most worn free block.
    pub(crate) levelling: Vec<bool>,
    /// Erases that each block endures; empty if there is no end.
    endurance: Vec<u32>,
    random: Xoshiro256PlusPlus,
    /// Which blocks are collected together, if not each alone.
    pub(crate) superblocks: Option<Box<Superblocks>>,
    /// Blocks of each plane that were filled with translation pages alone and not erased since.
    of_tables: Vec<Vec<Block>>,
}

/// A draw from (very nearly) the standard normal distribution: the sum of twelve uniform ones.
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    use rand::Rng;
    let uniform =
        |random: &mut Xoshiro256PlusPlus| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

impl Blocks {
    /// For memory that is overwritten in place: neither free nor open blocks, and none that is
    /// ever collected.
    pub(crate) fn in_place(self) -> Blocks {
        let mut blocks = self.without_open_blocks();
        blocks.valid.fill(0);
        blocks.free.iter_mut().for_each(VecDeque::clear);
        blocks
    }

    /// For mapping schemes that choose blocks themselves: no open blocks, and none that is
    /// collected. There is always a place for what is written.
    pub(crate) fn without_open_blocks(mut self) -> Blocks {
        (self.start, self.urgent) = (0, 0);
        self.frontiers.fill(Frontier { block: Block::NONE, next_page: 0 });
        self.streams.sharing = Sharing::None;
        self
    }

    pub(crate) fn new(
        shape: Shape,
        gc: &Gc,
        placement: Option<&DataPlacement>,
        wear: &Wear,
        random: Xoshiro256PlusPlus,
        mut lives: Xoshiro256PlusPlus,
    ) -> Blocks {
        let blocks = shape.planes * shape.blocks_per_plane;
        let (start, urgent) = gc.thresholds(shape.blocks_per_plane);
        let free = |plane: Plane| shape.blocks_of_plane(plane).collect();
        let closed = Frontier { block: Block::NONE, next_page: shape.pages_per_block };
        let policy = gc.victim.declaration();
        let span = placement.map_or(1, |placement| placement.superblocks);
        let streams = Streams::of(gc.frontiers, placement);
        let endurance = match wear.endurance {
            None => vec![],
            Some(cycles) => (0..blocks)
                .map(|_| f64::from(cycles) * (1.0 + wear.endurance_deviation * normal(&mut lives)))
                .map(|cycles| cycles.max(1.0) as u32)
                .collect(),
        };
        Blocks {
            shape,
            valid: vec![INELIGIBLE; blocks as usize],
            erases: vec![wear.initial; blocks as usize],
            free: shape.all_planes().map(free).collect(),
            frontiers: vec![closed; shape.planes as usize * streams.open_blocks],
            read_frontiers: Vec::new(),
            cursor: vec![0; shape.planes as usize],
            takes_what_comes: policy.takes_what_comes,
            policy,
            stamps: if policy.stamps_blocks() { vec![0; blocks as usize] } else { vec![] },
            clock: CLOCK_START,
            least_invalid: (gc.least_invalid * f64::from(shape.units_per_block)) as u32,
            reserve: gc.reserve_blocks as usize,
            start: start as usize,
            urgent: urgent as usize,
            retired: Vec::new(),
            gone: Vec::new(),
            apart: 0,
            in_plane: vec![],
            dynamic: wear.dynamic,
            follows: policy.follows_changes(),
            levelling: match wear.static_threshold {
                Some(_) => vec![false; shape.planes as usize],
                None => vec![],
            },
            endurance,
            random,
            superblocks: (gc.unit == CollectionUnit::Superblock).then(|| {
                Box::new(Superblocks::new(shape.planes, blocks, streams.open_blocks, span))
            }),
            streams,
            of_tables: vec![vec![]; shape.planes as usize],
        }
    }

    /// Where the open block of a plane with this number is.
    #[inline(always)]
    fn place(&self, plane: Plane, index: usize) -> usize {
        plane.index() * self.streams.open_blocks + index
    }

    /// The place of the block that `stream` fills in `plane`.
    #[inline(always)]
    fn place_of(&self, plane: Plane, stream: Stream) -> usize {
        self.place(plane, self.number_of(plane, stream))
    }

    /// The number of the block that `stream` fills, among the open ones of `plane`.
    #[inline(always)]
    fn number_of(&self, plane: Plane, stream: Stream) -> usize {
        match self.streams.sharing {
            Sharing::None => stream.origin as usize,
            Sharing::All => 0,
            Sharing::Heat => self.number_by_heat(plane, stream),
            Sharing::Handle => self.streams.by_handle(stream).0,
        }
    }

    /// The same where hot units have blocks of their own. What collection moves goes to the other
    /// open block where the right one is full and none is free.
    #[cold]
    #[inline(never)]
    fn number_by_heat(&self, plane: Plane, stream: Stream) -> usize {
        let number = match stream.origin {
            Origin::Host | Origin::Collected | Origin::Slc => usize::from(stream.group),
            Origin::Translation => return 2,
        };
        let is_full = |number: usize| {
            self.frontiers[self.place(plane, number)].next_page == self.shape.pages_per_block
        };
        let elsewhere = stream.is_collected()
            && is_full(number)
            && self.free[plane].is_empty()
            && !is_full(1 - number);
        if elsewhere { 1 - number } else { number }
    }

    /// The block that `stream` fills in `plane`.
    #[inline]
    pub(crate) fn frontier(&self, plane: Plane, stream: Stream) -> Frontier {
        self.frontiers[self.place_of(plane, stream)]
    }

    /// The page offset that the next program of `stream` in `plane` would have.
    #[inline]
    pub(crate) fn next_page(&self, plane: Plane, stream: Stream) -> u32 {
        match self.frontier(plane, stream).next_page {
            page if page == self.shape.pages_per_block => 0,
            page => page,
        }
    }

    /// Whether `stream` may program a page in `plane` now. The last free blocks are kept
    /// for collection; where both fill the same block, host writes may not use what
    /// collection took from the reserve.
    #[inline(always)]
    pub(crate) fn can_program(&self, plane: Plane, stream: Stream) -> bool {
        let (number, shared) = match self.streams.sharing {
            Sharing::None => (stream.origin as usize, false),
            Sharing::All => (0, true),
            Sharing::Heat | Sharing::Handle => return self.can_program_apart(plane, stream),
        };
        self.has_room(plane, stream, number, shared)
    }

    #[inline(never)]
    fn can_program_apart(&self, plane: Plane, stream: Stream) -> bool {
        let (number, shared) = match self.streams.sharing {
            Sharing::Handle => self.streams.by_handle(stream),
            _ => (self.number_by_heat(plane, stream), stream.origin != Origin::Translation),
        };
        self.has_room(plane, stream, number, shared)
    }

    /// Whether `stream` has room in the open block with this number, or may open another.
    #[inline(always)]
    fn has_room(&self, plane: Plane, stream: Stream, number: usize, shared: bool) -> bool {
        let free = self.free[plane].len();
        let room = self.frontiers[self.place(plane, number)].next_page < self.shape.pages_per_block;
        match (stream.is_collected(), room) {
            (true, true) => true,
            (true, false) => free >= 1,
            (false, true) => !shared || free >= self.reserve,
            (false, false) => free > self.reserve,
        }
    }

    /// Whether `stream` may open a block in `plane` now, and so can program whether or not the one
    /// that it fills has room.
    #[inline(always)]
    pub(crate) fn may_open(&self, plane: Plane, stream: Stream) -> bool {
        let kept = if stream.is_collected() { 0 } else { self.reserve };
        self.free[plane].len() > kept
    }

    /// Whether the host's data, whichever they are, can be programmed in `plane` now.
    pub(crate) fn can_program_host(&self, plane: Plane) -> bool {
        (0..self.streams.groups()).all(|group| self.can_program(plane, Stream::host(group)))
    }

    /// Takes the next page for `stream`; returns its first PPN. Opens a block if needed.
    #[inline(always)]
    pub(crate) fn take_page(&mut self, plane: Plane, stream: Stream) -> Ppn {
        let place = self.place_of(plane, stream);
        if self.frontiers[place].next_page == self.shape.pages_per_block {
            self.open_next(plane, stream);
        }
        let frontier = &mut self.frontiers[place];
        let ppn = self.shape.first_ppn_of_block(frontier.block)
            + frontier.next_page * self.shape.units_per_page;
        frontier.next_page += 1;
        self.clock += 1;
        ppn
    }

    /// Closes the full block of a frontier and opens a free one.
    #[cold]
    #[inline(never)]
    fn open_next(&mut self, plane: Plane, stream: Stream) {
        let number = self.number_of(plane, stream);
        let place = self.place(plane, number);
        let full = self.frontiers[place].block;
        if full != Block::NONE {
            self.valid[full] &= !INELIGIBLE;
            if stream == Stream::TRANSLATION && self.streams.parts_translation() {
                self.of_tables[plane].push(full);
            }
            if let Some(stamp) = self.stamps.get_mut(full.index()) {
                *stamp = self.clock;
            }
        }
        let block = self.take_free_for(plane, stream).expect("a free block");
        self.frontiers[place] = Frontier { block, next_page: 0 };
        if let Some(superblocks) = &mut self.superblocks {
            superblocks.join(plane, number, block, full != Block::NONE);
        }
    }

    fn take_free_for(&mut self, plane: Plane, stream: Stream) -> Option<Block> {
        match self.dynamic || !self.levelling.is_empty() {
            false => self.free[plane].pop_front(),
            true => self.take_free_by_wear(plane, stream),
        }
    }

    /// Takes a free block of `plane`, if there is one.
    pub(crate) fn take_free(&mut self, plane: Plane) -> Option<Block> {
        self.take_free_for(plane, Stream::HOST)
    }

    /// No block may be collected: a restored drive says itself what each is.
    pub(crate) fn forbid_collection(&mut self) {
        self.valid.iter_mut().for_each(|valid| *valid |= INELIGIBLE);
    }

    /// A block that is not free is never collected by itself.
    pub(crate) fn forbid(&mut self, block: Block) {
        self.valid[block] |= INELIGIBLE;
    }

    /// The fewest valid units of a collectable block of `plane`.
    pub(crate) fn fewest_valid(&self, plane: Plane) -> u32 {
        u32::from(self.counts(plane).iter().copied().min().unwrap_or(INELIGIBLE))
    }

    /// Units that are moved, and blocks that are collected, to win so many of `plane`: those with the
    /// fewest valid units first.
    pub(crate) fn cost_of_winning(&self, plane: Plane, blocks: usize) -> (u64, u64) {
        let whole = self.shape.units_per_block;
        let full = self.counts(plane).iter().map(|&valid| u32::from(valid));
        let mut full: Vec<u32> = full.filter(|&valid| valid < whole).collect();
        full.sort_unstable();
        let (mut won, wanted) = (0, blocks as u64 * u64::from(whole));
        let (mut moved, mut collected) = (0, 0);
        for valid in full {
            if won >= wanted {
                break;
            }
            won += u64::from(whole - valid);
            (moved, collected) = (moved + u64::from(valid), collected + 1);
        }
        (moved, collected)
    }

    /// Full blocks of `plane` that hold nothing valid.
    pub(crate) fn void_blocks(&self, plane: Plane) -> usize {
        self.counts(plane).iter().filter(|&&valid| valid == 0).count()
    }

    /// Takes such a block to be erased.
    pub(crate) fn take_void(&mut self, plane: Plane) -> Option<Block> {
        let at = self.counts(plane).iter().position(|&valid| valid == 0)?;
        let block = self.shape.first_block_of_plane(plane) + at as u32;
        self.valid[block] |= INELIGIBLE;
        Some(block)
    }

    /// Whether some block of `plane` would free a page.
    pub(crate) fn is_anything_worth_collecting(&self, plane: Plane) -> bool {
        self.fewest_valid(plane) < self.valid_too_many()
    }

    /// The free block to open where wear is levelled.
    #[cold]
    fn take_free_by_wear(&mut self, plane: Plane, stream: Stream) -> Option<Block> {
        let free = &mut self.free[plane];
        let wear = |at: &usize| self.erases[free[*at]];
        let levels = self.levelling.get(plane.index()).is_some_and(|&levels| levels);
        // Nothing is worn less than a block that was never erased: the plane of a new drive has
        // thousands of them.
        let is_worn = free.front().is_some_and(|&block| self.erases[block] > 0);
        let at = if levels && stream.is_collected() {
            (0..free.len()).max_by_key(wear)
        } else if self.dynamic && is_worn {
            (0..free.len()).min_by_key(wear)
        } else {
            Some(0)
        };
        at.and_then(|at| free.remove(at))
    }

    /// The first blocks of `plane`, so many, never hold native data; returns them. Of every plane as
    /// many.
    pub(crate) fn set_apart(&mut self, plane: Plane, count: u32) -> VecDeque<Block> {
        self.apart = count;
        self.free[plane].drain(..count as usize).collect()
    }

    /// The least and the most erases of the blocks of `plane` that are not retired.
    pub(crate) fn wear_range(&self, plane: Plane) -> (u32, u32) {
        let all = self.shape.blocks_of_plane(plane).map(|block| (block, self.erases[block]));
        let native = all.skip(self.apart as usize);
        let used = native.filter(|(block, _)| !self.is_retired(*block));
        let used = used.map(|(_, erases)| erases);
        used.fold((u32::MAX, 0), |(least, most), erases| (least.min(erases), most.max(erases)))
    }

    /// If the wear of `plane` is about to differ by more than `threshold`: the least worn
    /// block with data, marked as the one to be collected.
    pub(crate) fn take_least_worn(&mut self, plane: Plane, threshold: u32) -> Option<Block> {
        let (least, most) = self.wear_range(plane);
        if least > most || most - least + 1 < threshold {
            return None;
        }
        let all = self.shape.blocks_of_plane(plane);
        let with_data = all.filter(|&block| self.is_collectable(block));
        let coldest = with_data.min_by_key(|&block| self.erases[block])?;
        if self.erases[coldest] + threshold > most + 1 {
            return None;
        }
        self.valid[coldest] |= INELIGIBLE;
        Some(coldest)
    }

    /// Counts the valid units of each plane from now on. Nothing has been written yet.
    pub(crate) fn count_planes(&mut self) {
        self.in_plane = vec![0; self.shape.planes as usize];
        self.follows = true;
    }

    /// Valid units of a plane, where they are counted.
    pub(crate) fn in_plane(&self, plane: Plane) -> u32 {
        self.in_plane[plane]
    }

    /// Whether an erase of `block` is one more than it endures, its erases `with_one_bit` apart.
    pub(crate) fn is_worn_out(&self, block: Block, with_one_bit: u32) -> bool {
        let endured = self.endurance.get(block.index());
        endured.is_some_and(|&cycles| self.erases[block].saturating_sub(with_one_bit) >= cycles)
    }

    fn is_retired(&self, block: Block) -> bool {
        self.gone.get(block.index()).is_some_and(|&gone| gone)
    }

    /// Whether `block` never holds native data.
    pub(crate) fn is_apart(&self, block: Block) -> bool {
        block.0 % self.shape.blocks_per_plane < self.apart
    }

    /// Blocks of `plane` that are retired, of those that hold native data.
    pub(crate) fn retired_of(&self, plane: Plane) -> u32 {
        let of_plane =
            |&&block: &&Block| self.shape.plane_of_block(block) == plane && !self.is_apart(block);
        self.retired.iter().filter(of_plane).count() as u32
    }

    /// Takes the next page for an address of `namespace` that is read without having been
    /// written, if there is one. As in MQSim, each namespace fills blocks of its own.
    pub(crate) fn take_page_for_read(&mut self, plane: Plane, namespace: usize) -> Option<Ppn> {
        let planes = self.shape.planes as usize;
        let at = namespace.checked_sub(1).map(|before| before * planes + plane.index());
        if let Some(at) = at {
            if self.read_frontiers.len() <= at {
                let closed = Frontier { block: Block::NONE, next_page: self.shape.pages_per_block };
                self.read_frontiers.resize((at / planes + 1) * planes, closed);
            }
            self.swap_read_frontier(plane, at);
        }
        let can = self.can_program(plane, Stream::HOST);
        let ppn = can.then(|| self.take_page(plane, Stream::HOST));
        if let Some(at) = at {
            self.swap_read_frontier(plane, at);
        }
        ppn
    }

    fn swap_read_frontier(&mut self, plane: Plane, at: usize) {
        let place = self.place_of(plane, Stream::HOST);
        let host = &mut self.frontiers[place];
        std::mem::swap(host, &mut self.read_frontiers[at]);
    }

    fn open_of(&self, plane: Plane) -> &[Frontier] {
        &self.frontiers[self.place(plane, 0)..][..self.streams.open_blocks]
    }

    /// Every frontier of a plane.
    pub(crate) fn frontiers_of(&self, plane: Plane) -> impl Iterator<Item = Frontier> + '_ {
        let others =
            self.read_frontiers.iter().skip(plane.index()).step_by(self.shape.planes as usize);
        self.open_of(plane).iter().chain(others).copied()
    }

    #[inline]
    pub(crate) fn valid(&self, block: Block) -> u32 {
        u32::from(self.valid[block] & !INELIGIBLE)
    }

    /// Valid units of all blocks.
    pub(crate) fn valid_units(&self) -> u64 {
        self.valid.iter().map(|&valid| u64::from(valid & !INELIGIBLE)).sum()
    }

    /// Asks for how often a block was erased, which will soon be looked at.
    #[inline]
    pub(crate) fn prefetch_erases(&self, block: Block) {
        prefetch(&self.erases[block]);
    }

    /// Asks for a block's count of valid units, which will soon change.
    #[inline]
    pub(crate) fn prefetch_valid(&self, block: Block) {
        prefetch(&self.valid[block]);
    }

    #[inline]
    pub(crate) fn add_valid(&mut self, block: Block, units: u32) {
        self.valid[block] += units as u16;
        if self.follows {
            self.follow(block, i64::from(units));
        }
    }

    #[inline]
    pub(crate) fn remove_valid(&mut self, block: Block, units: u32) {
        debug_assert!(self.valid(block) >= units, "block {block} has no valid unit to lose");
        self.valid[block] -= units as u16;
        if self.follows {
            self.follow(block, -i64::from(units));
        }
    }

    /// Keeps what only some policies ask for: a plane has won or lost valid units.
    #[cold]
    #[inline(never)]
    fn follow(&mut self, block: Block, units: i64) {
        if let Some(count) = self.in_plane.get_mut(self.shape.plane_of_block(block).index()) {
            *count = (i64::from(*count) + units) as u32;
        }
        if units < 0 && self.policy.follows_changes() {
            self.stamps[block] = self.clock;
        }
    }

    /// A block was written before counting began: it holds `valid` units, and is open or
    /// may be collected.
    pub(crate) fn set_written(&mut self, block: Block, valid: u32, open: bool) {
        if !self.in_plane.is_empty() {
            let before = self.valid(block);
            let plane = self.shape.plane_of_block(block);
            self.in_plane[plane] = self.in_plane[plane] + valid - before;
        }
        self.valid[block] = valid as u16 | if open { INELIGIBLE } else { 0 };
    }

    /// Dates a block: it was filled, or last changed, `pages` programmed pages ago.
    pub(crate) fn set_age(&mut self, block: Block, pages: u64) {
        if let Some(stamp) = self.stamps.get_mut(block.index()) {
            *stamp = self.clock - pages.min(CLOCK_START);
        }
    }

    /// Makes a block the one that `stream` fills. One that is open already is closed.
    pub(crate) fn open(&mut self, plane: Plane, stream: Stream, frontier: Frontier) {
        let number = self.number_of(plane, stream);
        let place = self.place(plane, number);
        if let Some(superblocks) = &mut self.superblocks
            && self.frontiers[place].block != frontier.block
        {
            superblocks.join(plane, number, frontier.block, false);
        }
        let before = std::mem::replace(&mut self.frontiers[place], frontier);
        if before.block != Block::NONE {
            self.valid[before.block] &= !INELIGIBLE;
        }
    }

    pub(crate) fn is_collectable(&self, block: Block) -> bool {
        self.valid[block] & INELIGIBLE == 0
    }

    /// Fewest units of a block that are not worth collecting: without a program's worth of
    /// garbage, what is moved may fill as many pages as are won, and collection would go
    /// round for ever.
    fn valid_too_many(&self) -> u32 {
        let program = self.shape.units_per_page * self.shape.pages_per_program;
        self.shape.units_per_block - program + 1
    }

    /// Chooses the block to collect in `plane` and marks it; `None` if no block would free
    /// a page.
    pub(crate) fn take_victim(
        &mut self,
        plane: Plane,
        policies: &mut impl PolicySet,
    ) -> Option<Block> {
        let first = self.shape.first_block_of_plane(plane);
        if let Some(block) = self.spent_table_block(plane) {
            self.valid[block] |= INELIGIBLE;
            return Some(block);
        }
        let best = self.choose_victim(plane, policies)?;
        let block = first + best;
        if u32::from(self.valid[block]) >= self.valid_too_many() {
            // Some take what comes, once some other block is worth collecting.
            if !self.takes_what_comes || self.fewest_valid(plane) >= self.valid_too_many() {
                return None;
            }
        }
        if !self.is_worth_it(plane, self.valid(block), self.shape.units_per_block) {
            return None;
        }
        self.cursor[plane] = (best + 1) % self.shape.blocks_per_plane;
        self.valid[block] |= INELIGIBLE;
        Some(block)
    }

    /// What the policy would collect in `plane`, counted from its first block.
    #[inline]
    fn choose_victim<P: PolicySet>(&mut self, plane: Plane, policies: &mut P) -> Option<u32> {
        let is_urgent = P::Victims::OWN && self.is_urgent(plane);
        let mut candidates = self.candidates_of(plane);
        if !P::Victims::OWN {
            return policies.victims().choose(&mut candidates).unwrap_or_default();
        }
        let least = candidates.least_valid();
        if policies.error().is_some() {
            return Some(least);
        }
        match policies.victims().choose(&mut candidates) {
            Ok(Some(block)) if candidates.get(block).is_some() => return Some(block),
            // A drive of which nothing may be collected asks as well.
            Ok(Some(block)) if candidates.pays(candidates.fewest()) => {
                policies.fail(Wrong::Victim { plane: plane.0, block });
            }
            Ok(Some(_)) => {}
            // What hosts write would wait for ever.
            Ok(None) if is_urgent => {}
            Ok(None) => return None,
            Err(problem) => policies.fail(Wrong::Failed(problem)),
        }
        Some(least)
    }

    /// The blocks of a plane as policies see them.
    #[inline]
    fn candidates_of(&mut self, plane: Plane) -> Candidates<'_> {
        let too_many = self.valid_too_many();
        let blocks = self.shape.blocks_per_plane as usize;
        let first = self.shape.first_block_of_plane(plane).index();
        Candidates {
            counts: &self.valid[first..][..blocks],
            erases: &self.erases[first..][..blocks],
            stamps: self.stamps.get(first..first + blocks).unwrap_or_default(),
            clock: self.clock,
            cursor: self.cursor[plane],
            units_per_block: self.shape.units_per_block,
            units_per_page: self.shape.units_per_page,
            too_many,
            choice: self.policy.choice,
            random: &mut self.random,
        }
    }

    /// Notes of blocks what a policy asks for. Nothing has been written yet.
    pub(crate) fn date(&mut self, dated: Dated) {
        self.policy.stamps = match dated {
            Dated::Never => Stamps::None,
            Dated::Filled => Stamps::Filled,
            Dated::Changed => Stamps::Changed,
        };
        let stamped = if self.policy.stamps_blocks() { self.valid.len() } else { 0 };
        self.stamps = vec![0; stamped];
        self.follows = self.policy.follows_changes() || !self.in_plane.is_empty();
        // An own policy says itself what it takes.
        self.takes_what_comes = true;
    }

    /// Whether enough is won of what holds so many valid ones of its `units`.
    fn is_worth_it(&self, plane: Plane, valid: u32, units: u32) -> bool {
        let least = u64::from(self.least_invalid) * u64::from(units);
        u64::from(units - valid) * u64::from(self.shape.units_per_block) >= least
            || self.is_urgent(plane)
    }

    /// A block of translation pages of which hardly anything is valid, if there is one: it goes
    /// first, whatever the policy. There are few such blocks, all their pages are rewritten soon,
    /// and a controller knows where those are; policies that draw blocks would leave them full of
    /// garbage for long.
    fn spent_table_block(&self, plane: Plane) -> Option<Block> {
        let most = self.shape.units_per_block / SPENT_TABLE_BLOCK;
        let of_tables = self.of_tables[plane].iter().copied();
        let least = of_tables.min_by_key(|&block| self.valid[block])?;
        (u32::from(self.valid[least]) <= most).then_some(least)
    }

    /// Valid units of the blocks of a plane.
    fn counts(&self, plane: Plane) -> &[u16] {
        let blocks = self.shape.blocks_per_plane as usize;
        &self.valid[plane.index() * blocks..][..blocks]
    }

    fn draw(&mut self, n: u32) -> u32 {
        use rand::Rng;
        ((u64::from(self.random.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// Gives an erased block back.
    pub(crate) fn put_free(&mut self, block: Block) {
        debug_assert_eq!(self.valid(block), 0, "block {block} holds valid units");
        self.valid[block] = INELIGIBLE;
        self.leave_superblock(block);
        self.leave_tables(block);
        self.erases[block] += 1;
        self.free[self.shape.plane_of_block(block)].push_back(block);
    }

    /// Every block has been erased so often.
    pub(crate) fn forget_erases(&mut self, erases: u32) {
        self.erases.fill(erases);
    }

    fn leave_superblock(&mut self, block: Block) {
        if let Some(superblocks) = &mut self.superblocks {
            superblocks.leave(self.shape.plane_of_block(block), block);
        }
    }

    /// Blocks of `plane` that were filled with translation pages alone, for the invariants' check.
    pub(crate) fn of_tables(&self, plane: Plane) -> &[Block] {
        &self.of_tables[plane]
    }

    /// A block does not hold translation pages any more.
    fn leave_tables(&mut self, block: Block) {
        self.of_tables[self.shape.plane_of_block(block)].retain(|&it| it != block);
    }

    /// Takes a block out of use for ever.
    pub(crate) fn retire(&mut self, block: Block) {
        self.valid[block] = INELIGIBLE;
        self.leave_superblock(block);
        self.leave_tables(block);
        self.retired.push(block);
        self.gone.resize(self.valid.len(), false);
        self.gone[block] = true;
    }

    /// A collection was broken off: the block may be collected again.
    pub(crate) fn put_back(&mut self, block: Block) {
        self.valid[block] &= !INELIGIBLE;
    }

    pub(crate) fn is_free(&self, block: Block) -> bool {
        self.free[self.shape.plane_of_block(block)].contains(&block)
    }

    pub(crate) fn free_blocks(&self, plane: Plane) -> usize {
        self.free[plane].len()
    }

    /// Whether collection in `plane` goes before host I/O.
    #[inline]
    pub(crate) fn is_urgent(&self, plane: Plane) -> bool {
        self.free[plane].len() < self.urgent
    }
}
