//! Superblocks: the blocks, one of each plane, that the planes have filled in the same turn.
//! They are collected together.
//!
//! A plane takes whichever of its blocks is free when its turn comes, so a retired block leaves
//! no gap: the plane's next one takes its place. Blocks of hosts, of collected units and of
//! translation pages have turns of their own. A plane that is far behind the others passes over
//! turns, and superblocks of those turns do without it.

use super::Frontier;
use super::streams::OPEN;
use super::{Blocks, INELIGIBLE};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::kernel::pool::NONE;
use crate::number::{Block, Plane, Ppn};
use crate::victim::{Choice, Few, worth};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Turns that a plane may be behind. An estimate: pages that are spread evenly over the planes
/// keep them within one or two.
const TURNS_BEHIND: usize = 8;

/// A superblock: its block in each plane, or `NONE`. A reclaim unit of several is one, with as many
/// blocks of each plane, one after the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Superblock {
    blocks: Vec<Block>,
    /// Some planes' turns have not come yet.
    is_open: bool,
    /// Which frontier has filled it.
    frontier: u16,
}

/// How many superblocks of a frontier have been opened, closed for the next, and erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitCounts {
    pub(super) opened: u64,
    closed: u64,
    pub(super) erased: u64,
}

/// Which blocks are superblocks together.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Superblocks {
    /// The superblock that each block is in, or `NONE`.
    of_block: Vec<u32>,
    all: Vec<Superblock>,
    /// Indices in `all` that stand for none.
    unused: Vec<u32>,
    /// For each frontier: the superblocks that some plane has still to join, the oldest first,
    /// which is that of turn `first`; and each plane's next turn.
    open: Vec<VecDeque<u32>>,
    first: Vec<u32>,
    turns: Vec<Vec<u32>>,
    /// Blocks of each plane in one.
    span: u32,
    /// By frontier.
    counts: Vec<UnitCounts>,
}

/// A superblock that may be collected.
#[derive(Clone)]
struct Candidate {
    superblock: u32,
    valid: u32,
    units: u32,
    stamp: u64,
}

impl Candidate {
    fn share(&self) -> f64 {
        f64::from(self.valid) / f64::from(self.units)
    }
}

impl Superblocks {
    pub(super) fn new(planes: u32, blocks: u32, frontiers: usize, span: u32) -> Superblocks {
        Superblocks {
            of_block: vec![NONE; blocks as usize],
            all: vec![],
            unused: vec![],
            open: vec![VecDeque::new(); frontiers],
            first: vec![0; frontiers],
            turns: vec![vec![0; frontiers]; planes as usize],
            span,
            counts: vec![UnitCounts::default(); frontiers],
        }
    }

    /// Where the `turn`-th block of `plane` stands among those of its superblock.
    fn slot(&self, plane: Plane, turn: u32) -> usize {
        plane.index() * self.span as usize + (turn % self.span) as usize
    }

    fn members(&self) -> usize {
        self.turns.len() * self.span as usize
    }

    /// `block` is opened for frontier `index` of `plane`, after another of its blocks or not.
    pub(super) fn join(&mut self, plane: Plane, index: usize, block: Block, follows: bool) {
        let first = self.first[index];
        let turn = self.turns[plane][index];
        self.turns[plane][index] = turn + 1;
        let at = (turn / self.span - first) as usize;
        if at == self.open[index].len() {
            let blocks = vec![Block::NONE; self.members()];
            let superblock = Superblock { blocks, is_open: true, frontier: index as u16 };
            let id = match self.unused.pop() {
                Some(id) => id,
                None => {
                    self.all.push(Superblock::default());
                    self.all.len() as u32 - 1
                }
            };
            self.all[id as usize] = superblock;
            self.open[index].push_back(id);
            self.counts[index].opened += 1;
            self.counts[index].closed += u64::from(follows);
        }
        let (id, slot) = (self.open[index][at], self.slot(plane, turn));
        self.all[id as usize].blocks[slot] = block;
        self.of_block[block] = id;
        while !self.open[index].is_empty() {
            let end = (self.first[index] + 1) * self.span;
            let is_late = self.open[index].len() > TURNS_BEHIND;
            if !is_late && !self.turns.iter().all(|turns| turns[index] >= end) {
                break;
            }
            self.close_first(index);
        }
    }

