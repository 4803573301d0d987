//! The mapping as the controller sees it: which entries it knows, loads of those that it
//! does not, and updates of translation pages.
//!
//! Entries that the controller changes are cached; when one that differs from flash has to
//! leave, its translation page is read (unless the whole page is cached), changed and
//! programmed elsewhere. An update that is wanted while one of the same page is under way is
//! joined to the next.
//!
//! What garbage collection changes becomes known by translation page, when all of a block has been
//! moved (the lazy and batched updates of DFTL, Gupta et al., ASPLOS'09, section 3.5). Until then
//! the old copies are there to be read. A collection so has at most one translation page written
//! for each that has entries of what it moved. Nothing waits for that: a power cut loses no
//! mapping, since every page says in its spare bytes what it holds.

use crate::config::{CachedTable, CmtGranularity, CmtSharing, Config, MappingTable};
use crate::drive::{Drive, Policies};
use crate::flash::queues::CLASS_TABLES;
use crate::flash::work::{Extent, WorkKind};
use crate::ftl::Ftl;
use crate::ftl::blocks::Stream;
use crate::ftl::mapping::cmt::Cmt;
use crate::ftl::mapping::flights::Flights;
use crate::ftl::mapping::table::{Content, Table};
use crate::ftl::unit::WriteUnit;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::number::{CommandIndex, Lpn, Mvpn, Plane, Ppn, WorkIndex, WriteIndex};
use crate::observe::blame::{HolderIndex, MAPPING_TABLE};
use crate::space::Plan;
use crate::space::{Divisor, Shape};
use crate::token::Token;
use mynah_stamp::Stage;
use serde::{Deserialize, Serialize};

/// What waits for a mapping entry.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Waiter {
    /// A command wants to read a logical unit.
    Read { command: CommandIndex, lpn: Lpn },
    /// A write unit wants to be programmed.
    Write { unit: WriteIndex },
}

/// The mapping tables and what the controller knows of them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Mapping {
    pub(crate) table: Table,
    cached: Option<Cached>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Cached {
    config: CachedTable,
    /// Entries in a translation page.
    per_page: u32,
    by_page: Divisor,
    /// One table for all, or one for each namespace.
    tables: Vec<Cmt>,
    flights: Flights<Waiter>,
    /// Translation pages whose evicted entries stay in DRAM for ever, as in MQSim, which
    /// never programs them.
    departing: Vec<bool>,
}

impl Cached {
    /// Which of the cached mapping tables a namespace uses.
    #[inline]
    fn place_of(&self, namespace: usize) -> usize {
        match self.tables.len() {
            1 => 0,
            tables => namespace % tables,
        }
    }

    /// The cached mapping table that a namespace uses.
    #[inline]
    fn table_of(&mut self, namespace: usize) -> &mut Cmt {
        let at = self.place_of(namespace);
        &mut self.tables[at]
    }
}

impl Mapping {
    pub(crate) fn new(config: &Config, shape: &Shape, plan: &Plan) -> Mapping {
        let table = Table::new(shape, plan.units, plan.translation_pages);
        let cached = match config.mapping.table {
            MappingTable::Ideal => None,
            MappingTable::Cached(cached) => {
                let entry_bytes = match cached.granularity {
                    CmtGranularity::Entry => u64::from(plan.entry_bytes),
                    CmtGranularity::Page => u64::from(shape.page_bytes),
                };
                let tables = match cached.sharing {
                    CmtSharing::Shared => 1,
                    CmtSharing::Partitioned | CmtSharing::Private => plan.namespaces.len(),
                };
                let bytes = match cached.sharing {
                    CmtSharing::Partitioned => cached.bytes / tables as u64,
                    CmtSharing::Shared | CmtSharing::Private => cached.bytes,
                };
                let capacity = (bytes / entry_bytes) as usize;
                Some(Cached {
                    config: cached,
                    per_page: plan.entries_per_page,
                    by_page: Divisor::new(plan.entries_per_page),
                    tables: (0..tables)
                        .map(|_| match (cached.write_back, cached.granularity) {
                            (false, CmtGranularity::Entry) => {
                                Cmt::new(cached.granularity, capacity).written_apart()
                            }
                            _ => Cmt::new(cached.granularity, capacity),
                        })
                        .collect(),
                    flights: Flights::new(),
                    departing: vec![false; plan.translation_pages as usize],
                })
            }
        };
        Mapping { table, cached }
    }

