//! The options of `mynah sim`.

use super::{FlowArgs, StatesArgs, suggest, whole};
use clap::builder::TypedValueParser;
use clap::{Args, ValueHint};
use mynah_lab::experiment::Start;
use mynah_result::precision::Goal;
use std::path::PathBuf;

pub(super) const SIM_EXAMPLES: &str = "\
Examples:
  mynah sim --drive samsung-970-pro --rw randread --bs 4k --iodepth 32 --runtime 1s
  mynah sim --rw randrw --rwmixread 70 --bs 8k --iodepth 16 --runtime 1s --report mix.html
  mynah sim --set over_provisioning=28% --set gc.start=8% …       (see: mynah drives show)
  mynah sim --trace day.trace --trace-remap modulo --json result.json
  zcat day.gz | mynah sim --trace - --precondition steady:random
  mynah sim --trace disk.csv --trace-format msr --trace-remap modulo --trace-speed 1000
  mynah sim --fio tenants.fio --drive mqsim
  mynah sim --rw randwrite --iodepth 32 --precondition fill --until-steady=200ms
  mynah sim --rw randwrite --runtime 1s --save-state used.state      …and go on from there:
  mynah sim --rw randread --load-state used.state
  mynah sim two-tenants.toml --alone          who delays whom, and is it fair
  mynah sim --mqsim-config ssdconfig.xml --mqsim-workload workload.xml --as-mqsim
  mynah sim --rw randwrite --fault power-cut:at=5ms --record run.rec
  mynah sim --rw randwrite --runtime 1s --intervals run.csv --interval 5ms --report run.html
  mynah sim --rw randwrite --repeat 10        means with confidence intervals
  mynah sim --rw randwrite --iodepth 8 --precision 1%       as long as that takes
  mynah sim --rw randrw --timeline run.pftrace --timeline-window 1ms-2ms
  mynah sim --drive eemu-samsung --number_ios 100 --pcap run.pcap       frames, for Wireshark
  mynah sim --replay run.rec                  the same again, checked I/O by I/O

An experiment file holds several flows:
  schema = \"mynah.experiment/1\"
  drive = \"enterprise-tlc\"
  [[flow]]
  name = \"reader\"
  rw = \"randread\"
  iodepth = 8
  runtime = \"1s\"
  [[flow]]
  name = \"writer\"
  rw = \"randwrite\"
  iodepth = 32
  runtime = \"1s\"

With a table [sweep] it runs at every combination of values, on all processors, and ends with a
table (--table FILE.csv) and pictures (--report FILE.html). Flows that do not say how much they do,
here the reader without its runtime, end when their figures are known (precision = \"2%\"):
  [sweep]
  \"flow.writer.iodepth\" = [1, 4, 16, 64]
  \"set.over_provisioning\" = [\"7%\", \"28%\"]

Exit codes: 0 done; 1 ran but failed; 2 bad usage, configuration or input; 130 interrupted
(what was measured is still printed).";

/// `mynah sim`.
#[derive(Args)]
pub(crate) struct Sim {
    /// An experiment file: a drive (or that of --drive in its place) and any number of flows
    #[arg(value_name = "EXPERIMENT.toml", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["replay", "mqsim_config"])]
    pub(crate) experiment: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) drive: DriveArgs,
    #[command(flatten)]
    pub(crate) flow: FlowArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The drive.
#[derive(Args)]
#[command(next_help_heading = "Drive")]
pub(crate) struct DriveArgs {
    /// A shipped drive's name, or a drive file [default: enterprise-tlc]
    #[arg(long, value_name = "NAME|FILE")]
    #[arg(hide_possible_values = true, value_parser = suggest::drives())]
    pub(crate) drive: Option<String>,
    /// Change the drive; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Inject a fault, as in read-error:rate=1e-5 or power-cut:at=2s; may be repeated
    #[arg(long, value_name = "SPEC")]
    #[arg(hide_possible_values = true, value_parser = suggest::drive_faults())]
    pub(crate) fault: Vec<String>,
    /// The drive's state at the start: none (empty), fill (written once), steady (as after a long
    /// time of the flows' writes; of a served drive, of reads and writes all over it) or
    /// steady:random (sim only: as after a long time of random writes all over it, whatever the
    /// flows do, for traces that are piped in or write little of it); with ,slc=empty, half, full or
    /// rested (as after idle time) behind it: what is in the SLC cache then [default: steady]
    #[arg(long, value_name = "STATE", hide_possible_values = true, value_parser = suggest::values(
        &["none", "fill", "steady", "steady:random"]
    ).try_map(|text| text.parse::<Start>()))]
    pub(crate) precondition: Option<Start>,
    #[command(flatten)]
    pub(crate) states: StatesArgs,
}

/// Where else drive and workload may come from.
#[derive(Args)]
#[command(next_help_heading = "Recordings, fio's and MQSim's files")]
pub(crate) struct SourceArgs {
    /// Repeat a recorded run on the drive it carries, and check every completion
    #[arg(long, value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["mqsim_config", "precondition", "seed", "ramp_time",
                                "alone", "record", "no_run", "intervals", "timeline", "profile", "pcap",
                                "repeat",
                                "threads", "table", "resume"])]
    pub(crate) replay: Option<PathBuf>,
    /// A fio job file: each of its jobs is a flow
    #[arg(long, value_name = "JOB.fio", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["experiment", "replay", "mqsim_config"])]
    pub(crate) fio: Option<PathBuf>,
    /// MQSim's drive file, used with --mqsim-workload
    #[arg(long, value_name = "X.xml", requires = "mqsim_workload", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["drive", "set"])]
    pub(crate) mqsim_config: Option<PathBuf>,
    /// MQSim's workload file; each scenario is a run and a result
    #[arg(long, value_name = "Y.xml", requires = "mqsim_config", value_hint = ValueHint::FilePath)]
    pub(crate) mqsim_workload: Option<PathBuf>,
    /// Compute what MQSim computes, known defects included
    #[arg(long, requires = "mqsim_config")]
    pub(crate) as_mqsim: bool,
    /// Write MQSim's drive as a drive file, and its workload as the experiment file
    /// FILE-workload.toml, instead of running them
    #[arg(long, value_name = "FILE.toml", requires = "mqsim_config")]
    #[arg(conflicts_with_all = ["alone", "until_steady", "precision", "load_state", "save_state", "repeat",
                                "threads", "resume", "no_run", "json", "report", "table", "request_log",
                                "intervals", "timeline", "record", "profile", "pcap"])]
    pub(crate) convert: Option<PathBuf>,
}

