//! The statistics of the methods: of samples that are noisy, drift, tick and have outliers.

mod knee;
mod levels;
mod split;

pub use knee::{Knee, first_fall, knee};
pub use levels::levels;
pub use split::{Split, split};

/// The median; 0 of nothing.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// What measurements of one thing come to, where whatever disturbs them only adds: the least of them (Chen
/// and Revels, Robust benchmarking in noisy environments, HPEC 2016); 0 of nothing.
pub fn undisturbed(samples: &[f64]) -> f64 {
    quantile(samples, 0.0)
}

/// The quantile `share` of samples, between neighbours where it falls between two; 0 of nothing.
pub fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// The distribution as points: a share of the samples, in per cent, and below what they are.
pub fn distribution(samples: &[f64]) -> Vec<(f64, f64)> {
    (0..=100).map(|n| (f64::from(n), quantile(samples, f64::from(n) / 100.0))).collect()
}

/// The interval around a median that holds the true one with 95 %: of order
/// statistics, which asks nothing of the distribution (Conover, Practical Nonparametric Statistics,
/// 3.2).
pub fn median_interval(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return (0.0, 0.0);
    }
    let reach = 1.96 * (n as f64).sqrt() / 2.0;
    let low = (n as f64 / 2.0 - reach).floor().max(0.0) as usize;
    let high = ((n as f64 / 2.0 + reach).ceil() as usize).min(n - 1);
    (sorted[low], sorted[high])
}

/// Slope and intercept of the line through points with the least squares; `None` without two places.
pub fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|it| it.0), mean(&|it| it.1));
    let spread: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
    if points.len() < 2 || spread <= 0.0 {
        return None;
    }
    let both: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    let slope = both / spread;
    Some((slope, y - slope * x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn outliers_do_not_move_the_median(
            at in 1.0f64..1e6,
            outliers in prop::collection::vec(0.0f64..1e9, 0..40),
        ) {
            let mut samples = vec![at; 101];
            samples.extend(outliers);
            prop_assert_eq!(median(&samples), at);
            let (low, high) = median_interval(&samples);
            prop_assert!(low <= at && at <= high);
        }

        #[test]
        fn a_line_is_found_again(slope in -9.0f64..9.0, start in -9.0f64..9.0, n in 2usize..50) {
            let points: Vec<_> = (0..n).map(|x| (x as f64, start + slope * x as f64)).collect();
            let (a, b) = line(&points).unwrap();
            prop_assert!((a - slope).abs() < 1e-6 && (b - start).abs() < 1e-6);
        }
    }
}
