//! Changes of pairs that the engine has not been given yet.

use mynah_device::{Arena, Place, RamValues, Values};
use std::collections::{HashMap, VecDeque};

/// What a change costs besides its key and value, so that many small ones are bounded, too.
const CHANGE_COST: u64 = 128;
/// How much the engine is given at once: all of it is copied before the next command is looked at.
const BATCH_BYTES: u64 = 512 << 10;
const BATCH_CHANGES: usize = 1024;

/// A set of keys, and one of them.
type Name = (u32, Box<[u8]>);

/// What becomes of pairs, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Put(Name, Box<[u8]>),
    Remove(Name),
    /// All keys of a set are removed.
    Clear(u32),
}

/// Changes that the engine is given together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    /// The number of the last of them.
    pub(super) upto: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
}

/// The latest change of a pair, and its place in the order of changes.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u64,
    /// Where its value is, which has a use for this, and how many bytes it has.
    value: Option<(Place, u32)>,
}

#[derive(Debug)]
enum Entry {
    Pair(Name),
    Clear(u32),
}

/// Changes in order. Of those of one pair only the last counts: it takes the place of the first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    accepted: u64,
    cost: u64,
    pending: HashMap<Name, Pending>,
    /// All changes in order. Those are obsolete whose pair is pending with another number.
    order: VecDeque<(u64, Entry)>,
}

fn cost(key: &[u8], value: Option<(Place, u32)>) -> u64 {
    CHANGE_COST + key.len() as u64 + value.map_or(0, |(_, bytes)| bytes.into())
}

impl Backlog {
    /// The number of the last change.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Memory that is held, in bytes.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn bytes(&self) -> u64 {
        self.cost - CHANGE_COST * self.pending.len() as u64
    }

    /// Adds the change of one key, to a value or to none. Returns the change's number.
    pub(super) fn change<A: Arena>(
        &mut self,
        set: u32,
        key: &[u8],
        value: Option<(Place, u32)>,
        values: &mut RamValues<A>,
    ) -> u64 {
        let name = (set, key.into());
        self.cost += cost(key, value);
        if let Some(pending) = self.pending.get_mut(&name) {
            let before = std::mem::replace(&mut pending.value, value);
            self.cost -= cost(key, before);
            if let Some((place, _)) = before {
                values.release(place);
            }
            return pending.number;
        }
        self.accepted += 1;
        let number = self.accepted;
        self.order.push_back((number, Entry::Pair(name.clone())));
        self.pending.insert(name, Pending { number, value });
        number
    }

    /// A set has no keys any more.
    pub(super) fn clear<A: Arena>(&mut self, set: u32, values: &mut RamValues<A>) {
        let gone = self.pending.extract_if(|name, _| name.0 == set);
        for ((_, key), pending) in gone {
            self.cost -= cost(&key, pending.value);
            if let Some((place, _)) = pending.value {
                values.release(place);
            }
        }
        self.accepted += 1;
        self.order.push_back((self.accepted, Entry::Clear(set)));
    }

    /// Some changes to be given to the engine now.
    pub(super) fn take<A: Arena>(&mut self, values: &mut RamValues<A>) -> Option<Batch> {
        let mut batch = Batch::default();
        while batch.bytes < BATCH_BYTES && batch.changes.len() < BATCH_CHANGES {
            let Some((number, entry)) = self.order.pop_front() else { break };
            batch.upto = number;
            let name = match entry {
                Entry::Clear(set) => {
                    batch.changes.push(Change::Clear(set));
                    continue;
                }
                Entry::Pair(name) => name,
            };
            if self.pending.get(&name).is_none_or(|pending| pending.number != number) {
                continue;
            }
            let Some(pending) = self.pending.remove(&name) else { continue };
            self.cost -= cost(&name.1, pending.value);
            batch.bytes += name.1.len() as u64;
            let Some((place, bytes)) = pending.value else {
                batch.changes.push(Change::Remove(name));
                continue;
            };
            let mut value = vec![0; bytes as usize].into_boxed_slice();
            values.read(place, bytes, 0, &mut value);
            values.release(place);
            batch.bytes += u64::from(bytes);
            batch.changes.push(Change::Put(name, value));
        }
        (batch.upto > 0).then_some(batch)
    }
}
