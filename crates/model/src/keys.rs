//! The contract for key-value commands. Keys themselves stay with the host of the model: it says
//! which pair a command is about when the model asks, and the model says when things happen.

use crate::io::{NamespaceId, Tag};
use serde::{Deserialize, Serialize};

/// What a key-value command does (NVMe Key Value Command Set Specification 1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum KeyOperation {
    /// Stores a value under a key.
    Store,
    /// Stores a value only if the key exists, or only if it does not: looked up before storing.
    StoreIf,
    /// Returns the value of a key.
    Retrieve,
    /// Removes a key and its value.
    Delete,
    /// Says whether there is a key.
    Exist,
    /// Returns keys in order.
    List,
}

/// A key-value command as the host gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyRequest {
    /// Chosen by the host; unique among outstanding commands.
    pub tag: Tag,
    pub operation: KeyOperation,
    pub namespace: NamespaceId,
    /// Where in the index the key belongs: [`token`] of it.
    pub token: u64,
    pub key_bytes: u8,
    /// Bytes of the value (Store) or of the host's buffer (Retrieve, List).
    pub bytes: u32,
}

/// Names a pair. Chosen by the host, and small: names of pairs that are gone are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PairId(pub u32);

/// What the host says when the model asks with [`crate::io::Output::Decide`]. This instant is the
/// command's place in the order of all: what it stores or removes is so for whoever comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It is about this pair, which exists, or which a Store makes.
    Pair {
        pair: PairId,
        /// What goes to the host (Retrieve), or what of the value before stays in front of the new
        /// one and has to be read for that (Store).
        bytes: u32,
    },
    /// There is no such key, and nothing to do once that is known.
    Absent,
    /// The key exists, and for this reason nothing is done once that is known (Store).
    Refused { pair: PairId },
    /// So many bytes of keys go to the host (List).
    Keys { bytes: u32 },
}

/// A pair that preconditioning stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairToFill {
    pub pair: PairId,
    /// [`token`] of its key.
    pub token: u64,
    pub key_bytes: u8,
    pub value_bytes: u32,
}

/// A pair whose latest value a power cut has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPair {
    pub namespace: NamespaceId,
    pub pair: PairId,
    /// It is as it was before this Store, counted among those of the namespace that found room,
    /// from 0. `None`: the pair is gone, and its name is free.
    pub since: Option<u64>,
}

/// What key-value namespaces hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    pub pairs: u64,
    /// Mapping units that they take.
    pub units: u64,
    /// Mapping units that they may take.
    pub capacity: u64,
    pub index_pages: u64,
    /// Of these, how many fit into its DRAM; `None`: all.
    pub index_dram_pages: Option<u64>,
}

/// The token of a key: XXH3 of its bytes.
#[inline]
pub fn token(key: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(key)
}
