//! The options of `mynah profile`.

use super::{ConnectArgs, whole};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use mynah_analysis::GroupBy;
use std::path::PathBuf;

pub(super) const ATTACH_EXAMPLES: &str = "\
Examples:
  mynah profile tcp://127.0.0.1                             until Ctrl-C, then a report
  mynah profile tcp://10.0.0.7:4420 --runtime 10s --filter 'read size>=32KiB'
  mynah profile tcp://127.0.0.1 --sample 1 --output all.profile
  mynah profile --task experiments/ntprof/breakdown.toml
  mynah profile show busy.profile --base quiet.profile";

pub(super) const KERNEL_EXAMPLES: &str = "\
Examples:
  mynah profile kernel --duration 10s
  mynah profile kernel --duration 10s --sample 1/100 --output host.profile
  mynah profile show host.profile --target drive.profile";

pub(super) const PROFILE_EXAMPLES: &str = "\
Examples:
  mynah sim --drive enterprise-tlc --rw randread --iodepth 1 --profile quiet.profile
  mynah sim --drive enterprise-tlc --rw randread --iodepth 64 --profile busy.profile
  mynah profile show busy.profile --base quiet.profile
  mynah profile show busy.profile --base quiet.profile --queue-models --interference
  mynah profile show served.profile --base 0s..10s --link-limit 25Gbit/s
  mynah profile show busy.profile --group-by type,session --json -
  mynah profile show host.profile --target drive.profile --save path.profile
  mynah profile show busy.profile --base quiet.profile --report busy.html
  mynah profile show busy.profile --folded - | inferno-flamegraph > busy.svg

A mean latency is the sum of the means of its stages. Percentiles of a stage count the I/Os that did
not pass it as well.";

/// `mynah profile`.
#[derive(Subcommand)]
pub(crate) enum Profile {
    /// Show profiles: I/Os in groups, how long each of their stages took, and beside a base what has
    /// grown
    #[command(after_help = PROFILE_EXAMPLES)]
    Show(Box<ProfileShow>),
    /// Watch a profile while it is being written: IOPS, latencies and stages on one screen, or a
    /// line an interval where there is no terminal
    ///
    /// It ends with q, and when the writer ends. Keys: g groups I/Os by something else, b compares
    /// with the interval that is shown, f shows one type of I/O, s saves the records that there are.
    Watch(ProfileWatch),
    /// Trace what this machine's kernel, as a host over NVMe/TCP, does with each I/O; takes root
    ///
    /// It ends after --duration, or with Ctrl-C. What the kernel's trace cannot show is named, and the
    /// rest is recorded.
    #[command(after_help = KERNEL_EXAMPLES)]
    Kernel(ProfileKernel),
    /// Print the JSON Schema of what `show --json` writes
    Schema {
        /// Instead, that of task files
        #[arg(long)]
        task: bool,
    },
}

/// `mynah profile kernel`.
#[derive(Args)]
pub(crate) struct ProfileKernel {
    /// For how long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// One I/O in so many; 1: every I/O. A target that counts alike chooses the same ones of
    /// connections that were made meanwhile
    #[arg(long, value_name = "1/N", default_value = "1", conflicts_with = "every")]
    pub(crate) sample: String,
    #[command(flatten)]
    pub(crate) taken: LiveProfile,
    /// Hooks, or ways to see something, that are not used though the kernel has them, with commas
    /// between them: each hook costs the kernel some 1,500 instructions
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// Room for events that are yet to be read, for each processor: from 16KiB to 256MiB
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub(crate) buffer: String,
    /// Say nothing but the report
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What is taken of I/Os while they go on, and what becomes of it.
#[derive(Args)]
pub(crate) struct LiveProfile {
    /// Instead, one I/O in each such span of time: 10ms
    #[arg(long, value_name = "TIME")]
    pub(crate) every: Option<String>,
    /// Only I/Os like this, before sampling: 'read size>=32KiB queue=1..4' (io, size, namespace,
    /// queue, block, status); may be repeated: any of them is enough
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Those beside the sample that are slower: than the running 99.9th percentile, or a time; or
    /// none [default: p99.9, if there is a sample]
    #[arg(long, value_name = "p99.9|TIME|none")]
    pub(crate) keep_above: Option<String>,
    /// By what I/Os are told apart in the report: type, size, session, queue, namespace, several
    /// with commas between them; all for one group [default: type,size]
    #[arg(long, value_name = "LIST")]
    pub(crate) group_by: Option<GroupBy>,
    /// Write the report as JSON; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Keep the profile, the latest records of I/Os (64 MiB), for `mynah profile show`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Which I/Os are in a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileChoice {
    /// Only one I/O in so many is in the profile: 1/1000. A host that counts its commands chooses
    /// the same ones
    #[arg(long, value_name = "1/N", requires = "profile")]
    pub(crate) profile_sample: Option<String>,
    /// Only one I/O in each such span of time: 10ms
    #[arg(long, value_name = "TIME", requires = "profile", conflicts_with = "profile_sample")]
    pub(crate) profile_every: Option<String>,
    /// Only I/Os like this, before sampling: 'read size>=32KiB queue=1..4' (io, size, namespace,
    /// queue, block, status); may be repeated: any of them is enough
    #[arg(long, value_name = "FILTER", requires = "profile")]
    pub(crate) profile_filter: Vec<String>,
    /// Those beside the sample that are slower: than the running 99.9th percentile, or a time; or none
    #[arg(long, value_name = "p99.9|TIME|none", requires = "profile")]
    pub(crate) profile_keep_above: Option<String>,
}

/// Of whose I/Os hosts are told.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScopeArg {
    Own,
    All,
}

