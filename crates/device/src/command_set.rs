//! The command sets that there are, and what the log of effects can say of a command.

use mynah_wire::nvme::identify::command_set as code;

/// Effects of commands: supported; changes blocks; changes capabilities of a namespace;
/// changes the inventory of namespaces; and of commands that nothing else may run beside.
pub(crate) mod effect {
    pub(crate) const SUPPORTED: u32 = 1;
    pub(crate) const BLOCKS: u32 = 1 << 1;
    pub(crate) const NAMESPACE: u32 = 1 << 2;
    pub(crate) const INVENTORY: u32 = 1 << 3;
    pub(crate) const ALONE: u32 = 1 << 16;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandSet {
    Nvm,
    KeyValue,
}

impl CommandSet {
    /// The command sets of a drive, which may be able to hold pairs.
    pub(crate) fn of_drive(has_pairs: bool) -> &'static [CommandSet] {
        match has_pairs {
            true => &[CommandSet::Nvm, CommandSet::KeyValue],
            false => &[CommandSet::Nvm],
        }
    }

    /// CSI.
    pub(crate) fn identifier(self) -> u8 {
        match self {
            CommandSet::Nvm => code::NVM,
            CommandSet::KeyValue => code::KEY_VALUE,
        }
    }
}
