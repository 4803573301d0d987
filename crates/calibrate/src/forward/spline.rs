//! Cubic smoothing splines, and how much to smooth.
//!
//! The curve `f` minimises `Σ w (y - f(x))² + λ ∫ f''²`; Reinsch's algorithm has it from a system of five
//! diagonals (Green and Silverman, Nonparametric Regression and Generalized Linear Models, 1994, sections
//! 2.3.3 and 3.5.1). Of the λ that are tried the one is taken with which a curve without a point is nearest
//! to that point, over all points: leave-one-out cross-validation. Since fitted values are linear in `y`,
//! it needs no refit: without point `i` the curve misses it by `(y - f) / (1 - h)`, where `h` is what `f(x)`
//! grows by when `y` does (Craven and Wahba, 1979).

/// λ is tried from 10 to the first of these to 10 to the second, in quarters of a decade.
const DECADES: (i32, i32) = (-7, 5);
const EACH: i32 = 4;
/// Leverage above which a point is not left out in cross-validation: no other point determines the
/// curve there.
const OWN: f64 = 1.0 - 1e-9;

/// A natural cubic spline through points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
    /// Second derivatives at the points; zero at the ends.
    bend: Vec<f64>,
}

/// A curve that was smoothed.
pub(super) struct Smooth {
    pub(super) curve: Curve,
    /// The smoothing parameter λ.
    pub(super) smoothing: f64,
    /// Leave-one-out cross-validation error, as a root mean square.
    pub(super) left_out_error: f64,
}

/// `R + λ Qᵀ W⁻¹ Q` of Reinsch's algorithm as `L D Lᵀ`, and `Q`'s columns. Each inner point has a row.
struct Bands<'a> {
    weights: &'a [f64],
    lambda: f64,
    /// The three values of each column of `Q`: at the point before, at the point, at the one behind.
    second_difference: Vec<[f64; 3]>,
    pivot: Vec<f64>,
    /// `L` one and two below its diagonal.
    below: Vec<[f64; 2]>,
}

impl Bands<'_> {
    fn new<'a>(x: &[f64], weights: &'a [f64], lambda: f64) -> Bands<'a> {
        let inner = x.len() - 2;
        let width = |index: usize| x[index + 1] - x[index];
        let second_difference: Vec<[f64; 3]> = (0..inner)
            .map(|row| {
                let (before, behind) = (1.0 / width(row), 1.0 / width(row + 1));
                [before, -before - behind, behind]
            })
            .collect();
        // What two columns of `Q` have in common, `apart` rows apart.
        let common = |row: usize, apart: usize| -> f64 {
            let (left, right) = (&second_difference[row], &second_difference[row + apart]);
            let shared = apart..3;
            shared.map(|at| left[at] * right[at - apart] / weights[row + at]).sum()
        };
        let (mut pivot, mut below) = (vec![0.0; inner], vec![[0.0; 2]; inner]);
        for row in 0..inner {
            let mut diagonal = (width(row) + width(row + 1)) / 3.0 + lambda * common(row, 0);
            let mut next = 0.0;
            if row + 1 < inner {
                next = width(row + 1) / 6.0 + lambda * common(row, 1);
            }
            if row > 0 {
                let [one, two] = below[row - 1];
                diagonal -= one * one * pivot[row - 1];
                next -= one * two * pivot[row - 1];
            }
            if row > 1 {
                diagonal -= below[row - 2][1] * below[row - 2][1] * pivot[row - 2];
            }
            pivot[row] = diagonal;
            let second = if row + 2 < inner { lambda * common(row, 2) } else { 0.0 };
            below[row] = [next / diagonal, second / diagonal];
        }
        Bands { weights, lambda, second_difference, pivot, below }
    }

    /// The smoothed values of `y`.
    fn smooth(&self, y: &[f64]) -> Vec<f64> {
        let inner = self.pivot.len();
        // The second derivatives at the inner points: forwards, and back.
        let mut bend: Vec<f64> = (0..inner)
            .map(|row| (0..3).map(|at| self.second_difference[row][at] * y[row + at]).sum())
            .collect();
        for row in 0..inner {
            let [one, two] = self.below[row];
            let value = bend[row];
            if row + 1 < inner {
                bend[row + 1] -= one * value;
            }
            if row + 2 < inner {
                bend[row + 2] -= two * value;
            }
        }
        for row in (0..inner).rev() {
            let [one, two] = self.below[row];
            let behind = |by: usize| bend.get(row + by).copied().unwrap_or(0.0);
            bend[row] = bend[row] / self.pivot[row] - one * behind(1) - two * behind(2);
        }
        let mut fitted = y.to_vec();
        for (row, bend) in bend.iter().enumerate() {
            for at in 0..3 {
                let point = row + at;
                fitted[point] -=
                    self.lambda / self.weights[point] * self.second_difference[row][at] * bend;
            }
        }
        fitted
    }
}

