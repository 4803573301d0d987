//! The tables, blocks and turns of this layer as bytes, saved and restored.

use super::Ftl;
use super::mapping::table::Content;
use super::placement::Stripe;
use super::unit::WriteUnit;
use crate::config::Placement;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer, generator};
use crate::kernel::hash::StateHash;
use crate::number::{Lpn, Plane, WriteIndex};
use rand::Rng;

impl Ftl {
    /// Whether nothing is being loaded, updated, collected or merged, and all that is to be
    /// programmed is in the data cache or waits for others to fill a page with.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.flights() == 0
            && self.planes.iter().all(|plane| plane.collection.is_over())
            && self.scheme.is_at_rest()
    }

    /// Whether a unit of the host may wait to be programmed in `plane`.
    pub(crate) fn may_wait(&self, lpn: Lpn, plane: Plane, group: u8, placement: Placement) -> bool {
        let fits = match placement {
            Placement::Static => plane == self.plane_of(Content::Unit(lpn)),
            _ => self.space_of(lpn).planes.contains(&plane),
        };
        fits && !self.planes[plane].read_only
            && (group == 0 || self.groups.first().is_some_and(|groups| group < groups.count()))
    }

    /// Puts a unit of the host that waited, and nobody waits for, where it waited.
    pub(crate) fn queue_restored(&mut self, at: WriteIndex) {
        let &WriteUnit { plane, class, .. } = self.unit(at);
        let queues = &mut self.planes[plane].queues;
        queues.host_units += 1;
        self.full_pages.added(queues.host_units);
        if self.is_grouped() {
            self.enqueue_in_group(at, plane);
        } else {
            let list = &mut self.planes[plane].queues.writes[usize::from(class)];
            self.units.push_back(list, at);
        }
    }

    /// Adds where everything is, which blocks are what, and which units are hot.
    pub(crate) fn hash(&self, hash: &mut StateHash) {
        self.mapping.table.hash(hash);
        for plane in self.shape.all_planes() {
            for &block in &self.blocks.free[plane] {
                hash.add(block.0);
            }
            for frontier in self.blocks.frontiers_of(plane) {
                hash.add(frontier.block.0);
                hash.add(frontier.next_page);
            }
        }
        self.scheme.hash(hash);
        if let Some(pairs) = &self.pairs {
            pairs.hash(hash);
        }
        if let Some(hotness) = &self.hotness {
            hotness.hash(hash);
        }
        if let Some(handles) = &self.handles {
            handles.hash(hash);
        }
        if let Some(slc) = &self.slc {
            slc.hash(hash);
        }
        if let Some(superblocks) = &self.blocks.superblocks {
            superblocks.hash(hash);
        }
    }

    /// Erases of the block that was erased most.
    pub(crate) fn erases_max(&self) -> u32 {
        self.blocks.erases.iter().copied().max().unwrap_or(0)
    }

    /// Translation pages that are being loaded or updated.
    pub(crate) fn flights(&self) -> usize {
        self.mapping.flights() + self.pairs.as_ref().map_or(0, |pairs| pairs.flights())
    }

    /// Writes where everything is, and which planes take no more.
    pub(crate) fn save_tables(&mut self, out: &mut Writer<'_>) {
        let table = &self.mapping.table;
        out.number(self.shape.ppns() as u64);
        out.number(table.units().into());
        out.number(table.translation_pages().into());
        table.save(out);
        self.mapping.save(out);
        self.blocks.save(out);
        let seed = self.faults.reseed(None);
        out.number(seed);
        out.numbers(self.planes.iter().map(|plane| u32::from(plane.read_only)));
    }

    /// Writes what is under way of placement and wear levelling; the host has written `written`
    /// units.
    pub(crate) fn save_work(&mut self, written: u64, out: &mut Writer<'_>) {
        out.number(u64::from(self.write_pressure));
        let seed = self.retries.next_u64();
        self.retries = generator(seed);
        out.number(seed);
        out.number(u64::from(self.write_protected));
        out.numbers(self.levelled_last.iter().map(|&levelled| u32::from(levelled)));
        // Of blocks emptied since the host last wrote, how many matters.
        let count = |&(at, count): &(u64, u32)| if at == written { count + 1 } else { 0 };
        out.numbers(self.levelled.iter().map(count));
        out.numbers(self.stripes.iter().map(|stripe| stripe.at));
        out.numbers(self.stripes.iter().map(|stripe| stripe.left));
    }

    /// Writes what blocks are what, and which units are hot, where that is known.
    pub(crate) fn save_kinds(&self, out: &mut Writer<'_>) {
        self.scheme.save(out);
        if let Some(pairs) = &self.pairs {
            pairs.save(out);
        }
        if let Some(hotness) = &self.hotness {
            hotness.save(out);
        }
        if let Some(handles) = &self.handles {
            handles.save(out);
        }
        if let Some(slc) = &self.slc {
            slc.save(out);
        }
    }

    /// Takes what [`Ftl::save_tables`] wrote.
    pub(crate) fn restore_tables(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let table = &self.mapping.table;
        for (what, here) in [
            ("places on flash", self.shape.ppns() as u64),
            ("mapping units", table.units().into()),
            ("translation pages", table.translation_pages().into()),
        ] {
            if input.number()? != here {
                return Err(StateError::OtherShape(what));
            }
        }
        let valid = self.mapping.table.restore_all(&self.shape, input)?;
        self.mapping.restore(input)?;
        self.blocks.restore(valid, input)?;
        let seed = input.number()?;
        self.faults.reseed(Some(seed));
        let planes = input.all("planes", self.planes.len(), 2)?;
        for (plane, read_only) in self.planes.iter_mut().zip(planes) {
            plane.read_only = read_only == 1;
        }
        Ok(())
    }

    /// Takes what [`Ftl::save_work`] wrote.
    pub(crate) fn restore_work(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        self.write_pressure = input.number()? == 1;
        self.retries = generator(input.number()?);
        self.write_protected = input.number()? == 1;
        let levelled = input.all("levelled planes", self.levelled_last.len(), 2)?;
        self.levelled_last = levelled.into_iter().map(|levelled| levelled == 1).collect();
        let counts = input.all("blocks emptied", self.levelled.len(), u32::MAX)?;
        let levelled = |count: u32| count.checked_sub(1).map_or((u64::MAX, 0), |count| (0, count));
        self.levelled = counts.into_iter().map(levelled).collect();
        let at = input.all("stripes", self.stripes.len(), self.shape.planes)?;
        let left = input.all("stripes", self.stripes.len(), self.shape.units_per_page + 1)?;
        for (stripe, (at, left)) in at.into_iter().zip(left).enumerate() {
            // Handles are of drives all of whose namespaces have all planes.
            let of = stripe.min(self.namespaces.len() - 1);
            if at as usize >= self.namespaces[of].planes.len() {
                return Err(StateError::Damaged("a stripe".into()));
            }
            self.stripes[stripe] = Stripe { at, left };
        }
        Ok(())
    }

    /// Takes what [`Ftl::save_kinds`] wrote.
    pub(crate) fn restore_kinds(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        if self.scheme.restore(input)? {
            self.blocks.forbid_collection();
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.restore(input)?;
        }
        if let Some(hotness) = &mut self.hotness {
            hotness.restore(input)?;
        }
        if let Some(handles) = &mut self.handles {
            handles.restore(input)?;
            self.collector = handles.collector();
        }
        if let Some(slc) = &mut self.slc {
            slc.restore(input)?;
            slc.all().for_each(|block| self.blocks.forbid(block));
        }
        Ok(())
    }
}
