//! The method of batch means: how well a mean is known from one run (A. M. Law, *Simulation
//! Modeling and Analysis*, section 9.5.3).
//!
//! What follows one another in a run is not independent, so its scatter says little. A run is cut
//! into batches of equal time instead. Means of batches that are long enough are about independent,
//! and the true mean lies within Student's t times their standard error. When there are
//! [`BATCHES_MAX`] they are joined pairwise, so that they grow with the run.
//!
//! All quantities here are ratios of two sums: I/Os over time, latency over I/Os, programmed over
//! written bytes. The standard error of such a ratio R is that of the mean of `sum - R weight` over
//! the mean of `sum` (the ratio estimator; section 9.5.3 has it for regenerative cycles).
//!
//! When a run is to end is not decided here.

use crate::confidence::student_t;

/// Least number of batches for an estimate.
pub(crate) const BATCHES_MIN: usize = 16;
/// Number of batches at which neighbours are merged, to half as many.
const BATCHES_MAX: usize = 2 * BATCHES_MIN;
/// Correlation of neighbouring batches from which on they are too short to say anything (the limit
/// of A. M. Law and J. S. Carson, *A Sequential Procedure for Determining the Length of a
/// Steady-State Simulation*, Operations Research 27, 1979).
const CORRELATION_MAX: f64 = 0.4;

/// Running total of a quantity since the measurement began: its value is `sum` over `weight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) sum: u128,
    pub(crate) weight: u128,
}

/// The totals of a run by batch, for the method of batch means.
pub(crate) struct BatchMeans {
    /// Totals of each quantity at the beginning, and at the end of each batch.
    marks: Vec<Vec<Ratio>>,
}

impl BatchMeans {
    /// Begins the first batch; `start` are the totals so far.
    pub(crate) fn new(start: Vec<Ratio>) -> BatchMeans {
        BatchMeans { marks: vec![start] }
    }

    /// Ends a batch; true if batches are to be twice as long from now on.
    pub(crate) fn end_batch(&mut self, totals: Vec<Ratio>) -> bool {
        self.marks.push(totals);
        let joined = self.batches() == BATCHES_MAX;
        if joined {
            let mut even = false;
            self.marks.retain(|_| {
                even = !even;
                even
            });
        }
        joined
    }

    /// How many batches there are.
    pub(crate) fn batches(&self) -> usize {
        self.marks.len() - 1
    }

