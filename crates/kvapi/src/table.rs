//! The pairs of a device in this process, by key space: which there are, where their values are, and
//! what they take of the device. Keys have any length, so the table stands in for the device's own,
//! whose keys are those of NVMe commands.

use crate::code::Code;
use crate::spaces::RECORDS;
use mynah_device::{Condition, Place, Values};
use mynah_model::keys::{PairId, token};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

/// Pause between looks whether the store of values has caught up.
const NAP: Duration = Duration::from_micros(100);

/// `kvs_store_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Post,
    UpdateOnly,
    NoOverwrite,
    Append,
}

/// How much of a value a retrieval found and copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retrieved {
    /// Bytes of the whole value.
    pub(crate) size: u32,
    /// Bytes that were copied.
    pub(crate) copied: u32,
}

/// How pairs are laid down, and what there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) header_bytes: u32,
    pub(crate) unit_bytes: u32,
    pub(crate) capacity: u64,
    pub(crate) keys_max: u64,
    pub(crate) value_max: u32,
}

impl Layout {
    fn units(&self, key_bytes: usize, value_bytes: u32) -> u64 {
        let bytes = u64::from(self.header_bytes) + key_bytes as u64 + u64::from(value_bytes);
        bytes.div_ceil(self.unit_bytes.max(1).into()).max(1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    place: Place,
    bytes: u32,
    id: PairId,
}

#[derive(Default)]
struct Space {
    pairs: HashMap<Box<[u8]>, Pair>,
    /// The keys in order, from the first iterator on.
    order: Option<BTreeSet<Box<[u8]>>>,
    /// Bytes of all keys and values, and how many they may be.
    bytes: u64,
    limit: Option<u64>,
}

/// What a store does to the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// The pair that exists before the store.
    before: Option<Pair>,
    /// Bytes of the value afterwards.
    bytes: u32,
    appends: bool,
    /// The pair that exists after the store.
    pub(crate) id: PairId,
}

/// See the file's description.
pub(crate) struct Table {
    layout: Layout,
    spaces: Vec<Space>,
    values: Box<dyn Values + Send>,
    /// Those of records, if they are kept elsewhere.
    of_records: Option<Box<dyn Values + Send>>,
    /// Names of pairs: those that are free below the first that was never used.
    free: Vec<u32>,
    unused: u32,
    units: u64,
    count: u64,
}

impl Table {
    pub(crate) fn new(
        layout: Layout,
        values: Box<dyn Values + Send>,
        of_records: Option<Box<dyn Values + Send>>,
    ) -> Table {
        let spaces = (0..=u8::MAX).map(|_| Space::default()).collect();
        let (free, unused, units, count) = (Vec::new(), 0, 0, 0);
        Table { layout, spaces, values, of_records, free, unused, units, count }
    }

    /// Takes the pairs that an earlier process has left; false if they do not fit.
    pub(crate) fn recall(&mut self) -> bool {
        for (set, space) in (0..).zip(&mut self.spaces) {
            let (layout, units) = (&self.layout, &mut self.units);
            let (unused, count) = (&mut self.unused, &mut self.count);
            self.values.recall(set, &mut |key, _, place, bytes| {
                *units = units.saturating_add(layout.units(key.len(), bytes));
                space.bytes += key.len() as u64 + u64::from(bytes);
                *count += 1;
                space.pairs.insert(key.into(), Pair { place, bytes, id: PairId(*unused) });
                *unused = unused.saturating_add(1);
            });
        }
        let taken = self.units.saturating_mul(self.layout.unit_bytes.into());
        let are_few = self.count <= self.layout.keys_max && self.unused < u32::MAX;
        self.values.left().is_empty() && taken <= self.layout.capacity && are_few
    }

    /// All pairs: key space, key, name and bytes of the value.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u8, &[u8], PairId, u32)> {
        let spaces = (0..=u8::MAX).zip(&self.spaces);
        spaces.flat_map(|(id, space)| {
            space.pairs.iter().map(move |(key, pair)| (id, &key[..], pair.id, pair.bytes))
        })
    }

    /// Goes on storing changed pairs; `is_due`: they are to be put on stable storage, too.
    pub(crate) fn go_on(&mut self, is_due: bool) {
        if is_due {
            self.values.tend();
            if self.values.condition() == Condition::Good {
                let _ = self.values.flush();
            }
        }
        while self.values.finished().is_some() {}
    }

