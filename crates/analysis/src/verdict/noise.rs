//! Whether two series of windows differ by more than their noise: the difference of their medians (or
//! means), with an interval by a bootstrap of blocks of windows that follow one another (moving blocks:
//! H. Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of
//! Statistics 17(3), 1989), since what happens in a window happens in the next one, too. Its seed is
//! fixed: the same profiles get the same verdict.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How often windows are drawn anew.
const DRAWS: usize = 800;
/// How much of the draws lies outside of the interval, on either side: it holds 99 % of them.
const OUTSIDE: f64 = 0.005;

/// By how much a median has grown, and the interval in which that lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) base: f64,
    pub(super) now: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Difference {
    /// Of the medians of two series, neither of them empty.
    pub(super) fn of_medians(base: &[f64], now: &[f64]) -> Difference {
        Difference::of(base, now, median)
    }

    /// The same of their means, which add up.
    pub(super) fn of_means(base: &[f64], now: &[f64]) -> Difference {
        Difference::of(base, now, |series| mean(series))
    }

    fn of(base: &[f64], now: &[f64], middle: impl Fn(&mut [f64]) -> f64) -> Difference {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(26);
        let mut drawn = vec![];
        let mut draws: Vec<f64> = (0..DRAWS)
            .map(|_| {
                draw(now, &mut drawn, &mut rng);
                let now = middle(&mut drawn);
                draw(base, &mut drawn, &mut rng);
                now - middle(&mut drawn)
            })
            .collect();
        draws.sort_unstable_by(f64::total_cmp);
        let outside = (DRAWS as f64 * OUTSIDE) as usize;
        Difference {
            base: middle(&mut base.to_vec()),
            now: middle(&mut now.to_vec()),
            low: draws[outside],
            high: draws[DRAWS - 1 - outside],
        }
    }

    pub(super) fn grown(&self) -> f64 {
        self.now - self.base
    }

    /// Half of the confidence interval.
    pub(super) fn noise(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The median; the series changes its order.
pub(super) fn median(series: &mut [f64]) -> f64 {
    let middle = series.len() / 2;
    if series.is_empty() {
        return 0.0;
    }
    let (below, upper, _) = series.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    match below.iter().copied().max_by(f64::total_cmp).filter(|_| middle * 2 == series.len()) {
        Some(lower) => (lower + upper) / 2.0,
        None => upper,
    }
}

/// The mean of a series that is not empty.
pub(super) fn mean(series: &[f64]) -> f64 {
    // Not `sum`, whose empty sum is -0.
    series.iter().fold(0.0, |all, one| all + one) / series.len().max(1) as f64
}

/// A series that is put together from blocks of another.
fn draw(of: &[f64], drawn: &mut Vec<f64>, rng: &mut impl Rng) {
    let block = (of.len() as f64).sqrt().ceil() as usize;
    drawn.clear();
    while drawn.len() < of.len() {
        let from = ((u128::from(rng.next_u64()) * of.len() as u128) >> 64) as usize;
        // Blocks go on at the beginning, so that all windows are drawn alike.
        let one = (from..from + block).map(|at| of[at % of.len()]);
        drawn.extend(one.take(of.len() - drawn.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(seed: u64, level: f64) -> Vec<f64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut before = 0.0;
        let mut unit = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let next = |_| {
            before = 0.5 * before + unit() * 0.2;
            level * (1.0 + before)
        };
        (0..40).map(next).collect()
    }

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [7.0]), 7.0);
    }

    #[test]
    fn a_difference_lies_in_its_interval() {
        let mut outside = 0;
        for seed in 0..100 {
            let found = Difference::of_medians(&noisy(seed, 100.0), &noisy(seed + 1000, 150.0));
            assert!(found.low > 20.0 && found.high < 80.0, "{found:?}");
            outside += usize::from(!(found.low..=found.high).contains(&50.0));
            let same = Difference::of_medians(&noisy(seed, 100.0), &noisy(seed, 100.0));
            assert!(same.low <= 0.0 && same.high >= 0.0 && same.grown() == 0.0, "{same:?}");
        }
        // A bootstrap of few blocks is too sure of itself; the floor of a verdict is for that.
        assert!(outside <= 10, "{outside}");
    }
}
