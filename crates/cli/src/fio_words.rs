//! What to say to those who bring fio's words: options of fio's that mean something else here, or
//! nothing, and numbers and units in places where the command line takes them for something else.

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};

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

/// Units that somebody has parted from their number.
const UNITS: [&str; 14] =
    ["s", "ms", "us", "m", "h", "min", "sec", "k", "kb", "kib", "mib", "mb", "gib", "g"];

/// A better answer to a command line that cannot be parsed, if there is one.
pub(crate) fn explain(error: &clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(found) = error.get(ContextKind::InvalidArg)? else { return None };
    if found.parse::<f64>().is_ok() {
        let all: Vec<String> = std::env::args().collect();
        let at = all.iter().position(|given| given == found)?;
        let option = all.get(at.checked_sub(1)?).filter(|before| before.starts_with("--"))?;
        let help = "values are not below 0 here; as many as wanted, or without end, is said by \
                    leaving the option out";
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

/// Whether what stands in the place of a file is a unit: of the value before it.
pub(crate) fn is_parted_unit(path: &std::path::Path) -> bool {
    let text = path.to_str().unwrap_or_default().to_lowercase();
    UNITS.contains(&text.as_str()) && !path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

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
    fn parted_units_are_known() {
        assert!(is_parted_unit("s".as_ref()) && is_parted_unit("KiB".as_ref()));
        assert!(!is_parted_unit("two.toml".as_ref()));
    }
}
