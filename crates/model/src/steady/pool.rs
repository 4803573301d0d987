//! The steady state of one finite pool of blocks, by running its collection policy.
//!
//! A [`Pool`] says how many blocks there are, what is written and how room is made;
//! [`Pool::settle`] performs host writes, without time, until write amplification no longer
//! changes, and returns a [`PoolState`]: for each block how many valid units of each class it
//! holds. All planes of a drive that serve the same mixture of writes settle into the same
//! statistics, so one state serves them all ([`PoolState::compositions_with_units`]).
//!
//! Host writes come one at a time and collection finishes at once, when the host takes a block, or
//! when it has filled half of one where that takes as long ([`Pool::paced`]). So the pool has
//! `keep_free` free blocks at rest. Ages are counted in units programmed. Wear, idle collection and TRIM are not
//! modelled.
//!
//! Steady means: write amplification of the last three windows differs by no more than
//! [`TOLERANCE`] plus twice the standard error of a window; or, since it rises and falls for ever
//! in a pool of few blocks, that of the last four windows from the four before. A window is as long as it takes to
//! write as many units of each class as it has, but no longer than eight times the valid
//! units. The search ends after [`WINDOWS_MAX`] windows, or when
//! [`COPIES_MAX`] times the pool's units have been copied, and then says so
//! ([`PoolState::steady`]).
//!
//! One class is started from the mean-field answer and is steady almost at once. Several are
//! started from a sequential fill, class after class, as if each were a contiguous range of
//! addresses. For classes that are rewritten the start does not matter in the end. Data that
//! is never rewritten stays in blocks of its own, as it does on a drive filled in order:
//! greedy collection never touches a block without invalid units.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::analytic::{MAX_UNITS_PER_BLOCK, mean_field};
use super::engine::{BLOCKS_MAX, Engine, Open, Rules, Tally};
use super::ordered::{Kind, Ordered};
use super::resample;
pub use super::sequence::Order;
use crate::config::{VictimPolicy, WriteFrontiers};

/// The largest number of [`Class`]es in a pool.
pub const MAX_CLASSES: usize = 8;

/// Physical units above which a smaller pool is simulated.
pub const MAX_POOL_UNITS: u64 = 1 << 20;

/// The number of blocks that a large pool is never scaled below.
pub const MIN_SCALED_BLOCKS: u32 = 1024;

/// Relative difference of write amplification, between the extremes of three successive
/// windows, that counts as none.
pub const TOLERANCE: f64 = 0.005;

/// Windows after which the search for a steady state ends.
pub const WINDOWS_MAX: u32 = 24;

/// Copies after which the search for a steady state ends, as a multiple of the pool's
/// physical units or of [`MAX_POOL_UNITS`], whichever is less.
pub const COPIES_MAX: u64 = 400;

/// A pool of blocks under a write workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Blocks, free and open ones included.
    pub blocks: u32,
    /// Mapping units in a block, 1 to [`MAX_UNITS_PER_BLOCK`].
    pub units_per_block: u32,
    /// The valid data, 1 to [`MAX_CLASSES`] classes. Together they must leave room for the
    /// free blocks, the open ones and one more.
    pub classes: Vec<Class>,
    /// Which block is collected. The blocks of d-choices are drawn with replacement. Of
    /// `RandomP`, `pages` counts units here.
    pub victim: VictimPolicy,
    /// What fills the same blocks.
    pub frontiers: WriteFrontiers,
    /// Collection starts when fewer than this many blocks are free: at least as many as there
    /// are frontiers.
    pub collect_below: u32,
    /// Collection ends when this many blocks are free; at least `collect_below`.
    pub keep_free: u32,
    /// Units that one program takes: what is moved of a collected block fills whole programs, the
    /// last of them perhaps in part. 1: no room is lost so.
    pub units_per_program: u32,
    /// Collection keeps pace with the host: a victim is emptied while a block is filled. Without a
    /// frontier of its own for hot data; those do not wait.
    pub paced: bool,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Data whose units are all rewritten equally often, at random or in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Valid units.
    pub units: u64,
    /// The share of host writes that goes to this class, relative to the other weights; 0 for
    /// data that is never rewritten.
    pub weight: f64,
    /// In which order its units are rewritten.
    pub order: Order,
    /// What of it counts as hot, with frontiers for hot and cold units.
    pub hot: HotShare,
    /// Trims for each write, at random over the same addresses: `units` are those that are there
    /// at rest, of `units * (1 + trims_per_write)`. Not of units that are rewritten in order.
    pub trims_per_write: f64,
}

