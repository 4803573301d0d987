//! From the blocks of one simulated pool to those of a plane of any size.

use rand::Rng;

use super::engine::below;
use super::ordered::{give_to_few, take_from_few};
use super::pool::{BlockComposition, BlockRole, MAX_CLASSES, PoolError, PoolState};

impl PoolState {
    /// The share of full blocks with `i` valid units, for `i` in `0..=units_per_block`.
    pub fn valid_distribution(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.units_per_block as usize + 1];
        let full = self.blocks.iter().filter(|block| block.role == BlockRole::Full);
        let one = 1.0 / full.clone().count().max(1) as f64;
        for block in full {
            shares[block.valid_units() as usize] += one;
        }
        shares
    }

    /// Compositions for the `blocks` blocks of a plane that are not free: the open blocks
    /// first, then full ones in random order, each of this state's equally often (give or take
    /// one). Fewer than the open blocks, or none to draw from, gives as many as there are.
    ///
    /// The class totals follow this state's proportions but are not exact unless `blocks` is
    /// `self.blocks.len()`; see [`PoolState::compositions_with_units`].
    pub fn compositions_for(&self, blocks: usize, rng: &mut impl Rng) -> Vec<BlockComposition> {
        let (full, mut chosen): (Vec<_>, Vec<_>) =
            self.blocks.iter().partition(|block| block.role == BlockRole::Full);
        chosen.truncate(blocks);
        chosen.reserve(blocks - chosen.len());
        while chosen.len() < blocks && !full.is_empty() {
            let mut round = full.clone();
            let wanted = (blocks - chosen.len()).min(round.len());
            for index in 0..wanted {
                let other = index + below(rng, round.len() - index);
                round.swap(index, other);
            }
            chosen.extend_from_slice(&round[..wanted]);
        }
        chosen
    }

    /// As [`PoolState::compositions_for`], with exactly `units[class]` valid units of each
    /// class: the difference is spread evenly over the blocks, from a random one on. Of data that
    /// are never rewritten it is in as few blocks as possible, so that blocks that hold nothing else
    /// stay whole.
    pub fn compositions_with_units(
        &self,
        blocks: usize,
        units: &[u64],
        rng: &mut impl Rng,
    ) -> Result<Vec<BlockComposition>, PoolError> {
        if units.len() != self.units.len() {
            return Err(PoolError::Classes(units.len()));
        }
        let mut chosen = self.compositions_for(blocks, rng);
        correct(&mut chosen, units, &self.never, rng)?;
        Ok(chosen)
    }

    /// Turns a state whose units each stand for several into one of blocks of
    /// `units_per_block`, with `units[class]` valid units of each class.
    pub(super) fn enlarge_blocks(
        &mut self,
        units_per_block: u32,
        units: &[u64],
        rng: &mut impl Rng,
    ) -> Result<(), PoolError> {
        let ratio = f64::from(units_per_block) / f64::from(self.units_per_block);
        for block in &mut self.blocks {
            let small = *block;
            block.age = (block.age as f64 * ratio) as u64;
            let enlarge = |count: u16| (f64::from(count) * ratio) as u16;
            block.written = match small.role {
                BlockRole::Full => units_per_block as u16,
                _ => enlarge(small.written),
            };
            let all_valid = small.valid_units() == u32::from(small.written);
            let mut room = block.written;
            for valid in &mut block.valid {
                // The counts in between are as likely as their neighbours, but a block
                // without valid or without invalid units is one for good.
                let spread = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
                let exact = *valid == 0 || all_valid || self.ordered.is_some();
                let spread = if exact { 0.0 } else { spread * ratio };
                *valid = ((f64::from(*valid) * ratio + spread) as u16).min(room);
                room -= *valid;
            }
            if let (true, Some(last)) =
                (all_valid, block.valid.iter_mut().rev().find(|valid| **valid > 0))
            {
                *last += room;
            }
        }
        self.victim_valid *= ratio;
        self.units_per_block = units_per_block;
        self.units = units.to_vec();
        match &self.ordered {
            None => correct(&mut self.blocks, units, &self.never, rng),
            // It matters which blocks are corrected: `PoolState::fit`, for each plane.
            Some(_) => Ok(()),
        }
    }
}

