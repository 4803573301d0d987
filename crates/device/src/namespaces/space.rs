//! The drive's space.
//!
//! The model's namespaces (mostly one, over the whole drive) are the space. An NVMe namespace
//! is a list of extents of it, mostly one, each of whole mapping units; so namespaces can
//! come and go although the model's are fixed.

use super::SECTOR_BYTES;
use mynah_model::io::NamespaceId;

/// A run of the drive's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The model's namespace that the run lies in.
    pub(crate) pool: NamespaceId,
    /// First sector within the model's namespace.
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    /// Offset of the first byte in the store.
    pub(crate) store: u64,
}

/// The drive's space and which of it is free.
#[derive(Debug)]
pub(crate) struct Space {
    /// Sectors of a mapping unit.
    unit_sectors: u64,
    /// Free runs, in order of their place.
    free: Vec<Extent>,
    /// Sectors of all pools, free or not.
    sectors: u64,
}

impl Space {
    /// The space of pools of these sizes, as far as they are for blocks.
    pub(crate) fn new(pools: impl Iterator<Item = (u64, bool)>, unit_sectors: u64) -> Space {
        let mut free = Vec::new();
        let mut start = 0;
        for (id, (sectors, is_for_blocks)) in (1..).zip(pools) {
            // Namespaces begin and end with whole units, and 4 KiB blocks must fit.
            let grain = unit_sectors.max(8);
            let usable = sectors / grain * grain;
            if usable > 0 && is_for_blocks {
                let pool = NamespaceId(id);
                free.push(Extent { pool, sector: 0, sectors: usable, store: start * SECTOR_BYTES });
            }
            start += sectors;
        }
        Space { unit_sectors, free, sectors: start }
    }

    /// Sectors of a mapping unit.
    #[inline]
    pub(crate) fn unit_sectors(&self) -> u64 {
        self.unit_sectors
    }

    /// Sectors of all pools, free or not.
    #[inline]
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Bytes of all pools, free or not.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES
    }

    /// Sectors that namespaces are multiples of.
    pub(crate) fn grain(&self) -> u64 {
        self.unit_sectors.max(8)
    }

    /// Bytes that belong to no namespace.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|extent| extent.sectors).sum::<u64>() * SECTOR_BYTES
    }

    /// Takes that many bytes, rounded up to whole grains, in one run if there is one.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Vec<Extent>> {
        let grain = self.grain();
        let sectors = bytes.div_ceil(SECTOR_BYTES).checked_next_multiple_of(grain)?;
        if sectors == 0 || sectors * SECTOR_BYTES > self.free_bytes() {
            return None;
        }
        let best = (0..self.free.len())
            .filter(|&at| self.free[at].sectors >= sectors)
            .min_by_key(|&at| self.free[at].sectors);
        let mut taken = Vec::new();
        let mut left = sectors;
        while left > 0 {
            let at = match best {
                Some(at) => at,
                None => (0..self.free.len()).max_by_key(|&at| self.free[at].sectors)?,
            };
            let run = &mut self.free[at];
            let part = run.sectors.min(left);
            taken.push(Extent { sectors: part, ..*run });
            run.sector += part;
            run.store += part * SECTOR_BYTES;
            run.sectors -= part;
            left -= part;
            if run.sectors == 0 {
                self.free.remove(at);
            }
        }
        Some(taken)
    }

    /// Takes these runs, if they are free.
    pub(crate) fn take_exactly(&mut self, wanted: &[Extent]) -> bool {
        let before = self.free.clone();
        for extent in wanted {
            let end = extent.store + extent.sectors * SECTOR_BYTES;
            let found = self.free.iter().position(|run| {
                run.pool == extent.pool
                    && run.sector <= extent.sector
                    && run.store <= extent.store
                    && end <= run.store + run.sectors * SECTOR_BYTES
                    && (extent.sector - run.sector) * SECTOR_BYTES == extent.store - run.store
            });
            let Some(at) = found else {
                self.free = before;
                return false;
            };
            let run = self.free.remove(at);
            let head = Extent { sectors: extent.sector - run.sector, ..run };
            let tail_sector = extent.sector + extent.sectors;
            let tail = Extent {
                sector: tail_sector,
                sectors: run.sector + run.sectors - tail_sector,
                store: end,
                ..run
            };
            let rest = [head, tail].into_iter().filter(|run| run.sectors > 0);
            self.free.splice(at..at, rest);
        }
        true
    }

    /// Adds runs to the free ones.
    pub(crate) fn give_back(&mut self, extents: &[Extent]) {
        self.free.extend_from_slice(extents);
        self.free.sort_by_key(|extent| extent.store);
        self.free.dedup_by(|next, run| {
            let touches = run.pool == next.pool && run.sector + run.sectors == next.sector;
            if touches {
                run.sectors += next.sectors;
            }
            touches
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(extents: &[Extent]) -> u64 {
        extents.iter().map(|extent| extent.sectors * SECTOR_BYTES).sum()
    }

    #[test]
    fn space_is_taken_given_back_and_joined() {
        let mut space = Space::new([(1000, true), (4096, true)].into_iter(), 8);
        assert_eq!(space.free_bytes(), (1000 + 4096) * 512);
        let first = space.take(1 << 20).unwrap();
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].pool, NamespaceId(2));
        assert_eq!(first[0].store, 1000 * 512);
        let odd = space.take(1).unwrap();
        assert_eq!(bytes(&odd), 4096);
        assert_eq!(odd[0].pool, NamespaceId(1), "the smallest run that is large enough");
        // More than any one run: several extents.
        let large = space.take(space.free_bytes()).unwrap();
        assert_eq!(large.len(), 2);
        assert!(space.take(1).is_none());
        space.give_back(&first);
        space.give_back(&large);
        space.give_back(&odd);
        assert_eq!(space.free.len(), 2);
        assert!(space.take_exactly(&large));
        assert!(!space.take_exactly(&large));
        assert_eq!(space.free_bytes(), (1 << 20) + 4096);
    }
}
