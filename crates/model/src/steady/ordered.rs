//! From the blocks of one simulated pool to those of a plane, where some classes are rewritten in
//! order.
//!
//! Their blocks cannot be drawn at random, nor be given or lose a unit each: a block of a
//! sequential flow is valid as a whole or not at all. What a plane has more or less of such
//! units than the pool is therefore the end of the sequence: units that are rewritten next, in the
//! blocks that were filled longest ago.

use rand::Rng;

use super::pool::{BlockComposition, BlockRole, MAX_CLASSES, PoolError, PoolState};
use super::resample;
use super::sequence::Run;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Never,
    Uniformly,
    InOrder,
}

/// What a simulated block holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderedBlock {
    /// Blocks that were opened before it.
    opened: u64,
    written: u16,
    /// Units of each class that were programmed, if it is rewritten in order; otherwise those that
    /// are valid.
    programmed: [u16; MAX_CLASSES],
    /// Its units that are rewritten in order, as they were programmed.
    runs: Vec<Run>,
}

/// The blocks of a pool, those of [`PoolState::blocks`], in the units that were simulated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ordered {
    pub(crate) kinds: Vec<Kind>,
    units_per_block: u32,
    blocks: Vec<OrderedBlock>,
}

/// A part of a plane's sequence: units of one class that follow one another, in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Parts are rewritten by rising numbers.
    pub(crate) rank: i64,
    pub(crate) units: u32,
}

impl Ordered {
    pub(super) fn new(kinds: Vec<Kind>, units_per_block: u32) -> Ordered {
        Ordered { kinds, units_per_block, blocks: vec![] }
    }

    /// Adds a block; blocks are added in the order of [`PoolState::blocks`].
    pub(super) fn add(
        &mut self,
        opened: u64,
        written: u16,
        programmed: [u16; MAX_CLASSES],
        runs: Vec<Run>,
    ) {
        self.blocks.push(OrderedBlock { opened, written, programmed, runs });
    }

    fn of(&self, block: &BlockComposition) -> &OrderedBlock {
        &self.blocks[block.simulated as usize]
    }

    /// Units of `class` that were programmed in `block`, valid or not: no fewer than are valid, and
    /// no more than leave room for the others that are.
    pub(crate) fn programmed(&self, block: &BlockComposition, class: usize) -> u32 {
        let of = self.of(block);
        let all = u64::from(of.programmed[class]) * u64::from(block.written);
        let most = u32::from(block.written) - block.valid_units();
        let valid = u32::from(block.valid[class]);
        ((all / u64::from(of.written.max(1))) as u32).clamp(valid, valid + most)
    }

    /// The valid units of `class` in `block`, in the order in which they were programmed.
    pub(crate) fn parts(&self, block: &BlockComposition, class: usize, parts: &mut Vec<Part>) {
        parts.clear();
        let of = self.of(block);
        let valid = u64::from(block.valid[class]);
        let runs = of.runs.iter().filter(|run| usize::from(run.class) == class);
        let simulated: u64 = runs.clone().map(|run| u64::from(run.units)).sum();
        if valid == 0 {
            return;
        }
        if simulated == 0 {
            // They were all rewritten in the pool: of blocks like that, the last are.
            let rank = of.opened as i64 - (1 << 48);
            parts.push(Part { rank, units: valid as u32 });
            return;
        }
        let (scaled, from) = match block.role {
            BlockRole::Full => (u64::from(block.written), u64::from(self.units_per_block)),
            _ => (valid, simulated),
        };
        let (mut before, mut given) = (0, 0);
        for run in runs {
            before += u64::from(run.units);
            let upto = before * scaled / from;
            parts.push(Part { rank: i64::from(run.position), units: (upto - given) as u32 });
            given = upto;
        }
        // What is too little or too much is what is rewritten first.
        let mut by_rank: Vec<usize> = (0..parts.len()).collect();
        by_rank.sort_by_key(|&part| parts[part].rank);
        parts[by_rank[0]].units += valid.saturating_sub(given) as u32;
        let mut more = given.saturating_sub(valid) as u32;
        for part in by_rank {
            let less = more.min(parts[part].units);
            parts[part].units -= less;
            more -= less;
        }
        parts.retain(|part| part.units > 0);
    }
}

