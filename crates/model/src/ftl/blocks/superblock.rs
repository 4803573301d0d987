//! Superblocks: the blocks, one of each plane, that the planes have filled in the same turn.
//! They are collected together.
//!
//! A plane takes whichever of its blocks is free when its turn comes, so a retired block leaves
//! no gap: the plane's next one takes its place. Blocks of hosts, of collected units and of
//! translation pages have turns of their own. A plane that is far behind the others passes over
//! turns, and superblocks of those turns do without it.

use super::{Blocks, INELIGIBLE, STREAMS};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::kernel::pool::NONE;
use crate::number::{Block, Plane};
use crate::victim::{Choice, Few, worth};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Turns that a plane may be behind. An estimate: pages that are spread evenly over the planes
/// keep them within one or two.
const TURNS_BEHIND: usize = 8;

/// A superblock: its block in each plane, or `NONE`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Superblock {
    blocks: Vec<Block>,
    /// Some planes' turns have not come yet.
    is_open: bool,
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
    open: [VecDeque<u32>; STREAMS],
    first: [u32; STREAMS],
    turns: Vec<[u32; STREAMS]>,
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
    pub(super) fn new(planes: u32, blocks: u32) -> Superblocks {
        Superblocks {
            of_block: vec![NONE; blocks as usize],
            all: vec![],
            unused: vec![],
            open: Default::default(),
            first: [0; STREAMS],
            turns: vec![[0; STREAMS]; planes as usize],
        }
    }

    /// `block` is opened for frontier `index` of `plane`.
    pub(super) fn join(&mut self, plane: Plane, index: usize, block: Block) {
        let first = self.first[index];
        let turn = self.turns[plane][index].max(first);
        self.turns[plane][index] = turn + 1;
        let at = (turn - first) as usize;
        if at == self.open[index].len() {
            let planes = self.turns.len();
            let superblock = Superblock { blocks: vec![Block::NONE; planes], is_open: true };
            let id = match self.unused.pop() {
                Some(id) => id,
                None => {
                    self.all.push(Superblock::default());
                    self.all.len() as u32 - 1
                }
            };
            self.all[id as usize] = superblock;
            self.open[index].push_back(id);
        }
        let id = self.open[index][at];
        self.all[id as usize].blocks[plane] = block;
        self.of_block[block] = id;
        while let Some(&id) = self.open[index].front() {
            let first = self.first[index];
            let is_late = self.open[index].len() > TURNS_BEHIND;
            if !is_late && !self.turns.iter().all(|turns| turns[index] > first) {
                break;
            }
            self.open[index].pop_front();
            self.first[index] += 1;
            self.all[id as usize].is_open = false;
            self.drop_if_empty(id);
        }
    }

    /// `block` of `plane` is free, or retired.
    pub(super) fn leave(&mut self, plane: Plane, block: Block) {
        let id = std::mem::replace(&mut self.of_block[block], NONE);
        if id != NONE {
            self.all[id as usize].blocks[plane] = Block::NONE;
            self.drop_if_empty(id);
        }
    }

    fn drop_if_empty(&mut self, id: u32) {
        let superblock = &mut self.all[id as usize];
        if !superblock.is_open && superblock.blocks.iter().all(|&block| block == Block::NONE) {
            superblock.blocks = vec![];
            self.unused.push(id);
        }
    }

    /// Puts blocks that were written before any turn into superblocks: those of all planes with
    /// the same `number`.
    pub(super) fn put_together(&mut self, numbered: impl Iterator<Item = (u32, Plane, Block)>) {
        let before = self.all.len() as u32;
        for (number, plane, block) in numbered {
            let id = before + number;
            while self.all.len() <= id as usize {
                let blocks = vec![Block::NONE; self.turns.len()];
                self.all.push(Superblock { blocks, is_open: false });
            }
            self.all[id as usize].blocks[plane] = block;
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
    fn behind(&self, turns: &[u32; STREAMS], index: usize) -> u32 {
        turns[index].saturating_sub(self.first[index])
    }

    pub(super) fn save(&self, out: &mut Writer<'_>) {
        out.numbers(self.of_block.iter().map(|id| id.wrapping_add(1)));
        out.numbers(self.unused.iter().copied());
        out.number(self.all.len() as u64);
        for index in 0..STREAMS {
            out.numbers(self.open[index].iter().copied());
            // Only differences matter.
            out.numbers(self.turns.iter().map(|turns| self.behind(turns, index)));
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
        let most = blocks + STREAMS * (TURNS_BEHIND + 1);
        let ids = input.all("superblocks", blocks, most as u32 + 1)?;
        self.of_block = ids.into_iter().map(|id| id.wrapping_sub(1)).collect();
        self.unused = input.numbers("superblocks", most, most as u32)?;
        let count = usize::try_from(input.number()?).ok().filter(|count| *count <= most);
        let count = count.ok_or_else(damaged)?;
        let planes = self.turns.len();
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
            superblock.blocks.resize(planes, Block::NONE);
            let place = &mut superblock.blocks[block / blocks_per_plane as usize];
            if *place != Block::NONE {
                return Err(damaged());
            }
            *place = Block(block as u32);
        }
        self.first = [0; STREAMS];
        for index in 0..STREAMS {
            let open = input.numbers("open superblocks", TURNS_BEHIND, count as u32)?;
            let turns = input.all("turns", planes, open.len() as u32 + 1)?;
            for (turn, &id) in (0..).zip(&open) {
                let superblock = &mut self.all[id as usize];
                superblock.blocks.resize(planes, Block::NONE);
                let early = |(block, next): (&Block, &u32)| *block != Block::NONE && *next <= turn;
                let members = superblock.blocks.iter().zip(&turns);
                if superblock.is_open || members.into_iter().any(early) {
                    return Err(damaged());
                }
                superblock.is_open = true;
            }
            for (of_plane, turn) in self.turns.iter_mut().zip(turns) {
                of_plane[index] = turn;
            }
            self.open[index] = VecDeque::from(open);
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

impl Blocks {
    /// Chooses a superblock with a block in `plane` and marks its blocks in the planes that are
    /// `usable`; returns them, or `None` if none of these superblocks would free a page. One
    /// whose blocks have all been filled goes before one that planes still fill.
    pub(crate) fn take_superblock(&mut self, plane: Plane, usable: &[bool]) -> Option<Vec<Block>> {
        let complete = self.candidates(plane, usable, true);
        let chosen = match self.choose_superblock(&complete) {
            None => {
                let all = self.candidates(plane, usable, false);
                self.choose_superblock(&all)?
            }
            chosen => chosen?,
        };
        let superblocks = self.superblocks.as_ref()?;
        let blocks: Vec<Block> = self.eligible(superblocks, chosen, usable).collect();
        for &block in &blocks {
            self.valid[block] |= INELIGIBLE;
        }
        self.cursor[plane] = (blocks[0].0 + 1) % self.shape.blocks_per_plane;
        Some(blocks)
    }

    /// The blocks of a superblock that may be collected.
    fn eligible<'a>(
        &'a self,
        superblocks: &'a Superblocks,
        id: u32,
        usable: &'a [bool],
    ) -> impl Iterator<Item = Block> + 'a {
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
            if complete && (superblock.is_open || superblock.blocks.iter().zip(usable).any(waits)) {
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
