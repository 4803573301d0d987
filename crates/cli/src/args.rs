//! The command line: the verbs, and what several of them share. A verb has a file of its own.

mod bench;
mod calibrate;
mod compare;
mod connect;
mod demo;
mod doctor;
mod drives;
mod flow;
mod guest;
mod identify;
mod kv;
mod nvme;
mod profile;
mod serve;
mod short;
mod sim;
mod states;
mod suggest;

pub(crate) use bench::{Bench, YesNo};
pub(crate) use calibrate::Calibrate;
pub(crate) use compare::Compare;
pub(crate) use connect::{AuthArgs, ConnectArgs};
pub(crate) use demo::Demo;
pub(crate) use doctor::Doctor;
pub(crate) use drives::{DriveCheck, Drives};
pub(crate) use flow::{FlowArgs, LoadArgs};
pub(crate) use guest::Guest;
pub(crate) use identify::Identify;
pub(crate) use kv::{
    Kv, KvDelete, KvExport, KvGet, KvImport, KvKey, KvList, KvPut, KvStat, KvVerb,
};
pub(crate) use nvme::{
    Nvme, NvmeArgs, NvmeEvents, NvmeFeature, NvmeGroup, NvmeLog, NvmeVerb, OutputFormat,
};
pub(crate) use profile::{
    Attach, Folding, LiveProfile, Profile, ProfileChoice, ProfileKernel, ProfileShow, ProfileWatch,
    ScopeArg,
};
pub(crate) use serve::{ClockArg, DoorbellsArg, PollArg, Serve};
pub(crate) use sim::{DriveArgs, Sim};
pub(crate) use states::{Cache, CacheVerb, StatesArgs};
pub(crate) use suggest::served_faults;

use bench::BENCH_EXAMPLES;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use compare::COMPARE_EXAMPLES;
use profile::ATTACH_EXAMPLES;
use serve::SERVE_EXAMPLES;
use sim::SIM_EXAMPLES;
use states::CACHE_EXAMPLES;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;

const ABOUT: &str = "Mynah, an NVMe SSD made of software: predicts a drive, and is the drive";

const EXAMPLES: &str = "\
Examples:
  mynah demo                                  see it work, with a report in HTML
  mynah drives                                what drives there are
  mynah sim                                   4 KiB random reads on the default drive
  mynah sim --rw randwrite --bs 4k --iodepth 32 --runtime 2s
  mynah sim --help                            everything a simulation can do
  mynah serve                                 be the drive, over NVMe/TCP on loopback
  mynah serve --vfio-user /tmp/drive          be the drive, on the PCIe bus of a QEMU guest
  mynah bench tcp://127.0.0.1                 use it

Pages: mynah help drives, loads, traces or results.";

/// Everything.
#[derive(Parser)]
#[command(name = "mynah", version, long_version = long_version(), about = ABOUT, after_help = EXAMPLES)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The version, the build that results come from, and Cargo's profile: what `release` computes, `dist`
/// computes faster.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let (version, profile) = (env!("CARGO_PKG_VERSION"), env!("MYNAH_PROFILE"));
        format!("{version}\nbuild {}\nprofile {profile}", mynah_study::ledger::BUILD)
    });
    &TEXT
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Put a load on a served drive, a disk of this machine or an NBD export, and measure
    ///
    /// Without options: 4 KiB random reads at an iodepth of 32, for 10 s.
    #[command(after_long_help = BENCH_EXAMPLES)]
    Bench(Box<Bench>),
    /// Simulate a drive under a workload
    ///
    /// Without options: 4 KiB random reads at an iodepth of 32 on the default drive in steady
    /// state.
    #[command(after_long_help = SIM_EXAMPLES)]
    Sim(Box<Sim>),
    /// Store, retrieve, delete and list keys of a key-value namespace
    ///
    /// Over NVMe/TCP or vfio-user.
    #[command(after_help = kv::EXAMPLES)]
    Kv(Box<Kv>),
    /// Ask a controller what it is and how it is: Identify, logs, features
    ///
    /// Over NVMe/TCP or vfio-user, with nvme-cli's names and without a kernel module.
    #[command(after_help = nvme::EXAMPLES)]
    Nvme(Box<Nvme>),
    /// Serve a drive to NVMe/TCP hosts in real time
    ///
    /// Prints `ready {json}` when hosts can connect; ends in order on Ctrl-C and SIGTERM.
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve(Box<Serve>),
    /// Say what works on this machine, and how to get the rest
    Doctor(Doctor),
    /// Boot a QEMU guest in lock-step with a drive: its instructions are the time of both
    #[command(after_help = guest::EXAMPLES)]
    Guest(Box<Guest>),
    /// Compare two results, or a recorded run with what another drive makes of it
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(Compare),
    /// Show where the time of I/Os went, from a profile or of a running target
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    #[command(after_help = ATTACH_EXAMPLES)]
    Profile {
        #[command(subcommand)]
        what: Option<Profile>,
        #[command(flatten)]
        attach: Box<Attach>,
    },
    /// List, show and check drives
    Drives {
        #[command(subcommand)]
        what: Option<Drives>,
    },
    /// Fit a drive to measurements: keys to loads, or stages to times by size
    ///
    /// With --target and --vary, keys of a drive are searched so that the simulated drive does what
    /// a real one was measured to do. With FILE…, times of a stage become its table in a drive file.
    #[command(
        after_help = "More with --help: examples, formats, exit codes.",
        after_long_help = calibrate::EXAMPLES
    )]
    Calibrate(Box<Calibrate>),
    /// Find out what drive this is, from the times of its answers
    ///
    /// Page, dies, planes, channels, array times, buses, link and more: each with what it rests on, or
    /// why it cannot be told; as a table, a page with pictures, and a drive file.
    #[command(
        after_help = "More with --help: examples, how it finds out, exit codes.",
        after_long_help = identify::EXAMPLES
    )]
    Identify(Box<Identify>),
    /// Serve a drive, compare it with its simulation, and explain both, on a page
    Demo(Demo),
    /// List or remove the prepared drives that are kept for the next run
    #[command(after_help = CACHE_EXAMPLES)]
    Cache(Cache),
    /// Print a script that completes Mynah's commands in a shell
    ///
    /// For bash, `mynah completions bash > ~/.local/share/bash-completion/completions/mynah`; for
    /// fish, `> ~/.config/fish/completions/mynah.fish`; for zsh, `> _mynah` in a folder of $fpath.
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages, one for each verb, into a folder
    ///
    /// `man` looks in share/man beside each bin of the PATH: beside ~/.cargo/bin, DIR is
    /// ~/.cargo/share/man/man1.
    Man {
        /// The folder; it is made if it is not there
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Print the help of a verb, or how a page begins: drives, loads, traces, results
    Help {
        /// A verb, as in `mynah help sim` or `mynah help profile show`, or one of these pages [default:
        /// what verbs there are]
        #[arg(value_name = "VERB|PAGE", hide_possible_values = true)]
        what: Vec<String>,
    },
}