impl PoolState {
    /// Compositions for the `blocks` blocks of a plane that are not free: the open ones first, then
    /// full ones, those that were filled longest ago first; each of this state's equally often,
    /// give or take one.
    pub(crate) fn compositions_in_order(
        &self,
        ordered: &Ordered,
        blocks: usize,
    ) -> Vec<BlockComposition> {
        let (mut full, mut chosen): (Vec<_>, Vec<_>) =
            self.blocks.iter().partition(|block| block.role == BlockRole::Full);
        full.sort_by_key(|block| ordered.of(block).opened);
        chosen.truncate(blocks);
        let wanted = blocks - chosen.len();
        if !full.is_empty() {
            chosen.extend((0..wanted).map(|at| full[at * full.len() / wanted]));
        }
        chosen
    }

    /// Gives the full blocks of a plane, in the order of [`PoolState::compositions_in_order`],
    /// valid units until there are `units[class]` of each class, or takes them away.
    pub(crate) fn fit(
        &self,
        ordered: &Ordered,
        blocks: &mut [BlockComposition],
        units: &[u64],
        rng: &mut impl Rng,
    ) -> Result<(), PoolError> {
        resample::has_room(blocks, units)?;
        let count = |blocks: &[BlockComposition], class: usize| {
            blocks.iter().map(|block| u64::from(block.valid[class])).sum::<u64>()
        };
        let open = blocks.iter().take_while(|block| block.role != BlockRole::Full).count();
        for (class, &kind) in ordered.kinds.iter().enumerate() {
            let more = count(blocks, class).saturating_sub(units[class]);
            let full = &mut blocks[open..];
            let left = match kind {
                Kind::Never => take_from_few(full, class, more),
                Kind::Uniformly => more,
                Kind::InOrder => take_oldest(ordered, full, class, more),
            };
            resample::remove(blocks, rng, left, class);
        }
        for kind in [Kind::Never, Kind::InOrder, Kind::Uniformly] {
            for (class, _) in ordered.kinds.iter().enumerate().filter(|(_, of)| **of == kind) {
                let less = units[class].saturating_sub(count(blocks, class));
                let full = &mut blocks[open..];
                let left = match kind {
                    Kind::Never => give_to_few(full, class, less),
                    Kind::Uniformly => less,
                    Kind::InOrder => give_oldest(ordered, full, class, less),
                };
                resample::add(blocks, rng, left, class);
            }
        }
        Ok(())
    }
}

/// Takes `count` units from the blocks that hold the fewest of the class; returns what is left to
/// take.
pub(super) fn take_from_few(blocks: &mut [BlockComposition], class: usize, mut count: u64) -> u64 {
    let mut by_units: Vec<usize> = (0..blocks.len()).collect();
    by_units.sort_by_key(|&block| blocks[block].valid[class]);
    for block in by_units {
        let less = count.min(u64::from(blocks[block].valid[class]));
        blocks[block].valid[class] -= less as u16;
        count -= less;
    }
    count
}

/// Gives `count` units to as few blocks as possible, to those first that hold some of the class;
/// returns what is left to give.
pub(super) fn give_to_few(blocks: &mut [BlockComposition], class: usize, mut count: u64) -> u64 {
    let mut by_room: Vec<usize> = (0..blocks.len()).collect();
    by_room.sort_by_key(|&block| (blocks[block].valid[class] == 0, blocks[block].valid_units()));
    for block in by_room {
        let block = &mut blocks[block];
        let more = count.min(u64::from(u32::from(block.written) - block.valid_units()));
        block.valid[class] += more as u16;
        count -= more;
    }
    count
}

/// Takes the `count` units that are rewritten next; returns what is left to take.
fn take_oldest(
    ordered: &Ordered,
    blocks: &mut [BlockComposition],
    class: usize,
    mut count: u64,
) -> u64 {
    if count == 0 {
        return 0;
    }
    let (mut all, mut parts) = (vec![], vec![]);
    for (at, block) in blocks.iter().enumerate() {
        ordered.parts(block, class, &mut parts);
        all.extend(parts.iter().map(|part| (part.rank, at, part.units)));
    }
    all.sort_unstable();
    for (_, at, units) in all {
        let valid = &mut blocks[at].valid[class];
        let less = count.min(u64::from(units)).min(u64::from(*valid));
        *valid -= less as u16;
        count -= less;
    }
    count
}

/// Gives `count` units to the blocks in which units of the class were rewritten last; returns what
/// is left to give.
fn give_oldest(
    ordered: &Ordered,
    blocks: &mut [BlockComposition],
    class: usize,
    mut count: u64,
) -> u64 {
    for block in blocks.iter_mut().rev() {
        let room = ordered.programmed(block, class) - u32::from(block.valid[class]);
        let more = count.min(u64::from(room));
        block.valid[class] += more as u16;
        count -= more;
    }
    count
}
