//! Hybrid mapping with log blocks: FAST (Lee et al., "A log buffer-based flash translation
//! layer using fully-associative sector translation", ACM TECS 6(3), 2007).
//!
//! The logical space is cut into logical blocks of as many pages as a flash block has. A
//! logical block has at most one data block, in which each page has its place; what is
//! overwritten goes to log blocks, whose pages can be of any logical block. A pool of blocks
//! is a plane: a logical block belongs to one for ever, and each has log blocks of its own.
//!
//! This file says which block is what and where the next page of a logical block goes; how
//! logs are merged into data blocks is [`merge`]. Where each page is says the table,
//! as with page mapping: both mapping tables of the scheme are small enough for DRAM.
//!
//! Two things differ from the paper, whose flash can be programmed in any order within a
//! block: a page is written to its data block only if no page at or behind its place has
//! been; and pages that hold nothing are passed over when a block is copied.

mod merge;
mod settled;

use crate::config::Config;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::number::{Block, Lpn, Plane, Ppn, WriteIndex};
use crate::space::{NamespaceSpace, Shape};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Data blocks and log blocks of all planes (hybrid mapping).
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Hybrid {
    pages_per_block: u32,
    blocks_per_plane: u32,
    /// Log blocks of a pool for writes in no order.
    pub(super) random_blocks: usize,
    /// Data block of each logical block, or `NONE`. Logical blocks are numbered like blocks, by
    /// plane.
    pub(super) data: Vec<Block>,
    /// First page of each data block that can still be written.
    pub(super) next: Vec<u16>,
    pub(super) pools: Vec<Pool>,
    /// Which units belong to each plane, in order.
    extents: Vec<Vec<Extent>>,
}

/// The logs of one plane.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Pool {
    /// The log block for sequential writes.
    pub(super) sequential: Option<Sequential>,
    /// Log blocks for all other writes, the oldest first; the last is being filled.
    pub(super) random: VecDeque<Block>,
    /// Next page to program in the last of `random`.
    pub(super) random_next: u32,
    /// Host pages that are being programmed.
    pub(super) programs: u32,
    pub(super) merge: Option<Merge>,
    /// Blocks that hold nothing and have to be erased, and the one that is being erased.
    pub(super) erases: Vec<Block>,
    pub(super) erasing: Option<Block>,
}

/// A log block whose pages are those of one logical block, in order from the first on.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Sequential {
    pub(super) block: Block,
    /// Index of the logical block.
    pub(super) owner: u32,
    pub(super) next: u32,
    /// One of its pages could not be programmed: it cannot become a data block.
    pub(super) spoiled: bool,
}

/// Logs that are being merged.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Merge {
    /// The log block that is to be emptied, or `NONE`.
    pub(super) victim: Block,
    /// Whether the log block for sequential writes is to become a data block.
    pub(super) sequential: bool,
    /// The logical block whose pages are being copied, if any are.
    pub(super) copy: Option<Copy>,
    /// A page of the present logical block could not be programmed before.
    pub(super) again: bool,
}

/// The copying of one logical block.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Copy {
    pub(super) logical: u32,
    /// Where to, or `NONE` if there is nothing to copy.
    pub(super) block: Block,
    /// Whether that is the log block for sequential writes.
    pub(super) partial: bool,
    /// First page that is copied, and where that and those after it are (or `NONE`).
    pub(super) first: u32,
    pub(super) sources: Vec<Ppn>,
    /// How many of them have been looked at.
    pub(super) looked: usize,
    /// Sources that are being read, or have been and wait for those before them.
    pub(super) reads: VecDeque<(Ppn, Read)>,
    /// Pages that wait to be programmed or are being programmed.
    pub(super) units: u32,
    /// A page could not be programmed: all goes back to where it was.
    pub(super) broken: bool,
}

/// What has become of a page that is copied.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Read {
    Waits,
    /// It holds nothing any more.
    Void,
    Unit(WriteIndex),
}

/// Units that follow one another in a plane.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Extent {
    /// Place of the first in the plane.
    first: u32,
    /// The first unit, how many there are, and how far they are apart.
    lpn: Lpn,
    units: u32,
    stride: u32,
}

