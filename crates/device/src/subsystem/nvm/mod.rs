//! The NVM command set: what its commands have in common.

mod blocks;
pub(crate) mod compare;
pub(crate) mod copy;
mod deallocate;
pub(crate) mod identify;
mod io;
pub(crate) mod placement;
mod volumes;

pub(crate) use io::Plain;
pub use volumes::BlockNamespace;

use crate::namespaces::Namespace;
use crate::output::CommandKind;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::command::{IoManagementReceive, IoManagementSend, NvmCommand};
use mynah_wire::nvme::protection::{CopyRange, DatasetRange};
use mynah_wire::nvme::{Status, SubmissionEntry};

/// The namespace identifier that stands for all namespaces.
pub(crate) const NAMESPACE_ALL: u32 = 0xffff_ffff;

impl Subsystem {
    /// Carries a command out.
    ///
    /// # Errors
    /// What it ends with, if it ends at once with an error.
    #[inline]
    pub(crate) fn nvm(
        &mut self,
        queue: u32,
        entry: &SubmissionEntry,
        command: NvmCommand,
        data: &[u8],
    ) -> Result<(), Status> {
        match command {
            NvmCommand::Read(io) => self.read(queue, entry, io),
            NvmCommand::Write(io) => self.write(queue, entry, io, data),
            NvmCommand::Flush => self.flush(queue, entry),
            NvmCommand::DatasetManagement(request) => {
                self.dataset_management(queue, entry, request, data)
            }
            NvmCommand::WriteZeroes(io) => self.write_zeroes(queue, entry, io),
            NvmCommand::Compare(io) => self.compare(queue, entry, io, data),
            NvmCommand::Verify(io) => self.verify(queue, entry, io),
            NvmCommand::WriteUncorrectable(io) => self.write_uncorrectable(queue, entry, io),
            NvmCommand::Copy(copy) => self.copy(queue, entry, copy, data),
            NvmCommand::IoManagementReceive(request) => {
                self.io_management_receive(queue, entry, request)
            }
            NvmCommand::IoManagementSend(request) => {
                self.io_management_send(queue, entry, request, data)
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
        | NvmCommand::IoManagementReceive(_)
        | NvmCommand::IoManagementSend(_) => CommandKind::OtherIo,
    }
}

/// Bytes that a command moves between host and controller; `None` if that depends on a namespace
/// that there is not.
pub(crate) fn bytes_of(command: NvmCommand, namespace: Option<&Namespace>) -> Option<u64> {
    Some(match command {
        NvmCommand::Read(io) | NvmCommand::Write(io) | NvmCommand::Compare(io) => {
            let format = namespace?.format();
            let strips = format.protection != 0 && io.protection.action.strips;
            let metadata = if strips { 0 } else { u64::from(format.metadata) };
            u64::from(io.blocks) * ((1 << format.shift) + metadata)
        }
        NvmCommand::DatasetManagement(request) => {
            u64::from(request.ranges) * DatasetRange::BYTES as u64
        }
        NvmCommand::Copy(copy) => u64::from(copy.ranges) * CopyRange::BYTES as u64,
        // Nothing where they are refused, and they are where there is no data placement.
        NvmCommand::IoManagementReceive(request) => {
            let is_status = request.operation == IoManagementReceive::HANDLE_STATUS;
            if is_status && !namespace?.handles().is_empty() { request.bytes } else { 0 }
        }
        NvmCommand::IoManagementSend(request) => {
            let is_update = request.operation == IoManagementSend::HANDLE_UPDATE;
            let is_there = is_update && !namespace?.handles().is_empty();
            if is_there { 2 * request.identifiers() as u64 } else { 0 }
        }
        NvmCommand::Flush
        | NvmCommand::WriteUncorrectable(_)
        | NvmCommand::WriteZeroes(_)
        | NvmCommand::Verify(_) => 0,
    })
}

/// Checks that a range lies within the namespace.
#[inline]
pub(crate) fn check_range(namespace: &Namespace, start: u64, blocks: u64) -> Result<(), Status> {
    if start >= namespace.blocks() || blocks > namespace.blocks() - start {
        return Err(Status::LBA_OUT_OF_RANGE.do_not_retry());
    }
    Ok(())
}
