//! What Identify (Key Value Command Set 1.3, section 4.1.5) and the log of effects say of the Key
//! Value command set.

use crate::command_set::effect;
use crate::key_value::{Layout, Pairs};
use mynah_wire::nvme::identify::{
    IdentifyKeyValueController, IdentifyKeyValueNamespace, KEY_VALUE_VERSION_1_3, KeyValueFormat,
};
use mynah_wire::nvme::opcode::key_value;
use zerocopy::{FromZeros, IntoBytes};

/// What its commands do, those about reservations apart.
pub(crate) const EFFECTS: [(u8, u32); 6] = [
    (key_value::FLUSH, 0),
    (key_value::STORE, effect::BLOCKS),
    (key_value::RETRIEVE, 0),
    (key_value::LIST, 0),
    (key_value::DELETE, effect::BLOCKS),
    (key_value::EXIST, 0),
];

/// The only format, where values have at most so many bytes.
fn format(layout: &Layout, value_max: u32) -> KeyValueFormat {
    let mut format = KeyValueFormat::new_zeroed();
    format.key_bytes_max.set(layout.key_max as u16);
    format.value_bytes_max.set(value_max);
    // None given: any number.
    let keys_max = layout.keys_max.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX));
    format.keys_max.set(keys_max);
    format
}

/// What Identify says of a format.
pub(crate) fn format_page(layout: &Layout, value_max: u32) -> IdentifyKeyValueNamespace {
    let mut page = IdentifyKeyValueNamespace::new_zeroed();
    page.key_value_formats[0] = format(layout, value_max);
    // Persistence through power loss (0), all types (6:1), IEKEY as of version 1.3 (7).
    page.reservations = 0xff;
    page
}

/// What Identify says of a namespace's pairs.
pub(crate) fn namespace_page(pairs: &Pairs, value_max: u32) -> IdentifyKeyValueNamespace {
    let mut page = format_page(pairs.layout(), value_max);
    page.size.set(pairs.bytes());
    page.utilisation.set(pairs.used_bytes());
    page
}

/// What Identify says of a controller for this set (CNS 06h).
pub(crate) fn controller_page() -> Vec<u8> {
    let mut page = IdentifyKeyValueController::new_zeroed();
    page.version.set(KEY_VALUE_VERSION_1_3);
    page.as_bytes().to_vec()
}
