//! `mynah profile`: what profiles say.

pub(crate) mod attach;

use crate::args::{Profile, ProfileChoice, ProfileShow};
use crate::failure::Failure;
use crate::print;
use mynah_lab::output::{self, PendingFile};
use mynah_lab::profile::{
    Analysis, ChoiceTextError, GroupBy, ProfileReports, analyse, analyse_joined, io_kinds, join,
    parse_every, parse_filter, parse_keep_above, parse_sampling,
};
use mynah_profile::{Choice, ChoiceError, Chooser};
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
    tell(&reports, args.json.as_deref())?;
    Ok(false)
}

/// Says it to people, or to machines, or to both.
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

/// Which I/Os are to have records.
pub(crate) fn choice(args: &ProfileChoice) -> Result<Choice, Failure> {
    let ProfileChoice { profile_sample, profile_every, profile_filter, profile_keep_above, .. } =
        args;
    let wanted = Wanted {
        prefix: "--profile-",
        sample: profile_sample.as_deref(),
        every: profile_every.as_deref(),
        filters: profile_filter,
        keep_above: profile_keep_above.as_deref(),
    };
    wanted.choice()
}

/// What options say of it; their names begin with `prefix`.
struct Wanted<'a> {
    prefix: &'static str,
    sample: Option<&'a str>,
    every: Option<&'a str>,
    filters: &'a [String],
    keep_above: Option<&'a str>,
}

impl Wanted<'_> {
    fn choice(&self) -> Result<Choice, Failure> {
        let wrong = |option: &str, error: ChoiceTextError| {
            Failure::usage(format!("{}{option}: {error}", self.prefix), None)
        };
        let mut choice = Choice::default();
        if let Some(text) = self.sample {
            choice.sampling = parse_sampling(text).map_err(|error| wrong("sample", error))?;
        }
        if let Some(text) = self.every {
            choice.sampling = parse_every(text).map_err(|error| wrong("every", error))?;
        }
        for text in self.filters {
            choice.filters.push(parse_filter(text).map_err(|error| wrong("filter", error))?);
        }
        if let Some(text) = self.keep_above {
            choice.keep_above =
                parse_keep_above(text).map_err(|error| wrong("keep-above", error))?;
        }
        match Chooser::new(choice.clone(), &io_kinds()) {
            Ok(_) => Ok(choice),
            Err(error) => {
                let option = match error {
                    ChoiceError::KeepsAll => "keep-above",
                    _ => "filter",
                };
                Err(Failure::usage(format!("{}{option}: {error}", self.prefix), None))
            }
        }
    }
}
