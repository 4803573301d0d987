//! The points of a curve that a drive file's table has: as few as linear interpolation between them
//! needs to follow the curve.

/// How far interpolation may be off the curve.
const CLOSE: f64 = 0.0009;
/// The most points of a table. A curve that needs more is followed less closely, and it is said how
/// closely.
const MOST: usize = 120;
/// Commands are multiples of this many bytes.
const UNIT: u64 = 512;

/// Points from `low` to `high` bytes, and how far interpolation is off at most.
pub(super) fn chosen(low: u64, high: u64, at: &dyn Fn(u64) -> f64) -> (Vec<(u64, f64)>, f64) {
    // All sizes that there can be, each with its time.
    let inner = (low / UNIT + 1..=high.saturating_sub(1) / UNIT).map(|units| units * UNIT);
    let sizes: Vec<u64> = std::iter::once(low).chain(inner).chain([high]).collect();
    let stride = sizes.len().div_ceil(1 << 14).max(1);
    let last = sizes.len() - 1;
    let kept = |(index, _): &(usize, &u64)| index % stride == 0 || *index == last;
    let all: Vec<(u64, f64)> =
        sizes.iter().enumerate().filter(kept).map(|(_, size)| (*size, at(*size))).collect();
    // The place in `all` of each point, and the worst place between it and the next.
    let mut points = vec![0, all.len() - 1];
    let mut gaps = vec![worst(&all, 0, all.len() - 1)];
    while points.len() < MOST {
        let widest = (0..gaps.len()).max_by(|a, b| gaps[*a].1.total_cmp(&gaps[*b].1));
        let Some(gap) = widest.filter(|gap| gaps[*gap].1 > CLOSE) else { break };
        let middle = gaps[gap].0;
        points.insert(gap + 1, middle);
        gaps[gap] = worst(&all, points[gap], middle);
        gaps.insert(gap + 1, worst(&all, middle, points[gap + 2]));
    }
    let off = gaps.iter().map(|gap| gap.1).fold(0.0, f64::max);
    (points.into_iter().map(|point| all[point]).collect(), off)
}

/// Where between two places interpolation is furthest off, and how far.
fn worst(all: &[(u64, f64)], from: usize, to: usize) -> (usize, f64) {
    let ((low, first), (high, last)) = (all[from], all[to]);
    let mut found = (from, 0.0);
    for (place, (size, time)) in all.iter().enumerate().take(to).skip(from + 1) {
        let off = (between((low, first), (high, last), *size as f64) / time - 1.0).abs();
        if off > found.1 {
            found = (place, off);
        }
    }
    found
}

/// The straight line from one point to another at `bytes`.
pub(super) fn between((low, first): (u64, f64), (high, last): (u64, f64), bytes: f64) -> f64 {
    first + (bytes - low as f64) / (high - low) as f64 * (last - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_points_follow_a_curve() {
        let square_root = |bytes: u64| 900.0 + 40.0 * (bytes as f64).sqrt();
        let (points, off) = chosen(512, 1020 * 1024, &square_root);
        assert!((20..=60).contains(&points.len()) && off <= CLOSE, "{} {off}", points.len());
        assert_eq!((points[0].0, points[points.len() - 1].0), (512, 1020 * 1024));
        // What is straight needs its ends.
        let straight = |bytes: u64| 1000.0 + 0.25 * bytes as f64;
        assert_eq!(chosen(1, 1 << 30, &straight).0.len(), 2);
        // A step is followed as well as it can be.
        let step = |bytes: u64| if bytes < 5000 { 1.0 } else { 2.0 };
        assert_eq!(chosen(512, 65536, &step).1, 0.0);
    }
}
