//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use crate::inverse::Target;
use crate::{Input, forward};

/// Reads measurements that drives are fitted to: times of stages, and what loads were measured to do.
pub fn calibration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let input = Input::of_text("fuzz", text);
    let _ = Target::read(&input, &mut Vec::new());
    forward::read_any(input);
}
