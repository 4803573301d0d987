//! What an index does beside commands: a tree of runs writes what is new and merges what has grown.
//! Its pages are read and written like all others, a few at a time.

use super::Pairs;
use super::dram::PageWaiter;
use crate::drive::{Drive, Policies};
use crate::kernel::event::Event;
use crate::number::{CommandIndex, Mvpn};
use crate::pair_index::{LANES, PageJob};

/// Whose page is being read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    namespace: u16,
    lane: u8,
    epoch: u32,
}

impl Pairs {
    fn next_errand(&mut self, namespace: usize, lane: usize) -> Option<(Errand, PageJob)> {
        let index = &mut self.space_mut(namespace)?.index;
        let job = index.next_job(lane)?;
        let epoch = index.epoch();
        Some((Errand { namespace: namespace as u16, lane: lane as u8, epoch }, job))
    }

    /// An errand is done; the pages that are free now.
    fn errand_done(&mut self, errand: Errand) -> Vec<u32> {
        let mut dropped = vec![];
        let namespace = usize::from(errand.namespace);
        if let Some(space) = self.space_mut(namespace)
            && space.index.epoch() == errand.epoch
        {
            space.index.job_done(errand.lane.into(), &mut dropped);
        }
        dropped
    }

    /// Whether a command that writes has to wait until an index has caught up.
    pub(super) fn stall(&mut self, namespace: usize, command: CommandIndex) -> bool {
        let Some(space) = self.space_mut(namespace) else { return false };
        let full = space.index.is_full();
        if full {
            space.stalled.push_back(command);
        }
        full
    }

    /// A command that has waited, if it need not wait any more.
    fn next_unstalled(&mut self, namespace: usize) -> Option<CommandIndex> {
        let space = self.space_mut(namespace)?;
        let full = space.index.is_full();
        if full { None } else { space.stalled.pop_front() }
    }
}

impl<P: Policies> Drive<P> {
    /// Whether a command that writes has to wait until an index has caught up; then it is called
    /// again.
    pub(crate) fn waits_for_index(&mut self, namespace: usize, command: CommandIndex) -> bool {
        self.ftl.pairs_mut().is_some_and(|pairs| pairs.stall(namespace, command))
    }

    /// Reads and writes pages of an index as its own work wants it.
    pub(crate) fn index_works(&mut self, namespace: usize) {
        let mut lane = 0;
        let mut idle = 0;
        while idle < LANES {
            let Some(pairs) = &mut self.ftl.pairs else { return };
            match pairs.next_errand(namespace, lane) {
                None => {
                    idle += 1;
                    lane = (lane + 1) % LANES;
                }
                Some((errand, job)) => {
                    idle = 0;
                    self.begin_errand(namespace, errand, job);
                }
            }
        }
    }

    /// Goes on with what indices had to do when everything stopped.
    pub(crate) fn resume_indices(&mut self) {
        if self.ftl.pairs().is_some() {
            (0..self.ftl.namespaces.len()).for_each(|namespace| self.index_works(namespace));
        }
    }

    fn begin_errand(&mut self, namespace: usize, errand: Errand, job: PageJob) {
        let page = |pairs: &Pairs, page| pairs.page(namespace, page);
        match job {
            PageJob::Read(at) => {
                let Some(page) = self.ftl.pairs().and_then(|pairs| page(pairs, at)) else { return };
                if self.index_page_known(page, PageWaiter::Errand(errand)) {
                    self.end_errand(errand);
                }
            }
            PageJob::Write(at) => {
                let Some(page) = self.ftl.pairs().and_then(|pairs| page(pairs, at)) else { return };
                self.write_run_page(page, errand);
            }
        }
    }

    /// A page has been read or written for an index; what follows is left to
    /// [`Drive::index_works`].
    fn end_errand(&mut self, errand: Errand) {
        let namespace = usize::from(errand.namespace);
        let Some(pairs) = &mut self.ftl.pairs else { return };
        for page in pairs.errand_done(errand) {
            let page = self.ftl.pairs().and_then(|pairs| pairs.page(namespace, page));
            if let Some(page) = page {
                self.forget_index_page(page);
            }
        }
        while let Some(command) = self.ftl.pairs_mut().and_then(|it| it.next_unstalled(namespace)) {
            self.kernel.events.push(self.kernel.now, Event::KeyStep { command });
        }
    }

    /// A page that an index waited for is there, or written.
    pub(super) fn errand_ended(&mut self, errand: Errand) {
        self.end_errand(errand);
        self.index_works(errand.namespace.into());
    }

    /// A page says nothing any more.
    pub(super) fn forget_index_page(&mut self, page: Mvpn) {
        if let Some(ppn) = self.ftl.mapping.table.forget_translation_page(page) {
            let block = self.shape.block_of_ppn(ppn);
            self.ftl.blocks.remove_valid(block, self.shape.units_per_page);
        }
        if let Some(pairs) = &mut self.ftl.pairs {
            pairs.forget_page(page);
        }
    }
}