/// The command line, with first pages of help that are short.
pub(crate) fn command() -> clap::Command {
    short::shortened(Cli::command())
}

/// Reads the command line. `mynah profile help show` is `mynah help profile show`.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let has_parts = |verb: &OsString| {
        let command = Cli::command();
        command.find_subcommand(verb).is_some_and(clap::Command::has_subcommands)
    };
    if words.get(2).is_some_and(|word| word == "help") && words.get(1).is_some_and(has_parts) {
        words.swap(1, 2);
    }
    command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches))
}

impl Verb {
    /// Where drives that the verb makes ready are kept; `None` if it makes none ready.
    pub(crate) fn states(&self) -> Option<&StatesArgs> {
        match self {
            Verb::Sim(args) => Some(&args.drive.states),
            Verb::Serve(args) => Some(&args.drive.states),
            Verb::Guest(args) => Some(&args.drive.states),
            Verb::Compare(args) => Some(&args.states),
            Verb::Calibrate(args) => Some(&args.states),
            Verb::Demo(args) => Some(&args.states),
            Verb::Drives { what: Some(Drives::Check(args)) } => Some(&args.states),
            Verb::Drives { .. }
            | Verb::Bench(_)
            | Verb::Kv(_)
            | Verb::Nvme(_)
            | Verb::Identify(_)
            | Verb::Doctor(_)
            | Verb::Profile { .. }
            | Verb::Cache(_)
            | Verb::Completions { .. }
            | Verb::Man { .. }
            | Verb::Help { .. } => None,
        }
    }
}

/// Reads a whole number in a range, and says what it is to be.
fn whole<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        let (first, last) = (range.start(), range.end());
        number.ok_or_else(|| format!("it is a whole number from {first} to {last}"))
    }
}

/// An option of a flow as it is written on the command line.
pub(crate) fn flag(option: &str) -> String {
    match option.starts_with("trace_") {
        true => format!("--{}", option.replace('_', "-")),
        false => format!("--{option}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_workload::FlowOptions;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_of_a_flow_is_on_the_command_line() {
        let command = Cli::command();
        let sim = command.find_subcommand("sim").unwrap();
        // There is one flow, and nothing for it to wait for.
        let alone = |name: &&&str| **name != "wait_for_previous";
        for name in FlowOptions::NAMES.iter().filter(alone) {
            let long = flag(name);
            let found = sim.get_arguments().find(|arg| arg.get_id() == name);
            let found = found.unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(format!("--{}", found.get_long().unwrap()), long);
        }
    }

    /// What verdicts say to try can be tried: after `mynah serve` come options of that, and so on;
    /// others are those of a load, or of a simulation.
    #[test]
    fn verdicts_name_options_that_there_are() {
        use mynah_analysis::{Cause, Side};
        let command = Cli::command();
        let mut seen = 0;
        for side in [Side::Simulation, Side::Target] {
            let load = if side == Side::Simulation { "sim" } else { "bench" };
            for text in Cause::ALL.iter().flat_map(|cause| cause.advice(side)) {
                let mut verb = load;
                for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))) {
                    if ["serve", "bench", "sim"].contains(&word) {
                        verb = word;
                    }
                    let Some(option) = word.strip_prefix("--") else { continue };
                    let of = command.find_subcommand(verb).expect("a verb");
                    let known = of.get_arguments().any(|it| it.get_long() == Some(option));
                    assert!(known, "`{text}`: mynah {verb} has no --{option}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 30, "{seen}");
    }
}
