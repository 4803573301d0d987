//! One pool of blocks, reduced to what decides its fate: how many valid units of each class
//! every block holds.
//!
//! Units of one class are rewritten equally often and so are interchangeable: the counts
//! form a Markov chain of their own, and running it is running the policy, without a mapping
//! table. Which block loses a unit is drawn with a *ticket* for each unit, a list for each
//! class: a ticket names a block, and a uniformly drawn ticket names a block with probability
//! proportional to its valid units. Collecting a block makes all its tickets stale at once
//! (its generation changes); stale ones are dropped when drawn or when they outnumber the
//! good ones. Units that are rewritten in order are followed one by one ([`Sequence`]).
//!
//! Kept at all times: the counts of a class sum to its units; no block holds more than it has
//! written; good tickets naming a block equal its count.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::pool::HotShare;
use super::sequence::{Order, Run, Sequence};
use crate::config::{VictimPolicy, WriteFrontiers};
use crate::victim::{Choice, Few, worth};

/// Bit of [`Engine::score`] that keeps a block from being chosen: it is open.
const OPEN: u16 = 0x8000;
/// Score of a free block.
const FREE: u16 = 0xFFFF;
/// A ticket is a block in the low bits and its generation in the high ones.
const BLOCK_BITS: u32 = 16;
const BLOCK_MASK: u32 = (1 << BLOCK_BITS) - 1;
const GENERATION: u32 = 1 << BLOCK_BITS;
/// Blocks that a ticket can name.
pub(super) const BLOCKS_MAX: u32 = 1 << (BLOCK_BITS - 1);

/// What the engine must know of the policy; validated by the caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) victim: VictimPolicy,
    pub(super) frontiers: WriteFrontiers,
    /// Collection starts below this number of free blocks...
    pub(super) collect_below: u32,
    /// ...and ends at this number.
    pub(super) keep_free: u32,
    pub(super) units_per_block: u16,
    /// Units of a program: what is moved of a block fills whole ones.
    pub(super) units_per_program: u16,
    /// Collection takes as long as the host takes to fill a block: on average it is done when half
    /// of that is full.
    pub(super) paced: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) block: usize,
    /// Units programmed, valid or not.
    pub(super) written: u16,
}

/// Counts of the simulation so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) host_writes: u64,
    pub(super) collections: u64,
    /// Units copied by collections.
    pub(super) copied: u64,
    /// Sum of the squares of the units copied by each collection.
    pub(super) copied_squared: u64,
    /// What the clock of ages stood at in the beginning.
    before: u64,
}

impl Tally {
    /// The clock of ages: units programmed.
    fn clock(&self) -> u64 {
        self.before + self.host_writes + self.copied
    }
}

struct ClassState {
    /// One ticket for each valid unit, and stale ones. Empty for a class that is never
    /// rewritten, or in order.
    tickets: Vec<u32>,
    /// Its units, if they are rewritten in order.
    sequence: Option<Sequence>,
    units: usize,
    /// Valid units in each block.
    counts: Vec<u16>,
    /// What of it goes to the hot frontier, if there is one.
    hot: HotShare,
    /// What is trimmed of it, if anything is.
    trims: Option<Trims>,
}

#[derive(Clone, Copy)]
struct Trims {
    per_write: f64,
    /// Trims that are due; the fraction carries over.
    due: f64,
    /// Addresses, with and without a unit.
    addresses: usize,
}

pub(super) struct Engine {
    rules: Rules,
    classes: Vec<ClassState>,
    /// For each class that is rewritten: where its share of a 64-bit draw ends, and itself.
    shares: Vec<(u64, usize)>,
    /// Valid units of each block; [`OPEN`] is set in open blocks, [`FREE`] marks free ones.
    score: Vec<u16>,
    /// The good ticket of each block.
    tag: Vec<u32>,
    free: Vec<usize>,
    host: Open,
    collected: Option<Open>,
    /// The frontier of hot units; `host` is then that of cold ones, and both take what is
    /// collected.
    hot: Option<Open>,
    /// When each block was filled (FIFO) or last changed (cost-benefit), in units written and
    /// copied; empty for other policies.
    stamps: Vec<u64>,
    /// Whether every unit that is invalidated is noted in its block's stamp.
    follows: bool,
    /// When each block was opened, by the number of blocks that were before.
    opened: Vec<u64>,
    openings: u64,
    /// Where the search for a victim begins, so that ties do not favour low block numbers.
    cursor: usize,
    rng: Xoshiro256PlusPlus,
    tally: Tally,
}

