//! I/O commands: what all of them have in common.

mod blocks;
pub(crate) mod compare;
pub(crate) mod copy;
mod deallocate;
mod io;
pub(crate) mod protection;
mod reserve;

pub(crate) use io::Plain;

use crate::commands::Step;
use crate::namespaces::{Namespace, WriteProtection};
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use mynah_model::io::Operation;
use mynah_wire::nvme::command::NvmCommand;
use mynah_wire::nvme::opcode::FABRICS;
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Every namespace.
pub(crate) const NAMESPACE_ALL: u32 = 0xffff_ffff;

/// How a command touches the blocks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Counts as a write where the namespace is reserved, and not where it is protected (Base 2.0,
    /// section 8.12; nvmet_io_cmd_check_access in drivers/nvme/target/core.c of Linux).
    Flush,
    /// Reads or changes reservations only.
    Reservation,
}

impl Subsystem {
    /// A command on an I/O queue.
    #[inline]
    pub(crate) fn submit_io(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        let Some(slot) = self.queues.get_mut(queue) else { return };
        let Some(controller) = self.controllers.get_mut(slot.controller) else { return };
        controller.heard_of(self.now.wall);
        if controller.is_fatal() {
            return;
        }
        if slot.fused.is_some() || entry.flags & 3 != 0 {
            return self.submit_fused(queue, entry, data);
        }
        self.io(queue, entry, data);
    }

    /// Parses an I/O command and carries it out.
    #[inline]
    pub(crate) fn io(&mut self, queue: u32, entry: &SubmissionEntry, data: &[u8]) {
        match NvmCommand::parse(entry) {
            Ok(command) => self.carry_out(queue, entry, command, data),
            Err(_) if entry.opcode == FABRICS => self.submit_fabrics(queue, entry, data),
            Err(status) => self.fail(queue, entry, CommandKind::OtherIo, status),
        }
    }

    /// Carries an I/O command out.
    pub(crate) fn carry_out(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        command: NvmCommand,
        data: &[u8],
    ) {
        let outcome = match command {
            NvmCommand::Read(io) => self.read(queue, entry, io),
            NvmCommand::Write(io) => self.write(queue, entry, io, data),
            NvmCommand::Flush => self.flush(queue, entry),
            NvmCommand::DatasetManagement(wanted) => {
                self.dataset_management(queue, entry, wanted, data)
            }
            NvmCommand::WriteZeroes(io) => self.write_zeroes(queue, entry, io),
            NvmCommand::Compare(io) => self.compare(queue, entry, io, data),
            NvmCommand::Verify(io) => self.verify(queue, entry, io),
            NvmCommand::WriteUncorrectable(io) => self.write_uncorrectable(queue, entry, io),
            NvmCommand::Copy(copy) => self.copy(queue, entry, copy, data),
            NvmCommand::Reservation(wanted) => self.reservation(queue, entry, wanted, data),
        };
        if let Err(status) = outcome {
            self.fail(queue, entry, kind_of(command), status);
        }
    }

    /// Whether the queue's controller may use the namespace for this; returns the
    /// namespace's index.
    pub(crate) fn admit(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
        access: Access,
    ) -> Result<usize, Status> {
        let slot = self.queues.get(queue).ok_or(Status::INTERNAL_ERROR)?;
        let id = entry.namespace_id.get();
        let namespace = self.namespaces.active(slot.controller, id)?;
        self.controllers.check_path(slot.controller)?;
        if self.admin.sanitizes() {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        if namespace.is_formatting() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        if access == Access::Reservation {
            return Ok(id as usize - 1);
        }
        let writes = access != Access::Read;
        if let Some(controller) = self.controllers.get(slot.controller)
            && !namespace.reservations().admits(controller.host_id(), writes)
        {
            return Err(Status::RESERVATION_CONFLICT);
        }
        if access == Access::Write && namespace.protection() != WriteProtection::None {
            return Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
        }
        Ok(id as usize - 1)
    }

    /// Whether data that a write has completed with can be lost with the power.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        let cache = self.model.drive().config().cache;
        cache.is_some_and(|cache| cache.mode.writes() && !cache.power_loss_protection)
    }

    /// Whether writes have to be on flash before they complete.
    #[inline]
    pub(crate) fn through(&self, force_unit_access: bool) -> bool {
        force_unit_access || !self.admin.caches_writes()
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
                command.add_step(Step { operation, pool, sector: first, sectors });
                first += u64::from(sectors);
            }
        }
    }
}

/// What completions of a command are counted as.
pub(crate) fn kind_of(command: NvmCommand) -> CommandKind {
    match command {
        NvmCommand::Read(_) => CommandKind::Read,
        NvmCommand::Write(_) => CommandKind::Write,
        NvmCommand::Flush => CommandKind::Flush,
        NvmCommand::DatasetManagement(_) | NvmCommand::WriteZeroes(_) => CommandKind::Trim,
        NvmCommand::Compare(_)
        | NvmCommand::Verify(_)
        | NvmCommand::WriteUncorrectable(_)
        | NvmCommand::Copy(_)
        | NvmCommand::Reservation(_) => CommandKind::OtherIo,
    }
}

/// Checks that a range lies within the namespace.
#[inline]
pub(crate) fn check_range(namespace: &Namespace, start: u64, blocks: u64) -> Result<(), Status> {
    if start >= namespace.blocks() || blocks > namespace.blocks() - start {
        return Err(Status::LBA_OUT_OF_RANGE.do_not_retry());
    }
    Ok(())
}
