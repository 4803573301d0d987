//! The mappings that a drive may have, on the same allocator and the same flash. What differs
//! between them is decided here, and nowhere else.

use super::hybrid::Hybrid;
use super::table::Content;
use crate::config::{Config, MappingScheme};
use crate::drive::{Drive, Policies};
use crate::ftl::Ftl;
use crate::ftl::blocks::{Blocks, Stream};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::number::{Block, Die, Lpn, Plane, Ppn, WorkIndex, WriteIndex};
use crate::space::{NamespaceSpace, Shape};
use serde::{Deserialize, Serialize};

/// Where what is written goes.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Scheme {
    /// Page mapping: to the next page of an open block.
    Page,
    /// To its place for ever, which is overwritten.
    InPlace,
    /// To its page in a data block, or to a log block.
    Hybrid(Box<Hybrid>),
}

impl Scheme {
    pub(crate) fn new(config: &Config, shape: &Shape, namespaces: &[NamespaceSpace]) -> Scheme {
        match config.mapping.scheme {
            MappingScheme::Hybrid { log_blocks } => {
                Scheme::Hybrid(Box::new(Hybrid::new(config, shape, namespaces, log_blocks)))
            }
            MappingScheme::Page if config.flash.rewritable => Scheme::InPlace,
            MappingScheme::Page => Scheme::Page,
        }
    }

    /// The blocks of a new drive, as this mapping uses them.
    pub(crate) fn blocks(&self, blocks: Blocks) -> Blocks {
        match self {
            Scheme::Page => blocks,
            Scheme::InPlace => blocks.in_place(),
            Scheme::Hybrid(_) => blocks.without_open_blocks(),
        }
    }

    /// Whether a program takes the next page of an open block, the one for what it is.
    #[inline]
    pub(crate) fn fills_open_blocks(&self) -> bool {
        matches!(self, Scheme::Page)
    }

    /// Whether data are overwritten where they are.
    #[inline]
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self, Scheme::InPlace)
    }

    #[inline]
    pub(super) fn hybrid(&self) -> Option<&Hybrid> {
        match self {
            Scheme::Hybrid(hybrid) => Some(hybrid),
            Scheme::Page | Scheme::InPlace => None,
        }
    }

    #[inline]
    pub(super) fn hybrid_mut(&mut self) -> Option<&mut Hybrid> {
        match self {
            Scheme::Hybrid(hybrid) => Some(hybrid),
            Scheme::Page | Scheme::InPlace => None,
        }
    }

    /// Whether host writes wait for pages that are moved, and each plane has a block of its own for
    /// those.
    #[inline]
    pub(crate) fn moves_first(&self) -> bool {
        self.hybrid().is_some()
    }

    /// Whether nothing is being moved beside what a collection moves.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.hybrid().is_none_or(Hybrid::merges_are_over)
    }

    /// Whether a unit whose place is `home` may be in `ppn`.
    pub(crate) fn may_hold(&self, ppn: Ppn, home: impl FnOnce() -> Ppn) -> bool {
        self.hybrid().is_none_or(|hybrid| hybrid.may_hold(ppn, home()))
    }

    /// The blocks of a plane that the mapping itself has taken.
    pub(crate) fn blocks_taken(&self, plane: Plane) -> Vec<Block> {
        self.hybrid().map_or(vec![], |hybrid| hybrid.used_in(plane))
    }

    /// A page of `block` was not programmed to its end.
    pub(crate) fn spoil(&mut self, block: Block) {
        if let Some(hybrid) = self.hybrid_mut() {
            hybrid.spoil(block);
        }
    }

    /// Adds which blocks are what.
    pub(crate) fn hash(&self, hash: &mut StateHash) {
        if let Some(hybrid) = self.hybrid() {
            hybrid.hash(hash);
        }
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        if let Some(hybrid) = self.hybrid() {
            hybrid.save(out);
        }
    }

    /// Takes what [`Scheme::save`] wrote; whether there was anything.
    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<bool, StateError> {
        match self.hybrid_mut() {
            Some(hybrid) => hybrid.restore(input).map(|()| true),
            None => Ok(false),
        }
    }
}

impl Ftl {
    /// Whether there is a place now for the first of what waits in `plane` in `class`, which fills
    /// blocks of `stream`.
    #[inline]
    pub(crate) fn has_place(&self, plane: Plane, class: u8, stream: Stream) -> bool {
        match &self.scheme {
            Scheme::Page if self.slc.is_some() => self.has_place_beside_slc(plane, stream),
            Scheme::Page | Scheme::InPlace => self.blocks.can_program(plane, stream),
            Scheme::Hybrid(hybrid) => self.can_program_in_pool(hybrid, plane, class),
        }
    }

