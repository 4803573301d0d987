//! Admin commands of controllers whose queues lie in the host's memory (PCIe Transport 1.0; Base
//! 2.0, sections 5.4, 5.5 and 5.11). All of them state places with PRPs.

use super::{bit, bits};
use crate::nvme::SubmissionEntry;
use crate::nvme::opcode::admin as opcode;

/// Create I/O Completion Queue (Base 2.0, section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateCompletionQueue {
    /// QID.
    pub queue_id: u16,
    /// Entries (QSIZE, which counts from 0).
    pub entries: u32,
    /// PRP1: address of the queue.
    pub at: u64,
    /// PC: the queue is physically contiguous.
    pub contiguous: bool,
    /// IEN: interrupts are enabled.
    pub interrupts: bool,
    /// IV: interrupt vector.
    pub vector: u16,
}

impl CreateCompletionQueue {
    pub(super) fn parse(entry: &SubmissionEntry) -> CreateCompletionQueue {
        let dword11 = entry.dword11.get();
        let (queue_id, entries) = name_and_size(entry);
        CreateCompletionQueue {
            queue_id,
            entries,
            at: entry.prp1(),
            contiguous: bit(dword11, 0),
            interrupts: bit(dword11, 1),
            vector: (dword11 >> 16) as u16,
        }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::CREATE_COMPLETION_QUEUE;
        put_name_and_size(entry, self.queue_id, self.entries);
        entry.set_prps(self.at, 0);
        entry.dword11.set(
            u32::from(self.contiguous)
                | u32::from(self.interrupts) << 1
                | u32::from(self.vector) << 16,
        );
    }
}

/// Create I/O Submission Queue (Base 2.0, section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSubmissionQueue {
    /// QID.
    pub queue_id: u16,
    /// Entries (QSIZE, which counts from 0).
    pub entries: u32,
    /// PRP1: address of the queue.
    pub at: u64,
    /// PC: the queue is physically contiguous.
    pub contiguous: bool,
    /// QPRIO.
    pub priority: QueuePriority,
    /// CQID: the queue of its completions.
    pub completion_queue_id: u16,
}

/// Priority of a submission queue, where the controller's arbitration has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePriority {
    Urgent,
    High,
    Medium,
    Low,
}

impl CreateSubmissionQueue {
    pub(super) fn parse(entry: &SubmissionEntry) -> CreateSubmissionQueue {
        let dword11 = entry.dword11.get();
        let (queue_id, entries) = name_and_size(entry);
        CreateSubmissionQueue {
            queue_id,
            entries,
            at: entry.prp1(),
            contiguous: bit(dword11, 0),
            priority: match bits(dword11, 1, 2) {
                0 => QueuePriority::Urgent,
                1 => QueuePriority::High,
                2 => QueuePriority::Medium,
                _ => QueuePriority::Low,
            },
            completion_queue_id: (dword11 >> 16) as u16,
        }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::CREATE_SUBMISSION_QUEUE;
        put_name_and_size(entry, self.queue_id, self.entries);
        entry.set_prps(self.at, 0);
        let priority = match self.priority {
            QueuePriority::Urgent => 0,
            QueuePriority::High => 1,
            QueuePriority::Medium => 2,
            QueuePriority::Low => 3,
        };
        entry.dword11.set(
            u32::from(self.contiguous) | priority << 1 | u32::from(self.completion_queue_id) << 16,
        );
    }
}

/// Doorbell Buffer Config (Base 2.0, section 5.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellBufferConfig {
    /// The page of shadow doorbells (PRP1).
    pub shadow: u64,
    /// The page of event indices (PRP2).
    pub events: u64,
}

impl DoorbellBufferConfig {
    pub(super) fn parse(entry: &SubmissionEntry) -> DoorbellBufferConfig {
        DoorbellBufferConfig { shadow: entry.prp1(), events: entry.prp2() }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::DOORBELL_BUFFER_CONFIG;
        entry.set_prps(self.shadow, self.events);
    }
}

fn name_and_size(entry: &SubmissionEntry) -> (u16, u32) {
    let dword10 = entry.dword10.get();
    (dword10 as u16, (dword10 >> 16) + 1)
}

fn put_name_and_size(entry: &mut SubmissionEntry, queue_id: u16, entries: u32) {
    entry.dword10.set(u32::from(queue_id) | (entries - 1) << 16);
}
