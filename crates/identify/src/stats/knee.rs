//! Where a rate changes.

/// A change of slope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Where the two lines meet.
    pub at: (f64, f64),
    /// Slope before.
    pub before: f64,
    /// Slope after.
    pub after: f64,
}

/// The two lines that points lie closest to, of all places to break between them (two-phase regression,
/// Hinkley, Biometrika 56(3), 1969); `None` if there are too few points. Points go up in both directions.
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    const LEAST: usize = 6;
    if points.len() < 2 * LEAST {
        return None;
    }
    let sums = prefix(points);
    let mut best: Option<(f64, usize)> = None;
    for index in LEAST..points.len() - LEAST {
        let error = error(&sums, 0, index) + error(&sums, index, points.len());
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, index));
        }
    }
    let (_, index) = best?;
    let (before, low) = super::line(&points[..index])?;
    let (after, high) = super::line(&points[index..])?;
    let x = if (before - after).abs() > 0.0 {
        (high - low) / (before - after)
    } else {
        points[index].0
    };
    Some(Knee { at: (x, low + before * x), before, after })
}

/// The first place where points go up `fall` times as steeply before as after: the shortest beginning
/// that has one is looked at, then as much again twice, which the slope after it is taken from.
pub fn first_fall(points: &[(f64, f64)], fall: f64) -> Option<Knee> {
    let is_fall = |knee: &Knee| knee.before > fall * knee.after && knee.after > 0.0;
    let mut length = 24;
    while length < points.len() {
        let all = &points[..length];
        if knee(all).filter(is_fall).is_some() {
            // It stays if more is seen: flash takes data in steps, each of which looks like a fall.
            let more = &points[..(3 * length).min(points.len())];
            if let Some(found) = knee(more).filter(is_fall) {
                return Some(found);
            }
        }
        length = (length * 5 / 4).max(length + 1);
    }
    None
}

/// Sums over the points before each: of x, y, x squared, y squared, x times y.
fn prefix(points: &[(f64, f64)]) -> Vec<[f64; 5]> {
    let mut sums = vec![[0.0; 5]];
    let (x0, y0) = points[0];
    for (x, y) in points {
        let (x, y) = (x - x0, y - y0);
        let last = sums[sums.len() - 1];
        let add = [x, y, x * x, y * y, x * y];
        sums.push(std::array::from_fn(|n| last[n] + add[n]));
    }
    sums
}

/// The squares that a line through the points `from..until` leaves.
fn error(sums: &[[f64; 5]], from: usize, until: usize) -> f64 {
    let n = (until - from) as f64;
    let [x, y, xx, yy, xy]: [f64; 5] = std::array::from_fn(|k| sums[until][k] - sums[from][k]);
    let (sxx, syy, sxy) = (xx - x * x / n, yy - y * y / n, xy - x * y / n);
    if sxx > 0.0 { (syy - sxy * sxy / sxx).max(0.0) } else { syy.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_fall_is_found_where_it_is(
            before in 2.0f64..20.0,
            fall in 4.0f64..40.0,
            at in 100usize..300,
            noise in prop::collection::vec(0.0f64..0.3, 1000),
        ) {
            // Time of each of equal steps: so long at first, then longer.
            let mut time = 0.0;
            let points: Vec<(f64, f64)> = noise.iter().enumerate().map(|(n, noise)| {
                time += (1.0 + noise) / before * if n < at { 1.0 } else { fall };
                (time, n as f64)
            }).collect();
            let found = first_fall(&points, 3.0).unwrap();
            prop_assert!((found.at.1 - at as f64).abs() < 8.0, "{} at {at}", found.at.1);
        }

        #[test]
        fn an_even_pace_has_no_fall(noise in prop::collection::vec(0.0f64..1.0, 40..1000)) {
            let mut time = 0.0;
            let points: Vec<(f64, f64)> = noise.iter().enumerate().map(|(n, noise)| {
                time += 0.5 + noise;
                (time, n as f64)
            }).collect();
            prop_assert_eq!(first_fall(&points, 3.0), None);
        }
    }
}
