//! The command line.

mod calibrate;
mod flow;
mod guest;
mod kv;
mod nvme;
mod suggest;

use crate::key::Secret;
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use mynah_analysis::GroupBy;
use mynah_lab::experiment::Precondition;
use mynah_lab::precision::Goal;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;

pub(crate) use calibrate::Calibrate;
pub(crate) use flow::{FlowArgs, LoadArgs};
pub(crate) use guest::Guest;
pub(crate) use kv::{
    Kv, KvDelete, KvExport, KvGet, KvImport, KvKey, KvList, KvPut, KvStat, KvVerb,
};
pub(crate) use nvme::{Nvme, NvmeArgs, NvmeFeature, NvmeLog, NvmeVerb, OutputFormat};
pub(crate) use suggest::served_faults;

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
  mynah bench tcp://127.0.0.1                 use it";

const SIM_EXAMPLES: &str = "\
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

const COMPARE_EXAMPLES: &str = "\
Examples:
  mynah compare before.json after.json
  mynah compare run.rec --drive samsung-970-pro
  mynah compare run.rec --set over_provisioning=28% --remap modulo

With a recording, the other drive is given the recorded commands at their recorded times,
however long it takes for the ones before: on a slower drive they pile up. A smaller drive, such as
one with more over-provisioning, does not have all addresses: --remap modulo folds what lies beyond
its end into it.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  mynah profile tcp://127.0.0.1                             until Ctrl-C, then a report
  mynah profile tcp://10.0.0.7:4420 --runtime 10s --filter 'read size>=32KiB'
  mynah profile tcp://127.0.0.1 --sample 1 --output all.profile
  mynah profile --task experiments/ntprof/breakdown.toml
  mynah profile show busy.profile --base quiet.profile";

const KERNEL_EXAMPLES: &str = "\
Examples:
  mynah profile kernel --duration 10s
  mynah profile kernel --duration 10s --sample 1/100 --output host.profile
  mynah profile show host.profile --target drive.profile";

const PROFILE_EXAMPLES: &str = "\
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

const BENCH_EXAMPLES: &str = "\
Examples:
  mynah bench tcp://127.0.0.1                               the target's only subsystem
  mynah bench tcp://10.0.0.7:4420/nqn.2026-01.org.example:a --rw randwrite --iodepth 64
  mynah bench vfio-user:/tmp/drive --rw randread --bs 512 --iodepth 32 --numjobs 2
  mynah bench TARGET --rw randrw --rwmixread 70 --bs 8k --numjobs 4 --runtime 30s
  mynah bench TARGET --rw randread --rate_iops 20000        latencies at a given rate
  mynah bench TARGET --rw randwrite --size 1g --number_ios 500000 --verify --fsync 64
  mynah bench TARGET --kv ycsb-b --keys 1m --value_size 4k --iodepth 64 --verify
  mynah bench TARGET --kv retrieve=90,store=10 --load no    on keys that were stored before
  mynah bench TARGET --header-digest --data-digest --json result.json

Exit codes: 0 done; 1 ran but failed (I/Os failed, blocks or values were wrong, no connection);
2 bad usage; 130 interrupted (what was measured is still printed).";

const SERVE_EXAMPLES: &str = "\
Examples:
  mynah serve                                 the default drive on 127.0.0.1:4420
  mynah serve --drive samsung-970-pro --store file:drive.bytes --status-interval 1
  mynah serve --namespace 10GiB --namespace 20GiB,4096 --tcp 127.0.0.1:0 --json result.json
  mynah serve --namespace 32GiB,kv --namespace 16GiB
                                              keys and values beside blocks
  mynah serve --namespace 32GiB,kv-samsung --vfio-user /tmp/drive
                                              Samsung's key-value commands (see docs/key-value.md)
  mynah serve --vfio-user /tmp/drive          a PCIe drive for QEMU (see docs/vfio-user.md)
  mynah serve --drives 2 --vfio-user /tmp/drives --cpus_allowed 2,3
                                              two, in /tmp/drives/0 and 1, on a processor each
  mynah serve --shards 4 --tcp 127.0.0.1:4420 one drive on four threads, at four ports
A Linux host connects with
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n NQN          (the NQN is in the ready line)

Exit codes: 0 done; 1 done, but real time was missed (not trustworthy, unless --functional), or
what was written was refused or lost, or a drive failed; 2 bad usage, nothing was served; 130
interrupted before the ready line, or once more while it ended.";

