//! Which block of a plane is collected.

use super::BuiltIn;
use crate::victim::{Choice, Few, worth};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Marks a block that must not be collected: free, being filled, being collected, retired.
pub(crate) const INELIGIBLE: u16 = 0x8000;

/// What the age of a block counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dated {
    /// Ages are not asked for, and are 0: the drive notes nothing.
    Never,
    /// When its last page was programmed.
    Filled,
    /// When its last page was programmed, or a unit of it was invalidated since.
    Changed,
}

/// Which block of a plane is collected.
pub trait VictimChoice {
    /// Whether this is not the drive's own.
    #[doc(hidden)]
    const OWN: bool = true;

    /// What [`Candidate::age`] counts from.
    fn dated(&self) -> Dated {
        Dated::Never
    }

    /// The candidate to collect, or `None` if none should be now. The drive asks when a plane is short
    /// of free blocks. It collects nothing as long as no candidate [pays](Candidates::pays); and the
    /// one with the fewest valid units if `None` is said although host writes have to wait.
    ///
    /// # Errors
    /// A sentence that says why it cannot choose. The run ends with it.
    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String>;
}

/// A block that may be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number within the plane.
    pub block: u32,
    /// Units of it that are valid.
    pub valid: u32,
    /// How often it was erased.
    pub erases: u32,
    /// Pages that the drive has programmed since, see [`VictimChoice::dated`].
    pub age: u64,
}

/// The blocks of a plane, some of which may be collected.
pub struct Candidates<'a> {
    /// Valid units, with [`INELIGIBLE`] as a flag.
    pub(crate) counts: &'a [u16],
    pub(crate) erases: &'a [u32],
    /// Empty where nothing is dated.
    pub(crate) stamps: &'a [u64],
    pub(crate) clock: u64,
    pub(crate) cursor: u32,
    pub(crate) units_per_block: u32,
    pub(crate) units_per_page: u32,
    pub(crate) too_many: u32,
    /// What the configuration says.
    pub(crate) choice: Choice,
    pub(crate) random: &'a mut Xoshiro256PlusPlus,
}