    pub(crate) fn is_cached(&self) -> bool {
        self.cached.is_some()
    }

    /// Whether collections make cached entries dirty that are written some time, and in batches.
    pub(crate) fn tables_follow_collections(&self) -> bool {
        self.cached.as_ref().is_some_and(|cached| cached.config.write_back)
    }

    /// How many cached mapping tables there are.
    pub(crate) fn cached_tables(&self) -> usize {
        self.cached.as_ref().map_or(0, |cached| cached.tables.len())
    }

    /// Which of the cached mapping tables a namespace uses.
    pub(crate) fn table_of(&self, namespace: usize) -> usize {
        self.cached.as_ref().map_or(0, |cached| cached.place_of(namespace))
    }

    /// Entries that a cached mapping table can hold, but no more than there are.
    pub(crate) fn cmt_capacity(&self, table: usize) -> usize {
        self.cached.as_ref().map_or(0, |cached| {
            let all = match cached.config.granularity {
                CmtGranularity::Entry => self.table.units(),
                CmtGranularity::Page => self.table.translation_pages(),
            };
            cached.tables[table].capacity().min(all as usize)
        })
    }

    /// Drops what is only in DRAM.
    pub(crate) fn power_cut(&mut self) {
        if let Some(cached) = &mut self.cached {
            cached.tables.iter_mut().for_each(Cmt::clear);
            cached.flights.clear();
            cached.departing.fill(false);
        }
    }

    /// Drops what is being loaded or updated; what is cached stays.
    pub(crate) fn stop(&mut self) {
        if let Some(cached) = &mut self.cached {
            cached.flights.clear();
        }
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        let Some(cached) = &self.cached else { return };
        for table in &cached.tables {
            let entries = table.entries();
            out.numbers(entries.iter().map(|entry| entry.0));
            out.numbers(entries.iter().map(|entry| entry.1.0));
            out.numbers(entries.iter().map(|entry| u32::from(entry.2)));
        }
        out.numbers(cached.departing.iter().map(|&departing| u32::from(departing)));
    }

    /// Takes what [`Mapping::save`] wrote.
    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let (units, pages) = (self.table.units(), self.table.translation_pages());
        let Some(cached) = &mut self.cached else { return Ok(()) };
        let by_page = cached.config.granularity == CmtGranularity::Page;
        for table in &mut cached.tables {
            let most = table.capacity();
            let keys =
                input.numbers("cached entries", most, if by_page { pages } else { units })?;
            let of = input.all("pages of cached entries", keys.len(), pages)?;
            let dirty = input.all("dirty entries", keys.len(), 2)?;
            let of = of.into_iter().map(Mvpn);
            for ((key, page), dirty) in keys.into_iter().zip(of).zip(dirty) {
                if table.contains(Lpn(key), page) || by_page && key != page.0 {
                    return Err(StateError::Damaged("an entry is cached twice".into()));
                }
                table.insert(Lpn(key), page, dirty == 1);
            }
        }
        let departing = input.all("departing pages", cached.departing.len(), 2)?;
        cached.departing = departing.into_iter().map(|departing| departing == 1).collect();
        Ok(())
    }

    /// Translation pages that are being loaded or updated.
    pub(crate) fn flights(&self) -> usize {
        self.cached.as_ref().map_or(0, |cached| cached.flights.len())
    }
}

impl Ftl {
    /// Asks for what is looked at when the mapping entries of units, all of one namespace, are
    /// used.
    #[inline]
    pub(crate) fn prefetch_cached(&self, units: impl Iterator<Item = Lpn> + Clone) {
        let Some(cached) = &self.mapping.cached else { return };
        let Some(first) = units.clone().next() else { return };
        let table = &cached.tables[cached.place_of(self.namespace_index(first))];
        table.prefetch(units.map(|unit| (unit, self.translation_page(unit, cached.by_page))));
    }

