//! A key-value namespace: its pairs, their cells, and its index.

use super::cells::Cells;
use super::compare::{Likeness, Own};
use super::entry::{Cell, Entry};
use super::index::Index;
use crate::keys::PairId;
use crate::number::{CommandIndex, Lpn, Mvpn};
use std::collections::{BTreeMap, VecDeque};

/// Cells that commands still read or write are not given away. Counted by a few bits of the first
/// cell: those of other runs may wait with them.
pub(super) const HOLD_BITS: u32 = 12;

pub(super) struct Space {
    /// Its cells over the whole drive.
    pub(super) base: Lpn,
    /// Most cells that pairs may have.
    pub(super) capacity: u32,
    /// Cells of the pairs that there are, and those that commands will drop.
    pub(super) live: u32,
    pub(super) leaving: u32,
    /// Cells of values that a power cut would bring back.
    pub(super) recoverable: u32,
    pub(super) cells: Cells,
    pub(super) pairs: Vec<Entry>,
    /// The pair that has, or had last, each cell; plus one.
    pub(super) owner: Vec<u32>,
    /// Its first index page over the whole drive.
    pub(super) index_base: Mvpn,
    /// Most index pages of the namespace.
    pub(super) pages_max: u32,
    pub(super) index: Index,
    pub(super) likeness: Likeness,
    /// Commands at work on runs, by some bits of their first cell.
    pub(super) holds: Vec<u32>,
    /// Runs that go as soon as nobody is at work on them.
    pub(super) doomed: Vec<Cell>,
    /// Pairs whose latest value is not all on flash.
    pub(super) fresh: BTreeMap<PairId, Fresh>,
    /// Stores that found room so far; see [`LostPair::since`](crate::keys::LostPair::since).
    pub(super) stores: u64,
    /// Commands that wait until the index has caught up.
    pub(super) stalled: VecDeque<CommandIndex>,
}

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
    pub(super) fn cells_count(&self) -> u32 {
        self.owner.len() as u32
    }

    /// Names of pairs are less than this: they are dense, so that there are no more than cells, but
    /// for those that are free.
    pub(super) fn names_max(&self) -> u64 {
        2 * self.owner.len() as u64 + (1 << 16)
    }

    /// The cells of a pair, over the whole drive.
    pub(super) fn run_of(&self, entry: Entry) -> Cell {
        match entry.is_vacant() {
            true => Cell::NONE,
            false => Cell { first: self.base + entry.first, units: entry.units() },
        }
    }

    /// The pair of this name, or [`Entry::NONE`].
    pub(super) fn entry(&self, pair: PairId) -> Entry {
        self.pairs.get(pair.0 as usize).copied().unwrap_or(Entry::NONE)
    }

    #[inline]
    pub(super) fn hold_of(&mut self, run: Cell) -> &mut u32 {
        let slot = (run.first - self.base) & ((1 << HOLD_BITS) - 1);
        &mut self.holds[slot as usize]
    }

    /// A pair that is looked for; whether its value is read, and its key with it.
    pub(super) fn own(&self, entry: Entry, reads: bool) -> Own {
        Own { place: entry.place(), cell: self.base + entry.first, read: reads }
    }

    /// Writes down what a name stands for, and whose cells they are.
    pub(super) fn put(&mut self, pair: PairId, entry: Entry) {
        let at = pair.0 as usize;
        if self.pairs.len() <= at {
            self.pairs.resize(at + 1, Entry::NONE);
        }
        self.pairs[at] = entry;
        let first = entry.first as usize;
        self.owner[first..first + entry.units() as usize].fill(pair.0 + 1);
    }

    /// A pair is stored in so many cells; `before`: what it was. The cells of a value that never
    /// got to flash, which can go.
    pub(super) fn refresh(&mut self, pair: PairId, units: u32, before: Entry) -> Cell {
        let stamp = self.stores;
        self.stores += 1;
        let earlier = self.fresh.remove(&pair);
        let (durable, since) = match earlier {
            Some(fresh) => (fresh.before, fresh.since),
            None => (Some(before).filter(|before| !before.is_vacant()), stamp),
        };
        self.fresh.insert(pair, Fresh { left: units, before: durable, since });
        match earlier {
            Some(_) => {
                self.leaving += before.units();
                self.run_of(before)
            }
            None => {
                self.recoverable += before.units();
                Cell::NONE
            }
        }
    }

    /// Nothing of a pair waits to get to flash any more. The cells of the value before, which can
    /// go.
    pub(super) fn settle_pair(&mut self, pair: PairId) -> Cell {
        let before = self.fresh.remove(&pair).and_then(|fresh| fresh.before);
        let Some(before) = before else { return Cell::NONE };
        self.recoverable -= before.units();
        self.leaving += before.units();
        self.run_of(before)
    }

    /// Cells of values that are kept for the case of a power cut.
    pub(super) fn kept_runs(&self) -> impl Iterator<Item = Entry> {
        self.fresh.values().filter_map(|fresh| fresh.before)
    }
}
