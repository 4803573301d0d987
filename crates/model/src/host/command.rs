//! Commands inside the controller and the parts of them that move separately.

use crate::ftl::mapping::table::Content;
use crate::io::{Completion, NamespaceId, Operation, QueueId, Request, Status, Tag};
use crate::kernel::pool::{Linked, NONE};
use crate::kernel::recency::{Neighbours, Recent};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Stage, StageSpans, Time};

/// A time that has not come.
pub(crate) const UNSET: Time = Time::MAX;

/// A command between its fetch and its completion.
pub(crate) struct Command {
    pub(crate) request: Request,
    /// Index of its queue in the host interface.
    pub(crate) queue: u16,
    pub(crate) flow: HolderIndex,
    pub(crate) class: u8,
    /// Over the host link (a memory queue) or not.
    pub(crate) linked: bool,
    /// Its queue is gone: it finishes silently.
    pub(crate) orphan: bool,
    /// Not in the controller: not yet, or no more.
    pub(crate) done: bool,
    /// What the host is told in the end.
    pub(crate) completion: Completion,
    /// When its current stage began.
    pub(crate) mark: Time,
    /// Behind it in its queue, while it is not in the controller.
    pub(crate) next: u32,
    /// First and one past the last unit it touches, numbered over the whole drive.
    pub(crate) first_unit: u32,
    pub(crate) end_unit: u32,
    /// Sectors between the start of the first unit and the first that it wants.
    pub(crate) into_first: u32,
    /// Next unit to admit to the cache, or to trim.
    pub(crate) cursor: u32,
    /// Parts not finished.
    pub(crate) parts: u32,
    /// Bytes admitted to the cache and not yet written to its DRAM.
    pub(crate) admitted_bytes: u32,
    /// The epoch that a flush waits for.
    pub(crate) epoch: u32,
    /// Sectors (first, count) that a read takes out of the cache; for a write the places of
    /// its units in the cache's DRAM, if that matters.
    pub(crate) pieces: Vec<(u32, u32)>,
}

/// A part of a read's data on its way to the host.
#[derive(Clone, Copy, Default)]
pub(crate) struct Piece {
    pub(crate) command: u32,
    pub(crate) first_sector: u32,
    pub(crate) sectors: u32,
}

impl Default for Command {
    fn default() -> Self {
        Command {
            request: Request {
                tag: Tag(0),
                operation: Operation::Flush,
                namespace: NamespaceId(0),
                sector: 0,
                sectors: 0,
            },
            queue: 0,
            flow: 0,
            class: 0,
            linked: false,
            orphan: false,
            done: false,
            completion: Completion {
                at: Time::ZERO,
                tag: Tag(0),
                queue: QueueId(0),
                status: Status::Success,
                rung: Time::ZERO,
                stages: StageSpans::default(),
            },
            mark: Time::ZERO,
            next: NONE,
            first_unit: 0,
            end_unit: 0,
            into_first: 0,
            cursor: 0,
            parts: 0,
            admitted_bytes: 0,
            epoch: 0,
            pieces: Vec::new(),
        }
    }
}

impl Command {
    /// Makes this the command that `request` asks for, not in the controller yet.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        request: Request,
        queue: u16,
        id: QueueId,
        flow: HolderIndex,
        rung: Time,
    ) {
        self.request = request;
        self.queue = queue;
        self.flow = flow;
        self.done = true;
        self.completion.tag = request.tag;
        self.completion.queue = id;
        self.completion.status = Status::Success;
        self.completion.rung = rung;
        self.completion.stages = StageSpans::default();
        self.mark = rung;
        self.first_unit = 0;
        self.end_unit = 0;
        self.into_first = 0;
        self.cursor = 0;
        self.parts = 0;
        self.admitted_bytes = 0;
        self.epoch = 0;
        self.pieces.clear();
    }

    /// Ends the current stage, which was `stage`.
    #[inline]
    pub(crate) fn end_stage(&mut self, stage: Stage, now: Time) {
        self.completion.stages.add(stage, now.since(self.mark));
        self.mark = now;
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.request.sectors) * 512
    }
}

