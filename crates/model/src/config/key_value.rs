//! Key-value namespaces: how pairs are laid down, found and handled.

use crate::pair_index::OwnIndex;
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceKind {
    /// Logical blocks (NVM Command Set).
    #[default]
    Blocks,
    /// Pairs of a key and a value; see [`KeyValue`].
    Pairs,
}

/// How a drive's key-value namespaces work.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValue {
    /// Request managers: each handles one command at a time, 1 to 64.
    pub managers: u32,
    /// How long a manager takes for a command, the look-up of the key included but for what it
    /// reads from flash.
    pub times: KeyTimes,
    pub index: KeyIndex,
    /// Bytes that lie on flash with each pair, beside its key and its value.
    pub header_bytes: u32,
    /// Longest key in bytes, 1 to 255.
    pub key_max: u32,
    /// Largest value in bytes, up to 32 MiB.
    pub value_max: u32,
    /// Longest key that comes within its command. Longer ones are fetched by a transfer of their
    /// own.
    pub key_inline: u32,
    /// Whether the manager waits for that transfer. Otherwise it is over when the manager begins.
    pub key_fetch_holds: bool,
    /// How long that takes beside what it occupies the link: the way of a read request to the host's
    /// memory and back.
    pub key_round_trip: Span,
}

impl KeyValue {
    /// Mapping units that a pair takes.
    pub fn units(&self, unit_bytes: u32, key_bytes: u32, value_bytes: u32) -> u32 {
        let bytes = u64::from(self.header_bytes) + u64::from(key_bytes) + u64::from(value_bytes);
        bytes.div_ceil(u64::from(unit_bytes)).max(1) as u32
    }
}

/// How long a manager takes, by what a command does. MoKE (Saha et al., section II-B) calls them
/// T_write, T_read, T_delete and T_exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyTimes {
    /// Store of a key that does not exist.
    pub store: KeyTime,
    /// A Store to a key that exists.
    pub update: KeyTime,
    pub retrieve: KeyTime,
    pub delete: KeyTime,
    pub exist: KeyTime,
    pub list: KeyTime,
}

impl KeyTimes {
    /// The same constant time for every command.
    pub fn all(time: Span) -> KeyTimes {
        let time = KeyTime::constant(time);
        KeyTimes {
            store: time.clone(),
            update: time.clone(),
            retrieve: time.clone(),
            delete: time.clone(),
            exist: time.clone(),
            list: time,
        }
    }

    /// Each with the name of its command.
    pub fn each(&self) -> [(&'static str, &KeyTime); 6] {
        [
            ("store", &self.store),
            ("update", &self.update),
            ("retrieve", &self.retrieve),
            ("delete", &self.delete),
            ("exist", &self.exist),
            ("list", &self.list),
        ]
    }
}

/// How long a manager takes for one command: one of some times, drawn, and a time for each KiB of
/// the value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyTime {
    /// Times and how probable each is; the probabilities add up to 1. At least one.
    pub fixed: Vec<(f64, Span)>,
    /// For each KiB of the value, in proportion.
    pub per_kib: Span,
}

impl KeyTime {
    /// A time without variation.
    pub fn constant(time: Span) -> KeyTime {
        KeyTime { fixed: vec![(1.0, time)], per_kib: Span::ZERO }
    }
}

/// Where keys are found: an index whose pages are on flash like data, and in DRAM as far as they
/// fit.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyIndex {
    pub kind: KeyIndexKind,
    /// DRAM for its pages, in bytes; `None`: for all of them.
    pub dram_bytes: Option<u64>,
    pub entry_bytes: u32,
    /// Most keys of the drive; `None`: as many as there are mapping units.
    pub keys_max: Option<u64>,
    /// Bits for each key of filters in DRAM that say which keys are not in a page (hash) or run
    /// (LSM); 0: none.
    pub filter_bits: u32,
    /// Bits that entries hold of a hash of the key, in place of the key: the pairs of all that are
    /// alike in a page are read to find the one. 0: entries tell all keys apart.
    pub signature_bits: u32,
}

/// How an index of keys is organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyIndexKind {
    /// Extendible hashing (Fagin et al., TODS 1979): a page is split when it is full, and nothing
    /// else moves. The directory is in DRAM.
    DynamicHash,
    /// A fixed number of pages. What a page has no room for goes to overflow pages behind it.
    Hash {
        /// Buckets: primary pages, without overflow pages.
        pages: u32,
    },
    /// A log-structured merge tree (O'Neil et al., 1996), as in PinK (Im et al., ATC 2020).
    Lsm {
        /// Bytes of the table in DRAM that takes new entries.
        memtable_bytes: u64,
        /// Runs of the first level that are merged into the next, and how many times larger each
        /// level is than the one before; 2 to 64.
        fanout: u32,
        /// Levels, from the first, whose pages stay in DRAM, beside `dram_bytes`.
        pinned_levels: u32,
    },
    /// One of your own; drive files cannot say which.
    Own(OwnIndex),
}