/// Everything.
#[derive(Parser)]
#[command(name = "mynah", version, long_version = long_version(), about = ABOUT, after_help = EXAMPLES)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The version, the build that results come from, and Cargo's profile: what `release` computes, `dist`
/// computes faster.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let (version, profile) = (env!("CARGO_PKG_VERSION"), env!("MYNAH_PROFILE"));
        format!("{version}\nbuild {}\nprofile {profile}", mynah_lab::ledger::BUILD)
    });
    &TEXT
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Put a load on a target over NVMe/TCP or vfio-user, and measure
    ///
    /// Without options: 4 KiB random reads at an iodepth of 32, for 10 s.
    #[command(
        after_help = "More with --help: examples, exit codes.",
        after_long_help = BENCH_EXAMPLES
    )]
    Bench(Box<Bench>),
    /// Simulate a drive under a workload
    ///
    /// Without options: 4 KiB random reads at an iodepth of 32 on the default drive in steady
    /// state.
    #[command(
        after_help = "More with --help: examples, experiment files, exit codes.",
        after_long_help = SIM_EXAMPLES
    )]
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
    #[command(after_help = SERVE_EXAMPLES)]
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
    /// Serve a drive, compare it with its simulation, and explain both, on a page
    Demo(Demo),
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
}

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
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=4096))]
    pub(crate) threads: Option<u32>,
}

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
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

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