/// Where a page that is written goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    /// To its place in the data block.
    Data,
    /// To the log block for sequential writes.
    SequentialLog,
    /// To the last of the other log blocks.
    RandomLog,
    /// Nowhere before the log block for sequential writes has been merged.
    AfterSequential,
    /// Nowhere before the oldest of the other log blocks has been merged.
    AfterRandom,
    /// The plane has no free block left.
    Nowhere,
}

impl Place {
    pub(super) fn is_now(self) -> bool {
        matches!(self, Place::Data | Place::SequentialLog | Place::RandomLog)
    }
}

impl Hybrid {
    pub(super) fn new(
        config: &Config,
        shape: &Shape,
        namespaces: &[NamespaceSpace],
        log_blocks: u32,
    ) -> Hybrid {
        let blocks = (shape.planes * shape.blocks_per_plane) as usize;
        debug_assert_eq!(config.mapping.unit_bytes, config.geometry.page_bytes);
        let mut extents = vec![Vec::new(); shape.planes as usize];
        for space in namespaces {
            let stride = space.planes.len() as u32;
            for (at, (&plane, &first)) in (0..).zip(space.planes.iter().zip(&space.offsets)) {
                let units = (space.units + stride - 1 - at) / stride;
                extents[plane].push(Extent { first, lpn: space.base + at, units, stride });
            }
        }
        Hybrid {
            pages_per_block: shape.pages_per_block,
            blocks_per_plane: shape.blocks_per_plane,
            random_blocks: log_blocks as usize - 1,
            data: vec![Block::NONE; blocks],
            next: vec![0; blocks],
            pools: shape.all_planes().map(|_| Pool::default()).collect(),
            extents,
        }
    }

    /// The logical block of something whose place is `home`, and the page in it.
    #[inline]
    pub(super) fn split(&self, home: Ppn) -> (u32, u32) {
        (home.0 / self.pages_per_block, home.0 % self.pages_per_block)
    }

    pub(super) fn plane_of(&self, logical: u32) -> Plane {
        Plane(logical / self.blocks_per_plane)
    }

    /// The unit whose place is `page` of a logical block.
    pub(super) fn unit_at(&self, logical: u32, page: u32) -> Option<Lpn> {
        let (plane, block) = (self.plane_of(logical), logical % self.blocks_per_plane);
        let place = block * self.pages_per_block + page;
        let extents = &self.extents[plane];
        let at = extents.partition_point(|extent| extent.first <= place).checked_sub(1)?;
        let Extent { first, lpn, units, stride } = extents[at];
        (place - first < units).then(|| lpn + (place - first) * stride)
    }

    /// Where the page at `home` goes, and which page of its block that is, when `free` blocks
    /// of the plane are. The last free block is for merges.
    pub(super) fn place(&self, home: Ppn, free: usize) -> (Place, u32) {
        let (logical, page) = self.split(home);
        let pool = &self.pools[self.plane_of(logical)];
        let spare = free >= 2;
        let owned = pool.sequential.as_ref().filter(|log| log.owner == logical);
        if owned.is_some_and(|log| page < log.next) {
            return (Place::AfterSequential, page);
        }
        let is_free = match self.data[logical as usize] {
            Block::NONE => spare,
            _ => page >= u32::from(self.next[logical as usize]),
        };
        if is_free {
            return (Place::Data, page);
        }
        match &pool.sequential {
            None if page == 0 && spare => return (Place::SequentialLog, 0),
            Some(_) if page == 0 => return (Place::AfterSequential, page),
            Some(log) if log.owner == logical => {
                return match page == log.next && !log.spoiled {
                    true => (Place::SequentialLog, page),
                    false => (Place::AfterSequential, page),
                };
            }
            _ => {}
        }
        if !pool.random.is_empty() && pool.random_next < self.pages_per_block {
            (Place::RandomLog, pool.random_next)
        } else if pool.random.len() < self.random_blocks && spare {
            (Place::RandomLog, 0)
        } else if !pool.random.is_empty() {
            (Place::AfterRandom, page)
        } else if pool.sequential.is_some() {
            (Place::AfterSequential, page)
        } else {
            (Place::Nowhere, page)
        }
    }