/// How it is run.
#[derive(Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunArgs {
    /// Seed of drive and workload: the same seed gives the same result [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Simulated time before results are taken, which makes --runtime so much longer; a bare number
    /// counts seconds
    #[arg(long = "ramp_time", alias = "ramp-time", value_name = "TIME")]
    pub(crate) ramp_time: Option<String>,
    /// Before anything is measured, run the same load (or the random writes of steady:random) until
    /// the drive is at rest (auto), not at all (off) or for a time on the drive's clock; of a drive
    /// that starts steady [default: auto]
    #[arg(long, value_name = "auto|off|TIME", conflicts_with_all = ["replay", "load_state"])]
    pub(crate) settle: Option<String>,
    /// Fail (exit code 1) if the drive was not at rest during the measurement, or too few blocks
    /// were collected to say so
    #[arg(long, conflicts_with = "replay")]
    pub(crate) require_steady: bool,
    /// Run until I/Os a second are steady by SNIA's rule and the drive is at rest, over rounds of
    /// this length, at most 25; results are those of the last five [default: 1s]
    #[arg(long, value_name = "ROUND", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1s", conflicts_with_all = ["replay", "record"])]
    pub(crate) until_steady: Option<String>,
    /// How precisely IOPS, mean latencies and WAF are to be known when flows end whose runtime is
    /// auto: half the 95 % confidence interval, as a share; with --repeat, of the mean over all runs
    /// [default: 2%]
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["replay", "until_steady"])]
    pub(crate) precision: Option<Goal>,
    /// Start from a saved state of this very drive, in place of preconditioning; with --replay, the
    /// one that the recorded run began in
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "precondition")]
    pub(crate) load_state: Option<PathBuf>,
    /// Save the drive's state when the run is over
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "replay"])]
    pub(crate) save_state: Option<PathBuf>,
    /// Also run each flow by itself: slowdown, fairness, weighted speedup
    #[arg(long)]
    pub(crate) alone: bool,
    /// Run so often, with seeds that follow one another, and show means with confidence intervals
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    pub(crate) repeat: Option<u32>,
    /// Processors for the runs of a sweep or a repetition [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Of a sweep or a repetition, keep every finished run in a ledger in this folder, and do not run
    /// what it has: a sweep that was stopped goes on, from Python as well
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) resume: Option<PathBuf>,
    /// Run those again that the ledger has as failed
    #[arg(long, requires = "resume")]
    pub(crate) retry_failed: bool,
    /// Print what would be run, and what preconditioning assumes, and end
    #[arg(long)]
    pub(crate) no_run: bool,
}

/// What comes out.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write the result as JSON; - is standard output, in place of the summary
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with pictures
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Write the distribution of latencies as HdrHistogram's plotter reads it; of several flows or kinds
    /// of I/O into files of their own, FILE-FLOW-KIND.hgrm
    #[arg(long, value_name = "FILE.hgrm", value_hint = ValueHint::FilePath)]
    pub(crate) hgrm: Option<PathBuf>,
    /// Of a sweep or a repetition, write the table
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) table: Option<PathBuf>,
    /// Write every request with the time it spent in each stage
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) request_log: Option<PathBuf>,
    /// Write a profile, a record for every request with its stages, for `mynah profile show`
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Write what happened in each interval: IOPS, bandwidth, percentiles, queue depths, WAF,
    /// free blocks
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) intervals: Option<PathBuf>,
    /// How long an interval is on the drive's clock; a bare number counts seconds [default: 10ms]
    #[arg(long, value_name = "TIME", requires = "intervals")]
    pub(crate) interval: Option<String>,
    /// Write a timeline of I/Os, dies and channels, for ui.perfetto.dev
    #[arg(long, value_name = "FILE.pftrace")]
    pub(crate) timeline: Option<PathBuf>,
    /// The part of the run that the timeline shows, as in 10ms-12ms [default: all of it]
    #[arg(long, value_name = "FROM-TO", requires = "timeline")]
    pub(crate) timeline_window: Option<String>,
    /// Write the modelled packets of an Ethernet drive's link as a capture, for Wireshark and tshark:
    /// real headers and NVMe commands, zeros for data, times on the drive's clock
    #[arg(long, value_name = "FILE.pcap")]
    pub(crate) pcap: Option<PathBuf>,
    /// Record everything that goes into the drive, for --replay
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Show all stages, waits and devices, the slowest I/Os and a histogram of latencies, too
    #[arg(long, short, conflicts_with_all = ["quiet", "no_run", "convert"])]
    pub(crate) verbose: bool,
    /// Show what the run does while it goes on: IOPS, latencies, WAF, free blocks
    #[arg(long, conflicts_with_all = ["quiet", "no_run", "convert", "replay"])]
    pub(crate) watch: bool,
    /// Print neither summary nor progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
