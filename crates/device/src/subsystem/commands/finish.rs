//! How commands end: completions, what is counted, and who is told.

use super::{Command, Work};
use crate::output::{Completion, CompletionData, Media, Output, Queue};
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use mynah_model::io;
use mynah_wire::nvme::{CompletionEntry, Status};

impl Subsystem {
    /// Ends a command that has done nothing out of the ordinary: most of them.
    #[inline]
    pub(crate) fn finish_plain(&mut self, index: u32, ended: &io::Completion) {
        let Some(command) = self.commands.get(index) else { return };
        let Some(slot) = self.queues.get_mut(command.queue) else {
            return self.finish(index, CompletionData::None);
        };
        if command.exclusive {
            return self.finish(index, CompletionData::None);
        }
        let (is_guests, flow) = (slot.is_guests(), slot.flow());
        let mut entry = CompletionEntry::new(command.command_id, Status::SUCCESS, 0);
        entry.queue_head.set(slot.complete());
        self.health.count(command.kind, command.opcode, command.bytes);
        let is_media = matches!(command.work, Work::Media);
        let media = Media { at: command.at, bytes: command.bytes, job: command.job };
        let (queue, kind, bytes) = (Queue(command.queue), command.kind, command.bytes);
        let (arrival, transfer, direct) = (command.arrival, command.transfer, command.direct);
        let link = self.model.drive().polled_link_spans().map(|link| Box::new(*link));
        self.commands.release(index);
        // Made where it goes: it is large.
        let completion = move || Completion {
            queue,
            flow,
            entry,
            data: if is_media { CompletionData::Media(media) } else { CompletionData::None },
            kind,
            bytes,
            arrival,
            due: Some(ended.at),
            stages: ended.stages,
            link,
            transfer,
            direct,
            _held: None,
        };
        match is_guests {
            false => self.outputs.push_back(Output::Completion(completion())),
            true => self.post_to_guest(completion()),
        }
        self.health.end(self.commands.len(), self.now.wall);
    }

    /// Ends a command: completes it, or forgets it if nobody listens.
    pub(crate) fn finish(&mut self, index: u32, data: CompletionData) {
        self.finish_with(index, data, 0);
    }

    /// [`Subsystem::finish`] with a result (dwords 0 and 1 of the completion).
    pub(crate) fn finish_with(&mut self, index: u32, data: CompletionData, result: u64) {
        self.end(index, data, result);
        self.has_ended(index);
    }

    fn end(&mut self, index: u32, mut data: CompletionData, result: u64) {
        let Some(command) = self.commands.remove(index) else { return };
        self.health.end(self.commands.len(), self.now.wall);
        if command.exclusive {
            self.release_exclusive(command.namespace);
        }
        let slot = if command.queue == NONE { None } else { self.queues.get_mut(command.queue) };
        let mut status = command.status;
        let (head, flow) = match slot {
            Some(slot) => (slot.complete(), slot.flow()),
            None => {
                return if let Some(job) = command.job {
                    self.media.forget(job);
                };
            }
        };
        if status.is_success() {
            self.media.made_certain(command.certain.as_deref());
            self.health.count(command.kind, command.opcode, command.bytes);
            if matches!(command.work, Work::Media) {
                let media = Media { at: command.at, bytes: command.bytes, job: command.job };
                data = CompletionData::Media(media);
            }
        } else {
            if let Some(job) = command.job {
                self.media.forget(job);
            }
            status = self.command_failed(&command, status);
            data = CompletionData::None;
        }
        let mut entry = CompletionEntry::new(command.command_id, status, result);
        entry.queue_head.set(head);
        self.post(Completion {
            queue: Queue(command.queue),
            flow,
            entry,
            data,
            kind: command.kind,
            bytes: command.bytes,
            arrival: command.arrival,
            due: command.due,
            stages: command.stages.map_or_else(Default::default, |stages| *stages),
            link: command.link,
            transfer: command.transfer,
            direct: command.direct,
            _held: command.held,
        });
    }

    #[cold]
    fn command_failed(&mut self, command: &Command, status: Status) -> Status {
        if matches!(status.code_type(), 2) && status.code() <= 0x84 {
            self.health.media_error();
        }
        let namespace = command.namespace + 1;
        self.note_error(
            command.queue,
            command.command_id,
            command.opcode,
            namespace,
            command.start,
            status,
        )
    }
}
