//! The section `[kv]`: key-value namespaces, and what a drive that says nothing has.

use super::declare::{Need, no_keys, section};
use super::needs::is_hybrid;
use super::value::quoted;
use super::{File, KeyFetchName, KeyIndexName, NamespaceKindName, PlacementName};
use crate::at::{At, Maybe};
use crate::check::{Check, MAX_STEP, or};
use crate::document::Document;
use crate::units::{Bytes, Duration, Fraction};
use mynah_model::config::{self, Config, Geometry, KeyIndexKind, MappingScheme, Placement};
use mynah_stamp::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// What a request manager takes for a command. An estimate: firmware cores take some microseconds
/// for a command, and MoKE measured 4.2 us for hash and table (Saha et al., section II-B).
const TIME: Span = Span::from_us(3);
/// Bits for each key of the filters of an LSM index: one key in a hundred passes that is not there.
const LSM_FILTER: u32 = 10;
/// Capacity that has a byte of the index in DRAM.
const CAPACITY_OF_DRAM: u64 = 1000;

fn key_value(file: &File) -> Option<&KeyValue> {
    file.kv.as_ref().map(At::get)
}

static LONG_KEYS: Need = Need {
    holds: |config| config.key_value.as_ref().is_none_or(|kv| kv.key_inline < kv.key_max),
    cause: |file| {
        let kv = key_value(file)?;
        let causes = [&kv.key_inline, &kv.key_max].into_iter().flatten().map(At::span);
        causes.max_by_key(|span| span.start)
    },
    why: "every key comes within its command",
    help: "remove it, or use it with `kv.key_inline` below `kv.key_max`",
};

fn index_kind(config: &Config) -> Option<KeyIndexKind> {
    config.key_value.as_ref().map(|kv| kv.index.kind)
}

fn index_kind_place(file: &File) -> Option<Range<usize>> {
    key_value(file)?.index.kind.as_ref().map(At::span)
}

static HASH: Need = Need {
    holds: |config| matches!(index_kind(config), None | Some(KeyIndexKind::Hash { .. })),
    cause: index_kind_place,
    why: "there are as many pages as keys need",
    help: "use it with `kind = \"hash\"`",
};

static NOT_SORTED: Need = Need {
    holds: |config| !matches!(index_kind(config), Some(KeyIndexKind::Lsm { .. })),
    cause: index_kind_place,
    why: "runs are sorted by their keys, and hold them",
    help: "remove it, or use it with another `kind`",
};

static LEVELS: Need = Need {
    holds: |config| matches!(index_kind(config), None | Some(KeyIndexKind::Lsm { .. })),
    cause: index_kind_place,
    why: "there are no levels: entries are put into their page",
    help: "use it with `kind = \"lsm\"`",
};

// The defaults are estimates where no source is named. Managers: as many as enterprise controllers
// have cores. The header: the sizes of key and value, and a checksum. An entry: the key's hash, an
// address, sizes. The fan-out is RocksDB's. The longest key and the largest value are those of
// Samsung's command set and drives; what comes within a command is so in both command sets. A read
// of host memory over PCIe takes 0.6 to 1 us.
section! {
    /// Key-value namespaces: how commands are handled, and how pairs are found and laid down. A drive
    /// file with this section and no namespaces is one key-value namespace over the whole drive.
    #[derive(Default)]
    KeyValue => config::KeyValue {
        /// Request managers: each handles one command at a time.
        managers: Maybe<u32> = "8", in "1" to "64", is managers;
        /// Bytes that lie on flash with each pair, beside its key and its value.
        header: Maybe<Bytes> = "16B", in "0B" to "4KiB", is header_bytes;
        /// Longest key; the NVMe Key Value Command Set has no longer ones than 16B.
        key_max: Maybe<Bytes> = "255B", in "1B" to "255B", is key_max;
        /// Largest value.
        value_max: Maybe<Bytes> = "2MiB", in "1B" to "32MiB", is value_max;
        /// Longest key that comes within its command, up to `key_max`; longer ones are fetched by a
        /// transfer of their own. Default: 16B, or `key_max` if that is less.
        key_inline: Maybe<Bytes>, in "0B" to "255B", shows |kv, _| Some(kv.key_inline);
        /// What a manager does while a key is fetched.
        key_fetch: Maybe<KeyFetchName> = "waits", when LONG_KEYS,
            writes |kv, _| Some(quoted(match kv.key_fetch_holds {
                true => KeyFetchName::Waits,
                false => KeyFetchName::Overlaps,
            }));
        /// How long fetching a key takes beside what it occupies the link: a read request's way to
        /// the host's memory and back, 0.6 to 1 us on PCIe.
        key_round_trip: Maybe<Duration> = "800ns", in "0" to "1s", when LONG_KEYS, is key_round_trip;
        /// How long a manager takes for a command.
        #[serde(default)]
        time: KeyTimes, inner |kv, _| Some(&kv.times);
        /// Where keys are found.
        #[serde(default)]
        index: KeyIndex, inner |kv, _| Some(&kv.index);
    }
}

