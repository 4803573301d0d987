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
    let x = if (before - after).abs() > 0.0 { (high - low) / (before - after) } else { points[index].0 };
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