/// What of a class is taken for hot. Which units are is drawn anew each time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HotShare {
    /// Of what the host writes, 0 to 1.
    pub of_writes: f64,
    /// Of what is collected, 0 to 1.
    pub of_units: f64,
}

/// Why a pool is not valid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PoolError {
    #[error("a block has 1 to {MAX_UNITS_PER_BLOCK} units, not {0}")]
    UnitsPerBlock(u32),
    #[error("a program has from 1 unit to those of a block, not {0}")]
    UnitsPerProgram(u32),
    #[error("a pool has 1 to {MAX_CLASSES} classes, not {0}")]
    Classes(usize),
    #[error("a share is a number from 0 to 1, not {0}")]
    HotShare(f64),
    /// An order passes over all units, or more.
    #[error("a round in order leaves 0 or more and less than all of the units, not a share of {0}")]
    PassedOver(f64),
    /// A weight is negative, infinite or not a number.
    #[error("a weight is a finite number of at least 0, not {0}")]
    Weight(f64),
    /// A class without units has a weight.
    #[error("class {0} has no units but is written")]
    EmptyClass(usize),
    /// `DChoices { d: 0 }`.
    #[error("d-choices draws at least one block")]
    NoChoice,
    /// The thresholds contradict each other or leave a frontier without a block.
    #[error(
        "collection must start at {least} free blocks or more and end no lower than it starts; \
         it starts below {collect_below} and ends at {keep_free}"
    )]
    Thresholds {
        /// Least free blocks at which collection can start.
        least: u32,
        collect_below: u32,
        keep_free: u32,
    },
    /// The valid data leaves no room to collect.
    #[error("{units} valid units do not fit: free and open blocks leave room for {room}")]
    DoesNotFit {
        units: u64,
        /// Most valid units.
        room: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRole {
    /// All its units have been written.
    Full,
    /// It is open for host writes (and for collected units if frontiers are shared), or for
    /// cold units.
    HostFrontier,
    /// It is open for hot units.
    HotFrontier,
    /// It is open for collected units.
    CollectionFrontier,
}

/// A block that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockComposition {
    /// Valid units of each class; entries past the pool's classes are 0.
    pub valid: [u16; MAX_CLASSES],
    /// Units programmed, valid or not.
    pub written: u16,
    pub role: BlockRole,
    /// Units programmed in the pool since the block was filled (FIFO) or since one of its
    /// units was last written or invalidated (cost-benefit); 0 for other policies.
    pub age: u64,
    /// Which of the simulated blocks ([`PoolState::blocks`]) it is, or is like.
    pub simulated: u32,
}

impl BlockComposition {
    /// Valid units of all classes.
    pub fn valid_units(&self) -> u32 {
        self.valid.iter().map(|&count| u32::from(count)).sum()
    }
}

