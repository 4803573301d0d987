//! The options of `mynah bench`.

use super::{ConnectArgs, LoadArgs, ProfileChoice, whole};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  mynah bench tcp://127.0.0.1                               the target's only subsystem
  mynah bench tcp://10.0.0.7:4420/nqn.2026-01.org.example:a --rw randwrite --iodepth 64
  mynah bench vfio-user:/tmp/drive --rw randread --bs 512 --iodepth 32 --numjobs 2
  mynah bench TARGET --rw randrw --rwmixread 70 --bs 8k --numjobs 4 --runtime 30s
  mynah bench TARGET --rw randread --rate_iops 20000        latencies at a given rate
  mynah bench TARGET --rw randwrite --size 1g --number_ios 500000 --verify --fsync 64
  mynah bench TARGET --kv ycsb-b --keys 1m --value_size 4k --iodepth 64 --verify
  mynah bench TARGET --kv retrieve=90,store=10 --load no    on keys that were stored before
  mynah bench /dev/nvme0n1 --rw randread --iodepth 64       a disk of this machine, only read
  mynah bench ./disk.img --rw randwrite --verify --destroy ./disk.img
  mynah bench nbd:unix:/tmp/drive.sock --rw randrw --bs 4k --iodepth 16
  mynah bench TARGET --header-digest --data-digest --json result.json

Exit codes: 0 done; 1 ran but failed (I/Os failed, blocks or values were wrong, no connection);
2 bad usage; 130 interrupted (what was measured is still printed).";

/// `mynah bench`.
#[derive(Args)]
pub(crate) struct Bench {
    /// tcp://HOST:PORT/NQN, where without `:PORT` 4420 is meant, and without `/NQN` the target's
    /// only subsystem; vfio-user:DIR; a block device or file of this machine; or an NBD export:
    /// nbd:unix:PATH, nbd:HOST:PORT[/EXPORT] or a URI
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,

    #[command(flatten)]
    pub(crate) flow: LoadArgs,
    /// In place of these, a fio job file: each of its jobs is a flow, with a controller of its own
    #[arg(long, value_name = "JOB.fio", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Workload (names and units as in fio)")]
    pub(crate) fio: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) run: LoadRunArgs,

    /// Write the result as JSON; - is standard output, in place of the summary
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write the distribution of latencies as HdrHistogram's plotter reads it; of several flows or kinds
    /// of I/O into files of their own, FILE-FLOW-KIND.hgrm
    #[arg(long, value_name = "FILE.hgrm", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Show where the time of I/Os went, on both sides if the target answers, and keep the profile in
    /// FILE for `mynah profile show` [default of --profile-sample: 1/10, and of
    /// --profile-keep-above: p99.9]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) profile: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) choice: ProfileChoice,
    /// Show a histogram of latencies, too
    #[arg(long, short, help_heading = "Output", conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Print neither summary nor progress
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// How a load connects.
#[derive(Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct HostArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Entries of each queue; one is always free [default: as many as the iodepth needs; 1024 with
    /// --rate_iops]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(2..=4096))]
    pub(crate) queue_size: Option<u16>,
    /// How long a lost target is tried again; 0: not at all [default: 60s]
    #[arg(long, alias = "ctrl-loss-tmo", value_name = "TIME")]
    pub(crate) reconnect: Option<String>,
}

/// How the load is run.
#[derive(Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct LoadRunArgs {
    /// Seed of the workload [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Time before results are taken, which makes --runtime so much longer; a bare number counts
    /// seconds
    #[arg(long = "ramp_time", alias = "ramp-time", value_name = "TIME")]
    pub(crate) ramp_time: Option<String>,
    /// Processors that the jobs may use, as in 1 or 0,2-3 [default: any]
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_name = "LIST")]
    pub(crate) cpus_allowed: Option<String>,
    /// Write blocks that carry their address, generation and a checksum, or values with key, version
    /// and checksum; check what is read, and all that was written at the end
    #[arg(long)]
    pub(crate) verify: bool,
    /// TARGET once more: the device or file is written over, and what is there is lost. Without it
    /// devices and files are only read
    #[arg(long, value_name = "TARGET")]
    pub(crate) destroy: Option<String>,
    /// With --kv: whether the keys that the mix finds are stored first, which is not measured
    /// [default: yes]
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    pub(crate) load: Option<YesNo>,
}

/// Whether something is to be done.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
}
