//! Which units are hot: how often each was written lately, in four bits.
//!
//! The framework of Hsieh, Kuo and Chang ("Efficient identification of hot data for flash memory
//! storage systems", ACM Transactions on Storage 2(1), 2006): each write of a unit to flash
//! counts in saturating counters of four bits, which are halved again and again, so that what
//! happened long ago counts little. A unit is hot while all its counters have reached the
//! threshold. Where there is a counter for every unit, a unit has that one (their *direct
//! address method*); where there are fewer, two hash functions give it two, and units that
//! share both with hot ones pass for hot.
//!
//! Unlike theirs, counters are not halved all at once but in turn, a word of sixteen at a time,
//! so that no single write has to wait for the whole table.

use crate::config::HotData;
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::hash::StateHash;
use crate::number::Lpn;
use serde::{Deserialize, Serialize};

/// Largest count: counters have 4 bits.
const MOST: u8 = 15;
/// Bits that stay in a word whose counters have been halved.
const HALVED: u64 = 0x7777_7777_7777_7777;
/// Odd numbers that spread units over the counters (multiplicative hashing): 2^64 over the
/// golden ratio, and the multiplier of the generator MMIX.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x5851_f42d_4c95_7f2d];
/// A word is saved in pieces of 22 bits, which begin here.
const PIECES: [u32; 3] = [0, 22, 44];
const PIECE: u32 = (1 << 22) - 1;
pub(crate) const COUNTERS_PER_WORD: u32 = 16;

/// How often units were written lately.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Hotness {
    words: Vec<u64>,
    counters: u64,
    /// Whether units share counters.
    hashed: bool,
    threshold: u8,
    /// Writes in which every counter is halved once.
    decay: u64,
    /// The word that is halved next.
    next: usize,
    /// Words that are due to be halved, times `decay`.
    due: u64,
}

/// Counters of a drive of `units` mapping units.
fn counters(data: &HotData, units: u32) -> u32 {
    data.counters.unwrap_or(units).min(units).next_multiple_of(COUNTERS_PER_WORD)
}

/// Writes in which every counter of a drive of `units` mapping units is halved once.
pub(crate) fn decay(data: &HotData, units: u32) -> u32 {
    data.decay.unwrap_or(counters(data, units))
}

impl Hotness {
    pub(crate) fn new(data: &HotData, units: u32) -> Hotness {
        let counters = counters(data, units);
        Hotness {
            words: vec![0; (counters / COUNTERS_PER_WORD) as usize],
            counters: counters.into(),
            hashed: counters < units,
            threshold: data.threshold,
            decay: decay(data, units).into(),
            next: 0,
            due: 0,
        }
    }

    /// The counters of `lpn`, the same one twice where it has one of its own.
    #[inline]
    fn places(&self, lpn: Lpn) -> [u64; 2] {
        if !self.hashed {
            return [lpn.0.into(); 2];
        }
        SPREAD.map(|odd| {
            let hash = (u64::from(lpn.0) + 1).wrapping_mul(odd) >> 32;
            (hash * self.counters) >> 32
        })
    }

    #[inline]
    fn count(&self, place: u64) -> u8 {
        (self.words[(place / 16) as usize] >> (place % 16 * 4) & 15) as u8
    }

    /// `lpn` is written: counts that, and says whether it is hot now.
    pub(crate) fn write(&mut self, lpn: Lpn) -> bool {
        let [first, second] = self.places(lpn);
        self.add(first, 1);
        if second != first {
            self.add(second, 1);
        }
        let hot = self.is_hot(lpn);
        self.due += self.words.len() as u64;
        while self.due >= self.decay {
            self.due -= self.decay;
            let word = &mut self.words[self.next];
            *word = *word >> 1 & HALVED;
            self.next = (self.next + 1) % self.words.len();
        }
        hot
    }

    /// Adds to the counter at `place`.
    fn add(&mut self, place: u64, count: u8) {
        let more = (self.count(place) + count).min(MOST) - self.count(place);
        self.words[(place / 16) as usize] += u64::from(more) << (place % 16 * 4);
    }

    /// Whether `lpn` was written often lately.
    pub(crate) fn is_hot(&self, lpn: Lpn) -> bool {
        self.places(lpn).iter().all(|&place| self.count(place) >= self.threshold)
    }

    /// Gives `lpn`, which has not been counted yet, `count` writes.
    pub(crate) fn start_with(&mut self, lpn: Lpn, count: u8) {
        let [first, second] = self.places(lpn);
        self.add(first, count);
        if second != first {
            self.add(second, count);
        }
    }

    /// Forgets everything: the counters were in DRAM.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        (self.next, self.due) = (0, 0);
    }

    /// Adds the counters, and which are halved next.
    pub(crate) fn hash(&self, hash: &mut StateHash) {
        let words = self.words.iter().copied().chain([self.next as u64, self.due]);
        words.flat_map(|word| [word as u32, (word >> 32) as u32]).for_each(|half| hash.add(half));
    }

    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        for piece in PIECES {
            out.numbers(self.words.iter().map(|word| (word >> piece) as u32 & PIECE));
        }
        out.number(self.next as u64);
        out.number(self.due);
    }

    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        self.words.fill(0);
        for piece in PIECES {
            let numbers = input.all("counts of writes", self.words.len(), PIECE + 1)?;
            for (word, number) in self.words.iter_mut().zip(numbers) {
                *word |= u64::from(number) << piece;
            }
        }
        let (next, due) = (input.number()?, input.number()?);
        if next >= self.words.len() as u64 || due >= self.decay {
            return Err(StateError::Damaged("the turn of counts of writes".into()));
        }
        (self.next, self.due) = (next as usize, due);
        Ok(())
    }
}

