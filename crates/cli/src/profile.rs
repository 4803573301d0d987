//! `mynah profile`: what profiles say.

pub(crate) mod attach;
mod choice;
mod kernel;
mod live;
mod show;
pub(crate) mod task;

use crate::args::Profile;
use crate::failure::Failure;
use crate::print;
pub(crate) use choice::{choice, choice_or};
use mynah_analysis::ProfileReports;
use mynah_analysis::task::Task;
use mynah_result::output::{self, PendingFile};
use show::foreign;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// Does what was asked for; whether it was interrupted.
pub(crate) fn run(what: &Profile) -> Result<bool, Failure> {
    match what {
        Profile::Show(args) => show::show(args)?,
        Profile::Watch(args) => return live::run(args),
        Profile::Kernel(args) => kernel::run(args)?,
        Profile::Schema { task: false } => print::out(&ProfileReports::json_schema())?,
        Profile::Schema { task: true } => print::out(&Task::json_schema())?,
    }
    Ok(false)
}

/// Prints reports as text, writes them as JSON, or both.
fn tell(reports: &ProfileReports, json: Option<&Path>) -> Result<(), Failure> {
    match json {
        Some(path) if path == Path::new("-") => print::out(&reports.to_json()),
        Some(path) => {
            output::write(path, &reports.to_json())?;
            print::out(&reports.text())
        }
        None => print::out(&reports.text()),
    }
}

/// A folder for what is not kept.
pub(crate) fn folder() -> Result<TempDir, Failure> {
    let failed = |error| Failure::failed(format!("no folder can be made: {error}"), None);
    tempfile::tempdir().map_err(failed)
}

/// Writes a profile, whole or not at all.
pub(crate) fn keep(path: &Path, profile: &[u8]) -> Result<(), Failure> {
    let file = PendingFile::create_private(path)?;
    let written = file.file().and_then(|mut out| out.write_all(profile));
    written.map_err(|error| file.error(error))?;
    Ok(file.keep()?)
}
