//! An I/O command under way.

use crate::StoreJob;
use crate::held::Held;
use crate::media::{Certain, Segment};
use crate::model::Placed;
use crate::namespaces::protection::Check;
use crate::namespaces::{Extent, Format};
use crate::output::{CommandKind, Completion};
use crate::slots::NONE;
use crate::subsystem::key_value::KeyWork;
use mynah_model::io::{self, NamespaceId, Operation, PlacementId};
use mynah_stamp::{LinkSpans, StageSpans, Time};
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
    /// Of a write: which data it belongs with.
    pub(crate) placement: PlacementId,
}

impl Step {
    /// One that is about all of a namespace of the model.
    pub(crate) fn whole(operation: Operation, pool: NamespaceId) -> Step {
        Step { operation, pool, sector: 0, sectors: 0, placement: PlacementId::default() }
    }
}

/// What a command does besides moving plain bytes.
#[derive(Debug)]
pub(crate) enum Work {
    None,
    /// Its data lie in one run of the store and go to the host from there.
    Media,
    /// Brings blocks together and does something with them.
    Blocks(Box<Blocks>),
    /// A command of one of the key-value sets.
    Key(Box<KeyWork>),
    /// Stands in the model's queue for a command whose work is done beside it, with its completion
    /// when that is done.
    Place(Option<Box<Completion>>),
    /// Ends together with the second half of a fused operation.
    Fused(Box<SubmissionEntry>),
    /// Namespaces get new formats.
    Format(Vec<(u32, Format)>),
    /// Space of deleted namespaces is free again.
    Release(Vec<Extent>),
    /// Everything has been erased.
    Sanitize,
    /// Ends the shutdown of the controller with this identifier.
    ShutDown(u16),
    /// What it has changed is to be on stable storage; then it ends with this result.
    Persist(u64),
}

/// What happens to blocks when they are at hand.
#[derive(Debug)]
pub(crate) enum Then {
    /// They go to the host, with `strip` without their protection information.
    ToHost { strip: bool },
    /// Verify: their protection information is checked, no more.
    Check,
    /// Compare: they are compared with the host's.
    Compare { data: Vec<u8>, strip: bool },
    /// If they equal the host's, the second half of the fused command is carried out.
    CompareAndWrite { data: Vec<u8>, strip: bool, second: Box<FusedWrite> },
    /// Copy: they are written from block `to` on; `through`: to the flash before completion.
    Copy { to: u64, check: Check, through: bool },
    /// They are saved, because a power cut may bring them back; then `overwrite` is written, and
    /// the command goes on with `work`.
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

/// Bytes to be written once what they replace has been saved for a power cut.
#[derive(Debug)]
pub(crate) struct Overwrite {
    pub(crate) parts: Vec<(u64, Vec<u8>)>,
    pub(crate) discards: Vec<(u64, u64)>,
    pub(crate) flush: bool,
}

/// Blocks of a namespace on their way from the store.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Which logical blocks they are, and how each run's protection information is checked.
    pub(crate) runs: Vec<BlockRun>,
    pub(crate) data: Vec<Segment>,
    pub(crate) metadata: Vec<Segment>,
    pub(crate) then: Then,
}

/// Consecutive logical blocks, and how their protection information is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRun {
    pub(crate) start: u64,
    pub(crate) blocks: u32,
    pub(crate) check: Check,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// The transport queue; NONE when nobody wants the completion.
    pub(super) queue: u32,
    pub(super) command_id: u16,
    pub(super) opcode: u8,
    pub(super) kind: CommandKind,
    pub(super) status: Status,
    /// Index of the namespace: its identifier less one.
    pub(super) namespace: u32,
    /// Store jobs and (as one) the model's steps that are not done.
    pub(super) waiting: u32,
    /// First logical block.
    pub(super) start: u64,
    /// Bytes of data moved for the host.
    pub(super) bytes: u32,
    /// First byte in the store, of data that lie in one run.
    pub(super) at: u64,
    /// The store's job that fetches this run.
    pub(super) job: Option<StoreJob>,
    /// Where a guest's data lie, as the transport counts; NONE if they came with the command.
    pub(super) transfer: u32,
    /// Whether it is a single operation on the model's queue of its own.
    pub(super) direct: bool,
    /// Whether it has the namespace for itself.
    pub(super) exclusive: bool,
    /// Whether it may do no more to the namespace.
    pub(super) overtaken: bool,
    /// Which reclaim unit handle it writes for.
    pub(super) placed: Placed,
    pub(super) arrival: Time,
    pub(super) due: Option<Time>,
    /// What the model's earlier steps took, or all of them if the store is not done.
    pub(super) stages: Option<Box<StageSpans>>,
    /// Time in stages of an Ethernet link, which is not part of `stages`.
    pub(super) link: Option<Box<LinkSpans>>,
    /// Further steps of the model, one after the other.
    pub(super) steps: VecDeque<Step>,
    pub(super) work: Work,
    /// Memory that is counted to the account of its host.
    pub(super) held: Option<Box<Held>>,
    /// Writes that are on flash once the command has succeeded; `None` unless a power cut is due.
    pub(super) certain: Option<Box<Certain>>,
}

