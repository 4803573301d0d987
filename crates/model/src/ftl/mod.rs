//! The flash translation layer: where data lie on flash, and how that is kept and won back.

mod above;
pub(crate) mod blocks;
mod check;
pub(crate) mod collection;
mod groups;
pub(crate) mod handles;
pub(crate) mod hotness;
pub mod layout;
pub(crate) mod mapping;
pub(crate) mod pairs;
pub(crate) mod placement;
pub mod precondition;
pub(crate) mod program;
mod read;
pub(crate) mod slc;
mod state;
mod stop;
pub(crate) mod unit;
pub(crate) mod waiting;
pub(crate) mod wear;
mod write;

use crate::config::{Config, WriteFrontiers};
use crate::fault::Faults;
use crate::io::{NamespaceId, PlacementId};
use crate::kernel::pool::Pool;
use crate::number::{Lpn, Mvpn, Mvpns, Plane, Ppn, WriteIndex};
use crate::observe::blame::HolderIndex;
use crate::policy::VictimChoice;
use crate::space::{NamespaceSpace, Plan, Shape};
use blocks::Blocks;
use collection::PlaneState;
use groups::PlaneGroups;
use handles::Handles;
use hotness::Hotness;
use mapping::cached::Mapping;
use mapping::scheme::Scheme;
use mapping::table::Content;
use mynah_stamp::Span;
use pairs::Pairs;
use placement::Stripe;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use slc::Slc;
use unit::WriteUnit;
use waiting::FullPages;
use wear::WornReads;

/// Random numbers for victims, faults, the lives of blocks, and retries of reads.
pub(crate) struct Streams {
    pub(crate) gc: Xoshiro256PlusPlus,
    pub(crate) faults: Xoshiro256PlusPlus,
    pub(crate) lives: Xoshiro256PlusPlus,
    pub(crate) retries: Xoshiro256PlusPlus,
}

/// Where everything is on flash, and what is on its way there.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ftl {
    shape: Shape,
    /// Whether collection keeps pace with the host's writes.
    paced: bool,
    /// How long a die rests before its planes are collected, if they are then, until how many of
    /// their blocks are free.
    idle_after: Option<Span>,
    idle_blocks: usize,
    mapping: Mapping,
    /// What key-value namespaces hold, if there are any.
    #[serde(skip)]
    pairs: Option<Box<Pairs>>,
    /// Translation pages of block namespaces; those of indices of keys are behind them.
    table_pages: u32,
    /// Where what is written goes.
    scheme: Scheme,
    namespaces: Vec<NamespaceSpace>,
    blocks: Blocks,
    /// What reads take, where that depends on wear.
    worn_reads: Option<Box<WornReads>>,
    /// Blocks of each plane that may be retired before the drive takes no more writes.
    spare_blocks: Vec<u32>,
    write_protected: bool,
    /// Dynamic placement: where the writes of each namespace go, and how many valid units a
    /// plane may hold.
    stripes: Vec<Stripe>,
    plane_room: u32,
    retries: Xoshiro256PlusPlus,
    /// Whether the last block that a plane emptied was emptied to level wear.
    levelled_last: Vec<bool>,
    /// What the host had written when each plane last levelled wear, and how many blocks it
    /// has emptied since.
    levelled: Vec<(u64, u32)>,
    planes: Vec<PlaneState>,
    /// Which units are hot, where that decides to which blocks they go.
    hotness: Option<Box<Hotness>>,
    /// Which blocks are used with one bit a cell, if any are.
    slc: Option<Box<Slc>>,
    /// Whose data are where, on a drive with data placement.
    handles: Option<Box<Handles>>,
    /// Who holds what collections take.
    collector: HolderIndex,
    /// What waits for each plane by group, where there are several.
    groups: Vec<PlaneGroups>,
    /// Pages of a victim that are read or programmed at a time.
    pages_in_flight: u32,
    /// Whether every program takes the next page of an open block, the one for what it is.
    plain_programs: bool,
    units: Pool<WriteUnit>,
    /// Whether what was read stays in the data cache.
    reads_cached: bool,
    /// Whether host pages may be programmed before they are full.
    write_pressure: bool,
    /// How many planes have a full page of host units to program.
    full_pages: FullPages,
    faults: Faults,
    lost_units: Vec<Lpn>,
}

