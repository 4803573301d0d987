//! Keys as people write them: text, or hexadecimal digits after `0x`.

use crate::failure::Failure;
use mynah_wire::nvme::key::{Key, KeyError};
use std::fmt;
use std::str::FromStr;

/// Most bytes of a key, in any command set.
const BYTES_MAX: usize = 255;

/// A key that may be too long for NVMe's own set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(Vec<u8>);

impl Name {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a key of NVMe's own command set; an error if it is too long.
    pub(crate) fn key(&self) -> Result<Key, Failure> {
        let long = || Failure::usage(format!("{}", KeyError::Long(self.0.len())), None);
        Key::new(&self.0).ok_or_else(long)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        let long =
            |bytes: usize| format!("a key has {BYTES_MAX} bytes at most, and this one has {bytes}");
        let Some(digits) = text.strip_prefix("0x") else {
            return match text.len() {
                0 => Err(KeyError::Empty.to_string()),
                1..=BYTES_MAX => Ok(Name(text.into())),
                more => Err(long(more)),
            };
        };
        let digit = |at: u8| char::from(at).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
        match pairs.len() {
            1..=BYTES_MAX if rest.is_empty() => {
                let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
                bytes.map(Name).ok_or_else(|| KeyError::Digits.to_string())
            }
            more if more > BYTES_MAX => Err(long(more)),
            _ => Err(KeyError::Digits.to_string()),
        }
    }
}

/// As [`Key`] is displayed, so that it can be read again.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text)
                if !text.starts_with("0x")
                    && text.trim() == text
                    && !text.contains(char::is_control) =>
            {
                f.write_str(text)
            }
            _ => {
                f.write_str("0x")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_keys_are_and_may_be_longer() {
        for text in ["user:1", "0x00ff", "0xAb", "0x30783431"] {
            let name: Name = text.parse().expect("a key");
            let key: Key = text.parse().expect("a key");
            assert_eq!(name.bytes(), key.as_slice());
            assert_eq!(Shown(name.bytes()).to_string(), key.to_string());
            assert!(name.key().is_ok_and(|it| it == key));
        }
        for text in ["", "0x", "0xa", "0x0g"] {
            assert_eq!(
                text.parse::<Name>().err(),
                text.parse::<Key>().err().map(|it| it.to_string())
            );
        }
        let long = "k".repeat(255);
        assert_eq!(long.parse::<Name>().map(|it| it.bytes().len()), Ok(255));
        assert!(long.parse::<Name>().expect("a long key").key().is_err());
        assert!("k".repeat(256).parse::<Name>().is_err());
        assert!(format!("0x{}", "00".repeat(256)).parse::<Name>().is_err());
        assert_eq!(format!("0x{}", "00".repeat(255)).parse::<Name>().map(|it| it.0.len()), Ok(255));
    }
}
