//! Where values are.
//!
//! A value stays where it is as long as somebody needs it: the table of keys, or a command that
//! returns it though its key has got another since. So each is counted, and goes with the last use.
//!
//! Where pairs outlive the process ([`Values::kept`]), whoever keeps the values keeps the keys with
//! them. It is told what becomes of every pair, and what it has to do for that it does in the
//! background.

mod ram;

pub use ram::RamValues;

use super::{Condition, Ready, StateId, StoreError, StoreJob};
use mynah_model::keys::PairId;

/// What takes the pairs of an earlier process, one after the other: key, name, place and bytes of the
/// value.
pub type Recall<'a> = dyn FnMut(&[u8], PairId, Place, u32) + 'a;

/// Where a value is, as whoever keeps it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(pub u64);

/// Pairs that outlive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptPairs {
    /// Unique to these pairs, and not all zero.
    pub identity: [u8; 16],
    /// Counts what has changed of them: more than before whenever anything has.
    pub changes: u64,
}

/// Keeps the values of pairs.
pub trait Values {
    /// Room for a value of so many bytes, which has one use from now on. `None`: there is no room.
    fn reserve(&mut self, bytes: u32) -> Option<Place>;

    /// The bytes of a value that is not finished, to be written. `None`: they are not kept.
    fn bytes_mut(&mut self, place: Place, bytes: u32) -> Option<&mut [u8]>;

    /// The value is finished, and replaces the one that its key had `before`. Returns where it is
    /// from now on.
    fn finish(&mut self, place: Place, before: Option<Place>) -> Place;

    /// Adds a use of the value of a key with this token, and returns the place to read it by.
    fn pin(&mut self, place: Place, token: u64) -> Place;

    /// Ends one use; with the last one the value is gone.
    fn release(&mut self, place: Place);

    /// Copies bytes from `skip` on of a value that has `bytes` bytes.
    fn read(&self, place: Place, bytes: u32, skip: u32, into: &mut [u8]);

    /// The bytes of a value, where they are in memory as they are.
    fn bytes(&self, _place: Place, _bytes: u32) -> Option<&[u8]> {
        None
    }

    /// Says that a value will soon be used.
    fn prefetch(&self, _place: Place) {}

    /// Identifies the pairs that outlive the process; `None`: they end with it.
    fn kept(&self) -> Option<KeptPairs> {
        None
    }

    /// The sets of keys with pairs of an earlier process that nobody has recalled.
    fn left(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Gives out the pairs that a set of keys had in an earlier process, in the order of their keys,
    /// each with one use of its value. Once.
    fn recall(&mut self, _set: u32, _each: &mut Recall<'_>) {}

    /// A key of a set has got this value. `Later`: the command that stores it must not complete until
    /// the job has finished, because too much is under way.
    fn keep(&mut self, _set: u32, _key: &[u8], _place: Place, _bytes: u32) -> Ready {
        Ready::Now
    }

    /// There is no such key any more. `Later`: as for [`Values::keep`].
    fn forget(&mut self, _set: u32, _key: &[u8]) -> Ready {
        Ready::Now
    }

    /// A set has no keys any more.
    fn forget_all(&mut self, _set: u32) {}

    /// The names of all pairs of a set, in the order of their keys: what a saved state of the drive
    /// calls them. They are kept by [`Values::close`].
    fn name(&mut self, _set: u32, _names: Vec<PairId>) {}

    /// Whether so much is under way that commands have to wait.
    fn is_behind(&self) -> bool {
        false
    }

    /// Puts everything on stable storage that became of pairs so far.
    fn flush(&mut self) -> Ready {
        Ready::Now
    }

    /// The next job that has finished, and how.
    fn finished(&mut self) -> Option<(StoreJob, Result<(), StoreError>)> {
        None
    }

    /// What can be done now. It changes in [`Values::finished`] alone, and in calls that block.
    fn condition(&self) -> Condition {
        Condition::Good
    }

    /// Tries again what did not work; never blocks. Whether it wants to be called again, a second
    /// later or so.
    fn tend(&mut self) -> bool {
        false
    }

    /// Puts everything on stable storage, what there was no room for included if there is now. Nothing
    /// changes after it; it may block.
    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Does what [`Values::settle`] does, and keeps the names of pairs for a saved state of the
    /// drive. The last call; it may block.
    fn close(&mut self, _state: Option<StateId>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Makes values up from their keys and of how often these were stored, and keeps none: for work on
/// performance, where memory matters and values do not.
///
/// A place counts how often a key was stored; a value is read by what is made of that and the token
/// of the key.
#[derive(Debug, Default)]
pub struct PatternValues;

/// A number as random as can be of another (Vigna's SplitMix64).
#[inline]
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl Values for PatternValues {
    fn reserve(&mut self, _bytes: u32) -> Option<Place> {
        Some(Place(0))
    }

    fn bytes_mut(&mut self, _place: Place, _bytes: u32) -> Option<&mut [u8]> {
        None
    }

    fn finish(&mut self, _place: Place, before: Option<Place>) -> Place {
        Place(before.map_or(1, |Place(times)| times.wrapping_add(1)))
    }

    fn pin(&mut self, Place(times): Place, token: u64) -> Place {
        Place(mixed(token.wrapping_add(mixed(times))))
    }

    fn release(&mut self, _place: Place) {}

    fn read(&self, Place(seed): Place, _bytes: u32, skip: u32, into: &mut [u8]) {
        let mut at = u64::from(skip);
        let mut rest = into;
        while !rest.is_empty() {
            let word = mixed(seed.wrapping_add(at / 8)).to_le_bytes();
            let word = &word[(at % 8) as usize..];
            let bytes = word.len().min(rest.len());
            let (head, tail) = rest.split_at_mut(bytes);
            head.copy_from_slice(&word[..bytes]);
            at += bytes as u64;
            rest = tail;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_depends_on_key_and_times_and_can_be_read_in_parts() {
        let mut values = PatternValues;
        let once = values.finish(Place(0), None);
        let twice = values.finish(Place(0), Some(once));
        let mut all = |place, token| {
            let place = values.pin(place, token);
            let mut bytes = [0; 61];
            values.read(place, 61, 0, &mut bytes);
            for (from, to) in [(0, 3), (3, 20), (8, 16), (5, 61), (60, 61)] {
                let mut part = vec![0; to - from];
                values.read(place, 61, from as u32, &mut part);
                assert_eq!(part, bytes[from..to]);
            }
            bytes
        };
        let of_one = all(once, 7);
        assert_eq!(all(once, 7), of_one);
        assert_ne!(all(twice, 7), of_one);
        assert_ne!(all(once, 8), of_one);
    }
}