    /// Stores what is left to store; nothing can be stored afterwards.
    pub(crate) fn close(&mut self) {
        // What fails has been told.
        let _ = self.values.close(None);
    }

    /// Waits while too many changes of pairs are not stored yet.
    fn wait_for_values(&mut self) {
        while self.values.is_behind() && self.values.condition() == Condition::Good {
            if self.values.finished().is_none() {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Checks that values can be stored.
    fn check_values(&self) -> Result<(), Code> {
        match self.values.condition() {
            Condition::Good => Ok(()),
            Condition::Full => Err(Code::KeySpaceCapacity),
            Condition::Failed => Err(Code::SysIo),
        }
    }

    fn values_of(&mut self, space: u8) -> &mut dyn Values {
        match &mut self.of_records {
            Some(values) if space == RECORDS => &mut **values,
            _ => &mut *self.values,
        }
    }

    fn space(&mut self, space: u8) -> &mut Space {
        &mut self.spaces[usize::from(space)]
    }

    fn find(&self, space: u8, key: &[u8]) -> Option<Pair> {
        self.spaces[usize::from(space)].pairs.get(key).copied()
    }

    /// Bytes that are taken of the device.
    pub(crate) fn used(&self) -> u64 {
        self.units * u64::from(self.layout.unit_bytes)
    }

    /// Pairs of a key space, and bytes of them.
    pub(crate) fn counts(&self, space: u8) -> (u64, u64) {
        let space = &self.spaces[usize::from(space)];
        (space.pairs.len() as u64, space.bytes)
    }

    /// How many bytes the pairs of a key space may have.
    pub(crate) fn limit(&mut self, space: u8, limit: Option<u64>) {
        self.space(space).limit = limit;
    }

    pub(crate) fn size(&self, space: u8, key: &[u8]) -> Option<(PairId, u32)> {
        self.find(space, key).map(|pair| (pair.id, pair.bytes))
    }

    /// Plans a store of `bytes` bytes without changing anything.
    ///
    /// # Errors
    /// If nothing is to be stored.
    pub(crate) fn plan(
        &self,
        space: u8,
        key: &[u8],
        bytes: u32,
        kind: StoreKind,
    ) -> Result<Planned, Code> {
        let before = self.find(space, key);
        match (before, kind) {
            (None, StoreKind::UpdateOnly) => return Err(Code::KeyNotExist),
            (Some(_), StoreKind::NoOverwrite) => return Err(Code::ValueUpdateNotAllowed),
            _ => {}
        }
        let held = before.map_or(0, |pair| pair.bytes);
        let appends = kind == StoreKind::Append;
        let bytes = bytes.checked_add(if appends { held } else { 0 });
        let bytes = bytes.filter(|&bytes| bytes <= self.layout.value_max);
        let bytes = bytes.ok_or(Code::ValueLengthInvalid)?;
        let inside = &self.spaces[usize::from(space)];
        let more = u64::from(bytes) + before.map_or(key.len() as u64, |_| 0);
        let fits = inside.bytes - u64::from(held) + more <= inside.limit.unwrap_or(u64::MAX);
        let taken = before.map_or(0, |pair| self.layout.units(key.len(), pair.bytes));
        let units = self.units - taken + self.layout.units(key.len(), bytes);
        let room = units.saturating_mul(self.layout.unit_bytes.into()) <= self.layout.capacity;
        let is_full = before.is_none() && self.count >= self.layout.keys_max;
        if !fits || !room || is_full || (self.free.is_empty() && self.unused == u32::MAX) {
            return Err(Code::KeySpaceCapacity);
        }
        let fresh = || PairId(self.free.last().copied().unwrap_or(self.unused));
        Ok(Planned { before, bytes, appends, id: before.map_or_else(fresh, |pair| pair.id) })
    }

    /// Carries out what was planned, of a table in which nothing has changed since.
    ///
    /// # Errors
    /// If there is no memory for the value.
    pub(crate) fn carry_out(
        &mut self,
        planned: &Planned,
        space: u8,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Code> {
        let &Planned { before, bytes, appends, id } = planned;
        self.check_values()?;
        let values = self.values_of(space);
        let place = values.reserve(bytes).ok_or(Code::KeySpaceCapacity)?;
        let head = bytes as usize - value.len();
        let old = before.filter(|_| appends && head > 0).map(|pair| {
            let mut old = vec![0; head];
            values.read(pair.place, pair.bytes, 0, &mut old);
            old
        });
        if let Some(into) = values.bytes_mut(place, bytes) {
            into[head..].copy_from_slice(value);
            if let Some(old) = old {
                into[..head].copy_from_slice(&old);
            }
        }
        let place = values.finish(place, before.map(|pair| pair.place));
        let _ = values.keep(space.into(), key, place, bytes);
        if let Some(before) = before {
            values.release(before.place);
        }
        self.wait_for_values();
        let pair = Pair { place, bytes, id };
        let taken = before.map_or(0, |pair| self.layout.units(key.len(), pair.bytes));
        self.units = self.units - taken + self.layout.units(key.len(), bytes);
        if let Some(before) = before {
            let inside = self.space(space);
            inside.bytes = inside.bytes - u64::from(before.bytes) + u64::from(bytes);
            if let Some(found) = inside.pairs.get_mut(key) {
                *found = pair;
            }
            return Ok(());
        }
        if self.free.pop().is_none() {
            self.unused += 1;
        }
        self.count += 1;
        let inside = self.space(space);
        inside.bytes += key.len() as u64 + u64::from(bytes);
        if let Some(order) = &mut inside.order {
            order.insert(key.into());
        }
        inside.pairs.insert(key.into(), pair);
        Ok(())
    }

    /// Stores a value.
    ///
    /// # Errors
    /// If it is not stored.
    pub(crate) fn store(
        &mut self,
        space: u8,
        key: &[u8],
        value: &[u8],
        kind: StoreKind,
    ) -> Result<(), Code> {
        let planned = self.plan(space, key, value.len() as u32, kind)?;
        self.carry_out(&planned, space, key, value)
    }

    /// Copies what of a value lies behind an offset, as far as there is room.
    ///
    /// # Errors
    /// If there is no such key, or its value is not so long.
    pub(crate) fn retrieve(
        &mut self,
        space: u8,
        key: &[u8],
        offset: u32,
        into: &mut [u8],
    ) -> Result<Retrieved, Code> {
        let pair = self.find(space, key).ok_or(Code::KeyNotExist)?;
        if offset > 0 && offset >= pair.bytes {
            return Err(Code::ValueOffsetInvalid);
        }
        let copied = (into.len() as u64).min(u64::from(pair.bytes - offset)) as usize;
        let values = self.values_of(space);
        let pinned = values.pin(pair.place, token(key));
        values.read(pinned, pair.bytes, offset, &mut into[..copied]);
        values.release(pinned);
        Ok(Retrieved { size: pair.bytes, copied: copied as u32 })
    }

    /// Deletes a pair: its name and the bytes of its value, if there was one.
    pub(crate) fn delete(&mut self, space: u8, key: &[u8]) -> Option<PairId> {
        let inside = self.space(space);
        let pair = inside.pairs.remove(key)?;
        inside.bytes -= key.len() as u64 + u64::from(pair.bytes);
        if let Some(order) = &mut inside.order {
            order.remove(key);
        }
        self.units -= self.layout.units(key.len(), pair.bytes);
        self.count -= 1;
        self.free.push(pair.id.0);
        let values = self.values_of(space);
        values.release(pair.place);
        let _ = values.forget(space.into(), key);
        self.wait_for_values();
        Some(pair.id)
    }

    /// Keys in order, from `from` on, or from there down, for as long as `wanted` says.
    pub(crate) fn walk(
        &mut self,
        space: u8,
        from: Bound<&[u8]>,
        descending: bool,
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) {
        let inside = self.space(space);
        let pairs = &inside.pairs;
        let order = inside.order.get_or_insert_with(|| pairs.keys().cloned().collect());
        if descending {
            let _ = order.range::<[u8], _>((Bound::Unbounded, from)).rev().all(|key| wanted(key));
        } else {
            let _ = order.range::<[u8], _>((from, Bound::Unbounded)).all(|key| wanted(key));
        }
    }
}
