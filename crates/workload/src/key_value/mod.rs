//! Flows of key-value commands: what they do, to which keys, with values of which size.
//!
//! Keys have numbers. Those that a flow finds on the drive are `0..keys`; what the flow stores
//! under new keys has the numbers after them. A number stands for the same key on every drive and
//! in every run ([`write_key`]), so whoever runs a flow needs to know only numbers. Numbers of keys
//! that are never stored ([`KeyValueFlow::is_missing`]) serve for misses.
//!
//! - A flow that only stores begins with none of its keys: it stores each of `0..keys` once, and
//!   ends.
//! - Otherwise `Store` is of a new key, `Update` a Store to one that exists. What is not a Store of
//!   a new key goes to keys that exist, unless it is to miss.
//! - Jobs of a flow that stores new keys or deletes some have keys of their own, those whose number
//!   divided by the number of jobs leaves the job's; other jobs share all keys.
//! - A key is chosen by others only when as many commands have followed its Store as may be
//!   outstanding, so that it is there.
//! - Deletes take the oldest key where keys are chosen in sequence, any other where they are not. A
//!   job whose keys are all gone stores if it can, and ends if it cannot.
//!
//! What exists in truth is known to whoever runs the flow: commands may overtake one another.

mod generator;
mod key;
#[cfg(test)]
mod tests;
mod text;

pub use crate::planned::KeyAction;
pub(super) use generator::DrawnKeys;
pub use key::{KEY_BYTES_MAX, key_token, write_key};
pub use text::{KeyDefaults, count};
pub(super) use text::{list_keys, list_keys_text};

use super::Mode;
use super::random::{Bounded, Zipf, bound, chance, normal};
use crate::seed;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The largest value that a flow may have, which is the largest of any drive.
pub const VALUE_BYTES_MAX: u32 = 32 << 20;

/// A flow of key-value commands.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValueFlow {
    pub mode: Mode,
    /// Shares of the key-value commands.
    pub mix: KeyMix,
    /// How many keys there are at the beginning; at least 1.
    pub keys: u64,
    pub key_size: KeySize,
    pub value_size: ValueSize,
    /// Distribution of accesses over the keys.
    pub choice: KeyChoice,
    /// Share of the Retrieves, Exists and Deletes that go to keys that do not exist, 0 to 1.
    pub misses: f64,
    /// How many keys a List asks for, the least and the most; all numbers between are equally
    /// frequent. A buffer for so many of the longest keys is given.
    pub list_keys: (u32, u32),
}

/// Shares of commands, 0 to 1, which add up to 1, in the order of [`KeyAction::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyMix(pub [f64; KeyAction::ALL.len()]);

impl KeyMix {
    /// A mix of one action alone.
    pub fn only(action: KeyAction) -> KeyMix {
        let mut mix = KeyMix([0.0; KeyAction::ALL.len()]);
        mix.0[action as usize] = 1.0;
        mix
    }

    /// The action's share of the commands, 0 to 1.
    pub fn share(&self, action: KeyAction) -> f64 {
        self.0[action as usize]
    }

    /// Whether new keys are stored, and nothing else is done.
    pub fn only_stores(&self) -> bool {
        self.share(KeyAction::Store) >= 1.0
    }

    /// Whether commands of the mix add keys or delete them.
    pub fn changes_keys(&self) -> bool {
        self.share(KeyAction::Store) > 0.0 || self.share(KeyAction::Delete) > 0.0
    }

    /// Whether anything on the drive is changed.
    pub fn modifies(&self) -> bool {
        let changes = |action: &KeyAction| action.stores() || *action == KeyAction::Delete;
        KeyAction::ALL.iter().filter(|action| changes(action)).any(|a| self.share(*a) > 0.0)
    }
}

/// How long keys are, in bytes: 1 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySize {
    /// All keys of the same length.
    Fixed(u8),
    /// Uniform from the first to the second. The length of a key depends on its number alone.
    Range(u8, u8),
}

impl KeySize {
    /// Shortest length in bytes.
    pub fn min(self) -> u8 {
        let (KeySize::Fixed(min) | KeySize::Range(min, _)) = self;
        min
    }

    /// Longest length in bytes.
    pub fn max(self) -> u8 {
        let (KeySize::Fixed(max) | KeySize::Range(_, max)) = self;
        max
    }

