//! I/O commands of every command set: who may give one, and the one place that knows which sets there
//! are. What a set's commands do is in a folder of its own.

use crate::any_pairs;
use crate::command_set::CommandSet;
use crate::namespaces::Namespace;
use crate::output::CommandKind;
use crate::samsung;
use crate::subsystem::{Subsystem, key_value, nvm};
use mynah_wire::nvme::command::{KeyValueCommand, NvmCommand, ReservationCommand, SamsungCommand};
use mynah_wire::nvme::opcode;
use mynah_wire::nvme::{Status, SubmissionEntry};

impl CommandSet {
    /// What Identify says of controllers for it.
    pub(crate) fn controller_page(self) -> Vec<u8> {
        match self {
            CommandSet::Nvm => nvm::identify::controller_page(),
            CommandSet::KeyValue => key_value::identify::controller_page(),
        }
    }

    /// Effects of its commands, for the Commands Supported and Effects log of a drive that may have data
    /// placement.
    pub(crate) fn effects(self, has_placement: bool) -> Vec<(u8, u32)> {
        match self {
            CommandSet::Nvm => nvm::identify::effects(has_placement).collect(),
            CommandSet::KeyValue => {
                let own = key_value::identify::EFFECTS.into_iter();
                own.chain(nvm::identify::reservation_effects()).collect()
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoCommand {
    Nvm(NvmCommand),
    KeyValue(KeyValueCommand),
    Samsung(SamsungCommand),
    /// The commands about reservations belong to every command set.
    Reservation(ReservationCommand),
}

impl IoCommand {
    /// The command that an entry of an I/O queue is, where its namespace is one of blocks.
    ///
    /// Entries of other namespaces are taken for such ones at first, because most are: where a
    /// command turns out to need more care, [`Subsystem::io_command`] says what it is.
    #[inline]
    pub(crate) fn parse(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
        match NvmCommand::parse(entry) {
            Ok(command) => Ok(IoCommand::Nvm(command)),
            Err(status) => {
                ReservationCommand::parse(entry).map(IoCommand::Reservation).ok_or(status)
            }
        }
    }

    /// The command that an entry of an I/O queue is, where its namespace is one of pairs.
    fn parse_key_value(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
        match ReservationCommand::parse(entry) {
            Some(command) => Ok(IoCommand::Reservation(command)),
            None => KeyValueCommand::parse(entry).map(IoCommand::KeyValue),
        }
    }

    /// What its completion is counted as.
    pub(crate) fn kind(self) -> CommandKind {
        match self {
            IoCommand::Nvm(command) => nvm::kind_of(command),
            IoCommand::KeyValue(command) => any_pairs::kind_of(command),
            IoCommand::Samsung(command) => samsung::kind_of(&command),
            IoCommand::Reservation(_) => CommandKind::OtherIo,
        }
    }

    /// Bytes that it moves between host and controller; `None` if that depends on a namespace that
    /// there is not.
    pub(crate) fn bytes(self, namespace: Option<&Namespace>) -> Option<u64> {
        match self {
            IoCommand::Nvm(command) => nvm::bytes_of(command, namespace),
            IoCommand::KeyValue(command) => Some(any_pairs::bytes_of(command).into()),
            // They move by themselves.
            IoCommand::Samsung(_) => Some(0),
            IoCommand::Reservation(command) => Some(command.bytes()),
        }
    }
}

impl Subsystem {
    /// The command sets that there are.
    pub(crate) fn supported_sets(&self) -> &'static [CommandSet] {
        CommandSet::of_drive(self.namespaces.can_hold_pairs())
    }

    /// The command set with this identifier (CSI), if there is one.
    pub(crate) fn supported_set(&self, code: u8) -> Result<CommandSet, Status> {
        let found = self.supported_sets().iter().find(|set| set.identifier() == code);
        found.copied().ok_or(Status::COMMAND_SET_INVALID.do_not_retry())
    }

    /// Whether an entry of a queue is about a namespace of pairs.
    pub(crate) fn is_about_pairs(&self, queue: u32, entry: &SubmissionEntry) -> bool {
        let controller = self.queues.get(queue).map_or(0, |slot| slot.controller());
        let namespace = self.namespaces.active(controller, entry.namespace_id.get());
        namespace.is_ok_and(|it| it.pairs().is_some())
    }

    /// Whether an entry of a queue is about key spaces: one from guest memory, where the opcode alone
    /// says so.
    pub(crate) fn is_about_key_spaces(&self, queue: u32, entry: &SubmissionEntry) -> bool {
        opcode::samsung::has(entry.opcode)
            && self.queues.get(queue).is_some_and(|slot| {
                let spaces = self.namespaces.key_spaces();
                slot.is_guests() && spaces.is_some_and(|it| it.is_attached(slot.controller()))
            })
    }

    /// The command that an entry of a queue is, whatever its namespace.
    pub(crate) fn io_command(
        &self,
        queue: u32,
        entry: &SubmissionEntry,
    ) -> Result<IoCommand, Status> {
        match self.is_about_pairs(queue, entry) {
            _ if self.is_about_key_spaces(queue, entry) => {
                SamsungCommand::parse(entry).map(IoCommand::Samsung)
            }
            true => IoCommand::parse_key_value(entry),
            false => IoCommand::parse(entry),
        }
    }

    /// Carries an entry out if it is about a namespace of pairs; whether it is.
    #[inline(never)]
    pub(crate) fn takes_key_value(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> bool {
        let command = match self.is_about_pairs(queue, entry) {
            _ if self.is_about_key_spaces(queue, entry) => {
                SamsungCommand::parse(entry).map(IoCommand::Samsung)
            }
            true => IoCommand::parse_key_value(entry),
            false => return false,
        };
        match command {
            Ok(command) => self.carry_out(queue, entry, command, data),
            Err(status) => self.fail(queue, entry, CommandKind::OtherIo, status),
        }
        true
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
            IoCommand::KeyValue(command) => self.key_value(queue, entry, command, data),
            // Whoever has the guest's memory carries them out: what comes here is half of a fused
            // operation.
            IoCommand::Samsung(_) => Err(Status::INVALID_FIELD.do_not_retry()),
            IoCommand::Reservation(command) => self.reservation(queue, entry, command, data),
        };
        if let Err(status) = outcome {
            self.fail(queue, entry, command.kind(), status);
        }
    }
}