impl Candidates<'_> {
    /// Blocks of the plane, candidates or not; they are numbered from 0.
    pub fn blocks(&self) -> u32 {
        self.counts.len() as u32
    }

    /// Units of a block, the most that can be valid.
    pub fn units_per_block(&self) -> u32 {
        self.units_per_block
    }

    pub fn units_per_page(&self) -> u32 {
        self.units_per_page
    }

    /// Whether collecting a block with so many valid units frees a page.
    pub fn pays(&self, valid: u32) -> bool {
        valid < self.too_many
    }

    /// The block after the one that was collected last in the plane: where ties should be looked for
    /// first, so that they take turns.
    pub fn turn(&self) -> u32 {
        self.cursor
    }

    /// A block by its number; `None` if it may not be collected.
    #[inline]
    pub fn get(&self, block: u32) -> Option<Candidate> {
        let valid = *self.counts.get(block as usize).filter(|it| **it & INELIGIBLE == 0)?;
        let at = block as usize;
        let age = self.stamps.get(at).map_or(0, |stamp| self.clock - stamp);
        Some(Candidate { block, valid: valid.into(), erases: self.erases[at], age })
    }

    /// All candidates, by number.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        (0..self.blocks()).filter_map(|block| self.get(block))
    }

    /// All candidates, from [`Candidates::turn`] on.
    pub fn in_turn(&self) -> impl Iterator<Item = Candidate> + '_ {
        let all = (self.cursor..self.blocks()).chain(0..self.cursor);
        all.filter_map(|block| self.get(block))
    }

    /// A number below `n`, out of the drive's random numbers.
    pub fn draw(&mut self, n: u32) -> u32 {
        use rand::Rng;
        ((u64::from(self.random.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// The fewest valid units of a candidate; more than any has if there is none.
    pub(crate) fn fewest(&self) -> u32 {
        u32::from(self.counts.iter().copied().min().unwrap_or(INELIGIBLE))
    }

    /// The block with the fewest valid units.
    #[inline]
    pub(crate) fn least_valid(&self) -> u32 {
        let counts = self.counts;
        let least = counts.iter().copied().min().unwrap_or(INELIGIBLE);
        let (before, after) = counts.split_at(self.cursor as usize);
        let found = after.iter().position(|&v| v == least).map(|at| at + before.len());
        found.or_else(|| before.iter().position(|&v| v == least)).unwrap_or(0) as u32
    }

    /// What `choose` takes; the block with the fewest valid units if it takes none, or if nothing can
    /// be won of any.
    fn unless_all_valid(&mut self, choose: impl FnOnce(&mut Self) -> Option<u32>) -> u32 {
        let least = self.least_valid();
        if u32::from(self.counts[least as usize]) >= self.too_many {
            return least;
        }
        choose(self).unwrap_or(least)
    }

    /// A block drawn among those with few enough valid units.
    fn drawn(&mut self, few: Few) -> Option<u32> {
        let limit = match few {
            Few::Any => u32::from(INELIGIBLE),
            Few::Invalid { pages } => {
                let invalid = pages.saturating_mul(self.units_per_page);
                (self.units_per_block + 1).saturating_sub(invalid).min(self.too_many)
            }
            Few::BelowMean => {
                let counts = self.counts.iter().filter(|&&valid| valid & INELIGIBLE == 0);
                let sum: u64 = counts.clone().map(|&valid| u64::from(valid)).sum();
                (sum.div_ceil(counts.count() as u64) as u32).min(self.too_many)
            }
        };
        self.random_with_less(limit)
    }

    /// The block with the least stamp.
    fn oldest(&self) -> Option<u32> {
        let candidates = self.counts.iter().zip(self.stamps).zip(0..);
        let collectable = candidates.filter(|((valid, _), _)| **valid & INELIGIBLE == 0);
        collectable.min_by_key(|((_, stamp), _)| **stamp).map(|(_, block)| block)
    }

    /// The block that is worth most; the first from the cursor of equals.
    fn most_worth(&self) -> Option<u32> {
        let start = self.cursor;
        let (mut best, mut most) = (None, -1.0);
        for block in (start..self.blocks()).chain(0..start) {
            let valid = u32::from(self.counts[block as usize]);
            if valid < self.too_many {
                let age = self.clock - self.stamps[block as usize];
                let worth = worth(valid, self.units_per_block, age);
                if worth > most {
                    (best, most) = (Some(block), worth);
                }
            }
        }
        best
    }

    /// A block drawn among those with less than `limit` valid units; `None` if there is none.
    fn random_with_less(&mut self, limit: u32) -> Option<u32> {
        let fits = |valid: &u16| u32::from(*valid) < limit;
        let candidates = self.counts.iter().filter(|valid| fits(valid)).count() as u32;
        if candidates == 0 {
            return None;
        }
        let drawn = self.draw(candidates);
        let mut fitting = (0..self.blocks()).filter(|&block| fits(&self.counts[block as usize]));
        fitting.nth(drawn as usize)
    }

    /// The best of `d` collectable blocks drawn at random; `None` if that many could not be
    /// found or none of them would free a page.
    fn best_of_draws(&mut self, d: u32) -> Option<u32> {
        let blocks = self.blocks();
        let (mut found, mut best) = (0, None);
        let mut least = self.too_many as u16;
        for _ in 0..16 * d + 64 {
            let drawn = self.draw(blocks);
            let count = self.counts[drawn as usize];
            if count & INELIGIBLE != 0 {
                continue;
            }
            if count < least {
                (least, best) = (count, Some(drawn));
            }
            found += 1;
            if found == d {
                return best;
            }
        }
        None
    }
}

impl VictimChoice for BuiltIn {
    const OWN: bool = false;

    #[inline]
    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        Ok(Some(match blocks.choice {
            Choice::Fewest => blocks.least_valid(),
            Choice::FewestDrawn(d) => {
                blocks.best_of_draws(d).unwrap_or_else(|| blocks.least_valid())
            }
            Choice::Drawn(few) => blocks.unless_all_valid(|blocks| blocks.drawn(few)),
            Choice::Oldest => blocks.unless_all_valid(|blocks| blocks.oldest()),
            Choice::MostWorth => blocks.unless_all_valid(|blocks| blocks.most_worth()),
        }))
    }
}
