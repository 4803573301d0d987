//! Namespaces, and the space of the drive that they lie in.
//!
//! The model's namespaces (mostly one, over the whole drive) are the space. An NVMe namespace
//! is a list of extents of it, mostly one, each of whole mapping units; so namespaces can
//! come and go although the model's are fixed.

use crate::nvm::reservation::Reservations;
use crate::nvm::uncorrectable::Uncorrectable;
use mynah_model::io::NamespaceId;
use mynah_wire::nvme::identify::LbaFormat;
use zerocopy::byteorder::little_endian::U16;

/// Bytes of a sector, the model's unit of addresses.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A run of the drive's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The model's namespace.
    pub(crate) pool: NamespaceId,
    /// First sector in it.
    pub(crate) sector: u64,
    /// Sectors.
    pub(crate) sectors: u64,
    /// First byte in the store.
    pub(crate) store: u64,
}

/// How blocks look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bytes of data as a power of two: 9 or 12.
    pub(crate) shift: u8,
    /// Bytes of metadata behind the data: 0 or 8.
    pub(crate) metadata: u8,
    /// Type of protection information, 0 for none.
    pub(crate) protection: u8,
}

/// The LBA formats, by index.
pub(crate) const FORMATS: [Format; 4] = [
    Format { shift: 9, metadata: 0, protection: 0 },
    Format { shift: 12, metadata: 0, protection: 0 },
    Format { shift: 9, metadata: 8, protection: 0 },
    Format { shift: 12, metadata: 8, protection: 0 },
];

impl Format {
    /// Index of the LBA format.
    pub(crate) fn index(self) -> u8 {
        u8::from(self.shift == 12) + if self.metadata > 0 { 2 } else { 0 }
    }

    /// Sectors of a block.
    pub(crate) fn block_sectors(self) -> u64 {
        1 << (self.shift - 9)
    }

    pub(crate) fn lba_formats() -> [LbaFormat; 64] {
        let mut formats = [LbaFormat::default(); 64];
        for (place, format) in formats.iter_mut().zip(FORMATS) {
            *place = LbaFormat {
                metadata: U16::new(u16::from(format.metadata)),
                data_shift: format.shift,
                // 4 KiB blocks suit the mapping, and metadata costs a copy.
                performance: if format.shift == 12 { 0 } else { 1 } + u8::from(format.metadata > 0),
            };
        }
        formats
    }
}

/// A set of controller identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerSet(Vec<u64>);

impl ControllerSet {
    pub(crate) fn none() -> ControllerSet {
        ControllerSet(Vec::new())
    }

    pub(crate) fn all(controllers_max: u16) -> ControllerSet {
        ControllerSet(vec![u64::MAX; usize::from(controllers_max) / 64 + 1])
    }

    #[inline]
    pub(crate) fn contains(&self, controller: u16) -> bool {
        let word = self.0.get(usize::from(controller / 64)).copied().unwrap_or(0);
        word >> (controller % 64) & 1 != 0
    }

    pub(crate) fn insert(&mut self, controller: u16) {
        let word = usize::from(controller / 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (controller % 64);
    }

    pub(crate) fn remove(&mut self, controller: u16) {
        if let Some(word) = self.0.get_mut(usize::from(controller / 64)) {
            *word &= !(1 << (controller % 64));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The identifiers from 0 to `max` that are in the set, or those that are not if these are
    /// fewer; whether it is those.
    pub(crate) fn shorter_list(&self, max: u16) -> (bool, Vec<u16>) {
        let words = || {
            (0..=max / 64).map(|at| {
                let ids = u64::MAX >> (63 - (max - at * 64).min(63));
                (at * 64, self.0.get(usize::from(at)).copied().unwrap_or(0) & ids, ids)
            })
        };
        let with: u32 = words().map(|(_, word, _)| word.count_ones()).sum();
        let all_but = u32::from(max) + 1 - with < with;
        let mut list = Vec::new();
        for (first, word, ids) in words() {
            let mut left = if all_but { !word & ids } else { word };
            while left != 0 {
                list.push(first + left.trailing_zeros() as u16);
                left &= left - 1;
            }
        }
        (all_but, list)
    }
}

/// Write protection (Base 2.0, section 8.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WriteProtection {
    /// None.
    None = 0,
    /// Until somebody takes it off.
    On = 1,
    /// Until the next power cycle.
    UntilPowerCycle = 2,
}

/// A namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) id: u32,
    /// Blocks.
    pub(crate) blocks: u64,
    pub(crate) format: Format,
    pub(crate) extents: Vec<Extent>,
    /// Which controllers have it.
    pub(crate) attached: ControllerSet,
    /// Whether several controllers may have it.
    pub(crate) shared: bool,
    /// Makes its names unlike those of a deleted namespace with the same identifier.
    pub(crate) serial: u32,
    pub(crate) protection: WriteProtection,
    pub(crate) reservations: Reservations,
    pub(crate) uncorrectable: Uncorrectable,
    /// A format is under way.
    pub(crate) formatting: bool,
    /// Commands that need the namespace for themselves, and those that wait for them.
    pub(crate) exclusive: u32,
    /// Whether reads and writes need none of the rarer checks: plain blocks in one extent,
    /// nothing reserved, protected, uncorrectable or under way.
    pub(crate) plain: bool,
}

impl Namespace {
    /// Bytes of the drive's space.
    pub(crate) fn space(&self) -> u64 {
        self.extents.iter().map(|extent| extent.sectors * SECTOR_BYTES).sum()
    }