impl Ftl {
    pub(crate) fn new(config: &Config, shape: Shape, plan: Plan, random: Streams) -> Ftl {
        let planes = shape.planes as usize;
        let by_heat = match &config.gc.frontiers {
            WriteFrontiers::HotCold(data) => Some(data),
            WriteFrontiers::One | WriteFrontiers::Separate => None,
        };
        let handles = config.reclaim_unit_handles();
        let (gc, wear) = (&config.gc, &config.wear);
        let scheme = Scheme::new(config, &shape, &plan.namespaces);
        let mut blocks = scheme.blocks(Blocks::new(
            shape,
            gc,
            config.data_placement.as_ref(),
            wear,
            random.gc,
            random.lives,
        ));
        let slc = Slc::new(config, &shape, &mut blocks).map(Box::new);
        let passes_slc = slc.as_ref().is_some_and(|slc| slc.admission.is_some());
        let groups = if by_heat.is_some() || passes_slc { 2 } else { handles };
        let idle_blocks = (gc.idle_target * f64::from(shape.blocks_per_plane)) as usize;
        Ftl {
            paced: gc.paced || slc.is_some(),
            idle_after: gc.idle_after,
            idle_blocks: idle_blocks.max(blocks.start),
            mapping: Mapping::new(config, &shape, &plan),
            pairs: Pairs::new(config, &plan),
            table_pages: plan.first_index_page.0,
            blocks,
            worn_reads: wear.reads.as_ref().map(|reads| Box::new(WornReads::new(reads))),
            spare_blocks: plan.spare_blocks,
            write_protected: false,
            stripes: match handles {
                1 => vec![Stripe::default(); plan.namespaces.len() * (1 + usize::from(passes_slc))],
                // Those of a handle may be of any namespace.
                handles => vec![Stripe::default(); handles.into()],
            },
            plane_room: plan.plane_room,
            retries: random.retries,
            levelled_last: vec![false; planes],
            levelled: vec![(0, 0); planes],
            planes: vec![PlaneState::default(); planes],
            collector: handles::collector(handles, 0),
            handles: Handles::new(config, &shape).map(Box::new),
            groups: match groups {
                1 => vec![],
                _ => vec![PlaneGroups::new(groups, shape.units_per_program); planes],
            },
            hotness: by_heat.map(|data| Box::new(Hotness::new(data, plan.units))),
            pages_in_flight: collection::pages_in_flight(config, &shape),
            plain_programs: groups == 1
                && !config.flash.one_shot
                && slc.is_none()
                && scheme.fills_open_blocks(),
            slc,
            scheme,
            units: Pool::default(),
            reads_cached: config.cache.is_some_and(|cache| cache.mode.reads()),
            write_pressure: false,
            full_pages: FullPages::new(shape.units_per_program, groups.into()),
            faults: Faults::new(config, random.faults),
            lost_units: Vec::new(),
            namespaces: plan.namespaces,
            shape,
        }
    }

    /// A copy of all state; `None` if there are namespaces of pairs.
    pub(crate) fn copied(&self) -> Option<Ftl> {
        self.pairs.is_none().then(|| Ftl {
            shape: self.shape,
            paced: self.paced,
            idle_after: self.idle_after,
            idle_blocks: self.idle_blocks,
            mapping: self.mapping.clone(),
            pairs: None,
            table_pages: self.table_pages,
            scheme: self.scheme.clone(),
            namespaces: self.namespaces.clone(),
            blocks: self.blocks.clone(),
            worn_reads: self.worn_reads.clone(),
            spare_blocks: self.spare_blocks.clone(),
            write_protected: self.write_protected,
            stripes: self.stripes.clone(),
            plane_room: self.plane_room,
            retries: self.retries.clone(),
            levelled_last: self.levelled_last.clone(),
            levelled: self.levelled.clone(),
            planes: self.planes.clone(),
            hotness: self.hotness.clone(),
            slc: self.slc.clone(),
            handles: self.handles.clone(),
            collector: self.collector,
            groups: self.groups.clone(),
            pages_in_flight: self.pages_in_flight,
            plain_programs: self.plain_programs,
            units: self.units.clone(),
            reads_cached: self.reads_cached,
            write_pressure: self.write_pressure,
            full_pages: self.full_pages,
            faults: self.faults.clone(),
            lost_units: self.lost_units.clone(),
        })
    }

