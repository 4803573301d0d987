//! `mynah profile show`: what profiles say, as text, pages, traces and tables.

use crate::args::ProfileShow;
use crate::failure::{Failure, say};
use crate::print;
use mynah_lab::output::{self, PendingFile};
use mynah_lab::profile::views::{self, ViewError};
use mynah_lab::profile::{Analysis, GroupBy, ProfileReports, analyse, analyse_joined, join};
use mynah_profile::Problem;
use std::io::BufWriter;
use std::path::Path;

/// Shows what was asked for.
pub(super) fn show(args: &ProfileShow) -> Result<(), Failure> {
    let on_stdout = [&args.json, &args.folded, &args.csv];
    let on_stdout = on_stdout.into_iter().flatten().filter(|path| is_stdout(path)).count();
    if on_stdout > 1 {
        let message = "one of --json, --folded and --csv can be standard output, not several";
        return Err(Failure::usage(message, Some("give the others a file")));
    }
    let by = args.group_by.clone().unwrap_or_default();
    let base = args.base.as_deref().map(|path| read(path, &by)).transpose()?;
    // Views read the records again: so long the joined ones are in a file.
    let folder;
    let (profiles, name) = match args.target.is_empty() {
        true => {
            let all = args.files.iter().map(|path| read(path, &by));
            (all.collect::<Result<Vec<_>, _>>()?, None)
        }
        false => {
            folder = crate::profile::folder()?;
            let file = folder.path().join("path");
            (vec![paths(args, &file, &by)?], args.files.first())
        }
    };
    let mut reports = ProfileReports::new(&profiles, base.as_ref());
    if let (Some(name), [report]) = (name, &mut reports.profiles[..]) {
        report.file = name.display().to_string();
    }
    if let Some(path) = &args.report {
        views::write_report(path, &reports, (&profiles, base.as_ref()), None)?;
    }
    if let Some(path) = &args.trace {
        let left_out = views::write_trace(path, &profiles)?;
        if left_out > 0 {
            say(format_args!("{}: {left_out} I/Os have no room on it", path.display()));
        }
    }
    if let Some(path) = &args.hdr {
        views::write_hdr(path, &profiles)?;
    }
    if let Some(path) = &args.folded {
        write(path, &views::folded(&profiles))?;
    }
    if let Some(path) = &args.csv {
        write_csv(path, &profiles, args.lba_size.unwrap_or(512))?;
    }
    if let Some(path) = &args.json {
        write(path, &reports.to_json())?;
    }
    match on_stdout {
        0 => print::out(&reports.text()),
        _ => Ok(()),
    }
}

/// The paths of I/Os, of a host's profiles and a target's, which are written to `file`.
fn paths(args: &ProfileShow, file: &Path, by: &GroupBy) -> Result<Analysis, Failure> {
    let help = "a host's side is what `mynah bench --profile=FILE` writes, a target's what `mynah \
                serve --profile FILE` does";
    let joined = join(&args.files, &args.target)
        .map_err(|error| Failure::usage(error.to_string(), Some(help)))?;
    if let Some(path) = &args.save {
        super::keep(path, &joined.profile)?;
    }
    super::keep(file, &joined.profile)?;
    analyse_joined(file, &joined, by).map_err(|problem| foreign(&problem))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a file, or to standard output.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    match is_stdout(path) {
        true => print::out(text),
        false => Ok(output::write(path, text)?),
    }
}

/// A line for each I/O, and what is not among them.
fn write_csv(path: &Path, profiles: &[Analysis], block_bytes: u64) -> Result<(), Failure> {
    let left_out = if is_stdout(path) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let (left_out, written) = views::write_csv(&mut out, profiles, block_bytes)
            .map_err(|problem| foreign(&problem))?;
        written.map_err(Failure::Stdout)?;
        left_out
    } else {
        let file = PendingFile::create(path)?;
        let mut out = BufWriter::new(file.file().map_err(|error| file.error(error))?);
        let (left_out, written) = views::write_csv(&mut out, profiles, block_bytes)
            .map_err(|problem| foreign(&problem))?;
        written.map_err(|error| file.error(error))?;
        file.keep()?;
        left_out
    };
    let parts =
        [(left_out.failed, "failed"), (left_out.undirected, "neither read, write nor trim")];
    for (number, what) in parts.into_iter().filter(|(number, _)| *number > 0) {
        say(format_args!("{}: without {number} I/Os that {what}", path.display()));
    }
    Ok(())
}

fn read(path: &Path, by: &GroupBy) -> Result<Analysis, Failure> {
    analyse(path, by).map_err(|problem| foreign(&problem))
}

/// A file is no profile.
pub(super) fn foreign(problem: &Problem) -> Failure {
    let help =
        "a profile is what `mynah sim`, `mynah bench` and `mynah serve` write with --profile=FILE";
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
