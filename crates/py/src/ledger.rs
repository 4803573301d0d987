//! Ledgers of finished runs.

use crate::failure::{Failure, guarded};
use crate::simulation::Simulation;
use mynah_result::{Document, FailedRun};
use mynah_study::ledger::{Contents, Entry, Files, Key, Ledger as StudyLedger, LedgerError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What was read of traces and saved states.
static FILES: Mutex<Option<Files>> = Mutex::new(None);

/// Does `work` with what is known of files.
pub(crate) fn with_files<T>(work: impl FnOnce(&mut Files) -> T) -> T {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    work(files.get_or_insert_default())
}

/// SHA-256 of a file's contents, as hexadecimal digits.
#[pyfunction]
pub(crate) fn digest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    guarded(py, || with_files(|files| files.digest(&path)))
}

/// The key of a run.
#[pyfunction]
pub(crate) fn run_key(py: Python<'_>, simulation: &Simulation) -> PyResult<String> {
    guarded(py, || {
        with_files(|files| Key::of(&simulation.simulation, files)).map(|it| it.to_string())
    })
}

/// The key of what `what` makes of the run with this key.
#[pyfunction]
pub(crate) fn value_key(key: &str, what: &str) -> PyResult<String> {
    Ok(read(key)?.of_value(what).to_string())
}

fn read(key: &str) -> Result<Key, Failure> {
    Key::parse(key).ok_or_else(|| Failure::usage(format!("`{key}` is not the key of a run"), None))
}

/// A ledger, open.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Ledger {
    /// `None` when it was closed.
    ledger: Mutex<Option<StudyLedger>>,
}

impl Ledger {
    pub(crate) fn open(
        py: Python<'_>,
        folder: PathBuf,
        contents: &Contents,
        us: &str,
    ) -> PyResult<Ledger> {
        guarded(py, || {
            let ledger = StudyLedger::open(&folder, contents, us)?;
            Ok::<_, LedgerError>(Ledger { ledger: Mutex::new(Some(ledger)) })
        })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StudyLedger) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        guarded(py, || {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *ledger {
                Some(ledger) => work(ledger),
                None => Err(Failure::usage("the ledger was closed", None)),
            }
        })
    }
}

#[pymethods]
impl Ledger {
    /// A ledger of any runs in a folder.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf, us: &str) -> PyResult<Ledger> {
        Ledger::open(py, folder, &Contents::default(), us)
    }

    /// What became of a run: `done`, `failed` or `value`, and the result, the message or the value.
    fn get(&self, py: Python<'_>, key: &str) -> PyResult<Option<(&'static str, String)>> {
        let key = read(key)?;
        self.with(py, |ledger| {
            Ok(ledger.get(&key)?.map(|entry| match entry {
                Entry::Done(result) => ("done", result.to_json()),
                Entry::Failed(failed) => ("failed", failed.error),
                Entry::Value(value) => ("value", value.to_string()),
            }))
        })
    }

    /// `None` if it does not have the run, else whether that failed.
    fn has_failed(&self, py: Python<'_>, key: &str) -> PyResult<Option<bool>> {
        let key = read(key)?;
        self.with(py, |ledger| Ok(ledger.has_failed(&key)))
    }

    /// Adds a result, a failure or a value.
    fn add(
        &self,
        py: Python<'_>,
        key: &str,
        kind: &str,
        text: &str,
        run: (Vec<(String, String)>, u64),
    ) -> PyResult<()> {
        let key = read(key)?;
        let unreadable = |error: serde_json::Error| {
            Failure::usage(format!("what a run gave cannot be kept: {error}"), None)
        };
        self.with(py, |ledger| {
            let entry = match kind {
                "done" => match Document::from_json(text).map_err(unreadable)? {
                    Document::One(result) => Entry::Done(result),
                    Document::Several(_) => return Err(Failure::usage("several results", None)),
                },
                "value" => Entry::Value(serde_json::from_str(text).map_err(unreadable)?),
                _ => {
                    let (point, seed) = run;
                    let point = point.into_iter().collect();
                    Entry::Failed(FailedRun { point, seed, error: text.to_owned() })
                }
            };
            Ok(ledger.add(key, &entry)?)
        })
    }

    /// How many runs it has.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |ledger| Ok(ledger.len()))
    }

    /// Lets go of it.
    fn close(&self) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