impl Linked for Command {
    #[inline]
    fn next(&self) -> u32 {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// What a flash read or erase is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Data of a host read; the owner is a command.
    Read,
    /// The rest of a partly overwritten unit; the owner is a write unit.
    Merge,
    /// A page that garbage collection moves; the owner is a plane.
    Collect,
    /// The same without its data leaving the die.
    Copyback,
    /// A translation page for a table miss; the owner is the page.
    Load,
    /// A translation page to be updated; the owner is the page.
    Update,
    /// An erase; the owner is a block.
    Erase,
}

/// A flash read or erase.
pub(crate) struct Transaction {
    pub(crate) purpose: Purpose,
    pub(crate) class: u8,
    pub(crate) holder: HolderIndex,
    /// Whether its waits are counted.
    pub(crate) watched: bool,
    pub(crate) failed: bool,
    pub(crate) owner: u32,
    pub(crate) plane: u32,
    /// The plane's die; known once it is queued.
    pub(crate) die: u32,
    /// First slot of the page, or of the block.
    pub(crate) slot: u32,
    pub(crate) bytes: u32,
    pub(crate) next: u32,
    /// Place in the order of all flash operations.
    pub(crate) order: u64,
    /// For a read: first sector and sectors within the command.
    pub(crate) first_sector: u32,
    pub(crate) sectors: u32,
    /// When the address was known and it entered its die's queue; before that, since
    /// `created`, it waited for the mapping table.
    pub(crate) created: Time,
    pub(crate) queued: Time,
    pub(crate) started: Time,
    pub(crate) array: Time,
    pub(crate) ready: Time,
    pub(crate) transfer: Time,
}

/// A page or a block, and how many bytes of it are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) plane: u32,
    /// Its first slot.
    pub(crate) slot: u32,
    pub(crate) bytes: u32,
}

impl Transaction {
    /// A transaction that has not been queued yet.
    #[inline]
    pub(crate) fn new(
        purpose: Purpose,
        class: u8,
        holder: HolderIndex,
        owner: u32,
        extent: Extent,
        created: Time,
    ) -> Transaction {
        let Extent { plane, slot, bytes } = extent;
        Transaction {
            purpose,
            class,
            holder,
            watched: false,
            failed: false,
            owner,
            plane,
            die: NONE,
            slot,
            bytes,
            next: NONE,
            order: 0,
            first_sector: 0,
            sectors: 0,
            created,
            queued: created,
            started: UNSET,
            array: UNSET,
            ready: UNSET,
            transfer: UNSET,
        }
    }
}

impl Default for Transaction {
    fn default() -> Self {
        let extent = Extent { plane: 0, slot: 0, bytes: 0 };
        Transaction::new(Purpose::Read, 0, 0, NONE, extent, Time::ZERO)
    }
}

impl Linked for Transaction {
    #[inline]
    fn next(&self) -> u32 {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// Where a unit on its way to flash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Being programmed.
    Programming,
}

/// A command that waits until what it wrote to a cached unit is on flash.
#[derive(Clone, Copy)]
pub(crate) struct ThroughWaiter {
    pub(crate) command: u32,
    /// It wrote while an earlier state of the unit was being programmed.
    pub(crate) rewrote: bool,
}

/// A unit's worth of data that will be programmed: host data, a collected unit, or (whole
/// page) a translation page.
pub(crate) struct WriteUnit {
    pub(crate) content: Content,
    pub(crate) state: UnitState,
    /// In the cache, and dirty.
    pub(crate) cached: bool,
    /// Overwritten while it was being programmed.
    pub(crate) rewritten: bool,
    /// A command waits until it is on flash.
    pub(crate) through: bool,
    /// Deallocated after it was written: it need not reach flash.
    pub(crate) trimmed: bool,
    /// Its program failed once already.
    pub(crate) retried: bool,
    /// It goes to a block of hot units.
    pub(crate) hot: bool,
    pub(crate) class: u8,
    pub(crate) holder: HolderIndex,
    /// The part of the cache that it fills.
    pub(crate) part: u16,
    pub(crate) watched: bool,
    /// Sectors by which it counts as on its way, where that is bounded.
    pub(crate) under_way: u16,
    /// The command that waits for it (no cache), or `NONE`.
    pub(crate) command: u32,
    pub(crate) next: u32,
    /// Among what is dirty in its part of the cache.
    pub(crate) neighbours: Neighbours,
    /// Sectors of the unit that are here; all bits set for a whole unit.
    pub(crate) mask: u64,
    /// Of these, what hosts wrote since it was programmed last.
    pub(crate) written: u64,
    pub(crate) epoch: u32,
    /// Epoch of the rewrite, if `rewritten`.
    pub(crate) rewrite_epoch: u32,
    /// Slot that a collected unit came from, or where the program went.
    pub(crate) from: u32,
    /// Slot before this program, plus one, for power cuts.
    pub(crate) before: u32,
    pub(crate) order: u64,
    /// The plane in whose queue it is, or was last.
    pub(crate) plane: u32,
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
            hot: false,
            class,
            holder,
            part: 0,
            watched: false,
            under_way: 0,
            command: NONE,
            next: NONE,
            neighbours: Neighbours::NONE,
            mask: u64::MAX,
            written: u64::MAX,
            epoch: 0,
            rewrite_epoch: 0,
            from: NONE,
            before: 0,
            order: 0,
            plane: NONE,
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
        WriteUnit::new(Content::Unit(0), 0, 0, Time::ZERO)
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

impl Linked for WriteUnit {
    #[inline]
    fn next(&self) -> u32 {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}
