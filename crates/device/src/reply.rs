//! Replies to commands that end at once, and the error log.

use crate::output::{Output, Queue, Reply, ReplyData, ReplyKind};
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use crate::transfer::check_room;
use mynah_stamp::StageSpans;
use mynah_wire::nvme::log::ErrorEntry;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};

impl Subsystem {
    /// Replies to a command that succeeded without data.
    pub(crate) fn reply(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: ReplyKind,
        result: u64,
    ) {
        self.answer(queue, entry, kind, Status::SUCCESS, result, ReplyData::None);
    }

    /// Replies with data, if the host has room for all of them.
    pub(crate) fn reply_data(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: ReplyKind,
        data: Vec<u8>,
    ) {
        if let Err(status) = check_room(entry, data.len() as u64) {
            return self.fail(queue, entry, kind, status);
        }
        self.answer(queue, entry, kind, Status::SUCCESS, 0, ReplyData::Bytes(data));
    }

    /// Replies with an error, and notes it in the error log.
    #[cold]
    pub(crate) fn fail(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: ReplyKind,
        status: Status,
    ) {
        let lba = if kind == ReplyKind::Admin { 0 } else { entry.start_lba() };
        let namespace = if kind == ReplyKind::Fabrics { 0 } else { entry.namespace_id.get() };
        let status =
            self.note_error(queue, entry.command_id.get(), entry.opcode, namespace, lba, status);
        self.answer(queue, entry, kind, status, 0, ReplyData::None);
    }

    /// Notes an error in the log of the queue's controller; returns the status to reply.
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

    pub(crate) fn answer(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: ReplyKind,
        status: Status,
        result: u64,
        data: ReplyData,
    ) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        if slot.outstanding == 0 {
            return;
        }
        let mut completion = CompletionEntry::new(entry.command_id.get(), status, result);
        completion.queue_head.set(slot.reply());
        let held = match &data {
            ReplyData::Bytes(bytes) => Some(Box::new(slot.account.hold(bytes.len()))),
            ReplyData::None | ReplyData::Media(_) | ReplyData::Connected(_) => None,
        };
        let flow = slot.flow;
        self.push(Reply {
            queue: Queue(queue),
            flow,
            entry: completion,
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

    /// Has a reply go out.
    #[inline]
    pub(crate) fn push(&mut self, reply: Reply) {
        match self.queues.get(reply.queue.0) {
            Some(slot) if slot.guest.is_some() => self.reply_to_guest(reply),
            _ => self.outputs.push_back(Output::Reply(reply)),
        }
    }
}
