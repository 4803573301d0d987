//! What to say to those who bring fio's words: options of fio's that mean something else here, or
//! nothing, numbers and units in places where the command line takes them for something else, and what
//! is no text.

use crate::args::Cli;
use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory};
use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

/// fio's options that this command does not have, and what stands for them. The names are those of
/// fio 3.33's `fio --cmdhelp=all`.
const WORDS: [(&[&str], &str); 12] = [
    (
        &["ioengine", "direct", "buffered", "invalidate", "thread"],
        "it is about the system that fio runs on, and there is none here: leave it out",
    ),
    (
        &["group_reporting", "output-format", "output"],
        "flows with numjobs are reported together; --json FILE writes the result",
    ),
    (
        &["filename", "directory", "nrfiles", "filesize"],
        "the drive is what is used: --drive NAME (mynah sim, mynah serve), or the target's address \
         (mynah bench); --size and --offset say which part of it",
    ),
    (&["fdatasync"], "it is --fsync here: to a drive both are one flush"),
    (&["norandommap"], "it is always so here: random I/Os may come to a block again"),
    (&["blocksize", "blocksize_range"], "it is --bs here, as in fio"),
    (&["readwrite"], "it is --rw here, as in fio"),
    (
        &["rate", "rate_min"],
        "the rate of an open loop is in I/Os a second here: --rate_iops, which is the bytes a second \
         over --bs",
    ),
    (&["random_generator", "allrandrepeat", "randrepeat"], "--seed N makes other random numbers"),
    (&["loops"], "--io_size SIZE says how much is issued: as many times --size as there are loops"),
    (
        &["stonewall"],
        "that is an option between jobs: in a job file (--fio), or `wait_for_previous` of a flow",
    ),
    (
        &["iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete", "iodepth_low"],
        "requests are issued one by one as others complete: leave it out",
    ),
];

/// Units that may stand apart from their number by mistake.
const UNITS: [&str; 14] =
    ["s", "ms", "us", "m", "h", "min", "sec", "k", "kb", "kib", "mib", "mb", "gib", "g"];

/// A better answer to a command line that cannot be parsed, if there is one.
pub(crate) fn explain(error: &clap::Error) -> Option<Failure> {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return no_text(&std::env::args_os().collect::<Vec<_>>());
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(found) = error.get(ContextKind::InvalidArg)? else { return None };
    if found.parse::<f64>().is_ok() {
        let all: Vec<String> = std::env::args().collect();
        let at = all.iter().position(|given| given == found)?;
        let option = all.get(at.checked_sub(1)?).filter(|before| before.starts_with("--"))?;
        if !found.starts_with('-') {
            let message = format!("`{found}` behind {option} belongs to nothing");
            return Some(Failure::usage(message, Some(BEHIND_EQUALS)));
        }
        let help = "values are not below 0 here; without the option there is its default, or no \
                    limit";
        return Some(Failure::usage(format!("{option} {found}: out of range"), Some(help)));
    }
    let name = found.strip_prefix("--")?.split('=').next()?;
    let fio = name.replace('-', "_");
    let (_, meaning) =
        WORDS.iter().find(|(names, _)| names.contains(&fio.as_str()) || names.contains(&name))?;
    Some(Failure::usage(
        format!("{found}: an option of fio's that is not known here"),
        Some(meaning),
    ))
}