/// The smoothing spline with λ, at the points, and what each point has of itself.
fn smoothed(x: &[f64], y: &[f64], weights: &[f64], lambda: f64) -> Option<(Vec<f64>, Vec<f64>)> {
    let bands = Bands::new(x, weights, lambda);
    let fitted = bands.smooth(y);
    let alone = |point: usize| {
        let mut one = vec![0.0; x.len()];
        one[point] = 1.0;
        bands.smooth(&one)[point]
    };
    let own: Vec<f64> = (0..x.len()).map(alone).collect();
    let finite = fitted.iter().chain(&own).all(|value| value.is_finite());
    finite.then_some((fitted, own))
}

/// The weighted mean square by which curves without a point miss it.
fn left_out(y: &[f64], weights: &[f64], fitted: &[f64], own: &[f64]) -> Option<f64> {
    let (mut sum, mut all) = (0.0, 0.0);
    for index in (0..y.len()).filter(|index| own[*index] < OWN) {
        let missed = (y[index] - fitted[index]) / (1.0 - own[index]);
        sum += weights[index] * missed * missed;
        all += weights[index];
    }
    (all > 0.0).then_some(sum / all)
}

/// The curve with the λ that cross-validation finds best. `x` rises, and has at least three values.
pub(super) fn cross_validated(x: &[f64], y: &[f64], weights: &[f64]) -> Option<Smooth> {
    let mut best: Option<(f64, f64, Vec<f64>)> = None;
    // From the smoothest on: of equals that is taken.
    for step in (DECADES.0 * EACH..=DECADES.1 * EACH).rev() {
        let lambda = libm::exp10(f64::from(step) / f64::from(EACH));
        let Some((fitted, own)) = smoothed(x, y, weights, lambda) else { continue };
        let Some(missed) = left_out(y, weights, &fitted, &own) else { continue };
        if best.as_ref().is_none_or(|(least, ..)| missed < *least * (1.0 - 1e-9)) {
            best = Some((missed, lambda, fitted));
        }
    }
    let (missed, smoothing, fitted) = best?;
    let curve = Curve::through(x, &fitted);
    Some(Smooth { curve, smoothing, left_out_error: missed.sqrt() })
}

impl Curve {
    /// The natural spline through points, of which a smoothing spline is that through its own values.
    fn through(x: &[f64], y: &[f64]) -> Curve {
        let last = x.len().saturating_sub(1);
        let mut bend = vec![0.0; x.len()];
        // Equal slopes on both sides of each inner point: a tridiagonal system, forwards and back.
        let mut carried = vec![0.0; x.len()];
        for index in 1..last {
            let (before, after) = (x[index] - x[index - 1], x[index + 1] - x[index]);
            let turn = (y[index + 1] - y[index]) / after - (y[index] - y[index - 1]) / before;
            let pivot = 2.0 * (before + after) - before * carried[index - 1];
            carried[index] = after / pivot;
            bend[index] = (6.0 * turn - before * bend[index - 1]) / pivot;
        }
        for index in (1..last).rev() {
            bend[index] -= carried[index] * bend[index + 1];
        }
        Curve { x: x.to_vec(), y: y.to_vec(), bend }
    }