/// How common each count is, long after a unit began to be written at random `rate` times
/// between one halving of its counter and the next, on average: at any moment.
pub(crate) fn counts(rate: f64) -> [f64; MOST as usize + 1] {
    /// Moments between two halvings that are looked at.
    const MOMENTS: u32 = 16;
    /// Halvings after which what a counter began with does not matter: it has four bits.
    const HALVINGS: u32 = 64;
    type Counts = [f64; MOST as usize + 1];
    // After a Poisson number of further writes, with `mean` of them on average.
    let after = |before: &Counts, mean: f64| {
        let mut counts = [0.0; MOST as usize + 1];
        for (from, &share) in before.iter().enumerate() {
            let (mut left, mut poisson) = (1.0, libm::exp(-mean));
            for (more, count) in counts[from..usize::from(MOST)].iter_mut().enumerate() {
                *count += share * poisson;
                left -= poisson;
                poisson *= mean / (more + 1) as f64;
            }
            counts[usize::from(MOST)] += share * left.max(0.0);
        }
        counts
    };
    let mut rest: Counts = [0.0; MOST as usize + 1];
    rest[0] = 1.0;
    for _ in 0..HALVINGS {
        let full = after(&rest, rate);
        rest = std::array::from_fn(|count| match count {
            0..8 => full[2 * count] + full[2 * count + 1],
            _ => 0.0,
        });
    }
    let mut mean = [0.0; MOST as usize + 1];
    for moment in 0..MOMENTS {
        let since = (f64::from(moment) + 0.5) / f64::from(MOMENTS);
        let counts = after(&rest, rate * since);
        mean.iter_mut().zip(counts).for_each(|(mean, share)| *mean += share / f64::from(MOMENTS));
    }
    mean
}

/// Of units with these `counts`: the share that is hot when it is written, that write counted,
/// and the share that is at any moment.
pub(crate) fn hot_shares(counts: &[f64; MOST as usize + 1], threshold: u8) -> (f64, f64) {
    let from = |least: u8| counts[usize::from(least)..].iter().sum::<f64>().clamp(0.0, 1.0);
    (from(threshold - 1), from(threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn data(counters: Option<u32>, decay: Option<u32>) -> HotData {
        HotData { counters, decay, threshold: 4 }
    }

    fn below(random: &mut Xoshiro256PlusPlus, n: u32) -> u32 {
        ((u64::from(random.next_u32()) * u64::from(n)) >> 32) as u32
    }

    #[test]
    fn a_unit_is_hot_once_it_was_written_often_and_cools_down() {
        let mut hotness = Hotness::new(&data(None, Some(2000)), 1000);
        let hot: Vec<bool> = (0..4).map(|_| hotness.write(Lpn(7))).collect();
        assert_eq!(hot, [false, false, false, true]);
        assert!(!hotness.is_hot(Lpn(8)));
        // Every counter is halved within 2,000 writes.
        (0..2000).for_each(|at| _ = hotness.write(Lpn(100 + at % 900)));
        assert!(!hotness.is_hot(Lpn(7)));
        (0..40).for_each(|_| _ = hotness.write(Lpn(9)));
        assert_eq!(hotness.count(9), MOST);
    }

    #[test]
    fn counts_are_those_of_random_writes() {
        // A twentieth of the units takes half of the writes.
        let mut hotness = Hotness::new(&data(None, None), 16_000);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let (mut hot, mut written) = ([0.0; 2], [0.0; 2]);
        for at in 0..16_000 * 40 {
            let kind = usize::from(random.next_u32() % 2 == 0);
            let lpn =
                if kind == 0 { below(&mut random, 800) } else { 800 + below(&mut random, 15_200) };
            let is_hot = hotness.write(Lpn(lpn));
            if at > 16_000 * 20 {
                written[kind] += 1.0;
                hot[kind] += f64::from(u8::from(is_hot));
            }
        }
        for (kind, (first, end)) in [(0, 800), (800, 16_000)].into_iter().enumerate() {
            let counts = counts(8000.0 / f64::from(end - first));
            assert!((counts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let (of_writes, of_units) = hot_shares(&counts, 4);
            let here = (first..end).filter(|&lpn| hotness.is_hot(Lpn(lpn))).count() as f64;
            let here = here / f64::from(end - first);
            assert!((hot[kind] / written[kind] - of_writes).abs() < 0.01, "{kind}: {of_writes}");
            assert!((here - of_units).abs() < 0.02, "{kind}: {here} and {of_units}");
        }
    }

    #[test]
    fn few_counters_mistake_few_units() {
        // 500 of 100,000 units are hot, and 16,384 counters are shared by all.
        let mut hotness = Hotness::new(&data(Some(16_384), None), 100_000);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
        for _ in 0..400_000 {
            let hot = random.next_u32() % 10 > 0;
            let lpn = if hot { below(&mut random, 500) } else { 500 + below(&mut random, 99_500) };
            hotness.write(Lpn(lpn));
        }
        let hot =
            |units: std::ops::Range<u32>| units.filter(|&lpn| hotness.is_hot(Lpn(lpn))).count();
        assert_eq!(hot(0..500), 500);
        // A counter is one of a hot unit's with probability 1000 / 16,384.
        let mistaken = hot(500..100_000);
        assert!((100..800).contains(&mistaken), "{mistaken}");
    }
}
