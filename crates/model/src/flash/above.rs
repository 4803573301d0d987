//! What the flash asks of the layer above when it chooses what a die does next.

use super::work::Work;
use crate::kernel::Kernel;
use crate::number::{Plane, Planes, Ppn, WriteIndex};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};

/// Something that waits to be programmed, or is being programmed: a part of a page.
#[derive(Clone, Copy)]
pub(crate) struct Programmed {
    pub(crate) class: u8,
    pub(crate) holder: HolderIndex,
    /// Place in the order of all flash operations.
    pub(crate) order: u64,
    pub(crate) queued: Time,
    /// When its array time began.
    pub(crate) array: Time,
}

/// Whoever keeps what waits to be programmed, and knows what is at an address.
pub(crate) trait Above {
    /// The place in the order of the first part of the page of `class` that would be programmed in
    /// `plane`, if one can be now: there is enough to fill it or a reason not to wait, and a place
    /// for it.
    fn page_order(&self, kernel: &Kernel, plane: Plane, class: u8) -> Option<u64>;

    /// The first part of that page.
    fn page_first(&self, kernel: &Kernel, plane: Plane, class: u8) -> WriteIndex;

    /// The first and the last of what waits for `plane` in `class`, or `NONE`.
    fn waiting(&self, plane: Plane, class: u8) -> (WriteIndex, WriteIndex);

    /// What comes after it in its queue, or in the page that is being programmed; or `NONE`.
    fn next(&self, part: WriteIndex) -> WriteIndex;

    fn part(&self, part: WriteIndex) -> Programmed;

    /// The plane whose queue a part is in, if it still waits.
    fn plane_waited_for(&self, part: WriteIndex) -> Option<Plane>;

    /// Puts the queues of `class` of some planes into another order: each of `parts` has the place
    /// given with it.
    fn reorder(
        &mut self,
        planes: Planes,
        class: u8,
        parts: impl Iterator<Item = (WriteIndex, u64)>,
    );

    /// Whether what waits first for `plane` in `class` has no place to go.
    fn is_without_place(&self, plane: Plane, class: u8) -> bool;

    /// The array time of the page that begins with `part` begins.
    fn array_begins(&mut self, part: WriteIndex, at: Time);

    /// Whether collection in `plane` goes before all else.
    fn is_urgent(&self, plane: Plane) -> bool;

    /// Whether a move of the collection in `plane` goes before what the host writes.
    fn is_move_due(&self, plane: Plane) -> bool;

    /// About how many moves the collection of `plane` takes to win its block back.
    fn moves_left(&self, plane: Plane) -> u32;

    /// Whether collection always goes before what the host writes, which waits for it.
    fn collects_first(&self) -> bool;

    /// Pages of the flash that are wanted of a read that lies across planes.
    fn pages_wanted(&self, work: &Work) -> u32;

    /// Whether what is at an address is one bit a cell, in flash with more.
    fn is_slc(&self, ppn: Ppn) -> bool;

    /// Whether reads of some blocks take longer than those of others.
    fn varies_reads(&self) -> bool;

    /// How much longer a die is occupied by a read of the pages at `ppns` for that.
    fn longer_read(&mut self, kernel: &mut Kernel, ppns: impl Iterator<Item = Ppn>) -> Span;

    /// Whether read failures are injected: then [`Above::spoils`] is asked.
    fn spoils_reads(&self) -> bool;

    /// Whether this read fails.
    fn spoils(&mut self, kernel: &mut Kernel, work: &Work) -> bool;

    /// A die has nothing to do any more; nothing waits for its planes.
    fn die_rests(&mut self, kernel: &mut Kernel, planes: Planes);

    /// Whether anybody wants to know.
    fn minds_rest(&self) -> bool;

    /// A page that is to be moved is being read, or crosses the channel: what it holds will soon be
    /// looked at.
    fn prefetch_read(&self, ppn: Ppn);
    fn prefetch_moved(&self, ppn: Ppn);
}
