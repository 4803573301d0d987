//! Results, which pass as JSON.

use crate::failure::{Failure, guarded};
use crate::table::{self, Table};
use mynah_report::comparison::Comparison;
use mynah_report::summary as summaries;
use mynah_result::{Document, Result as RunResult};
use pyo3::prelude::*;

/// Parses a text with exactly one result.
fn one(text: &str) -> Result<RunResult, Failure> {
    let mut several = read("this", text)?;
    match (several.pop(), several.is_empty()) {
        (Some(result), true) => Ok(result),
        _ => Err(Failure::usage("one result is wanted, and these are several", None)),
    }
}

fn read(name: &str, text: &str) -> Result<Vec<RunResult>, Failure> {
    let help = "a result is what --json and Result.json write";
    let document = Document::from_json(text).map_err(|error| {
        Failure::usage(format!("{name} is not a result: {error}"), Some(help.to_owned()))
    })?;
    Ok(document.into_results())
}

/// Whether `text`, which messages call `name`, holds results; how many. Its numbers stay as they are
/// written there: to read and write them again would move last bits.
#[pyfunction]
pub(crate) fn results(py: Python<'_>, name: String, text: String) -> PyResult<usize> {
    guarded(py, move || Ok::<_, Failure>(read(&name, &text)?.len()))
}

/// The summary of a result for people.
#[pyfunction]
pub(crate) fn summary(py: Python<'_>, text: String) -> PyResult<String> {
    guarded(py, move || one(&text).map(|result| summaries::text(&result)))
}

fn compared(names: &[String; 2], texts: &[String; 2]) -> Result<Comparison, Failure> {
    let [first, second] = texts;
    let names = [names[0].as_str(), names[1].as_str()];
    Ok(Comparison::new(names, [&one(first)?, &one(second)?]))
}

/// Two results side by side, as a table.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, names: [String; 2], texts: [String; 2]) -> PyResult<String> {
    guarded(py, move || compared(&names, &texts).map(|comparison| comparison.text()))
}

/// Two results side by side, as JSON.
#[pyfunction]
pub(crate) fn compare_json(
    py: Python<'_>,
    names: [String; 2],
    texts: [String; 2],
) -> PyResult<String> {
    guarded(py, move || compared(&names, &texts).map(|comparison| comparison.to_json()))
}

/// Where the time of a result's requests went.
#[pyfunction]
pub(crate) fn stages(py: Python<'_>, text: String) -> PyResult<Table> {
    guarded(py, move || table::of_stages(&one(&text)?))
}

/// Who waited for whom, of a result.
#[pyfunction]
pub(crate) fn blame(py: Python<'_>, text: String) -> PyResult<Table> {
    guarded(py, move || table::of_blame(&one(&text)?))
}