    /// No block joins the first open superblock of a frontier any more.
    fn close_first(&mut self, index: usize) {
        if let Some(id) = self.open[index].pop_front() {
            self.first[index] += 1;
            // Planes that are behind pass over what is left of its turn.
            let next = self.first[index] * self.span;
            self.turns.iter_mut().for_each(|turns| turns[index] = turns[index].max(next));
            self.all[id as usize].is_open = false;
            self.drop_if_empty(id);
        }
    }

    /// What a frontier fills next is in a superblock of its own.
    pub(super) fn begin_next(&mut self, index: usize) {
        while !self.open[index].is_empty() {
            self.close_first(index);
        }
        // All planes begin together.
        let next = self.first[index].max(
            self.turns.iter().map(|turns| turns[index].div_ceil(self.span)).max().unwrap_or(0),
        );
        self.first[index] = next;
        self.turns.iter_mut().for_each(|turns| turns[index] = next * self.span);
    }

    /// Blocks that the planes have opened for a frontier, but for those of whole superblocks.
    pub(super) fn blocks_opened(&self, index: usize) -> u64 {
        self.turns.iter().map(|turns| u64::from(turns[index])).sum()
    }

    pub(super) fn span(&self) -> u32 {
        self.span
    }

    /// `block` of `plane` is free, or retired.
    pub(super) fn leave(&mut self, plane: Plane, block: Block) {
        let id = std::mem::replace(&mut self.of_block[block], NONE);
        if id != NONE {
            let span = self.span as usize;
            let of_plane = &mut self.all[id as usize].blocks[plane.index() * span..][..span];
            of_plane.iter_mut().filter(|it| **it == block).for_each(|it| *it = Block::NONE);
            self.drop_if_empty(id);
        }
    }

    fn drop_if_empty(&mut self, id: u32) {
        let superblock = &mut self.all[id as usize];
        if !superblock.is_open && superblock.blocks.iter().all(|&block| block == Block::NONE) {
            superblock.blocks = vec![];
            self.counts[usize::from(superblock.frontier)].erased += 1;
            self.unused.push(id);
        }
    }

    /// Puts blocks that were written before any turn into superblocks: those of all planes with
    /// the same `number`.
    pub(super) fn put_together(&mut self, numbered: impl Iterator<Item = (u32, Plane, Block)>) {
        let before = self.all.len() as u32;
        for (number, plane, block) in numbered {
            let id = before + number / self.span;
            while self.all.len() <= id as usize {
                let blocks = vec![Block::NONE; self.members()];
                self.all.push(Superblock { blocks, is_open: false, frontier: 0 });
            }
            let slot = self.slot(plane, number);
            self.all[id as usize].blocks[slot] = block;
            self.of_block[block] = id;
        }
        (before..self.all.len() as u32).for_each(|id| self.drop_if_empty(id));
    }

