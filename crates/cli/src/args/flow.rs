//! A flow's options on the command line: those that [`FlowOptions::DECLARED`] has, with fio's names.

use super::{flag, suggest};
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use mynah_workload::{FlowOption, FlowOptions, Kind};

const HEADING: &str = "Workload (names and units as in fio)";

/// One flow; `SERVED`: on a served drive, or else a simulated one.
#[derive(Clone, Debug)]
pub(crate) struct OneFlow<const SERVED: bool>(FlowOptions);

/// One simulated flow.
pub(crate) type FlowArgs = OneFlow<false>;
/// One flow on a served drive.
pub(crate) type LoadArgs = OneFlow<true>;

impl<const SERVED: bool> OneFlow<SERVED> {
    /// What was given.
    pub(crate) fn options(&self) -> FlowOptions {
        self.0.clone()
    }

    /// The options in the order of help: those of key-value flows last.
    fn declared() -> impl Iterator<Item = &'static FlowOption> {
        // There is one flow, and nothing for it to wait for.
        let alone = |option: &&FlowOption| option.kind != Kind::Several;
        let all = || {
            let served = |option: &&FlowOption| option.served || !SERVED;
            FlowOptions::DECLARED.iter().filter(alone).filter(served)
        };
        let of_keys = |option: &&FlowOption| option.kind == Kind::Keys || option.name == "kv";
        all().filter(move |option| !of_keys(option)).chain(all().filter(of_keys))
    }

    fn arg(option: &'static FlowOption) -> Arg {
        let flag = flag(option.name).trim_start_matches("--").to_owned();
        let spelt_otherwise = match flag.contains('_') {
            true => flag.replace('_', "-"),
            false => option.name.to_owned(),
        };
        let arg = Arg::new(option.name)
            .value_name(option.value)
            .help(Self::help(option))
            .help_heading(HEADING)
            .action(ArgAction::Set);
        let arg = if spelt_otherwise == flag { arg } else { arg.alias(spelt_otherwise) };
        let arg = match option.value {
            "BOOL" => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            "FILE" => arg.value_hint(ValueHint::FilePath),
            _ => arg,
        };
        let arg = match (option.words, SERVED && option.name == "runtime") {
            ([], _) | (_, true) => arg,
            (words, _) => arg.hide_possible_values(true).value_parser(suggest::values(words)),
        };
        arg.long(flag)
    }

    /// The text without the marks of pages, options with their dashes, and the default of this
    /// verb.
    fn help(option: &FlowOption) -> String {
        // `rw` is a value of itself, and columns are called as some options are.
        let is_option = |word: &str| {
            FlowOptions::NAMES.contains(&word) && word != "rw" && option.name != "trace_columns"
        };
        let words = option.about.trim().trim_end_matches('.').split('`').enumerate();
        let about: String = words
            .map(|(at, text)| match at % 2 == 1 && is_option(text) {
                true => flag(text),
                false => text.to_owned(),
            })
            .collect();
        let default = match (option.name, SERVED) {
            ("rw", _) => Some("randread"),
            ("iodepth", _) => Some("1; 32 if --rw is not given either"),
            ("number_ios", false) => {
                Some("100000 if nothing else ends it; of writes, until figures are known")
            }
            ("runtime", true) => Some("10s if there is no other limit"),
            ("runtime", false) => Some("auto beside --precision and --repeat"),
            _ => option.default,
        };
        match default {
            Some(default) => format!("{about} [default: {default}]"),
            None => about,
        }
    }
}

impl<const SERVED: bool> Args for OneFlow<SERVED> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::declared().map(Self::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SERVED: bool> FromArgMatches for OneFlow<SERVED> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flow = OneFlow(FlowOptions::default());
        flow.update_from_arg_matches(matches)?;
        Ok(flow)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for option in Self::declared() {
            if let Some(value) = matches.get_one::<String>(option.name) {
                self.0.set(option.name, value);
            }
        }
        Ok(())
    }
}