section! {
    /// How long a request manager takes for a command, the look-up of the key included but for what
    /// it reads from flash (MoKE's T_write, T_read, T_delete and T_exist). Each is a time; or a list
    /// of times and how probable each is; or either of them as `fixed`, and a time `per_kib` of the
    /// value.
    #[derive(Default)]
    KeyTimes => config::KeyTimes {
        /// A Store of a new key. Default: 3us.
        store: Maybe<KeyTime>, writes |times, _| Some(key_time(&times.store));
        /// A Store to a key that exists. Default: as `store`.
        update: Maybe<KeyTime>, writes |times, _| Some(key_time(&times.update));
        /// A Retrieve. Default: 3us.
        retrieve: Maybe<KeyTime>, writes |times, _| Some(key_time(&times.retrieve));
        /// A Delete. Default: 3us.
        delete: Maybe<KeyTime>, writes |times, _| Some(key_time(&times.delete));
        /// An Exist. Default: 3us.
        exist: Maybe<KeyTime>, writes |times, _| Some(key_time(&times.exist));
        /// A List. Default: 3us.
        list: Maybe<KeyTime>, writes |times, _| Some(key_time(&times.list));
    }
}

fn lsm(index: &config::KeyIndex) -> Option<(u64, u32, u32)> {
    match index.kind {
        KeyIndexKind::Lsm { memtable_bytes, fanout, pinned_levels } => {
            Some((memtable_bytes, fanout, pinned_levels))
        }
        _ => None,
    }
}

section! {
    /// An index whose pages are on flash like data, and in DRAM as far as they fit.
    #[derive(Default)]
    KeyIndex => config::KeyIndex {
        /// How it is organised.
        kind: Maybe<KeyIndexName> = "dynamic-hash", writes |index, _| Some(match index.kind {
            KeyIndexKind::DynamicHash => quoted(KeyIndexName::DynamicHash),
            KeyIndexKind::Hash { .. } => quoted(KeyIndexName::Hash),
            KeyIndexKind::Lsm { .. } => quoted(KeyIndexName::Lsm),
            KeyIndexKind::Own(own) => quoted(own.0.name()),
        });
        /// DRAM for its pages: a size, or `all`. Default: a thousandth of the flash's capacity, in
        /// whole pages.
        dram: Maybe<DramSize>, writes |index, _| Some(match index.dram_bytes {
            None => quoted("all"),
            Some(bytes) => quoted(Bytes(bytes)),
        });
        /// Size of an entry, at most a sixteenth of a page.
        entry: Maybe<Bytes> = "16B", in "8B" to "1KiB", is entry_bytes;
        /// Most keys of the drive. Default: as many as mapping units.
        keys: Maybe<u64>, is keys_max;
        /// With `kind = "hash"`: pages without overflow. Default: as many as hold `keys`.
        pages: Maybe<u32>, when HASH, shows |index, _| match index.kind {
            KeyIndexKind::Hash { pages } => Some(pages),
            _ => None,
        };
        /// Bits for each key that is there of Bloom filters that say which keys are not in a page
        /// (hash) or run (lsm), in DRAM of their own beside `dram`; 0: none. Default: 0, and 10 with
        /// `kind = "lsm"`.
        filter: Maybe<u32>, in "0" to "64", shows |index, _| Some(index.filter_bits);
        /// With `kind = "lsm"`: DRAM of the table that takes new entries, from one entry to 64GiB.
        memtable: Maybe<Bytes> = "1MiB", when LEVELS,
            shows |index, _| lsm(index).map(|it| it.0);
        /// With `kind = "lsm"`: runs of the first level that are merged into the next, and how many
        /// times larger each level is than the one before.
        fanout: Maybe<u32> = "10", in "2" to "64", when LEVELS,
            shows |index, _| lsm(index).map(|it| it.1);
        /// With `kind = "lsm"`: levels, from the first, that stay in DRAM beside `dram`.
        pinned: Maybe<u32> = "0", in "0" to "32", when LEVELS,
            shows |index, _| lsm(index).map(|it| it.2);
        /// Bits of a hash of the key that entries hold in its place: the pairs of all that are alike
        /// are read to find the one; 0: entries say which key it is. Not with `kind = "lsm"`.
        signature: Maybe<u32> = "0", in "0" to "64", when NOT_SORTED if |it| *it > 0,
            shows |index, _| lsm(index).is_none().then_some(index.signature_bits);
    }
}

