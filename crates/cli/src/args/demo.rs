//! The options of `mynah demo`.

use super::StatesArgs;
use clap::Args;
use std::path::PathBuf;

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
    #[command(flatten)]
    pub(crate) states: StatesArgs,
}
