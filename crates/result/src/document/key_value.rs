//! What results say of key-value commands: of a flow, and of what the drive holds.

use super::Side;
use crate::kind::Kind;
use mynah_model::keys::PairCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The key-value commands of a flow, by what they did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeySides {
    /// Stores of new keys.
    pub store: Side,
    /// Stores to keys that existed.
    pub update: Side,
    /// Retrieves, of keys that there were not as well.
    pub retrieve: Side,
    /// Deletes.
    pub delete: Side,
    /// Exists.
    pub exist: Side,
    /// Lists.
    pub list: Side,
}

impl KeySides {
    /// What `side` says of each kind of command.
    pub fn from_kinds(side: impl Fn(Kind) -> Side) -> KeySides {
        KeySides {
            store: side(Kind::Store),
            update: side(Kind::Update),
            retrieve: side(Kind::Retrieve),
            delete: side(Kind::Delete),
            exist: side(Kind::Exist),
            list: side(Kind::List),
        }
    }

    /// Each with its kind, in the order of the document.
    pub fn each(&self) -> [(Kind, &Side); 6] {
        [
            (Kind::Store, &self.store),
            (Kind::Update, &self.update),
            (Kind::Retrieve, &self.retrieve),
            (Kind::Delete, &self.delete),
            (Kind::Exist, &self.exist),
            (Kind::List, &self.list),
        ]
    }

    /// Whether there is anything.
    pub(crate) fn any(&self) -> bool {
        self.each().iter().any(|(_, side)| side.ios > 0 || !side.errors.is_empty())
    }
}

/// The key-value namespaces of a drive, all together, at the end of the measurement, and what their
/// index and request managers did in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyValueCounts {
    /// Pairs that there are.
    pub keys: u64,
    /// Bytes of their keys and values; null where that is not known.
    pub live_bytes: Option<u64>,
    /// Bytes of the mapping units that they take.
    pub allocated_bytes: u64,
    /// Bytes of the mapping units that they may take.
    pub capacity_bytes: u64,
    /// Allocated bytes over live ones; null without any.
    pub space_amplification: Option<f64>,
    /// Commands that found no such key: Retrieves, Exists, Deletes and Lists of none.
    pub misses: u64,
    /// Flash pages read for hosts and for the index, for each Retrieve; null without Retrieves, and
    /// where other commands read as well an upper bound.
    pub flash_reads_per_retrieve: Option<f64>,
    /// Looks at pages of the index.
    pub index_lookups: u64,
    /// Those that found their page in DRAM; null without any.
    pub index_hit_ratio: Option<f64>,
    /// Pages of the index.
    pub index_pages: u64,
    /// Of these, how many fit into its DRAM; null: all.
    pub index_dram_pages: Option<u64>,
    /// Busy time of the request managers over the measured time, of all of them 1.
    pub manager_utilisation: f64,
}

/// What several namespaces hold together.
pub fn sum_of(counts: impl IntoIterator<Item = PairCounts>) -> Option<PairCounts> {
    counts.into_iter().reduce(|sum, more| PairCounts {
        pairs: sum.pairs + more.pairs,
        units: sum.units + more.units,
        capacity: sum.capacity + more.capacity,
        index_pages: sum.index_pages + more.index_pages,
        // They share one DRAM.
        index_dram_pages: sum.index_dram_pages,
    })
}
