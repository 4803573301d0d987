//! Ledgers: finished runs, kept in a folder, so that none runs again.
//!
//! A folder has the experiment, a lock and `runs.jsonl`: a line that says whose runs these are, then
//! a line for every finished run, appended and synced before the next is waited for. A run is known
//! by its key (`key`), which every front end computes alike, so one may go on where another
//! stopped. Whoever was killed while it wrote leaves a torn last line, which is cut off. Every line
//! ends with a checksum: one that is not as it was written is refused, and the file left as it is. What a run
//! measured is what is kept of it; one that failed is kept as failed.
//!
//! A ledger is of one build and one sweep, and has one driver at a time: all else is refused.

mod key;
mod lines;
mod lock;

pub use key::{Files, Key};
pub use mynah_lab::BUILD;

use lines::{Lines, Place};
use lock::Lock;
use miette::Diagnostic;
use mynah_result::output::{self, OutputError};
use mynah_result::{FailedRun, Result as RunResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The format that this module reads and writes.
pub const SCHEMA: &str = "mynah.ledger/2";

/// The file of runs in the folder.
const RUNS: &str = "runs.jsonl";

/// Why a ledger cannot be used.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum LedgerError {
    /// The system refuses access to the folder or a file in it.
    #[error("cannot use the ledger {}: {error}", path.display())]
    System {
        /// Its folder, or a file in it.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file of it that may be another's.
    #[error("cannot use the ledger: {} is a symbolic link", path.display())]
    #[diagnostic(help(
        "a ledger writes only to files of its own folder: remove the link, or take another folder"
    ))]
    Link {
        /// The symbolic link.
        path: PathBuf,
    },
    /// Nothing more can be written.
    #[error("the ledger {} takes no more: {error}; {kept} finished runs are kept", path.display())]
    #[diagnostic(help("what is kept need not run again: make room, and start the same once more"))]
    Full {
        /// The ledger's folder.
        path: PathBuf,
        /// Number of finished runs that the ledger has.
        kept: usize,
        /// The system's error.
        error: io::Error,
    },
    /// The ledger was written by another build.
    #[error("the ledger {} is of Mynah {theirs}, and this is {ours}", path.display())]
    #[diagnostic(help("its runs may not be what this build would give: take another folder"))]
    Build {
        /// The ledger's folder.
        path: PathBuf,
        /// The build that wrote it.
        theirs: String,
        /// This build.
        ours: String,
    },
    /// The ledger has runs of another experiment.
    #[error("the ledger {} has {theirs}, and this is {ours}", path.display())]
    #[diagnostic(help("a ledger is of one experiment: take another folder"))]
    Other {
        /// The ledger's folder.
        path: PathBuf,
        /// What the ledger has runs of.
        theirs: String,
        /// What was to be run now.
        ours: String,
    },
    /// The ledger's file format is not supported.
    #[error("the ledger {} has the format `{found}`, and this is {BUILD}, which reads {SCHEMA}", path.display())]
    #[diagnostic(help("the Mynah that wrote it reads it, or take another folder"))]
    Format {
        /// The ledger's folder.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// Another process or run has locked the ledger.
    #[error("the ledger {} is in use by {holder}; this is {us}", path.display())]
    #[diagnostic(help("one at a time can add to it: wait for the other to end"))]
    Held {
        /// The ledger's folder.
        path: PathBuf,
        /// Who has locked it.
        holder: String,
        /// Who tried to lock it.
        us: String,
    },
    /// A line is not as a ledger writes it, or its checksum is wrong.
    #[error("{}:{line}: {problem}", path.display())]
    #[diagnostic(help("the file is left as it is: without this line, its run is run again"))]
    Broken {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with the line.
        problem: String,
    },
    /// A file that a run reads, such as a trace, cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A run that can be done only once.
    #[error("a trace on standard input or a pipe is gone when it was read: no ledger can have it")]
    #[diagnostic(help("write the trace to a file"))]
    Pipe,
    /// The experiment beside the runs.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
}

impl LedgerError {
    /// Whether what the user gave is at fault, and not the machine.
    pub fn is_usage(&self) -> bool {
        !matches!(self, LedgerError::Full { .. })
    }
}

/// What the runs of a ledger belong to.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Identifies a sweep; `None`: any runs whatever.
    pub sweep: Option<String>,
    /// What to call it, as in `18 runs varying flow.writer.iodepth`.
    pub title: String,
    /// Names and texts of files that are written beside the runs, to continue from.
    pub files: Vec<(String, String)>,
}

impl Contents {
    /// The contents of a ledger of the sweep with these runs.
    pub fn of_sweep(keys: &[Key], title: String, files: Vec<(String, String)>) -> Contents {
        Contents { sweep: Some(key::of_all(keys)), title, files }
    }

