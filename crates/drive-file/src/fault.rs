//! Faults as people write them: `read-error:rate=1e-5`, `dead-die:die=3,at=1s`.
//!
//! One grammar serves the command line (`--fault SPEC`) and drive files (`[[fault]]`, where
//! the same names are keys). Whether a die or a namespace exists is checked with the drive,
//! by [`check`].

use mynah_model::config::{Config, Fault, FaultExtent, MediaOperation};
use mynah_stamp::{Span, Time};

use crate::units::{Duration, Fraction};

/// The valid forms, for help texts.
pub const FORMS: &str = "\
read-error:rate=1e-5
read-error:units=0-99[,namespace=1]
program-error:rate=1e-4
program-error:units=0-99[,namespace=1]
erase-error:rate=1e-3
slow-die:die=3,factor=4
dead-die:die=3[,at=1s]
power-cut:at=2s[,recovery=500ms]";

/// From a power cut until the drive accepts commands again, unless the fault says otherwise.
pub const DEFAULT_RECOVERY: Span = Span::from_secs(1);

/// A fault that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{message}")]
#[diagnostic(help("{help}"))]
pub struct FaultError {
    /// What is wrong.
    pub message: String,
    /// The key whose value is at fault; `None`: the kind of the fault, or the whole of it.
    pub key: Option<String>,
    /// What would be valid.
    pub help: String,
}

/// Reads a fault written as `KIND:KEY=VALUE,…`.
///
/// # Errors
/// [`FaultError`] names the part that is wrong and the valid forms.
pub fn parse(spec: &str) -> Result<Fault, FaultError> {
    let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let mut settings = Vec::new();
    for part in rest.split(',').filter(|part| !part.trim().is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            return Err(FaultError {
                message: format!("`{part}` in the fault `{spec}` is not of the form KEY=VALUE"),
                key: None,
                help: forms(kind.trim()),
            });
        };
        settings.push((key.trim(), value.trim()));
    }
    from_parts(kind.trim(), &settings)
}

/// Whether a fault, whatever its settings, is of a kind that there is.
pub fn is_known(spec: &str) -> bool {
    let kind = spec.split(':').next().unwrap_or(spec).trim();
    FORMS.lines().any(|form| form.split(':').next() == Some(kind))
}

/// Builds a fault from its kind and its settings, as they stand in a drive file.
///
/// # Errors
/// [`FaultError`] names the setting that is wrong and the valid forms.
pub fn from_parts(kind: &str, settings: &[(&str, &str)]) -> Result<Fault, FaultError> {
    let settings = Settings { kind, all: settings };
    let fault = match kind {
        "read-error" => settings.media(MediaOperation::Read)?,
        "program-error" => settings.media(MediaOperation::Program)?,
        "erase-error" => settings.media(MediaOperation::Erase)?,
        "slow-die" => {
            settings.only(&["die", "factor"])?;
            Fault::SlowDie { die: settings.number("die")?, factor: settings.factor()? }
        }
        "dead-die" => {
            settings.only(&["die", "at"])?;
            let at = settings.time("at")?.unwrap_or_default();
            Fault::DeadDie { die: settings.number("die")?, at: Time::from_ps(at.as_ps()) }
        }
        "power-cut" => {
            settings.only(&["at", "recovery"])?;
            let at = settings.time("at")?.ok_or_else(|| settings.missing("at"))?;
            let recovery = settings.time("recovery")?.unwrap_or(DEFAULT_RECOVERY);
            Fault::PowerCut { at: Time::from_ps(at.as_ps()), recovery }
        }
        _ => {
            return Err(FaultError {
                message: if kind.is_empty() {
                    "a fault must say what fails".to_owned()
                } else {
                    format!("there is no fault `{kind}`")
                },
                key: None,
                help: forms(""),
            });
        }
    };
    Ok(fault)
}

