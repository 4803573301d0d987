//! The index pages that are in DRAM, and those that are on their way there or to flash.

use super::background::Errand;
use crate::config::{CmtGranularity, KeyIndex};
use crate::ftl::mapping::cmt::Cmt;
use crate::ftl::mapping::flights::Flights;
use crate::kernel::bytes::{Reader, StateError, Writer};
use crate::number::{CommandIndex, Lpn, Mvpn, WriteIndex};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// What waits for an index page.
#[derive(Clone, Copy, Debug)]
pub(super) enum PageWaiter {
    /// A command, at its next page.
    Command(CommandIndex),
    /// A unit that a collection moves.
    Collected(WriteIndex),
    /// A flush or merge of the index itself.
    Errand(Errand),
}

pub(crate) struct Pages {
    /// Index pages cached in DRAM; `None`: all are in DRAM.
    pub(super) cached: Option<Cmt>,
    pub(super) flights: Flights<PageWaiter>,
    /// Pages of runs that are being written.
    pub(super) errands: HashMap<Mvpn, Errand, FxBuildHasher>,
}

impl Pages {
    pub(super) fn new(config: &KeyIndex, page_bytes: u32) -> Pages {
        let cached = config.dram_bytes.map(|bytes| {
            let pages = (bytes / u64::from(page_bytes)).max(1);
            Cmt::new(CmtGranularity::Page, usize::try_from(pages).unwrap_or(usize::MAX))
        });
        Pages { cached, flights: Flights::new(), errands: HashMap::default() }
    }

    /// How many can be in DRAM, if not all.
    pub(super) fn capacity(&self) -> Option<usize> {
        self.cached.as_ref().map(Cmt::capacity)
    }

    pub(super) fn flights(&self) -> usize {
        self.flights.len()
    }

    /// Drops what is under way, and with the power what is in DRAM.
    pub(super) fn stop(&mut self, power_cut: bool) {
        self.flights.clear();
        self.errands.clear();
        if let Some(cached) = self.cached.as_mut().filter(|_| power_cut) {
            cached.clear();
        }
    }

    /// Pages in DRAM, and whether they differ from flash.
    pub(super) fn held(&self) -> Vec<(Mvpn, bool)> {
        let entries = self.cached.as_ref().map_or(vec![], Cmt::entries);
        entries.into_iter().map(|(_, page, dirty)| (page, dirty)).collect()
    }

    /// Puts a page into DRAM in no time; the page that had to leave and differed from flash.
    pub(super) fn put(&mut self, page: Mvpn, dirty: bool) -> Option<Mvpn> {
        self.cached.as_mut()?.insert(Lpn(0), page, dirty)
    }

    /// A page says nothing any more.
    pub(super) fn forget(&mut self, page: Mvpn) {
        if let Some(cached) = &mut self.cached {
            cached.forget_page(page);
        }
    }

    pub(super) fn save(&self, out: &mut Writer<'_>) {
        let held = self.held();
        out.numbers(held.iter().map(|held| held.0.0));
        out.numbers(held.iter().map(|held| u32::from(held.1)));
    }

    pub(super) fn restore(&mut self, input: &mut Reader<'_>, pages: u32) -> Result<(), StateError> {
        let most = self.capacity().unwrap_or(0);
        let held = input.numbers("index pages in DRAM", most, pages)?;
        let dirty = input.all("index pages that differ", held.len(), 2)?;
        let Some(cached) = &mut self.cached else { return Ok(()) };
        for (page, dirty) in held.into_iter().map(Mvpn).zip(dirty) {
            if cached.contains(Lpn(0), page) {
                return Err(StateError::Damaged("an index page is twice in DRAM".into()));
            }
            cached.insert(Lpn(0), page, dirty == 1);
        }
        Ok(())
    }
}