    fn named(&self) -> String {
        named(self.sweep.as_deref(), &self.title)
    }
}

fn named(sweep: Option<&str>, title: &str) -> String {
    match sweep {
        Some(id) => format!("{title} (sweep {})", id.get(..12).unwrap_or(id)),
        None => "runs of all kinds".to_owned(),
    }
}

/// The first line of a ledger's file.
#[derive(Serialize, Deserialize)]
struct Header {
    ledger: String,
    build: String,
    sweep: Option<String>,
    title: String,
}

/// A finished run, as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    Done(Box<RunResult>),
    Failed(FailedRun),
    /// Other data under a key of its own.
    Value(serde_json::Value),
}

#[derive(Serialize)]
struct Line<'a> {
    key: String,
    #[serde(flatten)]
    entry: &'a Entry,
}

#[derive(Deserialize)]
struct ReadLine {
    #[serde(flatten)]
    entry: Entry,
}

/// The bytes of a run's line before its key, and after it.
const BEFORE_KEY: &[u8] = b"{\"key\":\"";
const AFTER_KEY: &[u8] = b"\",\"";
const FAILED: &[u8] = b"failed\"";

/// Where a run's line is in the file.
#[derive(Clone, Copy, Debug)]
struct RunLine {
    place: Place,
    line: usize,
    failed: bool,
}

/// Finished runs in a folder, open to be added to.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    lines: Lines<File>,
    runs: BTreeMap<Key, RunLine>,
    count: usize,
    _lock: Lock,
}

impl Ledger {
    /// Opens the ledger in `folder`, which is made if it is not there. `us` says who this is, as
    /// in `mynah sim`, for whoever comes second.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn open(folder: &Path, contents: &Contents, us: &str) -> Result<Ledger, LedgerError> {
        let system = |error| LedgerError::System { path: folder.to_owned(), error };
        std::fs::create_dir_all(folder).map_err(system)?;
        let lock = Lock::take(folder, us)?;
        let path = folder.join(RUNS);
        let file = open_own(&path)?;
        let system = |error| LedgerError::System { path: path.clone(), error };
        let mut lines = Lines::new(file).map_err(system)?;
        let mut runs = BTreeMap::new();
        let mut count = 0;
        let mut begun = false;
        let mut refused = None;
        lines
            .scan(&mut |place, line| {
                count += 1;
                let read = if begun { whole_run(line).map(Some) } else { Ok(None) };
                begun = true;
                match read {
                    Ok(None) => refused = check(folder, &path, contents, line).err(),
                    Ok(Some((key, failed))) => {
                        runs.insert(key, RunLine { place, line: count, failed });
                    }
                    Err(problem) => {
                        let path = path.clone();
                        refused = Some(LedgerError::Broken { path, line: count, problem });
                    }
                }
                refused.is_none()
            })
            .map_err(system)?;
        if let Some(error) = refused {
            return Err(error);
        }
        if !begun {
            for (name, text) in &contents.files {
                output::write(&folder.join(name), text)?;
            }
            let header = Header {
                ledger: SCHEMA.to_owned(),
                build: BUILD.to_owned(),
                sweep: contents.sweep.clone(),
                title: contents.title.clone(),
            };
            lines.clear().map_err(system)?;
            let full = |error| LedgerError::Full { path: folder.to_owned(), kept: 0, error };
            lines.append(&plain(&header)).map_err(full)?;
            count = 1;
            // The names of new files are synced with the folder.
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(full)?;
        }
        Ok(Ledger { folder: folder.to_owned(), lines, runs, count, _lock: lock })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many runs it has, failed ones included.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether it has this run, and if so, whether that failed.
    pub fn has_failed(&self, key: &Key) -> Option<bool> {
        self.runs.get(key).map(|run| run.failed)
    }

    /// The entry of a run; `None` if the ledger does not have it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn get(&mut self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let Some(&RunLine { place, line, .. }) = self.runs.get(key) else { return Ok(None) };
        let path = self.folder.join(RUNS);
        let text = self.lines.read(place);
        let text = text.map_err(|error| LedgerError::System { path: path.clone(), error })?;
        match serde_json::from_slice::<ReadLine>(&text) {
            Ok(read) => Ok(Some(read.entry)),
            Err(error) => Err(LedgerError::Broken { path, line, problem: error.to_string() }),
        }
    }

    /// Adds a run. It is on disk when this returns. If that is not possible, all that was there
    /// before still is, and nothing else.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, key: Key, entry: &Entry) -> Result<(), LedgerError> {
        let line = plain(&Line { key: key.to_string(), entry });
        let kept = self.runs.len();
        let place = self.lines.append(&line).map_err(|error| LedgerError::Full {
            path: self.folder.clone(),
            kept,
            error,
        })?;
        self.count += 1;
        let failed = matches!(entry, Entry::Failed(_));
        self.runs.insert(key, RunLine { place, line: self.count, failed });
        Ok(())
    }
}

