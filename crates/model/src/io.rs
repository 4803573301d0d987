//! What goes into the model and what comes out of it.

use crate::config::{Config, Priority, Weights};
use crate::number::CommandIndex;
use mynah_stamp::{StageSpans, Time};
use serde::{Deserialize, Serialize};

/// Identifies a queue pair; chosen by the host, 0 to 65,535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueId(pub u16);

/// Identifies a command; chosen by the host, returned with every output about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag(pub u32);

/// Identifies whose I/O a command is, for the question who delayed whom. Flows are numbered
/// from 0; several queues may carry one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u16);

/// Which data a write belongs with: the number of a placement handle of its namespace (a placement
/// identifier of a drive with one reclaim group). One that the namespace does not have counts as 0,
/// which is also what writes have that say nothing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PlacementId(pub u16);

/// Identifies a namespace, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamespaceId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Operation {
    Read,
    Write,
    /// Writes sectors and completes when they are on flash (Force Unit Access).
    WriteThrough,
    /// Deallocates the mapping units that lie wholly within the range.
    Trim,
    /// Completes when everything written to the namespace before is on flash.
    Flush,
    /// Has nothing to do with the flash: completes when the host says with
    /// [`crate::Drive::data_arrived`] that what it stands for is done. Its sectors mean
    /// nothing.
    Other,
}

/// A command as the host gives it. Addresses count 512-byte sectors from the namespace's
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the host; unique among outstanding commands.
    pub tag: Tag,
    pub operation: Operation,
    /// Of a write: which data it belongs with.
    pub placement: PlacementId,
    pub namespace: NamespaceId,
    /// First sector (of 512 bytes).
    pub sector: u64,
    /// Number of sectors; 0 only for [`Operation::Flush`] and
    /// [`Operation::Other`].
    pub sectors: u32,
}

/// How a queue's commands reach the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QueueKind {
    /// A queue in host memory: the host rings, the controller fetches over the link, moves
    /// data over the link and writes a completion queue entry.
    Memory,
    /// A queue whose commands arrive complete, write data included (NVMe over fabrics).
    /// Nothing crosses the host link.
    Fetched,
    /// A queue pair over the network of an Ethernet drive: commands, data and responses cross its
    /// port, and the NVMe-oF target in the drive. Commands are given with [`crate::Drive::submit`]
    /// or [`crate::Drive::command`], which are the same here.
    Network {
        /// Its port, from 1; 0 for the next in turn.
        port: u8,
    },
}

impl Config {
    /// The queues that hosts have: in their memory, or over an Ethernet drive's network, at this
    /// port of it (0: the next in turn).
    pub fn host_queues(&self, port: u8) -> QueueKind {
        match self.ethernet {
            Some(_) => QueueKind::Network { port },
            None => QueueKind::Memory,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Queue {
    /// Its identifier; must not be in use.
    pub id: QueueId,
    pub kind: QueueKind,
    pub flow: FlowId,
    pub priority: Priority,
    /// Entries in the completion queue, at least 2.
    pub completion_entries: u32,
}

/// Something that happens to the whole drive or a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    CreateQueue(Queue),
    /// Deletes a queue pair; its outstanding commands complete as [`Status::Aborted`].
    DeleteQueue(QueueId),
    /// The host chooses another burst, and other weights where arbitration is weighted (Set
    /// Features, Arbitration).
    Arbitration {
        /// See [`crate::config::Queues::arbitration_burst`].
        burst: u32,
        weights: Weights,
    },
    /// Controller reset: every queue goes, outstanding commands are never answered. What is
    /// in the cache stays.
    Reset,
    /// Aborts a command if it has not been given to the flash yet.
    Abort(QueueId, Tag),
    /// Deallocates every unit of a namespace.
    Format(NamespaceId),
    /// Writes what is in the cache to the flash, protected from power cuts or not.
    WriteBack,
    /// A placement handle of a namespace refers to a new reclaim unit from now on, unless its
    /// present one is empty. What was written to that before is written back, then it is closed. Of
    /// a placement handle that there is not, nothing.
    UpdateHandle(NamespaceId, PlacementId),
    /// The power fails now. See [`crate::config::Fault::PowerCut`].
    PowerCut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From host memory to the drive.
    FromHost,
    /// From the drive to host memory.
    ToHost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Status {
    Success,
    /// The namespace does not exist.
    InvalidNamespace,
    /// The range passes the namespace's end.
    LbaOutOfRange,
    /// A field of the command is not valid.
    InvalidField,
    /// The flash could not return the data.
    UnrecoveredReadError,
    /// The flash could not take the data.
    WriteFault,
    /// Aborted on request, or its queue was deleted.
    Aborted,
    /// The drive takes no more writes: it has no spare blocks left, or too few free ones.
    WriteProtected,
    /// There is no room for the pair, or no place for its key in the index.
    CapacityExceeded,
}

/// What the model wants done, or says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// The next submission queue entry of `queue` has reached the controller. Answer with
    /// [`crate::Drive::command`] at `at`.
    Fetch { at: Time, queue: QueueId },
    /// The data of a command moves. Only where [`crate::Drive::report_moves`] asked for it.
    /// Data from the host is answered with [`crate::Drive::data_arrived`] at `at`.
    Move {
        /// The modelled time: the last byte is across.
        at: Time,
        tag: Tag,
        queue: QueueId,
        /// First sector, relative to the command's first.
        first_sector: u32,
        sectors: u32,
        direction: Direction,
    },
    /// A request manager has taken a key-value command. Answer with
    /// [`crate::Drive::decided`] at `at`.
    Decide { at: Time, tag: Tag, queue: QueueId },
    /// A command is complete: its completion queue entry is visible to the host.
    Complete(Completion),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The modelled time at which the host sees the completion.
    pub at: Time,
    pub tag: Tag,
    pub queue: QueueId,
    pub status: Status,
    /// When the command was rung (memory queue) or handed over (fetched queue).
    pub rung: Time,
    /// Where the time between `rung` and `at` went. Sums to exactly that.
    pub stages: StageSpans,
}

/// An [`Output`] whose completion stays in the drive, for hosts in a hurry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Brief {
    /// See [`Output::Fetch`].
    Fetch {
        /// The queue whose next command is wanted.
        queue: QueueId,
    },
    /// See [`Output::Move`].
    Move {
        tag: Tag,
        queue: QueueId,
        /// First sector, counted from the command's first.
        first_sector: u32,
        sectors: u32,
        direction: Direction,
    },
    /// See [`Output::Decide`].
    Decide { tag: Tag, queue: QueueId },
    /// See [`Output::Complete`].
    Complete(Completed),
}

/// Stands for a completion that [`Drive::completion`](crate::Drive::completion) shows until
/// the drive is given an input or asked for its next output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed(pub(crate) CommandIndex);

impl Output {
    /// The modelled time of this output.
    pub fn at(&self) -> Time {
        match self {
            Output::Fetch { at, .. } | Output::Move { at, .. } | Output::Decide { at, .. } => *at,
            Output::Complete(completion) => completion.at,
        }
    }
}
