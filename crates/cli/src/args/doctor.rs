//! The options of `mynah doctor`.

use clap::Args;

/// `mynah doctor`.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
