//! An I/O command under way.

use crate::StoreJob;
use crate::held::Held;
use crate::namespaces::{Extent, Format};
use crate::nvm::protection::Check;
use crate::output::{Reply, ReplyKind};
use mynah_model::io::{NamespaceId, Operation};
use mynah_stamp::{StageSpans, Time};
use mynah_wire::nvme::command::BlockCommand;
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::collections::VecDeque;

/// Something that the model has to do for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) pool: NamespaceId,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

/// A run of bytes in the store, being brought near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) job: Option<StoreJob>,
}

/// What a command does besides moving plain bytes.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing more.
    None,
    /// Its data lie in one run of the store and go to the host from there.
    Media,
    /// Brings blocks together and does something with them.
    Blocks(Box<Blocks>),
    /// Stands in the model's queue for a command whose work is done beside it, with its reply
    /// when that is done.
    Place(Option<Box<Reply>>),
    /// Ends, and with it the second half of a fused command.
    Fused(Box<SubmissionEntry>),
    /// Namespaces get new formats.
    Format(Vec<(u32, Format)>),
    /// Space of deleted namespaces is free again.
    Release(Vec<Extent>),
    /// Everything has been erased.
    Sanitize,
    /// What a shutdown of this controller has to wait for.
    ShutDown(u16),
}

/// What happens to blocks when they are at hand.
#[derive(Debug)]
pub(crate) enum Then {
    /// They go to the host; `strip`: without their protection information.
    Reply { strip: bool },
    /// They are checked, no more.
    Check,
    /// They are compared with the host's.
    Compare { data: Vec<u8>, strip: bool },
    /// If they equal the host's, the second half of the fused command is carried out.
    CompareAndWrite { data: Vec<u8>, strip: bool, second: Box<FusedWrite> },
    /// They are written elsewhere.
    Copy { to: u64, check: Check, through: bool },
    /// They are kept, because a power cut may bring them back; then others are written, and the
    /// command goes on with what it was at.
    Overwrite { overwrite: Box<Overwrite>, work: Work },
}

/// The second half of a fused Compare and Write.
#[derive(Debug)]
pub(crate) struct FusedWrite {
    pub(crate) entry: SubmissionEntry,
    pub(crate) io: BlockCommand,
    pub(crate) data: Vec<u8>,
    pub(crate) check: Check,
}

/// Bytes to be written when what they replace has been kept.
#[derive(Debug)]
pub(crate) struct Overwrite {
    pub(crate) parts: Vec<(u64, Vec<u8>)>,
    pub(crate) discards: Vec<(u64, u64)>,
    pub(crate) flush: bool,
}

/// Blocks of a namespace on their way from the store.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// What they are, with what their protection information has to pass.
    pub(crate) runs: Vec<BlockRun>,
    pub(crate) data: Vec<Segment>,
    pub(crate) metadata: Vec<Segment>,
    pub(crate) then: Then,
}

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRun {
    pub(crate) start: u64,
    pub(crate) blocks: u32,
    pub(crate) check: Check,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// The transport queue; NONE when nobody wants the reply.
    pub(crate) queue: u32,
    pub(crate) command_id: u16,
    pub(crate) opcode: u8,
    pub(crate) kind: ReplyKind,
    pub(crate) status: Status,
    /// Index of the namespace.
    pub(crate) namespace: u32,
    /// Store jobs and (as one) the model's steps that are not done.
    pub(crate) waiting: u32,
    /// First block.
    pub(crate) start: u64,
    /// Bytes of data moved for the host.
    pub(crate) bytes: u32,
    /// First byte in the store, of data that lie in one run.
    pub(crate) at: u64,
    /// The fetch of that run.
    pub(crate) job: Option<StoreJob>,
    /// Where a guest's data lie, as the transport counts; NONE if they came with the command.
    pub(crate) transfer: u32,
    /// Whether it is a single operation on the model's queue of its own.
    pub(crate) direct: bool,
    /// Whether it has the namespace for itself.
    pub(crate) exclusive: bool,
    /// Whether it may do no more to the namespace.
    pub(crate) overtaken: bool,
    pub(crate) arrival: Time,
    pub(crate) due: Option<Time>,
    /// What the model's earlier steps took, or all of them if the store is not done.
    pub(crate) stages: Option<Box<StageSpans>>,
    /// Further steps of the model, one after the other.
    pub(crate) steps: VecDeque<Step>,
    pub(crate) work: Work,
    /// Memory that it holds.
    pub(crate) held: Option<Box<Held>>,
    /// What is certain to outlive a power cut when the command has succeeded, where one is due.
    pub(crate) certain: Option<Box<Certain>>,
}

/// Writes that are on flash: those that replaced something up to an epoch, in runs of units.
#[derive(Debug)]
pub(crate) struct Certain {
    pub(crate) epoch: u64,
    /// First unit, and the unit behind the last.
    pub(crate) units: Vec<(u64, u64)>,
}
