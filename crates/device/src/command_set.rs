//! I/O commands of every command set: who may give one, and the one place that knows which sets there
//! are. What a set's commands do is in a folder of its own.

use crate::namespaces::{Namespace, WriteProtection};
use crate::nvm;
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::command::{NvmCommand, ReservationCommand};
use mynah_wire::nvme::opcode::{FABRICS, nvm as opcode};
use mynah_wire::nvme::{Status, SubmissionEntry};

/// Effects of commands: supported; changes blocks; changes capabilities of a namespace;
/// changes the inventory of namespaces; and of commands that nothing else may run beside.
pub(crate) mod effect {
    pub(crate) const SUPPORTED: u32 = 1;
    pub(crate) const BLOCKS: u32 = 1 << 1;
    pub(crate) const NAMESPACE: u32 = 1 << 2;
    pub(crate) const INVENTORY: u32 = 1 << 3;
    pub(crate) const ALONE: u32 = 1 << 16;
}

/// Effects of the commands about reservations.
pub(crate) const RESERVATION_EFFECTS: [(u8, u32); 4] = [
    (opcode::RESERVATION_REGISTER, 0),
    (opcode::RESERVATION_REPORT, 0),
    (opcode::RESERVATION_ACQUIRE, 0),
    (opcode::RESERVATION_RELEASE, 0),
];

/// A command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandSet {
    Nvm,
}

impl CommandSet {
    /// All that there are.
    pub(crate) const ALL: [CommandSet; 1] = [CommandSet::Nvm];

    /// The set with this identifier (CSI).
    pub(crate) fn from_code(code: u8) -> Option<CommandSet> {
        CommandSet::ALL.into_iter().find(|set| set.code() == code)
    }

    /// CSI.
    pub(crate) fn code(self) -> u8 {
        match self {
            CommandSet::Nvm => 0,
        }
    }

    /// What Identify says of its namespaces.
    pub(crate) fn namespace_page(self) -> Vec<u8> {
        match self {
            CommandSet::Nvm => nvm::identify::namespace_page(),
        }
    }

    /// What Identify says of controllers for it.
    pub(crate) fn controller_page(self) -> Vec<u8> {
        match self {
            CommandSet::Nvm => nvm::identify::controller_page(),
        }
    }

    /// Effects of its commands.
    pub(crate) fn effects(self) -> impl Iterator<Item = (u8, u32)> {
        match self {
            CommandSet::Nvm => nvm::identify::EFFECTS.into_iter(),
        }
    }
}

/// An I/O command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoCommand {
    Nvm(NvmCommand),
    /// Of every command set.
    Reservation(ReservationCommand),
}

impl IoCommand {
    /// The command that an entry of an I/O queue is.
    #[inline]
    pub(crate) fn parse(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
        match NvmCommand::parse(entry) {
            Ok(command) => Ok(IoCommand::Nvm(command)),
            Err(status) => {
                ReservationCommand::parse(entry).map(IoCommand::Reservation).ok_or(status)
            }
        }
    }

    /// What its completion is counted as.
    pub(crate) fn kind(self) -> CommandKind {
        match self {
            IoCommand::Nvm(command) => nvm::kind_of(command),
            IoCommand::Reservation(_) => CommandKind::OtherIo,
        }
    }

    /// Bytes that it moves between host and controller; `None` if that depends on a namespace that
    /// there is not.
    pub(crate) fn bytes(self, namespace: Option<&Namespace>) -> Option<u64> {
        match self {
            IoCommand::Nvm(command) => nvm::bytes_of(command, namespace),
            IoCommand::Reservation(command) => Some(command.bytes()),
        }
    }
}

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
        match IoCommand::parse(entry) {
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
        command: IoCommand,
        data: &[u8],
    ) {
        let outcome = match command {
            IoCommand::Nvm(command) => self.nvm(queue, entry, command, data),
            IoCommand::Reservation(command) => self.reservation(queue, entry, command, data),
        };
        if let Err(status) = outcome {
            self.fail(queue, entry, command.kind(), status);
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
}
