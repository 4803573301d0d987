//! The options of `mynah identify`.

use super::{ConnectArgs, whole};
use clap::{Args, ValueHint};
use mynah_drive_file::units::{Bytes, Duration};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  mynah identify sim:samsung-980-pro
  mynah identify sim:my.toml --set geometry.channels=6 --report found.html --into found.toml
  mynah identify sim:enterprise-tlc --destroy sim:enterprise-tlc
  mynah identify tcp://10.0.0.7 --report found.html         a served drive, only read
  mynah identify /dev/nvme0n1 --into found.toml             a disk of this machine, only read

It asks, and takes the time: two reads of one die take longer together than alone, two of one channel
share its bus, pages of two planes come together. From that follow page, dies, planes, channels, the
times of the array by type of page, and the rates of buses and link. With --destroy it trims and writes
as well, for the front end, the write cache, programs and over-provisioning.

sim:DRIVE is a shipped drive or a drive file in virtual time, that was written once, in order. A drive in
real time should have been, too: reads of what was never written need no flash. Where the host adds noise,
measurements are repeated; what it drowns is not determined.

--into writes a drive file that can be simulated: each number says in [sources] what it rests on; one that
could not be determined is an estimate, and says why. What can be known from outside, and what cannot:
docs/identify.md.

Exit codes: 0 done; 1 it ended early, at a limit or because the drive has failed, or what --into asks for
cannot be written; 2 bad usage or input; 130 interrupted. What was found until then is printed.";

/// `mynah identify`.
#[derive(Args)]
pub(crate) struct Identify {
    /// The drive that is asked: sim:NAME or sim:FILE in virtual time; tcp://HOST:PORT/NQN or
    /// vfio-user:DIR; a block device or file of this machine; or an NBD export: nbd:unix:PATH,
    /// nbd:HOST:PORT[/EXPORT] or a URI
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Change the simulated drive; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Trim and write as well, which destroys what is on the drive: its name again, as TARGET has it
    #[arg(long, value_name = "TARGET")]
    pub(crate) destroy: Option<String>,
    /// Longest time on the drive's clock [default: 1h]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) time: Option<Duration>,
    /// Most that is written, with --destroy [default: four times the drive]
    #[arg(long, value_name = "SIZE", requires = "destroy", help_heading = "Limits")]
    pub(crate) written: Option<Bytes>,
    /// Seed of the addresses: the same seed asks the same [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Write a drive file of what was found
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) into: Option<PathBuf>,
    /// Write a page with the picture behind each finding
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Write the findings as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Print neither table nor progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