/// Names the argument that is no text, where only text is taken: that of an option, or else any.
/// Options that are for files alone take whatever the system does.
fn no_text(all: &[OsString]) -> Option<Failure> {
    let files = for_files(all);
    let is_option = |text: &str| text.starts_with('-') && text.len() > 1;
    let found = all.iter().enumerate().skip(1).filter(|(_, given)| given.to_str().is_none());
    let named = found.map(|(at, given)| {
        let text = given.to_string_lossy().into_owned();
        let before = all[at - 1].to_str().filter(|before| is_option(before));
        match (text.split_once('='), before) {
            (Some((option, value)), _) if is_option(option) => {
                (option.to_owned(), value.to_owned())
            }
            (_, Some(option)) => (option.to_owned(), text),
            _ => (String::new(), text),
        }
    });
    let mut refused = named.filter(|(option, _)| !files.contains(option)).collect::<Vec<_>>();
    refused.sort_by_key(|(option, _)| option.is_empty());
    let (option, value) = refused.first()?;
    let place = if option.is_empty() { "an argument" } else { option };
    Some(Failure::usage(
        format!("{place}: `{value}` is not UTF-8, and is taken as text here"),
        Some("give the file another name, or lead to it by a symbolic link that has one"),
    ))
}

/// The verb's options whose values are files.
fn for_files(all: &[OsString]) -> Vec<String> {
    let command = Cli::command();
    let mut verb = &command;
    for word in all.iter().filter_map(|word| word.to_str()) {
        verb = verb.find_subcommand(word).unwrap_or(verb);
    }
    let is_file = |option: &&Arg| option.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let names = verb.get_arguments().filter(is_file).filter_map(Arg::get_long);
    names.map(|name| format!("--{name}")).collect()
}

/// How what may be left out is given.
const BEHIND_EQUALS: &str = "a value that may be left out follows behind `=`, as in --fdp=1";

/// Where what stands in the place of a file belongs to the option before it: how it is written.
pub(crate) fn how_to_join(path: &std::path::Path) -> Option<&'static str> {
    let text = path.to_str().unwrap_or_default().to_lowercase();
    match text.as_str() {
        _ if path.exists() => None,
        "0" | "1" | "true" | "false" => Some(BEHIND_EQUALS),
        unit if UNITS.contains(&unit) => Some("write a value and its unit together, as in 10s"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// The names are those of files that others made.
    #[test]
    fn what_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let said = |args: &[&[u8]]| {
            let all = args.iter().map(|arg| OsString::from_vec(arg.to_vec()));
            let Failure::Usage(report) = no_text(&all.collect::<Vec<_>>())? else { return None };
            Some(format!("{report:?}"))
        };
        for (args, place) in [
            (&[&b"mynah"[..], b"sim", b"--trace", b"/a/\xff"][..], "--trace: `/a/\u{fffd}`"),
            (&[b"mynah", b"sim", b"--trace=/a/\xff"], "--trace: `/a/\u{fffd}`"),
            (&[b"mynah", b"serve", b"--store", b"file:\xff"], "--store: `file:\u{fffd}`"),
            // What comes first is a file's name, and is taken.
            (
                &[b"mynah", b"sim", b"--json", b"\xff", b"--trace", b"\xfe.x"],
                "--trace: `\u{fffd}.x`",
            ),
            (&[b"mynah", b"drives", b"show", b"\xff"], "an argument: `\u{fffd}`"),
        ] {
            let said = said(args).expect("an explanation");
            assert!(said.contains(place), "{said}");
        }
    }

    fn explained(args: &[&str]) -> Option<String> {
        let error = Cli::try_parse_from(args).err().expect("it is no option");
        explain(&error).map(|failure| match failure {
            Failure::Usage(report) => format!("{report:?}"),
            _ => unreachable!(),
        })
    }

    #[test]
    fn words_of_fios_have_their_meaning_said() {
        for (names, _) in WORDS {
            for name in names {
                let option = format!("--{name}");
                let said = explained(&["mynah", "sim", &option, "1"]);
                assert!(said.is_some_and(|said| said.contains(name)), "{name}");
            }
        }
        assert_eq!(explained(&["mynah", "sim", "--no-such-option"]), None);
    }

    #[test]
    fn what_belongs_to_the_option_before_it_is_known() {
        let joined = |text: &str| how_to_join(text.as_ref());
        assert!(joined("s").is_some() && joined("KiB") == joined("s"));
        assert_eq!(joined("1"), Some(BEHIND_EQUALS));
        assert_eq!(joined("two.toml"), None);
    }
}
