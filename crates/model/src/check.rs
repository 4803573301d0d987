//! The invariants, walked in full: slow, for tests.

use crate::config::Placement;
use crate::drive::Drive;
use crate::flash::queues::CLASS_COLLECTION;
use crate::ftl::mapping::table::Content;
use crate::ftl::unit::UnitState;
use crate::kernel::pool::{Linked, List, NONE};

/// A sentence about an invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broken invariant: {0}")]
pub struct BrokenInvariant(pub String);

pub(crate) fn hold(holds: bool, what: impl FnOnce() -> String) -> Result<(), BrokenInvariant> {
    if holds { Ok(()) } else { Err(BrokenInvariant(what())) }
}

impl Drive {
    /// Walks the drive's state and checks that it fits together: both mapping directions,
    /// valid counts, free blocks, queues, cache and counters.
    ///
    /// # Errors
    /// Says which invariant does not hold.
    pub fn check(&self) -> Result<(), BrokenInvariant> {
        self.check_mapping()?;
        self.check_blocks()?;
        if let Some(superblocks) = &self.ftl.blocks.superblocks {
            superblocks.check().map_err(BrokenInvariant)?;
        }
        self.check_queues()?;
        self.check_full_pages()?;
        self.check_cache()
    }

    fn check_mapping(&self) -> Result<(), BrokenInvariant> {
        let table = &self.ftl.mapping.table;
        let mut valid = vec![0u32; (self.shape.planes * self.shape.blocks_per_plane) as usize];
        for unit in 0..table.units() {
            let Some(slot) = table.slot(unit) else { continue };
            hold(table.written(slot) == Some(Content::Unit(unit)), || {
                format!("unit {unit} is mapped to slot {slot}, which holds something else")
            })?;
            let plane = self.shape.plane_of_slot(slot);
            let fits = match self.config.placement {
                Placement::Static => plane == self.ftl.plane_of(Content::Unit(unit)),
                _ => self.ftl.space_of(unit).planes.contains(&plane),
            };
            hold(fits, || format!("unit {unit} is in slot {slot} of plane {plane}"))?;
            if let Some(hybrid) = &self.ftl.hybrid {
                let home = self.ftl.home_of(Content::Unit(unit));
                hold(hybrid.may_hold(slot, home), || {
                    format!("unit {unit} with place {home} is in slot {slot}")
                })?;
            }
            valid[self.shape.block_of_slot(slot) as usize] += 1;
        }
        for page in 0..table.translation_pages() {
            let Some(slot) = table.translation_slot(page) else { continue };
            hold(table.written(slot) == Some(Content::TranslationPage(page)), || {
                format!("translation page {page} is not in its slot {slot}")
            })?;
            valid[self.shape.block_of_slot(slot) as usize] += self.shape.units_per_page;
        }
        if self.config.placement != Placement::Static {
            for (plane, blocks) in valid.chunks(self.shape.blocks_per_plane as usize).enumerate() {
                let (counted, kept) = (blocks.iter().sum(), self.ftl.blocks.in_plane(plane as u32));
                hold(kept == counted, || {
                    format!("plane {plane} has {counted} valid units, but {kept} are counted")
                })?;
            }
        }
        for (block, &counted) in valid.iter().enumerate() {
            let kept = self.ftl.blocks.valid(block as u32);
            hold(counted == kept, || {
                format!("block {block} has {counted} valid units, but {kept} are counted")
            })?;
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), BrokenInvariant> {
        let (blocks, table) = (self.shape.blocks_per_plane, &self.ftl.mapping.table);
        for plane in 0..self.shape.planes {
            // Free, open, being collected, retired or collectable: exactly one of these.
            let mut seen = vec![0u8; blocks as usize];
            let first = plane * blocks;
            for &block in &self.ftl.blocks.free[plane as usize] {
                hold(self.shape.plane_of_block(block) == plane, || {
                    format!("block {block} is free in the wrong plane {plane}")
                })?;
                hold(self.ftl.blocks.valid(block) == 0, || {
                    format!("free block {block} holds valid units")
                })?;
                seen[(block - first) as usize] += 1;
            }
            for frontier in self.ftl.blocks.frontiers_of(plane as usize) {
                if frontier.block == NONE {
                    continue;
                }
                seen[(frontier.block - first) as usize] += 1;
                let slots = frontier.block * self.shape.units_per_block;
                let left = slots + frontier.next_page * self.shape.units_per_page
                    ..slots + self.shape.units_per_block;
                if let Some(slot) = left.into_iter().find(|&it| table.content(it).is_some()) {
                    return Err(BrokenInvariant(format!("slot {slot} holds data too early")));
                }
            }
            if let Some(hybrid) = &self.ftl.hybrid {
                let data = &hybrid.data[first as usize..(first + blocks) as usize];
                let data = data.iter().copied().filter(|&block| block != NONE);
                for block in data.chain(hybrid.pools[plane as usize].used()) {
                    seen[(block - first) as usize] += 1;
                }
            }
            let collection = &self.ftl.planes[plane as usize].collection;
            let victim = collection.victim;
            if victim != NONE {
                seen[(victim - first) as usize] += 1;
            }
            // What the tables are to learn of has left the block that is collected.
            hold(victim != NONE || collection.moved.is_empty(), || {
                format!("plane {plane} has moved units, but collects nothing")
            })?;
            for &unit in &collection.moved {
                let stays =
                    table.slot(unit).is_some_and(|it| self.shape.block_of_slot(it) == victim);
                hold(!stays, || format!("unit {unit} was moved, but is in block {victim}"))?;
            }
            for &block in &self.ftl.blocks.retired {
                if self.shape.plane_of_block(block) == plane {
                    seen[(block - first) as usize] += 1;
                }
            }
            for &block in self.ftl.blocks.of_tables(plane) {
                hold(
                    self.shape.plane_of_block(block) == plane && !self.ftl.blocks.is_free(block),
                    || format!("block {block} of tables is free, or not of plane {plane}"),
                )?;
            }
            for block in first..first + blocks {
                seen[(block - first) as usize] += u8::from(self.ftl.blocks.is_collectable(block));
            }
            if let Some(at) = seen.iter().position(|&n| n != 1) {
                return Err(BrokenInvariant(format!(
                    "block {at} of plane {plane} is in {} states instead of one",
                    seen[at]
                )));
            }
        }
        Ok(())
    }

    fn check_queues(&self) -> Result<(), BrokenInvariant> {
        let count = |list: &List| {
            let (mut count, mut at) = (0, list.head);
            while at != NONE {
                count += 1;
                at = self.ftl.units[at].next();
            }
            count
        };
        self.flash.check(|plane, class| {
            let hot = self.ftl.hot_queues.get(plane as usize);
            let hot = hot.map_or(0, |queues| count(&queues.writes[usize::from(class)]));
            let queues = &self.ftl.planes[plane as usize].queues;
            count(&queues.writes[usize::from(class)]) + hot
        })?;
        for plane in (0..self.shape.planes).filter(|_| self.ftl.hotness.is_some()) {
            let queues = &self.ftl.hot_queues[plane as usize];
            let mut units = [0; 2];
            for (class, list) in queues.writes.iter().enumerate() {
                let mut at = list.head;
                while at != NONE {
                    hold(self.ftl.units[at].hot, || format!("cold unit {at} waits with hot ones"))?;
                    let collected = class == usize::from(CLASS_COLLECTION);
                    units[usize::from(collected)] += 1;
                    at = self.ftl.units[at].next();
                }
            }
            let counted = [queues.host_units, queues.collected_units];
            hold(units == counted, || {
                format!("plane {plane} counts {counted:?} hot units, {units:?} wait")
            })?;
        }
        Ok(())
    }

    fn check_full_pages(&self) -> Result<(), BrokenInvariant> {
        let full = |plane: &&crate::ftl::collection::PlaneState| {
            self.ftl.full_pages.is_full(plane.queues.host_units)
        };
        let planes = self.ftl.planes.iter().filter(full).count();
        hold(planes == self.ftl.full_pages.planes() as usize, || {
            format!("{planes} planes have full pages, {} are counted", self.ftl.full_pages.planes())
        })
    }

    fn check_cache(&self) -> Result<(), BrokenInvariant> {
        let Some(cache) = &self.cache else { return Ok(()) };
        cache.check().map_err(BrokenInvariant)?;
        let contents = cache.contents();
        for part in (0..cache.parts.len()).filter(|_| cache.is_bounded()) {
            let units = contents.iter().map(|&(_, at)| &self.ftl.units[at]);
            let of_part = units.filter(|unit| usize::from(unit.part) == part);
            let sectors: u32 = of_part.map(|unit| u32::from(unit.under_way)).sum();
            let counted = cache.under_way(part);
            hold(sectors == counted, || {
                format!("{sectors} sectors of part {part} are on their way, {counted} are counted")
            })?;
        }
        if let Some(clean) = &cache.clean {
            for (unit, _) in (0..cache.parts.len()).flat_map(|part| clean.contents(part)) {
                hold(self.ftl.mapping.table.slot(unit).is_some(), || {
                    format!("unit {unit} is clean in the cache, but not on flash")
                })?;
                hold(self.stays_when_clean(unit), || {
                    format!("unit {unit} is clean in the cache, which is not for its reads")
                })?;
            }
        }
        let mut dirty = 0;
        for (unit, at) in contents {
            let u = &self.ftl.units[at];
            hold(u.content == Content::Unit(unit) && u.cached, || {
                format!("unit {unit} is cached as something else")
            })?;
            hold(!u.rewritten || u.retried || u.state == UnitState::Programming, || {
                format!("unit {unit} was rewritten in state {:?}", u.state)
            })?;
            dirty += 1 + u64::from(u.rewritten);
        }
        hold(dirty == cache.dirty_units(), || {
            format!("{dirty} dirty units, but the epochs count {}", cache.dirty_units())
        })
    }

    /// Checks that nothing is left to do: for the end of a run whose commands have all
    /// completed.
    ///
    /// # Errors
    /// Says what is left.
    pub fn check_quiet(&self) -> Result<(), BrokenInvariant> {
        hold(self.host.commands.len() == 0, || {
            format!("{} commands are left", self.host.commands.len())
        })?;
        hold(self.ftl.mapping.flights() == 0, || "translation pages are on their way".to_string())?;
        let units: usize = self.cache.as_ref().map_or(0, |cache| cache.len());
        hold(self.ftl.units.len() == units, || {
            format!("{} write units are left, {units} are cached", self.ftl.units.len())
        })
    }
}
