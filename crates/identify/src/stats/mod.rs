//! The statistics of the methods: of samples that are noisy, drift, tick and have outliers.

mod knee;
mod split;

pub use knee::{Knee, first_fall, knee};
pub use split::{Split, split};

/// The median; 0 of nothing.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
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

/// Half-width of the interval around a median that holds the true one with 95 %: of order
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

/// Median absolute deviation, times 1.4826: as a standard deviation where samples are normal
/// (Rousseeuw and Croux, JASA 1993).
pub fn deviation(samples: &[f64]) -> f64 {
    let middle = median(samples);
    let away: Vec<f64> = samples.iter().map(|x| (x - middle).abs()).collect();
    1.4826 * median(&away)
}

/// The values that samples come in, from the lowest, each with how many samples have it: neighbours
/// farther apart than `apart` are of different values, which are the medians.
pub fn levels(samples: &[f64], apart: f64) -> Vec<(f64, usize)> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let groups = sorted.chunk_by(|a, b| b - a <= apart);
    groups.map(|group| (median(group), group.len())).collect()
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
