//! Values that several verbs take, as people write them.

use crate::args::flag;
use crate::failure::Failure;
use mynah_lab::units;
use mynah_runtime::cpus::Cpus;
use mynah_stamp::Span;

/// A duration; a bare number counts seconds.
pub(crate) fn span(option: &str, text: &str) -> Result<Span, Failure> {
    let seconds = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let text = if seconds { format!("{text}s") } else { text.to_owned() };
    let units::Duration(span) = text
        .parse()
        .map_err(|error: units::UnitError| Failure::usage(format!("{option}: {error}"), None))?;
    Ok(span)
}

/// The same, of more than nothing.
pub(crate) fn interval(option: &str, text: &str) -> Result<Span, Failure> {
    match span(option, text)? {
        span if span.is_zero() => {
            let help = "write a time such as 500ms; a bare number counts seconds";
            Err(Failure::usage(format!("{option} {text}: must be more than nothing"), Some(help)))
        }
        span => Ok(span),
    }
}

/// Where threads may run.
pub(crate) fn cpus(text: Option<&str>) -> Result<Option<Cpus>, Failure> {
    let read = |text: &str| {
        text.parse::<Cpus>()
            .map_err(|error| Failure::usage(format!("{}: {error}", flag("cpus_allowed")), None))
    };
    text.map(read).transpose()
}
