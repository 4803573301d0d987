//! Which values a key may have, so that a wrong one is found out, whoever stores what at the same time.
//!
//! Every Store and Delete of a key is a version of it, in the order in which they were issued. Values
//! carry key and version ([`Stamp`]); those that are too short for that are compared with what they
//! would be. A version is gone as soon as a later one has ended that was issued when nothing older was
//! outstanding any more: so there is a lowest version that a key may have, and the highest is the last
//! one issued. A Retrieve may return what was possible at any time while it was under way.
//!
//! All jobs share what is known, since they may store under the same keys.

use super::stamp::{HEADER_BYTES, Stamp};
use super::verify::{Mismatch, Place};
use mynah_wire::nvme::key::Key;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys are spread over so many tables, so that jobs seldom wait for one another.
const TABLES: u64 = 64;
/// So many mismatches are kept in full.
const KEPT_MAX: usize = 10;
/// Versions with which a short value is compared.
const COMPARED_MAX: u32 = 1_000;

/// Versions of a value that a key may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// The oldest version that may be stored; 0: any value, or none.
    low: u32,
    /// The newest that was issued; 0: the key was never touched.
    high: u32,
    /// The newest that is a Delete; 0: none.
    deleted: u32,
}

/// One in [`TABLES`] of the keys, under a lock of their own.
#[derive(Debug, Default)]
struct Table {
    states: Vec<State>,
    /// Outstanding versions by key, each with the oldest one outstanding when it was issued.
    outstanding: HashMap<u64, Vec<(u32, u32)>>,
}

impl Table {
    fn state(&mut self, key: u64) -> &mut State {
        let index = (key / TABLES) as usize;
        if self.states.len() <= index {
            self.states.resize(index + 1, State::default());
        }
        &mut self.states[index]
    }

    /// Takes a version out of those that are outstanding.
    fn ended(&mut self, key: u64, version: u32) -> Option<u32> {
        let versions = self.outstanding.get_mut(&key)?;
        let place = versions.iter().position(|&(issued, _)| issued == version)?;
        let (_, oldest) = versions.swap_remove(place);
        if versions.is_empty() {
            self.outstanding.remove(&key);
        }
        Some(oldest)
    }
}

/// What all jobs of a run know of the keys.
#[derive(Debug)]
pub(super) struct Versions {
    run: u64,
    tables: Vec<Mutex<Table>>,
}

impl Versions {
    /// Of a run that is told from others by this number.
    pub(super) fn new(run: u64) -> Versions {
        Versions { run, tables: (0..TABLES).map(|_| Mutex::default()).collect() }
    }

    fn table(&self, key: u64) -> MutexGuard<'_, Table> {
        let table = &self.tables[(key % TABLES) as usize];
        table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Store or Delete is being issued: its version.
    pub(super) fn begins(&self, key: u64, deletes: bool) -> u32 {
        let mut table = self.table(key);
        let state = table.state(key);
        state.high += 1;
        let version = state.high;
        if deletes {
            state.deleted = version;
        }
        let versions = table.outstanding.entry(key).or_default();
        let oldest = versions.iter().map(|&(issued, _)| issued).min().unwrap_or(version);
        versions.push((version, oldest));
        version
    }

    /// A Store or Delete of this version has ended.
    pub(super) fn ended(&self, key: u64, version: u32, success: bool) {
        let mut table = self.table(key);
        if let Some(oldest) = table.ended(key, version)
            && success
        {
            let state = table.state(key);
            state.low = state.low.max(oldest);
        }
    }

    /// Data that were not flushed may be lost: the key may have any of its versions, or none.
    pub(super) fn lost(&self, key: u64) {
        self.table(key).state(key).low = 0;
    }

    /// The lowest version that a key may have now.
    pub(super) fn low(&self, key: u64) -> u32 {
        self.table(key).state(key).low
    }

    /// What a key may have had since version `low` was the lowest. What a lost connection has taken
    /// back is not promised any more.
    fn since(&self, key: u64, low: u32) -> State {
        let state = *self.table(key).state(key);
        State { low: low.min(state.low), ..state }
    }

    /// Fills a buffer with the value of a version.
    pub(super) fn fill(&self, key: u64, version: u32, into: &mut [u8]) {
        let stamp = Stamp { run: self.run, address: key, generation: version };
        match into.len() < HEADER_BYTES {
            true => stamp.noise(into),
            false => stamp.write(into),
        }
    }

    /// The next key from `from` on, in steps of `step`, that was stored or deleted.
    pub(super) fn touched_from(&self, from: u64, step: u64) -> Option<u64> {
        let tables = self
            .tables
            .iter()
            .map(|table| table.lock().unwrap_or_else(PoisonError::into_inner).states.len() as u64);
        let end = tables.max().unwrap_or(0) * TABLES;
        let mut keys = (from..end).step_by(step.max(1) as usize);
        keys.find(|&key| self.table(key).state(key).high > 0)
    }
}