/// Checks that what `fault` names exists in the drive.
///
/// # Errors
/// [`FaultError`] names the setting and its valid range.
pub fn check(fault: &Fault, drive: &Config) -> Result<(), FaultError> {
    let outside = |key: &str, message: String, help: String| {
        Err(FaultError { message, key: Some(key.to_owned()), help })
    };
    match *fault {
        Fault::SlowDie { die, .. } | Fault::DeadDie { die, .. } if die >= drive.geometry.dies() => {
            outside(
                "die",
                format!("there is no die {die}"),
                format!("the drive's dies are 0 to {}", drive.geometry.dies() - 1),
            )
        }
        Fault::Media { extent: FaultExtent::Units { namespace, first, last }, .. } => {
            let count = drive.namespaces.len();
            let Some(index) = (namespace as usize).checked_sub(1).filter(|i| *i < count) else {
                return outside(
                    "namespace",
                    format!("there is no namespace {namespace}"),
                    format!("the drive's namespaces are 1 to {count}"),
                );
            };
            match drive.namespaces[index].units {
                Some(units) if last >= units => outside(
                    "units",
                    format!("units {first}-{last} pass the end of namespace {namespace}"),
                    format!("its mapping units are 0 to {}", units.saturating_sub(1)),
                ),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Prints a fault so that [`parse`] reads it back.
pub fn print(fault: &Fault) -> String {
    let since_start = |at: Time| Duration(Span::from_ps(at.as_ps()));
    match *fault {
        Fault::Media { operation, extent } => {
            let kind = match operation {
                MediaOperation::Read => "read-error",
                MediaOperation::Program => "program-error",
                MediaOperation::Erase => "erase-error",
            };
            match extent {
                FaultExtent::Rate(rate) => format!("{kind}:rate={rate}"),
                FaultExtent::Units { namespace, first, last } => {
                    format!("{kind}:units={first}-{last},namespace={namespace}")
                }
            }
        }
        Fault::SlowDie { die, factor } => format!("slow-die:die={die},factor={factor}"),
        Fault::DeadDie { die, at } => format!("dead-die:die={die},at={}", since_start(at)),
        Fault::PowerCut { at, recovery } => {
            format!("power-cut:at={},recovery={}", since_start(at), Duration(recovery))
        }
    }
}

/// What there is to say of the faults that did nothing in a run, which ended then, and in which so many
/// flash operations failed.
pub fn unused(faults: &[Fault], run: &str, end: Time, media_errors: u64) -> Vec<String> {
    let why = |fault: &Fault| match fault {
        Fault::DeadDie { at, .. } | Fault::PowerCut { at, .. } if *at > end => {
            Some(format!("{run} ended after {}", Duration(Span::from_ps(end.as_ps()))))
        }
        Fault::Media { extent: FaultExtent::Rate(rate), .. }
            if media_errors == 0 && *rate > 0.0 =>
        {
            Some("no flash operation failed; a longer run or a higher rate".to_owned())
        }
        Fault::Media { extent: FaultExtent::Units { .. }, .. } if media_errors == 0 => {
            Some("no flash operation touched those units".to_owned())
        }
        _ => None,
    };
    let told =
        |fault| why(fault).map(|why| format!("the fault {} did nothing: {why}", print(fault)));
    faults.iter().filter_map(told).collect()
}

/// The forms of `kind`, or all of them if there is no such kind.
fn forms(kind: &str) -> String {
    let own: Vec<&str> =
        FORMS.lines().filter(|form| form.split(':').next() == Some(kind)).collect();
    if own.is_empty() {
        format!("the valid forms are\n{FORMS}")
    } else {
        format!("write it as\n{}", own.join("\n"))
    }
}

/// The settings of one fault.
struct Settings<'a> {
    kind: &'a str,
    all: &'a [(&'a str, &'a str)],
}

impl Settings<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.all.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn wrong(&self, key: &str, message: String) -> FaultError {
        FaultError { message, key: Some(key.to_owned()), help: forms(self.kind) }
    }

    fn missing(&self, key: &str) -> FaultError {
        FaultError {
            message: format!("`{}` needs `{key}`", self.kind),
            key: None,
            help: forms(self.kind),
        }
    }

    /// Refuses keys that the kind does not know, and keys given twice.
    fn only(&self, known: &[&str]) -> Result<(), FaultError> {
        for (i, (key, _)) in self.all.iter().enumerate() {
            if !known.contains(key) {
                return Err(self.wrong(key, format!("`{}` has no setting `{key}`", self.kind)));
            }
            if self.all[..i].iter().any(|(k, _)| k == key) {
                return Err(self.wrong(key, format!("`{key}` is given twice")));
            }
        }
        Ok(())
    }

    fn number(&self, key: &str) -> Result<u32, FaultError> {
        let text = self.get(key).ok_or_else(|| self.missing(key))?;
        text.parse().map_err(|_| {
            self.wrong(key, format!("`{key}` must be a whole number from 0, found `{text}`"))
        })
    }

    fn time(&self, key: &str) -> Result<Option<Span>, FaultError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let time: Duration =
            text.parse().map_err(|error| self.wrong(key, format!("`{key}`: {error}")))?;
        Ok(Some(time.0))
    }

    fn factor(&self) -> Result<f64, FaultError> {
        let text = self.get("factor").ok_or_else(|| self.missing("factor"))?;
        match text.parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor >= 1.0 => Ok(factor),
            _ => Err(self.wrong(
                "factor",
                format!("`factor` must be a number of at least 1, found `{text}`"),
            )),
        }
    }

    fn media(&self, operation: MediaOperation) -> Result<Fault, FaultError> {
        if operation == MediaOperation::Erase
            && let Some(key) = ["units", "namespace"].into_iter().find(|k| self.get(k).is_some())
        {
            return Err(self.wrong(
                key,
                format!("`{key}` does not apply to erases: blocks have no logical address"),
            ));
        }
        self.only(&["rate", "units", "namespace"])?;
        let extent = match (self.get("rate"), self.get("units")) {
            (Some(rate), None) => {
                if self.get("namespace").is_some() {
                    return Err(self.wrong(
                        "namespace",
                        "`namespace` goes with `units`; a rate holds for the whole drive".into(),
                    ));
                }
                let rate: Fraction =
                    rate.parse().map_err(|error| self.wrong("rate", format!("`rate`: {error}")))?;
                FaultExtent::Rate(rate.0)
            }
            (None, Some(units)) => self.units(units)?,
            (Some(_), Some(_)) => {
                return Err(self.wrong("units", "give `rate` or `units`, not both".into()));
            }
            (None, None) if operation == MediaOperation::Erase => return Err(self.missing("rate")),
            (None, None) => {
                return Err(FaultError {
                    message: format!("`{}` needs `rate` or `units`", self.kind),
                    key: None,
                    help: forms(self.kind),
                });
            }
        };
        Ok(Fault::Media { operation, extent })
    }

    fn units(&self, text: &str) -> Result<FaultExtent, FaultError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = first.trim().parse::<u64>().ok().zip(last.trim().parse::<u64>().ok());
        let namespace = match self.get("namespace") {
            Some(_) => self.number("namespace")?,
            None => 1,
        };
        match range {
            Some((first, last)) if first <= last => {
                Ok(FaultExtent::Units { namespace, first, last })
            }
            _ => Err(self.wrong(
                "units",
                format!("`units` must be a range such as `0-99` or one number, found `{text}`"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_parses() {
        assert_eq!(
            parse("read-error:rate=1e-5"),
            Ok(Fault::Media { operation: MediaOperation::Read, extent: FaultExtent::Rate(1e-5) })
        );
        assert_eq!(
            parse("program-error:units=0-99,namespace=2"),
            Ok(Fault::Media {
                operation: MediaOperation::Program,
                extent: FaultExtent::Units { namespace: 2, first: 0, last: 99 }
            })
        );
        assert_eq!(
            parse("read-error:units=7"),
            Ok(Fault::Media {
                operation: MediaOperation::Read,
                extent: FaultExtent::Units { namespace: 1, first: 7, last: 7 }
            })
        );
        assert_eq!(parse("slow-die:die=3,factor=4"), Ok(Fault::SlowDie { die: 3, factor: 4.0 }));
        assert_eq!(
            parse("dead-die: die=3, at=1s"),
            Ok(Fault::DeadDie { die: 3, at: Time::from_ps(1_000_000_000_000) })
        );
        assert_eq!(
            parse("power-cut:at=2s,recovery=500ms"),
            Ok(Fault::PowerCut {
                at: Time::from_ps(2_000_000_000_000),
                recovery: Span::from_ms(500)
            })
        );
        for form in FORMS.lines() {
            let optional = form.replace(['[', ']'], "");
            assert!(parse(&optional).is_ok(), "{optional}");
            if let Some((required, _)) = form.split_once('[') {
                assert!(parse(required).is_ok(), "{required}");
            }
        }
    }

    #[test]
    fn errors_name_the_part_and_the_forms() {
        let shown = |spec: &str| {
            let error = parse(spec).unwrap_err();
            format!("{spec}\n  {}\n  {}\n", error.message, error.help.replace('\n', "\n  "))
        };
        let all: String = [
            "",
            "fire:at=1s",
            "read-error",
            "read-error:rate=2",
            "read-error:rate=1e-5,units=0-9",
            "read-error:rate=1e-5,namespace=1",
            "program-error:units=9-3",
            "erase-error:units=0-9",
            "slow-die:die=3",
            "slow-die:die=3,factor=0.5",
            "dead-die:die=three",
            "dead-die:die=3,at=1KiB",
            "dead-die:die=3,die=4",
            "power-cut:recovery=1s",
            "power-cut:at=1s,die=3",
            "power-cut:1s",
        ]
        .into_iter()
        .map(shown)
        .collect();
        insta::assert_snapshot!(all);
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(
            which in 0..6,
            rate in 0.0f64..=1.0,
            a in any::<u32>(),
            b in any::<u32>(),
            factor in 1.0f64..1e6,
        ) {
            let units = FaultExtent::Units {
                namespace: a,
                first: u64::from(a.min(b)),
                last: u64::from(a.max(b)),
            };
            let at = Time::from_ps(u64::from(a) * u64::from(b));
            let fault = match which {
                0 => Fault::Media { operation: MediaOperation::Read, extent: FaultExtent::Rate(rate) },
                1 => Fault::Media { operation: MediaOperation::Erase, extent: FaultExtent::Rate(rate) },
                2 => Fault::Media { operation: MediaOperation::Program, extent: units },
                3 => Fault::SlowDie { die: a, factor },
                4 => Fault::DeadDie { die: a, at },
                _ => Fault::PowerCut { at, recovery: Span::from_ps(u64::from(b)) },
            };
            prop_assert_eq!(parse(&print(&fault)), Ok(fault));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
