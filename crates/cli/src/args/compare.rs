//! The options of `mynah compare`.

use super::{Folding, StatesArgs, suggest};
use clap::{Args, ValueHint};
use std::path::PathBuf;

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  mynah compare before.json after.json
  mynah compare run.rec --drive samsung-970-pro
  mynah compare run.rec --set over_provisioning=28% --remap modulo

With a recording, the other drive is given the recorded commands at their recorded times,
however long it takes for the ones before: on a slower drive they pile up. A smaller drive, such as
one with more over-provisioning, does not have all addresses: --remap modulo folds what lies beyond
its end into it.";

/// `mynah compare`.
#[derive(Args)]
pub(crate) struct Compare {
    /// A result (--json), or a recording (--record)
    #[arg(value_name = "A.json|RECORDING", value_hint = ValueHint::FilePath)]
    pub(crate) first: PathBuf,
    /// The result to compare with
    #[arg(value_name = "B.json", value_hint = ValueHint::FilePath)]
    pub(crate) second: Option<PathBuf>,
    /// The other drive: a shipped drive's name, or a drive file [default: the recorded one]
    #[arg(long, value_name = "NAME|FILE")]
    #[arg(hide_possible_values = true, value_parser = suggest::drives())]
    pub(crate) drive: Option<String>,
    /// Change the other drive; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Inject a fault into the other drive; may be repeated
    #[arg(long, value_name = "SPEC")]
    #[arg(hide_possible_values = true, value_parser = suggest::drive_faults())]
    pub(crate) fault: Vec<String>,
    /// modulo: fold requests beyond the other drive's end into it, and count them [default: none,
    /// they are errors]
    #[arg(long, alias = "trace-remap", value_name = "HOW", hide_possible_values = true)]
    pub(crate) remap: Option<Folding>,
    /// Write the comparison as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) states: StatesArgs,
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