    /// Half the confidence interval of a quantity's mean ([`crate::confidence::LEVEL`]), relative
    /// to the mean; `None` where the batches are too few, or not independent.
    pub(crate) fn half_width(&self, quantity: usize) -> Option<f64> {
        let batches = self.batches();
        if batches < BATCHES_MIN {
            return None;
        }
        let at = |mark: usize| self.marks[mark][quantity];
        let between = |from: usize, to: usize| {
            let (from, to) = (at(from), at(to));
            ((to.sum - from.sum) as f64, (to.weight - from.weight) as f64)
        };
        let (sum, weight) = between(0, batches);
        if sum <= 0.0 || weight <= 0.0 {
            return None;
        }
        let off: Vec<f64> = (0..batches)
            .map(|batch| between(batch, batch + 1))
            .map(|(part, of)| part - sum / weight * of)
            .collect();
        let squares: f64 = off.iter().map(|off| off * off).sum();
        if squares == 0.0 {
            return Some(0.0);
        }
        let products: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let correlation = products / squares;
        if correlation > CORRELATION_MAX {
            return None;
        }
        // What remains of it makes the mean scatter more, as in a process of first order.
        let correlation = correlation.max(0.0);
        let wider = ((1.0 + correlation) / (1.0 - correlation)).sqrt();
        let count = batches as f64;
        let deviation = (squares / (count - 1.0)).sqrt();
        Some(student_t(batches - 1) * wider * deviation * count.sqrt() / sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// A run whose first batches come to these sums over these weights, and later ones to those of
    /// several together.
    fn run(parts: impl IntoIterator<Item = (u128, u128)>) -> BatchMeans {
        let mut now = Ratio::default();
        let mut means = BatchMeans::new(vec![now]);
        let (mut length, mut parts_left) = (1, 1);
        for (sum, weight) in parts {
            now = Ratio { sum: now.sum + sum, weight: now.weight + weight };
            parts_left -= 1;
            if parts_left == 0 {
                length *= if means.end_batch(vec![now]) { 2 } else { 1 };
                parts_left = length;
            }
        }
        means
    }

    #[test]
    fn an_interval_by_hand() {
        // 16 batches of 90 and 110 by turns, and a correlation below 0: s = sqrt(1600 / 15).
        let turns = |batch: u128| (90 + 20 * (batch % 2), 10);
        let found = run((0..16).map(turns)).half_width(0).unwrap();
        let expected = 2.1314 * (1600.0f64 / 15.0).sqrt() / 4.0 / 100.0;
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, {expected}");
        assert_eq!(run((0..15).map(turns)).half_width(0), None);
    }

    #[test]
    fn what_is_always_alike_is_known() {
        // Batches of different weight: the ratio is the same.
        assert_eq!(run((1..=20).map(|batch| (3 * batch, batch))).half_width(0), Some(0.0));
        assert_eq!(run((0..20).map(|_| (0, 5))).half_width(0), None);
    }

    #[test]
    fn what_rises_or_comes_in_waves_is_not_known() {
        assert_eq!(run((0..16).map(|batch| (1000 + batch, 1))).half_width(0), None);
        let wave = |batch: u128| (if batch % 8 < 4 { 1000 } else { 1010 }, 1);
        assert_eq!(run((0..24).map(wave)).half_width(0), None);
        // Joined over whole waves it is.
        assert!(run((0..256).map(wave)).half_width(0).unwrap() < 1e-9);
    }

    proptest! {
        /// However many batches there were, the marks are evenly apart, from the first to the last
        /// that is a whole batch.
        #[test]
        fn joined_batches_stay_equal(count in 1usize..500) {
            let mut means = BatchMeans::new(vec![Ratio::default()]);
            let (mut length, mut now) = (1, 0);
            for _ in 0..count {
                now += length;
                let total = Ratio { sum: now, weight: now };
                length *= if means.end_batch(vec![total]) { 2 } else { 1 };
            }
            prop_assert!(means.batches() < BATCHES_MAX);
            prop_assert!(count < BATCHES_MAX || means.batches() >= BATCHES_MIN);
            let apart = means.marks.windows(2).map(|pair| pair[1][0].sum - pair[0][0].sum);
            prop_assert!(apart.into_iter().all(|apart| apart == length));
        }
    }

    /// A process of first order, with waves of some 40 values: batches that are too short would
    /// claim five times the precision they have.
    #[test]
    fn intervals_cover_the_mean_of_a_correlated_process() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let (mut covered, mut known) = (0, 0);
        for _ in 0..400 {
            let mut value = 0.0;
            let mut means = BatchMeans::new(vec![Ratio::default()]);
            let (mut now, mut length) = (Ratio::default(), 1);
            for _ in 0..200 {
                for _ in 0..length {
                    value = 0.95 * value + rng.random_range(-100.0..100.0);
                    now.sum += (10_000.0 + value) as u128;
                    now.weight += 1;
                }
                length *= if means.end_batch(vec![now]) { 2 } else { 1 };
            }
            if let Some(half) = means.half_width(0) {
                let mean = now.sum as f64 / now.weight as f64;
                known += 1;
                covered += u32::from((mean - 9_999.5).abs() <= half * mean);
            }
        }
        assert!(known >= 360, "{known}");
        assert!(f64::from(covered) >= 0.92 * f64::from(known), "{covered} of {known}");
    }
}
