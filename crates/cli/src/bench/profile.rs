//! The profile of a load.

use crate::failure::Failure;
use crate::print;
use mynah_lab::profile::{GroupBy, ProfileReports, analyse};
use mynah_runtime::host::load::Where;
use mynah_runtime::profile::{HostProfiles, ProfileError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A load's profile, and where it is kept.
pub(super) struct Profile {
    pub(super) run: Arc<HostProfiles>,
    path: PathBuf,
    /// Where nobody wants to keep it.
    _folder: Option<TempDir>,
}

fn failed(error: ProfileError) -> Failure {
    match error {
        ProfileError::Output(error) => error.into(),
        other => Failure::usage(other.to_string(), None),
    }
}

impl Profile {
    /// Begins the profile of loads on a target, in `file` if it is to be kept.
    pub(super) fn begin(file: Option<&Path>, target: &Where) -> Result<Profile, Failure> {
        let (path, folder) = match file {
            Some(path) => (path.to_owned(), None),
            None => {
                let folder = tempfile::tempdir().map_err(|error| {
                    let message = format!("a folder for the profile cannot be made: {error}");
                    Failure::failed(message, Some("name a file: --profile=FILE"))
                })?;
                (folder.path().join("profile"), Some(folder))
            }
        };
        let run = HostProfiles::create(&path, &target.to_string()).map_err(failed)?;
        Ok(Profile { run: Arc::new(run), path, _folder: folder })
    }

    /// The load has ended: keeps its profile, and shows it if that is wanted.
    pub(super) fn finish(self, shows: bool) -> Result<(), Failure> {
        self.run.finish().map_err(failed)?;
        if !shows {
            return Ok(());
        }
        let analysis = analyse(&self.path, &GroupBy::default())
            .map_err(|problem| Failure::failed(problem.to_string(), None))?;
        print::out("\n")?;
        print::out(&ProfileReports::new(&[analysis], None).text())
    }
}
