//! Files that appear whole or not at all: written under a temporary name beside their
//! place, and renamed when they are complete.

use std::io;
use std::path::{Path, PathBuf};

/// A file could not be written.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("cannot write {}: {error}", path.display())]
pub struct OutputError {
    /// Where it was to go.
    pub path: PathBuf,
    /// Why not.
    pub error: io::Error,
    /// Whether it could not even be begun.
    pub at_start: bool,
}

/// A file that is being written. Dropped without [`PendingFile::keep`], it is removed.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    kept: bool,
}

impl PendingFile {
    /// Creates the file under its temporary name. A place that exists and is not an ordinary
    /// file, such as a pipe or `/dev/null`, is written directly.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<PendingFile, OutputError> {
        let special = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        let mut temporary = path.to_owned();
        if !special {
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().unwrap_or_default());
            name.push(format!(".{}.partial", std::process::id()));
            temporary.set_file_name(name);
        }
        let file = PendingFile { path: path.to_owned(), temporary, kept: special };
        match special && !path.is_dir() {
            true => Ok(file),
            false => match std::fs::File::create(&file.temporary) {
                Ok(_) if path.file_name().is_some() => Ok(file),
                Ok(_) => Err(file.refused(io::ErrorKind::IsADirectory.into())),
                Err(error) => Err(file.refused(error)),
            },
        }
    }

    /// Where the file will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where to write until then.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// `error` with the file's name.
    pub fn error(&self, error: io::Error) -> OutputError {
        OutputError { path: self.path.clone(), error, at_start: false }
    }

    fn refused(&self, error: io::Error) -> OutputError {
        OutputError { at_start: true, ..self.error(error) }
    }

    /// Writes all of the file, and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self, text: &str) -> Result<(), OutputError> {
        std::fs::write(&self.temporary, text).map_err(|error| self.error(error))?;
        self.keep()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn keep(mut self) -> Result<(), OutputError> {
        if !self.kept {
            std::fs::rename(&self.temporary, &self.path).map_err(|error| self.error(error))?;
            self.kept = true;
        }
        Ok(())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes `text` to the file at `path`, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), OutputError> {
    PendingFile::create(path)?.finish(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let pending = PendingFile::create(&path).unwrap();
        std::fs::write(pending.temporary(), "half").unwrap();
        drop(pending);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write(&path, "whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(folder.path(), "").is_err());
        assert!(write(&folder.path().join("no/such/folder"), "").is_err());
        write(Path::new("/dev/null"), "gone").unwrap();
    }
}