    /// Says what is wrong, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (block, &id) in self.of_block.iter().enumerate().filter(|(_, id)| **id != NONE) {
            let superblock = &self.all[id as usize];
            if superblock.blocks.iter().filter(|&&it| it.index() == block).count() != 1 {
                return Err(format!("block {block} is not once in its superblock {id}"));
            }
        }
        let members =
            self.all.iter().flat_map(|it| &it.blocks).filter(|&&it| it != Block::NONE).count();
        let in_some = self.of_block.iter().filter(|&&id| id != NONE).count();
        if members != in_some {
            return Err(format!("{members} blocks in superblocks, {in_some} know theirs"));
        }
        Ok(())
    }

    /// Adds which superblock each block is in, and whose turn it is.
    pub(crate) fn hash(&self, hash: &mut StateHash) {
        self.of_block.iter().for_each(|&id| hash.add(id));
        for (index, open) in self.open.iter().enumerate() {
            open.iter().for_each(|&id| hash.add(id));
            self.turns.iter().for_each(|turns| hash.add(self.behind(turns, index)));
        }
    }

    /// The next turn of a plane with these `turns`, counted from the first that is open.
    fn behind(&self, turns: &[u32], index: usize) -> u32 {
        turns[index] - self.first[index] * self.span
    }

    /// Whether it matters which frontier has filled one.
    fn tells_apart(&self) -> bool {
        self.open.len() > OPEN || self.span > 1
    }

    pub(super) fn save(&self, out: &mut Writer<'_>) {
        out.numbers(self.of_block.iter().map(|id| id.wrapping_add(1)));
        out.numbers(self.unused.iter().copied());
        out.number(self.all.len() as u64);
        for index in 0..self.open.len() {
            out.numbers(self.open[index].iter().copied());
            // Only differences matter.
            out.numbers(self.turns.iter().map(|turns| self.behind(turns, index)));
        }
        if self.tells_apart() {
            out.numbers(self.all.iter().map(|it| it.frontier.into()));
            // The place of each block among those of its plane.
            let slots = |it: &Superblock| -> Vec<u32> {
                it.blocks.iter().map(|block| block.0.wrapping_add(1)).collect()
            };
            for superblock in &self.all {
                out.numbers(slots(superblock).into_iter());
            }
        }
    }

    /// `in_use` says of each block whether it is neither free nor retired: those, and no others,
    /// are in superblocks.
    pub(super) fn restore(
        &mut self,
        blocks_per_plane: u32,
        in_use: &[bool],
        input: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        let damaged = || StateError::Damaged("superblocks".into());
        let blocks = self.of_block.len();
        let most = blocks + self.open.len() * (TURNS_BEHIND + 1);
        let ids = input.all("superblocks", blocks, most as u32 + 1)?;
        self.of_block = ids.into_iter().map(|id| id.wrapping_sub(1)).collect();
        self.unused = input.numbers("superblocks", most, most as u32)?;
        let count = usize::try_from(input.number()?).ok().filter(|count| *count <= most);
        let count = count.ok_or_else(damaged)?;
        let (planes, span, members) = (self.turns.len(), self.span as usize, self.members());
        self.all = vec![Superblock::default(); count];
        for (block, (&id, in_use)) in self.of_block.iter().zip(in_use).enumerate() {
            if (id != NONE) != *in_use {
                return Err(damaged());
            }
            if id == NONE {
                continue;
            }
            let superblock = self.all.get_mut(id as usize).ok_or_else(damaged)?;
            // Members have room where there are any, so that numbers alone take none.
            superblock.blocks.resize(members, Block::NONE);
            let of_plane =
                &mut superblock.blocks[block / blocks_per_plane as usize * span..][..span];
            let place = of_plane.iter_mut().find(|place| **place == Block::NONE);
            *place.ok_or_else(damaged)? = Block(block as u32);
        }
        self.first.fill(0);
        for index in 0..self.open.len() {
            let open = input.numbers("open superblocks", TURNS_BEHIND, count as u32)?;
            let turns = input.all("turns", planes, open.len() as u32 * self.span + 1)?;
            for (turn, &id) in (0..).zip(&open) {
                let superblock = &mut self.all[id as usize];
                superblock.blocks.resize(members, Block::NONE);
                let begun = |next: u32| next > turn * self.span;
                let early = |(of_plane, next): (&[Block], &u32)| {
                    !begun(*next) && of_plane.iter().any(|&block| block != Block::NONE)
                };
                if superblock.is_open || superblock.blocks.chunks(span).zip(&turns).any(early) {
                    return Err(damaged());
                }
                superblock.is_open = true;
            }
            for (of_plane, turn) in self.turns.iter_mut().zip(turns) {
                of_plane[index] = turn;
            }
            self.open[index] = VecDeque::from(open);
        }
        if self.tells_apart() {
            self.restore_places(input)?;
        }
        let is_none = |id: &u32| {
            self.all.get(*id as usize).is_some_and(|superblock| {
                !superblock.is_open && superblock.blocks.iter().all(|&block| block == Block::NONE)
            })
        };
        let mut unused = self.unused.clone();
        unused.sort_unstable();
        unused.dedup();
        if unused.len() != self.unused.len() || !unused.iter().all(is_none) {
            return Err(damaged());
        }
        Ok(())
    }
}

