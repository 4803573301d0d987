//! What Identify (NVM Command Set 1.0, section 4.1.5) and the log of effects say of the NVM command set.

use crate::command_set::effect;
use mynah_wire::nvme::identify::{IdentifyNvmController, IdentifyNvmNamespace};
use mynah_wire::nvme::opcode::nvm;
use zerocopy::{FromZeros, IntoBytes};

/// What its commands do, those about reservations apart.
pub(crate) const EFFECTS: [(u8, u32); 9] = [
    (nvm::FLUSH, 0),
    (nvm::READ, 0),
    (nvm::COMPARE, 0),
    (nvm::VERIFY, 0),
    (nvm::WRITE, effect::BLOCKS),
    (nvm::WRITE_UNCORRECTABLE, effect::BLOCKS),
    (nvm::WRITE_ZEROES, effect::BLOCKS),
    (nvm::DATASET_MANAGEMENT, effect::BLOCKS),
    (nvm::COPY, effect::BLOCKS),
];

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