/// A pool in its steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolState {
    /// The blocks that are not free, open ones first. A frontier that happens to be exactly
    /// full counts as full, so the collection frontier can be absent; the host's is there
    /// unless nothing is ever written or the search ended at [`COPIES_MAX`].
    pub blocks: Vec<BlockComposition>,
    pub free_blocks: u32,
    /// Blocks simulated, `blocks.len() + free_blocks`: fewer than the pool has if the pool
    /// was scaled down.
    pub pool_blocks: u32,
    pub units_per_block: u32,
    /// Valid units of each class, in the simulated blocks.
    pub units: Vec<u64>,
    /// Units programmed for each unit the host writes, over the windows compared.
    pub waf: f64,
    /// Mean number of valid units in a collected block, over the windows compared; 0 if
    /// nothing was collected.
    pub victim_valid: f64,
    /// Whether write amplification had come to rest.
    pub steady: bool,
    /// Host writes performed to get here, in simulated units.
    pub host_writes: u64,
    /// Units copied to get here, in simulated units.
    pub copied: u64,
    /// Which classes are never rewritten.
    pub(crate) never: Vec<bool>,
    /// What is where, if some of it is rewritten in order.
    pub(crate) ordered: Option<Ordered>,
}

impl Pool {
    /// Finds the steady state.
    ///
    /// A pool of more than [`MAX_POOL_UNITS`] physical units (or more than 32,768 blocks) is
    /// replaced by a smaller one with the same share of valid units in the blocks that are not
    /// kept free: first by one of fewer blocks, but no fewer than [`MIN_SCALED_BLOCKS`]; if
    /// that is not enough, each simulated unit stands for several. The state is in real units
    /// again: counts between the multiples are made up at random, class totals are exact.
    pub fn settle(&self) -> Result<PoolState, PoolError> {
        self.validate()?;
        let scaled = self.scaled();
        let grouped = scaled.grouped();
        let mut state = grouped.settle_as_is();
        if grouped.units_per_block != scaled.units_per_block {
            let units: Vec<u64> = scaled.classes.iter().map(|class| class.units).collect();
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(scaled.seed);
            state.enlarge_blocks(scaled.units_per_block, &units, &mut rng)?;
        }
        Ok(state)
    }

