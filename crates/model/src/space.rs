//! Addresses: namespaces, logical units and the planes they belong to, places on flash.
//!
//! A *unit* is what one mapping entry covers. Logical units of all namespaces are numbered
//! through by their LPN ([`Lpn`]); their places on flash by the PPN ([`Ppn`]): by plane, block,
//! page and place in the page. A logical unit belongs to one plane for ever: units of one page's worth are spread
//! over the namespace's planes in the order of [`PlaneOrder`](crate::config::PlaneOrder)
//! (static allocation).
//!
//! Where a unit is larger than a page, the planes that it lies across count as one plane, and
//! their pages at the same place as one page: so the whole model calls them, but for what flash
//! commands take and for what is counted.

use crate::config::{Config, Dimension, Namespace};
use crate::number::{Block, Die, Lpn, Mvpn, Plane, Planes, Ppn, Run};
use serde::{Deserialize, Serialize};

/// The flash array's shape in units.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) planes: u32,
    pub(crate) planes_per_die: u32,
    pub(crate) dies_per_channel: u32,
    pub(crate) dies_per_chip: u32,
    pub(crate) blocks_per_plane: u32,
    pub(crate) pages_per_block: u32,
    pub(crate) units_per_page: u32,
    pub(crate) units_per_block: u32,
    pub(crate) units_per_plane: u32,
    pub(crate) unit_sectors: u32,
    /// Its binary logarithm, if it is a power of two.
    unit_sectors_shift: Option<u32>,
    by_die: Divisor,
    by_block: Divisor,
    by_plane: Divisor,
    pub(crate) unit_bytes: u32,
    pub(crate) page_bytes: u32,
    /// Planes of the flash, and so its pages and blocks, in what counts as one.
    pub(crate) flash_planes: u32,
    /// Units that one program takes at most.
    pub(crate) units_per_program: u32,
    /// Pages that one program takes: those of a word line in one-shot programs.
    pub(crate) pages_per_program: u32,
}

impl Shape {
    /// Bytes of a unit that are not in `mask`, which is not whole.
    #[cold]
    pub(crate) fn bytes_beside(&self, mask: u64) -> u64 {
        let bits = self.unit_sectors.div_ceil(self.unit_sectors.div_ceil(64));
        let beside = bits.saturating_sub(mask.count_ones());
        u64::from(self.unit_bytes) * u64::from(beside) / u64::from(bits)
    }

    pub(crate) fn new(config: &Config) -> Shape {
        let flash_planes = config.planes_per_unit();
        let config = &config.with_joined_planes();
        let g = config.geometry;
        let units_per_page = g.page_bytes / config.mapping.unit_bytes;
        let units_per_block = units_per_page * g.pages_per_block;
        let unit_sectors = config.mapping.unit_bytes / 512;
        Shape {
            by_die: Divisor::new(g.planes_per_die),
            by_block: Divisor::new(units_per_block),
            by_plane: Divisor::new(units_per_block * g.blocks_per_plane),
            planes: g.planes(),
            planes_per_die: g.planes_per_die,
            dies_per_channel: g.chips_per_channel * g.dies_per_chip,
            dies_per_chip: g.dies_per_chip,
            blocks_per_plane: g.blocks_per_plane,
            pages_per_block: g.pages_per_block,
            units_per_page,
            units_per_block,
            units_per_plane: units_per_block * g.blocks_per_plane,
            unit_sectors,
            unit_sectors_shift: unit_sectors
                .is_power_of_two()
                .then(|| unit_sectors.trailing_zeros()),
            unit_bytes: config.mapping.unit_bytes,
            page_bytes: g.page_bytes,
            flash_planes,
            units_per_program: units_per_page * pages_per_program(config),
            pages_per_program: pages_per_program(config),
        }
    }

    /// The first PPN of the page that `ppn` is in.
    #[inline]
    pub(crate) fn page_start(&self, ppn: Ppn) -> Ppn {
        // Blocks and planes hold whole pages, and a page a power of two of units.
        Ppn(ppn.0 & !(self.units_per_page - 1))
    }

    /// Units that `sectors` sectors fill, and the sectors left over.
    #[inline]
    pub(crate) fn split_sectors(&self, sectors: u64) -> (u64, u64) {
        match self.unit_sectors_shift {
            Some(shift) => (sectors >> shift, sectors & u64::from(self.unit_sectors - 1)),
            None => {
                (sectors / u64::from(self.unit_sectors), sectors % u64::from(self.unit_sectors))
            }
        }
    }

