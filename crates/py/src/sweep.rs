//! Sweeps: which runs there are, runs on this thread, and what all of them come to.

use crate::failure::{Failure, guarded};
use crate::ledger::{Ledger, with_files};
use crate::run::{Measured, enough_memory, here};
use crate::simulation::Simulation;
use crate::table::{self, Table};
use mynah_lab::description::{Axis, Base, Description, Varied, Words};
use mynah_result::Document;
use mynah_study::ledger::{Contents, Key};
use mynah_study::sweep::runs::{self, Ended, Ends};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A drive (its name, the text of its file, what is set, faults), flows and settings, and a point.
type PointInWords = ((String, String, Vec<String>, Vec<String>), Vec<Words>, Words, Words);

fn in_words(base: Base, point: Words) -> PointInWords {
    let Base { drive: (name, text), set, faults, description } = base;
    ((name, text, set, faults), description.flows, description.settings, point)
}

fn base(
    drive: (String, String, Vec<String>, Vec<String>),
    flows: Vec<Words>,
    settings: Words,
) -> Base {
    let (name, text, set, faults) = drive;
    Base { drive: (name, text), set, faults, description: Description { flows, settings } }
}

/// The points of a sweep over `axes`, in words.
#[pyfunction]
pub(crate) fn vary(
    py: Python<'_>,
    drive: (String, String, Vec<String>, Vec<String>),
    flows: Vec<Words>,
    settings: Words,
    axes: Vec<Axis>,
) -> PyResult<Vec<PointInWords>> {
    let base = base(drive, flows, settings);
    guarded(py, move || {
        let points = base.vary("sweep", &axes).map_err(Failure::from)?;
        let each = |Varied { base, point, .. }| in_words(base, point);
        Ok::<_, Failure>(points.into_iter().map(each).collect())
    })
}

/// The text of an experiment file of a sweep, whose drive is called `name`.
#[pyfunction]
pub(crate) fn sweep_text(
    drive: (String, String, Vec<String>, Vec<String>),
    flows: Vec<Words>,
    settings: Words,
    axes: Vec<Axis>,
    name: &str,
) -> String {
    base(drive, flows, settings).to_toml(name, &axes)
}

/// Tells runs to end.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Stop {
    end: AtomicBool,
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop { end: AtomicBool::new(false) }
    }

    /// They end, as soon as they can.
    fn stop(&self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// Every run of a sweep.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Sweep {
    runs: Vec<mynah_lab::Simulation>,
    keys: Vec<Key>,
    repeats: u32,
}

impl Sweep {
    fn run_at(&self, run: usize) -> Result<&mynah_lab::Simulation, Failure> {
        self.runs.get(run).ok_or_else(|| Failure::usage(format!("there is no run {run}"), None))
    }
}

#[pymethods]
impl Sweep {
    /// The runs of these points, each so often.
    #[new]
    fn new(py: Python<'_>, points: Vec<Bound<'_, Simulation>>, repeats: u32) -> PyResult<Sweep> {
        let points: Vec<_> = points.iter().map(|point| point.get().simulation.clone()).collect();
        guarded(py, move || {
            let runs = runs::repetitions(&points, repeats.max(1));
            let keys = with_files(|files| {
                runs.iter().map(|run| Key::of(run, files)).collect::<Result<Vec<_>, _>>()
            })?;
            Ok::<_, Failure>(Sweep { runs, keys, repeats: repeats.max(1) })
        })
    }

    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// What varies.
    fn axes(&self) -> Vec<String> {
        runs::axes(&self.runs)
    }

    /// What to call it.
    fn title(&self) -> String {
        runs::title(&self.runs)
    }

    /// The runs' keys.
    fn keys(&self) -> Vec<String> {
        self.keys.iter().map(Key::to_string).collect()
    }

    /// The point and the seed of a run.
    fn point(&self, run: usize) -> PyResult<(Words, u64)> {
        let run = self.run_at(run)?;
        Ok((run.point.clone(), run.options.seed))
    }

    /// The simulation that is one of the runs.
    fn simulation(&self, run: usize) -> PyResult<Simulation> {
        Ok(Simulation { simulation: self.run_at(run)?.clone() })
    }

    /// Its ledger in a folder, with these files beside it.
    fn ledger(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        us: &str,
        files: Vec<(String, String)>,
        keys: Vec<String>,
    ) -> PyResult<Ledger> {
        let read = |key: &String| Key::parse(key).unwrap_or(self.keys[0]);
        let keys: Vec<Key> = keys.iter().map(read).collect();
        Ledger::open(py, folder, &Contents::of_sweep(&keys, self.title(), files), us)
    }

    /// Refuses runs that this machine cannot hold, so many at a time.
    fn check_memory(&self, py: Python<'_>, runs: Vec<usize>, at_once: u64) -> PyResult<()> {
        guarded(py, || runs.iter().try_for_each(|&run| enough_memory(self.run_at(run)?, at_once)))
    }

    /// Does a run on this thread; `None` if it was told to end.
    fn run(
        &self,
        py: Python<'_>,
        run: usize,
        command: String,
        stop: &Stop,
    ) -> PyResult<Option<Measured>> {
        let simulation = self.run_at(run)?;
        here(py, simulation, command, &stop.end)
    }

    /// What all runs come to: of each what became of it, as a ledger says it, or nothing.
    fn finish(&self, py: Python<'_>, ends: Vec<Option<(String, String)>>) -> PyResult<Collected> {
        guarded(py, || {
            let mut ended = Vec::new();
            for (end, run) in ends.into_iter().zip(&self.runs) {
                ended.push(match end {
                    None => None,
                    Some((kind, text)) if kind == "done" => match Document::from_json(&text) {
                        Ok(Document::One(result)) => Some(Ended::Done(result)),
                        _ => return Err(Failure::usage("this is not a result", None)),
                    },
                    Some((_, error)) => Some(Ended::Failed(runs::failed(run, error))),
                });
            }
            let repeats = self.repeats as usize;
            let (sweep, document) =
                Ends::of(ended, repeats).into_sweep(runs::axes(&self.runs), repeats);
            Ok::<_, Failure>(Collected { sweep, document })
        })
    }
}

/// What all runs of a sweep come to.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Collected {
    sweep: mynah_study::sweep::Sweep,
    document: mynah_result::Results,
}

#[pymethods]
impl Collected {
    /// The document that the command writes.
    fn json(&self) -> String {
        self.document.to_json()
    }

    /// The table that the command prints.
    fn text(&self) -> String {
        self.sweep.text()
    }

    /// The table that the command writes.
    fn csv(&self) -> String {
        self.sweep.csv()
    }

    /// The report.
    fn html(&self, py: Python<'_>, title: &str) -> PyResult<String> {
        guarded(py, || Ok::<_, Failure>(self.sweep.html(title)))
    }

    /// Each result.
    fn results(&self) -> Vec<String> {
        self.document.results.iter().map(mynah_result::Result::to_json).collect()
    }

    /// Each run that failed: its point, its seed and why.
    fn failed(&self) -> Vec<(Words, u64, String)> {
        let each = self.document.failed.iter();
        each.map(|it| (it.point.clone().into_iter().collect(), it.seed, it.error.clone())).collect()
    }

    /// The table.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        guarded(py, || table::of_sweep(self.sweep.columns()))
    }
}
