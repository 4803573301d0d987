//! `mynah profile show`: what profiles say, as text, pages, traces and tables.

use crate::args::ProfileShow;
use crate::failure::{Failure, say};
use crate::print;
use mynah_analysis::views::{self, ViewError};
use mynah_analysis::{
    Analysis, Beyond, GroupBy, Limits, Part, ProfileReports, Shown, analyse, analyse_joined,
    analyse_part, join,
};
use mynah_drive_file::units::Duration;
use mynah_lab::batch;
use mynah_profile::Problem;
use mynah_result::output::{self, PendingFile};
use mynah_stamp::Span;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Runs `mynah profile show`.
pub(super) fn show(args: &ProfileShow) -> Result<(), Failure> {
    let on_stdout = [&args.json, &args.folded, &args.csv];
    let on_stdout = on_stdout.into_iter().flatten().filter(|path| is_stdout(path)).count();
    if on_stdout > 1 {
        let message = "one of --json, --folded and --csv can be standard output, not several";
        return Err(Failure::usage(message, Some("give the others a file")));
    }
    let by = args.group_by.clone().unwrap_or_default();
    // Views read the records again: so long the joined ones are in a file.
    let folder;
    let (profiles, base) = match args.target.is_empty() {
        true => read(args, &by)?,
        false => {
            folder = super::folder()?;
            joined(args, &folder.path().join("path"), &by)?
        }
    };
    let limits = Limits { link_bytes_per_s: args.link_limit, drive_bytes_per_s: args.drive_limit };
    let beyond = Beyond { limits };
    let mut reports = ProfileReports::knowing(&profiles, base.as_ref(), &beyond);
    reports.base.clone_from(&args.base);
    if let (false, Some(name), [report]) =
        (args.target.is_empty(), args.files.first(), &mut reports.profiles[..])
    {
        report.file = name.display().to_string();
    }
    if let Some(path) = &args.report {
        let verdict = reports.profiles.iter().find_map(|profile| Some(profile.verdict()?.text()));
        views::write_report(path, &reports, (&profiles, base.as_ref()), verdict.as_deref())?;
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
        0 => {
            let shown = Shown {
                queue_models: args.queue_models,
                interference: args.interference,
                ..Shown::default()
            };
            print::out(&reports.text_with(shown))
        }
        _ => Ok(()),
    }
}

/// The paths of I/Os, of a host's profiles and a target's, which are written to `file`; and their
/// base.
fn joined(
    args: &ProfileShow,
    file: &Path,
    by: &GroupBy,
) -> Result<(Vec<Analysis>, Option<Analysis>), Failure> {
    let help = "a host's side is what `mynah bench --profile=FILE` writes, a target's what `mynah \
                serve --profile FILE` does";
    if args.base.as_deref().is_some_and(|base| window(base).is_some()) {
        let help = "keep the paths with --save FILE, and show that file beside its part";
        return Err(Failure::usage("a part of profiles that are yet to be joined", Some(help)));
    }
    let joined = join(&args.files, &args.target)
        .map_err(|error| Failure::usage(error.to_string(), Some(help)))?;
    if let Some(path) = &args.save {
        super::keep(path, &joined.profile)?;
    }
    super::keep(file, &joined.profile)?;
    let paths = analyse_joined(file, &joined, by).map_err(|problem| foreign(&problem))?;
    let base = args.base.as_deref().map(|base| analyse(Path::new(base), by));
    Ok((vec![paths], base.transpose().map_err(|problem| foreign(&problem))?))
}

/// The profiles, and their base, which may be a part of the only one.
fn read(args: &ProfileShow, by: &GroupBy) -> Result<(Vec<Analysis>, Option<Analysis>), Failure> {
    let Some((from, until)) = args.base.as_deref().and_then(window) else {
        let base = args.base.as_deref().map(Path::new);
        let paths: Vec<&Path> = args.files.iter().map(PathBuf::as_path).chain(base).collect();
        let mut read = all(&paths, |path| analyse(path, by))?;
        let base = args.base.as_ref().and_then(|_| read.pop());
        return Ok((read, base));
    };
    let text = args.base.as_deref().unwrap_or_default();
    let [file] = &args.files[..] else {
        let message = format!("the part `{text}` is that of one profile, and several are given");
        return Err(Failure::usage(message, Some("give one FILE, or a base that is a file")));
    };
    if from >= until {
        let message = format!("the part `{text}` of a profile ends before it begins");
        return Err(Failure::usage(message, Some("write it as in 0s..10s")));
    }
    let parts = [Part::From(until), Part::Within(from, until)];
    let mut read = all(&parts, |part| analyse_part(file, by, *part))?;
    let base = read.pop();
    Ok((read, base))
}

/// A part of a profile, if that is what it says, and no file is called so.
fn window(text: &str) -> Option<(Span, Span)> {
    let (from, until) = text.split_once("..")?;
    let time = |text: &str| text.parse::<Duration>().ok().map(|it| it.0);
    let window = time(from).zip(time(until))?;
    (!Path::new(text).exists()).then_some(window)
}

/// Reads all of these, at once.
fn all<I: Sync, T: Send>(
    these: &[I],
    read: impl Fn(&I) -> Result<T, Problem> + Sync,
) -> Result<Vec<T>, Failure> {
    let done = batch::on_all(these, read);
    done.into_iter().map(|read| read.map_err(|problem| foreign(&problem))).collect()
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

/// The failure for a file that is not a profile.
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