    pub(crate) fn ppns(&self) -> usize {
        self.planes as usize * self.units_per_plane as usize
    }

    #[inline]
    pub(crate) fn all_planes(&self) -> Planes {
        Plane(0).run(self.planes)
    }

    #[inline]
    pub(crate) fn planes_of_die(&self, die: Die) -> Planes {
        Plane(die.0 * self.planes_per_die).run(self.planes_per_die)
    }

    #[inline]
    pub(crate) fn die_of_plane(&self, plane: Plane) -> Die {
        Die(self.by_die.divide(plane.0))
    }

    #[inline]
    pub(crate) fn plane_of_ppn(&self, ppn: Ppn) -> Plane {
        Plane(self.by_plane.divide(ppn.0))
    }

    /// Pages that so many units fill, the last perhaps in part.
    #[inline]
    pub(crate) fn pages_of(&self, units: u32) -> u32 {
        (units + self.units_per_page - 1) >> self.units_per_page.trailing_zeros()
    }

    /// Pages that a program takes that begins with page `page` of a block: the rest of the
    /// word line in one-shot programs, else one.
    #[inline]
    pub(crate) fn pages_in_program(&self, page: u32) -> u32 {
        match self.pages_per_program {
            1 => 1,
            pages => (pages - page % pages).min(self.pages_per_block - page),
        }
    }

    /// Places for units in a page, and the bytes of one.
    #[inline]
    pub(crate) fn ppns_per_page(&self) -> u32 {
        self.units_per_page
    }

    #[inline]
    pub(crate) fn ppn_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// The PPNs of `pages` pages that begin with `first`.
    #[inline]
    pub(crate) fn ppns_of_pages(&self, first: Ppn, pages: u32) -> std::ops::Range<Ppn> {
        first..first + self.units_per_page * pages
    }

    /// Index of a block among all of the drive.
    #[inline]
    pub(crate) fn block_of_ppn(&self, ppn: Ppn) -> Block {
        Block(self.by_block.divide(ppn.0))
    }

    /// The page within its block.
    #[inline]
    pub(crate) fn page_of_ppn(&self, ppn: Ppn) -> u32 {
        let within = ppn.0 - self.block_of_ppn(ppn).0 * self.units_per_block;
        within >> self.units_per_page.trailing_zeros()
    }

    #[inline]
    pub(crate) fn first_ppn_of_block(&self, block: Block) -> Ppn {
        Ppn(block.0 * self.units_per_block)
    }

    #[inline]
    pub(crate) fn first_block_of_plane(&self, plane: Plane) -> Block {
        Block(plane.0 * self.blocks_per_plane)
    }

    #[inline]
    pub(crate) fn blocks_of_plane(&self, plane: Plane) -> Run<Block> {
        self.first_block_of_plane(plane).run(self.blocks_per_plane)
    }

    #[inline]
    pub(crate) fn plane_of_block(&self, block: Block) -> Plane {
        Plane(block.0 / self.blocks_per_plane)
    }
}

/// A number that others are often divided by: a division takes the processor several times as
/// long as a multiplication with the reciprocal, which for 32 bits is exact (Lemire, Kaser and
/// Kurz, Faster remainder by direct computation, 2019).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Divisor {
    /// The reciprocal times 2^64, rounded up; 0 for a divisor of 1.
    reciprocal: u64,
}

impl Divisor {
    /// # Panics
    /// If `by` is 0.
    pub(crate) fn new(by: u32) -> Divisor {
        Divisor { reciprocal: (u64::MAX / u64::from(by)).wrapping_add(1) }
    }

    #[inline]
    pub(crate) fn divide(self, number: u32) -> u32 {
        match self.reciprocal {
            0 => number,
            reciprocal => ((u128::from(reciprocal) * u128::from(number)) >> 64) as u32,
        }
    }
}

/// Pages that one program takes.
pub(crate) fn pages_per_program(config: &Config) -> u32 {
    if config.flash.one_shot { config.flash.cell.bits() } else { 1 }
}

/// The layout of the logical space, which follows from a valid configuration.
pub(crate) struct Plan {
    pub(crate) namespaces: Vec<NamespaceSpace>,
    pub(crate) units: u32,
    pub(crate) translation_pages: u32,
    /// The first of them that belongs to an index of keys: those are the last.
    pub(crate) first_index_page: Mvpn,
    /// Entries in a translation page (1 with an ideal table).
    pub(crate) entries_per_page: u32,
    /// Bytes of a cached mapping entry.
    pub(crate) entry_bytes: u32,
    /// Blocks of each plane beyond what its share of the logical space needs.
    pub(crate) spare_blocks: Vec<u32>,
    /// Valid units that any plane can hold.
    pub(crate) plane_room: u32,
}