    /// Gives the page at `home` its place; returns the PPN. `open` takes a free block.
    pub(super) fn take(&mut self, home: Ppn, free: usize, open: impl FnOnce() -> Block) -> Ppn {
        let (logical, page) = self.split(home);
        let (place, at) = self.place(home, free);
        let plane = self.plane_of(logical);
        let pool = &mut self.pools[plane];
        let block = match place {
            Place::Data => {
                self.next[logical as usize] = (page + 1) as u16;
                let block = &mut self.data[logical as usize];
                if *block == Block::NONE {
                    *block = open();
                }
                *block
            }
            Place::SequentialLog => {
                let new = || Sequential { block: open(), owner: logical, next: 0, spoiled: false };
                let log = pool.sequential.get_or_insert_with(new);
                log.next = page + 1;
                log.block
            }
            _ => {
                if at == 0 {
                    pool.random.push_back(open());
                }
                pool.random_next = at + 1;
                *pool.random.back().unwrap_or(&Block::NONE)
            }
        };
        Ppn(block.0 * self.pages_per_block + at)
    }

    /// A page of `block` could not be programmed, or not to its end.
    pub(super) fn spoil(&mut self, block: Block) {
        let plane = self.plane_of(block.0);
        if let Some(log) = &mut self.pools[plane].sequential {
            log.spoiled |= log.block == block;
        }
    }

    /// A logical block has been copied: its data block is another. Returns the blocks that
    /// hold nothing any more.
    pub(super) fn replace(
        &mut self,
        logical: u32,
        block: Block,
        pages: u32,
    ) -> impl Iterator<Item = Block> + use<> {
        let plane = self.plane_of(logical);
        let log = self.pools[plane].sequential.take_if(|log| log.owner == logical);
        let log = log.map(|log| log.block).filter(|&old| old != block);
        let old = std::mem::replace(&mut self.data[logical as usize], block);
        self.next[logical as usize] = if block == Block::NONE { 0 } else { pages as u16 };
        log.into_iter().chain((old != Block::NONE).then_some(old))
    }

    /// Whether what has its place at `home` may be in `ppn`.
    pub(super) fn may_hold(&self, ppn: Ppn, home: Ppn) -> bool {
        let (logical, page) = self.split(home);
        let (block, at) = self.split(ppn);
        let block = Block(block);
        let pool = &self.pools[self.plane_of(logical)];
        // What has come to a sequential log is not in the data block any more.
        let logged = pool.sequential.as_ref().is_some_and(|log| {
            log.owner == logical && page < log.next && !log.spoiled && log.block != block
        });
        let data = self.data[logical as usize] == block
            && at == page
            && page < u32::from(self.next[logical as usize])
            && !logged;
        let log = pool.sequential.as_ref().is_some_and(|log| {
            log.block == block && log.owner == logical && at == page && page < log.next
        });
        let copy = pool.merge.as_ref().and_then(|merge| merge.copy.as_ref());
        let copy = copy.is_some_and(|copy| {
            copy.block == block && copy.logical == logical && at == page && page >= copy.first
        });
        let filled = |block: &Block| match pool.random.back() == Some(block) {
            true => pool.random_next,
            false => self.pages_per_block,
        };
        let random = pool.random.iter().any(|other| *other == block && at < filled(other));
        data || log || copy || random
    }

    /// Whether no merge is under way.
    pub(super) fn merges_are_over(&self) -> bool {
        self.pools.iter().all(|pool| pool.merge.is_none())
    }

    /// The blocks of `plane` that are something.
    pub(super) fn used_in(&self, plane: Plane) -> Vec<Block> {
        let first = (plane.0 * self.blocks_per_plane) as usize;
        let data = self.data[first..first + self.blocks_per_plane as usize].iter().copied();
        let data = data.filter(|&block| block != Block::NONE);
        data.chain(self.pools[plane].used()).collect()
    }