impl Command {
    /// A command that came at `arrival` and does nothing yet.
    #[inline]
    pub(crate) fn new(queue: u32, kind: CommandKind, arrival: Time) -> Command {
        Command {
            queue,
            command_id: 0,
            opcode: 0,
            kind,
            status: Status::SUCCESS,
            namespace: 0,
            waiting: 0,
            start: 0,
            bytes: 0,
            at: 0,
            job: None,
            transfer: NONE,
            direct: false,
            exclusive: false,
            overtaken: false,
            placed: Placed::default(),
            arrival,
            due: None,
            stages: None,
            link: None,
            steps: VecDeque::new(),
            work: Work::None,
            held: None,
            certain: None,
        }
    }

    /// Fills in the entry's identifier and opcode, the namespace's index, and the first block.
    #[inline]
    pub(crate) fn of(self, entry: &SubmissionEntry, namespace: u32, start: u64) -> Command {
        let (command_id, opcode) = (entry.command_id.get(), entry.opcode);
        Command { command_id, opcode, namespace, start, ..self }
    }

    /// Its data are one run of the store.
    #[inline]
    pub(crate) fn in_one_run(self, at: u64, bytes: u32) -> Command {
        Command { at, bytes, ..self }
    }

    /// The run goes to the host from the store, once the job is done if there is one.
    #[inline]
    pub(crate) fn read_from_media(&mut self, job: Option<StoreJob>) {
        self.work = Work::Media;
        self.job = job;
    }

    /// It is a single operation on the model's queue for its transport queue.
    #[inline]
    pub(crate) fn go_direct(&mut self) {
        self.direct = true;
    }

    /// A guest's data lie here, as the transport counts.
    #[inline]
    pub(crate) fn set_transfer(&mut self, transfer: u32) {
        self.transfer = transfer;
    }

    /// It stands in the model's queue for a command whose work is done beside it.
    pub(crate) fn in_place(self, completion: Option<Box<Completion>>) -> Command {
        Command { work: Work::Place(completion), direct: true, waiting: 1, ..self }
    }

    /// The transport queue; NONE when nobody wants the completion.
    #[inline]
    pub(crate) fn queue(&self) -> u32 {
        self.queue
    }

    #[inline]
    pub(crate) fn command_id(&self) -> u16 {
        self.command_id
    }

    /// Whether it is the command of a queue with this identifier.
    pub(crate) fn is(&self, queue: u32, command_id: u16) -> bool {
        self.queue == queue && self.command_id == command_id
    }

    #[inline]
    pub(crate) fn opcode(&self) -> u8 {
        self.opcode
    }

    #[inline]
    pub(crate) fn kind(&self) -> CommandKind {
        self.kind
    }

    /// How it ends, as far as is known.
    #[inline]
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn set_status(&mut self, status: Status) {
        self.status = status;
    }

    /// It fails with this status at this logical block.
    pub(crate) fn fail_at(&mut self, status: Status, block: u64) {
        self.status = status;
        self.start = block;
    }

    /// Something that it needs has failed: it does no more. The first failure counts.
    #[cold]
    pub(crate) fn fail(&mut self, status: Status) {
        if self.status.is_success() {
            self.status = status;
            self.steps.clear();
        }
    }

    /// Index of the namespace: its identifier less one.
    pub(crate) fn namespace(&self) -> usize {
        self.namespace as usize
    }

    /// Bytes of data moved for the host.
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    pub(crate) fn set_bytes(&mut self, bytes: u32) {
        self.bytes = bytes;
    }

    /// First byte in the store, of data that lie in one run.
    #[inline]
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Where a guest's data lie, as the transport counts; NONE if they came with the command.
    #[inline]
    pub(crate) fn transfer(&self) -> u32 {
        self.transfer
    }

