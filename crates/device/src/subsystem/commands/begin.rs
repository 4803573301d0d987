//! How commands begin, and the memory that they hold.

use super::{Command, Step};
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use mynah_model::io::Operation;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Memory that commands and completions of an I/O queue may hold: enough for a deep queue of
/// large reads of blocks with metadata.
pub(super) const HELD_BYTES_MAX: u64 = 32 << 20;

impl Subsystem {
    /// Begins a command that [`Subsystem::start`] then starts.
    pub(crate) fn begin(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        namespace: usize,
    ) -> u32 {
        self.begin_at(queue, entry, kind, namespace, entry.start_lba())
    }

    /// [`Subsystem::begin`] for a command that names no starting block.
    pub(crate) fn begin_whole(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        namespace: usize,
    ) -> u32 {
        self.begin_at(queue, entry, kind, namespace, 0)
    }

    fn begin_at(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        kind: CommandKind,
        namespace: usize,
        start: u64,
    ) -> u32 {
        let command = self.new_command(queue, kind).of(entry, namespace as u32, start);
        self.insert(command)
    }

    /// A command that comes now and does nothing yet.
    #[inline]
    pub(crate) fn new_command(&self, queue: u32, kind: CommandKind) -> Command {
        Command::new(queue, kind, self.now.model)
    }

    #[inline]
    pub(crate) fn insert(&mut self, command: Command) -> u32 {
        let index = self.commands.insert(command);
        self.health.begin(self.commands.len(), self.now.wall);
        index
    }

    /// Whether a command that needs memory may begin on an I/O queue.
    pub(crate) fn check_held(&self, queue: u32) -> Result<(), Status> {
        self.queues.get(queue).map_or(Ok(()), |slot| slot.account().check(HELD_BYTES_MAX))
    }

    /// Has a command hold memory until its completion is dropped.
    pub(crate) fn hold(&mut self, index: u32, bytes: usize) {
        if let Some(command) = self.commands.get_mut(index)
            && let Some(slot) = self.queues.get(command.queue)
        {
            command.hold(slot.account().hold(bytes));
        }
    }

    /// Adds the model's steps for a range of blocks of a namespace.
    pub(crate) fn add_steps(
        &mut self,
        index: u32,
        namespace: usize,
        operation: Operation,
        start: u64,
        blocks: u64,
    ) {
        let (Some(namespace), Some(command)) =
            (self.namespaces.get(namespace), self.commands.get_mut(index))
        else {
            return;
        };
        let (unit, per_block) =
            (self.namespaces.space().unit_sectors(), namespace.format().block_sectors());
        for part in namespace.parts(start * per_block, blocks * per_block) {
            let (mut first, mut last) = (part.sector, part.sector + part.sectors);
            let placement = self.model.placement(part.pool, command.placed);
            if operation == Operation::Trim {
                // Only whole units can be deallocated.
                first = first.next_multiple_of(unit);
                last = last / unit * unit;
            }
            while first < last {
                let most = match operation {
                    Operation::Trim => u64::from(u32::MAX) / unit * unit,
                    // The model's largest read or write.
                    _ => 1 << 21,
                };
                let sectors = (last - first).min(most) as u32;
                let pool = part.pool;
                command.add_step(Step { operation, pool, sector: first, sectors, placement });
                first += u64::from(sectors);
            }
        }
    }
}
