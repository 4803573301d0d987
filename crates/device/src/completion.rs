//! Completions of commands that end at once, and the error log.

use crate::output::{CommandKind, Completion, CompletionData, Output, Queue};
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use crate::transfer::check_room;
use mynah_stamp::StageSpans;
use mynah_wire::nvme::log::ErrorEntry;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};

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

    /// Notes an error in the log of the queue's controller; returns the status to complete with.
    pub(crate) fn note_error(
        &mut self,
        queue: u32,
        command_id: u16,
        opcode: u8,
        namespace: u32,
        lba: u64,
        status: Status,
    ) -> Status {
        let Some(slot) = self.queues.get(queue) else { return status };
        let queue_id = slot.queue_id;
        let Some(controller) = self.controllers.get_mut(slot.controller) else {
            return status;
        };
        let mut entry = ErrorEntry { opcode, ..Default::default() };
        let status = status.more_in_error_log();
        entry.queue_id.set(queue_id);
        entry.command_id.set(command_id);
        entry.status.set(status.to_bits() << 1);
        entry.parameter.set(0xffff);
        entry.lba.set(lba);
        entry.namespace_id.set(namespace);
        controller.log_error(entry);
        status
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
        let Some(slot) = self.queues.get_mut(queue) else { return };
        if slot.outstanding == 0 {
            return;
        }
        let mut done = CompletionEntry::new(entry.command_id.get(), status, result);
        done.queue_head.set(slot.complete());
        let held = match &data {
            CompletionData::Bytes(bytes) => Some(Box::new(slot.account.hold(bytes.len()))),
            CompletionData::None | CompletionData::Media(_) | CompletionData::Connected(_) => None,
        };
        let flow = slot.flow;
        self.post(Completion {
            queue: Queue(queue),
            flow,
            entry: done,
            data,
            kind,
            bytes: 0,
            arrival: self.now.model,
            due: None,
            stages: StageSpans::default(),
            transfer: NONE,
            direct: false,
            _held: held,
        });
    }

    /// Has a completion go out.
    #[inline]
    pub(crate) fn post(&mut self, completion: Completion) {
        match self.queues.get(completion.queue.0) {
            Some(slot) if slot.guest.is_some() => self.post_to_guest(completion),
            _ => self.outputs.push_back(Output::Completion(completion)),
        }
    }

    /// A completion that nobody wants.
    pub fn discard(&mut self, completion: Completion) {
        if let CompletionData::Media(media) = completion.data
            && let Some(job) = media.job
        {
            self.media.forget(job);
        }
    }
}
