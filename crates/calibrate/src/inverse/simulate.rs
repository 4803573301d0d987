//! The targets' loads simulated on the drive at points of the search.
//!
//! A point is a place in the unit cube of the parameters. What was simulated is remembered by the
//! values as they are written, so no drive is simulated twice.

use super::target::Target;
use super::vary::Vary;
use super::{Phase, Watch};
use crate::CalibrateError;
use mynah_drive_file as drive;
use mynah_lab::batch;
use mynah_lab::experiment::Precondition;
use mynah_lab::runner::{RunError, SharedStates};
use mynah_lab::simulation::{Simulation, SimulationError, Step};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Cost of a point whose drive is refused: far more than that of any drive that works.
pub(super) const REFUSED: f64 = 1e6;

/// The drive and its targets.
pub(super) struct Bench<'a> {
    /// Name or path of the drive, and its text.
    pub(super) origin: &'a str,
    pub(super) text: &'a str,
    /// Changes to it that hold everywhere.
    pub(super) set: &'a [String],
    pub(super) vary: &'a [Vary],
    pub(super) targets: &'a [Target],
    pub(super) requests: u64,
    pub(super) seed: Option<u64>,
    pub(super) precondition: Precondition,
    /// States that all runs share, if they may.
    pub(super) shared: Option<SharedStates>,
    pub(super) threads: usize,
    pub(super) watch: &'a Watch<'a>,
}

/// A point that was simulated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// Where it is, in the unit cube.
    pub(super) unit: Vec<f64>,
    /// Values of the parameters, as drive files have them.
    pub(super) values: Vec<String>,
    /// Simulated figures by target; empty if the drive was refused.
    pub(super) modelled: Vec<Vec<f64>>,
    /// The weighted mean square of the figures' logarithmic errors.
    pub(super) cost: f64,
}

/// Cache of simulated points, and the reason of a refusal.
#[derive(Default)]
pub(super) struct Memory {
    points: BTreeMap<Vec<String>, Point>,
    pub(super) refused: Option<String>,
    /// Points that were simulated, of all lengths of runs.
    pub(super) simulated: usize,
}

/// Result of an evaluation, which the user may interrupt.
pub(super) enum Evaluation<T> {
    Whole(T),
    Interrupted,
}

/// The overrides that make the drive of `values`.
pub(super) fn changes(set: &[String], vary: &[Vary], values: &[String]) -> Vec<String> {
    let varied = vary.iter().zip(values).map(|(vary, value)| format!("{}={value}", vary.key));
    set.iter().cloned().chain(varied).collect()
}