/// How the key-value namespaces of `config` work if its drive file says nothing of them: 8
/// managers that take 3 us for a command, an index of which as much is in DRAM as a thousandth of
/// the flash. These are estimates.
pub fn default_key_value(config: &Config) -> config::KeyValue {
    let (geometry, unit) = (&config.geometry, config.mapping.unit_bytes);
    let document = Document::parse("defaults", "", "").expect("nothing is a document");
    let mut check = Check { document: &document, problems: vec![] };
    KeyValue::default().lower(&mut check, geometry, unit)
}

/// The least DRAM for an index: a page that is looked at, and one that is split off it, and as
/// many for a second command.
fn least_dram(page: u64) -> u64 {
    4 * page
}

impl KeyValue {
    pub(crate) fn lower(
        &self,
        check: &mut Check<'_>,
        geometry: &Geometry,
        unit: u32,
    ) -> config::KeyValue {
        let key_max: u32 = self.key_max(check);
        let key_inline: u32 = self.key_inline(check).unwrap_or(16);
        if let Some(at) = self.key_inline.as_ref().filter(|_| key_inline > key_max) {
            check.without_effect(
                at.span(),
                self.key_max.as_ref().map(At::span),
                "`kv.key_inline` is more than `kv.key_max`",
                "remove it, or use `kv.key_max` at most",
            );
        }
        config::KeyValue {
            managers: self.managers(check),
            times: self.time.lower(check),
            index: self.index.lower(check, geometry, unit),
            header_bytes: self.header(check),
            key_max,
            value_max: self.value_max(check),
            key_inline: key_inline.min(key_max),
            key_fetch_holds: self.key_fetch(check) == KeyFetchName::Waits,
            key_round_trip: self.key_round_trip(check),
        }
    }
}

impl KeyTimes {
    fn lower(&self, check: &mut Check<'_>) -> config::KeyTimes {
        let usual = config::KeyTime { fixed: vec![(1.0, TIME)], per_kib: Span::ZERO };
        let mut time = |given: &Maybe<KeyTime>, default: &config::KeyTime| match given {
            Some(at) => lower_time(check, at),
            None => default.clone(),
        };
        let store = time(&self.store, &usual);
        config::KeyTimes {
            update: time(&self.update, &store),
            retrieve: time(&self.retrieve, &usual),
            delete: time(&self.delete, &usual),
            exist: time(&self.exist, &usual),
            list: time(&self.list, &usual),
            store,
        }
    }
}