/// Whether `blocks` are written far enough to hold `units` of each class.
pub(super) fn has_room(blocks: &[BlockComposition], units: &[u64]) -> Result<(), PoolError> {
    let units = units.iter().sum();
    let room = blocks.iter().map(|block| u64::from(block.written)).sum();
    match units > room {
        true => Err(PoolError::DoesNotFit { units, room }),
        false => Ok(()),
    }
}

/// Adds and removes valid units until class `i` has `units[i]` of them; no block gets more
/// than it has written.
pub(super) fn correct(
    blocks: &mut [BlockComposition],
    units: &[u64],
    never: &[bool],
    rng: &mut impl Rng,
) -> Result<(), PoolError> {
    has_room(blocks, units)?;
    let open = blocks.iter().take_while(|block| block.role != BlockRole::Full).count();
    let of_never = |class: &usize| never.get(*class).is_some_and(|&never| never);
    let sum = |blocks: &[BlockComposition], class: usize| {
        blocks.iter().map(|block| u64::from(block.valid[class])).sum::<u64>()
    };
    for class in (0..units.len()).filter(of_never) {
        let more = sum(blocks, class).saturating_sub(units[class]);
        take_from_few(&mut blocks[open..], class, more);
    }
    for class in (0..units.len()).filter(of_never) {
        let less = units[class].saturating_sub(sum(blocks, class));
        give_to_few(&mut blocks[open..], class, less);
    }
    let mut missing = [0_i64; MAX_CLASSES];
    for (class, (missing, &wanted)) in missing.iter_mut().zip(units).enumerate() {
        let have: u64 = blocks.iter().map(|block| u64::from(block.valid[class])).sum();
        *missing = wanted as i64 - have as i64;
    }
    // What is too much goes first, so that there is room for what is missing. Blocks without
    // any invalid unit are typical (fresh ones), so an even share may need several rounds.
    for (class, missing) in missing.iter_mut().enumerate() {
        spread(blocks, rng, missing, -1, |block| block.valid[class] > 0, class);
    }
    for (class, missing) in missing.iter_mut().enumerate() {
        let has_room = |block: &BlockComposition| block.valid_units() < u32::from(block.written);
        spread(blocks, rng, missing, 1, has_room, class);
    }
    Ok(())
}

/// Takes `units` of `class` from the blocks, evenly; there are as many.
pub(super) fn remove(
    blocks: &mut [BlockComposition],
    rng: &mut impl Rng,
    units: u64,
    class: usize,
) {
    let mut missing = -(units as i64);
    spread(blocks, rng, &mut missing, -1, |block| block.valid[class] > 0, class);
}

/// Gives `units` of `class` to the blocks, evenly; there is room.
pub(super) fn add(blocks: &mut [BlockComposition], rng: &mut impl Rng, units: u64, class: usize) {
    let has_room = |block: &BlockComposition| block.valid_units() < u32::from(block.written);
    spread(blocks, rng, &mut (units as i64), 1, has_room, class);
}

/// Changes `class` by `sign` in one block after another until `missing` no longer has that
/// sign. The caller knows that there is enough to take or room to fill.
fn spread(
    blocks: &mut [BlockComposition],
    rng: &mut impl Rng,
    missing: &mut i64,
    sign: i64,
    may_change: impl Fn(&BlockComposition) -> bool,
    class: usize,
) {
    if *missing * sign <= 0 {
        return;
    }
    let mut index = below(rng, blocks.len());
    // A stride that shares no factor with the length visits every block once a round, and
    // spreads a small difference over all of them.
    let stride = coprime_stride(blocks.len(), missing.unsigned_abs() as usize);
    while *missing != 0 {
        let block = &mut blocks[index];
        if may_change(block) {
            block.valid[class] = block.valid[class].wrapping_add_signed(sign as i16);
            *missing -= sign;
        }
        index = (index + stride) % blocks.len();
    }
}

/// About `length / visits`, without a factor in common with `length`.
fn coprime_stride(length: usize, visits: usize) -> usize {
    fn gcd(a: usize, b: usize) -> usize {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let mut stride = (length / visits.max(1)).max(1);
    while gcd(stride, length) != 1 {
        stride += 1;
    }
    stride
}
