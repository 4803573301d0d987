//! A log-structured merge tree (O'Neil et al., Acta Informatica 1996; in a KV SSD: PinK, ATC'20). New
//! entries go to a table in DRAM. When that is full it is written as a sorted run of level 0; so many
//! runs there are merged with level 1, and a level that is too large is merged with the next, so many
//! times larger. All but level 0 are one run. The pages of the first levels can stay in DRAM.
//!
//! A Store is not looked up: its entry stands for all older ones. What is on its way to flash is in
//! DRAM until it is there.

use super::numbers;
use super::run::Run;
use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::kernel::hash::StateHash;
use crate::pair_index::{LANES, PageJob, PairIndex, Place, Probes};
use std::collections::{BTreeMap, VecDeque};

/// Work that goes on beside commands: a flush of the table in DRAM, or a merge.
#[derive(Default)]
pub(crate) struct Work {
    jobs: VecDeque<PageJob>,
    under_way: u32,
    /// The pages that become free when it is done.
    drops: Vec<u32>,
}

/// Flushes and merges have a lane each, so that a merge does not hold up a flush.
const FLUSH: usize = 0;
const MERGE: usize = 1;
/// Pages of each lane that are read or written at a time: enough to keep up with hosts, few enough
/// not to keep them out.
const PAGES_AT_ONCE: [u32; LANES] = [8, 4];

/// Parameters of the log-structured merge tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Entries of the table in DRAM, at least 1.
    pub(crate) memtable: usize,
    /// Runs of level 0 that are merged, and how many times larger each level is, 2 or more.
    pub(crate) fanout: u32,
    /// Levels whose pages stay in DRAM.
    pub(crate) pinned: u32,
    /// Bits of the filters for each entry.
    pub(crate) filter_bits: u32,
}

struct Merge {
    /// The level whose runs are merged into the next, and how many of them, the oldest.
    level: usize,
    runs: usize,
    output: Run,
}

pub(crate) struct Lsm {
    form: Form,
    /// Entries in an index page.
    per_page: u32,
    keys_max: u64,
    pages_max: u32,
    /// Tokens, and whether they were removed.
    memtable: BTreeMap<u64, bool>,
    /// Runs of each level, oldest first.
    levels: Vec<Vec<Run>>,
    merge: Option<Merge>,
    lanes: [Work; LANES],
    /// Pages that were used and are free, and the first that never was used.
    free: Vec<u32>,
    unused: u32,
    keys: u64,
    /// How often it was emptied.
    epoch: u32,
}

impl Lsm {
    pub(crate) fn new(form: Form, keys_max: u64, per_page: u32) -> Lsm {
        let pages_max = Lsm::pages_max(form, keys_max, per_page);
        Lsm {
            form,
            per_page,
            keys_max,
            pages_max: u32::try_from(pages_max).unwrap_or(u32::MAX),
            memtable: BTreeMap::new(),
            levels: vec![vec![]],
            merge: None,
            lanes: Default::default(),
            free: vec![],
            unused: 0,
            keys: 0,
            epoch: 0,
        }
    }

    /// All keys are in the last level, as many entries at most in those above it, whatever was
    /// removed as often, and all of it once more while it is merged.
    pub(crate) fn pages_max(form: Form, keys_max: u64, per_page: u32) -> u64 {
        let flush = (form.memtable as u64).div_ceil(per_page.into());
        8 * keys_max.div_ceil(per_page.into()) + flush * (4 * u64::from(form.fanout) + 4) + 64
    }

    /// Pages that are on flash at a time unless nearly all keys are removed again and again.
    pub(crate) fn pages_expected(form: Form, keys_max: u64, per_page: u32) -> u64 {
        let flush = (form.memtable as u64).div_ceil(per_page.into());
        5 * keys_max.div_ceil(per_page.into()) / 2 + flush * (2 * u64::from(form.fanout) + 2)
    }

    fn put(&mut self, token: u64, gone: bool) {
        self.memtable.insert(token, gone);
        self.flush_if_full();
    }

    /// Runs that level 0 has at most before writes wait.
    fn runs_max(&self) -> usize {
        2 * self.form.fanout as usize
    }

    fn take_pages(&mut self, entries: usize) -> Vec<u32> {
        let count = entries.div_ceil(self.per_page as usize);
        let mut pages = Vec::with_capacity(count);
        while pages.len() < count {
            pages.push(self.free.pop().unwrap_or_else(|| {
                self.unused += 1;
                self.unused - 1
            }));
        }
        pages
    }

