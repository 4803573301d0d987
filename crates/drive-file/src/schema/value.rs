//! Values of a drive file that are more than a number, a word or a quantity.

use crate::units::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
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

/// A string or a number, kept as text.
#[derive(Clone, Debug)]
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a number")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"] })
    }
}

/// One time for all page types, or one for each.
#[derive(Clone, Debug)]
pub(crate) enum PageTimes {
    /// The same for all.
    All(Duration),
    /// One for each page type.
    Each(EachPage),
}

/// A time for each page type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EachPage {
    /// Least significant bit.
    pub(crate) lsb: At<Duration>,
    /// Central significant bit (TLC, QLC, PLC).
    pub(crate) csb: Maybe<Duration>,
    /// Most significant bit of MLC and TLC, the third page of QLC and PLC.
    pub(crate) msb: Maybe<Duration>,
    /// The fourth page of a word line (QLC, PLC).
    pub(crate) fourth: Maybe<Duration>,
    /// The fifth page of a word line (PLC).
    pub(crate) fifth: Maybe<Duration>,
}

impl<'de> Deserialize<'de> for PageTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PageTimes, D::Error> {
        struct Times;
        impl<'de> Visitor<'de> for Times {
            type Value = PageTimes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as `75us`, or `{ lsb = \"…\", msb = \"…\" }`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PageTimes, E> {
                text.parse().map(PageTimes::All).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PageTimes, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<PageTimes, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PageTimes, A::Error> {
                EachPage::deserialize(MapAccessDeserializer::new(map)).map(PageTimes::Each)
            }
        }
        deserializer.deserialize_any(Times)
    }
}

impl JsonSchema for PageTimes {
    fn schema_name() -> Cow<'static, str> {
        "PageTimes".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let all = generator.subschema_for::<Duration>();
        let each = generator.subschema_for::<EachPage>();
        json_schema!({ "anyOf": [all, each] })
    }
}
