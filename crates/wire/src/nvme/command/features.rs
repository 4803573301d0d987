//! Get and Set Features.

use super::{INVALID_FIELD, bit, bits};
use crate::nvme::opcode::admin as opcode;
use crate::nvme::{Status, SubmissionEntry};

/// Get Features (Base 2.0, section 5.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetFeatures {
    /// FID ([`crate::nvme::feature::id`]).
    pub feature: u8,
    /// SEL.
    pub select: Select,
    /// CDW11: selects one of several values, as the feature defines.
    pub which: u32,
}

/// SEL: which value of a feature is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    Current,
    Default,
    /// The value that takes effect after a reset.
    Saved,
    /// What can be done with the feature, not a value.
    Supported,
}

impl GetFeatures {
    pub(super) fn parse(entry: &SubmissionEntry) -> Result<GetFeatures, Status> {
        let dword10 = entry.dword10.get();
        let select = match bits(dword10, 8, 3) {
            0 => Select::Current,
            1 => Select::Default,
            2 => Select::Saved,
            3 => Select::Supported,
            _ => return Err(INVALID_FIELD),
        };
        Ok(GetFeatures { feature: dword10 as u8, select, which: entry.dword11.get() })
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::GET_FEATURES;
        let select = match self.select {
            Select::Current => 0,
            Select::Default => 1,
            Select::Saved => 2,
            Select::Supported => 3,
        };
        entry.dword10.set(u32::from(self.feature) | select << 8);
        entry.dword11.set(self.which);
    }
}

/// Set Features (Base 2.0, section 5.27).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFeatures {
    /// FID ([`crate::nvme::feature::id`]).
    pub feature: u8,
    /// SV: the value is to outlive a reset.
    pub saves: bool,
    /// CDW11: the value, as the feature defines it.
    pub value: u32,
    /// CDW12: more of it, where the feature has more.
    pub more: u32,
}

impl SetFeatures {
    pub(super) fn parse(entry: &SubmissionEntry) -> SetFeatures {
        let dword10 = entry.dword10.get();
        let (value, more) = (entry.dword11.get(), entry.dword12.get());
        SetFeatures { feature: dword10 as u8, saves: bit(dword10, 31), value, more }
    }

    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::SET_FEATURES;
        entry.dword10.set(u32::from(self.feature) | u32::from(self.saves) << 31);
        entry.dword11.set(self.value);
        entry.dword12.set(self.more);
    }
}
