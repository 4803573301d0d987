//! Commands inside the controller and the parts of their data that move separately.

use crate::io::{Completion, NamespaceId, Operation, PlacementId, QueueId, Request, Status, Tag};
use crate::kernel::pool::{Linked, Pooled};
use crate::number::{CommandIndex, KeyCommandIndex, Lpn, PieceIndex};
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Stage, StageSpans, Time};
use serde::{Deserialize, Serialize};

/// A command between its fetch and its completion.
#[derive(Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) request: Request,
    /// What it is beside that, if it is a key-value command: its operation is
    /// [`Operation::Other`] then.
    pub(crate) key: KeyCommandIndex,
    /// Index of its queue in the host interface.
    pub(crate) queue: u16,
    pub(crate) flow: HolderIndex,
    pub(crate) class: u8,
    /// Over the host link (a memory queue) or not.
    pub(crate) linked: bool,
    /// Came over an Ethernet link.
    pub(crate) network: bool,
    /// Its queue is gone: it finishes silently.
    pub(crate) orphan: bool,
    /// Its data and its end go another way than those of a read or write: it is an orphan, or a
    /// key-value command.
    pub(crate) aside: bool,
    /// Not in the controller: not yet, or no more.
    pub(crate) done: bool,
    /// A write that goes past an SLC cache.
    pub(crate) past_slc: bool,
    /// What the host is told in the end.
    pub(crate) completion: Completion,
    /// When its current stage began.
    pub(crate) mark: Time,
    /// Behind it in its queue, while it is not in the controller.
    pub(crate) next: CommandIndex,
    /// First and one past the last unit it touches, numbered over the whole drive.
    pub(crate) first_unit: Lpn,
    pub(crate) end_unit: Lpn,
    /// Sectors between the start of the first unit and the first that it wants.
    pub(crate) into_first: u32,
    /// Next unit to admit to the cache, or to trim.
    pub(crate) cursor: Lpn,
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
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) command: CommandIndex,
    pub(crate) first_sector: u32,
    pub(crate) sectors: u32,
}

impl Default for Command {
    fn default() -> Self {
        Command {
            request: Request {
                tag: Tag(0),
                operation: Operation::Flush,
                placement: PlacementId::default(),
                namespace: NamespaceId(0),
                sector: 0,
                sectors: 0,
            },
            key: KeyCommandIndex::NONE,
            queue: 0,
            flow: 0,
            class: 0,
            linked: false,
            network: false,
            orphan: false,
            aside: false,
            done: false,
            past_slc: false,
            completion: Completion {
                at: Time::ZERO,
                tag: Tag(0),
                queue: QueueId(0),
                status: Status::Success,
                rung: Time::ZERO,
                stages: StageSpans::default(),
            },
            mark: Time::ZERO,
            next: CommandIndex::NONE,
            first_unit: Lpn(0),
            end_unit: Lpn(0),
            into_first: 0,
            cursor: Lpn(0),
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
        self.key = KeyCommandIndex::NONE;
        self.queue = queue;
        self.flow = flow;
        self.network = false;
        self.done = true;
        self.completion.tag = request.tag;
        self.completion.queue = id;
        self.completion.status = Status::Success;
        self.completion.rung = rung;
        self.completion.stages = StageSpans::default();
        self.mark = rung;
        self.first_unit = Lpn(0);
        self.end_unit = Lpn(0);
        self.into_first = 0;
        self.cursor = Lpn(0);
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

impl Pooled for Command {
    type Index = CommandIndex;
}

impl Default for Piece {
    fn default() -> Self {
        Piece { command: CommandIndex::NONE, first_sector: 0, sectors: 0 }
    }
}

impl Pooled for Piece {
    type Index = PieceIndex;
}

impl Linked for Command {
    #[inline]
    fn next(&self) -> CommandIndex {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: CommandIndex) {
        self.next = next;
    }
}
