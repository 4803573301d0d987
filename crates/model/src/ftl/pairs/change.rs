//! What commands make of the set of pairs, at the instant of their decision; and when the cells of
//! pairs that are gone are free again.

use super::{Cell, Change, Entry, Pairs, Probes};
use crate::drive::{Drive, Policies};
use crate::io::NamespaceId;
use crate::keys::{KeyOperation, KeyRequest, LostPair, PairCounts, PairId};
use crate::number::Lpn;

impl Pairs {
    /// A Retrieve, which reads it, or an Exist that finds its pair, or a Store that is refused:
    /// which pages it takes to find it.
    pub(crate) fn find(&mut self, namespace: usize, pair: PairId, reads: bool) -> Option<Change> {
        self.probes.clear();
        let (probes, space) = (&mut self.probes, self.spaces.get_mut(namespace)?.as_mut()?);
        let entry = space.entry(pair);
        if entry.is_vacant() {
            return None;
        }
        space.index.find(entry.token, Some(entry.place()), probes);
        space.compare(entry.token, Some(space.own(entry, reads)), probes);
        let run = space.run_of(entry);
        Some(Change { run, old: Cell::NONE, older: Cell::NONE, existed: true })
    }

    /// Where a pair lies; `None`: there is no such pair.
    pub(crate) fn run(&self, namespace: usize, pair: PairId) -> Option<Cell> {
        let space = self.spaces.get(namespace)?.as_ref()?;
        let entry = space.entry(pair);
        (!entry.is_vacant()).then(|| space.run_of(entry))
    }

    /// A command whose key is not there: which pages it takes to know that.
    pub(crate) fn miss(&mut self, namespace: usize, token: u64) -> Option<()> {
        self.probes.clear();
        let (probes, space) = (&mut self.probes, self.spaces.get_mut(namespace)?.as_mut()?);
        space.index.find(token, None, probes);
        space.compare(token, None, probes);
        Some(())
    }

    /// A pair of so many bytes is stored, in other cells if it is there already; `None` if there is
    /// no room for it.
    pub(crate) fn store(
        &mut self,
        namespace: usize,
        pair: PairId,
        request: &KeyRequest,
    ) -> Option<Change> {
        self.probes.clear();
        let KeyRequest { token, key_bytes, bytes, .. } = *request;
        let asks = request.operation == KeyOperation::StoreIf;
        let units = self.config.units(self.unit_bytes, key_bytes.into(), bytes);
        let (probes, space) = (&mut self.probes, self.spaces.get_mut(namespace)?.as_mut()?);
        if u64::from(pair.0) >= space.names_max() {
            return None;
        }
        let before = space.entry(pair);
        let live = space.live - before.units();
        if u64::from(live) + u64::from(units) > u64::from(space.capacity) {
            return None;
        }
        let first = space.cells.take(units)?;
        let place = (!before.is_vacant()).then(|| before.place());
        match asks {
            true => space.index.find(token, place, probes),
            false => space.index.find_to_store(token, place, probes),
        }
        let own = (!before.is_vacant()).then(|| space.own(before, false));
        space.compare(token, own, probes);
        let place = match place {
            Some(place) => {
                space.index.update(before.token, place, &mut probes.changed);
                place
            }
            None => {
                let Some(place) = space.index.insert(token, probes) else {
                    space.cells.give_back(first, units);
                    return None;
                };
                place
            }
        };
        let existed = !before.is_vacant();
        let token = if existed { before.token } else { token };
        space.put(pair, Entry::new(token, first, units, place));
        space.live = live + units;
        let old = space.refresh(pair, units, before);
        let run = Cell { first: space.base + first, units };
        Some(Change { run, old, older: Cell::NONE, existed })
    }

    /// Removes a pair from the index; `None` if it is not there.
    pub(crate) fn remove(&mut self, namespace: usize, pair: PairId) -> Option<Change> {
        let found = self.find(namespace, pair, false)?;
        let (probes, space) = (&mut self.probes, self.spaces.get_mut(namespace)?.as_mut()?);
        let entry = space.entry(pair);
        space.index.remove(entry.token, entry.place(), probes);
        space.live -= entry.units();
        space.leaving += entry.units();
        space.pairs[pair.0 as usize] = Entry::NONE;
        let older = space.settle_pair(pair);
        Some(Change { run: Cell::NONE, old: found.run, older, existed: true })
    }

