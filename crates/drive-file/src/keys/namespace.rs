//! The lists `[[namespace]]` and `[[fault]]`.

use super::declare::{Settings, no_keys, section};
use super::placement::PLACES;
use super::value::quoted;
use super::{CacheModeName, File, NamespaceCacheName, NamespaceKindName};
use crate::at::{At, Maybe};
use crate::check::{Check, or};
use crate::fault;
use crate::units::{Bytes, Duration, Fraction};
use mynah_model::config::{
    self, CacheMode, Caching, Config, FaultExtent, Geometry, MediaOperation, NamespaceKind,
};
use mynah_stamp::{Span, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

section! {
    /// A range of logical space and the flash it may use.
    Namespace => config::Namespace {
        /// Capacity, a multiple of the mapping unit. Default: an equal share of what its planes
        /// offer.
        size: Maybe<Bytes>, shows |namespace, config| {
            namespace.units.map(|units| units * u64::from(config.mapping.unit_bytes))
        };
        /// Channels it may use, from 0. Default: all.
        #[serde(default)]
        channels: Vec<At<u32>>, writes |namespace, _| Some(format!("{:?}", namespace.channels));
        /// Chips of each channel it may use, from 0. Default: all.
        #[serde(default)]
        chips: Vec<At<u32>>, writes |namespace, _| Some(format!("{:?}", namespace.chips));
        /// Dies of each chip it may use, from 0. Default: all.
        #[serde(default)]
        dies: Vec<At<u32>>, writes |namespace, _| Some(format!("{:?}", namespace.dies));
        /// Planes of each die it may use, from 0. Default: all.
        #[serde(default)]
        planes: Vec<At<u32>>, writes |namespace, _| Some(format!("{:?}", namespace.planes));
        /// Reclaim unit handles of its placement handles, in order, from 0. Default: all.
        #[serde(default)]
        handles: Vec<At<u32>>, when PLACES, writes |namespace, _| {
            (!namespace.handles.is_empty()).then(|| format!("{:?}", namespace.handles))
        };
        /// What of it the data cache holds. Default: what `cache.mode` says.
        cache: Maybe<NamespaceCacheName>, writes |namespace, _| match namespace.caching {
            Caching::Only(None) => Some(quoted(NamespaceCacheName::Off)),
            Caching::Only(Some(mode)) => Some(quoted(CacheModeName::from(mode))),
            Caching::Cache => None,
        };
        /// What it holds.
        kind: Maybe<NamespaceKindName> = "block", shows |namespace, _| {
            (namespace.kind == NamespaceKind::Pairs).then_some(namespace.kind)
        };
    }
}

/// The namespaces of a drive file.
pub(crate) fn namespaces(
    check: &mut Check<'_>,
    file: &File,
    geometry: &Geometry,
    unit: u32,
) -> Vec<config::Namespace> {
    if file.namespace.is_empty() {
        let kind = if file.kv.is_some() { NamespaceKind::Pairs } else { NamespaceKind::Blocks };
        return vec![config::Namespace { kind, ..config::Namespace::whole_drive() }];
    }
    let namespaces = file.namespace.iter().map(At::get);
    namespaces.map(|namespace| namespace.lower(check, file, geometry, unit)).collect()
}

impl Namespace {
    fn lower(
        &self,
        check: &mut Check<'_>,
        file: &File,
        geometry: &Geometry,
        unit: u32,
    ) -> config::Namespace {
        let unit = u64::from(unit);
        let is_size = |bytes: u64| bytes > 0 && bytes.is_multiple_of(unit);
        if let Some(size) = self.size.as_ref().filter(|at| !is_size(at.get().0)) {
            let (name, size_text) = (check.key(size), size.get());
            let message =
                format!("`{name}` must be a multiple of the mapping unit, not {size_text}");
            check.wrong(message, size, &format!("not a multiple of {}", Bytes(unit)), None);
        }
        config::Namespace {
            handles: {
                let placement = file.placement.as_ref().map(At::get);
                let handles =
                    placement.and_then(|it| it.handles.as_ref()).map_or(8, |at| *at.get());
                // Less than one is an error of its own.
                let list = indices(check, &self.handles, handles.max(1));
                list.into_iter().map(|handle| handle.min(127) as u8).collect()
            },
            units: self.size.as_ref().map(|size| size.get().0 / unit),
            channels: indices(check, &self.channels, geometry.channels),
            chips: indices(check, &self.chips, geometry.chips_per_channel),
            dies: indices(check, &self.dies, geometry.dies_per_chip),
            planes: indices(check, &self.planes, geometry.planes_per_die),
            caching: match &self.cache {
                Some(asked) => caching(check, file, asked),
                None => Caching::Cache,
            },
            kind: self.kind(check),
        }
    }
}

/// What of a namespace the cache holds: some of what it holds at all.
fn caching(check: &mut Check<'_>, file: &File, asked: &At<NamespaceCacheName>) -> Caching {
    let only = match asked.get() {
        NamespaceCacheName::Off => None,
        NamespaceCacheName::Write => Some(CacheMode::Write),
        NamespaceCacheName::Read => Some(CacheMode::Read),
        NamespaceCacheName::Both => Some(CacheMode::Both),
    };
    let name = check.key(asked);
    let cache = file.cache.as_ref().map(At::get).filter(|cache| cache.size.get().0 > 0);
    let Some(cache) = cache else {
        let help = Some("remove it, or give the cache a size".to_owned());
        check.wrong(format!("`{name}` has no effect: there is no cache"), asked, "this", help);
        return Caching::Cache;
    };
    let mode: CacheMode = or(&cache.mode, CacheModeName::Write).into();
    if only.is_some_and(|only| !mode.includes(only)) {
        check.wrong(
            format!("`{name}` asks for more than the cache holds"),
            asked,
            "more than `cache.mode`",
            Some("`cache.mode = \"both\"` allows all".to_owned()),
        );
        return Caching::Cache;
    }
    Caching::Only(only)
}

fn indices(check: &mut Check<'_>, list: &[At<u32>], count: u32) -> Vec<u32> {
    let mut seen = Vec::new();
    for at in list {
        let (index, name) = (*at.get(), check.key(at));
        if index >= count {
            let help = Some(format!("valid: 0 to {}", count - 1));
            check.wrong(format!("`{name}` has no {index}"), at, "there is none", help);
        } else if seen.contains(&index) {
            check.wrong(format!("`{name}` names {index} twice"), at, "again", None);
        }
        seen.push(index);
    }
    seen
}

section! {
    /// A fault to inject: the kind and the settings of `--fault KIND:SETTING=VALUE,…`.
    FaultEntry {
        /// What fails: read-error, program-error, erase-error, slow-die, dead-die or power-cut.
        kind: At<String>;
        /// Probability of each operation's failure (the errors).
        rate: Maybe<Scalar>;
        /// The mapping units whose operations fail: `"0-99"` (read-error, program-error).
        units: Maybe<Scalar>;
        /// The namespace of `units`. Default: 1.
        namespace: Maybe<Scalar>;
        /// Index of the die, channel first (slow-die, dead-die).
        die: Maybe<Scalar>;
        /// How many times as long its operations take, at least 1 (slow-die).
        factor: Maybe<Scalar>;
        /// When, after the drive was built (dead-die, power-cut).
        at: Maybe<Scalar>;
        /// From the cut until the drive accepts commands again (power-cut). Default: 1s.
        recovery: Maybe<Scalar>;
    }
}

/// The faults of a drive file, for the drive that the rest of it describes.
pub(crate) fn faults(check: &mut Check<'_>, file: &File, config: &Config) -> Vec<config::Fault> {
    let mut faults = Vec::new();
    for at in &file.fault {
        let entry = at.get();
        let keys = [
            ("rate", &entry.rate),
            ("units", &entry.units),
            ("namespace", &entry.namespace),
            ("die", &entry.die),
            ("factor", &entry.factor),
            ("at", &entry.at),
            ("recovery", &entry.recovery),
        ];
        let settings: Vec<(&str, &str)> = keys
            .iter()
            .filter_map(|(key, value)| Some((*key, value.as_ref()?.get().0.as_str())))
            .collect();
        let parsed = fault::from_parts(entry.kind.get(), &settings)
            .and_then(|fault| fault::check(&fault, config).map(|()| fault));
        match parsed {
            Ok(fault) => faults.push(fault),
            Err(error) => {
                let place = error
                    .key
                    .as_deref()
                    .and_then(|key| keys.iter().find(|(k, _)| *k == key))
                    .and_then(|(_, value)| value.as_ref().map(At::span))
                    .unwrap_or_else(|| entry.kind.span());
                check.at(place, error.message, "here", Some(error.help));
            }
        }
    }
    faults
}

/// Writes the settings of a fault.
pub(crate) fn show_fault(fault: &config::Fault, prefix: &str, out: &mut Settings) {
    let span = |span: Span| quoted(Duration(span));
    let after = |at: Time| span(Span::from_ps(at.as_ps()));
    let settings = match *fault {
        config::Fault::Media { operation, extent } => {
            let kind = match operation {
                MediaOperation::Read => "read-error",
                MediaOperation::Program => "program-error",
                MediaOperation::Erase => "erase-error",
            };
            let kind = ("kind", quoted(kind));
            match extent {
                FaultExtent::Rate(rate) => vec![kind, ("rate", quoted(Fraction(rate)))],
                FaultExtent::Units { namespace, first, last } => vec![
                    kind,
                    ("units", quoted(format!("{first}-{last}"))),
                    ("namespace", namespace.to_string()),
                ],
            }
        }
        config::Fault::SlowDie { die, factor } => {
            vec![("kind", quoted("slow-die")), ("die", die.to_string()), ("factor", quoted(factor))]
        }
        config::Fault::DeadDie { die, at } => {
            vec![("kind", quoted("dead-die")), ("die", die.to_string()), ("at", after(at))]
        }
        config::Fault::PowerCut { at, recovery } => {
            vec![("kind", quoted("power-cut")), ("at", after(at)), ("recovery", span(recovery))]
        }
    };
    for (key, value) in settings {
        out.put(format!("{prefix}.{key}"), value);
    }
}

no_keys!(Scalar);

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