    /// The plane that `content` belongs to for ever.
    #[inline]
    pub(crate) fn plane_of(&self, content: Content) -> Plane {
        match content {
            Content::Unit(lpn) => {
                let space = self.space_of(lpn);
                space.plane_of(lpn - space.base, self.shape.units_per_page)
            }
            Content::TranslationPage(page) => {
                let space = self
                    .namespaces
                    .iter()
                    .find(|space| space.has_translation_page(page))
                    .expect("a translation page belongs to a namespace");
                let local = (page - space.translation_base) as usize;
                space.planes[local % space.planes.len()]
            }
        }
    }

    /// Where something is for ever that is overwritten in place.
    pub(crate) fn home_of(&self, content: Content) -> Ppn {
        let Content::Unit(lpn) = content else { unreachable!("there are no tables in it") };
        let space = self.space_of(lpn);
        space.home_of(lpn - space.base, &self.shape)
    }

    #[inline]
    pub(crate) fn space_of(&self, lpn: Lpn) -> &NamespaceSpace {
        &self.namespaces[self.namespace_index(lpn)]
    }

    #[inline]
    pub(crate) fn namespace_index(&self, lpn: Lpn) -> usize {
        if self.namespaces.len() == 1 {
            return 0;
        }
        self.namespaces.partition_point(|space| space.base <= lpn) - 1
    }

    pub(crate) fn namespace_of(&self, lpn: Lpn) -> (NamespaceId, u64) {
        let index = self.namespace_index(lpn);
        let id = NamespaceId(index as u32 + 1);
        (id, u64::from(lpn - self.namespaces[index].base))
    }

    /// Whether the data cache takes the writes of all namespaces.
    pub(crate) fn caches_all_writes(&self) -> bool {
        self.namespaces.iter().all(|space| space.caches_writes)
    }

    /// Notes of blocks what a policy asks for, if it is not the drive's own.
    pub(crate) fn date_blocks<V: VictimChoice>(&mut self, victims: &V) {
        if V::OWN {
            self.blocks.date(victims.dated());
        }
    }

    /// Counts the valid units of each plane from now on.
    pub(crate) fn count_planes(&mut self) {
        self.blocks.count_planes();
    }

    /// Counts what a command writes for its reclaim unit handle, where there are any.
    #[inline]
    pub(crate) fn count_host_write(&mut self, namespace: usize, to: PlacementId, bytes: u64) {
        if let Some(handles) = &mut self.handles {
            handles.host_writes(namespace, to, bytes);
        }
    }

    /// Notes, without counting, that data of this handle are at `ppn`.
    #[inline]
    pub(crate) fn note_handle(&mut self, ppn: Ppn, handle: u8) {
        if let Some(handles) = &mut self.handles {
            handles.lay_down(ppn, handle);
        }
    }

    /// Reclaim unit handles, on a drive with data placement.
    pub(crate) fn handles(&self) -> Option<&Handles> {
        self.handles.as_deref()
    }

    /// See [`Blocks::reclaim_unit_left`].
    pub(crate) fn reclaim_unit_left(&self, handle: u8) -> Option<(u64, u64)> {
        self.blocks.reclaim_unit_left(handle)
    }

    /// See [`Blocks::reclaim_units`].
    pub(crate) fn reclaim_units(&self, handle: u8) -> (u64, u64) {
        self.blocks.reclaim_units(handle)
    }