/// What one job found when it verified values.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) checked: u64,
    pub(super) mismatched: u64,
    pub(super) mismatches: Vec<Mismatch>,
}

impl Findings {
    /// Checks what came of a key that was asked for when version `low` was the lowest: `size` bytes, of
    /// which `data` have come, or nothing.
    pub(super) fn check(
        &mut self,
        versions: &Versions,
        (number, key): (u64, Key),
        low: u32,
        value: Option<(&[u8], u32)>,
    ) {
        let state = versions.since(number, low);
        self.checked += u64::from(state.low > 0);
        let found = match value {
            None if state.deleted >= state.low => return,
            None => "no such key".to_owned(),
            Some((data, size)) => match acceptable(versions, state, number, data, size) {
                Ok(()) => return,
                Err(found) => found,
            },
        };
        self.mismatch(key, expected(state), found);
    }

    /// A key that was asked for when version `low` was the lowest is there.
    pub(super) fn check_present(
        &mut self,
        versions: &Versions,
        (number, key): (u64, Key),
        low: u32,
    ) {
        let state = versions.since(number, low);
        self.checked += u64::from(state.low > 0);
        if state.low > 0 && state.low == state.high && state.deleted == state.low {
            self.mismatch(key, expected(state), "one".to_owned());
        }
    }

    /// A key that is never stored was found, or not.
    pub(super) fn check_missing(&mut self, key: Key, found: bool) {
        if found {
            self.mismatch(key, "no such key".to_owned(), "one".to_owned());
        }
    }

    fn mismatch(&mut self, key: Key, expected: String, found: String) {
        self.mismatched += 1;
        if self.mismatches.len() < KEPT_MAX {
            self.mismatches.push(Mismatch { place: Place::Key(key), expected, found });
        }
    }
}

fn expected(state: State) -> String {
    match (state.low, state.high) {
        (0, _) => "a value of this key, or none of ours".to_owned(),
        (low, high) if low == high && state.deleted == low => "no such key".to_owned(),
        (low, high) if low == high => format!("version {low}"),
        (low, high) => format!("version {low} to {high}"),
    }
}

