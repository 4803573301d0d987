//! Values that several verbs take, as people write them.

use crate::args::flag;
use crate::failure::Failure;
use mynah_drive_file::units;
use mynah_runtime::cpus::Cpus;
use mynah_stamp::Span;

/// A duration in units of fio's or of drive files, in either case; a bare number counts seconds.
pub(crate) fn span(option: &str, text: &str) -> Result<Span, Failure> {
    let read = |text: &str| {
        let seconds = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let text = if seconds { format!("{text}s") } else { text.to_owned() };
        text.parse::<units::Duration>()
    };
    let lower = text.trim().to_lowercase();
    let short = |text: &&str| text.ends_with("us") || text.ends_with("ms");
    let units::Duration(span) = read(lower.strip_suffix("ec").filter(short).unwrap_or(&lower))
        .or_else(|_| read(text))
        .map_err(|error| Failure::usage(format!("{option}: {error}"), None))?;
    Ok(span)
}

/// Like [`span`], but zero is refused.
pub(crate) fn interval(option: &str, text: &str) -> Result<Span, Failure> {
    match span(option, text)? {
        span if span.is_zero() => {
            let help = "write a time such as 500ms; a bare number counts seconds";
            Err(Failure::usage(format!("{option} {text}: must be more than nothing"), Some(help)))
        }
        span => Ok(span),
    }
}

/// Parses a list of processors.
pub(crate) fn cpus(text: Option<&str>) -> Result<Option<Cpus>, Failure> {
    let read = |text: &str| {
        text.parse::<Cpus>()
            .map_err(|error| Failure::usage(format!("{}: {error}", flag("cpus_allowed")), None))
    };
    text.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_units_of_fio() {
        for (text, us) in [
            ("2", 2_000_000),
            ("1.5", 1_500_000),
            ("2S", 2_000_000),
            ("2m", 120_000_000),
            ("7ms", 7_000),
            ("7MSEC", 7_000),
            ("7usec", 7),
            ("7us", 7),
        ] {
            assert_eq!(span("--ramp_time", text).ok(), Some(Span::from_us(us)), "{text}");
        }
        for text in ["2sec", "x", "", "-1"] {
            assert!(span("--ramp_time", text).is_err(), "{text}");
        }
    }
}