    /// The curve at `at`, which lies between the first and the last point.
    pub(super) fn at(&self, at: f64) -> f64 {
        let last = self.x.len() - 1;
        let right = self.x.partition_point(|x| *x < at).clamp(1, last);
        let left = right - 1;
        let width = self.x[right] - self.x[left];
        let (a, b) = ((self.x[right] - at) / width, (at - self.x[left]) / width);
        let bent = (a * a * a - a) * self.bend[left] + (b * b * b - b) * self.bend[right];
        a * self.y[left] + b * self.y[right] + bent * width * width / 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What SciPy makes of some points.
    #[derive(serde::Deserialize)]
    struct Case {
        x: Vec<f64>,
        y: Vec<f64>,
        weights: Vec<f64>,
        lambda: f64,
        fitted: Vec<f64>,
        between: Vec<(f64, f64)>,
        /// At the points, with SciPy's own choice of λ.
        chosen: Vec<f64>,
        truth: Vec<f64>,
    }

    fn cases() -> Vec<Case> {
        let text = include_str!("../../../../tests/data/calibrate/scipy-splines.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn splines_are_those_of_scipy() {
        let cases = cases();
        assert!(cases.len() >= 6);
        for case in &cases {
            let (fitted, _) = smoothed(&case.x, &case.y, &case.weights, case.lambda).unwrap();
            for (ours, theirs) in fitted.iter().zip(&case.fitted) {
                assert!((ours - theirs).abs() < 1e-6, "{ours} {theirs}");
            }
            let curve = Curve::through(&case.x, &fitted);
            for (x, theirs) in &case.between {
                assert!((curve.at(*x) - theirs).abs() < 1e-6, "{} {theirs}", curve.at(*x));
            }
        }
    }

    /// SciPy chooses by generalised cross-validation, which is not the same, but should be no better.
    #[test]
    fn what_is_chosen_is_as_near_to_the_truth_as_what_scipy_chooses() {
        let (mut ours, mut theirs) = (0.0, 0.0);
        for case in &cases() {
            let smooth = cross_validated(&case.x, &case.y, &case.weights).unwrap();
            let off = |values: &mut dyn Iterator<Item = f64>| {
                let squares =
                    values.zip(&case.truth).map(|(value, truth)| (value - truth) * (value - truth));
                squares.sum::<f64>() / case.truth.len() as f64
            };
            let here = off(&mut case.x.iter().map(|x| smooth.curve.at(*x))).sqrt();
            let there = off(&mut case.chosen.iter().copied()).sqrt();
            assert!(here < 0.05, "{here} {there}");
            (ours, theirs) = (ours + here, theirs + there);
        }
        assert!(ours < theirs * 1.1, "{ours} {theirs}");
    }

    /// The short way to leave a point out gives what a curve without it gives.
    #[test]
    fn leaving_out_needs_no_refit() {
        let case = &cases()[0];
        let (fitted, own) = smoothed(&case.x, &case.y, &case.weights, case.lambda).unwrap();
        for index in 1..case.x.len() - 1 {
            let without = |values: &[f64]| {
                let kept = values.iter().enumerate().filter(|(at, _)| *at != index);
                kept.map(|(_, value)| *value).collect::<Vec<_>>()
            };
            let (x, y) = (without(&case.x), without(&case.y));
            let (there, _) = smoothed(&x, &y, &without(&case.weights), case.lambda).unwrap();
            let missed = case.y[index] - Curve::through(&x, &there).at(case.x[index]);
            let short = (case.y[index] - fitted[index]) / (1.0 - own[index]);
            assert!((missed - short).abs() < 1e-6, "{index}: {missed} {short}");
        }
    }
}
