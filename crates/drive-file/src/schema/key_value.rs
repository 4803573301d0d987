//! The section on key-value namespaces, as written.

use super::{KeyFetchName, KeyIndexName, Maybe};
use crate::units::{Bytes, Duration, Fraction};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Key-value namespaces: how commands are handled, and how pairs are found and laid down. A drive
/// file with this section and no namespaces is one key-value namespace over the whole drive.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyValue {
    /// Request managers, 1 to 64: each handles one command at a time. Default: 8.
    pub(crate) managers: Maybe<u32>,
    /// Bytes that lie on flash with each pair, beside its key and its value. Default: 16B.
    pub(crate) header: Maybe<Bytes>,
    /// Longest key, 1B to 255B; the NVMe Key Value Command Set has no longer ones than 16B.
    /// Default: 255B.
    pub(crate) key_max: Maybe<Bytes>,
    /// Largest value, up to 32MiB. Default: 2MiB.
    pub(crate) value_max: Maybe<Bytes>,
    /// Longest key that comes within its command, up to `key_max`; longer ones are fetched by a
    /// transfer of their own. Default: 16B, or `key_max` if that is less.
    pub(crate) key_inline: Maybe<Bytes>,
    /// What a manager does while a key is fetched. Default: waits.
    pub(crate) key_fetch: Maybe<KeyFetchName>,
    /// How long fetching a key takes beside what it occupies the link: a read request's way to the host's
    /// memory and back, 0.6 to 1 us on PCIe. Default: 800ns.
    pub(crate) key_round_trip: Maybe<Duration>,
    /// How long a manager takes for a command.
    #[serde(default)]
    pub(crate) time: KeyTimes,
    /// Where keys are found.
    #[serde(default)]
    pub(crate) index: KeyIndex,
}

/// How long a request manager takes for a command, the look-up of the key included but for what
/// it reads from flash (MoKE's T_write, T_read, T_delete and T_exist). Each is a time; or a list of
/// times and how probable each is; or either of them as `fixed`, and a time `per_kib` of the
/// value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyTimes {
    /// A Store of a new key. Default: 3us.
    pub(crate) store: Maybe<KeyTime>,
    /// A Store to a key that exists. Default: as `store`.
    pub(crate) update: Maybe<KeyTime>,
    /// A Retrieve. Default: 3us.
    pub(crate) retrieve: Maybe<KeyTime>,
    /// A Delete. Default: 3us.
    pub(crate) delete: Maybe<KeyTime>,
    /// An Exist. Default: 3us.
    pub(crate) exist: Maybe<KeyTime>,
    /// A List. Default: 3us.
    pub(crate) list: Maybe<KeyTime>,
}

/// An index whose pages are on flash like data, and in DRAM as far as they fit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyIndex {
    /// How it is organised. Default: dynamic-hash.
    pub(crate) kind: Maybe<KeyIndexName>,
    /// DRAM for its pages: a size, or `all`. Default: a thousandth of the flash's capacity, in
    /// whole pages.
    pub(crate) dram: Maybe<DramSize>,
    /// Size of an entry, 8B to 1KiB. Default: 16B.
    pub(crate) entry: Maybe<Bytes>,
    /// Most keys of the drive. Default: as many as mapping units.
    pub(crate) keys: Maybe<u64>,
    /// With `kind = "hash"`: pages without overflow. Default: as many as hold `keys`.
    pub(crate) pages: Maybe<u32>,
    /// Bits for each key that is there, up to 64, of Bloom filters that say which keys are not in a page
    /// (hash) or run (lsm), in DRAM of their own beside `dram`; 0: none. Default: 0, and 10 with `kind = "lsm"`.
    pub(crate) filter: Maybe<u32>,
    /// Bits of a hash of the key, up to 64, that entries hold in its place: the pairs of all that
    /// are alike are read to find the one; 0: entries say which key it is. Not with
    /// `kind = "lsm"`. Default: 0.
    pub(crate) signature: Maybe<u32>,
    /// With `kind = "lsm"`: DRAM of the table that takes new entries. Default: 1MiB.
    pub(crate) memtable: Maybe<Bytes>,
    /// With `kind = "lsm"`: runs of the first level that are merged into the next, and how many
    /// times larger each level is than the one before, 2 to 64. Default: 10.
    pub(crate) fanout: Maybe<u32>,
    /// With `kind = "lsm"`: levels, from the first, that stay in DRAM beside `dram`. Default: 0.
    pub(crate) pinned: Maybe<u32>,
}