/// Checks whether `data` may be a key's value, of `size` bytes; otherwise says what it is.
fn acceptable(
    versions: &Versions,
    state: State,
    number: u64,
    data: &[u8],
    size: u32,
) -> Result<(), String> {
    if data.len() < size as usize {
        return match state.low {
            // A larger value than any of this run's.
            0 => Ok(()),
            _ => Err(format!("a value of {size} bytes")),
        };
    }
    if data.len() < HEADER_BYTES {
        let oldest = state.low.max(1).max(state.high.saturating_sub(COMPARED_MAX));
        let mut right = [0; HEADER_BYTES];
        let right = &mut right[..data.len()];
        let is_one = (oldest..=state.high).any(|version| {
            versions.fill(number, version, right);
            *right == *data
        });
        let unknown = state.low == 0 || oldest > state.low;
        return match is_one || unknown {
            true => Ok(()),
            false => Err(format!("{} bytes of no such version", data.len())),
        };
    }
    let Some(stamp) = Stamp::read(data) else {
        return match state.low {
            0 => Ok(()),
            _ if data.iter().all(|&byte| byte == 0) => Err("zeros".to_owned()),
            _ => Err("no value of ours".to_owned()),
        };
    };
    let Stamp { run, address, generation } = stamp;
    if address != number {
        return Err(format!("version {generation} of key number {address}"));
    }
    if let Some(byte) = stamp.wrong_from(data) {
        return Err(format!(
            "version {generation} with a wrong checksum, wrong from byte {byte} on"
        ));
    }
    match (run == versions.run, state.low) {
        (_, 0) => Ok(()),
        (true, low) if (low..=state.high).contains(&generation) => Ok(()),
        (true, _) => Err(format!("version {generation}")),
        (false, _) => Err(format!("version {generation} of another run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new(b"k").unwrap()
    }

    fn value(versions: &Versions, version: u32, bytes: usize) -> Vec<u8> {
        let mut value = vec![0; bytes];
        versions.fill(5, version, &mut value);
        value
    }

    /// What is found wrong with a value, or with its absence.
    fn wrong(versions: &Versions, low: u32, value: Option<&[u8]>) -> Option<String> {
        let mut findings = Findings::default();
        let value = value.map(|data| (data, data.len() as u32));
        findings.check(versions, (5, key()), low, value);
        findings.mismatches.pop().map(|mismatch| mismatch.to_string())
    }

    #[test]
    fn a_version_is_gone_when_a_later_one_has_ended() {
        for bytes in [8, 31, 32, 100, 4096] {
            let versions = Versions::new(7);
            let first = versions.begins(5, false);
            let value_1 = value(&versions, first, bytes);
            assert_eq!(wrong(&versions, versions.low(5), None), None, "it may not be there yet");
            versions.ended(5, first, true);
            let low = versions.low(5);
            assert!(wrong(&versions, low, None).unwrap().contains("found no such key"));
            let second = versions.begins(5, false);
            let value_2 = value(&versions, second, bytes);
            assert_eq!(wrong(&versions, low, Some(&value_1)), None);
            assert_eq!(wrong(&versions, low, Some(&value_2)), None);
            versions.ended(5, second, true);
            // A Retrieve that was issued before may still return the first.
            assert_eq!(wrong(&versions, low, Some(&value_1)), None);
            let low = versions.low(5);
            assert!(wrong(&versions, low, Some(&value_1)).is_some(), "{bytes}");
            assert_eq!(wrong(&versions, low, Some(&value_2)), None);
        }
    }

    #[test]
    fn of_stores_at_once_any_may_be_the_last() {
        let versions = Versions::new(7);
        let all = [(); 3].map(|()| versions.begins(5, false));
        versions.ended(5, all[2], true);
        versions.ended(5, all[0], true);
        let low = versions.low(5);
        for version in all {
            assert_eq!(wrong(&versions, low, Some(&value(&versions, version, 64))), None);
        }
        versions.ended(5, all[1], true);
        // The next one ends that.
        let last = versions.begins(5, false);
        versions.ended(5, last, true);
        let message = wrong(&versions, versions.low(5), Some(&value(&versions, 2, 64))).unwrap();
        assert_eq!(message, "key k: expected version 4, found version 2");
    }

    #[test]
    fn a_key_is_absent_only_where_a_delete_may_be_the_last() {
        let versions = Versions::new(7);
        let stored = versions.begins(5, false);
        versions.ended(5, stored, true);
        let deleted = versions.begins(5, true);
        assert_eq!(wrong(&versions, versions.low(5), None), None);
        assert_eq!(wrong(&versions, versions.low(5), Some(&value(&versions, stored, 64))), None);
        versions.ended(5, deleted, true);
        let message = wrong(&versions, versions.low(5), Some(&value(&versions, stored, 64)));
        assert_eq!(message.unwrap(), "key k: expected no such key, found version 1");
        let stored = versions.begins(5, false);
        versions.ended(5, stored, true);
        assert!(wrong(&versions, versions.low(5), None).is_some());
        // A Store that failed changes nothing.
        let failed = versions.begins(5, false);
        versions.ended(5, failed, false);
        assert_eq!(wrong(&versions, versions.low(5), Some(&value(&versions, stored, 64))), None);
        // Without flushes a lost connection promises nothing.
        versions.lost(5);
        assert_eq!(wrong(&versions, versions.low(5), None), None);
    }

    #[test]
    fn wrong_values_are_said_to_be_what_they_are() {
        let (versions, other) = (Versions::new(7), Versions::new(8));
        let stored = versions.begins(5, false);
        versions.ended(5, stored, true);
        let says = |data: &[u8], what: &str| {
            let said = wrong(&versions, 1, Some(data)).expect(what);
            assert!(said.contains(what), "{said}");
        };
        let right = value(&versions, stored, 100);
        says(&[0; 100], "found zeros");
        says(&[9; 100], "found no value of ours");
        says(&right[..90], "wrong checksum, wrong from byte 28 on");
        says(&value(&other, stored, 100), "version 1 of another run");
        let mut spoilt = right.clone();
        spoilt[60] ^= 1;
        says(&spoilt, "wrong from byte 60 on");
        let mut foreign = vec![0; 100];
        versions.fill(6, 1, &mut foreign);
        says(&foreign, "version 1 of key number 6");
        let mut findings = Findings::default();
        findings.check(&versions, (5, key()), 1, Some((&right, 200)));
        assert!(findings.mismatches[0].found.contains("200 bytes"));
        // A key that nobody has touched may have anything but another's value.
        assert_eq!(wrong(&Versions::new(9), 0, Some(&[9; 100])), None);
        assert_eq!(wrong(&Versions::new(9), 0, Some(&right)), None);
        assert!(wrong(&Versions::new(9), 0, Some(&foreign)).is_some());
    }

    #[test]
    fn touched_keys_are_found_again() {
        let versions = Versions::new(7);
        for key in [3, 4, 200, 1_000] {
            versions.begins(key, false);
        }
        let found = |step: u64, first: u64| {
            let mut all = Vec::new();
            let mut from = first;
            while let Some(key) = versions.touched_from(from, step) {
                all.push(key);
                from = key + step;
            }
            all
        };
        assert_eq!(found(1, 0), [3, 4, 200, 1_000]);
        assert_eq!(found(2, 0), [4, 200, 1_000]);
        assert_eq!(found(2, 1), [3]);
    }
}
