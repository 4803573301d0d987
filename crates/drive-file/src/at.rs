//! A value of a drive file, and where it stands.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    span: Range<usize>,
    value: T,
}

/// By this name [`At`] asks a deserializer for three elements: where the value begins, where it ends, and
/// the value.
pub(crate) const AT: &str = "$mynah::At";

impl<T> At<T> {
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub(crate) fn get(&self) -> &T {
        &self.value
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At<T>, D::Error> {
        struct Placed<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Placed<T> {
            type Value = At<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value and its place")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<At<T>, A::Error> {
                let missing = |at: usize| de::Error::invalid_length(at, &"a value and its place");
                let start = parts.next_element()?.ok_or_else(|| missing(0))?;
                let end = parts.next_element()?.ok_or_else(|| missing(1))?;
                let value = parts.next_element()?.ok_or_else(|| missing(2))?;
                Ok(At { span: start..end, value })
            }
        }
        deserializer.deserialize_newtype_struct(AT, Placed(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A value that may be left out.
pub(crate) type Maybe<T> = Option<At<T>>;
