//! Where a drive's data lie: how full its blocks are, and how far apart units with neighbouring
//! addresses are. For comparing drives that came to their state in different ways.

use crate::drive::{Drive, Policies};
use crate::number::{Block, Lpn};
use serde::{Deserialize, Serialize};

/// Neighbours that are looked at, as powers of two: up to 64 units.
const LONGEST: u32 = 6;

/// Where data lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Free blocks of a plane, in the mean.
    pub free_blocks: f64,
    /// Blocks of a plane that are neither free nor open nor being emptied, in the mean.
    pub closed_blocks: f64,
    /// The mean share of valid units in the blocks that are neither free nor open.
    pub valid_units: f64,
    /// Its standard deviation from block to block.
    pub valid_deviation: f64,
    /// The standard deviation of the valid units of a plane, as a share of their mean.
    pub plane_deviation: f64,
    /// For 2, 4, … 64 units with consecutive addresses, all of them mapped, the first a multiple of
    /// their number: how they lie.
    pub neighbours: Vec<Neighbours>,
}

/// How so many units with consecutive addresses lie, in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    pub units: u32,
    /// Planes on which they lie.
    pub planes: f64,
    /// Flash pages in which they lie.
    pub pages: f64,
}

impl<P: Policies> Drive<P> {
    /// Where its data lie. Looks at the whole drive.
    #[inline]
    pub fn layout(&self) -> Layout {
        P::layout(self)
    }

    pub(crate) fn layout_here(&self) -> Layout {
        let blocks = &self.ftl.blocks;
        let all = (0..self.shape.planes * self.shape.blocks_per_plane).map(Block);
        let closed = all.filter(|&block| blocks.is_collectable(block));
        let of_block =
            |block| f64::from(blocks.valid(block)) / f64::from(self.shape.units_per_block);
        let shares: Vec<f64> = closed.map(of_block).collect();
        let count = shares.len().max(1) as f64;
        let mean = shares.iter().sum::<f64>() / count;
        let squares = shares.iter().map(|share| (share - mean) * (share - mean)).sum::<f64>();
        let planes = f64::from(self.shape.planes);
        let in_plane: Vec<f64> = self
            .shape
            .all_planes()
            .map(|plane| {
                let all = self.shape.blocks_of_plane(plane);
                all.map(|block| f64::from(blocks.valid(block))).sum()
            })
            .collect();
        let of_plane = in_plane.iter().sum::<f64>() / planes;
        let apart = in_plane.iter().map(|units| (units - of_plane) * (units - of_plane));
        let plane_deviation = (apart.sum::<f64>() / planes).sqrt() / of_plane.max(1.0);
        let free: usize = self.shape.all_planes().map(|plane| blocks.free_blocks(plane)).sum();
        Layout {
            free_blocks: free as f64 / planes,
            closed_blocks: shares.len() as f64 / planes,
            valid_units: mean,
            valid_deviation: (squares / count).sqrt(),
            plane_deviation,
            neighbours: (1..=LONGEST).map(|power| self.neighbours(1 << power)).collect(),
        }
    }

    fn neighbours(&self, units: u32) -> Neighbours {
        let (mut groups, mut planes, mut pages) = (0u64, 0u64, 0u64);
        let mut here = vec![];
        for space in &self.ftl.namespaces {
            for first in (0..space.units / units).map(|group| space.base + group * units) {
                here.clear();
                here.extend(
                    first.run(units).filter_map(|lpn: Lpn| self.ftl.mapping.table.ppn(lpn)),
                );
                if here.len() < units as usize {
                    continue;
                }
                let distinct = |mut of: Vec<u32>| {
                    of.sort_unstable();
                    of.dedup();
                    of.len() as u64
                };
                groups += 1;
                planes +=
                    distinct(here.iter().map(|&ppn| self.shape.plane_of_ppn(ppn).0).collect());
                pages += distinct(here.iter().map(|&ppn| self.shape.page_start(ppn).0).collect());
            }
        }
        let mean = |sum: u64| sum as f64 / groups.max(1) as f64;
        Neighbours { units, planes: mean(planes), pages: mean(pages) }
    }
}
