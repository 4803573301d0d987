//! The options of `mynah nvme`.

use super::ConnectArgs;
use clap::{Args, Subcommand, ValueEnum};

pub(super) const EXAMPLES: &str = "\
Examples:
  mynah nvme tcp://127.0.0.1 id-ctrl
  mynah nvme tcp://127.0.0.1 smart-log --json | jq .media_errors
  mynah nvme TARGET error-log --json                       what a fault has left
  mynah nvme TARGET id-ns -n 2 -o json                     --nsid and --json, as in nvme-cli
  mynah nvme TARGET fdp-stats                              with data placement: its WAF
  mynah nvme TARGET get-feature 0x06                       the volatile write cache
  mynah nvme TARGET get-log 0xc0 --log-len 256 --raw > drive.bin
  mynah nvme vfio-user:/tmp/drive smart-log

Names and fields are nvme-cli's; no kernel module is needed. Exit codes: 0 done; 1 refused, or lost;
2 bad usage.";

/// `mynah nvme`.
#[derive(Args)]
pub(crate) struct Nvme {
    /// tcp://HOST:PORT/NQN, where without `:PORT` 4420 is meant, and without `/NQN` the target's
    /// only subsystem; or vfio-user:DIR
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// What to ask
    #[command(subcommand)]
    pub(crate) what: NvmeVerb,
}

/// What a controller is asked.
#[derive(Subcommand)]
pub(crate) enum NvmeVerb {
    /// What the controller is
    IdCtrl(NvmeArgs),
    /// What the namespace is (--nsid)
    IdNs(NvmeArgs),
    /// Which namespaces there are
    ListNs(NvmeArgs),
    /// How the drive is: what hosts read and wrote, media errors, wear
    SmartLog(NvmeArgs),
    /// The errors of commands, the latest first; entries without an error are left out
    ErrorLog(NvmeArgs),
    /// Which namespaces are accessed how on this path
    AnaLog(NvmeArgs),
    /// The configurations of data placement (FDP): reclaim groups, handles, the size of units
    FdpConfigs(NvmeGroup),
    /// Which reclaim unit handles namespaces use: 1 as a host said, 2 as the controller chose
    FdpUsage(NvmeGroup),
    /// Bytes that hosts wrote, that the media wrote and that were erased
    FdpStats(NvmeGroup),
    /// Events of data placement, the oldest first
    FdpEvents(NvmeEvents),
    /// What the placement handles of the namespace (--nsid) refer to, and how much fits there
    FdpStatus(NvmeArgs),
    /// The value of a feature
    GetFeature(NvmeFeature),
    /// Any log page, as a hex dump or as it is
    GetLog(NvmeLog),
}

/// What all of them take.
#[derive(Args)]
pub(crate) struct NvmeArgs {
    /// Print JSON with nvme-cli's names
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the bytes as they came
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// The same in nvme-cli's words
    #[arg(long, short, value_name = "FORMAT", conflicts_with_all = ["json", "raw"])]
    output_format: Option<OutputFormat>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// How nvme-cli prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text.
    Normal,
    /// JSON.
    Json,
    /// The bytes as they came.
    Binary,
}

impl NvmeArgs {
    /// How to print.
    pub(crate) fn format(&self) -> OutputFormat {
        match (self.json, self.raw) {
            (true, _) => OutputFormat::Json,
            (_, true) => OutputFormat::Binary,
            _ => self.output_format.unwrap_or(OutputFormat::Normal),
        }
    }
}

/// What is asked of an endurance group.
#[derive(Args)]
pub(crate) struct NvmeGroup {
    /// Which endurance group
    #[arg(long, short, value_name = "N", default_value = "1")]
    #[arg(value_parser = super::whole::<u16>(1..=65535))]
    pub(crate) endgrp_id: u16,
    #[command(flatten)]
    pub(crate) all: NvmeArgs,
}

/// `mynah nvme TARGET fdp-events`.
#[derive(Args)]
pub(crate) struct NvmeEvents {
    /// Those that hosts have caused
    #[arg(long, short = 'E')]
    pub(crate) host_events: bool,
    #[command(flatten)]
    pub(crate) group: NvmeGroup,
}

/// `mynah nvme TARGET get-feature`.
#[derive(Args)]
pub(crate) struct NvmeFeature {
    /// Its identifier: 6, or 0x06
    #[arg(value_name = "ID", value_parser = number::<u8>)]
    pub(crate) id: u8,
    /// Which value: 0 current, 1 default, 2 saved, 3 what of it is supported
    #[arg(long, value_name = "N", default_value = "0", value_parser = super::whole::<u8>(0..=3))]
    pub(crate) sel: u8,
    #[command(flatten)]
    pub(crate) all: NvmeArgs,
}

/// `mynah nvme TARGET get-log`.
#[derive(Args)]
pub(crate) struct NvmeLog {
    /// Its identifier: 2, or 0x02
    #[arg(value_name = "ID", value_parser = number::<u8>)]
    pub(crate) id: u8,
    /// How many bytes
    #[arg(long, value_name = "BYTES", default_value = "512")]
    #[arg(value_parser = super::whole::<u32>(4..=16 << 20))]
    pub(crate) log_len: u32,
    /// From which byte on
    #[arg(long, value_name = "BYTE", default_value = "0")]
    #[arg(value_parser = super::whole::<u64>(0..=u64::MAX >> 1))]
    pub(crate) lpo: u64,
    /// Log Specific Field
    #[arg(long, value_name = "N", default_value = "0", value_parser = super::whole::<u8>(0..=127))]
    pub(crate) lsp: u8,
    /// Log Specific Identifier, as of the endurance group
    #[arg(long, value_name = "N", default_value = "0")]
    #[arg(value_parser = super::whole::<u16>(0..=65535))]
    pub(crate) lsi: u16,
    /// Print the bytes as they came
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// A number, in hexadecimal digits after 0x.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        format!("expected a number below {}, as in 6 or 0x06", 1u64 << (8 * size_of::<T>()))
    })
}