    /// All pairs of a namespace are removed. Returns their cells, which are free as soon as they
    /// are deallocated.
    pub(crate) fn remove_all(&mut self, namespace: usize) -> Vec<Cell> {
        let Some(space) = self.space_mut(namespace) else { return vec![] };
        let entries = std::mem::take(&mut space.pairs).into_iter().chain(space.kept_runs());
        let entries: Vec<Entry> = entries.collect();
        let runs = entries.iter().map(|&entry| space.run_of(entry));
        let runs: Vec<Cell> = runs.filter(|run| !run.is_nowhere()).collect();
        space.index.clear();
        space.fresh.clear();
        space.leaving += space.live + space.recoverable;
        (space.live, space.recoverable) = (0, 0);
        runs
    }

    /// The pages that the last of these look at, which `into` gets; and its own go there.
    pub(crate) fn swap_probes(&mut self, into: &mut Probes) {
        std::mem::swap(&mut self.probes, into);
    }

    /// A command is at work on a run: it stays as it is.
    pub(crate) fn hold(&mut self, namespace: usize, run: Cell) {
        if let Some(space) = self.space_mut(namespace) {
            *space.hold_of(run) += 1;
        }
    }

    /// A command is done with a run. Returns a run that can go now, if one can: ask again.
    pub(crate) fn release(&mut self, namespace: usize, run: Cell) {
        if let Some(space) = self.space_mut(namespace) {
            *space.hold_of(run) -= 1;
        }
    }

    /// A run that was to go when nobody is at work on it, and nobody is.
    pub(crate) fn next_to_go(&mut self, namespace: usize) -> Option<Cell> {
        let space = self.space_mut(namespace)?;
        let at = (0..space.doomed.len()).find(|&at| {
            let run = space.doomed[at];
            *space.hold_of(run) == 0
        })?;
        Some(space.doomed.swap_remove(at))
    }

    /// A run is not needed any more; whether it can go at once.
    fn doom(&mut self, namespace: usize, run: Cell) -> bool {
        let Some(space) = self.space_mut(namespace) else { return false };
        let free = *space.hold_of(run) == 0;
        space.leaving -= run.units;
        if !free {
            space.doomed.push(run);
        }
        free
    }

    /// The cells of a run are free again.
    fn give_back(&mut self, namespace: usize, run: Cell) {
        if let Some(space) = self.space_mut(namespace) {
            space.cells.give_back(run.first - space.base, run.units);
        }
    }
}

impl<P: Policies> Drive<P> {
    /// A run is not needed any more: its units are deallocated and its cells free, now or when
    /// nobody is at work on them any more.
    pub(crate) fn drop_run(&mut self, namespace: usize, run: Cell) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        if !run.is_nowhere() && pairs.doom(namespace, run) {
            self.free_run(namespace, run);
        }
    }

    pub(super) fn free_run(&mut self, namespace: usize, run: Cell) {
        for lpn in run.first.upto(run.end()) {
            self.trim_unit(lpn);
        }
        if let Some(pairs) = &mut self.ftl.pairs {
            pairs.give_back(namespace, run);
        }
    }

    /// A command is done with a run.
    pub(crate) fn release_run(&mut self, namespace: usize, run: Cell) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        if run.is_nowhere() {
            return;
        }
        pairs.release(namespace, run);
        while let Some(run) = self.ftl.pairs.as_mut().and_then(|pairs| pairs.next_to_go(namespace))
        {
            self.free_run(namespace, run);
        }
    }

    /// All pairs of a namespace are gone.
    pub(crate) fn drop_all_pairs(&mut self, namespace: usize) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        for run in pairs.remove_all(namespace) {
            self.drop_run(namespace, run);
        }
        self.forget_index_pages(namespace);
    }

    /// What there is in a key-value namespace; `None` if it is not one.
    pub fn pair_counts(&self, namespace: NamespaceId) -> Option<PairCounts> {
        self.ftl.pairs()?.counts((namespace.0 as usize).checked_sub(1)?)
    }

    /// Whether a key-value namespace has this pair.
    pub fn has_pair(&self, namespace: NamespaceId, pair: PairId) -> bool {
        let at = (namespace.0 as usize).wrapping_sub(1);
        self.ftl.pairs().is_some_and(|pairs| pairs.has_pair(at, pair))
    }

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
