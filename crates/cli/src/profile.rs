//! `mynah profile`: what profiles say.

use crate::args::{Profile, ProfileShow};
use crate::failure::Failure;
use crate::print;
use mynah_lab::profile::{
    Analysis, Beyond, GroupBy, Limits, Part, ProfileReports, Shown, analyse, analyse_part,
};
use mynah_lab::units::Duration;
use mynah_lab::{batch, output};
use mynah_stamp::Span;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Does what was asked for; never interrupted.
pub(crate) fn run(what: &Profile) -> Result<bool, Failure> {
    match what {
        Profile::Show(args) => show(args),
    }
}

fn show(args: &ProfileShow) -> Result<bool, Failure> {
    let by = args.group_by.clone().unwrap_or_default();
    let reports = reports(args, &by)?;
    let shown = Shown { queue_models: args.queue_models, interference: args.interference };
    match args.json.as_deref() {
        Some(path) if path == Path::new("-") => print::out(&reports.to_json())?,
        Some(path) => {
            output::write(path, &reports.to_json())?;
            print::out(&reports.text_with(shown))?;
        }
        None => print::out(&reports.text_with(shown))?,
    }
    Ok(false)
}

fn reports(args: &ProfileShow, by: &GroupBy) -> Result<ProfileReports, Failure> {
    let limits = Limits { link_bytes_per_s: args.link_limit, drive_bytes_per_s: args.drive_limit };
    let beyond = Beyond { limits, ..Beyond::default() };
    let Some((from, until)) = args.base.as_deref().and_then(window) else {
        let paths: Vec<&Path> = args
            .files
            .iter()
            .map(PathBuf::as_path)
            .chain(args.base.as_deref().map(Path::new))
            .collect();
        let mut read: Vec<Analysis> = all(&paths, |path| analyse(path, by))?;
        let base = args.base.as_ref().and_then(|_| read.pop());
        return Ok(ProfileReports::knowing(&read, base.as_ref(), &beyond));
    };
    if from >= until {
        let text = args.base.as_deref().unwrap_or_default();
        let message = format!("the part `{text}` of a profile ends before it begins");
        return Err(Failure::usage(message, Some("write it as in 0s..10s")));
    }
    let paths: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let pairs = all(&paths, |path| {
        let now = analyse_part(path, by, Part::Outside(from, until));
        let base = analyse_part(path, by, Part::Within(from, until));
        base.and_then(|base| now.map(|now| (base, now)))
    })?;
    let mut reports = ProfileReports::knowing(&[], None, &beyond);
    reports.base = args.base.clone();
    for (base, now) in &pairs {
        reports.profiles.extend(
            ProfileReports::knowing(std::slice::from_ref(now), Some(base), &beyond).profiles,
        );
    }
    Ok(reports)
}

/// A part of a profile, if that is what it says, and no file is called so.
fn window(text: &str) -> Option<(Span, Span)> {
    let (from, until) = text.split_once("..")?;
    let time = |text: &str| text.parse::<Duration>().ok().map(|it| it.0);
    let window = time(from).zip(time(until))?;
    (!Path::new(text).exists()).then_some(window)
}

/// Reads all files, at once.
fn all<T: Send, E: Display + Send>(
    paths: &[&Path],
    read: impl Fn(&Path) -> Result<T, E> + Sync,
) -> Result<Vec<T>, Failure> {
    let help =
        "a profile is what `mynah sim --profile FILE` and `mynah serve --profile FILE` write";
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let done = batch::run(paths, threads, |_, path| Some(read(path)));
    let fail = |problem: E| Failure::usage(problem.to_string(), Some(help));
    done.into_iter().flatten().map(|read| read.map_err(fail)).collect()
}
