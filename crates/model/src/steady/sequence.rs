//! A class of units that are rewritten in order: which one is next, and which block holds each.
//!
//! Such units are not interchangeable, so counts do not do for them: the next to be rewritten is
//! the one that was written longest ago, and what one block holds are neighbours. Every unit is
//! followed by itself. Counts of valid units are not kept here but by the engine.

use super::engine::{below, draw_share};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// In which order the units of a class are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The share of the writes to it that go from its first unit to its last, and round again,
    /// 0 to 1. The others go anywhere in it.
    pub in_order: f64,
    /// The share of the units that each such round leaves as they are, at random, 0 or more and
    /// less than 1.
    pub passed_over: f64,
}

impl Order {
    /// All units are rewritten at random.
    pub const UNIFORM: Order = Order { in_order: 0.0, passed_over: 0.0 };
    /// All units are rewritten one after the other.
    pub const SEQUENTIAL: Order = Order { in_order: 1.0, passed_over: 0.0 };

    /// Whether any write follows the one before it.
    pub fn is_ordered(&self) -> bool {
        self.in_order > 0.0
    }
}

/// Units of one class next to one another, in a block and by their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Index of the class in the pool.
    pub(crate) class: u8,
    /// How many units of it are rewritten before the first of these, if nothing else is.
    pub(crate) position: u32,
    pub(crate) units: u16,
}

/// Bits of a place that say how many units of the sequence went to the block before.
const INDEX_BITS: u32 = 15;
/// No unit was in any block before.
const NOWHERE: u32 = u32::MAX;

pub(super) struct Sequence {
    order: Order,
    /// Where each unit is: its block, and which of the units of this class that were programmed
    /// there it is.
    places: Vec<u32>,
    /// What was programmed in each block, valid or not.
    programmed: Vec<Vec<u32>>,
    next: u32,
    /// Units on their way from one block to others.
    carried: Vec<u32>,
    delivered: usize,
}

impl Sequence {
    pub(super) fn new(order: Order, blocks: usize, units: usize) -> Sequence {
        Sequence {
            order,
            places: vec![NOWHERE; units],
            programmed: vec![vec![]; blocks],
            next: 0,
            carried: vec![],
            delivered: 0,
        }
    }

    /// The unit is in `block` from now on.
    pub(super) fn program(&mut self, unit: u32, block: usize) {
        let held = &mut self.programmed[block];
        self.places[unit as usize] = (block as u32) << INDEX_BITS | held.len() as u32;
        held.push(unit);
    }

    /// Rewrites the next unit in `block`; returns the block that held it.
    #[inline]
    pub(super) fn rewrite(&mut self, rng: &mut Xoshiro256PlusPlus, block: usize) -> usize {
        let unit = self.draw(rng);
        let before = self.places[unit as usize] >> INDEX_BITS;
        self.program(unit, block);
        before as usize
    }

    fn draw(&mut self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        let units = self.places.len();
        if !draw_share(rng, self.order.in_order) {
            return below(rng, units) as u32;
        }
        loop {
            let unit = self.next;
            self.next = if unit as usize + 1 == units { 0 } else { unit + 1 };
            if !draw_share(rng, self.order.passed_over) {
                return unit;
            }
        }
    }

    /// The valid units of `block`, in the order in which they were programmed.
    fn valid(&self, block: usize) -> impl Iterator<Item = u32> + '_ {
        let first = (block as u32) << INDEX_BITS;
        let held = (first..).zip(&self.programmed[block]);
        held.filter(|&(place, &unit)| self.places[unit as usize] == place).map(|(_, &unit)| unit)
    }

    /// Takes the valid units out of `block`, which is erased then.
    pub(super) fn take(&mut self, block: usize) {
        let mut carried = std::mem::take(&mut self.carried);
        carried.clear();
        carried.extend(self.valid(block));
        self.carried = carried;
        self.delivered = 0;
        self.programmed[block].clear();
    }

    /// Programs the next `count` units that were taken in `block`.
    pub(super) fn deliver(&mut self, count: u16, block: usize) {
        for _ in 0..count {
            self.program(self.carried[self.delivered], block);
            self.delivered += 1;
        }
    }

    /// Units that were programmed in `block`, valid or not.
    pub(super) fn programmed(&self, block: usize) -> u16 {
        self.programmed[block].len() as u16
    }

    /// What `block` holds, as runs of the class with the index `class`.
    pub(super) fn runs(&self, block: usize, class: u8, runs: &mut Vec<Run>) {
        let count = self.places.len() as u32;
        let mut open: Option<Run> = None;
        for unit in self.valid(block) {
            let position = match unit >= self.next {
                true => unit - self.next,
                false => unit + count - self.next,
            };
            match &mut open {
                Some(run) if position == run.position + u32::from(run.units) => run.units += 1,
                _ => runs.extend(open.replace(Run { class, position, units: 1 })),
            }
        }
        runs.extend(open);
    }

    /// Valid units of each block, counted one by one.
    #[cfg(test)]
    pub(super) fn counted(&self) -> Vec<u16> {
        (0..self.programmed.len()).map(|block| self.valid(block).count() as u16).collect()
    }
}
