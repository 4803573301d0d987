//! How failures are shown, and the exit codes they end in: 1 for what ran and failed, 2 for
//! what was asked wrongly.

use miette::{Diagnostic, MietteHandlerOpts, Report};
use mynah_lab::SimulationError;
use mynah_lab::runner::RunError;
use mynah_result::output::OutputError;
use mynah_study::ledger::LedgerError;
use mynah_workload::FlowOptions;
use std::io;
use std::process::ExitCode;

/// Why the command did not do what was asked.
pub(crate) enum Failure {
    /// Wrong usage: exit code 2.
    Usage(Report),
    /// The command ran and failed: exit code 1.
    Run(Report),
    /// Standard output does not take what is printed.
    Stdout(io::Error),
    /// The command was interrupted.
    Interrupted,
}

/// A mistake on the command line, or a failure that has no more to it than a message.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct Mistake {
    message: String,
    #[help]
    help: Option<String>,
}

impl Failure {
    /// A mistake on the command line, and how to mend it.
    pub(crate) fn usage(message: impl Into<String>, help: Option<&str>) -> Failure {
        let help = help.map(str::to_owned);
        Failure::Usage(Report::new(Mistake { message: message.into(), help }))
    }

    /// What ran and failed, and what may help.
    pub(crate) fn failed(message: String, help: Option<&str>) -> Failure {
        let help = help.map(str::to_owned);
        Failure::Run(Report::new(Mistake { message, help }))
    }

    /// Shows the failure; the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Failure::Usage(report) => {
                say(format_args!("{report:?}"));
                ExitCode::from(2)
            }
            Failure::Run(report) => {
                say(format_args!("{report:?}"));
                ExitCode::from(1)
            }
            Failure::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Failure::Interrupted => ExitCode::from(crate::INTERRUPTED),
            Failure::Stdout(error) => {
                say(format_args!("cannot write to standard output: {error}"));
                ExitCode::from(1)
            }
        }
    }
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Failure {
        if let SimulationError::Run(RunError::Interrupted) = &error {
            say(&error);
            return Failure::Interrupted;
        }
        if let SimulationError::Option(error) = &error {
            // On the command line options have dashes.
            let option = crate::args::flag(error.option);
            let declared = FlowOptions::DECLARED.iter().find(|it| it.name == error.option);
            // Those that stand alone have a value only behind `=`.
            let given = match (declared.is_some_and(|it| it.value == "BOOL"), error.value.as_str())
            {
                (true, "true") => option,
                (true, value) => format!("{option}={value}"),
                (false, value) => format!("{option} {value}"),
            };
            return Failure::usage(format!("{given}: {}", error.problem), None);
        }
        match error.is_usage() {
            true => Failure::Usage(Report::new(error)),
            false => Failure::Run(Report::new(error)),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        match error.at_start {
            true => Failure::Usage(Report::new(error)),
            false => Failure::Run(Report::new(error)),
        }
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        match error.is_usage() {
            true => Failure::Usage(Report::new(error)),
            false => Failure::Run(Report::new(error)),
        }
    }
}

/// Sets how error reports are formatted.
pub(crate) fn install() {
    // Fails only if a handler is installed, and this is the only one.
    let _ = miette::set_hook(Box::new(|_| {
        Box::new(
            MietteHandlerOpts::new()
                .context_lines(1)
                .break_words(false)
                .without_cause_chain()
                .build(),
        )
    }));
}

/// Says that there are no `bytes` of memory. Neither allocates nor takes locks.
pub(crate) fn without_memory(bytes: usize) {
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    let unused = {
        use std::io::Write;
        let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
        let _ = write!(rest, "  × out of memory: {bytes} bytes more are wanted, and the system");
        let _ = match limit {
            Some(limit) => {
                let kib = limit / 1024;
                write!(
                    rest,
                    " gives this process {kib} KiB in all (ulimit -v)\n  help: raise that,"
                )
            }
            None => write!(rest, " has none\n  help:"),
        };
        let _ = write!(
            rest,
            " take a smaller or coarser drive (mapping.unit, geometry.*), or, to serve,\n        \
             --store file:PATH instead of memory, or fewer drives or namespaces\n"
        );
        rest.len()
    };
    let said = &text[..text.len() - unused];
    // If nobody reads that, there is nobody to tell.
    let _ = rustix::io::write(std::io::stderr(), said);
}

/// Writes a line to standard error. If nobody reads that, there is nobody to tell.
pub(crate) fn say(text: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
