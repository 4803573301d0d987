//! Which pairs would not outlive a power cut: those of whose latest value something is not on flash.
//! Until all of it is, the value before, if there was one on flash, keeps its cells: a power cut
//! takes a pair back to that, and never to nothing.

use super::entry::{Cell, Entry};
use super::{Pairs, Space};
use crate::drive::Drive;
use crate::io::NamespaceId;
use crate::keys::{LostPair, PairId};
use crate::number::Lpn;

/// A pair whose latest value is not all on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fresh {
    /// Cells that are not on flash.
    pub(super) left: u32,
    /// The value that is, as the pair would be without those that came later.
    pub(super) before: Option<Entry>,
    /// Which Store of the namespace was the first since then, counted from 0.
    pub(super) since: u64,
}

impl Space {
    /// A pair is stored in so many cells; `before`: what it was. The cells of a value that never
    /// got to flash, which can go.
    pub(super) fn refresh(&mut self, pair: PairId, units: u32, before: Entry) -> Cell {
        let stamp = self.stores;
        self.stores += 1;
        let earlier = self.fresh.remove(&pair);
        let (kept, since) = match earlier {
            Some(fresh) => (fresh.before, fresh.since),
            None => (Some(before).filter(|before| !before.is_vacant()), stamp),
        };
        self.fresh.insert(pair, Fresh { left: units, before: kept, since });
        match earlier {
            Some(_) => {
                self.leaving += before.units();
                self.run_of(before)
            }
            None => {
                self.kept += before.units();
                Cell::NONE
            }
        }
    }

    /// Nothing of a pair waits to get to flash any more. The cells of the value before, which can
    /// go.
    pub(super) fn settle_pair(&mut self, pair: PairId) -> Cell {
        let before = self.fresh.remove(&pair).and_then(|fresh| fresh.before);
        let Some(before) = before else { return Cell::NONE };
        self.kept -= before.units();
        self.leaving += before.units();
        self.run_of(before)
    }

    /// Cells of values that are kept for the case of a power cut.
    pub(super) fn kept_runs(&self) -> impl Iterator<Item = Entry> {
        self.fresh.values().filter_map(|fresh| fresh.before)
    }
}

impl Pairs {
    /// A cell has got to flash for the first time; the cells of the value before, if it was the
    /// last of a pair.
    fn programmed(&mut self, cell: Lpn) -> Option<Cell> {
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
    fn take_back(&mut self, left: impl Fn(Cell) -> Option<u32>) {
        for (namespace, space) in self.spaces.iter_mut().enumerate() {
            let Some(space) = space else { continue };
            let mut fresh: Vec<(PairId, Fresh)> = space.fresh.drain().collect();
            fresh.sort_unstable_by_key(|(pair, _)| *pair);
            for (pair, of) in fresh {
                let entry = space.entry(pair);
                match (left(space.run_of(entry)), of.before) {
                    (Some(left), before) => {
                        space.fresh.insert(pair, Fresh { left, before, ..of });
                    }
                    (None, Some(before)) => {
                        space.live = space.live - entry.units() + before.units();
                        space.kept -= before.units();
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

impl Drive {
    /// A cell has got to flash for the first time.
    pub(crate) fn cell_programmed(&mut self, cell: Lpn) {
        let before = self.ftl.pairs_mut().and_then(|pairs| pairs.programmed(cell));
        if let Some(before) = before {
            self.drop_run(self.ftl.namespace_index(cell), before);
        }
    }

    /// Nobody is at work on anything any more: what is not whole is taken back, and the cells that
    /// no pair has are free.
    pub(crate) fn stop_pairs(&mut self, power_cut: bool) {
        let (ftl, cache) = (&mut self.ftl, &self.cache);
        let Some(mut pairs) = ftl.pairs.take() else { return };
        pairs.take_back(|run| {
            let mut left = 0;
            for lpn in run.first.upto(run.end()) {
                if ftl.mapping.table.ppn(lpn).is_none() {
                    cache.as_ref().and_then(|cache| cache.find(lpn))?;
                    left += 1;
                }
            }
            Some(left)
        });
        let free = pairs.stop(power_cut);
        ftl.pairs = Some(pairs);
        for cell in free {
            self.free_run(self.ftl.namespace_index(cell.first), cell);
        }
    }

    /// What a power cut has lost of key-value namespaces since this was last asked.
    pub fn take_lost_pairs(&mut self) -> Vec<LostPair> {
        self.ftl.pairs_mut().map_or(vec![], |pairs| std::mem::take(&mut pairs.lost))
    }
}
