//! Errors as exceptions of `mynah._errors`: with the picture that the command would show, and its
//! parts.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use mynah_lab::SimulationError;
use mynah_lab::description::DescriptionError;
use mynah_result::output::OutputError;
use mynah_study::ledger::LedgerError;
use mynah_workload::OptionError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Columns of a rendered error.
const WIDTH: usize = 100;

/// An error that is to be raised as an exception.
pub(crate) struct Failure {
    /// Name of the exception's class.
    class: &'static str,
    /// The rendered error.
    text: String,
    message: String,
    help: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
}

impl Failure {
    /// The caller's arguments cannot be used.
    pub(crate) fn usage(message: impl Into<String>, help: Option<String>) -> Failure {
        Failure::plain("UsageError", message.into(), help)
    }

    /// This machine cannot do it; another may.
    pub(crate) fn unfit(message: String, help: Option<String>) -> Failure {
        Failure::plain("Unfit", message, help)
    }

    /// An error that consists of a message and help.
    fn plain(class: &'static str, message: String, help: Option<String>) -> Failure {
        let text = match &help {
            Some(help) => format!("{message}\n{help}"),
            None => message.clone(),
        };
        Failure { class, text, message, help, line: None, column: None }
    }

    /// A bug in Mynah, from the payload of a panic.
    pub(crate) fn bug(panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let message = format!("a bug in Mynah: {text}");
        let help = "please report it with the drive, the flows and the seed".to_owned();
        Failure::plain("InternalError", message, Some(help))
    }

    fn drawn(usage: bool, error: &(dyn Diagnostic + 'static)) -> Failure {
        let class = if usage { "UsageError" } else { "RunError" };
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
            .with_width(WIDTH)
            .with_context_lines(1)
            .with_break_words(false)
            .without_cause_chain();
        if handler.render_report(&mut text, error).is_err() {
            text = error.to_string();
        }
        let place = error.source_code().and_then(|source| {
            let label = error.labels()?.next()?;
            let contents = source.read_span(label.inner(), 0, 0).ok()?;
            Some((contents.line() + 1, contents.column() + 1))
        });
        Failure {
            class,
            text: picture(&error.to_string(), &text),
            message: error.to_string(),
            help: error.help().map(|help| help.to_string()),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
        }
    }

    fn option(error: &OptionError) -> Failure {
        let OptionError { option, value, problem } = error;
        Failure::usage(format!("{option}={value:?}: {problem}"), None)
    }
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Failure {
        match &error {
            SimulationError::Option(error) => Failure::option(error),
            _ => Failure::drawn(error.is_usage(), &error),
        }
    }
}

impl From<DescriptionError> for Failure {
    fn from(error: DescriptionError) -> Failure {
        match error {
            DescriptionError::Option(error) => Failure::option(&error),
            DescriptionError::Simulation(error) => error.into(),
            DescriptionError::Unknown { ref help, .. } => {
                Failure::usage(error.to_string(), Some(help.clone()))
            }
            DescriptionError::Flows(problem) => Failure::usage(problem, None),
        }
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        Failure::drawn(error.is_usage(), &error)
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        Failure::drawn(error.at_start, &error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let Failure { class, text, message, help, line, column } = failure;
        Python::attach(|py| {
            let made = class_of(py, class)
                .and_then(|class| class.call1((text, message, help, line, column)));
            made.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

/// A message with its picture below: it is shown after the name of the exception's class, so without
/// the picture's own heading.
fn picture(message: &str, drawn: &str) -> String {
    let heading = |line: &&str| line.starts_with("  × ") || line.starts_with("  │ ");
    let rest = drawn.trim_end().lines().skip_while(heading);
    std::iter::once(message).chain(rest).collect::<Vec<_>>().join("\n")
}

/// A class of `mynah._errors`.
pub(crate) fn class_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("mynah._errors")?.getattr(name)?.cast_into::<PyType>()?)
}

/// Does `work`, without the interpreter; a panic is an `InternalError`.
pub(crate) fn guarded<T: Send, E: Into<Failure> + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    match done {
        Ok(done) => done.map_err(|error| error.into().into()),
        Err(panic) => Err(Failure::bug(&*panic).into()),
    }
}

/// Something that cannot be read.
pub(crate) fn unreadable(name: impl Display, error: impl Display) -> Failure {
    Failure::usage(format!("cannot read {name}: {error}"), None)
}

/// A bug, for the tests of what becomes of one.
#[pyo3::pyfunction]
pub(crate) fn fail(py: Python<'_>) -> PyResult<()> {
    guarded(py, || -> Result<(), Failure> { panic!("this is a test") })
}
