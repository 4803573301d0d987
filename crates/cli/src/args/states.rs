//! The options of `mynah cache`, and those by which other verbs choose that folder.

use crate::failure::Failure;
use clap::{Args, ValueEnum, ValueHint};
use mynah_drive_file::units::Bytes;
use mynah_lab::StateCache;
use std::path::PathBuf;

pub(super) const CACHE_EXAMPLES: &str = "\
Examples:
  mynah cache                              what is kept, of what, since when it was not used
  mynah cache clear                        remove all of it
  mynah sim --state-cache off              neither look there nor keep anything

What is kept makes runs begin sooner and changes no result. When it is too much, what was not used
for longest goes. MYNAH_STATE_CACHE is --state-cache for all commands.";

/// Where drives that were made ready are kept.
#[derive(Args)]
pub(crate) struct StatesArgs {
    /// Where prepared drives are kept, so that the next run with the same begins at once; off: nowhere
    /// [default: mynah/states in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR|off", value_hint = ValueHint::DirPath)]
    pub(crate) state_cache: Option<PathBuf>,
    /// What that folder holds at most; what was not used for longest goes [default: 2GiB, or a tenth of what
    /// is free, if that is less]
    #[arg(long, value_name = "SIZE")]
    pub(crate) state_cache_size: Option<Bytes>,
}

impl StatesArgs {
    /// Where they are kept, if anywhere.
    pub(crate) fn states(&self) -> Result<Option<StateCache>, Failure> {
        let Some(states) = StateCache::chosen(self.state_cache.as_deref()) else { return Ok(None) };
        let folder = states.folder();
        if self.state_cache.is_some() && folder.exists() && !folder.is_dir() {
            let problem = format!("--state-cache {}: that is no folder", folder.display());
            let help = "name a folder, which is made if it is not there, or off";
            return Err(Failure::usage(problem, Some(help)));
        }
        Ok(Some(match self.state_cache_size {
            Some(size) => states.bounded(size.0),
            None => states,
        }))
    }
}

/// `mynah cache`.
#[derive(Args)]
pub(crate) struct Cache {
    /// List what is kept, or remove all of it
    #[arg(
        value_enum,
        hide_possible_values = true,
        value_name = "list|clear",
        default_value = "list"
    )]
    pub(crate) what: CacheVerb,
    #[command(flatten)]
    pub(crate) states: StatesArgs,
}

/// What is done with it.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum CacheVerb {
    List,
    Clear,
}
