//! Commands that wait until another does not need their namespace for itself any more.

use super::Commands;
use super::begin::HELD_BYTES_MAX;
use crate::held::Held;
use crate::output::Queue;
use crate::queue::FirstHalf;
use crate::subsystem::Subsystem;
use crate::subsystem::io_command::IoCommand;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// A command that waits for a namespace until another is done with it.
#[derive(Debug)]
pub(crate) struct Deferred {
    queue: Queue,
    namespace: u32,
    entry: SubmissionEntry,
    command: IoCommand,
    data: Vec<u8>,
    /// The first half, if it is the second half of a fused operation.
    first: Option<FirstHalf>,
    /// The copied data, counted to the account of the host.
    held: Held,
}

impl Commands {
    /// Drops the deferred commands of a queue.
    pub(crate) fn forget_deferred(&mut self, queue: u32) {
        self.deferred.retain(|command| command.queue.0 != queue);
    }
}

impl Subsystem {
    /// Puts a command off while another has the namespace for itself; whether it was.
    ///
    /// # Errors
    /// If its host holds too much memory for that.
    pub(crate) fn defer(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        command: IoCommand,
        data: &[u8],
        namespace: usize,
    ) -> Result<bool, Status> {
        let busy = self.namespaces.get(namespace).is_some_and(|it| it.is_exclusive());
        if busy {
            self.put_off(queue, entry, command, data, namespace, None)?;
        }
        Ok(busy)
    }

    pub(crate) fn put_off(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        command: IoCommand,
        data: &[u8],
        namespace: usize,
        first: Option<FirstHalf>,
    ) -> Result<(), Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        slot.account().check(HELD_BYTES_MAX)?;
        let first_bytes = first.as_ref().map_or(0, |first| first.bytes());
        let held = slot.account().hold(data.len() + first_bytes);
        let (queue, namespace) = (Queue(queue), namespace as u32);
        let (entry, data) = (*entry, data.to_vec());
        self.commands.deferred.push_back(Deferred {
            queue,
            namespace,
            entry,
            command,
            data,
            first,
            held,
        });
        Ok(())
    }

    /// A command does not need the namespace for itself any more.
    pub(crate) fn release_exclusive(&mut self, namespace: u32) {
        // Where it has been deleted, what waits for it is refused.
        if let Some(target) = self.namespaces.get_mut(namespace as usize) {
            target.release();
            if target.is_exclusive() {
                return;
            }
        }
        for _ in 0..self.commands.deferred.len() {
            let Some(command) = self.commands.deferred.pop_front() else { break };
            if command.namespace != namespace {
                self.commands.deferred.push_back(command);
                continue;
            }
            let Deferred { queue, entry, command, data, first, held, .. } = command;
            // It does not stand in its own way.
            drop(held);
            // One of them may need the namespace for itself again.
            match first {
                None => self.carry_out(queue.0, &entry, command, &data),
                Some(first) => self.pair(queue.0, first, &entry, &data),
            }
        }
    }
}
