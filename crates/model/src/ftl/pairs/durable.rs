//! Which pairs would not outlive a power cut: those of whose latest value something is not on flash.
//! Until all of it is, the value before, if there was one on flash, keeps its cells: a power cut
//! takes a pair back to that, and never to nothing.

use super::Pairs;
use super::entry::{Cell, Entry};
use super::space::Fresh;
use crate::io::NamespaceId;
use crate::keys::{LostPair, PairId};
use crate::number::Lpn;

impl Pairs {
    /// A cell has got to flash for the first time; the cells of the value before, if it was the
    /// last of a pair.
    pub(super) fn programmed(&mut self, cell: Lpn) -> Option<Cell> {
        let space = self.space_of_mut(cell)?;
        let pair = PairId(space.owner[(cell - space.base) as usize].checked_sub(1)?);
        let entry = space.entry(pair);
        if (cell - space.base).wrapping_sub(entry.first) >= entry.units() {
            return None;
        }
        let fresh = space.fresh.get_mut(&pair)?;
        fresh.left -= 1;
        (fresh.left == 0).then(|| space.settle_pair(pair))
    }

    /// Everything has stopped. Pairs are taken back to what they were if their latest values are
    /// not whole; so many cells of a run are not on flash, or `None` if some are nowhere.
    pub(super) fn take_back(&mut self, left: impl Fn(Cell) -> Option<u32>) {
        for (namespace, space) in self.spaces.iter_mut().enumerate() {
            let Some(space) = space else { continue };
            for (pair, of) in std::mem::take(&mut space.fresh) {
                let entry = space.entry(pair);
                match (left(space.run_of(entry)), of.before) {
                    (Some(left), before) => {
                        space.fresh.insert(pair, Fresh { left, before, ..of });
                    }
                    (None, Some(before)) => {
                        space.live = space.live - entry.units() + before.units();
                        space.recoverable -= before.units();
                        space.put(pair, before);
                        let mut changed = vec![];
                        space.index.update(before.token, before.place(), &mut changed);
                        self.lost.push(lost(namespace, pair, Some(of.since)));
                    }
                    (None, None) => {
                        let mut changed = super::Probes::default();
                        space.index.remove(entry.token, entry.place(), &mut changed);
                        space.live -= entry.units();
                        space.pairs[pair.0 as usize] = Entry::NONE;
                        self.lost.push(lost(namespace, pair, None));
                    }
                }
            }
        }
    }
}

fn lost(namespace: usize, pair: PairId, since: Option<u64>) -> LostPair {
    LostPair { namespace: NamespaceId(namespace as u32 + 1), pair, since }
}
