//! `mynah profile`: what profiles say.

use crate::args::{Profile, ProfileShow};
use crate::failure::Failure;
use crate::print;
use mynah_lab::output::{self, PendingFile};
use mynah_lab::profile::{Analysis, GroupBy, ProfileReports, analyse, analyse_joined, join};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Does what was asked for; never interrupted.
pub(crate) fn run(what: &Profile) -> Result<bool, Failure> {
    match what {
        Profile::Show(args) => show(args),
    }
}

fn show(args: &ProfileShow) -> Result<bool, Failure> {
    let by = args.group_by.clone().unwrap_or_default();
    let profiles = match args.target.is_empty() {
        true => args.files.iter().map(|path| read(path, &by)).collect::<Result<Vec<_>, _>>()?,
        false => vec![paths(args, &by)?],
    };
    let base = args.base.as_deref().map(|path| read(path, &by)).transpose()?;
    let reports = ProfileReports::new(&profiles, base.as_ref());
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

/// The paths of I/Os, of a host's profiles and a target's.
fn paths(args: &ProfileShow, by: &GroupBy) -> Result<Analysis, Failure> {
    let help = "a host's side is what `mynah bench --profile=FILE` writes, a target's what `mynah \
                serve --profile FILE` does";
    let joined = join(&args.files, &args.target)
        .map_err(|error| Failure::usage(error.to_string(), Some(help)))?;
    if let Some(path) = &args.save {
        let file = PendingFile::create(path)?;
        let written = file.file().and_then(|mut out| out.write_all(&joined.profile));
        written.map_err(|error| file.error(error))?;
        file.keep()?;
    }
    let file = args.files.first().map(PathBuf::as_path).unwrap_or(Path::new("-"));
    analyse_joined(file, &joined, by).map_err(|problem| Failure::usage(problem.to_string(), None))
}

fn read(path: &Path, by: &GroupBy) -> Result<Analysis, Failure> {
    let help =
        "a profile is what `mynah sim`, `mynah bench` and `mynah serve` write with --profile=FILE";
    analyse(path, by).map_err(|problem| Failure::usage(problem.to_string(), Some(help)))
}
