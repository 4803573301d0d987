//! A command of the set with its key, wherever that came from.

use super::name::SpaceName;
use crate::output::CommandKind;
use mynah_model::keys::KeyOperation;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{SamsungCommand, StoreCondition};
use mynah_wire::nvme::samsung::status;

/// See the file's description.
#[derive(Debug)]
pub(crate) struct SpaceCommand {
    pub(super) command: SamsungCommand,
    /// The key space, and the key if it is about one.
    pub(super) name: SpaceName,
    pub(super) space: u32,
}

impl SpaceCommand {
    /// A command about a key space, with its key.
    pub(crate) fn new(command: SamsungCommand, space: u32, key: &[u8]) -> SpaceCommand {
        SpaceCommand { command, name: SpaceName::new(space, key), space }
    }

    pub(crate) fn name(&self) -> &SpaceName {
        &self.name
    }

    /// What its completion is counted as.
    pub(crate) fn kind(&self) -> CommandKind {
        kind_of(&self.command)
    }

    /// Bytes that it moves, at most.
    pub(crate) fn bytes(&self) -> u32 {
        self.command.bytes()
    }

    /// Whether it brings a value.
    pub(crate) fn stores(&self) -> bool {
        matches!(self.command, SamsungCommand::Store { .. } | SamsungCommand::Append { .. })
    }

    /// Whether it can change pairs.
    pub(crate) fn changes(&self) -> bool {
        self.stores() || matches!(self.command, SamsungCommand::Delete { .. })
    }

    /// The model's operation for it.
    pub(crate) fn operation(&self) -> KeyOperation {
        use SamsungCommand as C;
        match self.command {
            C::Store { condition: StoreCondition::Always, .. } => KeyOperation::Store,
            // What a value is appended to has to be found first.
            C::Store { .. } | C::Append { .. } => KeyOperation::StoreIf,
            // The index knows the size.
            C::Retrieve { only_size: true, .. } => KeyOperation::Exist,
            C::Retrieve { .. } => KeyOperation::Retrieve,
            C::Delete { .. } => KeyOperation::Delete,
            C::Exist { .. } => KeyOperation::Exist,
            C::OpenIterator { .. } | C::CloseIterator { .. } | C::ReadIterator { .. } => {
                KeyOperation::List
            }
        }
    }
}

/// What completions of a command are counted as.
pub(crate) fn kind_of(command: &SamsungCommand) -> CommandKind {
    use SamsungCommand as C;
    match command {
        C::Store { .. } | C::Append { .. } => CommandKind::Store,
        C::Retrieve { .. } => CommandKind::Retrieve,
        C::Delete { .. } => CommandKind::Delete,
        C::Exist { .. } => CommandKind::Exist,
        C::OpenIterator { .. } | C::CloseIterator { .. } | C::ReadIterator { .. } => {
            CommandKind::List
        }
    }
}

/// How a command of the set ends that would end so in NVMe's own.
pub(crate) fn status_of(other: Status) -> Status {
    match Status::new(other.code_type(), other.code()) {
        Status::KEY_DOES_NOT_EXIST => status::KEY_DOES_NOT_EXIST,
        Status::KEY_EXISTS => status::KEY_EXISTS,
        Status::CAPACITY_EXCEEDED => status::CAPACITY_EXCEEDED,
        Status::UNRECOVERED_READ_ERROR | Status::UNRECOVERED_VALUE_ERROR => status::UNRECOVERED,
        _ => other,
    }
}