/// A size of DRAM, or all that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DramSize {
    /// So much.
    Bytes(Bytes),
    /// As much as there is to hold.
    All,
}

impl<'de> Deserialize<'de> for DramSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DramSize, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = DramSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as `64MiB`, or `all`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DramSize, E> {
                match text.trim() {
                    "all" => Ok(DramSize::All),
                    text => text.parse().map(DramSize::Bytes).map_err(|error| {
                        E::custom(format_args!("{error}; or `all` of what there is"))
                    }),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<DramSize, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Size)
    }
}

impl JsonSchema for DramSize {
    fn schema_name() -> Cow<'static, str> {
        "DramSize".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bytes = generator.subschema_for::<Bytes>();
        json_schema!({ "anyOf": [bytes, { "const": "all" }] })
    }
}

/// How long something takes: always the same, or one of some times; and more for larger values.
#[derive(Clone, Debug)]
pub(crate) struct KeyTime {
    /// Whatever the size.
    pub(crate) fixed: Times,
    /// For each KiB of the value.
    pub(crate) per_kib: Option<Duration>,
}

/// A time, or several of which one is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Times {
    /// Always this.
    One(Duration),
    /// These, and how probable each is.
    Some(Vec<(Fraction, Duration)>),
}

/// A time that depends on the size of the value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sized {
    /// A time, or a list of how probable times are and times: `[[0.99, "4us"], [0.01, "64us"]]`.
    fixed: Times,
    /// For each KiB of the value, in proportion.
    per_kib: Duration,
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Times, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Times;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as `3us`, or `[[0.99, \"4us\"], [0.01, \"64us\"]]`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Times, E> {
                text.parse().map(Times::One).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Times, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Times, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Times, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Times::Some)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for KeyTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyTime, D::Error> {
        struct Any;
        let constant = |fixed| KeyTime { fixed, per_kib: None };
        impl<'de> Visitor<'de> for Any {
            type Value = Result<Times, Sized>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a time such as `3us`, `[[0.99, \"4us\"], [0.01, \"64us\"]]`, or `{ fixed = \
                     \"3us\", per_kib = \"0.5us\" }`",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map(|time| Ok(Times::One(time))).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                let times = Vec::deserialize(SeqAccessDeserializer::new(seq));
                times.map(|times| Ok(Times::Some(times)))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Sized::deserialize(MapAccessDeserializer::new(map)).map(Err)
            }
        }
        Ok(match deserializer.deserialize_any(Any)? {
            Ok(fixed) => constant(fixed),
            Err(Sized { fixed, per_kib }) => KeyTime { fixed, per_kib: Some(per_kib) },
        })
    }
}

impl JsonSchema for Times {
    fn schema_name() -> Cow<'static, str> {
        "Times".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Duration>();
        let share = generator.subschema_for::<Fraction>();
        json_schema!({
            "description": "A time, or a list of how probable times are and times.",
            "anyOf": [
                time,
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "array",
                        "prefixItems": [share, time],
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
            ],
        })
    }
}

impl JsonSchema for KeyTime {
    fn schema_name() -> Cow<'static, str> {
        "KeyTime".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let constant = generator.subschema_for::<Times>();
        let sized = generator.subschema_for::<Sized>();
        json_schema!({ "anyOf": [constant, sized] })
    }
}
