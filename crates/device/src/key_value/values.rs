//! Where values are.
//!
//! A value stays where it is as long as somebody needs it: the table of keys, or a command that
//! returns it though its key has got another since. So each is counted, and goes with the last use.

mod ram;

pub use ram::RamValues;

/// Where a value is, as whoever keeps it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(pub u64);

/// Keeps the values of pairs.
pub trait Values {
    /// Room for a value of so many bytes, with one use. `None`: there is none.
    fn reserve(&mut self, bytes: u32) -> Option<Place>;

    /// The bytes of a value that is not finished, to be written. `None`: they are not kept.
    fn bytes_mut(&mut self, place: Place, bytes: u32) -> Option<&mut [u8]>;

    /// The value is finished and takes the place of another, if there is one under its key: where it
    /// is from now on.
    fn finish(&mut self, place: Place, before: Option<Place>) -> Place;

    /// One use more, of the value of a key with this token: what it is to be read by.
    fn pin(&mut self, place: Place, token: u64) -> Place;

    /// One use less.
    fn release(&mut self, place: Place);

    /// Copies bytes of a value of so many, from `skip` on.
    fn read(&self, place: Place, bytes: u32, skip: u32, into: &mut [u8]);

    /// The bytes of a value, where they are in memory as they are.
    fn bytes(&self, _place: Place, _bytes: u32) -> Option<&[u8]> {
        None
    }

    /// Says that a value will soon be used.
    fn prefetch(&self, _place: Place) {}
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
