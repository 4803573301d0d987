//! Key-value namespaces: what the file says of them, and what a drive that says nothing has.

use super::*;
use mynah_model::config::{
    KeyIndex, KeyIndexKind, KeyTime, KeyTimes, KeyValue, NamespaceKind, Placement,
};
use schema::{DramSize, KeyFetchName, KeyIndexName, NamespaceKindName, Times};

/// Request managers of a drive that says nothing of them. An estimate: as many cores as
/// enterprise controllers have.
const MANAGERS: u32 = 8;
/// What one of them takes for a command. An estimate: firmware cores take some microseconds for a
/// command, and MoKE measured 4.2 us for hash and table (Saha et al., section II-B).
const TIME: Span = Span::from_us(3);
/// Bytes that lie with each pair. An estimate: the sizes of key and value, and a checksum.
const HEADER: u32 = 16;
/// Bytes of an entry of the index. An estimate: the key's hash, an address, sizes.
const ENTRY: u32 = 16;
/// Bits for each key of the filters of an LSM index: one key in a hundred passes that is not there.
const LSM_FILTER: u32 = 10;
/// How many times larger each level of an LSM index is than the one before, as in RocksDB.
const LSM_FANOUT: u32 = 10;
/// Table of an LSM index that takes new entries. An estimate.
const LSM_MEMTABLE: u64 = 1 << 20;
/// Longest key, that of Samsung's command set.
const KEY_MAX: u32 = 255;
/// Longest key that comes within its command, in both command sets.
const KEY_INLINE: u32 = 16;
/// A read of host memory over PCIe: 0.6 to 1 us.
const KEY_ROUND_TRIP: Span = Span::from_ns(800);
/// Largest value of a drive that says nothing of it, that of Samsung's drives.
const VALUE_MAX: u32 = 2 << 20;
/// Largest value that any drive can have.
const VALUE_LIMIT: u64 = 32 << 20;
/// Capacity that has a byte of the index in DRAM.
const CAPACITY_OF_DRAM: u64 = 1000;

/// How the key-value namespaces of `config` work if its drive file says nothing of them: 8
/// managers that take 3 us for a command, an index of which as much is in DRAM as a thousandth of
/// the flash. These are estimates.
pub fn default_key_value(config: &Config) -> KeyValue {
    key_value_of(&config.geometry)
}

fn key_value_of(geometry: &Geometry) -> KeyValue {
    let page = u64::from(geometry.page_bytes);
    let dram = geometry.raw_bytes() / CAPACITY_OF_DRAM / page * page;
    KeyValue {
        managers: MANAGERS,
        times: KeyTimes::all(TIME),
        index: KeyIndex {
            kind: KeyIndexKind::DynamicHash,
            dram_bytes: Some(dram.max(least_dram(page))),
            entry_bytes: ENTRY,
            keys_max: None,
            filter_bits: 0,
            signature_bits: 0,
        },
        header_bytes: HEADER,
        key_max: KEY_MAX,
        value_max: VALUE_MAX,
        key_inline: KEY_INLINE,
        key_fetch_holds: true,
        key_round_trip: KEY_ROUND_TRIP,
    }
}

/// The least DRAM for an index: a page that is looked at, and one that is split off it, and as
/// many for a second command.
fn least_dram(page: u64) -> u64 {
    4 * page
}

