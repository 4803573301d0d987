//! The options of `mynah drives`.

use super::{StatesArgs, suggest, whole};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `mynah drives`.
#[derive(Subcommand)]
pub(crate) enum Drives {
    /// List the shipped drives
    List,
    /// Print every setting of a drive, and where each number comes from
    Show {
        /// A shipped drive's name, or a drive file
        #[arg(hide_possible_values = true, value_parser = suggest::drives())]
        name: String,
        /// Change the drive
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print the drive's file instead, to begin one of your own with
        #[arg(long, conflicts_with = "set")]
        toml: bool,
    },
    /// Check a drive file, or a drive beside what was published of the real one
    Check(DriveCheck),
    /// Print the JSON Schema of drive files, for editors
    Schema,
}

/// `mynah drives check`.
#[derive(Args)]
pub(crate) struct DriveCheck {
    /// The file, or a shipped drive's name; with --evidence all shipped drives if not given
    #[arg(hide_possible_values = true, value_parser = suggest::drives())]
    // Of the options that belong to --evidence, `drives check` says what is missing.
    #[arg(required_unless_present_any = ["evidence", "json", "svg", "threads"])]
    pub(crate) file: Option<String>,
    /// Change the drive
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Simulate what was published or measured of the real drive, and print how far the drive is
    /// off; exit code 1 if a figure misses its tolerance and no reason is known
    #[arg(long)]
    pub(crate) evidence: bool,
    /// Write the evidence as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Draw measured beside predicted over the queue depth, of one drive
    #[arg(long, value_name = "FILE.svg", requires = "file")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) states: StatesArgs,
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=4096))]
    pub(crate) threads: Option<u32>,
}