    /// Length of the key with this number, in bytes.
    #[inline]
    pub fn of(self, number: u64) -> u8 {
        match self {
            KeySize::Fixed(bytes) => bytes,
            KeySize::Range(min, max) => {
                let all = u64::from(max - min) + 1;
                min + (seed::mix(number ^ LENGTHS) % all) as u8
            }
        }
    }
}

/// Mixed into a key's number to draw its length, so that lengths do not depend on the key's bytes.
const LENGTHS: u64 = 0x6c65_6e67_7468_7321;
/// Mixed into a key's number to draw the size of its first value, independently of the others.
const VALUES: u64 = 0x7661_6c75_6573_2121;

/// How large values are, in bytes: 0 to [`VALUE_BYTES_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSize {
    /// All values of the same size.
    Fixed(u32),
    /// Uniform from the first to the second.
    Range(u32, u32),
    /// Sizes in bytes, and their weights.
    Split(Vec<(u32, u32)>),
    /// Normally distributed, rounded, from 1 byte to four deviations above the mean.
    Normal {
        /// Mean in bytes.
        mean: f64,
        /// Standard deviation in bytes.
        deviation: f64,
    },
    /// The `k`-th size from `min` on in proportion to `k` to the power of `-theta`: most values are
    /// small.
    Zipf {
        /// Exponent, 0.01 to 10.
        theta: f64,
        /// The smallest and most frequent.
        min: u32,
        max: u32,
    },
}

impl ValueSize {
    /// The largest that is drawn.
    pub fn max(&self) -> u32 {
        match self {
            ValueSize::Fixed(bytes) => *bytes,
            ValueSize::Range(_, max) | ValueSize::Zipf { max, .. } => *max,
            ValueSize::Split(parts) => parts.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
            ValueSize::Normal { mean, deviation } => {
                (mean + 4.0 * deviation).ceil().clamp(1.0, f64::from(VALUE_BYTES_MAX)) as u32
            }
        }
    }

    /// Mean size in bytes; approximate for some distributions.
    pub fn mean(&self) -> f64 {
        match self {
            ValueSize::Fixed(bytes) => f64::from(*bytes),
            ValueSize::Range(min, max) => (f64::from(*min) + f64::from(*max)) / 2.0,
            ValueSize::Split(parts) => {
                let weight = |part: &(u32, u32)| f64::from(part.1);
                let total: f64 = parts.iter().map(weight).sum();
                parts.iter().map(|part| f64::from(part.0) * weight(part)).sum::<f64>() / total
            }
            ValueSize::Normal { mean, .. } => *mean,
            ValueSize::Zipf { .. } => {
                let law = SizeLaw::new(self);
                let mut rng = seed::stream(0);
                (0..4096).map(|_| f64::from(law.draw(&mut rng))).sum::<f64>() / 4096.0
            }
        }
    }
}

/// Which keys commands go to, of those that exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyChoice {
    /// Uniform over all keys.
    Uniform,
    /// The `k`-th most popular in proportion to `k` to the power of `-theta`. Popularity is
    /// scattered over the keys.
    Zipf {
        /// Exponent, 0.01 to 10.
        theta: f64,
    },
    /// The same, but the last key that was stored is the most popular, and so on.
    Latest {
        /// Exponent, as in [`KeyChoice::Zipf`].
        theta: f64,
    },
    /// One after the other in the order of their numbers, and from the first again.
    Sequential,
}

impl KeyValueFlow {
    /// Keys that are on the drive when the flow begins: `0..initial_keys()`.
    pub fn initial_keys(&self) -> u64 {
        if self.mix.only_stores() { 0 } else { self.keys }
    }

    /// The size of the value that is on the drive under key `number` when the flow begins.
    pub fn initial_value(&self, number: u64) -> u32 {
        match self.value_size {
            ValueSize::Fixed(bytes) => bytes,
            _ => SizeLaw::new(&self.value_size).of(number),
        }
    }

