//! What the two ends tell one another with VERSION, in JSON.
//!
//! The JSON is optional. Of what the peer says, only the numbers that count here are read; other
//! names are passed over. Nesting is bounded, and what is not JSON is an error.

use super::{ACCESS_BYTES_MAX, DESCRIPTORS_MAX};

/// Values nest no deeper than this.
const DEPTH_MAX: u32 = 16;

/// What one end can do. The defaults are those of an end that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Most descriptors that it takes with one message.
    pub descriptors_max: u64,
    /// The longest region access; `None`: not said, and 1 MiB is assumed by everybody.
    pub access_bytes_max: Option<u64>,
    /// Page sizes with which memory can be mapped, as a bitmap.
    pub page_sizes: Option<u64>,
    /// Most mappings at once.
    pub mappings_max: Option<u64>,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            descriptors_max: 1,
            access_bytes_max: None,
            page_sizes: None,
            mappings_max: None,
        }
    }
}

/// The names, in the order of the fields.
const NAMES: [&str; 4] = ["max_msg_fds", "max_data_xfer_size", "pgsizes", "max_dma_maps"];

impl Capabilities {
    /// What this end can do, with so many mappings at most.
    pub(super) fn own(mappings_max: u64) -> Capabilities {
        Capabilities {
            descriptors_max: DESCRIPTORS_MAX as u64,
            access_bytes_max: Some(ACCESS_BYTES_MAX.into()),
            page_sizes: Some(4096),
            mappings_max: Some(mappings_max),
        }
    }

    /// Reads the JSON of a VERSION message: with its closing zero byte, or without, or empty.
    /// `None` if it is none.
    pub fn parse(data: &[u8]) -> Option<Capabilities> {
        let text = data.strip_suffix(&[0]).unwrap_or(data);
        let mut capabilities = Capabilities::default();
        if text.is_empty() {
            return Some(capabilities);
        }
        let mut reader = Reader { rest: std::str::from_utf8(text).ok()?.as_bytes() };
        reader.object(0, &mut |reader, name, depth| match name {
            b"capabilities" => reader.object(depth, &mut |reader, name, depth| {
                let Some(at) = NAMES.iter().position(|known| known.as_bytes() == name) else {
                    return reader.value(depth);
                };
                let number = reader.number()?;
                match at {
                    0 => capabilities.descriptors_max = number,
                    1 => capabilities.access_bytes_max = Some(number),
                    2 => capabilities.page_sizes = Some(number),
                    _ => capabilities.mappings_max = Some(number),
                }
                Some(())
            }),
            _ => reader.value(depth),
        })?;
        reader.space();
        reader.rest.is_empty().then_some(capabilities)
    }

    /// As JSON with a closing zero byte, in at most `room` bytes: of what there is to say as much
    /// as fits, and perhaps nothing.
    pub fn write(&self, room: usize) -> Vec<u8> {
        let values =
            [Some(self.descriptors_max), self.access_bytes_max, self.page_sizes, self.mappings_max];
        let mut members = String::new();
        let around = "{\"capabilities\":{}}\0".len();
        for (name, value) in NAMES.iter().zip(values) {
            let Some(value) = value else { continue };
            let comma = if members.is_empty() { "" } else { "," };
            let member = format!("{comma}\"{name}\":{value}");
            if around + members.len() + member.len() <= room {
                members.push_str(&member);
            }
        }
        let text = match room {
            _ if room >= around => format!("{{\"capabilities\":{{{members}}}}}\0"),
            3.. => "{}\0".to_owned(),
            _ => String::new(),
        };
        text.into_bytes()
    }
}

/// Reads JSON from its beginning.
struct Reader<'a> {
    rest: &'a [u8],
}

/// What is done with a member of an object, by its name and at its depth.
type Member<'a, 'f> = dyn FnMut(&mut Reader<'a>, &[u8], u32) -> Option<()> + 'f;

impl<'a> Reader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes this byte, after white space; false if another is there.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        match self.rest.strip_prefix(&[byte]) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn object(&mut self, depth: u32, member: &mut Member<'a, '_>) -> Option<()> {
        if depth >= DEPTH_MAX || !self.take(b'{') {
            return None;
        }
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let name = self.string()?;
            if !self.take(b':') {
                return None;
            }
            member(self, name, depth + 1)?;
            if self.take(b'}') {
                return Some(());
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn array(&mut self, depth: u32) -> Option<()> {
        if depth >= DEPTH_MAX || !self.take(b'[') {
            return None;
        }
        if self.take(b']') {
            return Some(());
        }
        loop {
            self.value(depth + 1)?;
            if self.take(b']') {
                return Some(());
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// A string as it is written: names that matter here have no escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        if !self.take(b'"') {
            return None;
        }
        let mut at = 0;
        loop {
            match self.rest.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                0..=0x1f => return None,
                _ => at += 1,
            }
        }
        let (string, rest) = self.rest.split_at(at);
        self.rest = &rest[1..];
        Some(string)
    }

    /// A number that is not negative and whole.
    fn number(&mut self) -> Option<u64> {
        self.space();
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        if matches!(rest.first(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Skips any value.
    fn value(&mut self, depth: u32) -> Option<()> {
        self.space();
        match self.rest.first()? {
            b'{' => self.object(depth, &mut |reader, _, depth| reader.value(depth)),
            b'[' => self.array(depth),
            b'"' => self.string().map(|_| ()),
            _ => {
                let end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let length = self.rest.iter().position(end).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(length);
                self.rest = rest;
                let is_number = std::str::from_utf8(word).ok()?.parse::<f64>().is_ok();
                (is_number || matches!(word, b"true" | b"false" | b"null")).then_some(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_says_is_read() {
        let text = b"{\"capabilities\": {\"migration\": {\"pgsize\": 4096, \"max_bitmap_size\": \
            268435456}, \"max_msg_fds\": 16, \"max_data_xfer_size\": 1048576, \"pgsizes\": 4096, \
            \"max_dma_maps\": 65535, \"write_multiple\": true}}\0";
        let capabilities = Capabilities {
            descriptors_max: 16,
            access_bytes_max: Some(1 << 20),
            page_sizes: Some(4096),
            mappings_max: Some(65_535),
        };
        assert_eq!(Capabilities::parse(text), Some(capabilities));
    }

    #[test]
    fn little_is_enough_and_rubbish_is_not() {
        let nothing = Some(Capabilities::default());
        for text in ["", "\0", "{}", " { } \0", "{\"capabilities\":{}}", "{\"x\":[1,-2.5e3,{}]}"] {
            assert_eq!(Capabilities::parse(text.as_bytes()), nothing, "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for text in [
            "{",
            "[]",
            "7",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{}x",
            "{\"a\":nul}",
            "{\"a",
            "{\"capabilities\":3}",
            "{\"capabilities\":{\"max_msg_fds\":-1}}",
            "{\"a\\",
            &deep,
            "{\"capabilities\":{\"max_msg_fds\":99999999999999999999}}",
            "{\"a\":1 2}",
        ] {
            assert_eq!(Capabilities::parse(text.as_bytes()), None, "{text:.40}");
        }
        assert_eq!(Capabilities::parse(&[b'{', 0xff, b'}']), None);
    }

    #[test]
    fn what_is_written_fits_and_is_read_again() {
        let own = Capabilities::own(1000);
        for room in 0..200 {
            let text = own.write(room);
            assert!(text.len() <= room);
            let read = Capabilities::parse(&text).expect("it is JSON");
            assert!(room < 120 || read == own, "{room}");
        }
    }
}