impl Superblocks {
    /// Takes which frontier has filled each superblock, and where in it each block is.
    fn restore_places(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let damaged = || StateError::Damaged("places in superblocks".into());
        let frontiers = input.all("frontiers", self.all.len(), self.open.len() as u32)?;
        let blocks = self.of_block.len() as u32;
        for (superblock, frontier) in self.all.iter_mut().zip(frontiers) {
            superblock.frontier = frontier as u16;
            let places =
                input.all("places in a superblock", superblock.blocks.len(), blocks + 1)?;
            let places: Vec<Block> =
                places.into_iter().map(|place| Block(place.wrapping_sub(1))).collect();
            let span = self.span as usize;
            for (here, there) in superblock.blocks.chunks_mut(span).zip(places.chunks(span)) {
                let sorted = |of: &[Block]| {
                    let mut of = of.to_vec();
                    of.sort_unstable();
                    of
                };
                if sorted(here) != sorted(there) {
                    return Err(damaged());
                }
                here.copy_from_slice(there);
            }
        }
        Ok(())
    }
}

impl Blocks {
    /// Chooses a superblock with a block in `plane` and marks its blocks in the planes that are
    /// `usable`; returns them, or `None` if none of these superblocks would free a page. One
    /// whose blocks have all been filled goes before one that planes still fill, and if there is one
    /// with the data of `handle` it is among these.
    pub(crate) fn take_superblock(
        &mut self,
        plane: Plane,
        usable: &[bool],
        handle: Option<u8>,
    ) -> Option<Vec<Block>> {
        let mut complete = self.candidates(plane, usable, true);
        let of_handle = handle.map(|handle| self.units_of(handle, &complete));
        if let Some(some) = of_handle.filter(|some| !some.is_empty()) {
            complete = some;
        }
        let chosen = match self.choose_superblock(&complete) {
            None => {
                let all = self.candidates(plane, usable, false);
                self.choose_superblock(&all)?
            }
            chosen => chosen?,
        };
        let superblocks = self.superblocks.as_ref()?;
        let blocks: Vec<Block> = self.eligible(superblocks, chosen, usable).collect();
        let valid = blocks.iter().map(|&block| self.valid(block)).sum();
        if !self.is_worth_it(plane, valid, blocks.len() as u32 * self.shape.units_per_block) {
            return None;
        }
        for &block in &blocks {
            self.valid[block] |= INELIGIBLE;
        }
        self.cursor[plane] = (blocks[0].0 + 1) % self.shape.blocks_per_plane;
        Some(blocks)
    }

    /// Of `candidates`, those that hold only data of a handle.
    fn units_of(&self, handle: u8, candidates: &[Candidate]) -> Vec<Candidate> {
        let Some(superblocks) = &self.superblocks else { return vec![] };
        let is_of = |it: &&Candidate| {
            let frontier = superblocks.all[it.superblock as usize].frontier;
            self.streams.is_of_handle(frontier.into(), handle)
        };
        candidates.iter().filter(is_of).cloned().collect()
    }

    /// Mapping units that may still be written to the reclaim unit that a handle fills, and those of
    /// a whole one. Planes are within a page of one another where writes are striped; where they are
    /// not, what they have filled counts together.
    pub(crate) fn reclaim_unit_left(&self, handle: u8) -> Option<(u64, u64)> {
        let superblocks = self.superblocks.as_ref()?;
        let pages_per_block = u64::from(self.shape.pages_per_block);
        let number = self.streams.number_of_host(handle);
        let left =
            |plane: Plane| pages_per_block - u64::from(self.open_of(plane)[number].next_page);
        let opened = superblocks.blocks_opened(number) * pages_per_block;
        let unit = u64::from(superblocks.span()) * u64::from(self.shape.planes) * pages_per_block;
        let units_per_page = u64::from(self.shape.units_per_page);
        // Of a state that was kept, blocks of whole superblocks are not among those opened.
        let left = self.shape.all_planes().map(left).sum::<u64>();
        let empty = (left + unit - opened % unit) % unit;
        let left = if empty == 0 { unit } else { empty };
        Some((left * units_per_page, unit * units_per_page))
    }

