//! Compare, Verify, and Compare and Write fused (NVM Command Set 1.0, sections 3.2.1, 3.2.5;
//! Base 2.0, section 3.4.2).

use super::check_range;
use crate::namespaces::protection::Check;
use crate::output::{CommandKind, Completion, CompletionData, Queue};
use crate::queue::FirstHalf;
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use crate::subsystem::access::Access;
use crate::subsystem::commands::{BlockRun, Command, FusedWrite, Then, Work};
use crate::subsystem::io_command::IoCommand;
use mynah_model::io::Operation;
use mynah_wire::nvme::command::{BlockCommand, NvmCommand};
use mynah_wire::nvme::opcode::nvm;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};

/// Most blocks of a fused Compare and Write (NACWU is one less).
pub(crate) const COMPARE_AND_WRITE_BLOCKS_MAX: u32 = 128;

const FIRST: u8 = 1;
const SECOND: u8 = 2;

impl Subsystem {
    pub(super) fn compare(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
        data: &[u8],
    ) -> Result<(), Status> {
        self.compare_then(queue, entry, io, data, None)
    }

    fn compare_then(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
        data: &[u8],
        second: Option<Box<FusedWrite>>,
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Read)?;
        let namespace = self.namespaces.need(at)?;
        let format = namespace.format();
        let BlockCommand { start, blocks, .. } = io;
        check_range(namespace, start, u64::from(blocks))?;
        let check = Check::of(&io, format)?;
        let strip = check.action;
        let moved = Self::moved_bytes(blocks, format.shift, format.metadata, strip) as usize;
        let data = data.get(..moved).ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        let bad = namespace.uncorrectable().first_in(start, u64::from(blocks));
        self.check_held(queue)?;
        let index = self.begin(queue, entry, CommandKind::OtherIo, at);
        if let Some(bad) = bad {
            self.unreadable(index, bad);
        }
        self.set_bytes(index, blocks << format.shift);
        // Both halves' data, if it is fused.
        self.hold(index, moved * if second.is_some() { 2 } else { 1 });
        let data = data.to_vec();
        let is_fused = second.is_some();
        let then = match second {
            None => Then::Compare { data, strip },
            Some(second) => Then::CompareAndWrite { data, strip, second },
        };
        self.gather(index, at, vec![BlockRun { start, blocks, check }], then);
        // What the store brings near may miss later writes: none may come in between.
        let waits = self.commands.get(index).is_some_and(Command::is_waiting);
        if is_fused
            && waits
            && let (Some(command), Some(namespace)) =
                (self.commands.get_mut(index), self.namespaces.get_mut(at))
        {
            command.take_exclusively();
            namespace.take_exclusively();
        }
        self.add_steps(index, at, Operation::Read, start, u64::from(blocks));
        self.start(index);
        Ok(())
    }

    pub(super) fn verify(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        io: BlockCommand,
    ) -> Result<(), Status> {
        let at = self.admit(queue, entry, Access::Read)?;
        let namespace = self.namespaces.need(at)?;
        let format = namespace.format();
        let BlockCommand { start, blocks, .. } = io;
        check_range(namespace, start, u64::from(blocks))?;
        let limit = self.queues.get(queue).map_or(0, |slot| slot.transport().max_transfer_bytes);
        if blocks << format.shift > limit {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let check = Check::of(&io, format)?;
        let bad = namespace.uncorrectable().first_in(start, u64::from(blocks));
        let index = self.begin(queue, entry, CommandKind::OtherIo, at);
        if let Some(bad) = bad {
            self.unreadable(index, bad);
        }
        self.set_bytes(index, blocks << format.shift);
        self.gather(index, at, vec![BlockRun { start, blocks, check }], Then::Check);
        self.add_steps(index, at, Operation::Read, start, u64::from(blocks));
        self.start(index);
        Ok(())
    }

    /// A command that is half of a fused operation, or follows one that is. Whether it is to be
    /// carried out by itself.
    pub(crate) fn submit_fused(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> bool {
        let Some(slot) = self.queues.get_mut(queue) else { return false };
        let missing = Status::ABORTED_MISSING_FUSED.do_not_retry();
        match (slot.take_first_half(), entry.flags & 3) {
            (None, FIRST) => {
                slot.keep_first_half(FirstHalf { entry: *entry, data: data.to_vec() });
            }
            (None, _) => self.fail(queue, entry, kind(entry), missing),
            (Some(first), SECOND) => self.pair(queue, *first, entry, data),
            (Some(first), next) => {
                self.fail(queue, &first.entry, kind(&first.entry), missing);
                return next == 0 || self.submit_fused(queue, entry, data);
            }
        }
        false
    }

    pub(crate) fn pair(
        &mut self,
        queue: u32,
        first: FirstHalf,
        entry: &SubmissionEntry,
        data: &[u8],
    ) {
        let aborted = Status::ABORTED_FAILED_FUSED.do_not_retry();
        let FirstHalf { entry: first, data: first_data } = first;
        let (compare, io) = match halves(&first, entry) {
            Ok(halves) => halves,
            Err(status) => {
                self.fail(queue, &first, CommandKind::OtherIo, status);
                return self.fail(queue, entry, CommandKind::Write, aborted);
            }
        };
        // The write's own errors come first: nothing is to be compared in vain.
        let checked = self.admit(queue, entry, Access::Write).and_then(|at| {
            let format = self.namespaces.need(at)?.format();
            let check = Check::of(&io, format)?;
            self.check_directive(at, io.directive)?;
            self.split(at, io.start, io.blocks, data, check)?;
            Ok((at, check))
        });
        let (at, check) = match checked {
            Ok(checked) => checked,
            Err(status) => {
                self.fail(queue, &first, CommandKind::OtherIo, aborted);
                return self.fail(queue, entry, CommandKind::Write, status);
            }
        };
        if self.namespaces.get(at).is_some_and(|it| it.is_exclusive()) {
            let half = FirstHalf { entry: first, data: first_data };
            let write = IoCommand::Nvm(NvmCommand::Write(io));
            if let Err(status) = self.put_off(queue, entry, write, data, at, Some(half)) {
                self.fail(queue, &first, CommandKind::OtherIo, status);
                self.fail(queue, entry, CommandKind::Write, aborted);
            }
            return;
        }
        let second = Box::new(FusedWrite { entry: *entry, io, data: data.to_vec(), check });
        let compared = self.compare_then(queue, &first, compare, &first_data, Some(second));
        if let Err(status) = compared {
            self.fail(queue, &first, CommandKind::OtherIo, status);
            self.fail(queue, entry, CommandKind::Write, aborted);
        }
    }

    /// The blocks are equal: writes the second half's.
    pub(super) fn fused_write(&mut self, index: u32, namespace: usize, second: FusedWrite) {
        let FusedWrite { entry, io, data, check } = second;
        let BlockCommand { start, blocks, .. } = io;
        let through = self.admin.writes_through(io.force_unit_access);
        let content = self.split(namespace, start, blocks, &data, check).and_then(|content| {
            self.check_cleared(namespace, start, u64::from(blocks))?;
            Ok(content)
        });
        let content =
            content.and_then(|content| Ok((content, self.place(namespace, io.directive)?)));
        let (content, placed) = match content {
            Ok(content) => content,
            Err(status) => return self.fail_fused(index, status, &entry),
        };
        if let Some(command) = self.commands.get_mut(index) {
            command.set_work(Work::Fused(Box::new(entry)));
            command.set_placed(placed);
        }
        self.write_blocks(index, namespace, start, u64::from(blocks), Some(content), through);
        let operation = if through { Operation::WriteThrough } else { Operation::Write };
        self.add_steps(index, namespace, operation, start, u64::from(blocks));
        self.start(index);
    }

    /// Ends the first half with `status`, and the second because of it.
    pub(super) fn fail_fused(&mut self, index: u32, status: Status, second: &SubmissionEntry) {
        if let Some(command) = self.commands.get_mut(index) {
            command.set_status(status);
            command.set_work(Work::Fused(Box::new(*second)));
        }
        self.finish_fused(index, Status::ABORTED_FAILED_FUSED);
    }

    /// Completes both halves.
    pub(super) fn finish_fused(&mut self, index: u32, second_status: Status) {
        let Some(command) = self.commands.get_mut(index) else { return };
        let Work::Fused(entry) = command.take_work() else { return };
        let (queue, bytes) = (command.queue(), command.bytes());
        let (arrival, due) = (command.arrival(), command.due());
        let (stages, link) = (command.stages(), command.take_link());
        let mut status = second_status;
        if !command.status().is_success() && second_status.is_success() {
            // The write failed, not the comparison.
            status = command.status();
            command.set_status(Status::ABORTED_FAILED_FUSED);
        }
        self.finish(index, CompletionData::None);
        if queue == NONE {
            return;
        }
        let id = entry.command_id.get();
        if status.is_success() {
            self.health.count(CommandKind::Write, entry.opcode, bytes);
        } else {
            let (namespace, start) = (entry.namespace_id.get(), entry.start_lba());
            status = self.note_error(queue, id, entry.opcode, namespace, start, status);
        }
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let mut completion = CompletionEntry::new(id, status, 0);
        completion.queue_head.set(slot.complete());
        let flow = slot.flow();
        self.post(Completion {
            queue: Queue(queue),
            flow,
            entry: completion,
            data: CompletionData::None,
            kind: CommandKind::Write,
            bytes,
            arrival,
            due,
            stages,
            link,
            transfer: NONE,
            direct: false,
            _held: None,
        });
    }
}

/// What the halves of a Compare and Write say.
///
/// # Errors
/// If they do not make one.
fn halves(
    first: &SubmissionEntry,
    second: &SubmissionEntry,
) -> Result<(BlockCommand, BlockCommand), Status> {
    let (Ok(NvmCommand::Compare(compare)), Ok(NvmCommand::Write(write))) =
        (NvmCommand::parse(first), NvmCommand::parse(second))
    else {
        return Err(Status::INVALID_FIELD.do_not_retry());
    };
    let fits = first.namespace_id == second.namespace_id
        && (compare.start, compare.blocks) == (write.start, write.blocks);
    if !fits {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    if compare.blocks > COMPARE_AND_WRITE_BLOCKS_MAX {
        return Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED.do_not_retry());
    }
    Ok((compare, write))
}

fn kind(entry: &SubmissionEntry) -> CommandKind {
    if entry.opcode == nvm::WRITE { CommandKind::Write } else { CommandKind::OtherIo }
}
