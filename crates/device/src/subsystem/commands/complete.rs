//! Completions of commands that end at once.

use crate::output::{CommandKind, Completion, CompletionData, Output};
use crate::subsystem::Subsystem;
use crate::transfer::check_room;
use mynah_wire::nvme::{Status, SubmissionEntry};

impl Subsystem {
    /// Completes a command that succeeded without data.
    pub(crate) fn complete(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        result: u64,
    ) {
        self.complete_as(queue, entry, kind, Status::SUCCESS, result, CompletionData::None);
    }

    /// Completes one with data, if the host has room for all of them.
    pub(crate) fn complete_with_data(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        data: Vec<u8>,
    ) {
        if let Err(status) = check_room(entry, data.len() as u64) {
            return self.fail(queue, entry, kind, status);
        }
        self.complete_as(queue, entry, kind, Status::SUCCESS, 0, CompletionData::Bytes(data));
    }

    /// Completes an admin command with a result and data, if the host has room for all of them.
    pub(crate) fn complete_with_answer(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        result: u64,
        data: Vec<u8>,
    ) {
        let kind = CommandKind::Admin;
        if let Err(status) = check_room(entry, data.len() as u64) {
            return self.fail(queue, entry, kind, status);
        }
        self.complete_as(queue, entry, kind, Status::SUCCESS, result, CompletionData::Bytes(data));
    }

    /// Completes one with an error, and notes it in the error log.
    #[cold]
    pub(crate) fn fail(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        status: Status,
    ) {
        let lba = if kind == CommandKind::Admin { 0 } else { entry.start_lba() };
        let namespace = if kind == CommandKind::Fabrics { 0 } else { entry.namespace_id.get() };
        let status =
            self.note_error(queue, entry.command_id.get(), entry.opcode, namespace, lba, status);
        self.complete_as(queue, entry, kind, status, 0, CompletionData::None);
    }

    pub(crate) fn complete_as(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        status: Status,
        result: u64,
        data: CompletionData,
    ) {
        if let Some(completion) = self.completion_of(queue, entry, kind, status, result, data) {
            self.post(completion);
        }
    }

    /// Passes a completion to the function of its guest, or to [`Subsystem::poll`].
    #[inline]
    pub(crate) fn post(&mut self, completion: Completion) {
        match self.queues.get(completion.queue.0) {
            Some(slot) if slot.is_guests() => self.post_to_guest(completion),
            _ => self.outputs.push_back(Output::Completion(completion)),
        }
    }
}
