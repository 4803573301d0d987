//! Admin commands that only a controller with queues in guest memory has (Base 2.0, sections
//! 5.4 to 5.8, 5.11); the rest are the subsystem's.

use super::Function;
use super::data::PAGE;
use super::memory::{GuestMemory, set_doorbell};
use super::queue::{Completions, Submission};
use crate::subsystem::Subsystem;
use mynah_model::config::Priority;
use mynah_wire::nvme::command::{
    AdminCommand, CreateCompletionQueue, CreateSubmissionQueue, DoorbellBufferConfig, QueuePriority,
};
use mynah_wire::nvme::{Status, SubmissionEntry};
use std::sync::atomic::AtomicU32;

type Outcome = Result<(), Status>;

/// What the creation of any queue states.
#[derive(Clone, Copy, Debug)]
struct QueueRequest {
    id: u16,
    entries: u32,
    contiguous: bool,
    at: u64,
}

fn refused(status: Status) -> Outcome {
    Err(status.do_not_retry())
}

impl Function {
    /// Carries a command of the admin queue out, if it is one of these; `None` if not.
    pub(super) fn queue_command<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        doorbells: &[AtomicU32],
        entry: &SubmissionEntry,
    ) -> Option<Outcome> {
        if entry.flags != 0 {
            return None;
        }
        Some(match AdminCommand::parse(entry).ok()? {
            AdminCommand::CreateCompletionQueue(request) => {
                self.create_completion_queue(subsystem, memory, doorbells, request)
            }
            AdminCommand::CreateSubmissionQueue(request) => {
                self.create_submission_queue(subsystem, memory, doorbells, request)
            }
            AdminCommand::DeleteCompletionQueue(id) => self.delete_completion_queue(subsystem, id),
            AdminCommand::DeleteSubmissionQueue(id) => self.delete_submission_queue(subsystem, id),
            AdminCommand::DoorbellBufferConfig(request) if self.config.shadow_doorbells => {
                self.configure_shadow(memory, request)
            }
            _ => return None,
        })
    }

    /// Checks what the creation of any queue has to state.
    fn check_queue(
        &self,
        request: QueueRequest,
        ids_max: u16,
        exists: impl Fn(usize) -> bool,
        entry_size: u8,
    ) -> Outcome {
        let QueueRequest { id, entries, contiguous, at } = request;
        if id == 0 || id > ids_max || exists(id.into()) {
            return refused(Status::QUEUE_ID_INVALID);
        }
        if entries < 2 || entries > self.queue_entries_max || entry_size == 0 {
            return refused(Status::QUEUE_SIZE_INVALID);
        }
        if !contiguous {
            return refused(Status::INVALID_FIELD);
        }
        if !at.is_multiple_of(PAGE) {
            return refused(Status::PRP_OFFSET_INVALID);
        }
        Ok(())
    }

    fn create_completion_queue<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &Subsystem,
        memory: &M,
        doorbells: &[AtomicU32],
        request: CreateCompletionQueue,
    ) -> Outcome {
        let exists = |id: usize| self.completions[id].is_some();
        let size = self.configuration.completion_entry();
        let (_, ids_max) = subsystem.guest_queues(self.controller);
        let CreateCompletionQueue { queue_id: id, entries, at, contiguous, interrupts, vector } =
            request;
        self.check_queue(QueueRequest { id, entries, contiguous, at }, ids_max, exists, size)?;
        if vector >= self.vectors {
            return refused(Status::INTERRUPT_VECTOR_INVALID);
        }
        let vector = interrupts.then_some(vector);
        let queue = Completions::new(at, entries, vector);
        self.completions[usize::from(id)] = Some(Box::new(queue));
        self.active_completions.push(id);
        self.clear_doorbell(memory, doorbells, usize::from(id) * 2 + 1)
    }

    fn create_submission_queue<M: GuestMemory + ?Sized>(
        &mut self,
        subsystem: &mut Subsystem,
        memory: &M,
        doorbells: &[AtomicU32],
        request: CreateSubmissionQueue,
    ) -> Outcome {
        let exists = |id: usize| self.submissions[id].is_some();
        let size = self.configuration.submission_entry();
        let (ids_max, completion_ids_max) = subsystem.guest_queues(self.controller);
        let CreateSubmissionQueue { queue_id: id, entries, at, contiguous, .. } = request;
        self.check_queue(QueueRequest { id, entries, contiguous, at }, ids_max, exists, size)?;
        let completion = request.completion_queue_id;
        if completion == 0 || completion > completion_ids_max {
            return refused(Status::QUEUE_ID_INVALID);
        }
        let priority = match request.priority {
            _ if self.configuration.arbitration() == 0 => Priority::default(),
            QueuePriority::Urgent => Priority::Urgent,
            QueuePriority::High => Priority::High,
            QueuePriority::Medium => Priority::Medium,
            QueuePriority::Low => Priority::Low,
        };
        let Some(completions) = &mut self.completions[usize::from(completion)] else {
            return refused(Status::COMPLETION_QUEUE_INVALID);
        };
        let slot = subsystem
            .create_guest_queue(self.controller, id, completions.entries, priority)
            .ok_or(Status::INTERNAL_ERROR)?;
        completions.users += 1;
        let queue = Submission::new(slot, at, entries, completion);
        self.submissions[usize::from(id)] = Some(Box::new(queue));
        self.active.push(id);
        self.clear_doorbell(memory, doorbells, usize::from(id) * 2)
    }

    fn delete_submission_queue(&mut self, subsystem: &mut Subsystem, id: u16) -> Outcome {
        let place = self.submissions.get_mut(usize::from(id)).filter(|_| id > 0);
        let Some(queue) = place.and_then(Option::take) else {
            return refused(Status::QUEUE_ID_INVALID);
        };
        self.active.retain(|&other| other != id);
        subsystem.delete_guest_queue(queue.slot);
        let transfers = self.transfers.iter().filter(|(_, it)| it.slot == queue.slot);
        let transfers: Vec<u32> = transfers.map(|(index, _)| index).collect();
        for transfer in transfers {
            self.forget(transfer);
        }
        if let Some(completions) = &mut self.completions[usize::from(queue.completion)] {
            completions.users -= 1;
            completions.disown(queue.slot);
            for waiting in std::mem::take(&mut completions.backlog) {
                match waiting.submission == id {
                    true => subsystem.discard(waiting.completion),
                    false => completions.backlog.push_back(waiting),
                }
            }
        }
        Ok(())
    }

    fn delete_completion_queue(&mut self, subsystem: &mut Subsystem, id: u16) -> Outcome {
        let place = self.completions.get_mut(usize::from(id)).filter(|_| id > 0);
        let Some(place) = place.filter(|place| place.is_some()) else {
            return refused(Status::QUEUE_ID_INVALID);
        };
        let Some(queue) = place.take_if(|queue| queue.users == 0) else {
            return refused(Status::QUEUE_DELETION_INVALID);
        };
        self.active_completions.retain(|&other| other != id);
        for waiting in queue.backlog {
            subsystem.discard(waiting.completion);
        }
        Ok(())
    }

    /// A new queue's doorbell stands at 0.
    fn clear_doorbell<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        doorbells: &[AtomicU32],
        index: usize,
    ) -> Outcome {
        set_doorbell(doorbells, index, 0);
        self.write_shadow(memory, index, 0, 0)
    }

    /// Sets what a shadow doorbell and its event index say.
    fn write_shadow<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        index: usize,
        value: u32,
        event: u32,
    ) -> Outcome {
        let Some((shadow, events)) = self.shadow else { return Ok(()) };
        let at = index as u64 * 4;
        let written = memory.write(shadow + at, &value.to_le_bytes());
        written
            .and_then(|()| memory.write(events + at, &event.to_le_bytes()))
            .map_err(|_| Status::DATA_TRANSFER_ERROR)
    }

    fn configure_shadow<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        request: DoorbellBufferConfig,
    ) -> Outcome {
        let DoorbellBufferConfig { shadow, events } = request;
        // The last page's end would overflow.
        let is_page =
            |at: u64| at != 0 && at.is_multiple_of(PAGE) && at.checked_add(PAGE).is_some();
        if !is_page(shadow) || !is_page(events) {
            return refused(Status::INVALID_FIELD);
        }
        self.shadow = Some((shadow, events));
        for &id in &self.active {
            let tail = self.submissions[usize::from(id)].as_ref().map_or(0, |it| it.tail);
            self.write_shadow(memory, usize::from(id) * 2, tail, tail)?;
        }
        for &id in self.active_completions.iter().filter(|&&id| id > 0) {
            let head = self.completions[usize::from(id)].as_ref().map_or(0, |it| it.head);
            self.write_shadow(memory, usize::from(id) * 2 + 1, head, head)?;
        }
        Ok(())
    }
}
