//! The options of `mynah calibrate`.

use super::{StatesArgs, suggest, whole};
use clap::{Args, ValueHint};
use mynah_drive_file::units::Fraction;
use mynah_lab::experiment::Precondition;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
A drive that does what a real one was measured to do (any drive, any link):
  mynah calibrate --drive my.toml --target qd1.json qd32.json --vary flash.read=20us..60us \\
      --vary firmware.read=5us..40us --into fitted.toml --report fitted.html
  mynah calibrate --drive samsung-980-pro --precondition fill --target reads.csv \\
      --vary flash.read.lsb=10us..60us --vary firmware.read=5us..60us --into fitted.toml

Targets are results of fio 3 (--output-format=json), or tables (CSV), a row a load in fio's words
and what was measured of it; numjobs, rwmixread and percentiles may be left out:
  rw,bs,iodepth,numjobs,iops,lat_mean_us,p99_us
  randread,4k,1,1,16583,59.98,69.12
Ranges have units as the key has them; one that is positive and spans more than a decade is walked by
logarithms. First points all over the ranges are simulated, on all processors, then the best is
improved. IOPS and mean latencies count alike, percentiles a quarter; --within judges IOPS and means.
A parameter of which it says NOT DETERMINED may have any value in its interval: these data say no
more of it.

Costs of a stage of an Ethernet drive's target from times by size:
  mynah calibrate stages.csv --drive eth.toml --into my.toml --report fit.html
  mynah calibrate trace.txt --stage transport.in=nvmet_rdma_recv_done..nvmet_req_init \\
      --bytes '(len+1)*512' --drive eth.toml --into my.toml
  mynah calibrate target.profile --stage transport.in=intake+processing \\
      --drive eth.toml --into my.toml
  mynah calibrate 4k.txt 8k.txt 16k.txt 64k.txt 1m.txt --bytes 4k,8k,16k,64k,1m \\
      --stage transport.in --drive eth.toml --into my.toml

FILE is a table (CSV) with a line a sample:
  stage,direction,bytes,latency_ns
  transport,in,4096,1850
or a profile of a target (mynah serve --speed max --profile), whose stages --stage adds up with +;
or ftrace's text (trace, trace_pipe) with events or functions; or what `nvme read --latency` prints.
Stages are transport, capsule, block_layer and nvme_layer, directions in (to the flash) and out. Each
stage needs 5 sizes; a size that is there several times was measured so often, and its mean counts.
A cost that jumps lies on no smooth curve: of sizes that the curve misses by more than noise there is a
warning, and --interpolate takes the points as they are.
The drive refuses commands longer than the measured ones; for shorter ones the curve goes on.

Exit codes: 0 done; 1 a figure is further off than --within, or a run failed; 2 bad usage or input;
130 interrupted (the best so far is written).";

/// `mynah calibrate`.
#[derive(Args)]
pub(crate) struct Calibrate {
    /// Times of a stage by size: a table (CSV), a profile, ftrace's text, or what `nvme read
    /// --latency` prints
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// The drive to begin with: a shipped drive's name, or a drive file
    #[arg(long, value_name = "NAME|FILE", required = true)]
    #[arg(hide_possible_values = true, value_parser = suggest::drives())]
    pub(crate) drive: String,
    /// Change it; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The drive file to write
    #[arg(long, value_name = "FILE.toml", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) into: PathBuf,
    /// Write a page with pictures of the fit
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Write the fit as JSON; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) states: StatesArgs,
    /// Print neither tables nor progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    #[command(flatten)]
    pub(crate) stages: StageArgs,
}

/// Keys that are searched.
#[derive(Args)]
#[command(next_help_heading = "Keys fitted to IOPS and latencies")]
pub(crate) struct SearchArgs {
    /// What was measured: results of fio 3 (JSON) or tables (CSV)
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "files", requires = "vary")]
    pub(crate) target: Vec<PathBuf>,
    /// A key to search, and its range: flash.read=20us..60us; up to 8 times
    #[arg(long, value_name = "KEY=LOW..HIGH", requires = "target")]
    pub(crate) vary: Vec<String>,
    /// How far IOPS and mean latencies may be off; exit code 1 if the worst is further [default: 5%]
    #[arg(long, value_name = "PERCENT", requires = "target")]
    pub(crate) within: Option<Fraction>,
    /// Drives to simulate at most, before those around what was found [default: 200]
    #[arg(long, value_name = "N", requires = "target", value_parser = whole::<u32>(1..=1_000_000))]
    pub(crate) evaluations: Option<u32>,
    /// I/Os of each run of the search, and more where queues are deep; the figures that are shown
    /// come from runs five times as long [default: 20000]
    #[arg(long, value_name = "N", requires = "target")]
    #[arg(value_parser = whole::<u64>(100..=1_000_000_000))]
    pub(crate) requests: Option<u64>,
    /// The state that each run starts from: none, fill, steady or steady:random [default: steady]
    #[arg(long, value_name = "STATE", requires = "target")]
    pub(crate) precondition: Option<Precondition>,
    /// Seed of drive and loads: the same seed gives the same fit [default: 1]
    #[arg(long, value_name = "N", requires = "target", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "N", requires = "target", value_parser = whole::<u32>(1..=1024))]
    pub(crate) threads: Option<u32>,
}

/// Stages.
#[derive(Args)]
#[command(next_help_heading = "Stages fitted to times by size")]
pub(crate) struct StageArgs {
    /// In a trace, the functions or events that a stage lies between: transport.in=FROM..TO; in a
    /// profile, the stages that it is the sum of: transport.in=NAME+NAME; for nvme-cli's latencies
    /// the stage alone: transport.in
    #[arg(long, value_name = "STAGE.in|out=FROM..TO|NAME+NAME", requires = "files")]
    pub(crate) stage: Vec<String>,
    /// How long commands are, where files do not say: a size, or in a trace a field of an event
    /// (len, '(len+1)*512'); with commas between, one for each file
    #[arg(long, value_name = "SIZE|FIELD", requires = "files")]
    pub(crate) bytes: Option<String>,
    /// Take the means of the sizes as they are, with straight lines between, and no curve: for costs
    /// that jump (in-capsule limits, splits). Measure on both sides of a jump
    #[arg(long, requires = "files")]
    pub(crate) interpolate: bool,
}