    /// See [`Blocks::units_erased`].
    pub(crate) fn units_erased(&self) -> u64 {
        self.blocks.units_erased()
    }

    /// See [`Handles::last_expected`].
    pub(crate) fn last_expected(&self, handle: u8) -> Option<u64> {
        self.handles().and_then(|handles| handles.last_expected(handle))
    }

    /// A handle's reclaim unit is closed when so many more of its units have been programmed.
    pub(crate) fn expect_last(&mut self, handle: u8, units: u64) {
        if let Some(handles) = &mut self.handles {
            handles.closing().retain(|(it, _)| *it != handle);
            handles.closing().push((handle, units));
        }
    }

    /// So many units of a handle that was updated have been taken, and so many wait: whether those
    /// from before are among the former.
    pub(crate) fn last_is_written(&mut self, handle: u8, units: u64, waits: u64) -> bool {
        let Some(handles) = &mut self.handles else { return false };
        let closing = handles.closing();
        for (_, left) in closing.iter_mut().filter(|(it, _)| *it == handle) {
            *left = left.saturating_sub(units).min(waits);
        }
        let count = closing.len();
        closing.retain(|&(it, left)| it != handle || left > 0);
        closing.len() < count
    }

    /// Handles whose reclaim units were to be closed.
    pub(crate) fn take_closing(&mut self) -> Vec<u8> {
        let closing = self.handles.as_mut().map(|handles| std::mem::take(handles.closing()));
        closing.into_iter().flatten().map(|(handle, _)| handle).collect()
    }

    /// What the handle fills next is a reclaim unit of its own; the rest of the present one stays
    /// empty.
    pub(crate) fn begin_reclaim_unit(&mut self, handle: u8) {
        for (first, count) in self.blocks.begin_reclaim_unit(handle) {
            first.run(count).for_each(|ppn| self.mapping.table.clear_ppn(ppn));
        }
    }

    /// Whether there are several reclaim unit handles.
    #[inline]
    pub(crate) fn tells_handles_apart(&self) -> bool {
        self.handles.is_some() && self.is_grouped()
    }

    /// Whether a command says which group its units belong to.
    #[inline]
    pub(crate) fn groups_by_command(&self) -> bool {
        self.tells_handles_apart() || self.parts_writes()
    }

    /// The reclaim unit handle that a placement identifier of a namespace (counted from 0) stands
    /// for, if there are several.
    #[inline]
    pub(crate) fn handle_of(&self, namespace: usize, placement: PlacementId) -> Option<u8> {
        let handles = self.handles.as_ref().filter(|_| self.is_grouped())?;
        Some(handles.resolve(namespace, placement))
    }

    /// Translation pages of block namespaces.
    fn table_pages(&self) -> Mvpns {
        Mvpn(0).run(self.table_pages)
    }

    /// What key-value namespaces hold, if there are any.
    #[inline]
    pub(crate) fn pairs(&self) -> Option<&Pairs> {
        self.pairs.as_deref()
    }

    pub(crate) fn pairs_mut(&mut self) -> Option<&mut Pairs> {
        self.pairs.as_deref_mut()
    }

    /// Whether a unit is a cell of a key-value namespace.
    #[inline]
    fn is_cell(&self, lpn: Lpn) -> bool {
        self.space_of(lpn).pairs.is_some()
    }

    /// Whether a translation page is one of an index of keys.
    #[inline]
    fn is_index_page(&self, page: Mvpn) -> bool {
        page.0 >= self.table_pages
    }

    /// Whether only a part of the mapping table is in DRAM.
    pub(crate) fn is_mapping_cached(&self) -> bool {
        self.mapping.is_cached()
    }

    /// Whether pages that were read have to be decoded, which takes time.
    #[inline]
    pub(crate) fn is_decoded(&self) -> bool {
        self.worn_reads.is_some()
    }

    /// What is dirty in the cache, on its way to flash, or being programmed.
    #[inline]
    pub(crate) fn units(&self) -> &Pool<WriteUnit> {
        &self.units
    }

