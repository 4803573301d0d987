//! I/O Management Receive and I/O Management Send (Base 2.1, sections 7.3 and 7.4).

use crate::nvme::SubmissionEntry;
use crate::nvme::opcode::nvm as opcode;

/// I/O Management Receive (Base 2.1, section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoManagementReceive {
    /// MO: the management operation.
    pub operation: u8,
    /// MOS: its meaning depends on the operation.
    pub specific: u16,
    /// Bytes to return (NUMD, which counts dwords from 0).
    pub bytes: u64,
}

impl IoManagementReceive {
    /// Does nothing, and returns nothing.
    pub const NO_ACTION: u8 = 0;
    /// Reclaim Unit Handle Status.
    pub const HANDLE_STATUS: u8 = 1;

    pub(super) fn parse(entry: &SubmissionEntry) -> IoManagementReceive {
        let first = entry.dword10.get();
        IoManagementReceive {
            operation: first as u8,
            specific: (first >> 16) as u16,
            bytes: (u64::from(entry.dword11.get()) + 1) * 4,
        }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::IO_MANAGEMENT_RECEIVE;
        entry.dword10.set(u32::from(self.operation) | u32::from(self.specific) << 16);
        entry.dword11.set((self.bytes / 4 - 1) as u32);
    }
}

/// I/O Management Send (Base 2.1, section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoManagementSend {
    /// MO: the management operation.
    pub operation: u8,
    /// MOS: of [`IoManagementSend::HANDLE_UPDATE`], how many placement identifiers the data are, less
    /// one.
    pub specific: u16,
}

impl IoManagementSend {
    /// Does nothing, and takes nothing.
    pub const NO_ACTION: u8 = 0;
    /// Reclaim Unit Handle Update: the data are placement identifiers of 16 bits.
    pub const HANDLE_UPDATE: u8 = 1;

    /// Placement identifiers that the data of an update are.
    pub fn identifiers(&self) -> usize {
        usize::from(self.specific) + 1
    }

    pub(super) fn parse(entry: &SubmissionEntry) -> IoManagementSend {
        let first = entry.dword10.get();
        IoManagementSend { operation: first as u8, specific: (first >> 16) as u16 }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::IO_MANAGEMENT_SEND;
        entry.dword10.set(u32::from(self.operation) | u32::from(self.specific) << 16);
    }
}