/// One namespace's place in the logical space.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NamespaceSpace {
    /// First logical unit, numbered through the whole drive.
    pub(crate) base: Lpn,
    /// Its capacity in units.
    pub(crate) units: u32,
    /// Its first translation page, and how many it has at most.
    pub(crate) translation_base: Mvpn,
    pub(crate) translation_pages: u32,
    /// What it has room for, if it is one of pairs; its capacity in units is 0 then, as far as
    /// blocks are concerned.
    pub(crate) pairs: Option<PairRoom>,
    /// Planes that successive pages' worth of units belong to, repeating.
    pub(crate) planes: Vec<Plane>,
    /// Whether the data cache takes its writes, and holds what was read of it.
    pub(crate) caches_writes: bool,
    pub(crate) caches_reads: bool,
    /// The first of each of these planes' pages that is the namespace's, where units have a
    /// place for ever.
    pub(crate) offsets: Vec<u32>,
}

/// What a namespace of pairs has room for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct PairRoom {
    /// Mapping units that pairs may have.
    pub(crate) capacity: u32,
    /// Mapping units that are numbered: more, so that runs of them are found.
    pub(crate) cells: u32,
    /// Keys that its index can hold.
    pub(crate) keys: u64,
}

impl NamespaceSpace {
    /// Whether a translation page is one of its own.
    pub(crate) fn has_translation_page(&self, page: Mvpn) -> bool {
        let first = self.translation_base;
        page >= first && page - first < self.translation_pages
    }

    /// The plane of a unit counted from the namespace's start.
    #[inline]
    pub(crate) fn plane_of(&self, unit: u32, units_per_page: u32) -> Plane {
        // A page holds a power of two of units.
        let group = unit >> units_per_page.trailing_zeros();
        self.planes[(group % self.planes.len() as u32) as usize]
    }

    /// The PPN of a unit counted from the namespace's start that is a page and has its place
    /// for ever.
    pub(crate) fn home_of(&self, unit: u32, shape: &Shape) -> Ppn {
        let planes = self.planes.len() as u32;
        let at = (unit % planes) as usize;
        Ppn(self.planes[at].0 * shape.units_per_plane + self.offsets[at] + unit / planes)
    }
}

/// The planes a namespace may use, in the order in which pages are spread over them.
pub(crate) fn planes_in_order(config: &Config, namespace: &Namespace) -> Vec<Plane> {
    let g = config.geometry;
    let or_all = |ids: &[u32], count: u32| match ids {
        [] => (0..count).collect(),
        ids => ids.to_vec(),
    };
    let channels = or_all(&namespace.channels, g.channels);
    let chips = or_all(&namespace.chips, g.chips_per_channel);
    let dies = or_all(&namespace.dies, g.dies_per_chip);
    let planes = or_all(&namespace.planes, g.planes_per_die);
    let ids = |dimension| match dimension {
        Dimension::Channel => &channels,
        Dimension::Chip => &chips,
        Dimension::Die => &dies,
        Dimension::Plane => &planes,
    };
    let count = channels.len() * chips.len() * dies.len() * planes.len();
    (0..count)
        .map(|mut n| {
            let (mut channel, mut chip, mut die, mut plane) = (0, 0, 0, 0);
            for dimension in config.plane_order.0 {
                let ids = ids(dimension);
                let id = ids[n % ids.len()];
                n /= ids.len();
                match dimension {
                    Dimension::Channel => channel = id,
                    Dimension::Chip => chip = id,
                    Dimension::Die => die = id,
                    Dimension::Plane => plane = id,
                }
            }
            let die = (channel * g.chips_per_channel + chip) * g.dies_per_chip + die;
            Plane(die * g.planes_per_die + plane)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn divides_like_a_division(
            number: u32,
            by in prop_oneof![1u32..70, 1..=u32::MAX, (0u32..32).prop_map(|bit| 1 << bit)],
        ) {
            let divisor = Divisor::new(by);
            for number in [number, number / by * by, u32::MAX, u32::MAX / by * by] {
                prop_assert_eq!(divisor.divide(number), number / by);
                prop_assert_eq!(divisor.divide(number.wrapping_sub(1)), number.wrapping_sub(1) / by);
            }
        }
    }
}