    #[inline]
    pub(crate) fn units_mut(&mut self) -> &mut Pool<WriteUnit> {
        &mut self.units
    }

    #[inline]
    pub(crate) fn unit(&self, at: WriteIndex) -> &WriteUnit {
        &self.units[at]
    }

    #[inline]
    pub(crate) fn unit_mut(&mut self, at: WriteIndex) -> &mut WriteUnit {
        &mut self.units[at]
    }

    /// `None` if it is not mapped.
    #[inline]
    pub(crate) fn ppn(&self, lpn: Lpn) -> Option<Ppn> {
        self.mapping.table.ppn(lpn)
    }

    /// Mapping units of all namespaces.
    pub(crate) fn unit_count(&self) -> u32 {
        self.mapping.table.units()
    }

    /// A namespace by its number, counted from 0.
    #[inline]
    pub(crate) fn namespace(&self, index: usize) -> Option<&NamespaceSpace> {
        self.namespaces.get(index)
    }

    #[inline]
    pub(crate) fn namespaces(&self) -> &[NamespaceSpace] {
        &self.namespaces
    }

    /// Whether the drive takes no more writes.
    #[inline]
    pub(crate) fn is_write_protected(&self) -> bool {
        self.write_protected
    }

    /// Whether what was read stays in the data cache.
    #[inline]
    pub(crate) fn keeps_reads(&self) -> bool {
        self.reads_cached
    }

    /// Whether a plane has a full page of the host's units.
    #[inline]
    pub(crate) fn has_full_page(&self) -> bool {
        !self.full_pages.is_empty()
    }

    /// Whether host pages may be programmed before they are full.
    #[inline]
    pub(crate) fn is_write_pressed(&self) -> bool {
        self.write_pressure
    }

    pub(crate) fn set_write_pressure(&mut self, pressure: bool) {
        self.write_pressure = pressure;
    }

    /// Units of hosts that wait to be programmed in `plane`.
    pub(crate) fn host_units_waiting(&self, plane: Plane) -> u32 {
        self.planes[plane].queues.host_units
    }

    /// One of them must not wait any longer for others to fill its page.
    pub(crate) fn force(&mut self, plane: Plane) {
        self.planes[plane].queues.forced += 1;
    }

    pub(crate) fn free_blocks(&self, plane: Plane) -> usize {
        self.blocks.free_blocks(plane)
    }

    /// Valid units of all blocks.
    pub(crate) fn valid_units(&self) -> u64 {
        self.blocks.valid_units()
    }

    /// Asks for what will be looked at when a unit is overwritten: the count of valid units where
    /// it is.
    #[inline]
    pub(crate) fn prefetch_valid(&self, lpn: Lpn) {
        if let Some(ppn) = self.ppn(lpn) {
            self.blocks.prefetch_valid(self.shape.block_of_ppn(ppn));
        }
    }

    /// Asks for the mapping entry of a unit.
    #[inline]
    pub(crate) fn prefetch_entry(&self, lpn: Lpn) {
        self.mapping.table.prefetch(lpn);
    }

    /// Asks for what reads of units will look at beside their mapping entries.
    #[inline]
    pub(crate) fn prefetch_reads(&self, units: impl Iterator<Item = Lpn> + Clone) {
        self.prefetch_cached(units.clone());
        if self.worn_reads.is_some() {
            for ppn in units.filter_map(|lpn| self.ppn(lpn)) {
                self.blocks.prefetch_erases(self.shape.block_of_ppn(ppn));
            }
        }
    }

    /// Takes these faults in place of those that there were.
    pub(crate) fn renew_faults(&mut self, config: &Config) {
        self.faults.renew(config);
    }

    /// Pages that were being put together for planes chosen at the time of a write have been
    /// dropped, and nobody is told of what was lost.
    pub(crate) fn begin_anew(&mut self) {
        self.stripes.iter_mut().for_each(|stripe| stripe.left = 0);
        self.lost_units.clear();
        if let Some(slc) = &mut self.slc {
            slc.begin_anew();
        }
    }
}
