//! A document read as a type of the schema, by serde.
//!
//! `toml` can do so as well. But what is generic over the deserializer is compiled for each kind of
//! deserializer that meets a type, and `toml` has one for tables, values, keys and places: three times the
//! code, a tenth of this crate's. Here is one, [`Node`], and a value with its place is asked for by the name
//! [`AT`]. Enumerations read themselves from text; derived ones cannot be read.

use crate::at::AT;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};
use serde_spanned::Spanned;
use std::fmt;
use std::ops::Range;
use toml::de::{DeArray, DeString, DeTable, DeValue};

/// Why a document is not of the type, and where.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) message: String,
    pub(super) span: Option<Range<usize>>,
}

impl Refused {
    /// The same, at `span` if no place is known.
    fn at(mut self, span: &Range<usize>) -> Refused {
        self.span.get_or_insert_with(|| span.clone());
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Refused {
        Refused { message: message.to_string(), span: None }
    }
}

/// Reads a document's root.
pub(super) fn read<T: DeserializeOwned>(root: &Spanned<DeTable<'_>>) -> Result<T, Refused> {
    T::deserialize(Node { span: root.span(), is: Is::Table(root.get_ref()) })
}

/// What stands somewhere in a document.
#[derive(Clone)]
struct Node<'a> {
    span: Range<usize>,
    is: Is<'a>,
}

#[derive(Clone)]
enum Is<'a> {
    Table(&'a DeTable<'a>),
    Array(&'a DeArray<'a>),
    Text(&'a str),
    /// Neither of these.
    Value(&'a DeValue<'a>),
    /// Where something begins or ends.
    Offset(usize),
}

impl<'a> Node<'a> {
    fn new<'i: 'a>(value: &'a Spanned<DeValue<'i>>) -> Node<'a> {
        let is = match value.get_ref() {
            DeValue::Table(table) => Is::Table(table),
            DeValue::Array(array) => Is::Array(array),
            DeValue::String(text) => Is::Text(text),
            value => Is::Value(value),
        };
        Node { span: value.span(), is }
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.is {
            Is::Table(table) => visitor.visit_map(Entries { rest: table.iter(), value: None }),
            Is::Array(array) => visitor.visit_seq(Elements(array.iter())),
            Is::Offset(offset) => visitor.visit_u64(offset as u64),
            Is::Text(text) => visitor.visit_str(text),
            Is::Value(DeValue::Boolean(value)) => visitor.visit_bool(*value),
            Is::Value(DeValue::Float(value)) => match value.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() || !value.as_str().contains(char::is_numeric) => {
                    visitor.visit_f64(number)
                }
                _ => Err(de::Error::custom("floating-point number overflowed")),
            },
            Is::Value(DeValue::Integer(value)) => {
                let (digits, radix) = (value.as_str(), value.radix());
                match (i64::from_str_radix(digits, radix), u64::from_str_radix(digits, radix)) {
                    (Ok(number), _) => visitor.visit_i64(number),
                    (_, Ok(number)) => visitor.visit_u64(number),
                    _ => Err(de::Error::custom("integer number overflowed")),
                }
            }
            Is::Value(value) => {
                let what = de::Unexpected::Other(value.type_str());
                Err(de::Error::invalid_type(what, &visitor))
            }
        }
    }
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let span = self.span.clone();
        self.any(visitor).map_err(|refused| refused.at(&span))
    }

    /// A key that is left out is `None`.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let span = self.span.clone();
        visitor.visit_some(self).map_err(|refused| refused.at(&span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        if name == AT {
            return visitor.visit_seq(Placed { next: 0, node: self });
        }
        let span = self.span.clone();
        visitor.visit_newtype_struct(self).map_err(|refused| refused.at(&span))
    }

    serde::forward_to_deserialize_any! {
        bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 char str string seq bytes byte_buf map unit ignored_any
        unit_struct tuple_struct tuple identifier struct enum
    }
}

/// A table's keys and values.
struct Entries<'a, I> {
    rest: I,
    value: Option<Node<'a>>,
}

impl<'de, 'a, 'i: 'a, I> MapAccess<'de> for Entries<'a, I>
where
    I: Iterator<Item = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)>,
{
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(Node::new(value));
        seed.deserialize(Node { span: key.span(), is: Is::Text(key.get_ref()) })
            .map(Some)
            .map_err(|refused| refused.at(&key.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let node = self.value.take().expect("a key comes before its value");
        let span = node.span.clone();
        seed.deserialize(node).map_err(|refused| refused.at(&span))
    }
}

/// An array's elements.
struct Elements<'a>(std::slice::Iter<'a, Spanned<DeValue<'a>>>);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        self.0.next().map(|value| seed.deserialize(Node::new(value))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Where a value begins and ends, and the value.
struct Placed<'a> {
    next: u8,
    node: Node<'a>,
}

impl<'de> SeqAccess<'de> for Placed<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        let mut node = self.node.clone();
        match self.next {
            0 => node.is = Is::Offset(node.span.start),
            1 => node.is = Is::Offset(node.span.end),
            _ => {}
        }
        self.next += 1;
        seed.deserialize(node).map(Some)
    }
}