    /// Puts every translation page on flash without taking any time, as MQSim does when it
    /// starts.
    pub(crate) fn place_translation_pages(&mut self) {
        for page in self.table_pages() {
            let plane = self.plane_of(Content::TranslationPage(page));
            self.place_translation_page(page, plane);
        }
    }

    /// Puts one translation page into `plane` without taking any time.
    pub(crate) fn place_translation_page(&mut self, page: Mvpn, plane: Plane) {
        let ppn = self.blocks.take_page(plane, Stream::TRANSLATION);
        let weight = self.shape.units_per_page;
        if let Some(before) = self.mapping.table.map(Content::TranslationPage(page), ppn) {
            self.blocks.remove_valid(self.shape.block_of_ppn(before), weight);
        }
        for other in 1..weight {
            self.mapping.table.clear_ppn(ppn + other);
        }
        self.blocks.add_valid(self.shape.block_of_ppn(ppn), weight);
    }

    /// The translation page that has the entry of `lpn`.
    #[inline]
    fn translation_page(&self, lpn: Lpn, by_page: Divisor) -> Mvpn {
        let space = self.space_of(lpn);
        space.translation_base + by_page.divide(lpn - space.base)
    }

    /// Lets the translation pages of each plane change places, so that they lie in the order in
    /// which they were written: `written` says when each was. Those that are written next are the
    /// ones that were written first, and so a block of them loses all its pages soon.
    pub(crate) fn order_translation_pages(&mut self, written: &[u64]) {
        let mut pages = vec![vec![]; self.shape.planes as usize];
        for page in Mvpn(0).run(self.mapping.table.translation_pages()) {
            if let Some(ppn) = self.mapping.table.translation_ppn(page) {
                pages[self.shape.plane_of_ppn(ppn)].push((page, ppn));
            }
        }
        for mut pages in pages {
            // Blocks of a plane that has not been used are opened in the order of their addresses.
            let mut ppns: Vec<Ppn> = pages.iter().map(|&(_, ppn)| ppn).collect();
            ppns.sort_unstable();
            pages.sort_by_key(|&(page, ppn)| (written[page.index()], ppn));
            for ((page, _), ppn) in pages.into_iter().zip(ppns) {
                self.mapping.table.map(Content::TranslationPage(page), ppn);
            }
        }
    }
}

impl<P: Policies> Drive<P> {
    /// Whether the mapping entry of `lpn` is known now. If not, `waiter` is called when it
    /// is.
    #[inline(always)]
    pub(crate) fn mapping_known(&mut self, lpn: Lpn, waiter: Waiter) -> bool {
        match &self.ftl.mapping.cached {
            None => true,
            Some(_) => self.mapping_cached(lpn, waiter),
        }
    }

    fn mapping_cached(&mut self, lpn: Lpn, waiter: Waiter) -> bool {
        let namespace = self.ftl.namespace_index(lpn);
        if self.ftl.namespaces[namespace].pairs.is_some() {
            // Its index page has been looked at.
            return true;
        }
        let Some(cached) = &self.ftl.mapping.cached else { return true };
        let page = self.ftl.translation_page(lpn, cached.by_page);
        let Some(cached) = &mut self.ftl.mapping.cached else { return true };
        self.kernel.observe.count().cmt_lookups += 1;
        if cached.table_of(namespace).lookup(lpn, page) {
            self.kernel.observe.count().cmt_hits += 1;
            return true;
        }
        let location = self.ftl.mapping.table.translation_ppn(page);
        // A page that is being updated, or was never written, is in DRAM.
        let in_dram = location.is_none() || cached.flights.is_in_dram(page);
        let departing = cached.departing[page] && !cached.flights.contains(page);
        if in_dram || departing {
            self.remember(lpn, page, false);
            return true;
        }
        if !cached.flights.wait(page, waiter) {
            return false;
        }
        let bytes = match cached.config.granularity {
            CmtGranularity::Entry => cached.config.load_bytes,
            CmtGranularity::Page => self.shape.page_bytes,
        };
        self.read_translation_page(Token::Load { page }, page, bytes, MAPPING_TABLE);
        false
    }

