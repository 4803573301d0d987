//! Key-value namespaces: pairs, each a run of mapping units, and the index of their keys.
//!
//! A pair (header, key and value) takes whole mapping units that follow one another, its *cells*. So
//! whatever reads, writes, caches, packs, collects and levels units does the same for pairs. A pair
//! that is stored again gets other cells, and the old ones are deallocated: data is appended, never
//! overwritten. The index's pages are translation pages.
//!
//! Which key a pair has is known outside; here it has a number, and a token that says where in the
//! index its key belongs. The set of keys changes at the instant of the decision
//! ([`crate::keys::Decision`]), and with it what the index is said to hold; the pages that say so
//! are then looked at, changed and written as time allows.

mod background;
mod cells;
mod change;
mod check;
mod compare;
mod dram;
mod durable;
mod dynamic_hash;
mod entry;
mod fill;
mod filter;
mod hash;
pub(crate) mod index;
mod lsm;
mod numbers;
mod own;
mod pages;
mod run;
mod space;
mod state;

use crate::config::{Config, KeyValue};
use crate::io::NamespaceId;
use crate::keys::{LostPair, PairCounts, PairId};
use crate::number::{Lpn, Mvpn};
use crate::pair_index::Probes;
use crate::space::Plan;
use cells::Cells;
use compare::Likeness;
use dram::Pages;
pub(crate) use entry::Cell;
use entry::Entry;
use index::Index;
use serde::{Deserialize, Serialize};
use space::{HOLD_BITS, Space};
use std::collections::{BTreeMap, VecDeque};

/// The key-value namespaces of a drive.
pub(crate) struct Pairs {
    config: KeyValue,
    unit_bytes: u32,
    /// By namespace; `None` for one of blocks.
    spaces: Vec<Option<Box<Space>>>,
    pages: Pages,
    /// What the command at hand looks at.
    probes: Probes,
    /// Pairs that a stop has lost or taken back.
    lost: Vec<LostPair>,
}

/// What becomes of the pair that a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// The run that the command reads or writes.
    pub(crate) run: Cell,
    /// Runs that are not needed any more.
    pub(crate) old: Cell,
    pub(crate) older: Cell,
    /// Whether the pair was there before.
    pub(crate) existed: bool,
}

impl Pairs {
    /// The key-value namespaces of a drive, if it has any.
    pub(crate) fn new(config: &Config, plan: &Plan) -> Option<Box<Pairs>> {
        let key_value = config.key_value.as_ref()?;
        if plan.namespaces.iter().all(|space| space.pairs.is_none()) {
            return None;
        }
        let page_bytes = config.geometry.page_bytes.max(config.mapping.unit_bytes);
        let entries = page_bytes / key_value.index.entry_bytes;
        let spaces = plan.namespaces.iter().map(|space| {
            let pairs = space.pairs?;
            Some(Box::new(Space {
                base: space.base,
                capacity: pairs.capacity,
                live: 0,
                leaving: 0,
                recoverable: 0,
                cells: Cells::new(pairs.cells),
                pairs: vec![],
                owner: vec![0; pairs.cells as usize],
                index_base: space.translation_base,
                pages_max: space.translation_pages,
                index: Index::new(&key_value.index, pairs.keys, entries),
                likeness: Likeness::new(&key_value.index),
                holds: vec![0; 1 << HOLD_BITS],
                doomed: vec![],
                fresh: BTreeMap::new(),
                stores: 0,
                stalled: VecDeque::new(),
            }))
        });
        Some(Box::new(Pairs {
            unit_bytes: config.mapping.unit_bytes,
            spaces: spaces.collect(),
            pages: Pages::new(&key_value.index, page_bytes),
            probes: Probes::default(),
            lost: vec![],
            config: key_value.clone(),
        }))
    }

    pub(crate) fn config(&self) -> &KeyValue {
        &self.config
    }

    /// Whether a namespace, by its number from 0, is of pairs.
    pub(crate) fn has(&self, namespace: usize) -> bool {
        self.spaces.get(namespace).is_some_and(Option::is_some)
    }

    /// What there is in a namespace.
    pub(crate) fn counts(&self, namespace: usize) -> Option<PairCounts> {
        let space = self.spaces.get(namespace)?.as_ref()?;
        Some(PairCounts {
            pairs: space.index.keys(),
            units: space.live.into(),
            capacity: space.capacity.into(),
            index_pages: space.index.pages().into(),
            index_dram_pages: self.pages.capacity().map(|pages| pages as u64),
        })
    }