    /// Writes a full table in DRAM as a run, if none is being written and merges keep up. Of one
    /// that has grown meanwhile, as much as it should have had.
    fn flush_if_full(&mut self) {
        let full = self.memtable.len() >= self.form.memtable;
        if !full || !self.is_idle(FLUSH) || self.levels[0].len() > self.runs_max() {
            return;
        }
        let rest = match self.memtable.keys().nth(self.form.memtable).copied() {
            Some(next) => self.memtable.split_off(&next),
            None => BTreeMap::new(),
        };
        let entries = std::mem::replace(&mut self.memtable, rest);
        let mut run = Run::new(entries.into_iter(), self.form.filter_bits);
        run.pages = self.take_pages(run.len());
        self.lanes[FLUSH].jobs = run.pages.iter().map(|&page| PageJob::Write(page)).collect();
        self.levels[0].push(run);
    }

    fn is_idle(&self, lane: usize) -> bool {
        self.lanes[lane].under_way == 0 && self.lanes[lane].jobs.is_empty()
    }

    fn flushed(&mut self) {
        let resident = self.form.pinned > 0;
        if let Some(run) = self.levels[0].last_mut() {
            run.resident = resident;
        }
        self.flush_if_full();
        self.merge_if_needed();
    }

    /// Entries that a level below the first may have.
    fn level_max(&self, level: usize) -> usize {
        let grown = (self.form.fanout as usize).saturating_pow(level as u32);
        self.form.memtable.saturating_mul(grown)
    }

    /// Runs of a level that are on flash.
    fn written_runs(&self, level: usize) -> usize {
        let being_written = level == 0 && !self.is_idle(FLUSH);
        self.levels[level].len() - usize::from(being_written)
    }

    fn merge_if_needed(&mut self) {
        if self.merge.is_some() {
            return;
        }
        let due = |&level: &usize| match level {
            0 => self.written_runs(0) >= self.form.fanout as usize,
            _ => self.levels[level].first().is_some_and(|run| run.len() > self.level_max(level)),
        };
        if let Some(level) = (0..self.levels.len()).find(due) {
            self.begin_merge(level);
        }
    }

    /// Merges what is on flash of a level with the next level.
    fn begin_merge(&mut self, level: usize) {
        let runs = self.written_runs(level);
        if self.levels.len() == level + 1 {
            self.levels.push(vec![]);
        }
        let last = self.levels[level + 2..].iter().all(Vec::is_empty);
        let above = self.levels[level][..runs].iter().rev();
        let inputs: Vec<&Run> = above.chain(&self.levels[level + 1]).collect();
        let merged = Run::merge(&inputs, last);
        let reads: Vec<PageJob> = inputs
            .iter()
            .filter(|run| !run.resident)
            .flat_map(|run| run.pages.iter().map(|&page| PageJob::Read(page)))
            .collect();
        let drops: Vec<u32> = inputs.iter().flat_map(|run| run.pages.iter().copied()).collect();
        let mut output = Run::new(merged.into_iter(), self.form.filter_bits);
        output.pages = self.take_pages(output.len());
        output.resident = level + 1 < self.form.pinned as usize;
        let writes = output.pages.iter().map(|&page| PageJob::Write(page));
        let work = &mut self.lanes[MERGE];
        work.jobs = reads.into_iter().chain(writes).collect();
        work.drops = drops;
        let nothing = work.jobs.is_empty();
        self.merge = Some(Merge { level, runs, output });
        if nothing {
            // Everything that was merged is gone, and was in DRAM.
            let dropped = std::mem::take(&mut self.lanes[MERGE].drops);
            self.free.extend(dropped);
            self.merged();
        }
    }

    fn merged(&mut self) {
        let Some(Merge { level, runs, output }) = self.merge.take() else { return };
        self.levels[level].drain(..runs);
        self.levels[level + 1].clear();
        if output.len() > 0 {
            self.levels[level + 1].push(output);
        }
        self.flush_if_full();
        self.merge_if_needed();
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        hash.add(self.memtable.len() as u32);
        for run in self.levels.iter().flatten() {
            run.entries().for_each(|(token, _)| hash.add(token as u32));
            run.pages.iter().for_each(|&page| hash.add(page));
        }
    }

