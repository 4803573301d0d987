//! At which moment of its collections a plane is found: how many free blocks it has, and how full
//! its open blocks are.
//!
//! A plane collects when it has less than `start` free blocks. Where writes leave the dies time it
//! rests in between, and the moment is one of a cycle:
//!
//! - *One frontier*: a new block is taken, and collection begins; what it moves fills the block up
//!   to the share of valid units that victims have; it rests while the host fills what is left.
//! - *Separate frontiers*: the host takes a new block, and collection wins blocks, each less what
//!   it moves, until one more is free again. It then rests until the host's block is full. Victims
//!   of which a share `x` is valid leave the other block filled to between `x` and 1, and each
//!   of them has filled it `1 - x` less far than the one before.
//!
//! How much of the cycle collection takes is what it has to do in a second, if it is known how
//! much is written, in the time that the host's programs leave.

use super::{CLASSES_MAX, PlaneClass, below, random_share};
use crate::config::{Placement, WriteFrontiers};
use crate::drive::{Drive, Policies};
use crate::steady::pool::{BlockComposition, BlockRole, Order, PoolState};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a plane is found with.
pub(super) struct Moment {
    pub(super) free_blocks: usize,
    /// How full the open blocks are, as a share of 1.
    host: f64,
    collected: f64,
    hot: f64,
}

impl Moment {
    /// How full the open block with this role is.
    fn share_of(&self, role: BlockRole) -> f64 {
        match role {
            BlockRole::CollectionFrontier => self.collected,
            BlockRole::HotFrontier => self.hot,
            BlockRole::HostFrontier | BlockRole::Full => self.host,
        }
    }
}

impl<P: Policies> Drive<P> {
    /// Free blocks of a plane that collects, and whose collection keeps up.
    fn free_under_way(&self) -> usize {
        let start = self.ftl.blocks.start;
        (start - 1).max(self.ftl.blocks.urgent.min(start))
    }

    /// Free blocks that collection keeps in a plane: `start`, or what writes that leave no time let
    /// it have.
    pub(super) fn free_at_work(&self, saturated: bool) -> usize {
        let start = self.ftl.blocks.start;
        match saturated {
            // A collection wins as many pages as are written meanwhile.
            true if self.config.gc.paced => self.free_under_way(),
            // Collection that the host comes before is left behind until it is urgent.
            true if self.config.gc.preemptible => self.ftl.blocks.urgent.min(start),
            _ => start,
        }
    }

    /// Whether planes with these kinds of data are all found at the same moment: where everything
    /// is written in order each gets as many pages as the others, and collection moves nothing, or
    /// nothing to the blocks that the host fills. Planes of a die program pages together then.
    pub(super) fn fills_in_step(&self, classes: &[PlaneClass], state: &PoolState) -> bool {
        let in_order = |class: &PlaneClass| class.weight == 0.0 || class.order == Order::SEQUENTIAL;
        let undisturbed =
            state.victim_valid == 0.0 || self.config.gc.frontiers == WriteFrontiers::Separate;
        state.ordered.is_some() && classes.iter().all(in_order) && undisturbed
    }

    /// A moment at which a plane is found that holds `counts` units of each class, and that
    /// collects as `state` says.
    pub(super) fn moment(
        &self,
        classes: &[PlaneClass],
        counts: &[u64],
        state: &PoolState,
        random: &mut Xoshiro256PlusPlus,
    ) -> Moment {
        let mut share_of_1 = || random_share(random);
        let (phase, chance, hot) = (share_of_1(), share_of_1(), share_of_1());
        let saturated = classes.iter().any(|class| class.saturated);
        let one = self.config.gc.frontiers == WriteFrontiers::One;
        // Where the blocks of cached tables are opened as well, collection begins at any page of the
        // host's.
        let first = saturated
            && !one
            && self.config.gc.collects_first()
            && !self.ftl.mapping.tables_follow_collections();
        if saturated && !first && !(one && self.config.gc.paced) {
            let free_blocks = self.free_at_work(saturated);
            return Moment { free_blocks, host: phase, collected: chance, hot };
        }
        let share = match saturated {
            true if first => 1.0 - self.share_written(state),
            true => 1.0,
            false => self.share_collecting(classes, counts, state),
        };
        let valid = (state.victim_valid / f64::from(state.units_per_block)).clamp(0.0, 1.0);
        // How much of its work is done, and how much of the cycle's writes have come; they go
        // elsewhere while it works, if they can.
        let collects = phase < share;
        let done = if collects { phase / share } else { 1.0 };
        let written = match self.config.placement {
            Placement::LeastLoaded if share < 1.0 => ((phase - share) / (1.0 - share)).max(0.0),
            _ if first => ((phase - share) / (1.0 - share)).max(0.0),
            _ => phase,
        };
        let free_blocks = |collects| match collects {
            true if self.config.gc.collects_first() => self.ftl.blocks.start - 1,
            true => self.free_under_way(),
            false => self.ftl.blocks.start,
        };
        match self.config.gc.frontiers {
            // Collections begin with a whole block, so only as many are under way as make up for
            // that; the others that would be have come to their end.
            WriteFrontiers::One => {
                let begins = chance >= done;
                let host = if begins { 0.0 } else { valid + written * (1.0 - valid) };
                Moment { free_blocks: free_blocks(begins), host, collected: 0.0, hot: 0.0 }
            }
            WriteFrontiers::Separate => {
                let least = if collects { valid * (1.0 - done) } else { valid };
                let collected = least + chance * (1.0 - valid);
                let free_blocks = free_blocks(collects);
                Moment { free_blocks, host: written, collected, hot: 0.0 }
            }
            WriteFrontiers::HotCold(_) => {
                Moment { free_blocks: free_blocks(collects), host: written, collected: 0.0, hot }
            }
        }
    }