    /// Whether it fetches its data from the store.
    pub(crate) fn fetches(&self) -> bool {
        self.job.is_some()
    }

    /// Whether it is a single operation on the model's queue of its own.
    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether it has the namespace for itself.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    pub(crate) fn take_exclusively(&mut self) {
        self.exclusive = true;
    }

    /// Whether it may do no more to the namespace.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.overtaken
    }

    /// Which reclaim unit handle it writes for, from now on.
    pub(crate) fn set_placed(&mut self, placed: Placed) {
        self.placed = placed;
    }

    /// The model's time when it came.
    #[inline]
    pub(crate) fn arrival(&self) -> Time {
        self.arrival
    }

    /// When the model says that the host sees its end, if it has said so.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// What the model's steps took.
    pub(crate) fn stages(&self) -> StageSpans {
        self.stages.as_deref().copied().unwrap_or_default()
    }

    /// Time in stages of an Ethernet link, which is not part of `stages`.
    pub(crate) fn take_link(&mut self) -> Option<Box<LinkSpans>> {
        self.link.take()
    }

    /// It waits for something more: a job of the store, the model, another command.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.waiting += 1;
    }

    /// Something that it waited for is done; whether that was the last.
    #[inline]
    pub(crate) fn stop_waiting(&mut self) -> bool {
        self.waiting -= 1;
        self.waiting == 0
    }

    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Adds something for the model to do, behind the rest.
    pub(crate) fn add_step(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    #[inline]
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Steps that the model has not begun.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter()
    }

    /// Drops the steps that the model has not begun.
    pub(crate) fn forget_steps(&mut self) {
        self.steps.clear();
    }

    #[inline]
    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    pub(crate) fn set_work(&mut self, work: Work) {
        self.work = work;
    }

    pub(crate) fn take_work(&mut self) -> Work {
        std::mem::replace(&mut self.work, Work::None)
    }

    /// Whether memory is counted to the account of its host.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    pub(crate) fn hold(&mut self, held: Held) {
        self.held = Some(Box::new(held));
    }

    /// Writes that are on flash once the command has succeeded; `None` unless a power cut is due.
    pub(crate) fn certain(&self) -> Option<&Certain> {
        self.certain.as_deref()
    }

    pub(crate) fn set_certain(&mut self, certain: Option<Box<Certain>>) {
        self.certain = certain;
    }

    /// The model has fetched it when the host rang, not when the subsystem saw it.
    #[inline]
    pub(crate) fn rung_at(&mut self, rung: Time) {
        if self.direct {
            self.arrival = rung;
        }
    }

    /// Whether the end of this operation of the model is the end of a command that has done nothing
    /// out of the ordinary.
    #[inline]
    pub(crate) fn ends_plainly_with(&self, ended: &io::Completion) -> bool {
        self.waiting == 1
            && self.steps.is_empty()
            && self.stages.is_none()
            && self.certain.is_none()
            && matches!(self.work, Work::None | Work::Media)
            && ended.status == io::Status::Success
            && self.status.is_success()
    }

    /// Adds what an operation of the model took, stage by stage.
    pub(crate) fn step_took(&mut self, ended: &io::Completion, link: Option<&LinkSpans>) {
        if let Some(took) = link {
            let link = self.link.get_or_insert_default();
            took.iter().for_each(|(stage, span)| link.add(stage, span));
        }
        let stages = self.stages.get_or_insert_default();
        for (stage, span) in ended.stages.iter() {
            stages.add(stage, span);
        }
        self.due = Some(ended.at);
    }

    /// Nobody wants its completion any more. Formats and deletions go on all the same.
    pub(crate) fn orphan(&mut self) {
        self.queue = NONE;
        if self.kind != CommandKind::Admin {
            self.steps.clear();
        }
    }

    /// The power is lost: the command does no more, and waits for `jobs` jobs of the store alone.
    /// Whether it waits for none.
    pub(crate) fn lose_power(&mut self, jobs: u32) -> bool {
        self.queue = NONE;
        self.status = Status::ABORTED_POWER_LOSS;
        self.overtaken = true;
        self.steps.clear();
        self.waiting = jobs;
        if jobs == 0 && matches!(self.work, Work::Media | Work::Fused(_)) {
            self.work = Work::None;
        }
        jobs == 0
    }
}
