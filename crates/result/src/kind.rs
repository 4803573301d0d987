//! What commands, and the ways in which they end, are called in results, logs and reports.

use mynah_model::io::{Operation, Status};
use mynah_model::keys::KeyOperation;

/// Kinds of commands that results report separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes, written through or not.
    Write,
    /// Deallocations (Dataset Management).
    Trim,
    /// Flushes.
    Flush,
    /// Stores of keys that did not exist.
    Store,
    /// Stores to keys that existed.
    Update,
    /// Retrieves.
    Retrieve,
    /// Deletes.
    Delete,
    /// Exists.
    Exist,
    /// Lists.
    List,
}

impl Kind {
    /// All kinds, in the order of results.
    pub const ALL: [Kind; 10] = [
        Kind::Read,
        Kind::Write,
        Kind::Trim,
        Kind::Flush,
        Kind::Store,
        Kind::Update,
        Kind::Retrieve,
        Kind::Delete,
        Kind::Exist,
        Kind::List,
    ];

    /// The kind's name in results, logs and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Trim => "trim",
            Kind::Flush => "flush",
            Kind::Store => "store",
            Kind::Update => "update",
            Kind::Retrieve => "retrieve",
            Kind::Delete => "delete",
            Kind::Exist => "exist",
            Kind::List => "list",
        }
    }

    /// The kind of a key-value command; `existed` tells an update from a store.
    pub const fn of_key(operation: KeyOperation, existed: bool) -> Kind {
        match operation {
            KeyOperation::Store | KeyOperation::StoreIf if existed => Kind::Update,
            KeyOperation::Store | KeyOperation::StoreIf => Kind::Store,
            KeyOperation::Retrieve => Kind::Retrieve,
            KeyOperation::Delete => Kind::Delete,
            KeyOperation::Exist => Kind::Exist,
            KeyOperation::List => Kind::List,
        }
    }
}

impl From<Operation> for Kind {
    fn from(operation: Operation) -> Kind {
        match operation {
            Operation::Read => Kind::Read,
            Operation::Write | Operation::WriteThrough => Kind::Write,
            Operation::Trim => Kind::Trim,
            // Neither moves data.
            Operation::Flush | Operation::Other => Kind::Flush,
        }
    }
}

/// The status's name in results, logs and reports.
pub const fn status_name(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::InvalidNamespace => "invalid_namespace",
        Status::LbaOutOfRange => "lba_out_of_range",
        Status::InvalidField => "invalid_field",
        Status::UnrecoveredReadError => "unrecovered_read_error",
        Status::WriteFault => "write_fault",
        Status::Aborted => "aborted",
        Status::WriteProtected => "write_protected",
        Status::CapacityExceeded => "capacity_exceeded",
    }
}