    /// The share of the time in which a plane that always has something to do, and that collects
    /// first, programs what the host writes: for a page of it, `waf - 1` are moved.
    fn share_written(&self, state: &PoolState) -> f64 {
        let transfer = self.flash.times().page_transfer.as_secs_f64();
        let read = self.flash.times().read(self.shape.pages_per_block / 2).as_secs_f64() + transfer;
        let program = self.flash.times().program_mean.as_secs_f64() + transfer;
        let erase = self.flash.times().erase.as_secs_f64() / f64::from(self.shape.pages_per_block);
        let moved = (state.waf - 1.0).max(0.0);
        program / (program + moved * (read + program) + state.waf * erase)
    }

    /// The share of the time in which such a plane collects, where writes leave time: 0 if it is
    /// not known how much is written.
    fn share_collecting(&self, classes: &[PlaneClass], counts: &[u64], state: &PoolState) -> f64 {
        let rewritten = |(class, &units): (&PlaneClass, &u64)| class.rewrites_per_s * units as f64;
        let units: f64 = classes.iter().zip(counts).map(rewritten).sum();
        let pages = units / f64::from(self.shape.units_per_page);
        let middle = self.shape.pages_per_block / 2;
        let transfer = self.flash.times().page_transfer.as_secs_f64();
        let read = self.flash.times().read(middle).as_secs_f64() + transfer;
        let program = self.flash.times().program_mean.as_secs_f64() + transfer;
        let erase = self.flash.times().erase.as_secs_f64() / f64::from(self.shape.pages_per_block);
        // What planes of a die cannot do together they do in turn.
        let turns = match self.config.scheduler.multi_plane {
            true => 1.0,
            false => f64::from(self.shape.planes_per_die),
        };
        let moved = pages * (state.waf - 1.0);
        let collects = (moved * (read + program) + pages * state.waf * erase) * turns;
        let left = 1.0 - pages * program * turns;
        if left <= collects { 1.0 } else { collects / left }
    }

    /// How many units of a block that is filled to `share` are written.
    fn written_at(&self, share: f64) -> u32 {
        let pages = (share * f64::from(self.shape.pages_per_block)) as u32;
        pages.min(self.shape.pages_per_block - 1) * self.shape.units_per_page
    }

    /// Fills open blocks as they are found at `moment`, with more or less of what they hold. What
    /// they gain or lose the full ones still have to lose or gain.
    pub(super) fn stagger_open(&self, compositions: &mut [BlockComposition], moment: &Moment) {
        for frontier in compositions.iter_mut().take_while(|c| c.role != BlockRole::Full) {
            let before = u32::from(frontier.written);
            if before == 0 {
                continue;
            }
            let written = self.written_at(moment.share_of(frontier.role));
            frontier.written = written as u16;
            let (mut counted, mut upto, mut given) = (0, 0, 0);
            for valid in &mut frontier.valid {
                counted += u32::from(*valid);
                upto = (u64::from(counted) * u64::from(written) / u64::from(before)) as u32;
                *valid = (upto - given) as u16;
                given = upto;
            }
            debug_assert!(upto <= written);
        }
    }

    /// Fills open blocks as they are found at `moment`; what they lose or gain comes from the full
    /// ones.
    ///
    /// They are counted in chunks of so many units.
    pub(super) fn stagger(
        &self,
        compositions: &mut [BlockComposition],
        moment: &Moment,
        chunk: u32,
        random: &mut Xoshiro256PlusPlus,
    ) {
        let units_per_block = self.shape.units_per_block / chunk;
        let units_per_page = self.shape.units_per_page / chunk;
        let open = compositions.iter().take_while(|c| c.role != BlockRole::Full).count();
        let (open, full) = compositions.split_at_mut(open);
        if full.is_empty() {
            return;
        }
        let cursor = below(random, full.len() as u32) as usize;
        let mut spread = Spread { blocks: full, cursor, units_per_block };
        for frontier in open {
            let share = moment.share_of(frontier.role);
            let written = self.written_at(share) / chunk;
            let before = u32::from(frontier.written).max(1);
            frontier.written = written as u16;
            for class in 0..CLASSES_MAX {
                let valid = u32::from(frontier.valid[class]);
                let target = (valid * written / before).min(written);
                let left = spread.over(class, i64::from(valid) - i64::from(target));
                frontier.valid[class] = (i64::from(target) + left).max(0) as u16;
            }
            frontier.written = frontier
                .written
                .max((frontier.valid_units().next_multiple_of(units_per_page)) as u16);
        }
    }
}

/// Gives units to blocks, or takes them away, one from each in turn.
struct Spread<'b> {
    blocks: &'b mut [BlockComposition],
    cursor: usize,
    units_per_block: u32,
}

impl Spread<'_> {
    /// Gives the blocks `units` of a class, or takes as many if that is negative; returns what
    /// they have no room for, or do not have.
    fn over(&mut self, class: usize, units: i64) -> i64 {
        let mut left = units;
        let mut in_vain = 0;
        while left != 0 && in_vain < self.blocks.len() {
            self.cursor = (self.cursor + 1) % self.blocks.len();
            in_vain += 1;
            let block = &mut self.blocks[self.cursor];
            if left < 0 && block.valid[class] > 0 {
                block.valid[class] -= 1;
                (left, in_vain) = (left + 1, 0);
            } else if left > 0 && block.valid_units() < self.units_per_block {
                block.valid[class] += 1;
                (left, in_vain) = (left - 1, 0);
            }
        }
        left
    }
}
