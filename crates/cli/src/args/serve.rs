//! The options of `mynah serve`.

use super::{AuthArgs, DriveArgs, ProfileChoice, ScopeArg, suggest, whole};
use crate::key::Secret;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

pub(super) const SERVE_EXAMPLES: &str = "\
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
    /// take turns. On a drive with data placement, its reclaim unit handles are handles=0:3:5, by
    /// default all [default: one over the whole drive or shard, 512]
    #[arg(long, value_name = "SIZE[,512|4096|kv|kv-samsung][,handles=LIST]")]
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
    /// result depends on it [default: 1ms]
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
    /// Show all stages, waits and devices, the slowest I/Os and a histogram of latencies at the end, too
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
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

/// How a served drive looks for work.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PollArg {
    Adaptive,
    Always,
}
