//! A log-linear histogram of durations: fixed memory, exact count, sum, minimum, maximum,
//! and percentiles within 1/256 of the true value.
//!
//! Every octave of picoseconds is divided into 128 equal buckets, so that the bucket of a
//! value is one count of leading zeros and a shift. A percentile is the middle of the bucket
//! that holds the sample of that rank (nearest rank, no interpolation), held within the
//! smallest and largest value seen.
//!
//! Why not the `hdrhistogram` crate: measured on the machine this was written on, its
//! `record` takes 2.8 to 4 ns with two significant digits, without an exact sum, and the
//! path of one I/O records some ten values; [`Histogram::record`] takes 1.8 ns with the sums,
//! [`Buckets::record`] less.

mod hdr;

pub use hdr::{counts, hgrm};

use crate::document::{Latency, Percentiles};
use mynah_stamp::Span;

/// Counts of values by magnitude, `1 << BITS` buckets an octave. The middle of a bucket is
/// within `1 / (2 << BITS)` of every value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets<const BITS: u32> {
    counts: Box<[u64]>,
}

impl<const BITS: u32> Default for Buckets<BITS> {
    fn default() -> Self {
        Buckets { counts: vec![0; Self::LEN].into_boxed_slice() }
    }
}

impl<const BITS: u32> Buckets<BITS> {
    /// How many buckets cover all durations.
    pub const LEN: usize = (65 - BITS as usize) << BITS;

    /// The bucket that holds `ps`.
    #[inline]
    pub const fn index(ps: u64) -> usize {
        let shift = 63 - (ps | (1 << BITS)).leading_zeros() - BITS;
        // What is left has no more bits than that; that it is said spares checks of the index.
        ((shift as usize) << BITS) + ((ps >> shift) & ((2 << BITS) - 1)) as usize
    }

    /// The smallest value of a bucket and how many values it holds.
    pub const fn range(index: usize) -> (u64, u64) {
        if index < 2 << BITS {
            return (index as u64, 1);
        }
        let shift = (index >> BITS) as u32 - 1;
        let mantissa = (index & ((1 << BITS) - 1)) as u64 | (1 << BITS);
        (mantissa << shift, 1 << shift)
    }

    /// The value halfway through a bucket.
    pub const fn middle(index: usize) -> u64 {
        let (low, width) = Self::range(index);
        low + width / 2
    }

    /// Counts a value, in picoseconds.
    #[inline]
    pub fn record(&mut self, ps: u64) {
        self.counts[Self::index(ps)] += 1;
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// The buckets that are not empty, from the smallest, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// The middle of the bucket that holds the value of rank `rank`, counted from 1 for the
    /// smallest; `None` if there are fewer values.
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        self.iter().find_map(|(index, count)| {
            seen += count;
            (seen >= rank).then(|| Self::middle(index))
        })
    }
}

/// The rank, from 1, of the `percentile` of `count` values. Percentiles are taken to a
/// ten-thousandth of a percent, so that 99.9 % of 1,000 is 999 and not a rounding above it.
pub fn rank(percentile: f64, count: u64) -> u64 {
    let parts = (percentile.clamp(0.0, 100.0) * 10_000.0).round() as u128;
    ((parts * u128::from(count)).div_ceil(1_000_000) as u64).max(1)
}

/// A latency histogram, with exact minimum, maximum and sum beside the buckets.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    buckets: Buckets<7>,
    count: u64,
    sum: u128,
    /// Squares are summed relative to the first value, so that nearly constant latencies
    /// do not cancel.
    origin: u64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: Buckets::default(),
            count: 0,
            sum: 0,
            origin: 0,
            squares: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Histogram {
        Histogram { buckets: self.buckets.clone(), ..*self }
    }

    /// Takes no memory, and touches no buckets but those between the smallest and the largest
    /// duration of either: some 10 KiB in place of 58 for latencies from 10 us to 10 ms.
    fn clone_from(&mut self, other: &Histogram) {
        let mut buckets = std::mem::take(&mut self.buckets.counts);
        buckets[self.occupied()].fill(0);
        buckets[other.occupied()].copy_from_slice(&other.buckets.counts[other.occupied()]);
        *self = Histogram { buckets: Buckets { counts: buckets }, ..*other };
    }
}

impl Histogram {
    /// The buckets outside of which all are empty.
    fn occupied(&self) -> std::ops::Range<usize> {
        match self.count {
            0 => 0..0,
            _ => Buckets::<7>::index(self.min)..Buckets::<7>::index(self.max) + 1,
        }
    }