    /// Asks the flash for so many bytes of a translation page, on behalf of `holder`.
    pub(in crate::ftl) fn read_translation_page(
        &mut self,
        token: Token,
        page: Mvpn,
        bytes: u32,
        holder: HolderIndex,
    ) {
        let Some(ppn) = self.ftl.mapping.table.translation_ppn(page) else { return };
        let extent = Extent { plane: self.shape.plane_of_ppn(ppn), ppn, bytes };
        self.ask_flash(WorkKind::TableRead, CLASS_TABLES, holder, token, extent);
    }

    /// Reads a whole translation page that is to be changed.
    pub(in crate::ftl) fn read_for_update(&mut self, page: Mvpn, holder: HolderIndex) {
        self.read_translation_page(Token::Update { page }, page, self.shape.page_bytes, holder);
    }

    /// Caches the entry of `lpn`; evicts another if there is no room.
    fn remember(&mut self, lpn: Lpn, page: Mvpn, dirty: bool) {
        let namespace = self.ftl.namespace_index(lpn);
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        if let Some(evicted) = cached.table_of(namespace).insert(lpn, page, dirty) {
            self.update_translation_page(evicted, false);
        }
    }

    /// A translation page has been read for those who wait.
    pub(crate) fn translation_loaded(&mut self, page: Mvpn) {
        if self.ftl.is_index_page(page) {
            return self.index_page_loaded(page);
        }
        let now = self.kernel.now;
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        let Some((mut waiters, again)) = cached.flights.loaded(page) else { return };
        if again {
            self.update_translation_page(page, true);
        }
        let (mut last, mut last_command) = (WorkIndex::NONE, CommandIndex::NONE);
        for waiter in waiters.drain(..) {
            match waiter {
                Waiter::Read { command, lpn } => {
                    self.remember(lpn, page, false);
                    if command != last_command {
                        last = WorkIndex::NONE;
                    }
                    last = self.read_unit(command, lpn, last);
                    last_command = command;
                    let span = now.since(self.host.command(command).mark);
                    self.part_done(command, |stages| stages.add(Stage::Mapping, span));
                }
                Waiter::Write { unit: at } => {
                    if let Content::Unit(lpn) = self.ftl.units[at].content {
                        self.remember(lpn, page, false);
                    }
                    self.unit_mapping_known(at);
                }
            }
        }
        if let Some(cached) = &mut self.ftl.mapping.cached {
            cached.flights.give_back(waiters);
        }
    }

    /// The controller has changed the entry of `lpn`.
    #[inline]
    pub(crate) fn mapping_changed(&mut self, lpn: Lpn) {
        if let Some(cached) = &self.ftl.mapping.cached {
            let page = self.ftl.translation_page(lpn, cached.by_page);
            self.remember(lpn, page, true);
        }
    }

    /// Garbage collection is moving `lpn`, by write unit `at`.
    #[inline]
    pub(crate) fn collected_mapping_changed(&mut self, lpn: Lpn, at: WriteIndex) {
        let Some(cached) = &self.ftl.mapping.cached else { return };
        if cached.config.write_back {
            let plane = self.shape.plane_of_ppn(self.ftl.units[at].from);
            self.ftl.planes[plane].collection.moved.push(lpn);
            return;
        }
        // MQSim caches each entry as it moves the page (GC_and_WL_Unit_Page_Level.cpp calls
        // Allocate_new_page_for_gc of Address_Mapping_Unit_Page_Level.cpp).
        let page = self.ftl.translation_page(lpn, cached.by_page);
        let namespace = self.ftl.namespace_index(lpn);
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        let by_entry = cached.config.granularity == CmtGranularity::Entry;
        if by_entry || cached.table_of(namespace).contains(lpn, page) {
            self.remember(lpn, page, true);
        } else {
            self.update_translation_page(page, false);
        }
    }

