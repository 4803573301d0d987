//! What a built-in index writes for saved states, as the numbers of the interface that indices share.

use crate::kernel::bytes::{Reader, StateError, Writer};

/// What `write` writes, all of which is numbers of four or eight bytes.
pub(super) fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u32> {
    let mut bytes = vec![];
    write(&mut Writer { sink: &mut |more| bytes.extend_from_slice(more) });
    let number = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    bytes.chunks_exact(4).map(number).collect()
}

/// Has `read` read them again.
pub(super) fn read(
    numbers: &[u32],
    read: impl FnOnce(&mut Reader<'_>) -> Result<(), StateError>,
) -> Result<(), String> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut left = &bytes[..];
    let mut source = |into: &mut [u8]| {
        let Some((from, rest)) = left.split_at_checked(into.len()) else { return false };
        into.copy_from_slice(from);
        left = rest;
        true
    };
    read(&mut Reader { source: &mut source }).map_err(|error| error.to_string())
}