    /// Writes it, with nothing under way.
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.number(self.keys);
        out.number(self.unused.into());
        out.numbers(self.free.iter().copied());
        out.number(self.levels.len() as u64);
        let memtable = Run::new(self.memtable.iter().map(|(&token, &gone)| (token, gone)), 0);
        save_run(&memtable, out);
        for level in &self.levels {
            out.number(level.len() as u64);
            level.iter().for_each(|run| save_run(run, out));
        }
    }

    /// Takes what [`Lsm::write`] wrote.
    pub(crate) fn read(
        &mut self,
        input: &mut Reader<'_>,
        _keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), StateError> {
        let damaged = || StateError::Damaged("the runs of the index".into());
        self.clear();
        self.keys = input.number()?;
        let unused = u32::try_from(input.number()?).map_err(|_| damaged())?;
        let free = input.numbers("free pages of runs", self.pages_max as usize, unused)?;
        let levels = input.number()?;
        if unused > self.pages_max || !(1..=40).contains(&levels) {
            return Err(damaged());
        }
        let memtable = self.restore_run(input, 0)?;
        self.memtable = memtable.entries().collect();
        self.levels = vec![vec![]; levels as usize];
        for level in 0..levels as usize {
            let runs = input.number()?;
            if runs > 4 * u64::from(self.form.fanout) + 4 || level > 0 && runs > 1 {
                return Err(damaged());
            }
            for _ in 0..runs {
                let mut run = self.restore_run(input, unused)?;
                if run.pages.len() != run.len().div_ceil(self.per_page as usize) {
                    return Err(damaged());
                }
                run.resident = level < self.form.pinned as usize;
                self.levels[level].push(run);
            }
        }
        let mut used = vec![false; unused as usize];
        let pages = self.levels.iter().flatten().flat_map(|run| &run.pages);
        for &page in pages.chain(&free) {
            if std::mem::replace(&mut used[page as usize], true) {
                return Err(damaged());
            }
        }
        if used.contains(&false) {
            return Err(damaged());
        }
        (self.unused, self.free) = (unused, free);
        Ok(())
    }

    fn restore_run(&self, input: &mut Reader<'_>, unused: u32) -> Result<Run, StateError> {
        let damaged = || StateError::Damaged("a run of the index".into());
        let most = self.keys_max.saturating_mul(2).saturating_add(4 * self.form.memtable as u64);
        let count = usize::try_from(input.number()?.min(most + 1)).map_err(|_| damaged())?;
        if count as u64 > most {
            return Err(damaged());
        }
        let low = input.words("tokens of a run", count)?;
        let high = input.words("tokens of a run", count)?;
        let gone = input.all("removals of a run", count, 2)?;
        let pages = input.numbers("pages of a run", self.pages_max as usize, unused)?;
        let join = |(&low, &high): (&u32, &u32)| u64::from(low) | u64::from(high) << 32;
        let tokens: Vec<u64> = low.iter().zip(&high).map(join).collect();
        if !tokens.is_sorted_by(|a, b| a < b) {
            return Err(damaged());
        }
        let entries = tokens.into_iter().zip(gone).map(|(token, gone)| (token, gone == 1));
        let mut run = Run::new(entries, self.form.filter_bits);
        run.pages = pages;
        Ok(run)
    }
}

