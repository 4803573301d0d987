//! The ring file of a drive that is served, as a source.

use super::is_same_file;
use crate::failure::Failure;
use crate::profile::foreign;
use mynah_analysis::live::{Polled, Source, SourceError};
use mynah_profile::{Follow, Header, ReadError, Record, Writer};
use mynah_result::output::PendingFile;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Looks in a row at which a file may be half made: its writer is about to begin it anew.
const PATIENCE: u32 = 20;

/// A profile that another process writes.
pub(super) struct FileSource {
    path: PathBuf,
    follow: Follow,
    half_made: u32,
}

impl FileSource {
    /// Opens the profile at `path`.
    pub(super) fn open(path: &Path) -> Result<FileSource, Failure> {
        let follow = Follow::open(path).map_err(|problem| foreign(&problem))?;
        Ok(FileSource { path: path.to_owned(), follow, half_made: 0 })
    }

    /// Why nothing more will come, if that is so: whoever writes a profile holds a lock on it.
    fn ended(&self) -> Option<String> {
        let path = self.path.display();
        match is_same_file(&self.path, self.follow.file()) {
            Ok(true) => {}
            Ok(false) => return Some(format!("{path} is another file now")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("{path} is gone"));
            }
            Err(error) => return Some(format!("{path}: {error}")),
        }
        match flock(self.follow.file(), FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(self.follow.file(), FlockOperation::Unlock);
                Some(format!("nobody writes {path} any more"))
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => None,
            // Where there are no locks, it just goes on.
            Err(_) => None,
        }
    }

    fn error(&self, error: impl std::fmt::Display) -> SourceError {
        SourceError(format!("{}: {error}", self.path.display()))
    }
}

impl Source for FileSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn header(&self) -> &Header {
        self.follow.header()
    }

    fn poll(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<Polled, SourceError> {
        // Before the look, so that it finds all there will be.
        let ended = self.ended();
        match self.follow.poll(take) {
            Ok(progress) => {
                self.half_made = 0;
                Ok(Polled {
                    counts: progress.counts,
                    overwritten: progress.overwritten,
                    torn: progress.torn,
                    anew: progress.anew,
                    ended,
                })
            }
            Err(error) if is_half_made(&error) && ended.is_none() && self.half_made < PATIENCE => {
                self.half_made += 1;
                Ok(Polled { anew: true, ..Polled::default() })
            }
            Err(error) => Err(self.error(error)),
        }
    }

    fn save(&mut self, path: &Path) -> Result<u64, SourceError> {
        let mut all =
            Follow::open(&self.path).map_err(|problem| SourceError(problem.to_string()))?;
        let file =
            PendingFile::create_private(path).map_err(|error| SourceError(error.to_string()))?;
        let records = copy(&mut all, file.file()).map_err(|error| self.error(error))?;
        file.keep().map_err(|error| SourceError(error.to_string()))?;
        Ok(records)
    }
}

/// Whether a file looks as one does whose writer is about to make it.
fn is_half_made(error: &ReadError) -> bool {
    match error {
        ReadError::Foreign | ReadError::Truncated { .. } | ReadError::Damaged(_) => true,
        ReadError::Io(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        ReadError::Version(_) | ReadError::Schema(_) => false,
    }
}

/// Copies the records that there are to a profile of their own; how many.
fn copy(from: &mut Follow, to: io::Result<File>) -> Result<u64, ReadError> {
    let header = from.header().clone();
    let mut writer = Writer::new(BufWriter::new(to?), header)?;
    let mut written = Ok(());
    let progress = from.poll(&mut |record| {
        if written.is_ok() {
            let stages = record.stages.iter().copied();
            written = writer.record(record.head, stages, record.beside);
        }
    })?;
    written?;
    if progress.anew {
        return Err(ReadError::Damaged("another run has begun it anew".to_owned()));
    }
    Ok(writer.finish()?.recorded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_profile::{Head, Profile, Side, TimeBase};
    use mynah_stamp::Span;

    fn write(path: &Path, name: &str, count: u64) {
        let mut header = Header::new(Side::Target, name, TimeBase::Monotonic);
        header.kinds = vec!["read".into()];
        header.stages = vec!["processing".into()];
        let mut writer = Writer::new(File::create(path).unwrap(), header).unwrap();
        for nth in 0..count as u32 {
            writer.record(Head { nth, ..Head::default() }, [Span::ZERO], &[]).unwrap();
        }
        writer.finish().unwrap();
    }

    /// A second descriptor holds a lock as another process does.
    fn lock(path: &Path) -> File {
        let file = File::open(path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    }

    #[test]
    fn it_ends_with_its_writer_or_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.profile");
        write(&path, "one", 5);
        let writer = lock(&path);
        let mut source = FileSource::open(&path).ok().unwrap();
        let mut seen = 0;
        let polled = source.poll(&mut |_| seen += 1).unwrap();
        assert_eq!((seen, polled.counts.recorded, polled.ended), (5, 5, None));
        // Another run begins: half made first.
        std::fs::write(&path, "").unwrap();
        let polled = source.poll(&mut |_| panic!("there is none")).unwrap();
        assert_eq!((polled.anew, polled.ended), (true, None));
        write(&path, "two", 3);
        let mut seen = 0;
        let polled = source.poll(&mut |_| seen += 1).unwrap();
        assert_eq!((seen, polled.anew, source.header().name.as_str()), (3, true, "two"));
        drop(writer);
        let polled = source.poll(&mut |_| panic!("it has been read")).unwrap();
        assert!(polled.ended.is_some_and(|said| said.starts_with("nobody writes ")));
        let _writer = lock(&path);
        let moved = folder.path().join("b.profile");
        std::fs::rename(&path, &moved).unwrap();
        assert!(source.poll(&mut |_| ()).unwrap().ended.unwrap().ends_with(" is gone"));
        write(&path, "three", 1);
        assert!(source.poll(&mut |_| ()).unwrap().ended.unwrap().ends_with("another file now"));
        // A file that stays no profile is said to be none.
        std::fs::rename(&moved, &path).unwrap();
        std::fs::write(&path, "something else").unwrap();
        let error = (0..PATIENCE + 1).find_map(|_| source.poll(&mut |_| ()).err());
        assert!(error.unwrap().to_string().contains("this is no profile"));
    }

    #[test]
    fn what_is_there_can_be_saved() {
        let folder = tempfile::tempdir().unwrap();
        let [path, saved] = ["a", "b"].map(|name| folder.path().join(name));
        write(&path, "one", 5);
        let mut source = FileSource::open(&path).ok().unwrap();
        source.poll(&mut |_| ()).unwrap();
        assert_eq!(source.save(&saved).unwrap(), 5);
        let copy = Profile::open(&saved).unwrap();
        assert_eq!((copy.header(), copy.counts().recorded), (source.header(), 5));
        assert_eq!(std::fs::read(&saved).unwrap(), std::fs::read(&path).unwrap());
        assert!(source.save(folder.path()).is_err());
    }
}