impl Bench<'_> {
    /// The parameters' values at `unit`.
    pub(super) fn values(&self, unit: &[f64]) -> Vec<String> {
        self.vary.iter().zip(unit).map(|(vary, unit)| vary.value(*unit)).collect()
    }

    /// Simulates those of `units` that are new; the points in the same order.
    ///
    /// # Errors
    /// If a load cannot be run, or a run fails.
    pub(super) fn points(
        &self,
        units: &[Vec<f64>],
        phase: Phase,
        memory: &mut Memory,
    ) -> Result<Evaluation<Vec<Point>>, CalibrateError> {
        let mut fresh: Vec<(Vec<String>, Vec<f64>)> = Vec::new();
        for unit in units {
            let values = self.values(unit);
            let known = memory.points.contains_key(&values);
            if !known && !fresh.iter().any(|(other, _)| *other == values) {
                fresh.push((values, unit.clone()));
            }
        }
        let items: Vec<(usize, usize)> = (0..fresh.len())
            .flat_map(|point| (0..self.targets.len()).map(move |target| (point, target)))
            .collect();
        let left = Mutex::new(vec![self.targets.len(); fresh.len()]);
        let runs = batch::run(&items, self.threads, |_, &(point, target)| {
            let run = self.simulate(&fresh[point].0, target);
            let ended = match left.lock() {
                Ok(mut left) => {
                    left[point] -= 1;
                    left[point] == 0
                }
                Err(_) => false,
            };
            let go_on = (self.watch)(phase, usize::from(ended));
            match run {
                Ok(None) => None,
                run => go_on.then(|| run.map(Option::unwrap_or_default)),
            }
        });
        let mut runs = runs.into_iter();
        for (values, unit) in fresh {
            let mut modelled = Vec::new();
            let mut refused = None;
            for run in runs.by_ref().take(self.targets.len()) {
                match run {
                    None => return Ok(Evaluation::Interrupted),
                    Some(Ok(figures)) => modelled.push(figures),
                    Some(Err(CalibrateError::Drive(error))) => {
                        refused = Some(CalibrateError::Drive(error).to_string());
                    }
                    Some(Err(error)) => return Err(error),
                }
            }
            if refused.is_some() {
                modelled.clear();
            }
            memory.refused = memory.refused.take().or(refused);
            memory.simulated += 1;
            let cost = self.cost(&modelled);
            memory.points.insert(values.clone(), Point { unit, values, modelled, cost });
        }
        let found = units.iter().map(|unit| memory.points.get(&self.values(unit)).cloned());
        let found: Vec<Point> = found.flatten().collect();
        Ok(Evaluation::Whole(found))
    }

    /// The figures of target `target` on the drive of `values`; `None` if it was interrupted.
    fn simulate(
        &self,
        values: &[String],
        target: usize,
    ) -> Result<Option<Vec<f64>>, CalibrateError> {
        let target = &self.targets[target];
        let file = drive::parse(self.origin, self.text, &changes(self.set, self.vary, values))?;
        let mut simulation = Simulation::with(&file.name, file.config);
        if let Some(seed) = self.seed {
            simulation = simulation.seed(seed);
        }
        simulation.options.precondition = self.precondition;
        simulation.options.shared = self.shared.clone();
        simulation.options.keep_little();
        simulation.flows = vec![target.limited(self.requests)];
        let measured = simulation.run_watched(&mut |step| match step {
            Step::Running(_) | Step::Settling(_) | Step::Writing(_) => {
                (self.watch)(Phase::Inside, 0)
            }
            _ => true,
        });
        if let Err(SimulationError::Run(RunError::Interrupted)) = measured {
            return Ok(None);
        }
        let measured = measured.map_err(|error| at_target(error, target))?;
        if measured.interrupted {
            return Ok(None);
        }
        let flow = measured.result.flows.first();
        let figure = |figure: &super::target::Figure| {
            flow.and_then(|flow| figure.of_flow(flow)).unwrap_or(f64::NAN)
        };
        Ok(Some(target.figures.iter().map(figure).collect()))
    }

    /// The weighted mean square of the logarithmic errors of all figures.
    fn cost(&self, modelled: &[Vec<f64>]) -> f64 {
        if modelled.is_empty() {
            return REFUSED;
        }
        let (mut sum, mut weights) = (0.0, 0.0);
        for (error, weight) in self.errors(modelled) {
            sum += weight * error * error;
            weights += weight;
        }
        let cost = sum / weights;
        if cost.is_finite() { cost.min(REFUSED) } else { REFUSED }
    }

    /// The logarithm of modelled over measured of every figure, and how much it counts.
    pub(super) fn errors(&self, modelled: &[Vec<f64>]) -> Vec<(f64, f64)> {
        let mut all = Vec::new();
        for (target, modelled) in self.targets.iter().zip(modelled) {
            for ((figure, modelled), weight) in
                target.figures.iter().zip(modelled).zip(target.weights())
            {
                all.push((libm::log(modelled / figure.measured), weight));
            }
        }
        all
    }
}

/// The same error, with the target that it is about.
fn at_target(error: SimulationError, target: &Target) -> CalibrateError {
    match error.is_usage() {
        true => CalibrateError::Asked {
            message: format!("{} ({}): {error}", target.place, target.load),
            help: miette::Diagnostic::help(&error).map(|help| help.to_string()),
        },
        false => error.into(),
    }
}