fn lower_time(check: &mut Check<'_>, at: &At<KeyTime>) -> config::KeyTime {
    let KeyTime { fixed, per_kib } = at.get();
    let fixed: Vec<(f64, Span)> = match fixed {
        Times::One(time) => vec![(1.0, time.0)],
        Times::Some(times) => times.iter().map(|(share, time)| (share.0, time.0)).collect(),
    };
    let per_kib = per_kib.map_or(Span::ZERO, |time| time.0);
    let name = check.key(at);
    if fixed.iter().any(|(_, time)| *time > MAX_STEP) || per_kib > MAX_STEP {
        let limit = Duration(MAX_STEP);
        check.wrong(
            format!("`{name}` is longer than any drive takes"),
            at,
            "too long",
            Some(format!("the longest time is {limit}")),
        );
    }
    let sum: f64 = fixed.iter().map(|(share, _)| share).sum();
    if (sum - 1.0).abs() > 1e-9 || fixed.iter().any(|(share, _)| *share <= 0.0) {
        check.wrong(
            format!("the shares of `{name}` add up to {}", Fraction(sum)),
            at,
            "each is more than 0, and together they are 1",
            Some("for example `[[0.99, \"4.2us\"], [0.01, \"64.2us\"]]`".to_owned()),
        );
    }
    config::KeyTime { fixed, per_kib }
}

fn key_time(time: &config::KeyTime) -> String {
    let span = |span: Span| quoted(Duration(span));
    let fixed = match time.fixed[..] {
        [(_, only)] => span(only),
        _ => {
            let one = |(share, time): &(f64, Span)| format!("[{share:?}, {}]", span(*time));
            let all: Vec<String> = time.fixed.iter().map(one).collect();
            format!("[{}]", all.join(", "))
        }
    };
    match time.per_kib {
        Span::ZERO => fixed,
        more => format!("{{ fixed = {fixed}, per_kib = {} }}", span(more)),
    }
}

impl KeyIndex {
    fn lower(&self, check: &mut Check<'_>, geometry: &Geometry, unit: u32) -> config::KeyIndex {
        let page = u64::from(geometry.page_bytes);
        let units = geometry.raw_bytes() / u64::from(unit);
        let entry_bytes: u32 = self.entry(check);
        if let Some(at) = self.entry.as_ref().filter(|_| page / 16 < 1024) {
            check.size(at, 8..=page / 16);
        }
        if let Some(at) = &self.keys
            && !(1..=units).contains(at.get())
        {
            let message = format!("`kv.index.keys` must be from 1 to {units}, not {}", at.get());
            let help = format!("each pair takes a mapping unit, of which there are {units}");
            check.wrong(message, at, "out of range", Some(help));
        }
        let keys_max: Option<u64> = self.keys(check);
        let entries = page / u64::from(entry_bytes).max(1);
        let hold = |keys: u64| keys.div_ceil(entries.max(1)).clamp(1, u32::MAX.into()) as u32;
        let kind = match self.kind(check) {
            KeyIndexName::DynamicHash => KeyIndexKind::DynamicHash,
            KeyIndexName::Lsm => {
                if let Some(at) = &self.memtable {
                    check.size(at, entry_bytes.into()..=1 << 36);
                }
                KeyIndexKind::Lsm {
                    memtable_bytes: self.memtable(check),
                    fanout: self.fanout(check),
                    pinned_levels: self.pinned(check),
                }
            }
            KeyIndexName::Hash => {
                let most = geometry.pages().min(u32::MAX.into()) as u32;
                let pages = self.pages.as_ref().map(|at| check.count(at, 1..=most));
                KeyIndexKind::Hash {
                    pages: pages.unwrap_or_else(|| hold(keys_max.unwrap_or(units))),
                }
            }
        };
        let filter = if matches!(kind, KeyIndexKind::Lsm { .. }) { LSM_FILTER } else { 0 };
        config::KeyIndex {
            kind,
            dram_bytes: self.dram_bytes(check, geometry),
            entry_bytes,
            keys_max,
            filter_bits: self.filter(check).unwrap_or(filter),
            signature_bits: self.signature(check),
        }
    }