    #[inline]
    pub fn record(&mut self, span: Span) {
        let ps = span.as_ps();
        // Rare, both of them, and the first value is one.
        if ps <= self.min {
            if self.count == 0 {
                self.origin = ps;
            }
            self.min = ps;
        }
        if ps > self.max {
            self.max = ps;
        }
        self.buckets.record(ps);
        self.count += 1;
        self.sum += u128::from(ps);
        let offset = ps.wrapping_sub(self.origin) as i64 as f64;
        self.squares += offset * offset;
    }

    /// Counts a duration `times` times.
    pub fn record_many(&mut self, span: Span, times: u64) {
        if times == 0 {
            return;
        }
        self.record(span);
        let (ps, more) = (span.as_ps(), times - 1);
        self.buckets.counts[Buckets::<7>::index(ps)] += more;
        self.count += more;
        self.sum += u128::from(ps) * u128::from(more);
        let offset = ps.wrapping_sub(self.origin) as i64 as f64;
        self.squares += offset * offset * more as f64;
    }

    /// Adds another histogram's samples.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        let shift = other.origin as f64 - self.origin as f64;
        let offsets = other.sum as f64 - other.origin as f64 * other.count as f64;
        self.squares += other.squares + 2.0 * shift * offsets + shift * shift * other.count as f64;
        self.buckets.merge(&other.buckets);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The smallest duration, in picoseconds, of every bucket that is not empty, and how many
    /// are in it; rising.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().map(|(index, count)| (Buckets::<7>::range(index).0, count))
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum in picoseconds.
    pub fn sum_ps(&self) -> u128 {
        self.sum
    }

    /// The shortest, or `None` if there are none.
    pub fn min(&self) -> Option<Span> {
        (self.count > 0).then(|| Span::from_ps(self.min))
    }

    /// The longest, or `None` if there are none.
    pub fn max(&self) -> Option<Span> {
        (self.count > 0).then(|| Span::from_ps(self.max))
    }

