//! An index that is not one of Mynah's: what it says is checked before anything is made of it.

use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::kernel::hash::StateHash;
use crate::pair_index::{OwnIndex, PageJob, PairIndex, Place, Probes};

/// Most numbers of a saved state, so that a damaged one takes no memory without end.
const SAVED_MAX: usize = 1 << 30;

pub(crate) struct Own {
    pub(super) kind: OwnIndex,
    pub(super) index: Box<dyn PairIndex>,
    pub(super) keys_max: u64,
    pub(super) pages_max: u64,
}

impl Own {
    pub(crate) fn has_jobs(&self) -> bool {
        self.kind.0.has_jobs()
    }

    pub(crate) fn is_hashed(&self) -> bool {
        self.kind.0.is_hashed()
    }

    /// Pages beyond its own are others'.
    fn checked(&self, page: u32) -> u32 {
        let (most, name) = (self.pages_max, self.kind.0.name());
        assert!(u64::from(page) < most, "index {name}: page {page}, but it has {most} at most");
        page
    }

    fn check_pages(&self, pages: &[u32]) {
        pages.iter().for_each(|&page| _ = self.checked(page));
    }

    pub(crate) fn hash(&self, hash: &mut StateHash) {
        self.index.save().into_iter().for_each(|number| hash.add(number));
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.numbers(self.index.save().into_iter());
    }

    pub(crate) fn read(
        &mut self,
        input: &mut Reader<'_>,
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), StateError> {
        let saved = input.any("numbers of an index", SAVED_MAX)?;
        let damaged = |why| StateError::Damaged(format!("index {}: {why}", self.kind.0.name()));
        self.index.restore(&saved, keys).map_err(damaged)
    }
}

impl PairIndex for Own {
    fn pages(&self) -> u32 {
        self.index.pages()
    }

    fn keys(&self) -> u64 {
        self.index.keys()
    }

    fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        self.index.find(token, place, probes);
        self.check_pages(&probes.pages);
    }

    fn find_to_store(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        self.index.find_to_store(token, place, probes);
        self.check_pages(&probes.pages);
    }

    fn page_of(&self, token: u64, place: Place) -> Option<u32> {
        self.index.page_of(token, place).map(|page| self.checked(page))
    }

    fn keys_of(&self, page: u32) -> u32 {
        self.index.keys_of(page)
    }

    fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        if self.index.keys() >= self.keys_max {
            return None;
        }
        let place = self.index.insert(token, probes);
        self.check_pages(&probes.pages);
        self.check_pages(&probes.changed);
        place
    }

    fn update(&mut self, token: u64, place: Place, changed: &mut Vec<u32>) {
        self.index.update(token, place, changed);
        self.check_pages(changed);
    }

    fn settle_entry(&self, token: u64, place: Place) -> Option<u32> {
        self.index.settle_entry(token, place).map(|page| self.checked(page))
    }

    fn remove(&mut self, token: u64, place: Place, probes: &mut Probes) {
        self.index.remove(token, place, probes);
        self.check_pages(&probes.pages);
        self.check_pages(&probes.changed);
    }

    fn clear(&mut self) {
        self.index.clear();
    }

    fn settle(&mut self) -> Vec<u32> {
        let pages = self.index.settle();
        self.check_pages(&pages);
        pages
    }

    fn next_job(&mut self, lane: usize) -> Option<PageJob> {
        let job = self.index.next_job(lane)?;
        let (PageJob::Read(page) | PageJob::Write(page)) = job;
        self.checked(page);
        Some(job)
    }

    fn job_done(&mut self, lane: usize, dropped: &mut Vec<u32>) {
        self.index.job_done(lane, dropped);
        self.check_pages(dropped);
    }

    fn has_work(&self) -> bool {
        self.index.has_work()
    }

    fn is_full(&self) -> bool {
        self.index.is_full()
    }

    fn epoch(&self) -> u32 {
        self.index.epoch()
    }

    fn restart(&mut self) {
        self.index.restart();
    }

    fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String> {
        self.index.check(keys)
    }

    fn save(&self) -> Vec<u32> {
        self.index.save()
    }

    fn restore(
        &mut self,
        saved: &[u32],
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), String> {
        self.index.restore(saved, keys)
    }
}
