//! The options of `mynah kv`.

use super::{ConnectArgs, whole};
use crate::kv::name::Name;
use clap::{ArgGroup, Args, Subcommand, ValueHint};
use mynah_wire::nvme::key::Key;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  mynah serve --drive kv-tlc --namespace 32GiB,kv            a drive to try this on
  mynah kv tcp://127.0.0.1 put user:1 --value hello
  mynah kv tcp://127.0.0.1 get user:1
  mynah kv vfio-user:/tmp/drive put 0x00ff10 --file picture.png --if-absent
  mynah kv TARGET get 0x00ff10 --file picture.png
  mynah kv TARGET list --prefix user: --limit 10
  mynah kv vfio-user:/tmp/drive get user:1 --key-space 0     of Samsung's command set
  mynah kv TARGET delete user:1 --must-exist
  mynah kv TARGET export pairs.jsonl && mynah kv OTHER import pairs.jsonl
  mynah bench TARGET --kv ycsb-b --keys 1m                   a load on it

A key is text of 1 to 16 bytes, or hexadecimal digits after 0x. Exit codes: 0 done; 1 refused, lost,
or there is no such key; 2 bad usage; 130 interrupted.";

/// `mynah kv`.
#[derive(Args)]
pub(crate) struct Kv {
    /// tcp://HOST:PORT/NQN, where without `:PORT` 4420 is meant, and without `/NQN` the target's
    /// only subsystem; or vfio-user:DIR
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Speak Samsung's key-value command set, over vfio-user, in this key space; keys have 4 to 255
    /// bytes then (put, get, exists, delete, list)
    #[arg(long, value_name = "N", global = true)]
    pub(crate) key_space: Option<u32>,
    /// What to do
    #[command(subcommand)]
    pub(crate) what: KvVerb,
}

/// What to do with keys and values.
#[derive(Subcommand)]
pub(crate) enum KvVerb {
    /// Store a value under a key
    Put(KvPut),
    /// Print a value, as it is
    ///
    /// Without such a key nothing is printed, and the exit code is 1.
    Get(KvGet),
    /// Say whether there is a key: `yes`, or `no` with exit code 1
    Exists(KvKey),
    /// Delete a key and its value
    Delete(KvDelete),
    /// Print the keys, one a line
    ///
    /// A key that is not plain text is printed as hexadecimal digits after 0x, as every verb here
    /// reads it.
    List(KvList),
    /// Say how large the namespace is, and what keys and values it takes
    Stat(KvStat),
    /// Store the pairs of a file, which `export` has written
    ///
    /// A line is a JSON object: {"key": "…", "value": "…"}, both in base64.
    Import(KvImport),
    /// Write all pairs to a file
    ///
    /// A line is a JSON object: {"key": "…", "value": "…"}, both in base64. Pairs that change
    /// meanwhile are written as they were before or after.
    Export(KvExport),
}

/// `mynah kv put`.
#[derive(Args)]
#[command(group(ArgGroup::new("source").required(true).args(["value", "file"])))]
pub(crate) struct KvPut {
    /// The key: text of 1 to 16 bytes, or hexadecimal digits after 0x
    #[arg(value_name = "KEY")]
    pub(crate) key: Name,
    /// The value
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,
    /// A file with the value; - is standard input
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Store it only if there is such a key
    #[arg(long, conflicts_with = "if_absent")]
    pub(crate) if_exists: bool,
    /// Store it only if there is no such key
    #[arg(long)]
    pub(crate) if_absent: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv get`.
#[derive(Args)]
pub(crate) struct KvGet {
    /// The key: text of 1 to 16 bytes, or hexadecimal digits after 0x
    #[arg(value_name = "KEY")]
    pub(crate) key: Name,
    /// Write the value to a file, which appears whole or not at all
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv exists`.
#[derive(Args)]
pub(crate) struct KvKey {
    /// The key: text of 1 to 16 bytes, or hexadecimal digits after 0x
    #[arg(value_name = "KEY")]
    pub(crate) key: Name,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv delete`.
#[derive(Args)]
pub(crate) struct KvDelete {
    /// The key: text of 1 to 16 bytes, or hexadecimal digits after 0x
    #[arg(value_name = "KEY")]
    pub(crate) key: Name,
    /// Fail if there is no such key, which is asked before it is deleted
    #[arg(long)]
    pub(crate) must_exist: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv list`.
#[derive(Args)]
pub(crate) struct KvList {
    /// Those that begin so
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<Name>,
    /// So many at most
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) limit: Option<u64>,
    /// Print a JSON object for each, with the key as base64 and as text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv stat`.
#[derive(Args)]
pub(crate) struct KvStat {
    /// Count the keys, too, by listing all of them
    #[arg(long)]
    pub(crate) count: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv import`.
#[derive(Args)]
pub(crate) struct KvImport {
    /// The file; - is standard input
    #[arg(value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print neither a summary nor progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// `mynah kv export`.
#[derive(Args)]
pub(crate) struct KvExport {
    /// The file, which appears whole or not at all; - is standard output
    #[arg(value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Those whose keys begin so
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub(crate) prefix: Option<Key>,
    /// Print neither a summary nor progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

fn key(text: &str) -> Result<Key, String> {
    text.parse().map_err(|error: mynah_wire::nvme::key::KeyError| error.to_string())
}