impl Check<'_> {
    /// How key-value namespaces work, if there are any.
    pub(super) fn key_value(
        &mut self,
        file: &File,
        geometry: &Geometry,
        unit: u32,
    ) -> Option<KeyValue> {
        let pairs = |at: &&At<schema::Namespace>| {
            at.get().kind.as_ref().is_some_and(|kind| *kind.get() == NamespaceKindName::Pairs)
        };
        let namespace = file.namespace.iter().find(pairs);
        if let (Some(kv), None, Some(other)) = (&file.kv, namespace, file.namespace.first()) {
            self.without_effect(
                kv.span(),
                Some(other.span()),
                "`[kv]` has no effect: there is no key-value namespace",
                "remove it, or give a namespace `kind = \"kv\"`",
            );
            return None;
        }
        let cause = match namespace {
            Some(at) => at.get().kind.as_ref().map_or_else(|| at.span(), At::span),
            None => file.kv.as_ref()?.span(),
        };
        self.suits_pairs(file, cause);
        let defaults = key_value_of(geometry);
        match &file.kv {
            Some(kv) => Some(self.key_value_section(kv.get(), geometry, unit, defaults)),
            None => Some(defaults),
        }
    }

    /// Whether the drive is one that pairs can lie on. `cause` is what asks for it.
    fn suits_pairs(&mut self, file: &File, cause: Range<usize>) {
        let flash = file.flash.get();
        let rewritable = flash.rewritable.as_ref().filter(|at| *at.get()).map(At::span);
        let hybrid = file.mapping.kind.as_ref().filter(|at| *at.get() == MappingName::Hybrid);
        let hybrid = hybrid.map(At::span);
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
                self.at(span, message.to_owned(), "not with `kv`", Some(help.to_owned()));
            }
        }
        let placement = file.allocation.placement.as_ref();
        let is_static = |at: &At<schema::PlacementName>| *at.get() == schema::PlacementName::Static;
        if usual && placement.is_none_or(is_static) {
            let place = placement.map_or(cause, At::span);
            self.at(
                place,
                "key-value namespaces need dynamic placement: a pair has no address that says its \
                 plane"
                    .to_owned(),
                "pairs, with `allocation.placement = \"static\"`",
                Some("use `allocation.placement = \"striped\"` or `\"least-loaded\"`".to_owned()),
            );
        }
        let only_pairs = file.namespace.iter().all(|at| {
            at.get().kind.as_ref().is_some_and(|kind| *kind.get() == NamespaceKindName::Pairs)
        });
        let unmapped = file.mapping.unmapped_reads.as_ref();
        let unmapped = unmapped.filter(|at| *at.get() != schema::UnmappedReadsName::Zeroes);
        if usual && only_pairs {
            for (span, message) in [
                (
                    file.mapping.cmt.as_ref().map(|at| at.get().size.span()),
                    "`[mapping.cmt]` has no effect: pairs are found by `kv.index`, and there are \
                     no blocks",
                ),
                (
                    unmapped.map(At::span),
                    "`mapping.unmapped_reads` has no effect: there are no blocks",
                ),
            ] {
                if let Some(span) = span {
                    self.without_effect(span, Some(cause_of(file)), message, "remove it");
                }
            }
        }
    }

    fn key_value_section(
        &mut self,
        kv: &schema::KeyValue,
        geometry: &Geometry,
        unit: u32,
        defaults: KeyValue,
    ) -> KeyValue {
        let managers = kv.managers.as_ref();
        let managers =
            managers.map_or(defaults.managers, |at| self.count("kv.managers", at, 1..=64));
        let key_max = self.size("kv.key_max", &kv.key_max, 1..=KEY_MAX.into(), defaults.key_max);
        let inline = 0..=u64::from(KEY_MAX);
        let key_inline = self.size("kv.key_inline", &kv.key_inline, inline, defaults.key_inline);
        if let Some(at) = kv.key_inline.as_ref().filter(|_| key_inline > key_max) {
            self.without_effect(
                at.span(),
                kv.key_max.as_ref().map(At::span),
                "`kv.key_inline` is more than `kv.key_max`",
                "remove it, or use `kv.key_max` at most",
            );
        }
        let key_inline = key_inline.min(key_max);
        let of_fetch = [
            ("key_fetch", kv.key_fetch.as_ref().map(At::span)),
            ("key_round_trip", kv.key_round_trip.as_ref().map(At::span)),
        ];
        for (name, span) in of_fetch {
            let Some(span) = span.filter(|_| key_inline >= key_max) else { continue };
            let causes = [&kv.key_inline, &kv.key_max].into_iter().flatten().map(At::span);
            self.without_effect(
                span,
                causes.max_by_key(|span| span.start),
                &format!("`kv.{name}` has no effect: every key comes within its command"),
                "remove it, or use it with `kv.key_inline` below `kv.key_max`",
            );
        }
        let fetch = kv.key_fetch.as_ref().filter(|_| key_inline < key_max);
        KeyValue {
            managers,
            times: self.key_times(&kv.time, &defaults.times),
            index: self.key_index(&kv.index, geometry, unit, defaults.index),
            header_bytes: self.size("kv.header", &kv.header, 0..=4096, defaults.header_bytes),
            key_max,
            value_max: self.size(
                "kv.value_max",
                &kv.value_max,
                1..=VALUE_LIMIT,
                defaults.value_max,
            ),
            key_inline,
            key_fetch_holds: fetch.is_none_or(|at| *at.get() == KeyFetchName::Waits),
            key_round_trip: self.span_or(
                "kv.key_round_trip",
                &kv.key_round_trip,
                defaults.key_round_trip,
            ),
        }
    }

    /// A size within `range`.
    fn size(
        &mut self,
        name: &str,
        value: &Maybe<Bytes>,
        range: std::ops::RangeInclusive<u64>,
        default: u32,
    ) -> u32 {
        let Some(at) = value else { return default };
        if !range.contains(&at.get().0) {
            let (least, most) = (Bytes(*range.start()), Bytes(*range.end()));
            self.wrong(
                format!("`{name}` must be from {least} to {most}, not {}", at.get()),
                at,
                "out of range",
                None,
            );
        }
        u32::try_from(at.get().0).unwrap_or(u32::MAX)
    }

    fn key_times(&mut self, times: &schema::KeyTimes, defaults: &KeyTimes) -> KeyTimes {
        let mut time = |name: &str, asked: &Maybe<schema::KeyTime>, default: &KeyTime| {
            let asked = asked.as_ref();
            asked.map_or_else(|| default.clone(), |at| self.key_time(name, at))
        };
        let store = time("kv.time.store", &times.store, &defaults.store);
        KeyTimes {
            update: time("kv.time.update", &times.update, &store),
            retrieve: time("kv.time.retrieve", &times.retrieve, &defaults.retrieve),
            delete: time("kv.time.delete", &times.delete, &defaults.delete),
            exist: time("kv.time.exist", &times.exist, &defaults.exist),
            list: time("kv.time.list", &times.list, &defaults.list),
            store,
        }
    }

    fn key_time(&mut self, name: &str, at: &At<schema::KeyTime>) -> KeyTime {
        let schema::KeyTime { fixed, per_kib } = at.get();
        let fixed: Vec<(f64, Span)> = match fixed {
            Times::One(time) => vec![(1.0, time.0)],
            Times::Some(times) => times.iter().map(|(share, time)| (share.0, time.0)).collect(),
        };
        let per_kib = per_kib.map_or(Span::ZERO, |time| time.0);
        if fixed.iter().any(|(_, time)| *time > MAX_STEP) || per_kib > MAX_STEP {
            let limit = Duration(MAX_STEP);
            self.wrong(
                format!("`{name}` is longer than any drive takes"),
                at,
                "too long",
                Some(format!("the longest time is {limit}")),
            );
        }
        let sum: f64 = fixed.iter().map(|(share, _)| share).sum();
        if (sum - 1.0).abs() > 1e-9 || fixed.iter().any(|(share, _)| *share <= 0.0) {
            self.wrong(
                format!("the shares of `{name}` add up to {}", Fraction(sum)),
                at,
                "each is more than 0, and together they are 1",
                Some("for example `[[0.99, \"4.2us\"], [0.01, \"64.2us\"]]`".to_owned()),
            );
        }
        KeyTime { fixed, per_kib }
    }

    fn key_index(
        &mut self,
        index: &schema::KeyIndex,
        geometry: &Geometry,
        unit: u32,
        defaults: KeyIndex,
    ) -> KeyIndex {
        let page = u64::from(geometry.page_bytes);
        let units = geometry.raw_bytes() / u64::from(unit);
        let entry_bytes = self.size(
            "kv.index.entry",
            &index.entry,
            8..=(page / 16).min(1024),
            defaults.entry_bytes,
        );
        let dram_bytes = match index.dram.as_ref().map(|at| (at, *at.get())) {
            None => defaults.dram_bytes,
            Some((_, DramSize::All)) => None,
            Some((at, DramSize::Bytes(bytes))) => {
                if bytes.0 < least_dram(page) {
                    self.wrong(
                        format!("`kv.index.dram` of {bytes} cannot hold what a command needs"),
                        at,
                        "too small",
                        Some(format!("at least {}, four pages; or `all`", Bytes(least_dram(page)))),
                    );
                }
                Some(bytes.0)
            }
        };
        let keys_max = index.keys.as_ref().map(|at| {
            let keys = *at.get();
            if keys == 0 || keys > units {
                let message = format!("`kv.index.keys` must be from 1 to {units}, not {keys}");
                let help = format!("each pair takes a mapping unit, of which there are {units}");
                self.wrong(message, at, "out of range", Some(help));
            }
            keys
        });
        let entries = page / u64::from(entry_bytes).max(1);
        let hold = |keys: u64| keys.div_ceil(entries.max(1)).clamp(1, u32::MAX.into()) as u32;
        let name = or(&index.kind, KeyIndexName::DynamicHash);
        self.without_kind(index, name);
        let bits = |check: &mut Self, name: &str, bits: &Maybe<u32>, default: u32| {
            bits.as_ref().map_or(default, |at| check.count(name, at, 0..=64))
        };
        let lsm = name == KeyIndexName::Lsm;
        let filter = if lsm { LSM_FILTER } else { defaults.filter_bits };
        let filter_bits = bits(self, "kv.index.filter", &index.filter, filter);
        let signature_bits = match lsm {
            true => 0,
            false => bits(self, "kv.index.signature", &index.signature, defaults.signature_bits),
        };
        let kind = match name {
            KeyIndexName::DynamicHash => KeyIndexKind::DynamicHash,
            KeyIndexName::Lsm => KeyIndexKind::Lsm {
                memtable_bytes: self.memtable(&index.memtable, entry_bytes),
                fanout: index
                    .fanout
                    .as_ref()
                    .map_or(LSM_FANOUT, |at| self.count("kv.index.fanout", at, 2..=64)),
                pinned_levels: index
                    .pinned
                    .as_ref()
                    .map_or(0, |at| self.count("kv.index.pinned", at, 0..=32)),
            },
            KeyIndexName::Hash => {
                let most = geometry.pages().min(u32::MAX.into()) as u32;
                let pages = index.pages.as_ref();
                let pages = pages.map(|at| self.count("kv.index.pages", at, 1..=most));
                KeyIndexKind::Hash {
                    pages: pages.unwrap_or_else(|| hold(keys_max.unwrap_or(units))),
                }
            }
        };
        KeyIndex { kind, dram_bytes, entry_bytes, keys_max, filter_bits, signature_bits }
    }

    /// The table of an LSM index that takes new entries.
    fn memtable(&mut self, size: &Maybe<Bytes>, entry_bytes: u32) -> u64 {
        let Some(at) = size else { return LSM_MEMTABLE };
        let (least, most) = (Bytes(u64::from(entry_bytes)), Bytes(1 << 36));
        if !(least..=most).contains(at.get()) {
            let message =
                format!("`kv.index.memtable` must be from {least} to {most}, not {}", at.get());
            self.wrong(message, at, "out of range", None);
        }
        at.get().0
    }

    /// What an index of this kind has no use for.
    fn without_kind(&mut self, index: &schema::KeyIndex, name: KeyIndexName) {
        let (hash, lsm) = (name == KeyIndexName::Hash, name == KeyIndexName::Lsm);
        let of_hash = "use it with `kind = \"hash\"`";
        let of_lsm = "use it with `kind = \"lsm\"`";
        for (span, used, message, help) in [
            (
                index.pages.as_ref().map(At::span),
                hash,
                "`kv.index.pages` has no effect: there are as many pages as keys need",
                of_hash,
            ),
            (
                index.signature.as_ref().filter(|at| *at.get() > 0).map(At::span),
                !lsm,
                "`kv.index.signature` has no effect: runs are sorted by their keys, and hold them",
                "remove it, or use it with another `kind`",
            ),
            (
                index.memtable.as_ref().map(At::span),
                lsm,
                "`kv.index.memtable` has no effect: entries are put into their page",
                of_lsm,
            ),
            (
                index.fanout.as_ref().map(At::span),
                lsm,
                "`kv.index.fanout` has no effect: there are no levels",
                of_lsm,
            ),
            (
                index.pinned.as_ref().map(At::span),
                lsm,
                "`kv.index.pinned` has no effect: there are no levels",
                of_lsm,
            ),
        ] {
            if let Some(span) = span.filter(|_| !used) {
                self.without_effect(span, index.kind.as_ref().map(At::span), message, help);
            }
        }
    }

    /// What a namespace holds.
    pub(super) fn namespace_kind(kind: &Maybe<NamespaceKindName>) -> NamespaceKind {
        kind.as_ref().map_or(NamespaceKind::Blocks, |at| (*at.get()).into())
    }
}

/// What makes all of a drive pairs.
fn cause_of(file: &File) -> Range<usize> {
    let kind = file.namespace.first().and_then(|at| at.get().kind.as_ref()).map(At::span);
    kind.or_else(|| file.kv.as_ref().map(At::span)).unwrap_or(0..0)
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
