//! `mynah profile`: what profiles say.

use crate::args::{Profile, ProfileChoice, ProfileShow};
use crate::failure::Failure;
use crate::print;
use mynah_lab::output;
use mynah_lab::profile::{
    Analysis, ChoiceTextError, GroupBy, ProfileReports, analyse, io_kinds, parse_every,
    parse_filter, parse_keep_above, parse_sampling,
};
use mynah_profile::{Choice, Chooser};
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
    let help =
        "a profile is what `mynah sim --profile FILE` and `mynah serve --profile FILE` write";
    analyse(path, by).map_err(|problem| Failure::usage(problem.to_string(), Some(help)))
}

/// Which I/Os are to have records.
pub(crate) fn choice(args: &ProfileChoice) -> Result<Choice, Failure> {
    let wrong = |option: &str, error: ChoiceTextError| {
        Failure::usage(format!("{option}: {error}"), None::<&str>)
    };
    let mut choice = Choice::default();
    if let Some(text) = &args.profile_sample {
        choice.sampling = parse_sampling(text).map_err(|e| wrong("--profile-sample", e))?;
    }
    if let Some(text) = &args.profile_every {
        choice.sampling = parse_every(text).map_err(|e| wrong("--profile-every", e))?;
    }
    for text in &args.profile_filter {
        choice.filters.push(parse_filter(text).map_err(|e| wrong("--profile-filter", e))?);
    }
    if let Some(text) = &args.profile_keep_above {
        choice.keep_above = parse_keep_above(text).map_err(|e| wrong("--profile-keep-above", e))?;
    }
    match Chooser::new(choice.clone(), &io_kinds()) {
        Ok(_) => Ok(choice),
        Err(error) => Err(Failure::usage(format!("--profile: {error}"), None::<&str>)),
    }
}
