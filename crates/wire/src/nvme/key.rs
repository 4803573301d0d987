//! Keys of key-value namespaces, and lists of them (Key Value Command Set 1.0, sections 2.1.5 and
//! 3.2.2.2).

use std::borrow::Borrow;
use std::fmt;

pub const KEY_BYTES_MAX: usize = 16;

/// A key: up to 16 bytes, in order of these bytes. The empty key is none that a value can have; a
/// List that starts there starts at the first of all.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Zero behind the key's end, so that this array and the length have the order of the key.
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

impl Key {
    pub const EMPTY: Key = Key { bytes: [0; KEY_BYTES_MAX], length: 0 };

    /// A key of these bytes, unless they are too many.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        let mut key = Key::EMPTY;
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        key.length = bytes.len() as u8;
        Some(key)
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length.into()
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// As dwords 2, 3, 14 and 15 of an entry have it.
    pub(super) fn dwords(&self) -> [u32; 4] {
        let dword = |at: usize| {
            let four = self.bytes[at * 4..][..4].try_into();
            u32::from_le_bytes(four.expect("a key has four dwords"))
        };
        [dword(0), dword(1), dword(2), dword(3)]
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

/// Text where it is some that can be seen, else hexadecimal digits after `0x`. Text that could be
/// taken for such digits is written as digits, so that no two keys look alike.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.as_slice();
        match std::str::from_utf8(key) {
            Ok(text) if is_plain(text) => f.pad(text),
            _ => {
                f.write_str("0x")?;
                key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

fn is_plain(text: &str) -> bool {
    !text.starts_with("0x") && text.trim() == text && !text.contains(char::is_control)
}

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    Empty,
    /// It has this many bytes, more than [`KEY_BYTES_MAX`].
    Long(usize),
    /// What follows `0x` are not pairs of hexadecimal digits.
    Digits,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Empty => f.write_str("a key has 1 to 16 bytes, and this one has none"),
            KeyError::Long(bytes) => {
                write!(f, "a key has 1 to 16 bytes, and this one has {bytes}")
            }
            KeyError::Digits => f.write_str(
                "after `0x` a key is given by pairs of hexadecimal digits, one a byte: `0x00ff`",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

/// Reads what is displayed: text, or hexadecimal digits after `0x`.
impl std::str::FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let Some(digits) = text.strip_prefix("0x") else {
            return match Key::new(text.as_bytes()) {
                Some(Key::EMPTY) => Err(KeyError::Empty),
                key => key.ok_or(KeyError::Long(text.len())),
            };
        };
        let digits = digits.as_bytes();
        let digit = |at: u8| char::from(at).to_digit(16).map(|digit| digit as u8);
        let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        match digits.len() / 2 {
            0 => Err(KeyError::Digits),
            _ if digits.len() % 2 != 0 => Err(KeyError::Digits),
            bytes @ 1..=KEY_BYTES_MAX => {
                let mut key = Key { length: bytes as u8, ..Key::EMPTY };
                for (byte, two) in key.bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = pair(two).ok_or(KeyError::Digits)?;
                }
                Ok(key)
            }
            bytes => Err(KeyError::Long(bytes)),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes of a list before its keys: NRK, how many they are.
const LIST_HEADER_BYTES: usize = 4;

/// Bytes of a list that a key takes: its length, itself, and zeros up to a multiple of four bytes
/// from the list's start (figure 16).
pub const fn listed_bytes(key_bytes: usize) -> usize {
    (2 + key_bytes).next_multiple_of(4)
}

/// The data of a List while they are made (figure 15), in a buffer as large as the host's.
pub struct KeyList<'a> {
    into: &'a mut [u8],
    used: usize,
    keys: u32,
}

impl<'a> KeyList<'a> {
    /// A list without keys. `None`: the buffer does not even take their number.
    pub fn new(into: &'a mut [u8]) -> Option<KeyList<'a>> {
        into.get_mut(..LIST_HEADER_BYTES)?.fill(0);
        Some(KeyList { into, used: LIST_HEADER_BYTES, keys: 0 })
    }

    /// Appends a key; `false` if it does not fit, and the list is unchanged.
    ///
    /// # Panics
    /// If the key has more than 65,535 bytes.
    pub fn push(&mut self, key: &[u8]) -> bool {
        let length = u16::try_from(key.len()).expect("keys are short");
        let bytes = listed_bytes(key.len());
        let Some(place) = self.into.get_mut(self.used..).and_then(|rest| rest.get_mut(..bytes))
        else {
            return false;
        };
        let (head, rest) = place.split_at_mut(2);
        head.copy_from_slice(&length.to_le_bytes());
        let (text, padding) = rest.split_at_mut(key.len());
        text.copy_from_slice(key);
        padding.fill(0);
        self.used += bytes;
        self.keys += 1;
        self.into[..LIST_HEADER_BYTES].copy_from_slice(&self.keys.to_le_bytes());
        true
    }

    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// Bytes of the list so far.
    pub fn bytes(&self) -> usize {
        self.used
    }
}

/// What is wrong with the data of a List.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyListError {
    /// They end before their number of keys, or before a key does.
    Short,
    /// A key has no bytes, or more than 16.
    KeySize(u16),
}

impl fmt::Display for KeyListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyListError::Short => f.write_str("a list of keys ends before its last key"),
            KeyListError::KeySize(bytes) => {
                write!(f, "a list of keys has one of {bytes} bytes, and keys have 1 to 16")
            }
        }
    }
}

impl std::error::Error for KeyListError {}

/// The keys of a List's data. Memory is taken for what the data hold, whatever number they state;
/// what lies behind the last key is not looked at.
///
/// # Errors
/// What is wrong with them.
pub fn listed_keys(data: &[u8]) -> Result<Vec<Key>, KeyListError> {
    let (count, mut rest) = data.split_first_chunk::<4>().ok_or(KeyListError::Short)?;
    let count = u32::from_le_bytes(*count) as usize;
    let mut keys = Vec::with_capacity(count.min(rest.len() / listed_bytes(1)));
    for _ in 0..count {
        let (length, text) = rest.split_first_chunk::<2>().ok_or(KeyListError::Short)?;
        let length = u16::from_le_bytes(*length);
        let bytes = usize::from(length);
        if !(1..=KEY_BYTES_MAX).contains(&bytes) {
            return Err(KeyListError::KeySize(length));
        }
        let text = text.get(..bytes).ok_or(KeyListError::Short)?;
        keys.extend(Key::new(text));
        // The padding of the last key may be missing.
        rest = rest.get(listed_bytes(bytes)..).unwrap_or_default();
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Key> {
        vec(any::<u8>(), 1..=KEY_BYTES_MAX).prop_map(|key| Key::new(&key).expect("it is short"))
    }

    proptest! {
        #[test]
        fn keys_have_the_order_of_their_bytes(a in vec(any::<u8>(), 0..=16), b in vec(any::<u8>(), 0..=16)) {
            let (one, other) = (Key::new(&a).expect("short"), Key::new(&b).expect("short"));
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
            prop_assert_eq!(one == other, a == b);
            prop_assert_eq!(one.to_string() == other.to_string(), a == b);
            prop_assert_eq!(one.as_slice(), &a[..]);
            prop_assert!(one.is_empty() || one.to_string().parse() == Ok(one));
        }

        #[test]
        fn lists_hold_what_fits_in_order(keys in vec(key(), 0..40), bytes in 0usize..400) {
            let mut buffer = vec![0xee; bytes];
            let Some(mut list) = KeyList::new(&mut buffer) else {
                prop_assert!(bytes < 4);
                return Ok(());
            };
            let fitted = keys.iter().take_while(|key| list.push(key.as_slice())).count();
            prop_assert_eq!(list.keys() as usize, fitted);
            let used = list.bytes();
            let sum: usize = keys[..fitted].iter().map(|key| listed_bytes(key.len())).sum();
            prop_assert_eq!(used, 4 + sum);
            if let Some(next) = keys.get(fitted) {
                prop_assert!(used + listed_bytes(next.len()) > bytes, "it would have fitted");
            }
            prop_assert!(buffer[used..].iter().all(|&byte| byte == 0xee), "nothing behind the end");
            prop_assert_eq!(listed_keys(&buffer), Ok(keys[..fitted].to_vec()));
            prop_assert_eq!(listed_keys(&buffer[..used]), Ok(keys[..fitted].to_vec()));
        }

        #[test]
        fn any_list_is_read(data in vec(any::<u8>(), 0..200)) {
            crate::fuzzing::key_list(&data);
        }
    }

    #[test]
    fn a_list_lies_where_the_specification_puts_it() {
        let mut buffer = [0xee; 24];
        let mut list = KeyList::new(&mut buffer).expect("there is room");
        assert!(list.push(b"ab") && list.push(b"cde") && list.push(b"f"));
        assert!(!list.push(b"0123456789"));
        assert_eq!((list.keys(), list.bytes()), (3, 20));
        assert_eq!(buffer, *b"\x03\0\0\0\x02\0ab\x03\0cde\0\0\0\x01\0f\0\xee\xee\xee\xee");
    }

    #[test]
    fn a_wrong_list_is_refused() {
        assert_eq!(listed_keys(b"\x01\0\0"), Err(KeyListError::Short));
        assert_eq!(listed_keys(b"\x01\0\0\0"), Err(KeyListError::Short));
        assert_eq!(listed_keys(b"\xff\xff\xff\xff\x01\0a\0"), Err(KeyListError::Short));
        assert_eq!(listed_keys(b"\x01\0\0\0\x02\0a"), Err(KeyListError::Short));
        assert_eq!(listed_keys(b"\x01\0\0\0\0\0ab"), Err(KeyListError::KeySize(0)));
        assert_eq!(listed_keys(b"\x01\0\0\0\x11\0ab"), Err(KeyListError::KeySize(17)));
        // The padding of the last key may be missing.
        assert_eq!(listed_keys(b"\x01\0\0\0\x01\0a"), Ok(vec![Key::new(b"a").expect("short")]));
    }

    #[test]
    fn keys_are_written_as_text_or_digits() {
        let text = |key: &[u8]| Key::new(key).map(|key| key.to_string());
        assert_eq!(text(b"user:1").as_deref(), Some("user:1"));
        assert_eq!(text(b"a b").as_deref(), Some("a b"));
        assert_eq!(text(b"a ").as_deref(), Some("0x6120"));
        assert_eq!(text(b"0x41").as_deref(), Some("0x30783431"));
        assert_eq!(text(b"\xff\0").as_deref(), Some("0xff00"));
        assert_eq!(text(&[7; 17]), None);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let read = |text: &str| text.parse::<Key>();
        assert_eq!(read(""), Err(KeyError::Empty));
        assert_eq!(read("12345678901234567"), Err(KeyError::Long(17)));
        assert_eq!(read("0x"), Err(KeyError::Digits));
        assert_eq!(read("0xa"), Err(KeyError::Digits));
        assert_eq!(read("0x0g"), Err(KeyError::Digits));
        assert_eq!(read(&format!("0x{:034}", 0)), Err(KeyError::Long(17)));
        assert_eq!(read("0xAb").ok().as_ref().map(Key::as_slice), Some(&[0xab][..]));
    }
}
