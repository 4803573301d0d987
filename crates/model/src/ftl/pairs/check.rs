//! Invariants of pairs and their index, walked in full; for tests.

use super::Pairs;
use super::space::Space;
use crate::ftl::Ftl;
use crate::invariant::{BrokenInvariant, hold};
use crate::number::Lpn;

impl Ftl {
    /// Whether pairs have cells of their own, the index says what there is, and nothing is on
    /// flash that no pair has.
    pub(crate) fn check_pairs(
        &self,
        is_cached: impl Fn(Lpn) -> bool,
    ) -> Result<(), BrokenInvariant> {
        let Some(pairs) = &self.pairs else { return Ok(()) };
        for space in pairs.spaces.iter().flatten() {
            pairs.check_space(space)?;
            for cell in 0..space.cells_count() {
                let lpn = space.base + cell;
                hold(
                    space.cells.is_taken(cell) || self.ppn(lpn).is_none() || is_cached(lpn),
                    || format!("cell {lpn} is of no pair, but on flash"),
                )?;
            }
        }
        Ok(())
    }
}

impl Pairs {
    fn check_space(&self, space: &Space) -> Result<(), BrokenInvariant> {
        let mut taken = vec![false; space.owner.len()];
        let mut take = |first: Lpn, units: u32, what: &str| {
            for lpn in first.run(units) {
                let cell = lpn - space.base;
                let twice = std::mem::replace(&mut taken[cell as usize], true);
                hold(!twice && space.cells.is_taken(cell), || {
                    format!("cell {cell} of {what} is free, or another's")
                })?;
            }
            Ok(())
        };
        let (mut live, mut recoverable) = (0, 0);
        for (pair, entry) in space.pairs.iter().enumerate().filter(|(_, it)| !it.is_vacant()) {
            let run = space.run_of(*entry);
            live += run.units;
            take(run.first, run.units, &format!("pair {pair}"))?;
            let owned = (entry.first..entry.first + run.units)
                .all(|cell| space.owner[cell as usize] == pair as u32 + 1);
            hold(owned, || format!("a cell of pair {pair} says that it is another's"))?;
        }
        for run in &space.doomed {
            take(run.first, run.units, "a pair that is gone")?;
        }
        let doomed: u32 = space.doomed.iter().map(|run| run.units).sum();
        let counted = space.cells.taken();
        for entry in space.kept_runs() {
            let run = space.run_of(entry);
            take(run.first, run.units, "a value that is kept")?;
            recoverable += run.units;
        }
        hold(recoverable == space.recoverable, || {
            format!("{recoverable} cells are kept, {} counted", space.recoverable)
        })?;
        hold(live + doomed + recoverable + space.leaving == counted, || {
            format!(
                "{live}, {doomed}, {recoverable} and {} cells are taken, not {counted}",
                space.leaving
            )
        })?;
        hold(live == space.live, || format!("{live} cells are live, {} are counted", space.live))?;
        let there = space.pairs.iter().filter(|entry| !entry.is_vacant());
        let mut keys = there.map(|entry| (entry.token, entry.place()));
        space.index.check(&mut keys).map_err(BrokenInvariant)
    }
}