    /// The handle's next write begins a reclaim unit; what is left of the present one stays empty.
    /// Returns the first places that stay empty, and how many.
    pub(crate) fn begin_reclaim_unit(&mut self, handle: u8) -> Vec<(Ppn, u32)> {
        let number = self.streams.number_of_host(handle);
        let closed = Frontier { block: Block::NONE, next_page: self.shape.pages_per_block };
        let mut empty = vec![];
        for plane in self.shape.all_planes() {
            let place = self.place(plane, number);
            let Frontier { block, next_page } = self.frontiers[place];
            if block == Block::NONE {
                continue;
            }
            self.frontiers[place] = closed;
            self.valid[block] &= !INELIGIBLE;
            if let Some(stamp) = self.stamps.get_mut(block.index()) {
                *stamp = self.clock;
            }
            let units = self.shape.units_per_page;
            let first = self.shape.first_ppn_of_block(block) + next_page * units;
            empty.push((first, (self.shape.pages_per_block - next_page) * units));
        }
        if let Some(superblocks) = &mut self.superblocks {
            superblocks.begin_next(number);
            superblocks.counts[number].closed += u64::from(!empty.is_empty());
        }
        empty
    }

    /// How many reclaim units hosts have opened for the data of a handle, and how many they have
    /// filled or closed.
    pub(crate) fn reclaim_units(&self, handle: u8) -> (u64, u64) {
        let Some(superblocks) = &self.superblocks else { return (0, 0) };
        let number = self.streams.number_of_host(handle);
        let has_one = |plane| self.open_of(plane)[number].block != Block::NONE;
        let is_full = self.reclaim_unit_left(handle).is_some_and(|(left, whole)| left == whole)
            && self.shape.all_planes().any(has_one);
        let counts = superblocks.counts[number];
        (counts.opened, counts.closed + u64::from(is_full))
    }

    /// How many reclaim units have been erased.
    pub(crate) fn units_erased(&self) -> u64 {
        let counts = self.superblocks.iter().flat_map(|superblocks| &superblocks.counts);
        counts.map(|of| of.erased).sum()
    }

