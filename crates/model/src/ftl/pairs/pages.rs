//! The way of index pages to DRAM and back: a page that is needed is read; one that differs from
//! flash is written when it has to leave. A page that changes while it is not in DRAM is read,
//! changed and written.

use super::Pairs;
use super::background::Errand;
use super::dram::PageWaiter;

use crate::drive::{Drive, Policies};
use crate::flash::queues::CLASS_COLLECTION;
use crate::flash::work::{Extent, WorkKind};
use crate::kernel::event::Event;
use crate::number::{CommandIndex, Lpn, Mvpn, WriteIndex};
use crate::observe::blame::{COMPACTION, INDEX};
use crate::pair_index::Probes;
use crate::token::Token;

impl<P: Policies> Drive<P> {
    /// A command looks at the pages that it needs, from the one at `at` on, and changes those that
    /// it changes. False if it has to wait for one; it is called again then, at the next.
    pub(crate) fn probe(
        &mut self,
        command: CommandIndex,
        namespace: usize,
        probes: &Probes,
        at: &mut u32,
    ) -> bool {
        while let Some(&page) = probes.pages.get(*at as usize) {
            *at += 1;
            let Some(page) = self.ftl.pairs.as_ref().and_then(|it| it.page(namespace, page)) else {
                continue;
            };
            if !self.index_page_known(page, PageWaiter::Command(command)) {
                return false;
            }
        }
        let compared = (*at as usize).saturating_sub(probes.pages.len());
        for &cell in probes.compared.iter().skip(compared) {
            *at += 1;
            if self.read_to_compare(command, cell) {
                return false;
            }
        }
        for &page in &probes.changed {
            if let Some(page) = self.ftl.pairs.as_ref().and_then(|it| it.page(namespace, page)) {
                self.index_page_changed(page);
            }
        }
        true
    }

    /// Reads the first unit of a pair to compare its key; false if that is in DRAM.
    fn read_to_compare(&mut self, command: CommandIndex, cell: Lpn) -> bool {
        let cached = self.cache.as_ref().is_some_and(|cache| cache.find(cell).is_some());
        let Some(ppn) = self.ftl.ppn(cell).filter(|_| !cached) else { return false };
        let c = self.host.command(command);
        let (class, holder) = (c.class, c.flow);
        let (plane, bytes) = (self.shape.plane_of_ppn(ppn), self.shape.unit_bytes);
        let extent = Extent { plane, ppn: self.shape.page_start(ppn), bytes };
        self.ask_flash(WorkKind::HostRead, class, holder, Token::Compare { command }, extent);
        true
    }

    /// Whether an index page is in DRAM. If not, `waiter` is called when it is.
    pub(super) fn index_page_known(&mut self, page: Mvpn, waiter: PageWaiter) -> bool {
        let Some(pairs) = &mut self.ftl.pairs else { return true };
        let pages = &mut pairs.pages;
        self.kernel.observe.count().index_lookups += 1;
        let known = pages.cached.as_mut().is_none_or(|cached| cached.lookup(Lpn(0), page));
        if known {
            self.kernel.observe.count().index_hits += 1;
            return true;
        }
        let location = self.ftl.mapping.table.translation_ppn(page);
        // A page that is being written, or never was, is in DRAM.
        if location.is_none() || pages.flights.is_in_dram(page) {
            self.kernel.observe.count().index_hits += 1;
            self.remember_index_page(page);
            return true;
        }
        let holder = match waiter {
            PageWaiter::Command(_) | PageWaiter::Collected(_) => INDEX,
            PageWaiter::Errand(_) => COMPACTION,
        };
        if pages.flights.wait(page, waiter) {
            let bytes = self.shape.page_bytes;
            self.read_translation_page(Token::Load { page }, page, bytes, holder);
        }
        false
    }