impl PairIndex for Lsm {
    fn pages(&self) -> u32 {
        self.unused - self.free.len() as u32
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// The pages to be looked at to find out what is known of a token, from the newest run to the
    /// one that knows it.
    fn find(&self, token: u64, _place: Option<Place>, probes: &mut Probes) {
        if self.memtable.contains_key(&token) {
            return;
        }
        for run in self.levels.iter().flat_map(|level| level.iter().rev()) {
            let known = run.says(token).is_some();
            if !run.resident {
                probes.pages.extend(run.page_to_look_at(token, self.per_page));
            }
            if known {
                return;
            }
        }
    }

    /// A new entry stands for all older ones.
    fn find_to_store(&self, _token: u64, _place: Option<Place>, _probes: &mut Probes) {}

    /// The page with the newest entry of a token, if it is not in DRAM.
    fn page_of(&self, token: u64, _place: Place) -> Option<u32> {
        let mut probes = Probes::default();
        self.find(token, None, &mut probes);
        probes.pages.pop()
    }

    fn insert(&mut self, token: u64, _probes: &mut Probes) -> Option<Place> {
        let flush = (self.form.memtable as u32).div_ceil(self.per_page);
        let room = self.pages_max - self.unused + self.free.len() as u32;
        // All of it may have to be merged.
        if self.keys >= self.keys_max || room < self.pages() + 2 * flush {
            return None;
        }
        self.keys += 1;
        self.put(token, false);
        Some(0)
    }

    /// An entry says something new.
    fn update(&mut self, token: u64, _place: Place, _changed: &mut Vec<u32>) {
        self.put(token, false);
    }

    /// It was still in DRAM.
    fn settle_entry(&self, _token: u64, _place: Place) -> Option<u32> {
        None
    }

    fn remove(&mut self, token: u64, _place: Place, _probes: &mut Probes) {
        self.keys -= 1;
        self.put(token, true);
    }

    fn clear(&mut self) {
        let epoch = self.epoch.wrapping_add(1);
        *self = Lsm { epoch, ..Lsm::new(self.form, self.keys_max, self.per_page) };
    }

    /// All that is known becomes one run, on pages that have been written; which they are.
    fn settle(&mut self) -> Vec<u32> {
        let keys_max = std::mem::take(&mut self.keys);
        let memtable = Run::new(std::mem::take(&mut self.memtable).into_iter(), 0);
        let runs = self.levels.iter().flat_map(|level| level.iter().rev());
        let all: Vec<&Run> = std::iter::once(&memtable).chain(runs).collect();
        let mut run = Run::new(Run::merge(&all, true).into_iter(), self.form.filter_bits);
        self.clear();
        self.keys = keys_max;
        run.pages = self.take_pages(run.len());
        let mut level = 1;
        while run.len() > self.level_max(level) {
            level += 1;
        }
        run.resident = level < self.form.pinned as usize;
        let pages = run.pages.clone();
        self.levels.resize(level + 1, vec![]);
        self.levels[level].push(run);
        pages
    }

    /// The next page of a lane, if one may be read or written now.
    fn next_job(&mut self, lane: usize) -> Option<PageJob> {
        let work = &mut self.lanes[lane];
        if work.under_way >= PAGES_AT_ONCE[lane] {
            return None;
        }
        let job = work.jobs.pop_front()?;
        work.under_way += 1;
        Some(job)
    }

    /// A page of a lane has been read or written. Pages that are free now go to `dropped`.
    fn job_done(&mut self, lane: usize, dropped: &mut Vec<u32>) {
        let work = &mut self.lanes[lane];
        work.under_way -= 1;
        if work.under_way > 0 || !work.jobs.is_empty() {
            return;
        }
        dropped.append(&mut work.drops);
        self.free.extend(dropped.iter());
        match lane {
            FLUSH => self.flushed(),
            _ => self.merged(),
        }
    }

    /// Whether anything is being written or merged.
    fn has_work(&self) -> bool {
        self.lanes.iter().any(|lane| lane.under_way > 0 || !lane.jobs.is_empty())
    }

    /// Whether writes have to wait for merges.
    fn is_full(&self) -> bool {
        self.levels[0].len() > self.runs_max() || self.memtable.len() > 2 * self.form.memtable
    }

    /// Jobs of another epoch are nobody's any more.
    fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Everything under way was dropped: it begins again. Pages that were to be written are to be
    /// written once more.
    fn restart(&mut self) {
        let flushing = !self.is_idle(FLUSH);
        self.epoch = self.epoch.wrapping_add(1);
        self.lanes = Default::default();
        if let Some(Merge { output, .. }) = self.merge.take() {
            self.free.extend(output.pages);
        }
        if flushing && let Some(run) = self.levels[0].last() {
            self.lanes[FLUSH].jobs = run.pages.iter().map(|&page| PageJob::Write(page)).collect();
        }
        self.merge_if_needed();
    }

    fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String> {
        let mut count = 0;
        for (token, _) in keys {
            let runs = self.levels.iter().flat_map(|level| level.iter().rev());
            let said = runs.map(|run| run.says(token)).find_map(|said| said);
            if self.memtable.get(&token).copied().or(said) != Some(false) {
                return Err(format!("the index does not know {token:x}"));
            }
            count += 1;
        }
        if count != self.keys {
            return Err(format!("the index counts {} keys, not {count}", self.keys));
        }
        let memtable = Run::new(self.memtable.iter().map(|(&token, &gone)| (token, gone)), 0);
        let runs = self.levels.iter().flat_map(|level| level.iter().rev());
        let all: Vec<&Run> = std::iter::once(&memtable).chain(runs).collect();
        let known = Run::merge(&all, true).len() as u64;
        if known != count {
            return Err(format!("the index knows {known} keys, there are {count}"));
        }
        let outputs = self.merge.iter().flat_map(|merge| &merge.output.pages);
        let runs = self.levels.iter().flatten().flat_map(|run| &run.pages);
        let mut used: Vec<u32> = runs.chain(outputs).chain(&self.free).copied().collect();
        used.sort_unstable();
        match used.into_iter().eq(0..self.unused) {
            true => Ok(()),
            false => Err("a page of the index is of no run, or of two".into()),
        }
    }

    fn save(&self) -> Vec<u32> {
        numbers::written(|out| self.write(out))
    }

    fn restore(
        &mut self,
        saved: &[u32],
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), String> {
        numbers::read(saved, |input| self.read(input, keys))
    }
}

fn save_run(run: &Run, out: &mut Writer<'_>) {
    let entries: Vec<(u64, bool)> = run.entries().collect();
    out.number(entries.len() as u64);
    out.numbers(entries.iter().map(|entry| entry.0 as u32));
    out.numbers(entries.iter().map(|entry| (entry.0 >> 32) as u32));
    out.numbers(entries.iter().map(|entry| u32::from(entry.1)));
    out.numbers(run.pages.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn token(key: u64) -> u64 {
        crate::keys::token(&key.to_le_bytes())
    }

    /// Does so many jobs; pages read and written.
    fn work(index: &mut Lsm, jobs: usize) -> (u64, u64) {
        let (mut reads, mut writes) = (0, 0);
        for turn in 0..jobs {
            if !index.has_work() {
                break;
            }
            for lane in [turn % 2, (turn + 1) % 2] {
                match index.next_job(lane) {
                    Some(PageJob::Read(_)) => reads += 1,
                    Some(PageJob::Write(_)) => writes += 1,
                    None => continue,
                }
                index.job_done(lane, &mut vec![]);
                break;
            }
        }
        (reads, writes)
    }

    proptest! {
        /// Whatever comes and goes, and however far flushes and merges are: all keys are known, and
        /// nothing else; and a restart changes nothing of that.
        #[test]
        fn runs_know_all_keys(
            memtable in 1usize..40,
            fanout in 2u32..5,
            pinned in 0u32..3,
            filter_bits in prop::sample::select(vec![0u32, 6]),
            steps in prop::collection::vec((0u64..400, 0u8..10, 0usize..12), 0..1500),
        ) {
            let form = Form { memtable, fanout, pinned, filter_bits };
            let mut index = Lsm::new(form, 1000, 8);
            let mut keys = BTreeSet::new();
            for (key, action, jobs) in steps {
                match action {
                    0..6 if keys.insert(key) => {
                        prop_assert!(index.insert(token(key), &mut Probes::default()).is_some());
                    },
                    0..6 => index.update(token(key), 0, &mut vec![]),
                    6..9 => if keys.remove(&key) {
                        index.remove(token(key), 0, &mut Probes::default());
                    },
                    _ => index.restart(),
                }
                work(&mut index, jobs);
            }
            let tokens = || keys.iter().map(|&key| (token(key), 0));
            index.check(&mut tokens()).map_err(TestCaseError::fail)?;
            work(&mut index, 100_000);
            prop_assert!(!index.has_work());
            index.check(&mut tokens()).map_err(TestCaseError::fail)?;
            index.settle();
            index.check(&mut tokens()).map_err(TestCaseError::fail)?;
        }
    }

    /// Sorted lists that are merged as the tree says, written down plainly: pages that are written.
    fn plain_writes(keys: &[u64], memtable: usize, fanout: usize, per_page: usize) -> u64 {
        let (mut table, mut first, mut levels) = (BTreeSet::new(), vec![], vec![]);
        let mut written = 0;
        let pages = |run: &BTreeSet<u64>| run.len().div_ceil(per_page) as u64;
        for &key in keys {
            table.insert(key);
            if table.len() == memtable {
                written += pages(&table);
                first.push(std::mem::take(&mut table));
            }
            if first.len() == fanout {
                let mut run: BTreeSet<u64> = first.drain(..).flatten().collect();
                let mut max = memtable;
                for level in 0.. {
                    max *= fanout;
                    if levels.len() == level {
                        levels.push(BTreeSet::new());
                    }
                    run.append(&mut levels[level]);
                    written += pages(&run);
                    if run.len() <= max {
                        levels[level] = run;
                        break;
                    }
                }
            }
        }
        written
    }

    #[test]
    fn pages_are_written_as_by_a_plain_merge() {
        for (memtable, fanout) in [(64, 4), (100, 3), (256, 10)] {
            let form = Form { memtable, fanout, pinned: 0, filter_bits: 0 };
            let mut index = Lsm::new(form, 100_000, 16);
            let mut keys = vec![];
            let (mut known, mut written) = (BTreeSet::new(), 0);
            for n in 0..60_000u64 {
                let key = token(n) % 20_000;
                keys.push(token(key));
                match known.insert(key) {
                    true => assert!(index.insert(token(key), &mut Probes::default()).is_some()),
                    false => index.update(token(key), 0, &mut vec![]),
                }
                written += work(&mut index, usize::MAX).1;
            }
            assert_eq!(written, plain_writes(&keys, memtable, fanout as usize, 16));
        }
    }
}