/// `mynah serve`.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
    /// Seed of the drive; each further drive or shard has the next one [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// How fast the drive's clock goes, or max: answer at once, without the model
    #[arg(long, value_name = "FACTOR|max", default_value = "1")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["1", "max"]))]
    pub(crate) speed: String,
    /// Where the bytes are: ram (as far as written), file:PATH, or pattern (nowhere). Several
    /// drives or shards have PATH.0, PATH.1 and so on. Pairs of key-value namespaces are in the folder
    /// PATH.pairs. A drive that ends in order leaves its own state in PATH.state and goes on from
    /// there; otherwise it is preconditioned anew, and says why (see docs/serving.md)
    #[arg(long, value_name = "STORE", default_value = "ram")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["ram", "pattern", "file:"]))]
    pub(crate) store: String,
    /// A namespace, with blocks of 512 or 4096 bytes or with pairs of keys and values (kv, or
    /// kv-samsung for Samsung's command set over vfio-user); may be repeated. The shards of a drive
    /// take turns [default: one over the whole drive or shard, 512]
    #[arg(long, value_name = "SIZE[,512|4096|kv|kv-samsung]")]
    pub(crate) namespace: Vec<String>,
    /// The subsystem's name, the end of its NQN or all of it; given several times, there are as
    /// many drives [default: the drive's; of several drives followed by -0, -1, …]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Serve so many drives, alike but for name, serial number and seed: each with a thread, a
    /// model, a store and sockets of its own [default: as many as --name]
    #[arg(long, value_name = "COUNT", value_parser = whole::<u16>(1..=1024))]
    #[arg(conflicts_with = "shards", help_heading = "Several drives, and parts of one")]
    pub(crate) drives: Option<u16>,
    /// Divide the drive into so many shards, each with its share of channels, firmware cores, cache
    /// and link bandwidth: a controller and a namespace of the one subsystem, on a thread of its
    /// own (see docs/scale-out.md)
    #[arg(long, value_name = "COUNT", value_parser = whole::<u16>(1..=1024))]
    #[arg(help_heading = "Several drives, and parts of one")]
    pub(crate) shards: Option<u16>,
    /// Where to listen; port 0 takes a free one; may be repeated. The second of several drives or
    /// shards listens one port higher, and so on [default: 127.0.0.1:4420]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Vec<String>,
    /// Where to listen over RDMA: an address of an RDMA device; may be repeated, and alone. The second
    /// of several drives or shards listens one port higher, and so on (needs a build with the feature
    /// rdma)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) rdma: Vec<String>,
    /// Export namespaces as network block devices, for qemu-img, nbdcopy, nbd-client, fio's nbd engine:
    /// at a socket (unix:PATH) or an address (10809 is usual); may be repeated. Exports are named by
    /// their namespace: 1, 2, …; the empty name is the first. Of several drives or shards, the next is
    /// one port higher, or at PATH.1. Without --tcp, nothing listens there (see docs/nbd.md)
    #[arg(long, value_name = "unix:PATH|ADDR:PORT")]
    pub(crate) nbd: Vec<String>,
    /// Be a PCIe function for QEMU and other clients of vfio-user, at the socket DIR/cntrl; may be
    /// repeated: each is a controller of the one drive. Of several drives or shards, the first is
    /// in DIR/0, the next in DIR/1, and so on. Without --tcp, nothing listens there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) vfio_user: Vec<PathBuf>,
    /// How guests ring doorbells: mapped (into memory that is looked at all the time) or trapped
    /// (each is a message, and the drive sleeps until one comes) [default: mapped]
    #[arg(long, value_name = "HOW", requires = "vfio_user")]
    pub(crate) doorbells: Option<DoorbellsArg>,
    /// Whose time the drive has: this machine's, or that of the one guest of --vfio-user, which is
    /// what it has executed. Guest and drive then run in lock-step, and every run is the same (see
    /// docs/full-system.md)
    #[arg(long, value_name = "WHOSE", value_enum, default_value = "host")]
    #[arg(help_heading = "In lock-step with a guest")]
    pub(crate) clock: ClockArg,
    /// With --clock guest: so long the guest runs without the drive, if nothing happens there. No
    /// result depends on it [default: 100us]
    #[arg(long, value_name = "TIME", help_heading = "In lock-step with a guest")]
    pub(crate) quantum: Option<String>,
    /// With --clock guest: where the guest's clock, a plugin of QEMU's, connects [default: DIR/clock]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "In lock-step with a guest")]
    pub(crate) clock_socket: Option<PathBuf>,
    /// A host that may connect; may be repeated [default: any host]
    #[arg(long, value_name = "NQN")]
    pub(crate) allow_host: Vec<String>,
    /// A host's secret (DHHC-1:…), or any host's without an NQN: hosts then have to prove who
    /// they are; may be repeated (make one with `nvme gen-dhchap-key`). @FILE reads it from a
    /// file: others can see a command line
    #[arg(long, value_name = "[NQN=]KEY|@FILE", env = "MYNAH_HOST_KEY", hide_env_values = true)]
    pub(crate) host_key: Vec<Secret>,
    /// The subsystem's own secret, for hosts that want a proof in turn
    #[arg(long, value_name = "KEY|@FILE", requires = "host_key")]
    #[arg(env = "MYNAH_CONTROLLER_KEY", hide_env_values = true)]
    pub(crate) controller_key: Option<Secret>,
    #[command(flatten)]
    pub(crate) auth: AuthArgs,
    /// A host's TLS key (NVMeTLSkey-1:…), or any host's without an NQN: connections are then
    /// encrypted; may be repeated (make one with `nvme gen-tls-key`)
    #[arg(long, value_name = "[NQN=]KEY|@FILE", env = "MYNAH_TLS_PSK", hide_env_values = true)]
    pub(crate) tls_psk: Vec<Secret>,
    /// Record everything that goes into the drive, for sim --replay and compare. Several drives
    /// or shards have FILE.0, FILE.1 and so on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// Write a profile, the latest records of I/Os with their stages (8 MiB), for `mynah profile
    /// show`; it can be read while the drive is served. Several drives or shards have FILE.0 and so on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) profile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) profile_choice: ProfileChoice,
    /// Of whose I/Os hosts are told that ask for a profile: of those of the same host, or of all
    /// [default: all if every address is a loopback one, own otherwise]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) profile_scope: Option<ScopeArg>,
    /// What real time may be missed by before the result is not trusted (p99) [default: 50us or
    /// a tenth of the median latency, whichever is more]
    #[arg(long, value_name = "TIME")]
    pub(crate) late_bound: Option<String>,
    /// What of an Ethernet drive's modelled time the real path takes: answers leave so much before
    /// their modelled end. auto is the least round trip that the kernel has seen on a connection, so
    /// that no answer is early; a time, as measured; or off (see docs/serving.md) [default: auto]
    #[arg(long, value_name = "auto|TIME|off")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["auto", "off"]))]
    pub(crate) path_credit: Option<String>,
    /// Only what the drive does matters, not when, as in tests of functions on busy machines: a
    /// result that is not trusted because real time was missed says so, but is no failure (exit
    /// code 0). Writes that are lost and the like still are (exit code 1)
    #[arg(long)]
    pub(crate) functional: bool,
    /// End in order when standard input is closed: with the program that holds its other end,
    /// however that ends
    #[arg(long)]
    pub(crate) until_closed: bool,
    /// How to look for work: adaptive sleeps when spinning does not pay, and is late by some 50 us
    /// then (with mapped doorbells, which nobody tells of, by the rest of a nap of 20 to 250 us);
    /// always takes a processor
    #[arg(long, value_name = "HOW", value_enum, default_value = "adaptive")]
    pub(crate) poll: PollArg,
    /// Processors on which the drive may be served, as in 1 or 0,2-3: one of its own keeps
    /// lateness low. Several drives or shards get one each, in turn (as with fio's
    /// cpus_allowed_policy=split) [default: any]
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_name = "LIST")]
    pub(crate) cpus_allowed: Option<String>,
    /// Print a line with what goes on every so often; a bare number counts seconds
    #[arg(long, value_name = "TIME")]
    pub(crate) status_interval: Option<String>,
    /// Serve metrics for Prometheus there, under /metrics
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<String>,
    /// Write the result as JSON at the end; - is standard output, in place of the summary
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Print no summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Whose time a drive has.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ClockArg {
    /// This machine's
    Host,
    /// The guest's
    Guest,
}