    fn settle_as_is(&self) -> PoolState {
        let rules = Rules {
            victim: self.victim,
            frontiers: self.frontiers,
            collect_below: self.collect_below,
            keep_free: self.keep_free,
            units_per_block: self.units_per_block as u16,
            units_per_program: self.units_per_program as u16,
            paced: self.is_paced(),
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let weights: Vec<f64> = self.classes.iter().map(|class| class.weight).collect();
        if weights.iter().all(|&weight| weight == 0.0) {
            return self.never_written();
        }
        let orders: Vec<Order> = self.classes.iter().map(|class| class.order).collect();
        let filled = match &self.classes[..] {
            [class] if !class.order.is_ordered() => self.mean_field_fill(class.units, &mut rng),
            _ => self.sequential_fill(),
        };
        let mut engine = Engine::new(rules, self.blocks as usize, &weights, &orders, &filled, rng);
        engine = engine.with_trims(self.classes.iter().map(|class| class.trims_per_write));
        if let WriteFrontiers::HotCold(_) = self.frontiers {
            engine = engine.with_heat(self.classes.iter().map(|class| class.hot));
        }
        let windows = self.run_to_rest(&mut engine);
        if (self.is_ordered() || self.is_paced()) && !windows.cut_short {
            // What the host's block holds is known only if it holds something, and that collections
            // are done only if it is half full.
            let half = u64::from(self.units_per_block / 2);
            // Collections that share the host's block may have filled it: then the next one counts.
            let written = u64::from(engine.host_frontier().written % rules.units_per_block);
            engine.run(half.saturating_sub(written), u64::MAX);
        }
        self.snapshot(&engine, windows)
    }

    fn is_paced(&self) -> bool {
        self.paced && !matches!(self.frontiers, WriteFrontiers::HotCold(_))
    }

    /// Whether some of the data is rewritten in order.
    fn is_ordered(&self) -> bool {
        self.classes.iter().any(|class| class.weight > 0.0 && class.order.is_ordered())
    }

    fn open_blocks(&self) -> u32 {
        match self.frontiers {
            WriteFrontiers::One => 1,
            WriteFrontiers::Separate | WriteFrontiers::HotCold(_) => 2,
        }
    }

    fn valid_units(&self) -> u64 {
        self.classes.iter().fold(0, |sum: u64, class| sum.saturating_add(class.units))
    }

    /// The largest number of valid units for which collection always finds invalid ones.
    fn room(&self) -> u64 {
        let reserved = u64::from(self.keep_free) + u64::from(self.open_blocks()) + 1;
        u64::from(self.blocks).saturating_sub(reserved) * u64::from(self.units_per_block)
    }

    fn validate(&self) -> Result<(), PoolError> {
        if !(1..=MAX_UNITS_PER_BLOCK).contains(&self.units_per_block) {
            return Err(PoolError::UnitsPerBlock(self.units_per_block));
        }
        if !(1..=self.units_per_block).contains(&self.units_per_program) {
            return Err(PoolError::UnitsPerProgram(self.units_per_program));
        }
        if !(1..=MAX_CLASSES).contains(&self.classes.len()) {
            return Err(PoolError::Classes(self.classes.len()));
        }
        for (index, class) in self.classes.iter().enumerate() {
            if !(class.weight >= 0.0 && class.weight.is_finite()) {
                return Err(PoolError::Weight(class.weight));
            }
            for share in [class.hot.of_writes, class.hot.of_units, class.order.in_order] {
                if !(0.0..=1.0).contains(&share) {
                    return Err(PoolError::HotShare(share));
                }
            }
            if !(class.trims_per_write >= 0.0 && class.trims_per_write.is_finite()) {
                return Err(PoolError::Weight(class.trims_per_write));
            }
            if !(0.0..1.0).contains(&class.order.passed_over) {
                return Err(PoolError::PassedOver(class.order.passed_over));
            }
            if class.units == 0 && class.weight > 0.0 {
                return Err(PoolError::EmptyClass(index));
            }
        }
        if self.victim == (VictimPolicy::DChoices { d: 0 }) {
            return Err(PoolError::NoChoice);
        }
        // A frontier of its own may take a block before the first victim is free, and so may the
        // host where that takes time.
        let least = self.open_blocks().max(if self.is_paced() { 2 } else { 1 });
        let (collect_below, keep_free) = (self.collect_below, self.keep_free);
        if collect_below < least || keep_free < collect_below {
            return Err(PoolError::Thresholds { least, collect_below, keep_free });
        }
        let (units, room) = (self.valid_units(), self.room());
        if units > room {
            return Err(PoolError::DoesNotFit { units, room });
        }
        Ok(())
    }

    /// The pool to simulate: this one, or a smaller one that behaves alike.
    fn scaled(&self) -> Pool {
        let by_units = (MAX_POOL_UNITS / u64::from(self.units_per_block)) as u32;
        let mut blocks = by_units.clamp(MIN_SCALED_BLOCKS, BLOCKS_MAX);
        // A pool that is all but full may not fit once its few spare blocks are rounded.
        while blocks < self.blocks {
            let pool = self.scaled_to(blocks);
            if pool.validate().is_ok() {
                return pool;
            }
            blocks += blocks / 2;
        }
        self.clone()
    }

    fn scaled_to(&self, blocks: u32) -> Pool {
        let ratio = f64::from(blocks) / f64::from(self.blocks);
        let scale = |count: u32| (f64::from(count) * ratio).round() as u32;
        let collect_below = scale(self.collect_below).max(self.open_blocks());
        let keep_free = collect_below + scale(self.keep_free - self.collect_below);
        let ratio =
            f64::from(blocks.saturating_sub(keep_free)) / f64::from(self.blocks - self.keep_free);
        let classes = self.classes.iter().map(|class| Class {
            units: ((class.units as f64 * ratio).round() as u64).max(class.units.min(1)),
            ..*class
        });
        Pool { blocks, classes: classes.collect(), collect_below, keep_free, ..self.clone() }
    }

    /// This pool, or one whose units stand for several of this one's.
    fn grouped(&self) -> Pool {
        let least = MAX_POOL_UNITS / u64::from(MIN_SCALED_BLOCKS);
        let units_per_block = (MAX_POOL_UNITS / u64::from(self.blocks)).max(least) as u32;
        if units_per_block >= self.units_per_block {
            return self.clone();
        }
        let ratio = f64::from(units_per_block) / f64::from(self.units_per_block);
        let classes = self.classes.iter().map(|class| Class {
            units: ((class.units as f64 * ratio).round() as u64).max(class.units.min(1)),
            ..*class
        });
        let victim = self.victim.scaled(ratio);
        // Of blocks so large little is lost.
        let units_per_program = ((f64::from(self.units_per_program) * ratio) as u32).max(1);
        let classes = classes.collect();
        let pool = Pool { units_per_block, victim, classes, units_per_program, ..self.clone() };
        if pool.validate().is_ok() { pool } else { self.clone() }
    }

    /// Blocks that are closed when collection has just finished, the open ones aside.
    fn closed_blocks(&self) -> usize {
        (self.blocks - self.keep_free - 1) as usize
    }

    /// Closed blocks of one class whose valid counts are evenly spaced quantiles of the
    /// mean-field distribution, corrected to sum to `units`.
    fn mean_field_fill(&self, units: u64, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<u16>> {
        let closed = self.closed_blocks();
        let rho = units as f64
            / (f64::from(self.blocks - self.keep_free) * f64::from(self.units_per_block));
        let Ok(state) = mean_field(self.units_per_block, rho, self.victim) else {
            return self.sequential_fill();
        };
        let mut below = state.valid[0];
        let mut valid: u16 = 0;
        let mut blocks = Vec::with_capacity(closed);
        for index in 0..closed {
            let quantile = (index as f64 + 0.5) / closed as f64;
            while below < quantile && u32::from(valid) < self.units_per_block {
                valid += 1;
                below += state.valid[usize::from(valid)];
            }
            blocks.push(BlockComposition {
                valid: [valid, 0, 0, 0, 0, 0, 0, 0],
                written: self.units_per_block as u16,
                role: BlockRole::Full,
                age: 0,
                simulated: 0,
            });
        }
        resample::correct(&mut blocks, &[units], &[], rng).expect("validated to fit");
        blocks.iter().map(|block| vec![block.valid[0]]).collect()
    }

    /// Closed blocks filled with one class after the other. The last one may have a rest of
    /// invalid units.
    fn sequential_fill(&self) -> Vec<Vec<u16>> {
        let mut blocks = vec![];
        let mut block = vec![0; self.classes.len()];
        let mut room = u64::from(self.units_per_block);
        for (index, class) in self.classes.iter().enumerate() {
            let mut left = class.units;
            while left > 0 {
                let part = left.min(room);
                block[index] += part as u16;
                left -= part;
                room -= part;
                if room == 0 {
                    blocks.push(std::mem::replace(&mut block, vec![0; self.classes.len()]));
                    room = u64::from(self.units_per_block);
                }
            }
        }
        if room < u64::from(self.units_per_block) {
            blocks.push(block);
        }
        blocks
    }

    /// The state of a pool that was filled once and is never written again.
    fn never_written(&self) -> PoolState {
        let blocks: Vec<BlockComposition> = self
            .sequential_fill()
            .iter()
            .zip(0..)
            .map(|(counts, simulated)| {
                let valid = std::array::from_fn(|index| counts.get(index).copied().unwrap_or(0));
                let written = self.units_per_block as u16;
                BlockComposition { valid, written, role: BlockRole::Full, age: 0, simulated }
            })
            .collect();
        PoolState {
            free_blocks: self.blocks - blocks.len() as u32,
            blocks,
            pool_blocks: self.blocks,
            units_per_block: self.units_per_block,
            units: self.classes.iter().map(|class| class.units).collect(),
            waf: 1.0,
            victim_valid: 0.0,
            steady: true,
            host_writes: 0,
            copied: 0,
            never: self.never(),
            ordered: None,
        }
    }

    fn never(&self) -> Vec<bool> {
        self.classes.iter().map(|class| class.weight == 0.0).collect()
    }

    fn window(&self) -> u64 {
        let units = self.valid_units();
        let weights: f64 = self.classes.iter().map(|class| class.weight).sum();
        let rewritten = self.classes.iter().filter(|class| class.weight > 0.0);
        let turn = rewritten.map(|class| class.units as f64 * weights / class.weight);
        let slowest = turn.fold(0.0, f64::max);
        // Small pools need many collections in a window to say anything.
        (slowest as u64).min(8 * units).max(16 * u64::from(self.units_per_block))
    }

    fn run_to_rest(&self, engine: &mut Engine) -> Windows {
        let window = self.window();
        let physical = u64::from(self.blocks) * u64::from(self.units_per_block);
        let copied_max = COPIES_MAX * physical.min(MAX_POOL_UNITS);
        let mut windows =
            Windows { units_per_block: self.units_per_block, tallies: vec![], cut_short: false };
        windows.tallies.push(engine.tally());
        for _ in 0..WINDOWS_MAX {
            windows.cut_short = !engine.run(window, copied_max);
            windows.tallies.push(engine.tally());
            if windows.cut_short || windows.steady() {
                break;
            }
        }
        windows
    }

    fn snapshot(&self, engine: &Engine, windows: Windows) -> PoolState {
        let mut blocks: Vec<BlockComposition> = Vec::with_capacity(engine.blocks());
        let mut places = Vec::with_capacity(engine.blocks());
        let host = engine.host_frontier();
        let (hot, collected) = (engine.hot_frontier(), engine.collection_frontier());
        let composition = |block: usize, written: u32, role: BlockRole| BlockComposition {
            valid: std::array::from_fn(|class| {
                if class < self.classes.len() { engine.count(block, class) } else { 0 }
            }),
            written: written as u16,
            role: if written == self.units_per_block { BlockRole::Full } else { role },
            age: engine.age(block),
            simulated: 0,
        };
        let mut add = |block, written, role| {
            let simulated = places.len() as u32;
            places.push(block);
            blocks.push(BlockComposition { simulated, ..composition(block, written, role) });
        };
        let mut add_open = |open: Open, role| add(open.block, u32::from(open.written), role);
        add_open(host, BlockRole::HostFrontier);
        hot.into_iter().for_each(|block| add_open(block, BlockRole::HotFrontier));
        collected.into_iter().for_each(|block| add_open(block, BlockRole::CollectionFrontier));
        for block in 0..engine.blocks() {
            let others = [hot, collected].into_iter().flatten();
            let is_open = block == host.block || others.into_iter().any(|open| open.block == block);
            if !engine.is_free(block) && !is_open {
                add(block, self.units_per_block, BlockRole::Full);
            }
        }
        let ordered = self.is_ordered().then(|| self.ordered(engine, &blocks, &places));
        let tally = engine.tally();
        PoolState {
            blocks,
            free_blocks: engine.free_blocks() as u32,
            pool_blocks: self.blocks,
            units_per_block: self.units_per_block,
            units: self.classes.iter().map(|class| class.units).collect(),
            waf: windows.waf(),
            victim_valid: windows.victim_valid(),
            steady: windows.steady(),
            host_writes: tally.host_writes,
            copied: tally.copied,
            never: self.never(),
            ordered,
        }
    }

    /// What is where in `blocks`, which are those that the engine has at `places`.
    fn ordered(&self, engine: &Engine, blocks: &[BlockComposition], places: &[usize]) -> Ordered {
        let kind = |class| match engine.is_rewritten(class) {
            (false, _) => Kind::Never,
            (true, false) => Kind::Uniformly,
            (true, true) => Kind::InOrder,
        };
        let kinds = (0..self.classes.len()).map(kind).collect();
        let mut ordered = Ordered::new(kinds, self.units_per_block);
        for (block, &place) in blocks.iter().zip(places) {
            let programmed = std::array::from_fn(|class| match class < self.classes.len() {
                true => engine.programmed(place, class),
                false => 0,
            });
            ordered.add(engine.opened(place), block.written, programmed, engine.runs(place));
        }
        ordered
    }
}

/// The tallies at the ends of successive windows, the start first.
struct Windows {
    units_per_block: u32,
    tallies: Vec<Tally>,
    /// The last window ended in the middle of collection.
    cut_short: bool,
}

impl Windows {
    const COMPARED: usize = 3;
    /// Windows of which the earlier half and the later are compared.
    const HALVES: usize = 8;

    fn steady(&self) -> bool {
        self.compared().is_some()
    }

    /// How many of the last windows show that write amplification is at rest.
    fn compared(&self) -> Option<usize> {
        // The first window holds the way from the start to the steady state.
        let windows = self.tallies.len() - 1;
        if self.cut_short || windows < Windows::COMPARED {
            return None;
        }
        if self.alike() {
            return Some(Windows::COMPARED);
        }
        (windows > Windows::HALVES && self.halves_alike()).then_some(Windows::HALVES)
    }

    fn alike(&self) -> bool {
        let first = self.tallies.len() - Windows::COMPARED - 1;
        let (mut low, mut high, mut error) = (f64::INFINITY, 0.0_f64, 0.0_f64);
        for pair in self.tallies[first..].windows(2) {
            let (waf, standard_error) = self.amplification(&pair[0], &pair[1]);
            (low, high, error) = (low.min(waf), high.max(waf), error.max(standard_error));
        }
        high - low <= TOLERANCE * high + 2.0 * error
    }

    /// In few blocks write amplification rises and falls as collection goes round them, for ever.
    fn halves_alike(&self) -> bool {
        let end = self.tallies.len() - 1;
        let middle = end - Windows::HALVES / 2;
        let half = |from: usize, to| self.amplification(&self.tallies[from], &self.tallies[to]);
        let (earlier, error) = half(end - Windows::HALVES, middle);
        let (later, other) = half(middle, end);
        (earlier - later).abs() <= TOLERANCE * earlier.max(later) + 2.0 * error.max(other)
    }

    fn last(&self) -> (&Tally, &Tally) {
        let end = self.tallies.len() - 1;
        let compared = self.compared().unwrap_or(Windows::COMPARED);
        // The first window counts only if there is no other.
        let start = end.saturating_sub(compared).max(usize::from(end > 1));
        (&self.tallies[start], &self.tallies[end])
    }

    fn waf(&self) -> f64 {
        let (from, to) = self.last();
        self.amplification(from, to).0
    }

    fn victim_valid(&self) -> f64 {
        let (from, to) = self.last();
        (to.copied - from.copied) as f64 / ((to.collections - from.collections).max(1)) as f64
    }

    /// Write amplification and its standard error, as far as it comes from the victims'
    /// spread.
    fn amplification(&self, from: &Tally, to: &Tally) -> (f64, f64) {
        let host = (to.host_writes - from.host_writes) as f64;
        let copied = (to.copied - from.copied) as f64;
        let collections = (to.collections - from.collections) as f64;
        if host == 0.0 || collections == 0.0 {
            return (1.0, 0.0);
        }
        let waf = 1.0 + copied / host;
        let mean = copied / collections;
        let square = (to.copied_squared - from.copied_squared) as f64 / collections;
        let variance = (square - mean * mean).max(0.0);
        let error = waf * waf * (variance / collections).sqrt() / f64::from(self.units_per_block);
        (waf, error)
    }
}

#[cfg(test)]
mod tests;
