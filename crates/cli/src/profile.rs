//! `mynah profile`: what profiles say.

use crate::args::{Profile, ProfileShow};
use crate::failure::Failure;
use crate::print;
use mynah_lab::output;
use mynah_lab::profile::views::{self, ViewError};
use mynah_lab::profile::{Analysis, GroupBy, ProfileReports, analyse};
use mynah_profile::Problem;
use std::path::Path;

/// Does what was asked for; never interrupted.
pub(crate) fn run(what: &Profile) -> Result<bool, Failure> {
    match what {
        Profile::Show(args) => show(args),
    }
}

fn show(args: &ProfileShow) -> Result<bool, Failure> {
    let by = args.group_by.clone().unwrap_or_default();
    let profiles = args.files.iter().map(|path| read(path, &by)).collect::<Result<Vec<_>, _>>()?;
    let base = args.base.as_deref().map(|path| read(path, &by)).transpose()?;
    let reports = ProfileReports::new(&profiles, base.as_ref());
    if let Some(path) = &args.report {
        views::write_report(path, &reports, (&profiles, base.as_ref()), None)?;
    }
    match args.json.as_deref() {
        Some(path) if path == Path::new("-") => print::out(&reports.to_json())?,
        Some(path) => {
            output::write(path, &reports.to_json())?;
            print::out(&reports.text())?;
        }
        None => print::out(&reports.text())?,
    }
    Ok(false)
}

fn read(path: &Path, by: &GroupBy) -> Result<Analysis, Failure> {
    analyse(path, by).map_err(|problem| foreign(&problem))
}

/// A file is no profile.
fn foreign(problem: &Problem) -> Failure {
    let help =
        "a profile is what `mynah sim --profile FILE` and `mynah serve --profile FILE` write";
    Failure::usage(problem.to_string(), Some(help))
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Failure {
        match error {
            ViewError::Profile(problem) => foreign(&problem),
            ViewError::Output(error) => error.into(),
        }
    }
}
