//! How tables of a drive's snapshot are written: large ones as bytes, piece by piece, and what of them is
//! regular as a rule.

use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Words that are written together.
const TOGETHER: usize = 1 << 14;

/// A piece of a table: an arithmetic progression (a table that was never touched, or filled in order), or
/// little-endian words.
#[derive(Serialize, Deserialize)]
enum Piece<'a> {
    Regular {
        first: u32,
        step: u32,
    },
    #[serde(borrow)]
    Plain(Bytes<'a>),
}

/// Bytes, in place of a sequence of numbers.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(from).map(Bytes)
    }
}

/// The step of an arithmetic progression, if `words` are one.
fn step_of(words: &[u32]) -> Option<u32> {
    let step = words.get(1).map_or(0, |second| second.wrapping_sub(words[0]));
    words.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step).then_some(step)
}

/// Tables of words.
pub(crate) mod words {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(words: &[u32], to: S) -> Result<S::Ok, S::Error> {
        let pieces = words.len().div_ceil(TOGETHER);
        let mut out = to.serialize_seq(Some(pieces + 1))?;
        out.serialize_element(&Piece::Regular { first: words.len() as u32, step: 0 })?;
        let mut bytes = vec![];
        for words in words.chunks(TOGETHER) {
            if let Some(step) = step_of(words) {
                out.serialize_element(&Piece::Regular { first: words[0], step })?;
                continue;
            }
            bytes.resize(size_of_val(words), 0);
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            out.serialize_element(&Piece::Plain(Bytes(&bytes)))?;
        }
        out.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
        from.deserialize_seq(Words)
    }

    struct Words;

    impl<'de> Visitor<'de> for Words {
        type Value = Vec<u32>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of words in pieces, with their number before them")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<u32>, A::Error> {
            let short = || A::Error::custom("a table that ends too early");
            let Some(Piece::Regular { first: count, .. }) = from.next_element()? else {
                return Err(short());
            };
            // What is not touched here stays with the system.
            let mut words = vec![0; count as usize];
            for to in words.chunks_mut(TOGETHER) {
                match from.next_element()?.ok_or_else(short)? {
                    Piece::Regular { first: 0, step: 0 } => {}
                    Piece::Regular { first, step } => {
                        let mut next = first;
                        for word in to {
                            *word = next;
                            next = next.wrapping_add(step);
                        }
                    }
                    Piece::Plain(Bytes(bytes)) if bytes.len() == size_of_val(to) => {
                        for (word, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
                            *word = u32::from_le_bytes(*bytes);
                        }
                    }
                    Piece::Plain(_) => return Err(short()),
                }
            }
            Ok(words)
        }
    }
}

/// Arrays that are longer than those that Serde knows.
pub(crate) mod array {
    use super::*;

    pub(crate) fn serialize<S: Serializer, T: Serialize, const N: usize>(
        items: &[T; N],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        items[..].serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: DeserializeOwned, const N: usize>(
        from: D,
    ) -> Result<[T; N], D::Error> {
        let items = Vec::<T>::deserialize(from)?;
        items.try_into().map_err(|_| D::Error::custom("an array of another length"))
    }
}

/// The same in a box.
pub(crate) mod boxed_array {
    use super::*;

    pub(crate) use super::array::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: DeserializeOwned, const N: usize>(
        from: D,
    ) -> Result<Box<[T; N]>, D::Error> {
        array::deserialize(from).map(Box::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Tables {
        #[serde(with = "words")]
        words: Vec<u32>,
        #[serde(with = "array")]
        array: [u64; 64],
    }

    #[test]
    fn tables_come_back_and_regular_ones_are_short() {
        let count = 3 * TOGETHER as u32 + 7;
        let irregular = |at: u32| at.wrapping_mul(at) ^ 77;
        let tables: [(Vec<u32>, usize); 6] = [
            (vec![], 100),
            (vec![5], 100),
            (vec![0; count as usize], 150),
            ((0..count).collect(), 150),
            ((0..count).map(|at| u32::MAX - 2 * at).collect(), 150),
            ((0..count).map(irregular).collect(), usize::MAX),
        ];
        for (words, most) in tables {
            let tables = Tables { words, array: [3; 64] };
            let bytes = postcard::to_stdvec(&tables).unwrap();
            assert!(bytes.len() <= most, "{} bytes", bytes.len());
            assert_eq!(postcard::from_bytes::<Tables>(&bytes).unwrap(), tables);
            for end in 0..bytes.len().min(1000) {
                assert!(postcard::from_bytes::<Tables>(&bytes[..end]).is_err());
            }
        }
    }
}