    /// Whether there is this pair in a namespace.
    pub(crate) fn has_pair(&self, namespace: usize, pair: PairId) -> bool {
        let space = self.spaces.get(namespace).and_then(Option::as_ref);
        space.is_some_and(|space| !space.entry(pair).is_vacant())
    }

    /// Cells that pairs have which were placed before the first command; 0 for blocks.
    pub(crate) fn cells_of(&self, namespace: NamespaceId) -> u32 {
        let index = (namespace.0 as usize).wrapping_sub(1);
        let space = self.spaces.get(index).and_then(Option::as_ref);
        space.map_or(0, |space| space.cells.taken())
    }

    fn space_mut(&mut self, namespace: usize) -> Option<&mut Space> {
        self.spaces.get_mut(namespace)?.as_deref_mut()
    }

    /// The space that a cell is in.
    fn space_of(&self, cell: Lpn) -> Option<&Space> {
        let after = |space: &&Space| space.base <= cell && cell - space.base < space.cells_count();
        self.spaces.iter().flatten().map(|space| &**space).find(after)
    }

    /// The index page that says where the pair of a cell is, if a pair has it.
    pub(crate) fn page_of_cell(&self, cell: Lpn) -> Option<Mvpn> {
        let space = self.space_of(cell)?;
        let owner = space.owner[(cell - space.base) as usize].checked_sub(1)?;
        let entry = space.pairs.get(owner as usize).filter(|entry| !entry.is_vacant())?;
        let within = (cell - space.base).wrapping_sub(entry.first);
        if within >= entry.units() {
            return None;
        }
        Some(space.index_base + space.index.page_of(entry.token, entry.place())?)
    }

    /// A cell is at another place, to which it was moved or programmed for the first time; the
    /// index page that says something new then.
    fn moved(&mut self, cell: Lpn, by_collection: bool) -> Option<Mvpn> {
        let space = self.space_of_mut(cell)?;
        let owner = space.owner[(cell - space.base) as usize].checked_sub(1)?;
        let entry = space.pairs.get(owner as usize).filter(|entry| !entry.is_vacant())?;
        let (token, place) = (entry.token, entry.place());
        if (cell - space.base).wrapping_sub(entry.first) >= entry.units() {
            return None;
        }
        let mut changed = vec![];
        match by_collection {
            true => space.index.update(token, place, &mut changed),
            false => changed.extend(space.index.settle_entry(token, place)),
        }
        Some(space.index_base + changed.pop()?)
    }

    fn space_of_mut(&mut self, cell: Lpn) -> Option<&mut Space> {
        let within =
            |space: &&mut Space| space.base <= cell && cell - space.base < space.cells_count();
        self.spaces.iter_mut().flatten().map(|space| &mut **space).find(within)
    }

    /// Index page `page` of a namespace, over the whole drive.
    pub(crate) fn page(&self, namespace: usize, page: u32) -> Option<Mvpn> {
        Some(self.spaces.get(namespace)?.as_ref()?.index_base + page)
    }

    /// The power is gone, or everything stops: nobody is at work on anything. Returns the cells
    /// that no pair has any more.
    pub(crate) fn stop(&mut self, power_cut: bool) -> Vec<Cell> {
        let mut left = vec![];
        for space in self.spaces.iter_mut().flatten() {
            space.holds.fill(0);
            space.doomed.clear();
            space.stalled.clear();
            space.leaving = 0;
            space.index.restart();
            let mut in_use = vec![false; space.owner.len()];
            let pairs = space.pairs.iter().copied().filter(|entry| !entry.is_vacant());
            for entry in pairs.chain(space.kept_runs()) {
                let first = entry.first as usize;
                in_use[first..first + entry.units() as usize].fill(true);
            }
            let taken = |cell: &u32| space.cells.is_taken(*cell) && !in_use[*cell as usize];
            let cells = (0..space.cells_count()).filter(taken);
            left.extend(cells.map(|cell| Cell { first: space.base + cell, units: 1 }));
        }
        self.pages.stop(power_cut);
        left
    }

    /// Index pages that are being loaded or written.
    pub(crate) fn flights(&self) -> usize {
        let spaces = self.spaces.iter().flatten();
        self.pages.flights() + spaces.filter(|space| space.index.has_work()).count()
    }

    /// An index page says nothing any more.
    fn forget_page(&mut self, page: Mvpn) {
        self.pages.forget(page);
    }
}
