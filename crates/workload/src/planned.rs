//! A request as a stream plans it, before a drive has seen it.

use mynah_model::io::{Operation, PlacementId};
use mynah_stamp::Time;

/// A request that a flow has drawn, before it has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What it does; [`Operation::Other`] of a key-value command.
    pub operation: Operation,
    /// What a key-value command does.
    pub key: Option<KeyAction>,
    /// First sector (of 512 bytes) in the namespace; of a key-value command the key's number.
    pub sector: u64,
    /// Sectors; 0 only for a flush. Of a key-value command bytes: of the value that is stored, or
    /// of the host's buffer.
    pub sectors: u32,
    /// Of a write: which data it belongs with.
    pub placement: PlacementId,
    /// When it arrives, from the run's start; `None` in a closed loop.
    pub arrival: Option<Time>,
}

/// What a command of a key-value flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyAction {
    /// A Store of a new key.
    Store,
    /// A Store to a key that exists.
    Update,
    Retrieve,
    /// A Retrieve and, when it has completed, a Store of a new value to the same key.
    ReadModifyWrite,
    Delete,
    Exist,
    List,
}

impl KeyAction {
    pub const ALL: [KeyAction; 7] = [
        KeyAction::Store,
        KeyAction::Update,
        KeyAction::Retrieve,
        KeyAction::ReadModifyWrite,
        KeyAction::Delete,
        KeyAction::Exist,
        KeyAction::List,
    ];

    /// Name of the action in `kv`.
    pub const fn name(self) -> &'static str {
        match self {
            KeyAction::Store => "store",
            KeyAction::Update => "update",
            KeyAction::Retrieve => "retrieve",
            KeyAction::ReadModifyWrite => "read-modify-write",
            KeyAction::Delete => "delete",
            KeyAction::Exist => "exist",
            KeyAction::List => "list",
        }
    }

    /// Whether it stores a value.
    pub const fn stores(self) -> bool {
        matches!(self, KeyAction::Store | KeyAction::Update | KeyAction::ReadModifyWrite)
    }
}
