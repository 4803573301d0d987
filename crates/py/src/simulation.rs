//! Simulations in words, and the files that say them.

use crate::drive::Drive;
use crate::failure::{Failure, guarded, unreadable};
use mynah_drive_file as drive;
use mynah_lab::description::{self, Description, SETTINGS, Words};
use mynah_lab::experiment::{Experiment, Point};
use mynah_lab::{SimulationError, mqsim};
use mynah_workload::FlowOptions;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// A drive as [`Drive::new`] takes it, flows and settings.
type InWords = (String, Option<String>, Vec<String>, Vec<Words>, Words);

/// A drive with flows in front of it, ready to run.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Simulation {
    pub(crate) simulation: mynah_lab::Simulation,
}

#[pymethods]
impl Simulation {
    #[new]
    fn new(
        py: Python<'_>,
        drive: &Drive,
        flows: Vec<Words>,
        settings: Words,
        point: Words,
    ) -> PyResult<Simulation> {
        let file = &drive.file;
        guarded(py, move || {
            let mut simulation = Description { flows, settings }.simulation(file)?;
            simulation.point = point;
            Ok::<_, Failure>(Simulation { simulation })
        })
    }

    /// The same as one of so many runs with different seeds.
    fn of_runs(&self, runs: u32) -> Simulation {
        let mut simulation = self.simulation.clone();
        simulation.options.precision.runs = runs;
        Simulation { simulation }
    }

    /// Flows and settings in the words that stand for the same.
    fn words(&self, py: Python<'_>) -> PyResult<(Vec<Words>, Words)> {
        guarded(py, || {
            let Description { flows, settings } = Description::of(&self.simulation)?;
            Ok::<_, Failure>((flows, settings))
        })
    }

    /// A drive file and an experiment file to be at these places, as texts.
    fn files(
        &self,
        py: Python<'_>,
        drive: PathBuf,
        experiment: PathBuf,
    ) -> PyResult<(String, String)> {
        guarded(py, || {
            let simulation = &self.simulation;
            let unsaid = [
                ("alone", simulation.alone),
                ("require_steady", simulation.require_steady),
                ("until_steady", simulation.options.until_steady.is_some()),
                ("load_state", simulation.options.load_state.is_some()),
            ];
            if let Some((name, _)) = unsaid.iter().find(|(_, said)| *said) {
                let message = format!("an experiment file cannot say {name}");
                let help = format!("replace({name}=None) leaves it out");
                return Err(Failure::usage(message, Some(help)));
            }
            let texts = simulation.to_files("", &drive, &experiment)?;
            Ok((texts.drive, texts.experiment))
        })
    }

    /// What would be run, for people.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        guarded(py, || self.simulation.describe())
    }

    /// The memory that the drive's tables take, about, in bytes.
    fn memory_bytes(&self) -> u64 {
        self.simulation.memory_bytes()
    }

    /// The traces that are read.
    fn traces(&self) -> Vec<PathBuf> {
        description::traces(&self.simulation).map(Path::to_owned).collect()
    }

    /// The flows' names.
    fn flow_names(&self) -> Vec<&str> {
        self.simulation.flows.iter().map(|flow| flow.name.as_str()).collect()
    }
}

/// The options of a flow in the words that stand for the same.
#[pyfunction]
pub(crate) fn flow(py: Python<'_>, words: Words) -> PyResult<Words> {
    guarded(py, move || description::canonical(&words))
}

/// The names of a flow's options.
#[pyfunction]
pub(crate) fn flow_options() -> Vec<&'static str> {
    FlowOptions::NAMES.to_vec()
}

/// The names of a simulation's settings.
#[pyfunction]
pub(crate) fn settings() -> Vec<&'static str> {
    SETTINGS.to_vec()
}

/// A simulation whose drive is said by a whole drive file.
fn in_words(simulation: &mynah_lab::Simulation) -> Result<InWords, Failure> {
    let Description { flows, settings } = Description::of(simulation)?;
    let text = drive::to_toml(&simulation.name, "", &simulation.config, &[]);
    let read = drive::parse(&simulation.name, &text, &[]).map_err(SimulationError::from)?;
    if read.config != simulation.config {
        return Err(Failure::usage("a drive file would lose some of this drive", None));
    }
    Ok((simulation.name.clone(), Some(text), Vec::new(), flows, settings))
}

/// The simulations that an experiment file says, each with the point of its sweep.
#[pyfunction]
pub(crate) fn load_experiment(py: Python<'_>, path: PathBuf) -> PyResult<Vec<(InWords, Words)>> {
    guarded(py, move || {
        let points = Experiment::load_points(&path).map_err(SimulationError::from)?;
        let simulations = mynah_lab::Simulation::from_sweep(&path, &[])?;
        let mut all = Vec::new();
        for (Point { values, experiment }, simulation) in points.into_iter().zip(&simulations) {
            let mut words = in_words(simulation)?;
            if experiment.flows.iter().all(|flow| flow.own_namespace.is_none()) {
                // Drive files say where they have their numbers from.
                let set = experiment.overrides.iter().map(ToString::to_string).collect();
                let settings = Description::of_experiment(simulation, &experiment)?.settings;
                words = (experiment.drive, None, set, words.3, settings);
            }
            all.push((words, values));
        }
        Ok::<_, Failure>(all)
    })
}

/// The flows of a fio job file, the settings that it has, and what has no effect here.
#[pyfunction]
pub(crate) fn load_fio(
    py: Python<'_>,
    drive: &Drive,
    path: PathBuf,
) -> PyResult<(Vec<Words>, Words, Vec<String>)> {
    let file = &drive.file;
    guarded(py, move || {
        let empty = mynah_lab::Simulation::with(&file.name, file.config.clone());
        let (simulation, warnings) = empty.fio(&path)?;
        let Description { flows, settings } = Description::of(&simulation)?;
        Ok::<_, Failure>((flows, settings, warnings))
    })
}

/// The scenarios of a pair of MQSim's files, and what has no effect here.
#[pyfunction]
pub(crate) fn load_mqsim(
    py: Python<'_>,
    drive: PathBuf,
    workload: PathBuf,
) -> PyResult<(Vec<InWords>, Vec<String>)> {
    guarded(py, move || {
        for path in [&drive, &workload] {
            std::fs::metadata(path).map_err(|error| unreadable(path.display(), error))?;
        }
        let import = mqsim::load(&drive, &workload, false).map_err(SimulationError::from)?;
        let warnings = import.warnings.clone();
        let simulations = mynah_lab::Simulation::from_mqsim(import);
        let all = simulations.iter().map(in_words).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Failure>((all, warnings))
    })
}
