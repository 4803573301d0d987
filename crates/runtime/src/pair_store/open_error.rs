//! Why a folder cannot hold a drive's pairs, and what helps.

use std::io;
use std::path::{Path, PathBuf};

/// Why a folder cannot hold a drive's pairs.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct OpenError {
    path: PathBuf,
    problem: Problem,
}

impl OpenError {
    pub(super) fn new(path: &Path, problem: Problem) -> OpenError {
        OpenError { path: path.to_owned(), problem }
    }

    pub(super) fn threads(path: &Path, error: io::Error) -> OpenError {
        OpenError::new(path, Problem::Threads(error))
    }

    /// Pairs that are more than the drive has room for, in this namespace of the model.
    pub(crate) fn room(path: &Path, namespace: u32) -> OpenError {
        OpenError::new(path, Problem::Room(namespace))
    }

    /// What the user can do about it.
    pub fn help(&self) -> &'static str {
        match &self.problem {
            Problem::Io(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    "a folder that is not there is made, but the folder that it is to be in must exist"
                }
                io::ErrorKind::PermissionDenied => {
                    "its user must be allowed to read and write it and what is in it"
                }
                _ => {
                    "see to room on its file system and to limits (df, quota, ulimit -f, ulimit -n)"
                }
            },
            Problem::InUse => "end that process first, or give another path",
            Problem::Kind => "give the path of a folder; one that is not there is made",
            Problem::Foreign(_) => {
                "give a path where nothing is yet, or a folder that was made for pairs"
            }
            Problem::Format(_) => "use the version of mynah that has made it, or give another path",
            Problem::Damaged(_) => {
                "bring a whole copy back, or move it away: a drive begins anew at another path"
            }
            Problem::Room(_) => "serve the drive that they were stored on, or give another path",
            Problem::Threads(_) => "see to memory and limits of the process (ulimit -v, ulimit -u)",
        }
    }
}

/// Why a folder cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("it cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("another process is using it")]
    InUse,
    #[error("it is not a folder")]
    Kind,
    #[error("it is not a folder of pairs: {0}")]
    Foreign(String),
    #[error("its format is {0}, and this program knows only format 1")]
    Format(u32),
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("the pairs in it do not fit into namespace {0} of this drive")]
    Room(u32),
    #[error("the thread that works with it cannot be started: {0}")]
    Threads(io::Error),
}