    /// The page offset of its program.
    #[inline(never)]
    pub(crate) fn next_page_otherwise(&self, plane: Plane, class: u8, stream: Stream) -> u32 {
        match &self.scheme {
            Scheme::Page if stream.is_slc() => self.next_page_of_slc(plane),
            Scheme::Page => self.blocks.next_page(plane, stream),
            Scheme::InPlace => {
                let list = self.planes[plane].queues.writes[usize::from(class)];
                self.shape.page_of_ppn(self.home_of(self.units[list.head].content))
            }
            Scheme::Hybrid(hybrid) => self.next_page_in_pool(hybrid, plane, class),
        }
    }

    /// The place of a program of `pages` pages that begins with the unit `first`: its first PPN.
    #[inline(never)]
    pub(crate) fn take_pages(
        &mut self,
        plane: Plane,
        class: u8,
        stream: Stream,
        first: WriteIndex,
        pages: u32,
    ) -> Ppn {
        match self.scheme {
            Scheme::Page if stream.is_slc() => self.take_page_of_slc(plane),
            Scheme::Page => {
                let ppn = self.blocks.take_page(plane, stream);
                for _ in 1..pages {
                    self.blocks.take_page(plane, stream);
                }
                ppn
            }
            Scheme::InPlace => self.home_of(self.units[first].content),
            Scheme::Hybrid(_) => self.take_page_in_pool(plane, class, first),
        }
    }

    /// The place of a unit that is laid down without taking any time, where that is not for open
    /// blocks to say.
    pub(crate) fn place_at_once(&mut self, lpn: Lpn, plane: Plane) -> Option<Ppn> {
        match &mut self.scheme {
            Scheme::Page => None,
            Scheme::InPlace => Some(self.home_of(Content::Unit(lpn))),
            Scheme::Hybrid(_) => Some(self.lay_down_in_pool(lpn, plane)),
        }
    }
}

impl<P: Policies> Drive<P> {
    /// The first of what waits in `plane` to be programmed may have changed.
    #[inline]
    pub(crate) fn first_to_program_changed(&mut self, plane: Plane) {
        if self.ftl.scheme.hybrid().is_some() {
            self.merge_if_needed(plane);
        }
    }

    /// A page that is moved has been read.
    #[inline]
    pub(crate) fn moved_page_read(&mut self, plane: Plane, ppn: Ppn) {
        match self.ftl.scheme {
            Scheme::Page | Scheme::InPlace => self.page_collected(plane, ppn),
            Scheme::Hybrid(_) => self.source_read(plane, ppn),
        }
    }

    /// A page that is moved is in its die's register, and the command to program it has been sent.
    pub(crate) fn moved_page_in_register(&mut self, die: Die, work: WorkIndex) {
        let (plane, from) = (self.flash.work(work).plane, self.flash.work(work).ppn);
        self.flash.give_back(work);
        match self.ftl.scheme {
            Scheme::Page | Scheme::InPlace => self.program_copyback(die, plane, from),
            Scheme::Hybrid(_) => self.program_copyback_in_pool(die, plane, from),
        }
    }

    /// A unit that is moved has been programmed, or is void.
    #[inline]
    pub(crate) fn moved_unit_done(&mut self, plane: Plane) {
        match self.ftl.scheme {
            Scheme::Page | Scheme::InPlace => self.collected_unit_done(plane),
            Scheme::Hybrid(_) => self.copied(plane),
        }
    }

    /// A unit that is moved could not be programmed; false if it is to be tried again.
    pub(crate) fn move_failed(&mut self, plane: Plane, unit: WriteIndex) -> bool {
        match self.ftl.scheme {
            Scheme::Page | Scheme::InPlace => false,
            Scheme::Hybrid(_) => {
                self.copy_failed(plane, unit);
                true
            }
        }
    }

    /// A page of the host has been programmed to `ppn`, or could not be.
    #[cold]
    pub(crate) fn host_page_done(&mut self, ppn: Ppn, fails: bool) {
        if self.ftl.scheme.hybrid().is_some() {
            self.programmed_in_pool(ppn, fails);
        }
    }

    /// A block of `plane` has been erased.
    pub(crate) fn block_is_won(&mut self, plane: Plane) {
        match self.ftl.scheme {
            Scheme::Page | Scheme::InPlace => self.collection_ends(plane),
            Scheme::Hybrid(_) => self.erased_in_pool(plane),
        }
    }

    /// A die has failed: what was to be moved in it beside collections stays as it is.
    pub(crate) fn abandon_moves(&mut self, plane: Plane) {
        self.abandon_merge(plane);
    }

    /// A stop: what was being moved beside collections is where it was.
    pub(crate) fn stop_moves(&mut self, plane: Plane) {
        self.stop_merge(plane);
    }
}