/// A uniformly random index below `n`.
pub(super) fn below(rng: &mut impl Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

impl Engine {
    /// A pool whose closed blocks hold `filled[block][class]` valid units, the oldest block
    /// first, with `weights[class]` of the host's writes, in the order of `orders[class]`; blocks
    /// past `filled` are free. At least one weight is positive.
    pub(super) fn new(
        rules: Rules,
        blocks: usize,
        weights: &[f64],
        orders: &[Order],
        filled: &[Vec<u16>],
        rng: Xoshiro256PlusPlus,
    ) -> Engine {
        let tag: Vec<u32> = (0..blocks as u32).collect();
        let mut score = vec![FREE; blocks];
        let mut classes: Vec<ClassState> = weights
            .iter()
            .map(|_| ClassState {
                tickets: vec![],
                sequence: None,
                units: 0,
                counts: vec![0; blocks],
                hot: HotShare::default(),
                trims: None,
            })
            .collect();
        for (block, counts) in filled.iter().enumerate() {
            score[block] = counts.iter().sum();
            for ((class, &count), &weight) in classes.iter_mut().zip(counts).zip(weights) {
                class.counts[block] = count;
                class.units += usize::from(count);
                if weight > 0.0 {
                    class.tickets.extend(std::iter::repeat_n(tag[block], usize::from(count)));
                }
            }
        }
        for ((class, order), &weight) in classes.iter_mut().zip(orders).zip(weights) {
            if order.is_ordered() && weight > 0.0 {
                class.tickets = vec![];
                let mut sequence = Sequence::new(*order, blocks, class.units);
                let mut unit = 0;
                for (block, &count) in class.counts.iter().enumerate() {
                    (unit..unit + u32::from(count)).for_each(|unit| sequence.program(unit, block));
                    unit += u32::from(count);
                }
                class.sequence = Some(sequence);
            }
        }
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let mut shares = vec![];
        for (class, &weight) in weights.iter().enumerate() {
            sum += weight;
            if weight > 0.0 {
                shares.push(((sum / total * u64::MAX as f64) as u64, class));
            }
        }
        shares.last_mut().expect("a class that is rewritten").0 = u64::MAX;
        let mut free: Vec<usize> = (filled.len()..blocks).rev().collect();
        let host = Open { block: free.pop().expect("a free block"), written: 0 };
        score[host.block] = OPEN;
        let stamps = match rules.victim.declaration().stamps_blocks() {
            true => (0..blocks as u64).collect(),
            false => vec![],
        };
        let opened = (0..blocks as u64).collect();
        // As if the blocks had been filled one after the other.
        let tally = Tally { before: blocks as u64, ..Tally::default() };
        Engine {
            rules,
            classes,
            shares,
            score,
            tag,
            free,
            host,
            collected: None,
            hot: None,
            stamps,
            follows: rules.victim.declaration().follows_changes(),
            opened,
            openings: blocks as u64,
            cursor: 0,
            rng,
            tally,
        }
    }

    /// Adds trims: `per_write` of each class for each of its writes.
    pub(super) fn with_trims(mut self, per_write: impl Iterator<Item = f64>) -> Engine {
        for (class, per_write) in self.classes.iter_mut().zip(per_write) {
            if per_write > 0.0 && class.sequence.is_none() && !class.tickets.is_empty() {
                let addresses = (class.units as f64 * (1.0 + per_write)).round() as usize;
                class.trims = Some(Trims { per_write, due: 0.0, addresses });
            }
        }
        self
    }

    /// Adds a frontier for hot units: `shares` says how much of each class is hot.
    pub(super) fn with_heat(mut self, shares: impl Iterator<Item = HotShare>) -> Engine {
        for (class, hot) in self.classes.iter_mut().zip(shares) {
            class.hot = hot;
        }
        self.hot = Some(self.open());
        self
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    pub(super) fn free_blocks(&self) -> usize {
        self.free.len()
    }

    pub(super) fn host_frontier(&self) -> Open {
        self.host
    }

    pub(super) fn collection_frontier(&self) -> Option<Open> {
        self.collected
    }

    pub(super) fn hot_frontier(&self) -> Option<Open> {
        self.hot
    }

    pub(super) fn is_free(&self, block: usize) -> bool {
        self.score[block] == FREE
    }

    pub(super) fn blocks(&self) -> usize {
        self.score.len()
    }

    /// Valid units of `class` in `block`.
    pub(super) fn count(&self, block: usize, class: usize) -> u16 {
        self.classes[class].counts[block]
    }

    /// Units of `class` that were programmed in `block`, valid or not, if they are rewritten in
    /// order; otherwise those that are valid.
    pub(super) fn programmed(&self, block: usize, class: usize) -> u16 {
        match &self.classes[class].sequence {
            Some(sequence) => sequence.programmed(block),
            None => self.count(block, class),
        }
    }

    /// Whether the units of `class` are rewritten, and whether in order.
    pub(super) fn is_rewritten(&self, class: usize) -> (bool, bool) {
        let is_rewritten = self.shares.iter().any(|share| share.1 == class);
        (is_rewritten, self.classes[class].sequence.is_some())
    }

    /// What `block` holds of units that are rewritten in order.
    pub(super) fn runs(&self, block: usize) -> Vec<Run> {
        let mut runs = vec![];
        for (index, class) in self.classes.iter().enumerate() {
            if let Some(sequence) = &class.sequence {
                sequence.runs(block, index as u8, &mut runs);
            }
        }
        runs
    }

    /// How many blocks were opened before `block` was.
    pub(super) fn opened(&self, block: usize) -> u64 {
        self.opened[block]
    }

    /// Performs host writes, and the collections they cause, and leaves the host's frontier
    /// with room. False: stopped early because collections have copied `copied_max` units.
    pub(super) fn run(&mut self, host_writes: u64, copied_max: u64) -> bool {
        if self.hot.is_some() {
            return self.run_by_heat(host_writes, copied_max);
        }
        let mut left = host_writes;
        // Where the host's block is when collections are done.
        let done = if self.rules.paced { self.rules.units_per_block / 2 } else { 0 };
        loop {
            while self.host.written == self.rules.units_per_block {
                if !self.refill(copied_max) {
                    return false;
                }
            }
            if self.rules.paced && self.host.written == done && !self.make_room(copied_max) {
                return false;
            }
            if left == 0 {
                return true;
            }
            let written = self.host.written;
            let upto = if written < done { done } else { self.rules.units_per_block };
            let room = u64::from(upto - written);
            let batch = room.min(left);
            self.write(batch as u16);
            left -= batch;
        }
    }

    /// `batch` host writes to the host's frontier, which has room for them.
    fn write(&mut self, batch: u16) {
        let frontier = self.host.block;
        // The frontier's counts are raised once for the batch. Its own units can be
        // overwritten before that, so the class counts may wrap in between.
        self.score[frontier] += batch;
        self.host.written += batch;
        self.tally.host_writes += u64::from(batch);
        let new = self.tag[frontier];
        if self.follows {
            return self.write_dated(batch);
        }
        if let [(_, only)] = self.shares[..] {
            let class = &mut self.classes[only];
            for _ in 0..batch {
                class.replace(&mut self.rng, &self.tag, &mut self.score, new);
            }
            class.counts[frontier] = class.counts[frontier].wrapping_add(batch);
            return;
        }
        for _ in 0..batch {
            let class = self.draw_class();
            let class = &mut self.classes[class];
            class.replace(&mut self.rng, &self.tag, &mut self.score, new);
            class.counts[frontier] = class.counts[frontier].wrapping_add(1);
        }
    }

    /// [`Engine::write`] for policies that date blocks: notes when each block loses a unit.
    fn write_dated(&mut self, batch: u16) {
        let (frontier, clock) = (self.host.block, self.tally.clock());
        let new = self.tag[frontier];
        for _ in 0..batch {
            let class = self.draw_class();
            let class = &mut self.classes[class];
            if let Some(block) = class.replace(&mut self.rng, &self.tag, &mut self.score, new) {
                self.stamps[block] = clock;
            }
            class.counts[frontier] = class.counts[frontier].wrapping_add(1);
        }
    }

    /// [`Engine::run`] with a frontier for hot units, and one for cold ones.
    fn run_by_heat(&mut self, host_writes: u64, copied_max: u64) -> bool {
        let mut left = host_writes;
        loop {
            while let Some(hot) = self.hot
                && let Some(full) = [self.host, hot]
                    .into_iter()
                    .find(|open| open.written == self.rules.units_per_block)
            {
                let open = self.replace_open(full);
                self.set_frontier(full.block == hot.block, open);
                if !self.make_room(copied_max) {
                    return false;
                }
            }
            if left == 0 {
                return true;
            }
            left -= 1;
            let class = self.draw_class();
            let is_hot = draw_share(&mut self.rng, self.classes[class].hot.of_writes);
            let clock = self.tally.clock();
            let frontier = match (is_hot, &mut self.hot) {
                (true, Some(hot)) => hot,
                _ => &mut self.host,
            };
            frontier.written += 1;
            let to = frontier.block;
            self.score[to] += 1;
            self.tally.host_writes += 1;
            let state = &mut self.classes[class];
            let from = state.replace(&mut self.rng, &self.tag, &mut self.score, self.tag[to]);
            state.counts[to] += 1;
            if let (true, Some(block)) = (self.follows, from) {
                self.stamps[block] = clock;
            }
        }
    }

    fn set_frontier(&mut self, hot: bool, open: Open) {
        match hot {
            true => self.hot = Some(open),
            false => self.host = open,
        }
    }

    /// Copies the victim's units to the frontiers of hot and of cold units.
    fn copy_by_heat(&mut self, victim: usize) {
        self.carry(victim);
        let mut cold: Vec<u16> = vec![0; self.classes.len()];
        let mut hot = cold.clone();
        for (at, class) in self.classes.iter().enumerate() {
            for _ in 0..class.counts[victim] {
                match draw_share(&mut self.rng, class.hot.of_units) {
                    true => hot[at] += 1,
                    false => cold[at] += 1,
                }
            }
        }
        for (is_hot, mut moving) in [(false, cold), (true, hot)] {
            let mut frontier = match (is_hot, self.hot) {
                (true, Some(hot)) => hot,
                _ => self.host,
            };
            let room = self.rules.units_per_block - frontier.written;
            let count: u16 = moving.iter().sum();
            if count > room {
                let rest = split(&mut self.rng, &mut moving, room);
                self.append(&moving, &mut frontier);
                moving = rest;
                frontier = self.replace_open(frontier);
            }
            self.append(&moving, &mut frontier);
            let frontier = self.padded(frontier);
            self.set_frontier(is_hot, frontier);
        }
        self.empty(victim);
    }

    /// The class of the next host write.
    #[inline]
    fn draw_class(&mut self) -> usize {
        if let [(_, only)] = self.shares[..] {
            return only;
        }
        let draw = self.rng.next_u64();
        let mut share = 0;
        while self.shares[share].0 < draw {
            share += 1;
        }
        self.shares[share].1
    }

    /// How many units have been programmed since `block` was filled, or last changed; 0 for
    /// policies that do not ask.
    pub(super) fn age(&self, block: usize) -> u64 {
        self.stamps.get(block).map_or(0, |stamp| self.tally.clock() - stamp)
    }

    /// Opens a block in place of the host's full frontier and collects if that leaves too few
    /// free ones, and collection is not paced. False: stopped early.
    fn refill(&mut self, copied_max: u64) -> bool {
        self.host = self.replace_open(self.host);
        self.rules.paced || self.make_room(copied_max)
    }

    /// Collects if too few blocks are free. False: stopped early.
    fn make_room(&mut self, copied_max: u64) -> bool {
        if self.free.len() >= self.rules.collect_below as usize {
            return true;
        }
        while self.free.len() < self.rules.keep_free as usize {
            if self.tally.copied >= copied_max {
                return false;
            }
            self.collect();
        }
        true
    }

    /// Closes a full block and opens a free one.
    fn replace_open(&mut self, full: Open) -> Open {
        self.score[full.block] &= !OPEN;
        if let Some(stamp) = self.stamps.get_mut(full.block) {
            *stamp = self.tally.clock();
        }
        self.open()
    }

    fn open(&mut self) -> Open {
        let block = self.free.pop().expect("the thresholds leave a block for every frontier");
        self.score[block] = OPEN;
        self.note_opening(block);
        Open { block, written: 0 }
    }

    fn note_opening(&mut self, block: usize) {
        self.opened[block] = self.openings;
        self.openings += 1;
    }

    fn collect(&mut self) {
        let victim = match self.rules.victim.declaration().choice {
            Choice::Fewest => self.fewest_valid(),
            Choice::FewestDrawn(d) => self.fewest_valid_of(d),
            Choice::Drawn(Few::Any) => self.fewest_valid_of(1),
            Choice::Drawn(Few::Invalid { pages }) => {
                let units = u32::from(self.rules.units_per_block);
                self.random_with_less((units + 1).saturating_sub(pages) as u16)
            }
            Choice::Drawn(Few::BelowMean) => {
                let closed = || self.score.iter().filter(|&&score| score < OPEN);
                let sum: u64 = closed().map(|&score| u64::from(score)).sum();
                self.random_with_less(sum.div_ceil(closed().count() as u64) as u16)
            }
            Choice::Oldest => self.oldest(),
            Choice::MostWorth => self.most_worthwhile(),
        };
        let valid = self.score[victim];
        self.tally.collections += 1;
        self.tally.copied += u64::from(valid);
        self.tally.copied_squared += u64::from(valid) * u64::from(valid);
        let frontier = match self.rules.frontiers {
            WriteFrontiers::One => self.host,
            WriteFrontiers::Separate => match self.collected {
                Some(open) => open,
                None => self.open(),
            },
            WriteFrontiers::HotCold(_) => return self.copy_by_heat(victim),
        };
        let frontier = if frontier.written == 0 {
            self.swap(victim, valid, frontier)
        } else {
            self.copy(victim, valid, frontier)
        };
        match self.rules.frontiers {
            WriteFrontiers::One | WriteFrontiers::HotCold(_) => self.host = frontier,
            WriteFrontiers::Separate => self.collected = Some(frontier),
        }
    }

    /// Collection into an empty frontier: the two blocks trade places, which differs from
    /// copying only in the names of blocks.
    fn swap(&mut self, victim: usize, valid: u16, frontier: Open) -> Open {
        for class in &mut self.classes {
            if let Some(sequence) = &mut class.sequence {
                sequence.take(victim);
                sequence.deliver(class.counts[victim], victim);
            }
        }
        self.note_opening(victim);
        self.score[victim] = valid | OPEN;
        self.score[frontier.block] = FREE;
        self.free.push(frontier.block);
        self.padded(Open { block: victim, written: valid })
    }

    /// An open block whose last program stays empty in part.
    fn padded(&self, open: Open) -> Open {
        let written = open.written.next_multiple_of(self.rules.units_per_program);
        Open { written: written.min(self.rules.units_per_block), ..open }
    }

    /// Copies the victim's units to a frontier that is not empty, going on in a free block
    /// when it is full.
    fn copy(&mut self, victim: usize, valid: u16, mut frontier: Open) -> Open {
        self.carry(victim);
        let mut moving: Vec<u16> = Vec::with_capacity(self.classes.len());
        moving.extend(self.classes.iter().map(|class| class.counts[victim]));
        let room = self.rules.units_per_block - frontier.written;
        if valid > room {
            let rest = split(&mut self.rng, &mut moving, room);
            self.append(&moving, &mut frontier);
            moving = rest;
            frontier = self.replace_open(frontier);
        }
        self.append(&moving, &mut frontier);
        self.empty(victim);
        self.padded(frontier)
    }

    /// What of `victim` is rewritten in order is on its way.
    fn carry(&mut self, victim: usize) {
        for sequence in self.classes.iter_mut().filter_map(|class| class.sequence.as_mut()) {
            sequence.take(victim);
        }
    }

    /// The units of `victim` have been copied: it is free.
    fn empty(&mut self, victim: usize) {
        for class in &mut self.classes {
            class.counts[victim] = 0;
        }
        self.retire_tickets(victim);
        self.score[victim] = FREE;
        self.free.push(victim);
    }

    fn append(&mut self, moving: &[u16], frontier: &mut Open) {
        let tag = self.tag[frontier.block];
        for (class, &count) in self.classes.iter_mut().zip(moving) {
            class.counts[frontier.block] += count;
            self.score[frontier.block] += count;
            frontier.written += count;
            if !class.tickets.is_empty() {
                class.tickets.extend(std::iter::repeat_n(tag, usize::from(count)));
            }
            if let Some(sequence) = &mut class.sequence {
                sequence.deliver(count, frontier.block);
            }
        }
    }

    fn retire_tickets(&mut self, block: usize) {
        let (next, wrapped) = self.tag[block].overflowing_add(GENERATION);
        self.tag[block] = next;
        for class in &mut self.classes {
            if class.tickets.len() >= 2 * class.units + 64 {
                class.tickets.retain(|&ticket| self.tag[(ticket & BLOCK_MASK) as usize] == ticket);
            }
        }
        if wrapped {
            // Generations begin anew, so that no stale ticket is left to be taken for good.
            for (block, tag) in self.tag.iter_mut().enumerate() {
                *tag = block as u32;
            }
            for class in self.classes.iter_mut().filter(|class| !class.tickets.is_empty()) {
                class.tickets.clear();
                for (&tag, &count) in self.tag.iter().zip(&class.counts) {
                    class.tickets.extend(std::iter::repeat_n(tag, usize::from(count)));
                }
            }
        }
    }

    fn fewest_valid(&mut self) -> usize {
        let least = self.score.iter().copied().fold(FREE, u16::min);
        debug_assert!(least < OPEN, "a closed block");
        let (before, after) = self.score.split_at(self.cursor);
        let victim = match position(after, least) {
            Some(index) => self.cursor + index,
            None => position(before, least).expect("the least is somewhere"),
        };
        self.cursor = (victim + 1) % self.score.len();
        victim
    }

    /// A closed block drawn among those with fewer than `limit` valid units, or if there is
    /// none the one with the fewest.
    fn random_with_less(&mut self, limit: u16) -> usize {
        let candidates = self.score.iter().filter(|&&score| score < limit).count();
        if candidates == 0 {
            return self.fewest_valid();
        }
        let drawn = below(&mut self.rng, candidates);
        let mut fitting = (0..self.score.len()).filter(|&block| self.score[block] < limit);
        fitting.nth(drawn).expect("as many as were counted")
    }

    /// The block that was closed first.
    fn oldest(&self) -> usize {
        let closed = (0..self.score.len()).filter(|&block| self.score[block] < OPEN);
        closed.min_by_key(|&block| self.stamps[block]).expect("a closed block")
    }

    /// The victim of the cost-benefit policy; the first from the cursor of equals.
    fn most_worthwhile(&mut self) -> usize {
        let blocks = self.score.len();
        let (mut best, mut most) = (usize::MAX, -1.0);
        for block in (self.cursor..blocks).chain(0..self.cursor) {
            if self.score[block] < OPEN {
                let (valid, units) = (self.score[block], self.rules.units_per_block);
                let worth = worth(valid.into(), units.into(), self.age(block));
                if worth > most {
                    (best, most) = (block, worth);
                }
            }
        }
        self.cursor = (best + 1) % blocks;
        best
    }

    /// The fewest valid units of `d` closed blocks drawn with replacement; the first drawn of
    /// equals.
    fn fewest_valid_of(&mut self, d: u32) -> usize {
        let mut best = usize::MAX;
        let mut least = FREE;
        let mut drawn = 0;
        while drawn < d {
            let block = below(&mut self.rng, self.score.len());
            let score = self.score[block];
            if score < OPEN {
                drawn += 1;
                if score < least {
                    (best, least) = (block, score);
                }
            }
        }
        // Blocks that are valid as a whole are rare, but where data is written in order most are.
        // A drive does not collect them.
        let nothing_won = d > 1 && least >= self.rules.units_per_block;
        let in_order = || self.classes.iter().any(|class| class.sequence.is_some());
        if nothing_won && in_order() { self.fewest_valid() } else { best }
    }

    /// Panics unless the invariants hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let b = self.rules.units_per_block;
        let mut kinds = [0; 3];
        for block in 0..self.blocks() {
            let valid: u16 = self.classes.iter().map(|class| class.counts[block]).sum();
            assert!(valid <= b);
            match self.score[block] {
                FREE => {
                    assert_eq!(valid, 0);
                    kinds[0] += 1;
                }
                score if score & OPEN != 0 => {
                    assert_eq!(score & !OPEN, valid);
                    kinds[1] += 1;
                }
                score => {
                    assert_eq!(score, valid);
                    kinds[2] += 1;
                }
            }
        }
        assert_eq!(kinds[0], self.free.len());
        assert!(self.free.iter().all(|&block| self.is_free(block)));
        for open in [Some(self.host), self.hot, self.collected].into_iter().flatten() {
            assert!(self.score[open.block] & OPEN != 0 && !self.is_free(open.block));
            assert!(self.score[open.block] & !OPEN <= open.written && open.written <= b);
        }
        let more = [self.hot, self.collected].iter().flatten().count();
        assert_eq!(kinds[1], 1 + more);
        for (index, class) in self.classes.iter().enumerate() {
            let counted: usize = class.counts.iter().map(|&count| usize::from(count)).sum();
            assert_eq!(counted, class.units);
            if let Some(sequence) = &class.sequence {
                assert_eq!(sequence.counted(), class.counts);
            } else if self.shares.iter().any(|share| share.1 == index) {
                let mut good = vec![0_u16; self.blocks()];
                for &ticket in &class.tickets {
                    let block = (ticket & BLOCK_MASK) as usize;
                    good[block] += u16::from(self.tag[block] == ticket);
                }
                assert_eq!(good, class.counts);
            }
        }
    }
}

impl ClassState {
    /// A unit of this class is written anew, in the block whose ticket is `new`: takes it from
    /// the block that held it, if there is one, and trims what is due. Returns that block; the
    /// blocks that trims change are not told apart.
    #[inline]
    fn replace(
        &mut self,
        rng: &mut Xoshiro256PlusPlus,
        tag: &[u32],
        score: &mut [u16],
        new: u32,
    ) -> Option<usize> {
        if self.trims.is_some() && !self.trim(rng, tag, score) {
            self.tickets.push(new);
            self.units += 1;
            return None;
        }
        let block = loop {
            if let Some(sequence) = &mut self.sequence {
                break sequence.rewrite(rng, (new & BLOCK_MASK) as usize);
            }
            let index = below(rng, self.tickets.len());
            let ticket = self.tickets[index];
            let block = (ticket & BLOCK_MASK) as usize;
            if tag[block] == ticket {
                self.tickets[index] = new;
                break block;
            }
            self.tickets.swap_remove(index);
        };
        score[block] -= 1;
        self.counts[block] = self.counts[block].wrapping_sub(1);
        Some(block)
    }

    /// Trims what is due with the next write; whether that goes to an address with a unit.
    #[cold]
    #[inline(never)]
    fn trim(&mut self, rng: &mut Xoshiro256PlusPlus, tag: &[u32], score: &mut [u16]) -> bool {
        let Some(trims) = &mut self.trims else { return true };
        trims.due += trims.per_write;
        let addresses = trims.addresses;
        while let Some(trims) = self.trims.as_mut().filter(|trims| trims.due >= 1.0) {
            trims.due -= 1.0;
            // The last one stays, so that there is one to write.
            if below(rng, addresses) >= self.units || self.units == 1 {
                continue;
            }
            loop {
                let index = below(rng, self.tickets.len());
                let ticket = self.tickets.swap_remove(index);
                let block = (ticket & BLOCK_MASK) as usize;
                if tag[block] == ticket {
                    score[block] -= 1;
                    self.counts[block] = self.counts[block].wrapping_sub(1);
                    self.units -= 1;
                    break;
                }
            }
        }
        below(rng, addresses) < self.units
    }
}

/// True with probability `share`.
pub(super) fn draw_share(rng: &mut impl Rng, share: f64) -> bool {
    match share {
        0.0 => false,
        1.0 => true,
        _ => ((rng.next_u64() >> 11) as f64) < share * (1u64 << 53) as f64,
    }
}

/// Leaves `first` units, drawn at random without replacement, in `counts`, and returns the
/// rest.
pub(super) fn split(rng: &mut impl Rng, counts: &mut [u16], first: u16) -> Vec<u16> {
    let mut rest = counts.to_vec();
    let mut left: usize = rest.iter().map(|&count| usize::from(count)).sum();
    counts.fill(0);
    for _ in 0..first {
        let mut draw = below(rng, left);
        let mut class = 0;
        while draw >= usize::from(rest[class]) {
            draw -= usize::from(rest[class]);
            class += 1;
        }
        rest[class] -= 1;
        counts[class] += 1;
        left -= 1;
    }
    rest
}

/// The first index of `value`, looking at a whole group at a time, which vectorises.
fn position(scores: &[u16], value: u16) -> Option<usize> {
    const GROUP: usize = 32;
    for (index, group) in scores.chunks(GROUP).enumerate() {
        if group.iter().fold(false, |any, &score| any | (score == value)) {
            let within = group.iter().position(|&score| score == value)?;
            return Some(index * GROUP + within);
        }
    }
    None
}
