//! Invariants of the mapping, of blocks and of what waits to be programmed, walked in full; for
//! tests.

use super::Ftl;
use super::groups::PlaneGroups;
use super::mapping::table::Content;
use crate::config::Placement;
use crate::drive::{Drive, Policies};
use crate::flash::queues::{CLASS_TABLES, CLASSES, moves};
use crate::invariant::{BrokenInvariant, hold};
use crate::kernel::pool::{Linked, List};
use crate::number::{Block, Lpn, Mvpn, Plane, WriteIndex};

impl Ftl {
    /// Whether both mapping directions, valid counts and free blocks fit together.
    pub(crate) fn check(&self, placement: Placement) -> Result<(), BrokenInvariant> {
        self.check_mapping(placement)?;
        self.check_isolation()?;
        self.check_blocks()?;
        self.check_slc()?;
        if let Some(superblocks) = &self.blocks.superblocks {
            superblocks.check().map_err(BrokenInvariant)?;
        }
        self.check_full_pages()
    }

    fn check_mapping(&self, placement: Placement) -> Result<(), BrokenInvariant> {
        let table = &self.mapping.table;
        let mut valid = vec![0u32; (self.shape.planes * self.shape.blocks_per_plane) as usize];
        for lpn in Lpn(0).run(table.units()) {
            let Some(ppn) = table.ppn(lpn) else { continue };
            hold(table.written(ppn) == Some(Content::Unit(lpn)), || {
                format!("unit {lpn} is mapped to slot {ppn}, which holds something else")
            })?;
            let plane = self.shape.plane_of_ppn(ppn);
            let fits = match placement {
                Placement::Static => plane == self.plane_of(Content::Unit(lpn)),
                _ => self.space_of(lpn).planes.contains(&plane),
            };
            hold(fits, || format!("unit {lpn} is in slot {ppn} of plane {plane}"))?;
            let home = || self.home_of(Content::Unit(lpn));
            hold(self.scheme.may_hold(ppn, home), || {
                format!("unit {lpn} with place {} is in slot {ppn}", home())
            })?;
            valid[self.shape.block_of_ppn(ppn)] += 1;
        }
        for page in Mvpn(0).run(table.translation_pages()) {
            let Some(ppn) = table.translation_ppn(page) else { continue };
            hold(table.written(ppn) == Some(Content::TranslationPage(page)), || {
                format!("translation page {page} is not in its slot {ppn}")
            })?;
            valid[self.shape.block_of_ppn(ppn)] += self.shape.units_per_page;
        }
        if placement != Placement::Static {
            for (plane, blocks) in valid.chunks(self.shape.blocks_per_plane as usize).enumerate() {
                let (counted, recorded) =
                    (blocks.iter().sum(), self.blocks.in_plane(Plane(plane as u32)));
                hold(recorded == counted, || {
                    format!("plane {plane} has {counted} valid units, but {recorded} are counted")
                })?;
            }
        }
        for (block, &counted) in valid.iter().enumerate() {
            let recorded = self.blocks.valid(Block(block as u32));
            hold(counted == recorded, || {
                format!("block {block} has {counted} valid units, but {recorded} are counted")
            })?;
        }
        Ok(())
    }

