//! As much of protobuf's wire format as a trace takes: varints, doubles, strings and nested
//! messages (protobuf.dev, "Encoding").

/// A protobuf message, while it is encoded.
#[derive(Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

impl Message {
    fn key(&mut self, field: u32, wire_type: u32) {
        push_varint(&mut self.bytes, u64::from(field << 3 | wire_type));
    }

    /// Appends a field of wire type VARINT.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Message {
        self.key(field, 0);
        push_varint(&mut self.bytes, value);
        self
    }

    /// Appends a `double` field.
    pub(super) fn double(&mut self, field: u32, value: f64) -> &mut Message {
        self.fixed(field, value.to_bits())
    }

    /// Appends a `fixed64` field.
    pub(super) fn fixed(&mut self, field: u32, value: u64) -> &mut Message {
        self.key(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a string field (wire type LEN).
    pub(super) fn string(&mut self, field: u32, value: &str) -> &mut Message {
        self.nested(field, value.as_bytes())
    }

    /// Appends a field that is a message itself.
    pub(super) fn message(&mut self, field: u32, value: &Message) -> &mut Message {
        self.nested(field, &value.bytes)
    }

    fn nested(&mut self, field: u32, value: &[u8]) -> &mut Message {
        self.key(field, 2);
        push_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_documentation() {
        // protobuf.dev/programming-guides/encoding: Test1 { a = 150 }, Test2 { b = "testing" }
        // and Test3 { c = Test1 } as field 3.
        let mut number = Message::default();
        number.number(1, 150);
        assert_eq!(number.bytes, [0x08, 0x96, 0x01]);
        let mut string = Message::default();
        string.string(2, "testing");
        assert_eq!(string.bytes, *b"\x12\x07testing");
        let mut outer = Message::default();
        outer.message(3, &number);
        assert_eq!(outer.bytes, [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }
}
