//! Values that shells complete for options that take other values as well, or whose values the
//! library reads: names of drives, kinds of faults, and what fio's options can be.
//!
//! Nothing is refused here. Help says in words what there is, so that it lists no values.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use mynah_drive_file::{self as drive, fault};
use std::ffi::OsStr;

/// Takes any text, and suggests some.
#[derive(Clone, Debug)]
pub(crate) struct Suggested(Vec<&'static str>);

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().copied().map(PossibleValue::new)))
    }
}

/// These values.
pub(crate) fn values(all: &[&'static str]) -> Suggested {
    Suggested(all.to_vec())
}

/// The shipped drives.
pub(crate) fn drives() -> Suggested {
    Suggested(drive::shipped().iter().map(|drive| drive.name).collect())
}

/// The faults of a drive, each as it may be written.
pub(crate) fn drive_faults() -> Suggested {
    Suggested(fault::FORMS.lines().map(shortest).collect())
}

/// Those of connections and controllers, too.
pub(crate) fn served_faults() -> Suggested {
    let all = fault::FORMS.lines().chain(mynah_runtime::fault::FORMS.lines());
    Suggested(all.map(shortest).collect())
}

/// A form without what can be left out.
fn shortest(form: &'static str) -> &'static str {
    form.split('[').next().unwrap_or(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, flag};
    use clap::CommandFactory;
    use mynah_lab::simulation::Simulation;
    use mynah_workload::FlowOptions;
    use mynah_workload::trace::TraceFormat;

    fn suggested(verb: &str, option: &str) -> Vec<String> {
        let command = Cli::command();
        let verb = command.find_subcommand(verb).unwrap();
        let arg = verb.get_arguments().find(|arg| arg.get_id() == option).unwrap();
        if !arg.get_action().takes_values() {
            return Vec::new();
        }
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
    }

    #[test]
    fn what_is_suggested_is_taken() {
        let mut count = 0;
        let scheme = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(scheme.path(), "0,4096,0\n").unwrap();
        // The command line has one flow, which waits for no other.
        let alone = |option: &&str| *option != "wait_for_previous";
        for option in FlowOptions::NAMES.iter().copied().filter(alone) {
            for value in suggested("sim", option) {
                // Some take more behind a colon.
                let more = match value.as_str() {
                    "zipf:" if option == "value_size" => "1.2/16-4k",
                    "zipf:" => "1.2",
                    "hotcold:" => "90/10",
                    "zoned:" => "50/5:30/15:20/80",
                    "normal:" => "4k/1k",
                    "retrieve=" => "100",
                    _ => "",
                };
                let mut options = FlowOptions::default();
                if option.starts_with("trace_") {
                    assert!(options.set("trace", "a.trace"));
                }
                if ["key_distribution", "value_size"].contains(&option) {
                    assert!(options.set("kv", "retrieve"));
                }
                if option == "front" {
                    assert!(options.set("kv", "update=50,retrieve=50"));
                }
                if option == "trace_action" {
                    assert!(options.set("trace_format", "blkparse"));
                }
                if ["fdp", "dataplacement", "plid_select"].contains(&option) {
                    assert!(options.set("rw", "randwrite"));
                }
                if option == "plid_select" {
                    assert!(options.set("fdp", "true"));
                }
                if value == "streams" {
                    assert!(options.set("plids", "1"));
                }
                if ["scheme", "size"].contains(&value.as_str()) {
                    assert!(options.set("dp_scheme", scheme.path().to_str().unwrap()));
                }
                if option == "rate_process" {
                    assert!(options.set("rate_iops", "1000"));
                }
                if option == "random_distribution" {
                    assert!(options.set("rw", "randread"));
                }
                if option == "sequential_positions" {
                    assert!(options.set("rw", "rw"));
                }
                assert!(options.set(option, format!("{value}{more}")), "{option}");
                if let Err(error) = options.flow("flow") {
                    panic!("{} {value}: {}", flag(option), error.problem);
                }
                count += 1;
            }
        }
        assert!(count > 30, "{count}");
        let formats: Vec<&str> = TraceFormat::ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(suggested("sim", "trace_format"), formats);
        let on = || Simulation::on("enterprise-tlc").unwrap();
        for form in suggested("compare", "fault") {
            assert!(on().fault(&form).is_ok(), "{form}");
        }
        for form in served_faults().0 {
            let own = mynah_runtime::fault::parse(form);
            assert!(own.is_some_and(|it| it.is_ok()) || on().fault(form).is_ok(), "{form}");
        }
        for name in suggested("serve", "drive") {
            assert!(Simulation::on(&name).is_ok(), "{name}");
        }
    }
}
