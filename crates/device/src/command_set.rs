//! I/O commands of every command set: who may give one, and the one place that knows which sets there
//! are. What a set's commands do is in a folder of its own.

use crate::namespaces::Namespace;
use crate::nvm;
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::command::{NvmCommand, ReservationCommand};
use mynah_wire::nvme::opcode::nvm as opcode;
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

impl Subsystem {
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
}
