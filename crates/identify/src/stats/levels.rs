//! The values that samples come in.

/// The values that samples come in, from the lowest, each with how many samples have it: the modes of
/// their density, where each sample is blurred by a normal distribution of deviation `blur` (Silverman,
/// J. Royal Statistical Society B 43(1), 1981). Each value is the median of its samples.
pub fn levels(samples: &[f64], blur: f64) -> Vec<(f64, usize)> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Samples so far apart do not blur into one another.
    let groups = sorted.chunk_by(|a, b| b - a <= REACH * blur);
    let levels = groups.flat_map(|group| parts(group, blur));
    levels.map(|part| (super::median(part), part.len())).collect()
}

/// Where a normal distribution has nothing left, in deviations.
const REACH: f64 = 6.0;
/// Places of the density in a deviation.
const STEPS: f64 = 4.0;

/// A group, cut where its density is lowest between two modes.
fn parts(group: &[f64], blur: f64) -> Vec<&[f64]> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return Vec::new() };
    if last - first <= blur || blur <= 0.0 {
        return vec![group];
    }
    let count = ((last - first) / blur * STEPS).ceil() as usize + 1;
    let place = |n: usize| first + n as f64 * blur / STEPS;
    let density: Vec<f64> = (0..=count).map(|n| density(group, place(n), blur)).collect();
    let mut cuts = Vec::new();
    let mut falling = None;
    for n in 1..=count {
        if density[n] < density[n - 1] {
            falling = Some(n);
        } else if density[n] > density[n - 1]
            && let Some(lowest) = falling.take()
        {
            cuts.push((place(lowest) + place(n - 1)) / 2.0);
        }
    }
    let mut parts = Vec::new();
    let mut rest = group;
    for cut in cuts {
        let (below, above) = rest.split_at(rest.partition_point(|it| *it < cut));
        parts.push(below);
        rest = above;
    }
    parts.push(rest);
    parts.retain(|part| !part.is_empty());
    parts
}

fn density(group: &[f64], at: f64, blur: f64) -> f64 {
    let reach = REACH * blur;
    let from = group.partition_point(|it| *it < at - reach);
    let until = group.partition_point(|it| *it <= at + reach);
    group[from..until].iter().map(|it| (-((it - at) / blur).powi(2) / 2.0).exp()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn levels_are_told_apart() {
        let samples = [50.0, 57.1, 50.1, 64.0, 57.0, 50.0];
        let found = levels(&samples, 0.1);
        assert_eq!(found.iter().map(|it| it.1).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn neighbouring_ticks_are_one_level() {
        let samples: Vec<f64> = (0..300).map(|n| 50.0 + f64::from(n % 2)).collect();
        assert_eq!(levels(&samples, 0.6).len(), 1);
    }

    proptest! {
        /// Levels with a normal noise, so far apart that people would tell them.
        #[test]
        fn noisy_levels_are_told_apart(
            count in 1usize..5,
            apart in 5.0f64..20.0,
            seed in 0u64..1000,
        ) {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let samples: Vec<f64> = (0..400).map(|n| {
                let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
                60.0 + (n % count) as f64 * apart + normal
            }).collect();
            let found = levels(&samples, 1.0);
            let most: Vec<_> = found.iter().filter(|it| it.1 > 12).collect();
            prop_assert_eq!(most.len(), count, "{:?}", found);
            for (n, (level, _)) in most.iter().enumerate() {
                prop_assert!((level - 60.0 - n as f64 * apart).abs() < 0.5);
            }
        }
    }
}
