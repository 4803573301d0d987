//! Victim policies of garbage collection, each declared once: what it has noted of blocks, and how it
//! chooses. Blocks, superblocks and the computed steady state all go by the declaration.

use serde::{Deserialize, Serialize};

/// Which block is collected. Blocks that are free, being filled or being collected are never
/// candidates. Nothing is collected in a plane without a block that has a page's worth of
/// invalid units; where a policy finds none of the blocks that it would take, it takes the one
/// with the fewest valid units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The block with the fewest valid units.
    Greedy,
    /// The one with the fewest valid units among `d` blocks drawn at random (RGA).
    DChoices { d: u32 },
    /// Any block, drawn at random.
    Random,
    /// A block drawn at random among those with enough invalid units (MQSim's RANDOM_P, whose
    /// victims have at least one).
    RandomP {
        /// Pages' worth of invalid units that the block has at least, 1 or more.
        pages: u32,
    },
    /// A block drawn at random among those with fewer valid units than the average of all
    /// candidates (Random++ of Van Houdt, SIGMETRICS 2013).
    RandomPlusPlus,
    /// The block that was filled longest ago (Desnoyers, SYSTOR 2012: LRU cleaning).
    Fifo,
    /// The block with the largest `age (1 - u) / 2u`, where `u` is its share of valid units
    /// and its age the pages programmed in the drive since a unit of it was last written or
    /// invalidated (Kawaguchi, Nishioka and Motoda, USENIX 1995, with writes for time).
    CostBenefit,
}

/// What a policy has noted of each block, as a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stamps {
    None,
    Filled,
    /// When it was filled or a unit of it was invalidated last.
    Changed,
}

/// How a policy chooses among blocks of which something can be won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Choice {
    /// The fewest valid units of all.
    Fewest,
    /// The fewest valid units of so many drawn at random.
    FewestDrawn(u32),
    /// One drawn at random among those with few enough valid units; the fewest if there is none.
    Drawn(Few),
    /// The block with the least stamp.
    Oldest,
    /// The largest [`worth`], by stamp.
    MostWorth,
}

/// Which blocks have few enough valid units to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Few {
    Any,
    /// Those with so many pages' worth of invalid ones.
    Invalid {
        pages: u32,
    },
    /// Those with fewer than all have on the average.
    BelowMean,
}

/// What a policy notes of blocks, and how it chooses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Declaration {
    pub(crate) stamps: Stamps,
    pub(crate) choice: Choice,
    /// Whether it takes a block of which nothing is won, once something can be won of another.
    pub(crate) takes_what_comes: bool,
}

impl VictimPolicy {
    pub(crate) const fn declaration(self) -> Declaration {
        let (stamps, choice) = match self {
            VictimPolicy::Greedy => (Stamps::None, Choice::Fewest),
            VictimPolicy::DChoices { d } => (Stamps::None, Choice::FewestDrawn(d)),
            VictimPolicy::Random => (Stamps::None, Choice::Drawn(Few::Any)),
            VictimPolicy::RandomP { pages } => {
                (Stamps::None, Choice::Drawn(Few::Invalid { pages }))
            }
            VictimPolicy::RandomPlusPlus => (Stamps::None, Choice::Drawn(Few::BelowMean)),
            VictimPolicy::Fifo => (Stamps::Filled, Choice::Oldest),
            VictimPolicy::CostBenefit => (Stamps::Changed, Choice::MostWorth),
        };
        let takes_what_comes = matches!(self, VictimPolicy::Random | VictimPolicy::Fifo);
        Declaration { stamps, choice, takes_what_comes }
    }

    /// The same policy where `by` pages count as one page did.
    pub(crate) fn scaled(self, by: f64) -> VictimPolicy {
        match self {
            VictimPolicy::RandomP { pages } => {
                VictimPolicy::RandomP { pages: ((f64::from(pages) * by).round() as u32).max(1) }
            }
            other => other,
        }
    }

    /// A number of the policy that has to lie within `1..=max`: its key, the number, `max` in a
    /// plane of `blocks` blocks of `pages` pages.
    pub(crate) fn parameter(self, blocks: u32, pages: u32) -> Option<(&'static str, u32, u32)> {
        match self {
            VictimPolicy::DChoices { d } => Some(("gc.d", d, blocks)),
            VictimPolicy::RandomP { pages: least } => Some(("gc.invalid_pages", least, pages)),
            _ => None,
        }
    }
}

impl Declaration {
    /// Whether blocks are stamped at all.
    pub(crate) fn stamps_blocks(self) -> bool {
        self.stamps != Stamps::None
    }

    /// Whether every unit that is invalidated is noted.
    pub(crate) fn follows_changes(self) -> bool {
        self.stamps == Stamps::Changed
    }
}

/// What collecting a block is worth under the cost-benefit policy: its age, times the share
/// of its units that is won, over the share that has to be read and written.
pub(crate) fn worth(valid: u32, units_per_block: u32, age: u64) -> f64 {
    let won = f64::from(units_per_block - valid);
    // One more, so that among blocks that have just changed the share won decides.
    won * (age + 1) as f64 / (2.0 * f64::from(valid))
}
