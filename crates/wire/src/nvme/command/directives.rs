//! Directives: what I/O commands say beside what they do (Base 2.1, section 8.1.8), and the admin
//! commands about them.

use super::{bit, bits};
use crate::nvme::SubmissionEntry;
use crate::nvme::opcode::admin as opcode;

/// What a write says by a directive (NVM Command Set 1.2, sections 3.3.2, 3.3.6 and 3.3.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directive {
    /// DTYPE, of four bits ([`Directive::DATA_PLACEMENT`]); 0: it says nothing.
    pub kind: u8,
    /// DSPEC: a placement identifier, in a data placement directive.
    pub specific: u16,
}

impl Directive {
    /// The directive type whose operations say what directives there are (Base 2.1, section 8.1.8.2).
    pub const IDENTIFY: u8 = 0;
    /// The type of the data placement directive (Base 2.1, section 8.1.8.4).
    pub const DATA_PLACEMENT: u8 = 2;

    #[inline]
    pub(super) fn parse(entry: &SubmissionEntry) -> Directive {
        let kind = bits(entry.dword12.get(), 20, 4) as u8;
        Directive { kind, specific: (entry.dword13.get() >> 16) as u16 }
    }

    pub fn put(&self, entry: &mut SubmissionEntry) {
        entry.dword12.set(entry.dword12.get() | u32::from(self.kind & 0xf) << 20);
        entry.dword13.set(u32::from(self.specific) << 16);
    }
}

/// Directive Receive (Base 2.1, section 5.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectiveReceive {
    /// Bytes to return (NUMD, which counts dwords from 0).
    pub bytes: u64,
    /// DOPER: the operation; its meaning depends on the type.
    pub operation: u8,
    /// DTYPE.
    pub kind: u8,
    /// DSPEC.
    pub specific: u16,
}

impl DirectiveReceive {
    /// Of [`Directive::IDENTIFY`]: which directives there are.
    pub const RETURN_PARAMETERS: u8 = 1;

    pub(super) fn parse(entry: &SubmissionEntry) -> DirectiveReceive {
        let [operation, kind, low, high] = entry.dword11.get().to_le_bytes();
        DirectiveReceive {
            bytes: (u64::from(entry.dword10.get()) + 1) * 4,
            operation,
            kind,
            specific: u16::from_le_bytes([low, high]),
        }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::DIRECTIVE_RECEIVE;
        entry.dword10.set((self.bytes / 4 - 1) as u32);
        let [low, high] = self.specific.to_le_bytes();
        entry.dword11.set(u32::from_le_bytes([self.operation, self.kind, low, high]));
    }
}

/// Directive Send (Base 2.1, section 5.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectiveSend {
    /// DOPER: the operation; its meaning depends on the type.
    pub operation: u8,
    /// DTYPE.
    pub kind: u8,
    /// DSPEC.
    pub specific: u16,
    /// ENDIR: of the operation that enables a directive, whether it is enabled.
    pub enables: bool,
}

impl DirectiveSend {
    pub(super) fn parse(entry: &SubmissionEntry) -> DirectiveSend {
        let [operation, kind, low, high] = entry.dword11.get().to_le_bytes();
        let specific = u16::from_le_bytes([low, high]);
        DirectiveSend { operation, kind, specific, enables: bit(entry.dword12.get(), 0) }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::DIRECTIVE_SEND;
        let [low, high] = self.specific.to_le_bytes();
        entry.dword11.set(u32::from_le_bytes([self.operation, self.kind, low, high]));
        entry.dword12.set(self.enables.into());
    }
}