    /// A page is in DRAM now; another has to leave if there is no room.
    fn remember_index_page(&mut self, page: Mvpn) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        if let Some(evicted) = pairs.pages.put(page, false) {
            self.write_index_page(evicted, true);
        }
    }

    /// What an index page says is not what it says on flash any more.
    fn index_page_changed(&mut self, page: Mvpn) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        let Some(cached) = &mut pairs.pages.cached else { return };
        if !cached.make_dirty(Lpn(0), page) {
            self.write_index_page(page, false);
        }
    }

    /// Writes an index page, once it is `known` here.
    fn write_index_page(&mut self, page: Mvpn, known: bool) {
        let location = self.ftl.mapping.table.translation_ppn(page);
        let Some(pairs) = &mut self.ftl.pairs else { return };
        let read = location.is_some() && !known;
        if !pairs.pages.flights.update(page, read) {
            return;
        }
        match read {
            true => self.read_for_update(page, INDEX),
            false => self.program_translation_page(page, INDEX),
        }
    }

    /// Writes a page of a run, all of which is new.
    pub(super) fn write_run_page(&mut self, page: Mvpn, errand: Errand) {
        if let Some(pairs) = &mut self.ftl.pairs {
            pairs.pages.errands.insert(page, errand);
        }
        self.program_translation_page(page, COMPACTION);
    }

    /// An index page has been read for those who wait.
    pub(crate) fn index_page_loaded(&mut self, page: Mvpn) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        let Some((mut waiters, again)) = pairs.pages.flights.loaded(page) else { return };
        self.remember_index_page(page);
        if again {
            self.index_page_changed(page);
        }
        for waiter in waiters.drain(..) {
            match waiter {
                PageWaiter::Command(command) => {
                    self.kernel.events.push(self.kernel.now, Event::KeyStep { command });
                }
                PageWaiter::Collected(unit) => self.collected_unit_known(unit),
                PageWaiter::Errand(errand) => self.errand_ended(errand),
            }
        }
        if let Some(pairs) = &mut self.ftl.pairs {
            pairs.pages.flights.give_back(waiters);
        }
    }

    pub(crate) fn index_page_read_for_update(&mut self, page: Mvpn) {
        self.program_translation_page(page, INDEX);
        // Those who came while it was being read know it now.
        self.index_page_loaded(page);
    }

    /// An index page has been programmed.
    pub(crate) fn index_page_programmed(&mut self, page: Mvpn) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        if let Some(errand) = pairs.pages.errands.remove(&page) {
            return self.errand_ended(errand);
        }
        if pairs.pages.flights.updated(page) {
            self.index_page_changed(page);
        }
    }

    /// A cell's data are at another place, or will be: the page that says where differs from
    /// flash.
    pub(crate) fn cell_moved(&mut self, cell: Lpn, by_collection: bool) {
        self.kernel.observe.count().gc_units_moved += u64::from(by_collection);
        if self.ftl.reads_cached && !by_collection {
            self.forget_clean(cell);
        }
        let page = self.ftl.pairs.as_mut().and_then(|pairs| pairs.moved(cell, by_collection));
        if let Some(page) = page {
            self.index_page_changed(page);
        }
        self.index_works(self.ftl.namespace_index(cell));
    }

    /// Whether the index page that says where a collected unit is is known. If not, the unit waits
    /// for it: the collection has to look each pair up that it moves.
    pub(crate) fn collected_cell_known(&mut self, cell: Lpn, unit: WriteIndex) -> bool {
        match self.ftl.pairs.as_ref().and_then(|pairs| pairs.page_of_cell(cell)) {
            Some(page) => self.index_page_known(page, PageWaiter::Collected(unit)),
            None => true,
        }
    }

    /// The index page of a collected unit is known: it can be programmed.
    fn collected_unit_known(&mut self, unit: WriteIndex) {
        let u = &self.ftl.units[unit];
        let plane = self.shape.plane_of_ppn(u.from);
        debug_assert_eq!(u.class, CLASS_COLLECTION);
        self.enqueue_unit(unit, plane);
        self.break_off_if_stuck(plane);
        // It may be the last of a page that waits to be full.
        self.flash.mark_plane(plane);
    }

    /// The index pages of a namespace say nothing any more.
    pub(super) fn forget_index_pages(&mut self, namespace: usize) {
        let Some((first, end)) = self.ftl.pairs.as_ref().and_then(|it| it.index_pages(namespace))
        else {
            return;
        };
        for page in first.run(end - first) {
            self.forget_index_page(page);
        }
    }
}

impl Pairs {
    /// The first index page of a namespace and one past the last that it may have.
    fn index_pages(&self, namespace: usize) -> Option<(Mvpn, Mvpn)> {
        let space = self.spaces.get(namespace)?.as_ref()?;
        Some((space.index_base, space.index_base + space.pages_max))
    }
}
