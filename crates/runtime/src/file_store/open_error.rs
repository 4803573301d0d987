//! Why a file cannot be a drive's store, and what helps: everything that can be known before the
//! drive is served.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Why a file cannot be a drive's store.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct OpenError {
    pub(super) path: PathBuf,
    pub(super) problem: Problem,
}

impl OpenError {
    /// A file that opened well, but in which nothing can be noted.
    pub(crate) fn unusable(path: &Path, cause: Option<String>) -> OpenError {
        let cause = cause.unwrap_or_else(|| "no reason is given".to_owned());
        OpenError { path: path.to_owned(), problem: Problem::Unusable(cause) }
    }

    /// What the user can do about it.
    pub fn help(&self) -> &'static str {
        const ANEW: &str = "move it away, or give another path: a drive begins anew there";
        match &self.problem {
            Problem::Open(error) | Problem::Io(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    "a file that is not there is made, but its folder must exist"
                }
                io::ErrorKind::PermissionDenied => {
                    "the user who serves must be allowed to read and write it, and its folder \
                     where it is to be made"
                }
                io::ErrorKind::ReadOnlyFilesystem => "give a path on a file system for writing",
                _ => "give another path, or see to that file system",
            },
            Problem::Kind(_) => "give the path of an ordinary file; one that is not there is made",
            Problem::Threads(_) => "see to memory and limits of the process (ulimit -v, ulimit -u)",
            Problem::InUse => "end that process first, or give another path",
            Problem::Foreign => "give a path where no file is yet, or a file that --store has made",
            Problem::Format(_) => "use the version of mynah that has made it, or give another path",
            Problem::Damaged => ANEW,
            Problem::Length { file, wanted } if file > wanted => {
                "if nothing else has changed it, `truncate -s` cuts it to its length"
            }
            Problem::Length { .. } => {
                "what lay behind that is gone: bring a whole copy back, or give another path"
            }
            Problem::Size { .. } => {
                "serve the drive that it was made for, with the kinds of namespaces (--namespace) that it \
                 had, or give another path"
            }
            Problem::TooLarge(_) => "serve a smaller drive, or with --store ram",
            Problem::NoRoom(_) | Problem::Unusable(_) => {
                "see to room on its file system and to limits (df, quota, ulimit -f), or give \
                 another path"
            }
        }
    }
}

/// Why a file cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("it cannot be opened: {0}")]
    Open(io::Error),
    #[error("it cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("it is {0}, and a store is a file")]
    Kind(&'static str),
    #[error("another process is using it")]
    InUse,
    #[error(
        "it is not a store of Mynah's, or has been truncated: it neither begins nor ends as one"
    )]
    Foreign,
    #[error("its format is {0}, and this program knows formats up to 2")]
    Format(u32),
    #[error(
        "it is a store of Mynah's, but damaged: neither of its headers has the checksum that it should \
         have"
    )]
    Damaged,
    #[error("it has {file} bytes, but should have {wanted}: it has been {}", changed(*file, *wanted))]
    Length { file: u64, wanted: u64 },
    #[error("it holds a drive of {file} bytes, but this drive has {drive}")]
    Size { file: u64, drive: u64 },
    #[error("no file can hold a drive of {0} bytes")]
    TooLarge(u64),
    #[error("there is no room for what is to be noted in it: {0}")]
    NoRoom(io::Error),
    #[error("the threads that wait for it cannot be started: {0}")]
    Threads(io::Error),
    #[error("nothing can be noted in it: {0}")]
    Unusable(String),
}

/// What makes a file's length another.
fn changed(file: u64, wanted: u64) -> &'static str {
    if file < wanted { "truncated" } else { "added to" }
}

/// What is at a path that is no file; `None` where that can be a store.
pub(super) fn odd_kind(path: &Path) -> Option<&'static str> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    let kinds = [
        (kind.is_dir(), "a directory"),
        (kind.is_fifo(), "a pipe"),
        (kind.is_socket(), "a socket"),
        (kind.is_block_device() || kind.is_char_device(), "a device"),
    ];
    kinds.into_iter().find_map(|(is, name)| is.then_some(name))
}
