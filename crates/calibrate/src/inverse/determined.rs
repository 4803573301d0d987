//! Which parameters the data determine, and how well.
//!
//! Around the best point every figure's logarithm is taken to change in proportion to the parameters'
//! logarithms: a matrix, found by steps to both sides. Its singular values say what the data tell
//! apart. Along a direction with the singular value `s` the parameters are known to `noise / s`, where
//! the noise is what the fit leaves over, and at least what drives differ from themselves.

use super::simulate::{Bench, Evaluation, Memory, Point};
use super::{Combination, Interval, Phase};
use crate::CalibrateError;
use mynah_result::confidence::student_t;

/// Relative noise of measurements from run to run: reads of one drive repeat to 0.3 %.
const NOISE: f64 = 0.003;
/// A parameter that may be off by more than this share of itself is not determined.
const KNOWN: f64 = 0.25;
/// Parts of a direction below this are left out when it is named.
const PART: f64 = 0.3;

/// Sensitivities and confidence intervals around the best point.
pub(super) struct Determined {
    /// `d ln figure / d ln parameter`: for every figure a row.
    pub(super) sensitivity: Vec<Vec<f64>>,
    /// Where each parameter may lie.
    pub(super) intervals: Vec<Interval>,
    /// What the data do not tell apart.
    pub(super) combinations: Vec<Combination>,
}

/// Steps around `best`; `None` if somebody has ended it.
///
/// # Errors
/// If a run fails.
pub(super) fn determined(
    bench: &Bench<'_>,
    best: &Point,
    memory: &mut Memory,
) -> Result<Option<Determined>, CalibrateError> {
    let mut units = Vec::new();
    for (index, vary) in bench.vary.iter().enumerate() {
        let (at, _) = vary.settled(best.unit[index]);
        let step = vary.step(best.unit[index]);
        for side in [at - step, at + step] {
            let mut unit = best.unit.clone();
            unit[index] = side.clamp(0.0, 1.0);
            units.push(unit);
        }
    }
    let points = match bench.points(&units, Phase::Around, memory)? {
        Evaluation::Whole(points) => points,
        Evaluation::Interrupted => return Ok(None),
    };
    let errors = bench.errors(&best.modelled);
    let mut sensitivity = vec![vec![0.0; bench.vary.len()]; errors.len()];
    for (index, vary) in bench.vary.iter().enumerate() {
        let sides = [&points[2 * index], &points[2 * index + 1]];
        // Where the drive is refused on one side, the best point stands for it.
        let sides = sides.map(|side| if side.modelled.is_empty() { best } else { side });
        let [low, high] = sides.map(|side| vary.settled(side.unit[index]).1);
        let (_, number) = vary.settled(best.unit[index]);
        if high <= low {
            continue;
        }
        let [below, above] = sides.map(|side| bench.errors(&side.modelled));
        for (row, (below, above)) in sensitivity.iter_mut().zip(below.iter().zip(&above)) {
            let change = (above.0 - below.0) / (high - low) * vary.scale(number);
            row[index] = if change.is_finite() { change } else { 0.0 };
        }
    }
    let numbers: Vec<f64> =
        bench.vary.iter().zip(&best.unit).map(|(vary, unit)| vary.settled(*unit).1).collect();
    let judged = judge(&sensitivity, &errors);
    let intervals = bench.vary.iter().zip(&numbers).zip(&judged.half_widths);
    let intervals = intervals.map(|((vary, number), half)| {
        let [low, high] = vary.bounds();
        let wide = half * vary.scale(*number);
        let ends = [(number - wide).max(low), (number + wide).min(high)];
        Interval {
            low: vary.written(ends[0]),
            high: vary.written(ends[1]),
            share: half.is_finite().then_some(*half),
            determined: *half <= KNOWN,
            at_end: (*number <= low || *number >= high).then_some(*number >= high),
        }
    });
    let named = |parts: Vec<usize>| Combination {
        keys: parts.into_iter().map(|index| bench.vary[index].key.clone()).collect(),
    };
    Ok(Some(Determined {
        intervals: intervals.collect(),
        combinations: judged.loose.into_iter().map(named).collect(),
        sensitivity,
    }))
}

/// What a matrix of sensitivities says.
struct Judged {
    /// By what share each parameter may be off, at 95 %.
    half_widths: Vec<f64>,
    /// For each direction that the data do not determine: the parameters in it.
    loose: Vec<Vec<usize>>,
}

