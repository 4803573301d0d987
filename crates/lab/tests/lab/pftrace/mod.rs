//! Reads Perfetto traces, as far as tests look into them.

/// Reads one field of a protobuf message: its number, and its value or its bytes.
pub(crate) fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, u64, &'a [u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    if bytes.is_empty() {
        return None;
    }
    let key = varint(bytes);
    Some(match key & 7 {
        0 => (key >> 3, varint(bytes), &[]),
        1 => {
            let (value, rest) = bytes.split_at(8);
            *bytes = rest;
            (key >> 3, u64::from_le_bytes(value.try_into().unwrap()), &[])
        }
        2 => {
            let length = varint(bytes) as usize;
            let (value, rest) = bytes.split_at(length);
            *bytes = rest;
            (key >> 3, 0, value)
        }
        other => panic!("wire type {other}"),
    })
}
