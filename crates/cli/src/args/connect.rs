//! How hosts connect: what `mynah bench`, `kv`, `nvme` and `profile` have in common.

use super::suggest;
use crate::key::Secret;
use clap::Args;

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