/// `mynah profile TARGET`.
#[derive(Args)]
pub(crate) struct Attach {
    /// The target, which `mynah serve` serves over TCP: tcp://HOST:PORT/NQN, where without `:PORT`
    /// 4420 is meant, and without `/NQN` the target's only subsystem
    #[arg(value_name = "TARGET", required_unless_present = "task")]
    pub(crate) target: Option<String>,
    /// Instead, run a task: a file that says what is served and loaded, which I/Os have records, and
    /// what is said of them
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["target", "runtime", "interval", "sample", "every", "filter",
                                "keep_above", "group_by", "json", "output", "nsid"])]
    pub(crate) task: Option<PathBuf>,
    /// For how long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME")]
    pub(crate) runtime: Option<String>,
    /// Say this often how it goes
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) interval: String,
    /// One I/O in so many; 1: every I/O
    #[arg(long, value_name = "1/N", default_value = "1/100", conflicts_with = "every")]
    pub(crate) sample: String,
    #[command(flatten)]
    pub(crate) taken: LiveProfile,
    /// Say nothing meanwhile
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) host: ConnectArgs,
}

/// `mynah profile show`.
#[derive(Args)]
pub(crate) struct ProfileShow {
    /// Profiles, as `mynah sim --profile`, `mynah bench --profile` and `mynah serve --profile` write
    /// them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// A profile to compare with, or a part of the only one, by time since its first I/O, as in
    /// 0s..10s, with what comes after it: how much longer each stage takes, its part of what was
    /// added, and a verdict
    #[arg(long, value_name = "FILE|FROM..UNTIL", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<String>,
    /// The target's profile of the same I/Os, where FILE is a host's: both sides are joined, so that
    /// a path has the stages of host, network, target and drive; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) target: Vec<PathBuf>,
    /// Write the joined paths as a profile, to be shown again or to be a base
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "target")]
    pub(crate) save: Option<PathBuf>,
    /// Show queue models: for how long I/Os would be in each stage if only the load had changed since
    /// the base
    #[arg(long, requires = "base")]
    pub(crate) queue_models: bool,
    /// Show who was in the same stage as whom, and what that cost
    #[arg(long)]
    pub(crate) interference: bool,
    /// What the network can carry each way, as in 25Gbit/s: a verdict says whether that is reached
    #[arg(long, value_name = "RATE", value_parser = mynah_analysis::bytes_per_s)]
    pub(crate) link_limit: Option<f64>,
    /// What the drive can do, as in 1440MB/s
    #[arg(long, value_name = "RATE", value_parser = mynah_analysis::bytes_per_s)]
    pub(crate) drive_limit: Option<f64>,
    /// By what I/Os are told apart: type, size, session, queue, namespace, several with commas
    /// between them; all for one group [default: type,size]
    #[arg(long, value_name = "LIST")]
    pub(crate) group_by: Option<GroupBy>,
    /// Write what is shown as JSON; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with pictures: stages, latencies over time and their distributions, a flame
    /// graph, the slowest I/Os
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Write I/Os with their stages as a timeline, for ui.perfetto.dev
    #[arg(long, value_name = "FILE.pftrace")]
    pub(crate) trace: Option<PathBuf>,
    /// Write stages as folded stacks weighted by nanoseconds, for flamegraph.pl, inferno or
    /// speedscope; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-")]
    pub(crate) folded: Option<PathBuf>,
    /// Write the latencies of each group over time as a log of HdrHistograms
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write a line for each I/O in the columns of fio's latency logs; - is standard output, in
    /// place of the tables
    #[arg(long, value_name = "FILE|-")]
    pub(crate) csv: Option<PathBuf>,
    /// Bytes of a logical block, for offsets of --csv; simulations say it themselves [default: 512]
    #[arg(long, value_name = "BYTES", requires = "csv", value_parser = whole::<u64>(512..=65_536))]
    pub(crate) lba_size: Option<u64>,
}

/// `mynah profile watch`.
#[derive(Args)]
pub(crate) struct ProfileWatch {
    /// The profile of a drive that is served, as `mynah serve --profile FILE` writes it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// How long an interval is, as in 500ms; a bare number counts seconds [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) interval: Option<String>,
    /// A profile to compare with
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
    /// By what I/Os are told apart, as of `show` [default: type,size on a screen, all in lines]
    #[arg(long, value_name = "LIST")]
    pub(crate) group_by: Option<GroupBy>,
    /// Watch one type of I/O only, as in read
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// End after so many intervals
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) count: Option<u64>,
    /// Print lines on a terminal as well
    #[arg(long)]
    pub(crate) lines: bool,
}

/// What happens to requests beyond a drive's end.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Folding {
    /// They are errors.
    None,
    /// They are folded into it.
    Modulo,
}
