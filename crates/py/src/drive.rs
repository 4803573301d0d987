//! Drives as Python has them: loaded, changed, shown.

use crate::failure::{Failure, guarded};
use mynah_drive_file::{self as drive, DriveFile, Setting};
use mynah_lab::SimulationError;
use pyo3::prelude::*;

/// What Python's callers call an override.
const SET: &str = "set";

/// A drive that was read, checked and found possible.
#[pyclass(frozen, module = "mynah._native")]
pub(crate) struct Drive {
    pub(crate) file: DriveFile,
}

#[pymethods]
impl Drive {
    /// The drive that `source` names; the one in `text`, if there is one, which messages then call
    /// `source`.
    #[new]
    fn new(
        py: Python<'_>,
        source: String,
        text: Option<String>,
        set: Vec<String>,
        faults: Vec<String>,
    ) -> PyResult<Drive> {
        guarded(py, move || {
            let file = match text {
                Some(text) => drive::parse_naming(&source, &text, &set, SET),
                None => drive::load_naming(&source, &set, SET),
            };
            let mut file = file.map_err(SimulationError::from)?;
            for fault in &faults {
                file.inject(fault).map_err(SimulationError::from)?;
            }
            Ok::<_, Failure>(Drive { file })
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.file.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.file.description
    }

    #[getter]
    fn hash(&self) -> &str {
        &self.file.hash
    }

    /// The file as it was read, without what was changed.
    #[getter]
    fn text(&self) -> &str {
        &self.file.text
    }

    /// Where the text came from.
    #[getter]
    fn origin(&self) -> &str {
        &self.file.origin
    }

    /// Every setting: key, value, `file`, `set` or `default`, and the file's source of it.
    fn settings(&self) -> Vec<(&str, &str, &str, Option<&str>)> {
        let each = |it| {
            let Setting { key, value, origin, source } = it;
            (key, value, origin, source)
        };
        self.file.settings().map(each).collect()
    }

    /// The drive as a table for people.
    fn show(&self, py: Python<'_>) -> PyResult<String> {
        guarded(py, || Ok::<_, Failure>(self.file.show()))
    }

    /// The drive with all that was changed, as a drive file.
    fn toml(&self, py: Python<'_>) -> PyResult<String> {
        let file = &self.file;
        guarded(py, || Ok::<_, Failure>(drive::to_toml(&file.name, "", &file.config, &[])))
    }
}

/// The names of the shipped drives.
#[pyfunction]
pub(crate) fn shipped() -> Vec<&'static str> {
    drive::shipped().iter().map(|drive| drive.name).collect()
}
