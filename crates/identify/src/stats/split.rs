//! Two populations in one sample.

/// A sample in two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Between the parts: halfway from the highest of the lower one to the lowest of the higher one.
    pub threshold: f64,
    /// Mean of the lower part.
    pub low: f64,
    /// Mean of the higher part.
    pub high: f64,
    /// How many are in the lower part.
    pub lower: usize,
    /// How many are in the higher part.
    pub higher: usize,
    /// The share of the variance that lies between the parts. The best split of one even population
    /// has 3/4, that of a normal one 2/pi.
    pub between: f64,
}

impl Split {
    /// The share of the variance between the parts that one population could have by itself: that of
    /// an even distribution.
    pub const ONE_POPULATION: f64 = 0.75;

    /// Whether there are two populations rather than one.
    pub fn is_real(&self) -> bool {
        self.between > Split::ONE_POPULATION
    }
}

/// Splits a sample where the variance between the parts is largest (Otsu, IEEE Trans. SMC 9(1), 1979);
/// `None` if all are the same.
pub fn split(samples: &[f64]) -> Option<Split> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let total: f64 = sorted.iter().sum();
    let mean = total / n.max(1) as f64;
    let variance = sorted.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    if last - first <= 1e-9 * last.abs().max(1e-9) {
        return None;
    }
    let mut below = 0.0;
    let mut best: Option<Split> = None;
    for index in 1..n {
        below += sorted[index - 1];
        if sorted[index] == sorted[index - 1] {
            continue;
        }
        let (lower, higher) = (index as f64, (n - index) as f64);
        let (low, high) = (below / lower, (total - below) / higher);
        let between = lower * higher / n as f64 * (high - low).powi(2) / variance;
        if best.is_none_or(|best| between > best.between) {
            let threshold = (sorted[index - 1] + sorted[index]) / 2.0;
            best = Some(Split { threshold, low, high, lower: index, higher: n - index, between });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_even_population_is_none_of_two() {
        let even: Vec<f64> = (0..1000).map(f64::from).collect();
        let split = split(&even).unwrap();
        assert!((split.between - 0.75).abs() < 0.01, "{split:?}");
    }

    proptest! {
        #[test]
        fn two_clusters_are_told_apart(
            low in 1.0f64..100.0,
            apart in 0.2f64..5.0,
            noise in prop::collection::vec(-0.04f64..0.04, 40..400),
            share in 0.05f64..0.95,
        ) {
            let high = low * (1.0 + apart);
            let cut = ((noise.len() as f64 * share) as usize).clamp(1, noise.len() - 1);
            let sample: Vec<f64> = noise.iter().enumerate().map(|(index, noise)| {
                let place = if index < cut { low } else { high };
                place + noise * (high - low)
            }).collect();
            let found = split(&sample).unwrap();
            prop_assert!(found.is_real());
            prop_assert_eq!((found.lower, found.higher), (cut, noise.len() - cut));
        }
    }
}