fn judge(sensitivity: &[Vec<f64>], errors: &[(f64, f64)]) -> Judged {
    let parameters = sensitivity.first().map_or(0, Vec::len);
    let weighted: Vec<Vec<f64>> = sensitivity
        .iter()
        .zip(errors)
        .map(|(row, (_, weight))| row.iter().map(|part| part * weight.sqrt()).collect())
        .collect();
    let weights: f64 = errors.iter().map(|(_, weight)| weight).sum();
    let squares: f64 = errors.iter().map(|(error, weight)| weight * error * error).sum();
    let freedom = (weights - parameters as f64).max(1.0);
    let noise = (squares / freedom).sqrt().max(NOISE);
    let likely = noise * student_t(freedom.round() as usize);
    let (values, directions) = singular(&weighted, parameters);
    let mut variances = vec![0.0; parameters];
    let mut loose = Vec::new();
    for (value, direction) in values.iter().zip(&directions) {
        let along = if *value > 0.0 { likely / value } else { f64::INFINITY };
        for (variance, part) in variances.iter_mut().zip(direction) {
            // What has no part in a direction does not become unknown by it.
            if part.abs() > 1e-6 {
                *variance += (part * along) * (part * along);
            }
        }
        if along > KNOWN {
            let mut parts: Vec<usize> =
                (0..parameters).filter(|index| direction[*index].abs() > PART).collect();
            parts.sort_by(|a, b| direction[*b].abs().total_cmp(&direction[*a].abs()));
            loose.push(parts);
        }
    }
    Judged { half_widths: variances.iter().map(|variance| variance.sqrt()).collect(), loose }
}

/// Singular values of `matrix` with the directions of the parameters that belong to them, the
/// smallest last. By rotations of two columns at a time until all are at right angles (Hestenes).
fn singular(matrix: &[Vec<f64>], columns: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut turned: Vec<Vec<f64>> =
        (0..columns).map(|column| matrix.iter().map(|row| row[column]).collect()).collect();
    let mut directions = vec![vec![0.0; columns]; columns];
    for (index, direction) in directions.iter_mut().enumerate() {
        direction[index] = 1.0;
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for _ in 0..60 {
        let mut largest: f64 = 0.0;
        for one in 0..columns {
            for other in one + 1..columns {
                let (aa, bb) =
                    (dot(&turned[one], &turned[one]), dot(&turned[other], &turned[other]));
                let ab = dot(&turned[one], &turned[other]);
                if ab.abs() <= 1e-15 * (aa * bb).sqrt() || ab == 0.0 {
                    continue;
                }
                largest = largest.max(ab.abs() / (aa * bb).sqrt());
                let tau = (bb - aa) / (2.0 * ab);
                let tangent = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
                let sine = cosine * tangent;
                for vectors in [&mut turned, &mut directions] {
                    let (left, right) = vectors.split_at_mut(other);
                    for (a, b) in left[one].iter_mut().zip(&mut right[0]) {
                        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
                    }
                }
            }
        }
        if largest < 1e-12 {
            break;
        }
    }
    let mut all: Vec<(f64, Vec<f64>)> =
        turned.iter().map(|column| dot(column, column).sqrt()).zip(directions).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_trades_off_is_named_together() {
        // Two parameters that only ever add up, and one that has no effect.
        let rows = vec![vec![0.5, 0.5, 0.0], vec![0.3, 0.3, 0.0], vec![0.9, 0.9, 0.0]];
        let judged = judge(&rows, &[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)]);
        assert!(judged.half_widths[0] > 10.0 && judged.half_widths[2].is_infinite());
        assert_eq!(judged.loose.len(), 2);
        assert!(judged.loose.iter().any(|parts| parts == &[2]));
        assert!(judged.loose.iter().any(|parts| parts.len() == 2 && !parts.contains(&2)));
    }

    #[test]
    fn known_parameters_have_small_intervals() {
        let rows = vec![vec![0.8, 0.1], vec![0.2, 0.9], vec![0.5, 0.5], vec![0.1, 0.7]];
        let judged = judge(&rows, &[(0.005, 1.0), (-0.005, 1.0), (0.002, 1.0), (0.001, 1.0)]);
        assert!(judged.loose.is_empty());
        assert!(
            judged.half_widths.iter().all(|half| (0.005..0.05).contains(half)),
            "{:?}",
            judged.half_widths
        );
    }

    proptest! {
        /// Squares of singular values sum to that of all entries; directions are at right angles and
        /// of length one; the matrix stretches each by its value.
        #[test]
        fn singular_values_are_what_they_say(
            rows in prop::collection::vec(prop::collection::vec(-10.0..10.0f64, 3), 1..12)
        ) {
            let (values, directions) = singular(&rows, 3);
            let squares: f64 = rows.iter().flatten().map(|part| part * part).sum();
            let sum: f64 = values.iter().map(|value| value * value).sum();
            prop_assert!((squares - sum).abs() <= 1e-9 * (1.0 + squares));
            prop_assert!(values.windows(2).all(|pair| pair[0] >= pair[1]));
            for (i, a) in directions.iter().enumerate() {
                for (j, b) in directions.iter().enumerate() {
                    let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    prop_assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-9);
                }
                let stretched = rows.iter().map(|row| row.iter().zip(a).map(|(x, y)| x * y).sum::<f64>());
                let length = stretched.map(|part| part * part).sum::<f64>().sqrt();
                prop_assert!((length - values[i]).abs() < 1e-6 * (1.0 + values[0]));
            }
        }
    }
}