    /// The mean in nanoseconds, or `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1_000.0)
    }

    /// The standard deviation of the population in nanoseconds, or `None` without samples.
    pub fn stddev_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| {
            let count = self.count as f64;
            // The exact sum of offsets; it fits unless latencies add up to eons.
            let offsets = self.sum as i128 - i128::from(self.origin) * i128::from(self.count);
            let mean = offsets as f64 / count;
            (self.squares / count - mean * mean).max(0.0).sqrt() / 1_000.0
        })
    }

    /// The duration that `percentile` per cent of the samples do not exceed, within 1/256;
    /// `None` without samples.
    pub fn percentile(&self, percentile: f64) -> Option<Span> {
        let middle = self.buckets.at_rank(rank(percentile, self.count))?;
        Some(Span::from_ps(middle.clamp(self.min, self.max)))
    }

    /// The cumulative distribution: after every bucket that is not empty, the upper end of
    /// the bucket (at most the maximum) and the fraction of samples at or below it.
    pub fn cdf(&self) -> impl Iterator<Item = (Span, f64)> + '_ {
        let mut seen = 0;
        self.buckets.iter().map(move |(index, count)| {
            seen += count;
            let (low, width) = Buckets::<7>::range(index);
            let end = (low + (width - 1)).min(self.max);
            (Span::from_ps(end), seen as f64 / self.count as f64)
        })
    }

    /// What results say about these latencies; `None` without samples.
    pub fn latency(&self) -> Option<Latency> {
        let percentile = |p| self.percentile(p).map(Span::as_ns_f64);
        Some(Latency {
            min: self.min()?.as_ns_f64(),
            mean: self.mean_ns()?,
            stddev: self.stddev_ns()?,
            max: self.max()?.as_ns_f64(),
            percentiles: Percentiles {
                p50: percentile(50.0)?,
                p90: percentile(90.0)?,
                p95: percentile(95.0)?,
                p99: percentile(99.0)?,
                p99_9: percentile(99.9)?,
                p99_99: percentile(99.99)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&ps| histogram.record(Span::from_ps(ps)));
        histogram
    }

    /// Durations of every magnitude.
    fn durations() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift)
    }

    #[test]
    fn many_at_once_count_like_one_after_the_other() {
        let (mut at_once, mut singly) = (Histogram::default(), Histogram::default());
        for (ns, times) in [(70, 5), (3, 0), (900, 1), (71, 1_000)] {
            at_once.record_many(Span::from_ns(ns), times);
            (0..times).for_each(|_| singly.record(Span::from_ns(ns)));
        }
        assert_eq!(at_once, singly);
    }

    #[test]
    fn buckets_tile_all_durations() {
        let mut next = 0u64;
        for index in 0..Buckets::<7>::LEN {
            let (low, width) = Buckets::<7>::range(index);
            assert_eq!(low, next);
            assert_eq!(Buckets::<7>::index(low), index);
            assert_eq!(Buckets::<7>::index(low + (width - 1)), index);
            next = low.wrapping_add(width);
        }
        assert_eq!(next, 0, "the last bucket ends with the last duration");
    }

    #[test]
    fn ranks_do_not_suffer_from_rounding() {
        assert_eq!(rank(99.9, 1_000), 999);
        assert_eq!(rank(99.99, 10_000), 9_999);
        assert_eq!(rank(99.0, 150), 149);
        assert_eq!(rank(50.0, 1), 1);
        assert_eq!(rank(0.0, 10), 1);
        assert_eq!(rank(100.0, 10), 10);
    }

    #[test]
    fn a_constant_has_no_deviation_and_is_every_percentile() {
        let histogram = of(&[88_906_123; 1_000]);
        let latency = histogram.latency().unwrap();
        assert_eq!(latency.stddev, 0.0);
        assert_eq!(latency.percentiles.p99_99, 88_906.123);
        assert_eq!(latency.mean, 88_906.123);
    }

    #[test]
    fn without_samples_there_is_no_latency() {
        assert_eq!(Histogram::default().latency(), None);
        assert_eq!(Histogram::default().cdf().count(), 0);
    }

    /// Run with `cargo test --release -p mynah-lab -- --ignored --nocapture a_histogram`.
    #[test]
    #[ignore = "a measurement"]
    fn what_a_histogram_costs() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        let spans: Vec<_> = (0..1 << 16)
            .map(|_| Span::from_ps(rng.random_range(60_000_000..360_000_000)))
            .collect();
        let mut histogram = Histogram::default();
        let mut round = || {
            let clock = std::time::Instant::now();
            for _ in 0..100 {
                spans.iter().for_each(|&span| histogram.record(span));
                std::hint::black_box(&mut histogram);
            }
            clock.elapsed().as_nanos() as f64 / (100.0 * spans.len() as f64)
        };
        let best = (0..7).map(|_| round()).fold(f64::INFINITY, f64::min);
        println!("{best:.2} ns to record one duration");
        assert_eq!(std::hint::black_box(histogram).count(), 700 * spans.len() as u64);
    }

    proptest! {
        #[test]
        fn percentiles_are_close_to_the_sorted_samples(
            mut values in prop::collection::vec(durations(), 1..500),
            percentile in 0.0..100.0f64,
        ) {
            let histogram = of(&values);
            values.sort_unstable();
            let exact = values[rank(percentile, values.len() as u64) as usize - 1];
            let said = histogram.percentile(percentile).unwrap().as_ps();
            prop_assert!(said.abs_diff(exact) as f64 <= exact as f64 / 256.0, "{said} for {exact}");
        }

        #[test]
        fn moments_agree_with_statrs(values in prop::collection::vec(1..1u64 << 45, 1..300)) {
            use statrs::statistics::Statistics;
            let histogram = of(&values);
            let floats: Vec<f64> = values.iter().map(|&ps| ps as f64 / 1e3).collect();
            let mean = (&floats).mean();
            prop_assert!((histogram.mean_ns().unwrap() - mean).abs() <= 1e-9 * mean);
            let stddev = (&floats).population_std_dev();
            prop_assert!((histogram.stddev_ns().unwrap() - stddev).abs() <= 1e-6 * mean);
        }

        #[test]
        fn merging_is_recording_both(
            a in prop::collection::vec(1..1u64 << 45, 0..100),
            b in prop::collection::vec(1..1u64 << 45, 0..100),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both = of(&[a, b].concat());
            prop_assert_eq!(&merged.buckets, &both.buckets);
            prop_assert_eq!((merged.count, merged.sum), (both.count, both.sum));
            prop_assert_eq!((merged.min(), merged.max()), (both.min(), both.max()));
            if let (Some(m), Some(d)) = (merged.stddev_ns(), both.stddev_ns()) {
                prop_assert!((m - d).abs() <= 1e-6 * both.mean_ns().unwrap());
            }
        }

        #[test]
        fn a_copy_over_another_is_the_same(
            old in prop::collection::vec(durations(), 0..50),
            new in prop::collection::vec(durations(), 0..50),
        ) {
            let (mut copy, new) = (of(&old), of(&new));
            copy.clone_from(&new);
            prop_assert_eq!(&copy, &new);
            prop_assert_eq!(&new.clone(), &new);
        }

        #[test]
        fn the_distribution_rises_to_one(values in prop::collection::vec(durations(), 1..200)) {
            let histogram = of(&values);
            let points: Vec<_> = histogram.cdf().collect();
            prop_assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            prop_assert_eq!(*points.last().unwrap(), (histogram.max().unwrap(), 1.0));
        }
    }
}