    /// Whether blocks of a drive whose handles stay isolated have the data of one each.
    fn check_isolation(&self) -> Result<(), BrokenInvariant> {
        let Some(handles) = self.handles().filter(|handles| handles.is_persistent()) else {
            return Ok(());
        };
        let blocks = self.shape.planes * self.shape.blocks_per_plane;
        let mut of: Vec<Option<u8>> = vec![None; blocks as usize];
        for ppn in Lpn(0).run(self.mapping.table.units()).filter_map(|lpn| self.ppn(lpn)) {
            let (block, handle) = (self.shape.block_of_ppn(ppn), handles.of(ppn));
            let first = of[block].get_or_insert(handle);
            hold(*first == handle, || {
                format!("block {block} holds data of handles {first} and {handle}")
            })?;
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), BrokenInvariant> {
        let (blocks, table) = (self.shape.blocks_per_plane, &self.mapping.table);
        for plane in self.shape.all_planes() {
            // Free, open, being collected, retired or collectable: exactly one of these.
            let mut seen = vec![0u8; blocks as usize];
            let first = self.shape.first_block_of_plane(plane);
            let within = |block: Block| block.index() - first.index();
            for &block in &self.blocks.free[plane] {
                hold(self.shape.plane_of_block(block) == plane, || {
                    format!("block {block} is free in the wrong plane {plane}")
                })?;
                hold(self.blocks.valid(block) == 0, || {
                    format!("free block {block} holds valid units")
                })?;
                seen[within(block)] += 1;
            }
            for frontier in self.blocks.frontiers_of(plane) {
                if frontier.block == Block::NONE {
                    continue;
                }
                seen[within(frontier.block)] += 1;
                let used = frontier.next_page * self.shape.units_per_page;
                let ppns = self.shape.first_ppn_of_block(frontier.block);
                let mut left = (ppns + used).run(self.shape.units_per_block - used);
                if let Some(ppn) = left.find(|&it| table.content(it).is_some()) {
                    return Err(BrokenInvariant(format!("slot {ppn} holds data too early")));
                }
            }
            for block in self.scheme.blocks_taken(plane).into_iter().chain(self.slc_blocks(plane)) {
                seen[within(block)] += 1;
            }
            let collection = &self.planes[plane].collection;
            let victim = collection.victim;
            if victim != Block::NONE {
                seen[within(victim)] += 1;
            }
            for &block in collection.next() {
                seen[within(block)] += 1;
            }
            // What the tables are to learn of has left the block that is collected.
            hold(victim != Block::NONE || collection.moved.is_empty(), || {
                format!("plane {plane} has moved units, but collects nothing")
            })?;
            for &unit in &collection.moved {
                let stays = table.ppn(unit).is_some_and(|it| self.shape.block_of_ppn(it) == victim);
                hold(!stays, || format!("unit {unit} was moved, but is in block {victim}"))?;
            }
            for &block in &self.blocks.retired {
                if self.shape.plane_of_block(block) == plane {
                    seen[within(block)] += 1;
                }
            }
            for &block in self.blocks.of_tables(plane) {
                hold(
                    self.shape.plane_of_block(block) == plane && !self.blocks.is_free(block),
                    || format!("block {block} of tables is free, or not of plane {plane}"),
                )?;
            }
            for block in first.run(blocks) {
                seen[within(block)] += u8::from(self.blocks.is_collectable(block));
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

    /// Whether the blocks of a pSLC cache are those that it says, and hold no more than they can.
    fn check_slc(&self) -> Result<(), BrokenInvariant> {
        let Some(slc) = &self.slc else { return Ok(()) };
        let table = &self.mapping.table;
        for plane in self.shape.all_planes() {
            let folded = Some(self.planes[plane].collection.victim);
            let folded = folded.filter(|&it| slc.is_folding(plane) && it != Block::NONE);
            let mut known = self.slc_blocks(plane);
            known.extend(folded);
            let mut dynamic = 0;
            for block in self.shape.blocks_of_plane(plane) {
                let (is, listed) = (slc.has(block), known.contains(&block));
                hold(is == listed, || {
                    format!(
                        "block {block} of {plane:?} is one of the cache: {is}, listed: {listed}"
                    )
                })?;
                if !is {
                    continue;
                }
                dynamic += u32::from(!slc.is_static(block));
                let open = slc.open(plane);
                let pages =
                    if open.block == block { open.next_page } else { slc.pages_per_block() };
                let used = pages * self.shape.units_per_page;
                let rest = self.shape.first_ppn_of_block(block) + used;
                let mut rest = rest.run(self.shape.units_per_block - used);
                if let Some(ppn) = rest.find(|&it| table.content(it).is_some()) {
                    return Err(BrokenInvariant(format!(
                        "slot {ppn} has more than one bit a cell"
                    )));
                }
            }
            let counted = slc.dynamic_blocks(plane);
            hold(counted == dynamic, || {
                format!("{plane:?} counts {counted} dynamic blocks of the cache, has {dynamic}")
            })?;
        }
        Ok(())
    }

    fn check_full_pages(&self) -> Result<(), BrokenInvariant> {
        let full = |plane: &&crate::ftl::collection::PlaneState| {
            self.full_pages.is_full(plane.queues.host_units)
        };
        let planes = self.planes.iter().filter(full).count();
        hold(planes == self.full_pages.planes() as usize, || {
            format!("{planes} planes have full pages, {} are counted", self.full_pages.planes())
        })
    }
}

impl<P: Policies> Drive<P> {
    pub(crate) fn check_queues(&self) -> Result<(), BrokenInvariant> {
        let count = |list: &List<WriteIndex>| {
            let (mut count, mut at) = (0, list.head);
            while at != WriteIndex::NONE {
                count += 1;
                at = self.ftl.units[at].next();
            }
            count
        };
        self.flash.check(|plane, class| {
            let class = usize::from(class);
            let groups = self.ftl.groups.get(plane.index());
            let others = groups.into_iter().flat_map(|it| (1..it.count()).map(|at| it.of(at).2));
            let others: u32 = others.map(|writes| count(&writes[class])).sum();
            count(&self.ftl.planes[plane].queues.writes[class]) + others
        })?;
        for (plane, groups) in self.ftl.groups.iter().enumerate() {
            self.check_oldest(Plane(plane as u32), groups)?;
            for group in 0..groups.count() {
                let (host, collected, own) = groups.of(group);
                let writes = match group {
                    0 => &self.ftl.planes[plane].queues.writes,
                    _ => own,
                };
                let mut units = [0; 2];
                for (class, list) in writes.iter().enumerate() {
                    if class == usize::from(CLASS_TABLES) {
                        continue;
                    }
                    let collected = moves(class as u8);
                    let (mut before, mut at) = (WriteIndex::NONE, list.head);
                    while at != WriteIndex::NONE {
                        let unit = &self.ftl.units[at];
                        let noted = self.ftl.handles.as_ref().map(|it| it.waits_behind_what(at));
                        hold(noted.is_none_or(|noted| noted == before), || {
                            format!("unit {at} waits behind {before}, not {noted:?}")
                        })?;
                        hold(unit.group == group, || {
                            format!("unit {at} of group {} waits with group {group}", unit.group)
                        })?;
                        units[usize::from(collected)] += 1;
                        (before, at) = (at, unit.next());
                    }
                }
                hold(units == [host, collected], || {
                    format!("plane {plane} counts {host} and {collected} of {group}, not {units:?}")
                })?;
            }
        }
        Ok(())
    }

    /// Whether it is known of each class which group is next.
    fn check_oldest(&self, plane: Plane, groups: &PlaneGroups) -> Result<(), BrokenInvariant> {
        for class in (0..CLASSES).filter(|&class| class != usize::from(CLASS_TABLES)) {
            let heads = (0..groups.count()).map(|group| match group {
                0 => self.ftl.planes[plane].queues.writes[class].head,
                _ => groups.of(group).2[class].head,
            });
            let waiting = heads.enumerate().filter(|&(_, head)| head != WriteIndex::NONE);
            let first = waiting.min_by_key(|&(_, head)| self.ftl.units[head].order);
            let (first, noted) = (first.map(|it| it.0 as u8), groups.oldest(class as u8));
            hold(first == noted, || {
                format!("in plane {plane:?} {first:?} of class {class} is next, not {noted:?}")
            })?;
        }
        Ok(())
    }
}