    fn dram_bytes(&self, check: &mut Check<'_>, geometry: &Geometry) -> Option<u64> {
        let page = u64::from(geometry.page_bytes);
        let least = least_dram(page);
        match self.dram.as_ref().map(|at| (at, *at.get())) {
            None => Some((geometry.raw_bytes() / CAPACITY_OF_DRAM / page * page).max(least)),
            Some((_, DramSize::All)) => None,
            Some((at, DramSize::Bytes(bytes))) => {
                if bytes.0 < least {
                    check.wrong(
                        format!("`kv.index.dram` of {bytes} cannot hold what a command needs"),
                        at,
                        "too small",
                        Some(format!("at least {}, four pages; or `all`", Bytes(least))),
                    );
                }
                Some(bytes.0)
            }
        }
    }
}

/// Whether a namespace holds pairs.
fn is_of_pairs(at: &At<super::Namespace>) -> bool {
    at.get().kind.as_ref().is_some_and(|kind| *kind.get() == NamespaceKindName::Pairs)
}

/// How key-value namespaces work, if there are any.
pub(crate) fn of_file(
    check: &mut Check<'_>,
    file: &File,
    geometry: &Geometry,
    unit: u32,
) -> Option<config::KeyValue> {
    let namespace = file.namespace.iter().find(|at| is_of_pairs(at));
    let cause = match (namespace, &file.kv) {
        (Some(at), _) => at.get().kind.as_ref().map_or_else(|| at.span(), At::span),
        (None, Some(kv)) if file.namespace.is_empty() => kv.span(),
        (None, _) => return None,
    };
    suits_pairs(check, file, cause);
    Some(match &file.kv {
        Some(kv) => kv.get().lower(check, geometry, unit),
        None => KeyValue::default().lower(check, geometry, unit),
    })
}

/// Notes what is no drive that pairs can lie on. `cause` is what asks for it.
fn suits_pairs(check: &mut Check<'_>, file: &File, cause: Range<usize>) {
    let rewritable = file.flash.get().rewritable.as_ref().filter(|at| *at.get()).map(At::span);
    let hybrid = file.mapping.kind.as_ref().filter(|_| is_hybrid(file)).map(At::span);
    let usual = rewritable.is_none() && hybrid.is_none();
    for (span, message, help) in [
        (
            rewritable,
            "key-value namespaces are for memory with erase: pairs are appended, and what is \
             left of old ones is collected",
            "remove it, or have no key-value namespace",
        ),
        (
            hybrid,
            "key-value namespaces need page mapping: a pair may lie anywhere",
            "use `mapping.kind = \"page\"`",
        ),
    ] {
        if let Some(span) = span {
            check.at(span, message.to_owned(), "not with `kv`", Some(help.to_owned()));
        }
    }
    let placement = file.allocation.placement.as_ref();
    if usual && or(&file.allocation.placement, PlacementName::Static) == PlacementName::Static {
        check.at(
            placement.map_or(cause, At::span),
            "key-value namespaces need dynamic placement: a pair has no address that says its \
             plane"
                .to_owned(),
            "pairs, with `allocation.placement = \"static\"`",
            Some("use `allocation.placement = \"striped\"` or `\"least-loaded\"`".to_owned()),
        );
    }
}

/// Whether pairs can lie on a drive with this configuration, and why not.
///
/// # Errors
/// What key-value namespaces need and it does not have, with what would be valid.
pub fn takes_pairs(config: &Config) -> Result<(), String> {
    if config.flash.rewritable {
        return Err("key-value namespaces are for memory with erase".to_owned());
    }
    if config.mapping.scheme != MappingScheme::Page {
        return Err("key-value namespaces need `mapping.kind = \"page\"`".to_owned());
    }
    if config.placement == Placement::Static {
        return Err("key-value namespaces need `allocation.placement = \"striped\"` or \
                    `\"least-loaded\"`"
            .to_owned());
    }
    Ok(())
}

no_keys!(KeyTime, DramSize);

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
