//! A profile read from the oldest record to the newest, once or again and again while it is being
//! written.
//!
//! Record `n` of a file with room for `s` lies in slot `(n - 1) % s`. Which ones can be read is told
//! by the count of those recorded, looked at before and after: what the writer may have come to
//! meanwhile is counted as lost, whatever its bytes look like.

use crate::error::{Problem, ReadError};
use crate::header::{Counts, HEADER_BYTES, Header};
use crate::read::parse;
use crate::record::Record;
use mynah_stamp::Span;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are read at a time, about.
const AT_ONCE: u64 = 1 << 18;

/// A profile that is followed.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    file: File,
    header: Header,
    /// The number of the last record that was read, or lost.
    last: u64,
    rows: Vec<u8>,
    stages: Vec<Span>,
    beside: Vec<u64>,
}

/// What one poll found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What the profile has counted so far.
    pub counts: Counts,
    /// Records that are new, and were read.
    pub read: u64,
    /// Records that were written over before they could be read.
    pub overwritten: u64,
    /// Records that were damaged.
    pub torn: u64,
    /// Whether another run has begun the file anew: what was read before belongs to the old run.
    pub anew: bool,
}

impl Follow {
    /// Opens the profile at `path`; the oldest record that is there comes first.
    ///
    /// # Errors
    /// If it is no profile.
    pub fn open(path: &Path) -> Result<Follow, Problem> {
        let fail = |error: ReadError| Problem { path: path.to_owned(), error };
        let file = File::open(path).map_err(|error| fail(error.into()))?;
        let (header, ..) = first_page(&file).map_err(fail)?;
        let (stages, beside) =
            (vec![Span::ZERO; header.stages.len()], vec![0; header.beside.len()]);
        Ok(Follow { path: path.to_owned(), file, header, last: 0, rows: vec![], stages, beside })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, which stays the same when another takes its name.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What the profile says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Gives `take` all records that were added since the last poll, the oldest first.
    ///
    /// # Errors
    /// If the file cannot be read, or is no profile any more.
    pub fn poll(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<Progress, ReadError> {
        let (header, slots, counts) = first_page(&self.file)?;
        let mut progress = Progress { counts, ..Progress::default() };
        if header != self.header || counts.recorded < self.last {
            progress.anew = true;
            self.stages = vec![Span::ZERO; header.stages.len()];
            self.beside = vec![0; header.beside.len()];
            self.header = header;
            self.last = 0;
        }
        let bytes = self.header.record_bytes();
        let room = self.file.metadata()?.len().saturating_sub(HEADER_BYTES as u64) / bytes;
        if slots > room {
            let what = format!("it has room for {room} of {slots} records");
            return Err(ReadError::Damaged(what));
        }
        if slots == 0 {
            return Ok(progress);
        }
        let newest = counts.recorded;
        while self.last < newest {
            let oldest = newest.saturating_sub(slots);
            if self.last < oldest {
                progress.overwritten += oldest - self.last;
                self.last = oldest;
            }
            // As many as lie in one piece.
            let slot = self.last % slots;
            let count = (newest - self.last).min(slots - slot).min((AT_ONCE / bytes).max(1));
            self.rows.resize((count * bytes) as usize, 0);
            self.file.read_exact_at(&mut self.rows, HEADER_BYTES as u64 + slot * bytes)?;
            let written = recorded(&self.file)?.max(newest);
            // The one after `written` may be under way, over the one that is `slots` before it.
            let gone = match written > newest {
                true => written.saturating_add(1).saturating_sub(slots),
                false => 0,
            };
            for (at, row) in self.rows.chunks_exact(bytes as usize).enumerate() {
                let number = self.last + 1 + at as u64;
                if number <= gone {
                    progress.overwritten += 1;
                    continue;
                }
                let (head, again) = parse(row, &mut self.stages, &mut self.beside);
                let kinds = self.header.kinds.len();
                if head.sequence != number || !again || usize::from(head.kind) >= kinds {
                    progress.torn += 1;
                    continue;
                }
                progress.read += 1;
                take(&Record { head, stages: &self.stages, beside: &self.beside });
            }
            self.last += count;
        }
        Ok(progress)
    }
}

fn first_page(file: &File) -> Result<(Header, u64, Counts), ReadError> {
    let mut page = vec![0; HEADER_BYTES];
    let mut read = 0;
    while read < page.len() {
        match file.read_at(&mut page[read..], read as u64) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Header::from_page(&page[..read])
}

/// How many records there have been by now.
fn recorded(file: &File) -> Result<u64, ReadError> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 8 * (crate::COUNTS_WORD as u64 + 1))?;
    Ok(u64::from_le_bytes(word))
}
