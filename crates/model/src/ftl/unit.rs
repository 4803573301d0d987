//! A mapping unit's worth of data that is to be programmed: dirty in the cache, on its way to flash,
//! or being programmed.

use crate::flash::work::UNSET;
use crate::ftl::mapping::table::Content;
use crate::kernel::pool::{Linked, NONE, Pooled};
use crate::kernel::recency::{Neighbours, Recent};
use crate::number::{CommandIndex, Lpn, Plane, Ppn, WriteIndex};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

/// Where a unit on its way to flash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UnitState {
    /// In the cache, not on its way.
    Cached,
    /// Waiting for its mapping entry.
    Mapping,
    /// Waiting for the rest of its data to be read.
    Merging,
    /// On its way out of the cache's DRAM.
    Leaving,
    /// In its plane's queue.
    Queued,
    Programming,
}

/// A unit's worth of data that will be programmed: host data, a collected unit, or (whole
/// page) a translation page.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct WriteUnit {
    pub(crate) content: Content,
    pub(crate) state: UnitState,
    pub(crate) cached: bool,
    /// Overwritten while it was being programmed.
    pub(crate) rewritten: bool,
    /// A command waits until it is on flash.
    pub(crate) through: bool,
    /// Deallocated after it was written: it need not reach flash.
    pub(crate) trimmed: bool,
    /// Its program failed once already.
    pub(crate) retried: bool,
    /// Which units it shares blocks with: see [`Stream`](crate::ftl::blocks::Stream).
    pub(crate) group: u8,
    pub(crate) class: u8,
    pub(crate) holder: HolderIndex,
    /// The part of the cache that it fills.
    pub(crate) part: u16,
    pub(crate) watched: bool,
    /// Sectors by which it counts as on its way, where that is bounded.
    pub(crate) under_way: u16,
    /// The command that waits for it (no cache), or `NONE`.
    pub(crate) command: CommandIndex,
    pub(crate) next: WriteIndex,
    /// Among what is dirty in its part of the cache.
    pub(crate) neighbours: Neighbours,
    /// Sectors of the unit that are here; all bits set for a whole unit.
    pub(crate) mask: u64,
    /// Of these, what hosts wrote since it was programmed last.
    pub(crate) written: u64,
    pub(crate) epoch: u32,
    /// Epoch of the rewrite, if `rewritten`.
    pub(crate) rewrite_epoch: u32,
    /// PPN that a collected unit came from, or where the program went.
    pub(crate) from: Ppn,
    /// PPN before this program, plus one, for power cuts.
    pub(crate) before: u32,
    pub(crate) order: u64,
    /// The plane in whose queue it is, or was last.
    pub(crate) plane: Plane,
    /// When a command brought its latest data; [`UNSET`]: before the drive's clock began.
    pub(crate) created: Time,
    pub(crate) queued: Time,
    pub(crate) started: Time,
    pub(crate) array: Time,
    /// The part of its wait for the die in which it waited for a free block.
    pub(crate) block_wait: Span,
    /// How long it took to come out of the cache's DRAM.
    pub(crate) dram: Span,
}

impl WriteUnit {
    /// A whole unit that nobody waits for.
    #[inline]
    pub(crate) fn new(
        content: Content,
        class: u8,
        holder: HolderIndex,
        created: Time,
    ) -> WriteUnit {
        WriteUnit {
            content,
            state: UnitState::Cached,
            cached: false,
            rewritten: false,
            through: false,
            trimmed: false,
            retried: false,
            group: 0,
            class,
            holder,
            part: 0,
            watched: false,
            under_way: 0,
            command: CommandIndex::NONE,
            next: WriteIndex::NONE,
            neighbours: Neighbours::NONE,
            mask: u64::MAX,
            written: u64::MAX,
            epoch: 0,
            rewrite_epoch: 0,
            from: Ppn::NONE,
            before: 0,
            order: 0,
            plane: Plane(NONE),
            created,
            queued: UNSET,
            started: UNSET,
            array: UNSET,
            block_wait: Span::ZERO,
            dram: Span::ZERO,
        }
    }
}

impl Default for WriteUnit {
    fn default() -> Self {
        WriteUnit::new(Content::Unit(Lpn(0)), 0, 0, Time::ZERO)
    }
}

impl Recent for WriteUnit {
    #[inline]
    fn neighbours(&self) -> Neighbours {
        self.neighbours
    }
    #[inline]
    fn neighbours_mut(&mut self) -> &mut Neighbours {
        &mut self.neighbours
    }
}

impl Pooled for WriteUnit {
    type Index = WriteIndex;
}

impl Linked for WriteUnit {
    #[inline]
    fn next(&self) -> WriteIndex {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: WriteIndex) {
        self.next = next;
    }
}
