//! Completions, and the error log.

use crate::key_value::is_answer;
use crate::output::{CommandKind, Completion, CompletionData, Media, Output, Queue};
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use mynah_stamp::StageSpans;
use mynah_wire::nvme::log::ErrorEntry;
use mynah_wire::nvme::opcode::samsung;
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};

impl Subsystem {
    /// Notes an error in the log that the queue's controller shows; returns the status to complete with.
    pub(crate) fn note_error(
        &mut self,
        queue: u32,
        command_id: u16,
        opcode: u8,
        namespace: u32,
        lba: u64,
        status: Status,
    ) -> Status {
        if is_answer(status) {
            // Nothing went wrong.
            return status;
        }
        let Some(slot) = self.queues.get(queue) else { return status };
        let (queue_id, owner) = (slot.queue_id(), slot.controller());
        if self.controllers.get(owner).is_none() {
            return status;
        }
        let mut entry = ErrorEntry { opcode, ..Default::default() };
        // Hosts of Samsung's set compare all bits of its statuses (`kvkdd.cpp` of OpenMPDK).
        let status = match samsung::has(opcode) && status.code_type() == 3 {
            true => status,
            false => status.more_in_error_log(),
        };
        entry.queue_id.set(queue_id);
        entry.command_id.set(command_id);
        entry.status.set(status.to_bits() << 1);
        entry.parameter.set(0xffff);
        entry.lba.set(lba);
        entry.namespace_id.set(namespace);
        self.controllers.log_error(owner, entry);
        status
    }

    /// A completion that nobody wants.
    pub fn discard(&mut self, completion: Completion) {
        match completion.data {
            CompletionData::Media(Media { job: Some(job), .. }) => self.media.forget(job),
            CompletionData::Value(value) => self.media.release_value(value.pinned),
            _ => {}
        }
    }

    /// The completion of a command that ends at once; `None` if its queue has forgotten it.
    pub(crate) fn completion_of(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        status: Status,
        result: u64,
        data: CompletionData,
    ) -> Option<Completion> {
        let slot = self.queues.get_mut(queue)?;
        if slot.outstanding() == 0 {
            return None;
        }
        let mut done = CompletionEntry::new(entry.command_id.get(), status, result);
        done.queue_head.set(slot.complete());
        let held = match &data {
            CompletionData::Bytes(bytes) => Some(Box::new(slot.account().hold(bytes.len()))),
            CompletionData::None
            | CompletionData::Media(_)
            | CompletionData::Value(_)
            | CompletionData::Connected(_) => None,
        };
        let flow = slot.flow();
        Some(Completion {
            queue: Queue(queue),
            flow,
            entry: done,
            data,
            kind,
            bytes: 0,
            arrival: self.now.model,
            due: None,
            stages: StageSpans::default(),
            link: None,
            transfer: NONE,
            direct: false,
            _held: held,
        })
    }

    /// Completes an admin command that succeeded without data.
    pub(crate) fn complete_admin(&mut self, queue: u32, entry: &SubmissionEntry, result: u64) {
        let (kind, status) = (CommandKind::Admin, Status::SUCCESS);
        let done = self.completion_of(queue, entry, kind, status, result, CompletionData::None);
        if let Some(completion) = done {
            self.post_now(completion);
        }
    }

    /// Posts a completion that the model has no say in.
    #[inline]
    pub(crate) fn post_now(&mut self, completion: Completion) {
        match self.queues.get(completion.queue.0) {
            Some(slot) if slot.is_guests() => {
                if let Some(controller) = self.controllers.get_mut(slot.controller()) {
                    controller.push_completion(completion);
                }
            }
            _ => self.outputs.push_back(Output::Completion(completion)),
        }
    }
}
