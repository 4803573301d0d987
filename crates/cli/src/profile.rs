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
    let (profiles, base) = read(args, &by)?;
    let limits = Limits { link_bytes_per_s: args.link_limit, drive_bytes_per_s: args.drive_limit };
    let beyond = Beyond { limits, ..Beyond::default() };
    let mut reports = ProfileReports::knowing(&profiles, base.as_ref(), &beyond);
    reports.base = args.base.clone();
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
fn all<I: Sync, T: Send, E: Display + Send>(
    these: &[I],
    read: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, Failure> {
    let help =
        "a profile is what `mynah sim --profile FILE` and `mynah serve --profile FILE` write";
    let done = batch::on_all(these, read);
    let fail = |problem: E| Failure::usage(problem.to_string(), Some(help));
    done.into_iter().map(|read| read.map_err(fail)).collect()
}
