//! The runs of a sweep: which they are, and what they come to together. Who runs them, and where,
//! makes no difference.

use super::{Sweep, groups};
use mynah_lab::simulation::Simulation;
use mynah_result::output::named;
use mynah_result::{FailedRun, Result as RunResult, Results};

/// Runs of which all may keep their prepared drives, however large.
const FEW: usize = 4;

/// All runs of these points, in order: each point `repeats` times, with consecutive seeds and with
/// output files of its own.
pub fn repetitions(points: &[Simulation], repeats: u32) -> Vec<Simulation> {
    let each = |point| (0..repeats).map(move |number| repetition(point, number, repeats));
    let mut runs: Vec<Simulation> = points.iter().flat_map(each).collect();
    if runs.len() > FEW {
        runs.iter_mut().for_each(|run| run.options.keep_little());
    }
    runs
}

/// Repetition `number` of a simulation.
fn repetition(simulation: &Simulation, number: u32, repeats: u32) -> Simulation {
    let mut run = simulation.clone();
    // A sweep has one report, and it shows no single run over time.
    run.over_time = false;
    if repeats > 1 {
        run = run.seed(simulation.options.seed.wrapping_add(u64::from(number)));
        run.options.precision.runs = repeats;
        let name = format!("run-{}", number + 1);
        let files = [&mut run.request_log, &mut run.profile, &mut run.record, &mut run.save_state];
        for path in files.into_iter().flatten() {
            *path = named(path, &name);
        }
        for path in run.intervals.iter_mut().map(|(path, _)| path) {
            *path = named(path, &name);
        }
        for path in run.timeline.iter_mut().map(|(path, _)| path) {
            *path = named(path, &name);
        }
    }
    run
}

/// What varies in these runs.
pub fn axes(runs: &[Simulation]) -> Vec<String> {
    runs.first().map_or_else(Vec::new, |run| run.point.iter().map(|(key, _)| key.clone()).collect())
}

/// What to call these runs, as in `18 runs varying flow.writer.iodepth`.
pub fn title(runs: &[Simulation]) -> String {
    let noun = if runs.len() == 1 { "run" } else { "runs" };
    match axes(runs) {
        axes if axes.is_empty() => format!("{} {noun}", runs.len()),
        axes => format!("{} {noun} varying {}", runs.len(), axes.join(", ")),
    }
}

/// Describes a failed run: its point, its seed and the error.
pub fn failed(simulation: &Simulation, error: String) -> FailedRun {
    let point = simulation.point.iter().cloned().collect();
    FailedRun { point, seed: simulation.options.seed, error }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Ended {
    Done(Box<RunResult>),
    Failed(FailedRun),
}

/// The outcome of all runs of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// The results of points of which every run is done, in order.
    pub results: Vec<RunResult>,
    pub failed: Vec<FailedRun>,
    /// Whether some have not been run.
    pub is_part: bool,
}

impl Ends {
    /// Collects the outcomes of all runs; `None` for a run that was not made.
    pub fn of(runs: Vec<Option<Ended>>, repeats: usize) -> Ends {
        let mut all = Ends::default();
        let mut runs = runs.into_iter().peekable();
        while runs.peek().is_some() {
            let mut whole = Vec::new();
            for run in runs.by_ref().take(repeats.max(1)) {
                match run {
                    None => all.is_part = true,
                    Some(Ended::Done(result)) => whole.push(*result),
                    Some(Ended::Failed(run)) => all.failed.push(run),
                }
            }
            if whole.len() == repeats.max(1) {
                all.results.append(&mut whole);
            }
        }
        all
    }

    /// The table over `axes`, and the document for machines.
    pub fn into_sweep(self, axes: Vec<String>, repeats: usize) -> (Sweep, Results) {
        let points = groups(&self.results, repeats);
        let sweep = Sweep::new(axes, points).with_runs(&self.results);
        let mut document = Results::new(self.results);
        if repeats > 1 {
            document.confidence = sweep.confidence();
        }
        document.failed = self.failed;
        document.interrupted = self.is_part;
        (sweep, document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_result::testing as sample;

    #[test]
    fn points_of_which_a_run_is_missing_have_no_row() {
        let done = || Some(Ended::Done(Box::new(sample::contended())));
        let ended =
            Ended::Failed(FailedRun { point: Default::default(), seed: 3, error: "no".to_owned() });
        let ends = Ends::of(vec![done(), done(), done(), Some(ended), None, done()], 2);
        assert_eq!((ends.results.len(), ends.failed.len(), ends.is_part), (2, 1, true));
        let (sweep, document) = ends.into_sweep(vec!["a".to_owned()], 2);
        assert_eq!((document.confidence.len(), document.failed[0].seed), (1, 3));
        assert_eq!(sweep.csv().lines().count(), 2);
    }

    #[test]
    fn repetitions_have_seeds_and_files_of_their_own() {
        let mut point = Simulation::on("mqsim").unwrap().seed(7);
        point.request_log = Some("log.csv".into());
        point.over_time = true;
        let runs = repetitions(&[point.clone(), point], 3);
        let seeds: Vec<u64> = runs.iter().map(|run| run.options.seed).collect();
        assert_eq!(seeds, [7, 8, 9, 7, 8, 9]);
        assert_eq!(runs[4].request_log.as_deref(), Some(std::path::Path::new("log-run-2.csv")));
        assert!(runs.iter().all(|run| !run.over_time));
        assert_eq!(title(&runs), "6 runs");
    }
}