    /// All that the collection of `plane` moves has been moved: the cached tables learn of it,
    /// translation page by translation page. Returns how many of those are to be written.
    pub(crate) fn tables_follow(&mut self, plane: Plane) -> u32 {
        let collection = &mut self.ftl.planes[plane].collection;
        if collection.moved.is_empty() {
            return 0;
        }
        let mut moved = std::mem::take(&mut collection.moved);
        // A unit whose program failed was moved twice.
        moved.sort_unstable();
        moved.dedup();
        moved.retain(|&unit| self.ftl.mapping.table.ppn(unit).is_some());
        let mut writes = 0;
        let mut rest = &mut moved[..];
        while let (Some(&first), Some(cached)) = (rest.first(), &self.ftl.mapping.cached) {
            let by_page = cached.by_page;
            let page = self.ftl.translation_page(first, by_page);
            let of_page =
                rest.partition_point(|&it| self.ftl.translation_page(it, by_page) <= page);
            let (units, others) = rest.split_at_mut(of_page);
            writes += u32::from(self.page_follows(page, units));
            rest = others;
        }
        moved.clear();
        self.ftl.planes[plane].collection.moved = moved;
        writes
    }

    /// The entries of `units`, all of one translation page, have been changed by a collection:
    /// those that are cached become dirty, and so do the others if room for them costs no more
    /// than one write of a translation page. Otherwise it is theirs that is written, with all of
    /// it that is dirty in the cache. Whether one is to be written.
    fn page_follows(&mut self, page: Mvpn, units: &mut [Lpn]) -> bool {
        let namespace = self.ftl.namespace_index(units[0]);
        let Some(cached) = &mut self.ftl.mapping.cached else { return false };
        let by_entry = cached.config.granularity == CmtGranularity::Entry;
        let table = cached.table_of(namespace);
        let mut unknown = 0;
        for at in 0..units.len() {
            if !table.make_dirty(units[at], page) {
                units.swap(at, unknown);
                unknown += 1;
            }
        }
        if unknown == 0 {
            return false;
        }
        if !by_entry || table.writes_for_room(unknown) > 1 {
            table.clean(page);
            self.update_translation_page(page, false);
            return true;
        }
        let mut writes = false;
        for &unit in &units[..unknown] {
            let Some(cached) = &mut self.ftl.mapping.cached else { return writes };
            if let Some(evicted) = cached.table_of(namespace).insert(unit, page, true) {
                writes = true;
                self.update_translation_page(evicted, false);
            }
        }
        writes
    }

    /// Units `first..end` have been deallocated.
    pub(crate) fn translation_trimmed(&mut self, first: Lpn, end: Lpn) {
        let Some(cached) = &self.ftl.mapping.cached else { return };
        if first >= end {
            return;
        }
        let by_page = cached.by_page;
        let namespace = self.ftl.namespace_index(first);
        for lpn in first.upto(end) {
            let page = self.ftl.translation_page(lpn, by_page);
            if let Some(cached) = &mut self.ftl.mapping.cached {
                cached.table_of(namespace).forget(lpn, page);
            }
        }
        let last = self.ftl.translation_page(Lpn(end.0 - 1), by_page);
        let first = self.ftl.translation_page(first, by_page);
        for page in first.run(last - first + 1) {
            if self.ftl.mapping.table.translation_ppn(page).is_some() {
                self.update_translation_page(page, false);
            }
        }
    }

    /// Reads (where only single entries are cached), changes and programs a translation
    /// page. `known`: it has just been read.
    fn update_translation_page(&mut self, page: Mvpn, known: bool) {
        let location = self.ftl.mapping.table.translation_ppn(page);
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        if !cached.config.write_back {
            cached.departing[page] = true;
            if location.is_some() && !known {
                self.read_for_no_write(page);
            }
            return;
        }
        let whole = cached.config.granularity == CmtGranularity::Page;
        let read = location.is_some() && !whole && !known;
        if !cached.flights.update(page, read) {
            return;
        }
        match read {
            true => self.read_for_update(page, MAPPING_TABLE),
            false => self.program_translation_page(page, MAPPING_TABLE),
        }
    }