/// Opens or creates a file of a ledger for writing. Symbolic links are refused, for they may lead
/// to files of others.
fn open_own(path: &Path) -> Result<File, LedgerError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options.open(path).map_err(|error| {
        let path = path.to_owned();
        match path.is_symlink() {
            true => LedgerError::Link { path },
            false => LedgerError::System { path, error },
        }
    })
}

/// The bytes of a line before its checksum, and after it.
const BEFORE_SUM: &[u8] = b",\"crc32\":\"";
const AFTER_SUM: &[u8] = b"\"}";
/// Hexadecimal digits of a CRC-32.
const SUM_DIGITS: usize = 8;

/// Plain data, which has fields, as one line of JSON whose last field is a checksum of all before it.
fn plain(value: &impl Serialize) -> String {
    let line = serde_json::to_string(value).expect("this is plain data");
    String::from_utf8(summed(line.as_bytes())).expect("a checksum is text")
}

/// Appends a checksum to a line that ends as a JSON object does; other lines stay as they are.
pub(crate) fn summed(line: &[u8]) -> Vec<u8> {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    let Some(text) = body.strip_suffix(b"}") else { return line.to_vec() };
    let sum = format!("{:08x}", crc32fast::hash(text));
    let end = &line[body.len()..];
    [text, BEFORE_SUM, sum.as_bytes(), AFTER_SUM, end].concat()
}

/// Checks a line's checksum: a changed digit would still be valid JSON.
fn check_sum(line: &[u8]) -> Result<(), String> {
    let rest = line.strip_suffix(AFTER_SUM);
    let digits = rest.and_then(|rest| rest.split_last_chunk::<SUM_DIGITS>());
    let parts = digits.and_then(|(rest, digits)| Some((rest.strip_suffix(BEFORE_SUM)?, digits)));
    let Some((text, digits)) = parts else {
        return Err("this line has no checksum at its end".to_owned());
    };
    let sum = format!("{:08x}", crc32fast::hash(text));
    match sum.as_bytes() == digits {
        true => Ok(()),
        false => Err(format!(
            "this line is not as it was written: its checksum is {}, and {sum} would be right",
            digits.escape_ascii()
        )),
    }
}

/// Like [`kept_run`], after checking the line's checksum.
fn whole_run(line: &[u8]) -> Result<(Key, bool), String> {
    let run = kept_run(line)?;
    check_sum(line)?;
    Ok(run)
}

/// The key in a line, and whether its run failed. The rest is read when it is needed: of many
/// thousands of runs it is much.
fn kept_run(line: &[u8]) -> Result<(Key, bool), &'static str> {
    const WRONG: &str = "this line is not of a run";
    let rest = line.strip_prefix(BEFORE_KEY).ok_or(WRONG)?;
    let (key, rest) = rest.split_at_checked(key::DIGITS).ok_or(WRONG)?;
    let key = std::str::from_utf8(key).ok().and_then(Key::parse).ok_or(WRONG)?;
    let rest = rest.strip_prefix(AFTER_KEY).ok_or(WRONG)?;
    if !rest.ends_with(b"}") {
        return Err(WRONG);
    }
    Ok((key, rest.starts_with(FAILED)))
}

/// Refuses a ledger whose header does not match these contents.
fn check(folder: &Path, file: &Path, contents: &Contents, line: &[u8]) -> Result<(), LedgerError> {
    #[derive(Deserialize)]
    struct Format {
        ledger: String,
    }
    let broken = |error: serde_json::Error| LedgerError::Broken {
        path: file.to_owned(),
        line: 1,
        problem: format!("this is no ledger: {error}"),
    };
    let Format { ledger } = serde_json::from_slice(line).map_err(broken)?;
    let path = folder.to_owned();
    if ledger != SCHEMA {
        return Err(LedgerError::Format { path, found: ledger });
    }
    let header: Header = serde_json::from_slice(line).map_err(broken)?;
    if header.build != BUILD {
        return Err(LedgerError::Build { path, theirs: header.build, ours: BUILD.to_owned() });
    }
    let broken = |problem| LedgerError::Broken { path: file.to_owned(), line: 1, problem };
    check_sum(line).map_err(broken)?;
    if header.sweep != contents.sweep {
        let theirs = named(header.sweep.as_deref(), &header.title);
        return Err(LedgerError::Other { path, theirs, ours: contents.named() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
