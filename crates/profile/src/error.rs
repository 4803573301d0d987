//! What can be wrong with a profile that is read.

use std::io;
use std::path::PathBuf;

/// What is wrong with a profile.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin with the magic bytes of a profile.
    #[error("this is no profile: it does not begin as one")]
    Foreign,
    /// It ends within its header.
    #[error("the file ends after {bytes} bytes, within the header of a profile")]
    Truncated {
        /// Size of the file.
        bytes: u64,
    },
    /// Its format is of another version.
    #[error("the profile is of version {0}; this program reads version 1")]
    Version(u32),
    /// Its description is of another version.
    #[error("the profile has schema `{0}`; this program reads {SCHEMA}", SCHEMA = crate::SCHEMA)]
    Schema(String),
    /// It contradicts itself.
    #[error("the profile is damaged: {0}")]
    Damaged(String),
}

/// What is wrong with which file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub error: ReadError,
}
