//! Pairs laid down in no time, before the first command.

use super::Pairs;
use crate::drive::{Drive, Policies};
use crate::ftl::mapping::table::Content;
use crate::io::{NamespaceId, Tag};
use crate::keys::{KeyOperation, KeyRequest, PairId, PairToFill};
use crate::number::Mvpn;
use crate::precondition::PreconditionError;
use mynah_stamp::Time;

impl<P: Policies> Drive<P> {
    /// Lays pairs down in the order in which they are given, and the pages of their index,
    /// without taking any time. The index pages that were used last are in DRAM then, as they are
    /// on flash.
    ///
    /// # Errors
    /// See [`Drive::place_pairs`].
    pub fn fill_pairs(
        &mut self,
        namespace: NamespaceId,
        pairs: impl IntoIterator<Item = PairToFill>,
    ) -> Result<(), PreconditionError> {
        let units = self.place_pairs(namespace, pairs, false)?;
        let index = namespace.0 as usize - 1;
        let Some(first) = self.ftl.namespace(index).map(|space| space.base) else { return Ok(()) };
        for lpn in first.run(units as u32) {
            let plane = self.ftl.plane_of(Content::Unit(lpn));
            self.lay_down(lpn, plane);
        }
        self.restart_counters();
        Ok(())
    }

    /// Whether these are the pairs of a namespace, each with its name, token and units.
    pub fn has_pairs(
        &self,
        namespace: NamespaceId,
        pairs: impl IntoIterator<Item = PairToFill>,
    ) -> bool {
        let all = self.ftl.pairs().zip(self.pair_counts(namespace));
        let Some((all, counts)) = all else { return false };
        let index = namespace.0 as usize - 1;
        let mut seen = 0;
        let are_there =
            pairs.into_iter().inspect(|_| seen += 1).all(|pair| all.is_as(index, &pair));
        are_there && seen == counts.pairs
    }

    /// Gives pairs units, one after the other from the namespace's first, and puts the pages of
    /// their index in place; `written`: those in DRAM differ from flash. Returns how many units
    /// that are: the namespace's part in the occupancy that [`Drive::precondition`] or
    /// [`Drive::fill`] is then to lay down.
    ///
    /// # Errors
    /// [`PreconditionError::Used`] if the drive has been used; [`PreconditionError::Pair`] with
    /// how many pairs there was room for, if not for all; [`PreconditionError::NoPairs`] if the
    /// namespace is of blocks.
    pub fn place_pairs(
        &mut self,
        namespace: NamespaceId,
        pairs: impl IntoIterator<Item = PairToFill>,
        written: bool,
    ) -> Result<u64, PreconditionError> {
        if self.kernel.now != Time::ZERO
            || self.kernel.observe.counted().commands > 0
            || self.host.commands_inside() > 0
        {
            return Err(PreconditionError::Used);
        }
        let index = (namespace.0 as usize).wrapping_sub(1);
        if self.ftl.pairs.as_ref().is_none_or(|pairs| !pairs.has(index)) {
            return Err(PreconditionError::NoPairs { namespace: namespace.0 });
        }
        for (done, pair) in pairs.into_iter().enumerate() {
            if !self.place_pair(namespace, pair) {
                return Err(PreconditionError::Pair { namespace: namespace.0, room: done as u64 });
            }
        }
        self.lay_index_down(index, written);
        let placed = self.ftl.pairs().map_or(0, |pairs| pairs.cells_of(namespace));
        Ok(placed.into())
    }

    /// Gives a pair its units; false if there is no room, or it has some already.
    fn place_pair(&mut self, namespace: NamespaceId, pair: PairToFill) -> bool {
        let Some(pairs) = &mut self.ftl.pairs else { return false };
        let PairToFill { pair, token, key_bytes, value_bytes } = pair;
        let request = KeyRequest {
            tag: Tag(0),
            operation: KeyOperation::Store,
            namespace,
            token,
            key_bytes,
            bytes: value_bytes,
        };
        let index = namespace.0 as usize - 1;
        let placed = pairs.store(index, pair, &request).is_some_and(|change| !change.existed);
        pairs.settle_placed(index, pair);
        placed
    }

    /// Puts the pages of an index on flash, and as many as fit into DRAM.
    fn lay_index_down(&mut self, namespace: usize, written: bool) {
        let Some(pairs) = &mut self.ftl.pairs else { return };
        let pages = pairs.settle_index(namespace);
        for &page in &pages {
            let plane = self.ftl.plane_of(Content::TranslationPage(page));
            self.ftl.place_translation_page(page, plane);
        }
        if let Some(pairs) = &mut self.ftl.pairs {
            for page in pages {
                pairs.pages.put(page, written);
            }
        }
    }
}

impl Pairs {
    /// Whether there is a pair with this name, and it is like that.
    fn is_as(&self, namespace: usize, pair: &PairToFill) -> bool {
        let units = self.config.units(self.unit_bytes, pair.key_bytes.into(), pair.value_bytes);
        let space = self.spaces.get(namespace).and_then(Option::as_deref);
        space.is_some_and(|space| {
            let entry = space.entry(pair.pair);
            !entry.is_vacant() && entry.token == pair.token && entry.units() == units
        })
    }

    /// A pair that is placed is on flash.
    fn settle_placed(&mut self, namespace: usize, pair: PairId) {
        if let Some(space) = self.space_mut(namespace) {
            space.settle_pair(pair);
        }
    }

    /// The index of a namespace comes to rest in no time; its pages, if any have to be on flash.
    fn settle_index(&mut self, namespace: usize) -> Vec<Mvpn> {
        let all_in_dram = self.pages.capacity().is_none();
        let Some(space) = self.space_mut(namespace) else { return vec![] };
        let pages = space.index.settle();
        if all_in_dram && !space.index.has_jobs() {
            return vec![];
        }
        pages.into_iter().map(|page| space.index_base + page).collect()
    }
}