    /// Keys on the drive when the flow begins: number, length of the key, and size of the value.
    pub fn initial(&self) -> impl Iterator<Item = (u64, u8, u32)> + '_ {
        self.initial_from(0)
    }

    /// Like [`KeyValueFlow::initial`], from the key with this number on.
    pub fn initial_from(&self, first: u64) -> impl Iterator<Item = (u64, u8, u32)> + '_ {
        let law = SizeLaw::new(&self.value_size);
        (first..self.initial_keys()).map(move |key| (key, self.key_size.of(key), law.of(key)))
    }

    /// Numbers from here on are keys that are never stored.
    pub fn missing(&self) -> u64 {
        // Keys of less than eight bytes are numbered with what fits into them.
        1 << (8 * u32::from(self.key_size.min().min(8)) - 1)
    }

    /// Whether `number` is of a key that is never stored.
    pub fn is_missing(&self, number: u64) -> bool {
        number >= self.missing()
    }

    /// Bytes of a buffer that takes the value of any key.
    pub fn buffer_bytes(&self) -> u32 {
        self.value_size.max()
    }

    /// Bytes of a buffer that takes a List of so many keys: their number, and for each two bytes of
    /// length and the key, in whole dwords.
    pub fn list_bytes(&self, keys: u32) -> u32 {
        let entry = (2 + u32::from(self.key_size.max())).next_multiple_of(4);
        entry.saturating_mul(keys).saturating_add(4)
    }

    /// What is wrong with the flow, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let shares = self.mix.0;
        if shares.iter().any(|share| !(0.0..=1.0).contains(share))
            || (shares.iter().sum::<f64>() - 1.0).abs() > 1e-9
        {
            return Some("the shares of its commands do not add up to 100 %".to_owned());
        }
        if self.key_size.min() == 0 || self.key_size.min() > self.key_size.max() {
            return Some("keys have 1 to 255 bytes, the shortest first".to_owned());
        }
        if self.keys == 0 || self.keys > self.missing() {
            return Some(format!(
                "{} keys of {} bytes: there are 1 to {}, and as many for misses",
                self.keys,
                self.key_size.min(),
                self.missing()
            ));
        }
        if self.value_size.max() > VALUE_BYTES_MAX {
            return Some("values have at most 32 MiB".to_owned());
        }
        if self.list_keys.0 == 0 || self.list_keys.0 > self.list_keys.1 {
            return Some("a List asks for 1 or more keys, the fewest first".to_owned());
        }
        None
    }
}

/// Sampler of value sizes.
#[derive(Clone, Debug)]
enum SizeLaw {
    Fixed(u32),
    Range(u32, Bounded),
    Split(Vec<(u64, u32)>),
    Normal { mean: f64, deviation: f64, max: f64 },
    Zipf(u32, Zipf),
}

impl SizeLaw {
    fn new(size: &ValueSize) -> SizeLaw {
        match *size {
            ValueSize::Fixed(bytes) => SizeLaw::Fixed(bytes),
            ValueSize::Range(min, max) => {
                SizeLaw::Range(min, Bounded::new(u64::from(max.saturating_sub(min)) + 1))
            }
            ValueSize::Split(ref parts) => {
                let total: u64 = parts.iter().map(|part| u64::from(part.1)).sum();
                let mut sum = 0;
                let part = |&(bytes, weight): &(u32, u32)| {
                    sum += u64::from(weight);
                    (bound(sum as f64 / total.max(1) as f64), bytes)
                };
                SizeLaw::Split(parts.iter().map(part).collect())
            }
            ValueSize::Normal { mean, deviation } => {
                SizeLaw::Normal { mean, deviation, max: f64::from(size.max()) }
            }
            ValueSize::Zipf { theta, min, max } => {
                SizeLaw::Zipf(min, Zipf::new(u64::from(max.saturating_sub(min)) + 1, theta))
            }
        }
    }

    /// The size of the value that key `number` begins with.
    fn of(&self, number: u64) -> u32 {
        match self {
            SizeLaw::Fixed(bytes) => *bytes,
            _ => self.draw(&mut seed::stream(number ^ VALUES)),
        }
    }

    #[inline]
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        match self {
            SizeLaw::Fixed(bytes) => *bytes,
            SizeLaw::Range(min, sizes) => min + sizes.draw(rng) as u32,
            SizeLaw::Split(table) => {
                let draw = chance(rng);
                table.iter().find(|(bound, _)| draw < *bound).map_or(0, |&(_, bytes)| bytes)
            }
            SizeLaw::Normal { mean, deviation, max } => {
                (mean + deviation * normal(rng)).round().clamp(1.0, *max) as u32
            }
            SizeLaw::Zipf(min, zipf) => min + zipf.draw(rng) as u32,
        }
    }
}
