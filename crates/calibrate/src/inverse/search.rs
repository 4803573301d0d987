//! The search: points all over the ranges first, on all processors, then BOBYQA from the best.
//!
//! The first points are a Latin hypercube: of `n` points each parameter has one in each `n`th of its
//! range. BOBYQA (Powell 2009, as `basin` has it) keeps to the box and needs no derivatives. It is
//! begun again elsewhere if it ends early, since the first place may be a hollow of its own.

use super::Phase;
use super::simulate::{Bench, Evaluation, Memory, Point, REFUSED};
use crate::CalibrateError;
use basin::{
    Bobyqa, BoxBounds, ConstraintDescription, ConstraintSet, Constraints, CostFunction, Executor,
    PointState,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::{Cell, RefCell};

/// The share of the evaluations that goes to the first points, and the fewest for each parameter.
const SPREAD: f64 = 0.3;
const SPREAD_EACH: usize = 4;
/// How far BOBYQA looks at first and at last, in units of the ranges.
const RADIUS: [f64; 2] = [0.1, 5e-5];
/// Distance in the unit cube (maximum norm) below which two starts of a descent count as one.
const APART: f64 = 0.2;
/// Errors below this, as a mean square, are of no interest: a thousandth of a per cent.
const EXACT: f64 = 1e-10;

pub(super) struct SearchOutcome {
    /// The best point; `None` if it was interrupted before there was any.
    pub(super) best: Option<Point>,
    pub(super) interrupted: bool,
}

/// Number of points in the initial Latin hypercube, of `evaluations` in all.
pub(super) fn spread(evaluations: usize, parameters: usize) -> usize {
    let share = (evaluations as f64 * SPREAD).ceil() as usize;
    share.max(SPREAD_EACH * parameters).min(evaluations).max(1)
}

/// Searches with at most so many points.
///
/// # Errors
/// If a load cannot be run, or a run fails, or every drive was refused.
pub(super) fn search(
    bench: &Bench<'_>,
    evaluations: usize,
    memory: &mut Memory,
) -> Result<SearchOutcome, CalibrateError> {
    let parameters = bench.vary.len();
    let first = hypercube(spread(evaluations, parameters), parameters);
    let mut all: Vec<Point> = Vec::new();
    let mut interrupted = false;
    // In portions, so that what was done by then is there when somebody ends it.
    for portion in first.chunks(bench.threads.max(1) * 2) {
        match bench.points(portion, Phase::Spread, memory)? {
            Evaluation::Whole(points) => all.extend(points),
            Evaluation::Interrupted => {
                interrupted = true;
                break;
            }
        }
    }
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let Some(mut best) = all.first().cloned() else {
        return Ok(SearchOutcome { best: None, interrupted });
    };
    if best.cost >= REFUSED && !interrupted {
        let why = memory.refused.clone().unwrap_or_else(|| "no load has figures".to_owned());
        let message = format!("none of {} drives in these ranges is possible: {why}", all.len());
        return Err(CalibrateError::asked(message, "give other ranges with --vary"));
    }
    let mut begun: Vec<Vec<f64>> = Vec::new();
    while !interrupted {
        let left = evaluations.saturating_sub(memory.simulated);
        if left < 2 * (2 * parameters + 1) || best.cost < EXACT {
            break;
        }
        let far = |point: &&Point| begun.iter().all(|other| distance(other, &point.unit) > APART);
        let Some(start) = all.iter().filter(|point| point.cost < REFUSED).find(far) else { break };
        begun.push(start.unit.clone());
        let (found, ended) = descend(bench, &start.unit, left, memory)?;
        interrupted = ended;
        if let Some(found) = found {
            begun.push(found.unit.clone());
            if found.cost < best.cost {
                best = found;
            }
        }
    }
    Ok(SearchOutcome { best: Some(best), interrupted })
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// A Latin hypercube of so many points, always the same.
fn hypercube(points: usize, parameters: usize) -> Vec<Vec<f64>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(points as u64);
    let mut all = vec![vec![0.0; parameters]; points];
    for parameter in 0..parameters {
        let mut places: Vec<usize> = (0..points).collect();
        for last in (1..points).rev() {
            let other = (random.next_u64() % (last as u64 + 1)) as usize;
            places.swap(last, other);
        }
        for (point, place) in all.iter_mut().zip(places) {
            let within = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            point[parameter] = (place as f64 + within) / points as f64;
        }
    }
    all
}

/// The objective of BOBYQA: the square root of the cost, which is nearly linear in the errors.
struct Cost<'a, 'b> {
    bench: &'a Bench<'b>,
    memory: RefCell<&'a mut Memory>,
    best: RefCell<Option<Point>>,
    interrupted: Cell<bool>,
    failed: RefCell<Option<CalibrateError>>,
    left: Cell<usize>,
    low: Vec<f64>,
    high: Vec<f64>,
}

/// The search ends: somebody has ended it, something has failed, or no evaluations are left.
#[derive(Debug, thiserror::Error)]
#[error("the search ends")]
struct SearchEnded;

impl Constraints for &Cost<'_, '_> {
    type Set = ConstraintSet<BoxBounds<Vec<f64>>>;

    fn constraints(&self) -> <Self::Set as ConstraintDescription>::Borrowed<'_> {
        ConstraintSet::new().with_bounds(BoxBounds::new(Some(&self.low), Some(&self.high)))
    }
}