/// How guests ring doorbells.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum DoorbellsArg {
    /// By writing to memory
    Mapped,
    /// By messages
    Trapped,
}

/// `mynah demo`.
#[derive(Args)]
pub(crate) struct Demo {
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "mynah-demo.html")]
    pub(crate) report: PathBuf,
    /// Processors that may be used, as in 0,1: the drive is served on the first, and its host runs
    /// on the second. One of its own for each keeps lateness low [default: any]
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_name = "LIST")]
    pub(crate) cpus_allowed: Option<String>,
}

/// `mynah bench`.
#[derive(Args)]
pub(crate) struct Bench {
    /// tcp://HOST:PORT/NQN, where without `:PORT` 4420 is meant, and without `/NQN` the target's
    /// only subsystem; or vfio-user:DIR
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
    /// Print neither summary nor progress
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// How a served drive looks for work.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PollArg {
    Adaptive,
    Always,
}

/// How hosts prove who they are.
#[derive(Args)]
pub(crate) struct AuthArgs {
    /// A hash function of authentications: sha256, sha384 or sha512; may be repeated, the
    /// preferred one first [default: all]
    #[arg(long, value_name = "HASH", requires = "host_key")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["sha256", "sha384", "sha512"]))]
    pub(crate) auth_hash: Vec<String>,
    /// A Diffie-Hellman group of authentications: null, or ffdhe2048, 3072, 4096, 6144 or 8192;
    /// may be repeated, the preferred one first. Large ones cost either end much time, and with
    /// null a listener can try secrets at leisure [default: ffdhe3072, ffdhe4096, ffdhe2048]
    #[arg(long, value_name = "GROUP", requires = "host_key")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&[
        "null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"
    ]))]
    pub(crate) auth_group: Vec<String>,
}

/// `mynah doctor`.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to connect.
#[derive(Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArgs {
    /// The namespace [default: 1, or the only key-value one]
    #[arg(long, short = 'n', alias = "namespace-id", value_name = "N")]
    pub(crate) nsid: Option<String>,
    /// Who connects [default: /etc/nvme/hostnqn, or a name made from the machine's identifier]
    #[arg(long, value_name = "NQN")]
    pub(crate) host_nqn: Option<String>,
    /// The host's secret (DHHC-1:…), to prove who it is; @FILE reads it from a file: others can see
    /// a command line
    #[arg(long, alias = "dhchap-secret", value_name = "KEY|@FILE")]
    #[arg(env = "MYNAH_HOST_KEY", hide_env_values = true)]
    pub(crate) host_key: Option<Secret>,
    /// The subsystem's secret: it has to prove who it is, too
    #[arg(long, alias = "dhchap-ctrl-secret", value_name = "KEY|@FILE", requires = "host_key")]
    #[arg(env = "MYNAH_CONTROLLER_KEY", hide_env_values = true)]
    pub(crate) controller_key: Option<Secret>,
    #[command(flatten)]
    pub(crate) auth: AuthArgs,
    /// Encrypt connections with this TLS key (NVMeTLSkey-1:…)
    #[arg(long, value_name = "KEY|@FILE", env = "MYNAH_TLS_PSK", hide_env_values = true)]
    pub(crate) tls_psk: Option<Secret>,
    /// Protect headers with a CRC
    #[arg(long, alias = "hdr-digest")]
    pub(crate) header_digest: bool,
    /// Protect data with a CRC
    #[arg(long)]
    pub(crate) data_digest: bool,
    /// Wait for interrupts instead of looking for completions all the time (vfio-user)
    #[arg(long)]
    pub(crate) interrupts: bool,
    /// The target drops a host that it has not heard of for so long; 0: never [default: 10s]
    #[arg(long, alias = "keep-alive-tmo", value_name = "TIME")]
    pub(crate) keep_alive: Option<String>,
    /// An answer that takes longer is taken for a lost connection [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// How long a target that is not there yet is tried; 0: once [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,
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

/// Whether something is to be done.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
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
    /// With --kv: whether the keys that the mix finds are stored first, which is not measured
    /// [default: yes]
    #[arg(long, value_name = "YES|NO", hide_possible_values = true)]
    pub(crate) load: Option<YesNo>,
}

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
    /// flows do, for traces that are piped in or write little of it) [default: steady]
    #[arg(long, value_name = "STATE", hide_possible_values = true, value_parser = suggest::values(
        &["none", "fill", "steady", "steady:random"]
    ).try_map(|text| text.parse::<Precondition>()))]
    pub(crate) precondition: Option<Precondition>,
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
    /// Print neither summary nor progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
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
    use clap::CommandFactory;
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
