//! Blocks as bytes, for states that are saved.

use super::{Blocks, Frontier, INELIGIBLE};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer, generator};
use crate::number::{Block, Plane};
use rand::Rng;
use std::collections::VecDeque;

impl Blocks {
    pub(crate) fn save(&mut self, out: &mut Writer<'_>) {
        out.numbers(self.erases.iter().copied());
        for free in &self.free {
            out.numbers(free.iter().map(|block| block.0));
        }
        for frontiers in [&self.frontiers, &self.read_frontiers] {
            out.numbers(frontiers.iter().map(|frontier| frontier.block.0.wrapping_add(1)));
            out.numbers(frontiers.iter().map(|frontier| frontier.next_page));
        }
        out.numbers(self.cursor.iter().copied());
        out.numbers(self.retired.iter().map(|block| block.0));
        out.numbers(self.endurance.iter().copied());
        out.numbers(self.levelling.iter().map(|&levelling| u32::from(levelling)));
        for of_tables in &self.of_tables {
            out.numbers(of_tables.iter().map(|block| block.0));
        }
        for half in [0, 32] {
            out.numbers(self.stamps.iter().map(|stamp| (stamp >> half) as u32));
        }
        out.number(self.clock);
        let seed = self.random.next_u64();
        self.random = generator(seed);
        out.number(seed);
        if let Some(superblocks) = &self.superblocks {
            superblocks.save(out);
        }
    }

    /// `valid` are the valid units of each block.
    pub(crate) fn restore(
        &mut self,
        valid: Vec<u16>,
        input: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        let (blocks, planes) = (self.erases.len(), self.shape.planes as usize);
        let last = blocks as u32;
        self.erases = input.all("erases", blocks, u32::MAX)?;
        if !self.in_plane.is_empty() {
            let planes = valid.chunks(self.shape.blocks_per_plane as usize);
            let sum = |blocks: &[u16]| blocks.iter().map(|&valid| u32::from(valid)).sum();
            self.in_plane = planes.map(sum).collect();
        }
        self.valid = valid;
        let damaged = |what: &str| Err(StateError::Damaged(what.into()));
        for plane in 0..planes {
            let free = input.numbers("free blocks", self.shape.blocks_per_plane as usize, last)?;
            let free: VecDeque<Block> = free.into_iter().map(Block).collect();
            if free.iter().any(|&block| self.shape.plane_of_block(block).index() != plane) {
                return damaged("a free block of another plane");
            }
            self.free[plane] = free;
        }
        // What a drive has where no block is open; 0 where none ever is.
        let closed = self.frontiers.first().map_or(0, |open| open.next_page);
        type PlaneOf<'a> = &'a dyn Fn(usize) -> Plane;
        let mut frontiers = |count: usize, exact: bool, plane_of: PlaneOf<'_>| {
            let pages = self.shape.pages_per_block + 1;
            let blocks = input.numbers("open blocks", count, last + 1)?;
            if exact && blocks.len() != count || !blocks.len().is_multiple_of(planes) {
                return Err(StateError::Damaged("open blocks".into()));
            }
            let next = input.all("pages of open blocks", blocks.len(), pages)?;
            let open = blocks.into_iter().zip(next).enumerate().map(|(at, (block, next_page))| {
                let open = Frontier { block: Block(block.wrapping_sub(1)), next_page };
                let fits = match open.block {
                    Block::NONE => next_page == closed,
                    block => closed > 0 && self.shape.plane_of_block(block) == plane_of(at),
                };
                fits.then_some(open).ok_or(StateError::Damaged("an open block".into()))
            });
            open.collect::<Result<Vec<Frontier>, StateError>>()
        };
        let streams = self.streams.open_blocks;
        let open = frontiers(planes * streams, true, &|at| Plane((at / streams) as u32))?;
        // One for each namespace after the first.
        let reads = frontiers(planes << 16, false, &|at| Plane((at % planes) as u32))?;
        self.frontiers = open;
        self.read_frontiers = reads;
        self.cursor = input.all("cursors", planes, self.shape.blocks_per_plane)?;
        let retired = input.numbers("retired blocks", blocks, last)?;
        self.retired = retired.into_iter().map(Block).collect();
        self.gone = if self.retired.is_empty() { vec![] } else { vec![false; blocks] };
        for &block in &self.retired {
            self.gone[block] = true;
        }
        self.endurance = input.words("blocks' lives", self.endurance.len())?;
        let levelling = input.all("levelled planes", self.levelling.len(), 2)?;
        self.levelling = levelling.into_iter().map(|levelling| levelling == 1).collect();
        for plane in 0..planes {
            let most = self.shape.blocks_per_plane as usize;
            let of_tables = input.numbers("blocks of tables", most, last)?;
            let of_tables: Vec<Block> = of_tables.into_iter().map(Block).collect();
            if of_tables.iter().any(|&block| self.shape.plane_of_block(block).index() != plane) {
                return damaged("a block of tables of another plane");
            }
            self.of_tables[plane] = of_tables;
        }
        let low = input.words("ages", self.stamps.len())?;
        let high = input.words("ages", self.stamps.len())?;
        let stamp = |(low, high): (u32, u32)| u64::from(high) << 32 | u64::from(low);
        self.stamps = low.into_iter().zip(high).map(stamp).collect();
        self.clock = input.number()?;
        if self.stamps.iter().any(|stamp| *stamp > self.clock) {
            return damaged("a block from the future");
        }
        self.random = generator(input.number()?);
        if let Some(superblocks) = &mut self.superblocks {
            let mut in_use = vec![true; blocks];
            for &block in self.free.iter().flatten().chain(&self.retired) {
                in_use[block] = false;
            }
            superblocks.restore(self.shape.blocks_per_plane, &in_use, input)?;
        }
        let open = self.frontiers.iter().chain(&self.read_frontiers);
        let open = open.map(|frontier| frontier.block).filter(|block| *block != Block::NONE);
        let free = self.free.iter().flatten().copied();
        for block in open.chain(free).chain(self.retired.iter().copied()).collect::<Vec<_>>() {
            self.valid[block] |= INELIGIBLE;
        }
        Ok(())
    }
}