impl CostFunction for &Cost<'_, '_> {
    type Param = Vec<f64>;
    type Output = f64;
    type Error = SearchEnded;

    fn cost(&self, unit: &Vec<f64>) -> Result<f64, SearchEnded> {
        let Some(left) = self.left.get().checked_sub(1) else { return Err(SearchEnded) };
        self.left.set(left);
        let unit: Vec<f64> = unit.iter().map(|at| at.clamp(0.0, 1.0)).collect();
        let mut memory = self.memory.borrow_mut();
        match self.bench.points(&[unit], Phase::Descent, &mut memory) {
            Ok(Evaluation::Whole(points)) => {
                let Some(point) = points.into_iter().next() else { return Err(SearchEnded) };
                let cost = point.cost;
                let mut best = self.best.borrow_mut();
                if best.as_ref().is_none_or(|best| cost < best.cost) {
                    *best = Some(point);
                }
                Ok(cost.sqrt())
            }
            Ok(Evaluation::Interrupted) => {
                self.interrupted.set(true);
                Err(SearchEnded)
            }
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                Err(SearchEnded)
            }
        }
    }
}

/// BOBYQA from `start` with at most so many points; the best of them, and whether somebody ended
/// it.
fn descend(
    bench: &Bench<'_>,
    start: &[f64],
    evaluations: usize,
    memory: &mut Memory,
) -> Result<(Option<Point>, bool), CalibrateError> {
    let parameters = start.len();
    let cost = Cost {
        bench,
        memory: RefCell::new(memory),
        best: RefCell::new(None),
        interrupted: Cell::new(false),
        failed: RefCell::new(None),
        left: Cell::new(evaluations),
        low: vec![0.0; parameters],
        high: vec![1.0; parameters],
    };
    let solver = Bobyqa::new().with_initial_radius(RADIUS[0]).with_final_radius(RADIUS[1]);
    // It ends by itself, or by an error when the evaluations are used up: what was best is kept
    // beside it.
    let _ = Executor::new(&cost, solver, PointState::new(start.to_vec()))
        .max_cost_evals(evaluations as u64)
        .run();
    if let Some(error) = cost.failed.take() {
        return Err(error);
    }
    Ok((cost.best.take(), cost.interrupted.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_points_lie_in_every_part_of_every_range() {
        for (points, parameters) in [(1, 1), (7, 3), (60, 8)] {
            let cube = hypercube(points, parameters);
            assert_eq!(cube, hypercube(points, parameters));
            for parameter in 0..parameters {
                let part = |point: &Vec<f64>| (point[parameter] * points as f64) as usize;
                let mut parts: Vec<usize> = cube.iter().map(part).collect();
                parts.sort_unstable();
                assert_eq!(parts, (0..points).collect::<Vec<_>>());
            }
        }
        assert_eq!((spread(200, 2), spread(20, 8), spread(10, 1)), (60, 20, 4));
    }
}