    /// Recomputes what [`Namespace::plain`] says.
    pub(crate) fn settle(&mut self) {
        self.plain = self.extents.len() == 1
            && self.format.metadata == 0
            && self.protection == WriteProtection::None
            && !self.formatting
            && self.exclusive == 0
            && self.reservations.holder_kind().is_none()
            && self.uncorrectable.is_empty();
    }

    /// Gives the namespace its block format, and the blocks that fit.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.format = format;
        self.blocks = self.space() >> format.shift;
        self.settle();
    }

    /// The power was off.
    pub(crate) fn power_cycled(&mut self) {
        self.reservations.power_lost();
        self.formatting = false;
        if self.protection == WriteProtection::UntilPowerCycle {
            self.protection = WriteProtection::None;
        }
        self.settle();
    }

    /// The parts of a range of sectors, as runs of the drive's space.
    pub(crate) fn parts(&self, sector: u64, sectors: u64) -> impl Iterator<Item = Extent> + '_ {
        let end = sector + sectors;
        let mut from = 0;
        self.extents.iter().filter_map(move |extent| {
            let (first, last) = (from.max(sector), (from + extent.sectors).min(end));
            let skipped = first.saturating_sub(from);
            from += extent.sectors;
            (first < last).then(|| Extent {
                pool: extent.pool,
                sector: extent.sector + skipped,
                sectors: last - first,
                store: extent.store + skipped * SECTOR_BYTES,
            })
        })
    }
}

/// The drive's space and which of it is free.
#[derive(Debug)]
pub(crate) struct Space {
    /// Sectors of a mapping unit.
    pub(crate) unit_sectors: u64,
    /// Free runs, in order of their place.
    free: Vec<Extent>,
    /// Sectors in all.
    pub(crate) sectors: u64,
}

impl Space {
    /// The space of pools of these sizes.
    pub(crate) fn new(pools: impl Iterator<Item = u64>, unit_sectors: u64) -> Space {
        let mut free = Vec::new();
        let mut start = 0;
        for (id, sectors) in (1..).zip(pools) {
            // Namespaces begin and end with whole units, and 4 KiB blocks must fit.
            let grain = unit_sectors.max(8);
            let usable = sectors / grain * grain;
            if usable > 0 {
                let pool = NamespaceId(id);
                free.push(Extent { pool, sector: 0, sectors: usable, store: start * SECTOR_BYTES });
            }
            start += sectors;
        }
        Space { unit_sectors, free, sectors: start }
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

    /// Gives runs back.
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
        let mut space = Space::new([1000, 4096].into_iter(), 8);
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

    #[test]
    fn sets_of_controllers() {
        let mut set = ControllerSet::none();
        assert!(set.is_empty() && !set.contains(70));
        set.insert(70);
        assert!(set.contains(70) && !set.contains(71) && !set.is_empty());
        set.remove(70);
        assert!(set.is_empty());
        assert!(ControllerSet::all(200).contains(200));
        assert_eq!(ControllerSet::none().shorter_list(200), (false, vec![]));
        let mut all = ControllerSet::all(200);
        assert_eq!(all.shorter_list(200), (true, vec![]));
        for id in [0, 63, 64, 200] {
            set.insert(id);
            all.remove(id);
        }
        set.insert(201);
        assert_eq!(set.shorter_list(200), (false, vec![0, 63, 64, 200]));
        assert_eq!(all.shorter_list(200), (true, vec![0, 63, 64, 200]));
        assert_eq!(set.shorter_list(0), (true, vec![]));
        assert_eq!(set.shorter_list(63), (false, vec![0, 63]));
    }
}
