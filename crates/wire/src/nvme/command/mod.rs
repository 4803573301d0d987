//! Commands: what the 64 bytes of a submission queue entry ask for, as types.
//!
//! One struct a command, with the fields that are its own; what all commands have (identifier,
//! namespace, where the data lie) stays in the entry. [`AdminCommand`], [`NvmCommand`],
//! [`KeyValueCommand`], [`SamsungCommand`] and [`FabricsCommand`] say which command of a set an entry is; `put` writes a command into an entry
//! as a host does, and parsing gives it back.
//!
//! A parser refuses what the entry alone shows to be wrong and what is wrong before anything
//! else is looked at. Where a controller has to look at something else first (the namespace, say),
//! a reserved value is a value, so that the status stays that of the first error. What a device
//! supports, of features or log pages for instance, is not known here.

mod admin;
mod directives;
mod fabrics;
mod features;
mod io_management;
mod key_value;
mod length;
mod nvm;
mod queues;
mod reservation;
mod samsung;

pub use admin::{
    Abort, AdminCommand, CommitAction, DeviceSelfTest, FirmwareCommit, FirmwareImageDownload,
    FormatNvm, GetLogPage, Identify, NamespaceAttachment, NamespaceManagement, NamespaceSelect,
    Sanitize, SanitizeAction, SecureErase, SelfTestCode,
};
pub use directives::{Directive, DirectiveReceive, DirectiveSend};
pub use fabrics::{
    Authentication, Disconnect, FabricsCommand, PropertyGet, PropertySet, PropertySize,
};
pub use features::{GetFeatures, Select, SetFeatures};
pub use io_management::{IoManagementReceive, IoManagementSend};
pub use key_value::{KeyValueCommand, List, Retrieve, Store, StoreCondition, key_value_bytes};
pub use length::admin_bytes;
pub use nvm::{BlockCommand, Copy, DatasetManagement, NvmCommand, Protection, ProtectionAction};
pub use queues::{
    CreateCompletionQueue, CreateSubmissionQueue, DoorbellBufferConfig, QueuePriority,
};
pub use reservation::{
    AcquireAction, Persistence, RegisterAction, ReleaseAction, ReservationAcquire,
    ReservationCommand, ReservationRegister, ReservationRelease, ReservationReport,
};

pub use samsung::{SamsungCommand, SamsungKey};

use super::Status;

/// Status of commands with a wrong field, unless there is a more specific one.
const INVALID_FIELD: Status = Status::INVALID_FIELD.do_not_retry();
/// Status of commands that do not exist.
const INVALID_OPCODE: Status = Status::INVALID_OPCODE.do_not_retry();

/// `count` bits of a dword from bit `shift` on.
#[inline]
fn bits(dword: u32, shift: u32, count: u32) -> u32 {
    dword >> shift & ((1 << count) - 1)
}

/// Whether a bit of a dword is set.
#[inline]
fn bit(dword: u32, at: u32) -> bool {
    dword >> at & 1 != 0
}

#[cfg(test)]
mod tests;
