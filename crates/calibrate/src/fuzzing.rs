//! Entry points for fuzz targets.

use crate::inverse::Target;
use crate::{Input, forward};

/// Reads measurements that drives are fitted to: times of stages, and what loads were measured to do.
pub fn calibration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let input = Input { name: "fuzz".to_owned(), text: text.to_owned() };
    let _ = Target::read(&input, &mut Vec::new());
    forward::read_any(input);
}