    /// Adds which blocks are something, and how far logs are filled.
    pub(super) fn hash(&self, hash: &mut StateHash) {
        self.used().for_each(|block| hash.add(block.0));
        self.pools.iter().for_each(|pool| hash.add(pool.random_next));
    }

    /// Every block that is something.
    pub(super) fn used(&self) -> impl Iterator<Item = Block> + '_ {
        let data = self.data.iter().copied().filter(|&block| block != Block::NONE);
        data.chain(self.pools.iter().flat_map(Pool::used))
    }

    pub(super) fn save(&self, out: &mut Writer<'_>) {
        out.numbers(self.data.iter().map(|block| block.0.wrapping_add(1)));
        out.numbers(self.next.iter().map(|&next| next.into()));
        let logs = || self.pools.iter().map(|pool| pool.sequential);
        let of = |get: fn(Sequential) -> u32| logs().map(move |log| log.map_or(0, get));
        out.numbers(of(|log| log.block.0 + 1));
        out.numbers(of(|log| log.owner));
        out.numbers(of(|log| log.next));
        out.numbers(of(|log| log.spoiled.into()));
        for pool in &self.pools {
            out.numbers(pool.random.iter().map(|block| block.0));
            out.numbers(pool.erases.iter().map(|block| block.0));
        }
        out.numbers(self.pools.iter().map(|pool| pool.random_next));
    }

    /// Takes what [`Hybrid::save`] wrote.
    pub(super) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let (blocks, planes) = (self.data.len(), self.pools.len());
        let (last, pages) = (blocks as u32, self.pages_per_block + 1);
        let damaged = |what: &str| Err(StateError::Damaged(what.into()));
        let data = input.all("data blocks", blocks, last + 1)?;
        self.data = data.into_iter().map(|block| Block(block.wrapping_sub(1))).collect();
        let next = input.all("pages of data blocks", blocks, pages)?;
        self.next = next.into_iter().map(|next| next as u16).collect();
        let block = input.all("log blocks", planes, last + 1)?;
        let owner = input.all("owners of log blocks", planes, last)?;
        let next = input.all("pages of log blocks", planes, pages)?;
        let spoiled = input.all("spoiled log blocks", planes, 2)?;
        for (plane, pool) in self.pools.iter_mut().enumerate() {
            pool.sequential = block[plane].checked_sub(1).map(|block| Sequential {
                block: Block(block),
                owner: owner[plane],
                next: next[plane],
                spoiled: spoiled[plane] == 1,
            });
            let random = input.numbers("log blocks", self.random_blocks, last)?;
            pool.random = random.into_iter().map(Block).collect();
            let erases = input.numbers("used blocks", blocks, last)?;
            pool.erases = erases.into_iter().map(Block).collect();
        }
        let next = input.all("pages of log blocks", planes, pages)?;
        for (pool, next) in self.pools.iter_mut().zip(next) {
            pool.random_next = next;
        }
        for (plane, pool) in (0..).map(Plane).zip(&self.pools) {
            let owner = pool.sequential.iter().map(|log| log.owner);
            if pool
                .used()
                .map(|block| block.0)
                .chain(owner)
                .any(|block| self.plane_of(block) != plane)
            {
                return damaged("a log block of another plane");
            }
        }
        for (logical, &block) in (0..).zip(&self.data) {
            if block != Block::NONE && self.plane_of(block.0) != self.plane_of(logical) {
                return damaged("a data block of another plane");
            }
        }
        Ok(())
    }
}

impl Pool {
    /// Its blocks that are neither data blocks nor free.
    pub(super) fn used(&self) -> impl Iterator<Item = Block> + '_ {
        let copy = self.merge.iter().filter_map(|merge| merge.copy.as_ref());
        let copy =
            copy.filter(|copy| !copy.partial && copy.block != Block::NONE).map(|copy| copy.block);
        let logs = self.sequential.iter().map(|log| log.block).chain(self.random.iter().copied());
        logs.chain(copy).chain(self.erases.iter().copied()).chain(self.erasing)
    }
}
