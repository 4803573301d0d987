//! What Identify (NVM Command Set 1.0, section 4.1.5) and the log of effects say of the NVM command set.

use crate::command_set::effect;
use mynah_wire::nvme::identify::{IdentifyNvmController, IdentifyNvmNamespace};
use mynah_wire::nvme::opcode::NvmOpcode;
use zerocopy::{FromZeros, IntoBytes};

/// Bits of ONCS.
mod support {
    pub(super) const COMPARE: u16 = 1;
    pub(super) const WRITE_UNCORRECTABLE: u16 = 1 << 1;
    pub(super) const DATASET_MANAGEMENT: u16 = 1 << 2;
    pub(super) const WRITE_ZEROES: u16 = 1 << 3;
    /// The save and select fields of Set Features and Get Features.
    pub(super) const SELECT: u16 = 1 << 4;
    pub(super) const RESERVATIONS: u16 = 1 << 5;
    pub(super) const TIMESTAMP: u16 = 1 << 6;
    pub(super) const VERIFY: u16 = 1 << 7;
    pub(super) const COPY: u16 = 1 << 8;
}

/// What a command changes, and the bit of ONCS that says that there is such a command: 0 if every
/// controller has it.
fn effects_and_support(opcode: NvmOpcode) -> (u32, u16) {
    match opcode {
        NvmOpcode::Flush | NvmOpcode::Read => (0, 0),
        NvmOpcode::Write => (effect::BLOCKS, 0),
        NvmOpcode::Compare => (0, support::COMPARE),
        NvmOpcode::Verify => (0, support::VERIFY),
        NvmOpcode::WriteUncorrectable => (effect::BLOCKS, support::WRITE_UNCORRECTABLE),
        NvmOpcode::WriteZeroes => (effect::BLOCKS, support::WRITE_ZEROES),
        NvmOpcode::DatasetManagement => (effect::BLOCKS, support::DATASET_MANAGEMENT),
        NvmOpcode::Copy => (effect::BLOCKS, support::COPY),
        NvmOpcode::ReservationRegister
        | NvmOpcode::ReservationReport
        | NvmOpcode::ReservationAcquire
        | NvmOpcode::ReservationRelease => (0, support::RESERVATIONS),
        NvmOpcode::IoManagementReceive | NvmOpcode::IoManagementSend => (0, 0),
    }
}

fn opcodes() -> impl Iterator<Item = NvmOpcode> {
    (0..=u8::MAX).filter_map(NvmOpcode::of)
}

/// Effects of the set's commands, those about reservations included, of a drive that may have data
/// placement.
pub(crate) fn effects(has_placement: bool) -> impl Iterator<Item = (u8, u32)> {
    let of_placement = [NvmOpcode::IoManagementReceive, NvmOpcode::IoManagementSend];
    let there = opcodes().filter(move |opcode| has_placement || !of_placement.contains(opcode));
    there.map(|opcode| (opcode as u8, effects_and_support(opcode).0))
}

/// Effects of the commands about reservations, which every command set has.
pub(crate) fn reservation_effects() -> impl Iterator<Item = (u8, u32)> {
    let commands = opcodes().map(|opcode| (opcode as u8, effects_and_support(opcode)));
    let reservations = commands.filter(|(_, (_, bit))| *bit == support::RESERVATIONS);
    reservations.map(|(opcode, (effects, _))| (opcode, effects))
}

/// ONCS: which optional commands there are, and what else that field says.
pub(crate) fn optional_commands() -> u16 {
    let others = support::SELECT | support::TIMESTAMP;
    opcodes().fold(others, |bits, opcode| bits | effects_and_support(opcode).1)
}

/// What Identify says of a namespace of this set (CNS 05h).
pub(crate) fn namespace_page() -> Vec<u8> {
    let page = IdentifyNvmNamespace::new_zeroed();
    page.as_bytes().to_vec()
}

/// What Identify says of a controller for this set (CNS 06h).
pub(crate) fn controller_page() -> Vec<u8> {
    // No limits beyond those of the data transfer and of 256 ranges.
    let page = IdentifyNvmController::new_zeroed();
    page.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_optional_command_is_announced() {
        assert_eq!(optional_commands(), 0x1ff);
        assert_eq!((effects(false).count(), reservation_effects().count()), (13, 4));
        assert_eq!(effects(true).count(), 15);
    }
}
