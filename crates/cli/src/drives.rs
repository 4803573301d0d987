//! `mynah drives`: the shipped drives listed, shown and checked.

mod evidence;

use crate::args::{DriveCheck, Drives};
use crate::failure::Failure;
use crate::print;
use miette::Report;
use mynah_drive_file::{self as drive, Caution, DriveFile};
use std::fmt::Write;

fn load(name: &str, set: &[String]) -> Result<DriveFile, Failure> {
    drive::load(name, set).map_err(|error| Failure::Usage(Report::new(error)))
}

/// Lists, shows or checks drives.
pub(crate) fn run(what: Option<Drives>) -> Result<bool, Failure> {
    let text = match what.unwrap_or(Drives::List) {
        Drives::List => list()?,
        Drives::Show { name, toml: true, .. } => load(&name, &[])?.text,
        Drives::Show { name, set, .. } => load(&name, &set)?.show(),
        Drives::Check(args) if args.evidence => return evidence::run(&args),
        Drives::Check(args) => {
            refuse_evidence_options(&args)?;
            let DriveCheck { file, set, .. } = args;
            check(&load(&file.unwrap_or_default(), &set)?)
        }
        Drives::Schema => format!("{:#}\n", drive::json_schema()),
    };
    print::out(&text)?;
    Ok(false)
}

/// Refuses the options of --evidence where it is missing.
fn refuse_evidence_options(args: &DriveCheck) -> Result<(), Failure> {
    let given = [
        ("--json", args.json.is_some()),
        ("--svg", args.svg.is_some()),
        ("--threads", args.threads.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::usage(
            format!("{option} is about the evidence, and --evidence was not given"),
            Some(
                "add --evidence: it simulates what was published of the real drive. Without it a \
                 drive file is checked, and the answer is text",
            ),
        )),
    }
}

fn list() -> Result<String, Failure> {
    let drives = drive::shipped();
    let width = drives.iter().map(|drive| drive.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for drive in drives {
        let description = load(drive.name, &[])?.description;
        let _ = writeln!(text, "{:width$}  {}", drive.name, description.trim());
    }
    text.push_str(
        "\nThe first is the default. `mynah drives show NAME` prints every number of one,\n\
         `mynah drives show NAME --toml > my-drive.toml` begins a drive of your own.\n",
    );
    Ok(text)
}

fn check(file: &DriveFile) -> String {
    let mut text = format!("{}: drive `{}` [{}] can be built\n", file.origin, file.name, file.hash);
    let unsourced: Vec<&str> = file.unsourced().collect();
    if !unsourced.is_empty() {
        let _ = writeln!(
            text,
            "{} settings do not say where they come from: {}",
            unsourced.len(),
            unsourced.join(", ")
        );
    }
    let cautions = file.cautions();
    if !cautions.is_empty() {
        text.push_str("what makes its results other than you may expect:\n");
    }
    for Caution { setting, text: what } in cautions {
        let _ = writeln!(text, "  {setting}: {what}");
    }
    text
}