    /// Reads what MQSim reads of a translation page before it would program it. Who wants one of its
    /// entries until it is there waits for that.
    fn read_for_no_write(&mut self, page: Mvpn) {
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        let bytes = match cached.config.granularity {
            CmtGranularity::Page => self.shape.page_bytes,
            CmtGranularity::Entry => {
                let spaces = &self.ftl.namespaces;
                let found = spaces.iter().position(|space| space.has_translation_page(page));
                let Some(namespace) = found else { return };
                let space = &spaces[namespace];
                let first = (page - space.translation_base) * cached.per_page;
                let end = (first + cached.per_page).min(space.units);
                let entries = (space.base + first).upto(space.base + end);
                let per_sector = (cached.per_page / (self.shape.page_bytes / 512)).max(1);
                512 * cached.table_of(namespace).write_back(page, entries, per_sector)
            }
        };
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        let token = match cached.flights.begin(page) {
            true => Token::Load { page },
            false => Token::Update { page },
        };
        self.read_translation_page(token, page, bytes, MAPPING_TABLE);
    }

    pub(crate) fn translation_read_for_update(&mut self, page: Mvpn) {
        if self.ftl.is_index_page(page) {
            return self.index_page_read_for_update(page);
        }
        let Some(cached) = &self.ftl.mapping.cached else { return };
        if !cached.config.write_back {
            return;
        }
        self.program_translation_page(page, MAPPING_TABLE);
        // Those who came while it was being read know it now.
        self.translation_loaded(page);
    }

    /// Sends a translation page to the flash, on behalf of `holder`.
    pub(in crate::ftl) fn program_translation_page(&mut self, page: Mvpn, holder: HolderIndex) {
        let unit = self.ftl.units.insert(WriteUnit::new(
            Content::TranslationPage(page),
            CLASS_TABLES,
            holder,
            self.kernel.now,
        ));
        self.send_to_flash(unit);
        if self.ftl.write_protected {
            self.collect_if_needed(self.ftl.units[unit].plane);
        }
    }

    /// A translation page has been programmed.
    pub(crate) fn translation_programmed(&mut self, page: Mvpn) {
        if self.ftl.is_index_page(page) {
            return self.index_page_programmed(page);
        }
        let Some(cached) = &mut self.ftl.mapping.cached else { return };
        if cached.flights.updated(page) {
            self.update_translation_page(page, false);
        }
    }

    /// Caches the entry of `lpn` as if it had just been used. What has to leave is written
    /// in no time: the translation page, if one is.
    pub(crate) fn warm_cmt(&mut self, lpn: Lpn, dirty: bool) -> Option<Mvpn> {
        let namespace = self.ftl.namespace_index(lpn);
        let cached = self.ftl.mapping.cached.as_ref()?;
        let page = self.ftl.translation_page(lpn, cached.by_page);
        let cached = self.ftl.mapping.cached.as_mut()?;
        cached.table_of(namespace).insert(lpn, page, dirty)
    }

