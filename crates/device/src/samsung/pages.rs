//! Log pages of the set, and what the log of effects says of its commands.

use super::spaces::KeySpaces;
use crate::command_set::effect;
use mynah_wire::nvme::opcode::samsung as opcode;
use mynah_wire::nvme::samsung::{PAGE_BYTES, WRITE_AMPLIFICATION_AT};
use zerocopy::IntoBytes;

/// Effects of the commands, for the Commands Supported and Effects log.
pub(crate) const EFFECTS: [(u8, u32); 7] = [
    (opcode::STORE, effect::BLOCKS),
    (opcode::APPEND, effect::BLOCKS),
    (opcode::RETRIEVE, 0),
    (opcode::DELETE, effect::BLOCKS),
    (opcode::ITERATE, 0),
    (opcode::READ_ITERATOR, 0),
    (opcode::EXIST, 0),
];

/// The log page of iterators.
pub(crate) fn iterators_page(spaces: &KeySpaces) -> Vec<u8> {
    let mut page = spaces.iterators().as_bytes().to_vec();
    page.resize(PAGE_BYTES, 0);
    page
}

/// Write amplification, in tenths: OpenMPDK divides it by ten (`KDDriver::get_waf`).
pub(crate) fn write_amplification_page(amplification: f64) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    let tenths = (amplification * 10.0).round() as u32;
    page[WRITE_AMPLIFICATION_AT..][..4].copy_from_slice(&tenths.to_le_bytes());
    page
}