    /// The blocks of a superblock that may be collected.
    fn eligible<'a>(
        &'a self,
        superblocks: &'a Superblocks,
        id: u32,
        usable: &'a [bool],
    ) -> impl Iterator<Item = Block> + 'a {
        let span = superblocks.span as usize;
        let usable = usable.iter().flat_map(move |usable| std::iter::repeat_n(usable, span));
        let blocks = superblocks.all[id as usize].blocks.iter().zip(usable);
        let there = blocks.filter(|(block, usable)| **usable && **block != Block::NONE);
        there.map(|(block, _)| *block).filter(|&block| self.is_collectable(block))
    }

    /// The superblocks with a block in `plane` of which something can be won, those that are
    /// `complete` or all.
    fn candidates(&self, plane: Plane, usable: &[bool], complete: bool) -> Vec<Candidate> {
        let Some(superblocks) = &self.superblocks else { return vec![] };
        let count = self.shape.blocks_per_plane;
        let first = self.shape.first_block_of_plane(plane);
        let units = self.shape.units_per_block;
        let program = self.shape.units_per_page * self.shape.pages_per_program;
        let mut all = vec![];
        // From the cursor on, so that ties take turns.
        for at in 0..count {
            let block = first + (self.cursor[plane] + at) % count;
            let id = superblocks.of_block[block];
            if id == NONE || !self.is_collectable(block) {
                continue;
            }
            let superblock = &superblocks.all[id as usize];
            let waits = |(block, usable): (&Block, &bool)| {
                *usable && *block != Block::NONE && !self.is_collectable(*block)
            };
            let span = superblocks.span as usize;
            let members = superblock.blocks.chunks(span).zip(usable);
            let mut members =
                members.flat_map(|(of, usable)| of.iter().map(move |it| (it, usable)));
            if complete && (superblock.is_open || members.any(waits)) {
                continue;
            }
            let newest = self.policy.follows_changes();
            let mut candidate = Candidate {
                superblock: id,
                valid: 0,
                units: 0,
                stamp: if newest { 0 } else { u64::MAX },
            };
            let mut won = 0;
            for block in self.eligible(superblocks, id, usable) {
                candidate.valid += self.valid(block);
                candidate.units += units;
                won += (units - self.valid(block)) / program;
                if let Some(&stamp) = self.stamps.get(block.index()) {
                    candidate.stamp = match newest {
                        true => candidate.stamp.max(stamp),
                        false => candidate.stamp.min(stamp),
                    };
                }
            }
            if won > 0 {
                all.push(candidate);
            }
        }
        all
    }

    /// The one of `candidates` that the policy takes.
    fn choose_superblock(&mut self, candidates: &[Candidate]) -> Option<u32> {
        fn fewest<'a>(of: impl Iterator<Item = &'a Candidate>) -> Option<&'a Candidate> {
            of.min_by(|a, b| a.share().total_cmp(&b.share()))
        }
        let least = fewest(candidates.iter())?;
        let drawn = |blocks: &mut Blocks, of: &[&'_ Candidate]| match of.len() {
            0 => least.superblock,
            count => of[blocks.draw(count as u32) as usize].superblock,
        };
        Some(match self.policy.choice {
            Choice::Fewest => least.superblock,
            Choice::FewestDrawn(d) => {
                let drawn: Vec<usize> =
                    (0..d).map(|_| self.draw(candidates.len() as u32) as usize).collect();
                fewest(drawn.iter().map(|&at| &candidates[at]))?.superblock
            }
            Choice::Drawn(few) => {
                let invalid = match few {
                    Few::Invalid { pages } => pages.saturating_mul(self.shape.units_per_page),
                    Few::Any | Few::BelowMean => 0,
                };
                let mean = candidates.iter().map(Candidate::share).sum::<f64>();
                let mean = mean / candidates.len() as f64;
                let blocks = |it: &Candidate| it.units / self.shape.units_per_block;
                let fits = |it: &&Candidate| match few {
                    Few::Any => true,
                    Few::Invalid { .. } => {
                        it.units - it.valid >= invalid.saturating_mul(blocks(it))
                    }
                    Few::BelowMean => it.share() < mean,
                };
                drawn(self, &candidates.iter().filter(fits).collect::<Vec<_>>())
            }
            Choice::Oldest => candidates.iter().min_by_key(|it| it.stamp)?.superblock,
            Choice::MostWorth => {
                let clock = self.clock;
                let worth = |it: &Candidate| worth(it.valid, it.units, clock - it.stamp.min(clock));
                candidates.iter().max_by(|a, b| worth(a).total_cmp(&worth(b)))?.superblock
            }
        })
    }

    /// Puts the full blocks of preconditioned planes into superblocks, each plane's in the
    /// order given: the first of all planes together, and so on.
    pub(crate) fn put_together(&mut self, planes: &[Vec<Block>]) {
        if let Some(superblocks) = &mut self.superblocks {
            let numbered = (0..).map(Plane).zip(planes).flat_map(|(plane, blocks)| {
                (0..).zip(blocks).map(move |(number, &block)| (number, plane, block))
            });
            superblocks.put_together(numbered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_a_plane_passes_over_count_before_a_state_is_saved_as_after() {
        let new = || Superblocks::new(2, 64, 1, 1);
        let mut saved = new();
        // The other plane has one block, and is left behind.
        saved.join(Plane(1), 0, Block(32), false);
        (0..TURNS_BEHIND as u32 + 2).for_each(|turn| saved.join(Plane(0), 0, Block(turn), true));
        let mut bytes = vec![];
        saved.save(&mut Writer { sink: &mut |piece| bytes.extend_from_slice(piece) });
        let mut rest = &bytes[..];
        let mut source = |wanted: &mut [u8]| {
            let (piece, after) = rest.split_at(wanted.len());
            wanted.copy_from_slice(piece);
            rest = after;
            true
        };
        let mut restored = new();
        let in_use: Vec<bool> = saved.of_block.iter().map(|&id| id != NONE).collect();
        restored.restore(32, &in_use, &mut Reader { source: &mut source }).unwrap();
        // But for whole superblocks.
        assert_eq!(restored.blocks_opened(0) % 2, saved.blocks_opened(0) % 2);
        // The plane joins the oldest that is open.
        for superblocks in [&mut saved, &mut restored] {
            let oldest = superblocks.open[0][0];
            superblocks.join(Plane(1), 0, Block(33), true);
            assert_eq!(superblocks.all[oldest as usize].blocks[1], Block(33));
        }
    }
}