    /// As [`Drive::warm_cmt`], for an `lpn` that a collection has moved. Where whole translation
    /// pages are cached, it caches none.
    pub(crate) fn warm_cmt_moved(&mut self, lpn: Lpn) -> Option<Mvpn> {
        let namespace = self.ftl.namespace_index(lpn);
        let cached = self.ftl.mapping.cached.as_ref()?;
        let page = self.ftl.translation_page(lpn, cached.by_page);
        let cached = self.ftl.mapping.cached.as_mut()?;
        let by_entry = cached.config.granularity == CmtGranularity::Entry;
        let table = cached.table_of(namespace);
        match table.make_dirty(lpn, page) || !by_entry {
            true => None,
            false => table.insert(lpn, page, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CachedTable, CmtGranularity};
    use crate::ftl::precondition::{Occupancy, UpdateClass};
    use crate::io::NamespaceId;
    use crate::testing::{cached_table, small};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A filled drive with 64 entries to a translation page; `bytes` cache one for each 128.
    fn filled(granularity: CmtGranularity, bytes: u64) -> Drive {
        let mut config = small();
        config.mapping.table = MappingTable::Cached(CachedTable {
            granularity,
            entry_bytes: Some(128),
            translation_entry_bytes: Some(128),
            ..cached_table(bytes)
        });
        let mut drive = Drive::new(config).expect("a valid drive");
        let units = u64::from(drive.ftl.mapping.table.units());
        let class = UpdateClass {
            placement: Default::default(),
            first: 0,
            units,
            weight: 1.0,
            write_share: 1.0,
            saturated: false,
            units_per_s: 0.0,
            together: 1,
            trims_per_write: 0.0,
            order: crate::ftl::precondition::Order::UNIFORM,
        };
        let all = Occupancy { namespace: NamespaceId(1), classes: vec![class] };
        drive.fill(&[all]).expect("a fresh drive");
        drive
    }

    proptest! {
        /// Whatever is cached and dirty, and whatever has been moved: no more translation pages are
        /// written than have entries of it, and afterwards each of these is dirty in the cache or
        /// its page is on its way.
        #[test]
        fn a_collection_writes_a_translation_page_at_most_once(
            by_page: bool,
            bytes in 8192u64..1 << 17,
            cached in prop::collection::vec((0u32..6000, any::<bool>()), 0..400),
            first in 0u32..5000,
            spread in prop::sample::select(vec![1u32, 3, 40, 6000]),
            moved in prop::collection::vec(any::<u32>(), 1..64),
        ) {
            let granularity = match by_page {
                true => CmtGranularity::Page,
                false => CmtGranularity::Entry,
            };
            let mut drive = filled(granularity, bytes);
            let units = drive.ftl.mapping.table.units();
            for (lpn, dirty) in cached {
                drive.warm_cmt(Lpn(lpn % units), dirty);
            }
            let moved: Vec<Lpn> =
                moved.into_iter().map(|draw| Lpn((first + draw % (spread * 8)) % units)).collect();
            let by_page = drive.ftl.mapping.cached.as_ref().expect("a cached table").by_page;
            let pages: BTreeSet<Mvpn> =
                moved.iter().map(|&lpn| drive.ftl.translation_page(lpn, by_page)).collect();
            drive.ftl.planes[0].collection.moved = moved.clone();
            let writes = drive.tables_follow(Plane(0));
            prop_assert!(writes as usize <= pages.len(), "{writes} for {} pages", pages.len());
            let cached = drive.ftl.mapping.cached.as_mut().expect("a cached table");
            prop_assert!(cached.flights.len() <= writes as usize);
            for lpn in moved {
                let page = Mvpn(lpn.0 / 64);
                let dirty = cached.tables[0].entries().iter().any(|&(key, of, dirty)| {
                    dirty && of == page && (key == lpn.0 || granularity == CmtGranularity::Page)
                });
                prop_assert!(dirty || cached.flights.contains(page), "unit {lpn}");
            }
            prop_assert!(drive.ftl.planes[0].collection.moved.is_empty());
        }
    }

    #[test]
    fn what_a_collection_moves_in_order_costs_one_write_a_translation_page() {
        let mut drive = filled(CmtGranularity::Entry, 8192);
        // A full cache of dirty entries, each of another translation page.
        for lpn in (0..5000).step_by(64) {
            drive.warm_cmt(Lpn(lpn), true);
        }
        let held =
            drive.ftl.mapping.cached.as_ref().map_or(0, |cached| cached.tables[0].entries().len());
        assert!(held > 32, "{held}");
        // 128 units of two translation pages, which would displace as many dirty entries.
        drive.ftl.planes[0].collection.moved = (5056..5184).map(Lpn).collect();
        assert!(drive.tables_follow(Plane(0)) <= 3);
    }
}
